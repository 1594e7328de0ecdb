"""perftest outputs: what must be read from them, and what must be refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from damage import changed, damaged, refuses, same_or_refused
from hypothesis import given, settings
from hypothesis import strategies as st
from trueup_node.benchmarks.ib.output import SIZES, IbOutput, explain, parse_ib
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


def beside(text: str) -> dict[tuple[str, str | None], float]:
    """The others, of one size."""
    return {
        (row.name, row.statistic): row.value
        for row in parse_ib(text).metrics()
        if BESIDE.fullmatch(row.name) or row.statistic == "p99.9"
    }


def verified_values(text: str) -> Rows:
    """The same, of an output without a part that checks need.

    Raises:
        ParseError: one has it.
    """
    if lacks := parse_ib(text).lacks:
        raise ParseError(lacks[0])
    return values(text)


@pytest.mark.parametrize("name", ["client", "server", "loopback"])
def test_one_write_bandwidth_counts_once(name: str) -> None:
    device = "mlx5_ib3" if name == "loopback" else "mlx5_ib0"
    expected = [("ib_write_bandwidth", 197.31e9, 1048576, device, "single")]
    assert values(TEXTS[f"write_bw_{name}"]) == expected


def test_what_the_output_says_of_the_case() -> None:
    output = parse_ib(BOTH)
    assert output.parameters == {
        "gdr": "no",
        "link": "IB",
        "connection": "RC",
        "mtu": "4096",
        "queue_pairs": "1",
    }
    assert (output.ends, output.tool_version, output.checks) == (("client", "server"), None, {})
    (warning,) = output.warnings
    assert warning.startswith("perftest: Conflicting CPU frequency values detected: 2445.4")


def test_a_warning_may_stand_inside_the_table() -> None:
    caution = "Conflicting CPU frequency values detected: 2.0 != 3.0. CPU Frequency is not max.\n"
    output = parse_ib(changed(CLIENT, r"(?m)^ 1048576", rf"{caution} 1048576"))
    assert output.warnings == [f"perftest: {caution.strip()}"]
    assert len(output.rows) == 1


def test_a_row_is_in_bits_and_seconds() -> None:
    row = parse_ib(CLIENT).rows[0]
    assert row.figures == {
        "BW peak": pytest.approx(197.39e9),
        "BW average": pytest.approx(197.31e9),
        "MsgRate[Mpps]": pytest.approx(23521),
    }
    # The peak is not judged within the rounding of both.
    assert values(changed(CLIENT, " 197.39 ", " 197.30 ")) == values(CLIENT)


def test_all_sizes() -> None:
    output = parse_ib(TEXTS["write_bw_all"])
    assert tuple(row.message_bytes for row in output.rows) == SIZES
    # Below 0.1 Gb/s there are six places, above two.
    assert output.rows[0].words[3] == "0.064288"
    assert values(TEXTS["write_bw_all"])[-1][1:3] == (391.7e9, 8388608)


def test_gpu_memory_at_both_ends() -> None:
    output = parse_ib(TEXTS["write_bw_gpu"])
    assert (output.gpus, output.parameters["gdr"]) == ((2, 2), "yes")
    server = TEXTS["write_bw_gpu"].partition("[server]")[2]
    host = re.sub(r"(?m)^ 1048576.*", re.findall(r"(?m)^ 8388608.*", server)[0], BOTH)
    assert (
        parse_ib(host.partition("[server]")[0] + "[server]" + server).parameters["gdr"] == "server"
    )


def test_mb_and_mib_are_both_two_to_the_twentieth_bytes() -> None:
    (old,), (new,) = values(TEXTS["read_bw_mb"]), values(TEXTS["read_bw_mib"])
    assert old == new
    assert old[0] == "ib_read_bandwidth"
    assert old[1] == 1442.43 * 2**20 * 8


def test_a_duration_has_no_peak() -> None:
    output = parse_ib(TEXTS["write_bw_duration"])
    assert output.rows[0].figures["BW peak"] == 0
    assert values(TEXTS["write_bw_duration"])[0][1] == 157.8e9
    assert output.warnings == ["perftest: WARNING: BW peak won't be measured in this run."]


@pytest.mark.parametrize("name", ["write_bw_one_pipe", "write_bw_mixed"])
def test_both_ends_in_one_stream_count_once(name: str) -> None:
    assert values(TEXTS[name]) == [("ib_write_bandwidth", 0.0452e9, 4096, "rxe0", "single")]


def test_two_ends_of_which_one_comes_in_two_pieces() -> None:
    """As in superbench's test data: no tabs, and the server's banner is cut by the client's."""
    client, server = (
        re.sub(r"\t+ ?", "            ", text.replace("QPs\t", "QPs ")).replace("\n ", "\n")
        for text in (CLIENT, SERVER)
    )
    _, mine, mine_to, table, _ = client.split(DASHES)
    waits, its, its_to, last, _ = server.split(DASHES)
    at = its.index("ibv_wr*")
    title = "                    RDMA_Write BW Test\n"
    begun, cut = title + its[its.index("Dual") : at], its[at:]
    whole = title + mine[mine.index("Dual") :]
    header, row = table.strip().splitlines()
    pieces = [waits, begun, whole, cut, mine_to + its_to, "", f"{header}\n{header}\n{row}\n"]
    text = DASHES.join([*pieces, last.strip().splitlines()[1] + "\n"]) + DASHES
    assert values(text) == values(CLIENT)


