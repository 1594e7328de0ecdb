"""The role shared_storage, planned: mounts of NFS, Azure NetApp Files and Azure Managed Lustre by
units of systemd, what is in their way, and what is not as it was asked for."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, Sequence, Tuple

from ..node.mounts import unit_name
from ..node.system import release
from ..plan import Asked, Plan, Skipped
from . import mount_options

# Letters that neither a unit file nor the table of mounts writes otherwise; no . and .. as a part.
PATH = re.compile(r"(/(?!\.\.?(/|$))[A-Za-z0-9._@:+-]+)+")
_HOST = r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])"
_SOURCES = {
    "nfs": (re.compile(rf"({_HOST}):/[A-Za-z0-9._@:+/-]*"), "host:/export"),
    "lustre": (re.compile(rf"({_HOST})@tcp[0-9]*:/[A-Za-z0-9._/-]+"), "host@tcp:/lustrefs"),
}
_NCONNECT_SINCE = (5, 3)
_MOUNT = """\
# Written by trueup (role shared_storage).
[Unit]
Description=Shared storage {source}
Documentation=man:{page}
Wants=network-online.target
# A node that mounts what it exports itself unmounts it before its server ends: it would wait for it otherwise.
After=network-online.target nfs-server.service

# nofail among the options also keeps it out of what remote-fs.target, and with it every login, waits for
# (systemd.mount(5)).
[Mount]
What={source}
Where={path}
Type={type}
Options={options}
TimeoutSec={seconds}
"""  # noqa: E501 WHY: a line of the file
_AUTOMOUNT = """\
# Written by trueup (role shared_storage).
[Unit]
Description=Shared storage {source}, mounted when it is first used

