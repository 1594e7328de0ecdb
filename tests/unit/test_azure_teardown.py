"""The end of a run, against an emulated Azure Resource Manager in this process: a stand-in with
groups, resources that hold each other, and operations that take a while."""

from __future__ import annotations

import io
import json
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from email.message import Message
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.urls import open_url
from emulated_cloud import SUBSCRIPTION, Cloud, serving
from helpers import parametrized
from provisioning import RUN, known, made
from trueup_controller.azure import template
from trueup_controller.azure.cost import Price
from trueup_controller.azure.deployment import Deployment
from trueup_controller.azure.login import Login
from trueup_controller.azure.manager import Manager
from trueup_controller.azure.teardown import Teardown
from trueup_node.errors import BadInput, TrueupError
from trueup_node.vm import expiry

OTHER_RUN = "20261123T100000Z-0000"
MANAGER = "https://arm.example"
GROUP = "/subscriptions/s/resourceGroups/trueup-x"
PRINCIPAL = "11111111-2222-3333-4444-555555555555"
IDENTITY = {"type": "SystemAssigned", "principalId": PRINCIPAL}
NAMES = {
    "nsg": "Microsoft.Network/networkSecurityGroups/nodes-rules",
    "nat": "Microsoft.Network/natGateways/nat",
    "ip": "Microsoft.Network/publicIPAddresses/login-ip",
    "net": "Microsoft.Network/virtualNetworks/network",
    "nic": "Microsoft.Network/networkInterfaces/login-nic",
    "login": "Microsoft.Compute/virtualMachines/login",
    "nodes": "Microsoft.Compute/virtualMachineScaleSets/nodes",
    "account": "Microsoft.NetApp/netAppAccounts/files",
    "pool": "Microsoft.NetApp/netAppAccounts/files/capacityPools/pool",
    "volume": "Microsoft.NetApp/netAppAccounts/files/capacityPools/pool/volumes/shared",
}
# What cannot be deleted while the others are there.
HOLDS = {
    "nsg": ["net"],
    "nat": ["net"],
    "ip": ["nic", "nat"],
    "net": ["nic", "nodes", "volume"],
    "nic": ["login"],
    "account": ["pool"],
    "pool": ["volume"],
}
ASSIGNMENT = f"{GROUP}/providers/Microsoft.Authorization/roleAssignments/a"


def place(name: str, group: str = GROUP) -> str:
    return f"{group}/providers/{NAMES.get(name, name)}"


def row(where: str, run: str | None = RUN, **more: Any) -> dict[str, Any]:
    words = where.split("/providers/")[1].split("/")
    kind = "/".join([words[0], *words[1::2]])
    tags = {} if run is None else {"tags": {"run": run, "expires": "2026-11-23T18:00Z"}}
    return {"id": where, "name": words[-1], "type": kind, **tags, **more}


