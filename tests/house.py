"""How the house stands: the measures of docs/dev/architecture.md, for this checkout or another one.

    python tests/house.py [FOLDER]          (make house)

Before and after are taken alike: what a measure counts is written here and nowhere else.
"""

from __future__ import annotations

import ast
import io
import re
import shutil
import statistics
import subprocess
import sys
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import entered
import yaml

EXPRESSION = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)
STATEMENT = re.compile(r"\{%.*?%\}", re.DOTALL)
# What stands behind these keys is an expression without braces.
CONDITIONS = ("when", "that", "failed_when", "changed_when", "until")
YAML_PLACES = ("vars", "tasks", "defaults", "meta", "handlers", "playbooks")
# What a task's name begins with: STYLE.md's verbs, and what else an engineer would grep for.
STYLE_VERBS = re.compile(
    "Validate|Install|Configure|Check|Measure|Record|Report|Skip|Restart|Reset"
)
PLAIN_VERBS = re.compile(
    STYLE_VERBS.pattern + "|Add|Apply|Benchmark|Build|Collect|Compare|Compile|Copy|Create|Disable"
    "|Download|Drain|Enable|Export|Fail|Fetch|Find|Gather|Identify|Include|Join|List|Load|Mount|Plan"
    "|Read|Reboot|Reload|Remove|Run|Set|Start|Stop|Unmount|Unpack|Update|Verify|Wait|Write"
)
CODE = re.compile(
    r"(module_utils|library|plugins|analysis|controller)/.*\.py|roles/.+/files/.*\.py"
)
TASKS = re.compile(r"roles/.+/(tasks|handlers)/.*\.yml|playbooks/(tasks/)?[^/]+\.yml|site\.yml")
# Programs that run on a node and import module_utils.
NODE_PROGRAMS = re.compile(r"library/(\w+/)?\w+\.py|roles/.+/files/.*\.py")
PRODUCT = (".py", ".yml", ".j2", ".sh", ".rb", ".erb", ".c", ".css", ".yml.in")
NO_PRODUCT = ("tests/", "molecule/", "docs/", "bench/")
DOCUMENTED = frozenset(("DOCUMENTATION", "EXAMPLES", "RETURN"))
ROOMS = ("analysis", "controller", "library", "module_utils", "plugins", "roles")
# Words that do not say which kind of thing a name holds (STYLE.md, "Plain words").
EMPTY_WORDS = frozenset(
    (
        *("found", "one", "ones", "said", "told", "what", "why", "made", "given", "known"),
        *("wanted", "place", "thing", "there", "here", "others", "own", "kept", "asked", "left"),
        *("seen", "shown", "owed", "gone", "whole", "part", "word", "answer"),
    )
)
# Modules that are shared by both halves, and programs that are sent to a VM.
SHARED = re.compile(r"trueup_node\.(view|vm\.\w+|health\.\w+|benchmarks\.\w+\.(view|signatures))")


class Loader(yaml.SafeLoader):
    """YAML with Ansible's own tags, whose values are text here."""


Loader.add_multi_constructor("!", lambda loader, _, node: loader.construct_scalar(node))


@dataclass(frozen=True)
class Jinja:
    """Expressions in texts: their number, the longest in characters, words ``if``, statements."""

    expressions: int
    longest: int
    ifs: int
    statements: int

    def __str__(self) -> str:
        return (
            f"{self.expressions} expressions, longest {self.longest} characters, {self.ifs} ifs, "
            f"{self.statements} statements"
        )


@dataclass(frozen=True)
class House:
    """The files that git tracks in a folder, and their texts ("" for a picture)."""

    root: Path
    texts: dict[str, str]

    def yaml(self, path: str) -> Any:
        return yaml.load(self.texts[path], Loader)


