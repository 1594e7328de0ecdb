#!/usr/bin/python
"""Ansible module: a file from the network, within a deadline and a limit of bytes."""

from __future__ import annotations

DOCUMENTATION = r"""
module: download
author: trueup contributors
version_added: "0.3.0"
short_description: Downloads a file within a deadline and a limit of bytes
description:
  - Replaces a file as a whole, and only by one with the given sha256.
  - M(ansible.builtin.get_url) waits for each byte anew, so that a server that sends one every few
    seconds holds it for ever, and it takes as many bytes as the server sends.
attributes:
  check_mode:
    support: full
    description: Nothing is downloaded.
  diff_mode:
    support: none
    description: It shows no difference.
  platform:
    support: full
    description: Linux.
    platforms: linux
extends_documentation_fragment:
  - trueup_options.download
  - ansible.builtin.files
"""

EXAMPLES = r"""
- name: Download the archive
  download:
    url: https://mirror.example/hpcx.tbz
    dest: /var/cache/trueup/hpcx.tbz
    checksum: sha256:2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae
    mode: "0644"
"""

RETURN = r"""
dest:
  description: Where the file is.
  returned: always
  type: str
checksum:
  description: The sha256 of the file; empty in check mode where it would be downloaded.
  returned: success
  type: str
"""

import os
import tempfile
from http.client import HTTPException

from ansible.module_utils.trueup_node import bounded_http
from ansible.module_utils.trueup_node.options import Option, module_spec
from ansible.module_utils.trueup_node.run.answer import AnsibleModule
from ansible.module_utils.urls import ConnectionError as NoConnection
from ansible.module_utils.urls import open_url

OPTIONS = (
    Option("url", "Where it is.", required=True),
    Option("dest", "The absolute path that the file gets.", type="path", required=True),
    Option(
        "checksum",
        "V(sha256:) and 64 hexadecimal digits. Empty takes whatever comes.",
        "",
    ),
    Option("force", "Download also where a file without O(checksum) is there.", False),
    Option(
        "deadline_seconds",
        "Seconds from the name lookup to the last byte.",
        3600,
        least=1,
    ),
    Option("most_mib", "The limit of its size in MiB.", 8192, least=1),
)
# Between two bytes.
_SILENCE_SECONDS = 60


def _expected(module: AnsibleModule) -> str:
    """The sha256 that is wanted; empty where any is."""
    text: str = module.params["checksum"]
    kind, _, digits = text.partition(":")
    if text and (kind != "sha256" or len(digits) != 64):
        module.fail_json(msg=f"checksum is {text!r}; write sha256: and its 64 hexadecimal digits")
    return digits.lower()


def _downloaded(module: AnsibleModule, path: str) -> None:
    """Fill a file with the content of the address."""
    parameters = module.params
    try:
        with open(path, "wb") as stream:
            bounded_http.save(
                lambda: open_url(parameters["url"], timeout=_SILENCE_SECONDS, http_agent="trueup"),
                stream,
                parameters["deadline_seconds"],
                parameters["most_mib"] * 2**20,
            ).checked()
    except (OSError, HTTPException, NoConnection, ValueError) as error:
        module.fail_json(msg=str(error) or type(error).__name__)


def main() -> None:
    module = AnsibleModule(
        argument_spec=module_spec(OPTIONS), supports_check_mode=True, add_file_common_args=True
    )
    dest, expected = module.params["dest"], _expected(module)
    current_sha256 = module.sha256(dest) if os.path.isfile(dest) else ""
    keep = (
        current_sha256 == expected
        if expected
        else bool(current_sha256) and not module.params["force"]
    )
    if not keep and not module.check_mode:
        handle, part_file = tempfile.mkstemp(dir=module.tmpdir)
        os.close(handle)
        module.add_cleanup_file(part_file)
        _downloaded(module, part_file)
        new_sha256 = module.sha256(part_file)
        if expected and new_sha256 != expected:
            module.fail_json(
                msg=f"The checksum for {dest} did not match {expected}; it was {new_sha256}."
            )
        # Without a checksum the same content is no change.
        keep = new_sha256 == current_sha256
        if not keep:
            module.atomic_move(part_file, dest)
        current_sha256 = new_sha256
    changed = not keep
    if os.path.isfile(dest):
        arguments = module.load_file_common_arguments(module.params, path=dest)
        changed = module.set_fs_attributes_if_different(arguments, changed)
    module.exit_json(
        changed=changed,
        dest=dest,
        checksum="" if module.check_mode and not keep else current_sha256,
    )


if __name__ == "__main__":
    main()
