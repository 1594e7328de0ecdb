"""Layers of the model families that vLLM serves most: their matrices, by the modules' names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from trueup_node.errors import BadInput

from .quantization import Matrix

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from .fields import Fields

_MOST_LAYERS: Final = 2000


@dataclass(frozen=True, kw_only=True)
class Family:
    """The differences of a family from Llama.

    Attributes:
        qkv_bias, out_bias: of the attention, where ``attention_bias`` does not say it; None: it
            does.
        head_norm: queries and keys have norms of a head's size.
        norms: of a layer, of the hidden size.
        tied: input and output table are one, where the config does not say it.
        mlp: gated (three matrices) or plain (two).
        norm_bias: norms have a bias, as LayerNorm has.
        head_dim: where the config does not say it; 0: hidden size / heads.
        experts: style of a mixture of experts; empty where the family has none.
        attention: gqa or latent (MLA).
        positions: it has a table of positions.
        windows: which layers have a sliding window where layer_types does not say it: "none",
            "all", "even", "late" (from max_window_layers on), "pattern" (all but every n-th).
    """

    qkv_bias: bool | None = None
    out_bias: bool | None = None
    head_norm: bool = False
    norms: int = 2
    tied: bool = False
    mlp: str = "gated"
    mlp_bias: bool | None = None
    norm_bias: bool = False
    head_dim: int = 0
    kv_heads: int = 0
    experts: str = ""
    attention: str = "gqa"
    positions: bool = False
    windows: str = "none"


_QWEN3 = Family(head_norm=True, head_dim=128, windows="late")
_DEEPSEEK = Family(attention="latent", experts="deepseek")
_GPT2 = Family(
    qkv_bias=True,
    out_bias=True,
    tied=True,
    mlp="plain",
    mlp_bias=True,
    norm_bias=True,
    positions=True,
)
_GEMMA3 = Family(norms=4, tied=True, head_norm=True, head_dim=256, windows="pattern")
FAMILIES: Final[Mapping[str, Family]] = {
    "llama": Family(),
    "mistral": Family(kv_heads=8, windows="all", mlp_bias=False),
    "ministral": Family(kv_heads=8),
    "mixtral": Family(kv_heads=8, experts="mixtral", windows="all"),
    "phi3": Family(mlp_bias=False),
    "qwen2": Family(qkv_bias=True, out_bias=False, windows="late", mlp_bias=False),
    "qwen2_moe": Family(qkv_bias=True, out_bias=False, experts="qwen", windows="late"),
    "qwen3": _QWEN3,
    "qwen3_vl_text": _QWEN3,
    "qwen3_moe": Family(head_norm=True, experts="qwen", windows="late"),
    "qwen3_vl_moe_text": Family(head_norm=True, experts="qwen"),
    "deepseek_v2": _DEEPSEEK,
    "deepseek_v3": _DEEPSEEK,
    "kimi_k2": _DEEPSEEK,
    "glm4_moe": Family(experts="deepseek", out_bias=False),
    "gpt_oss": Family(head_dim=64, experts="gpt_oss", windows="even"),
    "gemma": Family(tied=True, head_dim=256),
    "gemma2": Family(norms=4, tied=True, head_dim=256, windows="even"),
    "gemma3": _GEMMA3,
    "gemma3_text": _GEMMA3,
    "gpt2": _GPT2,
    "gpt_bigcode": _GPT2,
    "falcon": Family(tied=True, mlp="plain", norm_bias=True),
}


class Shape:
    """Sizes of a decoder that every family has.

    Raises:
        BadInput: one is missing or cannot be.
    """

    def __init__(self, fields: Fields, family: Family) -> None:
        self.fields, self.family = fields, family
        self.layers = fields.count("num_hidden_layers")
        if self.layers > _MOST_LAYERS:
            raise BadInput(f"{fields.path}: num_hidden_layers is {self.layers}")
        self.hidden = fields.count("hidden_size")
        self.heads = fields.count("num_attention_heads")
        self.vocabulary = fields.count("vocab_size")
        self.kv_heads = _kv_heads(fields, family, self.heads)
        usual = family.head_dim or self.hidden // self.heads
        self.head_dim = fields.count("head_dim", usual)
        if self.heads % self.kv_heads:
            raise BadInput(
                f"{fields.path}: {self.heads} attention heads cannot share {self.kv_heads} heads of"
                " keys and values"
            )
        has_bias = fields.flag("attention_bias", default=False)
        self.qkv_bias = has_bias if family.qkv_bias is None else family.qkv_bias
        self.out_bias = has_bias if family.out_bias is None else family.out_bias
        if family.attention != "gqa" or fields.get("kv_lora_rank"):
            self.latent = fields.count("kv_lora_rank")
            self.rope = fields.count("qk_rope_head_dim")
        else:
            self.latent = self.rope = 0


def _kv_heads(fields: Fields, family: Family, heads: int) -> int:
    """Heads of keys and values: as many as of queries, fewer (GQA), or one (MQA)."""
    is_single = fields.flag("multi_query", default=False)
    if fields.flag("new_decoder_architecture", default=False):
        return fields.count("num_key_value_heads", heads)
    if is_single:
        fields.get("num_key_value_heads")
        return 1
    return fields.count("num_key_value_heads", family.kv_heads or heads)


def matrices(shape: Shape) -> Iterator[Matrix]:
    """All weights of the model, those for multi-token prediction last."""
    fields, family, hidden = shape.fields, shape.family, shape.hidden
    yield Matrix("model.embed_tokens", shape.vocabulary, hidden)
    if not fields.flag("tie_word_embeddings", default=family.tied):
        yield Matrix("lm_head", shape.vocabulary, hidden)
    if family.positions:
        yield Matrix("model.positions", fields.count("max_position_embeddings"), hidden)
    norm = 2 if family.norm_bias else 1
    yield Matrix("model.norm", hidden * norm, 1)
    feed_forward = _FeedForward(shape)
    norms = _norms(shape)
    for layer in range(shape.layers):
        name = f"model.layers.{layer}"
        yield Matrix(f"{name}.norms", norms * hidden * norm, 1)
        yield from _attention(shape, name)
        yield from feed_forward.of(layer, name)
    for draft in range(fields.count("num_nextn_predict_layers", 0, least=0)):
        layer = shape.layers + draft
        name = f"model.layers.{layer}"
        pieces = [
            # Input and output table, which the checkpoint repeats, and what joins two inputs.
            Matrix(f"{name}.embed_tokens", shape.vocabulary, hidden),
            Matrix(f"{name}.shared_head.head", shape.vocabulary, hidden),
            Matrix(f"{name}.eh_proj", hidden, 2 * hidden),
            Matrix(f"{name}.norms", (norms + 3) * hidden, 1),
            *_attention(shape, name),
            *feed_forward.of(layer, name),
        ]
        yield from (piece._replace(draft=True) for piece in pieces)


def _norms(shape: Shape) -> int:
    """Norms of a layer. Falcon's attention and MLP share one, unless its config has two."""
    if shape.fields.get("model_type") != "falcon":
        return shape.family.norms
    is_new = shape.fields.flag("new_decoder_architecture", default=False)
    return shape.fields.count("num_ln_in_parallel_attn", 2 if is_new else 1)


