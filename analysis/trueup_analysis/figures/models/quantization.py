"""Bytes of a matrix in the form of its quantization: the weights, and the scales beside them."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from trueup_node.errors import BadInput
from trueup_node.reading import is_count

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from .fields import Fields

METHODS: Final = (*("fp8", "fbgemm_fp8", "awq", "gptq", "mxfp4", "compressed-tensors", "modelopt"),)
_AWQ_KINDS: Final = ("awq", "awq_marlin")
_GPTQ_KINDS: Final = ("gptq", "gptq_marlin")
# Weights under one scale of MXFP4 (OCP Microscaling Formats 1.0) and of NVFP4.
_MX_GROUP: Final = 32
_NV_GROUP: Final = 16
_SETTINGS: Final[Mapping[str, Mapping[str, Any]]] = {
    "bf16": {},
    "fp8": {"quant_method": "fp8"},
    "int4": {"quant_method": "awq", "bits": 4, "group_size": 128},
}
# Bytes of a weight.
PRECISIONS: Final[Mapping[str, float]] = {"bf16": 2.0, "fp8": 1.0, "int4": 0.5}
_DTYPES: Final = {"bfloat16": 2, "float16": 2, "half": 2, "float32": 4, "float": 4}


class Matrix(NamedTuple):
    """Weights of one shape.

    Attributes:
        module: its name in the checkpoint.
        rows, columns: outputs and inputs; a vector has 1 column.
        copies: matrices of this shape under this name, such as experts.
        can_shrink: a quantization may apply; not to norms, biases, tables and routers.
        routed: of experts among which a router chooses for each token.
        draft: of the layer for multi-token prediction, which vLLM loads only on request.
    """

    module: str
    rows: int
    columns: int
    copies: int = 1
    can_shrink: bool = False
    routed: bool = False
    draft: bool = False

    @property
    def parameters(self) -> int:
        return self.rows * self.columns * self.copies


class Scheme(NamedTuple):
    """One form of weights.

    Attributes:
        bits: of a weight.
        scales: bytes of scales and zero points beside a matrix of so many rows and columns.
        applies: whether it is for the module of that name.
    """

    bits: float
    scales: Callable[[int, int], float]
    applies: Callable[[str], bool]

    def bytes_of(self, matrix: Matrix) -> float:
        weights = matrix.rows * matrix.columns * self.bits / 8
        return (weights + self.scales(matrix.rows, matrix.columns)) * matrix.copies


class Quantization(NamedTuple):
    """The forms of a model's weights.

    Attributes:
        name: such as fp8; the data type of a model that is not quantized.
        width: bytes of a weight outside of every scheme.
        schemes: the first that applies to a matrix counts.
        compute: bits that the tensor cores multiply: 8 where weights and activations are FP8,
            else 16.
    """

    name: str
    width: float
    schemes: Sequence[Scheme] = ()
    compute: int = 16

    def bytes_of(self, matrix: Matrix) -> float:
        if matrix.can_shrink:
            for scheme in self.schemes:
                if scheme.applies(matrix.module):
                    return scheme.bytes_of(matrix)
        return matrix.parameters * self.width

    @property
    def least_width(self) -> float:
        """Bytes of a weight in its narrowest scheme, without scales."""
        return min([self.width, *(scheme.bits / 8 for scheme in self.schemes)])


def read(fields: Fields) -> Quantization:
    """
    Raises:
        BadInput: a method, data type or format that is not supported, by its name.
    """
    dtype = str(fields.get("dtype") or "bfloat16").removeprefix("torch.")
    if dtype not in _DTYPES:
        raise BadInput(
            f"{fields.path}: dtype {dtype!r} is not supported; supported are {', '.join(_DTYPES)}"
        )
    width = _DTYPES[dtype]
    settings = fields.mapping("quantization_config") or fields.mapping("compression_config")
    if not settings:
        return Quantization(dtype, width)
    method = str(settings.get("quant_method"))
    reader = _READERS.get(method)
    if reader is None:
        raise BadInput(
            f"{fields.path}: the quantization {method!r} is not supported; supported are"
            f" {', '.join(METHODS)}"
        )
    schemes, compute = reader(fields.path, settings)
    return Quantization(method, width, schemes, compute)


def of_width(width: float) -> Quantization:
    """Of weights of so many bytes, without scales."""
    if width > 1:
        return Quantization("bfloat16", width)
    scheme = Scheme(8 * width, lambda _rows, _columns: 0.0, lambda _module: True)
    return Quantization("fp8" if width == 1 else "int4", 2, [scheme], 8 if width == 1 else 16)


def with_precision(document: Mapping[str, Any], precision: str) -> Mapping[str, Any]:
    """A config.json with weights of PRECISIONS, by the usual quantization of that name."""
    plain = {name: value for name, value in document.items() if name != "quantization_config"}
    settings = _SETTINGS[precision]
    return {**plain, "quantization_config": settings} if settings else plain


def _fp8(path: str, settings: Mapping[str, Any]) -> tuple[list[Scheme], int]:
    block = settings.get("weight_block_size")
    if block is None:
        # A scale of the weights and, of static activations, one of theirs.
        scales = 8 if settings.get("activation_scheme") == "static" else 4
        return [Scheme(8, lambda _rows, _columns: scales, _except(settings))], 8
    return [Scheme(8, _blocks(path, "weight_block_size", block), _except(settings))], 8


def _blocks(path: str, name: str, block: Any) -> Callable[[int, int], float]:
    """A scale of 32 bits for each block of rows and columns."""
    is_pair = isinstance(block, list) and len(block) == 2 and all(map(is_count, block))
    if not is_pair or not all(block):
        raise _wrong(path, name, block)
    high, wide = int(block[0]), int(block[1])
    return lambda rows, columns: 4 * math.ceil(rows / high) * math.ceil(columns / wide)


def _fbgemm(_path: str, settings: Mapping[str, Any]) -> tuple[list[Scheme], int]:
    return [Scheme(8, lambda rows, _columns: 4 * rows, _except(settings))], 8


def _integer(path: str, settings: Mapping[str, Any]) -> tuple[list[Scheme], int]:
    """AWQ and GPTQ: packed integers; a 16-bit scale and a packed zero point for each group."""
    bits = settings.get("bits", settings.get("w_bit"))
    group = settings.get("group_size", settings.get("q_group_size", 128))
    if bits not in (2, 3, 4, 8):
        raise _wrong(path, "bits", bits)
    if not isinstance(group, int) or isinstance(group, bool) or not (group == -1 or group > 0):
        raise _wrong(path, "group_size", group)
    has_order = str(settings.get("quant_method")).startswith("gptq")

    packed, width = int(bits), int(group)

    def scales(rows: int, columns: int) -> float:
        groups = math.ceil(columns / (columns if width == -1 else width))
        return rows * groups * (2 + packed / 8) + (4 * columns if has_order else 0)

    return [Scheme(packed, scales, _except(settings))], 16


def _mxfp4(_path: str, settings: Mapping[str, Any]) -> tuple[list[Scheme], int]:
    return [Scheme(4, _mx, _except(settings))], 16


def _modelopt(path: str, settings: Mapping[str, Any]) -> tuple[list[Scheme], int]:
    algorithm = settings.get("quant_algo")
    if algorithm == "FP8":
        return [Scheme(8, lambda _rows, _columns: 8, _except(settings))], 8
    if algorithm == "NVFP4":
        return [Scheme(4, _nvfp4, _except(settings))], 16
    raise _wrong(path, "quant_algo", algorithm)


def _nvfp4(rows: int, columns: int) -> int:
    return rows * math.ceil(columns / _NV_GROUP) + 8


def _compressed(path: str, settings: Mapping[str, Any]) -> tuple[list[Scheme], int]:
    groups = settings.get("config_groups")
    if not isinstance(groups, dict) or not groups:
        raise _wrong(path, "config_groups", groups)
    schemes, computes = [], []
    for group in groups.values():
        weights = group.get("weights") if isinstance(group, dict) else None
        if not isinstance(weights, dict) or weights.get("num_bits") not in (4, 8):
            raise _wrong(path, "config_groups.weights", weights)
        bits, form = weights["num_bits"], weights.get("format") or group.get("format")
        is_float = weights.get("type") == "float"
        if bits == 4 and is_float:
            scales: Callable[[int, int], float] = _nvfp4 if "nvfp4" in str(form) else _mx
        else:
            scales = _scales(path, weights)
        targets = group.get("targets") or ["Linear"]
        schemes.append(Scheme(bits, scales, _for(targets, settings)))
        computes.append(8 if bits == 8 and group.get("input_activations") else 16)
    return schemes, min(computes)


def _mx(rows: int, columns: int) -> int:
    return rows * math.ceil(columns / _MX_GROUP)


def _scales(path: str, weights: Mapping[str, Any]) -> Callable[[int, int], float]:
    strategy, bits = weights.get("strategy"), weights["num_bits"]
    zeros = 0.0 if weights.get("symmetric", True) else bits / 8
    if strategy in ("tensor", None):
        return lambda _rows, _columns: 4
    if strategy == "channel":
        return lambda rows, _columns: rows * (2 + zeros)
    group = weights.get("group_size")
    if strategy == "group" and is_count(group) and group:
        return lambda rows, columns: rows * math.ceil(columns / group) * (2 + zeros)
    if strategy == "block":
        return _blocks(
            path, "config_groups.weights.block_structure", weights.get("block_structure")
        )
    raise _wrong(path, "config_groups.weights.strategy", strategy)


def _for(targets: Sequence[Any], settings: Mapping[str, Any]) -> Callable[[str], bool]:
    """Modules that the targets name ("Linear" is every matrix), less the ignored ones."""
    included = _except(settings)
    if "Linear" in targets:
        return included
    wanted_names = _matching(targets)
    return lambda module: included(module) and wanted_names(module)


def _except(settings: Mapping[str, Any]) -> Callable[[str], bool]:
    """All modules but those that the quantization leaves as they are."""
    patterns: list[Any] = []
    for name in ("modules_to_not_convert", "ignored_layers", "ignore", "exclude_modules"):
        patterns += settings.get(name) or []
    ignored = _matching(patterns)
    return lambda module: not ignored(module)


def _matching(patterns: Sequence[Any]) -> Callable[[str], bool]:
    """Whether a module has one of the names, or lies within such a one. A name is plain, has ``*``,
    or is a regular expression after ``re:``."""
    expressions = []
    for pattern in map(str, patterns):
        if pattern.startswith("re:"):
            expressions.append(f"(?:{pattern[3:]})")
        else:
            name = re.escape(pattern).replace(r"\*", ".*")
            expressions.append(rf"(?:.*\.)?{name}(?:\..*)?$")
    if not expressions:
        return lambda _module: False
    try:
        compiled = re.compile("|".join(expressions))
    except re.error as error:
        raise BadInput(f"a name in quantization_config is no pattern: {error}") from error
    return lambda module: compiled.match(module) is not None


def _wrong(path: str, name: str, value: Any) -> BadInput:
    text = str(value)[:60]
    return BadInput(f"{path}: quantization_config has {name} {text!r}, which is not supported")


_READERS: Final[Mapping[str, Callable[[str, Mapping[str, Any]], tuple[list[Scheme], int]]]] = {
    "fp8": _fp8,
    "fbgemm_fp8": _fbgemm,
    **dict.fromkeys((*_AWQ_KINDS, *_GPTQ_KINDS), _integer),
    "mxfp4": _mxfp4,
    "modelopt": _modelopt,
    "compressed-tensors": _compressed,
}
