"""The role fslogix, planned: FSLogix installed, its settings in the registry, and what they need.

The settings stand in ``fslogix_settings``, with what each may be. Only what is declared is written,
and what the role owns and nobody declares is removed: the names of that table, and of keys that
others use too (Defender's exclusions, Kerberos, overrides of one group) those that the role has
written before, which it keeps in a value of its own.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any, Dict, Iterator, List, Mapping, Sequence, Tuple
from xml.sax.saxutils import escape

from ..plan import Asked, Plan, Skipped, sentences
from . import fslogix_settings as settings
from .fslogix_settings import APPS, KEYS, ODFC, PROFILES, VARIABLES
from .windows.registry import Value, changes, data_of

# The role's own memory on the host, and of storage keys what tells one from another.
RECORD = r"HKLM:\SOFTWARE\trueup\fslogix"
RECORD_KEYS = rf"{RECORD}\Keys"
_WRITTEN = "Written"
_KERBEROS = r"HKLM:\SYSTEM\CurrentControlSet\Control\Lsa\Kerberos\Parameters"
_ACCOUNT = r"HKLM:\Software\Policies\Microsoft\AzureADAccount"
_DEFENDER = r"HKLM:\SOFTWARE\Policies\Microsoft\Windows Defender\Exclusions"
# Only administrators write there; C:\Windows\Temp has files of anybody.
_FOLDER = r"C:\Program Files\trueup\fslogix"
_SERVICES = ("frxsvc", "frxccds")
_GROUPS = {
    "profile_include": "FSLogix Profile Include List",
    "profile_exclude": "FSLogix Profile Exclude List",
    "odfc_include": "FSLogix ODFC Include List",
    "odfc_exclude": "FSLogix ODFC Exclude List",
}
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


def asks(asked: Asked) -> Dict[str, Dict[str, Any]]:
    """What the host is asked, once all that is declared can be."""
    if not _is_declared(asked) or _refused(asked):
        return {}
    keys = [key.path for key in KEYS] + [value.path for value in _foreign(asked)]
    keys += [RECORD, RECORD_KEYS]
    return {
        "windows_facts": {"registry": list(dict.fromkeys(keys)), "services": list(_SERVICES)},
    }


def plan(asked: Asked) -> Plan:
    """FSLogix of a session host.

    Values: ``package``, as windows_package takes it; as windows_settings does ``reach``, servers
    that must answer before anything is written, ``settings``, files, registry, services and groups,
    and ``credentials``, storage keys of SYSTEM without the secrets; ``changes``, whether something
    of the product changes, which users of the host would notice; ``warnings``, which Ansible shows.
    With ``verify`` in ``asked.found`` what is still not as declared is refused.
    """
    if not _is_declared(asked):
        why = "nothing is declared: set fslogix_profiles (Enabled and VHDLocations or CCDLocations)"
        nothing: Dict[str, Any] = {"package": {}, "reach": [], "settings": {}, "credentials": []}
        return Plan(values={**nothing, "changes": False}, skipped=[Skipped("fslogix", why)])
    refused = _refused(asked) or _refused_here(asked)
    if refused:
        return Plan(refused=refused)
    registry = _registry(asked)
    product = [item for item in registry if item["path"] in {key.path for key in KEYS}]
    is_due = _is_due(asked)
    verify = bool(asked.found.get("verify"))
    if verify and not asked.variables.get("ansible_check_mode"):
        refused = _unmet(asked, is_due, registry)
    groups = asked.options
    return Plan(
        values={
            "package": {"install": is_due, "record": RECORD, **_package(asked)},
            "reach": _servers(asked),
            "settings": {
                "files": _files(asked),
                "registry": registry,
                "services": _services(asked, is_due),
                "groups": [
                    {"name": group, "members": groups[name]}
                    for name, group in _GROUPS.items()
                    if groups[name]
                ],
            },
            "credentials": _credentials(asked),
            "changes": is_due or bool(product),
            "warnings": [] if verify else _warnings(asked),
        },
        refused=refused,
    )


# ---- what is declared ---------------------------------------------------------------------------


def _is_declared(asked: Asked) -> bool:
    return any(asked.options[name] for name in (*VARIABLES, "object_specific"))


def _places(asked: Asked) -> Iterator[Tuple[str, str, Dict[str, Any]]]:
    """(its place in a sentence, its key, what it declares) of every dictionary of containers."""
    yield "fslogix_profiles", PROFILES, _profiles(asked)
    yield "fslogix_odfc", ODFC, asked.options["odfc"]
    for sid, declared in asked.options["object_specific"].items():
        yield f"fslogix_object_specific.{sid}", rf"{PROFILES}\ObjectSpecific\{sid}", declared


def _dictionaries(asked: Asked) -> Iterator[Tuple[str, Dict[str, Any]]]:
    return ((place, declared) for place, _, declared in _places(asked))


def _profiles(asked: Asked) -> Dict[str, Any]:
    """Profile containers, with the folder of redirections.xml where the role writes that."""
    declared: Dict[str, Any] = dict(asked.options["profiles"])
    if _has_redirections(asked):
        declared.setdefault("RedirXMLSourceFolder", _FOLDER)
    return declared


def _has_redirections(asked: Asked) -> bool:
    declared = asked.options["redirections"]
    return bool(declared.get("excludes") or declared.get("includes"))


def _locations(asked: Asked) -> List[str]:
    """The folders that containers lie in: UNC or with variables."""
    found = []
    for _, declared in _dictionaries(asked):
        found += declared.get("VHDLocations", [])
        matches = map(_SMB.fullmatch, declared.get("CCDLocations", []))
        found += [match[2] for match in matches if match]
    return list(dict.fromkeys(found))


def _servers(asked: Asked) -> List[Dict[str, Any]]:
    if not asked.options["share_check"]:
        return []
    seconds = asked.options["share_timeout_seconds"]
    matches = map(_UNC.fullmatch, _locations(asked))
    named = [match[1] for match in matches if match and "%" not in match[1]]
    return [{"host": one, "port": 445, "seconds": seconds} for one in dict.fromkeys(named)]


def _own(asked: Asked) -> List[Value]:
    """The product's own settings."""
    options = {**asked.options, "profiles": _profiles(asked)}
    return [value for name in VARIABLES for value in settings.values(name, options[name])]


