"""State of each GPU: clocks, ECC, row remapping, throttling, NVLink and its fabric.

Sources of the formats: nvidia-smi(1) and ``nvidia-smi --help-query-gpu``; of row remapping: NVIDIA,
GPU Memory Error Management (docs.nvidia.com/deploy). A figure that a GPU lacks is None, never 0.
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
_NEW_HOST = "deallocate the VM and start it again, so that it comes to another host, and report it"


def parse_query(text: str, fields: Sequence[str], key: str = "pci.bus_id") -> Dict[str, List[str]]:
    """PCI address (as sysfs writes it) to its cells, of ``--query-...=key,fields --format=csv``.

    Raises:
        ParseError: other columns, a row of another shape, an address twice, or no row.
    """
    cells_by_address: Dict[str, List[str]] = {}
    for (address_text, *figures), line in rows_of(text, [key, *fields], _may_be):
        address = address_of(address_text)
        if address is None or address in cells_by_address:
            raise line.error(
                f"nvidia-smi: expected a PCI address and {len(fields)} figures, each GPU once"
            )
        cells_by_address[address] = figures
    return cells_by_address


def _may_be(heading: str, column: str) -> bool:
    """A unit stands behind a name: "clocks.current.sm [MHz]". A name may be an alias of ours."""
    return not column.endswith("bus_id") or heading in {column, f"pci.{column}"}


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
    gpu_links: List[Optional[Dict[str, Any]]] = []
    first = 0
    for line in lines_of(text):
        stripped = line.strip()
        gpu = re.match(r"GPU ([0-9]+): ", stripped)
        if gpu:
            number = int(gpu.group(1))
            if gpu_links and (first or number != len(gpu_links)):
                raise line.error(
                    f"nvidia-smi nvlink: expected GPU {0 if first else len(gpu_links)}"
                )
            first = first if gpu_links else number
            gpu_links.append(None)
        elif gpu_links:
            gpu_links[-1] = _with_link(gpu_links[-1], stripped, line)
        elif stripped:
            raise line.error(_NO_LINK)
    if not gpu_links:
        raise ParseError("nvidia-smi nvlink: no GPU in its answer")
    return gpu_links


_NO_LINK = "nvidia-smi nvlink: not a GPU and not a link"


def _with_link(links: Optional[Dict[str, Any]], text: str, line: Line) -> Optional[Dict[str, Any]]:
    """A GPU's links, updated by the next line of the output."""
    link = re.fullmatch(r"Link ([0-9]+): (?:([0-9.]+) GB/s|<inactive>|inactive)", text)
    if link:
        links = links or {"active": 0, "total": 0, "inactive": []}
        if int(link.group(1)) != links["total"]:
            raise line.error(f"nvidia-smi nvlink: expected link {links['total']}")
        links["total"] += 1
        if link.group(2):
            links["active"] += 1
        else:
            links["inactive"].append(int(link.group(1)))
    elif links is None and "links are inactive" in text.lower():
        # How many there are it does not say then.
        return {"active": 0, "total": None, "inactive": [], "all_inactive": True}
    # A GPU without NVLink has a sentence in place of its links.
    elif text and not (links is None and "link" in text.lower()):
        raise line.error(_NO_LINK)
    return links


# Registration of a GPU with the fabric of its NVSwitches. NVML's words; "N/A" where there is none.
_COMPLETED, _SUCCESS, _HEALTHY = "Completed", "Success", "Healthy"
_FABRIC = {"State": "state", "Status": "status", "Summary": "health"}
_GPU_BLOCK = re.compile(r"^GPU ([0-9A-Fa-f:.]+)[ \t]*$", re.MULTILINE)
# The heading, and the lines below it that stand further in.
_FABRIC_BLOCK = re.compile(r"^([ \t]+)Fabric[ \t]*$\n?((?:\1[ \t]+.*(?:\n|$))*)", re.MULTILINE)
_FABRIC_CELL = re.compile(r"^[ \t]*(State|Status|Summary)[ \t]+: (.*?)[ \t]*$", re.MULTILINE)


def parse_fabric(text: str) -> Dict[str, Optional[Dict[str, Optional[str]]]]:
    """PCI address to ``state``, ``status`` and ``health`` of ``nvidia-smi -q``'s block Fabric; None
    where a GPU has no fabric: an A100 has none by any driver, also with NVSwitches.

    Raises:
        ParseError: no GPU, one twice, or a block without its state.
    """
    _, *parts = _GPU_BLOCK.split("\n".join(lines_of(text)))
    fabrics: Dict[str, Optional[Dict[str, Optional[str]]]] = {}
    for bus_id, body in zip(parts[::2], parts[1::2]):
        address, block = address_of(bus_id), _FABRIC_BLOCK.search(body)
        if address is None or address in fabrics:
            raise ParseError(f"nvidia-smi -q: {bus_id} is no PCI address, or there twice")
        cells = dict(_FABRIC_CELL.findall(block.group(2))) if block else {"State": "N/A"}
        if "State" not in cells:
            raise ParseError(f"nvidia-smi -q: the Fabric of {bus_id} has no State")
        values = {name: cells.get(label, "N/A") for label, name in _FABRIC.items()}
        fabric = {name: None if cell in ("N/A", "") else cell for name, cell in values.items()}
        fabrics[address] = fabric if fabric["state"] else None
    if not fabrics:
        raise ParseError("nvidia-smi -q: no GPU in its answer")
    return fabrics


