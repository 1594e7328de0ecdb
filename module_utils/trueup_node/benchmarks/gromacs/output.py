"""Parser of the log of GROMACS' ``mdrun`` (``md.log``), versions 2018 to 2026.

Either the log alone, or the output of trueup's driver (roles/gromacs/files/gromacs_driver.py): the
log, and then the line ``trueup-gromacs {...}`` with the log's sha256, so that no damage passes.

What mdrun writes to the terminal, the pasted end of a log and logs of versions before 2018 have
less to check: the time and the rate at their end are read, and are unverified.

The layout was read off GROMACS 2022.5 and public logs of 2019 to 2026 (the columns ms/step and
Matom*steps/s are new in 2026). Steps and times are counted from the step at which the counters were
reset (``-resetstep``, ``-resethway``), if they were: then ns/day is steps * dt over the wall time.
"""

from __future__ import annotations

import hashlib
import math
import re
from dataclasses import dataclass, field
from typing import Dict, List, Mapping, Match, Optional, Pattern, Sequence, Tuple, Union

from ...errors import ParseError
from ...reading import Line, decoded, lines_of, only, refuse_after
from ...record import Metric
from .signatures import DRIVER_PREFIX

TOOL = "gromacs"

_DATE = r"\w{3} \w{3} [ \d]\d \d\d:\d\d:\d\d \d{4}"
_VERSION = re.compile(r"(?:GROMACS|Gromacs) version: +(?:VERSION )?(\S+)$")
_PROGRAM = re.compile(r"GROMACS: +gmx\S* mdrun, (?:version|VERSION) (\S+)$")
_UNDERSTOOD = re.compile(r"20(?:1[89]|[2-9]\d)\b")
_ENERGIES = "   Energies (kJ/mol)"
# Of versions before 4.6, which print no other line of it.
_TITLE = re.compile(r" +:-\) +VERSION (\S+) +\(-:$")
_STARTED = re.compile(rf"Started mdrun on (?:rank|node) 0 {_DATE}$")
_FINISHED = re.compile(rf"Finished mdrun on (?:rank|node) 0 {_DATE}$")
_DT = re.compile(r" +dt += (\S+)$")
_STEPS = re.compile(r" +nsteps += (-?\d+)$")
_OVERRIDE = re.compile(
    r"Overriding nsteps with value passed on the command line: (-?\d+) steps?(?:, \S+ ps)?$"
)
_ATOMS = re.compile(r"There are: +(\d{1,18}) Atoms$", re.IGNORECASE)
_NODES = re.compile(r"Running on ([1-9]\d{0,8}) nodes? with total ")
_RANKS = re.compile(r"Using (\d{1,18}) MPI (?:threads?|process(?:es)?) *$")
_THREADS = re.compile(r"Using (\d{1,18}) OpenMP threads?(?: per (?:tMPI thread|MPI process))? *$")
_COUNTED = re.compile(
    r"On (\d{1,18}) MPI ranks?(?: doing (PP))?"
    r"(?:, (?:each )?using (\d{1,18}) OpenMP threads?)?(?:,? and)?$"
)
_COUNTED_PME = re.compile(
    r"on (\d{1,18}) MPI ranks? doing PME(?:, (?:each )?using (\d{1,18}) OpenMP threads?)?$"
)
_RESET = re.compile(r"step (\d{1,18}): resetting all time and cycle counters$")
_STATISTICS = re.compile(r"\tStatistics over (\d{1,18}) steps(?: \[.*\])? using (\d{1,18}) frames$")
_NO_STATISTICS = "Not enough data recorded to report energy averages"
_CONSERVED = re.compile(
    r"Energy conservation over simulation part #\d+ of length (\S+) [np]s, "
    r"time (\S+) to (\S+) [np]s$"
)
# Energies that are read; of others, two may have one name.
_PARTS = ("Potential", "Kinetic En.", "Total Energy")
_JUDGED = (*_PARTS, "Conserved En.")
# %.5e, as all energies of a log.
_ENERGY = re.compile(r"-?[0-9]\.[0-9]{5}e[+-][0-9]{2,3}")
_DRIFT = re.compile(r"  Conserved energy drift: (\S+) kJ/mol/ps per atom$")
_TOTAL = re.compile(r" Total +(\d+\.\d+) +\d+\.\d+ +100\.0$")
_TIME_HEADER = re.compile(r" *(?:Core t|NODE) \(s\) +(?:Wall t|Real) \(s\) +\(%\)$")
_TIME = re.compile(r" *Time: +(\d+\.\d+) +(\d+\.\d+) +(\d+\.\d+)$")
_LONG_TIME = re.compile(r" +(?:\d+d)?(?:\d+h)?[\d:]+$")
# "500000 steps,   1000.0 ps." of a run from its first step.
_LENGTH = re.compile(r"\d{1,18} steps?, +(\d+\.\d) ps\.$")
_NO_LOG = "no log of mdrun: the input, the layout and the energies are not in the text"
_OLD_LOG = (
    "GROMACS {} is older than 2018: only the time and the rate at the end of its log are read"
)
_PERFORMANCE = re.compile(r"Performance:((?: +\S+)+) *$")
_COLUMN = re.compile(r"\(([^()]+)\)")
# Possible columns of the performance; the last three are checked, the others only told apart.
_COLUMNS = ("Mnbf/s", "GFlops", "MFlops", "ns/day", "hour/ns", "ms/step", "Matom*steps/s")
_MAPPING = re.compile(
    r"Mapping of GPU IDs to the (\d+) GPU tasks? in the \d+ ranks? on this node: *$"
)
_ON_GPU = re.compile(
    r"PP tasks will do \(?non-perturbed\)? short-ranged( and most bonded)? interactions on the GPU$"
)
_UPDATE = re.compile(r"PP task will update and constrain coordinates on the (CPU|GPU)$")
_PME = re.compile(r"PME tasks will do (all aspects|only spread and gather) on the GPU$")
_FATAL = (
    *("Fatal error:", "Software inconsistency error:", "Inconsistency in user input:"),
    *("Error in user input:", "Assertion failed:", "Standard library runtime error"),
    *("Feature not implemented:", "Parallel consistency error:", "Invalid command-line options"),
    *("Invalid simulation setup", "File input/output error:", "System I/O error:"),
)
_UNSETTLED = re.compile(
    r"LINCS WARNING|can not be settled|Too many (?:LINCS|SETTLE)|step too large|"
    r"Step \d+: The total potential energy is"
)
_STOPPED = re.compile(r"Received the \w+ signal, stopping|Run time exceeded .* will terminate")
_BUILD = {
    "precision": re.compile(r"Precision: +(\S+)"),
    "mpi_library": re.compile(r"MPI library: +(\S(?:.*\S)?)"),
    "gpu_support": re.compile(r"GPU support: +(\S(?:.*\S)?)"),
    "simd": re.compile(r"SIMD instructions: +(\S(?:.*\S)?)"),
}
_BEST_SIMD = re.compile(r"Highest SIMD level supported by all nodes in run: (\S+)$")
_TUNED = "PP/PME load balancing changed the cut-off and PME settings"
_ENERGY_WIDTH = 15
_SECONDS_A_DAY = 86400
# Largest error of a figure printed with three decimals.
_ROUNDED = 0.000501


