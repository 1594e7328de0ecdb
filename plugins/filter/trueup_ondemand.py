"""Filters of the role ondemand_app: what its form offers, from what the roles say of themselves."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from ansible.errors import AnsibleFilterError

DOCUMENTATION = r"""
name: trueup_ondemand
short_description: The form of the Open OnDemand app
description:
  - C(ondemand_benchmarks) takes names of benchmarks, the folder of the roles and a launcher, and
    says of each benchmark what a form and a job need.
  - C(ondemand_options) takes partitions, ids of clusters and the most nodes and hours, and gives
    the options of the form's field C(partition); C(ondemand_label) gives that of a benchmark.
  - C(ondemand_cluster_file) gives the file of clusters.d for a cluster.
"""


def ondemand_benchmarks(
    names: Sequence[str], roles_dir: str, launcher: str
) -> list[dict[str, Any]]:
    """``name``, ``title`` and ``launcher``; by name.

    ``launcher`` is what tells a benchmark that can use all nodes at once to do so, as a member of a
    JSON object: its ``<name>_launcher`` or, where it compares several, ``<name>_launchers``. Empty
    for one that measures each node by itself.

    Raises:
        AnsibleFilterError: a name is no benchmark's.
    """
    return [_benchmark(name, Path(roles_dir), launcher) for name in sorted(names)]


def _benchmark(name: str, roles_dir: Path, launcher: str) -> dict[str, Any]:
    path = roles_dir / name / "meta" / "argument_specs.yml"
    try:
        entry = yaml.safe_load(path.read_text(encoding="utf-8"))["argument_specs"]["benchmark"]
    except (OSError, KeyError, TypeError, yaml.YAMLError) as error:
        message = f"{name}: no benchmark of that name ({path}: {error})"
        raise AnsibleFilterError(message) from error
    options = entry["options"]
    values = {f"{name}_launcher": launcher, f"{name}_launchers": [launcher]}
    given = [
        json.dumps({option: value})[1:-1]
        for option, value in values.items()
        if launcher in options.get(option, {}).get("choices", []) and f"{name}_nodes" in options
    ]
    return {"name": name, "title": entry["short_description"], "launcher": "".join(given[:1])}


def ondemand_options(
    partitions: Sequence[dict[str, Any]], clusters: Sequence[str], nodes_max: int, hours_max: int
) -> list[list[Any]]:
    """Label, value, and the attributes that hide it for other clusters and set the other fields'
    limits."""
    found: list[list[Any]] = []
    for partition in partitions:
        size = partition.get("vm_size") or ""
        name = partition["name"]
        limits = [
            {"data-max-nodes": int(partition.get("nodes_max") or nodes_max)},
            {"data-max-hours": int(partition.get("hours_max") or hours_max)},
        ]
        only = partition.get("cluster")
        hidden = [
            # The dashboard writes the ids of fields and values with hyphens there.
            {f"data-option-for-cluster-{cluster.replace('_', '-')}": False}
            for cluster in clusters
            if only and cluster != only
        ]
        found.append([f"{name}: {size}" if size else name, name, *limits, *hidden])
    return found


def ondemand_label(benchmark: dict[str, Any]) -> list[str]:
    """The option of one benchmark in the form: label and value."""
    return [f"{benchmark['name']}: {benchmark['title']}", benchmark["name"]]


def ondemand_cluster_file(cluster: dict[str, Any], folder: str) -> dict[str, str]:
    """The file of clusters.d for a Slurm cluster, as the module config_files takes it."""
    lines = [
        "---",
        "# Written by trueup (role ondemand_app). Changes here are lost.",
        "v2:",
        "  metadata:",
        f"    title: {json.dumps(cluster.get('title') or cluster['id'])}",
        "  login:",
        f"    host: {json.dumps(cluster['login_host'])}",
        "  job:",
        "    adapter: slurm",
        f"    bin: {json.dumps(cluster.get('bin') or '/usr/bin')}",
        f"    conf: {json.dumps(cluster.get('conf') or '/etc/slurm/slurm.conf')}",
    ]
    text = "\n".join(lines) + "\n"
    return {"path": f"{folder}/{cluster['id']}.yml", "content": text}


class FilterModule:
    """Ansible's entry."""

    def filters(self) -> dict[str, Any]:
        """Name to function."""
        return {
            "ondemand_benchmarks": ondemand_benchmarks,
            "ondemand_cluster_file": ondemand_cluster_file,
            "ondemand_label": ondemand_label,
            "ondemand_options": ondemand_options,
        }
