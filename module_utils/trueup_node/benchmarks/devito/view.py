"""How figures of Devito's benchmark are shown."""

from __future__ import annotations

from ...view import Measure, Timed, View, Work, rate, seconds

VIEW = View(
    title="Devito",
    headlines=(seconds("run_time", "run time", "s"),),
    figures=(
        rate("flop_rate", "floating-point rate", "GFLOP/s"),
        rate("point_rate", "grid points updated", "GPts/s"),
        Measure("roofline_fraction", "of the roofline", "1", "higher", "%", grows=False),
        Measure("halo_share", "time in halo exchange", "1", "lower", "%", grows=False),
    ),
    # The configuration is a publication's own name of its set-up.
    identity=("model", "shape"),
    apart=("model", "configuration", "shape", "space_order", "tn_ms", "nbl"),
    work=(
        Work("billion grid points", "billion_grid_points", "point_rate", 1e9),
        Work("PFLOP", "pflop", "flop_rate", 1e15),
    ),
    method="Devito's own benchmark applies the forward operator of a seismic model, and run time is"
    " the slowest rank's, median of the repeats; rates are Devito's counts of single-precision"
    " operations and of grid points (absorbing layers included) over that time. Compilation,"
    " autotuning and the set-up of the model are not in it.",
    layouts=True,
    timed=Timed("run_time"),
    grows=("shape", "points"),
    amount="points",
    titled=(
        ("shape", "{}"),
        ("space_order", "space order {}"),
        ("tn_ms", "{} ms"),
        ("sized_by", "a trial sized by this {}"),
    ),
)
