"""A server's benchmark as a case: options, profiles as data, the server's state, prompts, command,
and whether a run counts."""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import json
import os
import random
import re
import socket
import urllib.parse
import urllib.request
from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ... import bounded_http
from ...errors import BadInput
from ...options import ModuleOption, Option, RoleOption, time_limit
from ...record import Metric
from .output import VllmOutput
from .table import first_error

_PROMPTS = "prompts.jsonl"
_ANSWER_SECONDS = 60.0
# The repository of data that Hugging Face's inference-benchmarker downloads (src/profiles.rs).
_BENCHMARKER = "hlarcher/inference-benchmarker"
DOWNLOAD_SECONDS = 900
_STATED = re.compile(r"^trueup-vllm: (.+)$", re.MULTILINE)
_RAISED = re.compile(r"^\w*(?:Error|Exception): .+$", re.MULTILINE)
_SHA256 = re.compile(r"[0-9a-f]{64}")
_GOODPUT = ("ttft", "tpot", "e2el")
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))

OPTIONS = (
    RoleOption(
        "endpoints",
        "What this node serves, each with name (of the service, trueup-vllm-<name>: letters,"
        " digits, dashes), recipe (of catalog/vllm_recipes.yml or vllm_recipes), and if wanted"
        " port (8000), host (address that it listens on, 127.0.0.1; another one makes"
        " vllm_api_key necessary), model (folder on the node, instead of the download of the"
        " recipe's), nodes (hosts of the inventory that serve it together, the one with the API"
        " first), addresses (private ones of these nodes, as numbers; ansible_host of each) and"
        " arguments (more of vllm serve, such as {max-model-len: 8192}). Empty: vLLM is skipped"
        " by name.",
        [],
        elements="dict",
    ),
    RoleOption(
        "recipes",
        "Recipes of your own, in the form of catalog/vllm_recipes.yml; one of the same name takes"
        " the catalog's place.",
        {},
    ),
    RoleOption(
        "prefix",
        "Folder for the virtual environment and the sources of kernels: 2.5 GiB for the CPU build,"
        " about 12 GiB for CUDA.",
        "/opt/trueup/vllm",
        type="path",
    ),
    ModuleOption(
        "prefix",
        "Folder into which the role vllm installed vLLM (C(venv)) and the driver.",
        type="path",
        required=True,
    ),
    RoleOption(
        "python",
        "Python that the environment is made with. Where python3 is another, one beside it is"
        " taken, or installed (role python); a named one is kept.",
        "python3",
        why="The CPU build's pins are for Python 3.11, CUDA's for 3.12.",
    ),
    RoleOption(
        "pip_find_links",
        "Folder or page with the wheels, for sites without internet and for torch's CPU build,"
        " which is not on PyPI.",
        "",
    ),
    RoleOption("pip_no_index", "Install from vllm_pip_find_links alone.", False),
    RoleOption(
        "kernel_mirror",
        "Where kernels are cloned from instead of their recipe's addresses, such as {deepep:"
        " https://mirror/DeepEP.git}.",
        {},
    ),
    RoleOption(
        "reboot_allowed",
        "Whether a kernel that wants a reboot (DeepEP's driver setting) may have it.",
        False,
    ),
    RoleOption("user", "User that serves; made without a shell.", "trueup-vllm"),
    RoleOption(
        "model_cache",
        "Folder for models; empty: on the local NVMe scratch of nodes that get one (role"
        " nvme_scratch), else /var/lib/trueup-vllm. Scratch is lost when the VM is deallocated: the"
        " model is downloaded again then. On a file system that nodes share it is downloaded once,"
        " where vllm_user has one number on all of them.",
        "",
    ),
    RoleOption(
        "downloads_allowed",
        "Whether models and the data of profiles may be downloaded from Hugging Face. Off: every"
        " endpoint must give its model as a folder, and vllm_datasets each profile's file.",
        True,
    ),
    Option(
        "hub",
        "Address of a mirror of Hugging Face, with its API, for models and profiles' data; empty:"
        " Hugging Face itself.",
        "",
    ),
    RoleOption(
        "hf_token",
        "Hugging Face token, for models behind a licence, from a vault or the controller's"
        " environment.",
        "",
        why="Put into a file of its reader's alone, never into a unit or an argv.",
        secret=True,
        variable="HF_TOKEN",
    ),
    RoleOption(
        "api_key",
        "Key that clients of the API must show, from a vault or the controller's environment;"
        " empty: no key is asked for, which only a server that listens on 127.0.0.1 may do.",
        "",
        why="Put into a file of its reader's alone, never into a unit or an argv.",
        secret=True,
        variable="VLLM_API_KEY",
    ),
    ModuleOption(
        "api_key",
        "The server's API key; it is in no record, command line or output.",
        "",
        secret=True,
    ),
    RoleOption(
        "ready_seconds",
        "Seconds until a started server must answer.",
        1800,
        why="DeepSeek R1's 640 GiB take minutes to load from NVMe.",
        least=1,
    ),
    RoleOption(
        "restart_seconds",
        "Seconds between the end of a server that failed and its next start; after 5 starts in 10"
        " minutes systemd gives up.",
        5,
    ),
    RoleOption(
        "profiles",
        "Load profiles to measure each endpoint with (docs/benchmarks/vllm.md).",
        ["random"],
        choices=("random", "chat", "classification", "code_generation", "aime"),
    ),
    RoleOption(
        "datasets",
        "Dataset files on the node, by profile, such as {chat: /data/share_gpt_turns.json}. Without"
        " one a profile's own file is downloaded when it is measured.",
        {},
    ),
    ModuleOption("base_url", "The server's address, without a path.", "http://127.0.0.1:8000"),
    ModuleOption(
        "model",
        "The model as the server was given it, a name on Hugging Face or a folder.",
        required=True,
    ),
    ModuleOption("served_model_name", "The model's name in the API; empty means O(model).", ""),
    ModuleOption(
        "tokenizer", "Name or folder of the tokenizer on this node; empty means O(model).", ""
    ),
    ModuleOption(
        "recipe",
        "The recipe that the server runs; recorded, and part of the case's name where"
        " O(endpoint_name) is empty.",
        "",
    ),
    ModuleOption(
        "endpoint_name", "The endpoint's name; recorded, and part of the case's name.", ""
    ),
    ModuleOption(
        "server_arguments",
        "The arguments that the server was started with, a flag's name to its value. They are"
        " recorded, as one parameter (JSON), and records that differ in them are no repeats.",
        {},
    ),
    ModuleOption(
        "profile",
        "C(random) makes its prompts and needs no file. C(chat), C(classification) and"
        " C(code_generation) draw them from the inference benchmarker's files, C(aime) from the"
        " AIME validation set. C(custom) sends the prompts of a file of yours.",
        "random",
        choices=("random", "chat", "classification", "code_generation", "aime", "custom"),
    ),
    ModuleOption("dataset_path", "The profile's file on this node; of C(aime) a folder.", ""),
    ModuleOption(
        "dataset_sha256",
        "What O(dataset_path) must have; of a folder, the sha256 of what C(sha256sum) prints of its"
        " files in order of their names. Empty checks nothing. The record holds it in any case.",
        "",
    ),
    ModuleOption(
        "downloads_allowed",
        "Whether Hugging Face may be asked for the tokenizer and the profile's data.",
        False,
    ),
    ModuleOption(
        "hf_home", "Hugging Face's folder on this node (C(HF_HOME)); empty leaves it alone.", ""
    ),
    Option("num_prompts", "Requests of a case; 0 means the profile's own number.", 0),
    ModuleOption(
        "request_rate",
        "Requests a second, with exponential gaps; 0 means the profile's own rate, which is all at"
        " once except for aime.",
        0.0,
    ),
    RoleOption(
        "request_rates",
        "Requests a second to sweep, such as [1, 2, 4, 8]: a load each, measured"
        " three times with other prompts. At least ten seconds of requests are sent.",
        [],
        elements="float",
        least=0.001,
    ),
    RoleOption(
        "concurrencies",
        "Requests in flight to sweep, such as [1, 2, 4, 8]: a load each,"
        " measured three times with other prompts, of at least five times as many requests.",
        [],
        elements="int",
        least=1,
    ),
    ModuleOption(
        "warmup_requests",
        "Requests before those that count, with one and the same prompt; 0 means none, and in a"
        " sweep 8.",
        0,
    ),
    ModuleOption("ramp_up_start", "Requests a second at the start of a linear ramp.", 0),
    ModuleOption(
        "ramp_up_end",
        "Requests a second at its end; 0 means the profile's own ramp, if it has one.",
        0,
    ),
    ModuleOption(
        "max_concurrency",
        "Most requests at the same time; 0 means the profile's own: 128 for chat, classification"
        " and code_generation, else no limit.",
        0,
    ),
    ModuleOption(
        "endpoint",
        "The API that is asked. C(profile) is chat completions for those of the inference"
        " benchmarker, and completions for the others.",
        "profile",
        choices=("profile", "completions", "chat"),
    ),
    Option(
        "random_input_tokens",
        "Tokens of each prompt of the profile random, give or take one or two.",
        1024,
        least=1,
    ),
    Option(
        "random_output_tokens", "Tokens that are generated for each of these prompts.", 128, least=1
    ),
    ModuleOption("seed", "Seed of prompts, lengths and gaps.", 42),
    Option(
        "goodput_ms",
        "Latencies in milliseconds that a good request stays within, of C(ttft), C(tpot), C(e2el)."
        " With them the record has the metric C(request_goodput).",
        {},
    ),
    ModuleOption(
        "failed_share_allowed",
        "Share of the requests that may fail before the record is invalid. Failed requests are"
        " always shown.",
        0.0,
        most=0.99,
    ),
    Option(
        "sample_seconds",
        "Seconds between two readings of the server's metrics.",
        2.0,
        why="A run of a few seconds wants a shorter one to be seen at work.",
        least=0.1,
        most=60,
    ),
    ModuleOption("gpus", "GPUs that the server uses, on all its nodes; 0 is a server on CPUs.", 0),
    ModuleOption(
        "tensor_parallel", "The server's tensor-parallel size; recorded only.", 1, least=1
    ),
    ModuleOption(
        "data_parallel",
        "The server's data-parallel size. That many engines are asked before the run.",
        1,
        least=1,
    ),
    ModuleOption(
        "nodes",
        "Host names of the server's nodes, the first one this one; empty means this node alone.",
        [],
    ),
    time_limit(3600),
)

