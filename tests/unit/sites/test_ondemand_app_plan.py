"""The role ondemand_app, planned: what its form offers, its files, and what is refused."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
import yaml
from role_plans import asked, node
from trueup_controller.sites.ondemand_app import asks, plan
from trueup_node.plan import Plan

NODE = node("local", "almalinux-9")
SITE: dict[str, Any] = {
    "clusters": ["first", "b_c"],
    "partitions": [{"name": "hb", "cluster": "first", "nodes_max": 2}],
}
FOLDER = "/var/www/ood/apps/sys/trueup"
HEAD = "---\n# Written by trueup (role ondemand_app). Changes here are lost.\n"


def planned(found: dict[str, Any] | None = None, **options: Any) -> Plan:
    there = {"stat": {"isdir": True}} if found is None else found
    return plan(asked("ondemand_app", NODE, there, **{**SITE, **options}))


def files(**options: Any) -> dict[str, Any]:
    got = planned(**options)
    assert (got.refused, got.skipped) == ([], [])
    return {one["path"].removeprefix(f"{FOLDER}/"): one for one in got.as_result()["files"]}


def form(**options: Any) -> Any:
    content = files(**options)["form.yml"]["content"]
    assert content.startswith(HEAD)
    return yaml.safe_load(content)


def test_the_files_of_an_app() -> None:
    got = files()
    assert [(path, one.get("state", one.get("mode"))) for path, one in got.items()] == [
        ("template", "directory"),
        ("manifest.yml", None),
        ("form.yml", None),
        ("submit.yml.erb", "0644"),
        ("info.md.erb", "0644"),
        ("completed.md.erb", "0644"),
        ("view.html.erb", "0644"),
        ("template/script.sh.erb", "0755"),
        ("template/variables.json.erb", "0644"),
        ("template/play.yml", "0644"),
    ]
    marked = [path for path, one in got.items() if "@" in one.get("content", "").replace('"@', "")]
    assert marked == ["template/script.sh.erb"]
    assert "--extra-vars @allocation.json" in got["template/script.sh.erb"]["content"]


def test_what_the_node_is_asked() -> None:
    stat = {"ansible.builtin.stat": {"path": "/var/www/ood/apps/sys"}}
    assert asks(asked("ondemand_app", NODE)) == stat
    made = asks(asked("ondemand_app", NODE, {"made": True}))
    assert made == {**stat, "ansible.builtin.slurp": {"src": f"{FOLDER}/form.yml"}}


def test_the_form_offers_what_needs_nothing_else() -> None:
    offered = form()["attributes"]["benchmark"]["options"]
    names = [name for _, name in offered]
    assert names == sorted(names)
    assert not {"blob_checkpoint", "training", "vllm"} & set(names)
    assert ["stream: Memory bandwidth (STREAM)", "stream"] in offered
    chosen = form(benchmarks=["vllm", "fio"])["attributes"]["benchmark"]["options"]
    assert chosen == [["fio: Storage (fio)", "fio"], ["vllm: vLLM", "vllm"]]


GIVEN = {
    "training": {"training_model": "1.3B"},
    "vllm": {"vllm_endpoints": [{"name": "a", "recipe": "r", "model": "/shared/a"}]},
    "blob_checkpoint": {"blob_checkpoint_container": "checkpoints"},
}


def test_what_needs_more_is_offered_where_the_site_gives_it() -> None:
    got = files(variables=GIVEN)
    offered = yaml.safe_load(got["form.yml"]["content"])["attributes"]["benchmark"]["options"]
    assert set(GIVEN) < {name for _, name in offered}
    only = form(variables={"training": GIVEN["training"]})["attributes"]["benchmark"]["options"]
    assert {"vllm", "training"} & {name for _, name in only} == {"training"}
    script = got["template/script.sh.erb"]["content"]
    told = """training) launcher='"training_launcher": "mpirun"' among=training_hosts ;;"""
    assert told in [line.strip() for line in script.splitlines()]


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"trainng": {}}, "trainng"),
        ({"training": ["training_model"]}, "training"),
        ({"training": {"vllm_endpoints": []}}, "vllm_endpoints"),
        ({"training": {"training_hosts": ["n1"]}}, "training_hosts"),
        ({"training": {"training_launcher": "slurm"}}, "training_launcher"),
        # Users read the app's files.
        ({"vllm": {"vllm_hf_token": "hf_x"}}, "vllm_hf_token"),
        ({"blob_checkpoint": {"blob_checkpoint_sas_token": "sv"}}, "blob_checkpoint_sas_token"),
    ],
)
def test_variables_that_a_form_may_not_have_are_refused(given: Any, named: str) -> None:
    (said,) = planned(variables=given).refused
    assert said.startswith(f"{named} of ondemand_app_variables")
    assert "hf_x" not in said


def test_a_partition_of_one_cluster_is_hidden_for_the_others() -> None:
    got = form()
    assert got["cluster"] == ["first", "b_c"]
    assert got["form"] == list(got["attributes"])
    assert (got["attributes"]["nodes"]["max"], got["attributes"]["hours"]["max"]) == (16, 24)
    limits = [{"data-max-nodes": 2}, {"data-max-hours": 24}]
    hidden = {"data-option-for-cluster-b-c": False}
    assert got["attributes"]["partition"]["options"] == [["hb", "hb", *limits, hidden]]
    everywhere = [{"name": "x", "vm_size": "Standard_A"}]
    ((label, name, *rest),) = form(partitions=everywhere)["attributes"]["partition"]["options"]
    assert (label, name) == ("x: Standard_A", "x")
    assert rest == [{"data-max-nodes": 16}, {"data-max-hours": 24}]


def test_a_job_is_checked_by_what_the_form_offers() -> None:
    got = files(sbatch_arguments=["--account=hpc"], benchmarks=["nccl", "devito", "stream"])
    (rules,) = [
        json.loads(line)
        for line in got["submit.yml.erb"]["content"].splitlines()
        if line.startswith("{")
    ]
    assert rules == {
        **SITE,
        "nodes_max": 16,
        "hours_max": 24,
        "benchmarks": ["devito", "nccl", "stream"],
        "sbatch_arguments": ["--account=hpc"],
        "variables": {"devito": {}, "nccl": {}, "stream": {}},
    }


def test_a_job_takes_all_its_nodes_where_the_benchmark_can() -> None:
    script = files(checkout="/apps/trueup")["template/script.sh.erb"]["content"]
    assert [line.strip() for line in script.splitlines() if "launcher='" in line] == [
        """devito) launcher='"devito_launchers": ["mpirun"]' among=devito_nodes ;;""",
        """hpl) launcher='"hpl_launcher": "mpirun"' among=hpl_nodes ;;""",
        """nccl) launcher='"nccl_launcher": "mpirun"' among=nccl_nodes ;;""",
    ]
    assert "\ncheckout=/apps/trueup\n" in script
    assert "\nwork=$HOME/trueup/jobs/$SLURM_JOB_ID\n" in script


def test_a_cluster_file_is_yaml_whatever_its_title_is() -> None:
    given = [
        {"id": "a", "title": 'Ours: "the # one"', "login_host": "l", "bin": "/opt/slurm/bin"},
        {"id": "b", "login_host": "l"},
    ]
    got = files(cluster_files=given)
    job = {"adapter": "slurm", "bin": "/usr/bin", "conf": "/etc/slurm/slurm.conf"}
    made = [
        yaml.safe_load(got[f"/etc/ood/config/clusters.d/{one}.yml"]["content"])["v2"]
        for one in ("a", "b")
    ]
    login = {"host": "l"}
    title = {"title": 'Ours: "the # one"'}
    assert made == [
        {"metadata": title, "login": login, "job": {**job, "bin": "/opt/slurm/bin"}},
        {"metadata": {"title": "b"}, "login": login, "job": job},
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"clusters": [], "partitions": [{"name": "a"}]}, "name at least one Slurm cluster"),
        ({"partitions": []}, "ondemand_app_clusters or ondemand_app_partitions is empty"),
        (
            {"clusters": ['a"; rm'], "partitions": [{"name": "a"}]},
            '"a\\"; rm": names of clusters, partitions and sizes',
        ),
        ({"partitions": [{"name": "a", "vm_size": "x y"}]}, '"x y": names of clusters'),
        ({"cluster_files": [{"id": "a b", "login_host": "l"}]}, '"a b": names of clusters'),
        ({"sbatch_arguments": ["-c=1", "--a b", "x"]}, '"--a b", "x" of ondemand_app_sbatch_arg'),
        ({"benchmarks": ["strem"]}, "strem of ondemand_app_benchmarks: no benchmark of that name"),
        ({"partitions": [{"name": "a", "cluster": "c"}]}, "c of ondemand_app_partitions: not one"),
        ({"checkout": "shared/x"}, "ondemand_app_checkout is shared/x: give an absolute path"),
    ],
)
def test_what_gives_no_app_is_refused_in_one_sentence(
    options: dict[str, Any], message: str
) -> None:
    assert [message in text for text in planned(**options).refused] == [True]


def test_a_machine_without_open_ondemand_is_refused() -> None:
    for found in ({}, {"stat": {"exists": False}}, {"stat": {"isdir": False}}):
        (text,) = planned(found).refused
        assert text.startswith("ondemand_app_dir is /var/www/ood/apps/sys, no folder")


def test_a_form_that_is_another_one_is_named() -> None:
    def after(text: str) -> list[str]:
        content = base64.b64encode(text.encode()).decode()
        found = {"stat": {"isdir": True}, "made": True, "content": content}
        return planned(found, benchmarks=["stream", "fio"]).refused

    assert after(files(benchmarks=["stream", "fio"])["form.yml"]["content"]) == []
    (text,) = after(files()["form.yml"]["content"])
    assert (
        text == f"{FOLDER}/form.yml is not what the role writes (fio, stream): run this role again."
    )
