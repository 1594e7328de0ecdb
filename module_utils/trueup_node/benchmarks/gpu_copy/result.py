"""Result of the parser of GPU copies, which the reader of each program fills."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Optional

from ...errors import ParseError
from ...reading import Line
from ...record import Metric, summarise

# Host to device, device to host, within a device's memory, and from one device to another.
KINDS = ("h2d", "d2h", "d2d", "p2p")
GB = 1e9
# 100 TB/s: no memory or link of a GPU has a tenth of it.
_MOST = 1e14


@dataclass
class GpuCopyOutput:
    """Bandwidths in byte/s.

    Attributes:
        program: nvbandwidth, bandwidthTest, p2pBandwidthLatencyTest or pytorch.
        figures: kind (KINDS) to device (``gpu0``; for peers ``gpu0>gpu1``) to its rates: one for
            each repeat where the program prints them, else the one that it prints.
        sizes: kind to device and bytes of a copy to its rate, where one program measured several.
        statistic: the statistic that a single rate is of its samples.
        samples: how many stand behind a single rate; None where the output does not say.
        peer_access: ``all`` where every GPU reaches every other, ``partial`` or ``none``; None
            where peers were not measured.
        cpus: section (``gpu0``) to the CPUs that it ran on; trueup's own program alone says.
        correct: no program found that copied data differ from the data sent.
        peer_test: which peer test the figures are of, ``read`` or ``write``.
        unverified: why figures may be of another unit.
    """

    program: str
    statistic: str = "median"
    figures: dict[str, dict[str, tuple[float, ...]]] = field(default_factory=dict)
    sizes: dict[str, dict[tuple[str, int], float]] = field(default_factory=dict)
    tool_version: Optional[str] = None
    samples: Optional[int] = None
    peer_access: Optional[str] = None
    peer_test: Optional[str] = None
    memory: str = "pinned"
    cpus: dict[str, str] = field(default_factory=dict)
    correct: bool = True
    warnings: list[str] = field(default_factory=list)
    unverified: list[str] = field(default_factory=list)
    software: dict[str, str] = field(default_factory=dict)
    # Copies between nodes are not read.
    node_count: ClassVar[int] = 1

    @property
    def gpu_count(self) -> Optional[int]:
        """GPUs of which the output has a figure; None where it has none."""
        devices = [device for of_kind in self.figures.values() for device in of_kind]
        devices += [device for of_kind in self.sizes.values() for device, _ in of_kind]
        return len({gpu for device in devices for gpu in device.split(">")}) or None

    @property
    def parameters(self) -> dict[str, str]:
        """The program, its host memory, and how many GPUs reach each other."""
        parameters = {"program": self.program, "memory": self.memory}
        if self.peer_access is not None:
            parameters["peer_access"] = self.peer_access
        if self.peer_test is not None:
            parameters["peer_test"] = self.peer_test
        return parameters

    @property
    def checks(self) -> dict[str, bool]:
        """Whether the data arrived as sent, as far as the program looked."""
        return {"data_correct": self.correct}

    def add(self, kind: str, gpus: Sequence[int], rates: Sequence[float]) -> None:
        """Take the rates of a GPU, or of the GPU that the data come from and the one they go to."""
        device = ">".join(f"gpu{gpu}" for gpu in gpus)
        if device in self.figures.setdefault(kind, {}):
            raise ParseError(f"{kind} of {device} stands twice")
        self.figures[kind][device] = tuple(rates)

    def reached(self, missing: Sequence[tuple[int, int]], gpus: int) -> None:
        """Note the pairs of GPUs that do not reach each other."""
        pairs = gpus * (gpus - 1)
        self.peer_access = "all" if not missing else "none" if len(missing) == pairs else "partial"
        if missing:
            named = ", ".join(f"gpu{start}>gpu{end}" for start, end in missing)
            self.warnings.append(
                f"{len(missing)} of {pairs} pairs of GPUs do not reach each other and have no"
                f" figure: {named}"
            )

    def metrics(self) -> list[Metric]:
        """For each kind a row a device and the least of them, which has no device.

        Peers have no least figure where some GPUs do not reach each other. Copies of several sizes
        give a row a size.
        """
        rows = [
            Metric(
                f"{kind}_bandwidth",
                value,
                "byte/s",
                "higher",
                message_bytes=size,
                statistic=self.statistic,
                device=device,
            )
            for kind, of_kind in self.sizes.items()
            for (device, size), value in of_kind.items()
        ]
        for kind in KINDS:
            name, typical = f"{kind}_bandwidth", []
            for device, rates in self.figures.get(kind, {}).items():
                of_device = summarise(name, rates, "byte/s", "higher", device=device)
                if len(rates) == 1:
                    of_device = [of_device[0]._replace(statistic=self.statistic, n=self.samples)]
                typical.append(of_device[0].value)
                rows += of_device
            if typical and not (kind == "p2p" and self.peer_access != "all"):
                least = min(typical)
                rows.append(
                    Metric(name, least, "byte/s", "higher", statistic="min", n=len(typical))
                )
        return rows


def possible(rate: float, line: Line, label: str) -> float:
    """A rate in byte/s, refused where no GPU can have it."""
    if not 0 < rate < _MOST:
        raise line.error(f"{label} {rate / GB:g} GB/s is not a bandwidth that a GPU can have")
    return rate
