"""nccl-tests' outputs: all layouts that it has printed, what must be read from them, or refused.

``printed`` lays a run out as nccl-tests' source does (src/common.cu, src/util.cu), from a made-up
time for each size. The files in tests/data/nccl hold such runs with NCCL's log around them.
"""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import damage
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from recorded_runs import short
from trueup_analysis.read import read
from trueup_node.benchmarks.nccl.output import OPERATIONS, NcclOutput, parse_nccl
from trueup_node.benchmarks.nccl.signatures import SIGNATURE
from trueup_node.errors import ParseError

DATA = Path(__file__).parent.parent / "data" / "nccl"
BYTES = {"float": 4, "half": 2, "double": 8, "int8": 1}
SHARED = {"all_gather", "reduce_scatter", "alltoall", "gather", "scatter", "hypercube"}
REDUCES = {"all_reduce", "reduce_scatter", "reduce", "sendrecv"}
ROOTED = {"broadcast", "reduce", "gather", "scatter"}
WIDTHS = {"size": 10, "count": 12, "type": 8, **dict.fromkeys(("redop", "root", "#wrong"), 6)}
WIDTHS.update(algbw=6, busbw=6, error=5)


def factor(operation: str, ranks: int) -> float:
    if operation == "hypercube":
        return 1.0
    if operation == "all_reduce":
        return 2 * (ranks - 1) / ranks
    return (ranks - 1) / ranks if operation in SHARED else 1.0


def by_size(value: float, width: int) -> str:
    """As to 2.17.2: two decimals, a time (7 wide) one from 100 us and none from 10 ms."""
    decimals = 2 if width == 6 or value < 100 else 1 if value < 10_000 else 0
    return f"{value:{width}.{decimals}f}"


def microseconds(size: int, cycle: int = 0, side: int = 0) -> float:
    return (21.37 + size / 3.1e5) * (1 + 0.01 * cycle + 0.003 * side)


