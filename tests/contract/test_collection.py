"""The collection trueup.azure_hpc in a foreign project: an empty folder with its own ansible.cfg,
inventory and collections path. None of the checkout's packages can be imported there."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from trueup_controller.project import LIBRARIES

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
NAME = "trueup.azure_hpc"
CONFIG = f"""[defaults]
collections_path = collections
inventory = inventory.yml
callbacks_enabled = {NAME}.trueup_records
"""
LOCAL = {
    "ansible_connection": "local",
    "ansible_python_interpreter": sys.executable,
    # No metadata service answers: the machine is no VM of Azure.
    "trueup_metadata_url": "http://127.0.0.1:9",
}
# As in an environment that has the libraries of requirements.txt, and not trueup.
BLOCKER = """from importlib.machinery import PathFinder

find_spec = PathFinder.find_spec
PathFinder.find_spec = lambda name, *more: None if name in {blocked!r} else find_spec(name, *more)
"""
OWN = ("trueup", "trueup_node", "trueup_controller", "trueup_analysis")


# What these need of a node they are given by the role that includes them.
HELPERS = {"hf_model", "llm_kernels", "pinned_venv", "python", "vendor_packages"}


class Project:
    """A foreign project."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "ansible.cfg").write_text(CONFIG)
        hosts = {"all": {"children": {"hbv3": {"hosts": {"node-1": LOCAL}}}}}
        (folder / "inventory.yml").write_text(yaml.safe_dump(hosts))

    def run(
        self, program: str, *arguments: str, lacks: tuple[str, ...] = (), **environment: str
    ) -> subprocess.CompletedProcess[str]:
        block = self.folder / "block"
        block.mkdir(exist_ok=True)
        (block / "sitecustomize.py").write_text(BLOCKER.format(blocked=(*OWN, *lacks)))
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
        own = {"PYTHONPATH": str(block), "ANSIBLE_NOCOLOR": "1", "LC_ALL": "C.UTF-8"}
        return subprocess.run(
            [str(BIN / program), *arguments],
            cwd=self.folder,
            env={**kept, **own, **environment},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    def play(self, text: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        (self.folder / "play.yml").write_text(text)
        return self.run("ansible-playbook", "play.yml", *arguments)


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, ROOT / "collection/build.py", folder], check=True)
    [path] = folder.iterdir()
    return path


