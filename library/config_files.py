#!/usr/bin/python
"""Ansible module: the files, folders and links of a role, put in place in one step."""

from __future__ import annotations

DOCUMENTATION = r"""
module: config_files
author: trueup contributors
version_added: "0.3.0"
short_description: Puts a role's files, folders and links in place in one step
description:
  - As M(ansible.builtin.copy) and M(ansible.builtin.file) over a list, in one connection where a
    loop makes two for each file.
  - Every new content is on the node's disk before the first file is replaced, so that a full disk
    changes nothing. A file is replaced whole or not at all.
  - Folders above a path are made where they are missing, with mode 0755.
  - Where a unit or drop-in below C(/etc/systemd/system) changed, systemd reads them anew, so that
    what another program starts or restarts afterwards is as written.
  - The action of the same name reads a C(source), a file of the project such as
    C(roles/vllm/files/vllm_driver.py), on the controller and puts it behind O(files[].content). A
    plan names a program so and does not hold its text.
attributes:
  check_mode:
    support: full
    description: It changes nothing.
  diff_mode:
    support: full
    description: The text of each file before and after.
  platform:
    support: full
    description: Linux.
    platforms: linux
extends_documentation_fragment: trueup_options.config_files
"""

EXAMPLES = r"""
- name: Write the drop-in and make the stable link
  config_files:
    files:
      - path: /etc/modprobe.d/example.conf
        content: "blacklist nouveau\n"
      - {path: /opt/hpcx, state: link, target: /opt/hpcx-v2.25}
"""

RETURN = r"""
paths_changed:
  description: Which of the paths were not as given.
  returned: always
  type: list
  sample: [/etc/modprobe.d/example.conf]
"""

import base64
import contextlib
import os
import pwd
import stat
from collections.abc import Iterator
from typing import Any

from ansible.module_utils.trueup_node.options import Option, module_spec
from ansible.module_utils.trueup_node.run.answer import AnsibleModule

OPTIONS = (
    Option(
        "files",
        "What must be there, in this order.",
        type="list",
        required=True,
        fields=(
            Option("path", "Its absolute path.", type="path", required=True),
            Option(
                "state",
                "V(file) with O(files[].content), V(directory), V(link) to O(files[].target), or"
                " V(absent). A folder is never removed or replaced by anything else, and a file"
                " never by a link.",
                "file",
                choices=("file", "directory", "link", "absent"),
            ),
            Option("content", "The whole of a file."),
            Option("target", "Where a link leads. Nothing has to be there yet."),
            Option(
                "mode",
                "Permissions in octal, as a string. Empty means V(0644), and V(0755) for a folder.",
                "",
            ),
            Option(
                "owner",
                "The user whose file or folder it is, with that user's own group. Empty means the"
                " user that the module runs as.",
                "",
            ),
            Option(
                "encoding",
                "V(base64) where O(files[].content) is bytes in that form.",
                "text",
                choices=("text", "base64"),
            ),
        ),
    ),
)

_WANTED = {
    "file": "a file was to be",
    "directory": "a folder was to be",
    "link": "a link was to be",
    "absent": "nothing was to be",
}
_UNITS = "/etc/systemd/system/"
# sd_booted(3): systemd is the init of this system.
_BOOTED = "/run/systemd/system"
_MODES = {"file": "0644", "directory": "0755", "link": "", "absent": ""}


def main() -> None:
    """Compare, write all new contents beside their places, and then put them there."""
    spec = module_spec(OPTIONS)
    spec["files"]["required_if"] = [("state", "file", ("content",)), ("state", "link", ("target",))]
    module = AnsibleModule(
        argument_spec=spec,
        supports_check_mode=True,
        # The contents are not copied into the node's log.
        no_log=True,
    )
    files = module.params["files"]
    for entry in files:
        with _told(module, entry):
            entry["differs"] = _differs(module, entry)
    if not module.check_mode:
        _put(module, files)
    changed = [entry for entry in files if entry["differs"]]
    module.exit_json(
        changed=bool(changed),
        paths_changed=[entry["path"] for entry in changed],
        diff=[_diff(entry) for entry in changed],
        # Not the contents, which the controller has.
        invocation={"module_args": {"files": [entry["path"] for entry in files]}},
    )


def _differs(module: AnsibleModule, entry: dict[str, Any]) -> bool:
    """Whether the path differs from the request. Keeps the parts of the diff in the entry."""
    path, state = entry["path"], entry["state"]
    if not os.path.isabs(path):
        module.fail_json(msg=f"{path}: not an absolute path.")
    entry["mode"] = entry["mode"] or _MODES[state]
    entry["owner"] = _owner(module, entry)
    entry["bytes"] = _bytes(module, entry) if state == "file" else b""
    try:
        file_status = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        entry["before"] = "absent\n"
        return bool(state != "absent")
    kind = _KINDS.get(stat.S_IFMT(file_status.st_mode), "device, pipe or socket")
    if kind != state and (kind not in ("file", "link") or (kind, state) in _KEPT):
        module.fail_json(
            msg=f"{path} is a {kind} where {_WANTED[state]}: move it away and run again."
        )
    if kind == "link":
        entry["before"] = f"link to {os.readlink(path)}\n"
        return bool(state != "link" or os.readlink(path) != entry["target"])
    mode = f"{stat.S_IMODE(file_status.st_mode):04o}"
    owner = f"{file_status.st_uid}:{file_status.st_gid}"
    entry["before"] = f"{kind}, mode {mode}, owner {owner}\n"
    attributes_differ = int(mode, 8) != int(entry["mode"] or mode, 8) or owner != entry["owner"]
    if state != "file":
        return bool(state == "absent" or attributes_differ)
    with open(path, "rb") as stream:
        content = stream.read()
    entry["before"] += content.decode("utf-8", "replace")
    return bool(attributes_differ or content != entry["bytes"])


