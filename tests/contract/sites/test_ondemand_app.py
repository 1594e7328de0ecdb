"""The role ondemand_app: its app as a dashboard renders it, and its job with a stand-in of Slurm.

The dashboard is a stand-in: Ruby's own ERB with the objects that Open OnDemand binds (OSC/ondemand
e5bbaf1, apps/dashboard/app/models/batch_connect/{app,session,session_context}.rb)."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
from pathlib import Path
from typing import Any

import plays
import pytest
import yaml
from helpers import ROLES, ROOT, parametrized, role_files

NO_METADATA = {"trueup_metadata_url": "http://127.0.0.1:9"}
NO_RUBY = 'ruby is not installed: apt-get install ruby, or make lab ARGS="-e lab_packages=test"'
# Stand-in of the dashboard: submit.yml.erb first, then every .erb below template/, as it does.
DASHBOARD = r"""
require "erb"
require "json"
require "ostruct"
require "pathname"
app, staged, given = Pathname.new(ARGV[0]), Pathname.new(ARGV[1]), JSON.parse(ARGV[2])
render = ->(path, bound) { ERB.new(path.read, trim_mode: "-").result(bound) }
begin
  form = OpenStruct.new(given)
  submit = render.call(app.join("submit.yml.erb"), form.instance_eval { binding })
  Bound = Struct.new(:session, :context) { def get_binding = binding }
  session = OpenStruct.new(cluster_id: given["cluster"], staged_root: staged, job_id: "17")
  bound = Bound.new(session, form).get_binding
  Pathname.glob(app.join("template", "**", "*.erb")).each do |path|
    out = staged.join(path.relative_path_from(app.join("template"))).sub_ext("")
    out.write(render.call(path, bound))
    out.chmod(path.stat.mode)
  end
  puts JSON.generate("submit" => submit)
rescue ArgumentError => error
  puts JSON.generate("refused" => error.message)
end
"""
CARDS = r"""
require "erb"
require "pathname"
module OodAppkit
  def self.files = self
  def self.url(path:) = "/files#{path}"
end
job_id = ARGV[1]
job_id = nil if job_id.empty?
puts ERB.new(File.read(ARGV[0]), trim_mode: "-").result(binding)
"""
PARTITIONS = [
    {"name": "hbv3", "vm_size": "Standard_HB120rs_v3", "nodes_max": 4, "hours_max": 8},
    {"name": "gpu", "cluster": "second"},
]
OF_SITE = {"training": {"training_model": "1.3B", "training_iterations": 20}}
FORM = {
    "cluster": "first",
    "partition": "hbv3",
    "benchmark": "stream",
    "nodes": "2",
    "hours": "3",
    "variables": "",
}
# It keeps what it was called with; the status is the test's.
PLAYBOOK = """#!/bin/sh
# stand-in of ansible-playbook
printf '%s\\n' "$@" > "$TRUEUP_RESULTS.arguments"
exit "${STAND_IN_STATUS:-0}"
"""
TRUEUP = """#!/bin/sh
# stand-in of trueup
[ "$1" = report ] || { echo "stand-in: no answer recorded for trueup $*" >&2; exit 1; }
exit "${STAND_IN_REPORT:-0}"
"""
SCONTROL = """#!/bin/sh
# stand-in of scontrol
[ "$1 $2 $3" = "show hostnames n[1-2]" ] ||
    { echo "stand-in: no answer recorded for scontrol $*" >&2; exit 1; }
printf '%b' "$STAND_IN_NODES"
"""


def playbook(folder: Path, variables: dict[str, Any], *options: str) -> tuple[int, int, str]:
    """Exit status, how many tasks changed something, and all that was said."""
    return playbooks(folder, [variables], *options)[0]


def playbooks(
    folder: Path, cases: list[dict[str, Any]], *options: str
) -> list[tuple[int, int, str]]:
    """The same of several nodes in one play: ansible-playbook takes a second to start."""
    hosts = {
        f"node{number}": {
            "trueup_node": {"privilege": "root"},
            "ondemand_app_dir": str(folder / "apps"),
            "ondemand_app_checkout": str(folder / "checkout"),
            "ondemand_app_clusters": ["first", "second"],
            "ondemand_app_partitions": PARTITIONS,
            "ondemand_app_variables": OF_SITE,
            **variables,
        }
        for number, variables in enumerate(cases)
    }
    play = {"roles": ["ondemand_app"]}
    done = plays.roles(folder, play, *options, hosts=hosts, env=plays.AS_JSON)
    answer = plays.answer(done)
    found = []
    for name in hosts:
        stats = answer["stats"][name]
        said = " ".join(str(result.get("msg", "")) for result in plays.results(answer, name))
        status = 2 if stats["failures"] or stats["unreachable"] else 0
        found.append((status, stats["changed"], said))
    assert done.returncode == max(status for status, _, _ in found), done.stderr
    return found


def ruby(program: str, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a program of the dashboard's; without Ruby one test fails and the others skip by name."""
    if shutil.which("ruby") is None:
        pytest.skip(NO_RUBY)
    command = ["ruby", "-e", program, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)


