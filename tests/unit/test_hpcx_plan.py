"""The role hpcx, planned for the families and systems that get it."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from role_plans import HPC, ND, asked, families_of, node
from trueup_controller.plans.hpcx import plan
from trueup_node.node.mpi import hpcx_environment

BUILDS = {
    "ubuntu-22.04": "ubuntu22.04",
    "ubuntu-24.04": "ubuntu24.04",
    "almalinux-9": "redhat9",
}
NOTHING: dict[str, Any] = {"files": []}


def there(*names: str, **found: Any) -> dict[str, Any]:
    return {**NOTHING, "files": [{"path": f"/opt/{name}"} for name in names], **found}


def values(on: dict[str, Any], found: dict[str, Any] = NOTHING, /, **options: Any) -> Any:
    planned = plan(asked("hpcx", on, found, **options))
    assert planned.refused == []
    return planned.as_result()


def refused(on: dict[str, Any], **options: Any) -> list[str]:
    return plan(asked("hpcx", on, NOTHING, **options)).refused


def variables(result: dict[str, Any]) -> dict[str, str]:
    """Those that hpcx.sh exports."""
    lines = [
        line.removeprefix("export ")
        for line in result["files"][1]["content"].splitlines()
        if line.startswith("export ")
    ]
    return dict(line.split("=", 1) for line in lines)


@pytest.mark.parametrize("family", families_of("hpcx"))
@pytest.mark.parametrize("system", BUILDS)
def test_what_a_family_gets_on_each_system(family: str, system: str) -> None:
    result = values(node(family, system))
    name = f"hpcx-v2.25.1-gcc-doca_ofed-{BUILDS[system]}-cuda13-x86_64"
    assert (result["name"], result["folder"]) == (name, f"/opt/{name}")
    assert (result["missing"], result["kept"]) == (True, False)
    assert result["url"].endswith(f"/v2.25.1_cuda13/{name}.tbz")
    assert len(result["sha256"]) == 64
    others = {"nc_a100_v4": 0, "nc_h100_v5": 0, "hbv5": 4}
    nics = others.get(family, 8 if family in ND else 1)
    devices = [f"mlx5_ib{number}:1" for number in range(nics)]
    rdma = {"UCX_NET_DEVICES": ",".join(devices), "UCX_IB_PCI_RELAXED_ORDERING": "on"}
    hcoll = {} if family in HPC else {"OMPI_MCA_coll_hcoll_enable": "0"}
    assert variables(result) == ({**rdma, **hcoll} if nics else hcoll)
    assert [file["path"] for file in result["files"]] == [
        f"/usr/share/{'M' if system == 'almalinux-9' else 'm'}odules/modulefiles/mpi/hpcx",
        "/opt/trueup/hpcx/hpcx.sh",
        "/opt/hpcx",
    ]
    assert result["files"][2]["target"] == f"/opt/{name}"


def test_each_variable_says_why() -> None:
    module, script, _ = values(node("nc_a100_v4"), variables={"UCX_TLS": "rc x"})["files"]
    folder = "/opt/hpcx-v2.25.1-gcc-doca_ofed-ubuntu24.04-cuda13-x86_64"
    written = "# Written by trueup (role hpcx). Changes here are lost.\n"
    why = (
        "# NCCL does the collectives on GPUs, and MPI only starts the ranks. HCOLL would take"
        " adapters and\n# memory for nothing, and Azure's NCCL runs turn it off too (AzNHC,"
        " coll_hcoll_enable 0).\n"
    )
    by_site = "# Set by this site (hpcx_variables).\n"
    assert module["content"] == (
        f"#%Module1.0\n{written}conflict mpi\nmodule load {folder}/modulefiles/hpcx\n"
        f"\n{why}setenv OMPI_MCA_coll_hcoll_enable {{0}}\n\n{by_site}setenv UCX_TLS {{rc x}}\n"
    )
    assert script["content"] == (
        f"{written}# Source it in a shell or job script: . /opt/trueup/hpcx/hpcx.sh\n"
        f". {folder}/hpcx-init.sh\nhpcx_load\n"
        f"\n{why}export OMPI_MCA_coll_hcoll_enable=0\n\n{by_site}export UCX_TLS='rc x'\n"
    )


@pytest.mark.parametrize(
    ("family", "hcoll", "is_off"),
    [
        ("hbv3", "by_gpus", False),
        ("hbv3", "unused", True),
        ("ndv4", "by_gpus", True),
        ("ndv4", "used", False),
    ],
)
def test_hcoll_by_what_the_node_is(family: str, hcoll: str, *, is_off: bool) -> None:
    found = variables(values(node(family), hcoll=hcoll))
    assert ("OMPI_MCA_coll_hcoll_enable" in found) == is_off


def test_a_sites_variable_wins_over_the_roles() -> None:
    result = values(node("hbv3"), variables={"UCX_NET_DEVICES": "mlx5_0:1"})
    assert variables(result)["UCX_NET_DEVICES"] == "mlx5_0:1"
    assert "InfiniBand adapters only" not in result["files"][0]["content"]


def test_without_persistent_names_no_device_is_named() -> None:
    for said in (False, "no"):
        play = {"rdma_persistent_names": said}
        wanted = dataclasses.replace(asked("hpcx", node("hbv3"), NOTHING), variables=play)
        assert variables(plan(wanted).as_result()) == {}


def test_one_that_is_there_is_not_unpacked_again() -> None:
    name = "hpcx-v2.25.1-gcc-doca_ofed-ubuntu24.04-cuda13-x86_64"
    assert values(node("hbv3"), there(name, "hpcx-v1"))["missing"] is False


@pytest.mark.parametrize(
    ("names", "folder"),
    [
        (["hpcx-v2.24.1-gcc", "hpcx-v2.24.10-gcc"], "/opt/hpcx-v2.24.1-gcc"),
        (["hpcx-v2.24.10-gcc"], "/opt/hpcx-v2.24.1"),
    ],
)
def test_an_images_is_kept_whatever_the_system(names: list[str], folder: str) -> None:
    image = {"hpc_image": {"HPCX": "2.24.1"}, "free_bytes": {"/opt": 1}}
    result = values(node("hbv3", "debian-12", **image), there(*names))
    assert (result["kept"], result["missing"], result["folder"]) == (True, False, folder)
    assert result["files"][0]["path"].endswith("/mpi/hpcx-trueup")
    assert result["expected"] == "mpirun (Open MPI) "
    replaced = values(node("hbv3", hpc_image={"HPCX": "2.24.1"}), from_image="replace")
    assert (replaced["kept"], replaced["expected"]) == (False, "mpirun (Open MPI) 4.1.")


def test_another_implementation_of_modules() -> None:
    result = values(node("hbv3"), modulefiles_dir="/etc/lmod/modules")
    assert result["packages"] == ["bzip2"]
    assert result["files"][0]["path"] == "/etc/lmod/modules/mpi/hpcx"
    assert values(node("hbv3"))["packages"] == ["bzip2", "environment-modules"]


def test_mpirun_finds_its_libraries_where_they_were_unpacked() -> None:
    result = values(node("hbv3"))
    folder = result["folder"]
    assert result["mpirun"] == f"{folder}/ompi/bin/mpirun"
    assert result["environment"] == {
        "LC_ALL": "C",
        "OPAL_PREFIX": f"{folder}/ompi",
        **hpcx_environment(folder),
    }


@pytest.mark.parametrize(
    ("system", "changes", "said"),
    [
        (
            "debian-12",
            {},
            "hpcx: there is no HPC-X for debian12; hpcx_archives has redhat8, redhat9",
        ),
        ("ubuntu-22.04", {"architecture": "aarch64"}, "hpcx: the archives are for x86_64"),
        ("ubuntu-22.04", {"free_bytes": {"/opt": 5}}, "hpcx: /opt has 5 bytes free"),
    ],
)
def test_what_cannot_work_is_refused(system: str, changes: dict[str, Any], said: str) -> None:
    assert [one[: len(said)] for one in refused(node("hbv3", system, **changes))] == [said]
