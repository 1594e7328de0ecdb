"""The role eessi, planned for the families and systems that may get it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from role_plans import asked, node
from trueup_controller.sites.eessi import asks, plan

FAMILIES = ("local", "hbv3", "nd_h100_v5", "nv_a10_v5")
SYSTEMS = {
    "debian-12": "bookworm-prod",
    "ubuntu-22.04": "jammy-prod",
    "ubuntu-24.04": "noble-prod",
    "almalinux-9": None,
}
SUM = "a" * 64
SCRATCH = "/mnt/resource_nvme"
FOUND = {"scratch": SCRATCH, "stdout": '{"problems": [], "set_up": []}'}
CLIENT, SERVERS = "/etc/cvmfs/default.local", "/etc/cvmfs/domain.d/eessi.io.local"
SHELL, SETTINGS = "/opt/trueup/eessi/eessi.sh", "/etc/trueup/eessi.json"
AUTOFS = "/etc/systemd/system/autofs.service.d/trueup-eessi.conf"
UNIT = "/etc/systemd/system/trueup-eessi-gpu.service"
PROXIES = ["http://squid-1:3128", "http://squid-2:3128"]


def values(on: dict[str, Any], **options: Any) -> dict[str, Any]:
    planned = plan(asked("eessi", on, FOUND, **options))
    assert planned.refused == []
    return planned.as_result()


def refused(on: dict[str, Any] | None = None, **options: Any) -> list[str]:
    return plan(asked("eessi", on or node("hbv3"), FOUND, **options)).refused


def contents(result: dict[str, Any]) -> dict[str, str]:
    """By path the content, or else the state."""
    return {one["path"]: one.get("content") or one["state"] for one in result["files"]}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("system", SYSTEMS)
def test_what_a_family_gets_on_each_system(family: str, system: str) -> None:
    on = node(family, system)
    result = values(on)
    repository = result["repository"]
    assert repository.get("suite") == SYSTEMS[system]
    assert repository["url"] == (
        "http://cvmrepo.s3.cern.ch/cvmrepo/yum/cvmfs/EL/9/x86_64/"
        if system == "almalinux-9"
        else "http://cvmrepo.s3.cern.ch/cvmrepo/apt/"
    )
    assert result["pins"] == [
        {"name": "cvmfs", "version": "2.13.3*"},
        {"name": "cvmfs-config-default", "version": "*"},
    ]
    assert (result["package"], result["warnings"]) == ({}, [])
    files = contents(result)
    nvme, gpus = bool(on["nvme"]), family.startswith("n")
    cache = f"{SCRATCH}/cvmfs" if nvme else "/var/lib/cvmfs"
    assert f'CVMFS_CACHE_BASE="{cache}"\n' in files[CLIENT]
    assert ("After=mnt-resource_nvme.mount\n" in files[AUTOFS]) is nvme
    assert (files[AUTOFS] == "absent") is not nvme
    assert files[SERVERS] == "absent"
    assert ("OMPI_MCA_btl='^uct,ofi'" in files[SHELL]) is (family in {"hbv3", "nd_h100_v5"})
    assert files[SHELL].endswith("\n. /cvmfs/software.eessi.io/versions/2023.06/init/lmod/bash\n")
    wants = UNIT.replace("system/trueup", "system/multi-user.target.wants/trueup")
    program = "/usr/local/libexec/trueup/eessi"
    assert files[program] == "#!/usr/bin/python3 -I\n"
    if gpus:
        assert f"ExecStart={program} link {SETTINGS}\n" in files[UNIT]
        assert (files[wants], result["link"]) == ("link", [program, "link", SETTINGS])
    else:
        assert (files[UNIT], files[wants], result["link"]) == ("absent", "absent", [])
    settings = json.loads(files[SETTINGS])
    assert (settings["gpus"], settings["scratch"]) == (gpus, SCRATCH if nvme else "")
    command = asks(asked("eessi", on, FOUND))["ansible.builtin.command"]
    assert (command["argv"][:4], json.loads(command["argv"][4])) == (
        ["/usr/bin/python3", "-I", "-", "look"],
        settings,
    )
    assert command["stdin"].startswith('"""EESSI')
    assert [one["source"] for one in result["files"] if one["path"] == program] == [
        "roles/sites/eessi/files/eessi.py"
    ]


@pytest.mark.parametrize(
    ("version", "links"),
    [
        ("2023.06", "/opt/eessi/host_injections/nvidia/aarch64/host"),
        ("2025.06", "/opt/eessi/nvidia"),
    ],
)
def test_links_are_where_the_version_has_them(version: str, links: str) -> None:
    result = values(node("nd_h100_v5", architecture="aarch64"), version=version)
    files = contents(result)
    assert json.loads(files[SETTINGS])["links"] == links
    assert ("OMPI" in files[SHELL]) is (version == "2023.06")


def test_a_cache_elsewhere_waits_for_its_own_file_system() -> None:
    result = values(node("hbv4"), cache_base="/data/cvmfs", cache_mb=20000)
    files = contents(result)
    assert "\nAfter=local-fs.target remote-fs.target\n" in files[AUTOFS]
    assert files[AUTOFS].endswith("--owner=cvmfs --group=cvmfs /data/cvmfs\n")
    assert 'CVMFS_QUOTA_LIMIT="20000"' in files[CLIENT]
    assert json.loads(files[SETTINGS])["scratch"] == ""
    # A container's disks are its host's.
    assert contents(values(node("hbv4", container=True)))[AUTOFS] == "absent"


