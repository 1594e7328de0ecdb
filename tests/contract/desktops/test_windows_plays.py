"""One run of one inventory has Linux nodes and Windows hosts: simulated ones, one of which is dead.

Expected figures are those of windows_a10.md: NV12ads_A10_v5 has 12 vCPUs, 110 GiB and an A10-8Q.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import plays
import pytest
from simulated_windows import Host, grid, serving

SIZE = "Standard_NV12ads_A10_v5"
PASSWORD = "of-the-administrator-7c1e"
LINUX = {
    "ansible_connection": "local",
    "ansible_python_interpreter": sys.executable,
    "trueup_metadata_url": "http://127.0.0.1:9",
}
# A Linux node and the hosts of the group are configured for what they are, and measured in no case.
QUICK = {"trueup_benchmarks": [], "trueup_health_benchmarks": []}


@dataclass(frozen=True)
class Ran:
    """What a run was: exit status, all that it said, its run.json, and node_state by host."""

    status: int
    said: str
    manifest: dict[str, Any] = field(default_factory=dict)
    records: dict[str, dict[str, Any]] = field(default_factory=dict)


def fresh(name: str) -> Host:
    host = Host.nv_a10(SIZE, name)
    host.users = {"trueup": PASSWORD}
    return host


def driven(name: str, error_code: int = 0) -> Host:
    """A host as the role windows_gpu leaves it; with an error code its GPU does not work."""
    host = grid.settled(fresh(name))
    host.gpus[0].error_code = error_code
    return host


def dead(name: str) -> Host:
    host = fresh(name)
    host.faults.dead = True
    return host


@contextlib.contextmanager
def inventory(
    folder: Path, *hosts: Host, linux: tuple[str, ...] = (), **of_windows: Any
) -> Iterator[dict[str, Any]]:
    """The file hosts.json of simulated hosts, and of Linux nodes, all of them this machine."""
    with contextlib.ExitStack() as stack:
        found = {host.name: stack.enter_context(serving(host))[1] for host in hosts}
        whole = {
            "hosts": dict.fromkeys(linux, LINUX),
            "children": {"windows": {"hosts": found, "vars": of_windows}},
        }
        (folder / "hosts.json").write_text(json.dumps({"all": whole}))
        yield whole


def play(folder: Path, name: str, *options: str, **variables: Any) -> Ran:
    """Run one of the project's playbooks."""
    given = json.dumps({**QUICK, **variables})
    done = plays.playbook(folder, "-i", str(folder / "hosts.json"), name, "-e", given, *options)
    print(done.stdout, done.stderr)
    said = " ".join((done.stdout + done.stderr).split())
    manifests = [json.loads(path.read_text()) for path in folder.glob("results/*/run.json")]
    recorded = [json.loads(path.read_text()) for path in folder.glob("results/*/node_state-*.json")]
    return Ran(
        done.returncode,
        said,
        manifests[0] if manifests else {},
        {record["nodes"][0]: record for record in recorded},
    )


# ---- site.yml -----------------------------------------------------------------------------------


@pytest.fixture(scope="module", name="mixed")
def _mixed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Ran, Path, list[Host]]:
    """site.yml over a Linux node and three Windows hosts: one that is well, one whose GPU
    Windows has stopped, and one that is dead."""
    folder = tmp_path_factory.mktemp("mixed")
    hosts = [driven("nv-well"), driven("nv-stopped", error_code=43), dead("nv-dead")]
    with inventory(folder, *hosts, linux=("this-machine",)):
        ran = play(folder, "site.yml", trueup_report=str(folder / "report"))
    return ran, folder, hosts


def test_the_dead_host_is_named_and_costs_the_others_nothing(mixed: Any) -> None:
    ran, _, _ = mixed
    assert ran.status != 0
    assert ran.manifest["expected"] == ["nv-dead", "nv-stopped", "nv-well", "this-machine"]
    lost = {name: host["unreachable"] for name, host in ran.manifest["hosts"].items()}
    assert lost == {"nv-dead": 1, "nv-stopped": 0, "nv-well": 0, "this-machine": 0}
    assert "fatal: [nv-dead]: UNREACHABLE!" in ran.said
    assert "nv-dead: not measured: any record (unreachable)." in ran.said
    assert sorted(ran.records) == ["nv-stopped", "nv-well", "this-machine"]


