#!/usr/bin/python
"""Ansible module: the mounts at the paths of shared storage, and whether they answer."""

from __future__ import annotations

DOCUMENTATION = r"""
module: storage_facts
version_added: "0.6.0"
short_description: Looks at the mounts of shared storage without waiting for a lost server
description:
  - Says of each path what is mounted there with which options in force, from
    C(/proc/self/mountinfo), and whether the file system answers within O(answer_seconds). A path
    where nothing is mounted is looked at too - whether it is there, a folder, and empty.
  - Whatever could wait for a server is asked in a process of its own with a time limit.
extends_documentation_fragment: [trueup_facts, trueup_options.storage_facts]
"""

EXAMPLES = r"""
- name: Look at the mounts
  storage_facts:
    paths: [/shared]
"""

RETURN = r"""
ansible_facts:
  description: What was found, as the fact C(trueup_storage).
  returned: always
  type: dict
  contains:
    trueup_storage:
      description: >-
        Path to C(mount) (C(kind), C(source), C(options); null where nothing is mounted), C(answers)
        (null there), C(kind) of the path below (C(missing), C(folder), C(other), or C(silent) where
        it did not say in time; null where something is mounted), C(empty) (null unless it is a
        folder), and C(units) (units of the path that the role shared_storage has written, and their
        texts).
      type: dict
      returned: always
      sample:
        /shared:
          mount: {kind: nfs4, source: "10.1.0.4:/shared", options: [rw, hard]}
          answers: true
          kind: null
          empty: null
          units: {shared.mount: "# Written by trueup (role shared_storage)..."}
"""

import contextlib
import os
import subprocess
from typing import Any, Dict, Optional, Tuple

from ansible.module_utils.trueup_node.errors import BadInput
from ansible.module_utils.trueup_node.node import mounts
from ansible.module_utils.trueup_node.options import Option, module_spec
from ansible.module_utils.trueup_node.run.answer import AnsibleModule

OPTIONS = (
    Option("paths", "The mount points.", type="list", required=True),
    Option(
        "answer_seconds",
        "How long a mounted file system may take to say how full it is, in seconds.",
        10,
        least=None,
    ),
)

UNITS = "/etc/systemd/system"
# The first line of the role's units.
OURS = "# Written by trueup (role shared_storage)"
# Listing a path is instant, unless the path leads through another mount or the node is busy.
LOOK_SECONDS = 30


def mounted(path: str) -> Optional[mounts.Mount]:
    """The mount at the path itself; an automount that waits counts as such."""
    with open(mounts.MOUNTINFO, encoding="utf-8", errors="surrogateescape") as stream:
        table = mounts.read_mounts(stream.read())
    mount = mounts.mount_of(path, table)
    return mount if mount.point == path else None


def below(path: str) -> Tuple[str, Optional[bool]]:
    """Kind of a path where nothing is mounted, and whether a folder is empty."""
    # The first entry of a folder is enough, of whose millions may be.
    argv = ["find", path, "-maxdepth", "1", "-printf", "%d%y\n", "!", "-samefile", path, "-quit"]
    try:
        done = subprocess.run(  # noqa: S603 (the node's own find)
            argv,
            capture_output=True,
            text=True,
            check=False,
            timeout=LOOK_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return "silent", None
    lines = done.stdout.splitlines()
    if not lines:
        return "missing", None
    if lines[0] != "0d":
        return "other", None
    return "folder", len(lines) == 1


def answers(path: str, seconds: int) -> bool:
    """Whether the file system says how full it is; this also triggers a waiting automount."""
    try:
        return mounts.require_answer(path, seconds)
    except BadInput:
        return False


def units(path: str) -> Dict[str, str]:
    """Units of a path that the role has written, and their texts."""
    unit_texts = {}
    for name in (mounts.unit_name(path), mounts.unit_name(path, "automount")):
        with contextlib.suppress(FileNotFoundError):
            with open(os.path.join(UNITS, name), encoding="utf-8", errors="replace") as stream:
                text = stream.read()
            if text.startswith(OURS):
                unit_texts[name] = text
    return unit_texts


def look(path: str, seconds: int) -> Dict[str, Any]:
    """The facts of a path."""
    mount = mounted(path)
    answered = answers(path, seconds) if mount else None
    if mount and mount.kind == "autofs":
        mount = mounted(path)
    kind, empty = (None, None) if mount else below(path)
    return {
        "mount": {
            "kind": mount.kind,
            "source": mount.source,
            "options": list(mount.options),
        }
        if mount
        else None,
        "answers": answered,
        "kind": kind,
        "empty": empty,
        "units": units(path),
    }


def main() -> None:
    module = AnsibleModule(
        argument_spec=module_spec(OPTIONS),
        supports_check_mode=True,
    )
    parameters = module.params
    try:
        storage = {path: look(path, parameters["answer_seconds"]) for path in parameters["paths"]}
    except (BadInput, OSError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=False, ansible_facts={"trueup_storage": storage})


if __name__ == "__main__":
    main()
