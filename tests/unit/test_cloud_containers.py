"""The emulated cloud's containers: what of them is plain functions. The rest: tests/cloud."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import urllib.error
import urllib.request

import pytest
import yaml
from emulated_cloud import (
    AllocationFailed,
    Machine,
    Reply,
    containers,
    images,
    instance_metadata,
    netns,
)
from helpers import ROOT

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


@pytest.mark.parametrize(
    ("image", "replica"),
    [
        ("microsoft-dsvm:ubuntu-hpc:2404:24.04.2026072901", "ubuntu-24.04"),
        ("Microsoft-DSVM:Ubuntu-HPC:2204:latest", "ubuntu-22.04"),
        ("microsoft-dsvm:ubuntu-hpc:2204:22.04.2024102301", "ubuntu-22.04-old"),
        ("almalinux:almalinux-hpc:8_10-hpc-gen2:8.10.2026072901", "alma-8.10"),
    ],
)
def test_an_image_is_its_replica(image: str, replica: str) -> None:
    assert images.replica_of(image) == replica


@pytest.mark.parametrize(
    ("image", "said"),
    [
        ("canonical:ubuntu-24_04-lts:server:latest", "replicas of microsoft-dsvm:ubuntu-hpc:2404,"),
        ("microsoft-dsvm:ubuntu-hpc:2004:latest", "replicas of microsoft-dsvm:ubuntu-hpc:2404,"),
        ("microsoft-dsvm:ubuntu-hpc:2404:24.04.2025010101", "builds of 20260729."),
        ("microsoft-dsvm:ubuntu-hpc:2404:", "builds of 20260729."),
        ("2404", "replicas of"),
        ("", "replicas of"),
    ],
)
def test_an_image_without_a_replica_is_refused_and_never_another(image: str, said: str) -> None:
    with pytest.raises(AllocationFailed, match=re.escape(said)) as refused:
        images.replica_of(image)
    assert refused.value.code == "PlatformImageNotFound"
    assert f"The platform image '{image}' is not available." in str(refused.value)


def test_every_image_that_the_catalog_pins_has_a_replica() -> None:
    pinned = {row["image"] for row in CATALOG["images"]}
    assert {images.replica_of(image) for image in pinned} <= {"ubuntu-24.04"}
    assert pinned


def test_every_replica_is_an_image_of_the_cloud() -> None:
    named = sorted(name for names in images.REPLICAS.values() for name in names)
    there = {path.stem for path in images.SHARED.glob("replicas/*.yml")} - {"common"}
    assert named == sorted(there)


@pytest.mark.parametrize(
    ("size", "machine"),
    [
        ("Standard_HB120rs_v3", "hb120rs_v3"),
        ("standard_hb120-96rs_v3", "hb120_96rs_v3"),
        ("Standard_ND96isr_H100_v5", "nd96isr_h100_v5"),
        ("Standard_D4s_v5", ""),
        ("lab_2core/..", ""),
    ],
)
def test_a_size_is_its_recorded_machine_or_none(size: str, machine: str) -> None:
    assert images.recorded(size) == machine


def test_a_recorded_gpu_machine_has_the_images_driver(tmp_path) -> None:
    assert images.write_machine("Standard_ND96isr_H100_v5", MACHINE.image, tmp_path)
    version = (tmp_path / "sys/module/nvidia/version").read_text()
    assert version == "580.173.02\n"
    assert not images.write_machine("Standard_D4s_v5", MACHINE.image, tmp_path / "none")
    assert not (tmp_path / "none").exists()


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


def test_the_routers_rules_are_taken_back_as_they_were_given() -> None:
    given = netns.router_rules("-A", "-I", "10.42.0.4", "10.90.0.100", outbound=False)
    taken = netns.router_rules("-D", "-D", "10.42.0.4", "10.90.0.100", outbound=False)
    assert re.sub("-[AI] ", "-D ", given) == taken
    assert given.count("\n-") == 3
    # Neither a public address nor a way out: nothing is let through.
    assert netns.router_rules("-A", "-I", "10.42.0.4", "", outbound=False).count("\n-") == 0
    assert netns.router_rules("-A", "-I", "10.42.0.4", "", outbound=True).count("\n-") == 1


@pytest.mark.parametrize(
    ("headers", "peer", "path", "said"),
    [
        ({"Metadata": "true"}, "169.254.169.254", "/metadata/instance", ""),
        ({"Metadata": "True"}, "169.254.169.254", "/metadata/instance", ""),
        ({}, "169.254.169.254", "/metadata/instance", "Required metadata header"),
        ({"Metadata": "1"}, "169.254.169.254", "/metadata/instance", "Required metadata header"),
        ({}, "169.254.169.254", "/metadata/versions", ""),
        (
            {"Metadata": "true", "X-Forwarded-For": ""},
            "169.254.169.254",
            "/metadata/instance",
            "X-Forwarded-For",
        ),
        ({"Metadata": "true"}, "10.42.0.5", "/metadata/instance", "the machine itself only"),
        (
            {"Metadata": "true", "Content-Length": "-1"},
            "169.254.169.254",
            "/metadata/instance",
            "Content-Length",
        ),
    ],
)
def test_the_metadata_service_refuses_what_azure_refuses(headers, peer, path, said) -> None:
    refused = instance_metadata.refused(path, headers, peer, "169.254.169.254")
    assert said in refused
    assert bool(refused) == bool(said)


def test_the_metadata_service_passes_a_request_on_and_says_what_it_is_told() -> None:
    asked = []

    def answer(*request):
        asked.append(request)
        if request[1] == "/metadata/instance":
            return Reply(200, {"compute": {}})
        if request[1] == "/metadata/text":
            return Reply(200, "Standard_HB120rs_v3")
        return Reply(429, {"error": "slow"}, {"Retry-After": "3"})

    at = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{at.getsockname()[1]}"
    service = instance_metadata.Service(at, answer)

    def get(path, data=None):
        request = urllib.request.Request(url + path, data, {"Metadata": "true"})
        with urllib.request.urlopen(request, timeout=10) as reply:
            return reply.headers["Content-Type"], reply.read()

    try:
        assert get("/metadata/instance?api-version=1&x=") == (
            "application/json; charset=utf-8",
            b'{"compute": {}}',
        )
        assert asked[-1] == ("GET", "/metadata/instance", {"api-version": "1", "x": ""}, b"")
        assert get("/metadata/text") == ("text/plain; charset=utf-8", b"Standard_HB120rs_v3")
        with pytest.raises(urllib.error.HTTPError) as slow:
            get("/metadata/scheduledevents", b'{"StartRequests": []}')
        assert (slow.value.code, slow.value.headers["Retry-After"]) == (429, "3")
        assert asked[-1] == ("POST", "/metadata/scheduledevents", {}, b'{"StartRequests": []}')
    finally:
        service.close()
    with pytest.raises(urllib.error.URLError):
        get("/metadata/instance")


def test_a_dead_process_is_known_from_one_that_has_its_number() -> None:
    own = containers.process(os.getpid())
    assert own == containers.process(os.getpid())
    child = subprocess.Popen(["sleep", "60"])
    said = containers.process(child.pid)
    assert said != own
    assert re.fullmatch(rf"{child.pid} \d+", said)
    child.kill()
    child.wait()
    assert containers.process(child.pid) == str(child.pid)


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


def test_a_program_that_ends_badly_is_one_sentence() -> None:
    with pytest.raises(images.Failed, match="sh -c echo no; exit 3 ended with status 3: no"):
        images.run(["sh", "-c", "echo no; exit 3"])
