"""The role fslogix, planned: FSLogix installed, its registry settings, and their requirements.

The settings stand in ``fslogix_settings``, with their types and ranges. The role writes only
declared settings, and removes its own that nobody declares: all names of that table, and in keys
that others use too (Defender's exclusions, Kerberos, overrides of one group) the names that it
wrote before, which a registry value of its own records.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from xml.sax.saxutils import escape

from trueup_node.options import Option, misfits
from trueup_node.plan import Plan, PlanInputs, Skipped, sentences

from ..system import others
from . import fslogix_settings as settings
from .fslogix_settings import APPS, KEYS, ODFC, PROFILES, VARIABLES
from .registry import Value, changes, data_of

# The role's record on the host, and the fingerprints of storage keys.
RECORD = r"HKLM:\SOFTWARE\trueup\fslogix"
RECORD_KEYS = rf"{RECORD}\Keys"
_WRITTEN = "Written"
_KERBEROS = r"HKLM:\SYSTEM\CurrentControlSet\Control\Lsa\Kerberos\Parameters"
_ACCOUNT = r"HKLM:\Software\Policies\Microsoft\AzureADAccount"
_DEFENDER = r"HKLM:\SOFTWARE\Policies\Microsoft\Windows Defender\Exclusions"
# Only administrators write there; C:\Windows\Temp has files of anybody.
_FOLDER = r"C:\Program Files\trueup\fslogix"
_SERVICES = ("frxsvc", "frxccds")
_GROUPS = tuple(
    f"FSLogix {kind} {end} List" for kind in ("Profile", "ODFC") for end in ("Include", "Exclude")
)
# The dictionaries of fslogix_settings, and the start of their names in a sentence.
_PARTS, _LABEL = (*VARIABLES, "object_specific"), "fslogix_settings."
_SETUP = r"x64\Release\FSLogixAppsSetup.exe"
# The release that closes elevations of privilege, and the one whose ODFC disk is not created.
_FLOOR, _NO_ODFC_DISK = "3.26.826.17182", "3.26.102.18413"
_DISKS = [f"{kind}{end}" for kind in ("VHD", "VHDX") for end in ("", ".lock", ".meta", ".metadata")]
_UNC = re.compile(r"\\\\([^\\/:*?\"<>|;\s]+)\\[^\\/:*?\"<>|;\s][^/:*?\"<>|;]*")
_SMB = re.compile(r'type=smb,name="([^"]+)",connectionString=(\\\\[^";]+)')
_BLOB = re.compile(r'type=azure,name="([^"]+)",connectionString="\|fslogix/[^|"]+\|"')
_SID = re.compile(r"S-1-\d+(?:-\d+)+")
_VERSION = re.compile(r"\d+(?:\.\d+){1,3}")
_DELETES = "DeleteLocalProfileWhenVHDShouldApply"
# Of a host in use these decide where a user's container is searched.
_FOLDER_NAMES = ("FlipFlopProfileDirectoryName", "NoProfileContainingFolder", "SIDDirNamePattern")


def asks(inputs: PlanInputs) -> dict[str, dict[str, Any]]:
    """The questions to the host, once the declared state passes its checks."""
    if not _is_declared(inputs) or _refused(inputs):
        return {}
    keys = [key.path for key in KEYS] + [value.path for value in _foreign(inputs)]
    keys += [RECORD, RECORD_KEYS]
    return {
        "windows_facts": {"registry": list(dict.fromkeys(keys)), "services": list(_SERVICES)},
    }


def plan(inputs: PlanInputs) -> Plan:
    """FSLogix of a session host.

    Values: ``package``, as windows_package takes it; as windows_settings does ``reach``, servers
    that must answer before anything is written, ``settings``, files, registry, services and groups,
    and ``credentials``, storage keys of SYSTEM without the secrets; ``changes``, whether something
    of the product changes, which users of the host would notice; ``warnings``, which Ansible shows.
    With ``verify`` in ``inputs.found`` the plan refuses if settings still differ from the declared
    ones.
    """
    if not _is_declared(inputs):
        reason = (
            "nothing is declared: set profiles of fslogix_settings (Enabled and VHDLocations or"
            " CCDLocations)"
        )
        nothing: dict[str, Any] = {"package": {}, "reach": [], "settings": {}, "credentials": []}
        return Plan(values={**nothing, "changes": False}, skipped=[Skipped("fslogix", reason)])
    refused = _refused(inputs) or _refused_here(inputs)
    if refused:
        return Plan(refused=refused)
    registry = _registry(inputs)
    product = [item for item in registry if item["path"] in {key.path for key in KEYS}]
    is_due = _is_due(inputs)
    verify = bool(inputs.found.get("verify"))
    if verify and not inputs.variables.get("ansible_check_mode"):
        refused = _unmet(inputs, is_due, registry)
    return Plan(
        values={
            "package": {"install": is_due, "record": RECORD, **_package(inputs)},
            "reach": _servers(inputs),
            "settings": {
                "files": _files(inputs),
                "registry": registry,
                "services": _services(inputs, is_due),
                "groups": [
                    {"name": group, "members": inputs.options["groups"][group]}
                    for group in _GROUPS
                    if inputs.options["groups"].get(group)
                ],
            },
            "credentials": _credentials(inputs),
            "changes": is_due or bool(product),
            "warnings": [] if verify else _warnings(inputs),
        },
        refused=refused,
    )


# ---- declared state -----------------------------------------------------------------------------


def _is_declared(inputs: PlanInputs) -> bool:
    return any(_settings(inputs, name) for name in _PARTS)


def _settings(inputs: PlanInputs, name: str) -> Any:
    """One of the dictionaries of fslogix_settings."""
    return inputs.options["settings"].get(name, {})


def _places(inputs: PlanInputs) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """(variable name for messages, registry key, declared settings) of each container
    dictionary."""
    yield "fslogix_settings.profiles", PROFILES, _profiles(inputs)
    yield "fslogix_settings.odfc", ODFC, _settings(inputs, "odfc")
    for sid, declared in _settings(inputs, "object_specific").items():
        yield (
            f"fslogix_settings.object_specific.{sid}",
            rf"{PROFILES}\ObjectSpecific\{sid}",
            declared,
        )


def _dictionaries(inputs: PlanInputs) -> Iterator[tuple[str, dict[str, Any]]]:
    return ((label, declared) for label, _, declared in _places(inputs))


def _profiles(inputs: PlanInputs) -> dict[str, Any]:
    """Profile containers, with the folder of redirections.xml where the role writes that."""
    declared: dict[str, Any] = dict(_settings(inputs, "profiles"))
    if _has_redirections(inputs):
        declared.setdefault("RedirXMLSourceFolder", _FOLDER)
    return declared


def _has_redirections(inputs: PlanInputs) -> bool:
    declared = inputs.options["redirections"]
    return bool(declared.get("excludes") or declared.get("includes"))


def _locations(inputs: PlanInputs) -> list[str]:
    """The folders that containers lie in: UNC or with variables."""
    locations = []
    for _, declared in _dictionaries(inputs):
        locations += declared.get("VHDLocations", [])
        matches = map(_SMB.fullmatch, declared.get("CCDLocations", []))
        locations += [match[2] for match in matches if match]
    return list(dict.fromkeys(locations))


def _servers(inputs: PlanInputs) -> list[dict[str, Any]]:
    seconds = inputs.options["share_timeout_seconds"]
    matches = map(_UNC.fullmatch, _locations(inputs))
    named = [match[1] for match in matches if match and "%" not in match[1]]
    return [{"host": server, "port": 445, "seconds": seconds} for server in dict.fromkeys(named)]


def _own(inputs: PlanInputs) -> list[Value]:
    """The product's own settings."""
    declared = {name: _settings(inputs, name) for name in VARIABLES}
    declared["profiles"] = _profiles(inputs)
    return [value for name in VARIABLES for value in settings.values(name, declared[name])]


