"""NCCL topology files: written from a layout of the catalog, and checked against one.

A layout says how the GPUs and InfiniBand adapters of a VM size hang on its NUMA nodes; the file
says it to NCCL. How NCCL reads each part of the file is from its source, v2.30.4-1,
src/graph/xml.cc, xml.h and topo.cc, and src/include/cpuset.h.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Optional
from xml.parsers import expat

from ..errors import BadInput, ParseError
from .topology import Cpus, cpu_mask, format_cpu_list, mask_words, parse_cpu_list, parse_cpu_mask

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

# Where a job may run: each may want the file or not.
CONTEXTS = ("single_node", "multi_node", "container")

BRIDGE, GPU, NIC = "0x060400", "0x030200", "0x020700"
_KINDS = {BRIDGE: "bridge", GPU: "GPU", NIC: "NIC"}
_BUS_ID = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_ANY_BUS_ID = re.compile(r"([0-9a-fA-F]{1,8}):([0-9a-fA-F]{1,2}):([0-9a-fA-F]{1,2})\.([0-7])")
_BRIDGE_ID_KEYS = ("vendor", "device", "subsystem_vendor", "subsystem_device")
_PINS = "NCCL pins its threads by it (NCCL_IGNORE_CPU_AFFINITY=1 leaves nothing else)"
_WORD_DIGITS = 8
# The largest file of Azure's images has under 4 KB, and NCCL reads 255 elements (its table of 256,
# NCCL_TOPO_XML_MAX_NODES, must not be full at the end): whatever is much larger is something else.
_MAX_BYTES = 256 * 1024
_MAX_ELEMENTS = 255
_MAX_VALUE = 253
_MAX_ATTRIBUTES = 16
# Unit: 100 Mb/s a lane. NCCL takes the first entry that the file's text begins with (kvDictPciGen).
_SPEEDS = {
    "2.5 GT/s": 15,
    "5 GT/s": 30,
    "8 GT/s": 60,
    "16 GT/s": 120,
    "32 GT/s": 240,
    "5.0 GT/s PCIe": 30,
    "8.0 GT/s PCIe": 60,
    "16.0 GT/s PCIe": 120,
    "32.0 GT/s PCIe": 240,
    "64.0 GT/s PCIe": 480,
}
_WIDTH_UNKNOWN = 16


class Pair(NamedTuple):
    """A GPU and the adapter beside it; ``number`` is the GPU's in PCI order, and mlx5_ib's."""

    number: int
    gpu: str
    nic: Optional[str]


class Bridge(NamedTuple):
    """A PCI bridge of the file, and the devices on it; without a bus id the CPU itself.

    ``nics`` are adapters that are no GPU's own.
    """

    bus_id: str
    pairs: tuple[Pair, ...]
    nics: tuple[str, ...] = ()


class Numa(NamedTuple):
    """A NUMA node: its cores, its bridges, and attributes of an Ethernet interface to name."""

    node: int
    cores: Cpus
    bridges: tuple[Bridge, ...]
    ethernet: Mapping[str, str]


class Graphs(NamedTuple):
    """A graph file (NCCL_GRAPH_FILE): the rings and trees that NCCL takes instead of searching.

    Attributes:
        file, link: where Azure's images have it.
        common: attributes that all graphs share, but for id, pattern and nchannels.
        patterns: of each graph NCCL's pattern and its channels, each the order of its GPUs.
    """

    file: str
    link: str
    common: Mapping[str, str]
    patterns: tuple[tuple[str, tuple[tuple[int, ...], ...]], ...]


@dataclass(frozen=True)
class Layout:
    """An entry of catalog/topologies.yml; that file describes each member."""

    name: str
    sizes: tuple[str, ...]
    file: str
    link: str
    source: str
    date: str
    cpu: Mapping[str, str]
    link_speed: str
    link_width: str
    bridge_ids: Mapping[str, str]
    gpu_ids: Mapping[str, str]
    gpu_told: Mapping[str, str]
    used: Mapping[str, bool]
    why: str
    numa: tuple[Numa, ...]
    graphs: Optional[Graphs] = None
    ib_loopback: bool = False

    @property
    def width(self) -> int:
        """CPUs that a mask covers."""
        return max(core for numa in self.numa for core in numa.cores) + 1

    def gpu_cores(self) -> dict[int, Cpus]:
        """For each GPU, by number, the cores of its NUMA node."""
        return {
            pair.number: numa.cores
            for numa in self.numa
            for bridge in numa.bridges
            for pair in bridge.pairs
        }

    def places(self) -> dict[str, tuple[str, int, str, int]]:
        """Bus id of each GPU and NIC -> class, NUMA node, bridge, place on the bridge."""
        by_bus_id = {}
        for numa in self.numa:
            for bridge in numa.bridges:
                for position, (bus_id, kind) in enumerate(_on(bridge)):
                    by_bus_id[bus_id] = (kind, numa.node, bridge.bus_id, position)
        return by_bus_id


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong with a file.

    Attributes:
        severity: ``error`` (NCCL stops, ignores a part or draws a wrong picture) or ``warning``.
        kind: the fault's name, one word, the same wherever it occurs.
        where: the element, or the file.
        problem: the actual and the expected content.
        effect: NCCL's reaction to it.
        mend: the fix.
        line: 1-based line, None for the file as a whole.
    """

    severity: str
    kind: str
    where: str
    problem: str
    effect: str
    mend: str
    line: Optional[int] = None

    def sentence(self) -> str:
        """All of it in a line."""
        at = "" if self.line is None else f"line {self.line}, "
        return f"{at}{self.where}: {self.problem}; {self.effect}; {self.mend}"