def test_a_stream_that_begins_with_dashes_and_lacks_its_last_is_unverified() -> None:
    text = TEXTS["write_bw_one_pipe"]
    assert text.startswith(DASHES)
    assert parse_ib(text.rstrip("\n-")).lacks == (
        "no closing line of dashes below the last row: it may be cut off",
    )


def by_blocks(order: str, client: str, server: str) -> str:
    """Both ends in one stream: c and s are the next block of each, between lines of dashes."""
    ends = {"c": iter(client.split(DASHES)[1:-1]), "s": iter(server.split(DASHES)[1:-1])}
    return "waits\n" + DASHES + DASHES.join(next(ends[end]) for end in order) + DASHES + DASHES


@pytest.mark.parametrize("order", ["scscsc", "sccssc", "csscsc", "cssccs", "scccss"])
@pytest.mark.parametrize("name", ["client", "all"])
def test_both_ends_in_one_stream_by_blocks(name: str, order: str) -> None:
    if name == "all":
        client, _, server = TEXTS["write_bw_all"].replace("[client]\n", "").partition("[server]\n")
    else:
        # The ends may be on other devices.
        client, server = CLIENT, SERVER.replace("mlx5_ib0", "mlx5_ib7")
    text = by_blocks(order, client, server)
    assert values(text) == values(client)
    assert parse_ib(text).ends == ("client", "server")
    last = r"(?m)^( 1048576 +)5000" if name == "client" else r"(?m)^( 8388608 +)5000"
    with pytest.raises(ParseError, match="contradict each other"):
        parse_ib(changed(text, last, r"\g<1>5001"))


@pytest.mark.parametrize("name", ["send_lat_loopback", "send_lat_two_ends"])
def test_of_a_latency_the_clients_figures_count(name: str) -> None:
    expected = {"median": 1.78, "mean": 1.79, "min": 1.71, "max": 6.93, "p99": 1.95}
    got = {statistic: value for _, value, _, _, statistic in values(TEXTS[name])}
    assert got == pytest.approx({word: usec * 1e-6 for word, usec in expected.items()})
    assert {row[:1] + row[2:4] for row in values(TEXTS[name])} == {
        ("ib_send_latency", 8, "mlx5_ib0")
    }


