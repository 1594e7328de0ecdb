"""The role fslogix on a simulated Windows host: Ansible's own psrp connection, and modules that
answer as the sources of ansible.windows do. Names, types and data are typed in from Microsoft's
reference."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import plays
import pytest
from simulated_windows import Host, serving
from windows import fslogix

PROFILES = r"HKLM:\SOFTWARE\FSLogix\Profiles"
DEFENDER = r"HKLM:\SOFTWARE\Policies\Microsoft\Windows Defender\Exclusions"
KERBEROS = r"HKLM:\SYSTEM\CurrentControlSet\Control\Lsa\Kerberos\Parameters"
SHARE = r"\\stnx.file.core.windows.net\profiles"
SERVER = "stnx.file.core.windows.net"
NODE = {
    "system": "windows",
    "family": "nv_a10_v5",
    "vm_size": "Standard_NV12ads_A10_v5",
    "os": "Windows 11 Enterprise multi-session 25H2",
}
SETTINGS = {"Enabled": 1, "VHDLocations": [SHARE], "SizeInMBs": 30000, "VolumeType": "VHDX"}
KEY = "S3cr3tOfTheStorageAccount" + "A" * 61 + "=="
FOLDER = r"C:\Program Files\trueup\fslogix"


class Desk:
    """A host, and the role run on it."""

    def __init__(self, folder: Path, host: Host, variables: dict[str, Any]) -> None:
        self.folder, self.host, self.variables = folder, host, variables

    def run(self, *options: str, **given: Any) -> tuple[int, int, str]:
        """Exit status, tasks that changed something, and all that was said, on one line."""
        parts = {name: given.pop(name) for name in ("profiles", "odfc", "apps") if name in given}
        role = {f"fslogix_{name}": value for name, value in {"settings": parts, **given}.items()}
        hosts = {"nv0": {**self.variables, "trueup_node": NODE, **role}}
        done = plays.roles(self.folder, {"roles": ["fslogix"]}, *options, hosts=hosts)
        status, changed, said = plays.counted(done)
        print(said)
        return status, changed, " ".join(said.split())

    def values(self, path: str) -> dict[str, tuple[str, Any]]:
        """Types and data of a key of the host's registry, by name."""
        key = self.host.registry.get(path)
        return {one.name: (one.type, one.data) for one in key.values.values()} if key else {}


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    """A fresh host that can reach its share and download FSLogix 26.08."""
    host = Host.nv_a10()
    host.endpoints.append(f"{SERVER}:445")
    host.accounts.append("CONTOSO\\nx")
    fslogix.offer(host)
    with serving(host) as (_, variables):
        yield Desk(tmp_path, host, variables)


def converge(host: Host) -> None:
    """As the role leaves a host with SETTINGS and no exclusions."""
    host.install(fslogix.leaves())
    types = {"Enabled": "dword", "VHDLocations": "multistring", "SizeInMBs": "dword"}
    for name, data in SETTINGS.items():
        host.registry.set(PROFILES, name, types.get(name, "string"), data)


def test_a_fresh_host_is_converged_and_stays_so(desk: Desk) -> None:
    given = {
        "profiles": SETTINGS,
        "entra_kerberos": True,
        "groups": {
            "FSLogix Profile Include List": ["CONTOSO\\nx"],
            "FSLogix Profile Exclude List": ["Administrators"],
        },
        "redirections": {"excludes": [{"path": r"AppData\Local\Temp", "copy": 0}]},
    }
    before = desk.host.dump()
    status, changed, said = desk.run("--check", "--diff", **given)
    assert (status, changed) == (0, 2)
    assert rf"after: {PROFILES} SizeInMBs" in said
    assert "local group FSLogix Profile Exclude List" in said
    unchanged = ("registry", "files", "services", "groups", "installed", "requests")
    now = desk.host.dump()
    assert [name for name in unchanged if now[name] != before[name]] == []

    assert desk.run(**given)[:2] == (0, 2)
    assert desk.values(PROFILES) == {
        "Enabled": ("dword", 1),
        "VHDLocations": ("multistring", [SHARE]),
        "SizeInMBs": ("dword", 30000),
        "VolumeType": ("string", "VHDX"),
        "RedirXMLSourceFolder": ("string", FOLDER),
    }
    assert desk.values(KERBEROS) == {"CloudKerberosTicketRetrievalEnabled": ("dword", 1)}
    assert desk.values(r"HKLM:\Software\Policies\Microsoft\AzureADAccount") == {
        "LoadCredKeyFromProfile": ("dword", 1)
    }
    assert desk.values(DEFENDER) == {
        "Exclusions_Paths": ("dword", 1),
        "Exclusions_Processes": ("dword", 1),
    }
    assert desk.values(rf"{DEFENDER}\Paths")[rf"{SHARE}\*\*.VHDX.lock"] == ("string", "0")
    groups = desk.host.groups
    assert groups["FSLogix Profile Include List"] == ["CONTOSO\\nx"]
    assert groups["FSLogix Profile Exclude List"] == ["BUILTIN\\Administrators"]
    # Not declared, and left alone.
    assert groups["FSLogix ODFC Include List"] == ["Everyone"]
    file = desk.host.file(rf"{FOLDER}\redirections.xml")
    assert file is not None
    assert b'<Exclude Copy="0">AppData\\Local\\Temp</Exclude>' in (file.data or b"")
    # What was downloaded is gone.
    assert desk.host.below(FOLDER) == [rf"{FOLDER}\redirections.xml".lower()]
    [line] = [
        one["command_line"] for one in desk.host.process_log if "Setup" in one["command_line"]
    ]
    assert line.endswith("/install /quiet /norestart")

    assert desk.run("--check", **given)[:2] == (0, 0)
    assert desk.run(**given)[:2] == (0, 0)
    assert (len(desk.host.installed), desk.host.requests) == (1, [fslogix.URL])


