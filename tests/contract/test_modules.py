"""Documentation equals spec, and every benchmark takes and returns what all benchmarks do."""

from __future__ import annotations

import ast
import importlib
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.module_utils.trueup_node.run.bench import COMMON, argument_spec
from trueup_node import benchmarks
from trueup_node.reading import Signature
from trueup_options import RETURNED, ModuleDocFragment

ROOT = Path(__file__).parent.parent.parent
MODULES = sorted(path.stem for path in (ROOT / "library").rglob("*.py"))
BENCHES = [name for name in MODULES if name.endswith("_bench")]
SPEC_KEYS = ("type", "required", "default", "choices", "elements")


def module(name: str) -> Any:
    return importlib.import_module(name)


def test_there_are_modules_to_check() -> None:
    assert {"azure_node_facts", "devito_bench", "stream_bench"} <= set(MODULES)


def spec_of(name: str) -> dict[str, dict[str, Any]]:
    tool = name.removesuffix("_bench")
    case = importlib.import_module(f"ansible.module_utils.trueup_node.benchmarks.{tool}.case")
    return argument_spec(case.OPTIONS)


@pytest.mark.parametrize("name", BENCHES)
def test_the_documentation_equals_the_spec(name: str) -> None:
    page = yaml.safe_load(module(name).DOCUMENTATION)
    tool = name.removesuffix("_bench")
    assert (page["extends_documentation_fragment"], "options" in page) == (
        f"trueup_options.{tool}",
        False,
    )
    fragment = yaml.safe_load(getattr(ModuleDocFragment, tool.upper()))
    documented, spec = (
        {
            option: {key: value[key] for key in SPEC_KEYS if key in value}
            for option, value in options.items()
        }
        for options in (fragment["options"], spec_of(name))
    )
    assert documented == spec
    assert {*spec} >= {"timeout_seconds", *(one.name for one in COMMON)}


@pytest.mark.parametrize("name", BENCHES)
def test_every_benchmark_documents_what_it_returns(name: str) -> None:
    tool = name.removesuffix("_bench")
    fragment = yaml.safe_load(getattr(ModuleDocFragment, tool.upper()))
    notes = "\n".join(fragment["notes"])
    said = dict(re.findall(r"^Returns C\((\w+)\): (.+)\.$", notes, re.MULTILINE))
    assert said == {key: text.format(tool) for key, text in RETURNED.items()}
    assert {*RETURNED} == {
        *("record", "raw", "command", "environment", "resumed", "holder", "ansible_facts")
    }
    assert f"C(trueup_{tool})" in said["ansible_facts"]
    assert [*yaml.safe_load(module(name).RETURN)] == ["record"]


@pytest.mark.parametrize("name", BENCHES)
def test_every_benchmark_has_a_parser_a_role_and_a_page(name: str) -> None:
    tool = name.removesuffix("_bench")
    parser = importlib.import_module(f"{benchmarks.__name__}.{tool}.output")
    assert tool == parser.TOOL
    assert callable(getattr(parser, f"parse_{tool}"))
    signatures = importlib.import_module(f"{benchmarks.__name__}.{tool}.signatures")
    assert isinstance(signatures.SIGNATURE, Signature) is True
    # What stands for a case, and what trueup scaling judges it by.
    headlines = importlib.import_module(f"{benchmarks.__name__}.{tool}.view").VIEW.headlines
    assert {one.direction for one in headlines} <= {"higher", "lower"}
    assert {text for one in headlines for text in (one.metric, one.unit, one.label)} & {""} == set()
    role = getattr(parser, "ROLE", tool)  # a role that installs more than the one tool
    for path in (f"roles/{role}/tasks/benchmark.yml", f"docs/benchmarks/{role}.md"):
        assert (ROOT / path).is_file() is True, path
    sources = (ROOT / "tests" / "data" / tool / "SOURCES.md").read_text()
    recorded = {
        path.name for path in (ROOT / "tests" / "data" / tool).iterdir() if path.suffix != ".md"
    }
    assert {name for name in recorded if name not in sources} == set()


def test_ansible_doc_shows_every_page() -> None:
    done = subprocess.run(
        [str(Path(sys.executable).with_name("ansible-doc")), "-t", "module", *MODULES],
        cwd=ROOT,
        env={**os.environ, "ANSIBLE_NOCOLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    _, *pages = re.split(r"^> MODULE (?:\S+\.)?(\w+) ", done.stdout, flags=re.MULTILINE)
    headings = ("OPTIONS", "EXAMPLES", "RETURN VALUES")
    lacking = {
        name: [heading for heading in headings if heading not in page]
        for name, page in zip(pages[::2], pages[1::2])
    }
    assert lacking == {name: [] for name in MODULES}


@pytest.mark.parametrize(
    "path", sorted((ROOT / "plugins").rglob("*.py")), ids=lambda path: path.stem
)
def test_what_a_plugin_documents_is_yaml_with_its_name(path: Path) -> None:
    texts = {
        target.id: node.value.value
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    if "DOCUMENTATION" in texts:
        assert yaml.safe_load(str(texts["DOCUMENTATION"]))["name"] == path.stem
    else:
        assert path.parent.name in {"action", "doc_fragments", "filter"}
