"""The role devito, planned: what a node needs, its own sweep over layouts, and that over nodes."""

from __future__ import annotations

import math
import re
from dataclasses import asdict, replace
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from ...node import mpi, own_python
from ...node.affinity import Layout
from ...node.pythons import Need, interpreter
from ...options import for_module, row_refusals
from ...plan import Asked, Now, Plan, Settled, Skipped, files_look
from ...run import nodes as together
from ...run.launcher import pmix
from . import case as devito
from . import search

# The environment takes 480 MiB, compiled kernels a few.
_SPACE_MIB = 1024
_LAYOUT = ("ranks", "threads_per_rank", "binding")
_PROBLEM = ("model", "shape", "space_order", "tn_ms", "nbl")
# Single precision: twice the catalog's double-precision peak on these CPUs (HBv3: 4 and 8 TF,
# hbv3-series-overview).
_SINGLE_PER_DOUBLE = 2
_NORMS = {"field": "field_norm", "receivers": "rec_norm"}


def programs(asked: Asked) -> Dict[str, Any]:
    """What preflight asks the node for, as arguments of program_facts."""
    program = asked.options["program"]
    if program:
        return {"python": program, "imports": ["devito"], "folders": [asked.options["prefix"]]}
    return own_python.programs(asked, _need(asked))


def plan(asked: Asked) -> Plan:
    """A case for each layout; on the first of several nodes that may be used, those over nodes.

    ``lead`` is that node, ``taken_over`` what is measured where ``found["lead"]``, the lead before,
    is lost: this node records then which cases failed of it. ``building`` is the environment in
    which mpi4py is built.

    Raises:
        BadInput: a problem that cannot be.
    """
    refused = _refused(asked)
    if refused:
        return Plan(refused=refused)
    asked, notes = _with_shape(asked)
    options = asked.options
    alone = [_case(asked, layout) for layout in _layouts(asked)]
    over = _node_cases(asked) if options["nodes"] else []
    for case in (*alone, *over):
        devito.Problem.parse(**{name: case[name] for name in _PROBLEM})
    away = together.absent(options["nodes"], asked.hosts, asked.hostvars, "devito")
    lead = next((name for name in options["nodes"] if name not in away), "")
    before = asked.found.get("lead", lead)
    lost = before != lead and before not in asked.hosts
    leads = lead == asked.host
    ranks_by = mpi.of(asked.node)
    return Plan(
        values={
            "environment": _environment(asked),
            "files": [
                {"path": options["prefix"], "state": "directory"},
                asked.program("roles/devito/files/devito_driver.py"),
            ],
            "building": {} if ranks_by is None else ranks_by.compiling,
            "lead": lead,
            "taken_over": over if leads and lost else [],
        },
        skipped=_skipped(asked),
        cases=[*alone, *(over if leads else [])],
        notes=notes,
    )


def settled(planned: Mapping[str, Any], _: Mapping[str, Any]) -> Settled:
    """Whether the environment holds what is pinned, and the driver is in place."""
    made = planned["environment"]
    environment = [own_python.environment_look(made)] if made else []
    return Settled([files_look(planned["files"]), *environment])


def completed(case: Mapping[str, Any], now: Now) -> Union[Dict[str, Any], Skipped]:
    """The case with what the run says meanwhile: which of its nodes are gone, the norms that the
    first layout of its problem gave, which every other must give too, and the memory bandwidth; or
    why its layout cannot be the fastest, where that is searched for."""
    several = "nodes" in case
    found = {name: value for name, value in case.items() if name != "search"}
    if several:
        found["absent"] = together.absent(case["nodes"], now.hosts, now.hostvars, "devito")
    of_problem = (
        record
        for record in now.records
        if record["benchmark"] == "devito"
        and (several or now.host in record["nodes"])
        and _is_of(record, case)
    )
    found.update(_norms(next(of_problem, None)))
    triads = [] if several else _triads(now)
    found.update({"memory_bandwidth": max(triads)} if triads else {})
    why = _slower(found, now) if case.get("search") == "fastest" else None
    return Skipped(f"devito {search.named(_layout_of(case))}", why) if why else found