[Automount]
Where={path}
"""
_AT_BOOT = "\n[Install]\nWantedBy=multi-user.target\n"


@dataclass(frozen=True)
class _Mount:
    """A path of the list, what is ``there``, and what is asked of it: its ``units`` and their
    texts. One that is to be ``absent`` has none."""

    path: str
    there: Mapping[str, Any]
    absent: bool = True
    automount: bool = False
    type: str = ""
    source: str = ""
    server: str = ""
    options: Sequence[str] = ()
    units: Mapping[str, str] = field(default_factory=dict)

    @property
    def unit(self) -> str:
        return unit_name(self.path)

    @property
    def automount_unit(self) -> str:
        return unit_name(self.path, "automount")

    @property
    def connections(self) -> str:
        """The number that is asked of the server of an NFS mount."""
        return mount_options.values_of(self.options).get("nconnect", "1")

    @property
    def elsewhere(self) -> bool:
        """Whether something else than the source is mounted."""
        found = self.there.get("mount")
        return bool(found and found["source"].rstrip("/") != self.source.rstrip("/"))


def asks(asked: Asked) -> Dict[str, Any]:
    """What the node is asked for: what is at the paths, and its NFS client."""
    if _refused(asked) or _why_not(asked):
        return {}
    mounts = _mounts(asked)
    wanted: Dict[str, Any] = {
        "storage_facts": {
            "paths": [mount.path for mount in mounts],
            "answer_seconds": asked.options["answer_seconds"],
        }
    }
    if not asked.found.get("made") and any(mount.type == "nfs" for mount in mounts):
        wanted["program_facts"] = {"programs": ["mount.nfs"]}
    return wanted


def plan(asked: Asked) -> Plan:
    """The mounts of a node; skipped in a container and where none is asked for.

    ``asked.found`` is what program_facts says, and ``trueup_storage``. What is in the way of a
    mount is refused. Values: ``packages`` of the NFS client where it is missing; ``repository`` and
    ``pins`` of the Lustre client as vendor_packages takes them; ``stops``, units that are not
    wanted any more, automounts before their mounts; ``files`` as config_files takes them; and
    ``starts``, units with their state as in_force takes it.

    With ``made`` in it the mounts were made: what is not as it was asked for is refused, and the
    value is ``notes``, what client and server agreed on.
    """
    refused, why_not = _refused(asked), _why_not(asked)
    if refused:
        return Plan(refused=refused)
    if why_not:
        return Plan(skipped=[Skipped("shared_storage", why_not)])
    mounts = _mounts(asked)
    if asked.found.get("made"):
        return Plan(values={"notes": _each(_agreed, mounts)}, refused=_each(_differences, mounts))
    return Plan(
        values={
            **_clients(asked, {mount.type for mount in mounts}),
            "stops": _each(_stops, mounts),
            "files": _each(_files, mounts),
            "starts": _each(_starts, mounts),
        },
        refused=_each(_obstacles, mounts),
    )


def _each(of: Callable[[_Mount], Iterable[Any]], mounts: Sequence[_Mount]) -> List[Any]:
    return [one for mount in mounts for one in of(mount)]


def _why_not(asked: Asked) -> str:
    if not asked.options["mounts"]:
        return "shared_storage_mounts is empty"
    if asked.node["container"]:
        return "a container: it has the mounts that its host gives it"
    return ""


def _mounts(asked: Asked) -> List[_Mount]:
    return [_mount(entry, asked) for entry in asked.options["mounts"]]


def _mount(entry: Mapping[str, Any], asked: Asked) -> _Mount:
    path = entry["path"].rstrip("/")
    there = asked.found.get("trueup_storage", {}).get(path, {})
    if entry["state"] == "absent":
        return _Mount(path, there)
    kind, source = entry["kind"], entry["source"]
    found = _SOURCES[mount_options.TYPES[kind]][0].fullmatch(source)
    mount = _Mount(
        path,
        there,
        absent=False,
        automount=entry["automount"],
        type=mount_options.TYPES[kind],
        source=source,
        server=found[1] if found else "",
        options=mount_options.chosen(kind, entry["profile"], entry["options"]),
    )
    return replace(mount, units=_units(mount, asked.options["mount_timeout_seconds"]))


def _clients(asked: Asked, types: Any) -> Dict[str, Any]:
    """What is installed for mounts of these types."""
    node, options = asked.node, asked.options
    has_nfs = asked.found.get("programs", {}).get("mount.nfs")
    clients: Dict[str, Any] = {
        "packages": asked.data["nfs_packages"][node["package_manager"]]
        if "nfs" in types and not has_nfs
        else [],
        "repository": {},
        "pins": [],
    }
    if "lustre" in types and _installs_lustre(asked):
        row = options["lustre_packages"][release(node)]
        clients["repository"] = {
            "name": "amlfs",
            "url": row["url"],
            "key_url": options["lustre_key_url"],
            "key_fingerprint": options["lustre_key_fingerprint"],
            **({"suite": row["suite"], "components": "main"} if "suite" in row else {}),
        }
        clients["pins"] = [{"name": row["package"], "version": _lustre_version(node)}]
    return clients


def _installs_lustre(asked: Asked) -> bool:
    """Whether the role brings the client. That of an Azure HPC image is built by dkms under other
    package names, with which the metapackages of a kernel clash."""
    choice = asked.options["lustre_client"]
    listed = bool((asked.node.get("hpc_image") or {}).get("LUSTRE"))
    return choice == "install" or (choice == "from_image" and not listed)


def _lustre_version(node: Mapping[str, Any]) -> str:
    """The metapackage's version is the kernel that it is for; rpm allows no - and _ in one."""
    kernel = str(node["kernel"])
    if node["package_manager"] == "apt":
        return kernel
    return re.sub("[-_]", ".", kernel.removesuffix(f".{node['architecture']}")) + "-1"


def _units(mount: _Mount, seconds: int) -> Dict[str, str]:
    text = _MOUNT.format(
        source=mount.source,
        page="nfs(5)" if mount.type == "nfs" else "mount.lustre(8)",
        path=mount.path,
        type=mount.type,
        options=",".join(mount.options),
        seconds=seconds,
    )
    if not mount.automount:
        return {mount.unit: text + _AT_BOOT}
    automount = _AUTOMOUNT.format(source=mount.source, path=mount.path)
    return {mount.unit: text, mount.automount_unit: automount + _AT_BOOT}


