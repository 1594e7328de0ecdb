"""Run Devito's own benchmark (benchmarks/user/benchmark.py) and print its figures, unrounded.

Devito's log rounds every time up to 0.01 s and derives its rates from the rounded time. This driver
calls the benchmark's `run()` and takes the unrounded timer, the counted operations and the norms
from the same objects. The operator is compiled and tuned in the first repeat (Devito excludes both
from its time); later repeats reuse the block shape found, so that n repeats cost one start, one
compilation and one tuning. With `--tunings` a later run of the same key (Tunings) needs none.

One process of this driver is one rank. The last line that rank 0 prints is `trueup-devito ` and a
JSON object, which benchmarks/devito/output.py reads.
"""

from __future__ import annotations

import argparse
import contextlib
import glob
import hashlib
import json
import os
import platform
import re
import resource
import stat
import sys
import tempfile
import time
from typing import Any

PREFIX = "trueup-devito "
ERROR_PREFIX = "trueup-devito-error "
KERNEL_BYTES = 2**20  # a compiled kernel takes some hundred kB
HALO = ("haloupdate", "halowait")  # Devito's names of the parts that exchange halos
FORMAT = 1
SPACING_M = (20.0, 20.0, 20.0)  # the benchmark's default
TUNING_FORMAT = "trueup-devito-tuning/1"
MOST_TUNING_BYTES = 2**20  # 176 ranks, the most cores of a size, take 15 kB
CPU_FIELDS = ("model name", "cpu family", "model", "stepping", "cache size", "CPU part")
BLOCK_NAME = re.compile(r"[a-z][a-z0-9]*_blk[0-9]+_size")  # Devito's names of tuned blocks


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", required=True)
    parser.add_argument("--shape", required=True, help="for example 256x256x256")
    parser.add_argument("--space-order", type=int, required=True)
    parser.add_argument("--tn", type=float, required=True, help="simulated time, ms")
    parser.add_argument("--nbl", type=int, default=10, help="absorbing boundary layers")
    parser.add_argument("--autotune", default="aggressive")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--cpus", help="CPUs of each rank, for example 0-3/4-7; none: unbound")
    parser.add_argument(
        "--tunings", help="folder of this kind of CPU's tunings, to use and to keep"
    )
    parser.add_argument("--tune-anew", action="store_true", help="keep tunings, and use none")
    return parser.parse_args()