def read_layouts(catalog: Any) -> dict[str, Layout]:
    """The layouts of catalog/topologies.yml as YAML gave it, by name.

    Raises:
        BadInput: a member is missing, has another type, or contradicts another one.
    """
    try:
        entries = dict(catalog["layouts"])
    except (KeyError, OverflowError, TypeError, ValueError) as error:
        raise BadInput("topologies.yml: there is no mapping 'layouts'") from error
    layouts = {}
    for name, entry in entries.items():
        try:
            layouts[str(name)] = _layout(str(name), entry)
        except KeyError as error:
            raise BadInput(f"topologies.yml, layout {name}: there is no {error}") from error
        except (AttributeError, TypeError, ValueError, ParseError) as error:
            raise BadInput(f"topologies.yml, layout {name}: {error}") from error
        _consistent(layouts[str(name)])
    sizes = Counter(size.lower() for layout in layouts.values() for size in layout.sizes)
    for size, times in sizes.items():
        if times > 1:
            raise BadInput(f"topologies.yml: size {size} is in {times} layouts; leave it in one")
    return layouts


def _layout(name: str, entry: Mapping[str, Any]) -> Layout:
    numa = []
    for node, item in enumerate(entry["numa"]):
        bridges = []
        on_cpu = {"": item["gpus"]} if "gpus" in item else {}
        for bus_id, pairs in {**item.get("bridges", {}), **on_cpu}.items():
            bridge_pairs = [Pair(int(pair["id"]), pair["gpu"], pair.get("nic")) for pair in pairs]
            nics = () if bus_id else tuple(item.get("nics", ()))
            bridges.append(Bridge(str(bus_id), tuple(bridge_pairs), nics))
        ethernet = _texts(item.get("ethernet", {}))
        numa.append(Numa(node, parse_cpu_list(str(item["cores"])), tuple(bridges), ethernet))
    return Layout(
        name=name,
        sizes=tuple(entry["sizes"]),
        file=entry["file"],
        link=entry["link"],
        source=entry["source"],
        date=str(entry["date"]),
        cpu={key: str(entry["cpu"][key]) for key in ("arch", "vendor", "familyid", "modelid")},
        link_speed=entry["link_speed"],
        link_width=str(entry["link_width"]),
        bridge_ids=_texts(entry.get("bridge_ids", {})),
        gpu_ids=_texts(entry.get("gpu_ids", {})),
        gpu_told=_texts(entry.get("gpu_told", {})),
        used={context: bool(entry["used"][context]) for context in CONTEXTS},
        why=entry["why"],
        numa=tuple(numa),
        graphs=_graphs(entry["graphs"]) if "graphs" in entry else None,
        ib_loopback=bool(entry.get("ib_loopback", False)),
    )


def _graphs(entry: Mapping[str, Any]) -> Graphs:
    patterns = [
        (str(pattern), tuple(tuple(int(gpu) for gpu in channel) for channel in channels))
        for pattern, channels in entry["patterns"].items()
    ]
    return Graphs(entry["file"], entry["link"], _texts(entry["common"]), tuple(patterns))


def _texts(values: Mapping[Any, Any]) -> dict[str, str]:
    return {str(key): str(value) for key, value in values.items()}


def _consistent(layout: Layout) -> None:
    bridges = [bridge for numa in layout.numa for bridge in numa.bridges]
    pairs = [pair for bridge in bridges for pair in bridge.pairs]
    ids = [bridge.bus_id for bridge in bridges if bridge.bus_id]
    ids += [bus_id for bridge in bridges for bus_id, _ in _on(bridge)]
    cores = [core for numa in layout.numa for core in numa.cores]
    numbers = [pair.number for pair in sorted(pairs, key=lambda pair: pair.gpu)]
    problems = {
        "it has no GPU": not pairs,
        **_bus_id_problems(ids),
        "the NUMA nodes do not share out the cores 0 to n": sorted(cores)
        != list(range(len(cores))),
        "the ids are not the places of the GPUs in the order of their bus ids": (
            numbers != list(range(len(pairs)))
        ),
        f"NCCL knows no link_speed {layout.link_speed!r}": (
            layout.link_speed != "" and _lane(layout.link_speed) is None
        ),
        "a channel of its graphs does not go through each GPU once": any(
            sorted(channel) != sorted(numbers) for channel in _channels(layout)
        ),
    }
    for problem, is_present in problems.items():
        if is_present:
            raise BadInput(f"topologies.yml, layout {layout.name}: {problem}")


def _channels(layout: Layout) -> list[tuple[int, ...]]:
    patterns = layout.graphs.patterns if layout.graphs else ()
    return [channel for _, channels in patterns for channel in channels]


def _bus_id_problems(ids: Sequence[str]) -> dict[str, bool]:
    """Sentence -> True for the first id that is none, and the first that stands there twice."""
    wrong = [bus_id for bus_id in ids if not _BUS_ID.fullmatch(str(bus_id))]
    twice = [bus_id for bus_id, times in Counter(ids).items() if times > 1]
    problems = [f"{bus_id} is no bus id like 0001:00:00.0" for bus_id in wrong[:1]]
    problems += [f"bus id {bus_id} stands there twice" for bus_id in twice[:1]]
    return dict.fromkeys(problems, True)


def layout_of(size: str, layouts: Mapping[str, Layout]) -> Optional[Layout]:
    """The layout of a VM size, in any case; None where the catalog has none."""
    for layout in layouts.values():
        if size.lower() in (known_size.lower() for known_size in layout.sizes):
            return layout
    return None


def reason_without(catalog: Any, size: str) -> str:
    """Why a VM size is to have no topology file, by ``without`` of topologies.yml; empty where that
    does not say."""
    for entry in catalog.get("without", []):
        if size.lower() in (known_size.lower() for known_size in entry["sizes"]):
            return f"{entry['why']} ({entry['source']})"
    return ""


def gpu_masks(layout: Layout) -> list[str]:
    """For each GPU, by number, the mask of the cores of its NUMA node, as ``srun`` takes it."""
    cores = layout.gpu_cores()
    return [cpu_mask(cores[number]) for number in sorted(cores)]


