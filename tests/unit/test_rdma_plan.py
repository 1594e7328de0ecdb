"""The role rdma, planned for the families and systems that get it."""

from __future__ import annotations

from typing import Any

import pytest
from role_plans import ND, asked, families_of, node
from trueup_controller.plans.rdma import asks, plan

SYSTEMS = ("ubuntu-22.04", "ubuntu-24.04", "almalinux-9")
NAMES = {"0101:00:00.0": "mlx5_ib0", "0102:00:00.0": "mlx5_ib1"}
FOUND: dict[str, Any] = {
    "names": NAMES,
    "naming_service": False,
    "devices": [],
    "driver": {"path": None, "reboot_required": False},
    "problems": [],
}
RULES = "/etc/udev/rules.d/59-trueup-rdma-naming.rules"
MODULES = "/etc/modules-load.d/trueup-rdma.conf"
PREFERENCES = "/etc/apt/preferences.d/trueup-doca-dkms"
OPENIBD = "/etc/systemd/system/openibd.service.d/trueup.conf"
SOFT_ROCE = "/etc/systemd/system/trueup-soft-roce.service"


def values(on: dict[str, Any], found: Any = FOUND, **options: Any) -> dict[str, Any]:
    planned = plan(asked("rdma", on, {"trueup_rdma": found}, **options))
    assert planned.refused == []
    return planned.as_result()


def refused(on: dict[str, Any], **options: Any) -> list[str]:
    return plan(asked("rdma", on, {"trueup_rdma": FOUND}, **options)).refused


def contents(result: dict[str, Any]) -> dict[str, str | None]:
    return {file["path"]: file.get("content") for file in result["files"]}


@pytest.mark.parametrize("family", families_of("rdma"))
@pytest.mark.parametrize("system", SYSTEMS)
def test_what_a_family_gets_on_each_system(family: str, system: str) -> None:
    on = node(family, system)
    result = values(on)
    pins = {pin["name"]: pin["version"] for pin in result["pins"]}
    libraries = ["rdma-core", "libibverbs", "librdmacm", "libibumad", "infiniband-diags"]
    held = libraries if system == "almalinux-9" else []
    assert list(pins) == ["doca-host", "doca-ofed", *held]
    assert {pins[name] for name in held} <= {"2510.*"}
    assert result["build_packages"] == (
        ["kernel-devel-6.8.0-1030-azure"]
        if system == "almalinux-9"
        else ["dkms", "linux-headers-6.8.0-1030-azure"]
    )
    assert result["package_file"] == "/var/cache/trueup-" + result["doca"]["url"].split("/")[-1]
    commands = {one["name"]: one["command"] for one in result["applied"]}
    assert list(commands) == ["rdma-names", "rdma-modules"]
    assert commands["rdma-modules"] == ["modprobe", "--all", "ib_ipoib", "ib_umad", "rdma_ucm"]
    row = on["catalog"]
    expected = asks(asked("rdma", on))["ib_facts"]["expected"]
    assert (expected["nics"], expected["rate_gbps"]) == (
        row["rdma_nics"],
        row["rdma_gbps_per_nic"],
    )
    assert len(expected.get("numa", {})) == (8 if family in ND else 0)
    there = [path for path, content in contents(result).items() if content]
    preferences = [] if system == "almalinux-9" else [PREFERENCES]
    assert there == [RULES, MODULES, OPENIBD, *preferences]
    assert [one["path"] for one in result["preferences"] if "content" in one] == preferences
    assert [unit["unit"] for unit in result["units"]] == ["openibd.service"]
    assert (result["held"], result["wrong"]) == (True, [])


@pytest.mark.parametrize(
    ("system", "tools"), [("debian-12", "ibverbs-utils"), ("almalinux-9", "libibverbs-utils")]
)
def test_the_distributions_own_stack(system: str, tools: str) -> None:
    result = values(node("hbv3", system, secure_boot=True, free_bytes={"/": 1}), stack="inbox")
    assert result["pins"] == [
        {"name": name, "version": "*"} for name in ("rdma-core", tools, "infiniband-diags")
    ]
    assert (result["held"], result["installs_doca"], contents(result)[OPENIBD]) == (
        False,
        False,
        None,
    )


def test_the_rules_name_each_device_by_its_place() -> None:
    rules = contents(values(node("ndv4")))[RULES] or ""
    assert [line for line in rules.splitlines() if not line.startswith("#")] == [
        f'ACTION=="add", SUBSYSTEM=="infiniband", KERNELS=="{address}",'
        f' PROGRAM="rdma_rename %k NAME_FIXED {name}"'
        for address, name in NAMES.items()
    ]


@pytest.mark.parametrize(
    ("found", "options"),
    [
        ({"names": {}}, {}),
        ({"naming_service": True}, {}),
        ({}, {"persistent_names": False}),
    ],
)
def test_rules_that_nothing_needs_are_removed(
    found: dict[str, Any], options: dict[str, Any]
) -> None:
    file = values(node("ndv4"), {**FOUND, **found}, **options)["files"][0]
    assert file == {"path": RULES, "state": "absent"}


def test_an_images_stack_is_verified_and_not_installed() -> None:
    on = node("ndv4", hpc_image={"OFED": "24.10"}, secure_boot=True)
    result = values(on)
    assert (result["kept"], result["installs_doca"], result["pins"]) == (True, False, [])
    on = node("ndv4", hpc_image={"DOCA": "3.1"})
    assert values(on, from_image="replace")["installs_doca"] is True


def test_a_containers_kernel_is_its_hosts() -> None:
    result = values(node("ndv4", container=True, secure_boot=True), soft_roce_interface="eth1")
    assert (result["build_packages"], result["applied"]) == ([], [])
    assert [unit["unit"] for unit in result["units"]] == ["openibd.service"]
    assert result["wrong"] == []


