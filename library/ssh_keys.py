#!/usr/bin/python
"""Ansible module: keys with which the nodes of one run reach each other by ssh."""

from __future__ import annotations

DOCUMENTATION = r"""
module: ssh_keys
author: trueup contributors (@trueup)
version_added: "0.9.0"
short_description: Makes a run's ssh keys between its nodes, and takes them away
description:
  - V(made) makes a key on the node, which never leaves it, and says what the others need to know
    of the node. V(present) lets in the O(peers) of the run, and no others of ours. V(absent) takes
    away what this and any earlier run left.
  - It writes in the user's C(.ssh) - lines of C(authorized_keys) that end with the run's mark, hold
    for one node's addresses, forward nothing and expire after eight days; a block at the top of
    C(config); and files that begin with C(trueup-run-). Other lines are kept as they are.
attributes:
  check_mode:
    support: full
    description: No key is made in check mode, and no file changed.
  platform:
    support: full
    description: Any with OpenSSH 7.7 or newer.
    platforms: linux
extends_documentation_fragment: trueup_options.ssh_keys
"""

EXAMPLES = r"""
- name: Remove the keys of runs
  ssh_keys:
    state: absent
"""

RETURN = r"""
peer:
  description: Of V(made), what the others need to know.
  returned: with V(made), but not in check mode
  type: dict
  contains:
    names: {description: As O(names)., type: list, elements: str}
    addresses: {description: The node's addresses., type: list, elements: str}
    public_key: {description: Its public key of the run., type: str}
    host_keys: {description: The host keys of its sshd., type: list, elements: str}
reachable:
  description: Of V(made), whether O(next) answers ssh without a password and with a known host key.
  returned: with V(made)
  type: bool
removed:
  description: What earlier runs, or this one, had left here and is gone.
  returned: always
  type: list
  elements: str
"""

import contextlib
import glob
import os
import tempfile
import time
from typing import Any, Dict, List

from ansible.module_utils.trueup_node.errors import TrueupError
from ansible.module_utils.trueup_node.node import ssh_keys, tools
from ansible.module_utils.trueup_node.options import Option, module_spec
from ansible.module_utils.trueup_node.run.answer import AnsibleModule

OPTIONS = (
    Option("state", "What is to be.", choices=("made", "present", "absent"), required=True),
    Option("run_id", "The run; not needed for V(absent).", ""),
    Option("names", "Of V(made), what the other nodes call this one.", []),
    Option("next", "Of V(made), a node to try ssh to as it is; empty for none.", ""),
    Option(
        "peers",
        "Of V(present), what V(made) returned as C(peer) on all nodes.",
        [],
        elements="dict",
    ),
    Option("folder", "The user's folder.", "~/.ssh", type="path"),
)

HOST_KEYS = "/etc/ssh/ssh_host_*_key.pub"
EXPIRE_SECONDS = 8 * 24 * 3600
REACH_SECONDS = 20


def text_of(path: str) -> str:
    """A file's text; empty where there is none. Bytes that are no UTF-8 stay as they are."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as stream:
            return stream.read()
    except FileNotFoundError:
        return ""


def put(module: AnsibleModule, path: str, text: str) -> bool:
    """Give a file this text, whole or not at all, with owner and mode as they were (0600 if new);
    remove it where the text is empty. Whether that changed it."""
    if text_of(path) == text:
        return False
    if module.check_mode:
        return True
    real = os.path.realpath(path)
    if not text:
        _unlink(real)
        return True
    new = not os.path.exists(real)
    handle, temporary = tempfile.mkstemp(prefix=".trueup-", dir=os.path.dirname(real))
    with os.fdopen(handle, "w", encoding="utf-8", errors="surrogateescape") as stream:
        stream.write(text)
    module.atomic_move(temporary, real)
    if new:
        os.chmod(real, 0o600)
    return True


def _unlink(path: str) -> None:
    # Another node may share the folder.
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def remove(module: AnsibleModule, folder: str, kept_name: str = "") -> List[str]:
    """Remove the files of earlier runs, but not those of the run ``kept_name``."""
    removed = []
    for name in ("authorized_keys", "config"):
        path = os.path.join(folder, name)
        if put(module, path, ssh_keys.without(text_of(path))):
            removed.append(path)
    for path in sorted(glob.glob(os.path.join(glob.escape(folder), f"{ssh_keys.MARK}*"))):
        if not kept_name or not os.path.basename(path).startswith(kept_name):
            removed.append(path)
            if not module.check_mode:
                _unlink(path)
    return removed


def make(module: AnsibleModule, folder: str, name: str) -> Dict[str, Any]:
    """The node's key, made unless it is there, and the facts for the others. Where nodes share the
    folder, the first one's key is that of all."""
    path = os.path.join(folder, name)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".trueup-", dir=folder) as aside:
        new = os.path.join(aside, "key")
        _keygen(module, "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", new)
        with contextlib.suppress(FileExistsError):
            os.link(new, path)
    addresses = tools.ask(module, ["hostname", "-I"])
    return {
        "names": module.params["names"],
        "addresses": addresses.output.split(),
        "public_key": _keygen(module, "-y", "-f", path),
        "host_keys": [text_of(key_path) for key_path in sorted(glob.glob(HOST_KEYS))],
    }


def _keygen(module: AnsibleModule, *arguments: str) -> str:
    response = tools.ask(module, ["ssh-keygen", *arguments])
    if not response.ok:
        module.fail_json(msg=f"ssh keys: none could be made: {response.note}")
    return response.output


def reachable(module: AnsibleModule, node: str) -> bool:
    """Whether a node answers without our help."""
    options = ("BatchMode=yes", "StrictHostKeyChecking=yes", "ConnectTimeout=10")
    argv = ["ssh", *(argument for option in options for argument in ("-o", option)), node, "true"]
    return tools.ask(module, argv, limit_seconds=REACH_SECONDS).ok


def main() -> None:
    module = AnsibleModule(
        argument_spec=module_spec(OPTIONS),
        supports_check_mode=True,
    )
    parameters = module.params
    folder = parameters["folder"]
    result: Dict[str, Any] = {"changed": False, "removed": []}
    try:
        if parameters["state"] == "absent":
            result["removed"] = remove(module, folder)
        elif parameters["state"] == "made":
            name = ssh_keys.mark(parameters["run_id"])
            result["removed"] = remove(module, folder, kept_name=name)
            result["reachable"] = bool(parameters["next"]) and reachable(module, parameters["next"])
            if not module.check_mode:
                result["peer"] = make(module, folder, name)
        else:
            peers = [ssh_keys.peer(facts) for facts in parameters["peers"]]
            day = time.strftime("%Y%m%d", time.localtime(time.time() + EXPIRE_SECONDS))
            plan = ssh_keys.plan(parameters["run_id"], peers, folder, day)
            known_hosts = os.path.join(folder, f"{ssh_keys.mark(parameters['run_id'])}.known_hosts")
            lines, config = (os.path.join(folder, name) for name in ("authorized_keys", "config"))
            put(module, known_hosts, plan.known_hosts)
            put(module, config, ssh_keys.with_block(text_of(config), plan.config))
            # Last: nobody comes in before the rest stands.
            put(module, lines, ssh_keys.with_lines(text_of(lines), plan.authorized))
    except TrueupError as error:
        module.fail_json(msg=str(error))
    except OSError as error:
        module.fail_json(msg=f"ssh keys: {error.filename}: {error.strerror}")
    module.exit_json(**result)


if __name__ == "__main__":
    main()
