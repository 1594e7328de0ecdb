"""The role hpl, planned: program, packages, a case for each layout, skipped and refused."""

from __future__ import annotations

from typing import Any

import pytest
from trueup.benchmarks.hpl.case import OPTIONS
from trueup.benchmarks.hpl.plan import plan, programs
from trueup.errors import BadInput
from trueup.options import MODULE, module_spec, refusals
from trueup.plan import Asked

DEFAULTS = {one.name: one.default for one in OPTIONS if one.of != MODULE}
PACKAGES = ["hpcc", "libopenblas0-pthread", "openmpi-bin"]


def asked(
    path: str | None = None, privilege: str | None = "root", manager: str = "apt", **options: Any
) -> Asked:
    given = {**DEFAULTS, **options}
    return Asked(
        options=given,
        node={"privilege": privilege, "package_manager": manager},
        found={"programs": {given["program"] or "hpcc": path}},
    )


def test_one_case_by_default_and_one_for_each_layout() -> None:
    made = plan(asked())
    assert (made.skipped, made.refused, made.values) == ([], [], {"packages": PACKAGES})
    (case,) = made.cases or []
    assert (case["program"], case["ranks"], case["binding"]) == ("hpcc", 0, "numa")
    assert set(case) == set(module_spec(OPTIONS))
    layouts = [{"ranks": 1}, {"ranks": 2, "threads_per_rank": 4, "binding": "core"}]
    cases = plan(asked(layouts=layouts)).cases or []
    assert [(case["ranks"], case.get("threads_per_rank")) for case in cases] == [(1, None), (2, 4)]


@pytest.mark.parametrize(
    ("options", "largest"),
    [({}, 20000), ({"n": 30000}, 0), ({"max_n": 9000}, 9000), ({"program": "/opt/xhpl"}, 0)],
)
def test_only_the_distributions_program_is_bounded(options: dict[str, Any], largest: int) -> None:
    (case,) = plan(asked(**options)).cases or []
    assert case["max_n"] == largest


@pytest.mark.parametrize(
    ("wanted", "packages", "why"),
    [
        (asked(privilege="sudo"), PACKAGES, None),
        (asked("/usr/bin/hpcc", None), [], None),
        (
            asked(None, None),
            [],
            "no hpcc on this node, and installing it needs root or sudo without a password",
        ),
        (
            asked(None, manager="dnf"),
            [],
            "no hpcc on this node, and no package hpcc in this distribution",
        ),
        (asked("/opt/xhpl", program="/opt/xhpl"), [], None),
        (
            asked(None, program="/opt/xhpl"),
            [],
            "no /opt/xhpl on this node, and hpl_program names a program of the site",
        ),
    ],
)
def test_what_is_installed_or_skipped(wanted: Asked, packages: list[str], why: str | None) -> None:
    made = plan(wanted)
    assert made.values == {"packages": packages}
    assert [one.why for one in made.skipped] == ([why] if why else [])
    assert programs(wanted) == {"programs": [wanted.options["program"] or "hpcc"]}


def test_what_cannot_be_measured_is_refused() -> None:
    wrong = {"layouts": [{"ranks": 1}, {"ranks": -1}]}
    assert refusals(OPTIONS, wrong, "hpl_") == ["hpl_layouts: ranks is -1: it must be 0 or more"]
    with pytest.raises(BadInput, match="a run on GPUs needs the sum of their memory"):
        plan(asked(gpus=8))
    assert plan(asked(gpus=8, memory_bytes=2**39)).refused == []
