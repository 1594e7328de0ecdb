"""The role eessi, planned: packages, the client's configuration, and the GPU driver's links.

The role's program examines the node itself: FUSE, space, the changes of ``cvmfs_config setup``.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from typing import Any

from trueup_node.node.mounts import unit_name
from trueup_node.plan import Plan, PlanInputs, sentences

from ..plans.nccl_setup import gpu_generation
from ..system import local_scratch, others, release
from ..systemd import RESTRICTED

# The role's preflight has tasks or keywords beside its plan.
OWN_PREFLIGHT = True

_REPOSITORY = "software.eessi.io"
_SOURCE = "roles/sites/eessi/files/eessi.py"
_PROGRAM = "/usr/local/libexec/trueup/eessi"
_SETTINGS = "/etc/trueup/eessi.json"
_UNIT = "trueup-eessi-gpu.service"
_CACHE = "/var/lib/cvmfs"
# The folder of links to the driver's libraries, which 2025.06 and later must have.
_LINKS = "/opt/eessi/nvidia"
# The same for 2023.06. Not EESSI's default /opt/eessi, below whose nvidia/ 2023.06 makes folders:
# with a new driver, 2025.06's script removes /opt/eessi/nvidia/* and stops at them.
_HOST_INJECTIONS = "/opt/eessi/host_injections"
# EESSI/docs, native installation: one for each 500 clients, and at least two.
_CLIENTS_OF_A_PROXY = 500
_WRITTEN = "# Written by trueup (role eessi)."
_OWNED = f"{_WRITTEN} Changes here are lost.\n"
_CLIENT = """\
{proxies}
CVMFS_CACHE_BASE="{cache}"
# MB
CVMFS_QUOTA_LIMIT="{cache_mb}"
# Where links of the repository lead to on this machine (EESSI, gpu.md): 2023.06, and from 2025.06 on.
EESSI_HOST_INJECTIONS="{host_injections}"
EESSI_NVIDIA_OVERRIDE_DEFAULT="{nvidia_folder}"
"""  # noqa: E501 WHY: a line of the file
_SERVERS = """\
# Of the domain eessi.io alone: in default.local it would be the servers of every repository, CERN's configuration too.
CVMFS_SERVER_URL="{}"
CVMFS_USE_GEOAPI="no"
"""  # noqa: E501 WHY: a line of the file
_OMPI = """
# This version's Open MPI on Azure's InfiniBand: UCX, and nothing of libfabric (EESSI, eessi-2023.06.md).
"""  # noqa: E501 WHY: a line of the file
_AUTOFS = f"""\
{_WRITTEN}
# The cache of CernVM-FS is at {{cache}}, which may be a file system of its own, new and empty at a boot.
[Unit]
After={{after}}

# The minus: autofs has other mounts, which must come even where this folder cannot be made.
[Service]
ExecStartPre=-/usr/bin/install --directory --mode=0700 --owner=cvmfs --group=cvmfs {{cache}}
"""  # noqa: E501 WHY: a line of the file
_SERVICE = f"""\
{_WRITTEN}
[Unit]
Description=Link the libraries of the GPU driver for EESSI where the driver has changed
Documentation=file://{{root}}{_PROGRAM}
Wants=network-online.target
After=network-online.target autofs.service nvidia-persistenced.service

[Service]
Type=oneshot
ExecStart={{root}}{_PROGRAM} link {{root}}{_SETTINGS}
TimeoutStartSec=600
{RESTRICTED}
[Install]
WantedBy=multi-user.target
"""


def asks(inputs: PlanInputs) -> dict[str, Any]:
    """The call of the role's program, piped in because it is not installed yet."""
    argv = [inputs.python, "-I", "-", "look", json.dumps(_settings(inputs))]
    return {"ansible.builtin.command": {"argv": argv, "stdin": inputs.text(_SOURCE)}}


