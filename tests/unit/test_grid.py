"""Azure's driver manifest: which driver is chosen, what is refused. The manifest is synthetic."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from helpers import parametrized
from trueup_controller.plans.grid_driver import GridDriver, choose, parse_manifest, refusals
from trueup_node.errors import BadInput, ParseError

MANIFEST = Path(__file__).parent.parent / "data" / "grid" / "resources.json"
TEXT = MANIFEST.read_text()


def chosen(distribution: str, version: str, branch: str, number: str, **more: Any) -> GridDriver:
    return choose(
        parse_manifest(TEXT),
        branch=branch,
        version=number,
        distribution=distribution,
        distribution_version=version,
        **more,
    )


def test_a_manifest_that_disagrees_with_the_pin() -> None:
    with pytest.raises(
        BadInput, match=r"is driver 570\.211\.01 by the manifest, and .* is 570\.1:"
    ):
        chosen("ubuntu", "22.04", "18.6", "570.1")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not as expected: JSONDecodeError"),
        ("[]", "not as expected: TypeError"),
        ('{"OS": [{"Name": "Linux"}]}', "not as expected: KeyError 'Version'"),
        ('{"OS": []}', "no GRID driver for Linux"),
        (TEXT.replace('"vGPUVersion"', '"vgpu"'), "not as expected: KeyError 'vGPUVersion'"),
        (TEXT.replace('"22.x"', '"jammy"'), "not as expected: ValueError"),
        (TEXT[:-100], "not as expected: JSONDecodeError"),
    ],
)
def test_a_manifest_that_cannot_be_used(text: str, message: str) -> None:
    with pytest.raises(ParseError, match=re.escape(message)):
        parse_manifest(text)


@parametrized(("branch", "version", "said"))
def test_the_guards(branch: str, version: str, said: list[str]) -> None:
    found = refusals(branch, version)
    assert [text[: len(start)] for text, start in zip(found, said, strict=True)] == said
