"""What ansible-playbook prints with the project's settings: a play of many hosts, on a terminal, in
a log, at -v, and when it is ended."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import plays
import pytest
import yaml

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "data" / "golden" / "terminal_play.txt"
NOWHERE = "http://127.0.0.1:9"
# Without pipelining Ansible writes nothing to ssh, so its message does not depend on when ssh ends.
DEAD = {
    "ansible_connection": "ssh",
    "ansible_host": "127.0.0.9",
    "ansible_port": 9,
    "ansible_pipelining": False,
}
HOSTS = [f"node{number:02}" for number in range(1, 13)]


def inventory(folder: Path, *, dead: bool = False) -> Path:
    """Twelve names of this machine, and one that nobody answers."""
    hosts = {name: {"trueup_metadata_url": NOWHERE} for name in HOSTS}
    path = folder / "hosts.yml"
    path.write_text(yaml.safe_dump({"all": {"hosts": hosts | ({"dead": DEAD} if dead else {})}}))
    return path


def task(name: str, module: str, when: str = "true", **more: object) -> dict[str, object]:
    arguments = more.pop("arguments")
    return {"name": name, f"ansible.builtin.{module}": arguments, "when": when, **more}


def on(*numbers: int) -> str:
    return f"inventory_hostname in {[f'node{number:02}' for number in numbers]}"


TASKS = [
    task("Report", "debug", arguments={"msg": "all the same"}),
    task("Differ", "command", arguments="true", changed_when="inventory_hostname == 'node03'"),
    task(
        "Break",
        "command",
        on(4, 5, 6),
        arguments="sh -c 'echo out; echo {{ inventory_hostname }} is full >&2; exit 3'",
    ),
    {
        "name": "Rescue",
        "when": on(7),
        "block": [task("Attack", "fail", arguments={"msg": "a\x1b[2Jb\x07c"})],
        "rescue": [task("Mend", "debug", arguments={"msg": "mended"})],
    },
    task("Ignore", "fail", on(8), arguments={"msg": "never mind"}, ignore_errors=True),
    task("Loop", "command", on(9, 10), arguments="test {{ item }} -ne 2", loop=[1, 2, 3]),
    task(
        "Write",
        "copy",
        on(1, 2),
        arguments={"content": "hello\n", "dest": "{{ playbook_dir }}/{{ inventory_hostname }}"},
    ),
    task(
        "Retry",
        "command",
        on(11, 12),
        arguments="false",
        register="answer",
        retries=1,
        delay=0,
        until="answer.rc == 0",
    ),
    task("Undefined", "debug", on(1), arguments={"msg": "{{ nonesuch }}"}),
    task("Secret", "fail", on(2), arguments={"msg": "dummy-secret"}, no_log=True),
]


def run(folder: Path, *arguments: str, stdout: str | None = None) -> tuple[int, str]:
    play = {"name": "Try", "hosts": "all", "gather_facts": False, "tasks": TASKS}
    (folder / "play.yml").write_text(yaml.safe_dump([play]))
    hosts = inventory(folder, dead=True)
    python = ("-e", f"ansible_python_interpreter={sys.executable}", "-e", "ansible_ssh_retries=0")
    done = plays.playbook(
        folder,
        *("-i", str(hosts), "-c", "local", *python, str(folder / "play.yml"), *arguments),
        env={"ANSIBLE_STDOUT_CALLBACK": stdout} if stdout else None,
    )
    return done.returncode, done.stdout


def test_a_play_of_many_hosts_says_each_thing_once(tmp_path: Path) -> None:
    status, said = run(tmp_path, "--diff")
    assert status == 4
    # The recap is Ansible's, and times differ.
    lines = [line for line in said.split("\n") if not re.match(r"\S+ .*: ok=", line)]
    timeless = re.sub(r"(?: after|The run took) \d+:\d\d\.?", "", "\n".join(lines))
    assert timeless.replace(str(tmp_path), "FOLDER") == GOLDEN.read_text(encoding="utf-8")


def test_at_v_nothing_is_lost_of_what_ansible_shows(tmp_path: Path) -> None:
    """The escape sequences of a node's message alone differ; the failures come beside it."""
    sides = []
    for name in (None, "ansible.builtin.default"):
        folder = tmp_path / str(name)
        folder.mkdir()
        said = run(folder, "-v", "--diff", stdout=name)[1].replace(str(folder), "FOLDER")
        plain = re.sub(r"[\d:.-]{6,}|: \d{10}", "T", said).replace("a\x1b[2Jb\x07c", "a?[2Jb?c")
        sides.append(plain.partition("\nFAILURES")[0].split("\n"))
    ours, ansibles = (sorted(filter(None, side)) for side in sides)
    assert ours == ansibles


