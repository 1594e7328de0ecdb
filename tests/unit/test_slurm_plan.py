"""The role slurm, planned for each kind of host of a cluster."""

from __future__ import annotations

import base64
import json
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from role_plans import asked, node
from trueup_controller.plans.slurm import plan as slurm
from trueup_node.plan import PlanInputs

if TYPE_CHECKING:
    from pathlib import Path

SECRETS = {
    "munge_key": base64.b64encode(bytes(range(64))).decode(),
    "database_password": "Correct-Horse-4711",
}
LOOK = {
    "cgroup": "v2",
    "cgroup_why": "",
    "may_bind": True,
    "plugins": ["cgroup_v2", "mpi_pmix"],
    "nvml": False,
    "version": "22.05.8",
    "slurm_uid": 64030,
}
LIBEXEC = "/usr/local/libexec/trueup"
CLOCKS = "/etc/slurm/epilog.d/10-trueup-gpu-clocks"
HEALTH = "/etc/slurm/prolog.d/10-trueup-health"
OWN_HEALTH = f"{LIBEXEC}/slurm_health"
OWN_EPILOG = "/etc/slurm/epilog.d/90-trueup-health"
SLURMCTLD = "/etc/systemd/system/slurmctld.service.d/trueup.conf"
CGROUP = "/etc/slurm/cgroup.conf"
COMMON = [f"/etc/slurm/{name}.conf" for name in ("slurm", "nodes", "partitions")]


def on(family: str, system: str = "debian-12", /, **changes: Any) -> dict[str, Any]:
    sizes = {"cpus": 4, "cores": 4, "sockets": 1, "memory_bytes": 16 * 1024**3}
    return {**node(family, system), **sizes, **changes}


def host(part: str, of: dict[str, Any] | None, **look: Any) -> dict[str, Any]:
    facts: dict[str, Any] = {} if of is None else {"trueup_node": of}
    if look or of is not None:
        facts["trueup_slurm"] = {**LOOK, **look}
    return {"part": part, "ansible_facts": facts}


HOSTS = {
    "head": host("controller", on("local"), hostname="head"),
    "db": host("accounting", on("local"), hostname="db"),
    "hb": host("compute", on("hbv3"), hostname="hb"),
    "nd": host("compute", on("ndv4"), hostname="nd"),
    "in": host("login", on("local"), hostname="in"),
}


def of(name: str, hosts: dict[str, Any], secrets: dict[str, str], **options: Any) -> PlanInputs:
    """What the role is asked on one of the hosts."""
    groups: dict[str, list[str]] = {}
    for each, variables in hosts.items():
        groups.setdefault(f"slurm_{variables['part']}", []).append(each)
    mine = hosts[name]
    given = asked(
        "slurm",
        mine["ansible_facts"].get("trueup_node", {}),
        **options,
    )
    options = {key: value for key, value in given.options.items() if key not in SECRETS}
    return replace(
        given, options=options, secrets=secrets, host=name, hostvars=hosts, groups=groups
    )


def values(
    name: str, hosts: dict[str, Any] = HOSTS, found: dict[str, Any] | None = None, **options: Any
) -> dict[str, Any]:
    """Of a host, as its tasks are given it; or what was refused."""
    what = of(name, hosts, SECRETS, **options)
    cluster = slurm(replace(what, found={"wanted": "cluster"})).as_result()["cluster"]
    planned = slurm(replace(what, found={"cluster": cluster, **(found or {})}))
    return {"refused": planned.refused} if planned.refused else planned.as_result()


def contents(result: dict[str, Any]) -> dict[str, str | None]:
    return {file["path"]: file.get("content") for file in result["files"]}


def there(result: dict[str, Any]) -> list[str]:
    return [path for path, content in contents(result).items() if content]


def test_a_controller() -> None:
    result = values("head")
    assert result["packages"] == [["munge", "slurm-client", "slurmctld"]]
    assert there(result) == [*COMMON, "/etc/slurm/gres.conf", SLURMCTLD]
    # Or a loss of power at its first start keeps it from ever starting again.
    emptied = "ExecStartPre=-/usr/bin/find /var/spool/slurmctld/clustername -empty -delete"
    assert emptied in (contents(result)[SLURMCTLD] or "")
    assert SLURMCTLD in result["read"]["slurmctld"]
    assert list(result["folders"]) == [
        "/var/log/slurm",
        "/var/spool/slurmctld",
    ]
    conf = (contents(result)["/etc/slurm/slurm.conf"] or "").splitlines()
    assert {"SlurmctldHost=head", "AccountingStorageHost=db", "GresTypes=gpu"} <= set(conf)
    assert (result["controller"], result["installed"]) == ("head", True)


