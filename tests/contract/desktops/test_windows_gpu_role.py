"""The role windows_gpu on simulated Windows hosts, by Ansible's own psrp connection. Keys, types
and data are typed in from windows_a10.md, section 2.

Each case is a host, and all hosts are in the same three plays: check mode, a run, and a second run.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from plays import AS_JSON, answer, results, roles
from role_plans import windows_node
from simulated_windows import File, Host, grid, serving

TS = r"HKLM:\SOFTWARE\Policies\Microsoft\Windows NT\Terminal Services"
WS = r"HKLM:\SYSTEM\CurrentControlSet\Control\Terminal Server\WinStations"
POLICIES = {
    "bEnumerateHWBeforeSW": ("dword", 1),
    "AVCHardwareEncodePreferred": ("dword", 1),
    "AVC444ModePreferred": ("dword", 1),
    "ImageQuality": ("dword", 2),
}
EXE = r"C:\Program Files\trueup\574.24.exe"
INSTALLER = rf'"{EXE}" -s -noreboot'
REBOOT = {"windows_gpu_reboot_allowed": True}
MIRROR = "https://mirror.example/574.24.exe"


def fresh(**of_installer: Any) -> Host:
    return grid.offer(Host.nv_a10(), **of_installer)


def converged(size: str = "Standard_NV12ads_A10_v5", driver: str = "574.24", **gpu: Any) -> Host:
    """A host as the role leaves it, but for what is wrong with its GPU."""
    host = grid.settled(Host.nv_a10(size), driver)
    for name, value in gpu.items():
        setattr(host.gpus[0], name, value)
    return host


def drifted() -> Host:
    host = converged()
    host.registry.set(TS, "AVC444ModePreferred", "dword", 0)
    host.registry.set(TS, "HEVCHardwareEncodePreferred", "dword", 1)
    host.registry.set(TS, "MaxDisconnectionTime", "dword", 60000)
    return host


def with_file(**changes: Any) -> Host:
    host = fresh()
    file = host.downloads[grid.URL]
    for name, value in changes.items():
        setattr(file, name, value)
    return host


def old() -> Host:
    host = fresh()
    host.drive("538.46")
    return host


def mirrored() -> Host:
    host = fresh(url=MIRROR, status=0)
    host.downloads[MIRROR] = File(grid.program())
    return host


@dataclass
class Case:
    """A host, the role's variables, and what comes out: how many tasks change something in the
    first run, whether it restarts, and why it fails (empty: it does not)."""

    host: Host
    changed: int = 0
    boots: int = 0
    why: str = ""
    variables: dict[str, Any] = field(default_factory=lambda: dict(REBOOT))


def cases() -> dict[str, Case]:
    mirror = {
        "windows_gpu_url": MIRROR,
        "windows_gpu_checksums": {"574.24": fresh().downloads[grid.URL].digest("sha256")},
    }
    return {
        "fresh": Case(fresh(), 3, 1),
        "fresh-without-reboot": Case(
            fresh(), 2, why="windows_gpu_reboot_required: restart the host", variables={}
        ),
        "mirror-without-signature": Case(mirrored(), 3, 1, variables={**REBOOT, **mirror}),
        "converged": Case(converged()),
        "kept-nv6": Case(converged("Standard_NV6ads_A10_v5", "573.96")),
        "kept-nv72": Case(converged("Standard_NV72ads_A10_v5", "595.97")),
        "drifted": Case(drifted(), 2, 1),
        "replaced": Case(
            old(), 3, 1, variables={**REBOOT, "windows_gpu_working_driver": "replace"}
        ),
        "old": Case(old(), why="driver 538.46 is installed here, of a GRID release before 18"),
        "installer-fails": Case(fresh(status=100), why="with status 100: it found no GPU"),
        "installer-ends-strangely": Case(fresh(status=7), why="with status 7: see"),
        "another-file": Case(with_file(data=b"another"), why="did not match"),
        "unsigned": Case(with_file(signer=None), why="Windows calls its signature NotSigned"),
        "signed-by-others": Case(
            with_file(signer="CN=Mallory, O=Mallory"), why="it is signed by CN=Mallory"
        ),
        "unlicensed": Case(
            converged(licence="Unlicensed (Unrestricted)"),
            why="is Unlicensed (Unrestricted), expected is Licensed",
        ),
        "code-43": Case(converged(error_code=43), why="has code 43: Windows has stopped it"),
        "tcc": Case(converged(driver_model="TCC"), why="driver model TCC, expected is WDDM"),
        "short-of-memory": Case(
            converged(memory_mib=4096), why="shows 4.00 GiB, expected of this size are 8"
        ),
        "another-share": Case(
            converged(name="NVIDIA A10-12Q"),
            why="is a slice of 12 GiB, expected of this size are 8",
        ),
    }


# The other hosts differ from these in what only a run looks at: the file, its installer, the GPU of
# a driver that is kept.
CHECKED = (
    *("fresh", "mirror-without-signature", "converged", "kept-nv6", "kept-nv72", "drifted"),
    *("replaced", "old", "code-43"),
)
# How many tasks changed something, and why it failed.
Outcome = tuple[int, str]


class Plays:
    """What each host was and became."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.cases = folder, cases()
        # The controller has downloaded the driver: there is no network here.
        (folder / ".trueup-grid-574.24-windows.exe").write_bytes(grid.program())
        before = self._states()
        self.checked = self._run("--check", "--limit", ",".join(CHECKED))
        self.changed_by_check = [
            name for name, state in self._states().items() if state != before[name]
        ]
        self.first = self._run()
        self.commands = {
            name: [entry["command_line"] for entry in case.host.process_log]
            for name, case in self.cases.items()
        }
        self.boots = {name: case.host.boots for name, case in self.cases.items()}
        # Those that fail in the first run are asked no second time.
        well = [name for name, case in self.cases.items() if not case.why]
        self.second = self._run("--limit", ",".join([*well, "fresh-without-reboot"]))
        self.cases["fresh-without-reboot"].host.reboot()
        self.after_reboot = self._run("--limit", "fresh-without-reboot")

    def _states(self) -> dict[str, Any]:
        logs = {"process_log", "events", "requests"}
        return {
            name: {key: value for key, value in case.host.dump().items() if key not in logs}
            for name, case in self.cases.items()
        }

    def _run(self, *options: str) -> dict[str, Outcome]:
        with contextlib.ExitStack() as stack:
            hosts = {}
            for name, case in self.cases.items():
                _, found = stack.enter_context(serving(case.host))
                node = {"trueup_node": windows_node(str(case.host.vm_size))}
                given = {"windows_gpu_licence_seconds": 0, **case.variables}
                hosts[name] = {**found, **node, **given}
            play = {"roles": ["windows_gpu"], "strategy": "free"}
            env = {**AS_JSON, "HOME": str(self.folder)}
            said = answer(roles(self.folder, play, "--forks", "20", *options, hosts=hosts, env=env))
        return {name: _outcome(results(said, name)) for name in self.cases}


