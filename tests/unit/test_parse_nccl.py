"""nccl-tests' outputs: all layouts that it has printed, what must be read from them, or refused.

``printed`` lays a run out as nccl-tests' source does (src/common.cu, src/util.cu), from a made-up
time for each size. The files in tests/data/nccl hold such runs with NCCL's log around them.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import damage
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from recorded_runs import short
from trueup_node.benchmarks.nccl.case import explain
from trueup_node.benchmarks.nccl.output import OPERATIONS, parse_nccl
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


def test_shares_of_single_bytes_are_rounded_to_16() -> None:
    text = printed("all_gather", dtype="int8", least=248, most=496)
    assert [row.size for row in parse_nccl(text).rows] == [8 * 16, 8 * 48]


def test_a_time_below_a_microsecond_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "microseconds", lambda _size, _cycle, _side: 0.87)
    assert figures(printed(most=8))["time", 8, None] == pytest.approx(0.87e-6)


def test_sizes_by_single_bytes() -> None:
    text = printed(least=1000, most=1003, step=1, by="bytes", dtype="int8")
    assert [row.size for row in parse_nccl(text).rows] == [1000, 1001, 1002, 1003]


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


def without(text: str, *patterns: str) -> str:
    for pattern in patterns:
        text = damage.changed(text, pattern, "", count=0)
    return text


def test_wrong_values_fail_without_the_verdict_below_the_table() -> None:
    text = without(recorded("wrong_values.txt"), r"^# Out of bounds values.*\n")
    output = parse_nccl(text)
    assert output.unverified
    assert output.checks == {"values_correct": False}
    assert explain(text) == explain(recorded("wrong_values.txt"))


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


# As a page of eunomia-bpf/nccl-eBPF on protocols of broadcast has it: an edited paste.
NO_VALIDATION = """# nccl-tests version 2.18.0 nccl-headers=22907 nccl-library=22907
# nThread 1 nGpus 1 minBytes 2097152 maxBytes 4194304 step: 2(factor) warmup iters: 2 iters: 5
#
#  Rank  0 Group  0 Pid      1 on node-1 device  0 [0000:02:00] NVIDIA GeForce RTX 5090
#  Rank  1 Group  0 Pid      2 on node-1 device  0 [0000:02:00] NVIDIA GeForce RTX 5090
#
#       size      count    type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
#        (B)  (elements)                            (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)
     2097152     524288   float    none       0  3142.95    0.67    0.67       0  6317.94    0.33    0.33       0
     4194304    1048576   float    none       0  8190.50    0.51    0.51       0  9355.32    0.45    0.45       0
# Avg bus bandwidth    : 0.490000
"""  # noqa: E501 WHY: lines of the tool


def test_settings_without_validation_are_unverified() -> None:
    output = parse_nccl(NO_VALIDATION)
    rows = [row for row in output.metrics() if row.name == "busbw"]
    assert [(row.message_bytes, row.value) for row in rows] == [
        (1 << 21, 0.67e9),
        (1 << 22, 0.51e9),
    ]
    assert [line.partition(":")[0] for line in output.unverified] == [
        "no 'validation",
        "no line '# out-of-place in-place' above the names of the columns",
        "no '# Out of bounds values' below the table",
    ]
    assert ("not check the results" in str(output.warnings), output.checks) == (False, {})


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
    (
        changed(r"# Out of bounds.*", "# Out of bounds values"),
        "form of '# Out of bounds values' is not",
    ),
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


def from_json(edit: Any) -> str:
    data = json.loads(recorded("report.json"))
    edit(data)
    return json.dumps(data)


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


def verified(text: str) -> dict[tuple[str, int | None, str | None], float]:
    if parse_nccl(text).unverified:
        raise ParseError("unverified")
    return figures(text)


test_a_damaged_output_gives_its_own_figures_or_an_error = damage.stands(
    verified, TEXTS, "cut", "lost", "doubled", "swapped"
)


@settings(max_examples=60, deadline=None)
@given(text=st.sampled_from(TEXTS), data=st.data())
def test_a_changed_byte_gives_the_right_bandwidths_or_an_error(
    text: str, data: st.DataObject
) -> None:
    """Sizes, counts of wrong values and bandwidths have redundancy: size = count x type and the
    header's sequence; algbw = size / time; busbw = algbw x factor; the average. So they are the
    right ones, but for one unit of a bandwidth's last printed digit, which lies within the rounding
    of the time. Where the line with the verdict is gone, the output is unverified and the counts of
    wrong values are no figures.

    A time has redundancy only as far as algbw has digits (a small message's algbw is 0.00), i_min,
    i_max and i_p99 only their order, and old tables' error none: times are left out here.
    """
    right = figures(text)
    place = data.draw(st.integers(0, len(text) - 1))
    byte = data.draw(st.characters(min_codepoint=32, max_codepoint=126))
    changed_text = text[:place] + byte + text[place + 1 :]
    try:
        got = figures(changed_text)
    except ParseError:
        return
    right, got = (
        {key: value for key, value in found.items() if "time" not in key[0]}
        for found in (right, got)
    )
    lacking = set(right) - set(got)
    assert set(got) <= set(right)
    assert not lacking or parse_nccl(changed_text).unverified
    assert {name for name, _, _ in lacking} <= {"wrong", "wrong_in_place"}
    for key, value in got.items():
        assert value == pytest.approx(right[key], rel=0, abs=0.0101e9 if "bw" in key[0] else 0)