def _foreign(inputs: PlanInputs) -> list[Value]:
    """Values in keys that others write too."""
    registry_values = []
    for sid, declared in _settings(inputs, "object_specific").items():
        registry_values += settings.values("profiles", declared, rf"\ObjectSpecific\{sid}")
    if inputs.options["entra_kerberos"]:
        registry_values.append(Value(_KERBEROS, "CloudKerberosTicketRetrievalEnabled", "dword", 1))
        registry_values.append(Value(_ACCOUNT, "LoadCredKeyFromProfile", "dword", 1))
    if inputs.options["defender_exclusions"]:
        for kind, texts in _exclusions(inputs).items():
            registry_values.append(Value(_DEFENDER, f"Exclusions_{kind}", "dword", 1))
            registry_values += [
                Value(rf"{_DEFENDER}\{kind}", text, "string", "0") for text in texts
            ]
    return registry_values


def _exclusions(inputs: PlanInputs) -> dict[str, list[str]]:
    """Antivirus exclusions (Microsoft's list, by Azure/avdaccelerator)."""
    paths = [rf"{folder}\*\*.{kind}" for folder in ("%TEMP%", r"%Windir%\TEMP") for kind in _VHDS]
    for location in _locations(inputs):
        share = "\\".join(location.split("\\")[:4])
        paths += [rf"{share}\*\*.{disk}" for disk in _DISKS]
    if any(declared.get("CCDLocations") for _, declared in _dictionaries(inputs)):
        cache = _settings(inputs, "cloud_cache")
        paths.append(cache.get("CacheDirectory", r"%ProgramData%\FSLogix\Cache") + r"\*")
        paths.append(cache.get("ProxyDirectory", r"%ProgramData%\FSLogix\Proxy") + r"\*")
    apps = r"%ProgramFiles%\FSLogix\Apps"
    paths += [rf"{apps}\{name}.sys" for name in ("frxdrv", "frxdrvvt", "frxccd")]
    processes = [rf"{apps}\{name}.exe" for name in ("frxsvc", "frxccds", "frxccd")]
    return {"Paths": list(dict.fromkeys(paths)), "Processes": processes}


