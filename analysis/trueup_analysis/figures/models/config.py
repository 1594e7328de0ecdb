"""A language model as its Hugging Face ``config.json`` describes it: parameters, bytes of weights,
KV cache of each token, longest sequence."""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from trueup_node.errors import BadInput
from trueup_node.suggest import did_you_mean

from . import fields as of_fields
from . import quantization
from .families import FAMILIES, Family, Shape, matrices
from .quantization import Matrix

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from .fields import Fields
    from .quantization import Quantization

FULL, SLIDING, LATENT = "full attention", "sliding window", "latent (MLA)"
# Names of fields that bring layers of another kind.
_LAYERS: Final = re.compile(r"expert|lora_rank|mamba|ssm|conv|index_|linear_|recurrent")
_LAYER_TYPES: Final = {"full_attention": FULL, "sliding_attention": SLIDING}
# vLLM's second form of MLA's kv_b_proj is BF16.
_ABSORBED_BYTES: Final = 2
# Words of a model that does not say how many it has.
_VOCABULARY: Final = 128_000


class Cache(NamedTuple):
    """KV cache of layers of one kind.

    Attributes:
        layers: of this kind.
        values: that a token takes in one layer.
        window: tokens that a sliding window holds; 0 without one.
    """

    kind: str
    layers: int
    values: float
    window: int = 0


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """A model.

    Attributes:
        name: of the folder of its config.json, or of the file.
        architecture: such as LlamaForCausalLM.
        max_length: longest sequence, tokens; 0 where the config does not say it.
        experts, experts_met: routed experts of a layer, and of them those of one token; 0 of a
            dense model.
        notes: sentences on parts that are not counted.
    """

    name: str
    architecture: str
    model_type: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    vocabulary: int
    experts: int
    experts_met: int
    max_length: int
    matrices: Sequence[Matrix]
    caches: Sequence[Cache]
    quantization: Quantization
    latent: int = 0
    rope: int = 0
    nope: int = 0
    value_dim: int = 0
    notes: Sequence[str] = ()

    @cached_property
    def loaded(self) -> Sequence[Matrix]:
        """The matrices that vLLM loads: all but those for multi-token prediction."""
        return [matrix for matrix in self.matrices if not matrix.draft]

    @cached_property
    def parameters(self) -> int:
        return sum(matrix.parameters for matrix in self.loaded)

    @cached_property
    def expert_parameters(self) -> int:
        """Of the routed experts."""
        return sum(matrix.parameters for matrix in self.loaded if matrix.routed)

    @cached_property
    def active_parameters(self) -> int:
        """Parameters that a token meets."""
        if not self.experts:
            return self.parameters
        unmet = self.expert_parameters * (self.experts - self.experts_met) // self.experts
        return self.parameters - unmet

    @cached_property
    def multiplied_parameters(self) -> int:
        """Active parameters less the input table, of which a token reads one row."""
        return self.active_parameters - self.vocabulary * self.hidden * (not self.is_tied)

    @cached_property
    def weight_bytes(self) -> int:
        return round(sum(map(self.quantization.bytes_of, self.loaded)))

    @cached_property
    def expert_bytes(self) -> int:
        """Of the routed experts."""
        routed = (matrix for matrix in self.loaded if matrix.routed)
        return round(sum(map(self.quantization.bytes_of, routed)))

    @cached_property
    def checkpoint_bytes(self) -> int:
        """Of the files: with the layer for multi-token prediction."""
        return round(sum(map(self.quantization.bytes_of, self.matrices)))

    @cached_property
    def absorbed_bytes(self) -> int:
        """The second form of MLA's kv_b_proj, which vLLM makes after loading."""
        return sum(
            matrix.parameters * _ABSORBED_BYTES
            for matrix in self.loaded
            if matrix.module.endswith("kv_b_proj")
        )

    @cached_property
    def is_tied(self) -> bool:
        """Input and output table are one."""
        return all(matrix.module != "lm_head" for matrix in self.loaded)

    @cached_property
    def expert_layers(self) -> int:
        return len({matrix.module.split(".")[2] for matrix in self.loaded if matrix.routed})

    @property
    def latent_query(self) -> int:
        """Size of a query of MLA: the part without and the part with positions; else 0."""
        return self.nope + self.rope if self.latent else 0

    def kv_bytes(self, tokens: float, width: float = 2) -> float:
        """KV cache of a sequence. A sliding window holds no more than its tokens.

        Args:
            width: bytes of a value.
        """
        return sum(
            cache.layers * cache.values * width * min(tokens, cache.window or tokens)
            for cache in self.caches
        )

    def kv_bytes_per_token(self, width: float = 2) -> float:
        """Of a token that every layer holds."""
        return sum(cache.layers * cache.values * width for cache in self.caches)


