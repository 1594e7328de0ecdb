"""From a model's figures and an answer on serving it to sheets, and to variables of the role
vllm."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any, Final

from trueup_node.errors import BadInput

from .. import units
from ..figures.models import answers, operators
from ..figures.models import basis as of_basis
from ..figures.models.facts import slug
from .sheet import Column, Sheet, price, short_size, unshown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..figures.models.answers import Answer, Ask, Choice, Fitting
    from ..figures.models.config import ModelConfig

_GIB: Final = 1024**3
_SWEEP: Final = (0.25, 0.5, 0.75, 1.0, 1.25)


def facts(model: ModelConfig) -> Sheet:
    """Figures of the model, one a row."""
    kinds = ", ".join(
        f"{cache.layers} x {cache.kind}" + f" of {cache.window}" * bool(cache.window)
        for cache in model.caches
    )
    experts = f"{model.experts_met} of {model.experts}" if model.experts else "none (dense)"
    rows = [
        ("parameters", model.parameters, f"{model.parameters / 1e9:.4g} billion"),
        (
            "active_parameters",
            model.active_parameters,
            f"{model.active_parameters / 1e9:.4g} billion",
        ),
        ("experts_of_a_token", model.experts_met, experts),
        ("precision", None, model.quantization.name),
        ("weight_bytes", model.weight_bytes, _gib(model.weight_bytes)),
        ("checkpoint_bytes", model.checkpoint_bytes, _gib(model.checkpoint_bytes)),
        (
            "kv_bytes_per_token",
            model.kv_bytes_per_token(),
            f"{model.kv_bytes_per_token():,.0f} byte",
        ),
        ("layers", model.layers, kinds),
        (
            "max_length",
            model.max_length or None,
            f"{model.max_length:,} tokens" if model.max_length else "not known here",
        ),
    ]
    return Sheet(
        title=f"{model.name}: {model.architecture}",
        columns=[
            Column("name", "figure", words=True),
            Column("text", "value", words=True),
            *unshown("value"),
        ],
        rows=[{"name": name, "value": value, "text": text} for name, value, text in rows],
        notes=[f"{note}." for note in model.notes],
        facts={"kind": "model"},
        name="model",
    )


def _gib(number: float) -> str:
    return f"{number / _GIB:.2f} GiB"


def _of_gib(value: Any) -> str:
    return units.fixed(value / _GIB, 1)


def memory(fittings: Sequence[Fitting], ask: Ask) -> Sheet:
    """The smallest layout of each size, or why none fits."""
    rows = [
        {
            "size": fitting.size,
            "layout": fitting.held.layout.words if fitting.held else "",
            "weights": _each(fitting, "weights_bytes"),
            "workspace": _each(fitting, "workspace_bytes"),
            "kv_room": _room(fitting),
            "sequences": fitting.held.sequences if fitting.held else None,
            "reason": fitting.reason,
        }
        for fitting in fittings
    ]
    tokens = ask.work.tokens_in + ask.work.tokens_out
    return Sheet(
        title="VM sizes and the fewest GPUs of a server that hold the model",
        columns=[
            Column("size", "size", short_size, words=True),
            Column("layout", "parallel", words=True),
            Column("weights", "weights, GiB a GPU", _optional),
            Column("workspace", "workspace, GiB a GPU", _optional),
            Column("kv_room", "KV cache, GiB a GPU", _optional),
            Column("sequences", f"requests of {tokens} tokens", units.count),
            Column("reason", "does not fit", words=True),
        ],
        rows=rows,
        notes=[
            "Memory is 90 % of the GPU's; the workspace is an allowance that was not measured.",
            "Give --requests-per-second for layout, nodes and cost.",
        ],
        facts={"kind": "model_memory"},
        name="memory",
    )


def _optional(value: Any) -> str:
    return "" if value is None else _of_gib(value)


def _each(fitting: Fitting, name: str) -> float | None:
    """Bytes of one GPU."""
    if fitting.held is None:
        return None
    return float(getattr(fitting.held.fit, name)) / fitting.held.fit.devices


def _room(fitting: Fitting) -> float | None:
    if fitting.held is None:
        return None
    fit = fitting.held.fit
    free = (fit.available_bytes or 0) - fit.needed_bytes + fit.kv_cache_bytes
    return free / fit.devices


def answered(model: ModelConfig, answer: Answer, *, explain: bool) -> list[Sheet]:
    """The advice with its choices; with ``explain`` all of them, the model and each refusal.

    Raises:
        BadInput: no size can serve the load; with the nearest reasons.
    """
    if not answer.choices:
        reasons = "; ".join(f"{short_size(size)}: {text}" for size, text in answer.refused.items())
        raise BadInput(f"no size serves {model.name} so: {reasons[:1500]}")
    sheets = [_choices(model, answer, explain=explain)]
    if explain:
        refused = [{"size": size, "reason": text} for size, text in answer.refused.items()]
        sheets += [
            facts(model),
            Sheet(
                title="Refused sizes",
                columns=[
                    Column("size", "size", short_size, words=True),
                    Column("reason", "reason", words=True),
                ],
                rows=refused,
                name="refused",
                facts={"kind": "model_refused"},
            ),
        ]
    return sheets


def _choices(model: ModelConfig, answer: Answer, *, explain: bool) -> Sheet:
    choices = answer.choices if explain else answer.choices[: answers.MOST_CHOICES]
    left_out = len(answer.choices) - len(choices)
    notes = [*_changes(model, answer), *(f"{note}." for note in answer.notes)]
    notes += [f"{left_out} further sizes: --explain."] * bool(left_out)
    return Sheet(
        title=_advice(model, answer),
        columns=[
            Column("size", "size", short_size, words=True),
            Column("nodes_text", "nodes", words=True, data=False),
            *unshown("nodes", "nodes_low", "nodes_high"),
            Column("layout", "parallel", words=True),
            Column("requests_per_second_a_node", "requests/s a node", units.measure),
            *unshown("requests_low", "requests_high"),
            Column("ttft", "TTFT, ms", milliseconds),
            Column("tpot", "TPOT, ms", milliseconds),
            Column("in_flight", "in flight a group", units.measure),
            Column("usd_per_hour", "US$/hour", price),
            Column("usd_per_million_tokens", "US$/million tokens", price),
            Column("region", "region", words=True),
            Column("price_date", "price of", words=True),
            Column("rests_on", "rests on", words=True),
            *unshown("source", "offer", "flags", "weights_bytes", "sequences"),
        ],
        rows=[_row(choice, answer.ask) for choice in choices],
        notes=notes,
        warnings=_warnings(choices),
        facts={"kind": "model_serving", "advice": _advice(model, answer)},
        name="serving",
    )


def milliseconds(value: Any) -> str:
    return units.fixed(value * 1000, 1 if value < 0.1 else 0)


def _row(choice: Choice, ask: Ask) -> dict[str, Any]:
    return {
        "size": choice.size,
        "nodes_text": nodes(choice),
        "nodes": choice.nodes,
        "nodes_low": choice.low_nodes,
        "nodes_high": choice.high_nodes,
        "layout": choice.layout.words,
        "requests_per_second_a_node": choice.capacity.value,
        "requests_low": choice.capacity.low,
        "requests_high": choice.capacity.high,
        "ttft": choice.speed.ttft,
        "tpot": choice.speed.tpot,
        "in_flight": choice.speed.in_flight,
        "usd_per_hour": choice.usd_per_hour,
        "usd_per_million_tokens": choice.usd_per_million(ask),
        "region": choice.region,
        "price_date": choice.quote.date if choice.quote else "",
        "rests_on": choice.basis.kind,
        "source": choice.basis.source,
        "offer": ask.offer,
        "flags": command_flags(choice),
        "weights_bytes": choice.held.fit.weights_bytes,
        "sequences": choice.held.sequences,
    }


def nodes(choice: Choice) -> str:
    if choice.low_nodes == choice.high_nodes:
        return str(choice.nodes)
    return f"{choice.nodes} ({choice.low_nodes} to {choice.high_nodes})"


def command_flags(choice: Choice) -> str:
    """Flags of ``vllm serve``."""
    words = []
    for name, value in answers.flags(choice).items():
        words.append(f"--{name}" if value is True else f"--{name} {value}")
    return " ".join(words)


def _level(ask: Ask) -> str:
    limits = [
        f"{name} {seconds * 1000:g} ms"
        for name, seconds in (("TTFT", ask.level.ttft), ("TPOT", ask.level.tpot))
        if math.isfinite(seconds)
    ]
    return f" within {' and '.join(limits)}" if limits else ""


# A range whose high end is more times its low one, where that costs nodes, is called unsure.
_WIDE: Final = 3.0
_SURE: Final = {
    of_basis.RECORDS: ("Sure", "your records of this model on this size"),
    of_basis.PUBLISHED: ("Fairly sure", "published results of this model"),
    of_basis.OPERATORS: ("Moderately sure", "operator times, this model was not measured"),
    of_basis.ROOFLINE: ("Rough", "the GPU's datasheet"),
}


def sure(choice: Choice) -> str:
    """How sure a choice is, and what it rests on."""
    basis = choice.basis
    word, rest = _SURE[basis.kind]
    if basis.kind == of_basis.ROOFLINE and len(basis.evidence) > 1:
        rest += ", held against results less alike"
    if basis.beyond:
        word = "Rough"
        rest = f"{rest} ({basis.beyond.rstrip('.')})"
    if choice.capacity.width > _WIDE and choice.high_nodes > choice.nodes:
        word = "Unsure"
    return f"{word}: {rest}"


def _advice(model: ModelConfig, answer: Answer) -> str:
    """The advice in a sentence."""
    ask, first = answer.ask, answer.choices[0]
    cost = "price unknown"
    if first.quote:
        cost = (
            f"{units.money(first.usd_per_hour)} US$ an hour,"
            f" {units.money(first.usd_per_million(ask))} US$ per million tokens"
        )
    return (
        f"{first.nodes} x {short_size(first.size)} ({first.layout.words}): {ask.rate:g} requests/s"
        f" of {model.name}{_level(ask)}, {cost}. {sure(first)};"
        f" {span(first)}"
    )


def span(choice: Choice) -> str:
    if choice.low_nodes == choice.high_nodes:
        return f"{units.plural(choice.nodes, 'node')} at either end of its rate"
    return f"{choice.low_nodes} to {choice.high_nodes} nodes"


def _changes(model: ModelConfig, answer: Answer) -> list[str]:
    ask, first = answer.ask, answer.choices[0]
    notes = changes(first)
    if first.quote and first.high_nodes > first.nodes:
        usd = units.money(first.usd_per_million(ask, first.high_nodes))
        notes.append(
            f"At the low end of its rate it needs {first.high_nodes} nodes and"
            f" {usd} US$ per million tokens."
        )
    return notes + [f"{note}." for note in model.notes]


def changes(first: Choice) -> list[str]:
    """Sentences on the flags of the first choice and on facts that would change the advice."""
    size = f"{first.nodes} x {short_size(first.size)}"
    notes = [f"Flags of {size}: vllm serve {command_flags(first)}."]
    if first.layout.servers > 1:
        notes.append(f"They are those of each of {first.layout.servers} servers on a node.")
    if first.nodes > first.layout.nodes:
        servers = first.nodes // first.layout.nodes * first.layout.servers
        notes.append(f"They are {servers} servers: a load balancer shares the requests out.")
    if not first.is_sure:
        notes.append("At the low end of its rate it misses the limits, whatever the load.")
    free = answers.without_level(first)
    groups = first.layout.groups / first.layout.nodes
    if free.requests_per_second > first.limit.requests_per_second * 1.05:
        notes.append(
            f"Without the limits a node serves {free.requests_per_second * groups:.3g} requests/s"
            f" at TTFT {free.ttft * 1000:.0f} ms and TPOT {free.tpot * 1000:.1f} ms."
        )
    if first.basis.kind != of_basis.RECORDS:
        notes.append(
            "To be sure, measure it: `trueup model MODEL --recipe -o serve.yml`, run site.yml with"
            " -e @serve.yml, and ask again with --results."
        )
    if first.basis.kind == of_basis.ROOFLINE and not operators.program():
        notes.append(
            f"{operators.PROGRAM} is not installed; it has operator times of A100, H100 and H200"
            " (SXM): pip install 'trueup[serving]'."
        )
    notes.append(
        "Times are means, of requests that arrive at random; a 99th percentile is higher."
        " Speculative decoding and an FP8 KV cache are not counted."
    )
    return notes


def _warnings(choices: Sequence[Choice]) -> list[str]:
    old = {
        choice.quote.dated for choice in choices if choice.quote is not None and choice.quote.age
    }
    dates = ", ".join(sorted(old))
    message = f"Prices are of {dates}: `trueup prices refresh` asks Azure for newer ones."
    return [message] if old else []


def recipe(model: ModelConfig, answer: Answer, model_id: str) -> str:
    """The first choice as variables of the role vllm: a recipe, its endpoints, a load sweep.

    Raises:
        BadInput: there is no choice, or the model's name on Hugging Face has another form.
    """
    if not answer.choices:
        answered(model, answer, explain=False)
    if model_id and model_id.count("/") != 1:
        raise BadInput(f"--model-id is {model_id!r}: ORG/NAME is its form")
    import yaml  # noqa: PLC0415 WHY: 10 ms that the tables do not need

    first, ask = answer.choices[0], answer.ask
    name = slug(model_id or model.name)
    body = {
        key: value
        for key, value in first.held.recipe.items()
        if key != "name" and value not in ("", [], {})
    }
    body["model"] = model_id or model.name
    body["sizes"] = [first.size]
    body["arguments"] = {
        **body["arguments"],
        "max-num-seqs": answers.flags(first)["max-num-seqs"],
    }
    servers = first.layout.servers
    endpoints = []
    for number in range(servers):
        endpoint: dict[str, Any] = {
            "name": f"{name.replace('.', '-').replace('_', '-')}-{number}"
            if servers > 1
            else name.replace(".", "-").replace("_", "-"),
            "recipe": name,
            "port": 8000 + number,
        }
        if first.layout.nodes > 1:
            endpoint["nodes"] = [f"node{count + 1}" for count in range(first.layout.nodes)]
        if not model_id:
            endpoint["model"] = f"/srv/models/{name}"
        endpoints.append(endpoint)
    rate = ask.rate / (first.nodes // first.layout.nodes) / servers
    variables = {
        "vllm_recipes": {name: body},
        "vllm_endpoints": endpoints,
        "vllm_profiles": ["random"],
        "vllm_random_input_tokens": ask.work.tokens_in,
        "vllm_random_output_tokens": ask.work.tokens_out,
        "vllm_request_rates": [float(f"{rate * share:.3g}") for share in _SWEEP],
    }
    head = [
        f"# {_advice(model, answer)}.",
        "# Use: ansible-playbook site.yml -e @THIS_FILE, with trueup_benchmarks: [vllm].",
    ]
    if not model_id:
        head.append("# The model is a folder on the node: set it, or give --model-id ORG/NAME.")
    if first.layout.nodes > 1:
        head.append("# One server takes several nodes: name yours in the order of the inventory.")
    return "\n".join([*head, yaml.safe_dump(_plain(variables), sort_keys=False, width=110)])


def _plain(value: Any) -> Any:
    """Without shared objects, which YAML would write as anchors."""
    return json.loads(json.dumps(value))
