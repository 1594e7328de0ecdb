"""What the scenarios' tests ask their nodes."""

from __future__ import annotations

from pathlib import Path

from testinfra.host import Host

_PINS = Path(__file__).parents[1] / "roles/devito/files/requirements.txt"


def gpus(node: Host, field: str) -> list[str]:
    """What nvidia-smi says of each GPU."""
    query = f"nvidia-smi --query-gpu={field} --format=csv,noheader,nounits"
    return str(node.check_output(query)).splitlines()


def statements(node: Host, path: str) -> list[str]:
    """The lines of a file that are neither empty nor comments."""
    lines = node.file(path).content_string.splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def sourced(node: Host, script: str) -> dict[str, str]:
    """The variables that a shell has after the script, which begins without any."""
    printed = node.check_output(f"env -i /bin/bash -ec '{script} >/dev/null; /usr/bin/env'")
    return dict(line.split("=", 1) for line in printed.splitlines() if "=" in line)


def limits(node: Host, kind: str, unit: str = "") -> dict[str, str]:
    """MEMLOCK, NOFILE and STACK: of kind DefaultLimit systemd's own, of kind Limit a unit's."""
    names = ("MEMLOCK", "NOFILE", "STACK")
    asked = ",".join(f"{kind}{name}" for name in names)
    shown = node.check_output(f"systemctl show --property={asked} {unit}").splitlines()
    return {name: value for line in shown for name, value in [line.removeprefix(kind).split("=")]}


def devito(node: Host, prefix: str | Path) -> tuple[str, str]:
    """The version of Devito in the environment below a folder, and the one that the role pins."""
    lines = _PINS.read_text(encoding="utf-8").splitlines()
    (pinned,) = [line.split()[0] for line in lines if line.startswith("devito==")]
    code = "import devito; print(devito.__version__)"
    found = node.run(f"{prefix}/devito/venv/bin/python -c '{code}'")
    return found.stdout.strip(), pinned.removeprefix("devito==")
