"""An engine that serves a model: the model's figures, and the GPUs that it takes."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from trueup_controller.plans import vllm_recipes
from trueup_node.errors import BadInput

from ... import catalog
from ..models import config as model_config
from ..models import facts as model_facts
from .knowledge import number

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .knowledge import Knowledge

_BYTES: Final = {"bf16": 2.0, "fp8": 1.0, "int4": 0.5}
PRECISIONS: Final = tuple(_BYTES)
_BILLION: Final = 1e9
# As in vLLM's recipes of the catalog; a model of one's own gets those of llama-3.1-8b.
_OWN: Final = "llama-3.1-8b"
_PARALLEL: Final = (1, 2, 4, 8)


class Load(NamedTuple):
    """Requests of one kind.

    Attributes:
        tokens_in, tokens_out: of one request.
        cached: the share of a prompt's tokens that the prefix cache holds.
        in_flight: requests at a time on one engine.
    """

    tokens_in: float
    tokens_out: float
    cached: float
    in_flight: float

    @property
    def tokens(self) -> float:
        return self.tokens_in + self.tokens_out


@dataclass(frozen=True)
class Model:
    """A model and how it is served.

    Attributes:
        recipe: of vLLM's, whose tensor parallelism is chosen by size where ``own``.
        active: parameters that a token meets.
    """

    name: str
    recipe: Mapping[str, Any]
    active: float
    own: bool = False

    @property
    def parameters(self) -> float:
        return float(self.recipe["facts"]["parameters"])

    @property
    def width(self) -> float:
        """Bytes of a parameter."""
        return float(self.recipe["facts"]["bytes_per_parameter"])

    @property
    def dense(self) -> bool:
        """Every token meets all parameters."""
        return self.active >= self.parameters

    def is_like(self, other: Model) -> bool:
        """The same number of parameters, of the same width."""
        return self.width == other.width and abs(self.parameters / other.parameters - 1) < 0.02

    def at(self, precision: str | None) -> Model:
        """With weights of that precision."""
        if precision is None or _BYTES[precision] == self.width:
            return self
        facts = {**self.recipe["facts"], "bytes_per_parameter": _BYTES[precision], "other_bytes": 0}
        return replace(self, recipe={**self.recipe, "facts": facts})


class Engine(NamedTuple):
    """GPUs that hold a model once, and the bytes that they read of their memory.

    Attributes:
        nodes: 1, or more where no node holds the model.
        devices: GPUs.
        weights: bytes that all of them together read for one token of every sequence.
        token: bytes of KV cache that a token takes on all of them together.
        room: bytes of KV cache on all of them.
        each: engines on these nodes.
    """

    model: Model
    nodes: int
    devices: int
    weights: float
    token: float
    room: float
    each: int


@cache
def _recipes(path: Path) -> Mapping[str, Any]:
    document = catalog.document(path)
    by_name = document.get("recipes") if isinstance(document, dict) else None
    if not isinstance(by_name, dict):
        raise BadInput(f"{path} has no mapping called recipes")
    return by_name


def of_recipe(name: str, folder: Path | None = None) -> Model:
    """A model of vLLM's recipes; without a folder of trueup's own, which published results ran.

    Raises:
        BadInput: there is no such recipe, or it is one for CPUs.
    """
    path = catalog.find("vllm_recipes.yml", folder or catalog.built_in())
    recipe = vllm_recipes.choose(_recipes(path), name)
    if recipe["device"] != "cuda":
        raise BadInput(
            f"{name} serves on CPUs, of which no rate is published: measure it once (role vllm)"
        )
    facts = recipe["facts"]
    active = facts.get("active_parameters", facts["parameters"])
    return Model(name, recipe, float(active))


def named(model: str, folder: Path) -> Model | None:
    """The recipe's model that a server calls so; None where no recipe for GPUs does."""
    for name, recipe in _recipes(catalog.find("vllm_recipes.yml", folder)).items():
        if not isinstance(recipe, dict) or recipe.get("device") != "cuda":
            continue
        if model.lower() in (name, str(recipe.get("model")).lower()):
            return of_recipe(name, folder)
    return None


