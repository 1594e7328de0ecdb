"""Asks a role's plan for a size of the catalog and an operating system, without node and root."""

from __future__ import annotations

import copy
import functools
from pathlib import Path
from typing import Any

import yaml
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from helpers import ROLES
from trueup_controller import new_machine
from trueup_controller.sizes import read_sizes
from trueup_node.node.topology import Topology
from trueup_node.plan import PlanInputs

ROOT = Path(__file__).parents[1]
SIZES = read_sizes(str(ROOT / "catalog" / "vm_sizes.csv"))
SYSTEMS = {
    **{
        name: new_machine.os_release(name)
        for name in ("ubuntu-22.04", "ubuntu-24.04", "azurelinux-3.0", "debian-12")
    },
    "almalinux-8": new_machine.os_release("almalinux-8.10"),
    "almalinux-9": new_machine.os_release("almalinux-9.6"),
}
SYSTEMS["azurelinux-3"] = SYSTEMS.pop("azurelinux-3.0")
# Families with InfiniBand: without GPUs, and with eight.
HPC = ("hbv2", "hbv3", "hbv4", "hbv5", "hx", "hc")
ND = ("ndv4", "ndm_a100_v4", "nd_h100_v5", "nd_h200_v5")
GIB = 1024**3
# What module `ib_facts` says of a node whose devices have their names.
RDMA: dict[str, Any] = {
    "names": {"0101:00:00.0": "mlx5_ib0", "0102:00:00.0": "mlx5_ib1"},
    "naming_service": False,
    "devices": [],
    "driver": {"path": None, "reboot_required": False},
    "problems": [],
}
# What module `program_facts` says of an interpreter that has all that an environment needs.
PYTHON = {"path": "/usr/bin/python3", "version": [3, 11, 2], "missing": [], "headers": True}


def size_of(family: str) -> str:
    """The catalog's first size of a family."""
    return next(size for size, row in SIZES.items() if row["family"] == family)


def node(
    family: str, system: str = "ubuntu-24.04", /, topology: Topology | None = None, **changes: Any
) -> dict[str, Any]:
    """``trueup_node`` of a freshly deployed machine that shows what the catalog says it has."""
    size = None if family == "local" else size_of(family)
    found = new_machine.fresh(size, SIZES, SYSTEMS[system], free_bytes=50 * GIB, topology=topology)
    return {**found, **changes}


def windows_node(size: str = "Standard_NV12ads_A10_v5", **changes: Any) -> dict[str, Any]:
    """``trueup_node`` of a Windows host of a size of the catalog."""
    row = SIZES[size]
    windows = {
        "vm_size": size,
        "catalog": row,
        "gpu_count_expected": row["gpus"],
        "os": "Windows 11 Enterprise multi-session 25H2",
        "system": "windows",
        "package_manager": None,
    }
    return {**node("nv_a10_v5"), **windows, **changes}


def asked(
    role: str, on: dict[str, Any], /, found: dict[str, Any] | None = None, **options: Any
) -> PlanInputs:
    """The role's defaults, but for ``options``, on a node, of which ``found`` was found out.

    Raises:
        ValueError: an entry of a list is not as argument_specs describe it.
    """
    folder = ROLES[role]
    defaults = _loaded(folder / "defaults" / "main.yml")
    prefix = f"{role}_"
    given = {**defaults, **{f"{prefix}{name}": value for name, value in options.items()}}
    return PlanInputs(
        options={
            name.removeprefix(prefix): value
            for name, value in {**given, **_entries(folder, given)}.items()
        },
        node=on,
        host="node-1",
        found=found or {},
        project=ROOT,
        catalog=catalog,
        data=data(role),
    )


def data(role: str) -> dict[str, Any]:
    """A role's vars/main.yml, as its plan has it."""
    file = ROLES[role] / "vars" / "main.yml"
    read = _loaded(file) if file.is_file() else {}
    return {name.removeprefix(f"__{role}_"): value for name, value in read.items()}


def _entries(folder: Path, given: dict[str, Any]) -> dict[str, Any]:
    """Lists whose entries are described, with the defaults of what each entry leaves out."""
    entries = _loaded(folder / "meta" / "argument_specs.yml")["argument_specs"]
    described = {
        name: spec
        for entry in entries.values()
        for name, spec in entry.get("options", {}).items()
        if "options" in spec
    }
    checked = ArgumentSpecValidator(described).validate(
        {name: given[name] for name in described if name in given}
    )
    if checked.error_messages:
        raise ValueError(" ".join(checked.error_messages))
    return dict(checked.validated_parameters)


def _loaded(file: Path) -> Any:
    """A YAML file's content, the caller's own."""
    return copy.deepcopy(_parsed(file))


@functools.cache
def _parsed(file: Path) -> Any:
    return yaml.load(file.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)


@functools.cache
def catalog(name: str) -> Any:
    """A file of catalog/, read."""
    return yaml.safe_load((ROOT / "catalog" / name).read_text())
