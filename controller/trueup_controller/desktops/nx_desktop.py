"""The role nx_desktop, planned: Siemens NX on a Windows session host, by the site's own installer.

trueup has no download of NX: url, sha256, silent arguments and the product's key are the site's.
The results that Microsoft and Siemens published of NX on Azure Virtual Desktop are in ``_TESTED``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from trueup_node.options import Option, merged, misfits
from trueup_node.plan import Plan, PlanInputs, Skipped, sentences

from .registry import Value, changes, data_of

_UNINSTALL = r"HKLM:\SOFTWARE\Microsoft\Windows\CurrentVersion\Uninstall"
_ENVIRONMENT = r"HKLM:\SYSTEM\CurrentControlSet\Control\Session Manager\Environment"
# The role's own memory on the host.
RECORD = r"HKLM:\SOFTWARE\trueup\nx_desktop"
_WRITTEN = "Environment"
# Only administrators write there.
_FOLDER = r"C:\Program Files\trueup\nx_desktop"
# Sizes and users of a host with which Siemens' NXCP and ATS suites passed, by the Azure HPC blog's
# article on NX on Azure Virtual Desktop (catalog/reference_results.csv).
_TESTED = ("Standard_NV12ads_A10_v5", "Standard_NV18ads_A10_v5")
_TESTED_USERS = 5
# Members of nx_desktop_installer, and the start of their names in a sentence.
_INSTALLER = (
    Option("setup", "", ""),
    Option("arguments", "", []),
    Option("product", "", ""),
    Option("version", "", ""),
)
_LABEL = "nx_desktop_installer."
_SHA256 = re.compile(r"[0-9a-fA-F]{64}")
_VERSION = re.compile(r"\d{1,9}(?:\.\d{1,9}){0,3}")
_KEY = re.compile(r"[^\\/\x00-\x1f]{1,255}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_()]{0,254}")
# Others depend on them, and a desktop without them starts nothing.
_WINDOWS_OWN = ("path", "pathext", "comspec", "windir", "systemroot", "temp", "tmp", "os")


def asks(inputs: PlanInputs) -> dict[str, dict[str, Any]]:
    """Whether NX is there, and the host's environment."""
    if not _is_declared(inputs) or _refused(inputs):
        return {}
    return {"windows_facts": {"registry": [_product(inputs), _ENVIRONMENT, RECORD]}}


def plan(inputs: PlanInputs) -> Plan:
    """NX of a session host.

    Values: ``package``, as windows_package takes it; ``settings``, as windows_settings does;
    ``changes``, whether users of the host would notice; ``warnings``, which Ansible shows. With
    ``verify`` in ``inputs.found`` the plan refuses if settings still differ from the declared ones.
    """
    nothing: dict[str, Any] = {"package": {}, "settings": {}, "changes": False}
    if not _is_declared(inputs):
        reason = "no installer of NX is named: set nx_desktop_url, nx_desktop_sha256"
        return Plan(values=nothing, skipped=[Skipped("nx_desktop", reason)])
    refused = _refused(inputs)
    if refused:
        return Plan(refused=refused)
    is_due, registry = _is_due(inputs), _registry(inputs)
    verify = bool(inputs.found.get("verify"))
    if verify and not inputs.variables.get("ansible_check_mode"):
        refused = sentences(
            {
                f"nx_desktop: the installer ended well, and {_product(inputs)} has no"
                f" DisplayVersion of {_installer(inputs)['version']} or newer: correct"
                " product or version of nx_desktop_installer.": is_due,
                "nx_desktop: something else writes the variables of nx_desktop_environment.": bool(
                    registry
                ),
            }
        )
    return Plan(
        values={
            "package": {"install": is_due, "record": RECORD, **_package(inputs)},
            "settings": {"registry": registry},
            "changes": is_due,
            "warnings": [] if verify else _warnings(inputs),
        },
        refused=refused,
    )


def _is_declared(inputs: PlanInputs) -> bool:
    return bool(inputs.options["url"])