# The module's options of the load, and their defaults, where 0 is the profile's own.
_SENT = (
    *("num_prompts", "request_rate", "ramp_up_start", "ramp_up_end", "max_concurrency"),
    *("random_input_tokens", "random_output_tokens", "seed", "dataset_path", "dataset_sha256"),
    *("goodput_ms", "failed_share_allowed", "warmup_requests"),
)
LOAD: Dict[str, Any] = {option.name: option.default for option in OPTIONS if option.name in _SENT}


class Lengths(NamedTuple):
    """Tokens, drawn from a normal distribution and clipped."""

    middle: int
    deviation: int
    shortest: int
    longest: int

    def draw(self, source: random.Random) -> int:
        drawn = int(source.gauss(self.middle, self.deviation))
        return min(max(drawn, self.shortest), self.longest)


class Profile(NamedTuple):
    """The load for the server.

    Attributes:
        data: where prompts come from: random (vLLM makes them), conversations (a file of the
            inference benchmarker, from which prompts are written), problems (vLLM's own reader of
            the AIME set), prompts (the user's file).
        file: the file that the user must have, by name.
        source: where that comes from.
        inputs, outputs: lengths, where the profile sets them.
        num_prompts, max_concurrency, ramp: settings that a user may change; 0 or None is without.
        cpu_num_prompts, cpu_ramp: on a server without GPUs, where they differ.
        endpoint: completions or chat.
    """

    data: str
    file: str = ""
    source: str = ""
    inputs: Optional[Lengths] = None
    outputs: Optional[Lengths] = None
    num_prompts: int = 400
    max_concurrency: int = 0
    ramp: Optional[Tuple[int, int]] = None
    cpu_num_prompts: int = 0
    cpu_ramp: Optional[Tuple[int, int]] = None
    endpoint: str = "completions"

    @property
    def downloaded(self) -> bool:
        """Whether the data can come from Hugging Face."""
        return self.data in ("conversations", "problems")