def check_gpu_masks(masks: Sequence[str], layout: Layout) -> list[Finding]:
    """Errors in a list of masks, one a GPU by number, as given to ``srun --cpu-bind``."""
    expected_masks = gpu_masks(layout)
    findings = []
    mend = f"use {','.join(expected_masks)}"
    if len(masks) != len(expected_masks):
        problem = f"{len(masks)} masks, expected {len(expected_masks)}, one a GPU"
        effect = "tasks beyond the list begin again at its first mask"
        findings.append(Finding("error", "mask-count", "masks", problem, effect, mend))
    nodes = {core: numa.node for numa in layout.numa for core in numa.cores}
    for number, (mask, want) in enumerate(zip(masks, expected_masks)):
        where = f"mask of GPU {number}"
        try:
            cores = parse_cpu_mask(mask)
        except ParseError as error:
            findings.append(Finding("error", "mask-text", where, str(error), "srun stops", mend))
            continue
        right = parse_cpu_mask(want)
        if cores == right:
            continue
        on = sorted({nodes[core] for core in cores if core in nodes})
        problem = (
            f"{mask or 'empty'} selects cores {format_cpu_list(cores) or 'none'}, "
            f"expected {want}: cores {format_cpu_list(right)} of NUMA node {nodes[right[0]]}"
        )
        effect = (
            f"the task runs on NUMA nodes {' and '.join(map(str, on))}"
            if len(on) > 1
            else "the task runs on other cores than those beside its GPU"
        )
        inside = bool(cores) and set(cores) < set(right)
        severity = "warning" if inside else "error"
        findings.append(Finding(severity, "gpu-mask", where, problem, effect, mend))
    return findings


def generate(layout: Layout) -> str:
    """The topology file of a layout, as text.

    NCCL reads it with a parser of its own, which knows no XML declaration: there is none.
    """
    lines = ['<system version="1">']
    for numa in layout.numa:
        cpu = {
            "numaid": numa.node,
            "affinity": mask_words(numa.cores, layout.width),
            **layout.cpu,
        }
        lines.append(f"  <cpu{_attributes(cpu)}>")
        numbers = {pair.gpu: pair.number for bridge in numa.bridges for pair in bridge.pairs}
        for bridge in numa.bridges:
            devices = [
                line
                for bus_id, kind in _on(bridge)
                for line in _device_lines(layout, bus_id, kind, numbers.get(bus_id))
            ]
            if bridge.bus_id:
                opened = f"<pci{_attributes(_pci(layout, bridge.bus_id, BRIDGE))}>"
                devices = [opened, *(f"  {line}" for line in devices), "</pci>"]
            lines += [f"    {line}" for line in devices]
        if numa.ethernet:
            net = f"      <net{_attributes(numa.ethernet)}/>"
            lines += ["    <nic>", net, "    </nic>"]
        lines.append("  </cpu>")
    return "\n".join([*lines, "</system>", ""])


def generate_graphs(layout: Layout) -> str:
    """The graph file of a layout, as text; empty where it has none."""
    if layout.graphs is None:
        return ""
    lines = ['<graphs version="1">']
    for number, (pattern, channels) in enumerate(layout.graphs.patterns):
        values = {"id": number, "pattern": pattern, **layout.graphs.common}
        # NCCL takes the attributes in any order; this one is that of Azure's file.
        first = {"crossnic": values.pop("crossnic", "0"), "nchannels": len(channels)}
        head = {"id": values.pop("id"), "pattern": values.pop("pattern"), **first, **values}
        lines.append(f"  <graph{_attributes(head)}>")
        for channel in channels:
            gpus = [f'      <gpu dev="{gpu}"/>' for gpu in channel]
            lines += ["    <channel>", *gpus, "    </channel>"]
        lines.append("  </graph>")
    return "\n".join([*lines, "</graphs>", ""])


def _on(bridge: Bridge) -> list[tuple[str, str]]:
    devices = []
    for pair in bridge.pairs:
        devices.append((pair.gpu, GPU))
        if pair.nic is not None:
            devices.append((pair.nic, NIC))
    return devices + [(nic, NIC) for nic in bridge.nics]


def _device_lines(layout: Layout, bus_id: str, kind: str, number: Optional[int]) -> list[str]:
    """A GPU or NIC of the file; for a GPU also its links and attributes from the layout."""
    head = f"<pci{_attributes(_pci(layout, bus_id, kind))}"
    attributes = dict(layout.gpu_told)
    if number is None or not attributes:
        return [f"{head}/>"]
    link = {"target": bus_id, "count": attributes.pop("nvlinks"), "tclass": GPU}
    gpu = {"dev": number, "sm": attributes.pop("sm"), "rank": number, **attributes}
    inner = [f"<gpu{_attributes(gpu)}>", f"  <nvlink{_attributes(link)}/>", "</gpu>"]
    return [f"{head}>", *(f"  {line}" for line in inner), "</pci>"]


def _pci(layout: Layout, bus_id: str, kind: str) -> dict[str, str]:
    link = {"link_speed": layout.link_speed, "link_width": layout.link_width}
    return {
        "busid": bus_id,
        "class": kind,
        **(layout.gpu_ids if kind == GPU else {}),
        **link,
        **(layout.bridge_ids if kind == BRIDGE else {}),
    }


def _attributes(values: Mapping[str, Any]) -> str:
    return "".join(f' {name}="{value}"' for name, value in values.items())


@dataclass
class _Element:
    name: str
    attributes: dict[str, str]
    line: int
    parent: Optional[_Element] = None
    children: list[_Element] = field(default_factory=list)

    def get(self, name: str) -> str:
        return self.attributes.get(name, "")

    def title(self) -> str:
        key = {"cpu": "numaid", "pci": "busid"}.get(self.name, "")
        return f"{self.name} {self.get(key)}".rstrip() if key else self.name


