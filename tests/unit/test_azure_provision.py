"""A run on the emulated cloud: made, gone on with, in another place, with fewer nodes."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.urls import open_url
from emulated_cloud import SUBSCRIPTION, Cloud, serving
from helpers import parametrized, said
from provisioning import NOW, RECIPES, RUN, known, made, recipe
from trueup_controller.azure import cost, parameters, provision, run_state
from trueup_controller.azure.deployment import Change
from trueup_controller.azure.login import Login
from trueup_controller.azure.manager import Manager
from trueup_node.errors import BadInput

pytestmark = pytest.mark.slow

NFS = {"kind": "nfs", "tib": 4, "server_size": "Standard_E64ds_v5"}
ZONES = {"zone": "1", "elsewhere": [{"zone": "2"}, {"region": "westeurope"}]}


def _machine_price(_size: str, _region: str, offer: str) -> cost.Price | None:
    """Of VMs alone."""
    return None if offer == cost.SERVICE else cost.Price(3.0, "2026-11-01", "a table")


def priced(found: parameters.Parameters) -> cost.Cost:
    return cost.cost(found, _machine_price, 8.0)


class Controller:
    """A controller that is signed in to the cloud."""

    def __init__(self, cloud: Cloud, folder: Path) -> None:
        self.cloud = cloud
        self.authority = str(folder / "authority.pem")
        self.state = run_state.State(RUN)
        self.told: list[str] = []
        self.dumb: dict[str, str] = {}
        self.unmet = ""
        self.open_url: Callable[..., Any] = open_url

    def work(self, nodes: dict[str, Any] | None = None, **given: Any) -> provision.Provision:
        return self.work_on(made({"count": 2, **(nodes or {})}, **given))

    def work_on(self, found: parameters.Parameters) -> provision.Provision:
        def rest(seconds: float) -> None:
            time.sleep(min(seconds, 0.01))

        manager = Manager(
            Login(self.cloud.url, self.cloud.token(), (SUBSCRIPTION,)),
            self.open_url,
            ca_path=self.authority,
            renew=lambda: Login(self.cloud.url, self.cloud.token(), (SUBSCRIPTION,)),
            sleep=rest,
        )
        return provision.Provision(
            manager,
            found.places(),
            known(),
            self.state,
            self.told.append,
            silent=lambda nodes, *_, **__: {
                name: why for name, why in self.dumb.items() if name in nodes
            },
            unmet=lambda *_, **__: self.unmet,
            opened=lambda *_: (1080, 4711),
            sleep=rest,
        )

    def make(self, nodes: dict[str, Any] | None = None, **given: Any) -> provision.Deployed:
        return self.work(nodes, **given).make()

    def asked(self, method: str) -> list[str]:
        paths = [path for one, path, *_ in self.cloud.calls if one == method]
        return [path.rpartition("/")[2] for path in paths]

    def machines(self) -> list[str]:
        """The nodes that run in the cloud."""
        hardware = self.cloud.hardware
        return [one.name for one in hardware.machines.values() if one.tags["role"] == "compute"]

    def summary(self, there: provision.Deployed) -> str:
        return "\n".join(provision.summary(there, priced(there.made), self.state))

    def foreseen(self, found: provision.Foreseen) -> str:
        return "\n".join(provision.foreseen(found, priced(found.made)))

    @property
    def kept(self) -> dict[str, Any]:
        found: dict[str, Any] = self.state.read()
        return found


@pytest.fixture
def controller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Controller]:
    monkeypatch.setenv(run_state.VARIABLE, str(tmp_path / "state"))
    monkeypatch.setattr(provision, "LIST_SECONDS", 0.05)
    cloud = Cloud()
    # Here pauses are cut short.
    cloud.graph.quota = False
    with serving(cloud, tmp_path):
        yield Controller(cloud, tmp_path)


# ---- made, and gone on with ---------------------------------------------------------------------


def test_what_the_controller_keeps_says_what_was_made(controller: Controller) -> None:
    controller.make()
    assert controller.kept == {
        "run": RUN,
        "recipe": "test",
        "subscription": SUBSCRIPTION,
        "group": "trueup-test",
        "region": "southcentralus",
        "zone": "",
        "expires": "2026-11-23T18:00Z",
    }
    assert "s3cret" not in json.dumps(controller.kept)


def test_in_check_mode_nothing_is_made_and_nothing_kept(controller: Controller) -> None:
    found = controller.work().changes()
    assert (found.made.region, found.by_azure) == ("southcentralus", False)
    assert {one.kind for one in found.changes} == {"Create"}
    assert (controller.asked("PUT"), controller.asked("POST"), controller.kept) == ([], [], {})


def test_in_check_mode_azure_says_what_would_change(controller: Controller) -> None:
    controller.make()
    work = controller.work({"count": 3})
    found = work.changes()
    assert found.by_azure
    assert [(one.what.rpartition("/")[2], one.kind) for one in found.changes if one.counts] == [
        ("nodes", "Modify")
    ]
    text = controller.foreseen(found)
    assert "1 resources would change in southcentralus, resource group trueup-test: Modify " in text
    assert "Azure cannot say" not in text
    odd = Change("an extension", "Unsupported", why="It is nested")
    assert "Azure cannot say what becomes of an extension: It is nested." in controller.foreseen(
        replace(found, changes=[odd])
    )


@pytest.mark.parametrize("room", [True, False])
def test_a_run_that_is_killed_at_any_call_goes_on(controller: Controller, room: bool) -> None:
    class Killed(BaseException):
        pass

    if not room:
        controller.cloud.trouble.add(kind="allocation", size="HB120", zone="1", times=0)
    calls, most, ended = 0, 0, []

    def killed(url: str, **given: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == most:
            raise Killed
        return open_url(url, **given)

    while calls == most:
        most, calls = most + 1, 0
        controller.open_url = killed
        with contextlib.suppress(Killed):
            controller.make(**ZONES)
        ordered = "PUT" in [method for method, *_ in controller.cloud.calls]
        assert controller.kept or not ordered
        controller.open_url = open_url
        there = controller.make(**ZONES)
        ended.append((there.made.zone, len(there.nodes), list(controller.cloud.groups)))
        controller.cloud.calls.clear()
        assert controller.cloud.delete_group("trueup-test").done.wait(5)
        Path(controller.state.path(run_state.RUN)).unlink()
    assert set(map(str, ended)) == {str(("1" if room else "2", 2, ["trueup-test"]))}
    assert len(ended) > (10 if room else 20)


def test_a_key_that_is_lost_is_said(controller: Controller) -> None:
    controller.make()
    Path(controller.state.path(run_state.KEY)).unlink()
    assert "its key is not in" in said(controller.make, BadInput)


def test_another_runs_group_is_refused(controller: Controller, tmp_path: Path) -> None:
    controller.make()
    controller.state = run_state.State("20261123T110000Z-0000")
    text = said(controller.make, BadInput)
    assert f"is of the run {RUN}" in text
    assert controller.kept == {}


@pytest.mark.parametrize("name", RECIPES)
def test_each_recipe_is_made_and_again_nothing_changes(controller: Controller, name: str) -> None:
    own = {"owner": "x", "ssh_from": ["203.0.113.7/32"]}
    found = parameters.read(name, [recipe(name), own], known(), NOW)
    first, again = (controller.work_on(found).make() for _ in range(2))
    assert (first.changed, again.changed, again.notes) == (True, False, [])
    assert len(again.nodes) == found.nodes.count
    assert [one for one in controller.work_on(found).changes().changes if one.counts] == []


@parametrized(("dumb", "unmet", "why"))
def test_an_nfs_server_without_its_disks_is_said(
    controller: Controller, dumb: dict[str, str], unmet: str, why: str
) -> None:
    controller.dumb, controller.unmet = dumb, unmet
    text = said(lambda: controller.make(storage=NFS))
    assert text == f"the NFS server nfs is not ready ({why}): what was made is there and bills"


def test_an_nfs_server_that_does_not_run_is_said(controller: Controller) -> None:
    controller.make(storage=NFS)
    every = controller.cloud.resources.items()
    [server] = [one for path, one in every if path.endswith("/virtualmachines/nfs")]
    server.state["power"] = "deallocated"
    assert "nfs is not ready (it is not listed" in said(lambda: controller.make(storage=NFS))


# ---- no room ------------------------------------------------------------------------------------


def test_every_place_that_was_tried_is_named_and_nothing_is_left(controller: Controller) -> None:
    controller.cloud.trouble.add(kind="allocation", size="HB120", times=0)
    text = said(lambda: controller.make(**ZONES))
    places = ("zone 1 of southcentralus: ", "zone 2 of southcentralus: ", "westeurope: ")
    assert [place for place in places if place not in text] == []
    assert controller.cloud.groups == {}
    assert controller.kept["group"] == "trueup-test"


def test_without_quota_the_nearest_region_that_has_it_is_named(controller: Controller) -> None:
    controller.cloud.limits["southcentralus", "standardhbv3family"] = 0
    text = said(controller.make, BadInput)
    assert "240 vCPUs of quota 'standardHBv3Family' are missing" in text
    assert "the nearest region that has all of it for this subscription is" in text
    assert (controller.asked("PUT"), controller.kept) == ([], {})


# ---- fewer nodes --------------------------------------------------------------------------------


def test_a_node_that_does_not_answer_is_named(controller: Controller) -> None:
    controller.dumb = {"nodes_1": "no answer by ssh: timed out"}
    text = said(controller.make)
    assert text == (
        "1 of 2 nodes answer (nodes_1: no answer by ssh: timed out), and 2 are needed: what was"
        " made is there and bills"
    )


@pytest.mark.parametrize("placement", ["uniform", "flexible", "single"])
def test_fewer_nodes_are_used_where_they_are_enough(controller: Controller, placement: str) -> None:
    nodes = {"count": 3, "least": 2, "placement": placement}
    nodes["size"] = "Standard_NC24ads_A100_v4"
    work = controller.work(nodes)
    first = work.make()
    controller.dumb = {first.nodes[1].name: "no answer by ssh"}
    there = controller.make(nodes)
    assert [one.name for one in there.nodes] == [first.nodes[0].name, first.nodes[2].name]
    assert there.notes == [f"2 of 3 nodes are used: {first.nodes[1].name}: no answer by ssh"]
    assert controller.kept["nodes"] == 2
    assert len(controller.machines()) == 2
    again = controller.make(nodes)
    assert (again.changed, len(again.nodes)) == (False, 2)


def test_a_set_that_azure_fills_in_part_is_used_where_that_is_enough(
    controller: Controller,
) -> None:
    controller.cloud.trouble.add(kind="allocation", size="NC24ads", name="node002", times=0)
    size = "Standard_NC24ads_A100_v4"
    nodes = {"count": 3, "least": 2, "placement": "single", "size": size}
    there = controller.make(nodes)
    assert [one.name for one in there.nodes] == ["node001", "node003"]
    assert there.notes == ["2 of 3 nodes are used: Azure had no room for more"]
    assert len(controller.machines()) == 2
    assert "2 of 3 nodes of" in controller.summary(there)
    assert ", priced as 3 nodes." in controller.summary(there)
    again = controller.make(nodes)
    assert (again.changed, len(again.nodes)) == (False, 2)


def test_a_login_node_that_does_not_end_the_run_is_said(controller: Controller) -> None:
    controller.unmet = "AuthorizationFailed"
    [said] = controller.make().notes
    assert said.startswith("the login node does not end the run when the controller dies")
    assert said.endswith("AuthorizationFailed")


def test_without_the_switch_nobody_asks_for_it(controller: Controller) -> None:
    controller.unmet = "inactive"
    assert controller.make(switch="none").notes == []


# ---- what else goes wrong -----------------------------------------------------------------------


def test_throttling_cut_answers_and_an_expired_token_are_borne(controller: Controller) -> None:
    trouble = controller.cloud.trouble
    trouble.add(kind="throttle", path="deployments", times=3)
    trouble.add(kind="reply", path="operations", status=503)
    trouble.add(kind="cut", path="operations/")
    calls = 0

    def expiring(url: str, **given: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls in (5, 9):
            for token in controller.cloud.tokens.values():
                token.expires = 0.0
        return open_url(url, **given)

    controller.open_url = expiring
    assert len(controller.make().nodes) == 2
    assert len(controller.cloud.tokens) == 3


def test_what_is_said_of_a_run_is_all_that_its_owner_needs(controller: Controller) -> None:
    there = controller.make()
    text = controller.summary(there)
    assert "priced as" not in text
    folder = controller.state.folder
    for part in (
        f"Run {RUN}: 2 of 2 nodes of Standard_HB120rs_v3 and a login node ({there.login})",
        "in southcentralus, resource group trueup-test (made).",
        "It costs at least 9.00 US$ an hour, 216.00 US$ a day, 72.00 US$ until it expires",
        "Not priced: disks of nodes (StandardSSD_LRS, 128 GiB each); ",
        "It expires 2026-11-23T18:00Z.",
        "the login node asks Azure within",
        f"Log in: ssh -F {folder}/ssh_config login",
        f"ansible-playbook -i {folder}/inventory site.yml",
        f"playbooks/teardown.yml -e trueup_azure_run={RUN}",
    ):
        assert part in text


def test_a_deployment_that_does_not_end_is_left_to_azure(
    controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provision, "DEPLOY_SECONDS", 2)
    controller.cloud.pace = 1000.0
    text = said(controller.make)
    assert f"deployment trueup-{RUN} is not finished (" in text
    assert "Azure Resource Manager goes on with it" in text
    assert controller.kept["group"] == "trueup-test"


def test_a_switch_without_rights_names_them(controller: Controller) -> None:
    controller.cloud.trouble.add(
        kind="fail", type="roleAssignments", code="AuthorizationFailed", message="No."
    )
    text = said(controller.make)
    assert "switch: none deploys without it" in text
    assert len(controller.cloud.groups) == 1


# ---- the security type is read back -------------------------------------------------------------


@pytest.mark.parametrize("placement", ["uniform", "flexible", "single"])
def test_secure_boot_that_a_policy_turns_on_stops_the_run_before_a_node_is_reached(
    controller: Controller, placement: str
) -> None:
    controller.cloud.launched = True
    count = 1 if placement == "single" else 2
    work = controller.work({"placement": placement, "count": count})
    reached: list[Any] = []
    work = work._replace(silent=lambda *nodes, **_: reached.append(nodes) or {})
    text = said(work.make)
    assert "Secure Boot is on for node" in text
    assert "drivers of Standard_HB120rs_v3 do not load under it" in text
    assert "remove the run. What was made is there and bills" in text
    assert reached == []


def test_another_security_type_without_drivers_that_mind_is_noted(controller: Controller) -> None:
    controller.cloud.launched = True
    there = controller.make({"size": "Standard_E64ds_v5", "placement": "flexible"})
    notes = [note for note in there.notes if "security type" in note]
    assert [note.partition(": ")[2] for note in notes] == [
        "the security type is trusted_launch, and standard was asked for"
    ]


def test_the_security_type_that_was_asked_for_is_no_note(controller: Controller) -> None:
    there = controller.make({"size": "Standard_E64ds_v5"}, security="trusted_launch")
    assert [note for note in there.notes if "security type" in note] == []