IMAGE = {"hpc_image": {"HPCX": "2.25.1"}}
PIN = "/etc/apt/preferences.d/00-trueup-slurm"


@pytest.mark.parametrize(
    ("system", "changes", "options", "paths"),
    [
        ("ubuntu-22.04", IMAGE, {}, [PIN]),
        ("ubuntu-22.04", {}, {}, []),
        ("almalinux-9", IMAGE, {}, []),
        ("ubuntu-24.04", IMAGE, {"packages": {"compute": ["slurm-smd-slurmd"]}}, [PIN]),
        (
            "ubuntu-24.04",
            IMAGE,
            {
                "packages": {
                    "common": ["munge", "slurm-smd-client"],
                    "compute": ["slurm-smd-slurmd"],
                }
            },
            [],
        ),
    ],
)
def test_a_pin_of_the_image_does_not_hide_slurm(
    system: str, changes: dict[str, Any], options: dict[str, Any], paths: list[str]
) -> None:
    """azhpc-images@8e9d055 slurm-u.pin: ``slurm*`` of ubuntu.com at -1."""
    hosts = {**HOSTS, "hb": host("compute", on("hbv3", system, **changes))}
    files = values("hb", hosts, **options)["preferences"]
    assert [file["path"] for file in files] == paths
    # Before the image's slurm-repository-pin-990: apt takes the first record that matches.
    assert all(file["path"].rpartition("/")[2] < "slurm-repository-pin-990" for file in files)
    assert all("Package: slurm*\nPin: release o=Ubuntu\n" in file["content"] for file in files)


def test_a_host_of_accounting_has_its_database_and_no_secret_in_its_plan() -> None:
    result = values("db")
    assert (
        there(result)[-1]
        == result["read"]["mariadb"][0]
        == "/etc/mysql/mariadb.conf.d/70-trueup-slurm.cnf"
    )
    # slurmdbd refuses to start where DbdHost is an address.
    assert "\nDbdHost=db\n" in result["slurmdbd_conf"]
    assert "\nStoragePass=@PASSWORD@\n" in result["slurmdbd_conf"]
    assert "IDENTIFIED BY '@PASSWORD@';" in result["sql_make"]
    assert "= PASSWORD('@PASSWORD@');" in result["sql_look"]


@pytest.mark.parametrize("name", HOSTS)
def test_no_plan_shows_a_secret(name: str) -> None:
    shown = json.dumps(values(name))
    assert [secret for secret in SECRETS.values() if secret in shown] == []


def test_a_login_host_has_the_clients_and_the_clusters_configuration() -> None:
    result, head = values("in"), values("head")
    of_all = [path for path in there(head) if path != SLURMCTLD]
    assert (result["packages"], there(result)) == ([["munge", "slurm-client"]], of_all)
    assert contents(result) == {path: contents(head)[path] for path in contents(result)}


def test_a_node_with_infiniband() -> None:
    result = values("hb")
    assert there(result)[4:] == [
        CGROUP,
        "/etc/systemd/system/slurmd.service.d/trueup.conf",
        f"{LIBEXEC}/slurm_prolog",
        f"{LIBEXEC}/slurm_epilog",
        HEALTH,
    ]
    assert contents(result)[CLOCKS] is None
    health = contents(result)[HEALTH] or ""
    assert ('if [ "$found" -lt 1 ]; then' in health, "nvidia-smi" in health) == (True, False)
    assert result["packages"][0][2:] == ["slurmd", "slurm-wlm-basic-plugins", "libpmix-dev"]


def test_a_node_with_gpus() -> None:
    result = values("nd")
    health = contents(result)[HEALTH] or ""
    assert "\nwanted=8\n" in health
    assert 'if [ "$found" -lt 8 ]; then' in health
    assert "nvidia-smi -i" in (contents(result)[CLOCKS] or "")


