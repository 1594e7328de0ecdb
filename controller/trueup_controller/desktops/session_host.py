"""A Windows host and its host pool together: registering, waiting until it serves users, draining
it before a change and giving it back after it.

Calls to the host go through :class:`Machine`, and calls to Azure through
:class:`host_pools.Desktops`; a test can replace both.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, Callable, NamedTuple, Protocol

from trueup_node.errors import BadInput, TrueupError

from ..azure.manager import Manager
from .avd_agent import INVALID_TOKEN, Agent, Event
from .host_pools import PROVIDER, Desktops, Host, UsersStayError, ends_of, place_of

_DRAIN_TITLE = "Maintenance of this desktop"
_POLL_SECONDS = 5.0
# Of the wait for a registration, how often the host's event log is looked at.
_LOOK_SECONDS = 30.0
_MOST_EVENTS = 3
_VM = re.compile(
    r"/subscriptions/([\w-]+)/resourceGroups/([\w().-]+)/providers/Microsoft\.Compute/"
    r"(?:virtualMachineScaleSets/[\w.-]+/)?virtualMachines/[\w.-]+",
    re.IGNORECASE,
)


class Identity(NamedTuple):
    """A machine's identity on Azure, by its instance metadata."""

    name: str
    vm_id: str
    resource_id: str
    subscription: str
    group: str
    location: str


def identity_of(compute: Mapping[str, Any], inventory: Mapping[str, Any]) -> Identity:
    """The identity that a host claims. Azure is asked, and rights are given, under that name.

    Args:
        compute: of its instance metadata.
        inventory: its variables ``azure_id`` and ``azure_vmid``, where it has them.

    Raises:
        BadInput: that is no virtual machine, or another one than the inventory's.
        KeyError, TypeError: it is not as Azure writes it.
    """
    identity = Identity(
        name=compute["name"],
        vm_id=compute["vmId"],
        resource_id=compute["resourceId"],
        subscription=compute["subscriptionId"],
        group=compute["resourceGroupName"],
        location=compute["location"],
    )
    match = _VM.fullmatch(identity.resource_id)
    scope = (identity.subscription.lower(), identity.group.lower())
    if match is None or (match[1].lower(), match[2].lower()) != scope:
        raise BadInput(f"the host is not believed: {identity.resource_id!r} is no VM of its group")
    for name, value in (("azure_id", identity.resource_id), ("azure_vmid", identity.vm_id)):
        meant = str(inventory.get(name) or value)
        if meant.lower() != value.lower():
            raise BadInput(f"the host is not believed: it is {value!r}, and {name} is {meant!r}")
    return identity


class Machine(Protocol):
    """The host, as the action on the controller reaches it."""

    def agent(self) -> Agent:
        """How its agent stands."""

    def start(self) -> None:
        """Start the boot loader's service."""

    def register(self, token: str) -> None:
        """Hand the agent a token by the registry, and restart the boot loader."""

    def forget(self) -> None:
        """Take a token that is of no use out of the registry."""

    def events(self) -> list[Event]:
        """The agent's log entries of the last minutes, newest first."""

    def mark(self, text: str) -> None:
        """Write down on the host that trueup drained it; empty: take that away."""

    def marked(self) -> str:
        """When trueup drained it; empty where it has not, or has given it back."""


