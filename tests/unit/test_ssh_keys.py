"""The ssh keys of a run: what goes where, and that all of it, and nothing else, goes away again."""

from __future__ import annotations

import stat
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import ssh_keys as module
import trueup_ssh_keys as action
from ansible.errors import AnsibleActionFail
from helpers import answer_of, parametrized
from trueup_node.errors import BadInput
from trueup_node.node import ssh_keys

RUN, OLDER = "20261123T000000Z-0001", "20261101T000000Z-000f"
HOST_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDk4tdOpRIkbVCGrYKA2DhUIGEXv2kh6jNYZ5R+RFQGc"
OWN_KEYS = "# mine\nssh-ed25519 AAAAC3Nz me@home\nrestrict ssh-rsa AAAA trueup-run-notes@home\n"
OWN_CONFIG = "ServerAliveInterval 30\nHost a\n    User me\n"


def found(name: str, address: str) -> dict[str, Any]:
    """What the module says of a node."""
    key = f"ssh-ed25519 AAAAC3Nza{name} trueup-run-{RUN}\n"
    host_keys = [f"{HOST_KEY} root@{name}\n"]
    return {"names": [name], "addresses": [address], "public_key": key, "host_keys": host_keys}


PEERS = [ssh_keys.peer(found("a", "10.0.0.4")), ssh_keys.peer(found("b", "10.0.0.5"))]


def test_each_key_holds_for_its_own_node_alone() -> None:
    plan = ssh_keys.plan(RUN, PEERS, "/home/me/.ssh", "20261201")
    assert plan.authorized.splitlines() == [
        f'restrict,from="10.0.0.{number}",expiry-time="20261201" ssh-ed25519 AAAAC3Nza{name}'
        f" trueup-run-{RUN}@{name}"
        for name, number in (("a", 4), ("b", 5))
    ]
    assert plan.known_hosts.splitlines() == [f"a,10.0.0.4 {HOST_KEY}", f"b,10.0.0.5 {HOST_KEY}"]


def test_what_was_there_is_there_again() -> None:
    plan = ssh_keys.plan(RUN, PEERS, "/home/me/.ssh", "20261201")
    older = ssh_keys.plan(OLDER, PEERS, "/home/me/.ssh", "20261101")
    for own in ("", OWN_KEYS, OWN_KEYS.rstrip("\n")):
        left = ssh_keys.with_lines(own, older.authorized)
        text = ssh_keys.with_lines(left, plan.authorized)
        assert (text.count(RUN), text.count(OLDER)) == (2, 0)
        assert ssh_keys.without(text).rstrip("\n") == own.rstrip("\n")
    for own in ("", OWN_CONFIG):
        text = ssh_keys.with_block(ssh_keys.with_block(own, older.config), plan.config)
        assert (text.count("Match all"), ssh_keys.without(text)) == (1, own)


def test_a_block_without_its_end_is_left() -> None:
    cut = f"# trueup-run-{RUN} begin\nHost a\nHost mine\n"
    assert ssh_keys.without(cut) == cut


def test_ssh_takes_it_so(tmp_path: Path) -> None:
    plan = ssh_keys.plan(RUN, PEERS, str(tmp_path), "20261201")
    (tmp_path / "config").write_text(ssh_keys.with_block(OWN_CONFIG, plan.config))

    def settings(host: str) -> dict[str, str]:
        argv = ["ssh", "-G", "-F", str(tmp_path / "config"), host]
        said = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
        return dict(line.split(" ", 1) for line in said.splitlines() if " " in line)

    there, other = settings("a"), settings("elsewhere")
    assert there["identityfile"] == str(tmp_path / f"trueup-run-{RUN}")
    assert str(tmp_path / f"trueup-run-{RUN}.known_hosts") in there["userknownhostsfile"]
    # The user's own, before and after his first Host.
    assert (there["user"], there["serveraliveinterval"]) == ("me", "30")
    assert other["serveraliveinterval"] == "30"
    assert "trueup" not in other["identityfile"] + other["userknownhostsfile"]


@parametrized(("change", "said"))
def test_what_is_no_node_is_refused(change: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput) as caught:
        ssh_keys.peer({**found("a", "10.0.0.4"), **change})
    assert said in str(caught.value)


@pytest.mark.parametrize("run", ["", "../../etc", "20261123T000000Z-0001\n"])
def test_a_run_without_an_id_is_refused(run: str) -> None:
    with pytest.raises(BadInput, match="is not the id of a run"):
        ssh_keys.plan(run, PEERS, "/home/me/.ssh", "20261201")
    with pytest.raises(BadInput, match="no node"):
        ssh_keys.plan(RUN, [], "/home/me/.ssh", "20261201")


# ---- the module ---------------------------------------------------------------------------------