def is_registered(fabric: Mapping[str, Optional[str]]) -> bool:
    """Whether a GPU can use its NVSwitches."""
    is_complete = (fabric["state"], fabric["status"]) == (_COMPLETED, _SUCCESS)
    return is_complete and fabric["health"] in (None, _HEALTHY)


def is_registering(fabric: Mapping[str, Optional[str]]) -> bool:
    """Whether the fabric manager may still register it."""
    return fabric["state"] in ("Not Started", "In Progress")


def devices(
    tables: Mapping[str, Mapping[str, List[str]]], nvlinks: Optional[Sequence[Any]]
) -> List[Dict[str, Any]]:
    """One entry a GPU from the answers; None for an unanswered question.

    Args:
        tables: question (QUERIES, ``remap``) to parse_query's answer.
        nvlinks: parse_nvlinks' answer, or None.

    Raises:
        ParseError: a cell that is not understood.
    """
    addresses = sorted({address for table in tables.values() for address in table})
    gpus = []
    for number, address in enumerate(addresses):
        cells = {name: table.get(address) for name, table in tables.items()}
        clocks, ecc, remap = cells.get("clocks"), cells.get("ecc"), cells.get("remap")
        name, memory = cells.get("memory") or ("[N/A]", "[N/A]")
        mebibytes = _number(memory)
        by_memory = cells.get("ecc_by_memory")
        throttle = cells.get("throttle") or cells.get("throttle_old")
        # nvidia-smi numbers GPUs in PCI order; were one missing here, numbers would not fit.
        links = nvlinks[number] if nvlinks and len(nvlinks) == len(addresses) else None
        gpus.append(
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
                # Asked by another question, of several GPUs.
                "fabric": None,
            }
        )
    return gpus


def _ecc(cells: Sequence[str]) -> Optional[Dict[str, Dict[str, Optional[int]]]]:
    counts = [_number(cell) for cell in cells]
    if all(count is None for count in counts):
        return None
    return {
        "volatile": {"corrected": counts[0], "uncorrected": counts[1]},
        "aggregate": {"corrected": counts[2], "uncorrected": counts[3]},
    }


def _by_memory(cells: Sequence[str]) -> Optional[Dict[str, Optional[int]]]:
    counts = dict(zip(_BY_MEMORY, map(_number, cells)))
    return None if all(value is None for value in counts.values()) else counts


def _remap(cells: Sequence[str]) -> Optional[Dict[str, Any]]:
    remap = {
        "correctable": _number(cells[0]),
        "uncorrectable": _number(cells[1]),
        "pending": _flag(cells[2]),
        "failure": _flag(cells[3]),
    }
    return None if all(value is None for value in remap.values()) else remap


def judge(gpus: Sequence[Mapping[str, Any]]) -> List[Dict[str, Any]]:
    """The problems: ``name``, ``message`` and whether a ``reboot`` fixes it.

    An idle GPU, one at its power limit, corrected errors, rows that were remapped and NVLinks that
    are down are no fault here: a GPU has links that its machine does not use. No reboot is called a
    mend of uncorrected errors, which it only hides.
    """
    problems: List[Dict[str, Any]] = []

    def problem(name: str, message: str, *, reboot: bool = False) -> None:
        problems.append({"name": name, "message": message, "reboot": reboot})

    for gpu in gpus:
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
        fabric = gpu.get("fabric")
        if fabric and not is_registered(fabric):
            health = f", Health {fabric['health']}" if fabric["health"] else ""
            problem(
                "fabric_not_ready",
                f"GPU {gpu['pci']} is not registered with the NVLink fabric: State"
                f" {fabric['state']}, Status {fabric['status'] or 'N/A'}{health}, expected are"
                f" {_COMPLETED} and {_SUCCESS}: CUDA fails or runs without NVLink: see `systemctl"
                " status nvidia-fabricmanager` and its log, restart it or reboot, and report it if"
                " it comes again.",
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


def judge_failures(
    failures: Sequence[Mapping[str, Any]], running: Sequence[str], *, is_complete: bool
) -> List[Dict[str, Any]]:
    """The GPUs that the driver could not start, in the form of ``judge``.

    Args:
        failures: as ``kernel_log.KernelLog`` has them.
        running: addresses of the GPUs that nvidia-smi shows: they were started later.
        is_complete: whether nvidia-smi shows every GPU of the PCI bus.
    """
    return [
        {
            "name": "gpu_not_started",
            "message": f"GPU {row['gpu'] or 'at an unknown address'} did not start:"
            f" {row['reason']}: {row['line']}: reboot once; if it still does not start,"
            f" {_NEW_HOST}.",
            "reboot": False,
        }
        for row in failures
        if row["gpu"] not in running and (row["gpu"] or not is_complete)
    ]
