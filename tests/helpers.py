"""What several tests need."""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from trueup_controller import role_folders
from trueup_node.errors import TrueupError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import pytest

ROOT = Path(__file__).parent.parent
# The folder of each role by its name; and a file of each role that has it.
ROLES = role_folders.role_folders(ROOT / "roles")
role_files = functools.partial(role_folders.role_files, ROOT / "roles")
# What a program says, its complaints among it, as text: for subprocess.
TOGETHER: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}


def parametrized(names: str | tuple[str, ...], **options: Any) -> Callable[[Any], Any]:
    """Parametrize a test with its rows in tests/data/cases/<module>.txt: below the line
    "== test: names", one row of JSON a line. "#" begins a comment."""
    import pytest

    columns = names if isinstance(names, str) else ", ".join(names)

    def decorate(test: Any) -> Any:
        rows = tables(test.__module__)[f"{test.__name__}: {columns}"]
        return pytest.mark.parametrize(names, rows, **options)(test)

    return decorate


@functools.cache
def tables(module: str) -> dict[str, list[Any]]:
    """By the line above them, the rows of a module's file."""
    text = (ROOT / "tests" / "data" / "cases" / f"{module}.txt").read_text(encoding="utf-8")
    tables: dict[str, list[Any]] = {}
    for line in text.splitlines():
        if line.startswith("== "):
            rows = tables.setdefault(line.removeprefix("== "), [])
        elif line and not line.startswith("#"):
            rows.append(json.loads(line))
    return tables


def program(path: str) -> ModuleType:
    """A role's program for nodes, by its path in the repository, as a module of its own."""
    name = path.removesuffix(".py").replace("/", "_")
    spec = importlib.util.spec_from_file_location(name, ROOT / path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def answer_of(
    module: ModuleType, capsys: pytest.CaptureFixture[str], /, **given: Any
) -> dict[str, Any]:
    """What an Ansible module prints with these arguments, run in this process; the controller
    takes it."""
    import pytest
    from ansible.module_utils.testing import patch_module_args
    from trueup_controller import gate

    with patch_module_args(given), pytest.raises(SystemExit) as ended:
        module.main()
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert bool(ended.value.code) == bool(answer.get("failed"))
    name = module.__name__.rpartition(".")[2]
    asked = gate.Asked("node-1", name, given, bool(given.get("_ansible_check_mode")))
    # A stand-in of a test is documented nowhere.
    problem = gate.answer_problem(asked, answer, {name: {}, **_documented()})
    assert problem is None, problem
    return answer


@functools.lru_cache(maxsize=1)
def _documented() -> Mapping[str, Mapping[str, Any]]:
    from trueup_controller.gate import documented

    return documented(ROOT / "library")


def stand_ins(folder: Path, playbook: str, makefile: str) -> None:
    """A checkout for `make`: its own ansible-playbook, this Python, and what it includes."""
    programs = folder / ".venv" / "bin"
    programs.mkdir(parents=True)
    python = f'#!/bin/sh\nexec {sys.executable} "$@"\n'
    for name, text in {"ansible-playbook": playbook, "python": python}.items():
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    (folder / "Makefile").write_text(makefile)


def free_port() -> int:
    """One that nobody listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def said(call: Callable[[], Any], kind: type[TrueupError] = TrueupError) -> str:
    """The sentence with which a call is refused."""
    import pytest

    with pytest.raises(kind) as raised:
        call()
    return str(raised.value)


def a_record(**changes: Any) -> dict[str, Any]:
    """A valid record with the given fields changed."""
    record: dict[str, Any] = {
        "schema": "trueup.record/1",
        "run_id": "20261120T091300Z-7c1e",
        "benchmark": "devito",
        "case": "acoustic-so8-r1t2-core",
        "outcome": "ok",
        "reason": None,
        "nodes": ["node-1"],
        "vm_size": None,
        "region": None,
        "offer": None,
        "node_count": 1,
        "ranks": 1,
        "threads_per_rank": 2,
        "gpus": 0,
        "parameters": {"shape": "128x128x128"},
        "command": ["python", "devito_driver.py"],
        "environment": {"OMP_NUM_THREADS": "2"},
        "software": {"devito": "4.8.23"},
        "system": {"family": "local", "cores": 2},
        "started_at": "2026-11-20T09:13:00Z",
        "duration_seconds": 4.5,
        "metrics": [
            {
                "name": "run_time",
                "value": 1.5,
                "unit": "s",
                "direction": "lower",
                "statistic": "median",
                "n": 3,
            }
        ],
        "raw": None,
    }
    record.update(changes)
    return record


def ended(path: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """How a role's program ends."""
    return subprocess.run(
        [sys.executable, str(path), *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
        env={**os.environ, **environment},
    )


def refused(done: subprocess.CompletedProcess[str], status: int, message: str) -> None:
    """A program ended with a sentence and nothing else."""
    assert done.returncode == status
    assert message in done.stderr
    assert "Traceback" not in done.stderr
