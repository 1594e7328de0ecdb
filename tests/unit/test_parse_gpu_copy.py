"""Outputs of programs that measure GPU copies: what must be read from them, or refused."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest
from damage import changed, refuses
from hypothesis import given, settings
from hypothesis import strategies as st
from trueup_node.benchmarks.gpu_copy.output import parse_gpu_copy
from trueup_node.benchmarks.gpu_copy.signatures import SIGNATURE
from trueup_node.errors import ParseError

DATA = Path(__file__).parent.parent / "data" / "gpu_copy"
H100 = (DATA / "nvbandwidth_0.9_h100.txt").read_text()
OLD = (DATA / "nvbandwidth_0.4_one_gpu.txt").read_text()
PAIRS = (DATA / "nvbandwidth_0.10_pairs.txt").read_text()
JSON = (DATA / "nvbandwidth_0.8.json").read_text()
WORDS = (DATA / "bandwidthtest.txt").read_text()
CSV = (DATA / "bandwidthtest.csv").read_text()
TORCH = (DATA / "pytorch.json").read_text()
TORCH_PEERS = (DATA / "pytorch_peers.json").read_text()
SECTIONS = (DATA / "sections_4gpu.txt").read_text()
# As in stas00/ml-engineering, network/README.md (DGX Station): the lines above are left out.
CUT = """$ ./nvbandwidth
[...]
Running host_to_device_memcpy_ce.
memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)
           0
 0    359.05

SUM host_to_device_memcpy_ce 359.05

Running device_to_host_memcpy_ce.
memcpy CE CPU(row) <- GPU(column) bandwidth (GB/s)
           0
 0    377.15

SUM device_to_host_memcpy_ce 377.15
"""
ALL = [H100, OLD, PAIRS, JSON, WORDS, CSV, TORCH, TORCH_PEERS, SECTIONS]

Rows = dict[tuple[str, Any, Any], float]


def values(text: str) -> Rows:
    return {
        (row.name, row.device, row.statistic): row.value for row in parse_gpu_copy(text).metrics()
    }


def swept(mode: str, sizes: list[int], *, unit: str = "GB/s", csv: bool = False) -> str:
    """bandwidthTest's output of several sizes, as printResultsReadable or ...CSV lays it out."""
    out = [*CSV.splitlines()[:4], f" {mode} Mode", ""]
    divisor = 1e9 if unit == "GB/s" else 1 << 20
    for kind, (short, name) in enumerate(
        (("H2D", "Host to Device"), ("D2H", "Device to Host"), ("D2D", "Device to Device"))
    ):
        out += ["." * len(sizes)] if mode == "Shmoo" else []
        rates = [round(kind + 2 + place / 10, 1) for place in range(len(sizes))]
        if csv:
            config = f"bandwidthTest-{short}{'' if short == 'D2D' else '-Pinned'}"
            out += [
                f"{config}, Bandwidth = {rate:.1f} {unit}, Time = {size / (rate * divisor):.5f} s, "
                f"Size = {size} bytes, NumDevsUsed = 1"
                for size, rate in zip(sizes, rates, strict=True)
            ]
            continue
        out += [f" {name} Bandwidth, 1 Device(s)", " PINNED Memory Transfers"]
        out.append(f"   Transfer Size (Bytes)\tBandwidth({unit})")
        tabs = "\t\t\t"
        out += [
            f"   {size}{tabs}{tabs[:1] if size < 10_000 else ''}{rate:.1f}"
            for size, rate in zip(sizes, rates, strict=True)
        ]
        out.append("")
    return "\n".join([*out, "Result = PASS", "", "NOTE: The CUDA Samples are not meant for", ""])


# Each step of shmoo mode stands here as its source says: 81 sizes from 1 kB to 68 MB.
STEPS = [
    *(range(1, 20), range(20, 50, 2), range(50, 100, 10), range(100, 1000, 100)),
    *(range(1000, 16_000, 1000), range(16_000, 32_000, 2000), range(32_000, 68_001, 4000)),
]
SHMOO = swept("Shmoo", [size * 1000 for steps in STEPS for size in steps])
RANGE = swept("Range", [1000, 2000, 3000])


def in_megabytes(text: str) -> str:
    return re.sub(r"(\d+)(\.\d)$", r"\g<1>00\g<2>", text, flags=re.MULTILINE).replace(
        "GB/s", "MB/s"
    )


