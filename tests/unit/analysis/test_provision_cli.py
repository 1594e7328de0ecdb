"""trueup azure plan as a user meets it: what goes where, and with which exit status."""

from __future__ import annotations

import base64
import json
from datetime import datetime, tzinfo
from pathlib import Path
from typing import Any

import pytest
from provisioning import DATA, NOW, RUN
from trueup_analysis.commands import azure as commands
from trueup_analysis.figures import azure

# Until the day after NOW.
OWNER = DATA / "owner.yml"


class Clock(datetime):
    """The hour of these tests."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> Any:
        return NOW.astimezone(tz)


@pytest.fixture
def run(call_trueup: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(commands, "datetime", Clock)
    return lambda *argv: call_trueup("azure", "plan", *argv)


@pytest.fixture
def own(tmp_path: Path) -> Any:
    """Writes a user's parameters, and says where."""

    def write(text: str) -> str:
        path = tmp_path / "own.yml"
        path.write_text(text, encoding="utf-8")
        return str(path)

    return write


@pytest.mark.parametrize("name", azure.recipes())
def test_every_recipe_is_planned(run: Any, name: str) -> None:
    found = run(name, "--format", "json")
    tables = json.loads(found.out)["tables"]
    kinds = [table["kind"] for table in tables]
    assert kinds == ["azure_plan", "azure_cost", "azure_quota", "azure_missing"]
    # As shipped without an owner and a way in.
    assert (found.status, [row["need"] for row in tables[-1]["rows"]][:2]) == (
        1,
        ["access", "access"],
    )


def test_the_plan_says_what_is_made_what_it_costs_and_what_is_not_known(run: Any) -> None:
    found = run("devito-hbv3", "--parameters", str(OWNER))
    said = [
        *("Authorization/roleAssignments 1 the login node's, of the group", "within 2 minutes"),
        *("Compute/virtualMachineScaleSets", "2 of Standard_HB120rs_v3 as a uniform set"),
        *("at least 8.25 US$ an hour, 197.90 US$ a day", "3 of 8 lines", "not priced"),
        *("standardHBv3Family", "was not asked", "bills when", "2026-06-18"),
        "Nothing: the dry run found all that the recipe needs.",
    ]
    assert [word for word in said if word not in " ".join(found.out.split())] == []
    assert (found.status, found.err) == (0, "")


def test_all_that_is_missing_is_named_and_the_status_is_1(run: Any) -> None:
    found = run("devito-hbv3")
    assert (found.status, found.err) == (
        1,
        (
            "missing (access): owner is empty: say who answers for it\n"
            "missing (access): nothing outside can reach it: give your range of addresses as"
            " ssh_from (such as 203.0.113.7/32) with a login node, or bastion: true\n"
            "trueup: error: recipe devito-hbv3 is refused: 2 needs are missing, named above\n"
        ),
    )


def test_a_plan_above_the_limit_is_shown_and_refused(run: Any) -> None:
    found = run("devito-hbv3", "--max-usd-per-hour", "8", "--parameters", str(OWNER))
    assert (found.status, "What it costs" in found.out) == (1, True)
    assert found.err.startswith("missing (price): it costs at least 8.25 US$ an hour")


@pytest.mark.parametrize(
    ("argv", "text", "sentence"),
    [
        (("devito-hbv4",), "", "there is no recipe 'devito-hbv4'; did you mean devito-hbv3?"),
        (("x",), "", "there is no recipe 'x'; there are cpu-llama, devito-hbv3, eda-lustre,"),
        (("../recipes/x",), "", "there is no recipe '../recipes/x'"),
        (("devito-hbv3", "--max-usd-per-hour", "0"), "", "--max-usd-per-hour 0: a limit is above"),
        (("devito-hbv3",), "- a\n", "recipe devito-hbv3: a file of parameters is a mapping"),
        (("devito-hbv3",), "nodes: {count: 0}", "nodes.count is 0: it must be a whole number >= 1"),
        (("devito-hbv3",), "expires: 2026-13-24\n", "own.yml is not YAML: month must be in 1..12"),
        (("devito-hbv3",), "nodes: [\n", "own.yml is not YAML: "),
        (("devito-hbv3",), f"hours: 0x{'f' * 5000}\n", "hours is a very long number: it must be"),
        (("devito-hbv3",), "nodes: &n {size: *n}\n", "nodes.size is "),
    ],
)
def test_what_cannot_be_ends_in_one_sentence(
    run: Any, own: Any, argv: tuple[str, ...], text: str, sentence: str
) -> None:
    found = run(*argv, *(("--parameters", own(text)) if text else ()))
    assert (found.status, found.out, found.err.count("\n")) == (1, "", 1)
    assert sentence in found.err


def test_a_template_is_written_where_nothing_lacks(run: Any, tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    assert run("devito-hbv3", "--template", str(path)).status == 1
    assert not path.exists()
    found = run("devito-hbv3", "-p", str(OWNER), "--template", str(path))
    written = json.loads(path.read_text(encoding="utf-8"))
    golden = json.loads((DATA / "template-devito-hbv3.json").read_text(encoding="utf-8"))
    run_id = written["resources"][0]["tags"]["run"]
    texts = [_started(template) for template in (written, golden)]
    assert (found.status, texts[0].replace(run_id, RUN)) == (0, texts[1])


def _started(template: dict[str, Any]) -> str:
    """A template with what cloud-init does in plain text: the run's id is in it."""
    for resource in template["resources"]:
        profile = resource["properties"].get("osProfile", {})
        if "customData" in profile:
            profile["customData"] = base64.b64decode(profile["customData"]).decode()
    return json.dumps(template)


def test_an_old_family_and_one_closed_to_new_subscriptions_are_warned_of(own: Any) -> None:
    text = "owner: x\nnodes: {size: Standard_HB120rs_v2}\nlogin: {size: Standard_F8s_v2}\n"
    found = azure.plan("devito-hbv3", Path(own(text)), now=NOW)
    assert found.warnings() == [
        "Standard_HB120rs_v2 retires 2027-05-31",
        "Standard_F8s_v2 retires 2028-11-15",
        "Standard_F8s_v2 cannot be deployed by a new subscription",
    ]


def test_a_region_without_prices_and_nodes_without_a_way_out_are_warned_of(own: Any) -> None:
    text = "owner: x\nregion: japaneast\noutbound: none\n"
    found = azure.plan("devito-hbv3", Path(own(text)), now=NOW)
    assert found.warnings() == [
        (
            "the price table has no price at all in japaneast: whether it sells these sizes is not"
            " known"
        ),
        "nodes cannot reach the internet: packages must come from a mirror within",
    ]
    assert (found.cost.usd_per_hour, len(found.cost.unpriced)) == (0, 5)
