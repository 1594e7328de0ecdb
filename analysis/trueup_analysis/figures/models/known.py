"""Models that a question names: a vLLM recipe, a config.json, or parameters alone."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from trueup_controller.plans import vllm_recipes
from trueup_node.errors import BadInput
from trueup_node.suggest import did_you_mean

from ... import catalog
from ..evidence import names as of_names
from . import config
from . import fields as of_fields
from .quantization import PRECISIONS, with_precision

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .config import ModelConfig

_BILLION: Final = 1e9
_HALF: Final = _BILLION / 2
# Of a mixture whose experts are not described; 4 of 128 is about the share of DeepSeek R1.
_EXPERTS, _MET = 128, 4
_NUMBERS: Final = ("layers", "kv_heads", "head_dim", "precision")
# Bytes of a weight.
_BYTES: Final = {**PRECISIONS, "int8": 1.0, "fp4": 0.5}


class Named(NamedTuple):
    """A model with its names in records.

    Attributes:
        document: its config.json, for aiconfigurator; empty where only figures are known.
    """

    model: ModelConfig
    names: Sequence[str] = ()
    document: Mapping[str, Any] = {}


@cache
def _recipes(path: Path) -> Mapping[str, Any]:
    document = catalog.document(path)
    by_name = document.get("recipes") if isinstance(document, dict) else None
    if not isinstance(by_name, dict):
        raise BadInput(f"{path} has no mapping called recipes")
    return by_name


def recipe(name: str, folder: Path | None = None) -> dict[str, Any]:
    """One of vLLM's recipes of a catalog; without a folder of trueup's own.

    Raises:
        BadInput: there is no such recipe, or it is wrong.
    """
    path = catalog.find("vllm_recipes.yml", folder or catalog.built_in())
    return vllm_recipes.choose(_recipes(path), name)


def of_recipe(name: str, folder: Path | None = None, precision: str | None = None) -> Named:
    """
    Raises:
        BadInput: there is no such recipe, or it is one for CPUs.
    """
    chosen = recipe(name, folder)
    if chosen["device"] != "cuda":
        raise BadInput(
            f"{name} serves on CPUs, of which no rate is published: measure it once (role vllm)"
        )
    facts, names = chosen["facts"], (name, chosen["model"])
    if "config" in facts:
        return of_document(facts["config"], name, names, precision)
    if precision is not None:
        facts = {**facts, "bytes_per_parameter": PRECISIONS[precision]}
    return Named(config.of_figures(name, facts), names)


def called(name: str, folder: Path, precision: str | None = None) -> Named | None:
    """The recipe's model that a server calls so; None where no recipe for GPUs does."""
    for recipe_name, each in _recipes(catalog.find("vllm_recipes.yml", folder)).items():
        is_for_gpus = isinstance(each, dict) and each.get("device") == "cuda"
        if is_for_gpus and name.lower() in (recipe_name, str(each.get("model")).lower()):
            return of_recipe(recipe_name, folder, precision)
    return None


def find(text: str, folder: Path, precision: str | None = None) -> Named:
    """A model by the path of its config.json, or of its folder, or by name.

    Raises:
        BadInput: as of ``config.read`` and ``of_name``.
    """
    path = Path(text)
    if path.exists() or path.suffix == ".json":
        return of_path(path, precision)
    return of_name(text, folder, precision)


def of_name(name: str, folder: Path, precision: str | None = None) -> Named:
    """A model by the name of a vLLM recipe, of a published model, or that of either on Hugging
    Face, such as meta-llama/Llama-3.1-70B-Instruct.

    Raises:
        BadInput: no such model is known.
    """
    recipes = _recipes(catalog.find("vllm_recipes.yml", folder))
    if name in recipes:
        return of_recipe(name, folder, precision)
    if (named := called(name, folder, precision)) is not None:
        return named
    by_name, short = of_names.models(folder), of_names.model(name)
    if short not in by_name:
        known_names = sorted({*recipes, *by_name})
        hint = did_you_mean(short, known_names) or f"; known are {', '.join(known_names)}."
        raise BadInput(f"no model {name!r} is known{hint} Of any other give its config.json")
    row = by_name[short]
    stated = precision or of_names.precision(name)
    width = stated or row["precision"]
    note = f"figures of {row['source']}, {width} weights; its config.json gives exact bytes"
    model = replace(of_published(short, row, stated), notes=(note,))
    published = row["source"].partition(" ")[0].removeprefix("huggingface.co/")
    return Named(model, (short, name, *([published] if width == row["precision"] else [])))


def of_published(
    name: str, row: Mapping[str, str], precision: str, kv_bytes: int = 2
) -> ModelConfig:
    """A model by its row of evidence_models.csv.

    Args:
        precision: of its weights; empty: as published. With a stated fp4 (NVFP4) the activations
            have 4 bits too.
        kv_bytes: of a value in the KV cache.
    """
    weights = precision or row["precision"]
    stated = {key: value for key, value in row.items() if value}
    facts = {**stated, "bytes_per_parameter": _BYTES[weights], "kv_bytes": kv_bytes}
    model = config.of_figures(name, facts)
    if weights != "fp4":
        return model
    bits = 4 if precision else 16
    return replace(model, quantization=model.quantization._replace(name="fp4", compute=bits))


def of_document(
    document: Mapping[str, Any],
    name: str,
    names: Sequence[str] = (),
    precision: str | None = None,
    path: str = "",
) -> Named:
    """
    Args:
        document: a config.json.
        precision: of its weights, where it is another one than the document says.

    Raises:
        BadInput: as of ``config.of_document``.
    """
    if precision is not None:
        document = with_precision(document, precision)
    return Named(config.of_document(document, name, path), names, document)


def of_path(path: Path, precision: str | None = None) -> Named:
    """
    Raises:
        BadInput: as of ``config.read``.
    """
    model = config.read(path)
    named = of_document(of_fields.read(path), model.name, (), precision, str(path))
    return named._replace(model=replace(named.model, notes=model.notes))


def of_numbers(ask: Mapping[str, Any]) -> Named:
    """A model whose figures are asked for.

    Raises:
        BadInput: one is missing.
    """
    lacking = [name for name in _NUMBERS if ask[name] is None]
    if lacking:
        raise BadInput(f"a model by its parameters needs {', '.join(lacking)} too")
    parameters, active = ask["parameters_billion"], ask["active_parameters_billion"]
    if active and active > parameters:
        raise BadInput("active_parameters_billion is more than parameters_billion")
    name = f"a model of {parameters:g}e9 parameters"
    figures = {
        **{key: ask[key] for key in ("layers", "kv_heads", "head_dim")},
        "parameters": round(parameters * _BILLION),
        "bytes_per_parameter": PRECISIONS[ask["precision"]],
        "kv_bytes": 2,
    }
    if active:
        unmet = (parameters - active) * _BILLION
        figures |= {
            "active_parameters": round(active * _BILLION),
            "expert_parameters": round(min(unmet / (1 - _MET / _EXPERTS), unmet + active * _HALF)),
            "experts": _EXPERTS,
            "experts_met": _MET,
        }
    return Named(config.of_figures(name, figures))