@pytest.mark.parametrize(
    ("gpus", "status", "message"),
    [
        (None, 1, "7 of 8 GPUs answer (nvidia-smi)"),
        ("0,1", 0, ""),
        ("0-3,5", 0, ""),
        ("2,7", 1, "1 of 2 GPUs answer (nvidia-smi -i 2,7)"),
        ("6-7", 1, "1 of 2 GPUs answer (nvidia-smi -i 6,7)"),
    ],
)
def test_before_a_job_its_gpus_alone_are_asked(
    tmp_path: Path, gpus: str | None, status: int, message: str
) -> None:
    """A stand-in of nvidia-smi on a node whose GPU 7 does not answer."""
    health = (contents(values("nd"))[HEALTH] or "").partition("found=0\n")[0]
    smi = tmp_path / "nvidia-smi"
    smi.write_text(
        '#!/bin/sh\nif [ "$1" = -i ]; then asked=$2; shift 2; else asked=0,1,2,3,4,5,6,7; fi\n'
        '[ "$*" = "--query-gpu=uuid --format=csv,noheader" ] || exit 9\n'
        'for gpu in $(echo "$asked" | tr , " "); do [ "$gpu" = 7 ] || echo "GPU-$gpu"; done\n'
    )
    smi.chmod(0o755)
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin", **({"SLURM_JOB_GPUS": gpus} if gpus else {})}
    done = subprocess.run(
        ["sh", "-c", health], env=env, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout.strip(), done.stderr) == (status, message, "")


@pytest.mark.parametrize(
    ("options", "roles", "said", "mounted"),
    [
        ({}, ["nvme_scratch"], "folder=/mnt/resource_nvme", True),
        ({}, [], "", False),
        ({"scratch": "/my scratch"}, ["nvme_scratch"], "folder='/my scratch'", False),
    ],
)
def test_the_scratch_that_the_health_check_writes_to(
    options: dict[str, Any], roles: list[str], said: str, mounted: bool
) -> None:
    what = of("hb", HOSTS, SECRETS, **options)
    what = replace(what, variables={"trueup_family_roles": roles})
    cluster = slurm(replace(what, found={"wanted": "cluster"})).as_result()["cluster"]
    result = slurm(replace(what, found={"cluster": cluster})).as_result()
    health = contents(result)[HEALTH] or ""
    assert [line for line in health.splitlines() if line.startswith("folder=")] == [said][
        : len(said)
    ]
    assert ("mountpoint -q" in health) == mounted
    assert health.endswith("\nexit 0\n")


@pytest.mark.parametrize(
    ("version", "cgroup", "said"),
    [
        ("22.05.8", "v2", "CgroupPlugin=cgroup/v2"),
        ("22.05.8", "none", None),
        (None, "none", None),
        ("23.11.0", "none", "CgroupPlugin=disabled"),
        ("24.05.1", "none", "CgroupPlugin=disabled"),
    ],
)
def test_a_slurm_that_has_a_word_for_no_cgroups_is_told(
    version: str | None, cgroup: str, said: str | None
) -> None:
    hosts = {
        "head": HOSTS["head"],
        "hb": host("compute", on("hbv3"), version=version, cgroup=cgroup),
    }
    text = contents(values("hb", hosts))[CGROUP]
    assert (text.splitlines()[1] if text else text) == said


def test_a_node_that_judges_itself() -> None:
    given = {"health": ["interval", "epilog", "drain_unmeasured"]}
    result = values("nd", health_records="/shared/results", **given)
    conf = (contents(result)["/etc/slurm/slurm.conf"] or "").splitlines()
    assert {
        f"HealthCheckProgram={OWN_HEALTH}",
        "HealthCheckInterval=300",
        "HealthCheckNodeState=IDLE",
    } <= set(conf)
    settings = json.loads(contents(result)["/etc/trueup/slurm_health.json"] or "")
    assert (settings["gpu"], settings["rdma"]["nics"]) == ({"gpus": 8}, 8)
    assert (settings["node"], settings["record_name"], settings["drains"]) == ("nd", "nd", True)
    assert settings["programs"] == [HEALTH]
    sizes = {
        size
        for one in settings["expectations"]["expectations"]
        for value in one["values"]
        for size in value["sizes"]
    }
    assert sizes == {settings["vm_size"]}
    row = settings["size_row"]
    assert (row["nvme_disks"], row["source"][:14]) == (8, "MicrosoftDocs/")
    assert f"{OWN_HEALTH} --epilog" in (contents(result)[OWN_EPILOG] or "")
    # Slurm kills the one after 60 s, and the hook the other.
    assert settings["seconds"] < 60
    assert settings["epilog_seconds"] < 30


