"""What a hostile node answers, in the place of a module: a table of patches for lying_python.py."""

from __future__ import annotations

from typing import Any, NamedTuple

RUN_ID = "20261129T091300Z-7c1e"
OTHER_RUN = "20261128T091300Z-beef"
# The modules whose answers are rewritten, as tests/contract/test_hostile_nodes.py asks them.
IDENTIFY, STATE, STREAM = "azure_node_facts", "node_state", "stream_bench"
COMMAND, SLURM, KEYS = "command", "slurm_facts", "ssh_keys"
GPU, IB = "gpu_facts", "ib_facts"
# What becomes of an answer: it is refused and its node named; Ansible fails the task by itself; or
# the answer is one, and does nothing.
REFUSED, FAILED, NOTHING = "refused", "failed", "nothing"
NODE, RECORD = "ansible_facts/trueup_node", "record"


class Patch(NamedTuple):
    """One rewritten answer: the kind of attack, whose answer, how, and what becomes of it."""

    kind: str
    module: str
    how: dict[str, Any]
    ends: str = REFUSED


def patches(folder: str) -> list[Patch]:
    """All of them; ``folder`` is the controller's, where nothing may change."""
    touch = f"touch {folder}/canary"
    commands = [f"$(shell {touch})", f"`{touch}`", f"$({touch})", f"'; {touch}; '"]
    paths = ["../../outside", f"{folder}/outside", f"{RUN_ID}/../../outside", "..", f"{RUN_ID}\n"]
    templates = [f"{{{{ lookup('ansible.builtin.pipe', '{touch}') }}}}"]
    return [
        *_facts_of_control([*commands, *paths, *templates, OTHER_RUN, 5, {}, None]),
        *_statistics(folder),
        *_inventory(touch),
        *_keys_of_control(folder),
        *_records([*commands, *paths]),
        *_identity(),
        *_state_of_parts(),
        *_slurm([*commands, *paths]),
        *_ssh_keys(),
        *_shapes(),
    ]


def _set(kind: str, module: str, *pairs: tuple[str, Any], ends: str = REFUSED) -> Patch:
    return Patch(kind, module, {"set": list(pairs)}, ends)


def _facts_of_control(values: list[Any]) -> list[Patch]:
    kind = "run id as a fact"
    found = [
        _set(kind, module, ("ansible_facts/trueup_run_id", value))
        for module in (IDENTIFY, STATE, STREAM, COMMAND)
        for value in (values if module == IDENTIFY else values[::3])
    ]
    others = {
        "trueup_failed_roles": ["hpcx"],
        "trueup_unmeasured_here": [{"what": "stream", "why": "it does not matter"}],
        "trueup_report": "outside",
        "trueup_results": "outside",
        "trueup_skipped": [{"what": "all", "why": "none"}],
    }
    return found + [
        _set("other variables as facts", module, (f"ansible_facts/{name}", value))
        for module in (IDENTIFY, COMMAND)
        for name, value in others.items()
    ]


def _statistics(folder: str) -> list[Patch]:
    report = {"trueup_report": f"{folder}/outside"}
    texts: list[Any] = [
        {"data": report},
        {"data": report, "per_host": False},
        {"data": {"trueup_skipped": [{"what": "stream", "why": "x"}]}, "per_host": True},
        {"data": [1]},
        5,
    ]
    return [
        _set("run statistics: report folder, skips", module, ("ansible_stats", text))
        for module in (IDENTIFY, STATE, STREAM, COMMAND)
        for text in texts
    ]


def _inventory(touch: str) -> list[Patch]:
    variables = {"ansible_connection": "local", "ansible_python_interpreter": f"{touch};"}
    host = {"host_name": "new", "groups": ["all"], "host_vars": variables}
    return [
        _set("hosts, groups, unreachable", module, ("changed", True), pair)
        for module in (IDENTIFY, STATE, STREAM, COMMAND)
        for pair in (("add_host", host), ("add_group", "slurm_controller"))
    ] + [
        _set("hosts, groups, unreachable", module, ("unreachable", True))
        for module in (STREAM, COMMAND)
    ]


