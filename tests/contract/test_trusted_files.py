"""What root writes or installs on a node has no name that another user can take first: none is
predictable in a folder that everybody may write."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest
from trueup_controller import systemd
from trueup_controller.plan_loader import room_of

ROOT = Path(__file__).resolve().parents[2]
PLACES = ("module_utils", "controller", "library", "roles", "plugins", "playbooks")
# /tmp, /var/tmp and /dev/shm with a name behind them, which may be a template's.
NAMED = re.compile(r"(?<![\w.}])(?:/var)?/tmp/+[\w{%$*.-]|/dev/shm/+[\w{%$*.-]")
# What makes a name that nobody can foresee, or a path for show.
MAKERS = {"own_folder", "placeholder", "mkdtemp", "mkstemp", "TemporaryDirectory"}


def shipped(*suffixes: str) -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-z", *PLACES], cwd=ROOT, capture_output=True, text=True, check=True
    )
    paths = (ROOT / name for name in listed.stdout.split("\0") if name)
    return [path for path in paths if path.suffix in suffixes and path.is_file()]


# Files that say one of these folders without a name behind it, and put none there: they ask how
# much is free, say what is shared, or make a folder of their own in it.
FOLDERS = {"/tmp", "/var/tmp", "/dev/shm"}
MEANT = {
    "module_utils/trueup_node/benchmarks/blob_copy/case.py",
    # Facts of a machine that is not made yet.
    "controller/trueup_controller/dryrun.py",
    "controller/trueup_controller/new_machine.py",
    "controller/trueup_controller/plans/vllm.py",
    "module_utils/trueup_node/node/identify.py",
    # A file without a name.
    "module_utils/trueup_node/node/evidence.py",
    # Each case gets a folder of its own there, made by mkdtemp.
    "module_utils/trueup_node/run/mpi_files.py",
}


def test_no_text_names_a_file_where_everybody_writes() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in shipped(".py", ".yml", ".j2", ".sh", ".service", ".conf", "")
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if NAMED.search(line)
    ]
    assert found == []


def test_no_program_says_such_a_folder_to_put_names_behind_it() -> None:
    found = set()
    for path in shipped(".py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        texts = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
        if FOLDERS & {text.rstrip("/") for text in texts if isinstance(text, str)}:
            found.add(str(path.relative_to(ROOT)))
    assert found == MEANT


def test_the_temporary_folder_gets_only_names_that_nobody_foresees() -> None:
    found = []
    for path in shipped(".py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
            name = getattr(call.func, "attr", getattr(call.func, "id", ""))
            given = [*call.args, *(keyword.value for keyword in call.keywords)]
            text = " ".join(ast.unparse(one) for one in given)
            if "gettempdir()" in text and not MAKERS & set(re.findall(r"\w+", f"{name} {text}")):
                found.append(f"{path.relative_to(ROOT)}:{call.lineno}: {ast.unparse(call)}")
    assert found == []


# Units that root starts, of rooms that know them; their own tests hold the whole text.
UNITS = {
    "gpu_clocks": "READING",
    "rdma": "READING",
    "nvme_scratch": "RESTRICTED",
    "eessi": "RESTRICTED",
    "enroot_pyxis": "RESTRICTED",
}


@pytest.mark.parametrize("room", UNITS)
def test_what_root_starts_once_has_no_more_rights_than_it_needs(room: str) -> None:
    module = room_of(room)
    text = getattr(module, "_SOFT_ROCE" if room == "rdma" else "_SERVICE")
    lines = getattr(systemd, UNITS[room])
    assert text.replace("{restricted}", lines).count(f"\n{lines}") == 1
    assert {"NoNewPrivileges=yes", "RestrictSUIDSGID=yes"} <= set(lines.splitlines())
    # With it systemd hides all devices but the clock's (systemd.exec(5), DeviceAllow).
    assert "ProtectClock=yes" not in lines.splitlines()
