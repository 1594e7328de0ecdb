"""The role ondemand_app, planned: the files of an Open OnDemand app that submits benchmarks, and
what it must not be given."""

from __future__ import annotations

import base64
import importlib
import json
import pkgutil
import re
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple

from .. import benchmarks
from ..options import MODULE
from ..plan import Asked, Plan

_HEADER = "---\n# Written by trueup (role ondemand_app). Changes here are lost.\n"
# With several nodes the launcher is mpirun, which takes the job's own nodes. The launcher slurm
# would submit a job of its own, and that would wait for the nodes that this one holds.
_LAUNCHERS = {"launcher": "mpirun", "launchers": ["mpirun"]}
# Goes into Ruby code.
_PLAIN = re.compile("[A-Za-z0-9][A-Za-z0-9_.-]*")
_ARGUMENT = re.compile("--?[A-Za-z][A-Za-z0-9=,:_.@+/-]*")
_SOURCES = "roles/ondemand_app/files"
# Of the role and of the app, where play.yml has no ending more.
_FILES = (
    *("submit.yml.erb", "info.md.erb", "completed.md.erb", "view.html.erb"),
    *("template/script.sh.erb", "template/variables.json.erb", "template/play.yml.in"),
)


class _Benchmark(NamedTuple):
    """What a form and a job need: ``launcher`` tells one that can use all nodes at once to do so,
    as a member of a JSON object, and ``among`` is the variable of these nodes; empty for one that
    measures each node by itself. ``secrets`` are variables that no file of a form may hold."""

    title: str
    launcher: str
    among: str
    secrets: List[str]


def asks(asked: Asked) -> Dict[str, Any]:
    """What the node is asked for: the folder above the app's, and in the end the form."""
    wanted: Dict[str, Any] = {"ansible.builtin.stat": {"path": asked.options["dir"]}}
    if asked.found.get("made"):
        wanted["ansible.builtin.slurp"] = {"src": f"{_folder(asked)}/form.yml"}
    return wanted


def plan(asked: Asked) -> Plan:
    """The app. ``asked.found`` is what the module stat says of the folder above. The value is
    ``files`` as config_files takes them. With ``made`` in it they were written: a form with another
    ``content`` is refused."""
    known = _benchmarks()
    refused = list(_refused(asked, known))
    if refused:
        return Plan(refused=refused)
    needs_more = set(asked.data["needs_more"]) - set(asked.options["variables"])
    offered = {
        name: one
        for name, one in known.items()
        if name in (asked.options["benchmarks"] or known.keys() - needs_more)
    }
    form = _HEADER + _json(_form(asked, offered))
    if asked.found.get("made"):
        there = base64.b64decode(asked.found["content"]).decode("utf-8", "replace")
        path = f"{_folder(asked)}/form.yml"
        other = f"{path} is not what the role writes ({', '.join(offered)}): run this role again."
        return Plan(refused=[] if there == form else [other])
    return Plan(values={"files": [*_files(asked, offered, form), *_cluster_files(asked.options)]})


def _folder(asked: Asked) -> str:
    return f"{asked.options['dir']}/{asked.options['name']}"


def _benchmarks() -> Dict[str, _Benchmark]:
    """All that this checkout has, by the name of their role."""
    found = {}
    for info in pkgutil.iter_modules(benchmarks.__path__):
        output, case, view = (
            importlib.import_module(f"{benchmarks.__name__}.{info.name}.{part}")
            for part in ("output", "case", "view")
        )
        name = getattr(output, "ROLE", info.name)
        options = {one.name: one for one in case.OPTIONS if one.of != MODULE}
        among = next((one for one in ("nodes", "hosts") if one in options), "")
        launchers = [
            json.dumps({f"{name}_{option}": value})[1:-1]
            for option, value in _LAUNCHERS.items()
            if option in options and "mpirun" in options[option].choices and among
        ]
        secrets = [f"{name}_{option}" for option, one in options.items() if one.secret]
        found[name] = _Benchmark(view.VIEW.title, "".join(launchers), f"{name}_{among}", secrets)
    return dict(sorted(found.items()))


def _form(asked: Asked, offered: Mapping[str, _Benchmark]) -> Dict[str, Any]:
    """The role's form with what this site has."""
    options = asked.options
    more: Dict[str, Any] = {
        "benchmark": {"options": [[f"{name}: {one.title}", name] for name, one in offered.items()]},
        "partition": {"options": [_choice(each, options) for each in options["partitions"]]},
        "nodes": {"max": options["nodes_max"]},
        "hours": {"max": options["hours_max"]},
    }
    fields = asked.data["fields"].items()
    return {
        "cluster": options["clusters"],
        "form": list(asked.data["fields"]),
        "attributes": {name: {**field, **more.get(name, {})} for name, field in fields},
    }


def _choice(partition: Mapping[str, Any], options: Mapping[str, Any]) -> List[Any]:
    """Label, value, and the attributes that hide it for other clusters and set the other fields'
    limits."""
    name, size, only = (partition[key] for key in ("name", "vm_size", "cluster"))
    return [
        f"{name}: {size}" if size else name,
        name,
        {"data-max-nodes": partition["nodes_max"] or options["nodes_max"]},
        {"data-max-hours": partition["hours_max"] or options["hours_max"]},
        *(
            # The dashboard writes the ids of fields and values with hyphens there.
            {f"data-option-for-cluster-{cluster.replace('_', '-')}": False}
            for cluster in options["clusters"]
            if only and cluster != only
        ),
    ]