def test_drift_is_repaired_and_what_is_not_declared_any_more_goes(desk: Desk) -> None:
    converge(desk.host)
    registry = desk.host.registry
    registry.set(PROFILES, "Enabled", "dword", 0)
    registry.set(PROFILES, "VolumeType", "multistring", ["VHDX"])
    registry.set(PROFILES, "IsDynamic", "dword", 0)
    registry.set(PROFILES, "OfAnother", "string", "tool")
    desk.host.services["frxccds"].state = "stopped"
    status, changed, said = desk.run("--diff", profiles=SETTINGS, defender_exclusions=False)
    assert (status, changed) == (0, 1)
    assert "-REG_DWORD 0" in said
    assert desk.values(PROFILES) == {
        "Enabled": ("dword", 1),
        "VHDLocations": ("multistring", [SHARE]),
        "SizeInMBs": ("dword", 30000),
        "VolumeType": ("string", "VHDX"),
        "OfAnother": ("string", "tool"),
    }
    assert desk.host.services["frxccds"].state == "started"
    assert desk.host.installed == []

    # Exclusions come and go with the share that they are of.
    assert desk.run(profiles=SETTINGS)[:2] == (0, 1)
    assert rf"{SHARE}\*\*.VHD" in desk.values(rf"{DEFENDER}\Paths")
    registry.set(rf"{DEFENDER}\Paths", r"C:\Site", "string", "0")
    desk.host.endpoints.append("nx.contoso.com:445")
    moved = {**SETTINGS, "VHDLocations": [r"\\nx.contoso.com\p"]}
    assert desk.run(profiles=moved)[:2] == (0, 1)
    paths = desk.values(rf"{DEFENDER}\Paths")
    assert [name for name in paths if name.startswith(SHARE)] == []
    assert {r"C:\Site", r"\\nx.contoso.com\p\*\*.VHD"} <= set(paths)


def test_an_older_release_is_replaced_and_a_newer_one_stays(desk: Desk) -> None:
    desk.host.install(fslogix.leaves("2.9.8884.27471"))
    assert desk.run(profiles=SETTINGS)[0] == 0
    assert desk.host.registry.value(fslogix.APPS, "InstallVersion") == "3.26.826.17182"
    desk.host.registry.set(fslogix.APPS, "InstallVersion", "string", "3.100.1.1")
    assert desk.run(profiles=SETTINGS)[:2] == (0, 0)
    assert len(desk.host.installed) == 1


def test_a_zip_of_another_sha256_is_not_unpacked(desk: Desk) -> None:
    desk.host.downloads[fslogix.URL].sha256 = "f" * 64
    status, _, said = desk.run(profiles=SETTINGS)
    assert status == 2
    assert "did not match '129e111d4acf8502" in said
    assert desk.host.below(FOLDER) == [rf"{FOLDER}\3.26.826.17182".lower()]
    assert (desk.host.installed, desk.values(PROFILES)) == ([], {})


def test_an_installer_that_fails_leaves_no_settings(desk: Desk) -> None:
    fslogix.offer(desk.host, status=1603)
    status, _, said = desk.run(profiles=SETTINGS)
    assert status == 2
    assert "FSLogix 3.26.826.17182: its installer failed: unexpected rc" in said
    assert desk.values(PROFILES) == {}


def test_an_installer_that_installs_nothing_is_noticed(desk: Desk) -> None:
    fslogix.offer(desk.host, version="3.26.102.18413")
    status, _, said = desk.run(profiles=SETTINGS)
    assert status == 2
    assert "FSLogix is 3.26.102.18413 after the installation of 3.26.826.17182" in said


