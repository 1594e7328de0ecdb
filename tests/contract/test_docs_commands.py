"""Each command of the README, the tutorials, the guides and the benchmark pages runs.

``trueup`` runs with the page's own arguments in a folder of records and logs. Commands that ask a
network or hold placeholders (capitals) are checked by their options alone. Of ``make`` the target
and its values must exist, of ``ansible-playbook`` the playbook, the inventory and each variable.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import textwrap
from dataclasses import dataclass, replace
from pathlib import Path
from unittest import mock

import pytest
import recorded_runs
import yaml
from trueup_analysis import cli
from trueup_controller import settings

ROOT = Path(__file__).resolve().parents[2]
PAGES = (
    ROOT / "README.md",
    *sorted(
        path
        for folder in ("start", "guides", "benchmarks", "families", "explain", "troubleshooting")
        for path in (ROOT / "docs" / folder).glob("*.md")
    ),
)
_PROGRAMS = ("trueup", "make", "ansible-playbook", "ansible-inventory")
_ASSIGNED = re.compile(r"^(?:[A-Z_]+=\S+ )+")
# A word that a reader replaces.
_PLACEHOLDER = re.compile(
    r"\b(FILE|LOG|SIZE|RUN|RUN_ID|NAME|FOLDER|RECIPE|COMMAND|TOPO)\b|<|\.\.\."
)
# They ask Azure, a webhook or a terminal.
_OUTSIDE = ("prices refresh", "prices spot", "azure leftovers")
# Runs of the same work on later days.
BENCHMARKS = {"stream", "nccl", "vllm"}
LATER = ("20261121T110000Z-e002", "20261122T110000Z-e003", "20261123T110000Z-e004")


@dataclass(frozen=True)
class Command:
    """A line of a page."""

    page: str
    text: str

    @property
    def words(self) -> list[str]:
        return shlex.split(_ASSIGNED.sub("", self.text), comments=True)


def _lines(text: str) -> list[str]:
    """The lines of indented blocks; a quote that is open takes the next line too."""
    lines: list[str] = []
    for line in re.findall(r"^ {4,}(\S.*)$", text, re.MULTILINE):
        if lines and _is_open(lines[-1]):
            lines[-1] += " " + line
        else:
            lines.append(line)
    return lines


def _is_open(line: str) -> bool:
    if not _is_command(line):
        return False
    try:
        shlex.split(line, comments=True)
    except ValueError:
        return True
    return line.endswith("\\")


def _is_command(line: str) -> bool:
    first = _ASSIGNED.sub("", line).split(" ")[0]
    return Path(first).name in _PROGRAMS and (first == Path(first).name or ".venv/bin/" in first)


def commands() -> list[Command]:
    """Every command of the pages, each once a page."""
    found = [
        Command(path.relative_to(ROOT).as_posix(), line)
        for path in PAGES
        for line in _lines(path.read_text(encoding="utf-8"))
        if _is_command(line)
    ]
    return [*dict.fromkeys(found)]


def _of(program: str) -> list[Command]:
    return [one for one in commands() if Path(one.words[0]).name == program]


def _ids(rows: list[Command]) -> list[str]:
    return [f"{one.page}: {one.text[:60]}" for one in rows]


def test_the_pages_hold_commands() -> None:
    counts = {program: len(_of(program)) for program in _PROGRAMS}
    assert {
        name: count >= least for (name, count), least in zip(counts.items(), (90, 10, 40, 1))
    } == dict.fromkeys(counts, True)


@pytest.fixture(name="desk", scope="module")
def _desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the pages name: logs, records of several runs, files of answers."""
    desk = tmp_path_factory.mktemp("desk")
    for name in ("catalog", "docs", "inventories"):
        (desk / name).symlink_to(ROOT / name)
    for run in _runs():
        recorded_runs.write(desk / "results", run)
    copies = {"results/A": LATER[0], "results/B": LATER[1], "results/RUN": LATER[1]}
    copies |= {"results/20261120T091300Z-7c1e": LATER[0], "monday": "", "tuesday": ""}
    copies |= {"baseline": LATER[0]}
    for name, source in copies.items():
        shutil.copytree(desk / "results" / source, desk / name)
    for name, text in _files().items():
        (desk / name).parent.mkdir(parents=True, exist_ok=True)
        (desk / name).write_text(text, encoding="utf-8")
    evidence = desk / "results/evidence/20261130T092327Z-h100-0017.tar.gz"
    evidence.parent.mkdir()
    with tarfile.open(evidence, "w:gz") as archive:
        archive.add(desk / "nccl.log", "nccl.log")
    _, topology, _ = _said(["topology", "write", "--size", "Standard_ND96asr_v4"])
    (desk / "topo.xml").write_text(topology, encoding="utf-8")
    packed = desk / "year.parquet"
    assert _said(["pack", str(desk / "results"), "--output", str(packed)])[0] == 0
    by_day = ["pack", str(desk / "results"), "--by-day", "--output", str(desk / "store")]
    assert _said(by_day)[0] == 0
    return desk


