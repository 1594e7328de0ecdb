"""``trueup case`` against the emulated cloud, with stand-ins for scontrol and ansible-playbook."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import repair_loop
from cloud import impact
from emulated_cloud import SUBSCRIPTION, Cloud, serving
from helpers import ROOT, parametrized
from test_adversarial import call
from trueup_analysis.figures.explain import read_dictionary
from trueup_analysis.figures.repair import outcome, read_codes
from trueup_analysis.load import load
from trueup_controller import project
from trueup_controller.azure import manager
from trueup_controller.azure.login import Login
from trueup_controller.repair import ports
from trueup_node.errors import BadInput

pytestmark = pytest.mark.slow

NODE = "h100-0001"
RUN = "20261130T080000Z-00aa"

_PROGRAM = """#!{python}
import json, os, sys
from pathlib import Path
sys.path[:0] = {paths!r}
world = Path({world!r})
state = json.loads(world.read_text())
argv = sys.argv[1:]
with world.with_suffix(".log").open("a") as log:
    log.write(json.dumps([Path(sys.argv[0]).name, *argv]) + "\\n")
"""
_SCONTROL = (
    _PROGRAM
    + """
if argv[:2] == ["show", "node"]:
    reason = state.get("drained")
    print(f"NodeName={{argv[2]}} Arch=x86_64 CoresPerSocket=48")
    print(f"   State=IDLE{{'+DRAIN' if reason else ''}} ThreadsPerCore=1 TmpDisk=0")
    if reason:
        print(f"   Reason={{reason}} [root@2026-11-30T09:00:00]")
else:
    words = dict(word.split("=", 1) for word in argv[1:])
    state["drained"] = words.get("Reason") if words["State"] == "DRAIN" else None
    world.write_text(json.dumps(state))
"""
)
_PLAYBOOK = (
    _PROGRAM
    + """
import urllib.request, ssl
import made, repair_loop
from fleet import fleet
connection = json.loads(Path(state["cloud"]).read_text())
hosts = repair_loop.emulated(connection, "state")["hosts"]
node = argv[argv.index("--limit") + 1]
host = next(value for key, value in hosts.items() if key.endswith("/" + node))
values = json.loads(argv[argv.index("-e") + 1])
if "playbooks/evidence.yml" in argv:
    if state.get("half_dead"):
        print("[ERROR]: Specified inventory, host pattern and/or --limit leaves us with no hosts")
        sys.exit(4)
    import base64
    from trueup_controller import evidence
    evidence.write(Path(values["trueup_results"]) / "evidence", node, {{
        "archive": base64.b64encode(b"\\x1f\\x8bx").decode(), "parts": [],
        "node": {{"physical_host": host}}}})
    sys.exit(0)
number = int(node[-4:])
bad = host in state["bad_hosts"]
run = "20261130T1000%02dZ-00bb" % len(list(Path(values["trueup_results"]).glob("2026*")))
repair_loop.write_run(Path(values["trueup_results"]), run, number, bad, host,
                      values["trueup_health_benchmarks"])