def checkout(root: Path) -> House:
    """What git tracks in a folder and is there; links are left out, for their target counts."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=root, check=True, capture_output=True, text=True
    ).stdout
    found: dict[str, str] = {}
    for path in sorted(listed.split("\0")):
        if path and (root / path).is_file() and not (root / path).is_symlink():
            try:
                found[path] = (root / path).read_text(encoding="utf-8")
            except UnicodeDecodeError:
                found[path] = ""
    return House(root, found)


# ---- Jinja --------------------------------------------------------------------------------------


def texts(value: Any, *, condition: bool = False) -> Iterator[tuple[str, bool]]:
    """Every text of a YAML value, and whether it is an expression without braces."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from texts(key)
            yield from texts(item, condition=key in CONDITIONS)
    elif isinstance(value, list):
        for item in value:
            yield from texts(item, condition=condition)
    elif isinstance(value, str):
        yield value, condition and "{{" not in value


def python_texts(source: str) -> Iterator[tuple[str, bool]]:
    """The constants of a Python file that are no documentation: a filter may evaluate templates."""
    for statement in ast.parse(source).body:
        if isinstance(statement, ast.Assign) and DOCUMENTED & set(
            map(ast.unparse, statement.targets)
        ):
            continue
        for node in ast.walk(statement):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value, False


def jinja(found: Iterable[tuple[str, bool]]) -> Jinja:
    """What the texts hold; an expression's length is that of its words with single blanks."""
    expressions: list[str] = []
    statements = 0
    for text, is_expression in found:
        expressions += [text] if is_expression else EXPRESSION.findall(text)
        statements += len(STATEMENT.findall(text))
    return Jinja(
        len(expressions),
        max((len(" ".join(expression.split())) for expression in expressions), default=0),
        sum(len(re.findall(r"\bif\b", expression)) for expression in expressions),
        statements,
    )


def place(path: str) -> str | None:
    """Where Jinja may stand: a role's folder, playbooks, templates, or Python; else None."""
    if found := re.fullmatch(r"roles/.+/(vars|tasks|defaults|meta|handlers)/.*\.yml", path):
        return found[1]
    if re.match(r"roles/.+/templates/", path):
        return "templates"
    if path == "site.yml" or re.fullmatch(r"playbooks/.*\.yml", path):
        return "playbooks"
    return "python" if re.fullmatch(r"(module_utils|plugins)/.*\.py", path) else None


def jinja_by_place(house: House) -> dict[str, Jinja]:
    """Jinja in every YAML of roles/ and playbooks/ ("all YAML" together), in templates, in Python's
    own texts."""
    found: dict[str, list[tuple[str, bool]]] = {}
    for path, text in house.texts.items():
        where = place(path)
        if where in YAML_PLACES:
            found.setdefault(where, []).extend(texts(house.yaml(path)))
        elif where == "templates":
            found.setdefault(where, []).append((text, False))
        elif where == "python":
            found.setdefault(where, []).extend(python_texts(text))
    together = [text for where in YAML_PLACES for text in found.get(where, [])]
    return {where: jinja(found[where]) for where in sorted(found)} | {"all YAML": jinja(together)}


# ---- tasks --------------------------------------------------------------------------------------


def names_of_tasks(value: Any) -> Iterator[str]:
    """The names in a list of plays or tasks, those in blocks included."""
    for item in value if isinstance(value, list) else []:
        if isinstance(item.get("name"), str):
            yield item["name"]
        for part in ("pre_tasks", "tasks", "post_tasks", "handlers", "block", "rescue", "always"):
            yield from names_of_tasks(item.get(part))


def task_names(house: House) -> list[str]:
    """The names of all plays, tasks and handlers."""
    files = [path for path in house.texts if TASKS.fullmatch(path)]
    return [name for path in files for name in names_of_tasks(house.yaml(path))]


def begin_with(names: list[str], verbs: re.Pattern[str]) -> int:
    return sum(1 for name in names if verbs.fullmatch(name.split()[0].rstrip(",")))


# ---- options ------------------------------------------------------------------------------------


def benchmark_roles(house: House) -> dict[str, str]:
    """The role of each benchmark's room: its ``ROLE``, or the room's own name."""
    roles: dict[str, str] = {}
    for path, text in house.texts.items():
        if found := re.fullmatch(r"module_utils/trueup_node/benchmarks/(\w+)/output\.py", path):
            said = re.search(r'^ROLE\b.*"(\w+)"', text, re.MULTILINE)
            roles[found[1]] = said[1] if said else found[1]
    return roles