def _runs() -> list[recorded_runs.Run]:
    """A run of some tools, the same on later days, and a scaling series as the last."""
    every = recorded_runs.every_tool()
    some = [
        (record, output)
        for record, output in zip(every.records, every.outputs, strict=True)
        if record["benchmark"] in BENCHMARKS
    ]
    runs = [
        replace(
            every,
            run_id=run_id,
            records=tuple({**record, "run_id": run_id} for record, _ in some),
            outputs=tuple(output for _, output in some),
            manifest={**every.manifest, "count": count},
        )
        for count, run_id in enumerate((every.run_id, *LATER), 1)
    ]
    last = recorded_runs.hbv3_scaling(counts=(1, 2, 4))
    return [*runs, replace(last, manifest={**last.manifest, "count": len(runs) + 1})]


def _files() -> dict[str, str]:
    data = ROOT / "tests" / "data"
    nccl = (data / "nccl" / "infiniband.txt").read_text(encoding="utf-8")
    stencil = "work: stencil\ngrid: 512x512x512\nsteps: 1000\n"
    return {
        "nccl.log": nccl,
        "runs/node01/nccl.log": nccl,
        "good/node01/nccl.log": nccl,
        "good/nccl.log": nccl,
        "logs/nccl.log": nccl,
        "fio.json": (data / "fio" / "fio333_write_psync.json").read_text(encoding="utf-8"),
        "benchmarks.json": (data / "evidence" / "benchmarks.json").read_text(encoding="utf-8"),
        "devito.log": (data / "devito" / "openmp.log").read_text(encoding="utf-8"),
        "md.log": (data / "gromacs" / "md_r1t1.log").read_text(encoding="utf-8"),
        "train.log": (data / "megatron" / "synthetic_megatron_lm.log").read_text(encoding="utf-8"),
        "stream.log": (data / "stream" / "stream510.txt").read_text(encoding="utf-8"),
        "Qwen3-32B-FP8/config.json": (data / "models/llama/config.json").read_text("utf-8"),
        "ours.yml": _limits(),
        "work.yml": stencil,
        "mine.yml": "owner: geophysics\nssh_from: [203.0.113.7/32]\n",
    }


def _limits() -> str:
    """The example of the page about limits."""
    page = (ROOT / "docs" / "guides" / "own_limits.md").read_text(encoding="utf-8")
    block = re.search(r"^    expectations:\n(?: {4}.*\n)+", page, re.MULTILINE)
    assert block is not None
    return textwrap.dedent(block[0])


