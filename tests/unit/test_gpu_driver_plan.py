"""The role gpu_driver, planned for the families and systems that get it."""

from __future__ import annotations

from typing import Any

import pytest
from role_plans import ND, asked, families_of, node
from trueup_controller.plans.gpu_driver import plan

REPOSITORIES = {"ubuntu-22.04": "ubuntu2204", "ubuntu-24.04": "ubuntu2404", "almalinux-9": "rhel9"}
DCGM = [
    f"datacenter-gpu-manager-4-{name}"
    for name in ("core", "cuda13", "proprietary", "proprietary-cuda13")
]


def values(family: str, system: str = "ubuntu-24.04", /, **options: Any) -> dict[str, Any]:
    planned = plan(asked("gpu_driver", node(family, system), **options))
    assert planned.refused == []
    return planned.as_result()


def refused(on: dict[str, Any], **options: Any) -> list[str]:
    return plan(asked("gpu_driver", on, **options)).refused


def contents(result: dict[str, Any]) -> dict[str, str]:
    return {file["path"]: file["content"] for file in result["files"]}


@pytest.mark.parametrize("family", families_of("gpu_driver"))
@pytest.mark.parametrize("system", REPOSITORIES)
def test_what_a_family_gets_on_each_system(family: str, system: str) -> None:
    result = values(family, system)
    on = node(family, system)
    nvswitch = family in ND
    names = [pin["name"] for pin in result["pins"]]
    manager = ["nvidia-fabricmanager"] if nvswitch else []
    assert names[-len(DCGM) - len(manager) :] == [*manager, *DCGM]
    units = [unit["name"] for unit in result["units"]]
    assert units == [*manager, "nvidia-persistenced", "nvidia-dcgm"]
    assert [unit["enabled"] for unit in result["units"]] == [True] * len(units)
    assert result["modules"] == (["nvidia_peermem"] if nvswitch else [])
    assert REPOSITORIES[system] in result["repository"]["url"]
    assert result["repository"]["key_url"].startswith(result["repository"]["url"])
    assert result["expected"] == {
        "driver_version": result["pins"][1]["version"].removeprefix("3:").removesuffix("-*"),
        "gpus": on["catalog"]["gpus"],
        "fabric_manager": nvswitch,
        "peermem": nvswitch,
        "persistence": True,
        "dcgm": True,
        "secure_boot": False,
    }
    assert result["skipped_here"] == []


def test_an_image_of_enterprise_linux_8_is_verified_and_nothing_installed() -> None:
    image = {"NVIDIA": "580.126.20", "DCGM": "4.5.2"}
    on = node("ndv4", "almalinux-8", hpc_image=image)
    result = plan(asked("gpu_driver", on)).as_result()
    assert (result["kept"], result["build_packages"], result["pins"]) == (True, [], [])
    assert result["expected"]["driver_version"] == "580.126.20"


def test_names_and_versions_by_package_manager() -> None:
    apt, dnf = values("ndv4")["pins"], values("ndv4", "almalinux-9")["pins"]
    assert apt[:3] == [
        {"name": "nvidia-driver-pinning-580.173.02", "version": "580.173.02-*", "first": True},
        {"name": "nvidia-open", "version": "580.173.02-*"},
        {"name": "nvidia-fabricmanager", "version": "580.173.02-*"},
    ]
    assert apt[3] == {"name": DCGM[0], "version": "1:4.6.0-1"}
    assert {pin["version"] for pin in dnf[:5]} == {"3:580.126.20-*"}
    assert dnf[5] == {"name": "nvidia-fabricmanager", "version": "580.126.20-*"}
    assert values("ndv4")["build_packages"][0] == "linux-headers-6.8.0-1030-azure"
    assert values("ndv4", "almalinux-9")["build_packages"] == [
        *("kernel-devel-6.8.0-1030-azure", "kernel-headers", "dkms", "gcc", "make")
    ]


@pytest.mark.parametrize(
    ("system", "name"),
    [("ubuntu-22.04", "nvidia-fabricmanager-570"), ("almalinux-9", "nvidia-fabric-manager")],
)
def test_the_fabric_manager_below_580_has_another_name(system: str, name: str) -> None:
    pins = values("nd_h100_v5", system, version="570.1.2")["pins"]
    assert {"name": name, "version": "570.1.2-*"} in pins


def test_the_files_of_a_node_with_infiniband() -> None:
    files = contents(values("ndv4"))
    header = "# Written by trueup (role gpu_driver).\n"
    assert files == {
        "/etc/modprobe.d/trueup-gpu-driver.conf": (
            f"{header}# nouveau would take the GPUs before NVIDIA's driver; lbm-nouveau is its"
            " backport.\nblacklist nouveau\nblacklist lbm-nouveau\noptions nouveau modeset=0\n"
            "options nvidia NVreg_RestrictProfilingToAdminUsers=0\n"
        ),
        "/etc/systemd/system/nvidia-persistenced.service.d/trueup.conf": (
            f"{header}[Service]\nExecStart=\n"
            "ExecStart=/usr/bin/nvidia-persistenced --verbose --persistence-mode\n"
        ),
        "/etc/modules-load.d/trueup-gpu-driver.conf": f"{header}nvidia_peermem\n",
        "/etc/systemd/system/openibd.service.d/trueup-peermem.conf": (
            f"{header}[Service]\nExecStartPost=-/sbin/modprobe nvidia-peermem\n"
        ),
    }
    without = contents(values("nc_a100_v4", profiling_for_all=False))
    assert list(without) == list(files)[:2]
    assert "Profiling" not in without["/etc/modprobe.d/trueup-gpu-driver.conf"]


