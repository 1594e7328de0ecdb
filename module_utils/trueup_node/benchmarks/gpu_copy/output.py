"""Parser of the output of programs that measure copies from, to and between GPUs.

Read are nvbandwidth (nvbandwidth.py), bandwidthTest and p2pBandwidthLatencyTest of the CUDA samples
(bandwidth_test.py, peers.py) and the JSON line of trueup's own PyTorch program; alone, or as the
sections of trueup's own program, which runs the tool once for each GPU and once for all
(roles/gpu_copy/files/gpu_copy.py).

A device ``gpu0>gpu1`` is always from, then to. ``d2d_bandwidth`` is of the copied bytes. Of
p2pBandwidthLatencyTest the figures with peer access in one direction are reported.
"""

from __future__ import annotations

import re
import zlib
from collections import deque
from collections.abc import Sequence
from re import Match
from typing import Deque, Optional

from ...errors import ParseError
from ...reading import Line, decoded, digest, lines_of, members_of, refuse_after
from .bandwidth_test import bandwidth_test
from .nvbandwidth import nvbandwidth
from .peers import TITLE, peer_test
from .result import KINDS, GpuCopyOutput, possible
from .signatures import MATRIX_OF_NVBANDWIDTH, MATRIX_OF_PEERS, OUR_MARK, OUR_TOOL

__all__ = ("KINDS", "TOOL", "GpuCopyOutput", "parse_gpu_copy")
TOOL = "gpu_copy"
_FORMAT = 1
# Sections of trueup's own program.
_BEGIN = re.compile(
    r"\[trueup-gpu-copy 1\] begin (gpu[0-9]{1,3}|peers) gpus=([0-9]+(?:,[0-9]+)*) "
    r"tool=(nvbandwidth|bandwidthTest|pytorch) cpus=([0-9,-]+) samples=([0-9]{1,6})"
)
_END = re.compile(
    r"\[trueup-gpu-copy 1\] end (gpu[0-9]{1,3}|peers) status=([0-9]+) lines=([0-9]+) "
    r"crc32=([0-9a-f]{8})"
)
_DONE = re.compile(r"\[trueup-gpu-copy 1\] done sections=([0-9]+) crc32=([0-9a-f]{8})")


def parse_gpu_copy(text: str) -> GpuCopyOutput:
    """Read the output of one run.

    Raises:
        ParseError: a section, a matrix, a sum or a figure is missing, damaged, doubled or does not
            fit the others; or there is nothing that is reported.
    """
    lines = lines_of(text, "\n")
    if OUR_MARK in text:
        return _checked(_of_sections(deque(lines)))
    return _checked(_part(lines, _form_of(text)))


def _form_of(text: str) -> str:
    if f'"tool": "{OUR_TOOL}"' in text:
        return "pytorch"
    if "[CUDA Bandwidth Test]" in text or "bandwidthTest-" in text:
        return "bandwidthTest"
    if TITLE in text or MATRIX_OF_PEERS.search(text):
        return "p2pBandwidthLatencyTest"
    if "nvbandwidth" in text or MATRIX_OF_NVBANDWIDTH.search(text):
        return "nvbandwidth"
    raise ParseError("neither nvbandwidth's, bandwidthTest's nor trueup's own output")


def _part(lines: Sequence[Line], form: str) -> GpuCopyOutput:
    readers = {
        "nvbandwidth": nvbandwidth,
        "bandwidthTest": bandwidth_test,
        "p2pBandwidthLatencyTest": peer_test,
        "pytorch": _pytorch,
    }
    return readers[form](lines)


def _crc(lines: Sequence[str]) -> str:
    return format(zlib.crc32("\n".join(lines).encode("utf-8", "replace")) & 0xFFFFFFFF, "08x")


def _of_sections(lines: Deque[Line]) -> GpuCopyOutput:
    parts: list[tuple[GpuCopyOutput, list[int]]] = []
    cpus: dict[str, str] = {}
    samples: Optional[int] = None
    ends: list[str] = []
    while lines:
        line = lines.popleft()
        if done := _DONE.fullmatch(line.strip()):
            if int(done[1]) != len(parts) or done[2] != _crc(ends) or not parts:
                raise line.error("the sections are not those that were written")
            refuse_after([*lines], "there is more after the line 'done'")
            return _joined(parts, cpus, samples)
        begin = _BEGIN.fullmatch(line.strip())
        if begin is None:
            raise line.error("expected the beginning of a section, or the line 'done'")
        name, gpus = begin[1], [int(gpu) for gpu in begin[2].split(",")]
        if name in cpus or name not in ("peers", f"gpu{gpus[0]}"):
            raise line.error(f"section {name} stands twice or is of another GPU")
        part, end = _section(lines, begin)
        if parts and part.program != parts[0][0].program:
            raise end.error(f"section {name} is the output of {part.program}")
        cpus[name], samples = begin[4], int(begin[5])
        parts.append((part, gpus))
        ends.append(end.strip())
    raise ParseError("no line 'done' of trueup's program: the output is cut off")


