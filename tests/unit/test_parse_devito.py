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


LOGS = {
    "serial.log": (0.71, 17.07, 0.38, 2.57),
    "openmp.log": (3.02, 25.90, 0.58, 2.66),
    "mpi.log": (0.68, 17.83, 0.40, 2.50),
    "tti.log": (0.27, 9.45, 0.10, 1.98),
}


@pytest.mark.parametrize("name", sorted(LOGS))
def test_devitos_own_log(name: str) -> None:
    seconds, gflops, gpoints, intensity = LOGS[name]
    output = parse_devito(text_of(name))
    assert not output.exact
    assert len(output.repeats) == 1
    got = medians(text_of(name))
    assert got["run_time"] == seconds
    assert got["flop_rate"] == pytest.approx(gflops * 1e9, rel=1e-12)
    assert got["point_rate"] == pytest.approx(gpoints * 1e9, rel=1e-12)
    assert got["operational_intensity"] == intensity
    assert output.warnings[0].startswith("Devito's log rounds times up to 0.01 s")


def test_an_operator_of_any_name_is_read() -> None:
    text = text_of("openmp.log").replace("`Forward`", "`Kernel`")
    output = parse_devito(text)
    assert (output.operator, output.parameters) == ("Kernel", {"operator": "Kernel"})
    assert medians(text) == medians(text_of("openmp.log"))
    both = f"{text}\nOperator `Other` ran in 0.01 s\n"
    assert (medians(both), parse_devito(both).not_judged) == (
        medians(text),
        {"operator Other": "0.01 s"},
    )
    time_alone = parse_devito("Operator `Kernel` ran in 0.04 s\n")
    assert [(row.name, row.value) for row in time_alone.metrics() if row.statistic == "median"] == [
        ("run_time", 0.04)
    ]


def test_a_run_without_its_rates_has_its_time_unverified() -> None:
    text = changed("openmp.log", r"(?s)(`Forward` ran in \S+ s\n)Global[^\n]*\n", r"\1")
    output = parse_devito(text)
    assert {row.name for row in output.metrics()} == {"run_time"}
    assert [sentence[:23] for sentence in output.unverified] == ["no 'Global performance'"]
    twice = f"{text}{(DATA / 'openmp.log').read_text()}"
    with pytest.raises(ParseError, match="points/s stand elsewhere"):
        parse_devito(twice)


def test_old_versions_say_that_an_operator_run() -> None:
    now, old = (parse_devito(f"Operator `Kernel` {verb} in 0.04 s\n") for verb in ("ran", "run"))
    assert old == now


def test_a_text_without_a_run_has_the_time_to_generate_unverified() -> None:
    output = parse_devito("Operator `Kernel` generated in 1.26 s\n  * lowering: 0.61 s\n")
    assert [(row.name, row.value) for row in output.metrics()] == [("generation_time", 1.26)]
    assert output.unverified[0][:28] == "no line 'Operator ... ran in"
    begun = (
        "Operator `Kernel` generated in 1.26 s\nOperator `Kernel` arguments preprocess: 0.53 s\n"
    )
    with pytest.raises(ParseError, match="the run did not end"):
        parse_devito(begun)


@pytest.mark.parametrize(("name", "ranks"), [("driver_openmp.log", 1), ("driver_mpi.log", 2)])
def test_the_driver_is_read_unrounded_and_agrees_with_the_log(name: str, ranks: int) -> None:
    text = text_of(name)
    output = parse_devito(text)
    assert output.exact
    assert output.warnings == []
    assert (len(output.repeats), output.ranks, output.tool_version) == (3, ranks, "4.8.23")
    assert output.checks == {"field_norm_finite": True, "receivers_norm_finite": True}
    # The log says the same, rounded up.
    log_only = "\n".join(line for line in text.splitlines() if not line.startswith(DRIVER_PREFIX))
    for exact, rounded in zip(output.repeats, parse_devito(log_only).repeats, strict=True):
        assert 0 <= rounded.seconds - exact.seconds < 0.01 + 1e-9
        assert rounded.operational_intensity == pytest.approx(exact.operational_intensity, abs=0.01)
    metrics = {(row.name, row.statistic): row.value for row in output.metrics()}
    for repeat in output.repeats:
        assert metrics["run_time", "min"] <= repeat.seconds <= metrics["run_time", "max"]
    assert metrics["flop_rate", "max"] == pytest.approx(
        output.repeats[0].flops / metrics["run_time", "min"], rel=1e-9
    )


