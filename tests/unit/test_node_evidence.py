"""Evidence of a fault: the archive that a node makes, and its file on the controller."""

from __future__ import annotations

import base64
import io
import json
import tarfile
import time
from typing import TYPE_CHECKING, Any

import pytest
from trueup_controller import evidence as controller_evidence
from trueup_node.errors import BadInput
from trueup_node.node import evidence

if TYPE_CHECKING:
    from pathlib import Path

NOWHERE = "http://127.0.0.1:9"


def kvp_record(key: str, value: str) -> bytes:
    return key.encode().ljust(512, b"\0") + value.encode().ljust(2048, b"\0")


@pytest.fixture(name="tools")
def _tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH of stand-ins of the node's programs."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.setattr(evidence, "_FOLDERS", ())
    return folder


def program(folder: Path, name: str, script: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


def collect(tmp_path: Path, **more: Any) -> tuple[dict[str, str], dict[str, evidence.Part]]:
    pool = tmp_path / "pool"
    pool.write_bytes(kvp_record("PhysicalHostName", "host-4711"))
    collected = evidence.collect(
        {"vm_size": "Standard_ND96isr_H100_v5"},
        [{"benchmark": "nccl"}],
        **{"limit_seconds": 30.0, "metadata_url": NOWHERE, "pool": str(pool), **more},
    )
    assert collected.node["physical_host"] == "host-4711"
    with tarfile.open(fileobj=io.BytesIO(collected.archive)) as archive:
        texts = {
            member.name: stream.read().decode()
            for member in archive
            if (stream := archive.extractfile(member))
        }
    return texts, {part.name: part for part in collected.parts}


def test_the_archive_holds_outputs_facts_records_and_the_machine(
    tmp_path: Path, tools: Path
) -> None:
    program(tools, "nvidia-smi", "echo smi $1; echo password=hunter2-dummy")
    program(tools, "dmesg", "echo 'NVRM: Xid (PCI:0001:00:00): 79'; exit 3")
    texts, parts = collect(tmp_path)
    assert texts["gpu/nvidia_smi_q.txt"] == "smi -q\npassword=***\n"
    assert "Xid" in texts["kernel/dmesg.txt"]
    assert parts["kernel/dmesg.txt"].problem == "it ended with status 3"
    assert json.loads(texts["node/records.json"]) == [{"benchmark": "nccl"}]
    assert json.loads(texts["node/identity.json"])["physical_host"] == "host-4711"
    assert {row["name"] for row in json.loads(texts["contents.json"])} == parts.keys()
    names = [name for name, _ in (*evidence.PROGRAMS, *evidence.FILES)]
    assert sorted(parts) == sorted(names)


def test_a_program_that_hangs_costs_its_limit_once(
    tmp_path: Path, tools: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evidence, "_PROGRAM_SECONDS", 0.5)
    program(tools, "nvidia-smi", "echo begun; exec sleep 600")
    begin = time.monotonic()
    texts, parts = collect(tmp_path)
    assert time.monotonic() - begin < 60
    assert texts["gpu/nvidia_smi.txt"] == "begun\n"
    problems = {name: part.problem for name, part in parts.items() if "nvidia-smi" in part.source}
    assert problems.pop("gpu/nvidia_smi.txt") == "it did not end within 0 s"
    assert set(problems.values()) == {"left out: nvidia-smi did not answer before"}


def test_nothing_is_asked_when_the_time_is_over(tmp_path: Path, tools: Path) -> None:
    program(tools, "dmesg", "echo late")
    texts, parts = collect(tmp_path, limit_seconds=-1.0)
    assert "kernel/dmesg.txt" not in texts
    assert parts["kernel/dmesg.txt"].problem == "left out: the time was over"


def test_of_a_long_output_the_end_is_there(
    tmp_path: Path, tools: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evidence, "MOST_PART_BYTES", 1000)
    program(tools, "dmesg", "seq 1 5000")
    texts, parts = collect(tmp_path)
    assert texts["kernel/dmesg.txt"].endswith("\n5000\n")
    assert len(texts["kernel/dmesg.txt"]) == 1000
    assert parts["kernel/dmesg.txt"].problem == "its last 1000 of 23893 bytes"


def answer(content: bytes) -> dict[str, Any]:
    part = evidence.Part("gpu/nvidia_smi.txt", "nvidia-smi", 0.1, 0, "nvidia-smi is not installed")
    return {
        "archive": base64.b64encode(content).decode(),
        "node": {"physical_host": "host-4711"},
        "parts": [part._asdict()],
    }


def test_the_controller_keeps_the_archive_with_its_sum_and_machine(tmp_path: Path) -> None:
    description = controller_evidence.write(tmp_path / "e", "../n:1", answer(b"\x1f\x8bdata"))
    assert (tmp_path / "e" / description["archive"]).read_bytes() == b"\x1f\x8bdata"
    assert description["archive"].endswith("-.._n_1.tar.gz")
    [described] = (tmp_path / "e").glob("*.json")
    assert json.loads(described.read_text()) == description
    assert description["machine"]["physical_host"] == "host-4711"
    assert set(description["machine"]) == set(evidence.IDENTITY)
    assert description["missing"] == {"gpu/nvidia_smi.txt": "nvidia-smi is not installed"}


def test_a_lying_node_fills_no_description(tmp_path: Path) -> None:
    lie = answer(b"\x1f\x8b")
    lie["node"] = {"physical_host": "h\n\x1b[2J" + "x" * 10_000, "vmId": ["a"], "more": "x"}
    lie["parts"] += [{"name": "../more", "problem": "x"}]
    description = controller_evidence.write(tmp_path, "n1", lie)
    assert len(description["machine"]["physical_host"]) == 300
    assert description["machine"]["physical_host"].isprintable()
    assert (description["machine"]["vmId"], "more" in description["machine"]) == (None, False)
    assert list(description["missing"]) == ["gpu/nvidia_smi.txt"]


@pytest.mark.parametrize("content", [b"", b"no archive"])
def test_an_answer_without_an_archive_is_refused(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(BadInput, match="no archive of evidence"):
        controller_evidence.write(tmp_path, "n1", answer(content))
    with pytest.raises(BadInput, match="returned no archive"):
        controller_evidence.write(tmp_path, "n1", {**answer(b""), "archive": "!"})
    assert list(tmp_path.iterdir()) == []
