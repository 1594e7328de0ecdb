"""A run on Azure, from nothing to nodes that answer: in the first place that has room for it."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Callable, NamedTuple

from trueup_node import rest
from trueup_node.errors import BadInput, TrueupError

from . import nfs, self_destruct, socks_tunnel, wait_ready, windows
from .catalog import Catalog
from .cost import Cost
from .deployment import Change, Deployment, NotDeployed
from .machines import Machine
from .manager import Manager
from .parameters import GENERATED, Parameters
from .run_state import CONFIG, INVENTORY, KEY, LOGIN_ALIAS, PASSWORD, State

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

Silent = Callable[..., dict[str, str]]
Unmet = Callable[..., str]
Opened = Callable[..., tuple[int, int]]


@dataclass
class Deployed:
    """The result of a run.

    Attributes:
        made: the parameters of its deployment, with region and zone.
        nodes: the nodes that answer.
        login: the login node's public address; empty where it has none.
        changed: whether something was made or removed.
        notes: differences from the parameters, a sentence each.
    """

    made: Parameters
    nodes: list[Machine] = field(default_factory=list)
    login: str = ""
    changed: bool = False
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Foreseen:
    """The expected changes and their region; ``by_azure``: whether Azure computed them."""

    made: Parameters
    changes: Sequence[Change]
    by_azure: bool


class Provision(NamedTuple):
    """Makes a run, or goes on with one that was begun.

    Attributes:
        manager: asks Azure.
        places: the deployment in each place, in the order in which they are tried.
        state: the run's folder on the controller.
        tell: is told how it goes.
        silent: which nodes do not answer, as ``wait_ready.silent``.
        unmet: why a machine does not say yes to a question, as ``wait_ready.unmet``.
        opened: opens the way to Windows nodes, as ``socks_tunnel.opened``.
    """

    manager: Manager
    places: Sequence[Parameters]
    catalog: Catalog
    state: State
    tell: rest.Tell
    silent: Silent = wait_ready.silent
    unmet: Unmet = wait_ready.unmet
    opened: Opened = socks_tunnel.opened
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic

    def changes(self) -> Foreseen:
        """The expected changes and their region; nothing is made.

        Raises:
            BadInput: something stands against it in every place.
        """
        self.manager.within(CHECK_SECONDS)
        key = self.state.public_key() if os.path.exists(self.state.path(KEY)) else _NO_KEY
        tried = []
        for deployment in self._left():
            reason = "" if self._standing(deployment) else self._against(deployment)
            if not reason:
                group_exists = deployment.group() is not None
                return Foreseen(deployment.made, deployment.what_if(key), group_exists)
            tried.append((deployment, reason))
        raise self._nowhere(tried, has_deployed=False)

    def make(self) -> Deployed:
        """Make the missing resources, and wait until the nodes answer.

        Raises:
            TrueupError: no place had all of it, and nothing of it is left; or Azure or the nodes
                failed in another way, and the resources made so far remain.
        """
        key_files = (KEY, PASSWORD) if self.places[0].nodes.windows else (KEY,)
        had_key = all(os.path.exists(self.state.path(name)) for name in key_files)
        key = self.state.public_key()
        tried, has_deployed = [], False
        for deployment in self._left():
            self.manager.within(CHECK_SECONDS)
            provisioned = Deployed(deployment.made)
            standing = self._standing(deployment)
            if standing and not had_key:
                raise BadInput(
                    f"the run {self.state.run} is on Azure, and its key is not in"
                    f" {self.state.folder}: go on where it was begun, or tear it down"
                )
            reason = "" if standing else self._against(deployment)
            if not reason:
                has_deployed = True
                reason = self._deployed(deployment, key, standing, provisioned)
            if not reason:
                return self._reached(deployment, provisioned)
            self.tell(f"{deployment.made.place}: {reason}")
            tried.append((deployment, reason))
        raise self._nowhere(tried, has_deployed=has_deployed)

    def _left(self) -> list[Deployment]:
        """The places that are left to try: from where the run is, if it is somewhere."""
        at = self.state.read()
        # A missing password is made with the key; Azure's what-if takes any password.
        has_stored_password = os.path.exists(self.state.path(KEY)) and self.places[0].nodes.windows
        password = self.state.password() if has_stored_password else windows.password()
        deployments = [
            Deployment(self.manager, alternative, self.catalog, self.state.run, self.tell, password)
            for alternative in self.places
        ]
        current = [
            number
            for number, alternative in enumerate(self.places)
            if (alternative.region, alternative.zone) == (at.get("region"), at.get("zone"))
        ]
        return deployments[current[0] :] if current else deployments

    def _standing(self, deployment: Deployment) -> str:
        """The state of the run's deployment; empty where there is none."""
        return (deployment.standing() or "") if deployment.group() is not None else ""

    def _against(self, deployment: Deployment) -> str:
        against, unknown = deployment.against()
        for text in unknown:
            self.tell(text)
        return "; ".join(against)

    def _nowhere(
        self, tried: Sequence[tuple[Deployment, str]], *, has_deployed: bool
    ) -> TrueupError:
        some = "; ".join(f"{deployment.made.place}: {reason}" for deployment, reason in tried)
        if has_deployed:
            removed = "what was made was removed"
            return TrueupError(f"no place had all of it, and {removed}: {some}")
        near = tried[0][0].nearest()
        return BadInput(f"it cannot be made: {some}{f'; {near}' if near else ''}")

    def _deployed(
        self, deployment: Deployment, key: str, standing: str, provisioned: Deployed
    ) -> str:
        """Deploy; why the place has no room for it, in which case nothing of it is left there."""
        parameters = deployment.made
        if standing and self.state.read().get("nodes_of") == parameters.nodes.count:
            # Fewer nodes were enough.
            return ""
        if standing == "succeeded" and not any(change.counts for change in deployment.what_if(key)):
            return ""
        provisioned.changed = True
        self.state.write(
            recipe=parameters.recipe,
            subscription=self.manager.login.subscriptions[0],
            group=parameters.resource_group,
            region=parameters.region,
            zone=parameters.zone,
            expires=parameters.expires,
            nodes=None,
            nodes_of=None,
        )
        self.tell(f"{parameters.place}: resource group {parameters.resource_group}")
        deployment.make_group()
        self.manager.within(DEPLOY_SECONDS)
        try:
            deployment.deploy(key)
        except NotDeployed as error:
            if not error.no_room:
                raise
            self.tell(str(error))
            if self._enough(deployment, provisioned):
                return ""
            self.manager.within(REMOVE_SECONDS)
            deployment.remove()
            self.state.forget_hosts()
            return str(error)
        return ""

    def _enough(self, deployment: Deployment, provisioned: Deployed) -> bool:
        """Whether enough nodes run after Azure gave no more; the rest of them is removed."""
        nodes = deployment.made.nodes
        if nodes.least == nodes.count:
            return False
        every = self._listed(deployment, nodes.least)
        running = _running(every)
        if len(running) < nodes.least:
            return False
        unused = [node for node in _nodes(every) if node not in running]
        self._use(deployment, running, unused, provisioned, "Azure had no room for more")
        return True

    def _use(
        self,
        deployment: Deployment,
        used: Sequence[Machine],
        unused: Sequence[Machine],
        provisioned: Deployed,
        reason: str,
    ) -> None:
        """Go on with fewer nodes."""
        requested = deployment.made.nodes.count
        provisioned.notes.append(f"{len(used)} of {requested} nodes are used: {reason}")
        self.tell(provisioned.notes[-1])
        provisioned.changed = True
        self.manager.within(REMOVE_SECONDS)
        deployment.discard(unused)
        self.state.write(nodes=len(used), nodes_of=requested)

    def _listed(self, deployment: Deployment, requested: int) -> list[Machine]:
        """The run's machines, once as many nodes run as are wanted and the login node has its
        address, or the time for it is over."""
        ends = self.clock() + LIST_SECONDS
        self.manager.within(LIST_SECONDS + CHECK_SECONDS)
        while True:
            every = deployment.machines()
            running_count = len(_running(every))
            parameters = deployment.made
            others_ready = (_login_address(every) or not parameters.ssh_from) and (
                _server(every) or not parameters.storage.server
            )
            if (running_count >= requested and others_ready) or self.clock() >= ends:
                return every
            self.tell(f"{running_count} of {requested} nodes are listed as running")
            self.sleep(LIST_PAUSE_SECONDS)

    def _reached(self, deployment: Deployment, provisioned: Deployed) -> Deployed:
        """The result, once the nodes answer."""
        parameters = deployment.made
        requested = self.state.read().get("nodes") or parameters.nodes.count
        every = self._listed(deployment, requested)
        running = _running(every)
        provisioned.login = _login_address(every)
        self._look_at_security(deployment, running, provisioned)
        subscription = self.manager.login.subscriptions[0]
        self.state.write_access(parameters, subscription, provisioned.login, deployment.mounts())
        reasons = {
            node.name: f"it is {node.power}" for node in _nodes(every) if node not in running
        }
        if provisioned.login:
            addresses = {node.name: node.private[0] for node in running}
            config = self.state.path(CONFIG)
            server = _server(every)
            if server:
                addresses[server.name] = server.private[0]
            if parameters.nodes.windows:
                reasons.update(self._deaf(config, addresses))
                port, process = self.opened(config, LOGIN_ALIAS, self.state.read())
                self.state.write(socks=port, socks_process=process)
                # With its port.
                self.state.write_access(parameters, subscription, provisioned.login)
            else:
                limit = REACH_SECONDS
                reasons.update(self.silent(addresses, config, self.tell, limit_seconds=limit))
            if parameters.storage.server:
                self._look_at_server(config, parameters, server, reasons)
            if not self_destruct.missing(parameters):
                self._look_at_switch(config, provisioned)
        else:
            provisioned.notes.append(
                "the login node has no public address: nobody has looked whether nodes answer, and"
                " the inventory is of use within the network alone"
            )
        provisioned.nodes = [node for node in running if node.name not in reasons]
        if len(provisioned.nodes) < requested:
            self._fewer(deployment, provisioned, requested, _nodes(every), reasons)
        return provisioned

    def _deaf(self, config: str, addresses: Mapping[str, str]) -> dict[str, str]:
        """The Windows nodes on which WinRM does not take the login node's connection, with why."""
        ends, reasons = self.clock() + REACH_SECONDS, {}
        for number, (name, address) in enumerate(addresses.items(), 1):
            seconds_left = max(0.0, ends - self.clock())
            ask = windows.listens(address)
            against = self.unmet(config, LOGIN_ALIAS, ask, limit_seconds=seconds_left)
            if against:
                reasons[name] = f"WinRM does not answer the login node: {against}"
            self.tell(f"{number - len(reasons)} of {len(addresses)} Windows nodes answer by WinRM")
        return reasons

    def _look_at_server(
        self,
        config: str,
        parameters: Parameters,
        server: Machine | None,
        reasons: dict[str, str],
    ) -> None:
        """Leave the NFS server out of the nodes that do not answer.

        Raises:
            TrueupError: it is not there, or its disks are not mounted.
        """
        against = "it is not listed by Azure as running"
        if server:
            against = reasons.pop(server.name, "")
            if not against.startswith(wait_ready.NO_ANSWER):
                # It says why itself, where cloud-init says only that it failed.
                against = self.unmet(
                    config, server.private[0], nfs.ready(parameters), limit_seconds=SERVED_SECONDS
                )
        if against:
            raise TrueupError(
                f"the NFS server {nfs.SERVER} is not ready ({against}): what was made is there and"
                " bills"
            )

    def _look_at_security(
        self, deployment: Deployment, nodes: Sequence[Machine], provisioned: Deployed
    ) -> None:
        """Note nodes of another security type than was asked for, as a policy makes them.

        Raises:
            TrueupError: Secure Boot is on, and drivers of the size do not load under it.
        """
        parameters = deployment.made
        security_of = deployment.security(nodes)
        deviating = sorted(
            name for name, security in security_of.items() if security.kind != parameters.security
        )
        locked = sorted(name for name, security in security_of.items() if security.secure_boot)
        family = self.catalog.family(parameters.nodes.size)
        unable = not parameters.nodes.windows and family in self.catalog.facts["secure_boot_off"]
        if locked and unable:
            raise TrueupError(
                f"Secure Boot is on for {_some(locked)}, though it was not asked for, and the"
                f" drivers of {parameters.nodes.size} do not load under it: end the policy or the"
                " subscription's default that turns it on, and remove the run. What was made is"
                " there and bills"
            )
        if deviating:
            provisioned.notes.append(
                f"{_some(deviating)}: the security type is {security_of[deviating[0]].kind}, and"
                f" {parameters.security} was asked for"
            )

    def _look_at_switch(self, config: str, provisioned: Deployed) -> None:
        """Note where the login node does not end the run."""
        reason = self.unmet(config, LOGIN_ALIAS, self_destruct.ARMED, limit_seconds=ARMED_SECONDS)
        if reason:
            provisioned.notes.append(
                "the login node does not end the run when the controller dies, and nothing else"
                f" does: {reason}"
            )

    def _fewer(
        self,
        deployment: Deployment,
        provisioned: Deployed,
        requested: int,
        every: Sequence[Machine],
        reasons: dict[str, str],
    ) -> None:
        """Go on with the nodes that answer, where they are enough.

        Raises:
            TrueupError: they are not.
        """
        named = [f"{name}: {text}" for name, text in sorted(reasons.items())]
        some = "; ".join(named[:_MOST_NAMED])
        if len(named) > _MOST_NAMED:
            some += f"; and {len(named) - _MOST_NAMED} more"
        if len(every) < requested:
            some = "; ".join(
                filter(None, [some, f"{requested - len(every)} are not listed by Azure"])
            )
        if len(provisioned.nodes) < deployment.made.nodes.least:
            raise TrueupError(
                f"{len(provisioned.nodes)} of {requested} nodes answer ({some}), and"
                f" {deployment.made.nodes.least} are needed: what was made is there and bills"
            )
        self._use(
            deployment,
            provisioned.nodes,
            [node for node in every if node.name in reasons],
            provisioned,
            some,
        )


