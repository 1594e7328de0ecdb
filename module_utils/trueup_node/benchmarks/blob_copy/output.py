"""Parser of the output of trueup's program for copying files to Blob storage.

Its last line on standard output is ``trueup-blob_copy {...}``
(roles/blob_checkpoint/files/blob_copy_driver.py); lines of progress, ``trueup-blob-copy: ...``,
stand on standard error. The object's member ``digest`` is the SHA-256 of the others as
``json.dumps(..., sort_keys=True, separators=(",", ":"))`` writes them, so that any damage is seen.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import (
    Any,
    ClassVar,
    Dict,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
)

from ...errors import ParseError
from ...reading import decoded, digest, lines_of, only, refuse_after
from ...record import Metric
from .signatures import DRIVER_PREFIX

TOOL = "blob_copy"
ROLE = "blob_checkpoint"


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
    line = result_lines[0]
    refuse_after(lines[line.number :], "text after the result line, which is the last")
    data = decoded(line, DRIVER_PREFIX, "the result line", version=1, role="blob_checkpoint")
    if data.pop("digest", None) != digest(data):
        raise line.error("the result line was altered: its digest is that of another")
    # The digest vouches for all members.
    return BlobCopyOutput(
        program=data["program"],
        version=data["version"],
        verify=data["verify"],
        limit=float(data["limit_bits_per_second"]),
        cap=float(data["cap_bits_per_second"]),
        cores_per_copy=data["cores_per_copy"],
        block_bytes=data["block_bytes"],
        connections=data["connections"],
        seconds=float(data["seconds"]),
        copies=tuple(map(_copy, data["copies"])),
        software={data["program"]: data["version"], "python": data["python"]},
    )


def _copy(item: Mapping[str, Any]) -> Copy:
    members = {name: item[name] for name in Copy._fields if name in item}
    files = tuple(File(*(file[name] for name in File._fields)) for file in item["files"])
    return Copy(**{**members, "number": item["copy"], "files": files})
