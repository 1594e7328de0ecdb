"""FSLogix's settings against Microsoft's reference, as the project's facts on Windows have it (page
of 2025-08-26): names, types, ranges and defaults, typed in from there."""

from __future__ import annotations

from typing import Any

import pytest
from trueup_controller.desktops import fslogix_settings as settings

# Name, type, values (a range, words, or - where the page has none), default (- where it has none).
CONTAINER = """\
Enabled DWORD 0..1 0
VHDLocations MULTI_SZ - -
AccessNetworkAsComputerObject DWORD 0..1 0
AttachVHDSDDL SZ - -
ProfileDirSDDL SZ - -
SIDDirSDDL SZ - -
CleanOutNotifications DWORD 0..1 1
DeleteLocalProfileWhenVHDShouldApply DWORD 0..1 0
DiffDiskParentFolderPath SZ - %TEMP%
FlipFlopProfileDirectoryName DWORD 0..1 0
GroupPolicyState DWORD 0..1 1
IgnoreNonWVD DWORD 0..1 0
InstallAppxPackages DWORD 0..1 1
IsDynamic DWORD 0..1 1
KeepLocalDir DWORD 0..1 0
LockedRetryCount DWORD - 12
LockedRetryInterval DWORD - 5
NoProfileContainingFolder DWORD 0..1 0
OutlookCachedMode DWORD 0..1 1
PreventLoginWithFailure DWORD 0..1 0
PreventLoginWithTempProfile DWORD 0..1 0
ReAttachRetryCount DWORD - 60
ReAttachIntervalSeconds DWORD - 10
RebootOnUserLogoff DWORD 0..2 0
ShutdownOnUserLogoff DWORD 0..2 0
RedirectType DWORD 1..2 2
RedirXMLSourceFolder SZ - -
RemoveOrphanedOSTFilesOnLogoff DWORD 0..1 0
RoamIdentity DWORD 0..1 0
RoamSearch DWORD 0..2 0
SetTempToLocalPath DWORD 0..3 3
SIDDirNameMatch SZ - %sid%_%username%
SIDDirNamePattern SZ - %sid%_%username%
SizeInMBs DWORD 1.. 30000
VHDXSectorSize DWORD 0..4096 0
VolumeType SZ vhd,vhdx,VHD,VHDX vhd
VolumeWaitTimeMS DWORD - 20000
"""
CLOUD_CACHE = """\
CCDLocations MULTI_SZ - -
ClearCacheOnLogoff DWORD 0..1 0
HealthyProvidersRequiredForRegister DWORD 0..4 0
HealthyProvidersRequiredForUnregister DWORD 0..4 1
CcdUnregisterTimeout DWORD - 0
ClearCacheOnForcedUnregister DWORD 0..1 0
"""
OF_PROFILES = """\
ProfileType DWORD 0..3 0
VHDNameMatch SZ - Profile*
VHDNamePattern SZ - Profile_%username%
"""
OF_ODFC = """\
VHDNameMatch SZ - ODFC*
VHDNamePattern SZ - ODFC_%username%
VHDAccessMode DWORD 0..3 0
NumSessionVHDsToKeep DWORD - 2
IncludeOfficeActivation DWORD 0..1 1
IncludeOneDrive DWORD 0..1 1
IncludeOneNote DWORD 0..1 0
IncludeOneNote_UWP DWORD 0..1 0
IncludeOutlook DWORD 0..1 1
IncludeOutlookPersonalization DWORD 0..1 1
IncludeSharepoint DWORD 0..1 1
IncludeSkype DWORD 0..1 1
IncludeTeams DWORD 0..1 0
MirrorLocalOSTToVHD DWORD 0..2 0
OutlookFolderPath SZ - -
RefreshUserPolicy DWORD 0..1 0
"""
APPS = """\
CleanupInvalidSessions DWORD 0..1 0
RoamRecycleBin DWORD 0..1 1
VHDCompactDisk DWORD 0..1 1
"""
LOGGING = r"""
LoggingEnabled DWORD 0..2 2
LogDir SZ - %ProgramData%\FSLogix\Logs
LogFileKeepingPeriod DWORD 0..180 2
LoggingLevel DWORD 0..3 1
RobocopyLogPath SZ - -
"""
SERVICES = r"HKLM:\SYSTEM\CurrentControlSet\Services"
REFERENCE = {
    ("profiles", r"HKLM:\SOFTWARE\FSLogix\Profiles"): CONTAINER + OF_PROFILES + CLOUD_CACHE,
    ("odfc", r"HKLM:\SOFTWARE\Policies\FSLogix\ODFC"): CONTAINER + OF_ODFC + CLOUD_CACHE,
    ("apps", r"HKLM:\SOFTWARE\FSLogix\Apps"): APPS,
    ("logging", r"HKLM:\SOFTWARE\FSLogix\Logging"): LOGGING,
    (
        "cloud_cache",
        rf"{SERVICES}\frxccd\Parameters",
    ): r"CacheDirectory SZ - C:\ProgramData\FSLogix\Cache",
    ("cloud_cache", rf"{SERVICES}\frxccds\Parameters"): r"""
WriteCacheDirectory SZ - -
ProxyDirectory SZ - C:\ProgramData\FSLogix\Proxy
SilenceACLWarning DWORD 0..1 0
""",
}
KINDS = {"DWORD": "dword", "SZ": "string", "MULTI_SZ": "multistring"}


def rows(text: str) -> dict[str, list[str]]:
    return {line.split()[0]: line.split()[1:] for line in text.splitlines() if line}


@pytest.mark.parametrize(("key", "text"), REFERENCE.items(), ids=lambda item: str(item)[:24])
def test_names_types_and_defaults_are_microsofts(key: tuple[str, str], text: str) -> None:
    [ours] = [one for one in settings.KEYS if (one.variable, one.path) == key]
    shown = {
        one.name: (settings.KINDS[one.type], "-" if one.default in {None, ""} else str(one.default))
        for one in ours.options
    }
    assert shown == {name: (KINDS[row[0]], row[2]) for name, row in rows(text).items()}
    assert len(ours.options) == len(shown)


def test_there_are_no_other_keys() -> None:
    assert [(one.variable, one.path) for one in settings.KEYS] == list(REFERENCE)


CASES = [
    (variable, name, kind, values)
    for (variable, _), text in REFERENCE.items()
    for name, (kind, values, _) in rows(text).items()
]


@pytest.mark.parametrize(("variable", "name", "kind", "values"), CASES, ids=str)
def test_each_takes_its_range_and_nothing_beyond(
    variable: str, name: str, kind: str, values: str
) -> None:
    def wrong(value: Any) -> list[str]:
        return settings.refusals(variable, {name: value}, "x")

    if kind == "DWORD":
        least, _, most = values.partition("..")
        low, high = (int(least or 0), int(most or 2**32 - 1)) if values != "-" else (0, 2**32 - 1)
        assert (wrong(low), wrong(high)) == ([], [])
        assert [len(wrong(value)) for value in (low - 1, high + 1, str(low), None, 1.5)] == [1] * 5
        [one] = settings.values(variable, {name: high})
        assert (one.name, one.type, one.data) == (name, "dword", high)
    elif kind == "SZ":
        words = ["%TEMP%"] if values == "-" else values.split(",")
        assert [wrong(word) for word in words] == [[]] * len(words)
        assert [len(wrong(value)) for value in ("", 1, ["a"])] == [1] * 3
    else:
        assert wrong(["a", "b"]) == []
        assert [len(wrong(value)) for value in ([], "a;b", [1])] == [1] * 3
