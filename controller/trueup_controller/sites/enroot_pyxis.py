"""The role enroot_pyxis, planned: enroot's packages and configuration, the build of pyxis, and the
problems that keep either from working.

The role's look.sh examines the node (``read_look``), before the installation and after it.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Mapping
from typing import Any

from trueup_node.errors import BadInput
from trueup_node.node.packages import cannot_be_installed, verified_only
from trueup_node.plan import Plan, PlanInputs, sentences

from ..system import as_comment, local_scratch, others
from ..systemd import RESTRICTED

# The role's preflight has tasks or keywords beside its plan.
OWN_PREFLIGHT = True

# enroot's requirements.md (4.0.1).
_MORE_THAN_ONE = ("user.max_user_namespaces", "user.max_mnt_namespaces")
_CLONE = "kernel.unprivileged_userns_clone"
_APPARMOR = "kernel.apparmor_restrict_unprivileged_userns"
_ENROOT_CONF = "/etc/enroot/enroot.conf"
# Above Slurm's header files, where all its packages have them.
_INCLUDE = "/usr/include"
_PLUGIN = "/opt/trueup/pyxis/spank_pyxis.so"
_SOURCE = "/usr/local/src/trueup-pyxis"
_UNIT = "trueup-enroot-scratch.service"
_TMPFILES = "/etc/trueup/enroot_pyxis.tmpfiles"
_READABLE = r"ENROOT_[A-Z_]+|MELLANOX_\w+|NVIDIA_\w+|SSL_CERT_(DIR|FILE)|(all|no|http|https)_proxy"
_SITE = "Set by this site (enroot_pyxis_settings)."
_OWNED = "# Written by trueup (role enroot_pyxis). Changes here are lost.\n"
_CONF = """\
# enroot takes the first value that it finds for a name: of the environment, of /etc/enroot/enroot.conf, of the files
# here in their order. The shell expands the values for each user.
"""  # noqa: E501 WHY: a line of the file
_FOLDERS = """\
# Read by trueup-enroot-scratch.service alone, once scratch is mounted. enroot makes each user's own folders below these,
# with mode 0700; the sticky bit keeps users from removing another's.
d {base} 0755 root root -
d {base}/runtime 1777 root root -
d {base}/cache 1777 root root -
d {base}/data 1777 root root -
d {base}/temp 1777 root root -
# pyxis makes the users' folders here as root.
d {base}/pyxis 0755 root root -
"""  # noqa: E501 WHY: a line of the file
_SERVICE = f"""\
[Unit]
Description=Folders of enroot and pyxis on scratch
# Local disks are empty after a deallocation. Without its file system this fails, and so do containers: they do not fill
# the disk below the mount point instead.
RequiresMountsFor={{scratch}}
{{asserted}}Before=slurmd.service

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=systemd-tmpfiles --create {_TMPFILES}
{RESTRICTED}
[Install]
WantedBy=multi-user.target
"""  # noqa: E501 WHY: a line of the file
_HOOK = """\
# Gives containers the node's variables for NCCL. A hook and not a file of environ.d: pyxis lets what the container has
# win over what the job has, so that such a file would undo a user's own choice. What the job or the image has stays.
set -eu

give() {
    [ ! -v "$1" ] || return 0
    ! grep -q "^$1=" "${ENROOT_ENVIRON}" || return 0
    printf '%s=%s\\n' "$1" "$2" >> "${ENROOT_ENVIRON}"
}

