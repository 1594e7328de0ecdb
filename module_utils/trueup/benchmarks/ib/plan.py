"""The role ib, planned: each device against itself, and every two nodes in rounds.

Preflight runs before the role rdma has brought devices: the cases are of the devices that the node
is asked for before it is measured, and there are none without.
"""

from __future__ import annotations

import math
from typing import Any, Dict, List, Mapping, Optional, Sequence

from ...errors import BadInput
from ...node.gpu_places import gpu_places
from ...options import for_module
from ...plan import Asked, Plan, Settled, Skipped
from .case import OPTIONS, PROGRAMS, require_one_size
from .pairs import round_pair

_PACKAGED = "/usr/bin"
_BUILT = "/opt/trueup/perftest"
_SOURCE = "/opt/trueup/src/perftest"
_CUDA = "--use_cuda"
_MOST_JOBS = 16


def programs(asked: Asked) -> Dict[str, Any]:
    """What preflight asks the node for, as arguments of program_facts."""
    wanted: Dict[str, Any] = {"programs": [_perftest(asked)]}
    if _gpus(asked):
        wanted["mentions"] = dict.fromkeys((_perftest(asked), _perftest(asked, _folder())), _CUDA)
    return wanted


def asks(asked: Asked) -> Dict[str, Any]:
    """What else: whether a perftest of ours is of the commit."""
    return {"nccl_facts": {"builds": [_build(asked)]}} if _gpus(asked) else {}


def asks_to_measure(asked: Asked) -> Dict[str, Any]:
    """Its devices."""
    return {"ib_facts": {"sysfs_root": asked.variables.get("trueup_sysfs_root")}}


def plan(asked: Asked) -> Plan:
    """Cases of each device, and with ``found["nodes"]`` this node's part in each round of pairs.

    ``found`` holds what is known of: ``trueup_rdma``, as ib_facts has it; ``nodes``, each node with
    its address; ``batch``, hosts of the batch; ``forks`` of the controller.

    Raises:
        BadInput: options that do not go together, no device, or nodes that cannot be paired.
    """
    options = asked.options
    for case in (*options["cases"], *options["gpu_cases"], *options["pairwise_cases"]):
        require_one_size(case["message_bytes"], options["duration_seconds"])
    elsewhere = sorted(set(options["gpus"]) - set(options["devices"]))
    if options["devices"] and elsewhere:
        raise BadInput(f"ib_gpus holds {', '.join(elsewhere)}, which ib_devices does not")
    packaged = options["folder"] == _PACKAGED
    there = asked.found["programs"][_perftest(asked)] is not None
    lacking = _lacking(asked, can=there or (packaged and asked.node["privilege"] is not None))
    devices = _devices(asked)
    build = _build(asked) if _is_built(asked) else {}
    skipped = [Skipped("ib", lacking)] if lacking else []
    # Once devices are known, what could be built has been.
    late = "trueup_rdma" in asked.found or not build
    if not lacking and late and _is_without_cuda(asked):
        skipped = [Skipped(_FROM_GPUS, _why_without(asked))]
    return Plan(
        values={
            "install": packaged and not there,
            "build": build,
            **_pairwise(asked, devices or []),
        },
        skipped=skipped,
        refused=_refused(asked, devices),
        cases=_cases(asked, devices or []),
    )


def settled(planned: Mapping[str, Any], _: Mapping[str, Any]) -> Settled:
    """Whether perftest is there, and none is to be built."""
    return Settled(owed=bool(planned["install"] or planned["build"]))


_FROM_GPUS = "ib from GPU memory"


def _folder() -> str:
    return f"{_BUILT}/bin"


def _perftest(asked: Asked, folder: str = "") -> str:
    return f"{folder or asked.options['folder']}/{PROGRAMS['write_bw']}"


