"""A command as a Slurm job, against stand-ins of Slurm's commands that play what it may say."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from helpers import parametrized
from hypothesis import given, settings
from hypothesis import strategies as st
from trueup_node.errors import ParseError
from trueup_node.run import process
from trueup_node.run import slurm_job as slurm
from trueup_node.run.slurm_job import State, parse_nodes, parse_state

# Each command of these 113 tests is two forks.
pytestmark = pytest.mark.slow

DATA = Path(__file__).parent.parent / "data" / "slurm"
UNREACHED = "slurm_load_jobs error: Unable to contact slurm controller (connect failure)"
SILENT = f"echo '{UNREACHED}' >&2; exit 1"


# Stand-ins: each answers what a test has laid down and fails where nothing was.
SBATCH = """#!/bin/sh
cd {folder}
printf '%s\\n' "$@" > submitted
env > environment
. ./on_submit
"""
SCONTROL = """#!/bin/sh
cd {folder}
[ "$*" = "--oneliner show job 7" ] || exit 64
env > scontrol_environment
if [ -e cancelled ]; then . ./look.cancelled; exit; fi
n=$(($(cat looks) + 1)); echo $n > looks
while ! [ -e look.$n ]; do n=$((n - 1)); done
. ./look.$n
"""
SINFO = """#!/bin/sh
cd {folder}
echo "$*" >> asked_nodes
. ./nodes
"""
SCANCEL = """#!/bin/sh
cd {folder}
echo "$*" >> ended
. ./on_cancel
touch cancelled
"""


def recorded(name: str, **words: str) -> str:
    """A recorded answer; words given are put in place of its own, or after its BatchHost."""
    text = (DATA / f"job_{name}.txt").read_text()
    for key, value in words.items():
        text = re.sub(rf"(?<= ){key}=\S*", f"{key}={value}", text)
    return text


class Cluster:
    """A Slurm of stand-ins, whose only job is 7."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.jobs = folder / "jobs"
        self.jobs.mkdir()
        scripts = {"sbatch": SBATCH, "scontrol": SCONTROL, "sinfo": SINFO, "scancel": SCANCEL}
        for name, script in scripts.items():
            program = folder / name
            program.write_text(script.format(folder=folder))
            program.chmod(0o755)
        self.write("looks", "0\n")
        self.on_submit(out="done\n", err="")
        self.nodes(a1="allocated", a2="allocated")
        self.write("on_cancel", "")
        self.write("look.cancelled", self.says(recorded("cancelled_running")))
        self.plays(recorded("running"), recorded("completed"))

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)

    def says(self, text: str) -> str:
        return f"cat <<'END'\n{text}\nEND\n"

    def on_submit(self, out: str | None, err: str | None = "", then: str = "echo 7") -> None:
        """The job's outputs are there from the start, those that are not None."""
        lines = []
        for text, name in ((out, "trueup-7.out"), (err, "trueup-7.err")):
            if text is not None:
                lines.append(f"printf '%s' '{text}' > {self.jobs}/{name}")
        self.write("on_submit", "\n".join([*lines, then]) + "\n")

    def plays(self, *answers: str) -> None:
        """What scontrol answers, look by look; the last one from then on. A recorded text, or shell
        lines."""
        for old in self.folder.glob("look.[0-9]*"):
            old.unlink()
        for number, answer in enumerate(answers, 1):
            script = self.says(answer) if answer.startswith("JobId=") else answer
            self.write(f"look.{number}", script)

    def nodes(self, **states: str) -> None:
        text = "".join(f"{name}|{state}\n" for name, state in states.items())
        self.write("nodes", self.says(text))

    def has(self, name: str) -> bool:
        return (self.folder / name).exists()

    @property
    def cancelled(self) -> list[str]:
        path = self.folder / "ended"
        return path.read_text().splitlines() if path.exists() else []

    def run(self, **changes: Any) -> process.Completed:
        options: dict[str, Any] = {
            "timeout_seconds": 300,
            "queue_seconds": 300,
            "environment": {},
            "directory": str(self.jobs),
            "commands": str(self.folder),
            "names": {"a1": "node-1", "a2": "node-2"},
        }
        argv = [f"{self.folder}/sbatch", "--parsable", "--wrap=true"]
        return slurm.run(argv, **{**options, **changes})

    def lost(self, *hosts: str) -> list[str]:
        names = {"a1": "node-1", "a2": "node-2"}
        return slurm.lost(hosts or ("a1", "a2"), commands=str(self.folder), names=names)


