#!/usr/bin/env python3
"""Makes a replica of one of Azure's HPC images: a container that looks like it to trueup.

    replica.py ubuntu-22.04 --base localhost/trueup-node:TAG

builds it upon the base (a Debian with systemd) unless podman's store has it, and prints its name;
without a base it says what interpreter this machine lacks, if any. A replica is no image of
Azure's: docs/guides/images.md says what it cannot show.

common.yml and one file an image hold what a replica has (common.yml explains the entries); an
image's own win. Interpreters are pyenv's, copied in: Debian has neither 3.10 nor 3.12.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from trueup_node.node import nccl_topology

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
VENDOR = HERE.parent / "vendor_repo"
# By its path: a package of PyPI has the same name.
_SPEC = importlib.util.spec_from_file_location("vendor_build", VENDOR / "build.py")
vendor = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(vendor)

NAME = "localhost/trueup-replica"
# By it `make acceptance` knows a replica from an image.
MARK = "/etc/trueup-replica"
# A program that knows its version and nothing else.
SAYS = """\
#!/bin/sh
# Stand-in for tests.
case "$*" in
    --version|-v|version|-V) echo "{}" ;;
    *) echo "stand-in: no answer recorded for $(basename "$0") $*" >&2; exit 1 ;;
esac
"""
# Where there is no layout in the catalog, a file that a reader can tell from one that fits.
NO_LAYOUT = '<system version="1">\n</system>\n'
CONTAINERFILE = """\
FROM {base}
COPY tree /
COPY debs /tmp/debs
COPY rpms /tmp/rpms
COPY finish.sh selections /tmp/
RUN sh /tmp/finish.sh {hpcx}
CMD ["/sbin/init"]
"""


@dataclass(frozen=True)
class Entry:
    """What stands at a path: ``kind`` is file, folder or link; ``content`` is a file's text or a
    link's target."""

    kind: str
    mode: str
    content: str = ""


def images() -> list[str]:
    """The images there are replicas of."""
    return sorted(path.stem for path in HERE.glob("*.yml") if path.stem != "common")


def described(image: str) -> dict[str, Any]:
    """What common.yml, the image's file and the one that it is `like` say, all values filled in."""
    merged: dict[str, Any] = {}
    for read in _chain(image):
        for key, part in read.items():
            before = merged.get(key, [] if isinstance(part, list) else {})
            merged[key] = [*before, *part] if isinstance(part, list) else {**before, **part}
    # A version or value may name others.
    values = {**merged["values"], **merged["versions"]}
    values = _filled(values, values)
    filled: dict[str, Any] = _filled(merged, values)
    # The manifest ends with the image's own version, whatever another image's file added.
    filled["versions"]["ImageVersion"] = filled["versions"].pop("ImageVersion")
    return filled


def _chain(image: str) -> list[dict[str, Any]]:
    """common.yml and the files of the image, the most general first."""
    read: dict[str, Any] = yaml.safe_load((HERE / f"{image}.yml").read_text(encoding="utf-8"))
    like = read.pop("like", None if image == "common" else "common")
    return [*(_chain(like) if like else []), read]


def _filled(value: Any, values: dict[str, str]) -> Any:
    """``value`` with each ``@name@`` replaced, in keys too."""
    if isinstance(value, str):
        return re.sub(r"@([\w-]+)@", lambda match: str(values[match[1]]), value)
    if isinstance(value, list):
        return [_filled(member, values) for member in value]
    if isinstance(value, dict):
        return {_filled(key, values): _filled(member, values) for key, member in value.items()}
    return value


def planned(image: str) -> dict[str, Entry]:
    """Every path of the replica that its data give it, but those of packages."""
    data = described(image)
    offered = _offered("dnf")
    unpackaged: dict[str, Any] = {}
    for package in data.get("files_of", {}).items():
        unpackaged |= offered[package]["files"]
    files = {**unpackaged, **data["files"]}
    # What an image has not that it is like, is null.
    found = {path: _entry(given, data) for path, given in files.items() if given is not None}
    return {**found, MARK: Entry("file", "0644", f"{image}\n")}


