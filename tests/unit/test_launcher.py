"""The launchers: what they start, how ranks are bound, and what is said of nodes that are lost."""

from __future__ import annotations

import os
import shlex
import subprocess
import zlib
from pathlib import Path
from typing import Any

import pytest
from helpers import parametrized
from hypothesis import given, settings
from hypothesis import strategies as st
from test_affinity import topologies
from trueup_node.errors import BadInput
from trueup_node.node import mpi
from trueup_node.node.affinity import BINDINGS, Placement, plan, srun_cpu_bind
from trueup_node.node.topology import Topology, parse_cpu_list, parse_cpu_mask
from trueup_node.run import launcher as launchers
from trueup_node.run import process
from trueup_node.run import slurm_job as slurm
from trueup_node.run.launcher import LAUNCHER, Launcher

pytestmark = pytest.mark.slow

PROGRAM = ["/opt/it/bin/program", "--size", "64"]
BOUND = Placement(2, 2, "numa", ((0, 1), (2, 3)))
UNBOUND = Placement(2, 2, "none", ((), ()))
BIND = ["sh", "-c", launchers._BIND, "sh"]
TWO = ("node-1", "node-2")
SLURM = Launcher("slurm", TWO, directory="/shared/jobs")


FROM_HERE = ("--mca", "plm_rsh_no_tree_spawn", "1", "--mca", "plm_rsh_num_concurrent", "800")


@pytest.mark.parametrize(
    ("placement", "binds_itself", "bound"),
    [
        (None, False, []),
        (UNBOUND, False, []),
        (BOUND, True, []),
        (BOUND, False, [*BIND, "0-1/2-3"]),
    ],
)
def test_several_ranks_are_mpiruns_here_and_on_nodes(
    placement: Placement | None, binds_itself: bool, bound: list[str]
) -> None:
    given: dict[str, Any] = {
        "per_node": 2,
        "variables": {"OMP_NUM_THREADS": "2", "A": "b"},
        "placement": placement,
        "binds_itself": binds_itself,
    }
    local = Launcher(path="/opt/mpi/mpirun", arguments=("--mca", "btl", "tcp,self"))
    assert local.command(PROGRAM, **given) == [
        *("/opt/mpi/mpirun", "--bind-to", "none", "-np", "2", "--mca", "btl", "tcp,self"),
        *(*bound, *PROGRAM),
    ]
    over = Launcher("mpirun", TWO, hosts=("10.0.0.1", "10.0.0.2"), arguments=("--mca", "a", "b"))
    assert over.command(PROGRAM, **given) == [
        *("mpirun", "-np", "4", "--map-by", "ppr:2:node", "--bind-to", "none"),
        *("--host", "10.0.0.1:2,10.0.0.2:2", *FROM_HERE, "-x", "A", "-x", "OMP_NUM_THREADS"),
        *("--mca", "a", "b", *bound, *PROGRAM),
    ]
    # One node is reached by no other, and a site's own number is its own.
    alone = Launcher("mpirun", TWO[:1]).command(PROGRAM, **given)
    fewer = ("--mca", "plm_rsh_num_concurrent", "64")
    own = Launcher("mpirun", TWO, arguments=fewer).command(PROGRAM, **given)
    assert [word for word in alone if word.startswith("plm")] == []
    assert [own[at + 1] for at, word in enumerate(own) if word.startswith("plm")] == ["1", "64"]


def test_mpirun_without_nodes_is_this_node() -> None:
    assert Launcher("mpirun").command(PROGRAM, per_node=1, variables={}) == [
        *("mpirun", "-np", "1", "--map-by", "ppr:1:node", "--bind-to", "none", *PROGRAM)
    ]


def test_a_slurm_job() -> None:
    assert SLURM.command(PROGRAM, per_node=2, variables={"A": "b"}, placement=BOUND) == [
        *("sbatch", "--parsable", "--job-name=trueup", "--nodes=2", "--ntasks-per-node=2"),
        *("--nodelist=node-1,node-2", "--exclusive", "--mem=0", "--no-requeue"),
        *("--chdir=/shared/jobs", "--output=/shared/jobs/trueup-%j.out"),
        "--error=/shared/jobs/trueup-%j.err",
        (
            "--wrap=exec srun --ntasks=4 --ntasks-per-node=2 --kill-on-bad-exit=1"
            " --cpu-bind=mask_cpu:0x3,0xc /opt/it/bin/program --size 64"
        ),
    ]


