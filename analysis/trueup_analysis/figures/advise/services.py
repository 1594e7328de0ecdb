"""The Azure services and the storage that fit a need, by the rules of catalog/services.yml.

The rules are trueup's own rules of thumb; the limits are the services'. A need above a limit is
refused with the number and its source, and nothing that has ended is advised.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from datetime import date
from typing import TYPE_CHECKING, Annotated, Final, Literal, NamedTuple

import msgspec
from msgspec import Meta
from trueup_controller.typed import Source, typed, with_sources

from ... import catalog

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

FILE: Final = "services.yml"
TIB_IN_TB: Final = 2**40 / 1e12
Scheduler = Literal["slurm", "none"]
Data = Literal["any", "local", "blob", "nfs", "smb", "lustre"]
Access = Literal["any", "once", "shared", "small", "scratch", "profiles"]
Count = Annotated[int, Meta(ge=1)]
Amount = Annotated[float, Meta(gt=0, le=1e300)]
_YES_NO: Final = {"yes": "true", "no": "false"}


class Needs(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
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

    nodes: Count = 1
    coupled: bool = False
    always_on: bool = False
    models: Count = 1
    tenants: Count = 1
    tracked: bool = False
    scheduler: Scheduler = "none"
    spot: bool = False
    job_days: Amount | None = None
    desktop_users: Annotated[int, Meta(ge=0)] = 0
    users_a_host: Annotated[int, Meta(ge=0)] = 0
    data: Data = "any"
    access: Access = "any"
    data_tb: Amount | None = None
    mb_s: Amount | None = None
    keep: bool = False

    @property
    def shared(self) -> bool:
        """Whether more than one node needs the same files."""
        return self.nodes > 1 and self.access != "scratch"


def needs_of(texts: Mapping[str, str]) -> Needs:
    """The needs that words say, such as ``{"nodes": "16", "coupled": "yes"}``.

    Raises:
        BadInput: an unknown name, or a word that is no value of it.
    """
    kinds = Needs.__annotations__
    words = {
        name: _YES_NO.get(text.lower(), text) if kinds.get(name) == "bool" else text
        for name, text in texts.items()
    }
    return typed(words, Needs, "advise service", strict=False)


_FIELDS: Final = (*Needs.__struct_fields__, "shared")


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


class Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A row of catalog/services.yml, whose head describes the members."""


class Correction(Row, frozen=True):
    """A wrong statement of an article."""

    article: str
    place: str
    says: str
    wrong: str
    since: Annotated[str, Meta(pattern=r"^(\d{4}-\d{2}-\d{2})?$", description="a date, or empty")]
    instead: str
    source: Source


class Bounds(Row, frozen=True):
    """Limits of a need."""

    least: float = -math.inf
    most: float = math.inf
    below: float = math.inf

    def hold(self, value: float | None) -> bool:
        return value is not None and self.least <= value <= self.most and value < self.below


class Conditional(Row, frozen=True, kw_only=True):
    """A row with conditions on needs."""

    needs: dict[str, bool | int | str | list[str] | Bounds] = {}

    def __post_init__(self) -> None:
        for name in (*self.needs, *([self.of] if isinstance(self, Limit) else [])):
            if name not in _FIELDS:
                raise ValueError(f"{name} is no need; there are {', '.join(_FIELDS)}")

    def holds(self, needs: Needs) -> bool:
        """Whether all conditions hold; a bound of an unknown value does not."""
        for name, condition in self.needs.items():
            value = getattr(needs, name)
            if isinstance(condition, Bounds):
                if not condition.hold(value):
                    return False
            elif value not in (condition if isinstance(condition, list) else [condition]):
                return False
        return True


class Fit(Conditional, frozen=True):
    """A rule of thumb."""

    rank: int
    because: str


class Against(Conditional, frozen=True):
    """A disadvantage."""

    because: str
    source: Source


class Limit(Conditional, frozen=True):
    """The largest value of the need ``of``."""

    of: str
    most: int
    unit: str
    source: Source
    doubt: float = math.inf


class Also(Row, frozen=True):
    """A limit in words."""

    text: str
    source: Source


class Purchase(Row, frozen=True):
    """A service level of a storage."""

    name: str
    mb_s_per_tib: float
    least_tib: float
    step_tib: float
    most_tib: float
    source: Source
    doubt_tib: float = math.inf
    most_mb_s: float = math.inf
    unsure: str = ""


class Service(Row, frozen=True):
    """A service or storage of Azure."""

    service: str
    name: str
    fits: list[Fit]
    effort: Literal["low", "medium", "high"]
    manages: list[str]
    managed: list[str]
    billing: str
    sources: list[Source]
    against: list[Against] = []
    limits: list[Limit] = []
    also: list[Also] = []
    levels: list[Purchase] = []