def read(path: Path) -> ModelConfig:
    """The model of a ``config.json`` or its folder.

    Raises:
        BadInput: it cannot be read, or has an architecture, layer, quantization or field value that
            is not supported, named in the sentence.
    """
    document = of_fields.read(path)
    is_named = path.is_dir() or path.name == "config.json"
    folder = path if path.is_dir() else path.parent
    return of_document(document, folder.resolve().name if is_named else path.stem, str(path))


def of_document(document: Mapping[str, Any], name: str, path: str = "") -> ModelConfig:
    """
    Args:
        name: of the model.
        path: of the file, for messages.

    Raises:
        BadInput: as of ``read``.
    """
    fields, beside = of_fields.parts(path or name, document)
    model_type, family = _family(fields, document)
    shape = Shape(fields, family)
    weights = tuple(matrices(shape))
    model_quantization = quantization.read(fields)
    experts = fields.count("num_experts", 0, least=0) if family.experts else 0
    model = ModelConfig(
        name=name,
        architecture=_architecture(document, model_type),
        model_type=model_type,
        layers=shape.layers,
        hidden=shape.hidden,
        heads=shape.heads,
        kv_heads=shape.kv_heads,
        head_dim=shape.head_dim,
        vocabulary=shape.vocabulary,
        experts=experts,
        experts_met=fields.count("num_experts_per_tok", experts) if experts else 0,
        max_length=_max_length(fields),
        matrices=weights,
        caches=_caches(shape),
        quantization=model_quantization,
        latent=shape.latent,
        rope=shape.rope,
        nope=fields.count("qk_nope_head_dim", 0, least=0),
        value_dim=fields.count("v_head_dim", shape.head_dim),
    )
    unread = fields.unread()
    if layers := [name for name in unread if _LAYERS.search(name)]:
        raise BadInput(
            f"{fields.path} has {layers[0]}, which {model_type} does not have: layers that this"
            " reader does not count"
        )
    notes = [f"not counted: {', '.join(beside)}, a model beside the language model"] * bool(beside)
    notes += [f"fields without a meaning here: {', '.join(unread)}"] * bool(unread)
    object.__setattr__(model, "notes", tuple(notes))
    return model


