"""The plan of the role ondemand_app: the files of an Open OnDemand app that submits benchmarks, and
the problems of its settings."""

from __future__ import annotations

import base64
import importlib
import json
import pkgutil
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from trueup_node import benchmarks
from trueup_node.options import MODULE
from trueup_node.plan import Plan, PlanInputs

_HEADER = "---\n# Written by trueup (role ondemand_app). Changes here are lost.\n"
# With several nodes the launcher is mpirun, which takes the job's own nodes. The launcher slurm
# would submit a job of its own, and that would wait for the nodes that this one holds.
_LAUNCHERS = {"launcher": "mpirun", "launchers": ["mpirun"]}
# Goes into Ruby code.
_PLAIN = re.compile("[A-Za-z0-9][A-Za-z0-9_.-]*")
_ARGUMENT = re.compile("--?[A-Za-z][A-Za-z0-9=,:_.@+/-]*")
# The app's folder below ondemand_app_dir and the last part of its address, and the folder in each
# user's home that results go to.
_NAME, _RESULTS = "trueup", "trueup/jobs"
# The most nodes and hours of a job where a partition says nothing else.
_NODES_MAX, _HOURS_MAX = 16, 24
# Open OnDemand's folder of cluster files.
_CLUSTERS = "/etc/ood/config/clusters.d"
_SOURCES = "roles/sites/ondemand_app/files"
# Of the role and of the app, where play.yml has no ending more.
_FILES = (
    *("submit.yml.erb", "info.md.erb", "completed.md.erb", "view.html.erb"),
    *("template/script.sh.erb", "template/variables.json.erb", "template/play.yml.in"),
)


class _Benchmark(NamedTuple):
    """A benchmark's data for a form and a job. ``launcher`` is a member of a JSON object: it makes
    the benchmark use all nodes at once, and is empty if each node is measured by itself. ``among``
    is the variable of these nodes. ``secrets`` are variables that no file of a form may hold."""

    title: str
    launcher: str
    among: str
    secrets: list[str]


def asks(inputs: PlanInputs) -> dict[str, Any]:
    """Queries for the node: the folder above the app's, and in the end the form."""
    module_calls: dict[str, Any] = {"ansible.builtin.stat": {"path": inputs.options["dir"]}}
    if inputs.found.get("made"):
        module_calls["ansible.builtin.slurp"] = {"src": f"{_folder(inputs)}/form.yml"}
    return module_calls


def plan(inputs: PlanInputs) -> Plan:
    """The app. ``inputs.found`` is the result of the module stat for the folder above. The value is
    ``files`` as config_files takes them. With ``made`` in it they were written: a form with another
    ``content`` is refused."""
    available = _benchmarks()
    refused = list(_refused(inputs, available))
    if refused:
        return Plan(refused=refused)
    needs_more = set(inputs.data["needs_more"]) - set(inputs.options["variables"])
    offered = {
        name: benchmark
        for name, benchmark in available.items()
        if name in (inputs.options["benchmarks"] or available.keys() - needs_more)
    }
    form = _HEADER + _json(_form(inputs, offered))
    if inputs.found.get("made"):
        current = base64.b64decode(inputs.found["content"]).decode("utf-8", "replace")
        path = f"{_folder(inputs)}/form.yml"
        other = f"{path} is not what the role writes ({', '.join(offered)}): run this role again."
        return Plan(refused=[] if current == form else [other])
    return Plan(values={"files": [*_files(inputs, offered, form), *_cluster_files(inputs.options)]})


def _folder(inputs: PlanInputs) -> str:
    return f"{inputs.options['dir']}/{_NAME}"


def _benchmarks() -> dict[str, _Benchmark]:
    """All that this checkout has, by the name of their role."""
    by_name = {}
    for info in pkgutil.iter_modules(benchmarks.__path__):
        output, case, view = (
            importlib.import_module(f"{benchmarks.__name__}.{info.name}.{module_name}")
            for module_name in ("output", "case", "view")
        )
        name = getattr(output, "ROLE", info.name)
        options = {option.name: option for option in case.OPTIONS if option.of != MODULE}
        among = next((variable for variable in ("nodes", "hosts") if variable in options), "")
        launchers = [
            json.dumps({f"{name}_{option}": value})[1:-1]
            for option, value in _LAUNCHERS.items()
            if option in options and "mpirun" in options[option].choices and among
        ]
        secrets = [f"{name}_{option}" for option, declared in options.items() if declared.secret]
        by_name[name] = _Benchmark(view.VIEW.title, "".join(launchers), f"{name}_{among}", secrets)
    return dict(sorted(by_name.items()))


def _form(inputs: PlanInputs, offered: Mapping[str, _Benchmark]) -> dict[str, Any]:
    """The role's form with this site's clusters, partitions and benchmarks."""
    options = inputs.options
    more: dict[str, Any] = {
        "benchmark": {
            "options": [[f"{name}: {benchmark.title}", name] for name, benchmark in offered.items()]
        },
        "partition": {"options": [_choice(each, options) for each in options["partitions"]]},
        "nodes": {"max": _NODES_MAX},
        "hours": {"max": _HOURS_MAX},
    }
    fields = inputs.data["fields"].items()
    return {
        "cluster": options["clusters"],
        "form": list(inputs.data["fields"]),
        "attributes": {name: {**field, **more.get(name, {})} for name, field in fields},
    }


