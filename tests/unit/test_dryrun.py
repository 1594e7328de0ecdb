"""The dry run of recipes: each as it is shipped, and with one need after the other taken away."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from action import azure_deployment
from helpers import parametrized
from provisioning import NOW, ROOT
from trueup_analysis.figures import azure
from trueup_controller import dryrun
from trueup_node.errors import BadInput

# What only a user can say, and dummies of what only a user has.
OWN: dict[str, Any] = {"owner": "geophysics", "ssh_from": ["203.0.113.7/32"]}
SECRETS = {"HF_TOKEN": "dummy", "VLLM_API_KEY": "dummy"}
LICENCES = {"accepted_licences": ["llama3.1"]}
PRICED = {"prices": {"storage": 1.0}}
WHEELS = {"vllm_pip_find_links": "/srv/wheels"}
OTHER = "almalinux:almalinux-x86_64:9-gen2:9.6.2026072901"


@pytest.fixture
def plan(tmp_path: Path) -> Any:
    """The plan of a recipe with members of a user's file over it."""

    def planned(recipe: str, **more: Any) -> azure.Plan:
        path = tmp_path / "own.yml"
        path.write_text(yaml.safe_dump({**OWN, **more}), encoding="utf-8")
        return azure.plan(recipe, path, now=NOW)

    return planned


@parametrized(("recipe", "variables"))
def test_a_program_that_the_user_names_is_taken_to_be_there(
    plan: Any, recipe: str, variables: dict[str, Any]
) -> None:
    made = plan(recipe, **LICENCES, **PRICED, variables=variables)
    assert made.missing(SECRETS) == []


