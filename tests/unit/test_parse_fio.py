"""fio outputs: recorded files and what must be read from them, or refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from damage import changed, damaged, refuses, same_or_refused, stands
from hypothesis import given, settings
from hypothesis import strategies as st
from trueup_node.benchmarks.fio.output import parse_fio
from trueup_node.benchmarks.fio.signatures import SIGNATURE
from trueup_node.errors import ParseError

DATA = Path(__file__).parent.parent / "data" / "fio"
MIXED = (DATA / "fio333_random_rw_jsonplus.json").read_text()
WRITE = (DATA / "fio333_write_psync.json").read_text()
GROUPS = (DATA / "fio333_two_groups.json").read_text()
NO_SPACE = (DATA / "fio333_no_space.json").read_text()
METADATA = {
    operation: (DATA / f"fio333_metadata_{operation}.json").read_text()
    for operation in ("create", "stat", "delete")
}

Rows = dict[tuple[str, str | None, str | None], float]


def values(text: str) -> Rows:
    return {(row.name, row.statistic, row.device): row.value for row in parse_fio(text).metrics()}


def figure(text: str, key: str, *, nth: int = 0) -> float:
    return float(re.findall(rf'"{key}" : ([\d.]+)', text)[nth])


@pytest.mark.parametrize("operation", list(METADATA))
def test_operations_of_files_are_no_reads_and_have_no_bytes(operation: str) -> None:
    text = METADATA[operation]
    output = parse_fio(text)
    got = values(text)
    assert set(got) == {
        (f"{operation}_rate", "single", None),
        *((f"{operation}_latency", name, None) for name in ("mean", "median", "p99")),
    }
    assert got[f"{operation}_rate", "single", None] == figure(text, "iops")
    # slat, clat, lat: these engines have the second alone.
    assert got[f"{operation}_latency", "mean", None] == pytest.approx(
        figure(text, "mean", nth=1) * 1e-9, rel=1e-12
    )
    assert got[f"{operation}_latency", "p99", None] == pytest.approx(
        figure(text, r"99\.000000") * 1e-9, rel=1e-12
    )
    assert {row.n for row in output.metrics() if row.statistic != "single"} == {4000}
    assert output.warnings == []
    assert output.parameters["ioengine"] == f"file{operation}"


@pytest.mark.parametrize(
    ("pattern", "replacement", "message"),
    [
        (r'"total_ios" : 4000', '"total_ios" : 3999', "is not total_ios 3999"),
        (r'"N" : 4000', '"N" : 3999', "the bins hold 4000 I/Os, N is 3999"),
        (r'"50\.000000" : \d+', '"50.000000" : 1600', "the bins' percentile 50"),
        (r'"clat_ns"', '"clat_us"', "are not all there"),
    ],
)
def test_damaged_output_of_operations_is_refused(
    pattern: str, replacement: str, message: str
) -> None:
    with pytest.raises(ParseError, match=re.escape(message)):
        parse_fio(changed(METADATA["stat"], pattern, replacement))


def line_at(text: str, place: int) -> int:
    return 1 + text[:place].count("\n")


SECOND = GROUPS.index('"jobname" : "backend"')


test_damaged_output_is_refused = refuses(
    parse_fio,
    ("", "the output ends before a line"),
    ("fio: failed parsing directory=/none\n", "no JSON object"),
    (changed(METADATA["delete"], '"82432"', '"²82432"'), "bin '²82432' holds 1"),
    (changed(MIXED, r'"runtime" : \d+', '"runtime" : ' + "9" * 400), "number of 400 characters"),
    (changed(WRITE, '(?<="50.000000" : )', '"1", "x" : '), "percentile '50.000000' is '1'"),
    (changed(MIXED, r'"mean" : [\d.]+', '"mean" : 1e999'), "inf is not a positive number"),
    (NO_SPACE, "job full ended with error 28 (line 14"),
    (MIXED[:-3], "cut off or damaged"),
    (MIXED[:4000], f"(line {line_at(MIXED, 4000)}: '{MIXED[:4000].splitlines()[-1].strip()}"),
    # The second job's line, not the first one's.
    (
        GROUPS[:SECOND] + changed(GROUPS[SECOND:], '"error" : 0', '"error" : 5'),
        f"job backend ended with error 5 (line {line_at(GROUPS, SECOND) + 2}",
    ),
    (MIXED + MIXED, "text after the JSON object"),
    (MIXED.rstrip("\n") + " {}\n", "text after the JSON object"),
    ('{"fio version": ' + "[" * 100_000, "nested too deeply"),
    (MIXED.replace("fio-3.33", "fio-2.21"), "are not all there"),
    (MIXED.replace("fio-3.33", "fio-1.99"), "not a fio-2 or fio-3 (line 2"),
    (changed(MIXED, r'("total_ios" : )(\d+)', r"\g<1>10\2"), "is not total_ios"),
    (changed(MIXED, '"jobs" : ', '"jubs" : '), "no jobs"),
    ('{\n  "fio version" : "fio-3.33",\n  "jobs" : []\n}\n', "no jobs in the output (line 3"),
    (changed(MIXED, '"error" : 0,', ""), "does not say whether it failed"),
    (changed(MIXED, r'"bw_bytes" : \d', '"bw_bytes" : '), "bw_bytes"),
    (changed(MIXED, r'"io_bytes" : \d+', '"io_bytes" : -4096'), "not a positive number (line"),
    (changed(MIXED, r'"io_bytes" : \d+', '"io_bytes" : NaN'), "io_bytes nan is not a whole number"),
    (changed(MIXED, r'"io_bytes" : (\d+)', r'"io_bytes" : "\1"'), "not a whole number (line"),
    (changed(MIXED, r'"runtime" : (\d)\d+', r'"runtime" : \g<1>'), "not io_bytes"),
    (changed(MIXED, r'"runtime" : \d+,', '"runtime" : 0,'), "in a runtime of 0 ms"),
    (changed(MIXED, r'"total_ios" : \d+', '"total_ios" : 1'), "is not total_ios 1 in"),
    (changed(MIXED, r'"total_ios" : \d+', '"total_ios" : 0'), "0 I/Os moved"),
    (changed(MIXED, r'"bs" : "4k"', '"bs" : "8k"'), "of 8192 bytes are not"),
    (changed(MIXED, r'"99.000000" : \d+', '"99.000000" : 1'), "the percentiles do not rise"),
    (changed(MIXED, r'"50.000000" : \d+', '"50.000000" : 128512'), "the bins' percentile 50"),
    (changed(WRITE, r'"99.990000" : \d+', '"99.990000" : 81850000'), "between min and max"),
    (changed(MIXED, r'"50.000000" : \d+,', ""), "lat_ns has the percentiles [99.0], not"),
    (changed(WRITE, r'"percentile" : ', '"centile" : '), "clat_ns has the percentiles [], not"),
    (changed(MIXED, r'"percentile" : ', '"centile" : '), "lat_ns has the percentiles [], not"),
    (changed(MIXED, r'"bins" : \{\s+"\d+" : \d+', '"bins" : { "11" : 77'), "the bins hold"),
    (changed(MIXED, r'"lat_ns"', '"lat_us"'), "are not all there"),
    (changed(MIXED, r'"N" : \d+', '"N" : 1.5'), "not a whole number"),
    (changed(MIXED, r'"N" : \d+', '"N" : 0'), "of 0 I/Os (line"),
    (changed(MIXED, r'"min" : \d+', '"min" : 999999999999'), "not between min"),
    (changed(MIXED, r'("short_ios" : 0,)', r"\1 \1"), "'short_ios' stands twice"),
    (changed(MIXED, '"write" : ', '"wrote" : '), "has not read and write"),
    (changed(MIXED, '"random"', '""'), "no jobname"),
)


def test_with_a_ramp_time_ios_in_flight_count_in_the_bytes_alone() -> None:
    ramp = WRITE.replace('"rw" :', '"ramp_time" : "2", "iodepth" : "4", "rw" :')
    total = int(figure(WRITE, "total_ios", nth=1))
    iops = (total - 4) * 1000 / figure(WRITE, "runtime", nth=1)
    fewer = re.sub(rf'"total_ios" : {total}\b', f'"total_ios" : {total - 4}', ramp)
    fewer = fewer.replace(f'"iops" : {figure(WRITE, "iops", nth=1):f}', f'"iops" : {iops:f}')
    assert (
        values(fewer)["write_bandwidth", "single", None]
        == (values(WRITE)["write_bandwidth", "single", None])
    )
    with pytest.raises(ParseError, match="I/Os of"):
        parse_fio(fewer.replace('"iodepth" : "4"', '"iodepth" : "3"'))
    # As many in each of two jobs.
    two = fewer.replace('"iodepth" : "4"', '"numjobs" : "2", "iodepth" : "2"')
    assert values(two) == values(fewer)


def test_line_ends_and_letters_beyond_ascii_change_nothing() -> None:
    assert values(MIXED.replace("\n", "\r\n")) == values(MIXED)
    assert values(MIXED.replace('"libaio"', '"libaïo"')) == values(MIXED)


def test_only_fio_is_recognised() -> None:
    assert [SIGNATURE.recognises(text) for text in (MIXED, MIXED[:500], NO_SPACE)] == [True] * 3
    assert not SIGNATURE.recognises('{"tool": "trueup-stream"}')


test_a_damaged_output_gives_its_own_figures_or_an_error = stands(
    values, [MIXED, WRITE, GROUPS, *METADATA.values()], "cut", "lost", examples=50
)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_two_swapped_lines_give_the_right_numbers_or_an_error(data: st.DataObject) -> None:
    """On json+, whose histogram repeats mean and percentiles."""
    assert same_or_refused(values, damaged(MIXED, data, "swapped"), values(MIXED)) is True


# Lines of one read block, up to its histogram: what the metrics are read from.
START = MIXED.index('"read" : {')
END = MIXED.index('"bins"')


@settings(max_examples=60, deadline=None)
@given(at=st.integers(START, END), byte=st.characters(min_codepoint=32, max_codepoint=126))
def test_a_changed_byte_gives_the_right_numbers_or_an_error(at: int, byte: str) -> None:
    """Detectable: whatever stands twice. Not detectable: the last digits of the mean latency, below
    1 ns plus 1e-6 of it (slat + clat = lat within that), and of iops, below 1.5e-6 (fio rounds it
    to six decimals). Not covered, because they stand once: percentiles of plain json within their
    neighbours, and the mean latency of synchronous engines in plain json. The module asks fio for
    json+, where both are repeated by the histogram."""
    right = values(MIXED)
    try:
        got = values(MIXED[:at] + byte + MIXED[at + 1 :])
    except ParseError:
        return
    assert got == pytest.approx(right, rel=1e-5)


# Two groups as fio 3 and one as fio 2 print them, with figures of our own.
WORDS = """seq: (g=0): rw=read, bs=(R) 128KiB-128KiB, (W) 128KiB-128KiB, ioengine=libaio, iodepth=8
fio-3.33
Starting 1 process

