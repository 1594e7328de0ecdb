"""Options of network mounts: their selection, problems of the user's options, and the options in
force."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# By kind, the file system's type.
TYPES = {"nfs": "nfs", "anf": "nfs", "amlfs": "lustre"}
# Why each stands in roles/shared_storage/defaults/main.yml.
_OF_KIND: dict[str, tuple[str, ...]] = {
    "nfs": ("vers=4.2", "hard", "noatime"),
    "anf": (*("vers=3", "tcp", "hard", "rsize=262144", "wsize=262144", "noatime", "nconnect=8"),),
    "amlfs": ("noatime", "flock"),
}
_OF_PROFILE: dict[str, tuple[str, ...]] = {"default": (), "eda": ("nocto", "actimeo=600")}
# Of every network mount: no boot waits for it, and it comes after the network.
_ALWAYS = ("_netdev", "nofail")
# nfs(5), mount(8); sloppy is left out: it would hide a misspelt option.
_GENERIC = _words(
    "ro rw atime noatime relatime strictatime diratime nodiratime nodev nosuid noexec dev suid exec"
    " sync async _netdev nofail"
)
# By type, the page that has them and their names.
_KNOWN = {
    "nfs": (
        "nfs(5)",
        _GENERIC
        | _words(
            "vers nfsvers minorversion hard soft softerr intr timeo retrans rsize wsize ac noac"
            " acregmin acregmax acdirmin acdirmax actimeo bg fg nconnect max_connect rdirplus"
            " nordirplus retry sec sharecache nosharecache resvport noresvport lookupcache fsc"
            " nofsc sharetransport proto tcp udp rdma port mountport mountproto mounthost mountvers"
            " namlen lock nolock cto nocto acl noacl local_lock clientaddr migration nomigration"
            " trunkdiscovery notrunkdiscovery write xprtsec"
        ),
    ),
    "lustre": (
        "mount.lustre(8)",
        _GENERIC
        | _words(
            "flock localflock noflock user_xattr nouser_xattr acl noacl lazystatfs nolazystatfs"
            " 32bitapi verbose noverbose retry skpath user_fid2path nouser_fid2path always_ping"
            " unique_fsid"
        ),
    ),
}
# Of these, one stands against the others: given by the user, it takes the place of the role's.
_AGAINST = (
    {"hard", "soft", "softerr"},
    {"atime", "noatime", "relatime", "strictatime"},
    {"cto", "nocto"},
    {"vers", "nfsvers"},
    {"tcp", "udp", "rdma", "proto"},
    {"flock", "localflock", "noflock"},
)
# Client and server agree on these, whatever was asked for.
AGREED = ("rsize", "wsize")
# Options that the kernel's table does not show: only the mounting program or systemd reads them,
# they are defaults (nfs_show_mount_options of fs/nfs/super.c), or vers, proto or addr hold them.
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
_TIMES = ("acregmin", "acregmax", "acdirmin", "acdirmax")
_WRITTEN = {"lookupcache=positive": "pos"}


def chosen(kind: str, profile: str, user_options: Sequence[str]) -> list[str]:
    """The kind's options, those of the profile, and the user's in the place of either."""
    user_names = set(values_of(user_options))
    replaced = user_names | {name for group in _AGAINST if group & user_names for name in group}
    if "actimeo" in user_names:
        replaced |= {"ac", "noac"}
    base = (*_OF_KIND[kind], *_OF_PROFILE[profile], *_ALWAYS)
    return (
        [option for option in base if _name(option) not in replaced]
        + [option for option in user_options if _name(option) not in _ALWAYS]
        + [option for option in _ALWAYS if option in user_names]
    )


def values_of(options: Iterable[str]) -> dict[str, str]:
    """Option to value; empty for one that has none."""
    return {name: value for name, _, value in (option.partition("=") for option in options)}


def _name(option: str) -> str:
    return option.partition("=")[0]


def wrong(kind: str, user_options: Sequence[str]) -> Iterator[str]:
    """Problems of the user's options, each with its fix."""
    page, option_names = _KNOWN[TYPES[kind]]
    for option in user_options:
        if not re.fullmatch(r"[A-Za-z0-9_]+(=[A-Za-z0-9_.:-]+)?", option):
            yield f"{option!r} is no mount option: give one an element, as nconnect=4."
        elif _name(option) not in option_names:
            yield f"{page} knows no mount option {_name(option)}."
        elif _name(option) == "nconnect" and not re.fullmatch(r"nconnect=([1-9]|1[0-6])", option):
            yield f"{option}: nconnect is 1 to 16 connections (nfs(5))."
    names = list(map(_name, user_options))
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield f"the option {name} stands twice."
    for against in _AGAINST:
        if len(against & set(names)) > 1:
            yield f"{' and '.join(sorted(against & set(names)))} exclude each other."


def value_in_use(option: str, current: Mapping[str, str]) -> str | None:
    """The setting in force instead of an option, by the kernel's table; None if the option itself
    is in force."""
    name, _, value = option.partition("=")
    effective = {**_NOT_SHOWN, **current}
    if name in _NOT_KEPT:
        return None
    if name in ("vers", "nfsvers"):
        got = current.get("vers", "unknown")
        return None if got == value or got.startswith(f"{value}.") else f"vers={got}"
    if name == "actimeo":
        got = ",".join(f"{time}={effective[time]}" for time in _TIMES)
        return None if {effective[time] for time in _TIMES} == {value} else got
    if name not in effective:
        return f"no {name}"
    return None if effective[name] == _WRITTEN.get(option, value) else f"{name}={effective[name]}"
