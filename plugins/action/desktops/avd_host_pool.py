"""A session host of Azure Virtual Desktop and its pool (``desktops.session_host``)."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from trueup_controller import actions
from trueup_controller.azure.manager import connect
from trueup_controller.azure.run_state import home
from trueup_controller.desktops import answers, authenticode, avd_agent
from trueup_controller.desktops.host_pools import VM_USER, Change, Desktops, Location
from trueup_controller.desktops.session_host import Identity, Outcome, Work, identity_of
from trueup_node.errors import TrueupError
from trueup_node.node.metadata import METADATA_URL

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

DOCUMENTATION = r"""
name: avd_host_pool
short_description: A Windows host in its host pool of Azure Virtual Desktop
description:
  - For the tasks of the role C(avd_session_host), whose plan (C(__avd_session_host_plan)) says what
    is wanted. Azure is asked on the controller with the login of azure-cli-core, the host with
    modules of ansible.windows. The registration token is in no variable, no argument of a process
    and no log.
  - Where no host pool is named, nothing is done.
options:
  state:
    description:
      - C(present) makes the pool, its groups, applications and workspace, and lets users in, as
        declared. C(installed) installs the agent and its boot loader. C(registered) registers the
        host. C(well) waits until the pool lets users come to it.
      - C(drained) lets no new users come, tells those who are there, and waits for them.
        C(given_back) lets them come again, where trueup had drained the host, no role failed and it
        is well.
    type: str
    choices: [present, installed, registered, well, drained, given_back]
    required: true
