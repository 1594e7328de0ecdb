"""Loaded records and their tables."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import pandas as pd
import pyarrow as pa
from pandas.api.types import infer_dtype
from trueup_analysis.figures.compare.comparing import compare
from trueup_analysis.figures.compare.sides import Records
from trueup_analysis.figures.terms import ApiPrices, ServiceLevel, Terms
from trueup_analysis.load import load as load_all
from trueup_analysis.selection import Selection, is_record, moment, of_runs, select
from trueup_analysis.sheets import compare as compare_sheets
from trueup_analysis.sheets import health as health_sheets
from trueup_analysis.tables import cost, health, scaling
from trueup_analysis.units import plural, unit_of
from trueup_node.health.verdicts import WORST_FIRST

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from trueup_analysis.load import Loaded
    from trueup_analysis.sheets.sheet import Sheet

ALL_RUNS: Final = "all"
# Columns of records that hold JSON.
_DOCUMENTS: Final = ("parameters", "software", "system", "command", "environment")
# By the name that pandas has for the values of a column.
_TYPES: Final = {
    "integer": "Int64",
    "floating": "float64",
    "mixed-integer-float": "float64",
    "empty": "float64",
    "string": "string",
    "boolean": "boolean",
}
# The columns of a record that each of its figures repeats, by the names that they have there.
_OF_RECORD: Final = {
    "run_id": "run_id",
    "started_at": "started_at",
    "nodes": "node",
    "vm_size": "size",
    "region": "region",
    "benchmark": "benchmark",
    "case": "case",
    "outcome": "outcome",
    "node_count": "node_count",
    "ranks": "ranks",
    "gpus": "gpus",
}


def load(
    *sources: str | os.PathLike[str],
    run: str = "last",
    node: str | Sequence[str] = (),
    benchmark: str | Sequence[str] = (),
    since: str | datetime | None = None,
    outcome: str | Sequence[str] = (),
) -> Results:
    """Read results folders, run folders, single records, packed files and published results.

    Args:
        sources: paths; without any, ``results`` in the working directory.
        run: "last", "all", a run's id or its beginning. Runs and records that ``sources`` names one
            by one are taken as they are.
        node: names of nodes, or patterns (``"h100-00*"``).
        benchmark: names of benchmarks.
        since: a time, a date ("2026-11-20") or a span before now ("7d"): records of all runs that
            began then or later.
        outcome: "ok", "failed", "invalid".

    Raises:
        BadInput: no record is left, or no run, node or benchmark has such a name.
    """
    paths = [Path(source) for source in sources] or [Path("results")]
    chosen = Selection(
        nodes=_names(node),
        benchmarks=_names(benchmark),
        run=None if run in {"last", ALL_RUNS} else run,
        since=_time(since),
        outcomes=_names(outcome),
        every_run=run == ALL_RUNS,
    )
    every = load_all(paths)
    return Results(every, of_runs(every, paths, chosen), paths, chosen)


def _names(names: str | Sequence[str]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


def _time(since: str | datetime | None) -> datetime | None:
    if since is None:
        return None
    if isinstance(since, datetime):
        return since if since.tzinfo else since.replace(tzinfo=UTC)
    return moment(since, datetime.now(UTC))


class Results:
    """Loaded records. ``load`` makes it.

    Attributes:
        notes: sentences on what was read, chosen and left out.
        unread: path and reason of each file that could not be read.
    """

    def __init__(
        self, every: Loaded, loaded: Loaded, sources: Sequence[Path], chosen: Selection
    ) -> None:
        self._every, self._loaded, self._sources, self._chosen = every, loaded, sources, chosen
        self.notes: list[str] = list(loaded.notes)
        self.unread: list[tuple[str, str]] = [(item.path, item.reason) for item in loaded.excluded]

    def __repr__(self) -> str:
        records, figures = len(self._loaded.records), len(self._loaded.figures)
        unread = f", {plural(len(self.unread), 'file')} not read" if self.unread else ""
        return f"<trueup.Results: {records:,} records, {figures:,} figures{unread}>"

    def records(self) -> pd.DataFrame:
        """One row a measured case.

        Columns: run_id, benchmark, case, outcome, reason, nodes ("a+b" of several), vm_size,
        region, offer, started_at (UTC), raw_path, raw_sha256, source, provenance, node_count,
        ranks, threads_per_rank, cores, gpus, duration_seconds; and parameters, software, system,
        environment (dictionaries) and command (list).
        """
        frame = self._loaded.records.copy()
        frame["started_at"] = _utc(frame["started_at"])
        for name in _DOCUMENTS:
            frame[name] = frame[name].astype("object").map(json.loads, na_action="ignore")
        frame.attrs = {"units": {"duration_seconds": "s"}, "notes": list(self.notes)}
        return frame

    def figures(self) -> pd.DataFrame:
        """One row a measured figure.

        Columns: run_id, started_at (UTC), node ("a+b" of several), size, region, benchmark, case,
        outcome, node_count, ranks, gpus, figure, value, unit, direction ("higher" or "lower" is
        better), message_bytes, device, statistic, n (repeats), record (index in ``records``).
        """
        figures = self._loaded.figures
        repeated = self._loaded.records[list(_OF_RECORD)].rename(columns=_OF_RECORD)
        repeated["started_at"] = _utc(repeated["started_at"])
        frame = repeated.loc[figures["record"]].reset_index(drop=True)
        own = figures.drop(columns="record").rename(columns={"name": "figure"})
        frame = pd.concat([frame, own.reset_index(drop=True)], axis=1)
        frame["record"] = figures["record"].to_numpy()
        frame.attrs = {"units": {"message_bytes": "byte"}, "notes": list(self.notes)}
        return frame

    def cost(
        self,
        *,
        region: str | None = None,
        offer: str | None = None,
        os: str = "linux",
        price: float | None = None,
        size: str | None = None,
        price_date: str | None = None,
        api_price: float | None = None,
        api_price_total: float | None = None,
        idle_hours: float = 0.0,
        users: int | None = None,
        ttft_ms: float | None = None,
        tpot_ms: float | None = None,
        catalog: str | os.PathLike[str] | None = None,
    ) -> pd.DataFrame:
        """The tables of ``trueup cost``, one below the other; the column ``table`` names each.

        Args:
            region, offer, os, price, size, price_date, api_price, api_price_total, idle_hours,
                users, ttft_ms, tpot_ms: as the command's options of these names; prices in US$.
            catalog: a folder with prices and sizes in place of the built-in one.

        Raises:
            BadInput: a price that is not above zero, or nothing to price.
        """
        left_out: list[str] = []
        costs = cost.cost(
            self._loaded,
            terms=Terms(region, offer, os, price, size, price_date, idle_hours, users),
            level=ServiceLevel(ttft_ms, tpot_ms),
            api=ApiPrices(api_price, api_price_total),
            catalog=_path(catalog),
            tell=left_out.extend,
        )
        frame = _frame(costs.sheets, self.notes)
        frame.attrs["cheapest"] = list(costs.cheapest)
        frame.attrs["notes"] += left_out
        return frame

    def scaling(
        self,
        *,
        over: Literal["cores", "gpus", "nodes", "auto"] = "auto",
        baseline: int | None = None,
        across_sizes: bool = False,
        threshold: float = 0.5,
    ) -> pd.DataFrame:
        """The tables of ``trueup scaling``, with every layout; the column ``table`` names each.

        Args:
            over, baseline, across_sizes, threshold: as the command's options of these names.

        Raises:
            BadInput: nothing scales.
        """
        result = scaling.scaling(
            self._loaded,
            benchmarks=self._chosen.benchmarks,
            over=over,
            baseline=baseline,
            across_sizes=across_sizes,
            threshold=threshold,
        )
        return _frame(result.sheets, self.notes)

    def health(
        self,
        *,
        size: str | None = None,
        expectations: str | os.PathLike[str] | None = None,
        require: str | Sequence[str] = (),
        catalog: str | os.PathLike[str] | None = None,
    ) -> pd.DataFrame:
        """The verdicts of ``trueup health``, passes included.

        Args:
            size: judge every record as measured on this VM size.
            expectations: a file with limits of your own.
            require: benchmarks of which every node must have a record.
            catalog: a folder with expectations and sizes in place of the built-in one.

        Raises:
            BadInput: nothing can be judged.
        """
        examined = health.health(
            self._loaded,
            as_size=size,
            site_file=_path(expectations),
            catalog=_path(catalog),
            benchmarks=self._chosen.benchmarks,
            required=_names(require),
            has_roster=not all(map(is_record, self._sources)) and not self._chosen.outcomes,
        )
        frame = _frame([health_sheets.data(examined, WORST_FIRST)], self.notes)
        frame.attrs["sentence"] = examined.sentence
        return frame

    def compare(
        self, before: str = "before", after: str = "last", *, at_least: float = 0.01
    ) -> pd.DataFrame:
        """The tables of ``trueup compare``: each figure with its difference, 95 % interval and
        verdict, then what fails and what one side lacks. The column ``table`` names each.

        Args:
            before, after: a path; or a run, "last", "before", a day, days
                ("2026-11-01..2026-11-07") or conditions ("size=*H100*") among all loaded runs.
            at_least: a smaller change does not count, as a fraction.

        Raises:
            BadInput: a side means no record.
        """
        narrow = replace(self._chosen, run=None, since=None, every_run=False)
        records = Records(
            self._read, self._sources, lambda held: select(held, narrow), datetime.now(UTC)
        )
        compared = compare(records.side(before), records.side(after), at_least)
        frame = _frame(compare_sheets.sheets(compared, everything=True), self.notes)
        frame.attrs["sentence"] = compare_sheets.answer(compared)
        return frame

    def arrow(
        self,
        table: Literal["records", "figures", "cost", "scaling", "health", "compare"] = "figures",
        **options: Any,
    ) -> pa.Table:
        """A table as Arrow; ``options`` are those of the method of that name. The unit of a column
        stands in the metadata of its field.

        Raises:
            BadInput: as that method.
        """
        frame = getattr(self, table)(**options)
        if table == "records":
            frame[list(_DOCUMENTS)] = self._loaded.records[list(_DOCUMENTS)]
        units = frame.attrs["units"]
        frame.attrs = {}
        made = pa.Table.from_pandas(frame, preserve_index=False)
        fields = [
            field.with_metadata({"unit": units[field.name]}) if field.name in units else field
            for field in made.schema
        ]
        return made.cast(pa.schema(fields))

    def _read(self, sources: Sequence[Path], _names: Collection[str] | None = None) -> Loaded:
        return self._every if sources is self._sources else load_all(sources)


def _path(path: str | os.PathLike[str] | None) -> Path | None:
    return None if path is None else Path(path)


def _utc(times: pd.Series) -> pd.Series:
    return pd.to_datetime(times.astype("object"), utc=True, format="ISO8601").dt.as_unit("us")


def _type(values: Sequence[Any], has_unit: bool) -> str:
    """The pandas type of a column. One with a unit holds numbers, also where none is known."""
    kind = infer_dtype(values, skipna=True)
    return _TYPES.get(kind, "object") if kind != "empty" or has_unit else "object"


def _frame(sheets: Sequence[Sheet], notes: Sequence[str]) -> pd.DataFrame:
    """Sheets one below the other, with the columns that CSV and JSON hold."""
    keys = list(dict.fromkeys(key for sheet in sheets for key in sheet.data()))
    columns: dict[str, list[Any]] = {"table": []}
    columns |= {key: [] for key in keys}
    for sheet in sheets:
        columns["table"] += [sheet.title] * len(sheet.rows)
        for key in keys:
            columns[key] += sheet.values(key)
    units = {key: unit for key in keys if (unit := unit_of(key))}
    frame = pd.DataFrame(
        {
            key: pd.Series(column, dtype=_type(column, key in units))
            for key, column in columns.items()
        }
    )
    frame.attrs = {
        "units": units,
        "notes": [
            *notes,
            *(text for sheet in sheets for text in (*sheet.lead, *sheet.notes, *sheet.warnings)),
        ],
    }
    return frame