def _refused(inputs: PlanInputs) -> list[str]:
    options, node = inputs.options, inputs.node
    unfit = misfits(_INSTALLER, options["installer"], _LABEL)
    if unfit:
        return [text if text.endswith("?") else f"{text}." for _, text in unfit]
    installer = _installer(inputs)
    names = [str(name) for name in options["environment"]]
    return sentences(
        {
            f"nx_desktop: {node.get('os') or 'this node'} is no Windows, which NX of this role is"
            " for.": node.get("system") != "windows",
            "nx_desktop_sha256 is no SHA-256: give the file's 64 hexadecimal digits.": (
                not _SHA256.fullmatch(options["sha256"])
            ),
            f"{_LABEL}product is no name of a key: give that of NX below"
            f" {_UNINSTALL}.": not _KEY.fullmatch(installer["product"]),
            f"{_LABEL}version is no version such as 2506.4000: give the least that"
            " will do.": not _VERSION.fullmatch(installer["version"]),
            "nx_desktop_environment: names of variables have letters, digits and _.": not all(
                map(_NAME.fullmatch, names)
            ),
            "nx_desktop_environment: "
            f"{', '.join(name for name in names if name.lower() in _WINDOWS_OWN)} is Windows'"
            " own.": any(name.lower() in _WINDOWS_OWN for name in names),
        }
    )


def _found(inputs: PlanInputs) -> Mapping[str, Any]:
    registry: Mapping[str, Any] = inputs.found.get("registry") or {}
    return registry


def _product(inputs: PlanInputs) -> str:
    return rf"{_UNINSTALL}\{_installer(inputs)['product']}"


def _is_due(inputs: PlanInputs) -> bool:
    """Whether NX is missing, or older than asked for; a newer one stays."""
    installed = str(data_of(_found(inputs), _product(inputs), "DisplayVersion") or "")
    if not _VERSION.fullmatch(installed):
        return True
    return _parts(installed) < _parts(_installer(inputs)["version"])


def _parts(version: str) -> tuple[int, ...]:
    return (*(int(number) for number in version.split(".")), 0, 0, 0)[:4]


def _installer(inputs: PlanInputs) -> dict[str, Any]:
    """The members of nx_desktop_installer."""
    return merged(_INSTALLER, inputs.options["installer"])


def _package(inputs: PlanInputs) -> dict[str, Any]:
    options, installer = inputs.options, _installer(inputs)
    return {
        "name": f"NX {installer['version']}",
        "url": options["url"],
        "sha256": options["sha256"].lower(),
        # Another file gets another folder: files of a failed installer are not run again.
        "folder": rf"{_FOLDER}\{options['sha256'].lower()[:12]}",
        "setup": installer["setup"],
        "arguments": installer["arguments"],
    }


def _registry(inputs: PlanInputs) -> list[dict[str, Any]]:
    """The host's variables that are due, and the note of which are the role's."""
    current, declared = _found(inputs), inputs.options["environment"]
    before, now = data_of(current, RECORD, _WRITTEN) or [], sorted(declared)
    values = [Value(_ENVIRONMENT, name, "string", str(text)) for name, text in declared.items()]
    due = changes(values, current, {_ENVIRONMENT: list(before)})
    # Noted before it is written, and forgotten after it is removed.
    both = sorted({*before, *now})
    first = changes([_note(both)], current, {}) if both else []
    return [*first, *due, *(changes([_note(now)], current, {}) if both != now else [])]


def _note(names: list[str]) -> Value:
    return Value(RECORD, _WRITTEN, "multistring", tuple(names))


def _session_limit(inputs: PlanInputs) -> Any:
    properties = inputs.variables.get("avd_session_host_pool_properties")
    return properties.get("maxSessionLimit") if isinstance(properties, Mapping) else None


def _warnings(inputs: PlanInputs) -> list[str]:
    node, users = inputs.node, _session_limit(inputs)
    size = str(node.get("vm_size"))
    return sentences(
        {
            f"nx_desktop: NX on several sessions was tested on {' and '.join(_TESTED)}, not on"
            f" {size}.": size not in _TESTED,
            f"nx_desktop: {node.get('os')} has one session; NX was tested on Windows 11 Enterprise"
            " multi-session.": "multi-session" not in str(node.get("os")),
            f"nx_desktop: {users} sessions a host; NX was tested with {_TESTED_USERS}"
            " (maxSessionLimit of avd_session_host_pool_properties).": isinstance(users, int)
            and users > _TESTED_USERS,
        }
    )