def _conversations(file: str, outputs: Lengths, inputs: Optional[Lengths] = None) -> Profile:
    """A profile of Hugging Face's inference-benchmarker (src/profiles.rs): at most 128 users, chat
    completions, temperature 0."""
    return Profile(
        "conversations",
        file,
        f"https://huggingface.co/datasets/{_BENCHMARKER}/resolve/main/{file}",
        inputs=inputs,
        outputs=outputs,
        max_concurrency=128,
        endpoint="chat",
    )


# Source of the loads: the Azure HPC blog's "Inference performance of Llama 3.1 8B using vLLM across
# various GPUs and CPUs" (its table gives shortest, longest and "variance", which the benchmarker
# takes as a standard deviation; the middles are those of its profiles), and its DeepSeek R1 article
# for the AIME set. That set has 90 problems: 400 prompts repeat each of them four times or more.
PROFILES: Dict[str, Profile] = {
    "random": Profile("random", num_prompts=100),
    "chat": _conversations("share_gpt_turns.json", Lengths(800, 100, 50, 800)),
    "classification": _conversations(
        "classification.json",
        Lengths(50, 10, 30, 80),
        Lengths(10000, 5000, 8000, 12000),
    ),
    "code_generation": _conversations(
        "github_code.json", Lengths(50, 10, 30, 80), Lengths(4096, 1000, 3000, 6000)
    ),
    "aime": Profile(
        "problems",
        "AI-MO/aimo-validation-aime",
        "https://huggingface.co/datasets/AI-MO/aimo-validation-aime",
        ramp=(1, 10),
        cpu_num_prompts=200,
        cpu_ramp=(1, 2),
    ),
    "custom": Profile("prompts", "a .jsonl file of objects with prompt and output_tokens", "you"),
}


@dataclass(frozen=True)
class Settings:
    """A profile with the user's numbers in it; request_rate 0 sends all requests at once."""

    profile: str
    base_url: str
    model: str
    tokenizer: str
    dataset_path: str
    dataset_sha256: str
    downloads_allowed: bool
    num_prompts: int
    warmup_requests: int
    request_rate: float
    ramp: Optional[Tuple[int, int]]
    max_concurrency: int
    endpoint: str
    random_input_tokens: int
    random_output_tokens: int
    seed: int
    goodput_ms: Mapping[str, float]
    failed_share_allowed: float
    sample_seconds: float

    @property
    def data(self) -> Profile:
        return PROFILES[self.profile]

    @property
    def pace(self) -> str:
        """How requests come, for the case's name."""
        if self.ramp:
            return f"ramp{self.ramp[0]}to{self.ramp[1]}"
        return f"rate{self.request_rate:g}" if self.request_rate else "rateinf"


