"""Days of ND H100 v5 nodes for the program that drains them: healthy ones with their noise, and
ones with a fault.

A node is its /sys and /proc (``machines``), the tables of nvidia-smi that a real H100 printed, and
the kernel log of a real boot with the lines of the drivers, links and file systems behind it. What
happens to healthy nodes (``NOISE``) is drawn far more often than anybody counts it: each kind on
``OFTEN`` of the days.
"""

from __future__ import annotations

import functools
import math
import random
import re
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import fleet
import machines
import yaml
from helpers import ROOT
from planted_changes import MEASURED
from trueup_analysis.figures.health import expectations
from trueup_analysis.figures.health.examine import Health, examine
from trueup_controller import known_faults
from trueup_controller.sizes import read_sizes, read_sources
from trueup_node.cases import of_record
from trueup_node.health.expectations import of_size
from trueup_node.node.topology import read_topology
from trueup_node.vm import slurm_health

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from trueup_node.cases import Case, Figure

SIZE = "Standard_ND96isr_H100_v5"
OFTEN = 0.1
_DATA = ROOT / "tests" / "data"
_MACHINE = machines.description("nd96isr_h100_v5")
_GPUS = [device["address"] for device in _MACHINE["pci"] if device["vendor"] == "0x10de"]
_NICS = [row for row in _MACHINE["infiniband"] if row["link_layer"] == "InfiniBand"]
_DRIVER = _MACHINE["nvidia_driver"]["version"]
_BOOT = (_DATA / "kernel_log" / "healthy_boot_real.txt").read_text().splitlines()
_SHOWN = (_DATA / "slurm" / "show_node.txt").read_text().partition("   Reason=")[0]
_SCRATCH = "/etc/slurm/prolog.d/10-trueup-health"
_DAY = 86400
_CATALOG = ROOT / "catalog"
XIDS = yaml.safe_load((_CATALOG / "faults" / "xid.yml").read_text())


@functools.cache
def settings() -> dict[str, Any]:
    """The program's settings for such a node, as role slurm writes them from the catalog."""
    sizes, expectations = str(_CATALOG / "vm_sizes.csv"), _CATALOG / "expectations.yml"
    row = {**read_sizes(sizes)[SIZE], "source": read_sources(sizes)[SIZE]}
    return {
        "node": "n1",
        "record_name": "n1",
        "vm_size": SIZE,
        "size_row": row,
        "expectations": of_size(yaml.safe_load(expectations.read_text()), SIZE),
        "faults": {**XIDS, "watched": known_faults.watched()},
        "gpu": {"gpus": len(_GPUS)},
        "rdma": {"nics": len(_NICS), "rate_gbps": 400},
        "flap_hours": 6,
        "events": [],
        "programs": [_SCRATCH],
        "epilog_name": "90-trueup-health",
        "drains": False,
        "records": "",
        "record_hours": 26,
    }


def _recorded_cells() -> dict[str, tuple[str, str]]:
    """Field of nvidia-smi -> its heading and its cell, of a real H100."""
    cells: dict[str, tuple[str, str]] = {}
    text = (_DATA / "nvidia_smi" / "h100_queries_real.txt").read_text()
    for block in text.split("=== nvidia-smi ")[1:]:
        question, head, row, *_ = block.splitlines()
        fields = re.sub(r"^--query[\w-]+=| --format=csv$", "", question).split(",")
        cells.update(zip(fields, zip(head.split(", "), row.split(", "), strict=True), strict=True))
    return {**cells, "driver_version": ("driver_version", _DRIVER)}


_CELLS = _recorded_cells()