class Ended(Row, frozen=True):
    """A part of a service that ended."""

    service: str
    name: str
    date: date
    instead: str
    source: Source


class Gone(Row, frozen=True):
    """A series without a row in vm_sizes.csv."""

    series: str
    sizes: re.Pattern[str]
    date: date
    successors: str
    source: Source


class Services(Row, frozen=True):
    """The file."""

    services: list[Service]
    storage: list[Service]
    ended: list[Ended]
    gone: list[Gone]
    corrections: list[Correction]
    sources: dict[str, Source]


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
        if not re.fullmatch(row.sizes.pattern, size, re.IGNORECASE):
            continue
        past = row.date <= today
        named = row.successors.replace(";", ", ")
        instead = f"Microsoft names {named} instead" if named else "no source names a successor"
        when = f"{row.series} {'retired' if past else 'retires'} on {row.date}"
        return f"{when}; {instead} [{row.source}]"
    return ""


def read_services(chosen: Path | None = None) -> Services:
    """The services of a catalog.

    Raises:
        BadInput: the file cannot be read, or a row of it is not as its head says.
    """
    path = catalog.find(FILE, chosen)
    return with_sources(catalog.document(path), Services, str(path))


def _ranked(rows: Iterable[Service], needs: Needs, services: Services, today: date) -> list[Advice]:
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


def _advice(row: Service, needs: Needs, services: Services, today: date) -> Advice:
    rule = next((fit for fit in row.fits if fit.holds(needs)), None)
    against = [Statement(rule.because, rule.source) for rule in row.against if rule.holds(needs)]
    levels = _levels(row, needs)
    refused, doubts = _exceeded(row, needs)
    if levels and all(storage_level.refused for storage_level in levels):
        refused += [
            Statement(storage_level.refused, storage_level.source) for storage_level in levels
        ]
    return Advice(
        row.service,
        row.name,
        rule.rank if rule else None,
        rule.because if rule else "",
        tuple(refused),
        (*against, *doubts),
        tuple(Statement(limit.text, limit.source) for limit in row.also),
        row.effort,
        tuple(row.manages),
        tuple(row.managed),
        row.billing,
        tuple(_ended(row.service, services, today)),
        tuple(row.sources),
        levels,
    )


def _exceeded(row: Service, needs: Needs) -> tuple[list[Statement], list[Statement]]:
    """Limits that the needs exceed, and smaller ones of other sources or conditions."""
    refused, doubts = [], []
    for limit in row.limits:
        value, most = getattr(needs, limit.of), f"{limit.most} {limit.unit}"
        if value is None or not limit.holds(needs):
            continue
        if value > limit.most:
            refused.append(Statement(f"{_plain(value)} is above {most}", limit.source))
        elif value > limit.doubt:
            text = f"{_plain(value)} is above {_plain(limit.doubt)}: at most {most}"
            doubts.append(Statement(text, limit.source))
    return refused, doubts


def _levels(row: Service, needs: Needs) -> tuple[Level, ...]:
    """Each level, as large as the data and the throughput ask for; the smallest purchase first."""
    if needs.data_tb is None:
        return ()
    levels = [level(purchase, needs, needs.data_tb) for purchase in row.levels]
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


def level(row: Purchase, needs: Needs, data_tb: float) -> Level:
    """A level of a storage, as large as the data and the throughput of the needs ask for."""
    per_tib, step, most = row.mb_s_per_tib, row.step_tib, row.most_tib
    needed_tib = max(data_tb / TIB_IN_TB, (needs.mb_s or 0) / per_tib)
    # A division's last digit must not buy another step.
    tib = max(row.least_tib, math.ceil(needed_tib / step - 1e-9) * step)
    reached = min(per_tib * tib, row.most_mb_s)
    doubts, refused = [row.unsure] if row.unsure else [], ""
    if tib > most:
        refused = f"{row.name}: {_plain(tib)} TiB are needed, and it has at most {_plain(most)}"
    elif needs.mb_s is not None and reached < needs.mb_s * (1 - 1e-9):
        asks = f"{row.name}: {_plain(needs.mb_s)} MB/s are needed"
        refused = f"{asks}, and it has at most {_plain(reached)}"
    elif tib > row.doubt_tib:
        doubts.append(f"another source has at most {_plain(row.doubt_tib)} TiB")
    return Level(row.name, tib, reached, row.source, tuple(doubts), refused)


def _plain(value: float) -> str:
    """A number without an exponent, to a tenth where it is no whole one."""
    return f"{value:.1f}".removesuffix(".0")


def _ended(service: str, services: Services, today: date) -> Iterable[Statement]:
    for row in services.ended:
        if row.service == service:
            verb = "ended" if row.date <= today else "ends"
            text = f"{row.name} {verb} on {row.date}; use {row.instead}"
            yield Statement(text, row.source)
