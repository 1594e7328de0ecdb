"""The role eessi, planned for the families and systems that may get it."""

from __future__ import annotations

from typing import Any

from role_plans import asked, node
from trueup_controller.sites.eessi import plan

SCRATCH = "/mnt/resource_nvme"
FOUND = {"scratch": SCRATCH, "stdout": '{"problems": [], "set_up": []}'}


def values(on: dict[str, Any], **options: Any) -> dict[str, Any]:
    planned = plan(asked("eessi", on, FOUND, **options))
    assert planned.refused == []
    return planned.as_result()


def test_what_the_program_finds_is_refused_or_set_up() -> None:
    given = {"scratch": SCRATCH, "stdout": '{"problems": ["no FUSE."], "set_up": ["user cvmfs"]}'}
    assert plan(asked("eessi", node("hbv3"), given)).refused == ["eessi: no FUSE."]
    given["stdout"] = given["stdout"].replace('"no FUSE."', "")
    assert plan(asked("eessi", node("hbv3"), given)).values["is_new"] is True
    assert values(node("hbv3"))["is_new"] is False
