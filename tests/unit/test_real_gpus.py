"""What tools and our programs printed on a real H100 and H200 (tests/data, files ``*real*``)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from trueup_analysis.read import read
from trueup_node.node import gpu_state, nvidia_driver, nvidia_smi

DATA = Path(__file__).parents[1] / "data"
# By file: tool, its version, and the first figures of some kinds.
READ = {
    "gemm/h100_real.json": (
        *("gemm", "trueup-gemm 1 (torch 2.11.0+cu130)"),
        {"gemm_fp64": 56.505e12, "gemm_bf16": 704.139e12, "gemm_fp8": 1358.768e12},
    ),
    "gemm/h200_real.json": (
        *("gemm", "trueup-gemm 1 (torch 2.11.0+cu130)"),
        {"gemm_tf32": 352.485e12, "gemm_bf16": 686.588e12, "gemm_fp8": 1332.673e12},
    ),
    "gpu_copy/sections_h100_real.txt": (
        *("gpu_copy", "0.8"),
        {"h2d_bandwidth": 55.14e9, "d2h_bandwidth": 55.17e9, "d2d_bandwidth": 1490.01e9},
    ),
    "gpu_copy/sections_h100_pytorch_real.txt": (
        *("gpu_copy", "torch 2.11.0+cu130"),
        {"h2d_bandwidth": 54.7842e9, "d2h_bandwidth": 55.1988e9, "d2d_bandwidth": 1491.25e9},
    ),
    "gpu_copy/nvbandwidth_0.8_h100_real.txt": (
        *("gpu_copy", "0.8"),
        {"h2d_bandwidth": 55.30e9, "d2h_bandwidth": 54.83e9, "d2d_bandwidth": 1491.05e9},
    ),
    "gpu_copy/nvbandwidth_0.8_h100_real.json": (
        *("gpu_copy", "0.8"),
        {"h2d_bandwidth": 55.2734e9, "d2h_bandwidth": 54.8955e9, "d2d_bandwidth": 1491.57e9},
    ),
    "nccl/one_h200_real.txt": ("nccl", "2.19.6", {"busbw": 0.0, "algbw": 0.15e9}),
    "nccl/sockets_h100_real.txt": ("nccl", "2.19.6", {"time": 4554.79e-6}),
    "nccl/sendrecv_h100_real.txt": ("nccl", "2.19.6", {"time": 2306.78e-6}),
    "megatron/gpt_driver_h100_real.txt": ("megatron", "2.11.0+cu130", {"step_time": 0.350105}),
}


@pytest.mark.parametrize("name", READ)
def test_figures(name: str) -> None:
    reading = read((DATA / name).read_text(), source=name)
    tool, version, figures = READ[name]
    firsts = {kind: next(row for row in reading.rows if row["name"] == kind) for kind in figures}
    values = {kind: row["value"] for kind, row in firsts.items()}
    assert values == pytest.approx(figures, rel=1e-5)
    assert (reading.tool, reading.tool_version, reading.unverified) == (tool, version, [])
    assert [check for check, passed in reading.checks.items() if not passed] == []


def answers() -> dict[str, str]:
    """By command what nvidia-smi printed."""
    text = (DATA / "nvidia_smi" / "h100_queries_real.txt").read_text()
    return dict(re.findall(r"=== (.*)\n((?:.*\n)*?)--- status 0\n", text))


def asked(option: str, fields: str) -> str:
    return answers()[f"nvidia-smi --{option}={fields} --format=csv"]


def test_what_an_h100_says_of_itself() -> None:
    tables = {
        name: gpu_state.parse_query(asked("query-gpu", ",".join(("pci.bus_id", *fields))), fields)
        for name, fields in gpu_state.QUERIES.items()
        if name != "throttle_old"
    }
    fields = gpu_state.REMAP_QUERY
    text = asked("query-remapped-rows", ",".join(("gpu_bus_id", *fields)))
    tables["remap"] = gpu_state.parse_query(text, fields, "gpu_bus_id")
    (gpu,) = gpu_state.devices(tables, None)
    none = {"corrected": 0, "uncorrected": 0}
    assert gpu == {
        "pci": "0000:00:06.0",
        "name": "NVIDIA H100 80GB HBM3",
        "memory_bytes": 81559 * 1024**2,
        "licence": None,
        "clocks": {"sm_mhz": 345, "max_sm_mhz": 1980, "memory_mhz": 2619},
        "temperature_celsius": 33,
        "ecc": {"volatile": none, "aggregate": none},
        "ecc_by_memory": {
            f"{memory}_{kind}": 0
            for memory in ("sram", "dram")
            for kind in ("corrected", "uncorrected")
        },
        "row_remap": {"correctable": 0, "uncorrectable": 0, "pending": False, "failure": False},
        "throttle_reasons": ["gpu idle"],
        "nvlinks": None,
        "fabric": None,
    }
    assert gpu_state.judge([gpu]) == []


def test_which_driver_and_gpus_an_h100_shows() -> None:
    driver = nvidia_driver.parse_driver_query(0, asked("query-gpu", nvidia_driver.DRIVER_QUERY))
    assert (driver.version, driver.gpus, driver.persistent) == ("580.159.04", 1, 1)
    (gpu,) = nvidia_smi.parse_nvidia_smi(asked("query-gpu", nvidia_smi.GPU_QUERY))
    assert (gpu.name, gpu.pci) == ("NVIDIA H100 80GB HBM3", "0000:00:06.0")