class _Refused(Exception):
    """Not read any further, for the reason of a finding."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.problem)
        self.finding = finding


def check(
    content: Any, layout: Layout, other_layouts: Iterable[Layout] = (), limit: int = _MAX_BYTES
) -> list[Finding]:
    """Errors in a topology file for a layout; the list is empty for a correct file.

    Args:
        content: the file, bytes or text.
        layout: the layout that the file should describe.
        other_layouts: layouts that it may describe instead.
        limit: bytes above which it is refused unread.
    """
    try:
        text = _text(content, limit)
        root = _parse(text)
        findings = _dialect(text)
        if root.name == "graphs" and layout.graphs is not None:
            return findings + _graph_findings(root, layout)
        findings += _root(root)
        if root.name != "system":
            return findings
        elements = list(_walk(root))
        fits = _fits(elements, layout, other_layouts)
        if fits is not None:
            return [*findings, fits]
        return findings + _Checker(layout, root, elements).findings()
    except _Refused as refused:
        return [refused.finding]


def _refuse(kind: str, problem: str, effect: str, line: Optional[int] = None) -> _Refused:
    mend = "write the file anew with `trueup topology write`"
    return _Refused(Finding("error", kind, "file", problem, effect, mend, line))


def _text(content: Any, limit: int) -> str:
    raw = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
    stops = "NCCL cannot read it and stops"
    if len(raw) > limit:
        problem = f"{len(raw)} bytes; a topology file has a few thousand, and {limit} at most"
        raise _refuse("too-large", problem, "it was not read any further")
    if not raw.strip():
        raise _refuse("empty", "it is empty", "NCCL goes by what the machine shows, without a word")
    if b"\0" in raw:
        raise _refuse("binary", "it is binary, not text", stops)
    try:
        return str(raw.decode("utf-8"))
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise _refuse("binary", "it is not UTF-8 text", stops, line) from error


def _parse(text: str) -> _Element:
    """The root element. A document type is refused, so that no entity is ever expanded."""
    parser = expat.ParserCreate("utf-8")
    top: list[_Element] = []
    open_: list[_Element] = []
    count = 0

    def start(name: str, attributes: dict[str, str]) -> None:
        nonlocal count
        count += 1
        line = parser.CurrentLineNumber
        if count > _MAX_ELEMENTS:
            problem = f"more than {_MAX_ELEMENTS} elements"
            effect = "NCCL reads no more than that and stops"
            raise _refuse("too-many", problem, effect, line)
        parent = open_[-1] if open_ else None
        element = _Element(name, attributes, line, parent)
        (top if parent is None else parent.children).append(element)
        open_.append(element)

    def end(_name: str) -> None:
        open_.pop()

    def doctype(*_arguments: Any) -> None:
        problem = "it declares a document type, which could hold entities"
        effect = "NCCL takes it for an element and stops; it was not read any further"
        raise _refuse("doctype", problem, effect, parser.CurrentLineNumber)

    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.StartDoctypeDeclHandler = doctype
    parser.EntityDeclHandler = doctype
    try:
        parser.Parse(text.encode("utf-8"), True)
    except expat.ExpatError as error:
        reason = expat.ErrorString(error.code)
        problem = f"it is not XML: {reason}"
        raise _refuse("not-xml", problem, "NCCL cannot read it and stops", error.lineno) from error
    return top[0]


_BAD_COMMENT = re.compile(r"<!--[^ />\r\n]*=")
# On one line, with no blank around = or in a closing tag.
_NCCL_TAG = re.compile(
    r"<[A-Za-z_][\w.-]*( +[\w.-]+=(\"[^\"]*\"|'[^']*'))* */?>|</[A-Za-z_][\w.-]*>"
)


def _comments(text: str) -> Iterator[tuple[int, int]]:
    """Where comments begin and end. In a CDATA section their beginnings may stand without an end,
    and are passed over in one go: a pattern would look for an end from each."""
    begin = text.find("<!--")
    while begin >= 0 and (end := text.find("-->", begin + 4)) >= 0:
        yield begin, end + 3
        begin = text.find("<!--", end + 3)


def _dialect(text: str) -> list[Finding]:
    """XML that NCCL's own parser does not read, though it is XML."""
    faults = []
    # Comments become blanks of the same length, so that places stay right.
    bare, last = "", 0
    for begin, end in _comments(text):
        if _BAD_COMMENT.match(text, begin, end):
            problem = "a comment whose first word holds ="
            faults.append((begin, problem, "NCCL stops", "begin it with a blank"))
        bare += text[last:begin] + re.sub(r"[^\n]", " ", text[begin:end])
        last = end
    bare += text[last:]
    last = 0
    for tag in re.finditer(r"<[^<>\"']*(?:(?:\"[^\"]*\"|'[^']*')[^<>\"']*)*>", bare):
        between = bare[last : tag.start()]
        stray = re.search(r"[^ \r\n]", between)
        if stray is not None:
            problem = "a tab" if stray.group() == "\t" else f"text ({between.strip()[:40]!r})"
            mend = "leave only blanks and line ends there"
            offset = last + stray.start()
            faults.append(
                (offset, f"{problem} between elements", "NCCL stops: expecting '<'", mend)
            )
        last = tag.end()
        faults += [(tag.start(), *fault) for fault in _tag_faults(tag.group())]
    return [
        Finding("error", "dialect", "file", problem, effect, mend, text.count("\n", 0, offset) + 1)
        for offset, problem, effect, mend in faults
    ]