def test_a_slurm_job_with_everything() -> None:
    job = Launcher(
        "slurm",
        TWO,
        hosts=("hb-1", "hb-2"),
        path="/opt/slurm/bin",
        arguments=("--mpi=pmix",),
        directory="/shared/jobs",
        options=("--partition=hbv3", "--account=a b"),
    )
    argv = job.command(
        PROGRAM, per_node=8, variables={}, gpus_per_node=8, name="trueup-nccl", limit_seconds=1800
    )
    assert argv == [
        *("/opt/slurm/bin/sbatch", "--parsable", "--job-name=trueup-nccl", "--nodes=2"),
        *("--ntasks-per-node=8", "--gpus-per-node=8", "--nodelist=hb-1,hb-2", "--exclusive"),
        *("--mem=0", "--no-requeue", "--time=31", "--chdir=/shared/jobs"),
        *("--output=/shared/jobs/trueup-%j.out", "--error=/shared/jobs/trueup-%j.err"),
        *("--partition=hbv3", "--account=a b"),
        (
            "--wrap=exec /opt/slurm/bin/srun --ntasks=16 --ntasks-per-node=8 --kill-on-bad-exit=1"
            " --cpu-bind=none --mpi=pmix /opt/it/bin/program --size 64"
        ),
    ]


@pytest.mark.parametrize(
    ("placement", "binds_itself", "option"),
    [
        (None, False, "none"),
        (UNBOUND, False, "none"),
        # Without being told, Slurm would bind them otherwise.
        (BOUND, True, "mask_cpu:0x3,0xc"),
    ],
)
def test_slurm_is_always_told_how_to_bind(
    placement: Placement | None, binds_itself: bool, option: str
) -> None:
    argv = SLURM.command(
        PROGRAM, per_node=2, variables={}, placement=placement, binds_itself=binds_itself
    )
    assert f" --cpu-bind={option} " in argv[-1]


AWKWARD = ["it's", 'a "b"', "$HOME", "`id`", "a\nb", "*", "", "--x=a;b", "\\", "ä%j"]


@given(st.lists(st.text(st.characters(exclude_characters="\0", codec="utf-8"))))
@settings(max_examples=200)
def test_every_argument_can_be_read_back_from_the_script(words: list[str]) -> None:
    wrap = SLURM.command(words, per_node=1, variables={})[-1]
    assert shlex.split(wrap)[-len(words) :] == (words or shlex.split(wrap))


def cpus_by_mpirun(placement: Placement) -> list[tuple[int, ...]]:
    argv = Launcher("mpirun", TWO).command(
        PROGRAM, per_node=placement.ranks, variables={}, placement=placement
    )
    return [tuple(parse_cpu_list(part)) for part in argv[-len(PROGRAM) - 1].split("/")]


def cpus_by_slurm(placement: Placement) -> list[tuple[int, ...]]:
    argv = SLURM.command(PROGRAM, per_node=placement.ranks, variables={}, placement=placement)
    [bind] = [word for word in shlex.split(argv[-1]) if word.startswith("--cpu-bind=")]
    masks = bind.removeprefix("--cpu-bind=mask_cpu:").split(",")
    return [tuple(parse_cpu_mask(mask.removeprefix("0x"))) for mask in masks]


@given(topologies(), st.integers(1, 12), st.integers(1, 6), st.sampled_from(BINDINGS))
@settings(deadline=None)
def test_all_launchers_bind_to_the_same_cpus(
    topology: Topology, ranks: int, threads: int, binding: str
) -> None:
    try:
        placement = plan(topology, ranks=ranks, threads_per_rank=threads, binding=binding)
    except BadInput:
        placement = UNBOUND
    if placement.binding == "none":
        assert srun_cpu_bind(placement) == "none"
        argv = Launcher("mpirun", TWO).command(
            PROGRAM, per_node=placement.ranks, variables={}, placement=placement
        )
        assert "sh" not in argv
        return
    planned = [tuple(cpus) for cpus in placement.per_rank]
    assert cpus_by_mpirun(placement) == planned
    assert cpus_by_slurm(placement) == planned


MINE = sorted(os.sched_getaffinity(0))


def by_wrapper(cpus: str, program: list[str], **variables: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if "LOCAL" not in name}
    argv = [*BIND, cpus, *program]
    return subprocess.run(
        argv, env={**kept, **variables}, capture_output=True, text=True, check=False
    )


def test_open_mpis_number_goes_before_the_other() -> None:
    variables = {"OMPI_COMM_WORLD_LOCAL_RANK": "0", "MPI_LOCALRANKID": "7"}
    assert by_wrapper(str(MINE[0]), ["true"], **variables).returncode == 0


