"""The program by which a node judges itself, as role slurm installs it: run with the files that the
plan names and nothing else, against a stand-in of scontrol."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from helpers import parametrized
from metadata_server import COMPUTE, document, send, serving
from trueup_controller import known_faults
from trueup_controller.plans.slurm_files import _PACKAGE, health_files
from trueup_node.health.expectations import of_size
from trueup_node.vm import slurm_health

if TYPE_CHECKING:
    from http.server import BaseHTTPRequestHandler

ROOT = Path(__file__).parents[2]
CATALOG = yaml.safe_load((ROOT / "catalog" / "expectations.yml").read_text())
FAULTS = {
    **yaml.safe_load((ROOT / "catalog" / "faults" / "xid.yml").read_text()),
    "watched": known_faults.watched(),
}
SIZE = "Standard_ND96isr_H100_v5"
NOW = "2026-11-20T09:00:00Z"
SHOWN = (ROOT / "tests" / "data" / "slurm" / "show_node.txt").read_text()
SCONTROL = """#!/bin/sh
case "$1" in
    show) cat "{0}/shown" ;;
    *) printf '%s\\n' "$*" >> "{0}/called"; exit {1} ;;
esac
"""
FAIL = {"verdict": "fail", "findings": ["fail: CPU cores\nis 2, expected 96."], "unmeasured": []}
PASS = {"verdict": "pass", "findings": [], "unmeasured": []}
OF_NODE = {
    "node": "n1",
    "programs": ["/etc/slurm/prolog.d/10-trueup-health"],
    "epilog_name": "90-trueup-health",
}


def shown(state: str = "IDLE", reason: str = "", more: str = "") -> str:
    """What Slurm showed of a drained node, with another state, reason, and lines behind it."""
    line = f"   Reason={reason} [root@2026-11-20T09:00:00]\n" if reason else ""
    text, _, _ = SHOWN.partition("   Reason=")
    return text.replace("State=IDLE+DRAIN", f"State={state}") + line + more


OURS = "trueup: health: fail: CPU cores is 2, expected 96."
RESUME = ["update", "nodename=n1", "state=resume"]


@pytest.mark.parametrize(
    ("text", "verdict", "wanted"),
    [
        (shown(), PASS, []),
        (shown(), FAIL, ["update", "nodename=n1", "state=drain", f"reason={OURS}"]),
        (shown("MIXED"), FAIL, ["update", "nodename=n1", "state=drain", f"reason={OURS}"]),
        # Never twice, whoever did it.
        (shown("IDLE+DRAIN", OURS), FAIL, []),
        (shown("ALLOCATED+DRAIN", "cooling"), FAIL, []),
        (shown("IDLE+DRAIN", OURS), PASS, RESUME),
        (shown("IDLE+DRAIN", "trueup: 10-trueup-health: 7 of 8 GPUs answer"), PASS, RESUME),
        (shown("IDLE+DRAIN", "trueup: 90-trueup-health: no answer within 30 s"), PASS, RESUME),
        # Of the health play, which measured what this does not; of a site's own hook; of somebody.
        (shown("IDLE+DRAIN", "trueup: n1: fail: NCCL all-reduce is 300 GB/s"), PASS, []),
        (shown("IDLE+DRAIN", "trueup: 20-site: no licence"), PASS, []),
        (shown("IDLE+DRAIN", "cooling, see trueup: health: fail"), PASS, []),
        (shown("IDLE+DRAIN", "x", more=f"   Comment=Reason={OURS}\n"), PASS, []),
        (SHOWN, PASS, []),
        (SHOWN, FAIL, []),
        # What else keeps it from jobs is not ours to end.
        (shown("DOWN*+DRAIN", OURS), PASS, []),
        (shown("IDLE+MAINTENANCE+DRAIN", OURS), PASS, []),
        (shown("IDLE+DRAIN+REBOOT_REQUESTED", OURS), PASS, []),
        (shown("IDLE#+DRAIN", OURS), PASS, []),
        (shown("IDLE+DRAIN", OURS), {**PASS, "verdict": "not measured"}, []),
        (shown("IDLE+DRAIN", OURS), {**PASS, "verdict": "no verdict"}, []),
        ("", PASS, []),
        ("slurm_load_node error: Unable to contact slurm controller", PASS, []),
    ],
)
def test_what_slurm_is_told(text: str, verdict: dict[str, Any], wanted: list[str]) -> None:
    assert slurm_health.due(text, verdict, OF_NODE) == wanted


def record(**changes: Any) -> dict[str, Any]:
    row = {"name": "busbw", "value": 100e9, "unit": "byte/s", "direction": "higher"}
    made = {
        "schema": "trueup.record/1",
        "run_id": "20261120T090000Z-0001",
        "benchmark": "nccl",
        "case": "all_reduce",
        "outcome": "ok",
        "reason": None,
        "nodes": ["n1"],
        "vm_size": SIZE,
        "started_at": "2999-01-01T00:00:00Z",
        "software": {},
        "parameters": {
            "operation": "all_reduce",
            "datatype": "float",
            "reduction": "sum",
            "transport": "nvlink",
        },
        "gpus": 8,
        "metrics": [{**row, "message_bytes": 17179869184}],
    }
    return {**made, **changes}


class Node:
    """A node with the program, its settings and a scontrol."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in health_files():
            path = folder / _PACKAGE / f"{name}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text((ROOT / "module_utils" / "trueup_node" / f"{name}.py").read_text())
        self.settings: dict[str, Any] = {
            "record_name": "n1",
            "node": "n1",
            "vm_size": SIZE,
            "gpu": {},
            "rdma": {},
            "expectations": self.cores(1),
            "size_row": {},
            "faults": FAULTS,
            "flap_hours": 0,
            "events": [],
            "programs": [],
            "drains": False,
            "records": "",
            "record_hours": 26,
            "seconds": 50,
            "epilog_seconds": 30,
            "epilog_name": "90-trueup-health",
        }
        self.show(shown())
        self.scontrol()

    @staticmethod
    def cores(least: float, metric: str = "cores") -> dict[str, Any]:
        """Expectations of one figure."""
        entry = {
            "what": "CPU cores",
            "benchmark": "node_state",
            "metric": metric,
            "unit": "1",
            "comparison": "at_least",
            "required": "yes",
            "source": "test",
            "date": "2026",
            "values": [{"floor": least, "sizes": [SIZE]}],
        }
        return {"expectations": [entry]}

    def show(self, text: str) -> None:
        (self.folder / "shown").write_text(text)

    def scontrol(self, status: int = 0) -> None:
        path = self.folder / "bin" / "scontrol"
        path.parent.mkdir(exist_ok=True)
        path.write_text(SCONTROL.format(self.folder, status))
        path.chmod(0o755)

    def record(self, name: str, text: str) -> None:
        run = self.folder / "results" / "20261120T090000Z-0001"
        run.mkdir(parents=True, exist_ok=True)
        (run / name).write_text(text)
        expectations = of_size(CATALOG, SIZE)["expectations"]
        of_nccl = [entry for entry in expectations if entry["benchmark"] == "nccl"]
        self.settings["expectations"] = {"expectations": [*self.cores(1)["expectations"], *of_nccl]}
        self.settings["records"] = str(self.folder / "results")

    def run(self, *arguments: str, settings: str | None = None) -> tuple[int, str, list[str]]:
        """Exit status, what it said, and what Slurm was told."""
        path = self.folder / "settings.json"
        path.write_text(json.dumps(self.settings) if settings is None else settings)
        start = (
            f"import sys; sys.path.insert(0, {str(self.folder)!r});"
            f" from {_PACKAGE}.vm.slurm_health import main;"
            f" sys.exit(main({list(arguments)!r}, {str(path)!r}, {str(self.folder / 'lock')!r}))"
        )
        called = self.folder / "called"
        called.unlink(missing_ok=True)
        done = subprocess.run(
            [sys.executable, "-I", "-c", start],
            capture_output=True,
            text=True,
            check=False,
            env={"PATH": f"{self.folder / 'bin'}:/usr/bin:/bin"},
        )
        assert done.stderr == ""
        return (
            done.returncode,
            done.stdout,
            called.read_text().splitlines() if called.exists() else [],
        )


