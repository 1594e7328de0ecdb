"""Records and circumstances that no well-run play makes: one sentence, or the right figures."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import made
import pyarrow as pa
import pytest
import typer
from forged import forge
from helpers import parametrized
from torture.hostile import commands
from torture.hostile_inputs import GOOD, RUN_ID, good_record
from trueup_analysis import cli
from trueup_analysis.figures import cost
from trueup_analysis.figures.fits import fit_laws
from trueup_analysis.figures.prices import NO_SIZE, read_prices
from trueup_analysis.figures.scaling.tables import series
from trueup_analysis.figures.terms import Terms
from trueup_analysis.load import load, pack
from trueup_analysis.report.opening import OFF_AZURE
from trueup_analysis.report.publish import write_report

ROOT = Path(__file__).resolve().parents[3]
PRICES = ROOT / "catalog" / "prices.csv"
STREAM = ROOT / "tests" / "data" / "stream" / "stream510.txt"
MODEL = ROOT / "tests" / "data" / "models" / "llama" / "config.json"
HEADERS = "size,region,os,offer,usd_per_hour,as_of_date,source,notes\n"


def call(*argv: object) -> tuple[int, str, str]:
    """Exit status, standard output and standard error of the command."""
    out, err = io.StringIO(), io.StringIO()
    before, sys.argv = sys.argv, ["trueup", *map(str, argv)]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            cli.main()
    except SystemExit as stopped:
        return int(stopped.code or 0), out.getvalue(), err.getvalue()
    finally:
        sys.argv = before
    raise AssertionError(argv)


def shell(script: str, *argv: object) -> subprocess.CompletedProcess[str]:
    """A shell script in which ``trueup`` is the command and $1, $2 ... are the arguments."""
    path = os.pathsep.join(str(ROOT / name) for name in ("module_utils", "analysis"))
    call_ = "from trueup_analysis.cli import main; main()"
    define = f'trueup() {{ {shlex.quote(sys.executable)} -c "{call_}" "$@"; }}\n'
    return subprocess.run(
        ["bash", "-c", define + script, "bash", *map(str, argv)],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def timed(value: float, **changes: Any) -> dict[str, Any]:
    """A record with nothing but a run time."""
    row = made.figure("run_time", value, "s", "lower", statistic="median", n=3)
    return made.record(**changes) | {"metrics": [row]}


def rates(**changes: float) -> list[dict[str, Any]]:
    return [made.figure(name, value, "flop/s", "higher") for name, value in changes.items()]


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (timed(0.0), "run_time is 0 s, not above 0"),
        (timed(-1.0), "run_time is -1 s, not above 0"),
        (timed(1e-300), "run_time is 1e-300 s, which is out of range"),
        (timed(1e300), "run_time is 1e+300 s, which is out of range"),
        (made.record(metrics=rates(flop_rate=-1.0)), "flop_rate is -1 flop/s, not at least 0"),
        (
            made.record(started_at="2026-99-99T99:99:99Z"),
            "started_at 2026-99-99T99:99:99Z is not a date and time",
        ),
        (made.record(node_count=10**30), "node_count"),
        (
            made.record(
                metrics=[
                    made.figure("run_time", value, "s", "lower", statistic=statistic)
                    for statistic, value in (("min", 3.0), ("median", 2.0), ("max", 4.0))
                ]
            ),
            "min, median and max of run_time are out of order",
        ),
    ],
)
def test_what_cannot_have_been_measured_is_left_out(
    tmp_path: Path, record: dict[str, Any], reason: str
) -> None:
    loaded = load([made.write(tmp_path, [made.record(), record])])
    assert len(loaded.records) == 1
    assert [reason in item.reason for item in loaded.excluded] == [True]


STRANGE: dict[str, list[dict[str, Any]]] = {
    "extremes": [timed(value, threads=n) for n, value in ((1, 1e30), (2, 1e-12), (4, 1), (8, 2))],
    "no rates": [made.record(metrics=[*timed(1.0)["metrics"], *rates(flop_rate=0.0)])],
    "odd parameters": [
        made.record(
            threads=n,
            parameters={"tn_ms": "soon", "points": "y", "shape": 5, "binding": 7, "model": None},
        )
        for n in (1, 2)
    ],
    "odd system": [made.record(system={"memory_bytes": "lots", "cores": "x", "cpu_model": 7})],
    "big numbers": [made.record(parameters={"points": 10**30, "tn_ms": 10**25})],
    "weak without points": [
        made.record(10.0 + n, threads=n, parameters={"scaling": "weak", "points": points})
        for n, points in ((1, "abc"), (2, None), (4, 0))
    ],
    "only failures": [made.record(outcome="failed", reason="<b>\x1b[31m\x00", metrics=[])],
    "other benchmark": [made.record(benchmark="hpl")],
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", STRANGE)
def test_strange_records_never_end_in_a_traceback(tmp_path: Path, name: str) -> None:
    results = made.write(tmp_path / "results", STRANGE[name])
    for command, *more in (
        ("list", "-f", "json"),
        ("scaling", "-f", "json"),
        ("cost", "--price", 3, "-f", "json"),
        ("reference",),
        ("pack", "-o", tmp_path / "x.parquet"),
        ("report", "-o", tmp_path / "report", "--price", 3),
    ):
        status, out, err = call(command, results, *more)
        assert (command, err.count("trueup: error:")) == (command, status)
        if "json" in more and status == 0:
            assert len(json.loads(out)["tables"]) >= 1


def test_offer_is_the_records_own_unless_another_is_asked_for(tmp_path: Path) -> None:
    row = "Standard_HB120rs_v3,eastus,linux,{},{},2026-01-01,made,\n"
    (tmp_path / "prices.csv").write_text(
        HEADERS + row.format("payg", 3.6) + row.format("spot", 0.9), encoding="utf-8"
    )
    records = [made.record(offer="spot"), made.record(threads=2, offer=None)]
    loaded = load([made.write(tmp_path / "results", records)])
    prices = read_prices(tmp_path / "prices.csv")
    own = made.frame(cost.table(loaded, prices=prices).table)
    assert own["usd_per_hour"].to_list() == [0.9, 3.6]
    asked = made.frame(cost.table(loaded, prices=prices, terms=Terms(offer="payg")).table)
    assert asked["usd_per_hour"].to_list() == [3.6, 3.6]
    (tmp_path / "vm_sizes.csv").write_bytes((PRICES.parent / "vm_sizes.csv").read_bytes())
    (tmp_path / "reference_results.csv").write_bytes(
        (PRICES.parent / "reference_results.csv").read_bytes()
    )
    write_report(loaded, tmp_path / "report", catalog=tmp_path)
    table = (tmp_path / "report" / "tables" / "cost.csv").read_text(encoding="utf-8")
    rows = [row for row in csv.DictReader(io.StringIO(table)) if row["case"]]
    assert [row["offer"] for row in rows] == ["spot", "payg"]


# By scipy 1.17.1's curve_fit with ftol, xtol and gtol of 1e-15 and the laws' own slopes.
@parametrized(("resources", "speedups", "expected"))
def test_fits_are_those_of_scipy(
    resources: list[int], speedups: list[float], expected: list[float]
) -> None:
    amdahl, usl, _ = fit_laws(resources, speedups, base=resources[0], over="cores")
    assert amdahl is not None
    assert usl is not None
    found = [*amdahl.parameters["sigma"], amdahl.residual]
    found += [*usl.parameters["sigma"], *usl.parameters["kappa"], usl.residual]
    assert found == pytest.approx(expected, rel=1e-6, nan_ok=True)


# --- files ----------------------------------------------------------------------------------------


def test_names_that_are_no_utf8_pipes_and_loops_are_named(tmp_path: Path) -> None:
    results = made.write(tmp_path / "results", [made.record()])
    run = results / made.RUN_ID
    (Path(os.fsdecode(bytes(run) + b"/x\xff.json"))).write_bytes((run / "0000.json").read_bytes())
    os.mkfifo(run / "pipe.json")
    (run / "gone.json").symlink_to("nowhere")
    (run / "20261120T091300Z-7c1f").symlink_to("..")
    loaded = load([results])
    assert len(loaded.records) == 1
    assert [item.reason.split(",")[0] for item in loaded.excluded] == [
        "not a regular file",
        "not a regular file",
        "its name is not UTF-8",
    ]
    assert loaded.excluded[2].path.endswith("x\\xff.json") is True
    pack(loaded, tmp_path / "all.parquet")
    assert len(load([tmp_path / "all.parquet"]).excluded) == 3


@pytest.mark.parametrize(
    "change", [{"hosts": ["x"]}, {"skipped": ["x"]}, {"warnings": "x"}, {"finished_at": 7}]
)
def test_a_manifest_of_another_shape_is_left_out(tmp_path: Path, change: dict[str, Any]) -> None:
    results = made.write(tmp_path, [made.record()])
    manifest = {"schema": "trueup.run/1", "run_id": made.RUN_ID, **change}
    (results / made.RUN_ID / "run.json").write_text(json.dumps(manifest), encoding="utf-8")
    loaded = load([results])
    assert (loaded.runs, len(loaded.excluded)) == ([], 1)


@pytest.mark.parametrize("name", ["none", "a" * 300, "file/below", "file", "/dev/null"])
def test_a_path_that_cannot_be_read_is_one_sentence(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("hello", encoding="utf-8")
    status, out, err = call("list", tmp_path / name)
    assert (status, out, err.count("\n")) == (1, "", 1)
    assert err.startswith("trueup: error: ") is True


@pytest.mark.parametrize("name", ["pipe", "pipe.parquet", "pipe.csv", "zero", "run.json"])
def test_a_source_that_is_a_pipe_or_a_device_is_not_waited_for(tmp_path: Path, name: str) -> None:
    if name == "zero":
        (tmp_path / name).symlink_to("/dev/zero")
    else:
        os.mkfifo(tmp_path / name)
    status, out, err = call("list", tmp_path / name)
    assert (status, out) == (1, "")
    where = tmp_path / name
    assert err == f"trueup: error: {where} is neither a folder nor a regular file\n"


def test_a_file_that_is_larger_than_any_record_is_named_and_not_read(tmp_path: Path) -> None:
    results = made.write(tmp_path, [made.record()])
    with (results / made.RUN_ID / "huge.json").open("wb") as stream:
        stream.truncate(300 * 2**20)
    loaded = load([results])
    assert len(loaded.records) == 1
    assert [item.reason for item in loaded.excluded] == ["larger than 256 MiB, which no record is"]


@pytest.mark.parametrize(
    "changes",
    [
        *({"excluded": one} for one in (7, [1], [["a"]], [["a", 1]], {"a": 1})),
        *({"runs": one} for one in (7, ["x"], [{"run_id": 7, "schema": "trueup.run/1"}])),
        *({"notes": one} for one in ("x", [7])),
    ],
)
def test_a_packed_file_whose_notes_are_of_other_types_is_one_sentence(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    packed = tmp_path / "x.parquet"
    pack(load([made.write(tmp_path / "results", [made.record()])]), packed)
    forge(packed, lambda figures, records, rest: (figures, records, rest | changes))
    status, out, err = call("list", packed)
    assert (status, out, err.count("\n")) == (1, "", 1)
    assert f"trueup: error: {packed} is not a file that `trueup pack` wrote (" in err


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("software", '{"a": 7}'), ("environment", '{"a": null}'), ("command", "[7]")),
        *(("parameters", '{"a": []}'), ("system", "[]"), ("started_at", "soon")),
        *(("started_at", None), ("run_id", "../../x"), ("case", "<b>"), ("benchmark", "\x1b[31m")),
    ],
)
def test_a_packed_record_is_held_to_what_a_record_is(
    tmp_path: Path, name: str, value: str | None
) -> None:
    packed = tmp_path / "x.parquet"
    pack(load([made.write(tmp_path / "results", [made.record()])]), packed)

    def change(figures: pa.Table, records: pa.Table, rest: dict[str, Any]) -> tuple[Any, ...]:
        column = pa.array([value], pa.string())
        place = records.schema.get_field_index(name)
        return figures, records.set_column(place, name, column), rest

    forge(packed, change)
    for command in ("list", "report"):
        status, out, err = call(command, packed, "--output", tmp_path / "out")
        assert (status, out, err.count("\n")) == (1, "", 1)
        assert f"holds what no record can hold: {name} " in err


def test_a_title_in_a_csv_holds_no_character_that_a_terminal_obeys(tmp_path: Path) -> None:
    record = made.record(vm_size="=1+1\x1b[31m\r")
    results = made.write(tmp_path, [record, made.record(5.0, threads=2, vm_size=record["vm_size"])])
    _, out, _ = call("scaling", results, "--format", "csv")
    assert ("[31m" in out, "\x1b" in out, "\r" in out) == (True, False, False)


@parametrized(("command", "output"))
def test_an_output_that_cannot_be_written_is_one_sentence(
    tmp_path: Path, command: str, output: str
) -> None:
    results = made.write(tmp_path / "results", [made.record()])
    (tmp_path / "file").write_text("x", encoding="utf-8")
    status, out, err = call(command, results, "--output", tmp_path / output)
    assert (status, out, err.count("\n")) == (1, "", 1)
    assert "could not be written" in err
    assert "Detail" not in err


def test_a_reader_that_leaves_early_or_a_full_disk_is_no_traceback(tmp_path: Path) -> None:
    results = made.write(tmp_path, [made.record(1 / n, threads=n) for n in range(1, 200)])
    done = shell('trueup list "$1" -f json | head -1', results)
    assert (done.stdout, done.stderr) == ("{\n", "")
    done = shell('trueup list "$1" >/dev/full', results)
    assert done.returncode == 1
    assert done.stderr == (
        "trueup: error: standard output could not be written: No space left on device\n"
    )
    done = shell("trueup list --help >/dev/full")
    assert (done.returncode, done.stderr) == (
        1,
        "trueup: error: standard output could not be written: No space left on device\n",
    )
    done = shell('trueup list "$1" >&-', results)
    closed = "trueup: error: standard output is closed\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", closed)


@parametrized(("command", "status"))
def test_a_closed_standard_input_is_an_empty_one(command: str, status: int) -> None:
    """As a service or cron may start it."""
    done = shell(f"trueup {command} <&-")
    assert (done.returncode, done.stdout, done.stderr) == (
        *(status, "", "trueup: error: standard input is empty\n"),
    )
    done = shell("trueup advise stencil <&-")
    assert (done.returncode, done.stderr.count("Traceback")) == (0, 0)


def test_a_closed_standard_error_costs_no_table(tmp_path: Path) -> None:
    results = made.write(tmp_path, [made.record()])
    done = shell('trueup list "$1" 2>&-', results)
    assert (done.returncode, done.stdout) == (0, shell('trueup list "$1"', results).stdout)


def test_help_is_a_word_too() -> None:
    assert call("help", "cost") == call("cost", "--help")
    assert call("help") == call("--help")


@pytest.mark.parametrize(
    "size", ["nd96isr h100 v5", "Standard ND96isr H100 v5", " ND96isr_H100_v5"]
)
def test_a_size_may_be_as_the_portal_writes_it(tmp_path: Path, size: str) -> None:
    log = ROOT / "tests" / "data" / "nccl" / "sockets_h100_real.txt"
    assert call("read", log, "--size", size) == call(
        *("read", log, "--size", "Standard_ND96isr_H100_v5")
    )


def test_a_size_that_is_none_is_refused_with_the_next_step(tmp_path: Path) -> None:
    log = ROOT / "tests" / "data" / "nccl" / "sockets_h100_real.txt"
    for size, hint in (
        ("96", "`trueup sizes` lists the sizes"),
        ("ND96isr_H100_v6", "did you mean Standard_ND96isr_H100_v5?"),
    ):
        status, out, err = call("read", log, "--size", size)
        assert (status, out) == (1, "")
        assert err == f"trueup: error: size {size} has no expectations; {hint}\n"
    results = made.write(tmp_path, [made.record()])
    status, _, err = call("cost", results, "--size", "hb120")
    assert (status, err.count("; `trueup sizes` lists them")) == (1, 1)


def test_an_inventory_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "hosts.yml"
    assert call("dryrun", "-i", path) == (
        *(1, "", f"trueup: error: --inventory {path} does not exist\n"),
    )


@pytest.mark.parametrize("content", [b"", b"\x00\xff" * 1000, b"0" * 3_000_000])
def test_read_of_what_no_tool_wrote_is_one_sentence(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x").write_bytes(content)
    done = shell('trueup read - < "$1"', tmp_path / "x")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert done.stderr.startswith("trueup: error: standard input") is True


LOGS = [
    (path, path.name not in {"killed.log", "no_memory.log", "order_zero.log"})
    for tool in ("devito", "stream")
    for path in sorted((ROOT / "tests" / "data" / tool).iterdir())
    if path.suffix != ".md"
]


@pytest.mark.parametrize(("path", "good"), LOGS, ids=lambda value: getattr(value, "name", ""))
def test_every_recorded_output_is_read_or_refused(path: Path, *, good: bool) -> None:
    status, out, err = call("read", path)
    assert (status, out != "", "trueup: error" in err) == (0 if good else 1, good, not good)


# --- looks ----------------------------------------------------------------------------------------


def _examples() -> list[tuple[str, str]]:
    commands = [typer.main.get_command(cli.app), *map(cli.command, cli.COMMANDS)]
    lines = [line for command in commands for line in (command.epilog or "").split("\n\n")]
    # Not the group's own options, some of which act when they are parsed.
    found = [line for line in lines if line.startswith("trueup ") and line[7] != "-"]
    return [(line, line.partition("<")[0].partition("#")[0]) for line in found]


@pytest.mark.parametrize(("line", "text"), _examples(), ids=lambda value: value[:40])
def test_every_example_parses_and_fits_80_columns(line: str, text: str) -> None:
    name, *words = shlex.split(text)[1:]
    context = cli.command(name).make_context(name, words)
    assert context.info_name == name
    assert len(line) <= 78


def test_a_machine_at_home_is_a_note_and_no_warning(tmp_path: Path) -> None:
    results = made.write(
        tmp_path / "results", [made.record(8 / n, threads=n, vm_size=None) for n in (1, 2)]
    )
    manifest = {
        "schema": "trueup.run/1",
        "run_id": made.RUN_ID,
        "finished_at": "2026-11-20T09:18:30Z",
        "skipped": [{"node": "a", "what": "tune", "why": "needs root"}],
        "warnings": [f"a: status 403; this is {OFF_AZURE}"],
    }
    (results / made.RUN_ID / "run.json").write_text(json.dumps(manifest), encoding="utf-8")
    page = write_report(load([results]), tmp_path / "report").read_text(encoding="utf-8")
    assert '<h2 id="warnings">' not in page
    notes = page.partition('<h2 id="notes">')[2].partition("</section>")[0]
    for text in (OFF_AZURE, "needs root"):
        assert (text, text in notes) == (text, True)
    assert page.count(NO_SIZE) == 1


def test_tuning_is_in_the_layout_only_where_one_problem_ran_with_several(tmp_path: Path) -> None:
    records = [
        made.record(10.0, parameters={"shape": shape, "autotune": tuning})
        for shape, tuning in (("64x64x64", "off"), ("128x128x128", "off"), ("128x128x128", "basic"))
    ]
    records = [one | {"duration_seconds": n} for n, one in enumerate(records)]
    found = series(load([made.write(tmp_path, records)]))
    assert [[row.layout for row in one.rows] for one in found] == [
        ["1x1"],
        ["1x1 tune=basic", "1x1 tune=off"],
    ]


# What each command needs beside the path that is tried; the network is not asked.
BESIDE = {
    "import": ("--size", "Standard_HB120rs_v3"),
    "flops": ("--published",),
    "model": ("--requests-per-second", "1"),
    "read": ("--size", "Standard_HB120rs_v3"),
    "advise": ("stencil", "grid=512x512x512", "steps=1000"),
    "azure plan": ("devito-hbv3",),
    "evidence import": ("inferencex", "--date", "2026-01-01", "--to", "evidence.csv"),
    "dryrun": ("--inventory", str(ROOT / "inventories" / "example" / "hosts.yml")),
    "baseline": ("--all",),
    "export": ("--format", "superbench"),
    "checkpoint": ("--gigabytes", "1"),
    "case next": ("--all", "--dry-run"),
    "case show": ("made-1",),
    "case record": ("made-1", "evidence"),
    "case close": ("made-1", "--reason", "gone"),
    "topology check": ("--size", "Standard_ND96asr_v4"),
    "topology write": ("--size", "Standard_ND96asr_v4"),
    "topology show": ("--size", "Standard_ND96asr_v4"),
}
LOGS = dict.fromkeys(("import", "read", "explain"), "stream.txt") | {
    "topology check": "topology.xml",
    "evidence import": str(ROOT / "tests/data/evidence/benchmarks.json"),
    "model": "config.json",
}
# The first three ask the network, the fourth needs prices of one's own; to the last a folder
# without runs is no error but a check that did not run.
NOT_TRIED = {"prices refresh", "prices spot", "azure leftovers", "prices diff", "morning"}
# A name that no file system takes, one below what is no folder, with what a terminal would obey.
NO_PATHS = ("n" * 300, "/".join(["d" * 200] * 30), "/dev/null/a\udcff\x1b[31m\n\u202eb")


def paths() -> list[tuple[str, str, bool]]:
    """(command, option, whether it stands without a name) of each path that a command takes."""
    found = []
    for name, command in commands():
        for one in command.params:
            kind = str(one.type_descriptor.annotation)
            named = "str" in kind and one.name in {"file", "files"}
            if name not in NOT_TRIED and ("Path" in kind or named):
                found.append((name, one.opts[0], one.param_type_name == "argument"))
    return found


@pytest.mark.parametrize(("name", "option", "bare"), paths())
def test_a_path_that_cannot_be_ends_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, option: str, bare: bool
) -> None:
    run = tmp_path / "results" / RUN_ID
    run.mkdir(parents=True)
    (run / GOOD).write_text(json.dumps(good_record()))
    for number in range(5):  # compare, history and baseline need several runs or nodes
        changed = {"run_id": f"2025112{number}{RUN_ID[8:]}", "nodes": [f"other-{number}"]}
        path = run.parent / f"earlier-{number}.json"
        path.write_text(json.dumps({**good_record(), **changed}))
    shutil.copy(STREAM, tmp_path / "stream.txt")
    shutil.copy(MODEL, tmp_path / "config.json")
    monkeypatch.chdir(tmp_path)
    assert call("case", "open", "--node", "made-1", "--category", "NvLink")[0] == 0
    size = ("--size", "Standard_ND96asr_v4")
    assert call("topology", "write", *size, "--output", "topology.xml")[0] == 0
    for path in NO_PATHS:
        beside = BESIDE.get(name, ())
        beside += () if bare or name not in LOGS else (LOGS[name],)
        status, out, err = call(*name.split(), *beside, *([path] if bare else [option, path]))
        said = [line for line in err.splitlines() if "error: " in line]
        unclean = {char for char in err + out if not char.isprintable()} - {"\n"}
        # Of these 1 would say that a node failed, or that a log shows a fault.
        statuses = {2, 64} if name in {"health", "explain"} else {1, 64}
        assert (status in statuses, len(said), unclean) == (True, 1, set()), err
        assert path[:9] in said[0]
