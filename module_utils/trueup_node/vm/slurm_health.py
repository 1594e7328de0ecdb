"""The program that slurmd runs on a node (HealthCheckProgram), and after each job. It compares the
node's state and newest records with the limits of its size; it drains the node with the reason, and
gives back a node that it drained.

It runs without Ansible, with the node's Python. Role slurm writes its settings, a JSON object:

- ``node``: its name in Slurm, ``record_name``: in records; ``vm_size``, null where it is not known;
- ``epilog_name``: of the hook after a job;
- ``expectations``: a document as catalog/expectations.yml, of this size;
- ``size_row``: the size's row of catalog/vm_sizes.csv with its ``source``; empty for no such row;
- ``faults``: a document as catalog/faults/xid.yml, and the ``watched`` entries of its folder;
- ``gpu`` and ``rdma``: expectations of ``gpu_look`` and ``infiniband``; ``flap_hours``: of links;
- ``events``: the addresses of the instance metadata and of scheduled events, or empty;
- ``programs``: the programs before a job, whose last line names the problem;
- ``records``: a results folder, or empty; ``record_hours``: how old a record may be;
- ``drains``: whether an unmeasured figure drains the node too;
- ``seconds`` and ``epilog_seconds``: after which the program ends.

Slurm kills a HealthCheckProgram after 60 s (slurm.conf(5)), and its findings are lost then.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import signal
import subprocess
import time
from calendar import timegm
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..cases import Case, Figure, of_record
from ..errors import TrueupError
from ..health import faults
from ..health.expectations import of_document
from ..health.node_verdicts import sentence, slurm_states, slurm_update
from ..health.required import held_to
from ..health.verdicts import Verdict, judge, latest, worst
from ..node import (
    boot_units,
    events,
    gpu_look,
    identify,
    infiniband,
    link_flaps,
    state,
    tools,
    watched_log,
)
from ..node.expected_parts import with_parts
from ..node.topology import read_topology
from ..record import read_records, run_counts
from ..run.output_buffer import Pipe

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

SETTINGS = "/etc/trueup/slurm_health.json"
_LOCK = "/run/trueup-slurm-health.lock"
# slurmd starts it with an environment of its own.
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# Prefixes of the reasons that it may take back: its own, and the reasons of the hook for the same
# programs (roles/slurm/files/hook.sh).
_OWN = "trueup: health:"
_HOOK = "trueup: {}:"
# A node in any other state is not given back: it is down, in maintenance, powered down or booting,
# and resume would end that.
_WELL_STATES = {
    *("IDLE", "MIXED", "ALLOCATED", "COMPLETING", "RESERVED", "PLANNED", "CLOUD", "DYNAMIC_NORM"),
    *("DRAIN", "-"),
}
# Of the metadata service, which answers at once but for its first call (two minutes). It is taken
# from the time of nvidia-smi, whose silence drains the node.
_EVENTS_SECONDS = 2.0
# Left for Slurm to be told.
_TELL_SECONDS = 10.0


class OutOfTimeError(TrueupError):
    """A query did not answer before the time limit."""


class Looked(NamedTuple):
    """The node's state now.

    Attributes:
        verdicts: on all checks.
        notes: on unreadable records, a sentence each.
    """

    verdicts: list[Verdict]
    notes: list[str]


class Shell:
    """Runs commands as ``tools.ask`` has them run, until a point in time for all of them."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def get_bin_path(self, name: str, opt_dirs: Sequence[str] = ()) -> str | None:
        """The program's path."""
        return shutil.which(name, path=":".join([os.environ.get("PATH", _PATH), *opt_dirs]))

    def run_command(
        self, argv: Sequence[str], environ_update: Mapping[str, str], **_options: Any
    ) -> tuple[int, str, str]:
        """Exit status, output, complaint; 124, as of timeout(1), where the time is over.

        One that hangs in the kernel cannot be killed, and is not waited for.
        """
        outputs = Pipe(), Pipe()
        try:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=outputs[0].end,
                stderr=outputs[1].end,
                env={**os.environ, **environ_update},
                start_new_session=True,
            )
            for pipe in outputs:
                pipe.start()
            process.wait(timeout=max(0.1, self._end - time.monotonic()))
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            return 124, "", ""
        else:
            output, complaint = (pipe.close().text for pipe in outputs)
            return process.returncode, output, complaint
        finally:
            for pipe in outputs:
                pipe.drop()


def look(settings: Mapping[str, Any], shell: Shell, root: str = "/") -> Looked:
    """The node as it is now, and then its records: these may lie on a server that is away.

    Args:
        root: the folder of the node's sys and proc.
    """
    verdicts = [_of_program(path, settings, shell) for path in settings["programs"]]
    if settings["events"]:
        verdicts.append(_of_events(settings))
    case = own_state(settings, shell, root)
    verdicts += _judged([case], settings)
    if worst({verdict.verdict for verdict in verdicts}) == "fail" or not settings["records"]:
        return Looked(verdicts, [])
    cases, notes = _recorded(settings)
    return Looked([*verdicts, *_judged(cases, settings)], notes)


