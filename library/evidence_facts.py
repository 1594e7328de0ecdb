#!/usr/bin/python
"""Ansible module: the texts of files, and the output of commands that only read."""

from __future__ import annotations

DOCUMENTATION = r"""
module: evidence_facts
version_added: "0.9.0"
short_description: Reads files and runs commands that only read, each within a limit
description:
  - Collects what the rows of catalog/acceptance.yml ask of a node (action C(trueup_acceptance)).
  - It publishes no fact of the host.
extends_documentation_fragment: [trueup_facts, trueup_options.evidence_facts]
"""

EXAMPLES = r"""
- name: Look at NCCL's settings and at the file systems
  evidence_facts:
    files: [/etc/nccl.conf]
    commands:
      - {argv: [findmnt, --json], seconds: 10}
"""

RETURN = r"""
files:
  description: Path to its text; null where there is no such file.
  returned: always
  type: dict
programs:
  description: Path of each program; null where it is not installed.
  returned: always
  type: dict
commands:
  description: >-
    The command, joined by blanks, to what it printed on both streams, with the line "exit status N"
    after it; null where it is not installed.
  returned: always
  type: dict
unknown: {description: Path or command to why it could not be asked., returned: always, type: dict}
booted_at:
  description: >-
    When its first process was started (the node, or a container of its own, was booted), in seconds
    since 1970; null where the kernel does not say.
  returned: always
  type: int
replica:
  description: >-
    What the node is a replica of, by /etc/trueup-replica; null on a real machine.
  returned: always
  type: str
"""

import os
import re
from typing import Dict, Optional, Tuple

from ansible.module_utils.trueup_node.node import tools
from ansible.module_utils.trueup_node.options import Option, module_spec
from ansible.module_utils.trueup_node.run.answer import AnsibleModule

OPTIONS = (
    Option("files", "Paths of files. Of each the first 64 KiB are read.", []),
    Option("programs", "Names of programs.", []),
    Option(
        "commands",
        "Commands, each with C(argv) and the C(seconds) that it may take.",
        [],
        elements="dict",
    ),
)

REPLICA = "/etc/trueup-replica"
MOST_BYTES = 64 * 1024


def read(path: str) -> Tuple[Optional[str], Optional[str]]:
    """A file's text (None where there is none), and why it could not be read."""
    try:
        with open(path, "rb") as stream:
            return stream.read(MOST_BYTES).decode("utf-8", "replace"), None
    except (FileNotFoundError, NotADirectoryError):
        return None, None
    except OSError as error:
        return None, f"it cannot be read: {error.strerror}"


def booted_at(stat: Optional[str], first: Optional[str], ticks: int) -> Optional[int]:
    """From the line btime of /proc/stat, and the ticks after it that /proc/1/stat says (proc(5):
    field 22, of which the second is a name in brackets)."""
    booted = re.search(r"^btime (\d{1,12})$", stat or "", re.MULTILINE)
    after = re.match(r".*\) (?:\S+ ){19}(\d{1,18}) ", first or "")
    return int(booted[1]) + int(after[1]) // ticks if booted and after else None


def main() -> None:
    module = AnsibleModule(
        argument_spec=module_spec(OPTIONS),
        supports_check_mode=True,
    )
    unknown: Dict[str, str] = {}
    files, commands = {}, {}
    for path in module.params["files"]:
        files[path], note = read(path)
        if note:
            unknown[path] = note
    for command in module.params["commands"]:
        name = " ".join(command["argv"])
        response = tools.ask(module, command["argv"], limit_seconds=int(command["seconds"]))
        text = f"{response.output}{response.complaint}\nexit status {response.status}\n"
        commands[name] = None if response.absent else text[-MOST_BYTES:]
        if response.status is None and not response.absent:
            unknown[name] = str(response.note)
    replica = read(REPLICA)[0]
    module.exit_json(
        changed=False,
        files=files,
        programs={name: module.get_bin_path(name) for name in module.params["programs"]},
        commands=commands,
        unknown=unknown,
        booted_at=booted_at(
            read("/proc/stat")[0], read("/proc/1/stat")[0], os.sysconf("SC_CLK_TCK")
        ),
        replica=None if replica is None else replica.strip(),
    )


if __name__ == "__main__":
    main()
