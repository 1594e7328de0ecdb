"""Recipes from sign-in to a priced report and back to nothing, as a user types `make azure`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import yaml
from conftest import RECORDED, SMALL, emulated, wheels
from helpers import ROOT

VLLM = ROOT / "molecule" / "vllm"
RECIPES = ROOT / "catalog" / "azure_recipes"
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


def test_devito_over_two_nodes(tmp_path: Path) -> None:
    mounts = [f"{wheels('3.12', 'devito')}:/srv/wheels:ro"]
    small = {
        **RECORDED,
        # STREAM's arrays of an HBv3 would take this host's memory.
        "trueup_benchmarks": ["devito"],
        "devito_pip_find_links": "/srv/wheels",
        "devito_pip_no_index": True,
        "devito_shape": "48x48x48",
        "devito_tn_ms": 50,
        "devito_autotune": "off",
        "devito_layouts": [{"ranks": 1, "threads_per_rank": 2, "binding": "core"}],
        "devito_node_counts": [1, 2],
        "devito_node_layouts": [{"ranks": 1, "threads_per_rank": 2, "binding": "core"}],
        "devito_node_mpi_modes": ["basic"],
        "devito_mpirun_arguments": ["--mca", "btl_tcp_if_include", "eth0"],
    }
    with emulated(tmp_path, mounts=mounts, shm_size="256m") as site:
        status, said = site.make("devito-hbv3", site.parameters(small), MAX_USD_PER_HOUR="20")
        assert status == 0, said[-6000:]
        assert site.left() == []
    found = site.records("devito")
    assert {one["vm_size"] for one in found} == {"Standard_HB120rs_v3"}
    assert {one["node_count"] for one in found} == {1, 2}
    assert (tmp_path / "report" / "index.html").exists()


def test_devito_hbv3_as_shipped_in_small(tmp_path: Path) -> None:
    """The recipe's own variables. Given are the size, the pip index and the share of the work."""
    mounts = [f"{wheels('3.12', 'devito')}:/srv/wheels:ro"]
    given = {
        "trueup_preset": yaml.safe_load((RECIPES / "devito-hbv3.yml").read_text())["variables"][
            "trueup_preset"
        ],
        "trueup_preset_scale": 0.005,
        "devito_pip_find_links": "/srv/wheels",
        "devito_pip_no_index": True,
    }
    with emulated(tmp_path, mounts=mounts, shm_size="256m") as site:
        status, said = site.make("devito-hbv3", site.parameters(given, nodes=SMALL))
        assert status == 0, said[-6000:]
        assert site.left() == []
    found = site.records("devito")
    assert {one["node_count"] for one in found} == {1, 2}
    assert {(one["parameters"]["preset"], one["parameters"]["preset_scale"]) for one in found} == {
        ("devito-article", 0.005)
    }
    assert {one["outcome"] for one in found} <= {"ok", "too_short"}
    assert (tmp_path / "report" / "index.html").exists()


def test_a_server_of_vllm_on_cpus(tmp_path: Path) -> None:
    model = tmp_path / "model"
    subprocess.run([sys.executable, VLLM / "files" / "make_tiny_model.py", model], check=True)
    # Torch's build for CPUs is here for Python 3.11 alone; on Azure the role python installs it.
    python = Path(sys.base_prefix)
    assert python.name.startswith("3.11"), python
    mounts = [
        f"{wheels('3.11', 'vllm', 'training')}:/srv/wheels:ro",
        f"{model}:/srv/model:ro",
        f"{python}:/opt/python:ro",
        f"{python}/lib/{LIBRARY}:/usr/lib/x86_64-linux-gnu/{LIBRARY}:ro",
    ]
    scenario = yaml.safe_load((VLLM / "molecule.yml").read_text())
    tiny = scenario["provisioner"]["inventory"]["group_vars"]["all"]["tiny_recipe"]
    small = {
        "trueup_health_benchmarks": [],
        "vllm_recipes": {"tiny": {**tiny, "environment": {}}},
        "vllm_endpoints": [
            {
                "name": "llama",
                "recipe": "tiny",
                "model": "/srv/model",
                "arguments": {"max-num-seqs": 4},
            }
        ],
        "vllm_python": "/opt/python/bin/python3.11",
        "vllm_pip_find_links": "/srv/wheels",
        "vllm_pip_no_index": True,
        "vllm_ready_seconds": 1500,
        "vllm_num_prompts": 50,
        "vllm_random_input_tokens": 32,
        "vllm_random_output_tokens": 32,
    }
    with emulated(tmp_path, mounts=mounts, shm_size="1g", capabilities=["SYS_ADMIN"]) as site:
        # Nobody recorded an HBv4, and a container that says that it is one is rightly refused.
        parameters = site.parameters(small, nodes={"size": SMALL["size"]})
        status, said = site.make("cpu-llama", parameters)
        assert status == 0, said[-6000:]
        assert site.left() == []
    for benchmark in ("stream", "vllm"):
        found = {(one["vm_size"], one["outcome"]) for one in site.records(benchmark)}
        assert found == {(SMALL["size"], "ok")}
    assert "US$" in (tmp_path / "report" / "index.html").read_text()
