"""How a benchmark of several ranks or nodes is started, and the state of its nodes meanwhile.

Three launchers, one interface: ``local`` (this node alone; several ranks by its mpirun), ``mpirun``
(over ssh) and ``slurm`` (srun inside a job of sbatch, see slurm.py). Where ranks go comes from
``affinity`` and is the same whichever launcher starts them.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass, replace
from typing import IO, Any, Dict, List, Mapping, Optional, Sequence, Tuple

from ..errors import BadInput
from ..node.affinity import Placement, srun_cpu_bind, taskset_argv
from ..node.mpi import Mpi
from ..node.mpi import of as mpi_of
from ..node.topology import format_cpu_list
from ..options import ModuleOption, RoleOption
from . import mpi_files, process
from . import slurm_job as slurm

LAUNCHERS = ("local", "mpirun", "slurm")

# Options of a module whose benchmark runs on several nodes.
LAUNCHER = (
    ModuleOption(
        "nodes",
        "Nodes that take part, by the names that records have for them. Empty means this node"
        " alone.",
        [],
    ),
    ModuleOption(
        "hosts", "The same nodes as ssh or Slurm knows them, where those names differ.", []
    ),
    ModuleOption(
        "absent",
        "Of O(nodes), those that must not be used now, because the play has lost or left them out."
        " With any, nothing is run, and it fails with their names.",
        [],
    ),
    ModuleOption(
        "launcher",
        "What starts the ranks. C(local) is this node alone (several ranks by its own mpirun)."
        " C(mpirun) reaches the nodes over ssh, without a password and with their host keys known;"
        " each is asked first, and now and then while it runs. C(slurm) submits a job (sbatch) of"
        " the whole nodes and starts the ranks in it with srun; it is cancelled at the time limit,"
        " when a node of it is lost, and when this module is interrupted.",
        "local",
        choices=LAUNCHERS,
    ),
    ModuleOption(
        "launcher_path",
        "The program mpirun, or the folder of Slurm's commands. By default those on PATH.",
        type="path",
    ),
    ModuleOption(
        "launcher_arguments",
        "More arguments of mpirun or of srun, such as C(--mca btl_tcp_if_include eth0) as two words"
        " or C(--mpi=pmix).",
        [],
    ),
    ModuleOption(
        "job_directory",
        "With C(launcher=slurm), a folder that this node and the nodes of the job share. The job's"
        " output is written and kept there.",
        type="path",
    ),
    ModuleOption(
        "job_options",
        "With C(launcher=slurm), more arguments of sbatch, such as C(--partition=hbv3). Those that"
        " take the job's output or its end elsewhere (C(--output), C(--wait), C(--array),"
        " C(--clusters)), or would make it another run than its record says (C(--nodelist),"
        " C(--nodes), C(--ntasks), C(--export)), are refused.",
        [],
    ),
    ModuleOption(
        "queue_seconds",
        "With C(launcher=slurm), how long the job may wait for its nodes. O(timeout_seconds) begins"
        " when it runs.",
        3600,
    ),
)

# Of a role whose benchmark may run as a job of Slurm.
SLURM_QUEUE = RoleOption(
    "queue_seconds",
    "With slurm: how long a job may wait for its nodes, in seconds.",
    3600,
    least=1,
)

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_ABSENT = "takes no part in this play: it was lost, failed, was skipped, or is left out by --limit"
_NO_DIRECTORY = (
    "launcher slurm needs job_directory: a folder that this node and the job's nodes share, for the"
    " job's output"
)
# mpirun's ssh to several nodes: Azure/ai-infrastructure-on-azure@a01b073
# infrastructure_validations/slurm/NCCL/nccl_test_mpirun.sh.
_SSH_STARTS = {"plm_rsh_no_tree_spawn": "1", "plm_rsh_num_concurrent": "800"}
# A node that computes answers late; one that is gone is waited for once, before a run.
_SSH_SECONDS = 30
# After a run, where nothing depends on the answer.
_REMOVE_SECONDS = 5
# Beyond connecting: keys, login, the shell's start.
_SSH_MORE_SECONDS = 15.0
# Options of sbatch that this launcher sets itself, or with which there is no one job to wait for.
_NOT_GIVEN = (
    *("--output", "--error", "--wrap", "--chdir", "--wait", "--array", "--clusters", "--cluster"),
    *("--test-only", "-o", "-e", "-D", "-W", "-a", "-M"),
)
# Options of sbatch and srun that would make another run of it than the record says.
_ANOTHER = (
    *("--nodelist", "--nodefile", "--nodes", "--ntasks", "--ntasks-per-node", "--export"),
    *("--export-file", "-w", "-F", "-N", "-n"),
)
# Gives a rank the CPUs at its place of a list such as 0-3/4-7. Open MPI, MPICH and Intel MPI number
# the ranks of a node by these variables, torchrun by LOCAL_RANK.
_BIND = (
    "rank=${OMPI_COMM_WORLD_LOCAL_RANK:-${MPI_LOCALRANKID:-${LOCAL_RANK"
    ":?mpirun numbers no ranks of a node}}};"
    ' cpus=$(printf %s "$1" | cut -d/ -f$((rank + 1))); shift; exec taskset -c "$cpus" "$@"'
)


@dataclass(frozen=True)
class Launcher:
    """A launcher and the nodes that it starts ranks on.

    Attributes:
        kind: one of LAUNCHERS.
        nodes: names as in records; empty means this node alone.
        hosts: the same nodes as ssh or Slurm knows them; empty means by ``nodes``.
        absent: those of ``nodes`` that must not be used; with any, nothing is run.
        path: the program mpirun, or the folder of Slurm's commands; empty means those on PATH.
        arguments: more of mpirun's or srun's, before the program.
        directory: slurm: a folder that this node and the job's nodes share, for the job's output.
        options: slurm: more of sbatch's, such as --partition.
        queue_seconds: slurm: how long a job may wait for its nodes.
        mpi: the nodes' MPI, with whose libraries the program runs; None leaves both to the
            session.
    """

    kind: str = "local"
    nodes: Tuple[str, ...] = ()
    hosts: Tuple[str, ...] = ()
    absent: Tuple[str, ...] = ()
    path: str = ""
    arguments: Tuple[str, ...] = ()
    directory: str = ""
    options: Tuple[str, ...] = ()
    queue_seconds: int = 3600
    mpi: Optional[Mpi] = None

    @classmethod
    def asked(cls, parameters: Mapping[str, Any], mpi: Optional[Mpi] = None) -> Launcher:
        """The launcher that a module's parameters (LAUNCHER) describe.

        Raises:
            BadInput: it cannot be.
        """
        # Another mpirun has libraries of its own; Slurm's commands are none.
        by_slurm, arguments = (
            parameters["launcher"] == "slurm",
            tuple(parameters["launcher_arguments"]),
        )
        other = not by_slurm and parameters["launcher_path"]
        if mpi and by_slurm and "--mpi=pmix" in "=".join(arguments):
            mpi = mpi.with_pmix
        launcher = cls(
            kind=parameters["launcher"],
            nodes=tuple(parameters["nodes"]),
            hosts=tuple(parameters["hosts"]),
            absent=tuple(parameters["absent"]),
            path=parameters["launcher_path"] or "",
            arguments=arguments,
            directory=parameters["job_directory"] or "",
            options=tuple(parameters["job_options"]),
            queue_seconds=parameters["queue_seconds"],
            mpi=None if mpi and other and not mpi.at(other) else mpi,
        )
        launcher.check()
        return launcher

    def check(self) -> None:
        """Refuse a launcher that cannot start anything.

        Raises:
            BadInput: naming the parameter and its error.
        """
        by_slurm, count = self.kind == "slurm", len(self.nodes)
        odd = next((host for host in self._hosts if not _NAME.fullmatch(host)), None)
        for wrong, message in (
            (_twice(self.nodes), f"nodes has {_twice(self.nodes)} twice"),
            (_twice(self.hosts), f"hosts has {_twice(self.hosts)} twice"),
            (odd is not None, f"{odd!r} among the nodes is no host name or address"),
            (
                self.hosts and len(self.hosts) != count,
                f"hosts has {len(self.hosts)} names for {count} nodes",
            ),
            (
                self.kind == "local" and count > 1,
                f"launcher local cannot run on {count} nodes: set it to mpirun or slurm",
            ),
            (
                by_slurm and not count,
                "launcher slurm needs nodes: a node that Slurm chooses is not known to the record",
            ),
            (
                by_slurm and not os.path.isabs(self.directory),
                _NO_DIRECTORY,
            ),
            (self.queue_seconds < 1, f"queue_seconds {self.queue_seconds} is not a positive time"),
        ):
            if wrong:
                raise BadInput(message)
        self._check_options()

    def _check_options(self) -> None:
        refused = _among(self.options, _NOT_GIVEN)
        if refused:
            raise BadInput(
                f"job_options has {refused[0]}: with it the job's output or end would not be found"
            )
        for name, words in (("job_options", self.options), ("launcher_arguments", self.arguments)):
            refused = _among(words, _ANOTHER) if self.kind == "slurm" else []
            if refused:
                raise BadInput(
                    f"{name} has {refused[0]}: nodes, ranks and variables are those that the"
                    " record says"
                )

    @property
    def node_count(self) -> int:
        """How many nodes take part."""
        return len(self.nodes) or 1

    @property
    def _hosts(self) -> Tuple[str, ...]:
        return self.hosts or self.nodes

    def command(
        self,
        program: Sequence[str],
        *,
        per_node: int,
        variables: Mapping[str, str],
        placement: Optional[Placement] = None,
        binds_itself: bool = False,
        gpus_per_node: int = 0,
        name: str = "trueup",
        limit_seconds: int = 0,
    ) -> List[str]:
        """The argv that starts ``program`` on all nodes.

        Args:
            program: argv of one rank.
            per_node: ranks of each node.
            variables: those that the ranks need; mpirun has to be told their names.
            placement: CPUs of a node's ranks; None leaves them unbound.
            binds_itself: the program binds its ranks by the same placement; only Slurm, which
                would bind them otherwise, is told it too.
            gpus_per_node: GPUs that Slurm is asked for.
            name: of the Slurm job.
            limit_seconds: the Slurm job's own time limit.
        """
        bound = [] if binds_itself else _bound(placement)
        if self.kind == "local" and per_node == 1:
            alone = taskset_argv(placement.per_rank[0]) if bound and placement else []
            return [*alone, *program]
        if self.kind != "slurm":
            return [*self._mpirun(per_node, variables), *bound, *program]
        step = [
            *(self._slurm("srun"), f"--ntasks={self.node_count * per_node}"),
            f"--ntasks-per-node={per_node}",
            # Without it a rank that dies leaves the others waiting for it.
            "--kill-on-bad-exit=1",
            f"--cpu-bind={srun_cpu_bind(placement) if placement else 'none'}",
            *self.arguments,
            *program,
        ]
        return [
            *(self._slurm("sbatch"), "--parsable", f"--job-name={name}"),
            f"--nodes={self.node_count}",
            f"--ntasks-per-node={per_node}",
            *((f"--gpus-per-node={gpus_per_node}",) if gpus_per_node else ()),
            *((f"--nodelist={','.join(self._hosts)}",) if self._hosts else ()),
            # The whole of each node, and never a second time by itself.
            *("--exclusive", "--mem=0", "--no-requeue"),
            *((f"--time={-(-limit_seconds // 60) + 1}",) if limit_seconds else ()),
            f"--chdir={self.directory}",
            f"--output={os.path.join(self.directory, slurm.OUTPUT)}",
            f"--error={os.path.join(self.directory, slurm.ERRORS)}",
            *self.options,
            # By exec the job ends with srun's status.
            f"--wrap=exec {' '.join(shlex.quote(argument) for argument in step)}",
        ]

    def _mpirun(self, per_node: int, variables: Mapping[str, str]) -> List[str]:
        mpirun = self.path or (self.mpi.program if self.mpi else "mpirun")
        if self.mpi and self.mpi.by_hydra:
            return [mpirun, *self._by_hydra(per_node, variables)]
        if self.kind == "local":
            return [mpirun, "--bind-to", "none", "-np", str(per_node), *self.arguments]
        hosts = [f"{host}:{per_node}" for host in self._hosts]
        return [
            *(mpirun, "-np", str(self.node_count * per_node)),
            *("--map-by", f"ppr:{per_node}:node", "--bind-to", "none"),
            *(("--host", ",".join(hosts)) if hosts else ()),
            *(_started_from_here(self.arguments) if self.node_count > 1 else ()),
            *(
                argument
                for name in sorted({*variables, *self._of_mpi})
                for argument in ("-x", name)
            ),
            *self.arguments,
        ]

    def _by_hydra(self, per_node: int, variables: Mapping[str, str]) -> List[str]:
        named = ",".join(sorted({*variables, *self._of_mpi}))
        return [
            *("-np", str(self.node_count * per_node), "-ppn", str(per_node)),
            *(("-hosts", ",".join(self._hosts)) if self._hosts else ()),
            *(("-genvlist", named) if named else ()),
            *self.arguments,
        ]

    def _slurm(self, program: str) -> str:
        return os.path.join(self.path, program) if self.path else program

    @property
    def _of_mpi(self) -> Mapping[str, str]:
        return self.mpi.environment if self.mpi else {}

    def variables(self, ranks: int) -> Dict[str, str]:
        """Variables that the MPI, and mpirun itself, need on this node."""
        # A program of one rank loads the MPI's libraries too.
        mpi_variables = dict(self._of_mpi)
        if self.kind == "slurm" or (self.kind == "local" and ranks == 1):
            return mpi_variables
        if os.geteuid() == 0:
            mpi_variables["OMPI_ALLOW_RUN_AS_ROOT"] = mpi_variables[
                "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"
            ] = "1"
        return mpi_variables

    def run(
        self, argv: Sequence[str], *, timeout_seconds: float, environment: Mapping[str, str]
    ) -> process.Completed:
        """Run the argv of ``command``, as process.run does; a node that is not there is named.

        Raises:
            OSError: the launcher cannot be started, or a node does not answer before anything ran.
            Orphaned: whoever started this process is gone; the job was cancelled.
        """
        absences = [f"node {name} {_ABSENT}" for name in self.absent]
        lost = absences or self.lost()
        if lost:
            raise ConnectionError("; ".join(lost))
        if self.kind == "slurm":
            return slurm.run(
                argv,
                timeout_seconds=timeout_seconds,
                queue_seconds=self.queue_seconds,
                environment=environment,
                directory=self.directory,
                commands=self.path,
                names=dict(zip(self._hosts, self.nodes)),
            )
        watch = self.lost if self.kind == "mpirun" and self.node_count > 1 else None
        files, left = mpi_files.new_folder(), []
        try:
            done = process.run(
                argv,
                timeout_seconds=timeout_seconds,
                environment=environment,
                watch=watch,
                folder=files,
            )
        finally:
            mpi_files.remove(files)
            left = self._remove(files) if watch else []
        done = replace(done, warnings=(*done.warnings, *left))
        if watch and done.returncode != 0 and not done.timed_out and not done.reason:
            lost = watch()
            if lost:
                return replace(done, reason="; ".join(lost))
        return done

    def _remove(self, folder: str) -> List[str]:
        """Remove a folder on the other nodes, whose daemons of Open MPI made it; of each node where
        that is not possible a sentence."""
        if self.mpi and self.mpi.by_hydra:
            return []
        command = f"rm -rf -- {shlex.quote(folder)}"
        failures = _by_ssh(self._hosts, self._names, command, _REMOVE_SECONDS)
        return [f"{failure}: {folder} may be left there" for failure in failures]

    def lost(self) -> List[str]:
        """Of each node that cannot take part now, a sentence; empty when all can."""
        if self.kind == "slurm":
            if not os.path.isdir(self.directory):
                return [f"job_directory {self.directory} is no folder on this node"]
            return slurm.lost(self._hosts, commands=self.path, names=self._names)
        if self.kind == "mpirun":
            return _by_ssh(self._hosts, self._names, "true", _SSH_SECONDS)
        return []

    @property
    def _names(self) -> Dict[str, str]:
        return dict(zip(self._hosts, self.nodes))


def joined(of_mpi: Mapping[str, str], variables: Mapping[str, str]) -> Dict[str, str]:
    """The MPI's variables and those given, which win; libraries are looked for in both's folders,
    since an MPI outside the loader's path does not start without its own."""
    name = "LD_LIBRARY_PATH"
    paths = [mapping[name] for mapping in (variables, of_mpi) if mapping.get(name)]
    folders = dict.fromkeys(folder for path in paths for folder in path.split(":"))
    return {**of_mpi, **variables, **({name: ":".join(folders)} if folders else {})}


