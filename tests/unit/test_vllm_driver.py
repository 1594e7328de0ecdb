"""The driver of vLLM's benchmark, run as a process: a stand-in server on the loopback interface
serves /metrics, a stand-in program takes the place of ``vllm bench serve``."""

from __future__ import annotations

import contextlib
import json
import os
import runpy
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from helpers import parametrized
from trueup_node.benchmarks.vllm.output import parse_vllm
from trueup_node.benchmarks.vllm.signatures import DRIVER_PREFIX
from trueup_node.redaction import redact

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
# What the role puts side by side (plan._files).
FOLDER = Path(tempfile.mkdtemp(prefix="trueup-vllm-driver-"))
DRIVER = FOLDER / "vllm_driver.py"
DATA = ROOT / "tests" / "data" / "vllm"
METRICS = (DATA / "vllm032_metrics.prom").read_text()
KEY = "sesame-4711-open"

OLD = """\
vllm:gpu_cache_usage_perc{engine="0"} %(cache)s
vllm:gpu_cache_usage_perc{engine="1"} 0.1
vllm:num_requests_running{engine="0"} %(running)s
vllm:num_requests_running{engine="1"} 1.0
vllm:num_requests_waiting{engine="0"} 2.0
vllm:num_requests_waiting{engine="1"} 3.0
vllm:gpu_prefix_cache_queries_total{engine="0"} %(queries)s
vllm:gpu_prefix_cache_queries_total{engine="1"} 50.0
vllm:gpu_prefix_cache_hits_total{engine="0"} %(hits)s
vllm:gpu_prefix_cache_hits_total{engine="1"} 20.0
"""

# Prints the table of a recorded run and saves its figures, where the driver says. Before, it waits
# until the server's metrics were read so often, or are not to be had any more.
PROGRAM = """\
import json, os, sys, time, urllib.request
where = dict(zip(sys.argv[1:], sys.argv[2:]))
print("child starts", flush=True)
def read():
    try:
        return int(urllib.request.urlopen({url!r} + "/read").read())
    except OSError:
        return float("inf")
end = time.monotonic() + 120
while {url!r} and read() < {reads} and time.monotonic() < end:
    time.sleep(0.05)
text = open({recorded!r}).read()
line = next(line for line in text.splitlines() if line.startswith("trueup-vllm "))
result = json.loads(line[12:])["result"]
result["latencies"] = [1.0] * 40
if "--save-detailed" in sys.argv:
    result["output_lens"], result["itls"] = [48] * 40, [[0.1] * 47] * 40
with open(os.path.join(where["--result-dir"], where["--result-filename"]), "w") as stream:
    json.dump(result, stream)
print(text[text.index("===="):text.index("trueup-vllm ")])
print("child ends", file=sys.stderr)
sys.exit({status})
"""


class StandIn(ThreadingHTTPServer):
    """Serves what it is told as /metrics, and a version."""

    def __init__(self, metrics: Any) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.metrics = metrics
        self.keys: set[str | None] = set()
        self.count = 0
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def end(self) -> None:
        self.shutdown()
        self.server_close()


class Answer(BaseHTTPRequestHandler):
    server: StandIn

    def do_GET(self) -> None:
        if self.path != "/read":
            self.server.keys.add(self.headers["Authorization"])
        text = '{"version": "0.32.0"}'
        if self.path == "/read":
            text = str(self.server.count)
        elif self.path == "/metrics":
            text = self.server.metrics(self.server.count)
            self.server.count += 1
        self.send_response(200)
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(autouse=True, scope="module")
def _files() -> Iterator[None]:
    for source in ("roles/vllm/files/vllm_driver.py", "module_utils/trueup_node/bounded_http.py"):
        shutil.copy(ROOT / source, FOLDER)
    sys.path.append(str(FOLDER))
    yield
    sys.path.remove(str(FOLDER))
    shutil.rmtree(FOLDER)