def test_megabytes_of_old_versions_and_lines_above_the_first() -> None:
    """Sources of 2013, 2014 and 2015: 1e3f or (1<<10) * bytes / (ms * (1<<20)), and a NOTE."""
    old = parse_gpu_copy(in_megabytes(WORDS))
    assert old.figures["h2d"] == {"gpu0": (2500.1 * 1_024_000,)}
    assert (old.unverified, parse_gpu_copy(WORDS).unverified) == ([], [])
    older = parse_gpu_copy(changed(in_megabytes(WORDS), "NOTE: .*", ""))
    assert older.figures == old.figures
    assert [why[:40] for why in older.unverified] == ["no line 'NOTE: The CUDA Samples ...' bel"]
    # Of GB/s there is one unit.
    assert parse_gpu_copy(changed(WORDS, "NOTE: .*", "")).unverified == []
    assert values("$ ./bandwidthTest\n" + WORDS) == values(WORDS)


def torch_with(**changes: Any) -> str:
    """The PyTorch line with other content, its checksum made right again."""
    data = {**json.loads(TORCH), **changes}
    data.pop("sha256")
    text = json.dumps(data, sort_keys=True, separators=(",", ":"))
    return json.dumps({**data, "sha256": hashlib.sha256(text.encode()).hexdigest()[:16]})


H2D_ROW = r"\n0     5[0-9.]+ .*"