def _tag_faults(tag: str) -> list[tuple[str, str, str]]:
    """Parts of a tag that NCCL's parser does not read: problem, effect, mend."""
    if tag.startswith("<?"):
        effect = "NCCL's parser knows none and stops: expected >, got '?'"
        return [("an XML declaration or instruction", effect, "remove it")]
    faults = []
    if not _NCCL_TAG.fullmatch(tag):
        problem = f"{tag[:40]!r} is spaced as NCCL does not read it"
        effect = "NCCL takes the attribute's name or value for something else, or stops"
        faults.append((problem, effect, "a tag on one line, no blank around = or in a closing tag"))
    if "&" in tag:
        problem = "a character written as an entity (&)"
        faults.append((problem, "NCCL takes it letter by letter", "write it plainly"))
    values = re.findall(r"=(\"[^\"]*\"|'[^']*')", tag)
    if len(values) > _MAX_ATTRIBUTES:
        problem = f"{len(values)} attributes in an element"
        effect = f"NCCL drops those after the {_MAX_ATTRIBUTES}th"
        faults.append((problem, effect, "leave those out that NCCL does not use"))
    if any(len(value) - 2 > _MAX_VALUE for value in values):
        problem = f"a value of more than {_MAX_VALUE} characters"
        faults.append((problem, "NCCL stops: value too long", "shorten it"))
    return faults


def _root(root: _Element) -> list[Finding]:
    if root.name != "system":
        effect = "NCCL ignores the file and goes by what the machine shows"
        problem = f"the root element is <{root.name}>, expected <system>"
        mend = "give NCCL a topology file; a file of <graphs> belongs into NCCL_GRAPH_FILE"
        return [Finding("error", "root", root.name, problem, effect, mend, root.line)]
    version = root.attributes.get("version")
    if version == "1":
        return []
    actual = "missing" if version is None else f"{version!r}"
    problem = f"the version is {actual}, expected '1'"
    effect = "NCCL stops at once"
    mend = 'write <system version="1">'
    return [Finding("error", "version", "system", problem, effect, mend, root.line)]


def _graph_findings(root: _Element, layout: Layout) -> list[Finding]:
    """The first place where a graph file is not that of the layout."""
    elements = [(item.name, item.attributes, item.line) for item in _walk(root)]
    expected = [(item.name, item.attributes) for item in _walk(_parse(generate_graphs(layout)))]
    same = [element[:2] == other for element, other in zip(elements, expected)]
    if all(same) and len(elements) == len(expected):
        return []
    index = same.index(False) if False in same else min(len(elements), len(expected)) - 1
    name, attributes, line = elements[index]
    problem = (
        f"<{name}{_attributes(attributes)}> is not what the graphs of {layout.name} have there,"
        f" <{expected[index][0]}{_attributes(expected[index][1])}>"
        if False in same
        else f"it has {len(elements)} elements, expected {len(expected)}"
    )
    effect = "NCCL takes rings and trees that are not this size's, or stops"
    mend = f"take {layout.graphs.file if layout.graphs else ''} of a newer image, or run role nccl"
    return [Finding("error", "graphs", name, problem, effect, mend, line)]


def _walk(element: _Element) -> Iterable[_Element]:
    waiting = [element]
    while waiting:
        current = waiting.pop()
        yield current
        waiting += reversed(current.children)


def _normal(bus_id: str) -> str:
    """A bus id as NCCL writes it, for whatever can only mean that one; else the text itself."""
    match = _ANY_BUS_ID.fullmatch(bus_id)
    if match is None:
        return bus_id
    domain, bus, device, function = (int(digits, 16) for digits in match.groups())
    return f"{domain:04x}:{bus:02x}:{device:02x}.{function:x}"


def _numa_of(element: _Element) -> Optional[str]:
    """The number of the <cpu> that an element is under."""
    above = element.parent
    while above is not None and above.name != "cpu":
        above = above.parent
    return None if above is None else above.get("numaid")


def _fits(
    elements: Sequence[_Element], layout: Layout, other_layouts: Iterable[Layout]
) -> Optional[Finding]:
    """The finding that the file is one of other machines, where it clearly is."""
    placed = {
        (_normal(element.get("busid")), number)
        for element in elements
        if element.name == "pci" and (number := _numa_of(element)) is not None
    }
    bus_ids = {bus_id for bus_id, _ in placed}
    candidates = [layout, *(other for other in other_layouts if other.name != layout.name)]
    shares = []
    for candidate in candidates:
        expected = {(bus_id, str(at[1])) for bus_id, at in candidate.places().items()}
        shares.append((len(expected & placed) / len(expected), candidate))
    mend = f"write it anew: trueup topology write --size {layout.sizes[0]}"
    # By the devices alone: a file that has them all under wrong nodes is to be explained.
    if all(len(bus_ids & c.places().keys()) < len(c.places()) / 2 for c in candidates):
        kinds = Counter(_KINDS.get(element.get("class")) for element in elements)
        problem = (
            f"it has {kinds['GPU']} GPUs and {kinds['NIC']} NICs that are mostly none of "
            f"{layout.name}'s ({' and '.join(layout.sizes)}), and fits no layout of the catalog "
            f"({', '.join(c.name for c in candidates)})"
        )
        effect = "NCCL ignores the devices that the machine does not have"
        return Finding("error", "other-size", "file", problem, effect, mend)
    layout_share = shares[0][0]
    best, other = max(shares, key=lambda item: item[0])
    if best < 0.75 or layout_share > 0.5:
        return None
    problem = (
        f"it is a file for {other.name} ({' and '.join(other.sizes)}), "
        f"not for {layout.name} ({' and '.join(layout.sizes)})"
    )
    effect = "NCCL places GPUs and adapters where they are not"
    return Finding("error", "other-size", "file", problem, effect, mend)


def _lane(speed: str) -> Optional[int]:
    for text, rate in _SPEEDS.items():
        if speed.startswith(text):
            return rate
    return None


# Elements that NCCL's own dump of a topology has, too.
_DUMP = ("gpu", "nic", "net", "nvlink", "c2c", "pcilink")


def _told(element: _Element) -> tuple[str, tuple[tuple[str, str], ...], tuple[str, ...]]:
    """An element by its name, its attributes, and its parent."""
    above = []
    outer = element.parent
    while outer is not None:
        above.append(_normal(outer.get("busid")) or outer.title())
        outer = outer.parent
    return element.name, tuple(sorted(element.attributes.items())), tuple(above)


_BANDWIDTH = "NCCL reckons with another bandwidth of this link"
_PICTURE = "NCCL's picture of which adapter is near which GPU is wrong"


