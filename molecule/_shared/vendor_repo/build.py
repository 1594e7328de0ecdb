#!/usr/bin/env python3
"""Makes the vendors' side for tests without internet: signed package repositories, archives, git.

Reads packages/*.yml beside this file and writes a folder ``vendor-<hash of all that>`` into the
given cache, unless it is there; prints its path. Nodes see it as /srv/vendor.

    key.asc, fingerprint        the key that signed the repositories; its secret half is gone
    other.asc, other.fingerprint   a key that signed nothing, for "wrong key"
    apt/                        flat repository: URIs file:///srv/vendor/apt/, Suites ./
    rpm/                        repository with signed packages and a signed index
    files/, files/SHA256SUMS    archives
    git/NAME.git, git/COMMITS   bare repositories of one commit each

The packages are stand-ins: real names, versions, dependencies, paths and units; no vendor's file.
A topic's file holds:

    packages:
      - name: nvidia-fabricmanager
        apt: [{version: "580.126.16-1"}]    # as apt names it; no key where it is not offered
        dnf: [{version: "3:580.126.20-1"}]  # [epoch:]version-release
        depends: [libfoo, "libbar (= {{full}})"]      # both formats; apt's notation
        conflicts: [other]
        files:
          /usr/bin/tool: {mode: "0755", content: "..."}
          /usr/lib/libx.so: {link: libx.so.1}
          /usr/share/large: {size: 8388608}             # bytes that do not compress
    archives:
      - name: hpcx.tbz                      # .tbz .tgz .txz and .tar.*: packed; else one file
        files: {"hpcx/init.sh": {mode: "0644", content: "..."}}
      - {name: driver.run, mode: "0755", content: "..."}
    repositories:
      - name: nccl-tests
        tag: v2.19.6
        files: {Makefile: {content: "..."}}

In a path, content or dependency ``{{version}}`` is the upstream version, ``{{full}}`` the whole. A
version's own mapping may hold depends, conflicts and files too; they are added.
"""

from __future__ import annotations

import argparse
import bz2
import gzip
import hashlib
import io
import lzma
import os
import random
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).resolve().parent
# Everything is dated like this, so that the same input gives the same archives and commits.
EPOCH = "1767225600"
DATE = "2026-01-01T00:00:00+00:00"
SUMMARY = "Stand-in for tests: {name}"
KEYS = {"key": "trueup tests", "other": "trueup tests, a key that signed nothing"}


