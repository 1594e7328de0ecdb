"""A session host of Azure Virtual Desktop and its pool, against the emulated cloud, whose broker a
fake machine's agent registers with."""

from __future__ import annotations

import base64
import contextlib
import io
import json
import time
import urllib.error
import urllib.parse
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from email.message import Message
from typing import Any

import pytest
from emulated_cloud import SUBSCRIPTION, Cloud, Models, Reply, desktops
from helpers import parametrized, said
from hypothesis import given
from hypothesis import strategies as st
from provisioning import known
from trueup_controller.azure.login import Login
from trueup_controller.azure.manager import Manager
from trueup_controller.azure.teardown import Teardown
from trueup_controller.desktops.avd_agent import Agent, Event, events_of, joined
from trueup_controller.desktops.host_pools import Desktops, Location, ends_of, host_of, moment
from trueup_controller.desktops.session_host import Identity, Outcome, Work, end_pools, identity_of
from trueup_node.errors import BadInput, TrueupError

GROUP = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/cad"
VM = f"{GROUP}/providers/Microsoft.Compute/virtualMachines/nx-1"
POOL = f"{GROUP}/providers/Microsoft.DesktopVirtualization/hostPools/nx-pool"
PROPERTIES = {
    "hostPoolType": "Pooled",
    "loadBalancerType": "BreadthFirst",
    "preferredAppGroupType": "Desktop",
    "maxSessionLimit": 5,
    "customRdpProperty": "targetisaadjoined:i:1",
    "startVMOnConnect": False,
}
DESKTOP = {"name": "nx-desk", "properties": {"applicationGroupType": "Desktop"}, "applications": []}
APPS = {
    "name": "nx-apps",
    "properties": {"applicationGroupType": "RemoteApp"},
    "applications": [
        {
            "name": "nx",
            "properties": {
                "applicationType": "InBuilt",
                "filePath": "C:\\ugraf.exe",
                "commandLineSetting": "DoNotAllow",
            },
        }
    ],
}
ANA = {"id": "11111111-2222-3333-4444-555555555555", "type": "User"}
SETTINGS = {
    "pool": "nx-pool",
    "registered_elsewhere": "refuse",
    "registration_seconds": 60,
    "health_seconds": 60,
    "heartbeat_seconds": 300,
    "drain": "required",
    "drain_seconds": 100,
    "drain_message": "Please sign out.",
}


# Members that readers look for, among others.
NAMES = st.sampled_from(
    [
        *("allowNewSession", "sessions", "lastHeartBeat", "sessionHostHealthCheckResults"),
        *("healthCheckResult", "additionalFailureDetails", "message", "id", "when", "status", "x"),
    ]
)
INSTALLED = Agent(agent=True, loader=True, registered=False, running=True)