Path(os.environ["TRUEUP_RUN_FILE"]).write_text(run)
sys.exit(2 if bad else 0)
"""
)


class Site:
    """A site with one node that fails, an emulated cloud, and stand-ins of programs.

    Attributes:
        world: the stand-ins' file; ``calls`` are the calls of them.
    """

    def __init__(self, folder: Path, cloud: Cloud) -> None:
        self.folder, self.cloud = folder, cloud
        self.world = folder / "world.json"
        self.path = repair_loop.add_machine(cloud, NODE)
        self.host = impact.host_of(cloud, self.path)

    def set(self, **facts: Any) -> None:
        state = json.loads(self.world.read_text()) if self.world.exists() else {}
        self.world.write_text(json.dumps({**state, **facts}))

    def calls(self, program: str) -> list[list[str]]:
        log = self.world.with_suffix(".log")
        lines = log.read_text().splitlines() if log.exists() else []
        return [words[1:] for words in map(json.loads, lines) if words[0] == program]

    def next(self, *options: str) -> tuple[int, str, str]:
        return call("case", "next", NODE, "-i", "hosts", *options)

    def case(self) -> dict[str, Any]:
        _, out, _ = call("case", "show", NODE, "-f", "json")
        table: dict[str, Any] = json.loads(out)["tables"][0]
        return table

    def steps(self) -> list[str]:
        return [row["step"] for row in self.case()["rows"] if row["step"] != "begun"]


@pytest.fixture(name="site")
def _site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    cloud = Cloud(pace=0)
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    with serving(cloud, tmp_path):
        site = Site(tmp_path, cloud)
        connection = tmp_path / "cloud.json"
        connection.write_text(
            json.dumps(
                {
                    "url": cloud.url,
                    "secret": cloud.secret,
                    "ca_path": str(tmp_path / "authority.pem"),
                }
            )
        )
        site.set(cloud=str(connection), bad_hosts=[site.host])
        folders = ("tests", "tests/unit/analysis", "module_utils", "controller", "molecule/_shared")
        values = {
            "python": sys.executable,
            "paths": [str(ROOT / folder) for folder in folders],
            "world": str(site.world),
        }
        for name, text in (("scontrol", _SCONTROL), ("ansible-playbook", _PLAYBOOK)):
            (bin_folder / name).write_text(text.format(**values))
            (bin_folder / name).chmod(0o755)
        monkeypatch.setenv("PATH", f"{bin_folder}{os.pathsep}{os.environ['PATH']}")
        # ansible-playbook lies beside the interpreter.
        monkeypatch.setattr(sys, "executable", str(bin_folder / "python"))
        # azure-cli-core reads its folder once in a process.
        monkeypatch.setattr(
            manager, "sign_in", lambda _names: Login(cloud.url, cloud.token(), (SUBSCRIPTION,))
        )
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tmp_path / "authority.pem"))
        monkeypatch.chdir(tmp_path)
        repair_loop.write_run(tmp_path / "results", RUN, 1, True, site.host, ["nccl"])
        yield site
    assert cloud.broken == []


def test_a_failed_node_is_repaired(site: Site) -> None:
    status, out, err = call("case", "open")
    assert (status, err, out.count("\n")) == (0, "", 1), err
    # Nothing is done without a yes.
    status, out, _ = site.next()
    assert (status, "it needs your yes" in out) == (1, True)
    assert (site.calls("scontrol"), site.cloud.impacts) == ([], {})
    status, out, err = site.next("--yes")
    assert status == 0, out + err
    [report] = site.cloud.impacts.values()
    assert (report.host, report.puts) == (site.host, 1)
    assert report.properties["impactCategory"] == "Resource.Hpc.Unhealthy.ManualInvestigation"
    assert report.properties["impactedResourceId"] == site.path
    # Azure acknowledges it, then takes the host out of service.
    for _ in range(2):
        status, out, err = site.next("--yes")
        assert status == 0, out + err
    assert site.steps() == [
        *("opened", "drained", "evidence", "tested", "identified", "reported"),
        *("followed", "followed"),
        *("moved", "replaced", "tested", "given back", "closed"),
    ]
    assert json.loads(site.world.read_text())["drained"] is None
    # The failed benchmark, and the size's short check.
    variables = json.loads(site.calls("ansible-playbook")[1][-1])
    assert variables["trueup_health_benchmarks"] == ["nccl", "dcgm"]


def test_evidence_names_the_host_and_its_archive(site: Site) -> None:
    call("case", "open", "--node", NODE, "--fault", "gpu_off_bus")
    assert site.next("--yes", "--no-scheduler")[0] == 0
    assert [one.host for one in site.cloud.impacts.values()] == [site.host]
    [archive] = Path("results/evidence").glob("*.tar.gz")
    about = next(row["about"] for row in site.case()["rows"] if row["step"] == "evidence")
    assert about == f"path: {archive.resolve()}, sha256: {ports.sha256_of(archive)}"


def test_a_case_by_hand_takes_the_facts_of_the_nodes_records(site: Site) -> None:
    call("case", "open", "--node", NODE, "--fault", "gpu_off_bus")
    [path] = Path("results/cases").glob("*.jsonl")
    opened = json.loads(path.read_text())
    facts = ("physical_host", "vm_size", "region")
    assert [opened[name] for name in facts] == [site.host, repair_loop.SIZE, "eastus"]


def test_the_command_of_each_action_is_shown_before(site: Site) -> None:
    call("case", "open", "--node", NODE, "--fault", "rm_init_adapter_failed")
    shown = {}
    for step in ("drained", "evidence", "mended"):
        options = ["--archive", "hosts"] if step == "evidence" else []
        Path("hosts").write_text(f"{NODE}\n")
        call("case", "record", NODE, step, *options)
        shown[step] = site.next("--dry-run")[1].splitlines()[1].partition(" ")[2]
    hosts, results = site.folder / "hosts", json.dumps({"trueup_results": f"{site.folder}/results"})
    assert shown == {
        "drained": f"-i {hosts} playbooks/evidence.yml --limit {NODE} -e '{results}'",
        "evidence": f"{NODE} -i {hosts} -b -m ansible.builtin.reboot",
        "mended": f"-i {hosts} playbooks/check.yml --limit {NODE} -e"
        f' \'{{"trueup_health_benchmarks": ["dcgm"], "trueup_results": "{site.folder}/results"}}\'',
    }
    assert site.calls("ansible-playbook") == []


def test_without_playbooks_the_case_says_where_they_are(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the wheel is installed."""
    monkeypatch.setattr(project, "FOLDER", site.folder / "lib")
    call("case", "open", "--node", NODE, "--fault", "low_nccl", "--category", "NvLink")
    call("case", "record", NODE, "mended")
    status, out, _ = site.next("--yes", "--no-scheduler")
    said = f"{site.folder} has no playbooks/check.yml: start this command in trueup's checkout"
    assert (status, said in out) == (1, True), out
    # There the same command works.
    (site.folder / "playbooks").mkdir()
    (site.folder / "playbooks" / "check.yml").write_text("")
    site.set(bad_hosts=[])
    assert site.next("--yes", "--no-scheduler")[0] == 0
    assert site.case()["state"] == "closed"


