"""With the defaults, each kind of node gets what its family needs, and nothing of another's."""

from __future__ import annotations

import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from nodes import gpus, limits, sourced, statements
from testinfra.host import Host

NDV4, NDH100, HBV3, NVA10 = "trueup-ndv4", "trueup-ndh100", "trueup-hbv3", "trueup-nva10"
ND = [NDV4, NDH100]
EVERY = [*ND, HBV3, NVA10]
SIZES = {NDV4: "Standard_ND96asr_v4", NDH100: "Standard_ND96isr_H100_v5"}
LAYOUTS = {NDV4: "ndv4", NDH100: "ndv5"}
# Azure's HPC image of Ubuntu 24.04 has these (azhpc-images versions.json, 8e9d055).
DRIVER = "580.173.02"
NCCL = "2.30.4"
# Highest graphics and memory clocks in MHz that the stand-in of nvidia-smi gives these GPUs.
CLOCKS = {NDV4: ("1410", "1215"), NDH100: ("1980", "2619")}
ADAPTERS = [f"mlx5_ib{number}" for number in range(8)]


def name(node: Host) -> str:
    """The node's name in the inventory."""
    return str(node.backend.get_hostname())


def packages(node: Host) -> dict[str, str]:
    """Installed packages and their versions."""
    lines = node.check_output("dpkg-query -W -f '${db:Status-Status} ${Package} ${Version}\n'")
    rows = [line.split() for line in lines.splitlines()]
    return {row[1]: row[2] for row in rows if row[0] == "installed"}


# --- the driver


@pytest.mark.parametrize("node", ND, indirect=True)
def test_driver_fabric_manager_and_what_runs_are_one_version(node: Host) -> None:
    found = {package: version for package, version in packages(node).items() if "nvidia" in package}
    assert {"nvidia-open", "nvidia-fabricmanager", "nvidia-utils-580"} - set(found) == set()
    assert {version.split("-")[0] for version in found.values()} == {DRIVER}
    assert gpus(node, "driver_version") == [DRIVER] * 8
    said = node.check_output("nv-fabricmanager --version")
    assert said == f"Fabric Manager version is : {DRIVER}"


@pytest.mark.parametrize("node", ND, indirect=True)
@pytest.mark.parametrize(
    "other", ["nvidia-open=580.126.16-1ubuntu1", "nvidia-fabricmanager=580.126.16-1"]
)
def test_apt_does_not_take_the_driver_apart(node: Host, other: str) -> None:
    # Another version is offered, and apt would take it.
    asked = "LC_ALL=C apt-get --simulate --yes --allow-downgrades"
    assert node.run(f"{asked} --allow-change-held-packages install {other}").rc == 0
    refused = node.run(f"{asked} install {other}")
    assert refused.rc == 100
    assert "Held packages were changed" in refused.stderr


@pytest.mark.parametrize("node", ND, indirect=True)
def test_nvidias_services_run_now_and_after_a_boot(node: Host) -> None:
    units = ["nvidia-fabricmanager", "nvidia-persistenced", "nvidia-dcgm", "trueup-gpu-clocks"]
    services = {unit: node.service(unit) for unit in units}
    states = {unit: (one.is_running, one.is_enabled) for unit, one in services.items()}
    assert states == dict.fromkeys(units, (True, True))


@pytest.mark.parametrize("node", ND, indirect=True)
def test_persistence_mode_is_on_though_the_packages_unit_leaves_it_off(node: Host) -> None:
    unit = "nvidia-persistenced.service"
    packaged = node.file(f"/usr/lib/systemd/system/{unit}").content_string
    assert "--no-persistence-mode" in packaged
    started = node.check_output(f"systemctl show --property=ExecStart {unit}")
    # The drop-in replaces the command: a second one would be shown too.
    assert started.count("argv[]=") == 1
    assert "argv[]=/usr/bin/nvidia-persistenced --verbose --persistence-mode ;" in started
    assert gpus(node, "persistence_mode") == ["Enabled"] * 8


@pytest.mark.parametrize("node", ND, indirect=True)
def test_peermem_is_loaded_at_boot_and_again_with_the_rdma_modules(node: Host) -> None:
    loaded = statements(node, "/etc/modules-load.d/trueup-gpu-driver.conf")
    assert loaded == ["nvidia_peermem"]
    shown = node.check_output("systemctl show --property=ExecStartPost,Restart openibd.service")
    # A node without peermem still gets its adapters.
    assert "argv[]=/sbin/modprobe nvidia-peermem ; ignore_errors=yes" in shown
    # Both roles' drop-ins are in force: rdma's says this.
    assert "Restart=on-failure" in shown.splitlines()
    assert node.service("openibd").is_enabled


@pytest.mark.parametrize("node", [*ND, NVA10], indirect=True)
def test_modprobe_keeps_nouveau_from_the_gpus(node: Host) -> None:
    rules = node.check_output("modprobe --showconfig").splitlines()
    assert {"blacklist nouveau", "options nouveau modeset=0"} - set(rules) == set()


