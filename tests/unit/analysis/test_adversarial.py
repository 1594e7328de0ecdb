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
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer
from helpers import parametrized
from torture.hostile import commands
from torture.hostile_inputs import GOOD, RUN_ID, good_record
from trueup.node import identify
from trueup_analysis import cli, units
from trueup_analysis.figures import cost
from trueup_analysis.figures.fits import fit_laws
from trueup_analysis.figures.prices import NO_SIZE, Terms, read_prices
from trueup_analysis.figures.scaling.tables import left_out, series
from trueup_analysis.load import load, pack
from trueup_analysis.render import json as json_format
from trueup_analysis.render import table
from trueup_analysis.report.opening import OFF_AZURE
from trueup_analysis.report.publish import write_report
from trueup_analysis.sheets.sheet import Column, Sheet

ROOT = Path(__file__).resolve().parents[3]
PRICES = ROOT / "catalog" / "prices.csv"
STREAM = ROOT / "tests" / "data" / "stream" / "stream510.txt"
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
    assert loaded.table.num_rows == 1
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


def test_a_rate_of_zero_has_no_cost_per_flop(tmp_path: Path) -> None:
    loaded = load([made.write(tmp_path, STRANGE["no rates"])])
    row = made.frame(
        cost.table(loaded, prices=read_prices(PRICES), terms=Terms(price=3.6)).table
    ).iloc[0]
    assert units.is_missing(row["usd_per_pflop"]) is True
    assert row["usd_per_run"] == pytest.approx(0.001)


def test_json_holds_no_infinity() -> None:
    assert json_format.dump([float("inf"), 1.0]) == "[\n  null,\n  1.0\n]\n"


def test_cost_keeps_versions_work_regions_and_machines_apart(tmp_path: Path) -> None:
    records = [
        made.record(36.0, software={"devito": "4.8"}),
        made.record(72.0, software={"devito": "4.9"}),
        made.record(36.0, region="southcentralus"),
        made.record(36.0, parameters={"nbl": 99}),
        made.record(36.0, vm_size=None, nodes=["a"]),
        made.record(36.0, vm_size=None, nodes=["b"]),
    ]
    # Records that agree in name, start and duration are copies of one.
    records = [one | {"duration_seconds": n} for n, one in enumerate(records)]
    found = cost.table(
        load([made.write(tmp_path, records)]), prices=read_prices(PRICES), terms=Terms(price=3.6)
    )
    assert made.frame(found.table)["records"].to_list() == [1] * 6
    assert made.frame(found.table)["run_seconds"].to_list() == [36.0, 72.0, 36.0, 36.0, 36.0, 36.0]
    assert made.frame(found.totals)["runs"].to_list() == [1, 1, 1, 1, 1, 1]
    assert made.frame(found.table)["usd_per_pflop"].iloc[0] == pytest.approx(
        0.036 / (made.WORK / 1e15)
    )
    assert made.frame(found.table)["usd_per_billion_grid_points"].iloc[0] == pytest.approx(
        0.036 / (made.POINTS / 1e9)
    )


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


@pytest.mark.parametrize("region", ["eastus", "EastUS", "East US"])
def test_a_region_is_known_by_each_of_its_spellings(tmp_path: Path, region: str) -> None:
    loaded = load([made.write(tmp_path, [made.record()])])
    found = made.frame(
        cost.table(loaded, prices=read_prices(PRICES), terms=Terms(region=region)).table
    )
    assert found["usd_per_hour"].to_list() == [3.6]


def test_a_misspelt_size_is_named_before_a_region_is_asked_for(tmp_path: Path) -> None:
    misspelt = made.record(region=None, vm_size="Standard_HB120rs_v33")
    found = cost.table(load([made.write(tmp_path, [misspelt])]), prices=read_prices(PRICES))
    assert found.unknown == [
        "Standard_HB120rs_v33 is not in the price table (did you mean Standard_HB120rs_v3?)."
    ]


