"""Values that a site sets are in force, dnf is used where it is there, and an image is kept."""

from __future__ import annotations

import json

import pytest
from nodes import gpus, limits, sourced, statements
from testinfra.host import Host

ALMA, IMAGE, HBV3 = "trueup-alt-alma", "trueup-alt-image", "trueup-alt-hbv3"


alma = pytest.mark.parametrize("node", [ALMA], indirect=True)
image = pytest.mark.parametrize("node", [IMAGE], indirect=True)
hbv3 = pytest.mark.parametrize("node", [HBV3], indirect=True)


# --- dnf, and other values


@alma
def test_rpm_has_the_driver_at_one_version(node: Host) -> None:
    rows = node.check_output("rpm -qa --queryformat '%{NAME} %{VERSION}\n'").splitlines()
    driver = dict(row.split() for row in rows if "nvidia" in row)
    assert {"nvidia-open", "kmod-nvidia-open-dkms", "nvidia-fabricmanager"} - set(driver) == set()
    assert set(driver.values()) == {"580.126.20"}
    assert gpus(node, "driver_version") == ["580.126.20"] * 8
    said = node.check_output("nv-fabricmanager --version")
    assert said == "Fabric Manager version is : 580.126.20"
    services = [node.service(f"nvidia-{unit}") for unit in ("fabricmanager", "persistenced")]
    assert [(one.is_running, one.is_enabled) for one in services] == [(True, True)] * 2


@alma
def test_versionlock_keeps_dnf_from_the_newer_that_is_offered(node: Host) -> None:
    # Debian's dnf comes with a repository of its own, whose packages are not signed.
    upgrade = "LC_ALL=C dnf --assumeno --disablerepo=_dnf_local upgrade"
    locked = node.run(upgrade)
    assert (locked.rc, "Nothing to do." in locked.stdout) == (0, True)
    # It is the locks that do it: without them dnf has what to do.
    free = node.run(f"{upgrade} --disableplugin=versionlock")
    assert "datacenter-gpu-manager-4-core" in free.stdout
    assert "1:4.6.0-1" in free.stdout


@alma
def test_the_libraries_of_doca_are_locked(node: Host) -> None:
    locks = node.check_output("LC_ALL=C dnf --quiet versionlock list").splitlines()
    names = ["rdma-core", "libibverbs", "librdmacm", "libibumad", "infiniband-diags"]
    assert {f"{name}-0:2510.0.11-1.*" for name in names} - set(locks) == set()
    held = {"doca-ofed-0:3.2.2-0.0.1.*", "nvidia-fabricmanager-0:580.126.20-1.*"}
    assert held - set(locks) == set()


@alma
def test_services_start_with_the_sites_limits(node: Host) -> None:
    sites = {"MEMLOCK": "infinity", "NOFILE": "65536", "STACK": str(8388608 * 1024)}
    assert limits(node, "DefaultLimit") == sites


@alma
def test_no_service_is_switched_off_where_the_site_lists_none(node: Host) -> None:
    timers = [node.service(f"{timer}.timer") for timer in ("apt-daily", "apt-daily-upgrade")]
    assert [one.is_enabled for one in timers] == [True] * 2


@alma
def test_clocks_are_locked_only_while_the_unit_is_started(node: Host) -> None:
    unit = node.service("trueup-gpu-clocks")
    assert (unit.is_running, unit.is_enabled) == (False, False)
    # What the stand-in's GPUs choose by themselves, and their highest.
    assert gpus(node, "clocks.current.graphics") == ["210"] * 8
    try:
        node.check_output("systemctl start trueup-gpu-clocks")
        assert gpus(node, "clocks.current.graphics,clocks.current.memory") == ["1980, 2619"] * 8
    finally:
        node.check_output("systemctl stop trueup-gpu-clocks")
    assert gpus(node, "clocks.current.graphics") == ["210"] * 8


@alma
def test_profiling_stays_with_the_administrator(node: Host) -> None:
    rules = node.check_output("modprobe --showconfig").splitlines()
    assert "blacklist nouveau" in rules
    assert [rule for rule in rules if "NVreg_RestrictProfilingToAdminUsers" in rule] == []


@alma
def test_adapters_keep_their_names_and_one_module_is_loaded(node: Host) -> None:
    assert node.check_output("find /etc/udev/rules.d -name '*trueup-rdma*'") == ""
    assert statements(node, "/etc/modules-load.d/trueup-rdma.conf") == ["ib_umad"]


