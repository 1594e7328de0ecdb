"""``trueup topology``: NCCL topology files."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from trueup_node.errors import BadInput
from trueup_node.reading import MOST_BYTES

from .interface import (
    CatalogOption,
    Common,
    OutputOption,
    examples,
    flag,
    group,
    option,
    put,
    say,
    taking,
)

SizeOption = Annotated[
    str,
    option("SIZE", "The VM size, such as Standard_ND96asr_v4.", "--size"),
]

if TYPE_CHECKING:
    from trueup_node.node.nccl_topology import Finding, Layout

app = group(
    "topology",
    "NCCL topology files. Inside a VM the PCI bus does not show which GPU, adapter and cores"
    " belong together; the file (NCCL_TOPO_FILE) says it.",
    "trueup topology check /opt/microsoft/ndv4-topo.xml --size Standard_ND96asr_v4",
    "trueup topology write --size Standard_ND96isr_H100_v5 --output topo.xml",
    "trueup topology show --size Standard_ND96asr_v4",
)


@app.command(
    "check",
    short_help="Explain what is wrong with a file, or with a list of CPU masks.",
    epilog=examples(
        "trueup topology check topo.xml --size Standard_ND96isr_H100_v5",
        "ssh node cat /opt/microsoft/ndv4-topo.xml |",
        "    trueup topology check - --size Standard_ND96asr_v4",
        "ssh node nvidia-smi topo -m | trueup topology check - --size Standard_ND96asr_v4",
        "trueup topology check --masks ffffff000000,... --size Standard_ND96asr_v4",
    )
    + "\n\nExit status: 0 NCCL reads it as it should; 1 it does not, or a known error; 2 usage.",
)
@taking(common=Common)
def topology_check(
    file: Annotated[
        str | None,
        typer.Argument(metavar="FILE", help="The file; - is standard input.", show_default=False),
    ] = None,
    *,
    size: SizeOption,
    masks: Annotated[
        str | None,
        option("MASKS", "Also, or instead: masks as given to srun --cpu-bind=mask_cpu, one a GPU."),
    ] = None,
    common: Common,
) -> None:
    """Faults of a topology file, their effect on NCCL, and the fixes. An error changes the
    behaviour of NCCL; a warning does not. A matrix of nvidia-smi topo -m is compared with the GPUs,
    cores and adapters of the size."""
    from trueup_node.node.nccl_topology import check, check_gpu_masks

    from ..sheets import topology as topology_sheets

    if file is None and masks is None:
        raise BadInput("nothing to check; name a FILE, or give --masks")
    layout, other_layouts = _layout(size, common.catalog)
    content = None if file is None else _read_bytes(file)
    findings = [] if content is None else _matrix(content, layout)
    if content is not None and findings is None:
        findings = check(content, layout, other_layouts)
    findings = findings or []
    if masks is not None:
        findings += check_gpu_masks(masks.strip().split(","), layout)
    checked = {None: "masks", "-": "standard input"}.get(file, file)
    common.write([topology_sheets.findings(findings, str(checked), layout, size)])
    wrong = sum(finding.severity == "error" for finding in findings)
    if wrong:
        say(f"{checked}: {wrong} error{'s' if wrong > 1 else ''} for {size}")
        raise typer.Exit(1)


@app.command(
    "write",
    short_help="Write the file of a size, from the catalog.",
    epilog=examples(
        "trueup topology write --size Standard_ND96asr_v4 > ndv4-topo.xml",
        "NCCL_TOPO_FILE=$PWD/ndv4-topo.xml NCCL_DEBUG=INFO mpirun ... |",
        "    grep 'Loading topology file'   # needs NCCL_DEBUG_SUBSYS=GRAPH,INIT,ENV",
    ),
)
def topology_write(
    *,
    size: SizeOption,
    graphs: Annotated[bool, flag("--graphs", "Its graph file (NCCL_GRAPH_FILE) instead.")] = False,
    catalog: CatalogOption = None,
    output: OutputOption = None,
) -> None:
    """The topology file of a size, from the catalog."""
    from trueup_node.node.nccl_topology import generate, generate_graphs

    layout, other_layouts = _layout(size, catalog)
    text = generate_graphs(layout) if graphs else generate(layout)
    if not text:
        sizes_with_graphs = [
            each for other in other_layouts if other.graphs is not None for each in other.sizes
        ]
        message = f"{size} has no graph file; {', '.join(sizes_with_graphs)} has"
        raise BadInput(message)
    put(text, output)


@app.command(
    "show",
    short_help="GPUs, adapters, NUMA nodes and CPU masks of a size.",
    epilog=examples(
        "trueup topology show --size Standard_ND96asr_v4",
        "trueup topology show --size Standard_ND96isr_H100_v5 --format json",
    ),
)
@taking(common=Common)
def topology_show(
    *,
    size: SizeOption,
    common: Common,
) -> None:
    """Which GPU, adapter, NUMA node and cores belong together on a size, and the masks that srun
    and mpirun need to put one rank beside each GPU."""
    from ..sheets import topology as topology_sheets

    common.write(topology_sheets.layout(_layout(size, common.catalog)[0], size))


def _read_bytes(name: str) -> bytes:
    try:
        with nullcontext(sys.stdin.buffer) if name == "-" else Path(name).open("rb") as stream:
            content = stream.read(MOST_BYTES + 1)
    except OSError as error:
        raise BadInput(f"{name} cannot be read: {error.strerror}") from error
    if len(content) > MOST_BYTES:
        raise BadInput(f"{name} has more than {MOST_BYTES >> 20} MiB")
    return content


def _matrix(content: bytes, layout: Layout) -> list[Finding] | None:
    """Differences of a matrix of nvidia-smi topo -m from a layout; None of another text."""
    from ..decoding import decoded
    from ..figures.topology import MATRIX, matrix_findings
    from ..read import read
    from ..rooms import marks, tools

    text, gaps = decoded(BytesIO(content), "the matrix", marks(MATRIX))
    if not tools()[MATRIX].recognises(text):
        return None
    return matrix_findings(read(text, source="the matrix", tool=MATRIX, gaps=gaps), layout)


def _layout(size: str, catalog: Path | None) -> tuple[Layout, list[Layout]]:
    """A size's layout, and those of all sizes."""
    from ..catalog import folder
    from ..figures import topology as analysis

    layouts = analysis.read(folder(catalog) / "topologies.yml", size)
    return analysis.layout_for(size, layouts), list(layouts.values())
