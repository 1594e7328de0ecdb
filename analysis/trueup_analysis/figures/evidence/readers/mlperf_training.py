"""MLPerf training: submission folders (mlcommons/training_results_v5.0 and later).

SUBMITTER/results/SYSTEM/BENCHMARK/result_N.txt hold the log lines ``:::MLLOG``; the time to train
is ``run_stop`` minus ``run_start``. As MLPerf does, the fastest and the slowest run are left out
and the rest averaged.
"""

from __future__ import annotations

import contextlib
import json
import re
import statistics
from typing import Any, Final

from .. import names
from ..rows import TIME_TO_TRAIN, TRAINING
from .reading import Reader, Reading

_RESULT: Final = re.compile(
    r"(?P<submitter>[^/]+)/results/(?P<system>[^/]+)/(?P<benchmark>(?:llama|gpt|mixtral|flux)[^/]*)/"
    r"result_\d+\.txt"
)
_EVENT: Final = re.compile(r":::MLLOG (\{.*\"key\": \"(run_start|run_stop)\".*\})")
_LENGTH: Final = re.compile(r"\"key\": \"max_sequence_length\", \"value\": (\d+)")
_MODELS: Final = {"llama2_70b_lora": "llama-2-70b", "llama31_8b": "llama-3.1-8b"}
_MILLI: Final = 1e-3
_LEAST_RUNS: Final = 3


def read(reading: Reading) -> None:
    runs: dict[tuple[str, str, str], list[float]] = {}
    lengths: dict[tuple[str, str, str], float] = {}
    for name, text in reading.tree.texts(reading.tree.matching(_RESULT.pattern)):
        match = _RESULT.fullmatch(name)
        if match is None:
            continue
        key = (match["submitter"], match["system"], match["benchmark"])
        seconds = _seconds(text)
        if seconds is None:
            reading.skipped["a run that did not reach its target"] += 1
            continue
        runs.setdefault(key, []).append(seconds)
        if length := _LENGTH.search(text):
            lengths[key] = float(length[1])
    paths = {f"{submitter}/systems/{system}.json" for submitter, system, _ in runs}
    systems = dict(reading.tree.texts(sorted(paths & set(reading.tree.names))))
    for key, seconds_each in runs.items():
        _add(reading, key, seconds_each, systems, lengths.get(key, 0.0))


def _seconds(text: str) -> float | None:
    moments: dict[str, dict[str, Any]] = {}
    for line, name in _EVENT.findall(text):
        with contextlib.suppress(ValueError):
            moments[name] = json.loads(line)
    start, stop = moments.get("run_start"), moments.get("run_stop")
    if start is None or stop is None or (stop.get("metadata") or {}).get("status") != "success":
        return None
    return float(stop["time_ms"] - start["time_ms"]) * _MILLI


def _add(
    reading: Reading,
    key: tuple[str, str, str],
    seconds: list[float],
    systems: dict[str, str],
    length: float,
) -> None:
    submitter, system_name, benchmark = key
    try:
        system = json.loads(systems.get(f"{submitter}/systems/{system_name}.json", ""))
    except ValueError:
        reading.skipped["no description of the system"] += 1
        return
    hardware = reading.hardware(str(system.get("accelerator_model_name") or ""))
    if hardware is None:
        return
    counts = [str(system.get(name)) for name in ("accelerators_per_node", "number_of_nodes")]
    if len(seconds) < _LEAST_RUNS or not all(count.isdecimal() for count in counts):
        reading.skipped["fewer than three runs, or no number of accelerators"] += 1
        return
    reading.add(
        f"{submitter}/results/{system_name}/{benchmark}",
        {TIME_TO_TRAIN: (statistics.fmean(sorted(seconds)[1:-1]), "s")},
        kind=TRAINING,
        publisher=submitter,
        engine="MLPerf training",
        version=str(system.get("framework") or "")[:60],
        scenario=benchmark,
        model=_MODELS.get(benchmark, names.model(benchmark)),
        hardware=hardware,
        count=int(counts[0]) * int(counts[1]),
        tokens_in=length,
    )


READER: Final = Reader(
    "mlperf-training",
    "mlcommons/training_results_v5.1",
    "MLPerf training: time to train language models by system, from submission folders",
    "Apache-2.0",
    read,
)
