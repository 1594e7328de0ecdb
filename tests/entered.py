"""Files of the product in which a function runs while a command does its work; a reader follows
these.

    python tests/entered.py              # the three journeys of docs/dev/architecture.md
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
_ROOMS: Final = tuple(f"{ROOT / room}/" for room in ("analysis", "controller", "module_utils"))
_IS_FUNCTION: Final = 1  # CO_OPTIMIZED: the body of a class or a module has it not
LOG: Final = ROOT / "tests" / "data" / "nccl" / "infiniband.txt"
RUN: Final = ROOT / "tests" / "data" / "devito" / "driver_mpi.log"
SIZE: Final = ("--size", "Standard_HB120rs_v3", "--region", "eastus", "--nodes", "1")
# By command: its arguments.
COMMANDS: Final = {"read": ("read", str(LOG)), "cost": ("cost",), "report": ("report",)}


def entered() -> dict[str, list[str]]:
    """By command, the files, for one log of NCCL or a folder with one record of Devito."""
    with tempfile.TemporaryDirectory() as folder:
        _run(folder, "import", str(RUN), *SIZE)
        return {name: _run(folder, *arguments) for name, arguments in COMMANDS.items()}


def _run(folder: str, *arguments: str) -> list[str]:
    answer = Path(folder) / "entered.json"
    subprocess.run(
        [sys.executable, __file__, str(answer), *arguments],
        cwd=folder,
        check=True,
        capture_output=True,
    )
    files: list[str] = json.loads(answer.read_text(encoding="utf-8"))
    return files


def _follow(answer: str, arguments: list[str]) -> None:
    """Run a command in this process and write the files that it enters."""
    codes: set[CodeType] = set()
    importing = 0

    def seen(frame: FrameType, event: str, _: Any) -> None:
        nonlocal importing
        if frame.f_code.co_name == "<module>":
            importing += {"call": 1, "return": -1}.get(event, 0)
        elif event == "call" and not importing and frame.f_code.co_flags & _IS_FUNCTION:
            codes.add(frame.f_code)

    from trueup_analysis.cli import main

    sys.argv = ["trueup", *arguments]
    sys.setprofile(seen)
    try:
        main()
    finally:
        sys.setprofile(None)
        files = {os.path.realpath(code.co_filename) for code in codes}
        ours = sorted(path for path in files if path.startswith(_ROOMS) and path.endswith(".py"))
        Path(answer).write_text(json.dumps(ours), encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        _follow(sys.argv[1], sys.argv[2:])
    else:
        for name, files in entered().items():
            print(f"files entered by trueup {name}: {len(files)}")