_VHDS = ("VHD", "VHDX")


def redirections(declared: Mapping[str, Any]) -> str:
    """redirections.xml.

    Args:
        declared: ``excludes`` and ``includes``, of each ``path`` and ``copy`` (0 nothing, 1 from
            the container at sign-in, 2 to it at sign-out, 3 both), and ``exclude_common_folders``.
    """
    lines = ['<?xml version="1.0" encoding="UTF-8"?>']
    common = declared.get("exclude_common_folders") or 0
    lines.append(f'<FrxProfileFolderRedirection ExcludeCommonFolders="{common}">')
    for many, tag in (("Excludes", "Exclude"), ("Includes", "Include")):
        lines.append(f"  <{many}>")
        for entry in declared.get(many.lower()) or []:
            copy = "" if entry.get("copy") is None else f' Copy="{entry["copy"]}"'
            lines.append(f"    <{tag}{copy}>{escape(entry['path'])}</{tag}>")
        lines.append(f"  </{many}>")
    return "\n".join([*lines, "</FrxProfileFolderRedirection>", ""])


def _files(inputs: PlanInputs) -> list[dict[str, str]]:
    if not _has_redirections(inputs):
        return []
    folder = _profiles(inputs)["RedirXMLSourceFolder"].rstrip("\\")
    return [
        {
            "folder": folder,
            "name": "redirections.xml",
            "content": redirections(inputs.options["redirections"]),
        }
    ]


# ---- changes that are due -----------------------------------------------------------------------


def _found(inputs: PlanInputs) -> Mapping[str, Any]:
    return inputs.found.get("registry") or {}


def _installed(inputs: PlanInputs) -> str:
    """InstallVersion; empty where FSLogix is not there."""
    return str(data_of(_found(inputs), APPS, "InstallVersion") or "")


def _is_due(inputs: PlanInputs) -> bool:
    """Whether FSLogix is missing, or older than asked for; a newer one stays."""
    service = (inputs.found.get("services") or {}).get(_SERVICES[0])
    installed = _installed(inputs)
    return service is None or not installed or _older(installed, inputs.options["version"])


def _package(inputs: PlanInputs) -> dict[str, Any]:
    version, release = inputs.options["version"], _release(inputs)
    return {
        "name": f"FSLogix {version}",
        "url": release["url"],
        "sha256": release["sha256"],
        "folder": rf"{_FOLDER}\{version}",
        "setup": _SETUP,
        "arguments": ["/install", "/quiet", "/norestart"],
    }


def _release(inputs: PlanInputs) -> dict[str, str]:
    known_release = inputs.data["releases"].get(inputs.options["version"], {})
    return {name: inputs.options[name] or known_release.get(name, "") for name in ("url", "sha256")}