@dataclass(frozen=True)
class GromacsOutput:
    """One run of mdrun that ended by itself.

    Attributes:
        ns_per_day: simulated ns for each day of wall time, as printed.
        wall_seconds: since the counters were reset, where they were.
        steps_timed: steps in that time.
        steps_done, steps_asked: of the whole run. GROMACS counts step 0: 1000 steps are 1001 in its
            statistics, and 1000 here; ``steps_asked`` is None for a run without an end.
        dt_ps: time step, ps.
        ranks: all, those for PME alone included; ``threads`` is of each rank that does PP.
        offload: where nb, pme, bonded and update ran: gpu, cpu or mixed.
        gpus: those that were given work on the first node.
        node_count: None where the log does not say it.
        drift: of the conserved energy, kJ/mol/ps per atom; None where no energies were printed.
        unsettled: lines that say that constraints could not be met.
        stopped: why it ended before its last step, if it did.
        driver: fields that trueup's driver added; empty for a log alone.
    """

    ns_per_day: float
    wall_seconds: float
    steps_timed: int
    steps_done: int
    steps_asked: Optional[int]
    dt_ps: float
    atoms: int
    ranks: int
    pme_ranks: int
    threads: int
    offload: Mapping[str, str]
    gpus: int
    drift: Optional[float]
    tool_version: Optional[str]
    node_count: Optional[int] = None
    build: Mapping[str, str] = field(default_factory=dict)
    unsettled: Tuple[str, ...] = ()
    stopped: Optional[str] = None
    driver: Mapping[str, str] = field(default_factory=dict)
    warnings: List[str] = field(default_factory=list)

    @property
    def gpu_count(self) -> Optional[int]:
        """GPUs of all nodes; None where GPUs of other nodes than the first may have had work."""
        return self.gpus if self.node_count == 1 or not self.gpus else None

    @property
    def parameters(self) -> Dict[str, str]:
        """Problem and layout: atoms, steps, dt_ps, layout, precision, offload."""
        parameters = {
            "atoms": str(self.atoms),
            "steps": str(self.steps_done),
            "dt_ps": f"{self.dt_ps:g}",
            "layout": f"{self.ranks}x{self.threads}",
            "offload": ",".join(n for n, device in self.offload.items() if device != "cpu")
            or "none",
        }
        return {
            **parameters,
            **{name: self.build[name] for name in self.build if name == "precision"},
        }

    @property
    def checks(self) -> Dict[str, bool]:
        """That constraints held, and that the run was not stopped before its last step."""
        is_complete = self.steps_asked is None or self.steps_done == self.steps_asked
        return {
            "constraints_hold": not self.unsettled,
            "all_steps_done": self.stopped is None and is_complete,
        }

    def metrics(self) -> List[Metric]:
        """step_rate [1/s], simulation_rate [ns/day], run_time [s], energy_drift [kJ/mol/ps].

        ns/day and kJ/mol/ps per atom are no base units: everybody in this field reads them and
        GROMACS prints them. step_rate is the same figure in one.
        """
        rows = [
            _single("step_rate", self.ns_per_day * 1000 / self.dt_ps / _SECONDS_A_DAY, "1/s"),
            _single("simulation_rate", self.ns_per_day, "ns/day"),
            _single("run_time", self.wall_seconds, "s", "lower"),
        ]
        if self.drift is not None:
            rows.append(_single("energy_drift", abs(self.drift), "kJ/mol/ps", "lower"))
        return rows


