"""The emulated cloud's machines for real: needs root and podman; part of `make cloud`."""

from __future__ import annotations

import json
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from emulated_cloud import (
    AllocationFailed,
    Cloud,
    Machine,
    Reply,
    containers,
    images,
    netns,
    serving,
)

IMAGE = "microsoft-dsvm:ubuntu-hpc:2404:24.04.2026072901"
USER = "azureuser"
CUSTOM = b"""#cloud-config
write_files:
  - {path: /etc/by-custom-data, content: hello}
runcmd:
  - echo once >> /ran
"""
ALONE = "/etc/ssh/ssh_host_ed25519_key.pub"


def machine(name: str, address: str, **more) -> Machine:
    given = {
        "size": "Standard_HB120rs_v3",
        "location": "southcentralus",
        "zone": "",
        "group": "g",
        "image": IMAGE,
        "network": "/subscriptions/1/networks/One",
        "range": "10.42.0.0/16",
        "user": USER,
        "custom_data": CUSTOM,
    }
    return Machine(id=f"/subscriptions/1/{name}", name=name, address=address, **{**given, **more})


def answer(id, method, path, query, body) -> Reply:  # noqa: A002
    return Reply(200, {"id": id, "asked": [method, path, query, body.decode()]})


class Site:
    """A cloud with a login node, two nodes and a way to them."""

    def __init__(self, hardware, cloud, folder: Path) -> None:
        self.hardware, self.cloud, self.folder = hardware, cloud, folder
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / "key")], check=True
        )
        self.keys = ((folder / "key.pub").read_text().strip(),)
        self.public = str(hardware.public_range).replace(".0/24", ".100")
        self.login = machine(
            "login", "10.42.128.4", keys=self.keys, public=self.public, size="Standard_D4s_v5"
        )
        self.one = machine("node001", "10.42.0.4", keys=self.keys)
        self.two = machine("node002", "10.42.0.5", keys=self.keys, outbound=False)
        (folder / "config").write_text(
            f"""\
Host *
  User {USER}
  IdentityFile {folder}/key
  IdentitiesOnly yes
  UserKnownHostsFile {folder}/known_hosts
  StrictHostKeyChecking accept-new
  ConnectTimeout 30
Host 10.42.*
  ProxyJump {USER}@{self.public}
"""
        )

    def inside(self, of: Machine, *argv: str, check: bool = True) -> subprocess.CompletedProcess:
        name = self.hardware.container(of.id)
        return podman("exec", name, *argv, check=check)

    def ssh(self, address: str, command: str) -> str:
        argv = ["ssh", "-F", str(self.folder / "config"), address, command]
        return subprocess.run(argv, check=True, capture_output=True, text=True).stdout

    def begun(self, of: Machine) -> subprocess.CompletedProcess:
        """cloud-init's last word."""
        return self.inside(of, "cloud-init", "status", "--wait", check=False)


def podman(*argv: str, check: bool = True) -> subprocess.CompletedProcess:
    return subprocess.run(
        ["podman", *argv],
        env={**os.environ, **images.PODMAN},
        check=check,
        capture_output=True,
        text=True,
    )


def left(cloud: str) -> list[str]:
    """What there is of a cloud on this host."""
    names = podman("ps", "--all", "--filter", f"label={containers.LABEL}={cloud}", "--quiet")
    links = [path.name for path in Path("/sys/class/net").glob(f"tu{cloud}*")]
    folder = [str(path) for path in [containers.CLOUDS / cloud] if path.exists()]
    return names.stdout.split() + links + folder + netns.namespaces(f"trueup-cloud-{cloud}")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    shared = folder / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    hardware = containers.Containers(mounts=[f"{shared}:/shared"], shm_size="96m")
    try:
        with serving(Cloud(), folder, hardware.address) as cloud:
            hardware.connect(answer, folder / "authority.pem")
            made = Site(hardware, cloud, folder)
            with ThreadPoolExecutor() as pool:
                list(pool.map(hardware.start, (made.login, made.one, made.two)))
            for one in (made.login, made.one, made.two):
                begun = made.begun(one)
                assert (begun.returncode, "status: done" in begun.stdout) == (0, True), begun
            yield made
    finally:
        hardware.close()
    assert left(hardware.id) == []


def test_custom_data_ran_once_and_the_admin_user_is_there(site) -> None:
    for address in (site.public, site.one.address):
        said = site.ssh(address, "cat /etc/by-custom-data /ran; sudo id -u; id -un")
        assert said.split() == ["helloonce", "0", USER]
    assert site.ssh(site.one.address, "hostname").strip() == "node001"


def test_a_node_is_reached_through_the_login_node_and_not_otherwise(site) -> None:
    site.ssh(site.two.address, "true")
    journal = site.inside(site.two, "journalctl", "--unit", "ssh", "--output", "cat").stdout
    came = {line.split(" from ")[1].split()[0] for line in journal.splitlines() if " from " in line}
    assert came == {site.login.address}
    # The host's route is that of any foreign address, whoever answers there.
    assert by(site.two.address) == by("10.255.0.4")