def printed(  # noqa: C901 WHY: one branch for each option of the tool
    operation: str = "all_reduce",
    *,
    ranks: int = 8,
    hosts: tuple[str, ...] = ("gpu-1",),
    least: int = 8,
    most: int = 8192,
    step: int = 2,
    by: str = "factor",
    dtype: str = "float",
    cycles: int = 1,
    era: str = "2026",
    cputime: bool = False,
    timestamps: bool = False,
    per_iteration: bool = False,
    validation: int = 1,
    wrong_at: int | None = None,
    verdict: str = "",
    reduced: int | None = None,
    named: bool = True,
    empty_redop: bool = False,
) -> str:
    new = era == "2026"
    figure = short if new else by_size
    out = []
    if new and named:
        out += [
            "# nccl-tests version 2.19.6 nccl-headers=23004 nccl-library=23004",
            f"# Collective test starting: {operation}_perf",
        ]
    extra = f" agg iters: 1 validation: {validation} graph: 0"
    if new:
        extra += " unalign: 0"
    if era in {"2019", "2021"}:
        extra = f" validation: {validation} "
    rest = f"warmup iters: 1 iters: 20{extra}"
    out += [
        f"# nThread 1 nGpus 1 minBytes {least} maxBytes {most} step: {step}({by}) {rest}",
        "#",
        "# Using devices",
    ]
    each = ranks // len(hosts)
    for rank in range(ranks):
        group = "" if era in {"2019", "2021"} else "Group  0 "
        where = f"[{rank + 1:04x}:00:00]" if new else f"[0x{rank + 1:02x}]"
        out.append(
            f"#  Rank {rank:2d} {group}Pid {4000 + rank:6d} on {hosts[rank // each]:>10s} device "
            f"{rank % each:2d} {where} NVIDIA A100-SXM4-40GB"
        )
    if reduced is not None:
        out += ["#", f"# Reducing maxBytes to {reduced} due to memory limitation"]
        most = reduced
    lead = ["size", "count", "type", "redop", "root"]
    if era in {"2019", "2021"}:
        if operation not in REDUCES | {"alltoall"}:
            lead.remove("redop")
        if operation not in ROOTED:
            lead.remove("root")
    body = ["cputime" if cputime else "time", "algbw", "busbw"]
    body.append("error" if era in {"2019", "2021"} else "#wrong")
    units = {"size": "(B)", "count": "(elements)", "algbw": "(GB/s)", "busbw": "(GB/s)"}
    units.update(dict.fromkeys(("time", "cputime", "i_min", "i_max", "i_p99"), "(us)"))
    units["i_cv%"] = "(%)"
    if per_iteration:
        body += ["i_min", "i_max", "i_p99", "i_cv%"]
    names = lead + body + body
    tail = ("  timestamp", "  %Y-%m-%d %H:%M:%S") if timestamps else ("", "")
    note = " (+ per-iteration)" if per_iteration else ""
    out += [
        "#",
        f"# {'':40s} out-of-place{note}                       in-place{note}          ",
        "# " + "  ".join(f"{name:>{WIDTHS.get(name, 7)}s}" for name in names) + tail[0],
        "# "
        + "  ".join(f"{units.get(name, ''):>{WIDTHS.get(name, 7)}s}" for name in names)
        + tail[1],
    ]
    busbws = []
    width = BYTES[dtype]
    for cycle in range(cycles):
        size = least
        while size <= most:
            count = size // width
            if operation in SHARED:
                count //= ranks
                if era not in {"2019", "2021"}:
                    count &= ~(16 // width - 1)
            total = count * width * (ranks if operation in SHARED else 1)
            redop = "sum" if operation in REDUCES else "none"
            if empty_redop and redop == "none":
                redop = ""
            root = 0 if operation in ROOTED else -1
            cells = {"redop": f"{redop:>6s}", "root": f"{root:6d}"}
            row = f"{total:12d}  {count:12d}  {dtype:>8s}"
            row += "".join("  " + cells[name] for name in lead[3:])
            for side in (0, 1):
                time = microseconds(size, cycle, side)
                algbw = total / (time * 1e3)
                if operation == "hypercube":
                    algbw *= (ranks - 1) / ranks
                busbw = algbw * factor(operation, ranks)
                if era == "2019" and operation in {"all_gather", "reduce_scatter"}:
                    algbw = busbw
                busbws.append(busbw)
                checks = validation and not (operation in {"alltoall", "sendrecv"} and side)
                bad = wrong_at == size and cycle == 0
                if era in {"2019", "2021"}:
                    wrong = "4e-07" if checks else "N/A"
                else:
                    wrong = ("31" if bad else "0") if checks else "N/A"
                shown = time / 2 if cputime else time
                row += f"  {figure(shown, 7)}  {figure(algbw, 6)}  {figure(busbw, 6)}  {wrong:>6s}"
                if per_iteration:
                    for share in (0.9, 1.4, 1.3):
                        row += "  " + short(time * share, 7)
                    row += "  " + short(5.25, 7)
            if timestamps:
                row += "  2026-11-21 10:11:12"
            out.append(row)
            size = size * step if by == "factor" else size + step
    count = 0 if wrong_at is None else 2 * ranks
    out += [
        f"# Out of bounds values : {count} {'FAILED' if count else 'OK'}",
        f"# Avg bus bandwidth    : {sum(busbws) / len(busbws):g} {verdict}",
        "#",
    ]
    if new and named:
        out += [f"# Collective test concluded: {operation}_perf", "#"]
    return "\n".join([*out, "", ""])


def recorded(name: str) -> str:
    return (DATA / name).read_text()


def figures(text: str) -> dict[tuple[str, int | None, str | None], float]:
    rows = parse_nccl(text).metrics()
    found = {(row.name, row.message_bytes, row.statistic): row.value for row in rows}
    assert len(found) == len(rows)
    return found


@pytest.mark.parametrize("era", ["2019", "2021", "2023", "2026"])
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("ranks", [4, 8])
def test_every_operation_of_every_era(era: str, operation: str, ranks: int) -> None:
    text = printed(operation, era=era, ranks=ranks, least=1024, most=1 << 30)
    output = parse_nccl(text)
    assert output.operation == operation
    assert (output.ranks, output.hosts, output.cycles) == (ranks, ("gpu-1",), 1)
    assert output.checks == {"values_correct": True}
    assert [row.size for row in output.rows] == [1 << power for power in range(10, 31)]
    got = figures(text)
    size = 1 << 30
    time = microseconds(size) * 1e-6
    assert got["time", size, None] == pytest.approx(time, rel=1e-3)
    assert got["busbw", size, None] == pytest.approx(
        size / time * factor(operation, ranks), rel=1e-3
    )
    old_gather = era == "2019" and operation in {"all_gather", "reduce_scatter"}
    assert (("algbw", size, None) in got) is not old_gather
    old_column = [text for text in output.warnings if "busbw in the column algbw" in text]
    assert (old_column != []) is old_gather
    assert (("wrong", size, None) in got) is (era in {"2023", "2026"})
    assert ("busbw_in_place", size, None) in got


def test_values_are_in_base_units() -> None:
    text = printed(least=1 << 20, most=1 << 20)
    row = parse_nccl(text).rows[0]
    assert row.out_of_place is not None
    got = {
        (m.name, m.message_bytes): (m.value, m.unit, m.direction)
        for m in parse_nccl(text).metrics()
    }
    assert got["busbw", 1 << 20] == (row.out_of_place.busbw.value * 1e9, "byte/s", "higher")
    assert got["algbw", 1 << 20][1:] == ("byte/s", "higher")
    assert got["time", 1 << 20] == (row.out_of_place.time.value * 1e-6, "s", "lower")
    assert got["wrong", 1 << 20] == (0.0, "1", "lower")
    assert got["wrong_in_place", 1 << 20] == (0.0, "1", "lower")


def test_small_sizes_that_cannot_be_divided_are_left_out_by_name() -> None:
    output = parse_nccl(printed("all_gather"))
    assert [row.size for row in output.rows] == [128, 256, 512, 1024, 2048, 4096, 8192]
    assert "4 rows of 0 bytes are left out: too small to divide" in output.warnings


@pytest.mark.parametrize("dtype", BYTES)
def test_data_types(dtype: str) -> None:
    assert len(parse_nccl(printed("reduce_scatter", dtype=dtype, least=4096)).rows) == 2


def test_shares_of_single_bytes_are_rounded_to_16() -> None:
    text = printed("all_gather", dtype="int8", least=248, most=496)
    assert [row.size for row in parse_nccl(text).rows] == [8 * 16, 8 * 48]


def test_cycles_are_summarised() -> None:
    text = printed(cycles=3, least=1 << 20, most=1 << 22)
    output = parse_nccl(text)
    assert output.cycles == 3
    got = figures(text)
    times = sorted(
        row.out_of_place.time.value * 1e-6
        for row in output.rows
        if row.size == 1 << 20 and row.out_of_place
    )
    assert [got["time", 1 << 20, name] for name in ("min", "median", "max")] == times
    assert {row.n for row in output.metrics()} == {3}


def test_iterations_cpu_time_and_timestamps() -> None:
    text = printed(per_iteration=True, timestamps=True, least=1 << 20, most=1 << 21)
    got = figures(text)
    time = got["time", 1 << 20, None]
    assert got["iteration_time", 1 << 20, "min"] == pytest.approx(time * 0.9, rel=1e-3)
    assert got["iteration_time", 1 << 20, "max"] == pytest.approx(time * 1.4, rel=1e-3)
    assert got["iteration_time_in_place", 1 << 20, "p99"] == pytest.approx(time * 1.3039, rel=1e-3)
    text = printed(cputime=True, timestamps=True, least=1 << 20, most=1 << 21)
    names = {name for name, _size, _statistic in figures(text)}
    assert {"cpu_time", "busbw"} <= names
    assert "time" not in names
    assert "the times are the CPU's (-C); bandwidths are of the GPUs' time" in (
        parse_nccl(text).warnings
    )


@pytest.mark.parametrize("era", ["2019", "2021", "2023"])
def test_times_before_2_17_3_have_fewer_decimals(era: str) -> None:
    text = printed(era=era, least=1 << 20, most=1 << 32)
    rows = {row.size: row for row in parse_nccl(text).rows}
    times = [rows[size].out_of_place for size in (1 << 20, 1 << 26, 1 << 32)]
    assert [body and (body.time.value, body.time.half) for body in times] == [
        (24.75, pytest.approx(0.005)),
        (237.9, pytest.approx(0.05)),
        (13876.0, pytest.approx(0.5)),
    ]
    mixed = text.replace("  237.9 ", " 237.85 ")
    assert mixed != text
    with pytest.raises(ParseError, match=r"'\d+' has lost decimals|mixes those"):
        parse_nccl(mixed)


def test_times_since_2_17_3_have_as_many_decimals_as_fit() -> None:
    text = printed(least=1 << 20, most=1 << 35)
    rows = {row.size: row.out_of_place for row in parse_nccl(text).rows}
    halves = [body.time.half for size in (30, 32, 35) if (body := rows[1 << size])]
    assert halves == pytest.approx([0.005, 0.05, 0.5])
    for whole, less in (("3485.05", "3485.1"), ("13876.1", "13876")):
        with pytest.raises(ParseError, match=rf"'{re.escape(less)}' has lost decimals"):
            parse_nccl(damage.changed(text, rf" {re.escape(whole)} ", f" {less} "))


def test_a_graph_and_the_cpus_time_of_a_build_before_2_17_3() -> None:
    text = printed(era="2023", cputime=True, least=1 << 20, most=1 << 30, validation=0)
    output = parse_nccl(text.replace("graph: 0", "graph: 20"))
    assert (output.cpu_time, len(output.rows), output.iterations) == (True, 11, 20)


def test_an_empty_redop_is_read_as_none() -> None:
    for operation in ("all_gather", "alltoall", "broadcast"):
        text = printed(operation, era="2023", least=1024, empty_redop=True)
        assert parse_nccl(text).operation == operation


def test_two_unnamed_ranks_may_be_either_of_two_operations() -> None:
    output = parse_nccl(printed("sendrecv", ranks=2, named=False, validation=0))
    assert output.operation == "unknown"
    assert "the output does not say which operation it is: all_reduce or sendrecv" in (
        output.warnings
    )


def test_one_rank_is_read_with_a_warning() -> None:
    output = parse_nccl(printed(ranks=1))
    assert "one rank: nothing is sent, and busbw is 0 or means nothing" in output.warnings
    assert {m.value for m in output.metrics() if m.name == "busbw"} == {0.0}


def test_what_nccl_tests_found_wrong_is_a_failed_check() -> None:
    output = parse_nccl(printed(wrong_at=1024))
    assert output.checks == {"values_correct": False}
    assert [row.size for row in output.wrong_rows] == [1024]
    assert output.out_of_bounds == 16
    assert figures(printed(wrong_at=1024))["wrong", 1024, None] == 31.0


def test_the_tools_verdict_on_the_average_is_a_check() -> None:
    assert parse_nccl(printed(verdict="FAILED")).checks["average_bus_bandwidth"] is False
    assert parse_nccl(printed(verdict="OK")).checks["average_bus_bandwidth"] is True
    assert "average_bus_bandwidth" not in parse_nccl(printed()).checks


def test_results_that_were_not_checked_have_no_check() -> None:
    output = parse_nccl(printed(validation=0))
    assert output.checks == {}
    assert "nccl-tests did not check the results (validation: 0)" in output.warnings
    assert "wrong" not in {name for name, _size, _statistic in figures(printed(validation=0))}


def test_sizes_that_memory_cut_short() -> None:
    output = parse_nccl(printed(most=1 << 20, reduced=5000))
    assert output.rows[-1].size == 4096


def test_a_time_below_a_microsecond_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "microseconds", lambda _size, _cycle, _side: 0.87)
    assert figures(printed(most=8))["time", 8, None] == pytest.approx(0.87e-6)


