"""The command as a user meets it: what goes where, and with which exit status."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

import made
import pytest
from helpers import parametrized
from trueup_analysis.commands import progress
from trueup_analysis.load import load

ROOT = Path(__file__).resolve().parents[3]
REFERENCE = ROOT / "catalog" / "reference_results.csv"
RAW = str(ROOT / "tests" / "data" / "stream" / "stream510.txt")
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


@pytest.mark.parametrize("command", COMMANDS)
def test_help_teaches_by_example(run, command: str) -> None:
    done = run(command, "--help")
    assert (done.status, done.err) == (0, "")
    assert f"trueup {command}" in done.out.split("Examples")[1] or command == "read"


def test_help_names_every_command_and_the_exit_status(run) -> None:
    done = run("--help")
    assert [name for name in COMMANDS if f" {name} " not in done.out] == []
    assert "Exit status: 0 fine; 1 bad input" in done.out


@pytest.mark.parametrize("argv", [("--help",), ("read", RAW, "--size", "Standard_ND96asr_v4")])
def test_help_and_a_verdict_on_one_output_load_nothing_heavy(argv: tuple[str, ...]) -> None:
    code = (
        "import sys; from trueup_analysis import cli\n"
        "try: cli.main()\n"
        "finally: print(sorted({'pandas', 'matplotlib', 'pyarrow', 'numpy'}"
        " & set(sys.modules)))"
    )
    done = in_python(code, *argv)
    assert done.stdout.splitlines()[-1:] == ["[]"]


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


@pytest.mark.parametrize("wanted", [("--every-record",), ("--format", "csv"), ("--format", "json")])
def test_a_long_list_is_whole_on_request_and_for_programs(
    run, many: Path, wanted: tuple[str, ...]
) -> None:
    assert run("list", many, "--all", *wanted).out.count("acoustic-so8-r1t1") == 60
    assert run("list", many).out.count("acoustic-so8-r1t1") == 30


def test_list_shows_failures_with_their_reason(run, results: Path) -> None:
    done = run("list", results)
    assert "3 ok, 1 failed" in done.out
    assert "out of memory" in done.out
    assert "Not read: 1" in done.out


def test_list_verify_fails_when_a_raw_output_is_gone(run, tmp_path: Path) -> None:
    made.write(tmp_path, [made.record(raw={"path": "x.raw.txt", "sha256": "0" * 64})])
    done = run("list", tmp_path, "--verify")
    assert done.status == 1
    assert "0 of 1 raw outputs are as recorded." in done.err


def test_output_goes_to_a_file(run, results: Path, tmp_path: Path) -> None:
    done = run("scaling", results, "--format", "csv", "--output", tmp_path / "s.csv")
    assert (done.status, done.out) == (1, "")
    lines = (tmp_path / "s.csv").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 4
    assert "median_seconds" in lines[0]
    done = run("scaling", results, "--output", tmp_path / "no" / "s.csv")
    assert done.status == 1
    assert "could not be written" in done.err


def test_without_results_it_says_what_to_do(
    run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = run("scaling")
    assert (done.status, done.out) == (1, "")
    assert done.err.startswith("trueup: error: results does not exist: run `make run`")
    assert done.err.count("\n") == 1


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


def test_cost_json_carries_base_units_and_sources(run, results: Path) -> None:
    done = run("cost", results, "--format", "json")
    row = json.loads(done.out)["tables"][0]["rows"][0]
    assert row["node_hours"] == pytest.approx(100 / 3600)
    assert row["currency"] == "USD"
    assert (row["region"], row["offer"], row["price_date"]) == ("eastus", "payg", "2026-06-18")
    assert "karpenter" in row["price_source"]


def test_catalog_by_option_and_by_environment(
    run, results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    header = "size,region,os,offer,usd_per_hour,as_of_date,source,notes\n"
    row = "Standard_HB120rs_v3,eastus,linux,payg,7.5,2026-01-01,made,\n"
    (tmp_path / "prices.csv").write_text(header + row, encoding="utf-8")
    by_option = run("cost", results, "--format", "json", "--catalog", tmp_path)
    monkeypatch.setenv("TRUEUP_CATALOG", str(tmp_path))
    by_environment = run("cost", results, "--format", "json")
    for done in (by_option, by_environment):
        assert json.loads(done.out)["tables"][0]["rows"][0]["usd_per_hour"] == 7.5
    done = run("cost", results, "--catalog", tmp_path / "no")
    assert (done.status, "holds no prices.csv" in done.err) == (1, True)


def test_pack_then_scaling_gives_the_same_table(run, results: Path, tmp_path: Path) -> None:
    packed = tmp_path / "all.parquet"
    assert run("pack", results, "--output", packed).status == 1
    assert run("scaling", packed).out == run("scaling", results).out
    done = run("pack", results, "--output", tmp_path / "all.json")
    assert (done.status, "must end in .parquet" in done.err) == (1, True)


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


@pytest.mark.parametrize("command", ["--help", "list", "health", "scaling", "cost"])
def test_a_command_starts_without_pandas(results: Path, command: str) -> None:
    code = (
        "import sys; from trueup_analysis import cli\n"
        "try: cli.main()\n"
        "finally: print('pandas' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, command, *([] if command == "--help" else [str(results)])],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.splitlines()[-1] == "False"


class Terminal(io.StringIO):
    """A standard error that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def on_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """No fixture: pytest sets its own standard error between set-up and call."""
    shown = Terminal()
    monkeypatch.setattr(sys, "stderr", shown)
    monkeypatch.setattr(progress, "PATIENCE", 0.01)
    for name, value in {"TERM": "xterm", "COLUMNS": "80", "NO_COLOR": "1"}.items():
        monkeypatch.setenv(name, value)
    return shown