def _registry(inputs: PlanInputs) -> list[dict[str, Any]]:
    """Items of windows_settings that are due. A value in a shared key is removed before the record
    forgets it, and recorded before it is written."""
    current = _found(inputs)
    owned = {key.path: key.names() for key in KEYS}
    due = changes(_own(inputs), current, owned)
    declared = {
        _name_of(registry_value).casefold(): registry_value for registry_value in _foreign(inputs)
    }
    written = {name.casefold(): name for name in data_of(current, RECORD, _WRITTEN) or []}
    due += [
        {"path": path, "name": name, "state": "absent"}
        for path, _, name in (
            text.partition("|") for key, text in written.items() if key not in declared
        )
    ]
    ours = tuple(
        _name_of(registry_value)
        for key, registry_value in declared.items()
        if key in written or data_of(current, registry_value.path, registry_value.name) is None
    )
    record = [Value(RECORD, _WRITTEN, "multistring", ours)] if ours else []
    due += changes(record, current, {RECORD: [_WRITTEN]})
    due += changes(list(declared.values()), current, {})
    prints = [
        Value(RECORD_KEYS, name, "string", print_) for name, print_ in _prints(inputs).items()
    ]
    return due + changes(prints, current, {RECORD_KEYS: _recorded_keys(inputs)})


def _name_of(value: Value) -> str:
    return f"{value.path}|{value.name}"


def _keys(inputs: PlanInputs) -> dict[str, str]:
    keys: Any = inputs.secrets.get("storage_keys") or {}
    return {str(name): key for name, key in keys.items()}


def _prints(inputs: PlanInputs) -> dict[str, str]:
    """By account's host a fingerprint of its key: no one finds 64 random bytes by half of their
    sha256."""
    return {
        name: hashlib.sha256(f"{name}\0{key}".encode()).hexdigest()[:32]
        for name, key in _keys(inputs).items()
    }


def _recorded_keys(inputs: PlanInputs) -> list[str]:
    for path, key in _found(inputs).items():
        if path.casefold() == RECORD_KEYS.casefold():
            return list((key or {}).get("values") or {})
    return []


def _credentials(inputs: PlanInputs) -> list[dict[str, str]]:
    """Items of win_credential, without the secret. A stored key cannot be compared, so it is
    written anew when the fingerprint differs from the recorded one."""
    prints = _prints(inputs)
    stored = [
        {
            "name": name,
            "username": rf"localhost\{name.partition('.')[0]}",
            "update_secret": "on_create"
            if data_of(_found(inputs), RECORD_KEYS, name) == print_
            else "always",
        }
        for name, print_ in prints.items()
    ]
    current_names = {name.casefold() for name in prints}
    stale_names = [name for name in _recorded_keys(inputs) if name.casefold() not in current_names]
    return stored + [{"name": name, "state": "absent"} for name in stale_names]


def _services(inputs: PlanInputs, is_due: bool) -> list[dict[str, str]]:
    """Services that should run and do not; an installer starts the services that it installs."""
    services = {} if is_due else inputs.found.get("services") or {}
    return [
        {"name": name, "state": "started", "start_mode": "auto"}
        for name in _SERVICES
        if services.get(name) and services[name] != {"state": "started", "start_mode": "auto"}
    ]


def _unmet(inputs: PlanInputs, is_due: bool, registry: Sequence[Mapping[str, Any]]) -> list[str]:
    services = inputs.found.get("services") or {}
    down = [name for name in _SERVICES if (services.get(name) or {}).get("state") != "started"]
    differing = ", ".join(f"{item['path']} {item['name']}" for item in registry)
    version = _installed(inputs) or "not there"
    return sentences(
        {
            f"fslogix: FSLogix is {version} after the installation of {inputs.options['version']}:"
            r" see %TEMP%\Microsoft_FSLogix_Apps_*.log on the host.": is_due,
            f"fslogix: {' and '.join(down)} of FSLogix do not run: see the event log"
            " Microsoft-FSLogix-Apps/Operational on the host.": down,
            f"fslogix: something else writes {differing}, such as a Group Policy: take it out of"
            " there, or out of the role's variables.": registry,
        }
    )


# ---- problems -----------------------------------------------------------------------------------


def _older(version: str, other: str) -> bool:
    return _parts(version) < _parts(other)