def _files(asked: Asked, offered: Mapping[str, _Benchmark], form: str) -> Iterator[Dict[str, str]]:
    options, folder = asked.options, _folder(asked)
    manifest = {
        "name": options["title"],
        "category": options["category"],
        "subcategory": options["subcategory"],
        **asked.data["manifest"],
    }
    # What the dashboard and the job check by; only plain names get into it.
    rules = {
        **{key: options[key] for key in ("clusters", "nodes_max", "hours_max", "sbatch_arguments")},
        "partitions": [
            {key: value for key, value in each.items() if value is not None}
            for each in options["partitions"]
        ],
        "benchmarks": list(offered),
        "variables": {name: options["variables"].get(name, {}) for name in offered},
    }
    filled = {
        "@CHECK@\n": asked.text(f"{_SOURCES}/check.rb").replace("@RULES@", json.dumps(rules)),
        "@LAUNCHERS@\n": "".join(
            f"    {name}) launcher='{one.launcher}' among={one.among} ;;\n"
            for name, one in offered.items()
            if one.launcher
        ),
        "@CHECKOUT@": options["checkout"],
        "@RESULTS@": options["results"],
    }
    yield {"path": f"{folder}/template", "state": "directory"}
    yield {"path": f"{folder}/manifest.yml", "content": _HEADER + _json(manifest)}
    yield {"path": f"{folder}/form.yml", "content": form}
    for name in _FILES:
        text = asked.text(f"{_SOURCES}/{name}")
        for mark, value in filled.items():
            text = text.replace(mark, value)
        mode = "0755" if name.endswith(".sh.erb") else "0644"
        path = f"{folder}/{name.removesuffix('.in')}"
        yield {"path": path, "content": text, "mode": mode}


def _json(value: Any) -> str:
    """YAML takes JSON."""
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def _cluster_files(options: Mapping[str, Any]) -> Iterator[Dict[str, str]]:
    """Files of clusters.d."""
    for cluster in options["cluster_files"]:
        job = {
            "adapter": "slurm",
            "bin": cluster["bin"] or "/usr/bin",
            "conf": cluster["conf"] or "/etc/slurm/slurm.conf",
        }
        told = {
            "metadata": {"title": cluster["title"] or cluster["id"]},
            "login": {"host": cluster["login_host"]},
            "job": job,
        }
        path = f"{options['cluster_dir']}/{cluster['id']}.yml"
        yield {"path": path, "content": _HEADER + _json({"v2": told})}


def _refused(asked: Asked, known: Mapping[str, _Benchmark]) -> Iterator[str]:
    """What gives no app, a sentence each."""
    options = asked.options
    partitions, clusters = options["partitions"], options["clusters"]
    names = [
        options["name"],
        *clusters,
        *(each[key] for key in ("name", "vm_size", "cluster") for each in partitions if each[key]),
        *(each["id"] for each in options["cluster_files"]),
    ]
    if not clusters or not partitions:
        yield (
            "ondemand_app_clusters or ondemand_app_partitions is empty: name at least one Slurm"
            " cluster of clusters.d and one of its partitions."
        )
    for wrong, why in (
        (
            [json.dumps(name) for name in names if not _PLAIN.fullmatch(name)],
            ": names of apps, clusters, partitions and sizes have letters, digits, - _ and . only",
        ),
        (
            [
                json.dumps(one)
                for one in options["sbatch_arguments"]
                if not _ARGUMENT.fullmatch(one)
            ],
            " of ondemand_app_sbatch_arguments: give one word each, such as --account=hpc",
        ),
        (
            [name for name in options["benchmarks"] if name not in known],
            f" of ondemand_app_benchmarks: no benchmark of that name; there are {', '.join(known)}",
        ),
        (
            list(_wrong_variables(options["variables"], known)),
            (
                " of ondemand_app_variables: give {benchmark: {variable: value}} with variables"
                " that begin with the benchmark's name, and no secrets nor what the job's"
                " allocation says"
            ),
        ),
        (
            [each["cluster"] for each in partitions if each["cluster"] not in (None, *clusters)],
            " of ondemand_app_partitions: not one of ondemand_app_clusters",
        ),
    ):
        if wrong:
            yield f"{', '.join(wrong)}{why}."
    yield from _refused_of_site(asked)


def _wrong_variables(given: Mapping[str, Any], known: Mapping[str, _Benchmark]) -> Iterator[str]:
    """What a form's job cannot be given by the site."""
    for name, variables in given.items():
        if name not in known or not isinstance(variables, dict):
            yield name
            continue
        taken = {f"{name}_{word}" for word in (*_LAUNCHERS, "nodes", "hosts")}
        taken |= set(known[name].secrets)
        yield from (
            str(one)
            for one in variables
            if one in taken or not re.fullmatch(f"{name}_[a-z0-9_]+", str(one))
        )


def _refused_of_site(asked: Asked) -> Iterator[str]:
    options = asked.options
    for name, right, mend in (
        (
            "checkout",
            re.fullmatch("(/[A-Za-z0-9._-]+)+", options["checkout"]),
            ": give an absolute path of letters, digits, . _ - and /.",
        ),
        (
            "results",
            re.fullmatch(f"{_PLAIN.pattern}(/{_PLAIN.pattern})*", options["results"]),
            ": give a path below the home, of letters, digits, . _ - and /.",
        ),
        ("nodes_max", options["nodes_max"] >= 1, ": give at least 1."),
        ("hours_max", options["hours_max"] >= 1, ": give at least 1."),
        (
            "dir",
            asked.found.get("stat", {}).get("isdir"),
            ", no folder on this machine: install Open OnDemand first, or give its folder of apps.",
        ),
    ):
        if not right:
            yield f"ondemand_app_{name} is {options[name]}{mend}"