@pytest.mark.parametrize("era", ["2023", "2026"])
@pytest.mark.parametrize(("least", "most"), [(1 << 10, 1 << 13), (1 << 26, 1 << 31)])
def test_the_average_may_differ_by_the_rounding_of_the_rows_and_its_own(
    era: str, least: int, most: int
) -> None:
    """Each row is off by 0.005 at most, the average by a half of the sixth digit that it has."""
    text = printed(era=era, least=least, most=most)
    own = sum(
        body.busbw.value
        for row in parse_nccl(text).rows
        for body in (row.out_of_place, row.in_place)
        if body
    ) / (2 * len(parse_nccl(text).rows))
    unit = 10.0 ** (math.floor(math.log10(own)) - 5)
    slack = 0.005005 + 0.5005 * unit
    highest, lowest = math.floor((own + slack) / unit), math.ceil((own - slack) / unit)

    def saying(average: float) -> str:
        return damage.changed(text, r"(bandwidth +: )\S+", rf"\g<1>{average * unit:.6g}")

    assert figures(saying(highest)) == figures(saying(lowest)) == figures(text)
    for average in (highest + 1, lowest - 1):
        with pytest.raises(ParseError, match="the average is"):
            parse_nccl(saying(average))


def test_sizes_by_single_bytes() -> None:
    text = printed(least=1000, most=1003, step=1, by="bytes", dtype="int8")
    assert [row.size for row in parse_nccl(text).rows] == [1000, 1001, 1002, 1003]