def _attention(shape: Shape, layer: str) -> Iterator[Matrix]:
    name, hidden = f"{layer}.self_attn", shape.hidden
    if shape.latent:
        yield from _latent(shape, name)
        return
    query, key = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    for projection, rows in (("q", query), ("k", key), ("v", key)):
        yield Matrix(f"{name}.{projection}_proj", rows, hidden, can_shrink=True)
    yield Matrix(f"{name}.o_proj", hidden, query, can_shrink=True)
    vectors = shape.qkv_bias * (query + 2 * key) + shape.out_bias * hidden
    if shape.family.head_norm or shape.fields.flag("use_qk_norm", default=False):
        vectors += 2 * shape.head_dim
    if shape.family.experts == "gpt_oss":
        vectors += shape.heads  # Attention sinks.
    if vectors:
        yield Matrix(f"{name}.vectors", vectors, 1)


def _latent(shape: Shape, name: str) -> Iterator[Matrix]:
    """Multi-head latent attention."""
    fields, hidden = shape.fields, shape.hidden
    nope, value = fields.count("qk_nope_head_dim"), fields.count("v_head_dim")
    query = shape.heads * (nope + shape.rope)
    low_rank = fields.count("q_lora_rank", 0, least=0)
    if low_rank:
        yield Matrix(f"{name}.q_a_proj", low_rank, hidden, can_shrink=True)
        yield Matrix(f"{name}.q_b_proj", query, low_rank, can_shrink=True)
    else:
        yield Matrix(f"{name}.q_proj", query, hidden, can_shrink=True)
    yield Matrix(f"{name}.kv_a_proj_with_mqa", shape.latent + shape.rope, hidden, can_shrink=True)
    up = shape.heads * (nope + value)
    yield Matrix(f"{name}.kv_b_proj", up, shape.latent, can_shrink=True)
    yield Matrix(f"{name}.o_proj", hidden, shape.heads * value, can_shrink=True)
    yield Matrix(f"{name}.norms", low_rank + shape.latent, 1)