@dataclass(frozen=True)
class GromacsEnding:
    """The end of a run: its time and its rate, without the log above.

    Attributes:
        ns_per_day, wall_seconds: as printed.
        tool_version: None where the text does not name it.
        ranks, threads: of the run, and of each rank; None where they are not printed.
        unsettled: lines that say that constraints could not be met.
        stopped: why it ended before its last step, if it did.
        unverified: facts that the text lacks.
    """

    ns_per_day: float
    wall_seconds: float
    tool_version: Optional[str]
    ranks: Optional[int]
    threads: Optional[int]
    unsettled: Tuple[str, ...]
    stopped: Optional[str]
    warnings: List[str]
    unverified: Tuple[str, ...]
    node_count: Optional[int] = None

    @property
    def parameters(self) -> Dict[str, str]:
        """The layout, where it is known."""
        known = self.ranks is not None and self.threads is not None
        return {"layout": f"{self.ranks}x{self.threads}"} if known else {}

    @property
    def checks(self) -> Dict[str, bool]:
        """That no line says that constraints failed, or that the run was stopped."""
        return {"constraints_hold": not self.unsettled, "all_steps_done": self.stopped is None}

    def metrics(self) -> List[Metric]:
        """simulation_rate [ns/day], run_time [s]."""
        return [
            _single("simulation_rate", self.ns_per_day, "ns/day"),
            _single("run_time", self.wall_seconds, "s", "lower"),
        ]


def _over(energy: float, steps: int, dt: float, atoms: int, line: Line) -> float:
    """Energy over time and atoms."""
    try:
        return energy / (steps * dt * atoms)
    except OverflowError:
        raise line.error("more steps or atoms than a number holds") from None


def _single(name: str, value: float, unit: str, direction: str = "higher") -> Metric:
    return Metric(name, value, unit, direction, statistic="single", n=1)


def fatal_error(text: str) -> Optional[str]:
    """The sentence of GROMACS' fatal error, or the line that says that the system blew up; None
    where neither is there."""
    lines = text.splitlines()
    for at, line in enumerate(lines):
        if line.startswith(_FATAL):
            message_lines = []
            for following in lines[at + 1 :]:
                if not following.strip() or following.startswith(("-----", "For more information")):
                    break
                message_lines.append(following.strip())
            return " ".join([line.strip(), *message_lines])
    for number, line in enumerate(lines, 1):
        if _UNSETTLED.search(line):
            return f"{line.strip()} (line {number})"
    return None


def parse_gromacs(text: str) -> Union[GromacsOutput, GromacsEnding]:
    """Read one log, or the end of one.

    Raises:
        ParseError: as ``parse_log``; or no time and no rate at the end.
    """
    driver, log = _split(lines_of(text, "\n"))
    reader = _Reader(log, driver)
    lacking = None if driver else reader.lacking()
    return reader.ending(lacking) if lacking else reader.output()


def parse_log(text: str) -> GromacsOutput:
    """Read one log of a version since 2018.

    Raises:
        ParseError: a fatal error, energies that are not finite, no ``Finished`` line, two runs in
            one log, a figure that is missing or no number, or figures that contradict each other.
    """
    driver, log = _split(lines_of(text, "\n"))
    return _Reader(log, driver).output()


