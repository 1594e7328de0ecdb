"""p2pBandwidthLatencyTest: figures by direction, and contradictions refused."""

from __future__ import annotations

from pathlib import Path

from trueup_node.benchmarks.gpu_copy.output import parse_gpu_copy
from trueup_node.benchmarks.gpu_copy.signatures import SIGNATURE

DATA = Path(__file__).parents[1] / "data" / "gpu_copy"
TEXT = (DATA / "p2p_test.txt").read_text()


def test_the_gpu_of_the_row_writes_and_a_copy_within_a_gpu_counts_once() -> None:
    output = parse_gpu_copy(TEXT)
    assert output.figures == {
        "p2p": {"gpu0>gpu1": (270e9,), "gpu1>gpu0": (271e9,)},
        "d2d": {"gpu0": (755e9,), "gpu1": (755.5e9,), "gpu2": (756e9,)},
    }
    assert (output.peer_access, output.peer_test, output.gpu_count) == ("partial", "write", 3)
    assert output.unverified == []
    assert SIGNATURE.recognises(TEXT) is True


def test_without_connectivity_pairs_may_be_copied_through_the_host() -> None:
    text = TEXT[TEXT.index("Unidirectional P2P=Enabled") :]
    output = parse_gpu_copy(text)
    assert [sentence[:28] for sentence in output.unverified] == ["no 'P2P Connectivity Matrix'"]
    assert (output.peer_access, len(output.figures["p2p"])) == (None, 6)
    assert SIGNATURE.recognises(text) is True
