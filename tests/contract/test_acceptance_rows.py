"""Rows of catalog/acceptance.yml hold on to what modules publish and what the catalog expects; the
play over this machine, which is taken for another size."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import plays
import pytest
import role_plans
import untested
import yaml
from action import trueup_acceptance
from trueup_controller import acceptance

ROOT = Path(__file__).parents[2]
ROWS = acceptance.rows(yaml.safe_load((ROOT / acceptance.FILE).read_text()))
CHECKS = [(row, check) for row in ROWS for check in row.checks]
MODULES = {"node": "azure_node_facts", "gpu": "gpu_facts", "rdma": "ib_facts"}
FACTS = {"node": "trueup_node", "gpu": "trueup_gpu", "rdma": "trueup_rdma"}
# Programs that change nothing, whatever their arguments, or with these.
READS = (
    *(["nvidia-smi", "-q"], ["apt-cache", "policy"], ["dpkg", "-l"], ["gcc", "--version"]),
    *(["scontrol", "show"], ["srun", "--mpi=list"], ["srun", "--help"], ["systemctl", "is-active"]),
    *(["ip", "-4", "address", "show"], ["findmnt", "--noheadings"], ["cvmfs_config", "chksetup"]),
    *(["cmp", "--bytes=100000000000"], ["prlimit", "--raw", "--noheadings", "--output=SOFT"]),
    # It leaves the clocks as role gpu_clocks set them; the others are jobs that change nothing.
    ["/usr/local/libexec/trueup/gpu_clocks", "verify"],
    *(["srun", "--mem=100", "--immediate=60"], ["srun", "--gpus=2", "--immediate=60"]),
)


def documented(root: str) -> dict[str, Any]:
    """What a module's page says of its fact."""
    page = yaml.safe_load(importlib.import_module(MODULES[root]).RETURN)
    found: dict[str, Any] = page["ansible_facts"]["contains"][FACTS[root]]["contains"]
    return found


PATHS = sorted({check.fact for _, check in CHECKS if check.fact})


@pytest.mark.parametrize("path", PATHS)
def test_a_fact_is_one_that_a_module_publishes(path: str) -> None:
    root, *names = [name for name in path.split(".") if name != "*" and not name.isdigit()]
    if root == "run":
        assert names[0] in {"changed", "failed", "unreachable", "after_boot"}
        return
    assert names[0] in documented(root)


def test_rows_are_for_what_a_node_is() -> None:
    members = documented("node")
    assert {name for row in ROWS for name in row.applies} - set(members) == set()
    assert [row.id for row in ROWS if row.checks and not (row.applies or row.needs)] == []


def test_commands_only_read_and_end_in_time() -> None:
    commands = {tuple(check.command): check.seconds for _, check in CHECKS if check.command}
    assert [argv for argv in commands if not any([*argv[: len(one)]] == one for one in READS)] == []
    assert sum(commands.values()) <= 20 * 60


def test_figures_are_the_catalogs() -> None:
    """What health expects of the size is what the row wants."""
    units = {"MB/s": 1e6, "GB/s": 1e9, "Gb/s": 1e9, "TFLOP/s": 1e12}
    page = yaml.safe_load((ROOT / "catalog" / "expectations.yml").read_text())
    expected: dict[tuple[str, str], set[float]] = {}
    for one in page["expectations"]:
        factor = units.get(one["unit"], 1)
        limits = {"at_least": "floor", "at_most": "ceiling", "exactly": "value"}
        values = {value[limits[one["comparison"]]] * factor for value in one["values"]}
        expected.setdefault((one["benchmark"], one["metric"]), set()).update(values)
    wanted = {
        (check.record, check.metric, check.from_)
        for _, check in CHECKS
        if check.from_ is not None and check.record
    }
    lost = {one for one in wanted if one[2] not in expected.get(one[:2], {one[2]})}
    assert lost == set()


@pytest.mark.parametrize("family", ["hbv3", "ndv4"])
def test_one_hour_settles_the_rows_of_a_machine(family: str) -> None:
    """Those that the play settles on one such machine alone, measuring included."""
    rows = untested.alone(ROWS, family)
    assert (untested.minutes(ROWS, family) <= 60, len(rows) >= 15) == (True, True)
    assert [row.id for row in rows if not row.checks] == []


@pytest.mark.parametrize("family", ["hbv3", "ndv4"])
def test_a_row_by_hand_that_fits_a_machine_says_why(family: str) -> None:
    """It is not the size that it lacks alone."""
    node = role_plans.node(family, "ubuntu-22.04", hpc_image={"HPCX": "2"})
    fitting = [row for row in ROWS if acceptance.misfit(row, node) is None]
    assert [row.id for row in fitting if not row.checks and set(row.beyond) <= {"size"}] == []
    assert {word for row in ROWS for word in row.beyond} == set(acceptance.BEYOND)