def run(argv: list[str], **more: Any) -> str:
    """Run a tool; what it printed, or an error with both its outputs."""
    # No shell, and what is called stands in this file.
    done = subprocess.run(argv, capture_output=True, text=True, check=False, **more)  # noqa: S603
    if done.returncode != 0:
        sys.exit(f"{' '.join(argv)}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def topics() -> list[Path]:
    """The files that say what is offered."""
    return sorted((HERE / "packages").glob("*.yml"))


def digest() -> str:
    """What the folder is named after."""
    texts = [path.name.encode() + path.read_bytes() for path in [Path(__file__), *topics()]]
    return hashlib.sha256(b"\0".join(texts)).hexdigest()[:12]


def upstream(version: str) -> str:
    """The version without epoch and release."""
    return version.rpartition(":")[2].rpartition("-")[0] or version.rpartition(":")[2]


def filled(value: Any, version: str) -> Any:
    """``value`` with the placeholders of a version replaced, in keys too."""
    if isinstance(value, str):
        return value.replace("{{version}}", upstream(version)).replace("{{full}}", version)
    if isinstance(value, list):
        return [filled(member, version) for member in value]
    if isinstance(value, dict):
        return {filled(key, version): filled(member, version) for key, member in value.items()}
    return value


def write_tree(files: dict[str, Any], root: Path) -> None:
    """Write ``files`` below ``root``."""
    for name, entry in files.items():
        path = root / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        if "link" in entry:
            path.symlink_to(entry["link"])
            continue
        if "size" in entry:
            # Random, so that the package is as large as what it holds.
            content = random.Random(name).randbytes(entry["size"])  # noqa: S311 (no secret)
            path.write_bytes(content)
        else:
            path.write_text(entry["content"], encoding="utf-8")
        path.chmod(int(entry.get("mode", "0644"), 8))


def make_deb(package: dict[str, Any], version: str, out: Path) -> None:
    """One .deb in ``out``."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        root.chmod(0o755)
        write_tree(package.get("files", {}), root)
        fields = {
            "Package": package["name"],
            "Version": version,
            "Architecture": "amd64",
            "Maintainer": "trueup tests <tests@trueup.invalid>",
            "Depends": ", ".join(package.get("depends", [])),
            "Provides": ", ".join(package.get("provides", [])),
            "Conflicts": ", ".join(package.get("conflicts", [])),
            "Replaces": ", ".join(package.get("replaces", [])),
            "Description": SUMMARY.format(**package),
        }
        control = "".join(f"{key}: {value}\n" for key, value in fields.items() if value)
        (root / "DEBIAN").mkdir()
        (root / "DEBIAN" / "control").write_text(control, encoding="utf-8")
        run(["dpkg-deb", "--build", "--root-owner-group", "-Zgzip", str(root), str(out)])


def rpm_relation(text: str) -> str:
    """``libbar (= 1-2)`` as rpm writes it; dependencies on a whole version keep its release."""
    return re.sub(r"\s*\((\S+)\s+(\S+)\)", r" \1 \2", text)


def make_rpm(package: dict[str, Any], version: str, out: Path) -> None:
    """One unsigned .rpm below ``out``."""
    epoch, _, rest = version.rpartition(":")
    plain, _, release = rest.rpartition("-")
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        write_tree(package.get("files", {}), work / "root")
        listed = [
            f"%attr({entry.get('mode', '-')}, root, root) {path}" if "link" not in entry else path
            for path, entry in package.get("files", {}).items()
        ]
        lines = [
            f"Name: {package['name']}",
            *([f"Epoch: {epoch}"] if epoch else []),
            f"Version: {plain}",
            f"Release: {release}",
            f"Summary: {SUMMARY.format(**package)}",
            "License: MIT",
            "AutoReqProv: no",
            *(f"Requires: {rpm_relation(one)}" for one in package.get("depends", [])),
            *(f"Conflicts: {rpm_relation(one)}" for one in package.get("conflicts", [])),
            "%description",
            SUMMARY.format(**package),
            "%install",
            f"mkdir -p %{{buildroot}} {work}/root",
            f"cp -a {work}/root/. %{{buildroot}}/",
            "%files",
            *listed,
        ]
        spec = work / "package.spec"
        spec.write_text("\n".join(lines) + "\n", encoding="utf-8")
        macros = {
            "_topdir": str(work / "top"),
            "_rpmdir": str(out),
            "_build_id_links": "none",
            "__os_install_post": "%{nil}",
            "debug_package": "%{nil}",
            "_buildhost": "tests.trueup.invalid",
            "use_source_date_epoch_as_buildtime": "1",
        }
        defined = [word for key, value in macros.items() for word in ("--define", f"{key} {value}")]
        argv = ["rpmbuild", "-bb", "--target=x86_64", "--quiet", *defined, str(spec)]
        run(argv, env={**os.environ, "SOURCE_DATE_EPOCH": EPOCH})


def merged(package: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """The package as this version of it is."""
    whole = {
        "name": package["name"],
        "depends": package.get("depends", []) + own.get("depends", []),
        "conflicts": package.get("conflicts", []) + own.get("conflicts", []),
        "files": {**package.get("files", {}), **own.get("files", {})},
    }
    return {**filled(whole, own["version"])}


def make_key(name: str, home: Path, out: Path) -> str:
    """A key pair in ``home``; its public half and fingerprint in ``out``; the fingerprint."""
    user = f"{KEYS[name]} <{name}@trueup.invalid>"
    gpg = ["gpg", "--homedir", str(home), "--batch", "--quiet"]
    run([*gpg, "--passphrase", "", "--quick-generate-key", user, "rsa3072", "sign", "never"])
    listing = run([*gpg, "--with-colons", "--list-keys", user])
    fingerprint = re.findall(r"^fpr:{9}([0-9A-F]{40}):", listing, re.MULTILINE)[0]
    (out / f"{name}.asc").write_text(run([*gpg, "--armor", "--export", fingerprint]))
    suffix = "fingerprint" if name == "key" else f"{name}.fingerprint"
    (out / suffix).write_text(fingerprint + "\n")
    return str(fingerprint)


def make_apt(packages: list[dict[str, Any]], out: Path, home: Path, signer: str) -> None:
    """The flat apt repository in ``out``."""
    out.mkdir()
    jobs = [(merged(each, own), own["version"]) for each in packages for own in each.get("apt", [])]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda job: make_deb(*job, out), jobs))
    index = run(["apt-ftparchive", "packages", "."], cwd=out)
    (out / "Packages").write_text(index, encoding="utf-8")
    (out / "Packages.gz").write_bytes(gzip.compress(index.encode(), mtime=0))
    options = ["-o", "APT::FTPArchive::Release::Label=trueup stand-ins for tests"]
    release = run(["apt-ftparchive", *options, "release", "."], cwd=out)
    (out / "Release").write_text(release, encoding="utf-8")
    gpg = ["gpg", "--homedir", str(home), "--batch", "--local-user", signer]
    run([*gpg, "--clearsign", "--output", "InRelease", "Release"], cwd=out)
    run([*gpg, "--armor", "--detach-sign", "--output", "Release.gpg", "Release"], cwd=out)


def make_dnf(packages: list[dict[str, Any]], out: Path, home: Path, signer: str) -> None:
    """The rpm repository in ``out``."""
    out.mkdir()
    jobs = [(merged(each, own), own["version"]) for each in packages for own in each.get("dnf", [])]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda job: make_rpm(*job, out), jobs))
    made = sorted(str(path) for path in out.rglob("*.rpm"))
    if made:
        # Debian's rpm has no path of gpg in its macros.
        macros = (f"_gpg_name {signer}", f"__gpg {shutil.which('gpg')}")
        defined = [word for macro in macros for word in ("--define", macro)]
        run(["rpmsign", *defined, "--addsign", *made], env={**os.environ, "GNUPGHOME": str(home)})
    run(["createrepo_c", "--quiet", "--simple-md-filenames", str(out)])
    gpg = ["gpg", "--homedir", str(home), "--batch", "--local-user", signer]
    run([*gpg, "--armor", "--detach-sign", str(out / "repodata" / "repomd.xml")])


def make_archives(archives: list[dict[str, Any]], out: Path) -> None:
    """The archives and SHA256SUMS in ``out``."""
    out.mkdir()
    sums = []
    for archive in archives:
        path = out / archive["name"]
        path.parent.mkdir(parents=True, exist_ok=True)
        if "files" in archive:
            path.write_bytes(compressed(packed(archive["files"]), archive["name"]))
        else:
            path.write_text(archive["content"], encoding="utf-8")
            path.chmod(int(archive.get("mode", "0644"), 8))
        sums.append(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {archive['name']}\n")
    (out / "SHA256SUMS").write_text("".join(sums), encoding="utf-8")


def compressed(data: bytes, name: str) -> bytes:
    """``data`` compressed as the archive's ``name`` says, without the time of day."""
    if name.endswith("gz"):
        return gzip.compress(data, mtime=0)
    if name.endswith(("bz", "bz2")):
        return bz2.compress(data)
    if name.endswith("xz"):
        return lzma.compress(data)
    sys.exit(f"{name}: no compression of that name")


def packed(files: dict[str, Any]) -> bytes:
    """A tar archive of ``files``."""
    inner = io.BytesIO()
    with tarfile.open(fileobj=inner, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for name, entry in sorted(files.items()):
            member = tarfile.TarInfo(name)
            member.mtime = int(EPOCH)
            if "link" in entry:
                member.type, member.linkname = tarfile.SYMTYPE, entry["link"]
                tar.addfile(member)
                continue
            content = entry["content"].encode()
            member.size, member.mode = len(content), int(entry.get("mode", "0644"), 8)
            tar.addfile(member, io.BytesIO(content))
    return inner.getvalue()


def make_repositories(repositories: list[dict[str, Any]], out: Path) -> None:
    """The bare git repositories and COMMITS in ``out``."""
    out.mkdir()
    commits = []
    who = {"NAME": "trueup tests", "EMAIL": "tests@trueup.invalid", "DATE": DATE}
    fixed = {f"GIT_{role}_{k}": v for role in ("AUTHOR", "COMMITTER") for k, v in who.items()}
    environment = {
        **os.environ,
        **fixed,
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_SYSTEM": os.devnull,
    }
    for repository in repositories:
        with tempfile.TemporaryDirectory() as name:
            work = Path(name)
            write_tree(repository["files"], work)
            git = ["git", "-C", name, "-c", "core.autocrlf=false"]
            run(["git", "init", "--quiet", "--initial-branch=main", name], env=environment)
            run([*git, "add", "--all"], env=environment)
            message = SUMMARY.format(**repository)
            run([*git, "commit", "--quiet", "--no-gpg-sign", "-m", message], env=environment)
            if "tag" in repository:
                run([*git, "tag", repository["tag"]], env=environment)
            bare = out / f"{repository['name']}.git"
            run(["git", "clone", "--quiet", "--bare", name, str(bare)], env=environment)
            run(["git", "-C", str(bare), "remote", "remove", "origin"], env=environment)
            run(["git", "-C", str(bare), "update-server-info"], env=environment)
            commit = run([*git, "rev-parse", "HEAD"], env=environment).strip()
            commits.append(f"{commit}  {repository['name']}\n")
    (out / "COMMITS").write_text("".join(commits), encoding="utf-8")


def build(out: Path) -> None:
    """Everything, in the new folder ``out``."""
    read = [yaml.safe_load(path.read_text(encoding="utf-8")) or {} for path in topics()]
    offered = {
        kind: [each for topic in read for each in topic.get(kind) or []]
        for kind in ("packages", "archives", "repositories")
    }
    for kind, members in offered.items():
        names = [
            f"{member['name']} {way}"
            for member in members
            for way in ("apt", "dnf", "")
            if way in member or (not way and kind != "packages")
        ]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            sys.exit(
                f"{kind} {', '.join(twice)}: given by more than one topic; one has to give way"
            )
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        home.chmod(0o700)
        try:
            signer = make_key("key", home, out)
            make_key("other", home, out)
            make_apt(offered["packages"], out / "apt", home, signer)
            make_dnf(offered["packages"], out / "rpm", home, signer)
        finally:
            stop = ["gpgconf", "--homedir", str(home), "--kill", "gpg-agent"]
            subprocess.run(stop, check=False)  # noqa: S603 (as in run)
    for folder in ("apt", "rpm"):
        shutil.copy(out / "key.asc", out / folder / "key.asc")
    # A second address of the same: apt refuses one address that two sources name with other trust.
    (out / "doca").symlink_to("apt")
    make_archives(offered["archives"], out / "files")
    make_repositories(offered["repositories"], out / "git")


def main() -> None:
    """Build unless it is there."""
    parser = argparse.ArgumentParser(
        description="Make the test nodes' /srv/vendor; print where it is."
    )
    default = os.environ.get("TRUEUP_CACHE") or Path.home() / ".cache" / "trueup"
    parser.add_argument("--cache", type=Path, default=Path(default), help="where to keep it")
    cache = parser.parse_args().cache.resolve()
    there = cache / f"vendor-{digest()}"
    if not there.exists():
        cache.mkdir(parents=True, exist_ok=True)
        beside = Path(tempfile.mkdtemp(prefix=f"{there.name}.part-", dir=cache))
        try:
            beside.chmod(0o755)
            build(beside)
            beside.rename(there)
        except OSError:
            # Another build of the same was faster: a folder that is not empty is not replaced.
            if not there.exists():
                raise
        finally:
            shutil.rmtree(beside, ignore_errors=True)
    print(there)


if __name__ == "__main__":
    main()
