"""Archives of evidence (module node_evidence) in a folder of the controller.

An archive is a node's: it is never opened here. Beside it stands a description (JSON) by which a
report names the machine.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import os
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from trueup_node import record as records
from trueup_node.errors import BadInput
from trueup_node.node import evidence

if TYPE_CHECKING:
    from collections.abc import Mapping

SCHEMA: Final = "trueup.evidence/1"
MOST_BYTES: Final = 32 << 20
_MOST_RECORDS: Final = 40
_MOST_TEXT: Final = 300
_GZIP: Final = b"\x1f\x8b"


def newest_records(results: Path, node: str) -> list[dict[str, Any]]:
    """The node's newest records, the last first."""
    newest: list[dict[str, Any]] = []
    for run in reversed(records.run_counts(str(results))):
        rows = [row for _, row, _ in records.read_records(str(results / run), node) if row]
        newest += sorted(rows, key=lambda row: str(row["started_at"]), reverse=True)
        if len(newest) >= _MOST_RECORDS:
            break
    return newest[:_MOST_RECORDS]


def write(folder: Path, node: str, answer: Mapping[str, Any]) -> dict[str, Any]:
    """Write the archive of a module's answer and its description.

    Returns:
        The description: ``schema``, ``node`` (its name), ``time`` (UTC), ``archive`` (file name),
        ``sha256``, ``bytes``, ``machine`` (physical host, ids) and ``missing`` (part to problem).

    Raises:
        BadInput: the answer holds no archive, or it cannot be written.
    """
    try:
        archive = base64.b64decode(str(answer["archive"]), validate=True)
    except (KeyError, binascii.Error) as error:
        raise BadInput(f"{node} returned no archive: {error}") from error
    if not archive.startswith(_GZIP) or len(archive) > MOST_BYTES:
        raise BadInput(f"{node} returned {len(archive)} bytes that are no archive of evidence")
    moment = time.gmtime()
    stem = f"{time.strftime('%Y%m%dT%H%M%SZ', moment)}-{re.sub(r'[^A-Za-z0-9._-]', '_', node)}"
    name = f"{stem}.tar.gz"
    known = {part for part, _ in (*evidence.PROGRAMS, *evidence.FILES)}
    description = {
        "schema": SCHEMA,
        "node": node,
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", moment),
        "archive": name,
        "sha256": hashlib.sha256(archive).hexdigest(),
        "bytes": len(archive),
        "machine": {key: _text(answer["node"].get(key)) for key in evidence.IDENTITY},
        "missing": {
            str(part["name"]): _text(part["problem"])
            for part in answer["parts"]
            if part["problem"] and part["name"] in known
        },
    }
    text = json.dumps(description, indent=1, sort_keys=True) + "\n"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        # The description last: where it stands, the archive is whole.
        _write(folder / name, archive)
        _write(folder / f"{stem}.json", text.encode())
    except OSError as error:
        raise BadInput(f"{folder}: the evidence cannot be written: {error.strerror}") from error
    return description


def _text(value: Any) -> str | None:
    """A node's word, short and on one line; None for anything but a text."""
    if not isinstance(value, str):
        return None
    return "".join(filter(str.isprintable, value))[:_MOST_TEXT]


def _write(path: Path, content: bytes) -> None:
    """A whole file, on the disk, or none."""
    part = path.with_name(f".{path.name}.part")
    handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(handle, "wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
    part.replace(path)
