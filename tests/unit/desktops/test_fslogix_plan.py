"""The role fslogix, planned. Names, keys, types and data are typed in from Microsoft's reference as
the project's facts on Windows have it (FSLogix installation, Profile container values)."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import replace
from typing import Any

import pytest
import role_plans
from trueup_controller.desktops import fslogix
from trueup_controller.desktops.fslogix import asks, plan
from trueup_node.plan import Plan, PlanInputs

PROFILES = r"HKLM:\SOFTWARE\FSLogix\Profiles"
ODFC = r"HKLM:\SOFTWARE\Policies\FSLogix\ODFC"
APPS = r"HKLM:\SOFTWARE\FSLogix\Apps"
RECORD = r"HKLM:\SOFTWARE\trueup\fslogix"
SHARE = r"\\stnx.file.core.windows.net\profiles"
NEWEST = "3.26.826.17182"
HOST = {
    "system": "windows",
    "family": "nv_a10_v5",
    "vm_size": "Standard_NV12ads_A10_v5",
    "os": "Windows 11 Enterprise multi-session 25H2",
}
RUNS = {"state": "started", "start_mode": "auto"}
SERVICES = {"frxsvc": RUNS, "frxccds": RUNS}
NOTHING = {"frxsvc": None, "frxccds": None}
KEY = "q" * 86 + "=="
# What Microsoft calls its Standard set.
STANDARD = {
    "Enabled": 1,
    "VHDLocations": [SHARE],
    "DeleteLocalProfileWhenVHDShouldApply": 1,
    "FlipFlopProfileDirectoryName": 1,
    "LockedRetryCount": 3,
    "LockedRetryInterval": 15,
    "ReAttachIntervalSeconds": 15,
    "ReAttachRetryCount": 3,
    "ProfileType": 0,
    "SizeInMBs": 30000,
    "VolumeType": "VHDX",
}
SIMPLE = {"Enabled": 1, "VHDLocations": [SHARE]}
# Dictionaries of fslogix_settings.
PARTS = ("profiles", "odfc", "apps", "logging", "cloud_cache", "object_specific")


def ask(
    registry: dict[str, Any] | None = None,
    services: dict[str, Any] | None = None,
    /,
    keys: dict[str, str] | None = None,
    node: dict[str, Any] | None = None,
    **options: Any,
) -> PlanInputs:
    """The role on a host of which windows_facts found this; by default a fresh one."""
    parts = {name: options.pop(name) for name in PARTS if name in options}
    options = {"defender_exclusions": False, "settings": parts, **options}
    found = {"registry": registry or {}, "services": services or NOTHING}
    asked = role_plans.asked("fslogix", HOST if node is None else node, found, **options)
    return replace(asked, secrets={"storage_keys": keys or {}})


def key(**values: Any) -> dict[str, Any]:
    """A key as windows_facts has it: numbers are DWORD, lists MULTI_SZ."""
    types = {int: "REG_DWORD", str: "REG_SZ", list: "REG_MULTI_SZ"}
    shown = {name: {"type": types[type(one)], "data": one} for name, one in values.items()}
    return {"values": shown, "keys": []}


def installed(version: str = NEWEST, **keys: dict[str, Any]) -> dict[str, Any]:
    return {APPS: key(InstallVersion=version), **keys}


def values(asked: PlanInputs) -> dict[str, Any]:
    planned = plan(asked)
    assert planned.refused == []
    return planned.as_result()


def written(result: dict[str, Any]) -> list[tuple[str, str, Any, Any]]:
    """(key, name, type, data) of what is to be set."""
    return [
        (item["path"], item["name"], item["type"], item["data"])
        for item in result["settings"]["registry"]
        if item["state"] == "present"
    ]


def removed(result: dict[str, Any]) -> list[tuple[str, str]]:
    items = result["settings"]["registry"]
    return [(item["path"], item["name"]) for item in items if item["state"] == "absent"]


def refused(asked: PlanInputs) -> list[str]:
    planned: Plan = plan(asked)
    assert planned.values.get("package") is None or planned.refused
    return planned.refused


# ---- what is written ----------------------------------------------------------------------------


def test_a_fresh_host_gets_the_standard_set_and_nothing_else() -> None:
    result = values(ask(profiles=STANDARD, delete_local_profiles_allowed=True))
    assert sorted(written(result)) == [
        (PROFILES, "DeleteLocalProfileWhenVHDShouldApply", "dword", 1),
        (PROFILES, "Enabled", "dword", 1),
        (PROFILES, "FlipFlopProfileDirectoryName", "dword", 1),
        (PROFILES, "LockedRetryCount", "dword", 3),
        (PROFILES, "LockedRetryInterval", "dword", 15),
        (PROFILES, "ProfileType", "dword", 0),
        (PROFILES, "ReAttachIntervalSeconds", "dword", 15),
        (PROFILES, "ReAttachRetryCount", "dword", 3),
        (PROFILES, "SizeInMBs", "dword", 30000),
        (PROFILES, "VHDLocations", "multistring", [SHARE]),
        (PROFILES, "VolumeType", "string", "VHDX"),
    ]
    assert removed(result) == []
    assert (result["changes"], result["warnings"]) == (True, [])


def test_the_newest_release_is_installed_by_its_sha256() -> None:
    package = values(ask(profiles=SIMPLE))["package"]
    assert package == {
        "install": True,
        "record": RECORD,
        "name": "FSLogix 3.26.826.17182",
        "url": "https://download.microsoft.com/download/ae6d2014-e692-45fa-a88b-ee552567cdc1/FSLogix_26.08.zip",
        "sha256": "129e111d4acf8502b9351e1cec0c92212dce8222ae5b8223163fbbea518e857c",
        "folder": r"C:\Program Files\trueup\fslogix\3.26.826.17182",
        "setup": r"x64\Release\FSLogixAppsSetup.exe",
        "arguments": ["/install", "/quiet", "/norestart"],
    }


@pytest.mark.parametrize(
    ("there", "is_due"),
    [
        pytest.param("3.26.126.19110", True, id="26.01-CU1"),
        # As text it is the newer one.
        pytest.param("3.26.9.99999", True, id="older-though-not-as-text"),
        pytest.param("2.9.8884.27471", True, id="2.9"),
        pytest.param("3.26.826", True, id="three-parts"),
        pytest.param("3.27", False, id="two-parts"),
        pytest.param(NEWEST, False, id="the-same"),
        pytest.param("3.26.826.17183", False, id="newer"),
        pytest.param("3.100.1.1", False, id="newer-though-not-as-text"),
    ],
)
def test_versions_are_compared_as_versions(there: str, is_due: bool) -> None:
    result = values(ask(installed(there), SERVICES, profiles=SIMPLE))
    assert result["package"]["install"] is is_due


def test_a_registry_without_its_service_is_no_installation() -> None:
    assert values(ask(installed(), NOTHING, profiles=SIMPLE))["package"]["install"] is True


def test_a_converged_host_gets_nothing() -> None:
    there = installed(**{PROFILES: key(Enabled=1, VHDLocations=[SHARE])})
    result = values(ask(there, SERVICES, profiles=SIMPLE))
    assert result["package"]["install"] is False
    assert result["settings"] == {"files": [], "registry": [], "services": [], "groups": []}
    assert (result["credentials"], result["changes"]) == ([], False)


def test_settings_of_one_group_have_its_key() -> None:
    group = "S-1-5-21-1-2-3-1104"
    own = {"VHDLocations": [r"\\nx.contoso.com\big"], "SizeInMBs": 60000}
    result = values(ask(profiles=SIMPLE, object_specific={group: own}, defender_exclusions=True))
    place = rf"{PROFILES}\ObjectSpecific\{group}"
    found = written(result)
    assert (place, "SizeInMBs", "dword", 60000) in found
    assert (place, "VHDLocations", "multistring", [r"\\nx.contoso.com\big"]) in found
    assert r"\\nx.contoso.com\big\*\*.VHD" in [name for _, name, _, _ in found]
    assert [one["host"] for one in result["reach"]] == [
        "stnx.file.core.windows.net",
        "nx.contoso.com",
    ]
    [arguments] = asks(ask(profiles=SIMPLE, object_specific={group: own})).values()
    assert place in arguments["registry"]


def test_drift_is_repaired_and_what_is_no_longer_declared_is_removed() -> None:
    there = installed(
        **{
            PROFILES: key(Enabled=0, VHDLocations=SHARE, SizeInMBs=5120, Tool="of another"),
            ODFC: key(enabled=1),
            r"HKLM:\SYSTEM\CurrentControlSet\Services\frxccd\Parameters": key(
                CacheDirectory="D:\\c"
            ),
        }
    )
    there[APPS]["values"]["CleanupInvalidSessions"] = {"type": "REG_DWORD", "data": 1}
    result = values(ask(there, SERVICES, profiles=SIMPLE))
    assert written(result) == [
        (PROFILES, "Enabled", "dword", 1),
        # A text of several shares is FSLogix's other way to say it.
        (PROFILES, "VHDLocations", "multistring", [SHARE]),
    ]
    assert removed(result) == [
        (PROFILES, "SizeInMBs"),
        (ODFC, "Enabled"),
        (APPS, "CleanupInvalidSessions"),
        (r"HKLM:\SYSTEM\CurrentControlSet\Services\frxccd\Parameters", "CacheDirectory"),
    ]
    assert result["changes"] is True


def test_each_dictionary_has_its_key() -> None:
    result = values(
        ask(
            profiles={
                "Enabled": 1,
                "CCDLocations": [rf'type=smb,name="A",connectionString={SHARE}'],
            },
            odfc={"Enabled": 0, "IncludeTeams": 1},
            apps={"CleanupInvalidSessions": 1, "RoamRecycleBin": 0, "VHDCompactDisk": 0},
            logging={"LoggingEnabled": 2, "LogDir": r"D:\Logs", "LogFileKeepingPeriod": 180},
            cloud_cache={
                "CacheDirectory": r"D:\Cache",
                "WriteCacheDirectory": r"D:\Write",
                "ProxyDirectory": r"D:\Proxy",
            },
        )
    )
    services = r"HKLM:\SYSTEM\CurrentControlSet\Services"
    assert [item[:4] for item in written(result)][2:] == [
        (ODFC, "Enabled", "dword", 0),
        (ODFC, "IncludeTeams", "dword", 1),
        (APPS, "CleanupInvalidSessions", "dword", 1),
        (APPS, "RoamRecycleBin", "dword", 0),
        (APPS, "VHDCompactDisk", "dword", 0),
        (r"HKLM:\SOFTWARE\FSLogix\Logging", "LoggingEnabled", "dword", 2),
        (r"HKLM:\SOFTWARE\FSLogix\Logging", "LogDir", "string", r"D:\Logs"),
        (r"HKLM:\SOFTWARE\FSLogix\Logging", "LogFileKeepingPeriod", "dword", 180),
        (rf"{services}\frxccd\Parameters", "CacheDirectory", "string", r"D:\Cache"),
        (rf"{services}\frxccds\Parameters", "WriteCacheDirectory", "string", r"D:\Write"),
        (rf"{services}\frxccds\Parameters", "ProxyDirectory", "string", r"D:\Proxy"),
    ]


def test_nothing_declared_is_skipped_by_name() -> None:
    planned = plan(ask())
    assert [(one.what, "profiles of fslogix_settings" in one.why) for one in planned.skipped] == [
        ("fslogix", True)
    ]
    assert asks(ask()) == {}
    assert planned.as_result() == {
        "package": {},
        "reach": [],
        "settings": {},
        "credentials": [],
        "changes": False,
        "skipped_here": [{"what": "fslogix", "why": planned.skipped[0].why}],
    }


def test_the_host_is_asked_for_what_is_owned_and_nothing_when_it_is_refused() -> None:
    [(name, arguments)] = asks(ask(profiles=SIMPLE)).items()
    assert name == "windows_facts"
    assert arguments["services"] == ["frxsvc", "frxccds"]
    assert {PROFILES, ODFC, APPS, RECORD} < set(arguments["registry"])
    assert asks(ask(profiles={"Enable": 1})) == {}
    linux = {"system": "linux", "os": "Ubuntu 24.04"}
    [said] = refused(ask(node=linux, profiles=SIMPLE))
    assert said == "fslogix: Ubuntu 24.04 is no Windows, which FSLogix is for."
    assert asks(ask(node=linux, profiles=SIMPLE)) == {}


# ---- what is refused ----------------------------------------------------------------------------


def test_all_that_is_wrong_is_named_at_once() -> None:
    said = refused(
        ask(
            profiles={
                "Enabeld": 1,
                "SizeInMBs": "30000",
                "IsDynamic": True,
                "ProfileType": 4,
                "VolumeType": "vmdk",
                "CcdMaxCacheSizeInMBs": 0,
            },
            odfc={"ProfileType": 0, "MirrorLocalOSTToVHD": 3},
            logging={"LogFileKeepingPeriod": 181},
        )
    )
    assert said == [
        (
            "fslogix_settings.profiles.CcdMaxCacheSizeInMBs: Microsoft retired it in FSLogix 25.02:"
            " remove it."
        ),
        "fslogix_settings.profiles.Enabeld is not known: did you mean Enabled?",
        "fslogix_settings.profiles.SizeInMBs is '30000': it must be a whole number.",
        "fslogix_settings.profiles.IsDynamic is True: it must be a whole number.",
        "fslogix_settings.profiles.ProfileType is 4: it must be 0 or more, 3 or less.",
        "fslogix_settings.profiles.VolumeType is 'vmdk': it must be one of vhd, vhdx, VHD, VHDX.",
        "fslogix_settings.odfc.ProfileType is not known: did you mean VolumeType?",
        "fslogix_settings.odfc.MirrorLocalOSTToVHD is 3: it must be 0 or more, 2 or less.",
        "fslogix_settings.logging.LogFileKeepingPeriod is 181: it must be 0 or more, 180 or less.",
    ]


TWO = [
    rf'type=smb,name="A",connectionString={SHARE}',
    r'type=smb,name="B",connectionString=\\nx.contoso.com\profiles',
]
BLOB = 'type=azure,name="C",connectionString="|fslogix/STNX|"'
SECRET = "DefaultEndpointsProtocol=https;AccountName=st;AccountKey=c2VjcmV0"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"profiles": {**SIMPLE, "CCDLocations": TWO}}, "VHDLocations and CCDLocations exclude"),
        ({"profiles": {"Enabled": 1}}, "Enabled is 1 without a place"),
        ({"odfc": {"Enabled": 1}}, "fslogix_settings.odfc: Enabled is 1 without a place"),
        ({"profiles": {**SIMPLE, "ClearCacheOnLogoff": 1}}, "act on Cloud Cache alone"),
        (
            {
                "profiles": {
                    "Enabled": 1,
                    "CCDLocations": TWO,
                    "HealthyProvidersRequiredForUnregister": 0,
                }
            },
            "can lose data",
        ),
        (
            {
                "profiles": {
                    "Enabled": 1,
                    "CCDLocations": TWO,
                    "HealthyProvidersRequiredForRegister": 1,
                }
            },
            "needs PreventLoginWithFailure: 1",
        ),
        (
            {
                "profiles": {
                    "Enabled": 1,
                    "CCDLocations": TWO,
                    "HealthyProvidersRequiredForUnregister": 3,
                }
            },
            "than the 2 of CCDLocations",
        ),
        (
            {"profiles": {"Enabled": 1, "CCDLocations": [f'type=azure,name="C",{SECRET}']}},
            "CCDLocations[0] must read",
        ),
        (
            {"profiles": {"Enabled": 1, "CCDLocations": [TWO[0].replace(",name", ", name")]}},
            "without blanks",
        ),
        (
            {"profiles": {"Enabled": 1, "CCDLocations": [TWO[0].replace("smb", "SMB")]}},
            "CCDLocations[0] must read",
        ),
        ({"profiles": {"Enabled": 1, "CCDLocations": [TWO[0], TWO[0]]}}, "two providers of one"),
        (
            {
                "profiles": {
                    "Enabled": 1,
                    "CCDLocations": [TWO[0].replace('"A"', f'"{n}"') for n in range(5)],
                }
            },
            "Cloud Cache takes 4",
        ),
        ({"profiles": {"Enabled": 1, "VHDLocations": ["https://st/p"]}}, "VHDLocations[0] is"),
        ({"profiles": {"Enabled": 1, "VHDLocations": ["\\\\server"]}}, "must be a share"),
        ({"profiles": {"Enabled": 1, "VHDLocations": [SHARE, SHARE.upper()]}}, "one share twice"),
        (
            {
                "profiles": {
                    **SIMPLE,
                    "NoProfileContainingFolder": 1,
                    "FlipFlopProfileDirectoryName": 1,
                }
            },
            "NoProfileContainingFolder beats",
        ),
        (
            {
                "profiles": {
                    **SIMPLE,
                    "FlipFlopProfileDirectoryName": 1,
                    "SIDDirNamePattern": "%sid%",
                    "SIDDirNameMatch": "%sid%",
                }
            },
            "FlipFlopProfileDirectoryName beats",
        ),
        ({"profiles": {**SIMPLE, "SIDDirNamePattern": "%sid%"}}, "declare both"),
        ({"profiles": {**SIMPLE, "VHDXSectorSize": 1024}}, "0, 512 or 4096"),
        ({"profiles": {**SIMPLE, "RebootOnUserLogoff": 1}}, "sessions of others"),
        (
            {
                "profiles": SIMPLE,
                "cloud_cache": {"CacheDirectory": "C:\\ProgramData\\FSLogix\\proxy\\"},
            },
            "must be two folders",
        ),
        ({"profiles": SIMPLE, "version": "26.08x"}, "must be a build"),
        ({"profiles": SIMPLE, "version": "3.26.126.19110"}, "no sha256 is known"),
        ({"profiles": SIMPLE, "version": "3.27.1.1", "sha256": "a" * 64}, "no address is known"),
        ({"profiles": SIMPLE, "sha256": "a" * 63}, "64 hexadecimal digits"),
        ({"profiles": SIMPLE, "object_specific": {"Sales": {"SizeInMBs": 1}}}, "is no SID"),
        ({"profiles": SIMPLE, "object_specific": {1: {"SizeInMBs": 1}}}, "is no SID"),
        ({"profiles": SIMPLE, "object_specific": {"S-1-5-21-1": None}}, "must be a dictionary"),
        (
            {"profiles": {**SIMPLE, "SizeInMBs": None, 7: 1}},
            "fslogix_settings.profiles.7 is not known",
        ),
        ({"profiles": {**SIMPLE, "VHDLocations": [SHARE + "\n"]}}, "must be of one line"),
        ({"profiles": {**SIMPLE, "RedirXMLSourceFolder": "\\\\a\\b\0"}}, "must be of one line"),
        ({"profiles": {**SIMPLE, "VHDLocations": ["\\\\a\\ b"]}}, "must be a share"),
        (
            {"profiles": SIMPLE, "object_specific": {"S-1-5-21-1-2-3-1104": {"Size": 1}}},
            "fslogix_settings.object_specific.S-1-5-21-1-2-3-1104.Size is not known",
        ),
        (
            {"profiles": SIMPLE, "redirections": {"excludes": [{"path": r"\AppData", "copy": 0}]}},
            "must be a folder below the profile",
        ),
        (
            {"profiles": SIMPLE, "redirections": {"includes": [{"path": "AppData", "copy": 4}]}},
            "includes[0].copy is 4",
        ),
    ],
    ids=lambda item: item[:32] if isinstance(item, str) else "",
)
def test_what_cannot_be_is_refused(options: dict[str, Any], said: str) -> None:
    sentences = refused(ask(**options))
    assert said in " ".join(sentences)
    assert "c2VjcmV0" not in " ".join(sentences)
    assert all(text.endswith((".", "?")) for text in sentences)


def test_providers_of_a_share_and_of_a_protected_key_are_taken() -> None:
    result = values(ask(profiles={"Enabled": 1, "CCDLocations": [*TWO, BLOB]}))
    assert written(result)[-1] == (PROFILES, "CCDLocations", "multistring", [*TWO, BLOB])
    assert [one["host"] for one in result["reach"]] == [
        "stnx.file.core.windows.net",
        "nx.contoso.com",
    ]


PREVENT = {"PreventLoginWithFailure": 1, "PreventLoginWithTempProfile": 1}


@pytest.mark.parametrize(
    "profiles",
    [
        {"CCDLocations": TWO, "HealthyProvidersRequiredForRegister": 2, **PREVENT},
        {"CCDLocations": TWO, "HealthyProvidersRequiredForUnregister": 2},
        {"CCDLocations": [TWO[0].replace('"A"', f'"{n}"') for n in range(4)]},
        {"VHDLocations": [SHARE + r"\nx", SHARE], "VHDXSectorSize": 512},
        {"VHDLocations": [SHARE], "VHDXSectorSize": 4096},
        {"VHDLocations": [SHARE], "SIDDirNamePattern": "%sid%", "SIDDirNameMatch": "%sid%"},
        {"VHDLocations": [SHARE], "NoProfileContainingFolder": 1},
    ],
    ids=["register", "unregister", "four", "512", "4096", "names", "no-folder"],
)
def test_what_is_at_the_limit_is_taken(profiles: dict[str, Any]) -> None:
    assert plan(ask(profiles={"Enabled": 1, **profiles})).refused == []


@pytest.mark.parametrize(
    ("name", "is_wrong"),
    [("Windows 11 Enterprise 25H2", False), ("Windows Server 2025 Datacenter", True)],
    ids=["single", "server"],
)
def test_a_host_of_one_user_may_reboot_at_sign_out(name: str, is_wrong: bool) -> None:
    planned = plan(ask(node={**HOST, "os": name}, profiles={**SIMPLE, "RebootOnUserLogoff": 2}))
    assert bool(planned.refused) is is_wrong


def test_includes_alone_are_redirections_too() -> None:
    declared = {"includes": [{"path": "Downloads"}], "exclude_common_folders": 49}
    [file] = values(ask(profiles=SIMPLE, redirections=declared))["settings"]["files"]
    assert 'ExcludeCommonFolders="49"' in file["content"]


def test_one_of_both_preventions_is_not_enough() -> None:
    half = {"HealthyProvidersRequiredForRegister": 1, "PreventLoginWithFailure": 1}
    profiles = {"Enabled": 1, "CCDLocations": TWO, **half}
    assert "needs PreventLoginWithFailure: 1 and" in refused(ask(profiles=profiles))[0]


def test_a_release_with_a_known_fault_is_refused_where_it_acts() -> None:
    both = {"profiles": SIMPLE, "odfc": SIMPLE, "apps": {"CleanupInvalidSessions": 1}}
    old = {"version": "3.26.102.18413", "sha256": "a" * 64}
    [said] = refused(ask(**both, **old))
    assert said.startswith("fslogix: 3.26.102.18413 creates no ODFC disk")
    # Of one kind of container, or of another release: no fault.
    assert plan(ask(profiles=SIMPLE, apps=both["apps"], **old)).refused == []
    assert plan(ask(**both)).refused == []
    # It is replaced where a newer one is asked for.
    assert plan(ask(installed("3.26.102.18413"), SERVICES, **both)).refused == []


def test_local_profiles_are_not_deleted_without_a_word() -> None:
    wanted = {**SIMPLE, "DeleteLocalProfileWhenVHDShouldApply": 1}
    assert "fslogix_delete_local_profiles_allowed" in refused(ask(profiles=wanted))[0]
    assert plan(ask(profiles=wanted, delete_local_profiles_allowed=True)).refused == []
    of_one = ask(profiles=SIMPLE, object_specific={"S-1-5-21-1-2-3-1104": wanted})
    assert refused(of_one)[0].startswith(
        "fslogix_settings.object_specific.S-1-5-21-1-2-3-1104: Delete"
    )
    there = installed(**{PROFILES: key(DeleteLocalProfileWhenVHDShouldApply=1)})
    assert plan(ask(there, SERVICES, profiles=wanted)).refused == []


def test_folder_names_of_a_host_in_use_stay() -> None:
    wanted = {**SIMPLE, "FlipFlopProfileDirectoryName": 1}
    # Redirections alone are no reason to install.
    assert plan(ask(redirections={"excludes": [{"path": "a", "copy": 0}]})).skipped != []
    there = installed(**{PROFILES: key(Enabled=1, VHDLocations=[SHARE])})
    assert "new, empty containers" in refused(ask(there, SERVICES, profiles=wanted))[0]
    allowed = ask(there, SERVICES, profiles=wanted, folder_names_change_allowed=True)
    assert plan(allowed).refused == []
    assert plan(ask(profiles=wanted)).refused == []
    # To take the setting out is such a change too.
    flipped = installed(**{PROFILES: key(Enabled=1, FlipFlopProfileDirectoryName=1)})
    assert "FlipFlopProfileDirectoryName" in refused(ask(flipped, SERVICES, profiles=SIMPLE))[0]


def test_an_installation_that_says_no_version_is_refused() -> None:
    [said] = refused(ask(installed("unknown"), SERVICES, profiles=SIMPLE))
    assert "InstallVersion" in said


# ---- what it needs besides ----------------------------------------------------------------------


def test_shares_are_tried_at_port_445() -> None:
    result = values(ask(profiles={"Enabled": 1, "VHDLocations": [SHARE, r"%SHARE%\profiles"]}))
    assert result["reach"] == [{"host": "stnx.file.core.windows.net", "port": 445, "seconds": 15}]


def test_groups_have_their_members_and_others_are_left_alone() -> None:
    groups = {
        "FSLogix Profile Include List": ["CONTOSO\\nx"],
        "FSLogix ODFC Exclude List": ["Administrators"],
    }
    result = values(ask(profiles=SIMPLE, groups=groups))
    assert result["settings"]["groups"] == [
        {"name": name, "members": members} for name, members in groups.items()
    ]


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        ({"FSLogix Profile List": ["x"]}, "has FSLogix Profile List: FSLogix's groups are"),
        ({"FSLogix ODFC Include List": "x"}, "FSLogix ODFC Include List: give a list of names."),
        ({"FSLogix ODFC Include List": [1]}, "FSLogix ODFC Include List: give a list of names."),
    ],
)
def test_other_groups_and_members_are_refused(groups: dict[str, Any], words: str) -> None:
    [sentence] = refused(ask(profiles=SIMPLE, groups=groups))
    assert words in sentence


def test_redirections_are_rendered_and_found_by_the_host() -> None:
    declared = {
        "excludes": [{"path": r"AppData\Local\Temp & more", "copy": 0}],
        "includes": [{"path": r"AppData\Local\Temp\NX", "copy": 3}, {"path": "Downloads"}],
    }
    result = values(ask(profiles=SIMPLE, redirections=declared))
    [file] = result["settings"]["files"]
    assert (file["folder"], file["name"]) == (
        r"C:\Program Files\trueup\fslogix",
        "redirections.xml",
    )
    assert (PROFILES, "RedirXMLSourceFolder", "string", file["folder"]) in written(result)
    root = ET.fromstring(file["content"].encode())
    assert (root.tag, root.attrib) == ("FrxProfileFolderRedirection", {"ExcludeCommonFolders": "0"})
    assert [(one.tag, one.get("Copy"), one.text) for one in root.iter() if one.text.strip()] == [
        ("Exclude", "0", r"AppData\Local\Temp & more"),
        ("Include", "3", r"AppData\Local\Temp\NX"),
        ("Include", None, "Downloads"),
    ]
    given = {**SIMPLE, "RedirXMLSourceFolder": r"\\stnx\redirections" + "\\"}
    [file] = values(ask(profiles=given, redirections=declared))["settings"]["files"]
    assert file["folder"] == r"\\stnx\redirections"


def test_defender_leaves_containers_alone() -> None:
    policy = r"HKLM:\SOFTWARE\Policies\Microsoft\Windows Defender\Exclusions"
    found = written(values(ask(profiles=SIMPLE, defender_exclusions=True)))
    assert (policy, "Exclusions_Paths", "dword", 1) in found
    assert (policy, "Exclusions_Processes", "dword", 1) in found
    paths = {name for path, name, kind, data in found if path == rf"{policy}\Paths"}
    assert {data for path, _, _, data in found if path == rf"{policy}\Paths"} == {"0"}
    assert paths == {
        r"%TEMP%\*\*.VHD",
        r"%TEMP%\*\*.VHDX",
        r"%Windir%\TEMP\*\*.VHD",
        r"%Windir%\TEMP\*\*.VHDX",
        rf"{SHARE}\*\*.VHD",
        rf"{SHARE}\*\*.VHD.lock",
        rf"{SHARE}\*\*.VHD.meta",
        rf"{SHARE}\*\*.VHD.metadata",
        rf"{SHARE}\*\*.VHDX",
        rf"{SHARE}\*\*.VHDX.lock",
        rf"{SHARE}\*\*.VHDX.meta",
        rf"{SHARE}\*\*.VHDX.metadata",
        r"%ProgramFiles%\FSLogix\Apps\frxdrv.sys",
        r"%ProgramFiles%\FSLogix\Apps\frxdrvvt.sys",
        r"%ProgramFiles%\FSLogix\Apps\frxccd.sys",
    }
    assert {name for path, name, _, _ in found if path == rf"{policy}\Processes"} == {
        r"%ProgramFiles%\FSLogix\Apps\frxsvc.exe",
        r"%ProgramFiles%\FSLogix\Apps\frxccds.exe",
        r"%ProgramFiles%\FSLogix\Apps\frxccd.exe",
    }
    cached = ask(
        profiles={"Enabled": 1, "CCDLocations": TWO},
        cloud_cache={"CacheDirectory": r"D:\Cache"},
        defender_exclusions=True,
    )
    names = {name for path, name, _, _ in written(values(cached)) if path == rf"{policy}\Paths"}
    assert {r"D:\Cache\*", r"%ProgramData%\FSLogix\Proxy\*"} < names


KERBEROS = r"HKLM:\SYSTEM\CurrentControlSet\Control\Lsa\Kerberos\Parameters"
ACCOUNT = r"HKLM:\Software\Policies\Microsoft\AzureADAccount"


def test_kerberos_of_entra_is_two_values_and_a_memory_of_them() -> None:
    result = values(ask(profiles=SIMPLE, entra_kerberos=True))
    record = [
        rf"{KERBEROS}|CloudKerberosTicketRetrievalEnabled",
        rf"{ACCOUNT}|LoadCredKeyFromProfile",
    ]
    assert written(result)[2:] == [
        # Before what it remembers.
        (RECORD, "Written", "multistring", record),
        (KERBEROS, "CloudKerberosTicketRetrievalEnabled", "dword", 1),
        (ACCOUNT, "LoadCredKeyFromProfile", "dword", 1),
    ]


def after(result: dict[str, Any], before: dict[str, Any]) -> dict[str, Any]:
    """windows_facts of the host once the items are applied."""
    keys = {path.casefold(): (path, dict(one["values"])) for path, one in before.items()}
    types = {"dword": "REG_DWORD", "string": "REG_SZ", "multistring": "REG_MULTI_SZ"}
    for item in result["settings"]["registry"]:
        _, held = keys.setdefault(item["path"].casefold(), (item["path"], {}))
        for name in [name for name in held if name.casefold() == item["name"].casefold()]:
            del held[name]
        if item["state"] == "present":
            held[item["name"]] = {"type": types[item["type"]], "data": item["data"]}
    return {path: {"values": held, "keys": []} for path, held in keys.values()}


@pytest.mark.parametrize(
    "options",
    [
        {"entra_kerberos": True},
        {"defender_exclusions": True},
        {"object_specific": {"S-1-5-21-1-2-3-1104": {"SizeInMBs": 60000}}},
    ],
    ids=lambda item: next(iter(item)),
)
def test_what_is_written_elsewhere_is_taken_back_by_the_role_that_wrote_it(
    options: dict[str, Any],
) -> None:
    foreign = {KERBEROS: key(SupportedEncryptionTypes=24)}
    before = installed(**foreign)
    first = after(values(ask(before, SERVICES, profiles=SIMPLE, **options)), before)
    again = values(ask(first, SERVICES, profiles=SIMPLE, **options))
    assert again["settings"]["registry"] == []
    back = after(values(ask(first, SERVICES, profiles=SIMPLE)), first)
    held = {path: one["values"] for path, one in back.items() if one["values"]}
    assert sorted(held) == sorted([APPS, KERBEROS, PROFILES])
    assert set(held[KERBEROS]) == {"SupportedEncryptionTypes"}
    assert values(ask(back, SERVICES, profiles=SIMPLE))["settings"]["registry"] == []


def test_what_was_there_before_the_role_stays() -> None:
    before = installed(**{KERBEROS: key(CloudKerberosTicketRetrievalEnabled=1)})
    first = after(values(ask(before, SERVICES, profiles=SIMPLE, entra_kerberos=True)), before)
    assert first[RECORD]["values"]["Written"]["data"] == [rf"{ACCOUNT}|LoadCredKeyFromProfile"]
    back = after(values(ask(first, SERVICES, profiles=SIMPLE)), first)
    assert set(back[KERBEROS]["values"]) == {"CloudKerberosTicketRetrievalEnabled"}


# ---- storage keys -------------------------------------------------------------------------------

ACCOUNT_HOST = "stnx.file.core.windows.net"
BY_KEY = {**SIMPLE, "AccessNetworkAsComputerObject": 1}


def test_a_storage_key_is_in_nothing_that_a_plan_returns() -> None:
    asked = ask(profiles=BY_KEY, keys={ACCOUNT_HOST: KEY})
    result = values(asked)
    assert result["credentials"] == [
        {"name": ACCOUNT_HOST, "username": r"localhost\stnx", "update_secret": "always"}
    ]
    assert KEY not in str(result)
    assert KEY not in repr(asked)
    assert any("disk of every user" in text for text in result["warnings"])


def test_a_stored_key_is_written_again_when_it_is_another_one() -> None:
    first = after(values(ask(profiles=BY_KEY, keys={ACCOUNT_HOST: KEY})), installed())
    same = values(ask(first, SERVICES, profiles=BY_KEY, keys={ACCOUNT_HOST: KEY}))
    assert [one["update_secret"] for one in same["credentials"]] == ["on_create"]
    assert same["settings"]["registry"] == []
    rotated = values(ask(first, SERVICES, profiles=BY_KEY, keys={ACCOUNT_HOST: "r" * 86 + "=="}))
    assert [one["update_secret"] for one in rotated["credentials"]] == ["always"]
    assert len(rotated["settings"]["registry"]) == 1
    gone = values(ask(first, SERVICES, profiles=SIMPLE))
    assert gone["credentials"] == [{"name": ACCOUNT_HOST, "state": "absent"}]
    assert (rf"{RECORD}\Keys", ACCOUNT_HOST) in removed(gone)


@pytest.mark.parametrize(
    ("keys", "options", "said"),
    [
        ({ACCOUNT_HOST: KEY}, {"profiles": SIMPLE}, "AccessNetworkAsComputerObject: 1"),
        ({ACCOUNT_HOST: "short key"}, {"profiles": BY_KEY}, "with its key in base64"),
        ({7: "short key"}, {"profiles": BY_KEY}, "with its key in base64"),
        ({"stnx": KEY}, {"profiles": BY_KEY}, "is the account's host"),
        (
            {ACCOUNT_HOST: KEY},
            {"profiles": BY_KEY, "entra_kerberos": True},
            "exclude each other",
        ),
    ],
    ids=["user", "form", "number", "host", "kerberos"],
)
def test_storage_keys_that_cannot_serve_are_refused(
    keys: dict[str, str], options: dict[str, Any], said: str
) -> None:
    text = " ".join(refused(ask(keys=keys, **options)))
    assert said in text
    assert not any(secret in text for secret in keys.values())


# ---- verified -----------------------------------------------------------------------------------


def verified(registry: dict[str, Any], services: dict[str, Any], **variables: Any) -> list[str]:
    asked = ask(registry, services, profiles=SIMPLE)
    return plan(replace(asked, found={**asked.found, "verify": True}, variables=variables)).refused


def test_what_is_not_as_declared_at_the_end_is_said() -> None:
    good = installed(**{PROFILES: key(Enabled=1, VHDLocations=[SHARE])})
    assert verified(good, SERVICES) == []
    assert verified({}, NOTHING, ansible_check_mode=True) == []
    stopped = {**SERVICES, "frxccds": {"state": "stopped", "start_mode": "auto"}}
    assert [text[:28] for text in verified(good, stopped)] == ["fslogix: frxccds of FSLogix "]
    other = installed(**{PROFILES: key(Enabled=0, VHDLocations=[SHARE])})
    assert [text for text in verified(other, SERVICES) if "Group Policy" in text] != []
    [old, *_] = verified({**good, APPS: key(InstallVersion="2.9.1.1")}, SERVICES)
    assert old.startswith("fslogix: FSLogix is 2.9.1.1 after the installation of 3.26.826.17182")


def test_stopped_services_are_started_where_nothing_is_installed() -> None:
    stopped = {"state": "stopped", "start_mode": "manual"}
    there = installed(**{PROFILES: key(Enabled=1, VHDLocations=[SHARE])})
    result = values(ask(there, {"frxsvc": stopped, "frxccds": RUNS}, profiles=SIMPLE))
    assert result["settings"]["services"] == [
        {"name": "frxsvc", "state": "started", "start_mode": "auto"}
    ]
    assert fslogix.RECORD == RECORD