def files_that_name_an_option(house: House) -> dict[str, int]:
    """By role variable of a benchmark: in how many files it, or the option's own name, stands.

    The variable (``stream_repeats``) counts anywhere; the option's own name (``repeats``) counts as
    a word in what is that benchmark's: its room, module, role, page and tests.
    """
    words = {
        path: set(re.findall(r"\w+", text))
        for path, text in house.texts.items()
        if not path.startswith("tests/data/")
    }
    counts: dict[str, int] = {}
    for room, role in benchmark_roles(house).items():
        defaults = f"roles/{role}/defaults/main.yml"
        if f"roles/{role}/tasks/benchmark.yml" not in words or defaults not in words:
            continue
        own = re.compile(
            rf"roles/{role}/|module_utils/trueup_node/benchmarks/{room}/"
            rf"|(library|docs|tests)/(.*/)?(test_)?(parse_)?{room}(_bench|_driver)?\."
        )
        for variable in house.yaml(defaults):
            option = variable.removeprefix(f"{role}_")
            counts[variable] = sum(
                1
                for path, used in words.items()
                if variable in used or (option in used and own.match(path))
            )
    return counts


# ---- Python -------------------------------------------------------------------------------------


def complexity(function: ast.AST) -> int:
    """McCabe's number: one, and one more for each branch, loop, comprehension, and, or, handler."""
    number = 1
    for node in ast.walk(function):
        if isinstance(
            node,
            (ast.If, ast.IfExp, ast.For, ast.AsyncFor, ast.While, ast.ExceptHandler, ast.Assert),
        ):
            number += 1
        elif isinstance(node, ast.BoolOp):
            number += len(node.values) - 1
        elif isinstance(node, ast.comprehension):
            number += 1 + len(node.ifs)
    return number


def complexities(house: House) -> list[tuple[int, str]]:
    """The complexity of each function of the product, and where it stands; the least first."""
    return sorted(
        (complexity(node), f"{path}:{node.lineno} {node.name}")
        for path, text in house.texts.items()
        if CODE.fullmatch(path)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    )


def bound_names(tree: ast.AST) -> Iterator[str]:
    """The names that a file binds: functions, classes, parameters, variables and aliases."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.ExceptHandler) and node.name:
            yield node.name
        elif isinstance(node, ast.alias) and node.asname:
            yield node.asname


def prose(source: str) -> Iterator[str]:
    """The comments and docstrings of a Python file."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.string
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and (
            docstring := ast.get_docstring(node)
        ):
            yield docstring


@dataclass(frozen=True)
class Wording:
    """Of one room: its bound names, the empty ones among them, the words of its comments and
    docstrings, and how many of these are "what"."""

    names: int
    empty_names: int
    words: int
    whats: int

    @property
    def empty_percent(self) -> float:
        return 100 * self.empty_names / self.names

    @property
    def whats_per_thousand(self) -> float:
        return 1000 * self.whats / max(self.words, 1)

    def __str__(self) -> str:
        return (
            f"{self.empty_percent:.1f} % of {self.names} names are empty words,"
            f" {self.whats_per_thousand:.1f} times what in 1000 words"
        )


def wording(house: House, room: str) -> Wording:
    """The wording of the Python files of a room."""
    sources = [
        text
        for path, text in house.texts.items()
        if path.startswith(f"{room}/") and path.endswith(".py")
    ]
    names = [name.strip("_").lower() for text in sources for name in bound_names(ast.parse(text))]
    sentences = [sentence for text in sources for sentence in prose(text)]
    return Wording(
        len(names),
        sum(name in EMPTY_WORDS for name in names),
        sum(len(sentence.split()) for sentence in sentences),
        sum(len(re.findall(r"\bwhat\b", sentence, re.IGNORECASE)) for sentence in sentences),
    )