def test_latencies_of_all_sizes_and_of_a_duration() -> None:
    assert len(values(TEXTS["send_lat_all"])) == len(SIZES) * 5
    ((name, value, size, _, statistic),) = values(TEXTS["send_lat_duration"])
    assert (name, size, statistic) == ("ib_send_latency", 8, "mean")
    assert value == pytest.approx(1.79e-6)
    # What is printed as 1.79 us may be 1.794, and is not 1.796.
    duration = TEXTS["send_lat_duration"]
    assert values(changed(duration, "279329.61", f"{1e6 / 2 / 1.794:.2f}")) == values(duration)
    with pytest.raises(ParseError, match="rate times latency is not 1"):
        parse_ib(changed(duration, "279329.61", f"{1e6 / 2 / 1.796:.2f}"))
    # A slow link's rate is the coarser of the two.
    slow = changed(
        changed(duration, " 1.79 ", " 4007.65 "), "279329.61", f"{1e6 / 2 / 4007.65:.2f}"
    )
    assert values(slow)[0][1] == pytest.approx(4007.65e-6)


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


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        # print_report_lat: of 1000 iterations 997 count, and ceil(0.999 * 997) is the last.
        (r"6\.93$", "4.12", "of 1000 iterations t_max is the 99.9 % percentile"),
        (" 1000 ", " 64   ", "of 64 iterations t_max is the 99 % percentile"),
        (r"1\.79( +\t)", r"1.92\1", "a mean of 1.92 is not possible"),
        (r"1\.79( +\t)", r"1.73\1", "a mean of 1.73 is not possible"),
        (r"0\.00( +\t)", r"1.71\1", "a deviation of 1.71 is not possible"),
    ],
)
def test_figures_that_perftest_cannot_print_together(old: str, new: str, why: str) -> None:
    client = TEXTS["send_lat_two_ends"]
    line = client.splitlines()[42]
    with pytest.raises(ParseError, match=re.escape(why)):
        parse_ib(client.replace(line, re.sub(old, new, line.rstrip())))


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
A_LATENCY = re.findall(r"(?m)^ 8 +1000 .*$", LATENCY)[0]
# What this is in MB, which are MiB.
IN_MB = A_ROW.replace("197.39", "23531.00").replace("197.31", "23521.00")


# The line of the third banner where three clients follow each other.
THIRD = 2 * CLIENT.count("\n") + 2


def test_both_ways_are_another_figure_than_one_way() -> None:
    both = changed(CLIENT, "Write BW", "Write Bidirectional BW")
    [(name, *rest)] = values(both)
    assert (name, rest) == ("ib_write_bidirectional_bandwidth", list(values(CLIENT)[0][1:]))


@pytest.mark.parametrize(
    ("pattern", "replacement", "lacking", "device"),
    [
        (r"\t\tDevice .*", "", ("the banner lacks Device",), "unknown"),
        (r"(?m)^ Mtu.*\n", "", ("the banner lacks Mtu",), "mlx5_ib0"),
        (r"(Device +: ).*", r"\1<NIC-1>", (), "unknown"),
    ],
)
def test_a_banner_that_is_not_whole_leaves_the_figures_unverified(
    pattern: str, replacement: str, lacking: tuple[str, ...], device: str
) -> None:
    output = parse_ib(changed(CLIENT, pattern, replacement))
    assert (output.lacks, output.device) == (lacking, device)
    assert [row[:3] for row in values(CLIENT)] == [
        (row.name, row.value, row.message_bytes)
        for row in output.metrics()
        if not BESIDE.fullmatch(row.name)
    ]


def test_a_table_without_banner_is_of_the_program_that_the_text_names() -> None:
    table = CLIENT[CLIENT.rindex("-" * 20, 0, CLIENT.index(" #bytes")) :]
    started = f"Starting RDMA client 'ib_write_bw' for mlx5_ib0 (Port 18515)...\n{table}"
    assert (values(started), len(parse_ib(started).lacks)) == (values(CLIENT), 1)
    for text in (table, started.replace("write_bw", "write_lat")):
        assert parse_ib(text).lacks == (
            "no banner above the table, and the text does not name its program",
        )
        [(name, *rest)] = values(text)
        assert (name, rest[:2]) == ("ib_unknown_bandwidth", list(values(CLIENT)[0][1:3]))


def test_gpu_memory_in_a_part_of_an_output_is_named() -> None:
    table = CLIENT[CLIENT.rindex("-" * 20, 0, CLIENT.index(" #bytes")) :]
    output = parse_ib(f"{table}deallocating GPU buffer 00007fdfc7e00000\n")
    assert output.unverified[-1] == "GPU memory, and no line that tells of which GPU"
    assert output.parameters["gdr"] == "unknown"