def _build(asked: Asked) -> Dict[str, Any]:
    """perftest with CUDA, as nccl_facts and playbooks/tasks/build.yml take it."""
    options = asked.options
    header = f"{options['cuda_home']}/include/cuda.h"
    make = ["make", f"--jobs={min(asked.node.get('cores') or 1, _MOST_JOBS)}"]
    return {
        "name": "perftest",
        "repository": options["perftest_repository"],
        "commit": options["perftest_commit"],
        "source": _SOURCE,
        "made": _BUILT,
        "files": [f"bin/{program}" for program in PROGRAMS.values()],
        "packages": options["perftest_packages"].get(asked.node.get("package_manager"), []),
        "environment": {"LC_ALL": "C"},
        "commands": [
            # configure goes on without it, and makes a perftest without CUDA.
            ["ls", header],
            ["./autogen.sh"],
            ["./configure", f"--prefix={_BUILT}", f"CUDA_H_PATH={header}"],
            make,
            ["make", "install"],
        ],
    }


def _cuda_folder(asked: Asked) -> str:
    """The folder of a perftest that has CUDA: the node's own, else the one built here; empty where
    neither has."""
    mentioned = asked.found.get("mentions", {})
    for folder in (asked.options["folder"], _folder()):
        if mentioned.get(_perftest(asked, folder)):
            return str(folder)
    return ""


def _is_without_cuda(asked: Asked) -> bool:
    """Whether adapters would be measured from GPU memory, and no perftest can."""
    return bool(_gpus(asked) and asked.options["gpu_cases"]) and not _cuda_folder(asked)


def _is_built(asked: Asked) -> bool:
    """Whether a perftest with CUDA is to be built: where none has it, or ours is outdated."""
    options, node = asked.options, asked.node
    wanted = bool(_gpus(asked) and options["gpu_cases"]) and options["perftest_cuda"] == "build"
    can = node.get("privilege") is not None
    can = can and node.get("package_manager") in options["perftest_packages"]
    old = "perftest" in asked.found.get("outdated", [])
    return (
        wanted
        and can
        and old
        and options["folder"] == _PACKAGED
        and _cuda_folder(asked) != _PACKAGED
    )


def _why_without(asked: Asked) -> str:
    own = _perftest(asked)
    why = {
        "": asked.options["folder"] != _PACKAGED,
        ", and ib_perftest_cuda is leave": asked.options["perftest_cuda"] == "leave",
        ", and building one did not work": _is_built(asked),
        ", and building one needs root or sudo without a password, and apt or dnf": True,
    }
    return f"{own} has no CUDA{next(text for text, holds in why.items() if holds)}"


def _lacking(asked: Asked, *, can: bool) -> str:
    node = asked.node
    there = any(one["link_layer"] == "InfiniBand" for one in node.get("infiniband") or [])
    expected = (node.get("catalog") or {}).get("rdma_nics") or 0
    if not (asked.options["devices"] or there or expected):
        return "no InfiniBand device on this node, its size has none, and ib_devices names no other"
    if not can:
        return (
            f"no {_perftest(asked)} on this node, and installing perftest needs root or sudo"
            " without a password"
        )
    return ""


def _devices(asked: Asked) -> Optional[List[str]]:
    """Names of what is measured; None where nobody has looked yet."""
    if "trueup_rdma" not in asked.found:
        return None
    rows = asked.found["trueup_rdma"]["devices"]
    found = [row["device"] for row in rows if row["kind"] == "infiniband"]
    return list(asked.options["devices"]) or found


def _refused(asked: Asked, devices: Optional[Sequence[str]]) -> List[str]:
    if "nodes" not in asked.found:
        if devices == [] and not asked.found.get("may_rest"):
            return [
                "no InfiniBand device on this node; see role rdma, or name others in ib_devices"
            ]
        return []
    nodes, batch, hosts = len(asked.found["nodes"]), asked.found["batch"], len(asked.hosts)
    if nodes >= 2 and batch == hosts:
        return []
    why = (
        f"{nodes} nodes with an InfiniBand device (or ib_pairwise_device) in a batch of {batch} of"
        f" {hosts} hosts: pairs need two nodes, and a play without serial"
    )
    return [why]


