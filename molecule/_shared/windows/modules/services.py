"""win_service and win_service_info."""

from __future__ import annotations

import fnmatch
from typing import Any

from ..arguments import Call, Option, module
from ..errors import FailError, UnknownError
from ..host import Host, Service

_MODES = ("auto", "delayed", "disabled", "manual")


@module(
    "ansible.windows.win_service",
    {
        "dependencies": Option("list", elements="str", known=False),
        "dependency_action": Option(default="set", choices=("add", "remove", "set"), known=False),
        "desktop_interact": Option("bool", default=False, known=False),
        "description": Option(known=False),
        "display_name": Option(known=False),
        "error_control": Option(choices=("critical", "ignore", "normal", "severe"), known=False),
        "failure_actions": Option(
            "list",
            elements="dict",
            known=False,
            options={
                "delay_ms": Option("raw", default=0, aliases=("delay",)),
                "type": Option(required=True, choices=("none", "reboot", "restart", "run_command")),
            },
        ),
        "failure_actions_on_non_crash_failure": Option("bool", known=False),
        "failure_command": Option(known=False),
        "failure_reboot_msg": Option(known=False),
        "failure_reset_period_sec": Option("raw", aliases=("failure_reset_period",), known=False),
        "force_dependent_services": Option("bool", default=False),
        "load_order_group": Option(known=False),
        "name": Option(required=True),
        "password": Option(no_log=True, known=False),
        "path": Option(known=False),
        "pre_shutdown_timeout_ms": Option("raw", aliases=("pre_shutdown_timeout",), known=False),
        "required_privileges": Option("list", elements="str", known=False),
        "service_type": Option(
            choices=(
                "user_own_process",
                "user_share_process",
                "win32_own_process",
                "win32_share_process",
            ),
            known=False,
        ),
        "sid_info": Option(choices=("none", "restricted", "unrestricted"), known=False),
        "start_mode": Option(choices=_MODES),
        "state": Option(choices=("absent", "paused", "restarted", "started", "stopped")),
        "update_password": Option(choices=("always", "on_create"), known=False),
        "username": Option(known=False),
    },
)
def win_service(call: Call) -> dict[str, Any]:
    """Start, stop or set the start of a service that is there."""
    args, host = call.args, call.host
    state, mode = args["state"], args["start_mode"]
    service = host.service(args["name"])
    if state in ("absent", "paused"):
        raise UnknownError(f"state {state} of win_service")
    if service is None:
        if state is None and mode is None:
            return {"changed": False, "exists": False}
        raise FailError(
            f"Service '{args['name']}' is not installed, need to set 'path' to create a new service"
        )
    before = {"start_mode": service.start_mode, "state": service.state}
    after = {"start_mode": mode or service.start_mode, "state": state or service.state}
    changed = after != before
    if not call.check:
        service.start_mode = after["start_mode"]
        if state == "stopped":
            service.state = "stopped"
        elif state == "restarted" or (state == "started" and before["state"] != "started"):
            _start(host, args["name"], service)
    return {
        "changed": changed,
        "exists": True,
        "name": host.service_name(args["name"]),
        "display_name": service.display_name,
        "description": service.description,
        "dependencies": service.dependencies,
        "depended_by": _needed_by(host, args["name"]),
        "desktop_interact": False,
        "path": service.path,
        "start_mode": after["start_mode"],
        "state": {"started": "running", "restarted": "running"}.get(after["state"], after["state"]),
        "username": "LocalSystem" if service.username.endswith("\\SYSTEM") else service.username,
        "can_pause_and_continue": False,
        "diff": {"before": before, "after": after},
    }


def _start(host: Host, name: str, service: Service) -> None:
    if service.needs_reboot or service.start_mode == "disabled":
        service.state = "stopped"
        raise FailError(
            f"Service '{service.display_name} ({name})' cannot be started due to the following "
            f"error: Cannot start service {name} on computer '.'."
        )
    service.state = "started"
    host.started(host.service_name(name))


def _needed_by(host: Host, name: str) -> list[str]:
    found = host.service_name(name)
    return [each for each, other in host.services.items() if found in other.dependencies]


@module("ansible.windows.win_service_info", {"name": Option()})
def win_service_info(call: Call) -> dict[str, Any]:
    """What services are: of one name, of a pattern, or all."""
    host, asked = call.host, call.args["name"] or "*"
    names = [name for name in host.services if name.lower() == asked.lower()]
    if not names:
        names = [
            name
            for name, service in host.services.items()
            if fnmatch.fnmatchcase(name.lower(), asked.lower())
            or fnmatch.fnmatchcase(service.display_name.lower(), asked.lower())
        ]
    return {"exists": bool(names), "services": [_info(host, name) for name in names]}


def _info(host: Host, name: str) -> dict[str, Any]:
    service = host.services[name]
    running = service.state == "started"
    return {
        "checkpoint": 0,
        "controls_accepted": ["stop"] if running else [],
        "dependencies": service.dependencies,
        "dependency_of": _needed_by(host, name),
        "description": service.description,
        "desktop_interact": False,
        "display_name": service.display_name,
        "error_control": "normal",
        "failure_actions": [],
        "failure_actions_on_non_crash_failure": False,
        "failure_command": None,
        "failure_reboot_msg": None,
        "failure_reset_period_sec": 0,
        "launch_protection": "none",
        "load_order_group": "",
        "name": name,
        "path": service.path,
        "pre_shutdown_timeout_ms": 180000,
        "preferred_node": None,
        "process_id": 1000 if running else 0,
        "required_privileges": [],
        "service_exit_code": 0,
        "service_flags": [],
        "service_type": "win32_own_process",
        "sid_info": "none",
        "start_mode": service.start_mode,
        "state": service.state,
        "triggers": [],
        "username": service.username,
        "wait_hint_ms": 0,
    }
