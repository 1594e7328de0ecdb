"""``trueup model``: a model's memory, layout, speed and cost."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from trueup_node.errors import BadInput

from .interface import PROGRESS, Common, examples, flag, option, put, say_warnings, taking
from .records import RESULTS, load_results, say_notes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..figures.advise.knowledge import Knowledge
    from ..figures.models.answers import Ask

app = typer.Typer()
_MOST = 10**7


@app.command(
    epilog=examples(
        "trueup model llama-3.1-70b          # parameters, memory, sizes that hold it",
        "trueup model config.json            # the same of any model, exact to the byte",
        "trueup model config.json --input-tokens 4000 --output-tokens 500",
        "    --requests-per-second 5 --ttft-ms 1000 --tpot-ms 30",
        "trueup model config.json --size ND96isr_H100_v5 --requests-per-second 5",
        "    --region eastus --offer spot",
        "trueup model config.json --requests-per-second 5 --model-id Qwen/Qwen3-32B",
        "    --recipe -o serve.yml           # variables for the role vllm",
        "ansible-playbook site.yml -e @serve.yml   # serve it, measure a load sweep",
    ),
)
@taking(common=Common)
def model(
    name: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="A Hugging Face config.json, the folder of one, or the name of a known model.",
        ),
    ],
    *,
    input_tokens: Annotated[int, option("N", "Tokens of a prompt.")] = 1024,
    output_tokens: Annotated[int, option("N", "Tokens of an answer.")] = 256,
    requests_per_second: Annotated[
        float | None,
        option("RATE", "The load. Without it only memory is answered."),
    ] = None,
    ttft_ms: Annotated[
        float | None, option("MS", "Mean time to the first token to hold.", "--ttft-ms")
    ] = None,
    tpot_ms: Annotated[
        float | None, option("MS", "Mean time of each further token to hold.", "--tpot-ms")
    ] = None,
    prefix_cached_share: Annotated[
        float, option("SHARE", "Share of a prompt that the prefix cache holds, 0 to 0.99.")
    ] = 0.0,
    size: Annotated[
        list[str] | None, option("SIZE", "Only this VM size; repeatable.", "--size")
    ] = None,
    region: Annotated[
        str | None, option("REGION", "Prices of this region; else each size's cheapest.")
    ] = None,
    offer: Annotated[str, option("OFFER", "payg, spot, lowpriority or 1y.")] = "payg",
    price_date: Annotated[
        str | None, option("DATE", "Newest prices on or before this day.", "--price-date")
    ] = None,
    results: Annotated[
        list[Path] | None,
        option(
            "RESULTS",
            "Your records, which count before all else; repeatable. Without any: results/.",
            "--results",
        ),
    ] = None,
    model_id: Annotated[
        str, option("ORG/NAME", "The model's name on Hugging Face, for --recipe.", "--model-id")
    ] = "",
    recipe: Annotated[
        bool,
        flag("--recipe", "Print the first choice as variables of the role vllm (YAML)."),
    ] = False,
    explain: Annotated[bool, flag("--explain", "All sizes and layouts, and each refusal.")] = False,
    common: Common,
) -> None:
    """How to serve a language model: parameters, memory, layout (tensor, data, expert parallel)
    with vLLM's flags, requests a second within a time to first token (TTFT) and per token (TPOT),
    number of nodes, US$ per million tokens. Each answer names its evidence: your records of this
    model, else published results of it, else operator times of aiconfigurator where it is installed
    (the extra serving), else the GPU's datasheet (roofline). `trueup advise serving` gives the same
    for a term, with spot, an API and reservations beside it."""
    from ..catalog import folder
    from ..figures.models import answers, known
    from ..figures.prices import Book, read_all, refuse_unknown
    from ..figures.terms import Terms
    from ..sheets import model as sheets

    if recipe and requests_per_second is None:
        raise BadInput("--recipe needs --requests-per-second: the load decides the layout")
    language_model, names, document = known.find(name, folder(common.catalog))
    model_id = model_id or next((each for each in names if each.count("/") == 1), "")
    ask = _ask(
        answers.Ask,
        tokens=(input_tokens, output_tokens),
        rate=requests_per_second,
        times=(ttft_ms, tpot_ms),
        cached_share=prefix_cached_share,
        sizes=size or (),
        region=region or "",
        offer=offer,
        names=[*names, model_id],
    )
    knowledge = _knowledge(common.catalog, results or [])
    if requests_per_second is None:
        memory = answers.memory(language_model, ask, knowledge)
        common.write([sheets.facts(language_model), sheets.memory(memory, ask)])
        return
    prices = read_all(common.catalog)
    refuse_unknown(prices, Terms(region=region, offer=offer, price_date=price_date))
    answer = answers.answer(
        language_model,
        ask,
        knowledge,
        Book(prices, price_date),
        document=document,
        progress=PROGRESS.step,
    )
    if recipe:
        _print_recipe(sheets.recipe(language_model, answer, model_id), common.output)
        return
    tables = sheets.answered(language_model, answer, explain=explain)
    common.write(tables)
    say_warnings(tables)


def _ask(
    kind: type[Ask],
    *,
    tokens: tuple[int, int],
    rate: float | None,
    times: tuple[float | None, float | None],
    cached_share: float,
    sizes: Sequence[str],
    region: str,
    offer: str,
    names: Sequence[str],
) -> Ask:
    """
    Raises:
        BadInput: a number that cannot be.
    """
    from ..figures.models.curves import Level
    from ..figures.models.roofline import Work

    for name, count in zip(("--input-tokens", "--output-tokens"), tokens, strict=True):
        if not 1 <= count <= _MOST:
            raise BadInput(f"{name} is {count}: 1 to {_MOST:,} are possible")
    for name, value in (
        ("--requests-per-second", rate),
        ("--ttft-ms", times[0]),
        ("--tpot-ms", times[1]),
    ):
        if value is not None and not 1e-6 <= value <= 1e6:
            raise BadInput(f"{name} is {value:g}: 0.000001 to 1,000,000 are possible")
    if not 0 <= cached_share <= 0.99:
        raise BadInput(f"--prefix-cached-share is {cached_share:g}: 0 to 0.99 are possible")
    ttft, tpot = (math.inf if ms is None else ms / 1000 for ms in times)
    work = Work(*tokens, cached=int(tokens[0] * cached_share))
    return kind(work, rate or math.nan, Level(ttft, tpot), sizes, region, offer, names)


def _knowledge(catalog: Path | None, results: Sequence[Path]) -> Knowledge:
    from ..catalog import folder
    from ..figures.advise.knowledge import Knowledge
    from ..figures.prices import day_of_reading

    today = day_of_reading()
    if not results and not RESULTS.exists():
        return Knowledge(folder(catalog), today)
    from ..cases import read_cases
    from ..selection import Selection

    loaded = load_results(results, Selection(every_run=True), may_be_empty=True)
    say_notes(loaded)
    cases = [case for case in read_cases(loaded) if case.measured and case.outcome == "ok"]
    return Knowledge(folder(catalog), today, cases)


def _print_recipe(text: str, output: Path | None) -> None:
    if output is None:
        put(text)
        return
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise BadInput(f"{output} cannot be written: {error.strerror}") from error