def _case(asked: Asked, case: Mapping[str, Any], device: str, **more: Any) -> Dict[str, Any]:
    given = {**for_module(OPTIONS, asked.options), "device": device, **case, **more}
    if "trueup_sysfs_root" in asked.variables:
        given["sysfs_root"] = asked.variables["trueup_sysfs_root"]
    return given


def _gpus(asked: Asked) -> Mapping[str, int]:
    """The GPU of each adapter: those of ib_gpus, or those beside them by the layout of the node's
    size."""
    given: Mapping[str, int] = asked.options["gpus"]
    attached = len(asked.node.get("gpus") or [])
    if given or not attached:
        return given
    places = gpu_places(asked.node.get("vm_size"), attached, asked.catalog("topologies.yml"))
    return {place.adapter: place.number for place in places if place.adapter}


def _cases(asked: Asked, devices: Sequence[str]) -> List[Dict[str, Any]]:
    """Every device from host memory, then those that have a GPU from GPU memory, where a perftest
    can."""
    options, folder = asked.options, _cuda_folder(asked)
    gpus = _gpus(asked) if folder else {}
    of_host = [_case(asked, case, device) for device in devices for case in options["cases"]]
    return of_host + [
        _case(asked, case, device, gpu=gpus[device], folder=folder)
        for device in devices
        if device in gpus
        for case in options["gpu_cases"]
    ]


def _pairwise(asked: Asked, devices: Sequence[str]) -> Dict[str, Any]:
    """This node for the others, and once all are known its part in each round."""
    options = asked.options
    device = options["pairwise_device"] or next(iter(devices), "")
    reached = asked.hostvars.get(asked.host, {}).get("ansible_host")
    own = {
        "pair_device": device,
        "pair_node": [asked.host, options["address"] or reached or asked.host],
    }
    nodes: Optional[Mapping[str, str]] = asked.found.get("nodes")
    if nodes is None:
        return own
    memory: Dict[str, Any] = {}
    if options["pairwise_gpu_memory"] and device:
        gpus = _gpus(asked)
        if device not in gpus:
            raise BadInput(f"ib_pairwise_gpu_memory: ib_gpus has no GPU for {device}")
        if not _cuda_folder(asked):
            raise BadInput(f"ib_pairwise_gpu_memory: {_why_without(asked)}")
        memory = {"gpu": gpus[device], "folder": _cuda_folder(asked)}
    cases = [_case(asked, case, device, **memory) for case in options["pairwise_cases"]]
    seconds = _server_seconds(asked, len(nodes))
    names = list(nodes)
    pairs = [
        round_pair(names, number, asked.host) for number in range(len(names) - 1 + len(names) % 2)
    ]
    return {
        **own,
        "pair_cases": cases,
        "rounds": [_part(pair, asked.host, nodes, seconds) for pair in pairs],
        "server_seconds": seconds,
    }


def _part(pair: Sequence[str], host: str, nodes: Mapping[str, str], seconds: int) -> Dict[str, Any]:
    """What a node does in a round: ``peer``, and what the module is given besides the case."""
    if not pair:
        return {"peer": "", "end": {"role": "rests"}}
    server, client = pair
    if host == server:
        return {"peer": client, "end": {"role": "server", "timeout_seconds": seconds}}
    end = {"role": "client", "address": nodes[server], "peer_name": server}
    return {"peer": server, "end": end}


def _server_seconds(asked: Asked, nodes: int) -> int:
    """Clients start in waves of as many as the controller has forks: the last server waits for all
    of them."""
    waves = math.ceil(nodes / 2 / asked.found["forks"])
    seconds: int = asked.options["connect_seconds"] + asked.options["timeout_seconds"] * waves
    return seconds
