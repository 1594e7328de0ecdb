"""Outputs of real machines that nobody of this project wrote, in ../shared/real_outputs: what
``trueup read`` makes of each. Its README.md says where they are from and what a user expects."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest
from damage import mutations
from helpers import parametrized, tables
from trueup_analysis.decoding import decoded
from trueup_analysis.read import Reading, read, read_runs
from trueup_analysis.rooms import marks
from trueup_node.errors import BadInput

OUTPUTS = Path(__file__).parents[3] / "shared" / "real_outputs"
pytestmark = pytest.mark.skipif(
    not OUTPUTS.is_dir(), reason="no folder ../shared/real_outputs here"
)

# By file: tool, its version, and the first figure of one kind.
READ = {
    "devito/elastic_notebook.txt": ("devito", None, "run_time", 0.04, "s"),
    "fio/fio_2_1_4.json": ("fio", "2.1.4", "write_bandwidth", 69753785.0, "byte/s"),
    "fio/fio_3_26.txt": ("fio", "3.26", "write_bandwidth", 8876980.0, "byte/s"),
    "gpu_copy/bandwidthtest_a100.txt": ("gpu_copy", None, "h2d_bandwidth", 12.3e9, "byte/s"),
    "gpu_copy/bandwidthtest_after_prompt.txt": (
        *("gpu_copy", None, "h2d_bandwidth", 9.7e9, "byte/s"),
    ),
    "gpu_copy/bandwidthtest_csv.txt": (
        *("gpu_copy", None, "h2d_bandwidth", 8494.3 * 1_024_000, "byte/s"),
    ),
    "gpu_copy/nvbandwidth_h100x8_d2d_read.txt": (
        *("gpu_copy", "0.10.0", "p2p_bandwidth", 395.08e9, "byte/s"),
    ),
    "gpu_copy/nvbandwidth_h100x8_h2d.txt": (
        *("gpu_copy", "0.10.0", "h2d_bandwidth", 55.37e9, "byte/s"),
    ),
    "gpu_copy/nvbandwidth_v02.txt": ("gpu_copy", "0.2", "h2d_bandwidth", 55.28e9, "byte/s"),
    "gromacs/gromacs_2024_2.log": ("gromacs", "2024.2", "simulation_rate", 4.243, "ns/day"),
    "hpl/hpl_2_1.out": ("hpl", "2.1", "hpl_rate", 1.71587e12, "flop/s"),
    "ib/post_list.txt": ("ib", None, "ib_write_bandwidth", 480e6, "bit/s"),
    # Two of three lines are warm-up; of the next file none, which begins in the middle of a run.
    "megatron/first_iterations.txt": ("megatron", None, "step_time", 243.3444, "s"),
    "megatron/resumed.txt": ("megatron", None, "step_time", 0.087, "s"),
    "nccl/old_times_k80.txt": ("nccl", None, "busbw", 0.44e9, "byte/s"),
    "nccl/srun_2node.txt": ("nccl", None, "busbw", 0.0, "byte/s"),
    "stream/stream_5_8.txt": ("stream", None, "triad_rate", 64010.9863e6, "byte/s"),
    "stream/stream_5_10.txt": ("stream", "5.10", "triad_rate", 23314e6, "byte/s"),
    "vllm/deepseek_v3.txt": ("vllm", None, "output_token_throughput", 61.0, "1/s"),
    "vllm/kimi_k2_failed_requests.txt": ("vllm", None, "output_token_throughput", 485.78, "1/s"),
    "vllm/percentiles_90_95.txt": ("vllm", None, "output_token_throughput", 62.49, "1/s"),
}
# By file: its first figure at the largest size of one kind, and what its text lacks.
_NO_RANKS = [
    "no list of ranks ('# Rank 0 ...')",
    "no header '# nThread ... minBytes ...' above such",
]
_NO_HASH = "lines of the header or the end have lost their #"
UNVERIFIED = {
    "devito/faq_fragment.txt": (
        *("devito", "generation_time", 1.26),
        ["no line 'Operator ... ran in'"],
    ),
    "gromacs/gromacs_5_0_4.log": (
        *("gromacs", "simulation_rate", 1182.118),
        ["GROMACS 5.0.4 is older than 2018"],
    ),
    "nccl/markdown_lost_hashes.txt": ("nccl", "busbw", 338.82e9, [_NO_HASH]),
    "nccl/readme_without_header.txt": ("nccl", "busbw", 386.56e9, _NO_RANKS),
    "nccl/readme_without_ranks.txt": ("nccl", "busbw", 483.05e9, _NO_RANKS),
}
# Of more_ai: logs whose record is invalid, and why.
ABOVE = {
    "megatron_loss_ends_above_start.txt": "loss ended above its start (12.44 to 20.44)",
    "megatron_loss_explodes_midway.txt": "loss ended above its start (2.776 to 6.849)",
}
UNHEALTHY = {
    "megatron/first_iterations.txt": ["no_iteration_skipped"],
    "vllm/kimi_k2_failed_requests.txt": ["no_failed_requests"],
}
# By file: the sentence that says why.
REFUSED = {
    "gromacs/gromacs_2021_1_cut.log": "no averages: the log is cut off or damaged",
    "hpl/edited_one_test_twice.txt": "HPL counts 1 passed and 0 failed tests, the table holds 2",
    "ib/run_infinitely_cut.txt": "a size stands twice (--run_infinitely is not read)",
    "nccl/fork_4090.txt": "the row has 7 columns and its header 11",
    "vllm/edited_contradiction.txt": "output_throughput 2200.83 is not 127152 in 54.65 s",
}
UNVERIFIED_TOO, VERIFIED = "unverified", "read"

# Those of tools without a parser, or in a form that their parser does not take.
UNREAD = {
    *("more_ai/dmesg_gpu_probe_failed.txt", "more_ai/dmesg_xid_145_154.txt"),
    "more_ai/nvlink_all_inactive_nc80adis_h100_v5.txt",
    "more_ai/slurmd_before_dev_nvidia0.txt",
    "more_ai/vllm_start_failures.txt",
}
# Logs of servers and daemons, which are read by other commands.
UNNAMED = {"more_ai/slurmd_before_dev_nvidia0.txt", "more_ai/vllm_start_failures.txt"}


def text(name: str) -> str:
    with (OUTPUTS / name).open("rb") as stream:
        return decoded(stream, name, marks())[0]


def outcome(name: str) -> str:
    """What becomes of a file: read, unverified or refused."""
    try:
        return "unverified" if read(text(name), source=name).unverified else "read"
    except BadInput:
        return "refused"


def wanted() -> dict[str, str]:
    """By file what its README says that a user expects. A cell names several files of a folder, and
    then one word for all of them or one for each."""
    found = {}
    rows = (OUTPUTS / "README.md").read_text(encoding="utf-8").splitlines()
    for files, _, should, *_ in (
        row.strip("|").split("|") for row in rows if re.match(r"\| [\w*]+/", row)
    ):
        names: list[str] = []
        for name in re.split("[,;]", files):
            folder = name.strip().rpartition("/")[0] or names[-1].partition("/")[0]
            pattern = name.strip().rpartition("/")[2]
            names += [f"{folder}/{path.name}" for path in (OUTPUTS / folder).glob(pattern)]
        words = re.findall(r"\b(read|unverified|refused)\b", should)
        if len(words) not in {1, len(names)}:
            words = words[:1]
        found.update(zip(names, words * len(names) if len(words) == 1 else words, strict=True))
    # Named by one pattern, in the order of their description.
    return {**found, "devito/faq_fragment.txt": "unverified", "devito/elastic_notebook.txt": "read"}


@pytest.mark.parametrize("name", READ)
def test_the_figures_of_a_real_output_are_read(name: str) -> None:
    reading = read(text(name), source=name)
    metric = READ[name][2]
    [first, *_] = [row for row in reading.rows if row["name"] == metric]
    got = (reading.tool, reading.tool_version, metric, first["value"], first["unit"])
    assert (got, reading.unverified) == (READ[name], [])
    assert [check for check, passed in reading.checks.items() if not passed] == UNHEALTHY.get(
        name, []
    )


@pytest.mark.parametrize("name", ABOVE)
def test_a_loss_that_ends_above_its_start_is_invalid(name: str) -> None:
    reading = read(text(f"more_ai/{name}"), source=name)
    assert reading.outcome() == ("invalid", f"its own check failed: {ABOVE[name]}")


def test_every_percentile_of_a_real_output_is_a_figure() -> None:
    reading = read(text("vllm/percentiles_90_95.txt"), source="x")
    tails = {row["statistic"]: row["value"] for row in reading.rows if row["name"] == "ttft"}
    ms = {"mean": 183195.28, "median": 150986.59, "p90": 464243.19, "p95": 496152.58}
    assert tails == pytest.approx(
        {key: value / 1e3 for key, value in ms.items()} | {"p99": 548.59956}
    )


@pytest.mark.parametrize("name", UNVERIFIED)
def test_a_part_of_an_output_is_unverified(name: str) -> None:
    tool, metric, value, missing = UNVERIFIED[name]
    reading = read(text(name), source=name)
    *_, last = [row for row in reading.rows if row["name"] == metric]
    assert (reading.tool, last["value"]) == (tool, pytest.approx(value))
    assert [
        sentence.startswith(start)
        for sentence, start in zip(reading.unverified, missing, strict=True)
    ] == [True] * len(missing)


@pytest.mark.parametrize("name", REFUSED)
def test_a_real_output_that_contradicts_itself_is_refused(name: str) -> None:
    with pytest.raises(BadInput) as refused:
        read(text(name), source=name)
    assert REFUSED[name] in str(refused.value)


def present(*, more: bool) -> set[str]:
    """The outputs that README.md describes, or those of the folders with READMEs of their own."""
    paths = [path for path in OUTPUTS.glob("*/*") if path.name != "README.md"]
    return {
        f"{path.parent.name}/{path.name}"
        for path in paths
        if path.parent.joinpath("README.md").exists() == more
    }


def test_each_real_output_has_its_row() -> None:
    assert sorted(present(more=False) - {*READ, *UNVERIFIED, *REFUSED}) == []
    [further] = tables(__name__).values()
    assert sorted(present(more=True) ^ {*UNREAD, *(name for name, *_ in further)}) == []


@parametrized(("name", "word", "figures"))
def test_a_further_output_has_the_figures_of_its_readme(
    name: str, word: str, figures: list[list[Any]]
) -> None:
    readings, refused = read_runs(text(name), source=name)
    words = {UNVERIFIED_TOO if reading.unverified else VERIFIED for reading in readings}
    expected = {tuple(one) for one in figures}
    got = {
        (row["name"], row.get("statistic"), row.get("message_bytes"), value)
        for reading in readings
        for row in reading.rows
        for *_, value in expected
        if row["value"] == pytest.approx(value, rel=1e-6)
    }
    assert (refused, words, expected - got) == ([], {word}, set())


@pytest.mark.parametrize("name", sorted(UNREAD))
def test_a_further_output_that_is_not_read_is_refused_by_its_tools_name(name: str) -> None:
    with pytest.raises(BadInput) as refused:
        read_runs(text(name), source=name)
    is_named = "output of " in str(refused.value)
    assert (name in str(refused.value), is_named) == (True, name not in UNNAMED)


# Refused when the README was written; of old forms the end is read now.
READ_SINCE = {"gromacs/gromacs_5_0_4.log": "unverified"}


def test_each_real_output_becomes_what_its_readme_says() -> None:
    """Also a table, for ``pytest -s``."""
    expected = {**wanted(), **READ_SINCE}
    rows = [(name, word, outcome(name)) for name, word in expected.items()]
    print(f"\n{'file':45} {'expected':12} got")
    for row in rows:
        print("{:45} {:12} {}".format(*row))
    assert {name for name, _, _ in rows} == present(more=False)
    different = [(name, got) for name, word, got in rows if word != got]
    assert different == []


# Figures that the tool prints nothing to check against, or nothing as precise, by tool; its page
# lists them. A changed digit of one of these is not seen.
UNCHECKED = {
    "devito": r"run_time",
    "fio": r".*latency",  # means and percentiles, within their order
    "fio/fio_2_1_4.json": r".*latency|.*_iops",  # no total_ios before 2.1.14
    "gpu_copy": r".*_bandwidth",
    "hpl": r"hpl_residual|hpl_rate",  # the rate beyond the digits of the time
    "ib": r".*_(?:peak|message_rate|deviation)",
    "megatron": r"step_time|sample_throughput|loss_.*",
    "nccl": r"time.*",  # where algbw has few digits
    "stream": r".*_rate",  # average and longest time
    "vllm": r"ttft|tpot|itl|e2el|peak_.*|requests_.*|input_tokens|.*_throughput",
}
# A missing percentile of fio may not have been asked for. The tables of bandwidthTest's directions
# differ in the figure alone.
ALSO_UNSEEN = {
    "fio/fio_2_1": ("lost",),
    "fio/fio_3": ("lost",),
    "gpu_copy/bandwidthtest": ("swapped",),
    "gpu_copy/bandwidthtest_after": ("swapped",),
}


def figures(reading: Reading) -> dict[tuple[object, ...], list[float]]:
    """The values of each figure, whatever the device is called."""
    found: dict[tuple[object, ...], list[float]] = defaultdict(list)
    for row in reading.rows:
        found[row["name"], row.get("message_bytes"), row.get("statistic")].append(row["value"])
    return found


def judged(name: str, kind: str, damaged: str, right: Reading) -> str:
    """What becomes of a damaged output: refused, marked (unverified, or a warning that the whole
    one has not), same, unseen (nothing could show it), or wrong."""
    tool = name.partition("/")[0]
    try:
        got = read(damaged, source=name, tool=tool)
    except BadInput:
        return "refused"
    was, now = figures(right), figures(got)
    changed = {key[0] for key in {*was, *now} if was.get(key) != now.get(key)}
    if not changed:
        return "same"
    if got.unverified or {*got.warnings} - {*right.warnings}:
        return "marked"
    if kind == "last digit":
        return "unseen"
    kinds = ("digit", *ALSO_UNSEEN.get(name.rpartition("_")[0], ()))
    unchecked = UNCHECKED.get(name, UNCHECKED.get(tool, ""))
    seen = [figure for figure in changed if not re.fullmatch(unchecked, str(figure))]
    # nvbandwidth does not say which tests it will run: a cut between two loses the later ones.
    whole_tests = (tool, kind) == ("gpu_copy", "cut") and set(now) < set(was)
    return "unseen" if whole_tests or (kind in kinds and not seen) else "wrong"


@pytest.mark.parametrize("name", READ)
def test_damage_changes_no_figure_in_silence(name: str) -> None:
    whole = text(name)
    right = read(whole, source=name)
    counts = Counter(
        (kind, judged(name, kind, damaged, right)) for kind, damaged in mutations(whole, 8)
    )
    print(f"\n{name}: {', '.join(f'{kind} {what} {n}' for (kind, what), n in counts.items())}")
    assert {kind: n for (kind, what), n in counts.items() if what == "wrong"} == {}
