"""The cluster runs jobs as it says, keeps its secrets, and knows when a node is lost."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from pathlib import Path

import testinfra
from testinfra.host import Host

HEAD, FIRST, SECOND = "trueup-cluster-head", "trueup-cluster-1", "trueup-cluster-2"
COMPUTE = (FIRST, SECOND)
HEALTH = "/usr/local/libexec/trueup/slurm_health"


def node(name: str) -> Host:
    return testinfra.get_host(f"podman://{name}")


def as_user(command: str, seconds: int = 300, host: str = HEAD) -> tuple[int, str]:
    """Exit status and output of a command of the ordinary user, in the folder that all see."""
    words = "cd /shared && exec timeout %s runuser -u hpc -- sh -c %s"
    done = node(host).run(words, str(seconds), command)
    return int(done.rc), str(done.stdout + done.stderr)


def root(name: str, command: str) -> str:
    return str(node(name).check_output(command))


def state_of(name: str) -> str:
    return root(HEAD, f"sinfo --noheader --nodes={name} --partition=all --format=%T").strip()


def job_state(job: str) -> str:
    """As accounting has it, the first word."""
    said = root(HEAD, f"sacct --noheader --allocations --parsable2 --jobs={job} --format=State")
    return (said.split() or [""])[0]


def queued(job: str) -> str:
    return as_user(f"squeue --noheader --jobs={job} --format=%T")[1].strip()


def partitions() -> str:
    return "\n".join(sorted(root(HEAD, "sinfo --noheader --format='%R %D %T'").splitlines()))


def reason_of(name: str) -> str:
    return root(HEAD, f"sinfo --noheader --nodes={name} -p all --format=%E").strip()


def wait_for(ask: Callable[[], str], wanted: str, seconds: float = 300) -> str:
    """What is answered last: the wanted word, or another one after the time."""
    end = time.monotonic() + seconds
    while (answer := ask()) != wanted and time.monotonic() < end:
        time.sleep(0.5)
    return answer


def test_partitions_and_features_are_what_identify_said() -> None:
    # The last job may still be ending.
    wanted = "all 2 idle\nlocal 2 idle"
    assert wait_for(partitions, wanted) == wanted
    assert root(HEAD, f"sinfo --noheader --nodes={FIRST} -p all --format=%f").strip() == (
        "local,small-scratch"
    )
    cpus = int(root(FIRST, "nproc"))
    memory = int(re.findall(r"[0-9]+", root(FIRST, "grep MemTotal /proc/meminfo"))[0]) // 1024
    shown = root(HEAD, f"scontrol --oneliner show node {FIRST}")
    assert re.findall(r"CPUTot=([0-9]+)", shown) == [str(cpus)]
    (real,) = re.findall(r"RealMemory=([0-9]+)", shown)
    assert int(real) == memory - max(1024, memory * 2 // 100)


def test_mpi_runs_over_both_nodes() -> None:
    """With PMIx as the default, ranks know of each other and are bound to a core each."""
    status, said = as_user("srun -N2 --ntasks-per-node=2 ./hello")
    assert (status, sorted(said.splitlines())) == (
        0,
        [
            *(f"rank {rank} of 4 on {COMPUTE[rank // 2]} with 1 CPU(s)" for rank in range(4)),
            "sum 6",
        ],
    )
    assert root(HEAD, "scontrol show config | grep MpiDefault").split()[-1] == "pmix"


def test_accounting_has_a_job_that_ended_and_one_that_was_cancelled() -> None:
    done = as_user("sbatch --parsable --wrap='srun hostname' -N2 -o /shared/done.txt")[1].strip()
    assert wait_for(lambda: job_state(done), "COMPLETED") == "COMPLETED"
    assert sorted(as_user("cat /shared/done.txt")[1].split()) == list(COMPUTE)
    long = as_user("sbatch --parsable --wrap='sleep 300' -o /dev/null")[1].strip()
    assert wait_for(lambda: queued(long), "RUNNING") == "RUNNING"
    as_user(f"scancel {long}")
    assert wait_for(lambda: job_state(long), "CANCELLED") == "CANCELLED"


def test_a_dead_rank_ends_the_step() -> None:
    # Slurm has nothing to end on a node where the step has not begun yet.
    dies = "until [ -e /shared/begun ]; do sleep 0.1; done; kill -9 $$"
    command = f'if [ "$SLURM_PROCID" = 1 ]; then {dies}; else touch /shared/begun; sleep 3600; fi'
    status, _ = as_user(f"srun -N2 -n2 --mpi=none sh -c '{command}'")
    # 124: it was still there at the limit, which is far below what the other rank sleeps.
    assert status not in (0, 124)


def test_secrets_are_where_they_belong() -> None:
    password = Path(os.environ["MOLECULE_EPHEMERAL_DIRECTORY"], "database_password").read_text()
    secret = password.split()[0]
    for name in (HEAD, *COMPUTE):
        key = node(name).file("/etc/munge/munge.key")
        assert (oct(key.mode), key.user) == ("0o400", "munge")
        holding = node(name).run(f"grep -rlF {secret} /etc /var/log /run /tmp /usr/local")
        wanted = ["/etc/slurm/slurmdbd.conf"] if name == HEAD else []
        assert holding.stdout.split() == wanted
        assert secret not in root(name, "journalctl --no-pager")
    # What the vault holds in base64 stands in munge's own file alone.
    key = Path(os.environ["MOLECULE_EPHEMERAL_DIRECTORY"], "munge_key").read_text().split()[0]
    for name in (HEAD, *COMPUTE):
        holding = node(name).run(f"grep -rlF -e {key} /etc /var/log /run /tmp /usr/local")
        assert holding.stdout.split() == ["/etc/munge/munge.key"]
    settings = node(HEAD).file("/etc/slurm/slurmdbd.conf")
    assert (oct(settings.mode), settings.user) == ("0o600", "slurm")


def checked(name: str, asked: Callable[[str], str]) -> str:
    """What Slurm says after a check of the node. slurmd starts checks too, after each job and every
    few minutes: one of those may have told Slurm before this one, or runs instead of it."""
    root(name, f"env -i {HEALTH}")
    return asked(name)


def test_a_node_with_a_full_scratch_is_drained_with_the_reason() -> None:
    # As filling it by a job would; the file system has 4 MiB.
    node(FIRST).run("head -c 8388608 /dev/zero > /scratch/full")
    job = as_user(f"sbatch --parsable -w {FIRST} --wrap=hostname -o /dev/null")[1].strip()
    reason = "trueup: 10-trueup-health: /scratch cannot be written to"
    assert wait_for(lambda: reason_of(FIRST)[: len(reason)], reason) == reason
    as_user(f"scancel {job}")
    assert wait_for(lambda: state_of(FIRST), "drained") == "drained"
    # As slurmd runs it every few minutes: full, it stays; then the node gives itself back.
    assert "reason=" not in root(FIRST, f"env -i {HEALTH}")
    assert state_of(FIRST) == "drained"
    root(FIRST, "rm /scratch/full")
    assert wait_for(lambda: checked(FIRST, state_of), "idle") == "idle"
    assert as_user(f"srun -w {FIRST} hostname") == (0, f"{FIRST}\n")


def test_a_node_drains_itself_and_leaves_what_somebody_else_drained() -> None:
    root(FIRST, "head -c 8388608 /dev/zero > /scratch/full 2>/dev/null || true")
    reason = "trueup: health: fail: what jobs rely on"
    assert wait_for(lambda: checked(FIRST, reason_of)[: len(reason)], reason) == reason
    root(HEAD, f"scontrol update nodename={FIRST} state=drain reason=cooling")
    root(FIRST, "rm /scratch/full")
    assert "scontrol update" not in root(FIRST, f"env -i {HEALTH}")
    assert reason_of(FIRST) == "cooling"
    root(HEAD, f"scontrol update nodename={FIRST} state=resume")
    assert wait_for(lambda: state_of(FIRST), "idle") == "idle"


def test_a_lost_node_is_down_and_comes_back() -> None:
    root(SECOND, "systemctl stop slurmd")
    assert wait_for(lambda: state_of(SECOND), "down*") == "down*"
    root(SECOND, "systemctl start slurmd")
    assert wait_for(lambda: state_of(SECOND), "idle") == "idle"


def test_nodes_reach_each_other_by_ssh_with_known_host_keys() -> None:
    command = f"ssh -o BatchMode=yes -o StrictHostKeyChecking=yes {SECOND} hostname"
    assert as_user(command, host=FIRST) == (0, f"{SECOND}\n")


def test_no_service_has_failed() -> None:
    for name in (HEAD, *COMPUTE):
        assert root(name, "systemctl list-units --failed --plain --no-legend") == ""
