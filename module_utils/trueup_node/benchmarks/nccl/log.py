"""The way that data took, from NCCL's own log (NCCL_DEBUG=INFO).

The formats are those of NCCL 2.4 to 2.30, from its source: transport/p2p.cc, shm.cc, net.cc and
coll_net.cc ("Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read", "via SHM/direct",
"[send] via NET/IB/0/GDRDMA"), net_ib ("NET/IB : Using [0]mlx5_ib0:1/IB"), graph/xml.cc ("Loading
topology file"), graph/paths.cc ("GPU/0-100000 :GPU/0-200000 (2/240.0/NVL)"), init.cc ("NCCL version
2.30.4+cuda13.0", "Using network IB", "comm 0x... rank 0 nRanks 16 nNodes 2 localRanks 8"),
misc/param.cc ("NCCL_IB_DISABLE set by environment to 1") and plugin/net ("NET/Plugin: Loaded net
plugin IBext_v11").

The log answers only from its lines: everything else is ``unknown``.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Dict, List, Mapping, NamedTuple, Optional, Sequence, Set, Tuple

# Transports of a pair of ranks, the worst first: one pair that fell back makes all wait.
_WORST_FIRST = ("socket", "other", "shm", "roce", "unknown", "ib", "p2p", "nvlink")
# Those within a node.
_INSIDE = {"shm", "p2p", "nvlink"}
# NVL is a link or a switch between two GPUs, NVB two links with a GPU between them.
_NVLINK_PATHS = {"NVL", "NVB"}
# The first release that says so when it loads a topology file (graph/xml.cc).
_SAYS_TOPOLOGY = (2, 10)

_CHANNEL = re.compile(
    r"(?:Channel|Ring) \d+(?:/\d+)? : (\d+)(?:\[[0-9a-f]+\])? -> (\d+)(?:\[[0-9a-f]+\])?"
    r"(?: \[(?:send|receive)\])? via (\S.*)"
)
_COLLNET = re.compile(
    r"Coll(?:Net)? \d+(?:/\d+)? : \d+ \[(?:send|receive)\] via COLLNET/([^/]+)/\d+"
)
_NETWORK = re.compile(r"Using network (\S.*)")
_COMMUNICATOR = re.compile(
    r"(?:ncclCommInit\w+ )?comm 0x[0-9a-f]+ rank \d+ n[rR]anks (\d{1,7})"
    r"(?: nNodes (\d{1,6}) localRanks \d)?"
)
# Variables that ask for sockets.
_SOCKET_VARIABLES = re.compile(
    r"(NCCL_IB_DISABLE(?= set by environment to 1\b)|NCCL_NET(?= set by environment to Socket\b))"
)
_PLUGIN = re.compile(r"NET/Plugin ?: Loaded (net|collnet) plugin (\S+)")
_TOPOLOGY = re.compile(r"Loading topology file (\S+)")
_NO_TOPOLOGY = re.compile(r"Could not open XML topology file (\S+) : ")
# Rank 0 logs its choice for each call (TUNING in NCCL_DEBUG_SUBSYS), to 2.22 by number.
_CHOICE = re.compile(r"(?:\w+: *)?\d+ Bytes -> Algo (\w+) proto (\w+)")
_ALGORITHMS = ("tree", "ring", "collnet_direct", "collnet_chain", "nvls", "nvls_tree", "pat")
_PROTOCOLS = ("ll", "ll128", "simple")
# First letters of the messages that are read, but for choices.
_FIRST = frozenset("CRNULG=cn")
_CHOSEN = " Bytes -> Algo "
_CHANNELS = ("Channel ", "Ring ")
# So many different ones are remembered.
_MOST_SEEN = 100_000
_GPU_PATH = re.compile(r"GPU/[^\s/]+ \(\d+/[\d.]+/([A-Z0-9]+)\)")


class NcclLog(NamedTuple):
    """How NCCL moved the data.

    Attributes:
        within: transport between GPUs of one node: nvlink; p2p (between GPUs, whether over NVLink
            is not shown, or it was PCIe); shm (host memory); ib, roce, socket, other (a network);
            unknown; None where no node has two ranks.
        between: the same between nodes, None on one node.
        gpudirect: whether networks read and wrote GPU memory: yes, no, partly or unknown.
        sharp: whether switches reduced (COLLNET over the SHARP plugin): yes, no or unknown.
        network: the network as NCCL names it, None when not shown.
        plugins: external network plugins loaded.
        adapters: the InfiniBand and RoCE adapters that NCCL found, with their link layer.
        topology_file: the topology file loaded, "none", or "unknown".
        topology_failed: topology files that were asked for and could not be opened.
        algorithms: algorithms and protocols that were chosen ("ring/simple"), where it says so.
        version: of the NCCL library that ran.
        why_unknown: the missing lines of the log, a sentence, where transport is unknown.
        warnings: NCCL's own, each once.
        hosts: the machines that wrote lines.
        ranks, nodes: of the largest communicator; None where no line says it.
        socket_variables: the variables that asked for sockets.
    """

    within: Optional[str] = None
    between: Optional[str] = None
    gpudirect: str = "unknown"
    sharp: str = "unknown"
    network: Optional[str] = None
    plugins: Tuple[str, ...] = ()
    adapters: Tuple[str, ...] = ()
    topology_file: str = "unknown"
    topology_failed: Tuple[str, ...] = ()
    algorithms: Tuple[str, ...] = ()
    version: Optional[str] = None
    why_unknown: str = "NCCL's log is not in the output (NCCL_DEBUG=INFO writes it)"
    warnings: Tuple[str, ...] = ()
    hosts: Tuple[str, ...] = ()
    ranks: Optional[int] = None
    nodes: Optional[int] = None
    socket_variables: Tuple[str, ...] = ()

    @property
    def transport(self) -> str:
        """The slower part of the way: between nodes, or within the node where there is one."""
        return self.between or self.within or "unknown"

    @property
    def parameters(self) -> Dict[str, str]:
        """The way of the data."""
        return {
            "transport": self.transport,
            "within_node": self.within or "none",
            "between_nodes": self.between or "none",
            "gpudirect": self.gpudirect,
            "sharp": self.sharp,
            "network": self.network or "unknown",
            "adapters": ",".join(self.adapters) or "unknown",
            "topology_file": self.topology_file,
            **({"algorithm": ",".join(self.algorithms)} if self.algorithms else {}),
        }


class LogReader:
    """Collects the facts of the lines, each once; the questions are answered at the end."""

    def __init__(self) -> None:
        self.hosts: Mapping[int, str] = {}
        self.empty = True
        # Messages already read, by host; those of channels without the channel's number.
        self.messages: Set[Tuple[str, str]] = set()
        self.channels: Set[Tuple[str, str]] = set()
        self.ways: Dict[Tuple[int, int, str, str], None] = {}  # from, to, way, host of the line
        self.gdr: List[bool] = []
        self.links: Dict[str, Dict[int, str]] = {}
        self.adapters: Dict[str, None] = {}
        self.paths: Dict[str, Set[str]] = {}
        self.loaded: Dict[str, None] = {}
        self.failed: Dict[str, None] = {}
        self.plugins: Dict[str, None] = {}
        self.networks: Dict[str, None] = {}
        self.collnets: Dict[str, None] = {}
        self.versions: Dict[str, Tuple[int, int]] = {}
        self.warnings: Dict[str, None] = {}
        self.chosen: Dict[str, None] = {}
        self.graph = False
        self.writers: Dict[str, None] = {}  # hosts
        self.ranks = self.nodes = 0
        self.socket_variables: Dict[str, None] = {}

    def take(self, host: str, level: str, message: str) -> None:
        """Read a line.

        Args:
            host: the machine that wrote it.
            level: INFO, WARN, ...
            message: the text after the level.
        """
        self.empty = False
        if host:
            self.writers[host] = None
        if level == "WARN":
            self.warnings[message.strip()] = None
        first = message[:1]
        if first not in _FIRST and not first.isspace() and _CHOSEN not in message:
            return
        channel = message.startswith(_CHANNELS)
        key = (host, message.partition(" : ")[2] if channel else message)
        seen_keys = self.channels if channel else self.messages
        if key in seen_keys:
            return
        if communicator := _COMMUNICATOR.match(message):
            self.ranks = max(self.ranks, int(communicator[1]))
            self.nodes = max(self.nodes, int(communicator[2] or 0))
        self._read(host, message.strip())
        # Of two lists of adapters the last one counts, even if it is the first one again.
        again = _CHANNEL.match(message) is None if channel else "NET/IB" in message
        if not again and len(seen_keys) < _MOST_SEEN:
            seen_keys.add(key)

    def _read(self, host: str, message: str) -> None:
        if match := _CHANNEL.match(message):
            self.ways[(int(match[1]), int(match[2]), match[3], host)] = None
        elif match := re.match(r"NET/IB ?: Using( \[\d+\].*?)(?:;|$)", message):
            for index, name, link in re.findall(r"\[(\d+)\]([\w.-]+):\d[\d:]*/(\w+)", match[1]):
                self.links.setdefault(host, {})[int(index)] = link
                self.adapters[f"{name}/{link}"] = None
        elif match := re.match(r"NCCL version ((\d+)\.(\d+)\.\d+\S*)", message):
            self.versions[match[1]] = (int(match[2]), int(match[3]))
        elif match := _CHOICE.match(message):
            chosen = _named(match[1], _ALGORITHMS), _named(match[2], _PROTOCOLS)
            self.chosen["/".join(chosen)] = None
        elif re.match(r"GPU/\S+ :", message):
            types = set(_GPU_PATH.findall(message)) - {"LOC"}
            self.paths.setdefault(host, set()).update(types)
        elif re.match(r"=== System : max(?:Bw|Width) ", message):
            self.graph = True
        for pattern, names in (
            (_COLLNET, self.collnets),
            (_TOPOLOGY, self.loaded),
            (_NO_TOPOLOGY, self.failed),
            (_NETWORK, self.networks),
            (_PLUGIN, self.plugins),
            (_SOCKET_VARIABLES, self.socket_variables),
        ):
            if match := pattern.match(message):
                names[match[match.re.groups]] = None

    def way(self, how: str, host: str) -> str:
        """The transport of one channel."""
        if how.startswith("P2P/"):
            return "p2p"
        if how.startswith("SHM"):
            return "shm"
        match = re.match(r"NET/(.+?)/(\d+)(?:\(\d+\))?((?:/GDRDMA)?)", how)
        if not match:
            return "other"
        name, index = match[1], int(match[2])
        if name == "Socket":
            return "socket"
        if not name.startswith("IB"):
            return "other"
        self.gdr.append(bool(match[3]))
        links = self.links.get(host, {})
        # Several adapters that NCCL has merged have a number of their own, past the list's.
        used = {links[index]} if index in links else set(links.values())
        if not used:
            return "unknown"
        return "ib" if used == {"IB"} else "roce"

    def answer(self, hosts_of_ranks: Mapping[int, str]) -> NcclLog:
        """The facts of the log; ``hosts_of_ranks`` is the machine of each rank."""
        if self.empty:
            return NcclLog()
        self.hosts = hosts_of_ranks
        return self._answer(*self._by_ranks())

    def alone(self) -> NcclLog:
        """The same of a log without a list of ranks, whose ranks may be those of several
        communicators: transports within a node and of networks are told apart by their names."""
        ways = {self._nvlink(self.way(how, host), host) for *_, how, host in self.ways}
        within, between = _first(ways & _INSIDE), _first(ways - _INSIDE)
        if not between and max(self.nodes, len(self.writers)) > 1:
            between = "socket" if {*self.networks} == {"Socket"} else "unknown"
        elif not ways and self.nodes != 1:
            between = "unknown"
        return self._answer(within if ways else "unknown", between, [])

    def _by_ranks(self) -> Tuple[Optional[str], Optional[str], List[str]]:
        """The slowest way within the nodes and between them, and nodes without channels."""
        ways = [
            ({self.hosts[origin], self.hosts[target]}, self.way(how, host))
            for origin, target, how, host in self.ways
            if origin in self.hosts and target in self.hosts
        ]
        inside = {
            (host, self._nvlink(way, host)) for ends, way in ways if len(ends) == 1 for host in ends
        }
        across = {(host, way) for ends, way in ways if len(ends) > 1 for host in ends}
        hosts = Counter(self.hosts.values())
        within, silent = _worst(inside, sorted(host for host in hosts if hosts[host] > 1))
        between, more = _worst(across, sorted(hosts) if len(hosts) > 1 else [])
        return within, between, [*silent, *more]

    def _answer(self, within: Optional[str], between: Optional[str], silent: List[str]) -> NcclLog:
        versions = list(self.versions)
        return NcclLog(
            within=within,
            between=between,
            gpudirect=_share(self.gdr),
            sharp=self._sharp(),
            network=", ".join(self.networks) or None,
            plugins=tuple(self.plugins),
            adapters=tuple(self.adapters),
            topology_file=self._topology(),
            topology_failed=tuple(self.failed),
            algorithms=tuple(self.chosen),
            version=versions[0] if len(versions) == 1 else None,
            why_unknown=self._why_unknown(silent),
            warnings=tuple(self.warnings),
            hosts=tuple(self.writers),
            ranks=self.ranks or None,
            nodes=self.nodes or None,
            socket_variables=tuple(self.socket_variables),
        )

    def _nvlink(self, way: str, host: str) -> str:
        paths = self.paths.get(host, set())
        return "nvlink" if way == "p2p" and paths and paths <= _NVLINK_PATHS else way

    def _sharp(self) -> str:
        if "SHARP" in self.collnets:
            return "yes"
        return "no" if self.ways else "unknown"

    def _topology(self) -> str:
        if self.loaded:
            return ",".join(self.loaded)
        old = not self.versions or min(self.versions.values()) < _SAYS_TOPOLOGY
        return "none" if self.graph and not old else "unknown"

    def _why_unknown(self, silent: List[str]) -> str:
        if silent and self.ways:
            return f"NCCL's log has no channel of {', '.join(dict.fromkeys(silent))}"
        if not self.ways:
            return "NCCL's log shows no channel (NCCL_DEBUG=INFO with INIT in NCCL_DEBUG_SUBSYS)"
        return "NCCL's log does not list its adapters (NET in NCCL_DEBUG_SUBSYS)"


def _named(text: str, names: Sequence[str]) -> str:
    """A choice by its name, where NCCL gives its number."""
    is_number = text.isdecimal() and int(text) < len(names)
    return names[int(text)] if is_number else text.lower()


def _worst(ways: Set[Tuple[str, str]], hosts: Sequence[str]) -> Tuple[Optional[str], List[str]]:
    """The slowest way of these hosts, and those of which none was shown. It is unknown where it
    would be a good one and some were not shown, and None without hosts."""
    if not hosts:
        return None, []
    requested_hosts, logged_hosts = set(hosts), {host for host, _ in ways}
    used_ways = {way for host, way in ways if host in requested_hosts}
    lacking = [host for host in hosts if host not in logged_hosts]
    worst = _first(used_ways) or "unknown"
    good = worst not in {"socket", "other", "shm", "roce"}
    return ("unknown" if lacking and good else worst), lacking


def _first(ways: Set[str]) -> Optional[str]:
    """The worst one."""
    return next((way for way in _WORST_FIRST if way in ways), None)


def _share(flags: Sequence[bool]) -> str:
    if not flags:
        return "unknown"
    return "yes" if all(flags) else "partly" if any(flags) else "no"