def test_soft_roce_gets_a_unit() -> None:
    result = values(node("hbv3"), modules=[], soft_roce_interface="eth-1")
    unit = contents(result)[SOFT_ROCE] or ""
    assert "BindsTo=sys-subsystem-net-devices-eth\\x2d1.device\n" in unit
    assert "ExecStart=/usr/bin/env rdma link add rxe0 type rxe netdev eth-1\n" in unit
    assert unit.endswith("WantedBy=sys-subsystem-net-devices-eth\\x2d1.device\n")
    assert contents(result)[MODULES] is None
    names = [unit["unit"] for unit in result["units"]]
    assert names == ["openibd.service", "trueup-soft-roce.service"]


def rxe(**changes: Any) -> dict[str, Any]:
    return {"kind": "soft-roce", "state": "ACTIVE", "interfaces": ["eth1"], **changes}


@pytest.mark.parametrize(
    ("found", "options", "said"),
    [
        ({"problems": ["mlx5_ib0: down."]}, {}, ["mlx5_ib0: down."]),
        ({"driver": {"path": "/x", "reboot_required": True}}, {}, ["rdma_reboot_required: "]),
        (
            {"driver": {"path": "/a/kernel/drivers/b", "reboot_required": False}},
            {},
            ["DOCA-OFED is installed, and the kernel 6.8.0-1030-azure would load its own driver"],
        ),
        (
            {"driver": {"path": "/a/kernel/drivers/b", "reboot_required": False}},
            {"stack": "inbox"},
            [],
        ),
        ({"devices": [rxe()]}, {"soft_roce_interface": "eth1"}, []),
        (
            {"devices": [rxe(state="DOWN"), rxe(interfaces=["eth2"]), rxe(kind="ethernet")]},
            {"soft_roce_interface": "eth1"},
            ["soft-RoCE: no active device on eth1"],
        ),
    ],
)
def test_what_is_wrong_in_the_end(
    found: dict[str, Any], options: dict[str, Any], said: list[str]
) -> None:
    wrong = values(node("hbv3"), {**FOUND, **found}, **options)["wrong"]
    assert [sentence[: len(start)] for sentence, start in zip(wrong, said)] == said
    assert len(wrong) == len(said)


@pytest.mark.parametrize(
    ("changes", "options", "said"),
    [
        ({"secure_boot": True}, {}, "rdma: Secure Boot is on"),
        ({"architecture": "aarch64"}, {}, "rdma: aarch64 has no DOCA-OFED"),
        ({"free_bytes": {"/": 1000}}, {}, "rdma: 1000 bytes are free below / and DOCA-OFED needs"),
        ({}, {"soft_roce_interface": "eth 1"}, "rdma: rdma_soft_roce_interface is eth 1"),
        ({"package_manager": None, "os": "SLES"}, {"stack": "inbox"}, "rdma: SLES has neither"),
    ],
)
def test_what_cannot_work_is_refused(
    changes: dict[str, Any], options: dict[str, Any], said: str
) -> None:
    assert [one[: len(said)] for one in refused(node("ndv4", **changes), **options)] == [said]


def test_a_release_without_a_pinned_stack_is_refused() -> None:
    pinned = "el-8, el-9, ubuntu-22.04, ubuntu-24.04"
    said = f"rdma: no DOCA-OFED is pinned for debian-12 (pinned: {pinned}): add it to"
    assert [one[: len(said)] for one in refused(node("hbv3", "debian-12"))] == [said]


def test_free_space_that_is_unknown_is_not_judged() -> None:
    assert refused(node("hbv3", free_bytes={})) == []


INFINIBAND = {"device": "mlx5_ib0", "kind": "infiniband", "state": "ACTIVE", "interfaces": []}


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ({}, ("walinuxagent.service", True)),
        ({"devices": []}, ("", False)),
        ({"devices": [{**INFINIBAND, "kind": "ethernet"}]}, ("", False)),
        # Told already; a run that broke off may not have restarted it.
        (
            {"agent": {"unit": "waagent.service", "rdma_enabled": True}},
            ("waagent.service", False),
        ),
        ({"agent": {"unit": None, "rdma_enabled": None}}, ("", False)),
        # A configuration without a service has nobody to read it.
        ({"agent": {"unit": None, "rdma_enabled": False}}, ("", False)),
    ],
)
def test_the_agent_is_told_of_infiniband_where_it_is_not(
    found: dict[str, Any], expected: tuple[str, bool]
) -> None:
    agent = {"unit": "walinuxagent.service", "rdma_enabled": False}
    there = {**FOUND, "devices": [INFINIBAND], "agent": agent, **found}
    planned = values(node("hbv3"), there)
    told = [one["unit"] for one in planned["units"] if one["files"] == ["/etc/waagent.conf"]]
    assert ("".join(told), planned["agent_lacks"]) == expected


def test_an_image_that_marks_hpcx_as_its_open_mpi_keeps_the_mark() -> None:
    """azhpc-images 71c56807: doca-ofed's openmpi conflicts with hpcx-provides-openmpi."""
    marked = {**FOUND, "hpcx_provides_openmpi": True}
    image = node("hbv3", hpc_image={"DOCA": "3.2.3", "HPCX": "2.25.1"})
    assert values(image, marked)["installs_doca"] is False
    replaced = asked("rdma", image, {"trueup_rdma": marked}, from_image="replace")
    [refused_] = plan(replaced).refused
    assert "hpcx-provides-openmpi" in refused_
    inbox = asked("rdma", image, {"trueup_rdma": marked}, from_image="replace", stack="inbox")
    assert plan(inbox).refused == []