@pytest.fixture(name="node")
def _node(tmp_path: Path) -> Node:
    return Node(tmp_path)


DRAIN = "update nodename=n1 state=drain reason=trueup: health: "


def test_a_node_with_too_few_cores_drains_itself_and_gives_itself_back(node: Node) -> None:
    node.settings["expectations"] = node.cores(100_000)
    status, said, told = node.run()
    assert (status, len(told)) == (0, 1)
    assert told[0].startswith(f"{DRAIN}fail: CPU cores is ")
    assert "trueup: fail\n" in said
    node.show(shown("IDLE+DRAIN", told[0].partition("reason=")[2]))
    assert node.run()[2] == []
    node.settings["expectations"] = node.cores(1)
    # After a job it is not given back.
    assert node.run("--epilog")[2] == []
    assert node.run("--look")[2] == []
    assert node.run()[2] == ["update nodename=n1 state=resume"]


def test_a_size_without_published_expectations_is_judged_by_its_row(node: Node) -> None:
    node.settings |= {"vm_size": "Standard_Of_Test", "expectations": {**node.cores(1)}}
    node.settings["size_row"] = {"vcpus": 100_000, "source": "the row's"}
    status, said, told = node.run()
    assert (status, "CPUs is " in said) == (0, True)
    assert [words.split("reason=")[0] for words in told] == ["update nodename=n1 state=drain "]


