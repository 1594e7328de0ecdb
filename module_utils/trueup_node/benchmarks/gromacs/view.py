"""How figures of GROMACS are shown."""

from __future__ import annotations

from ...view import Measure, Timed, View, Work, rate, seconds

VIEW = View(
    title="GROMACS",
    # The figures that this field compares. Steps a second are the same for one input.
    headlines=(rate("simulation_rate", "simulation rate", "ns/day"),),
    figures=(
        rate("step_rate", "step rate", "steps/s"),
        seconds("run_time", "wall time", "s"),
        Measure("energy_drift", "energy drift", "kJ/mol/ps", "lower", "kJ/mol/ps", grows=False),
    ),
    identity=("tpr", "water_box_nm", "atoms"),
    apart=("tpr", "water_box_nm", "atoms", "dt_ps", "steps", "tune_pme"),
    work=(Work("ns", "ns", "simulation_rate", 1.0, seconds=86400.0),),
    method="ns/day is the simulated time of the steps that count over mdrun's own wall time of"
    " them. Building the input, start-up and the steps before the counters were reset, in which"
    " load balancing settles, are not in it.",
    layouts=True,
    timed=Timed("run_time"),
)