def test_sizes_by_a_fixed_step() -> None:
    output = parse_nccl(printed(least=1024, most=4096, step=1024, by="bytes"))
    assert [row.size for row in output.rows] == [1024, 2048, 3072, 4096]


def test_nccls_log_inside_the_table_and_inside_a_row() -> None:
    text = printed()
    lines = text.splitlines()
    row = next(n for n, line in enumerate(lines) if line.startswith("        1024"))
    log = "gpu-1:4000:4100 [0] NCCL INFO comm 0x1 rank 0 something"
    whole = [*lines[:row], log, "", "gpu-1:1:2 [0] a.cc:12 NCCL WARN slow", *lines[row:]]
    assert figures("\n".join(whole)) == figures(text)
    for cut in range(1, len(lines[row]), 7):
        pieces = [*lines[:row], lines[row][:cut] + log, log, lines[row][cut:], *lines[row + 1 :]]
        assert figures("\n".join(pieces)) == figures(text), cut
    assert "NCCL: slow" in parse_nccl("\n".join(whole)).warnings


def test_standard_error_is_not_part_of_the_table() -> None:
    text = printed() + "\n[standard error]\n# Out of bounds values : 1 FAILED\nnoise\n"
    assert figures(text) == figures(printed())


PARAMETERS = {
    "nvlink.txt": {
        "operation": "all_reduce",
        "transport": "nvlink",
        "within_node": "nvlink",
        "between_nodes": "none",
        "gpudirect": "unknown",
        "sharp": "no",
        "network": "IBext_v11",
        "topology_file": "/opt/microsoft/ndv4/topo.xml",
    },
    "infiniband.txt": {
        "transport": "ib",
        "within_node": "nvlink",
        "between_nodes": "ib",
        "gpudirect": "yes",
        "sharp": "yes",
        "topology_file": "/opt/microsoft/ndv4/topo.xml",
    },
    "sockets.txt": {
        "transport": "socket",
        "within_node": "nvlink",
        "between_nodes": "socket",
        "gpudirect": "unknown",
        "network": "Socket",
        "topology_file": "none",
    },
    "shared_memory.txt": {"transport": "shm", "within_node": "shm"},
    "old_layout.txt": {"operation": "all_reduce", "transport": "unknown"},
    "report.json": {"operation": "all_gather", "transport": "unknown"},
    "wrong_values.txt": {"operation": "all_reduce", "transport": "nvlink"},
    "one_h200_real.txt": {"transport": "unknown", "network": "Socket", "topology_file": "none"},
    # One host by its name, two by NCCL_HOSTID.
    "sockets_h100_real.txt": {"transport": "socket", "within_node": "socket", "sharp": "no"},
    "sendrecv_h100_real.txt": {"operation": "sendrecv", "transport": "socket"},
}


@pytest.mark.parametrize("name", PARAMETERS)
def test_recorded_outputs(name: str) -> None:
    output = parse_nccl(recorded(name))
    wanted = PARAMETERS[name]
    assert {key: output.parameters[key] for key in wanted} == wanted
    assert output.checks == {"values_correct": name != "wrong_values.txt"}
    assert SIGNATURE.recognises(recorded(name)) is True


def test_every_recorded_output_is_tested() -> None:
    assert {path.name for path in DATA.iterdir()} == {*PARAMETERS, "SOURCES.md"}


def test_versions_and_adapters() -> None:
    output = parse_nccl(recorded("infiniband.txt"))
    assert (output.tool_version, output.nccl_version) == ("2.19.6", "2.30.4")
    assert output.log.adapters == tuple(f"mlx5_ib{n}/IB" for n in range(8))
    assert output.log.plugins == ("IBext_v11", "SHARP")
    assert (output.ranks, output.hosts) == (4, ("gpu-1", "gpu-2"))


def edited(name: str, pattern: str, replacement: str) -> NcclOutput:
    text, count = re.subn(pattern, replacement, recorded(name))
    assert count > 0
    return parse_nccl(text)