def of_figures(name: str, figures: Mapping[str, Any]) -> ModelConfig:
    """A model by the facts of a vLLM recipe (catalog/vllm_recipes.yml), where its config.json is
    not there. ``hidden``, ``heads``, ``vocabulary`` and ``experts_met`` are estimated where they
    are missing: the usual decoder has 12 x hidden x hidden parameters a layer, heads of 128."""
    layers, parameters = int(figures["layers"]), int(figures["parameters"])
    routed = int(figures.get("expert_parameters") or 0)
    experts = int(figures.get("experts") or 0) if routed else 0
    active = int(figures.get("active_parameters") or parameters)
    kv_heads = int(figures.get("kv_heads") or 1)
    usual = math.sqrt(active / (12 * layers))
    hidden = int(figures.get("hidden") or max(128, 128 * round(usual / 128)))
    heads = int(figures.get("heads") or 8 * math.ceil(max(kv_heads, hidden / 128) / 8))
    rest = parameters - routed
    vocabulary = int(figures.get("vocabulary") or min(_VOCABULARY, rest // (8 * hidden)))
    met = (active - rest) / routed * experts if experts else 0
    head_dim = int(figures.get("head_dim") or hidden // heads)
    latent, rope = (int(figures.get(key) or 0) for key in ("kv_lora_rank", "qk_rope_head_dim"))
    values = latent + rope if latent else 2 * kv_heads * head_dim
    return ModelConfig(
        name=name,
        architecture="",
        model_type="",
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        vocabulary=vocabulary,
        experts=experts,
        experts_met=int(figures.get("experts_met") or max(1, round(met))) if experts else 0,
        max_length=0,
        matrices=list(_estimated(layers, hidden, vocabulary, rest, routed)),
        caches=_figured_caches(figures, layers, LATENT if latent else FULL, values),
        quantization=quantization.of_width(figures["bytes_per_parameter"]),
        latent=latent,
        rope=rope,
        nope=head_dim if latent else 0,
        value_dim=head_dim,
    )


def _figured_caches(figures: Mapping[str, Any], layers: int, kind: str, values: int) -> list[Cache]:
    each = values * figures["kv_bytes"] / 2
    sliding, window = (int(figures.get(key) or 0) for key in ("sliding_layers", "sliding_window"))
    caches = [Cache(kind, layers - sliding, each)]
    return [*caches, Cache(SLIDING, sliding, each, window)] if sliding else caches


def _estimated(
    layers: int, hidden: int, vocabulary: int, dense: int, routed: int
) -> Iterator[Matrix]:
    """Two tables, four equal matrices of each layer, and its experts."""
    yield Matrix("model.embed_tokens", vocabulary, hidden)
    yield Matrix("lm_head", vocabulary, hidden)
    each = dense - 2 * vocabulary * hidden
    wide = max(1, each // (4 * layers * hidden))
    yield Matrix("model.layers.0.dense", wide, hidden, copies=4 * layers, can_shrink=True)
    if left := each - 4 * layers * wide * hidden:
        yield Matrix("model.layers.0.rest", 1, left, can_shrink=True)
    for layer in range(layers * bool(routed)):
        name = f"model.layers.{layer}.experts"
        yield Matrix(name, routed // layers, 1, can_shrink=True, routed=True)


def _family(fields: Fields, document: Mapping[str, Any]) -> tuple[str, Family]:
    model_type = fields.get("model_type") or document.get("model_type")
    if not isinstance(model_type, str):
        raise BadInput(f"{fields.path} is no config.json of a language model: it has no model_type")
    if model_type not in FAMILIES:
        hint = did_you_mean(model_type, FAMILIES) or ""
        raise BadInput(
            f"{fields.path}: the architecture {_architecture(document, model_type)} (model_type"
            f" {model_type}) is not supported{hint}; supported are {', '.join(FAMILIES)}"
        )
    return model_type, FAMILIES[model_type]


def _architecture(document: Mapping[str, Any], model_type: str) -> str:
    names = document.get("architectures")
    is_list = isinstance(names, list) and names and isinstance(names[0], str)
    return names[0] if is_list and names else model_type


def _max_length(fields: Fields) -> int:
    """As vLLM derives it: YaRN's original length times its factor."""
    longest = fields.count("max_position_embeddings", 0, least=0)
    scaling = fields.mapping("rope_scaling") or fields.mapping("rope_parameters")
    kind = scaling.get("rope_type", scaling.get("type"))
    factor = scaling.get("factor", 1)
    original = scaling.get("original_max_position_embeddings")
    is_number = isinstance(factor, int | float) and not isinstance(factor, bool) and factor > 0
    if kind == "yarn" and isinstance(original, int) and is_number:
        return int(original * factor)
    return int(longest * factor) if kind in ("linear", "dynamic") and is_number else longest


def _caches(shape: Shape) -> tuple[Cache, ...]:
    if shape.latent:
        return (Cache(LATENT, shape.layers, shape.latent + shape.rope),)
    values = 2 * shape.kv_heads * shape.head_dim
    kinds = Counter(_kinds(shape))
    window = shape.fields.count("sliding_window", 0, least=0)
    return tuple(
        Cache(kind, layers, values, window if kind == SLIDING else 0)
        for kind, layers in kinds.items()
    )


def _kinds(shape: Shape) -> list[str]:
    """The kind of attention of each layer."""
    fields, layers = shape.fields, shape.layers
    types = fields.texts("layer_types")
    window = fields.count("sliding_window", 0, least=0)
    is_wanted = fields.flag("use_sliding_window", default=True)
    first = fields.count("max_window_layers", layers, least=0)
    if types:
        strange = [name for name in types if name not in _LAYER_TYPES]
        if strange or len(types) != layers:
            problem = f"has {strange[0]!r}" if strange else f"names {len(types)} of {layers} layers"
            raise BadInput(f"{fields.path}: layer_types {problem}, which is not supported")
        kinds = [_LAYER_TYPES[name] for name in types]
        return kinds if window else [FULL] * layers
    if not window or not is_wanted:
        return [FULL] * layers
    step = fields.count("sliding_window_pattern", 6)
    is_sliding: Mapping[str, Callable[[int], bool]] = {
        "none": lambda _layer: False,
        "all": lambda _layer: True,
        "even": lambda layer: layer % 2 == 0,
        # Qwen's configs say use_sliding_window where they mean it.
        "late": lambda layer: fields.get("use_sliding_window") is True and layer >= first,
        "pattern": lambda layer: (layer + 1) % step != 0,
    }
    has_window = is_sliding[shape.family.windows]
    return [SLIDING if has_window(layer) else FULL for layer in range(layers)]
