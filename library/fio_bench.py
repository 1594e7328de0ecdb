#!/usr/bin/python
"""Ansible module: measure storage with fio and return a record."""

from __future__ import annotations

DOCUMENTATION = r"""
module: fio_bench
short_description: Measure bandwidth, I/O rate and latency of storage with fio
version_added: "0.2.0"
description:
  - Runs one workload of fio for a fixed time in a new folder below O(directory) and returns
    bandwidth, I/O rate and latency of its reads and writes as a record. The metadata workloads make
    one operation of each of a number of files instead, and return its rate and latency.
  - The record's parameters say which file system O(directory) is on, with its source and mount
    options.
  - The folder is removed at the end, also after a failure or at the time limit. fio is given no
    other path. O(directory) itself must exist; fio would make it, on whichever disk.
  - Free space is checked before. A run that is shorter than asked for, or that did not do every
    part of its workload, gives a record with outcome C(invalid).
  - The role P(fio#role) installs fio.
extends_documentation_fragment: trueup_options.fio
"""

EXAMPLES = r"""
- name: Measure random reads of the NVMe scratch
  fio_bench:
    run_id: 20261120T091300Z-7c1e
    node_name: "{{ inventory_hostname }}"
    node: "{{ trueup_node }}"
    directory: /mnt/nvme
    workload: random_read
"""

RETURN = r"""
record: {description: "The record of the case (more in the notes)", type: dict, returned: always}
"""

import dataclasses
import os
import time
from typing import Any, Callable, Dict, Optional, Sequence

from ansible.module_utils.trueup_node.benchmarks.fio import case as fio
from ansible.module_utils.trueup_node.benchmarks.fio.output import parse_fio
from ansible.module_utils.trueup_node.errors import BadInput
from ansible.module_utils.trueup_node.node import folders, mounts
from ansible.module_utils.trueup_node.run import process
from ansible.module_utils.trueup_node.run.bench import Bench, run_module

# A file system that needs longer to say how full it is has lost its server.
_ANSWERS_WITHIN = 30


def storage(directory: str, fs_type: str) -> Dict[str, str]:
    """The file system that is measured, as parameters of the record.

    Raises:
        BadInput: it does not answer, or is not of the type that is wanted.
    """
    mounts.require_answer(directory, _ANSWERS_WITHIN)
    folders.require_folder(directory)
    with open(mounts.MOUNTINFO, encoding="utf-8", errors="surrogateescape") as stream:
        mount = mounts.mount_of(os.path.realpath(directory), mounts.read_mounts(stream.read()))
    if fs_type and mount.kind != fs_type:
        raise BadInput(
            f"{directory} is on {mount.kind} ({mount.source} at {mount.point}), not on {fs_type}: "
            "mount the share, or set filesystem"
        )
    return {
        "filesystem": mount.kind,
        "filesystem_source": mount.source,
        "filesystem_options": mount.shared_options,
    }


def at(seconds: int) -> Optional[Callable[..., process.Completed]]:
    """A function that makes the files first and measures that long after its call; None for 0,
    where fio does both.

    Raises:
        TimeoutError: they took longer; when it is called.
    """

    def start(argv: Sequence[str], **how: Any) -> process.Completed:
        begin = time.monotonic()
        preparation = process.run([*argv, "--create_only=1"], **how)
        if preparation.failure(how["timeout_seconds"]):
            return preparation
        took = time.monotonic() - begin
        if took > seconds:
            message = f"making the files took {took:.1f} s, and start_seconds is {seconds}"
            raise TimeoutError(message)
        time.sleep(seconds - took)
        return process.run(argv, **how)

    return start if seconds else None


def prepare(bench: Bench, chosen: fio.Settings, folder: str, **more: str) -> None:
    """Set the case; in check mode this ends the module."""
    parameters = bench.given
    names = ("directory", "jobs", "iodepth", "block_bytes", "job_bytes", "start_seconds")
    bench.prepare(
        case=fio.case_name(chosen, parameters["iodepth"]),
        command=fio.command(chosen, fio="fio", folder=folder),
        parameters={
            **{name: parameters[name] for name in names},
            "workload": chosen.workload,
            "runtime_seconds": chosen.runtime_seconds,
            "engine": chosen.engine,
            "direct_asked": parameters["direct"],
            "direct": chosen.direct,
            "data_bytes": fio.data_bytes(chosen),
            **more,
        },
    )


def measure_files(bench: Bench) -> None:
    """One operation of each of many files; this ends the module."""
    parameters = bench.given
    directory = parameters["directory"]
    chosen = fio.files_settings(
        parameters["workload"], jobs=parameters["jobs"], files=parameters["files"]
    )

    def prepare_files(folder: str, **more: str) -> None:
        bench.prepare(
            case=chosen.workload,
            command=fio.files_command(chosen, fio="fio", folder=folder),
            parameters={
                "directory": directory,
                "workload": chosen.workload,
                "jobs": parameters["jobs"],
                "files": parameters["files"],
                "files_in_all": chosen.total,
                **more,
            },
        )

    if bench.check:
        prepare_files(folders.placeholder(directory, "fio"))
    where = storage(directory, parameters["filesystem"])
    cached = fio.stats_are_cached(where["filesystem"], where["filesystem_options"])
    folders.require_space(directory, chosen.data_bytes, "set files or jobs lower")
    fio.require_files(directory, chosen)
    with folders.own_folder(directory, "fio") as folder:
        prepare_files(folder, **where)
        output = bench.run(parse_fio, explain=fio.explain_files)
    bench.case.software["fio"] = output.tool_version or "unknown"
    bench.finish(
        metrics=fio.files_metrics(output, cached=cached),
        invalid=fio.judge_files(output, chosen),
    )


def measure_data(bench: Bench) -> None:
    """One workload of reads and writes; this ends the module."""
    parameters = bench.given
    directory = parameters["directory"]
    numbers = ("jobs", "iodepth", "block_bytes", "job_bytes", "runtime_seconds", "engine")
    chosen = fio.settings(parameters["workload"], **{name: parameters[name] for name in numbers})
    if bench.check:
        chosen = dataclasses.replace(chosen, direct=parameters["direct"] != "off")
        prepare(bench, chosen, folders.placeholder(directory, "fio"))
    where = storage(directory, parameters["filesystem"])
    folders.require_space(directory, fio.data_bytes(chosen), "set job_bytes or jobs lower")
    with folders.own_folder(directory, "fio") as folder:
        chosen = dataclasses.replace(chosen, direct=fio.direct_io(parameters["direct"], folder))
        prepare(bench, chosen, folder, **where)
        output = bench.run(parse_fio, start=at(parameters["start_seconds"]))
    bench.case.software["fio"] = output.tool_version or "unknown"
    bench.finish(metrics=output.metrics(), invalid=fio.judge(output, chosen))


def measure(bench: Bench) -> None:
    is_files = bench.given["workload"] in fio.OPERATIONS
    (measure_files if is_files else measure_data)(bench)


def main() -> None:
    run_module("fio", fio.OPTIONS, measure)


if __name__ == "__main__":
    main()
