"""The role enroot_pyxis, planned for the families and systems that may get it."""

from __future__ import annotations

import pytest
from helpers import parametrized
from trueup_controller.sites.enroot_pyxis import (
    config_problems,
    kernel_problems,
    read_look,
    read_variables,
)
from trueup_node.errors import BadInput

CONF = "/etc/enroot/enroot.conf"


def has(path: str, *lines: str) -> str:
    """What look.sh says of a file."""
    return f"file\t{path}\t\n" + "".join(f"line\t{path}\t{line}\n" for line in lines)


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


@parametrized(("kernel", "words"))
def test_what_the_kernel_forbids_is_named(kernel: dict[str, int], words: list[str]) -> None:
    found = kernel_problems({"kernel": kernel})
    assert [word in sentence for word, sentence in zip(words, found, strict=True)] == [True] * len(
        words
    )


@parametrized(("files", "words"))
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
