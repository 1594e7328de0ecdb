"""Files of Open MPI: they are removed when a case ends, however it ends."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from test_process import until

MODULE = """
import signal, sys
from trueup_node.run import launcher, process
# The program that runs the tests may have had it ignored.
signal.signal(signal.SIGTERM, signal.SIG_DFL)
one = launcher.Launcher("local")
argv = one.command(["sh", "-c", sys.argv[1]], per_node=int(sys.argv[2]), variables={})
limit = float(sys.argv[3])
one.run(argv, timeout_seconds=limit, environment=one.variables(int(sys.argv[2])))
"""
# A program that writes as Open MPI does, and says where.
WRITES = """
base=${{OMPI_MCA_orte_tmpdir_base:?}}
[ "$base" = "$OMPI_MCA_btl_vader_backing_directory" ] || exit 4
mkdir "$base/ompi.node.0" && echo x > "$base/ompi.node.0/contact.txt"
echo "$base" > {said}.new; mv {said}.new {said}
"""


def module(script: str, ranks: int, limit: float) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", MODULE, script, str(ranks), str(limit)],
        env=dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path)),
        stderr=subprocess.DEVNULL,
    )


@pytest.mark.parametrize(
    ("then", "limit", "number"),
    [
        ("true", 300, None),
        ("exit 3", 300, None),
        ("sleep 600", 2, None),
        ("sleep 600", 300, signal.SIGTERM),
        ("sleep 600", 300, signal.SIGKILL),
    ],
    ids=["good", "failed", "time limit", "interrupted", "killed"],
)
def test_the_folder_of_a_case_ends_with_it(
    tmp_path: Path, then: str, limit: float, number: signal.Signals | None
) -> None:
    said = tmp_path / "said"
    running = module(WRITES.format(said=said) + then, 1, limit)
    until(said.exists)
    if number is not None:
        running.send_signal(number)
    running.wait()
    folder = Path(said.read_text().strip())
    until(lambda: not folder.exists())
    assert (folder.name[:12], folder.exists()) == ("trueup-case-", False)


@pytest.mark.skipif(shutil.which("mpirun") is None, reason="no mpirun on this machine")
def test_nothing_of_open_mpi_is_left_of_a_case_that_is_killed(tmp_path: Path) -> None:
    said = tmp_path / "said"
    rank = f'echo "$OMPI_MCA_orte_tmpdir_base" > {said}.$$; mv {said}.$$ {said}; sleep 600'
    running = module(rank, 2, 300)
    until(said.exists)
    folder = Path(said.read_text().strip())
    names = [path.name.partition(".")[0] for path in folder.iterdir()]
    running.kill()
    running.wait()
    until(lambda: not folder.exists())
    assert (set(names) <= {"ompi", "prte"}, len(names), folder.exists()) == (True, 1, False)