def _foreign(asked: Asked) -> List[Value]:
    """Values in keys that others write too."""
    found = []
    for sid, declared in asked.options["object_specific"].items():
        found += settings.values("profiles", declared, rf"\ObjectSpecific\{sid}")
    if asked.options["entra_kerberos"]:
        found.append(Value(_KERBEROS, "CloudKerberosTicketRetrievalEnabled", "dword", 1))
        found.append(Value(_ACCOUNT, "LoadCredKeyFromProfile", "dword", 1))
    if asked.options["defender_exclusions"]:
        for kind, texts in _exclusions(asked).items():
            found.append(Value(_DEFENDER, f"Exclusions_{kind}", "dword", 1))
            found += [Value(rf"{_DEFENDER}\{kind}", text, "string", "0") for text in texts]
    return found


def _exclusions(asked: Asked) -> Dict[str, List[str]]:
    """What antivirus leaves alone (Microsoft's list, by Azure/avdaccelerator)."""
    paths = [rf"{place}\*\*.{kind}" for place in ("%TEMP%", r"%Windir%\TEMP") for kind in _VHDS]
    for location in _locations(asked):
        share = "\\".join(location.split("\\")[:4])
        paths += [rf"{share}\*\*.{disk}" for disk in _DISKS]
    if any(declared.get("CCDLocations") for _, declared in _dictionaries(asked)):
        cache = asked.options["cloud_cache"]
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
    for many, one in (("Excludes", "Exclude"), ("Includes", "Include")):
        lines.append(f"  <{many}>")
        for entry in declared.get(many.lower()) or []:
            copy = "" if entry.get("copy") is None else f' Copy="{entry["copy"]}"'
            lines.append(f"    <{one}{copy}>{escape(entry['path'])}</{one}>")
        lines.append(f"  </{many}>")
    return "\n".join([*lines, "</FrxProfileFolderRedirection>", ""])


