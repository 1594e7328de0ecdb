"""Node names of records that are one Azure VM."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .frames import rows_of

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable
    from typing import TypeVar

    from ..load import Loaded

    Machine = TypeVar("Machine", bound=Hashable)


def shared(pairs: Iterable[tuple[Machine, str]]) -> dict[Machine, list[str]]:
    """The names, sorted, of each machine that has several."""
    names: dict[Machine, set[str]] = {}
    for machine, name in pairs:
        names.setdefault(machine, set()).add(name)
    return {machine: sorted(each) for machine, each in names.items() if len(each) > 1}


def sentences(loaded: Loaded) -> list[str]:
    """A sentence for each Azure VM that records know by several names."""
    single = loaded.records.loc[loaded.records["node_count"] == 1, ["system", "nodes"]]
    rows = rows_of(single.drop_duplicates())
    pairs = ((row["system"].get("machine"), row["nodes"]) for row in rows)
    several = shared(pair for pair in pairs if pair[0]).values()
    return [
        f"{' and '.join(names)} are one Azure VM by their records, which count {len(names)} nodes."
        for names in sorted(several)
    ]
