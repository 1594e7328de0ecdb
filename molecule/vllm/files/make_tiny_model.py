"""Write a tiny Llama with random weights and a byte-level tokenizer: a model to serve, not to read.

    python make_tiny_model.py FOLDER [LONGEST]

LONGEST is the longest sequence in tokens.

Formats: huggingface.co/docs/safetensors (8 bytes of length, a JSON header, the tensors' bytes) and
huggingface.co/docs/tokenizers (tokenizer.json).
"""

import json
import pathlib
import random
import struct
import sys

END = "<|end|>"
HIDDEN, INTERMEDIATE, LAYERS, HEADS, KV_HEADS = 128, 256, 1, 4, 2


def byte_symbols():
    """The 256 characters by which byte-level tokenizers write bytes: printable ones as they are,
    the others from U+0100 on."""
    shown = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in shown]
    return [chr(byte) for byte in shown] + [chr(0x100 + n) for n in range(len(others))]


def tensors(vocabulary):
    """Name to shape."""
    kv = HIDDEN // HEADS * KV_HEADS
    shapes = {
        "model.embed_tokens.weight": (vocabulary, HIDDEN),
        "model.norm.weight": (HIDDEN,),
        "lm_head.weight": (vocabulary, HIDDEN),
    }
    for layer in range(LAYERS):
        at = f"model.layers.{layer}."
        shapes[at + "input_layernorm.weight"] = (HIDDEN,)
        shapes[at + "post_attention_layernorm.weight"] = (HIDDEN,)
        for name, rows in (("q", HIDDEN), ("k", kv), ("v", kv), ("o", HIDDEN)):
            shapes[f"{at}self_attn.{name}_proj.weight"] = (rows, HIDDEN)
        for name in ("gate", "up"):
            shapes[f"{at}mlp.{name}_proj.weight"] = (INTERMEDIATE, HIDDEN)
        shapes[at + "mlp.down_proj.weight"] = (HIDDEN, INTERMEDIATE)
    return shapes


def bfloat16(values):
    """The upper halves of their 32 bits."""
    packed = struct.pack(f"<{len(values)}f", *values)
    return b"".join(packed[at + 2 : at + 4] for at in range(0, len(packed), 4))


def write_weights(path, vocabulary):
    generator = random.Random(0)  # noqa: S311 WHY: any weights will do
    header, data = {}, []
    offset = 0
    for name, shape in tensors(vocabulary).items():
        if len(shape) == 1:
            values = [1.0] * shape[0]
        else:
            values = [generator.gauss(0, 0.02) for _ in range(shape[0] * shape[1])]
        data.append(bfloat16(values))
        end = offset + len(data[-1])
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(data))


def main():
    folder = pathlib.Path(sys.argv[1])
    longest = int(sys.argv[2]) if len(sys.argv) > 2 else 2048
    folder.mkdir(parents=True, exist_ok=True)
    vocabulary = {symbol: number for number, symbol in enumerate([*byte_symbols(), END])}
    files = {
        "config.json": {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "vocab_size": len(vocabulary),
            "hidden_size": HIDDEN,
            "intermediate_size": INTERMEDIATE,
            "num_hidden_layers": LAYERS,
            "num_attention_heads": HEADS,
            "num_key_value_heads": KV_HEADS,
            "head_dim": HIDDEN // HEADS,
            "max_position_embeddings": longest,
            "hidden_act": "silu",
            "rms_norm_eps": 1e-6,
            "tie_word_embeddings": False,
            "eos_token_id": vocabulary[END],
            "torch_dtype": "bfloat16",
        },
        "generation_config.json": {"eos_token_id": vocabulary[END]},
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "eos_token": END,
            "pad_token": END,
            "model_max_length": longest,
        },
        "tokenizer.json": {
            "version": "1.0",
            "added_tokens": [
                {
                    "id": vocabulary[END],
                    "content": END,
                    "single_word": False,
                    "lstrip": False,
                    "rstrip": False,
                    "normalized": False,
                    "special": True,
                }
            ],
            "normalizer": None,
            "pre_tokenizer": {
                "type": "ByteLevel",
                "add_prefix_space": False,
                "trim_offsets": True,
                "use_regex": True,
            },
            "post_processor": None,
            "decoder": {
                "type": "ByteLevel",
                "add_prefix_space": True,
                "trim_offsets": True,
                "use_regex": True,
            },
            "model": {"type": "BPE", "vocab": vocabulary, "merges": []},
        },
    }
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
    write_weights(folder / "model.safetensors", len(vocabulary))


if __name__ == "__main__":
    main()
