"""Build the collection ``trueup.azure_hpc`` from this checkout, reproducibly.

    python collection/build.py FOLDER          (make collection)

Tracked files are taken as they are in the checkout and get the collection's paths, imports and full
names. Files of this folder (README, meta, requirements of the system) go with them.
"""

from __future__ import annotations

import ast
import gzip
import hashlib
import io
import json
import re
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import tomllib
import yaml
from pages import NAME, fragments, of_action, whole, without
from trueup_controller.role_folders import role_folders
from trueup_controller.settings import ANSIBLE

ROOT = Path(__file__).parents[1]
# The role whose defaults are the variables of all plays and roles. It has no tasks.
SETTINGS = f"{NAME}.settings"
# Packages by their folder in the checkout, and the folder of plugins/ that holds them.
_PACKAGES = {
    "module_utils/trueup_node": "module_utils",
    "controller/trueup_controller": "plugin_utils",
    "analysis/trueup_analysis": "plugin_utils",
}
_KINDS = ("action", "callback", "filter", "inventory")
# Playbooks of a checkout alone: its lab, and a machine that pulls the checkout.
_CHECKOUT_ONLY = (
    *("playbooks/lab.yml", "playbooks/tasks/lab_nodes.yml", "playbooks/vars/lab_packages.yml"),
    "playbooks/pull.yml",
)
# Files of this folder for the build and for images alone.
_BUILD_ONLY = (
    *("build.py", "pages.py", "galaxy.yml", "ignore.txt"),
    *("Containerfile", "execution-environment.yml"),
)
_TAKEN = ("playbooks", "catalog", "LICENSE", "CHANGELOG.md")
_RENAMED = {
    "playbooks/group_vars/all.yml": "roles/settings/defaults/main.yml",
    "site.yml": "playbooks/site.yml",
}
_COMMAND = '''"""The command ``trueup`` of this collection: python trueup_command.py health DIR."""

from __future__ import annotations

import sys
import types
from importlib import import_module
from pathlib import Path

if __name__ == "__main__":
    root = types.ModuleType("ansible_collections")
    root.__path__ = [str(Path(__file__).parents[4])]
    sys.modules[root.__name__] = root
    package = f"ansible_collections.{'.'.join(Path(__file__).parts[-5:-3])}.plugins.plugin_utils"
    sys.exit(import_module(f"{package}.trueup_analysis.__main__").main())
'''
_TASK_LISTS = frozenset(
    ("tasks", "pre_tasks", "post_tasks", "handlers", "block", "rescue", "always")
)
_ROLE_ACTIONS = frozenset(("ansible.builtin.include_role", "ansible.builtin.import_role"))
_LINK = re.compile(r"\[([^\]]+)\]\(\.\./[^)]*\)")

Edit = tuple[int, int, str]


def edited(text: str, edits: Iterable[Edit]) -> str:
    """The text with pieces replaced: begin, end and the new text of each."""
    for begin, end, new in sorted(edits, reverse=True):
        text = text[:begin] + new + text[end:]
    return text


# ---- Python -------------------------------------------------------------------------------------


def adapted(text: str) -> str:
    """A module whose imports name the packages in the collection, and whose unused variables have
    the name of Ansible's coding guidelines: `dummy` instead of `_`.

    Raises:
        ValueError: ``import trueup_node``: only ``from ... import`` has a form for both.
    """
    starts = [0]
    for line in text.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    edits: list[Edit] = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import) and any(_moved(each.name) for each in node.names):
            message = f"line {node.lineno}: write `from ... import`"
            raise ValueError(message)
        if isinstance(node, ast.ImportFrom) and not node.level and node.module:
            new = _moved(node.module)
            if new:
                begin = starts[node.lineno - 1] + node.col_offset + len("from ")
                edits.append((begin, begin + len(node.module), new))
        if isinstance(node, ast.arg | ast.Name) and "_" in vars(node).values():
            begin = starts[node.lineno - 1] + node.col_offset
            edits.append((begin, begin + 1, "dummy"))
    raw = text.encode()
    for begin, end, new in sorted(edits, reverse=True):
        raw = raw[:begin] + new.encode() + raw[end:]
    return raw.decode()


def _moved(module: str) -> str:
    """A module of trueup's packages by its name in the collection; empty of any other module."""
    short = module.removeprefix("ansible.module_utils.")
    for folder, place in _PACKAGES.items():
        package = folder.rpartition("/")[2]
        if short == package or short.startswith(f"{package}."):
            return f"ansible_collections.{NAME}.plugins.{place}.{short}"
    return ""


# ---- YAML ---------------------------------------------------------------------------------------


