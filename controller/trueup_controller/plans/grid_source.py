"""The source of a GRID driver, and the controller's cache for it: Azure's manifest, and the sha256
of drivers for which nobody publishes one."""

from __future__ import annotations

import hashlib
from pathlib import Path

from trueup_node.errors import BadInput

# The host whose word is taken for a file that nobody publishes a sha256 of.
MICROSOFT = "https://download.microsoft.com/"


def manifest_path(manifest: str, sha256: str) -> tuple[Path, bool]:
    """Where the manifest is on the controller, and whether it comes from elsewhere."""
    if "://" in manifest:
        return Path.home() / f".trueup-grid-{sha256[:12]}", True
    return Path(manifest).expanduser(), False


def read_manifest(path: Path, sha256: str) -> str:
    """The manifest's text.

    Raises:
        BadInput: it cannot be read, or is another one.
    """
    try:
        content = path.read_bytes()
        text = content.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(str(error)) from error
    actual_sha256 = hashlib.sha256(content).hexdigest()
    if actual_sha256 != sha256.lower():
        raise BadInput(
            f"the driver manifest {path} has the sha256 {actual_sha256}, expected {sha256}"
        )
    return text


def kept(name: str) -> Path:
    """A file of the controller about a driver: ``.trueup-grid-`` and ``name``."""
    return Path.home() / f".trueup-grid-{name}"
