"""apt's and dnf's failures become one sentence with what, where and the mend."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from helpers import parametrized
from trueup_controller.package_failures import sentence_of

DATA = Path(__file__).parent.parent / "data" / "packages"
REPOSITORY = {"name": "cuda", "url": "https://mirror.example/cuda/", "key_fingerprint": "AB" * 20}
PINS = [{"name": "nvidia-fabricmanager", "version": "580.999.99-*"}]
OFFERS = """\
nvidia-fabricmanager | 580.173.02-1 | https://mirror.example/cuda  Packages
nvidia-fabricmanager | 580.126.16-1 | https://mirror.example/cuda  Packages
"""


def recorded(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((DATA / name).read_text())
    return loaded


def sentence(result: Any, manager: str = "apt", offers: str = OFFERS) -> str:
    return sentence_of(result, PINS, manager, REPOSITORY, offers)


@pytest.mark.parametrize("manager", ["apt", "dnf"])
@parametrized(("cause", "parts"))
def test_a_recorded_failure_gets_its_sentence(manager: str, cause: str, parts: list[str]) -> None:
    said = sentence(recorded(f"{manager}_{cause}.json"), manager)
    assert [part for part in parts if part not in said] == []
    where = cause == "no_space" or "cuda (https://mirror.example/cuda/)" in said
    assert where is True


def test_every_recorded_message_is_in_a_test_and_has_a_source() -> None:
    names = sorted(path.name for path in DATA.glob("*.json"))
    causes = ("missing", "no_space", "wrong_hash", "wrong_key")
    expected = [f"{manager}_{cause}.json" for manager in ("apt", "dnf") for cause in causes]
    assert names == sorted([*expected, "apt_no_repository.json"])


@parametrized(("text", "part"))
def test_messages_known_from_the_tools_sources(text: str, part: str) -> None:
    assert part in sentence({"msg": text})


def test_what_dnf_refuses_itself_is_a_sentence() -> None:
    text = (DATA / "simulated" / "dnf_conflict.txt").read_text(encoding="utf-8")
    said = sentence_of(text, [{"name": "openmpi", "version": ""}], "dnf", {})
    assert said == (
        "To install openmpi, another package would have to be removed"
        " (ucx-el-1.15.0-2.el9.noarch conflicts with ucx-1.18.0-1.2501060.noarch): nothing was"
        " changed. Where the node can do without it, remove it there by hand, and then run again."
    )


def test_an_unknown_failure_keeps_the_last_line() -> None:
    said = sentence({"msg": "E: something new\n\nE: more of it\n"})
    assert said == (
        "apt did not install nvidia-fabricmanager 580.999.99-* from the repository cuda"
        " (https://mirror.example/cuda/): E: more of it"
    )
