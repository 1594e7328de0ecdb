"""Each preset as the roles plan it on its size, against the settings of its publication."""

from __future__ import annotations

import collections
import dataclasses
from typing import Any

import fio_bench
import gromacs_bench
import megatron_bench
import nccl_bench
import nv_a10_bench
import pytest
import vllm_bench
from bench_modules import FakeRun
from helpers import ROOT
from role_plans import PYTHON, SIZES, asked, node
from test_nccl_plan import state
from trueup_analysis import catalog
from trueup_controller import presets
from trueup_controller.plans import fio, gromacs, megatron, nccl, nv_a10, vllm
from trueup_node.benchmarks.megatron.flops import Model, article_flops, parameters
from trueup_node.errors import BadInput

CATALOG = ROOT / "catalog"
PUBLISHED = CATALOG / "reference_results.csv"
PRESETS = presets.read_all(CATALOG)
NDV4, NDM = "Standard_ND96asr_v4", "Standard_ND96amsr_A100_v4"
GIB8 = 8 * 1024**3
HOSTS = [f"node-{at + 1}" for at in range(128)]
FOLDER = {"there": False, "link": False, "path": "/home", "free_bytes": 90 * 1024**3}


def applied(name: str, size: str, values: dict[str, Any]) -> dict[str, Any]:
    """The preset's variables on a node of a size, and those of the user."""
    machine = presets.Machine(size, int(SIZES[size]["vcpus"]))
    found = presets.applied(name, PRESETS[name], machine, values=values)
    assert found.notes == []
    return {**values, **found.variables}


def cases(
    plan: Any, role: str, there: dict[str, Any], variables: dict[str, Any], found: dict[str, Any]
) -> list[dict[str, Any]]:
    """The cases that a role plans with these variables on the first of its nodes."""
    prefix = f"{role}_"
    options = {
        name.removeprefix(prefix): value
        for name, value in variables.items()
        if name.startswith(prefix)
    }
    question = dataclasses.replace(
        asked(role, there, found, **options),
        host=HOSTS[0],
        hosts=HOSTS,
        hostvars={
            name: {"ansible_host": f"10.0.0.{at + 4}", "ansible_facts": {"trueup_node": there}}
            for at, name in enumerate(HOSTS)
        },
        variables={"trueup_plan": [role], "trueup_cluster_roles": ["eessi"]},
        secrets={"hf_token": "", "api_key": "dummy"},
    )
    made = plan(question)
    assert (made.refused, made.skipped) == ([], [])
    return [{**case, "node": there} for case in made.as_result()["cases"]]


def option(argv: list[str], name: str) -> str:
    return argv[argv.index(name) + 1]


def test_nccl_is_the_articles_command_on_each_number_of_nodes(runner: Any) -> None:
    values = {"nccl_nodes": HOSTS[:32], "nccl_launcher": "mpirun"}
    planned = cases(
        nccl.plan, "nccl", node("ndv4"), applied("ndv4-nccl-at-scale", NDV4, values), state()
    )
    launched = [
        runner(nccl_bench)(FakeRun(), check=True, **case)["command"] for case in planned[::2]
    ]
    assert [option(argv, "-np") for argv in launched] == ["8", "16", "32", "64", "128", "256"]
    # "all_reduce_perf -b8 -f 2 -g 1 -e 8G", by a process a GPU.
    for argv in launched:
        own = argv[argv.index("/opt/nccl-tests/build/all_reduce_perf") :]
        assert [option(own, name) for name in ("-b", "-f", "-g", "-e")] == [
            "8",
            "2",
            "1",
            str(GIB8),
        ]
    operations = [case["operation"] for case in planned]
    assert operations == ["all_reduce", "alltoall"] * 6


def test_counts_of_nodes_that_nccl_nodes_does_not_name_are_refused() -> None:
    for counts in ([1, 4], [0], [2, 2]):
        made = nccl.plan(asked("nccl", node("ndv4"), state(), nodes=HOSTS[:2], node_counts=counts))
        assert [text.partition(",")[0] for text in made.refused] == [
            f"nccl_node_counts is {counts[0]}"
        ]