"""  # noqa: E501 WHY: a line of the file
_MOUNTS = (
    "# Folders of the node in every container, read only; left out where the node has none"
    " (nofail).\n"
)


def asks(inputs: PlanInputs) -> dict[str, Any]:
    """The call of look.sh on the node."""
    options, node = inputs.options, inputs.node
    environment = {
        "LC_ALL": "C",
        "MANAGER": node["package_manager"] or "",
        "PACKAGES": " ".join(inputs.data["enroot_packages"]),
        "PLACES": " ".join([options["scratch"], inputs.found["scratch"], *inputs.data["places"]]),
        "PLUGIN": _PLUGIN,
        "SLURM_DIR": options["slurm_dir"],
        "SLURM_INCLUDE": _INCLUDE,
        "VARIABLES": inputs.data["variables_file"],
    }
    argv = ["env", *(f"{name}={value}" for name, value in environment.items()), "sh", "-s"]
    look = inputs.text("roles/sites/enroot_pyxis/files/look.sh")
    return {"ansible.builtin.command": {"argv": argv, "stdin": look}}


def plan(inputs: PlanInputs) -> Plan:
    """enroot and pyxis on a node. ``inputs.found`` has ``stdout``, the output of look.sh, and
    ``scratch``, the mount point of role nvme_scratch.

    Values, empty where nothing is to be done: ``enroot`` (``prerequisites`` and ``files`` with
    ``url``, ``path`` and ``checksum``), ``nvidia`` (``repository`` and ``pins`` as vendor_packages
    takes them) and ``build`` (``packages``, ``source``, its folder, ``command``, and
    ``files`` that note the build). ``files`` as config_files takes them, of which the scratch unit
    reads ``unit_files``; ``plugin_files`` too, and ``slurmd_files``, which slurmd reads; ``wrong``,
    problems that remain after the installation, a sentence each.

    Raises:
        BadInput: the node's output, or the file of variables, is not understood.
    """
    options, look = inputs.options, read_look(inputs.found["stdout"])
    answers = look["answers"]
    scratch, must_mount = _scratch(inputs, look)
    names = _package_files(inputs)
    settings = _settings(inputs, f"{scratch}/enroot")
    # 4.0.1-1 and 4.0.1-1.el8 are 4.0.1.
    version = f"{options['enroot_version']}-"
    installed = [answers.get(f"package {name}", "") for name in inputs.data["enroot_packages"]]
    current = all(release.startswith(version) for release in installed)
    refused = [
        *_refused(inputs, names),
        *_refused_scratch(inputs, look, scratch),
        *kernel_problems(look),
        *config_problems(look, settings, options["slurm_dir"]),
    ]
    if verified_only(inputs.node) and not current:
        refused.append(cannot_be_installed(inputs.data["enroot_packages"], str(inputs.node["os"])))
    if refused:
        return Plan(refused=refused)
    gpus = inputs.node["has_gpu"] and "nvidia" not in answers
    plugin_files = _plugin_files(inputs, look, f"{scratch}/enroot")
    return Plan(
        values={
            "enroot": {} if current else _enroot(inputs, names),
            "nvidia": _nvidia(inputs) if gpus else {},
            "build": _build(inputs, answers),
            "files": _files(inputs, look, scratch, settings, must_mount=must_mount),
            "unit_files": [f"/etc/systemd/system/{_UNIT}", _TMPFILES],
            "plugin_files": plugin_files,
            "slurmd_files": [_PLUGIN, *(file["path"] for file in plugin_files)],
            "wrong": _wrong(options, look, f"{scratch}/enroot"),
        }
    )


def read_look(text: str) -> dict[str, dict[str, Any]]:
    """``kernel``, ``paths``, ``files`` and ``answers`` of look.sh's lines, by name.

    A path has ``free_bytes`` and ``mount``, where its file system is mounted; a file its lines.

    Raises:
        BadInput: a line is of no known kind.
    """
    look: dict[str, dict[str, Any]] = {"kernel": {}, "paths": {}, "files": {}, "answers": {}}
    for line in text.splitlines():
        kind, name, value = [*line.split("\t", 2), "", ""][:3]
        if kind == "kernel" and value.isdecimal():
            look["kernel"][name] = int(value)
        elif kind == "path" and re.fullmatch(r"\d+ /.*", value):
            free, mount = value.split(" ", 1)
            look["paths"][name] = {"free_bytes": int(free) * 1024, "mount": mount}
        elif kind == "file":
            look["files"][name] = []
        elif kind == "line" and name in look["files"]:
            look["files"][name].append(value)
        elif kind == "answer":
            look["answers"][name] = value.strip()
        else:
            raise BadInput(f"not understood of what the node said: {line!r}")
    return look


def kernel_problems(look: Mapping[str, Any]) -> list[str]:
    """Operations that the kernel forbids to users, a sentence each with the fix."""
    kernel = look["kernel"]
    problems = [
        f"enroot_pyxis: {name} is {kernel[name]} and enroot's containers need at least 2:"
        " raise it in a file of /etc/sysctl.d and run `sysctl --system`."
        for name in _MORE_THAN_ONE
        if kernel.get(name, 2) < 2
    ]
    if kernel.get(_CLONE, 1) == 0:
        problems.append(
            f"enroot_pyxis: {_CLONE} is 0, so that users can make no containers: set it to"
            " 1 in a file of /etc/sysctl.d and run `sysctl --system`."
        )
    return problems


def config_problems(look: Mapping[str, Any], names: Iterable[str], slurm_dir: str) -> list[str]:
    """Other configuration that overrides this role's settings of these ``names``, a sentence
    each."""
    files = look["files"]
    set_there = {
        re.split(r"[ \t=]", line.lstrip(), maxsplit=1)[0] for line in files.get(_ENROOT_CONF, [])
    }
    both = sorted(set(names) & set_there)
    stack, line = f"{slurm_dir}/plugstack.conf", f"include {slurm_dir}/plugstack.conf.d/*"
    ours = f"{stack}.d/pyxis.conf"
    wrong = {
        f"enroot_pyxis: {_ENROOT_CONF} sets {', '.join(both)}, and enroot takes a name's first"
        " value, so that the role's file in enroot.conf.d would not count: remove these lines"
        " there; values of your own belong in enroot_pyxis_settings.": both,
        f"enroot_pyxis: {stack} does not include the files of plugstack.conf.d and is not this"
        f" role's to edit: add the line `{line}` to it.": stack in files
        and not _includes(files[stack], slurm_dir),
        f"enroot_pyxis: {ours} is another's (CycleCloud and DeepOps write one too): remove it"
        " to have pyxis from this role, or leave this node out of the group enroot_pyxis.": (
            ours in files and "trueup (role enroot_pyxis)" not in "\n".join(files[ours])
        ),
    }
    return sentences(wrong)


def read_variables(lines: Iterable[str]) -> dict[str, str]:
    """Name to value of the ``export NAME=value`` lines; comments and empty lines are left out.

    Raises:
        BadInput: a line is anything else, or its value is not plain text.
    """
    variables = {}
    for line in lines:
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        try:
            words = shlex.split(line)
        except ValueError:
            words = []
        words = words[1:] if words[:1] == ["export"] else words
        match = re.fullmatch(r"([A-Za-z_]\w*)=([^$`]*)", words[0]) if len(words) == 1 else None
        if match is None:
            raise BadInput(
                f"{line!r} of role nccl's profile for containers is not `export NAME=value` with"
                " plain text: run role nccl again."
            )
        variables[match.group(1)] = match.group(2)
    return variables


def _includes(lines: Iterable[str], slurm_dir: str) -> bool:
    folder = rf"({re.escape(slurm_dir)}/)?plugstack\.conf\.d/"
    pattern = rf"\s*include\s+{folder}(\*|\*\.conf|pyxis\.conf)\s*"
    return any(re.fullmatch(pattern, line) for line in lines)


def _scratch(inputs: PlanInputs, look: Mapping[str, Any]) -> tuple[str, bool]:
    """Where images are, empty where nothing serves; whether a file system must be mounted there."""
    site_scratch: str = inputs.options["scratch"]
    nvme = local_scratch(inputs)
    mounts = [space["mount"] for space in look["paths"].values()]
    default = nvme or next(
        (mount_point for mount_point in inputs.data["places"] if mount_point in mounts), ""
    )
    return site_scratch or default, not site_scratch or site_scratch == nvme


def _package_files(inputs: PlanInputs) -> list[str]:
    """The release files of enroot's packages; none where the vendor has none for the machine."""
    options, node = inputs.options, inputs.node
    of_manager = inputs.data["enroot_files"].get(node["package_manager"], {})
    pattern: str = of_manager.get(node["architecture"], "")
    return [
        pattern.replace("{name}", name).replace("{version}", options["enroot_version"])
        for name in inputs.data["enroot_packages"]
        if pattern
    ]


