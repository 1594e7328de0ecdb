"""MLPerf inference: submission folders (mlcommons/inference_results_v4.1 and later).

Of each language model and scenario: results/SYSTEM/MODEL/SCENARIO/performance/run_1/
mlperf_log_summary.txt, systems/SYSTEM.json and measurements/SYSTEM/MODEL/SCENARIO/*.json (since
v6.0 results/SYSTEM/MODEL/SCENARIO/measurements.json). Output tokens a request are the rate of
tokens over the rate of samples; the logs do not say the prompts' length. Weights that were
quantized have the precision that the submission names, if it names one. Results of the open
division are skipped: its rules allow another model, such as a pruned one.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

from .. import names
from ..rows import OUTPUT_RATE, SERVING, TPOT, TTFT
from .reading import Reader, Reading

if TYPE_CHECKING:
    from collections.abc import Mapping

_LOG: Final = re.compile(
    r"(?P<root>(?:closed|open)/[^/]+)/results/(?P<system>[^/]+)/(?P<model>[^/]+)/"
    r"(?P<scenario>Offline|Server|Interactive)/performance/run_1/mlperf_log_summary\.txt"
)
_LANGUAGE: Final = re.compile(r"(llama|mixtral|deepseek|gpt-oss|qwen).*")
_NANO: Final = 1e-9
_TIMES: Final = {
    TTFT: re.compile(r"^50\.00 percentile first token latency \(ns\)\s*: (\d+)", re.MULTILINE),
    TPOT: re.compile(r"^50\.00 percentile time to output token \(ns\)\s*: (\d+)", re.MULTILINE),
}
_TOKENS: Final = re.compile(
    r"^(?:Completed t|T)okens per second(?: \(inferred\))?\s*: ([\d.]+(?:e\+\d+)?)", re.MULTILINE
)
_SAMPLES: Final = re.compile(
    r"^(?:Completed samples per second|Samples per second)\s*: ([\d.]+(?:e\+\d+)?)", re.MULTILINE
)
_VALID: Final = re.compile(r"^Result is : VALID", re.MULTILINE)


def read(reading: Reading) -> None:
    tree, logs = reading.tree, _logs(reading)
    systems = _documents(
        reading, {f"{match['root']}/systems/{match['system']}.json" for match in logs}
    )
    folders = {folder for match in logs for folder in _folders(match)}
    measured = _documents(
        reading,
        {
            name
            for name in tree.names
            if name.endswith(".json") and name.rpartition("/")[0] in folders
        },
    )
    precisions = {name.rpartition("/")[0]: _precision(text) for name, text in measured.items()}
    by_name = {match.string: match for match in logs}
    for name, text in tree.texts(by_name):
        match = by_name[name]
        system = systems.get(f"{match['root']}/systems/{match['system']}.json")
        precision = next(
            (precisions[folder] for folder in _folders(match) if folder in precisions), ""
        )
        if system is None:
            reading.skipped["no description of the system"] += 1
        else:
            _add(reading, match, text, system, precision)


def _logs(reading: Reading) -> list[re.Match[str]]:
    """Of language models, in the closed division."""
    every = [match for name in reading.tree.names if (match := _LOG.fullmatch(name))]
    every = [match for match in every if _LANGUAGE.fullmatch(match["model"])]
    closed = [match for match in every if match["root"].startswith("closed/")]
    if len(every) > len(closed):
        reading.skipped["open division: the model may be changed"] += len(every) - len(closed)
    return closed


def _folders(match: re.Match[str]) -> list[str]:
    """Folders that may hold the measurement's settings."""
    path = f"{match['system']}/{match['model']}/{match['scenario']}"
    return [f"{match['root']}/{place}/{path}" for place in ("measurements", "results")]


def _precision(document: Mapping[str, Any]) -> str:
    """Of the weights as served. "fp16" with a quantization leaves it open."""
    named = names.precision(str(document.get("weight_data_types")))
    changes = str(document.get("weight_transformations")).lower()
    if named == "bf16" and "quant" in changes:
        return names.precision(changes)
    return named


def _documents(reading: Reading, paths: set[str]) -> dict[str, dict[str, Any]]:
    """The JSON objects of these files; a file that is none is counted."""
    present = sorted(paths & set(reading.tree.names))
    documents = {}
    for name, text in reading.tree.texts(present):
        try:
            document = json.loads(text)
        except (ValueError, RecursionError):
            reading.skipped[f"{name.rpartition('/')[2]}: no JSON"] += 1
            continue
        if isinstance(document, dict):
            documents[name] = document
    return documents


def _add(
    reading: Reading, match: re.Match[str], text: str, system: Mapping[str, Any], precision: str
) -> None:
    hardware = reading.hardware(str(system.get("accelerator_model_name") or ""))
    if hardware is None:
        return
    tokens, samples = _TOKENS.search(text), _SAMPLES.search(text)
    if not _VALID.search(text) or tokens is None or samples is None or not float(samples[1]):
        reading.skipped["not valid, or no rate of tokens"] += 1
        return
    figures = {OUTPUT_RATE: (float(tokens[1]), "tokens/s")}
    if match["scenario"] != "Offline":
        for metric, pattern in _TIMES.items():
            if (latency := pattern.search(text)) and int(latency[1]):
                figures[metric] = (int(latency[1]) * _NANO, "s")
    each, nodes = _whole(system, "accelerators_per_node"), _whole(system, "number_of_nodes")
    if not each or not nodes:
        reading.skipped["no number of accelerators"] += 1
        return
    engine, _, version = _engine(system).partition(" ")
    # The name of the model ends with the accuracy that was kept: 99 or 99.9 %.
    model = names.model(match["model"])
    reading.add(
        match.string,
        figures,
        kind=SERVING,
        publisher=match["root"].rpartition("/")[2],
        engine=engine,
        version=version,
        scenario=match["scenario"].lower(),
        model=model,
        precision=precision,
        hardware=hardware,
        count=each * nodes,
        tokens_out=round(float(tokens[1]) / float(samples[1]), 1),
    )


def _whole(system: Mapping[str, Any], name: str) -> int:
    text = str(system.get(name) or "").strip()
    return int(text) if text.isdecimal() else 0


def _engine(system: Mapping[str, Any]) -> str:
    """The engine and its version, the first of the framework's parts."""
    return str(system.get("framework") or "engine not said").partition(",")[0].strip()[:60]


READER: Final = Reader(
    "mlperf-inference",
    "mlcommons/inference_results_v5.1",
    "MLPerf inference: language models by system, offline and server, from submission folders",
    "Apache-2.0",
    read,
)