def require_space(folder: str) -> None:
    """End unless kernels can be compiled in the folder: where it is full or, on another node than
    the one that started this, not there, Python would silently take /tmp instead."""
    try:
        os.makedirs(folder, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(bytes(KERNEL_BYTES))
    except OSError as error:
        sys.exit(f"{ERROR_PREFIX}{platform.node()}: no kernels in {folder}: {error.strerror}")


def bind(ranks: str) -> None:
    """Bind this process and its threads to come to its rank's CPUs."""
    # Open MPI, MPICH and Slurm number a node's processes; without a launcher there is one. In this
    # order: inside a Slurm job Slurm's number is there too, and is that of mpirun itself.
    names = ("OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID")
    rank = int(next((os.environ[name] for name in names if name in os.environ), 0))
    cpus: list[int] = []
    for cpu_range in ranks.split("/")[rank].split(","):
        first, _, last = cpu_range.partition("-")
        cpus.extend(range(int(first), int(last or first) + 1))
    os.sched_setaffinity(0, cpus)
    os.environ["OMP_PLACES"] = ",".join(f"{{{cpu}}}" for cpu in cpus)
    os.environ["OMP_PROC_BIND"] = "close"


def machine() -> dict[str, Any]:
    """Facts that tell machines apart: CPU, cores, and those of each NUMA node. AMD EPYC is the name
    of several generations in virtual machines, so the CPU's numbers count too."""
    cpu = {}
    with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as stream:
        for line in stream:
            name, _, value = line.partition(":")
            if name.strip() in CPU_FIELDS:
                cpu[name.strip()] = value.strip()
            if not line.strip():
                break  # the first CPU stands for all
    numa = []
    for path in sorted(glob.glob("/sys/devices/system/node/node[0-9]*/cpulist")):
        with open(path, encoding="ascii") as stream:
            numa.append(f"{path.split('/')[-2]}: {stream.read().strip()}")
    return {"cpu": cpu, "cores": os.cpu_count(), "numa": numa}


class UnusableTuning(Exception):
    """Why a kept tuning is not used."""


class Tunings:
    """Block shapes that Devito has found, a file for each key: machine, versions, problem and
    layout. One that is damaged, or that another user could have written, is not used."""

    def __init__(self, folder: str, key: dict[str, Any]) -> None:
        self._folder = folder
        self._key = json.dumps(key, sort_keys=True)
        self._ranks = len(key["cpus"])
        name = hashlib.sha256(self._key.encode()).hexdigest()[:16]
        self.path = os.path.join(folder, f"{name}.json")

    def read(self) -> dict[str, Any] | None:
        """The kept tuning: ``tuned``, the block shape of each rank, and ``found_at``; None where
        there is none.

        Raises:
            UnusableTuning: it cannot be used.
        """
        try:
            handle = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise UnusableTuning(error.strerror) from error
        try:
            state = os.fstat(handle)
            if not stat.S_ISREG(state.st_mode) or state.st_size > MOST_TUNING_BYTES:
                raise UnusableTuning("it is no file of ours")
            if state.st_uid not in (0, os.geteuid()) or state.st_mode & 0o022:
                raise UnusableTuning("another user may have written it")
            return self._checked(os.read(handle, MOST_TUNING_BYTES))
        finally:
            os.close(handle)

    def keep(self, tuned: list[dict[str, int]]) -> dict[str, Any]:
        """Write a tuning, whole or not at all, and return it.

        Raises:
            OSError: it cannot be written.
        """
        found_at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        tuning = {"format": TUNING_FORMAT, "key": self._key, "tuned": tuned, "found_at": found_at}
        os.makedirs(self._folder, exist_ok=True)
        handle, temporary_path = tempfile.mkstemp(dir=self._folder)
        try:
            with open(handle, "w", encoding="utf-8") as stream:
                json.dump({**tuning, "sha256": self._digest(tuning)}, stream)
                os.fchmod(handle, 0o644)
                stream.flush()
                os.fsync(handle)
            os.replace(temporary_path, self.path)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(temporary_path)
            raise
        return tuning

    def _checked(self, content: bytes) -> dict[str, Any]:
        try:
            tuning = json.loads(content)
            digest = tuning.pop("sha256")
            shapes = tuning["tuned"]
            sound = (
                digest == self._digest(tuning)
                and (tuning["format"], tuning["key"]) == (TUNING_FORMAT, self._key)
                and len(shapes) == self._ranks
                and all(usable(shape) for shape in shapes)
                and isinstance(tuning["found_at"], str)
            )
        except (AttributeError, KeyError, RecursionError, TypeError, ValueError):
            sound = False
        if not sound:
            raise UnusableTuning("it is damaged")
        return dict(tuning)

    @staticmethod
    def _digest(tuning: dict[str, Any]) -> str:
        return hashlib.sha256(json.dumps(tuning, sort_keys=True).encode()).hexdigest()


def usable(shape: dict[str, int]) -> bool:
    """Whether this is a block shape: Devito's names, whole numbers of points."""
    return all(
        BLOCK_NAME.fullmatch(name) and type(size) is int and size > 0
        for name, size in shape.items()
    )


def own_cpus() -> str:
    """The CPUs that this process's threads may use, read back from the kernel, as in 0-3,8."""
    cpus: set[int] = set()
    for thread in os.listdir("/proc/self/task"):
        with contextlib.suppress(ProcessLookupError):  # a thread that has just ended
            cpus |= os.sched_getaffinity(int(thread))
    runs: list[list[int]] = []
    for cpu in sorted(cpus):
        if runs and cpu == runs[-1][1] + 1:
            runs[-1][1] = cpu
        else:
            runs.append([cpu, cpu])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


class Ranks:
    """The processes of this run, with MPI or without."""

    def __init__(self, configuration: Any, mpi: Any, set_log_level: Any) -> None:
        self.mpi = mpi
        self.comm: Any = None
        try:
            mpi.Init()  # also for one rank: `norm` asks MPI for it wherever mpi4py is there
        except (TypeError, ModuleNotFoundError):
            return  # no MPI on this node
        if configuration["mpi"] is not False:
            self.comm = mpi.COMM_WORLD
            set_log_level("PERF", comm=self.comm)

    @property
    def several(self) -> bool:
        return self.comm is not None and self.comm.size > 1

    @property
    def first(self) -> bool:
        return self.comm is None or self.comm.rank == 0

    def gather(self, value: Any) -> list[Any]:
        """Every rank's value on the first; on the others an empty list."""
        return [value] if self.comm is None else self.comm.gather(value) or []

    def share(self, value: Any) -> Any:
        """The first rank's value, on every rank."""
        return value if self.comm is None else self.comm.bcast(value)

    @property
    def number(self) -> int:
        return 0 if self.comm is None else int(self.comm.rank)

    def describe(self) -> str | None:
        if self.comm is None:
            return None
        library = str(self.mpi.Get_library_version())
        return library.splitlines()[0].rstrip("\0 ").strip()

    def finish(self) -> None:
        with contextlib.suppress(TypeError, ModuleNotFoundError):
            self.mpi.Finalize()


class Repeater:
    """Takes the place of the benchmark's `run_op`: applies the operator n times, tuned once, or not
    at all where this rank's block shape is known."""

    def __init__(
        self,
        run_op: Any,
        configuration: Any,
        ranks: Ranks,
        repeats: int,
        tuned_shape: dict[str, int] | None,
    ) -> None:
        self._run_op = run_op
        self._configuration = configuration
        self._ranks = ranks
        self._repeats = repeats
        self._known = tuned_shape is not None
        self.measured: list[dict[str, Any]] = []
        self.tuned: dict[str, int] = tuned_shape or {}
        # Sections of the operator's last application on this rank, in seconds.
        self.sections: dict[str, float] = {}

    def __call__(self, solver: Any, operator: Any, **options: Any) -> Any:
        if self._known:
            self._configuration["autotuning"] = "off"
        for number in range(self._repeats):
            result = None  # the last repeat's wavefield goes before the next one is made
            tunes = number == 0 and not self._known
            result = self._run_op(solver, operator, **(options if tunes else self.tuned))
            applied = solver.op_fwd(None)
            if tunes:
                self._keep_tuned(applied)
            self._measure(applied, result[-1])
        return result

    def _keep_tuned(self, applied: Any) -> None:
        for state in applied._state.get("autotuning", []):
            self.tuned.update({key: int(value) for key, value in state["tuned"].items()})
        # Threads are the layout's, not the tuner's; and a tuned operator is not tuned again.
        self.tuned.pop("nthreads", None)
        self._configuration["autotuning"] = "off"

    def _measure(self, applied: Any, summary: Any) -> None:
        vanilla, fdlike = summary.globals["vanilla"], summary.globals["fdlike"]
        seconds = self._ranks.gather(float(applied._profiler.py_timers["apply"]))
        halo = sum(time for name, time in self.sections.items() if name.startswith(HALO))
        halos = self._ranks.gather(halo)
        self.measured.append(
            {
                # Mean over the ranks: the cost of exchanges, with packing and waiting for others.
                "halo_seconds": sum(halos) / len(halos) if halos and self._ranks.several else None,
                "seconds": max(seconds, default=0.0),  # the slowest rank's
                # The summary's rates are counts over the rounded time: undo that.
                "flops": round(float(vanilla.gflopss) * 1e9 * float(vanilla.time)),
                "points": round(float(fdlike.gpointss) * 1e9 * float(fdlike.time)),
                "operational_intensity": float(vanilla.oi),
            }
        )


def tunings_of(
    arguments: argparse.Namespace, ranks: Ranks, versions: dict[str, Any]
) -> Tunings | None:
    """Where this run's tuning is kept; None where none is. All ranks ask, the first has the key."""
    if not arguments.tunings:
        return None
    problem = ("model", "shape", "space_order", "tn", "nbl", "autotune")
    key = {
        **machine(),
        **versions,
        **{name: getattr(arguments, name) for name in problem},
        "exchange": os.environ.get("DEVITO_MPI"),
        "threads": os.environ.get("OMP_NUM_THREADS"),
        "cpus": ranks.gather(own_cpus()),
    }
    return Tunings(arguments.tunings, key)


def known_tuning(tunings: Tunings, ranks: Ranks) -> tuple[dict[str, Any] | None, dict[str, Any]]:
    """The kept tuning, the same on all ranks, and its members of the driver's line."""
    tuning, report = None, {}
    if ranks.first:
        try:
            tuning = tunings.read()
        except UnusableTuning as error:
            report = {"ignored": f"{tunings.path} is not used: {error}"}
    tuning = ranks.share(tuning)
    return tuning, {"reused": True, "found_at": tuning["found_at"]} if tuning else report


def keep_tuning(tunings: Tunings, ranks: Ranks, tuned: dict[str, int]) -> dict[str, Any]:
    """Keep the tuning of each rank; its members of the driver's line."""
    shapes = ranks.gather(tuned)
    if not ranks.first or not all(usable(shape) for shape in shapes):
        return {}
    try:
        tuning = tunings.keep(shapes)
    except OSError as error:
        return {"reused": False, "ignored": f"{tunings.path} is not written: {error.strerror}"}
    return {"reused": False, "found_at": tuning["found_at"]}


def main() -> None:
    arguments = parse_arguments()
    if os.environ.get("TMPDIR"):
        require_space(os.environ["TMPDIR"])
    if arguments.cpus:
        bind(arguments.cpus)

    # After the binding: numpy and MPI make threads when they are imported.
    import devito
    from benchmarks.user import benchmark
    from devito import configuration, norm, set_log_level
    from devito.core import operator as core_operator
    from devito.mpi import MPI
    from devito.operator.profiling import AdvancedProfiler

    ranks = Ranks(configuration, MPI, set_log_level)

    # As the benchmark's own command line sets it up.
    configuration["develop-mode"] = False
    if configuration["profiling"] == "basic":
        # advanced1 also times the exchanges of halos.
        configuration["profiling"] = "advanced1" if ranks.several else "advanced"
    autotune = False if arguments.autotune == "off" else arguments.autotune
    if autotune:
        configuration["autotuning"] = [autotune, "preemptive"]
        configuration["opt-options"]["blockinner"] = False

    tuning_seconds = []
    devito_autotune = core_operator.autotune

    def timed_autotune(*positional: Any, **named: Any) -> Any:
        begin = time.perf_counter()
        try:
            return devito_autotune(*positional, **named)
        finally:
            tuning_seconds.append(time.perf_counter() - begin)

    core_operator.autotune = timed_autotune
    evaluate_section = AdvancedProfiler._evaluate_section

    # Devito's summary keeps the times of subsections of one rank alone.
    def kept_section(profiler: Any, name: str, *positional: Any) -> Any:
        evaluated = evaluate_section(profiler, name, *positional)
        repeater.sections[name] = float(evaluated[0])
        return evaluated

    AdvancedProfiler._evaluate_section = kept_section
    compiler = configuration["compiler"]
    versions = {
        "devito": devito.__version__,
        "compiler": f"{type(compiler).__name__} {getattr(compiler, 'version', '')}".strip(),
        "mpi": ranks.describe(),
    }
    kept_tuning: dict[str, Any] | None = None
    tuning: dict[str, Any] = {}
    tunings = tunings_of(arguments, ranks, versions) if autotune else None
    if tunings and not arguments.tune_anew:
        kept_tuning, tuning = known_tuning(tunings, ranks)
    repeater = Repeater(
        benchmark.run_op,
        configuration,
        ranks,
        arguments.repeats,
        kept_tuning["tuned"][ranks.number] if kept_tuning else None,
    )
    benchmark.run_op = repeater
    result = benchmark.run(
        arguments.model,
        shape=tuple(int(extent) for extent in arguments.shape.split("x")),
        spacing=SPACING_M,
        nbl=arguments.nbl,
        space_order=[arguments.space_order],
        time_order=[2],
        tn=arguments.tn,
        autotune=autotune,
        block_shape=(),
        operator="forward",
        warmup=False,
        opt="advanced",
        dump_summary=False,
        dump_norms=False,
    )
    if tunings and not kept_tuning:
        tuning.update(keep_tuning(tunings, ranks, repeater.tuned))
    measured = {
        "format": FORMAT,
        "python": platform.python_version(),
        **versions,
        "tuning": tuning,
        "cpus": ranks.gather(own_cpus()),
        "hosts": ranks.gather(platform.node()),
        "peak_rss_bytes": sum(
            ranks.gather(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
        ),
        "tuned": repeater.tuned,
        "autotune_seconds": sum(tuning_seconds),
        "repeats": repeater.measured,
        # Collective: every rank takes part.
        "norms": {"field": float(norm(result[1])), "receivers": float(norm(result[0]))},
    }
    measured["ranks"] = len(measured["cpus"])
    if ranks.first:
        print(PREFIX + json.dumps(measured), flush=True)
    ranks.finish()


if __name__ == "__main__":
    main()