@pytest.mark.parametrize("node", ND, indirect=True)
def test_stopping_the_unit_puts_the_clocks_back(node: Host) -> None:
    graphics, memory = CLOCKS[name(node)]
    assert (
        gpus(node, "clocks.current.graphics,clocks.current.memory") == [f"{graphics}, {memory}"] * 8
    )
    try:
        node.check_output("systemctl stop trueup-gpu-clocks")
        # What the stand-in's GPUs choose by themselves.
        assert gpus(node, "clocks.current.graphics") == ["210"] * 8
    finally:
        node.check_output("systemctl start trueup-gpu-clocks")
    assert gpus(node, "clocks.current.graphics") == [graphics] * 8


# --- NCCL


@pytest.mark.parametrize("node", ND, indirect=True)
def test_the_topology_file_is_the_catalogs_where_azures_images_have_it(node: Host) -> None:
    layout, size = LAYOUTS[name(node)], SIZES[name(node)]
    trueup = [str(Path(sys.executable).with_name("trueup")), "topology", "write", "--size", size]
    expected = subprocess.run(trueup, check=True, capture_output=True, text=True).stdout  # noqa: S603
    # Through the link, which is what nccl.conf names.
    found = node.file(f"/opt/microsoft/{layout}/topo.xml")
    assert found.linked_to == f"/opt/microsoft/{layout}-topo.xml"
    assert found.content_string == expected
    # Every adapter of the machine is in the file, at its PCI address.
    places = [
        node.check_output(f"readlink /srv/machine/sys/class/infiniband/{adapter}/device")
        for adapter in ADAPTERS
    ]
    listed = [pci.get("busid") for pci in ET.fromstring(expected).iter("pci")]  # noqa: S314
    assert {Path(place).name for place in places} - set(listed) == set()