class Names:
    """Full names of modules, roles and filters in playbooks and roles."""

    def __init__(self, modules: Iterable[str], filters: Iterable[str]) -> None:
        self._modules = frozenset(modules)
        self._filter = re.compile(rf"(\|\s*)({'|'.join(sorted(filters))})\b")

    def in_text(self, text: str) -> str:
        """A template or file of variables with full names of filters."""
        return self._filter.sub(rf"\1{NAME}.\2", text)

    def in_tasks(self, text: str) -> str:
        """A playbook or file of tasks with full names; a play gets the settings' role."""
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        edits = list(self._of_tasks(node, text))
        return self.in_text(edited(text, edits))

    def _of_tasks(self, node: Any, text: str) -> Iterator[Edit]:
        for task in getattr(node, "value", None) or ():
            members = {key.value: (key, value) for key, value in task.value}
            for name, (key, value) in members.items():
                if name in self._modules:
                    yield key.start_mark.index, key.end_mark.index, f"{NAME}.{name}"
                if name in _TASK_LISTS:
                    yield from self._of_tasks(value, text)
                if name in _ROLE_ACTIONS:
                    yield from (
                        _prefixed(each, text)
                        for label, each in value.value
                        if label.value == "name"
                    )
                if name == "roles":
                    yield from (_prefixed(each, text) for each in value.value)
                if name == "ansible.builtin.import_playbook":
                    file = value.value.removeprefix("playbooks/")
                    yield value.start_mark.index, value.end_mark.index, file
            if "hosts" in members and "roles" not in members:
                end = text.index("\n", members["hosts"][1].end_mark.index - 1)
                yield end, end, f"\n  roles:\n    - {SETTINGS}"


def _prefixed(node: Any, text: str) -> Edit:
    """A role's name with the collection's before it, within its quotes."""
    begin = node.start_mark.index + (text[node.start_mark.index] in "\"'")
    return begin, begin, f"{NAME}."


# ---- the files ----------------------------------------------------------------------------------


