"""The filters of the role ondemand_app."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from ansible.errors import AnsibleFilterError
from trueup_ondemand import ondemand_benchmarks, ondemand_cluster_file, ondemand_options


def role(folder: Path, name: str, options: dict[str, object]) -> None:
    specs = {"benchmark": {"short_description": f"Measure {name}", "options": options}}
    (folder / name / "meta").mkdir(parents=True)
    text = yaml.safe_dump({"argument_specs": specs})
    (folder / name / "meta" / "argument_specs.yml").write_text(text)


def test_a_benchmark_says_whether_it_takes_several_nodes(tmp_path: Path) -> None:
    both = ["local", "mpirun"]
    role(tmp_path, "a", {"a_nodes": {}, "a_launcher": {"choices": both}})
    role(tmp_path, "b", {"b_launcher": {"choices": both}})
    role(tmp_path, "c", {"c_nodes": {}, "c_launcher": {"choices": ["local"]}})
    role(tmp_path, "d", {"d_nodes": {}, "d_launchers": {"choices": both}})
    found = ondemand_benchmarks(["c", "a", "d", "b"], str(tmp_path), "mpirun")
    assert found == [
        {"name": "a", "title": "Measure a", "launcher": '"a_launcher": "mpirun"'},
        {"name": "b", "title": "Measure b", "launcher": ""},
        {"name": "c", "title": "Measure c", "launcher": ""},
        {"name": "d", "title": "Measure d", "launcher": '"d_launchers": ["mpirun"]'},
    ]


def test_a_role_that_is_no_benchmark_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AnsibleFilterError, match="x: no benchmark of that name"):
        ondemand_benchmarks(["x"], str(tmp_path), "mpirun")


def test_a_partition_of_one_cluster_is_hidden_for_the_others() -> None:
    partitions = [{"name": "hb", "cluster": "a", "nodes_max": 2}]
    assert ondemand_options(partitions, ["a", "b_c"], 8, 12) == [
        [
            "hb",
            "hb",
            {"data-max-nodes": 2},
            {"data-max-hours": 12},
            {"data-option-for-cluster-b-c": False},
        ]
    ]


def test_a_cluster_file_is_yaml_whatever_its_title_is() -> None:
    given = {"id": "a", "title": 'Ours: "the # one"', "login_host": "l"}
    made = ondemand_cluster_file(given, "/clusters.d")
    assert made["path"] == "/clusters.d/a.yml"
    assert yaml.safe_load(made["content"])["v2"]["metadata"] == {"title": 'Ours: "the # one"'}