def _judged(cases: Sequence[Case], settings: Mapping[str, Any]) -> list[Verdict]:
    expectations = of_document(settings["expectations"], SETTINGS)
    size, row = settings["vm_size"], settings["size_row"]
    if row:
        expectations = with_parts(expectations, {size: row}, {size: row["source"]})
    verdicts = judge(cases, expectations)
    meanings = faults.of_document(settings["faults"], SETTINGS)
    verdicts += [
        faults.warning(case, figure, meanings)
        for case in cases
        for figure in case.figures
        if faults.is_warned(figure.name)
    ]
    return held_to(verdicts, cases, expectations, reason_of=None)


def _of_program(path: str, settings: Mapping[str, Any], shell: Shell) -> Verdict:
    """The verdict of a program that runs before a job; its last line is the reason of a failure."""
    response = tools.ask(shell, [path])
    name = os.path.basename(path)
    lines = (
        response.output.strip() or response.complaint.strip() or response.note or ""
    ).splitlines()
    return Verdict(
        (settings["record_name"],),
        settings["vm_size"],
        "prolog",
        name,
        "pass" if response.ok else "fail",
        "what jobs rely on",
        reason=None if response.ok else f"{name}: {lines[-1]}",
    )


def _of_events(settings: Mapping[str, Any]) -> Verdict:
    """The verdict on Azure's plans: an event that ends or moves jobs fails the node until it is
    over, so that no job begins that it would end."""
    try:
        metadata_url, events_url = settings["events"]
        coming, names = events.planned(metadata_url, events_url, _EVENTS_SECONDS)
        interruption, pause = (of(coming, names) for of in (events.interrupting, events.pausing))
        unreadable = ""
    except TrueupError as error:
        interruption = pause = ""
        unreadable = f"scheduled events cannot be read: {error}"
    return Verdict(
        (settings["record_name"],),
        settings["vm_size"],
        "azure",
        "scheduled events",
        "fail" if interruption else "warn" if pause else "not measured" if unreadable else "pass",
        "no interruption planned",
        reason=interruption or pause or unreadable or None,
    )


def own_state(settings: Mapping[str, Any], shell: Shell, root: str = "/") -> Case:
    """The record that the module node_state would make, as a case."""
    sysfs, procfs = os.path.join(root, "sys"), os.path.join(root, "proc")
    on_bus = identify.read_gpus(sysfs)
    gpu: dict[str, Any] | None = None
    if on_bus or settings["gpu"].get("gpus"):
        gpu = faults.judged(
            gpu_look.look(shell, settings["gpu"], sysfs_root=sysfs, procfs_root=procfs),
            faults.of_document(settings["faults"], SETTINGS),
        )
    count = len(on_bus) if gpu is None or gpu["gpus"] is None else int(gpu["gpus"])
    rdma = _rdma(settings, shell, sysfs)
    topology = read_topology(sysfs)
    node = {
        # All CPUs of the node: slurmd and its children may be bound to a few.
        "cpus": len(topology.cpus),
        "cores": len(topology.cores),
        "memory_bytes": identify.read_memory_bytes(procfs),
        "gpus": [None] * count,
        "nvme": identify.read_nvme(sysfs),
    }
    wrong = state.problems(gpu, rdma)
    # It only warns, which drains no node: an unreadable log needs no note of its own.
    watched = watched_log.look(shell, settings["faults"]["watched"], procfs).counts
    return Case(
        nodes=(settings["record_name"],),
        vm_size=settings["vm_size"],
        node_count=1,
        benchmark="node_state",
        case="state",
        outcome="invalid" if wrong else "ok",
        reason=" ".join(wrong) or None,
        parameters={},
        software={},
        figures=[
            Figure(metric.name, metric.value, metric.unit, metric.direction, device=metric.device)
            for metric in state.metrics(node, gpu, rdma, watched, boot_units.look(shell))
        ],
        started_at=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    )


def _rdma(settings: Mapping[str, Any], shell: Shell, sysfs: str) -> dict[str, Any] | None:
    devices = infiniband.read_devices(sysfs)
    if not devices and not settings["rdma"].get("nics"):
        return None
    for row in devices:
        row["carrier_losses"] = link_flaps.carrier_losses(row["interfaces"], sysfs)
    hours = settings["flap_hours"]
    flaps = link_flaps.asked(shell, devices, hours)
    return {
        "devices": devices,
        "flaps": flaps,
        "problems": [
            *infiniband.problems(devices, infiniband.Expected(settings["rdma"])),
            *link_flaps.problems(flaps or [], hours),
        ],
    }


def _recorded(settings: Mapping[str, Any]) -> tuple[list[Case], list[str]]:
    """The newest record of each kind on this node alone; records of its state are left out, since
    its present state is newer. An unreadable record is a note: no node is worse by it."""
    name, folder = settings["record_name"], settings["records"]
    oldest = time.time() - settings["record_hours"] * 3600
    order = list(run_counts(folder))
    cases: list[Case] = []
    notes = [] if order else [f"{folder} holds no run"]
    for run_id in order:
        for path, record, reason in read_records(os.path.join(folder, run_id), name):
            try:
                case = None if record is None else of_record(record)
                if case is None:
                    notes.append(f"{path}: {reason}")
                elif _counts(case, name, oldest):
                    cases.append(case)
            except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
                notes.append(f"{path} is no record: {error}")
    return latest(cases, order), notes


