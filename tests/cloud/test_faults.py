"""What goes wrong on Azure, by `make azure`: a sentence says it, nothing is left that bills, and
the exit status is not 0."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from conftest import SMALL, Site, emulated

FAULTS: list[tuple[str, dict[str, Any], str]] = [
    (
        "quota",
        {"kind": "quota", "name": "standardDDv5Family", "limit": 8},
        "4 vCPUs of quota 'standardDDv5Family' are missing",
    ),
    (
        "restricted",
        {"kind": "restricted", "size": "Standard_D4d_v5", "location": "southcentralus"},
        "Standard_D4d_v5 is restricted in southcentralus (NotAvailableForSubscription)",
    ),
    (
        "no room",
        {"kind": "allocation", "size": "Standard_D4d_v5", "after": 1, "times": 0},
        "AllocationFailed",
    ),
    (
        "throttled for ever",
        {"kind": "throttle", "path": "whatIf", "times": 0, "seconds": 1},
        "",
    ),
    (
        "a failed operation",
        {"kind": "fail", "type": "natGateways", "code": "InternalServerError", "message": "Oops."},
        "InternalServerError: Oops",
    ),
    ("the plan", {"kind": "plan"}, "`az vm image terms accept`"),
    ("the rights", {"kind": "rights", "action": "write", "times": 0}, "AuthorizationFailed"),
    ("the subscription", {"kind": "subscription", "times": 0}, "SubscriptionNotFound"),
]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with emulated(tmp_path_factory.mktemp("faults")) as found:
        yield found


@pytest.mark.whole
@pytest.mark.parametrize(
    ("fault", "sentence"), [one[1:] for one in FAULTS], ids=[one[0] for one in FAULTS]
)
def test_a_fault_is_one_sentence_and_leaves_nothing(
    site: Site, fault: dict[str, Any], sentence: str
) -> None:
    site.cloud.strike(fault)
    parameters = site.parameters({"trueup_benchmarks": ["stream"]}, nodes=SMALL)
    status, said = site.make("devito-hbv3", parameters)
    # A fault that lasts is no reason to leave anything, once it is over.
    site.cloud.strike({"kind": "none"})
    site.cloud.limits.clear()
    site.cloud.restricted.clear()
    print(said)
    assert status != 0
    assert sentence in said
    errors = re.findall(r"^\[ERROR\]: .*$", said, re.MULTILINE)
    assert errors
    assert "Traceback" not in said
    assert site.left() == []