# ND H100 v5: without the file on one node, with it over several (catalog/topologies.yml, why).
@pytest.mark.parametrize(
    ("node", "context", "file"),
    [
        (NDV4, "single_node", "/opt/microsoft/ndv4/topo.xml"),
        (NDV4, "multi_node", "/opt/microsoft/ndv4/topo.xml"),
        (NDV4, "container", "/opt/microsoft/ndv4/topo.xml"),
        (NDH100, "single_node", ""),
        (NDH100, "multi_node", "/opt/microsoft/ndv5/topo.xml"),
        (NDH100, "container", "/opt/microsoft/ndv5/topo.xml"),
    ],
    indirect=["node"],
)
def test_a_profile_names_the_topology_file_where_it_helps(
    node: Host, context: str, file: str
) -> None:
    profile = sourced(node, f". /opt/trueup/nccl/profiles/{context}.sh")
    assert profile["NCCL_TOPO_FILE"] == file
    assert profile["NCCL_IB_PCI_RELAXED_ORDERING"] == "1"
    assert profile["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"


@pytest.mark.parametrize("node", ND, indirect=True)
def test_nccl_conf_is_read_as_nccl_reads_it(node: Host) -> None:
    # NCCL takes a line for NAME=VALUE as it stands, with its blanks and quotes.
    pairs = dict(line.split("=", 1) for line in statements(node, "/etc/nccl.conf"))
    assert pairs == {
        "NCCL_TOPO_FILE": f"/opt/microsoft/{LAYOUTS[name(node)]}/topo.xml",
        "NCCL_IB_PCI_RELAXED_ORDERING": "1",
        "NCCL_IGNORE_CPU_AFFINITY": "1",
    }


@pytest.mark.parametrize("node", ND, indirect=True)
def test_nccl_tests_are_built_against_the_nccl_that_is_there(node: Host) -> None:
    assert packages(node)["libnccl2"] == f"{NCCL}-1+cuda13.0"
    for program in ("all_reduce_perf", "alltoall_perf", "sendrecv_perf"):
        ran = node.run(f"/opt/nccl-tests/build/{program} -b 8 -e 8G -g 8")
        # A stand-in must not look like a measurement.
        assert (ran.rc, ran.stdout) == (1, "")
        assert ran.stderr.strip() == f"stand-in: {program} for NCCL {NCCL} measures nothing"


@pytest.mark.parametrize("node", ND, indirect=True)
def test_jobs_on_several_nodes_find_the_sharp_plugin(node: Host) -> None:
    paths = sourced(node, ". /opt/trueup/nccl/profiles/multi_node.sh")["LD_LIBRARY_PATH"]
    library = node.file(f"{paths.split(':')[0]}/libnccl-net.so")
    assert library.content[:4] == b"\x7fELF"


# --- MPI


@pytest.mark.parametrize(
    ("node", "hcoll", "adapters"),
    [(NDV4, "0", ADAPTERS), (NDH100, "0", ADAPTERS), (HBV3, None, ["mlx5_ib0"])],
    indirect=["node"],
)
def test_the_module_and_the_script_give_the_same_mpi(
    node: Host, hcoll: str | None, adapters: list[str]
) -> None:
    login = ". /etc/profile; module load mpi/hpcx 2>&1; mpirun --version"
    script = ". /opt/trueup/hpcx/hpcx.sh; mpirun --version"
    given = [sourced(node, text) for text in (login, script)]
    for variables in given:
        assert variables.get("OMPI_MCA_coll_hcoll_enable") == hcoll
        assert variables["UCX_NET_DEVICES"] == ",".join(f"{one}:1" for one in adapters)
        assert variables["UCX_IB_PCI_RELAXED_ORDERING"] == "on"
    (home,) = {variables["HPCX_HOME"] for variables in given}
    assert home == node.check_output("readlink /opt/hpcx")
    # The distribution's mpirun, in /usr/bin, is behind it.
    first = [
        next(one for one in variables["PATH"].split(":") if node.file(f"{one}/mpirun").exists)
        for variables in given
    ]
    assert first == [f"{home}/ompi/bin"] * 2


# --- RDMA


@pytest.mark.parametrize("node", ND, indirect=True)
def test_adapters_are_named_by_their_pci_addresses(node: Host) -> None:
    rules = statements(node, "/etc/udev/rules.d/59-trueup-rdma-naming.rules")
    named = {}
    for rule in rules:
        keys = dict(one.split("==" if "==" in one else "=", 1) for one in rule.split(", "))
        assert (keys["ACTION"], keys["SUBSYSTEM"]) == ('"add"', '"infiniband"')
        program = keys["PROGRAM"].strip('"').split()
        assert program[:3] == ["rdma_rename", "%k", "NAME_FIXED"]
        named[keys["KERNELS"].strip('"')] = program[3]
    assert named == {f"{0x101 + number:04x}:00:00.0": one for number, one in enumerate(ADAPTERS)}


@pytest.mark.parametrize("node", [*ND, HBV3], indirect=True)
def test_doca_is_installed_and_held(node: Host) -> None:
    found = packages(node)
    assert (found["doca-host"], found["doca-ofed"]) == (
        "3.2.3-019000-25.10-ubuntu2404",
        "3.2.3-0.0.1",
    )
    held = node.check_output("apt-mark showhold").splitlines()
    assert {"doca-host", "doca-ofed"} - set(held) == set()
    modules = statements(node, "/etc/modules-load.d/trueup-rdma.conf")
    assert modules == ["ib_ipoib", "ib_umad", "rdma_ucm"]


# --- limits


@pytest.mark.parametrize("node", EVERY, indirect=True)
def test_services_start_with_the_limits(node: Host) -> None:
    ours = {"MEMLOCK": "infinity", "NOFILE": "1048576", "STACK": "infinity"}
    assert limits(node, "DefaultLimit") == ours


@pytest.mark.parametrize("node", EVERY, indirect=True)
def test_what_is_the_hosts_is_not_written_in_a_container(node: Host) -> None:
    folders = "/etc/security/limits.d /etc/sysctl.d /etc/tmpfiles.d"
    assert node.check_output(f"find {folders} -name '*trueup*'") == ""


@pytest.mark.parametrize("node", EVERY, indirect=True)
def test_nothing_is_upgraded_under_a_running_job(node: Host) -> None:
    timers = [node.service(f"{timer}.timer") for timer in ("apt-daily", "apt-daily-upgrade")]
    assert [(one.is_running, one.is_enabled) for one in timers] == [(False, False)] * 2


@pytest.mark.parametrize("node", EVERY, indirect=True)
def test_no_unit_failed(node: Host) -> None:
    assert node.check_output("systemctl is-system-running --wait") == "running"


# --- what a family does not have


@pytest.mark.parametrize("node", [HBV3], indirect=True)
def test_a_node_without_gpus_has_nothing_for_gpus(node: Host) -> None:
    assert node.exists("nvidia-smi") is False
    words = ("nvidia", "nccl", "cuda", "datacenter-gpu")
    assert [one for one in packages(node) if any(word in one for word in words)] == []
    absent = ["/etc/nccl.conf", "/opt/microsoft", "/opt/nccl-tests", "/opt/trueup/nccl"]
    assert [path for path in absent if node.file(path).exists] == []


@pytest.mark.parametrize("node", [NVA10], indirect=True)
def test_a_virtual_gpu_has_the_grid_driver_and_its_licence_settings(node: Host) -> None:
    version = node.check_output("nvidia-smi --query-gpu=driver_version --format=csv,noheader")
    assert version == "570.211.01"
    settings = statements(node, "/etc/nvidia/gridd.conf")
    # FeatureType, which the installer's template has, would ask for another licence.
    assert "FeatureType=0" in statements(node, "/etc/nvidia/gridd.conf.template")
    assert settings == ["IgnoreSP=FALSE", "EnableUI=FALSE"]
    gridd = node.service("nvidia-gridd")
    assert (gridd.is_running, gridd.is_enabled) == (True, True)


@pytest.mark.parametrize("node", [NVA10], indirect=True)
def test_a_virtual_gpu_has_nothing_of_whole_ones(node: Host) -> None:
    assert [one for one in packages(node) if "nvidia" in one or "doca" in one] == []
    assert node.exists("nv-fabricmanager") is False
    units = ["trueup-gpu-clocks", "nvidia-persistenced", "nvidia-fabricmanager"]
    assert [unit for unit in units if node.service(unit).exists] == []
    assert node.file("/etc/nccl.conf").exists is False