@dataclass
class Outcome:
    """The result: sentences for a reader, warnings among them."""

    changed: bool = False
    said: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    values: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Work:
    """One host and its pool.

    Args:
        desktops: the pool; None where Azure is not asked.
        settings: the role's options, without its prefix.
        token: that was given (avd_session_host_token); a secret.
        new_token: makes one where none was given.
        check: change nothing.
    """

    machine: Machine
    desktops: Desktops | None
    who: Identity
    settings: Mapping[str, Any]
    token: str = field(default="", repr=False)
    new_token: Callable[[], str] = lambda: ""
    check: bool = False
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic
    now: Callable[[], datetime] = lambda: datetime.now(timezone.utc)

    def in_pool(self) -> Host | None:
        if self.desktops is None:
            return None
        return self.desktops.host(self.who.vm_id, self.who.resource_id)

    # -- registering --

    def registered(self) -> Outcome:
        """See that the agent is registered and runs.

        Raises:
            TrueupError: it cannot be; why.
        """
        agent = self.machine.agent()
        if not agent.installed:
            if self.check:
                return Outcome(True, ["would register once the agent is installed"])
            raise TrueupError("the agent is not installed: run the role's tag install")
        in_pool = self.desktops is None or self.in_pool() is not None
        if agent.registered and in_pool:
            if agent.running:
                return Outcome(False, ["registered"])
            if not self.check:
                self.machine.start()
            return Outcome(True, ["its agent was registered and did not run: started"])
        if agent.registered and self.settings["registered_elsewhere"] != "move":
            raise BadInput(
                f"the agent says that it is registered, and the pool {self.settings['pool']} has no"
                f" host that is this machine ({self.who.name}): it is in another pool, or was taken"
                " out of this one. Set avd_session_host_registered_elsewhere to move to register it"
                " here"
            )
        if self.check:
            return Outcome(True, [f"would register in {self.settings['pool']}"])
        token = self._good_token()
        began = self.now()
        self.machine.register(token)
        self._wait(began)
        return Outcome(True, [f"registered in {self.settings['pool']}"], values={"fresh": True})

    def _good_token(self) -> str:
        token = self.token or self.new_token()
        ends = ends_of(token)
        if ends is not None and ends <= self.now():
            raise BadInput(
                f"the registration token expired {ends:%Y-%m-%dT%H:%MZ}: make another one (portal:"
                " the pool's registration key) and give it as avd_session_host_token, or leave"
                " that empty, and Azure is asked for one"
            )
        return token

    def _wait(self, began: datetime) -> None:
        """Wait until the agent says that it is registered."""
        limit = float(self.settings["registration_seconds"])
        until, look = self.clock() + limit, self.clock() + _LOOK_SECONDS
        while True:
            agent = self.machine.agent()
            if agent.registered and agent.running:
                return
            over = self.clock() >= until
            if over or self.clock() >= look:
                look = self.clock() + _LOOK_SECONDS
                events = [event for event in self.machine.events() if event.since(began)]
                if any(INVALID_TOKEN in event.message for event in events):
                    self.machine.forget()
                    origin = "the token of avd_session_host_token" if self.token else "the token"
                    raise TrueupError(
                        f"the agent logged {INVALID_TOKEN} (event 3277): {origin} has expired or is"
                        f" not of the pool {self.settings['pool']}; make another one"
                    )
                if over:
                    raise TrueupError(
                        f"the agent did not register within {limit:.0f} s: {_shown(events)}"
                    )
            self.sleep(_POLL_SECONDS)

    def well(self) -> Outcome:
        """See that the pool lets users come to it.

        Raises:
            TrueupError: it does not serve users; why.
        """
        if self.desktops is None:
            return Outcome(False, ["health in the pool not measured: Azure is not asked"])
        if self.check:
            agent = self.machine.agent()
            if not (agent.installed and agent.registered):
                return Outcome(False, ["not in a pool yet"])
        host = self._wait_until_well(self.desktops)
        out = Outcome(False, [f"{host.name}: {host.status}, {host.sessions} sessions"])
        if not host.allows and not self.machine.marked():
            out.warnings.append(
                f"{host.name} takes no new sessions, and it was not trueup that drained it: it"
                f" stays so until somebody lets it (pool {self.settings['pool']})"
            )
        out.values = {"status": host.status, "allows": host.allows, "sessions": host.sessions}
        return out

    def _wait_until_well(self, desktops: Desktops) -> Host:
        return desktops.wait_until_well(
            self.who.vm_id,
            self.who.resource_id,
            seconds=0 if self.check else float(self.settings["health_seconds"]),
            heartbeat_seconds=float(self.settings["heartbeat_seconds"]),
        )

    # -- draining --

    def drained(self) -> Outcome:
        """Let no new users come, tell those who are there, and wait until they are gone.

        Raises:
            TrueupError: users stay (the host was given back), or nobody can be asked.
        """
        if self.settings["drain"] == "never":
            return Outcome(False, ["not drained: avd_session_host_drain is never"])
        if self.desktops is None:
            return self._unasked()
        host = self.in_pool()
        if host is None:
            return Outcome(False, [f"not in the pool {self.settings['pool']}: nobody is on it"])
        if self.check:
            return Outcome(host.allows, [f"{host.name} would be drained"] * host.allows)
        ours = host.allows or bool(self.machine.marked())
        if host.allows:
            # The mark comes first: if this run dies, the next one gives the host back.
            self.machine.mark(self.now().strftime("%Y-%m-%dT%H:%M:%SZ"))
            self.desktops.set_allowed(host, allowed=False)
        try:
            ended = self._emptied(self.desktops, host)
        except TrueupError:
            # Nothing was changed. Where Azure does not answer, the next run gives it back.
            with contextlib.suppress(TrueupError):
                if ours:
                    self._allow(self.desktops, host)
            raise
        out = Outcome(host.allows, [f"{host.name} is drained: no session is left"])
        if ended:
            out.changed = True
            out.warnings.append(f"{host.name}: signed out at the deadline: {', '.join(ended)}")
        return out

    def _unasked(self) -> Outcome:
        """Of a host whose sessions nobody can look at."""
        agent = self.machine.agent()
        if agent.installed and agent.registered:
            raise BadInput(
                f"this host is registered in the pool {self.settings['pool']}, and Azure is not"
                " asked (avd_session_host_azure is none), so that users on it would lose their"
                " work: drain it by hand and set avd_session_host_drain to never, or let Azure"
                " be asked"
            )
        return Outcome(False, ["not registered: nobody is on it"])

    def _emptied(self, desktops: Desktops, host: Host) -> list[str]:
        try:
            return desktops.empty(
                host,
                title=_DRAIN_TITLE,
                text=self.settings["drain_message"],
                seconds=float(self.settings["drain_seconds"]),
                signs_out=self.settings["drain"] == "sign_out",
            )
        except UsersStayError as stay:
            raise TrueupError(
                f"{stay}. Nothing was changed, and the host takes new sessions as before: run again"
                " later, or set avd_session_host_drain_seconds or avd_session_host_drain"
            ) from None

    def given_back(self, failed: list[str]) -> Outcome:
        """Let users come again where trueup had drained it and it is well.

        Args:
            failed: roles that failed on this host.

        Raises:
            TrueupError: it does not serve users well, and stays drained.
        """
        if not self.machine.marked():
            return Outcome(False, ["not drained by trueup"])
        name = self.who.name
        if failed:
            stays = f"{name} stays drained: {', '.join(failed)} failed. Mend it, and run again"
            return Outcome(False, warnings=[stays])
        if self.desktops is None:
            stays = f"{name} stays drained: Azure is not asked (avd_session_host_azure is none)"
            return Outcome(False, warnings=[stays])
        if self.check:
            return Outcome(True, [f"{name} would be given back to the pool"])
        try:
            host = self._wait_until_well(self.desktops)
        except TrueupError as error:
            raise TrueupError(f"{error}. It stays drained; run again when it is well") from None
        self._allow(self.desktops, host)
        return Outcome(True, [f"{host.name} takes new sessions again"])

    def _allow(self, desktops: Desktops, host: Host) -> None:
        desktops.set_allowed(host, allowed=True)
        self.machine.mark("")


