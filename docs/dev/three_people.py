"""Three people on an empty machine: their commands and the seconds that these take.

    sudo python docs/dev/three_people.py [logs] [ansible] [morning]

Each person begins in a container of Debian 12 that has Python 3.11, git, make and ssh, and no
trueup. It needs podman, runc and mmdebstrap (`make lab ARGS="-e lab_packages=lab"`), and pip's
settings for a package index. The cache of pip is mounted; the first round of `logs` fills it, and
the second one counts. Exit status 1: a person took longer than promised, or a command failed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "bench" / "results" / "three_people.md"
PACKAGES = (
    *("systemd", "systemd-sysv", "dbus", "python3", "python3-venv", "ca-certificates"),
    *("git", "make", "gcc", "libc6-dev", "openssh-client", "openssh-server"),
)
IMAGE = f"localhost/trueup-empty:{hashlib.sha256(','.join(PACKAGES).encode()).hexdigest()[:12]}"
# runc, and limits within those of CI.
CONFIGURATION = ROOT / "molecule" / "_shared" / "containers.conf"
SIZE = "Standard_HB120rs_v3"


class Row(NamedTuple):
    """A command with its seconds, and those of the CPUs."""

    command: str
    seconds: float
    cpu_seconds: float


class Step(NamedTuple):
    """A command of a person, and the exit statuses that are answers."""

    command: str
    statuses: tuple[int, ...] = (0,)


class Person(NamedTuple):
    """A person: the promise in seconds, commands, and the pattern of the last command's answer."""

    about: str
    limit_seconds: int
    steps: tuple[Step, ...]
    answer: str


# The log is of two nodes whose NCCL used sockets; a container does not reach what HB120rs_v3 must.
PEOPLE = {
    "logs": Person(
        "a log to its verdict, with a warm cache of pip",
        60,
        (
            Step("python3 -m venv trueup"),
            Step("trueup/bin/pip install --quiet /given/trueup-*.whl"),
            Step("trueup/bin/trueup read /given/nccl.log --size Standard_ND96isr_H100_v5", (1,)),
        ),
        r"(?m)^FAIL: ",
    ),
    "ansible": Person(
        "an Ansible repository of her own to a configured and judged node",
        600,
        (
            Step("cp -r /given/repository ops"),
            Step("python3 -m venv ops/venv"),
            Step("ops/venv/bin/pip install --quiet ansible-core"),
            Step(
                "cd ops && venv/bin/ansible-galaxy collection install --offline"
                " /given/trueup-azure_hpc-*.tar.gz -p collections"
            ),
            Step(
                "cd ops && venv/bin/pip install --quiet -r"
                " collections/ansible_collections/trueup/azure_hpc/requirements.txt"
            ),
            Step("cd ops && venv/bin/ansible-playbook site.yml"),
            # The verdict is "fail": a container has not the memory bandwidth of the size.
            Step("cd ops && venv/bin/ansible-playbook trueup.azure_hpc.check", (0, 2)),
        ),
        r"node-1: fail: .*CPU cores is \d+, expected exactly 120",
    ),
    "morning": Person(
        "the morning check of 200 nodes as a timer",
        600,
        (
            Step("git clone --quiet /given/trueup.git trueup"),
            Step("cd trueup && make controller-venv"),
            Step(
                "cd trueup && cp -r inventories/example inventories/mine"
                " && cp /given/hosts.yml inventories/mine/hosts.yml"
            ),
            Step("cd trueup && .venv/bin/ansible -i inventories/mine all --list-hosts | head -1"),
            Step("cd trueup && make morning ARGS='-i inventories/mine --mail ops@example.org'"),
            Step("systemctl list-timers --all --no-pager trueup-morning.timer"),
        ),
        r"trueup-morning\.service",
    ),
}
REPOSITORY = {
    "ansible.cfg": """\
[defaults]
inventory = inventory.yml
collections_path = collections
roles_path = roles
callbacks_enabled = trueup.azure_hpc.trueup_records
host_key_checking = False
""",
    "site.yml": """\
- hosts: hbv3
  roles: [banner, trueup.azure_hpc.hpc_limits]
""",
    "roles/banner/tasks/main.yml": """\
- name: Write the banner
  ansible.builtin.copy:
    content: "This node is configured by Ansible.\\n"
    dest: /etc/motd
    mode: "0644"
""",
}
HOSTS = """\
all:
  vars: {ansible_user: azureuser}
  hosts:
    hb-[001:200]:
"""


