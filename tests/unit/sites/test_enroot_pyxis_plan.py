"""The role enroot_pyxis, planned for the families and systems that may get it."""

from __future__ import annotations

from typing import Any

import pytest
from role_plans import asked, node
from trueup_controller.sites.enroot_pyxis import (
    asks,
    config_problems,
    kernel_problems,
    plan,
    read_look,
    read_variables,
)
from trueup_node.errors import BadInput

CONF = "/etc/enroot/enroot.conf"
STACK = "/etc/slurm/plugstack.conf"
INCLUDES = "include /etc/slurm/plugstack.conf.d/*.conf"
DROP_IN = "/etc/enroot/enroot.conf.d/00-trueup.conf"
UNIT = "/etc/systemd/system/trueup-enroot-scratch.service"
HOOK = "/etc/enroot/hooks.d/60-trueup-variables.sh"
FSTAB = "/etc/enroot/mounts.d/60-trueup.fstab"
PROFILE = "/opt/trueup/nccl/profiles/container.sh"
NVME = "/mnt/resource_nvme"
COMMIT = "c908f63181e78d6b71a30d71f816009a8709c917"
SUM = "a" * 64
FILES = {
    "apt": ["enroot_4.0.1-1_amd64.deb", "enroot+caps_4.0.1-1_amd64.deb"],
    "dnf": ["enroot-4.0.1-1.el8.x86_64.rpm", "enroot+caps-4.0.1-1.el8.x86_64.rpm"],
}
SUMS = dict.fromkeys([*FILES["apt"], *FILES["dnf"]], SUM)
# Azure's /mnt/resource with 100 GiB; Slurm runs, and of enroot nothing is installed.
MOUNTED = "path\t/mnt/resource\t104857600 /mnt/resource\npath\t/mnt\t104857600 /\n"
SLURM = "answer\tslurm\t24.11.4\n"


def asked_for(on: dict[str, Any], look: str, **options: Any) -> Any:
    given = {"enroot_checksums": SUMS, **options}
    return asked("enroot_pyxis", on, {"scratch": NVME, "stdout": look}, **given)


def values(on: dict[str, Any], look: str = MOUNTED + SLURM, **options: Any) -> dict[str, Any]:
    planned = plan(asked_for(on, look, **options))
    assert planned.refused == []
    return planned.as_result()


def refused(look: str = MOUNTED, /, on: dict[str, Any] | None = None, **options: Any) -> list[str]:
    return plan(asked_for(on or node("local"), look, **options)).refused


def test_on_enterprise_linux_8_it_must_be_there() -> None:
    on = node("hbv3", "almalinux-8")
    [why] = refused(MOUNTED + SLURM, on)
    assert why.startswith("enroot, enroot+caps: not installed")
    there = "answer\tpackage enroot\t4.0.1-1.el8\nanswer\tpackage enroot+caps\t4.0.1-1.el8\n"
    assert values(on, MOUNTED + SLURM + there)["enroot"] == {}


def contents(files: list[dict[str, str]]) -> dict[str, str]:
    """By path the content, or else the state."""
    return {one["path"]: one.get("content") or one["state"] for one in files}


def has(path: str, *lines: str) -> str:
    """What look.sh says of a file."""
    return f"file\t{path}\t\n" + "".join(f"line\t{path}\t{line}\n" for line in lines)


