"""p2pBandwidthLatencyTest: figures by direction, and contradictions refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from damage import changed
from trueup_node.benchmarks.gpu_copy.output import parse_gpu_copy
from trueup_node.benchmarks.gpu_copy.signatures import SIGNATURE
from trueup_node.errors import ParseError

DATA = Path(__file__).parents[1] / "data" / "gpu_copy"
TEXT = (DATA / "p2p_test.txt").read_text()
OLD = TEXT.replace("Bandwidth (P2P Writes) Matrix", "Bandwidth Matrix")
READS = TEXT.replace("(P2P Writes)", "(P2P Reads)")


def test_the_gpu_of_the_row_writes_and_a_copy_within_a_gpu_counts_once() -> None:
    output = parse_gpu_copy(TEXT)
    assert output.figures == {
        "p2p": {"gpu0>gpu1": (270e9,), "gpu1>gpu0": (271e9,)},
        "d2d": {"gpu0": (755e9,), "gpu1": (755.5e9,), "gpu2": (756e9,)},
    }
    assert (output.peer_access, output.peer_test, output.gpu_count) == ("partial", "write", 3)
    assert output.unverified == []
    assert SIGNATURE.recognises(TEXT) is True


def test_the_gpu_of_the_row_reads() -> None:
    output = parse_gpu_copy(READS)
    assert output.figures["p2p"] == {"gpu0>gpu1": (271e9,), "gpu1>gpu0": (270e9,)}
    assert output.peer_test == "read"


def test_the_direction_of_older_samples_is_a_read_and_their_copies_within_are_not_reported() -> (
    None
):
    assert dict(parse_gpu_copy(OLD).figures) == {"p2p": parse_gpu_copy(READS).figures["p2p"]}


def test_without_connectivity_pairs_may_be_copied_through_the_host() -> None:
    text = TEXT[TEXT.index("Unidirectional P2P=Enabled") :]
    output = parse_gpu_copy(text)
    assert [sentence[:28] for sentence in output.unverified] == ["no 'P2P Connectivity Matrix'"]
    assert (output.peer_access, len(output.figures["p2p"])) == (None, 6)
    assert SIGNATURE.recognises(text) is True


@pytest.mark.parametrize(
    ("pattern", "replacement", "message"),
    [
        (r"^     1 271.00 .*\n", "", "expected row 1 of a matrix of 3 GPUs"),
        ("270.00", "27000", "has not two decimals"),
        ("Device: 2, .*\n", "", "a matrix of 3 GPUs, and 2 devices are named"),
        ("Device=0 CAN Acc", "Device=0 CANNOT Acc", "contradicts this line"),
        (r"Unidirectional P2P=Enabled(.*\n)*", "", "no matrix 'Unidirectional P2P=Enabled"),
        (r"(Unidirectional P2P=Enabled(?:.*\n){5})", r"\1\1", "stands twice"),
    ],
)
def test_a_contradiction_is_refused(pattern: str, replacement: str, message: str) -> None:
    with pytest.raises(ParseError, match=message):
        parse_gpu_copy(changed(TEXT, pattern, replacement))


def test_nvbandwidth_below_its_command_is_read() -> None:
    text = (DATA / "nvbandwidth_0.9_h100.txt").read_text()
    pasted = f"./nvbandwidth -t all\n{text}"
    assert parse_gpu_copy(pasted).figures == parse_gpu_copy(text).figures
    with pytest.raises(ParseError, match="expected 'nvbandwidth Version"):
        parse_gpu_copy(changed(pasted, "nvbandwidth Version.*\n", ""))