@pytest.fixture(name="cluster")
def _cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    for name, seconds in (
        *(("_POLL_SECONDS", 0.01), ("_OUTPUT_SECONDS", 0.2), ("_LOST_SECONDS", 0.2)),
        *(("_SILENT_SECONDS", 0.5), ("_END_SECONDS", 0.3), ("_COMMAND_SECONDS", 60.0)),
    ):
        monkeypatch.setattr(slurm, name, seconds)
    monkeypatch.setattr(process, "_POLL_SECONDS", 0.002)
    return Cluster(tmp_path)


def test_a_job_that_completes_gives_its_outputs(cluster: Cluster) -> None:
    cluster.on_submit(out="figures\n", err="warning\n")
    done = cluster.run(environment={"OMP_NUM_THREADS": "2"})
    assert (done.stdout, done.stderr, done.returncode) == ("figures\n", "warning\n", 0)
    assert (done.reason, done.timed_out, done.failure(30)) == (None, False, None)
    # RunTime of the recorded job.
    assert done.seconds == 8.0
    assert done.argv[1:] == ("--parsable", "--wrap=true")
    assert cluster.cancelled == []
    assert "OMP_NUM_THREADS=2" in (cluster.folder / "environment").read_text().splitlines()


def test_a_job_that_never_gets_its_nodes_is_cancelled(cluster: Cluster) -> None:
    cluster.plays(recorded("pending"))
    cluster.write("look.cancelled", cluster.says(recorded("cancelled_waiting")))
    done = cluster.run(queue_seconds=0.1)
    assert done.failure(30) == (
        "Slurm job 7: it was still PENDING after 0.1 s (Slurm's reason: PartitionConfig),"
        " and never ran"
    )
    assert (done.returncode, done.timed_out, done.seconds, done.stdout) == (1, False, 0.0, "")
    assert cluster.cancelled == ["7"]


def test_one_that_got_its_nodes_while_being_cancelled_is_not_said_never_to_have_run(
    cluster: Cluster,
) -> None:
    cluster.plays(recorded("pending"))
    done = cluster.run(queue_seconds=0.1)
    assert done.reason == (
        "Slurm job 7: it was still PENDING after 0.1 s (Slurm's reason: PartitionConfig)"
    )


class Notice:
    """Stands in for events.Watch."""

    seen = ""

    def close(self) -> list[str]:
        return ["two answers lacked"]