"""

_PLAN = "__avd_session_host_plan"
# Limits: of one call that Azure does not answer, and of all calls without planned waiting.
_PATIENCE_SECONDS, _CALLS_SECONDS = 120, 300
_EVENT_MINUTES = 15
_SIGNERS = ("Microsoft Corporation",)
_STATES = ("present", "installed", "registered", "well", "drained", "given_back")


class ActionModule(ActionBase):
    """Ansible's entry."""

    _VALID_ARGS = frozenset({"state"})

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """``changed``, ``msg`` (sentences), ``diff`` of a pool, ``status`` and ``sessions`` of a
        host, ``fresh`` where it was registered now."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        self._variables: dict[str, Any] = task_vars or {}
        state = self._task.args.get("state")
        if state not in _STATES:
            message = f"avd_host_pool: state is {state!r}: give one of {', '.join(_STATES)}"
            raise AnsibleActionFail(message)
        plan = self._value(_PLAN)
        if not isinstance(plan, dict) or "settings" not in plan:
            message = "avd_host_pool: the role avd_session_host has not planned this host"
            raise AnsibleActionFail(message)
        if not plan["settings"]["pool"]:
            return {**result, "changed": False, "msg": ["no host pool is named"]}
        try:
            result.update(self._done(state, plan))
        except TrueupError as error:
            raise AnsibleActionFail(f"avd_session_host: {error}") from None
        return {**result, "_ansible_verbose_always": True}

    def _done(self, state: str, plan: dict[str, Any]) -> dict[str, Any]:
        if state == "installed":
            return self._installed(plan["packages"], str(plan["folder"]))
        machine = _Machine(self)
        who = machine.who()
        desktops = self._desktops(plan["settings"], who)
        if state == "present":
            return self._present(plan, who, desktops)
        hours = float(plan["settings"]["token_hours"])

        def new_token() -> str:
            if desktops is None:
                return ""
            with _alone(desktops.place):
                return desktops.token(hours)

        work = Work(
            machine=machine,
            desktops=desktops,
            who=who,
            settings=plan["settings"],
            token=str(self._value("avd_session_host_token") or ""),
            new_token=new_token,
            check=self._task.check_mode,
        )
        if state == "given_back":
            done = work.given_back(list(self._value("trueup_failed_roles") or []))
        else:
            done = getattr(work, state)()
        return self._told(done)

    def _told(self, done: Outcome) -> dict[str, Any]:
        for text in done.warnings:
            Display().warning(text)
        return {"changed": done.changed, "msg": [*done.said, *done.warnings], **done.values}

    def _value(self, name: str) -> Any:
        return self._templar.template(self._variables.get(name))

    # -- Azure --

    def _desktops(self, settings: Mapping[str, Any], who: Identity) -> Desktops | None:
        if settings["azure"] == "none":
            return None
        subscription = settings["subscription"] or who.subscription
        waits = ("drain_seconds", "health_seconds", "registration_seconds")
        seconds = _CALLS_SECONDS + sum(float(settings[name]) for name in waits)
        manager = connect(
            [subscription] if subscription else [],
            seconds=seconds,
            patience_seconds=_PATIENCE_SECONDS,
        )
        group = settings["resource_group"] or who.group
        return Desktops(
            manager,
            Location(manager.login.subscriptions[0], group, settings["pool"]),
            check=self._task.check_mode,
            tell=lambda text: Display().display(f"avd: {text}"),
        )

    def _present(
        self, plan: Mapping[str, Any], who: Identity, desktops: Desktops | None
    ) -> dict[str, Any]:
        settings = plan["settings"]
        if desktops is None:
            return {"changed": False, "msg": ["Azure is not asked"]}
        if settings["azure"] == "use":
            desktops.known()
            return {"changed": False, "msg": [f"{settings['pool']} is there"]}
        with _alone(desktops.place):
            changes = desktops.settle(
                plan["pool"],
                location=settings["location"] or who.location,
                tags={str(key): str(value) for key, value in settings["tags"].items()},
                groups=plan["groups"],
                workspace=settings["workspace"],
                users=settings["users"],
            )
            # Whom Entra ID lets in at the host itself, where no domain does.
            for user in settings["users"] if plan["joined"] == "entra" else []:
                desktops.allow(who.resource_id, VM_USER, user)
        messages = [
            f"{'made' if not change.before else 'changed'}: {change.what}" for change in changes
        ]
        diff = [_diff(change) for change in changes]
        return {"changed": bool(changes), "msg": messages, "diff": diff}

    # -- the host --

    def ask(self, module: str, *, secret: str | None = None, **arguments: Any) -> dict[str, Any]:
        """The response of a module of ansible.windows.

        Args:
            secret: of the arguments, or empty where the answer has one. Windows would write it into
                its Application log, and the connection show it with -vvvv, but for no_log of the
                task and of the connection's play.
        """
        play = self._connection._play_context
        before = self._task.no_log, play.no_log
        if secret is not None:
            self._task.no_log = play.no_log = True
        try:
            response = actions.ask(self, self._variables, module, **arguments)
        finally:
            self._task.no_log, play.no_log = before
        if response.get("failed"):
            reason = str(response.get("msg"))
            message = f"{module}: {reason.replace(secret, '********') if secret else reason}"
            raise AnsibleActionFail(message, result=response if secret is None else None)
        return response

    def known(self) -> dict[str, Any]:
        """The host's identity by the inventory."""
        return {name: self._value(name) for name in ("azure_id", "azure_vmid")}

    def script(self, name: str, **parameters: Any) -> Any:
        """The result of a fragment of PowerShell, a file of trueup's."""
        script = actions.fragment(name)
        return self.ask("win_powershell", script=script, parameters=parameters).get("result")

    def _installed(self, packages: list[dict[str, str]], folder: str) -> dict[str, Any]:
        messages, warnings = [], []
        if packages and not self._task.check_mode:
            self.ask("win_file", path=folder, state="directory")
        for package in packages:
            if self._task.check_mode:
                messages.append(f"would install {package['name']} from {package['url']}")
                continue
            self.ask(
                "win_get_url",
                url=package["url"],
                dest=package["path"],
                checksum=package["sha256"] or None,
                checksum_algorithm="sha256",
                force=True,
                url_timeout=600,
            )
            if not package["sha256"]:
                self._trusted(package)
            done = self.ask("win_package", path=package["path"], state="present")
            self.ask("win_file", path=package["path"], state="absent")
            messages.append(f"installed {package['name']}")
            if done.get("reboot_required"):
                warnings.append(f"{package['name']} asks for a restart of Windows")
        return self._told(Outcome(bool(packages), messages or ["installed already"], warnings))

    def _trusted(self, package: Mapping[str, str]) -> None:
        """Refuse a file that Microsoft has not signed. Microsoft changes it without a version, so
        that no sha256 of it lasts."""
        signature = self.script("signature", Path=package["path"])
        wrong = authenticode.refusals(signature, f"the file of {package['url']}", _SIGNERS)
        if wrong:
            self.ask("win_file", path=package["path"], state="absent")
            message = f"{' '.join(wrong)} Check avd_session_host_{package['name']}_url."
            raise TrueupError(message)


