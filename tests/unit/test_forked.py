"""A program in a fork is run as subprocess.run would run it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import forked
import plays
import pytest
import yaml

pytestmark = pytest.mark.slow

PROGRAM = f"""#!{sys.executable}
import atexit, os, sys
print(os.getcwd(), __name__, sys.argv, sys.path[0], dict(os.environ), flush=True)
print("said", file=sys.stderr)
atexit.register(print, "at the end")
sys.exit(int(sys.argv[1]))
"""


def test_it_is_told_and_ends_as_if_it_had_been_started(tmp_path: Path) -> None:
    program = tmp_path / "bin" / "program"
    program.parent.mkdir()
    program.write_text(PROGRAM)
    program.chmod(0o755)
    for status in ("0", "3"):
        argv = [str(program), status]
        given: dict[str, Any] = {"cwd": tmp_path, "env": {"A": "ä"}}
        done = forked.run(argv, **given)
        started = subprocess.run(argv, capture_output=True, text=True, check=False, **given)
        assert vars(done) == vars(started)
        assert (done.returncode, done.stderr) == (int(status), "said\n")
        assert done.stdout.endswith("\nat the end\n")


def test_one_that_is_killed_says_so_and_one_that_does_not_end_is_ended(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text("import os\nos.kill(os.getpid(), 9)\n")
    assert forked.run([str(program)], cwd=tmp_path, env={}).returncode == -9
    program.write_text("import time\ntime.sleep(99)\n")
    with pytest.raises(subprocess.TimeoutExpired):
        forked.run([str(program)], cwd=tmp_path, env={}, timeout=0.2)


# Says what it sees of its surroundings.
MODULE = """#!/usr/bin/python
import atexit, os, sys
from ansible.module_utils.basic import AnsibleModule
given = AnsibleModule(argument_spec={"say": {"type": "str"}, "end": {"type": "str"}})
say, end = given.params["say"], given.params["end"]
print("to the standard error", file=sys.stderr)
atexit.register(print, "at the end", file=sys.stderr)
if end == "breaks":
    raise ValueError(say)
if end == "dies":
    print("half an ans", flush=True)
    os.kill(os.getpid(), 9)
if end == "fails":
    given.fail_json(msg=say)
main = sys.modules["__main__"]
given.exit_json(
    changed=True, say=say, cwd=os.getcwd(), argv=[part[-9:] for part in sys.argv],
    name=main.__name__, path=[os.path.basename(part) for part in sys.path], umask=os.umask(18),
    environment={name: text for name, text in os.environ.items() if name not in ("_", "PWD")},
    stdin=sys.stdin.read(), limits=os.sysconf("SC_OPEN_MAX"), leads=os.getsid(0) == os.getpid(),
    files=sorted(
        module.__file__.rpartition("_payload.zip/")[2] for name, module in sys.modules.items()
        if name.startswith("ansible.module_utils") and hasattr(module, "__file__")
        # Imported at the end of a module.
        and not name.endswith("_m2c")
    ),
    packages=[
        [part.rpartition("_payload.zip/")[2] for part in sys.modules[name].__path__]
        for name in ("ansible", "ansible.module_utils", "ansible.module_utils.common")
    ],
)
"""


def test_a_module_in_a_fork_is_what_one_of_its_own_python_is(tmp_path: Path) -> None:
    (tmp_path / "library").mkdir()
    (tmp_path / "library" / "seen.py").write_text(MODULE)
    ends = ("well", "fails", "breaks", "dies")
    asked = [{"seen": {"say": "ä" * 9, "end": end}, "ignore_errors": True} for end in ends]
    asked += [
        {**asked[0], "environment": one} for one in ({"A": "b:c"}, {"A": "b c"}, {"LANG": "C"})
    ]
    env = {**plays.AS_JSON, "ANSIBLE_LIBRARY": str(tmp_path / "library")}
    runs = [plays.roles(tmp_path, {"tasks": asked}, env=env) for _ in range(3)]
    own, *forks = [plays.results(plays.answer(run), "localhost") for run in runs]
    # Settings that were not there before have a Python of their own; so has an environment that
    # needs quotes, or that Python reads as it starts.
    leads = [[one.pop("leads") for one in found if "leads" in one] for found in (own, *forks)]
    assert leads == [[False] * 4, *[[True, True, False, False]] * 2]
    assert own[0]["say"] == "ä" * 9
    assert ["half an ans" in found["module_stdout"] for found in own[3:4]] == [True]
    assert forks == [own, own]
    # One that finds programs of a folder before others, in a Python of its own and in a fork.
    (tmp_path / "bin").mkdir()
    python = f"ansible_python_interpreter={forked.interpreter(tmp_path / 'bin')}"
    for more, leads_its_session in (({"ANSIBLE_FORKS": "3"}, False), ({}, True)):
        run = plays.roles(tmp_path, {"tasks": asked[:1]}, "-e", python, env={**env, **more})
        [found] = plays.results(plays.answer(run), "localhost")
        assert found.pop("leads") == leads_its_session
        before = own[0]["environment"]
        seen = {**before, **more, "PATH": f"{tmp_path / 'bin'}:{before['PATH']}"}
        assert found == {**own[0], "environment": seen}


# What a task can do to a play, once on each of two hosts. The numbers are those of the processes
# that the tasks run in: the parents of the shells that they start.
TASKS = """
- name: A task of {{ inventory_hostname }}
  ansible.builtin.set_fact:
    mine: "{{ inventory_hostname }}"
    numbers: ["{{ lookup('ansible.builtin.pipe', 'echo $PPID') }}"]
