"""`make test` runs everything, whatever fails, and ends with the names of what failed. The verbs
are stand-ins, and so are the programs that the scenarios need."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import TOGETHER

ROOT = Path(__file__).parents[2]
# Each stand-in says that it ran; those whose names are in $RED fail.
STAND_IN = """\
#!/bin/sh
echo "$1" >> ran
case " $RED " in *" $1 "*) echo "FAILED $1: its reason"; exit 3 ;; esac
"""
MAKEFILE = f"""\
include {ROOT / "Makefile"}
.PHONY: test-venv controller-venv lint types unit contract cloud
test-venv controller-venv:
	@:
lint types unit contract cloud:
	@mkdir -p .cache/check; echo "closing line of $@" > .cache/check/$@.log
	@say $@ >> .cache/check/$@.log
"""
# molecule test --scenario-name NAME
MOLECULE = '#!/bin/sh\nexec say "$3"\n'
TOOLS = ("podman", "runc", "mmdebstrap", "qemu-system-x86_64", "mkfs.ext4", "ansible-playbook")
VERBS = ["lint", "types", "unit", "contract", "cloud"]


def make(folder: Path, *arguments: str, red: str = "") -> tuple[int, list[str], str]:
    """Exit status, what ran, and what was printed."""
    programs = folder / ".venv" / "bin"
    programs.mkdir(parents=True)
    files = {"say": STAND_IN, "molecule": MOLECULE, "id": "#!/bin/sh\necho 0\n"}
    files["python"] = f'#!/bin/sh\nexec {sys.executable} "$@"\n'
    files["trueup"] = '#!/bin/sh\necho trueup "$@"\n'
    for name, text in {**dict.fromkeys(TOOLS, "#!/bin/sh\n"), **files}.items():
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    (folder / "Makefile").write_text(MAKEFILE)
    done = subprocess.run(
        # The stand-ins wait for no run of the real scenarios, and leave nothing in their cache.
        ["make", f"LOCKS={folder}", f"TRUEUP_CACHE={folder}", *arguments],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "RED": red},
        **TOGETHER,
        check=False,
        timeout=600,
    )
    ran = folder / "ran"
    return done.returncode, ran.read_text().split() if ran.exists() else [], done.stdout


@pytest.mark.parametrize(
    "red", [["unit"], ["local"], ["vm"], ["lint", "contract", "local", "default", "cluster"]]
)
def test_all_run_and_what_failed_is_named(tmp_path: Path, red: list[str]) -> None:
    scenarios = ["local", "vm", "default", "cluster"]
    status, ran, said = make(
        tmp_path, "test", f"SCENARIOS={' '.join(scenarios)}", red=" ".join(red)
    )
    assert status == 2
    assert sorted(ran) == sorted([*VERBS, *scenarios])
    reasons, named = said.rsplit("==== make test failed in ====", 1)
    names = [name if name in VERBS else f"molecule {name}" for name in red]
    assert sorted(
        line for line in named.splitlines() if line and "make: ***" not in line
    ) == sorted(names)
    for name in red:
        assert f"==== what failed in {name} ====\nFAILED {name}: its reason\n" in reasons


def test_scenarios_run_on_after_one_that_failed(tmp_path: Path) -> None:
    status, ran, said = make(
        tmp_path, "molecule", "SCENARIOS=local default failures", red="local failures"
    )
    assert (status, ran) == (2, ["local", "default", "failures"])
    assert "make molecule: failed: local failures\n" in said


def test_an_environment_that_is_a_link_is_refused_and_kept(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "thesis.tex").touch()
    (tmp_path / "venv").symlink_to(theirs)
    done = subprocess.run(
        ["make", "controller-venv", f"VENV={tmp_path / 'venv'}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 2
    assert f"{tmp_path / 'venv'} is a link: remove the link" in done.stderr
    assert [path.name for path in theirs.iterdir()] == ["thesis.tex"]


# Of a Python that is asked for its version, whether it has venv, and to make an environment.
PYTHON = """\
#!/bin/sh
case "$*" in
    *version_info*) exit $OLD ;;
    *ensurepip*) exit $LAME ;;
    "-m venv"*) echo "${0##*/}" >> made; mkdir -p .venv/bin; cp "$0" .venv/bin/python ;;
esac
"""


def test_the_first_python_that_has_venv_makes_the_environment(tmp_path: Path) -> None:
    kinds = {"old": (1, 0), "lame": (0, 1), "good": (0, 0), "late": (0, 0)}
    for name, (old, lame) in kinds.items():
        text = PYTHON.replace("$OLD", str(old)).replace("$LAME", str(lame))
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    for name in ("Makefile", "pyproject.toml", "requirements"):
        (tmp_path / name).symlink_to(ROOT / name)
    done = subprocess.run(
        ["make", "controller-venv", "PYTHON=old lame good late"],
        cwd=tmp_path,
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}"},
        **TOGETHER,
        check=False,
        timeout=600,
    )
    assert (done.returncode, (tmp_path / "made").read_text()) == (0, "good\n"), done.stdout


def test_the_report_is_of_the_run_that_began_last_priced_as_the_caller_says(tmp_path: Path) -> None:
    # A clock of 2099 makes no run the last: the count does.
    for count, run_id in ((3, "20261120T091300Z-7c1e"), (2, "20990101T000000Z-7c1e")):
        run = tmp_path / "results" / run_id
        run.mkdir(parents=True)
        (run / "0001.json").write_text("{}")
        (run / "run.json").write_text(json.dumps({"count": count}))
    _, _, said = make(tmp_path, "report", "AS_SIZE=Standard_HB120rs_v3", "REGION=eastus")
    of_run = "results/20261120T091300Z-7c1e"
    priced = "--size Standard_HB120rs_v3 --region eastus"
    assert [line for line in said.splitlines() if line.startswith("trueup ")] == [
        f"trueup list {of_run}",
        f"trueup scaling {of_run}",
        f"trueup cost {of_run} {priced}",
        f"trueup report {of_run} --output report {priced}",
    ]


@pytest.mark.parametrize("name", ["RUN", "OUTPUT", "PRICE", "AS_SIZE", "REGION"])
@pytest.mark.parametrize(
    "text", ["$(shell touch canary)", "$$(touch canary)", "';touch canary;'", "`touch canary`"]
)
def test_no_value_is_a_command_of_make_or_the_shell(tmp_path: Path, name: str, text: str) -> None:
    run_id = "20261120T091300Z-7c1e"
    (tmp_path / "results" / run_id).mkdir(parents=True)
    (tmp_path / "results" / run_id / "0001.json").write_text("{}")
    status, _, said = make(tmp_path, "report", f"{name}={text}")
    assert not (tmp_path / "canary").exists()
    shown = "is no run's id" if name == "RUN" else text
    assert (status, shown in said) == (2 if name == "RUN" else 0, True), said