def _files(mount: _Mount) -> Iterator[Dict[str, str]]:
    for unit, content in mount.units.items():
        yield {"path": f"/etc/systemd/system/{unit}", "content": content}


def _stops(mount: _Mount) -> Iterator[str]:
    units = mount.there.get("units", {})
    if mount.automount_unit in units and not mount.automount:
        yield mount.automount_unit
    if mount.unit in units and mount.absent:
        yield mount.unit


def _starts(mount: _Mount) -> Iterator[Dict[str, Any]]:
    if mount.automount:
        yield {"unit": mount.unit, "state": "as_found", "enabled": False}
        yield {"unit": mount.automount_unit, "state": "started", "enabled": True}
    elif not mount.absent:
        yield {"unit": mount.unit, "state": "started", "enabled": True}


def _obstacles(mount: _Mount) -> Iterator[str]:
    """What is in the way, by what the node shows before anything is changed."""
    path, there = mount.path, mount.there
    found = there.get("mount")
    if mount.absent:
        return
    if found:
        if mount.elsewhere and mount.unit not in there["units"]:
            yield (
                f"{path}: {found['source']} ({found['kind']}) is mounted there already by"
                " something else: unmount it and take it from /etc/fstab, or give another path."
            )
    elif there.get("kind") == "silent":
        yield (
            f"{path} does not say what it is: see whether it leads through a mount whose server is"
            " gone."
        )
    elif there.get("kind") == "other":
        yield f"{path} is there and no folder: remove it, or give another."
    elif there.get("empty") is False:
        yield f"{path} holds files, which a mount would hide: move them away, or give another path."


def _differences(mount: _Mount) -> Iterator[str]:
    """What is not as it was asked for once the mounts were made."""
    path, there = mount.path, mount.there
    found = there.get("mount")
    why = f"`systemctl status '{mount.unit}'` says why"
    if mount.absent:
        if found:
            yield f"{path} is still mounted from {found['source']}: " + (
                f"a program uses it (`fuser --mount {path}`); end that and run again."
                if mount.unit in there["units"]
                else "by something else than this role: unmount it and take it from /etc/fstab."
            )
    elif not found or found["kind"] == "autofs":
        yield (
            f"{path} is not mounted: the server {mount.server} did not give {mount.source} in time;"
            f" {why}."
        )
    elif mount.elsewhere:
        yield f"{path} is mounted from {found['source']}; {why}."
    elif not there["answers"]:
        yield (
            f"{path}: the server {mount.server} does not answer any more, or with an error"
            f" (`stat --file-system {path}` says it); programs that use it wait or fail."
        )
    else:
        for option, got in _in_force(mount):
            if not option.startswith(mount_options.AGREED):
                yield (
                    f"{path}: asked for {option}, in force is {got}; unmount what else is mounted"
                    f" from {mount.server}, and restart the unit '{mount.unit}'."
                )


def _agreed(mount: _Mount) -> Iterator[str]:
    """What client and server of a mount that is as it was asked for agreed on otherwise."""
    if mount.there.get("answers") and not mount.absent and not mount.elsewhere:
        for option, got in _in_force(mount):
            if option.startswith(mount_options.AGREED):
                yield f"{mount.path}: asked for {option}, {got} was agreed on with {mount.server}."


def _in_force(mount: _Mount) -> Iterator[Tuple[str, str]]:
    """Options that are not in force, and what is in their place."""
    shown = mount_options.values_of(mount.there["mount"]["options"])
    for option in mount.options:
        got = mount_options.in_force(option, shown)
        if got is not None:
            yield option, got


