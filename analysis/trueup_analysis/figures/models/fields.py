"""The fields of a config.json, each read once by its name or an alias. Fields that nobody reads are
reported by name."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from trueup_node.errors import BadInput
from trueup_node.reading import is_count

from ... import catalog

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

_MOST: Final = 10**9
# Names of other families for the same figure.
_ALIASES: Final[Mapping[str, tuple[str, ...]]] = {
    "hidden_size": ("n_embd", "d_model"),
    "num_hidden_layers": ("n_layer", "n_layers", "num_layers"),
    "num_attention_heads": ("n_head", "n_heads"),
    "num_key_value_heads": ("num_kv_heads", "n_head_kv"),
    "intermediate_size": ("n_inner", "ffn_hidden_size"),
    "max_position_embeddings": ("n_positions", "seq_length", "max_sequence_length"),
    "num_experts": ("num_local_experts", "n_routed_experts"),
    "num_experts_per_tok": ("experts_per_token", "num_experts_per_token"),
    "dtype": ("torch_dtype",),
}
# Fields that change neither the number of weights nor the KV cache.
_WITHOUT_EFFECT: Final = """
    architectures auto_map _name_or_path name_or_path transformers_version tokenizer_class
    transformers.js_config unsloth_fixed unsloth_version task_specific_params id2label label2id
    bos_token_id eos_token_id pad_token_id unk_token_id sep_token_id decoder_start_token_id
    image_token_id image_token_index video_token_id vision_start_token_id vision_end_token_id
    boi_token_index eoi_token_index media_placeholder_token_id mm_tokens_per_image
    spatial_merge_size projector_hidden_act multimodal_projector_bias vision_feature_layer
    initializer_range layer_norm_eps layer_norm_epsilon rms_norm_eps norm_eps
    layer_norm_type use_cache return_dict output_attentions output_hidden_states torchscript
    is_decoder is_encoder_decoder cross_attention_hidden_size add_cross_attention
    chunk_size_feed_forward pruned_heads length_penalty max_length num_beams num_beam_groups
    num_return_sequences top_k top_p temperature typical_p do_sample early_stopping
    repetition_penalty diversity_penalty no_repeat_ngram_size encoder_no_repeat_ngram_size
    begin_suppress_tokens bad_words_ids finetuning_task prefix problem_type tf_legacy_loss
    use_bfloat16 remove_invalid_values exponential_decay_length_penalty min_length
    forced_bos_token_id forced_eos_token_id suppress_tokens output_scores
    return_dict_in_generate sep_token tie_encoder_decoder use_qk_norm
    hidden_act hidden_activation activation_function mlp_activation scale_attn_weights
    scale_attention_softmax_in_fp32 attention_softmax_in_fp32 scale_attn_by_inverse_layer_idx
    reorder_and_upcast_attn summary_activation summary_first_dropout summary_proj_to_labels
    summary_type summary_use_proj validate_runner_input inference_runner runner_max_sequence_length
    attn_pdrop embd_pdrop resid_pdrop attention_dropout hidden_dropout embedding_dropout dropout
    attn_implementation _attn_implementation pretraining_tp ep_size seq_aux aux_loss_alpha
    rope_theta rope_local_base_freq rope_interleave partial_rotary_factor rotary_dim alibi
    initial_context_length original_max_position_embeddings attn_logit_softcapping
    final_logit_softcapping query_pre_attn_scalar cache_implementation use_bidirectional_attention
    router_aux_loss_coef output_router_logits router_jitter_noise input_jitter_noise norm_topk_prob
    scoring_func topk_method n_group topk_group routed_scaling_factor swiglu_limit swiglu_alpha
    parallel_attn apply_residual_connection_post_layernorm bias_dropout_fusion vision_config
    text_config rope_scaling rope_parameters model_type quantization_config compression_config
    sliding_window_pattern _sliding_window_pattern max_window_layers interleaved_sliding_window
    """


class Fields:
    """A config.json, or the part of it about the language model.

    Attributes:
        path: of the file, for messages.
    """

    def __init__(self, path: str, fields: Mapping[str, Any]) -> None:
        self.path, self._fields = path, fields
        self._read: set[str] = set()

    def get(self, name: str) -> Any:
        """Its value by its own name or an alias; None where it has none, or null."""
        names = (name, *_ALIASES.get(name, ()))
        self._read.update(names)
        values = (self._fields.get(alias) for alias in names)
        return next((value for value in values if value is not None), None)

    def count(self, name: str, default: int | None = None, *, least: int = 1) -> int:
        """A whole number.

        Raises:
            BadInput: it is missing and has no default, or is no such number.
        """
        value = self.get(name)
        if value is None and default is not None:
            return default
        if not is_count(value) or not least <= value < _MOST:
            is_missing = value is None
            state = "is missing" if is_missing else f"is {str(value)[:40]!r}"
            raise BadInput(f"{self.path}: {name} {state}: a whole number from {least} is needed")
        return int(value)

    def flag(self, name: str, *, default: bool) -> bool:
        """A boolean.

        Raises:
            BadInput: it is neither true nor false.
        """
        value = self.get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise BadInput(f"{self.path}: {name} is {str(value)[:40]!r}: true or false is needed")
        return value

    def mapping(self, name: str) -> Mapping[str, Any]:
        """A mapping, empty where there is none.

        Raises:
            BadInput: it is something else.
        """
        value = self.get(name)
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise BadInput(f"{self.path}: {name} is {str(value)[:40]!r}: a mapping is needed")
        return value

    def texts(self, name: str) -> list[str]:
        """A list of texts, empty where there is none.

        Raises:
            BadInput: it is something else.
        """
        value = self.get(name) or []
        if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
            raise BadInput(f"{self.path}: {name} is {str(value)[:40]!r}: a list of names is needed")
        return value

    def unread(self) -> list[str]:
        """Names of fields that nobody read and that may change memory or speed."""
        harmless = _WITHOUT_EFFECT.split()
        return sorted(
            name
            for name, value in self._fields.items()
            if name not in self._read and name not in harmless and value not in (None, False)
        )


# ModelOpt's name of the file in which it says how it has quantized a model.
BESIDE: Final = "hf_quant_config.json"


def read(path: Path) -> Mapping[str, Any]:
    """A config.json, or that of a folder, with the quantization that ModelOpt writes beside it.

    Raises:
        BadInput: it cannot be read, or is no JSON object.
    """
    file = path / "config.json" if path.is_dir() else path
    document = _object(file)
    beside = file.with_name(BESIDE)
    if file.name != "config.json" or "quantization_config" in document or not beside.is_file():
        return document
    settings = _object(beside).get("quantization")
    if not isinstance(settings, dict):
        raise BadInput(f"{beside} has no mapping called quantization")
    return {**document, "quantization_config": {"quant_method": "modelopt", **settings}}


def _object(file: Path) -> dict[str, Any]:
    try:
        document = json.loads(catalog.text(file))
    except OSError as error:
        raise BadInput(f"{file} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{file} is not JSON: {str(error)[:80]}") from error
    if not isinstance(document, dict):
        raise BadInput(f"{file} is no config.json of a model: it holds no JSON object")
    return document


def parts(path: str, document: Mapping[str, Any]) -> tuple[Fields, Sequence[str]]:
    """The fields of the language model, and the names of the other models beside it, such as
    vision_config."""
    beside = [
        name
        for name, value in document.items()
        if name.endswith("_config") and isinstance(value, dict) and name not in _OF_TEXT
    ]
    nested = next(
        (
            document[name]
            for name in ("text_config", "llm_config", "language_config")
            if isinstance(document.get(name), dict)
        ),
        None,
    )
    if nested is None:
        return Fields(path, document), beside
    outer = {name: value for name, value in document.items() if name in _INHERITED}
    return Fields(path, {**outer, **nested}), beside


_OF_TEXT: Final = (
    *("text_config", "llm_config", "language_config"),
    *("quantization_config", "compression_config", "generation_config"),
)
# Fields of the whole model that a nested config leaves to it.
_INHERITED: Final = (
    *("quantization_config", "compression_config", "dtype", "torch_dtype"),
    *("tie_word_embeddings", "architectures"),
)