@pytest.fixture(scope="module")
def project(archive: Path, tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = Project(tmp_path_factory.mktemp("foreign"))
    done = project.run(
        *("ansible-galaxy", "collection", "install", str(archive), "-p", "collections"),
        *("--offline", "--no-deps"),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return project


def test_the_same_tree_gives_the_same_bytes(archive: Path, tmp_path: Path) -> None:
    subprocess.run([sys.executable, ROOT / "collection/build.py", tmp_path], check=True)
    assert (tmp_path / archive.name).read_bytes() == archive.read_bytes()


def test_the_archive_is_that_of_its_own_list(project: Project) -> None:
    done = project.run(
        *("ansible-galaxy", "collection", "verify", NAME, "--offline", "-p", "collections")
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_example_of_a_role_configures_a_node(project: Project) -> None:
    """README.md of hpc_limits; facts of the node are gathered by the role."""
    [example] = examples("hpc_limits")
    done = project.play(example, "--check")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"TASK [{NAME}.hpc_limits : Apply values now]" in done.stdout
    assert re.search(r"node-1 +: ok=\d+ +changed=\d+ +unreachable=0 +failed=0", done.stdout)


def test_a_benchmarks_role_runs_on_a_node_that_nothing_has_identified(project: Project) -> None:
    [example] = examples("stream")
    done = project.play(example, "--check")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"TASK [{NAME}.stream : Install]" in done.stdout


def test_each_role_alone_identifies_the_node(project: Project) -> None:
    """Those that end with an error have a reason of their own: the machine is no VM of Azure."""
    roles = sorted(path.parent.name for path in (ROOT / "roles").rglob("tasks"))
    tasks = [
        {
            "block": [{"ansible.builtin.include_role": {"name": f"{NAME}.{role}"}}],
            "rescue": [{"ansible.builtin.debug": {"msg": "SAYS {{ ansible_failed_result.msg }}"}}],
        }
        for role in roles
        if role not in HELPERS
    ]
    done = project.play(yaml.safe_dump([{"hosts": "all", "tasks": tasks}]), "--check")
    said = re.findall(r'"msg": "SAYS (.*)"', done.stdout)
    assert "PLAY RECAP" in done.stdout
    assert [text for text in said if "trueup_" in text and "undefined" in text] == []
    assert [text for text in said if "'trueup_node'" in text] == []


def examples(role: str) -> list[str]:
    """Plays of a role's page, which are indented by four."""
    [path] = (ROOT / "roles").glob(f"**/{role}/README.md")
    blocks = re.findall(r"(?:^    .*\n)+", path.read_text(encoding="utf-8"), re.MULTILINE)
    plain = [re.sub(r"^    ", "", block, flags=re.MULTILINE) for block in blocks]
    return [block for block in plain if block.startswith("- hosts:")]


def roles_with_a_play() -> Iterator[str]:
    for path in sorted((ROOT / "roles").rglob("README.md")):
        if examples(path.parent.name):
            yield path.parent.name


def test_the_example_of_every_role_names_roles_of_the_collection(project: Project) -> None:
    plays = [text for role in roles_with_a_play() for text in examples(role)]
    done = project.play("\n".join(plays), "--syntax-check")
    assert done.returncode == 0, done.stdout + done.stderr
    used = {role for play in yaml.safe_load("\n".join(plays)) for role in play["roles"]}
    assert len(plays) == 29
    assert {role.rpartition(".")[0] for role in used} == {NAME}


def test_the_requirements_have_every_library_of_the_plays(project: Project) -> None:
    folder = project.folder / "collections/ansible_collections/trueup/azure_hpc"
    assert set(LIBRARIES) - set((folder / "requirements.txt").read_text().split()) == set()


def test_exceptions_of_ansible_test_name_files_and_reasons(project: Project) -> None:
    folder = project.folder / "collections/ansible_collections/trueup/azure_hpc"
    for path in sorted(folder.glob("tests/sanity/ignore-*.txt")):
        lines = path.read_text().splitlines()
        assert [line for line in lines if not (folder / line.split()[0]).is_file()] == []
        assert [line for line in lines if " # " not in line] == []
    names = [path.name for path in sorted(folder.glob("tests/sanity/*"))]
    assert names == [f"ignore-2.{minor}.txt" for minor in (19, 20, 21)]


def test_an_unused_variable_has_the_name_of_ansibles_guidelines(project: Project) -> None:
    """pylint of ansible-test refuses `_`."""
    folder = project.folder / "collections/ansible_collections/trueup/azure_hpc/plugins"
    trees = [ast.parse(path.read_text()) for path in folder.rglob("*.py")]
    names = {
        getattr(node, "id", getattr(node, "arg", "")) for tree in trees for node in ast.walk(tree)
    }
    assert names & {"_", "dummy"} == {"dummy"}


def test_every_module_has_a_page_that_ansible_doc_reads(project: Project) -> None:
    done = project.run("ansible-doc", "--metadata-dump", "--no-fail-on-errors", NAME)
    modules = json.loads(done.stdout)["all"]["module"]
    wrong = {name: page["error"] for name, page in modules.items() if "error" in page}
    assert wrong == {}
    assert set(modules) >= {f"{NAME}.{name}" for name in ("stream_bench", "trueup_plan")}


def test_a_module_runs_by_its_full_name(project: Project) -> None:
    done = project.run("ansible", "node-1", "-m", f"{NAME}.azure_node_facts")
    assert done.returncode == 0, done.stdout + done.stderr
    assert '"family": "local"' in done.stdout


def test_the_inventory_plugin_asks_for_a_login(project: Project) -> None:
    (project.folder / "azure_hpc.yml").write_text(f"plugin: {NAME}.azure_hpc\n")
    done = project.run(
        *("ansible-inventory", "-i", "azure_hpc.yml", "--list"),
        AZURE_CONFIG_DIR=str(project.folder / "azure"),
    )
    assert "az login" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_mornings_check_judges_by_its_full_name(project: Project) -> None:
    done = project.run("ansible-playbook", f"{NAME}.check", "-e", "trueup_results=kept/records")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 of 1 node judged; nothing is expected of the others." in done.stdout
    assert not (project.folder / "results").exists()
    [run] = (project.folder / "kept" / "records").iterdir()
    manifest = json.loads((run / "run.json").read_text())
    assert manifest["hosts"]["node-1"]["failed"] == 0
    assert (run / "node_state-state-node-1.json").is_file()


def test_a_playbook_of_the_project_imports_the_check(project: Project) -> None:
    results = project.folder / "mine"
    done = project.play(
        f"- import_playbook: {NAME}.check\n", "-e", f"trueup_results={results}", "--check"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert not results.exists()


def test_without_the_callback_nothing_is_measured(project: Project) -> None:
    done = project.run(
        "ansible-playbook", f"{NAME}.check", ANSIBLE_CALLBACKS_ENABLED="ansible.posix.timer"
    )
    assert done.returncode != 0
    said = f"set callbacks_enabled = {NAME}.trueup_records in [defaults] of ansible.cfg"
    assert said in done.stdout + done.stderr


def test_a_case_collects_its_evidence_by_the_playbooks_full_name(project: Project) -> None:
    program = f"collections/ansible_collections/{NAME.replace('.', '/')}/plugins/plugin_utils"
    case = ("python", f"{program}/trueup_command.py", "case")
    opened = project.run(*case, "open", "--node", "node-1", "--fault", "gpu_off_bus")
    assert opened.returncode == 0, opened.stderr
    by_portal = ("--report-by", "portal", "--no-scheduler", "--yes")
    done = project.run(*case, "next", "node-1", "-i", "inventory.yml", *by_portal)
    assert f" {NAME}.evidence --limit node-1 " in done.stderr
    assert "node-1: evidence; not done: the physical host of node-1" in done.stdout, done.stdout
    assert len(list((project.folder / "results" / "evidence").glob("*.tar.gz"))) == 1


def test_a_missing_library_is_one_sentence(project: Project) -> None:
    done = project.run("ansible-playbook", f"{NAME}.check", lacks=("msgspec",))
    assert done.returncode != 0
    said = done.stdout + done.stderr
    assert re.search(r"has no msgspec: run \S+ -m pip install -r \S+/requirements\.txt\.", said)
    assert "Traceback" not in said
