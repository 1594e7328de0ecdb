"""The filters of role vllm over recipes, and the figures of docs/vllm_recipes.md."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible.errors import AnsibleFilterError
from trueup_catalog import catalog_sizes
from trueup_vllm import FilterModule, vllm_fit, vllm_recipe

ROOT = Path(__file__).parents[2]
CATALOG = str(ROOT / "catalog")
PAGE = ROOT / "docs" / "vllm_recipes.md"
SIZES = catalog_sizes(f"{CATALOG}/vm_sizes.csv")
GIB = 1024**3
# What the page shows.
SHOWN = (
    ("deepseek-r1", 2, "Standard_ND96isr_H100_v5"),
    ("deepseek-r1", 1, "Standard_ND96isr_H100_v5"),
    ("deepseek-r1-h200", 1, "Standard_ND96isr_H200_v5"),
    ("llama-3.1-8b", 1, "Standard_ND96asr_v4"),
    ("llama-3.1-8b", 1, "Standard_ND96amsr_A100_v4"),
    ("llama-3.1-8b", 1, "Standard_ND96isr_H100_v5"),
    ("llama-3.1-8b", 1, "Standard_ND96isr_H200_v5"),
    ("llama-3.1-8b", 1, "Standard_NV36ads_A10_v5"),
    ("llama-3.1-8b", 1, "Standard_NV6ads_A10_v5"),
    ("llama-3.1-8b-cpu", 1, "Standard_HB176-96rs_v4"),
    ("llama-3.1-8b-cpu", 1, "Standard_HB120rs_v3"),
    ("llama-3.1-8b-cpu", 1, "Standard_HB368rs_v5"),
)


def node(size: str, **shown: Any) -> dict[str, Any]:
    return {"vm_size": size, "catalog": SIZES[size], **shown}


def page_rows() -> list[str]:
    """The page's table, as the code computes it."""
    rows = []
    for name, nodes, size in SHOWN:
        found = vllm_fit(vllm_recipe(CATALOG, name), node(size), SIZES, nodes)
        kinds = ("weights", "kv_cache", "workspace", "needed", "available")
        figures = [f"{found[f'{kind}_bytes'] / GIB:.1f}" for kind in kinds]
        words = [name, str(nodes), size, *figures, "yes" if found["fits"] else "no"]
        rows.append(f"| {' | '.join(words)} |")
    return rows


def test_the_page_has_the_figures_of_the_code() -> None:
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    start = next(at for at, line in enumerate(lines) if line.startswith("| recipe | nodes | size"))
    end = lines.index("", start)
    assert lines[start + 2 : end] == page_rows()


def test_the_page_has_every_recipe() -> None:
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    start = next(at for at, line in enumerate(lines) if line.startswith("| recipe | model"))
    shown = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in lines[start + 2 : lines.index("", start)]
    ]
    expected = []
    for row in shown:
        one = vllm_recipe(CATALOG, row[0])
        data = one["nodes"] * one["data_parallel_per_node"]
        parallel = f"data {data}, tensor {one['tensor_parallel']}"
        expected.append(
            [
                one["name"],
                one["model"],
                f"{one['nodes']} x {one['gpus']}",
                ", ".join(one["gpu_models"]) or "none",
                parallel + (", expert" if one["expert_parallel"] else ""),
                str(one["max_model_len"]),
            ]
        )
    assert shown == expected
    assert len(shown) == 4


def test_a_recipe_is_found_by_folder_file_or_mapping() -> None:
    by_folder = vllm_recipe(CATALOG, "llama-3.1-8b")
    assert by_folder == vllm_recipe(f"{CATALOG}/vllm_recipes.yml", "llama-3.1-8b")
    assert by_folder == vllm_recipe({"llama-3.1-8b": by_folder}, "llama-3.1-8b")


def test_the_users_recipe_takes_the_catalogs_place() -> None:
    mine = {**vllm_recipe(CATALOG, "llama-3.1-8b"), "max_model_len": 1024}
    extra = {"llama-3.1-8b": mine, "second": {**mine, "name": "second"}}
    assert vllm_recipe(CATALOG, "llama-3.1-8b", extra)["max_model_len"] == 1024
    assert vllm_recipe(CATALOG, "second", extra)["name"] == "second"
    assert vllm_recipe(CATALOG, "llama-3.1-8b")["max_model_len"] == 32768


def test_a_fit_is_plain_data() -> None:
    found = vllm_fit(vllm_recipe(CATALOG, "llama-3.1-8b"), node("Standard_NV6ads_A10_v5"), SIZES)
    assert set(found) == {
        "available_bytes",
        "devices",
        "fits",
        "kv_bytes_per_token",
        "kv_cache_bytes",
        "model_bytes",
        "more_nodes",
        "needed_bytes",
        "reason",
        "smallest_nodes",
        "smallest_size",
        "weights_bytes",
        "workspace_bytes",
    }
    assert found["fits"] is False
    assert found["smallest_size"] == "Standard_NV36ads_A10_v5"


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: vllm_recipe(CATALOG, "llama-3.1-8"), "near it: llama-3.1-8b"),
        (lambda: vllm_recipe(CATALOG, "x", {"x": {}}), "vLLM recipe x: model is missing"),
        (lambda: vllm_recipe(CATALOG, "x", [1]), "vllm_recipes must be a mapping"),
        (lambda: vllm_recipe(f"{CATALOG}/nothing.yml", "x"), "No such file"),
        (lambda: vllm_recipe(f"{CATALOG}/prices.csv", "x"), "has no mapping of recipes"),
        (lambda: vllm_fit({"name": "x"}, {}), "vLLM recipe x: model is missing"),
    ],
)
def test_what_cannot_be_is_one_sentence(call: Any, says: str) -> None:
    with pytest.raises(AnsibleFilterError) as refused:
        call()
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


def test_the_filters_have_their_names() -> None:
    assert set(FilterModule().filters()) == {"vllm_case", "vllm_fit", "vllm_plan", "vllm_recipe"}
