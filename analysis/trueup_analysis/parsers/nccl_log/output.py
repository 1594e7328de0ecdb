"""Parser of the lines of NCCL's log that stand in a program's output.

``node:pid:thread [gpu] NCCL INFO text``, or ``node:pid:thread [gpu] file:line NCCL WARN text``. The
texts and their versions are those of ``trueup_node.benchmarks.nccl.log``. A document may lack the
node's name, or the line ends between them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from trueup_node.benchmarks.nccl.log import LogReader, NcclLog
from trueup_node.errors import ParseError
from trueup_node.reading import each_line
from trueup_node.record import Metric

TOOL = "nccl_log"
_MESSAGE = re.compile(
    r"(?:(?<![\w.-])([\w.-]{1,80}):\d{1,9}:\d{1,9} (?:\[-?\d{1,3}\] )?(?:\S{1,200} )?)?"
    r"NCCL (INFO|WARN) "
)
_VERSION = re.compile(r"(?<!INFO )\bNCCL version \d\S*")


@dataclass(frozen=True)
class NcclLogOutput:
    """What the log shows of the network."""

    log: NcclLog

    @property
    def tool_version(self) -> str | None:
        """NCCL's version."""
        return self.log.version

    @property
    def hosts(self) -> tuple[str, ...]:
        """Machines that wrote lines."""
        return self.log.hosts

    @property
    def node_count(self) -> int | None:
        """Nodes of the largest communicator."""
        return self.log.nodes

    @property
    def ranks(self) -> int | None:
        """Ranks of the largest communicator."""
        return self.log.ranks

    @property
    def parameters(self) -> dict[str, str]:
        """The way of the data."""
        return self.log.parameters

    @property
    def checks(self) -> dict[str, bool]:
        """Whether nodes talked by another network than sockets, unless sockets were asked for."""
        if self.log.between in {None, "unknown"} or self.log.socket_variables:
            return {}
        return {"no_socket_fallback": self.log.between != "socket"}

    @property
    def reasons(self) -> dict[str, str]:
        """The sentence for such a failure."""
        nodes = f"{self.log.nodes} nodes" if self.log.nodes else "nodes"
        return {"no_socket_fallback": f"NCCL fell back to TCP sockets between {nodes}"}

    @property
    def warnings(self) -> list[str]:
        """NCCL's own warnings, and sockets that were asked for."""
        variables = ", ".join(self.log.socket_variables)
        remarks = (
            (
                self.log.between == "socket" and variables,
                f"NCCL uses TCP sockets between nodes: {variables} asks for them",
            ),
            (
                self.log.between == "unknown" and self.log.network == "Socket",
                "NCCL's only network is TCP sockets, and the log does not say how many nodes talk",
            ),
        )
        return [
            *(remark for is_so, remark in remarks if is_so),
            *(f"a topology file was not opened: {name}" for name in self.log.topology_failed),
            *(f"NCCL: {text}" for text in self.log.warnings),
        ]

    def metrics(self) -> list[Metric]:
        """How many different warnings NCCL wrote."""
        return [Metric("nccl_warnings", len(self.log.warnings), "1", "lower")]


def parse_nccl_log(text: str) -> NcclLogOutput:
    """Read the log's lines; all others are another program's.

    Raises:
        ParseError: there is none.
    """
    reader = LogReader()
    for line in each_line(text):
        if "NCCL " not in line:
            continue
        matches = [*_MESSAGE.finditer(line)]
        ends = [*(match.start() for match in matches[1:]), len(line)]
        for match, end in zip(matches, ends, strict=False):
            reader.take(match[1] or "", match[2], line[match.end() : end].strip())
        if not matches and (version := _VERSION.search(line)):
            reader.take("", "INFO", version[0])
    if reader.empty:
        raise ParseError("no line of NCCL's log (NCCL INFO or NCCL WARN)")
    return NcclLogOutput(reader.alone())
