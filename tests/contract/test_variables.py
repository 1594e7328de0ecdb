"""The plays' own variables: each that plays, roles and plugins use is declared, and a run refuses
what is not."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import plays
import yaml
from helpers import parametrized
from trueup_controller.settings import INTERNAL, OPTIONS, PREFIX

ROOT = Path(__file__).parents[2]
DECLARED = {f"{PREFIX}{one.name}": one for one in OPTIONS}
ALL: dict[str, Any] = yaml.safe_load((ROOT / "playbooks/group_vars/all.yml").read_text())
# Keys of what roles tell run.json (set_stats).
TOLD = {"trueup_nccl_topology", "trueup_slurm"}


def used() -> set[str]:
    """Variables in plays and roles; filters, facts and actions have other places in a line."""
    found: set[str] = set()
    for path in [ROOT / "site.yml", *ROOT.glob("playbooks/**/*.yml"), *ROOT.glob("roles/**/*.yml")]:
        lines = path.read_text(encoding="utf-8").splitlines()
        text = "\n".join(
            line for line in lines if not line.lstrip().startswith(("#", "description"))
        )
        found.update(re.findall(r"(?<![./\w|'])(?<!\| )trueup_[a-z_]+\b(?!:$)", text, re.MULTILINE))
    return found


def test_what_plays_use_is_declared() -> None:
    assert sorted(used() - set(DECLARED) - set(INTERNAL) - TOLD) == []


def test_what_is_declared_is_used() -> None:
    folders = ("playbooks", "roles", "plugins", "module_utils/trueup_node", "controller")
    paths = [path for name in folders for path in (ROOT / name).rglob("*") if path.is_file()]
    text = "\n".join(
        path.read_text(encoding="utf-8")
        for path in paths
        if path.suffix in {".py", ".yml"} and path.name != "settings.py"
    )
    unused = [name for name in (*DECLARED, *INTERNAL) if not re.search(rf"\b{name}\b", text)]
    assert unused == []


def test_the_plays_have_the_declared_defaults() -> None:
    told = {name: one for name, one in DECLARED.items() if name in ALL and not one.why}
    assert {name: ALL[name] for name in told} == {name: one.default for name, one in told.items()}
    assert set(ALL) - set(DECLARED) <= set(INTERNAL)


@parametrized(("given", "said"))
def test_a_run_refuses_it_before_a_node_is_asked(
    tmp_path: Path, given: dict[str, Any], said: str
) -> None:
    local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    (tmp_path / "hosts.json").write_text(json.dumps({"all": {"hosts": {"node": local}}}))
    options = ("-i", str(tmp_path / "hosts.json"), "-e", json.dumps(given))
    done = plays.playbook(tmp_path, "site.yml", *options)
    assert done.returncode == 2
    assert said in done.stdout
    assert "TASK [Identify node]" not in done.stdout


def test_a_number_out_of_range_is_refused_before_anything_is_installed(tmp_path: Path) -> None:
    local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    (tmp_path / "hosts.json").write_text(json.dumps({"all": {"hosts": {"node": local}}}))
    asked = {"trueup_benchmarks": ["devito"], "devito_timeout_seconds": 0}
    asked["trueup_metadata_url"] = "http://127.0.0.1:9"
    options = ("-i", str(tmp_path / "hosts.json"), "--check", "-e", json.dumps(asked))
    done = plays.playbook(tmp_path, "site.yml", *options)
    assert done.returncode == 2
    assert "devito_timeout_seconds is 0: it must be 1 or more" in done.stdout
    assert "PLAY [Configure nodes]" not in done.stdout


def test_an_ansible_without_the_package_is_told_what_to_run(tmp_path: Path) -> None:
    """As from another environment: its Python finds no trueup_node."""
    hide = "import sys; sys.modules['trueup_node'] = None\n"
    (tmp_path / "sitecustomize.py").write_text(hide)
    done = plays.playbook(tmp_path, "playbooks/identify.yml", env={"PYTHONPATH": str(tmp_path)})
    assert done.returncode != 0
    assert "make controller-venv" in " ".join((done.stdout + done.stderr).split())
    assert "Traceback" not in done.stdout + done.stderr
    assert "PLAY [" not in done.stdout
