"""vLLM recipes: their members, whether one fits a machine, and the command that serves it.

A recipe is a mapping, as in catalog/vllm_recipes.yml, whose head describes every member. No YAML,
Ansible, files, network or clock in here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal, NamedTuple, Union

import msgspec
from msgspec import UNSET, UnsetType
from trueup_node.errors import BadInput, ParseError
from trueup_node.node.gpu_support import UNDOCUMENTED, lacks_cuda_13, lacks_driver
from trueup_node.node.topology import format_cpu_list, parse_cpu_list
from trueup_node.suggest import did_you_mean

from ..typed import typed

GIB = 1024**3
# More nodes than any single deployment here; the search for enough nodes ends there.
_MOST_NODES = 64
_NAME = r"[a-z0-9][a-z0-9._-]*"
_FLAG = r"[a-z0-9][a-z0-9-]*"
_VARIABLE = r"[A-Za-z_][A-Za-z0-9_]*"
# vLLM's --api-key, --hf-token and the like; max-num-batched-tokens and its kin are none.
_SECRET_FLAG = re.compile(
    r"(^|-)(api-?keys?|(hf|auth|access|bearer)-token|token|secret|password)(-|$)"
)
_SECRET_VARIABLE = re.compile(
    r"(API_?KEY|(^|_)TOKEN($|_)|SECRET|PASSWORD|ACCESS_KEY|CREDENTIAL)", re.IGNORECASE
)
# The form of Hugging Face's and OpenAI's keys.
_SECRET_VALUE = re.compile(r"\b(hf_[A-Za-z0-9]{16,}|sk-[A-Za-z0-9_-]{16,})\b")
# Flags that follow from the recipe and the nodes; given twice, vLLM takes the last in silence.
_OWN_FLAGS = {
    "model",
    "revision",
    "served-model-name",
    "host",
    "port",
    "headless",
    "tensor-parallel-size",
    "enable-expert-parallel",
}
# vLLM's all-to-all of DeepEP, and the most tokens of a batch that vLLM 0.32.0 sets with the first.
_LOW_LATENCY, _HIGH_THROUGHPUT = "deepep_low_latency", "deepep_high_throughput"
_LOW_LATENCY_TOKENS = 256
# The two that memory goes by: overrides of them count when the fit is computed.
_MEMORY_FLAGS = {"max-model-len": "max_model_len", "gpu-memory-utilization": "memory_share"}

Value = Union[str, int, float, bool]


@dataclass(frozen=True)
class Machine:
    """The facts of the machines that a fit needs: nodes of one kind.

    Attributes:
        name: how a sentence calls one, the VM size where it has one.
        nodes: how many of them.
        gpus: GPUs of one node; 0 on a CPU machine.
        gpu_memory_bytes: of the smallest GPU; None where not known.
        gpu_model: its name or the catalog's word for it.
        numa_memory_bytes: of the smallest NUMA node; None where not known.
        numa_cpus: the CPUs of each NUMA node; empty where not shown.
        numa_nodes: their numbers.
        smt: a core shows as more than one CPU.
    """

    name: str
    nodes: int = 1
    gpus: int = 0
    gpu_memory_bytes: int | None = None
    gpu_model: str = ""
    numa_memory_bytes: int | None = None
    numa_cpus: tuple[tuple[int, ...], ...] = ()
    numa_nodes: tuple[int, ...] = ()
    smt: bool = False


class Fit(NamedTuple):
    """Whether a recipe fits. Bytes are sums over the devices that it uses (GPUs, or NUMA nodes).

    Attributes:
        fits: it can start; else ``reason`` says why not, with both figures where they are known.
        devices: GPUs, or ranks on a CPU machine, over all nodes.
        model_bytes: the weights once, as vLLM loads them; a checkpoint can hold more (DeepSeek R1's
            a layer for multi-token prediction, 2 %).
        kv_cache_bytes: one sequence of ``max_model_len`` in each engine; on a CPU the reserved
            size.
        buffers_bytes: of DeepEP, where a recipe's all-to-all is one of its.
        smallest_size: the smallest size of the catalog that would do, None where none does.
        smallest_nodes: how many nodes of it.
        more_nodes: how many nodes of this machine's own size would do; None where none or no more.
    """

    fits: bool
    reason: str
    devices: int
    needed_bytes: int
    available_bytes: int | None
    weights_bytes: int
    kv_cache_bytes: int
    buffers_bytes: int
    workspace_bytes: int
    model_bytes: int
    smallest_size: str | None = None
    smallest_nodes: int | None = None
    more_nodes: int | None = None


@dataclass(frozen=True)
class Served:
    """The server command of one node: the words after ``vllm``, and the variables to set."""

    argv: list[str] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)


# ---- the members of a recipe ----------------------------------------------------------------


def _like(pattern: str, requirement: str) -> msgspec.Meta:
    return msgspec.Meta(pattern=rf"^(?:{pattern})\Z", description=requirement)


Text = Annotated[str, msgspec.Meta(pattern=r"\S", description="text")]
Name = Annotated[str, _like(_NAME, "a plain name")]
Count = Annotated[int, msgspec.Meta(ge=0)]
Positive = Annotated[int, msgspec.Meta(ge=1)]
Amount = Annotated[float, msgspec.Meta(ge=0, le=1e300)]
Share = Annotated[float, msgspec.Meta(gt=0, le=1, description="above 0 and at most 1")]
Texts = list[Annotated[str, msgspec.Meta(min_length=1)]]
Variables = dict[Annotated[str, _like(_VARIABLE, "the name of a variable")], str]
Date = Annotated[str, _like(r"\d{4}(-\d{2}-\d{2})?", "a date or a year")]


class Facts(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Figures of the model that memory goes by; the attention is of KV heads or of a latent vector
    (MLA)."""

    parameters: Positive
    expert_parameters: Count
    bytes_per_parameter: Amount
    layers: Positive
    kv_bytes: Positive
    source: Text
    other_bytes: Count = 0
    kv_heads: Positive | UnsetType = UNSET
    head_dim: Positive | UnsetType = UNSET
    kv_lora_rank: Positive | UnsetType = UNSET
    qk_rope_head_dim: Positive | UnsetType = UNSET
    hidden: Positive | UnsetType = UNSET
    experts: Positive | UnsetType = UNSET
    active_parameters: Positive | UnsetType = UNSET
    sliding_layers: Count | UnsetType = UNSET
    sliding_window: Positive | UnsetType = UNSET
    config: dict[str, Any] | UnsetType = UNSET

    def __post_init__(self) -> None:
        heads = {self.kv_heads is UNSET, self.head_dim is UNSET}
        latent = {self.kv_lora_rank is UNSET, self.qk_rope_head_dim is UNSET}
        if [heads, latent] not in ([{True}, {False}], [{False}, {True}]):
            raise ValueError(
                "must have either kv_heads and head_dim or kv_lora_rank and qk_rope_head_dim"
            )
        sliding = self.sliding_layers or 0
        if sliding > self.layers:
            raise ValueError("sliding_layers is more than all layers")
        if sliding and self.sliding_window is UNSET:
            raise ValueError("sliding_window is missing beside sliding_layers")
        if self.expert_parameters > self.parameters:
            raise ValueError("expert_parameters is more than all parameters")


