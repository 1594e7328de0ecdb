"""apt's and dnf's failures as one sentence with problem, address and fix."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Callable

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
    file = f"the package {name.group(1)}" if name else f"a file of {context['names']}"
    return (
        f"In the repository {context['repository']} {file} has another hash than the signed index"
        f" says: nothing was installed. The repository or mirror was altered or is being"
        f" written to: bring the mirror up to date, or point"
        f" {'url' if context['given'] else context['sources']} at another."
    )


def _unreachable(text: str, context: _Context) -> str:
    cause = re.search(
        r"(Could not (?:resolve|connect)[^\n,']*|[Cc]onnection (?:refused|timed out|failed)"
        r"|\b[45]\d\d +(?:Not Found|Forbidden|Internal Server Error|Service Unavailable)"
        r"|Curl error \(\d+\): [^\n]{0,300}?(?= for )|Status code: \d+"
        r"|Operation (?:too slow|timed out)[^\n,']*"
        r"|File not found[^\n]*?(?=\s\(|\n|$)|does not have a Release file"
        r"|Cannot download repomd\.xml)",
        text,
    )
    url = re.search(r"(?:https?|ftp|file)://?[^\s'\",)]+", text)
    has_url = "url" in context["given"]
    where = f" ({url.group(0)})" if url and not has_url else ""
    return (
        f"The repository {context['repository']}{where} cannot be read"
        f" ({cause.group(1).strip() if cause else 'no answer'}): check"
        f" {'url and ' if has_url else ''}the node's way out (proxy, firewall, name service), or"
        f" point {'url' if has_url else context['sources']} at a mirror."
    )


def _missing(text: str, context: _Context) -> str:
    lacking = [
        pin
        for pin in context["pins"]
        if pin["name"] in text and not _is_offered(pin, context["offered"])
    ]
    parts = []
    if lacking and not any(pin["version"] for pin in lacking):
        return (
            f"{', '.join(pin['name'] for pin in lacking)}: not offered by any repository that the"
            f" node has; point {context['sources']} at one that has it, or install it by hand."
        )
    for pin in lacking:
        versions = ", ".join(context["offered"].get(pin["name"], [])) or "no version of it"
        parts.append(f"{pin['name']} {pin['version']} is not offered (offered: {versions})")
    return (
        f"{'; '.join(parts) or 'A package is not offered: ' + _last_line(text)}, by the repository"
        f" {context['repository']}: pin a version that is offered, or bring the mirror up to date."
    )


def _conflict(text: str, context: _Context) -> str:
    pair = re.search(r"- (?:package )?(\S+) conflicts with \S+ provided by (\S+)", text)
    reason = f" ({pair.group(1)} conflicts with {pair.group(2)})" if pair else ""
    return (
        f"To install {context['names']}, another package would have to be removed{reason}:"
        f" nothing was changed. Where the node can do without it, remove it there by hand, and"
        f" then run again."
    )


def _is_offered(pin: Mapping[str, str], offered: Mapping[str, Sequence[str]]) -> bool:
    pattern = re.escape(pin["version"]).replace(r"\*", ".*")
    return any(re.fullmatch(pattern, version) for version in offered.get(pin["name"], []))


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else "no message"


def _locked(text: str, context: _Context) -> str:
    more = ", raise vendor_packages_lock_timeout_seconds" if context["given"] else ""
    return (
        f"{holder(text)}, and {context['manager']} has waited{context['waited']} for it: wait until"
        f" it has ended (unattended upgrades after a boot take minutes){more}, or end it; then run"
        f" again."
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
_LOCK_SIGNS = (
    "Could not get lock|Unable to acquire the dpkg frontend lock|Failed to lock apt"
    "|Unable to lock (?:the administration )?directory|can't create transaction lock"
    "|lockfile is held|Failed to obtain (?:the )?(?:transaction )?lock"
)
_MISSING_SIGNS = (
    r"Unable to find a match|No match for argument|has no installation candidate"
    r"|Version '[^']+' for '[^']+' was not found|Unable to locate package"
)
_INTERRUPTED_SIGNS = "dpkg was interrupted|dpkg --configure -a"
_INTERRUPTED = (
    "dpkg was interrupted on the node, and `dpkg --configure -a` did not end what it had begun: run"
    " it there, mend what it names, and run again."
)
# Patterns of failures, and their sentences. The first match is the cause; messages of its
# consequences come after it.
_SIGNS: tuple[tuple[str, str | Callable[[str, _Context], str]], ...] = (
    (
        "No space left on device|have enough free space|more space needed on|Not enough free space",
        _no_space,
    ),
    (_LOCK_SIGNS, _locked),
    (
        (
            "NO_PUBKEY|(?:BAD|EXPKEY|REVKEY)SIG|is not signed|signatures were invalid"
            "|GPG check FAILED|Failed to validate GPG signature"
        ),
        _WRONG_KEY,
    ),
    ("Hash Sum mismatch|unexpected size|[Cc]hecksum doesn't match|incorrect checksum", _altered),
    (_MISSING_SIGNS, _missing),
    (
        _INTERRUPTED_SIGNS,
        _INTERRUPTED,
    ),
    ("without --allow-change-held-packages", _HELD),
    ("without --allow-downgrades", _DOWNGRADE),
    (
        r"- (?:package )?\S+ conflicts with \S+ provided by|E: Packages need to be removed",
        _conflict,
    ),
    (
        (
            "Could not (?:resolve|connect)|[Cc]onnection (?:refused|timed out|failed)"
            "|404 +Not Found|Status code: [45]|Cannot (?:download|prepare)|No more mirrors to try"
            "|does not have a Release file|Failed to fetch|Failed to download"
            "|index files failed to download"
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
        result: the result of the module apt or dnf, or its text.
        pins: the packages to install.
        package_manager: ``apt`` or ``dnf``.
        repository: its ``name``, ``url`` and ``key_fingerprint``; or empty.
        offers: a line ``name | version | ...`` for each offered package and version.
    """
    text = _text(result)
    waited = None if isinstance(result, str) else result.get("waited_seconds")
    offered: dict[str, list[str]] = {}
    for line in offers.splitlines():
        fields = [field.strip() for field in line.split("|")]
        if len(fields) >= 2:
            version = fields[1].removeprefix("0:")
            offered.setdefault(fields[0], []).append(version)
    name = repository.get("name")
    context = {
        "manager": package_manager,
        "pins": pins,
        "names": ", ".join(f"{pin['name']} {pin['version']}".rstrip() for pin in pins),
        "repository": f"{name} ({repository.get('url')})" if name else "that the node has",
        "given": repository,
        "sources": (
            "/etc/apt/sources.list and /etc/apt/sources.list.d"
            if package_manager == "apt"
            else "/etc/yum.repos.d"
        ),
        "waited": f" {waited} s" if waited else "",
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


def is_locked(result: Any) -> bool:
    """Whether it failed since another program holds a lock."""
    return re.search(_LOCK_SIGNS, _text(result)) is not None and not re.search(
        _SIGNS[0][0], _text(result)
    )


def is_unclear(result: Any) -> bool:
    """Whether it may have failed since a repository cannot be read, and does not say which: dnf may
    pass over such a repository."""
    text = _text(result)
    return bool(re.search("Unable to find a match", text)) and not (
        re.search(_SIGNS[0][0], text) or "://" in text
    )


def is_known(text: str) -> bool:
    """Whether there is a sentence for it."""
    return any(re.search(signs, text) for signs, _ in _SIGNS)


def is_missing(result: Any) -> bool:
    """Whether a package, or its version, is in no list that the node has."""
    return re.search(_MISSING_SIGNS, _text(result)) is not None


def is_interrupted(result: Any) -> bool:
    """Whether it failed since dpkg was interrupted before, at whatever it did."""
    return re.search(_INTERRUPTED_SIGNS, _text(result)) is not None


def holder(result: Any) -> str:
    """Who holds which lock, as far as apt says it."""
    held = re.search(r"lock (/\S+?)\.? It is held by process (\d+) \(([^()\n]*)\)", _text(result))
    if held is None:
        return "Another program holds a lock of the package database"
    return f"Process {held.group(2)} ({held.group(3)}) of the node holds {held.group(1)}"


def _text(result: Any) -> str:
    if isinstance(result, str):
        return result
    # A loop's result holds one result an item.
    parts = [result, *result.get("results", [])]
    keys = ("msg", "failures", "stdout", "stderr")
    texts = [
        single_result[key] for single_result in parts for key in keys if single_result.get(key)
    ]
    return "\n".join(text if isinstance(text, str) else json.dumps(text) for text in texts)