def test_the_wrapper_passes_arguments_and_the_status_on() -> None:
    script = ["sh", "-c", 'printf "%s|" "$@"; exit 7', "sh", *AWKWARD]
    done = by_wrapper(str(MINE[0]), script, OMPI_COMM_WORLD_LOCAL_RANK="0")
    assert (done.returncode, done.stdout) == (7, "".join(f"{word}|" for word in AWKWARD))


@parametrized(("cpus", "variables", "said"))
def test_a_rank_without_cpus_of_its_own_does_not_run(
    cpus: str, variables: dict[str, str], said: str
) -> None:
    done = by_wrapper(cpus, ["echo", "ran"], LC_ALL="C", **variables)
    assert done.returncode != 0
    assert done.stdout == ""
    assert said in done.stderr


def asked(**given: Any) -> Launcher:
    usual = {one.name: one.default for one in LAUNCHER}
    return Launcher.asked({**usual, **given})


ON_SLURM = {"launcher": "slurm", "nodes": ["a"], "job_directory": "/shared"}
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"nodes": ["a", "b", "a"], "launcher": "mpirun"}, "nodes has a twice"),
    ({"nodes": ["a", "b"], "hosts": ["x", "x"], "launcher": "mpirun"}, "hosts has x twice"),
    ({"nodes": ["a", "b"], "hosts": ["x"], "launcher": "mpirun"}, "hosts has 1 names for 2 nodes"),
    ({"hosts": ["x"], "launcher": "mpirun"}, "hosts has 1 names for 0 nodes"),
    ({"nodes": ["a", "b"]}, "launcher local cannot run on 2 nodes: set it to mpirun or slurm"),
    (
        {"launcher": "slurm", "nodes": ["a"]},
        (
            "launcher slurm needs job_directory: a folder that this node and the job's nodes"
            " share, for the job's output"
        ),
    ),
    (
        {**ON_SLURM, "job_directory": "jobs"},
        (
            "launcher slurm needs job_directory: a folder that this node and the job's nodes"
            " share, for the job's output"
        ),
    ),
    ({"queue_seconds": 0}, "queue_seconds 0 is not a positive time"),
    *(
        (
            {"nodes": [name], "launcher": "mpirun"},
            f"{name!r} among the nodes is no host name or address",
        )
        for name in ("-oProxyCommand=x", "a b", "", "a,b", "a:2", "user@a", "a\n", "a[1-2]", "é")
    ),
    *(
        (
            {**ON_SLURM, "job_options": ["--partition=a", option]},
            f"job_options has {name}: with it the job's output or end would not be found",
        )
        for option, name in (
            ("--array=1-3", "--array"),
            ("-a1-3", "-a"),
            ("--wait", "--wait"),
            ("--output=/scratch/x", "--output"),
            ("-o", "-o"),
            ("--clusters=b", "--clusters"),
            ("-Mb", "-M"),
            ("--test-only", "--test-only"),
            # Slurm's commands take shortened options.
            ("--outp=/scratch/x", "--outp"),
        )
    ),
    *(
        (
            {**ON_SLURM, name: ["--partition=a", option]},
            f"{name} has {said}: nodes, ranks and variables are those that the record says",
        )
        for name in ("job_options", "launcher_arguments")
        for option, said in (
            ("--nodelist=b", "--nodelist"),
            ("-wb", "-w"),
            ("-N4", "-N"),
            ("--ntasks=8", "--ntasks"),
            ("--export=NONE", "--export"),
        )
    ),
]


@pytest.mark.parametrize(("given", "message"), REFUSED)
def test_what_cannot_start_anything_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput) as refused:
        asked(**given)
    assert str(refused.value) == message


HPCX = mpi.Mpi(
    "/opt/hpcx-v2/ompi/bin/mpirun", "hpcx", "4.1.9", {"OPAL_PREFIX": "/h", "LD_LIBRARY_PATH": "/l"}
)


@pytest.mark.parametrize("kind", launchers.LAUNCHERS)
@pytest.mark.parametrize("ranks", [1, 2])
def test_an_mpi_on_path_changes_nothing(kind: str, ranks: int) -> None:
    nodes = () if kind == "local" else TWO
    without, on_path = (
        Launcher(kind, nodes, directory="/shared/jobs", mpi=which)
        for which in (None, mpi.Mpi("/usr/bin/mpirun", "openmpi", "4.1.4"))
    )
    how: dict[str, Any] = {"per_node": ranks, "variables": {"A": "b"}}
    assert on_path.command(PROGRAM, **how) == without.command(PROGRAM, **how)
    assert on_path.variables(ranks) == without.variables(ranks)