class Emulated:
    """``faults`` by "METHOD PATH" are used up; None in one is no fault."""

    def __init__(self) -> None:
        self.groups: dict[str, dict[str, str]] = {GROUP: {"run": RUN}}
        self.rows = [row(place(name)) for name in NAMES]
        self.rows[5]["tags"]["role"] = "login"
        self.rights = {ASSIGNMENT: PRINCIPAL, f"{ASSIGNMENT}2": "another"}
        self.deployment = ""
        self.locked: list[str] = []
        self.machines: list[dict[str, Any]] = []
        # Lists of machines by their path.
        self.models: dict[str, list[dict[str, Any]]] = {}
        self.faults: dict[str, list[Any]] = {}
        self.asked: list[str] = []
        self.operations: list[str] = []
        self.strike: Any = None
        self.told: list[str] = []

    @property
    def deleted(self) -> list[str]:
        return [one[7:] for one in self.asked if one.startswith("DELETE ")]

    def __call__(self, url: str, **given: Any) -> Any:
        parts = urllib.parse.urlsplit(url)
        query = dict(urllib.parse.parse_qsl(parts.query))
        what = f"{given['method']} {parts.path}"
        assert query.get("api-version") or parts.path.startswith("/operations/")
        self.asked.append(what)
        if self.strike:
            self.strike(len(self.asked))
        queue = self.faults.get(what)
        fault = queue.pop(0) if queue else None
        status, document, headers = fault or self.answer(given["method"], parts.path, query)
        body = b"" if document is None else json.dumps(document).encode()
        kept = Message()
        for name, text in headers.items():
            kept[name] = text
        if status >= 400:
            raise urllib.error.HTTPError(url, status, "", kept, io.BytesIO(body))
        answer: Any = io.BytesIO(body)
        answer.status, answer.headers = status, kept
        return answer

    def answer(self, method: str, path: str, query: dict[str, str]) -> Any:
        if path.endswith("/Microsoft.ResourceGraph/resources"):
            found, self.machines = self.machines, []
            return 200, {"data": found, "count": len(found), "totalRecords": len(found)}, {}
        if path.startswith("/operations/"):
            return self.operation(int(path.rpartition("/")[2]))
        if "/deployments/" in path:
            return self.deployed(method)
        return self.delete(path) if method == "DELETE" else self.listed(path)

    def deployed(self, method: str) -> Any:
        if method == "POST":
            self.deployment = "Canceled"
            return 204, None, {}
        state = {"properties": {"provisioningState": self.deployment}}
        return (200, state, {}) if self.deployment else refusal(404, "DeploymentNotFound")

    def listed(self, path: str) -> Any:
        if path.endswith("/roleAssignments"):
            rights = self.rights.items()
            rows = [{"id": one, "properties": {"principalId": who}} for one, who in rights]
            return 200, {"value": rows}, {}
        # Filters are overlooked on purpose: the client looks again.
        groups = [{"id": one, "tags": tags} for one, tags in self.groups.items()]
        group = path.removesuffix("/resources")
        lists = {
            "/subscriptions/s/resourcegroups": groups,
            "/subscriptions/s/resources": self.rows,
            f"{group}/resources": [one for one in self.rows if f"{group}/" in one["id"]],
            **self.models,
        }
        if path != group and group.startswith("/subscriptions/s/resourceGroups"):
            known = group in self.groups
            return (200, {"value": lists[path]}, {}) if known else refusal(404, "NotFound")
        if path in lists:
            return 200, {"value": lists[path]}, {}
        if path == place("login"):
            return 200, {"id": path, "identity": IDENTITY}, {}
        if path not in self.groups:
            return refusal(404, "ResourceGroupNotFound")
        return 200, {"id": path, "tags": self.groups[path]}, {}

    def delete(self, path: str) -> Any:
        there = [*self.groups, *self.rights, *(one["id"] for one in self.rows)]
        if path not in there:
            return refusal(404, "ResourceNotFound")
        if any(lock == path or lock.startswith(f"{path}/") for lock in self.locked):
            return refusal(409, "ScopeLocked")
        name = next((one for one in NAMES if place(one) == path), "")
        held = [one for one in HOLDS.get(name, []) if place(one) in there]
        if held:
            return refusal(400, "InUseSubnetCannotBeDeleted")
        self.operations.append(path)
        return 202, None, {"Location": f"{MANAGER}/operations/{len(self.operations) - 1}"}

    def operation(self, number: int) -> Any:
        path = self.operations[number]
        if path:
            self.operations[number] = ""
            gone = (path, f"{path}/")
            self.groups.pop(path, None)
            self.rights.pop(path, None)
            self.rows = [one for one in self.rows if not f"{one['id']}/".startswith(gone[1])]
            return 202, None, {"Location": f"{MANAGER}/operations/{number}"}
        return 204, None, {}


def refusal(status: int, code: str) -> tuple[int, Any, dict[str, str]]:
    return status, {"error": {"code": code, "message": "no"}}, {"x-ms-request-id": "r-1"}


@pytest.fixture
def azure() -> Emulated:
    return Emulated()


def ending(azure: Emulated, run: str = RUN) -> Teardown:
    login = Login(MANAGER, "token", ("s",))
    # Nobody waits, and the pauses of the client count.
    clock = [0.0]

    def sleep(seconds: float) -> None:
        clock[0] += seconds

    manager = Manager(
        login, azure, deadline_seconds=3600, sleep=sleep, clock=lambda: clock[0], jitter=lambda: 0.0
    )
    return Teardown(manager, known(), run, tell=azure.told.append)