test_damaged_output_is_refused = refuses(
    parse_gpu_copy,
    (changed(WORDS, r"GB/s", "MB/s"), "GB/s and MB/s in one output"),
    (changed(WORDS, r"25\.1", "1157.5"), "h2d is faster than the GPU's own memory"),
    (changed(CSV, r"Size = \d+", "Size = " + "9" * 99), "not a line that bandwidthTest prints"),
    ("", "neither nvbandwidth's"),
    ("garbage\n" * 30, "neither nvbandwidth's"),
    ("\n".join(H100.splitlines()[:5]).replace("Version", "Vor"), "no line 'nvbandwidth Version"),
    (H100[H100.index("Running") :] + H100, "a second nvbandwidth begins"),
    # Without its banner, and cut: stas00/ml-engineering, network/README.md (DGX Station).
    (CUT[: CUT.rindex("SUM")], "expected 'SUM device_to_host_memcpy_ce'"),
    (changed(H100, r"CPU\(row\) ->", "CPU(row) <-"), "expected the heading"),
    (changed(H100, "0         1         2", "0         2         1"), "numbers of the columns"),
    (changed(H100, H2D_ROW, ""), "the matrix has no rows"),
    (changed(H100, r"\n3    3[^\n]*", ""), "expected row 3 with 8 figures"),
    (changed(H100, r"(\n3    3[0-9.]+) +[0-9.]+", r"\1"), "expected row 3 with 8 figures"),
    (changed(H100, r"\n0     5[0-9]\.", "\n0     15."), "the matrix adds up to"),
    (changed(H100, r"\n0     5", "\n0     -"), "expected a row of the matrix"),
    (changed(H100, r"\n0     5[0-9.]+", "\n0      nan"), "expected a row of the matrix"),
    (changed(H100, r"\n0     5[0-9.]+", "\n0       N/A"), "the matrix adds up to"),
    # Eight figures and their sum are each off by 0.005 at most.
    (changed(H100, r"(SUM host_to_device_memcpy_ce) \S+", r"\1 441.68"), "the matrix adds up to"),
    (changed(H100, r"N/A", "0.00"), "a figure on the diagonal"),
    (changed(H100, "SUM host_to_device_memcpy_ce.*", ""), "or 'SUM host_to_device"),
    (changed(H100, "SUM host_to_device_memcpy_ce", "SUM device_to"), "or 'SUM host_to"),
    (changed(H100, "Waived: ", "[CUDA_ERROR_UNKNOWN] unknown"), "reports an error"),
    (changed(H100, "Waived: ", "what is this"), "not a line that nvbandwidth prints"),
    (H100 + H100, "a second nvbandwidth begins"),
    (H100[: H100.index("Running")] + H100[H100.index("NOTE") :], "no test"),
    (JSON[:-40], "cut off or damaged"),
    (JSON.replace('"sum" : ', '"sum" : 1'), "the matrix adds up to"),
    (changed(JSON, '"sum"', '"som"'), "lacks or spoils 'sum'"),
    (changed(JSON, '"sum" : ', '"status" : "Passed", "sum" : '), "stands twice"),
    (JSON.replace('"Passed"', '"Error"'), "has status Error"),
    (JSON.replace('"Passed"', '"Running"'), "has status Running"),
    (JSON.replace("device_to_host_memcpy_ce", "host_to_device_memcpy_ce"), "stands twice"),
    (JSON.replace("device_to_host_memcpy_ce", "device_to_host_memcpy_cx"), "of another test"),
    (
        JSON.replace("device_to_host_memcpy_ce", "host_to_all_memcpy_ce"),
        "host_to_all_memcpy_ce has the description of another test",
    ),
    # Four figures of three decimals, and of four, are each off by half of their last.
    (changed(JSON, r'"sum" : 101\.787', '"sum" : 101.788'), "the matrix adds up to"),
    ('{"nvbandwidth": {"error": "CUDA: no device", "testcases": []}}', "no device"),
    ('{"nvbandwidth": {"testcases": []}}', "no testcases"),
    (WORDS[: WORDS.index("Result")], "no 'Result = PASS'"),
    (WORDS + "more\n", "there is more after 'Result = PASS'"),
    (changed(WORDS, "Host to Device", "Device to Host"), "stand twice or out of their order"),
    (WORDS.replace("1 Device(s)", "8 Device(s)"), "not the figure of one GPU"),
    (WORDS.replace("(GB/s)", "(kB/s)"), "expected the columns"),
    (changed(WORDS, r"\t25\.1\n", "\t25.1\n   64000000\t\t\t25.2\n"), "not those of Quick Mode"),
    (changed(WORDS, " Quick Mode\n", ""), "no line 'Quick Mode'"),
    (changed(SHMOO, "   900000\t.*\n", ""), "not those of Shmoo Mode: a row is missing"),
    (changed(RANGE, r"   2000\t\t\t\t2.1\n", ""), "are not those of Range Mode"),
    (changed(RANGE, r"(   2000\t.*\n)", r"\1\1"), "2000 bytes of h2d stand twice"),
    (changed(WORDS, r"\t25\.1\n", "\t0.0\n"), "is not a bandwidth that a GPU can have"),
    (changed(WORDS, " Device 0.*\n", ""), "no line 'Device N: name'"),
    (WORDS.replace("Result = PASS", "Result = FAIL"), "not a line that bandwidthTest prints"),
    (changed(CSV, "(bandwidthTest-D2H.*\n)", r"\1\1"), "stand twice"),
    (changed(CSV, "bandwidthTest-(H2D|D2H|D2D).*\n", "", 3), "measured no direction"),
    (changed(CSV, "Bandwidth = 25.1", "Bandwidth = 52.1"), "do not take 0.00127 s"),
    (changed(CSV, "Time = 0.00127", "Time = 0.00126"), "do not take 0.00126 s"),
    (changed(CSV, "NumDevsUsed = 1", "NumDevsUsed = 8"), "not the figure of one GPU"),
    (TORCH[:-30], "cut off or damaged"),
    (TORCH.strip() + "\nmore\n", "there is more after it"),
    (changed(TORCH, r'"seconds": \[0\.3', '"seconds": [0.2'), "checksum"),
    (torch_with(format=2), "not of format 1"),
    (torch_with(tests=[]), "no test that is reported"),
    (changed(SECTIONS, "status=0", "status=1"), "ended with status 1"),
    (changed(SECTIONS, "25.26", "25.27"), "section gpu0 is not what was written"),
    (changed(SECTIONS, r"\[trueup-gpu-copy 1\] done.*\n", ""), "or the line 'done'"),
    (changed(SECTIONS, "begin gpu1", "begin gpu0"), "stands twice"),
    (changed(SECTIONS, r"\[trueup-gpu-copy 1\] end gpu0.*\n", ""), "expected the end"),
    (SECTIONS + "more\n", "there is more after"),
)


