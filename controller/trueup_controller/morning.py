"""The morning's check as units of systemd, a line of cron, or a workflow of AWX."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from trueup_node.errors import BadInput

from . import systemd

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_TIME: Final = re.compile(r"([01]\d|2[0-3]):([0-5]\d)")
_UNIT: Final = "trueup-morning"
_CRON: Final = f"/etc/cron.d/{_UNIT}"
_AWX: Final = "trueup-awx.yml"
# The webhook's address, as TRUEUP_WEBHOOK=https://...; readable by its owner alone.
SECRETS: Final = "/etc/trueup/morning.env"


def timer_files(kind: str, *, inventory: str, at: str, options: Sequence[str]) -> dict[str, str]:
    """What starts the check and the message each morning: texts by path.

    Args:
        kind: systemd, cron or awx.
        at: local time, HH:MM.
        options: of ``trueup morning``.

    Raises:
        BadInput: the time is none.
    """
    match = _TIME.fullmatch(at)
    if match is None:
        raise BadInput(f"--at {at!r} is no time of day (05:30)")
    hour, minute = match.groups()
    bin_folder = Path(sys.executable).parent
    project = Path.cwd()
    if kind == "awx":
        return {_AWX: _workflow(inventory, f"{hour}{minute}00", options)}
    check = [str(bin_folder / "ansible-playbook"), "-i", inventory, "playbooks/check.yml"]
    tell = [str(bin_folder / "trueup"), "morning", *options]
    if kind == "cron":
        return {_CRON: _cron(project, check, tell, f"{int(minute)} {int(hour)} * * *")}
    return _units(project, check, tell, at=at)


def install(files: Mapping[str, str]) -> None:
    """Write the units and start the timer.

    Raises:
        BadInput: this user or this machine cannot.
    """
    try:
        for path, text in files.items():
            Path(path).write_text(text, encoding="utf-8")
        for argv in (["daemon-reload"], ["enable", "--now", f"{_UNIT}.timer"]):
            subprocess.run(["systemctl", *argv], check=True, capture_output=True, text=True)  # noqa: S607 WHY: the system's own
    except OSError as error:
        raise BadInput(
            f"{error.filename or 'systemctl'}: {error.strerror}; run it as root, or --timer prints"
            " what to install"
        ) from error
    except subprocess.CalledProcessError as error:
        raise BadInput(f"systemctl: {str(error.stderr).strip()}") from error


def _units(project: Path, check: Sequence[str], tell: Sequence[str], *, at: str) -> dict[str, str]:
    """The units by path. The check may fail: the message says so."""
    folder = "/etc/systemd/system"
    service = (
        "[Unit]\nDescription=trueup: check of the nodes, and what changed\n"
        "Wants=network-online.target\nAfter=network-online.target\n\n"
        f"[Service]\nType=oneshot\nWorkingDirectory={project}\n"
        f"EnvironmentFile=-{SECRETS}\n"
        f"ExecStart=-{systemd.command(check)}\nExecStart={systemd.command(tell)}\n"
        "SuccessExitStatus=1\n"
    )
    timer = (
        "[Unit]\nDescription=trueup: every morning\n\n"
        f"[Timer]\nOnCalendar=*-*-* {at}:00\nPersistent=true\n\n"
        "[Install]\nWantedBy=timers.target\n"
    )
    return {f"{folder}/{_UNIT}.service": service, f"{folder}/{_UNIT}.timer": timer}


def _workflow(inventory: str, at: str, options: Sequence[str]) -> str:
    """A playbook that makes the workflow: the check, then, however it ends, the message. JSON is
    YAML."""
    results = options[0]
    templates = {
        "trueup check": ("playbooks/check.yml", {"trueup_results": results}),
        "trueup message": ("playbooks/morning.yml", {"morning_options": [*options]}),
    }
    tasks: list[dict[str, Any]] = [
        {
            "name": f"Configure {name}",
            "awx.awx.job_template": {
                "name": name,
                "project": "{{ project }}",
                "inventory": inventory,
                "playbook": playbook,
                "execution_environment": "{{ execution_environment }}",
                "credentials": "{{ credentials }}",
                "extra_vars": variables,
            },
        }
        for name, (playbook, variables) in templates.items()
    ]
    check, message = templates
    nodes = [
        {
            "identifier": "check",
            "unified_job_template": {"name": check, "type": "job_template"},
            "related": {"always_nodes": [{"identifier": "message"}]},
        },
        {
            "identifier": "message",
            "unified_job_template": {"name": message, "type": "job_template"},
        },
    ]
    tasks += [
        {
            "name": "Configure workflow",
            "awx.awx.workflow_job_template": {
                "name": "trueup morning",
                "organization": "{{ organization }}",
                "workflow_nodes": nodes,
            },
        },
        {
            "name": "Configure schedule",
            "awx.awx.schedule": {
                "name": "trueup morning",
                "unified_job_template": "trueup morning",
                "rrule": f"DTSTART;TZID={{{{ time_zone }}}}:20260101T{at}"
                " RRULE:FREQ=DAILY;INTERVAL=1",
            },
        },
    ]
    variables = {
        "organization": "Default",
        "project": "trueup",
        "execution_environment": "trueup",
        "credentials": [],
        "time_zone": "UTC",
    }
    play = {
        "name": "Configure the morning's check in AWX",
        "hosts": "localhost",
        "connection": "local",
        "gather_facts": False,
        "vars": variables,
        "tasks": tasks,
    }
    return (
        "# ansible-playbook trueup-awx.yml with CONTROLLER_HOST and CONTROLLER_OAUTH_TOKEN set.\n"
        f"# The project holds trueup's playbooks. Every job must see the folder {results}\n"
        "# (Settings, Jobs, paths to expose to isolated jobs). A credential of a type of your own\n"
        "# sets TRUEUP_WEBHOOK for the message.\n"
        f"{json.dumps([play], indent=2)}\n"
    )


def _cron(project: Path, check: Sequence[str], tell: Sequence[str], when: str) -> str:
    user = os.environ.get("USER", "root")
    line = f"cd {shlex.quote(str(project))} && {{ {shlex.join(check)}; {shlex.join(tell)}; }}"
    return (
        "# Mode 0600 if you set TRUEUP_WEBHOOK=https://... here.\n"
        f"{when} {user} {line.replace('%', chr(92) + '%')} > /dev/null\n"
    )