def _files(asked: Asked) -> List[Dict[str, str]]:
    if not _has_redirections(asked):
        return []
    folder = _profiles(asked)["RedirXMLSourceFolder"].rstrip("\\")
    return [
        {
            "folder": folder,
            "name": "redirections.xml",
            "content": redirections(asked.options["redirections"]),
        }
    ]


# ---- what is due --------------------------------------------------------------------------------


def _found(asked: Asked) -> Mapping[str, Any]:
    return asked.found.get("registry") or {}


def _installed(asked: Asked) -> str:
    """InstallVersion; empty where FSLogix is not there."""
    return str(data_of(_found(asked), APPS, "InstallVersion") or "")


def _is_due(asked: Asked) -> bool:
    """Whether FSLogix is missing, or older than asked for; a newer one stays."""
    there = (asked.found.get("services") or {}).get(_SERVICES[0])
    installed = _installed(asked)
    return there is None or not installed or _older(installed, asked.options["version"])


def _package(asked: Asked) -> Dict[str, Any]:
    version, release = asked.options["version"], _release(asked)
    return {
        "name": f"FSLogix {version}",
        "url": release["url"],
        "sha256": release["sha256"],
        "folder": rf"{_FOLDER}\{version}",
        "setup": asked.options["setup"],
        "arguments": ["/install", "/quiet", "/norestart"],
    }


def _release(asked: Asked) -> Dict[str, str]:
    known = asked.data["releases"].get(asked.options["version"], {})
    return {name: asked.options[name] or known.get(name, "") for name in ("url", "sha256")}


def _registry(asked: Asked) -> List[Dict[str, Any]]:
    """Items of windows_settings that are due. What was written in another's key is removed before
    the record forgets it, and recorded before it is written."""
    found = _found(asked)
    owned = {key.path: key.names() for key in KEYS}
    due = changes(_own(asked), found, owned)
    declared = {_name_of(one).casefold(): one for one in _foreign(asked)}
    written = {name.casefold(): name for name in data_of(found, RECORD, _WRITTEN) or []}
    due += [
        {"path": path, "name": name, "state": "absent"}
        for path, _, name in (
            text.partition("|") for key, text in written.items() if key not in declared
        )
    ]
    ours = tuple(
        _name_of(one)
        for key, one in declared.items()
        if key in written or data_of(found, one.path, one.name) is None
    )
    record = [Value(RECORD, _WRITTEN, "multistring", ours)] if ours else []
    due += changes(record, found, {RECORD: [_WRITTEN]})
    due += changes(list(declared.values()), found, {})
    prints = [Value(RECORD_KEYS, name, "string", print_) for name, print_ in _prints(asked).items()]
    return due + changes(prints, found, {RECORD_KEYS: _recorded_keys(asked)})


def _name_of(value: Value) -> str:
    return f"{value.path}|{value.name}"


def _keys(asked: Asked) -> Dict[str, str]:
    given: Any = asked.secrets.get("storage_keys") or {}
    return {str(name): key for name, key in given.items()}


def _prints(asked: Asked) -> Dict[str, str]:
    """By account's host what tells one of its keys from another: no one finds 64 random bytes by
    half of their sha256."""
    return {
        name: hashlib.sha256(f"{name}\0{key}".encode()).hexdigest()[:32]
        for name, key in _keys(asked).items()
    }


def _recorded_keys(asked: Asked) -> List[str]:
    for path, key in _found(asked).items():
        if path.casefold() == RECORD_KEYS.casefold():
            return list((key or {}).get("values") or {})
    return []


def _credentials(asked: Asked) -> List[Dict[str, str]]:
    """Items of win_credential, without the secret. What is stored cannot be compared, so that it is
    written anew when the key is another one than was recorded."""
    prints = _prints(asked)
    wanted = [
        {
            "name": name,
            "username": rf"localhost\{name.partition('.')[0]}",
            "update_secret": "on_create"
            if data_of(_found(asked), RECORD_KEYS, name) == print_
            else "always",
        }
        for name, print_ in prints.items()
    ]
    known = {name.casefold() for name in prints}
    gone = [name for name in _recorded_keys(asked) if name.casefold() not in known]
    return wanted + [{"name": name, "state": "absent"} for name in gone]


