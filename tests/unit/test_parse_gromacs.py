"""GROMACS' logs: recorded files and what must be read from them, or refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from damage import changed, refuses
from hypothesis import given, settings
from hypothesis import strategies as st
from trueup_node.benchmarks.gromacs.output import (
    GromacsEnding,
    GromacsOutput,
    fatal_error,
    parse_gromacs,
    parse_log,
)
from trueup_node.benchmarks.gromacs.signatures import SIGNATURE
from trueup_node.errors import ParseError

DATA = Path(__file__).parent.parent / "data" / "gromacs"


def load(name: str) -> str:
    return (DATA / name).read_text(encoding="utf-8")


DRIVER = load("driver_r1t2.txt")
PLAIN = load("md_r1t1.log")
GPU = load("synthetic_gpu2026.log")


def values(text: str) -> dict[str, float]:
    return {row.name: row.value for row in parse_log(text).metrics()}


@pytest.mark.parametrize(
    ("name", "layout", "steps", "timed"),
    [
        ("driver_r1t2.txt", (1, 2), 2000, 1001),
        ("driver_r2t1.txt", (2, 1), 2000, 1001),
        ("driver_mpi_r2t1.txt", (2, 1), 1000, 501),
        ("md_r1t1.log", (1, 1), 600, 301),
        ("md_drift.log", (1, 2), 400, 201),
        ("md_sigterm.log", (1, 2), 440, 441),
    ],
)
def test_recorded_runs(name: str, layout: tuple[int, int], steps: int, timed: int) -> None:
    output = parse_log(load(name))
    assert (output.ranks, output.threads) == layout
    assert (output.steps_done, output.steps_timed, output.atoms) == (steps, timed, 1530)
    assert output.tool_version == "2022.5-Debian_2022.5_2"
    assert set(output.offload.values()) == {"cpu"}
    rows = {row.name: row for row in output.metrics()}
    assert set(rows) == {"step_rate", "simulation_rate", "run_time", "energy_drift"}
    # Steps over time, within the rounding of ns/day (0.001) and of the wall time (0.001 s).
    assert rows["step_rate"].value == pytest.approx(timed / output.wall_seconds, rel=2e-3)
    assert rows["simulation_rate"].unit == "ns/day"
    assert output.warnings[0].startswith("built for SSE4.1, and this CPU has AVX_512")


def test_the_log_says_what_it_ran_on() -> None:
    output = parse_log(PLAIN)
    assert output.parameters == {
        "atoms": "1530",
        "steps": "600",
        "dt_ps": "0.002",
        "layout": "1x1",
        "offload": "none",
        "precision": "mixed",
    }
    assert (output.ns_per_day, output.wall_seconds, output.drift) == (97.557, 0.533, -0.000671)
    assert values(PLAIN)["energy_drift"] == 0.000671
    assert output.driver == {}
    assert set(parse_log(DRIVER).driver) == {"log_sha256", "tpr_sha256", "mdrun"}


def test_a_total_energy_of_another_step_is_refused() -> None:
    text = load("synthetic_2018.log")
    first, other = "-1.71804e+04   -1.71804e+04", "-1.71684e+04   -1.71786e+04"
    swapped = text.replace(first, "?").replace(other, first).replace("?", other)
    assert swapped.count(first) == text.count(first) == 1
    with pytest.raises(ParseError, match=r"a total energy of -17168\.4, and -17180\.5 from"):
        parse_log(swapped)


def test_a_step_with_other_energies_than_those_before_is_refused() -> None:
    text = load("synthetic_2018.log")
    before, names, after = text.rpartition(
        "Conserved En.    Temperature Pressure (bar)\n   -1.71821"
    )
    with pytest.raises(ParseError, match="other energies than at the steps before"):
        parse_log(before + names.replace("En.", "Ey.") + after)


def test_a_run_that_was_told_to_end_says_so() -> None:
    output = parse_log(load("md_sigterm.log"))
    assert output.checks == {"constraints_hold": True, "all_steps_done": False}
    assert output.stopped == "Received the TERM signal, stopping within 40 steps"
    assert output.stopped in output.warnings


@pytest.mark.parametrize(
    ("asked", "whole"), [("700", False), ("600", True), ("-1", True), ("0", False)]
)
def test_fewer_steps_than_the_input_asks_for_are_a_failed_check(asked: str, whole: bool) -> None:
    output = parse_log(changed(PLAIN, r"(command line:) 600 steps", rf"\1 {asked} steps"))
    assert output.checks["all_steps_done"] is whole


def test_a_run_that_begins_at_a_later_step_is_counted_from_there() -> None:
    def later(line: re.Match[str]) -> str:
        return f"{line[1]}{int(line[2]) + 1000}{line[3]}"

    text = re.sub(r"(?m)^( +)(\d+)( +\d\.\d{5})$", later, PLAIN)
    text = re.sub(r"(?m)^(step )(300)(: resetting)", later, text)
    output = parse_log(text)
    assert (output.steps_done, output.steps_timed) == (600, 301)
    assert values(text) == values(PLAIN)


def test_a_gpu_log_of_2026_and_one_of_2018() -> None:
    new = parse_log(GPU)
    assert dict(new.offload) == dict.fromkeys(("nb", "pme", "bonded", "update"), "gpu")
    assert (new.gpus, new.tool_version, new.build["gpu_support"]) == (1, "2026.2", "CUDA")
    old = parse_log(load("synthetic_2018.log"))
    assert dict(old.offload) == {"nb": "gpu", "pme": "gpu", "bonded": "cpu", "update": "cpu"}
    assert old.ns_per_day == new.ns_per_day == 97.557
    # That version prints no drift: it follows from the energies at both ends.
    assert old.drift == pytest.approx(-0.000671, rel=0.2)


def test_ranks_for_pme_alone_and_mixed_pme() -> None:
    mixed = changed(GPU, "do all aspects", "do only spread and gather")
    assert parse_log(mixed).offload["pme"] == "mixed"
    split = changed(
        PLAIN, "^On 1 MPI rank$", "On 6 MPI ranks doing PP, and\non 2 MPI ranks doing PME"
    )
    split = changed(split, "^Using 1 MPI thread *$", "Using 8 MPI threads")
    output = parse_log(split)
    assert (output.ranks, output.pme_ranks, output.threads) == (8, 2, 1)


def test_threads_of_one_rank_for_each_are_read_without_the_word_each() -> None:
    split = changed(
        PLAIN,
        "^On 1 MPI rank$",
        "On 1 MPI rank doing PP, using 18 OpenMP threads, and\n"
        "on 1 MPI rank doing PME, using 18 OpenMP threads",
    )
    split = changed(split, "^Using 1 MPI thread *$", "Using 2 MPI threads")
    output = parse_log(split)
    assert (output.ranks, output.pme_ranks, output.threads) == (2, 1, 18)


def test_of_energies_that_are_not_read_two_may_have_one_name() -> None:
    twice = PLAIN.replace("   Coul. recip.", "   Coulomb (SR)")
    assert (twice != PLAIN, values(twice)) == (True, values(PLAIN))
    with pytest.raises(ParseError, match="stands twice"):
        parse_log(PLAIN.replace("    Kinetic En.", "      Potential"))


def test_constraints_that_did_not_hold_are_a_failed_check() -> None:
    warned = changed(PLAIN, "^step 300: resetting", "Step 7 LINCS WARNING\n\nstep 300: resetting")
    output = parse_log(warned)
    assert output.checks["constraints_hold"] is False
    assert output.unsettled == ("Step 7 LINCS WARNING",)


def test_notes_and_tuning_are_warnings() -> None:
    noted = PLAIN.replace(
        "step 300: resetting",
        "NOTE: 9 % was lost\n  PP/PME load balancing changed the cut-off and PME settings:\n"
        "step 300: resetting",
    )
    assert parse_log(noted).warnings[1:] == [
        "NOTE: 9 % was lost",
        "PME was tuned during the run: grid and cut-off are not the input's",
    ]


def test_one_of_several_simulations_says_so() -> None:
    line = "This is simulation 1 out of 4 running as a composite GROMACS\nmulti-simulation job.\n"
    noted = PLAIN.replace("step 300: resetting", f"{line}step 300: resetting")
    assert "the others have logs of their own" in parse_log(noted).warnings[1]


def test_the_percentage_may_be_off_by_the_rounding_of_both_times() -> None:
    # 0.0005 s of 0.533 s twice, and half a unit of the last place: 0.24.
    assert values(changed(PLAIN, r"^( +Time:.*) 100.0$", r"\g<1> 100.2")) == values(PLAIN)
    with pytest.raises(ParseError, match=r"is not 100.3 % of"):
        parse_log(changed(PLAIN, r"^( +Time:.*) 100.0$", r"\g<1> 100.3"))


PERFORMANCE = r"^Performance: +\S+ +\S+$"


test_damaged_output_is_refused = refuses(
    parse_log,
    ("", "no line 'GROMACS version:'"),
    (load("md_killed.log"), "the log is cut off"),
    (
        changed(load("md_drift.log"), r"There are: \d+", "There are: " + "9" * 400),
        "no number of atoms",
    ),
    (
        changed(load("synthetic_2018.log"), r"-1\.71804e\+04(?=    2)", "-1.71804e+0"),
        "conserved energy '-1.71804e+0' is cut off or damaged",
    ),
    (load("md_blown_up.log"), "Kinetic En. is -nan: the simulation blew up (line"),
    (load("driver_no_gpu.txt"), "mdrun ended with an error: "),
    (PLAIN + PLAIN, "two runs in one log"),
    ((PLAIN + PLAIN).replace("2022.5-Debian_2022.5_2", "5.0.4"), "5.0.4 is older than 2018"),
    (PLAIN[:-20], "no line 'Finished mdrun on rank 0'"),
    (changed(PLAIN, "^Finished mdrun.*\n", ""), "no line 'Finished mdrun on rank 0'"),
    (changed(PLAIN, "^Started mdrun.*\n", ""), "no line 'Started mdrun on rank 0'"),
    (PLAIN + "more\n", "text after 'Finished mdrun'"),
    (PLAIN.replace("2022.5-Debian_2022.5_2", "5.1.4"), "older than 2018"),
    (changed(PLAIN, r"^GROMACS version: .*", "GROMACS version: 2023.1"), "in the title"),
    (changed(PLAIN, r"^   dt  ( +=) 0.002", r"   dt  \1 nan"), "dt is nan"),
    (changed(PLAIN, r"^   dt  ( +=) 0.002", r"   dt  \1 0.004"), "are not 600 steps of"),
    (changed(PLAIN, r"^There are: 1530", "There are: 15300"), "from the energies printed"),
    (changed(PLAIN, "^Using 1 OpenMP", "Using 3 OpenMP"), "3 OpenMP threads here, and 1"),
    (changed(PLAIN, "^Using 1 MPI", "Using 2 MPI"), "2 MPI ranks here, and 1"),
    (changed(PLAIN, "Statistics over 601", "Statistics over 501"), "and 601 were done"),
    (changed(PLAIN, "^step 300: resetting", "step 200: resetting"), "contradicts 401 steps"),
    (changed(PLAIN, "^Restarted time.*\n", ""), "not reset exactly once"),
    (changed(PLAIN, f"({PERFORMANCE})", r"\1\n\1"), "a second line 'Performance:'"),
    (changed(PLAIN, PERFORMANCE, "Performance: 97.557"), "2 columns and 1 figures"),
    (changed(PLAIN, PERFORMANCE, "Performance: 98.557 0.246"), "contradicts 301 steps"),
    (changed(PLAIN, PERFORMANCE, "Performance: 97.557 0.346"), "hour/ns 0.346 contradicts"),
    (changed(PLAIN, PERFORMANCE, "Performance: nan 0.246"), "ns/day is nan"),
    (changed(PLAIN, PERFORMANCE, "Performance: -97.557 0.246"), "not a positive number"),
    (changed(PLAIN, r"\(hour/ns\)", "(day/ns)"), "columns of the performance"),
    (changed(PLAIN, r"^( +Time: +\S+ +)0.533", r"\g<1>0.933"), "is not"),
    (changed(PLAIN, r"^( +Time:.*) 100.0$", r"\g<1> 100.4"), "is not 100.4 % of"),
    (changed(PLAIN, r"^( +Time:) +0.533 +0.533", r"\1 0.535 0.535"), "in the accounting"),
    (changed(PLAIN, "^\tStatistics over.*\n", ""), "no averages"),
    (changed(PLAIN, "^(Using 1 MPI thread *)$", r"\1\n\1"), "this line stands twice"),
    (changed(PLAIN, "^(Overriding nsteps.*)$", r"\1\n\1"), "nsteps is overridden twice"),
    (changed(PLAIN, r"drift: -6.71e-04", "drift: -6.71e-03"), "from the energies printed"),
    (changed(PLAIN, "^   Energies .*\n", "   Energies\n"), "without energies at both ends"),
    (changed(PLAIN, r"^ +600( +\S+)$", r" 6OO\1"), "no step below 'Step Time'"),
    (
        changed(PLAIN, "^Using 1 MPI", "PME tasks will do all aspects on the GPU\nUsing 1 MPI"),
        "no 'Mapping of GPU IDs'",
    ),
    (changed(GPU, "PP:0,PME:0", "PP:0"), "2 GPU tasks, and 1 are listed"),
    (changed(GPU, "^Mapping of.*\n", ""), "no 'Mapping of GPU IDs'"),
    (changed(GPU, "^PME tasks will.*\n", ""), "contradict each other about PME"),
    (DRIVER.replace("1530", "1531"), "the log above is damaged"),
    (DRIVER[:-9], "the driver's line is cut off or damaged"),
    (DRIVER + DRIVER, "a second result line of the driver"),
    (DRIVER + "more\n", "text after the driver's line"),
    (DRIVER.replace('"format": 1', '"format": 2'), "not of format 1"),
    (DRIVER.replace('"mdrun":', '"other":'), "has not log_sha256, tpr_sha256, mdrun"),
)


def test_the_reason_of_a_failure_is_found() -> None:
    blown_up = str(fatal_error(load("driver_blown_up.txt")))
    assert "can not be settled. (line 52)" in blown_up
    assert re.search("GPU", str(fatal_error(load("driver_no_gpu.txt"))))
    assert fatal_error(PLAIN) is None


def test_only_gromacs_is_recognised() -> None:
    names = ("driver_r1t2.txt", "md_killed.log", "md_blown_up.log", "synthetic_2018.log")
    assert [SIGNATURE.recognises(load(name)) for name in names] == [True] * 4
    assert SIGNATURE.recognises(PLAIN[-300:]) is True
    assert not SIGNATURE.recognises("Operator `Forward` ran in 1 s")


def damaged(text: str, data: st.DataObject) -> str:
    lines = text.split("\n")
    kind = data.draw(st.sampled_from(["cut", "lost", "swapped"]))
    if kind == "cut":
        return text[: data.draw(st.integers(0, len(text)))]
    one, two = (data.draw(st.integers(0, len(lines) - 1)) for _ in range(2))
    if kind == "lost":
        del lines[one]
    else:
        lines[one], lines[two] = lines[two], lines[one]
    return "\n".join(lines)


def read(text: str) -> GromacsOutput | None:
    try:
        return parse_log(text)
    except ParseError:
        return None


@settings(max_examples=60, deadline=None)
@given(text=st.sampled_from([DRIVER, PLAIN, GPU]), data=st.data())
def test_lost_and_swapped_lines_give_the_right_numbers_or_an_error(
    text: str, data: st.DataObject
) -> None:
    got = read(damaged(text, data))
    assert got is None or values(text) == {row.name: row.value for row in got.metrics()}


@settings(max_examples=60, deadline=None)
@given(
    share=st.floats(0, 1, exclude_max=True), byte=st.characters(min_codepoint=32, max_codepoint=126)
)
def test_a_changed_byte_in_the_drivers_output_changes_nothing_or_is_refused(
    share: float, byte: str
) -> None:
    """The sum covers the log. In the driver's own line, the input's sum and mdrun's command line
    stand once; no figure depends on them."""
    at = int(share * len(DRIVER))
    got = read(DRIVER[:at] + byte + DRIVER[at + 1 :])
    assert got is None or values(DRIVER) == {row.name: row.value for row in got.metrics()}


END = PLAIN.index("Energy conservation over")


@settings(max_examples=60, deadline=None)
@given(at=st.integers(END, len(PLAIN) - 1), byte=st.characters(min_codepoint=32, max_codepoint=126))
def test_a_changed_byte_in_a_log_alone_is_within_rounding_or_refused(at: int, byte: str) -> None:
    """Without the driver's sum, ns/day and the wall time are known within the rounding of each
    other (0.1 % of a run of half a second), the drift within its energies' six digits. Not
    detectable: versions, precision, atoms within the drift's rounding, energies between the
    ends."""
    right = parse_log(PLAIN)
    got = read(PLAIN[:at] + byte + PLAIN[at + 1 :])
    if got is None:
        return
    assert got.ns_per_day == pytest.approx(right.ns_per_day, rel=3e-3)
    assert got.wall_seconds == pytest.approx(right.wall_seconds, abs=2e-3)
    assert got.drift == pytest.approx(right.drift, abs=1.1e-4)


def test_numbers_beyond_floats_are_refused() -> None:
    text = load("md_drift.log")
    refused = 0
    for number in {match.start() for match in re.finditer(r"(?<=\s)(1530|400)(?=\s)", text)}:
        huge = f"{text[:number]}{'9' * 400}{text[number:]}"
        try:
            assert values(huge) == values(text)
        except ParseError:
            refused += 1
    assert refused


TERMINAL = """                      :-) GROMACS - gmx mdrun, 2023.1 (-:

GROMACS:      gmx mdrun, version 2023.1
Command line:
  gmx mdrun -deffnm md

Using 4 MPI processes
Using 8 OpenMP threads per MPI process

starting mdrun 'Protein in water'
500000 steps,   1000.0 ps.

Writing final coordinates.

               Core t (s)   Wall t (s)        (%)
       Time:     3200.000      100.000     3200.0
                 (ns/day)    (hour/ns)
Performance:      864.002        0.028

GROMACS reminds you: "A line of no meaning" (Nobody)
"""


def test_what_mdrun_writes_to_the_terminal_has_the_rate_unverified() -> None:
    output = parse_gromacs(TERMINAL)
    assert isinstance(output, GromacsEnding)
    assert {row.name: row.value for row in output.metrics()} == {
        "simulation_rate": 864.002,
        "run_time": 100.0,
    }
    assert (output.tool_version, output.parameters) == ("2023.1", {"layout": "4x8"})
    assert [sentence[:16] for sentence in output.unverified] == ["no log of mdrun:"]
    assert SIGNATURE.recognises(TERMINAL) is True


def test_the_end_of_a_log_alone_is_read() -> None:
    text = PLAIN[PLAIN.index("               Core t (s)") :]
    for pasted in (text, text.replace("\n       Time:", "\nTime:")):
        rates = {row.name: row.value for row in parse_gromacs(pasted).metrics()}
        assert rates == {name: values(PLAIN)[name] for name in ("simulation_rate", "run_time")}
        assert SIGNATURE.recognises(pasted) is True


def test_of_a_log_before_2018_the_end_is_read() -> None:
    output = parse_gromacs(PLAIN.replace("2022.5-Debian_2022.5_2", "5.1.4"))
    assert isinstance(output, GromacsEnding)
    assert output.ns_per_day == values(PLAIN)["simulation_rate"]
    assert [sentence[:19] for sentence in output.unverified] == ["GROMACS 5.1.4 is ol"]


def test_of_a_log_before_4_6_the_end_is_read() -> None:
    text = (
        "                         :-)  G  R  O  M  A  C  S  (-:\n\n"
        "                            :-)  VERSION 4.5.6  (-:\n\n   Energies (kJ/mol)\n\n"
        "               NODE (s)   Real (s)      (%)\n       Time:    100.000    100.000    100.0\n"
        "               (Mnbf/s)   (GFlops)   (ns/day)  (hour/ns)\n"
        "Performance:     49.000      2.414     24.000      1.000\n"
        "Finished mdrun on node 0 Tue Mar 11 10:17:05 2014\n"
    )
    output = parse_gromacs(text)
    assert isinstance(output, GromacsEnding)
    assert (output.tool_version, output.ns_per_day, output.wall_seconds) == ("4.5.6", 24.0, 100.0)
    assert [sentence[:19] for sentence in output.unverified] == ["GROMACS 4.5.6 is ol"]
    assert SIGNATURE.recognises(text) is True


def test_a_whole_log_is_read_as_one() -> None:
    assert parse_gromacs(PLAIN) == parse_log(PLAIN)


test_an_end_that_contradicts_itself_is_refused = refuses(
    parse_gromacs,
    ("", "no line 'Core t (s)"),
    (TERMINAL.replace("864.002", "964.002"), "contradicts a run of 100 s"),
    (TERMINAL.replace("0.028", "0.128"), "hour/ns 0.128 contradicts"),
    (TERMINAL.replace("      100.000", "      101.000"), "is not 3200.0 % of"),
    (TERMINAL.replace("100.000", "200.000").replace("3200.0\n", "1600.0\n"), "contradicts a run"),
    (TERMINAL + TERMINAL, "two runs in one log"),
    (TERMINAL[: TERMINAL.index("Performance")], "no line 'Performance:'"),
    (TERMINAL.replace("Writing", "Fatal error:\nWriting"), "mdrun ended with an error"),
)
