#!/usr/bin/python
"""Ansible module: measure an RDMA device with perftest and return a record."""

from __future__ import annotations

DOCUMENTATION = r"""
module: ib_bench
short_description: Measure RDMA bandwidth and latency with perftest
version_added: "0.2.0"
description:
  - Runs ib_write_bw, ib_read_bw or ib_send_lat and returns what they measured as a record. Both
    ends run on this node (V(loopback)), or this node is the V(server) or the V(client) of another.
  - Each end is bound to the CPUs of its device's NUMA node by C(taskset), where the machine has
    more than one and says which; the record's parameters say so.
  - The client's end is the record. A server that ended well returns none, so that one measurement
    is one record; one that failed returns a failed record.
  - perftest does not compare what arrives with what was sent. A test, device, size or memory other
    than asked for gives a record with outcome C(invalid).
extends_documentation_fragment: [trueup_options.ib, trueup_bench]
author: trueup contributors (@trueup)
"""

EXAMPLES = r"""
- name: Measure one device against itself
  ib_bench:
    device: mlx5_ib0
    message_bytes: 1048576
    run_id: 20261120T091300Z-7c1e
    node_name: "{{ inventory_hostname }}"
    node: "{{ trueup_node }}"

- name: Measure from this node's GPU 0 to that of node-2, where role is server
  ib_bench:
    role: client
    address: 10.0.0.5
    peer_name: node-2
    device: mlx5_ib0
    gpu: 0
    message_bytes: 8388608
    run_id: 20261120T091300Z-7c1e
    node_name: "{{ inventory_hostname }}"
    node: "{{ trueup_node }}"
"""

RETURN = r"""
record:
  description: The record of the case (schema C(trueup.record/1)); null in check mode, when the
    input was refused, and of a server that ended well.
  returned: always
  type: dict
raw:
  description: What perftest printed, each end under its label; null when nothing ran.
  returned: always
  type: str
command:
  description: The command line, of V(loopback) the client's; the server's is the same without the
    address.
  returned: always
  type: list
  elements: str
environment:
  description: The variables set for it.
  returned: always
  type: dict
resumed:
  description: Which of O(earlier) stands for this case, from 0; null where it was measured.
  returned: always
  type: int
ansible_facts:
  description: The record once more, as the fact C(trueup_ib).
  returned: success
  type: dict
  contains:
    trueup_ib:
      description: The record.
      type: dict
      returned: when the case ran and is ok
"""

import functools
import os
import re
from typing import Any, Dict

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.trueup.benchmarks.ib import case as ib
from ansible.module_utils.trueup.benchmarks.ib.output import parse_ib
from ansible.module_utils.trueup.errors import BadInput
from ansible.module_utils.trueup.node import infiniband
from ansible.module_utils.trueup.node.affinity import taskset_argv
from ansible.module_utils.trueup.node.topology import format_cpu_list, read_topology
from ansible.module_utils.trueup.options import module_spec
from ansible.module_utils.trueup.run.bench import COMMON_SPEC

LOOPBACK = "127.0.0.1"


def argument_spec() -> Dict[str, Dict[str, Any]]:
    return {**COMMON_SPEC, **module_spec(ib.OPTIONS)}


def find_device(name: str, sysfs_root: str) -> Dict[str, Any]:
    """The device of that name.

    Raises:
        BadInput: there is none, or its link is down.
    """
    devices = {row["device"]: row for row in infiniband.read_devices(sysfs_root)}
    if name not in devices:
        raise BadInput(f"device {name!r}: this node has {', '.join(devices) or 'no RDMA device'}")
    if devices[name]["state"] not in ("ACTIVE", None):
        raise BadInput(f"device {name}: its link is {devices[name]['state']}, not ACTIVE")
    return dict(devices[name])


def asked(given: dict[str, Any]) -> ib.Test:
    """The test that the module's parameters ask for."""
    names = ("test", "device", "folder", "port", "iterations", "duration_seconds", "gpu")
    return ib.Test(
        message_bytes=given["message_bytes"] or None,
        gid_index=None if given["gid_index"] < 0 else given["gid_index"],
        **{name: given[name] for name in names},
    )


def case_name(test: ib.Test, role: str, peer: str | None) -> str:
    """ "ib_write_bw-mlx5_0-65536-to-node2"."""
    ways = {"loopback": "", "server": "-server", "client": f"-to-{peer}"}
    gpu = "" if test.gpu is None else f"-gpu{test.gpu}"
    case = f"{test.test}-{test.device}-{test.message_bytes or 'all'}{gpu}{ways[role]}"
    return re.sub(r"[^A-Za-z0-9._-]", "_", case)


def main() -> None:
    module = AnsibleModule(argument_spec=argument_spec(), supports_check_mode=True)
    given = module.params
    bench = ib.IbBench(module, "ib", ib.OPTIONS)
    role = given["role"]
    test = asked(given)
    try:
        ib.require_one_size(given["message_bytes"], test.duration_seconds)
        if role == "client" and not (given["address"] and given["peer_name"]):
            raise BadInput("role client needs address and peer_name of its server")
        device = find_device(given["device"], given["sysfs_root"])
        cpus = ib.numa_cpus(device, read_topology(allowed=os.sched_getaffinity(0)).numa)
    except BadInput as error:
        bench.refuse(str(error))

    server = test.argv(taskset_argv(cpus))
    client = test.argv(taskset_argv(cpus), given["address"] if role == "client" else LOOPBACK)
    bench.prepare(
        case=case_name(test, role, given["peer_name"]),
        command=server if role == "server" else client,
        nodes=[given["node_name"], given["peer_name"]] if role == "client" else [],
        gpus=0 if test.gpu is None else 1 + (role == "client"),
        parameters={
            "test": test.test,
            "role": role,
            "device": test.device,
            "kind": device["kind"],
            "server": given["peer_name"] if role == "client" else None,
            "message_bytes": test.message_bytes or "all",
            "iterations": None if test.duration_seconds else test.iterations,
            "duration_seconds": test.duration_seconds or None,
            "gpu": test.gpu,
            "gdr": "no" if test.gpu is None else "yes",
            "gid_index": test.gid_index,
            "rate_gbps": device["rate_gbps"],
            "numa_node": device["numa_node"],
            "binding": "numa" if cpus else "none",
            "cpus": format_cpu_list(cpus),
        },
    )
    bench.case.software["perftest"] = bench.version(test.program)
    limit = {"timeout_seconds": given["timeout_seconds"], "environment": {}}
    if role == "server":
        bench.serve(functools.partial(ib.run_server, server, port=test.port, **limit))
    start = functools.partial(ib.run_pair, server, client, port=test.port, **limit)
    if role == "client":
        seconds = given["connect_seconds"]
        start = functools.partial(ib.run_client, client, connect_seconds=seconds, **limit)
    output = bench.run_ends(start, parse_ib)
    bench.case.parameters.update(output.parameters)
    for warning in output.warnings:
        module.warn(warning)
    ends = 2 if role == "loopback" else 1
    bench.finish(metrics=output.metrics(), invalid=ib.judge(output, test, ends=ends))


if __name__ == "__main__":
    main()
