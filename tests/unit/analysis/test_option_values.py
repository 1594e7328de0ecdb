"""Values of options that are read without pydantic, beside what typer itself makes of them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import typer
from trueup_analysis import cli
from trueup_analysis.commands.values import _NOT_PLAIN, _Plain
from typer._coercion import build_runtime_param

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[3]
WORDS = (
    *("a", "", " 5 ", "5", "-5", "0", "0.5", "5.", "1e3", "1_0", "7" * 20, "nan", "true", "table"),
    *("TABLE", "csv", "json", "junit", "last", "2026-11-20", ".", "/", "/root/none", "no\nfile"),
)


def parameters() -> Iterator[tuple[str, Any]]:
    for name in cli.COMMANDS:
        found = cli.command(name)
        for one in (found, *getattr(found, "commands", {}).values()):
            for param in one.params:
                yield f"{one.name} {param.name}", param


PARAMETERS = dict(parameters())


def theirs(param: Any, value: Any) -> Any:
    context = typer.Context(typer.main.get_command(cli.app))
    reader = build_runtime_param(param.type_descriptor)
    try:
        return reader.coerce(value, param=param, ctx=context)
    except typer.BadParameter as error:
        return f"refused: {error.message}"


@pytest.mark.parametrize("name", PARAMETERS)
def test_what_is_plain_is_what_typer_makes_of_it(name: str) -> None:
    param = PARAMETERS[name]
    several = param.multiple or param.nargs == -1
    values = [[word] for word in WORDS] if several else list(WORDS)
    values += [None, param.default, *([["a", "b"], []] if several else [])]
    for value in values:
        found = _Plain._found(value, param)
        if found is not _NOT_PLAIN:
            expected = theirs(param, value)
            assert (found, type(found)) == (expected, type(expected)), value


def test_plain_values_import_no_pydantic_and_others_are_refused_as_before() -> None:
    code = (
        "import sys; from trueup_analysis import cli\n"
        "try: cli.main()\n"
        "finally: print('pydantic' in sys.modules)"
    )
    env = {**os.environ, "PYTHONPATH": f"{ROOT / 'module_utils'}{os.pathsep}{ROOT / 'analysis'}"}
    said = []
    for argv in (["sizes", "--gpus", "8", "--gpu", "H100"], ["sizes", "--gpus", "eight"]):
        done = subprocess.run(
            [sys.executable, "-c", code, *argv],
            env=env,
            capture_output=True,
            text=True,
            check=False,
        )
        said.append((done.stdout.splitlines()[-1], "valid integer" in done.stderr))
    assert said == [("False", False), ("True", True)]
