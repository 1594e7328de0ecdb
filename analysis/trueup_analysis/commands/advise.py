"""``trueup advise``: VM size, number of nodes, hours and cost."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from trueup_node.errors import BadInput

from .answering import answered, ask_of, said
from .interface import (
    Common,
    ContractOption,
    Format,
    examples,
    flag,
    option,
    put,
    say_warnings,
    taking,
)
from .records import RESULTS, load_results, say_notes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..figures.advise.kinds.kind import Kind, Need
    from ..figures.advise.kinds.sizing import Sizing
    from ..figures.advise.knowledge import Knowledge
    from ..sheets.sheet import Sheet

app = typer.Typer()
# Beside the kinds of work.
_SERVICE, _ARCHITECTURE = "service", "architecture"
_BESIDE = {
    _SERVICE: "Which Azure service and storage fit (docs/guides/advise_services.md)",
    _ARCHITECTURE: "Reference architectures (docs/guides/advise_architectures.md)",
}
# Formats for programs list every choice.
_DATA = (Format.csv, Format.json)


@app.command(
    epilog=examples(
        "trueup advise                       # the kinds of work",
        "trueup advise stencil               # what it asks (asks you, on a terminal)",
        "trueup advise stencil grid=1024x1024x1024 steps=4000 deadline_hours=1",
        "trueup advise training parameters_billion=8 tokens_billion=20",
        "    checkpoint_seconds=60 region=southcentralus offers=payg --explain",
        "trueup advise serving model=llama-3.1-8b input_tokens=1000 output_tokens=500",
        "    requests_per_second=20 tpot_ms=30 region=southcentralus",
        "trueup advise work.yml              # the same from a file (work: stencil)",
        "trueup advise service nodes=16 coupled=yes scheduler=slurm",
        "trueup advise architecture          # reference architectures",
        "trueup advise architecture devito-hbv3 region=eastus",
        "trueup advise --from-log devito.log region=eastus  # on Azure",
        "trueup advise --backtest            # published results, each from the others",
    ),
)
@taking(common=Common)
def advise(
    work: Annotated[
        str | None,
        typer.Argument(
            metavar="[WORK]", help="A kind of work, or a YAML file.", show_default=False
        ),
    ] = None,
    values: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME=VALUE]...", help="Parameters of the work.", show_default=False
        ),
    ] = None,
    *,
    results: Annotated[
        list[Path] | None,
        option(
            "RESULTS",
            "Our records, which count before published results; repeatable."
            " Without any: results/ if it is there.",
            "--results",
        ),
    ] = None,
    every_run: Annotated[
        bool, flag("--all", "Records of every run, not of the last one alone.")
    ] = False,
    explain: Annotated[
        bool, flag("--explain", "Every choice, each source with its date, each refusal.")
    ] = False,
    backtest: Annotated[
        bool, flag("--backtest", "How good it is: published results, each predicted.")
    ] = False,
    from_log: Annotated[
        Path | None,
        option(
            "FILE",
            "A log of Devito, GROMACS, Megatron or vLLM from elsewhere: its work.",
            "--from-log",
        ),
    ] = None,
    price_date: Annotated[
        str | None, option("DATE", "Newest prices on or before this day.", "--price-date")
    ] = None,
    contract: ContractOption = None,
    common: Common,
) -> None:
    """Choices of size, number of nodes, offer and region, each with hours and US$ as a range, and
    the source of the figures: own records first, published results second, a model third. There
    is no estimate without a result. A size that cannot do the work is refused, with the number of
    nodes that would do."""
    from ..figures.advise import backtest as tests
    from ..figures.advise.kinds import KINDS, SIZINGS, TOLD
    from ..sheets import advise as sheets

    _refuse_unused(work, results, explain=explain, backtest=backtest, from_log=from_log)
    if backtest:
        knowledge = _known(common.catalog, [])
        predictions = [
            prediction for kind in TOLD.values() for prediction in tests.test(kind, knowledge)
        ]
        common.write(sheets.backtest(predictions))
        return
    if work in _BESIDE:
        if work == _SERVICE:
            tables = _services(said(values or []), common.catalog, explain=explain)
        else:
            tables = _architectures(values or [], common.catalog, price_date)
        common.write(tables)
        return
    if work is None and from_log is None:
        titles = {
            **{name: kind.title for name, kind in KINDS.items()},
            **{name: sizing.title for name, sizing in SIZINGS.items()},
            **_BESIDE,
        }
        lines = [f"  {name:12} {title}" for name, title in titles.items()]
        put("\n".join(["Kinds of work (trueup advise WORK says what each asks):", *lines, ""]))
        return
    kind, inputs, need = _work(work, values or [], from_log)
    if not inputs and need is None:
        put(f"{_known_of(kind, common.catalog)}\n{_questions(kind)}")
        return
    knowledge = _known(common.catalog, results or [], every_run=every_run)
    advice = answered(
        kind,
        inputs,
        knowledge,
        common.catalog,
        price_date=price_date,
        agreed=contract,
        need=need,
    )
    tables = sheets.advised(advice, explain=explain, every=common.format_ in _DATA)
    common.write(tables)
    say_warnings(tables)


def _refuse_unused(
    work: str | None,
    results: Sequence[Path] | None,
    *,
    explain: bool,
    backtest: bool,
    from_log: Path | None,
) -> None:
    """Refuse an option that would say nothing.

    Raises:
        BadInput: it is given.
    """
    is_set = {"--results": bool(results), "--explain": explain, "--from-log": from_log is not None}
    unused: tuple[str, ...] = ()
    if backtest:
        is_set["kind of work"] = work is not None
        whose, unused = "--backtest", tuple(is_set)
    elif work == _ARCHITECTURE:
        whose, unused = _ARCHITECTURE, ("--results", "--explain", "--from-log")
    elif work == _SERVICE:
        whose, unused = _SERVICE, ("--results", "--from-log")
    if refused := [name for name in unused if is_set[name]]:
        raise BadInput(f"{whose} takes no {' and no '.join(refused)}")


def _services(inputs: dict[str, str], catalog: Path | None, *, explain: bool) -> list[Sheet]:
    from ..figures.advise import services
    from ..figures.prices import day_of_reading
    from ..sheets import advise_services as sheets

    if not inputs:
        put(f"{_SERVICE} asks (NAME=VALUE):\n{inspect.cleandoc(services.Needs.__doc__ or '')}\n")
        raise typer.Exit
    needs, catalog_services = services.needs_of(inputs), services.read_services(catalog)
    today = day_of_reading()
    advice_by_title = {
        "Services": services.advise(needs, catalog_services, today),
        "Storage": services.advise_storage(needs, catalog_services, today),
    }
    tables = [
        sheets.advice(title, some, explain=explain) for title, some in advice_by_title.items()
    ]
    return [*tables, sheets.corrections(catalog_services.corrections)] if explain else tables


def _architectures(
    words: Sequence[str], catalog: Path | None, price_date: str | None
) -> list[Sheet]:
    """Of a name that one, of none all."""
    from ..catalog import folder
    from ..figures.advise import architectures
    from ..figures.advise.knowledge import Knowledge
    from ..figures.prices import Book, day_of_reading, read_all, refuse_unknown
    from ..figures.terms import Terms
    from ..sheets import advise_architectures as sheets

    names, inputs = (
        [argument for argument in words if "=" not in argument],
        said([argument for argument in words if "=" in argument]),
    )
    if len(names) > 1 or set(inputs) - {"region"}:
        raise BadInput(
            f"{_ARCHITECTURE} takes one name and region=REGION, not {' '.join(map(str, words))}"
        )
    knowledge = Knowledge(folder(catalog), day_of_reading())
    terms, prices = Terms(region=inputs.get("region"), price_date=price_date), read_all(catalog)
    refuse_unknown(prices, terms)
    book, by_name = Book(prices, terms.price_date), architectures.read(catalog, knowledge.sizes)
    chosen = [architectures.chosen(name, by_name) for name in names] or list(by_name.values())
    priced = [
        architectures.priced(architecture, book, knowledge.sizes, knowledge.today, terms.region)
        for architecture in chosen
    ]
    return sheets.architecture(priced[0]) if names else [sheets.overview(priced)]


def _known(catalog: Path | None, results: Sequence[Path], *, every_run: bool = False) -> Knowledge:
    from ..catalog import folder
    from ..figures.advise.knowledge import Knowledge
    from ..figures.prices import day_of_reading

    today = day_of_reading()
    if not results and not RESULTS.exists():
        return Knowledge(folder(catalog), today)
    from ..cases import read_cases
    from ..selection import Selection

    loaded = load_results(results, Selection(every_run=every_run), may_be_empty=True)
    say_notes(loaded)
    cases = [case for case in read_cases(loaded) if case.measured and case.outcome == "ok"]
    return Knowledge(folder(catalog), today, cases)


def _work(
    work: str | None, values: Sequence[str], log: Path | None
) -> tuple[Kind | Sizing, dict[str, Any], Need | None]:
    """The kind of work, its inputs (empty: there is no terminal to ask at) and the measured need of
    a log."""
    from ..figures.advise import asks

    if log is not None:
        of_log, log_need = _of_log(log)
        words = said([argument for argument in (work, *values) if argument])
        if isinstance(log_need, dict):
            return of_log, {**log_need, **words}, None
        return of_log, words, log_need
    name, inputs = ask_of(str(work), values)
    kind = asks.chosen(name)
    if not inputs and sys.stdin.isatty():
        inputs = _asked(kind)
    return kind, inputs, None


def _of_log(path: Path) -> tuple[Kind, Need | dict[str, Any]]:
    """The kind of work of a log, with its measured need or with inputs of that kind."""
    from trueup_node.cases import Case

    from ..figures.advise.kinds import KINDS
    from ..read import file_reading

    reading = file_reading(str(path))
    by_tool = {kind.tool: kind for kind in KINDS.values() if kind.tool}
    if reading.tool not in by_tool:
        tools = ", ".join(by_tool)
        raise BadInput(f"{path} is a log of {reading.tool}; advice is there for those of {tools}")
    outcome, reason = reading.outcome()
    if outcome != "ok":
        raise BadInput(f"{path} is no good measure of its work: {reason}")
    case = Case(
        *((), None, reading.tool, str(path), outcome, reason, reading.parameters, {}),
        reading.figures,
        gpus=reading.resources.get("gpus"),
    )
    kind = by_tool[reading.tool]
    return kind, kind.logged(case)


def _known_of(kind: Kind | Sizing, catalog: Path | None) -> str:
    """The results that an answer of a kind rests on; said before anything is asked."""
    from ..figures.advise.kinds.kind import Kind

    if not isinstance(kind, Kind):
        return f"{kind.title}: sized by published limits and results."
    if kind.rests:
        return kind.rests
    points = kind.points(_known(catalog, []))
    if not points:
        return (
            f"No result of {kind.title} is known here, published or yours: without records of yours"
            " (--results) there is no answer."
        )
    sizes = {point.size for point in points}
    count = f"{len(points)} results on {len(sizes)} sizes" if len(points) > 1 else "1 result"
    return f"Answers rest on {count} (trueup advise --backtest)."


def _questions(kind: Kind | Sizing) -> str:
    from ..figures.advise import asks

    lines = [f"{kind.title} asks:"]
    for parameter in asks.options(kind):
        value = parameter.default
        value = ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else value
        usual = "must be given" if parameter.required else f"else {value}"
        default = f" ({usual})" if parameter.required or value not in (None, "") else ""
        lines.append(f"  {parameter.name:24} {parameter.described()}{default}")
    lines += ["It takes for granted, and can be given too:"] if kind.assumptions else []
    for each in kind.assumptions:
        lines.append(f"  {each.name:24} {each.value:g} {each.unit}: {each.source}.")
    return "\n".join([*lines, ""])


def _asked(kind: Kind | Sizing) -> dict[str, Any]:
    """Ask at the terminal for required inputs, model, deadline, region and access."""
    from ..figures.advise import asks

    inputs = {}
    for parameter in asks.options(kind):
        if parameter.required or parameter.name in ("model", "deadline_hours", "region", "access"):
            question = f"{parameter.name} ({parameter.described()[:-1]})"
            if parameter.required:
                response = typer.prompt(question)
            else:
                response = typer.prompt(question, default="", show_default=False)
            if response:
                inputs[parameter.name] = response
    return inputs