@alma
def test_the_module_is_in_the_sites_folder_with_the_sites_variables(node: Host) -> None:
    load = (
        ". /usr/share/modules/init/bash; module use {}; module load mpi/hpcx 2>&1; mpirun --version"
    )
    variables = sourced(node, load.format("/opt/trueup/modulefiles"))
    assert variables["UCX_TLS"] == "rc"
    # hpcx_hcoll is used, though the node has GPUs.
    assert variables.get("OMPI_MCA_coll_hcoll_enable") is None
    assert "redhat9" in variables["HPCX_HOME"]
    assert node.check_output("find /usr/share -path '*modulefiles/mpi*'") == ""


@alma
@pytest.mark.parametrize("context", ["single_node", "multi_node", "container"])
def test_nccl_is_always_given_the_file_and_the_sites_variables(node: Host, context: str) -> None:
    conf = dict(line.split("=", 1) for line in statements(node, "/etc/nccl.conf"))
    profile = sourced(node, f". /opt/trueup/nccl/profiles/{context}.sh")
    for given in (conf, profile):
        assert given["NCCL_TOPO_FILE"] == "/opt/microsoft/ndv5/topo.xml"
        assert given["NCCL_DEBUG"] == "WARN"
    assert node.file("/opt/microsoft/ndv5/topo.xml").content_string.startswith("<system ")


# --- an Azure HPC image


@image
def test_the_image_has_what_it_lists(node: Host) -> None:
    listed = json.loads(node.file("/opt/azurehpc/component_versions.txt").content_string)
    assert listed["NVIDIA"] == "580.105.08"
    assert gpus(node, "driver_version") == [listed["NVIDIA"]] * 8
    expected = {
        "nvidia-open": "580.105.08-1ubuntu1",
        "nvidia-fabricmanager": listed["NVIDIA_FABRIC_MANAGER"],
        "doca-ofed": "3.2.1-0.0.1",
        "libnccl2": f"{listed['NCCL']}+cuda13.0",
    }
    assert {name: node.package(name).version for name in expected} == expected


@image
def test_nothing_was_installed_from_anywhere(node: Host) -> None:
    # prepare.yml removed the repositories; a role that installs would have brought them back.
    assert node.check_output("find /etc/apt/sources.list.d -type f") == ""
    # What prepare.yml writes last, and what dpkg writes for each package that it installs.
    since = "-newer /opt/azurehpc/component_versions.txt"
    assert node.check_output(f"find /var/lib/dpkg/info -name '*.list' {since}") == ""


@image
def test_the_images_mpi_module_stays_and_ours_is_beside_it(node: Host) -> None:
    load = ". /etc/profile; module load {} 2>&1; mpirun --version"
    theirs = sourced(node, load.format("mpi/hpcx"))
    ours = sourced(node, load.format("mpi/hpcx-trueup"))
    (home,) = {variables["HPCX_HOME"] for variables in (theirs, ours)}
    assert home == "/opt/hpcx-v2.25.1-gcc-doca_ofed-ubuntu22.04-cuda13-x86_64"
    assert ours["OMPI_MCA_coll_hcoll_enable"] == "0"
    assert node.check_output("find /opt -maxdepth 1 -name 'hpcx-v*'") == home


@image
def test_nccl_is_not_given_the_file_where_the_site_says_never(node: Host) -> None:
    conf = dict(line.split("=", 1) for line in statements(node, "/etc/nccl.conf"))
    assert "NCCL_TOPO_FILE" not in conf
    for context in ("single_node", "multi_node", "container"):
        profile = sourced(node, f". /opt/trueup/nccl/profiles/{context}.sh")
        assert profile["NCCL_TOPO_FILE"] == ""


@image
def test_clocks_that_are_never_locked_have_no_unit(node: Host) -> None:
    assert node.service("trueup-gpu-clocks").exists is False
    assert gpus(node, "clocks.current.graphics") == ["210"] * 8


# --- the distribution's RDMA stack


@hbv3
def test_the_inbox_stack_is_the_distributions_own(node: Host) -> None:
    rows = node.check_output("dpkg-query -W -f '${Package} ${Status}\n'").splitlines()
    found = {row.split()[0] for row in rows if row.endswith(" ok installed")}
    assert {"rdma-core", "ibverbs-utils", "infiniband-diags"} - found == set()
    assert [one for one in found if "doca" in one or "ofed" in one or "nvidia" in one] == []
    assert node.check_output("apt-mark showhold") == ""
    written = "find /etc/apt /etc/systemd/system -iname '*doca*' -o -name 'openibd*'"
    assert node.check_output(written) == ""


@hbv3
def test_hcoll_is_off_where_the_site_says_so(node: Host) -> None:
    load = ". /etc/profile; module load mpi/hpcx 2>&1; mpirun --version"
    assert sourced(node, load)["OMPI_MCA_coll_hcoll_enable"] == "0"