def test_a_test_that_judges_nothing_gives_no_node_back(site: Site) -> None:
    """A node of a size that the catalog lacks."""
    for path in Path("results", RUN).glob("0*.json"):
        record = json.loads(path.read_text())
        path.write_text(json.dumps({**record, "vm_size": "Standard_Of_A_Site"}))
    with pytest.raises(BadInput) as caught:
        outcome(load([Path("results", RUN)]), NODE, ["nccl"])
    assert f"the check judged nothing on {NODE}" in str(caught.value)


def test_a_second_open_adds_to_the_case(site: Site) -> None:
    assert call("case", "open")[0] == 0
    assert "has this open case already" in call("case", "open")[1]
    assert len(list(Path("results/cases").glob("*.jsonl"))) == 1
    status, out, _ = call("case", "list")
    assert (status, NODE in out, "1 open case" in out) == (1, True, True)


def test_without_the_host_nothing_is_reported(site: Site) -> None:
    shutil.rmtree(f"results/{RUN}")
    site.set(half_dead=True)
    call("case", "open", "--node", NODE, "--fault", "gpu_off_bus")
    status, out, _ = site.next("--yes", "--no-scheduler")
    assert (status, "the physical host of h100-0001 is not known" in out) == (1, True)
    failed = [text for row in site.case()["rows"] if "with 4" in (text := str(row))]
    assert ": [ERROR]: Specified inventory, host" in failed[0]
    assert site.cloud.impacts == {}
    call("case", "record", NODE, "identified", "--host", site.host)
    assert site.next("--yes", "--no-scheduler")[0] == 0
    assert [one.host for one in site.cloud.impacts.values()] == [site.host]


@parametrized(("fault", "said"))
def test_a_refused_report_is_a_reason(site: Site, fault: dict[str, Any], said: str) -> None:
    call("case", "open", "--node", NODE, "--fault", "gpu_off_bus", "--host", site.host)
    site.cloud.strike({"path": "/workloadImpacts/", **fault})
    status, out, _ = site.next("--yes", "--no-scheduler")
    assert (status, said in out, site.cloud.impacts) == (1, True, {}), out
    site.cloud.strike({"kind": "none"})
    assert site.next("--yes", "--no-scheduler")[0] == 0
    assert [one.puts for one in site.cloud.impacts.values()] == [1]


def test_a_drain_of_another_is_not_undone(site: Site) -> None:
    site.set(drained="healthagent: xid", bad_hosts=[])
    call("case", "open", "--node", NODE, "--fault", "low", "--category", "IBPerformance")
    # A person mends it.
    call("case", "record", NODE, "mended")
    status, out, err = site.next("--yes")
    assert status == 0, out + err
    assert json.loads(site.world.read_text())["drained"] == "healthagent: xid"
    assert "another drained it: healthagent: xid" in site.case()["rows"][-1]["about"]


