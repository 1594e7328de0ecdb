"""The repair loop against the emulated cloud, with stand-ins for Slurm and for the playbooks.

``World`` holds what the loop changes: which nodes are drained, and which are well. Its programs
(``scontrol``, ``ansible-playbook``) and its ports read and write one file, so that a killed loop
leaves what it did.
"""

from __future__ import annotations

import fcntl
import json
import os
import random
import signal
import ssl
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from emulated_cloud import SUBSCRIPTION, Cloud
from helpers import ROOT

sys.path.insert(0, str(ROOT / "molecule" / "_shared"))

from cloud.resources import Resource
from trueup_controller.azure.login import Login
from trueup_controller.azure.manager import Manager
from trueup_controller.repair.case import Case
from trueup_controller.repair.clouds import Arm
from trueup_controller.repair.journal import Journal
from trueup_controller.repair.loop import Loop, Permission, Result
from trueup_controller.repair.plan import next_action
from trueup_controller.repair.ports import Collected, Outcome, Ports
from trueup_controller.repair.steps import SCHEMA, Finding, Opened, Step, line_of
from trueup_node.errors import TrueupError

VM = "Microsoft.Compute/virtualMachines"
SIZE = "Standard_ND96isr_H100_v5"
BEGIN = datetime.fromisoformat("2026-11-30T09:00:00+00:00")


def add_machine(cloud: Cloud, name: str) -> str:
    """A running VM; its id."""
    path = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/hpc/providers/{VM}/{name}"
    body = {
        "location": "eastus",
        "properties": {
            "vmId": f"00000000-0000-0000-0000-{len(cloud.resources):012d}",
            "hardwareProfile": {"vmSize": SIZE},
            "osProfile": {"computerName": name},
            "storageProfile": {"osDisk": {"osType": "Linux"}},
        },
    }
    place = {"location": "eastus", "zone": "", "size": SIZE, "name": name}
    state = {"provisioningState": "Succeeded", "power": "running", "place": place}
    cloud.resources[path.lower()] = Resource(path, VM, body, "2024-07-01", state)
    return path


def opened(case_id: str, node: str, category: str, **more: Any) -> Opened:
    """The first step of a case."""
    facts = {
        "fault": category.rpartition(".")[2],
        "meaning": "planted",
        "findings": [Finding("dcgm", f"{node}: fail: planted")],
        "first_symptom": "2026-11-30T08:30:00Z",
        "vm_size": SIZE,
        "region": "eastus",
        **more,
    }
    return Opened(
        at="2026-11-30T09:00:00Z",
        schema=SCHEMA,
        case=case_id,
        node=node,
        category=category,
        **facts,
    )


class World:
    """The nodes, in a file.

    Attributes:
        hosts: asks for a node's physical host.
    """

    def __init__(self, path: Path, hosts: Callable[[str], str]) -> None:
        self.path, self.hosts = path, hosts

    def read(self, node: str) -> dict[str, Any]:
        try:
            return dict(json.loads(self.path.read_text()).get(node, {}))
        except FileNotFoundError:
            return {}

    def write(self, node: str, **facts: Any) -> None:
        with self.path.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            held = json.loads(self.path.read_text()) if self.path.exists() else {}
            held[node] = {**held.get(node, {}), **facts}
            aside = self.path.with_suffix(f".{os.getpid()}")
            aside.write_text(json.dumps(held))
            aside.rename(self.path)

    # -- as a scheduler --

    def drained(self, node: str) -> str | None:
        reason: str | None = self.read(node).get("drained")
        return reason

    def drain(self, node: str, reason: str) -> None:
        self.write(node, drained=reason)

    def resume(self, node: str) -> None:
        self.write(node, drained=None, resumed=self.read(node).get("resumed", 0) + 1)

    # -- as plays --

    def evidence(self, case: Case, _lock: int) -> Collected:
        if self.read(case.node).get("is_half_dead"):
            raise TrueupError(f"{case.node} does not answer")
        archive = self.path.with_name(f"{case.node}.tar.gz")
        archive.write_bytes(b"evidence")
        return Collected(archive, self.hosts(case.node))

    def mend(self, case: Case, _lock: int) -> None:
        self.write(case.node, mended=True)

    def test(self, case: Case, number: str, _lock: int) -> str:
        return f"run-{case.id}-{number}"

    # -- as a judge --

    def __call__(self, _run: str, case: Case) -> Outcome:
        facts, host = self.read(case.node), self.hosts(case.node)
        bad = facts.get("bad_hosts", []) or ([facts["host"]] if "host" in facts else [])
        is_bad = host in bad or (facts.get("stays_bad") and not facts.get("mended"))
        failed = [Finding("dcgm", f"{case.node}: fail: planted")] if is_bad else []
        return Outcome(failed, host)


