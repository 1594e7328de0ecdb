"""A download that failed, as one sentence with what, where and the mend."""

from __future__ import annotations

import os
import re
from typing import Any, Mapping

_CAUSES = (
    r"<urlopen error ([^>]*)>",
    r"HTTP Error (\d+[^\n]*)",
    r"(timed out|[Cc]onnection (?:refused|failure|reset)[^\n]*)",
)


def sentence_of(answer: Mapping[str, Any], url: str, dest: str, variable: str) -> str:
    """Why the module download failed.

    Args:
        answer: what it returned.
        url: where from.
        dest: the file that it was to write.
        variable: the role's variable that another address may stand in.
    """
    told = [str(answer[key]) for key in ("msg", "response") if answer.get(key)]
    said = " ".join(": ".join(told).split()) or "it said nothing"
    if re.search(r"No space left on device|Errno 28\b|Disk quota exceeded", str(answer)):
        return (
            f"There is no space left for {url} on the file system of {os.path.dirname(dest)}, or of"
            f" Ansible's temporary folder: free some there, then run again."
        )
    sums = re.search(r"checksum for .* did not match (\w+); it was (\w+)", said)
    if sums:
        return (
            f"{url} gave a file of another sha256: expected {sums.group(1)}, found {sums.group(2)}."
            f" It was cut short on its way or altered, and is not used: run again; if it stays so,"
            f" bring the mirror up to date, or set {variable}."
        )
    found = [match for match in (re.search(cause, said) for cause in _CAUSES) if match]
    cause = found[0].group(1) if found else said
    return (
        f"{url} could not be downloaded ({cause[:200]}): check the way there (proxy, firewall, name"
        f" service), or set {variable} to an address that answers."
    )