def test_proxies_and_servers_of_a_site() -> None:
    servers = ["http://a/cvmfs/@fqrn@", "http://b/cvmfs/@fqrn@"]
    result = values(node("hbv3"), http_proxies=PROXIES, servers=servers)
    files = contents(result)
    assert 'CVMFS_HTTP_PROXY="http://squid-1:3128|http://squid-2:3128"\n' in files[CLIENT]
    assert "PROFILE" not in files[CLIENT]
    assert f'CVMFS_SERVER_URL="{";".join(servers)}"\n' in files[SERVERS]
    assert result["client_files"] == [CLIENT, SERVERS]


@pytest.mark.parametrize(
    ("clients", "proxies", "needed"),
    [(2, [], 2), (1000, [], 2), (1001, PROXIES, 3), (0, PROXIES[:1], 2)],
)
def test_too_few_proxies_are_warned_of(clients: int, proxies: list[str], needed: int) -> None:
    group = {"eessi": [f"n{number}" for number in range(clients)]}
    inputs = asked("eessi", node("hbv3"), FOUND, http_proxies=proxies)
    [sentence] = plan(replace(inputs, groups=group)).values["warnings"]
    path = f"{len(proxies)} of the site's proxies" if proxies else "EESSI's servers directly"
    assert f"eessi: {max(clients, 1)} clients load" in sentence
    assert path in sentence
    assert sentence.endswith(f"at least {needed} (eessi_http_proxies).")
    enough = [f"http://squid-{number}:3128" for number in range(needed)]
    inputs = asked("eessi", node("hbv3"), FOUND, http_proxies=enough)
    assert plan(replace(inputs, groups=group)).values["warnings"] == []


@pytest.mark.parametrize("system", ["debian-12", "almalinux-9"])
def test_eessis_own_package_is_compared_and_installed_from_its_file(system: str) -> None:
    given = {"version": "0.6.0*", "url": "https://mirror/x/eessi.pkg", "sha256": SUM}
    result = values(node("local", system), config_package=given)
    assert [pin["name"] for pin in result["pins"]] == ["cvmfs"]
    package = result["package"]
    assert package["pins"] == [{"name": "cvmfs-config-eessi", "version": "0.6.0*"}]
    assert (package["url"], package["checksum"]) == (given["url"], f"sha256:{SUM}")
    assert package["file"] == "/var/cache/trueup-eessi.pkg"


def test_a_mirror_stands_for_cernvms_repository() -> None:
    mirror = {"name": "mirror", "url": "http://mirror/"}
    on = node("local", "debian-12", distribution_version="13")
    assert values(on, cvmfs_repository=mirror)["repository"] == mirror


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"version": "2024.06"}, "eessi_version is 2024.06: catalog/eessi.yml has 2023.06, 2025"),
        ({"config_package": {"url": "https://x/y.deb"}}, "must have version, url and sha256"),
        (
            {"config_package": {"version": "1", "url": "https://x/y.deb", "sha256": "x"}},
            "give the sum of the file that you looked into",
        ),
        # A shell reads the configuration, as root, and all may read it.
        (
            {"http_proxies": ["squid", "http://$(id):1", "http://u:p@s:1"]},
            "has squid, http://$(id):1, http://u:p@s:1: write a proxy as",
        ),
        ({"servers": ["http://x/"]}, "eessi_servers has http://x/: write a server as"),
        ({"cache_mb": 999}, "eessi_cache_mb is 999: CernVM-FS wants at least 1000 MB"),
        ({"cache_base": "data"}, "must be an absolute path of letters"),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(options: dict[str, Any], sentence: str) -> None:
    said = refused(**options)
    assert len(said) == 1
    assert sentence in said[0]


def test_what_the_program_finds_is_refused_or_set_up() -> None:
    given = {"scratch": SCRATCH, "stdout": '{"problems": ["no FUSE."], "set_up": ["user cvmfs"]}'}
    assert plan(asked("eessi", node("hbv3"), given)).refused == ["eessi: no FUSE."]
    given["stdout"] = given["stdout"].replace('"no FUSE."', "")
    assert plan(asked("eessi", node("hbv3"), given)).values["is_new"] is True
    assert values(node("hbv3"))["is_new"] is False


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"distribution_version": "13", "os": "Debian 13"}, "repository known for Debian 13"),
        ({"package_manager": None, "os": "SLES 15"}, "eessi: SLES 15 has neither apt nor dnf."),
    ],
)
def test_systems_without_packages_are_refused(changes: dict[str, Any], sentence: str) -> None:
    said = refused(node("local", "debian-12", **changes))
    assert len(said) == 1
    assert sentence in said[0]


def test_gpus_that_a_version_has_no_builds_for_are_named() -> None:
    made = plan(asked("eessi", node("nd_h100_v5"), FOUND, version="2026.06"))
    assert made.as_result()["warnings"] == [
        (
            "eessi: 2026.06 has no builds for the GPUs of Standard_ND96isr_H100_v5 (cc90; it has"
            " none): its programs run on the CPUs alone."
        )
    ]
    cpus = plan(asked("eessi", node("hbv3"), FOUND, version="2026.06"))
    assert cpus.as_result()["warnings"] == []