def settings(parameters: Mapping[str, Any]) -> Settings:
    """The profile with the user's numbers; 0 means the profile's own.

    Args:
        parameters: the module's parameters, each in its range.

    Raises:
        BadInput: naming the parameter that is wrong.
    """
    profile = PROFILES[parameters["profile"]]
    model = parameters["served_model_name"] or parameters["model"]
    if not model:
        raise BadInput("model is empty: set it to what the server serves")
    cpu = not parameters["gpus"]
    return Settings(
        profile=parameters["profile"],
        base_url=_base_url(parameters["base_url"]),
        model=model,
        tokenizer=parameters["tokenizer"] or parameters["model"] or model,
        dataset_path=_dataset_path(profile, parameters),
        dataset_sha256=_sha256(parameters["dataset_sha256"]),
        downloads_allowed=parameters["downloads_allowed"],
        num_prompts=prompts_of(profile, parameters["num_prompts"], cpu=cpu),
        warmup_requests=parameters["warmup_requests"],
        request_rate=_rate(parameters["request_rate"]),
        ramp=_ramp(parameters, profile.cpu_ramp if cpu and profile.cpu_ramp else profile.ramp),
        max_concurrency=parameters["max_concurrency"] or profile.max_concurrency,
        endpoint=profile.endpoint
        if parameters["endpoint"] == "profile"
        else parameters["endpoint"],
        random_input_tokens=parameters["random_input_tokens"],
        random_output_tokens=parameters["random_output_tokens"],
        seed=parameters["seed"],
        goodput_ms=_goodput(parameters["goodput_ms"]),
        failed_share_allowed=parameters["failed_share_allowed"],
        sample_seconds=parameters["sample_seconds"],
    )


def prompts_of(profile: Profile, num_prompts: int, *, cpu: bool) -> int:
    """The number of requests of a case; ``num_prompts`` 0 means the profile's own."""
    return num_prompts or (profile.cpu_num_prompts if cpu else 0) or profile.num_prompts


def _base_url(text: str) -> str:
    wrong = BadInput(f"base_url {text!r} is not an address such as http://127.0.0.1:8000")
    try:
        parts = urllib.parse.urlsplit(text)
        port = parts.port
    except ValueError:  # an open bracket; a port that is none
        raise wrong from None
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or port == 0:
        raise wrong
    if parts.username or parts.password:
        raise BadInput("base_url holds a user or password: give the key as api_key")
    return text.rstrip("/")


def _dataset_path(profile: Profile, parameters: Mapping[str, Any]) -> str:
    # Not of Ansible's type path: the record has the path as the user wrote it.
    path = os.path.expandvars(os.path.expanduser(str(parameters["dataset_path"] or "")))
    if profile.data == "random":
        if path:
            raise BadInput(f"profile random takes no dataset_path, and has {path}")
        return ""
    if path:
        if profile.data == "prompts" and not path.endswith(".jsonl"):
            raise BadInput(f"dataset_path {path} does not end in .jsonl, as vLLM wants it")
        return path
    if profile.downloaded and parameters["downloads_allowed"]:
        return ""
    raise BadInput(
        f"profile {parameters['profile']} needs {profile.file} on the node (from"
        f" {profile.source}): set dataset_path"
    )


def _sha256(text: str) -> str:
    if text and not _SHA256.fullmatch(text):
        raise BadInput(f"dataset_sha256 {text!r} is not 64 lower-case hex digits")
    return text


def _rate(rate: float) -> float:
    if not 0 <= rate < float("inf"):
        raise BadInput(f"request_rate {rate:g} is not a rate; 0 sends all requests at once")
    return float(rate)


def _ramp(
    parameters: Mapping[str, Any], profile_ramp: Optional[Tuple[int, int]]
) -> Optional[Tuple[int, int]]:
    start, end = parameters["ramp_up_start"], parameters["ramp_up_end"]
    if not end:
        if start:
            raise BadInput(f"ramp_up_start {start} stands without ramp_up_end")
        return None if parameters["request_rate"] else profile_ramp
    if parameters["request_rate"]:
        raise BadInput(
            f"request_rate {parameters['request_rate']:g} and ramp_up_end {end} exclude each other"
        )
    if start > end:
        raise BadInput(f"ramp_up_start {start} is above ramp_up_end {end}")
    return start, end


def _goodput(limits_ms: Mapping[str, Any]) -> Dict[str, float]:
    limits = {}
    for name in sorted(limits_ms):
        if name not in _GOODPUT:
            raise BadInput(f"goodput_ms {name!r} is unknown; there are: {', '.join(_GOODPUT)}")
        try:
            limits[name] = float(limits_ms[name])
        except (TypeError, ValueError):
            raise BadInput(f"goodput_ms {name} {limits_ms[name]!r} is not a number") from None
        if not 0 < limits[name] < float("inf"):
            raise BadInput(f"goodput_ms {name} {limits_ms[name]!r} is not a positive number")
    return limits


def asked_text(options: Mapping[str, Any]) -> str:
    """The requested settings, before the profile's own numbers: equal texts for equal options.

    Args:
        options: those of LOAD; numbers may be text, as Ansible's variables are, and a missing one
            has its default. Others are passed over.

    Raises:
        BadInput: a value is of another kind than the option's.
    """
    load = {name: _like(name, options.get(name, usual), usual) for name, usual in LOAD.items()}
    return _sorted_json("what is asked", load)