@pytest.mark.parametrize("name", ["megatron-175b", "megatron-530b", "megatron-1t", "megatron-2t"])
def test_megatron_trains_the_articles_model_for_the_minutes_that_it_names(
    runner: Any, name: str
) -> None:
    preset = PRESETS[name]
    (count,), (minutes,) = preset.nodes, preset.sizes.values()
    variables = applied(name, NDM, {"training_hosts": HOSTS[:count]})
    prefix = "/opt/trueup/training"
    found = {
        "python": PYTHON,
        "programs": {"git": "/usr/bin/git"},
        "folders": {prefix: FOLDER, f"{prefix}/venv": FOLDER},
    }
    there = node("ndm_a100_v4")
    [case] = cases(
        megatron.plan, "training", there, {**variables, "training_prefix": prefix}, found
    )
    argv = runner(megatron_bench)(FakeRun(), check=True, **case)["command"]
    row = catalog_row(preset)
    model = {"175B": (96, 12288, 96), "530B": (105, 20480, 128)}
    model |= {"1T": (128, 25600, 160), "2T": (160, 32768, 128)}
    names = ("--layers", "--hidden-size", "--attention-heads")
    shape = tuple(int(option(argv, each)) for each in names)
    assert shape == model[str(preset.variables["training_model"])]
    batch, length = (int(option(argv, each)) for each in ("--micro-batch", "--sequence-length"))
    assert (batch, length) == ((32, 512) if name == "megatron-175b" else (8, 1024))
    assert int(option(argv, "--nnodes")) * int(option(argv, "--nproc_per_node")) == int(
        row["cores_or_gpus"]
    )
    assert (case["zero_stage"], case["recompute"], case["precision"]) == (3, True, "bf16")
    assert case["offload"] == ("cpu" if name in ("megatron-1t", "megatron-2t") else "none")
    # The article's formula, at its rate: 12 iterations, and 10 minutes to make the model.
    layers, hidden, heads = shape
    work = article_flops(
        Model(
            layers=layers,
            hidden_size=hidden,
            attention_heads=heads,
            sequence_length=length,
            vocabulary_size=51200,
        ),
        batch,
    )
    taken = 12 * work / (float(row["value"]) * 1e12)
    assert minutes == round(taken / 60 + 10)
    assert preset.variables["training_timeout_seconds"] > 2 * taken


def test_a_model_that_fills_two_nodes_writes_checkpoints(runner: Any) -> None:
    values = {"training_hosts": HOSTS[:2], "training_save_directory": "/shared"}
    variables = {**applied("ndv4-gpt-13b", NDV4, values), "training_prefix": "/opt/training"}
    found = {
        "python": PYTHON,
        "programs": {"git": "/usr/bin/git"},
        "folders": {"/opt/training": FOLDER, "/opt/training/venv": FOLDER},
    }
    [case] = cases(megatron.plan, "training", node("ndv4"), variables, found)
    argv = runner(megatron_bench)(FakeRun(), check=True, **case)["command"]
    names = ("layers", "hidden-size", "attention-heads", "micro-batch", "save", "save-interval")
    assert [option(argv, f"--{name}") for name in names] == [
        *("40", "5120", "40", "4", "/shared", "10")
    ]
    assert int(option(argv, "--nnodes")) * int(option(argv, "--nproc_per_node")) == 16
    assert (case["zero_stage"], case["recompute"], case["precision"]) == (3, True, "bf16")
    model = Model(
        layers=40, hidden_size=5120, attention_heads=40, sequence_length=2048, vocabulary_size=51200
    )
    # 7 s an iteration at 40 % of 312 TFLOP/s; two checkpoints of 12 bytes a parameter at 2 GB/s.
    assert article_flops(model, 4) / (0.4 * 312e12) == pytest.approx(7.1, abs=0.1)
    assert parameters(model) * 12 / 2e9 == pytest.approx(77, abs=1)
    with pytest.raises(BadInput, match="ndv4-gpt-13b needs training_save_directory "):
        applied("ndv4-gpt-13b", NDV4, {"training_hosts": HOSTS[:2]})


def catalog_row(preset: presets.Preset) -> Any:
    """The published row of a preset's first reference."""
    rows = [row for _, row in catalog.rows(PUBLISHED)]
    return next(row for row in rows if preset.reference[0].is_of(row))


