"""The role slurm, planned: the cluster once for all of its hosts, and then each of them."""

from __future__ import annotations

import base64
import binascii
import json
import re
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from trueup_node.plan import Plan, PlanInputs

from .slurm_cluster import PARTS, Cluster, Host, cluster_of
from .slurm_files import (
    DATABASE,
    DATABASE_USER,
    SITE_SETTINGS,
    SLURMCTLD_DROP_IN,
    SLURMD_DROP_IN,
    STATE_FOLDER,
    files_of,
    settings,
    slurmdbd_conf,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

# The role's preflight has tasks or keywords beside its plan.
OWN_PREFLIGHT = True

_KEY_BYTES = (32, 1024)
_MAKE_KEY = "`head -c 1024 /dev/urandom | base64 -w0`"
# Stands for the secret, which holds no such sign; a task fills it in, since a plan is shown.
_PASSWORD = "@PASSWORD@"  # noqa: S105 WHY: it is a place, not a password
_KEY = "/etc/munge/munge.key"
_SLURMDBD_CONF = "/etc/slurm/slurmdbd.conf"
# Files that the daemons read at their start only; the hooks start anew with each job.
_RESTARTING = (_KEY, *(f"/etc/slurm/{name}.conf" for name in ("slurm", "nodes", "gres", "cgroup")))
_RELOADING = ("/etc/slurm/partitions.conf", "/etc/slurm/topology.conf")
# Azure's HPC images pin every package slurm* of Ubuntu at -1 (azhpc-images@8e9d055 slurm-u.pin), so
# that none has a candidate. Of several records that match a package apt takes the first, and reads
# the files by name.
_PREFERENCES = "/etc/apt/preferences.d/00-trueup-slurm"
_PIN = """\
# Written by trueup (role slurm): Ubuntu's own Slurm, which this image's other file hides.
Package: slurm*
Pin: release o=Ubuntu
Pin-Priority: 500
"""
# Where Slurm of dnf comes from, unless a site names packages of its own.
_EPEL = "epel-release"
_SQL_LOOK = """\
SELECT COUNT(*) FROM information_schema.schemata WHERE schema_name = '{name}';
SELECT COUNT(*) FROM mysql.global_priv WHERE user = '{user}' AND host = 'localhost'
  AND json_value(priv, '$.authentication_string') = PASSWORD('{password}');
SELECT COUNT(*) FROM mysql.db WHERE user = '{user}' AND host = 'localhost'
  AND db = '{name}' AND create_priv = 'Y';
"""
_SQL_MAKE = """\
CREATE DATABASE IF NOT EXISTS {name};
CREATE USER IF NOT EXISTS '{user}'@'localhost';
ALTER USER '{user}'@'localhost' IDENTIFIED BY '{password}';
GRANT ALL ON {name}.* TO '{user}'@'localhost';
"""


def plan(inputs: PlanInputs) -> Plan:
    """The role is planned in steps, since the common part of all hosts is computed once:

    - without ``found`` this host's variables are validated;
    - ``wanted: cluster`` gives the ``cluster``, null where the inventory has none;
    - ``cluster``, that one, and ``unresolved``, which of the cluster's names slurm_facts did not
      find, absent before it was asked, give the plan of this host.

    The values of a host are ``parts``, empty where it is in no cluster, and

    - ``preferences``, files that make the packages installable, and ``packages``: lists, each to be
      installed before the next;
    - ``plugins``: their folder, for slurm_facts, and ``installed``, whether it had Slurm;
    - ``controller``: its name in the inventory;
    - ``files`` as config_files takes them; ``read``, which files each unit reads at its start, and
      ``reloading``, the files that it reads again by ``scontrol reconfigure``;
    - ``folders`` of the user slurm, and their modes;
    - ``slurmdbd_conf``, ``sql_look`` and ``sql_make``, with @PASSWORD@ in the password's place.
    """
    hosts = {group: list(inputs.groups.get(f"slurm_{group}", [])) for group in PARTS}
    if inputs.found.get("wanted") == "cluster":
        cluster = asdict(cluster_of(hosts, inputs)) if any(hosts.values()) else None
        return Plan(values={"cluster": cluster})
    parts = [group for group in PARTS if inputs.host in hosts[group]]
    if not parts:
        return Plan(values={"parts": []})
    refused = _refused(inputs)
    if refused or "cluster" not in inputs.found:
        return Plan(refused=refused)
    return _of_host(inputs, parts)


def _of_host(inputs: PlanInputs, parts: list[str]) -> Plan:
    node = inputs.node
    cluster = Cluster(**inputs.found["cluster"])
    refused = _refused_in_cluster(inputs, cluster)
    if refused:
        return Plan(refused=refused)
    system = inputs.data["systems"][node["package_manager"]]
    version = Host(inputs.host, inputs.hostvars[inputs.host]).look.get("version") or ""
    state = {STATE_FOLDER: "0700"} if "controller" in parts else {}
    names = {"name": DATABASE, "user": DATABASE_USER}
    return Plan(
        values={
            "parts": parts,
            "preferences": _preferences(inputs, parts),
            "packages": _packages(inputs, system, parts),
            "plugins": system["plugins"].format(architecture=node["architecture"]),
            "installed": bool(version),
            "controller": inputs.groups["slurm_controller"][0],
            "files": files_of(inputs, cluster, parts, version),
            "read": {
                "munge": (_KEY,),
                "mariadb": (system["database_conf"],),
                "slurmdbd": (_KEY, _SLURMDBD_CONF),
                "slurmctld": (*_RESTARTING, SLURMCTLD_DROP_IN),
                "slurmd": (*_RESTARTING, SLURMD_DROP_IN),
            },
            "reloading": _RELOADING,
            "folders": {"/var/log/slurm": "0755", **state},
            "slurmdbd_conf": slurmdbd_conf(cluster, _PASSWORD),
            "sql_look": _SQL_LOOK.format(**names, password=_PASSWORD),
            "sql_make": _SQL_MAKE.format(**names, password=_PASSWORD),
        }
    )


def _packages(inputs: PlanInputs, system: Mapping[str, Any], parts: list[str]) -> list[list[str]]:
    user_packages = inputs.options["packages"]
    by_part = {**system["packages"], **user_packages}
    groups = ("common", *parts)
    packages = [name for group in groups for name in by_part[group]]
    from_epel = inputs.node["package_manager"] == "dnf" and not set(groups) <= set(user_packages)
    first = [_EPEL] if from_epel else []
    return [names for names in (first, list(dict.fromkeys(packages))) if names]


def _preferences(inputs: PlanInputs, parts: list[str]) -> list[dict[str, str]]:
    """A pin over the image's, where a part's packages are the distribution's. A site that names its
    own, such as slurm-smd of the image's repository, finds them as they are."""
    node, user_packages = inputs.node, inputs.options["packages"]
    hidden = node["package_manager"] == "apt" and node.get("hpc_image") is not None
    ours = any(group not in user_packages for group in ("common", *parts))
    return [{"path": _PREFERENCES, "content": _PIN}] if hidden and ours else []


def _refused(inputs: PlanInputs) -> list[str]:
    """Problems of this host and its variables."""
    node, options = inputs.node, inputs.options
    if not node:
        return [
            f"slurm: {inputs.host} has never said what it is: run playbooks/identify.yml first."
        ]
    key, password = inputs.secrets["munge_key"], inputs.secrets["database_password"]
    cluster = options["cluster_name"]
    unlisted = [
        group for group, names in options["packages"].items() if not isinstance(names, list)
    ]
    records = options["health_records"]
    accounted = bool(inputs.groups.get("slurm_accounting"))
    checks = {
        "slurm: this host gives neither root nor sudo without a password: connect as such a user"
        " (ansible_user).": node["privilege"] is not None,
        f"slurm: no packages are known for {node['os']}: it has neither apt nor dnf.": (
            node["package_manager"] in inputs.data["systems"]
        ),
        "slurm: no packages are known for Azure Linux (no EPEL): set slurm_packages to your"
        " repository's.": node.get("distribution") != "azurelinux" or options["packages"],
        _key_problem(key): not _key_problem(key),
        "slurm_database_password is not set, or has fewer than 12 characters or others than"
        " letters, digits and . _ + / = -: give one from a vault.": (
            not accounted or re.fullmatch("[A-Za-z0-9._+/=-]{12,}", password)
        ),
        f"slurm_cluster_name is {cluster}: give lower-case letters, digits and dashes, a letter"
        " first.": re.fullmatch("[a-z][a-z0-9-]*", cluster),
        f"slurm_health_interval_seconds is {options['health_interval_seconds']}: give 60 to 65535,"
        " since a check may take 50 s.": 60 <= options["health_interval_seconds"] <= 65535,
        f"slurm_health_records is {records}: give an absolute path, or nothing.": (
            not records or records.startswith("/")
        ),
        "slurm_health has drain_unmeasured alone: name interval or epilog too.": (
            options["health"] != ["drain_unmeasured"]
        ),
        "slurm_hook_timeout_seconds must be 15 or more where slurm_health has epilog.": (
            options["hook_timeout_seconds"] >= 15 or "epilog" not in options["health"]
        ),
        f"slurm_packages: {', '.join(unlisted)}: give a list of packages.": not unlisted,
    }
    return [sentence for sentence, holds in checks.items() if not holds]


def _refused_in_cluster(inputs: PlanInputs, cluster: Cluster) -> list[str]:
    """Problems of the cluster; and problems between its hosts, once this run has read their facts:
    the cause of an older one may have been fixed."""
    if cluster.problems:
        return [f"slurm: {'; '.join(cluster.problems)}"]
    extra = inputs.options["conf_extra"]
    role_settings = {name.lower() for block in settings(inputs.options, cluster) for name in block}
    role_settings -= {name.lower() for name in SITE_SETTINGS}
    clashes = [name for name in extra if name.lower() in role_settings]
    if clashes:
        advice = "the role writes it itself; see roles/slurm/defaults/main.yml for its variable."
        return [f"{', '.join(clashes)} of slurm_conf_extra: {advice}"]
    if "unresolved" not in inputs.found:
        return []
    mend = "put it into DNS or /etc/hosts, or set slurm_node_address."
    refused = [
        f"slurm: {name} is not known by name on {inputs.host}: {mend}"
        for name in inputs.found["unresolved"]
    ]
    if len(cluster.uids) > 1:
        refused.append(
            f"slurm: the user slurm has different ids ({json.dumps(cluster.uids)}), so hosts refuse"
            " what the controller says: give it one id on all of them (usermod -u, groupmod -g) and"
            " run again."
        )
    return refused


def _key_problem(key: str) -> str:
    """Why a munge key in base64 cannot be used; empty where it can."""
    if not key:
        return f"slurm_munge_key is not set: make one with {_MAKE_KEY} and keep it in a vault."
    try:
        raw = base64.b64decode("".join(key.split()), validate=True)
    except (ValueError, binascii.Error):
        return "slurm_munge_key is not base64: give the key as `base64 -w0 munge.key` prints it."
    least, most = _KEY_BYTES
    if not least <= len(raw) <= most:
        return (
            f"slurm_munge_key holds {len(raw)} bytes, and munge takes {least} to {most}: make one"
            f" with {_MAKE_KEY}."
        )
    return ""
