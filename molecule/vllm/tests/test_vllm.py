"""The servers are what their unit files promise, keep their keys, and were measured."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import testinfra
from testinfra.host import Host

KEY = "a-key-of-the-scenario"
FIRST, SECOND = "trueup-vllm-1", "trueup-vllm-2"


def node(name: str) -> Host:
    return testinfra.get_host(f"podman://{name}")


@pytest.fixture(scope="module")
def records() -> list[dict[str, Any]]:
    """The records of the main job, in the order of their names."""
    runs = sorted(Path(os.environ["TRUEUP_RESULTS"]).iterdir())
    files = sorted(path for path in runs[-1].glob("*.json") if path.name != "run.json")
    return [json.loads(path.read_text(encoding="utf-8")) for path in files]


def metric(record: dict[str, Any], name: str, statistic: str | None = None) -> float:
    """The one value of that metric."""
    (row,) = [
        row
        for row in record["metrics"]
        if row["name"] == name and statistic in (None, row.get("statistic"))
    ]
    return float(row["value"])


def vllm(records: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Records of vllm by endpoint."""
    found = [record for record in records if record["benchmark"] == "vllm"]
    return {record["parameters"]["endpoint_name"]: record for record in found}


def test_both_endpoints_were_measured(records: list[dict[str, Any]]) -> None:
    found = vllm(records)
    # That of tasks/killed.yml came from a job left to itself, which answers no case of the run.
    assert {name: record["outcome"] for name, record in found.items()} == {
        "tiny": "ok",
        "pair": "ok",
    }
    assert found["tiny"]["nodes"] == [FIRST]
    assert found["pair"]["nodes"] == [FIRST, SECOND]
    assert found["pair"]["parameters"]["data_parallel"] == 2
    for record in (found["tiny"], found["pair"]):
        assert metric(record, "requests_completed") == 600
        assert metric(record, "requests_failed") == 0
        assert metric(record, "output_token_throughput") > 0
        assert metric(record, "ttft", "p99") >= metric(record, "ttft", "median") > 0


def test_requests_past_the_servers_capacity_wait_and_are_seen(
    records: list[dict[str, Any]],
) -> None:
    # It takes 4 at a time and is sent 600.
    storm = vllm(records)["tiny"]
    assert 0 < metric(storm, "requests_running") <= 4
    assert metric(storm, "requests_waiting") >= 1


def test_training_ran_on_both_nodes(records: list[dict[str, Any]]) -> None:
    (training,) = [record for record in records if record["benchmark"] == "megatron"]
    # All iterations of a tiny model may take less than a second.
    assert {training["outcome"]} <= {"ok", "too_short"}
    assert training["nodes"] == [FIRST, SECOND]
    assert training["parameters"]["backend"] == "gloo"
    assert metric(training, "loss_last") < metric(training, "loss_first")


def test_no_record_and_no_output_holds_the_key() -> None:
    for path in Path(os.environ["TRUEUP_RESULTS"]).rglob("*"):
        if path.is_file():
            assert KEY not in path.read_text(encoding="utf-8", errors="replace"), path


@pytest.mark.parametrize(("name", "units"), [(FIRST, ["pair", "tiny"]), (SECOND, ["pair"])])
def test_each_node_runs_its_part_of_the_endpoints(name: str, units: list[str]) -> None:
    listed = node(name).run(
        "systemctl list-units --plain --no-legend --state=running 'trueup-vllm-*.service'"
    )
    running = [line.split()[0] for line in listed.stdout.splitlines()]
    assert running == [f"trueup-vllm-{unit}.service" for unit in units]


def server(unit: str) -> tuple[Host, str]:
    """The first node, and the process id of a server there."""
    host = node(FIRST)
    shown = host.run(f"systemctl show --property=MainPID --value trueup-vllm-{unit}")
    return host, shown.stdout.strip()


def test_a_server_is_an_ordinary_user_without_capabilities() -> None:
    host, pid = server("tiny")
    status = dict(
        line.split(":\t", 1)
        for line in host.file(f"/proc/{pid}/status").content_string.splitlines()
        if ":\t" in line
    )
    user = host.user("trueup-vllm")
    assert status["Uid"].split() == [str(user.uid)] * 4
    assert user.shell == "/usr/sbin/nologin"
    assert status["CapEff"] == status["CapBnd"] == "0" * 16
    assert status["NoNewPrivs"] == "1"


def test_a_server_compiled_its_model_on_its_own_node() -> None:
    host, pid = server("tiny")
    kept = host.file("/var/cache/trueup-vllm/vllm/torch_compile_cache")
    assert (kept.is_directory, kept.user) == (True, "trueup-vllm")
    assert "--enforce-eager" not in host.file(f"/proc/{pid}/cmdline").content_string