def contents() -> dict[str, bytes]:
    """The collection's files by path."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"],  # noqa: S607 WHY: the git of the caller
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split("\0")
    tracked = [path for path in listed if path and not (ROOT / path).is_symlink()]
    modules = {Path(path).stem for path in tracked if _is_module(path)}
    actions = {Path(path).stem for path in tracked if _is_plugin(path, "action")}
    filters = re.findall(
        r'^ +"(trueup_\w+)":', _read("plugins/filter/trueup_filters.py"), re.MULTILINE
    )
    names = Names(modules | actions, filters)
    pages = fragments()
    files: dict[str, bytes] = {}
    for path in tracked:
        target = target_of(path)
        if target is None:
            continue
        raw = (ROOT / path).read_bytes()
        files[target] = _rewritten(path, target, raw, names, pages)
        if _is_plugin(path, "action") and Path(path).stem not in modules:
            files[f"plugins/modules/{Path(path).name}"] = of_action(
                raw.decode(), names.in_tasks
            ).encode()
    files["plugins/plugin_utils/trueup_command.py"] = _COMMAND.encode()
    files["requirements.txt"] = _requirements().encode()
    for minor in range(ANSIBLE[0][1], ANSIBLE[1][1] + 1):
        files[f"tests/sanity/ignore-2.{minor}.txt"] = _ignored(files, minor).encode()
    return dict(sorted(files.items()))


def target_of(path: str) -> str | None:
    """The path in the collection of a file of the checkout; None of one that stays here."""
    if path in _CHECKOUT_ONLY:
        return None
    for folder, place in _PACKAGES.items():
        if path.startswith(f"{folder}/"):
            return f"plugins/{place}/{path.partition('/')[2]}"
    pure = PurePosixPath(path)
    top, *inner = pure.parts
    if top == "library":
        return f"plugins/modules/{pure.name}" if _is_module(path) else None
    if top == "plugins":
        return f"plugins/{inner[0]}/{pure.name}" if inner[0] in _KINDS else None
    if top == "roles":
        return _role_path(path)
    if top == "collection":
        return None if pure.name in _BUILD_ONLY else "/".join(inner)
    if path in _RENAMED or top in _TAKEN:
        return _RENAMED.get(path, path)
    return None


def _role_path(path: str) -> str:
    """Roles of all groups lie side by side."""
    for role, folder in role_folders(ROOT / "roles").items():
        inner = f"{folder.relative_to(ROOT)}/"
        if path.startswith(inner):
            return f"roles/{role}/{path.removeprefix(inner)}"
    message = f"{path} is in no role"
    raise ValueError(message)


def _rewritten(
    path: str, target: str, raw: bytes, names: Names, pages: Callable[[str], dict[str, Any]]
) -> bytes:
    """A file as the collection has it."""
    pure = PurePosixPath(target)
    if pure.parts[0] == "plugins" and pure.suffix == ".py":
        try:
            text = adapted(raw.decode())
        except ValueError as error:
            message = f"{path}: {error}"
            raise ValueError(message) from error
        if pure.parts[1] == "action":
            text = without(text)
        if pure.parts[1] in ("modules", *_KINDS):
            text = whole(text, pages, names.in_tasks)
        return text.encode()
    if pure.parts[0] not in ("playbooks", "roles") or pure.suffix not in (".yml", ".j2", ".md"):
        return raw
    text = raw.decode()
    if pure.suffix == ".md":
        return _LINK.sub(r"\1", text).encode()
    if target.endswith("/meta/main.yml"):
        return f"{text.rstrip()}\ndependencies:\n  - role: {SETTINGS}\n".encode()
    is_tasks = pure.parts[0] == "playbooks" and "group_vars" not in pure.parts
    if pure.suffix == ".yml" and (is_tasks or {"tasks", "handlers"} & set(pure.parts)):
        return names.in_tasks(text).encode()
    return names.in_text(text).encode()


def _is_module(path: str) -> bool:
    return path.startswith("library/") and path.endswith(".py")


def _is_plugin(path: str, kind: str) -> bool:
    return path.startswith(f"plugins/{kind}/") and path.endswith(".py")


def _read(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def _project() -> dict[str, Any]:
    project: dict[str, Any] = tomllib.loads(_read("pyproject.toml"))["project"]
    return project


def _ignored(files: Iterable[str], minor: int) -> str:
    """Exceptions of ansible-test sanity of ansible-core 2.MINOR, with their reasons. A line that
    begins with a release, ``2.21:``, holds from that release on."""
    licence = "validate-modules:missing-gplv3-license # the licence is MIT"
    kinds = tuple(f"plugins/{kind}/" for kind in ("modules", "callback", "inventory"))
    pages = [path for path in files if path.startswith(kinds)]
    lines = []
    for line in _read("collection/ignore.txt").splitlines():
        since = re.match(r"2\.(\d+): ", line)
        if since is None or int(since[1]) <= minor:
            lines.append(line.removeprefix(since[0] if since else ""))
    return "\n".join([*lines, *(f"{path} {licence}" for path in pages), ""])


def _requirements() -> str:
    """The libraries of the plays and the command, with those of reports and of Azure."""
    project = _project()
    extras = project["optional-dependencies"]
    names = {*project["dependencies"], *extras["report"], *extras["azure"]}
    return "\n".join([*sorted(names), ""])


# ---- the archive --------------------------------------------------------------------------------


def archive(files: dict[str, bytes]) -> bytes:
    """The collection as ansible-galaxy installs it, without times and owners."""
    listed: list[dict[str, Any]] = [_entry(".", None)]
    folders = sorted({str(parent) for path in files for parent in PurePosixPath(path).parents})
    listed += [_entry(folder, None) for folder in folders if folder != "."]
    listed += [_entry(path, content) for path, content in files.items()]
    names = _json({"files": listed, "format": 1})
    info = yaml.safe_load(_read("collection/galaxy.yml"))
    manifest = {
        "collection_info": {**info, "version": _project()["version"]},
        "file_manifest_file": {**_entry("FILES.json", names), "format": 1},
        "format": 1,
    }
    raw = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=raw, mode="wb", mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for folder in folders:
            if folder != ".":
                member = tarfile.TarInfo(folder)
                member.type, member.mode = tarfile.DIRTYPE, 0o755
                tar.addfile(member)
        for path, content in {
            "MANIFEST.json": _json(manifest),
            "FILES.json": names,
            **files,
        }.items():
            member = tarfile.TarInfo(path)
            member.size, member.mode = len(content), 0o644
            tar.addfile(member, io.BytesIO(content))
    return raw.getvalue()


def _entry(path: str, content: bytes | None) -> dict[str, Any]:
    """A line of FILES.json; content None: a folder."""
    if content is None:
        kind, checksum = "dir", None
    else:
        kind, checksum = "file", hashlib.sha256(content).hexdigest()
    kinds = {"chksum_type": checksum and "sha256", "chksum_sha256": checksum}
    return {"name": path, "ftype": kind, **kinds, "format": 1}


def _json(value: Any) -> bytes:
    return json.dumps(value, indent=1).encode()


def main() -> None:
    """Write the archive into the folder of the command line, and print its checksum."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    made = archive(contents())
    path = folder / f"{NAME.replace('.', '-')}-{_project()['version']}.tar.gz"
    path.write_bytes(made)
    print(f"{hashlib.sha256(made).hexdigest()}  {path}")


if __name__ == "__main__":
    main()
