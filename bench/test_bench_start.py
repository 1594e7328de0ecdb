"""The start-up cost of a command, beside typer's smallest program.

make bench ARGS="-k start"
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from measure import ROOT, command, python, trueup
from synthetic import record

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Bench
    from measure import Word

HELLO = """
import typer
def hello(name: str = "world") -> None:
    print(f"hello {name}")
typer.run(hello)
"""
LOG = ROOT / "tests" / "data" / "nccl" / "nvlink.txt"
PROMISES = {"--help": 1.1, "list of one record": 2.4, "read of one log": 2.0}


@pytest.mark.parametrize("name", PROMISES)
def test_the_start_of_a_command(bench: Bench, tmp_path: Path, name: str) -> None:
    record_path = tmp_path / "record.json"
    record_path.write_text(json.dumps(record(0)), encoding="utf-8")
    words: dict[str, list[Word]] = {
        "--help": ["--help"],
        "list of one record": ["list", record_path],
        "read of one log": ["read", LOG],
    }
    hello = command(python(HELLO))
    ours = command(trueup(*words[name]))
    bench.compare(f"trueup {name}", ours, "a typer hello-world", hello, promise=PROMISES[name])
