"""playbooks/identify.yml as a user runs it, with a loopback server for the metadata service."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import plays
import pytest
from metadata_server import document, send, serving

if TYPE_CHECKING:
    from metadata_server import Behaviour


# By node: how its metadata service answers, and what else is given.
NODES: dict[str, tuple[Behaviour, dict[str, str]]] = {
    "as-found": (send(document()), {}),
    "redirect": (send(b"", 302, {"Location": "http://127.0.0.1:9/"}), {}),
    "page": (send(b"<html>"), {}),
    "by-hand": (send(b"", 404), {"trueup_vm_size": "standard_nd96isr_h100_v5"}),
}


@dataclass(frozen=True)
class Identified:
    """What one play over all nodes printed, and of each its fact, groups and requests."""

    output: str
    kept: dict[str, dict[str, Any]]
    requests: dict[str, int]


@pytest.fixture(scope="module", name="play")
def _play(tmp_path_factory: pytest.TempPathFactory) -> Identified:
    """The playbook on this machine, which is all the nodes."""
    folder = tmp_path_factory.mktemp("identify")
    with contextlib.ExitStack() as stack:
        served = {name: stack.enter_context(serving(behave)) for name, (behave, _) in NODES.items()}
        hosts = {
            name: {"trueup_metadata_url": served[name][0], **given}
            for name, (_, given) in NODES.items()
        }
        said, kept = plays.identify(folder, hosts, *plays.LOCAL)
    return Identified(said, kept, {name: len(served[name][1]) for name in NODES})


def test_a_node_joins_the_group_of_its_family(play: Identified) -> None:
    kept = play.kept["as-found"]
    node = kept["node"]
    assert play.requests["as-found"] == 1
    assert kept["groups"] == ["hbv3", "identified_by_trueup"]
    assert (node["vm_size"], node["family"], node["region"], node["offer"]) == (
        "Standard_HB120rs_v3",
        "hbv3",
        "southcentralus",
        "spot",
    )
    assert node["catalog"]["memory_bandwidth_gbps"] == 350
    assert node["cores"] >= 1
    assert "hbv3: Standard_HB120rs_v3" in play.output
    assert play.output.partition("Record what came out")[0].count("changed: ") == 0


@pytest.mark.parametrize(
    ("name", "warning"), [("redirect", "a redirect (status 302"), ("page", "not JSON")]
)
def test_a_strange_answer_is_a_warning(play: Identified, name: str, warning: str) -> None:
    kept = play.kept[name]
    assert kept["groups"] == sorted([kept["node"]["family"], "identified_by_trueup"])
    assert kept["node"]["metadata_status"] == "unusable"
    assert warning in " ".join(kept["node"]["warnings"])
    assert warning in play.output.replace("\n", " ")


def test_a_size_given_by_hand(play: Identified) -> None:
    kept = play.kept["by-hand"]
    assert kept["groups"] == ["identified_by_trueup", "nd_h100_v5"]
    assert kept["node"]["vm_size"] == "Standard_ND96isr_H100_v5"
