"""What each GPU says of itself: clocks, ECC, row remapping, throttling, NVLink; and XIDs.

Sources of the formats: nvidia-smi(1) and ``nvidia-smi --help-query-gpu``; of the XIDs and what they
mean, NVIDIA's "XID Errors" and "GPU Memory Error Management" (docs.nvidia.com/deploy). What a GPU
does not have is None, never 0.
"""

from __future__ import annotations

import re
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from ..errors import ParseError
from ..reading import Line, lines_of
from .nvidia_smi import address_of, rows_of

_ECC = tuple(
    f"ecc.errors.{kind}.{span}.total"
    for span in ("volatile", "aggregate")
    for kind in ("corrected", "uncorrected")
)
_ECC_BY_MEMORY = tuple(
    f"ecc.errors.{kind}.volatile.{memory}"
    for memory in ("sram", "dram")
    for kind in ("corrected", "uncorrected")
)
_BY_MEMORY = ("sram_corrected", "sram_uncorrected", "dram_corrected", "dram_uncorrected")
# Each question by itself: a driver that does not know one field answers none of its question.
QUERIES: Dict[str, Tuple[str, ...]] = {
    "clocks": ("clocks.sm", "clocks.max.sm", "clocks.mem", "temperature.gpu"),
    "memory": ("name", "memory.total"),
    "ecc": _ECC,
    "ecc_by_memory": _ECC_BY_MEMORY,
    "throttle": ("clocks_event_reasons.active",),
    # The same before driver 535.
    "throttle_old": ("clocks_throttle_reasons.active",),
}
_MIB = 1024**2
_CLOCKS = ("sm_mhz", "max_sm_mhz", "memory_mhz")
REMAP_QUERY = (
    "remapped_rows.correctable",
    "remapped_rows.uncorrectable",
    "remapped_rows.pending",
    "remapped_rows.failure",
)
# Bits of the mask of reasons (nvml.h, nvmlClocksEventReason*).
_REASONS = {
    0x1: "gpu idle",
    0x2: "applications clocks setting",
    0x4: "software power cap",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "hardware power brake",
    0x100: "display clock setting",
}
_FAULTS = (0x8, 0x20, 0x40, 0x80)
# XIDs that mean hardware, in our words.
XID_MEANING = {
    48: "a memory error of two bits that ECC could not correct",
    63: "a bad memory row was noted for remapping, which the next reset of the GPU does",
    64: "a bad memory row could not be noted for remapping",
    74: "an NVLink failed",
    79: "the GPU has fallen off the bus",
    92: "memory errors that ECC corrects come at a high rate",
    94: "an uncorrectable memory error that was contained: it ended one application",
    95: "an uncorrectable memory error that was not contained: every application is in doubt",
    119: "the GPU's system processor (GSP) did not answer in time",
    120: "the GPU's system processor (GSP) failed",
}
_NEW_HOST = "deallocate the VM and start it again, so that it comes to another host, and report it"
_XID_MEND = {
    63: "reboot, so that the row is remapped",
    92: "watch its ECC counts, and report it if they grow",
    94: "run that application again; reboot, and report it if it comes again",
    119: "reboot, and report it if it comes again",
    120: "reboot, and report it if it comes again",
}
# What a kernel log line may begin with: seconds since boot or a date in brackets, an ISO time, or
# syslog's date.
_TIME = re.compile(
    r"\s*(?:\[\s*([^\s\]](?:[^\]]*[^\s\]])?)\s*\]|([0-9]{4}-[0-9]{2}-[0-9]{2}T\S+)"
    r"|([A-Z][a-z]{2} [ 0-9][0-9] [0-9:]{8}))"
)


def parse_query(text: str, fields: Sequence[str], key: str = "pci.bus_id") -> Dict[str, List[str]]:
    """PCI address (as sysfs writes it) to its cells, of ``--query-...=key,fields --format=csv``.

    Raises:
        ParseError: other columns, a row of another shape, an address twice, or no row.
    """
    found: Dict[str, List[str]] = {}
    for (address_text, *figures), line in rows_of(text, [key, *fields], _may_be):
        address = address_of(address_text)
        if address is None or address in found:
            raise line.error(
                f"nvidia-smi: expected a PCI address and {len(fields)} figures, each GPU once"
            )
        found[address] = figures
    return found


def _may_be(said: str, column: str) -> bool:
    """A unit stands behind a name: "clocks.current.sm [MHz]". A name may be an alias of ours."""
    return not column.endswith("bus_id") or said in {column, f"pci.{column}"}


def _number(cell: str) -> Optional[int]:
    """A count, a clock, a temperature or mebibytes; None where there is none.

    Raises:
        ParseError: neither a number nor nvidia-smi's words for having none.
    """
    match = re.fullmatch(r"([0-9]+)(?: (?:MHz|MiB))?", cell)
    if match:
        return int(match.group(1))
    if cell.startswith("[") or cell in {"N/A", ""}:
        return None
    raise ParseError(f"nvidia-smi: {cell!r} is neither a number nor N/A")


