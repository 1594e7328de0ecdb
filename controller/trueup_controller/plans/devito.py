"""The role devito, planned: a node's needs, its own sweep over layouts, and that over nodes."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from trueup_node.benchmarks.devito import case as devito
from trueup_node.node import mpi, own_python
from trueup_node.node.affinity import Layout
from trueup_node.node.pythons import Need, interpreter
from trueup_node.options import for_module, row_refusals
from trueup_node.plan import Convergence, Now, Plan, PlanInputs, Skipped, files_look

from .. import launch_nodes as together
from . import devito_search

# The environment takes 480 MiB, compiled kernels a few.
_SPACE_MIB = 1024
_LAYOUT = ("ranks", "threads_per_rank", "binding")
_PROBLEM = ("model", "shape", "space_order", "tn_ms", "nbl")
# Single precision: twice the catalog's double-precision peak on these CPUs (HBv3: 4 and 8 TF,
# hbv3-series-overview).
_SINGLE_PER_DOUBLE = 2
_NORMS = {"field": "field_norm", "receivers": "rec_norm"}


def programs(inputs: PlanInputs) -> dict[str, Any]:
    """Preflight queries for the node, as arguments of program_facts."""
    program = inputs.options["program"]
    if program:
        return {"python": program, "imports": ["devito"], "folders": [inputs.options["prefix"]]}
    return own_python.programs(inputs, _need(inputs))


def plan(inputs: PlanInputs) -> Plan:
    """A case for each layout; on the first of several nodes that may be used, those over nodes.

    ``lead`` is that node, ``taken_over`` the cases that are measured where ``found["lead"]``, the
    lead before, is lost: this node then records which cases failed. ``building`` is the environment
    in which mpi4py is built.

    Raises:
        BadInput: a problem that cannot be.
    """
    refused = _refused(inputs)
    if refused:
        return Plan(refused=refused)
    inputs, notes = _with_shape(inputs)
    options = inputs.options
    alone = [_case(inputs, layout) for layout in _layouts(inputs)]
    over = _node_cases(inputs) if options["nodes"] else []
    for case in (*alone, *over):
        devito.Problem.parse(**{name: case[name] for name in _PROBLEM})
    away = together.absent(options["nodes"], inputs.hosts, inputs.hostvars, "devito")
    lead = next((name for name in options["nodes"] if name not in away), "")
    before = inputs.found.get("lead", lead)
    lost = before != lead and before not in inputs.hosts
    leads = lead == inputs.host
    ranks_by = mpi.of(inputs.node)
    return Plan(
        values={
            "environment": _environment(inputs),
            "files": [
                {"path": options["prefix"], "state": "directory"},
                inputs.program("roles/devito/files/devito_driver.py"),
            ],
            "building": {} if ranks_by is None else ranks_by.compiling,
            "lead": lead,
            "taken_over": over if leads and lost else [],
        },
        skipped=_skipped(inputs),
        cases=[*alone, *(over if leads else [])],
        notes=notes,
    )


def convergence(planned: Mapping[str, Any], _: Mapping[str, Any]) -> Convergence:
    """Whether the environment holds the pinned packages, and the driver is in place."""
    venv = planned["environment"]
    environment = [own_python.environment_look(venv)] if venv else []
    return Convergence([files_look(planned["files"]), *environment])


def completed(case: Mapping[str, Any], now: Now) -> dict[str, Any] | Skipped:
    """The case with facts from this run: which of its nodes are gone, the norms that the first
    layout of its problem gave, which every other must give too, and the memory bandwidth; or, in a
    search for the fastest layout, why its layout cannot be it."""
    several = "nodes" in case
    parameters = {name: value for name, value in case.items() if name != "search"}
    if several:
        parameters["absent"] = together.absent(case["nodes"], now.hosts, now.hostvars, "devito")
    of_problem = (
        record
        for record in now.records
        if record["benchmark"] == "devito"
        and (several or now.host in record["nodes"])
        and _is_of(record, case)
    )
    parameters.update(_norms(next(of_problem, None)))
    triads = [] if several else _triads(now)
    parameters.update({"memory_bandwidth": max(triads)} if triads else {})
    reason = _slower(parameters, now) if case.get("search") == "fastest" else None
    return (
        Skipped(f"devito {devito_search.named(_layout_of(case))}", reason) if reason else parameters
    )


def _slower(case: Mapping[str, Any], now: Now) -> str | None:
    """Why the case's layout cannot be the node's fastest, by the run's records."""
    facts = now.hostvars[now.host].get("ansible_facts") or {}
    machine = devito_search.Machine.of(
        facts.get("trueup_node") or {}, case.get("memory_bandwidth"), case.get("peak_flops")
    )
    ran = [_ran(record) for _, _, record in _own(case, now.records, now.host)]
    return devito_search.cannot_win(_layout_of(case), ran, machine)