def _split(lines: Sequence[Line]) -> Tuple[Dict[str, str], Sequence[Line]]:
    """The driver's fields and the log that it vouches for; no fields for a log alone."""
    driver_lines = only(lines, DRIVER_PREFIX, "a second result line of the driver")
    if not driver_lines:
        return {}, lines
    line = driver_lines[0]
    data = decoded(line, DRIVER_PREFIX, "the driver's line", version=1, role="gromacs")
    fields = ("log_sha256", "tpr_sha256", "mdrun")
    if set(data) != {"format", *fields} or not all(isinstance(data[n], str) for n in fields):
        raise line.error(f"the driver's line has not {', '.join(fields)}")
    log = lines[: line.number - 1]
    log_text = "\n".join([*log, ""])
    got = hashlib.sha256(log_text.encode("utf-8", errors="replace")).hexdigest()
    if got != data["log_sha256"]:
        raise line.error(
            f"the log above is damaged: its sha256 is {got}, the driver's {data['log_sha256']}"
        )
    refuse_after(lines[line.number :], "text after the driver's line")
    # Read once, and not repeated in it: the others are told by the log that the sum vouches for.
    if not re.fullmatch(r"[0-9a-f]{64}", data["tpr_sha256"]):
        raise line.error("tpr_sha256 is no sha256")
    return {name: data[name] for name in fields}, log