def find(size: str, region: str, offer: str) -> Price | None:
    return Price(4.5, "", "test") if (size, offer) == ("Standard_HB120rs_v3", "payg") else None


def foreign(azure: Emulated, run: str | None = None) -> str:
    """Somebody else's disk in the group."""
    theirs = place("Microsoft.Compute/disks/theirs")
    azure.rows.append(row(theirs, run))
    return theirs


def test_a_group_of_the_run_is_deleted_whole_and_again_changes_nothing(azure: Emulated) -> None:
    work = ending(azure)
    assert (work.end(), azure.deleted, azure.groups, azure.rows) == ([], [GROUP], {}, [])
    assert (work.end(), azure.deleted) == ([], [GROUP])
    nothing = work.left([], find)
    assert nothing.sentences(RUN) == [f"nothing is left of run {RUN} in subscription s"]
    assert (nothing.machines, nothing.usd_per_hour, nothing.unpriced) == (0, 0, ())


@pytest.mark.parametrize("theirs", [None, OTHER_RUN])
def test_in_a_group_that_others_use_the_runs_resources_go_one_by_one(
    azure: Emulated, theirs: str | None
) -> None:
    disk = foreign(azure, theirs)
    work = ending(azure)
    [group] = work.end()
    names = [next((one for one in NAMES if place(one) == path), path) for path in azure.deleted]
    assert names == [
        *("login", "nodes", "volume", "nic", "pool", "net", "account", "nsg", "nat", "ip"),
        ASSIGNMENT,
    ]
    assert (group.mine, group.others, list(azure.groups)) == ([], [disk], [GROUP])
    assert list(azure.rights) == [f"{ASSIGNMENT}2"]
    assert work.left([group], find).sentences(RUN) == [
        f"group trueup-x is kept, for it holds 1 resources that are not of run {RUN}: {disk}",
        f"nothing is left of run {RUN} in subscription s",
    ]
    before = list(azure.deleted)
    work.end()
    assert azure.deleted == before


@pytest.mark.parametrize("tags", [{}, {"run": OTHER_RUN}, {"run": RUN + "x"}, {"run": "*"}])
def test_a_group_without_the_runs_tag_is_never_deleted(
    azure: Emulated, tags: dict[str, str]
) -> None:
    azure.groups[GROUP] = tags
    ending(azure).end()
    assert (list(azure.groups), azure.rows, GROUP in azure.deleted) == ([GROUP], [], False)


@pytest.mark.parametrize(
    "run", ["", "*", "' or '1' eq '1", "20261123T100000Z", f"{RUN}\n", RUN.lower(), "%"]
)
def test_what_is_no_runs_id_is_refused_before_azure_is_asked(azure: Emulated, run: str) -> None:
    with pytest.raises(BadInput, match="is not of the form"):
        ending(azure, run)
    assert azure.asked == []


@parametrized(("fault", "told"))
def test_a_deployment_that_is_not_cancelled_keeps_nothing_from_its_end(
    azure: Emulated, fault: Any, told: bool
) -> None:
    azure.deployment = "Running"
    path = f"{GROUP}/providers/Microsoft.Resources/deployments/trueup-{RUN}/cancel"
    azure.faults[f"POST {path}"] = [fault]
    assert ending(azure).end() == []
    assert any("was not cancelled" in one for one in azure.told) is told


def test_a_deployment_that_goes_on_all_the_same_is_said_once(azure: Emulated) -> None:
    azure.deployment = "Running"
    path = f"{GROUP}/providers/Microsoft.Resources/deployments/trueup-{RUN}/cancel"
    azure.faults[f"POST {path}"] = [(204, None, {})]
    assert ending(azure).end() == []
    assert azure.asked.count(f"POST {path}") == 1
    [said] = [one for one in azure.told if "goes on although it was cancelled" in one]
    assert RUN in said


@pytest.mark.parametrize("state", ["Succeeded", "Failed", "Canceled"])
def test_a_deployment_that_ended_is_left_alone(azure: Emulated, state: str) -> None:
    azure.deployment = state
    ending(azure).end()
    assert [one for one in azure.asked if one.endswith("/cancel")] == []


