"""A config.json: parameters, bytes of weights, KV cache and longest sequence of its model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from helpers import parametrized
from hypothesis import given
from hypothesis import strategies as st
from trueup_analysis import catalog
from trueup_analysis.figures.evidence import names
from trueup_analysis.figures.models import config, quantization
from trueup_analysis.figures.models.fields import Fields
from trueup_node.errors import BadInput

KNOWN = Path(__file__).parents[2] / "data" / "models" / "known.json"
SMALL = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 128,
    "vocab_size": 100,
    "max_position_embeddings": 512,
    "dtype": "bfloat16",
}


@parametrized(("name", "config", "parameters", "active", "checkpoint", "kv", "longest"))
def test_a_public_model_is_counted_to_the_byte(
    name: str,
    config: dict[str, Any],
    parameters: int,
    active: int,
    checkpoint: int,
    kv: int,
    longest: int,
) -> None:
    model = counted(config, name)
    assert (model.parameters, model.active_parameters) == (parameters, active)
    assert (model.checkpoint_bytes, model.kv_bytes_per_token()) == (checkpoint, kv)
    assert (model.max_length, model.notes) == (longest, ())


def test_the_models_that_are_known_by_name_are_those_of_their_configs() -> None:
    """All rows of evidence_models.csv but Llama 4, whose architecture is not supported, and
    DeepSeek R1, whose document the recipe has."""
    configs = json.loads(KNOWN.read_text())
    rows = names.models(catalog.built_in())
    assert {*rows} == {*configs, "llama-4-scout", "llama-4-maverick", "deepseek-r1"}
    for name, document in configs.items():
        model, row = counted(document, name), rows[name]
        figures = ("parameters", "layers", "kv_heads", "head_dim", "hidden", "heads", "vocabulary")
        assert [getattr(model, figure) for figure in figures] == [int(row[f]) for f in figures]
        experts = (model.expert_parameters, model.experts, model.experts_met)
        stated = (row[f] for f in ("expert_parameters", "experts", "experts_met"))
        assert experts == tuple(int(value or 0) for value in stated)
        sliding = [(cache.layers, cache.window) for cache in model.caches if cache.window]
        windows = (int(row["sliding_layers"] or 0), int(row["sliding_window"] or 0))
        assert sum(sliding, ()) == (windows if any(windows) else ())


def counted(document: dict[str, Any], name: str = "config.json") -> config.ModelConfig:
    return config.of_document(document, name)


@parametrized(("change", "message"))
def test_a_config_that_cannot_be_counted_is_refused_by_name(
    change: dict[str, Any], message: str
) -> None:
    with pytest.raises(BadInput) as caught:
        counted({**SMALL, **change})
    assert message in str(caught.value)


@parametrized(("settings", "bytes_"))
def test_a_quantized_matrix_has_its_scales(settings: dict[str, Any], bytes_: int) -> None:
    scheme = quantization.read(Fields("config.json", {"quantization_config": settings}))
    matrix = quantization.Matrix("model.layers.0.matrix", 256, 1024, can_shrink=True)
    assert scheme.bytes_of(matrix) == bytes_
    assert scheme.bytes_of(matrix._replace(can_shrink=False)) == 524288


def test_a_field_that_nobody_reads_is_named() -> None:
    assert counted({**SMALL, "memory_layers": 3, "pad_token_id": 0}).notes == (
        "fields without a meaning here: memory_layers",
    )


def test_a_language_model_within_another_is_read_and_the_rest_named() -> None:
    inner = {name: value for name, value in SMALL.items() if name != "dtype"}
    outer = {
        "model_type": "mistral3",
        "text_config": inner,
        "vision_config": {"hidden_size": 32},
        "dtype": "float32",
    }
    model = counted(outer)
    assert model.parameters == counted(SMALL).parameters
    assert model.weight_bytes == 4 * model.parameters
    assert model.notes == ("not counted: vision_config, a model beside the language model",)


def test_names_of_other_families_are_the_same_figures() -> None:
    """StarCoder's names; one head of keys and values (MQA)."""
    model = counted(
        {
            "model_type": "gpt_bigcode",
            "n_embd": 64,
            "n_layer": 2,
            "n_head": 4,
            "n_inner": 128,
            "n_positions": 512,
            "vocab_size": 100,
            "multi_query": True,
        }
    )
    # Tables of words and positions; 2 layers of attention, MLP, biases and two norms; last norm.
    layer = 64 * 64 * 2 + 2 * 16 * 64 + (64 + 32 + 64) + 2 * 64 * 128 + 128 + 64 + 2 * 128
    assert model.parameters == 100 * 64 + 512 * 64 + 2 * layer + 128
    assert (model.kv_heads, model.kv_bytes_per_token(), model.max_length) == (
        1,
        2 * 2 * 16 * 2,
        512,
    )


