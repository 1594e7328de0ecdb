"""Hostile records, packed files and folders, through every command of ``trueup``.

A results folder holds one good record and something that no run writes. Each command is run on it,
in a process of its own that is forked from this one. It must end within 10 s of processor time and
1 GiB of memory, with a status that its documentation names and without a traceback; what is printed
and written holds no character that a terminal obeys, no markup and no formula; nothing is written
beside the output. Where what is hostile is refused, it is named with a reason, and the command
prints what it prints of the good record alone.
"""

from __future__ import annotations

import contextlib
import csv
import encodings
import importlib
import io
import json
import os
import pkgutil
import random
import re
import resource
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
import traceback
import unicodedata
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

from torture import Tally
from torture.hostile_inputs import GOOD, RUN_ID, Item, good_record, items

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROOT = Path(__file__).parents[2]
CPU_SECONDS, WALL_SECONDS, MEMORY_BYTES = 10, 60, 2**30
NOBODY = 65534
_STATUSES = {"health": {0, 1, 2}, "explain": {0, 1, 2}}
# What a command needs that takes no records: with one hostile file as {file}, one folder as
# {catalog}. A new command that needs something must stand here, or it is counted as lost.
GIVEN: dict[str, tuple[tuple[str, ...], ...]] = {
    "read": (("{file}",),),
    "explain": (("{file}",),),
    "import": (
        ("{file}", "--size", "Standard_HB120rs_v3", "--results", "{output}", "--node", "n1"),
    ),
    "health": (
        ("{results}", "--nodes", "{file}"),
        ("{results}", "--expectations", "{file}"),
        ("{results}", "--catalog", "{catalog}"),
    ),
    "cost": (("{results}", "--catalog", "{catalog}"),),
    "checkpoint": (),
    # Their own tests say what they make of runs that cannot be read.
    "compare": (),
    "morning": (),
    "flops": (("--published", "--catalog", "{catalog}"),),
    "topology check": (
        ("{file}", "--size", "Standard_ND96asr_v4"),
        ("--size", "Standard_ND96asr_v4", "--masks", "{file}"),
    ),
    "topology write": (("--size", "Standard_ND96asr_v4", "--catalog", "{catalog}"),),
    "topology show": (("--size", "Standard_ND96asr_v4", "--catalog", "{catalog}"),),
    "evidence show": (("--catalog", "{catalog}"),),
    "evidence import": tuple(
        (source, "{file}", "--date", "2026-01-01", "--to", "{output}/evidence.csv")
        for source in ("inferencex", "llm-d", "github-thread", "mlperf-inference")
    ),
    "prices show": (("--catalog", "{catalog}"), ("--contract", "{file}")),
    "prices services": (("--catalog", "{catalog}"), ("--contract", "{file}")),
    # Asks a server (tests/unit/analysis/test_prices_cli.py).
    "prices refresh": (),
    "prices spot": (),
    "prices diff": ((),),
    "sizes": (("--catalog", "{catalog}"),),
    "model": (
        ("{file}",),
        (str(ROOT / "tests/data/models/llama/config.json"), "--catalog", "{catalog}"),
    ),
    "advise": (("{file}",), ("stencil", "grid=512x512x512", "steps=100", "--catalog", "{catalog}")),
    "azure plan": (("devito-hbv3", "--parameters", "{file}"),),
    # Repair cases have no records; tests/unit/test_repair.py damages their files.
    **dict.fromkeys(
        ("case open", "case list", "case show", "case next", "case record", "case close"), ()
    ),
    "case bill": (("--catalog", "{catalog}"),),
    # Asks Azure (tests/cloud).
    "azure leftovers": (),
}


@dataclass
class Done:
    """One command's end."""

    status: int
    out: str
    err: str
    cpu: float
    memory: int
    late: bool = False
    files: dict[str, bytes] = field(default_factory=dict)


