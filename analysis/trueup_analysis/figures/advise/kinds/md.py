"""Molecular dynamics as GROMACS computes it: atoms times steps, and how many a node does a second.

No published result of GROMACS stands in the catalog: records of ours alone tell of a size. Atoms
times steps a second of a node change slowly with the atoms, so that results of other numbers of
atoms tell of those between them.
"""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any, Final

from trueup.benchmarks.gromacs import case as gromacs
from trueup.errors import BadInput
from trueup.options import MODULE, Option

from ..backtest import LEAST_ERRORS
from ..estimates import around
from ..knowledge import Knowledge, Own, number
from .kind import Ask, Assumed, Need, Point, Prediction, between, evidence_of, logged_figure

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trueup.cases import Case


_FS_A_NS: Final = 1e6
# Of liquid water: 33.4 molecules a nm^3.
_ATOMS_A_NM3: Final = 100.0
_WATER: Final = "water"
# What else may be measured, as parts of the atoms asked for: they lie on both sides.
_PARTS: Final = (0.5, 1.0, 2.0)
_BOX = next(one for one in gromacs.OPTIONS if (one.name, one.of) == ("water_box", MODULE))

OPTIONS: Final = (
    Option("atoms", "Atoms, solvent included.", type="int", required=True, least=100, most=10**10),
    Option("ns", "Time to simulate, ns.", type="float", required=True, least=1e-6, most=1e9),
    Option("timestep_fs", "Time step, fs.", 2.0, type="float", least=0.1, most=10),
)


def points(known: Knowledge) -> list[Point]:
    """Atom-steps a second of our records: of each size and input the layout that is fastest, as it
    would be run."""
    inputs: dict[tuple[str, int, float, str], dict[str, list[Own]]] = {}
    for one in known.own("gromacs", "step_rate"):
        told = one.case.parameters
        atoms = str(told.get("atoms", ""))
        # Twice the digits are another work.
        if atoms.isdecimal() and int(atoms) and told.get("precision") in (None, "mixed"):
            what = _WATER if told.get("water_box_nm") else str(told.get("tpr"))
            key = (one.size, one.nodes, float(atoms), what)
            inputs.setdefault(key, {}).setdefault(one.case.case, []).append(one)
    found = []
    for (size, nodes, count, what), layouts in inputs.items():
        rates = {
            name: statistics.median(one.value for one in runs) for name, runs in layouts.items()
        }
        best = max(rates, key=lambda name: (rates[name], name))
        newest = max(layouts[best], key=lambda one: one.evidence.date)
        label = f"{newest.evidence.source}, {count:.0f} atoms"
        traits = {"atoms": count, "input": what}
        found.append(Point(label, size, nodes, rates[best] * count, traits, newest.evidence))
    return found


def predict(target: Point, others: Sequence[Point], _: Knowledge) -> Prediction | None:
    """The rate of the same size on as many nodes, between the nearest numbers of atoms."""
    same = [one for one in others if (one.size, one.nodes) == (target.size, target.nodes)]
    if not same:
        return None
    atoms = target.traits["atoms"]
    rate, used, least, most = between(atoms, same, lambda one: one.traits["atoms"])
    beyond = []
    if not least <= atoms <= most:
        beyond.append(
            f"{atoms:,.0f} atoms lie outside of the {least:,.0f} to {most:,.0f} measured."
        )
    if all(one.traits["input"] == _WATER for one in used):
        beyond.append("the records are of water alone.")
    return Prediction(rate, evidence_of(used), " ".join(beyond))


def need(ask: Ask, _assumed: Assumed, _: Knowledge) -> Need:
    atoms = float(ask["atoms"])

    def asked(size: str, nodes: int) -> Point:
        return Point("", size, nodes, traits={"atoms": atoms})

    return Need(
        work=around(atoms * ask["ns"] * _FS_A_NS / ask["timestep_fs"], 1.0),
        memory=0.0,
        room=_room,
        words="atoms",
        asked=asked,
    )


def _room(row: Mapping[str, str]) -> float | None:
    """Any machine with a known memory; what an atom takes of it is in no source."""
    return number(row, "memory_gib")


def logged(case: Case) -> dict[str, Any]:
    """The simulation that a log tells."""
    told = {name: str(case.parameters.get(name, "")) for name in ("atoms", "steps", "dt_ps")}
    if not told["atoms"].isdecimal() or not told["steps"].isdecimal():
        raise BadInput("the log does not say its atoms and steps")
    logged_figure(case, "step_rate")
    step = float(told["dt_ps"]) * 1000
    return {
        "atoms": int(told["atoms"]),
        "ns": int(told["steps"]) * step / _FS_A_NS,
        "timestep_fs": step,
    }


def silent(ask: Ask, known: Knowledge) -> str:
    """What to measure, so that the next answer is none of silence."""
    least, most = _BOX.least or 0.0, _BOX.most or 0.0
    edges = [
        min(max((ask["atoms"] * part / _ATOMS_A_NM3) ** (1 / 3), least), most) for part in _PARTS
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
    every = known.once(("md", "points"), lambda: points(known))
    count = len([one for one in every if not ask["sizes"] or one.size in ask["sizes"]])
    here = f" on {', '.join(ask['sizes'])}" if ask["sizes"] else ""
    return (
        "no published result of GROMACS is in the catalog, and records of ours are too few: an"
        f" estimate needs {LEAST_ERRORS} numbers of atoms on one size, and of {count or 'none'}"
        f" there is a record{here}; measure {inputs}, and give their folder with --results"
    )