@pytest.mark.parametrize(
    ("health", "interval", "epilog"),
    [([], False, False), (["interval"], True, False), (["epilog"], False, True)],
)
def test_when_a_node_judges_itself(health: list[str], interval: bool, epilog: bool) -> None:
    result = values("hb", health=health)
    text = contents(result)["/etc/slurm/slurm.conf"] or ""
    assert ("HealthCheckProgram=" in text) == interval
    found = there(result)
    assert (OWN_HEALTH in found, OWN_EPILOG in found) == (bool(health), epilog)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"health_interval_seconds": 59}, "slurm_health_interval_seconds is 59"),
        ({"health_records": "results"}, "slurm_health_records is results"),
        ({"health": ["drain_unmeasured"]}, "drain_unmeasured alone"),
        ({"health": ["epilog"], "hook_timeout_seconds": 14}, "slurm_hook_timeout_seconds"),
    ],
)
def test_a_health_check_that_cannot_be_is_refused(options: dict[str, Any], named: str) -> None:
    (sentence,) = values("hb", **options)["refused"]
    assert named in sentence


def test_packages_of_ones_own_and_of_dnf() -> None:
    hosts = {**HOSTS, "hb": host("compute", on("hbv3", "almalinux-9"))}
    given = {"compute": ["slurm-smd-slurmd", "munge"]}
    result = values("hb", hosts, packages=given)
    assert result["packages"] == [["epel-release"], ["munge", "slurm", "slurm-smd-slurmd"]]
    assert result["plugins"] == "/usr/lib64/slurm"
    # Nothing of EPEL is left.
    own = {"common": ["munge"], "compute": ["slurm-smd-slurmd"]}
    assert values("hb", hosts, packages=own)["packages"] == [["munge", "slurm-smd-slurmd"]]


def test_the_hooks_restart_nothing() -> None:
    result = values("nd")
    changed = set(contents(result)) - set(result["read"]["slurmd"]) - set(result["reloading"])
    assert sorted(changed) == sorted(
        [
            *("/etc/slurm/prolog.d", "/etc/slurm/epilog.d", "/var/spool/slurmd"),
            *(f"{LIBEXEC}/slurm_prolog", f"{LIBEXEC}/slurm_epilog", HEALTH, CLOCKS),
            *(OWN_HEALTH, OWN_EPILOG, "/etc/trueup/slurm_health.json"),
            f"{LIBEXEC}/slurm_devices",
        ]
    )


def test_a_host_in_no_group_gets_nothing() -> None:
    what = replace(of("in", HOSTS, {}), groups={})
    assert slurm(replace(what, found={"wanted": "cluster"})).values == {"cluster": None}
    for found in ({}, {"cluster": None}):
        assert slurm(replace(what, found=found)).values == {"parts": []}


def test_a_node_that_never_said_what_it_is_is_named() -> None:
    hosts = {**HOSTS, "new": host("compute", None)}
    assert values("head", hosts)["refused"] == [
        (
            "slurm: new is in slurm_compute and has never said what it is: run identify over it"
            " once (ansible-playbook playbooks/identify.yml)"
        )
    ]


def test_a_host_without_facts_is_told_what_to_run() -> None:
    hosts = {**HOSTS, "new": host("login", None)}
    assert slurm(of("new", hosts, SECRETS)).refused == [
        "slurm: new has never said what it is: run playbooks/identify.yml first."
    ]


def resolved(*unresolved: str) -> dict[str, list[str]]:
    return {"unresolved": list(unresolved)}


def test_what_the_hosts_lack_for_each_other_is_said_once_they_were_looked_at() -> None:
    assert values("hb", found=resolved())["parts"] == ["compute"]
    assert values("hb", found=resolved("nd"))["refused"] == [
        (
            "slurm: nd is not known by name on hb: put it into DNS or /etc/hosts, or set"
            " slurm_node_address."
        )
    ]
    hosts = {**HOSTS, "nd": host("compute", on("ndv4"), slurm_uid=1)}
    # An id that is only remembered may have been mended.
    assert values("hb", hosts)["parts"] == ["compute"]
    ids = '{"64030": ["head", "db", "hb", "in"], "1": ["nd"]}'
    said = f"slurm: the user slurm has different ids ({ids})"
    assert [one[: len(said)] for one in values("hb", hosts, resolved())["refused"]] == [said]