def test_the_check_before_a_job_is_run_too(node: Node) -> None:
    hook = node.folder / "10-trueup-health"
    hook.write_text("#!/bin/sh\necho first\necho '/scratch is not mounted'\nexit 1\n")
    hook.chmod(0o755)
    node.settings["programs"] = [str(hook)]
    (told,) = node.run("--epilog")[2]
    assert told.startswith(DRAIN)
    assert "10-trueup-health: /scratch is not mounted" in told
    hook.write_text("#!/bin/sh\nexit 0\n")
    assert node.run()[1].startswith("trueup: pass\n")


def azure_event(kind: str, machine: str = COMPUTE["name"]) -> dict[str, Any]:
    names = {"EventStatus": "Scheduled", "EventType": kind, "Resources": [machine]}
    return {**names, "NotBefore": "Thu, 22 Jul 2021 04:50:17 GMT"}


@pytest.mark.parametrize("kind", ["Reboot", "Redeploy", "Preempt", "Terminate"])
def test_a_node_drains_before_azure_interrupts_it_and_gives_itself_back(
    node: Node, kind: str
) -> None:
    coming = [azure_event(kind)]

    def behave(handler: BaseHTTPRequestHandler) -> None:
        body = document() if "instance" in handler.path else json.dumps({"Events": coming}).encode()
        send(body)(handler)

    with serving(behave) as (url, _):
        base = url.partition("/metadata")[0]
        node.settings["events"] = [f"{base}/metadata/instance", f"{base}/metadata/scheduledevents"]
        (told,) = node.run()[2]
        assert told.startswith(f"{DRAIN}fail: ")
        assert f"this machine ({kind}, not before 2021-07-22T04:50:17Z)" in told
        node.show(shown("IDLE+DRAIN", told.partition("reason=")[2]))
        # A hook after a job has no time for Azure's answers.
        node.show(shown())
        assert node.run("--epilog")[2] == []
        node.show(shown("IDLE+DRAIN", told.partition("reason=")[2]))
        coming[:] = [azure_event("Reboot", "another-machine")]
        assert node.run()[2] == ["update nodename=n1 state=resume"]
        node.show(shown())
        coming[:] = [azure_event("Freeze")]
        status, said, calls = node.run()
        assert (status, calls) == (0, [])
        assert "warn: " in said
        assert "Azure pauses this machine" in said


