"""The module gromacs_bench and its driver: success, check mode, missing tool, unusable output,
refusals, and that the folder is gone afterwards."""

from __future__ import annotations

import hashlib
import json
import stat
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import gromacs_bench
import pytest
from ansible.module_utils.trueup_node.benchmarks.gromacs import case as gromacs
from ansible.module_utils.trueup_node.benchmarks.gromacs.output import parse_log
from bench_modules import FakeRun, checks_only, ends_badly, goes_well, refuses, resumes
from helpers import parametrized

ROOT = Path(__file__).parent.parent.parent
DATA = ROOT / "tests" / "data" / "gromacs"
DRIVER = ROOT / "roles" / "gromacs" / "files" / "gromacs_driver.py"
GOOD = (DATA / "driver_r1t2.txt").read_text()
TWO_RANKS = (DATA / "driver_r2t1.txt").read_text()
SUM = "ab" * 32


@pytest.fixture(name="run_module")
def _run_module(runner: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    monkeypatch.setattr(gromacs_bench.os, "sched_getaffinity", lambda _: set(range(8)))
    (tmp_path / "runs").mkdir()
    return runner(
        gromacs_bench,
        prefix="/opt/trueup",
        directory=str(tmp_path / "runs"),
        water_box=2.5,
        threads_per_rank=2,
        steps=2000,
    )


def test_a_good_run_gives_a_record_and_leaves_nothing(run_module: Any, tmp_path: Path) -> None:
    run = FakeRun(stdout=GOOD)
    result, record = goes_well(run_module, run, environment={"UCX_TLS": "rc"})
    assert record["case"] == "water2.5nm-r1t2"
    assert record["software"] == {"gromacs": "2022.5-Debian_2022.5_2"}
    assert (record["ranks"], record["threads_per_rank"], record["gpus"]) == (1, 2, 0)
    parameters = record["parameters"]
    assert (parameters["atoms"], parameters["reset_step"], parameters["nb"]) == (1530, 1000, "cpu")
    assert (parameters["layout"], parameters["steps_timed"]) == ("1x2", 1001)
    assert {row["name"]: row["unit"] for row in record["metrics"]} == {
        "step_rate": "1/s",
        "simulation_rate": "ns/day",
        "run_time": "s",
        "energy_drift": "kJ/mol/ps",
    }
    assert result["ansible_facts"] == {"trueup_gromacs": record}
    assert run.calls[0]["argv"][1] == "/opt/trueup/gromacs_driver.py"
    assert run.calls[0]["environment"] == {"UCX_TLS": "rc"} == result["environment"]
    assert list((tmp_path / "runs").iterdir()) == []


test_check_mode_returns_the_same_keys_and_runs_nothing = checks_only(GOOD, leaves="runs")


test_a_bad_end_gives_a_record_with_the_reason_and_leaves_nothing = ends_badly(
    (
        {"returncode": 139, "stdout": (DATA / "driver_blown_up.txt").read_text()},
        "failed",
        "was killed by SIGSEGV after 4.5 s: step 0: One or more water molecules can not be",
    ),
    (
        {"returncode": 1, "stdout": (DATA / "driver_no_gpu.txt").read_text()},
        "failed",
        "exit status 1 after 4.5 s: ",
    ),
    ({"stdout": GOOD[:3000]}, "failed", "output not understood"),
    ({"stdout": GOOD.replace("1530", "1531")}, "failed", "the log above is damaged"),
    ({"stdout": ""}, "failed", "no line 'GROMACS version:'"),
    ({"timed_out": True}, "failed", "time limit of 1800 s"),
    ({"stdout": (DATA / "md_r1t1.log").read_text()}, "invalid", "result line is missing"),
    ({"stdout": TWO_RANKS}, "invalid", "2 ranks ran instead of 1"),
    leaves="runs",
)


@parametrized(("arguments", "reason"))
def test_a_run_that_was_not_as_asked_is_invalid(
    run_module: Any, arguments: dict[str, Any], reason: str
) -> None:
    result = run_module(FakeRun(stdout=GOOD), **arguments)
    assert result["record"]["outcome"] == "invalid"
    assert reason in result["record"]["reason"]


test_bad_input_is_refused_before_anything_runs = refuses(
    ({"tpr": "/data/a.tpr"}, "is no sha256"),
    ({"tpr_sha256": SUM}, "leave it out"),
    ({"tpr": "/no/a.tpr", "tpr_sha256": SUM}, "is not a file on this node"),
    ({"water_box": 1.0}, "water_box is 1.0: it must be 2.4 or more, 60 or less"),
    ({"ranks": 0}, "ranks is 0: it must be 1 or more"),
    ({"ranks": 5}, "5 ranks x 2 threads are more than the 8 CPUs there are"),
    ({"steps": 10}, "steps is 10: it must be 100 or more"),
    ({"reset_step": 2000}, "reset_step 2000 is not before the end"),
    ({"drift_allowed": 0}, "drift_allowed is 0.0: it must be 1e-09 or more"),
    ({"nb": "cpu", "pme": "gpu"}, "nb is cpu"),
    ({"directory": "/no/such/folder"}, "/no/such/folder is not a folder on this node"),
    ({"timeout_seconds": 0}, "timeout_seconds is 0: it must be 1 or more"),
)


def test_a_part_on_the_gpu_that_was_to_be_on_the_cpu() -> None:
    output = parse_log((DATA / "synthetic_gpu2026.log").read_text())
    assert output.gpus == 1
    asked = {"nb": "auto", "pme": "auto", "bonded": "auto", "update": "cpu"}
    chosen = gromacs.Settings("", "", 2.5, 1, 1, 600, 300, asked, "on", tune_pme=False)
    assert gromacs.judge(output, chosen, drift_allowed=1.0) == "the driver's result line is missing"
    object.__setattr__(output, "driver", {"tpr_sha256": SUM})
    reason = gromacs.judge(output, chosen, drift_allowed=1.0)
    assert reason == "update ran on a GPU, and the CPU was asked for"


EESSI = {
    "source": "eessi",
    "eessi_init": "/cvmfs/software.eessi.io/versions/2023.06/init/lmod/bash",
    "eessi_module": "GROMACS/2024.4-foss-2023b",
}
IMAGE = {
    "source": "container",
    "container_image": "/images/gromacs.sif",
    "container_sha256": SUM,
    "nb": "gpu",
}


def test_the_driver_runs_within_eessi_and_the_record_names_the_module(run_module: Any) -> None:
    command = run_module(FakeRun(stdout=GOOD), check=True, **EESSI)["command"]
    assert command[:2] == ["bash", "-c"]
    assert command[3:6] == ["bash", EESSI["eessi_init"], EESSI["eessi_module"]]
    assert command[7] == "/opt/trueup/gromacs_driver.py"
    missing = run_module(FakeRun(stdout=GOOD), **EESSI)
    assert "init/lmod/bash is not a file on this node: is EESSI mounted" in missing["msg"]


@pytest.mark.parametrize("runtime", ["apptainer", "enroot"])
def test_each_program_runs_within_the_image(run_module: Any, runtime: str) -> None:
    wanted = {**IMAGE, "container_runtime": runtime, "environment": {"UCX_TLS": "rc"}}
    command = run_module(FakeRun(stdout=GOOD), check=True, **wanted)["command"]
    inside = [word.removeprefix("--inside=") for word in command if word.startswith("--inside=")]
    folder = command[command.index("--folder") + 1]
    assert command[command.index("--image-sha256") + 1] == SUM
    expected = {
        "apptainer": ["apptainer", "exec", "--nv", "--bind", folder, "--pwd", folder],
        "enroot": ["enroot", "start", "--env", "UCX_TLS", "--mount", f"{folder}:{folder}"],
    }[runtime]
    assert inside[: len(expected)] == expected
    assert IMAGE["container_image"] in inside


@parametrized(("arguments", "message"))
def test_half_a_source_is_refused(run_module: Any, arguments: dict[str, Any], message: str) -> None:
    result = run_module(FakeRun(stdout=GOOD), **arguments)
    assert (result["failed"], result["record"]) == (True, None)
    assert message in result["msg"]


def test_a_module_that_eessi_does_not_have_is_the_reason() -> None:
    said = (
        'Lmod has detected the following error: The following module(s) are unknown:\n"GROMACS/1"\n'
    )
    assert gromacs.why_failed(said) == said.splitlines()[0]
    assert gromacs.why_failed("nothing to see") is None


@pytest.mark.parametrize(
    ("node", "found"),
    [
        ((2, 1, 1, 0, "auto", 4.0), [(1, 2, None), (2, 1, None)]),
        # HBv3: 16 uneven groups of L3 would leave cores idle.
        ((120, 4, 16, 0, "auto", 0.0), [(1, 64, None), (4, 30, None)]),
        ((96, 4, 24, 0, "auto", 0.0), [(1, 64, None), (4, 24, None), (24, 4, None)]),
        # A box of 2.5 nm is too small for more than 8 domains.
        ((96, 4, 24, 0, "auto", 2.5), [(1, 64, None), (4, 24, None)]),
        ((96, 4, 24, 8, "gpu", 0.0), [(1, 12, None), (8, 12, 1)]),
        ((96, 4, 24, 8, "cpu", 0.0), [(1, 12, None), (8, 12, None)]),
        ((24, 1, 3, 1, "auto", 0.0), [(1, 24, None)]),
    ],
)
def test_layouts_follow_the_topology(
    node: tuple[int, int, int, int, str, float], found: list[tuple[int, int, int | None]]
) -> None:
    cores, numa, groups, gpus, pme, box = node
    made = gromacs.layouts(cores, numa=numa, l3_groups=groups, gpus=gpus, pme=pme, water_box=box)
    rows = [(row["ranks"], row["threads_per_rank"], row.get("pme_ranks")) for row in made]
    assert rows == found


# --- the driver, with a program that stands in for gmx

STAND_IN = """#!{python}
import pathlib, sys
words = sys.argv[1:]
if words == ["--version"]:
    print("MPI library:        {library}")
    sys.exit(0)
with open("{calls}", "a") as stream:
    stream.write(" ".join(words) + chr(10))
if "-o" in words:
    pathlib.Path(words[words.index("-o") + 1]).write_text("x")
if "md.log" in words:
    pathlib.Path("md.log").write_text("the log" + chr(10))
    print("Performance: on the terminal")
    sys.exit({status})
"""


def drive(tmp_path: Path, *words: str, library: str = "thread_mpi", status: int = 0) -> Any:
    program, calls, folder = tmp_path / "gmx", tmp_path / "calls", tmp_path / "run"
    folder.mkdir()
    body = STAND_IN.format(python=sys.executable, library=library, calls=calls, status=status)
    program.write_text(body)
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    argv = [sys.executable, str(DRIVER), "--program", str(program), "--folder", str(folder)]
    argv += ["--steps", "200", "--reset-step", "100", *words]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    return done, calls.read_text().splitlines() if calls.exists() else []


def test_the_driver_builds_water_and_prints_the_log(tmp_path: Path) -> None:
    done, calls = drive(tmp_path, "--water-box", "3", "--ranks", "2", "--threads", "4")
    assert done.returncode == 0
    log, last = done.stdout.splitlines()
    assert log == "the log"
    assert json.loads(last.removeprefix("trueup-gromacs "))["format"] == 1
    assert [line.split()[0] for line in calls] == [
        *("solvate", "grompp", "mdrun", "grompp", "mdrun", "grompp", "mdrun")
    ]
    assert "-ntmpi 2" in calls[-1]
    assert "-resetstep 100 -pin on -ntomp 4 -notunepme" in calls[-1]
    assert "-npme" not in calls[-1]
    assert "nsteps = 200" in (tmp_path / "run" / "md.mdp").read_text()


@parametrized(("words", "options", "status", "said"))
def test_the_driver_says_why_it_failed(
    tmp_path: Path, words: list[str], options: dict[str, Any], status: int, said: str
) -> None:
    tpr = tmp_path / "a.tpr"
    tpr.write_text("x")
    done, _ = drive(tmp_path, *[word.format(tpr=tpr) for word in words], **options)
    assert done.returncode == status
    assert said in done.stdout
    assert "trueup-gromacs" not in done.stdout
    assert "Traceback" not in done.stdout + done.stderr


def test_a_record_of_the_run_stands_for_its_case(run_module: Any, tmp_path: Path) -> None:
    driver = json.loads(GOOD.splitlines()[-1].removeprefix("trueup-gromacs "))
    for name in ("a.tpr", "b.tpr", "init", "a.sif", "b.sif"):
        (tmp_path / name).touch()
    (tmp_path / "elsewhere").mkdir()
    eessi = {**EESSI, "eessi_init": str(tmp_path / "init")}
    image = {**IMAGE, "container_image": str(tmp_path / "a.sif"), "nb": "auto"}
    file = {"tpr": str(tmp_path / "a.tpr"), "tpr_sha256": driver["tpr_sha256"]}
    changed = {
        "prefix": "/srv/trueup",
        "source": "system",
        "eessi_init": str(tmp_path / "b.sif"),
        "eessi_module": "GROMACS/2025.4-foss-2025b",
        "container_image": str(tmp_path / "b.sif"),
        "container_sha256": "cd" * 32,
        "container_runtime": "enroot",
        "program": "gmx_mpi",
        "mpirun": "/opt/mpirun",
        "environment": {"UCX_TLS": "rc"},
        "directory": str(tmp_path / "elsewhere"),
        "tpr": str(tmp_path / "b.tpr"),
        "tpr_sha256": SUM,
        "water_box": 3.0,
        "ranks": 2,
        "pme_ranks": 0,
        "threads_per_rank": 1,
        **dict.fromkeys(gromacs.OFFLOAD, "cpu"),
        "steps": 3000,
        "reset_step": 500,
        "pin": "off",
        "tune_pme": True,
        "drift_allowed": 0.004,
    }
    along = {
        "source": eessi,
        **dict.fromkeys(("eessi_init", "eessi_module"), eessi),
        **dict.fromkeys(("container_image", "container_sha256", "container_runtime"), image),
        **dict.fromkeys(("tpr", "tpr_sha256"), file),
    }
    resumes(run_module, lambda: FakeRun(stdout=GOOD), gromacs_bench, changed, along=along)


def archive(path: Path, *names: str, cut: int | None = None) -> list[str]:
    """A .zip with files of these names, and the driver's words for it."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        for name in names:
            packed.writestr(name, f"content of {name} " * 99)
    path.write_bytes(path.read_bytes()[:cut])
    return ["--tpr", str(path), "--sha256", hashlib.sha256(path.read_bytes()).hexdigest()]


def test_the_driver_unpacks_an_input(tmp_path: Path) -> None:
    words = archive(tmp_path / "bench.zip", "README", "../deep/benchPEP-h.tpr")
    done, calls = drive(tmp_path, *words)
    assert done.returncode == 0
    result = json.loads(done.stdout.splitlines()[-1].removeprefix("trueup-gromacs "))
    assert result["tpr_sha256"] == words[3]
    target = tmp_path / "run" / "input.tpr"
    assert f"-s {target} " in calls[-1]
    assert target.read_text() == "content of ../deep/benchPEP-h.tpr " * 99
    assert not (tmp_path / "deep").exists()


@parametrized(("names", "cut", "said"))
def test_an_archive_that_is_no_input_is_refused(
    tmp_path: Path, names: list[str], cut: int | None, said: str
) -> None:
    done, calls = drive(tmp_path, *archive(tmp_path / "bench.zip", *names, cut=cut))
    assert (done.returncode, said in done.stdout) == (2, True)
    assert [line for line in calls if "mdrun" in line] == []


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
@pytest.mark.parametrize("fill", [b"\xff", b"\x00"])
def test_an_archive_with_a_damaged_file_is_refused(
    tmp_path: Path, method: int, fill: bytes
) -> None:
    """Its directory is whole; what is packed is not."""
    path = tmp_path / "bench.zip"
    with zipfile.ZipFile(path, "w", method) as packed:
        packed.writestr("a.tpr", bytes(range(256)) * 40)
        size = packed.infolist()[0].compress_size
    whole = path.read_bytes()
    first = 30 + len("a.tpr")
    damaged = (
        whole[: first + size // 4] + fill * (size // 2) + whole[first + size // 4 + size // 2 :]
    )
    path.write_bytes(damaged)
    words = ["--tpr", str(path), "--sha256", hashlib.sha256(damaged).hexdigest()]
    done, calls = drive(tmp_path, *words)
    said = "cannot be unpacked" in done.stdout, "Traceback" in done.stdout + done.stderr
    assert (done.returncode, *said) == (2, True, False)
    assert [line for line in calls if "mdrun" in line] == []


@pytest.mark.parametrize(
    ("tuned", "name"), [(True, "water2.5nm-r1t2-tuned"), (False, "water2.5nm-r1t2")]
)
def test_tuning_is_a_recorded_choice(run_module: Any, tuned: bool, name: str) -> None:
    run = FakeRun(stdout=GOOD)
    _, record = goes_well(run_module, run, tune_pme=tuned)
    assert (record["case"], record["parameters"]["tune_pme"]) == (name, tuned)
    assert ("--tune-pme" in record["command"]) is tuned