def _keys_of_control(folder: str) -> list[Patch]:
    kind = "keys of controller actions"
    skips = [{"what": "stream", "why": "not today"}]
    begun = {"folder": f"{folder}/outside", "process": {"pid": 1}}
    controller = {"boot": "x", "pids": "y"}
    return [
        _set(kind, STREAM, ("skips", skips)),
        _set(kind, STREAM, ("needless", skips[0])),
        _set(kind, STREAM, ("needless", skips[0]), ("record", None), ("ansible_facts", {})),
        _set(kind, STREAM, ("begun", begun)),
        _set(kind, STREAM, ("skipped", True), ("record", None), ("ansible_facts", {})),
        _set(kind, STREAM, ("record", None), ("ansible_facts", {})),
        *(_set(kind, STREAM, ("resumed", one)) for one in (0, -1, 99, "0", True)),
        _set(kind, STREAM, ("holder", {"controller": {**controller, "pid": "../../self"}})),
        _set(kind, STREAM, ("holder", {"controller": [1]})),
        _set(kind, STREAM, ("holder", "x")),
        _set(kind, STATE, ("skips", skips)),
        _set(kind, STATE, ("record", None), ("ansible_facts", {})),
        _set(kind, COMMAND, ("skips", skips), ("needless", skips[0]), ends=NOTHING),
        _set(kind, COMMAND, ("unconverged", ["stream"]), ("is_converged", True), ends=NOTHING),
    ]


def _records(texts: list[str]) -> list[Patch]:
    found = []
    for module, name in ((STREAM, "trueup_stream"), (STATE, "trueup_node_state")):

        def both(kind: str, member: str, value: Any, of: str = module, fact: str = name) -> None:
            pairs = [(f"{RECORD}/{member}", value), (f"ansible_facts/{fact}/{member}", value)]
            found.append(_set(kind, of, *pairs))

        for nodes in (["honest"], ["hostile", "honest"], ["honest", "hostile"], [], "honest"):
            both("another node's name", "nodes", nodes)
        for nodes in (["../../outside"], [None], ["hostile", "hostile"], {"hostile": 1}):
            both("another node's name", "nodes", nodes)
        for value in (OTHER_RUN, None, 5, *texts[:6]):
            both("another run", "run_id", value)
        for value in ("devito", "../../outside", "", None, ["stream"]):
            both("another benchmark", "benchmark", value)
        for member in ("vm_size", "region", "offer"):
            both("another size, region or offer", member, "Standard_ND96isr_H100_v5")
        for member, value in [*_BROKEN.items()][:: 1 if module == STREAM else 3]:
            both("record against the schema", member, value)
        both("path of a raw file", "raw", {"path": "../../canary", "sha256": "0" * 64})
    return [
        *found,
        _set("record against the schema", STREAM, (f"{RECORD}/metrics", [{}])),
        _set("record against the schema", STREAM, ("msg", "\ud800"), ends=FAILED),
        _set("facts unlike the record", STREAM, ("ansible_facts/trueup_stream/case", "x")),
        _set("facts unlike the record", STREAM, ("ansible_facts/trueup_nccl", {})),
        _set("path of a raw file", STREAM, ("raw", {"path": "../../canary"})),
        _set("path of a raw file", STREAM, ("raw", 5)),
        _set(
            "record from a module that measures nothing",
            COMMAND,
            ("record", {"schema": "trueup.record/1", "run_id": RUN_ID}),
        ),
    ]


_BROKEN: dict[str, Any] = {
    "case": "../../../outside",
    "outcome": "great",
    "ranks": "2",
    "node_count": 5,
    "duration_seconds": float("nan"),
    "metrics": [{"name": "copy", "value": float("inf"), "unit": "byte/s", "direction": "higher"}],
    "software": {"x": {"$pad": 9 << 20}},
    "parameters": {"x": []},
    "surprise": 1,
    "schema": {"$gone": 1},
    "started_at": "yesterday",
}


