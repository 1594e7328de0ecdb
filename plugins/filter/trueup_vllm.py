"""Filters over vLLM recipes, for the role vllm."""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from ansible.errors import AnsibleFilterError
from trueup import vllm_recipes
from trueup.errors import TrueupError

if TYPE_CHECKING:
    from collections.abc import Callable

DOCUMENTATION = r"""
name: trueup_vllm
short_description: vLLM recipes - what is in one, whether it fits a node, and how to serve it
description:
  - C(vllm_recipe) takes the path of C(catalog/vllm_recipes.yml), or of its folder, or a mapping of
    recipes, the name of one, and recipes of the user's own, which replace those of the same name.
    It returns the recipe with every member present and its C(name).
  - C(vllm_fit) takes a recipe, the fact C(trueup_node), the catalog's sizes (from the filter
    C(catalog_sizes)), the number of nodes and further arguments of C(vllm serve), and returns
    C(fits), C(reason) (one sentence with both figures), C(needed_bytes), C(available_bytes),
    C(weights_bytes), C(kv_cache_bytes), C(workspace_bytes), C(kv_bytes_per_token), C(model_bytes)
    (the weights once), C(devices), C(smallest_size), C(smallest_nodes) and C(more_nodes).
  - C(vllm_serve) takes a recipe and returns C(argv), the words after C(vllm), and C(environment) of
    one node. Options are C(port), C(host), C(model_path), C(rank), C(nodes) (addresses, the head
    node first), C(node) (the fact C(trueup_node) of this node), C(overrides) (a flag's name to its
    value) and C(tcmalloc) (a path). What would show a token or a key is refused.
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


def vllm_serve(
    recipe: dict[str, Any],
    port: int,
    *,
    host: str = "127.0.0.1",
    model_path: str | None = None,
    rank: int = 0,
    nodes: list[str] | None = None,
    node: dict[str, Any] | None = None,
    overrides: dict[str, Any] | None = None,
    tcmalloc: str | None = None,
) -> dict[str, Any]:
    """What one node runs: ``argv``, the words after ``vllm``, and ``environment``."""
    try:
        served = vllm_recipes.serve(
            _again(recipe),
            port=int(port),
            host=host,
            model_path=model_path or None,
            rank=int(rank),
            nodes=nodes or [],
            machine=None if not node else vllm_recipes.machine_of(node),
            overrides=overrides,
            tcmalloc=tcmalloc or None,
        )
    except TrueupError as error:
        raise _refused(error) from error
    return {"argv": served.argv, "environment": served.environment}


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
            "vllm_fit": vllm_fit,
            "vllm_recipe": vllm_recipe,
            "vllm_serve": vllm_serve,
        }