def test_a_share_that_does_not_answer_stops_before_anything_is_written(desk: Desk) -> None:
    desk.host.endpoints.clear()
    converge(desk.host)
    desk.host.registry.set(PROFILES, "Enabled", "dword", 0)
    before = desk.host.dump()["registry"]
    status, _, said = desk.run(profiles=SETTINGS, share_timeout_seconds=1)
    assert status == 2
    assert f"{SERVER} does not answer at port 445 within 1 s, and nothing was written" in said
    assert desk.host.dump()["registry"] == before


def test_a_storage_key_is_in_the_credentials_of_system_and_nowhere_else(desk: Desk) -> None:
    given = {"profiles": {**SETTINGS, "AccessNetworkAsComputerObject": 1}}
    vault = {"storage_keys": {SERVER: KEY}}
    status, changed, said = desk.run("-vvv", "--diff", **given, **vault)
    assert (status, changed) == (0, 3)
    [(name, kept)] = desk.host.credentials.items()
    assert name.upper() == rf"SYSTEM:DOMAIN_PASSWORD:{SERVER}".upper()
    assert (kept["username"], kept["secret"]) == (r"localhost\stnx", KEY)
    assert "can read the disk of every user" in said
    everything = [said, desk.host.said(), str(desk.host.dump()["registry"])]
    everything += [path.read_text() for path in desk.folder.glob("results/**/*.json")]
    assert [text for text in everything if KEY in text or KEY[:24] in text] == []

    assert desk.run(**given, **vault)[:2] == (0, 0)
    other = "R" * 86 + "=="
    status, changed, said = desk.run("-vvv", **given, storage_keys={SERVER: other})
    assert (status, changed, other in said) == (0, 2, False)
    assert next(iter(desk.host.credentials.values()))["secret"] == other
    # Taken back with the setting.
    assert desk.run(profiles=SETTINGS)[:2] == (0, 2)
    assert desk.host.credentials == {}


def test_a_reboot_that_is_needed_and_not_allowed_is_said_until_it_was(desk: Desk) -> None:
    fslogix.offer(desk.host, status=3010)
    status, _, said = desk.run(profiles=SETTINGS)
    assert (status, "fslogix_reboot_required" in said) == (2, True)
    # It is installed, and still not rebooted.
    status, _, said = desk.run(profiles=SETTINGS)
    assert (status, "fslogix_reboot_required" in said) == (2, True)
    assert (len(desk.host.installed), desk.host.boots) == (1, 0)
    desk.host.reboot()
    assert desk.run(profiles=SETTINGS)[0] == 0
    assert desk.values(PROFILES)["Enabled"] == ("dword", 1)
    assert desk.run(profiles=SETTINGS)[:2] == (0, 0)


def test_an_allowed_reboot_is_done(desk: Desk) -> None:
    fslogix.offer(desk.host, status=3010)
    assert desk.run(profiles=SETTINGS, reboot_allowed=True)[0] == 0
    assert desk.host.boots == 1
    assert desk.run(profiles=SETTINGS, reboot_allowed=True)[:2] == (0, 0)
    assert desk.host.boots == 1


def test_all_that_is_wrong_is_named_and_the_host_is_not_asked(desk: Desk) -> None:
    desk.host.faults.dead = True
    wrong = {**SETTINGS, "Enabeld": 1, "IsDynamic": 7, "CcdMaxCacheSizeInMBs": 1}
    status, _, said = desk.run(profiles=wrong, odfc={"IncludeTeam": 1}, reboot=True)
    assert status == 2
    assert "fslogix_reboot: the role fslogix has no such variable" in said
    status, _, said = desk.run(profiles=wrong, odfc={"IncludeTeam": 1})
    for text in (
        "fslogix_settings.profiles.Enabeld is not known: did you mean Enabled?",
        "fslogix_settings.profiles.IsDynamic is 7: it must be 0 or more, 1 or less.",
        "fslogix_settings.profiles.CcdMaxCacheSizeInMBs: Microsoft retired it",
        "fslogix_settings.odfc.IncludeTeam is not known: did you mean IncludeTeams?",
    ):
        assert text in said
    cached = {**SETTINGS, "CCDLocations": ["type=smb"], "SIDDirNamePattern": "%sid%"}
    status, _, said = desk.run(profiles=cached, odfc={"Enabled": 1})
    for text in (
        "VHDLocations and CCDLocations exclude each other",
        "CCDLocations[0] must read",
        "declare both",
        "fslogix_settings.odfc: Enabled is 1 without a place",
    ):
        assert text in said


def test_a_host_that_nothing_is_declared_for_is_not_asked(desk: Desk) -> None:
    desk.host.faults.dead = True
    assert desk.run()[:2] == (0, 0)
