"""SuperBench's summaries and nvidia-smi's matrix: figures as printed, and nodes told apart."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

DATA = Path(__file__).parents[1] / "data"
H100, NDV4 = "Standard_ND96isr_H100_v5", "Standard_ND96asr_v4"


def text_of(name: str) -> str:
    return (DATA / name).read_text(encoding="utf-8")


def test_each_node_of_a_fleet_is_a_node_of_the_run(
    call_trueup: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    nodes = 620
    summary = json.loads(text_of("superbench/synthetic_node.json"))
    lines = [json.dumps({**summary, "node": f"h100-{number:04d}"}) for number in range(nodes)]
    Path("fleet.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    ended = call_trueup("import", "fleet.jsonl", "--size", H100, "--results", "results")
    assert ended.status == 0
    records = [json.loads(path.read_text()) for path in Path("results").glob("*/superbench-*.json")]
    assert {record["nodes"][0] for record in records} == {
        f"h100-{number:04d}" for number in range(nodes)
    }
    # Each record has its own node's output beside it.
    raw = {path.stat().st_size for path in Path("results").glob("*/superbench-*.raw.txt")}
    assert max(raw) < 2 * len(lines[0])


@pytest.mark.parametrize(
    ("name", "size", "status", "words"),
    [
        ("synthetic_nd_h100_v5.txt", H100, 0, "nothing is wrong"),
        ("synthetic_ndv4.txt", NDV4, 0, "nothing is wrong"),
        ("synthetic_nd_h100_v5_wrong_cores.txt", H100, 1, "cores 48-95 are near it"),
        ("synthetic_ndv4.txt", H100, 1, "8 errors"),
        ("synthetic_nd_h100_v5.txt", NDV4, 1, "8 errors"),
    ],
)
def test_a_matrix_is_held_against_the_size(
    call_trueup: Any, name: str, size: str, status: int, words: str
) -> None:
    path = DATA / "topo" / name
    ended = call_trueup("topology", "check", path, "--size", size)
    assert (ended.status, words in ended.out + ended.err) == (status, True)


def test_an_adapter_of_the_other_socket_is_named(call_trueup: Any, tmp_path: Path) -> None:
    text = text_of("topo/synthetic_nd_h100_v5.txt")
    swapped = text.replace("NIC0: mlx5_ib0", "NIC0: mlx5_ib7").replace(
        "NIC7: mlx5_ib7", "NIC7: mlx5_ib0"
    )
    (tmp_path / "matrix.txt").write_text(swapped, encoding="utf-8")
    ended = call_trueup("topology", "check", tmp_path / "matrix.txt", "--size", H100)
    assert (ended.status, "2 errors" in ended.out, "adapter" in ended.out) == (1, True, True)


def test_lost_links_fail_and_other_cores_are_not_imported(
    call_trueup: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lost = DATA / "topo" / "synthetic_nd_h100_v5_links_lost.txt"
    ended = call_trueup("read", lost, "--size", H100)
    assert (ended.status, "Fail: NVLinks of each GPU" in ended.out) == (1, True)
    wrong = DATA / "topo" / "synthetic_nd_h100_v5_wrong_cores.txt"
    ended = call_trueup("import", wrong, "--size", H100)
    assert (ended.status, "GPU0: cores 48-95 are near it" in ended.err) == (1, True)
