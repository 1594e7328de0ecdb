"""HBv3 nodes of Azure's HPC image of Ubuntu 22.04 (replicas) are configured and measured."""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path
from typing import Any

import pytest
from testinfra.host import Host

DATA = Path(__file__).parents[3] / "tests/data/images"
IMAGE = "ubuntu-22.04"
NAMES: dict[str, str] = json.loads((DATA / "names.json").read_text(encoding="utf-8"))[IMAGE]
HPCX = f"/opt/{NAMES['hpcx']}"
NODES = ["trueup-replica-1", "trueup-replica-2"]
# The role hpcx makes this link beside the image's folder.
OURS = {"/opt/hpcx"}
KINDS = {"regular file": "file", "regular empty file": "file", "directory": "folder"}
KINDS |= {"symbolic link": "link"}


@pytest.fixture(scope="module")
def records() -> list[dict[str, Any]]:
    """What Devito recorded in the last run."""
    runs = sorted(Path(os.environ["TRUEUP_RESULTS"]).iterdir())
    read = [json.loads(path.read_text(encoding="utf-8")) for path in runs[-1].glob("devito*.json")]
    return sorted(read, key=lambda record: record["node_count"])


def said(record: dict[str, Any]) -> dict[str, Any]:
    """What the ranks themselves said of where they ran."""
    run = max(Path(os.environ["TRUEUP_RESULTS"]).iterdir())
    lines = (run / record["raw"]["path"]).read_text(encoding="utf-8").splitlines()
    (line,) = [line for line in lines if line.startswith("trueup-devito ")]
    return dict(json.loads(line.partition(" ")[2]))


def test_every_path_of_the_image_is_there_with_its_mode(host: Host) -> None:
    with (DATA / "rows.csv").open(encoding="utf-8") as file:
        rows = [
            {**row, "path": row["path"].format(**NAMES)}
            for row in csv.DictReader(file)
            if row["images"] == "all" or IMAGE in row["images"].split()
        ]
    paths = " ".join(row["path"] for row in rows)
    lines = host.run(f"stat --format '%n|%04a|%F' {paths} 2>/dev/null").stdout.splitlines()
    found = {name: (mode, KINDS[kind]) for name, mode, kind in (one.split("|") for one in lines)}
    wrong = {}
    for row in rows:
        mode, kind = found.get(row["path"], ("", "absent"))
        wanted = (row["mode"], row["kind"].replace("appended", "file"))
        if (mode if row["mode"] else "", kind) != wanted and row["path"] not in OURS:
            wrong[row["path"]] = (mode, kind)
    assert wrong == {}
    assert len(found) > 100


def test_modules_run_under_the_images_python(host: Host) -> None:
    assert host.check_output("python3 --version").startswith(f"Python {NAMES['python']}.")
    assert host.run("python3.11 --version").rc == 127


def test_an_hbv3_of_this_image_is_degraded_and_well(host: Host) -> None:
    failed = host.run("systemctl --failed --plain --no-legend").stdout
    units = {line.split()[0] for line in failed.splitlines()}
    needs_gpu = {f"{unit}.service" for unit in ("gdrcopy", "nvidia-fabricmanager")}
    assert needs_gpu - units == set()
    assert [unit for unit in units if "trueup" in unit] == []


def test_holds_and_the_stack_of_the_image_stand(host: Host) -> None:
    held = set(host.check_output("apt-mark showhold").splitlines())
    assert {"libnccl2", "pmix", "gdrcopy"} - held == set()
    query = "dpkg-query --show --showformat '${Package} ' doca-ofed hpcx-provides-openmpi"
    assert host.check_output(query).split() == ["doca-ofed", "hpcx-provides-openmpi"]
    assert host.run("which mpirun").rc == 1
    # Else apt installs nothing, and removes nothing either.
    assert host.run("apt-get --simulate check").rc == 0


def test_devito_ran_over_both_nodes_through_the_images_hpcx(records: list[dict[str, Any]]) -> None:
    assert [one["node_count"] for one in records] == [1, 2]
    # A problem of 48^3 takes less than a second, and longer where both nodes share two cores.
    assert {one["outcome"] for one in records} <= {"ok", "too_short"}
    two = records[-1]
    assert two["nodes"] == NODES
    assert two["command"][0] == f"{HPCX}/ompi/bin/mpirun"
    assert two["environment"]["OPAL_PREFIX"] == f"{HPCX}/ompi"
    assert said(two)["hosts"] == NODES
    assert two["software"]["python"].startswith(NAMES["python"])


def test_the_ranks_say_that_they_are_bound_as_asked(records: list[dict[str, Any]]) -> None:
    assert [said(one)["cpus"] for one in records] == [["0", "1"], ["0-1", "0-1"]]


def test_mpi_for_python_loads_libmpi_of_that_folder(host: Host) -> None:
    code = (
        "from mpi4py import MPI; print(*{line.split()[-1] for line in open('/proc/self/maps')"
        " if 'libmpi.so' in line})"
    )
    environment = f"OPAL_PREFIX={HPCX}/ompi LD_LIBRARY_PATH={HPCX}/ompi/lib"
    loaded = host.check_output(f'{environment} /shared/devito/venv/bin/python -c "{code}"')
    assert Path(loaded).parent == Path(f"{HPCX}/ompi/lib")


def test_hpl_was_built_from_source_and_solved_a_system_on_one_node_and_on_both() -> None:
    run = max(Path(os.environ["TRUEUP_RESULTS"]).iterdir())
    read = [json.loads(path.read_text(encoding="utf-8")) for path in run.glob("hpl*.json")]
    one, two = sorted(read, key=lambda record: record["node_count"])
    assert ([one["nodes"], two["nodes"]], one["ranks"], two["ranks"]) == ([NODES[:1], NODES], 2, 4)
    for record in (one, two):
        # The residual passed; a short problem takes less than a second.
        assert record["outcome"] in {"ok", "too_short"}
        assert record["parameters"]["n"] == 1920
        assert record["software"]["hpl"] == "2.0"
        assert record["environment"]["OPAL_PREFIX"] == f"{HPCX}/ompi"
        assert {row["name"] for row in record["metrics"]} >= {"hpl_rate", "hpl_time"}
    assert two["command"][0] == f"{HPCX}/ompi/bin/mpirun"


def test_what_ran_is_gone(host: Host) -> None:
    running = host.check_output("ps -eo args=").splitlines()
    programs = ("devito_driver", "orted", "xhpl")
    assert [line for line in running if any(name in line for name in programs)] == []
    # Open MPI's files, on the node that started the ranks and on the other one.
    assert host.run("ls -d /dev/shm/trueup-case-* /dev/shm/vader_segment.*").stdout == ""