def test_norms_agree_between_the_layouts() -> None:
    one, two = (parse_devito(text_of(f"driver_{name}.log")).norms for name in ("openmp", "mpi"))
    for name in ("field", "receivers"):
        assert one[name] == pytest.approx(two[name], rel=1e-5)


OVER_NODES = (TWO_NODES, "driver_two_nodes_slurm.log")


@pytest.mark.parametrize(
    ("name", "shares"),
    [
        (OVER_NODES[0], (0.9549455028167607, 0.9525119826653612, 0.9641270505815895)),
        (OVER_NODES[1], (0.018254614117514986, 0.016295852877332772, 0.02320083824184729)),
    ],
)
def test_a_run_over_nodes_says_where_it_ran_and_what_halos_took(
    name: str, shares: tuple[float, float, float]
) -> None:
    output = parse_devito(text_of(name))
    assert (output.exact, output.ranks, output.cpus) == (True, 4, ("0", "1", "0", "1"))
    assert output.hosts == ("trueup-dev-1", "trueup-dev-1", "trueup-dev-2", "trueup-dev-2")
    rows = {row.statistic: row for row in output.metrics() if row.name == "halo_share"}
    assert tuple(rows[which].value for which in ("median", "min", "max")) == shares
    assert {(row.unit, row.direction, row.n) for row in rows.values()} == {("1", "lower", 3)}
    by_hand = sorted((r.halo_seconds or 0.0) / r.seconds for r in output.repeats)
    assert by_hand[1] == pytest.approx(rows["median"].value, rel=1e-12)


def test_the_exchange_of_halos_computes_the_same() -> None:
    basic, full = (parse_devito(text_of(name)).norms for name in OVER_NODES)
    assert basic == full


@pytest.mark.parametrize("name", ["driver_openmp.log", "driver_mpi.log", "openmp.log"])
def test_a_run_without_times_of_halos_has_no_share(name: str) -> None:
    output = parse_devito(text_of(name))
    assert output.hosts == ()
    assert "halo_share" not in {row.name for row in output.metrics()}


def test_a_share_of_some_repeats_alone_is_none() -> None:
    text = changed(TWO_NODES, HALO, '"halo_seconds": null')
    assert "halo_share" not in {row.name for row in parse_devito(text).metrics()}


REFUSED = {
    "order_zero.log": "no line 'Operator `Forward` ran",
    "no_memory.log": "no line 'Operator `Forward` ran",
    "killed.log": "no line 'Operator `Forward` ran",
}


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_failures_are_refused(name: str) -> None:
    with pytest.raises(ParseError, match=REFUSED[name]):
        parse_devito(text_of(name))


def changed(name: str, pattern: str, replacement: str) -> str:
    return damage.changed(text_of(name), pattern, replacement)


def test_a_log_without_points_per_second_has_none() -> None:
    text = damage.changed(text_of("openmp.log"), r"(Global .*), \S+ GPts/s\]", r"\1]", 2)
    assert medians(text) == {
        name: value
        for name, value in medians(text_of("openmp.log")).items()
        if name != "point_rate"
    }


def test_several_runs_in_a_log_are_told() -> None:
    one, two = parse_devito(text_of("serial.log")), parse_devito(text_of("serial.log") * 2)
    assert [text[:18] for text in two.warnings[len(one.warnings) :]] == ["the log has 2 runs"]


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


def test_an_error_names_the_line() -> None:
    text = changed("openmp.log", r"(`Forward` ran in) \S+ s", r"\1 fast s")
    number = next(n for n, line in enumerate(text.splitlines(), 1) if "ran in fast" in line)
    with pytest.raises(ParseError) as caught:
        parse_devito(text)
    assert caught.value.line_number == number
    assert f"line {number}: 'Operator `Forward` ran in fast s'" in str(caught.value)


def test_a_field_that_blew_up_is_a_failed_check_and_not_unreadable() -> None:
    text = changed("driver_openmp.log", r'"field": [\d.]+', '"field": NaN')
    assert parse_devito(text).checks["field_norm_finite"] is False


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
