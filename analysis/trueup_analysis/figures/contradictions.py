"""A log against the user's options on it, the VM size that they name, and itself."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from trueup_node.errors import BadInput
from trueup_node.node.nccl_topology import layout_of

from ..units import plural
from .topology import MATRIX, matrix_findings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from trueup_node.node.nccl_topology import Layout

    from ..read import Reading
    from .imported import Provenance
    from .sizes import Sizes

# A GPU as nvidia-smi, CUDA and NCCL print it: the maker, the form or the memory stands beside the
# model, which tells it from the name of a VM size or a folder.
_GPU: Final = re.compile(
    r"(?<![\w/.-])(?P<maker>(?:NVIDIA(?: GeForce)?|Tesla|Quadro|AMD(?: Instinct)?)[ -])?"
    r"(?P<model>A100|A10G?|A30|A40|A800|B[123]00|G[BH][23]00|H100|H200|H800|H20|K80|L20|L40?S?|M60"
    r"|MI\d{3}[AX]?|P100|P40|RTX [A\d]\d{3}|T4|V100S?)"
    r"(?:[ -](?P<form>SXM\d?|PCI[Ee]|NVL)\b)?(?:[ -](?P<memory>\d+) ?GB\b)?"
    r"(?:[ -](?P<form_behind>SXM\d?|PCI[Ee]|NVL|HBM\w*)\b)?(?![\w/.])"
)
_SIZE: Final = re.compile(r"\bStandard_[A-Za-z]+\d\w*")
_CPUS: Final = ("ranks", "threads")
_SILENT: Final = frozenset({"", "unknown", "none"})
# Parameters of a model's name, and the user's option on each.
_MODEL_NAMES: Final = ("model", "model_id", "served_model_name")


class Gpu(NamedTuple):
    """A GPU's product: its model ("A100"), and its form ("sxm", "pcie", "nvl") and memory in GB
    where they are known."""

    model: str
    form: str = ""
    memory: str = ""

    def differs(self, other: Gpu) -> bool:
        """Whether both cannot be one product."""
        return any(mine and its and mine != its for mine, its in zip(self, other, strict=True))

    def __str__(self) -> str:
        memory = f"{self.memory} GB" if self.memory else ""
        return " ".join(filter(None, (self.model, self.form.upper(), memory)))


def gpus_in(text: str) -> list[Gpu]:
    """The GPU products that a text names, each once."""
    products = {}
    for match in _GPU.finditer(text):
        if match["maker"] or match["form"] or match["form_behind"]:
            form = (match["form"] or match["form_behind"] or "").lower().rstrip("0123456789")
            # HBM is the memory of several forms.
            form = "" if form.startswith("hbm") else form
            products[Gpu(match["model"].upper(), form, match["memory"] or "")] = True
    return list(products)


def sizes_with_gpus_of(text: str, sizes: Sizes) -> list[str]:
    """The VM sizes that have the GPUs that a text names; none where it names none or several."""
    products = gpus_in(text)
    if not products or any(product.differs(products[0]) for product in products):
        return []
    return [
        size
        for size in sizes.names()
        for of_size in _gpu_of(size, sizes)
        if not any(product.differs(of_size) for product in products)
    ]


def _gpu_of(size: str, sizes: Sizes) -> list[Gpu]:
    """The GPU product of a size, if it has one that is known."""
    return gpus_in(f"NVIDIA {sizes.text(size, 'gpu_model')}")


def size_of_log(
    reading: Reading,
    text: str,
    log_options: Provenance,
    sizes: Sizes,
    layouts: Mapping[str, Layout] | None = None,
) -> str:
    """The one VM size that a log names or whose GPU it names, without a contradiction.

    Args:
        reading, text, log_options, sizes, layouts: as of ``contradictions``.

    Raises:
        BadInput: there is no such size, or there are several.
    """
    named = {name for match in _SIZE.findall(text) if (name := sizes.name(match)) is not None}
    hardware = reading.parameters.get("hardware", "").upper()
    candidates = [
        size
        for size in sorted(named) or sizes_with_gpus_of(f"{text}\nNVIDIA {hardware}", sizes)
        if not any(contradictions(reading, text, log_options._replace(size=size), sizes, layouts))
    ]
    if len(candidates) == 1:
        return candidates[0]
    if not candidates:
        raise BadInput("it names neither a VM size nor a GPU of one; give --size")
    raise BadInput(f"it can be of {', '.join(candidates)}; give --size")


def contradictions(
    reading: Reading,
    text: str,
    log_options: Provenance,
    sizes: Sizes,
    layouts: Mapping[str, Layout] | None = None,
) -> Iterator[str]:
    """Sentences on what cannot all be true of a log, its own text and the options.

    Args:
        reading: of the log.
        text: the log.
        log_options: the user's.
        sizes: the catalog's.
        layouts: of its sizes, against which a matrix of nvidia-smi topo -m is held.
    """
    layout = layout_of(log_options.size, layouts or {})
    if reading.tool == MATRIX and layout is not None:
        for finding in matrix_findings(reading, layout):
            yield f"{finding.where}: {finding.problem}"
    # A parameter names a GPU without its maker: "h200".
    hardware = reading.parameters.get("hardware", "").upper()
    yield from _of_hardware(f"{text}\nNVIDIA {hardware}", log_options.size, sizes)
    yield from _of_counts(reading, log_options, sizes)
    yield from _of_work(reading, log_options)


def _of_hardware(text: str, size: str, sizes: Sizes) -> Iterator[str]:
    """The VM size and the GPUs that the text names, against the size."""
    names = {name for match in _SIZE.findall(text) if (name := sizes.name(match)) is not None}
    if names and size not in names:
        yield f"it names the VM size {', '.join(sorted(names))}, and --size is {size}"
    products = gpus_in(text)
    for product in products[1:]:
        if product.differs(products[0]):
            yield f"it names two kinds of GPU, {products[0]} and {product}"
            return
    if products and not sizes.text(size, "gpu_model"):
        yield f"it names the GPU {products[0]}, and {size} has none"
        return
    for of_size in _gpu_of(size, sizes):
        for product in products:
            if product.differs(of_size):
                yield f"it names the GPU {product}, and {size} has {of_size}"
                return


def _of_counts(reading: Reading, log_options: Provenance, sizes: Sizes) -> Iterator[str]:
    """Nodes, GPUs, ranks and threads of the log, the options and the size."""
    counts = reading.resources
    in_log, gpus = counts.get("nodes"), counts.get("gpus")
    hosts = f" ({', '.join(reading.hosts[:4])})" if reading.hosts else ""
    for option, count in (
        ("--nodes says", log_options.node_count),
        ("--node names", len(log_options.nodes) or None),
    ):
        if _differ(in_log, count):
            yield f"it ran on {plural(in_log or 0, 'node')}{hosts}, and {option} {count}"
    if _differ(gpus, log_options.gpus):
        yield f"it ran on {plural(gpus or 0, 'GPU')}, and --gpus says {log_options.gpus}"
    nodes = in_log or log_options.node_count or len(log_options.nodes)
    yield from _beyond_size(reading, gpus or log_options.gpus or 0, nodes, log_options.size, sizes)


def _differ(count: int | None, other: int | None) -> bool:
    """Whether two numbers are known and not equal."""
    return count is not None and other is not None and count != other


def _beyond_size(reading: Reading, gpus: int, nodes: int, size: str, sizes: Sizes) -> Iterator[str]:
    """More GPUs or threads than the nodes of a size have; 0 nodes are an unknown number."""
    counts = reading.resources
    has = f"{plural(nodes, 'node')} of {size} {'has' if nodes == 1 else 'have'}"
    gpus_of_size = int(sizes.figure(size, "gpus") or 0)
    if gpus and not gpus_of_size:
        yield f"it ran on {plural(gpus, 'GPU')}, and {size} has none"
    elif nodes and gpus > gpus_of_size * nodes:
        yield f"it ran on {plural(gpus, 'GPU')}, and {has} {gpus_of_size * nodes}"
    cores = int(sizes.figure(size, "vcpus") or 0) * nodes
    ranks, threads = counts.get("ranks", 1), counts.get("threads", 1)
    if cores and ranks * threads > cores:
        had = " x ".join(plural(counts[name], name[:-1]) for name in _CPUS if name in counts)
        yield f"it had {had}, and {has} {cores} vCPUs"


def _of_work(reading: Reading, log_options: Provenance) -> Iterator[str]:
    """Model, engine and precision of the log and the options."""
    for name, value in log_options.work().items():
        names = _MODEL_NAMES if name == "model" else (name,)
        in_log = [reading.parameters.get(key, "") for key in names]
        in_log = [text for text in in_log if text.lower() not in _SILENT]
        if in_log and not any(_is_same(text, value) for text in in_log):
            yield f"its {name} is {in_log[0]}, and --{name} says {value}"


def _is_same(name: str, other: str) -> bool:
    """Whether two names mean one thing; of a path its last part counts."""
    return name.lower().rpartition("/")[2] == other.lower().rpartition("/")[2]
