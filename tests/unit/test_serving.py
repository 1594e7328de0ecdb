"""What a node serves, out of what the user said."""

from __future__ import annotations

from typing import Any

import pytest
from helpers import parametrized
from trueup.errors import BadInput
from trueup_controller.plans.vllm_endpoints import endpoints_of

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


@parametrized(("endpoints", "message"))
def test_what_cannot_be_meant_is_refused(endpoints: Any, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        endpoints_of(endpoints, "node1", HOSTS)