def _counts(case: Case, name: str, oldest: float) -> bool:
    begun = timegm(time.strptime(str(case.started_at), "%Y-%m-%dT%H:%M:%SZ"))
    return case.nodes == (name,) and case.benchmark != "node_state" and begun >= oldest


def verdict_of(looked: Looked, settings: Mapping[str, Any]) -> dict[str, Any]:
    """As ``node_verdicts.node_verdict``; with ``drains`` an unmeasured figure is a failure."""
    rows = [{**vars(verdict), "node": ""} for verdict in looked.verdicts]
    words = ("fail", "not measured", "warn")
    findings = [sentence(row) for verdict in words for row in rows if row["verdict"] == verdict]
    overall = worst({verdict.verdict for verdict in looked.verdicts})
    if overall == "not measured" and settings["drains"]:
        overall = "fail"
    return {"verdict": overall, "findings": findings, "unmeasured": []}


def due(output: str, verdict: Mapping[str, Any], settings: Mapping[str, Any]) -> list[str]:
    """The arguments of scontrol; empty if there is nothing to update.

    Args:
        output: of `scontrol show node`.
        verdict: as ``verdict_of`` gives it.
    """
    hooks = [*map(os.path.basename, settings["programs"]), settings["epilog_name"]]
    prefixes = [_OWN, *map(_HOOK.format, hooks)]
    update = slurm_update(output, verdict, settings["node"], prefixes)
    if update[-1:] == ["state=resume"] and slurm_states(output) - _WELL_STATES:
        return []
    return update


def _tell(verdict: Mapping[str, Any], settings: Mapping[str, Any], *, after_job: bool) -> str:
    """Say it to Slurm; why that failed, empty where it did not."""
    shell = Shell(_TELL_SECONDS)
    response = tools.ask(shell, ["scontrol", "show", "node", settings["node"]])
    if not response.ok:
        return f"Slurm does not say how {settings['node']} is: {response.note}"
    update = due(response.output, verdict, settings)
    # A job's end is no time to give a node back: the next check does.
    if not update or (after_job and update[-1] == "state=resume"):
        return ""
    print(f"trueup: scontrol {' '.join(update)}")
    response = tools.ask(shell, ["scontrol", *update])
    return "" if response.ok else f"{settings['node']} could not be updated: {response.note}"


def _late(_signal: int, _frame: object) -> None:
    raise OutOfTimeError("what was asked did not answer in time")


@contextlib.contextmanager
def _alone(path: str) -> Iterator[bool]:
    """Whether no other check of this node runs, which tells Slurm then."""
    with Path(path).open("w", encoding="ascii") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True


def main(argv: Sequence[str], settings_path: str = SETTINGS, lock_path: str = _LOCK) -> int:
    """``--epilog`` after a job; ``--look`` prints the findings and tells Slurm nothing.

    Returns:
        1 for a node that fails and of which Slurm could not be told, or with ``--look`` for one
        that fails; 2 where the settings cannot be read. A hook that ends with 1 drains the
        node, so after a job settings that cannot be read are 0.
    """
    os.environ.setdefault("PATH", _PATH)
    after_job, only_look = "--epilog" in argv, "--look" in argv
    try:
        settings = json.loads(Path(settings_path).read_text(encoding="utf-8"))
        seconds = int(settings["epilog_seconds" if after_job else "seconds"])
        if after_job:
            # A hook has less time, and the next check asks for them.
            settings = {**settings, "events": []}
    except (OSError, ValueError, TypeError, KeyError) as error:
        print(f"trueup: {settings_path} cannot be read: {error}: run role slurm again")
        return 0 if after_job else 2
    if only_look:
        return int(_found(settings, seconds)["verdict"] == "fail")
    with _alone(lock_path) as alone:
        if not alone:
            print("trueup: another check of this node runs")
            return 0
        verdict = _found(settings, seconds)
        wrong = _tell(verdict, settings, after_job=after_job)
        if wrong:
            print(f"trueup: {wrong}")
        return int(bool(wrong) and verdict["verdict"] == "fail")


def _found(settings: Mapping[str, Any], seconds: int) -> dict[str, Any]:
    """The verdict, which is printed."""
    limit = max(1, seconds - int(_TELL_SECONDS))
    signal.signal(signal.SIGALRM, _late)
    # Commands end before that: it is for files that do not answer.
    signal.alarm(limit + 1)
    try:
        looked = look(settings, Shell(limit))
    except TrueupError as error:
        name, size = settings["record_name"], settings["vm_size"]
        unknown = Verdict((name,), size, "run", "", "not measured", "health", reason=str(error))
        looked = Looked([unknown], [])
    finally:
        signal.alarm(0)
    verdict = verdict_of(looked, settings)
    for line in (verdict["verdict"], *verdict["findings"], *looked.notes):
        print(f"trueup: {line}")
    return verdict
