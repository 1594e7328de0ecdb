"""Molecular dynamics as GROMACS computes it: atoms times steps, and how many a node does a second.

The catalog has no published result of GROMACS: only our own records tell of a size. Atoms
times steps a second of a node change slowly with the atoms, so that results of other numbers of
atoms tell of those between them.
"""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any, Final

from trueup_node.benchmarks.gromacs import case as gromacs
from trueup_node.errors import BadInput
from trueup_node.options import MODULE, Option

from ..backtest import LEAST_ERRORS
from ..estimates import around
from ..knowledge import Knowledge, UserFigure, number
from ..points import Point, Prediction, evidence_of
from .kind import Ask, Assumed, Need, between, logged_figure

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trueup_node.cases import Case


_FS_A_NS: Final = 1e6
# Of a checkpoint: place and speed of an atom, three numbers each, in double precision.
_ATOM_BYTES: Final = 48.0
# Of liquid water: 33.4 molecules a nm^3.
_ATOMS_A_NM3: Final = 100.0
_WATER: Final = "water"
# Further sizes to measure, as parts of the atoms asked for: they lie on both sides.
_PARTS: Final = (0.5, 1.0, 2.0)
_BOX = next(
    option for option in gromacs.OPTIONS if (option.name, option.of) == ("water_box", MODULE)
)

OPTIONS: Final = (
    Option("atoms", "Atoms, solvent included.", type="int", required=True, least=100, most=10**10),
    Option("ns", "Time to simulate, ns.", type="float", required=True, least=1e-6, most=1e9),
    Option("timestep_fs", "Time step, fs.", 2.0, type="float", least=0.1, most=10),
)


def points(knowledge: Knowledge) -> list[Point]:
    """Atom-steps a second of our records: of each size and input the layout that is fastest, as it
    would be run."""
    inputs: dict[tuple[str, int, float, str], dict[str, list[UserFigure]]] = {}
    for record in knowledge.own("gromacs", "step_rate"):
        parameters = record.case.parameters
        atoms = str(parameters.get("atoms", ""))
        # Twice the digits are another work.
        if atoms.isdecimal() and int(atoms) and parameters.get("precision") in (None, "mixed"):
            input_name = _WATER if parameters.get("water_box_nm") else str(parameters.get("tpr"))
            key = (record.size, record.nodes, float(atoms), input_name)
            inputs.setdefault(key, {}).setdefault(record.case.case, []).append(record)
    known_points = []
    for (size, nodes, count, input_name), layouts in inputs.items():
        rates = {
            name: statistics.median(run.value for run in runs) for name, runs in layouts.items()
        }
        best = max(rates, key=lambda name: (rates[name], name))
        newest = max(layouts[best], key=lambda run: run.evidence.date)
        label = f"{newest.evidence.source}, {count:.0f} atoms"
        traits = {"atoms": count, "input": input_name}
        known_points.append(Point(label, size, nodes, rates[best] * count, traits, newest.evidence))
    return known_points


def predict(target: Point, peers: Sequence[Point], _: Knowledge) -> Prediction | None:
    """The rate of the same size on as many nodes, between the nearest numbers of atoms."""
    same = [peer for peer in peers if (peer.size, peer.nodes) == (target.size, target.nodes)]
    if not same:
        return None
    atoms = target.traits["atoms"]
    rate, used, least, most = between(atoms, same, lambda point: point.traits["atoms"])
    beyond = []
    if not least <= atoms <= most:
        beyond.append(
            f"{atoms:,.0f} atoms lie outside of the {least:,.0f} to {most:,.0f} measured."
        )
    if all(point.traits["input"] == _WATER for point in used):
        beyond.append("the records are of water alone.")
    return Prediction(rate, evidence_of(used), " ".join(beyond))


def need(ask: Ask, _assumed: Assumed, _: Knowledge) -> Need:
    atoms = float(ask["atoms"])

    def target_point(size: str, nodes: int) -> Point:
        return Point("", size, nodes, traits={"atoms": atoms})

    return Need(
        work=around(atoms * ask["ns"] * _FS_A_NS / ask["timestep_fs"], 1.0),
        memory=0.0,
        room=_room,
        words="atoms",
        state=atoms * _ATOM_BYTES,
        asked=target_point,
    )


def _room(row: Mapping[str, str]) -> float | None:
    """Any machine with a known memory; no source has an atom's share of it."""
    return number(row, "memory_gib")


def logged(case: Case) -> dict[str, Any]:
    """The simulation that a log tells."""
    parameters = {name: str(case.parameters.get(name, "")) for name in ("atoms", "steps", "dt_ps")}
    if not parameters["atoms"].isdecimal() or not parameters["steps"].isdecimal():
        raise BadInput("the log does not say its atoms and steps")
    logged_figure(case, "step_rate")
    step = float(parameters["dt_ps"]) * 1000
    return {
        "atoms": int(parameters["atoms"]),
        "ns": int(parameters["steps"]) * step / _FS_A_NS,
        "timestep_fs": step,
    }


def silent(ask: Ask, knowledge: Knowledge) -> str:
    """The measurements to make, so that the next ask has an estimate."""
    least, most = _BOX.least or 0.0, _BOX.most or 0.0
    edges = [
        min(max((ask["atoms"] * fraction / _ATOMS_A_NM3) ** (1 / 3), least), most)
        for fraction in _PARTS
    ]
    boxes = list(dict.fromkeys(f"{edge:.1f}" for edge in edges))
    larger = ask["atoms"] > most**3 * _ATOMS_A_NM3
    inputs = (
        "inputs of about as many atoms (gromacs_tpr, gromacs_tpr_sha256)"
        if larger or len(boxes) < len(_PARTS)
        else f"boxes of {', '.join(boxes[:-1])} and {boxes[-1]} nm, a run each, with"
        ' ansible-playbook playbooks/benchmark.yml -e \'{"trueup_benchmarks": ["gromacs"],'
        f' "gromacs_water_box": {boxes[0]}}}\''
    )
    every = knowledge.once(("md", "points"), lambda: points(knowledge))
    count = len([point for point in every if not ask["sizes"] or point.size in ask["sizes"]])
    on_sizes = f" on {', '.join(ask['sizes'])}" if ask["sizes"] else ""
    return (
        "no published result of GROMACS is in the catalog, and records of ours are too few: an"
        f" estimate needs {LEAST_ERRORS} numbers of atoms on one size, and of {count or 'none'}"
        f" there is a record{on_sizes}; measure {inputs}, and give their folder with --results"
    )
