"""requirements/install.py: what is said while packages come, and the cache that clones share."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import helpers
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.slow

install: Any = helpers.program("requirements/install.py")


def test_pins_wheels_and_installations_are_named_alike(tmp_path: Path) -> None:
    text = (
        "annotated-doc==0.0.7 \\\n    --hash=sha256:ab\n# a==1\nPyYAML==6.0.3 \\\nruamel.yaml==1\n"
    )
    assert install.pins(text) == {"annotated-doc 0.0.7", "pyyaml 6.0.3", "ruamel-yaml 1"}
    for name in (
        "annotated_doc-0.0.7-py3-none-any.whl",
        "PyYAML-6.0.3-cp311-cp311-manylinux_2_28_x86_64.whl",
        "nonsense.whl",
        "lock",
    ):
        (tmp_path / name).touch()
    (tmp_path / "ruamel.yaml-1.dist-info").mkdir()
    assert install.held(tmp_path, ".whl") == {"annotated-doc 0.0.7", "pyyaml 6.0.3"}
    assert install.held(tmp_path, ".dist-info") == {"ruamel-yaml 1"}
    assert install.held(tmp_path / "nowhere", ".whl") == set()


def test_a_line_now_and_then_names_what_came() -> None:
    said: list[str] = []
    progress = install.Progress("fetched", {"rich 15", "pandas 3", "attrs 26.1.0"}, said.append)
    lines = (
        "Looking in indexes: https://pypi.org/simple",
        "Collecting rich==15 (from -r requirements/controller.txt (line 7))",
        "  Downloading rich-15-py3-none-any.whl (5.3 kB)",
        # Too soon after the other.
        "Collecting pandas==3 (from -r requirements/controller.txt (line 9))",
        "Collecting unknown==1 (from x)",
        "Processing ./nothing",
        "Processing /opt/files/attrs-26.1.0-py3-none-any.whl (from -r x (line 19))",
    )
    for now, line in zip((0.0, 0.1, 0.2, 1.0, 5.0, 5.0, 5.0), lines, strict=True):
        progress.printed(line, now)
    assert said == ["  fetched 1 of 3: rich 15", "  fetched 3 of 3: attrs 26.1.0"]


def wheel(folder: Path, name: str, programs: dict[str, bytes] | None = None) -> str:
    """Make a wheel; its line in a file of requirements."""
    path = folder / f"{name}-1.0-py3-none-any.whl"
    about = f"{name}-1.0.dist-info"
    files: dict[str, str | bytes] = {
        **{f"{name}-1.0.data/scripts/{key}": value for key, value in (programs or {}).items()},
        f"{name}.py": "",
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    files[f"{about}/RECORD"] = "".join(f"{name},,\n" for name in [*files, f"{about}/RECORD"])
    with zipfile.ZipFile(path, "w") as archive:
        for member, text in files.items():
            about_member = zipfile.ZipInfo(member)
            about_member.external_attr = 0o100755 << 16
            archive.writestr(about_member, text)
    return f"{name}==1.0 --hash=sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}\n"


class Clone:
    """A clone with an environment of its own; its pip knows one folder and no index."""

    def __init__(self, folder: Path, name: str, index: Path, packages: Path) -> None:
        self.cache = folder / "cache"
        self.python = folder / name / "bin" / "python"
        self.file = folder / "pins.txt"
        self._index = index
        self.packages = folder / name / packages.relative_to(packages.parents[2])
        venv = [sys.executable, "-m", "venv", "--without-pip", folder / name]
        subprocess.run(venv, check=True)
        shutil.copytree(packages, self.packages, dirs_exist_ok=True)

    def install(self, cache: Path | None = None) -> tuple[int, str]:
        done = subprocess.run(
            [
                self.python,
                helpers.ROOT / "requirements" / "install.py",
                self.file,
                cache or self.cache,
            ],
            env={
                "PATH": os.environ["PATH"],
                "PIP_NO_INDEX": "1",
                "PIP_FIND_LINKS": str(self._index),
                "PIP_CONFIG_FILE": os.devnull,
                "PIP_NO_CACHE_DIR": "1",
            },
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )
        return done.returncode, done.stdout + done.stderr

    def imports(self) -> int:
        return subprocess.run([self.python, "-c", "import one, two"], check=False).returncode


@pytest.fixture(name="index")
def _index(tmp_path: Path) -> Path:
    index = tmp_path / "index"
    index.mkdir()
    (tmp_path / "pins.txt").write_text(wheel(index, "one") + wheel(index, "two"))
    return index


@pytest.fixture(scope="module", name="packages")
def _packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a new environment has in site-packages: pip, whose installation takes seconds."""
    folder = tmp_path_factory.mktemp("new")
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    [found] = folder.glob("lib/python*/site-packages")
    return found


@pytest.fixture(name="clone")
def _clone(tmp_path: Path, index: Path, packages: Path) -> Callable[[str], Clone]:
    """``clone("first")``: a clone of that name."""
    return lambda name: Clone(tmp_path, name, index, packages)


def test_a_second_clone_installs_from_the_cache_of_the_first(
    index: Path, clone: Callable[[str], Clone]
) -> None:
    first = clone("first")
    status, said = first.install()
    assert (status, first.imports()) == (0, 0), said
    assert said.splitlines()[:2] == [
        "  2 of 2 packages to install, about 0 s without downloads",
        f"  what is not in {first.cache} is downloaded first",
    ]
    assert said.splitlines()[2].startswith("  fetched 1 of 2: one 1.0")
    # What it comes from is gone.
    for path in index.iterdir():
        path.unlink()
    second = clone("second")
    status, said = second.install()
    assert (status, second.imports()) == (0, 0), said
    assert "downloaded" not in said
    # What is there already needs neither.
    shutil.rmtree(first.cache)
    status, said = second.install()
    assert (status, said.splitlines()[0]) == (
        0,
        "  0 of 2 packages to install, about 0 s without downloads",
    )


def test_a_damaged_cache_is_mended_and_no_cache_is_done_without(
    tmp_path: Path, index: Path, clone: Callable[[str], Clone]
) -> None:
    one = clone("one")
    one.cache.mkdir()
    good = next(index.glob("one*"))
    (one.cache / good.name).write_bytes(b"not it")
    assert (one.install()[0], one.imports()) == (0, 0)
    assert (one.cache / good.name).read_bytes() == good.read_bytes()
    other = clone("other")
    (tmp_path / "file").touch()
    status, said = other.install(tmp_path / "file" / "cache")
    assert (status, other.imports()) == (0, 0)
    assert f"  {tmp_path / 'file' / 'cache'} cannot be used: Not a directory" in said


def test_another_file_than_the_pinned_one_is_refused(
    index: Path, clone: Callable[[str], Clone]
) -> None:
    one = clone("one")
    wheel(index, "one")
    one.file.write_text(f"one==1.0 --hash=sha256:{'0' * 64}\n")
    status, said = one.install()
    assert (status, one.imports()) == (1, 1)
    assert "DO NOT MATCH THE HASHES" in said