def _identity() -> list[Patch]:
    kind = "identity: family, size, catalog row, types"
    facts: dict[str, Any] = {
        "family": "slurm_controller",
        "vm_size": ["x"],
        "catalog": {"gpus": 8},
        "cores": "many",
        "gpus": {},
        "warnings": "text",
        "numa": [1],
        "has_gpu": "yes",
        "system": "windows",
        "privilege": "root; id",
        "memory_bytes": float("nan"),
        "surprise": 1,
        "free_bytes": [],
    }
    return [
        *(_set(kind, IDENTIFY, (f"{NODE}/{name}", value)) for name, value in facts.items()),
        *(_set(kind, IDENTIFY, (f"{NODE}/family", one)) for one in ("all", "windows", None, [])),
        *(_set(kind, IDENTIFY, (NODE, one)) for one in (None, [], "hb", {})),
        _set(kind, IDENTIFY, (f"{NODE}/warnings", [5])),
        _set(kind, IDENTIFY, (f"{NODE}/vm_size", {"$gone": 1})),
        _set(kind, IDENTIFY, ("ansible_facts/trueup_stream", {"schema": "trueup.record/1"})),
        _set(kind, IDENTIFY, ("ansible_facts/trueup_slurm", {"hostname": "honest"})),
        _set(kind, IDENTIFY, (f"{NODE}/kernel", {"$pad": 5 << 20})),
    ]


def _state_of_parts() -> list[Patch]:
    kind = "GPU and RDMA state of wrong types"
    gpu, rdma = "ansible_facts/trueup_gpu", "ansible_facts/trueup_rdma"
    return [
        *(_set(kind, GPU, (gpu, one)) for one in (None, [], "well", {})),
        _set(kind, GPU, (f"{gpu}/problems", "none")),
        _set(kind, GPU, (f"{gpu}/devices", [5])),
        _set(kind, GPU, (f"{gpu}/gpus", "8")),
        *(_set(kind, IB, (rdma, one)) for one in (None, [], "well", {})),
        _set(kind, IB, (f"{rdma}/problems", [{}])),
        _set(kind, IB, (f"{rdma}/devices", [{"device": "mlx5_0"}])),
        _set(kind, IB, (f"{rdma}/agent", "x")),
    ]


def _slurm(texts: list[str]) -> list[Patch]:
    fact = "ansible_facts/trueup_slurm"
    names = [*texts, "honest\nNodeName=x", "a b", "", [], 5]
    return [
        *(
            _set("host name and plugins for Slurm's files", SLURM, (f"{fact}/hostname", one))
            for one in names
        ),
        _set("host name and plugins for Slurm's files", SLURM, (f"{fact}/plugins", "pmix")),
        _set("host name and plugins for Slurm's files", SLURM, (f"{fact}/slurm_uid", "0")),
    ]


def _ssh_keys() -> list[Patch]:
    kind = "ssh keys for other nodes"
    return [
        _set(kind, KEYS, ("peer/names", ["honest"])),
        _set(kind, KEYS, ("peer/names", ["hostile", "*"])),
        _set(kind, KEYS, ("peer/names", [])),
        _set(kind, KEYS, ("peer/public_key", ["ssh-rsa AAAA"])),
        _set(kind, KEYS, ("peer/host_keys", [5])),
        _set(kind, KEYS, ("peer/addresses", "all")),
        _set(kind, KEYS, ("peer", "x")),
        _set(kind, KEYS, ("peer/host_keys", {"$gone": 1})),
    ]


def _shapes() -> list[Patch]:
    kind = "size, depth, no JSON"
    deep = '{"changed": false, "x": ' + "[" * 100_000 + "]" * 100_000 + "}"
    found = []
    for module in (IDENTIFY, STREAM, COMMAND):
        found += [
            _set(kind, module, ("msg", {"$pad": 70 << 20})),
            _set(kind, module, ("msg", {"$nest": 60})),
            _set(kind, module, ("ansible_facts", {"$gone": 1}), ("ansible_facts", [])),
            _set(kind, module, ("ansible_facts", None)),
            Patch(kind, module, {"text": deep}),
            *(Patch(kind, module, {"text": text}, FAILED) for text in ("", "{", "[]", "null")),
        ]
    found.append(Patch(kind, COMMAND, {"endless": True}))
    return [*found, _set(kind, COMMAND, ("stdout", {"$many": 1_100_000}))]