def test_super_linear_rows_are_named_but_not_those_below_the_baseline(tmp_path: Path) -> None:
    records = [made.record(8.0), made.record(3.0, threads=2), made.record(2.0, threads=4)]
    results = made.write(tmp_path, records)
    (found,) = series(load([results]))
    (warning,) = found.warnings
    assert warning == (
        "Super-linear: a parallel efficiency of 1.333 at 2 cores (1x2; baseline 1x1). That is"
        " noise, caches that hold more of the work, or a layout that the baseline did not use;"
        " measure the baseline again before counting on it."
    )
    (found,) = series(load([results]), baseline=4)
    assert found.warnings == []


def test_a_share_just_under_the_threshold_is_told_apart_from_it(tmp_path: Path) -> None:
    records = [made.record(100.0), made.record(100 / 1.497, threads=2)]
    (found,) = series(load([made.write(tmp_path, records)]))
    assert found.stops_paying == (
        "Going from 1 to 2 cores brings 49.7 % of the added cores as speed (under 50 %)."
    )


def test_records_without_the_judged_figure_are_named(tmp_path: Path) -> None:
    bare = made.record(threads=2, metrics=rates(flop_rate=1e9))
    results = made.write(tmp_path, [made.record(), bare])
    sentence = (
        f"left out, ok: acoustic-so8-r1t2 on made-1 in {made.RUN_ID}: it holds no median of"
        " run_time"
    )
    assert left_out(load([results]), "devito") == [sentence]
    assert sentence in call("scaling", results)[2]


def test_weak_records_of_unknown_size_are_a_series_of_their_own(tmp_path: Path) -> None:
    records = [
        made.record(10.0, threads=n, parameters={"scaling": "weak", "points": points})
        for n, points in ((1, 100), (2, 200), (4, None))
    ]
    found = series(load([made.write(tmp_path, records)]))
    assert [[row.resource for row in one.rows] for one in found] == [[1, 2], [4]]


def test_weak_efficiency_is_the_baselines_time_over_the_time(tmp_path: Path) -> None:
    records = [
        made.record(10.0 + n, threads=n, parameters={"scaling": "weak", "points": n * 100})
        for n in (1, 2, 4)
    ]
    (found,) = series(load([made.write(tmp_path, records)]))
    assert [row.efficiency for row in found.rows] == pytest.approx([1, 11 / 12, 11 / 14])
    assert [row.speedup for row in found.rows] == pytest.approx([1, 2 * 11 / 12, 4 * 11 / 14])


def test_karp_flatt_by_hand(tmp_path: Path) -> None:
    # Four cores, three times as fast: (1/3 - 1/4) / (1 - 1/4) = 1/9.
    (found,) = series(load([made.write(tmp_path, [made.record(3.0), made.record(1.0, threads=4)])]))
    assert [row.serial_fraction for row in found.rows][1] == pytest.approx(1 / 9)


def test_a_standard_error_does_not_count_the_baseline_as_a_measurement() -> None:
    resources, speedups = [1, 2, 4, 8], [1.0, 1.8, 3.1, 4.6]
    amdahl, _, _ = fit_laws(resources, speedups, base=1, over="cores")
    assert amdahl is not None
    sigma, error = amdahl.parameters["sigma"]
    p, s = np.array(resources[1:], float), np.array(speedups[1:])
    # Gauss: s^2 / (sum of squared slopes), with three measurements and one parameter.
    slope = -p * (p - 1) / (1 + sigma * (p - 1)) ** 2
    rest = s - p / (1 + sigma * (p - 1))
    assert (slope * rest).sum() == pytest.approx(0, abs=1e-4)
    assert error == pytest.approx(((rest**2).sum() / (3 - 1) / (slope**2).sum()) ** 0.5, rel=1e-4)
    assert amdahl.residual == pytest.approx(((rest**2).mean()) ** 0.5)


