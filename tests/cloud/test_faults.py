"""What goes wrong on Azure, by `make azure`: a sentence says it, nothing is left that bills, and
the exit status is not 0."""

from __future__ import annotations

import re
import subprocess
import time
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
    assert sentence in said.rpartition("\nFAILURES\n")[2]
    assert "Traceback" not in said
    assert site.left() == []


def test_what_cannot_be_removed_is_named_and_goes_with_the_next_run(site: Site) -> None:
    site.cloud.strike({"kind": "fail-delete", "path": "resourcegroups", "times": 0})
    site.cloud.strike({"kind": "fail", "type": "natGateways", "message": "Oops."})
    status, said = site.make("devito-hbv3", site.parameters({}, nodes=SMALL))
    assert status != 0
    assert "Not everything is removed, and may bill" in said
    left = site.left()
    assert left
    assert all(one.rpartition("/")[2] in said for one in left if "/providers/" not in one)
    site.cloud.strike({"kind": "none"})
    run = re.findall(r"^Azure run (\S+)$", said, re.MULTILINE)[-1]
    done = site.play("teardown.yml", run)
    assert (done.returncode, site.left()) == (0, []), done.stdout


def test_an_eviction_is_the_reason_of_the_record(site: Site) -> None:
    given = {"trueup_benchmarks": ["stream"], "stream_repeats": 3000}
    spot = {"priority": "spot", "eviction": "delete"}
    # The price table has no spot price of it; the refusal asks for one.
    nodes = {**SMALL, "count": 1, **spot}
    parameters = site.parameters(given, nodes=nodes, prices={"nodes": 0.1})
    process = site.begin("devito-hbv3", parameters)
    log = site.folder / "said.log"
    while subprocess.run(["pgrep", "-f", "stream_kernel.* 3000"], check=False).returncode:
        assert process.poll() is None, log.read_text()[-3000:]
        time.sleep(0.5)
    instance = next(one["id"] for one in site.cloud.state()["machines"] if one["id"][-2:] == "/0")
    site.cloud.strike({"kind": "evict", "machine": instance})
    assert process.wait(timeout=600) != 0
    assert site.left() == []
    outcomes = {
        (one["nodes"][0], one["outcome"], "Azure evicts this machine (Preempt" in one["reason"])
        for one in site.records("stream")
        if one["outcome"] == "failed"
    }
    assert outcomes == {("node000000", "failed", True)}, log.read_text()[-6000:]
