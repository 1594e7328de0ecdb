"""The emulated cloud's containers: what of them is plain functions. The rest: tests/cloud."""

from __future__ import annotations

import json
import os
import re

import pytest
import yaml
from emulated_cloud import (
    AllocationFailed,
    Machine,
    containers,
    images,
    instance_metadata,
)
from helpers import ROOT, parametrized

CATALOG = yaml.safe_load((ROOT / "catalog" / "azure.yml").read_text())
USER = "azureuser"
MACHINE = Machine(
    id="/subscriptions/1/resourceGroups/g/providers/Microsoft.Compute/virtualMachines/node001",
    name="node001",
    size="Standard_HB120rs_v3",
    location="southcentralus",
    zone="",
    group="g",
    image="microsoft-dsvm:ubuntu-hpc:2404:24.04.2026072901",
    network="/subscriptions/1/network",
    range="10.42.0.0/16",
    address="10.42.0.4",
    user=USER,
    keys=("ssh-ed25519 AAAA one", "ssh-ed25519 BBBB two"),
    custom_data=b"#!/bin/sh\necho \xff\n",
)


@parametrized(("image", "replica"))
def test_an_image_is_its_replica(image: str, replica: str) -> None:
    assert images.replica_of(image) == replica


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


@parametrized(("size", "machine"))
def test_a_size_is_its_recorded_machine_or_none(size: str, machine: str) -> None:
    assert images.recorded(size) == machine


def test_the_seed_says_what_azures_source_says_and_leaves_custom_data_alone() -> None:
    written = containers.seed(MACHINE)
    folder = "var/lib/cloud/seed/nocloud"
    assert written[f"{folder}/user-data"] == MACHINE.custom_data
    about = json.loads(written[f"{folder}/meta-data"])
    assert about["local-hostname"] == "node001"
    assert about["public-keys"] == list(MACHINE.keys)
    assert "/" not in about["instance-id"]
    user = json.loads(written["etc/cloud/cloud.cfg.d/91_machine.cfg"])["system_info"]
    assert user["default_user"]["name"] == USER
    assert user["default_user"]["sudo"] == ["ALL=(ALL) NOPASSWD:ALL"]


@parametrized(("headers", "peer", "path", "said"))
def test_the_metadata_service_refuses_what_azure_refuses(headers, peer, path, said) -> None:
    refused = instance_metadata.refused(path, headers, peer, "169.254.169.254")
    assert said in refused
    assert bool(refused) == bool(said)


def test_only_what_dead_clouds_left_is_swept(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(containers, "CLOUDS", tmp_path)
    # As podman lists them.
    monkeypatch.setattr(containers, "run", lambda argv: "alive\nrestarted\nrestarted\ngone\n")
    cleared = []
    monkeypatch.setattr(containers, "_clear", cleared.append)
    number, began = containers.process(os.getpid()).split()
    for cloud, said in {
        "alive": f"{number} {began}",
        "renumbered": f"{number} {int(began) - 1}",
        "gone": "4194399 17",
        # Its process was ended as it was about to write.
        "cut": "",
    }.items():
        (tmp_path / cloud).mkdir()
        (tmp_path / cloud / "process").write_text(said)
    assert containers.sweep() == ["cut", "gone", "renumbered", "restarted"]
    assert cleared == ["cut", "gone", "renumbered", "restarted"]