def _services(asked: Asked, is_due: bool) -> List[Dict[str, str]]:
    """Services that should run and do not; an installer sees to those of what it installs."""
    found = {} if is_due else asked.found.get("services") or {}
    return [
        {"name": name, "state": "started", "start_mode": "auto"}
        for name in _SERVICES
        if found.get(name) and found[name] != {"state": "started", "start_mode": "auto"}
    ]


def _unmet(asked: Asked, is_due: bool, registry: Sequence[Mapping[str, Any]]) -> List[str]:
    services = asked.found.get("services") or {}
    down = [name for name in _SERVICES if (services.get(name) or {}).get("state") != "started"]
    left = ", ".join(f"{item['path']} {item['name']}" for item in registry)
    version = _installed(asked) or "not there"
    return sentences(
        {
            f"fslogix: FSLogix is {version} after the installation of {asked.options['version']}:"
            r" see %TEMP%\Microsoft_FSLogix_Apps_*.log on the host.": is_due,
            f"fslogix: {' and '.join(down)} of FSLogix do not run: see the event log"
            " Microsoft-FSLogix-Apps/Operational on the host.": down,
            f"fslogix: something else writes {left}, such as a Group Policy: take it out of"
            " there, or out of the role's variables.": registry,
        }
    )


# ---- what cannot be -----------------------------------------------------------------------------


def _older(one: str, other: str) -> bool:
    return _parts(one) < _parts(other)


def _parts(version: str) -> Tuple[int, ...]:
    parts = [int(part) for part in version.split(".")]
    return (*parts, 0, 0, 0)[:4]


def _refused(asked: Asked) -> List[str]:
    """What of the declared state cannot be on any host; all of it at once."""
    node, options = asked.node, asked.options
    if node.get("system") != "windows":
        return [f"fslogix: {node.get('os') or 'this node'} is no Windows, which FSLogix is for."]
    wrong = [
        said
        for name in VARIABLES
        for said in settings.refusals(name, options[name], f"fslogix_{name}")
    ]
    for sid, declared in options["object_specific"].items():
        place = f"fslogix_object_specific.{sid}"
        if not _SID.fullmatch(str(sid)):
            wrong.append(f"{place}: the name is no SID (S-1-...).")
        wrong += settings.refusals("profiles", declared, place)
    if wrong:
        # Rules between settings need settings.
        return wrong
    for place, declared in _dictionaries(asked):
        wrong += _contradictions(place, declared)
        wrong += _wrong_locations(place, declared)
    wrong += _wrong_containers(asked)
    return wrong + _wrong_package(asked) + _wrong_storage(asked) + _wrong_redirections(asked)


def _contradictions(place: str, declared: Mapping[str, Any]) -> List[str]:
    def is_on(name: str) -> bool:
        return bool(declared.get(name))

    both = is_on("VHDLocations") and is_on("CCDLocations")
    cached = [one.name for one in settings.CLOUD_CACHE[1:] if one.name in declared]
    of_folder = [name for name in declared if name.startswith("SIDDirName")]
    prevents = is_on("PreventLoginWithFailure") and is_on("PreventLoginWithTempProfile")
    providers = len(declared.get("CCDLocations", []))
    sector = declared.get("VHDXSectorSize", 0)
    healthy = "HealthyProvidersRequiredFor"
    needed = {name: declared.get(healthy + name) for name in ("Register", "Unregister")}
    too_many = max(filter(None, needed.values()), default=0) > providers
    return sentences(
        {
            f"{place}: VHDLocations and CCDLocations exclude each other: remove one.": both,
            f"{place}: {', '.join(cached)} act on Cloud Cache alone: declare CCDLocations, or"
            " remove them.": cached and not providers,
            f"{place}.{healthy}Unregister is 0, with which a sign-out can lose"
            " data: set 1 or more.": needed["Unregister"] == 0,
            f"{place}.{healthy}Register needs PreventLoginWithFailure: 1 and"
            " PreventLoginWithTempProfile: 1, or users get a session without their profile.": (
                needed["Register"] and not prevents
            ),
            f"{place}: more healthy providers are required than the {providers} of"
            " CCDLocations.": providers and too_many,
            f"{place}: NoProfileContainingFolder beats FlipFlopProfileDirectoryName and"
            " SIDDirName*: remove one.": is_on("NoProfileContainingFolder")
            and (is_on("FlipFlopProfileDirectoryName") or of_folder),
            f"{place}: FlipFlopProfileDirectoryName beats SIDDirName*: remove one.": (
                is_on("FlipFlopProfileDirectoryName") and of_folder
            ),
            f"{place}: SIDDirNamePattern and SIDDirNameMatch must fit each other: declare both.": (
                len(of_folder) == 1
            ),
            f"{place}.VHDXSectorSize is {sector}: it must be 0, 512 or 4096.": (
                sector not in {0, 512, 4096}
            ),
        }
    )