# -- kills --


class Points:
    """Kills this process at one of the points that it passes.

    Args:
        at: the number of the point, from 1; 0 for none.
    """

    def __init__(self, at: int = 0) -> None:
        self.at, self.passed = at, 0

    def __call__(self, before: Callable[[], None] | None = None) -> None:
        self.passed += 1
        if self.passed == self.at:
            if before:
                before()
            os.kill(os.getpid(), signal.SIGKILL)


class _Killed:
    """A port that passes a point before and after each call."""

    def __init__(self, port: Any, point: Points) -> None:
        self._port, self._point = port, point

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._port, name)
        return self._around(value) if callable(value) else value

    def __call__(self, *values: Any) -> Any:
        return self._around(self._port)(*values)

    def _around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def called(*values: Any) -> Any:
            self._point()
            result = function(*values)
            self._point()
            return result

        return called


class KilledJournal(Journal):
    """A case's file, of which a step may be written in part."""

    point: Points

    def append(self, case: Case, step: Step) -> Case:
        def half() -> None:
            line = line_of(step)
            with self.path.open("ab") as stream:
                stream.write(line[: len(line) // 2])

        self.point()
        self.point(half)
        changed = super().append(case, step)
        self.point()
        return changed


def killed_open(point: Points, ca_path: str) -> Callable[..., Any]:
    """``open_url`` that passes a point before and after the server has acted."""
    context = ssl.create_default_context(cafile=ca_path)

    def called(url: str, **arguments: Any) -> Any:
        point()
        request = urllib.request.Request(
            url,
            headers=arguments["headers"],
            method=arguments["method"],
            data=arguments.get("data"),
        )
        handler = urllib.request.HTTPSHandler(context=context)
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), handler)
        try:
            return opener.open(request, timeout=30)
        finally:
            point()

    return called


def run_once(
    results: Path,
    case_id: str,
    world: World,
    connection: Mapping[str, str],
    point: Points,
    hours: float,
    permit: Callable[..., Permission] = lambda *_: Permission("policy"),
) -> Result:
    """The loop of one case, as one process runs it.

    Args:
        connection: url, token and ca_path of the cloud.
        hours: since the beginning.
    """
    login = Login(connection["url"], connection["token"], (SUBSCRIPTION,))
    manager = Manager(
        login,
        killed_open(point, connection["ca_path"]),
        deadline_seconds=60,
        sleep=lambda _seconds: None,
    )
    journal = KilledJournal(results, case_id)
    journal.point = point
    cloud: Any = _Killed(Arm(lambda: manager), point)
    plays: Any = _Killed(world, point)
    ports = Ports(plays, cloud, plays, plays)
    now = (BEGIN + timedelta(hours=hours)).strftime("%Y-%m-%dT%H:%M:%SZ")
    return Loop(results, journal, ports, permit, lambda: now).run()


def in_child(work: Callable[[], None]) -> int:
    """Do something in a forked process; its status as of os.waitpid."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    return os.waitpid(child, 0)[1]


# -- a cloud of its own process --

_CLOUD = """
import json, sys, tempfile
from pathlib import Path
sys.path[:0] = {paths!r}
import repair_loop
from emulated_cloud import Cloud, serving
from cloud import impact
with tempfile.TemporaryDirectory() as name:
    cloud = Cloud(pace=0)
    cloud.lifetime_seconds = 36000.0
    for number in range({machines}):
        impact.host_of(cloud, repair_loop.add_machine(cloud, f"node-{{number:04d}}"))
    with serving(cloud, Path(name)):
        print(json.dumps({{"url": cloud.url, "token": cloud.token(), "secret": cloud.secret,
                          "ca_path": f"{{name}}/authority.pem"}}), flush=True)
        sys.stdin.read()
    if cloud.broken:
        sys.exit("\\n".join(cloud.broken))
