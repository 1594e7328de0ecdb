"""Advice and roles refuse the same sizes of the catalog."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest
from helpers import ROOT, parametrized
from role_plans import GIB, SIZES, SYSTEMS, asked
from trueup_analysis.figures.advise.kinds import KINDS
from trueup_analysis.figures.advise.kinds.kind import withheld_from
from trueup_analysis.figures.advise.knowledge import Knowledge
from trueup_controller import new_machine
from trueup_controller.plans import gpu_driver
from trueup_controller.plans.gpu_grid import lacks_cuda_13

GPU_SIZES = sorted(size for size, row in SIZES.items() if row["gpus"])
KNOWLEDGE = Knowledge(ROOT / "catalog", date(2026, 11, 23))
USES_CUDA_13 = {"serving", "training"}


def node_of(size: str) -> dict[str, Any]:
    """A fresh node of the size."""
    return new_machine.fresh(size, SIZES, SYSTEMS["ubuntu-24.04"], free_bytes=50 * GIB)


def is_refused(size: str, kind: str) -> bool:
    """Whether the roles that such work needs refuse a node of the size."""
    of_size = node_of(size)
    found = {"trueup_gpu": {}, "programs": {}, "files": {}}
    if of_size["family"] == "nv_a10_v5":
        question = asked("gpu_grid", of_size, {"files": {}})
        return kind in USES_CUDA_13 and bool(lacks_cuda_13(question))
    return bool(gpu_driver.plan(asked("gpu_driver", of_size, found)).refused)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_no_kind_of_work_is_advised_a_size_that_roles_refuse(kind: str) -> None:
    withheld = withheld_from(KINDS[kind], KNOWLEDGE)
    refused = {size for size in GPU_SIZES if is_refused(size, kind)}
    assert refused - set(withheld) == set()
    # Those that are withheld for another reason are going, or no page lists them.
    other = ("retire", "cannot", "no page")
    going = {size for size in withheld if any(word in withheld[size] for word in other)}
    assert set(withheld) & set(GPU_SIZES) - refused - going == set()
    assert ("Standard_NV36ads_A10_v5" in withheld) is (kind in USES_CUDA_13)


@parametrized(("size", "reason"))
def test_advice_and_the_driver_role_give_the_same_reason(size: str, reason: str) -> None:
    found = {"trueup_gpu": {}, "programs": {}, "files": {}}
    (refused,) = [
        sentence
        for sentence in gpu_driver.plan(asked("gpu_driver", node_of(size), found)).refused
        if sentence.startswith(size)
    ]
    assert reason in refused
    assert refused == f"{size}: {KNOWLEDGE.withheld[size]}."
