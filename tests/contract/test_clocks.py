"""How long something took is asked of a clock that nobody sets."""

from __future__ import annotations

import ast

from helpers import ROOT

FOLDERS = ("module_utils", "controller", "library", "plugins", "roles", "analysis")
# Who asks what time it is by a number, and for what: an age, an end, never how long something took.
WALL = {
    "analysis/trueup_analysis/commands/importing.py": "when a log from a pipe was read",
    "library/service_current.py": "a unit's start among times of files",
    "library/package_transaction.py": "how old the package lists are",
    "library/ssh_keys.py": "the day on which sshd no longer takes a key",
    "module_utils/trueup_node/node/evidence.py": "the time of the files in an archive",
    "module_utils/trueup_node/vm/expiry.py": "the end of a run, until Azure's clock is known",
    "controller/trueup_controller/azure/leftovers.py": "how old a machine is",
    "module_utils/trueup_node/vm/slurm_health.py": "how old a record is",
}


def test_the_wall_clock_measures_no_duration() -> None:
    found = set()
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            calls = (node.func for node in ast.walk(tree) if isinstance(node, ast.Call))
            names = {ast.unparse(call) for call in calls}
            if names & {"time.time", "time", "time.time_ns"}:
                found.add(str(path.relative_to(ROOT)))
    assert found == set(WALL)
