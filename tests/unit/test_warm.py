"""What molecule/_shared/warm keeps between two runs is what would be worked out anew."""

from __future__ import annotations

import marshal
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from helpers import ROOT

WARM = ROOT / "molecule" / "_shared" / "warm"
# Imports a module of a zip, and says its figure and whether it was compiled.
RUN = """

import one
print(one.figure(), one.__file__.rpartition("/")[2])
"""


def python(
    program: str, *arguments: str, path: list[Path], kept: Path | None, **variables: str
) -> str:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path)), **variables}
    env["TRUEUP_WARM"] = str(kept or ROOT / "none")
    if kept:
        kept.mkdir(exist_ok=True)
    argv = [sys.executable, "-c", program, *arguments]
    return subprocess.run(argv, env=env, capture_output=True, text=True, check=True).stdout


def packed(folder: Path, figure: int) -> Path:
    path = folder / "packed.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("one.py", f"def figure():\n    return {figure}\n")
    return path


def codes(kept: Path) -> list[Path]:
    return sorted(kept.glob(f"{os.getuid()}/*-code-*"))


def test_other_source_is_compiled_anew_and_the_same_is_not(tmp_path: Path) -> None:
    kept, path = tmp_path / "kept", [WARM, tmp_path / "packed.zip"]
    for figure, files in ((1, 1), (1, 1), (2, 2), (1, 2)):
        packed(tmp_path, figure)
        assert python(RUN, path=path, kept=kept) == f"{figure} one.py\n"
        assert len(codes(kept)) == files
    # What was kept is what is run.
    for file in codes(kept):
        file.write_bytes(marshal.dumps(compile("def figure():\n    return 7\n", "one.py", "exec")))
    assert python(RUN, path=path, kept=kept) == "7 one.py\n"
    assert python(RUN, path=path, kept=None) == "1 one.py\n"


@pytest.mark.parametrize("damage", ["open", "cut"])
def test_what_cannot_be_trusted_or_read_is_not_used(tmp_path: Path, damage: str) -> None:
    kept, path = tmp_path / "kept", [WARM, packed(tmp_path, 3)]
    python(RUN, path=path, kept=kept)
    [file] = codes(kept)
    if damage == "open":
        file.parent.chmod(0o777)
    file.write_bytes(b"")
    assert python(RUN, path=path, kept=kept) == "3 one.py\n"
    # A folder that others may write to is not written to either.
    assert (file.stat().st_size > 0) == (damage == "cut")
