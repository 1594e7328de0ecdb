"""The module ib_bench with a stand-in for perftest: both ends, one end, and how they go wrong."""

from __future__ import annotations

import signal
import socket
import tempfile
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ib_bench
import pytest
from ansible.module_utils.trueup_node.benchmarks.ib import case as ib
from ansible.module_utils.trueup_node.run import bench, process
from ansible.module_utils.trueup_node.run.resume import program_digest
from bench_modules import FakeRun, resumes
from helpers import answer_of, parametrized
from perftest_stand_in import CLIENT_TEXT, SERVER_TEXT, Machine
from record_schema import RECORDS

pytestmark = pytest.mark.slow

COMMON = {"run_id": "20261120T091300Z-7c1e", "node_name": "node-1"}


@pytest.fixture(name="machine")
def _machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))
    return Machine(tmp_path)


@pytest.fixture(name="run_module")
def _run_module(machine: Machine, capsys: pytest.CaptureFixture[str]) -> Any:
    def run(*, check: bool = False, **arguments: Any) -> dict[str, Any]:
        given = {
            **COMMON,
            "device": "mlx5_ib3",
            "message_bytes": 1048576,
            "folder": str(machine.folder),
            "sysfs_root": str(machine.sysfs),
            "port": machine.port,
            "timeout_seconds": 300,
            **arguments,
            "_ansible_check_mode": check,
        }
        return answer_of(ib_bench, capsys, **given)

    return run