@dataclass
class Day:
    """A node at one moment of a day.

    Attributes:
        uptime: seconds since its boot.
        log: lines of the kernel log, with their seconds since boot.
        cells: of nvidia-smi, by GPU.
        links: active NVLinks, by GPU; fabric: State and Status of its fabric.
        answers: tools that answer otherwise: status and output.
        files: below /sys or /proc, with another text; None: it is not there.
        journal: of the network, by seconds before now.
    """

    uptime: float
    log: list[tuple[float, str]] = field(default_factory=list)
    cells: list[dict[str, str]] = field(default_factory=lambda: [{} for _ in _GPUS])
    links: list[int] = field(default_factory=lambda: [18] * len(_GPUS))
    fabric: list[tuple[str, str]] = field(
        default_factory=lambda: [("Completed", "Success")] * len(_GPUS)
    )
    answers: dict[str, tuple[int, str]] = field(default_factory=dict)
    files: dict[str, str | None] = field(default_factory=dict)
    journal: list[tuple[float, str]] = field(default_factory=list)

    def says(self, scatter: random.Random, *lines: str) -> None:
        """Lines of the kernel log, at one moment since the boot."""
        when = scatter.uniform(60, self.uptime)
        self.log += [(when + number * 1e-4, line) for number, line in enumerate(lines)]

    # -- as slurm_health.Shell --

    def get_bin_path(self, name: str, **_options: Any) -> str | None:
        known = {"timeout", "nvidia-smi", "nv-fabricmanager", "systemctl", "dmesg", "journalctl"}
        return name if name in known or name == _SCRATCH else None

    def run_command(self, argv: Sequence[str], **_options: Any) -> tuple[int, str, str]:
        words = argv[3:]
        for start, (status, text) in self.answers.items():
            if " ".join(words).startswith(start):
                return status, text, ""
        return 0, _TOOLS[words[0]](self, words[1:]), ""

    # -- answers of the tools --

    def _smi(self, words: Sequence[str]) -> str:
        gpus = [number for number, cell in enumerate(self.cells) if cell.get("there", "yes")]
        if words[0].startswith("--query"):
            fields = words[0].partition("=")[2].split(",")
            rows = [[_CELLS[name][0] for name in fields]]
            rows += [[self._cell(number, name) for name in fields] for number in gpus]
            return "".join(", ".join(row) + "\n" for row in rows)
        if words[0] == "nvlink":
            return "".join(self._link_lines(number) for number in gpus)
        return "".join(
            f"GPU 0000{_GPUS[number]}\n    Product Name : NVIDIA H100 80GB HBM3\n    Fabric\n"
            "        State                             : {}\n"
            "        Status                            : {}\n".format(*self.fabric[number])
            for number in gpus
        )

    def _cell(self, number: int, name: str) -> str:
        if name.endswith("bus_id"):
            return f"0000{_GPUS[number]}"
        return self.cells[number].get(name, _CELLS[name][1])

    def _link_lines(self, number: int) -> str:
        lines = [f"GPU {number}: NVIDIA H100 80GB HBM3 (UUID: GPU-{number})"]
        for link in range(18):
            state = "26.562 GB/s" if link < self.links[number] else "<inactive>"
            lines.append(f"\t Link {link}: {state}")
        return "\n".join(lines) + "\n"

    def _dmesg(self, _words: Sequence[str]) -> str:
        lines = [f"[{when:12.6f}] {line}" for when, line in sorted(self.log)]
        return "\n".join([*_BOOT, *_DRIVERS, *lines]) + "\n"

    def _journal(self, _words: Sequence[str]) -> str:
        return "".join(
            f"{1796000000 - ago:.6f} n1 {text}\n"
            for ago, text in sorted(self.journal, reverse=True)
        )


_TOOLS: Mapping[str, Callable[[Day, Sequence[str]], str]] = {
    "nvidia-smi": Day._smi,
    "dmesg": Day._dmesg,
    "journalctl": Day._journal,
    "nv-fabricmanager": lambda _day, _words: f"Fabric Manager version is : {_DRIVER}\n",
    "systemctl": lambda _day, words: "\n".join(
        f"Id={unit}\nLoadState=loaded\nActiveState=active\n" for unit in words[2:]
    ),
    _SCRATCH: lambda _day, _words: "",
}


