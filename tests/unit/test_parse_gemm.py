"""The matrix-product program's line: what must be read from it, or refused."""

from __future__ import annotations

import copy
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from damage import refuses
from hypothesis import given, settings
from hypothesis import strategies as st
from trueup_node.benchmarks.gemm.output import largest_error, parse_gemm
from trueup_node.benchmarks.gemm.signatures import SIGNATURE
from trueup_node.errors import ParseError

DATA = Path(__file__).parent.parent / "data" / "gemm"
H100 = (DATA / "h100_4gpu.json").read_text()
A100 = (DATA / "a100_1gpu.json").read_text()


def values(text: str) -> dict[Any, float]:
    return {(row.name, row.device, row.statistic): row.value for row in parse_gemm(text).metrics()}


def sealed(data: dict[str, Any]) -> str:
    """The line of this content with a right checksum."""
    data = {key: value for key, value in data.items() if key != "sha256"}
    text = json.dumps(data, sort_keys=True, separators=(",", ":"))
    return json.dumps({**data, "sha256": hashlib.sha256(text.encode()).hexdigest()[:16]}) + "\n"


def with_row(number: int = 0, **changes: Any) -> str:
    data = copy.deepcopy(json.loads(A100))
    data["gpus"][0]["precisions"][number].update(changes)
    return sealed(data)


def with_gpu(**changes: Any) -> str:
    data = copy.deepcopy(json.loads(A100))
    data["gpus"][0].update(changes)
    return sealed(data)


def test_an_error_beyond_the_bound_is_a_failed_check() -> None:
    checks = parse_gemm(with_row(1, error=0.5)).checks
    assert checks == {"fp64_correct": True, "tf32_correct": False, "bf16_correct": True}
    n = json.loads(A100)["gpus"][0]["precisions"][1]["n"]
    assert parse_gemm(with_row(1, error=largest_error("tf32", n))).checks["tf32_correct"] is True


TWO = json.loads(H100)["gpus"]


test_damaged_output_is_refused = refuses(
    parse_gemm,
    ("", "no line"),
    ("garbage\n" * 9, "no line"),
    (A100 + A100, "several lines"),
    (A100[:-30], "cut off or damaged"),
    (A100.replace("0.2", "0.3", 1), "the checksum is not that"),
    (A100.replace('"sha256"', '"sha255"'), "the checksum is not that"),
    (sealed({**json.loads(A100), "format": 2}), "not of format 1"),
    (sealed({**json.loads(A100), "gpus": []}), "no GPU"),
    (sealed({**json.loads(A100), "gpus": 7}), "lacks or spoils"),
    (sealed({**json.loads(H100), "gpus": [TWO[0], TWO[0]]}), "stands twice"),
    (
        sealed({**json.loads(H100), "gpus": [TWO[0], json.loads(A100)["gpus"][0] | {"gpu": 1}]}),
        "were not measured alike",
    ),
    (with_gpu(precisions=[]), "no precision was measured"),
    (with_row(precision="fp4"), "precision fp4 is not known"),
    (with_row(precision="tf32"), "or stands twice"),
    (with_row(n=0), "n 0 or calls"),
    (with_row(n=8192.5), "n 8192.5 or calls"),
    (with_row(calls=True), "calls True cannot be"),
    (with_row(seconds=[1.0, 1.0]), "fewer than 3 repeats"),
    (with_row(seconds=[1.0, 1.0, 0.0]), "a time that is not positive"),
    (with_row(seconds=[1.0, 1.0, -1.0]), "a time that is not positive"),
    (with_row(seconds=[1.0, 1.0, float("nan")]), "a time that is not positive"),
    (with_row(seconds=[1.0, 1.0, "x"]), "lacks or spoils"),
    (with_row(seconds=[1e-9] * 3), "flop/s cannot be"),
    (with_row(error=-1), "error -1 is not one"),
    (with_row(error=float("inf")), "error inf is not one"),
    (with_gpu(cpus=None), "lacks or spoils"),
)


def test_only_this_program_is_recognised() -> None:
    assert SIGNATURE.recognises(H100)
    assert SIGNATURE.recognises(A100[:200])
    assert not SIGNATURE.recognises('{"tool": "trueup-stream", "format": 1}')


@settings(max_examples=60, deadline=None)
@given(text=st.sampled_from([H100, A100]), data=st.data())
def test_damage_gives_the_right_figures_or_an_error(text: str, data: st.DataObject) -> None:
    """Cut off anywhere, or one byte changed anywhere: the checksum covers all of the line. (There
    is one line: to lose it leaves nothing, and there is none to swap it with.)"""
    right = values(text)
    place = data.draw(st.integers(0, len(text) - 1))
    if data.draw(st.booleans()):
        text = text[:place]
    else:
        text = text[:place] + data.draw(st.sampled_from("0123456789.eNx ,\n-")) + text[place + 1 :]
    try:
        got = values(text)
    except ParseError:
        return
    assert got == right


@pytest.mark.parametrize(
    ("precision", "n", "bound"),
    [("fp8", 1024, 0.07), ("fp8", 16384, 0.07), ("fp8", 65536, 0.14), ("bf16", 65536, 0.04)],
)
def test_the_bound_of_fp8_grows_with_n(precision: str, n: int, bound: float) -> None:
    assert largest_error(precision, n) == pytest.approx(bound)