def _flag(cell: str) -> Optional[bool]:
    """Yes and No, or 1 and 0 as some drivers print."""
    if cell in {"Yes", "No", "1", "0"}:
        return cell in {"Yes", "1"}
    if _number(cell) is not None:
        raise ParseError(f"nvidia-smi: {cell!r} is neither Yes nor No")
    return None


def parse_throttle(cell: str) -> Optional[List[str]]:
    """The active reasons of a mask such as ``0x0000000000000001``; None where there is none.

    Raises:
        ParseError: no mask.
    """
    if re.fullmatch(r"0x[0-9A-Fa-f]{1,16}", cell) is None:
        _flag(cell)
        return None
    mask = int(cell, 16)
    named = [name for bit, name in _REASONS.items() if mask & bit]
    rest = mask & ~sum(_REASONS)
    return named + ([f"unknown ({rest:#x})"] if rest else [])


def parse_nvlinks(text: str) -> List[Optional[Dict[str, Any]]]:
    """For each GPU by its number, its links, from ``nvidia-smi nvlink -s``; None where it has none.
    Of a single GPU (``-i 3``) whatever its number is.

    ``active`` and ``total`` are counts, ``inactive`` the numbers of links that are down.

    Raises:
        ParseError: no GPU, one out of its order, or a line that is not understood.
    """
    found: List[Optional[Dict[str, Any]]] = []
    first = 0
    for line in lines_of(text):
        stripped = line.strip()
        gpu = re.match(r"GPU ([0-9]+): ", stripped)
        if gpu:
            number = int(gpu.group(1))
            if found and (first or number != len(found)):
                raise line.error(f"nvidia-smi nvlink: expected GPU {0 if first else len(found)}")
            first = first if found else number
            found.append(None)
        elif found:
            found[-1] = _with_link(found[-1], stripped, line)
        elif stripped:
            raise line.error(_NO_LINK)
    if not found:
        raise ParseError("nvidia-smi nvlink: no GPU in its answer")
    return found


_NO_LINK = "nvidia-smi nvlink: not a GPU and not a link"


def _with_link(links: Optional[Dict[str, Any]], said: str, line: Line) -> Optional[Dict[str, Any]]:
    """A GPU's links with what the next line says of them."""
    link = re.fullmatch(r"Link ([0-9]+): (?:([0-9.]+) GB/s|<inactive>|inactive)", said)
    if link:
        links = links or {"active": 0, "total": 0, "inactive": []}
        if int(link.group(1)) != links["total"]:
            raise line.error(f"nvidia-smi nvlink: expected link {links['total']}")
        links["total"] += 1
        if link.group(2):
            links["active"] += 1
        else:
            links["inactive"].append(int(link.group(1)))
    elif links is None and "links are inactive" in said.lower():
        # How many there are it does not say then.
        return {"active": 0, "total": None, "inactive": [], "all_inactive": True}
    # A GPU without NVLink has a sentence in place of its links.
    elif said and not (links is None and "link" in said.lower()):
        raise line.error(_NO_LINK)
    return links


def parse_xids(text: str) -> List[Dict[str, Any]]:
    """The XIDs of a kernel log: ``gpu`` (PCI address), ``xid``, ``line``, ``time`` as it stands.

    A line is ``NVRM: Xid (PCI:0001:00:00): 79, pid=..., GPU has fallen off the bus.``

    Raises:
        ParseError: a line of an XID that is not so.
    """
    found = []
    for line in lines_of(text):
        match = re.search(
            r"NVRM: Xid \((?:PCI:)?([0-9A-Fa-f:.]+)(?:[^0-9A-Fa-f:.()][^()]*)?\): ([0-9]+)\b", line
        )
        if match is None:
            if "NVRM: Xid" in line:
                raise line.error("kernel log: expected 'NVRM: Xid (PCI:...): N'")
            continue
        time = _TIME.match(line)
        found.append(
            {
                "gpu": _xid_address(match.group(1)),
                "xid": int(match.group(2)),
                "line": line.strip()[:300],
                "time": next((part for part in time.groups() if part), None) if time else None,
            }
        )
    return found


def _xid_address(text: str) -> str:
    """``0001:00:00`` has no function; a GPU's is 0."""
    return address_of(text) or address_of(f"{text.rstrip('.')}.0") or text