def _drivers() -> list[str]:
    """What a boot logs of GPUs, adapters, disks and Hyper-V, by the formats of their drivers."""
    lines = [
        "hv_vmbus: Vmbus version:5.3",
        "hv_utils: Heartbeat IC version 3.0",
        "hv_netvsc 000d3a00-0000-000d-3a00-000000000000 eth0: VF slot 1 added",
        "nvidia: loading out-of-tree module taints kernel.",
        "nvidia-nvlink: Nvlink Core is being initialized, major device number 237",
        f"NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  {_DRIVER}  Release Build",
        "nvidia-uvm: Loaded the UVM driver, major device number 235.",
        "nvidia-nvswitch0: open (major=510)",
        "md127: detected capacity change from 0 to 60129542144",
        'audit: type=1400 audit(1795400544.190:9): apparmor="STATUS" name="nvidia_modprobe"',
        "IPv6: ADDRCONF(NETDEV_CHANGE): eth0: link becomes ready",
    ]
    for number, address in enumerate(_GPUS):
        lines += [
            f"nvidia {address}: enabling device (0000 -> 0002)",
            f"[drm] Initialized nvidia-drm 0.0.0 for {address} on minor {number}",
        ]
    for number, nic in enumerate(_NICS):
        lines += [
            f"mlx5_core {nic['pci']}: firmware version: 28.39.3004",
            f"mlx5_core {nic['pci']}: Port module event: module 0, Cable plugged",
            f"mlx5_core {nic['pci']} ib{number}: Link up",
            f"nvme nvme{number}: pci function {nic['pci']}",
            f"nvme nvme{number}: 8/0/0 default/read/poll queues",
        ]
    return [f"[{2 + number / 100:12.6f}] {line}" for number, line in enumerate(lines)]


_DRIVERS = _drivers()

# -- the noise of healthy nodes --


def _xid_line(code: int, gpu: str, more: str = "pid=4242, name=python3, Ch 00000008") -> str:
    return f"NVRM: Xid (PCI:{gpu[:-2]}): {code}, {more}"


def _codes(kind: str, *severities: str, nonfatal: bool = False) -> list[int]:
    return [
        code
        for entry in XIDS[kind]
        if entry["severity"] in severities or (nonfatal and entry.get("nonfatal") in severities)
        for code in entry["codes"]
    ]


def _application_xids(day: Day, scatter: random.Random) -> None:
    """Applications fail, and so often that the log is full of it."""
    for _ in range(scatter.choice([1, 2, 40])):
        code = scatter.choice(_codes("xids", "info"))
        day.says(scatter, _xid_line(code, scatter.choice(_GPUS)))


def _warned_codes(day: Day, scatter: random.Random) -> None:
    """Codes to be watched, and fatal ones that the driver calls nonfatal."""
    gpu = scatter.choice(_GPUS)
    day.says(scatter, _xid_line(scatter.choice(_codes("xids", "warn")), gpu))
    line = "RLW_RXPIPE Nonfatal XC0 i0 Link 13 (0x0409a0c2 0x00000008)"
    day.says(scatter, _xid_line(scatter.choice([145, 149]), gpu, line))
    code = scatter.choice(_codes("sxids", "info", "warn"))
    day.says(scatter, f"nvidia-nvswitch3: SXid (PCI:0007:00:00.0): {code}, Non-fatal, Link 4 x")


def _repaired(day: Day, scatter: random.Random) -> None:
    """A fault before the GPU was reset or its driver was loaded anew."""
    gpu, code = scatter.choice(_GPUS), scatter.choice(_codes("xids", "fail"))
    reset = "GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)"
    loaded = "nvidia-nvlink: Nvlink Core is being initialized, major device number 237"
    ends = scatter.choice([_xid_line(154, gpu, reset), loaded])
    day.says(scatter, _xid_line(code, gpu), ends)


def _corrected(day: Day, scatter: random.Random) -> None:
    """Memory errors that ECC corrected, and rows that were remapped long ago."""
    cells, ecc = scatter.choice(day.cells), "ecc.errors.{}.{}"
    for memory, most in (("sram", 300), ("dram", 5000)):
        cells[ecc.format("corrected.volatile", memory)] = str(scatter.randint(1, most))
    cells[ecc.format("corrected.volatile", "total")] = str(scatter.randint(1, 5000))
    cells[ecc.format("uncorrected.aggregate", "total")] = str(scatter.randint(0, 3))
    cells["remapped_rows.correctable"] = str(scatter.randint(0, 8))
    cells["remapped_rows.uncorrectable"] = str(scatter.randint(0, 3))


