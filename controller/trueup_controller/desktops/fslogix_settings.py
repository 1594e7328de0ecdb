"""FSLogix's settings, declared once: Microsoft's value names with type, range, unit and default.

Source: learn.microsoft.com/fslogix/reference-configuration-settings (page of 2025-08-26) and
.../concepts-fslogix-cloud-cache; undeclared settings have the product's default, since the
installer writes no value. docs/reference/fslogix_settings.md follows from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from trueup_node.options import Option, misfits

from .registry import Value

PROFILES = r"HKLM:\SOFTWARE\FSLogix\Profiles"
ODFC = r"HKLM:\SOFTWARE\Policies\FSLogix\ODFC"
APPS = r"HKLM:\SOFTWARE\FSLogix\Apps"
LOGGING = r"HKLM:\SOFTWARE\FSLogix\Logging"
CACHE_DRIVER = r"HKLM:\SYSTEM\CurrentControlSet\Services\frxccd\Parameters"
CACHE_SERVICE = r"HKLM:\SYSTEM\CurrentControlSet\Services\frxccds\Parameters"
# Of Option's types those of the registry; a switch is a number, as Microsoft's page has it.
KINDS = {"int": "dword", "str": "string", "list": "multistring"}
_MOST = 2**32 - 1


def _number(name: str, default: int, most: int, text: str, least: int = 0) -> Option:
    return Option(name, text, default, least=least, most=most)


def _switch(name: str, default: int, text: str) -> Option:
    return _number(name, default, 1, text)


def _text(name: str, default: str, text: str, choices: tuple[str, ...] = ()) -> Option:
    return Option(name, text, default, choices=choices, filled=True)


def _texts(name: str, text: str) -> Option:
    return Option(name, text, type="list", filled=True)


# Settings that Profile and ODFC containers share.
_CONTAINER = (
    _switch("Enabled", 0, "Whether containers of this kind are used."),
    _texts(
        "VHDLocations",
        "Shares (UNC) that containers are searched in; new ones are made in the first. No"
        " resilience. Not together with CCDLocations.",
    ),
    _switch(
        "AccessNetworkAsComputerObject",
        0,
        "1: the computer, not the user, opens the share. For storage keys alone: the host can read"
        " every user's disk.",
    ),
    _text("AttachVHDSDDL", "", "Access rights (SDDL) on the disk as it is attached."),
    _switch("CleanOutNotifications", 1, "1: left-overs of notifications (WPN, WNF) are removed."),
    _switch(
        "DeleteLocalProfileWhenVHDShouldApply",
        0,
        "1: a local profile of the user is deleted for good at sign-in. Its first use on a host"
        " needs `fslogix_delete_local_profiles_allowed`.",
    ),
    _text("DiffDiskParentFolderPath", "%TEMP%", "Folder of difference disks."),
    _switch(
        "FlipFlopProfileDirectoryName",
        0,
        "1: folders are called %username%_%sid%. To change it on a host in use orphans containers.",
    ),
    _switch("GroupPolicyState", 1, "1: state of Group Policy is kept in the container."),
    _switch("IgnoreNonWVD", 0, "1: only sessions of Azure Virtual Desktop get a container."),
    _switch("InstallAppxPackages", 1, "1: AppX packages of the profile are installed at sign-in."),
    _switch("IsDynamic", 1, "1: the disk takes only the space that it needs."),
    _switch("KeepLocalDir", 0, "1: the folder local_%username% stays after sign-out."),
    _number("LockedRetryCount", 12, _MOST, "Tries to open a disk that another session has."),
    _number("LockedRetryInterval", 5, _MOST, "Seconds between these tries."),
    _switch(
        "NoProfileContainingFolder",
        0,
        "1: no folder per user; beats FlipFlopProfileDirectoryName and SIDDir*.",
    ),
    _switch("OutlookCachedMode", 1, "1: Outlook's cached mode is set as the container needs it."),
    _switch("PreventLoginWithFailure", 0, "1: no session where the container fails."),
    _switch("PreventLoginWithTempProfile", 0, "1: no session with a temporary profile."),
    _number("ReAttachRetryCount", 60, _MOST, "Tries to attach a disk that got lost."),
    _number("ReAttachIntervalSeconds", 10, _MOST, "Seconds between these tries."),
    _number(
        "RebootOnUserLogoff", 0, 2, "The host reboots at sign-out: 1 of any user, 2 of FSLogix's."
    ),
    _number(
        "ShutdownOnUserLogoff",
        0,
        2,
        "The host shuts down at sign-out: 1 of any user, 2 of FSLogix's.",
    ),
    _number(
        "RedirectType", 2, 2, "How files are redirected; only when Microsoft's support asks.", 1
    ),
    _text(
        "RedirXMLSourceFolder",
        "",
        "Folder that has redirections.xml; a folder, not the file.",
    ),
    _switch("RemoveOrphanedOSTFilesOnLogoff", 0, "1: duplicate OST files are deleted."),
    _switch("RoamIdentity", 0, "1: credentials roam as of old; not on Entra-joined hosts."),
    _number("RoamSearch", 0, 2, "Roaming of the search index; not needed on multi-session."),
    _number("SetTempToLocalPath", 3, 3, "Kept local: 1 TEMP and TMP, 2 INetCache, 3 both."),
    _text("ProfileDirSDDL", "", "Access rights (SDDL) on the profile's folder."),
    _text("SIDDirSDDL", "", "Access rights (SDDL) on the user's folder."),
    _text("SIDDirNameMatch", "%sid%_%username%", "Pattern that finds the user's folder."),
    _text("SIDDirNamePattern", "%sid%_%username%", "Pattern that names the user's folder."),
    _number("SizeInMBs", 30000, _MOST, "MB of a new disk; it can grow and never shrink.", 1),
    _text("VHDNameMatch", "Profile*", "Pattern that finds the disk."),
    _text("VHDNamePattern", "Profile_%username%", "Pattern that names the disk."),
    _number("VHDXSectorSize", 0, 4096, "0, 512 or 4096 bytes; only when Microsoft's support asks."),
    _text("VolumeType", "vhd", "Format of a new disk.", ("vhd", "vhdx", "VHD", "VHDX")),
    _number("VolumeWaitTimeMS", 20000, _MOST, "Milliseconds to wait for the volume."),
)
# Cloud Cache of one kind of container, in its key.
CLOUD_CACHE = (
    _texts(
        "CCDLocations",
        "Cloud Cache: up to four providers; the first is read, all are written. Not together with"
        " VHDLocations.",
    ),
    _switch("ClearCacheOnLogoff", 0, "Cloud Cache: 1: the local cache is removed at sign-out."),
    _number(
        "HealthyProvidersRequiredForRegister",
        0,
        4,
        "Cloud Cache: providers that must answer at sign-in.",
    ),
    _number(
        "HealthyProvidersRequiredForUnregister",
        1,
        4,
        "Cloud Cache: providers that must have everything at sign-out; 0, which can lose data, is"
        " refused.",
    ),
    _number(
        "CcdUnregisterTimeout",
        0,
        _MOST,
        "Cloud Cache: seconds that a sign-out waits for them; 0: for ever.",
    ),
    _switch(
        "ClearCacheOnForcedUnregister",
        0,
        "Cloud Cache: 1: the local cache is removed after such a timeout too.",
    ),
)
_PROFILE = _number("ProfileType", 0, 3, "0: normal, 1: RW alone, 2: RO alone, 3: RW, else RO.")
_OWN_OF_ODFC = (
    _number("VHDAccessMode", 0, 3, "How several sessions share the disk."),
    _number("NumSessionVHDsToKeep", 2, _MOST, "Disks of a session that are kept."),
    _switch("IncludeOfficeActivation", 1, "1: Office's activation is in the container."),
    _switch("IncludeOneDrive", 1, "1: OneDrive's cache is in the container."),
    _switch("IncludeOneNote", 0, "1: OneNote's notebooks are in the container."),
    _switch("IncludeOneNote_UWP", 0, "1: those of OneNote for Windows are in the container."),
    _switch("IncludeOutlook", 1, "1: Outlook's data is in the container."),
    _switch("IncludeOutlookPersonalization", 1, "1: Outlook's settings are in the container."),
    _switch("IncludeSharepoint", 1, "1: SharePoint's data is in the container."),
    _switch("IncludeSkype", 1, "1: the address book of Skype for Business is in the container."),
    _switch("IncludeTeams", 0, "1: Teams' data is in the container."),
    _number("MirrorLocalOSTToVHD", 0, 2, "What becomes of a local OST file."),
    _text("OutlookFolderPath", "", "Folder in the container that has Outlook's data."),
    _switch("RefreshUserPolicy", 0, "1: the user's policies are read anew."),
)
# In the product's own default where it is another in ODFC.
_ODFC_DEFAULTS: dict[str, Any] = {"VHDNameMatch": "ODFC*", "VHDNamePattern": "ODFC_%username%"}


def _of_odfc(option: Option) -> Option:
    return replace(option, default=_ODFC_DEFAULTS.get(option.name, option.default))


class Key(NamedTuple):
    """The settings of one registry key.

    Attributes:
        variable: the role's dictionary that declares them, without ``fslogix_``.
        path: of the key.
        options: the settings.
    """

    variable: str
    path: str
    options: tuple[Option, ...]

    def names(self) -> list[str]:
        """The values that the role owns."""
        return [option.name for option in self.options]


KEYS = (
    Key("profiles", PROFILES, (*_CONTAINER, _PROFILE, *CLOUD_CACHE)),
    Key("odfc", ODFC, (*map(_of_odfc, _CONTAINER), *_OWN_OF_ODFC, *CLOUD_CACHE)),
    Key(
        "apps",
        APPS,
        (
            _switch("CleanupInvalidSessions", 0, "1: sessions that ended badly are cleaned up."),
            _switch("RoamRecycleBin", 1, "1: the recycle bin is in the container."),
            _switch("VHDCompactDisk", 1, "1: the disk is compacted at sign-out."),
        ),
    ),
    Key(
        "logging",
        LOGGING,
        (
            _number("LoggingEnabled", 2, 2, "0: none, 1: only what is chosen, 2: all."),
            _text("LogDir", r"%ProgramData%\FSLogix\Logs", "Folder of the logs."),
            _number("LogFileKeepingPeriod", 2, 180, "Logs that are kept, one a day."),
            _number("LoggingLevel", 1, 3, "0: debug, 1: info, 2: warning, 3: error."),
            _text("RobocopyLogPath", "", "File of robocopy's log."),
        ),
    ),
    Key(
        "cloud_cache",
        CACHE_DRIVER,
        (
            _text(
                "CacheDirectory",
                r"C:\ProgramData\FSLogix\Cache",
                "Cloud Cache: folder of the local cache; on NV A10 v5 on the temporary SSD.",
            ),
        ),
    ),
    Key(
        "cloud_cache",
        CACHE_SERVICE,
        (
            _text("WriteCacheDirectory", "", "Cloud Cache: folder of what is still to be written."),
            _text(
                "ProxyDirectory",
                r"C:\ProgramData\FSLogix\Proxy",
                "Cloud Cache: folder of the proxy files; not CacheDirectory.",
            ),
            _switch("SilenceACLWarning", 0, "Cloud Cache: 1: no warning of the folders' rights."),
        ),
    ),
)
VARIABLES = tuple(dict.fromkeys(key.variable for key in KEYS))
RETIRED = {"CcdMaxCacheSizeInMBs": "Microsoft retired it in FSLogix 25.02: remove it"}


def refusals(variable: str, declared: Mapping[Any, Any], where: str) -> list[str]:
    """Errors in a dictionary: unknown and retired names, wrong types, values out of range; a
    sentence each that begins with the variable.

    Args:
        variable: one of ``VARIABLES``.
        declared: Microsoft's value names and their data.
        where: the dictionary's name in a sentence.
    """
    if not isinstance(declared, Mapping):
        return [f"{where}: it must be a dictionary of Microsoft's value names."]
    options = _options(variable)
    retired = [name for name in declared if name in RETIRED]
    current_names = {name: value for name, value in declared.items() if name not in RETIRED}
    wrong = [f"{where}.{name}: {RETIRED[name]}." for name in retired]
    misfit_texts = [text for _, text in misfits(options, current_names, f"{where}.")]
    misfit_texts += [
        f"{where}.{name} {wrong}"
        for name in current_names
        for wrong in _wrong_texts(current_names[name])
    ]
    return wrong + [text if text.endswith("?") else f"{text}." for text in misfit_texts]


def _options(variable: str) -> list[Option]:
    return [option for key in KEYS if key.variable == variable for option in key.options]


def _wrong_texts(data: Any) -> list[str]:
    """The error in a text or a list of texts: an empty one, or a control character."""
    if data == []:
        return ["is an empty list"]
    texts = data if isinstance(data, (list, tuple)) else [data]
    control = any(isinstance(text, str) and min(text, default=" ") < " " for text in texts)
    return ["must be of one line"] if control else []


def values(variable: str, declared: Mapping[str, Any], under: str = "") -> list[Value]:
    """The registry values of a dictionary that ``refusals`` found nothing in, in the table's order.

    Args:
        variable: one of ``VARIABLES``.
        declared: Microsoft's value names and their data.
        under: a key below the dictionary's own, such as ``\\ObjectSpecific\\S-1-5-21-1``.
    """
    return [
        Value(key.path + under, option.name, KINDS[option.type], declared[option.name])
        for key in KEYS
        if key.variable == variable
        for option in key.options
        if option.name in declared
    ]