class _Reader:
    """The log, read from top to bottom: each part comes after the one before."""

    def __init__(self, log: Sequence[Line], driver: Dict[str, str]) -> None:
        self._lines = [Line(line.rstrip("\r"), line.number) for line in log]
        self._driver = driver
        self._at = 0  # number of the last line that was read

    def output(self) -> GromacsOutput:
        self._refuse_fatal()
        version = self._version()
        build = self._build()
        steps_asked, dt = self._input()
        ranks, threads = self._at_most_one(_RANKS), self._at_most_one(_THREADS)
        offload, gpus = self._gpus()
        atoms = self._atoms()
        started, _ = self._next(_STARTED, "line 'Started mdrun on rank 0'")
        first, last, energies, averages = self._energies(started)
        done = last[1] - first[1] + 1
        reset = self._reset(started, first[1], last[1])
        drift = self._drift(started, energies, (first[1], last[1]), dt, atoms)
        self._statistics(averages, done)
        counted, pme_ranks, counted_threads = self._counted()
        _same(ranks, counted, "MPI ranks")
        if not pme_ranks:
            _same(threads, counted_threads, "OpenMP threads")
        total = _positive(*self._next(_TOTAL, "total of the time accounting"), "total time")
        timed = done - (reset - first[1])
        wall = self._time(total)
        rate = self._performance(wall, timed, dt, atoms)
        self._end()
        return GromacsOutput(
            ns_per_day=rate,
            wall_seconds=wall,
            steps_timed=timed,
            steps_done=done - 1,
            steps_asked=steps_asked,
            dt_ps=dt,
            atoms=atoms,
            ranks=counted,
            pme_ranks=pme_ranks,
            threads=counted_threads,
            offload=offload,
            gpus=gpus,
            drift=drift,
            tool_version=version,
            node_count=self._node_count(),
            build=build,
            unsettled=self._unsettled(),
            stopped=self._stopped(),
            driver=self._driver,
            warnings=self._warnings(build),
        )

    def lacking(self) -> Optional[str]:
        """Why the end alone can be read; None of a log."""
        old = [version for version in self._versions() if not _UNDERSTOOD.match(version)]
        if old:
            return _OLD_LOG.format(old[0])
        is_log = self._all(_VERSION) or self._all(_STARTED) or self._all(_STATISTICS)
        return None if is_log or any(_ENERGIES in line for line in self._lines) else _NO_LOG

    def ending(self, lacking: str) -> GromacsEnding:
        """The time and the rate at the end."""
        self._refuse_fatal()
        total = self._at_most_one(_TOTAL)
        wall = self._time(None if total is None else _positive(*total, "total time"))
        line, figures = self._rate_line()
        rate = figures["ns/day"]
        expected = {"hour/ns": (24 / (rate + _ROUNDED), 24 / max(rate - _ROUNDED, 1e-9))}
        lengths, stopped = self._all(_LENGTH), self._stopped()
        if len(lengths) == 1 and not stopped and not self._all(_RESET):
            # Step 0 counts too: up to twice the time of a run of one step.
            length = _positive(*lengths[0], "length of the simulation")
            day = _SECONDS_A_DAY / 1000
            expected["ns/day"] = (
                (length - 0.051) * day / (wall + _ROUNDED),
                (length * 1.001 + 0.051) * day / max(wall - _ROUNDED, 1e-9),
            )
        _check_rates(line, figures, expected, f"a run of {wall:g} s and {rate:g} ns/day")
        ranks, threads = self._at_most_one(_RANKS), self._at_most_one(_THREADS)
        return GromacsEnding(
            ns_per_day=rate,
            wall_seconds=wall,
            tool_version=next(iter(self._versions()), None),
            ranks=int(ranks[1].group(1)) if ranks else None,
            threads=int(threads[1].group(1)) if threads else None,
            unsettled=self._unsettled(),
            stopped=stopped,
            warnings=self._warnings({}),
            unverified=(lacking,),
        )

    def _versions(self) -> List[str]:
        """The versions that the text names, in any form."""
        forms = (_VERSION, _PROGRAM, _TITLE)
        return [match.group(1) for form in forms for _, match in self._all(form)]

    def _refuse_fatal(self) -> None:
        error = fatal_error("\n".join(self._lines))
        if error and any(line.startswith(_FATAL) for line in self._lines):
            raise ParseError(f"mdrun ended with an error: {error}")

    def _unsettled(self) -> Tuple[str, ...]:
        return tuple(line.strip() for line in self._lines if _UNSETTLED.search(line))

    def _stopped(self) -> Optional[str]:
        return next((line.strip() for line in self._lines if _STOPPED.search(line)), None)

    # --- finding lines

    def _all(self, pattern: Pattern[str]) -> List[Tuple[Line, Match[str]]]:
        pairs = ((line, pattern.match(line)) for line in self._lines)
        return [(line, match) for line, match in pairs if match]

    def _next(self, pattern: Pattern[str], description: str) -> Tuple[Line, Match[str]]:
        """The only line of that form, which must come after the last one that was read."""
        matches = self._all(pattern)
        if not matches:
            raise ParseError(
                f"no {description}: the log has no end, or this form of it is not known"
            )
        if len(matches) > 1:
            raise matches[1][0].error(f"a second {description}: two runs in one log")
        line, match = matches[0]
        if line.number < self._at:
            raise line.error(f"{description} stands too early in the log")
        self._at = line.number
        return line, match

    def _at_most_one(self, pattern: Pattern[str]) -> Optional[Tuple[Line, Match[str]]]:
        """A line that not every version prints."""
        matches = self._all(pattern)
        if len(matches) > 1:
            raise matches[1][0].error("this line stands twice: two runs in one log")
        return matches[0] if matches else None

    def _below(self, line: Line) -> Line:
        """The next line; an empty one at the end."""
        return next(iter(self._lines[line.number : line.number + 1]), Line("", line.number + 1))

    # --- the head

    def _version(self) -> str:
        programs = self._all(_PROGRAM)
        for line, match in [*self._all(_VERSION), *programs]:
            if not _UNDERSTOOD.match(match.group(1)):
                raise line.error(
                    f"GROMACS {match.group(1)} is older than 2018, the first that is understood"
                )
        # Before 2018 a log says it twice.
        if len(programs) > 1:
            raise programs[1][0].error("a second log begins here: two runs in one log")
        line, match = self._next(_VERSION, "line 'GROMACS version:'")
        version = match.group(1)
        if programs and programs[0][1].group(1) != version:
            raise line.error(f"version {version}, and {programs[0][1].group(1)} in the title")
        return version

    def _build(self) -> Dict[str, str]:
        by_name = ((name, self._all(pattern)) for name, pattern in _BUILD.items())
        return {name: matches[0][1].group(1) for name, matches in by_name if matches}

    def _input(self) -> Tuple[Optional[int], float]:
        dt = _positive(*self._next(_DT, "dt in the input parameters"), "dt")
        match = self._next(_STEPS, "nsteps in the input parameters")[1]
        override = self._all(_OVERRIDE)
        if len(override) > 1:
            raise override[1][0].error("nsteps is overridden twice: two runs in one log")
        requested_steps = int((override[0][1] if override else match).group(1))
        return (None if requested_steps < 0 else requested_steps), dt

    def _node_count(self) -> Optional[int]:
        counts = {int(match.group(1)) for _, match in self._all(_NODES)}
        return counts.pop() if len(counts) == 1 else None

    def _atoms(self) -> int:
        line, match = self._next(_ATOMS, "number of atoms")
        atoms = int(match.group(1))
        if atoms < 1:
            raise line.error(f"number of atoms is {atoms}")
        return atoms

    def _gpus(self) -> Tuple[Dict[str, str], int]:
        """The work that ran on GPUs, and on how many."""
        mapping, on_gpu, update, pme = map(self._at_most_one, (_MAPPING, _ON_GPU, _UPDATE, _PME))
        if mapping is None:
            stray = on_gpu or update or pme
            if stray:
                raise stray[0].error("work on a GPU, and no 'Mapping of GPU IDs'")
            return dict.fromkeys(("nb", "pme", "bonded", "update"), "cpu"), 0
        line = mapping[0]
        tasks = self._gpu_tasks(*mapping)
        has_pme = any(kind == "PME" for kind, _ in tasks)
        if has_pme != (pme is not None) and on_gpu:
            raise line.error("the GPU tasks and what they do contradict each other about PME")
        # 2018 maps the tasks and does not say which they are.
        all_of_pme = pme is None or pme[1].group(1) == "all aspects"
        offload = {
            "nb": "gpu",  # whatever else is there, the short-ranged interactions are
            "pme": "cpu" if not has_pme else "gpu" if all_of_pme else "mixed",
            "bonded": "gpu" if on_gpu and on_gpu[1].group(1) else "cpu",
            "update": "gpu" if update and update[1].group(1) == "GPU" else "cpu",
        }
        return offload, len({device for _, device in tasks})

    def _gpu_tasks(self, line: Line, match: Match[str]) -> List[Tuple[str, str]]:
        """The tasks that the line below lists, as kind and GPU: ("PP", "0"), ("PME", "1")."""
        tasks = re.match(r" +((?:PP|PME):\d+(?:,(?:PP|PME):\d+)*) *$", self._below(line))
        listed = tasks.group(1).split(",") if tasks else []
        if len(listed) != int(match.group(1)):
            raise line.error(f"{match.group(1)} GPU tasks, and {len(listed)} are listed")
        return [(kind, gpu) for kind, _, gpu in (task.partition(":") for task in listed)]

    # --- the steps

    def _energies(
        self, started: Line
    ) -> Tuple[Tuple[Line, int], Tuple[Line, int], Dict[int, Tuple[str, Line]], Optional[Line]]:
        """First and last step that the log shows (line, step), the conserved energy at each (as
        printed, and its line), and the line of the averages' table."""
        steps: List[Tuple[Line, int]] = []
        energies: Dict[int, Tuple[str, Line]] = {}
        names: List[str] = []
        averages: Optional[Line] = None
        for line in self._lines[started.number :]:
            if re.match(r" +Step +Time(?: +Lambda)?$", line):
                steps.append(self._step(line, steps))
            elif "A V E R A G E S" in line:
                if averages is not None:
                    raise line.error("a second table of averages: two runs in one log")
                averages = line
            elif line == _ENERGIES:
                table = self._table(line)
                if averages is None:
                    names = names or list(table)
                    if list(table) != names:
                        raise line.error("other energies than at the steps before")
                    self._keep_energy(line, table, steps, energies)
        if len(steps) < 2:
            raise ParseError("no first and last step: the log is cut off or damaged")
        return steps[0], steps[-1], energies, averages

    @staticmethod
    def _keep_energy(
        line: Line,
        table: Mapping[str, Tuple[str, Line]],
        steps: Sequence[Tuple[Line, int]],
        energies: Dict[int, Tuple[str, Line]],
    ) -> None:
        """The conserved energy of a step's table, among those of the other steps."""
        name = "Conserved En." if "Conserved En." in table else "Total Energy"
        if name not in table:
            return
        if not steps:
            raise line.error("energies before the first step")
        if steps[-1][1] in energies:
            raise line.error(f"a second table of energies of step {steps[-1][1]}")
        _check_total(table)
        energies[steps[-1][1]] = table[name]

    def _step(self, header: Line, steps: List[Tuple[Line, int]]) -> Tuple[Line, int]:
        line = self._below(header)
        words = line.split()
        if len(words) not in (2, 3) or not words[0].isdecimal():
            raise (line or header).error("no step below 'Step Time'")
        step = int(words[0])
        _float(words[1], "time", line)
        if steps and step <= steps[-1][1]:
            raise line.error(f"step {step} after step {steps[-1][1]}")
        return line, step

    def _table(self, header: Line) -> Dict[str, Tuple[str, Line]]:
        """Names to figures (and their lines) of a table of energies: lines of names and of figures
        in turn, each cell 15 wide."""
        table: Dict[str, Tuple[str, Line]] = {}
        line = self._below(header)
        while line.strip():
            below = self._below(line)
            names, figures = _cells(line), _cells(below)
            if len(names) != len(figures):
                raise line.error(f"{len(names)} names of energies and {len(figures)} figures")
            for name, figure in zip(names, figures):
                if name in table and name in _JUDGED:
                    raise line.error(f"{name} stands twice")
                _float(figure, name, below)
                table[name] = (figure, below)
            line = self._below(below)
        if not table:
            raise header.error("an empty table of energies")
        return table

    def _reset(self, started: Line, first: int, last: int) -> int:
        """The step from which time is counted."""
        resets = self._all(_RESET)
        restarted = [line for line in self._lines if line.startswith("Restarted time on ")]
        if len(resets) > 1 or len(restarted) != len(resets):
            line = resets[-1][0] if resets else restarted[0]
            raise line.error("the counters were not reset exactly once, or not at all")
        if not resets:
            return first
        line, match = resets[0]
        step = int(match.group(1))
        if line.number < started.number or not first <= step <= last:
            raise line.error(f"counters reset at step {step}, of {first} to {last}")
        return step

    def _drift(
        self,
        started: Line,
        energies: Dict[int, Tuple[str, Line]],
        ends: Tuple[int, int],
        dt: float,
        atoms: int,
    ) -> Optional[float]:
        """Drift of the conserved energy: as printed, and checked with the printed energies; from
        these alone where a version does not print it."""
        printed = self._all(_DRIFT)
        over = self._all(_CONSERVED)
        if len(printed) > 1 or len(over) != len(printed):
            line = [*over, *printed][-1][0]
            raise line.error("the energy drift stands twice, or not with its time")
        end_energies = [energies[step] for step in ends if step in energies]
        if len(end_energies) < len(ends):
            if printed:
                raise printed[0][0].error("an energy drift without energies at both ends")
            return None
        steps = ends[1] - ends[0]
        for text, line in end_energies:
            if not _ENERGY.fullmatch(text.strip()):
                raise line.error(f"conserved energy {text.strip()!r} is cut off or damaged")
        first, last = (_float(text, "conserved energy", line) for text, line in end_energies)
        computed = _over(last - first, steps, dt, atoms, end_energies[-1][1])
        if not printed:
            return computed
        line, match = printed[0]
        if line.number < started.number:
            raise line.error("the energy drift stands before the run")
        drift = _float(match.group(1), "energy drift", line)
        printed_ps = _positive(*over[0], "length of the simulation")
        if not math.isclose(printed_ps, steps * dt, rel_tol=1e-5):
            raise over[0][0].error(f"{printed_ps:g} ps are not {steps} steps of {dt:g} ps")
        # Energies have six digits, the drift three.
        allowed = 1.01 * _half_digit(first, last) / (steps * dt * atoms)
        if abs(drift - computed) > allowed + 0.0051 * abs(drift) + 5e-12:
            raise line.error(f"drift {drift:g}, and {computed:.3g} from the energies printed")
        return drift

    def _statistics(self, averages: Optional[Line], done: int) -> None:
        if not self._all(_STATISTICS):
            if not any(_NO_STATISTICS in line for line in self._lines):
                raise ParseError("no averages: the log is cut off or damaged")
            return
        line, match = self._next(_STATISTICS, "line 'Statistics over'")
        if averages is None or line.number < averages.number:
            raise line.error("statistics before the table of averages")
        if int(match.group(1)) != done:
            raise line.error(f"statistics over {match.group(1)} steps, and {done} were done")

    # --- the end

    def _counted(self) -> Tuple[int, int, int]:
        """All ranks, those for PME alone, and threads of a rank, in the time accounting."""
        line, match = self._next(_COUNTED, "line 'On N MPI ranks'")
        ranks, threads = int(match.group(1)), int(match.group(3) or 1)
        pme = 0
        if match.group(2):
            other = _COUNTED_PME.match(self._below(line))
            if not other:
                raise line.error("ranks doing PP, and none doing PME")
            pme = int(other.group(1))
        if ranks < 1 or threads < 1 or (match.group(2) and pme < 1):
            raise line.error("a number of ranks or threads below 1")
        return ranks + pme, pme, threads

    def _time(self, total: Optional[float]) -> float:
        header, _ = self._next(_TIME_HEADER, "line 'Core t (s)  Wall t (s)'")
        line, match = self._next(_TIME, "line 'Time:'")
        if line.number != header.number + 1:
            raise line.error("'Time:' does not stand below its header")
        core, wall, percent = (
            _positive(line, match, label, group)
            for group, label in ((1, "core time"), (2, "wall time"), (3, "percentage"))
        )
        slack = _ROUNDED * percent / wall + 100 * _ROUNDED / wall + 0.0501
        if abs(100 * core / wall - percent) > slack:
            raise line.error(f"core time {core} is not {percent} % of {wall} s")
        if total is not None and abs(total - wall) > 2 * _ROUNDED:
            raise line.error(f"wall time {wall} s, and {total} s in the accounting")
        return wall

    def _rate_line(self) -> Tuple[Line, Dict[str, float]]:
        """The line of the performance, and its figures by column."""
        timed = self._at
        line, match = self._next(_PERFORMANCE, "line 'Performance:'")
        figures = _figures(self._lines[line.number - 2], line, match.group(1).split())
        between = self._lines[timed : line.number - 2]
        if len(between) > 1 or any(not _LONG_TIME.match(other) for other in between):
            raise line.error("'Performance:' does not follow the times")
        return line, figures

    def _performance(self, wall: float, steps: int, dt: float, atoms: int) -> float:
        """ns/day, which stands in the line three to five times in other words."""
        line, figures = self._rate_line()
        rate = figures["ns/day"]
        low, high = wall - _ROUNDED, wall + _ROUNDED
        per_second = (steps / high, steps / low if low > 0 else math.inf)
        day = dt * _SECONDS_A_DAY / 1000
        expected = {
            "ns/day": (per_second[0] * day, per_second[1] * day),
            "hour/ns": (24 / (rate + _ROUNDED), 24 / max(rate - _ROUNDED, 1e-9)),
            "ms/step": (1000 / per_second[1], 1000 / per_second[0]),
            "Matom*steps/s": (per_second[0] * atoms / 1e6, per_second[1] * atoms / 1e6),
        }
        of_run = f"{steps} steps of {dt:g} ps in {wall:g} s and {rate:g} ns/day"
        _check_rates(line, figures, expected, of_run)
        return rate

    def _end(self) -> None:
        performance = self._at
        line, _ = self._next(_FINISHED, "line 'Finished mdrun on rank 0'")
        if line.number != performance + 1:
            raise line.error("'Finished mdrun' does not follow the performance")
        refuse_after(self._lines[line.number :], "text after 'Finished mdrun'")

    def _warnings(self, build: Mapping[str, str]) -> List[str]:
        warnings = []
        best = self._all(_BEST_SIMD)
        if best and build.get("simd", best[0][1].group(1)) != best[0][1].group(1):
            warnings.append(
                f"built for {build['simd']}, and this CPU has {best[0][1].group(1)}: a build for "
                "it is faster"
            )
        warnings += [
            f"{line.strip()}: the others have logs of their own, and ns/day is this one's"
            for line in self._lines
            if re.match(r"This is simulation \d+ out of \d+ running as a composite", line)
        ]
        warnings += [
            line.strip()
            for line in self._lines
            if line.startswith("NOTE: ") or _STOPPED.search(line)
        ]
        if any(_TUNED in line for line in self._lines):
            warnings.append("PME was tuned during the run: grid and cut-off are not the input's")
        return list(dict.fromkeys(warnings))