def plan(inputs: PlanInputs) -> Plan:
    """EESSI on a node. ``inputs.found`` has ``stdout``, the program's output, and ``scratch``, the
    mount point of role nvme_scratch.

    Values: ``repository`` and ``pins`` as vendor_packages takes them; ``package``, EESSI's own
    (``pins``, ``url``, ``file`` and ``checksum``), empty where it is not wanted; ``files`` as
    config_files takes them, of which the client reads ``client_files`` again by the command
    ``reload``; whether the client ``is_new``, for which ``cvmfs_config setup`` has never run; the
    commands ``verify`` and ``link`` (empty without GPUs). Ansible shows ``warnings``.
    """
    options, root = inputs.options, inputs.data["root"]
    look = json.loads(inputs.found["stdout"])
    refused = [*_refused_system(inputs), *_refused(options)]
    refused += [f"eessi: {problem}" for problem in look["problems"]]
    if refused:
        return Plan(refused=refused)
    settings = _settings(inputs)
    program = f"{root}{_PROGRAM}"
    return Plan(
        values={
            "repository": options["cvmfs_repository"] or _repository(inputs),
            "pins": _pins(inputs),
            "package": _package(options["config_package"]),
            "files": [
                {"path": f"{root}{path}", **(contents or {"state": "absent"})}
                for path, contents in _files(inputs, settings).items()
            ],
            "client_files": [f"{root}{path}" for path in _client_files(inputs, settings)],
            "is_new": bool(look["set_up"]),
            # A new client has nothing mounted yet.
            "reload": ["true"] if look["set_up"] else ["cvmfs_config", "reload"],
            "verify": [program, "verify", f"{root}{_SETTINGS}"],
            "link": [program, "link", f"{root}{_SETTINGS}"] if settings["gpus"] else [],
            "warnings": [*_too_few_proxies(inputs), *_unbuilt(inputs)],
        }
    )


def _settings(inputs: PlanInputs) -> dict[str, Any]:
    """The program's settings. ``scratch`` is empty where the cache is not on it."""
    options, node, root = inputs.options, inputs.node, inputs.data["root"]
    version = f"{root}/cvmfs/{_REPOSITORY}/versions/{options['version']}"
    scratch = local_scratch(inputs)
    cache: str = options["cache_base"] or (f"{scratch}/cvmfs" if scratch else _CACHE)
    links = f"{root}{_HOST_INJECTIONS}/nvidia/{node['architecture']}/host"
    of_version = inputs.catalog("eessi.yml")["versions"].get(options["version"], {})
    if of_version.get("gpu_links") == "override":
        links = f"{root}{_LINKS}"
    return {
        "etc": f"{root}/etc",
        "fuse": f"{root}/dev/fuse",
        "mount": f"{root}/cvmfs",
        "state": f"{root}/var/lib/trueup/eessi_gpu.json",
        "repository": _REPOSITORY,
        "init": f"{version}/init/lmod/bash",
        "script": f"{version}/scripts/gpu_support/nvidia/link_nvidia_host_libraries.sh",
        "version": options["version"],
        "cache": cache,
        "cache_mb": options["cache_mb"],
        "scratch": scratch if cache.startswith(f"{scratch}/") else "",
        "gpus": node["has_gpu"],
        "links": links,
    }