@pytest.mark.parametrize("count", [1, 31, 128])
def test_a_model_is_refused_on_other_numbers_of_nodes(count: int) -> None:
    with pytest.raises(BadInput, match=f"for 32 nodes, and training_hosts names {count}"):
        applied("megatron-175b", NDM, {"training_hosts": HOSTS[:count]})


def of_vllm(name: str, there: dict[str, Any], values: dict[str, Any]) -> list[dict[str, Any]]:
    found: dict[str, Any] = {
        "python": PYTHON,
        "pythons": [],
        "folders": collections.defaultdict(lambda: FOLDER),
    }
    cuda = "/usr/local/cuda/{}".format
    found["files"] = {
        cuda(path): True for path in ("bin/nvcc", "lib64/libcudart.so", "include/curand.h")
    }
    found["programs"] = {path: path for path in ("gcc", "g++", "cc", "c++", "ninja", "git")}
    variables = applied(name, there["vm_size"], values)
    return cases(vllm.plan, "vllm", there, variables, found)


def test_llama_on_cpus_gets_the_articles_prompts(runner: Any) -> None:
    there = {**node("hbv4"), "vm_size": "Standard_HB176-96rs_v4"}
    [case] = of_vllm("llama-cpu", there, {})
    argv = runner(vllm_bench)(FakeRun(), check=True, **case)["command"]
    assert [option(argv, name) for name in ("--num-prompts", "--seed")] == ["200", "42"]
    assert [option(argv, f"--ramp-up-{name}-rps") for name in ("start", "end")] == ["1", "2"]
    assert option(argv, "--dataset-path") == "AI-MO/aimo-validation-aime"


@pytest.mark.parametrize("size", list(PRESETS["llama-3.1-8b"].sizes))
def test_llama_on_gpus_gets_the_articles_profiles(runner: Any, size: str) -> None:
    families = {NDV4: "ndv4", NDM: "ndm_a100_v4"}
    family = families.get(size, "nd_h200_v5" if "H200" in size else "nd_h100_v5")
    there = node(family)
    assert there["vm_size"] == size
    planned = of_vllm("llama-3.1-8b", there, {})
    profiles = ["chat", "classification", "code_generation"]
    assert [case["profile"] for case in planned] == profiles
    for case in planned:
        argv = runner(vllm_bench)(FakeRun(), check=True, **case)["command"]
        assert [option(argv, f"--{name}") for name in ("num-prompts", "max-concurrency")] == [
            "400",
            "128",
        ]
        arguments = case["server_arguments"]
        assert (case["gpus"], arguments["gpu-memory-utilization"]) == (1, 0.9)
        batched = 2048 if "A100" in size or size == NDV4 else 8192
        assert (arguments["max-num-seqs"], arguments["max-num-batched-tokens"]) == (1024, batched)
    rows = [row for _, row in catalog.rows(PUBLISHED) if row["system"] == size]
    references = PRESETS["llama-3.1-8b"].reference
    assert [sum(each.is_of(row) for row in rows) for each in references] == [1] * 6


def test_deepseek_on_h200_gets_the_articles_prompts(runner: Any) -> None:
    endpoint = {"name": "r1", "recipe": "deepseek-r1-h200"}
    [case] = of_vllm("deepseek-r1-h200", node("nd_h200_v5"), {"vllm_endpoints": [endpoint]})
    argv = runner(vllm_bench)(FakeRun(), check=True, **case)["command"]
    assert [option(argv, name) for name in ("--num-prompts", "--seed")] == ["400", "42"]
    assert [option(argv, f"--ramp-up-{name}-rps") for name in ("start", "end")] == ["1", "10"]
    assert (case["gpus"], case["data_parallel"], case["tensor_parallel"]) == (8, 8, 1)


def test_deepseek_on_two_nodes_gets_the_articles_prompts(runner: Any) -> None:
    there = node("nd_h100_v5")
    endpoint = {"name": "r1", "recipe": "deepseek-r1", "nodes": HOSTS[:2], "host": "0.0.0.0"}
    [case] = of_vllm("deepseek-r1-2xh100", there, {"vllm_endpoints": [endpoint]})
    argv = runner(vllm_bench)(FakeRun(), check=True, **case)["command"]
    assert [option(argv, name) for name in ("--num-prompts", "--seed")] == ["400", "42"]
    assert [option(argv, f"--ramp-up-{name}-rps") for name in ("start", "end")] == ["1", "10"]
    assert option(argv, "--endpoint") == "/v1/completions"
    assert (case["gpus"], case["data_parallel"], case["tensor_parallel"]) == (16, 16, 1)


