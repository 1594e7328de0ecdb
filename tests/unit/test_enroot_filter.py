"""The filters of the role enroot_pyxis."""

from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError
from trueup_enroot import (
    enroot_config_problems,
    enroot_files,
    enroot_kernel_problems,
    enroot_look,
    enroot_variables,
)

CONF = "/etc/enroot/enroot.conf"
STACK = "/etc/slurm/plugstack.conf"


def test_what_a_node_says_is_read() -> None:
    text = (
        "kernel\tuser/max_user_namespaces\t31000\n"
        "path\t/mnt\t2048 /\n"
        f"file\t{CONF}\t\n"
        f"line\t{CONF}\t#ENROOT_DATA_PATH\t${{XDG}}\n"
        "answer\tenroot\t4.0.1\n"
    )
    assert enroot_look(text) == {
        "kernel": {"user/max_user_namespaces": 31000},
        "paths": {"/mnt": {"free_bytes": 2097152, "mount": "/"}},
        "files": {CONF: ["#ENROOT_DATA_PATH\t${XDG}"]},
        "answers": {"enroot": "4.0.1"},
    }


@pytest.mark.parametrize(
    "line", ["", "kernel\tx\tmany", "path\t/mnt\t/dev/sda", "line\t/etc/other\tx", "what"]
)
def test_what_is_not_understood_is_refused(line: str) -> None:
    with pytest.raises(AnsibleFilterError, match="not understood of what the node said"):
        enroot_look(f"answer\ta\tb\n{line}\n")


@pytest.mark.parametrize(
    ("kernel", "words"),
    [
        ({}, []),
        ({"user/max_user_namespaces": 2, "kernel/unprivileged_userns_clone": 1}, []),
        ({"user/max_user_namespaces": 0}, ["user.max_user_namespaces is 0"]),
        ({"user/max_mnt_namespaces": 1}, ["user.max_mnt_namespaces is 1"]),
        ({"kernel/unprivileged_userns_clone": 0}, ["kernel.unprivileged_userns_clone is 0"]),
    ],
)
def test_what_the_kernel_forbids_is_named(kernel: dict[str, int], words: list[str]) -> None:
    found = enroot_kernel_problems({"kernel": kernel})
    assert [word in sentence for word, sentence in zip(words, found, strict=True)] == [True] * len(
        words
    )


@pytest.mark.parametrize(
    ("files", "required", "words"),
    [
        ({}, False, []),
        ({}, True, ["there is no /etc/slurm/plugstack.conf"]),
        ({STACK: ["include /etc/slurm/plugstack.conf.d/*"]}, True, []),
        ({STACK: ["  include plugstack.conf.d/*.conf"]}, True, []),
        ({STACK: ["#include /etc/slurm/plugstack.conf.d/*"]}, False, ["add the line `include"]),
        ({STACK: ["required /usr/lib/x.so"]}, True, ["does not include the files"]),
        ({CONF: ["#ENROOT_DATA_PATH /x", "ENROOT_OTHER y"]}, False, []),
        ({CONF: ["ENROOT_DATA_PATH=/x"]}, False, ["sets ENROOT_DATA_PATH, and enroot takes"]),
        ({CONF: ["\tENROOT_DATA_PATH\t/x"]}, False, ["sets ENROOT_DATA_PATH"]),
        ({f"{STACK}.d/pyxis.conf": ["required /opt/pyxis/spank_pyxis.so"]}, False, ["another's"]),
        ({f"{STACK}.d/pyxis.conf": ["# Written by trueup (role enroot_pyxis)."]}, False, []),
    ],
)
def test_other_configuration_that_keeps_ours_out_is_named(
    files: dict[str, list[str]], required: bool, words: list[str]
) -> None:
    found = enroot_config_problems(
        {"files": files}, ["ENROOT_DATA_PATH"], "/etc/slurm", required=required
    )
    assert [word in sentence for word, sentence in zip(words, found, strict=True)] == [True] * len(
        words
    )


def test_a_profile_of_role_nccl_is_read() -> None:
    text = "# why\n\nexport NCCL_TOPO_FILE=\nexport A='b c'\nCUDA_DEVICE_ORDER=PCI_BUS_ID\n"
    assert enroot_variables(text) == {
        "NCCL_TOPO_FILE": "",
        "A": "b c",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    }


@pytest.mark.parametrize(
    "line", ["export A=1 B=2", "export A", "A='", "A=$HOME", "A=`id`", ". other.sh", "1A=2"]
)
def test_a_profile_with_more_than_variables_is_refused(line: str) -> None:
    with pytest.raises(AnsibleFilterError, match="is not `export NAME=value`"):
        enroot_variables(f"{line}\n")


def test_release_files_have_the_vendors_names() -> None:
    assert enroot_files(["enroot", "enroot+caps"], "{name}_{version}-1_amd64.deb", "4.0.1") == [
        "enroot_4.0.1-1_amd64.deb",
        "enroot+caps_4.0.1-1_amd64.deb",
    ]
    assert enroot_files(["enroot"], "", "4.0.1") == []