def test_the_dashboards_ruby_is_installed() -> None:
    assert shutil.which("ruby") is not None, NO_RUBY


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the role has installed the app, once for all tests."""
    folder = tmp_path_factory.mktemp("ood")
    (folder / "apps").mkdir()
    status, _, said = playbook(folder, {})
    assert status == 0, said
    return folder


def render(installed: Path, staged: Path, **fields: Any) -> dict[str, Any]:
    """What the dashboard makes of the form's fields: ``submit`` or ``refused``."""
    app = installed / "apps" / "trueup"
    staged.mkdir(exist_ok=True)
    shutil.copy(app / "template" / "play.yml", staged)
    done = ruby(DASHBOARD, str(app), str(staged), json.dumps({**FORM, **fields}))
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def test_the_role_is_repeatable_and_checks_on_a_fresh_machine(
    installed: Path, tmp_path: Path
) -> None:
    (tmp_path / "apps").mkdir()
    assert playbook(installed, {})[:2] == (0, 0)
    there = {
        "ondemand_app_dir": str(installed / "apps"),
        "ondemand_app_checkout": str(installed / "checkout"),
    }
    fresh, again = playbooks(tmp_path, [{}, there], "--check")
    assert (fresh[:2], again[:2]) == ((0, 1), (0, 0))
    assert list((tmp_path / "apps").iterdir()) == []


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"ondemand_app_clusters": []}, "name at least one Slurm cluster"),
    ({"ondemand_app_benchmarks": ["strem"]}, "strem of ondemand_app_benchmarks: no benchmark"),
    ({"ondemand_app_partitions": [{"name": "a#{b}"}]}, "letters, digits, - _ and . only"),
    ({"ondemand_app_sbatch_arguments": ["--a b"]}, "give one word each"),
    ({"ondemand_app_dir": "/nowhere"}, "install Open OnDemand first"),
    ({"ondemand_app_tittle": "x"}, "no such variable"),
]


def test_what_gives_no_app_is_refused(tmp_path: Path) -> None:
    (tmp_path / "apps").mkdir()
    found = playbooks(tmp_path, [variables for variables, _ in REFUSED])
    for (status, changed, said), (_, sentence) in zip(found, REFUSED, strict=True):
        assert (status, changed) == (2, 0), said
        assert sentence in " ".join(said.split())


def test_the_form_offers_what_the_checkout_has(installed: Path) -> None:
    app = installed / "apps" / "trueup"
    manifest = yaml.safe_load((app / "manifest.yml").read_text())
    assert manifest["role"] == "batch_connect"
    form = yaml.safe_load((app / "form.yml").read_text())
    # The example in the help is a variable that there is.
    example = form["attributes"]["variables"]["help"].split("`")[1].split(":")[0]
    assert example in yaml.safe_load((ROOT / "roles/stream/defaults/main.yml").read_text())
    assert form["cluster"] == ["first", "second"]
    assert sorted(form["form"]) == sorted(form["attributes"])
    offered = [option[1] for option in form["attributes"]["benchmark"]["options"]]
    assert offered == sorted(set(role_files("tasks/benchmark.yml")) - {"blob_checkpoint", "vllm"})
    assert form["attributes"]["partition"]["options"] == [
        ["hbv3: Standard_HB120rs_v3", "hbv3", {"data-max-nodes": 4}, {"data-max-hours": 8}],
        [
            "gpu",
            "gpu",
            {"data-max-nodes": 16},
            {"data-max-hours": 24},
            {"data-option-for-cluster-first": False},
        ],
    ]