def pmix(kind: str, arguments: Sequence[str], node: Mapping[str, Any]) -> List[str]:
    """The launcher's arguments, of srun with ``--mpi=pmix`` unless they say another: Slurm's own
    default may be none, with which each rank of an MPI program believes that it is alone. The one
    rule of all roles. Ranks of HPC-X then load its build with the image's PMIx (hpcx-pmix). Intel
    MPI and MVAPICH are left to Slurm's default."""
    has_mpi_option = any(argument.split("=")[0] == "--mpi" for argument in arguments)
    chosen = mpi_of(node)
    takes_it = kind == "slurm" and not has_mpi_option and not (chosen and chosen.by_hydra)
    return [*(["--mpi=pmix"] if takes_it else []), *arguments]


def _started_from_here(arguments: Sequence[str]) -> List[str]:
    """How mpirun's ssh reaches the nodes, where the arguments do not say it: each from this node
    and all at once, as Azure's nccl_test_mpirun.sh has it (docs/reference/launches.md). By default
    nodes also start others, so that every node needs a way into every other; only that from here
    is asked before a run."""
    return [
        word
        for name, value in _SSH_STARTS.items()
        if name not in arguments
        for word in ("--mca", name, value)
    ]


def _twice(names: Sequence[str]) -> str:
    """Those that stand in a list more than once."""
    return ", ".join(sorted({name for name in names if names.count(name) > 1}))