@pytest.mark.parametrize("family", ["local", "hbv3", "nd_h100_v5", "nv_a10_v5"])
@pytest.mark.parametrize("system", ["ubuntu-22.04", "ubuntu-24.04", "almalinux-9", "debian-12"])
def test_what_a_family_gets_on_each_system(family: str, system: str) -> None:
    on = node(family, system)
    result = values(on)
    manager = "dnf" if system == "almalinux-9" else "apt"
    enroot = result["enroot"]
    assert [one["path"] for one in enroot["files"]] == [
        f"/var/cache/trueup-{name}" for name in FILES[manager]
    ]
    assert [one["url"].rpartition("/")[2] for one in enroot["files"]] == [
        name.replace("+", "%2B") for name in FILES[manager]
    ]
    assert {one["checksum"] for one in enroot["files"]} == {f"sha256:{SUM}"}
    assert enroot["prerequisites"] == (["epel-release"] if manager == "dnf" else [])
    if family.startswith("n"):
        folder = "rpm/x86_64/" if manager == "dnf" else "deb/amd64/"
        url = result["nvidia"]["repository"]["url"]
        assert url == f"https://nvidia.github.io/libnvidia-container/stable/{folder}"
        assert len(result["nvidia"]["pins"]) == 2
    else:
        assert result["nvidia"] == {}
    headers = "slurm-devel" if manager == "dnf" else "libslurm-dev"
    assert result["build"]["packages"][-1] == headers
    assert result["build"]["command"][-1] == "24.11.4"
    assert result["build"]["files"][0]["content"] == f"pyxis {COMMIT} slurm 24.11.4\n"
    files = contents(result["files"])
    scratch = NVME if on["nvme"] else "/mnt/resource"
    assert f"ENROOT_DATA_PATH {scratch}/enroot/data/user-$(id -u)\n" in files[DROP_IN]
    assert f"AssertPathIsMountPoint={scratch}\nBefore=slurmd.service\n" in files[UNIT]
    assert (files[HOOK], "MELLANOX" in files[DROP_IN]) == ("absent", False)
    assert files[FSTAB].splitlines()[-1].split()[:2] == ["/opt/microsoft", "/opt/microsoft"]
    plugin = contents(result["plugin_files"])
    assert list(plugin) == [f"{STACK}.d/pyxis.conf", STACK]
    assert plugin[STACK].endswith(f"\n{INCLUDES}\n")
    assert result["slurmd_files"] == [
        "/opt/trueup/pyxis/spank_pyxis.so",
        *(file["path"] for file in result["plugin_files"]),
    ]
    assert result["unit_files"] == [UNIT, "/etc/trueup/enroot_pyxis.tmpfiles"]


def test_the_node_is_asked_with_what_the_role_was_given() -> None:
    wanted = asks(asked_for(node("hbv3", "almalinux-9"), "", scratch="/data"))
    argv = wanted["ansible.builtin.command"]["argv"]
    assert (argv[0], argv[-2:]) == ("env", ["sh", "-s"])
    assert argv[2:5] == [
        "MANAGER=dnf",
        "PACKAGES=enroot enroot+caps",
        f"PLACES=/data {NVME} {NVME} /mnt/resource /mnt",
    ]


def test_what_is_there_is_not_installed_again() -> None:
    there = (
        "answer\tpackage enroot\t4.0.1-1\nanswer\tpackage enroot+caps\t4.0.1-1.el8\n"
        "answer\tnvidia\t/usr/bin/nvidia-container-cli\nanswer\theaders\t/usr/include/x\n"
    )
    on = node("nd_h100_v5")
    built = f"answer\tbuilt\tpyxis {COMMIT} slurm 24.11.4\n"
    result = values(on, MOUNTED + SLURM + there + built)
    assert (result["enroot"], result["nvidia"], result["build"]) == ({}, {}, {})
    of_schedmd = "answer\tschedmd\tslurm-smd\n"
    assert values(on, MOUNTED + SLURM + of_schedmd)["build"]["packages"][-1] == "slurm-smd-dev"
    # Another Slurm, and another enroot.
    older = there.replace("enroot\t4.0.1", "enroot\t4.0.10")
    result = values(on, MOUNTED + older + built.replace("24.11.4", "23.02.7"))
    assert len(result["enroot"]["files"]) == 2
    assert result["build"]["packages"] == ["git", "make", "gcc", "libc6-dev"]
    assert result["build"]["files"][0]["content"].endswith(" slurm none\n")


def test_containers_see_adapters_only_where_the_node_has_them() -> None:
    on = node("nd_h100_v5", infiniband=[{"name": "mlx5_ib0"}])
    assert "\nMELLANOX_VISIBLE_DEVICES all\n" in contents(values(on)["files"])[DROP_IN]


