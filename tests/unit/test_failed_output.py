"""A benchmark that fails and prints secrets, or without end: however it ends, none of them leaves
the node, and of a long output its beginning and end."""

from __future__ import annotations

import ast
import hashlib
import importlib
import json
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import bench_modules
import pytest
import rank_facts
from ansible.module_utils.trueup_node.errors import ParseError
from ansible.module_utils.trueup_node.node.affinity import Placement
from ansible.module_utils.trueup_node.run import bench
from ansible.module_utils.trueup_node.run.orphan_guard import Orphaned
from bench_modules import FakeRun
from dummy_secrets import SECRETS, left_in, printed
from trueup_controller.desktops import windows_bench
from trueup_node import record as records
from trueup_node.options import Option
from trueup_node.printable import ends, printable
from trueup_node.record import Metric
from trueup_node.redaction import redact

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

LIBRARY = Path(__file__).parents[2] / "library"
LONG = "".join(
    f"step {number}: 2.5 ms\n" + printed() * (number % 40 == 0) for number in range(4000)
)
# The last of them is a program's last word.
FLOOD = LONG + printed()
TIMEOUT = Option("timeout_seconds", "The limit.", 60)


class Parsed:
    """What the stand-in's parser returns."""

    def __init__(self, *warnings: str, unverified: Sequence[str] = ()) -> None:
        self.warnings, self.unverified = warnings, unverified


def module(ending: str) -> Any:
    """A benchmark module whose program gets and prints secrets; ``ending`` says how it ends."""

    def parse(text: str) -> Parsed:
        if ending == "unusable":
            raise ParseError(f"no figure in {text}", 1, text)
        if ending == "unverified":
            return Parsed(unverified=[text])
        return Parsed(*([text] * 2000), text) if ending == "warnings" else Parsed()

    def measure(given: bench.Bench) -> None:
        given.prepare(
            case="flood",
            command=["mpirun", "-x", "HF_TOKEN=hunter2x", "docker", "login", "-p", "hunter2x"],
            parameters={"mount": "user=me,pass=hunter2x"},
            environment={"SMTP_PASS": "hunter2x"},
        )
        given.run(parse, explain=lambda text: text if ending == "explained" else None)
        metric = Metric("rate", 1.0, "1/s", "higher")
        given.finish(metrics=[metric], invalid=FLOOD if ending == "invalid" else None)

    def main() -> None:
        bench.run_module("fio", [TIMEOUT], measure)

    return SimpleNamespace(main=main, measure=measure, __name__="fio_bench")