class _Machine:
    """The host, by modules of ansible.windows."""

    def __init__(self, action: ActionModule) -> None:
        self._action = action

    def who(self) -> Identity:
        response = self._action.ask(
            "win_uri",
            url=METADATA_URL,
            headers={"Metadata": "true"},
            use_proxy=False,
            return_content=True,
            url_timeout=10,
            follow_redirects="none",
        )
        try:
            compute = json.loads(response["content"])["compute"]
            return identity_of(compute, self._action.known())
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            message = f"the instance metadata of this host is not as Azure writes it: {error!r}"
            raise TrueupError(message) from None

    def agent(self) -> avd_agent.Agent:
        # The token is in this key until the agent has registered.
        key = self._action.ask("win_reg_stat", secret="", path=avd_agent.AGENT_KEY)
        service = self._action.ask("win_service_info", name=avd_agent.SERVICE)
        return avd_agent.agent_of(answers.registry_key(key), answers.service(service))

    def start(self) -> None:
        self._action.ask("win_service", name=avd_agent.SERVICE, state="started")

    def register(self, token: str) -> None:
        key, values = avd_agent.AGENT_KEY, {"RegistrationToken": token, "IsRegistered": 0}
        for name, data in values.items():
            kind = "string" if isinstance(data, str) else "dword"
            self._action.ask("win_regedit", secret=token, path=key, name=name, type=kind, data=data)
        self._action.ask("win_service", name=avd_agent.SERVICE, state="restarted")

    def forget(self) -> None:
        where = {"path": avd_agent.AGENT_KEY, "name": "RegistrationToken"}
        self._action.ask("win_regedit", **where, type="string", data="")

    def events(self) -> list[avd_agent.Event]:
        return avd_agent.events_of(self._action.script("avd_events", Minutes=_EVENT_MINUTES))

    def mark(self, text: str) -> None:
        where = {"path": avd_agent.MARK_KEY, "name": avd_agent.MARK}
        if text:
            self._action.ask("win_regedit", **where, type="string", data=text)
        else:
            self._action.ask("win_regedit", **where, state="absent")

    def marked(self) -> str:
        key = answers.registry_key(self._action.ask("win_reg_stat", path=avd_agent.MARK_KEY))
        return str(avd_agent.value_of(key, avd_agent.MARK) or "")


@contextlib.contextmanager
def _alone(pool: Location) -> Iterator[None]:
    """One host of this controller at a time makes the pool, or a token of it: a new token ends the
    one before."""
    folder = Path(home())
    folder.mkdir(parents=True, exist_ok=True)
    name = hashlib.sha256(pool.path.lower().encode()).hexdigest()[:16]
    with (folder / f".avd-{name}.lock").open("w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield


def _diff(change: Change) -> dict[str, str]:
    def as_json(value: Any) -> str:
        return json.dumps(value, indent=2, sort_keys=True) + "\n" if value else ""

    return {
        "before_header": change.what,
        "after_header": change.what,
        "before": as_json(change.before),
        "after": as_json(change.after),
    }