class _Checker:
    """Compares a file's elements with a layout."""

    def __init__(self, layout: Layout, root: _Element, elements: Sequence[_Element]) -> None:
        self._layout = layout
        self._root = root
        self._elements = elements
        self._found: list[Finding] = []
        self._places = layout.places()
        self._bridges = {
            bridge.bus_id: numa.node
            for numa in layout.numa
            for bridge in numa.bridges
            if bridge.bus_id
        }

    def findings(self) -> list[Finding]:
        """All errors, in the order of the file, missing elements last."""
        cpus = [element for element in self._root.children if element.name == "cpu"]
        devices = [element for element in self._elements if element.name == "pci"]
        self._strangers()
        self._cpus(cpus)
        by_bus_id: dict[str, _Element] = {}
        for device in devices:
            self._device(device, by_bus_id)
        self._absent(cpus, devices, by_bus_id)
        self._order([*cpus, *devices])
        return sorted(self._found, key=lambda item: (item.line is None, item.line or 0))

    def _add(
        self,
        severity: str,
        kind: str,
        element: Optional[_Element],
        *sentences: str,
        where: str = "",
    ) -> None:
        problem, effect, mend = sentences
        line = None if element is None else element.line
        title = where or ("file" if element is None else element.title())
        self._found.append(Finding(severity, kind, title, problem, effect, mend, line))

    def _strangers(self) -> None:
        """Elements where NCCL does not look for them, or that describe one run and are not those
        of the layout's own file."""
        expected = {"cpu": ("system",), "pci": ("cpu", "pci")}
        expected_counts = Counter(_told(item) for item in _walk(_parse(generate(self._layout))))
        for element in self._elements[1:]:
            above = "" if element.parent is None else element.parent.name
            if element.name in expected and above in expected[element.name]:
                continue
            if element.name in _DUMP:
                expected_counts[_told(element)] -= 1
                if expected_counts[_told(element)] >= 0:
                    continue
                problem = f"<{element.name}> describes what one run of NCCL found"
                effect = "NCCL takes ranks, speeds and links from it instead of from the machine"
                # Where the file is to tell of links, other links are no leftover.
                other = self._layout.gpu_told and element.name in {"gpu", "nvlink"}
                severity = "error" if other else "warning"
                self._add(severity, "dump", element, problem, effect, "remove it")
                continue
            problem = f"<{element.name}> stands in <{above}>, where it does not belong"
            effect = "NCCL ignores it and all that it holds"
            severity = "error" if element.children or element.name in expected else "warning"
            self._add(severity, "place", element, problem, effect, "move or remove it")
        for (name, attributes, _), times in expected_counts.items():
            if name in _DUMP and times > 0:
                problem = f"<{name}{_attributes(dict(attributes))}> is missing"
                effect = "NCCL asks the machine instead"
                self._add("warning", "told", None, problem, effect, "write the file anew")

    def _same(self, element: _Element, name: str, want: str, severity: str, effect: str) -> None:
        if element.attributes.get(name) != want:
            self._differs(element, name, want, severity, effect)

    def _differs(self, element: _Element, name: str, want: str, severity: str, effect: str) -> None:
        actual = element.attributes.get(name)
        problem = f"{name} is {'missing' if actual is None else repr(actual)}, expected {want!r}"
        kind = name.replace("link_", "link-")
        self._add(severity, kind, element, problem, effect, f'write {name}="{want}"')

    # CPUs

    def _cpus(self, cpus: Sequence[_Element]) -> None:
        numbers = Counter(cpu.get("numaid") for cpu in cpus)
        numa_by_id = {str(numa.node): numa for numa in self._layout.numa}
        claimed: dict[int, str] = {}
        for cpu in cpus:
            number = cpu.get("numaid")
            if numbers[number] > 1:
                problem = f"numaid {number!r} stands in {numbers[number]} elements"
                self._add("error", "numa-twice", cpu, problem, _PICTURE, "one <cpu> a NUMA node")
            numa = numa_by_id.get(number)
            if numa is None:
                problem = f"numaid is {number!r}, expected one of {', '.join(numa_by_id)}"
                effect = "NCCL stops" if not number else "NCCL knows no such node's GPUs"
                self._add("error", "numaid", cpu, problem, effect, "number the nodes as Linux does")
            self._cpu_model(cpu)
            self._mask(cpu, numa, claimed)
        every = {core for numa in self._layout.numa for core in numa.cores}
        uncovered = sorted(every - claimed.keys())
        if uncovered:
            problem = f"cores {format_cpu_list(uncovered)} are in no mask"
            effect = "NCCL never puts a thread there"
            mend = "give each node the cores that it has"
            self._add("error", "mask-cover", None, problem, effect, mend)

    def _cpu_model(self, cpu: _Element) -> None:
        intel = self._layout.cpu["vendor"] == "GenuineIntel"
        for name, want in self._layout.cpu.items():
            # NCCL looks at the model of Intel's CPUs only.
            matters = intel or name in {"arch", "vendor"}
            effect = (
                "NCCL stops where it is missing, and reckons with another CPU's bandwidth between "
                "NUMA nodes where it is wrong"
                if matters
                else "NCCL does not use it for this vendor"
            )
            self._same(cpu, name, want, "error" if matters else "warning", effect)

    def _mask(self, cpu: _Element, numa: Optional[Numa], claimed: dict[int, str]) -> None:
        mask = cpu.attributes.get("affinity")
        width = self._layout.width
        want = "" if numa is None else mask_words(numa.cores, width)
        mend = f'write affinity="{want}"' if want else "give each node the cores that it has"
        if not mask:
            state, effect = "empty", "NCCL pins its threads to no core"
            if mask is None:
                state, effect = "missing", "NCCL takes the mask that the kernel has for the node"
            self._add("error", "mask-missing", cpu, f"affinity is {state}", effect, mend)
            return
        words = mask.split(",")
        if not all(re.fullmatch(r"[0-9a-fA-F]+", mask_word) for mask_word in words):
            problem = f"affinity {mask!r} is not hexadecimal words with commas between"
            self._add("error", "mask-text", cpu, problem, "NCCL reads another mask", mend)
            return
        cores = _as_nccl(words)
        right = numa is None or cores == numa.cores
        problem = f"affinity {mask} is cores {format_cpu_list(cores) or 'none'}"
        if numa is not None and not right:
            problem += f", expected {want}: cores {format_cpu_list(numa.cores)}"
            self._add("error", "mask", cpu, problem, _PINS, mend)
        self._mask_words(cpu, words, mend, right=right)
        shared = sorted(core for core in cores if core in claimed)
        if shared:
            node = claimed[shared[0]]
            problem = f"cores {format_cpu_list(shared)} are also in the mask of NUMA node {node}"
            effect = "threads for GPUs of two nodes share these cores"
            self._add("error", "mask-overlap", cpu, problem, effect, "a core is in one node's mask")
        claimed.update({core: cpu.get("numaid") for core in cores if core not in claimed})

    def _mask_words(self, cpu: _Element, words: Sequence[str], mend: str, *, right: bool) -> None:
        """The words of a mask and their digits; ``right``: its cores are those meant."""
        mask, width = ",".join(words), self._layout.width
        odd = [mask_word for mask_word in words if len(mask_word) != _WORD_DIGITS]
        meant = [mask_word for mask_word in words if len(mask_word) > _WORD_DIGITS] or [
            mask_word for mask_word in words[1:] if len(mask_word) != _WORD_DIGITS
        ]
        count = -(-width // 32)
        if meant:
            problem = f"the word {meant[0]} of affinity has {len(meant[0])} digits, expected 8"
            effect = "NCCL reads each word as 32 CPUs, so that the cores are not those meant"
            self._add("error", "mask-word", cpu, problem, effect, mend)
        elif right and (odd or len(words) != count):
            problem = f"affinity {mask} has {len(words)} words, expected {count} of 8 digits"
            effect = "NCCL reads the same cores"
            self._add("warning", "mask-short", cpu, problem, effect, mend)
        elif len(words) != count:
            problem = f"affinity {mask} has {len(words)} words, expected {count} for {width} cores"
            self._add("error", "mask-width", cpu, problem, _PINS, mend)

    # PCI

    def _device(self, device: _Element, by_bus_id: dict[str, _Element]) -> None:
        bus_id = self._bus_id(device)
        if bus_id is None:
            return
        if bus_id in by_bus_id:
            problem = f"{bus_id} stands in line {by_bus_id[bus_id].line} already"
            effect = "NCCL uses the first of them"
            self._add("error", "twice", device, problem, effect, "remove this one")
            return
        by_bus_id[bus_id] = device
        if bus_id in self._places:
            self._known(device, bus_id)
        elif bus_id in self._bridges or device.children:
            self._bridge(device, bus_id)
        elif device.get("class") == BRIDGE:
            problem = "a bridge with nothing on it"
            self._add("warning", "empty-bridge", device, problem, "NCCL drops it", "remove it")
            self._bridge(device, bus_id)
        else:
            problem = f"{bus_id} is no device of {self._layout.name}"
            effect = "NCCL drops a device that the machine does not have"
            self._add("warning", "unknown-device", device, problem, effect, "remove it")

    def _bus_id(self, device: _Element) -> Optional[str]:
        bus_id = device.attributes.get("busid", "")
        if _BUS_ID.fullmatch(bus_id):
            return bus_id
        normal = _normal(bus_id)
        ignored = (
            "NCCL compares bus ids as text with its own, such as 0001:00:00.0, and ignores this "
            "device without a word"
        )
        if not _BUS_ID.fullmatch(normal):
            problem = "busid is missing" if not bus_id else f"busid {bus_id!r} is malformed"
            mend = "write it as 0001:00:00.0: domain, bus, device, function"
            self._add(
                "error", "bus-id", device, problem, ignored, mend, where=f"pci {bus_id}".strip()
            )
            return None
        domain = bus_id.split(":")[0]
        if len(domain) > 4:
            problem = f"the domain of {bus_id} has {len(domain)} digits, expected 4"
            self._add("error", "bus-id-digits", device, problem, ignored, f"write {normal}")
        elif normal == bus_id.lower():
            problem = f"{bus_id} has capital letters"
            self._add("error", "bus-id-case", device, problem, ignored, f"write {normal}")
        else:
            problem = f"{bus_id} is not as NCCL writes it, {normal}"
            self._add("error", "bus-id", device, problem, ignored, f"write {normal}")
        return normal

    def _known(self, device: _Element, bus_id: str) -> None:
        kind, node, bridge, _ = self._places[bus_id]
        name = _KINDS[kind]
        replaced = "NCCL reads the class of a device that is there from the machine"
        self._same(device, "class", kind, "error" if device.children else "warning", replaced)
        self._link(device)
        for key, want in (self._layout.gpu_ids if kind == GPU else {}).items():
            self._same(device, key, want, "warning", "NCCL takes the GPU for another device")
        number = _numa_of(device)
        if number != str(node):
            problem = f"{name} {bus_id} is under NUMA node {number or 'none'}, expected {node}"
            mend = f"move it under numaid {node}{_bridged(bridge)}"
            self._add("error", "numa-node", device, problem, _PICTURE, mend)
            return
        above = device.parent
        if not bridge:
            if above is not None and above.name == "pci":
                problem = f"{name} {bus_id} hangs on {above.title()}, expected on the CPU itself"
                effect = "what hangs there with it counts as nearer to it than it is"
                self._add("error", "bridge", device, problem, effect, "move it up to its <cpu>")
        elif above is None or above.name != "pci":
            problem = f"{name} {bus_id} hangs on the CPU itself, expected on bridge {bridge}"
            effect = (
                "GPU and adapter count as far apart (PHB): NCCL then does not use GPUDirect RDMA"
            )
            self._add("error", "no-bridge", device, problem, effect, f"move it under {bridge}")
        elif self._partners(above) != self._expected_partners(bridge):
            problem = f"{name} {bus_id} does not share its bridge with the devices beside it"
            want = ", ".join(sorted(self._expected_partners(bridge)))
            mend = f"one bridge holds {want}"
            self._add("error", "bridge", device, problem, _PICTURE, mend)

    def _partners(self, bridge: _Element) -> set[str]:
        """The known devices on a bridge, without those that are wrong by their NUMA node."""
        number = _numa_of(bridge)
        child_ids = {_normal(child.get("busid")) for child in bridge.children}
        return {
            bus_id
            for bus_id in child_ids
            if bus_id in self._places and str(self._places[bus_id][1]) == number
        }

    def _expected_partners(self, bridge: str) -> set[str]:
        """The bridge's expected devices, without missing or misplaced ones: those have own
        errors."""
        return {
            bus_id
            for bus_id, (_, node, on, _) in self._places.items()
            if on == bridge and self._is_under(bus_id, node)
        }

    def _is_under(self, bus_id: str, node: int) -> bool:
        for element in self._elements:
            if element.name == "pci" and _normal(element.get("busid")) == bus_id:
                bridged = element.parent is not None and element.parent.name == "pci"
                return bridged and _numa_of(element) == str(node)
        return False

    def _bridge(self, device: _Element, bus_id: str) -> None:
        effect = "NCCL takes it for no bridge and drops what hangs on it, or stops"
        self._same(device, "class", BRIDGE, "error", effect)
        self._link(device)
        for name in _BRIDGE_ID_KEYS:
            want = self._layout.bridge_ids.get(name)
            if want is not None:
                effect = "NCCL may take the bridge for a switch that it knows"
                self._same(device, name, want, "warning", effect)
        if device.parent is not None and device.parent.name != "cpu":
            problem = f"the bridge {bus_id} hangs on {device.parent.title()}, expected on the CPU"
            effect = "what is on both counts as near to each other"
            self._add("error", "bridge-nested", device, problem, effect, "move it up to its <cpu>")
        if bus_id not in self._bridges:
            comparison = f"none of {', '.join(self._bridges)}" if self._bridges else "not expected"
            problem = f"the bridge {bus_id} is {comparison}"
            effect = "NCCL works with it as long as the machine has no device of that address"
            self._add("warning", "bridge-id", device, problem, effect, "use an address of the list")

    def _link(self, device: _Element) -> None:
        speed, want = device.attributes.get("link_speed"), self._layout.link_speed
        rate = None if speed is None else _lane(speed)
        if speed != want:
            same = rate is not None and rate == _lane(want)
            effect = _BANDWIDTH
            if same:
                effect = "NCCL reads the same speed"
            elif speed is None:
                effect = "NCCL reads what the VM shows for a device, and takes 8 GT/s for a bridge"
            elif rate is None:
                effect = "NCCL does not know this text and reckons with 8 GT/s"
            self._differs(device, "link_speed", want, "warning" if same else "error", effect)
        width, wide = device.attributes.get("link_width"), self._layout.link_width
        if width != wide:
            effect = _BANDWIDTH
            if width in {"", "0"}:
                effect = f"NCCL reckons with {_WIDTH_UNKNOWN} lanes"
            elif width is None:
                effect = (
                    "NCCL reads what the VM shows for a device, and reckons with "
                    f"{_WIDTH_UNKNOWN} lanes for a bridge"
                )
            self._differs(device, "link_width", wide, "error", effect)

    # Missing elements

    def _absent(
        self,
        cpus: Sequence[_Element],
        devices: Sequence[_Element],
        by_bus_id: Mapping[str, _Element],
    ) -> None:
        numbers = {cpu.get("numaid") for cpu in cpus}
        mend = f"write it anew: trueup topology write --size {self._layout.sizes[0]}"
        for numa in self._layout.numa:
            if str(numa.node) not in numbers:
                problem = f"NUMA node {numa.node} (cores {format_cpu_list(numa.cores)}) is missing"
                self._add("error", "numa-missing", None, problem, _PICTURE, mend)
        alone = (
            "NCCL finds it on the machine by itself, without knowing what is near it, as if there "
            "were no file"
        )
        for bus_id, (kind, node, bridge, _) in self._places.items():
            if bus_id not in by_bus_id:
                problem = f"{_KINDS[kind]} {bus_id} is missing (NUMA node {node}{_bridged(bridge)})"
                self._add("error", "missing", None, problem, alone, mend)
        bridges = [d for d in devices if d.children or d.get("class") == BRIDGE]
        count = sum(d.get("busid") not in self._places for d in bridges)
        if count != len(self._bridges):
            problem = f"{count} bridges, expected {len(self._bridges)}"
            self._add("error", "bridges", None, problem, _PICTURE, mend)

    def _order(self, devices: Sequence[_Element]) -> None:
        for bridge in devices:
            places = [
                self._places[bus_id][3]
                for child in bridge.children
                if (bus_id := _normal(child.get("busid"))) in self._places
            ]
            if places != sorted(places):
                problem = "the devices here are not in the order GPU, its NIC, next GPU"
                effect = "which adapter NCCL picks among equally near ones may differ"
                mend = "put each NIC after its GPU, in the layout's order"
                self._add("warning", "order", bridge, problem, effect, mend)


def _bridged(bridge: str) -> str:
    return f", bridge {bridge}" if bridge else ""


def _as_nccl(words: Sequence[str]) -> Cpus:
    """The CPUs of a mask as NCCL reads it: each word is 32 CPUs, its lowest 32 bits count."""
    cores = []
    for position, mask_word in enumerate(reversed(words)):
        value = min(int(mask_word, 16), 2**64 - 1) & 0xFFFFFFFF
        cores += [position * 32 + bit for bit in range(32) if value >> bit & 1]
    return tuple(cores)