def _at_work(day: Day, scatter: random.Random) -> None:
    """A job on the GPUs: warm, and at the limit of their power or clocks."""
    for cells in day.cells:
        cells["temperature.gpu"] = str(scatter.randint(35, 84))
        cells["clocks.sm"] = f"{scatter.randint(1200, 1980)} MHz"
        reasons = scatter.choice([0x0, 0x2, 0x4, 0x6, 0x10])
        cells["clocks_event_reasons.active"] = f"0x{reasons:016x}"


def _one_link_loss(day: Day, scatter: random.Random) -> None:
    """One adapter lost its link once within these hours, which two programs say."""
    number, ago = scatter.randrange(len(_NICS)), scatter.uniform(0, 6 * 3600)
    day.journal += [
        (ago, f"kernel: mlx5_core {_NICS[number]['pci']} ib{number}: Link down"),
        (ago - 1, f"systemd-networkd[700]: ib{number}: Lost carrier"),
    ]
    _counter(day, number, "symbol_error", scatter.randint(0, 9))
    _counter(day, number, "link_error_recovery", scatter.randint(0, 1))
    _counter(day, number, "link_downed", 1)
    day.files[f"sys/class/net/ib{number}/carrier_down_count"] = str(scatter.randint(1, 3))


def _counter(day: Day, number: int, name: str, value: int) -> None:
    day.files[f"{_port(number)}/counters/{name}"] = str(value)


def _port(number: int) -> str:
    return f"sys/class/infiniband/{_NICS[number]['device']}/ports/1"


_KERNEL_LINES = (
    ("python3[4242]: segfault at 0 ip 00007f00deadbeef sp 00007ffd00000000 error 4 in x.so[1+2]",),
    ("Memory cgroup out of memory: Killed process 4242 (python3) total-vm:1024kB, anon-rss:1kB",),
    ("Out of memory: Killed process 4242 (xhpl) total-vm:1024kB, anon-rss:1024kB, UID:1000",),
    ("INFO: task kworker/3:1:4242 blocked for more than 120 seconds.",),
    ("nfs: server 10.0.0.4 not responding, still trying", "nfs: server 10.0.0.4 OK"),
    ("pcieport 0001:00:00.0: AER: Corrected error received: 0001:00:00.0",),
    ("nvidia 0001:00:00.0: PCIe Bus Error: severity=Corrected, type=Data Link Layer, (Sender)",),
    ("mce: [Hardware Error]: Machine check events logged",),
    ("[Hardware Error]: Corrected error, no action required.",),
    ("nvme nvme2: I/O 22 QID 7 timeout, completion polled",),
    ("EXT4-fs (md127): mounted filesystem with ordered data mode. Quota mode: none.",),
    ("perf: interrupt took too long (2513 > 2500), lowering kernel.perf_event_max_sample_rate",),
    ("hv_netvsc eth0: Data path switched from VF: enP1s1", "hv_netvsc eth0: VF slot 1 removed"),
    ("TCP: request_sock_TCP: Possible SYN flooding on port 5000. Sending cookies.",),
    ("LNetError: 4242:0:(lib-move.c:1:lnet_x()) 10.0.0.5@tcp: gone", "Lustre: restored"),
    ('audit: type=1326 audit(1.1:2): comm="sh" exe="/bin/sh" msg="GPU has fallen off the bus?"',),
    ("watchdog: BUG: soft lockup - CPU#3 stuck for 22s! [python3:4242]",),
)


def _kernel_lines(day: Day, scatter: random.Random) -> None:
    """What kernels say of healthy machines, at worst a warning."""
    for lines in scatter.sample(_KERNEL_LINES, scatter.randint(1, 6)):
        day.says(scatter, *lines)