def test_an_images_driver_is_verified_and_not_installed() -> None:
    on = node("nd_h100_v5", "debian-12", hpc_image={"NVIDIA": "570.1.2"}, secure_boot=True)
    result = plan(asked("gpu_driver", on)).as_result()
    assert (result["kept"], result["pins"], result["build_packages"]) == (True, [], [])
    assert result["expected"]["driver_version"] == "570.1.2"
    on = node("nd_h100_v5", hpc_image={"NVIDIA": "570.1.2"})
    replaced = plan(asked("gpu_driver", on, from_image="replace")).as_result()
    assert (replaced["kept"], replaced["expected"]["driver_version"]) == (False, "580.173.02")


def test_a_containers_modules_are_its_hosts() -> None:
    result = plan(asked("gpu_driver", node("ndv4", container=True))).as_result()
    assert (result["modules"], result["build_packages"]) == ([], [])


def test_a_mirror_replaces_the_repository() -> None:
    mirror = {"name": "mirror", "url": "https://mirror/cuda/"}
    assert values("ndv4", repository=mirror)["repository"] == mirror


@pytest.mark.parametrize("family", ["hbv3", "local"])
def test_a_node_without_gpus_is_skipped(family: str) -> None:
    planned = plan(asked("gpu_driver", node(family, secure_boot=True)))
    assert planned.as_result()["skipped_here"] == [
        {"what": "gpu_driver", "why": "no NVIDIA GPU on this node, and none by the catalog"}
    ]


@pytest.mark.parametrize(
    ("changes", "options", "said"),
    [
        ({"secure_boot": True}, {}, "Secure Boot is on"),
        ({"privilege": None}, {}, "gpu_driver needs root"),
        ({"family": "nv_a10_v5"}, {}, "use the role gpu_grid"),
        ({}, {"fabric_manager_version": "1.2"}, "gpu_driver_fabric_manager_version is 1.2"),
        (
            {"free_bytes": {"/": 9000000000, "/var": 100000000}},
            {},
            "On /var less space is free than the driver takes (3.00 GB, 1.00 GB on /, /var)",
        ),
    ],
)
def test_what_cannot_work_is_refused(
    changes: dict[str, Any], options: dict[str, Any], said: str
) -> None:
    found = refused(node("ndv4", **changes), **options)
    assert [said in sentence for sentence in found] == [True]


def test_a_system_without_a_pinned_driver_is_refused() -> None:
    known = "el-8, el-9, ubuntu-22.04, ubuntu-24.04"
    assert refused(node("ndv4", "debian-12")) == [
        f"gpu_driver does not know debian 12 (it knows {known}): take one of these systems."
    ]


def test_space_that_is_unknown_or_not_needed_is_not_judged() -> None:
    assert refused(node("ndv4", free_bytes={})) == []
    there = [{"name": "NVIDIA A100", "pci": "0001:00:00.0", "memory_bytes": 1}]
    assert refused(node("ndv4", gpus=there, free_bytes={"/": 1, "/var": 1})) == []


PERSISTENCE = "/etc/systemd/system/nvidia-persistenced.service.d/trueup.conf"


def test_an_image_that_disables_the_fabric_manager_at_shutdown_keeps_it_so() -> None:
    """azhpc-images@8e9d055: another service of the image starts it at each boot."""
    image = node("ndv4", hpc_image={"NVIDIA": "580.173.02"})
    planned = plan(asked("gpu_driver", image))
    assert planned.refused == []
    units = {unit["name"]: unit.get("enabled") for unit in planned.values["units"]}
    assert units == {
        "nvidia-fabricmanager": None,
        "nvidia-persistenced": True,
        "nvidia-dcgm": True,
    }


IDLE: dict[str, Any] = {"rc": 0, "stdout": ""}
BUSY = {"rc": 0, "stdout": "4711"}


def test_a_unit_is_told_which_of_the_files_it_reads() -> None:
    planned = values("ndv4")
    files = {unit["name"]: unit["files"] for unit in planned["units"]}
    assert files == {
        "nvidia-fabricmanager": [],
        "nvidia-persistenced": [PERSISTENCE],
        "nvidia-dcgm": [],
    }
    assert {PERSISTENCE, planned["modules_file"]} <= {file["path"] for file in planned["files"]}


def test_azure_linux_keeps_the_driver_of_its_image_and_gets_no_other() -> None:
    on = node("ndv4", "almalinux-9", distribution="azurelinux", distribution_version="3.0")
    # The image's version is the package's, with its release (azure_images, section 6).
    kept = plan(asked("gpu_driver", {**on, "hpc_image": {"NVIDIA": "580.126.16-1"}}))
    assert (kept.refused, kept.values["kept"]) == ([], True)
    assert kept.values["expected"]["driver_version"] == "580.126.16"
    (first, *_) = refused(on)
    assert first.startswith("gpu_driver does not know azurelinux 3.0")
