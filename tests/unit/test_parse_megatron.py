"""Training logs: recorded and synthetic files and what must be read from them, or refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from damage import changed, mutations, refuses, same_or_refused, stands
from hypothesis import given, settings
from hypothesis import strategies as st
from trueup_node import reading
from trueup_node.benchmarks.megatron.flops import Model, article_flops, megatron_lm_flops
from trueup_node.benchmarks.megatron.output import MegatronOutput, parse_megatron, warm_up
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


def test_the_driver_over_two_processes() -> None:
    output = parse_megatron(TWO)
    assert (output.exact, output.program, output.tool_version) == (True, "gpt_driver", "2.13.0+cpu")
    assert output.parameters["world_size"] == "2"
    assert output.parameters["backend"] == "gloo"
    assert output.hosts == ("vm", "vm")
    assert set(output.checks.values()) == {True}
    got = values(TWO)
    printed = sorted(numbers(TWO, "elapsed time per iteration (ms)")[4:])
    middle = (printed[7] + printed[8]) / 2
    assert got["step_time", "median"] == pytest.approx(middle / 1000, abs=5.1e-5)
    assert got["step_time", "min"] == pytest.approx(printed[0] / 1000, abs=5.1e-5)
    assert got["sample_throughput", "max"] == pytest.approx(8 / got["step_time", "min"], rel=1e-12)
    assert got["token_throughput", "median"] == pytest.approx(
        64 * got["sample_throughput", "median"], rel=1e-12
    )
    losses = numbers(TWO, "lm loss")
    assert got["loss_first", "single"] == pytest.approx(losses[0], rel=1e-6)
    assert got["loss_last", "single"] == pytest.approx(losses[-1], rel=1e-6)
    assert losses[-1] < losses[0]
    assert {row.n for row in output.metrics() if row.name.startswith("loss_")} == {1}
    assert {row.n for row in output.metrics() if row.name == "step_time"} == {16}


def test_one_process_exchanges_nothing() -> None:
    output = parse_megatron(ONE)
    assert output.parameters["backend"] == "none"
    assert len(output.measured) == 9


def test_a_loss_that_blows_up_fails_its_checks() -> None:
    output = parse_megatron(NAN)
    assert output.checks == {
        "loss_finite": False,
        "loss_falls": False,
        "loss_not_above_start": True,
        "loss_not_above_best": True,
        "no_iteration_skipped": True,
        "no_iteration_nan": False,
    }
    assert ("loss_last", "single") not in values(NAN)


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


def test_a_global_batch_of_one_sample() -> None:
    single = re.sub(r"(batch size: +)64 ", r"\g<1>1 ", LM)
    single = re.sub(r"(samples: +)(\d+)", lambda at: f"{at[1]}{int(at[2]) // 64}", single)
    assert values(single)["sample_throughput", "max"] == pytest.approx(
        values(LM)["sample_throughput", "max"] / 64
    )


def test_what_stands_before_each_line_changes_nothing() -> None:
    right = values(LM)
    for tag in ("[default7]:", "7: ", "[1,7]<stdout>:"):
        assert values("".join(f"{tag}{line}\n" for line in lines(LM))) == right
    assert values(LM + "\n[standard error]\nW1121 iteration warnings | and more") == right


def test_a_line_for_every_tenth_iteration() -> None:
    kept = [1, 4, 8, 12, 16, 20]
    text = "\n".join(
        line
        for line in lines(LM)
        if not (found := re.search(r"iteration +(\d+)/", line)) or int(found[1]) in kept
    )
    output = parse_megatron(text)
    assert [item.number for item in output.iterations] == kept
    assert "each line is the mean of 4 iterations" in output.warnings
    assert len(output.measured) == 4


def test_a_skipped_iteration_has_no_loss_and_fails_its_check() -> None:
    third = iteration(LM, 3)
    skipped = re.sub(r" lm loss: \S+ \|| grad norm: \S+ \|", "", third)
    skipped = skipped.replace("skipped iterations:   0", "skipped iterations:   1")
    checks = parse_megatron(LM.replace(third, skipped)).checks
    assert (checks["no_iteration_skipped"], checks["loss_finite"]) == (False, True)


def test_fields_that_are_not_known_and_those_that_come_and_go_are_named() -> None:
    new = LM.replace(
        " loss scale:", " tokens of experts: 4096 | max attention logit: 7.5E+00 | loss scale:"
    )
    output = parse_megatron(new)
    assert output.metrics() == parse_megatron(LM).metrics()
    assert output.not_judged == {
        "tokens of experts": "in 20 lines",
        "max attention logit": "in 20 lines",
    }
    third = iteration(LM, 3)
    without = LM.replace(third, re.sub(r" grad norm: \S+ \|", "", third))
    assert parse_megatron(without).sometimes == ("grad norm stands in 19 of 20 lines",)
    forked = LM.replace("lm loss:", "lm-loss:").replace("loss scale: 1.0", "loss scale: -1.0")
    assert parse_megatron(forked).checks == parse_megatron(LM).checks
    no_number = re.sub(r"grad norm: \S+", "grad norm: nan", LM)
    assert parse_megatron(no_number).checks == parse_megatron(LM).checks


def test_deepspeeds_own_world_size_is_another() -> None:
    line = "[2021-06-10 20:47:51,887] [INFO] [config.py:904:print]   world_size ......... 1\n"
    assert parse_megatron(LM + line).parameters == parse_megatron(LM).parameters


def test_a_log_that_begins_in_the_middle_of_a_run_has_no_warm_up() -> None:
    lines = [iteration(LM, number) for number in range(11, 21)]
    output = parse_megatron("\n".join(lines) + "\n")
    assert (len(output.measured), len(parse_megatron(LM).measured)) == (10, 16)


def test_a_line_that_stands_twice_counts_once() -> None:
    twice = "".join(f"{line}\n" * 2 for line in lines(LM))
    assert values(twice) == values(LM)


def test_missing_iterations_are_named() -> None:
    gaps = "\n".join(
        line for line in lines(LM) if line not in {iteration(LM, 9), iteration(LM, 14)}
    )
    output = parse_megatron(gaps)
    assert output.part == ("iterations 9 to 9, 14 to 14 are missing (2 gaps)",)
    assert len(output.iterations) == 18


def test_few_lines_from_the_middle_of_a_run_are_read() -> None:
    output = parse_megatron(f"{iteration(LM, 7)}\n{iteration(LM, 8)}\n")
    assert [item.number for item in output.measured] == [7, 8]
    assert output.unverified == ["2 lines of iterations of a longer run"]


def with_batches(batches: list[int]) -> str:
    """The log of Megatron-LM with a batch in each line, without rates."""
    consumed, rest = 0, iter(batches)

    def put(match: re.Match[str]) -> str:
        nonlocal consumed
        batch = next(rest)
        consumed += batch
        line = re.sub(r"samples: +\d+", f"samples: {consumed:12d}", match[0])
        line = re.sub(r"batch size: +\d+", f"batch size: {batch:5d}", line)
        return re.sub(r" throughput per GPU[^|]*\|", "", line)

    return re.sub(r"iteration +\d+/.*", put, LM)


def test_a_batch_may_grow() -> None:
    output = parse_megatron(with_batches([16] * 5 + [32] * 5 + [64] * 10))
    assert [item.batch for item in output.iterations] == [16] * 5 + [32] * 5 + [64] * 10


def test_times_in_seconds_are_read() -> None:
    text = re.sub(
        r"\(ms\): (\S+)",
        lambda match: f"(s): {float(match[1]) / 1000:.2f}",
        with_batches([64] * 20),
    )
    output = parse_megatron(text)
    times = [item.seconds for item in parse_megatron(LM).iterations]
    assert [item.seconds for item in output.iterations] == pytest.approx(times, abs=0.0051)
    assert "the log rounds step times to 0.01 s" in output.warnings


def test_samples_of_a_millisecond_are_no_contradiction() -> None:
    rate = "number of nan iterations:   0 | samples per second: {} | TFLOPs: 35.24 |"
    text = with_batches([64] * 20)

    def put(match: re.Match[str]) -> str:
        return match[0].replace("nan iterations:   0 |", rate[10:].format(f"{0.064 / 0.85:.3f}"))

    text = re.sub(r"(?m)^.*iteration +\d+/.*$", put, re.sub(r"\(ms\): \S+", "(ms): 850.0", text))
    assert len(parse_megatron(text).iterations) == 20
    with pytest.raises(ParseError, match="samples per second in 850 ms are not a batch of 64"):
        parse_megatron(text.replace("second: 0.075", "second: 0.175"))


@pytest.mark.parametrize(
    "name",
    [
        *("tokens per GPU (tokens/s/GPU)", "tokens/s/GPU inst/harmonic mean"),
        *("tokens/sec/gpu", "tokens per gpu per second (tgs)"),
    ],
)
def test_tokens_of_each_gpu_are_a_figure(name: str) -> None:
    got = values(re.sub(r"\| lm loss", f"| {name}: 8000.5/7990.1 | lm loss", LM))
    assert got["device_token_throughput", "median"] == 8000.5
    assert {key: value for key, value in got.items() if "device" not in key[0]} == values(LM)


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


def test_a_loss_that_does_not_fall_fails_its_check() -> None:
    flat = re.sub(r"lm loss: \S+", "lm loss: 1.080000E+01", LM)
    assert parse_megatron(flat).checks["loss_falls"] is False


def with_losses(losses: list[float]) -> str:
    """The log of Megatron-LM with its losses replaced."""
    told = iter(losses)
    return re.sub(r"lm loss: \S+", lambda _: f"lm loss: {next(told):.6E}", LM)


@pytest.mark.parametrize(
    ("losses", "falls"),
    [
        ([0.1] * 20, False),  # a sum of these over their number is below one of them
        ([6.0, 5.0, 5.5, 5.9] + [5.9] * 16, False),
        ([6.0 - 0.001 * (at % 2) for at in range(20)], False),
        ([6.0 + 0.05 * (-1) ** at - 0.004 * at for at in range(20)], False),  # below its scatter
        # By 0.26, which is 3.4 standard errors.
        ([6.0 + 0.05 * (-1) ** at - 0.016 * at for at in range(20)], True),
        ([6.0 + 0.05 * (-1) ** at - 0.02 * at for at in range(20)], True),
        ([6.0 - 0.01 * at for at in range(20)], True),
        ([6.0 + 0.01 * at for at in range(20)], False),
        ([11.0] + [10.0] * 19, True),
    ],
)
def test_a_loss_falls_when_it_falls_by_more_than_its_scatter(
    losses: list[float], falls: bool
) -> None:
    assert parse_megatron(with_losses(losses)).checks["loss_falls"] is falls


@pytest.mark.parametrize(
    ("losses", "above"),
    [
        # A peak, a fall, and an end above the start; a jump without one.
        ([12.44, 12.45, 44.2, 48.1, 40.0, 30.0, 25.0, 22.0, 21.0, 20.6, 20.5, 20.4], True),
        ([2.776, 2.773, 2.768, 7.344, 8.716, 7.654, 7.192, 6.849], True),
        ([2.0 + 0.02 * at for at in range(20)], True),
        ([2.776, 2.773, 7.3, 7.2], True),
        # As high as the start, and within the scatter or 5 % of it.
        ([2.0] * 12, False),
        ([2.0 + 0.4 * (-1) ** at + 0.02 * at for at in range(20)], False),
        ([2.0 + 0.002 * at for at in range(20)], False),
        ([2.776, 2.773, 4.9, 4.8], False),
        ([2.776, 2.773, 7.3], False),
        # Higher in between, and fallen again.
        ([2.776, 2.773, 7.3, 8.7, 5.0, 3.5, 3.0, 2.8], False),
    ],
)
def test_a_loss_that_ends_above_its_start_fails_its_check(losses: list[float], above: bool) -> None:
    whole = with_losses([*losses, *[0.1] * 20])
    more = rf".*iteration +{len(losses) + 1}/[\s\S]*"
    output = parse_megatron(re.sub(more, "", whole))
    assert [item.loss for item in output.iterations] == pytest.approx(losses)
    assert output.checks["loss_not_above_start"] is not above


def test_the_sentence_for_such_a_loss_has_both_ends() -> None:
    output = parse_megatron(with_losses([2.0 + 0.1 * at for at in range(20)]))
    assert output.reasons == {"loss_not_above_start": "loss ended above its start (2 to 3.9)"}


def test_the_driver_without_a_learning_rate_does_not_learn() -> None:
    checks = parse_megatron(IDLE).checks
    assert {name for name, passed in checks.items() if not passed} == {"loss_falls"}


def test_the_padded_vocabulary_is_read() -> None:
    told = " > padded vocab (size: 50257) with 943 dummy tokens (new size: 51200)\n"
    assert parse_megatron(told + DS).parameters["vocabulary_size"] == "51200"


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


def test_a_fault_is_told_with_its_line() -> None:
    with pytest.raises(ParseError) as caught:
        parse_megatron(changed(LM, r"global batch size: +64", "global batch size:    6x"))
    assert caught.value.line_number == 15
    assert "iteration        1" in caught.value.line


def test_only_training_logs_are_recognised() -> None:
    assert [SIGNATURE.recognises(text) for text in (ONE, NAN, KILLED, LM, DS, LM[:3000])] == [
        True
    ] * 6
    assert SIGNATURE.recognises("trueup-devito {}\n| iteration 3/ 5 |") is False


def test_a_log_that_was_cut_or_grows_is_read_as_far_as_it_goes() -> None:
    said = ["the log ends at iteration 18 of 20: the run was cut, or still runs"]
    whole = {item.number: item.seconds for item in parse_megatron(LM).iterations}
    cut = "\n".join(lines(LM)[: lines(LM).index(iteration(LM, 18)) + 1])
    half = f"{cut}\n{iteration(LM, 19)[:-40]}"
    for text, part in ((cut, said), (half, ["the last line is cut off and left out", *said])):
        output = parse_megatron(text)
        assert list(output.part) == part == output.warnings[: len(part)]
        assert {item.number: item.seconds for item in output.iterations} == {
            number: whole[number] for number in range(1, 19)
        }
    assert parse_megatron(LM).part == ()
    one_less = "\n".join(lines(LM)[: lines(LM).index(iteration(LM, 19)) + 1])
    assert parse_megatron(one_less).part == (
        "the log ends at iteration 19 of 20: the run was cut, or still runs",
    )


def test_a_resumed_log_is_read_from_where_it_begins() -> None:
    before = {iteration(LM, number) for number in range(1, 6)}
    text = "\n".join(line for line in lines(LM) if line not in before)
    output = parse_megatron(text)
    assert [item.number for item in output.iterations] == list(range(6, 21))
    assert output.part == (
        "the log begins at iteration 6: the run was resumed, or the beginning is not here",
    )
    # Too few lines of a longer run to say that its loss falls.
    assert "loss_falls" not in output.checks
    loaded = "  successfully loaded checkpoint from /ckpt [ t 0, p 0 ] at iteration 5\n"
    twice = parse_megatron(LM + loaded + text)
    assert [item.number for item in twice.iterations] == list(range(6, 21))
    assert twice.part[0].startswith("the run was resumed at iteration 5: what it did before")


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


@pytest.mark.parametrize(
    "text", [ONE, LM, DS, (DATA / "synthetic_megatron_lm_restarted.log").read_text()]
)
def test_lines_read_together_are_what_they_are_one_by_one(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [text, *(damaged for _kind, damaged in mutations(text, 60))]
    # The first piece tells how lines are laid out: all of these are in it.
    alone = [outcome(each) for each in texts]
    monkeypatch.setattr(reading, "_PIECE", 1000)
    assert [outcome(each) for each in texts] == alone


def test_lines_of_other_widths_and_names_with_digits_are_read_together_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = LM.replace("| loss scale:", "| mtp_1 loss: 9.5E+00 | loss scale:")
    numbers = iter(range(1000))
    text = re.sub("(?<=grad norm: )", lambda _: "1" * (next(numbers) % 3), text)
    odd = "mtp_2 loss".join(text.rsplit("mtp_1 loss", 1))
    alone = [outcome(each) for each in (text, odd)]
    assert [isinstance(each, MegatronOutput) for each in alone] == [True, True]
    monkeypatch.setattr(reading, "_PIECE", 1000)
    assert [outcome(each) for each in (text, odd)] == alone


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


def test_a_run_that_lost_a_node_says_what_that_cost() -> None:
    text = (DATA / "synthetic_megatron_lm_restarted.log").read_text()
    assert text == restarted(90)
    output = parse_megatron(text)
    step = {row.statistic: row.value for row in output.metrics() if row.name == "step_time"}
    (away,) = (one.away for one in output.resumes)
    # From the last line before to the first one after, less the step that this one was.
    assert away == pytest.approx(90 - output.iterations[0].seconds)
    assert [one.redone for one in output.resumes] == [4]
    assert figure(text, "iterations_redone") == [4]
    assert figure(text, "resume_time")[0] == pytest.approx(away + 4 * step["median"])
    # The slowest rank, in seconds.
    assert figure(text, "checkpoint_save_time")[0] == pytest.approx(81.61182)
    assert figure(text, "checkpoint_load_time")[0] == pytest.approx(17.35307)
    # 19 iterations of 64 samples from the first line to the last.
    assert figure(text, "sample_rate_clocked") == [pytest.approx(19 * 64 / (130 + 90 + 90))]
    assert "resumed at iteration 10" in output.part[0]


def test_a_run_that_is_back_where_its_log_begins_has_no_rate_by_the_clock() -> None:
    before, loaded, after = restarted(90).partition(LOADED)
    text = "\n".join(iteration(before, number) for number in (13, 14)) + "\n" + loaded
    text += "\n".join(iteration(after, number) for number in (11, 12, 13))
    assert figure(text, "iterations_redone") == [4]
    assert figure(text, "sample_rate_clocked") == []


def test_a_run_that_went_through_lost_nothing() -> None:
    names = {row.name for row in parse_megatron(LM).metrics()}
    assert not names & {"resume_time", "iterations_redone", "checkpoint_save_time"}
    # This log's times are made up, and less than its steps take.
    assert "sample_rate_clocked" not in names


@pytest.mark.parametrize(
    ("line", "seconds"),
    [
        ("    save-checkpoint ................................: (21027.08, 21027.08)", [21.02708]),
        ("    save-checkpoint ................................: 18512.90", [18.5129]),
        ("12:     save-checkpoint ...............: (1.10, 10.20)", [0.0102]),
        # What is kept in memory alone, another timer, and half a line.
        ("    save-checkpoint-non-persistent ..........: (1.10, 10.20)", []),
        ("    save-checkpoint-time ................: (1.10, 10.20)", []),
        ("    save-checkpoint ................................: (21027.08, 210", []),
        ("    save-checkpoint ................................: (inf, nan)", []),
    ],
)
def test_checkpoints_are_timed_by_the_slowest_rank(line: str, seconds: list[float]) -> None:
    text = LM.replace(iteration(LM, 10), f"{iteration(LM, 10)}\n{line}")
    assert list(parse_megatron(text).saves) == pytest.approx(seconds)


def test_a_clock_that_was_set_back_says_nothing() -> None:
    text = restarted(-100)
    assert figure(text, "sample_rate_clocked") == []
    assert figure(text, "resume_time") == []
    assert figure(text, "iterations_redone") == [4]
