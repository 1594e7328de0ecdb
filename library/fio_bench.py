#!/usr/bin/python
"""Ansible module: measure storage with fio and return a record."""

from __future__ import annotations

DOCUMENTATION = r"""
module: fio_bench
short_description: Measure bandwidth, I/O rate and latency of storage with fio
version_added: "0.2.0"
description:
  - Runs one workload of fio for a fixed time in a new folder below O(directory) and returns
    bandwidth, I/O rate and latency of its reads and writes as a record.
  - The folder is removed at the end, also after a failure or at the time limit. fio is given no
    other path. O(directory) itself must exist; fio would make it, on whichever disk.
  - Free space is checked before. A run that is shorter than asked for, or that did not do every
    part of its workload, gives a record with outcome C(invalid).
  - The role P(fio#role) installs fio.
options:
  directory:
    description: Existing folder on the storage to measure.
    type: path
    required: true
  workload:
    description:
      - C(sequential_read), C(sequential_write) (1 MiB), C(random_read) and C(random_write) (4 KiB)
        are for NVMe scratch.
      - C(eda_frontend) reads and writes many small files at random, C(eda_backend) larger files in
        sequence, C(eda_mixed) does both at once; they are for shared storage.
    type: str
    choices:
      - sequential_read
      - sequential_write
      - random_read
      - random_write
      - eda_frontend
      - eda_backend
      - eda_mixed
    required: true
  jobs:
    description: Processes of each part of the workload; 0 means the workload's own number.
    type: int
    default: 0
  iodepth:
    description: I/Os that each process keeps in flight; 0 means the workload's own number.
    type: int
    default: 0
  block_bytes:
    description: Size of an I/O, a multiple of 4096; 0 means the workload's own.
    type: int
    default: 0
  job_bytes:
    description: Size of the files of each process; 0 means the workload's own.
    type: int
    default: 0
  runtime_seconds:
    description: How long to measure. Laying out the files comes before it.
    type: int
    default: 30
  engine:
    description: fio's I/O engine.
    type: str
    choices: [libaio, io_uring]
    default: libaio
  direct:
    description:
      - Whether to pass the page cache by (O_DIRECT). C(required) refuses a file system that cannot;
        C(preferred) then measures through the cache; C(off) always does.
      - The record's parameter C(direct) says what was done.
    type: str
    choices: [required, preferred, "off"]
    default: required
extends_documentation_fragment: [trueup_bench]
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
from typing import Any, Dict

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.trueup import fio, folders
from ansible.module_utils.trueup.bench import COMMON_SPEC, Bench
from ansible.module_utils.trueup.errors import BadInput
from ansible.module_utils.trueup.parsers.fio import parse_fio


def argument_spec() -> Dict[str, Dict[str, Any]]:
    return dict(
        COMMON_SPEC,
        directory={"type": "path", "required": True},
        workload={"type": "str", "choices": list(fio.WORKLOADS), "required": True},
        jobs={"type": "int", "default": 0},
        iodepth={"type": "int", "default": 0},
        block_bytes={"type": "int", "default": 0},
        job_bytes={"type": "int", "default": 0},
        runtime_seconds={"type": "int", "default": 30},
        engine={"type": "str", "choices": ["libaio", "io_uring"], "default": "libaio"},
        direct={"type": "str", "choices": ["required", "preferred", "off"], "default": "required"},
    )


def prepare(bench: Bench, chosen: fio.Settings, given: Dict[str, Any], folder: str) -> None:
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
        },
    )


def main() -> None:
    module = AnsibleModule(argument_spec=argument_spec(), supports_check_mode=True)
    given = module.params
    bench = Bench(module, "fio")
    numbers = ("jobs", "iodepth", "block_bytes", "job_bytes", "runtime_seconds", "engine")
    try:
        chosen = fio.settings(given["workload"], **{name: given[name] for name in numbers})
        if module.check_mode:
            chosen = dataclasses.replace(chosen, direct=given["direct"] != "off")
            prepare(bench, chosen, given, folders.placeholder(given["directory"], "fio"))
        folders.require_folder(given["directory"])
        folders.require_space(
            given["directory"], fio.data_bytes(chosen), "set job_bytes or jobs lower"
        )
        with folders.own_folder(given["directory"], "fio") as folder:
            chosen = dataclasses.replace(chosen, direct=fio.direct_io(given["direct"], folder))
            prepare(bench, chosen, given, folder)
            output = bench.run(parse_fio)
    except BadInput as error:
        bench.refuse(str(error))
    bench.case.software["fio"] = output.tool_version or "unknown"
    bench.finish(metrics=output.metrics(), invalid=fio.judge(output, chosen))


if __name__ == "__main__":
    main()
