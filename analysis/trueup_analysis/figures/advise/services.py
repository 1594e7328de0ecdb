"""Which Azure service and which storage fit what is needed, by the rules of catalog/services.yml.

The rules are trueup's own rules of thumb; the limits are the services'. What exceeds a limit is
refused with the number and its source, and nothing that has ended is advised.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field, fields
from datetime import date
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from trueup.errors import BadInput
from trueup.reading import is_number
from trueup.words import did_you_mean

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
    """What is to run.

    Attributes:
        nodes: that one job or one server has at once.
        coupled: whether its nodes talk to each other all the time (MPI, training, one model).
        always_on: whether it must answer at any time.
        models, tenants: that share the machines.
        tracked: whether jobs, models and their history are to be kept by the service.
        scheduler: what its users know: slurm or none.
        spot: whether nodes may be evicted.
        job_days: how long one job takes.
        desktop_users: people on desktops; users_a_host: of them on one VM, 0 where not known.
        data: how the work reaches its data today: any, local, blob, nfs, smb or lustre.
        access: once (from end to end), shared (many nodes, large files), small (many nodes, many
            small files), scratch (of one job), profiles (of desktops) or any.
        data_tb: how much it is, in TB (1e12 bytes).
        mb_s: what all nodes together read or write, in MB/s (1e6 bytes).
        keep: whether what is written must outlive the machine that writes it.
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


def needs_of(given: Mapping[str, str]) -> Needs:
    """The needs that words say, such as ``{"nodes": "16", "coupled": "yes"}``.

    Raises:
        BadInput: an unknown name, a word that is no number or neither yes nor no, or a value that
            ``Needs`` refuses.
    """
    known = {one.name: one.default for one in fields(Needs)}
    read: dict[str, Any] = {}
    for name, word in given.items():
        if name not in known:
            raise BadInput(f"{name} is no need{did_you_mean(name, known)}; {', '.join(known)}")
        default = known[name]
        try:
            if isinstance(default, bool):
                read[name] = _TRUE[word.lower()]
            elif isinstance(default, str):
                read[name] = word
            else:
                read[name] = int(word) if isinstance(default, int) else float(word)
        except KeyError as error:
            raise BadInput(f"{name} is {word!r}; give yes or no") from error
        except ValueError as error:
            what = "a whole number" if isinstance(default, int) else "a number"
            raise BadInput(f"{name} is {word!r}; give {what}") from error
    return Needs(**read)


_FIELDS: Final = (*(one.name for one in fields(Needs)), "shared")


class Source(NamedTuple):
    """Where a statement stands, and how well that was checked."""

    text: str
    mark: str
    date: str

    def __str__(self) -> str:
        return f"{self.text} ({self.mark}, {self.date})"


class Said(NamedTuple):
    """A statement with its source."""

    text: str
    source: Source


class Level(NamedTuple):
    """A service level of a storage, bought so large that it holds the data and is fast enough.

    Attributes:
        name: as Azure calls it.
        tib: what is to be bought; 1 TiB is 2**40 bytes.
        mb_s: what that brings, in MB/s.
        doubts: what speaks against believing it.
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
    """What is said of one service or storage.

    Attributes:
        service, name: its short name and Azure's.
        rank: 1 is the first to try; None where no rule of thumb names it for these needs.
        why: the rule of thumb, which is trueup's.
        refused: limits of the service that the needs exceed; one that has any is not advised.
        against: what speaks against it.
        notes: its other limits.
        effort: low, medium or high, trueup's word; manages: what one keeps oneself.
        billing: the unit; empty where no source says it.
        ended: parts of it that are not to be used any more.
        levels: of a storage, where the amount of data is known.
        sources: of the row.
    """

    service: str
    name: str
    rank: int | None
    why: str
    refused: tuple[Said, ...]
    against: tuple[Said, ...]
    notes: tuple[Said, ...]
    effort: str
    manages: tuple[str, ...]
    managed: tuple[str, ...]
    billing: str
    ended: tuple[Said, ...]
    sources: tuple[Source, ...]
    levels: tuple[Level, ...] = field(default=())

    @property
    def advised(self) -> bool:
        return self.rank is not None and not self.refused


@dataclass(frozen=True)
class Correction:
    """What an article says that is not so.

    Attributes:
        article: its name in the catalog; place: where in it; says: its words, or what they mean.
        wrong: why it is not so; since: the date since when, empty where it never was so or no
            source has a date.
        instead: what is used today.
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


