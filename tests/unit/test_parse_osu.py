"""Tables of MPI micro-benchmarks: figures as printed, and contradictions refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from trueup_analysis.parsers.osu.output import OsuOutput, parse_osu

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