def test_lines_and_columns_that_are_not_known_are_kept_by_name() -> None:
    warned = f"libibverbs: Warning: couldn't stat '/sys/class/infiniband/mlx5_4'.\n{CLIENT}"
    output = parse_ib(warned)
    assert (output.lacks, output.warnings[0][:30]) == ((), "perftest: libibverbs: Warning:")
    wide = changed(changed(CLIENT, r"(MsgRate.*)", r"\1   Jitter[usec]"), f"({A_ROW})", r"\1  0.5")
    assert (values(wide), parse_ib(wide).not_judged) == (
        values(CLIENT),
        {"Jitter[usec]": "a column"},
    )


def test_peak_message_rate_and_deviation_are_figures_too() -> None:
    assert beside(CLIENT) == pytest.approx(
        {
            ("ib_write_bandwidth_peak", "single"): 197.39e9,
            ("ib_write_message_rate", "single"): 23521,
        }
    )
    # Over a duration the peak is not measured.
    assert {name for name, _ in beside(TEXTS["write_bw_duration"])} == {"ib_write_message_rate"}
    cells = A_LATENCY.split()
    assert beside(LATENCY) == pytest.approx(
        {
            ("ib_send_latency", "p99.9"): float(cells[8]) * 1e-6,
            ("ib_send_latency_deviation", "single"): float(cells[6]) * 1e-6,
        }
    )


def test_a_deviation_that_fills_its_column_is_a_cell() -> None:
    cells = [*A_LATENCY.split()[:6], "1000.00", "1216.65", "37330.73"]
    cells[2:6] = ["453.06", "37330.73", "692.41", "928.05"]
    wide = " ".join(cells).replace("1000.00 1216.65", "1000.001216.65")
    text = LATENCY.replace(A_LATENCY, wide)
    assert beside(text)["ib_send_latency_deviation", "single"] == pytest.approx(1e-3)
    assert [row[1] for row in values(text) if row[4] == "p99"] == pytest.approx([1216.65e-6])


@pytest.mark.parametrize(
    ("text", "lacking"),
    [
        (CLIENT[: -len(DASHES)], "no closing line of dashes below the last row"),
        (changed(TEXTS["write_bw_all"], r"(?m)^ 4096 .*\n", ""), "the sizes are not all of 2, 4"),
        (changed(CLIENT, "(?m)^.*RDMA_Write BW Test\n", ""), "no banner above the table"),
    ],
)
def test_a_part_of_an_output_is_unverified(text: str, lacking: str) -> None:
    [sentence] = parse_ib(text).unverified
    assert sentence.startswith(lacking)


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


def test_of_mixed_latencies_the_clients_cannot_be_told() -> None:
    client, _, server = LATENCY.replace("[client]\n", "").partition("[server]\n")
    pairs = zip(client.splitlines(), server.splitlines()[4:])
    mixed = "\n".join(line for pair in pairs for line in pair) + "\n" + DASHES
    with pytest.raises(ParseError, match="which are the client's cannot be told"):
        parse_ib(mixed)


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


@pytest.mark.parametrize(
    ("name", "metric", "value"),
    [
        # perftest's MB is 2^20 bytes.
        ("rxe_ib_write_bw_client.txt", "ib_write_bandwidth", 33.49 * 2**20 * 8),
        ("rxe_ib_write_bw_gbits_client.txt", "ib_write_bandwidth", 0.16e9),
        ("rxe_ib_read_bw_client.txt", "ib_read_bandwidth", 21.30 * 2**20 * 8),
        ("rxe_ib_send_lat_client.txt", "ib_send_latency", 4007.65e-6),
    ],
)
def test_real_output_over_soft_roce(name: str, metric: str, value: float) -> None:
    parsed = parse_ib((DATA / name).read_text())
    rows = [row for row in parsed.metrics() if row.name == metric]
    assert {row.message_bytes for row in rows} == {65536}
    assert rows[0].value == pytest.approx(value, rel=1e-9)