def _among(words: Sequence[str], options: Sequence[str]) -> List[str]:
    """Those of the words that are one of Slurm's options, which may be shortened."""
    option_names = [argument.split("=")[0] for argument in words if argument.startswith("--")]
    option_names = [
        option_name
        for option_name in option_names
        if any(option.startswith(option_name) for option in options)
    ]
    return option_names + [argument[:2] for argument in words if argument[:2] in options]


def _bound(placement: Optional[Placement]) -> List[str]:
    return bind_argv(placement) if placement and all(placement.per_rank) else []


def bind_argv(placement: Placement) -> List[str]:
    """The words before a program with which each rank of a node takes its own CPUs, for launchers
    that bind nothing: mpirun with ``--bind-to none``, and torchrun."""
    cpus = "/".join(format_cpu_list(cpus) for cpus in placement.per_rank)
    return ["sh", "-c", _BIND, "sh", cpus]


def _by_ssh(
    hosts: Sequence[str], names: Mapping[str, str], command: str, connect_seconds: int
) -> List[str]:
    """Run a command on each host at the same time; of each one where ssh does not, a sentence. This
    node needs none."""
    here = {os.uname().nodename, os.uname().nodename.split(".")[0], "localhost", "127.0.0.1"}
    # A connection that another ssh keeps open would answer for a node that is gone.
    options = ("BatchMode=yes", "StrictHostKeyChecking=yes", "ControlPath=none")
    argv = ["ssh", *(word for option in options for word in ("-o", option))]
    argv += ["-o", f"ConnectTimeout={connect_seconds}"]
    deadline = time.monotonic() + connect_seconds + _SSH_MORE_SECONDS
    asked = {}
    found = []
    with contextlib.ExitStack() as kept:
        for host in hosts:
            if host in here:
                continue
            # No pipe: a program that ssh leaves behind would keep it open.
            said = kept.enter_context(tempfile.TemporaryFile())
            try:
                asked[host] = _asking([*argv, host, command], said), said
            except OSError as error:
                return [f"mpirun needs ssh, which cannot be run: {error.strerror}"]
            kept.callback(_ended, asked[host][0])
        for host, (child, said) in asked.items():
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(timeout=max(0.0, deadline - time.monotonic()))
            if child.poll() != 0:
                said.seek(0)
                lines = said.read().decode("utf-8", "replace").strip().splitlines()
                why = lines[-1].strip() if lines else "no answer"
                found.append(f"node {names.get(host, host)} does not answer ssh from here ({why})")
    return found


def _asking(argv: Sequence[str], stderr_file: IO[bytes]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        list(argv),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=stderr_file,
        start_new_session=True,
    )


def _ended(child: subprocess.Popen[bytes]) -> None:
    """With its whole group: ssh's ProxyCommand is in it."""
    if child.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
