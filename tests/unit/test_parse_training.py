"""Training logs of other programs than Megatron: figures as printed, rates by the log's own
numbers, losses judged, contradictions refused."""

from __future__ import annotations

import io
import re
import statistics
from collections.abc import Callable
from pathlib import Path

import pytest
from trueup_analysis.decoding import decoded
from trueup_analysis.parsers.training.output import TrainingOutput, parse_training
from trueup_analysis.read import marks, read
from trueup_node.errors import ParseError

DATA = Path(__file__).parents[1] / "data" / "training"
PROGRAMS = ("torchtitan", "nemo", "gpt_neox", "maxtext", "nanogpt", "llm_c")


def text_of(program: str) -> str:
    return (DATA / f"synthetic_{program}.txt").read_text(encoding="utf-8")


def numbers(text: str, pattern: str) -> list[float]:
    return [float(value.replace(",", "")) for value in re.findall(pattern, text)]


def medians(output: TrainingOutput) -> dict[str, float]:
    rows = output.metrics()
    return {row.name: row.value for row in rows if row.statistic in {"median", "single"}}


# By program: its name, lines of the warm-up, and by figure its pattern and factor.
FIGURES: dict[str, tuple[str, int, dict[str, tuple[str, float]]]] = {
    "torchtitan": (
        "torchtitan",
        4,
        {
            "device_token_throughput": (r"mory.* tps: ([\d,]+)  tfl", 1),
            "token_throughput": (r"mory.* tps: ([\d,]+)  tfl", 8),
            "train_flops_printed": (r"tflops: (\S+)", 1e12),
            "mfu_printed": (r"mfu: ([\d.]+)%", 0.01),
        },
    ),
    "nemo": (
        "nemo",
        4,
        {"step_time": (r"timing in s: (\S+)", 1)},
    ),
    "gpt_neox": (
        "gpt_neox",
        2,
        {
            "step_time": (r"\(ms\): (\S+)", 1e-3),
            "sample_throughput": (r"samples/sec: (\S+)", 1),
            "train_flops_printed": (r"per GPU: ([\d.]+)TF", 1e12),
        },
    ),
    "maxtext": (
        "maxtext",
        4,
        {
            "step_time": (r"seconds: ([\d.]+)", 1),
            "device_token_throughput": (r"Tokens/s/device: ([\d.]+)", 1),
            "train_flops_printed": (r"TFLOP/s/device: ([\d.]+)", 1e12),
        },
    ),
    "nanogpt": ("nanogpt", 2, {"step_time": (r"time ([\d.]+)ms", 1e-3)}),
    "llm_c": (
        "llm.c",
        4,
        {
            "step_time": (r"([\d.]+) ms \|", 1e-3),
            "token_throughput": (r"(\d+) tok/s", 1),
            "mfu_printed": (r"([\d.]+)% bf16", 0.01),
        },
    ),
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_figures_are_the_printed_ones_after_the_warm_up(program: str) -> None:
    text = text_of(program)
    framework, warm_up, figures = FIGURES[program]
    output = parse_training(text)
    got = medians(output)
    expected = {
        name: statistics.median(numbers(text, pattern)[warm_up:]) * factor
        for name, (pattern, factor) in figures.items()
    }
    assert output.parameters["framework"] == framework
    assert {name: got[name] for name in figures} == pytest.approx(expected)
    assert len(output.iterations) - len(output.measured) == warm_up


def test_colours_are_no_part_of_a_line() -> None:
    text = text_of("torchtitan")
    coloured = re.sub(r"(step|loss|tps|tflops|mfu): ", "\x1b[38;2;180;60;0m\\1: ", text)
    stream = io.BytesIO(coloured.encode())
    plain, _ = decoded(stream, "log", marks())
    assert read(plain, source="log").rows == read(text, source="log").rows


def test_each_step_of_a_progress_bar_is_a_line() -> None:
    """NeMo 1 prints the figures in the bar of Lightning, which a carriage return overwrites."""
    steps = [
        f"Epoch 0: : {5 * at}%|#  | {at}/20 [00:01<00:09, reduced_train_loss={9 - 0.2 * at:.3f},"
        f" global_step={at}.000, train_step_timing in s={9.5 + at / 100:.3f}]"
        for at in range(20)
    ]
    text, _ = decoded(io.BytesIO(("start\n" + "\r".join(steps) + "\n").encode()), "log", marks())
    output = parse_training(text)
    assert [item.number for item in output.iterations] == [*range(20)]
    assert medians(output)["step_time"] == pytest.approx(9.5 + 0.115)


def test_rates_of_all_devices_need_their_number() -> None:
    text = text_of("torchtitan")
    assert parse_training(text).gpu_count == 8
    meshless = re.sub(".*device mesh.*\n", "", text)
    assert "token_throughput" not in medians(parse_training(meshless))
    degrees = "Building device mesh with parallelism: pp=1, dp_replicate=2, dp_shard=8, cp=1, tp=2"
    output = parse_training(f"{degrees}, ep=1\n{meshless}")
    assert output.gpu_count == 32
    got = medians(output)
    assert got["token_throughput"] == 32 * got["device_token_throughput"]


def test_the_batch_over_the_step_time_is_the_rate_of_samples() -> None:
    got = medians(parse_training(text_of("nemo")))
    assert got["sample_throughput"] == pytest.approx(256 / got["step_time"], rel=1e-3)
    assert "token_throughput" not in got


def test_a_log_that_begins_in_the_middle_of_a_run_has_no_warm_up() -> None:
    text = "".join(text_of("llm_c").splitlines(keepends=True)[9:])
    output = parse_training(text)
    assert (output.iterations[0].number, len(output.measured)) == (8, 13)
    assert output.warnings == ["the log begins at iteration 8"]


def test_other_ranks_lines_count_once() -> None:
    text = text_of("torchtitan")
    doubled = re.sub(r"(?m)^.*tflops.*\n", lambda line: line[0] * 2, text)
    output = parse_training(doubled)
    assert medians(output) == medians(parse_training(text))
    assert output.warnings[0].startswith("21 lines of an iteration that stands twice are left out")


def test_of_two_starts_the_last_one_counts() -> None:
    text = text_of("nanogpt")
    output = parse_training(text.replace("loss", "loss 1.0, time 9.0ms, was", 0) + text)
    assert medians(output) == medians(parse_training(text))
    assert output.warnings[0].startswith("the run began anew at iteration 0")


def test_skipped_iterations_are_counted() -> None:
    output = parse_training(text_of("gpt_neox"))
    assert output.checks["no_iteration_skipped"] is False
    assert "2 iterations were skipped" in output.warnings


@pytest.mark.parametrize(
    ("program", "loss", "failed"),
    [
        ("nemo", lambda at: "nan" if at > 20 else "9.5", "loss_finite"),
        ("torchtitan", lambda at: f"{8 + 0.4 * at:.5f}", "loss_not_above_start"),
        ("llm_c", lambda at: f"{9 - 0.6 * at if at < 10 else 7:.6f}", "loss_not_above_best"),
    ],
)
def test_a_loss_that_goes_wrong_is_a_failed_check(
    program: str, loss: Callable[[int], str], failed: str
) -> None:
    numbers_from_0 = iter(range(100))
    pattern = r"(train_loss: |[^e] +\d+ +loss: +|\| loss )[\d.]+"
    text = re.sub(pattern, lambda match: match[1] + loss(next(numbers_from_0)), text_of(program))
    assert parse_training(text).checks[failed] is False


def test_a_clock_that_runs_from_the_start_gives_step_times() -> None:
    lines = [f"step:{at}/40 train_time:{100 * at + 7}ms step_avg:100.0ms" for at in range(41)]
    lines.insert(21, "step:20/40 val_loss:4.5 train_time:2050ms step_avg:100.0ms")
    lines.insert(0, "step:0/40 val_loss:10.8 train_time:0ms step_avg:nanms")
    output = parse_training("\n".join(lines))
    got = medians(output)
    assert got == pytest.approx({"step_time": 0.1, "loss_first": 10.8, "loss_last": 4.5})


def test_a_wrapped_line_of_lightning_is_one() -> None:
    text = text_of("nemo").splitlines()[12]
    plain, wrapped = parse_training(text), parse_training(text.replace("| global_s", "|\nglobal_s"))
    assert medians(wrapped) == medians(plain)


@pytest.mark.parametrize("program", ["torchtitan", "gpt_neox", "maxtext"])
def test_a_figure_that_contradicts_another_is_refused(program: str) -> None:
    lines = text_of(program).splitlines()
    pattern = {"torchtitan": "tps: ", "gpt_neox": "samples/sec: ", "maxtext": "seconds: "}[program]
    lines[-4] = lines[-4].replace(pattern, f"{pattern}9")
    with pytest.raises(ParseError, match="not the same work as in the lines before"):
        parse_training("\n".join(lines))


def test_the_steps_of_nemo_rl() -> None:
    steps = [
        f"{'=' * 25} Step {at}/40 {'=' * 25}\n▶ Preparing batch...\n  • Loss: -0.0{at:02d}\n"
        f"  • Training FLOPS: 3280.00 TFLOPS ({400 + at}.00 TFLOPS per rank)\n"
        f"  • Total step time: {60 + at}.25s\n  • generation: 30.10s (50.0%)\n"
        f"    - E2E (Tokens/sec/gpu): {9500 + at}.50\n"
        for at in range(1, 13)
    ]
    reading = read("\n".join(steps), source="log")
    got = {row["name"]: row["value"] for row in reading.rows if row["statistic"] == "median"}
    # The first three of twelve are warm-up.
    assert got == pytest.approx(
        {
            "step_time": 68.25,
            "device_token_throughput": 9508.5,
            "train_flops_printed": 408e12,
        }
    )
    assert reading.parameters == {"framework": "nemo_rl"}
    assert reading.checks == {}


def test_few_lines_from_the_beginning_are_unverified() -> None:
    lines = text_of("maxtext").splitlines()[:3]
    assert parse_training("\n".join(lines)).unverified == [
        "2 lines of iterations, and the first two are warm-up"
    ]


def test_lines_without_time_or_rate_are_no_log() -> None:
    with pytest.raises(ParseError, match="no line of an iteration has a time or a rate"):
        parse_training("step 0: train loss 10.9, val loss 10.8\n")


@pytest.mark.parametrize(
    ("line", "framework", "name", "value"),
    [
        (
            "step 00309 (99.8%) | loss: 3.45 | lrm: 0.00 | dt: 1014ms | tok/sec: 129,238 | mfu: 18",
            *(None, "token_throughput", 129238.0),
        ),
        (
            "step: 12 | Loss: 4.1 | norm: 0.9 | dt: 0.25s | tok/sec: 9000.00",
            None,
            "step_time",
            0.25,
        ),
        (
            "steps: 2 loss: 12.8004 iter time (s): 145.206 samples/sec: 7.052",
            *("deepspeed", "sample_throughput", 7.052),
        ),
        (
            "iter 100 step 101: loss 7.0670, LR: 0.0003, iter time: 625.12ms (optimizer.step)",
            *("litgpt", "step_time", 0.62512),
        ),
        (
            (
                "iteration 9/ 20 | elapsed time per iteration (ms): 1/2 |"
                " compute per GPU (TFLOP/s/GPU): 42.2/41.9 |"
            ),
            *("megatron", "train_flops_printed", 42.2e12),
        ),
        (
            "500 | loss 6.0091 | lr 5.000000e-05 | 8175.64ms | mfu 0.19%",
            *("llama2.c", "step_time", 8.17564),
        ),
        (
            "[INFO] [TRAIN] step: 289, loss: 0.4310, tokens_per_second: 76477.73, mfu: 33.7",
            *(None, "token_throughput", 76477.73),
        ),
        (
            "1%| 7/77 [9:07<8:01, 41.36s/it, loss=3, reduced_train_loss=3.090, global_step=794.0]",
            *("nemo", "step_time", 41.36),
        ),
        (
            "step 1: train loss 4.0 (took 1452.121000 ms)",
            *("llm.c", "step_time", 1.452121),
        ),
        (
            " iteration 3/ 1000 | elapsed time per iteration (ms): 123907.8 | lm loss 4.1E+01 |",
            *("megatron", "step_time", 123.9078),
        ),
        (
            "10/100 [reduced_train_loss=5, global_step=9.000, train_step_timing in s=3.130]",
            *("nemo", "step_time", 3.13),
        ),
    ],
)
def test_forms_of_other_programs(line: str, framework: str | None, name: str, value: float) -> None:
    reading = read(line, source="log")
    [row] = [row for row in reading.rows if row["name"] == name and row["statistic"] == "median"]
    assert (reading.tool, reading.parameters.get("framework")) == ("training", framework)
    assert row["value"] == pytest.approx(value)