def test_a_lock_is_named_and_everything_else_is_deleted(azure: Emulated) -> None:
    azure.locked = [place("account")]
    work = ending(azure)
    groups = work.end()
    left = work.left(groups, find)
    assert [one["id"] for one in azure.rows] == [place("account")]
    # As the group and by itself, in two rounds, and never in vain.
    assert (azure.deleted.count(GROUP), azure.deleted.count(place("account"))) == (2, 2)
    assert sorted(left.ids) == sorted([place("account"), GROUP])
    said = "\n".join(left.sentences(RUN))
    assert f"2 left of run {RUN}: 0 machines bill computing, at least 0.00 US$ an hour" in said
    assert (
        f"{place('account')}: {MANAGER} answers DELETE {place('account')} with status 409" in said
    )
    assert "ScopeLocked" in said
    assert "(request r-1)" in said


def test_an_operation_that_fails_is_asked_again(azure: Emulated) -> None:
    failed = {"status": "Failed", "error": {"code": "ResourceGroupDeletionBlocked", "message": "x"}}
    azure.faults["GET /operations/0"] = [(200, failed, {})]
    assert (ending(azure).end(), azure.groups) == ([], {})


def test_without_the_right_to_delete_all_is_left_with_the_reason_and_the_price(
    azure: Emulated,
) -> None:
    for path in (GROUP, *(one["id"] for one in azure.rows)):
        azure.faults[f"DELETE {path}"] = [refusal(403, "AuthorizationFailed")] * 9
    common = {"location": "eastus", "power": "PowerState/running"}
    size = {"size": "Standard_HB120rs_v3", "tags": {"run": RUN}, **common}
    of_set = {"setId": place("nodes").lower(), "setName": "nodes"}
    azure.machines = [
        {"id": f"{place('nodes')}/virtualMachines/0", "name": "n0", **size, **of_set},
        {"id": f"{place('nodes')}/virtualMachines/1", "name": "n1", **size, **of_set},
        {"id": place("login"), "name": "login", "size": "Standard_X", **common},
        {"id": place("login").replace("login", "theirs"), "name": "theirs", **size},
    ]
    azure.machines[1]["power"] = "PowerState/deallocated"
    work = ending(azure)
    left = work.left(work.end(), find)
    assert (len(left.ids), left.machines, left.usd_per_hour) == (11, 2, 4.5)
    assert "login (Standard_X)" in left.unpriced
    assert all("AuthorizationFailed" in left.why[one] for one in left.ids)
    # One round and no more: nothing changed.
    assert azure.deleted.count(GROUP) == 1


def test_what_is_held_is_asked_for_again_after_longer_pauses(azure: Emulated) -> None:
    foreign(azure)
    azure.faults[f"DELETE {place('nsg')}"] = [refusal(409, "Conflict")] * 5
    work = ending(azure)
    before = work.manager.clock()
    assert work.end()[0].mine == []
    # 1, 2, 5 and 10 s of the first round, besides those of operations.
    assert work.manager.clock() - before >= 18
    assert azure.deleted.count(place("nsg")) == 6


def test_what_is_left_is_listed_also_where_its_price_cannot_be_asked_for(azure: Emulated) -> None:
    azure.faults["POST /providers/Microsoft.ResourceGraph/resources"] = [refusal(403, "No")]
    work = ending(azure)
    left = work.left(work.find(), find)
    assert (len(left.ids), left.machines, left.usd_per_hour) == (11, 0, 0)
    assert len(left.unpriced) == 10


def test_a_run_that_is_made_while_it_is_ended_is_left_after_five_rounds(azure: Emulated) -> None:
    foreign(azure)

    def made_again(number: int) -> None:
        if azure.asked[-1] == "GET /subscriptions/s/resources":
            azure.rows.append(row(place(f"Microsoft.Network/natGateways/n{number}")))

    azure.strike = made_again
    [group] = ending(azure).end()
    assert azure.asked.count("GET /subscriptions/s/resources") == 6
    assert len(group.mine) == 1


def test_what_azure_says_is_gone_has_no_reason_to_be_left(azure: Emulated) -> None:
    foreign(azure)
    azure.faults[f"DELETE {place('nsg')}"] = [refusal(404, "ResourceNotFound")] * 9
    work = ending(azure)
    left = work.left(work.end(), find)
    assert (left.ids, left.why) == ((place("nsg"),), {})


