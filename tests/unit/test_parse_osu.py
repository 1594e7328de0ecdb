"""Tables of MPI micro-benchmarks: figures as printed, and contradictions refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from trueup_analysis.parsers.osu.output import OsuOutput, parse_osu
from trueup_analysis.read import read_runs
from trueup_node.errors import ParseError

DATA = Path(__file__).parents[1] / "data" / "osu"


def text_of(name: str) -> str:
    return (DATA / f"synthetic_{name}.txt").read_text()


def figure(output: OsuOutput, name: str, size: int | None, statistic: str | None) -> float:
    (value,) = (
        row.value
        for row in output.metrics()
        if (row.name, row.message_bytes, row.statistic) == (name, size, statistic)
    )
    return value


@pytest.mark.parametrize(
    ("name", "version", "test", "settings", "rows", "last"),
    [
        (
            *("osu_latency", "7.5", "Latency", {"datatype": "MPI_CHAR"}, 23),
            ("mpi_latency", 4194304, "mean", 366.82e-6),
        ),
        (
            *("osu_allreduce_cuda", "7.0", "Allreduce Latency", {"accelerator": "cuda"}, 17),
            ("mpi_latency", 262144, "max", 207.13e-6),
        ),
        (
            *("osu_mbw_mr", "5.6.3", "Multiple Bandwidth / Message Rate"),
            {"pairs": "8", "window_size": "64"},
            *(23, ("mpi_message_rate", 1, None, 28e6)),
        ),
        (
            *("osu_bw_validated", "7.5", "Bandwidth"),
            {"accelerator": "cuda", "datatype": "MPI_CHAR"},
            *(23, ("mpi_bandwidth", 4194304, None, 24070.45e6)),
        ),
        ("osu_barrier", "5.8", "Barrier Latency", {}, 1, ("mpi_latency", None, "mean", 12.57e-6)),
        ("imb_pingpong", "2021.7", "PingPong", {}, 24, ("mpi_latency", 0, "mean", 1.5e-6)),
        (
            *("osu_iallgather", "5.7.1", "Non-blocking Allgather Latency", {}, 2),
            ("mpi_overlap", 4, None, 0.6),
        ),
        (
            *("osu_ibarrier", "5.7.1", "Non-blocking Barrier Latency", {}, 1),
            ("mpi_latency", None, "mean", 64e-6),
        ),
        (
            *("osu_get_cuda", "5.9", "MPI_Get-CUDA latency"),
            {
                "accelerator": "cuda",
                "window_creation": "MPI_Win_allocate",
                "synchronization": "MPI_Win_flush",
            },
            *(3, ("mpi_latency", 4, "mean", 5.12e-6)),
        ),
        (
            *("imb_multi", "2019 Update 6", "Multi-PingPong", {"groups": "3"}, 2),
            ("mpi_bandwidth", 2048, None, 29.26e6),
        ),
        ("imb_alltoall", "2021.7", "Alltoall", {}, 24, ("mpi_latency", 0, "max", 16.5e-6)),
    ],
)
def test_a_table_is_read_as_it_is_printed(
    name: str,
    version: str,
    test: str,
    settings: dict[str, str],
    rows: int,
    last: tuple[str, int | None, str | None, float],
) -> None:
    output = parse_osu(text_of(name))
    suite = name.partition("_")[0]
    assert (output.tool_version, output.parameters, len(output.rows)) == (
        *(version, {"suite": suite, "test": test, **settings}),
        rows,
    )
    metric, size, statistic, value = last
    assert figure(output, metric, size, statistic) == pytest.approx(value, rel=1e-4)


def test_megabytes_of_old_and_new_versions_are_told_by_the_time() -> None:
    new, old = (parse_osu(text_of(f"imb_{name}")) for name in ("pingpong", "sendrecv_old"))
    # 4 MiB in 366.82 us; and two messages of it in 733.64 us.
    assert figure(new, "mpi_bandwidth", 4194304, None) == pytest.approx(11434e6, rel=1e-3)
    assert figure(old, "mpi_bandwidth", 4194304, None) == pytest.approx(11434e6, rel=1e-3)
    assert (new.ranks, parse_osu(text_of("imb_alltoall")).ranks) == (2, 36)
    empty = [row for row in new.metrics() if (row.name, row.message_bytes) == ("mpi_bandwidth", 0)]
    assert empty == []


def test_a_failed_validation_is_a_failed_check() -> None:
    text = text_of("osu_bw_validated")
    assert parse_osu(text).checks == {"data_validates": True}
    assert parse_osu(text.replace("Pass\n4194304", "Fail\n4194304")).checks == {
        "data_validates": False
    }


def test_unknown_columns_and_lines_are_named() -> None:
    text = text_of("osu_latency").replace("Avg Latency(us)", "Avg Latency(us)  Phase")
    rows = "\n".join(f"{line}  x" if line[:1].isdigit() else line for line in text.splitlines())
    output = parse_osu(f"{rows}\nslurmstepd: task 1 exited\n")
    assert output.not_judged == {"phase": "a column", "lines that are no rows": "1"}
    assert len(output.rows) == 23


@pytest.mark.parametrize(
    ("name", "before", "after", "message"),
    [
        ("osu_latency", "# OSU MPI Latency Test", "# A Latency Test", "no banner"),
        ("osu_latency", "# Size", "# Bytes", "no column of message sizes that is known"),
        ("osu_latency", "Avg Latency(us)", "Energy (J)", "no header with a latency"),
        ("osu_latency", "\n2  ", "\n1  ", "the message sizes do not rise"),
        ("osu_allreduce_cuda", "11.64", "99.64", "the least latency is above the mean"),
        ("osu_mbw_mr", "24000.00", "14000.00", "MB/s is not the message size"),
        ("imb_pingpong", "11434.", "21434.", "Mbytes/sec is not #bytes over the time"),
        ("osu_latency", "   366.82", "366.82", "ends elsewhere than the others"),
        ("osu_latency", "366.82", "366.8", "not a possible figure of two decimals"),
        ("osu_bw_validated", "Pass\n2 ", "Perhaps\n2 ", "neither Pass nor Fail"),
    ],
)
def test_a_contradiction_is_refused(name: str, before: str, after: str, message: str) -> None:
    text = text_of(name)
    assert before in text
    with pytest.raises(ParseError, match=message):
        parse_osu(text.replace(before, after, 1))


def test_a_row_that_is_missing_leaves_the_figures_unverified() -> None:
    lines = text_of("osu_latency").splitlines()
    lines.pop(9)
    assert parse_osu("\n".join(lines)).unverified == (
        "rows are missing between messages of 32 and 128 bytes",
    )


def test_a_second_table_is_another_run() -> None:
    text = text_of("imb_pingpong") + text_of("imb_alltoall") + text_of("osu_barrier")
    with pytest.raises(ParseError, match="a second test"):
        parse_osu(text)
    readings, reasons = read_runs(text, source="mpi.log")
    assert [reading.parameters["test"] for reading in readings] == [
        *("PingPong", "Alltoall", "Barrier Latency"),
    ]
    assert reasons == []


def test_ranks_of_groups_count_together() -> None:
    assert parse_osu(text_of("imb_multi")).ranks == 6


def test_least_and_greatest_communication_of_a_non_blocking_test_are_not_judged() -> None:
    output = parse_osu(text_of("osu_iallgather"))
    assert [name for name in output.not_judged if "comm" in name] == [
        "mincomm.(us)",
        "maxcomm.(us)",
    ]
    assert {row.statistic for row in output.metrics()} == {"mean", None}


@pytest.mark.parametrize(
    ("printed", "other"), [("60.00\n8", "61.00\n8"), (" 80.00", " 85.00"), (" 0.00\n", "40.00\n")]
)
def test_an_overlap_that_its_times_contradict_is_refused(printed: str, other: str) -> None:
    text = text_of("osu_iallgather")
    assert text.count(printed) == 1
    with pytest.raises(ParseError, match="the overlap is not what the times of its row give"):
        parse_osu(text.replace(printed, other))
