"""Serving of a language model: a rate of requests for a term.

Rate, latency, layout and number of nodes are those of ``trueup model`` (``models.answers``); the
term, its stops, its offers and the alternatives are those of advice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from trueup_node.errors import BadInput
from trueup_node.options import Option

from ...models import answers, known, results
from ...models.curves import Level
from ...models.quantization import PRECISIONS
from ...models.roofline import Work
from ..estimates import Estimate, Refusal, around
from ..knowledge import Knowledge
from .kind import Ask, Assumed, Need, logged_figure

if TYPE_CHECKING:
    from trueup_node.cases import Case

_HOUR: Final = 3600

OPTIONS: Final = (
    Option(
        "model",
        "Its name, such as llama-3.1-70b or that on Hugging Face, or the path of a config.json.",
        type="str",
    ),
    Option(
        "parameters_billion",
        "Parameters of the model, in 10^9.",
        type="float",
        least=1e-3,
        most=1e5,
    ),
    Option(
        "active_parameters_billion",
        "Parameters that a token meets, in 10^9; without it all.",
        type="float",
        least=1e-3,
    ),
    Option("layers", "Decoder layers.", type="int", least=1, most=10_000),
    Option("kv_heads", "Heads of keys and values.", type="int", least=1, most=10_000),
    Option("head_dim", "Size of a head.", type="int", least=1, most=100_000),
    Option(
        "precision",
        f"Of the weights: {', '.join(PRECISIONS)}; without it the model's own.",
        type="str",
    ),
    Option("input_tokens", "Tokens of a prompt.", type="int", required=True, least=1, most=10**7),
    Option("output_tokens", "Tokens of an answer.", type="int", required=True, least=1, most=10**7),
    Option(
        "requests_per_second",
        "Requests a second that must be held.",
        type="float",
        required=True,
        least=1e-6,
        most=1e6,
    ),
    Option(
        "prefix_cached_share",
        "Share of a prompt's tokens that the prefix cache holds.",
        0.0,
        type="float",
        most=0.99,
    ),
    Option("ttft_ms", "Time to the first token to hold, ms.", type="float", least=1e-3),
    Option("tpot_ms", "Time of a further token to hold, ms.", type="float", least=1e-3),
    Option("most_nodes", "Nodes at most.", 64, least=1, most=1024),
    Option(
        "term_hours",
        "Hours that it serves; 730 are a month.",
        730.0,
        type="float",
        least=1,
        most=87600,
    ),
    Option(
        "restart_minutes",
        "Minutes until a node that failed or was taken away serves again (ours, not measured).",
        15.0,
        type="float",
        most=1440,
    ),
    *(
        Option(
            f"api_usd_per_million_{token_kind}",
            f"An API's price of a million {token_kind} tokens, US$.",
            type="float",
            most=1e6,
        )
        for token_kind in ("input", "output")
    ),
    Option(
        "reserved_usd_per_hour",
        "Price of a reserved node, US$ an hour; with one size in sizes.",
        type="float",
        least=1e-3,
    ),
)


# The terms that say nothing of a service.
UNASKED: Final = (
    *("deadline_hours", "checkpoint_seconds", "checkpoint_to", "checkpoint_tib", "idle_hours"),
)
# The role vllm installs PyTorch of CUDA 13.
CUDA_13: Final = True
points, predict = results.points, results.predict


def _model(ask: Ask, knowledge: Knowledge) -> known.Named:
    precision, model = ask["precision"], ask["model"]
    if precision is not None and precision not in PRECISIONS:
        raise BadInput(f"precision {precision} is none of {', '.join(PRECISIONS)}")
    if model and ask["parameters_billion"]:
        raise BadInput(f"{model} has its own parameters: give either of the two")
    if model:
        return known.find(model, knowledge.folder, precision)
    if ask["parameters_billion"]:
        return known.of_numbers(ask)
    raise BadInput("no model is named: give model (a name, a config.json) or parameters_billion")


def need(ask: Ask, _: Assumed, knowledge: Knowledge) -> Need:
    if ask["reserved_usd_per_hour"] and len(ask["sizes"]) != 1:
        raise BadInput("reserved_usd_per_hour is the price of one size: name it with sizes")
    named = _model(ask, knowledge)
    tokens = ask["input_tokens"], ask["output_tokens"]
    limits = [
        ask[name] / 1000 if ask[name] is not None else None for name in ("ttft_ms", "tpot_ms")
    ]
    level = Level(*(Level()[at] if limit is None else limit for at, limit in enumerate(limits)))
    question = answers.Ask(
        Work(*tokens, cached=int(tokens[0] * ask["prefix_cached_share"])),
        ask["requests_per_second"],
        level,
        ask["sizes"],
        names=named.names,
        most_nodes=ask["most_nodes"],
    )

    def served() -> list[Estimate | Refusal]:
        planned = knowledge.once(
            ("serving", str(question), named.model.name, ask["precision"]),
            lambda: answers.plans(named.model, question, knowledge, document=named.document),
        )
        hint = "" if planned.choices else _smallest(named, question, knowledge)
        return [
            *(_estimate(plan, ask) for plan in planned.choices),
            *(Refusal(size, 1, reason + hint, None) for size, reason in planned.refused.items()),
        ]

    total = question.rate * ask["term_hours"] * _HOUR * sum(tokens)
    return Need(
        work=around(total, 1.0),
        memory=0.0,
        room=lambda _: None,
        words="weights and KV cache",
        term=ask["term_hours"],
        served=served,
    )


def _smallest(named: known.Named, question: answers.Ask, knowledge: Knowledge) -> str:
    """The size that holds the model with the least memory of GPUs."""
    fittings = answers.memory(named.model, question._replace(sizes=()), knowledge)
    held = [
        (each.held.fit.available_bytes or 0, each.size, each.held.layout.nodes)
        for each in fittings
        if each.held is not None
    ]
    if not held:
        return "; no size of the catalog holds it"
    _, size, nodes = min(held)
    return f"; the smallest that holds it: {nodes} x {size}"


def _estimate(plan: answers.Choice, ask: Ask) -> Estimate:
    """Seconds in which the nodes serve all requests of the term, were they never to wait."""
    taken = plan.capacity.under(ask["term_hours"] * _HOUR * plan.rate / plan.nodes)
    evidence, beyond = plan.basis.evidence, plan.basis.beyond
    return Estimate(plan.size, plan.nodes, taken, evidence, beyond, plan=plan)


def logged(case: Case) -> dict[str, Any]:
    """The load that a log tells, and the model where it is a recipe's."""
    requests = logged_figure(case, "requests_completed")
    each = {
        f"{name}_tokens": max(1, round(logged_figure(case, f"{name}_tokens") / requests))
        for name in ("input", "output")
    }
    return {**each, "requests_per_second": logged_figure(case, "request_throughput")}
