"""A run on Azure, from nothing to nodes that answer: in the first place that has room for it."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from typing import Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ... import rest
from ...errors import BadInput, TrueupError
from . import nfs, reach, switch, way, windows
from .catalog import Catalog
from .cost import Cost
from .deployment import Change, Deployment, NotDeployed
from .machines import Machine
from .manager import Manager
from .parameters import GENERATED, Parameters
from .state import CONFIG, INVENTORY, KEY, LOGIN_ALIAS, PASSWORD, State

CHECK_SECONDS, DEPLOY_SECONDS, REMOVE_SECONDS = 600, 5400, 3600
# Resource Graph is up to a minute late.
LIST_SECONDS, LIST_PAUSE_SECONDS = 300, 5
REACH_SECONDS = 1500
# A new role assignment is in force some minutes later.
ARMED_SECONDS = 300
# Disks that are missing are waited for, 120 s.
SERVED_SECONDS = 150
_NO_KEY = "ssh-ed25519 of-the-run"
_MOST_NAMED = 5
_NOT_ASKED = (
    "The resource group is not there yet, and Azure says what would change in one that is: quota"
    " and sizes were asked for, and the rest is the template as it stands."
)

Silent = Callable[..., Dict[str, str]]
Unmet = Callable[..., str]
Opened = Callable[..., Tuple[int, int]]


@dataclass
class There:
    """What is there in the end.

    Attributes:
        made: where it is, and as what it was asked for.
        nodes: those that answer.
        login: the login node's public address; empty where it has none.
        changed: whether something was made or removed.
        notes: what is not as it was asked for, a sentence each.
    """

    made: Parameters
    nodes: List[Machine] = field(default_factory=list)
    login: str = ""
    changed: bool = False
    notes: List[str] = field(default_factory=list)


@dataclass(frozen=True)
class Foreseen:
    """What would change, and where; ``asked`` whether Azure said it."""

    made: Parameters
    changes: Sequence[Change]
    asked: bool


class Provision(NamedTuple):
    """Makes a run, or goes on with one that was begun.

    Attributes:
        manager: asks Azure.
        places: the deployment in each place, in the order in which they are tried.
        state: the run's folder on the controller.
        tell: is told how it goes.
        silent: which nodes do not answer, as ``reach.silent``.
        unmet: why a machine does not say yes to a question, as ``reach.unmet``.
        opened: opens the way to Windows nodes, as ``way.opened``.
    """

    manager: Manager
    places: Sequence[Parameters]
    catalog: Catalog
    state: State
    tell: rest.Tell
    silent: Silent = reach.silent
    unmet: Unmet = reach.unmet
    opened: Opened = way.opened
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic

    def changes(self) -> Foreseen:
        """What would change, and where; nothing is made.

        Raises:
            BadInput: something stands against it in every place.
        """
        self.manager.within(CHECK_SECONDS)
        key = self.state.public_key() if os.path.exists(self.state.path(KEY)) else _NO_KEY
        tried = []
        for deployment in self._left():
            why = "" if self._standing(deployment) else self._against(deployment)
            if not why:
                asked = deployment.group() is not None
                return Foreseen(deployment.made, deployment.what_if(key), asked)
            tried.append((deployment, why))
        raise self._nowhere(tried, made=False)

    def make(self) -> There:
        """Make what is not there, and wait until the nodes answer.

        Raises:
            TrueupError: no place had all of it, and nothing of it is left; or Azure or the nodes
                failed in another way, and what was made is there.
        """
        kept = (KEY, PASSWORD) if self.places[0].nodes.windows else (KEY,)
        had_key = all(os.path.exists(self.state.path(name)) for name in kept)
        key = self.state.public_key()
        tried, made = [], False
        for deployment in self._left():
            self.manager.within(CHECK_SECONDS)
            there = There(deployment.made)
            standing = self._standing(deployment)
            if standing and not had_key:
                raise BadInput(
                    f"the run {self.state.run} is on Azure, and its key is not in"
                    f" {self.state.folder}: go on where it was begun, or tear it down"
                )
            why = "" if standing else self._against(deployment)
            if not why:
                made = True
                why = self._deployed(deployment, key, standing, there)
            if not why:
                return self._reached(deployment, there)
            self.tell(f"{deployment.made.place}: {why}")
            tried.append((deployment, why))
        raise self._nowhere(tried, made=made)

    def _left(self) -> List[Deployment]:
        """The places that are left to try: from where the run is, if it is somewhere."""
        at = self.state.read()
        # One that is not there yet is made with the key; what-if takes any.
        kept = os.path.exists(self.state.path(KEY)) and self.places[0].nodes.windows
        password = self.state.password() if kept else windows.password()
        found = [
            Deployment(self.manager, one, self.catalog, self.state.run, self.tell, password)
            for one in self.places
        ]
        here = [
            number
            for number, one in enumerate(self.places)
            if (one.region, one.zone) == (at.get("region"), at.get("zone"))
        ]
        return found[here[0] :] if here else found

    def _standing(self, deployment: Deployment) -> str:
        """The state of the run's deployment; empty where there is none."""
        return (deployment.standing() or "") if deployment.group() is not None else ""

    def _against(self, deployment: Deployment) -> str:
        against, unknown = deployment.against()
        for text in unknown:
            self.tell(text)
        return "; ".join(against)

    def _nowhere(self, tried: Sequence[Tuple[Deployment, str]], *, made: bool) -> TrueupError:
        some = "; ".join(f"{one.made.place}: {why}" for one, why in tried)
        if made:
            removed = "what was made was removed"
            return TrueupError(f"no place had all of it, and {removed}: {some}")
        near = tried[0][0].nearest()
        return BadInput(f"it cannot be made: {some}{f'; {near}' if near else ''}")

    def _deployed(self, deployment: Deployment, key: str, standing: str, there: There) -> str:
        """Deploy; why the place has no room for it, in which case nothing of it is left there."""
        made = deployment.made
        if standing and self.state.read().get("nodes_of") == made.nodes.count:
            # Fewer nodes were enough.
            return ""
        if standing == "succeeded" and not any(one.counts for one in deployment.what_if(key)):
            return ""
        there.changed = True
        self.state.write(
            recipe=made.recipe,
            subscription=self.manager.login.subscriptions[0],
            group=made.resource_group,
            region=made.region,
            zone=made.zone,
            expires=made.expires,
            nodes=None,
            nodes_of=None,
        )
        self.tell(f"{made.place}: resource group {made.resource_group}")
        deployment.make_group()
        self.manager.within(DEPLOY_SECONDS)
        try:
            deployment.deploy(key)
        except NotDeployed as error:
            if not error.no_room:
                raise
            self.tell(str(error))
            if self._enough(deployment, there):
                return ""
            self.manager.within(REMOVE_SECONDS)
            deployment.remove()
            self.state.forget_hosts()
            return str(error)
        return ""

    def _enough(self, deployment: Deployment, there: There) -> bool:
        """Whether enough nodes run after Azure gave no more; the rest of them is removed."""
        nodes = deployment.made.nodes
        if nodes.least == nodes.count:
            return False
        every = self._listed(deployment, nodes.least)
        running = _running(every)
        if len(running) < nodes.least:
            return False
        unused = [one for one in _nodes(every) if one not in running]
        self._use(deployment, running, unused, there, "Azure had no room for more")
        return True

    def _use(
        self,
        deployment: Deployment,
        used: Sequence[Machine],
        unused: Sequence[Machine],
        there: There,
        why: str,
    ) -> None:
        """Go on with fewer nodes."""
        wanted = deployment.made.nodes.count
        there.notes.append(f"{len(used)} of {wanted} nodes are used: {why}")
        self.tell(there.notes[-1])
        there.changed = True
        self.manager.within(REMOVE_SECONDS)
        deployment.discard(unused)
        self.state.write(nodes=len(used), nodes_of=wanted)

    def _listed(self, deployment: Deployment, wanted: int) -> List[Machine]:
        """The run's machines, once as many nodes run as are wanted and the login node has its
        address, or the time for it is over."""
        ends = self.clock() + LIST_SECONDS
        self.manager.within(LIST_SECONDS + CHECK_SECONDS)
        while True:
            every = deployment.machines()
            there = len(_running(every))
            made = deployment.made
            others = (_login_address(every) or not made.ssh_from) and (
                _server(every) or not made.storage.server
            )
            if (there >= wanted and others) or self.clock() >= ends:
                return every
            self.tell(f"{there} of {wanted} nodes are listed as running")
            self.sleep(LIST_PAUSE_SECONDS)

    def _reached(self, deployment: Deployment, there: There) -> There:
        """What is there, once the nodes answer."""
        made = deployment.made
        wanted = self.state.read().get("nodes") or made.nodes.count
        every = self._listed(deployment, wanted)
        running = _running(every)
        there.login = _login_address(every)
        self._look_at_security(deployment, running, there)
        subscription = self.manager.login.subscriptions[0]
        self.state.write_access(made, subscription, there.login, deployment.mounts())
        why = {one.name: f"it is {one.power}" for one in _nodes(every) if one not in running}
        if there.login:
            addresses = {one.name: one.private[0] for one in running}
            config = self.state.path(CONFIG)
            server = _server(every)
            if server:
                addresses[server.name] = server.private[0]
            if made.nodes.windows:
                why.update(self._deaf(config, addresses))
                port, process = self.opened(config, LOGIN_ALIAS, self.state.read())
                self.state.write(socks=port, socks_process=process)
                # With its port.
                self.state.write_access(made, subscription, there.login)
            else:
                limit = REACH_SECONDS
                why.update(self.silent(addresses, config, self.tell, limit_seconds=limit))
            if made.storage.server:
                self._look_at_server(config, made, server, why)
            if not switch.missing(made):
                self._look_at_switch(config, there)
        else:
            there.notes.append(
                "the login node has no public address: nobody has looked whether nodes answer, and"
                " the inventory is of use within the network alone"
            )
        there.nodes = [one for one in running if one.name not in why]
        if len(there.nodes) < wanted:
            self._fewer(deployment, there, wanted, _nodes(every), why)
        return there

    def _deaf(self, config: str, addresses: Mapping[str, str]) -> Dict[str, str]:
        """The Windows nodes on which WinRM does not take the login node's connection, with why."""
        ends, found = self.clock() + REACH_SECONDS, {}
        for number, (name, address) in enumerate(addresses.items(), 1):
            left = max(0.0, ends - self.clock())
            ask = windows.listens(address)
            against = self.unmet(config, LOGIN_ALIAS, ask, limit_seconds=left)
            if against:
                found[name] = f"WinRM does not answer the login node: {against}"
            self.tell(f"{number - len(found)} of {len(addresses)} Windows nodes answer by WinRM")
        return found

    def _look_at_server(
        self, config: str, made: Parameters, server: Optional[Machine], why: Dict[str, str]
    ) -> None:
        """Leave the NFS server out of the nodes that do not answer.

        Raises:
            TrueupError: it is not there, or its disks are not mounted.
        """
        against = "it is not listed by Azure as running"
        if server:
            against = why.pop(server.name, "")
            if not against.startswith(reach.NO_ANSWER):
                # It says why itself, where cloud-init says only that it failed.
                against = self.unmet(
                    config, server.private[0], nfs.ready(made), limit_seconds=SERVED_SECONDS
                )
        if against:
            raise TrueupError(
                f"the NFS server {nfs.SERVER} is not ready ({against}): what was made is there and"
                " bills"
            )

    def _look_at_security(
        self, deployment: Deployment, nodes: Sequence[Machine], there: There
    ) -> None:
        """Note nodes of another security type than was asked for, as a policy makes them.

        Raises:
            TrueupError: Secure Boot is on, and drivers of the size do not load under it.
        """
        made = deployment.made
        found = deployment.security(nodes)
        others = sorted(name for name, one in found.items() if one.kind != made.security)
        locked = sorted(name for name, one in found.items() if one.secure_boot)
        family = self.catalog.family(made.nodes.size)
        unable = not made.nodes.windows and family in self.catalog.facts["secure_boot_off"]
        if locked and unable:
            raise TrueupError(
                f"Secure Boot is on for {_some(locked)}, though it was not asked for, and the"
                f" drivers of {made.nodes.size} do not load under it: end the policy or the"
                " subscription's default that turns it on, and remove the run. What was made is"
                " there and bills"
            )
        if others:
            there.notes.append(
                f"{_some(others)}: the security type is {found[others[0]].kind}, and"
                f" {made.security} was asked for"
            )

    def _look_at_switch(self, config: str, there: There) -> None:
        """Note where the login node does not end the run."""
        why = self.unmet(config, LOGIN_ALIAS, switch.ARMED, limit_seconds=ARMED_SECONDS)
        if why:
            there.notes.append(
                "the login node does not end the run when the controller dies, and nothing else"
                f" does: {why}"
            )

    def _fewer(
        self,
        deployment: Deployment,
        there: There,
        wanted: int,
        every: Sequence[Machine],
        why: Dict[str, str],
    ) -> None:
        """Go on with the nodes that answer, where they are enough.

        Raises:
            TrueupError: they are not.
        """
        named = [f"{name}: {text}" for name, text in sorted(why.items())]
        some = "; ".join(named[:_MOST_NAMED])
        if len(named) > _MOST_NAMED:
            some += f"; and {len(named) - _MOST_NAMED} more"
        if len(every) < wanted:
            some = "; ".join(filter(None, [some, f"{wanted - len(every)} are not listed by Azure"]))
        if len(there.nodes) < deployment.made.nodes.least:
            raise TrueupError(
                f"{len(there.nodes)} of {wanted} nodes answer ({some}), and"
                f" {deployment.made.nodes.least} are needed: what was made is there and bills"
            )
        self._use(deployment, there.nodes, [one for one in every if one.name in why], there, some)