@pytest.fixture(name="run")
def _run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Any:
    (tmp_path / "ssh_host_ed25519_key.pub").write_text(f"{HOST_KEY} root@here\n")
    monkeypatch.setattr(module, "HOST_KEYS", str(tmp_path / "ssh_host_*_key.pub"))

    def run(**given: Any) -> dict[str, Any]:
        asked = {"folder": str(tmp_path / "home" / ".ssh"), "run_id": RUN, **given}
        return answer_of(module, capsys, **asked)

    return run


def texts(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir()} if folder.exists() else {}


@pytest.mark.parametrize("own", [{}, {"authorized_keys": OWN_KEYS, "config": OWN_CONFIG}])
def test_a_run_leaves_the_folder_as_it_was(run: Any, tmp_path: Path, own: dict[str, str]) -> None:
    folder = tmp_path / "home" / ".ssh"
    folder.mkdir(parents=True)
    for name, text in own.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o640)
    made = run(state="made", names=["here"], next="")
    assert (made["reachable"], made["peer"]["host_keys"]) == (False, [f"{HOST_KEY} root@here\n"])
    again = run(state="made", names=["here"])["peer"]["public_key"]
    assert again == made["peer"]["public_key"]
    key = folder / f"trueup-run-{RUN}"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    peers = [{**made["peer"], "addresses": ["127.0.0.1"]}]
    assert run(state="present", peers=peers).get("failed") is None
    lines = (folder / "authorized_keys").read_text()
    assert (lines.count('from="127.0.0.1"'), lines.startswith(own.get("authorized_keys", ""))) == (
        1,
        True,
    )
    mode = stat.S_IMODE((folder / "authorized_keys").stat().st_mode)
    assert mode == (0o640 if own else 0o600)
    assert len(run(state="absent")["removed"]) == 4
    assert texts(folder) == own


def test_what_a_killed_run_left_goes_first(run: Any, tmp_path: Path) -> None:
    folder = tmp_path / "home" / ".ssh"
    made = run(state="made", run_id=OLDER, names=["here"])
    peers = [{**made["peer"], "addresses": ["127.0.0.1"]}]
    run(state="present", run_id=OLDER, peers=peers)
    assert OLDER in "".join([*texts(folder), *texts(folder).values()])
    run(state="made", names=["here"])
    assert OLDER not in "".join([*texts(folder), *texts(folder).values()])
    assert list(texts(folder)) == [f"trueup-run-{RUN}"]


def test_check_mode_makes_nothing(run: Any, tmp_path: Path) -> None:
    run(state="made", names=["here"], _ansible_check_mode=True)
    assert texts(tmp_path / "home" / ".ssh") == {}


def test_what_cannot_be_is_one_sentence(run: Any, tmp_path: Path) -> None:
    said = run(state="present", peers=[{**found("a", "10.0.0.4"), "addresses": []}])
    assert said["msg"] == "ssh keys: a: it has not an address"
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / ".ssh").write_text("no folder")
    assert run(state="present", peers=[found("a", "10.0.0.4")])["failed"] is True


# ---- what the controller hands on ---------------------------------------------------------------


def test_nodes_are_called_as_launchers_call_them() -> None:
    hostvars = {"a": {"slurm_node_name": "node-a", "ansible_host": "10.0.0.4"}, "b": {}}
    assert action.asked("b", ["a", "b"], hostvars) == {"names": ["b", "b", "b"], "next": "node-a"}
    assert action.asked("a", ["a", "b"], hostvars)["names"] == ["node-a", "a", "10.0.0.4"]


def test_keys_are_exchanged_only_where_ssh_does_not_work() -> None:
    made = {host: {action.MADE: {"reachable": True, "peer": {"names": [host]}}} for host in "ab"}
    assert action.exchanged(["a", "b"], made) == {"state": "absent"}
    made["b"][action.MADE]["reachable"] = False
    assert action.exchanged(["a", "b"], made) == {"peers": [{"names": ["a"]}, {"names": ["b"]}]}
    with pytest.raises(AnsibleActionFail, match="none was made on c"):
        action.exchanged(["a", "b", "c"], {**made, "c": {}})


@parametrized(("change", "why"))
def test_a_node_that_the_others_cannot_let_in_fails_alone(
    change: dict[str, Any], why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = {"changed": False, "peer": {**found("a", "10.0.0.4"), **change}}
    monkeypatch.setattr(action.ActionBase, "run", lambda *_: {})
    monkeypatch.setattr(action.ActionModule, "_execute_module", lambda *_, **__: dict(said))
    made = action.ActionModule.__new__(action.ActionModule)
    made._task = SimpleNamespace(args={"state": "made"}, check_mode=False)
    made._templar = SimpleNamespace(template=lambda value: value)
    hosts = {"a": {}, "b": {}}
    variables = {
        "inventory_hostname": "a",
        "ansible_play_hosts": ["a", "b"],
        "hostvars": hosts,
        "trueup_run_id": RUN,
    }
    if not why:
        assert made.run(None, variables) == said
        return
    with pytest.raises(AnsibleActionFail, match=why):
        made.run(None, variables)