def by(address: str) -> tuple[str, str]:
    """Device and gateway by which this host would reach an address."""
    argv = ["ip", "-j", "route", "get", address]
    said = subprocess.run(argv, check=False, capture_output=True, text=True).stdout or "[{}]"
    return json.loads(said)[0].get("dev", ""), json.loads(said)[0].get("gateway", "")


def test_host_keys_are_each_machines_own(site) -> None:
    nodes = (site.login, site.one, site.two)
    assert len({site.inside(one, "cat", ALONE).stdout for one in nodes}) == len(nodes)


def test_machines_know_each_other_by_name(site) -> None:
    hosts = site.inside(site.one, "getent", "hosts", "login", "node001", "node002").stdout
    assert [line.split() for line in hosts.splitlines()] == [
        ["10.42.128.4", "login"],
        ["10.42.0.4", "node001"],
        ["10.42.0.5", "node002"],
    ]


def test_the_metadata_service_is_the_machines_own(site) -> None:
    url = "http://169.254.169.254/metadata/instance?api-version=2021-02-01"
    curl = ("curl", "--silent", "--max-time", "20", "--write-out", " %{http_code}")
    for one in (site.one, site.two):
        said = site.inside(one, *curl, "--header", "Metadata: true", url).stdout
        text, status = said.rsplit(" ", 1)
        assert (status, json.loads(text)["id"]) == ("200", one.id)
    assert site.inside(site.one, *curl, url).stdout.endswith(" 400")
    proxied = ("--header", "Metadata: true", "--header", "X-Forwarded-For: 10.42.0.5")
    assert site.inside(site.one, *curl, *proxied, url).stdout.endswith(" 400")
    # From the outside, by whoever has a route: a packet to it that comes in by eth0.
    router = next(name for name in netns.namespaces(f"trueup-cloud-{site.hardware.id}-net"))
    netns.ip(f"route add 169.254.169.254 via {site.one.address}", namespace=router)
    try:
        argv = ["ip", "netns", "exec", router, "curl", "--silent", "--max-time", "5"]
        outside = subprocess.run(
            [*argv, "--header", "Metadata: true", url], capture_output=True, text=True, check=False
        )
        assert '"id"' not in outside.stdout
    finally:
        netns.ip("route del 169.254.169.254", namespace=router)


def test_the_cloud_is_called_over_trusted_tls_by_whoever_has_a_way_out(site) -> None:
    url = f"{site.cloud.url}/subscriptions"
    curl = ("curl", "--silent", "--max-time", "5", "--output", "/dev/null")
    status = ("--write-out", "%{http_code}")
    for one in (site.login, site.one):
        assert site.inside(one, *curl, *status, url).stdout == "401"
    asks = f"import urllib.request as u; u.urlopen({url!r}, timeout=20)"
    by_python = site.inside(site.one, "python3", "-c", asks, check=False)
    assert "HTTP Error 401" in by_python.stderr
    # No way out of its subnet.
    assert site.inside(site.two, *curl, url, check=False).returncode == 28


@pytest.mark.parametrize(
    ("data", "status", "said"),
    [
        (b"#!/bin/sh\nexit 3\n", 1, "extended_status: error"),
        (b"#cloud-config\nwrite_files: 3\n", 1, "extended_status: error"),
        # What is no YAML, and what is nothing that it knows.
        (b"#cloud-config\nruncmd: [\n", 2, "extended_status: degraded"),
        (b"hello\n", 2, "extended_status: degraded"),
    ],
)
def test_wrong_custom_data_is_told(site, data, status, said) -> None:
    wrong = machine("wrong", "10.42.0.9", custom_data=data)
    site.hardware.start(wrong)
    assert site.begun(wrong).returncode == status
    long = site.inside(wrong, "cloud-init", "status", "--long", check=False)
    assert said in long.stdout
    site.hardware.delete(wrong.id)


@pytest.mark.parametrize(
    ("more", "error", "said"),
    [
        ({"image": "canonical:ubuntu:server:latest"}, AllocationFailed, "not available"),
        ({"address": "10.43.0.4"}, ValueError, "is not in the virtual network's 10.42.0.0/16"),
        ({"public": "20.0.0.1"}, ValueError, "public address 20.0.0.1 is not in"),
        ({"address": "10.42.0.4"}, images.Failed, "File exists"),
        ({"size": "a\0"}, ValueError, "null byte"),
    ],
)
def test_what_cannot_be_made_leaves_nothing(site, more, error, said) -> None:
    before = left(site.hardware.id)
    with pytest.raises(error, match=said):
        site.hardware.start(machine(**{"name": "x", "address": "10.42.0.30", **more}))
    assert left(site.hardware.id) == before