def _slower(case: Mapping[str, Any], now: Now) -> Optional[str]:
    """Why the case's layout cannot be the node's fastest, by the run's records."""
    facts = now.hostvars[now.host].get("ansible_facts") or {}
    machine = search.Machine.of(
        facts.get("trueup_node") or {}, case.get("memory_bandwidth"), case.get("peak_flops")
    )
    ran = [_ran(record) for _, _, record in _own(case, now.records, now.host)]
    return search.cannot_win(_layout_of(case), ran, machine)


def _ran(record: Mapping[str, Any]) -> search.Ran:
    """A layout of the node's own, as its record has it."""

    def figure(name: str, statistic: str = "median") -> Optional[float]:
        return next(iter(_figures(record, name, statistic)), None)

    parameters = record["parameters"]
    seconds = figure("run_time") or math.inf
    flop_rate, intensity = figure("flop_rate"), figure("operational_intensity")
    flops = flop_rate * seconds if flop_rate else None
    extents = map(int, parameters["shape"].split("x"))
    points = math.prod(extent + 2 * parameters["nbl"] for extent in extents)
    point_rate = figure("point_rate")
    steps = point_rate * seconds / points if point_rate else None
    return search.Ran(
        layout=Layout(record["ranks"], record["threads_per_rank"], parameters["binding"]),
        seconds=seconds,
        least=figure("run_time", "min") or seconds,
        most=figure("run_time", "max") or seconds,
        halo_share=figure("halo_share") or 0.0,
        flops=flops,
        step_bytes=flops / intensity / steps if flops and intensity and steps else None,
        steps=steps,
    )


def _triads(now: Now) -> List[float]:
    """What STREAM measured on the node in this run."""
    return [
        rate
        for record in now.records
        if record["benchmark"] == "stream" and now.host in record["nodes"]
        for rate in _figures(record, "triad_rate", "median")
    ]


def _norms(record: Optional[Mapping[str, Any]]) -> Dict[str, Any]:
    if record is None:
        return {}
    norms = {
        name: value
        for name, figure in _NORMS.items()
        for value in _figures(record, figure, "single")
    }
    return {"reference_norms": norms}


def fastest(
    cases: Sequence[Mapping[str, Any]], records: Sequence[Mapping[str, Any]], host: str
) -> str:
    """Which of a node's own layouts won, in a sentence; empty where none is recorded, and in a weak
    series, each layout of which has work of its own.

    Args:
        cases: the plan's.
        records: of the run, those that ended ok.
        host: the node.
    """
    own = [case for case in cases if "nodes" not in case and case["scaling"] == "strong"]
    ranked = [one for case in own[:1] for one in _own(case, records, host)]
    if not ranked:
        return ""
    seconds, _, best = min(ranked, key=lambda one: one[:2])
    reused = sum(record["parameters"].get("tuning") == "reused" for _, _, record in ranked)
    told = f"; {reused} reused the block shape of an earlier run (devito_tuning)" if reused else ""
    return (
        f"{host}: {best['ranks']} rank(s) x {best['threads_per_rank']} thread(s), binding"
        f" {best['parameters']['binding']}, is the fastest of {len(ranked)} layouts:"
        f" {seconds:.3f} s median of {best['parameters']['repeats']} repeats{told}"
    )


def _own(
    case: Mapping[str, Any], records: Sequence[Mapping[str, Any]], host: str
) -> List[Tuple[float, int, Mapping[str, Any]]]:
    """Seconds, place and record of the node's own layouts of the case's problem."""
    return [
        (seconds, place, record)
        for place, record in enumerate(records)
        if record["benchmark"] == "devito"
        and record["nodes"] == [host]
        and record["parameters"].get("launcher") == "local"
        and _is_of(record, case)
        for seconds in _figures(record, "run_time", "median")
    ]


def _is_of(record: Mapping[str, Any], case: Mapping[str, Any]) -> bool:
    """Whether the record is of the case's problem, in whichever layout."""
    return all(record["parameters"].get(name) == case[name] for name in _PROBLEM)


def _figures(record: Mapping[str, Any], name: str, statistic: str) -> List[float]:
    return [
        float(row["value"])
        for row in record["metrics"]
        if row["name"] == name and row.get("statistic") == statistic
    ]


