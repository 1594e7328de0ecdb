"""``trueup read`` begins with the verdict and the headline; fragments are held against the size."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from helpers import parametrized
from trueup_analysis.render import table
from trueup_analysis.sheets.sheet import Sheet

DATA = Path(__file__).resolve().parents[2] / "data"
NVLINK, WRONG = DATA / "nccl" / "nvlink.txt", DATA / "nccl" / "wrong_values.txt"
STREAM = DATA / "stream" / "stream510.txt"
H100, NDV4, HBV3 = "Standard_ND96isr_H100_v5", "Standard_ND96asr_v4", "Standard_HB120rs_v3"


def eight_gpus(tmp_path: Path, gb_per_second: float, model: str = "H100 80GB HBM3") -> Path:
    """A whole log of one node with eight GPUs and one message size of 16 GiB."""
    size, ranks = 1 << 34, 8
    seconds = size * 2 * (ranks - 1) / ranks / (gb_per_second * 1e9)
    algbw = size / seconds / 1e9
    row = f"{seconds * 1e6:.2f} {algbw:.2f} {gb_per_second:.2f} 0"
    lines = [
        "# nccl-tests version 2.19.6 nccl-headers=23004 nccl-library=23004",
        "# Collective test starting: all_reduce_perf",
        (
            f"# nThread 1 nGpus 8 minBytes {size} maxBytes {size} step: 2(factor) warmup iters: 1"
            " iters: 20 agg iters: 1 validation: 1 graph: 0 unalign: 0"
        ),
        "#",
        "# Using devices",
        *(
            f"#  Rank {rank:2} Group  0 Pid   4000 on      gpu-1 device {rank:2}"
            f" [000{rank}:00:00] NVIDIA {model}"
            for rank in range(ranks)
        ),
        "#",
        f"#{'out-of-place':>80}{'in-place':>30}",
        (
            "#       size         count      type   redop    root     time   algbw   busbw  #wrong"
            "     time   algbw   busbw  #wrong"
        ),
        (
            "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)"
            "             (us)  (GB/s)  (GB/s)"
        ),
        f"{size} {size // 4} float sum -1 {row} {row}",
        "# Out of bounds values : 0 OK",
        f"# Avg bus bandwidth    : {gb_per_second:.4f}",
        "#",
        "# Collective test concluded: all_reduce_perf",
    ]
    log = tmp_path / "nccl.log"
    log.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return log


def fragment(log: Path, *, with_devices: bool = False) -> Path:
    """The same without its header and its list of ranks, as people paste it."""
    left_out = ("# nThread", "# nccl-tests", "# Collective", "# Using devices")
    lines = [
        line
        for line in log.read_text(encoding="utf-8").splitlines()
        if not line.startswith(left_out) and (with_devices or not line.startswith("#  Rank"))
    ]
    log.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return log


@parametrized(("rate", "word", "status", "share"))
def test_the_verdict_and_the_headline_stand_first(
    call_trueup: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    rate: float,
    word: str,
    status: int,
    share: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    done = call_trueup("read", eight_gpus(tmp_path, rate).name, "--size", H100)
    first, second, third, *_ = done.out.splitlines()
    assert (done.status, first) == (status, f"{word}: nccl.log: nccl 2.19.6")
    assert second == f"Bus bandwidth {rate:.2f} GB/s at 16 GiB."
    assert third.startswith(
        f"{word.capitalize()}: NCCL all-reduce on one node: {rate:.2f} GB/s at 16 GiB; the floor"
    )
    assert f"({share} %)." in done.out.replace("\n", " ")


def test_a_sweep_has_its_peak_and_average(
    call_trueup: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(NVLINK.parent)
    lines = call_trueup("read", NVLINK.name).out.splitlines()
    assert lines[0] == f"{NVLINK.name}: nccl 2.19.6"
    # nccl-tests prints the same average.
    printed = float(re.findall(r"Avg bus bandwidth +: ([\d.]+)", NVLINK.read_text())[0])
    assert lines[1] == (
        f"Bus bandwidth: peak 308.10 GB/s at 1 GiB, average {printed:.2f} GB/s over the rows below."
    )
    assert call_trueup("read", STREAM).out.splitlines()[1] == "Triad 26.67 GB/s."


def test_a_failed_check_is_the_verdict(call_trueup: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(WRONG.parent)
    done = call_trueup("read", WRONG.name)
    lines = done.out.splitlines()
    assert (done.status, lines[0]) == (1, f"FAIL: {WRONG.name}: nccl 2.19.6")
    assert lines[1] == "The tool's own check failed: values_correct."


@pytest.mark.parametrize(
    ("tone", "code"), [("good", "\x1b[1;32m"), ("bad", "\x1b[1;31m"), ("", "\x1b[1m")]
)
def test_the_verdict_is_coloured_on_a_terminal(tone: str, code: str) -> None:
    sheet = Sheet(title="PASS: x", tone=tone, lead=["Busbw 1."], columns=[], rows=[])
    assert table.render([sheet], colour=True) == f"{code}PASS: x\x1b[0m\nBusbw 1.\n"
    assert table.render([sheet]) == "PASS: x\nBusbw 1.\n"


# --- fragments -----------------------------------------------------------------------------------


@parametrized(("rate", "sentence"))
def test_a_fragment_is_held_against_the_size(
    call_trueup: Any, tmp_path: Path, rate: float, sentence: str
) -> None:
    size = "Standard_ND96is_H100_v5"
    log = fragment(eight_gpus(tmp_path, rate))
    done = call_trueup("read", log, "--size", size)
    page = " ".join(done.out.split())
    assert (done.status, page.startswith("UNVERIFIED: "), "not measured" in page) == (
        2,
        True,
        False,
    )
    assert f"Unverified, so not judged: {sentence.format(size)}." in page
    [item] = json.loads(call_trueup("read", log, "--size", size, "-f", "json").out)
    assert item["plausible"] == sentence.format(size)


def test_a_fragment_without_a_size_is_held_against_the_gpus_that_it_names(
    call_trueup: Any, tmp_path: Path
) -> None:
    log = fragment(eight_gpus(tmp_path, 8.0, "H200"), with_devices=True)
    done = call_trueup("read", log)
    page = " ".join(done.out.split())
    assert (done.status, "times below the" in page) == (0, True)
    assert "Standard_ND96isr_H200_v5" in page
    silent = call_trueup("read", fragment(log))
    assert "Unverified, so not judged.\n" in silent.out


def test_a_fragment_of_other_work_is_held_against_nothing(call_trueup: Any, tmp_path: Path) -> None:
    log = fragment(eight_gpus(tmp_path, 8.0))
    log.write_text(log.read_text(encoding="utf-8").replace(" sum ", " max "), encoding="utf-8")
    [item] = json.loads(call_trueup("read", log, "--size", H100, "-f", "json").out)
    assert item["plausible"] is None


def test_a_log_of_other_gpus_than_the_size_has_is_doubted(call_trueup: Any, tmp_path: Path) -> None:
    log = eight_gpus(tmp_path, 230.0, "A100-SXM4-40GB")
    page = " ".join(call_trueup("read", log, "--size", H100, "--nodes", 2).out.split())
    assert f"Contradiction: it names the GPU A100 SXM 40 GB, and {H100} has H100 SXM 80" in page
    assert "Contradiction: it ran on 1 node (gpu-1), and --nodes says 2." in page
    assert "Contradiction" not in call_trueup("read", log, "--size", NDV4).out


# --- several files, wrong guesses ----------------------------------------------------------------


def test_good_files_are_shown_beside_bad_ones(call_trueup: Any, tmp_path: Path) -> None:
    bad = tmp_path / "notes.txt"
    bad.write_text("ran it twice\n")
    done = call_trueup("read", STREAM, bad, NVLINK)
    titles = [line for line in done.out.splitlines() if line.startswith("/")]
    assert (done.status, titles) == (1, [f"{STREAM}: stream 5.10", f"{NVLINK}: nccl 2.19.6"])
    assert done.err.splitlines()[-1] == "1 of 3 files could not be read; the others were."


def test_the_tools_are_listed_once(call_trueup: Any, tmp_path: Path) -> None:
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text("ran it twice\n")
    done = call_trueup("read", tmp_path, STREAM)
    errors = [line for line in done.err.splitlines() if "no known tool's output" in line]
    assert [line.count("--benchmark (") for line in errors] == [1, 0]


def test_a_warning_on_several_files_is_said_once(call_trueup: Any, tmp_path: Path) -> None:
    copies = [shutil.copy(STREAM, tmp_path / f"{name}.txt") for name in "abc"]
    done = call_trueup("read", *map(str, copies))
    [line] = [line for line in done.err.splitlines() if "prints the best of its repeats" in line]
    assert line.startswith("warning: STREAM prints the best")
    assert "(3 files: " in line
    assert "files" not in call_trueup("read", STREAM, STREAM).err


def test_a_wrong_guess_is_answered_in_one_go(call_trueup: Any) -> None:
    done = call_trueup("read", NVLINK, "--benchmark", "hpl")
    assert (done.status, done.err) == (
        1,
        (
            f"trueup: error: {NVLINK}: not hpl output; it is nccl output, which is read without"
            " --benchmark\n"
        ),
    )
    misspelt = call_trueup("read", NVLINK, STREAM, "--benchmark", "ncl")
    assert (misspelt.status, misspelt.err) == (
        1,
        "trueup: error: no parser for 'ncl'; did you mean nccl?\n",
    )


@pytest.mark.parametrize("command", ["cost", "health", "list", "scaling", "report"])
def test_a_raw_log_is_pointed_to_import(call_trueup: Any, tmp_path: Path, command: str) -> None:
    for log, tool in ((NVLINK, "nccl"), (DATA / "fio" / "fio333_two_groups.json", "fio")):
        more = ("-o", tmp_path / "page") if command == "report" else ()
        done = call_trueup(command, log, *more)
        assert (done.status, done.err) == (
            2 if command == "health" else 1,
            (
                f"trueup: error: {log} holds no readable record: this is {tool} output: `trueup"
                f" import {log} --size SIZE` makes a record of it\n"
            ),
        )