def test_a_sliding_window_holds_no_more_than_its_tokens() -> None:
    """gpt-oss: every second layer has a window."""
    layers = ["sliding_attention", "full_attention"]
    model = counted({**SMALL, "layer_types": layers, "sliding_window": 128})
    each = 2 * 2 * 16 * 2
    assert model.kv_bytes(1000) == each * (1000 + 128)
    assert model.kv_bytes(100) == model.kv_bytes_per_token() * 100 == 2 * each * 100
    # Mistral's window is in every layer, Qwen's only where use_sliding_window says so.
    mistral = counted({**SMALL, "model_type": "mistral", "sliding_window": 128})
    assert mistral.kv_bytes(1000) == 2 * each * 128
    qwen = counted({**SMALL, "model_type": "qwen2", "sliding_window": 128})
    assert qwen.kv_bytes(1000) == 2 * each * 1000


def test_a_quantization_beside_the_config_counts(tmp_path: Path) -> None:
    """NVIDIA's ModelOpt writes hf_quant_config.json."""
    (tmp_path / "config.json").write_text(json.dumps(SMALL))
    plain = config.read(tmp_path)
    beside = {"quantization": {"quant_algo": "FP8", "exclude_modules": ["lm_head"]}}
    (tmp_path / "hf_quant_config.json").write_text(json.dumps(beside))
    model = config.read(tmp_path / "config.json")
    assert (plain.quantization.name, model.quantization.name) == ("bfloat16", "modelopt")
    matrices = [matrix for matrix in model.loaded if matrix.can_shrink]
    shrunk = sum(matrix.parameters for matrix in matrices)
    assert plain.weight_bytes - model.weight_bytes == shrunk - 8 * len(matrices)


@pytest.mark.parametrize("text", ["", "[]", "7", "\x00", "[" * 100_000, '{"model_type": []}'])
def test_a_file_of_another_kind_is_one_sentence(text: str, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(text)
    with pytest.raises(BadInput, match=r"config\.json") as caught:
        config.read(path)
    assert "\n" not in str(caught.value)
    with pytest.raises(BadInput, match="cannot be read"):
        config.read(tmp_path / "absent" / "config.json")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=6,
)


@given(
    name=st.sampled_from(sorted({*SMALL, "quantization_config", "layer_types", "head_dim"})),
    value=JSON,
)
def test_any_value_is_counted_or_refused(name: str, value: Any) -> None:
    try:
        text = f"{counted({**SMALL, name: value}).parameters} parameters"
    except BadInput as error:
        text = str(error)
    assert (text.count("\n"), text.startswith("-")) == (0, False)


VLLM = {
    "hidden_size": 1024,
    "num_hidden_layers": 4,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "head_dim": 64,
    "intermediate_size": 2816,
    "vocab_size": 32000,
    "max_position_embeddings": 4096,
    "tie_word_embeddings": False,
}


@parametrized(("name", "change", "parameters", "weights", "cache"))
def test_memory_is_that_of_vllm(
    name: str, change: dict[str, Any], parameters: int, weights: int, cache: int | None
) -> None:
    """Weights within 0.1 %: vLLM keeps routers and correction biases in FP32, which the checkpoint
    has in BF16."""
    model = counted({**VLLM, **change}, name)
    assert (model.parameters, model.notes) == (parameters, ())
    assert model.weight_bytes == pytest.approx(weights, rel=1e-3)
    assert cache in (None, model.kv_bytes_per_token())