def _check_rates(
    line: Line,
    figures: Mapping[str, float],
    expected: Mapping[str, Tuple[float, float]],
    of_run: str,
) -> None:
    """Refuse a figure of the performance that is not between the least and the most expected."""
    for name, (least, most) in expected.items():
        if name in figures and not least - _ROUNDED <= figures[name] <= most + _ROUNDED:
            raise line.error(
                f"{name} {figures[name]:g} contradicts {of_run} ({least:.6g} to {most:.6g})"
            )


def _float(text: str, label: str, line: Line) -> float:
    try:
        value = float(text)
    except ValueError:
        raise line.error(f"{label} {text!r} is not a number") from None
    if not math.isfinite(value):
        raise line.error(f"{label} is {text.strip()}: the simulation blew up")
    return value


def _positive(line: Line, match: Match[str], label: str, group: int = 1) -> float:
    value = _float(match.group(group), label, line)
    if value <= 0:
        raise line.error(f"{label} {match.group(group)!r} is not a positive number")
    return value


def _same(line_match: Optional[Tuple[Line, Match[str]]], counted: int, noun: str) -> None:
    if line_match and int(line_match[1].group(1)) != counted:
        number = int(line_match[1].group(1))
        raise line_match[0].error(f"{number} {noun} here, and {counted} in the time accounting")