- ansible.builtin.debug:
    msg: "{{ lookup('ansible.builtin.vars', mine ~ '_item') }} {{ place }} {{ mine }}"
  loop: "{{ [mine, 2] }}"
  loop_control:
    loop_var: "{{ mine }}_item"
    label: "{{ place }} of {{ mine }}"
    index_var: place
  register: shown
- ansible.builtin.debug: {msg: "{{ item }} {{ mine }}"}
  with_first_found: [nowhere.yml, more.yml]
- ansible.builtin.add_host: {name: three}
  # The task's process knows it, and the run does not.
  changed_when: ansible_search_path is defined
- ansible.builtin.set_fact:
    of: "{{ mine }}"
  delegate_to: "{{ 'two' if mine == 'one' else 'one' }}"
  delegate_facts: true
- block:
    - ansible.builtin.assert: {that: of != 'one', fail_msg: "{{ of }}", quiet: true}
    - ansible.builtin.set_fact: {well: "{{ of }}"}
      changed_when: true
      notify: Handle
  rescue:
    - ansible.builtin.debug: {var: ansible_failed_result.msg}
  always:
    - ansible.builtin.include_tasks: more.yml
      vars: {given: "{{ shown.results | length }} {{ mine }}"}
- ansible.builtin.debug: {msg: "{{ nothing }}"}
  ignore_errors: true
- ansible.builtin.debug: {msg: "once, on {{ mine }}"}
  run_once: true
- ansible.builtin.debug: {msg: "{{ mine }}"}
  no_log: true
- ansible.builtin.set_fact:
    numbers: "{{ numbers + [next] }}"
  vars: {next: "{{ lookup('ansible.builtin.pipe', 'echo $PPID') }}"}
- seen: {say: "{{ mine }}", end: well}
  environment: {A: "{{ mine }}"}
  register: told
- ansible.builtin.debug: {msg: "{{ told.say }} {{ told.environment.A }}"}
- ansible.builtin.set_fact:
    numbers: "{{ numbers + [next] }}"
  vars: {next: "{{ lookup('ansible.builtin.pipe', 'echo $PPID') }}"}
  # Waits, if not for long.
  until: true
- ansible.builtin.copy:
    content: "{{ numbers | to_json }}"
    dest: "{{ folder }}/{{ mine }}.json"
  diff: false
- ansible.builtin.fail: {msg: "{{ mine }}"}
  when: mine == 'two'
"""
EXPECTED = ("one is handled", "more of 2 two", "two 0 two", "'nothing' is undefined", "one one")


def test_a_task_in_the_process_of_its_run_does_what_one_in_a_fork_does(tmp_path: Path) -> None:
    (tmp_path / "library").mkdir()
    (tmp_path / "library" / "seen.py").write_text(MODULE)
    (tmp_path / "more.yml").write_text("- ansible.builtin.debug: {msg: 'more of {{ given }}'}\n")
    handlers = [{"name": "Handle", "ansible.builtin.debug": {"msg": "{{ mine }} is handled"}}]
    play = {"tasks": yaml.safe_load(TASKS), "handlers": handlers}
    # One after the other: the output has an order.
    env = {"ANSIBLE_FORKS": "1", "ANSIBLE_LIBRARY": str(tmp_path / "library")}
    # The first run has no Python that has Ansible, and so no tasks without forks.
    more: tuple[dict[str, str], ...] = ({}, {}, {forked.ALL_IN_FORKS: "yes"})
    said, numbers = [], []
    for number, one in enumerate(more):
        kept = tmp_path / str(number)
        kept.mkdir()
        given = ("-v", "-e", f"folder={kept}", "--diff")
        done = plays.roles(tmp_path, play, *given, hosts={"one": {}, "two": {}}, env=env | one)
        said.append((done.returncode, _without_numbers(done.stdout, kept), done.stderr))
        found = [json.loads((kept / f"{name}.json").read_text()) for name in ("one", "two")]
        numbers.append([len({*both}) for both in zip(*found, strict=True)] + [len({*found[0]})])
    assert (said[0][0], "two is handled" in said[0][1]) == (2, False)
    assert [text for text in EXPECTED if text not in said[0][1]] == []
    assert said == [said[0]] * 3
    # By task, of both hosts, and of all tasks of a host.
    assert numbers == [[2, 2, 2, 3], [1, 1, 2, 2], [2, 2, 2, 3]]


def _without_numbers(text: str, folder: Path) -> str:
    """Without numbers of processes, what their digits make longer, the folder's name, and when and
    where a file was made."""
    text = text.replace(str(folder), "folder")
    return re.sub(r"(?m)^ +(- '[0-9]+'|(leads|size|src|\w*sum|TRUEUP_TEST_FORKS): .*)\n", "", text)