class Clock:
    """A time that passes by sleeping."""

    def __init__(self) -> None:
        self.seconds, self.then = 1000.0, lambda: None

    def __call__(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        # The emulated cloud ends what it has begun in threads of its own.
        time.sleep(0.001)
        self.seconds += seconds
        self.then()


class Site:
    """The emulated cloud, asked without a network; a login; a resource group."""

    def __init__(self) -> None:
        self.cloud, self.clock = Cloud(), Clock()
        self.cloud.url = "https://localhost"
        self.cloud.validate = Models()
        self.cloud.directory.add(ANA["id"])
        self.manager = Manager(
            Login(self.cloud.url, self.cloud.token(), (SUBSCRIPTION,)),
            self.open,
            deadline_seconds=10_000,
            sleep=self.clock.sleep,
            clock=self.clock,
            jitter=lambda: 0.0,
        )
        self.manager.request("PUT", GROUP, {"api-version": "2022-09-01"}, {"location": "eastus"})
        self.asked: list[tuple[str, str]] = []

    def open(self, url: str, **given: Any) -> Any:
        parts = urllib.parse.urlsplit(url)
        query = dict(urllib.parse.parse_qsl(parts.query))
        body = json.loads(given["data"]) if given["data"] else None
        method, word = given["method"], given["headers"]["Authorization"]
        if hasattr(self, "asked"):
            self.asked.append((method, parts.path.rpartition("/")[2]))
        reply = self.cloud.call(method, parts.path, query, body, word)
        text = b"" if reply.document is None else json.dumps(reply.document).encode()
        head = Message()
        for key, value in reply.headers.items():
            head[key] = value
        if reply.status >= 300:
            raise urllib.error.HTTPError(url, reply.status, "", head, io.BytesIO(text))
        answer = io.BytesIO(text)
        answer.status, answer.headers = reply.status, head  # type: ignore[attr-defined]
        return answer

    def desktops(self, **more: Any) -> Desktops:
        place = Location(SUBSCRIPTION, "cad", "nx-pool")
        return Desktops(self.manager, place, tell=lambda _: None, **more)

    def made(self, **more: Any) -> Any:
        given = {"location": "eastus", "tags": {"run": "r"}, **more}
        return self.desktops().settle(PROPERTIES, **given)

    def host(self, **said: Any) -> None:
        desktops.set_host(self.cloud, "nx-1", **said)

    def kept(self) -> dict[str, Any]:
        return dict(self.cloud.resource(POOL).state["hosts"]["nx-1"])


@dataclass
class Fake:
    """A machine: its registry's and service's state, and an agent that registers at the broker."""

    cloud: Cloud
    state: Agent = INSTALLED
    note: str = ""
    tokens: list[str] = field(default_factory=list)
    log: list[Event] = field(default_factory=list)
    deaf: bool = False

    def agent(self) -> Agent:
        return self.state

    def start(self) -> None:
        self.state = replace(self.state, running=True)

    def register(self, token: str) -> None:
        self.tokens.append(token)
        self.state = replace(self.state, registered=False)
        if self.deaf:
            return
        body = {"token": token, "vmId": "vm-1", "name": "nx-1", "resourceId": VM}
        reply = self.cloud.call("POST", desktops.BROKER, {}, body, "")
        if reply.status == 200:
            self.state = replace(self.state, registered=True, running=True)
        else:
            code = reply.document["error"]["code"]
            self.log.append(Event(3277, f"{code}\nsent", datetime.now(timezone.utc)))

    def forget(self) -> None:
        self.tokens.append("")

    def events(self) -> list[Event]:
        return self.log

    def mark(self, text: str) -> None:
        self.note = text

    def marked(self) -> str:
        return self.note


def work(site: Site, machine: Fake, **more: Any) -> Work:
    settings = {**SETTINGS, **more.pop("settings", {})}
    pool = more.pop("pool", site.desktops(check=more.get("check", False)))
    given = {
        "who": Identity("nx-1", "VM-1", VM.upper(), SUBSCRIPTION, "cad", "eastus"),
        "new_token": (lambda: pool.token(4)) if pool else (lambda: ""),
        "sleep": site.clock.sleep,
        "clock": site.clock,
        **more,
    }
    return Work(machine=machine, desktops=pool, settings=settings, **given)


def joined_site(**said: Any) -> tuple[Site, Fake]:
    """A pool with one host that serves users."""
    site = Site()
    site.made()
    machine = Fake(site.cloud)
    work(site, machine).registered()
    site.host(**said)
    return site, machine


def error(call: Any, *given: Any) -> str:
    with pytest.raises(TrueupError) as raised:
        call(*given)
    return str(raised.value)


# -- the pool --


def test_a_pool_is_made_as_declared_and_then_left_alone() -> None:
    site = Site()
    more = {"groups": [DESKTOP, APPS], "workspace": "nx-space", "users": [ANA]}
    made = [one.what for one in site.made(**more)]
    assert made == [
        "hostPools/nx-pool",
        "applicationGroups/nx-desk",
        f"role assignment of {ANA['id']} on nx-desk",
        "applicationGroups/nx-apps",
        "applications/nx",
        f"role assignment of {ANA['id']} on nx-apps",
        "workspaces/nx-space",
    ]
    assert site.made(**more) == []
    regional = [one for one in site.cloud.resources.values() if one.location]
    assert [one.tags for one in regional] == [{"run": "r"}] * 4
    space = next(one for one in regional if one.name == "nx-space")
    shown = space.properties["applicationGroupReferences"]
    assert [one.rpartition("/")[2] for one in shown] == ["nx-desk", "nx-apps"]
    roles = [one for one in site.cloud.resources.values() if "roleAssign" in one.kind]
    assert {one.properties["roleDefinitionId"].rpartition("/")[2] for one in roles} == {
        "1d18fff3-a72a-46b5-b4a9-0b38a3cd7e63"
    }


def test_groups_of_others_stay_in_the_workspace() -> None:
    site = Site()
    site.made(groups=[DESKTOP], workspace="nx-space")
    site.made(groups=[APPS], workspace="nx-space")
    kept = next(one for one in site.cloud.resources.values() if one.name == "nx-space").properties
    names = [one.rpartition("/")[2] for one in kept["applicationGroupReferences"]]
    assert names == ["nx-desk", "nx-apps"]


def test_check_mode_changes_nothing_and_says_all() -> None:
    site = Site()
    changes = site.desktops(check=True).settle(
        PROPERTIES,
        location="eastus",
        tags={},
        groups=[DESKTOP, APPS],
        workspace="nx-space",
        users=[ANA],
    )
    assert (len(changes), site.cloud.resources) == (7, {})
    assert {method for method, _ in site.asked} == {"GET"}


def test_what_azure_does_not_change_is_refused() -> None:
    site = Site()
    site.made()
    other = {**PROPERTIES, "hostPoolType": "Personal", "loadBalancerType": "Persistent"}
    text = error(lambda: site.desktops().settle(other, location="eastus", tags={}))
    assert "hostPools/nx-pool has hostPoolType 'Pooled' and not 'Personal'" in text


def test_an_automated_pool_is_refused() -> None:
    site = Site()
    site.made()
    desktops.automate(site.cloud, POOL)
    for call in (site.made, site.desktops().known, lambda: site.desktops().token(4)):
        assert "managed by a session host configuration (managementType Automated)" in error(call)


@pytest.mark.parametrize(
    ("place", "part"),
    [
        (Location(SUBSCRIPTION, "cad", "none-such"), "there is no host pool none-such in"),
        (Location(SUBSCRIPTION, "none", "nx-pool"), "avd_session_host_resource_group (none)"),
        (Location("1" * 8, "cad", "nx-pool"), "avd_session_host_subscription (11111111)"),
    ],
)
def test_a_wrong_place_is_named(place: Location, part: str) -> None:
    site = Site()
    assert part in error(Desktops(site.manager, place).known)


# -- registration --


def test_a_fresh_host_registers_and_a_second_run_changes_nothing() -> None:
    site = Site()
    site.made()
    machine = Fake(site.cloud)
    first = work(site, machine).registered()
    assert (first.changed, first.values) == (True, {"fresh": True})
    assert work(site, machine).well().said == ["nx-1: Available, 0 sessions"]
    site.asked.clear()
    again = [work(site, machine).registered(), work(site, machine).well()]
    assert [(one.changed, one.warnings) for one in again] == [(False, []), (False, [])]
    assert ({method for method, _ in site.asked}, len(machine.tokens)) == ({"GET"}, 1)
    assert len(site.asked) == 4
    assert site.made() == []


def test_hosts_side_by_side_use_one_token_until_it_is_nearly_over() -> None:
    site = Site()
    site.made()
    first = site.desktops().token(4)
    assert site.desktops().token(4) == first
    later = datetime.now(timezone.utc) + timedelta(hours=3, minutes=50)
    assert site.desktops(now=lambda: later).token(4) != first
    assert len(first.split(".")) == 3


def test_no_secret_is_shown() -> None:
    site = Site()
    machine = Fake(site.cloud)
    assert "s3cret" not in repr(work(site, machine, token="s3cret"))


def test_a_token_that_has_expired_is_not_even_tried() -> None:
    site = Site()
    site.made()
    machine = Fake(site.cloud)
    pool = site.cloud.resource(POOL)
    old = desktops.token_of(pool, datetime(2026, 11, 1, tzinfo=timezone.utc))
    text = error(work(site, machine, token=old).registered)
    assert text.startswith("the registration token expired 2026-11-01T00:00Z: make another one")
    assert machine.tokens == []


def test_a_token_that_the_service_refuses_is_named_by_its_event() -> None:
    site = Site()
    machine = Fake(site.cloud)
    text = error(work(site, machine, token="foreign", pool=None).registered)
    assert "INVALID_REGISTRATION_TOKEN (event 3277): the token of avd_session_host_token" in text
    assert machine.tokens == ["foreign", ""]
    # Before the time is over.
    assert ("foreign" in text, 1030 <= site.clock.seconds <= 1035) == (False, True)


def test_an_agent_that_does_not_answer_is_given_up() -> None:
    site = Site()
    site.made()
    machine = Fake(site.cloud, deaf=True)
    machine.log.append(Event(3703, "RD Gateway Url: not accessible", datetime.now(timezone.utc)))
    machine.log.append(
        Event(
            3277,
            "INVALID_REGISTRATION_TOKEN of last week",
            datetime.min.replace(tzinfo=timezone.utc),
        )
    )
    text = error(work(site, machine).registered)
    assert "did not register within 60 s: event 3703: RD Gateway Url" in text
    assert 1060 <= site.clock.seconds <= 1065


def test_a_vaults_token_serves_where_azure_is_not_asked() -> None:
    site = Site()
    site.made()
    token = site.desktops().token(4)
    machine = Fake(site.cloud)
    alone = work(site, machine, token=token, pool=None)
    site.asked.clear()
    assert alone.registered().changed is True
    assert "not measured" in alone.well().said[0]
    assert (site.asked, alone.registered().changed) == ([], False)
    assert "users on it would lose their work" in error(alone.drained)
    machine.note = "2026-11-23T18:00:00Z"
    out = alone.given_back([])
    assert (out.changed, out.warnings[0][:30]) == (False, "nx-1 stays drained: Azure is n")
    fresh = Fake(site.cloud)
    assert work(site, fresh, pool=None).drained().said == ["not registered: nobody is on it"]


def test_a_stopped_agent_is_started_and_keeps_its_registration() -> None:
    site, machine = joined_site()
    machine.state = replace(machine.state, running=False)
    assert work(site, machine).registered().changed is True
    assert (machine.state.running, len(machine.tokens)) == (True, 1)


def test_a_host_of_another_pool_is_moved_only_when_told() -> None:
    site = Site()
    site.made()
    machine = Fake(site.cloud, Agent(agent=True, loader=True, registered=True, running=True))
    text = error(work(site, machine).registered)
    assert "registered, and the pool nx-pool has no host that is this machine (nx-1)" in text
    moved = work(site, machine, settings={"registered_elsewhere": "move"})
    assert moved.registered().changed is True
    assert site.kept()["name"] == "nx-1"


def test_check_mode_on_a_fresh_and_on_a_converged_host() -> None:
    site = Site()
    machine = Fake(site.cloud, Agent(agent=False, loader=False, registered=False, running=False))
    fresh = work(site, machine, check=True)
    said = [fresh.registered().changed, fresh.well().changed, fresh.drained().changed]
    assert (said, machine.tokens, site.cloud.resources) == ([True, False, False], [], {})
    site, machine = joined_site()
    there = work(site, machine, check=True)
    assert [there.registered().changed, there.well().changed] == [False, False]
    assert (there.drained().said, site.kept()["allow"]) == (["nx-1 would be drained"], True)


# -- health --


@parametrized(("said", "part"))
def test_a_host_that_does_not_serve_users_is_waited_for_and_then_named(
    said: dict[str, Any], part: str
) -> None:
    site, machine = joined_site(**said)
    text = error(work(site, machine).well)
    assert text.startswith("nx-1 does not serve users of the pool nx-pool after 60 s: ")
    assert part in text


def test_a_host_that_somebody_else_drained_is_warned_of() -> None:
    site, machine = joined_site(allow_new_session=False)
    [warning] = work(site, machine).well().warnings
    assert "it was not trueup that drained it" in warning
    machine.note = "2026-11-23T18:00:00Z"
    assert work(site, machine).well().warnings == []


# -- draining --


def test_users_who_stay_keep_their_host_and_it_is_given_back_unchanged() -> None:
    site, machine = joined_site(sessions=[{"user": "bo"}, {"user": "ana"}])
    text = error(work(site, machine).drained)
    assert text.startswith("2 sessions are still on nx-1 after 100 s: ana (Active), bo (Active).")
    kept = site.kept()
    assert (kept["allow"], len(kept["in"]), machine.note) == (True, 2, "")
    # Each was told once.
    assert len(kept["messages"]) == 2


def test_a_host_is_given_back_where_azure_does_not_say_who_is_on_it() -> None:
    site, machine = joined_site()
    site.cloud.trouble.add(kind="reply", path="userSessions", status=404, times=1)
    assert "status 404" in error(work(site, machine).drained)
    assert (site.kept()["allow"], machine.note) == (True, "")


def test_a_host_that_somebody_else_drained_stays_drained() -> None:
    site, machine = joined_site(allow_new_session=False)
    assert work(site, machine).drained().changed is False
    assert work(site, machine).given_back([]).changed is False
    assert (site.kept()["allow"], machine.note) == (False, "")


def test_a_host_on_which_a_role_failed_stays_drained() -> None:
    site, machine = joined_site()
    work(site, machine).drained()
    out = work(site, machine).given_back(["windows_gpu"])
    assert out.warnings == ["nx-1 stays drained: windows_gpu failed. Mend it, and run again"]
    assert (site.kept()["allow"], bool(machine.note)) == (False, True)
    # The next run gives back what the one before had to leave.
    assert work(site, machine).drained().changed is False
    assert work(site, machine).given_back([]).changed is True


def test_a_host_that_is_not_well_after_the_change_stays_drained() -> None:
    site, machine = joined_site()
    work(site, machine).drained()
    site.host(status="SxSStackListenerNotReady")
    assert error(work(site, machine).given_back, []).endswith("run again when it is well")
    assert (site.kept()["allow"], bool(machine.note)) == (False, True)


def test_a_run_that_died_while_it_drained_is_made_good_by_the_next() -> None:
    site, machine = joined_site()
    dies = work(site, machine)
    site.clock.then = lambda: (_ for _ in ()).throw(KeyboardInterrupt)
    site.host(sessions=[{"user": "bo"}])
    with pytest.raises(KeyboardInterrupt):
        dies.drained()
    assert (site.kept()["allow"], bool(machine.note)) == (False, True)
    site.clock.then = lambda: None
    site.host(sessions=[])
    assert work(site, machine).given_back([]).said == ["nx-1 takes new sessions again"]


def test_nothing_is_drained_that_is_in_no_pool() -> None:
    site = Site()
    machine = Fake(site.cloud)
    assert work(site, machine).drained() == Outcome(
        False, ["not in the pool nx-pool: nobody is on it"]
    )
    never = work(site, machine, settings={"drain": "never"})
    assert never.drained() == Outcome(False, ["not drained: avd_session_host_drain is never"])


def test_a_pool_is_drained_and_emptied_before_its_machines_go() -> None:
    site, machine = joined_site(sessions=[{"user": "ana", "leaves": True}])
    machine.register(site.desktops().token(4))
    body = {"token": site.desktops().token(4), "vmId": "vm-2", "name": "nx-2"}
    site.cloud.call("POST", desktops.BROKER, {}, body, "")
    desktops.set_host(site.cloud, "nx-2", sessions=[{"user": "bo"}])
    said: list[str] = []
    told = {"title": "The end", "text": "Sign out.", "seconds": 60.0, "tell": said.append}
    rows = [
        {"id": VM, "type": "Microsoft.Compute/virtualMachines"},
        {"id": f"{POOL}-2", "type": "microsoft.desktopvirtualization/hostpools", "name": "2"},
        {"id": "/x", "type": "Microsoft.DesktopVirtualization/hostPools", "name": "odd"},
        {"id": POOL.replace("resourceGroups", "resourcegroups"), "type": desktops.POOL},
    ]
    hosts = site.cloud.resource(POOL).state["hosts"]
    messages = [hosts[name]["messages"] for name in ("nx-1", "nx-2")]
    end_pools(site.manager, rows, **told)
    # Both were told before either was waited for, and once.
    assert [[one["user"] for one in each] for each in messages] == [["ana"], ["bo"]]
    assert site.clock.seconds == 1060
    assert "ResourceNotFound" in said[0]
    assert said[1] == "host pool odd: '/x' is no host pool's id"
    assert said[-1] == (
        "host pool nx-pool: 2 hosts drained; their time was over, and these users lose what they"
        " have not saved: bo"
    )
    assert site.cloud.resource(POOL).state["hosts"] == {}
    site.manager.request("DELETE", POOL, {"api-version": "2024-04-03"})
    assert [one.name for one in site.cloud.resources.values()] == []


@pytest.mark.parametrize("whole", [True, False])
def test_teardown_drains_a_runs_pool_and_deletes_all_of_it(whole: bool) -> None:
    site, _ = joined_site()
    run = "20261123T180000Z-7c1e"
    tags = {"run": run}
    site.made(tags=tags, groups=[DESKTOP, APPS], workspace="nx-space")
    site.host(sessions=[{"user": "bo"}])
    if whole:
        place = {"location": "eastus", "tags": tags}
        site.manager.request("PUT", GROUP, {"api-version": "2022-09-01"}, place)
    else:
        other = POOL.replace("nx-pool", "another")
        body = {"location": "eastus", "properties": PROPERTIES}
        site.manager.request("PUT", other, {"api-version": "2024-04-03"}, body)
    said: list[str] = []
    work = Teardown(site.manager, known(), run, said.append)
    left = work.left(work.end(), lambda *_: None)
    site.cloud.settle()
    assert (left.ids, site.cloud.broken) == ((), [])
    names = [one.name for one in site.cloud.resources.values()]
    assert (names, list(site.cloud.groups)) == (([], []) if whole else (["another"], ["cad"]))
    [told] = [one for one in said if one.startswith("host pool nx-pool: 1 hosts drained")]
    assert told.endswith("lose what they have not saved: bo")


# -- Azure in trouble --


def test_a_refusal_of_azures_is_one_sentence() -> None:
    site, machine = joined_site()
    site.cloud.trouble.add(kind="rights", path="retrieveRegistrationToken", times=0)
    text = error(site.desktops().token, 4)
    assert "Desktop Virtualization Host Pool Contributor on the pool is enough" in text
    site.cloud.trouble.add(kind="subscription", path="hostPools", times=0)
    assert "check avd_session_host_subscription" in error(work(site, machine).drained)
    assert site.kept()["allow"] is True


def test_an_answer_that_makes_no_sense_is_refused() -> None:
    site, machine = joined_site()
    for row in ({}, {"id": "/x", "properties": None}, {"id": "/x", "properties": {}}):
        assert error(host_of, row)
    call = site.cloud.call

    def odd(method: str, path: str, *more: Any) -> Reply:
        if path.endswith("sessionHosts"):
            return Reply(200, {"value": "none"})
        return call(method, path, *more)

    site.cloud.call = odd  # type: ignore[method-assign]
    assert "without a list of entries" in error(work(site, machine).drained)


def test_a_token_is_asked_for_again_where_azure_itself_fails() -> None:
    site, _ = joined_site()
    site.cloud.trouble.add(kind="reply", path="retrieveRegistrationToken", status=502)
    site.cloud.trouble.add(kind="reply", path="hostPools", method="PATCH", status=504)
    assert ends_of(site.desktops().token(4)) is not None
    later = datetime.now(timezone.utc) + timedelta(hours=4)
    assert ends_of(site.desktops(now=lambda: later).token(4)) is not None


def test_users_who_go_while_they_are_signed_out_are_no_trouble() -> None:
    site, machine = joined_site(sessions=[{"user": "bo"}, {"user": "ana"}])
    gone = {"kind": "reply", "path": "userSessions", "status": 404, "code": "NotFound"}
    site.cloud.trouble.add(method="POST", **gone)
    site.cloud.trouble.add(method="DELETE", **gone)
    out = work(site, machine, settings={"drain": "sign_out"}).drained()
    assert (out.changed, site.kept()["in"]) == (True, [])
    refused = {"kind": "reply", "path": "userSessions", "status": 409, "code": "Conflict"}
    site.host(sessions=[{"user": "bo"}])
    site.cloud.trouble.add(method="DELETE", times=0, **refused)
    again = work(site, machine, settings={"drain": "sign_out"})
    assert "Conflict" in error(again.drained)


# -- readers --


@parametrized(("text", "microsecond"))
def test_times_of_the_service_are_read(text: str, microsecond: int) -> None:
    assert moment(text) == datetime(2008, 9, 22, 14, 1, 54, microsecond, timezone.utc)


@pytest.mark.parametrize("more", ["", "x", "xx", "xxx", "xxxx"])
def test_when_a_token_ends_is_read_whatever_its_length(more: str) -> None:
    body = json.dumps({"exp": 1795000000, "more": more}).encode()
    part = base64.urlsafe_b64encode(body).decode().rstrip("=")
    assert ends_of(f"e30.{part}.sign") == datetime(2026, 11, 18, 11, 6, 40, tzinfo=timezone.utc)


def test_what_a_host_does_not_say_is_empty() -> None:
    silent = {
        "allowNewSession": True,
        **dict.fromkeys(("virtualMachineId", "resourceId", "status", "sessions", "lastHeartBeat")),
        "sessionHostHealthCheckResults": [{"healthCheckName": "UrlsAccessibleCheck"}, "odd"],
    }
    host = host_of({"id": "/x/nx-1", "properties": silent})
    assert (host.vm_id, host.resource_id, host.status, host.sessions) == ("", "", "", 0)
    assert host.failed == ("UrlsAccessibleCheck: no result",)
    assert host.troubles(datetime.now(timezone.utc)) == [
        "its status in the pool is not said (UrlsAccessibleCheck: no result)",
        "no heartbeat of it is known",
    ]


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=6),
    max_leaves=24,
)


