"""The action trueup_packages: each system's package manager; rpm alone on Enterprise Linux 8."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import role_plans
from action import trueup_packages
from ansible.errors import AnsibleActionFail
from helpers import parametrized
from trueup_node.node.packages import not_provided

SYSTEMS = {name: role_plans.node("hbv3", name) for name in role_plans.SYSTEMS}
MANAGERS = {
    "ubuntu-22.04": "apt",
    "ubuntu-24.04": "apt",
    "debian-12": "apt",
    "almalinux-9": "dnf",
    "azurelinux-3": "dnf",
}
ABSENT = "no package provides xfsprogs\nmdadm-4.2-14.el8.x86_64\n"


def action_of(arguments: dict[str, Any], *, check: bool = False, role: str = "fio") -> Any:
    owner = SimpleNamespace(get_name=lambda: role) if role else None
    task = SimpleNamespace(
        args=arguments, async_val=0, check_mode=check, action="trueup_packages", _role=owner
    )
    templar = SimpleNamespace(template=lambda value: value)
    connection = SimpleNamespace(_shell=SimpleNamespace(tmpdir="/nonexistent"))
    return trueup_packages.ActionModule(task, connection, None, None, templar, None)


def act(
    monkeypatch: pytest.MonkeyPatch,
    node: dict[str, Any] | None,
    answer: tuple[int, str] = (0, ""),
    *,
    check: bool = False,
    use: str = "",
    role: str = "fio",
    parents: tuple[str, ...] = (),
    answers: list[dict[str, Any]] | None = None,
    **arguments: Any,
) -> tuple[dict[str, Any], list[Any]]:
    """What the action returns, and what it called: arguments of Ansible's action, or commands."""
    called: list[Any] = []
    answers = answers or []
    action = action_of(arguments, check=check, role=role)

    def package(_: Any, module_name: str, module_args: Any, **__: Any) -> dict[str, Any]:
        assert module_name == "package_transaction"
        called.append(module_args)
        return answers.pop(0) if answers else {"changed": True}

    def command(_: Any, text: str) -> dict[str, Any]:
        called.append(text)
        return {"rc": answer[0], "stdout": answer[1], "stderr": ""}

    monkeypatch.setattr(trueup_packages.ActionModule, "_execute_module", package)
    monkeypatch.setattr(trueup_packages.ActionModule, "_low_level_execute_command", command)
    variables: dict[str, Any] = {} if node is None else {"trueup_node": node}
    variables["ansible_parent_role_names"] = list(parents)
    if use:
        variables["ansible_package_use"] = use
    return action.run(task_vars=variables), called


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("check", [False, True])
def test_each_system_has_its_package_manager(
    monkeypatch: pytest.MonkeyPatch, system: str, check: bool
) -> None:
    names = ["mdadm", "xfsprogs"]
    answer, called = act(monkeypatch, SYSTEMS[system], name=names, check=check)
    if system == "almalinux-8":
        assert called == ["env LC_ALL=C rpm --query --whatprovides mdadm xfsprogs"]
        assert answer["changed"] is False
    else:
        expected = {"manager": MANAGERS[system], "names": names, "role": "fio"}
        locks = [trueup_packages.DNF_LOCKED] if MANAGERS[system] == "dnf" else []
        assert called == [*locks, expected]
        assert answer["changed"] is True


def test_what_enterprise_linux_8_lacks_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    node = SYSTEMS["almalinux-8"]
    with pytest.raises(AnsibleActionFail, match=r"^xfsprogs: not installed"):
        act(monkeypatch, node, (1, ABSENT), name=["mdadm", "xfsprogs"])
    # A failure that names none is no success.
    with pytest.raises(AnsibleActionFail, match="mdadm, xfsprogs: not installed"):
        act(monkeypatch, node, (127, "env: rpm: No such file"), name=["mdadm", "xfsprogs"])


def test_what_neither_apt_nor_dnf_installs_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AnsibleActionFail, match="this node's package manager is zypper"):
        act(monkeypatch, SYSTEMS["almalinux-9"], name="fio", use="zypper")
    with pytest.raises(AnsibleActionFail, match="this node's package manager is not known"):
        act(monkeypatch, None, name="fio")