def test_a_site_has_its_own() -> None:
    look = MOUNTED + has(f"{PROFILE}", "# why", "export A='b c'")
    result = values(
        node("local"),
        look + has(STACK, INCLUDES),
        scratch="/data",
        settings={"ENROOT_MOUNT_HOME": "n", "ENROOT_NEW": "z"},
        plugin_arguments=["container_scope=job"],
    )
    files = contents(result["files"])
    why = "# Set by this site (enroot_pyxis_settings)."
    assert f"\n{why}\nENROOT_MOUNT_HOME n\n\n{why}\nENROOT_NEW z\n" in files[DROP_IN]
    assert files[DROP_IN].count("ENROOT_MOUNT_HOME") == 1
    assert files[HOOK].endswith("\n}\n\ngive A 'b c'\n")
    # A folder that was given need be no mount point, and a list of plugins is left as it is.
    assert "RequiresMountsFor=/data\nBefore=" in files[UNIT]
    plugin = contents(result["plugin_files"])
    assert list(plugin) == [f"{STACK}.d/pyxis.conf"]
    assert plugin[f"{STACK}.d/pyxis.conf"].splitlines()[1] == (
        "required /opt/trueup/pyxis/spank_pyxis.so runtime_path=/data/enroot/pyxis"
        " container_scope=job"
    )


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"enroot_checksums": {}}, "and NVIDIA publishes none: download from"),
        (
            {"enroot_checksums": {FILES["apt"][0]: "A"}},
            "has no sha256 of enroot_4.0.1-1_amd64.deb, enroot+caps_4.0.1-1_amd64.deb, and",
        ),
        ({"pyxis_commit": "v0.21.0"}, "a branch or tag may move"),
        ({"settings": {"PATH": "/x"}}, "PATH of enroot_pyxis_settings: enroot reads no such"),
        ({"settings": {"ENROOT_X": "a\nb"}}, "ENROOT_X of enroot_pyxis_settings: the value has"),
        ({"scratch": "data"}, "data of enroot_pyxis_scratch: give"),
        ({"free_bytes": 1 << 60}, "/mnt/resource has 107374182400 bytes free, and images need"),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(options: dict[str, Any], sentence: str) -> None:
    said = refused(**options)
    assert len(said) == 1
    assert sentence in said[0]


def test_a_machine_without_release_files_or_scratch_is_refused() -> None:
    said = refused(on=node("local", architecture="riscv64"))
    sentence = "NVIDIA has no release file of enroot for apt on riscv64: leave this node out"
    assert [sentence in one for one in said] == [True]
    said = refused("path\t/mnt\t104857600 /\n")
    assert ["give enroot_pyxis_scratch a folder" in one for one in said] == [True]
    # A container's disks are its host's.
    assert len(refused("", on=node("hbv4", container=True))) == 1


def test_the_space_of_disks_is_asked_once_they_are_mounted() -> None:
    on = node("hbv4")
    assert refused(f"path\t{NVME}\t1 /\n", on=on) == []
    assert len(refused(f"path\t{NVME}\t1 {NVME}\n", on=on)) == 1


def test_what_does_not_work_in_the_end_is_named() -> None:
    asked_of = "answer\tenroot\t4.0.1\nanswer\tsrun\t--container-image\n"
    base = "path\t/mnt/resource/enroot\t5 /mnt/resource\n"
    apparmor = "kernel\tkernel.apparmor_restrict_unprivileged_userns\t1\n"
    whole = MOUNTED + base + has(STACK, INCLUDES) + asked_of
    assert values(node("local"), whole + apparmor + "answer\tapparmor\tyes\n")["wrong"] == []
    # Without Slurm nobody asks srun.
    assert (
        values(node("local"), whole.replace("answer\tsrun\t--container-image\n", ""))["wrong"] == []
    )
    wrong = values(node("local"), MOUNTED + apparmor + "answer\tsrun\tpyxis: failed\n")["wrong"]
    for one, words in zip(
        wrong,
        (
            '`enroot version` was to print 4.0.1, and printed ""',
            "(srun said: pyxis: failed): run srun with -vvv",
            "/mnt/resource/enroot is not there",
            "/etc/apparmor.d/enroot is not there",
            "there is no /etc/slurm/plugstack.conf",
        ),
        strict=True,
    ):
        assert words in one


