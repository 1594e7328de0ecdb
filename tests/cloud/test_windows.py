"""Session hosts of Azure Virtual Desktop from sign-in to a drained and deleted pool, by `make
azure`. Each host is a simulated Windows host in the emulated cloud: no Windows runs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from conftest import Site, emulated
from emulated_cloud import Machine, desktops
from simulated_windows import File, Host, avd
from windows import fslogix, grid

SHARE = "stnx.file.core.windows.net"
PROFILES = {"Enabled": 1, "VHDLocations": [rf"\\{SHARE}\profiles"], "SizeInMBs": 30000}
PROFILES_KEY = r"HKLM:\SOFTWARE\FSLogix\Profiles"
AGENT_KEY = r"HKLM:\SOFTWARE\Microsoft\RDInfraAgent"
ANA = "11111111-2222-3333-4444-555555555555"
FFMPEG, ZIP = "https://mirror.example/ffmpeg-simulated.zip", b"simulated zip"
PROGRAM = r"ffmpeg-simulated\bin\ffmpeg.exe"
VARIABLES = {
    # Containers and simulated hosts have not the cores of their size.
    "trueup_health_benchmarks": [],
    "fslogix_settings": {"profiles": PROFILES},
    "fslogix_entra_kerberos": True,
    "avd_session_host_users": [{"id": ANA, "type": "User"}],
    # The controller downloads nothing: it has no way out here.
    "windows_gpu_checksums": {"574.24": File(grid.program()).digest("sha256")},
    "nv_a10_ffmpeg_url": FFMPEG,
    "nv_a10_ffmpeg_sha256": File(ZIP).digest("sha256"),
    "avd_session_host_drain_seconds": 5,
}


def offer(host: Host, _: Machine) -> None:
    """What the hosts can download, reach and install."""
    host.endpoints.append(f"{SHARE}:445")
    host.downloads[FFMPEG] = File(ZIP, holds={PROGRAM: File(b"simulated ffmpeg")})
    avd.offer(host)
    grid.offer(host)
    fslogix.offer(host)


def parameters(site: Site, **more: Any) -> str:
    return site.parameters(VARIABLES, **more)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    broker, hosts = {"url": ""}, {}

    def prepare(host: Host, machine: Machine) -> None:
        offer(host, machine)
        host.broker_url = broker["url"]
        hosts[machine.name] = host

    with emulated(tmp_path, windows=prepare) as found:
        found.cloud.directory.add(ANA)
        broker["url"] = f"{found.cloud.url}{desktops.BROKER}"
        # The simulated agents speak to the cloud as hosts would.
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "authority.pem"))
        yield found, hosts


def test_session_hosts_from_nothing_to_a_drained_and_deleted_pool(
    site: tuple[Site, dict[str, Host]], tmp_path: Path
) -> None:
    cloud, hosts = site
    status, said = cloud.make("nx-avd", parameters(cloud), MAX_USD_PER_HOUR="5")
    print(said)
    assert status == 0, said[-8000:]
    assert cloud.left() == []
    assert "host pool nx-avd: 2 hosts drained" in said
    for benchmark in ("node_state", "nv_a10"):
        found = cloud.records(benchmark)
        ends = {(one["vm_size"], one["outcome"], one["offer"]) for one in found}
        assert ends == {("Standard_NV12ads_A10_v5", "ok", "payg")}
        assert {node for one in found for node in one["nodes"]} == set(hosts)
    assert (tmp_path / "report" / "index.html").exists()
    for host in hosts.values():
        assert (host.gpu_driver, host.gpus[0].error_code) == ("574.24", 0)
        assert host.registry.value(PROFILES_KEY, "SizeInMBs") == 30000
        assert host.registry.value(AGENT_KEY, "IsRegistered") == 1
        [secret] = host.users.values()
        assert secret not in host.said() + said + (tmp_path / "report" / "index.html").read_text()


def test_a_kept_run_changes_nothing_again_and_its_users_are_told_at_the_end(
    site: tuple[Site, dict[str, Host]],
) -> None:
    cloud, hosts = site
    given = parameters(cloud)
    status, said = cloud.make("nx-avd", given, KEEP="yes")
    assert status == 0, said[-8000:]
    run = re.findall(r"^Azure run (\S+)$", said, re.MULTILINE)[-1]
    boots = [host.boots for host in hosts.values()]
    status, said = cloud.make("nx-avd", given, RUN=run, KEEP="yes")
    assert status == 0, said[-8000:]
    assert "there before, nothing changed" in " ".join(said.split())
    counted = re.findall(r"^node00\d .* changed=(\d+) ", said, re.MULTILINE)
    assert (counted, [host.boots for host in hosts.values()]) == (["0", "0"], boots)
    desktops.set_host(cloud.cloud, "node001", sessions=[{"user": "ana", "leaves": True}])
    done = cloud.play("teardown.yml", run)
    assert (done.returncode, cloud.left()) == (0, []), done.stdout
    assert "1 sessions are left" in done.stdout
    assert "host pool nx-avd: 2 hosts drained" in done.stdout