@pytest.mark.skipif(
    os.environ.get("TRUEUP_PAIR_EAGER") != "false",
    reason="TRUEUP_PAIR_EAGER=false compiles the pair",
)
def test_both_nodes_of_a_server_compiled_its_model() -> None:
    for name in (FIRST, SECOND):
        unit = node(name).file("/etc/systemd/system/trueup-vllm-pair.service").content_string
        assert "--no-enforce-eager" in unit
    # The second node has no other server.
    assert node(SECOND).file("/var/cache/trueup-vllm/vllm/torch_compile_cache").is_directory


def test_a_servers_variables_alone_find_what_it_compiles_with() -> None:
    host, pid = server("tiny")
    variables = host.run(f"tr '\\0' '\\n' < /proc/{pid}/environ").stdout.splitlines()
    (path,) = [line for line in variables if line.startswith("PATH=")]
    as_it = f"setpriv --reuid=trueup-vllm --clear-groups --no-new-privs env -i '{path}' sh -c"
    look = "for name in ninja g++ lscpu; do command -v $name; done; ninja --version"
    found = host.run(f"{as_it} '{look}'").stdout.split()
    assert found[:3] == ["/shared/vllm/cpu/venv/bin/ninja", "/usr/bin/g++", "/usr/bin/lscpu"]
    assert len(found) == 4


def test_a_server_has_a_tmp_of_its_own_and_cannot_write_elsewhere() -> None:
    host, pid = server("tiny")
    mounts = [line.split() for line in host.run(f"cat /proc/{pid}/mountinfo").stdout.splitlines()]
    options = {words[4]: words[5].split(",") for words in mounts}
    assert "ro" in options["/"]
    assert "rw" in options["/var/lib/trueup-vllm"]
    assert host.run(f"ls -A /proc/{pid}/root/tmp").stdout != host.run("ls -A /tmp").stdout
    assert "/tmp" in options  # noqa: S108 WHY: a mount point, not a file of ours


def test_the_key_is_in_no_unit_and_no_argv_and_its_file_is_roots() -> None:
    host, _ = server("tiny")
    kept = host.file("/etc/trueup/vllm/tiny.env")
    assert (kept.user, kept.mode) == ("root", 0o600)
    assert KEY in kept.content_string
    assert host.run(f"grep -rl {KEY} /etc/systemd /run/systemd/system").stdout == ""
    # The grep's own argv holds it.
    argv = host.run("cat /proc/[0-9]*/cmdline | tr '\\0' '\\n'").stdout
    assert KEY not in argv
    assert KEY not in host.run("journalctl --namespace=trueup-vllm --no-pager").stdout


def test_the_api_wants_the_key() -> None:
    host, _ = server("tiny")
    ask = "curl --silent --output /dev/null --write-out '%{http_code}' http://127.0.0.1:8000"
    assert host.run(f"{ask}/v1/models").stdout == "401"
    assert host.run(f"{ask}/v1/models -H 'Authorization: Bearer {KEY}'").stdout == "200"


def test_only_the_endpoint_that_is_to_be_reached_from_outside_is() -> None:
    ask = "curl --silent --output /dev/null --max-time 120 --write-out '%{http_code}'"
    assert node(SECOND).run(f"{ask} http://10.89.77.11:8001/health").stdout == "200"
    assert node(SECOND).run(f"{ask} http://10.89.77.11:8000/health").stdout == "000"


def test_the_logs_have_a_place_and_a_limit_of_their_own() -> None:
    host = node(FIRST)
    assert "SystemMaxUse=512M" in host.file("/etc/systemd/journald@trueup-vllm.conf").content_string
    own = host.run("journalctl --namespace=trueup-vllm -u trueup-vllm-tiny --no-pager -o cat")
    assert "Application startup complete" in own.stdout
    assert host.run("journalctl -u trueup-vllm-tiny --no-pager").stdout.count("vLLM API") == 0


def test_a_server_was_started_again_by_systemd_after_it_was_killed() -> None:
    shown = node(FIRST).run("systemctl show --property=NRestarts --value trueup-vllm-tiny")
    assert int(shown.stdout) >= 1


def test_stopping_leaves_nothing_behind() -> None:
    host = node(SECOND)
    assert host.run("pgrep -u trueup-vllm").rc == 0
    assert host.run("systemctl stop trueup-vllm-pair").rc == 0
    assert host.run("pgrep -u trueup-vllm").stdout == ""


def test_nothing_is_reported_to_anybody() -> None:
    host, pid = server("tiny")
    variables = host.run(f"tr '\\0' '\\n' < /proc/{pid}/environ").stdout.splitlines()
    assert {"VLLM_NO_USAGE_STATS=1", "DO_NOT_TRACK=1", "HF_HUB_OFFLINE=1"} <= set(variables)
