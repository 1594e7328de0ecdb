"""Vendors' packages: installed versions against pinned ones, and keys by fingerprint.

No Ansible, files or network in here; the module ``vendor_repository`` asks dpkg, rpm and gpg and
passes their output.
"""

from __future__ import annotations

import fnmatch
import re
from typing import Any, Dict, List, Mapping, Sequence, Tuple

from ..errors import BadInput, ParseError

# One line a package; rpm's empty epoch is "(none)".
DPKG_FORMAT = "${Package} ${db:Status-Status} ${Version}\\n"
RPM_FORMAT = "%{NAME} installed %{EPOCHNUM}:%{VERSION}-%{RELEASE}\\n"


def verified_only(node: Mapping[str, Any]) -> bool:
    """Whether a node's packages are compared and never changed: those of Enterprise Linux 8, whose
    dnf has bindings for Python 3.6 alone, where ansible-core 2.17 needs 3.7."""
    release = str(node.get("distribution_version") or "").partition(".")[0]
    return node.get("package_manager") == "dnf" and release == "8"


def not_provided(status: int, output: str, names: Sequence[str]) -> List[str]:
    """Those of ``names`` that nothing installed provides, by ``rpm --query --whatprovides``; all of
    them where it failed and does not say which."""
    if status == 0:
        return []
    missing_names = set(re.findall(r"(?m)^no package provides (\S+)", output))
    return [name for name in names if name in missing_names] or list(names)


def cannot_be_installed(missing: Sequence[str], system: str) -> str:
    """The message for systems where ``verified_only`` holds."""
    words = " ".join(missing)
    return (
        f"{', '.join(missing)}: not installed, and no module can install packages on {system} (its"
        f" dnf has bindings for Python 3.6 alone): install by hand with `dnf install {words}`, or"
        " use Enterprise Linux 9; then run again."
    )


def key_fingerprints(listing: str) -> List[str]:
    """The fingerprints of the primary keys in the output of ``gpg --show-keys --with-colons``.

    Raises:
        ParseError: there is no key in it.
    """
    fingerprints = []
    primary = False
    for line in listing.splitlines():
        fields = line.split(":")
        if fields[0] in ("pub", "sub"):
            primary = fields[0] == "pub"
        elif fields[0] == "fpr" and primary and len(fields) > 9:
            fingerprints.append(fields[9])
            primary = False
    if not fingerprints:
        raise ParseError("gpg shows no key in it")
    return fingerprints


def fingerprint_of(text: str) -> str:
    """A fingerprint as gpg writes it, from one with blanks or in lower case.

    Raises:
        BadInput: it is not 40 hexadecimal digits; a short key id is forged in seconds.
    """
    plain = re.sub(r"\s", "", text).upper()
    if not re.fullmatch(r"[0-9A-F]{40}", plain):
        raise BadInput(f"the fingerprint {text!r} is not 40 hexadecimal digits")
    return plain


def parse_dpkg(text: str) -> Dict[str, str]:
    """Installed packages and versions, from ``dpkg-query --show`` in ``DPKG_FORMAT``."""
    return _installed(text)


def parse_rpm(text: str) -> Dict[str, str]:
    """Installed packages and versions, from ``rpm --query`` in ``RPM_FORMAT``.

    A package that is not installed has a sentence instead of a line of three words.
    """
    return _installed(text)


def _installed(text: str) -> Dict[str, str]:
    rows = [line.split() for line in text.splitlines()]
    return {row[0]: row[2] for row in rows if len(row) == 3 and row[1] == "installed"}


def parse_versionlock(text: str, names: Sequence[str]) -> Dict[str, List[str]]:
    """The locks of ``dnf versionlock list`` on ``names``: name -> versions with epoch.

    A line is ``name-epoch:version-release.*``; an excluded one begins with ``!``.
    """
    locks: Dict[str, List[str]] = {}
    for line in text.splitlines():
        match = re.fullmatch(r"(\S+)-(\d+:[^-\s]+-\S+?)(?:\.\*)?", line.strip())
        if match and match.group(1) in names:
            locks.setdefault(match.group(1), []).append(match.group(2))
    return locks


def transactions(package_manager: str, pins: Sequence[Mapping[str, Any]]) -> List[List[str]]:
    """The arguments of apt or dnf to install, one transaction after the other: the pins that are
    ``first``, and the others."""
    separator = "=" if package_manager == "apt" else "-"
    parts = [[pin for pin in pins if bool(pin.get("first")) is first] for first in (True, False)]
    return [
        [f"{pin['name']}{separator}{pin['version']}" for pin in group] for group in parts if group
    ]


