"""Training logs of other programs than Megatron: figures as printed, rates by the log's own
numbers, losses judged, contradictions refused."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from trueup_analysis.decoding import decoded
from trueup_analysis.parsers.training.output import TrainingOutput, parse_training
from trueup_analysis.read import read
from trueup_analysis.rooms import marks

DATA = Path(__file__).parents[1] / "data" / "training"


def text_of(program: str) -> str:
    return (DATA / f"synthetic_{program}.txt").read_text(encoding="utf-8")


def medians(output: TrainingOutput) -> dict[str, float]:
    rows = output.metrics()
    return {row.name: row.value for row in rows if row.statistic in {"median", "single"}}


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
