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
extends_documentation_fragment: [trueup_options.fio, trueup_bench]
author: trueup contributors (@trueup)
"""

EXAMPLES = r"""
- name: Measure random reads of the NVMe scratch
  fio_bench:
    directory: /mnt/nvme
    workload: random_read
    run_id: 20261120T091300Z-7c1e
    node_name: "{{ inventory_hostname }}"
    node: "{{ trueup_node }}"
"""

RETURN = r"""
record:
  description: The record of the case (schema C(trueup.record/1)); null in check mode and when the
    input was refused.
  returned: always
  type: dict
raw:
  description: What fio printed; null when nothing ran.
  returned: always
  type: str
command:
  description: The command line.
  returned: always
  type: list
  elements: str
environment:
  description: The variables set for it; none.
  returned: always
  type: dict
resumed:
  description: Which of O(earlier) stands for this case, from 0; null where it was measured.
  returned: always
  type: int
ansible_facts:
  description: The record once more, as the fact C(trueup_fio).
  returned: success
  type: dict
  contains:
    trueup_fio:
      description: The record.
      type: dict
      returned: when the case ran and is ok
"""

import dataclasses
import os
from typing import Any, Dict

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.trueup.benchmarks.fio import case as fio
from ansible.module_utils.trueup.benchmarks.fio.output import parse_fio
from ansible.module_utils.trueup.errors import BadInput
from ansible.module_utils.trueup.node import folders, mounts
from ansible.module_utils.trueup.options import module_spec
from ansible.module_utils.trueup.run.bench import COMMON_SPEC, Bench

# A file system that needs longer to say how full it is has lost its server.
_ANSWERS_WITHIN = 30


def argument_spec() -> Dict[str, Dict[str, Any]]:
    return {**COMMON_SPEC, **module_spec(fio.OPTIONS)}


def storage(directory: str, wanted: str) -> Dict[str, str]:
    """The file system that is measured, as parameters of the record.

    Raises:
        BadInput: it does not answer, or is not of the type that is wanted.
    """
    mounts.require_answer(directory, _ANSWERS_WITHIN)
    folders.require_folder(directory)
    with open(mounts.MOUNTINFO, encoding="utf-8", errors="surrogateescape") as stream:
        mount = mounts.mount_of(os.path.realpath(directory), mounts.read_mounts(stream.read()))
    if wanted and mount.kind != wanted:
        raise BadInput(
            f"{directory} is on {mount.kind} ({mount.source} at {mount.point}), not on {wanted}: "
            "mount the share, or set filesystem"
        )
    return {
        "filesystem": mount.kind,
        "filesystem_source": mount.source,
        "filesystem_options": mount.shared_options,
    }


def prepare(
    bench: Bench, chosen: fio.Settings, given: Dict[str, Any], folder: str, **more: str
) -> None:
    """Set the case; in check mode this ends the module."""
    bench.prepare(
        case=f"{chosen.workload}-{'direct' if chosen.direct else 'buffered'}",
        command=fio.command(chosen, fio="fio", folder=folder),
        parameters={
            "directory": given["directory"],
            "workload": chosen.workload,
            "jobs": given["jobs"],
            "iodepth": given["iodepth"],
            "block_bytes": given["block_bytes"],
            "job_bytes": given["job_bytes"],
            "runtime_seconds": chosen.runtime_seconds,
            "engine": chosen.engine,
            "direct_asked": given["direct"],
            "direct": chosen.direct,
            "data_bytes": fio.data_bytes(chosen),
            **more,
        },
    )


def measure_files(bench: Bench, given: Dict[str, Any], *, check: bool) -> None:
    """One operation of each of many files; this ends the module."""
    directory = given["directory"]
    chosen = fio.files_settings(given["workload"], jobs=given["jobs"], files=given["files"])

    def prepare_files(folder: str, **more: str) -> None:
        bench.prepare(
            case=chosen.workload,
            command=fio.files_command(chosen, fio="fio", folder=folder),
            parameters={
                "directory": directory,
                "workload": chosen.workload,
                "jobs": given["jobs"],
                "files": given["files"],
                "files_in_all": chosen.total,
                **more,
            },
        )

    if check:
        prepare_files(folders.placeholder(directory, "fio"))
    where = storage(directory, given["filesystem"])
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


def measure_data(bench: Bench, given: Dict[str, Any], *, check: bool) -> None:
    """One workload of reads and writes; this ends the module."""
    directory = given["directory"]
    numbers = ("jobs", "iodepth", "block_bytes", "job_bytes", "runtime_seconds", "engine")
    chosen = fio.settings(given["workload"], **{name: given[name] for name in numbers})
    if check:
        chosen = dataclasses.replace(chosen, direct=given["direct"] != "off")
        prepare(bench, chosen, given, folders.placeholder(directory, "fio"))
    where = storage(directory, given["filesystem"])
    folders.require_space(directory, fio.data_bytes(chosen), "set job_bytes or jobs lower")
    with folders.own_folder(directory, "fio") as folder:
        chosen = dataclasses.replace(chosen, direct=fio.direct_io(given["direct"], folder))
        prepare(bench, chosen, given, folder, **where)
        output = bench.run(parse_fio)
    bench.case.software["fio"] = output.tool_version or "unknown"
    bench.finish(metrics=output.metrics(), invalid=fio.judge(output, chosen))


def main() -> None:
    module = AnsibleModule(argument_spec=argument_spec(), supports_check_mode=True)
    given = module.params
    bench = Bench(module, "fio", fio.OPTIONS)
    try:
        if given["workload"] in fio.OPERATIONS:
            measure_files(bench, given, check=module.check_mode)
        else:
            measure_data(bench, given, check=module.check_mode)
    except BadInput as error:
        bench.refuse(str(error))


if __name__ == "__main__":
    main()
