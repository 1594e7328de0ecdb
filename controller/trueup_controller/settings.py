"""The user's settings of the plays: the variables ``trueup_*``, each declared once.

docs/reference/variables.md follows from ``OPTIONS`` (``make options`` writes it); the action
``trueup_variables`` refuses the findings of ``problems`` before a node is asked anything. Roles
have variables of their own, which their plans check.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Mapping
from typing import Any, Callable

from trueup_node.options import Option, refusals
from trueup_node.suggest import nearest

# The releases of ansible-core that `make versions` runs the plays with, the first and the last.
ANSIBLE = ((2, 19), (2, 21))
PREFIX = "trueup_"
PAGE = "docs/reference/variables.md"

OPTIONS = (
    Option("benchmarks", "What is measured, in this order.", type="list", why="its family's"),
    Option(
        "vm_size",
        "The VM's size, where the metadata service cannot say it or says too little"
        " (a size of which some cores are switched off).",
        "",
    ),
    Option(
        "mpi",
        "The MPI that starts ranks: hpcx, hpcx-pmix, openmpi, intel, mvapich, or the path of an"
        " mpirun.",
        "",
        why="that of its family (HPC-X), else that on PATH, else the image's Open MPI",
    ),
    Option(
        "preset",
        "A published piece of work, which sets the problem, layouts and settings of its benchmarks:"
        " a file of catalog/presets (`trueup presets` lists them). It wins over the inventory; `-e`"
        " wins over it, and the record says so.",
        "",
        why="each benchmark's own problem",
    ),
    Option(
        "preset_scale",
        "The share of the preset's work, above 0 and at most 1. A run with less than 1 is never"
        " compared with the published rows.",
        1.0,
        least=0,
        most=1,
    ),
    Option(
        "join_groups",
        "More groups of the inventory that the nodes join, such as eessi; `trueup_cluster` gives"
        " them their roles.",
        [],
    ),
    Option(
        "mpirun_arguments",
        "Of benchmarks over several nodes that mpirun starts: more of its arguments, such as"
        " [--mca, btl_tcp_if_include, eth0].",
        [],
    ),
    Option(
        "srun_arguments",
        "Of those that Slurm starts: more arguments of srun, which has --mpi=pmix where they say"
        " no other.",
        [],
    ),
    Option(
        "job_directory",
        "Of benchmarks that Slurm starts: a folder that all nodes share, for the job's output.",
        "",
    ),
    Option(
        "job_options",
        "Of the same: more arguments of sbatch, such as [--partition=hbv3].",
        [],
    ),
    Option("resume", "The run that is continued: its id, or last.", "", why="a new run"),
    Option("report", "Folder of a report at the run's end.", "", why="no report"),
    Option(
        "health_benchmarks",
        "What the health check measures.",
        type="list",
        why="what the size has expectations of",
    ),
    Option("health_fatal", "Whether a node that fails its health check ends there.", True),
    Option("health_slurm", "Whether Slurm drains nodes that fail.", False),
    Option("health_slurm_host", "Where `scontrol` runs.", "localhost"),
    Option("health_slurm_node", "The node's name in Slurm.", why="that of the inventory"),
    Option(
        "ssh_keys",
        "Whether nodes that cannot reach each other by ssh can while a run measures; the keys are"
        " taken away at its end.",
        False,
    ),
    Option("pairwise", "Whether `playbooks/check.yml` measures every pair of nodes too.", False),
    Option(
        "acceptance_change",
        "Whether `playbooks/acceptance.yml` may change an idle node for a moment (`steps` of"
        " catalog/acceptance.yml), and put it back.",
        False,
    ),
    Option(
        "max_usd",
        "What preflight can neither time nor price is not counted. Above how many US$ of"
        " measuring a run does not begin.",
        type="float",
        why="no limit",
    ),
    Option(
        "families",
        "Roles, default benchmarks and presets of each family.",
        type="list",
        elements="dict",
        why="playbooks/group_vars/all.yml",
    ),
    Option(
        "cluster",
        "Roles of a cluster with the groups that get them.",
        type="dict",
        why="playbooks/group_vars/all.yml",
    ),
    Option(
        "needs",
        "What a role needs of others on its node.",
        type="dict",
        why="playbooks/group_vars/all.yml",
    ),
    Option(
        "azure_recipe",
        "What `playbooks/provision.yml` makes: a recipe of catalog/azure_recipes.",
        "",
        why="must be given there",
    ),
    Option(
        "azure_parameters",
        "A file of parameters over the recipe (docs/reference/azure_parameters.md).",
        "",
        why="the recipe alone",
    ),
    Option(
        "azure_max_usd_per_hour",
        "US$ an hour above which nothing is made.",
        type="float",
        why="`max_usd_per_hour` of the parameters",
    ),
    Option(
        "results",
        "Folder of the records on the controller.",
        why="TRUEUP_RESULTS of the environment, else results",
    ),
    Option("azure_run", "The run that is gone on with, or removed: its id.", "", why="a new run"),
    Option("metadata_url", "Where the instance metadata service answers.", why="Azure's address"),
    Option("sysfs_root", "Where the node's sysfs stands.", why="/sys"),
    Option("procfs_root", "Where the node's procfs stands.", why="/proc"),
)

# Variables that plays and roles compute or hand each other.
INTERNAL = tuple(
    f"{PREFIX}{name}"
    for name in (
        *("benchmark_role", "changes_due", "cluster_roles", "failed", "failed_roles"),
        *("failures_later", "family", "family_roles", "feasible", "health", "health_measured"),
        *("health_plan", "known", "lost", "missed", "names", "node", "plan", "planned"),
        *("preflighted", "preset_applied", "run_id", "shown", "skipped"),
        *("skips", "skips_here", "slurm_update", "step", "unmeasured_here", "verdict"),
    )
)

# Texts that Ansible takes for a truth value.
_TRUTH = {"true", "false", "yes", "no", "on", "off", "y", "n", "t", "f", "1", "0"}


def ansible_problem(version: str) -> str | None:
    """Why this ansible-core cannot run the plays; None where it can."""
    first, last = (".".join(map(str, release)) for release in ANSIBLE)
    match = re.match(r"(\d+)\.(\d+)", version)
    release = (int(match[1]), int(match[2])) if match else None
    if release and ANSIBLE[0] <= release <= ANSIBLE[1]:
        return None
    reason = (
        "gets no more security fixes (end of life)"
        if release and release < ANSIBLE[0]
        else "has not been tested with trueup"
    )
    return (
        f"This is ansible-core {version}, which {reason}: use {first} to {last}, as in trueup's own"
        " environment (`make controller-venv`, .venv/bin)."
    )


def problems(variables: Mapping[str, Any], allowed: Collection[str] = ()) -> list[str]:
    """Errors in a play's variables ``trueup_*``, a sentence each.

    Args:
        variables: these variables, templated.
        allowed: names that may stand among them beside trueup's: facts.
    """
    options = {f"{PREFIX}{option.name}": option for option in OPTIONS}
    fine = {*options, *INTERNAL, *allowed}
    wrong = [_unknown(name, list(options)) for name in sorted(set(variables) - fine)]
    of_wrong_type = {
        name: _type_refusal(name, option, variables[name])
        for name, option in options.items()
        if name in variables
    }
    wrong += [text for text in of_wrong_type.values() if text is not None]
    typed = {
        option.name: float(variables[name]) if option.type == "float" else variables[name]
        for name, option in options.items()
        if of_wrong_type.get(name, "") is None
    }
    return wrong + [f"{text}." for text in refusals(OPTIONS, typed, PREFIX)]


def _unknown(name: str, options: list[str]) -> str:
    # Without the prefix, which would make all of them alike.
    short = [option[len(PREFIX) :] for option in options]
    near = nearest(name[len(PREFIX) :], short)
    hint = f"did you mean {PREFIX}{near}?" if near else f"{PAGE} lists them."
    return f"{name}: there is no such variable; {hint}"


def _type_refusal(name: str, option: Option, value: Any) -> str | None:
    """Why a value has not the option's type; None where it has."""
    if value is None:
        return f"{name} has no value: remove it, or give {_form(name, option, value)}."
    if not _TYPES[option.type](value):
        return f"{name} is {value!r}: give {_form(name, option, value)}."
    kind = Mapping if option.elements == "dict" else str
    for item in value if option.type == "list" else ():
        if not isinstance(item, kind):
            return f"{name} holds {item!r}: give {_form(name, option, value)}."
    return None


def _is_number(value: Any) -> bool:
    try:
        return not isinstance(value, bool) and math.isfinite(float(value))
    except (TypeError, ValueError):
        return False


_TYPES: dict[str, Callable[[Any], bool]] = {
    "bool": lambda value: isinstance(value, bool) or str(value).lower() in _TRUTH,
    "dict": lambda value: isinstance(value, Mapping),
    "float": _is_number,
    "list": lambda value: isinstance(value, (list, tuple)),
    "str": lambda value: isinstance(value, str),
}


def _form(name: str, option: Option, value: Any) -> str:
    """The form of a valid value instead of ``value``, as it is written."""
    if option.type == "list" and option.elements == "str":
        words = re.findall(r"[\w.-]+", value) if isinstance(value, str) else []
        return f"a list, such as -e '{json.dumps({name: words or ['stream']})}'"
    forms = {"bool": "true or false", "float": "a number", "str": "a text"}
    return forms.get(option.type, f"a {option.type} as in playbooks/group_vars/all.yml")