def _wrong_locations(place: str, declared: Mapping[str, Any]) -> List[str]:
    """Of shares and providers those that cannot be. What a provider holds is not shown: it may be a
    connection string with its key."""
    wrong = [
        f"{place}.VHDLocations[{number}] is {text!r}: it must be a share, such as"
        r" \\account.file.core.windows.net\profiles."
        for number, text in enumerate(declared.get("VHDLocations", []))
        if not (_UNC.fullmatch(text) or text.startswith("%"))
    ]
    providers = declared.get("CCDLocations", [])
    matches = [_SMB.fullmatch(text) or _BLOB.fullmatch(text) for text in providers]
    wrong += [
        f'{place}.CCDLocations[{number}] must read type=smb,name="LABEL",connectionString='
        r'\\SERVER\SHARE or type=azure,name="LABEL",connectionString="|fslogix/KEYNAME|",'
        " without blanks, and without the connection string itself, which users could read."
        for number, match in enumerate(matches)
        if match is None
    ]
    labels = [match[1] for match in matches if match]
    wrong += sentences(
        {
            f"{place}.CCDLocations has {len(providers)} providers: Cloud Cache takes 4.": (
                len(providers) > 4
            ),
            f"{place}.CCDLocations has two providers of one name.": len(set(labels)) < len(labels),
            f"{place}.VHDLocations has one share twice.": (
                len(set(map(str.casefold, declared.get("VHDLocations", []))))
                < len(declared.get("VHDLocations", []))
            ),
        }
    )
    return wrong


def _wrong_containers(asked: Asked) -> List[str]:
    options = asked.options
    containers = {"profiles": _profiles(asked), "odfc": options["odfc"]}
    homeless = [
        f"fslogix_{name}"
        for name, declared in containers.items()
        if declared.get("Enabled")
        and not (declared.get("VHDLocations") or declared.get("CCDLocations"))
    ]
    cache = options["cloud_cache"]
    folders = {
        one.name: str(cache.get(one.name, one.default)).rstrip("\\").casefold()
        for key in KEYS
        if key.variable == "cloud_cache"
        for one in key.options
    }
    restarts = [
        f"{place}.{name}"
        for place, declared in _dictionaries(asked)
        for name in ("RebootOnUserLogoff", "ShutdownOnUserLogoff")
        if declared.get(name)
    ]
    return sentences(
        {
            f"{', '.join(homeless)}: Enabled is 1 without a place for containers: declare"
            " VHDLocations or CCDLocations.": homeless,
            "fslogix_cloud_cache: CacheDirectory and ProxyDirectory must be two folders.": (
                folders["CacheDirectory"] == folders["ProxyDirectory"]
            ),
            f"{', '.join(restarts)} would end the sessions of others on this multi-session host:"
            " set 0.": restarts
            and any(word in str(asked.node.get("os")) for word in ("multi-session", "Server")),
        }
    )


def _wrong_package(asked: Asked) -> List[str]:
    version, release = asked.options["version"], _release(asked)
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