def _parts(version: str) -> tuple[int, ...]:
    parts = [int(number) for number in version.split(".")]
    return (*parts, 0, 0, 0)[:4]


def _refused(inputs: PlanInputs) -> list[str]:
    """Errors in the declared state on any host; all of them at once."""
    node, options = inputs.node, inputs.options
    if node.get("system") != "windows":
        return [f"fslogix: {node.get('os') or 'this node'} is no Windows, which FSLogix is for."]
    # The members are checked below.
    parts = {
        name: {} if isinstance(declared, Mapping) else declared
        for name, declared in options["settings"].items()
    }
    unknown = misfits([Option(name, "", {}) for name in _PARTS], parts, _LABEL)
    if unknown:
        return [text if text.endswith("?") else f"{text}." for _, text in unknown]
    wrong = [
        sentence
        for name in VARIABLES
        for sentence in settings.refusals(name, _settings(inputs, name), f"{_LABEL}{name}")
    ]
    for sid, declared in _settings(inputs, "object_specific").items():
        label = f"fslogix_settings.object_specific.{sid}"
        if not _SID.fullmatch(str(sid)):
            wrong.append(f"{label}: the name is no SID (S-1-...).")
        wrong += settings.refusals("profiles", declared, label)
    if wrong:
        # Rules between settings need settings.
        return wrong
    for label, declared in _dictionaries(inputs):
        wrong += _contradictions(label, declared)
        wrong += _wrong_locations(label, declared)
    wrong += _wrong_containers(inputs) + _wrong_groups(inputs.options["groups"])
    return wrong + _wrong_package(inputs) + _wrong_storage(inputs) + _wrong_redirections(inputs)


def _contradictions(label: str, declared: Mapping[str, Any]) -> list[str]:
    def is_on(name: str) -> bool:
        return bool(declared.get(name))

    both = is_on("VHDLocations") and is_on("CCDLocations")
    cached = [option.name for option in settings.CLOUD_CACHE[1:] if option.name in declared]
    of_folder = [name for name in declared if name.startswith("SIDDirName")]
    prevents = is_on("PreventLoginWithFailure") and is_on("PreventLoginWithTempProfile")
    providers = len(declared.get("CCDLocations", []))
    sector = declared.get("VHDXSectorSize", 0)
    healthy = "HealthyProvidersRequiredFor"
    needed = {name: declared.get(healthy + name) for name in ("Register", "Unregister")}
    too_many = max(filter(None, needed.values()), default=0) > providers
    return sentences(
        {
            f"{label}: VHDLocations and CCDLocations exclude each other: remove one.": both,
            f"{label}: {', '.join(cached)} act on Cloud Cache alone: declare CCDLocations, or"
            " remove them.": cached and not providers,
            f"{label}.{healthy}Unregister is 0, with which a sign-out can lose"
            " data: set 1 or more.": needed["Unregister"] == 0,
            f"{label}.{healthy}Register needs PreventLoginWithFailure: 1 and"
            " PreventLoginWithTempProfile: 1, or users get a session without their profile.": (
                needed["Register"] and not prevents
            ),
            f"{label}: more healthy providers are required than the {providers} of"
            " CCDLocations.": providers and too_many,
            f"{label}: NoProfileContainingFolder beats FlipFlopProfileDirectoryName and"
            " SIDDirName*: remove one.": is_on("NoProfileContainingFolder")
            and (is_on("FlipFlopProfileDirectoryName") or of_folder),
            f"{label}: FlipFlopProfileDirectoryName beats SIDDirName*: remove one.": (
                is_on("FlipFlopProfileDirectoryName") and of_folder
            ),
            f"{label}: SIDDirNamePattern and SIDDirNameMatch must fit each other: declare both.": (
                len(of_folder) == 1
            ),
            f"{label}.VHDXSectorSize is {sector}: it must be 0, 512 or 4096.": (
                sector not in {0, 512, 4096}
            ),
        }
    )