@given(ANYTHING)
def test_readers_take_whatever_comes(value: Any) -> None:
    """A value, or one sentence."""
    row = {"id": "/x/nx-1", "properties": value}
    with contextlib.suppress(TrueupError):
        assert isinstance(host_of(row).name, str)
    found = (moment(value), ends_of(str(value)), joined(None, None))
    assert found[2] == ""
    assert all(isinstance(one, Event) for one in events_of(value))


@parametrized("token")
def test_a_token_that_does_not_say_when_it_ends_is_left_to_the_service(token: str) -> None:
    assert ends_of(token) is None


def test_events_are_read_also_where_there_is_one_or_none() -> None:
    one = {"id": 3277, "message": "m", "when": "2026-11-23T18:00:00.1234567Z"}
    when = datetime(2026, 11, 23, 18, tzinfo=timezone.utc)
    assert events_of([one]) == events_of(one) == [Event(3277, "m", when)]
    assert events_of(None) == events_of([]) == events_of(["x"]) == []
    assert events_of([{"id": "x", "message": None, "when": "?"}]) == [Event(0, "", None)]
    assert (Event(1, "", when).since(when), Event(1, "", None).since(when)) == (True, True)


COMPUTE = {
    "name": "nx-1",
    "vmId": "vm-1",
    "resourceId": VM,
    "subscriptionId": SUBSCRIPTION,
    "resourceGroupName": GROUP.rpartition("/")[2],
    "location": "eastus",
}


@parametrized(("changes", "known"))
def test_a_host_is_who_it_says(changes: dict[str, Any], known: dict[str, Any]) -> None:
    found = identity_of({**COMPUTE, **changes}, known)
    assert (found.name, found.resource_id) == ("nx-1", changes.get("resourceId", VM))


@parametrized(("changes", "known", "why"))
def test_a_host_cannot_be_another_one(
    changes: dict[str, Any], known: dict[str, Any], why: str
) -> None:
    found = said(lambda: identity_of({**COMPUTE, **changes}, known), BadInput)
    assert (found.startswith("the host is not believed: "), why in found) == (True, True)