def test_what_takes_long_is_said_on_a_terminal_until_something_else_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal = on_terminal(monkeypatch)
    at_work = progress.Progress()
    at_work.step("reading records: 100 files")
    at_work.begin()
    deadline = time.monotonic() + 30
    while "100 files" not in terminal.getvalue() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert "reading records: 100 files" in terminal.getvalue()
    at_work.end()
    shown = terminal.getvalue()
    at_work.step("more")
    time.sleep(0.2)
    assert terminal.getvalue() == shown
    assert shown.endswith("\x1b[2K")


def test_what_is_quick_says_nothing_of_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_terminal(monkeypatch)
    monkeypatch.setattr(progress, "PATIENCE", 0.5)
    at_work = progress.Progress()
    at_work.begin()
    at_work.end()
    time.sleep(0.7)
    assert terminal.getvalue() == ""


def test_progress_is_for_terminals_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = io.StringIO()
    monkeypatch.setattr(sys, "stderr", shown)
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    at_work = progress.Progress()
    at_work.begin()
    time.sleep(0.2)
    at_work.end()
    assert shown.getvalue() == ""


def test_the_reader_tells_how_far_it_is(tmp_path: Path) -> None:
    told: list[int] = []
    records = [made.record(case=f"c{number}") for number in range(250)]
    load([made.write(tmp_path, records)], tell=told.append)
    assert told == [100, 200]


def test_the_report_takes_every_option_of_the_cost_that_changes_a_figure(
    run, tmp_path: Path
) -> None:
    taken = {
        name: set(re.findall(r"--[a-z-]+", run(name, "--help").out.split("Examples")[0]))
        for name in ("cost", "report")
    }
    assert taken["cost"] - taken["report"] == {"--format", "--strict"}
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


def test_the_version_is_that_of_the_package(run) -> None:
    done = run("--version")
    assert (done.status, done.out, done.err) == (0, f"trueup {version('trueup')}\n", "")


@pytest.mark.parametrize(
    ("new", "old", "command"),
    [
        (("--size", "Standard_HB120rs_v3"), ("--as-size", "Standard_HB120rs_v3"), "cost"),
        (("--benchmark", "devito"), ("--tool", "devito"), "cost"),
        (("--benchmark=devito",), ("--tool=devito",), "list"),
    ],
)
def test_earlier_names_of_options_work_and_are_not_in_the_help(
    run, results: Path, new: tuple[str, ...], old: tuple[str, ...], command: str
) -> None:
    assert run(command, results, *new) == run(command, results, *old)
    shown = run(command, "--help").out
    assert (new[0].split("=")[0] in shown, old[0].split("=")[0] in shown) == (True, False)


def test_a_log_is_read_under_both_names(run) -> None:
    assert run("read", RAW, "--benchmark", "stream") == run("read", RAW, "--tool", "stream")


@pytest.mark.parametrize(
    ("words", "place", "offered"),
    [
        ("trueup sc", 1, ["scaling"]),
        ("trueup cost --re", 2, ["--region"]),
        ("trueup list --outcome ", 3, ["ok", "too_short", "failed", "invalid"]),
    ],
)
def test_a_shell_completes_commands_options_and_choices(
    monkeypatch: pytest.MonkeyPatch, words: str, place: int, offered: list[str]
) -> None:
    for name, value in {
        "_TRUEUP_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(place),
    }.items():
        monkeypatch.setenv(name, value)
    done = as_process()
    assert (done.returncode, done.stdout.split(), done.stderr) == (0, offered, "")


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
    monkeypatch.setattr("trueup_analysis.commands.output._write", full)
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