def _ran(record: Mapping[str, Any]) -> devito_search.Ran:
    """A layout of the node's own, as its record has it."""

    def figure(name: str, statistic: str = "median") -> float | None:
        return next(iter(_figures(record, name, statistic)), None)

    parameters = record["parameters"]
    seconds = figure("run_time") or math.inf
    flop_rate, intensity = figure("flop_rate"), figure("operational_intensity")
    flops = flop_rate * seconds if flop_rate else None
    extents = map(int, parameters["shape"].split("x"))
    points = math.prod(extent + 2 * parameters["nbl"] for extent in extents)
    point_rate = figure("point_rate")
    steps = point_rate * seconds / points if point_rate else None
    return devito_search.Ran(
        layout=Layout(record["ranks"], record["threads_per_rank"], parameters["binding"]),
        seconds=seconds,
        least=figure("run_time", "min") or seconds,
        most=figure("run_time", "max") or seconds,
        halo_share=figure("halo_share") or 0.0,
        flops=flops,
        step_bytes=flops / intensity / steps if flops and intensity and steps else None,
        steps=steps,
    )


def _triads(now: Now) -> list[float]:
    """STREAM's bandwidths on the node in this run."""
    return [
        rate
        for record in now.records
        if record["benchmark"] == "stream" and now.host in record["nodes"]
        for rate in _figures(record, "triad_rate", "median")
    ]


def _norms(record: Mapping[str, Any] | None) -> dict[str, Any]:
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
    local_cases = [case for case in cases if "nodes" not in case and case["scaling"] == "strong"]
    ranked = [candidate for case in local_cases[:1] for candidate in _own(case, records, host)]
    if not ranked:
        return ""
    seconds, _, best = min(ranked, key=lambda candidate: candidate[:2])
    reused = sum(record["parameters"].get("tuning") == "reused" for _, _, record in ranked)
    reuse_note = f"; {reused} reused the block shape of an earlier run" if reused else ""
    return (
        f"{host}: {best['ranks']} rank(s) x {best['threads_per_rank']} thread(s), binding"
        f" {best['parameters']['binding']}, is the fastest of {len(ranked)} layouts:"
        f" {seconds:.3f} s median of {best['parameters']['repeats']} repeats{reuse_note}"
    )


def _own(
    case: Mapping[str, Any], records: Sequence[Mapping[str, Any]], host: str
) -> list[tuple[float, int, Mapping[str, Any]]]:
    """Seconds, place and record of the node's own layouts of the case's problem."""
    return [
        (seconds, record_index, record)
        for record_index, record in enumerate(records)
        if record["benchmark"] == "devito"
        and record["nodes"] == [host]
        and record["parameters"].get("launcher") == "local"
        and _is_of(record, case)
        for seconds in _figures(record, "run_time", "median")
    ]


def _is_of(record: Mapping[str, Any], case: Mapping[str, Any]) -> bool:
    """Whether the record is of the case's problem, in whichever layout."""
    return all(record["parameters"].get(name) == case[name] for name in _PROBLEM)


def _figures(record: Mapping[str, Any], name: str, statistic: str) -> list[float]:
    return [
        float(row["value"])
        for row in record["metrics"]
        if row["name"] == name and row.get("statistic") == statistic
    ]


