"""Recipes from sign-in to a priced report and back to nothing, as a user types `make azure`."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from pathlib import Path

import pytest
import stand_ins
import yaml
from conftest import IMAGE, SMALL, emulated, wheels
from helpers import ROOT

VLLM = ROOT / "molecule" / "vllm"
MODELS = yaml.safe_load((ROOT / "catalog" / "vllm_recipes.yml").read_text())["recipes"]
LLAMA = MODELS["llama-3.1-8b-cpu"]
LIBRARY = "libpython3.11.so.1.0"


def test_a_small_node(tmp_path: Path) -> None:
    with emulated(tmp_path) as site:
        # STREAM's arrays are four times this host's caches: of one node, beside other tests.
        parameters = site.parameters({"trueup_benchmarks": ["stream"]}, nodes={**SMALL, "count": 1})
        status, said = site.make("devito-hbv3", parameters)
        assert status == 0, said[-6000:]
        assert site.left() == []
    found = site.records("stream")
    assert {(one["outcome"], *one["nodes"]) for one in found} == {("ok", "node000000")}


def test_a_recipe_as_shipped_is_given_nothing_else(tmp_path: Path) -> None:
    with emulated(tmp_path) as site:
        with pytest.raises(ValueError, match=r"not as shipped: devito_tn_ms, trueup_preset$"):
            site.as_shipped({"trueup_preset": "", "devito_tn_ms": 50, "trueup_preset_scale": 0.1})
        with pytest.raises(ValueError, match=r"not as shipped: max_usd_per_hour, nodes\.pool$"):
            site.as_shipped({}, max_usd_per_hour=9, nodes={"size": "x", "count": 2, "pool": 1})


def test_devito_hbv3(tmp_path: Path) -> None:
    mounts = [f"{wheels('3.12', 'devito')}:/srv/wheels:ro"]
    given = {
        "trueup_preset_scale": 0.005,
        "devito_pip_find_links": "/srv/wheels",
        "devito_pip_no_index": True,
    }
    with emulated(tmp_path, mounts=mounts, shm_size="256m") as site:
        status, said = site.make("devito-hbv3", site.as_shipped(given, nodes=SMALL))
        assert status == 0, said[-6000:]
        assert site.left() == []
    found = site.records("devito")
    assert {one["node_count"] for one in found} == {1, 2}
    assert {(one["parameters"]["preset"], one["parameters"]["preset_scale"]) for one in found} == {
        ("devito-article", 0.005)
    }
    assert {one["outcome"] for one in found} <= {"ok", "too_short"}
    assert (tmp_path / "report" / "index.html").exists()


def test_eda_storage(tmp_path: Path) -> None:
    mounts = [*stand_ins.packages(IMAGE, "fio"), *stand_ins.shared_folder(tmp_path)]
    scaled = {"trueup_preset_scale": 0.05}
    with emulated(tmp_path, mounts=mounts) as site:
        status, said = site.make("eda-storage", site.as_shipped(scaled, nodes=SMALL))
        assert status != 0
        assert "no price of Azure NetApp Files (Ultra, 4 TiB)" in " ".join(said.split())
        assert site.cloud.calls == []
        parameters = site.as_shipped(scaled, nodes=SMALL, prices={"storage": 2.15})
        status, said = site.make("eda-storage", parameters)
        assert status == 0, said[-6000:]
        assert site.left() == []
    found = site.records("fio")
    depths = [1, 2, 4, 8, 16, 32]
    # A client of each name, at each depth.
    assert len({one["nodes"][0] for one in found}) == 2
    assert sorted((one["case"], one["outcome"]) for one in found) == sorted(
        (f"eda_mixed-direct-qd{depth}", "ok") for depth in [*depths, *depths]
    )
    assert {one["parameters"]["filesystem"] for one in found} == {"nfs"}


def test_gromacs_hbv3(tmp_path: Path) -> None:
    mounts, cernvm = stand_ins.eessi(tmp_path)
    given = {"trueup_preset_scale": 0.0005, "eessi_cvmfs_repository": cernvm}
    with emulated(tmp_path, mounts=mounts) as site:
        parameters = site.as_shipped(given, nodes={"size": SMALL["size"]})
        status, said = site.make("gromacs-hbv3", parameters)
        assert status == 0, said[-6000:]
        assert site.left() == []
    [found] = site.records("gromacs")
    asked = {name: found["parameters"][name] for name in ("preset", "source", "water_box_nm")}
    assert (found["outcome"], asked) == (
        "ok",
        {
            "preset": "gromacs-benchpep-cpu",
            "source": "eessi 2023.06 GROMACS/2024.4-foss-2023b",
            "water_box_nm": 3.9,
        },
    )
    assert "US$" in (tmp_path / "report" / "index.html").read_text()


def test_cpu_llama(tmp_path: Path) -> None:
    model, problems = tmp_path / "model", tmp_path / "aime"
    longest = str(LLAMA["max_model_len"])
    subprocess.run(
        [sys.executable, VLLM / "files" / "make_tiny_model.py", model, longest], check=True
    )
    problems.mkdir()
    rows = [
        {"problem": f"{at} + {at * at} is", "solution": f"It is {at + at * at}."}
        for at in range(90)
    ]
    (problems / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    python = stand_ins.interpreter("3.11")
    mounts = [
        f"{wheels('3.11', 'vllm', 'training')}:/srv/wheels:ro",
        f"{problems}:/srv/aime:ro",
        f"{python}:/opt/python:ro",
        f"{python}/lib/{LIBRARY}:/usr/lib/x86_64-linux-gnu/{LIBRARY}:ro",
    ]
    scenario = yaml.safe_load((VLLM / "molecule.yml").read_text())
    tiny = scenario["provisioner"]["inventory"]["group_vars"]["all"]["tiny_recipe"]
    served = {**LLAMA, "facts": tiny["facts"], "cpu": {**LLAMA["cpu"], "kv_cache_gib": 1}}
    with contextlib.ExitStack() as stack:
        site = stack.enter_context(
            emulated(tmp_path, mounts=mounts, shm_size="1g", capabilities=["SYS_ADMIN"])
        )
        site.env["HF_TOKEN"] = "a-dummy"
        hub = stack.enter_context(
            stand_ins.hub(
                *(site.hardware.address, LLAMA["model"], LLAMA["revision"]),
                *(model, site.env["HF_TOKEN"]),
            )
        )
        given = {
            "trueup_preset_scale": 0.05,
            "vllm_pip_find_links": "/srv/wheels",
            "vllm_pip_no_index": True,
            "vllm_python": "/opt/python/bin/python3.11",
            "vllm_hub": hub,
            "vllm_datasets": {"aime": "/srv/aime"},
            "vllm_recipes": {"llama-3.1-8b-cpu": served},
        }
        parameters = site.as_shipped(
            given, nodes={"size": SMALL["size"]}, accepted_licences=["llama3.1"]
        )
        status, said = site.make("cpu-llama", parameters)
        assert status == 0, said[-6000:]
        assert site.left() == []
    [found] = site.records("vllm")
    asked = {name: found["parameters"][name] for name in ("preset", "profile", "num_prompts")}
    assert (found["outcome"], asked) == (
        "ok",
        {"preset": "llama-cpu", "profile": "aime", "num_prompts": 10},
    )
    assert {one["outcome"] for one in site.records("stream")} == {"ok"}
    assert "US$" in (tmp_path / "report" / "index.html").read_text()