def _said(words: list[str]) -> tuple[int, str, str]:
    """Exit status, standard output and standard error of trueup."""
    out, err = io.StringIO(), io.StringIO()
    status = 0
    with (
        mock.patch.object(sys, "argv", ["trueup", *words]),
        mock.patch.object(sys, "stdin", io.StringIO("")),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            cli.main()
        except SystemExit as ended:
            status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    return status, out.getvalue(), err.getvalue()


TRUEUP = [*{tuple(one.words[1:]): one for one in reversed(_of("trueup"))}.values()]
TUTORIAL = "docs/start/log.md"


@pytest.mark.parametrize("command", TRUEUP, ids=_ids(TRUEUP))
def test_trueup_runs(command: Command, desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes the page's options: no wrong usage, and no file of the page is missing."""
    monkeypatch.chdir(desk)
    text, _, redirected = command.text.partition("  #")[0].partition(" > ")
    words = Command(command.page, text.partition(" < ")[0]).words[1:]
    if _PLACEHOLDER.search(text) or " ".join(words).startswith(_OUTSIDE):
        status, help_text, error = _said([*_subcommand(words), "--help"])
        plain = re.sub(r"\s+", " ", help_text)
        unknown = [word for word in words if word.startswith("--") and word not in plain]
        assert (status, unknown, error) == (0, [], "")
        return
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    expanded = [name for word in words for name in _globbed(desk, word)]
    status, _, error = _said(expanded)
    assert status in {0, 1, 2}, error
    assert "Traceback" not in error
    assert re.findall(r"no such|cannot be read: No such|does not exist", error, re.IGNORECASE) == []
    assert redirected == redirected.strip("|")


def _subcommand(words: list[str]) -> list[str]:
    named = [word for word in words[:2] if not word.startswith("-")]
    inner = named[:1] and getattr(cli.command(named[0]), "commands", {})
    return named if len(named) == 2 and named[1] in (inner or {}) else named[:1]


def _globbed(desk: Path, word: str) -> list[str]:
    """What a shell makes of a word without quotes."""
    if "*" not in word or "=" in word:
        return [word]
    return sorted(path.relative_to(desk).as_posix() for path in desk.glob(word)) or [word]


def test_the_tutorial_of_a_log_ends_in_its_price(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    page = ROOT / TUTORIAL
    answers = {}
    for command in _of("trueup"):
        if command.page == TUTORIAL:
            answers[command.text] = _said(command.words[1:])
    assert {text: status for text, (status, _, _) in answers.items() if status != 0} == {}
    (priced,) = [line for line in _lines(page.read_text()) if line.startswith("A100: ")]
    assert answers["trueup cost"][1].splitlines()[0] == priced
    assert (tmp_path / "report" / "index.html").is_file() is True


MAKE = _of("make")


@pytest.mark.parametrize("command", MAKE, ids=_ids(MAKE))
def test_make_has_the_target_and_its_values(command: Command) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    words = (
        command.words[1 : command.words.index("&&")] if "&&" in command.words else command.words[1:]
    )
    given = [word.partition("=")[0] for word in words if "=" in word]
    targets = [word for word in words if "=" not in word]
    known = set(re.findall(r"^([a-z][a-z-]*)[ a-z-]*:", makefile, re.MULTILINE))
    known |= {
        name
        for line in re.findall(r"^((?:[a-z]+-venv ?)+):", makefile, re.MULTILINE)
        for name in line.split()
    }
    assert [name for name in targets if name not in known] == []
    assert [name for name in given if not re.search(rf"\b{name}\b", makefile)] == []


PLAYS = _of("ansible-playbook") + _of("ansible-inventory")
PLAYBOOKS = sorted(
    {
        word
        for one in PLAYS
        for word in one.words
        if re.fullmatch(r"(?:site|playbooks/\w+)\.yml", word)
    }
)


def _variables(words: list[str]) -> set[str]:
    """The names that `-e` sets."""
    values = [words[at + 1] for at, word in enumerate(words) if word == "-e"]
    names: set[str] = set()
    for value in values:
        if value.startswith("{"):
            names |= set(json.loads(value))
        elif not value.startswith("@"):
            names.add(value.partition("=")[0])
    return names


@pytest.fixture(name="known", scope="module")
def _known() -> set[str]:
    known = {f"{settings.PREFIX}{option.name}" for option in settings.OPTIONS}
    for path in (ROOT / "roles").rglob("meta/argument_specs.yml"):
        for spec in yaml.safe_load(path.read_text(encoding="utf-8"))["argument_specs"].values():
            known |= set(spec.get("options") or {})
    playbooks = (path.read_text(encoding="utf-8") for path in (ROOT / "playbooks").rglob("*.yml"))
    return known | set(re.findall(r"\b(?:cyclecloud|lab|trueup)_[a-z_]+\b", "".join(playbooks)))


@pytest.mark.parametrize("command", PLAYS, ids=_ids(PLAYS))
def test_ansible_has_the_playbook_and_each_variable(command: Command, known: set[str]) -> None:
    words = command.words
    inventories = [words[at + 1] for at, word in enumerate(words) if word == "-i"]
    local = [name for name in inventories if name.startswith("inventories/")]
    assert [name for name in local if not (ROOT / name.replace("/mine", "/example")).exists()] == []
    playbooks = [word for word in words if word.endswith(".yml") and not word.startswith("@")]
    assert [name for name in playbooks if "=" not in name and not (ROOT / name).is_file()] == []
    assert _variables(words) - known == set()


@pytest.mark.parametrize("playbook", PLAYBOOKS)
def test_ansible_takes_the_playbook(playbook: str) -> None:
    argv = [Path(sys.executable).with_name("ansible-playbook"), "--syntax-check", playbook]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    checked = subprocess.run(
        [*map(str, argv), "-i", "inventories/example"],
        cwd=ROOT,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (checked.returncode, playbook in checked.stdout) == (0, True), checked.stderr


_NAME = re.compile(r"`([a-z][a-z0-9]*(?:_[a-z0-9]+)+)`")
# Names of Ansible, SELinux and Azure's own scripts.
_OF_OTHERS = {"ansible_psrp_certificate_pem", "cache_timeout", "check_app_pinning", "cvmfs_cache_t"}


def test_each_name_of_the_pages_is_in_the_code() -> None:
    """Options, metrics, facts and modules in backquotes."""
    argv = ["git", "grep", "-hoIwE", "[a-z][a-z0-9]*(_[a-z0-9]+)+", "--", ".", ":!docs", ":!*.md"]
    listed = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True)
    words = ["git", "grep", "-hoIwE", "[a-z]+", "--", "plugins/inventory", "controller"]
    facts = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    known = {*listed.stdout.split(), *_OF_OTHERS}
    # The inventory puts `azure_` before the names of its facts.
    known |= {f"azure_{name}" for name in {*facts.stdout.split(), *known}}
    unknown = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in PAGES
        for name in _NAME.findall(path.read_text(encoding="utf-8"))
        if name not in known
    }
    assert unknown == set()


def test_each_message_of_the_troubleshooting_is_in_the_code() -> None:
    argv = ["git", "ls-files", "--", "*.py", "Makefile", "*.yml"]
    listed = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True)
    texts = (
        (ROOT / name).read_text(encoding="utf-8")
        for name in listed.stdout.split()
        if not name.startswith(("tests/", "docs/"))
    )
    code = re.sub(r'"\s*\n\s*f?"', "", "\n".join(texts))
    page = (ROOT / "docs" / "troubleshooting" / "index.md").read_text(encoding="utf-8")
    shown = [
        part.strip()
        for cell in re.findall(r"^\| (.*?) \|", page, re.MULTILINE)
        for message in re.findall(r"`([^`]+)`", cell)
        for part in message.split("...")
    ]
    assert [part for part in shown if part not in code] == []
