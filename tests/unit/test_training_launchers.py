"""The launchers of the role training, run with a stand-in for mpirun and for the environment."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import jinja2
import pytest

TEMPLATES = Path(__file__).parents[2] / "roles" / "training" / "templates"
VALUES = {
    "ansible_managed": "managed",
    "training_prefix": "~/no/such/folder",
    "training_interface": "eth1",
    "training_rendezvous_port": 29500,
    "training_variables": {"NCCL_DEBUG": "INFO WARN"},
    "__training_plan": {"processes": 2},
}
SAY = '#!/bin/bash\npwd -P\nprintf "%s\\n" "$@"\nenv | grep IFNAME || true\n'


@pytest.fixture(name="launched")
def _launched(tmp_path: Path) -> object:
    environment = jinja2.Environment(
        trim_blocks=True, keep_trailing_newline=True, undefined=jinja2.StrictUndefined
    )
    environment.filters["quote"] = shlex.quote
    prefix = tmp_path / "a prefix"
    for program in (prefix / "venv" / "bin" / "python", tmp_path / "bin" / "mpirun"):
        program.parent.mkdir(parents=True)
        program.write_text(SAY)
        program.chmod(0o755)
    (tmp_path / "hosts").write_text("node-1\nnode-2\n")

    def run(name: str, *words: str) -> list[str]:
        text = environment.from_string((TEMPLATES / f"{name}.j2").read_text()).render(VALUES)
        script = prefix / "launch" / name
        script.parent.mkdir(exist_ok=True)
        script.write_text(text)
        done = subprocess.run(
            ["/bin/bash", str(script), *words],
            cwd=tmp_path,
            env={"PATH": f"{tmp_path}/bin:/usr/bin:/bin", "HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            check=True,
        )
        lines = done.stdout.splitlines()
        assert lines[0] == str(prefix.resolve())
        return lines[1:]

    return run


def test_mpirun_has_the_files_beside_the_script_and_the_interface(
    launched: object, tmp_path: Path
) -> None:
    assert callable(launched)
    said = launched("train-mpirun.sh", "hosts")
    assert said[said.index("--hostfile") + 1] == str((tmp_path / "hosts").resolve())
    assert said[said.index("-np") + 1] == "4"
    assert said[said.index("--wdir") + 1] == str((tmp_path / "a prefix").resolve())
    given = {said[at + 1] for at, word in enumerate(said) if word == "-x"}
    assert {"GLOO_SOCKET_IFNAME=eth1", "NCCL_SOCKET_IFNAME=eth1", "MASTER_ADDR=node-1"} <= given
    assert "NCCL_DEBUG=INFO WARN" in given
    assert said[-1] == "gpt_driver.py"
    assert launched("train-mpirun.sh", "hosts", "gpt_driver.py", "--layers", "4")[-2:] == [
        "--layers",
        "4",
    ]


def test_torchrun_has_options_that_pytorch_1_10_knows(launched: object) -> None:
    assert callable(launched)
    said = launched("train-torchrun.sh", "2", "1", "10.0.0.4")
    assert said[:4] == ["-m", "torch.distributed.run", "--nnodes", "2"]
    assert said[4:8] == ["--node_rank", "1", "--nproc_per_node", "2"]
    assert said[8:12] == ["--master_addr", "10.0.0.4", "--master_port", "29500"]
    assert said[12] == "gpt_driver.py"
    assert "GLOO_SOCKET_IFNAME=eth1" in said