def _some(names: Sequence[str]) -> str:
    """The first of names, and how many more there are."""
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def _nodes(every: Sequence[Machine]) -> list[Machine]:
    return [machine for machine in every if machine.tags.get("role") == "compute"]


def _running(every: Sequence[Machine]) -> list[Machine]:
    return [node for node in _nodes(every) if node.power == "running" and node.private]


def _server(every: Sequence[Machine]) -> Machine | None:
    """The NFS server, where it runs."""
    servers = (machine for machine in every if machine.tags.get("role") == "storage")
    return next(
        (server for server in servers if server.power == "running" and server.private), None
    )


def _login_address(every: Sequence[Machine]) -> str:
    login = (machine for machine in every if machine.tags.get("role") == "login")
    return next((address for machine in login for address in machine.public), "")


def summary(provisioned: Deployed, cost: Cost, state: State) -> list[str]:
    """Sentences on the run: nodes, cost, expiry, login and removal."""
    parameters = provisioned.made
    login = (
        f" and a login node ({provisioned.login or 'no public address'})"
        if parameters.login.size
        else ""
    )
    done = "made" if provisioned.changed else "there before, nothing changed"
    few = (
        f", priced as {parameters.nodes.count} nodes"
        if len(provisioned.nodes) < parameters.nodes.count
        else ""
    )
    nodes = f"{len(provisioned.nodes)} of {parameters.nodes.count} nodes of {parameters.nodes.size}"
    ssh = f"ssh -F {state.path(CONFIG)}"
    where = f"{parameters.place}, resource group {parameters.resource_group}"
    sentences = [
        f"Run {state.run}: {nodes}{login} in {where} ({done}).",
        *(f"{text}." for text in provisioned.notes),
        f"It costs {cost.sentence()}{few}.",
    ]
    sentences += windows.rate(parameters)
    if cost.unpriced:
        sentences.append(f"Not priced: {'; '.join(line.what for line in cost.unpriced)}.")
    sentences += [f"It expires {parameters.expires}.", *self_destruct.promise(parameters)]
    if provisioned.login:
        sentences.append(f"Log in: {ssh} {LOGIN_ALIAS}")
        linux = [] if parameters.nodes.windows else provisioned.nodes[:1]
        sentences += [f"Log in to {node.name}: {ssh} {node.private[0]}" for node in linux]
    if provisioned.login and parameters.nodes.windows:
        sentences.append(
            f"Windows nodes are reached by WinRM through {socks_tunnel.HERE}:"
            f"{state.read()['socks']}, which is ssh's to the login node and open until the run is"
            f" removed; {parameters.admin_user}'s password is in {state.path(PASSWORD)}"
        )
    secrets = [name for name in parameters.generated_secrets if os.path.exists(state.path(name))]
    sentences += [
        f"{name} of the run is in {state.path(name)}, unless {GENERATED[name]} gives another."
        for name in secrets
    ]
    return [
        *sentences,
        f"Configure and measure: ansible-playbook -i {state.path(INVENTORY)} site.yml",
        f"Remove: ansible-playbook playbooks/teardown.yml -e trueup_azure_run={state.run}",
    ]


def foreseen(forecast: Foreseen, cost: Cost) -> list[str]:
    """Sentences on the expected changes, in check mode."""
    parameters, counted = forecast.made, [change for change in forecast.changes if change.counts]
    some = "; ".join(f"{change.kind} {change.what}" for change in counted)
    unsupported = [change for change in forecast.changes if change.kind == "Unsupported"]
    where = f"{parameters.place}, resource group {parameters.resource_group}"
    return [
        f"{len(counted)} resources would change in {where}{': ' if some else ''}{some}.",
        *(
            f"Azure cannot say what becomes of {change.what}: {change.why}."
            for change in unsupported
        ),
        *([] if forecast.by_azure else [_NOT_ASKED]),
        f"It costs {cost.sentence()}.",
    ]
