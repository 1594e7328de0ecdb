"""Training logs: recorded and synthetic files and what must be read from them, or refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from damage import changed, refuses, same_or_refused, stands
from hypothesis import given, settings
from hypothesis import strategies as st
from trueup_node.benchmarks.megatron.flops import Model, article_flops, megatron_lm_flops
from trueup_node.benchmarks.megatron.output import parse_megatron, warm_up
from trueup_node.benchmarks.megatron.signatures import SIGNATURE
from trueup_node.errors import ParseError

DATA = Path(__file__).parent.parent / "data" / "megatron"
ONE = (DATA / "gpt_driver_one.log").read_text()
TWO = (DATA / "gpt_driver_two.log").read_text()
IDLE = (DATA / "gpt_driver_idle.log").read_text()
NAN = (DATA / "gpt_driver_nan.log").read_text()
KILLED = (DATA / "gpt_driver_killed.log").read_text()
LM = (DATA / "synthetic_megatron_lm.log").read_text()
DS = (DATA / "synthetic_megatron_deepspeed_2022.log").read_text()

Rows = dict[tuple[str, str | None], float]


def values(text: str) -> Rows:
    return {(row.name, row.statistic): row.value for row in parse_megatron(text).metrics()}


def numbers(text: str, name: str) -> list[float]:
    return [float(found) for found in re.findall(re.escape(name) + r": +([\d.E+-]+) \|", text)]


def lines(text: str) -> list[str]:
    return text.splitlines()


def iteration(text: str, number: int) -> str:
    return next(line for line in lines(text) if re.search(rf"iteration +{number}/", line))


def test_megatron_lm() -> None:
    output = parse_megatron(LM)
    assert (output.program, output.exact, output.sequence_length) == ("megatron_lm", False, None)
    assert output.parameters == {
        "program": "megatron",
        "layers": "24",
        "hidden_size": "2048",
        "attention_heads": "16",
        "sequence_length": "2048",
        "micro_batch": "8",
        "global_batch": "64",
        "iterations": "20",
        "world_size": "8",
        "tensor_parallel": "1",
        "pipeline_parallel": "1",
    }
    got = values(LM)
    work = megatron_lm_flops(Model(24, 2048, 2048, 51200), 64)
    assert got["train_flops_printed", "median"] == pytest.approx(
        work / 8 / got["step_time", "median"], rel=1e-3
    )
    assert ("token_throughput", "median") not in got
    assert "the log rounds step times to 0.1 ms" in output.warnings


def test_megatron_deepspeed_of_2022() -> None:
    output = parse_megatron(DS)
    assert (output.program, output.sequence_length) == ("megatron_deepspeed", 512)
    got = values(DS)
    work = article_flops(Model(96, 12288, 512, 51200), 8192)
    assert got["train_flops_printed", "median"] == pytest.approx(
        work / 256 / got["step_time", "median"], rel=1e-3
    )
    assert got["sample_throughput", "median"] == pytest.approx(
        8192 / got["step_time", "median"], rel=1e-3
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (r"\| lm loss", "| iteration time: 0.850 s samples/sec: 75.3 | lm loss"),
        (r"\| lm loss", "| consumed tokens: 1.258B | eta: 0:00:00 | lm loss"),
        (r"(ms\): )(\S+)", r"\1\2/861.2"),
        (r"(GPU\): )(\S+)", r"\1\2/111.0"),
        (r"\| number of skipped iterations: +0 \| number of nan iterations: +0 ", ""),
        (r"\| lm loss", "| rerun state | lm loss"),
    ],
)
def test_fields_of_forks_are_no_damage(before: str, after: str) -> None:
    """Of Primus, FlagScale, llm-jp's and NVIDIA's forks."""
    text = re.sub(before, after, LM)
    assert text != LM
    assert values(text) == values(LM)


def with_losses(losses: list[float]) -> str:
    """The log of Megatron-LM with its losses replaced."""
    told = iter(losses)
    return re.sub(r"lm loss: \S+", lambda _: f"lm loss: {next(told):.6E}", LM)


@pytest.mark.parametrize(("count", "dropped"), [(3, 2), (8, 2), (12, 3), (16, 4), (1000, 4)])
def test_the_warm_up_is_a_quarter(count: int, dropped: int) -> None:
    assert warm_up(count) == dropped


test_damaged_logs_are_refused = refuses(
    parse_megatron,
    ("", "0 iteration lines"),
    (LM.replace("iteration        9/", f"iteration {'9' * 99}/"), "a damaged line of an iteration"),
    (KILLED, "2 iteration lines: 3 at least are needed"),
    (LM.replace(iteration(LM, 9), f"{iteration(LM, 9)}\n{iteration(LM, 8)}"), "iteration 8 stands"),
    (LM + LM, "iteration 1 stands where 21 was to come"),
    (LM.replace(iteration(LM, 20), iteration(LM, 20)[:-1]), "is cut off (line"),
    (LM.replace(iteration(LM, 20), iteration(LM, 20)[:-40]), "is cut off (line"),
    (
        changed(LM, r"global batch size: +64", "global batch size:    65"),
        "64 samples of 1 iterations are not batches of 65 to 65",
    ),
    (
        changed(LM, r"consumed samples: +128 ", "consumed samples:  129 "),
        "65 samples of 1 iterations",
    ),
    (changed(LM, r"/ +20 \|", "/      21 |"), "20 iterations in all, 21 in the first line"),
    (changed(LM, r"ms\): 8\d\d", "ms): 4"), "are not the same work"),
    # By one unit of its last place, which is more than the rounding of all lines allows.
    (changed(LM, r"GPU\): 161.6", "GPU): 161.7"), "are not the same work"),
    (changed(LM, r"ms\): [\d.]+", "ms): 0.0"), "a step of 0 ms"),
    (changed(LM, r"ms\): [\d.]+", "ms): -3.0"), "elapsed time per iteration (ms) '-3.0'"),
    (changed(LM, r"ms\): [\d.]+", "ms): NAN"), "a step of nan ms"),
    (changed(LM, r"\(ms\)", "(mm)"), "no elapsed time per iteration (ms) in the line"),
    (changed(LM, r"lm loss: \S+", "lm loss: 1.0E"), "lm loss '1.0E' is not a number"),
    (changed(LM, r"( loss scale: 1.0 \|)", r"\1\1"), "loss scale stands twice"),
    (changed(LM, r" iteration +7/", " iterated 7/"), "a damaged line of an iteration"),
    (TWO.replace('"threads": 1,', '"threads": 0,'), "does not match its checksum"),
    (changed(LM, r"(  seq_length \.+ )2048", r"\g<1>2048\n\g<1>1024"), "stands twice"),
    (changed(DS, r"samples per second: \d+", "samples per second: 12"), "samples per second"),
    (changed(DS, r"consumed tokens: +\d", "consumed tokens: 9"), "consumed tokens"),
    (changed(DS, r"TFLOPs: \d\d", "TFLOPs: 77"), "are not the same work"),
    (changed(TWO, r'"losses": \[6', '"losses": [7'), "does not match its checksum"),
    (changed(TWO, r"trueup-megatron .*\n", ""), "1 first and 0 last lines"),
    (changed(TWO, r"trueup gpt_driver.*\n", ""), "0 first and 1 last lines"),
    (changed(TWO, r"trueup gpt_driver|xx", "Trueup gpt_driver"), "0 first and 1 last"),
    (changed(TWO, r'"check": \d+\}', '"check": '), "cut off or damaged"),
    (TWO + TWO, "iteration 1 stands where 21 was to come"),
    (changed(TWO, r"ms\): (\d)", r"ms): 9\1"), "973.9 ms where gpt_driver says 73.8685"),
    (changed(TWO, r"lm loss: 6", "lm loss: 7"), "the log says a loss of 7"),
)


def test_only_training_logs_are_recognised() -> None:
    assert [SIGNATURE.recognises(text) for text in (ONE, NAN, KILLED, LM, DS, LM[:3000])] == [
        True
    ] * 6
    assert SIGNATURE.recognises("trueup-devito {}\n| iteration 3/ 5 |") is False


def whole(text: str) -> Rows:
    """The figures of a log that does not say that it is a part."""
    part = parse_megatron(text).part
    if part:
        raise ParseError(part[0])
    return values(text)


test_a_damaged_output_gives_its_own_figures_or_an_error = stands(
    whole, [ONE, TWO, NAN, LM, DS], "cut", "lost", "swapped"
)


# Where in a text a byte is changed, as a share of it, and the new one.
def outcome(text: str) -> object:
    """What a text gives, or its error."""
    try:
        return parse_megatron(text)
    except ParseError as error:
        return str(error)


PLACE = st.floats(0, 1, exclude_max=True)
BYTE = st.characters(min_codepoint=32, max_codepoint=126)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from([ONE, TWO]), PLACE, BYTE)
def test_a_changed_byte_of_the_drivers_log_gives_the_right_numbers_or_an_error(
    text: str, share: float, byte: str
) -> None:
    """Every figure stands in the log's lines and in the last line, which has a checksum."""
    at = int(share * len(text))
    assert same_or_refused(values, text[:at] + byte + text[at + 1 :], values(text)) is True


