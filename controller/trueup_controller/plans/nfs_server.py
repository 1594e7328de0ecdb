"""The plan of the role nfs_server: exports to named networks, the server's threads, and settings
that are not in force."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from trueup_node.plan import Plan, PlanInputs, Skipped

from .shared_storage import PATH

_WRITTEN = "# Written by trueup (role nfs_server).\n"
_PROGRAMS = ("exportfs", "rpc.nfsd")
# The number of threads, and a line for each export and client.
_SHOW = "cat /proc/fs/nfsd/threads && exportfs -s"


def asks(inputs: PlanInputs) -> dict[str, Any]:
    """Queries for the node: its programs and folders, and in the end its exports."""
    if _refused(inputs.options) or _why_not(inputs):
        return {}
    if inputs.found.get("made"):
        return {"ansible.builtin.command": {"argv": ["sh", "-c", _SHOW]}}
    folders = [entry["path"] for entry in inputs.options["exports"]]
    return {"program_facts": {"programs": _PROGRAMS, "folders": folders}}


def plan(inputs: PlanInputs) -> Plan:
    """The exports of a node; skipped in a container and where there are none.

    ``inputs.found`` is the result of program_facts. Values: ``packages`` of the server if it is
    missing, missing ``folders`` as the module file takes them (an existing one keeps its owner and
    mode: it may be /home), and ``files`` as config_files takes them. With ``made`` in it the
    exports were made: a difference in the server's output (``stdout_lines``) is refused.
    """
    options = inputs.options
    refused, why_not = _refused(options), _why_not(inputs)
    if refused:
        return Plan(refused=refused)
    if why_not:
        return Plan(skipped=[Skipped("nfs_server", why_not)])
    if inputs.found.get("made"):
        return Plan(refused=list(_differences(options, inputs.found["stdout_lines"])))
    programs = inputs.found.get("programs", {})
    folders = inputs.found.get("folders", {})
    missing = not all(programs.get(name) for name in _PROGRAMS)
    exports = "".join(f"{line}\n" for line in map(_line, options["exports"]))
    return Plan(
        values={
            "packages": inputs.data["packages"][inputs.node["package_manager"]] if missing else [],
            # A file in a folder's place is left to the module, which says so.
            "folders": [
                {name: entry[name] for name in ("path", "owner", "group", "mode")}
                for entry in options["exports"]
                if folders.get(entry["path"], {}).get("path") != entry["path"].rstrip("/")
            ],
            "files": [
                {"path": "/etc/exports.d/trueup.exports", "content": _WRITTEN + exports},
                {
                    "path": "/etc/nfs.conf.d/trueup.conf",
                    "content": f"{_WRITTEN}[nfsd]\nthreads={options['threads']}\n",
                },
            ],
        }
    )


def _why_not(inputs: PlanInputs) -> str:
    if not inputs.options["exports"]:
        return "nfs_server_exports is empty"
    if inputs.node["container"]:
        return "a container: the NFS server is its host kernel's"
    return ""


def _refused(options: Mapping[str, Any]) -> list[str]:
    """Problems of the exports, a sentence each."""
    threads, exports = options["threads"], options["exports"]
    paths = [entry["path"].rstrip("/") for entry in exports]
    return [
        *([] if threads >= 1 else [f"nfs_server_threads is {threads}: give at least 1."]),
        *(
            f"nfs_server_exports[{number}] ({entry['path']}): {text}"
            for number, entry in enumerate(exports)
            for text in _wrong(entry)
        ),
        *(
            f"nfs_server_exports: {path} stands twice; give all its clients in one entry."
            for path in sorted({path for path in paths if paths.count(path) > 1})
        ),
    ]


def _wrong(entry: Mapping[str, Any]) -> Iterator[str]:
    """Problems of an export that argument_specs cannot express."""
    path, clients, mode = entry["path"], entry["clients"], entry["mode"]
    if not PATH.fullmatch(path.rstrip("/")):
        yield (
            f"path is {path!r}: give an absolute path of letters, digits and ._@:+-, not the root."
        )
    if not clients:
        yield "clients is empty: give a list of networks, as 10.1.0.0/16."
    for client in clients:
        try:
            network = ipaddress.ip_network(client)
        except ValueError as error:
            yield f"client {client!r} is no network ({error}): give it as 10.1.0.0/16."
            continue
        if network.prefixlen == 0:
            yield f"{client} is every machine there is: give the cluster's network."
    if not re.fullmatch(r"[0-7]{3,4}", mode):
        yield f"mode is {mode!r}: give three or four octal digits in quotes."


def _line(entry: Mapping[str, Any]) -> str:
    """The line of exports(5)."""
    options = ",".join(_options(entry))
    clients = [f"{ipaddress.ip_network(client)}({options})" for client in entry["clients"]]
    return " ".join([entry["path"].rstrip("/"), *clients])


def _options(entry: Mapping[str, Any]) -> list[str]:
    return [
        "ro" if entry["read_only"] else "rw",
        "sync",
        "no_subtree_check",
        "root_squash" if entry["root_squash"] else "no_root_squash",
    ]


def _differences(options: Mapping[str, Any], output_lines: Sequence[str]) -> Iterator[str]:
    """Differences between the server's exports and the options."""
    exported: dict[tuple[str, str], set[str]] = {}
    for line in output_lines[1:]:
        path, _, rest = line.partition(" ")
        for client, its in re.findall(r"(?<![^\s)])([^\s()]+)\(([^\s()]*)\)", rest):
            exported[path, client] = set(its.split(","))
    for entry in options["exports"]:
        path = entry["path"].rstrip("/")
        for client in map(str, map(ipaddress.ip_network, entry["clients"])):
            # A network of one address is shown as the address.
            short = client.removesuffix("/32").removesuffix("/128")
            got = exported.get((path, client), exported.get((path, short)))
            if got is None:
                yield f"{path} is not exported to {client}: see `exportfs -ra`."
            elif lacking := [name for name in _options(entry) if name not in got]:
                yield (
                    f"{path} is exported to {client} without {', '.join(lacking)}: another file of"
                    " /etc/exports.d or /etc/exports names it too."
                )
    running = output_lines[0] if output_lines else "no"
    if running != str(options["threads"]):
        yield (
            f"The NFS server runs {running} threads instead of {options['threads']}: another file"
            " of /etc/nfs.conf.d names them, or its nfs.conf reads no drop-ins."
        )
