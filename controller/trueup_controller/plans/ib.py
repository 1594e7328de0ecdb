"""The role ib, planned: each device against itself, and every two nodes in rounds.

Preflight runs before the role rdma has brought devices: the cases are of the devices that the node
is asked for before it is measured, and there are none without.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from trueup_node.benchmarks.ib.case import (
    OPTIONS,
    PROGRAMS,
    WRITE_FROM_HOST,
    require_one_size,
)
from trueup_node.errors import BadInput
from trueup_node.node.gpu_places import gpu_places
from trueup_node.options import for_module
from trueup_node.plan import Convergence, Plan, PlanInputs, Skipped

from .ib_pairs import round_pair

_PACKAGED = "/usr/bin"
_BUILT = "/opt/trueup/perftest"
_SOURCE = "/opt/trueup/src/perftest"
# Tag 25.10.0-0.128 (2025-11-17), of DOCA's branch 25.10. It loads CUDA's library when it runs.
_COMMIT = "8a1d3d7234add23fe006b2ff51d650ff022077a8"
# The distribution's packages that it is built with, by package manager; any version does.
_TOOLS = ("git", "make", "gcc", "autoconf", "automake", "libtool")
_PACKAGES = {
    "apt": [*_TOOLS, "libibverbs-dev", "librdmacm-dev", "libibumad-dev", "libpci-dev"],
    "dnf": [*_TOOLS, "rdma-core-devel", "pciutils-devel"],
}
# NVIDIA's packages link the folder to the newest.
_CUDA_HEADER = "/usr/local/cuda/include/cuda.h"
_CUDA = "--use_cuda"
# RoCE needs a GID: of soft-RoCE that of IPv4.
_IPV4_GID = 1
_MOST_JOBS = 16


def programs(inputs: PlanInputs) -> dict[str, Any]:
    """Preflight queries for the node, as arguments of program_facts."""
    arguments: dict[str, Any] = {"programs": [_perftest(inputs)]}
    if _gpus(inputs):
        arguments["mentions"] = dict.fromkeys(
            (_perftest(inputs), _perftest(inputs, _folder())), _CUDA
        )
    return arguments


def asks(inputs: PlanInputs) -> dict[str, Any]:
    """Further queries: whether the perftest that trueup built is of the commit."""
    return {"nccl_facts": {"builds": [_build(inputs)]}} if _gpus(inputs) else {}


def asks_to_measure(inputs: PlanInputs) -> dict[str, Any]:
    """Its devices."""
    return {"ib_facts": {"sysfs_root": inputs.variables.get("trueup_sysfs_root")}}


def plan(inputs: PlanInputs) -> Plan:
    """Cases of each device, and with ``found["nodes"]`` this node's part in each round of pairs.

    ``found`` holds the known facts: ``trueup_rdma``, as ib_facts has it; ``nodes``, each node with
    its address; ``batch``, hosts of the batch; ``forks`` of the controller.

    Raises:
        BadInput: options that do not go together, no device, or nodes that cannot be paired.
    """
    options = inputs.options
    for case in (*options["cases"], *options["gpu_cases"]):
        require_one_size(case["message_bytes"], options["duration_seconds"])
    elsewhere = sorted(set(options["gpus"]) - set(options["devices"]))
    if options["devices"] and elsewhere:
        raise BadInput(f"ib_gpus holds {', '.join(elsewhere)}, which ib_devices does not")
    packaged = options["folder"] == _PACKAGED
    is_installed = inputs.found["programs"][_perftest(inputs)] is not None
    lacking = _lacking(
        inputs, can=is_installed or (packaged and inputs.node["privilege"] is not None)
    )
    devices = _devices(inputs)
    build = _build(inputs) if _is_built(inputs) else {}
    skipped = [Skipped("ib", lacking)] if lacking else []
    # Once devices are known, possible builds are done.
    late = "trueup_rdma" in inputs.found or not build
    if not lacking and late and _is_without_cuda(inputs):
        skipped = [Skipped(_FROM_GPUS, _why_without(inputs))]
    return Plan(
        values={
            "install": packaged and not is_installed,
            "build": build,
            **_pairwise(inputs, devices or []),
        },
        skipped=skipped,
        refused=_refused(inputs, devices),
        cases=_cases(inputs, devices or []),
    )


def convergence(planned: Mapping[str, Any], _: Mapping[str, Any]) -> Convergence:
    """Whether perftest is there, and none is to be built."""
    return Convergence(has_work=bool(planned["install"] or planned["build"]))


_FROM_GPUS = "ib from GPU memory"


def _folder() -> str:
    return f"{_BUILT}/bin"


def _perftest(inputs: PlanInputs, folder: str = "") -> str:
    return f"{folder or inputs.options['folder']}/{PROGRAMS['write_bw']}"


def _build(inputs: PlanInputs) -> dict[str, Any]:
    """perftest with CUDA, as nccl_facts and playbooks/tasks/build.yml take it."""
    make = ["make", f"--jobs={min(inputs.node.get('cores') or 1, _MOST_JOBS)}"]
    return {
        "name": "perftest",
        "repository": inputs.options["perftest_repository"],
        "commit": _COMMIT,
        "source": _SOURCE,
        "made": _BUILT,
        "files": [f"bin/{program}" for program in PROGRAMS.values()],
        "packages": _PACKAGES.get(str(inputs.node.get("package_manager")), []),
        "environment": {"LC_ALL": "C"},
        "commands": [
            # configure goes on without it, and makes a perftest without CUDA.
            ["ls", _CUDA_HEADER],
            ["./autogen.sh"],
            ["./configure", f"--prefix={_BUILT}", f"CUDA_H_PATH={_CUDA_HEADER}"],
            make,
            ["make", "install"],
        ],
    }


def _cuda_folder(inputs: PlanInputs) -> str:
    """The folder of a perftest that has CUDA: the node's own, else the one built here; empty where
    neither has."""
    mentioned = inputs.found.get("mentions", {})
    for folder in (inputs.options["folder"], _folder()):
        if mentioned.get(_perftest(inputs, folder)):
            return str(folder)
    return ""


def _is_without_cuda(inputs: PlanInputs) -> bool:
    """Whether adapters would be measured from GPU memory, and no perftest can."""
    return bool(_gpus(inputs) and inputs.options["gpu_cases"]) and not _cuda_folder(inputs)


def _is_built(inputs: PlanInputs) -> bool:
    """Whether a perftest with CUDA is to be built: where none has it, or ours is outdated."""
    options, node = inputs.options, inputs.node
    wants_cuda = bool(_gpus(inputs) and options["gpu_cases"])
    can = node.get("privilege") is not None and node.get("package_manager") in _PACKAGES
    old = "perftest" in inputs.found.get("outdated", [])
    return (
        wants_cuda
        and can
        and old
        and options["folder"] == _PACKAGED
        and _cuda_folder(inputs) != _PACKAGED
    )


def _why_without(inputs: PlanInputs) -> str:
    program = _perftest(inputs)
    reasons = {
        "": inputs.options["folder"] != _PACKAGED,
        ", and building one did not work": _is_built(inputs),
        ", and building one needs root or sudo without a password, and apt or dnf": True,
    }
    return f"{program} has no CUDA{next(text for text, holds in reasons.items() if holds)}"


def _lacking(inputs: PlanInputs, *, can: bool) -> str:
    node = inputs.node
    has_infiniband = any(
        device["link_layer"] == "InfiniBand" for device in node.get("infiniband") or []
    )
    expected = (node.get("catalog") or {}).get("rdma_nics") or 0
    if not (inputs.options["devices"] or has_infiniband or expected):
        return "no InfiniBand device on this node, its size has none, and ib_devices names no other"
    if not can:
        return (
            f"no {_perftest(inputs)} on this node, and installing perftest needs root or sudo"
            " without a password"
        )
    return ""


def _devices(inputs: PlanInputs) -> list[str] | None:
    """Names of the devices to measure; None where nobody has looked yet."""
    if "trueup_rdma" not in inputs.found:
        return None
    rows = inputs.found["trueup_rdma"]["devices"]
    infiniband_devices = [row["device"] for row in rows if row["kind"] == "infiniband"]
    return list(inputs.options["devices"]) or infiniband_devices


def _refused(inputs: PlanInputs, devices: Sequence[str] | None) -> list[str]:
    if "nodes" not in inputs.found:
        if devices == [] and not inputs.found.get("may_rest"):
            return [
                "no InfiniBand device on this node; see role rdma, or name others in ib_devices"
            ]
        return []
    nodes, batch, hosts = len(inputs.found["nodes"]), inputs.found["batch"], len(inputs.hosts)
    if nodes >= 2 and batch == hosts:
        return []
    reason = (
        f"{nodes} nodes with an InfiniBand device in a batch of {batch} of"
        f" {hosts} hosts: pairs need two nodes, and a play without serial"
    )
    return [reason]


def _case(inputs: PlanInputs, case: Mapping[str, Any], device: str, **more: Any) -> dict[str, Any]:
    parameters = {**for_module(OPTIONS, inputs.options), "device": device, **case, **more}
    if _is_soft_roce(inputs, device):
        parameters["gid_index"] = _IPV4_GID
    if "trueup_sysfs_root" in inputs.variables:
        parameters["sysfs_root"] = inputs.variables["trueup_sysfs_root"]
    return parameters


def _is_soft_roce(inputs: PlanInputs, device: str) -> bool:
    rows = inputs.found["trueup_rdma"]["devices"]
    return any(row["device"] == device and row["kind"] == "soft-roce" for row in rows)


def _gpus(inputs: PlanInputs) -> Mapping[str, int]:
    """The GPU of each adapter: those of ib_gpus, or those beside them by the layout of the node's
    size."""
    gpu_by_adapter: Mapping[str, int] = inputs.options["gpus"]
    attached = len(inputs.node.get("gpus") or [])
    if gpu_by_adapter or not attached:
        return gpu_by_adapter
    places = gpu_places(inputs.node.get("vm_size"), attached, inputs.catalog("topologies.yml"))
    return {gpu.adapter: gpu.number for gpu in places if gpu.adapter}


def _cases(inputs: PlanInputs, devices: Sequence[str]) -> list[dict[str, Any]]:
    """Every device from host memory, then those that have a GPU from GPU memory, where a perftest
    can."""
    options, folder = inputs.options, _cuda_folder(inputs)
    gpus = _gpus(inputs) if folder else {}
    of_host = [_case(inputs, case, device) for device in devices for case in options["cases"]]
    return of_host + [
        _case(inputs, case, device, gpu=gpus[device], folder=folder)
        for device in devices
        if device in gpus
        for case in options["gpu_cases"]
    ]


def _pairwise(inputs: PlanInputs, devices: Sequence[str]) -> dict[str, Any]:
    """This node for the others, and once all are known its part in each round."""
    device = next(iter(devices), "")
    reached = inputs.hostvars.get(inputs.host, {}).get("ansible_host")
    pair_values = {
        "pair_device": device,
        "pair_node": [inputs.host, inputs.options["address"] or reached or inputs.host],
    }
    nodes: Mapping[str, str] | None = inputs.found.get("nodes")
    if nodes is None:
        return pair_values
    seconds = _server_seconds(inputs, len(nodes))
    names = list(nodes)
    pairs = [
        round_pair(names, number, inputs.host) for number in range(len(names) - 1 + len(names) % 2)
    ]
    return {
        **pair_values,
        "pair_cases": [_case(inputs, WRITE_FROM_HOST, device)],
        "rounds": [_part(pair, inputs.host, nodes, seconds) for pair in pairs],
        "server_seconds": seconds,
    }


def _part(pair: Sequence[str], host: str, nodes: Mapping[str, str], seconds: int) -> dict[str, Any]:
    """A node's part in a round: ``peer``, and the module's arguments besides the case."""
    if not pair:
        return {"peer": "", "end": {"role": "rests"}}
    server, client = pair
    if host == server:
        return {"peer": client, "end": {"role": "server", "timeout_seconds": seconds}}
    end = {"role": "client", "address": nodes[server], "peer_name": server}
    return {"peer": server, "end": end}


def _server_seconds(inputs: PlanInputs, nodes: int) -> int:
    """Clients start in waves of as many as the controller has forks: the last server waits for all
    of them."""
    waves = math.ceil(nodes / 2 / inputs.found["forks"])
    seconds: int = inputs.options["connect_seconds"] + inputs.options["timeout_seconds"] * waves
    return seconds
