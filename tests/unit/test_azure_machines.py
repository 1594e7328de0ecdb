"""Azure's machines: rows of Resource Graph, names, groups, variables, sign-in and selection."""

from __future__ import annotations

from typing import Any

import pytest
from emulated_cloud import Query, QueryError
from helpers import parametrized, said
from hypothesis import given
from hypothesis import strategies as st
from trueup_controller.azure import login, machines, selection
from trueup_controller.azure.machines import Machine
from trueup_controller.azure.manager import page_of

VM = "/subscriptions/s/resourceGroups/HPC/providers/Microsoft.Compute/virtualMachines/hb-1"
SET = "/subscriptions/s/resourceGroups/hpc/providers/Microsoft.Compute/virtualMachineScaleSets/x"


def row(**changes: Any) -> dict[str, Any]:
    """A row of the first query; what is not said is null or the empty text."""
    said: dict[str, Any] = {
        "id": VM,
        "name": "hb-1",
        "location": "southcentralus",
        "resourceGroup": "HPC",
        "subscriptionId": "s",
        "tags": None,
        "zones": None,
        "size": "Standard_HB120rs_v3",
        "power": "PowerState/running",
        "setId": "",
        "setName": "",
        "setTags": None,
        "single": "",
        "setPriority": "",
        "setOs": "",
        "setProximity": "",
        "state": "Succeeded",
        "computer": "hb-1",
        "os": "Linux",
        "image": None,
        "priority": "",
        "proximity": "",
        "vmid": "",
        "addresses": None,
        "publicAddress": "",
        "publicName": "",
    }
    return said | changes


def configuration(address: Any, primary: Any = None) -> dict[str, Any]:
    return {"properties": {"privateIPAddress": address, "primary": primary}}


# -- rows --


def test_a_machine_whose_power_nobody_knows_is_unknown() -> None:
    assert machines.machine_of(row(power="")).power == "unknown"


@pytest.mark.parametrize("wrong", [{"id": None}, {"name": ""}, {"id": "hb-1"}])
def test_a_row_that_is_no_machine_is_refused(wrong: dict[str, Any]) -> None:
    assert "without id or name" in said(lambda: machines.machine_of(row(**wrong)))


@pytest.mark.parametrize(
    ("entries", "addresses"),
    [
        (None, ()),
        ("text", ()),
        ([None, {}, {"properties": None}], ()),
        ([configuration("10.0.0.4")], ("10.0.0.4",)),
        # As Microsoft's own example has it: a block beside the address.
        (
            [configuration("10.0.0.16/28"), configuration("10.0.0.4", True)],
            ("10.0.0.4", "10.0.0.16"),
        ),
        ([configuration("fd00::4", True), configuration("10.0.0.4")], ("10.0.0.4", "fd00::4")),
        ([configuration("no address"), configuration(7)], ()),
    ],
)
def test_addresses_of_an_interface(entries: Any, addresses: tuple[str, ...]) -> None:
    assert machines.private_addresses(entries) == addresses


# -- names, groups, variables --


def test_a_name_does_not_change_with_the_order() -> None:
    found = [Machine("/a", "n1"), Machine("/b", "n1")]
    assert machines.host_names(found) == machines.host_names(found[::-1])


@given(st.text(min_size=1))
def test_a_groups_name_is_one_that_ansible_takes(text: str) -> None:
    assert machines.safe(f"azure_{text}").isidentifier()


def test_every_fact_is_a_variable_with_azure_before_it() -> None:
    one = machines.machine_of(row())
    names = {f"azure_{name}" for name in machines.facts(one)}
    assert names <= set(machines.hostvars(one, "private"))


# -- what is asked for machines --


class Manager:
    """Answers as Azure Resource Manager: rows by table, interfaces by set."""

    def __init__(self, rows: dict[str, list[Any]], interfaces: dict[str, list[Any]]) -> None:
        self.rows, self.interfaces = rows, interfaces
        self.asked: list[str] = []

    def query(self, text: str) -> list[Any]:
        self.asked.append(text.split(maxsplit=1)[0])
        return self.rows.get(text.split(maxsplit=1)[0], [])

    def every(self, path: str, version: str) -> list[Any]:
        assert version == "2023-11-01"
        self.asked.append(path)
        return self.interfaces[path.removesuffix("/networkInterfaces")]


