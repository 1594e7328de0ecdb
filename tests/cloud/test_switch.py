"""The login node of the emulated cloud ends a run whose controller is gone: cloud-init, systemd and
Python of the image in a container; part of `make cloud`."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from emulated_cloud import SUBSCRIPTION, Cloud, containers, images, serving
from provisioning import RUN, known, made
from stand_ins import left, podman
from trueup_controller.azure import self_destruct, template

GROUP = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/trueup-test"
DEPLOYMENT = f"{GROUP}/providers/Microsoft.Resources/deployments/trueup-{RUN}"
LOGIN = f"{GROUP}/providers/Microsoft.Compute/virtualMachines/login"
UBUNTU = "microsoft-dsvm:ubuntu-hpc:2404:24.04.2026072901"
# Its Python is 3.6.
ALMA = "almalinux:almalinux-hpc:8_10-hpc-gen2:8.10.2026072901"
# Until cloud-init has started the timer; of everything until nothing is left, on a busy host.
ARMED_SECONDS, GONE_SECONDS = 300, 300


class Site:
    """One run on the cloud, whose controller does nothing any more."""

    def __init__(self, cloud: Cloud, hardware: containers.Containers, image: str) -> None:
        self.cloud, self.hardware = cloud, hardware
        self.made = made({"count": 1}, image=image)
        self.tag("2999-01-01T00:00Z")
        key = {template.KEY: {"value": "ssh-ed25519 AAAA one"}}
        whole = template.template(self.made, known(), RUN, cloud.url)
        properties = {"mode": "Incremental", "template": whole, "parameters": key}
        self.ask("PUT", DEPLOYMENT, {"properties": properties})
        cloud.settle(600)

    def ask(self, method: str, path: str, body: Any = None) -> None:
        word = f"Bearer {self.cloud.token()}"
        with self.cloud.lock:
            reply = self.cloud.call(method, path, {"api-version": "2022-09-01"}, body, word)
        assert reply.status < 300, reply.document

    def tag(self, expires: str) -> None:
        body = template.resource_group(self.made, RUN)
        self.ask("PUT", GROUP, {**body, "tags": {**body["tags"], "expires": expires}})

    def inside(self, *argv: str) -> tuple[int, str]:
        """What a program does on the login node."""
        name = self.hardware.container(LOGIN)
        done = podman("exec", name, *argv, check=False)
        return done.returncode, done.stdout

    def deletions(self) -> list[str]:
        return [path for method, path, *_ in self.cloud.calls if method == "DELETE"]


@pytest.fixture(params=[UBUNTU, ALMA], ids=["ubuntu", "alma-8"])
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Site]:
    lacking = images.lacking(request.param)
    if lacking:
        pytest.skip(lacking)
    hardware = containers.Containers()
    cloud = Cloud(hardware)
    with contextlib.closing(cloud), serving(cloud, tmp_path, hardware.address):
        hardware.connect(cloud.metadata, tmp_path / "authority.pem")
        yield Site(cloud, hardware, request.param)
    assert left(hardware.id) == []


def until(seconds: float, true: Callable[[], bool]) -> bool:
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        if true():
            return True
        time.sleep(0.5)
    return False


def test_the_run_ends_after_its_tag_and_not_before(site: Site) -> None:
    timer = ("systemctl", "is-active", "trueup-expiry.timer")
    armed = until(ARMED_SECONDS, lambda: site.inside(*timer) == (0, "active\n"))
    assert armed, site.inside("systemctl", "status", "cloud-final", "trueup-expiry.timer")
    check = site.inside("sh", "-c", self_destruct.ARMED)
    assert check == (0, f"active\nrun {RUN} ends at 2999-01-01T00:00Z\n")
    ends = (datetime.now(UTC) + timedelta(seconds=70)).replace(second=0, microsecond=0)
    site.tag(ends.strftime("%Y-%m-%dT%H:%MZ"))
    asked = until(GONE_SECONDS, lambda: bool(site.deletions()))
    late = (datetime.now(UTC) - ends).total_seconds()
    assert asked, site.inside("journalctl", "--no-pager", "--unit", "trueup-expiry")
    assert 0 <= late <= self_destruct.WITHIN_MINUTES * 60
    assert site.deletions()[0].endswith("/virtualMachineScaleSets/nodes")
    assert until(GONE_SECONDS, lambda: not site.cloud.groups)
    assert site.cloud.resources == {}
    print(f"asked {late:.1f} s after expires")


@pytest.mark.parametrize("site", [ALMA], indirect=True, ids=["alma-8"])
def test_a_login_node_that_was_off_at_the_time_ends_the_run_when_it_is_on(site: Site) -> None:
    timer = ("systemctl", "is-enabled", "trueup-expiry.timer")
    assert until(ARMED_SECONDS, lambda: site.inside(*timer) == (0, "enabled\n"))
    site.hardware.stop(LOGIN)
    site.tag("2020-01-01T00:00Z")
    site.hardware.resume(LOGIN)
    assert until(GONE_SECONDS, lambda: not site.cloud.groups)
    assert site.cloud.resources == {}