def test_one_pair_that_fell_back_decides() -> None:
    one = edited(
        "infiniband.txt", r"(Channel 00/0 : 1\[1\] -> 2.*)NET/IBext_v11.*", r"\1NET/Socket/0"
    )
    assert one.parameters["transport"] == "socket"
    shm = edited("nvlink.txt", r"(Channel 00/0 : 0\[0\] -> 1.*)P2P/CUMEM", r"\1SHM/direct/direct")
    assert shm.parameters["transport"] == "shm"


def test_the_algorithm_is_told_where_the_log_names_it() -> None:
    named = edited(
        "nvlink.txt",
        r"(?m)^(.* NCCL INFO )(Channel 00/0 : 0\[0\] -> 1.*)",
        r"\1\2\n\1AllReduce: 8388608 Bytes -> Algo RING proto SIMPLE time 98.5",
    )
    assert named.parameters["algorithm"] == "ring/simple"
    assert "algorithm" not in parse_nccl(recorded("nvlink.txt")).parameters


def test_what_the_log_does_not_show_is_unknown() -> None:
    roce = edited("infiniband.txt", r"mlx5_ib(\d):1/IB", r"mlx5_an\1:1/RoCE")
    assert roce.parameters["transport"] == "roce"
    unlisted = edited("infiniband.txt", r"NET/IB : Using.*", "something else")
    assert unlisted.parameters["transport"] == "unknown"
    pcie = edited("nvlink.txt", r"/NVL\)", "/PHB)")
    assert pcie.parameters["transport"] == "p2p"
    assert [text[:20] for text in pcie.warnings] == ["GPUs talked directly"]
    no_graph = edited("nvlink.txt", r".*NCCL INFO GPU/.*\n", "")
    assert no_graph.parameters["transport"] == "p2p"
    half = edited("infiniband.txt", r"gpu-\d:.*Channel.*-> (?:2|3)\[.*\n", "")
    assert half.parameters["within_node"] == "unknown"
    partly = edited("infiniband.txt", r"(Channel 00/0 : 1\[1\] -> 2.*)/GDRDMA", r"\1")
    assert partly.parameters["gpudirect"] == "partly"
    failed = edited(
        "nvlink.txt",
        r"Loading topology file (\S+)",
        r"Could not open XML topology file \1 : No such file or directory",
    )
    assert failed.parameters["topology_file"] == "none"
    assert failed.log.topology_failed == ("/opt/microsoft/ndv4/topo.xml",)


def without(text: str, *patterns: str) -> str:
    for pattern in patterns:
        text = damage.changed(text, pattern, "", count=0)
    return text


HEADER, RANKS = r"^# nThread.*\n", r"^# +Rank .*\n"


@pytest.mark.parametrize("era", ["2019", "2026"])
@pytest.mark.parametrize("lost", [(HEADER,), (RANKS,), (HEADER, RANKS, r"^# Using.*\n")])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_pasted_table_is_unverified(operation: str, era: str, lost: tuple[str, ...]) -> None:
    whole = printed(operation, era=era, least=1 << 16, most=1 << 30, cycles=2)
    output = parse_nccl(without(whole, *lost))
    assert figures(without(whole, *lost)) == figures(whole)
    assert [text.split(":")[0][:20] for text in output.unverified] == [
        "no list of ranks ('#",
        "no header '# nThread",
    ]
    assert (output.ranks, output.hosts, output.cycles) == (None, (), 2)
    assert operation in output.may_be
    assert parse_nccl(whole).unverified == ()


def test_a_table_with_rows_left_out_or_indented_is_unverified_or_read() -> None:
    whole = printed(least=1 << 20, most=1 << 24)
    right = figures(whole)
    row = next(line for line in whole.splitlines() if line.startswith("     4194304"))
    elided = parse_nccl(whole.replace(row, "..."))
    assert [text[:18] for text in elided.unverified] == ["a line '...' stand"]
    assert {size for _, size, _ in figures(whole.replace(row, "..."))} == {
        size for _, size, _ in right if size != 1 << 22
    }
    sides = without(whole, r"^# +out-of-place.*\n")
    assert [text[:8] for text in parse_nccl(sides).unverified] == ["no line "]
    assert figures(sides) == right
    indented = "\n".join(f"     {line}" for line in whole.splitlines())
    assert (figures(indented), parse_nccl(indented).unverified) == (right, ())


def test_settings_and_lines_that_are_not_known_are_kept_by_name() -> None:
    whole = printed(least=1 << 20, most=1 << 24)
    more = damage.changed(whole, "(validation: 1.*)", r"\1 side_work: 0 direction: H2D")
    more = damage.changed(more, "^( +4194304 .*\n)", r"\1a line of another program\n")
    output = parse_nccl(more)
    kept = {"side_work": "0", "direction": "H2D", "lines in the table": "1"}
    assert (figures(more), output.not_judged, output.unverified) == (figures(whole), kept, ())


@pytest.mark.parametrize(
    ("pattern", "replacement", "lacking"),
    [
        (r"(#  Rank  3) Group", r"\1 Grape", "no list of ranks"),
        (r"^# +(?=nThread|Out of)", "", "lines of the header or the end have lost their #"),
        (r"^#.*\(GB/s\).*\n", "", "no line of units"),
    ],
)
def test_a_header_that_is_not_whole_leaves_the_figures_unverified(
    pattern: str, replacement: str, lacking: str
) -> None:
    whole = printed(least=1 << 20, most=1 << 24)
    changed_text = damage.changed(whole, pattern, replacement, count=0)
    assert figures(changed_text) == figures(whole)
    lacks = parse_nccl(changed_text).unverified
    assert [text[: len(lacking)] for text in lacks if text.startswith(lacking)] == [lacking]