@pytest.mark.parametrize("seed", range(20))
def test_no_parameters_within_their_bounds_miss_less_than_those_of_a_fit(seed: int) -> None:
    source = np.random.default_rng(seed)
    counts = sorted(source.choice(np.arange(2, 3000), 8, replace=False).tolist())
    p = np.array([1, *counts], float)
    sigma, kappa = 10 ** source.uniform([-4, -7], [-0.2, -3])
    s = p / (1 + sigma * (p - 1) + kappa * p * (p - 1)) * (1 + 0.1 * source.standard_normal(9))
    s[0] = 1
    for fit in fit_laws([1, *counts], s.tolist(), base=1, over="cores")[:2]:
        assert fit is not None
        found = np.array([fit.parameters.get(name, (0.0,))[0] for name in ("sigma", "kappa")])
        free = [name in fit.parameters for name in ("sigma", "kappa")]
        steps = np.stack(np.meshgrid(*[np.linspace(-0.3, 0.3, 61)] * 2), axis=-1).reshape(-1, 2)
        near = np.maximum(0, np.where(free, found * (1 + steps) + steps * 1e-4, found)).T
        near[0] = np.minimum(1, near[0])
        laws = p / (1 + near[0][:, None] * (p - 1) + near[1][:, None] * p * (p - 1))
        missed = np.sqrt(((laws - s)[:, 1:] ** 2).mean(axis=1))
        assert missed.min() >= fit.residual * (1 - 1e-12)


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


def test_a_parameter_on_its_bound_leaves_the_other_one_its_error() -> None:
    amdahl, usl, _ = fit_laws([1, 2, 4, 8, 16], [1, 1.7, 2.9, 4.7, 6.9], base=1, over="cores")
    assert amdahl is not None
    assert usl is not None
    assert usl.parameters["kappa"][0] == 0
    assert units.is_missing(usl.parameters["kappa"][1]) is True
    assert usl.parameters["sigma"] == pytest.approx(amdahl.parameters["sigma"])
    assert usl.peak is None


def test_a_serial_fraction_is_never_above_one() -> None:
    amdahl, _, _ = fit_laws([1, 2, 4, 8], [1, 0.9, 0.8, 0.5], base=1, over="cores")
    assert amdahl is not None
    assert amdahl.parameters["sigma"][0] == 1


def test_a_stream_record_is_headed_by_its_triad(tmp_path: Path) -> None:
    rows = [
        made.figure(f"{name}_rate", value, "byte/s", "higher", statistic="median", n=3)
        for name, value in (("copy", 5e10), ("add", 7e10), ("triad", 6e10))
    ]
    record = made.record(benchmark="stream", case="s", metrics=rows)
    _, out, _ = call("list", made.write(tmp_path, [made.record(10.0), record]))
    assert "triad 60.00 GB/s" in out
    assert "run time 10.00 s" in out


# --- files ----------------------------------------------------------------------------------------


def test_names_that_are_no_utf8_pipes_and_loops_are_named(tmp_path: Path) -> None:
    results = made.write(tmp_path / "results", [made.record()])
    run = results / made.RUN_ID
    (Path(os.fsdecode(bytes(run) + b"/x\xff.json"))).write_bytes((run / "0000.json").read_bytes())
    os.mkfifo(run / "pipe.json")
    (run / "gone.json").symlink_to("nowhere")
    (run / "20261120T091300Z-7c1f").symlink_to("..")
    loaded = load([results])
    assert loaded.table.num_rows == 1
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
    assert loaded.table.num_rows == 1
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
    table = pq.read_table(packed)
    rest = json.loads(table.schema.metadata[b"trueup"]) | changes
    pq.write_table(table.replace_schema_metadata({"trueup": json.dumps(rest)}), packed)
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
    table = pq.read_table(packed)
    column = pa.array([value], pa.string())
    pq.write_table(table.set_column(table.schema.get_field_index(name), name, column), packed)
    for command in ("list", "report"):
        status, out, err = call(command, packed, "--output", tmp_path / "out")
        assert (status, out, err.count("\n")) == (1, "", 1)
        assert f"holds what no record can hold: {name} " in err


def test_a_title_in_a_csv_holds_no_character_that_a_terminal_obeys(tmp_path: Path) -> None:
    record = made.record(vm_size="=1+1\x1b[31m\r")
    results = made.write(tmp_path, [record, made.record(5.0, threads=2, vm_size=record["vm_size"])])
    _, out, _ = call("scaling", results, "--format", "csv")
    assert ("[31m" in out, "\x1b" in out, "\r" in out) == (True, False, False)


