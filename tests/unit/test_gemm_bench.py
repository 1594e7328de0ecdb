"""The module gemm_bench and its program: success, check mode, refusals, bad ends, the CPUs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gemm_bench
import pytest
from ansible.module_utils.trueup_node.run import bench
from bench_modules import (
    FakeRun,
    checks_only,
    ends_badly,
    goes_well,
    on_four_gpus,
    refuses,
    resumes,
)
from helpers import ended, parametrized, refused
from test_parse_gemm import sealed

ROOT = Path(__file__).parents[2]
DATA = Path(__file__).parent.parent / "data" / "gemm"
H100 = (DATA / "h100_4gpu.json").read_text()
PROGRAM = ROOT / "roles" / "gemm" / "files" / "gemm.py"


def with_gpu(number: int, **changes: Any) -> str:
    data = json.loads(H100)
    data["gpus"][number].update(changes)
    return sealed(data)


def wrong() -> str:
    data = json.loads(H100)
    data["gpus"][3]["precisions"][1]["error"] = 0.25
    return sealed(data)


@pytest.fixture(name="run_module")
def _run_module(runner: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    return on_four_gpus(
        *(runner, monkeypatch, gemm_bench, "NVIDIA H100"),
        prefix="/opt/gemm",
        python="/opt/torch/bin/python",
    )


def test_gpus_that_others_use_are_not_measured(
    run_module: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench, "gpu_users", lambda _: "process 4711")
    run = FakeRun(stdout=H100)
    record = run_module(run)["record"]
    assert (record["outcome"], record["metrics"], run.calls) == ("failed", [], [])
    assert record["reason"] == "the GPUs are in use (process 4711): end that, and run again"


def test_a_good_run_gives_a_record(run_module: Any) -> None:
    run = FakeRun(stdout=H100)
    result, record = goes_well(run_module, run)
    assert record["case"] == "n16384-g4-all-numa"
    assert record["gpus"] == 4
    assert result["ansible_facts"] == {"trueup_gemm": record}
    assert run.calls[0]["argv"] == [
        *("/opt/torch/bin/python", "/opt/gemm/gemm.py", "--precisions", "fp64,tf32,bf16,fp8"),
        *("--n", "16384", "--n-fp64", "8192", "--repeats", "5", "--together"),
        *("--gpu=0:0", "--gpu=1:1", "--gpu=2:0", "--gpu=3:1"),
    ]
    assert run.calls[0]["environment"] == {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    assert len(run.calls) == 1
    assert record["software"] == {"torch": "2.9.0", "cuda": "12.8"}
    names = {(row["name"], row.get("device")) for row in record["metrics"]}
    assert ("gemm_fp8", "gpu3") in names
    assert ("gemm_fp8", None) in names


test_check_mode_returns_the_same_keys_and_runs_nothing = checks_only(H100)


test_a_bad_end_gives_a_record_with_the_reason = ends_badly(
    ({"returncode": 3, "stderr": "gemm: no CUDA"}, "failed", "exit status 3"),
    ({"stdout": H100[:900]}, "failed", "cut off or damaged"),
    ({"stdout": ""}, "failed", "no line"),
    ({"stdout": wrong()}, "invalid", "gpu3 computes tf32 wrongly: the sampled block is off"),
    ({"stdout": with_gpu(1, cpus=[0])}, "invalid", "gpu1 ran on CPUs 0 instead of 1"),
    (
        {"stdout": with_gpu(1, gpu=9)},
        "invalid",
        "GPUs [0, 2, 3, 9] were measured instead of 0 to 3",
    ),
)


test_bad_input_is_refused_before_anything_runs = refuses(
    ({"repeats": 1}, "repeats is 1: it must be 3 or more"),
    ({"precisions": []}, "precisions is empty"),
    ({"n": 1000}, "n is 1000: it must be a multiple of 16, 64 or more"),
    ({"n_fp64": 16}, "n_fp64 is 16: it must be a multiple of 16, 64 or more"),
    ({"node": {}}, "the node shows no GPU"),
    ({"gpu_masks": ["1"]}, "1 CPU masks for 4 GPUs"),
)


@parametrized(("arguments", "status", "message"))
def test_the_program_refuses_in_a_sentence(arguments: list[str], status: int, message: str) -> None:
    done = ended(PROGRAM, *arguments)
    refused(done, status, message)
    assert done.stdout == ""


def test_without_cuda_it_says_so(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text(
        "__version__ = '2.9.0'\nclass cuda:\n    is_available = staticmethod(lambda: False)\n"
    )
    done = ended(PROGRAM, "--measure", PYTHONPATH=str(tmp_path))
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == "gemm: PyTorch 2.9.0 finds no CUDA device\n"


def test_a_record_of_the_run_stands_for_its_case(run_module: Any) -> None:
    changed = {
        "prefix": "/srv/gemm",
        "python": "/usr/bin/python4",
        "precisions": ["fp64"],
        "n": 8192,
        "n_fp64": 4096,
        "repeats": 6,
        "gpus_at_once": "one",
        "gpu_masks": ["2", "1", "2", "1"],
    }
    resumes(run_module, lambda: FakeRun(stdout=H100), gemm_bench, changed)