def _refused(asked: Asked) -> List[str]:
    """What cannot be mounted, a sentence each."""
    options = asked.options
    if min(options["mount_timeout_seconds"], options["answer_seconds"]) < 1:
        both = "shared_storage_mount_timeout_seconds and shared_storage_answer_seconds"
        return [f"{both} must be at least 1."]
    wrong = [
        f"shared_storage_mounts[{number}] ({entry['path']}): {text}"
        for number, entry in enumerate(options["mounts"])
        for text in _wrong(entry)
    ]
    if wrong:
        return wrong
    mounts = _mounts(asked)
    nfs = [mount for mount in mounts if mount.type == "nfs"]
    lustre = ", ".join(mount.path for mount in mounts if mount.type == "lustre")
    return [
        *_paths([mount.path for mount in mounts]),
        *_connections(nfs),
        *_kernel(nfs, asked.node),
        *(_lustre(lustre, asked) if lustre and _installs_lustre(asked) else []),
    ]


def _wrong(entry: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with an entry, beyond what argument_specs can say."""
    path, kind = entry["path"], entry["kind"]
    if not PATH.fullmatch(path.rstrip("/")):
        yield (
            f"path is {path!r}: give an absolute path of letters, digits and ._@:+-, without . and"
            " .. as a part."
        )
    if entry["state"] == "absent":
        return
    if kind is None:
        yield f"it has no kind: give {', '.join(mount_options.TYPES)}."
        return
    pattern, example = _SOURCES[mount_options.TYPES[kind]]
    if not pattern.fullmatch(entry["source"] or ""):
        yield f"source is {entry['source']!r}: give {example}."
    if entry["profile"] == "eda" and kind == "amlfs":
        yield "profile is 'eda', which is for nfs and anf."
    yield from mount_options.wrong(kind, entry["options"])


def _paths(paths: Sequence[str]) -> Iterator[str]:
    for path in sorted({path for path in paths if paths.count(path) > 1}):
        yield f"shared_storage_mounts: {path} stands twice; two mounts on one path hide each other."
    for path in paths:
        for other in paths:
            if path.startswith(f"{other}/"):
                yield (
                    f"shared_storage_mounts: {path} lies below {other}, which hides it when it is"
                    " mounted later; give them paths side by side."
                )


def _connections(mounts: Sequence[_Mount]) -> Iterator[str]:
    """The first mount of a server decides how many connections all of its mounts share (Azure
    NetApp Files' page on mount options; client.c of the kernel's NFS)."""
    first: Dict[str, _Mount] = {}
    for mount in mounts:
        other = first.setdefault(mount.server, mount)
        if other.connections != mount.connections:
            yield (
                f"shared_storage_mounts: {other.path} asks {mount.server} for {other.connections}"
                f" connections (nconnect) and {mount.path} for {mount.connections}; all mounts of a"
                " server have those of the first: give both the same."
            )


def _kernel(mounts: Sequence[_Mount], node: Mapping[str, Any]) -> Iterator[str]:
    found = re.match(r"(\d+)\.(\d+)", str(node.get("kernel") or ""))
    if not found or (int(found[1]), int(found[2])) >= _NCONNECT_SINCE:
        return
    for mount in mounts:
        if mount.connections != "1":
            yield (
                f"{mount.path}: nconnect needs a kernel of 5.3 or newer, and this is"
                f" {node['kernel']}: set options to [nconnect=1] or take a newer system."
            )


def _lustre(paths: str, asked: Asked) -> Iterator[str]:
    """What the Lustre client cannot be installed with."""
    here, packages = release(asked.node), asked.options["lustre_packages"]
    machine = asked.node.get("architecture")
    if here not in packages:
        yield (
            f"{paths}: Microsoft has no Managed Lustre client for {here} (it has them for"
            f" {', '.join(sorted(packages))}): take one of these systems, or install a client and"
            " set shared_storage_lustre_client to present."
        )
    elif machine not in (None, "x86_64"):
        yield f"{paths}: the pinned Lustre client is for x86_64, and this is {machine}."