def _unreadable(day: Day, scatter: random.Random) -> None:
    """A question that a healthy node does not answer."""
    refused = (1, "Field is not a valid field to query.\n")
    start, answer = scatter.choice(
        [
            ("dmesg", (1, "dmesg: read kernel buffer failed: Operation not permitted\n")),
            ("journalctl", (1, "")),
            ("nvidia-smi nvlink", (0, "")),
            ("nvidia-smi -q", (2, "")),
            ("nvidia-smi --query-remapped-rows", refused),
            ("nvidia-smi --query-gpu=pci.bus_id,clocks.sm", refused),
        ]
    )
    day.answers[start] = answer


NOISE = (
    *(_application_xids, _warned_codes, _repaired, _corrected, _at_work, _one_link_loss),
    *(_kernel_lines, _unreadable),
)


def healthy(scatter: random.Random, often: float = OFTEN) -> Day:
    """A moment of a healthy day."""
    day = Day(uptime=scatter.choice([scatter.uniform(120, _DAY), scatter.uniform(0, 90 * _DAY)]))
    day.uptime = max(day.uptime, 120)
    day.files["proc/uptime"] = f"{day.uptime:.2f} 1.00"
    # Some MiB differ between boots.
    day.files["proc/meminfo"] = f"MemTotal: {_MACHINE['memory_kib'] - scatter.randint(0, 65536)} kB"
    for happens in NOISE:
        if scatter.random() < often * (0.2 if happens is _unreadable else 1):
            happens(day, scatter)
    return day


# -- faults --


def _now(day: Day, *lines: str) -> None:
    """Lines that were logged a minute ago, after everything else."""
    day.log += [(day.uptime - 60 + number, line) for number, line in enumerate(lines)]


def _xid(code: int, day: Day, scatter: random.Random) -> None:
    more = "pid=1, Fatal XC0 i0 Link 1"
    if code == 154:
        more = "GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)"
    _now(day, _xid_line(code, scatter.choice(_GPUS), more))


def _sxid(code: int, day: Day, _scatter: random.Random) -> None:
    _now(day, f"nvidia-nvswitch0: SXid (PCI:0005:00:00.0): {code}, Fatal, Link 30 x")


def _cells(changes: Mapping[str, str], day: Day, scatter: random.Random) -> None:
    scatter.choice(day.cells).update(changes)


def _nic(changes: Mapping[str, str], day: Day, scatter: random.Random) -> None:
    port = _port(scatter.randrange(len(_NICS)))
    day.files.update({f"{port}/{name}": text for name, text in changes.items()})


def _no_gpu(day: Day, scatter: random.Random) -> None:
    number = scatter.randrange(len(_GPUS))
    day.cells[number]["there"] = ""
    day.files[f"sys/bus/pci/devices/{_GPUS[number]}"] = None


def _gpu_not_started(day: Day, scatter: random.Random) -> None:
    number = scatter.randrange(len(_GPUS))
    day.cells[number]["there"] = ""
    failed = f"NVRM: GPU {_GPUS[number]}: RmInitAdapter failed! (0x25:0x65:1457)"
    day.log += [(4.0, failed), (4.1, f"nvidia: probe of {_GPUS[number]} failed with error -1")]


def _fewer(kind: str, day: Day, scatter: random.Random) -> None:
    number = scatter.randrange(8)
    gone = {"nic": f"sys/class/infiniband/{_NICS[number]['device']}"}
    day.files[gone.get(kind, f"sys/class/nvme/nvme{number}")] = None


def _links(active: int, day: Day, scatter: random.Random) -> None:
    day.links[scatter.randrange(len(_GPUS))] = active


def _fabric(state: tuple[str, str], day: Day, scatter: random.Random) -> None:
    day.fabric[scatter.randrange(len(_GPUS))] = state


def _answers(start: str, status: int, text: str, day: Day, _scatter: random.Random) -> None:
    day.answers[start] = (status, text)


def _flaps(day: Day, scatter: random.Random) -> None:
    number = scatter.randrange(len(_NICS))
    times = [scatter.uniform(10, 6 * 3600) for _ in range(3)]
    day.journal += [(ago, f"systemd-networkd[700]: ib{number}: Lost carrier") for ago in times]
    day.journal += [(max(times) + 60, f"systemd-networkd[700]: ib{number}: Lost carrier")]