def devices(
    tables: Mapping[str, Mapping[str, List[str]]], nvlinks: Optional[Sequence[Any]]
) -> List[Dict[str, Any]]:
    """One entry a GPU from what was answered; what was not is None.

    Args:
        tables: question (QUERIES, ``remap``) to parse_query's answer.
        nvlinks: parse_nvlinks' answer, or None.

    Raises:
        ParseError: a cell that is not understood.
    """
    addresses = sorted({address for table in tables.values() for address in table})
    found = []
    for number, address in enumerate(addresses):
        cells = {name: table.get(address) for name, table in tables.items()}
        clocks, ecc, remap = cells.get("clocks"), cells.get("ecc"), cells.get("remap")
        name, memory = cells.get("memory") or ("[N/A]", "[N/A]")
        mebibytes = _number(memory)
        by_memory = cells.get("ecc_by_memory")
        throttle = cells.get("throttle") or cells.get("throttle_old")
        # nvidia-smi numbers GPUs in PCI order; were one missing here, numbers would not fit.
        links = nvlinks[number] if nvlinks and len(nvlinks) == len(addresses) else None
        found.append(
            {
                "pci": address,
                "name": None if name.startswith("[") else name,
                "memory_bytes": None if mebibytes is None else mebibytes * _MIB,
                # Of a slice it is asked by another question.
                "licence": None,
                "clocks": clocks and dict(zip(_CLOCKS, map(_number, clocks))),
                "temperature_celsius": clocks and _number(clocks[3]),
                "ecc": ecc and _ecc(ecc),
                "ecc_by_memory": by_memory and _by_memory(by_memory),
                "row_remap": remap and _remap(remap),
                "throttle_reasons": throttle and parse_throttle(throttle[0]),
                "nvlinks": links,
            }
        )
    return found


def _ecc(cells: Sequence[str]) -> Optional[Dict[str, Dict[str, Optional[int]]]]:
    counts = [_number(cell) for cell in cells]
    if all(count is None for count in counts):
        return None
    return {
        "volatile": {"corrected": counts[0], "uncorrected": counts[1]},
        "aggregate": {"corrected": counts[2], "uncorrected": counts[3]},
    }


def _by_memory(cells: Sequence[str]) -> Optional[Dict[str, Optional[int]]]:
    found = dict(zip(_BY_MEMORY, map(_number, cells)))
    return None if all(value is None for value in found.values()) else found


def _remap(cells: Sequence[str]) -> Optional[Dict[str, Any]]:
    found = {
        "correctable": _number(cells[0]),
        "uncorrectable": _number(cells[1]),
        "pending": _flag(cells[2]),
        "failure": _flag(cells[3]),
    }
    return None if all(value is None for value in found.values()) else found


def judge(
    found: Sequence[Mapping[str, Any]], xids: Optional[Sequence[Mapping[str, Any]]]
) -> List[Dict[str, Any]]:
    """What is wrong: ``name``, ``message`` and whether a ``reboot`` mends it.

    An idle GPU, one at its power limit, corrected errors, rows that were remapped and NVLinks that
    are down are no fault here: a GPU has links that its machine does not use. No reboot is called a
    mend of uncorrected errors, which it only hides.
    """
    problems: List[Dict[str, Any]] = []

    def problem(name: str, message: str, *, reboot: bool = False) -> None:
        problems.append({"name": name, "message": message, "reboot": reboot})

    for gpu in found:
        _judge_memory(gpu, problem)
        reasons = [
            name for name in gpu["throttle_reasons"] or () if name in map(_REASONS.get, _FAULTS)
        ]
        if reasons:
            degrees = gpu["temperature_celsius"]
            at = "an unknown temperature" if degrees is None else f"{degrees} degrees Celsius"
            problem(
                "gpu_slowed",
                f"GPU {gpu['pci']} is slowed down ({', '.join(reasons)}) at {at}: it gives less"
                " than it should; see `nvidia-smi -q -d PERFORMANCE,TEMPERATURE`, and if it stays"
                " so deallocate the VM and start it again.",
            )
    seen: Dict[Tuple[str, int], List[Mapping[str, Any]]] = {}
    for entry in xids or ():
        if entry["xid"] in XID_MEANING:
            seen.setdefault((entry["gpu"], entry["xid"]), []).append(entry)
    for (address, xid), entries in sorted(seen.items()):
        problem(
            f"xid_{xid}",
            f"GPU {address} logged XID {xid} ({XID_MEANING[xid]}) {len(entries)} time(s), first:"
            f" {entries[0]['line']}: {_XID_MEND.get(xid, _NEW_HOST)}.",
        )
    return problems


def _judge_memory(gpu: Mapping[str, Any], problem: Any) -> None:
    remap = gpu["row_remap"] or {}
    if remap.get("failure"):
        problem(
            "row_remap_failed",
            f"GPU {gpu['pci']} could not remap a bad memory row: its memory is not to be trusted:"
            f" {_NEW_HOST}.",
        )
    elif remap.get("pending"):
        problem(
            "row_remap_pending",
            f"GPU {gpu['pci']} has a bad memory row that is remapped when it is reset: reboot.",
            reboot=True,
        )
    uncorrected = ((gpu["ecc"] or {}).get("volatile") or {}).get("uncorrected")
    if uncorrected:
        problem(
            "ecc_uncorrected",
            f"GPU {gpu['pci']} counts {uncorrected} memory error(s) since its last reset that ECC"
            " could not correct, expected is 0: results since then are in doubt: reboot, and report"
            " it if it comes again.",
        )
