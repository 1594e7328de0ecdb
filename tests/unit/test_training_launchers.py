"""The launchers of the role training, run with a stand-in for mpirun and for the environment."""

from __future__ import annotations

import shlex
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import jinja2
import pytest
from helpers import parametrized
from trueup_controller.plans.megatron import _told, started_by
from trueup_controller.plans.nccl_setup import PROFILES
from trueup_node.node.affinity import Placement
from trueup_node.node.mpi import Mpi, hpcx_environment
from trueup_node.run.launcher import bind_argv

TEMPLATES = Path(__file__).parents[2] / "roles" / "training" / "templates"
VALUES: dict[str, Any] = {
    "ansible_managed": "managed",
    "training_prefix": "~/no/such/folder",
    "__training_plan": {
        "processes": 2,
        "gpus": 0,
        **dict.fromkeys(("srun", "bind", "torchrun"), ""),
        "mpirun": "mpirun",
        "port": 29500,
        **_told({"interface": "eth1", "variables": {"NCCL_DEBUG": "INFO WARN"}}, 0),
    },
}
SAY = '#!/bin/bash\npwd -P\nprintf "%s\\n" "$@"\nenv | grep IFNAME || true\n'


TWO = Placement(2, 1, "gpu", ((0,), (1,)))


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

    def run(name: str, *words: str, plan: dict[str, object] | None = None) -> list[str]:
        values = {**VALUES, "__training_plan": {**VALUES["__training_plan"], **(plan or {})}}
        text = environment.from_string((TEMPLATES / f"{name}.j2").read_text()).render(values)
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
    # The interface is in mpirun's own environment too, which comes last.
    here = ["GLOO_SOCKET_IFNAME=eth1", "NCCL_SOCKET_IFNAME=eth1"]
    assert (said[-3], sorted(said[-2:])) == ("gpt_driver.py", here)
    more = launched("train-mpirun.sh", "hosts", "gpt_driver.py", "--layers", "4")
    assert more[-5:-2] == ["gpt_driver.py", "--layers", "4"]


def test_mpirun_is_the_nodes_and_passes_on_what_the_profile_says(
    launched: Any, tmp_path: Path
) -> None:
    home = tmp_path / "hpcx-v2" / "ompi"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "mpirun").write_text(f"{SAY}echo $OPAL_PREFIX $LD_LIBRARY_PATH\n")
    (home / "bin" / "mpirun").chmod(0o755)
    made = Mpi(f"{home}/bin/mpirun", "hpcx", environment=hpcx_environment(str(home.parent)))
    (tmp_path / "single_node.sh").write_text("export A_B=1\n")
    (tmp_path / "multi_node_training.sh").write_text(
        "# why\nexport NCCL_X=1\nexport LD_LIBRARY_PATH=/p\n"
    )
    told = _told({"interface": "", "variables": {"NCCL_DEBUG": "INFO"}}, 2)
    plan = {
        "mpirun": started_by({"mpi": asdict(made)}),
        "exports": told["exports"].replace(PROFILES, str(tmp_path)),
        "passed": told["passed"],
    }
    said = launched("train-mpirun.sh", "hosts", plan=plan)
    given = [said[at + 1] for at, word in enumerate(said) if word == "-x"]
    assert given[:2] == ["NCCL_X", "LD_LIBRARY_PATH"]
    assert given[-1] == "NCCL_DEBUG=INFO"
    libraries = made.environment["LD_LIBRARY_PATH"]
    assert said[-1] == f"{home} {libraries}:/p"


@parametrized("found")
def test_mpirun_of_the_session_where_the_nodes_is_no_open_mpi(found: dict[str, Any] | None) -> None:
    assert started_by({"mpi": found}) == "mpirun"


def test_torchrun_has_options_that_pytorch_1_10_knows(launched: object) -> None:
    assert callable(launched)
    said = launched("train-torchrun.sh", "2", "1", "10.0.0.4")
    assert said[:4] == ["-m", "torch.distributed.run", "--nnodes", "2"]
    assert said[4:8] == ["--node_rank", "1", "--nproc_per_node", "2"]
    assert said[8:12] == ["--master_addr", "10.0.0.4", "--master_port", "29500"]
    assert said[12] == "gpt_driver.py"
    assert "GLOO_SOCKET_IFNAME=eth1" in said


@parametrized(("name", "words", "plan", "before", "after"))
def test_processes_are_started_on_their_cpus(
    launched: Any, name: str, words: list[str], plan: dict[str, object], before: str, after: str
) -> None:
    said = launched(name, *words, plan=plan)
    first = said.index("sh")
    assert said[first : first + 5] == bind_argv(TWO)
    assert before in said[first - 2 : first]
    assert said[first + 5] == after


def test_the_slurm_script_is_a_script_with_and_without_gpus() -> None:
    text = (TEMPLATES / "train.sbatch.j2").read_text()
    for gpus, srun in ((0, ""), (2, "--cpu-bind=mask_cpu:0x1,0x2 ")):
        environment = jinja2.Environment(trim_blocks=True, undefined=jinja2.StrictUndefined)
        environment.filters["quote"] = shlex.quote
        told = _told({"interface": "", "variables": {}}, gpus)
        plan = {**VALUES["__training_plan"], **told, "gpus": gpus, "srun": srun, "node_count": 2}
        plan["job_options"] = ["--partition=ndv4", "--time", "1-0"]
        made = environment.from_string(text).render({**VALUES, "__training_plan": plan})
        lines = [line for line in made.splitlines() if line.startswith("#SBATCH")]
        # Of two of a name sbatch takes the last.
        assert lines[-2:] == ["#SBATCH --time=01:00:00", "#SBATCH --partition=ndv4 --time 1-0"]
        done = subprocess.run(["bash", "-n"], input=made, text=True, check=False)
        assert done.returncode == 0
        assert f"srun --kill-on-bad-exit=1 {srun}bash -c" in made
        assert ("profiles/single_node.sh" in made) == (gpus > 0)


# The driver as one process of several, whose end Python would not survive: a stand-in of PyTorch,
# and nothing is trained. What it printed waits in a pipe's buffer.
ENDS = """\
import atexit, os, sys
from types import SimpleNamespace as Has
sys.path.insert(0, sys.argv.pop(1))
import gpt_driver
atexit.register(os.abort)
together = Has(destroy_process_group=lambda: %s)
sys.modules["torch"] = Has(__version__="2", device=str, distributed=together)
gpt_driver.find_gpu = gpt_driver.environment = lambda *_: None
gpt_driver.join, gpt_driver.hosts_of = lambda *_: True, lambda *_: []
gpt_driver.machine = lambda *_: {}
gpt_driver.train = lambda *_: ([], [], None, 0)
gpt_driver.tell = lambda measured: print("all is said")
gpt_driver.main()
"""


@parametrized(("destroys", "status", "said"))
def test_a_process_of_several_ends_well_once_all_is_said(
    destroys: str, status: int, said: str
) -> None:
    driver = TEMPLATES.parent / "files"
    done = subprocess.run(
        [sys.executable, "-c", ENDS % destroys, str(driver)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (done.returncode, said in done.stdout + done.stderr) == (status, True), done.stderr
