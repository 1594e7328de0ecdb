"""The emulated cloud's containers: what of them is plain functions. The rest: tests/cloud."""

from __future__ import annotations

import re

import pytest
import yaml
from emulated_cloud import AllocationFailed, images, instance_metadata
from helpers import ROOT, parametrized

CATALOG = yaml.safe_load((ROOT / "catalog" / "azure.yml").read_text())


@parametrized(("image", "said"))
def test_an_image_without_a_replica_is_refused_and_never_another(image: str, said: str) -> None:
    with pytest.raises(AllocationFailed, match=re.escape(said)) as refused:
        images.replica_of(image)
    assert refused.value.code == "PlatformImageNotFound"
    assert f"The platform image '{image}' is not available." in str(refused.value)


def test_every_image_that_the_catalog_pins_has_a_replica() -> None:
    pinned = {row["image"] for row in CATALOG["images"]}
    assert {images.replica_of(image) for image in pinned} <= {"ubuntu-24.04"}
    assert pinned


@parametrized(("headers", "peer", "path", "said"))
def test_the_metadata_service_refuses_what_azure_refuses(headers, peer, path, said) -> None:
    refused = instance_metadata.refused(path, headers, peer, "169.254.169.254")
    assert said in refused
    assert bool(refused) == bool(said)
