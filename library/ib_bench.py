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
extends_documentation_fragment: trueup_options.ib
"""

EXAMPLES = r"""
- name: Measure one device against itself
  ib_bench:
    run_id: 20261120T091300Z-7c1e
    node_name: "{{ inventory_hostname }}"
    node: "{{ trueup_node }}"
    device: mlx5_ib0
    message_bytes: 1048576

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
record: {description: "The record of the case (more in the notes)", type: dict, returned: always}
"""

import functools
import os
import re
from typing import Any, Dict, Tuple

from ansible.module_utils.trueup_node.benchmarks.ib import case as ib
from ansible.module_utils.trueup_node.benchmarks.ib.output import explain, parse_ib
from ansible.module_utils.trueup_node.errors import BadInput
from ansible.module_utils.trueup_node.node import infiniband, tools
from ansible.module_utils.trueup_node.node.affinity import taskset_argv
from ansible.module_utils.trueup_node.node.topology import format_cpu_list, read_topology
from ansible.module_utils.trueup_node.run.bench import Bench, run_module

LOOPBACK = "127.0.0.1"


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


def asked(module_parameters: dict[str, Any]) -> ib.Test:
    """The test that the module's parameters ask for."""
    names = ("test", "device", "folder", "port", "iterations", "duration_seconds", "gpu")
    return ib.Test(
        queue_pairs=module_parameters["queue_pairs"],
        message_bytes=module_parameters["message_bytes"] or None,
        gid_index=None if module_parameters["gid_index"] < 0 else module_parameters["gid_index"],
        **{name: module_parameters[name] for name in names},
    )


def case_name(test: ib.Test, role: str, peer: str | None) -> str:
    """ "write_bw-mlx5_0-65536-q2-to-node2"."""
    ways = {"loopback": "", "server": "-server", "client": f"-to-{peer}"}
    pairs = f"-q{test.queue_pairs}" if test.queue_pairs > 1 else ""
    gpu = "" if test.gpu is None else f"-gpu{test.gpu}"
    case = f"{test.test}-{test.device}-{test.message_bytes or 'all'}{pairs}{gpu}{ways[role]}"
    return re.sub(r"[^A-Za-z0-9._-]", "_", case)


def version(bench: Bench, program: str) -> str:
    """perftest's version; ends the module where there is no perftest."""
    if not os.access(program, os.X_OK):
        bench.fail(f"{program} is not on this node: install the package perftest")
    # perftest says it with exit status 1.
    response = tools.ask(bench.module, [program, "--version"])
    if response.status is None:
        bench.fail(str(response.note))
    match = re.search(r"Version: (\S+)", response.output)
    return match.group(1) if match else "unknown"


def parameters(
    module_parameters: Dict[str, Any], test: ib.Test, device: Dict[str, Any], cpus: Tuple[int, ...]
) -> Dict[str, Any]:
    """The case's parameters in the record."""
    return {
        "test": test.test,
        "role": module_parameters["role"],
        "device": test.device,
        "server": module_parameters["peer_name"] if module_parameters["role"] == "client" else None,
        "message_bytes": test.message_bytes or "all",
        "iterations": None if test.duration_seconds else test.iterations,
        "duration_seconds": test.duration_seconds or None,
        "gpu": test.gpu,
        "gdr": "no" if test.gpu is None else "yes",
        "gid_index": test.gid_index,
        **{name: device[name] for name in ("kind", "rate_gbps", "numa_node")},
        "binding": "numa" if cpus else "none",
        "cpus": format_cpu_list(cpus),
    }


def measure(bench: Bench) -> None:
    module_parameters = bench.given
    role = module_parameters["role"]
    is_client = role == "client"
    test = asked(module_parameters)
    ib.require_one_size(module_parameters["message_bytes"], test.duration_seconds)
    if is_client and not (module_parameters["address"] and module_parameters["peer_name"]):
        raise BadInput("role client needs address and peer_name of its server")
    device = find_device(module_parameters["device"], module_parameters["sysfs_root"])
    cpus = ib.numa_cpus(device, read_topology(allowed=os.sched_getaffinity(0)).numa)

    server = test.argv(taskset_argv(cpus))
    client = test.argv(taskset_argv(cpus), module_parameters["address"] if is_client else LOOPBACK)
    bench.prepare(
        case=case_name(test, role, module_parameters["peer_name"]),
        command=server if role == "server" else client,
        nodes=[module_parameters["node_name"], module_parameters["peer_name"]] if is_client else [],
        # perftest numbers GPUs as CUDA does.
        environment={} if test.gpu is None else {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"},
        gpus=0 if test.gpu is None else 1 + is_client,
        parameters=parameters(module_parameters, test, device, cpus),
    )
    bench.case.software["perftest"] = version(bench, test.program)
    if role == "server":
        # The client's record is that of both.
        bench.run(str, explain=explain, start=functools.partial(ib.run_server, port=test.port))
        bench.leave()
    start = functools.partial(ib.run_pair, server, port=test.port)
    if is_client:
        start = functools.partial(
            ib.run_client, connect_seconds=module_parameters["connect_seconds"]
        )
    output = bench.run(parse_ib, explain=explain, start=start)
    bench.case.parameters.update(output.parameters)
    ends = 2 if role == "loopback" else 1
    bench.finish(metrics=output.metrics(), invalid=ib.judge(output, test, ends=ends))


def main() -> None:
    run_module("ib", ib.OPTIONS, measure)


if __name__ == "__main__":
    main()