def _some(names: Sequence[str]) -> str:
    """The first of names, and how many more there are."""
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def _nodes(every: Sequence[Machine]) -> List[Machine]:
    return [one for one in every if one.tags.get("role") == "compute"]


def _running(every: Sequence[Machine]) -> List[Machine]:
    return [one for one in _nodes(every) if one.power == "running" and one.private]


def _server(every: Sequence[Machine]) -> Optional[Machine]:
    """The NFS server, where it runs."""
    servers = (one for one in every if one.tags.get("role") == "storage")
    return next((one for one in servers if one.power == "running" and one.private), None)


def _login_address(every: Sequence[Machine]) -> str:
    login = (one for one in every if one.tags.get("role") == "login")
    return next((address for one in login for address in one.public), "")


def summary(there: There, cost: Cost, state: State) -> List[str]:
    """What is there, what it costs, when it ends, how to log in and how to remove it."""
    made = there.made
    login = f" and a login node ({there.login or 'no public address'})" if made.login.size else ""
    done = "made" if there.changed else "there before, nothing changed"
    few = f", priced as {made.nodes.count} nodes" if len(there.nodes) < made.nodes.count else ""
    nodes = f"{len(there.nodes)} of {made.nodes.count} nodes of {made.nodes.size}"
    ssh = f"ssh -F {state.path(CONFIG)}"
    where = f"{made.place}, resource group {made.resource_group}"
    found = [
        f"Run {state.run}: {nodes}{login} in {where} ({done}).",
        *(f"{text}." for text in there.notes),
        f"It costs {cost.sentence()}{few}.",
    ]
    found += windows.rate(made)
    if cost.unpriced:
        found.append(f"Not priced: {'; '.join(line.what for line in cost.unpriced)}.")
    found += [f"It expires {made.expires}.", *switch.promise(made)]
    if there.login:
        found.append(f"Log in: {ssh} {LOGIN_ALIAS}")
        linux = [] if made.nodes.windows else there.nodes[:1]
        found += [f"Log in to {one.name}: {ssh} {one.private[0]}" for one in linux]
    if there.login and made.nodes.windows:
        found.append(
            f"Windows nodes are reached by WinRM through {way.HERE}:{state.read()['socks']}, which"
            f" is ssh's to the login node and open until the run is removed; {made.admin_user}'s"
            f" password is in {state.path(PASSWORD)}"
        )
    secrets = [name for name in made.generated_secrets if os.path.exists(state.path(name))]
    found += [
        f"{name} of the run is in {state.path(name)}, unless {GENERATED[name]} gives another."
        for name in secrets
    ]
    return [
        *found,
        f"Configure and measure: ansible-playbook -i {state.path(INVENTORY)} site.yml",
        f"Remove: ansible-playbook playbooks/teardown.yml -e trueup_azure_run={state.run}",
    ]


def foreseen(found: Foreseen, cost: Cost) -> List[str]:
    """What would change, in check mode."""
    made, counted = found.made, [one for one in found.changes if one.counts]
    some = "; ".join(f"{one.kind} {one.what}" for one in counted)
    unsupported = [one for one in found.changes if one.kind == "Unsupported"]
    where = f"{made.place}, resource group {made.resource_group}"
    return [
        f"{len(counted)} resources would change in {where}{': ' if some else ''}{some}.",
        *(f"Azure cannot say what becomes of {one.what}: {one.why}." for one in unsupported),
        *([] if found.asked else [_NOT_ASKED]),
        f"It costs {cost.sentence()}.",
    ]