def _wrong_locations(label: str, declared: Mapping[str, Any]) -> list[str]:
    """Invalid shares and providers. A provider's text is not shown: it may be a connection string
    with its key."""
    wrong = [
        f"{label}.VHDLocations[{number}] is {text!r}: it must be a share, such as"
        r" \\account.file.core.windows.net\profiles."
        for number, text in enumerate(declared.get("VHDLocations", []))
        if not (_UNC.fullmatch(text) or text.startswith("%"))
    ]
    providers = declared.get("CCDLocations", [])
    matches = [_SMB.fullmatch(text) or _BLOB.fullmatch(text) for text in providers]
    wrong += [
        f'{label}.CCDLocations[{number}] must read type=smb,name="LABEL",connectionString='
        r'\\SERVER\SHARE or type=azure,name="LABEL",connectionString="|fslogix/KEYNAME|",'
        " without blanks, and without the connection string itself, which users could read."
        for number, match in enumerate(matches)
        if match is None
    ]
    labels = [match[1] for match in matches if match]
    wrong += sentences(
        {
            f"{label}.CCDLocations has {len(providers)} providers: Cloud Cache takes 4.": (
                len(providers) > 4
            ),
            f"{label}.CCDLocations has two providers of one name.": len(set(labels)) < len(labels),
            f"{label}.VHDLocations has one share twice.": (
                len(set(map(str.casefold, declared.get("VHDLocations", []))))
                < len(declared.get("VHDLocations", []))
            ),
        }
    )
    return wrong


def _wrong_containers(inputs: PlanInputs) -> list[str]:
    containers = {"profiles": _profiles(inputs), "odfc": _settings(inputs, "odfc")}
    homeless = [
        f"{_LABEL}{name}"
        for name, declared in containers.items()
        if declared.get("Enabled")
        and not (declared.get("VHDLocations") or declared.get("CCDLocations"))
    ]
    cache = _settings(inputs, "cloud_cache")
    folders = {
        option.name: str(cache.get(option.name, option.default)).rstrip("\\").casefold()
        for key in KEYS
        if key.variable == "cloud_cache"
        for option in key.options
    }
    restarts = [
        f"{label}.{name}"
        for label, declared in _dictionaries(inputs)
        for name in ("RebootOnUserLogoff", "ShutdownOnUserLogoff")
        if declared.get(name)
    ]
    return sentences(
        {
            f"{', '.join(homeless)}: Enabled is 1 without a place for containers: declare"
            " VHDLocations or CCDLocations.": homeless,
            f"{_LABEL}cloud_cache: CacheDirectory and ProxyDirectory must be two folders.": (
                folders["CacheDirectory"] == folders["ProxyDirectory"]
            ),
            f"{', '.join(restarts)} would end the sessions of others on this multi-session host:"
            " set 0.": restarts
            and any(
                edition in str(inputs.node.get("os")) for edition in ("multi-session", "Server")
            ),
        }
    )


def _wrong_groups(groups: Mapping[str, Any]) -> list[str]:
    unknown = others("|".join(_GROUPS), groups)
    shapeless = ", ".join(name for name, members in groups.items() if not _is_names(members))
    return sentences(
        {
            f"fslogix_groups has {unknown}: FSLogix's groups are {', '.join(_GROUPS)}.": unknown,
            f"fslogix_groups: {shapeless}: give a list of names.": shapeless,
        }
    )


def _is_names(members: Any) -> bool:
    return isinstance(members, list) and all(isinstance(name, str) for name in members)


def _wrong_package(inputs: PlanInputs) -> list[str]:
    version, release = inputs.options["version"], _release(inputs)
    if not _VERSION.fullmatch(version):
        return [f"fslogix_version is {version!r}: it must be a build, such as {_FLOOR}."]
    sha256 = release["sha256"]
    return sentences(
        {
            f"fslogix: no address is known for FSLogix {version}: give fslogix_url.": (
                not release["url"]
            ),
            f"fslogix: no sha256 is known for FSLogix {version}: give fslogix_sha256.": not sha256,
            "fslogix_sha256 must have 64 hexadecimal digits.": (
                sha256 and not re.fullmatch("[0-9a-fA-F]{64}", sha256)
            ),
        }
    )