def _cells(line: str) -> List[str]:
    # A negative figure fills its cell less: split by width, for names hold blanks.
    return [
        line[start : start + _ENERGY_WIDTH].strip()
        for start in range(0, len(line.rstrip()), _ENERGY_WIDTH)
    ]


def _half_digit(*energies: float) -> float:
    """How far their sum may be off: half of the sixth digit of each."""
    return (
        sum(10.0 ** (math.floor(math.log10(abs(energy))) - 5) for energy in energies if energy) / 2
    )


def _check_total(table: Mapping[str, Tuple[str, Line]]) -> None:
    """The total energy of a step is the sum of its parts; a line of another step is found so."""
    if not table.keys() >= set(_PARTS):
        return
    potential, kinetic, total = (_float(table[name][0], name, table[name][1]) for name in _PARTS)
    allowed = 1.01 * _half_digit(potential, kinetic, total)
    if abs(potential + kinetic - total) > allowed:
        line = table["Total Energy"][1]
        raise line.error(f"a total energy of {total:g}, and {potential + kinetic:g} from its parts")


def _figures(header: Line, line: Line, words: Sequence[str]) -> Dict[str, float]:
    """The line of the performance, by column."""
    names = _COLUMN.findall(header)
    if not names or set(names) - set(_COLUMNS) or _COLUMN.sub("", header).strip():
        raise header.error("the columns of the performance are not understood")
    if len(names) != len(words) or len(set(names)) != len(names):
        raise line.error(f"{len(names)} columns and {len(words)} figures")
    if not {"ns/day", "hour/ns"} <= set(names):
        raise header.error("ns/day and hour/ns are not both there")
    figures = {name: _float(text, name, line) for name, text in zip(names, words)}
    for name, text in zip(names, words):
        if figures[name] < 0 or (name == "ns/day" and not figures[name]):
            raise line.error(f"{name} {text} is not a positive number")
    return figures