def test_a_group_that_somebody_fills_meanwhile_is_kept(azure: Emulated) -> None:
    # The list before the cancelling has nothing of others in it, the one after it has.
    azure.deployment = "Running"
    answer = azure.answer

    def filled(method: str, path: str, query: dict[str, str]) -> Any:
        if path.endswith("/cancel"):
            foreign(azure)
        return answer(method, path, query)

    azure.answer = filled  # type: ignore[method-assign]
    [group] = ending(azure).end()
    assert (GROUP in azure.deleted, group.mine, len(group.others)) == (False, [], 1)


def calls(shared: bool) -> int:
    """How many calls the end of a run takes."""
    azure = Emulated()
    if shared:
        foreign(azure)
    ending(azure).end()
    return len(azure.asked)


@pytest.mark.parametrize(
    ("shared", "number"),
    [(shared, number + 1) for shared in (False, True) for number in range(calls(shared))],
)
def test_killed_at_any_call_the_next_teardown_leaves_nothing(
    azure: Emulated, shared: bool, number: int
) -> None:
    theirs = [foreign(azure)] if shared else []
    azure.deployment = "Running"

    def killed(asked: int) -> None:
        if asked == number:
            raise KeyboardInterrupt

    azure.strike = killed
    with pytest.raises(KeyboardInterrupt):
        ending(azure).end()
    azure.strike = None
    groups = ending(azure).end()
    assert [one for group in groups for one in group.ids] == []
    assert [one["id"] for one in azure.rows] == theirs


def test_a_type_that_the_catalog_does_not_know_is_named(azure: Emulated) -> None:
    odd = place("Microsoft.Odd/things/x")
    azure.rows.append(row(odd))
    foreign(azure)
    work = ending(azure)
    left = work.left(work.end(), find)
    assert (left.ids, "pins no version of Microsoft.Odd/things" in left.why[odd]) == ((odd,), True)


@pytest.mark.parametrize(
    "document", [None, {}, {"value": None}, {"value": [7]}, {"value": [{"id": "/x"}]}, []]
)
@pytest.mark.parametrize("path", ["/subscriptions/s/resources", f"{GROUP}/resources"])
def test_a_list_of_another_shape_deletes_nothing(azure: Emulated, path: str, document: Any) -> None:
    if document == {"value": [{"id": "/x"}]}:
        document["value"][0]["tags"] = {"run": RUN}
    azure.faults[f"GET {path}"] = [(200, document, {})]
    with pytest.raises(TrueupError):
        ending(azure).end()
    assert azure.deleted == []


# ---- whose a resource is ------------------------------------------------------------------------

MADE_UP = "0123456789abcdef" * 2
LOGIN_DISK = place("Microsoft.Compute/disks/login_OsDisk_1_ab")
SHARED_DISK = place("Microsoft.Compute/disks/login_lun_0_2_ab")
INSTANCE = place("nodes") + "/virtualMachines/0"
NODE_DISK = place("Microsoft.Compute/disks/nodes_nodes_0_OsDisk_1_ab")
THEIRS = place("Microsoft.Compute/disks/theirs")
# What az vm disk attach --new leaves in the model, and what the template asks for.
ATTACHED, OF_TEMPLATE = {"deleteOption": "Detach"}, {"deleteOption": "Delete"}