def records(count: int, seed: int) -> Tally:
    """Where ``count`` is less than there are items, each of so many goes through ``list`` and a
    third of the other commands, in one format; else through all of them."""
    tally = Tally()
    if os.getuid() != 0:
        tally.skipped = "unreadable files need root, who becomes nobody for them"
        return tally
    sys.path[:0] = [str(ROOT / "module_utils"), str(ROOT / "analysis")]
    # In this process, once for all that are forked from it.
    import matplotlib.backends.backend_agg  # noqa: F401
    import pyarrow.parquet  # noqa: F401
    import trueup_analysis

    # Nobody may not read an interpreter that lives in root's home.
    for module in pkgutil.walk_packages(trueup_analysis.__path__, "trueup_analysis."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    for module in pkgutil.iter_modules(encodings.__path__, "encodings."):
        with contextlib.suppress(ImportError):  # of Windows
            importlib.import_module(module.name)

    chosen = items(seed)
    part = count < len(chosen)
    if part:
        chosen = random.Random(seed).sample(chosen, count)
    base = Path(tempfile.mkdtemp(prefix="trueup-hostile-"))
    base.chmod(0o777)
    attack = _Attack(base, tally, part=part)
    try:
        attack.learn()
        for number, item in enumerate(chosen):
            attack.try_(item, number)
    finally:
        shutil.rmtree(base, ignore_errors=True)
    tally.figures.append(
        f"{len(chosen)} items, {attack.calls} commands; at most {attack.cpu:.1f} s of processor"
        f" time ({attack.slowest}) and {attack.memory / 2**20:.0f} MiB ({attack.largest})"
    )
    return tally


def commands() -> Iterator[tuple[str, Any]]:
    """Every command of the program, with its words and what it takes."""
    from trueup_analysis.cli import COMMANDS, command

    for name in COMMANDS:
        found = command(name)
        below = getattr(found, "commands", {})
        yield from ((f"{name} {word}", one) for word, one in below.items())
        if not below:
            yield name, found


def _formats(command: Any) -> list[str]:
    found = [one for one in command.params if one.name == "format_"]
    # A format may have no default.
    kinds = [one.type_descriptor.annotation for one in found]
    return [one.value for kind in kinds for one in kind] or [""]


class _Attack:
    def __init__(self, base: Path, tally: Tally, *, part: bool) -> None:
        self.base, self.tally, self.part = base, tally, part
        self.calls, self.cpu, self.memory = 0, 0.0, 0
        self.slowest = self.largest = ""
        self.commands = dict(commands())
        self.usual: dict[tuple[str, str], Done] = {}
        self.reading = [
            name
            for name, command in self.commands.items()
            if any(one.name == "sources" for one in command.params)
        ]

    def learn(self) -> None:
        """What each command says of the good record alone."""
        unknown = [n for n in self.commands if n not in GIVEN and n not in self.reading]
        for name in unknown:
            self.tally.lose(f"{name} is not in torture.hostile.GIVEN: say there what it is given")
        results = self._fresh()
        for name in self.reading:
            for format_ in _formats(self.commands[name]):
                done = self._run(
                    name, format_, [str(results)], ["--every-record"] * (name == "list")
                )
                self.usual[name, format_] = done
                if wrong := self._amiss(name, format_, done):
                    self.tally.lose(f"{name} {format_} of the good record alone: {wrong[0]}")

    def _fresh(self) -> Path:
        for one in self.base.iterdir():
            subprocess.run(["rm", "-rf", "--", str(one)], check=True)
        (self.base / "secret.txt").write_text("canary-outside-the-results\n")
        results = self.base / "results"
        (results / RUN_ID).mkdir(parents=True)
        (results / RUN_ID / GOOD).write_text(json.dumps(good_record()))
        return results

    def try_(self, item: Item, number: int) -> None:
        results = self._fresh()
        item.make(results / RUN_ID)
        sources = [str(results)] if item.source is None else [str(results / item.source)]
        if item.beside:
            sources.append(str(results))
        before = _tree(self.base)
        wrong: list[str] = []
        if item.kind == "records":
            for place, name in enumerate(self.reading):
                if self.part and name != "list" and (place + number) % 3:
                    continue
                formats = _formats(self.commands[name])
                if self.part or not item.taken:
                    formats = [formats[number % len(formats)]]
                for format_ in formats:
                    # Of more than 50 records only --every-record lists the good one.
                    more = ["--all", "--every-record"] * (name == "list") + ["--verify"] * (
                        name == "list" and item.verify
                    )
                    done = self._run(name, format_, sources, more, item)
                    wrong += self._judged(name, format_, done, item)
            if not self.part or number % 3 == 0:
                wrong += self._packed(sources, item)
        else:
            wrong += self._others(item, results)
        changed = before ^ _tree(self.base)
        wrong += [f"written outside the output: {sorted(changed)[:3]}"] if changed else []
        for sentence in dict.fromkeys(wrong):
            self.tally.losses.append(f"{item.name}: {sentence}")
        self.tally.tried += 1
        self.tally.lost += bool(wrong)

    def _judged(self, name: str, format_: str, done: Done, item: Item) -> list[str]:
        wrong = self._amiss(name, format_, done, item)
        usual = self.usual[name, format_]
        said = done.out + done.err + "".join(map(_text, done.files.values()))
        if item.refuses:
            # Of health 1 would say that a node failed.
            wanted = 2 if name == "health" else 1
            if done.status != wanted or done.err.count("trueup: error:") != 1:
                wrong.append(f"{name}: status {done.status}, not one sentence: {done.err[:200]}")
            return wrong
        for bad in item.named:
            if bad not in said:
                wrong.append(f"{name} {format_}: {bad!r} is not named")
        if not item.taken and item.beside is False and not item.changes:
            # A file that is named is missing from the tables.
            wanted = usual.status or (2 if name == "health" else 1) * bool(item.named)
            if done.status != wanted and not item.verify:
                wrong.append(f"{name} {format_}: status {done.status}, not {wanted}")
            # Of a bad run.json health says so, where it else says that there is none.
            said_otherwise = name == "list" or (name == "health" and "run.json" in item.named)
            if not said_otherwise and done.out != usual.out:
                wrong.append(f"{name} {format_}: prints something else of the good record")
        # A narrow column breaks its name after the hyphen.
        if name == "list" and "acoustic-" not in done.out:
            wrong.append(f"list {format_}: the good record is not there")
        return wrong

    def _amiss(self, name: str, format_: str, done: Done, item: Item | None = None) -> list[str]:
        """What no command may do, whatever it is given."""
        wrong = []
        what = f"{name} {format_}".strip()
        if done.late or done.cpu > CPU_SECONDS:
            wrong.append(f"{what}: {done.cpu:.1f} s of processor time, late: {done.late}")
        if done.memory > MEMORY_BYTES:
            wrong.append(f"{what}: {done.memory / 2**20:.0f} MiB")
        if "Traceback" in done.err or "Error: " in done.err.split("error:")[0]:
            wrong.append(f"{what}: {done.err.strip().splitlines()[-1][:300]}")
        if done.status not in {*_STATUSES.get(name, {0, 1}), *((2,) if name == "read" else ())}:
            wrong.append(f"{what}: status {done.status}: {done.err[-300:]}")
        texts = {"standard output": (format_, done.out), "standard error": ("", done.err)}
        for path, content in done.files.items():
            kind = {".html": "html", ".csv": "csv", ".json": "json"}.get(Path(path).suffix, "")
            if Path(path).suffix not in {".png", ".parquet"}:
                texts[path] = (kind, _text(content))
        for where, (kind, text) in texts.items():
            wrong += [f"{what}: {where}: {why}" for why in _unclean(kind, text)]
        if "canary-outside" in done.out + done.err + "".join(map(_text, done.files.values())):
            wrong.append(f"{what}: shows a file outside the results")
        return wrong

    def _packed(self, sources: Sequence[str], item: Item) -> list[str]:
        """A packed file says of the records what their folder says."""
        if item.refuses:
            return []
        packed = self.base / "all.parquet"
        done = self._run("pack", "", sources, ["--output", str(packed)], item)
        if done.status != ("could not be read." in done.err) or not packed.exists():
            return [f"pack: status {done.status}: {done.err[-200:]}"]
        wrong = []
        plain = self._run("list", "json", sources, item=item)
        again = self._run("list", "json", [str(packed)], item=item)
        wrong += self._amiss("list", "json", again)
        if plain.out != again.out:
            wrong.append("list of the packed file differs from that of the folder")
        packed.unlink()
        return wrong

    def _others(self, item: Item, results: Path) -> list[str]:
        """Files of tools and of users, and folders of catalogs."""
        wrong = []
        place = results / RUN_ID / item.named[0] if item.named else results
        for name, calls in GIVEN.items():
            if name not in self.commands:
                continue
            for given in calls:
                if f"{{{item.kind}}}" not in given:
                    continue
                words = [
                    word.format(file=place, catalog=place, results=results, output="{output}")
                    for word in given
                ]
                formats = _formats(self.commands[name])
                done = self._run(name, formats[-1], [], words, item)
                wrong += self._amiss(name, formats[-1], done, item)
                # Any text is a log.
                if done.status == 0 and not item.taken and name != "explain":
                    wrong.append(f"{' '.join([name, *given])}: status 0")
                elif done.status == 1 and name not in {"read", "explain"} and not done.err.strip():
                    wrong.append(f"{' '.join([name, *given])}: status 1 and no word")
        return wrong

    def _run(
        self,
        name: str,
        format_: str,
        sources: Sequence[str],
        more: Sequence[str] = (),
        item: Item | None = None,
    ) -> Done:
        aside = Path(tempfile.mkdtemp(prefix="trueup-hostile-out-"))
        output = aside / "output"
        output.mkdir()
        aside.chmod(0o777)
        output.chmod(0o777)
        argv = [*name.split(), *(word.replace("{output}", str(output)) for word in more), *sources]
        if format_:
            argv += ["--format", format_]
        if name in {"report", "pack"} and "--output" not in argv:
            argv += ["--output", str(output / ("x.parquet" if name == "pack" else "report"))]
        nobody = item is not None and item.nobody
        # strace compares whole paths.
        faults = item.strace if item is not None else ()
        strace = [f"{self.base}{one}" if one.startswith("/results/") else one for one in faults]
        done = _child(argv, aside, nobody=nobody, strace=strace)
        done.files = {
            str(path.relative_to(output)): path.read_bytes()
            for path in output.rglob("*")
            if path.is_file()
        }
        # Random in each call.
        done.out = done.out.replace(str(aside), "")
        shutil.rmtree(aside, ignore_errors=True)
        self.calls += 1
        if done.cpu > self.cpu:
            self.cpu, self.slowest = done.cpu, f"{name}, {item.name if item else 'good'}"
        if done.memory > self.memory:
            self.memory, self.largest = done.memory, f"{name}, {item.name if item else 'good'}"
        return done


def _child(argv: list[str], aside: Path, *, nobody: bool, strace: Sequence[str]) -> Done:
    """The command in a process forked from this one; under strace in a new one."""
    out, err = aside / "out", aside / "err"
    pid = os.fork()
    if pid == 0:
        status = 70
        try:
            os.setsid()
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(os.open(out, os.O_WRONLY | os.O_CREAT), 1)
            os.dup2(os.open(err, os.O_WRONLY | os.O_CREAT), 2)
            resource.setrlimit(resource.RLIMIT_CPU, (4 * CPU_SECONDS, 4 * CPU_SECONDS + 2))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (size + 4 * 2**30, size + 4 * 2**30))
            os.environ.update(HOME=str(aside), XDG_CONFIG_HOME=str(aside), NO_COLOR="1")
            os.environ["PYTHONPATH"] = f"{ROOT / 'module_utils'}:{ROOT / 'analysis'}"
            os.chdir(aside)
            if strace:
                command = ["strace", "-f", "-qq", "-o", os.devnull, *strace, sys.executable, "-m"]
                os.execvp("strace", [*command, "trueup_analysis", *argv])
            if nobody:
                os.setgroups([])
                os.setgid(NOBODY)
                os.setuid(NOBODY)
            status = _main(argv)
        except BaseException:  # noqa: BLE001 WHY: what gets here is what the attack looks for
            traceback.print_exc()
            sys.stderr.flush()
        finally:
            os._exit(status)
    ended = time.monotonic() + WALL_SECONDS * (3 if strace else 1)
    late = False
    while True:
        found, said, used = os.wait4(pid, os.WNOHANG)
        if found:
            break
        if time.monotonic() > ended and not late:
            late = True
            os.killpg(pid, signal.SIGKILL)
        time.sleep(0.005)
    return Done(
        os.waitstatus_to_exitcode(said),
        _text(out.read_bytes()) if out.exists() else "",
        _text(err.read_bytes()) if err.exists() else "",
        0.0 if strace else used.ru_utime + used.ru_stime,
        used.ru_maxrss * 1024,
        late,
    )


