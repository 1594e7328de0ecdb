"""CONTRIBUTING.md keeps its promise: a benchmark is the files that it names, and nothing else is
changed for it to be configured, measured, recorded, judged, listed, reported and priced."""

from __future__ import annotations

import csv
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import forked
import pytest
from helpers import parametrized
from plays import warm

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = Path(__file__).resolve().parents[2]
TOY = ROOT / "tests" / "data" / "toy"
ROOM = Path("module_utils/trueup_node/benchmarks/toy")
# Where each of its files goes; `make options` writes the role.
FILES = {
    "signatures.py": ROOM / "signatures.py",
    "output.py": ROOM / "output.py",
    "case.py": ROOM / "case.py",
    "view.py": ROOM / "view.py",
    "toy_bench.py": Path("library/toy_bench.py"),
}
SIZE = "Standard_HB120rs_v3"
# What healthy nodes reach: no node copies zeros so slowly, nor so fast.
EXPECTATION = """
  - what: copies of zeros
    benchmark: toy
    metric: zero_copy_rate
    comparison: at_least
    unit: GB/s
    fix: Buy another computer.
    source: tests/contract/test_toy_benchmark.py
    date: "2026-11-22"
    values:
      - {{floor: {value}, sizes: [{size}]}}
"""


class Copy:
    """A copy of the repository with one benchmark more."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
        for name in filter(None, listed.stdout.split("\0")):
            if (ROOT / name).is_file() and (
                # The page of launches is written from the golden ones.
                name.startswith("tests/data/launches/")
                or not name.startswith(("tests/data", "molecule"))
            ):
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, folder / name)
        for name, place in FILES.items():
            (folder / place).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(TOY / name, folder / place)
        (folder / ROOM / "__init__.py").write_text('"""dd."""\n')
        self.environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(
                str(folder / name) for name in ("module_utils", "controller", "analysis", "tests")
            ),
            "ANSIBLE_CONFIG": str(folder / "ansible.cfg"),
            "TRUEUP_CATALOG": str(folder / "catalog"),
        }

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a Python program: one of this Python's, or a file of the copy."""
        here = "/" in command[0]
        path = self.folder / command[0] if here else Path(sys.executable).with_name(command[0])
        return forked.run([str(path), *command[1:]], cwd=self.folder, env=warm(self.environment))

    def expect(self, gigabytes_per_second: float) -> None:
        text = (ROOT / "catalog" / "expectations.yml").read_text(encoding="utf-8")
        more = EXPECTATION.format(value=gigabytes_per_second, size=SIZE)
        (self.folder / "catalog" / "expectations.yml").write_text(text + more, encoding="utf-8")

    def play(self, **variables: Any) -> subprocess.CompletedProcess[str]:
        steps = [f"playbooks/{name}.yml" for name in ("identify", "preflight", "benchmark")]
        given = {
            "trueup_benchmarks": ["toy"],
            "ansible_python_interpreter": sys.executable,
            **variables,
        }
        return self.run("ansible-playbook", *steps, "-e", json.dumps(given))

    def records(self) -> list[Mapping[str, Any]]:
        return [json.loads(path.read_text()) for path in self.folder.glob("results/*/toy-*.json")]


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    made = Copy(tmp_path_factory.mktemp("toy"))
    written = made.run("tests/role_options.py")
    assert (written.returncode, written.stderr) == (0, "")
    played = made.play(toy_mib=128)
    assert played.returncode == 0, played.stdout + played.stderr
    return made


def test_it_is_configured_by_its_declaration(copy: Copy) -> None:
    defaults = (copy.folder / "roles" / "toy" / "defaults" / "main.yml").read_text()
    assert "# How much is copied, in MiB: 1 or more. Takes some 10 ms.\ntoy_mib: 64\n" in defaults
    page = copy.run("ansible-doc", "-t", "module", "toy_bench").stdout
    assert "How much is copied, in MiB: 1 or more." in page
    assert "Time limit of the case in seconds: 1 or more." in " ".join(page.split())


@parametrized(("variables", "why"))
def test_what_is_wrong_is_refused_in_preflight(
    copy: Copy, variables: dict[str, Any], why: str
) -> None:
    before = len(copy.records())
    played = copy.play(**variables)
    assert (played.returncode, len(copy.records())) == (2, before)
    assert why in " ".join(played.stdout.split())


def test_it_is_measured_and_recorded_once(copy: Copy) -> None:
    (record,) = copy.records()
    assert (record["outcome"], record["case"]) == ("ok", "m128")
    assert record["parameters"] == {"mib": 128}
    (figure,) = record["metrics"]
    assert (figure["name"], figure["unit"]) == ("zero_copy_rate", "byte/s")
    assert figure["value"] > 1e6
    assert copy.play(toy_mib=128, trueup_resume="last").returncode == 0
    assert len(copy.records()) == 1


def test_it_is_judged(copy: Copy) -> None:
    found = {}
    for limit in (1e-6, 1e6):
        copy.expect(limit)
        judged = copy.run(
            "trueup", "health", "--passes", "--size", SIZE, "--format", "json", "results"
        )
        rows = [row for table in json.loads(judged.stdout)["tables"] for row in table["rows"]]
        found[limit] = [row["verdict"] for row in rows if row.get("benchmark") == "toy"]
    assert found == {1e-6: ["pass"], 1e6: ["fail"]}


def test_it_is_listed_priced_and_reported(copy: Copy) -> None:
    rate = copy.records()[0]["metrics"][0]["value"]
    listed = copy.run("trueup", "list", "results", "--format", "csv").stdout
    rows = [row for row in csv.DictReader(listed.splitlines()) if row["benchmark"] == "toy"]
    assert [float(row["value"]) for row in rows] == [pytest.approx(rate)]
    cost = copy.run("trueup", "cost", "results", "--price", "3.60", "--format", "csv").stdout
    (priced,) = csv.DictReader(cost.splitlines())
    assert float(priced["usd_per_tb"]) == pytest.approx(3.60 / 3600 / (rate / 1e12))
    report = copy.run("trueup", "report", "results", "--price", "3.60", "--output", "report")
    assert report.returncode == 0, report.stderr
    page = (copy.folder / "report" / "index.html").read_text()
    assert ("Copies of zeros (dd)" in page, "dd copies zeros from the kernel" in page) == (
        True,
        True,
    )