def test_both_kinds_are_in_one_run_and_one_report(mixed: Any) -> None:
    ran, folder, _ = mixed
    runs = {record["run_id"] for record in ran.records.values()}
    assert runs == {ran.manifest["run_id"]}
    [page] = (folder / "report").glob("*.html")
    text = page.read_text()
    named = [name for name in ("nv-dead", "nv-stopped", "nv-well", "this-machine") if name in text]
    assert named == ["nv-dead", "nv-stopped", "nv-well", "this-machine"]


def test_a_windows_host_is_recorded_as_what_it_is(mixed: Any) -> None:
    record = mixed[0].records["nv-well"]
    assert {name: record[name] for name in ("vm_size", "region", "offer", "outcome", "gpus")} == {
        "vm_size": SIZE,
        "region": "eastus",
        "offer": "payg",
        "outcome": "ok",
        "gpus": 1,
    }
    assert record["system"] == {
        "family": "nv_a10_v5",
        # A hash of the simulated VM's id.
        "machine": "vm-21b1f955043ab4df",
        "os": "Windows 11 Enterprise multi-session 25H2",
        "kernel": "10.0.26200.6584",
        "image": "microsoftwindowsdesktop:windows-11:win11-25h2-avd:26200.6584.250915",
        "cpu_model": "AMD EPYC 74F3V 24-Core Processor",
        "cores": 6,
        "memory_bytes": 118111600640,
    }
    assert record["software"] == {"kernel": "10.0.26200.6584", "nvidia_driver": "574.24"}
    rows = {row["name"]: row["value"] for row in record["metrics"]}
    known = {name: rows[name] for name in ("gpus", "gpu_memory", "gpu_licensed")}
    assert known == {"gpus": 1, "gpu_memory": 8589934592, "gpu_licensed": 1}


def test_a_host_on_which_a_role_fails_is_looked_at_all_the_same(mixed: Any) -> None:
    ran, _, _ = mixed
    assert ran.records["nv-stopped"]["outcome"] == "invalid"
    assert "code 43" in ran.records["nv-stopped"]["reason"]
    assert "nv-stopped: fail: " in ran.said
    assert ran.manifest["failed_in"] == {"nv-stopped": "windows_gpu"}


def test_nothing_changed_on_a_host_that_is_as_it_should_be(mixed: Any) -> None:
    ran, _, hosts = mixed
    assert {name: host["changed"] for name, host in ran.manifest["hosts"].items()} == {
        "nv-dead": 0,
        "nv-stopped": 0,
        "nv-well": 0,
        "this-machine": 0,
    }
    assert [host.boots for host in hosts] == [0, 0, 0]


def test_no_log_of_a_host_has_the_password(mixed: Any) -> None:
    ran, folder, hosts = mixed
    assert [host.name for host in hosts if PASSWORD in host.said()] == []
    kept = [path.read_text() for path in folder.glob("results/*/*.json")]
    kept += [path.read_text() for path in (folder / "facts").iterdir()]
    assert [text for text in [ran.said, *kept] if PASSWORD in text] == []


# ---- other runs ---------------------------------------------------------------------------------


def test_check_mode_asks_the_hosts_and_changes_none(tmp_path: Path) -> None:
    host = driven("nv-well")
    before = host.dump()
    with inventory(tmp_path, host, linux=("this-machine",)):
        ran = play(tmp_path, "site.yml", "--check")
    after = host.dump()
    same = {name for name in before if before[name] == after[name]}
    assert (ran.status, ran.records) == (0, {})
    # It notes what it is asked.
    assert set(before) - same <= {"process_log", "events", "requests"}


