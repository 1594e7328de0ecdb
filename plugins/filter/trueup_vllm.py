"""Filters over vLLM recipes, for the role vllm."""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from ansible.errors import AnsibleFilterError
from trueup.benchmarks.vllm import case as vllm
from trueup.benchmarks.vllm import endpoints as serving
from trueup.benchmarks.vllm import recipes as vllm_recipes
from trueup.errors import TrueupError

if TYPE_CHECKING:
    from collections.abc import Callable

DOCUMENTATION = r"""
name: trueup_vllm
short_description: vLLM recipes - what is in one, whether it fits a node, and what a node serves
description:
  - C(vllm_plan) takes the role's endpoints and the user's own recipes and returns C(problems), what
    cannot be meant or cannot fit as sentences, C(device), and C(endpoints), those that C(host) has
    a part in, with C(rank), C(unit), C(base_url), C(argv) (the words after C(vllm)),
    C(environment), C(recipe) and where the model is. Endpoints of a node get its GPUs, or NUMA
    nodes, in their order. Options are C(host), C(hosts) (C(hostvars)), C(node) (the fact
    C(trueup_node)), C(catalog) (its folder), C(sizes) (from the filter C(catalog_sizes)),
    C(cache), C(api_key) and C(tcmalloc) (a path). What would show a token or a key is refused.
  - C(vllm_case) takes one of these endpoints, a load profile, and the options of C(vllm_bench) that
    are asked for, and returns the parameters of a record that has measured just that.
  - C(vllm_recipe) takes the path of C(catalog/vllm_recipes.yml), or of its folder, or a mapping of
    recipes, the name of one, and recipes of the user's own, which replace those of the same name.
    It returns the recipe with every member present and its C(name).
  - C(vllm_fit) takes a recipe, the fact C(trueup_node), the catalog's sizes (from the filter
    C(catalog_sizes)), the number of nodes and further arguments of C(vllm serve), and returns
    C(fits), C(reason) (one sentence with both figures), C(needed_bytes), C(available_bytes),
    C(weights_bytes), C(kv_cache_bytes), C(workspace_bytes), C(kv_bytes_per_token), C(model_bytes)
    (the weights once), C(devices), C(smallest_size), C(smallest_nodes) and C(more_nodes).
"""

EXAMPLES = r"""
- name: Look the recipe up
  ansible.builtin.set_fact:
    __vllm_recipe: "{{ (playbook_dir ~ '/../catalog') | vllm_recipe(vllm_recipe, vllm_recipes) }}"

- name: Refuse what cannot fit
  vars:
    __vllm_fit: "{{ __vllm_recipe | vllm_fit(ansible_facts['trueup_node'], sizes) }}"
  ansible.builtin.assert:
    that: __vllm_fit.fits
    fail_msg: "{{ __vllm_fit.reason }}"
"""

RETURN = r"""
_value:
  description: A recipe, a fit, or argv and environment; see the description.
  type: dict
"""

_FILE = "vllm_recipes.yml"