def hold_packages(package_manager: str, names: Sequence[str], *, can_hold: bool) -> List[str]:
    """The package that holds ``names``, where it is missing: dnf's plugin."""
    missing = package_manager == "dnf" and names and not can_hold
    return ["python3-dnf-plugin-versionlock"] if missing else []


def hold_commands(
    package_manager: str, names: Sequence[str], stale: Sequence[str]
) -> List[List[str]]:
    """The commands that hold packages at their versions.

    Args:
        package_manager: apt or dnf.
        names: the packages; none, no command.
        stale: those that dnf locks at another version.
    """
    if not names:
        return []
    if package_manager == "apt":
        return [["apt-mark", "hold", *names]]
    lock = ["dnf", "--quiet", "versionlock"]
    return [
        *([[*lock, "delete", *stale]] if stale else []),
        [*lock, "add", *names],
    ]


def offers_command(package_manager: str, names: Sequence[str]) -> List[str]:
    """The command that prints a line ``name | version | ...`` for each version that is offered."""
    if package_manager == "apt":
        return ["apt-cache", "madison", *names]
    query = "--queryformat=%{name} | %{epoch}:%{version}-%{release}"
    return ["dnf", "--quiet", "--disableplugin=versionlock", "repoquery", query, *names]


def without_epoch(version: str) -> str:
    """The version without an epoch that says nothing (``0:``)."""
    return re.sub("^0:", "", version)


def satisfies(installed: str, pinned: str) -> bool:
    """Whether what is installed is what is pinned; ``*`` at a pin's end is any release. Nothing is
    installed where the version is empty."""
    return bool(installed) and fnmatch.fnmatchcase(without_epoch(installed), without_epoch(pinned))


def compared_part(installed: str, pinned: str) -> Tuple[str, str]:
    """Both versions to the same depth, for asking which is newer."""
    if not pinned.endswith("*"):
        return installed, pinned
    stem = pinned.rstrip("*").rstrip("-")
    return (installed.rpartition("-")[0] if pinned.endswith("-*") else installed), stem


def signer_of(text: str, url: str) -> str | None:
    """Who signs the repository ``url`` by a text of apt's sources (one-line or deb822 format).

    The path after signed-by; empty where the text names the repository without one; None where it
    does not name it. apt stops altogether when two sources give one repository different signers.
    """
    repository_url = url.rstrip("/")
    for stanza in re.split(r"\n\s*\n", text):
        lines = [line for line in stanza.splitlines() if not line.lstrip().startswith("#")]
        for line in lines:
            kind, *rest = re.sub(r"\[[^][]*\]", " ", line).split() or [""]
            if kind in ("deb", "deb-src") and rest and rest[0].rstrip("/") == repository_url:
                option = re.search(r"signed-by=([^\s\]]+)", line, re.IGNORECASE)
                return option.group(1) if option else ""
        fields = dict(line.split(":", 1) for line in lines if re.match(r"[A-Za-z-]+:", line))
        fields = {name.lower(): value.strip() for name, value in fields.items()}
        if repository_url in [uri.rstrip("/") for uri in fields.get("uris", "").split()]:
            return fields.get("signed-by", "")
    return None


def source_text(package_manager: str, repository: Mapping[str, str], key: str) -> str:
    """The file that names the repository to apt (deb822) or dnf, with the key at ``key``."""
    head = "# Written by trueup (role vendor_packages).\n"
    name, url = repository["name"], repository["url"].rstrip("/") + "/"
    if package_manager == "apt":
        lines = {
            "Types": "deb",
            "URIs": url,
            "Suites": repository.get("suite") or "/",
            # A suite of a flat repository ends in "/" and has none.
            **({"Components": repository["components"]} if repository.get("components") else {}),
            "Signed-By": key,
        }
        return head + "".join(f"{field}: {value}\n" for field, value in lines.items())
    options = {
        "name": name,
        "baseurl": url,
        "enabled": "1",
        "gpgcheck": "1",
        "gpgkey": f"file://{key}",
        # Seconds: a version published today is seen today; dnf's own is 48 hours.
        "metadata_expire": "3600",
        # A repository that is away is said so; a distribution's dnf may pass over it.
        "skip_if_unavailable": "0",
        # The pins say which versions; a module's stream would hide some of them.
        "module_hotfixes": "1",
    }
    return head + f"[trueup-{name}]\n" + "".join(f"{k}={v}\n" for k, v in options.items())