def test_the_mornings_check_has_both_and_pairs_linux_nodes_alone(tmp_path: Path) -> None:
    with inventory(tmp_path, driven("nv-well")):
        ran = play(tmp_path, "playbooks/check.yml", trueup_pairwise=True, trueup_ssh_keys=True)
    assert ran.status == 0
    assert ran.records["nv-well"]["outcome"] == "ok"
    assert "Measure every pair of nodes" in ran.said
    assert "Install perftest" not in ran.said


def test_what_does_not_run_on_windows_is_skipped_by_name(tmp_path: Path) -> None:
    with inventory(tmp_path, driven("nv-well")):
        ran = play(
            tmp_path,
            "site.yml",
            trueup_benchmarks=["stream"],
            trueup_health_benchmarks=["stream"],
            shared_storage_mounts=[{"path": "/shared"}],
            trueup_health_slurm=True,
        )
    assert ran.status == 0
    # Roles for which nothing is declared are skipped too.
    why = {item["what"]: item["why"] for item in ran.manifest["skipped"]}
    assert why["stream"] == "it does not run on Windows"
    assert sorted(ran.records) == ["nv-well"]


def test_a_host_in_a_group_of_a_linux_cluster_is_refused(tmp_path: Path) -> None:
    with inventory(tmp_path, driven("nv-well"), linux=("this-machine",)) as whole:
        whole["children"]["slurm_compute"] = {"hosts": {"nv-well": {}}}
        (tmp_path / "hosts.json").write_text(json.dumps({"all": whole}))
        ran = play(tmp_path, "site.yml")
    assert ran.status == 2
    assert "nv-well is a Windows host, and slurm of its groups is for Linux nodes" in ran.said
    assert "nv-well: not measured: any record (failed in Validate the plan)." in ran.said


def test_a_host_billed_for_windows_is_warned_of_and_counted(tmp_path: Path) -> None:
    host = driven("nv-well")
    assert host.metadata is not None
    host.metadata["compute"]["licenseType"] = ""
    with inventory(tmp_path, host):
        ran = play(tmp_path, "site.yml", "--tags", "nothing")
    assert ran.status == 0
    assert "0.046 US$ per vCPU and hour, 0.552 US$ an hour for Standard_NV12ads_A10_v5" in ran.said


def test_hosts_that_do_not_answer_are_unreachable(tmp_path: Path) -> None:
    silent = fresh("nv-silent")
    silent.faults.silent = True
    short = {"ansible_psrp_read_timeout": 2, "ansible_psrp_operation_timeout": 1}
    with inventory(tmp_path, silent, dead("nv-dead"), **short):
        ran = play(tmp_path, "playbooks/identify.yml")
        silent.faults.silent = False
    assert ran.status == 4
    assert "fatal: [nv-silent]: UNREACHABLE!" in ran.said
    assert "fatal: [nv-dead]: UNREACHABLE!" in ran.said


def test_group_and_connection_must_fit(tmp_path: Path) -> None:
    with inventory(tmp_path, fresh("nv-lost")) as whole:
        of_windows = whole["children"].pop("windows")["hosts"]
        whole["hosts"] = {
            "nv-lost": {**of_windows["nv-lost"], "ansible_shell_type": "powershell"},
            "posix": LINUX,
        }
        whole["children"] = {"windows": {"hosts": {"posix": {"ansible_shell_type": "sh"}}}}
        (tmp_path / "hosts.json").write_text(json.dumps({"all": whole}))
        ran = play(tmp_path, "playbooks/identify.yml")
    assert ran.status == 2
    assert "nv-lost is reached by PowerShell and is not in the group windows" in ran.said
    assert "posix is in the group windows, and its connection (local) brings no Power" in ran.said


def test_a_run_of_linux_nodes_says_nothing_of_others(tmp_path: Path) -> None:
    (tmp_path / "hosts.json").write_text(json.dumps({"all": {"hosts": {"this-machine": LINUX}}}))
    ran = play(tmp_path, "site.yml")
    assert (ran.status, "indows" in ran.said) == (0, False)
