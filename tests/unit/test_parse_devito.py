"""Devito's output: recorded files and what must be read from them, or refused."""

from __future__ import annotations

from pathlib import Path

import damage
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trueup_node.benchmarks.devito.output import parse_devito
from trueup_node.benchmarks.devito.signatures import DRIVER_PREFIX, SIGNATURE
from trueup_node.errors import ParseError

DATA = Path(__file__).parent.parent / "data" / "devito"
TWO_NODES, HALO = "driver_two_nodes.log", r'"halo_seconds": [\d.]+'
FIGURES = ("run_time", "flop_rate", "point_rate", "operational_intensity")


def text_of(name: str) -> str:
    return (DATA / name).read_text()


def medians(text: str) -> dict[str, float]:
    rows = parse_devito(text).metrics()
    return {row.name: row.value for row in rows if row.statistic in ("median", "single")}


def changed(name: str, pattern: str, replacement: str) -> str:
    return damage.changed(text_of(name), pattern, replacement)


test_damaged_output_is_refused = damage.refuses(
    parse_devito,
    ("", "no line 'Operator"),
    ("\x00\xff garbage \n" * 50, "no line 'Operator"),
    (changed("openmp.log", r"(?s)Operator `Forward` ran in \S+ s\n.*", ""), "no line"),
    (changed("openmp.log", r"(`Forward` ran in) \S+ s", r"\1 -0.50 s"), "not a positive"),
    (changed("openmp.log", r"(`Forward` ran in) \S+ s", r"\1 0.00 s"), "not a positive"),
    (changed("openmp.log", r"(`Forward` ran in) \S+ s", r"\1 nan s"), "not a positive"),
    (changed("openmp.log", r"(`Forward` ran in) \S+ s", r"\1 fast s"), "not a number"),
    (changed("openmp.log", r"\[OI=2\.66, \S+ GFlops/s", "[OI=2.66"), "OI and GFlops/s"),
    (
        changed("openmp.log", r"\[OI=2\.66, (\S+) GFlops/s", r"[OI=2.66, \1 GFlop/s"),
        "OI and GFlops/s expected",
    ),
    (changed("openmp.log", r"OI=2\.66", "OI=inf"), "not a positive number"),
    (changed("openmp.log", r"0\.58 GPts/s\]\n", "1e308 GPts/s]\n"), "not a positive number"),
    (changed("openmp.log", r"0\.58 GPts/s\]\n", "0.e58 GPts/s]\n"), "is not a positive number"),
    (changed("openmp.log", r"0\.58 GPts/s\]\n", "5.e8 GPts/s]\n"), "no decimal number"),
    # The figures of initdamp, in the place of Forward's.
    (changed("openmp.log", r", \S+ GPts/s\](?=\nGlobal)", "]"), "figures are another operator's"),
    (DRIVER_PREFIX + '{"format": 1, "dev', "cut off or damaged"),
    (DRIVER_PREFIX + '{"format": 2}', "not of format 1"),
    (DRIVER_PREFIX + "[]", "not of format 1"),
    (DRIVER_PREFIX + '{"format": 1, "repeats": []}', "no repeats"),
    (DRIVER_PREFIX + '{"format": 1, "repeats": 5}', "lacks or spoils"),
    (DRIVER_PREFIX + '{"format": 1}', "lacks or spoils 'repeats'"),
    (changed("driver_openmp.log", r'"seconds": [\d.]+', '"seconds": null'), "not a number"),
    (changed("driver_openmp.log", r'"seconds": [\d.]+', '"seconds": 0.0001'), "the log says"),
    (changed("driver_openmp.log", r'"seconds": [\d.]+', '"seconds": -1'), "not a positive"),
    (changed("driver_openmp.log", r'"autotune_seconds": ', '"autotune_seconds": -'), "is negative"),
    (changed("driver_openmp.log", r"Operator `Forward` ran in", "Operator gone in"), "repeats"),
    (text_of("driver_openmp.log") + text_of("driver_openmp.log"), "two runs in one output"),
    (changed("driver_mpi.log", r'"norms": \{[^}]*\}', '"norms": 3'), "lacks or spoils"),
    (changed(TWO_NODES, r'"hosts": \[[^]]*\]', '"hosts": null'), "lacks or spoils"),
    (changed(TWO_NODES, r'"hosts": \[[^]]*\]', '"hosts": 2'), "lacks or spoils"),
    (changed(TWO_NODES, HALO, '"halo_seconds": -0.1'), "-0.1 s of halos in a run"),
    (changed(TWO_NODES, HALO, '"halo_seconds": NaN'), "not a positive number"),
    (changed(TWO_NODES, HALO, '"halo_seconds": "much"'), "is not a number"),
    # Devito did not time it: 0 is no measurement of several ranks.
    (changed(TWO_NODES, HALO, '"halo_seconds": 0.6'), "0.6 s of halos in a run of 0.50"),
)


def test_only_devito_is_recognised() -> None:
    assert SIGNATURE.recognises(text_of("openmp.log"))
    assert SIGNATURE.recognises(text_of("driver_mpi.log"))
    assert not SIGNATURE.recognises("Function    Best Rate MB/s  Avg time")
    assert not SIGNATURE.recognises("")


@settings(max_examples=150, deadline=None)
@given(
    data=st.data(),
    name=st.sampled_from(["openmp.log", "driver_openmp.log", "driver_mpi.log", TWO_NODES]),
)
def test_noise_gives_the_right_numbers_or_an_error(data: st.DataObject, name: str) -> None:
    right = medians(text_of(name))
    text = damage.damaged(text_of(name), data, "cut", "lost", "neighbours")
    try:
        got = medians(text)
    except ParseError:
        return
    if "run_time" not in got:
        assert parse_devito(text).unverified != ()
        return
    if not parse_devito(text).exact:
        # Without the driver's line the log remains: rounded, and said to be.
        assert parse_devito(text).warnings != []
        assert got["run_time"] == pytest.approx(right["run_time"], rel=0.2)
        return
    assert {name: got[name] for name in FIGURES} == {name: right[name] for name in FIGURES}