def test_what_a_node_says_is_read() -> None:
    text = (
        "kernel\tuser.max_user_namespaces\t31000\n"
        "path\t/mnt\t2048 /\n" + has(CONF, "#ENROOT_DATA_PATH\t${XDG}") + "answer\tenroot\t4.0.1\n"
    )
    assert read_look(text) == {
        "kernel": {"user.max_user_namespaces": 31000},
        "paths": {"/mnt": {"free_bytes": 2097152, "mount": "/"}},
        "files": {CONF: ["#ENROOT_DATA_PATH\t${XDG}"]},
        "answers": {"enroot": "4.0.1"},
    }


@pytest.mark.parametrize(
    "line", ["", "kernel\tx\tmany", "path\t/mnt\t/dev/sda", "line\t/etc/other\tx", "what"]
)
def test_what_is_not_understood_is_refused(line: str) -> None:
    with pytest.raises(BadInput, match="not understood of what the node said"):
        read_look(f"answer\ta\tb\n{line}\n")


@pytest.mark.parametrize(
    ("kernel", "words"),
    [
        ({}, []),
        ({"user.max_user_namespaces": 2, "kernel.unprivileged_userns_clone": 1}, []),
        ({"user.max_user_namespaces": 0}, ["user.max_user_namespaces is 0"]),
        ({"user.max_mnt_namespaces": 1}, ["user.max_mnt_namespaces is 1"]),
        ({"kernel.unprivileged_userns_clone": 0}, ["kernel.unprivileged_userns_clone is 0"]),
    ],
)
def test_what_the_kernel_forbids_is_named(kernel: dict[str, int], words: list[str]) -> None:
    found = kernel_problems({"kernel": kernel})
    assert [word in sentence for word, sentence in zip(words, found, strict=True)] == [True] * len(
        words
    )


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({}, []),
        ({STACK: ["include /etc/slurm/plugstack.conf.d/*"]}, []),
        ({STACK: ["  include plugstack.conf.d/*.conf"]}, []),
        ({STACK: ["#include /etc/slurm/plugstack.conf.d/*"]}, ["add the line `include"]),
        ({STACK: ["required /usr/lib/x.so"]}, ["does not include the files"]),
        ({CONF: ["#ENROOT_DATA_PATH /x", "ENROOT_OTHER y"]}, []),
        ({CONF: ["ENROOT_DATA_PATH=/x"]}, ["sets ENROOT_DATA_PATH, and enroot takes"]),
        ({CONF: ["\tENROOT_DATA_PATH\t/x"]}, ["sets ENROOT_DATA_PATH"]),
        ({f"{STACK}.d/pyxis.conf": ["required /opt/pyxis/spank_pyxis.so"]}, ["another's"]),
        ({f"{STACK}.d/pyxis.conf": ["# Written by trueup (role enroot_pyxis)."]}, []),
    ],
)
def test_other_configuration_that_keeps_ours_out_is_named(
    files: dict[str, list[str]], words: list[str]
) -> None:
    found = config_problems({"files": files}, ["ENROOT_DATA_PATH"], "/etc/slurm")
    assert [word in sentence for word, sentence in zip(words, found, strict=True)] == [True] * len(
        words
    )


def test_a_profile_of_role_nccl_is_read() -> None:
    text = "# why\n\nexport NCCL_TOPO_FILE=\nexport A='b c'\nCUDA_DEVICE_ORDER=PCI_BUS_ID\n"
    assert read_variables(text.splitlines()) == {
        "NCCL_TOPO_FILE": "",
        "A": "b c",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    }


@pytest.mark.parametrize(
    "line", ["export A=1 B=2", "export A", "A='", "A=$HOME", "A=`id`", ". other.sh", "1A=2"]
)
def test_a_profile_with_more_than_variables_is_refused(line: str) -> None:
    with pytest.raises(BadInput, match="is not `export NAME=value`"):
        read_variables([line])