def test_a_loopback_gives_one_record_of_both_ends(
    run_module: Any, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    warned: list[str] = []
    monkeypatch.setattr(bench.AnsibleModule, "warn", lambda _, text: warned.append(text))
    result = run_module()
    record = result["record"]
    RECORDS.validate(record)
    assert (record["outcome"], record["case"]) == ("ok", "write_bw-mlx5_ib3-1048576")
    assert record["metrics"][:1] == [
        {
            "name": "ib_write_bandwidth",
            "value": 197.31e9,
            "unit": "bit/s",
            "direction": "higher",
            "message_bytes": 1048576,
            "device": "mlx5_ib3",
            "statistic": "single",
        }
    ]
    wanted = {"role": "loopback", "gdr": "no", "link": "IB", "rate_gbps": 200.0, "server": None}
    assert {name: record["parameters"][name] for name in wanted} == wanted
    digest = program_digest(result["command"])
    assert record["software"] == {"perftest": "6.06", "program_digest": digest}
    assert result["ansible_facts"] == {"trueup_ib": record}
    assert result["raw"].startswith(f"[client]\n{CLIENT_TEXT}")
    assert SERVER_TEXT in result["raw"]
    assert result["command"] == [
        str(machine.folder / "ib_write_bw"),
        "--ib-dev=mlx5_ib3",
        f"--port={machine.port}",
        "--size=1048576",
        "--iters=5000",
        "--report_gbits",
        "127.0.0.1",
    ]
    (warning,) = warned
    assert warning.startswith("perftest: Conflicting CPU frequency")
    assert machine.left_running() == []


@parametrized(("arguments", "words"))
def test_the_command(run_module: Any, arguments: dict[str, Any], words: list[str]) -> None:
    command = run_module(check=True, **arguments)["command"]
    assert [word for word in command if word in words] == words


def test_another_number_of_queue_pairs_than_asked_for_is_invalid(
    run_module: Any, machine: Machine
) -> None:
    invalid = run_module(queue_pairs=2)["record"]
    assert (invalid["outcome"], invalid["case"]) == ("invalid", "write_bw-mlx5_ib3-1048576-q2")
    assert invalid["reason"] == "queue pairs: perftest measured 1, not 2 as asked"
    for name in ("client", "server"):
        path = machine.folder / f"{name}.txt"
        path.write_text(path.read_text().replace("Number of qps   : 1", "Number of qps   : 2"))
    measured = run_module(queue_pairs=2)["record"]
    assert (measured["outcome"], measured["parameters"]["queue_pairs"]) == ("ok", "2")


def test_client_and_server_on_two_nodes_give_one_record(
    run_module: Any, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = machine.folder / "ib_write_bw"
    words = [str(server), f"--port={machine.port}"]
    ends: list[str] = []
    # A client that came too early ends with all that its process started, which in this test is
    # the server too: that one is on another node.
    elsewhere: set[int] = set()
    descendants = process._descendants
    monkeypatch.setattr(
        process,
        "_descendants",
        lambda root: [pid for pid in descendants(root) if pid not in elsewhere],
    )
    serve = threading.Thread(
        target=lambda: ends.append(run_server_alone(words, elsewhere)), daemon=True
    )
    # The client is there first, and tries again.
    threading.Timer(1.5, serve.start).start()
    result = run_module(role="client", address="127.0.0.1", peer_name="node-2", connect_seconds=300)
    record = result["record"]
    RECORDS.validate(record)
    assert (record["nodes"], record["node_count"]) == (["node-1", "node-2"], 2)
    assert record["case"] == "write_bw-mlx5_ib3-1048576-to-node-2"
    assert record["parameters"]["server"] == "node-2"
    assert [row["name"] for row in record["metrics"]] == [
        *("ib_write_bandwidth", "ib_write_bandwidth_peak", "ib_write_message_rate")
    ]
    serve.join(120)
    assert SERVER_TEXT in ends[0]


def run_server_alone(words: list[str], elsewhere: set[int]) -> str:
    import subprocess

    for _ in range(100):
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as server:
            elsewhere.add(server.pid)
            said, _nothing = server.communicate()
        # Between its first moment and the line above it was not known yet.
        if server.returncode != -signal.SIGKILL:
            break
    assert server.returncode == 0
    return said


def test_a_server_that_ended_well_leaves_no_record(run_module: Any, machine: Machine) -> None:
    def call() -> None:
        for _ in range(1200):
            with socket.socket() as link:
                if link.connect_ex(("127.0.0.1", machine.port)) == 0:
                    link.sendall(b"x")
                    link.recv(1)
                    return
            time.sleep(0.1)

    threading.Thread(target=call, daemon=True).start()
    result = run_module(role="server")
    assert (result["record"], result["resumed"], result["ansible_facts"]) == (None, None, {})
    assert result["raw"] == f"[server]\n{SERVER_TEXT}"


def test_a_server_without_a_client_says_so(run_module: Any, machine: Machine) -> None:
    result = run_module(role="server", timeout_seconds=2)
    RECORDS.validate(result["record"])
    assert result["record"]["outcome"] == "failed"
    assert result["record"]["reason"] == (
        "the server was ended at its time limit of 2 s: no client came to TCP port "
        f"{machine.port}, or one that did not end"
    )
    assert machine.left_running() == []


def test_a_client_without_a_server_says_so(
    run_module: Any, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A clock that only waiting moves: what a try takes depends on the machine.
    now = [0.0]
    wait = SimpleNamespace(monotonic=lambda: now[0], sleep=lambda s: now.append(now.pop() + s))
    monkeypatch.setattr(ib, "time", wait)
    result = run_module(role="client", address="127.0.0.1", peer_name="b", connect_seconds=2)
    assert result["record"]["outcome"] == "failed"
    assert result["record"]["reason"] == (
        "no server answered at 127.0.0.1 within 2 s: is TCP port "
        f"{machine.port} open between the nodes, and did the server's end start?"
    )
    assert len((machine.folder / "pid").read_text().split()) == 3


@pytest.mark.parametrize(
    ("plans", "texts", "arguments", "outcome", "reason"),
    [
        ({"server": "sys.exit('boom')"}, {}, {}, "failed", "the server ended before it listened"),
        ({"client": "sys.exit(3)"}, {}, {}, "failed", "the client's end: ib_write_bw ended with"),
        (
            # As perftest 4.5 prints it (linux-rdma/perftest, issue 262).
            {
                "client": "sys.exit(' Completion with error at client\\n Failed status 12: wr_id 0'"
                " ' syndrom 0x81\\nscnt=128, ccnt=0')"
            },
            {},
            {},
            "failed",
            " s: Completion with error at client; Failed status 12: wr_id 0 syndrom 0x81 (no ack",
        ),
        (
            {"client": "time.sleep(600)"},
            {},
            {"timeout_seconds": 10},
            "failed",
            "the client's end: ib_write_bw was ended at its time limit of 10 s",
        ),
        ({}, {"client": CLIENT_TEXT[:900]}, {}, "failed", "ib output not understood"),
        ({}, {"server": ""}, {}, "invalid", "the server's end printed no figures"),
        (
            {},
            {},
            {"message_bytes": 65536},
            "invalid",
            "sizes: perftest measured 1048576, not 65536 as asked",
        ),
        ({}, {}, {"gpu": 1}, "invalid", "GPU memory: perftest measured no, not yes as asked"),
        (
            {},
            {},
            {"test": "read_bw"},
            "invalid",
            "test: perftest measured write BW, not read BW as asked",
        ),
        ({}, {}, {"folder": "/nonexistent"}, "failed", "install the package perftest"),
    ],
)
def test_a_bad_end_gives_a_record_with_the_reason(
    run_module: Any,
    machine: Machine,
    plans: dict[str, str],
    texts: dict[str, str],
    arguments: dict[str, Any],
    outcome: str,
    reason: str,
) -> None:
    for side, plan in plans.items():
        machine.plan(side, plan)
    for side, text in texts.items():
        (machine.folder / f"{side}.txt").write_text(text)
    result = run_module(**arguments)
    RECORDS.validate(result["record"])
    assert result["failed"] is True
    assert (result["record"]["outcome"], reason in result["record"]["reason"]) == (outcome, True)
    assert machine.left_running() == []


def test_a_port_that_is_taken_is_not_measured_against(run_module: Any, machine: Machine) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", machine.port))
        other.listen(1)
        result = run_module()
    assert f"TCP port {machine.port} is taken" in result["msg"]
    assert not (machine.folder / "pid").exists()


@parametrized(("arguments", "message"))
def test_bad_input_is_refused_before_anything_runs(
    run_module: Any, machine: Machine, arguments: dict[str, Any], message: str
) -> None:
    result = run_module(**arguments)
    assert result["failed"] is True
    assert message in result["msg"]
    assert result["record"] is None
    assert not (machine.folder / "pid").exists()


def test_a_record_of_the_run_stands_for_its_case(
    run_module: Any, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = machine.sysfs / "class" / "infiniband" / "mlx5_ib4" / "ports" / "1" / "state"
    state.write_text("4: ACTIVE\n")
    (machine.sysfs.parent / "sys2").symlink_to(machine.sysfs)

    def measured(run: FakeRun, **given: Any) -> dict[str, Any]:
        def both(*argv: Any, **_: Any) -> process.Completed:
            run.calls.append({"argv": argv})
            text = f"[client]\n{CLIENT_TEXT}[server]\n{SERVER_TEXT}"
            return process.Completed(("ib_write_bw",), 0, text)

        monkeypatch.setattr(ib, "run_pair", both)
        monkeypatch.setattr(ib, "run_client", both)
        node = {"os": "Ubuntu 24.04", "kernel": "6.8.0-1017-azure"}
        result: dict[str, Any] = run_module(**{"node": node, **given})
        return result

    other = {"address": "127.0.0.1", "peer_name": "node-2"}
    client = {"role": "client", **other}
    changed = {
        "test": "read_bw",
        "role": "client",
        "device": "mlx5_ib4",
        "address": "10.0.0.7",
        "peer_name": "node-3",
        "port": 18516,
        "message_bytes": 8,
        "queue_pairs": 2,
        "iterations": 6000,
        "duration_seconds": 10,
        "gpu": 1,
        "gid_index": 1,
        "folder": "/opt/perftest",
    }
    along = {"role": other, "address": client, "peer_name": client}
    # How long a client tries, and by which path its device is read.
    idle = {"connect_seconds": 99, "sysfs_root": str(machine.sysfs.parent / "sys2")}
    resumes(measured, FakeRun, ib_bench, changed, along=along, idle=idle)
