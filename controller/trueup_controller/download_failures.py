"""The error message for a failed download: problem, address and fix in one sentence."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

_CAUSES = (
    r"<urlopen error ([^>]*)>",
    r"HTTP Error (\d+[^\n]*)",
    r"(timed out|[Cc]onnection (?:refused|failure|reset)[^\n]*)",
)


def sentence_of(response: Mapping[str, Any], url: str, dest: str, variable: str) -> str:
    """Why the module download failed.

    Args:
        response: the module's result.
        url: the address.
        dest: the target file.
        variable: the role's variable that can name another address.
    """
    texts = [str(response[key]) for key in ("msg", "response") if response.get(key)]
    message = " ".join(": ".join(texts).split()) or "it said nothing"
    if re.search(r"No space left on device|Errno 28\b|Disk quota exceeded", str(response)):
        return (
            f"There is no space left for {url} on the file system of {os.path.dirname(dest)}, or of"
            f" Ansible's temporary folder: free some there, then run again."
        )
    sums = re.search(r"checksum for .* did not match (\w+); it was (\w+)", message)
    if sums:
        return (
            f"{url} gave a file of another sha256: expected {sums.group(1)}, found {sums.group(2)}."
            f" It was cut short on its way or altered, and is not used: run again; if it stays so,"
            f" bring the mirror up to date, or set {variable}."
        )
    matches = [match for match in (re.search(cause, message) for cause in _CAUSES) if match]
    cause = matches[0].group(1) if matches else message
    return (
        f"{url} could not be downloaded ({cause[:200]}): check the way there (proxy, firewall, name"
        f" service), or set {variable} to an address that answers."
    )