class Cpu(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The cache and the binding of a server without GPUs."""

    kv_cache_gib: Positive
    bind: Literal["numa", "none"]


class Kernel(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, tag_field="kind"
):
    """A library that is installed beside vLLM. No name may become a path, and no URL an option of
    git."""

    name: Name
    source: Text


class Git(Kernel, frozen=True, tag="git"):
    """One that is built."""

    url: Annotated[str, _like(r"(https|ssh|file)://\S+", "a URL with https, ssh or file")]
    commit: Annotated[str, _like(r"[0-9a-f]{40}", "a commit of 40 hexadecimal digits")]
    distribution: Annotated[str, _like(_VARIABLE, "a name")]
    build: Annotated[Texts, msgspec.Meta(min_length=1, description="a command")]
    environment: Variables = {}
    reboot_needed: bool = False
    driver_parameters: Variables = {}


class Pip(Kernel, frozen=True, tag="pip"):
    """One of a package index."""

    package: Annotated[str, _like(r"[A-Za-z0-9][A-Za-z0-9._-]*", "the name of a package")]
    version: Annotated[str, _like(r"[0-9][A-Za-z0-9.!+_-]*", "one version")]
    sha256: Annotated[str, _like(r"[0-9a-f]{64}", "64 hexadecimal digits")] | UnsetType = UNSET


class Vendored(Kernel, frozen=True, tag="vendored"):
    """One that vLLM's wheel holds."""

    module: Annotated[str, _like(r"[A-Za-z_][A-Za-z0-9_.]*", "a module's name")]


class Recipe(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The head of catalog/vllm_recipes.yml describes each member. Its flags and variables may hold
    a secret, which no message shows."""

    name: Annotated[str, _like(_NAME, "lower case, digits, dots, dashes and underscores")]
    model: Text
    device: Literal["cuda", "cpu"]
    max_model_len: Positive
    facts: Facts
    source: Text
    date: Date
    revision: Annotated[
        str, _like(r"|[0-9a-f]{40}", "a commit of 40 hexadecimal digits, or empty")
    ] = ""
    gated: Annotated[str, _like(r"|[A-Za-z0-9.-]+", "the name of a licence, or empty")] = ""
    sizes: Texts = []
    gpu_models: Texts = []
    nodes: Positive = 1
    gpus: Count | None = None
    tensor_parallel: Positive = 1
    data_parallel_per_node: Positive = 1
    expert_parallel: bool = False
    rpc_port: Positive = 29550
    memory_share: Share = 0.9
    workspace_gib: Amount = 0
    why: str = ""
    arguments: Any = {}
    arguments_by_gpu: Any = {}
    head_arguments: Any = {}
    environment: Any = {}
    cpu: Cpu | None = None
    kernels: list[Git | Pip | Vendored] = []
    measured: str = ""

    def __post_init__(self) -> None:
        wrong = {
            "arguments": _flags(self.arguments),
            "head_arguments": _flags(self.head_arguments),
            "arguments_by_gpu": _flags_by_gpu(self.arguments_by_gpu, self.gpu_models),
            "environment": _variables(self.environment),
        }
        for member, problem in wrong.items():
            if problem:
                raise ValueError(f"{member} {problem}")
        for flag, member in _MEMORY_FLAGS.items():
            if flag in self.arguments:
                raise ValueError(f"arguments has {flag}; give it as {member}")
        ranks = self.tensor_parallel * self.data_parallel_per_node
        if self.device == "cpu":
            if self.gpus or self.gpu_models or not self.cpu:
                raise ValueError("device cpu needs cpu, and has neither gpus nor gpu_models")
            ranks = 0
        elif not self.gpu_models or self.cpu:
            raise ValueError("device cuda needs gpu_models (the GPUs that it runs on), and no cpu")
        elif self.gpus not in (None, ranks):
            raise ValueError(
                f"gpus is {self.gpus}, but tensor_parallel x data_parallel_per_node is {ranks}"
            )
        msgspec.structs.force_setattr(self, "gpus", ranks)


def _flags(value: Any) -> str | None:
    if not isinstance(value, Mapping):
        return "must be a mapping of flag to value"
    for name, flag_value in value.items():
        if not isinstance(name, str) or not re.fullmatch(_FLAG, name):
            return f"has {name!r}, which is not a flag's name without its dashes, such as dtype"
        if isinstance(flag_value, str):
            if not flag_value or "\n" in flag_value:
                return f"has no value of one line for {name}"
        elif not isinstance(flag_value, (bool, int, float)) or not math.isfinite(flag_value):
            return f"has a value for {name} that is neither text, number nor boolean"
        if _SECRET_FLAG.search(name) or _SECRET_VALUE.search(str(flag_value)):
            return (
                f"has {name}, which would show a secret in the command line; "
                "keys and tokens go into the role's own variables, which keep them in a file"
            )
        if name in _OWN_FLAGS or name.startswith("data-parallel-"):
            return f"has {name}, which follows from the recipe's other members and the nodes"
    return None


def _flags_by_gpu(value: Any, gpu_models: Sequence[str]) -> str | None:
    if not isinstance(value, Mapping):
        return "must be a mapping of GPU to flags"
    for gpu_name, flags in value.items():
        if gpu_name not in gpu_models:
            return f"has {gpu_name}, which gpu_models has not"
        if wrong := _flags(flags):
            return f"of {gpu_name} {wrong}"
    return None


def _variables(value: Any) -> str | None:
    if not isinstance(value, Mapping):
        return "must be a mapping of variable to value"
    for name, text in value.items():
        if not isinstance(name, str) or not re.fullmatch(_VARIABLE, name):
            return f"has {name!r}, which is not the name of a variable"
        if not isinstance(text, str) or "\n" in text:
            return f"has a value for {name} that is not text of one line (quote numbers)"
        if _SECRET_VARIABLE.search(name) or _SECRET_VALUE.search(text):
            return (
                f"has {name}, which looks like a secret; "
                "keys and tokens go into the role's own variables, which keep them in a file"
            )
    return None


def validate(name: str, recipe: Any) -> dict[str, Any]:
    """The recipe with every member present, defaults filled in.

    Raises:
        BadInput: an unknown or missing member, or a value that cannot be; names recipe and member.
    """
    members = {**recipe, "name": name} if isinstance(recipe, Mapping) else recipe
    full_recipe: dict[str, Any] = msgspec.to_builtins(typed(members, Recipe, f"vLLM recipe {name}"))
    return full_recipe


def _refused(recipe: Mapping[str, Any], problem: str) -> BadInput:
    return BadInput(f"vLLM recipe {recipe.get('name')}: {problem}")


def choose(recipes: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The recipe of that name, validated.

    Raises:
        BadInput: there is none (says which are near, or which there are), or it is wrong.
    """
    if name in recipes:
        return validate(name, recipes[name])
    hint = did_you_mean(str(name), recipes) or f"; there are {', '.join(sorted(recipes))}"
    raise BadInput(f"there is no vLLM recipe {name!r}{hint}")


# ---- whether it fits ------------------------------------------------------------------------


def gpu_word(recipe: Mapping[str, Any], model: str) -> str | None:
    """Which of the recipe's GPUs ``model`` is: ``NVIDIA H100 80GB HBM3`` is H100.

    GH200 is no H200.
    """
    for gpu_name in recipe["gpu_models"]:
        if re.search(rf"(?<![A-Za-z0-9]){re.escape(gpu_name)}(?![A-Za-z0-9])", model):
            return str(gpu_name)
    return None


def machine_of(node: Mapping[str, Any], nodes: int = 1) -> Machine:
    """The machine that the fact ``trueup_node`` describes, ``nodes`` times.

    The machine's facts go before the catalog's; a GPU without a driver shows neither name nor
    memory.
    """
    row = node.get("catalog") or {}
    gpus = node.get("gpus") or []
    nominal = row.get("gpu_memory_gib")
    names = [gpu.get("name") for gpu in gpus if gpu.get("name")]
    numa = node.get("numa") or []
    cpus, cores = node.get("cpus"), node.get("cores")
    return Machine(
        name=str(node.get("vm_size") or "this machine"),
        nodes=nodes,
        gpus=len(gpus) or int(row.get("gpus") or 0),
        gpu_memory_bytes=_least(gpus, None if nominal is None else int(float(nominal) * GIB)),
        gpu_model=str(names[0] if names else row.get("gpu_model") or ""),
        numa_memory_bytes=_numa_memory(node, row),
        numa_cpus=tuple(_cpus(numa_node.get("cpus")) for numa_node in numa),
        numa_nodes=tuple(
            int(numa_node.get("node", number)) for number, numa_node in enumerate(numa)
        ),
        smt=bool(cpus and cores and cpus != cores),
    )


def _numa_memory(node: Mapping[str, Any], row: Mapping[str, Any]) -> int | None:
    """Bytes of the smallest NUMA node; an equal share of all memory where they do not say."""
    numa = node.get("numa") or []
    nominal = None if row.get("memory_gib") is None else row["memory_gib"] * GIB
    total = node.get("memory_bytes") or nominal
    parts = len(numa) or int(row.get("numa_nodes") or 1)
    return _least(numa, None if total is None else int(total) // parts)


def _least(parts: Sequence[Mapping[str, Any]], nominal: int | None) -> int | None:
    """Bytes of the smallest part; ``nominal`` where they do not all say theirs."""
    memory_sizes: list[Any] = [device.get("memory_bytes") for device in parts]
    return int(min(memory_sizes)) if memory_sizes and all(memory_sizes) else nominal


def _cpus(text: Any) -> tuple[int, ...]:
    try:
        return tuple(parse_cpu_list(str(text or "")))
    except ParseError as error:
        raise BadInput(
            f"vLLM: the fact trueup_node has numa with the CPUs {text!r}: {error}"
        ) from error


def kv_bytes_per_token(facts: Mapping[str, Any]) -> int:
    """Bytes of KV cache that one token takes in one engine, all layers.

    With GQA keys and values of each KV head; with MLA the latent vector and the rotary part of the
    key, once for all heads.
    """
    if "kv_lora_rank" in facts:
        values = facts["kv_lora_rank"] + facts["qk_rope_head_dim"]
    else:
        values = 2 * facts["kv_heads"] * facts["head_dim"]
    return int(facts["layers"] * values * facts["kv_bytes"])


def sequence_bytes(facts: Mapping[str, Any], tokens: int) -> int:
    """Bytes of KV cache of one sequence. Layers with a sliding window hold no more."""
    each = kv_bytes_per_token(facts) // facts["layers"]
    sliding = facts.get("sliding_layers", 0)
    held = min(tokens, facts.get("sliding_window", tokens))
    return int(each * ((facts["layers"] - sliding) * tokens + sliding * held))


def fit(
    recipe: Mapping[str, Any],
    machine: Machine,
    *,
    sizes: Mapping[str, Mapping[str, Any]] | None = None,
    overrides: Mapping[str, Value] | None = None,
) -> Fit:
    """Whether the recipe's weights and KV cache fit the machine.

    Args:
        recipe: as ``validate`` returns it.
        machine: the machine to fit.
        sizes: the catalog's sizes, as ``sizes`` reads them, to name one that fits.
        overrides: further arguments of ``vllm serve``; the two that memory goes by count.

    Raises:
        BadInput: the recipe or an override is wrong.
    """
    recipe = _overridden(recipe, overrides or {})
    need = _need(recipe, machine)
    available = _available(recipe, machine, need.ranks)
    reasons = _unfit(recipe, machine, need, available)
    size, nodes = _smallest(recipe, sizes or {})
    more = None if not reasons else _more_nodes(recipe, machine)
    where = f"{recipe['name']} on {_counted(machine.nodes, 'node')} ({machine.name})"
    if reasons:
        mend = _would_do(size, nodes, more, machine, bool(sizes))
        reason = f"{where} does not fit: {'; '.join(reasons)}. {mend}."
    else:
        reason = f"{where} fits: {_figures(recipe, need, available)}."
    return Fit(
        fits=not reasons,
        reason=reason,
        devices=need.ranks,
        needed_bytes=need.total,
        available_bytes=available,
        weights_bytes=need.weights,
        kv_cache_bytes=need.kv_cache,
        buffers_bytes=need.buffers,
        workspace_bytes=need.workspace,
        model_bytes=_model_bytes(recipe["facts"]),
        smallest_size=size,
        smallest_nodes=nodes,
        more_nodes=more,
    )


class _Need(NamedTuple):
    """Bytes, over all ranks."""

    ranks: int
    weights: int
    kv_cache: int
    buffers: int
    workspace: int

    @property
    def total(self) -> int:
        return self.weights + self.kv_cache + self.buffers + self.workspace


def _overridden(recipe: Mapping[str, Any], overrides: Mapping[str, Value]) -> dict[str, Any]:
    wrong = _flags(overrides)
    if wrong:
        raise _refused(recipe, f"what is to override its arguments {wrong}")
    arguments = dict(recipe["arguments"])
    members = {}
    for flag, value in overrides.items():
        if flag in _MEMORY_FLAGS:
            members[_MEMORY_FLAGS[flag]] = _memory_value(recipe, flag, value)
        else:
            arguments[flag] = value
    # The user's arguments win over those of a GPU.
    by_gpu = {
        gpu_name: {flag: value for flag, value in flags.items() if flag not in overrides}
        for gpu_name, flags in recipe["arguments_by_gpu"].items()
    }
    changed = {**members, "arguments": arguments, "arguments_by_gpu": by_gpu}
    return validate(recipe["name"], {**recipe, **changed})


def _memory_value(recipe: Mapping[str, Any], flag: str, value: Value) -> Value:
    """The number, which may be given as text, as a template's result is."""
    member = _MEMORY_FLAGS[flag]
    if isinstance(value, str) and re.fullmatch(r"\d+(\.\d+)?", value):
        value = float(value) if "." in value else int(value)
    where = f"vLLM recipe {recipe['name']}: {flag}, which is to override its {member}"
    return typed(value, Positive if member == "max_model_len" else Share, where)


def _need(recipe: Mapping[str, Any], machine: Machine) -> _Need:
    facts, tensor = recipe["facts"], recipe["tensor_parallel"]
    ranks = machine.nodes * recipe["data_parallel_per_node"] * tensor
    width = facts["bytes_per_parameter"]
    experts = facts["expert_parameters"] * width
    rest = (facts["parameters"] - facts["expert_parameters"]) * width + facts["other_bytes"]
    each = experts / (ranks if recipe["expert_parallel"] else tensor) + rest / tensor
    if recipe["device"] == "cpu":
        cache = recipe["cpu"]["kv_cache_gib"] * GIB
    else:
        # Tensor parallel ranks share out the KV heads; MLA's one latent vector is on all of them.
        parts = min(tensor, facts.get("kv_heads", 1))
        cache = math.ceil(sequence_bytes(facts, recipe["max_model_len"]) / parts)
    workspace = math.ceil(recipe["workspace_gib"] * GIB)
    buffers = _deepep_buffers(recipe, machine)
    return _Need(ranks, math.ceil(each * ranks), cache * ranks, buffers * ranks, workspace * ranks)


def _deepep_buffers(recipe: Mapping[str, Any], machine: Machine) -> int:
    """Bytes that DeepEP keeps on each GPU: for NVLink, and for InfiniBand; none without DeepEP.

    With low latency both are there on one node too, the second for as many tokens as a batch may
    have: twice a message of each token and expert sent, and received, and a flag of each expert
    (DeepEP csrc/config.hpp, LowLatencyLayout; vLLM device_communicators/all2all.py).

    Raises:
        BadInput: facts or a number of tokens that it goes by are not there.
    """
    arguments = {**recipe["arguments"], **_of_gpu(recipe, machine)}
    backend = str(arguments.get("all2all-backend", ""))
    if backend not in {_LOW_LATENCY, _HIGH_THROUGHPUT}:
        return 0
    buffer_bytes = (
        _number_of(recipe, "VLLM_DEEPEP_BUFFER_SIZE_MB", recipe["environment"], 1024) * 1024**2
    )
    if backend == _HIGH_THROUGHPUT:
        return buffer_bytes * (2 if machine.nodes > 1 else 1)
    facts = recipe["facts"]
    if not {"hidden", "experts"} <= set(facts):
        raise _refused(
            recipe, f"{backend} needs facts.hidden and facts.experts, to size its buffer"
        )
    hidden, experts = facts["hidden"], facts["experts"]
    tokens = _number_of(recipe, "max-num-batched-tokens", arguments, _LOW_LATENCY_TOKENS)
    scales = hidden // 128
    dispatched = 16 + max(2 * hidden, hidden + 4 * scales)
    combined = 4 * scales + 2 * hidden
    sent = max(tokens * dispatched, experts * tokens * combined)
    received = experts * tokens * max(dispatched, combined)
    flags = math.ceil(4 * experts / 128) * 128
    return int(buffer_bytes + 2 * (sent + received + flags))


def _number_of(
    recipe: Mapping[str, Any], name: str, settings: Mapping[str, Any], usual: int
) -> int:
    """A whole number among ``settings``, which may be text."""
    value = settings.get(name, usual)
    if not re.fullmatch(r"[1-9][0-9]*", str(value)):
        raise _refused(recipe, f"{name} {value!r} must be a whole number, for DeepEP's buffers")
    return int(value)


def _of_gpu(recipe: Mapping[str, Any], machine: Machine | None) -> Mapping[str, Value]:
    """A recipe's arguments for this GPU alone."""
    gpu_name = None if machine is None else gpu_word(recipe, machine.gpu_model)
    arguments: Mapping[str, Value] = recipe["arguments_by_gpu"].get(gpu_name, {})
    return arguments


def _model_bytes(facts: Mapping[str, Any]) -> int:
    weights: float = facts["parameters"] * facts["bytes_per_parameter"] + facts["other_bytes"]
    return math.ceil(weights)


def _available(recipe: Mapping[str, Any], machine: Machine, ranks: int) -> int | None:
    share: float = recipe["memory_share"]
    if recipe["device"] == "cuda":
        memory = machine.gpu_memory_bytes
        return None if memory is None or machine.gpus == 0 else int(memory * share) * ranks
    if machine.numa_memory_bytes is None:
        return None
    # Each rank has a NUMA node of its own while there are enough; then they share them.
    local_ranks: int = recipe["data_parallel_per_node"] * recipe["tensor_parallel"]
    nodes = min(local_ranks, len(machine.numa_cpus) or 1)
    return int(machine.numa_memory_bytes * share) * nodes * machine.nodes


def _figures(recipe: Mapping[str, Any], need: _Need, available: int | None) -> str:
    device = "GPU" if recipe["device"] == "cuda" else "rank"
    share = f"{recipe['memory_share']:g} of what is there"
    buffers = f"DeepEP's buffers {_gib(need.buffers)}, " if need.buffers else ""
    available_text = "unknown" if available is None else f"{_gib(available)} ({share})"
    return (
        f"it needs {_gib(need.total)} on {_counted(need.ranks, device)} "
        f"(weights {_gib(need.weights)}, KV cache {_gib(need.kv_cache)}, "
        f"{buffers}workspace {_gib(need.workspace)}), available is {available_text}"
    )


def _unfit(
    recipe: Mapping[str, Any], machine: Machine, need: _Need, available: int | None
) -> list[str]:
    """Why it does not fit; the first is that of memory."""
    reasons = []
    if available is None or need.total > available:
        reasons.append(_figures(recipe, need, available))
    if recipe["device"] == "cuda":
        if machine.gpus < recipe["gpus"]:
            gpus = _counted(recipe["gpus"], "GPU")
            reasons.append(f"it needs {gpus} on a node, and {machine.gpus} are there")
        elif gpu_word(recipe, machine.gpu_model) is None:
            reasons.append(
                f"it is for {', '.join(recipe['gpu_models'])}, not {machine.gpu_model or 'unknown'}"
            )
    else:
        longest = sequence_bytes(recipe["facts"], recipe["max_model_len"])
        if longest > recipe["cpu"]["kv_cache_gib"] * GIB * recipe["tensor_parallel"]:
            reasons.append(
                f"one sequence of {recipe['max_model_len']} tokens takes {_gib(longest)}"
                f" of KV cache, more than cpu.kv_cache_gib, {recipe['cpu']['kv_cache_gib']} GiB"
            )
    return reasons


def _would_do(
    size: str | None,
    nodes: int | None,
    more: int | None,
    machine: Machine,
    has_catalog: bool,
) -> str:
    ways = []
    if size is not None and nodes is not None:
        ways.append(size if nodes == 1 else f"no single node, but {nodes} nodes of {size}")
    if more is not None and (size, nodes) != (machine.name, more):
        ways.append(f"{more} nodes of {machine.name}")
    if ways:
        return f"The smallest that would do: {', or '.join(ways)}"
    return (
        "No size of the catalog would do" if has_catalog else "No catalog was given to name a size"
    )


def _smallest(
    recipe: Mapping[str, Any], sizes: Mapping[str, Mapping[str, Any]]
) -> tuple[str | None, int | None]:
    """The smallest size that would do and how many: fewest GPUs x memory, then memory, then name.

    One node goes before several. Sizes that are no longer to be had are left out, as are those
    whose figures the catalog does not know and those whose GPUs roles refuse.
    """
    machines = []
    for size, row in sizes.items():
        status = str(row.get("status", ""))
        is_gone = status.startswith("retired") or status == UNDOCUMENTED
        is_refused = is_gone or lacks_driver(row) or lacks_cuda_13(row)
        machine = None if is_refused else _of_catalog(recipe, size, row)
        if machine is not None:
            weight = machine.gpus * (machine.gpu_memory_bytes or 0)
            machines.append((weight, row["memory_gib"], size, machine, row))
    machines.sort(key=lambda candidate: candidate[:3])
    for *_, size, machine, _row in machines:
        if _fits(recipe, machine):
            return size, 1
    clusters = [
        (nodes * weight, nodes * memory, size, nodes)
        for weight, memory, size, machine, row in machines
        if row.get("rdma_nics") and (nodes := _more_nodes(recipe, machine)) is not None
    ]
    return (min(clusters)[2], min(clusters)[3]) if clusters else (None, None)


def _of_catalog(recipe: Mapping[str, Any], size: str, row: Mapping[str, Any]) -> Machine | None:
    if recipe["device"] == "cuda":
        if not row.get("gpus") or row.get("gpu_memory_gib") is None:
            return None
        return Machine(
            name=size,
            gpus=row["gpus"],
            gpu_memory_bytes=int(row["gpu_memory_gib"] * GIB),
            gpu_model=str(row.get("gpu_model", "")),
        )
    # A rank gets one NUMA node: without their number there is nothing to go by.
    if row.get("gpus") or not row.get("numa_nodes") or row.get("architecture") != "x86_64":
        return None
    return Machine(
        name=size,
        numa_memory_bytes=int(row["memory_gib"] * GIB / row["numa_nodes"]),
        numa_cpus=((),) * row["numa_nodes"],
    )


def _fits(recipe: Mapping[str, Any], machine: Machine) -> bool:
    need = _need(recipe, machine)
    return not _unfit(recipe, machine, need, _available(recipe, machine, need.ranks))


def _more_nodes(recipe: Mapping[str, Any], machine: Machine) -> int | None:
    """How many nodes of this machine would do, where the experts are shared out over nodes."""
    if not recipe["expert_parallel"] or recipe["device"] != "cuda":
        return None
    for nodes in range(machine.nodes + 1, _MOST_NODES + 1):
        if _fits(recipe, replace(machine, nodes=nodes)):
            return nodes
    return None


def _gib(value: int) -> str:
    return f"{value / GIB:.1f} GiB"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")


# ---- the command ----------------------------------------------------------------------------


def serve(
    recipe: Mapping[str, Any],
    *,
    port: int,
    host: str = "127.0.0.1",
    model_path: str | None = None,
    rank: int = 0,
    nodes: Sequence[str] = (),
    machine: Machine | None = None,
    overrides: Mapping[str, Value] | None = None,
    tcmalloc: str | None = None,
    first_gpu: int = 0,
    first_numa: int = 0,
) -> Served:
    """The command of node ``rank``.

    Args:
        recipe: as ``validate`` returns it.
        port: of the endpoint, on the head node.
        host: the address that the head node listens on.
        model_path: a folder with the model, instead of fetching it; the model keeps its name.
        rank: of this node in ``nodes``; 0 is the head node, which has the endpoint.
        nodes: the nodes' addresses, in order; empty for one node.
        machine: this node, for arguments that depend on the GPU and for the CPUs to bind to.
        overrides: further arguments, a flag's name to its value; they replace those of the recipe.
        tcmalloc: path of libtcmalloc on the node, to preload on a CPU.
        first_gpu: how many of the node's GPUs other servers have; this one takes the next.
        first_numa: the same, of its NUMA nodes with CPUs, where threads are bound to those.

    Raises:
        BadInput: a rank that is not there, an override that is not allowed, an address twice, or
            fewer GPUs or NUMA nodes left than are asked for.
    """
    recipe = _overridden(recipe, overrides or {})
    addresses = list(nodes) or ["127.0.0.1"]
    if not 0 <= rank < len(addresses):
        raise _refused(recipe, f"there is no node {rank} of {len(addresses)}")
    if len(set(addresses)) != len(addresses) or not all(addresses):
        raise _refused(recipe, "an address of a node is empty or stands twice")
    flags: dict[str, Value] = {}
    if model_path:
        flags["served-model-name"] = recipe["model"]
    elif recipe["revision"]:
        flags["revision"] = recipe["revision"]
    if rank == 0:
        flags["host"] = host
    flags["port"] = port
    flags.update(_parallel(recipe, rank, addresses))
    flags.update(_chosen(recipe, machine))
    argv = ["serve", model_path or recipe["model"]]
    for flag, value in flags.items():
        argv += _words(flag, value)
    environment = {
        # Which of a node's addresses the others are to use.
        **({"VLLM_HOST_IP": addresses[rank]} if len(addresses) > 1 else {}),
        **_devices_of(recipe, machine, first_gpu, first_numa),
        **({"LD_PRELOAD": tcmalloc} if tcmalloc and recipe["device"] == "cpu" else {}),
        # The recipe's own win.
        **recipe["environment"],
    }
    return Served(argv, environment)


def _chosen(recipe: Mapping[str, Any], machine: Machine | None) -> dict[str, Value]:
    """The arguments that set the memory, and the recipe's arguments."""
    memory = {"max-model-len": recipe["max_model_len"]}
    if recipe["device"] == "cuda":
        memory["gpu-memory-utilization"] = recipe["memory_share"]
    chosen = {**recipe["arguments"], **_of_gpu(recipe, machine)}
    return {**memory, **{flag: chosen[flag] for flag in chosen if flag not in _MEMORY_FLAGS}}


def _parallel(recipe: Mapping[str, Any], rank: int, addresses: Sequence[str]) -> dict[str, Value]:
    ranks_per_node, nodes = recipe["data_parallel_per_node"], len(addresses)
    flags: dict[str, Value] = {"tensor-parallel-size": recipe["tensor_parallel"]}
    if recipe["expert_parallel"]:
        flags["enable-expert-parallel"] = True
    if ranks_per_node * nodes > 1:
        flags["data-parallel-size"] = ranks_per_node * nodes
    if nodes > 1:
        flags["data-parallel-size-local"] = ranks_per_node
        if rank:
            flags["data-parallel-start-rank"] = rank * ranks_per_node
        flags["data-parallel-address"] = addresses[0]
        flags["data-parallel-rpc-port"] = recipe["rpc_port"]
        if rank:
            flags["headless"] = True
        else:
            flags.update(recipe["head_arguments"])
    return flags


def _words(flag: str, value: Value) -> list[str]:
    if isinstance(value, bool):
        return [f"--{flag}" if value else f"--no-{flag}"]
    return [f"--{flag}", f"{value:g}" if isinstance(value, float) else str(value)]


def _devices_of(
    recipe: Mapping[str, Any], machine: Machine | None, first_gpu: int, first_numa: int
) -> dict[str, str]:
    """The variables that say which GPUs, or which CPUs, are this server's."""
    if recipe["device"] == "cuda":
        return _visible_gpus(recipe, machine, first_gpu)
    environment = {"VLLM_CPU_KVCACHE_SPACE": str(recipe["cpu"]["kv_cache_gib"])}
    binding = _binding(recipe, machine, first_numa)
    environment["VLLM_CPU_OMP_THREADS_BIND"] = binding
    if binding == "auto" and machine is not None and first_numa:
        # The NUMA nodes among which vLLM then chooses.
        mine = _numa_left(recipe, machine, first_numa)
        environment["CPU_VISIBLE_MEMORY_NODES"] = ",".join(str(number) for number, _ in mine)
    return environment


def _visible_gpus(recipe: Mapping[str, Any], machine: Machine | None, first: int) -> dict[str, str]:
    gpus: int = recipe["gpus"]
    if machine is not None and first + gpus > machine.gpus:
        other_servers = f", of which other servers have {first}" if first else ""
        requested = _counted(gpus, "GPU")
        raise _refused(recipe, f"{requested} asked for on a node of {machine.gpus}{other_servers}")
    if not first and (machine is None or machine.gpus == gpus):
        return {}
    return {"CUDA_VISIBLE_DEVICES": ",".join(str(gpu) for gpu in range(first, first + gpus))}


def _numa_left(
    recipe: Mapping[str, Any], machine: Machine, first: int
) -> list[tuple[int, tuple[int, ...]]]:
    """Number and CPUs of the NUMA nodes for the ranks of a server that is not the first."""
    with_cpus = [
        numa_node for numa_node in zip(machine.numa_nodes, machine.numa_cpus) if numa_node[1]
    ]
    ranks = recipe["data_parallel_per_node"] * recipe["tensor_parallel"]
    if first + ranks > len(with_cpus):
        raise _refused(
            recipe,
            f"{_counted(ranks, 'rank')} to be bound to a NUMA node each, on a node of"
            f" {len(with_cpus)}, of which other servers have {first}: set cpu.bind to none in the"
            " recipes to let them share CPUs",
        )
    return with_cpus[first : first + ranks]


def _binding(recipe: Mapping[str, Any], machine: Machine | None, first: int) -> str:
    """The CPUs of each rank on this node, ranks separated by ``|``; no CPU twice.

    A rank gets the CPUs of one NUMA node, since vLLM takes its memory from one alone, and leaves
    the last of them to the scheduler. With more ranks than NUMA nodes they share out all CPUs,
    where no other server has some.
    Where a core shows as two CPUs or NUMA nodes are not shown, vLLM chooses (``auto``): one CPU of
    each core, which siblings the fact does not say.
    """
    if recipe["cpu"]["bind"] == "none":
        return "nobind"
    if machine is None or machine.smt or not any(machine.numa_cpus):
        return "auto"
    ranks = recipe["data_parallel_per_node"] * recipe["tensor_parallel"]
    groups = [cpus for cpus in machine.numa_cpus if cpus]
    if first:
        groups = [cpus for _, cpus in _numa_left(recipe, machine, first)]
    if ranks > len(groups):
        groups = _shared_out(recipe, groups, ranks)
    return "|".join(
        format_cpu_list(cpus[:-1] if len(cpus) > 1 else cpus) for cpus in groups[:ranks]
    )


def _shared_out(
    recipe: Mapping[str, Any], groups: Sequence[tuple[int, ...]], ranks: int
) -> list[tuple[int, ...]]:
    """All CPUs in as many parts as there are ranks."""
    every = sorted(cpu for cpus in groups for cpu in cpus)
    if ranks > len(every):
        raise _refused(
            recipe, f"{ranks} ranks on a node of {len(every)} CPUs; each needs one of its own"
        )
    step = len(every) // ranks
    return [tuple(every[step * rank : step * (rank + 1)]) for rank in range(ranks)]