def test_a_refusal_is_left_as_it_is_worded(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = {
        "failed": True,
        "refused": True,
        "msg": "apt would remove ucx",
        "removed": {"ucx": "1"},
    }
    answer, called = act(
        monkeypatch, SYSTEMS["ubuntu-22.04"], transactions=[["a"], ["b"]], answers=[dict(refused)]
    )
    assert ({**answer, "changed": None}, len(called)) == ({**refused, "changed": None}, 1)


@pytest.mark.parametrize("name", ["", [], None])
@pytest.mark.parametrize("system", SYSTEMS)
def test_without_a_package_it_is_skipped(
    monkeypatch: pytest.MonkeyPatch, system: str, name: Any
) -> None:
    answer, called = act(monkeypatch, SYSTEMS[system], name=name)
    assert (answer["changed"], answer["skipped"], called) == (False, True, [])


LOCKED = {
    "failed": True,
    "msg": "E: Unable to acquire the dpkg frontend lock (/var/lib/dpkg/lock-frontend)",
    "stdout": "Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 812 (apt)...",
}
HELD = "Process 812 (apt) of the node holds /var/lib/dpkg/lock-frontend"


def test_a_lock_is_named_and_waited_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(trueup_packages, "WAIT_SECONDS", 0)
    answers = [dict(LOCKED), dict(LOCKED)]
    answer, called = act(monkeypatch, SYSTEMS["ubuntu-22.04"], name="fio", answers=answers)
    assert (answer, len(called)) == ({"changed": True}, 3)
    assert capsys.readouterr().out.count(f"apt waits up to 300 s: {HELD}") == 1


def test_dnf_never_begins_where_it_would_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trueup_packages, "WAIT_SECONDS", 0)
    said = "Could not get lock /var/lib/dnf/rpmdb_lock.pid. It is held by process 7 (dnf)"
    answer, called = act(
        monkeypatch, SYSTEMS["almalinux-9"], (0, said), name="fio", lock_timeout=0.001
    )
    assert set(called) == {trueup_packages.DNF_LOCKED}
    assert answer["msg"].startswith("Process 7 (dnf) of the node holds /var/lib/dnf/rpmdb_lock.pid")


def test_what_dpkg_had_begun_is_ended_once(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = {"failed": True, "msg": "E: dpkg was interrupted, you must manually run 'dpkg ...'"}
    repair = f"{trueup_packages.REPAIR} --configure -a"
    answer, called = act(monkeypatch, SYSTEMS["ubuntu-22.04"], name="fio", answers=[dict(broken)])
    assert (answer, called[1]) == ({"changed": True}, repair)
    answer, called = act(
        monkeypatch, SYSTEMS["ubuntu-22.04"], name="fio", answers=[dict(broken), dict(broken)]
    )
    assert called.count(repair) == 1
    assert answer["msg"].startswith("dpkg was interrupted on the node")


def test_a_package_that_no_list_has_is_looked_for_in_new_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    absent = {"failed": True, "msg": "E: Unable to locate package fio"}
    answer, called = act(monkeypatch, SYSTEMS["ubuntu-24.04"], name="fio", answers=[dict(absent)])
    assert answer == {"changed": True}
    assert [one.get("lists_age_seconds") for one in called] == [None, 0]
    answer, called = act(monkeypatch, SYSTEMS["almalinux-9"], name="fio", answers=[dict(absent)])
    assert "lists_age_seconds" not in str(called)


def test_a_repository_that_dnf_passed_over_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    said = (
        "Errors during downloading metadata for repository 'm':\n"
        "  - Curl error (7): Couldn't connect to server for http://mirror.example/rpm/repodata/x"
        " [Failed to connect]\nError: Failed to download metadata for repo 'm'\n"
    )
    failed = {"failed": True, "msg": "x", "stderr": "Error: Unable to find a match: fio"}
    waits = iter([(0, ""), (0, said)])

    def command(_: Any, text: str) -> dict[str, Any]:
        return {"rc": 0, "stdout": next(waits)[1], "stderr": ""}

    act_once = trueup_packages.ActionModule
    monkeypatch.setattr(act_once, "_execute_module", lambda *_, **__: dict(failed))
    monkeypatch.setattr(act_once, "_low_level_execute_command", command)
    answer = action_of({"name": "fio"}).run(task_vars={"trueup_node": SYSTEMS["almalinux-9"]})
    assert answer["msg"] == (
        "The repository that the node has (http://mirror.example/rpm/repodata/x) cannot be read"
        " (Curl error (7): Couldn't connect to server): check the node's way out (proxy, firewall,"
        " name service), or point /etc/yum.repos.d at a mirror."
    )


def test_transactions_end_with_the_first_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [{"changed": True}, {"failed": True, "msg": "No space left on device"}]
    answer, called = act(
        monkeypatch,
        SYSTEMS["ubuntu-24.04"],
        transactions=[["a=1"], ["b=2"], ["c=3"]],
        answers=answers,
    )
    assert [one["names"] for one in called] == [["a=1"], ["b=2"]]
    assert (answer["changed"], answer["failed"]) == (True, True)
    assert answer["msg"].startswith("There is no space left for the packages b=2")


@parametrized(("status", "output", "missing"))
def test_what_rpm_says_is_missing(status: int, output: str, missing: list[str]) -> None:
    assert not_provided(status, output, ["a", "b"]) == missing