ENDINGS: dict[str, dict[str, Any]] = {
    "status": {"returncode": 3},
    "explained": {"returncode": 3},
    "signal": {"returncode": -9, "out_of_memory": True},
    "timeout": {"returncode": -15, "timed_out": True},
    "reason": {"returncode": 1, "reason": f"job 7 failed\n{FLOOD}"},
    "cut": {"cut": (f"sh printed 300000000 bytes: {printed()}",)},
    "unusable": {},
    "unverified": {},
    "invalid": {},
    "orphaned": {"error": Orphaned(FLOOD)},
    "absent": {"error": OSError(2, FLOOD)},
    "node": {"error": ConnectionError(FLOOD)},
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_however_it_fails_no_secret_leaves_the_node(
    ending: str, runner: Any, tmp_path: Path
) -> None:
    told = {"stdout": FLOOD, "stderr": FLOOD, "beside": FLOOD, **ENDINGS[ending]}
    result = runner(module(ending))(FakeRun(**told))
    shown = json.dumps(result)
    assert (result["failed"], left_in(shown), "hunter2" in shown) == (True, [], False)
    # Lines of a terminal, on which each text is shown as it is.
    assert sum(text.count("\n") + 1 for text in _texts(result)) < 1100
    assert max(len(text) for text in _texts(result)) < 200_000
    # All that is written is what was returned.
    path = Path(records.write_record(str(tmp_path / "results"), result["record"], result["raw"]))
    written = json.loads(path.read_text())
    kept = written.pop("raw")
    assert {**written, "raw": None} == result["record"]
    if result["raw"] is not None:
        text = (path.parent / kept["path"]).read_text()
        assert text == result["raw"]
        assert kept["sha256"] == hashlib.sha256(text.encode()).hexdigest()
        assert text.splitlines()[0] == "step 0: 2.5 ms"
        assert result["output_tail"] == ([] if ending == "invalid" else text_tail(result["raw"]))


def text_tail(raw: str) -> list[str]:
    """The last lines of the outputs, without what ran beside."""
    own = raw.partition("\n[beside]\n")[0].replace("\n[standard error]\n", "\n")
    return own.strip().splitlines()[-50:]


def _texts(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for item in value.values() for text in _texts(item)]
    if isinstance(value, list):
        return [text for item in value for text in _texts(item)]
    return [str(value)]


def test_check_mode_and_a_refusal_show_no_secret(runner: Any) -> None:
    run = runner(module("status"))
    checked = run(FakeRun(), check=True)
    refused = run(FakeRun(), timeout_seconds=0)
    assert (checked["command"][2], checked["environment"]) == ("HF_TOKEN=***", {"SMTP_PASS": "***"})
    assert ("hunter2" in json.dumps(checked), "hunter2" in json.dumps(refused)) == (False, False)


def test_a_good_run_returns_its_whole_output_without_secrets(runner: Any) -> None:
    result = runner(module("status"))(FakeRun(stdout=FLOOD))
    assert (left_in(json.dumps(result)), "hunter2" in json.dumps(result)) == ([], False)
    assert result["raw"] == redact(FLOOD)
    assert result["raw"].count("\nstep ") == 3999
    assert result["ansible_facts"]["trueup_fio"] == result["record"]


def test_of_a_flood_of_warnings_the_first_are_shown(runner: Any) -> None:
    result = runner(module("warnings"))(FakeRun(stdout=FLOOD))
    assert (len(result["warnings"]), left_in(json.dumps(result))) == (2, [])
    said = "1981 more warnings about this output are not shown"
    assert said in str(result["warnings"][1])


class Host:
    """A Windows host whose program fails."""

    def __init__(self, error: str = "") -> None:
        self.error = error

    def powershell(self, name: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
        del name, parameters
        if self.error:
            raise ConnectionError(self.error)
        from test_windows_bench import RESULT, kept

        return {**RESULT, "returncode": 3, "stdout": kept(FLOOD), "beside": None}

    def sha256(self, path: str) -> None:
        del path


@pytest.mark.parametrize("error", ["", FLOOD])
def test_a_program_on_windows_is_no_exception(error: str) -> None:
    given = {"run_id": "20261120T091300Z-7c1e", "node_name": "a"}
    measure = module("status").measure
    result = windows_bench.measured("fio", [TIMEOUT], measure, given, Host(error))
    shown = json.dumps(result)
    assert (result["failed"], left_in(shown), "hunter2" in shown) == (True, [], False)
    assert sum(text.count("\n") + 1 for text in _texts(result)) < 600


def test_a_text_is_cut_after_its_secrets_went() -> None:
    shown = printable(FLOOD)
    first, _, last = shown.partition("\n[trueup: ")
    assert first == "\n".join(redact(FLOOD).split("\n")[:30])
    assert last.split("]\n")[1] == "\n".join(redact(FLOOD).split("\n")[-100:])
    whole = FLOOD.encode()
    said = f"the whole has {len(whole)} bytes, SHA-256 {hashlib.sha256(whole).hexdigest()}"
    assert said in last
    assert (printable(shown), redact(shown)) == (shown, shown)


@pytest.mark.parametrize("length", [1, 20, 16_000, 49_000])
def test_no_cut_leaves_a_part_of_a_secret(length: int) -> None:
    """Whatever stands before and after it."""
    for text, secret in SECRETS[::3]:
        whole = "x " * (length // 2) + text.format(secret) + " y" * 40_000
        turned = " y" * 40_000 + "\n" + text.format(secret) + " x" * (length // 2)
        assert (left_in(printable(whole)), left_in(printable(turned))) == ([], [])


def test_a_line_without_end_is_cut_too() -> None:
    shown = ends("a" * 10**6, "b" * 10**6, 10**9, "5" * 64)
    assert [len(line) for line in shown.split("\n")] == [16384, 138, 49152]


def test_a_launcher_that_fails_shows_no_secret(
    monkeypatch: pytest.MonkeyPatch, runner: Any
) -> None:
    """rank_facts is no benchmark, and starts a program all the same."""
    for name in ("run_id", "node_name"):
        monkeypatch.delitem(bench_modules.COMMON, name)  # it is no benchmark
    run = runner(rank_facts, ranks=2, threads_per_rank=1, launcher="mpirun", hosts=["a", "b"])
    monkeypatch.setattr(rank_facts, "placed", lambda *_: Placement(2, 1, "none", ((), ())))
    monkeypatch.setattr(rank_facts.Launcher, "asked", lambda *_: Launcher())
    result = run(FakeRun())
    shown = json.dumps(result)
    assert (result["failed"], left_in(shown), "hunter2" in shown) == (True, [], False)
    assert len(result["output_tail"]) == 50


class Launcher:
    """A launcher whose program fails."""

    kind, node_count = "mpirun", 2

    def command(self, *_: Any, **__: Any) -> list[str]:
        return ["mpirun", "-x", "HF_TOKEN=hunter2x"]

    def variables(self, _: int) -> dict[str, str]:
        return {}

    def run(self, argv: Sequence[str], **_: Any) -> Any:
        return FakeRun(returncode=1, stdout=FLOOD)(list(argv))


def test_every_module_fails_by_the_same_way() -> None:
    """None uses Ansible's own class, whose failures show what they are given."""
    own = []
    for path in sorted(LIBRARY.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module == "ansible.module_utils.basic":
                own += [f"{path.name}: {one.name}" for one in node.names]
    assert own == ["cyclecloud_nodes.py: env_fallback"]
    benches = [path.stem for path in LIBRARY.glob("*_bench.py")]
    runs = {name: importlib.import_module(name).run_module.__name__ for name in benches}
    assert (len(runs), set(runs.values())) == (14, {"run_module"})