def interface(machine: str, address: str, **more: Any) -> dict[str, Any]:
    said = {"virtualMachine": {"id": machine}, "ipConfigurations": [configuration(address)]}
    return {"properties": {**said, **more}}


def test_instances_get_addresses_and_each_set_is_asked_once() -> None:
    first, second = (f"{SET}/virtualMachines/{number}" for number in (0, 1))
    more = {"setId": SET.lower(), "setName": "x"}
    rows = [row(id=first, name="x_0", **more), row(id=second, name="x_1", **more)]
    given = [
        interface(first.upper(), "10.0.0.4"),
        interface(second, "10.0.0.5", primary=True),
        interface(second, "10.9.9.9", primary=False),
        interface("/another", "10.9.9.8"),
        {"properties": None},
    ]
    manager: Any = Manager({"ComputeResources": rows}, {SET.lower(): given})
    found = machines.machines(manager, ["*"], ["*"])
    assert [one.private for one in found] == [("10.0.0.4",), ("10.0.0.5",)]
    assert manager.asked == ["Resources", "ComputeResources", f"{SET.lower()}/networkInterfaces"]


def test_no_set_is_asked_for_virtual_machines() -> None:
    flexible = {"setId": SET.lower(), "setName": "x"}
    twice = [row(publicAddress="20.0.0.4", **flexible), row(publicAddress="20.0.0.5", **flexible)]
    manager: Any = Manager({"Resources": twice}, {})
    [found] = machines.machines(manager, ["*"], ["*"])
    assert (found.public, manager.asked) == (
        ("20.0.0.4", "20.0.0.5"),
        ["Resources", "ComputeResources"],
    )


# -- queries --


@pytest.mark.parametrize("name", ["a' or 1 == 1", "", "a b", "x" * 91])
def test_a_group_that_is_no_name_is_refused(name: str) -> None:
    assert "no name of a resource group" in said(lambda: machines.queries([name], []))


# -- pages --

PAGE = {"totalRecords": 1, "count": 1, "resultTruncated": "false", "data": [{"id": "a"}]}


@parametrized(("wrong", "word"))
def test_a_page_that_lies_is_refused(wrong: dict[str, Any], word: str) -> None:
    assert word in said(lambda: page_of({**PAGE, **wrong}))


# -- the login's subscriptions --


@parametrized(("known", "names", "word"))
def test_a_login_that_does_not_do(known: Any, names: list[str], word: str) -> None:
    assert word in said(lambda: login.choose(known, names, "AzureCloud"))


def test_a_token_is_not_printed() -> None:
    assert "secret" not in repr(login.Login("https://a", "secret", ("1",)))


# -- selection --

FACTS = machines.facts(machines.machine_of(row(tags={"role": "compute"}, zones=["2"])))


@parametrized(("text", "word"))
def test_an_expression_that_means_something_else_is_refused(text: str, word: str) -> None:
    assert word in said(lambda: selection.Selection("exclude", [text], FACTS))


def test_an_expression_that_fails_names_the_machine() -> None:
    chosen = selection.Selection("include", ["starts_with(tags.team, 'x')"], FACTS)
    assert "fails for hb-1" in said(lambda: chosen.takes("hb-1", FACTS))


# -- the emulated cloud's part of Kusto --

TABLE = {"resources": [{"id": "b", "name": "x", "tags": {"k": 1}}, {"id": "a", "name": None}]}


@parametrized(("text", "ids"))
def test_the_part_of_kusto(text: str, ids: list[str]) -> None:
    rows, paged = Query(text, TABLE).run()
    assert ([one["id"] for one in rows], paged) == (ids, True)


@parametrized("text")
def test_what_the_part_of_kusto_does_not_know_it_refuses(text: str) -> None:
    with pytest.raises(QueryError):
        Query(text, TABLE).run()


def test_a_text_that_a_join_did_not_find_is_empty() -> None:
    right = "Resources | where id == 'b' | project id, n = tostring(name)"
    text = f"Resources | join kind=leftouter ({right}) on id | project id, n | order by id asc"
    rows, _ = Query(text, TABLE).run()
    assert [one["n"] for one in rows] == ["", "x"]
