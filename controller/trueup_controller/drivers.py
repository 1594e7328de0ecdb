"""Needs of drivers, by the plans of their roles: a reboot, and an NVIDIA driver that is new enough
for the CUDA of what is installed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from trueup_controller.system import in_image

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from .planning import Planned, Roles

# Roles that may install NVIDIA's driver, and those that install programs for CUDA by pip.
_DRIVERS, _PROGRAMS = ("gpu_driver", "gpu_grid"), ("vllm", "training")
# NVIDIA's own name of the package has the major version up to CUDA 12.
_RUNTIME = re.compile(r"^nvidia-cuda-runtime(?:-cu\d+)?==((\d+)\.[0-9.]+)", re.MULTILINE)


def reboots(planned: Mapping[str, Planned]) -> Iterator[tuple[str, str]]:
    """Roles that ask for a reboot of each new machine, and the reason."""
    for role in _DRIVERS:
        expected = _expected(planned, role)
        loaded = _loaded(planned, role) if expected else ""
        if loaded not in ("", expected):
            yield role, f"the driver {expected} replaces {loaded}, which the image has loaded"
    planned_role = planned.get("rdma")
    if planned_role and planned_role.plan.values.get("reboot_required"):
        yield "rdma", "the network driver is another one than is loaded"


def too_old(planned: Mapping[str, Planned], roles: Roles) -> Iterator[tuple[str, str]]:
    """Roles whose programs are for a newer CUDA than the driver, with a sentence."""
    driver = next(filter(None, (_expected(planned, role) for role in _DRIVERS)), "")
    least: Mapping[int, int] = roles.catalog("cuda_repository.yml")["least_driver"]
    for role in _PROGRAMS:
        planned_role = planned.get(role)
        if not (driver and planned_role) or planned_role.plan.refused or planned_role.plan.skipped:
            continue
        files = (planned_role.plan.values.get("environment") or {}).get("requirements", ())
        packages = [
            package
            for name in files
            for package in _RUNTIME.finditer(planned_role.inputs.text(name))
        ]
        for package in packages:
            needed = least.get(int(package[2]), 0)
            if int(driver.split(".")[0]) < needed:
                text = (
                    f"its wheels are for CUDA {package[1]}, which needs NVIDIA's driver {needed} or"
                    f" newer, and the nodes have {driver}: set gpu_driver_version and"
                    " gpu_driver_from_image: replace, or take a newer image"
                )
                yield role, text


def _expected(planned: Mapping[str, Planned], role: str) -> str:
    """The driver that a role leaves on the node; empty where it leaves none."""
    if role not in planned:
        return ""
    return str((planned[role].plan.values.get("expected") or {}).get("driver_version") or "")


def _loaded(planned: Mapping[str, Planned], role: str) -> str:
    """The driver that the image has loaded, without the package's release."""
    return in_image(planned[role].inputs.node, "NVIDIA").split("-")[0]