def advise(needs: Needs, known: Services, today: date) -> list[Advice]:
    """All services: first those that fit, by rank, then by how much speaks against them; then those
    that would fit and exceed a limit; then the rest."""
    return _ranked(known.services, needs, known, today)


def advise_storage(needs: Needs, known: Services, today: date) -> list[Advice]:
    """All kinds of storage, in the order of ``advise``. Their prices are not compared."""
    return _ranked(known.storage, needs, known, today)


def gone(size: str, known: Services, today: date) -> str:
    """Why a size that the catalog has no row for cannot be had, with what Microsoft names instead;
    empty where nothing is known of it."""
    for row in known.gone:
        if not re.fullmatch(row["sizes"], size, re.IGNORECASE):
            continue
        past = date.fromisoformat(row["date"]) <= today
        named = str(row["successors"]).replace(";", ", ")
        instead = f"Microsoft names {named} instead" if named else "no source names a successor"
        return (
            f"{row['series']} {'retired' if past else 'retires'} on {row['date']}; {instead}"
            f" [{known.sources[row['source']]}]"
        )
    return ""


def read_services(chosen: Path | None = None) -> Services:
    """The services of a catalog.

    Raises:
        BadInput: the file cannot be read, or a row of it is not as its head says.
    """
    path = catalog.find(FILE, chosen)
    found = catalog.document(path)
    try:
        sources = {name: Source(**row) for name, row in found["sources"].items()}
        if wrong := [name for name, one in sources.items() if one.mark not in _MARKS]:
            raise BadInput(f"{path}: source {wrong[0]} has no mark of {', '.join(_MARKS)}")
        known = Services(
            found["services"],
            found["storage"],
            found["ended"],
            found["gone"],
            [
                Correction(**{**row, "source": sources[row["source"]]})
                for row in found["corrections"]
            ],
            sources,
        )
        for row in (*known.services, *known.storage):
            _check(row, sources)
        for row in (*known.ended, *known.gone):
            date.fromisoformat(row["date"])
            _known(row["source"], sources)
        for row in known.gone:
            re.compile(row["sizes"])
        for one in known.corrections:
            if one.since:
                date.fromisoformat(one.since)
    except (KeyError, TypeError, AttributeError, ValueError, re.error) as error:
        raise BadInput(f"{path} is not as its head says: {error!r}") from error
    return known


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
    for one in (*against, *limits, *also, *row.get("levels", ())):
        _known(one["source"], sources)
    for rule in row["fits"]:
        rule["rank"], rule["because"]
    row["name"], row["manages"], row["managed"], row["billing"]


def _known(name: str, sources: Mapping[str, Source]) -> None:
    if name not in sources:
        raise ValueError(f"no source {name!r}")


def _check_conditions(conditions: Mapping[str, Any]) -> None:
    """Raise ValueError where a condition is of no field, or its bound is none."""
    for name, wanted in conditions.items():
        if name not in _FIELDS:
            raise ValueError(f"a condition on {name!r}, which is none of {', '.join(_FIELDS)}")
        if isinstance(wanted, dict):
            for bound, value in wanted.items():
                if bound not in _BOUNDS:
                    raise ValueError(f"{name}: {bound!r} is none of {', '.join(_BOUNDS)}")
                float(value)


def _holds(conditions: Mapping[str, Any], needs: Needs) -> bool:
    """Whether all conditions hold; one on what is not known does not."""
    for name, wanted in conditions.items():
        value = getattr(needs, name)
        if isinstance(wanted, dict):
            if value is None or not _within(value, wanted):
                return False
        elif value not in (wanted if isinstance(wanted, list) else [wanted]):
            return False
    return True


def _within(value: float, bounds: Mapping[str, float]) -> bool:
    return (
        value >= bounds.get("least", -math.inf)
        and value <= bounds.get("most", math.inf)
        and value < bounds.get("below", math.inf)
    )