def test_rows_alone_and_rows_of_no_bytes_are_read() -> None:
    whole = printed(least=1 << 16, most=1 << 24)
    rows = without(whole, r"^#(?! Out of| Avg).*\n")
    assert figures(rows) == figures(whole)
    assert parse_nccl(rows).unverified[2:] == (
        "no names of the columns: those of nccl-tests are assumed",
    )
    pasted = without(printed("all_gather", least=1 << 16, most=1 << 24), HEADER, RANKS)
    row = re.findall(r"^ +0 .*\n|^ +65536 .*\n", pasted, re.MULTILINE)[0]
    side = "0.30    0.00    0.00       0   "
    empty = f"           0             0     float    none      -1    {side} {side}\n"
    average = re.findall(r"bandwidth +: (\S+)", pasted)[0]
    count = len(re.findall(r"^ +\d+ .*float", pasted, re.MULTILINE))
    again = pasted.replace(row, empty * 3 + row)
    again = again.replace(average, f"{float(average) * count / (count + 3):g}")
    assert (parse_nccl(again).empty_rows, figures(again)) == (3, figures(pasted))


def test_a_pasted_table_must_fit_itself_all_the_same() -> None:
    pasted = without(printed(least=1 << 20, most=1 << 24), HEADER, RANKS)
    for pattern, replacement, message in (
        (r"^( +4194304 .*?-1 +\S+ +\S+ +)\S+", r"\1 9.99", "no operation and number of ranks"),
        (r"^( +4194304 .*?-1) +\d+\.\d+", r"\1   55.55", "no operation and number of ranks"),
        (r"^( +4194304 .*\n)", r"\1\1", "the sizes do not ascend"),
        (r"^( +4194304 .*\n)( +8388608 .*\n)", r"\2\1", "the sizes do not ascend"),
        (r"^ +4194304 .*\n", "", "the average is"),
        (r"(bandwidth +: )\d", r"\g<1>9", "the average is"),
        (r"# Out of bounds.*\n", "", "'# Out of bounds values'"),
    ):
        with pytest.raises(ParseError, match=re.escape(message)):
            parse_nccl(damage.changed(pasted, pattern, replacement))
    log = without(recorded("infiniband.txt"), RANKS)
    assert parse_nccl(log).unverified != ()


def test_errors_in_place_of_sendrecv_in_2021_are_read() -> None:
    text = printed("sendrecv", era="2021", least=1 << 20, most=1 << 24)
    with_errors = text.replace("   N/A", " 3e+02")
    assert with_errors != text
    assert (parse_nccl(with_errors).operation, figures(with_errors)) == ("sendrecv", figures(text))


def test_counts_of_more_bytes_than_their_sizes_are_refused() -> None:
    """As where the columns of sizes and of wrong results were swapped; not even 0 ranks fit."""
    pasted = without(printed("all_gather", least=1 << 20, most=1 << 24), HEADER, RANKS)
    swapped = damage.changed(pasted, r"^( +)\d{5,}( +\d{5,} +float)", r"\1      0\2", count=0)
    with pytest.raises(ParseError, match="no operation and number of ranks fits"):
        parse_nccl(swapped)


NEW = printed(least=1 << 20, most=1 << 24)
OLD = printed("reduce", era="2021", least=1 << 20, most=1 << 24)


def changed(pattern: str, replacement: str, text: str = NEW) -> str:
    return damage.changed(text, pattern, replacement)


def test_of_two_threads_the_average_is_not_that_of_the_table() -> None:
    other = changed(r"(bandwidth +: )\d", r"\g<1>9")
    assert figures(other.replace("nThread 1", "nThread 2")) == figures(NEW)


ROW = r"^ +4194304 .*$"