# A preset wins over a file of variables.
PLAIN = {"trueup_preset": "", "trueup_benchmarks": ["fio"]}
SERVES = {"trueup_preset": "", "trueup_benchmarks": ["vllm"]}
# Of each: recipe, variables that a role refuses or cannot measure with, and words of the sentence.
REFUSED = {
    "misspelt": ("devito-hbv3", {"devito_shap": "64x64x64"}, "devito_shap: the role devito has no"),
    "of another type": (
        "eda-storage",
        {**PLAIN, "fio_workloads": {"a": 1}},
        "fio_workloads is {'a': 1}",
    ),
    "out of range": (
        "eda-storage",
        {**PLAIN, "fio_runtime_seconds": -1},
        "fio_runtime_seconds is -1",
    ),
    "no variable of plays": (
        "eda-storage",
        {"trueup_benchmrks": ["fio"]},
        "there is no such variable; did you mean trueup_benchmarks?",
    ),
    "refused": ("eda-storage", {"fio_directory": "shared"}, "fio_directory is shared: give a path"),
    "of two": (
        "eda-storage",
        {**PLAIN, "fio_runtime_seconds": 900, "fio_timeout_seconds": 600},
        "fio_timeout_seconds 600 must be longer",
    ),
    "without EESSI": (
        "gromacs-nc-a100",
        {"trueup_join_groups": []},
        "cannot be loaded from /cvmfs/software.eessi.io/versions/2023.06/init/lmod/bash",
    ),
    "without a module": (
        "gromacs-nc-a100",
        {
            "trueup_preset": "",
            "trueup_benchmarks": ["gromacs"],
            "gromacs_source": "eessi",
            "eessi_version": "2026.06",
        },
        "catalog/eessi.yml knows no module",
    ),
    "no PyTorch": (
        "ndv4-training",
        {"trueup_preset": "", "trueup_benchmarks": ["gemm"]},
        "gemm: /usr/bin/python3 has",
    ),
    "unknown": (
        "eda-storage",
        {"trueup_preset": "", "trueup_benchmarks": ["foi"]},
        "foi: no benchmark of that name",
    ),
    "removed": ("devito-hbv3", {"compiler_packages": ["gcc"]}, "compiler_packages was removed:"),
    "of the family": ("devito-hbv3", {"hpcx_variables": "x"}, "hpcx_variables is 'x': it must be"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_the_plan_of_every_role_is_made_before_azure_is_asked(plan: Any, case: str) -> None:
    recipe, variables, words = REFUSED[case]
    found = plan(recipe, **MET, variables=variables).missing(SECRETS)
    assert [need for need, _ in found] == ["plan"]
    assert words in found[0][1]


def test_profiles_without_their_data_are_named_before_azure_is_asked(plan: Any) -> None:
    made = plan("llama-a100", **MET, variables={"vllm_downloads_allowed": False})
    texts = [text for _, text in made.missing(SECRETS) if "vllm_datasets" in text]
    assert [text.rpartition(" ")[2] for text in texts] == [
        *("chat.", "classification.", "code_generation.")
    ]


MET = {**LICENCES, **PRICED}
# Of each need: the recipe, what takes it away, and words of the refusal.
TAKEN: dict[str, tuple[str, dict[str, Any], dict[str, str], list[str]]] = {
    "token": ("llama-a100", {}, {}, ["no Hugging Face token", "export HF_TOKEN"]),
    "licence": (
        "llama-a100",
        {"accepted_licences": []},
        SECRETS,
        ["under the licence llama3.1", "accepted_licences: [llama3.1]"],
    ),
    "key": (
        "nd-h200-deepseek",
        {"generated_secrets": []},
        {},
        ["r1 listens on 0.0.0.0", "export VLLM_API_KEY", "generated_secrets"],
    ),
    "index": (
        "cpu-llama",
        {"variables": {"vllm_pip_find_links": ""}},
        SECRETS,
        ["torch==2.13.0+cpu is not on PyPI", "vllm_pip_find_links"],
    ),
    "reboot": (
        "nd-h100-deepseek",
        {"variables": {"vllm_reboot_allowed": False}},
        {},
        ["deep_ep", "vllm_reboot_allowed: true"],
    ),
    "reboot of Windows": (
        "nx-avd",
        {"variables": {"fslogix_reboot_allowed": False}},
        {},
        ["FSLogix", "fslogix_reboot_allowed: true"],
    ),
    "reboot for the driver": (
        "nd-h200-deepseek",
        {"variables": {"gpu_driver_from_image": "replace", "gpu_driver_version": "580.126.16"}},
        {},
        ["580.126.16 replaces 580.173.02", "gpu_driver_reboot_allowed: true"],
    ),
    "driver": (
        "nd-h200-deepseek",
        {
            "variables": {
                "gpu_driver_from_image": "replace",
                "gpu_driver_version": "570.172.08",
                "gpu_driver_reboot_allowed": True,
            }
        },
        {},
        ["vllm: its wheels are for CUDA 13.0.96", "driver 580 or newer", "have 570.172.08"],
    ),
    "driver of training": (
        "ndv4-training",
        {
            "variables": {
                "gpu_driver_from_image": "replace",
                "gpu_driver_version": "535.1",
                "gpu_driver_reboot_allowed": True,
            }
        },
        {},
        ["training: its wheels are for CUDA 13", "have 535.1"],
    ),
    "disk": (
        "nd-h200-deepseek",
        {"variables": {"vllm_model_cache": "/var/lib/models"}},
        {},
        ["GiB on /, which has 256 GiB", "nodes.os_disk_gib"],
    ),
    "price": (
        "eda-storage",
        {"prices": {}},
        {},
        ["no price of Azure NetApp Files (Ultra, 4 TiB)", "prices: {storage: ...}"],
    ),
    "size of the preset": (
        "devito-hbv3",
        {"nodes": {"size": "Standard_HB120-96rs_v3"}},
        {},
        ["preset devito-article is for Standard_HB120rs_v3", "Standard_HB120-96rs_v3"],
    ),
    "endpoint": (
        "llama-a100",
        {"variables": {**SERVES, "vllm_endpoints": []}},
        SECRETS,
        ["vllm_endpoints is empty"],
    ),
    "memory": (
        "llama-a100",
        {"variables": {**SERVES, "vllm_endpoints": [{"name": "r1", "recipe": "deepseek-r1-h200"}]}},
        SECRETS,
        ["vllm: r1: "],
    ),
}


@pytest.mark.parametrize("need", TAKEN)
def test_a_need_that_is_taken_away_is_named_before_azure_is_asked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, need: str
) -> None:
    recipe, changes, secrets, words = TAKEN[need]
    for name in SECRETS:
        monkeypatch.delenv(name, raising=False)
    for name, value in secrets.items():
        monkeypatch.setenv(name, value)
    variables = {**(WHEELS if recipe == "cpu-llama" else {}), **changes.get("variables", {})}
    path = tmp_path / "own.yml"
    path.write_text(yaml.safe_dump({**OWN, **MET, **changes, "variables": variables}))
    run = f"{azure_deployment.datetime.now(azure_deployment.UTC):%Y%m%dT%H%M%SZ}-7c1e"
    with pytest.raises(BadInput) as raised:
        azure_deployment.planned(run, recipe, str(path), "")
    text = str(raised.value)
    assert [word for word in words if word not in text] == []


def test_everything_that_is_missing_is_in_one_list(plan: Any) -> None:
    found = plan("cpu-llama").missing({})
    assert [need for need, _ in found] == ["token", "licence", "index"]


def test_an_image_of_an_old_system_is_refused_by_glibc(plan: Any) -> None:
    made = plan("llama-a100", **LICENCES)
    known = made.known
    row = {
        "families": [],
        "image": made.made.image,
        "system": "almalinux-8.10",
        "python": "3.6",
        "cuda": "13.0",
    }
    old = azure.Catalog(known.sizes, {**known.facts, "images": [row]}, known.sold, known.builds)
    found = dryrun.missing(made.made, old, SECRETS, ROOT)
    assert {need for need, _ in found} == {"plan"}
    text = " ".join(text for _, text in found)
    assert "almalinux 8.10 has glibc 2.28, and llguidance 1.7.6 has no wheel" in text


def test_an_image_without_cuda_is_refused_for_a_gpu_recipe(plan: Any) -> None:
    made = plan("llama-a100", **LICENCES)
    known = made.known
    row = {"families": [], "image": made.made.image, "system": "ubuntu-24.04", "python": "3.12"}
    bare = azure.Catalog(known.sizes, {**known.facts, "images": [row]}, known.sold, known.builds)
    [(need, text)] = dryrun.missing(made.made, bare, SECRETS, ROOT)
    assert need == "plan"
    assert "there is no /usr/local/cuda/bin/nvcc" in text


def test_an_image_that_the_catalog_does_not_have_is_said_to_be_unchecked(plan: Any) -> None:
    made = plan("llama-a100", **LICENCES, image=OTHER)
    assert (made.missing(SECRETS), len(made.warnings())) == ([], 1)
    assert f"the image {OTHER} is not in catalog/azure.yml" in made.warnings()[0]


def test_another_version_of_an_image_is_planned_by_the_known_one(plan: Any) -> None:
    image = "microsoft-dsvm:ubuntu-hpc:2404:24.04.2026052501"
    made = plan("llama-a100", **LICENCES, image=image)
    assert made.missing(SECRETS) == []
    assert [text.startswith(f"the image {image} is planned as") for text in made.warnings()] == [
        True
    ]


def test_an_image_that_nobody_names_is_refused(plan: Any) -> None:
    with pytest.raises(BadInput, match="image is empty, and none is pinned for ndv2"):
        plan("llama-a100", nodes={"size": "Standard_ND40rs_v2"}, region="westus2")


def test_storage_that_nothing_writes_to_is_warned_of(plan: Any) -> None:
    made = plan("ndv4-training", variables={"training_save_directory": ""})
    assert len(made.warnings()) == 1
    assert "nothing of this run writes to the 8 TiB of storage (amlfs)" in made.warnings()[0]


@parametrized(("given", "text"))
def test_wrong_values_are_refused(plan: Any, given: dict[str, Any], text: str) -> None:
    with pytest.raises(BadInput) as raised:
        plan("eda-storage", **given)
    assert text in str(raised.value)
