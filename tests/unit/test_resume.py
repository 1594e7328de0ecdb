"""Whether an earlier record of a run stands for a case."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from helpers import parametrized
from trueup_node.redaction import redact
from trueup_node.run.resume import identity, program_digest, same, standing

RECORD: dict[str, Any] = {
    "nodes": ["a"],
    "vm_size": "Standard_HB120rs_v3",
    "ranks": 1,
    "threads_per_rank": 2,
    "gpus": 0,
    "environment": {"OMP_NUM_THREADS": "2"},
    "command": ["/opt/kernel", "/mnt/trueup-fio-a1b2c3d4/data", "64"],
    "parameters": {"repeats": 5, "n": 64},
    "system": {"os": "Ubuntu 24.04", "kernel": "6.8", "image": None, "cores": 2},
    "software": {"program_digest": "0123456789ab", "torch": "2.9"},
}


@parametrized("change")
def test_a_difference_measures_again(change: dict[str, Any]) -> None:
    before = identity(RECORD)
    assert standing([before], RECORD) == 0
    assert standing([before], {**RECORD, **change}) is None


def test_what_the_moment_decides_is_not_compared() -> None:
    now = {**RECORD, "parameters": {"repeats": 5, "n": 80}}
    before, asked = identity(RECORD), identity(now)
    assert (same(before, asked, ["n"]), same(before, asked)) == (True, False)
    assert same(before, {**asked, "command": ["/opt/kernel", "80"]}, ["n"]) is False
    assert same(before, {**asked, "parameters": {"repeats": 6, "n": 80}}, ["n"]) is False


def test_credentials_are_compared_as_records_hold_them() -> None:
    asked = {**RECORD, "environment": {"HF_TOKEN": "hf_" + "a" * 34}}
    kept = redact(asked)
    assert kept["environment"] != asked["environment"]
    assert standing([identity(kept)], asked) == 0


def test_a_digest_follows_every_file_of_the_command(tmp_path: Path) -> None:
    program, data = tmp_path / "venv" / "bin" / "python", tmp_path / "driver.py"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    data.write_text("one")
    command = [str(program), str(data), "64", "/nowhere"]
    digests = [program_digest(command)]
    data.write_text("two")
    digests.append(program_digest(command))
    packages = tmp_path / "venv" / "lib" / "python3.11" / "site-packages"
    (packages / "torch-2.8.dist-info").mkdir(parents=True)
    (tmp_path / "venv" / "pyvenv.cfg").write_text("")
    digests.append(program_digest(command))
    os.rename(packages / "torch-2.8.dist-info", packages / "torch-2.9.dist-info")
    digests.append(program_digest(command))
    os.utime(data, (1, 1))
    assert program_digest(command) == digests[-1]
    assert len(set(digests)) == 4
    assert {len(digest or "") for digest in digests} == {12}
    own = tmp_path / "trueup-blob-copy-a1b2c3d4"
    own.mkdir()
    (own / "rank00.bin").write_bytes(b"made for this case")
    assert program_digest([*command, str(own / "rank00.bin")]) == digests[-1]
    assert program_digest(["trueup-no-such-program", "/nowhere"]) is None
    assert program_digest([]) is None