def _entry(given: dict[str, Any], data: dict[str, Any]) -> Entry:
    if "link" in given:
        return Entry("link", "0777", given["link"])
    if given.get("folder"):
        return Entry("folder", given.get("mode", "0755"))
    if "says" in given:
        return Entry("file", "0755", SAYS.format(given["says"]))
    if given.get("versions"):
        return Entry("file", "0644", json.dumps(data["versions"], indent=2) + "\n")
    if "topology" in given:
        text = _topology(given["topology"])
        # The masks of an old image's.
        if "affinity" in given:
            text = re.sub('affinity="[^"]*"', f'affinity="{given["affinity"]}"', text)
        return Entry("file", "0644", text)
    return Entry("file", given.get("mode", "0644"), given["content"])


def _topology(layout: str) -> str:
    """The topology file of a layout of the catalog."""
    text = (ROOT / "catalog" / "topologies.yml").read_text(encoding="utf-8")
    layouts = nccl_topology.read_layouts(yaml.safe_load(text))
    if layout.endswith("-graph") and layout[: -len("-graph")] in layouts:
        return nccl_topology.generate_graphs(layouts[layout[: -len("-graph")]])
    return nccl_topology.generate(layouts[layout]) if layout in layouts else NO_LAYOUT


def packages(data: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    """The packages of a replica as vendor_repo/build.py takes them, each with its ``version``:
    the vendors' stand-ins where they offer that version, else names and relations."""
    offered: dict[tuple[str, str], dict[str, Any]] = {}
    for topic in vendor.topics():
        for package in (yaml.safe_load(topic.read_text(encoding="utf-8")) or {}).get(
            "packages", []
        ):
            for own in package.get({"debs": "apt", "rpms": "dnf"}[kind], []):
                offered[package["name"], own["version"]] = vendor.merged(package, own)
    wanted = []
    for name, given in data.get(kind, {}).items():
        found = offered.get((name, given["version"]), {"name": name, "files": {}})
        more = {key: value for key, value in given.items() if key != "version"}
        wanted.append({**found, **more, "version": given["version"]})
    return wanted


def _offered(way: str) -> dict[tuple[str, str], dict[str, Any]]:
    """The vendors' stand-ins for apt or dnf, by name and version."""
    read = [yaml.safe_load(topic.read_text(encoding="utf-8")) or {} for topic in vendor.topics()]
    return {
        (package["name"], own["version"]): vendor.merged(package, own)
        for topic in read
        for package in topic.get("packages", [])
        for own in package.get(way, [])
    }


def interpreter(minor: str) -> Path:
    """The folder of pyenv's newest Python of that series."""
    pyenv = shutil.which("pyenv")
    root = Path(vendor.run([pyenv, "root"]).strip()) if pyenv else Path("/nonexistent")
    versions = root.glob(f"versions/{minor}.*")
    there = sorted(versions, key=lambda path: [int(n) for n in re.findall("[0-9]+", path.name)])
    if not there:
        sys.exit(f"pyenv has no Python {minor} on this machine: pyenv install {minor}")
    return there[-1]


def put_python(minor: str, tree: Path, *, headers: bool) -> None:
    """That interpreter in /usr of ``tree``, as a distribution has it."""
    home = interpreter(minor)
    for folder in ("bin", "lib/x86_64-linux-gnu"):
        (tree / "usr" / folder).mkdir(parents=True, exist_ok=True)
    shutil.copy2(home / f"bin/python{minor}", tree / f"usr/bin/python{minor}")
    (library,) = (home / "lib").glob(f"libpython{minor}*.so.1.0")
    shutil.copy2(library, tree / "usr/lib/x86_64-linux-gnu")
    left_out = shutil.ignore_patterns("test", "site-packages", "idlelib", "turtledemo", "config-*")
    shutil.copytree(
        home / f"lib/python{minor}", tree / f"usr/lib/python{minor}", symlinks=True, ignore=left_out
    )
    (tree / f"usr/lib/python{minor}/site-packages").mkdir(exist_ok=True)
    if headers:
        # 3.6 has a letter behind it.
        (include,) = (home / "include").glob(f"python{minor}*")
        shutil.copytree(include, tree / "usr/include" / include.name)


def write_tree(entries: dict[str, Entry], tree: Path) -> None:
    """Write the entries below ``tree``."""
    for path, entry in entries.items():
        place = tree / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        if entry.kind == "link":
            place.symlink_to(entry.content)
            continue
        if entry.kind == "folder":
            place.mkdir(parents=True, exist_ok=True)
        else:
            place.write_text(entry.content, encoding="utf-8")
        place.chmod(int(entry.mode, 8))


def tag(image: str, base: str) -> str:
    """The replica's name, which changes with all that goes into it."""
    data = described(image)
    read = [HERE / "replica.py", HERE / "finish.sh", VENDOR / "build.py", *vendor.topics()]
    parts = [
        base,
        json.dumps(data, sort_keys=True),
        repr(sorted(planned(image).items())),
        *(path.read_text(encoding="utf-8") for path in read),
        *(str(interpreter(minor)) for minor in sorted(set(data["pythons"].values()))),
    ]
    return f"{NAME}-{image}:{hashlib.sha256(chr(0).join(parts).encode()).hexdigest()[:12]}"


def make(image: str, base: str, name: str) -> None:
    """Build the replica ``name``."""
    data = described(image)
    with tempfile.TemporaryDirectory(prefix="trueup-replica-") as folder:
        context = Path(folder)
        tree = context / "tree"
        for one in ("tree", "debs", "rpms"):
            (context / one).mkdir(mode=0o755)
        for minor in sorted(set(data["pythons"].values())):
            put_python(minor, tree, headers=minor in data["python_headers"])
        write_tree(planned(image), tree)
        for kind, build in (("debs", vendor.make_deb), ("rpms", vendor.make_rpm)):
            for package in packages(data, kind):
                build(package, package["version"], context / kind)
        (context / "selections").write_text(_selections(data), encoding="utf-8")
        shutil.copy(HERE / "finish.sh", context)
        text = CONTAINERFILE.format(base=base, hpcx=data["values"]["hpcx"])
        (context / "Containerfile").write_text(text, encoding="utf-8")
        argv = ["podman", "build", "--quiet", "--isolation=chroot", "--network=host"]
        vendor.run([*argv, "--tag", name, str(context)])


def _selections(data: dict[str, Any]) -> str:
    """What finish.sh reads, a verb and its object a line: units, holds, lines to append."""
    lines = [f"enable {unit}" for unit in data["enabled"]]
    lines += [f"mask {unit}" for unit in data.get("masked", [])]
    lines += [f"hold {package}" for package in data.get("holds", [])]
    lines += [
        f"version {source} {version}" for source, version in data.get("versions_of", {}).items()
    ]
    lines += [
        f"append {path} {line}"
        for path, text in data["appended"].items()
        for line in text.splitlines()
    ]
    # A Debian has no alternatives of python3; EL's leads through there.
    lines += [
        f"python {program} {data.get('python_links', {}).get(program, f'python{minor}')}"
        for program, minor in data["pythons"].items()
        if program != f"python{minor}"
    ]
    return "".join(f"{line}\n" for line in lines)


def main() -> None:
    """Build unless it is there."""
    parser = argparse.ArgumentParser(description="Make a replica; print its name.")
    parser.add_argument("image", choices=images())
    parser.add_argument("--base", help="the image in podman's store to build upon")
    asked = parser.parse_args()
    if not asked.base:
        # What is lacking is printed, with status 0. Another status is a fault of this program, and
        # no reason to skip the scenario.
        try:
            for minor in described(asked.image)["pythons"].values():
                interpreter(minor)
        except SystemExit as lacking:
            print(lacking)
        return
    name = tag(asked.image, asked.base)
    there = ["podman", "image", "exists", name]
    if subprocess.run(there, check=False).returncode != 0:  # noqa: S603 (argv of this file)
        make(asked.image, asked.base, name)
    print(name)


if __name__ == "__main__":
    main()
