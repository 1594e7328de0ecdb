"""``trueup report``: one page of everything."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from trueup_node.errors import BadInput

from .interface import CatalogOption, examples, option, put, taking
from .records import Billing, RecordQuery, end_incomplete, filters, load_with_others, say_notes

if TYPE_CHECKING:
    from ..figures.advise.access import Advised
    from ..figures.advise.kinds import Sized
    from ..figures.terms import Terms
    from ..load import Loaded

app = typer.Typer()


@app.command(
    epilog=examples(
        "trueup report",
        "trueup report results/20261120T091300Z-7c1e --output report --region eastus",
        "trueup report --run last --offer spot --price-date 2026-06-18",
        "trueup report --advise work.yml     # begins with what to rent",
    )
)
@taking(query=filters, billing=Billing)
def report(
    *,
    query: RecordQuery,
    output: Annotated[Path, option("FOLDER", "The folder to write.", "--output", "-o")] = Path(
        "report"
    ),
    advise: Annotated[
        Path | None,
        option("FILE", "An ask as `trueup advise FILE` takes it: its answer comes first."),
    ] = None,
    billing: Billing,
    catalog: CatalogOption = None,
) -> None:
    """Write one self-contained HTML page, with its plots as PNG and its tables as CSV."""
    from ..catalog import folder
    from ..figures.compare.comparing import since_run_before
    from ..report.publish import write_report

    terms, level = billing.terms(), billing.level()
    every, loaded = load_with_others(*query)
    api = billing.api(loaded)
    catalog_folder = folder(catalog)
    advised = None if advise is None else _advised(advise, loaded, catalog, terms)
    page = write_report(
        loaded,
        output,
        catalog=catalog_folder,
        terms=terms,
        api=api,
        level=level,
        advised=advised,
        changes=since_run_before(every, loaded),
    )
    say_notes(loaded)
    put(f"{page}\n")
    end_incomplete(loaded)


def _advised(path: Path, loaded: Loaded, catalog: Path | None, terms: Terms) -> Advised | Sized:
    """The answer to an ask; the report's own records count before published results."""
    from ..cases import read_cases
    from ..catalog import folder
    from ..figures.advise import asks
    from ..figures.advise.knowledge import Knowledge
    from ..figures.prices import day_of_reading
    from .answering import answered, ask_of

    if path.suffix not in (".yml", ".yaml"):
        raise BadInput(f"--advise {path} is no ask: name a file such as work.yml")
    name, inputs = ask_of(str(path), [])
    cases = [case for case in read_cases(loaded) if case.measured and case.outcome == "ok"]
    knowledge = Knowledge(folder(catalog), day_of_reading(), cases)
    return answered(
        asks.chosen(name),
        inputs,
        knowledge,
        catalog,
        price_date=terms.price_date,
        agreed=terms.agreed,
    )