_KINDS = {stat.S_IFDIR: "directory", stat.S_IFLNK: "link", stat.S_IFREG: "file"}
# A file may be the only copy of something, so a link or folder does not take its place.
_KEPT = {("file", "link"), ("file", "directory"), ("link", "directory")}


def _owner(module: AnsibleModule, entry: dict[str, Any]) -> str:
    """User and group by number. In check mode a package that brings the user may not be there."""
    name = entry["owner"]
    if not name:
        return f"{os.geteuid()}:{os.getegid()}"
    try:
        user = pwd.getpwnam(name)
    except KeyError:
        if module.check_mode:
            return f"{name}:{name}"
        module.fail_json(msg=f"{entry['path']}: there is no user {name} whose file it could be.")
    return f"{user.pw_uid}:{user.pw_gid}"


def _bytes(module: AnsibleModule, entry: dict[str, Any]) -> bytes:
    if entry["encoding"] == "text":
        text: str = entry["content"]
        return text.encode()
    try:
        return base64.b64decode("".join(entry["content"].split()), validate=True)
    except ValueError:
        # Without the text, which may be a key.
        module.fail_json(msg=f"{entry['path']}: its content is not base64.")
        raise


def _put(module: AnsibleModule, files: list[dict[str, Any]]) -> None:
    differing = [entry for entry in files if entry["differs"]]
    # A new file is for nobody else to read until it has its owner and mode: it may be a key.
    umask = os.umask(0o077)
    try:
        for entry in differing:
            with _told(module, entry):
                if entry["state"] != "absent":
                    _make_folders(module, os.path.dirname(entry["path"]))
                if entry["state"] == "file":
                    entry["written"] = _write_beside(module, entry["path"], entry["bytes"])
        for entry in differing:
            with _told(module, entry):
                _put_one(module, entry)
    finally:
        os.umask(umask)
    if any(entry["path"].startswith(_UNITS) for entry in differing) and os.path.isdir(_BOOTED):
        module.run_command(["systemctl", "daemon-reload"], check_rc=True)


def _put_one(module: AnsibleModule, entry: dict[str, Any]) -> None:
    path, state = entry["path"], entry["state"]
    if state == "absent":
        os.unlink(path)
        return
    if state == "link":
        # Under another name first: the path always leads somewhere.
        aside = f"{path}.trueup-new"
        if os.path.islink(aside):
            os.unlink(aside)
        os.symlink(entry["target"], aside)
        try:
            os.replace(aside, path)
        except OSError:
            os.unlink(aside)
            raise
        module.set_default_selinux_context(path, False)
        return
    if state == "file":
        if os.path.islink(path):
            # The link itself is replaced, where atomic_move would follow it.
            os.replace(entry["written"], path)
            module.set_default_selinux_context(path, False)
        else:
            _move(module, entry["written"], path)
    elif not os.path.isdir(path):
        os.mkdir(path)
        module.set_default_selinux_context(path, False)
    user, group = map(int, entry["owner"].split(":"))
    os.chown(path, user, group)
    module.set_mode_if_different(path, entry["mode"], False)


def _move(module: AnsibleModule, beside: str, path: str) -> None:
    try:
        module.atomic_move(beside, path)
    except Exception as error:
        # ansible-core 2.19 raises nothing but that where the system refuses.
        if isinstance(error.__cause__, OSError):
            raise error.__cause__ from None
        raise


def _make_folders(module: AnsibleModule, folder: str) -> None:
    if os.path.isdir(folder):
        return
    _make_folders(module, os.path.dirname(folder))
    os.mkdir(folder)
    module.set_default_selinux_context(folder, False)
    # Whatever the umask of this process is, others may read the configuration.
    os.chmod(folder, 0o755)  # noqa: S103


def _write_beside(module: AnsibleModule, path: str, content: bytes) -> str:
    # One name for each path: the next run removes a file that lost power leaves there.
    beside = os.path.join(os.path.dirname(path), f".{os.path.basename(path)}.trueup-new")
    with contextlib.suppress(FileNotFoundError):
        os.unlink(beside)
    number = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    module.add_cleanup_file(beside)
    with os.fdopen(number, "wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
    return beside


def _diff(entry: dict[str, Any]) -> dict[str, str]:
    after = {
        "absent": "absent\n",
        "link": f"link to {entry['target']}\n",
        "directory": f"directory, mode {entry['mode']}, owner {entry['owner']}\n",
        "file": f"file, mode {entry['mode']}, owner {entry['owner']}\n{entry['content']}",
    }[entry["state"]]
    return {
        "before_header": entry["path"],
        "after_header": entry["path"],
        "before": entry["before"],
        "after": after,
    }


@contextlib.contextmanager
def _told(module: AnsibleModule, entry: dict[str, Any]) -> Iterator[None]:
    """Report an operation that the system refuses with its path."""
    try:
        yield
    except OSError as error:
        module.fail_json(
            msg=f"{entry['path']}: {error.strerror or error}. No file was replaced by half; mend it"
            " and run again."
        )


if __name__ == "__main__":
    main()