def arguments_text(arguments: Mapping[str, Any]) -> str:
    """A server's arguments: equal texts for arguments that ``vllm serve`` takes as equal.

    Raises:
        BadInput: a value that JSON cannot hold.
    """
    return _sorted_json(
        "server_arguments", {str(name): _plain(value) for name, value in arguments.items()}
    )


def _like(name: str, value: Any, usual: Any) -> Any:
    try:
        if isinstance(usual, dict):
            return {str(key): float(limit) for key, limit in (value or {}).items()}
        if isinstance(usual, float):
            return float(value)
        return int(value) if isinstance(usual, int) else str(value or "")
    except (TypeError, ValueError, AttributeError, OverflowError):
        kind = {dict: "mapping of numbers", float: "number", int: "whole number", str: "text"}
        raise BadInput(f"{name} {value!r} is no {kind[type(usual)]}") from None


def _plain(value: Any) -> Any:
    """A number or a switch that is given as text, as a number or a boolean."""
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    if isinstance(value, (str, float)):
        with contextlib.suppress(ValueError, OverflowError):
            number = float(value)
            return int(number) if number == int(number) else number
    return value


def _sorted_json(label: str, value: Mapping[str, Any]) -> str:
    try:
        return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise BadInput(f"{label} cannot be written as JSON: {error}") from None


# --- the server ----------------------------------------------------------------------------------


