"""What a node serves, out of what the user said."""

from __future__ import annotations

from typing import Any

import pytest
from helpers import parametrized
from trueup.errors import BadInput
from trueup_controller.plans.vllm_endpoints import endpoints_of, reachable

HOSTS = ["node1", "node2", "node3"]


def test_what_is_left_out_is_filled_in() -> None:
    (mine,) = endpoints_of([{"name": "llama", "recipe": "llama-3.1-8b"}], "node1", HOSTS)
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
        "base_url": "http://127.0.0.1:8000",
    }


@pytest.mark.parametrize(("host", "ranks"), [("node1", [0]), ("node2", [1]), ("node3", [])])
def test_nodes_take_their_part_by_their_place(host: str, ranks: list[int]) -> None:
    endpoint = {"name": "r1", "recipe": "deepseek-r1", "nodes": ["node1", "node2"]}
    assert [mine["rank"] for mine in endpoints_of([endpoint], host, HOSTS)] == ranks


GOOD = {"name": "a", "recipe": "r"}


@parametrized(("endpoints", "message"))
def test_what_cannot_be_meant_is_refused(endpoints: Any, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        endpoints_of(endpoints, "node1", HOSTS)


def test_with_a_key_a_server_may_be_reached_from_outside() -> None:
    (mine,) = endpoints_of([{**GOOD, "host": "0.0.0.0"}], "node1", HOSTS, "secret")
    assert mine["host"] == "0.0.0.0"
    assert "secret" not in str(mine)


@pytest.mark.parametrize(
    ("host", "reached"),
    [("0.0.0.0", "127.0.0.1"), ("::", "127.0.0.1"), ("::1", "[::1]"), ("10.0.0.4", "10.0.0.4")],
)
def test_where_a_node_reaches_its_own_server(host: str, reached: str) -> None:
    assert reachable(host) == reached
