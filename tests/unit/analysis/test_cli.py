"""The command as a user meets it: what goes where, and with which exit status."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import made
import pytest
from helpers import parametrized

ROOT = Path(__file__).resolve().parents[3]
REFERENCE = ROOT / "catalog" / "reference_results.csv"
COMMANDS = ("list", "scaling", "cost", "reference", "read", "import", "pack", "report")


@pytest.fixture
def run(call_trueup):
    return call_trueup


@pytest.fixture
def results(tmp_path: Path) -> Path:
    records = [made.record(100 / n, threads=n) for n in (1, 2, 4)]
    records.append(made.record(outcome="failed", reason="out of memory", threads=8))
    made.write(tmp_path / "results", records)
    (tmp_path / "results" / made.RUN_ID / "bad.json").write_text("{", encoding="utf-8")
    return tmp_path / "results"


def as_process(*argv: object, **options: object) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(str(ROOT / name) for name in ("module_utils", "analysis"))
    return subprocess.run(
        [sys.executable, "-c", "from trueup_analysis.cli import main; main()", *map(str, argv)],
        env={**os.environ, "PYTHONPATH": path, "COLUMNS": "100"},
        capture_output=True,
        text=True,
        check=False,
        **options,  # type: ignore[call-overload]  # input and cwd, as the tests need them
    )


def test_an_interrupt_while_it_is_loaded_shows_no_traceback(tmp_path: Path) -> None:
    interrupts = "import os, signal; os.kill(os.getpid(), signal.SIGINT)"
    (tmp_path / "typer.py").write_text(interrupts)
    path = os.pathsep.join(map(str, (tmp_path, ROOT / "module_utils", ROOT / "analysis")))
    done = subprocess.run(
        [sys.executable, "-m", "trueup_analysis", "list"],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (-signal.SIGINT, b"")


def in_python(code: str, *argv: str) -> subprocess.CompletedProcess[str]:
    """A program of its own that can import what is tested."""
    return subprocess.run(
        [sys.executable, "-c", code, *argv],
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'module_utils'}{os.pathsep}{ROOT / 'analysis'}"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(("argv", "status"), [(["--version"], 0), (["list", "nothing"], 1)])
def test_a_command_ends_with_its_status_its_output_and_its_exit_functions(
    argv: list[str], status: int
) -> None:
    code = (
        "import atexit, sys; from trueup_analysis.__main__ import main\n"
        "atexit.register(print, 'the end'); print('begun'); main()"
    )
    done = in_python(code, *argv)
    said = done.stdout.splitlines()
    assert (done.returncode, said[0], said[-1]) == (status, "begun", "the end")
    assert len(said) + len(done.stderr.splitlines()) == 3


def test_help_names_every_command_and_the_exit_status(run) -> None:
    done = run("--help")
    assert [name for name in COMMANDS if f" {name} " not in done.out] == []
    assert "Exit status: 0 success; 1 a failed check" in done.out


def test_data_goes_to_stdout_and_what_went_wrong_to_stderr(run, results: Path) -> None:
    done = run("scaling", results)
    # One of its files cannot be read.
    assert done.status == 1
    assert "Strong scaling over cores" in done.out
    assert f"not read: {results / made.RUN_ID / 'bad.json'}" in done.err
    assert "left out, failed: acoustic-so8-r1t8 on made-1" in done.err
    assert "out of memory" in done.err
    assert "out of memory" not in done.out
    assert done.err.splitlines()[-1] == "1 file could not be read."


@pytest.fixture
def many(tmp_path: Path) -> Path:
    """Two runs of 30 records on 30 nodes; 21 of the second failed for two reasons."""
    later = {"run_id": "20261121T101500Z-00aa", "started_at": "2026-11-21T10:15:00Z"}
    nodes = [f"n-{number:02}" for number in range(30)]
    records = [made.record(nodes=[node]) for node in nodes]
    for number, node in enumerate(nodes):
        reason = None if number > 20 else f"reason {min(number, 1)}"
        outcome = "failed" if reason else "ok"
        records.append(made.record(nodes=[node], outcome=outcome, reason=reason, **later))
    return made.write(tmp_path / "results", records)


def test_a_long_list_is_a_summary_with_what_failed(run, many: Path) -> None:
    done = run("list", many, "--all")
    lines = [line.split() for line in done.out.splitlines()]
    assert lines[0][:5] == ["60", "records", "of", "2", "runs:"]
    assert ["devito", "ok", "39", "30", "2"] in lines
    assert lines[4][:7] == ["devito", "failed", "21", "21", "1", "reason", "1"]
    assert ["20261121T101500Z-00aa", "9", "0", "21", "0", "30"] in lines
    assert "Not ok: 21" in done.out
    # The last 20 of them; the first is another's.
    assert [node for node in ("n-00", "n-01", "n-20") if node in done.out] == ["n-01", "n-20"]


def test_list_verify_fails_when_a_raw_output_is_gone(run, tmp_path: Path) -> None:
    made.write(tmp_path, [made.record(raw={"path": "x.raw.txt", "sha256": "0" * 64})])
    done = run("list", tmp_path, "--verify")
    assert done.status == 1
    assert "0 of 1 raw outputs are as recorded." in done.err


@parametrized("argv")
def test_wrong_usage_has_a_status_that_no_verdict_has(run, argv: tuple[str, ...]) -> None:
    done = run(*argv)
    assert (done.status, done.out) == (64, "")


@pytest.mark.parametrize(("strict", "status"), [((), 0), (("--strict",), 1)])
def test_an_unknown_price_fails_only_when_strict(run, strict: tuple[str, ...], status: int) -> None:
    done = run("cost", REFERENCE, *strict)
    assert done.status == status
    assert "unknown" in done.out
    assert "give --region" in done.err


def test_read_takes_files_and_standard_input() -> None:
    log = ROOT / "tests" / "data" / "stream" / "stream510.txt"
    by_name = as_process("read", log, "--format", "json")
    by_pipe = as_process("read", "-", "-f", "json", input=log.read_text(encoding="utf-8"))
    named, piped = (json.loads(done.stdout)[0] for done in (by_name, by_pipe))
    assert (named["tool"], named["rows"]) == ("stream", piped["rows"])
    assert piped["source"] == "standard input"


def test_read_shows_one_line_a_figure_in_the_fields_units() -> None:
    done = as_process("read", ROOT / "tests" / "data" / "stream" / "stream510.txt")
    # synthetic: 240 MB in 8, 9 and 12 ms.
    assert done.stdout.splitlines()[1] == "Triad 26.67 GB/s."
    assert done.stdout.splitlines()[8].split() == [
        "triad",
        "rate",
        *["26.67", "20.00", "30.00", "GB/s", "9"],
    ]
    assert "Checks: solution_validates passed." in done.stdout


def test_read_says_in_one_sentence_what_it_cannot_read(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("hello", encoding="utf-8")
    for name in ("x", "y"):
        done = as_process("read", tmp_path / name)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
        assert done.stderr.startswith("trueup: error: ")


def test_the_report_takes_every_option_of_the_cost_that_changes_a_figure(
    run, tmp_path: Path
) -> None:
    taken = {
        name: set(re.findall(r"--[a-z-]+", run(name, "--help").out.split("Examples")[0]))
        for name in ("cost", "report")
    }
    # The report has the changes without being asked.
    assert taken["cost"] - taken["report"] == {"--changes", "--format", "--strict"}
    results = made.write(tmp_path / "results", [made.record(3600.0)])
    tables = {}
    for name, asked in {
        "own": (),
        "spot": ("--offer", "spot"),
        "windows": ("--os", "windows"),
        "then": ("--price-date", "2024-06-01"),
        "given": ("--price", "1.25"),
    }.items():
        assert run("report", results, *asked, "-o", tmp_path / name).status == 0
        assert run("cost", results, *asked, "-f", "csv", "-o", tmp_path / f"{name}.csv").status == 0
        tables[name] = (tmp_path / name / "tables" / "cost.csv").read_text()
        assert tables[name] == (tmp_path / f"{name}.csv").read_text()
    assert len(set(tables.values())) == 5


@pytest.mark.parametrize("command", ["cost", "report"])
def test_a_price_of_an_api_needs_something_to_compare_with(
    run, results: Path, tmp_path: Path, command: str
) -> None:
    done = run(command, results, "--api-price", "0.6", "-o", tmp_path / "out")
    assert (done.status, done.out, (tmp_path / "out").exists()) == (1, "", False)
    assert "none of the 4 records is one" in done.err


def test_a_file_that_cannot_be_read_is_named_once(run, results: Path) -> None:
    for command in ("list", "scaling", "cost", "health"):
        done = run(command, results)
        assert (done.out + done.err).count("Input data was truncated") == 1, command


def test_no_half_of_a_file_stays_where_it_cannot_be_written(
    run, results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_parts: object, path: Path) -> None:
        with path.open("w") as stream:
            stream.write("half")
        raise OSError(28, "No space left on device")

    (tmp_path / "out").mkdir()
    monkeypatch.setattr("trueup_analysis.commands.interface._write", full)
    done = run("list", results, "--output", tmp_path / "out" / "table.txt")
    assert (done.status, list((tmp_path / "out").iterdir())) == (1, [])
    assert "table.txt could not be written: No space left on device" in done.err


@pytest.mark.parametrize("command", ["list", "scaling", "cost", "health", "reference"])
@parametrized(("wrong", "message"))
def test_bad_input_is_one_sentence_in_every_command(
    run, results: Path, monkeypatch, command: str, wrong: tuple[str, ...], message: str
) -> None:
    monkeypatch.chdir(results.parent)
    (results / made.RUN_ID / "bad.json").unlink()
    done = run(command, "results", *wrong)
    assert done.status in {1, 2, 64}
    assert (done.out, "Traceback" in done.err) == ("", False)
    assert message in done.err
    usage = done.status == 64
    assert usage or sum("trueup: error: " in line for line in done.err.splitlines()) == 1


def test_reading_a_log_imports_no_pandas(tmp_path: Path) -> None:
    """Half a second of its start."""
    (tmp_path / "pandas.py").write_text("raise ImportError('pandas')")
    log = ROOT / "tests" / "data" / "nccl" / "nvlink.txt"
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "from trueup_analysis import cli; cli.main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "read", str(log)],
        env={**os.environ, "COLUMNS": "100"},
        capture_output=True,
        text=True,
        check=False,
    )
    usual = as_process("read", log)
    assert (done.returncode, done.stdout) == (usual.returncode, usual.stdout)
