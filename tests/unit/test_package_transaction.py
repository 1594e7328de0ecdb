"""The module package_transaction with real apt and dpkg on a private root, and with a dnf that says
what a real one said."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import package_transaction
import private_apt
import pytest
from ansible.module_utils import basic
from helpers import answer_of

SIMULATED = Path(__file__).parents[1] / "data" / "packages" / "simulated"
LACKING = private_apt.lacking()
NEEDS_APT = pytest.mark.skipif(LACKING != "", reason=f"{LACKING} is not installed")
# Relations of DOCA's ucx before 1.19.0 (openucx v1.18.1, debian/control.in), which most Azure HPC
# images before 2026 have, and of Debian's and Ubuntu's libopenmpi3.
UCX = "1.18.0-1.2501060"
STACK = {"doca-ofed": "2.10.0-0.0.1", "mlnx-tools": "25.01-0.2501060", "ucx": UCX}
CONFLICTS = ", ".join(f"{name} (<< {UCX})" for name in ("libucx0", "libucx-dev", "ucx-utils"))


class Ran:
    """The module, with its record and apt's lists in a folder of the test."""

    def __init__(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        self.capsys, self.record = capsys, folder / "record" / "installed.json"
        monkeypatch.setenv("TRUEUP_PACKAGES", str(self.record))
        monkeypatch.setattr(package_transaction, "_STAMP", str(folder / "no-stamp"))
        monkeypatch.setattr(package_transaction, "_LISTS", str(folder / "root/var/lib/apt/lists"))

    def __call__(self, *names: str, check: bool = False, **options: Any) -> dict[str, Any]:
        arguments = {"manager": "apt", "role": "gromacs", **options, "names": list(names)}
        return answer_of(package_transaction, self.capsys, **arguments, _ansible_check_mode=check)

    @property
    def recorded(self) -> Any:
        return json.loads(self.record.read_text())["packages"] if self.record.exists() else {}


@pytest.fixture
def apt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> private_apt.PrivateApt:
    """An image's stack, and a distribution that offers GROMACS with its MPI."""
    root = private_apt.PrivateApt(tmp_path, monkeypatch)
    root.offer("libucx0", "1.13.1-1")
    root.offer("libopenmpi3", "4.1.4-3", Depends="libucx0 (>= 1.12.1~rc2)")
    root.offer("gromacs", "2022.5-2", Depends="libopenmpi3", Recommends="mpi-default-bin")
    root.offer("mpi-default-bin", "1.14")
    root.offer("fio", "3.33-3")
    root.offer("tool", "1.0-1")
    root.offer("tool", "2.0-1")
    root.publish()
    root.have("ucx", UCX, Conflicts=CONFLICTS)
    root.have("mlnx-tools", STACK["mlnx-tools"])
    root.have("doca-ofed", STACK["doca-ofed"], Depends=f"ucx (= {UCX}), mlnx-tools")
    os.utime(tmp_path / "root/var/lib/apt/lists", (0, 0))
    return root


@pytest.fixture
def ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Ran:
    return Ran(tmp_path, monkeypatch, capsys)


@NEEDS_APT
def test_the_images_stack_is_not_removed_for_gromacs(apt: private_apt.PrivateApt, ran: Ran) -> None:
    ran("fio")
    before = apt.installed()
    for check in (True, False):
        answer = ran("gromacs", check=check)
        assert (answer["failed"], answer["refused"]) == (True, True)
        assert answer["removed"] == {"doca-ofed": "2.10.0-0.0.1", "ucx": UCX}
        assert "`apt-get remove doca-ofed ucx`" in answer["msg"]
    assert apt.installed() == before == {**STACK, "fio": "3.33-3"}
    assert sorted(ran.recorded) == ["fio"]


@NEEDS_APT
def test_a_question_only_returns_the_refusal(apt: private_apt.PrivateApt, ran: Ran) -> None:
    # The lists were never read, and a question reads none.
    assert "Unable to locate package gromacs" in ran("gromacs", asked=True)["unknown"]
    ran("fio")
    answer = ran("gromacs", asked=True)
    assert (answer["changed"], answer["refused"]) == (False, True)
    assert sorted(answer["removed"]) == ["doca-ofed", "ucx"]
    assert "gromacs" not in apt.installed()


@NEEDS_APT
def test_a_ucx_that_provides_the_distributions_is_no_obstacle(
    apt: private_apt.PrivateApt, ran: Ran
) -> None:
    """As openucx v1.19.0 and later have it."""
    text = apt.status.read_text().replace(
        f"Conflicts: {CONFLICTS}", f"Conflicts: {CONFLICTS}\nProvides: libucx0 (= {UCX})"
    )
    apt.status.write_text(text)
    answer = ran("gromacs")
    assert (answer["changed"], answer["removed"]) == (True, {})
    assert answer["installed"] == {"gromacs": "2022.5-2", "libopenmpi3": "4.1.4-3"}
    assert apt.installed() == {**STACK, **answer["installed"]}


@NEEDS_APT
def test_a_second_time_changes_nothing_and_starts_no_apt(
    apt: private_apt.PrivateApt, ran: Ran, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ran("fio", check=True, lists_age_seconds=0)["failed"] is True
    assert ran("fio")["changed"] is True
    assert ran.recorded == {"fio": {"role": "gromacs", "version": "3.33-3"}}
    monkeypatch.setenv("APT_CONFIG", "/nonexistent")
    for more in ({}, {"check": True}):
        assert ran("fio", **more)["changed"] is False
        assert ran("fio=3.33-*", **more)["changed"] is False


@NEEDS_APT
def test_check_mode_says_it_and_changes_nothing(apt: private_apt.PrivateApt, ran: Ran) -> None:
    ran("fio")
    before = apt.installed()
    answer = ran("tool", check=True)
    assert (answer["changed"], answer["installed"]) == (True, {"tool": "2.0-1"})
    assert (apt.installed(), sorted(ran.recorded)) == (before, ["fio"])


@NEEDS_APT
def test_a_downgrade_is_refused_unless_it_is_asked_for_or_trueups_own(
    apt: private_apt.PrivateApt, ran: Ran
) -> None:
    apt.have("tool", "2.0-1")
    answer = ran("tool=1.0-1")
    assert (answer["refused"], answer["downgraded"]) == (True, {"tool": "1.0-1"})
    assert apt.installed()["tool"] == "2.0-1"
    answer = ran("tool=1.0-1", allow_downgrade=True)
    assert (answer["changed"], apt.installed()["tool"]) == (True, "1.0-1")
    # It was not trueup that installed it.
    assert ran.recorded == {}


@NEEDS_APT
def test_a_role_may_replace_its_own_package_and_no_other_role_may(
    apt: private_apt.PrivateApt, ran: Ran
) -> None:
    apt.offer("pinning-1", "1-1")
    apt.offer("pinning-2", "2-1", Conflicts="pinning-1")
    apt.publish()
    assert ran("pinning-1", role="gpu_driver")["changed"] is True
    assert ran("pinning-2", role="hpl")["removed"] == {"pinning-1": "1-1"}
    answer = ran("pinning-2", role="gpu_driver")
    assert (answer["changed"], answer["removed"]) == (True, {"pinning-1": "1-1"})
    assert ran.recorded == {"pinning-2": {"role": "gpu_driver", "version": "2-1"}}
    assert apt.installed() == {**STACK, "pinning-2": "2-1"}


@NEEDS_APT
def test_a_package_that_somebody_removed_is_not_trueups_any_more(
    apt: private_apt.PrivateApt, ran: Ran
) -> None:
    apt.offer("rival", "1-1", Conflicts="fio")
    apt.publish()
    ran("fio")
    record = json.loads(ran.record.read_text())
    record["packages"]["gone"] = {"version": "1-1", "role": "gromacs"}
    ran.record.write_text(json.dumps(record))
    ran("tool")
    assert sorted(ran.recorded) == ["fio", "tool"]


@NEEDS_APT
def test_a_broken_record_frees_nothing_and_is_named(
    apt: private_apt.PrivateApt, ran: Ran, monkeypatch: pytest.MonkeyPatch
) -> None:
    warned: list[str] = []
    monkeypatch.setattr(basic.AnsibleModule, "warn", lambda _, text: warned.append(text))
    apt.offer("rival", "1-1", Conflicts="fio")
    apt.publish()
    ran("fio")
    ran.record.write_text(ran.record.read_text()[:-9])
    answer = ran("rival")
    assert (answer["refused"], answer["removed"]) == (True, {"fio": "3.33-3"})
    assert [text.startswith(f"{ran.record} is no record") for text in warned] == [True]


@NEEDS_APT
def test_a_file_is_installed_and_check_mode_waits_for_its_download(
    apt: private_apt.PrivateApt, ran: Ran
) -> None:
    path = apt.repository / "tool_1.0-1_amd64.deb"
    absent = str(apt.repository / "other_1.0-1_amd64.deb")
    assert ran(absent, check=True)["changed"] is True
    assert ran(absent)["failed"] is True
    assert ran(str(path))["installed"] == {"tool": "1.0-1"}
    assert ran(str(path))["changed"] is False


@NEEDS_APT
def test_what_apt_says_is_in_the_answer(apt: private_apt.PrivateApt, ran: Ran) -> None:
    answer = ran("nothing-of-that-name")
    assert answer["rc"] == 100
    assert "E: Unable to locate package nothing-of-that-name" in answer["stderr"]
    (apt.root / "etc/apt/sources.list").write_text("deb file:/nonexistent ./\n")
    answer = ran("tool", lists_age_seconds=0)
    assert "does not have a Release file" in answer["msg"] + answer["stderr"]
    assert "tool" not in apt.installed()


DNF = """#!/bin/sh
echo "$@" >> {calls}
case "$*" in
    *--assumeno*) cat {simulated}; exit {status} ;;
esac
"""
RPM = """#!/bin/sh
case "$*" in
    *whatprovides*) exit 1 ;;
    *) echo "mlnx-tools installed 0:25.01-0.2501060" ;;
esac
"""


@pytest.fixture
def dnf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Has dnf say what a real one said, and gives what it was called with."""
    calls, programs = tmp_path / "calls", tmp_path / "bin"
    programs.mkdir()
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")

    def says(name: str, status: int = 1) -> Path:
        text = DNF.format(calls=calls, simulated=SIMULATED / f"{name}.txt", status=status)
        for program, script in (("dnf", text), ("rpm", RPM)):
            (programs / program).write_text(script)
            (programs / program).chmod(0o755)
        return calls

    return says


def test_dnf_replaces_no_package_of_the_image(dnf: Any, ran: Ran) -> None:
    calls = dnf("dnf_replaces")
    answer = ran("replacement", manager="dnf")
    assert (answer["refused"], answer["removed"]) == (True, {"mlnx-tools": "25.01-0.2501060"})
    assert "`dnf remove mlnx-tools`" in answer["msg"]
    assert [line for line in calls.read_text().splitlines() if "--assumeyes" in line] == []


def test_dnf_goes_back_to_no_older_dependency(dnf: Any, ran: Ran) -> None:
    calls = dnf("dnf_downgrades")
    answer = ran("needs-old", manager="dnf", allow_downgrade=True)
    assert (answer["refused"], answer["downgraded"]) == (True, {"libtool-old": "1.0-1"})
    assert calls.read_text().count("\n") == 1


def test_dnf_installs_after_the_simulation(dnf: Any, ran: Ran) -> None:
    calls = dnf("dnf_installs")
    answer = ran("fio", manager="dnf", recommended=True, lists_age_seconds=0)
    assert (answer["changed"], len(answer["installed"])) == (True, 3)
    simulated, installed = calls.read_text().splitlines()
    assert simulated.replace("--assumeno", "--assumeyes") == installed
    assert installed.endswith("--setopt=install_weak_deps=True --refresh install fio")
    assert ran.recorded["libaio"] == {"role": "gromacs", "version": "0.3.111-13.el9"}


@pytest.mark.parametrize(("name", "said"), [("dnf_conflict", "conflicts with ucx provided by")])
def test_dnfs_own_refusal_is_in_the_answer(dnf: Any, ran: Ran, name: str, said: str) -> None:
    dnf(name)
    answer = ran("openmpi", manager="dnf")
    assert said in answer["msg"] + answer["stdout"] + answer["stderr"]