@pytest.fixture(name="start")
def _start() -> Iterator[Any]:
    servers: list[StandIn] = []

    def start(metrics: Any) -> StandIn:
        servers.append(StandIn(metrics))
        return servers[-1]

    yield start
    for server in servers:
        server.end()


def argv(url: str, program: str) -> list[str]:
    return [
        *(sys.executable, str(DRIVER), "--base-url", url, "--sample-seconds", "0.1", "--"),
        *(sys.executable, "-c", program),
    ]


def drive(url: str, program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        argv(url, program),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env={**os.environ, **environment},
    )


def program(
    name: str = "vllm032_driver_random.log", *, url: str = "", reads: float = 4, status: int = 0
) -> str:
    return PROGRAM.format(recorded=str(DATA / name), url=url, reads=reads, status=status)


def last(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    line = done.stdout.splitlines()[-1]
    assert line.startswith(DRIVER_PREFIX)
    data: dict[str, Any] = json.loads(line[len(DRIVER_PREFIX) :])
    return data


def test_the_last_line_holds_the_result_and_the_servers_state(start: Any) -> None:
    # A server of today, idle before and after.
    def metrics(count: int) -> str:
        busy = METRICS.replace(
            'requests_running{engine="0",model_name="tiny"} 0.0',
            'requests_running{engine="0",model_name="tiny"} 6.0',
        )
        busy = busy.replace(
            'usage_perc{engine="0",model_name="tiny"} 0.0',
            'usage_perc{engine="0",model_name="tiny"} 0.25',
        )
        after = METRICS.replace(
            'queries_total{engine="0",model_name="tiny"} 650.0',
            'queries_total{engine="0",model_name="tiny"} 850.0',
        )
        after = after.replace(
            'vllm:prefix_cache_hits_total{engine="0",model_name="tiny"} 0.0',
            'vllm:prefix_cache_hits_total{engine="0",model_name="tiny"} 50.0',
        )
        return METRICS if count == 0 else busy if count < 3 else after

    server = start(metrics)
    done = drive(server.url, program(url=server.url))
    assert done.returncode == 0
    assert done.stdout.startswith("child starts\n")
    assert "child ends" in done.stderr
    data = last(done)
    assert data["server_vllm"] == "0.32.0"
    assert data["result"]["completed"] == 40
    assert not {"latencies", "output_lens", "itls"} & set(data["result"])
    assert data["answers"] == {"empty": 0, "in_one_piece": 0}
    seen = data["server"]
    assert seen["samples"] == seen["asked"] == server.count
    assert (seen["busy_samples"], seen["engines"], seen["refused"]) == (2, 1, 0)
    assert (seen["kv_cache_usage_max"], seen["kv_cache_usage_mean"]) == (0.25, 0.25)
    assert (seen["requests_running_max"], seen["requests_waiting_max"]) == (6.0, 0.0)
    assert (seen["prefix_cache_queries"], seen["prefix_cache_hits"]) == (200.0, 50.0)
    # It is kept with records, in which what looks like a secret is hidden.
    assert redact(done.stdout) == done.stdout
    output = parse_vllm(done.stdout)
    assert output.server is not None
    assert output.server.hit_rate == 0.25
    assert output.output_throughput == 84.6545329847703


def test_the_childs_status_is_passed_on(start: Any) -> None:
    server = start(lambda _: METRICS)
    done = drive(server.url, program(status=3))
    assert (done.returncode, last(done)["status"]) == (3, 3)
    killed = drive(server.url, "import os; os.kill(os.getpid(), 9)")
    assert (killed.returncode, last(killed)["status"], last(killed)["result"]) == (137, -9, None)


def test_a_server_that_goes_away_is_said(start: Any) -> None:
    def metrics(count: int) -> str:
        if count == 2:
            threading.Thread(target=server.end).start()
        return METRICS

    server = start(metrics)
    # Until it is gone.
    done = drive(server.url, program(url=server.url, reads=1e9))
    assert done.returncode == 69
    said = done.stderr.splitlines()[-1]
    assert said.startswith(f"trueup-vllm: the server at {server.url} stopped answering while the")
    assert "connection refused" in said
    assert last(done)["server"]["refused"] > 0


def test_a_server_that_was_restarted_is_said(start: Any) -> None:
    later = METRICS.replace("1.795293231e+09", "1.795299999e+09")
    url = start(lambda count: METRICS if count < 3 else later).url
    done = drive(url, program(url=url))
    assert done.returncode == 69
    assert "was restarted while the benchmark ran" in done.stderr


def test_counters_that_fall_mean_a_restart(start: Any) -> None:
    def metrics(count: int) -> str:
        return OLD % {"cache": 0.3, "running": 1.0, "queries": 100.0 - count, "hits": 1.0}

    done = drive(start(metrics).url, program())
    assert (done.returncode, last(done)["server"]["prefix_cache_queries"]) == (69, None)


def test_a_run_without_a_success_has_a_status_of_its_own(start: Any) -> None:
    done = drive(start(lambda _: METRICS).url, program("vllm032_driver_no_model.log"))
    assert done.returncode == 65
    assert done.stderr.splitlines()[-1] == "trueup-vllm: no request succeeded, 4 failed"


def test_the_key_is_used_and_not_printed(start: Any) -> None:
    server = start(lambda _: METRICS)
    done = drive(server.url, program(), OPENAI_API_KEY=KEY)
    assert server.keys == {f"Bearer {KEY}"}
    assert KEY not in done.stdout + done.stderr


def test_no_proxy_is_between(start: Any) -> None:
    server = start(lambda _: METRICS)
    dead = dict.fromkeys(("http_proxy", "HTTP_PROXY", "all_proxy"), "http://127.0.0.1:9")
    # As vLLM's client does: with the variables of its environment.
    child = (
        "import os, urllib.request; print(os.environ['no_proxy'], os.environ['NO_PROXY']);"
        f"print(len(urllib.request.urlopen({server.url!r} + '/metrics').read()))"
    )
    done = drive(server.url, child, **dead, no_proxy="", NO_PROXY="cache.example")
    exempt = "cache.example,127.0.0.1"
    assert done.stdout.splitlines()[:2] == [f"{exempt} {exempt}", str(len(METRICS))]
    assert last(done)["server"]["silent"] == 0
    everything = drive(server.url, child, **dead, no_proxy="*")
    assert everything.stdout.startswith("* *\n")


def test_a_port_of_another_program_is_no_traceback() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def talk() -> None:
            with contextlib.suppress(OSError):
                while True:
                    with listener.accept()[0] as peer:
                        peer.recv(4096)
                        peer.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")

        threading.Thread(target=talk, daemon=True).start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        done = drive(url, program())
        listener.shutdown(socket.SHUT_RDWR)
    assert "Traceback" not in done.stderr
    seen = last(done)["server"]
    assert (seen["samples"], seen["refused"]) == (0, 0)
    assert seen["silent"] == seen["asked"]


def test_what_it_started_ends_with_it(start: Any, tmp_path: Path) -> None:
    server = start(lambda _: METRICS)
    mark = tmp_path / "pid"
    child = f"import os, time; open({str(mark)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    with subprocess.Popen(argv(server.url, child), stdout=subprocess.DEVNULL) as driver:
        deadline = time.monotonic() + 120
        while not (mark.exists() and mark.read_text()) and time.monotonic() < deadline:
            time.sleep(0.05)
        driver.send_signal(signal.SIGTERM)
        assert driver.wait(120) == 143
    with pytest.raises(ProcessLookupError):
        os.kill(int(mark.read_text()), 0)


@parametrized(("line", "name", "value"))
def test_prometheus_text(line: str, name: str, value: list[float] | None) -> None:
    values = runpy.run_path(str(DRIVER))["values"]
    assert values(line).get(name) == value
