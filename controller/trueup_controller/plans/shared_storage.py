"""The plan of the role shared_storage: mounts of NFS, Azure NetApp Files and Azure Managed Lustre
by units of systemd, their obstacles, and their differences from the options."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Callable

from trueup_node.node.mounts import unit_name
from trueup_node.plan import Plan, PlanInputs, Skipped

from ..system import release
from . import mount_options

# The role's preflight has tasks or keywords beside its plan.
OWN_PREFLIGHT = True

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
    """A path of the list, its present state (``there``), and its ``units`` with their texts. A path
    that is to be ``absent`` has no units."""

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
        current = self.there.get("mount")
        return bool(current and current["source"].rstrip("/") != self.source.rstrip("/"))


def asks(inputs: PlanInputs) -> dict[str, Any]:
    """Queries for the node: the state of the paths, and its NFS client."""
    if _refused(inputs) or _why_not(inputs):
        return {}
    mounts = _mounts(inputs)
    module_calls: dict[str, Any] = {
        "storage_facts": {
            "paths": [mount.path for mount in mounts],
            "answer_seconds": inputs.options["answer_seconds"],
        }
    }
    if not inputs.found.get("made") and any(mount.type == "nfs" for mount in mounts):
        module_calls["program_facts"] = {"programs": ["mount.nfs"]}
    return module_calls


def plan(inputs: PlanInputs) -> Plan:
    """The mounts of a node; skipped in a container and where none is asked for.

    ``inputs.found`` is the result of program_facts, and ``trueup_storage``. An obstacle to a
    mount is refused. Values: ``packages`` of the NFS client where it is missing; ``repository`` and
    ``pins`` of the Lustre client as vendor_packages takes them; ``stops``, units that are not
    wanted any more, automounts before their mounts; ``files`` as config_files takes them; and
    ``starts``, units with their state as service_current takes it.

    With ``made`` in it the mounts were made: a difference from the options is refused, and the
    value is ``notes``, the settings that client and server agreed on.
    """
    refused, why_not = _refused(inputs), _why_not(inputs)
    if refused:
        return Plan(refused=refused)
    if why_not:
        return Plan(skipped=[Skipped("shared_storage", why_not)])
    mounts = _mounts(inputs)
    if inputs.found.get("made"):
        return Plan(values={"notes": _each(_agreed, mounts)}, refused=_each(_differences, mounts))
    return Plan(
        values={
            **_clients(inputs, {mount.type for mount in mounts}),
            "stops": _each(_stops, mounts),
            "files": _each(_files, mounts),
            "starts": _each(_starts, mounts),
        },
        refused=_each(_obstacles, mounts),
    )


def _each(of: Callable[[_Mount], Iterable[Any]], mounts: Sequence[_Mount]) -> list[Any]:
    return [row for mount in mounts for row in of(mount)]


def _why_not(inputs: PlanInputs) -> str:
    if not inputs.options["mounts"]:
        return "shared_storage_mounts is empty"
    if inputs.node["container"]:
        return "a container: it has the mounts that its host gives it"
    return ""


def _mounts(inputs: PlanInputs) -> list[_Mount]:
    return [_mount(entry, inputs) for entry in inputs.options["mounts"]]


def _mount(entry: Mapping[str, Any], inputs: PlanInputs) -> _Mount:
    path = entry["path"].rstrip("/")
    path_facts = inputs.found.get("trueup_storage", {}).get(path, {})
    if entry["state"] == "absent":
        return _Mount(path, path_facts)
    kind, source = entry["kind"], entry["source"]
    match = _SOURCES[mount_options.TYPES[kind]][0].fullmatch(source)
    mount = _Mount(
        path,
        path_facts,
        absent=False,
        automount=entry["automount"],
        type=mount_options.TYPES[kind],
        source=source,
        server=match[1] if match else "",
        options=mount_options.chosen(kind, entry["profile"], entry["options"]),
    )
    return replace(mount, units=_units(mount, inputs.options["mount_timeout_seconds"]))


def _clients(inputs: PlanInputs, types: Any) -> dict[str, Any]:
    """The packages for mounts of these types."""
    node, options = inputs.node, inputs.options
    has_nfs = inputs.found.get("programs", {}).get("mount.nfs")
    clients: dict[str, Any] = {
        "packages": inputs.data["nfs_packages"][node["package_manager"]]
        if "nfs" in types and not has_nfs
        else [],
        "repository": {},
        "pins": [],
    }
    if "lustre" in types and _installs_lustre(inputs):
        row = options["lustre_packages"][release(node)]
        clients["repository"] = {
            "name": "amlfs",
            "url": row["url"],
            "key_url": options["lustre_key_url"],
            "key_fingerprint": inputs.data["lustre_key_fingerprint"],
            **({"suite": row["suite"], "components": "main"} if "suite" in row else {}),
        }
        clients["pins"] = [{"name": row["package"], "version": _lustre_version(node)}]
    return clients


def _installs_lustre(inputs: PlanInputs) -> bool:
    """Whether the role brings the client. That of an Azure HPC image is built by dkms under other
    package names, with which the metapackages of a kernel clash."""
    choice = inputs.options["lustre_client"]
    listed = bool((inputs.node.get("hpc_image") or {}).get("LUSTRE"))
    return choice == "install" or (choice == "from_image" and not listed)


def _lustre_version(node: Mapping[str, Any]) -> str:
    """The metapackage's version is the kernel that it is for; rpm allows no - and _ in one."""
    kernel = str(node["kernel"])
    if node["package_manager"] == "apt":
        return kernel
    return re.sub("[-_]", ".", kernel.removesuffix(f".{node['architecture']}")) + "-1"