seq: (groupid=0, jobs=1): err= 0: pid=11: Sun Mar  1 10:00:00 2026
  read: IOPS=8000, BW=1000MiB/s (1049MB/s)(9.77GiB/10001msec)
    slat (nsec): min=330, max=30897, avg=963.39, stdev=833.24
    clat (usec): min=65, max=1203, avg=121.36, stdev=18.97
     lat (usec): min=67, max=1203, avg=122.33, stdev=19.01
    clat percentiles (usec):
     |  1.00th=[   86],  5.00th=[  108], 50.00th=[  115],
     | 99.00th=[  277], 99.50th=[  289]
     issued rwts: total=80008,0,0,0 short=0,0,0,0 dropped=0,0,0,0
log: (groupid=1, jobs=1): err= 0: pid=12: Sun Mar  1 10:00:00 2026
  write: IOPS=2.5k, BW=10.0MiB/s (10.5MB/s)(100MiB/10000msec); 0 zone resets
     lat (msec): min=1, max=12, avg= 3.20, stdev=1.01
     issued rwts: total=0,25000,0,0 short=0,0,0,0 dropped=0,0,0,0

Run status group 0 (all jobs):
   READ: bw=1000MiB/s (1049MB/s), 1000MiB/s-1000MiB/s (1049MB/s-1049MB/s), io=9.77GiB (10.5GB)
