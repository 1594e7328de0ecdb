"""Outputs as people hand them on: each of 36 in each of 15 wrappings gives the figures of the bare
output."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
from trueup_analysis.decoding import decoded
from trueup_analysis.read import Reading, read_runs
from trueup_analysis.rooms import logs, marks
from trueup_node.errors import BadInput

TESTS = Path(__file__).resolve().parents[1]
OUTPUTS = (
    *("nccl/infiniband.txt", "nccl/nvlink.txt", "nccl/old_layout.txt", "nccl/one_h200_real.txt"),
    *("nccl/sendrecv_h100_real.txt", "nccl/report.json", "devito/mpi.log", "devito/openmp.log"),
    *("megatron/synthetic_megatron_lm.log", "megatron/synthetic_megatron_deepspeed_2022.log"),
    *("ib/write_bw_all.txt", "ib/send_lat_all.txt", "ib/rxe_ib_read_bw_client.txt"),
    *("hpl/nvidia_8gpu.txt", "hpl/xhpl23_two_tests.txt", "hpl/hpcc150_1rank.txt"),
    *("stream/stream510.txt", "fio/fio333_write_psync.json", "fio/fio333_two_groups.json"),
    *("gromacs/md_r1t1.log", "gpu_copy/nvbandwidth_0.9_h100.txt", "gpu_copy/bandwidthtest.txt"),
    *("dcgm/dcgm4_table_2gpu_fails.txt", "vllm/vllm032_table.log", "vllm/published_pr18566.log"),
    *("hpcg/hpcg31_2ranks.txt", "hpcg/synthetic_yaml30.txt", "ior/ior_2.10.3.txt"),
    *("ior/ior_4.0.0_two_tests.txt", "ior/ior_4.0.0.json", "mdtest/mdtest_4.0.0_times.txt"),
    *("babelstream/omp_5.0.txt", "babelstream/omp_5.0.csv", "topo/synthetic_nd_h100_v5.txt"),
    *("superbench/synthetic_node.json", "fleets/superbench.jsonl"),
)
PROSE = "The nodes were set up yesterday. This is the first run on them.\n"


def each_line(before: Callable[[int], str]) -> Callable[[str], bytes]:
    """A wrapping that puts a label before each line."""

    def wrap(text: str) -> bytes:
        lines = text.splitlines()
        return "".join(f"{before(n)}{line}\n" for n, line in enumerate(lines)).encode()

    return wrap


def clock(number: int) -> str:
    return f"{number // 3600 % 24:02d}:{number // 60 % 60:02d}:{number % 60:02d}"


def prompt(text: str) -> bytes:
    return f"user1@node-1:~/run$ mpirun ./tool -x 1\n{text}\nuser1@node-1:~/run$ exit\n".encode()


def fence(text: str) -> bytes:
    return f"# Results\n\n{PROSE}\n```text\n{text}\n```\n\nIt looks well.\n".encode()


def indent(text: str) -> bytes:
    return f"{PROSE}\n{textwrap.indent(text, '    ')}\n\n{PROSE}".encode()


def colours(text: str) -> bytes:
    lines = (f"\x1b[32m{line}\x1b[0m\n" for line in text.splitlines())
    return "".join(lines).encode()


def carriage_returns(text: str) -> bytes:
    return text.replace("\n", "\r\n").encode()


def utf_16(text: str) -> bytes:
    return text.encode("utf-16")


def latin_1(text: str) -> bytes:
    return "Dur\u00e9e mesur\u00e9e\n".encode("latin-1") + text.encode()


def job_script(text: str) -> bytes:
    before = "JOB 4711 on node-1\nLoading gcc/13.2\n+ export OMP_NUM_THREADS=8\n+ mpirun ./tool\n"
    after = "real 1m2.000s\nuser 3m4.000s\nslurmstepd: job 4711 ended\n"
    return f"{before}{text}\n{after}".encode()


WRAPPINGS: dict[str, Callable[[str], bytes]] = {
    "prompt": prompt,
    "fence": fence,
    "quote": each_line(lambda _: "> "),
    "indent": indent,
    "colours": colours,
    "carriage returns": carriage_returns,
    "UTF-16": utf_16,
    "Latin-1": latin_1,
    "job script": job_script,
    "kubectl --timestamps": each_line(lambda n: f"2026-03-01T{clock(n)}.123456789Z "),
    "kubectl --prefix": each_line(lambda _: "[pod/run-worker-0/main] "),
    "stern": each_line(lambda _: "run-worker-0 main "),
    "journal": each_line(lambda n: f"Mar  1 {clock(n)} node-1 run[4711]: "),
    "srun --label": each_line(lambda _: " 0: "),
    "mpirun --tag-output": each_line(lambda _: "[1,0]<stdout>:"),
}


def figures(content: bytes) -> list[tuple[str, list[dict[str, object]], dict[str, bool]]]:
    text, gaps = decoded(io.BytesIO(content), "x", marks(), logs())
    readings, _ = read_runs(text, source="x", gaps=gaps)
    return [_figures(reading) for reading in readings]


def _figures(reading: Reading) -> tuple[str, list[dict[str, object]], dict[str, bool]]:
    return reading.tool, reading.rows, reading.checks


def differing(wrapping: str) -> list[str]:
    """The outputs that give other figures in a wrapping, or none."""
    failures = []
    for name in OUTPUTS:
        bare = (TESTS / "data" / name).read_bytes()
        right = figures(bare)
        try:
            same = figures(WRAPPINGS[wrapping](bare.decode())) == right
        except BadInput as error:
            failures.append(f"{name}: {error}")
            continue
        failures += [] if same else [f"{name}: other figures"]
    return failures


def test_the_matrix_is_as_large_as_it_says() -> None:
    assert (len({*OUTPUTS}), len(WRAPPINGS)) == (36, 15)


@pytest.mark.parametrize("wrapping", WRAPPINGS)
def test_an_output_in_a_wrapping_gives_the_same_figures(wrapping: str) -> None:
    assert differing(wrapping) == []
