"""`make azure` makes, measures, reports and removes, after a failure or Ctrl-C too. Its playbooks
are stand-ins that say that they ran."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from helpers import ROOT, TOGETHER, parametrized, stand_ins

RUN = "20261123T140000Z-beef"
# In $RED: a playbook that fails, "refused" (nothing is made), or "waits" (site.yml, for Ctrl-C).
PLAYBOOK = """\
#!/bin/sh
name=$(basename "$1" .yml)
echo "$@" >> calls
state=$TRUEUP_AZURE_STATE/$RUN
case "$name $RED" in
    "provision refused") exit 2 ;;
    provision*) mkdir -p "$state"; echo {} > "$state/run.json" ;;
    "site waits") echo waiting; exec sleep 60 ;;
    site*) echo 20261123T140001Z-cafe > "$TRUEUP_RUN_FILE" ;;
    "teardown teardown") ;;
    teardown*) rm -r "$state" ;;
esac
[ "$RED" != "$name" ] || exit 3
"""
MAKEFILE = f"""\
include {ROOT / "Makefile"}
azure-venv report:
	@echo $@ >> calls
controller-venv:
	@:
"""


def begun(folder: Path, *arguments: str, red: str = "") -> subprocess.Popen[str]:
    """`make azure` in a folder whose programs are stand-ins."""
    stand_ins(folder, PLAYBOOK, MAKEFILE)
    env = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT / "module_utils"),
        "TRUEUP_AZURE_STATE": str(folder / "state"),
        "RED": red,
        "RUN": RUN,
    }
    # What runs the tests may have it ignored, as a shell does for what it puts behind.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    process = subprocess.Popen(
        ["make", "azure", f"RUN={RUN}", *arguments],
        cwd=folder,
        env=env,
        **TOGETHER,
        start_new_session=True,
    )
    signal.signal(signal.SIGINT, before)
    return process


def ended(folder: Path, *arguments: str, red: str = "") -> tuple[int, list[str], str]:
    """Its exit status, the first word of each call, and what was printed."""
    process = begun(folder, *arguments, red=red)
    said, _ = process.communicate(timeout=120)
    return process.returncode, called(folder), said


def called(folder: Path) -> list[str]:
    lines = (folder / "calls").read_text().splitlines()
    return [Path(line.split()[0]).stem for line in lines]


ALL = ["azure-venv", "provision", "site", "report", "teardown"]


def test_a_run_is_made_measured_reported_and_removed(tmp_path: Path) -> None:
    (tmp_path / "mine.yml").write_text("owner: geophysics\n")
    given = ("RECIPE=devito-hbv3", "PARAMETERS=mine.yml", "MAX_USD_PER_HOUR=20")
    status, calls, said = ended(tmp_path, *given)
    assert (status, calls) == (0, ALL), said
    provision, site, teardown = (
        line.split(maxsplit=2)[1:]
        for line in (tmp_path / "calls").read_text().splitlines()
        if line.endswith((RUN, "}", "/inventory"))
    )
    assert (provision[0], json.loads(provision[1])) == (
        "-e",
        {
            "trueup_azure_run": RUN,
            "trueup_azure_recipe": "devito-hbv3",
            "trueup_azure_parameters": f"{tmp_path}/mine.yml",
            "trueup_azure_max_usd_per_hour": "20",
        },
    )
    assert site == ["-i", f"{tmp_path}/state/{RUN}/inventory"]
    assert teardown == ["-e", f"trueup_azure_run={RUN}"]


HOSTILE = ("$(shell touch canary)", "$$(touch canary)", "';touch canary;'", "`touch canary`")


@pytest.mark.parametrize("name", ["RECIPE", "PARAMETERS", "MAX_USD_PER_HOUR", "KEEP"])
@pytest.mark.parametrize("text", HOSTILE)
def test_no_value_is_a_command_of_make_or_the_shell(tmp_path: Path, name: str, text: str) -> None:
    given = {"RECIPE": "devito-hbv3", name: text}
    status, _, said = ended(tmp_path, *(f"{key}={value}" for key, value in given.items()))
    assert (status, (tmp_path / "canary").exists()) == (0, False), said
    asked = (tmp_path / "calls").read_text().splitlines()[1]
    wanted = f"{tmp_path}/{text}" if name == "PARAMETERS" else text
    assert (name == "KEEP", wanted in json.loads(asked.split(maxsplit=2)[2]).values()) in {
        (True, False),
        (False, True),
    }


@pytest.mark.parametrize("text", [*HOSTILE, "../20261123T140000Z-beef", f"{RUN}\n"])
def test_a_run_of_another_form_is_refused(tmp_path: Path, text: str) -> None:
    status, calls, said = ended(tmp_path, "RECIPE=devito-hbv3", f"RUN={text}")
    assert (status, calls, "is no run's id" in said) == (2, ["azure-venv"], True), said
    assert not (tmp_path / "canary").exists()


@parametrized(("red", "calls", "sentence"))
def test_what_was_made_is_removed_whatever_fails(
    tmp_path: Path, red: str, calls: list[str], sentence: str
) -> None:
    status, ran, said = ended(tmp_path, "RECIPE=devito-hbv3", red=red)
    assert (ran, sentence in said) == (calls, True), said
    assert status == 2


def test_machines_are_kept_where_that_is_said(tmp_path: Path) -> None:
    status, calls, said = ended(tmp_path, "RECIPE=devito-hbv3", "KEEP=yes")
    assert (status, calls) == (0, ALL[:-1])
    assert "Kept until it expires, and billing: ansible-playbook playbooks/teardown.yml" in said


def test_without_a_recipe_they_are_listed(tmp_path: Path) -> None:
    (tmp_path / "catalog").symlink_to(ROOT / "catalog")
    status, calls, said = ended(tmp_path)
    assert (status, calls) == (0, ["azure-venv"])
    assert "  devito-hbv3\n" in said


def test_ctrl_c_removes_what_was_made(tmp_path: Path) -> None:
    process = begun(tmp_path, "RECIPE=devito-hbv3", red="waits")
    calls = tmp_path / "calls"
    while not (calls.exists() and "site" in called(tmp_path)):
        assert process.poll() is None
        time.sleep(0.05)
    # As a terminal does: to all of its foreground processes.
    os.killpg(process.pid, signal.SIGINT)
    said, _ = process.communicate(timeout=120)
    assert process.returncode != 0
    assert called(tmp_path)[-1] == "teardown", said
    assert not (tmp_path / "state" / RUN).exists()