@pytest.mark.parametrize(
    ("command", "output"),
    [("list", "no/x"), ("list", ""), ("pack", "no/x.parquet"), ("report", "file/x")],
)
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
    done = shell('trueup list "$1" >&-', results)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "")


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


def test_a_narrow_terminal_keeps_every_column() -> None:
    columns = [Column("case", "case", words=True), *(Column(f"n{n}", f"n{n}") for n in range(5))]
    row = {"case": "acoustic-so8-128x128x128-tn200", **{f"n{n}": "123456" for n in range(5)}}
    shown = table.render([Sheet(title="t", columns=columns, rows=[row])], width=40)
    assert shown.count("123456") == 5
    assert "acoustic-so8-\n128x128x128-tn200\n" in "".join(
        line[:18].rstrip() + "\n" for line in shown.splitlines()
    )


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


def test_there_are_examples_of_every_command() -> None:
    named = {text.split()[1] for _, text in _examples()}
    assert named == {
        "list",
        "scaling",
        "cost",
        "advise",
        "reference",
        "read",
        "pack",
        "report",
        "topology",
        "prices",
        "presets",
        "sizes",
        "health",
        "checkpoint",
        "flops",
        "import",
        "azure",
        "dryrun",
    }


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


def test_the_phrase_for_machines_outside_azure_is_the_one_that_identify_uses() -> None:
    assert OFF_AZURE in Path(identify.__file__).read_text(encoding="utf-8")


def test_software_versions_are_short_on_the_page(tmp_path: Path) -> None:
    mpi = "Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4, repo rev: v4.1.4, May 26, 2022"
    results = made.write(tmp_path / "r", [made.record(software={"devito": "4.8.23", "mpi": mpi})])
    page = write_report(load([results]), tmp_path / "report").read_text(encoding="utf-8")
    assert "mpi Open MPI v4.1.4<" in page
    assert "package: Debian" not in page


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
    "read": ("--size", "Standard_HB120rs_v3"),
    "advise": ("stencil", "grid=512x512x512", "steps=1000"),
    "azure plan": ("devito-hbv3",),
    "dryrun": ("--inventory", str(ROOT / "inventories" / "example" / "hosts.yml")),
    "checkpoint": ("--gigabytes", "1"),
    "topology check": ("--size", "Standard_ND96asr_v4"),
    "topology write": ("--size", "Standard_ND96asr_v4"),
    "topology show": ("--size", "Standard_ND96asr_v4"),
}
LOGS = {"import": "stream.txt", "read": "stream.txt", "topology check": "topology.xml"}
# The first two ask the network, the third needs prices of one's own.
NOT_TRIED = {"prices refresh", "azure leftovers", "prices diff"}
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


def test_every_commands_paths_are_tried() -> None:
    assert {("list", "sources", True), ("read", "files", True)} <= set(paths())
    assert len(paths()) > 40


@pytest.mark.parametrize(("name", "option", "bare"), paths())
def test_a_path_that_cannot_be_ends_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, option: str, bare: bool
) -> None:
    run = tmp_path / "results" / RUN_ID
    run.mkdir(parents=True)
    (run / GOOD).write_text(json.dumps(good_record()))
    shutil.copy(STREAM, tmp_path / "stream.txt")
    monkeypatch.chdir(tmp_path)
    size = ("--size", "Standard_ND96asr_v4")
    assert call("topology", "write", *size, "--output", "topology.xml")[0] == 0
    for path in NO_PATHS:
        beside = BESIDE.get(name, ())
        beside += () if bare or name not in LOGS else (LOGS[name],)
        status, out, err = call(*name.split(), *beside, *([path] if bare else [option, path]))
        said = [line for line in err.splitlines() if "error: " in line]
        unclean = {char for char in err + out if not char.isprintable()} - {"\n"}
        # Of health 1 would say that a node failed.
        statuses = {2, 64} if name == "health" else {1, 64}
        assert (status in statuses, len(said), unclean) == (True, 1, set()), err
        assert path[:9] in said[0]