test_damaged_output_is_refused = damage.refuses(
    parse_nccl,
    ("", "no table of nccl-tests"),
    ("garbage\n" * 30, "no table of nccl-tests"),
    (changed(r"minBytes \d+", "minBytes x"), "form of the header's settings is not known (line 3"),
    (changed(r"(# nThread.*)", r"\1\n\1"), "a second header"),
    (changed(r"#  Rank  3.*\n", ""), "rank 3 was expected (line 9"),
    (changed(r"#  Rank  7.*\n", "").replace("nGpus 1", "nGpus 2"), "7 ranks are listed"),
    (changed(r"#  Rank  7.*\n", "").replace("nThread 1", "nThread 2"), "7 ranks are listed"),
    (changed(r"#wrong", "#wrung"), "form of the table's columns is not known"),
    (changed("algbw", "algbx"), "form of the table's columns is not known"),
    (changed(r"\(GB/s\)", "(MB/s)"), "form of the line of units is not known"),
    (changed(ROW + r"\n", ""), "size 8388608 stands where 4194304 was to come"),
    (changed(ROW, "     4194304  1048576  float"), "the row has 3 columns and its header 13"),
    (changed(ROW, "mpirun: something"), "size 8388608 stands where 4194304 was to come"),
    (changed(ROW, "# a remark"), "size 8388608 stands where 4194304 was to come"),
    (changed(r"^( +4194304 +1048576) +float", r"\1  floaf"), "no data type of NCCL"),
    (changed(r"^( +4194304 +1048576)", " 4194304 1048577"), "is 4194308 bytes, not 4194304"),
    (changed(r"^( +4194304 .*float +)sum", r"\1sun"), "no reduction of NCCL"),
    (changed(r"^( +4194304 .*float +)sum", r"\1max"), "mixes data types, reductions or roots"),
    (changed(r"^( +4194304 .*?-1) +\d+\.\d+", r"\1   55.55"), "is not 4194304 bytes in 55.55"),
    (changed(r"^( +4194304 .*?-1) +\d+\.\d+", r"\1   -34.9"), "'-34.9' is not a number"),
    (changed(r"^( +4194304 .*?-1 +\d+\.\d)\d", r"\1 "), "has lost decimals"),
    (changed(r"^( +4194304 .*?-1) +\d+\.\d+", r"\1   0.00"), "a time is not positive"),
    (changed(r"^( +4194304 .*?-1) +\d+\.\d+", r"\1   nan"), "'nan' is not a number"),
    (changed(r"^( +4194304 .*?-1 +\S+ +)\S+", r"\1 9.99"), "busbw"),
    (changed(r"^( +4194304 .*?-1 +\S+ +\S+ +)\S+", r"\1 9.99"), "is not algbw"),
    (changed(r"^( +4194304 .*?-1 +\S+ +\S+ +\S+ +)0", r"\1 5"), "the end says that none has"),
    (changed(r"^( +4194304 .*?-1 +\S+ +\S+ +\S+ +)0", r"\1N/A"), "no count of wrong ones"),
    (changed(r"# Out of bounds.*\n", ""), "form of '# Out of bounds values' is not known"),
    (changed(r": 0 OK", ": 3 OK"), "the count of values out of bounds is damaged"),
    (changed(r"# Avg bus.*\n", ""), "'# Avg bus bandwidth' was expected"),
    (changed(r"(bandwidth +: )\d", r"\g<1>9"), "a row is missing or damaged"),
    (changed(r"starting: all_reduce", "starting: hypercube"), "is not one of hypercube's"),
    (re.sub(r"(?m)^ +\d+ +\d+ +float.*\n", "", NEW), "the table has no rows"),
    (NEW.replace("all_reduce_perf", "hypercubes_perf"), "is none of all_reduce_perf"),
    (NEW.replace("all_reduce_perf", "broadcast_perf"), "redop 'sum' is not one of broadcast's"),
    (NEW + NEW, "stands after its end"),
    (NEW + changed(ROW, "").splitlines()[-8] + "\n 8 2 float 1\n", "stands after its end"),
    (changed(r"step: 2\(factor", "step: 1(factor"), "leads nowhere"),
    (changed(r"maxBytes \d+", f"maxBytes {1 << 25}"), "33554432 bytes were to come next"),
    (changed(r"step: 2\(factor", "step: 8(bytes"), "asks for more than 100000 sizes"),
)


@pytest.mark.parametrize(
    ("text", "lacking"),
    [
        (NEW[: NEW.index("# Out of")], "no '# Out of bounds values' and '# Avg bus bandwidth'"),
        (changed(r"# Avg(.*\n)*", "", OLD), "no '# Out of bounds values' and '# Avg bus bandw"),
        (changed(r"# Collective test concluded.*\n", ""), "no '# Collective test concluded: all"),
    ],
)
def test_a_table_without_its_end_is_unverified(text: str, lacking: str) -> None:
    output = parse_nccl(text)
    whole = parse_nccl(OLD if "error" in text else NEW)
    assert [sentence[: len(lacking)] for sentence in output.unverified] == [lacking]
    assert output.checks == ({} if "Out of" in lacking else whole.checks)
    names = {"busbw", "algbw", "time"}
    assert [row for row in output.metrics() if row.name in names] == [
        row for row in whole.metrics() if row.name in names
    ]


def test_a_run_that_begins_within_the_table_of_another_is_refused() -> None:
    text = recorded("sockets.txt")
    cut = text[: text.index("# Out of bounds")]
    with pytest.raises(ParseError, match="another run begins within the table"):
        parse_nccl(cut + text[text.index("# nThread") :])


def from_json(edit: Any) -> str:
    data = json.loads(recorded("report.json"))
    edit(data)
    return json.dumps(data)


@pytest.mark.parametrize("indent", [None, 2], ids=["as nccl-tests writes it", "as jq prints it"])
def test_a_newer_json_is_read_and_its_version_named(indent: int | None) -> None:
    data = json.loads(from_json(lambda data: data.update(version=4, tuning={"algo": "RING"})))
    data["out_of_bounds"]["okay"] = True
    reading = read(json.dumps(data, indent=indent), source="report.json")
    known = read(recorded("report.json"), source="report.json")
    assert (reading.tool, reading.rows, reading.checks) == ("nccl", known.rows, known.checks)
    assert reading.not_judged == {"version of the JSON": "4"}


