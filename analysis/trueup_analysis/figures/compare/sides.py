"""The two sides of a comparison: which records a name such as ``last`` or ``driver=560*`` means."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from trueup_node.errors import BadInput
from trueup_node.suggest import did_you_mean

from ...cases import read_cases
from ...selection import find_run, moment, run_ids
from ...units import plural
from .settings import settings_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from datetime import datetime

    from trueup_node.cases import Case

    from ...load import Loaded

LAST: Final = "last"
BEFORE: Final = "before"
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d")
_SPELLED: Final = {"size": "vm_size", "driver": "nvidia_driver"}


@dataclass(frozen=True)
class Side:
    """One of the two sides.

    Attributes:
        name: for people: "run 20261120T091300Z-7c1e", "driver=560*".
        cases: its records.
        conditions: the settings by which its records were chosen; the two sides need not agree in
            these.
    """

    name: str
    cases: Sequence[Case]
    conditions: frozenset[str] = frozenset()


class Records:
    """The records among which sides are chosen.

    Args:
        read: loads results folders, run folders, records or packed files; of a store the days of
            the given runs, None for all.
        sources: where runs and conditions look.
        narrow: which of the read records count.
    """

    def __init__(
        self,
        read: Callable[[Sequence[Path], Collection[str] | None], Loaded],
        sources: Sequence[Path],
        narrow: Callable[[Loaded], Loaded],
        now: datetime,
    ) -> None:
        self._read, self._sources, self._narrow, self._now = read, sources, narrow, now
        self._all: Loaded | None = None
        self._every: list[Case] | None = None
        self.loaded: list[Loaded] = []

    def sides(self, *names: str) -> list[Side]:
        """The records that names mean, as ``side`` has it; of a store only these are read."""
        terms = [name.split(",") for name in names if not Path(name).exists()]
        if terms:
            index = self._read(self._sources, ())
            self._all = (
                index if not index.stored else self._read(self._sources, self._of(index, terms))
            )
            self.loaded.append(self._all)
        return [self.side(name) for name in names]

    def _of(self, index: Loaded, sides: Sequence[Sequence[str]]) -> set[str] | None:
        """The runs of some sides; None for all, where a side names none."""
        runs: set[str] = set()
        for terms in sides:
            named = [term.strip() for term in terms if "=" not in term]
            if not named:
                return None
            runs.update(run for term in named for run in self._runs(index, term))
        return runs

    def side(self, name: str) -> Side:
        """The records that a name means: a path; or, joined by commas, runs (their ids, ``last``,
        ``before``), a day or two days with ``..`` between, and conditions ``setting=pattern``.

        Raises:
            BadInput: it means none.
        """
        path = Path(name)
        if path.exists():
            loaded = self._load([path])
            return Side(name, read_cases(self._narrow(loaded)))
        loaded = self._everything()
        terms = [term.strip() for term in name.split(",")]
        conditions = dict(term.split("=", 1) for term in terms if "=" in term)
        runs = [run for term in terms if "=" not in term for run in self._runs(loaded, term)]
        cases = self._cases(loaded, runs)
        for setting, pattern in conditions.items():
            cases = _meeting(cases, _SPELLED.get(setting, setting), pattern)
        if not cases:
            raise BadInput(f"{name}: no record is left")
        parts = [", ".join(f"run {run}" for run in dict.fromkeys(runs))] if len(runs) <= 2 else []
        parts += [f"{plural(len(set(runs)), 'run')} of {name}"] if len(runs) > 2 else []
        parts += [f"{setting}={pattern}" for setting, pattern in conditions.items()]
        chosen = frozenset(_SPELLED.get(setting, setting) for setting in conditions)
        return Side(", ".join(filter(None, parts)), cases, chosen)

    def _cases(self, loaded: Loaded, runs: Sequence[str]) -> list[Case]:
        """The narrowed records of some runs, or of all; a record is the same object each time."""
        if self._every is None:
            self._every = read_cases(self._narrow(loaded))
        return [case for case in self._every if not runs or case.run_id in runs]

    def _load(self, sources: Sequence[Path]) -> Loaded:
        loaded = self._read(sources, None)
        self.loaded.append(loaded)
        return loaded

    def _everything(self) -> Loaded:
        if self._all is None:
            self._all = self._load(self._sources)
        return self._all

    def _runs(self, loaded: Loaded, term: str) -> list[str]:
        every = run_ids(loaded)
        if term in {LAST, BEFORE}:
            needed = 1 if term == LAST else 2
            if len(every) < needed:
                where = ", ".join(map(str, self._sources))
                raise BadInput(
                    f"{where} holds {plural(len(every), 'run')}, and {term!r} needs {needed}:"
                    " measure again, or name two folders"
                )
            return [every[-needed]]
        first, dots, last = term.partition("..")
        if dots or _DATE.fullmatch(term):
            return self._runs_between(loaded, first, last or first, term)
        try:
            return [find_run(term, every)]
        except BadInput as error:
            message = str(error).removeprefix("--run ")
            raise BadInput(
                f"{message}. A side is a path, a run, last, before, a day (2026-11-20), days"
                " (2026-11-20..2026-11-22) or setting=pattern (driver=560*)"
            ) from error

    def _runs_between(self, loaded: Loaded, first: str, last: str, term: str) -> list[str]:
        begin, end = (moment(day, self._now) for day in (first, last))
        if _DATE.fullmatch(last):
            end += timedelta(days=1)
        begun = {run: times[0] for day in loaded.stored for run, times in day.times.items()}
        for run, time in zip(loaded.values("run_id"), loaded.values("started_at"), strict=True):
            if time is not None:
                begun[run] = min(begun.get(run, time), time)
        limits = tuple(f"{time:%Y-%m-%dT%H:%M:%SZ}" for time in (begin, end))
        runs = [run for run, time in begun.items() if limits[0] <= time < limits[1]]
        if not runs:
            raise BadInput(f"{term}: no run began then")
        return runs


def _meeting(cases: Sequence[Case], setting: str, pattern: str) -> list[Case]:
    """The records with a setting that matches a pattern.

    Raises:
        BadInput: no record has the setting, or none has such a value.
    """
    values: list[Any] = [settings_of(case).get(setting) for case in cases]
    held = sorted({value for value in values if value is not None})
    if not held:
        known = sorted({name for case in cases for name in settings_of(case)})
        hint = did_you_mean(setting, known) or f"; there are {', '.join(known)}"
        raise BadInput(f"no record has a setting {setting!r}{hint}")
    matching = {value for value in held if fnmatchcase(value, pattern)}
    if not matching:
        raise BadInput(f"{setting}={pattern}: records have {', '.join(held[:8])}")
    return [case for case, value in zip(cases, values, strict=True) if value in matching]