def _enroot(inputs: PlanInputs, names: list[str]) -> dict[str, Any]:
    options = inputs.options
    return {
        "prerequisites": inputs.data["prerequisites"].get(inputs.node["package_manager"], []),
        "files": [
            {
                "url": f"{options['enroot_url']}/{name.replace('+', '%2B')}",
                "path": f"/var/cache/trueup-{name}",
                "checksum": f"sha256:{options['enroot_checksums'][name]}",
            }
            for name in names
        ],
    }


def _nvidia(inputs: PlanInputs) -> dict[str, Any]:
    """libnvidia-container, which enroot's hook calls."""
    node, repository = inputs.node, inputs.data["nvidia_repository"]
    folder = inputs.data["nvidia_folders"][node["package_manager"]][node["architecture"]]
    return {
        "repository": inputs.options["nvidia_repository"]
        or {**repository, "url": repository["url"] + folder},
        "pins": inputs.data["nvidia_packages"],
    }


def _build(inputs: PlanInputs, answers: Mapping[str, str]) -> dict[str, Any]:
    options, manager = inputs.options, inputs.node["package_manager"]
    slurm = answers.get("slurm", "")
    build_id = f"pyxis {options['pyxis_commit']} slurm {slurm or 'none'}"
    if answers.get("built") == build_id:
        return {}
    build_of = "schedmd" if "schedmd" in answers else manager
    headers = [] if "headers" in answers else [inputs.data["slurm_packages"][build_of]]
    return {
        "packages": [*inputs.data["build_packages"][manager], *headers],
        "source": _SOURCE,
        "command": [
            *("env", "LC_ALL=C", f"SLURM_INCLUDE={_INCLUDE}"),
            *("sh", "-s", _SOURCE, _PLUGIN, slurm),
        ],
        "files": [{"path": f"{_PLUGIN}.built", "content": f"{build_id}\n"}],
    }