def _outcome(found: list[dict[str, Any]]) -> Outcome:
    changed = sum(1 for one in found if one.get("changed") and not one.get("failed"))
    return changed, " ".join(str(one.get("msg")) for one in found if one.get("failed"))


@pytest.fixture(name="plays", scope="module")
def _plays(tmp_path_factory: pytest.TempPathFactory) -> Plays:
    return Plays(tmp_path_factory.mktemp("windows_gpu"))


@pytest.mark.parametrize("name", list(cases()))
def test_what_comes_out(plays: Plays, name: str) -> None:
    case = plays.cases[name]
    changed, why = plays.first[name]
    assert (changed, plays.boots[name]) == (case.changed, case.boots)
    assert (case.why in why, bool(why)) == (True, bool(case.why))


@pytest.mark.parametrize("name", [name for name, case in cases().items() if not case.why])
def test_a_second_run_changes_nothing(plays: Plays, name: str) -> None:
    assert plays.second[name] == (0, "")
    assert plays.cases[name].host.boots == plays.boots[name]


def test_check_mode_says_what_would_change_and_changes_nothing(plays: Plays) -> None:
    assert plays.changed_by_check == []
    assert {name: changed for name, (changed, _) in plays.checked.items() if changed} == {
        "fresh": 2,
        "mirror-without-signature": 2,
        "drifted": 1,
        "replaced": 2,
    }
    for name in CHECKED:
        why = plays.cases[name].why
        assert (name, why in plays.checked[name][1]) == (name, True)
        assert (name, bool(plays.checked[name][1])) == (name, bool(why))


def test_a_restart_that_is_not_allowed_is_asked_for_until_it_came(plays: Plays) -> None:
    changed, why = plays.second["fresh-without-reboot"]
    assert (changed, why.split(":")[0]) == (0, "windows_gpu_reboot_required")
    assert plays.after_reboot["fresh-without-reboot"] == (0, "")


def test_the_driver_is_run_once_by_its_arguments_and_its_file_is_gone(plays: Plays) -> None:
    ran = {name: said.count(INSTALLER) for name, said in plays.commands.items()}
    assert sorted(name for name, count in ran.items() if count) == [
        *("fresh", "fresh-without-reboot", "installer-ends-strangely", "installer-fails"),
        *("mirror-without-signature", "replaced"),
    ]
    assert max(ran.values()) == 1
    left = [name for name, case in plays.cases.items() if case.host.file(EXE) is not None]
    assert left == []


@pytest.mark.parametrize("name", ["fresh", "converged", "replaced"])
def test_the_policies(plays: Plays, name: str) -> None:
    assert _values(plays.cases[name].host, TS) == POLICIES
    assert _values(plays.cases[name].host, WS) == {"DWMFRAMEINTERVAL": ("dword", 15)}


def test_drift_is_repaired_and_others_policies_stay(plays: Plays) -> None:
    found = _values(plays.cases["drifted"].host, TS)
    assert found == {**POLICIES, "MaxDisconnectionTime": ("dword", 60000)}


def test_the_controller_keeps_the_sha256_and_not_the_file(plays: Plays) -> None:
    pin = plays.folder / ".trueup-grid-574.24-windows.sha256"
    file = File(grid.program())
    assert pin.read_text() == f"{file.digest('sha256')}\n"
    assert (plays.folder / ".trueup-grid-574.24-windows.exe").exists() is False


def _values(host: Host, path: str) -> dict[str, Any]:
    key = host.registry.get(path)
    values = key.values.values() if key else ()
    return {value.name: (value.type, value.data) for value in values}