"""


@contextmanager
def cloud_process(machines: int) -> Iterator[dict[str, str]]:
    """An emulated cloud with VMs node-0000 and on; url, token, secret and ca_path."""
    folders = ("tests", "molecule/_shared", "module_utils", "controller")
    program = _CLOUD.format(paths=[str(ROOT / folder) for folder in folders], machines=machines)
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as cloud:
        assert cloud.stdout is not None
        try:
            yield json.loads(cloud.stdout.readline())
        finally:
            cloud.communicate()
    assert cloud.returncode == 0


def emulated(
    connection: Mapping[str, str], path: str, body: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """A call of tests to the emulated cloud."""
    context = ssl.create_default_context(cafile=connection["ca_path"])
    request = urllib.request.Request(
        f"{connection['url']}/emulated/{path}",
        headers={"Emulated-Secret": connection["secret"], "Content-Type": "application/json"},
        data=None if body is None else json.dumps(body).encode(),
    )
    handler = urllib.request.HTTPSHandler(context=context)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), handler)
    with opener.open(request, timeout=30) as answer:
        text = answer.read()
    return dict(json.loads(text)) if text else {}


# -- the campaign --

# Faults that are planted: facts of the case, of the node, and faults of the cloud.
PLANTED: Mapping[str, Mapping[str, Any]] = {
    "replaced": {},
    "second host bad too": {"bad_hosts": 2},
    "well on testing again": {"case": {"retest": True}, "is_well": True},
    "soft fix helps": {"case": {"soft_fix": "reboot"}, "node": {"stays_bad": True}, "mends": True},
    "soft fix helps not": {"case": {"soft_fix": "reboot"}},
    "throttled": {"cloud": {"kind": "throttle", "method": "PUT", "times": 2}},
    "refused once": {"cloud": {"kind": "reply", "method": "PUT", "status": 503, "times": 1}},
    "too many requests": {"insight": "TooManyRequests"},
    "no rights once": {"cloud": {"kind": "rights", "action": "write"}},
    "drained by another": {"node": {"drained": "healthagent: gpu"}},
    "host not known": {"case": {"physical_host": ""}},
    "half-dead, host not known": {"case": {"physical_host": ""}, "node": {"is_half_dead": True}},
}


def categories() -> list[str]:
    """All of Azure's."""
    from cloud.impact import categories as known

    return known()