test_damaged_json_is_refused = damage.refuses(
    parse_nccl,
    (recorded("report.json")[:-40], "the JSON is cut off or damaged"),
    (from_json(lambda data: data.pop("out_of_bounds")), "the run did not end"),
    (from_json(lambda data: data.update(version="x")), "lacks or spoils"),
    (from_json(lambda data: data["results"].pop(1)), "out of order"),
    (from_json(lambda data: data["results"].reverse()), "out of order"),
    (from_json(lambda data: data["results"].clear()), "the table has no rows"),
    (from_json(lambda data: data["results"][2]["in_place"].pop("alg_bw")), "'alg_bw'"),
    (from_json(lambda data: data["results"][2]["in_place"].update(time="nan")), "'nan'"),
    (from_json(lambda data: data["results"][2]["in_place"].update(bus_bw=1.5)), "is not algbw"),
    (from_json(lambda data: data["out_of_bounds"].update(count=4)), "contradicts its count"),
    (from_json(lambda data: data["config"]["devices"].pop()), "is 896 bytes"),
    (from_json(lambda data: data["config"]["devices"].pop(0)), "has rank 1 as that of"),
    (from_json(lambda data: data.update(args=["nccl"])), "is none of all_reduce_perf"),
    (recorded("report.json").replace('"in_place"', '"out_of_place"', 1), "stands twice"),
)


def test_json_gives_the_figures_of_its_run() -> None:
    data = json.loads(recorded("report.json"))
    got = figures(recorded("report.json"))
    for entry in data["results"]:
        body = entry["out_of_place"]
        assert got["busbw", entry["size"], None] == pytest.approx(body["bus_bw"] * 1e9)
        assert got["time", entry["size"], None] == pytest.approx(body["time"] * 1e-6)
    null = from_json(lambda data: [row.update(out_of_place=None) for row in data["results"]])
    with pytest.raises(ParseError, match="the average is"):
        parse_nccl(null)


def test_json_of_the_first_versions_misspells_two_names() -> None:
    """To February 2026 (NVIDIA/nccl-tests@85ca91d)."""
    first = recorded("report.json").replace('"version":3', '"version":1')
    first = first.replace("bus_bandwidth", "bus_bandwidith").replace('"bandwidth"', '"bandwidith"')
    assert first.count("width") == 0
    assert figures(first) == figures(recorded("report.json"))


def test_json_of_all_digits_agrees_with_itself() -> None:
    def in_full(data: dict[str, Any]) -> None:
        for row in data["results"]:
            for side in ("out_of_place", "in_place"):
                time = row[side]["time"] + 1e-7 / 3
                rate = row["size"] / time / 1e3
                row[side].update(time=time, alg_bw=rate, bus_bw=rate * factor("all_gather", 8))

    assert figures(from_json(in_full)) == pytest.approx(figures(recorded("report.json")), rel=1e-4)


def test_only_nccl_tests_is_recognised() -> None:
    assert SIGNATURE.recognises(NEW[:200]) is True
    assert SIGNATURE.recognises(NEW[len(NEW) // 2 :]) is True
    assert (
        SIGNATURE.recognises("Function    Best Rate MB/s  Avg time     Min time     Max time")
        is False
    )
    assert SIGNATURE.recognises('{"tool": "trueup-stream", "format": 1}') is False
    assert (
        SIGNATURE.recognises("gpu-1:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM")
        is False
    )


TEXTS = [
    NEW,
    OLD,
    printed("all_gather", era="2019", least=1 << 16, most=1 << 18),
    printed("alltoall", cycles=2, timestamps=True, least=1 << 16, most=1 << 18),
    printed("sendrecv", per_iteration=True, least=1 << 16, most=1 << 18),
    recorded("report.json"),
]


def outcome(text: str) -> Any:
    """What a text gives, or its error."""
    try:
        return parse_nccl(text)
    except ParseError as error:
        return str(error)


test_a_damaged_output_gives_its_own_figures_or_an_error = damage.stands(
    figures, TEXTS, "cut", "lost", "doubled", "swapped"
)


@settings(max_examples=60, deadline=None)
@given(text=st.sampled_from(TEXTS), data=st.data())
def test_a_changed_byte_gives_the_right_bandwidths_or_an_error(
    text: str, data: st.DataObject
) -> None:
    """Sizes, counts of wrong values and bandwidths have redundancy: size = count x type and the
    header's sequence; algbw = size / time; busbw = algbw x factor; the average. So they are the
    right ones, but for one unit of a bandwidth's last printed digit, which lies within the rounding
    of the time.

    A time has redundancy only as far as algbw has digits (a small message's algbw is 0.00), i_min,
    i_max and i_p99 only their order, and old tables' error none: times are left out here.
    """
    right = figures(text)
    place = data.draw(st.integers(0, len(text) - 1))
    byte = data.draw(st.characters(min_codepoint=32, max_codepoint=126))
    try:
        got = figures(text[:place] + byte + text[place + 1 :])
    except ParseError:
        return
    right, got = (
        {key: value for key, value in found.items() if "time" not in key[0]}
        for found in (right, got)
    )
    assert set(got) == set(right)
    for key, value in right.items():
        assert got[key] == pytest.approx(value, rel=0, abs=0.0101e9 if "bw" in key[0] else 0)


def test_the_generator_knows_every_operation() -> None:
    assert set(OPERATIONS) < {*SHARED, *ROOTED, "all_reduce", "sendrecv"}


@pytest.mark.parametrize("operation", ["gather", "scatter", "hypercube"])
def test_operations_that_the_module_does_not_measure(operation: str) -> None:
    text = printed(operation, least=1 << 16, most=1 << 24)
    assert parse_nccl(text).operation == operation
    unnamed = without(text, r"# Collective test .*\n")
    if operation == "hypercube":
        with pytest.raises(ParseError, match="is not one of all_reduce's"):
            parse_nccl(unnamed)
    else:
        assert parse_nccl(unnamed).may_be == ("gather", "scatter")
