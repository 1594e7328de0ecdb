"""The controller's folder of a run on Azure: its description, its ssh key, and the way to its
nodes. ``run.json`` is written before any resource is made, and holds no secret; teardown finds the
run's resources by it, and without it by the run's tag.

    RUN/run.json                    run, recipe, subscription, group, region, zone, expires
    RUN/id_ed25519[.pub]            the run's key
    RUN/vllm_api_key                a secret of `generated_secrets`, by its variable
    RUN/windows_password            the administrator's of Windows nodes
    RUN/ssh_config, known_hosts     the way to its machines, also by hand
    RUN/inventory/                  azure_hpc.yml, group_vars: the machines of this run alone
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from trueup_node.errors import BadInput, TrueupError
from trueup_node.record import is_run_id

from . import nfs, template, windows
from .parameters import GENERATED, Parameters

VARIABLE = "TRUEUP_AZURE_STATE"
RUN, KEY, CONFIG, KNOWN = "run.json", "id_ed25519", "ssh_config", "known_hosts"
INVENTORY, LOCK = "inventory", ".lock"
PASSWORD = "windows_password"  # noqa: S105 WHY: a file's name
LOGIN_ALIAS = "login"
_KEYGEN_SECONDS = 60


def home() -> str:
    """The folder of all runs."""
    cache = os.path.join(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "trueup")
    cache = os.environ.get("TRUEUP_CACHE") or cache
    return os.path.expanduser(os.environ.get(VARIABLE) or os.path.join(cache, "azure"))


class State:
    """The folder of one run.

    Args:
        run: its id.

    Raises:
        BadInput: it is no run's id.
    """

    def __init__(self, run: str) -> None:
        if not is_run_id(run):
            raise BadInput(f"the run {run!r} is not of the form 20261120T091300Z-7c1e")
        self.run = run
        self.folder = os.path.join(home(), run)

    def path(self, *names: str) -> str:
        return os.path.join(self.folder, *names)

    def read(self) -> dict[str, Any]:
        """The content of ``run.json``; {} if there is none.

        Raises:
            BadInput: it cannot be read, or is another run's.
        """
        path = self.path(RUN)
        try:
            with open(path, encoding="utf-8") as stream:
                document = json.load(stream)
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            raise BadInput(f"{path} cannot be read: {error}") from None
        if not isinstance(document, dict) or document.get("run") != self.run:
            raise BadInput(f"{path} is not that of the run {self.run}")
        return document

    def write(self, **more: Any) -> None:
        """Add to ``run.json``; None takes a member away."""
        every = {**self.read(), "run": self.run, **more}
        document = {name: value for name, value in every.items() if value is not None}
        self._put(RUN, json.dumps(document, indent=2, sort_keys=True) + "\n")

    def public_key(self) -> str:
        """The public part of the run's key, which is made unless it is there.

        Raises:
            TrueupError: ssh-keygen is not there, or makes none.
        """
        path = self.path(KEY)
        if not os.path.exists(path):
            self._made()
            try:
                with tempfile.TemporaryDirectory(prefix=".", dir=self.folder) as aside:
                    new = os.path.join(aside, KEY)
                    _keygen("-q", "-t", "ed25519", "-N", "", "-C", f"trueup-{self.run}", "-f", new)
                    os.rename(new, path)
            except OSError as error:
                raise TrueupError(f"{path} cannot be written: {error.strerror}") from None
        public = _keygen("-y", "-f", path)
        self._put(f"{KEY}.pub", public)
        return public.strip()

    def password(self) -> str:
        """The administrator's of Windows nodes, which is made unless it is there."""
        path = self.path(PASSWORD)
        if not os.path.exists(path):
            self._put(PASSWORD, windows.password())
        with open(path, encoding="utf-8") as stream:
            return stream.read()

    def _generated(self, parameters: Parameters) -> dict[str, str]:
        """Variables of secrets that are made for the run. They are read where they are used: the
        environment's, else the run's file, which is made unless it is there."""
        variables: dict[str, str] = {}
        for name in parameters.generated_secrets:
            path = self.path(name)
            if not os.path.exists(path):
                self._put(name, secrets.token_urlsafe(32))
            of_environment = f"lookup('ansible.builtin.env', '{GENERATED[name]}')"
            of_run = f"lookup('ansible.builtin.file', {json.dumps(path)})"
            variables[name] = f"{{{{ {of_environment} or {of_run} }}}}"
        return variables

    def forget_hosts(self) -> None:
        """Take no machine for one that had its address before."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path(KNOWN))

    @contextlib.contextmanager
    def alone(self, seconds: float = 60.0) -> Iterator[None]:
        """Lock the run against other processes on this controller. A killed process needs some
        seconds to end, and is waited for.

        Raises:
            BadInput: another process still has the lock after the time.
        """
        self._made()
        try:
            lock = open(self.path(LOCK), "w", encoding="ascii")  # noqa: SIM115 WHY: closed below
        except OSError as error:
            raise TrueupError(f"{self.path(LOCK)} cannot be made: {error.strerror}") from None
        with lock as stream:
            end = time.monotonic() + seconds
            while not _locked(stream.fileno()):
                if time.monotonic() >= end:
                    raise BadInput(
                        f"the run {self.run} is being made by another ansible-playbook: wait for"
                        " it, or end it first"
                    )
                time.sleep(0.2)
            yield

    def remove(self) -> None:
        """Keep nothing of the run."""
        try:
            shutil.rmtree(self.folder)
        except FileNotFoundError:
            return
        except OSError as error:
            raise TrueupError(f"{self.folder} cannot be removed: {error.strerror}") from None

    def write_access(
        self,
        parameters: Parameters,
        subscription: str,
        address: str,
        mounts: Sequence[Mapping[str, str]] = (),
    ) -> None:
        """Write the way to the nodes, for ssh and for Ansible, and their mounts.

        Args:
            address: the login node's public one; empty where there is none, and the nodes are
                reached from within alone.
            mounts: as the role shared_storage takes them.
        """
        self._put(CONFIG, "\n".join(self._ssh_config(parameters, address)) + "\n")
        groups = {"azure_role_compute": "tags.role == 'compute'"}
        if parameters.storage.server:
            groups["nfs_server"] = "tags.role == 'storage'"
        plugin = {
            "plugin": "azure_hpc",
            "subscriptions": [subscription],
            "include_vm_resource_groups": [parameters.resource_group],
            "include_vmss_resource_groups": [parameters.resource_group],
            "include": [f"tags.run == '{self.run}' && {role}" for role in groups.values()],
            "exclude": ["powerstate != 'running'"],
            # The names by which they know each other (Azure's name service), and MPI calls them.
            "hostnames": ["computer_name", "default"],
            # A recipe's variables name its nodes so.
            "selected_groups": groups,
        }
        variables = {
            **({"shared_storage_mounts": list(mounts)} if mounts else {}),
            **self._generated(parameters),
            **parameters.variables,
            "ansible_user": parameters.admin_user,
            "ansible_ssh_common_args": f"-F {shlex.quote(self.path(CONFIG))}",
            # Two runs have the same private addresses, and Ansible's own path tells them not apart.
            "ansible_control_path": f"%(directory)s/{self.run[-4:]}{self.run[9:15]}-%%h",
            # A login node's sshd lets few come in at once.
            "ansible_ssh_retries": 5,
        }
        head = f"# Machines of the run {self.run}, written by playbooks/provision.yml.\n"
        files = {"azure_hpc.yml": plugin, "group_vars/azure_linux.yml": variables}
        if parameters.nodes.windows:
            files = {
                "azure_hpc.yml": plugin,
                "group_vars/windows.yml": self._of_windows(parameters),
            }
        if parameters.storage.server:
            # Of groups as near to a host, Ansible takes the later one's in the alphabet.
            files["group_vars/nfs_server.yml"] = nfs.variables(parameters)
        for name, document in files.items():
            text = head + json.dumps(document, indent=2) + "\n"
            self._put(os.path.join(INVENTORY, name), text)

    def _of_windows(self, parameters: Parameters) -> dict[str, Any]:
        port = self.read().get("socks", 0)
        return {
            # Teardown finds the role's resources by it.
            "avd_session_host_tags": template.tags(parameters, self.run),
            **parameters.variables,
            **windows.variables(parameters.admin_user, self.path(PASSWORD), port),
        }

    def _ssh_config(self, parameters: Parameters, address: str) -> list[str]:
        within = ".".join(parameters.network.split(".")[:2])
        lines = [
            "Host *",
            f"  User {parameters.admin_user}",
            f"  IdentityFile {self._quoted(KEY)}",
            "  IdentitiesOnly yes",
            f"  UserKnownHostsFile {self._quoted(KNOWN)}",
            "  GlobalKnownHostsFile /dev/null",
            "  StrictHostKeyChecking accept-new",
            "  ConnectTimeout 20",
            "  ServerAliveInterval 15",
        ]
        if address:
            lines += [f"Host {LOGIN_ALIAS}", f"  HostName {address}"]
            lines += [f"Host {within}.*", f"  ProxyJump {LOGIN_ALIAS}"]
        return lines

    def _quoted(self, name: str) -> str:
        return '"' + self.path(name).replace("%", "%%") + '"'

    def _made(self) -> None:
        try:
            os.makedirs(self.folder, mode=0o700, exist_ok=True)
        except OSError as error:
            raise TrueupError(f"{self.folder} cannot be made: {error.strerror}") from None

    def _put(self, name: str, text: str) -> None:
        """A file of the folder with this text, whole or not at all, for its owner alone."""
        self._made()
        path = self.path(name)
        try:
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
            handle, temporary = tempfile.mkstemp(prefix=".", dir=os.path.dirname(path))
            try:
                with os.fdopen(handle, "w", encoding="utf-8") as stream:
                    stream.write(text)
                    stream.flush()
                    os.fsync(stream.fileno())
                os.rename(temporary, path)
            finally:
                # Some hold a secret.
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(temporary)
        except OSError as error:
            raise TrueupError(f"{path} cannot be written: {error.strerror}") from None


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _keygen(*arguments: str) -> str:
    try:
        done = subprocess.run(
            ["ssh-keygen", *arguments],  # noqa: S607 WHY: the controller's own
            capture_output=True,
            text=True,
            timeout=_KEYGEN_SECONDS,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise TrueupError(f"ssh-keygen could not be run: {error}") from None
    if done.returncode:
        message = " ".join(done.stderr.split())[:200]
        raise TrueupError(f"ssh-keygen made no key for the run: {message}")
    return done.stdout
