"""GPUs of Azure's sizes that roles cannot make usable, by a row of catalog/vm_sizes.csv.

Plans of roles refuse them by these rules, and advice leaves their sizes out by the same ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

# Status of a size that no page of Microsoft lists: nothing recommends it.
UNDOCUMENTED = "undocumented"
# gpu_model of AMD's GPUs begins so.
_AMD = ("MI300X", "V710")
# GPUs that Azure shows as virtual functions, as it does an A10: the data-centre driver does not
# start them (MicrosoftDocs/azure-compute-docs, nc-rtxpro6000-bse-v6-series-overview.md).
_VIRTUAL = ("RTX-PRO-6000-BSE",)
# The family whose virtual GPUs the role gpu_grid is for.
GRID_FAMILY = "nv_a10_v5"
# The role's default, and the first branch that runs programs of CUDA 13 (NVIDIA, CUDA
# compatibility); R570 runs those of CUDA 12.8.
GRID_DRIVER, _CUDA_13 = "570.211.01", 580


def is_amd(row: Mapping[str, Any]) -> bool:
    """Whether the GPUs of a size are AMD's."""
    return str(row.get("gpu_model") or "").startswith(_AMD)


def nvidia_gpus(row: Mapping[str, Any]) -> int | None:
    """The number of NVIDIA GPUs of a size, by its row as ``trueup_sizes`` gives it; None where the
    catalog says nothing."""
    count: int | None = row.get("gpus")
    return 0 if is_amd(row) else count


def lacks_driver(row: Mapping[str, Any]) -> str:
    """Why no role installs a driver for the GPUs of a size; empty where one does, and for a size
    without GPUs."""
    model = str(row.get("gpu_model") or "")
    if is_amd(row):
        return f"its GPUs are AMD's ({model}), and no role installs their driver"
    if model.startswith(_VIRTUAL):
        return (
            f"its GPUs ({model}) are virtual and need the GRID driver, which the role gpu_grid"
            f" installs on {GRID_FAMILY} only"
        )
    if model and row.get("architecture") == "aarch64":
        return f"it is an ARM machine, and no role installs the driver of its GPUs ({model})"
    return ""


def lacks_cuda_13(row: Mapping[str, Any], driver: str = GRID_DRIVER) -> str:
    """Why a GRID driver cannot run programs of CUDA 13, such as the pinned PyTorch of the roles
    training and vllm; empty for GPUs of other families.

    Args:
        row: of the catalog, or another object with ``family``.
        driver: the version of the GRID driver, by default the role's.
    """
    if row.get("family") != GRID_FAMILY or int(driver.partition(".")[0]) >= _CUDA_13:
        return ""
    runs = f"GRID driver {driver} runs programs of CUDA 12.8 and older"
    return f"{runs}, and the pinned PyTorch is of CUDA 13, which needs R{_CUDA_13} or newer"
