"""STREAM outputs: recorded files and what must be read from them, or refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from damage import changed, refuses, stands
from trueup_node.benchmarks.stream.output import parse_stream
from trueup_node.benchmarks.stream.signatures import SIGNATURE
from trueup_node.errors import ParseError

DATA = Path(__file__).parent.parent / "data" / "stream"
OURS = (DATA / "kernel_streaming.json").read_text()
CLASSIC = (DATA / "stream510.txt").read_text()


def values(text: str) -> dict[tuple[str, str | None], float]:
    return {(row.name, row.statistic): row.value for row in parse_stream(text).metrics()}


def test_repeats_of_one_time_are_no_damage() -> None:
    alike = changed(CLASSIC, "0.005000     0.004000     0.008000", "0.004000     " * 2 + "0.004000")
    got = values(alike)
    assert got["copy_rate", "min"] == got["copy_rate", "mean"] == got["copy_rate", "max"]


OLD = re.sub(r"(\d\.\d{4})\d\d\b", r"\1", CLASSIC).replace("40000.0", "40000.0000")
for new, old in (
    ("Function    Best Rate MB/s  Avg", "Function      Rate (MB/s)   Avg"),
    ("STREAM version $Revision: 5.10 $", "STREAM version $Revision: 5.9 $"),
    ("bytes per array element", "bytes per DOUBLE PRECISION word"),
    ("10000000 (elements), Offset = 0 (elements)", "10000000, Offset = 0"),
    ("Each kernel will be executed 10 times.", "Each test is run 10 times, but only"),
    (": avg error less than 1.000000e-13 on all three arrays", ""),
):
    OLD = OLD.replace(new, old)


test_damaged_output_is_refused = refuses(
    parse_stream,
    ("", "no table"),
    ("garbage\n" * 30, "no table"),
    (changed(CLASSIC, r"(Triad:.*0\.01)2000", r"\1"), "different numbers of decimals"),
    (
        changed(CLASSIC, r"(Triad:.*)", r"\1\n\1 0.012000"),
        "a row of the table is cut off or damaged",
    ),
    (changed(OURS, r'"seconds": \[[^,]+', '"seconds": [0.01'), "has not nine decimals"),
    (changed(OURS, r'"seconds": \[[^,]+', '"seconds": [' + "9" * 400), "of 400 characters"),
    (changed(OURS, r'"bytes": \d+', '"bytes": 2'), "copy: bytes are not 2 arrays of array_bytes"),
    (changed(OURS, r'"threads": \d+', '"threads": 1e999'), "lacks or spoils"),
    (OURS[:-20], "cut off or damaged"),
    (changed(OURS, '"format": 1', '"format": 9'), "not of format 1"),
    (changed(OURS, '"triad"', '"dot"'), "kernels are"),
    (changed(OURS, r'"seconds": \[[^,]+', '"seconds": [0.0'), "not a positive number"),
    (changed(OURS, r'"seconds": \[[^,]+, ', '"seconds": ['), "different numbers of repeats"),
    (changed(OURS, r'"error": [^,]+', '"error": "x"'), "lacks or spoils"),
    (changed(OURS, '"threads"', '"threats"'), "lacks or spoils 'threads'"),
    (changed(CLASSIC, "Best Rate MB/s", "Best Rate GB/s"), "header is not known"),
    (changed(CLASSIC, r"Scale:.*\n", ""), "the table ends without scale"),
    (changed(CLASSIC, r"Scale:.*", "Scale: 1"), "a row of the table is cut off or damaged"),
    (changed(CLASSIC, "Scale:", "Copy: "), "Copy stands twice"),
    (changed(CLASSIC, "40000.0", "-40000"), "not a positive number"),
    (changed(CLASSIC, "40000.0", "fast"), "not a number"),
    (changed(CLASSIC, "0.008000\nScale", "0.000800\nScale"), "average time is not between"),
    (CLASSIC + CLASSIC, "a second run"),
    (CLASSIC + OLD, "a second run"),
    (OURS + "\n" + OURS, "a second run"),
    (changed(CLASSIC, "40000.0", "41000.0"), "are not 41000.0 MB/s"),
    (changed(OLD, "32000.0", "33000.0"), "are not 33000.0 MB/s"),
    (changed(CLASSIC, "Array size = 1", "Array size = 2"), "are not 40000.0 MB/s"),
)


def test_only_stream_is_recognised() -> None:
    assert SIGNATURE.recognises(OURS)
    assert SIGNATURE.recognises(CLASSIC)
    assert not SIGNATURE.recognises("Operator `Forward` ran in 1.0 s")


test_a_damaged_output_gives_its_own_figures_or_an_error = stands(
    values, [OURS, CLASSIC], "cut", "lost", examples=150
)


# Figures of an A100 of 80 GB, as NVIDIA's container 24.03 prints them.
NVIDIA = """NVIDIA-STREAM 24.3.0  -- NVIDIA accelerated STREAM benchmark -- NVIDIA
 Array size (double)=67108864*8*8 (4096 MB)
Function      Rate (MB/s)   Avg time     Min time     Max time
Copy:      1774334.0593       0.0006       0.0006       0.0006
Scale:     1765000.8783       0.0006       0.0006       0.0006
Add:       1784367.2629       0.0009       0.0009       0.0009
Triad:     1790970.6722       0.0009       0.0009       0.0009
"""


def test_nvidias_stream_has_no_verdict_and_is_checked_against_its_bytes() -> None:
    output = parse_stream(NVIDIA)
    assert (output.tool_version, output.checks, output.unverified) == ("NVIDIA 24.3.0", {}, ())
    assert (output.rates["triad"][0], output.array_bytes) == (1790970.6722e6, 67108864 * 8)
    with pytest.raises(ParseError, match=r"are not 2790970\.6722 MB/s"):
        parse_stream(NVIDIA.replace("1790970", "2790970"))