def _refused(asked: Asked) -> List[str]:
    options = asked.options
    refused = [
        text
        for name in ("layouts", "node_layouts")
        for text in row_refusals(devito.OPTIONS, options[name], f"devito_{name}", _LAYOUT)
    ]
    refused += [
        f"devito_{name} is {options[name]!r}: it must be like 256x256x256"
        for name in ("shape", "node_shape")
        if options[name] and not re.fullmatch(devito.SHAPE, options[name])
    ]
    return refused + (_refused_nodes(asked) if options["nodes"] else [])


def _refused_nodes(asked: Asked) -> List[str]:
    """What is wrong with nodes that are to be measured together."""
    options, nodes = asked.options, asked.options["nodes"]
    strange = [name for name in nodes if name not in asked.hostvars]
    wrong = [count for count in options["node_counts"] if not 1 <= count <= len(nodes)]
    folder = options["job_directory"]
    unlike = together.unlike(nodes, asked.hostvars)
    counts = ", ".join(map(str, wrong))
    rules = (
        (strange, f"devito_nodes: {', '.join(strange)} must be hosts of this inventory"),
        (
            wrong,
            f"devito_node_counts has {counts}, and devito_nodes has {len(nodes)} nodes at most",
        ),
        (
            "slurm" in options["launchers"] and not folder.startswith("/"),
            f"the launcher slurm needs devito_job_directory {folder!r}: a folder that nodes share",
        ),
        (unlike, f"devito_nodes: {unlike}"),
    )
    return [text for broken, text in rules if broken]


def _with_shape(asked: Asked) -> Tuple[Asked, List[str]]:
    """The same with a shape: the one that is set, or one that fills the node, with a sentence."""
    options = asked.options
    if options["shape"]:
        return asked, []
    if options["scaling"] == "weak":
        return replace(asked, options={**options, "shape": devito.DEFAULT_SHARE}), []
    others = {name: options[name] for name in _PROBLEM if name != "shape"}
    most = _most_ranks(asked.node["layouts"])
    cores, memory = most["ranks"] * most["threads_per_rank"], asked.node.get("memory_bytes")
    shape = devito.filling(cores, memory, **others)
    gib = f" and {memory / 1024**3:.1f} GiB of memory" if memory else ""
    note = (
        f"Devito computes {shape} points, chosen by the {cores} core(s){gib} of the node. This is a"
        " trial of this machine, not the problem of the published article (preset devito-article)."
    )
    return replace(asked, options={**options, "shape": shape, "sized_by": "machine"}), [note]


def _layouts(asked: Asked) -> List[Mapping[str, Any]]:
    """What the user wants, or the sweep of the node's topology; without mpirun, of one rank."""
    layouts: Sequence[Mapping[str, Any]] = asked.options["layouts"] or asked.node["layouts"]
    if _searches(asked):
        found = search.ordered(map(_layout_of, layouts), asked.node.get("cores") or 0)
        layouts = [asdict(one) for one in found]
    return [one for one in layouts if one["ranks"] == 1 or mpi.of(asked.node)]


def _searches(asked: Asked) -> bool:
    """Whether the fastest layout is searched for, in the sweep of the node's topology."""
    options = asked.options
    searched = options["search"] == "fastest" and options["scaling"] == "strong"
    return searched and not options["layouts"]


def _case(asked: Asked, layout: Mapping[str, Any]) -> Dict[str, Any]:
    options = asked.options
    share = layout["ranks"] * layout["threads_per_rank"] if options["scaling"] == "weak" else 1
    peak = ((asked.node.get("catalog") or {}).get("peak_fp64_gflops") or 0) * 1e9
    return {
        **for_module(devito.OPTIONS, asked.options),
        **_layout(layout),
        "shape": _grown(options["shape"], share),
        "sized_by": options.get("sized_by"),
        "peak_flops": peak * _SINGLE_PER_DOUBLE or None,
        "search": "fastest" if _searches(asked) else None,
    }


