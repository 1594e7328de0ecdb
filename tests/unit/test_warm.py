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
# What Ansible packs for a module, and the code of each file.
PACK = """
import hashlib, sys, zipfile, io
from datetime import datetime
from ansible.executor import module_common
from ansible._internal._ansiballz import _builder
from ansible.plugins.loader import init_plugin_loader, module_loader
init_plugin_loader([])
path = module_loader.find_plugin(sys.argv[1], ".py")
kept = io.BytesIO()
with zipfile.ZipFile(kept, "w") as archive:
    module_common.recursive_finder(
        sys.argv[1], "ansible.modules." + sys.argv[1], open(path, "rb").read(), archive,
        datetime(2026, 1, 1), _builder.ExtensionManager(),
    )
for name in sorted(zipfile.ZipFile(kept).namelist()):
    print(name, hashlib.sha256(zipfile.ZipFile(kept).read(name)).hexdigest())
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


# Compiles a file as pip does, and says its figure.
INSTALL = """
import py_compile, sys
py_compile.compile(sys.argv[1], doraise=True)
sys.path.insert(0, sys.argv[1].rpartition("/")[0])
import two
print(two.figure(), two.figure.__code__.co_filename, two.__cached__.rpartition("/")[2])
"""


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


def test_a_package_in_a_zip_is_one_the_second_time_too(tmp_path: Path) -> None:
    path = tmp_path / "packed.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("whole/__init__.py", "")
        archive.writestr("whole/one.py", "def figure():\n    return 4\n")
        archive.writestr("whole/two.py", "def\n")
    program = """
import whole.one
print(whole.__path__, whole.__file__, whole.one.__package__, whole.one.__file__, whole.one.figure())
for name in ("two", "three"):
    try:
        __import__(f"whole.{name}")
    except (SyntaxError, ImportError) as error:
        print(type(error).__name__, error)
"""
    kept = tmp_path / "kept"
    plain, *warm = (python(program, path=[WARM, path], kept=into) for into in (None, kept, kept))
    assert "whole/one.py 4\nSyntaxError" in plain
    assert "No module named 'whole.three'" in plain
    assert warm == [plain, plain]
    assert len(codes(kept)) == 2


def test_what_pip_compiles_is_kept_by_place_and_source(tmp_path: Path) -> None:
    kept, files = tmp_path / "kept", []
    for place, figure in (("a", 1), ("a", 1), ("a", 2), ("b", 2)):
        (tmp_path / place).mkdir(exist_ok=True)
        source = tmp_path / place / "two.py"
        source.write_text(f"def figure():\n    return {figure}\n", encoding="utf-8")
        said = python(INSTALL, str(source), path=[WARM], kept=kept)
        assert said == f"{figure} {source} two.{sys.implementation.cache_tag}.pyc\n"
        files.append(len(codes(kept)))
    assert files == [1, 1, 2, 3]
    # What was kept is what is run; what cannot be compiled is told as ever.
    for file in codes(kept):
        code = compile("def figure():\n    return 7\n", str(source), "exec")
        file.write_bytes(marshal.dumps(code))
    assert python(INSTALL, str(source), path=[WARM], kept=kept).startswith("7 ")
    assert python(INSTALL, str(source), path=[WARM], kept=None).startswith("2 ")
    source.write_text("def\n", encoding="utf-8")
    with pytest.raises(subprocess.CalledProcessError) as told:
        python(INSTALL, str(source), path=[WARM], kept=kept)
    assert f'File "{source}", line 1' in told.value.stderr
    assert len(codes(kept)) == 3


def test_a_python_of_which_nothing_is_compiled_yet_starts(tmp_path: Path) -> None:
    nowhere = {"PYTHONPYCACHEPREFIX": str(tmp_path / "none"), "PYTHONDONTWRITEBYTECODE": "1"}
    kept = tmp_path / "kept"
    assert python(RUN, path=[WARM, packed(tmp_path, 3)], kept=kept, **nowhere) == "3 one.py\n"
    assert python("import ssl; print(ssl.__name__)", path=[WARM], kept=kept, **nowhere) == "ssl\n"


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


def test_grammars_that_no_schema_of_ours_needs_are_left_alone(tmp_path: Path) -> None:
    program = "import sys; print(sys.modules.get('rfc3987_syntax', 'whoever asks'))"
    said = [python(program, path=[WARM], kept=kept) for kept in (tmp_path / "kept", None)]
    assert said == ["None\n", "whoever asks\n"]
    schema = (ROOT / "module_utils" / "trueup" / "record.schema.json").read_text(encoding="utf-8")
    assert '"format"' not in schema


def test_ansible_packs_the_same_files(tmp_path: Path) -> None:
    plain = python(PACK, "dnf", path=[], kept=None)
    first, second = (python(PACK, "dnf", path=[WARM], kept=tmp_path) for _ in range(2))
    assert len(plain.splitlines()) > 20
    assert (first, second) == (plain, plain)
    assert len([*tmp_path.glob("*/*-imports-*")]) > 20
