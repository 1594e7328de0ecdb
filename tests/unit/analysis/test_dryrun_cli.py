"""``trueup dryrun``: needs of an inventory's hosts, by their sizes and by cached facts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import role_plans
import yaml
from helpers import parametrized
from trueup_analysis.cli import app
from typer.testing import CliRunner

ND = {"trueup_vm_size": "Standard_ND96asr_v4"}


@pytest.fixture(name="dry")
def _dry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Exit status, needs of each host as (need, text), and messages."""
    facts = tmp_path / "facts"
    facts.mkdir()
    monkeypatch.setenv("ANSIBLE_CACHE_PLUGIN_CONNECTION", str(facts))
    for name in ("HF_TOKEN", "VLLM_API_KEY"):
        monkeypatch.delenv(name, raising=False)

    def run(
        hosts: dict[str, Any], cached: dict[str, Any] | None = None
    ) -> tuple[int, dict[str, list[tuple[str, str]]], str]:
        path = tmp_path / "hosts.yml"
        path.write_text(yaml.safe_dump({"all": {"hosts": hosts}}))
        for host, content in (cached or {}).items():
            text = content if isinstance(content, str) else json.dumps({"trueup_node": content})
            (facts / host).write_text(text)
        argv = ["dryrun", "-i", str(path), "--format", "json"]
        result = CliRunner().invoke(app, argv)
        found: dict[str, list[tuple[str, str]]] = {}
        if result.stdout:
            for row in json.loads(result.stdout)["tables"][0]["rows"]:
                found.setdefault(row["host"], []).append((row["need"], row["text"]))
        return result.exit_code, found, result.stderr + str(result.exception or "")

    return run


def test_hosts_that_lack_nothing(dry: Any) -> None:
    status, found, said = dry({"n1": ND, "n2": {"trueup_vm_size": "standard_hb120rs_v3"}})
    assert status == 0
    assert found == {name: [("none", "nothing is missing")] for name in ("n1", "n2")}
    # A default benchmark that Azure's image cannot run is no need.
    assert "n1: without gemm: /usr/bin/python3 has no torch" in said


@parametrized(("variables", "needs", "words"))
def test_needs_of_a_host(dry: Any, variables: dict[str, Any], needs: list[str], words: str) -> None:
    status, found, _ = dry({"n1": variables})
    assert (status, [need for need, _ in found["n1"]]) == (1, needs)
    assert words in found["n1"][-1][1]


def test_cached_facts_win_over_the_size_of_the_inventory(dry: Any) -> None:
    locked = role_plans.node("ndv4", secure_boot=True)
    status, found, _ = dry({"n1": ND, "n2": ND}, {"n1": locked})
    assert (status, found["n2"]) == (1, [("none", "nothing is missing")])
    assert any("Secure Boot is on" in text for _, text in found["n1"])


def test_damaged_facts_are_one_sentence(dry: Any) -> None:
    status, found, said = dry({"n1": ND}, {"n1": '{"trueup_node": '})
    assert (status, found) == (1, {})
    assert "cannot be read" in said