def vllm_plan(
    endpoints: list[dict[str, Any]],
    recipes: dict[str, Any],
    *,
    host: str,
    hosts: dict[str, Any],
    node: dict[str, Any],
    catalog: str,
    sizes: dict[str, Any],
    cache: str,
    api_key: str = "",
    tcmalloc: str = "",
) -> dict[str, Any]:
    """What ``host`` serves: C(problems) (sentences; nothing else counts then), C(device) (cpu or
    cuda) and C(endpoints), each with its recipe, ``argv``, ``environment`` and where its model is.
    """
    try:
        mine = serving.endpoints_of(endpoints, host, list(hosts), api_key)
    except TrueupError as error:
        return {"problems": [str(error)], "device": "cpu", "endpoints": []}
    machine = vllm_recipes.machine_of(node)
    taken = {"gpus": 0, "numa": 0}
    problems: list[str] = []
    planned = []
    for endpoint in mine:
        try:
            recipe = vllm_recipe(catalog, endpoint["recipe"], recipes)
            found = vllm_fit(recipe, node, sizes, len(endpoint["nodes"]), endpoint["arguments"])
            if not found["fits"]:
                problems.append(f"{endpoint['name']}: {found['reason']}")
                continue
            served = vllm_recipes.serve(
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
        except (AnsibleFilterError, TrueupError) as error:
            problems.append(f"{endpoint['name']}: {error}")
            continue
        ranks = recipe["data_parallel_per_node"] * recipe["tensor_parallel"]
        taken["gpus"] += recipe["gpus"]
        taken["numa"] += ranks if recipe["device"] == "cpu" else 0
        planned.append(
            {
                **endpoint,
                "recipe_name": endpoint["recipe"],
                "recipe": recipe,
                "argv": served.argv,
                "environment": served.environment,
                "model_bytes": found["model_bytes"],
                "engines_here": recipe["data_parallel_per_node"],
                "engines": recipe["data_parallel_per_node"] * len(endpoint["nodes"]),
                "gpus": recipe["gpus"] * len(endpoint["nodes"]),
                "server_arguments": _server_arguments(recipe, endpoint["arguments"], machine),
                **_model(recipe, endpoint["model"], cache),
            }
        )
    return {
        "problems": problems + _clashes(planned),
        "device": planned[0]["recipe"]["device"] if planned else "cpu",
        "endpoints": planned,
    }


def vllm_case(endpoint: dict[str, Any], profile: str, asked: dict[str, Any]) -> dict[str, Any]:
    """The parameters of a record that has measured ``endpoint`` with ``profile`` as asked."""
    try:
        return {
            "profile": profile,
            "recipe": endpoint["recipe_name"],
            "model": endpoint["model"] or endpoint["recipe"]["model"],
            "served_model_name": endpoint["recipe"]["model"],
            "tensor_parallel": endpoint["recipe"]["tensor_parallel"],
            "endpoint_name": endpoint["name"],
            "base_url": endpoint["base_url"],
            "data_parallel": endpoint["engines"],
            "server_arguments": vllm.arguments_text(endpoint["server_arguments"]),
            "asked": vllm.asked_text(asked),
        }
    except TrueupError as error:
        raise _refused(error) from error


def _server_arguments(
    recipe: dict[str, Any], given: dict[str, Any], machine: vllm_recipes.Machine
) -> dict[str, Any]:
    """What makes this server another one than the same recipe's elsewhere: its flags, without those
    that say where, and its variables, by their names."""
    word = vllm_recipes.gpu_word(recipe, machine.gpu_model)
    memory = {"max-model-len": recipe["max_model_len"]}
    if recipe["device"] == "cuda":
        memory["gpu-memory-utilization"] = recipe["memory_share"]
    else:
        memory["kv-cache-gib"] = recipe["cpu"]["kv_cache_gib"]
    return {
        **memory,
        **recipe["environment"],
        **recipe["arguments"],
        **(recipe["arguments_by_gpu"].get(word, {}) if word else {}),
        **given,
    }


def _addresses(endpoint: dict[str, Any], hosts: dict[str, Any]) -> list[str]:
    """Of the endpoint's nodes, as they reach each other; of one node alone none."""
    if len(endpoint["nodes"]) == 1:
        return []
    return endpoint["addresses"] or [
        str(hosts[name].get("ansible_host") or name) for name in endpoint["nodes"]
    ]


def _model(recipe: dict[str, Any], given: str, cache: str) -> dict[str, str]:
    """Where a model is, in Hugging Face's layout of a cache, and which file says that all of it is
    there. A folder of the user's is complete."""
    revision = recipe["revision"] or "main"
    flat = recipe["model"].replace("/", "--")
    # A commit has no file below refs/, by which a client would find its snapshot.
    snapshot = f"{cache}/hub/models--{flat}/snapshots/{revision}" if recipe["revision"] else ""
    return {
        "revision": revision,
        "complete": "" if given else f"{cache}/complete/{flat}@{revision}",
        "tokenizer": given or snapshot,
    }


def _clashes(planned: list[dict[str, Any]]) -> list[str]:
    """What endpoints of one node cannot both have."""
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


def vllm_recipe(
    source: str | dict[str, Any], name: str, extra: dict[str, Any] | None = None
) -> dict[str, Any]:
    """The recipe ``name``, validated.

    Raises:
        AnsibleFilterError: no such recipe (says which are near), or it is wrong, or no file.
    """
    try:
        recipes = source if isinstance(source, dict) else _read_recipes(source)
        if not isinstance(extra or {}, dict):
            message = "vllm_recipes must be a mapping of a recipe's name to the recipe"
            raise AnsibleFilterError(message)
        return vllm_recipes.choose({**recipes, **(extra or {})}, str(name))
    except (OSError, UnicodeDecodeError, yaml.YAMLError, TrueupError) as error:
        raise _refused(error) from error


def vllm_fit(
    recipe: dict[str, Any],
    node: dict[str, Any],
    sizes: dict[str, Any] | None = None,
    nodes: int = 1,
    overrides: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Whether the recipe fits ``nodes`` nodes like ``node``."""
    try:
        whole = _again(recipe)
        machine = vllm_recipes.machine_of(node, int(nodes))
        found = vllm_recipes.fit(whole, machine, sizes=sizes, overrides=overrides)
    except TrueupError as error:
        raise _refused(error) from error
    return dataclasses.asdict(found)


def _again(recipe: dict[str, Any]) -> dict[str, Any]:
    """The recipe validated once more: between filters it is a variable that others can change."""
    return vllm_recipes.validate(str(recipe.get("name", "")), recipe)


def _refused(error: Exception) -> AnsibleFilterError:
    return AnsibleFilterError(f"vllm: {error}")


def _read_recipes(source: str) -> dict[str, Any]:
    path = Path(source)
    if path.is_dir():
        path /= _FILE
    changed = path.stat()
    return _read(str(path), changed.st_mtime_ns, changed.st_size)


# A play's hosts ask for the same file; its time and size tell whether it is still the same.
@functools.lru_cache(maxsize=4)
def _read(path: str, _changed_ns: int, _size: int) -> dict[str, Any]:
    content = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    recipes = content.get("recipes") if isinstance(content, dict) else None
    if not isinstance(recipes, dict) or not recipes:
        message = f"vllm: {path} has no mapping of recipes"
        raise AnsibleFilterError(message)
    return recipes


class FilterModule:
    """Ansible's entry point."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """The filters of this file by name."""
        return {
            "vllm_case": vllm_case,
            "vllm_fit": vllm_fit,
            "vllm_plan": vllm_plan,
            "vllm_recipe": vllm_recipe,
        }