def _settings(inputs: PlanInputs, base: str) -> dict[str, Mapping[str, str]]:
    """enroot's settings by name: ``value`` and ``why``; the site's win."""
    site = inputs.options["settings"]
    defaults = {
        setting["name"]: {"value": setting["value"].replace("{base}", base), "why": setting["why"]}
        for setting in inputs.data["settings"]
        if setting["name"] not in site and (inputs.node["infiniband"] or not setting.get("rdma"))
    }
    return {**defaults, **{name: {"value": value, "why": _SITE} for name, value in site.items()}}


def _files(
    inputs: PlanInputs,
    look: Mapping[str, Any],
    scratch: str,
    settings: Mapping[str, Mapping[str, str]],
    *,
    must_mount: bool,
) -> list[dict[str, str]]:
    hooks = "/etc/enroot/hooks.d"
    conf = "".join(
        f"\n{as_comment(setting['why'])}\n{name} {setting['value']}\n"
        for name, setting in settings.items()
    )
    asserted = f"AssertPathIsMountPoint={scratch}\n" if must_mount else ""
    variables = read_variables(look["files"].get(inputs.data["variables_file"], []))
    give_lines = "".join(f"give {name} {shlex.quote(value)}\n" for name, value in variables.items())
    hook = f"#!/usr/bin/env bash\n{_OWNED}{_HOOK}{give_lines}"
    mounts = "".join(
        f"{path} {path} none x-create=dir,bind,ro,nosuid,nodev,private,nofail,silent\n"
        for path in inputs.data["mounts"]
    )
    unit = _OWNED + _SERVICE.format(scratch=scratch, asserted=asserted)
    files: dict[str, dict[str, str]] = {
        "/etc/enroot/enroot.conf.d/00-trueup.conf": {"content": _OWNED + _CONF + conf},
        _TMPFILES: {"content": _OWNED + _FOLDERS.format(base=f"{scratch}/enroot")},
        f"/etc/systemd/system/{_UNIT}": {"content": unit},
        **{
            f"{hooks}/{name}": {"state": "link", "target": f"/usr/share/enroot/hooks.d/{name}"}
            for name in inputs.data["hooks"]
        },
        f"{hooks}/60-trueup-variables.sh": {"mode": "0755", "content": hook}
        if give_lines
        else {"state": "absent"},
        "/etc/enroot/mounts.d/60-trueup.fstab": {"content": _OWNED + _MOUNTS + mounts},
    }
    return [{"path": path, **attributes} for path, attributes in files.items()]


def _plugin_files(inputs: PlanInputs, look: Mapping[str, Any], base: str) -> list[dict[str, str]]:
    """Files that load pyxis into Slurm. Debian's packages of Slurm bring a list of plugins,
    Enterprise Linux's none; an existing list that is not this role's is left alone."""
    folder = inputs.options["slurm_dir"]
    stack = f"{folder}/plugstack.conf"
    words = [_PLUGIN, f"runtime_path={base}/pyxis", *inputs.options["plugin_arguments"]]
    files = [
        {"path": f"{stack}.d/pyxis.conf", "content": f"{_OWNED}required {' '.join(words)}\n"},
        {
            "path": stack,
            "content": "# Written by trueup (role enroot_pyxis), since there was none.\n"
            f"include {folder}/plugstack.conf.d/*.conf\n",
        },
    ]
    return files[: 1 if stack in look["files"] else 2]