def campaign(
    folder: Path, runs: int, seed: int, connection: Mapping[str, str]
) -> Iterator[tuple[str, dict[str, int], list[str]]]:
    """Repairs of planted faults, each killed some times: a label, figures and violations."""
    names = categories()
    chance = random.Random(seed)
    for number in range(runs):
        category = names[number % len(names)]
        planted = list(PLANTED)[(number // len(names) + number) % len(PLANTED)]
        yield _one(folder, number, category, planted, chance, connection)


def _one(
    folder: Path,
    number: int,
    category: str,
    planted: str,
    chance: random.Random,
    connection: Mapping[str, str],
) -> tuple[str, dict[str, int], list[str]]:
    node, case_id = f"node-{number:04d}", f"20261130T090000Z-{number:04x}"
    path = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/hpc/providers/{VM}/{node}"

    def host(_node: str) -> str:
        return str(emulated(connection, "state")["hosts"][path])

    first = host(node)
    facts = PLANTED[planted]
    world = World(folder / "world.json", host)
    bad = [first] if not facts.get("is_well") and not facts.get("mends") else []
    if facts.get("bad_hosts"):
        # The next host that the cloud gives.
        bad.append(f"HOST{len(emulated(connection, 'state')['used_hosts']):08d}")
    world.write(node, bad_hosts=bad, **facts.get("node", {}))
    if "cloud" in facts:
        emulated(connection, "faults", {"path": "/workloadImpacts/", **facts["cloud"]})
    if "insight" in facts:
        emulated(connection, "faults", {"kind": "insight", "host": first, "code": facts["insight"]})
    more = {"physical_host": first, **facts.get("case", {})}
    Journal(folder, case_id).open(opened(case_id, node, category, **more))
    kills, begun, seconds = 0, time.monotonic(), 0.0
    for attempt in range(40):
        at = chance.randint(1, 45) if kills < 6 and attempt < 30 else 0

        def work(at: int = at, attempt: int = attempt) -> None:
            run_once(folder, case_id, world, connection, Points(at), 2.0 * attempt)

        status = in_child(work)
        kills += os.WIFSIGNALED(status)
        if os.WIFEXITED(status) and os.WEXITSTATUS(status):
            return f"{case_id} {category} {planted}", {"kills": kills}, ["the loop failed"]
        case = Journal(folder, case_id).read()
        if case.reports and not seconds:
            seconds = time.monotonic() - begun
        if case.closed or (not at and (case.stopped or kills >= 6) and attempt > 32):
            break
    emulated(connection, "faults", {"kind": "none"})
    case = Journal(folder, case_id).read()
    problems = violations(case, world, emulated(connection, "state")["impacts"], path)
    figures = {
        "kills": kills,
        "reports": len(case.reports),
        "closed": int(bool(case.closed)),
        "report_milliseconds": round(1000 * seconds),
    }
    return f"{case_id} {category} {planted}", figures, problems


def violations(case: Case, world: World, impacts: list[dict[str, Any]], path: str) -> list[str]:
    """Whatever must not be after a case."""
    of_node = [impact for impact in impacts if impact["resource"] == path]
    problems = [f"{impact['name']} without a host" for impact in of_node if not impact["host"]]
    recorded = {report.sent.impact: report for report in case.reports}
    names = {impact["name"] for impact in of_node}
    problems += [f"{name} is lost" for name in sorted(set(recorded) - names)]
    problems += [f"{name} is not recorded" for name in sorted(names - set(recorded))]
    taken = [
        (impact["host"], impact["category"])
        for impact in of_node
        if impact["name"] in recorded and recorded[impact["name"]].end != "TooManyRequests"
    ]
    problems += [f"{pair} is reported twice" for pair in sorted({*taken}) if taken.count(pair) > 1]
    problems += [
        f"{one['name']} was sent {one['puts']} times" for one in of_node if one["puts"] > 1
    ]
    drained = world.drained(case.node)
    if case.closed:
        owner = case.drained.owner if case.drained else "trueup"
        if owner == "trueup" and drained is not None:
            problems.append(f"closed, and still drained: {drained}")
        if owner != "trueup" and drained is None:
            problems.append(f"the drain of another was undone: {owner}")
    elif not case.stopped and next_action(case, case.since).name != "hand":
        problems.append(f"open ({case.state}) without a reason")
    return problems


def write_run(
    results: Path, run: str, number: int, is_bad: bool, host: str, benchmarks: Sequence[str]
) -> None:
    """A run of one node of the synthetic fleet, with its manifest; NCCL is slow on a bad one."""
    import made
    from fleet import fleet

    node = f"h100-{number:04d}"
    moment = f"{run[:4]}-{run[4:6]}-{run[6:8]}T{run[9:11]}:{run[11:13]}:{run[13:15]}Z"
    of_node = {
        record["benchmark"]: record
        for record in fleet(number + 1, faults={}, noisy_pair=None)
        if record["nodes"] == [node]
    }
    for row in of_node["nccl"]["metrics"]:
        row["value"] *= 0.5 if is_bad else 1.0
    figure = {"name": "dcgm_tests_failed", "value": 0, "unit": "1", "direction": "lower"}
    of_node["dcgm"] = {
        **of_node["node_state"],
        "benchmark": "dcgm",
        "case": "level1",
        "parameters": {"program": "dcgmi diag", "level": 1},
        "metrics": [figure],
    }
    records = [
        {
            **of_node[name],
            "run_id": run,
            "started_at": moment,
            "region": "eastus",
            "system": {**of_node[name]["system"], "physical_host": host},
        }
        for name in dict.fromkeys(["node_state", *benchmarks])
    ]
    made.write(results, records)
    manifest = {
        "schema": "trueup.run/1",
        "run_id": run,
        "started_at": moment,
        "finished_at": moment,
        "playbook": "check.yml",
        "expected": [node],
        "hosts": {},
        "failed_in": {},
        "skipped": [],
    }
    (results / run / "run.json").write_text(json.dumps(manifest))
