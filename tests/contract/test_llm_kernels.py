"""The role llm_kernels, with a kernel from a git repository of the test's own whose build is one
line of Python: built once, built again for another commit, and refused where it cannot be."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import plays
import pytest
from helpers import parametrized

ROOT = Path(__file__).parent.parent.parent
BUILD = """
import pathlib, sysconfig
folder = pathlib.Path(sysconfig.get_path("purelib"), "tiny_kernel-1.0.dist-info")
folder.mkdir(exist_ok=True)
(folder / "METADATA").write_text("Metadata-Version: 2.1\\nName: tiny_kernel\\nVersion: 1.0\\n")
built = pathlib.Path("built")
built.write_text(str(int(built.read_text()) + 1 if built.exists() else 1))
"""


def git(folder: Path, *arguments: str) -> str:
    who = ("-c", "user.name=test", "-c", "user.email=test@localhost")
    done = subprocess.run(
        ["git", *who, *arguments], cwd=folder, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


class Node:
    """A folder with an environment in which torch is said to be, and a repository beside it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.repository = folder / "repository"
        self.repository.mkdir()
        git(self.repository, "init", "--quiet")
        self.commit = self.change("first")
        made = [sys.executable, "-m", "venv", "--without-pip", str(folder / "home" / "venv")]
        subprocess.run(made, check=True)
        (packages,) = (folder / "home" / "venv" / "lib").glob("python*/site-packages")
        self.packages = packages
        (packages / "torch-2.13.0.dist-info").mkdir()
        (packages / "torch-2.13.0.dist-info" / "METADATA").write_text(
            "Metadata-Version: 2.1\nName: torch\nVersion: 2.13.0\n"
        )
        (folder / "proc/driver/nvidia").mkdir(parents=True)
        self.parameters("EnableStreamMemOPs: 0\n")

    def change(self, text: str) -> str:
        """A commit more; its id."""
        (self.repository / "source").write_text(text)
        git(self.repository, "add", ".")
        git(self.repository, "commit", "--quiet", "--message", text)
        return git(self.repository, "rev-parse", "HEAD")

    def parameters(self, text: str) -> None:
        (self.folder / "proc/driver/nvidia/params").write_text(text)

    def kernel(self, **members: Any) -> dict[str, Any]:
        return {
            "name": "tiny",
            "kind": "git",
            "url": str(self.repository),
            "commit": self.commit,
            "distribution": "tiny_kernel",
            "environment": {},
            "build": ["{python}", "-c", BUILD],
            "source": "this test",
            **members,
        }

    def run(self, kernel: dict[str, Any], *options: str) -> tuple[int, int, str]:
        """Exit status, how many tasks changed something, and all that was said."""
        variables = {
            "llm_kernels_request": {
                "kernels": [kernel],
                "recipe": "test",
                "folder": str(self.folder / "home"),
                "find_links": "",
                "no_index": False,
            },
            "trueup_procfs_root": str(self.folder / "proc"),
            # The reboot is not tried.
            "trueup_node": {"container": True},
        }
        play = {"roles": ["llm_kernels"], "vars": variables}
        return plays.counted(plays.roles(self.folder, play, *options))

    def builds(self) -> int:
        built = self.folder / "home/src/tiny/built"
        return int(built.read_text()) if built.exists() else 0


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_a_kernel_is_built_once_and_again_for_another_commit(node: Node) -> None:
    status, _, said = node.run(node.kernel(), "--check")
    assert (status, node.builds()) == (0, 0), said
    status, changed, said = node.run(node.kernel())
    assert (status, changed > 0, node.builds()) == (0, True, 1), said
    noted = json.loads((node.folder / "home/src/tiny.built.json").read_text())
    assert noted[0] == node.commit
    assert node.run(node.kernel())[:2] == (0, 0)
    assert node.run(node.kernel(), "--check")[:2] == (0, 0)
    node.commit = node.change("second")
    status, changed, said = node.run(node.kernel())
    assert (status, changed > 0) == (0, True), said
    assert (node.folder / "home/src/tiny/source").read_text() == "second"


def test_another_torch_makes_it_be_built_again(node: Node) -> None:
    assert node.run(node.kernel())[0] == 0
    info = node.packages / "torch-2.13.0.dist-info"
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: torch\nVersion: 2.14.0\n")
    assert node.run(node.kernel())[1] > 0


def test_a_module_that_vllm_should_have_brought_is_missed(node: Node) -> None:
    wanted = {"name": "deepgemm", "kind": "vendored", "module": "vllm.third_party.deep_gemm"}
    status, _, said = node.run(wanted)
    assert status != 0
    assert "vllm.third_party.deep_gemm is not in" in said
    (node.packages / "vllm/third_party/deep_gemm").mkdir(parents=True)
    assert node.run(wanted)[:2] == (0, 0)


# Each says that it was called; the listers have a driver or none.
LISTED = {
    "with the driver": "usr/lib/modules/6.8.0/updates/dkms/nvidia.ko.zst",
    "without": "usr/bin",
}


@pytest.mark.parametrize("listed", LISTED)
@parametrized(("image", "lister", "builder"))
def test_an_initramfs_is_rebuilt_where_it_holds_the_driver(
    image: str, lister: str, builder: str, listed: str, node: Node
) -> None:
    for name in ("boot", "bin"):
        (node.folder / name).mkdir()
    (node.folder / "boot" / image).touch()
    for name, text in (
        ("uname", "echo 6.8.0-azure"),
        (lister, f"echo {LISTED[listed]}"),
        (builder, f'echo "$@" >> {node.folder}/rebuilt'),
    ):
        program = node.folder / "bin" / name
        program.write_text(f"#!/bin/sh\n# Stand-in.\n{text}\n")
        program.chmod(0o755)
    for name in ("sh", "cat"):
        (node.folder / "bin" / name).symlink_to(f"/bin/{name}")
    ran = subprocess.run(
        ["sh", str(ROOT / "roles/llm_kernels/files/initramfs.sh"), str(node.folder / "boot")],
        env={"PATH": str(node.folder / "bin")},
        capture_output=True,
        text=True,
        check=True,
    )
    kept = node.folder / "rebuilt"
    if listed == "without":
        assert (ran.stdout, kept.exists()) == ("", False)
        return
    assert ran.stdout == "rebuilt\n"
    expected = {
        "update-initramfs": "-u -k 6.8.0-azure\n",
        "dracut": f"--force {node.folder}/boot/{image} 6.8.0-azure\n",
    }
    assert kept.read_text() == expected[builder]


def test_nothing_is_rebuilt_without_an_image_or_a_lister(tmp_path: Path) -> None:
    script = ROOT / "roles/llm_kernels/files/initramfs.sh"
    ran = subprocess.run(
        ["/bin/sh", str(script), str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert (ran.stdout, ran.stderr) == ("", "")