def _node_cases(asked: Asked) -> List[Dict[str, Any]]:
    """A case for each number of nodes, layout, launcher and halo exchange, in this order: from few
    nodes to many, so that what a lost node leaves behind is the whole of the smaller ones. One rank
    alone exchanges nothing, so it has one case."""
    options = asked.options
    names, modes = options["nodes"], options["node_mpi_modes"]
    total = len(names)
    powers = [2**power for power in range(total.bit_length()) if 2**power < total]
    cases = []
    for count in sorted(set(options["node_counts"])) or [*powers, total]:
        share = count if options["node_scaling"] == "weak" else 1
        for layout in options["node_layouts"] or [_most_ranks(asked.node["layouts"])]:
            several = count * layout["ranks"] > 1
            cases += [
                {
                    **for_module(devito.OPTIONS, asked.options),
                    **_layout(layout),
                    **_launched(asked, launcher, names[:count]),
                    "shape": _grown(options["node_shape"] or options["shape"], share),
                    "sized_by": None if options["node_shape"] else options.get("sized_by"),
                    "mpi_mode": mode,
                    "scaling": options["node_scaling"],
                }
                for launcher in options["launchers"]
                for mode in (modes if several else [options["mpi_mode"]])
            ]
    return cases


def _layout(layout: Mapping[str, Any]) -> Dict[str, Any]:
    return {name: layout[name] for name in _LAYOUT}


def _layout_of(given: Mapping[str, Any]) -> Layout:
    return Layout(**_layout(given))


def _launched(asked: Asked, launcher: str, names: Sequence[str]) -> Dict[str, Any]:
    options = asked.options
    by = "mpirun" if launcher == "mpirun" else "srun"
    return {
        "nodes": list(names),
        "hosts": together.hosts(names, asked.hostvars),
        "launcher": launcher,
        "launcher_arguments": pmix(launcher, options[f"{by}_arguments"], asked.node),
        "job_directory": options["job_directory"] or None,
        "job_options": options["job_options"],
        "queue_seconds": options["queue_seconds"],
    }


def _grown(shape: str, times: int) -> str:
    """The shape with its first extent so many times."""
    first, rest = shape.split("x", 1)
    return f"{int(first) * times}x{rest}"


def _most_ranks(layouts: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """The layout that uses most cores, and of those the one of most ranks."""
    return max(layouts, key=lambda one: (one["ranks"] * one["threads_per_rank"], one["ranks"]))


def _need(asked: Asked) -> Need:
    return Need.of(asked.data["python"])


def _environment(asked: Asked) -> Dict[str, Any]:
    """What role pinned_venv is given; empty where a site's own Devito is measured."""
    if asked.options["program"]:
        return {}
    return own_python.environment(asked, "devito", _need(asked), _requirements(asked))


def _lacking(asked: Asked) -> List[str]:
    """What keeps a site's own Python from running Devito, a sentence or none."""
    program, python = asked.options["program"], asked.found["python"]
    if python is None:
        return [f"devito_program {program} is not there, or does not run as a Python does"]
    if python["missing"]:
        return [f"devito_program {program} has no devito: install it there, or leave this empty"]
    return []


def _requirements(asked: Asked) -> List[str]:
    """Files of the role. mpi4py only where an MPI library is: without one it cannot be imported,
    and Devito runs without it."""
    python = interpreter(asked, _need(asked))
    version = ".".join(map(str, python.version)) if python else ""
    own = asked.data["pins"].get(version, "")
    names = ["requirements-pip.txt", f"requirements-build{own}.txt", f"requirements{own}.txt"]
    return [*names, *(["requirements-mpi.txt"] if mpi.of(asked.node) else [])]


def _skipped(asked: Asked) -> List[Skipped]:
    programs = asked.node["programs"]
    whole = []
    if not (programs["gcc"] or asked.node["privilege"]):
        whole.append(
            "no C compiler gcc on this node, and installing one needs root or sudo without a"
            " password"
        )
    if asked.options["program"]:
        whole += _lacking(asked)
    else:
        whole += own_python.lacking(asked, "devito", _need(asked), mebibytes=_SPACE_MIB)
    skipped = [Skipped("devito", why) for why in whole]
    if mpi.of(asked.node) is None:
        skipped.append(Skipped("devito layouts of several ranks", mpi.lacking(asked.node)))
    return skipped