def test_the_portal_gets_the_report_printed(site: Site) -> None:
    call("case", "open", "--node", NODE, "--fault", "gpu_off_bus", "--host", site.host)
    call("case", "record", NODE, "identified", "--resource-id", site.path)
    status, out, err = site.next("--yes", "--no-scheduler", "--report-by", "portal")
    assert (status, "az rest --method PUT" in err, "role Impact Reporter" in out) == (1, True, True)
    call("case", "record", NODE, "reported", "--impact", "by-hand-1")
    assert site.case()["state"] == "reported"


def test_a_policy_allows_and_forbids(site: Site) -> None:
    call("case", "open", "--node", NODE, "--fault", "gpu_off_bus", "--host", site.host)
    policy = site.folder / "policy.yml"
    text = (ROOT / "docs" / "examples" / "case_policy.yml").read_text()
    policy.write_text(text.replace('"22:00-06:00"', ""))
    assert site.next("--policy", str(policy))[0] == 0
    assert len(site.cloud.impacts) == 1
    assert {row["by"] for row in site.case()["rows"] if row["step"] == "drained"} == {"policy"}
    policy.write_text(text.replace('"22:00-06:00"', '"00:00-23:59"'))
    # The report is followed in quiet hours too; the VM is not moved.
    for _ in range(2):
        status, out, _ = site.next("--policy", str(policy))
    assert (status, "quiet hours (00:00-23:59 Europe/Berlin)" in out) == (1, True)
    assert site.steps()[-1] == "followed"


def test_closing_says_that_the_node_is_drained(site: Site) -> None:
    call("case", "open", "--node", NODE, "--fault", "gpu_off_bus")
    site.next("--yes")
    status, _, err = call("case", "close", NODE, "--reason", "VM deleted")
    assert (status, "is still drained" in err) == (0, True)
    assert call("case", "list")[0] == 0


def test_the_bill_has_hours_prices_and_false_drains(site: Site) -> None:
    call(
        *("case", "open", "--node", NODE, "--fault", "gpu_off_bus", "--host", site.host),
        *("--size", "Standard_ND96isr_H100_v5", "--region", "eastus"),
    )
    call("case", "open", "--node", "other", "--fault", "gpu_off_bus", "--size", "Standard_Nothing")
    status, out, _ = call("case", "bill", "-f", "json")
    cases, by_node, by_fault, by_month = json.loads(out)["tables"]
    assert (status, cases["unpriced_cases"], cases["false_drains"]) == (0, 1, 0)
    unpriced = {row["node"]: row["price"] == "not priced" for row in cases["rows"]}
    assert unpriced == {NODE: False, "other": True}
    assert [row["node"] for row in by_node["rows"]] == [NODE, "other"]
    assert [(row["fault"], row["cases"]) for row in by_fault["rows"]] == [("gpu_off_bus", 2)]
    assert len(by_month["rows"]) == 1


def test_results_with_cases_are_read_as_before(site: Site) -> None:
    before = call("list")
    call("case", "open")
    assert call("list") == before


# -- categories --

HEALTHAGENT = dict(
    line.split("\t")
    for line in (ROOT / "tests/data/faults/healthagent_codes.tsv").read_text().splitlines()[1:]
)


def test_the_category_of_each_code_is_healthagents() -> None:
    codes, entries = read_codes().by_code, read_dictionary().all
    ours = {
        code: entries[code].ghr if code in entries else codes.get(code, "") for code in HEALTHAGENT
    }
    # One of the XIDs that fail a node and have no category of their own.
    ours["xid_other"] = entries["xid_119"].ghr
    assert ours == HEALTHAGENT


def test_healthagents_categories_are_azures() -> None:
    known = (ROOT / "tests/data/faults/ghr_categories.txt").read_text().split()
    # The other one is of AMD's GPUs, which healthagent does not look at.
    assert {*read_codes().names} - {*known} == {"Resource.Hpc.Unhealthy.AmdGpuResetFailed"}
    assert {*known} - {*read_codes().names} == set()


def test_a_code_of_dcgm_opens_a_case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    status, out, _ = call("case", "open", "--node", "n", "--fault", "DCGM_FR_NVLINK_DOWN")
    assert (status, "Resource.Hpc.Unhealthy.NvLink" in out) == (0, True)
    status, _, err = call("case", "open", "--node", "n2", "--fault", "gpu_of_bus")
    assert (status, err.strip().endswith("did you mean gpu_off_bus?")) == (1, True)