def _units(mount: _Mount, seconds: int) -> dict[str, str]:
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


def _files(mount: _Mount) -> Iterator[dict[str, str]]:
    for unit, content in mount.units.items():
        yield {"path": f"/etc/systemd/system/{unit}", "content": content}


def _stops(mount: _Mount) -> Iterator[str]:
    units = mount.there.get("units", {})
    if mount.automount_unit in units and not mount.automount:
        yield mount.automount_unit
    if mount.unit in units and mount.absent:
        yield mount.unit


def _starts(mount: _Mount) -> Iterator[dict[str, Any]]:
    if mount.automount:
        yield {"unit": mount.unit, "state": "as_found", "enabled": False}
        yield {"unit": mount.automount_unit, "state": "started", "enabled": True}
    elif not mount.absent:
        yield {"unit": mount.unit, "state": "started", "enabled": True}


def _obstacles(mount: _Mount) -> Iterator[str]:
    """Obstacles, by the node's state before any change."""
    path, path_facts = mount.path, mount.there
    current = path_facts.get("mount")
    if mount.absent:
        return
    if current:
        if mount.elsewhere and mount.unit not in path_facts["units"]:
            yield (
                f"{path}: {current['source']} ({current['kind']}) is mounted there already by"
                " something else: unmount it and take it from /etc/fstab, or give another path."
            )
    elif path_facts.get("kind") == "silent":
        yield (
            f"{path} does not say what it is: see whether it leads through a mount whose server is"
            " gone."
        )
    elif path_facts.get("kind") == "other":
        yield f"{path} is there and no folder: remove it, or give another."
    elif path_facts.get("empty") is False:
        yield f"{path} holds files, which a mount would hide: move them away, or give another path."