class _FeedForward:
    """The MLP or the experts of each layer."""

    def __init__(self, shape: Shape) -> None:
        fields, style = shape.fields, shape.family.experts
        self._hidden, self._style = shape.hidden, style
        self._is_gated = shape.family.mlp == "gated"
        has_bias = fields.flag("mlp_bias", default=False)
        self._bias = has_bias if shape.family.mlp_bias is None else shape.family.mlp_bias
        self._layers = shape.layers
        self.experts = fields.count("num_experts", 0, least=0) if style else 0
        self.met = fields.count("num_experts_per_tok", self.experts) if self.experts else 0
        if self.met > self.experts:
            raise BadInput(
                f"{fields.path}: a token meets {self.met} of {self.experts} experts"
                " (num_experts_per_tok)"
            )
        wide = fields.count("intermediate_size", 4 * shape.hidden)
        self._wide = wide
        if not self.experts:
            return
        self._each = fields.count("moe_intermediate_size", wide)
        self._shared = 0
        self._dense_layers: set[int] = set()
        self._has_gate = self._has_correction = False
        if style == "deepseek":
            self._shared = fields.count("n_shared_experts", 0, least=0) * self._each
            first = fields.count("first_k_dense_replace", 0, least=0)
            step = fields.count("moe_layer_freq", 1)
            self._dense_layers = {
                layer for layer in range(shape.layers) if layer < first or layer % step
            }
            is_v3 = fields.get("topk_method") == "noaux_tc"
            self._has_correction = is_v3 or shape.family.attention == "gqa"
        elif style == "qwen":
            self._shared = fields.count("shared_expert_intermediate_size", 0, least=0)
            self._has_gate = bool(self._shared)
            step = fields.count("decoder_sparse_step", 1)
            dense = fields.get("mlp_only_layers") or []
            self._dense_layers = {
                layer for layer in range(shape.layers) if layer in dense or (layer + 1) % step
            }

    def of(self, layer: int, name: str) -> Iterator[Matrix]:
        if not self.experts or layer in self._dense_layers:
            yield from self._mlp(f"{name}.mlp", self._wide)
            return
        hidden, experts, each = self._hidden, self.experts, self._each
        router = f"{name}.mlp.{'router' if self._style == 'gpt_oss' else 'gate'}"
        has_biases = self._style == "gpt_oss"
        vectors = experts * (has_biases or self._has_correction) + hidden * self._has_gate
        yield Matrix(router, experts, hidden)
        if vectors:
            yield Matrix(f"{name}.mlp.vectors", vectors, 1)
        block = f"{name}.mlp.experts.0"
        for projection, rows, columns in (
            ("gate_proj", each, hidden),
            ("up_proj", each, hidden),
            ("down_proj", hidden, each),
        ):
            yield Matrix(
                f"{block}.{projection}", rows, columns, copies=experts, can_shrink=True, routed=True
            )
        if has_biases:
            yield Matrix(f"{block}.biases", 2 * each + hidden, 1, copies=experts, routed=True)
        if self._shared:
            yield from self._mlp(f"{name}.mlp.shared_experts", self._shared)

    def _mlp(self, name: str, wide: int) -> Iterator[Matrix]:
        projections = ("gate_proj", "up_proj") if self._is_gated else ("up_proj",)
        for projection in projections:
            yield Matrix(f"{name}.{projection}", wide, self._hidden, can_shrink=True)
        yield Matrix(f"{name}.down_proj", self._hidden, wide, can_shrink=True)
        if self._bias:
            yield Matrix(f"{name}.vectors", len(projections) * wide + self._hidden, 1)
