"""Everything that writes, on a disk that refuses: at each of its writes, one after the other.

An operation runs on a file system in memory (tmpfs, as root) that is full after so many KiB or
files, or read-only; and under strace, which lets the N-th write, fsync, rename, link, mkdir or
chmod end with EIO or EDQUOT. Each refusal must be one sentence that names the reason, with a status
that is not 0; under each final name stands what stood there before or the whole of what is new;
nothing is left aside; and the same operation afterwards, on a disk that takes it, is good.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from torture import Tally
from torture.hostile_inputs import GOOD, RUN_ID, good_record

ROOT = Path(__file__).parents[2]
_PAGE = 4  # KiB
_MOST_KIB = 64 * 1024
_CALLS = {
    "write": "write,pwrite64,writev",
    "fsync": "fsync,fdatasync",
    "rename": "rename,renameat,renameat2,link,linkat",
    "mkdir": "mkdir,mkdirat",
    "chmod": "chmod,fchmod,fchmodat",
}
_ERRORS = ("EIO", "EDQUOT", "ENOSPC")


@dataclass(frozen=True)
class Operation:
    """Something that writes.

    Attributes:
        program: of Python; ``folder`` is where it writes.
        prepare: what is there before.
        may_leave: names that it makes before the refusal, which are whole by themselves.
    """

    name: str
    program: str
    prepare: Callable[[Path], None] = lambda folder: None
    may_leave: tuple[str, ...] = ()


def _results(folder: Path) -> None:
    run = folder / "results" / RUN_ID
    run.mkdir(parents=True)
    (run / GOOD).write_text(json.dumps(good_record()))


def _earlier(*names: str) -> Callable[[Path], None]:
    def prepare(folder: Path) -> None:
        _results(folder)
        for name in names:
            (folder / name).write_text("earlier\n")

    return prepare


def _cli(*words: str) -> str:
    argv = ", ".join(f"f{word!r}" for word in words)
    return (
        f"import sys; from trueup_analysis.cli import main; sys.argv = ['trueup', {argv}]; main()"
    )


_MODULE = """
import json, runpy, sys
import ansible.module_utils as package
package.__path__.append({utils!r})
from ansible.module_utils import basic
basic._ANSIBLE_ARGS = json.dumps({{"ANSIBLE_MODULE_ARGS": {arguments}}}).encode()
basic._ANSIBLE_PROFILE = "legacy"
runpy.run_path({path!r}, run_name="__main__")
"""

OPERATIONS = (
    Operation(
        "a record and its raw output",
        "from trueup_node.record import write_record\n"
        "from torture.hostile_inputs import good_record\n"
        "write_record(f'{folder}/results', good_record(case='new'), raw='x' * 30_000)",
        _results,
        # The raw output goes first; without its record it is no half of anything.
        may_leave=("devito-new-made-1.raw.txt",),
    ),
    Operation(
        "run.json of a run that begins",
        "from trueup_node.record import new_manifest, write_manifest\n"
        f"made = new_manifest('{RUN_ID}', 0, 'site.yml', '2026-11-20T09:13:00Z')\n"
        "write_manifest(f'{folder}/results', {**made, 'warnings': ['x' * 9000]})",
        _results,
    ),
    Operation(
        "trueup list --output",
        _cli("list", "{folder}/results", "-f", "json", "-o", "{folder}/out.json"),
        _earlier("out.json"),
    ),
    Operation(
        "trueup pack",
        _cli("pack", "{folder}/results", "-o", "{folder}/all.parquet"),
        _earlier("all.parquet"),
    ),
    Operation(
        "trueup report", _cli("report", "{folder}/results", "-o", "{folder}/report"), _results
    ),
    Operation(
        "trueup import",
        _cli(
            "import",
            str(ROOT / "tests/data/stream/stream510.txt"),
            "--size",
            "Standard_HB120rs_v3",
            "--results",
            "{folder}/results",
        ),
        _results,
    ),
    Operation(
        "trueup azure plan --template",
        _cli(
            "azure",
            "plan",
            "devito-hbv3",
            "-p",
            "{folder}/mine.yml",
            "--template",
            "{folder}/arm.json",
            "-o",
            "{folder}/plan.txt",
        ),
        lambda folder: (
            (folder / "mine.yml").write_text(
                "owner: me\nregion: eastus\nssh_from: [203.0.113.7/32]\n"
            )
            and None
        ),
    ),
    Operation(
        "newer prices of one's own",
        "from pathlib import Path\n"
        "from trueup_analysis import catalog, retail\n"
        "from trueup_analysis.figures.prices import read_prices\n"
        f"rows = read_prices(Path({str(ROOT / 'catalog/prices.csv')!r}))\n"
        "rows = [{name: str(row[name]) for name in catalog.PRICE_COLUMNS} for row in rows]\n"
        "retail.keep(Path(f'{folder}/prices.csv'), rows, [])",
        _earlier("prices.csv"),
    ),
    Operation(
        "a run's state on Azure",
        "import os; os.environ['TRUEUP_AZURE_STATE'] = f'{folder}/azure'\n"
        "from trueup_controller.azure.run_state import State\n"
        f"state = State('{RUN_ID}')\n"
        "with state.alone():\n"
        "    state.write(owner='x' * 9000)\n"
        "    state.public_key()\n"
        "    state.password()",
    ),
    Operation(
        "the lock of a node",
        "from trueup_node.run.lock import locked\n"
        "try:\n"
        "    with locked(f'{folder}/benchmark.lock', 1.0, {'case': 'x' * 9000}): pass\n"
        "except OSError as error:\n"
        "    raise SystemExit(error.strerror)",
    ),
    Operation(
        "configuration files of a node",
        _MODULE.format(
            utils=str(ROOT / "module_utils"),
            path=str(ROOT / "library/config_files.py"),
            arguments="{'files': [{'path': f'{folder}/etc/a.conf', 'content': 'a' * 9000},"
            " {'path': f'{folder}/b.conf', 'content': 'b' * 9000},"
            " {'path': f'{folder}/c', 'state': 'link', 'target': 'b.conf'}]}",
        ),
        _earlier("b.conf"),
        may_leave=("a.conf",),
    ),
)


def operations(count: int, seed: int) -> Tally:
    """``count`` is how many refusals of each kind of call are tried of each operation at most."""
    del seed
    tally = Tally()
    if os.getuid() != 0:
        tally.skipped = "a file system in memory needs root"
        return tally
    if shutil.which("strace") is None:
        tally.skipped = "strace is not installed"
        return tally
    base = Path(tempfile.mkdtemp(prefix="trueup-full-disk-"))
    try:
        for operation in OPERATIONS:
            _Disk(base, operation, tally, count).attack()
    finally:
        shutil.rmtree(base, ignore_errors=True)
    return tally


class _Disk:
    def __init__(self, base: Path, operation: Operation, tally: Tally, most: int) -> None:
        self.folder = base / "disk"
        self.aside = base / "aside"
        self.operation, self.tally, self.most = operation, tally, most
        self.good: dict[str, str] = {}

    def attack(self) -> None:
        """All refusals of one operation."""
        begun = self.tally.tried
        for path in (self.folder, self.aside):
            path.mkdir(exist_ok=True)
        with self._fresh():
            before = _content(self.folder)
            done = self._run()
            self.good = _content(self.folder)
            used = _kib(self.folder)
        if done.returncode:
            self.tally.lose(f"{self.operation.name}: not good by itself: {done.stderr[-200:]}")
            return
        self._full(before, used)
        self._injected(before)
        self.tally.figures.append(f"{self.operation.name}: {self.tally.tried - begun} refusals")

    def _full(self, before: dict[str, str], used: int) -> None:
        """By space, by the number of files, and read-only."""
        with self._fresh():
            start, files = _kib(self.folder), len(list(self.folder.rglob("*"))) + 1
        step = max(_PAGE, (used - start) // self.most // _PAGE * _PAGE)
        for kib in range(start, used + step, step):
            with self._fresh():
                self._mount("remount", f"size={max(kib, _PAGE)}k")
                if self._judge(f"full after {kib - start} KiB", errno.ENOSPC, before):
                    break
        for more in range(self.most):
            with self._fresh():
                self._mount("remount", f"nr_inodes={files + more}")
                if self._judge(f"full after {more} files", errno.ENOSPC, before):
                    break
        with self._fresh():
            self._mount("remount", "ro")
            self._judge("read-only", errno.EROFS, before)

    def _injected(self, before: dict[str, str]) -> None:
        """The N-th call of a kind."""
        for place, (name, calls) in enumerate(_CALLS.items()):
            for number in range(1, self.most + 1):
                error = _ERRORS[(place + number) % len(_ERRORS)]
                with self._fresh():
                    log = self.aside / "log"
                    log.unlink(missing_ok=True)
                    strace = [
                        *("strace", "-f", "-y", "-qq", "-s", "0", "--seccomp-bpf", "-o", str(log)),
                        *(
                            "-e",
                            f"trace={calls}",
                            "-e",
                            f"inject={calls}:error={error}:when={number}",
                        ),
                    ]
                    done = self._run(strace)
                    hit = [line for line in log.read_text().splitlines() if "(INJECTED)" in line]
                    if not hit:
                        break
                    # What the process says, or writes elsewhere, is another matter.
                    if not all(str(self.folder) in line for line in hit):
                        continue
                    what = f"{error} of {name} {number}"
                    self._judge(what, getattr(errno, error), before, done)

    def _judge(
        self,
        what: str,
        number: int,
        before: dict[str, str],
        done: subprocess.CompletedProcess[str] | None = None,
    ) -> bool:
        """Whether the operation went through."""
        done = self._run() if done is None else done
        wrong = self._after(before)
        said = done.stdout + done.stderr
        passed = done.returncode == 0
        if not passed:
            if "Traceback" in said:
                wrong.append(f"traceback: {said.strip().splitlines()[-1][:200]}")
            if os.strerror(number) not in said:
                wrong.append(f"the reason is not said: {said[-200:]!r}")
        elif done.args[0] == "strace":
            lacking = {name for name in self.good if name not in _content(self.folder)}
            if lacking:
                wrong.append(f"status 0, and {sorted(lacking)} are not there")
        self._mount("remount", f"size={_MOST_KIB}k,nr_inodes=0,rw")
        again = self._run()
        if again.returncode:
            wrong.append(f"not good afterwards: {again.stderr[-200:]}")
        if passed and done.args[0] != "strace":
            return True
        if wrong:
            self.tally.lose(f"{self.operation.name}: {what}: {'; '.join(dict.fromkeys(wrong))}")
        else:
            self.tally.survived()
        return False

    def _after(self, before: dict[str, str]) -> list[str]:
        """What a refusal left that it must not."""
        wrong = []
        now = _content(self.folder)
        wrong += [f"{name} is gone" for name in before if name not in now]
        for name, digest in now.items():
            base = name.rsplit("/", 1)[-1]
            if base == ".lock":
                continue
            if base.startswith(".") or base.endswith((".tmp", ".trueup-new")):
                wrong.append(f"left aside: {name}")
            elif before.get(name) != digest and not self._whole(name, digest):
                wrong.append(f"{name} is a part")
        return wrong

    def _whole(self, name: str, digest: str) -> bool:
        if self.good.get(name) == digest or (
            self.operation.may_leave and name.endswith(self.operation.may_leave)
        ):
            return True
        path = self.folder / name
        if path.suffix == ".json":
            # Times and ids are others in each run.
            try:
                return bool(json.loads(path.read_text()))
            except ValueError:
                return False
        # Of random content, or an empty lock.
        kept = re.sub(r"[0-9]{8}T[0-9]{6}Z-[0-9a-f]{4}", "", name)
        return (path.stat().st_size == 0 and path.suffix == ".lock") or kept.endswith(
            (".raw.txt", "id_ed25519", "id_ed25519.pub", "lock", "windows_password")
        )

    def _run(self, before: list[str] | None = None) -> subprocess.CompletedProcess[str]:
        program = f"folder = {str(self.folder)!r}\n" + self.operation.program
        if "sys.exit" not in program and "main()" not in program and "runpy" not in program:
            # As the product's own callers do: a known error is a sentence.
            body = "".join(f"    {line}\n" for line in program.splitlines())
            program = (
                "import sys\nfrom trueup_node.errors import TrueupError\ntry:\n"
                + body
                + "except TrueupError as error:\n    sys.exit(f'error: {error}')\n"
            )
        path = os.pathsep.join(str(ROOT / name) for name in ("module_utils", "analysis", "tests"))
        return subprocess.run(
            [*(before or []), sys.executable, "-c", program],
            env={
                **os.environ,
                "PYTHONPATH": path,
                "PYTHONDONTWRITEBYTECODE": "1",
                "TMPDIR": str(self.aside),
                "MPLCONFIGDIR": str(self.aside),
                "HOME": str(self.aside),
            },
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=300,
        )

    def _fresh(self) -> _Mounted:
        return _Mounted(self)

    def _mount(self, *options: str) -> None:
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", ",".join(options), "trueup-full-disk", str(self.folder)],
            check=True,
        )


class _Mounted:
    """The operation's folder as it is before, on a file system of its own."""

    def __init__(self, disk: _Disk) -> None:
        self._disk = disk

    def __enter__(self) -> None:
        self._disk._mount(f"size={_MOST_KIB}k")
        self._disk.operation.prepare(self._disk.folder)

    def __exit__(self, *_: object) -> None:
        subprocess.run(["umount", "-l", str(self._disk.folder)], check=True)


def _content(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() or path.name.startswith(".")
        if not path.is_dir()
    }


def _kib(folder: Path) -> int:
    state = os.statvfs(folder)
    return (state.f_blocks - state.f_bfree) * state.f_frsize // 1024
