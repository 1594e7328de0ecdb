"""Parser of the output of trueup's program for copying files to Blob storage.

Its last line on standard output is ``trueup-blob_copy {...}``
(roles/blob_checkpoint/files/blob_copy_driver.py); lines of progress, ``trueup-blob-copy: ...``,
stand on standard error. The object's member ``digest`` is the SHA-256 of the others as
``json.dumps(..., sort_keys=True, separators=(",", ":"))`` writes them, so that any damage is seen.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, field
from typing import (
    Any,
    ClassVar,
    Dict,
    List,
    Mapping,
    NamedTuple,
    NoReturn,
    Optional,
    Sequence,
    Tuple,
)

from ...errors import ParseError
from ...reading import Line, decoded, digest, is_count, is_number, lines_of, only, refuse_after
from ...record import Metric
from .signatures import DRIVER_PREFIX

TOOL = "blob_copy"
ROLE = "blob_checkpoint"
_PROGRAMS = ("azcopy", "azure-storage-blob")
_VERIFIED_BY = ("properties", "download")
_COUNTED = ("bytes", "uploaded_bytes", "resumed_bytes")
_HAPPENED = ("sent_bytes", "retries", "throttled", "lost", "corrupted", "server_errors")
_MD5 = re.compile(r"[0-9a-f]{32}")
# Sums of times that were subtracted from a clock that counts days.
_CLOCK_SECONDS = 1e-3


class File(NamedTuple):
    """One file and the blob that it became.

    Attributes:
        blob: the blob's name.
        bytes, md5: of the file, as it was read.
        uploaded_bytes: of it sent in this run, each byte counted once.
        resumed_bytes: of it already there from an interrupted run.
        stored_md5: of the blob, None where it has none.
    """

    blob: str
    bytes: int
    md5: str
    uploaded_bytes: int
    resumed_bytes: int
    stored_bytes: int
    stored_md5: Optional[str]
    verified: bool


class Copy(NamedTuple):
    """One of the copies that ran at the same time.

    Attributes:
        number: from 0.
        cpus: the CPUs that it was allowed, as in 0-9.
        seconds: from its beginning to its last blob committed.
        verify_seconds: the time to compare checksums.
        sent_bytes: bytes sent, repeated blocks counted again.
        retries: requests made again, all reasons.
        throttled, lost, corrupted, server_errors: answers that asked for less, connections that
            broke, blocks that arrived altered, other passing errors.
    """

    number: int
    cpus: str
    seconds: float
    verify_seconds: float
    bytes: int
    uploaded_bytes: int
    resumed_bytes: int
    sent_bytes: int
    retries: int
    throttled: int
    lost: int
    corrupted: int
    server_errors: int
    files: Tuple[File, ...]

    @property
    def sent_rate(self) -> float:
        """Its use of the network, bit/s."""
        return self.sent_bytes * 8 / self.seconds


@dataclass(frozen=True)
class BlobCopyOutput:
    """All copies of one run."""

    program: str
    version: str
    verify: str
    limit: float
    cap: float
    cores_per_copy: int
    block_bytes: int
    connections: int
    seconds: float
    copies: Tuple[Copy, ...]
    software: Mapping[str, str] = field(default_factory=dict)
    # All copies start on one machine.
    node_count: ClassVar[int] = 1

    @property
    def tool_version(self) -> Optional[str]:
        """Of the program that copied."""
        return self.version

    @property
    def warnings(self) -> List[str]:
        """Warnings for the reader of the figures."""
        warnings = []
        throttled = sum(copy.throttled for copy in self.copies)
        if throttled:
            warnings.append(f"the account throttled {throttled} request(s): its limit was reached")
        corrupted = sum(copy.corrupted for copy in self.copies)
        if corrupted:
            warnings.append(f"{corrupted} block(s) arrived altered and were sent again")
        resumed = sum(copy.resumed_bytes for copy in self.copies)
        if resumed:
            warnings.append(
                f"{resumed} bytes were there from an interrupted run: the rate is that of the rest"
            )
        if self.program == "azcopy":
            warnings.append("azcopy does not say how often it was throttled or retried")
        return warnings

    @property
    def checks(self) -> Dict[str, bool]:
        """That every blob has the checksum of its file."""
        return {"checksums": all(file.verified for copy in self.copies for file in copy.files)}

    @property
    def parameters(self) -> Dict[str, str]:
        """How it was copied."""
        return {
            "copies": str(len(self.copies)),
            "cap_bits_per_second": f"{self.cap:.0f}",
            "limit_bits_per_second": f"{self.limit:.0f}",
            "cores_per_copy": str(self.cores_per_copy),
            "size_bytes": str(sum(copy.bytes for copy in self.copies)),
            "program": self.program,
            "checksum": "md5",
        }

    def metrics(self) -> List[Metric]:
        """upload_rate [bit/s], upload_time, verify_time [s], uploaded_bytes, resumed_bytes [byte],
        retries, throttled [1]: of all copies together, and of each with ``device`` copy0, ...

        A rate is of the bytes sent in this run, each counted once; there is none where nothing was.
        """
        rows = _rows(
            None,
            self.seconds,
            max(copy.verify_seconds for copy in self.copies),
            self.copies,
        )
        for copy in self.copies:
            rows += _rows(f"copy{copy.number}", copy.seconds, copy.verify_seconds, [copy])
        return rows


def _rows(
    device: Optional[str], seconds: float, verify_seconds: float, copies: Sequence[Copy]
) -> List[Metric]:
    def row(name: str, value: float, unit: str, direction: str) -> Metric:
        return Metric(name, value, unit, direction, device=device, statistic="single", n=1)

    uploaded = sum(copy.uploaded_bytes for copy in copies)
    rows = [row("upload_rate", uploaded * 8 / seconds, "bit/s", "higher")] if uploaded else []
    return [
        *rows,
        row("upload_time", seconds, "s", "lower"),
        row("verify_time", verify_seconds, "s", "lower"),
        row("uploaded_bytes", uploaded, "byte", "none"),
        row("resumed_bytes", sum(copy.resumed_bytes for copy in copies), "byte", "none"),
        row("retries", sum(copy.retries for copy in copies), "1", "lower"),
        row("throttled", sum(copy.throttled for copy in copies), "1", "lower"),
    ]


def parse_blob_copy(text: str) -> BlobCopyOutput:
    """Read the output of one run.

    Raises:
        ParseError: there is no result line, or a second one; it is cut off, altered, or its figures
            contradict each other.
    """
    lines = lines_of(text)
    result_lines = only(lines, DRIVER_PREFIX, "a second result line: two runs in one output")
    if not result_lines:
        raise ParseError(
            f"no line '{DRIVER_PREFIX.strip()} ...': the copies did not come to their end"
        )
    refuse_after(lines[result_lines[0].number :], "text after the result line, which is the last")
    return _Reader(result_lines[0]).output()


class _Reader:
    """Reads the result line; whatever is wrong with it is said with the line."""

    def __init__(self, line: Line) -> None:
        self._line = line

    def refuse(self, reason: str) -> NoReturn:
        raise self._line.error(reason)

    def output(self) -> BlobCopyOutput:
        description = "the result line"
        data = decoded(self._line, DRIVER_PREFIX, description, version=1, role="blob_checkpoint")
        try:
            json.dumps(data, allow_nan=False)
        except ValueError:
            self.refuse("the result line holds a figure that is not finite")
        if data.pop("digest", None) != digest(data):
            self.refuse("the result line was altered: its digest is that of another")
        try:
            return self._read(data)
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
            self.refuse(f"the result line lacks or spoils {error}")

    def _read(self, data: Mapping[str, Any]) -> BlobCopyOutput:
        if data["program"] not in _PROGRAMS or data["verify"] not in _VERIFIED_BY:
            self.refuse(f"program {data['program']!r} or verify {data['verify']!r} is unknown")
        if data["checksum"] != "md5":
            self.refuse(f"checksum {data['checksum']!r} is not md5")
        copies = tuple(self._copy(item) for item in data["copies"])
        if [copy.number for copy in copies] != list(range(len(copies))) or not copies:
            self.refuse("the copies are not 0, 1, 2, ...")
        for name in _COUNTED + _HAPPENED:
            if self._count(data, name) != sum(getattr(copy, name) for copy in copies):
                self.refuse(f"{name} is not the sum of the copies'")
        seconds = self._positive(data, "seconds")
        longest = max(copy.seconds for copy in copies)
        if seconds < longest - _CLOCK_SECONDS:
            self.refuse(f"all copies took {seconds:g} s and one of them {longest:g} s")
        names = [file.blob for copy in copies for file in copy.files]
        if len(set(names)) != len(names):
            self.refuse("two files became the same blob")
        return BlobCopyOutput(
            program=data["program"],
            version=self._text(data, "version"),
            verify=data["verify"],
            limit=self._positive(data, "limit_bits_per_second"),
            cap=self._positive(data, "cap_bits_per_second"),
            cores_per_copy=self._count(data, "cores_per_copy"),
            block_bytes=self._count(data, "block_bytes"),
            connections=self._count(data, "connections"),
            seconds=seconds,
            copies=copies,
            software={
                str(data["program"]): self._text(data, "version"),
                "python": self._text(data, "python"),
            },
        )

    def _copy(self, item: Mapping[str, Any]) -> Copy:
        files = tuple(self._file(file) for file in item["files"])
        if not files:
            self.refuse(f"copy {item['copy']} has no files")
        counts = {name: self._count(item, name) for name in _COUNTED + _HAPPENED}
        for name in _COUNTED:
            if counts[name] != sum(getattr(file, name) for file in files):
                self.refuse(f"{name} of copy {item['copy']} is not the sum of its files'")
        if counts["sent_bytes"] < counts["uploaded_bytes"]:
            self.refuse(f"copy {item['copy']} uploaded more than it sent")
        verify_seconds = self._number_of(item, "verify_seconds")
        if verify_seconds < 0:
            self.refuse(f"verify_seconds {verify_seconds} is negative")
        return Copy(
            number=self._count(item, "copy"),
            cpus=self._text(item, "cpus"),
            seconds=self._positive(item, "seconds"),
            verify_seconds=verify_seconds,
            files=files,
            **counts,
        )

    def _file(self, item: Mapping[str, Any]) -> File:
        counts = {name: self._count(item, name) for name in _COUNTED}
        blob = self._text(item, "blob")
        if not counts["bytes"] or (
            counts["bytes"] != counts["uploaded_bytes"] + counts["resumed_bytes"]
        ):
            self.refuse(f"{blob}: uploaded and resumed bytes are not its {counts['bytes']} bytes")
        for name in ("md5", "stored_md5"):
            value = item[name]
            if not (value is None and name == "stored_md5") and not _MD5.fullmatch(value):
                self.refuse(f"{blob}: {name} {value!r} is no MD5")
        stored = self._count(item, "stored_bytes")
        verified = item["md5"] == item["stored_md5"] and stored == counts["bytes"]
        if item["verified"] is not verified:
            self.refuse(f"{blob}: verified is {item['verified']!r} and the checksums say otherwise")
        return File(
            blob=blob,
            md5=item["md5"],
            stored_bytes=stored,
            stored_md5=item["stored_md5"],
            verified=verified,
            **counts,
        )

    def _text(self, item: Mapping[str, Any], name: str) -> str:
        value = item[name]
        if not isinstance(value, str) or not value:
            self.refuse(f"{name} {value!r} is no text")
        return value

    def _number_of(self, item: Mapping[str, Any], name: str) -> float:
        value = item[name]
        if not is_number(value):
            self.refuse(f"{name} {value!r} is not a number")
        if not math.isfinite(value):
            self.refuse(f"{name} {value!r} is not finite")
        return float(value)

    def _positive(self, item: Mapping[str, Any], name: str) -> float:
        value = self._number_of(item, name)
        if value <= 0:
            self.refuse(f"{name} {value} is not positive")
        return value

    def _count(self, item: Mapping[str, Any], name: str) -> int:
        value = item[name]
        if not is_count(value):
            self.refuse(f"{name} {value!r} is not a count")
        return int(value)