def _memory(day: Day, scatter: random.Random) -> None:
    lost = scatter.choice([128, 256, 512]) * 2**20
    day.files["proc/meminfo"] = f"MemTotal: {_MACHINE['memory_kib'] - lost} kB"


def _offline(day: Day, scatter: random.Random) -> None:
    day.files["sys/devices/system/cpu/online"] = f"0-{scatter.randint(40, 94)}"


# Each with the words of its reason.
FAULTS: Mapping[str, tuple[str, Callable[[Day, random.Random], None]]] = {
    **{
        f"XID {code}": (f"XID {code} ", functools.partial(_xid, code))
        for code in _codes("xids", "fail")
    },
    **{
        f"SXid {code}": (f"SXid {code} ", functools.partial(_sxid, code))
        for code in _codes("sxids", "fail")
    },
    "GPU off the bus": ("GPUs", _no_gpu),
    "GPU not started": ("GPU", _gpu_not_started),
    "nvidia-smi hangs": ("nvidia-smi", functools.partial(_answers, "nvidia-smi", 124, "")),
    "GPU is lost": (
        "nvidia-smi",
        functools.partial(_answers, "nvidia-smi", 15, "Unable to determine the device handle\n"),
    ),
    "driver and library differ": (
        "nvidia-smi",
        functools.partial(
            *(_answers, "nvidia-smi", 18),
            "Failed to initialize NVML: Driver/library version mismatch\n",
        ),
    ),
    "one NVLink down": ("NVLink", functools.partial(_links, 17)),
    "all NVLinks down": ("NVLink", functools.partial(_links, 0)),
    "fabric not registered": ("fabric", functools.partial(_fabric, ("In Progress", "N/A"))),
    "fabric without resources": (
        "fabric",
        functools.partial(_fabric, ("Completed", "Insufficient Resources")),
    ),
    "uncorrected ECC": (
        "ECC",
        functools.partial(_cells, {"ecc.errors.uncorrected.volatile.total": "1"}),
    ),
    "uncorrected SRAM": (
        "SRAM",
        functools.partial(_cells, {"ecc.errors.uncorrected.volatile.sram": "2"}),
    ),
    "many corrected SRAM": (
        "SRAM",
        functools.partial(_cells, {"ecc.errors.corrected.volatile.sram": "20000"}),
    ),
    "row remap pending": ("row", functools.partial(_cells, {"remapped_rows.pending": "Yes"})),
    "row remap failed": ("row", functools.partial(_cells, {"remapped_rows.failure": "Yes"})),
    "GPU with less memory": ("memory", functools.partial(_cells, {"memory.total": "40960 MiB"})),
    **{
        f"slowed, {name}": (
            "slowed",
            functools.partial(_cells, {"clocks_event_reasons.active": f"0x{mask:016x}"}),
        )
        for name, mask in (("hardware", 0x8), ("hot", 0x40), ("power brake", 0x80))
    },
    "port down": (
        "link",
        functools.partial(_nic, {"state": "1: DOWN", "phys_state": "2: Polling"}),
    ),
    "port without subnet manager": ("link", functools.partial(_nic, {"state": "2: INIT"})),
    "slow link": ("link", functools.partial(_nic, {"rate": "200 Gb/sec (2X NDR)"})),
    "adapter missing": ("InfiniBand", functools.partial(_fewer, "nic")),
    "link flaps": ("link", _flaps),
    "disk missing": ("NVMe", functools.partial(_fewer, "disk")),
    "memory missing": ("memory", _memory),
    "CPUs offline": ("cores", _offline),
    "scratch not mounted": (
        "scratch",
        functools.partial(_answers, _SCRATCH, 1, "/mnt/scratch is not mounted\n"),
    ),
}


# -- checks --


