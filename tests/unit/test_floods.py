"""No output keeps a parser busy, and none ends it otherwise than by ParseError."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from trueup_analysis import rooms

pytestmark = pytest.mark.slow

TESTS = Path(__file__).resolve().parent.parent
# Recordings that hold most kinds of lines of each tool, and are short.
RECORDINGS = {
    "azcopy": ["synthetic_completed.txt"],
    "gpu_burn": ["synthetic_two_gpus.txt", "synthetic_faulty.txt", "synthetic_no_report.txt"],
    "hpl_mxp": ["synthetic_8gpu.txt"],
    "aznhc": ["synthetic_h100_passed.txt", "synthetic_h100_failed.txt"],
    "babelstream": ["omp_5.0.csv", "synthetic_cuda_4.0_wrong_sum.txt"],
    "blob_copy": ["resumed.txt"],
    "devito": ["driver_openmp.log"],
    "fio": ["fio333_write_psync.json"],
    "dcgm": ["dcgm4_level2_8gpu.json", "dcgm3_table_8gpu_fails.txt", "proftester_2gpu.txt"],
    "gemm": ["a100_1gpu.json"],
    "gpu_copy": ["sections_4gpu.txt", "nvbandwidth_0.4_one_gpu.txt", "bandwidthtest.txt"],
    "gromacs": ["driver_no_gpu.txt", "md_killed.log"],
    "hpcg": ["hpcg31_2ranks.txt", "synthetic_yaml30.txt"],
    "hpl": ["nvidia_8gpu.txt"],
    "ib": ["write_bw_client.txt", "no_device.txt"],
    "ior": ["ior_4.0.0_two_tests.txt", "ior_2.10.3.txt", "ior_4.0.0.json"],
    "mdtest": ["mdtest_4.0.0_times.txt", "mdtest_1.9.3.txt"],
    "megatron": ["gpt_driver_killed.log", "synthetic_megatron_lm.log"],
    "nccl": ["infiniband.txt", "old_layout.txt"],
    "osu": ["synthetic_osu_mbw_mr.txt", "synthetic_imb_sendrecv_old.txt"],
    "nv_a10": ["ffmpeg51_s2.txt", "synthetic_a10_s5.txt"],
    "nccl_log": ["synthetic_sockets.txt"],
    "training": ["synthetic_torchtitan.txt", "synthetic_gpt_neox.txt", "synthetic_llm_c.txt"],
    "serving": [
        *("synthetic_sglang_table.txt", "synthetic_trtllm.txt", "synthetic_aiperf.txt"),
        *("synthetic_vllm_latency.txt", "synthetic_llmd_v01_yaml.txt", "synthetic_aiperf.csv"),
    ],
    "stream": ["stream510.txt", "kernel_streaming.json"],
    "superbench": ["synthetic_node.json"],
    "topo": ["synthetic_nd_h100_v5.txt", "synthetic_ndv4.txt"],
    "vllm": ["vllm032_driver_killed.log", "vllm032_table.log"],
}
PARSERS = [
    (rooms.part(tool, "output").__name__, f"parse_{tool}", [f"{tool}/{name}" for name in names])
    for tool, names in RECORDINGS.items()
]
PARSERS += [
    (
        "trueup_node.node.kernel_log",
        "parse_kernel_log",
        ["kernel_log/forms.txt", "kernel_log/sxids.txt"],
    ),
    ("trueup_node.node.lscpu", "parse_lscpu", ["machines/hb120rs_v3/lscpu.json"]),
    ("trueup_node.node.nvidia_smi", "parse_nvidia_smi", ["machines/nd96asr_v4/nvidia-smi.csv"]),
]


@pytest.mark.parametrize(("module", "function", "recordings"), PARSERS, ids=str)
def test_no_flood_takes_long_or_ends_in_another_error(
    module: str, function: str, recordings: list[str]
) -> None:
    done = subprocess.run(
        [
            *(sys.executable, str(TESTS / "flood.py"), module, function),
            *(str(TESTS / "data" / name) for name in recordings),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    last = done.stdout.splitlines()[-1:]
    assert (done.returncode, last, done.stderr[-1000:]) == (0, ["done"], "")


def test_every_parser_is_flooded() -> None:
    node = TESTS.parent / "module_utils" / "trueup_node" / "node"
    found = set(rooms.names())
    found |= {
        path.stem
        for path in node.glob("*.py")
        if f"def parse_{path.stem}(" in path.read_text(encoding="utf-8")
    }
    assert {function.removeprefix("parse_") for _, function, _ in PARSERS} == found