def test_events_that_cannot_be_read_drain_nothing(node: Node) -> None:
    node.settings["events"] = ["http://127.0.0.1:9/metadata/instance", "http://127.0.0.1:9/x"]
    status, said, told = node.run()
    assert (status, told) == (0, [])
    assert "scheduled events cannot be read: nothing listens at the metadata address" in said


@pytest.mark.parametrize(("drains", "told"), [(False, 0), (True, 1)])
def test_what_could_not_be_measured_drains_where_that_is_chosen(
    node: Node, drains: bool, told: int
) -> None:
    node.settings |= {"drains": drains, "expectations": node.cores(0, "hardware_xids")}
    status, said, calls = node.run()
    assert (status, len(calls)) == (0, told)
    assert "not measured: CPU cores (it could not be read)" in said


@parametrized(("line", "sentences"))
def test_the_kernel_log_is_judged_by_the_list_in_the_settings(
    node: Node, line: str, sentences: list[str]
) -> None:
    dmesg = node.folder / "bin" / "dmesg"
    dmesg.write_text(f"#!/bin/sh\necho '[    5.000000] {line}'\n")
    dmesg.chmod(0o755)
    # This machine has none, which is a finding too.
    node.settings["gpu"] = {"gpus": 1}
    said = node.run("--look")[1]
    assert [sentence for sentence in sentences if sentence not in said] == []
    assert ("XID" in said, "did not start" in said) == (
        "XID" in "".join(sentences) or "999" in line,
        "did not start" in "".join(sentences),
    )


@pytest.mark.parametrize(("fails", "status"), [(True, 1), (False, 0)])
def test_a_slurm_that_does_not_listen_fails_the_hook_of_a_bad_node_alone(
    node: Node, fails: bool, status: int
) -> None:
    node.scontrol(1)
    node.settings["expectations"] = node.cores(100_000 if fails else 1)
    if not fails:
        node.show(shown("IDLE+DRAIN", OURS))
    assert node.run(*["--epilog"] * fails)[0] == status


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("nccl-all_reduce-n1.json", json.dumps(record()), 1),
        ("nccl-all_reduce-n1.2.json", json.dumps(record()), 1),
        ("nccl-all_reduce-n1.json", json.dumps(record(started_at=NOW)), 0),
        ("nccl-all_reduce-n2.json", json.dumps(record(nodes=["n2"])), 0),
        # A pair does not say which of the two it is.
        ("nccl-all_reduce-n1.json", json.dumps(record(nodes=["n1", "n2"])), 0),
        ("nccl-all_reduce-n1.json", json.dumps(record())[:200], 0),
        ("nccl-all_reduce-n1.json", json.dumps(record(metrics=[{"value": "x"}])), 0),
        ("nccl-all_reduce-n1.json", json.dumps(record(started_at="soon")), 0),
        ("nccl-all_reduce-n1.json", json.dumps(record(parameters=7)), 0),
        ("nccl-all_reduce-n1.json", "\x00\xff", 0),
    ],
)
def test_its_own_new_records_count(node: Node, name: str, text: str, told: int) -> None:
    node.record(name, text)
    status, said, calls = node.run()
    assert (status, len(calls)) == (0, told)
    assert ("busbw" in said or "all-reduce" in said) == bool(told)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"seconds": "x"}'])
def test_settings_that_cannot_be_read_drain_nothing(node: Node, text: str) -> None:
    assert node.run(settings=text)[::2] == (2, [])
    assert node.run("--epilog", settings=text)[::2] == (0, [])


def test_a_size_has_its_part_of_the_catalog() -> None:
    part = json.loads(json.dumps(of_size(CATALOG, SIZE.lower())))
    assert {value["sizes"][0] for one in part["expectations"] for value in one["values"]} == {
        SIZE.lower()
    }
    metrics = {one["metric"] for one in part["expectations"]}
    assert {"cores", "memory", "gpus", "link_rate", "busbw"} <= metrics
    assert of_size(CATALOG, "")["expectations"] == []
