"""Runs ansible-playbook as the contracts need it, with this Python, and keeps all in a folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import forked
import yaml
from helpers import ROLES

ROOT = Path(__file__).parent.parent
# ``roles_path`` of ansible.cfg, for a run that searches another folder first.
ROLES_PATH = ":".join(sorted({str(folder.parent) for folder in ROLES.values()}))
# Keeps what Python and Ansible work out of a module's source.
_WARM = ROOT / "molecule" / "_shared" / "warm"
# Every host is this machine.
LOCAL = ("-c", "local", "-e", f"ansible_python_interpreter={sys.executable}")


def playbook(
    folder: Path, *arguments: str, cwd: Path = ROOT, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run with the project's settings; facts and results go below ``folder``.

    Args:
        folder: what the test may write.
        arguments: of ansible-playbook.
        cwd: where it runs.
        env: more variables.
    """
    own = {
        **os.environ,
        "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_CACHE_PLUGIN_CONNECTION": str(folder / "facts"),
        "TRUEUP_RESULTS": str(folder / "results"),
    }
    return _run(arguments, cwd, {**own, **(env or {})})


def roles(
    folder: Path,
    play: dict[str, Any],
    *options: str,
    hosts: dict[str, Any] | str | None = None,
    env: dict[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a play of the project's roles on this machine; no fact is kept between two runs.

    Args:
        folder: what the test may write, and where it runs.
        play: the play, but for hosts and gather_facts.
        options: of ansible-playbook.
        hosts: by name, their variables; or the text of an inventory; None: localhost.
        env: more variables; ANSIBLE_STDOUT_CALLBACK=ansible.posix.json for ``answer``.
    """
    whole = {"hosts": "all", "gather_facts": False, **play}
    (folder / "play.yml").write_text(yaml.safe_dump([whole]))
    if hosts is not None:
        text = hosts if isinstance(hosts, str) else yaml.safe_dump({"all": {"hosts": hosts}})
        (folder / "hosts").write_text(text)
    own = {"ANSIBLE_CACHE_PLUGIN": "memory"}
    arguments = ("play.yml", "-i", "localhost," if hosts is None else "hosts", *LOCAL, *options)
    return playbook(folder, *arguments, cwd=folder, env={**own, **(env or {})})


def bare(
    folder: Path, *arguments: str, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run in a folder of its own with no setting of the project, but with its callback."""
    # The same for all such runs (tests/forked.py); a library beside the play is found without it.
    settings = ROOT / ".cache" / "bare" / "ansible.cfg"
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.touch()
    own = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(folder),
        "ANSIBLE_CONFIG": str(settings),
        "ANSIBLE_CALLBACK_PLUGINS": str(ROOT / "plugins" / "callback"),
        "ANSIBLE_CALLBACKS_ENABLED": "trueup_records",
        "TRUEUP_RESULTS": str(folder / "results"),
        "LC_ALL": "C.UTF-8",
    }
    return _run(arguments, folder, {**own, **(env or {})})


# Identifies all hosts, and writes the fact and the groups of each into a folder.
_IDENTIFY = """---
- ansible.builtin.import_playbook: {root}/playbooks/identify.yml
- name: Record what came out
  hosts: all
  gather_facts: false
  tasks:
    - name: Record the fact and the groups
      ansible.builtin.copy:
        content: >-
          {{{{ {{'node': ansible_facts['trueup_node'], 'groups': group_names}} | to_json }}}}
        dest: "{folder}/nodes/{{{{ inventory_hostname }}}}.json"
        mode: "0600"
"""


def identify(
    folder: Path, hosts: dict[str, Any], *options: str
) -> tuple[str, dict[str, dict[str, Any]]]:
    """Identify hosts of this machine: what was printed; of each its ``node`` and ``groups``."""
    (folder / "nodes").mkdir()
    (folder / "identify.yml").write_text(_IDENTIFY.format(root=ROOT, folder=folder))
    (folder / "hosts.json").write_text(json.dumps({"all": {"hosts": hosts}}))
    inventory = ("-i", str(folder / "hosts.json"))
    done = playbook(folder, str(folder / "identify.yml"), *inventory, "-c", "local", *options)
    assert done.returncode == 0, done.stdout + done.stderr
    kept = {path.stem: json.loads(path.read_text()) for path in (folder / "nodes").iterdir()}
    return done.stdout, kept


# What makes ``roles`` print one JSON document.
AS_JSON = {"ANSIBLE_STDOUT_CALLBACK": "ansible.posix.json"}


def answer(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """What a run with AS_JSON printed."""
    said: dict[str, Any] = json.loads(done.stdout[done.stdout.index("{") :])
    return said


def results(said: dict[str, Any], host: str) -> list[dict[str, Any]]:
    """What each task of an answer gave on a host, in their order."""
    tasks = [task["hosts"] for play in said["plays"] for task in play["tasks"]]
    return [task[host] for task in tasks if host in task]


def counted(done: subprocess.CompletedProcess[str]) -> tuple[int, int, str]:
    """Exit status, how many tasks changed something (-1: it never began), all that was said."""
    said = done.stdout + done.stderr
    recaps = [line for line in said.splitlines() if "changed=" in line and "ok=" in line]
    count = int(recaps[-1].split("changed=")[1].split()[0]) if recaps else -1
    return done.returncode, count, said


def warm(env: dict[str, str]) -> dict[str, str]:
    """An environment in which modules need not be parsed and compiled again."""
    kept = ROOT / ".cache" / "warm"
    kept.mkdir(parents=True, exist_ok=True)
    path = [*filter(None, [env.get("PYTHONPATH")]), str(_WARM)]
    return {**env, "PYTHONPATH": os.pathsep.join(path), "TRUEUP_WARM": str(kept)}


def _run(
    arguments: tuple[str, ...], cwd: Path, env: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    program = str(Path(sys.executable).with_name("ansible-playbook"))
    return forked.run([program, *arguments], cwd=cwd, env=warm(env))