def _refused_scratch(inputs: PlanInputs, look: Mapping[str, Any], scratch: str) -> list[str]:
    """Problems of the folder for images. The file system of NVMe disks is made later in the same
    run."""
    needed, places = inputs.options["free_bytes"], ", ".join(inputs.data["places"])
    space = look["paths"].get(scratch, {"free_bytes": needed, "mount": ""})
    is_made = scratch != local_scratch(inputs) or space["mount"] == scratch
    wrong = {
        f"enroot_pyxis: this node has no local NVMe disk and nothing mounted at {places}; give"
        " enroot_pyxis_scratch a folder with room for images.": not scratch,
        f"enroot_pyxis: {scratch} has {space['free_bytes']} bytes free, and images need {needed}"
        " (enroot_pyxis_free_bytes): free some, or give enroot_pyxis_scratch a larger file"
        " system.": is_made and space["free_bytes"] < needed,
    }
    return sentences(wrong)


def _refused(inputs: PlanInputs, names: list[str]) -> list[str]:
    """Errors in the variables, and files that are not published for the machine."""
    options, node = inputs.options, inputs.node
    settings: Mapping[str, str] = options["settings"]
    sums = options["enroot_checksums"]
    unchecked = ", ".join(
        name for name in names if not re.fullmatch("[0-9a-f]{64}", sums.get(name, ""))
    )
    foreign = others(_READABLE, settings)
    lines = ", ".join(name for name, value in settings.items() if "\n" in str(value))
    loose = others("(/[A-Za-z0-9._-]+)+", [options["scratch"]] if options["scratch"] else [])
    manager, commit = node["package_manager"] or "no package manager", options["pyxis_commit"]
    wrong = {
        f"enroot_pyxis: NVIDIA has no release file of enroot for {manager} on"
        f" {node['architecture']}: leave this node out of the group enroot_pyxis.": not names,
        f"enroot_pyxis_enroot_checksums has no sha256 of {unchecked}, and NVIDIA publishes none:"
        f" download from {options['enroot_url']}, look at it, and give what sha256sum prints (64"
        " hexadecimal digits, lower case).": unchecked,
        f"enroot_pyxis_pyxis_commit is {commit}: give the whole commit, 40 hexadecimal digits; a"
        " branch or tag may move.": not re.fullmatch("[0-9a-f]{40}", commit),
        f"{foreign} of enroot_pyxis_settings: enroot reads no such name from its file; it reads"
        " ENROOT_*, MELLANOX_*, NVIDIA_*, SSL_CERT_DIR, SSL_CERT_FILE and *_proxy.": foreign,
        f"{lines} of enroot_pyxis_settings: the value has more than one line; give one.": lines,
        f"{loose} of enroot_pyxis_scratch: give an absolute path of letters, digits, . _ - and"
        " /.": loose,
    }
    return sentences(wrong)


def _wrong(options: Mapping[str, Any], look: Mapping[str, Any], base: str) -> list[str]:
    """Problems that remain once all is installed."""
    answers, version = look["answers"], options["enroot_version"]
    printed, srun = answers.get("enroot", ""), answers.get("srun", "--container-image")
    stack = f"{options['slurm_dir']}/plugstack.conf"
    restricted = look["kernel"].get(_APPARMOR) == 1 and "apparmor" not in answers
    wrong = {
        f"enroot_pyxis: `enroot version` was to print {version}, and printed {json.dumps(printed)}:"
        " run this role again, or look at /etc/enroot.": printed != version,
        "enroot_pyxis: `srun --help` does not name --container-image, so that Slurm has not loaded"
        f" {_PLUGIN} (srun said: {srun or 'nothing of it'}): run srun with -vvv.": (
            srun != "--container-image"
        ),
        f"enroot_pyxis: {base} is not there: `systemctl status {_UNIT}` says why.": (
            base not in look["paths"]
        ),
        f"enroot_pyxis: {_APPARMOR} is 1 and /etc/apparmor.d/enroot is not there: install"
        " the profile of enroot's share folder, or set the value to 0 in a file of"
        " /etc/sysctl.d.": restricted,
        f"enroot_pyxis: there is no {stack}, and without it Slurm reads no plugin: run this role"
        f" again, or write one with the line `include {stack}.d/*`.": stack not in look["files"],
    }
    return sentences(wrong)