@pytest.mark.parametrize("kind", ["intel", "mvapich"])
def test_mpirun_of_hydra_has_options_of_its_own(kind: str) -> None:
    which = mpi.Mpi("/opt/it/bin/mpirun", kind, environment={"LD_LIBRARY_PATH": "/l"})
    over = Launcher("mpirun", TWO, arguments=("-v",), mpi=which)
    assert over.command(PROGRAM, per_node=2, variables={"A": "b"}) == [
        *("/opt/it/bin/mpirun", "-np", "4", "-ppn", "2", "-hosts", "node-1,node-2"),
        *("-genvlist", "A,LD_LIBRARY_PATH", "-v", *PROGRAM),
    ]
    alone = Launcher(mpi=which).command(PROGRAM, per_node=2, variables={})
    assert alone[1:-3] == ["-np", "2", "-ppn", "2", "-genvlist", "LD_LIBRARY_PATH"]


@parametrized(("given", "taken"))
def test_another_mpirun_has_no_variables_of_this_one(given: dict[str, Any], taken: bool) -> None:
    defaults = {one.name: one.default for one in LAUNCHER}
    assert Launcher.asked({**defaults, **given}, HPCX).mpi == (HPCX if taken else None)


@parametrized(("kind", "ranks", "needs"))
@pytest.mark.parametrize("user", [0, 1000])
def test_what_mpirun_itself_needs(
    kind: str, ranks: int, needs: bool, user: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: user)
    names = ("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM")
    expected = dict.fromkeys(names, "1") if needs and user == 0 else {}
    assert Launcher(kind).variables(ranks) == expected


# A stand-in: hosts called bad refuse, as all do once there is ssh.gone and one called leaves once
# there is ssh.left; slow ones never answer, others do.
# One that keeps a connection for later (ControlPersist) leaves a program behind that holds stderr.
SSH = """#!/bin/sh
echo "$*" >> {folder}/asked
host=
for word; do last=$host; host=$word; done
[ -e "$0.gone" ] && last=bad
[ "$last" = leaves ] && [ -e "$0.left" ] && last=bad
case $last in
bad*) echo "ssh: a warning" >&2; echo "ssh: connect to host $last port 22: No route to host" >&2
    exit 255;;
mute*) exit 255;;
slow*) sleep {slow} & wait;;
shared*) setsid sleep 100 & exit 0;;
twin1) until grep -q twin2 {folder}/asked; do sleep 0.05; done;;
twin2) until grep -q twin1 {folder}/asked; do sleep 0.05; done;;
esac
"""


def _slow(folder: Path) -> str:
    """Seconds of a sleep that no other test, and no other run of this one, has."""
    return f"600.{zlib.crc32(str(folder).encode())}"


@pytest.fixture(name="ssh")
def _ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    program = tmp_path / "ssh"
    program.write_text(SSH.format(folder=tmp_path, slow=_slow(tmp_path)))
    program.chmod(0o755)
    (tmp_path / "asked").touch()
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    # Time for those that answer, on a busy machine too.
    monkeypatch.setattr(launchers, "_SSH_MORE_SECONDS", 90.0)
    return tmp_path / "asked"


