"""How figures of GROMACS are shown."""

from __future__ import annotations

from ...view import Measure, View, Work

VIEW = View(
    title="GROMACS",
    # What this field compares. Steps a second are the same for one input.
    headlines=(Measure("simulation_rate", "simulation rate", "ns/day", "higher", "ns/day"),),
    figures=(
        Measure("step_rate", "step rate", "1/s", "higher", "steps/s"),
        Measure("run_time", "wall time", "s", "lower", "s"),
        Measure("energy_drift", "energy drift", "kJ/mol/ps", "lower", "kJ/mol/ps", grows=False),
    ),
    apart=("tpr", "water_box_nm", "atoms", "dt_ps", "steps"),
    work=(Work("ns", "ns", "simulation_rate", 1.0, seconds=86400.0),),
    method="ns/day is the simulated time of the steps that count over mdrun's own wall time of"
    " them. Building the input, start-up and the steps before the counters were reset, in which"
    " load balancing settles, are not in it.",
    layouts=True,
)