def module_utils_imports(house: House) -> dict[str, set[str]]:
    """By module of module_utils (``trueup_node.node.mounts``) or path of another file that runs on
    a node: the modules of module_utils that it imports."""
    modules = {
        path.removeprefix("module_utils/").removesuffix(".py").removesuffix("/__init__"): path
        for path in house.texts
        if path.startswith("module_utils/trueup_node/") and path.endswith(".py")
    }
    names = {name.replace("/", "."): path for name, path in modules.items()}
    of_path = {path: name for name, path in names.items()}
    imports: dict[str, set[str]] = {}
    for path, text in house.texts.items():
        if not (path in of_path or NODE_PROGRAMS.fullmatch(path)):
            continue
        module = of_path.get(path, path)
        package = module if path.endswith("/__init__.py") else module.rpartition(".")[0]
        imported = imports.setdefault(module, set())
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom):
                parts = package.split(".")[: -(node.level - 1) or None] if node.level else []
                base = ".".join([*parts, *filter(None, [node.module])])
                base = base.removeprefix("ansible.module_utils.")
                imported |= {base, *(f"{base}.{alias.name}" for alias in node.names)} & set(names)
    return imports


def controller_only(house: House) -> dict[str, int]:
    """Lines of each file of module_utils that no module and no role's program imports, and that
    neither both halves share nor a VM is sent."""
    imports = module_utils_imports(house)
    reached: set[str] = set()
    waiting = [name for name in imports if NODE_PROGRAMS.fullmatch(name) or SHARED.fullmatch(name)]
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting += [*imports.get(name, ()), *filter(None, [name.rpartition(".")[0]])]
    paths = {name: f"module_utils/{name.replace('.', '/')}" for name in imports}
    return {
        name: len(house.texts[f"{path}.py"].splitlines())
        for name, path in paths.items()
        if name not in reached and f"{path}.py" in house.texts
    }


def product_lines(house: House) -> int:
    """Lines of programs, YAML and templates that are no test, scenario, page or speed promise."""
    return sum(
        len(text.splitlines())
        for path, text in house.texts.items()
        if path.endswith(PRODUCT) and not path.startswith(NO_PRODUCT)
    )


def repeated_places(house: House) -> str:
    """The pairs of places that share six lines or more, where `duplicates` is installed."""
    if shutil.which("duplicates") is None:
        return "skipped: the command `duplicates` is not installed"
    command = ["duplicates", "--seconds", "120", "--most", "1"]
    said = subprocess.run(command, cwd=house.root, check=False, capture_output=True, text=True)
    return said.stdout.splitlines()[0]


# ---- all ----------------------------------------------------------------------------------------


def share(part: int, whole: int) -> str:
    return f"{part} ({100 * part / whole:.0f} %)"


def measures(house: House) -> Iterator[tuple[str, str]]:
    """Each measure's name and what it says."""
    for where, counted in jinja_by_place(house).items():
        yield f"Jinja in {where}", str(counted)

    functions = complexities(house)
    worst, where = functions[-1]
    p95 = functions[int(0.95 * len(functions))][0]
    yield "complexity", f"p95 {p95}, max {worst} ({where}), {len(functions)} functions"

    options = files_that_name_an_option(house)
    most = max(options, key=lambda option: options[option])
    median = statistics.median_low(options.values())
    yield "files that name an option", f"median {median}, worst {options[most]} ({most})"

    names = task_names(house)
    style, plain = begin_with(names, STYLE_VERBS), begin_with(names, PLAIN_VERBS)
    yield "task names", f"{len(names)}"
    yield "  with a verb of STYLE.md", share(style, len(names))
    yield "  with any plain verb", share(plain, len(names))
    for room in ROOMS:
        yield f"words of {room}", str(wording(house, room))
    lines = controller_only(house)
    yield "lines of module_utils that no node imports", f"{sum(lines.values())}"
    yield "product lines", str(product_lines(house))
    if house.root.resolve() == entered.ROOT:
        for name, files in entered.entered().items():
            yield f"files entered by trueup {name}", str(len(files))
    yield "repeated places", repeated_places(house)


def main() -> None:
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent.parent
    for name, said in measures(checkout(root)):
        print(f"{name}: {said}")


if __name__ == "__main__":
    main()