def _wrong_storage(inputs: PlanInputs) -> list[str]:
    keys = _keys(inputs)
    computer = _settings(inputs, "profiles").get("AccessNetworkAsComputerObject")
    bad = [name for name, key in keys.items() if "." not in name or not _is_key(key)]
    return sentences(
        {
            f"fslogix_storage_keys: {', '.join(bad)}: each is the account's host"
            " (ACCOUNT.file.core.windows.net) with its key in base64.": bad,
            "fslogix_storage_keys: the key is used by the computer and not by users: declare"
            " AccessNetworkAsComputerObject: 1 in fslogix_settings.profiles.": keys
            and not computer,
            "fslogix_storage_keys and fslogix_entra_kerberos exclude each other: with Kerberos"
            " users open the share themselves.": keys and inputs.options["entra_kerberos"],
        }
    )


def _is_key(key: Any) -> bool:
    return isinstance(key, str) and re.fullmatch(r"[A-Za-z0-9+/]{16,}={0,2}", key) is not None


def _wrong_redirections(inputs: PlanInputs) -> list[str]:
    declared = inputs.options["redirections"]
    wrong = []
    for many in ("excludes", "includes"):
        for number, entry in enumerate(declared.get(many) or []):
            label = f"fslogix_redirections.{many}[{number}]"
            path, copy = entry["path"], entry.get("copy")
            if not re.fullmatch(r"[^\\/:*?\"<>|]+(\\[^\\/:*?\"<>|]+)*", path) or ".." in path:
                wrong.append(f"{label}.path is {path!r}: it must be a folder below the profile.")
            if copy is not None and not 0 <= copy <= 3:
                wrong.append(f"{label}.copy is {copy}: it must be 0 to 3.")
    return wrong


def _refused_here(inputs: PlanInputs) -> list[str]:
    """Errors in the declared state on this host."""
    installed = _installed(inputs)
    if installed and not _VERSION.fullmatch(installed):
        return [f"fslogix: InstallVersion of {APPS} is {installed!r}: repair or uninstall FSLogix."]
    options, profiles = inputs.options, _profiles(inputs)
    version = options["version"] if _is_due(inputs) else installed
    dual = profiles.get("Enabled") and _settings(inputs, "odfc").get("Enabled")
    deletes = [
        label
        for label, path, declared in _places(inputs)
        if declared.get(_DELETES) and not data_of(_found(inputs), path, _DELETES)
    ]
    renamed = _renamed(inputs, profiles)
    return sentences(
        {
            f"fslogix: {version} creates no ODFC disk with Profile and ODFC containers and"
            f" CleanupInvalidSessions: take {_FLOOR} (fslogix_version).": (
                version == _NO_ODFC_DISK
                and dual
                and _settings(inputs, "apps").get("CleanupInvalidSessions")
            ),
            f"{' and '.join(deletes)}: {_DELETES} deletes local profiles"
            " of this host for good: set fslogix_delete_local_profiles_allowed to true.": (
                deletes and not options["delete_local_profiles_allowed"]
            ),
            f"{_LABEL}profiles: {', '.join(renamed)} of this host, which is in use, would change,"
            " and users would get new, empty containers: rename the folders on the share, and set"
            " fslogix_folder_names_change_allowed to true.": (
                renamed and not options["folder_names_change_allowed"]
            ),
        }
    )


def _renamed(inputs: PlanInputs, profiles: Mapping[str, Any]) -> list[str]:
    """Settings of folder names that change while containers are used."""
    registry = _found(inputs)
    if not data_of(registry, PROFILES, "Enabled") or not profiles.get("Enabled"):
        return []
    defaults = {option.name: option.default for option in KEYS[0].options}

    def differs(name: str) -> bool:
        current = data_of(registry, PROFILES, name)
        was = defaults[name] if current is None else current
        return bool(was != profiles.get(name, defaults[name]))

    return [name for name in _FOLDER_NAMES if differs(name)]


def _warnings(inputs: PlanInputs) -> list[str]:
    options = inputs.options
    dual = _settings(inputs, "profiles").get("Enabled") and _settings(inputs, "odfc").get("Enabled")
    return sentences(
        {
            "fslogix: with AccessNetworkAsComputerObject this host can read the disk of every user:"
            " prefer fslogix_entra_kerberos.": _settings(inputs, "profiles").get(
                "AccessNetworkAsComputerObject"
            ),
            "fslogix: Profile containers hold what ODFC containers do; Microsoft recommends those"
            " alone (fslogix_settings.odfc).": dual,
            f"fslogix: {options['version']} is older than {_FLOOR}, which closes elevations of"
            " privilege.": _older(options["version"], _FLOOR),
        }
    )
