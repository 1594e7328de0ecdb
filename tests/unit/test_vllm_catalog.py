"""The recipes of the catalog, and the figures of docs/guides/vllm_recipes.md."""

from __future__ import annotations

from pathlib import Path

import vllm_dry_run
import yaml
from trueup_controller.plans.vllm_recipes import choose

ROOT = Path(__file__).parents[2]
RECIPES = yaml.safe_load((ROOT / "catalog" / "vllm_recipes.yml").read_text())["recipes"]
PAGE = ROOT / "docs" / "guides" / "vllm_recipes.md"
# What the page shows.
SHOWN = (
    ("deepseek-r1", 2, "Standard_ND96isr_H100_v5"),
    ("deepseek-r1", 1, "Standard_ND96isr_H100_v5"),
    ("deepseek-r1-h200", 1, "Standard_ND96isr_H200_v5"),
    ("llama-3.1-8b", 1, "Standard_ND96asr_v4"),
    ("llama-3.1-8b", 1, "Standard_NV36ads_A10_v5"),
    ("llama-3.1-8b", 1, "Standard_NV6ads_A10_v5"),
    ("llama-3.1-8b-cpu", 1, "Standard_HB120rs_v3"),
    ("llama-3.1-8b-cpu", 1, "Standard_HB368rs_v5"),
)


def page_rows() -> list[str]:
    """The page's table, as the code computes it."""
    return [vllm_dry_run.memory_row(name, size, nodes) for name, nodes, size in SHOWN]


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
        one = choose(RECIPES, row[0])
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


def test_the_users_recipe_takes_the_catalogs_place() -> None:
    mine = {**choose(RECIPES, "llama-3.1-8b"), "max_model_len": 1024}
    assert choose({**RECIPES, "llama-3.1-8b": mine}, "llama-3.1-8b")["max_model_len"] == 1024
    assert choose(RECIPES, "llama-3.1-8b")["max_model_len"] == 32768


def test_what_does_not_fit_names_the_size_that_would_do() -> None:
    found = vllm_dry_run.fits("llama-3.1-8b", "Standard_NV6ads_A10_v5", 1)
    assert (found.fits, found.smallest_size) == (False, "Standard_NC24ads_A100_v4")
