"""apt's and dnf's failures as one sentence with what, where and the mend."""

from __future__ import annotations

import json
import re
from typing import Any, Callable, Dict, List, Mapping, Sequence, Tuple, Union

_Context = Mapping[str, Any]


def _no_space(text: str, context: _Context) -> str:
    where = re.search(
        r"on the (/\S*) filesystem|free space in (/\S+?)\.?(?:\s|$)|data for '[^']+' to '(/[^']+)/",
        text,
    )
    folder = next(group for group in where.groups() if group) if where else "/, /usr or /var"
    return (
        f"There is no space left for the packages {context['names']} in {folder}: free some there"
        f" (`{context['clean']}` empties the package cache), or give the file system more."
    )


def _altered(text: str, context: _Context) -> str:
    name = re.search(r"/([A-Za-z0-9.+-]+?)(?:_[^/\s]*\.deb|-\d[^/\s]*\.rpm)", text)
    what = f"the package {name.group(1)}" if name else f"a file of {context['names']}"
    return (
        f"In the repository {context['repository']} {what} has another hash than the signed index"
        f" says: nothing was installed. The repository or mirror was altered or is being"
        f" written to: bring the mirror up to date, or point url at another."
    )


def _unreachable(text: str, context: _Context) -> str:
    cause = re.search(
        r"(Could not resolve[^\n,']*|Connection (?:refused|timed out)|404 +Not Found"
        r"|File not found[^\n]*?(?=\s\(|\n|$)|does not have a Release file"
        r"|Cannot download repomd\.xml)",
        text,
    )
    return (
        f"The repository {context['repository']} cannot be read"
        f" ({cause.group(1).strip() if cause else 'no answer'}): check url and the node's way out"
        f" (proxy, firewall, name service), or point url at a mirror."
    )


def _missing(text: str, context: _Context) -> str:
    lacking = [
        pin
        for pin in context["pins"]
        if pin["name"] in text and not _is_offered(pin, context["offered"])
    ]
    parts = []
    for pin in lacking:
        versions = ", ".join(context["offered"].get(pin["name"], [])) or "no version of it"
        parts.append(f"{pin['name']} {pin['version']} is not offered (offered: {versions})")
    return (
        f"{'; '.join(parts) or 'A package is not offered: ' + _last_line(text)}, by the repository"
        f" {context['repository']}: pin a version that is offered, or bring the mirror up to date."
    )


def _is_offered(pin: Mapping[str, str], offered: Mapping[str, Sequence[str]]) -> bool:
    pattern = re.escape(pin["version"]).replace(r"\*", ".*")
    return any(re.fullmatch(pattern, version) for version in offered.get(pin["name"], []))


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else "no message"


_LOCKED = (
    "Another {manager} holds the lock of the package database: wait until it has ended (unattended"
    " upgrades after a boot take minutes), raise vendor_packages_lock_timeout_seconds, or end it;"
    " then run again."
)
_WRONG_KEY = (
    "The repository {repository} is not signed by the key that was given (fingerprint"
    " {fingerprint}): nothing was installed from it. Set key_url and key_fingerprint to those of"
    " the key that signs it; if they are right, the repository was altered."
)
_HELD = (
    "To install {names}, a held package would have to change: see which with `{holds}`, release it,"
    " or set vendor_packages_replace_held to true."
)
_DOWNGRADE = (
    "To install {names}, a package would have to go back to an older version: set"
    " vendor_packages_downgrade_allowed to true, or pin the newer version."
)
# What a failure shows, and its sentence. The first that matches is the cause; what others print as
# its consequence comes after it.
_SIGNS: Tuple[Tuple[str, Union[str, Callable[[str, _Context], str]]], ...] = (
    (
        "No space left on device|have enough free space|more space needed on|Not enough free space",
        _no_space,
    ),
    (
        (
            "Could not get lock|Unable to acquire the dpkg frontend lock|Failed to lock apt"
            "|lockfile is held|Failed to obtain (?:the )?(?:transaction )?lock"
        ),
        _LOCKED,
    ),
    (
        (
            "NO_PUBKEY|(?:BAD|EXPKEY|REVKEY)SIG|is not signed|signatures were invalid"
            "|GPG check FAILED|Failed to validate GPG signature"
        ),
        _WRONG_KEY,
    ),
    ("Hash Sum mismatch|unexpected size|[Cc]hecksum doesn't match|incorrect checksum", _altered),
    (
        (
            r"No packages? matching|No package \S+ available|no available installation candidate"
            r"|Version '[^']+' for '[^']+' was not found|Unable to locate package"
        ),
        _missing,
    ),
    ("without --allow-change-held-packages", _HELD),
    ("without --allow-downgrades", _DOWNGRADE),
    (
        (
            "Could not resolve|Connection (?:refused|timed out)|404 +Not Found"
            "|Cannot download repomd|does not have a Release file|Failed to fetch"
            "|Failed to download metadata|Failed to update apt cache"
        ),
        _unreachable,
    ),
)


def sentence_of(
    result: Any,
    pins: Sequence[Mapping[str, str]],
    package_manager: str,
    repository: Mapping[str, str],
    offers: str = "",
) -> str:
    """One sentence or two about a failed transaction.

    Args:
        result: what the module apt or dnf returned, or its text.
        pins: what was to be installed.
        package_manager: ``apt`` or ``dnf``.
        repository: its ``name``, ``url`` and ``key_fingerprint``; or empty.
        offers: a line ``name | version | ...`` for each offered package and version.
    """
    text = _text(result)
    offered: Dict[str, List[str]] = {}
    for line in offers.splitlines():
        fields = [field.strip() for field in line.split("|")]
        if len(fields) >= 2:
            version = fields[1].removeprefix("0:")
            offered.setdefault(fields[0], []).append(version)
    name = repository.get("name")
    context = {
        "manager": package_manager,
        "pins": pins,
        "names": ", ".join(f"{pin['name']} {pin['version']}" for pin in pins),
        "repository": f"{name} ({repository.get('url')})" if name else "that the node has",
        "fingerprint": repository.get("key_fingerprint", "none"),
        "offered": offered,
        "clean": "apt-get clean" if package_manager == "apt" else "dnf clean all",
        "holds": "apt-mark showhold" if package_manager == "apt" else "dnf versionlock list",
    }
    for signs, sentence in _SIGNS:
        if re.search(signs, text):
            if isinstance(sentence, str):
                return sentence.format_map(context)
            return sentence(text, context)
    return (
        f"{package_manager} did not install {context['names']} from the repository"
        f" {context['repository']}: {_last_line(text)}"
    )


def _text(result: Any) -> str:
    if isinstance(result, str):
        return result
    # A loop's result holds one result an item.
    parts = [result, *result.get("results", [])]
    keys = ("msg", "failures", "stdout", "stderr")
    found = [part[key] for part in parts for key in keys if part.get(key)]
    return "\n".join(one if isinstance(one, str) else json.dumps(one) for one in found)
