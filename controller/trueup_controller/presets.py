"""Presets: published pieces of work, and the variables of a play that reproduce one.

A preset is a file of catalog/presets. It names the problem, the sizes and numbers of nodes that the
publication used, the settings, the time that the run takes, and the rows of
catalog/reference_results.csv that the run should reproduce. No clock, network or Ansible in here.
"""

from __future__ import annotations

import pkgutil
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import msgspec
import yaml
from trueup_node import benchmarks
from trueup_node.errors import BadInput
from trueup_node.suggest import did_you_mean

from .benchmark_roles import role_of
from .typed import typed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

_FOLDER = "presets"
_BENCHMARKS = "trueup_benchmarks"
_SHAPE = re.compile(r"[0-9]+(x[0-9]+)+")
ScaleRule = Literal["linear", "volume", "threads"]


class Reference(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Published rows that a run of the preset should reproduce, and the figure to compare.

    Attributes:
        published: columns of catalog/reference_results.csv and their values; a value that ends in
            ``*`` is a beginning. Every row that has them is meant: one for each number of nodes and
            of cores or GPUs. A row without these numbers is for all of them.
        benchmark: the benchmark of the records to compare; one of training is called megatron.
        metric: the figure of these records.
        statistic: its statistic; empty: the typical one.
        message_bytes: of a figure that depends on the size of messages.
        parameters: parameters that the records must have.
        same_size: whether the published row is of the record's own Azure size.
        at_least: the share of the published performance that a healthy run reaches. 0.9: a rate
            of 90 % or more, or a time of at most 1 / 0.9 of the published time.
        unlike: of a row that is shown beside the run and does not judge it: the reason.
    """

    published: dict[str, str]
    benchmark: str
    metric: str
    at_least: Annotated[float, msgspec.Meta(gt=0, le=1)] | None = None
    unlike: str = ""
    same_size: bool = False
    statistic: str = ""
    message_bytes: int | None = None
    parameters: dict[str, Any] = {}

    def is_of(self, row: Mapping[str, str]) -> bool:
        """Whether a row of catalog/reference_results.csv is one of the published rows."""
        return all(
            row[column].startswith(value[:-1]) if value.endswith("*") else row[column] == value
            for column, value in self.published.items()
        )


class Preset(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One published piece of work.

    Attributes:
        title: one line.
        source: the publication with its date.
        chosen: the settings that the publication does not give, and why they have these values.
        benchmarks: the benchmarks, in this order. A list of the play that has all of them stays.
        sizes: the sizes that it is for, with the minutes of a run there; None: not known.
        minutes_source: how the minutes are computed.
        nodes: the numbers of nodes of the publication.
        node_counts: the variable that takes these numbers, of a sweep over nodes.
        node_names: the variable that names the nodes: of that sweep, or of a run over all of them.
        user_variables: variables that inventory or recipe must set, each with a sentence on its
            value.
        mirrors: variables with the address of an input whose sha256 the preset has: a value of
            inventory or recipe stays.
        unpublished: the reason why there is no published figure to compare with, where there is
            none.
        needs: the needs of a run beyond the nodes, one sentence each.
        variables: variables of plays and roles.
        small: values for a smaller form, in place of those of ``variables`` or beside them, before
            ``scale`` is applied.
        scale: how a variable follows ``trueup_preset_scale``. linear: a number; volume: the extents
            of a shape, or the edge of a cube, so that the number of points follows; threads: the
            layouts, which take the same shares of the node's own cores.
        cores: the cores for which the layouts are written; needed by ``threads``.
        reference: the published rows to compare with.
    """

    title: str
    source: str
    benchmarks: list[str]
    sizes: dict[str, float | None]
    minutes_source: str
    variables: dict[str, Any]
    chosen: str = ""
    nodes: list[int] = msgspec.field(default_factory=lambda: [1])
    node_counts: str = ""
    node_names: str = ""
    user_variables: dict[str, str] = {}
    mirrors: list[str] = []
    unpublished: str = ""
    needs: list[str] = []
    small: dict[str, Any] = {}
    scale: dict[str, ScaleRule] = {}
    cores: int | None = None
    reference: list[Reference] = []

    def __post_init__(self) -> None:
        if misfits := [*_misfits(self)]:
            raise ValueError("; ".join(misfits))


class Machine(NamedTuple):
    """The node that a preset is applied to.

    Attributes:
        size: its Azure size; empty where it is not known.
        cores: physical cores.
    """

    size: str
    cores: int


class Applied(NamedTuple):
    """Variables of a play, and sentences on the parts of the preset that the nodes cannot have."""

    variables: dict[str, Any]
    notes: list[str]


def names(catalog: Path) -> list[str]:
    """The presets of a catalog, sorted."""
    return sorted(path.stem for path in (catalog / _FOLDER).glob("*.yml"))


def read(name: str, catalog: Path) -> Preset:
    """One preset of a catalog.

    Raises:
        BadInput: there is none of that name, or its file is wrong.
    """
    preset_names = names(catalog)
    if name not in preset_names:
        hint = did_you_mean(name, preset_names) or f"; there are {', '.join(preset_names)}"
        raise BadInput(f"there is no preset {name!r}{hint}")
    path = catalog / _FOLDER / f"{name}.yml"
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise BadInput(f"{path}: {error}") from error
    return typed(document, Preset, str(path))


def read_all(catalog: Path) -> dict[str, Preset]:
    """All presets of a catalog, by name.

    Raises:
        BadInput: a file is wrong.
    """
    return {name: read(name, catalog) for name in names(catalog)}


def of_family(family: str, lists: Sequence[Mapping[str, Any]]) -> list[str]:
    """The presets that the data of a VM family names (trueup_families), in order.

    Raises:
        BadInput: there is no such family.
    """
    known = list(dict.fromkeys(name for row in lists for name in row["families"]))
    if family not in known:
        hint = did_you_mean(family, known) or f"; there are {', '.join(known)}"
        raise BadInput(f"there is no family {family!r}{hint}")
    named = (row.get("presets", []) for row in lists if family in row["families"])
    return list(dict.fromkeys(name for names_ in named for name in names_))


def _known() -> set[str]:
    """The benchmarks that there are."""
    return {info.name for info in pkgutil.iter_modules(benchmarks.__path__)}


def _misfits(preset: Preset) -> Iterable[str]:
    """Contradictions within a preset, a sentence each."""
    yield from _strange_variables(preset)
    for row in preset.reference:
        if row.benchmark not in _known() or role_of(row.benchmark) not in preset.benchmarks:
            yield f"reference compares {row.benchmark}, which the preset does not measure"
        if (row.at_least is None) != bool(row.unlike):
            yield f"reference of {row.metric} needs either at_least or unlike"
    if bool(preset.reference) == bool(preset.unpublished):
        yield "a preset has either reference or unpublished"
    if preset.node_counts and not preset.node_names:
        yield "node_counts needs node_names"


def _strange_variables(preset: Preset) -> Iterable[str]:
    """Members that name a variable which the preset does not set."""
    every = {*preset.variables, *preset.small}
    for member, named in (("mirrors", preset.mirrors), ("scale", preset.scale)):
        for variable in named:
            if variable not in every:
                yield f"{member} names {variable}, which is not in variables"
    if "threads" in preset.scale.values() and preset.cores is None:
        yield "scale is threads, and cores is missing"


def asked_of_user(preset: Preset) -> list[str]:
    """The variables of inventory or recipe that decide the result of a preset."""
    nodes = [preset.node_names] if preset.node_names else []
    return [_BENCHMARKS, *preset.user_variables, *preset.mirrors, *nodes]


def applied(
    name: str,
    preset: Preset,
    machine: Machine,
    *,
    values: Mapping[str, Any],
    scale: float = 1.0,
) -> Applied:
    """The variables of a preset for one node.

    Args:
        name: the preset's name, for messages.
        preset: the preset.
        machine: the node.
        values: the play's variables of ``user_variables``, ``mirrors`` and ``node_names``.
        scale: the share of the published work, above 0 and at most 1.

    Raises:
        BadInput: the preset is of other sizes or numbers of nodes and not scaled, cannot be scaled,
            or lacks a variable of the user.
    """
    nodes_named = len(values.get(preset.node_names) or []) if preset.node_names else 0
    _refuse_machine(name, preset, machine, scale)
    _refuse_values(name, preset, values)
    if preset.node_names and not preset.node_counts and scale == 1:
        _refuse_other_counts(name, preset, nodes_named)
    variables = {_BENCHMARKS: _benchmarks(preset, values), **preset.variables}
    variables |= {mirror: values[mirror] for mirror in preset.mirrors if values.get(mirror)}
    if scale < 1:
        variables |= preset.small
        share = machine.cores / (preset.cores or machine.cores)
        for variable, rule in preset.scale.items():
            variables[variable] = _SCALED[rule](variables[variable], scale, share)
    if not preset.node_counts:
        return Applied(variables, [])
    variables[preset.node_counts] = [count for count in preset.nodes if count <= nodes_named]
    lacking = [count for count in preset.nodes if count > max(nodes_named, 1)]
    if not lacking:
        return Applied(variables, [])
    counts = ", ".join(map(str, lacking))
    note = (
        f"preset {name}: not measured on {counts} nodes, since {preset.node_names} names"
        f" {nodes_named}"
    )
    return Applied(variables, [note])


def _benchmarks(preset: Preset, values: Mapping[str, Any]) -> list[str]:
    """The play's list where it has all of the preset's, else the preset's."""
    named = values.get(_BENCHMARKS) or []
    if isinstance(named, list) and set(preset.benchmarks) <= set(named):
        return named
    return list(preset.benchmarks)


def _refuse_machine(name: str, preset: Preset, machine: Machine, scale: float) -> None:
    """Refuse a size that the preset is not for, and a scale that cannot be.

    Raises:
        BadInput: naming it.
    """
    if not 0 < scale <= 1:
        raise BadInput(f"trueup_preset_scale is {scale:g}: it must be above 0 and at most 1")
    if scale == 1 and machine.size not in preset.sizes:
        form = (
            " or set trueup_preset_scale below 1 for a smaller form, which is compared with nothing"
        )
        smaller = f",{form}" if preset.scale else ""
        raise BadInput(
            f"preset {name} is for {', '.join(preset.sizes)}, and this node is"
            f" {machine.size or 'no known Azure size'}: choose another preset{smaller}"
        )
    if scale < 1 and not preset.scale:
        raise BadInput(f"preset {name} has no smaller form: remove trueup_preset_scale")


def _refuse_values(name: str, preset: Preset, values: Mapping[str, Any]) -> None:
    """Refuse a play without the user's variables.

    Raises:
        BadInput: naming all of them.
    """
    lacking = [
        f"{variable} ({sentence})"
        for variable, sentence in preset.user_variables.items()
        if not values.get(variable)
    ]
    if lacking:
        raise BadInput(f"preset {name} needs {' and '.join(lacking)}")


def _refuse_other_counts(name: str, preset: Preset, nodes_named: int) -> None:
    """Refuse a number of nodes that the publication does not have.

    Raises:
        BadInput: naming the numbers.
    """
    if max(nodes_named, 1) not in preset.nodes:
        counts = ", ".join(map(str, preset.nodes))
        raise BadInput(
            f"preset {name} is for {counts} nodes, and {preset.node_names} names {nodes_named}:"
            f" name as many hosts in {preset.node_names}"
        )


def _linear(value: Any, scale: float, _: float) -> Any:
    """A number, or each of a list."""
    if isinstance(value, list):
        return [_linear(member, scale, _) for member in value]
    return max(1, round(value * scale)) if isinstance(value, int) else value * scale


def _volume(value: str | float, scale: float, _: float) -> str | float:
    """A shape such as 512x512x512, each extent by the same factor; at least 32 points each. A
    number is the edge of a cube, to a tenth."""
    if isinstance(value, float):
        edge: float = round(value * scale ** (1 / 3), 1)
        return edge
    if not _SHAPE.fullmatch(value):
        raise BadInput(f"{value!r} is no shape such as 512x512x512, and cannot be scaled by volume")
    extents = [int(extent) for extent in value.split("x")]
    factor = scale ** (1 / len(extents))
    return "x".join(str(max(32, round(extent * factor))) for extent in extents)


def _threads(layouts: Sequence[Mapping[str, Any]], _: float, share: float) -> list[dict[str, Any]]:
    """Layouts with the same share of the node's cores, each once; one rank where a rank would have
    less than one core."""
    scaled_layouts: list[dict[str, Any]] = []
    for layout in layouts:
        cores = max(1, round(layout["ranks"] * layout["threads_per_rank"] * share))
        ranks = layout["ranks"] if cores >= layout["ranks"] and cores % layout["ranks"] == 0 else 1
        scaled = {**layout, "ranks": ranks, "threads_per_rank": cores // ranks}
        if scaled not in scaled_layouts:
            scaled_layouts.append(scaled)
    return scaled_layouts


_SCALED: dict[ScaleRule, Callable[[Any, float, float], Any]] = {
    "linear": _linear,
    "volume": _volume,
    "threads": _threads,
}


def recorded(preset: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of a record that name its preset.

    Args:
        preset: ``name``, ``scale`` and ``variables`` as ``applied`` gave them.
        values: the same variables as the play has them; ``-e`` wins over the preset.

    Returns:
        ``preset`` and ``preset_scale``, and where the play has other values ``preset_changed``, the
        names of these variables.
    """
    changed = sorted(
        name for name, value in preset["variables"].items() if values.get(name, value) != value
    )
    parameters = {"preset": preset["name"], "preset_scale": preset["scale"]}
    return {**parameters, "preset_changed": ", ".join(changed)} if changed else parameters