"""
OLD_WORDS = """old: (groupid=0, jobs=1): err= 0: pid=13: Sun Mar  1 10:00:00 2015
  write: io=1024.0MB, bw=104858KB/s, iops=25600, runt= 10000msec
    clat (usec): min=10, max=900, avg=30.10, stdev= 3.00
     lat (usec): min=10, max=901, avg=31.25, stdev= 3.00
    issued    : total=r=0/w=256000/d=0, short=r=0/w=0/d=0
"""


def word_figures(text: str) -> dict[tuple[str, str | None, str | None], float]:
    rows = parse_fio(text).metrics()
    return {(row.name, row.device, row.statistic): row.value for row in rows}


def test_fio_2_calls_2_to_the_20_bytes_a_mb() -> None:
    got = word_figures(OLD_WORDS)
    assert (got["write_bandwidth", None, "single"], got["write_iops", None, "single"]) == (
        104858 * 1024,
        25600,
    )


def test_a_carry_that_fio_lost_is_found_by_the_other_figures() -> None:
    """fio prints 9.996 as 9.00: sizes, rates and I/Os a second."""
    lost = WORDS.replace("BW=10.0MiB/s (10.5MB/s)(100MiB/", "BW=9.00MiB/s (10.5MB/s)(100MiB/")
    for text in (lost.replace("IOPS=2.5k", "IOPS=2.50k"), lost.replace("(100MiB/", "(99.0MiB/")):
        assert word_figures(text)["write_bandwidth", "log", "single"] == 10 * 2**20
    thousands = WORDS.replace("IOPS=2.5k", "IOPS=2.0k").replace("0,25000,", "0,29970,")
    assert word_figures(thousands)["write_iops", "log", "single"] == 3000


test_words_that_contradict_themselves_are_refused = refuses(
    parse_fio,
    (WORDS.replace("err= 0: pid=12", "err= 5: pid=12"), "job log ended with error 5"),
    (WORDS.replace("IOPS=8000", "IOPS=8100"), "8100 I/Os a second are not 80008 in 10.001 s"),
    (WORDS.replace("BW=1000MiB", "BW=1010MiB"), "byte/s are not"),
    (WORDS.replace("BW=10.0MiB", "BW=8.00MiB"), "byte/s are not"),
    (WORDS.replace("IOPS=2.5k", "IOPS=2.0k"), "2000 I/Os a second are not 25000 in 10 s"),
    (WORDS.replace("IOPS=8000,", "IOPS 8000,"), "neither read nor wrote"),
    (WORDS.replace("10001msec", "10001"), "this form of the rates is not known"),
    (OLD_WORDS.replace("runt= 10000", "runt= 20000"), "byte/s are not"),
)