def _shown(events: list[Event]) -> str:
    """The last events, for a reader."""
    if not events:
        return "its event log (Application, WVD-Agent) says nothing of it"
    texts = [f"event {event.id}: {' '.join(event.message.split())[:200]}" for event in events]
    return "; ".join(texts[:_MOST_EVENTS])


def end_pools(
    manager: Manager,
    rows: Iterable[Mapping[str, Any]],
    *,
    title: str,
    text: str,
    seconds: float,
    tell: Callable[[str], None],
) -> None:
    """Before the machines of host pools are deleted: no new users, those who are there told and
    waited for, and the hosts taken out, without which Azure deletes no pool.

    The machines go all the same where users stay, or a pool cannot be asked: it is said, and
    nothing is raised.

    Args:
        rows: resources as Azure lists them; only host pools are used.
        seconds: for all pools together.
    """
    until = manager.clock() + seconds
    for row in rows:
        if str(row.get("type")).lower() != f"{PROVIDER}/hostPools".lower():
            continue
        try:
            pool_id = place_of(str(row.get("id")))
            _end_pool(Desktops(manager, pool_id, tell=tell), title, text, until)
        except TrueupError as error:
            tell(f"host pool {row.get('name')}: {error}")


def _end_pool(desktops: Desktops, title: str, text: str, until: float) -> None:
    hosts = desktops.hosts()
    for host in hosts:
        if host.allows:
            desktops.set_allowed(host, allowed=False)
    remaining = desktops.wait_until_gone(hosts, title=title, text=text, until=until)
    named = ", ".join(sorted(session.user for session in remaining))
    stay = f"; their time was over, and these users lose what they have not saved: {named}"
    name = desktops.place.name
    desktops.tell(f"host pool {name}: {len(hosts)} hosts drained{stay if remaining else ''}")
    for host in hosts:
        desktops.forget(host)