@pytest.fixture(name="impatient")
def _impatient(ssh: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """As ssh. Some do not answer: 5 s, in which those that do have to."""
    monkeypatch.setattr(launchers, "_SSH_MORE_SECONDS", 5.0 - launchers._SSH_SECONDS)
    return ssh


NO_ROUTE = "ssh: connect to host bad port 22: No route to host"


def test_nodes_that_do_not_answer_are_named_as_records_name_them(impatient: Path) -> None:
    over = Launcher(
        "mpirun",
        ("node-1", "node-2", "node-3", "node-4", "node-5"),
        hosts=("good", "bad", "mute", "slow", "slow2"),
    )
    assert over.lost() == [
        f"node node-2 does not answer ssh from here ({NO_ROUTE})",
        "node node-3 does not answer ssh from here (no answer)",
        "node node-4 does not answer ssh from here (no answer)",
        "node node-5 does not answer ssh from here (no answer)",
    ]
    options = (
        "-o BatchMode=yes -o StrictHostKeyChecking=yes -o ControlPath=none -o ConnectTimeout=30"
    )
    assert sorted(impatient.read_text().splitlines()) == sorted(
        f"{options} {host} true" for host in over.hosts
    )


def test_this_node_is_not_asked(ssh: Path) -> None:
    name = os.uname().nodename
    assert Launcher("mpirun").lost() == []
    assert Launcher("mpirun", (name, "localhost", "127.0.0.1")).lost() == []
    assert Launcher("mpirun", ("me",), hosts=(name.split(".")[0],)).lost() == []
    assert ssh.read_text() == ""


def test_without_ssh_it_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    said = Launcher("mpirun", TWO).lost()
    assert said == ["mpirun needs ssh, which cannot be run: No such file or directory"]


def test_nothing_is_started_when_a_node_is_not_there(ssh: Path, tmp_path: Path) -> None:
    over = Launcher("mpirun", ("node-1", "node-2"), hosts=("good", "bad"))
    with pytest.raises(ConnectionError) as error:
        over.run(["touch", str(tmp_path / "ran")], timeout_seconds=300, environment={})
    assert str(error.value) == f"node node-2 does not answer ssh from here ({NO_ROUTE})"
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("kind", launchers.LAUNCHERS)
def test_nothing_is_started_with_a_node_that_is_left_out(
    ssh: Path, tmp_path: Path, kind: str
) -> None:
    given = {"launcher": kind, "job_directory": str(tmp_path), "absent": ["node-2"]}
    nodes = ["node-1", "node-2"] if kind != "local" else ["node-2"]
    with pytest.raises(ConnectionError, match=r"^node node-2 takes no part in this play: "):
        asked(**given, nodes=nodes).run(
            ["touch", str(tmp_path / "ran")], timeout_seconds=5, environment={}
        )
    assert not (tmp_path / "ran").exists()
    # Nor is any node asked.
    assert ssh.read_text() == ""


def test_no_job_is_submitted_without_its_folder_or_commands(tmp_path: Path) -> None:
    none = Launcher("slurm", TWO, path=str(tmp_path), directory=str(tmp_path / "jobs"))
    message = f"job_directory {tmp_path}/jobs is no folder on this node"
    with pytest.raises(ConnectionError) as error:
        none.run(["true"], timeout_seconds=300, environment={})
    assert str(error.value) == message
    (tmp_path / "jobs").mkdir()
    assert none.lost() == [f"launcher slurm needs {tmp_path}/sbatch, which is not there"]


def test_a_node_that_is_lost_while_it_runs_ends_it(
    ssh: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "_ASK_SECONDS", 0.2)
    over = Launcher("mpirun", ("node-1", "node-2"), hosts=("good", "leaves"))
    done = over.run(
        ["sh", "-c", f"echo begun; sleep 0.3; touch {ssh.with_name('ssh.left')}; sleep 600"],
        timeout_seconds=300,
        environment={},
    )
    assert done.reason == f"node node-2 does not answer ssh from here ({NO_ROUTE})"
    assert done.failure(300) == done.reason
    assert (done.stdout, done.timed_out) == ("begun\n", False)
    assert done.returncode != 0


@parametrized(("script", "reason"))
def test_a_run_that_failed_is_asked_for_a_lost_node(
    ssh: Path, script: str, reason: str | None
) -> None:
    over = Launcher("mpirun", ("node-1", "node-2"), hosts=("good", "other"))
    argv = ["sh", "-c", script.format(gone=ssh.with_name("ssh.gone"))]
    done = over.run(argv, timeout_seconds=300, environment={})
    assert done.reason == reason
    assert done.returncode == (3 if "exit 3" in script else 0)


def test_slurm_is_told_all_that_it_needs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    job = Launcher(
        "slurm",
        TWO,
        hosts=("hb-1", "hb-2"),
        path="/opt/slurm",
        directory=str(tmp_path),
        queue_seconds=77,
    )
    seen: list[Any] = []
    done = process.Completed(("sbatch",), 0, "", "", 1.0, timed_out=False, out_of_memory=False)

    def run(argv: list[str], **options: Any) -> process.Completed:
        seen.append((argv, options))
        return done

    monkeypatch.setattr(slurm, "lost", lambda hosts, **options: seen.append((hosts, options)))
    monkeypatch.setattr(slurm, "run", run)
    names = {"hb-1": "node-1", "hb-2": "node-2"}
    assert job.run(["sbatch"], timeout_seconds=5, environment={"A": "b"}) == done
    assert seen == [
        (("hb-1", "hb-2"), {"commands": "/opt/slurm", "names": names}),
        (
            ["sbatch"],
            {
                "timeout_seconds": 5,
                "queue_seconds": 77,
                "environment": {"A": "b"},
                "directory": str(tmp_path),
                "commands": "/opt/slurm",
                "names": names,
            },
        ),
    ]
