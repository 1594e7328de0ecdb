"""trueup topology as a user meets it: what goes where, and with which exit status."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import parametrized

ROOT = Path(__file__).resolve().parents[3]
DATA = ROOT / "tests" / "data" / "topology"
NDV4, H100 = "Standard_ND96asr_v4", "Standard_ND96isr_H100_v5"
MASKS = (
    "ffffff000000,ffffff000000,ffffff,ffffff,ffffff000000000000000000,ffffff000000000000000000,"
    "ffffff000000000000,ffffff000000000000"
)
SPOILT = """\
Standard_ND96asr_v4 (ndv4): 2 errors, 0 warnings
severity  line  where                 kind           what is wrong             mend
────────────────────────────────────────────────────────────────────────────────────────────────────
error        4  pci 00000003:00:00.0  bus-id-digits  the domain of             write 0003:00:00.0
                                                     00000003:00:00.0 has 8
                                                     digits, expected 4
error       11  pci ffff:ff:02.0      link-width     link_width is '8',        write link_width="16"
                                                     expected '16'
  NCCL compares bus ids as text with its own, such as 0001:00:00.0, and ignores this device without
  a word. (bus-id-digits)
  NCCL reckons with another bandwidth of this link. (link-width)
"""


@pytest.fixture
def run(call_trueup):
    return lambda *argv: call_trueup("topology", *argv)


@pytest.fixture
def spoilt(run, tmp_path: Path) -> Path:
    """A file of NDv4 with two faults."""
    text = run("write", "--size", NDV4).out.replace('"0003:', '"00000003:')
    head, bridge, tail = text.partition('busid="ffff:ff:02.0"')
    path = tmp_path / "topo.xml"
    path.write_text(head + bridge + tail.replace('"16"', '"8"', 1), encoding="utf-8")
    return path


@pytest.mark.parametrize("size", [NDV4, H100, NDV4.lower()])
def test_what_is_written_passes_the_check(run, tmp_path: Path, size: str) -> None:
    path = tmp_path / "topo.xml"
    written = run("write", "--size", size, "--output", path)
    assert (written.status, written.out, written.err) == (0, "", "")
    done = run("check", path, "--size", size)
    assert (done.status, done.err) == (0, "")
    assert done.out.splitlines()[0].endswith(": nothing is wrong")


def test_check_explains_each_fault_once_and_exits_1(run, spoilt: Path) -> None:
    done = run("check", spoilt, "--size", NDV4)
    assert done.status == 1
    assert done.out == SPOILT
    assert done.err == f"{spoilt}: 2 errors for {NDV4}\n"


def test_a_warning_alone_is_fine(run, tmp_path: Path) -> None:
    path = tmp_path / "topo.xml"
    path.write_text(run("write", "--size", NDV4).out.replace('modelid="49"', 'modelid="1"', 1))
    done = run("check", path, "--size", NDV4)
    assert (done.status, done.err) == (0, "")
    assert "0 errors, 1 warning" in done.out


def test_the_published_masks_are_found_wrong(run) -> None:
    published = MASKS[: MASKS.rindex(",")] + ",ffffff00000000000"
    done = run("check", "--masks", published, "--size", NDV4, "-f", "json")
    (row,) = json.loads(done.out)["tables"][0]["rows"]
    assert done.status == 1
    assert "selects cores 44-67" in row["problem"]
    assert run("check", "--masks", MASKS, "--size", NDV4).status == 0


@parametrized(("argv", "message"))
def test_known_errors_are_one_sentence(run, argv: tuple[str, ...], message: str) -> None:
    done = run(*argv)
    assert (done.status, done.out) == (1, "")
    assert message in done.err
    assert done.err.count("\n") == 1


@parametrized(("content", "message"))
def test_a_broken_catalog_is_one_sentence(
    run, tmp_path: Path, content: str | None, message: str
) -> None:
    (tmp_path / "prices.csv").write_text("")
    if content is not None:
        (tmp_path / "topologies.yml").write_text(content)
    done = run("show", "--size", NDV4, "--catalog", tmp_path)
    assert done.status == 1
    assert message in done.err
    assert done.err.count("\n") == 1


def test_standard_input_is_read_and_nothing_heavy_is_loaded(tmp_path: Path) -> None:
    path = os.pathsep.join(str(ROOT / name) for name in ("module_utils", "analysis"))
    code = (
        "import sys; from trueup_analysis import cli\n"
        "try: cli.main()\n"
        "finally: print(sorted({'pandas', 'numpy'} & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "topology", "check", "-", "--size", NDV4],
        env={**os.environ, "PYTHONPATH": path},
        input=(DATA / "eight_digits.xml").read_bytes(),
        capture_output=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stdout.startswith(b"Standard_ND96asr_v4 (ndv4): 16 errors")
    assert done.stderr.splitlines()[-1] == b"[]"