class Endpoint:
    """The server that is measured, asked before anything runs.

    Args:
        base_url: without a path.
        key: its API key, or empty.
    """

    def __init__(self, base_url: str, key: str) -> None:
        self._base_url, self._key = base_url, key

    def require(self, model: str, *, endpoint: str = "completions", requests: int = 1) -> int:
        """That the server is well, takes the key, serves the model and answers; the longest request
        in tokens that it takes, 0 where it does not say.

        Args:
            model: by the name that the server gives it.
            endpoint: completions or chat.
            requests: how many are sent, so that each of several engines gets some.

        Raises:
            BadInput: one sentence with the error and the mend.
        """
        self._ask("/health")
        listed = self._of(self._ask("/v1/models"), "data", list)
        models = {str(item.get("id")): item for item in listed if isinstance(item, dict)}
        if model not in models:
            raise BadInput(
                f"the server at {self._base_url} serves {', '.join(sorted(models)) or 'nothing'} "
                f"and not {model}: set served_model_name"
            )
        request_body: Dict[str, Any] = {"model": model, "max_tokens": 1, "temperature": 0}
        path = "/v1/completions"
        if endpoint == "chat":
            path = "/v1/chat/completions"
            request_body["messages"] = [{"role": "user", "content": "ready?"}]
        else:
            request_body["prompt"] = "ready?"
        for _ in range(requests):
            # /health stays well while an engine on another node is lost.
            self._ask(path, request_body)
        longest = models[model].get("max_model_len")
        return longest if isinstance(longest, int) else 0

    def tokens(self, model: str, text: str) -> List[int]:
        """The server's tokens of a text."""
        body = {"model": model, "prompt": text, "add_special_tokens": False}
        return list(self._of(self._ask("/tokenize", body), "tokens", list))

    def text(self, model: str, tokens: Sequence[int]) -> str:
        """The text of the server's tokens."""
        body = {"model": model, "tokens": list(tokens)}
        return str(self._of(self._ask("/detokenize", body), "prompt", str))

    def _ask(self, path: str, body: Optional[Mapping[str, Any]] = None) -> str:
        request = urllib.request.Request(  # noqa: S310 WHY: _base_url allows http and https only
            self._base_url + path,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        if self._key:
            request.add_header("Authorization", f"Bearer {self._key}")
        try:
            # The server is measured: never a proxy.
            reply = bounded_http.ask(
                lambda: _OPENER.open(request, timeout=_ANSWER_SECONDS), _ANSWER_SECONDS
            )
        except bounded_http.TooLarge as error:
            raise BadInput(f"{self._base_url} answers {path} with {error}: set base_url") from None
        except (
            http.client.RemoteDisconnected,
            http.client.IncompleteRead,
            bounded_http.Truncated,
        ):
            raise BadInput(self._gone("it closed the connection before an answer")) from None
        except http.client.HTTPException:
            raise BadInput(
                f"what answers at {self._base_url} does not speak HTTP: set base_url"
            ) from None
        except (OSError, ValueError) as error:
            reason = getattr(error, "reason", None) or error
            if isinstance(reason, (socket.timeout, TimeoutError, bounded_http.Overdue)):
                raise BadInput(self._silent(path)) from None
            cause = getattr(reason, "strerror", None) or reason
            raise BadInput(self._gone(cause)) from None
        if not 200 <= reply.status < 300:
            raise BadInput(self._refusal(path, reply))
        return reply.body.decode("utf-8", "replace")

    def _gone(self, reason: Any) -> str:
        return f"no server answers at {self._base_url} ({reason}): start it, or set base_url"

    def _silent(self, path: str) -> str:
        return (
            f"the server at {self._base_url} did not answer {path} within {_ANSWER_SECONDS:g} s: "
            "see its log; of a server on several nodes, a node may be lost"
        )

    def _refusal(self, path: str, reply: bounded_http.Reply) -> str:
        if reply.status == 401:
            if self._key:
                return (
                    f"the server at {self._base_url} refuses the API key (HTTP 401): set api_key "
                    "to the one that it was started with"
                )
            return f"the server at {self._base_url} wants an API key (HTTP 401): set api_key"
        message = ""
        with contextlib.suppress(bounded_http.NotJson, AttributeError):
            response = bounded_http.parse_json(reply.body)
            message = str((response.get("error") or response).get("message") or "")[:200]
        detail = f": {message}" if message else ""
        if path == "/health":
            return f"the server at {self._base_url} is not well (HTTP {reply.status}{detail})"
        return f"the server at {self._base_url} answers {path} with HTTP {reply.status}{detail}"

    def _of(self, text: str, member: str, kind: type) -> Any:
        """A member of an answer, which must be of that kind."""
        try:
            response = bounded_http.parse_json(text)
        except bounded_http.NotJson:
            response = None
        member_value = response.get(member) if isinstance(response, dict) else None
        if not isinstance(member_value, kind):
            raise BadInput(f"what answers at {self._base_url} is no vLLM server: set base_url")
        return member_value


_REFUSED = re.compile(r"^Error: (.+)$", re.MULTILINE)


def download_error(text: str) -> str:
    """The reason that the command hf prints; empty where it prints none."""
    reasons = _REFUSED.findall(text)
    return str(reasons[-1])[:300].rstrip(".") if reasons else ""


# --- data ----------------------------------------------------------------------------------------


def fingerprint(path: str) -> str:
    """The sha256 of a file; of a folder, that of ``sha256sum``'s output for its files in order.

    Raises:
        BadInput: it cannot be read.
    """
    try:
        if not os.path.isdir(path):
            return _file_sha256(path)
        names = sorted(
            os.path.relpath(os.path.join(folder, name), path)
            for folder, _, names in os.walk(path)
            for name in names
        )
        lines = [f"{_file_sha256(os.path.join(path, name))}  {name}\n" for name in names]
        return hashlib.sha256("".join(lines).encode()).hexdigest()
    except OSError as error:
        raise BadInput(f"dataset_path {path} cannot be read: {error.strerror}") from error


def _file_sha256(path: str) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as stream:
        for block in iter(lambda: stream.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


def download(chosen: Settings, prefix: str) -> List[str]:
    """The argv that downloads the profile's file, as the inference-benchmarker does, and prints its
    path; empty where there is a file, or vLLM downloads the data itself. The data has no published
    sha256: Hugging Face's own is checked by its client, and the record holds it."""
    if chosen.data.data != "conversations" or chosen.dataset_path:
        return []
    program = os.path.join(prefix, "venv", "bin", "hf")
    kind = ["download", "--repo-type", "dataset", "--quiet"]
    return [program, *kind, _BENCHMARKER, chosen.data.file]


def require_dataset(chosen: Settings) -> str:
    """The data's sha256; empty where the profile needs no file.

    Raises:
        BadInput: it is missing, is another, or is not laid out as it must be.
    """
    path, profile = chosen.dataset_path, chosen.data
    if not path:
        return ""
    if not os.path.exists(path):
        raise BadInput(
            f"dataset_path {path} is not on this node: profile {chosen.profile} needs "
            f"{profile.file} (from {profile.source})"
        )
    if os.path.isdir(path) != (profile.data == "problems"):
        kind = "folder with the files of" if profile.data == "problems" else "file:"
        raise BadInput(f"dataset_path {path} is not the {kind} {profile.file}")
    sha256 = fingerprint(path)
    if chosen.dataset_sha256 and chosen.dataset_sha256 != sha256:
        raise BadInput(
            f"dataset_path {path} has sha256 {sha256}, and dataset_sha256 is"
            f" {chosen.dataset_sha256}"
        )
    if profile.data == "prompts":
        _require_prompts(path)
    return sha256


def _require_prompts(path: str) -> None:
    count = 0
    try:
        with open(path, encoding="utf-8") as stream:
            for number, line in enumerate(stream, 1):
                if not line.strip():
                    continue
                item = json.loads(line)
                tokens = item.get("output_tokens") if isinstance(item, dict) else None
                if not isinstance(tokens, int) or tokens < 1 or not item.get("prompt"):
                    raise BadInput(
                        f"dataset_path {path}, line {number}: an object with prompt and a "
                        "positive output_tokens is expected"
                    )
                count += 1
    except (OSError, ValueError) as error:
        raise BadInput(f"dataset_path {path} is not UTF-8 JSON lines: {error}") from error
    if not count:
        raise BadInput(f"dataset_path {path} holds no prompts")


def _conversation_prompts(path: str) -> List[str]:
    """The first user's turn of each conversation."""
    try:
        with open(path, encoding="utf-8") as stream:
            entries = json.load(stream)
        prompts = [
            next(turn["content"] for turn in entry["conversations"] if turn["role"] == "user")
            for entry in entries
            if any(turn["role"] == "user" for turn in entry["conversations"])
        ]
    except (OSError, ValueError, RecursionError) as error:
        raise BadInput(f"dataset_path {path} is not UTF-8 JSON: {error}") from error
    except (KeyError, TypeError):
        prompts = []
    if not prompts or not all(isinstance(prompt, str) for prompt in prompts):
        raise BadInput(
            f"dataset_path {path} is not a list of conversations with role and content, as the "
            "files of hlarcher/inference-benchmarker are"
        )
    return prompts


def write_prompts(chosen: Settings, server: Endpoint, folder: str) -> int:
    """Write the prompts of a conversations profile, each with its number of output tokens, as
    vLLM's custom dataset; how many different ones there are.

    Inputs are cut to a drawn length by the server's own tokenizer; a text that is shorter is passed
    over, as the inference benchmarker does.

    Raises:
        BadInput: the file cannot be used, or holds no text that is long enough.
    """
    source = random.Random(chosen.seed)  # noqa: S311 WHY: lengths, no secrets
    profile = chosen.data
    prompts = _conversation_prompts(chosen.dataset_path)
    source.shuffle(prompts)
    rows: List[Dict[str, Any]] = []
    for prompt in prompts:
        if len(rows) == chosen.num_prompts:
            break
        text: Optional[str] = prompt
        if profile.inputs:
            text = _cut(prompt, profile.inputs.draw(source), chosen.model, server)
        if text and profile.outputs:
            rows.append({"prompt": text, "output_tokens": profile.outputs.draw(source)})
    if not rows:
        raise BadInput(
            f"dataset_path {chosen.dataset_path} holds no prompt that is long enough for profile "
            f"{chosen.profile}"
        )
    try:
        with open(os.path.join(folder, _PROMPTS), "w", encoding="utf-8") as stream:
            stream.writelines(json.dumps(row) + "\n" for row in rows)
    except OSError as error:
        raise BadInput(f"no prompts can be written in {folder}: {error.strerror}") from error
    return len(rows)


def _cut(text: str, tokens: int, model: str, server: Endpoint) -> Optional[str]:
    # A token stands for one byte at least.
    if len(text.encode()) < tokens:
        return None
    # Most texts are far longer than needed: 16 bytes a token are more than enough.
    token_ids = server.tokens(model, text[: tokens * 16])
    return server.text(model, token_ids[:tokens]) if len(token_ids) >= tokens else None


def require_length(chosen: Settings, longest: int) -> None:
    """Refuse requests that the server would refuse.

    Args:
        longest: tokens of a request, input and output together, that the server takes; 0 unknown.

    Raises:
        BadInput: with both figures.
    """
    profile = chosen.data
    if profile.data == "random":
        needed = chosen.random_input_tokens + chosen.random_output_tokens
    else:
        lengths = [
            distribution.longest
            for distribution in (profile.inputs, profile.outputs)
            if distribution
        ]
        needed = sum(lengths)
    if longest and needed > longest:
        raise BadInput(
            f"profile {chosen.profile} asks for {needed} tokens in one request, and the server "
            f"takes {longest}: start it with a larger max_model_len, or ask for less"
        )


# --- the command ---------------------------------------------------------------------------------


def command(chosen: Settings, *, python: str, driver: str, program: str, folder: str) -> List[str]:
    """The argv: the driver, and after ``--`` the command that it runs."""
    argv = [python, driver, "--base-url", chosen.base_url]
    argv += ["--sample-seconds", f"{chosen.sample_seconds:g}", "--"]
    argv += [program, "bench", "serve", "--base-url", chosen.base_url]
    if chosen.endpoint == "chat":
        argv += ["--backend", "openai-chat", "--endpoint", "/v1/chat/completions"]
    else:
        argv += ["--backend", "vllm", "--endpoint", "/v1/completions"]
    # By its served name: vLLM asks the server's tokenizer for the model by --model.
    argv += ["--model", chosen.model, "--tokenizer", chosen.tokenizer]
    argv += _data_options(chosen, folder)
    argv += ["--num-prompts", str(chosen.num_prompts), "--seed", str(chosen.seed)]
    if chosen.warmup_requests:
        argv += ["--num-warmups", str(chosen.warmup_requests)]
    # vLLM 0.32 leaves it to the server otherwise; older versions and the articles used greedy.
    argv += ["--temperature", "0"]
    if chosen.ramp:
        argv += ["--ramp-up-strategy", "linear", "--ramp-up-start-rps", str(chosen.ramp[0])]
        argv += ["--ramp-up-end-rps", str(chosen.ramp[1])]
    elif chosen.request_rate:
        argv += ["--request-rate", f"{chosen.request_rate:g}"]
    if chosen.max_concurrency:
        argv += ["--max-concurrency", str(chosen.max_concurrency)]
    if chosen.goodput_ms:
        argv += ["--goodput", *(f"{name}:{ms:g}" for name, ms in chosen.goodput_ms.items())]
    argv += ["--percentile-metrics", "ttft,tpot,itl,e2el", "--metric-percentiles", "99"]
    return [*argv, "--disable-tqdm"]


def _data_options(chosen: Settings, folder: str) -> List[str]:
    kind = chosen.data.data
    if kind == "random":
        return [
            *("--dataset-name", "random"),
            *("--random-input-len", str(chosen.random_input_tokens)),
            *("--random-output-len", str(chosen.random_output_tokens)),
        ]
    if kind == "problems":
        options = [
            "--dataset-name",
            "hf",
            "--dataset-path",
            chosen.dataset_path or chosen.data.file,
        ]
        return options + (["--hf-name", chosen.data.file] if chosen.dataset_path else [])
    path = os.path.join(folder, _PROMPTS) if kind == "conversations" else chosen.dataset_path
    # -1: each prompt's own number of output tokens. The prompts are sent as they are: the server
    # applies the chat template where there is one to apply.
    return [
        *("--dataset-name", "custom", "--dataset-path", path),
        *("--custom-output-len", "-1", "--skip-chat-template"),
    ]


def data_parameters(chosen: Settings) -> Dict[str, Any]:
    """The part of a record's parameters that describes the requests."""
    profile = chosen.data
    if profile.data == "random":
        return {
            "random_input_tokens": chosen.random_input_tokens,
            "random_output_tokens": chosen.random_output_tokens,
        }
    parameters: Dict[str, Any] = {"dataset": os.path.basename(chosen.dataset_path) or profile.file}
    for name, lengths in (("input", profile.inputs), ("output", profile.outputs)):
        if lengths:
            parameters[f"{name}_tokens"] = (
                f"normal({lengths.middle}, {lengths.deviation}) in "
                f"{lengths.shortest}..{lengths.longest}"
            )
    return parameters


def environment(
    *, downloads_allowed: bool, hf_home: str, hub: str = "", folder: str = ""
) -> Dict[str, str]:
    """The variables set for it: no usage statistics, and no downloads unless allowed.

    Args:
        folder: where Hugging Face's package datasets writes; HF_HOME belongs to the server's user.
    """
    variables = {"DO_NOT_TRACK": "1", "VLLM_NO_USAGE_STATS": "1"}
    if folder:
        variables["HF_DATASETS_CACHE"] = os.path.join(folder, "datasets")
    if hf_home:
        variables["HF_HOME"] = hf_home
    if not downloads_allowed:
        variables["HF_HUB_OFFLINE"] = "1"
    if hub:
        variables["HF_ENDPOINT"] = hub
    return variables


def case_name(chosen: Settings, server: str) -> str:
    """The case's name: profile, server and load, stable from run to run.

    Args:
        server: the name of its endpoint or recipe; where it has none, the model's.
    """
    parts = [chosen.profile, server or os.path.basename(chosen.model.rstrip("/"))]
    if chosen.profile == "random":
        parts.append(f"i{chosen.random_input_tokens}o{chosen.random_output_tokens}")
    parts += [f"n{chosen.num_prompts}", chosen.pace]
    if chosen.max_concurrency:
        parts.append(f"c{chosen.max_concurrency}")
    return re.sub(r"[^A-Za-z0-9._-]", "_", "-".join(parts))


# --- the outcome ---------------------------------------------------------------------------------


def explain(text: str) -> Optional[str]:
    """Why a run that ended with another status than 0 failed, from its output."""
    stated = _STATED.findall(text)
    if stated:
        error = first_error(text.splitlines())
        return str(stated[-1]) + (f"; the first: {error}" if error else "")
    raised = _RAISED.findall(text)
    return str(raised[-1]).strip()[:300] if raised else None


def judge(output: VllmOutput, chosen: Settings) -> Optional[str]:
    """Why a run that ended is not a valid measurement, or None."""
    if not output.exact or output.server is None or output.failed is None:
        return "the driver's result line is missing: vLLM's table alone is rounded"
    requests = output.completed + output.failed
    if requests != chosen.num_prompts:
        return f"{requests} requests were sent instead of {chosen.num_prompts}"
    if output.parameters.get("model_id") != chosen.model:
        return f"the model {output.parameters.get('model_id')} was asked for, not {chosen.model}"
    share = output.failed / requests
    if share > chosen.failed_share_allowed:
        first = f", the first: {output.first_error}" if output.first_error else ""
        return (
            f"{output.failed} of {requests} requests failed ({share:.2%}; allowed are "
            f"{chosen.failed_share_allowed:.2%}){first}"
        )
    if chosen.data.data == "random":
        # The end-of-text token is ignored there: every answer is as long as was asked for. Of the
        # other profiles the number is a maximum, and says nothing of a shorter answer.
        expected_tokens = output.completed * chosen.random_output_tokens
        if output.output_tokens != expected_tokens:
            return (
                f"{output.completed} requests brought {output.output_tokens} tokens and asked for "
                f"{expected_tokens}"
            )
    return None


def measured(output: VllmOutput, chosen: Settings) -> List[Metric]:
    """The rows of the record: without the goodput where it is by a TPOT that cannot be known."""
    rows = output.metrics()
    if "tpot" in chosen.goodput_ms and "tpot" not in output.latencies:
        return [row for row in rows if row.name != "request_goodput"]
    return rows