def model(machine: str, system: str, *data: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    """A machine as Azure lists it."""
    disks = [
        {"lun": lun, "managedDisk": {"id": disk.upper()}, **more}
        for lun, (disk, more) in enumerate(data)
    ]
    storage = {"osDisk": {"managedDisk": {"id": system}}, "dataDisks": disks}
    return {"id": machine, "properties": {"storageProfile": storage}}


def disk(identifier: str, machine: str = "", run: str | None = None) -> dict[str, Any]:
    return row(identifier, run, **({"managedBy": machine} if machine else {}))


# Type and place of what a user leaves in a run's group, and whether it keeps the group.
FOREIGN = {
    "a disk attached by az vm disk attach --new": (disk(THEIRS, place("login")), True),
    "the same with the tags of its machine": (disk(THEIRS, place("login"), RUN), True),
    "a disk attached to an instance": (disk(THEIRS, INSTANCE), True),
    "a disk of no machine": (disk(THEIRS), True),
    "the same with the run's tag": (disk(THEIRS, run=RUN), True),
    "a disk of the run that lost its machine": (
        disk(place(f"Microsoft.Compute/disks/x_OsDisk_1_{MADE_UP}"), run=RUN),
        False,
    ),
    "a disk of a machine of theirs": (disk(THEIRS, place("theirs")), True),
    "an adapter": (row(place("Microsoft.Network/networkInterfaces/theirs"), None), True),
    "a public address": (row(place("Microsoft.Network/publicIPAddresses/theirs"), None), True),
    "a snapshot": (row(place("Microsoft.Compute/snapshots/theirs"), None), True),
    "an image": (row(place("Microsoft.Compute/images/theirs"), None), True),
    "a network watcher": (row(place("Microsoft.Network/networkWatchers/theirs"), None), True),
    "a machine that another run's tag names": (
        row(place("Microsoft.Compute/virtualMachines/theirs"), OTHER_RUN),
        True,
    ),
    "another thing that one of our machines manages": (
        row(place("Microsoft.Compute/restorePointCollections/x"), None, managedBy=place("login")),
        True,
    ),
    "a name that begins as one of ours": (row(place("login") + "2", None), True),
    "an extension of one of our machines": (
        row(place("login") + "/extensions/theirs", None),
        False,
    ),
    "a subnet of our network": (row(place("net") + "/subnets/theirs", None), False),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_what_the_run_did_not_make_keeps_its_group(azure: Emulated, name: str) -> None:
    theirs, keeps = FOREIGN[name]
    azure.rows += [
        *(disk(LOGIN_DISK, place("login")), disk(SHARED_DISK, place("login"))),
        *(disk(NODE_DISK, INSTANCE), theirs),
    ]
    azure.models = {
        place("Microsoft.Compute/virtualMachines"): [
            model(place("login"), LOGIN_DISK, (SHARED_DISK, OF_TEMPLATE), (THEIRS, ATTACHED))
        ],
        f"{place('nodes')}/virtualMachines": [model(INSTANCE, NODE_DISK, (THEIRS, ATTACHED))],
    }
    work = ending(azure)
    [before] = work.find()
    assert (before.whole, before.others) == (not keeps, [theirs["id"]] if keeps else [])
    groups = work.end()
    left = [one["id"] for one in azure.rows]
    if keeps:
        assert (left, list(azure.groups), theirs["id"] in azure.deleted) == (
            [theirs["id"]],
            [GROUP],
            False,
        )
        sentence = work.left(groups, find).sentences(RUN)[0]
        assert sentence == (
            f"group trueup-x is kept, for it holds 1 resources that are not of run {RUN}:"
            f" {theirs['id']}"
        )
    else:
        assert (groups, left, azure.deleted) == ([], [], [GROUP])


def test_a_set_that_vanishes_between_two_lists_is_no_error(azure: Emulated) -> None:
    azure.rows.append(disk(NODE_DISK, INSTANCE))
    path = f"{place('nodes')}/virtualMachines"
    azure.faults[f"GET {path}"] = [refusal(404, "ResourceNotFound")] * 9
    [group] = ending(azure).find()
    assert (group.whole, group.others) == (False, [NODE_DISK])


@parametrized("machines")
def test_a_model_without_disks_gives_none(machines: list[Any]) -> None:
    assert expiry.disks_of(machines) == {}


# ---- in the emulated cloud ----------------------------------------------------------------------

CLOUD_GROUP = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/trueup-x"
COMPUTE = f"{CLOUD_GROUP}/providers/Microsoft.Compute"


class Deployed:
    """A run in the emulated cloud."""

    def __init__(self, cloud: Cloud, folder: Path, *words: Any, **more: Any) -> None:
        self.cloud, self.folder = cloud, folder
        asked = made(*words, **more)
        self.manager = Manager(
            Login(cloud.url, cloud.token(), (SUBSCRIPTION,)),
            open_url,
            ca_path=str(folder / "authority.pem"),
        )
        version = {"api-version": "2022-09-01"}
        path = f"{CLOUD_GROUP}/providers/Microsoft.Resources/deployments/trueup-{RUN}"
        document = template.template(asked, known(), RUN, cloud.url)
        parameters = {
            name: {"value": "ssh-ed25519 AAAA one" if name == template.KEY else "Abcd-1234-efgh"}
            for name in document["parameters"]
        }
        body = {"mode": "Incremental", "template": document, "parameters": parameters}
        group = template.resource_group(asked, RUN)
        self.manager.request("PUT", CLOUD_GROUP, version, group)
        self.manager.request("PUT", path, version, {"properties": body})
        cloud.settle()
        assert cloud.broken == []

    def attach(self, machine: str) -> str:
        """A data disk of a user, as az vm disk attach --new makes one."""
        version = {"api-version": "2024-07-01"}
        storage = self.manager.get(machine, version)["properties"]["storageProfile"]
        new = {"lun": 40, "createOption": "Empty", "diskSizeGB": 64, "name": "theirs"}
        disks = [*storage.get("dataDisks", []), new]
        body = {"properties": {"storageProfile": {"dataDisks": disks}}}
        self.manager.request("PATCH", machine, version, body)
        self.cloud.settle()
        return f"{COMPUTE}/disks/theirs"

    def teardown(self) -> Teardown:
        return Teardown(self.manager, known(), RUN, tell=lambda _: None)

    def expire(self) -> None:
        """One pass of the login node's program after the run's time."""
        azure: Any = expiry.Azure.__new__(expiry.Azure)
        azure.config = {
            "manager": self.cloud.url,
            "run": RUN,
            "expires": "2020-01-01T00:00Z",
            "versions": {"groups": "2022-09-01", "compute": "2024-07-01"},
        }
        azure.ends = time.monotonic() + 300
        azure.date = 4e9
        azure.token = self.cloud.token()
        context = ssl.create_default_context(cafile=str(self.folder / "authority.pem"))
        azure.opener = urllib.request.build_opener(urllib.request.HTTPSHandler(context=context))
        azure.group, azure.self = CLOUD_GROUP, f"{COMPUTE}/virtualMachines/login"
        expiry.one_pass(azure)
        self.cloud.settle()

    def left(self) -> list[str]:
        return sorted(one.id for one in self.cloud.resources.values())


@pytest.fixture
def deploy(tmp_path: Path) -> Iterator[Any]:
    cloud = Cloud()
    with serving(cloud, tmp_path):
        yield lambda *words, **more: Deployed(cloud, tmp_path, *words, **more)
    cloud.close()


NFS = {"kind": "nfs", "tib": 2, "server_size": "Standard_E64ds_v5"}
PLAIN = {
    "a uniform set": ({"count": 2}, {}),
    "a single machine": ({"count": 1, "placement": "single"}, {}),
    "an NFS server with its disks": ({"count": 2}, {"storage": NFS}),
}


@pytest.mark.parametrize("way", ["teardown", "expire"])
@pytest.mark.parametrize("name", PLAIN)
def test_a_plain_run_is_deleted_with_its_group(deploy: Any, name: str, way: str) -> None:
    nodes, more = PLAIN[name]
    run = deploy(nodes, **more)
    kinds = [one.partition("Microsoft.Compute/")[2].partition("/")[0] for one in run.left()]
    assert kinds.count("disks") >= 2
    if way == "teardown":
        assert run.teardown().end() == []
    else:
        run.expire()
    assert (run.left(), run.cloud.groups) == ([], {})


@pytest.mark.parametrize("way", ["teardown", "expire", "no room"])
@pytest.mark.parametrize("machine", ["login", "nfs"])
def test_a_users_disk_survives_its_machine(deploy: Any, way: str, machine: str) -> None:
    run = deploy({"count": 2}, storage=NFS)
    disk = run.attach(f"{COMPUTE}/virtualMachines/{machine}")
    if way == "expire":
        run.expire()
    elif way == "teardown":
        [group] = run.teardown().end()
        assert group.others == [disk]
    else:
        asked = made({"count": 2})
        with pytest.raises(TrueupError, match="is kept, for it holds 1 resources"):
            Deployment(run.manager, asked, known(), RUN, lambda _: None).remove()
    assert (disk in run.left(), list(run.cloud.groups)) == (True, ["trueup-x"])
    if way != "expire":
        assert run.left() == [disk]