def _refused(inputs: PlanInputs) -> list[str]:
    options = inputs.options
    refused = [
        text
        for name in ("layouts", "node_layouts")
        for text in row_refusals(devito.OPTIONS, options[name], f"devito_{name}", _LAYOUT)
    ]
    shape = options["shape"]
    if shape and not re.fullmatch(devito.SHAPE, shape):
        refused.append(f"devito_shape is {shape!r}: it must be like 256x256x256")
    return refused + (_refused_nodes(inputs) if options["nodes"] else [])


def _refused_nodes(inputs: PlanInputs) -> list[str]:
    """Problems of nodes that are to be measured together."""
    options, nodes = inputs.options, inputs.options["nodes"]
    strange = [name for name in nodes if name not in inputs.hostvars]
    wrong = [count for count in options["node_counts"] if not 1 <= count <= len(nodes)]
    no_directory = together.without_job_directory(inputs.variables)
    unlike = together.unlike(nodes, inputs.hostvars)
    counts = ", ".join(map(str, wrong))
    rules = (
        (strange, f"devito_nodes: {', '.join(strange)} must be hosts of this inventory"),
        (
            wrong,
            f"devito_node_counts has {counts}, and devito_nodes has {len(nodes)} nodes at most",
        ),
        (
            "slurm" in options["launchers"] and no_directory,
            f"devito_launchers: {no_directory}",
        ),
        (unlike, f"devito_nodes: {unlike}"),
    )
    return [text for broken, text in rules if broken]


def _with_shape(inputs: PlanInputs) -> tuple[PlanInputs, list[str]]:
    """The same with a shape: the one that is set, or one that fills the node, with a sentence."""
    options = inputs.options
    if options["shape"]:
        return inputs, []
    if options["scaling"] == "weak":
        return replace(inputs, options={**options, "shape": devito.DEFAULT_SHARE}), []
    problem_options = {name: options[name] for name in _PROBLEM if name != "shape"}
    most = _most_ranks(inputs.node["layouts"])
    cores, memory = most["ranks"] * most["threads_per_rank"], inputs.node.get("memory_bytes")
    shape = devito.filling(cores, memory, **problem_options)
    gib = f" and {memory / 1024**3:.1f} GiB of memory" if memory else ""
    note = (
        f"Devito computes {shape} points, chosen by the {cores} core(s){gib} of the node. This is a"
        " trial of this machine, not the problem of the published article (preset devito-article)."
    )
    return replace(inputs, options={**options, "shape": shape, "sized_by": "machine"}), [note]


def _layouts(inputs: PlanInputs) -> list[Mapping[str, Any]]:
    """The user's layouts, or the sweep of the node's topology; without mpirun, of one rank."""
    layouts: Sequence[Mapping[str, Any]] = inputs.options["layouts"] or inputs.node["layouts"]
    if _searches(inputs):
        ordered_layouts = devito_search.ordered(
            map(_layout_of, layouts), inputs.node.get("cores") or 0
        )
        layouts = [asdict(layout) for layout in ordered_layouts]
    return [layout for layout in layouts if layout["ranks"] == 1 or mpi.of(inputs.node)]


def _searches(inputs: PlanInputs) -> bool:
    """Whether the fastest layout is searched for, in the sweep of the node's topology."""
    options = inputs.options
    searched = options["search"] == "fastest" and options["scaling"] == "strong"
    return searched and not options["layouts"]


def _case(inputs: PlanInputs, layout: Mapping[str, Any]) -> dict[str, Any]:
    options = inputs.options
    share = layout["ranks"] * layout["threads_per_rank"] if options["scaling"] == "weak" else 1
    peak = ((inputs.node.get("catalog") or {}).get("peak_fp64_gflops") or 0) * 1e9
    return {
        **for_module(devito.OPTIONS, inputs.options),
        **_layout(layout),
        "shape": _grown(options["shape"], share),
        "sized_by": options.get("sized_by"),
        "peak_flops": peak * _SINGLE_PER_DOUBLE or None,
        "search": "fastest" if _searches(inputs) else None,
    }