@pytest.mark.parametrize(
    ("secrets", "options", "said"),
    [
        ({"munge_key": ""}, {}, "slurm_munge_key is not set"),
        ({"munge_key": "not base64!"}, {}, "slurm_munge_key is not base64"),
        ({"munge_key": base64.b64encode(bytes(31)).decode()}, {}, "slurm_munge_key holds 31 bytes"),
        ({"munge_key": base64.b64encode(bytes(1025)).decode()}, {}, "slurm_munge_key holds 1025"),
        ({"database_password": "short"}, {}, "slurm_database_password is not set"),
        ({"database_password": "with 'a quote'"}, {}, "slurm_database_password is not set"),
        ({}, {"cluster_name": "Big"}, "slurm_cluster_name is Big"),
        ({}, {"packages": {"compute": "slurmd"}}, "slurm_packages: compute: give a list"),
    ],
)
def test_variables_that_cannot_be_meant_are_refused(
    secrets: dict[str, str], options: dict[str, Any], said: str
) -> None:
    refused = slurm(of("hb", HOSTS, {**SECRETS, **secrets}, **options)).refused
    assert [one[: len(said)] for one in refused] == [said]


@pytest.mark.parametrize("size", [32, 1024])
def test_keys_that_yaml_has_folded_are_read(size: int) -> None:
    text = base64.b64encode(bytes(size)).decode()
    key = f"{text[:40]}\n {text[40:]}\n"
    assert slurm(of("hb", HOSTS, {**SECRETS, "munge_key": key})).refused == []


def test_a_password_is_asked_for_only_where_there_is_accounting() -> None:
    hosts = {name: HOSTS[name] for name in ("head", "hb")}
    assert slurm(of("hb", hosts, {**SECRETS, "database_password": ""})).refused == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"privilege": None}, "slurm: this host gives neither root nor sudo"),
        ({"package_manager": None, "os": "SLES"}, "slurm: no packages are known for SLES"),
    ],
)
def test_a_host_that_cannot_be_one_is_refused(changes: dict[str, Any], said: str) -> None:
    hosts = {**HOSTS, "hb": host("compute", on("hbv3", **changes))}
    assert [one[: len(said)] for one in slurm(of("hb", hosts, SECRETS)).refused] == [said]


def test_settings_that_the_role_writes_are_not_given_twice() -> None:
    refused = values("hb", conf_extra={"selecttype": "x", "ProLog": "/x", "SrunPortRange": "6-7"})
    said = "selecttype, ProLog of slurm_conf_extra: the role writes it itself"
    assert [one[: len(said)] for one in refused["refused"]] == [said]
    text = contents(values("hb", conf_extra={"b": 1, "Aa": 2, "a": 3}))["/etc/slurm/slurm.conf"]
    assert "AccountingStorageHost=db\na=3\nAa=2\nb=1\n\nInclude" in (text or "")


def test_three_settings_of_the_role_may_be_replaced() -> None:
    extra = {"MpiDefault": "pmi2", "killonbadexit": 0, "HealthCheckNodeState": "ANY"}
    text = contents(values("hb", conf_extra=extra, health=["interval"]))["/etc/slurm/slurm.conf"]
    replaced = [
        line
        for line in (text or "").splitlines()
        if line.lower().startswith(tuple(name.lower() for name in extra))
    ]
    assert replaced == ["MpiDefault=pmi2", "KillOnBadExit=0", "HealthCheckNodeState=ANY"]


def test_azure_linux_has_no_slurm_of_its_own() -> None:
    changes = {"distribution": "azurelinux", "distribution_version": "3.0"}
    hosts = {**HOSTS, "hb": host("compute", on("hbv3", "almalinux-9", **changes))}
    (refused,) = slurm(of("hb", hosts, SECRETS)).refused
    assert "no packages are known for Azure Linux" in refused
    assert slurm(of("hb", hosts, SECRETS, packages={"compute": ["slurmd"]})).refused == []