class Machine:
    """The folder of one node's /sys and /proc; a day changes some files of it for a while."""

    def __init__(self, root: Path) -> None:
        self.root = machines.build(_MACHINE, root)
        for number, nic in enumerate(_NICS):
            (root / "sys/bus/pci/devices" / nic["pci"] / "net" / f"ib{number}").mkdir(parents=True)
            files = {f"{_port(number)}/counters/{name}": "0" for name in _COUNTERS}
            files[f"sys/class/net/ib{number}/carrier_down_count"] = "1"
            for name, text in files.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(f"{text}\n")

    @contextmanager
    def changed(self, files: Mapping[str, str | None]) -> Iterator[str]:
        """Its folder, with these changes."""
        aside = self.root / "aside"
        aside.mkdir()
        names = dict(enumerate(files.items()))
        for number, (name, text) in names.items():
            with suppress(FileNotFoundError):
                (self.root / name).rename(aside / str(number))
            if text is not None:
                (self.root / name).write_text(f"{text}\n")
        try:
            yield str(self.root)
        finally:
            for number, (name, text) in names.items():
                if text is not None:
                    (self.root / name).unlink()
                with suppress(FileNotFoundError):
                    (aside / str(number)).rename(self.root / name)
            aside.rmdir()


_COUNTERS = ("symbol_error", "link_error_recovery", "link_downed")


_topology_once = functools.cache(read_topology)


@dataclass(frozen=True)
class Checked:
    """A check of a node.

    Attributes:
        told: what scontrol is told; findings: the verdict's; state: the record of the node.
    """

    told: list[str]
    findings: list[str]
    state: Case | None


def check(machine: Machine, day: Day, drained_for: str = "") -> Checked:
    """One check by the program that slurmd runs.

    Args:
        drained_for: the reason of a node that is drained.
    """
    kept: list[Case] = []
    original = slurm_health.own_state

    def own_state(*values: Any) -> Case:
        kept.append(original(*values))
        return kept[0]

    slurm_health.own_state = own_state
    if not any(name.startswith("sys/devices") for name in day.files):
        # A third of the time of a check, and each time the same.
        slurm_health.read_topology = _topology_once
    try:
        with machine.changed(day.files) as root:
            looked = slurm_health.look(settings(), day, root)  # type: ignore[arg-type]
    finally:
        slurm_health.own_state, slurm_health.read_topology = original, read_topology
    verdict = slurm_health.verdict_of(looked, settings())
    shown = _SHOWN
    if drained_for:
        shown += f"   Reason={drained_for} [root@2026-11-20T09:00:00]\n"
    else:
        shown = shown.replace("State=IDLE+DRAIN", "State=IDLE")
    told = slurm_health.due(shown, verdict, settings())
    return Checked(told, verdict["findings"], kept[0] if kept else None)


# -- mornings: what `trueup health` judges --

# Spread of the constant of a node or device, where the measured noise does not hold it.
_CONSTANT = {"busbw": 0.004, "ib_write_bandwidth": 0.002}
_LIKE = {"d2h_bandwidth": "h2d_bandwidth", "p2p_bandwidth": "h2d_bandwidth"}


class Speeds:
    """Benchmarks of healthy nodes: the figure that the catalog calls healthy, times a constant of
    the place, times the measured noise of a run (``planted_changes.MEASURED``)."""

    def __init__(self, scatter: random.Random) -> None:
        self._scatter, self._constants = scatter, dict[Any, float]()
        healthy = {
            item.metric: (item.expected.base, item.healthy.value.base)
            for item in expectations.for_size(None).of(SIZE)
            if item.healthy is not None and item.nodes in (None, 1)
        }
        self.limits = {metric: limit for metric, (limit, _) in healthy.items()}
        self._usual = {metric: usual for metric, (_, usual) in healthy.items()}
        self._records = [
            replace(case, parameters={**case.parameters, **_PROGRAM.get(case.benchmark, {})})
            for case in map(of_record, fleet.fleet(1, faults={}, noisy_pair=None))
            if case.benchmark != "node_state"
        ]

    def of_node(self, node: str, run_id: str) -> list[Case]:
        """The records of one morning."""
        return [
            replace(
                case,
                nodes=(node,),
                run_id=run_id,
                figures=[self._figure(node, figure) for figure in case.figures],
            )
            for case in self._records
        ]

    def _figure(self, node: str, figure: Figure) -> Figure:
        usual = self._usual.get(figure.name)
        if usual is None:
            return figure
        place = node, figure.name, figure.device
        if place not in self._constants:
            self._constants[place] = self._scatter.gauss(0, _CONSTANT.get(figure.name, 0.0))
        noise = MEASURED.spreads[_LIKE.get(figure.name, figure.name)] * MEASURED.draw(self._scatter)
        return figure._replace(value=usual * math.exp(self._constants[place] + noise))

    def slowed(self, cases: Sequence[Case]) -> tuple[str, list[Case]]:
        """The same records with one figure of one device below its limit; its name."""
        metric = self._scatter.choice(sorted(self.limits))
        value = self.limits[metric] * self._scatter.uniform(0.5, 0.99)
        device = self._scatter.choice(
            [figure.device for case in cases for figure in case.figures if figure.name == metric]
        )
        return metric, [
            replace(
                case,
                figures=[
                    figure._replace(value=value)
                    if (figure.name, figure.device) == (metric, device)
                    else figure
                    for figure in case.figures
                ],
            )
            for case in cases
        ]