def test_places_of_gpus_are_the_catalogs() -> None:
    topologies = yaml.safe_load((ROOT / "catalog" / "topologies.yml").read_text())["layouts"]
    wanted = {
        f"/sys/bus/pci/devices/{pair['gpu']}/local_cpulist": [f"^{node['cores']}$"]
        for node in topologies["ndv4"]["numa"]
        for bridge in node["bridges"].values()
        for pair in bridge
    }
    [row] = [row for row in ROWS if row.id == "gpu-places"]
    assert {
        check.file: [pattern.pattern for pattern in check.has] for check in row.checks
    } == wanted


def test_adapters_are_read_again_as_the_plays_read_them() -> None:
    tasks = yaml.safe_load((ROOT / "playbooks" / "tasks" / "parts.yml").read_text())
    [asked] = [task["ib_facts"]["flap_hours"] for task in tasks if "ib_facts" in task]
    assert asked == trueup_acceptance.FLAP_HOURS


CHANGING = [pytest.param(row, id=row.id) for row in ROWS if row.steps]


@pytest.mark.parametrize("row", CHANGING)
def test_steps_end_within_the_rows_minutes(row: acceptance.Row) -> None:
    limits = [step.seconds for step in (*row.steps, *row.restore)]
    assert (sum(limits) <= row.minutes * 60, bool(row.given)) == (True, True)


@pytest.mark.parametrize("row", CHANGING)
def test_what_a_step_takes_away_is_put_back(row: acceptance.Row) -> None:
    """By the same program, or the file that was kept is put where it was."""
    steps, back = ([" ".join(one.run) for one in part] for part in (row.steps, row.restore))
    kept = [step.split()[-2:] for step in steps if step.startswith("cp ")]
    assert [
        (old, new) for old, new in kept if not any(f"mv {new} {old}" in one for one in back)
    ] == []
    changing = ("ip link", "systemctl", "nvidia-smi -rgc", "sed -i")
    puts = ("ip link", "systemctl", "gpu_clocks lock", "mv ")
    for taken, given in zip(changing, puts, strict=True):
        taking = [step for step in steps if step.startswith(taken)]
        assert (bool(taking), bool(taking and any(given in one for one in back))) in {
            (True, True),
            (False, False),
        }


SHELLS = [
    pytest.param(argv[2], id=f"{row.id}-{number}")
    for row in ROWS
    for number, argv in enumerate([row.given, *(one.run for one in (*row.steps, *row.restore))])
    if argv[:2] == ["sh", "-c"]
]


@pytest.mark.parametrize("text", SHELLS)
def test_a_shells_text_is_understood(text: str) -> None:
    done = subprocess.run(["sh", "-n", "-c", text], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.fixture(scope="module", name="ran")
def _ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[int, str, dict[str, Any]]:
    """Exit status, what was said, and the bundle, for this machine as an HBv3."""
    folder = tmp_path_factory.mktemp("acceptance")
    local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    sized = {**local, "trueup_vm_size": "Standard_HB120rs_v3"}
    (folder / "hosts.json").write_text(json.dumps({"all": {"hosts": {"a": sized, "b": local}}}))
    nowhere = "trueup_metadata_url=http://127.0.0.1:9"
    done = plays.playbook(
        folder, "-i", str(folder / "hosts.json"), "playbooks/acceptance.yml", "-e", nowhere
    )
    print(done.stdout, done.stderr)
    [bundle] = (folder / "results" / "acceptance").glob("*.json")
    return done.returncode, done.stdout, json.loads(bundle.read_text())


def test_the_play_writes_one_bundle_of_all_machines(ran: Any) -> None:
    status, said, bundle = ran
    assert bundle["schema"] == acceptance.SCHEMA
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", bundle["date"])
    sized, local = bundle["machines"]
    assert [(one["host"], one["family"], one["replica"]) for one in (sized, local)] == [
        ("a", "hbv3", None),
        ("b", "local", None),
    ]
    # This machine is no HBv3, and the play says so.
    outcomes = {one["row"]: one["outcome"] for one in sized["rows"]}
    assert outcomes["topology-hbv3"] == "failed"
    assert outcomes["stream-hbv3"] == "not measured"
    assert outcomes["nccl-ndv4"] == "not applicable"
    assert {one["outcome"] for one in local["rows"]} == {"not applicable"}
    assert "killed-controller" in local["by_hand"]
    assert status != 0
    assert "stream-hbv3: not measured" in said


def test_each_result_has_evidence(ran: Any) -> None:
    _, _, bundle = ran
    rows = [one for machine in bundle["machines"] for one in machine["rows"]]
    assert [
        one for one in rows if not one["evidence"] or set(one) != {"row", "outcome", "evidence"}
    ] == []