def test_a_form_becomes_a_job(installed: Path, tmp_path: Path) -> None:
    answer = render(installed, tmp_path / "s", variables="stream_repeats: 20")
    submit = yaml.safe_load(answer["submit"])
    assert submit == {
        "batch_connect": {"template": "basic"},
        "script": {
            "native": ["--nodes=2", "--exclusive", "--mem=0", "--partition=hbv3", "--time=180"]
        },
    }
    variables = json.loads((tmp_path / "s" / "variables.json").read_text())
    assert variables == {"stream_repeats": 20, "trueup_benchmarks": ["stream"]}
    script = tmp_path / "s" / "script.sh"
    checked = subprocess.run(["bash", "-n", str(script)], capture_output=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, b"")
    assert script.stat().st_mode & 0o111 == 0o111
    plays = yaml.safe_load((tmp_path / "s" / "play.yml").read_text())
    imported = [play.get("ansible.builtin.import_playbook", "") for play in plays]
    assert [Path(path).name for path in imported] == ["identify.yml", "", "benchmark.yml"]
    # The nodes have one home, into which each would install at once.
    (installs,) = [task for task in plays[1]["tasks"] if task["name"] == "Install the benchmark"]
    assert installs["ansible.builtin.include_role"]["apply"] == {"throttle": 1}


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"benchmark": "stream; id"}, "benchmark is "),
        ({"benchmark": "vllm"}, "benchmark is "),
        ({"cluster": "third"}, "cluster is "),
        ({"partition": "$(id)"}, "partition is "),
        ({"partition": "gpu"}, 'partition is "gpu": choose one of hbv3'),
        ({"partition": 'hbv3"\n  native: ["--wrap=id"]'}, "partition is "),
        ({"nodes": "5"}, "give a whole number from 1 to 4"),
        ({"nodes": "1 --wrap=id"}, "nodes is "),
        ({"nodes": "-1"}, "nodes is "),
        ({"nodes": ""}, "nodes is "),
        ({"hours": "9"}, "give a whole number from 1 to 8"),
        ({"hours": "1\n2"}, "hours is "),
        ({"variables": "- a"}, "variables are no mapping"),
        ({"variables": "a: [1"}, "variables are not plain YAML or JSON"),
        ({"variables": "--- !ruby/object:Object {}"}, "variables are not plain YAML or JSON"),
        ({"variables": "stream_x: &a [*a]"}, "variables are not plain YAML or JSON"),
        ({"variables": "ansible_connection: local"}, "its variables begin with stream_"),
        ({"variables": "devito_shape: 1"}, "its variables begin with stream_"),
        ({"variables": '"stream_x\\n": 1'}, "its variables begin with stream_"),
        ({"variables": "stream_x: \"{{ lookup('pipe', 'id') }}\""}, "has a template"),
        ({"variables": "stream_x: [{a: '{% set x=1 %}'}]"}, "has a template"),
        ({"variables": "stream_x: {'{{ 1 }}': 1}"}, "has a template"),
        ({"variables": "stream_x: .nan"}, "has a template"),
        ({"variables": "stream_nodes: [n9]"}, "comes from the job's allocation"),
        (
            {"benchmark": "training", "variables": "training_hosts: [n9]"},
            "comes from the job's allocation",
        ),
        (
            {"benchmark": "devito", "variables": "devito_launchers: [slurm]"},
            "comes from the job's allocation",
        ),
        ({"variables": "stream_x: " + "1" * 70_000}, "give at most 65536"),
    ],
)
def test_what_is_not_to_be_asked_for_is_refused(
    installed: Path, tmp_path: Path, fields: dict[str, str], sentence: str
) -> None:
    answer = render(installed, tmp_path / "s", **fields)
    assert sentence in answer.get("refused", "")
    assert (tmp_path / "s" / "script.sh").exists() is False