_PROGRAM = {"gemm": {"program": "ubergemm"}}


def morning(cases: Sequence[Case]) -> Health:
    """The verdicts of `trueup health` on these records."""
    return examine(
        cases,
        expectations.for_size(SIZE),
        required=sorted({case.benchmark for case in cases}),
        faults=expectations.read_faults(),
    )


# -- the trial --

NODES = 100


class Trial(NamedTuple):
    """Node-days, checked as slurmd does it and judged each morning.

    Attributes:
        node_days: of healthy nodes; drained: sentences on each of these that was drained.
        planted: faults; missed: sentences on each that one check did not drain, or not for it.
        given_back: nodes that were given back at the check after their mend.
        warned: node-days with a warning.
    """

    node_days: int
    drained: list[str]
    planted: int
    missed: list[str]
    given_back: int
    warned: int


def trial(node_days: int, planted: int, seed: int, folder: Path) -> Trial:
    """A fleet of ``NODES`` nodes for so many node-days, and as many faults on further nodes."""
    scatter, machine = random.Random(seed), Machine(folder / "node")
    speeds, drained, missed = Speeds(scatter), list[str](), list[str]()
    warned = given_back = slow = 0
    for first in range(0, node_days, NODES):
        run_id = f"20261130T{first // NODES // 60 % 24:02d}{first // NODES % 60:02d}00Z-0000"
        cases: list[Case] = []
        for number in range(min(NODES, node_days - first)):
            checked = check(machine, healthy(scatter))
            warned += bool(checked.findings)
            if checked.told:
                drained.append(f"node-day {first + number}: {checked.told[-1]}")
            state = replace(checked.state, nodes=(fleet.node(number),), run_id=run_id)
            cases += [state, *speeds.of_node(fleet.node(number), run_id)]
        bad = fleet.node(NODES)
        metric, records = speeds.slowed(speeds.of_node(bad, run_id))
        judged = morning([*cases, replace(state, nodes=(bad,)), *records])
        slow += 1
        if bad not in judged.blamed:
            missed.append(f"morning {first // NODES}: slow {metric}: {judged.words[bad]}")
        drained += [
            f"morning {first // NODES}: {node}: {items[0].what} {items[0].measured}"
            for node, items in judged.blamed.items()
            if node != bad
        ]
    names = list(FAULTS)
    for number in range(planted):
        name = names[number % len(names)]
        words, happens = FAULTS[name]
        day = healthy(scatter)
        # A node whose kernel log cannot be read is not measured, and says so.
        day.answers.pop("dmesg", None)
        happens(day, scatter)
        checked = check(machine, day)
        if checked.told[2:3] != ["state=drain"] or not any(
            words in finding for finding in checked.findings if finding.startswith("fail")
        ):
            missed.append(f"{name}: {checked.told}, {checked.findings[:3]}")
        elif number % 4 == 0:
            reason = checked.told[3].partition("=")[2]
            told = check(machine, healthy(scatter, 0), reason).told
            given_back += 1
            if told[2:] != ["state=resume"]:
                missed.append(f"{name}, mended: {told}")
    return Trial(node_days, drained, planted + slow, missed, given_back, warned)
