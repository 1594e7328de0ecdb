"""The Azure services and the storage that fit a need, by the rules of catalog/services.yml.

The rules are trueup's own rules of thumb; the limits are the services'. A need above a limit is
refused with the number and its source, and nothing that has ended is advised.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field, fields
from datetime import date
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from trueup_node.errors import BadInput
from trueup_node.reading import is_number
from trueup_node.suggest import did_you_mean

from ... import catalog

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

FILE: Final = "services.yml"
TIB_IN_TB: Final = 2**40 / 1e12
CHOICES: Final = {
    "scheduler": ("slurm", "none"),
    "data": ("any", "local", "blob", "nfs", "smb", "lustre"),
    "access": ("any", "once", "shared", "small", "scratch", "profiles"),
}
_LEAST: Final = {"nodes": 1, "models": 1, "tenants": 1, "desktop_users": 0, "users_a_host": 0}
_BOUNDS: Final = ("least", "most", "below")
_MARKS: Final = ("verified", "secondary", "unverified")
_EFFORTS: Final = ("low", "medium", "high")


@dataclass(frozen=True, kw_only=True)
class Needs:
    """The demands of the work to run.

    Attributes:
        nodes: that one job or one server has at once.
        coupled: whether its nodes talk to each other all the time (MPI, training, one model).
        always_on: whether it must answer at any time.
        models, tenants: that share the machines.
        tracked: whether jobs, models and their history are to be kept by the service.
        scheduler: the one that its users know: slurm or none.
        spot: whether nodes may be evicted.
        job_days: how long one job takes.
        desktop_users: people on desktops; users_a_host: of them on one VM, 0 where not known.
        data: how the work reaches its data today: any, local, blob, nfs, smb or lustre.
        access: once (from end to end), shared (many nodes, large files), small (many nodes, many
            small files), scratch (of one job), profiles (of desktops) or any.
        data_tb: how much it is, in TB (1e12 bytes).
        mb_s: the rate at which all nodes together read or write, in MB/s (1e6 bytes).
        keep: whether written data must outlive the machine that writes them.
    """

    nodes: int = 1
    coupled: bool = False
    always_on: bool = False
    models: int = 1
    tenants: int = 1
    tracked: bool = False
    scheduler: str = "none"
    spot: bool = False
    job_days: float | None = None
    desktop_users: int = 0
    users_a_host: int = 0
    data: str = "any"
    access: str = "any"
    data_tb: float | None = None
    mb_s: float | None = None
    keep: bool = False

    def __post_init__(self) -> None:
        for name, words in CHOICES.items():
            if getattr(self, name) not in words:
                wrong = f"{name} is {getattr(self, name)!r}; give one of {', '.join(words)}"
                raise BadInput(wrong)
        for name, least in _LEAST.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise BadInput(f"{name} is {value!r}; give a whole number of at least {least}")
        for name in ("coupled", "always_on", "tracked", "spot", "keep"):
            value = getattr(self, name)
            if not isinstance(value, bool):
                raise BadInput(f"{name} is {value!r}; give true or false")
        for name in ("job_days", "data_tb", "mb_s"):
            value = getattr(self, name)
            if value is not None and not (is_number(value) and 0 < value < math.inf):
                raise BadInput(f"{name} is {value!r}; give a number above 0")

    @property
    def shared(self) -> bool:
        """Whether more than one node needs the same files."""
        return self.nodes > 1 and self.access != "scratch"


_TRUE: Final = {"yes": True, "true": True, "no": False, "false": False}


def needs_of(texts: Mapping[str, str]) -> Needs:
    """The needs that words say, such as ``{"nodes": "16", "coupled": "yes"}``.

    Raises:
        BadInput: an unknown name, a word that is no number or neither yes nor no, or a value that
            ``Needs`` refuses.
    """
    defaults = {need_field.name: need_field.default for need_field in fields(Needs)}
    read: dict[str, Any] = {}
    for name, text in texts.items():
        if name not in defaults:
            raise BadInput(
                f"{name} is no need{did_you_mean(name, defaults)}; {', '.join(defaults)}"
            )
        default = defaults[name]
        try:
            if isinstance(default, bool):
                read[name] = _TRUE[text.lower()]
            elif isinstance(default, str):
                read[name] = text
            else:
                read[name] = int(text) if isinstance(default, int) else float(text)
        except KeyError as error:
            raise BadInput(f"{name} is {text!r}; give yes or no") from error
        except ValueError as error:
            type_name = "a whole number" if isinstance(default, int) else "a number"
            raise BadInput(f"{name} is {text!r}; give {type_name}") from error
    return Needs(**read)


_FIELDS: Final = (*(need_field.name for need_field in fields(Needs)), "shared")


class Source(NamedTuple):
    """Where a statement stands, and how well that was checked."""

    text: str
    mark: str
    date: str

    def __str__(self) -> str:
        return f"{self.text} ({self.mark}, {self.date})"


class Statement(NamedTuple):
    """A statement with its source."""

    text: str
    source: Source


class Level(NamedTuple):
    """A service level of a storage, bought so large that it holds the data and is fast enough.

    Attributes:
        name: as Azure calls it.
        tib: the capacity to buy; 1 TiB is 2**40 bytes.
        mb_s: its throughput, in MB/s.
        doubts: reasons not to rely on it.
        refused: why it cannot be; empty where it can.
    """

    name: str
    tib: float
    mb_s: float
    source: Source
    doubts: tuple[str, ...] = ()
    refused: str = ""


@dataclass(frozen=True)
class Advice:
    """The advice on one service or storage.

    Attributes:
        service, name: its short name and Azure's.
        rank: 1 is the first to try; None where no rule of thumb names it for these needs.
        why: the rule of thumb, which is trueup's.
        refused: limits of the service that the needs exceed; one that has any is not advised.
        against: its disadvantages.
        notes: its other limits.
        effort: low, medium or high, trueup's word; manages: the tasks that stay with the user.
        billing: the unit; empty where no source says it.
        ended: parts of it that are not to be used any more.
        levels: of a storage, where the amount of data is known.
        sources: of the row.
    """

    service: str
    name: str
    rank: int | None
    why: str
    refused: tuple[Statement, ...]
    against: tuple[Statement, ...]
    notes: tuple[Statement, ...]
    effort: str
    manages: tuple[str, ...]
    managed: tuple[str, ...]
    billing: str
    ended: tuple[Statement, ...]
    sources: tuple[Source, ...]
    levels: tuple[Level, ...] = field(default=())

    @property
    def advised(self) -> bool:
        return self.rank is not None and not self.refused


@dataclass(frozen=True)
class Correction:
    """A wrong statement of an article.

    Attributes:
        article: its name in the catalog; place: where in it; says: its words, or their meaning.
        wrong: why it is not so; since: the date since when, empty where it never was so or no
            source has a date.
        instead: the one to use today.
    """

    article: str
    place: str
    says: str
    wrong: str
    since: str
    instead: str
    source: Source


@dataclass(frozen=True)
class Services:
    """catalog/services.yml, checked."""

    services: Sequence[Mapping[str, Any]]
    storage: Sequence[Mapping[str, Any]]
    ended: Sequence[Mapping[str, Any]]
    gone: Sequence[Mapping[str, Any]]
    corrections: Sequence[Correction]
    sources: Mapping[str, Source]


def advise(needs: Needs, services: Services, today: date) -> list[Advice]:
    """All services: first the ones that fit, by rank, then by their number of disadvantages; then
    the ones that would fit and exceed a limit; then the rest."""
    return _ranked(services.services, needs, services, today)


def advise_storage(needs: Needs, services: Services, today: date) -> list[Advice]:
    """All kinds of storage, in the order of ``advise``. Their prices are not compared."""
    return _ranked(services.storage, needs, services, today)


def gone(size: str, services: Services, today: date) -> str:
    """Why a size without a row in the catalog cannot be had, with the successors that Microsoft
    names; empty where nothing is known of it."""
    for row in services.gone:
        if not re.fullmatch(row["sizes"], size, re.IGNORECASE):
            continue
        past = date.fromisoformat(row["date"]) <= today
        named = str(row["successors"]).replace(";", ", ")
        instead = f"Microsoft names {named} instead" if named else "no source names a successor"
        return (
            f"{row['series']} {'retired' if past else 'retires'} on {row['date']}; {instead}"
            f" [{services.sources[row['source']]}]"
        )
    return ""


def read_services(chosen: Path | None = None) -> Services:
    """The services of a catalog.

    Raises:
        BadInput: the file cannot be read, or a row of it is not as its head says.
    """
    path = catalog.find(FILE, chosen)
    document = catalog.document(path)
    try:
        sources = {name: Source(**row) for name, row in document["sources"].items()}
        if wrong := [name for name, source in sources.items() if source.mark not in _MARKS]:
            raise BadInput(f"{path}: source {wrong[0]} has no mark of {', '.join(_MARKS)}")
        services = Services(
            document["services"],
            document["storage"],
            document["ended"],
            document["gone"],
            [
                Correction(**{**row, "source": sources[row["source"]]})
                for row in document["corrections"]
            ],
            sources,
        )
        for row in (*services.services, *services.storage):
            _check(row, sources)
        for row in (*services.ended, *services.gone):
            date.fromisoformat(row["date"])
            _known(row["source"], sources)
        for row in services.gone:
            re.compile(row["sizes"])
        for correction in services.corrections:
            if correction.since:
                date.fromisoformat(correction.since)
    except (KeyError, TypeError, AttributeError, ValueError, re.error) as error:
        raise BadInput(f"{path} is not as its head says: {error!r}") from error
    return services


def _check(row: Mapping[str, Any], sources: Mapping[str, Source]) -> None:
    """Raise ValueError or KeyError where a row is not as the head of the file says."""
    if row["effort"] not in _EFFORTS:
        raise ValueError(f"{row['service']}: effort {row['effort']!r}")
    against, limits, also = (row.get(name, ()) for name in ("against", "limits", "also"))
    for rule in (*row["fits"], *against, *limits):
        _check_conditions(rule.get("needs", {}))
    for limit in limits:
        getattr(Needs(), limit["of"])
        limit["most"], limit["unit"]
    for name in row["sources"]:
        _known(name, sources)
    for statement in (*against, *limits, *also, *row.get("levels", ())):
        _known(statement["source"], sources)
    for rule in row["fits"]:
        rule["rank"], rule["because"]
    row["name"], row["manages"], row["managed"], row["billing"]


def _known(name: str, sources: Mapping[str, Source]) -> None:
    if name not in sources:
        raise ValueError(f"no source {name!r}")


def _check_conditions(conditions: Mapping[str, Any]) -> None:
    """Raise ValueError where a condition is of no field, or its bound is none."""
    for name, condition in conditions.items():
        if name not in _FIELDS:
            raise ValueError(f"a condition on {name!r}, which is none of {', '.join(_FIELDS)}")
        if isinstance(condition, dict):
            for bound, value in condition.items():
                if bound not in _BOUNDS:
                    raise ValueError(f"{name}: {bound!r} is none of {', '.join(_BOUNDS)}")
                float(value)


def _holds(conditions: Mapping[str, Any], needs: Needs) -> bool:
    """Whether all conditions hold; one on an unknown value does not."""
    for name, condition in conditions.items():
        value = getattr(needs, name)
        if isinstance(condition, dict):
            if value is None or not _within(value, condition):
                return False
        elif value not in (condition if isinstance(condition, list) else [condition]):
            return False
    return True


def _within(value: float, bounds: Mapping[str, float]) -> bool:
    return (
        value >= bounds.get("least", -math.inf)
        and value <= bounds.get("most", math.inf)
        and value < bounds.get("below", math.inf)
    )


def _ranked(
    rows: Iterable[Mapping[str, Any]], needs: Needs, services: Services, today: date
) -> list[Advice]:
    advices = [_advice(row, needs, services, today) for row in rows]
    return sorted(
        advices,
        key=lambda advice: (
            advice.rank is None,
            bool(advice.refused),
            advice.rank or 0,
            len(advice.against),
        ),
    )


def _advice(row: Mapping[str, Any], needs: Needs, services: Services, today: date) -> Advice:
    rule = next((fit for fit in row["fits"] if _holds(fit["needs"], needs)), None)
    against = [
        Statement(statement["because"], services.sources[statement["source"]])
        for statement in row.get("against", ())
        if _holds(statement["needs"], needs)
    ]
    levels = _levels(row, needs, services)
    refused, doubts = _exceeded(row, needs, services)
    if levels and all(storage_level.refused for storage_level in levels):
        refused += [
            Statement(storage_level.refused, storage_level.source) for storage_level in levels
        ]
    return Advice(
        row["service"],
        row["name"],
        rule["rank"] if rule else None,
        rule["because"] if rule else "",
        tuple(refused),
        (*against, *doubts),
        tuple(
            Statement(statement["text"], services.sources[statement["source"]])
            for statement in row.get("also", ())
        ),
        row["effort"],
        tuple(row["manages"]),
        tuple(row["managed"]),
        row["billing"],
        tuple(_ended(row["service"], services, today)),
        tuple(services.sources[name] for name in row["sources"]),
        levels,
    )


def _exceeded(
    row: Mapping[str, Any], needs: Needs, services: Services
) -> tuple[list[Statement], list[Statement]]:
    """Limits that the needs exceed, and smaller ones of other sources or conditions."""
    refused, doubts = [], []
    for limit in row.get("limits", ()):
        value = getattr(needs, limit["of"])
        if value is None or not _holds(limit.get("needs", {}), needs):
            continue
        source = services.sources[limit["source"]]
        if value > limit["most"]:
            refused.append(
                Statement(f"{_plain(value)} is above {limit['most']} {limit['unit']}", source)
            )
        elif value > limit.get("doubt", math.inf):
            most = f"at most {limit['most']} {limit['unit']}"
            doubts.append(Statement(f"{_plain(value)} is above {limit['doubt']}: {most}", source))
    return refused, doubts


def _levels(row: Mapping[str, Any], needs: Needs, services: Services) -> tuple[Level, ...]:
    """Each level, as large as the data and the throughput ask for; the smallest purchase first."""
    if needs.data_tb is None:
        return ()
    levels = [
        level(level_row, needs, needs.data_tb, services) for level_row in row.get("levels", ())
    ]
    return tuple(
        sorted(
            levels,
            key=lambda storage_level: (
                bool(storage_level.refused),
                storage_level.tib,
                storage_level.mb_s,
            ),
        )
    )


def level(row: Mapping[str, Any], needs: Needs, data_tb: float, services: Services) -> Level:
    """A level of a storage, as large as the data and the throughput of the needs ask for."""
    per_tib, step, most = row["mb_s_per_tib"], row["step_tib"], row["most_tib"]
    needed_tib = max(data_tb / TIB_IN_TB, (needs.mb_s or 0) / per_tib)
    # A division's last digit must not buy another step.
    tib = max(row["least_tib"], math.ceil(needed_tib / step - 1e-9) * step)
    reached = min(per_tib * tib, row.get("most_mb_s", math.inf))
    doubts, refused = [row["unsure"]] if "unsure" in row else [], ""
    if tib > most:
        refused = f"{row['name']}: {_plain(tib)} TiB are needed, and it has at most {_plain(most)}"
    elif needs.mb_s is not None and reached < needs.mb_s * (1 - 1e-9):
        asks = f"{row['name']}: {_plain(needs.mb_s)} MB/s are needed"
        refused = f"{asks}, and it has at most {_plain(reached)}"
    elif tib > row.get("doubt_tib", math.inf):
        doubts.append(f"another source has at most {row['doubt_tib']} TiB")
    return Level(row["name"], tib, reached, services.sources[row["source"]], tuple(doubts), refused)


def _plain(value: float) -> str:
    """A number without an exponent, to a tenth where it is no whole one."""
    return f"{value:.1f}".removesuffix(".0")


def _ended(service: str, services: Services, today: date) -> Iterable[Statement]:
    for row in services.ended:
        if row["service"] == service:
            verb = "ended" if date.fromisoformat(row["date"]) <= today else "ends"
            text = f"{row['name']} {verb} on {row['date']}; use {row['instead']}"
            yield Statement(text, services.sources[row["source"]])
