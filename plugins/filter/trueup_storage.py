"""Filters of the roles shared_storage and nfs_server: what a mount or an export is made of, and
what is wrong with it, a sentence each."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ansible.errors import AnsibleFilterError
from trueup.errors import BadInput
from trueup.node.mounts import unit_name

DOCUMENTATION = r"""
name: trueup_storage
short_description: Shared file systems
description:
  - C(storage_mounts) takes the list C(shared_storage_mounts) and returns each entry with its unit,
    file system type, server and all mount options in order.
  - C(storage_problems) takes the list, the fact C(trueup_node) and the Lustre client's table, and
    returns what cannot be mounted.
  - C(storage_obstacles) takes the mounts and what M(storage_facts) found before them.
  - C(storage_stops) and C(storage_starts) return the units to stop, and to start after the files of
    some were written.
  - C(storage_differences) takes the mounts and what M(storage_facts) found after them - C(problems)
    and C(notes).
  - C(export_lines), C(export_problems) and C(export_differences) do the same for the exports of a
    server.
"""

_Entry = Mapping[str, Any]
_TYPES = {"nfs": "nfs", "anf": "nfs", "amlfs": "lustre"}
_KEYS = {"path", "kind", "source", "profile", "options", "automount", "state"}
_STATES = ("mounted", "absent")
_PROFILES = ("default", "eda")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Why each stands in roles/shared_storage/defaults/main.yml.
_OPTIONS: dict[str, tuple[str, ...]] = {
    "nfs": ("vers=4.2", "hard", "noatime"),
    "anf": (*("vers=3", "tcp", "hard", "rsize=262144", "wsize=262144", "noatime", "nconnect=8"),),
    "amlfs": ("noatime", "flock"),
}
_EDA = ("nocto", "actimeo=600")
# Of every network mount: no boot waits for it, and it comes after the network.
_ALWAYS = ("_netdev", "nofail")
# nfs(5), mount(8); sloppy is left out: it would hide a misspelt option.
_GENERIC = _words(
    "ro rw atime noatime relatime strictatime diratime nodiratime nodev nosuid noexec dev suid exec"
    " sync async _netdev nofail"
)
_NFS = _GENERIC | _words(
    "vers nfsvers minorversion hard soft softerr intr timeo retrans rsize wsize ac noac acregmin"
    " acregmax acdirmin acdirmax actimeo bg fg nconnect max_connect rdirplus nordirplus retry sec"
    " sharecache nosharecache resvport noresvport lookupcache fsc nofsc sharetransport proto tcp"
    " udp rdma port mountport mountproto mounthost mountvers namlen lock nolock cto nocto acl noacl"
    " local_lock clientaddr migration nomigration trunkdiscovery notrunkdiscovery write"
    " xprtsec"
)
# Those of the page mount.lustre(8).
_LUSTRE = _GENERIC | _words(
    "flock localflock noflock user_xattr nouser_xattr acl noacl lazystatfs nolazystatfs"
    " 32bitapi verbose noverbose retry skpath user_fid2path nouser_fid2path always_ping"
    " unique_fsid"
)
# Of these, one stands against the others: given by the user, it takes the place of the role's.
_AGAINST = (
    {"hard", "soft", "softerr"},
    {"atime", "noatime", "relatime", "strictatime"},
    {"cto", "nocto"},
    {"vers", "nfsvers"},
    {"tcp", "udp", "rdma", "proto"},
    {"flock", "localflock", "noflock"},
)
# Letters that neither a unit file nor the table of mounts writes otherwise.
_PATH = re.compile(r"(/[A-Za-z0-9._@:+-]+)+")
_HOST = r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])"
_SOURCES = {
    "nfs": (re.compile(rf"({_HOST}):/[A-Za-z0-9._@:+/-]*"), "host:/export"),
    "lustre": (re.compile(rf"({_HOST})@tcp[0-9]*:/[A-Za-z0-9._/-]+"), "host@tcp:/lustrefs"),
}
_NCONNECT_SINCE = (5, 3)


def storage_mounts(entries: Sequence[_Entry]) -> list[dict[str, Any]]:
    """The entries with ``unit``, ``automount_unit``, ``type``, ``server`` and ``options``."""
    return [_mount(entry) for entry in entries]


def _mount(entry: _Entry) -> dict[str, Any]:
    path = str(entry["path"]).rstrip("/")
    state = entry.get("state", "mounted")
    done = {
        "path": path,
        "state": state,
        "unit": unit_name(path),
        "automount_unit": unit_name(path, "automount"),
        "automount": str(entry.get("automount", False)).lower() in ("true", "yes", "1", "on"),
    }
    if state == "absent":
        return done
    kind = _TYPES[entry["kind"]]
    found = _SOURCES[kind][0].fullmatch(entry["source"])
    return {
        **done,
        "kind": entry["kind"],
        "type": kind,
        "source": entry["source"],
        "server": found[1] if found else "",
        "options": _options(entry),
    }


def _options(entry: _Entry) -> list[str]:
    """The kind's options, those of the profile, and the user's in the place of either."""
    own = [str(option) for option in entry.get("options") or []]
    given = {_name(option) for option in own}
    replaced = given | {name for group in _AGAINST if group & given for name in group}
    if "actimeo" in given:
        replaced |= {"ac", "noac"}
    profile = _EDA if entry.get("profile") == "eda" else ()
    base = (*_OPTIONS[entry["kind"]], *profile, *_ALWAYS)
    return (
        [option for option in base if _name(option) not in replaced]
        + [option for option in own if _name(option) not in _ALWAYS]
        + [option for option in _ALWAYS if option in given]
    )


def _name(option: str) -> str:
    return option.partition("=")[0]


def storage_problems(entries: Any, node: Mapping[str, Any], lustre: Mapping[str, Any]) -> list[str]:
    """What cannot be mounted, a sentence each; empty for a list that can."""
    if not isinstance(entries, list) or not all(isinstance(entry, Mapping) for entry in entries):
        return [
            "shared_storage_mounts is not a list of mounts: give path, kind and source of each."
        ]
    problems = [text for number, entry in enumerate(entries) for text in _entry(number, entry)]
    if problems:
        return problems
    mounts = [mount for mount in storage_mounts(entries) if mount["state"] == "mounted"]
    return [
        *_paths([str(entry["path"]).rstrip("/") for entry in entries]),
        *_connections(mounts),
        *_kernel(mounts, node),
        *_lustre(mounts, node, lustre),
    ]


def _entry(number: int, entry: _Entry) -> Iterable[str]:
    path = str(entry.get("path", ""))
    where = f"shared_storage_mounts[{number}]" + (f" ({path})" if path else "")
    for key in sorted(set(entry) - _KEYS):
        yield f"{where}: there is no key {key}; a mount has {', '.join(sorted(_KEYS))}."
    if not _PATH.fullmatch(path.rstrip("/")) or {".", ".."} & set(path.split("/")):
        yield (
            f"{where}: path is {path!r}: give an absolute path of letters, digits and ._@:+-,"
            " without . and .. as a part."
        )
    if entry.get("state", "mounted") not in _STATES:
        yield f"{where}: state is {entry['state']!r}: give {' or '.join(_STATES)}."
    if entry.get("state") == "absent":
        return
    kind = entry.get("kind")
    if kind not in _TYPES:
        yield f"{where}: kind is {kind!r}: give {', '.join(_TYPES)}."
        return
    pattern, example = _SOURCES[_TYPES[kind]]
    if not pattern.fullmatch(str(entry.get("source", ""))):
        yield f"{where}: source is {entry.get('source')!r}: give {example}."
    profile = entry.get("profile", "default")
    if profile not in _PROFILES or (profile == "eda" and kind == "amlfs"):
        known = " or ".join(_PROFILES)
        yield f"{where}: profile is {profile!r}: give {known}; eda is for nfs and anf."
    yield from _entry_options(where, kind, entry.get("options") or [])


def _entry_options(where: str, kind: str, options: Any) -> Iterable[str]:
    if not isinstance(options, list):
        yield f"{where}: options is not a list: give one mount option an element, as nconnect=4."
        return
    known = _NFS if _TYPES[kind] == "nfs" else _LUSTRE
    names = [_name(str(option)) for option in options]
    for option in map(str, options):
        if not re.fullmatch(r"[A-Za-z0-9_]+(=[A-Za-z0-9_.:-]+)?", option):
            yield f"{where}: {option!r} is no mount option: give one an element, as nconnect=4."
        elif _name(option) not in known:
            page = "nfs(5)" if _TYPES[kind] == "nfs" else "mount.lustre(8)"
            yield f"{where}: {page} knows no mount option {_name(option)}."
        elif _name(option) == "nconnect" and not re.fullmatch(r"nconnect=([1-9]|1[0-6])", option):
            yield f"{where}: {option}: nconnect is 1 to 16 connections (nfs(5))."
    for group in ({name} for name in names):
        if names.count(next(iter(group))) > 1:
            yield f"{where}: the option {next(iter(group))} stands twice."
            return
    for against in _AGAINST:
        if len(against & set(names)) > 1:
            yield f"{where}: {' and '.join(sorted(against & set(names)))} exclude each other."


def _paths(paths: Sequence[str]) -> Iterable[str]:
    for path in sorted({path for path in paths if paths.count(path) > 1}):
        yield f"shared_storage_mounts: {path} stands twice; two mounts on one path hide each other."
    for path in paths:
        for other in paths:
            if path.startswith(f"{other}/"):
                yield (
                    f"shared_storage_mounts: {path} lies below {other}, which hides it when it is"
                    " mounted later; give them paths side by side."
                )


def _connections(mounts: Sequence[Mapping[str, Any]]) -> Iterable[str]:
    """The first mount of a server decides how many connections all of its mounts share (Azure
    NetApp Files' page on mount options; client.c of the kernel's NFS)."""
    first: dict[str, tuple[str, str]] = {}
    for mount in mounts:
        if mount["type"] != "nfs":
            continue
        wanted = _values(mount["options"]).get("nconnect", "1")
        path, other = first.setdefault(mount["server"], (mount["path"], wanted))
        if other != wanted:
            yield (
                f"shared_storage_mounts: {path} asks {mount['server']} for {other} connections"
                f" (nconnect) and {mount['path']} for {wanted}; all mounts of a server have those"
                " of the first: give both the same."
            )


def _kernel(mounts: Sequence[Mapping[str, Any]], node: Mapping[str, Any]) -> Iterable[str]:
    found = re.match(r"(\d+)\.(\d+)", str(node.get("kernel") or ""))
    if not found or (int(found[1]), int(found[2])) >= _NCONNECT_SINCE:
        return
    for mount in mounts:
        if mount["type"] == "nfs" and _values(mount["options"]).get("nconnect", "1") != "1":
            yield (
                f"{mount['path']}: nconnect needs a kernel of 5.3 or newer, and this is"
                f" {node['kernel']}: set options to [nconnect=1] or take a newer system."
            )


def _lustre(
    mounts: Sequence[Mapping[str, Any]], node: Mapping[str, Any], lustre: Mapping[str, Any]
) -> Iterable[str]:
    paths = [mount["path"] for mount in mounts if mount["type"] == "lustre"]
    if not paths or lustre.get("installs") is False:
        return
    release, packages = lustre["release"], lustre["packages"]
    where = ", ".join(paths)
    if release not in packages:
        yield (
            f"{where}: Microsoft has no Managed Lustre client for {release} (it has them for"
            f" {', '.join(sorted(packages))}): take one of these systems, or install a client and"
            " set shared_storage_lustre_client to present."
        )
    elif node.get("architecture") not in (None, "x86_64"):
        machine = node["architecture"]
        yield f"{where}: the pinned Lustre client is for x86_64, and this is {machine}."


def _values(options: Iterable[str]) -> dict[str, str]:
    return {name: value for name, _, value in (option.partition("=") for option in options)}


def storage_obstacles(
    mounts: Sequence[Mapping[str, Any]], facts: Mapping[str, Mapping[str, Any]]
) -> list[str]:
    """What is in the way of the mounts, by what the node shows before anything is changed."""
    problems = []
    for mount in mounts:
        found = facts.get(mount["path"], {})
        there = found.get("mount")
        if mount["state"] == "absent":
            continue
        if (
            there
            and there["source"].rstrip("/") != mount["source"].rstrip("/")
            and not found["ours"]
        ):
            problems.append(
                f"{mount['path']}: {there['source']} ({there['kind']}) is mounted there already by"
                " something else: unmount it and take it from /etc/fstab, or give another path."
            )
        elif not there and found.get("kind") == "silent":
            problems.append(
                f"{mount['path']} does not say what it is: see whether it leads through a mount"
                " whose server is gone."
            )
        elif not there and found.get("kind") == "other":
            problems.append(f"{mount['path']} is there and no folder: remove it, or give another.")
        elif not there and found.get("empty") is False:
            problems.append(
                f"{mount['path']} holds files, which a mount would hide: move them away, or give"
                " another path."
            )
    return problems


def storage_stops(
    mounts: Sequence[Mapping[str, Any]], facts: Mapping[str, Mapping[str, Any]]
) -> list[str]:
    """Units of ours that are not wanted any more, automounts before their mounts."""
    stops = []
    for mount in mounts:
        found = facts.get(mount["path"], {})
        unwanted = mount["state"] == "absent"
        if found.get("automount") and (unwanted or not mount["automount"]):
            stops.append(mount["automount_unit"])
        if found.get("ours") and unwanted:
            stops.append(mount["unit"])
    return stops


def storage_starts(
    mounts: Sequence[Mapping[str, Any]], changed: Sequence[str]
) -> list[dict[str, Any]]:
    """The units to start, with the state and ``enabled`` of each; ``changed`` are units written."""
    starts: list[dict[str, Any]] = []
    for mount in mounts:
        if mount["state"] == "absent":
            continue
        if mount["automount"]:
            # What is mounted with other options goes; the automount mounts it anew.
            if mount["unit"] in changed:
                starts.append({"unit": mount["unit"], "state": "stopped", "enabled": False})
            starts.append({"unit": mount["automount_unit"], "state": "started", "enabled": True})
        else:
            state = "restarted" if mount["unit"] in changed else "started"
            starts.append({"unit": mount["unit"], "state": state, "enabled": True})
    return starts


def storage_differences(
    mounts: Sequence[Mapping[str, Any]], facts: Mapping[str, Mapping[str, Any]]
) -> dict[str, list[str]]:
    """What is not as asked once the mounts were made, and what was negotiated otherwise."""
    problems: list[str] = []
    notes: list[str] = []
    for mount in mounts:
        found = facts.get(mount["path"], {})
        there = found.get("mount")
        if mount["state"] == "absent":
            if there:
                why = (
                    f"a program uses it (`fuser --mount {mount['path']}`); end that and run again."
                    if found.get("ours")
                    else "by something else than this role: unmount it and take it from /etc/fstab."
                )
                problems.append(f"{mount['path']} is still mounted from {there['source']}: {why}")
            continue
        why = f"`systemctl status '{mount['unit']}'` says why"
        if not there or there["kind"] == "autofs":
            problems.append(
                f"{mount['path']} is not mounted: the server {mount['server']} did not give"
                f" {mount['source']} in time; {why}."
            )
        elif there["source"].rstrip("/") != mount["source"].rstrip("/"):
            problems.append(f"{mount['path']} is mounted from {there['source']}; {why}.")
        elif not found.get("answers"):
            problems.append(
                f"{mount['path']}: the server {mount['server']} does not answer any more, or with"
                f" an error (`stat --file-system {mount['path']}` says it); programs that use it"
                " wait or fail."
            )
        else:
            wrong, said = _in_force(mount, there["options"])
            problems += wrong
            notes += said
    return {"problems": problems, "notes": notes}


# What only the mounting program or systemd reads, and what the kernel's table does not say: what it
# does anyway (nfs_show_mount_options of fs/nfs/super.c), and what stands in vers, proto or addr.
_NOT_KEPT = _words(
    "_netdev nofail bg fg retry rw atime tcp udp rdma ac cto acl lock async dev suid exec diratime"
    " intr minorversion mounthost sharecache resvport rdirplus nofsc nomigration"
    " sharetransport trunkdiscovery noflock nouser_xattr nolazystatfs nouser_fid2path verbose"
    " noverbose skpath"
)
# The kernel leaves these out where they are its defaults; one connection is not shown either.
_NOT_SHOWN = {
    "nconnect": "1",
    "max_connect": "1",
    "acregmin": "3",
    "acregmax": "60",
    "acdirmin": "30",
    "acdirmax": "60",
    "lookupcache": "all",
    "port": "2049",
}
_WRITTEN = {("lookupcache", "positive"): "pos"}


def _in_force(mount: Mapping[str, Any], options: Sequence[str]) -> tuple[list[str], list[str]]:
    """The options asked for, beside those of the kernel's table: what is wrong, and what client and
    server agreed on."""
    shown = _values(options)
    wrong, notes = [], []
    for option in mount["options"]:
        name, _, value = option.partition("=")
        got = None if name in _NOT_KEPT else _other(name, value, shown)
        if got is None:
            continue
        if name in ("rsize", "wsize"):
            server = mount["server"]
            notes.append(f"{mount['path']}: asked for {option}, {got} was agreed on with {server}.")
        else:
            wrong.append(
                f"{mount['path']}: asked for {option}, in force is {got}; unmount what else is"
                f" mounted from {mount['server']}, and restart the unit '{mount['unit']}'."
            )
    return wrong, notes


_TIMES = ("acregmin", "acregmax", "acdirmin", "acdirmax")


def _other(name: str, value: str, shown: Mapping[str, str]) -> str | None:
    """What is in force in the place of an option, or None where it is in force itself."""
    known = {**_NOT_SHOWN, **shown}
    if name in ("vers", "nfsvers"):
        got = shown.get("vers", "unknown")
        return None if got == value or got.startswith(f"{value}.") else f"vers={got}"
    if name == "actimeo":
        got = ",".join(f"{time}={known[time]}" for time in _TIMES)
        return None if {known[time] for time in _TIMES} == {value} else got
    if name not in known:
        return f"no {name}"
    wanted = _WRITTEN.get((name, value), value)
    return None if known[name] == wanted else f"{name}={known[name]}"


_EXPORT_KEYS = {"path", "clients", "read_only", "root_squash", "owner", "group", "mode"}


def export_problems(exports: Any) -> list[str]:
    """What cannot be exported, a sentence each."""
    if not isinstance(exports, list) or not all(isinstance(entry, Mapping) for entry in exports):
        return ["nfs_server_exports is not a list of exports: give path and clients of each."]
    problems = [text for number, entry in enumerate(exports) for text in _export(number, entry)]
    paths = [str(entry.get("path", "")).rstrip("/") for entry in exports]
    problems += [
        f"nfs_server_exports: {path} stands twice; give all its clients in one entry."
        for path in sorted({path for path in paths if paths.count(path) > 1})
    ]
    return problems


def _export(number: int, entry: _Entry) -> Iterable[str]:
    path = str(entry.get("path", ""))
    where = f"nfs_server_exports[{number}]" + (f" ({path})" if path else "")
    for key in sorted(set(entry) - _EXPORT_KEYS):
        yield f"{where}: there is no key {key}; an export has {', '.join(sorted(_EXPORT_KEYS))}."
    if not _PATH.fullmatch(path.rstrip("/")) or {".", ".."} & set(path.split("/")):
        yield (
            f"{where}: path is {path!r}: give an absolute path of letters, digits and ._@:+-, not"
            " the root."
        )
    clients = entry.get("clients")
    if not isinstance(clients, list) or not clients:
        yield f"{where}: clients is {clients!r}: give a list of networks, as 10.1.0.0/16."
        return
    for client in map(str, clients):
        try:
            network = ipaddress.ip_network(client)
        except ValueError as error:
            yield f"{where}: client {client!r} is no network ({error}): give it as 10.1.0.0/16."
            continue
        if network.prefixlen == 0:
            yield f"{where}: {client} is every machine there is: give the cluster's network."
    if not re.fullmatch(r"[0-7]{3,4}", str(entry.get("mode", "1777"))):
        yield f"{where}: mode is {entry['mode']!r}: give three or four octal digits in quotes."


def export_lines(exports: Sequence[_Entry]) -> list[str]:
    """The lines of exports(5), one an export."""
    lines = []
    for entry in exports:
        options = ",".join(_export_options(entry))
        clients = " ".join(f"{_client(client)}({options})" for client in entry["clients"])
        lines.append(f"{entry['path'].rstrip('/')} {clients}")
    return lines


def _client(client: Any) -> str:
    return str(ipaddress.ip_network(str(client)))


def _export_options(entry: _Entry) -> list[str]:
    return [
        "ro" if _is_true(entry.get("read_only", False)) else "rw",
        "sync",
        "no_subtree_check",
        "root_squash" if _is_true(entry.get("root_squash", True)) else "no_root_squash",
    ]


def _is_true(value: Any) -> bool:
    return str(value).lower() in ("true", "yes", "1", "on")


def export_differences(exports: Sequence[_Entry], shown: str) -> list[str]:
    """What ``exportfs -s`` does not show as it was asked for."""
    found: dict[tuple[str, str], set[str]] = {}
    for line in shown.splitlines():
        path, _, rest = line.partition(" ")
        for client, options in re.findall(r"(\S+?)\(([^)]*)\)", rest):
            found[path, client] = set(options.split(","))
    problems = []
    for entry in exports:
        path = entry["path"].rstrip("/")
        for client in map(_client, entry["clients"]):
            # A network of one address is shown as the address.
            short = client.removesuffix("/32").removesuffix("/128")
            got = found.get((path, client), found.get((path, short)))
            if got is None:
                problems.append(f"{path} is not exported to {client}: see `exportfs -ra`.")
            elif lacking := [name for name in _export_options(entry) if name not in got]:
                problems.append(
                    f"{path} is exported to {client} without {', '.join(lacking)}: another file of"
                    " /etc/exports.d or /etc/exports names it too."
                )
    return problems


def _said(function: Callable[..., Any]) -> Callable[..., Any]:
    """A sentence instead of a traceback where a template is evaluated before preflight."""

    def call(*arguments: Any) -> Any:
        try:
            return function(*arguments)
        except (BadInput, KeyError, TypeError, ValueError) as error:
            message = f"{function.__name__}: {error}"
            raise AnsibleFilterError(message) from error

    return call


class FilterModule:
    """Ansible's entry."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Name to function."""
        functions = (
            storage_mounts,
            storage_problems,
            storage_obstacles,
            storage_stops,
            storage_starts,
            storage_differences,
            export_problems,
            export_lines,
            export_differences,
        )
        return {function.__name__: _said(function) for function in functions}