def _main(argv: list[str]) -> int:
    from trueup_analysis import cli

    sys.argv = ["trueup", *argv]
    try:
        cli.main()
    except SystemExit as stopped:
        code = stopped.code
        return code if isinstance(code, int) else int(code is not None)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    return 0


def _text(content: bytes) -> str:
    # What is no UTF-8 is left to _unclean as surrogates.
    return content.decode("utf-8", "surrogateescape")


_MARKUP = re.compile(r"(?<!\\)<(?:script|img)", re.IGNORECASE)


def _unclean(kind: str, text: str) -> list[str]:
    """What a text holds that a terminal, a browser or a spreadsheet would obey."""
    wrong = []
    if not text.isascii() or not text.replace("\n", "").isprintable():
        obeyed = {"Cc", "Cf", "Cs", "Zl", "Zp"}
        found = {char for char in set(text) - {"\n"} if unicodedata.category(char) in obeyed}
        wrong += [f"holds {sorted(map(ascii, found))[:4]}"] if found else []
    if kind in {"html", "markdown", "junit"} and (found_ := _MARKUP.search(text)):
        wrong.append(f"markup {text[max(0, found_.start() - 20) : found_.end() + 20]!r}")
    if kind == "json" and text:
        try:
            json.loads(text)
        except ValueError as error:
            wrong.append(f"is no JSON: {error}")
    if kind == "junit" and text:
        try:
            ET.fromstring(text)
        except ET.ParseError as error:
            wrong.append(f"is no XML: {error}")
    if kind == "csv":
        wrong += _formulas(text)
    return wrong[:3]


def _formulas(text: str) -> list[str]:
    csv.field_size_limit(2**30)
    cells = (cell for row in csv.reader(io.StringIO(text)) for cell in row)
    begins = {"=", "+", "-", "@", "\t", "\r"}
    return [
        f"a formula: {cell[:40]!r}" for cell in cells if cell[:1] in begins and not _is_number(cell)
    ]


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return cell == "-"
    return True


def _tree(base: Path) -> set[tuple[str, int, int]]:
    """Names, kinds and sizes of all below a folder."""
    found = set()
    for folder, below, names in os.walk(os.fsencode(base)):
        for name in (*below, *names):
            state = os.lstat(os.path.join(folder, name))
            size = 0 if stat.S_ISDIR(state.st_mode) else state.st_size
            found.add((os.fsdecode(os.path.join(folder, name)), state.st_mode, size))
    return found
