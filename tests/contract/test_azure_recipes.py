"""The table of recipes as they are shipped, which `make recipes` prints."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest
import yaml
from helpers import ROOT

PRESETS = ROOT / "catalog" / "presets"

# Of each recipe: benchmarks, preset, seconds of its work, number of published rows, missing needs.
TABLE: dict[str, tuple[str, str, float | None, int, str]] = {
    "cpu-llama": ("stream, vllm", "llama-cpu", 3600.0, 0, "token, licence, index"),
    "devito-hbv3": ("devito", "devito-article", 3600.0, 3, "nothing"),
    "eda-lustre": ("fio", "eda-2ms-7ms", 1200.0, 2, "price"),
    "eda-storage": ("fio", "eda-2ms-7ms", 1200.0, 2, "price"),
    "gromacs-hbv3": ("gromacs", "gromacs-benchpep-cpu", 2700.0, 0, "nothing"),
    "gromacs-nc-a100": ("gromacs", "gromacs-benchpep-eessi", 1800.0, 0, "nothing"),
    "llama-a100": ("vllm", "llama-3.1-8b", 1800.0, 3, "token, licence"),
    "nd-h100-deepseek": ("gpu_copy, nccl, vllm", "deepseek-r1-2xh100", 3600.0, 0, "nothing"),
    "nd-h200-deepseek": ("gpu_copy, vllm", "deepseek-r1-h200", 3600.0, 0, "nothing"),
    "ndm-a100-megatron": (*("gpu_copy, nccl, training", "megatron-175b"), *(1980.0, 1, "nothing")),
    "ndv4-training": ("gpu_copy, nccl, training", "ndv4-gpt-13b", 1200.0, 0, "price"),
    "nx-avd": ("nv_a10", "nx-5-users", 300.0, 1, "nothing"),
}


@pytest.fixture(scope="module", name="rows")
def _rows() -> list[dict[str, Any]]:
    secrets = ("HF_TOKEN", "VLLM_API_KEY")
    environment = {name: value for name, value in os.environ.items() if name not in secrets}
    argv = [sys.executable, "-m", "trueup_analysis", "azure", "recipes", "--format", "json"]
    done = subprocess.run(
        argv, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    rows: list[dict[str, Any]] = json.loads(done.stdout)["tables"][0]["rows"]
    return rows


def test_the_table_of_recipes_as_they_are_shipped(rows: list[dict[str, Any]]) -> None:
    found = {
        row["recipe"]: (
            row["benchmarks"],
            row["preset"],
            row["seconds"],
            0 if row["reference"].startswith("none: ") else len(row["reference"].split("; ")),
            row["missing"],
        )
        for row in rows
    }
    assert found == TABLE


def test_a_recipe_without_a_published_row_says_why(rows: list[dict[str, Any]]) -> None:
    reasons = {row["preset"]: row["reference"] for row in rows if not TABLE[row["recipe"]][3]}
    presets = {name: yaml.safe_load((PRESETS / f"{name}.yml").read_text()) for name in reasons}
    assert reasons == {name: f"none: {one['unpublished']}" for name, one in presets.items()}


def test_make_recipes_prints_it_before_the_dry_run_of_vllm() -> None:
    argv = ["make", "--dry-run", "recipes"]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    lines = done.stdout.splitlines()
    own = [line.split()[-2:] for line in lines if line.endswith("azure recipes")]
    vllm = [number for number, line in enumerate(lines) if "tests/vllm_dry_run.py" in line]
    assert (done.returncode, own, len(vllm)) == (0, [["azure", "recipes"]], 1)