def test_a_preset_without_a_variable_of_the_user_is_refused() -> None:
    with pytest.raises(BadInput, match="deepseek-r1-2xh100 needs vllm_endpoints "):
        applied("deepseek-r1-2xh100", "Standard_ND96isr_H100_v5", {})
    with pytest.raises(BadInput, match=r"needs fio_directory .* and fio_filesystem "):
        applied("eda-2ms-7ms", "Standard_E64ds_v5", {})


def test_eda_measures_six_depths_for_two_minutes_after_one(runner: Any, tmp_path: Any) -> None:
    values = {"fio_directory": str(tmp_path), "fio_filesystem": "nfs"}
    there = {**node("local"), "vm_size": "Standard_E64ds_v5"}
    variables = applied("eda-2ms-7ms", "Standard_E64ds_v5", values)
    planned = cases(fio.plan, "fio", there, variables, {"programs": {"fio": "/usr/bin/fio"}})
    assert [case["iodepth"] for case in planned] == [1, 2, 4, 8, 16, 32]
    assert {case["start_seconds"] for case in planned} == {60}
    argv = runner(fio_bench)(FakeRun(), check=True, **planned[3])["command"]
    assert (argv.count("--runtime=120"), argv.count("--iodepth=8")) == (1, 2)


def test_gromacs_runs_the_articles_input_and_module_on_the_gpu(
    runner: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gromacs_bench.os, "sched_getaffinity", lambda _: set(range(24)))
    size = "Standard_NC24ads_A100_v4"
    there = {**node("nc_a100_v4"), "vm_size": size}
    [case] = cases(
        gromacs.plan,
        "gromacs",
        there,
        applied("gromacs-benchpep-eessi", size, {}),
        {"programs": {"gmx": None}},
    )
    assert case["eessi_module"] == "GROMACS/2024.4-foss-2023b-CUDA-12.4.0"
    assert case["tpr"].endswith("/benchPEP-h.zip")
    argv = runner(gromacs_bench)(FakeRun(), check=True, **case)["command"]
    assert [option(argv, f"--{name}") for name in ("pme", "update", "bonded", "nb")] == ["gpu"] * 4
    assert [option(argv, f"--{name}") for name in ("ranks", "threads")] == ["1", "24"]


def test_gromacs_on_cpus_runs_the_same_input_on_all_cores(
    runner: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gromacs_bench.os, "sched_getaffinity", lambda _: set(range(120)))
    size = "Standard_HB120rs_v3"
    planned = cases(
        gromacs.plan,
        "gromacs",
        {**node("hbv3"), "vm_size": size},
        applied("gromacs-benchpep-cpu", size, {}),
        {"programs": {"gmx": None}},
    )
    assert {case["eessi_module"] for case in planned} == {"GROMACS/2024.4-foss-2023b"}
    assert {case["tpr"].rpartition("/")[2] for case in planned} == {"benchPEP-h.zip"}
    argv = [runner(gromacs_bench)(FakeRun(), check=True, **case)["command"] for case in planned]
    layouts = [(option(one, "--ranks"), option(one, "--threads")) for one in argv]
    assert layouts == [("120", "1"), ("60", "2"), ("30", "4")]
    assert {option(one, f"--{part}") for one in argv for part in ("nb", "pme")} == {"cpu"}


def test_nx_is_five_sessions_of_60_frames(runner: Any) -> None:
    size = "Standard_NV12ads_A10_v5"
    there = {**node("nv_a10_v5"), "vm_size": size, "gpus": [{"name": "NVIDIA A10-8Q"}]}
    [case] = cases(
        nv_a10.plan,
        "nv_a10",
        there,
        applied("nx-5-users", size, {}),
        {"programs": {"ffmpeg": "/usr/bin/ffmpeg"}},
    )
    argv = runner(nv_a10_bench)(FakeRun(), check=True, **case)["command"]
    assert argv.count("h264_nvenc") == 5
    assert case["frames_per_second"] == 60