def _files(inputs: PlanInputs, settings: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """All files that the role may write; empty for a file that must be absent."""
    cache, gpus = settings["cache"], settings["gpus"]
    usual = "local-fs.target remote-fs.target"
    after = unit_name(settings["scratch"]) if settings["scratch"] else usual
    units = "/etc/systemd/system"
    autofs = {"content": _AUTOFS.format(cache=cache, after=after)}
    service = {"content": _SERVICE.format(root=inputs.data["root"])}
    return {
        **_client_files(inputs, settings),
        "/opt/trueup/eessi/eessi.sh": {"content": _shell(inputs, settings["init"])},
        _PROGRAM: {"content": f"#!{inputs.python} -I\n", "source": _SOURCE, "mode": "0755"},
        _SETTINGS: {"content": json.dumps(settings, indent=4, sort_keys=True) + "\n"},
        # The cache has to wait for its file system at boot, and to be made again when that comes
        # back empty.
        f"{units}/autofs.service.d/trueup-eessi.conf": autofs if cache != _CACHE else {},
        # It links again at a boot with another driver; the link enables it.
        f"{units}/{_UNIT}": service if gpus else {},
        f"{units}/multi-user.target.wants/{_UNIT}": {"state": "link", "target": f"../{_UNIT}"}
        if gpus
        else {},
    }


def _client_files(inputs: PlanInputs, settings: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    options = inputs.options
    proxies, servers = "|".join(options["http_proxies"]), ";".join(options["servers"])
    proxy_line = f'CVMFS_HTTP_PROXY="{proxies}"' if proxies else 'CVMFS_CLIENT_PROFILE="single"'
    root = inputs.data["root"]
    client = _CLIENT.format(
        proxies=proxy_line,
        cache=settings["cache"],
        cache_mb=options["cache_mb"],
        host_injections=f"{root}{_HOST_INJECTIONS}",
        nvidia_folder=f"{root}{_LINKS}",
    )
    return {
        "/etc/cvmfs/default.local": {"content": _OWNED + client},
        "/etc/cvmfs/domain.d/eessi.io.local": {"content": _OWNED + _SERVERS.format(servers)}
        if servers
        else {},
    }


def _shell(inputs: PlanInputs, init: str) -> str:
    root, rdma = inputs.data["root"], inputs.node["has_rdma"]
    variables = (
        told_on_infiniband(inputs.catalog("eessi.yml"), inputs.options["version"]) if rdma else {}
    )
    exports = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in variables.items())
    return (
        f"{_OWNED}# Source it in a shell (bash) or job script: . {root}/opt/trueup/eessi/eessi.sh\n"
        f"{_OMPI + exports if variables else ''}\n. {init}\n"
    )


def default_version(catalog: Mapping[str, Any]) -> str:
    """EESSI's own default, of ``catalog/eessi.yml``."""
    defaults: list[str] = [
        name for name, row in catalog["versions"].items() if row["status"] == "default"
    ]
    return defaults[0]


def gpu_target(node: Mapping[str, Any]) -> str:
    """The target whose builds the node's GPUs run, such as ``cc80`` for an A10 (8.6); empty where
    the size's GPUs are not known."""
    capability = gpu_generation(node)
    return f"cc{capability // 10 * 10}" if capability else ""


def gromacs_modules(catalog: Mapping[str, Any], version: str, node: Mapping[str, Any]) -> list[str]:
    """The version's modules of GROMACS for the node, the preferred first: CUDA builds where it has
    GPUs, and then none where the version has no builds for them."""
    row: Mapping[str, Any] = catalog["versions"].get(version, {})
    modules: Mapping[str, list[str]] = row.get("gromacs", {})
    if not node.get("gpus"):
        return modules.get("cpu", [])
    target = gpu_target(node)
    return modules.get("gpu", []) if not target or target in row.get("gpu_targets", []) else []


def _too_few_proxies(inputs: PlanInputs) -> list[str]:
    """A warning where the clients of the inventory need more proxies than the site has."""
    clients, count = len(inputs.groups.get("eessi", [])), len(inputs.options["http_proxies"])
    needed = max(2, -(-clients // _CLIENTS_OF_A_PROXY))
    if count >= needed or (clients < 2 and not count):
        return []
    path = f"through {count} of the site's proxies" if count else "from EESSI's servers directly"
    load = f"{max(clients, 1)} clients load {path}"
    return [f"eessi: {load}; a cluster should have at least {needed} (eessi_http_proxies)."]


def _unbuilt(inputs: PlanInputs) -> list[str]:
    """A warning where the version has no builds for the node's GPUs."""
    version, target = inputs.options["version"], gpu_target(inputs.node)
    targets = inputs.catalog("eessi.yml")["versions"][version]["gpu_targets"]
    if not (inputs.node["has_gpu"] and target) or target in targets:
        return []
    gpus = f"the GPUs of {inputs.node['vm_size']} ({target}; it has {', '.join(targets) or 'none'})"
    return [f"eessi: {version} has no builds for {gpus}: its programs run on the CPUs alone."]


def told_on_infiniband(catalog: Mapping[str, Any], version: str) -> dict[str, str]:
    """Variables for programs of a version on nodes with Azure's InfiniBand."""
    variables: dict[str, str] = catalog["versions"].get(version, {}).get("infiniband", {})
    return variables


def _repository(inputs: PlanInputs) -> dict[str, Any]:
    """CernVM's for the distribution."""
    manager, system = inputs.node["package_manager"], release(inputs.node)
    url = inputs.data["urls"][manager].format(
        release=system.rpartition("-")[2], architecture=inputs.node["architecture"]
    )
    suite = {"suite": f"{inputs.data['suites'].get(system)}-prod", "components": "main"}
    return {**inputs.data["key"], "url": url, **(suite if manager == "apt" else {})}


def _pins(inputs: PlanInputs) -> list[dict[str, str]]:
    client = {"name": "cvmfs", "version": inputs.data["cvmfs_version"]}
    # It holds keys and an address; the content at that address is signed by these keys.
    config = {"name": "cvmfs-config-default", "version": "*"}
    return [client] if inputs.options["config_package"] else [client, config]


def _package(package: Mapping[str, str]) -> dict[str, Any]:
    """EESSI's own configuration; empty where it is CERN's."""
    if not package:
        return {}
    # Not /var/tmp, where a user of the node could put a file of that name first, and other content
    # after the check.
    file = f"/var/cache/trueup-{package['url'].rpartition('/')[2]}"
    return {
        "pins": [{"name": "cvmfs-config-eessi", "version": package["version"]}],
        "url": package["url"],
        "file": file,
        "checksum": f"sha256:{package['sha256']}",
    }


def _refused_system(inputs: PlanInputs) -> list[str]:
    """Where there is nothing to install from."""
    options, manager, suites = inputs.options, inputs.node["package_manager"], inputs.data["suites"]
    if manager not in inputs.data["urls"]:
        return [f"eessi: {inputs.node['os']} has neither apt nor dnf."]
    versions = inputs.catalog("eessi.yml")["versions"]
    package = options["config_package"]
    is_pinned = (
        package.keys() == {"version", "url", "sha256"}
        and "/" in package["url"]
        and re.fullmatch("[0-9a-f]{64}", str(package["sha256"]))
    )
    wrong = {
        f"eessi_version is {options['version']}: catalog/eessi.yml has"
        f" {', '.join(sorted(versions))} (quoted, since YAML reads a bare 2023.06 as a"
        " number).": options["version"] not in versions,
        f"eessi: there is no CernVM-FS repository known for {inputs.node['os']} (known:"
        f" {', '.join(sorted(suites))}, Enterprise Linux 9): give eessi_cvmfs_repository.": not (
            options["cvmfs_repository"] or manager == "dnf" or release(inputs.node) in suites
        ),
        "eessi_config_package must have version, url and sha256 of EESSI's package for"
        f" {manager}: it is not signed, so give the sum of the file that you looked into, or leave"
        " the variable empty.": package and not is_pinned,
    }
    return sentences(wrong)


def _refused(options: Mapping[str, Any]) -> list[str]:
    """Errors in the variables. A shell reads the client's configuration, as root."""
    proxies = others(r"https?://[^/@ |;\"$`]+:[0-9]+", options["http_proxies"])
    servers = others(r"https?://[^ ;\"$`]+/@fqrn@", options["servers"])
    wrong = {
        f"eessi_http_proxies has {proxies}: write a proxy as http://host:port.": proxies,
        f"eessi_servers has {servers}: write a server as http://host/cvmfs/@fqrn@.": servers,
        f"eessi_cache_mb is {options['cache_mb']}: CernVM-FS wants at least 1000 MB.": (
            options["cache_mb"] < 1000
        ),
        "eessi_cache_base must be an absolute path of letters, digits, ., - and _.": others(
            "(/[A-Za-z0-9._-]+)+", [options["cache_base"] or _CACHE]
        ),
    }
    return sentences(wrong)
