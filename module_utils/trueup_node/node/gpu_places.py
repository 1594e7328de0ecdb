"""Where the GPUs of a VM size are: the one answer that every launch on GPUs binds its ranks by."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ..errors import BadInput
from .affinity import Placement
from .nccl_topology import layout_of, read_layouts
from .topology import Cpus, cpu_mask, parse_cpu_mask


class GpuPlace(NamedTuple):
    """A GPU with the adapter and cores beside it. The rank of that number on its node uses it.

    Attributes:
        number: in PCI order (CUDA_DEVICE_ORDER=PCI_BUS_ID).
        bus_id: ``0001:00:00.0``.
        adapter, adapter_bus_id: the InfiniBand adapter beside it, ``mlx5_ib0``; empty without one.
        numa: the NUMA node of both, and of the memory that the rank should have.
        cores: all cores of that node; a rank of one process is bound to them.
        share: the GPU's part of them, where each GPU of the node has cores of its own.
    """

    number: int
    bus_id: str
    adapter: str
    adapter_bus_id: str
    numa: int
    cores: Cpus
    share: Cpus

    @property
    def mask(self) -> str:
        """The mask of ``cores``, hexadecimal, as ``srun --cpu-bind=mask_cpu:`` takes it."""
        return cpu_mask(self.cores)


def gpu_places(
    size: Optional[str], gpus: int, topologies: Mapping[str, Any]
) -> Tuple[GpuPlace, ...]:
    """The places of a size's GPUs, by number; none where the catalog has no layout of it, or one
    of another number of GPUs than the node has.

    Args:
        size: the VM size; None or empty where nobody knows it.
        gpus: how many the node has.
        topologies: catalog/topologies.yml, read.

    Raises:
        BadInput: the catalog's layouts are wrong.
    """
    layout = layout_of(size or "", read_layouts(topologies))
    places = []
    for numa in layout.numa if layout else ():
        pairs = sorted(
            (pair for bridge in numa.bridges for pair in bridge.pairs),
            key=lambda pair: pair.number,
        )
        cores_per_gpu = len(numa.cores) // max(1, len(pairs))
        for index, pair in enumerate(pairs):
            share = numa.cores[index * cores_per_gpu : (index + 1) * cores_per_gpu]
            adapter = f"mlx5_ib{pair.number}" if pair.nic else ""
            places.append(
                GpuPlace(
                    *(pair.number, pair.gpu, adapter, pair.nic or ""),
                    *(numa.node, numa.cores, share),
                )
            )
    places.sort(key=lambda gpu_place: gpu_place.number)
    return tuple(places) if len(places) == gpus else ()


def in_core_order(places: Sequence[GpuPlace]) -> Dict[str, str]:
    """Variables for a program that pins its own ranks core after core and takes GPUs in CUDA's
    order: its first GPU is then the one beside the first cores. None where it is so already."""
    order = sorted(places, key=lambda gpu_place: (gpu_place.cores, gpu_place.number))
    if order == list(places):
        return {}
    numbers = ",".join(str(gpu_place.number) for gpu_place in order)
    return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": numbers}


def bound(masks: Sequence[str], ranks: int, threads: int = 1) -> Optional[Placement]:
    """A node's ranks on these masks, one each; None where there are none.

    Raises:
        BadInput: fewer masks than ranks, or one that is no mask of any CPU.
    """
    if not masks:
        return None
    if len(masks) < ranks:
        raise BadInput(f"{len(masks)} CPU masks for {ranks} ranks of a node: one each")
    per_rank: List[Cpus] = [parse_cpu_mask(mask) for mask in masks[:ranks]]
    empty = [number for number, cpus in enumerate(per_rank) if not cpus]
    if empty:
        raise BadInput(f"mask of GPU {empty[0]}: it has no CPU")
    return Placement(ranks, threads, "gpu", tuple(per_rank))