def _section(lines: Deque[Line], begin: Match[str]) -> tuple[GpuCopyOutput, Line]:
    """The content of a section, and its closing line."""
    name, body = begin[1], []
    while lines and not lines[0].strip().startswith(OUR_MARK):
        body.append(lines.popleft())
    if not lines:
        raise ParseError(f"expected the end of section {name}: the output ends before")
    line = lines.popleft()
    end = _END.fullmatch(line.strip())
    if end is None or end[1] != name:
        raise line.error(f"expected the end of section {name}")
    if int(end[3]) != len(body) or end[4] != _crc([begin[0], *body]):
        raise line.error(f"section {name} is not what was written: it is damaged")
    part = _part(body, begin[3])
    if part.sizes:
        raise line.error(f"section {name} is of several sizes: expected bandwidthTest's quick mode")
    if int(end[2]) and part.correct:
        raise line.error(f"the program of section {name} ended with status {end[2]}")
    return part, line


def _joined(
    parts: Sequence[tuple[GpuCopyOutput, list[int]]], cpus: dict[str, str], samples: Optional[int]
) -> GpuCopyOutput:
    """All sections, under the node's own numbers of the GPUs of each."""
    first = parts[0][0]
    peers = next((part for part, _ in parts if part.peer_access is not None), first)
    whole = GpuCopyOutput(
        program=first.program,
        statistic=first.statistic,
        tool_version=first.tool_version,
        samples=samples,
        peer_access=peers.peer_access,
        peer_test=peers.peer_test,
        memory=first.memory,
        cpus=cpus,
        correct=all(part.correct for part, _ in parts),
    )
    for part, gpus in parts:
        for kind, of_kind in part.figures.items():
            for device, rates in of_kind.items():
                numbers = [int(gpu) for gpu in re.findall(r"\d+", device)]
                if max(numbers) >= len(gpus):
                    raise ParseError(f"a figure of GPU {max(numbers)} in a section of {len(gpus)}")
                whole.add(kind, [gpus[number] for number in numbers], rates)
        whole.warnings += [warning for warning in part.warnings if warning not in whole.warnings]
        whole.unverified += part.unverified
        whole.software.update(part.software)
    return whole


def _checked(output: GpuCopyOutput) -> GpuCopyOutput:
    figures = output.figures = {
        kind: output.figures[kind] for kind in KINDS if kind in output.figures
    }
    if output.correct and not figures and not output.sizes:
        raise ParseError("no test that is reported: " + ("; ".join(output.warnings) or "none ran"))
    measured = {tuple(sorted(figures[kind])) for kind in ("h2d", "d2h") if kind in figures}
    if output.correct and len(measured) > 1:
        raise ParseError("host to device and device to host were measured on different GPUs")
    return output


def _pytorch(lines: Sequence[Line]) -> GpuCopyOutput:
    """The JSON line of trueup's own PyTorch program."""
    part = GpuCopyOutput("pytorch")
    line = next((line for line in lines if line.strip()), None)
    if line is None or not line.startswith(f'{{"tool": "{OUR_TOOL}"'):
        raise ParseError("expected the JSON line of trueup's PyTorch program")
    refuse_after(lines[lines.index(line) + 1 :], "there is more after it")
    data = decoded(line, "", "the line", version=_FORMAT, role="gpu_copy")
    if data.pop("sha256", None) != digest(data)[:16]:
        raise line.error("its checksum is not that of its content: it is damaged")
    with members_of(line, "the line"):
        part.tool_version = f"torch {data['torch']}"
        part.software = {"torch": str(data["torch"]), "cuda": str(data["cuda"])}
        part.correct = data["correct"] is True
        missing = []
        for test in data["tests"]:
            gpus, moved = test["gpus"], test["bytes"] * test["copies"]
            if test["seconds"] is None:
                missing.append((gpus[0], gpus[1]))
            else:
                rates = [possible(moved / each, line, test["test"]) for each in test["seconds"]]
                part.add(test["test"], gpus, rates)
        if missing or "p2p" in part.figures:
            part.peer_test = "write"
            part.reached(missing, data["gpus"])
    return part