@pytest.mark.parametrize("text", ALL)
def test_only_these_outputs_are_recognised(text: str) -> None:
    assert SIGNATURE.recognises(text)
    assert SIGNATURE.recognises(text[: len(text) // 2])
    assert not SIGNATURE.recognises("Function Best Rate MB/s Avg time Min time Max time")
    assert not SIGNATURE.recognises('{"tool": "trueup-stream"}')


def same(text: str, right: Rows) -> bool:
    try:
        return values(text) == right
    except ParseError:
        return True


@settings(max_examples=60, deadline=None)
@given(text=st.sampled_from(ALL), data=st.data())
def test_truncation_and_lost_lines_give_the_right_figures_or_an_error(
    text: str, data: st.DataObject
) -> None:
    """Of a cut output of nvbandwidth the tests that are whole are read, and it is unverified, or a
    warning says that others may lack (before 0.6, which has no closing line). So it is where the
    one line of a direction is lost in bandwidthTest's CSV: it is said to be missing."""
    right = values(text)
    if data.draw(st.booleans()):
        damaged = text[: data.draw(st.integers(0, len(text)))]
    else:
        lines = text.splitlines(keepends=True)
        del lines[data.draw(st.integers(0, len(lines) - 1))]
        damaged = "".join(lines)
    try:
        got = values(damaged)
    except ParseError:
        return
    output, damaged_output = parse_gpu_copy(text), parse_gpu_copy(damaged)
    assert set(got.items()) <= set(right.items())
    if got != right:
        assert damaged_output.unverified or (
            text in {OLD, CSV} and damaged_output.warnings != output.warnings
        )


@settings(max_examples=60, deadline=None)
@given(text=st.sampled_from(ALL), data=st.data())
def test_swapped_lines_give_the_right_figures_or_an_error(text: str, data: st.DataObject) -> None:
    """Left out is what nothing in the output tells apart: figures that stand alone on a line, in
    nvbandwidth's JSON (a cell of a matrix) and in bandwidthTest's words (a size and a figure)."""
    lines = text.splitlines(keepends=True)
    bare = re.compile(r'\s*"[0-9.]+",?\s*|\s*[0-9]+\s+[0-9]+\.[0-9]\s*')
    places = [
        n for n, line in enumerate(lines) if text not in (JSON, WORDS) or not bare.match(line)
    ]
    one, other = data.draw(st.sampled_from(places)), data.draw(st.sampled_from(places))
    lines[one], lines[other] = lines[other], lines[one]
    damaged = "".join(lines)
    # The last line may lack its end.
    assert same(damaged, values(text))


@pytest.mark.parametrize(
    ("pattern", "missing"),
    [
        ("Running host_to_device_memcpy_ce.\n", "no line 'Running host_to_device_memcpy_ce.'"),
        ("Performance can vary.*", "no closing line 'Performance can vary"),
    ],
)
def test_a_pasted_part_is_unverified_where_its_sums_add_up(pattern: str, missing: str) -> None:
    output, pasted = parse_gpu_copy(H100), parse_gpu_copy(changed(H100, pattern, ""))
    assert (pasted.metrics(), output.unverified) == (output.metrics(), [])
    assert [text[: len(missing)] for text in pasted.unverified] == [missing]
    assert pasted.checks == output.checks


def test_a_text_without_its_banner_is_unverified() -> None:
    text = CUT[CUT.index("Running") :]
    output = parse_gpu_copy(text)
    figures = {"h2d": {"gpu0": (359.05e9,)}, "d2h": {"gpu0": (377.15e9,)}}
    assert (SIGNATURE.recognises(text), parse_gpu_copy(CUT)) == (True, output)
    assert (output.figures, output.tool_version) == (figures, None)
    assert [line[:34] for line in output.unverified] == ["no line 'nvbandwidth Version: ...':"[:34]]
    # With tests and without one, below a banner of which the version is damaged.
    assert values(changed(H100, "nvbandwidth Version", "nvbandwidth Vor")) == values(H100)


# What a figure may differ by where only its sum confirms it: the rounding of all that is added, and
# what the printed sum is off by already. No changed character of these texts makes more.
SLACK = {H100: 0.301e9, OLD: 0.011e9, PAIRS: 0.06e9, JSON: 0.007e9, TORCH: 0.0, TORCH_PEERS: 0.0}
SLACK[SECTIONS] = 0.0


@settings(max_examples=60, deadline=None)
@given(text=st.sampled_from(list(SLACK)), data=st.data())
def test_a_changed_byte_gives_the_right_figures_or_an_error(text: str, data: st.DataObject) -> None:
    """Only the role's own output (sections, PyTorch) is proof against any changed byte. In a bare
    output of nvbandwidth a figure may be off by what the rounding of its matrix allows: 0.30 GB/s
    of this one of 56 pairs. bandwidthTest prints one decimal and nothing to check it with (with
    --csv a time of two or three digits): its bare output is left out here, and in sections it is
    covered."""
    right = values(text)
    place = data.draw(st.integers(0, len(text) - 1))
    new = data.draw(st.sampled_from("0123456789.eNx ,\n-"))
    try:
        got = values(text[:place] + new + text[place + 1 :])
    except ParseError:
        return
    if text == OLD:
        right = {key: right[key] for key in got}
    assert got.keys() == right.keys()
    assert max(abs(got[key] - right[key]) for key in right) <= SLACK[text]
