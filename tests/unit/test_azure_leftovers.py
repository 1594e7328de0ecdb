"""Runs that left something on Azure, and `trueup azure leftovers`, against the emulated Azure of
test_azure_teardown."""

from __future__ import annotations

import json
from typing import Any

import pytest
from helpers import parametrized
from provisioning import RUN, known
from test_azure_teardown import (
    GROUP,
    MANAGER,
    OTHER_RUN,
    Emulated,
    ending,
    find,
    foreign,
    place,
    refusal,
    row,
)
from trueup_controller.azure import manager
from trueup_controller.azure.leftovers import Leftover, leftovers, warnings
from trueup_node.errors import BadInput
from trueup_node.vm import expiry

ENDS = expiry.moment("2026-11-23T18:00Z") or 0.0
TAGS = {"run": RUN, "expires": "2026-11-23T18:00Z", "owner": "geophysics", "recipe": "cpu-llama"}
SECOND = "/subscriptions/s/resourceGroups/second"


@pytest.fixture
def azure() -> Emulated:
    emulated = Emulated()
    emulated.groups[GROUP] = dict(TAGS)
    return emulated


def found_in(azure: Emulated) -> list[Leftover]:
    return leftovers(ending(azure).manager, known(), find, tell=lambda text: None)


def second_run(azure: Emulated, expires: str) -> None:
    """A group of another run, with one resource."""
    azure.groups[SECOND] = {"run": OTHER_RUN, "expires": expires, "owner": "eda"}
    azure.rows.append(row(place("nsg", SECOND), OTHER_RUN))


def test_what_has_expired_is_warned_of_with_its_price(azure: Emulated) -> None:
    [said, advice] = warnings(found_in(azure), ENDS + 5400)
    assert said.startswith(
        f"run {RUN} of geophysics (group trueup-x) expired 1.5 h ago: 0 machines bill computing, at"
        " least 0.00 US$ an hour, 10 without a price"
    )
    assert "trueup azure leftovers --delete" in advice


@parametrized(("expires", "runs"))
def test_the_longest_expired_comes_first(azure: Emulated, expires: str, runs: list[str]) -> None:
    second_run(azure, expires)
    assert [one.run for one in found_in(azure)] == runs


@pytest.mark.parametrize(
    "tags", [{"run": RUN}, {"expires": "2026-11-23T18:00Z"}, {"run": "mine", "expires": "x"}, {}]
)
def test_what_does_not_carry_both_tags_is_none_of_ours(
    azure: Emulated, tags: dict[str, str]
) -> None:
    azure.groups[GROUP] = tags
    azure.rows = [row(place("nsg"), None)]
    assert found_in(azure) == []


def test_a_group_in_which_only_others_are_left_is_no_leftover(azure: Emulated) -> None:
    azure.rows = []
    foreign(azure)
    assert found_in(azure) == []


# ---- the command --------------------------------------------------------------------------------


@pytest.fixture
def run(azure: Emulated, call_trueup: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(manager, "connect", lambda names: ending(azure).manager)
    return lambda *argv: call_trueup("azure", "leftovers", *argv)


def test_an_expired_run_is_listed_and_the_status_says_so(azure: Emulated, run: Any) -> None:
    azure.groups[GROUP]["expires"] = "2020-01-01T00:00Z"
    done = run("--format", "json")
    [table] = json.loads(done.out)["tables"]
    [one] = table["rows"]
    assert (done.status, table["kind"], one["run"], one["resources"]) == (
        *(1, "azure_leftovers"),
        *(RUN, 11),
    )
    assert one["hours_over"] > 50_000
    assert "`trueup azure leftovers --delete` removes what has expired" in done.err
    assert azure.deleted == []


def test_delete_deletes_what_has_expired_and_nothing_else(azure: Emulated, run: Any) -> None:
    azure.groups[GROUP]["expires"] = "2020-01-01T00:00Z"
    second_run(azure, "2999-01-01T00:00Z")
    done = run("--delete", "--all")
    assert (done.status, azure.deleted) == (0, [GROUP])
    assert f"nothing is left of run {RUN} in subscription s\n" in done.err


def test_a_run_whose_list_cannot_be_had_keeps_no_other_from_its_end(
    azure: Emulated, run: Any
) -> None:
    azure.groups[GROUP]["expires"] = "2020-01-01T00:00Z"
    second_run(azure, "2020-01-02T00:00Z")
    # The first look is the list's own, the second that of the deletion.
    azure.faults[f"GET {GROUP}"] = [None, refusal(403, "AuthorizationFailed")]
    done = run("--delete")
    assert (done.status, list(azure.groups)) == (1, [GROUP])
    assert "AuthorizationFailed" in done.err


def test_a_run_whose_expiry_is_no_time_is_not_deleted(azure: Emulated, run: Any) -> None:
    azure.groups[GROUP]["expires"] = "never"
    done = run("--delete")
    assert (done.status, azure.deleted) == (1, [])
    assert "has expires 'never', which is no time" in done.err
    assert "mend the tag expires" in done.err


def test_nobody_signed_in_ends_in_one_sentence(
    call_trueup: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nobody(names: list[str]) -> None:
        assert names == ["hpc"]
        raise BadInput("nobody is signed in")

    monkeypatch.setattr(manager, "connect", nobody)
    done = call_trueup("azure", "leftovers", "--subscription", "hpc")
    assert (done.status, done.err) == (1, "trueup: error: nobody is signed in\n")


def test_azure_that_does_not_answer_ends_in_one_sentence(azure: Emulated, run: Any) -> None:
    azure.faults["GET /subscriptions/s/resourcegroups"] = [refusal(401, "InvalidToken")]
    done = run()
    assert (done.status, done.err.count("\n")) == (1, 1)
    assert done.err.startswith(f"trueup: error: {MANAGER} does not take the login's token")
