"""Nodes that configure themselves: the cloud-init document with which each one fetches a pinned
release and has ansible-pull run it (``node_pull``), as a unit of systemd."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import msgspec
from trueup_node.redaction import redact
from trueup_node.vm import node_pull

from . import cloud_init
from .self_destruct import METADATA

_SHA256 = re.compile(r"[0-9a-f]{64}")
_CONTAINER = re.compile(r"/[a-z0-9](?:-?[a-z0-9]){2,62}")
_IDENTITY = re.compile(
    r"/subscriptions/[^/]+/resourceGroups/[^/]+/providers/Microsoft.ManagedIdentity"
    r"/userAssignedIdentities/[^/]+",
    re.IGNORECASE,
)
_FOLDER = "/var/lib/trueup"
UNIT = "trueup-pull.service"
_SERVICE = f"""\
[Unit]
Description=trueup: configure this machine from a pinned release
Wants=network-online.target
After=network-online.target

[Service]
Type=oneshot
Environment=HOME=/root LANG=C.UTF-8
ExecStart=/usr/bin/python3 {cloud_init.PROGRAMS}/pull.py {cloud_init.PROGRAMS}/pull.json

[Install]
WantedBy=multi-user.target
"""


class Pull(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How nodes configure themselves.

    Attributes:
        release: https URL of a release that `make release` made; empty: none.
        sha256: sha256 of that file.
        records: https URL of an existing container of Azure Blob storage, for the records of
            health; empty: they stay on the node.
        identity: Id of an existing user-assigned identity that nodes get. With `records` it must
            have the role Storage Blob Data Contributor on that container.
    """

    release: str = ""
    sha256: str = ""
    records: str = ""
    identity: str = ""


def wrong(pull: Pull) -> list[str]:
    """Problems of these settings, a sentence each."""
    problems = []
    if not pull.release:
        present = [name for name in ("sha256", "records", "identity") if getattr(pull, name)]
        return [f"pull.{present[0]} is given without pull.release"] if present else []
    problems += _plain("pull.release", pull.release, "the release's file")
    if not _SHA256.fullmatch(pull.sha256):
        problems.append(
            f"pull.sha256 is {pull.sha256!r}: it must be the 64 small hex digits of the release, as"
            " `make release` prints them"
        )
    if pull.records:
        problems += _plain(
            "pull.records", pull.records, "https://ACCOUNT.blob.core.windows.net/NAME"
        )
        if not _CONTAINER.fullmatch(urlsplit(pull.records).path):
            problems.append(f"pull.records is {pull.records!r}: it must end in a container's name")
        if not pull.identity:
            problems.append("pull.identity is empty: who may write to pull.records?")
    if pull.identity and not _IDENTITY.fullmatch(pull.identity):
        problems.append(
            f"pull.identity is {pull.identity!r}: it must be"
            " /subscriptions/.../providers/Microsoft.ManagedIdentity/userAssignedIdentities/NAME"
        )
    return problems


def _plain(path: str, url: str, expected: str) -> list[str]:
    """Refuse a URL without encryption, or with a credential that users of the node could read."""
    try:
        parts = urlsplit(url)
        plain = parts.scheme == "https" and parts.hostname and len(parts.path) > 1
    except ValueError:
        plain = False
    if not plain or not url.isascii() or not url.isprintable() or " " in url:
        return [f"{path} is {url!r}: it must be {expected} by https"]
    if parts.query or parts.fragment or parts.username is not None:
        return [f"{path} has a credential or a query, which whoever is on a node could read"]
    return []


def secret(variables: Mapping[str, Any]) -> list[str]:
    """The names of Ansible variables that must not be on a node."""
    return [name for name, value in variables.items() if redact({name: value}) != {name: value}]


def document(
    pull: Pull, run: str, variables: Mapping[str, Any], builds: Mapping[str, Mapping[str, str]]
) -> str:
    """The cloud-init document of a node. It ends with the program, so that cloud-init's own status
    is the program's status; systemd starts it again at each boot.

    Args:
        run: the run's id.
        variables: of Ansible, without secrets.
        builds: of Python for images whose own is too old: ``url`` and ``sha256`` by architecture.
    """
    config: dict[str, Any] = {
        "release": pull.release,
        "sha256": pull.sha256,
        "records": pull.records,
        "identity": pull.identity,
        "run": run,
        "variables": dict(variables),
        "builds": {machine: dict(build) for machine, build in builds.items()},
        "folder": _FOLDER,
        "metadata": METADATA,
    }
    files = {
        **cloud_init.program("pull", node_pull, config),
        f"/etc/systemd/system/{UNIT}": _SERVICE,
    }
    return cloud_init.document(files, f"enable {UNIT}", f"start {UNIT}")
