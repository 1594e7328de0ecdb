"""``trueup read``: parsers found by themselves, and texts that nobody wrote."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from helpers import parametrized
from trueup_analysis import front
from trueup_analysis.read import read
from trueup_analysis.rooms import marks, part, tools
from trueup_node.benchmarks.nccl.output import NcclOutput
from trueup_node.errors import BadInput, TrueupError

DATA = Path(__file__).resolve().parents[2] / "data"


def test_every_parser_with_a_tool_name_is_found() -> None:
    assert {"devito", "stream"} <= set(tools())


@parametrized(("path", "tool", "name"))
def test_the_tool_is_found_out_and_read(path: str, tool: str, name: str) -> None:
    text = (DATA / path).read_text(encoding="utf-8")
    reading = read(text, source=path)
    assert (reading.source, reading.tool) == (path, tool)
    assert name in {row["name"] for row in reading.rows}
    assert read(text, source=path, tool=tool) == reading


@parametrized(("text", "tool", "message"))
def test_what_cannot_be_read_is_one_sentence(text: str, tool: str | None, message: str) -> None:
    with pytest.raises(BadInput) as caught:
        read(text, source="x", tool=tool)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


# Lines in the forms of genuine outputs, with figures of our own.
OTHERS = {
    "SGLang's bench_one_batch": (
        "Prefill. latency: 0.01014 s, throughput:   5916.43 token/s\n"
        "Decode.  median latency: 0.00572 s, median throughput:    174.85 token/s\n"
    ),
    "GuideLLM's console (its benchmarks.json is read)": (
        "Server Throughput Statistics (All Requests)\n"
    ),
    "AIPerf's list of single requests": '{"x_request_id": "1", "benchmark_phase": "profiling"}',
    "Hugging Face's Trainer": "{'loss': 2.31, 'grad_norm': 1.2, 'epoch': 0.01}\n",
    "iperf3": "[ ID] Interval           Transfer     Bitrate         Retr\n"
    "[  5]   0.00-30.00  sec  45.8 GBytes  13.1 Gbits/sec  4369             sender\n",
    "Intel's Memory Latency Checker": "Intel(R) Memory Latency Checker - v3.11b\n"
    "Measuring idle latencies for sequential access (in ns)...\n",
    "NAS Parallel Benchmarks": " NAS Parallel Benchmarks (NPB3.3-OMP) - FT Benchmark\n",
    "NAMD": "Info: Benchmark time: 120 CPUs 0.01 s/step 0.125 days/ns 926.0 MB memory\n",
    "LAMMPS": "Loop time of 6.5 on 4 procs for 50 steps with 1024 atoms\n",
    "WRF": "Timing for main: time 2016-10-06_11:42:30 on domain   1:    0.2 elapsed seconds\n",
    "Quantum ESPRESSO": "     Program PWSCF v.7.4 starts on 20Jul2026 at  0: 0: 0\n",
    "llama-bench": "| model | size | params | backend | ngl | test | t/s |\n| --- | ---: |\n",
    "ucx_perftest": "|    Stage     | # iterations | 50.0%ile | average | overall |\n",
    "elbencho": "OPERATION   RESULT TYPE         FIRST DONE   LAST DONE\n"
    "WRITE       Elapsed time     :     30.140s     30.196s\n",
    "stress-ng": "stress-ng: info:  [52] setting to a 60 second run per stressor\n",
    "rocm-bandwidth-test": "          RocmBandwidthTest Version: 2.6.0\n",
    "an MLPerf training log": '0: :::MLLOG {"namespace": "", "time_ms": 1, "event_type": "X"}\n',
    "nvidia-smi": "| NVIDIA-SMI 550.127.05             Driver Version: 550.127.05     |\n",
}


@pytest.mark.parametrize("name", OTHERS)
def test_a_tool_that_is_known_and_not_read_is_named(name: str) -> None:
    with pytest.raises(BadInput) as caught:
        read(OTHERS[name], source="x")
    assert str(caught.value) == f"x: output of {name}: there is no parser"
    patterns = front.OTHERS.items()
    assert [other for other, pattern in patterns if pattern.search(OTHERS[name])] == [name]


def test_marks_are_found_wherever_they_stand(monkeypatch: pytest.MonkeyPatch) -> None:
    """In pieces of a text, short lines and long ones, whole or cut by where a piece ends."""
    monkeypatch.setattr(front, "_PIECE", 100)
    for line in ("a\n", "a line of many letters that is there again and again\n"):
        for mark in marks():
            for before in range(0, 100, 3):
                text = line * 3 + "." * before + mark + "\n" + line * 9
                assert (mark, front._marks_in(text) & {mark}) == (mark, {mark})
            assert front._marks_in(line * 20) == set()


def test_a_killed_run_is_refused() -> None:
    text = (DATA / "devito" / "killed.log").read_text(encoding="utf-8")
    with pytest.raises(BadInput, match=r"^killed\.log: "):
        read(text, source="killed.log", tool="devito")


# --- a sweep -------------------------------------------------------------------------------------

_SIZE = r" *\d+ [KMG]?i?B "


@parametrized(("path", "sizes", "figures"))
def test_a_sweep_is_a_row_a_size(call_trueup: Any, path: str, sizes: int, figures: int) -> None:
    lines = call_trueup("read", DATA / path).out.splitlines()
    rows = [line for line in lines if re.match(_SIZE, line)]
    assert (len(rows), max(map(len, rows)) <= 80) == (sizes, True)
    every = call_trueup("read", DATA / path, "--all").out.splitlines()
    assert sum(1 for line in every if re.match(r"(?:busbw|algbw|time|wrong|ib) ", line)) == figures


def test_a_sweep_says_the_way_and_the_algorithm(call_trueup: Any, tmp_path: Path) -> None:
    text = (DATA / "nccl" / "infiniband.txt").read_text(encoding="utf-8")
    begin, header, rest = text.partition("# nThread")
    said = "".join(
        f"node-1:1:2 [0] NCCL INFO {line}\n"
        for line in (
            "AllReduce: 1024 Bytes -> Algo TREE proto LL channel{Lo..Hi}={0..1}",
            "1048576 Bytes -> Algo 1 proto 2 time 33.400002",
        )
    )
    log = tmp_path / "job.log"
    log.write_text(begin + said + header + rest, encoding="utf-8")
    shown = " ".join(call_trueup("read", log).out.split())
    for found in (
        "transport ib",
        "topology file /opt/microsoft/ndv4/topo.xml",
        "algorithm tree/ll,ring/simple",
    ):
        assert found in shown


# --- what cannot be cross-checked ----------------------------------------------------------------

SIZE = "Standard_ND96isr_H100_v5"


@pytest.fixture
def unverified_log(tmp_path: Path) -> Path:
    """A log of nccl-tests without its header, as it is pasted."""
    text = (DATA / "nccl" / "nvlink.txt").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if not line.startswith("# nThread")]
    log = tmp_path / "pasted.txt"
    log.write_text("\n".join(lines), encoding="utf-8")
    return log


def missing(log: Path) -> list[str]:
    found = read(log.read_text(encoding="utf-8"), source="x").unverified
    assert [text[:10] for text in found] == ["no list of", "no header "]
    return found


@pytest.mark.parametrize(
    "path",
    sorted(
        path.relative_to(DATA).as_posix()
        for tool in ("devito", "gromacs", "megatron", "vllm")
        for path in (DATA / tool).glob("*driver*")
    ),
)
def test_a_drivers_output_is_read_as_its_parser_alone_reads_it(path: str) -> None:
    text = (DATA / path).read_text(encoding="utf-8")
    tool = Path(path).parent.name
    try:
        parsed = getattr(part(tool, "output"), f"parse_{tool}")(text)
    except TrueupError:
        with pytest.raises(BadInput):
            read(text, source=path, tool=tool)
        return
    reading = read(text, source=path, tool=tool)
    assert (reading.figures, reading.warnings) == (parsed.metrics(), list(parsed.warnings))


def test_figures_above_a_drivers_damaged_line_are_unverified() -> None:
    text = (DATA / "vllm/vllm032_driver_random.log").read_text(encoding="utf-8")
    lines = text.splitlines()
    [at] = [at for at, line in enumerate(lines) if '"sha256"' in line]
    lines[at] = lines[at].replace(":", ";", 1)
    [reason] = read("\n".join(lines), source="x").unverified
    assert reason.startswith("what stands below the results was not read: ")
    assert f"(line {at + 1}: " in reason


def test_another_programs_text_below_the_results_is_a_warning() -> None:
    text = (DATA / "gpu_copy" / "bandwidthtest.txt").read_text(encoding="utf-8")
    alone, followed = (read(each, source="x") for each in (text, f"{text}\nother program\n"))
    assert (followed.figures, followed.unverified) == (alone.figures, alone.unverified)
    [warning] = set(followed.warnings) - set(alone.warnings)
    assert warning.startswith("what stands below the results was not read: ")


def test_an_output_with_all_its_checks_is_not_unverified() -> None:
    text = (DATA / "stream" / "stream510.txt").read_text(encoding="utf-8")
    reading = read(text, source="x")
    assert (reading.unverified, reading.outcome()) == ([], ("ok", None))


def test_every_format_marks_the_figures_as_unverified(
    call_trueup: Any, unverified_log: Path
) -> None:
    every = call_trueup("read", unverified_log, "--all").out.splitlines()
    verdict, lead = (line.split()[0] for line in every if line.lower().startswith("unverified:"))
    assert (verdict, lead) == ("UNVERIFIED:", "Unverified:")
    rows = [line for line in every if re.match(r"(?:busbw|algbw|time|wrong) ", line)]
    assert [line for line in rows if "unverified" not in line] == []
    assert len(rows) == 168
    shown = call_trueup("read", unverified_log)
    figures = [line.split()[2:] for line in shown.out.splitlines() if re.match(_SIZE, line)]
    assert (len(figures), {cell[-1] for line in figures for cell in line}) == (21, {"?"})
    lacks = missing(unverified_log)
    page = " ".join(shown.out.split())
    assert [text for text in lacks if f"Unverified: {text}." not in page] == []
    # Once: on standard error where no table says it.
    assert [text for text in lacks if text in shown.err] == []
    as_csv = call_trueup("read", unverified_log, "-f", "csv")
    assert [text for text in lacks if f"unverified: {text}" not in as_csv.err] == []
    [first, *rows] = as_csv.out.splitlines()
    assert first.split(",")[-1] == "unverified"
    assert [row for row in rows if lacks[0] not in row] == []
    [told] = json.loads(call_trueup("read", unverified_log, "-f", "json").out)
    assert told["unverified"] == lacks


def test_unverified_figures_are_not_judged(call_trueup: Any, unverified_log: Path) -> None:
    done = call_trueup("read", unverified_log, "--size", SIZE, "-f", "json")
    [told] = json.loads(done.out)
    [verdict] = told["verdicts"]
    assert (done.status, verdict["verdict"]) == (2, "not measured")
    assert verdict["reason"] == f"unverified: {'; '.join(missing(unverified_log))}"


def test_a_failed_check_counts_in_an_unverified_output(
    monkeypatch: pytest.MonkeyPatch, call_trueup: Any, unverified_log: Path
) -> None:
    monkeypatch.setattr(NcclOutput, "checks", {"values_correct": False})
    done = call_trueup("read", unverified_log, "--size", SIZE, "-f", "json")
    [verdict] = json.loads(done.out)[0]["verdicts"]
    assert (done.status, verdict["verdict"]) == (1, "fail")