class Job:
    """A rendered job, with stand-ins of scontrol, ansible-playbook and trueup."""

    def __init__(self, installed: Path, folder: Path) -> None:
        self.installed = installed
        self.staged = folder / "staged"
        self.home = folder / "home"
        self.home.mkdir()
        self.bin = folder / "bin"
        self.bin.mkdir()
        self.write(self.bin / "scontrol", SCONTROL)
        self.tools = installed / "checkout/.venv/bin"
        self.tools.mkdir(parents=True, exist_ok=True)
        self.write(self.tools / "ansible-playbook", PLAYBOOK)
        self.write(self.tools / "trueup", TRUEUP)
        self.work = self.home / "trueup/jobs/17"

    @staticmethod
    def write(path: Path, text: str) -> None:
        path.write_text(text)
        path.chmod(0o755)

    def run(self, nodes: str = "n1\\nn2\\n", **more: str) -> tuple[int, str]:
        """Exit status and what was said on standard error."""
        done = subprocess.run(
            [str(self.staged / "script.sh")],
            env={
                "PATH": f"{self.bin}:{os.environ['PATH']}",
                "HOME": str(self.home),
                "SLURM_JOB_ID": "17",
                "SLURM_JOB_NODELIST": "n[1-2]",
                "SLURMD_NODENAME": "n1",
                "STAND_IN_NODES": nodes,
                **more,
            },
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stderr

    def arguments(self) -> list[str]:
        return (self.work / "results.arguments").read_text().splitlines()


@pytest.fixture
def job(installed: Path, tmp_path: Path) -> Job:
    return Job(installed, tmp_path)


def test_a_job_measures_its_nodes(job: Job) -> None:
    assert "submit" in render(job.installed, job.staged)
    assert job.run() == (0, "")
    assert job.arguments() == [
        *("--inventory", "inventory.yml", "--extra-vars", f"@{job.staged}/variables.json"),
        *("--extra-vars", "@allocation.json", f"{job.staged}/play.yml"),
    ]
    inventory = yaml.safe_load((job.work / "inventory.yml").read_text())
    assert inventory == {"all": {"hosts": {"n1": {"ansible_connection": "local"}, "n2": {}}}}
    assert json.loads((job.work / "allocation.json").read_text()) == {}
    assert (job.work / "exit_status").read_text() == "0\n"


@parametrized(("chosen", "launcher"))
def test_a_benchmark_over_several_nodes_is_told_them(
    job: Job, chosen: str, launcher: dict[str, Any]
) -> None:
    assert "submit" in render(job.installed, job.staged, benchmark=chosen)
    assert job.run()[0] == 0
    assert json.loads((job.work / "allocation.json").read_text()) == {
        **launcher,
        f"{chosen}_{'hosts' if chosen == 'training' else 'nodes'}": ["n1", "n2"],
    }


def test_a_site_gives_what_a_form_cannot_and_a_user_goes_before_it(job: Job) -> None:
    given = "training_iterations: 50\ntraining_precision: fp8"
    assert "submit" in render(job.installed, job.staged, benchmark="training", variables=given)
    assert json.loads((job.staged / "variables.json").read_text()) == {
        "training_model": "1.3B",
        "training_iterations": 50,
        "training_precision": "fp8",
        "trueup_benchmarks": ["training"],
    }


@parametrized(("more", "status"))
def test_the_exit_status_is_passed_on(job: Job, more: dict[str, str], status: int) -> None:
    render(job.installed, job.staged)
    assert job.run(**more)[0] == status
    assert (job.work / "exit_status").read_text() == f"{status}\n"


@parametrized(("nodes", "more", "sentence"))
def test_an_allocation_that_is_none_is_refused(
    job: Job, nodes: str, more: dict[str, str], sentence: str
) -> None:
    render(job.installed, job.staged)
    status, said = job.run(nodes, **more)
    assert (status, said.splitlines()[-1]) == (2, f"trueup: {sentence}")
    assert job.work.exists() is False


def test_a_checkout_that_is_not_mounted_is_named(job: Job) -> None:
    render(job.installed, job.staged)
    (job.tools / "ansible-playbook").unlink()
    status, said = job.run()
    assert status == 2
    assert f"ansible-playbook is not on {socket.gethostname()}: mount the checkout" in said


@parametrized(("card", "job_id", "status", "sentence"))
def test_the_sessions_card_says_where_the_results_are(
    installed: Path, tmp_path: Path, card: str, job_id: str, status: str | None, sentence: str
) -> None:
    if status is not None:
        (tmp_path / "trueup/jobs/17").mkdir(parents=True)
    if status:
        (tmp_path / "trueup/jobs/17/exit_status").write_text(status)
    path = installed / "apps" / "trueup" / f"{card}.md.erb"
    done = ruby(CARDS, str(path), job_id, env={**os.environ, "HOME": str(tmp_path)})
    assert (done.returncode, done.stderr) == (0, "")
    assert sentence in done.stdout if sentence else done.stdout.strip() == ""


def test_a_benchmark_that_the_node_cannot_have_is_reported_as_skipped(tmp_path: Path) -> None:
    template = ROLES["ondemand_app"] / "files" / "template" / "play.yml.in"
    play = tmp_path / "play.yml"
    play.write_text(template.read_text().replace("@CHECKOUT@", str(ROOT)))
    inventory = tmp_path / "hosts.json"
    inventory.write_text(json.dumps({"all": {"hosts": {"n1": NO_METADATA}}}))
    chosen = json.dumps({"trueup_benchmarks": ["gpu_copy"]})
    done = plays.playbook(tmp_path, "-i", str(inventory), *plays.LOCAL, str(play), "-e", chosen)
    assert (done.returncode, "skipped: gpu_copy: " in done.stdout) == (0, True), done.stdout
