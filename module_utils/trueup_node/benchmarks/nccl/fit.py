"""The result of rows of nccl-tests that fit together: sizes, operation, ranks, average."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Callable, NamedTuple, Optional

from ...errors import ParseError
from ...reading import Line
from .rows import REDOPS, TYPE_BYTES, Body, NcclOutput, Printed, Row

_MOST_SIZES = 100_000
# How many ranks a table without a list of them is tried with.
ANY_RANKS = range(1, 16_385)
_G_DIGITS = 6  # of printf's %g, which prints the average


@dataclass(frozen=True)
class Settings:
    """The header's line, and the ranks.

    Attributes:
        ranks: how many there can be: one number, but for a table without a list of them.
        missing: the facts that the text lacks: this number, its sizes, or the meaning of its
            columns; then ``least`` to ``by_factor`` are not used.
        elided: whoever pasted the table left rows out.
    """

    threads: int
    least: int
    most: int
    step: int
    by_factor: bool
    iterations: int
    validation: int
    ranks: Sequence[int]
    missing: tuple[str, ...] = ()
    elided: bool = False

    def sizes(self) -> list[int]:
        """The sizes that were asked for, in their order."""
        if self.step < 1 or (self.by_factor and self.step < 2):
            raise ParseError(f"a step of {self.step} between sizes leads nowhere")
        if self.by_factor and self.least < 1:
            raise ParseError("minBytes 0 times a factor leads nowhere")
        sizes: list[int] = []
        size = min(self.least, self.most)
        while size <= self.most:
            sizes.append(size)
            if len(sizes) > _MOST_SIZES:
                raise ParseError(f"the header asks for more than {_MOST_SIZES} sizes")
            size = size * self.step if self.by_factor else size + self.step
        return sizes


class _Model(NamedTuple):
    """How one operation's rows fit together."""

    operation: str
    factor: Callable[[int], float]  # busbw over algbw, of the number of ranks
    shared: bool = False  # count is each rank's part of size
    reduces: Optional[bool] = None  # None: whatever the column redop says
    rooted: bool = False
    unchecked_in_place: bool = False  # nccl-tests cannot do it in place, and prints N/A
    # To 2019, algbw of gather and scatter left out the rank's own part, as busbw does.
    base: Callable[[int], float] = lambda _ranks: 1.0

    def ranks_of(self, rows: Sequence[Row], possible: Sequence[int]) -> Sequence[int]:
        """Which of the numbers of ranks the rows can be of; shares of a size say it."""
        largest = max(rows, key=lambda row: row.size)
        share = largest.elements * TYPE_BYTES[largest.type]
        if len(possible) == 1 or not self.shared or not share:
            return possible
        # None where the share is larger than the whole.
        return [largest.size // share] if largest.size >= share else []

    def wrong_with(
        self, row: Row, ranks: int, *, by_wall_time: bool, checked: bool
    ) -> Optional[str]:
        """Why this cannot be a row of the operation, or None.

        Args:
            by_wall_time: bandwidths are made from the column of times.
            checked: nccl-tests compared the results.
        """
        if self.reduces is not None and self.reduces != (row.redop in REDOPS):
            return f"redop {row.redop or 'empty'!r} is not one of {self.operation}'s"
        if self.rooted != (row.root is not None and row.root >= 0):
            return f"root {row.root} is not one of {self.operation}'s"
        if checked and (row.in_place and row.in_place.wrong is None) != self.unchecked_in_place:
            return (
                "results were checked (validation), and in-place "
                f"{'has' if self.unchecked_in_place else 'lacks'} a count of wrong ones, which is "
                f"not so in {self.operation}"
            )
        total = row.elements * TYPE_BYTES[row.type] * (ranks if self.shared else 1)
        if total != row.size:
            return f"count {row.elements} of {row.type} is {total} bytes, not {row.size}"
        size = row.size * self.base(ranks) if by_wall_time else None
        return self._wrong_body("out-of-place", row.out_of_place, ranks, size) or self._wrong_body(
            "in-place", row.in_place, ranks, size
        )

    def fits(self, rows: Sequence[Row], ranks: int, *, by_wall_time: bool, checked: bool) -> bool:
        """Whether ``wrong_with`` finds nothing wrong with these rows, which are of one type,
        reduction and root."""
        return not any(
            self.wrong_with(row, ranks, by_wall_time=by_wall_time, checked=checked) for row in rows
        )

    def _wrong_body(
        self, name: str, body: Optional[Body], ranks: int, size: Optional[float]
    ) -> Optional[str]:
        if body is None:
            return None
        factor = self.factor(ranks)
        if not body.busbw.may_be(body.algbw.times(factor)):
            return (
                f"{name} busbw {body.busbw.value:g} is not algbw {body.algbw.value:g} x "
                f"{factor:g} ({self.operation}, {ranks} ranks)"
            )
        if size is not None and not _by_time(body, size):
            return (
                f"{name} algbw {body.algbw.value:g} GB/s is not {size:.0f} bytes in "
                f"{body.time.value:g} us"
            )
        return None


def _by_time(body: Body, size: float) -> bool:
    # GB/s are bytes per nanosecond.
    fastest = size / (body.time.least * 1e3) if body.time.least > 0 else math.inf
    slowest = size / (body.time.most * 1e3)
    slack = 1e-9 * body.algbw.value
    return body.algbw.least <= fastest + slack and slowest <= body.algbw.most + slack


def _ring(ranks: int) -> float:
    return (ranks - 1) / ranks


def _one(_ranks: int) -> float:
    return 1.0


_MODELS = (
    _Model("all_reduce", lambda ranks: 2 * _ring(ranks), reduces=True),
    _Model("all_gather", _ring, shared=True, reduces=False),
    _Model("reduce_scatter", _ring, shared=True, reduces=True),
    _Model("alltoall", _ring, shared=True, unchecked_in_place=True),
    _Model("broadcast", _one, reduces=False, rooted=True),
    _Model("reduce", _one, reduces=True, rooted=True),
    _Model("sendrecv", _one, unchecked_in_place=True),
)
OPERATIONS = tuple(model.operation for model in _MODELS)
# Read, and not measured by the module; hypercube only where the text names it.
_ALSO = tuple(
    _Model(operation, _ring, shared=True, reduces=False, rooted=True)
    for operation in ("gather", "scatter")
)
_HYPERCUBE = _Model("hypercube", _one, shared=True, reduces=False, base=_ring)
_NAMES = (*OPERATIONS, *(model.operation for model in _ALSO), _HYPERCUBE.operation)
_MODELS_2019 = (
    _Model("all_gather", _one, shared=True, reduces=False, base=_ring),
    _Model("reduce_scatter", _one, shared=True, reduces=True, base=_ring),
)
# To 2021, errors of a transfer in place were printed too, which no rank can make.
_SENDRECV_2021 = _Model("sendrecv", _one)


def operation_of(program: str) -> str:
    match = re.match(r"(?:.*/)?([a-z_]+)_perf", program)
    if not match or match[1] not in _NAMES:
        raise ParseError(
            f"the program {program!r} is none of {', '.join(f'{name}_perf' for name in _NAMES)}"
        )
    return match[1]


def _check_rows(rows: Sequence[Row], settings: Settings) -> None:
    if not rows:
        raise ParseError("the table has no rows")
    first = rows[0]
    if first.root is not None and first.root >= settings.ranks[-1]:
        raise first.error(f"root {first.root} is none of the ranks")
    for row in rows:
        if row.type != first.type or row.redop != first.redop or row.root != first.root:
            raise row.error(
                "the table mixes data types, reductions or roots: read one of each at a time"
            )


def _fitting(
    rows: Sequence[Row],
    settings: Settings,
    named: Optional[str],
    *,
    old: bool,
    by_wall_time: bool,
) -> list[_Model]:
    """The operations that all rows can be of."""
    candidates = (*_MODELS, *_ALSO, _HYPERCUBE) if named else (*_MODELS, *_ALSO)
    candidates = (*candidates, _SENDRECV_2021, *_MODELS_2019) if old else candidates
    alive = [
        (model, model.ranks_of(rows, settings.ranks))
        for model in candidates
        if named in {None, model.operation}
    ]
    how = {"by_wall_time": by_wall_time, "checked": settings.validation > 0}
    models: list[_Model] = []
    if len(settings.ranks) == 1:
        models = [model for model, ranks in alive if model.fits(rows, ranks[0], **how)]
    models = models or _fitting_each(rows, alive, settings, how)
    # Where both layouts of algbw fit (few digits), the newer one is not contradicted.
    new = [model for model in models if model not in _MODELS_2019]
    return new or models


def _fitting_each(
    rows: Sequence[Row],
    alive: list[tuple[_Model, Sequence[int]]],
    settings: Settings,
    how: Mapping[str, bool],
) -> list[_Model]:
    """Those of the operations that are left after each row."""
    # The largest rows say most: with them first, few of many possible numbers of ranks are left.
    ordered = sorted(rows, key=lambda row: -row.size) if len(settings.ranks) > 1 else rows
    for row in ordered:
        narrowed = [(model, _narrowed(model, ranks, row, how)) for model, ranks in alive]
        remaining = [(model, ranks) for model, ranks in narrowed if ranks]
        if not remaining:
            raise row.error(
                str(alive[0][0].wrong_with(row, settings.ranks[0], **how))
                if len(settings.ranks) == 1
                else "no operation and number of ranks fits this row and the others"
            )
        alive = remaining
    return [model for model, _ranks in alive]


def _narrowed(
    model: _Model, ranks: Sequence[int], row: Row, how: Mapping[str, bool]
) -> Sequence[int]:
    """The numbers of ranks that fit a row: neighbours, for busbw grows with the ranks."""
    first, last = 0, len(ranks)
    while first < last and model.wrong_with(row, ranks[first], **how):
        first += 1
    while first < last - 1 and model.wrong_with(row, ranks[last - 1], **how):
        last -= 1
    return ranks[first:last]


def _ascents(rows: Sequence[Row]) -> int:
    """How often sizes that are not known ascend from the least to the most, each time the same."""
    rows = [row for row in rows if row.size] or rows
    sizes = [row.size for row in rows]
    count = sizes.count(sizes[0])
    for before, row in zip(rows, rows[1:]):
        if not before.size < row.size and row.size != sizes[0]:
            raise row.error("the sizes do not ascend: rows are doubled or out of order")
    if sizes != sizes[: len(sizes) // count] * count:
        raise rows[-1].error("the cycles do not go through the same sizes")
    return count


def _shares(size: int, width: int, ranks: int) -> tuple[int, int, int]:
    """Elements of each rank for a size that is divided, as three generations of nccl-tests
    rounded them: not at all, to 4 elements, to 16 bytes."""
    count = size // width
    per_rank = count // ranks
    return per_rank, count // (4 * ranks) * 4, per_rank & ~(16 // width - 1)


def _cycles_of(rows: Sequence[Row], settings: Settings, *, shared: Optional[bool]) -> int:
    """How often the rows go through the sizes that the header asks for."""
    sizes = settings.sizes()
    width, [ranks] = TYPE_BYTES[rows[0].type], settings.ranks
    # By how they are rounded: -1 where they are not divided, else the generation of nccl-tests.
    expected_sizes: dict[int, list[int]] = {}
    if shared in {None, False}:
        expected_sizes[-1] = [size // width * width for size in sizes]
    if shared in {None, True}:
        for generation, shares in enumerate(zip(*(_shares(size, width, ranks) for size in sizes))):
            expected_sizes[generation] = [share * ranks * width for share in shares]
    cycles = len(rows) // len(sizes)
    row_sizes = [row.size for row in rows]
    if any(row_sizes == way * cycles for way in expected_sizes.values()):
        return cycles
    for number, row in enumerate(rows):
        size_index = number % len(sizes)
        expected_sizes = {
            key: way for key, way in expected_sizes.items() if way[size_index] == row.size
        }
        if not expected_sizes:
            raise row.error(
                f"size {row.size} stands where {sizes[size_index]} was to come: rows are missing, "
                "doubled or out of order"
            )
    raise rows[-1].error(
        f"the table ends after {len(rows) % len(sizes)} of {len(sizes)} sizes; "
        f"{sizes[len(rows) % len(sizes)]} bytes were to come next"
    )


def _check_average(
    rows: Sequence[Row],
    settings: Settings,
    average: tuple[Printed, Optional[str], Line],
) -> None:
    """The average that is printed must be that of the rows."""
    if settings.threads > 1 or settings.elided:
        return  # each thread adds bandwidths of its own, which the table does not show
    figures = [
        body.busbw for row in rows for body in (row.out_of_place, row.in_place) if body is not None
    ]
    computed = Printed(
        sum(figure.value for figure in figures) / len(figures),
        sum(figure.half for figure in figures) / len(figures),
    )
    printed, _verdict, line = average
    # %g leaves trailing zeros out, so its digits do not show how precise it is.
    magnitude = math.floor(math.log10(printed.value)) if printed.value > 0 else 0
    exact = Printed(printed.value, 0.5 * 10.0 ** (magnitude - _G_DIGITS + 1))
    if not computed.may_be(exact):
        raise line.error(
            f"the average is {printed.value:g} GB/s, and that of the rows {computed.value:.6g}: a"
            f" row is missing or damaged"
        )


def _check_wrong(rows: Sequence[Row], out_of_bounds: tuple[int, Line], *, counts: bool) -> None:
    """Where results were checked, each row says so, and agrees with the verdict at the end."""
    for row in rows:
        if row.out_of_place and row.out_of_place.wrong is None:
            raise row.error(
                "results were checked (validation), and this row has no count of wrong ones"
            )
    bodies = (body for row in rows for body in (row.out_of_place, row.in_place) if body)
    count, line = out_of_bounds
    if counts and count == 0 and any(body.wrong for body in bodies):
        raise line.error("rows have wrong values, and the end says that none has")


def assembled(
    rows: Sequence[Row],
    settings: Settings,
    named: Optional[str],
    out_of_bounds: Optional[tuple[int, Line]],
    average: Optional[tuple[Printed, Optional[str], Line]],
    *,
    counts_wrong: bool,
    cpu_time: bool,
    **extra_fields: Any,
) -> NcclOutput:
    """The output of rows that fit together, whatever form they came in, with ``extra_fields``."""
    _check_rows(rows, settings)
    checked = out_of_bounds if settings.validation > 0 else None
    models = _fitting(rows, settings, named, old=not counts_wrong, by_wall_time=not cpu_time)
    shared = {model.shared for model in models}
    cycles = (
        _ascents(rows)
        if settings.missing
        else _cycles_of(rows, settings, shared=shared.pop() if len(shared) == 1 else None)
    )
    if average:
        _check_average(rows, settings, average)
    if checked:
        _check_wrong(rows, checked, counts=counts_wrong)
    full = tuple(row for row in rows if row.size > 0)
    if not full:
        raise ParseError("no row moves any data: every size is 0 bytes")
    operations = tuple(dict.fromkeys(model.operation for model in models))
    return NcclOutput(
        operation=operations[0] if len(operations) == 1 else "unknown",
        may_be=operations,
        ranks=settings.ranks[0] if len(settings.ranks) == 1 else None,
        rows=full,
        cycles=cycles,
        cpu_time=cpu_time,
        out_of_bounds=checked[0] if checked else None,
        average_ok=average[1] == "OK" if average and average[1] else None,
        counts_wrong=counts_wrong,
        iterations=settings.iterations or None,
        unverified=settings.missing,
        same_column=any(model in _MODELS_2019 for model in models),
        empty_rows=len(rows) - len(full),
        **extra_fields,
    )
