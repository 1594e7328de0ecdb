"""The role's cap is the module's, and its other expressions."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import yaml
from trueup_blob import blob_cap, blob_files

ROLE = Path(__file__).parents[2] / "roles" / "blob_checkpoint"


def test_the_article_has_eight_copies_below_twenty_gigabits() -> None:
    assert blob_cap(8, 20000, 2300) == {"cap_mbps": 2300.0, "problem": ""}
    assert blob_cap(8, 20000) == {"cap_mbps": 2400.0, "problem": ""}


def test_what_would_be_throttled_is_a_sentence_with_the_mend() -> None:
    assert blob_cap(8, 20000, 2500) == {
        "cap_mbps": 0.0,
        "problem": "8 copies of 2500 Mb/s are 20 Gb/s, and the account takes 20 Gb/s: it would"
        " throttle them; cap each at 2400 Mb/s.",
    }
    assert blob_cap(0, 20000)["problem"] == "copies 0 is not a positive number."
    assert "not a positive number" in blob_cap(8, 20000, float("nan"))["problem"]


def test_a_text_is_one_file() -> None:
    """``-e blob_checkpoint_files=/data/a.bin`` was once eleven copies."""
    assert blob_files("/data/a.bin") == ["/data/a.bin"]
    assert blob_files("") == []
    assert blob_files(["/a", "/b"]) == ["/a", "/b"]


def test_the_commands_settings_have_the_cap_of_its_own_copies() -> None:
    """The benchmark of one file has a cap that eight copies would be refused with."""
    variables = yaml.safe_load((ROLE / "vars" / "main.yml").read_text())
    capped = variables["__blob_checkpoint_settings"]["cap_mbps"]
    assert capped == "{{ __blob_checkpoint_settings_capped.cap_mbps }}"
    assert "blob_checkpoint_copies | int | blob_cap" in variables[capped[3:-12]]


def test_a_relative_prefix_is_probed(tmp_path: Path) -> None:
    probe = yaml.safe_load((ROLE / "vars" / "main.yml").read_text())["__blob_checkpoint_probe"]
    done = subprocess.run(
        [sys.executable, "-c", probe, "no/such/folder", "1"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    assert set(done.stdout.splitlines()) <= {"without azcopy"}