@settings(max_examples=60, deadline=None)
@given(st.sampled_from([LM, DS]), PLACE, BYTE)
def test_a_changed_byte_of_megatrons_log_gives_the_right_numbers_or_an_error(
    text: str, share: float, byte: str
) -> None:
    """Detectable: step time and rate, which are the same work in every line, beyond the rounding of
    both (0.1 TFLOP/s; 0.01 of Megatron-DeepSpeed, which also prints samples per second). Not
    detectable, because they stand once: the loss, and the number of skipped and NaN iterations;
    with one rate only, a change below that rounding; in a log without rates, the step time; and
    the time of the first and of the last line. Those of the loss and of the clock are left out
    here."""
    at = int(share * len(text))
    damaged = text[:at] + byte + text[at + 1 :]
    right = values(text)
    try:
        got = whole(damaged)
    except ParseError:
        return
    for name in ("loss_first", "loss_last"):
        got[name, "single"] = right[name, "single"]
    assert got == pytest.approx(right, rel=2e-3)


SAVED = """\
saving checkpoint at iteration      10 to /fsx/checkpoints in torch_dist format
  successfully saved checkpoint from iteration      10 to /fsx/checkpoints
0: (min, max) time across ranks (ms):
0:     save-checkpoint ................................: (81611.24, 81611.82)
"""
LOADED = """\
 successfully loaded checkpoint from /fsx/checkpoints [ t 1/8, p 1/16 ] at iteration 10
(min, max) time across ranks (ms):
    load-checkpoint ................................: (17352.38, 17353.07)
"""


def restarted(seconds: int, *, lost: int = 4) -> str:
    """A run that saved at iteration 10, lost a node ``lost`` iterations later, and went on from
    there after so many seconds. A line comes every ten."""
    times = re.compile(r"\[2026-11-21 [0-9:.]+\]")
    said = [line for line in lines(LM) if not times.search(line)]
    logged = [line for line in lines(LM) if times.search(line)]

    def at(line: str, second: float) -> str:
        text = f"[2026-11-21 09:{int(second) // 60:02d}:{second % 60:09.6f}]"
        return times.sub(text, line)

    begun = [at(line, 10.0 * number) for number, line in enumerate(logged[: 10 + lost], 1)]
    first = 10 * (10 + lost) + seconds
    again = [at(line, first + 10.0 * number) for number, line in enumerate(logged[10:])]
    return "\n".join([*said, *begun[:10], SAVED.rstrip(), *begun[10:], LOADED.rstrip(), *again, ""])


def figure(text: str, name: str) -> list[float]:
    return [row.value for row in parse_megatron(text).metrics() if row.name == name]
