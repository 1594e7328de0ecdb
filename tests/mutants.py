"""What the tests of a room notice: a seeded sample of small faults, each put to those tests alone.

    python tests/mutants.py [--sample 500] [--seed 14] [--jobs 2] [--only PART]     (make mutants)

A mutant is a module with one operator, number, condition, loop or handler changed; no file is. It
lives in a fork of this process, which has the libraries imported, and is killed by the first test
that fails. A room whose tests fail without a fault ends the run.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import importlib.machinery
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
UNIT = "tests/unit"
FIGURES = "analysis/trueup_analysis/figures"
PARSED = "test_parse_cases.py::test_each_case_gives_the_recorded_result[{room}]"
PLANNED = "test_plan_cases.py::test_each_case_gives_the_recorded_plan"
# What a room's files are called, and the tests that are its own; a parser's are named for it.
ROOMS = {
    "module_utils/trueup_node/node/affinity.py": ("test_affinity.py",),
    "controller/trueup_controller/desktops/fslogix*.py": (
        "desktops/test_fslogix_settings.py",
        "desktops/test_fslogix_plan.py",
        f"{PLANNED}[fslogix]",
    ),
    "controller/trueup_controller/plans/grid_driver.py": (
        "test_grid.py",
        "desktops/test_windows_gpu_plan.py",
        f"{PLANNED}[windows_gpu]",
        f"{PLANNED}[gpu_grid]",
    ),
    "module_utils/trueup_node/node/vgpu.py": ("test_vgpu.py",),
    "controller/trueup_controller/desktops/nx_desktop.py": (f"{PLANNED}[nx_desktop]",),
    "controller/trueup_controller/desktops/windows_bench.py": ("desktops/test_windows_bench.py",),
    "controller/trueup_controller/desktops/authenticode.py": ("desktops/test_authenticode.py",),
    "controller/trueup_controller/desktops/gpu.py": ("desktops/test_windows_gpu.py",),
    "controller/trueup_controller/desktops/windows_gpu.py": (
        "desktops/test_windows_gpu_plan.py",
        f"{PLANNED}[windows_gpu]",
    ),
    "controller/trueup_controller/desktops/registry.py": (
        "desktops/test_windows_registry.py",
        "desktops/test_windows_settings.py",
    ),
    "controller/trueup_controller/azure/availability.py": ("test_provision_plan.py",),
    "controller/trueup_controller/azure/catalog.py": (
        "test_provision_parameters.py",
        "test_provision_plan.py",
    ),
    "controller/trueup_controller/azure/cost.py": ("test_provision_plan.py",),
    "controller/trueup_controller/desktops/host_pools.py": ("desktops/test_avd_session_host.py",),
    "controller/trueup_controller/desktops/session_host.py": ("desktops/test_avd_session_host.py",),
    "controller/trueup_controller/desktops/avd_session_host.py": (f"{PLANNED}[avd_session_host]",),
    "controller/trueup_controller/desktops/avd_agent.py": ("desktops/test_avd_session_host.py",),
    "controller/trueup_controller/azure/parameters.py": (
        "test_provision_parameters.py",
        "test_provision_template.py",
    ),
    "controller/trueup_controller/azure/leftovers.py": ("test_azure_leftovers.py",),
    "controller/trueup_controller/azure/self_destruct.py": ("test_provision_template.py",),
    "controller/trueup_controller/azure/teardown.py": (
        "test_azure_teardown.py",
        "test_azure_leftovers.py",
    ),
    "controller/trueup_controller/azure/template.py": ("test_provision_template.py",),
    "controller/trueup_controller/azure/deployment.py": (
        "test_azure_deployment.py",
        "test_azure_provision.py",
    ),
    "controller/trueup_controller/azure/provision.py": ("test_azure_provision.py",),
    "controller/trueup_controller/azure/wait_ready.py": ("test_azure_reach.py",),
    "controller/trueup_controller/azure/run_state.py": ("test_azure_state.py",),
    "module_utils/trueup_node/rest.py": ("test_rest.py", "test_azure_manager.py"),
    "controller/trueup_controller/azure/machines.py": ("test_azure_machines.py",),
    "controller/trueup_controller/azure/selection.py": ("test_azure_machines.py",),
    "module_utils/trueup_node/reading.py": ("test_reading.py",),
    "module_utils/trueup_node/record.py": ("test_record.py", "test_run_filters.py"),
    "module_utils/trueup_node/run/resume.py": ("test_resume.py", "test_stream_bench.py"),
    f"{FIGURES}/advise/services.py": ("analysis/test_advise_services.py",),
    f"{FIGURES}/lifecycle.py": ("analysis/test_lifecycle.py",),
    f"{FIGURES}/cost*/**/*.py": ("analysis/test_cost.py",),
    f"{FIGURES}/cost*.py": ("analysis/test_cost.py",),
    f"{FIGURES}/scaling*/**/*.py": ("analysis/test_scaling.py",),
    f"{FIGURES}/scaling*.py": ("analysis/test_scaling.py",),
    f"{FIGURES}/health/*.py": ("analysis/test_health.py", "analysis/test_health_silence.py"),
    "module_utils/trueup_node/health/[!_]*.py": ("analysis/test_health.py", "test_node_health.py"),
    f"{FIGURES}/knee.py": ("analysis/test_knee.py",),
    f"{FIGURES}/shared_load.py": ("analysis/test_shared_load.py",),
    "module_utils/trueup_node/benchmarks/*/output.py": (
        *("test_parse_{room}.py", "test_{room}_bench.py", PARSED),
        "test_error_lines.py::test_an_error_shows_the_line_that_it_names[{room}]",
    ),
}
# Imported once, before any fork; none of them imports a room.
LIBRARIES = (
    *("pytest", "hypothesis", "yaml", "jsonschema", "msgspec", "pandas", "pyarrow"),
    *("ansible.module_utils.basic", "ansible.plugins.filter", "jinja2", "rich.console", "typer"),
)
KILLED, SURVIVED, LATE = "killed", "survived", "timeout"

SWAPS: dict[type[ast.AST], list[type[ast.AST]]] = {
    ast.Eq: [ast.NotEq],
    ast.NotEq: [ast.Eq],
    ast.Lt: [ast.LtE, ast.GtE],
    ast.LtE: [ast.Lt, ast.Gt],
    ast.Gt: [ast.GtE, ast.LtE],
    ast.GtE: [ast.Gt, ast.Lt],
    ast.Is: [ast.IsNot],
    ast.IsNot: [ast.Is],
    ast.In: [ast.NotIn],
    ast.NotIn: [ast.In],
    ast.Add: [ast.Sub],
    ast.Sub: [ast.Add],
    ast.Mult: [ast.Div],
    ast.Div: [ast.Mult],
    ast.FloorDiv: [ast.Mult],
    ast.Mod: [ast.Mult],
    ast.Pow: [ast.Mult],
    ast.BitAnd: [ast.BitOr],
    ast.BitOr: [ast.BitAnd],
    ast.LShift: [ast.RShift],
    ast.RShift: [ast.LShift],
    ast.And: [ast.Or],
    ast.Or: [ast.And],
}


@dataclass(frozen=True)
class Fault:
    """A place of a syntax tree, and what is done to it."""

    line: int
    what: str
    apply: Callable[[], None]


def faults(tree: ast.Module) -> list[Fault]:
    """Every fault that this can make in a tree, in the order of its text."""
    made = [fault for node in parts(tree) for fault in faults_of(node)]
    return sorted(made, key=lambda fault: (fault.line, fault.what))


def parts(node: ast.AST) -> Iterator[ast.AST]:
    """What runs: no annotation, decorator or text; imports for types alone are left out too, and
    ``strict=`` of a zip, which asserts what the code around it makes so."""
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        return
    if isinstance(node, ast.keyword) and node.arg == "strict":
        return
    yield node
    for name, value in ast.iter_fields(node):
        if name in {"annotation", "returns", "decorator_list"}:
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from parts(child)


def is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, (str, bytes))
    )


def faults_of(node: ast.AST) -> Iterator[Fault]:
    """The faults of one node."""
    if isinstance(node, ast.Compare):
        for place, operator in enumerate(node.ops):
            for other in SWAPS[type(operator)]:
                yield fault(node, operator, other(), node.ops, place)
    elif isinstance(node, (ast.BoolOp, ast.BinOp, ast.AugAssign)):
        ends = [getattr(node, end) for end in ("left", "right", "value") if hasattr(node, end)]
        for other in SWAPS.get(type(node.op), []) if not any(map(is_text, ends)) else []:
            yield fault(node, node.op, other(), node, "op")
    elif isinstance(node, ast.Constant) and isinstance(node.value, (bool, int, float)):
        value = not node.value if isinstance(node.value, bool) else node.value + 1
        yield fault(node, node, ast.Constant(value), node, "value", value)
    elif isinstance(node, ast.comprehension):
        for place, test in enumerate(node.ifs):
            yield fault(test, test, ast.UnaryOp(ast.Not(), test), node.ifs, place)
    else:
        yield from faults_of_flow(node)


def faults_of_flow(node: ast.AST) -> Iterator[Fault]:
    """A condition turned round, a loop that is not entered, a handler that catches nothing."""
    if isinstance(node, (ast.If, ast.IfExp, ast.While)):
        yield fault(node, node.test, ast.UnaryOp(ast.Not(), node.test), node, "test")
    elif isinstance(node, ast.For):
        yield fault(node, node.iter, ast.Tuple([], ast.Load()), node, "iter")
    elif isinstance(node, ast.ExceptHandler) and node.type is not None:
        yield fault(node, node.type, ast.Tuple([], ast.Load()), node, "type")


def fault(
    at: ast.AST, old: ast.AST, new: ast.AST, holder: object, place: int | str, value: object = None
) -> Fault:
    """Put ``new`` (or a constant's new ``value``) where ``old`` is."""
    line = at.lineno  # type: ignore[attr-defined]
    what = f"{shown(old)} -> {shown(new)}"
    given = new if value is None else value
    if isinstance(holder, list):
        return Fault(line, what, partial(holder.__setitem__, place, given))
    return Fault(line, what, partial(setattr, holder, str(place), given))


def shown(node: ast.AST) -> str:
    """An expression's text, or an operator's name; one line."""
    if isinstance(node, (ast.operator, ast.cmpop, ast.boolop)):
        return type(node).__name__
    return " ".join(ast.unparse(ast.fix_missing_locations(node)).split())[:60]


@dataclass(frozen=True)
class Mutant:
    """One fault of a file: its place in the list of all of that file's."""

    path: str
    number: int
    line: int
    what: str


def mutants(path: str) -> list[Mutant]:
    """All that a file can have."""
    found = faults(ast.parse((ROOT / path).read_text(encoding="utf-8")))
    return [Mutant(path, number, one.line, one.what) for number, one in enumerate(found)]


def code_of(mutant: Mutant) -> object:
    """The file's code with the fault in it."""
    file = ROOT / mutant.path
    tree = ast.parse(file.read_text(encoding="utf-8"))
    faults(tree)[mutant.number].apply()
    return compile(ast.fix_missing_locations(tree), str(file), "exec")


# ---- trial --------------------------------------------------------------------------------------


def child(mutant: Mutant | None, tests: list[str], folder: str) -> None:
    """In the fork: import the faulty code in the file's place, run its tests, end with a status."""
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    log = os.open(f"{folder}/log", os.O_WRONLY | os.O_CREAT)
    for number, target in ((0, nothing), (1, log), (2, log)):
        os.dup2(target, number)
    os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = f"{folder}/hypothesis"
    if mutant is not None:
        faulty, file = code_of(mutant), str(ROOT / mutant.path)
        get_code = importlib.machinery.SourceFileLoader.get_code

        def get_faulty(loader: importlib.machinery.SourceFileLoader, name: str) -> object:
            same = os.path.realpath(loader.path) == file
            return faulty if same else get_code(loader, name)

        importlib.machinery.SourceFileLoader.get_code = get_faulty  # type: ignore[method-assign]
    import pytest

    options = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--hypothesis-seed=0"]
    os._exit(pytest.main([*options, f"--basetemp={folder}/tmp", *tests]))


def started(mutant: Mutant | None, tests: list[str]) -> tuple[int, str]:
    """A fork's process id and its folder."""
    folder = tempfile.mkdtemp(prefix="mutant-")
    sys.stdout.flush()
    number = os.fork()
    if number == 0:
        try:
            child(mutant, tests, folder)
        finally:
            os._exit(70)
    return number, folder


def ended(process: int, folder: str, deadline: float) -> int | None:
    """A fork's exit status, -1 when it ran late and was ended, None while it runs."""
    done, status = os.waitpid(process, os.WNOHANG)
    code = os.waitstatus_to_exitcode(status) if done else None
    if code is None and time.monotonic() > deadline:
        os.killpg(process, signal.SIGKILL)
        os.waitpid(process, 0)
        code = -1
    if code is not None:
        shutil.rmtree(folder, ignore_errors=True)
    return code


def baseline(tests: list[str]) -> float:
    """How many seconds a room's tests take without a fault."""
    begun = time.monotonic()
    process, folder = started(None, tests)
    _, status = os.waitpid(process, 0)
    if status != 0:
        said = Path(folder, "log").read_text(encoding="utf-8")
        sys.exit(f"{' '.join(tests)} fail without a fault:\n{said[-3000:]}")
    shutil.rmtree(folder)
    return time.monotonic() - begun


def trials(
    chosen: list[Mutant], rooms: dict[str, list[str]], jobs: int
) -> Iterator[tuple[Mutant, str]]:
    """Each mutant and what came of it, as they end."""
    limits: dict[str, float] = {}
    waiting = list(reversed(chosen))
    running: dict[Mutant, tuple[int, str, float]] = {}
    while waiting or running:
        while waiting and len(running) < jobs:
            mutant = waiting.pop()
            tests = rooms[mutant.path]
            if mutant.path not in limits:
                limits[mutant.path] = 30 + 10 * baseline(tests)
            process, folder = started(mutant, tests)
            running[mutant] = (process, folder, time.monotonic() + limits[mutant.path])
        for mutant, (process, folder, deadline) in list(running.items()):
            code = ended(process, folder, deadline)
            if code is not None:
                del running[mutant]
                yield mutant, {0: SURVIVED, -1: LATE}.get(code, KILLED)
        time.sleep(0.02)


def all_rooms() -> dict[str, list[str]]:
    """Every file that is judged, and its tests."""
    rooms: dict[str, list[str]] = {}
    for pattern, names in ROOMS.items():
        for path in sorted(ROOT.glob(pattern)):
            tests = [f"{UNIT}/{name.format(room=path.parent.name)}" for name in names]
            there = [test for test in tests if (ROOT / test.split("::", maxsplit=1)[0]).is_file()]
            cases = ROOT / "tests" / "data" / "parsed" / f"{path.parent.name}.cases"
            left_out = "" if cases.is_file() else PARSED.format(room=path.parent.name)
            there = [test for test in there if test != f"{UNIT}/{left_out}"]
            rooms[str(path.relative_to(ROOT))] = there
    return rooms


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sample", type=int, default=500)
    parser.add_argument("--seed", type=int, default=14)
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--only", default="", help="files with this in their path")
    asked = parser.parse_args()

    rooms = all_rooms()
    every = [mutant for path in sorted(rooms) for mutant in mutants(path) if asked.only in path]
    chosen = random.Random(asked.seed).sample(every, min(asked.sample, len(every)))
    # A room's tests are imported from the disk's cache: its mutants one after the other.
    chosen.sort(key=lambda mutant: (mutant.path, mutant.number))
    print(f"{len(chosen)} of {len(every)} mutants of {len(rooms)} files, seed {asked.seed}")
    os.chdir(ROOT)
    for name in LIBRARIES:
        importlib.import_module(name)
    begun = time.monotonic()
    by_file: dict[str, Counter[str]] = {}
    try:
        for mutant, came in trials(chosen, rooms, asked.jobs):
            by_file.setdefault(mutant.path, Counter())[came] += 1
            if came != KILLED:
                print(f"{came}: {mutant.path}:{mutant.line}: {mutant.what}", flush=True)
    except KeyboardInterrupt:
        print("stopped: what follows is of those that were tried")
    total = sum(by_file.values(), Counter())
    for path, counted in [*sorted(by_file.items()), ("all", total)]:
        noticed = counted[KILLED] + counted[LATE]
        print(
            f"{path}: {counted[KILLED]} killed, {counted[LATE]} timeouts, {counted[SURVIVED]} "
            f"survived: {100 * noticed / counted.total():.0f} %"
        )
    print(f"{time.monotonic() - begun:.0f} s, {asked.jobs} at once")


if __name__ == "__main__":
    main()