def _wrong_storage(asked: Asked) -> List[str]:
    keys = _keys(asked)
    computer = asked.options["profiles"].get("AccessNetworkAsComputerObject")
    bad = [name for name, key in keys.items() if "." not in name or not _is_key(key)]
    return sentences(
        {
            f"fslogix_storage_keys: {', '.join(bad)}: each is the account's host"
            " (ACCOUNT.file.core.windows.net) with its key in base64.": bad,
            "fslogix_storage_keys: the key is used by the computer and not by users: declare"
            " AccessNetworkAsComputerObject: 1 in fslogix_profiles.": keys and not computer,
            "fslogix_storage_keys and fslogix_entra_kerberos exclude each other: with Kerberos"
            " users open the share themselves.": keys and asked.options["entra_kerberos"],
        }
    )


def _is_key(key: Any) -> bool:
    return isinstance(key, str) and re.fullmatch(r"[A-Za-z0-9+/]{16,}={0,2}", key) is not None


def _wrong_redirections(asked: Asked) -> List[str]:
    declared = asked.options["redirections"]
    wrong = []
    for many in ("excludes", "includes"):
        for number, entry in enumerate(declared.get(many) or []):
            place = f"fslogix_redirections.{many}[{number}]"
            path, copy = entry["path"], entry.get("copy")
            if not re.fullmatch(r"[^\\/:*?\"<>|]+(\\[^\\/:*?\"<>|]+)*", path) or ".." in path:
                wrong.append(f"{place}.path is {path!r}: it must be a folder below the profile.")
            if copy is not None and not 0 <= copy <= 3:
                wrong.append(f"{place}.copy is {copy}: it must be 0 to 3.")
    return wrong


def _refused_here(asked: Asked) -> List[str]:
    """What of the declared state cannot be on this host."""
    installed = _installed(asked)
    if installed and not _VERSION.fullmatch(installed):
        return [f"fslogix: InstallVersion of {APPS} is {installed!r}: repair or uninstall FSLogix."]
    options, profiles = asked.options, _profiles(asked)
    version = options["version"] if _is_due(asked) else installed
    dual = profiles.get("Enabled") and options["odfc"].get("Enabled")
    deletes = [
        place
        for place, path, declared in _places(asked)
        if declared.get(_DELETES) and not data_of(_found(asked), path, _DELETES)
    ]
    renamed = _renamed(asked, profiles)
    return sentences(
        {
            f"fslogix: {version} creates no ODFC disk with Profile and ODFC containers and"
            f" CleanupInvalidSessions: take {_FLOOR} (fslogix_version).": (
                version == _NO_ODFC_DISK and dual and options["apps"].get("CleanupInvalidSessions")
            ),
            f"{' and '.join(deletes)}: {_DELETES} deletes local profiles"
            " of this host for good: set fslogix_delete_local_profiles_allowed to true.": (
                deletes and not options["delete_local_profiles_allowed"]
            ),
            f"fslogix_profiles: {', '.join(renamed)} of this host, which is in use, would change,"
            " and users would get new, empty containers: rename the folders on the share, and set"
            " fslogix_folder_names_change_allowed to true.": (
                renamed and not options["folder_names_change_allowed"]
            ),
        }
    )


def _renamed(asked: Asked, profiles: Mapping[str, Any]) -> List[str]:
    """Settings of folder names that change while containers are used."""
    found = _found(asked)
    if not data_of(found, PROFILES, "Enabled") or not profiles.get("Enabled"):
        return []
    defaults = {one.name: one.default for one in KEYS[0].options}

    def differs(name: str) -> bool:
        there = data_of(found, PROFILES, name)
        was = defaults[name] if there is None else there
        return bool(was != profiles.get(name, defaults[name]))

    return [name for name in _FOLDER_NAMES if differs(name)]


def _warnings(asked: Asked) -> List[str]:
    options = asked.options
    dual = options["profiles"].get("Enabled") and options["odfc"].get("Enabled")
    return sentences(
        {
            "fslogix: with AccessNetworkAsComputerObject this host can read the disk of every user:"
            " prefer fslogix_entra_kerberos.": options["profiles"].get(
                "AccessNetworkAsComputerObject"
            ),
            "fslogix: Profile containers hold what ODFC containers do; Microsoft recommends those"
            " alone (fslogix_odfc).": dual,
            f"fslogix: {options['version']} is older than {_FLOOR}, which closes elevations of"
            " privilege.": _older(options["version"], _FLOOR),
        }
    )
