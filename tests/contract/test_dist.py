"""The wheel and the source archive: the same bytes twice, and of use in an empty environment."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
LOG = ROOT / "tests" / "data" / "nccl" / "infiniband.txt"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The wheel and the source archive, each built twice."""
    folders = [tmp_path_factory.mktemp("dist") for _ in range(2)]
    for folder in folders:
        subprocess.run(
            [sys.executable, "-m", "hatchling", "build", "-d", folder],
            cwd=ROOT,
            env={**os.environ, "SOURCE_DATE_EPOCH": "1790000000"},
            check=True,
            capture_output=True,
        )
    return [sorted(folder.iterdir()) for folder in folders]


def test_two_builds_are_equal(built: Any) -> None:
    first, second = built
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]


def test_the_archives_hold_the_packages_and_the_catalog(built: Any) -> None:
    wheel, archive = sorted(built[0], key=lambda path: path.suffix != ".whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names if ".dist-info" not in name} == {
        "trueup",
        "trueup_analysis",
        "trueup_controller",
        "trueup_node",
    }
    assert "trueup_analysis/catalog/prices.csv" in names
    with tarfile.open(archive) as held:
        folders = {name.split("/")[1] for name in held.getnames() if name.count("/") > 1}
    assert folders == {"analysis", "catalog", "controller", "module_utils"}


def test_an_installed_trueup_needs_no_checkout(built: Any, tmp_path: Path) -> None:
    """Its packages unpacked; the libraries are those of this environment, less two."""
    wheel = next(path for path in built[0] if path.suffix == ".whl")
    place = tmp_path / "site"
    zipfile.ZipFile(wheel).extractall(place)
    (tmp_path / "stop").mkdir()
    (tmp_path / "stop" / "sitecustomize.py").write_text(
        "import sys\n"
        f"sys.path[:] = [path for path in sys.path if not path.startswith({str(ROOT)!r} + '/')"
        " or 'site-packages' in path]\n"
        "sys.modules['jinja2'] = sys.modules['matplotlib'] = None\n"
    )
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(tmp_path / "stop"), str(place)]),
    }

    def run(*words: str) -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, "-m", "trueup_analysis", *words],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    status, message = run("list")
    assert (status, "make run" in message, "trueup import" in message) == (1, False, True)
    assert run("import", str(LOG))[0] == 0
    status, text = run("list", "--format", "csv")
    assert (status, text.splitlines()[1].split(",")[1:3]) == (0, ["nccl", "all_reduce"])
    status, message = run("report")
    assert (status, "pip install 'trueup[report]'" in message, "Traceback" in message) == (
        1,
        True,
        False,
    )


def _release() -> Any:
    spec = importlib.util.spec_from_file_location("release", ROOT / "requirements" / "release.py")
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    assert spec.loader is not None
    spec.loader.exec_module(module)
    return module


def test_a_release_cuts_the_changelog_and_raises_the_version() -> None:
    release = _release()
    text = "# Changelog\n\n## Unreleased\n- new\n\n## 0.1.0 (2026-01-01)\n- old\n"
    assert release.cut(text, "0.2.0", "2026-12-01") == (
        "# Changelog\n\n## Unreleased\n\n## 0.2.0 (2026-12-01)\n- new\n\n"
        "## 0.1.0 (2026-01-01)\n- old\n"
    )
    project = (ROOT / "pyproject.toml").read_text()
    assert 'version = "9.0.0"' in release.with_version(project, "9.0.0")


@pytest.mark.parametrize("version", ["0.0.1", "0.1.0", "1.0", "v1.0.0", ""])
def test_a_release_takes_a_higher_version_alone(version: str) -> None:
    project = '[project]\nversion = "0.1.0"\n'
    with pytest.raises(ValueError, match="VERSION="):
        _release().with_version(project, version)