def _choice(partition: Mapping[str, Any], options: Mapping[str, Any]) -> list[Any]:
    """Label, value, and the attributes that hide it for other clusters and set the other fields'
    limits."""
    name, size, only = (partition[key] for key in ("name", "vm_size", "cluster"))
    return [
        f"{name}: {size}" if size else name,
        name,
        {"data-max-nodes": partition["nodes_max"] or _NODES_MAX},
        {"data-max-hours": partition["hours_max"] or _HOURS_MAX},
        *(
            # The dashboard writes the ids of fields and values with hyphens there.
            {f"data-option-for-cluster-{cluster.replace('_', '-')}": False}
            for cluster in options["clusters"]
            if only and cluster != only
        ),
    ]


def _files(
    inputs: PlanInputs, offered: Mapping[str, _Benchmark], form: str
) -> Iterator[dict[str, str]]:
    options, folder = inputs.options, _folder(inputs)
    # Rules for the checks of the dashboard and of the job; they hold only plain names.
    rules = {
        "clusters": options["clusters"],
        "nodes_max": _NODES_MAX,
        "hours_max": _HOURS_MAX,
        "sbatch_arguments": options["sbatch_arguments"],
        "partitions": [
            {key: value for key, value in each.items() if value is not None}
            for each in options["partitions"]
        ],
        "benchmarks": list(offered),
        "variables": {name: options["variables"].get(name, {}) for name in offered},
    }
    filled = {
        "@CHECK@\n": inputs.text(f"{_SOURCES}/check.rb").replace("@RULES@", json.dumps(rules)),
        "@LAUNCHERS@\n": "".join(
            f"    {name}) launcher='{benchmark.launcher}' among={benchmark.among} ;;\n"
            for name, benchmark in offered.items()
            if benchmark.launcher
        ),
        "@CHECKOUT@": options["checkout"],
        "@RESULTS@": _RESULTS,
    }
    yield {"path": f"{folder}/template", "state": "directory"}
    yield {"path": f"{folder}/manifest.yml", "content": _HEADER + _json(inputs.data["manifest"])}
    yield {"path": f"{folder}/form.yml", "content": form}
    for name in _FILES:
        text = inputs.text(f"{_SOURCES}/{name}")
        for mark, value in filled.items():
            text = text.replace(mark, value)
        mode = "0755" if name.endswith(".sh.erb") else "0644"
        path = f"{folder}/{name.removesuffix('.in')}"
        yield {"path": path, "content": text, "mode": mode}


def _json(value: Any) -> str:
    """YAML takes JSON."""
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def _cluster_files(options: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """Files of clusters.d."""
    for cluster in options["cluster_files"]:
        job = {
            "adapter": "slurm",
            "bin": cluster["bin"] or "/usr/bin",
            "conf": cluster["conf"] or "/etc/slurm/slurm.conf",
        }
        definition = {
            "metadata": {"title": cluster["title"] or cluster["id"]},
            "login": {"host": cluster["login_host"]},
            "job": job,
        }
        path = f"{_CLUSTERS}/{cluster['id']}.yml"
        yield {"path": path, "content": _HEADER + _json({"v2": definition})}


def _refused(inputs: PlanInputs, available: Mapping[str, _Benchmark]) -> Iterator[str]:
    """Problems of the settings, a sentence each."""
    options = inputs.options
    partitions, clusters = options["partitions"], options["clusters"]
    names = [
        *clusters,
        *(each[key] for key in ("name", "vm_size", "cluster") for each in partitions if each[key]),
        *(each["id"] for each in options["cluster_files"]),
    ]
    if not clusters or not partitions:
        yield (
            "ondemand_app_clusters or ondemand_app_partitions is empty: name at least one Slurm"
            " cluster of clusters.d and one of its partitions."
        )
    for wrong, advice in (
        (
            [json.dumps(name) for name in names if not _PLAIN.fullmatch(name)],
            ": names of clusters, partitions and sizes have letters, digits, - _ and . only",
        ),
        (
            [
                json.dumps(argument)
                for argument in options["sbatch_arguments"]
                if not _ARGUMENT.fullmatch(argument)
            ],
            " of ondemand_app_sbatch_arguments: give one word each, such as --account=hpc",
        ),
        (
            [name for name in options["benchmarks"] if name not in available],
            (
                f" of ondemand_app_benchmarks: no benchmark of that name; there are"
                f" {', '.join(available)}"
            ),
        ),
        (
            list(_wrong_variables(options["variables"], available)),
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
            yield f"{', '.join(wrong)}{advice}."
    yield from _refused_of_site(inputs)


def _wrong_variables(
    by_benchmark: Mapping[str, Any], available: Mapping[str, _Benchmark]
) -> Iterator[str]:
    """Variables that the site cannot give a form's job."""
    for name, variables in by_benchmark.items():
        if name not in available or not isinstance(variables, dict):
            yield name
            continue
        taken = {f"{name}_{suffix}" for suffix in (*_LAUNCHERS, "nodes", "hosts")}
        taken |= set(available[name].secrets)
        yield from (
            str(variable)
            for variable in variables
            if variable in taken or not re.fullmatch(f"{name}_[a-z0-9_]+", str(variable))
        )


def _refused_of_site(inputs: PlanInputs) -> Iterator[str]:
    options = inputs.options
    for name, right, mend in (
        (
            "checkout",
            re.fullmatch("(/[A-Za-z0-9._-]+)+", options["checkout"]),
            ": give an absolute path of letters, digits, . _ - and /.",
        ),
        (
            "dir",
            inputs.found.get("stat", {}).get("isdir"),
            ", no folder on this machine: install Open OnDemand first, or give its folder of apps.",
        ),
    ):
        if not right:
            yield f"ondemand_app_{name} is {options[name]}{mend}"