def _differences(mount: _Mount) -> Iterator[str]:
    """Differences from the options once the mounts were made."""
    path, path_facts = mount.path, mount.there
    current = path_facts.get("mount")
    hint = f"`systemctl status '{mount.unit}'` says why"
    if mount.absent:
        if current:
            yield f"{path} is still mounted from {current['source']}: " + (
                f"a program uses it (`fuser --mount {path}`); end that and run again."
                if mount.unit in path_facts["units"]
                else "by something else than this role: unmount it and take it from /etc/fstab."
            )
    elif not current or current["kind"] == "autofs":
        yield (
            f"{path} is not mounted: the server {mount.server} did not give {mount.source} in time;"
            f" {hint}."
        )
    elif mount.elsewhere:
        yield f"{path} is mounted from {current['source']}; {hint}."
    elif not path_facts["answers"]:
        yield (
            f"{path}: the server {mount.server} does not answer any more, or with an error"
            f" (`stat --file-system {path}` says it); programs that use it wait or fail."
        )
    else:
        for option, got in _values_in_use(mount):
            if not option.startswith(mount_options.AGREED):
                yield (
                    f"{path}: asked for {option}, in force is {got}; unmount what else is mounted"
                    f" from {mount.server}, and restart the unit '{mount.unit}'."
                )


def _agreed(mount: _Mount) -> Iterator[str]:
    """Options of a correct mount for which client and server agreed on another value."""
    if mount.there.get("answers") and not mount.absent and not mount.elsewhere:
        for option, got in _values_in_use(mount):
            if option.startswith(mount_options.AGREED):
                yield f"{mount.path}: asked for {option}, {got} was agreed on with {mount.server}."


def _values_in_use(mount: _Mount) -> Iterator[tuple[str, str]]:
    """Options that are not in force, each with the setting in force instead."""
    current_options = mount_options.values_of(mount.there["mount"]["options"])
    for option in mount.options:
        got = mount_options.value_in_use(option, current_options)
        if got is not None:
            yield option, got


def _refused(inputs: PlanInputs) -> list[str]:
    """Problems of the mounts, a sentence each."""
    options = inputs.options
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
    mounts = _mounts(inputs)
    nfs = [mount for mount in mounts if mount.type == "nfs"]
    lustre = ", ".join(mount.path for mount in mounts if mount.type == "lustre")
    return [
        *_paths([mount.path for mount in mounts]),
        *_connections(nfs),
        *_kernel(nfs, inputs.node),
        *(_lustre(lustre, inputs) if lustre and _installs_lustre(inputs) else []),
    ]


def _wrong(entry: Mapping[str, Any]) -> Iterator[str]:
    """Problems of an entry that argument_specs cannot express."""
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
    first: dict[str, _Mount] = {}
    for mount in mounts:
        other = first.setdefault(mount.server, mount)
        if other.connections != mount.connections:
            yield (
                f"shared_storage_mounts: {other.path} asks {mount.server} for {other.connections}"
                f" connections (nconnect) and {mount.path} for {mount.connections}; all mounts of a"
                " server have those of the first: give both the same."
            )


def _kernel(mounts: Sequence[_Mount], node: Mapping[str, Any]) -> Iterator[str]:
    match = re.match(r"(\d+)\.(\d+)", str(node.get("kernel") or ""))
    if not match or (int(match[1]), int(match[2])) >= _NCONNECT_SINCE:
        return
    for mount in mounts:
        if mount.connections != "1":
            yield (
                f"{mount.path}: nconnect needs a kernel of 5.3 or newer, and this is"
                f" {node['kernel']}: set options to [nconnect=1] or take a newer system."
            )


def _lustre(paths: str, inputs: PlanInputs) -> Iterator[str]:
    """Reasons why the Lustre client cannot be installed."""
    system, packages = release(inputs.node), inputs.options["lustre_packages"]
    machine = inputs.node.get("architecture")
    if system not in packages:
        yield (
            f"{paths}: Microsoft has no Managed Lustre client for {system} (it has them for"
            f" {', '.join(sorted(packages))}): take one of these systems, or install a client and"
            " set shared_storage_lustre_client to present."
        )
    elif machine not in (None, "x86_64"):
        yield f"{paths}: the pinned Lustre client is for x86_64, and this is {machine}."