def of_config(path: Path, ask: Mapping[str, Any]) -> Model:
    """A model of a Hugging Face ``config.json``.

    Raises:
        BadInput: it cannot be read, or describes a model that is not supported.
    """
    config = model_config.read(path)
    facts = model_facts.facts(config)
    if ask["parameters_billion"]:
        facts["parameters"] = round(ask["parameters_billion"] * _BILLION)
        facts["expert_parameters"] = min(facts["expert_parameters"], facts["parameters"])
        facts["other_bytes"] = 0
    if ask["active_parameters_billion"] or ask["parameters_billion"]:
        facts["active_parameters"] = round(_active(ask, facts["parameters"]))
    recipe = {**of_recipe(_OWN).recipe, "facts": facts}
    model = Model(path.name, recipe, float(facts["active_parameters"]), own=True)
    return model.at(ask["precision"])


def of_numbers(ask: Mapping[str, Any]) -> Model:
    """A model whose figures are asked for.

    Raises:
        BadInput: one is missing.
    """
    lacking = [
        name for name in ("layers", "kv_heads", "head_dim", "precision") if ask[name] is None
    ]
    if lacking:
        raise BadInput(f"a model by its parameters needs {', '.join(lacking)} too")
    parameters = ask["parameters_billion"] * _BILLION
    attention = {"kv_heads": ask["kv_heads"], "head_dim": ask["head_dim"]}
    name = f"a model of {ask['parameters_billion']:g}e9 parameters"
    active, width = _active(ask, parameters), _BYTES[ask["precision"]]
    return _made(name, parameters, active, width, ask["layers"], attention)


def _active(ask: Mapping[str, Any], parameters: float) -> float:
    active = float(ask["active_parameters_billion"] or 0) * _BILLION
    if active > parameters:
        raise BadInput("active_parameters_billion is more than parameters_billion")
    return active or parameters


def _made(
    name: str,
    parameters: float,
    active: float,
    width: float,
    layers: int,
    attention: Mapping[str, int],
) -> Model:
    like = of_recipe(_OWN).recipe
    facts = {
        "parameters": round(parameters),
        "expert_parameters": 0,
        "other_bytes": 0,
        "bytes_per_parameter": width,
        "layers": layers,
        "kv_bytes": 2,
        "source": name,
        **attention,
    }
    return Model(name, {**like, "facts": facts}, active, own=True)


def engine_of(
    model: Model, size: str, load: Load, knowledge: Knowledge
) -> tuple[Engine | None, str, int | None]:
    """The engine on a size, and where there is none why, and how many nodes of it would do (None:
    no number would).

    A recipe keeps its own parallelism; any other model takes the fewest GPUs of a node that hold it
    with one request.
    """
    row = knowledge.sizes[size]
    gpus, memory = int(number(row, "gpus") or 0), number(row, "gpu_memory_gib") or 0.0
    machine = vllm_recipes.Machine(
        name=size,
        gpus=gpus,
        gpu_memory_bytes=int(memory * vllm_recipes.GIB),
        gpu_model=row["gpu_model"],
    )
    recipe = {**model.recipe, "max_model_len": math.ceil(load.tokens)}
    if not model.own:
        fit = vllm_recipes.fit(recipe, machine)
        least = 1 if fit.fits else fit.more_nodes
        if least is None:
            return None, _reason(fit), None
        if least > 1:
            reason = _reason(fit)
            machine = replace(machine, nodes=least)
            return _engine(model, recipe, machine), reason, least
        return _engine(model, recipe, machine), "", 1
    reason = ""
    for tensor in _PARALLEL:
        if tensor > gpus:
            break
        tried = {**recipe, "tensor_parallel": tensor, "gpus": tensor}
        fit = vllm_recipes.fit(tried, machine)
        reason = _reason(fit)
        if fit.fits:
            return _engine(model, tried, machine), "", 1
    return None, reason, None


def _reason(fit: vllm_recipes.Fit) -> str:
    """The part that does not fit, without the sizes that this model would fit on."""
    words = fit.reason.partition(" fit: ")[2].partition(". The smallest")[0]
    return words.partition(". No ")[0]


def _engine(model: Model, recipe: Mapping[str, Any], machine: vllm_recipes.Machine) -> Engine:
    fit = vllm_recipes.fit(recipe, machine)
    # Sequences side by side: each data parallel rank has its own.
    ranks = fit.devices // recipe["tensor_parallel"]
    token = fit.kv_cache_bytes / ranks / recipe["max_model_len"]
    return Engine(
        model=model,
        nodes=machine.nodes,
        devices=fit.devices,
        weights=float(fit.weights_bytes),
        token=token,
        room=(fit.available_bytes or 0) - fit.needed_bytes + fit.kv_cache_bytes,
        each=machine.gpus * machine.nodes // fit.devices,
    )
