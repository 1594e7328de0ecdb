"""perftest outputs: what must be read from them, and what must be refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from damage import changed, damaged, refuses, same_or_refused
from hypothesis import given, settings
from hypothesis import strategies as st
from trueup_node.benchmarks.ib.output import IbOutput, explain, parse_ib
from trueup_node.benchmarks.ib.signatures import SIGNATURE
from trueup_node.errors import ParseError

DATA = Path(__file__).parent.parent / "data" / "ib"
TEXTS = {path.stem: path.read_text() for path in DATA.glob("*.txt") if path.stem != "no_device"}
CLIENT, SERVER, BOTH = (TEXTS[f"write_bw_{name}"] for name in ("client", "server", "loopback"))
LATENCY = TEXTS["send_lat_loopback"]
MIXED = TEXTS["write_bw_mixed"]
DASHES = "-" * 87 + "\n"

Rows = list[tuple[str, float, "int | None", "str | None", "str | None"]]


# Figures that nothing in the output is compared with, or that follow from others.
BESIDE = re.compile(r".*_(?:peak|message_rate|deviation)")


def values(text: str) -> Rows:
    return [
        (row.name, row.value, row.message_bytes, row.device, row.statistic)
        for row in parse_ib(text).metrics()
        if not BESIDE.fullmatch(row.name) and row.statistic != "p99.9"
    ]


def verified_values(text: str) -> Rows:
    """The same, of an output without a part that checks need.

    Raises:
        ParseError: one has it.
    """
    if lacks := parse_ib(text).lacks:
        raise ParseError(lacks[0])
    return values(text)


def test_mb_and_mib_are_both_two_to_the_twentieth_bytes() -> None:
    (old,), (new,) = values(TEXTS["read_bw_mb"]), values(TEXTS["read_bw_mib"])
    assert old == new
    assert old[0] == "ib_read_bandwidth"
    assert old[1] == 1442.43 * 2**20 * 8


@pytest.mark.parametrize(
    ("status", "meaning"), [(12, "no acknowledgement from the other"), (13, "the other end had no")]
)
def test_a_failed_completion_is_told_in_words(status: int, meaning: str) -> None:
    text = f" Completion with error at client\n Failed status {status}: wr_id 0 syndrom 0x81\n"
    assert f"({meaning}" in str(explain(text))


TABLE_ROW = re.compile(r"(?m)^ *\d+ +\d+(?:[ \t]+\d[.\d]*){2,}[ \t]*$")


def read_or_refused(text: str) -> IbOutput | None:
    try:
        return parse_ib(text)
    except ParseError:
        return None


def swapped(text: str, one: int, other: int) -> str:
    """The text with two columns of its tables swapped under their headers."""

    def row(match: re.Match[str]) -> str:
        cells = re.split(r"(\S+)", match[0])
        at, and_at = 2 * one + 1, 2 * other + 1
        cells[at], cells[and_at] = cells[and_at], cells[at]
        return "".join(cells)

    return TABLE_ROW.sub(row, text)


# Columns of a bandwidth, of a latency and of one over a duration, by their places.
BANDWIDTHS = [(one, other) for one in range(5) for other in range(one + 1, 5)]
LATENCIES = [(one, other) for one in range(9) for other in range(one + 1, 9)]
# What no figure tells: median and mean; and what is equal of 1000 iterations.
TOLD, EQUAL = {(4, 5)}, {(3, 8)}


@pytest.mark.parametrize("name", ["client", "server", "all", "duration", "gpu"])
def test_swapped_columns_of_a_bandwidth_are_refused(name: str) -> None:
    text = TEXTS[f"write_bw_{name}"]
    for pair in BANDWIDTHS:
        if swapped(text, *pair) != text:
            assert same_or_refused(values, swapped(text, *pair), values(text)), pair


@pytest.mark.parametrize("name", ["loopback", "all"])
def test_swapped_columns_of_a_latency_are_refused_or_named(name: str) -> None:
    text = TEXTS[f"send_lat_{name}"]
    outputs = {pair: read_or_refused(swapped(text, *pair)) for pair in LATENCIES}
    read = {pair: output for pair, output in outputs.items() if output is not None}
    assert set(read) == TOLD | EQUAL
    assert read[3, 8].metrics() == parse_ib(text).metrics()
    cautions = [one for one in read[4, 5].warnings if "t_avg and t_typical may be swapped" in one]
    assert len(cautions) == len(read[4, 5].rows)
    assert [one for one in parse_ib(text).warnings if "swapped" in one] == []


@pytest.mark.parametrize("pair", [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)])
def test_swapped_columns_of_a_duration_are_refused(pair: tuple[int, int]) -> None:
    with pytest.raises(ParseError):
        parse_ib(swapped(TEXTS["send_lat_duration"], *pair))


def test_sizes_and_iterations_that_may_be_swapped_are_unverified() -> None:
    likely = TEXTS["send_lat_two_ends"].replace("\n 8       1000 ", "\n 4096    1000 ")
    output = parse_ib(swapped(likely, 0, 1))
    assert (parse_ib(likely).unverified, output.rows[0].message_bytes) == ([], 1000)
    [why] = output.unverified
    assert why.startswith("line 43: 1000 bytes and 4096 iterations may be swapped")


def test_only_perftest_is_recognised() -> None:
    assert [name for name, text in TEXTS.items() if not SIGNATURE.recognises(text)] == []
    # Damaged, it is still perftest's: the refusal is to name the line.
    assert SIGNATURE.recognises(changed(CLIENT, "RDMA_Write BW Test", "RDMA_Write BX Test"))
    assert SIGNATURE.recognises(changed(CLIENT, "#bytes", "#bites"))
    for other in (
        "# OSU MPI Bandwidth Test v7.0\n# Size      Bandwidth (MB/s)\n",
        "#bytes #repetitions      t[usec]   Mbytes/sec\n",
        "#       size         count      type   redop    root     time   algbw   busbw #wrong\n",
    ):
        assert not SIGNATURE.recognises(other)


ROW = r"(?m)^ 1048576 .*$"
A_ROW = re.findall(ROW, CLIENT)[0]
# What this is in MB, which are MiB.
IN_MB = A_ROW.replace("197.39", "23531.00").replace("197.31", "23521.00")


# The line of the third banner where three clients follow each other.
THIRD = 2 * CLIENT.count("\n") + 2


test_damaged_output_is_refused = refuses(
    parse_ib,
    ("", "no banner such as"),
    ("garbage\n" * 30, "no banner such as"),
    ((DATA / "no_device.txt").read_text(), "something failed (line 1: 'Did not detect"),
    (CLIENT[: CLIENT.index(" #bytes")], "ends before the table of RDMA_Write BW Test"),
    (CLIENT[: CLIENT.index(A_ROW)], "the table has no rows"),
    (CLIENT[: CLIENT.index(A_ROW) + 30], "this form of a row is not known (line 20"),
    (CLIENT.replace(A_ROW + "\n", ""), "the table has no rows (line 20"),
    (CLIENT + A_ROW, "a row outside its table (line 22"),
    (CLIENT + DASHES + A_ROW, "a row outside its table"),
    (changed(CLIENT, "RDMA_Write BW", "Atomic BW"), "only Write, Read, Send"),
    (changed(CLIENT, "RDMA_Write BW", "RDMA_Write Latency"), "the table is not that of"),
    (
        changed(CLIENT, "average.Gb/sec.", "average[GB/sec]"),
        "this form of the table's columns is not known",
    ),
    (changed(CLIENT, "Gb/sec", "GB/sec", 2), "the unit GB/sec is not known (line 19"),
    (
        changed(CLIENT, r"MsgRate\[", "MsgRete["),
        "this form of the table's columns is not known (line 19",
    ),
    (changed(CLIENT, r"#bytes ", "#bytes    #sl "), "5 figures under 6 columns"),
    (changed(CLIENT, "(?m)^( Mtu.*\n)", r"\1\1"), "Mtu stands twice (line 11"),
    (changed(CLIENT, " 197.31 ", " 197.39 "), "message rate times size"),
    # Off by 0.009 Gb/s at most: a half of the average's last place and of the rate's.
    (changed(CLIENT, " 197.31 ", " 197.32 "), "message rate times size"),
    (changed(CLIENT, " 197.31 ", " 19731.00 "), "19731 is no bandwidth"),
    (changed(CLIENT, " 1048576 ", " 1148576 "), "message rate times size"),
    (changed(CLIENT, "0.023521", "0.123521"), "message rate times size"),
    (changed(CLIENT, "0.023521", "0.02352"), "'0.02352' is not a number with 6 places"),
    (changed(CLIENT, "0.023521", "nan"), "'nan' is not a number"),
    (changed(CLIENT, " 197.31 ", " -197.31 "), "'-197.31' is not a number"),
    (changed(CLIENT, " 197.31 ", " inf "), "'inf' is not a number"),
    (changed(CLIENT, " 197.39 ", " 187.39 "), "the peak is below the average"),
    (changed(CLIENT, " 5000 ", " 3 "), "'3' is no count of 5 or more"),
    (changed(CLIENT, "0.023521", "0.023521 7.0"), "6 figures under 5 columns"),
    (CLIENT + "Couldn't post send \n", "something failed (line 22"),
    (CLIENT + " Failed to exchange data between server and clients\n", "something failed"),
    (CLIENT + CLIENT, "2 of 2 ends are the client, not 1"),
    (SERVER + SERVER, "0 of 2 ends are the client, not 1"),
    (CLIENT * 3, f"one more banner: this is more than one test (line {THIRD}"),
    (CLIENT + BOTH, "a third table: this is more than one test"),
    (CLIENT.replace(A_ROW, f"{A_ROW}\n{A_ROW}"), "a size stands twice"),
    (BOTH + BOTH, "the part [client] stands twice"),
    (BOTH.replace("[client]", "[server]", 1), "the part [server] stands twice"),
    (LATENCY.partition("[server]")[2], "the server's end alone: of a latency the client's"),
    (f"[server]\n{CLIENT}", "the server's part is that of a client"),
    (changed(BOTH, "0.023521", "0.023522"), "contradict each other"),
    (changed(BOTH, r"Mtu             : 4096", "Mtu             : 2048"), "Mtu is not the same"),
    (changed(BOTH, "Gb/sec", "MB/sec", 2), "message rate times size"),
    (
        changed(BOTH.replace(A_ROW, IN_MB, 1), "Gb/sec", "MB/sec", 2),
        "the ends print different columns or units",
    ),
    (changed(BOTH, "RDMA_Write BW", "RDMA_Read BW"), "the ends ran different tests"),
    (changed(TEXTS["write_bw_gpu"], "Picking device No. 2", "Picking"), "of which GPU"),
    (changed(LATENCY, " 1.71 ", " 2.71 "), "out of order"),
    (changed(LATENCY, " 1.79 ", " 9.79 "), "out of order"),
    (changed(LATENCY, " 1.71 ", " 0.00 "), "no latencies above 0"),
    (changed(LATENCY, " 8       1000", " 8       1001"), "contradict each other"),
    (changed(TEXTS["send_lat_duration"], "1.79", "1.97"), "rate times latency is not 1"),
    (changed(MIXED, r"(?m)^ 4096 .*\n", ""), "1 rows of two ends, not 2"),
    (changed(MIXED, "0.001379", "0.001378"), "message rate times size"),
    (changed(MIXED, DASHES, ""), "lack a line of dashes"),
    (changed(MIXED, "peak.Gb/sec", "peak[MB/sec"), "this form of the table's columns is not known"),
    (changed(MIXED, " Mtu             : 1024", " Mtu             : 2048"), "Mtu stands twice"),
)


@settings(max_examples=60, deadline=None)
@given(name=st.sampled_from(sorted(TEXTS)), data=st.data())
def test_lost_and_swapped_lines_give_the_right_numbers_or_an_error(
    name: str, data: st.DataObject
) -> None:
    text = TEXTS[name]
    broken = damaged(text, data, "cut", "lost", "swapped")
    assert same_or_refused(verified_values, broken, values(text)) is True


def protected(text: str) -> list[int]:
    """Places whose change must be seen.

    Left out, because the output holds them once: the device's name; all figures of a latency (each
    end measures for itself; only their order is checked); and of one end's bandwidth the size from
    its fourth digit on and the average's last digit, since rate times size is the average within
    the rounding only. Where both ends print the row, all of it is compared.
    """
    left_out = [r"Device         : (\S+)"]
    if "t_avg" in text:
        left_out.append(r"(?m)^( [0-9]+ +[0-9]+ .*)$")
    elif text.count("#bytes") == 1:
        left_out += [r"(?m)^ [0-9]{3}([0-9]+) ", r"(?m)^ [0-9]+ +[0-9]+ +[0-9.]+ +[0-9.]+([0-9])\s"]
    spans = [match.span(1) for pattern in left_out for match in re.finditer(pattern, text)]
    return [place for place in range(len(text)) if not any(a <= place < b for a, b in spans)]


@settings(max_examples=60, deadline=None)
@given(
    name=st.sampled_from(sorted(set(TEXTS) - {"write_bw_all"})),
    byte=st.sampled_from("0123456789.- x\t\n[]#:-RWSTc"),
    data=st.data(),
)
def test_a_changed_byte_gives_the_right_numbers_or_an_error(
    name: str, byte: str, data: st.DataObject
) -> None:
    """Any byte but those that ``protected`` names. Without write_bw_all: 22 of its 23 rows stand in
    the client's table alone, with the rounding of one end."""
    text = TEXTS[name]
    place = data.draw(st.sampled_from(protected(text)))
    assert (
        same_or_refused(verified_values, text[:place] + byte + text[place + 1 :], values(text))
        is True
    )
