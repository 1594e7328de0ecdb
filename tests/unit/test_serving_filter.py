"""What a node serves, out of what the user said; and how systemd reads it."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from ansible.errors import AnsibleFilterError
from trueup_serving import (
    serving_endpoints,
    systemd_command,
    systemd_environment,
    systemd_environment_file,
)

if TYPE_CHECKING:
    from pathlib import Path

HOSTS = ["node1", "node2", "node3"]


def test_what_is_left_out_is_filled_in() -> None:
    (mine,) = serving_endpoints([{"name": "llama", "recipe": "llama-3.1-8b"}], "node1", HOSTS)
    assert mine == {
        "name": "llama",
        "recipe": "llama-3.1-8b",
        "port": 8000,
        "host": "127.0.0.1",
        "model": "",
        "nodes": ["node1"],
        "addresses": [],
        "arguments": {},
        "rank": 0,
        "unit": "trueup-vllm-llama.service",
    }


@pytest.mark.parametrize(("host", "ranks"), [("node1", [0]), ("node2", [1]), ("node3", [])])
def test_nodes_take_their_part_by_their_place(host: str, ranks: list[int]) -> None:
    endpoint = {"name": "r1", "recipe": "deepseek-r1", "nodes": ["node1", "node2"]}
    assert [mine["rank"] for mine in serving_endpoints([endpoint], host, HOSTS)] == ranks


GOOD = {"name": "a", "recipe": "r"}


@pytest.mark.parametrize(
    ("endpoints", "message"),
    [
        ("a", "no list"),
        ([{"name": "a"}], "needs name and recipe"),
        ([{**GOOD, "prot": 1}], "no member is called prot"),
        ([{**GOOD, "port": "8000"}], "port '8000' is no int"),
        ([{**GOOD, "port": True}], "port True is no int"),
        ([{**GOOD, "port": 0}], "0 is no port"),
        ([{**GOOD, "port": 70000}], "70000 is no port"),
        ([{**GOOD, "name": "A b"}], "small letters"),
        ([{**GOOD, "name": "../x"}], "small letters"),
        ([GOOD, GOOD], "two are called a"),
        ([GOOD, {**GOOD, "name": "b"}], "a and b both want port 8000"),
        ([{**GOOD, "nodes": ["node9"]}], "no host node9"),
        ([{**GOOD, "nodes": []}], "nodes is empty"),
        ([{**GOOD, "addresses": ["10.0.0.1", "10.0.0.2"]}], "2 addresses for 1 nodes"),
        ([{**GOOD, "host": "0.0.0.0"}], "needs a key"),
    ],
)
def test_what_cannot_be_meant_is_refused(endpoints: Any, message: str) -> None:
    with pytest.raises(AnsibleFilterError, match=message):
        serving_endpoints(endpoints, "node1", HOSTS)


def test_with_a_key_a_server_may_be_reached_from_outside() -> None:
    (mine,) = serving_endpoints([{**GOOD, "host": "0.0.0.0"}], "node1", HOSTS, "secret")
    assert mine["host"] == "0.0.0.0"
    assert "secret" not in str(mine)


def test_a_command_is_written_as_systemd_reads_it() -> None:
    argv = ["/bin/vllm", "serve", "a b", '{"x": 1}', "100%", "$HOME", "back\\slash"]
    assert systemd_command(argv) == (
        '"/bin/vllm" "serve" "a b" "{\\"x\\": 1}" "100%%" "$$HOME" "back\\\\slash"'
    )


def test_variables_are_written_as_systemd_reads_them() -> None:
    variables = {"B": 'say "hi" 5%', "A": 1}
    assert systemd_environment(variables) == ('Environment="A=1"\nEnvironment="B=say \\"hi\\" 5%%"')
    assert systemd_environment_file(variables) == 'A="1"\nB="say \\"hi\\" 5%"\n'


def test_a_line_break_cannot_slip_a_line_in() -> None:
    for write in (systemd_environment, systemd_environment_file):
        with pytest.raises(AnsibleFilterError, match="line break"):
            write({"A": "x\nExecStartPre=/bin/evil"})


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze here")
def test_systemd_itself_takes_the_unit(tmp_path: Path) -> None:
    unit = tmp_path / "trueup-test.service"
    unit.write_text(
        "[Service]\n"
        f"ExecStart={systemd_command(['/bin/echo', 'a b', '100%', '$HOME', chr(34)])}\n"
        f"{systemd_environment({'A': '5% of '})}\n"
    )
    checked = subprocess.run(
        ["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False
    )
    assert [line for line in checked.stderr.splitlines() if str(unit) in line] == []
