"""The cloud-init document for a machine's first start: files, and the unit of systemd that runs one
of them from then on."""

from __future__ import annotations

import base64
import inspect
import json
from collections.abc import Mapping
from types import ModuleType

from trueup_node import bounded_http

# Programs that machines get, and the configuration of each.
PROGRAMS = "/opt/trueup"


def document(files: Mapping[str, str], *starts: str) -> str:
    """The document that writes files and lets systemd start a unit, now and at each boot.

    Args:
        files: texts by path, readable by all.
        starts: arguments of ``systemctl``, a line each. cloud-init takes the status of the last one
            for that of all.
    """
    content = {
        "write_files": [
            {"path": path, "permissions": "0644", "content": text} for path, text in files.items()
        ],
        "runcmd": [["systemctl", *line.split()] for line in ("daemon-reload", *starts)],
    }
    # JSON is YAML, as cloud-init reads it.
    return "#cloud-config\n" + json.dumps(content, indent=1) + "\n"


def program(name: str, module: ModuleType, config: Mapping[str, object]) -> dict[str, str]:
    """The files of a program that speaks HTTP: itself, the module beside it that bounds its
    requests, and its configuration."""
    return {
        f"{PROGRAMS}/bounded_http.py": inspect.getsource(bounded_http),
        f"{PROGRAMS}/{name}.py": inspect.getsource(module),
        f"{PROGRAMS}/{name}.json": json.dumps(config, indent=2) + "\n",
    }


def encoded(text: str) -> str:
    """As a VM's ``customData`` has it."""
    return base64.b64encode(text.encode()).decode()
