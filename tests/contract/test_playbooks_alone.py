"""Each playbook run alone, on nodes that nobody has identified before: it does what it needs first,
or says in one sentence what to run."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import plays
import pytest
from metadata_server import document, send, serving

ROOT = Path(__file__).parents[2]
NOWHERE = "http://127.0.0.1:9"
HOSTS = {"n1": {"trueup_metadata_url": NOWHERE}}
# Only as much as the checks of the playbook itself need.
FEW = {"trueup_benchmarks": [], "trueup_health_benchmarks": []}
OF_NODES = ("-e", json.dumps(FEW))
# Exit status and what is said, by playbook, with further arguments.
PLAYBOOKS: dict[str, tuple[int, str, tuple[str, ...]]] = {
    "identify": (0, "local: no Azure size", ()),
    "preflight": (0, "Report expected time and cost", OF_NODES),
    "configure": (0, "Plan roles", OF_NODES),
    "cluster": (0, "no hosts matched", OF_NODES),
    "health": (0, "0 of 1 node judged", OF_NODES),
    "benchmark": (0, "Start or resume the run", OF_NODES),
    "pairwise": (2, "pairs need two nodes", OF_NODES),
    "judge": (2, "run playbooks/check.yml (or health.yml)", ()),
    "check": (0, "0 of 1 node judged", OF_NODES),
    "morning": (2, "/nowhere does not exist", ("-e", '{"morning_options": ["/nowhere"]}')),
    "evidence": (0, "not there, or not whole: ", ()),
    "acceptance": (0, "bundle: ", ()),
    "pull": (0, "0 of 1 node judged", OF_NODES),
    "provision": (2, "give a recipe: -e trueup_azure_recipe=", ()),
    "teardown": (2, "give the run: -e trueup_azure_run=", ()),
    "cyclecloud": (2, "cyclecloud_cluster is not set; write the name", ()),
    # It would install packages.
    "lab": (0, "Report system packages", ("--check",)),
}


def play(folder: Path, name: str, hosts: dict[str, Any], *options: str) -> tuple[int, str]:
    """Exit status, and all output with its lines joined."""
    inventory = folder / "hosts.json"
    inventory.write_text(json.dumps({"all": {"hosts": hosts}}))
    path = str(ROOT / "playbooks" / f"{name}.yml")
    done = plays.playbook(folder, "-i", str(inventory), *plays.LOCAL, path, *options)
    return done.returncode, re.sub(r"\s+", " ", done.stdout + done.stderr)


def test_all_playbooks_are_tried() -> None:
    assert set(PLAYBOOKS) == {path.stem for path in (ROOT / "playbooks").glob("*.yml")}


@pytest.mark.parametrize("name", PLAYBOOKS)
def test_a_playbook_alone(name: str, tmp_path: Path) -> None:
    status, text, options = PLAYBOOKS[name]
    done, said = play(tmp_path, name, HOSTS, *options)
    assert (done, text in said) == (status, True), said
    assert re.findall("no attribute|undefined|Traceback|probably a bug", said) == []


def test_a_remembered_node_joins_its_family_again(tmp_path: Path) -> None:
    """Groups are of one run, and facts are kept: of these alone a node would be of no family."""
    hosts = {"n1": {**HOSTS["n1"], "trueup_vm_size": "Standard_HB120rs_v3"}}
    assert play(tmp_path, "identify", hosts)[0] == 0
    assert (tmp_path / "facts").exists()
    _, said = play(tmp_path, "preflight", hosts, *OF_NODES)
    assert "(item=hbv3, identified_by_trueup)" in said


WRONG = {
    "a/b": "'a/b' in the inventory cannot be a node's name",
    "n" * 255: f"'{'n' * 60}'... (255 characters) in the inventory",
    "-n": "'-n' in the inventory",
    "..": "'..' in the inventory",
    "a\nb": r"'a\nb' in the inventory",
}


@pytest.mark.parametrize("name", WRONG)
def test_a_name_that_no_file_can_have_is_refused_in_one_sentence(name: str, tmp_path: Path) -> None:
    status, said = play(tmp_path, "check", {name: HOSTS["n1"], "n2": HOSTS["n1"]}, *OF_NODES)
    assert (status, said.count(WRONG[name])) == (1, 1)
    assert said.partition("[ERROR]: ")[2].startswith(WRONG[name])
    # Before any node is asked: nothing is written.
    written = [path.name for path in tmp_path.rglob("*") if path.is_file()]
    assert ("TASK" in said, written) == (False, ["hosts.json"])


def test_one_vm_under_two_names_fails_by_both_names_and_others_go_on(tmp_path: Path) -> None:
    first, second = "0f0e0d0c-0b0a-4900-8807-060504030201", "0f0e0d0c-0b0a-4900-8807-060504030202"
    with (
        serving(send(document(vmId=first))) as (one, _),
        serving(send(document(vmId=first.upper()))) as (same, _),
        serving(send(document(vmId=second))) as (other, _),
    ):
        hosts = {
            name: {"trueup_metadata_url": url}
            for name, url in (("hb-1", one), ("hb-one", same), ("hb-2", other))
        }
        status, said = play(tmp_path, "check", hosts, *OF_NODES)
    assert status != 0
    why = "hb-1 and hb-one are one Azure VM, and would count as 2 nodes"
    refused = re.findall(rf"fatal: \[(\S+)\]: FAILED! => {why}", said)
    assert refused == ["hb-1,hb-one"], said
    recap = dict(re.findall(r"(hb-\S+) : ok=\d+ changed=\d+ unreachable=\d+ failed=(\d+)", said))
    assert (recap["hb-1"], recap["hb-one"]) == ("1", "1")
    written = [path.name for path in tmp_path.rglob("node_state-*.json")]
    assert written == ["node_state-state-hb-2.json"]


def test_the_controller_may_have_two_names_and_is_warned_of(tmp_path: Path) -> None:
    status, said = play(tmp_path, "identify", {"n1": HOSTS["n1"], "n2": HOSTS["n1"]})
    assert (status, said.count("n1 and n2 are this controller, one machine under 2 names")) == (
        0,
        1,
    )