def _node_cases(inputs: PlanInputs) -> list[dict[str, Any]]:
    """A case for each number of nodes, layout, launcher and halo exchange, in this order: from few
    nodes to many, so that a lost node leaves all of the smaller cases behind. One rank alone
    exchanges nothing, so it has one case."""
    options = inputs.options
    names, modes = options["nodes"], options["node_mpi_modes"]
    total = len(names)
    powers = [2**power for power in range(total.bit_length()) if 2**power < total]
    cases = []
    for count in sorted(set(options["node_counts"])) or [*powers, total]:
        share = count if options["node_scaling"] == "weak" else 1
        for layout in options["node_layouts"] or [_most_ranks(inputs.node["layouts"])]:
            several = count * layout["ranks"] > 1
            cases += [
                {
                    **for_module(devito.OPTIONS, inputs.options),
                    **_layout(layout),
                    **_launched(inputs, launcher, names[:count]),
                    "shape": _grown(options["shape"], share),
                    "sized_by": options.get("sized_by"),
                    "mpi_mode": mode,
                    "scaling": options["node_scaling"],
                }
                for launcher in options["launchers"]
                for mode in (modes if several else [devito.MPI_MODE])
            ]
    return cases


def _layout(layout: Mapping[str, Any]) -> dict[str, Any]:
    return {name: layout[name] for name in _LAYOUT}


def _layout_of(parameters: Mapping[str, Any]) -> Layout:
    return Layout(**_layout(parameters))


def _launched(inputs: PlanInputs, launcher: str, names: Sequence[str]) -> dict[str, Any]:
    options = inputs.options
    return {
        "nodes": list(names),
        "hosts": together.hosts(names, inputs.hostvars),
        "launcher": launcher,
        "launcher_arguments": together.launcher_arguments(launcher, inputs),
        **together.slurm_job(inputs.variables),
        "queue_seconds": options["queue_seconds"],
    }


def _grown(shape: str, times: int) -> str:
    """The shape with its first extent so many times."""
    first, rest = shape.split("x", 1)
    return f"{int(first) * times}x{rest}"


def _most_ranks(layouts: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """The layout that uses most cores, and of those the one of most ranks."""
    return max(
        layouts, key=lambda layout: (layout["ranks"] * layout["threads_per_rank"], layout["ranks"])
    )


def _need(inputs: PlanInputs) -> Need:
    return Need.of(inputs.data["python"])


def _environment(inputs: PlanInputs) -> dict[str, Any]:
    """Arguments of role pinned_venv; empty where a site's own Devito is measured."""
    if inputs.options["program"]:
        return {}
    return own_python.environment(inputs, "devito", _need(inputs), _requirements(inputs))


def _lacking(inputs: PlanInputs) -> list[str]:
    """Why a site's own Python cannot run Devito, a sentence or none."""
    program, python = inputs.options["program"], inputs.found["python"]
    if python is None:
        return [f"devito_program {program} is not there, or does not run as a Python does"]
    if python["missing"]:
        return [f"devito_program {program} has no devito: install it there, or leave this empty"]
    return []


def _requirements(inputs: PlanInputs) -> list[str]:
    """Files of the role. mpi4py only where an MPI library is: without one it cannot be imported,
    and Devito runs without it."""
    python = interpreter(inputs, _need(inputs))
    version = ".".join(map(str, python.version)) if python else ""
    suffix = inputs.data["pins"].get(version, "")
    names = ["requirements-pip.txt", f"requirements-build{suffix}.txt", f"requirements{suffix}.txt"]
    return [*names, *(["requirements-mpi.txt"] if mpi.of(inputs.node) else [])]


def _skipped(inputs: PlanInputs) -> list[Skipped]:
    programs = inputs.node["programs"]
    reasons = []
    if not (programs["gcc"] or inputs.node["privilege"]):
        reasons.append(
            "no C compiler gcc on this node, and installing one needs root or sudo without a"
            " password"
        )
    if inputs.options["program"]:
        reasons += _lacking(inputs)
    else:
        reasons += own_python.lacking(inputs, "devito", _need(inputs), mebibytes=_SPACE_MIB)
    skipped = [Skipped("devito", reason) for reason in reasons]
    if mpi.of(inputs.node) is None:
        skipped.append(Skipped("devito layouts of several ranks", mpi.lacking(inputs.node)))
    return skipped