def test_an_eviction_cancels_the_job(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    notice = Notice()
    monkeypatch.setattr(process, "notices", lambda: process._at_risk and notice)
    evicted = "Azure evicts node a2 (Preempt, at once)"
    with process.evictable(["a2"]):
        assert cluster.run().warnings == ("two answers lacked",)
        # A job that ended well stays so; what came explains one that did not.
        notice.seen = evicted
        assert cluster.run().reason is None
        cluster.plays(recorded("running"), recorded("exit_3"))
        cluster.write("looks", "1\n")
        assert cluster.run().reason == f"Slurm job 7: {evicted}"
        assert cluster.cancelled == []
        cluster.plays(recorded("running"))
        assert cluster.run().reason == f"Slurm job 7: {evicted}"
        assert cluster.cancelled == ["7"]


@parametrized(("name", "words", "returncode", "how"))
def test_how_it_ended_is_said(
    cluster: Cluster, name: str, words: dict[str, str], returncode: int, how: str
) -> None:
    # As the end of a run that was seen running, and as that of one that was too short for it.
    for answers in ((recorded("running"),), ()):
        cluster.write("looks", "0\n")
        cluster.plays(*answers, recorded(name, **words))
        done = cluster.run()
        assert (done.returncode, done.reason) == (returncode, f"Slurm job 7: {how}")
        assert done.failure(30) == done.reason
        assert done.out_of_memory == (words.get("JobState") == "OUT_OF_MEMORY")
        ran = "BatchHost" in recorded(name) or answers == (recorded("running"),)
        assert done.stdout == ("done\n" if ran else "")
    assert cluster.cancelled == []


def test_a_failed_node_is_named_as_records_name_it(cluster: Cluster) -> None:
    failed = recorded("exit_3", JobState="NODE_FAIL", ExitCode="0:0", Reason="NodeDown")
    cluster.plays(recorded("running"), failed)
    cluster.nodes(a1="idle", a2="down*")
    done = cluster.run()
    assert (
        done.reason == "Slurm job 7: it ended NODE_FAIL (NodeDown); node node-2 is down* in Slurm"
    )
    assert done.returncode == 1


@pytest.mark.parametrize("state", ["allocated*", "down", "down*", "mixed*", "powered_down"])
def test_a_node_lost_while_it_runs_ends_it(cluster: Cluster, state: str) -> None:
    cluster.plays(recorded("running"))
    cluster.nodes(a1="allocated", a2=state)
    done = cluster.run()
    assert done.reason == f"Slurm job 7: node node-2 is {state} in Slurm"
    assert (done.returncode, done.timed_out, done.stdout) == (-15, False, "done\n")
    assert cluster.cancelled == ["7"]


def test_a_controller_that_is_silent_for_a_while_ends_nothing(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Longer than a node may be silent.
    monkeypatch.setattr(slurm, "_SILENT_SECONDS", 300)
    running = recorded("running")
    cluster.plays(running, *[SILENT] * 6, "echo nonsense", running, recorded("completed"))
    cluster.write("nodes", SILENT)
    done = cluster.run()
    assert (done.returncode, done.reason, done.stdout) == (0, None, "done\n")
    assert cluster.cancelled == []


def test_a_controller_that_stays_silent_ends_the_wait(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Time for a second scancel on a busy machine.
    monkeypatch.setattr(slurm, "_END_SECONDS", 3.0)
    cluster.plays(recorded("running"), SILENT)
    cluster.write("nodes", SILENT)
    cluster.write("on_cancel", "echo 'scancel: error: Unable to contact' >&2; exit 1\n")
    done = cluster.run()
    # Nobody said that it is cancelled, so that is not claimed.
    assert done.reason == (
        f"Slurm job 7: Slurm said nothing of it for 0 s ({UNREACHED}); it could not be cancelled"
        " and may still run (scancel: error: Unable to contact)"
    )
    assert done.returncode == 1
    assert len(cluster.cancelled) > 1


def test_a_job_that_slurm_has_forgotten_is_not_waited_for(cluster: Cluster) -> None:
    # MinJobAge seconds after its end slurmctld drops a job: a recorded answer.
    gone = "slurm_load_jobs error: Invalid job id specified"
    cluster.plays(recorded("running"), f"echo '{gone}' >&2; exit 1")
    done = cluster.run()
    assert done.reason == f"Slurm job 7: Slurm does not know it any more ({gone})"
    assert (done.returncode, done.stdout) == (1, "done\n")
    assert cluster.cancelled == []


def test_a_job_that_stays_after_scancel_is_said_to_stay(cluster: Cluster) -> None:
    cluster.plays(recorded("running"))
    cluster.write("look.cancelled", cluster.says(recorded("completing")))
    done = cluster.run(timeout_seconds=0.1)
    assert done.reason == (
        "Slurm job 7: it was ended at its time limit of 0.1 s; it could not be cancelled and may"
        " still run (it was still COMPLETING 0 s after)"
    )
    assert cluster.cancelled == ["7"]


@parametrized(("script", "reason"))
def test_a_job_that_is_not_taken(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, script: str, reason: str
) -> None:
    monkeypatch.setattr(slurm, "_COMMAND_SECONDS", 0.3 if "sleep" in script else 60.0)
    cluster.on_submit(None, None, then=script)
    done = cluster.run()
    assert done.returncode != 0
    assert str(done.failure(30)).startswith(f"Slurm did not take the job: {reason}")
    assert not done.timed_out
    assert (cluster.folder / "looks").read_text() == "0\n"
    assert cluster.cancelled == []


def test_a_missing_sbatch_is_an_oserror(cluster: Cluster) -> None:
    (cluster.folder / "sbatch").unlink()
    with pytest.raises(FileNotFoundError):
        cluster.run()


def test_the_time_limit_cancels_it(cluster: Cluster) -> None:
    cluster.plays(recorded("running"))
    done = cluster.run(timeout_seconds=0.1)
    assert done.timed_out
    assert done.reason == "Slurm job 7: it was ended at its time limit of 0.1 s"
    assert (done.returncode, done.stdout) == (-15, "done\n")
    assert cluster.cancelled == ["7"]


def test_output_that_does_not_show_here_is_no_success(cluster: Cluster) -> None:
    cluster.on_submit(None, None)
    done = cluster.run()
    assert done.reason == (
        f"Slurm job 7: its output is not to be seen in {cluster.jobs} here: is the folder shared?"
    )
    assert (done.returncode, done.stdout) == (1, "")


def test_a_running_job_whose_output_does_not_show_here_is_cancelled(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slurm, "_UNSEEN_SECONDS", 0.05)
    cluster.on_submit(None, None)
    cluster.plays(recorded("running"))
    done = cluster.run()
    assert done.reason == (
        f"Slurm job 7: its output is not to be seen in {cluster.jobs} here: is the folder shared?"
    )
    assert cluster.cancelled == ["7"]


@pytest.mark.parametrize(("out", "err"), [("", None), (None, "")])
def test_a_running_job_that_has_printed_nothing_yet_goes_on(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, out: str | None, err: str | None
) -> None:
    monkeypatch.setattr(slurm, "_UNSEEN_SECONDS", 0.0)
    cluster.on_submit(out, err)
    cluster.plays(*[recorded("running")] * 4, recorded("completed"))
    cluster.run()
    assert cluster.cancelled == []


def test_another_clusters_output_of_the_same_number_is_not_taken_for_its(cluster: Cluster) -> None:
    (cluster.jobs / "trueup-7.out").write_text("of another cluster's job 7\n")
    cluster.on_submit(None, None)
    done = cluster.run()
    assert done.stdout == ""
    assert "is not to be seen" in str(done.reason)
    # One that was written anew is.
    cluster.on_submit("new\n")
    assert cluster.run().stdout == "new\n"


def test_variables_of_a_job_around_us_are_not_passed_on(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {
        "SLURM_JOB_ID": "12",
        "SLURM_NTASKS": "4",
        "SLURM_CLUSTERS": "other",
        "SBATCH_PARTITION": "mine",
        "SCANCEL_INTERACTIVE": "1",
        "SINFO_FORMAT": "%n",
        "SLURM_CONF": "/etc/other/slurm.conf",
        "SLURM_JWT": "token",
    }
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    assert cluster.run().reason is None
    for told in ("environment", "scontrol_environment"):
        lines = (cluster.folder / told).read_text().splitlines()
        found = {line for line in lines if re.match("SLURM|SBATCH|SCANCEL|SINFO", line)}
        assert found == {"SLURM_CONF=/etc/other/slurm.conf", "SLURM_JWT=token"}
    # Ours are as they were.
    assert {name: os.environ[name] for name in given} == given


# What runs the tests may have had signals ignored, as a shell does for what it puts behind.
CHILD = """
import os, signal, sys
from trueup_node.run import process
from trueup_node.run import slurm_job as slurm
for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
    signal.signal(number, signal.SIG_DFL)
slurm._POLL_SECONDS, slurm._END_SECONDS = 0.05, 60
try:
    slurm.run(["{folder}/sbatch"], timeout_seconds=600, queue_seconds=600, environment={{}},
              directory="{folder}/jobs", commands="{folder}", names={{}})
except process.Orphaned as error:
    # Whole as soon as it has its name.
    open("{folder}/told.new", "w").write(str(error))
    os.rename("{folder}/told.new", "{folder}/told")
"""


def child(cluster: Cluster, script: str = CHILD) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", script.format(folder=cluster.folder)],
        env=dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path)),
    )


def wait_for(cluster: Cluster, *names: str) -> list[str]:
    """Those of these files that are there within a time."""
    deadline = time.monotonic() + 120
    while not all(cluster.has(name) for name in names) and time.monotonic() < deadline:
        time.sleep(0.02)
    return [name for name in names if cluster.has(name)]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_cancels_the_job(cluster: Cluster, number: signal.Signals) -> None:
    cluster.plays(recorded("running"))
    # A second one comes while it is being cancelled.
    cluster.write("on_cancel", "until [ -e second ]; do sleep 0.02; done\n")
    module = child(cluster)
    assert wait_for(cluster, "scontrol_environment") == ["scontrol_environment"]
    module.send_signal(number)
    assert wait_for(cluster, "ended") == ["ended"]
    module.send_signal(number)
    cluster.write("second", "")
    assert module.wait(timeout=120) == 0
    told = (cluster.folder / "told").read_text()
    assert told == f"interrupted by {number.name}; Slurm job 7 was cancelled"
    assert cluster.cancelled == ["7"]


def test_a_signal_while_it_is_submitted_cancels_it_too(cluster: Cluster) -> None:
    cluster.plays(recorded("running"))
    cluster.on_submit(None, None, then="sleep 0.5; echo 7")
    module = child(cluster)
    assert wait_for(cluster, "environment") == ["environment"]
    module.send_signal(signal.SIGTERM)
    assert module.wait(timeout=120) == 0
    told = (cluster.folder / "told").read_text()
    assert told == "interrupted by SIGTERM; Slurm job 7 was cancelled"
    assert cluster.cancelled == ["7"]


def test_a_job_that_is_not_cancelled_by_a_signal_is_said_to_stay(cluster: Cluster) -> None:
    cluster.plays(recorded("running"))
    cluster.write("on_cancel", "echo 'scancel: error: no' >&2; exit 1\n")
    module = child(cluster, CHILD.replace("_END_SECONDS = 0.05, 60", "_END_SECONDS = 0.05, 0.2"))
    assert wait_for(cluster, "scontrol_environment") == ["scontrol_environment"]
    module.send_signal(signal.SIGTERM)
    assert module.wait(timeout=120) == 0
    assert (cluster.folder / "told").read_text() == (
        "interrupted by SIGTERM; Slurm job 7 could not be cancelled and may still run"
        " (scancel: error: no)"
    )


ASKER = """
import os, subprocess, sys, time
os.setsid()
subprocess.Popen([sys.executable, "-c", '''{child}'''])
time.sleep(600)
"""


def test_a_job_that_nobody_waits_for_any_more_is_cancelled(cluster: Cluster) -> None:
    cluster.plays(recorded("running"))
    asker = child(cluster, ASKER.format(child=CHILD))
    assert wait_for(cluster, "scontrol_environment") == ["scontrol_environment"]
    asker.kill()
    asker.wait()
    assert wait_for(cluster, "told") == ["told"]
    told = (cluster.folder / "told").read_text()
    assert told == "the process that asked for this run is gone; Slurm job 7 was cancelled"
    assert cluster.cancelled == ["7"]


NODE_STATES = [
    ("idle", True),
    ("idle~", True),
    ("idle#", True),
    ("mixed", True),
    ("allocated", True),
    ("completing", True),
    ("planned", True),
    ("reserved", True),
    ("idle*", False),
    ("down", False),
    ("down*", False),
    ("down~", False),
    ("drained", False),
    ("drained*", False),
    ("draining", False),
    ("unknown", False),
    ("inval", False),
    ("maint", False),
    ("reboot^", False),
]


def test_what_slurm_is_asked_of_nodes(cluster: Cluster) -> None:
    # Of a node that it does not know, sinfo says nothing and ends with status 0 (Slurm 22.05).
    cluster.nodes(a1="idle")
    assert cluster.lost("a1", "a2") == ["node node-2 is not known to Slurm"]
    told = (cluster.folder / "asked_nodes").read_text()
    assert told == "--Node --noheader --format=%N|%T --nodes=a1,a2\n"
    assert slurm.lost([], commands=str(cluster.folder), names={}) == []


def test_a_slurm_that_does_not_answer_is_said_to(cluster: Cluster) -> None:
    cluster.write("nodes", SILENT)
    assert cluster.lost() == [f"Slurm does not say how its nodes are: {UNREACHED}"]
    cluster.write("nodes", "exit 3")
    [said] = cluster.lost()
    assert re.fullmatch(
        r"Slurm does not say how its nodes are: sinfo ended with exit status 3 after \d\.\d s", said
    )


@pytest.mark.parametrize("name", ["sbatch", "scontrol", "scancel", "sinfo"])
def test_a_slurm_without_one_of_its_commands(
    cluster: Cluster, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (cluster.folder / name).unlink()
    path = cluster.folder / name
    assert cluster.lost() == [f"launcher slurm needs {path}, which is not there"]
    monkeypatch.setenv("PATH", str(cluster.folder))
    said = slurm.lost(["a1"], commands="", names={})
    assert said == [f"launcher slurm needs {name}, which is not on PATH"]


RECORDED = {
    "pending": State("PENDING", "PartitionConfig", 0, 0, None, 0.0),
    "cancelled_waiting": State("CANCELLED", "PartitionConfig", 0, 0, None, 0.0),
    "running": State("RUNNING", None, 0, 0, "trueup-dev-1", 1.0),
    "completed": State("COMPLETED", None, 0, 0, "trueup-dev-1", 8.0),
    "completing": State("COMPLETING", None, 0, 0, "trueup-dev-2", 1.0),
    "cancelled_running": State("CANCELLED", None, 0, 15, "trueup-dev-1", 2.0),
    "exit_3": State("FAILED", "NonZeroExitCode", 3, 0, "trueup-dev-1", 0.0),
    "sigkill": State("FAILED", "JobLaunchFailure", 0, 9, "trueup-dev-1", 0.0),
    # The job's name and comment hold JobState=FAILED, Reason=odd and ExitCode=9:9.
    "sigsegv": State("FAILED", "NonZeroExitCode", 139, 0, "trueup-dev-1", 0.0),
    "timeout": State("TIMEOUT", "TimeLimit", 0, 15, "trueup-dev-1", 85.0),
}


@pytest.mark.parametrize("name", sorted(RECORDED))
def test_recorded_answers(name: str) -> None:
    state = parse_state(recorded(name))
    assert state == RECORDED[name]
    assert (state.waits, state.goes, state.ended) == (
        name == "pending",
        name in ("running", "completing"),
        name not in ("pending", "running", "completing"),
    )


def test_every_recorded_answer_is_read() -> None:
    assert {path.stem for path in DATA.glob("job_*")} == {f"job_{name}" for name in RECORDED}


@parametrized("text")
def test_damaged_answers_are_refused(text: str) -> None:
    with pytest.raises(ParseError, match="has no JobState and ExitCode"):
        parse_state(text)


@settings(max_examples=200, deadline=None)
@given(name=st.sampled_from(sorted(RECORDED)), cut=st.integers(0, 1200), junk=st.text(max_size=20))
def test_a_cut_off_answer_says_the_same_or_nothing(name: str, cut: int, junk: str) -> None:
    whole = RECORDED[name]
    try:
        state = parse_state(recorded(name)[:cut] + junk)
    except ParseError:
        return
    assert (state.name, state.reason) == (whole.name, whole.reason)


@given(st.text())
def test_anything_else_is_refused_or_nothing(text: str) -> None:
    assert all("|" not in name for name in parse_nodes(text))
    with pytest.raises(ParseError):
        parse_state(text)


def test_recorded_nodes() -> None:
    text = (DATA / "nodes.txt").read_text()
    assert parse_nodes(text) == {"trueup-dev-1": "mixed", "trueup-dev-2": "allocated"}


@given(
    st.dictionaries(
        st.from_regex(r"[a-z][a-z0-9.-]{0,20}", fullmatch=True),
        st.sampled_from([state for state, _ in NODE_STATES]),
    )
)
def test_nodes_come_back_as_they_were_written(states: dict[str, str]) -> None:
    # A node of several partitions stands in several lines.
    text = "".join(f"{name}|{state}\n" * 2 for name, state in states.items())
    assert parse_nodes(text) == states


def test_a_job_that_prints_without_end_is_cancelled(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    for room in (slurm, slurm.output_buffer, process):
        monkeypatch.setattr(room, "MOST_BYTES", 5000)
    monkeypatch.setattr(slurm.output_buffer, "SHOWN", 100)
    cluster.on_submit(out="y\n" * 3000)
    done = cluster.run()
    failure = done.failure(300) or ""
    path = cluster.jobs / "trueup-7.out"
    assert failure.startswith(f"Slurm job 7: it printed more than 0 MiB into {path}")
    assert failure.endswith(
        "the job printed 6000 bytes on its standard output: more than 0 MiB are not read"
    )
    assert (len(cluster.cancelled), len(done.stdout) < 400) == (1, True)