def ended(folder: Path, number: int) -> tuple[int, str]:
    """A run that is ended while one of its hosts still works."""
    begun = folder / "begun"
    slow = f"test {{{{ inventory_hostname }}}} = node05 || exit 0; touch {begun}; sleep 60"
    tasks = [
        task("Quick", "debug", arguments={"msg": "before"}),
        task("Slow", "shell", arguments=slow, failed_when="inventory_hostname == 'node02'"),
    ]
    play = {"name": "Try", "hosts": "all", "gather_facts": False, "tasks": tasks}
    (folder / "play.yml").write_text(yaml.safe_dump([play]))
    program = Path(sys.executable).with_name("ansible-playbook")
    env = {"ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "TRUEUP_RESULTS": str(folder / "results")}
    env["ANSIBLE_CACHE_PLUGIN_CONNECTION"] = str(folder / "facts")
    process = subprocess.Popen(
        [program, "-i", inventory(folder), *plays.LOCAL, folder / "play.yml", "-f", "12"],
        cwd=ROOT,
        env={**os.environ, **env},
        stdout=subprocess.PIPE,
        text=True,
    )
    until = time.monotonic() + 60
    while not begun.exists() and time.monotonic() < until:
        time.sleep(0.1)
    time.sleep(5)
    process.send_signal(number)
    said = process.communicate(timeout=60)[0]
    return process.returncode, said


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 99), (signal.SIGTERM, -signal.SIGTERM)]
)
def test_a_run_that_is_ended_prints_all_that_it_has(
    number: int, status: int, tmp_path: Path
) -> None:
    returned, said = ended(tmp_path, number)
    assert returned == status
    assert "TASK [Quick] ok: [12 hosts] => before" in said
    assert "changed: [10 hosts: node[01,03-04,06-12]]\nfatal: [node02]: FAILED! => " in said
    last = said.partition("INTERRUPTED after ")[2]
    assert re.match(r"0:\d\d, Slow, 11 of 12 hosts\n\nFAILURES\nnode02: Slow ", last)


def test_only_a_terminal_gets_a_line_that_is_redrawn(tmp_path: Path) -> None:
    """identify, the first of all plays; without a terminal no control character is printed."""
    argv = [str(Path(sys.executable).with_name("ansible-playbook")), "playbooks/identify.yml"]
    argv += ["-i", str(inventory(tmp_path)), *plays.LOCAL]
    env = {**os.environ, "ANSIBLE_CACHE_PLUGIN_CONNECTION": str(tmp_path / "facts")}
    env |= {"ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "TERM": "xterm"}
    env.pop("ANSIBLE_NOCOLOR", None)
    piped = subprocess.run(argv, cwd=ROOT, env=env, capture_output=True, text=True, check=True)
    assert re.findall(r"[^\n -~]", piped.stdout) == []
    assert len(piped.stdout.rstrip().split("\n")) <= 15
    mine, its = pty.openpty()
    process = subprocess.Popen(argv, cwd=ROOT, env=env, stdout=its, stderr=subprocess.DEVNULL)
    os.close(its)
    drawn = b""
    try:
        while piece := os.read(mine, 65536):
            drawn += piece
    except OSError:
        # Linux's answer at the end of a terminal.
        pass
    assert process.wait() == 0
    text = drawn.decode()
    assert re.search(r"\r\x1b\[K0:\d\d, Identify node, \d+ of 12 hosts", text) is not None
    # What is left on the screen is what a log has: each drawn line is erased before the next text.
    kept = re.sub(r"\r\x1b\[K[^\r\n]*(?=\r\x1b\[K)|\r\x1b\[K", "", text)
    kept = re.sub(r"\x1b\[[\d;]*m", "", kept).replace("\r\n", "\n")
    tasks = [line for line in kept.split("\n") if line.startswith("TASK")]
    after = re.compile(r" after 0:\d\d")
    logged = [line for line in piped.stdout.split("\n") if line.startswith("TASK")]
    assert [after.sub("", line) for line in tasks] == [after.sub("", line) for line in logged]