def podman(*words: str) -> str:
    """Run podman; its output."""
    done = subprocess.run(["podman", *words], check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout.strip()


def ensure_image() -> None:
    """Make the image of an empty machine, unless it is there."""
    if subprocess.run(["podman", "image", "exists", IMAGE], check=False).returncode == 0:
        return
    with tempfile.TemporaryDirectory() as folder:
        archive = str(Path(folder) / "empty.tar")
        words = ["--quiet", "--variant=minbase", f"--include={','.join(PACKAGES)}", "bookworm"]
        subprocess.run(["mmdebstrap", *words, archive], check=True)
        podman("import", "--quiet", "--change", 'CMD ["/sbin/init"]', archive, IMAGE)


def settings_of_pip() -> list[str]:
    """Options of podman that hand on pip's settings, the folders in them, and its cache."""
    pip = [sys.executable, "-m", "pip"]
    debug = subprocess.run([*pip, "config", "debug"], check=True, capture_output=True, text=True)
    cache = subprocess.run([*pip, "cache", "dir"], check=True, capture_output=True, text=True)
    paths = {Path(word) for word in re.findall(r"(?<![\w/.])/[\w./-]+\w", debug.stdout)}
    paths |= {Path(word) for word in re.findall(r"file://(/[\w./-]+)", debug.stdout)}
    home = Path.home()
    volumes = {cache.stdout.strip(): "/root/.cache/pip", "/etc/ssl/certs": "/etc/ssl/certs:ro"}
    for path in sorted(path for path in paths if path.exists() and path.parent != Path("/")):
        if path.is_relative_to(home):
            volumes[str(path)] = f"/root/{path.relative_to(home)}:ro"
        else:
            whole = str(path if path.is_file() else Path(*path.parts[:3]))
            volumes[whole] = f"{whole}:ro"
    mounts = [word for here, inside in volumes.items() for word in ("--volume", f"{here}:{inside}")]
    named = [name for name in os.environ if name.startswith("PIP_")]
    return mounts + [word for name in named for word in ("--env", name)]


@contextmanager
def container(name: str, *options: str) -> Iterator[str]:
    """A running container with systemd, removed at the end."""
    podman("run", "--detach", "--name", name, "--systemd=always", *options, IMAGE)
    try:
        state = ("exec", name, "systemctl", "is-system-running", "--wait")
        subprocess.run(["podman", *state], check=False, stdout=subprocess.DEVNULL)
        yield name
    finally:
        podman("rm", "--force", "--time", "2", "--volumes", name)


@contextmanager
def node(given: Path) -> Iterator[None]:
    """A node reached by ssh: a container with a stand-in for Azure's metadata service."""
    network = "trueup-three-people"
    podman("network", "create", "--internal", network)
    try:
        with container("trueup-three-node", "--network", network) as name:
            key = given / "id_ed25519"
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
            answer = json.dumps(
                {"compute": {"vmSize": SIZE, "location": "eastus"}, "network": {"interface": []}}
            )
            setup = f"""
                mkdir -p /root/.ssh /srv/metadata
                echo {shlex.quote(key.with_suffix(".pub").read_text())} > /root/.ssh/authorized_keys
                echo {shlex.quote(answer)} > /srv/metadata/instance
                systemd-run --quiet python3 -m http.server --bind 127.0.0.1 --directory /srv 8000
            """
            podman("exec", name, "sh", "-ec", setup)
            address = podman(
                *(
                    "inspect",
                    "--format",
                    "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}",
                ),
                name,
            )
            host = {
                "ansible_host": address,
                "ansible_user": "root",
                "ansible_ssh_private_key_file": "/given/id_ed25519",
                "trueup_metadata_url": "http://127.0.0.1:8000/metadata/instance",
            }
            inventory = {"all": {"children": {"hbv3": {"hosts": {"node-1": host}}}}}
            (given / "repository" / "inventory.yml").write_text(json.dumps(inventory))
            yield
    finally:
        podman("network", "rm", network)


def prepared(given: Path) -> None:
    """The files that people bring: packages, a log, a repository, a clone and an inventory."""
    subprocess.run(["make", "dist", "collection"], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    for pattern in ("trueup-*.whl", "trueup-azure_hpc-*.tar.gz"):
        for path in (ROOT / "dist").glob(pattern):
            (given / path.name).write_bytes(path.read_bytes())
    log = ROOT / "tests" / "data" / "nccl" / "sockets_h100_real.txt"
    (given / "nccl.log").write_bytes(log.read_bytes())
    for name, text in REPOSITORY.items():
        path = given / "repository" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (given / "hosts.yml").write_text(HOSTS)
    clone = ["git", "clone", "--quiet", "--bare", str(ROOT), str(given / "trueup.git")]
    subprocess.run(clone, check=True)


def measured(person: Person, given: Path) -> tuple[list[Row], str]:
    """Commands with their seconds in a fresh container, and the last output.

    Raises:
        RuntimeError: a command failed, or the answer is not in its output.
    """
    options = ("--network", "host", "--volume", f"{given}:/given:ro", *settings_of_pip())
    rows: list[Row] = []
    output = ""
    with container("trueup-three-people", *options) as name:
        for step in person.steps:
            begun = time.monotonic()
            timed = f"{step.command}\nstatus=$?\ntimes >&2\nexit $status"
            done = subprocess.run(
                ["podman", "exec", "--workdir", "/root", name, "bash", "-c", timed],
                capture_output=True,
                text=True,
                check=False,
            )
            wall = time.monotonic() - begun
            errors, children = done.stderr.rstrip("\n").rsplit("\n", 1)
            used = re.findall(r"(\d+)m([\d.]+)s", children)
            rows.append(Row(step.command, wall, sum(int(m) * 60 + float(s) for m, s in used)))
            print(f"{wall:7.1f} s (CPU {rows[-1].cpu_seconds:5.1f} s)  {step.command}", flush=True)
            output = done.stdout
            if done.returncode not in step.statuses:
                message = f"exit status {done.returncode}\n{output[-3000:]}{errors[-3000:]}"
                raise RuntimeError(message)
    if not re.search(person.answer, output):
        message = f"{person.steps[-1].command}: no {person.answer!r} in\n{output[-3000:]}"
        raise RuntimeError(message)
    return rows, output


def page(results: dict[str, list[Row]]) -> str:
    """The results as a page: commands and seconds."""
    lines = ["# Three people on an empty machine", ""]
    lines += [f"`python {Path(__file__).relative_to(ROOT)} --record` writes this page.", ""]
    for name, rows in results.items():
        person = PEOPLE[name]
        lines += [f"## {person.about[0].upper()}{person.about[1:]}", ""]
        total, cpu = sum(row.seconds for row in rows), sum(row.cpu_seconds for row in rows)
        lines += [f"{total:.0f} s (CPU {cpu:.0f} s); promised: {person.limit_seconds} s.", ""]
        lines += ["| seconds | CPU seconds | command |", "| --- | --- | --- |"]
        for row in rows:
            command = row.command.replace("|", "\\|")
            lines.append(f"| {row.seconds:.1f} | {row.cpu_seconds:.1f} | `{command}` |")
        lines.append("")
    return "\n".join(lines)


def main() -> int:
    """1 if a promise is not kept."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("people", nargs="*", help="logs, ansible, morning; all by default")
    parser.add_argument("--record", action="store_true", help=f"also write {RESULTS.name}")
    asked = parser.parse_args()
    if unknown := set(asked.people) - set(PEOPLE):
        parser.error(f"no {', '.join(sorted(unknown))}: there are {', '.join(PEOPLE)}")
    os.environ["CONTAINERS_CONF"] = str(CONFIGURATION)
    ensure_image()
    results = {}
    late = False
    with tempfile.TemporaryDirectory() as folder:
        given = Path(folder)
        prepared(given)
        for name in asked.people or PEOPLE:
            person = PEOPLE[name]
            print(f"{name}: {person.about}", flush=True)
            if name == "ansible":
                with node(given):
                    rows, output = measured(person, given)
            else:
                if name == "logs":
                    measured(person, given)
                    print("again, with a warm cache:", flush=True)
                rows, output = measured(person, given)
            total = sum(row.seconds for row in rows)
            print(f"{output}\n{name}: {total:.0f} s of {person.limit_seconds} s", flush=True)
            results[name] = rows
            late = late or total > person.limit_seconds
    if asked.record:
        RESULTS.write_text(page(results), encoding="utf-8")
    return 1 if late else 0


if __name__ == "__main__":
    sys.exit(main())