def _ranked(
    rows: Iterable[Mapping[str, Any]], needs: Needs, known: Services, today: date
) -> list[Advice]:
    found = [_advice(row, needs, known, today) for row in rows]
    return sorted(
        found,
        key=lambda one: (one.rank is None, bool(one.refused), one.rank or 0, len(one.against)),
    )


def _advice(row: Mapping[str, Any], needs: Needs, known: Services, today: date) -> Advice:
    rule = next((one for one in row["fits"] if _holds(one["needs"], needs)), None)
    against = [
        Said(one["because"], known.sources[one["source"]])
        for one in row.get("against", ())
        if _holds(one["needs"], needs)
    ]
    levels = _levels(row, needs, known)
    refused, doubts = _exceeded(row, needs, known)
    if levels and all(one.refused for one in levels):
        refused += [Said(one.refused, one.source) for one in levels]
    return Advice(
        row["service"],
        row["name"],
        rule["rank"] if rule else None,
        rule["because"] if rule else "",
        tuple(refused),
        (*against, *doubts),
        tuple(Said(one["text"], known.sources[one["source"]]) for one in row.get("also", ())),
        row["effort"],
        tuple(row["manages"]),
        tuple(row["managed"]),
        row["billing"],
        tuple(_ended(row["service"], known, today)),
        tuple(known.sources[name] for name in row["sources"]),
        levels,
    )


def _exceeded(
    row: Mapping[str, Any], needs: Needs, known: Services
) -> tuple[list[Said], list[Said]]:
    """Limits that the needs exceed, and smaller ones of other sources or conditions."""
    refused, doubts = [], []
    for limit in row.get("limits", ()):
        value = getattr(needs, limit["of"])
        if value is None or not _holds(limit.get("needs", {}), needs):
            continue
        source = known.sources[limit["source"]]
        if value > limit["most"]:
            refused.append(
                Said(f"{_plain(value)} is above {limit['most']} {limit['unit']}", source)
            )
        elif value > limit.get("doubt", math.inf):
            most = f"at most {limit['most']} {limit['unit']}"
            doubts.append(Said(f"{_plain(value)} is above {limit['doubt']}: {most}", source))
    return refused, doubts


def _levels(row: Mapping[str, Any], needs: Needs, known: Services) -> tuple[Level, ...]:
    """Each level, as large as the data and the throughput ask for; the smallest purchase first."""
    if needs.data_tb is None:
        return ()
    found = [level(one, needs, needs.data_tb, known) for one in row.get("levels", ())]
    return tuple(sorted(found, key=lambda one: (bool(one.refused), one.tib, one.mb_s)))


def level(row: Mapping[str, Any], needs: Needs, data_tb: float, known: Services) -> Level:
    """A level of a storage, as large as the data and the throughput of the needs ask for."""
    per_tib, step, most = row["mb_s_per_tib"], row["step_tib"], row["most_tib"]
    asked = max(data_tb / TIB_IN_TB, (needs.mb_s or 0) / per_tib)
    # A division's last digit must not buy another step.
    tib = max(row["least_tib"], math.ceil(asked / step - 1e-9) * step)
    reached = min(per_tib * tib, row.get("most_mb_s", math.inf))
    doubts, refused = [row["unsure"]] if "unsure" in row else [], ""
    if tib > most:
        refused = f"{row['name']}: {_plain(tib)} TiB are needed, and it has at most {_plain(most)}"
    elif needs.mb_s is not None and reached < needs.mb_s * (1 - 1e-9):
        asks = f"{row['name']}: {_plain(needs.mb_s)} MB/s are needed"
        refused = f"{asks}, and it has at most {_plain(reached)}"
    elif tib > row.get("doubt_tib", math.inf):
        doubts.append(f"another source has at most {row['doubt_tib']} TiB")
    return Level(row["name"], tib, reached, known.sources[row["source"]], tuple(doubts), refused)


def _plain(value: float) -> str:
    """A number without an exponent, to a tenth where it is no whole one."""
    return f"{value:.1f}".removesuffix(".0")


def _ended(service: str, known: Services, today: date) -> Iterable[Said]:
    for row in known.ended:
        if row["service"] == service:
            word = "ended" if date.fromisoformat(row["date"]) <= today else "ends"
            text = f"{row['name']} {word} on {row['date']}; use {row['instead']}"
            yield Said(text, known.sources[row["source"]])
