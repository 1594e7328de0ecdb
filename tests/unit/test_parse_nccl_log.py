"""Lines of NCCL's log, alone and between those of other tools."""

from __future__ import annotations

from pathlib import Path

import pytest
from trueup_analysis.parsers.nccl_log.output import NcclLogOutput, parse_nccl_log
from trueup_analysis.read import read
from trueup_node.errors import ParseError

DATA = Path(__file__).parents[1] / "data"
SOCKETS = (DATA / "nccl_log" / "synthetic_sockets.txt").read_text(encoding="utf-8")
INFINIBAND = (DATA / "nccl_log" / "synthetic_infiniband.txt").read_text(encoding="utf-8")
TRAINING = (DATA / "training" / "synthetic_torchtitan.txt").read_text(encoding="utf-8")
FELL_BACK = "NCCL fell back to TCP sockets between 2 nodes"


def way(text: str) -> tuple[str, str]:
    parameters = parse_nccl_log(text).parameters
    return parameters["within_node"], parameters["between_nodes"]


def test_a_log_alone_is_a_reading_without_bandwidth() -> None:
    reading = read(INFINIBAND, source="log")
    assert (reading.tool, reading.tool_version) == ("nccl_log", "2.27.5+cuda12.9")
    assert reading.resources == {"nodes": 2, "ranks": 4}
    assert reading.hosts == ["node-a", "node-b"]
    assert reading.parameters == {
        "transport": "ib",
        "within_node": "p2p",
        "between_nodes": "ib",
        "gpudirect": "yes",
        "sharp": "no",
        "network": "IB",
        "adapters": "mlx5_ib0/IB,mlx5_ib1/IB",
        "topology_file": "unknown",
    }
    assert [(row["name"], row["value"]) for row in reading.rows] == [("nccl_warnings", 1)]
    assert reading.outcome() == ("ok", None)


def test_a_fall_back_to_sockets_is_a_failed_check() -> None:
    output = parse_nccl_log(SOCKETS)
    assert output.checks == {"no_socket_fallback": False}
    assert output.reasons["no_socket_fallback"] == FELL_BACK
    assert output.warnings == ["NCCL: Failed to open libibverbs.so[.1]"]


@pytest.mark.parametrize("log", [SOCKETS, INFINIBAND])
def test_the_log_is_judged_on_the_reading_in_which_it_stands(log: str) -> None:
    first, rest = TRAINING.split("\n", 1)
    reading = read(f"{first}\n{log}{rest}", source="log")
    alone = read(TRAINING, source="log")
    assert (reading.tool, reading.rows) == ("training", alone.rows)
    assert reading.failed_checks() == ([FELL_BACK] if log is SOCKETS else [])
    assert reading.warnings == [*alone.warnings, *parse_nccl_log(log).warnings]


def test_the_same_holds_for_megatron_and_vllm() -> None:
    for path in ("megatron/synthetic_megatron_lm.log", "vllm/vllm032_table.log"):
        reading = read((DATA / path).read_text(encoding="utf-8") + SOCKETS, source="log")
        assert reading.checks["no_socket_fallback"] is False


def test_sockets_on_one_node_are_no_fall_back() -> None:
    text = "".join(line for line in SOCKETS.splitlines(keepends=True) if "node-b" not in line)
    text = text.replace("nNodes 2", "nNodes 1").replace("1[1] -> 2[0] [send] via NET/Socket/0", "")
    assert (way(text), parse_nccl_log(text).checks) == (("p2p", "none"), {})


def test_sockets_that_were_asked_for_are_a_warning() -> None:
    variable = "node-a:3100:3600 [0] NCCL INFO NCCL_IB_DISABLE set by environment to 1.\n"
    output = parse_nccl_log(variable + SOCKETS)
    assert output.checks == {}
    assert output.warnings[0] == (
        "NCCL uses TCP sockets between nodes: NCCL_IB_DISABLE asks for them"
    )


def test_a_log_that_does_not_show_the_nodes_is_not_judged() -> None:
    output = parse_nccl_log("NCCL INFO NET/IB : No device found.\nNCCL INFO Using network Socket\n")
    assert (output.checks, output.parameters["between_nodes"]) == ({}, "unknown")
    assert output.warnings == [
        "NCCL's only network is TCP sockets, and the log does not say how many nodes talk"
    ]


def test_lines_that_a_document_has_joined_are_told_apart() -> None:
    joined = " ".join(line for line in SOCKETS.splitlines() if "NCCL WARN" not in line)
    expected = parse_nccl_log(SOCKETS)
    got: NcclLogOutput = parse_nccl_log(joined)
    assert (got.parameters, got.ranks, got.hosts) == (
        *(expected.parameters, expected.ranks),
        expected.hosts,
    )


def test_a_text_without_such_lines_is_refused() -> None:
    with pytest.raises(ParseError, match="no line of NCCL's log"):
        parse_nccl_log("NCCL is a library\n")
