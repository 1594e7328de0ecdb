"""The emulated cloud (molecule/_shared/cloud) for tests."""

from __future__ import annotations

import sys

from helpers import ROOT

sys.path.insert(0, str(ROOT / "molecule" / "_shared"))

from cloud import containers, desktops, images, impact, instance_metadata, netns
from cloud.cloud import Cloud
from cloud.expressions import Scope
from cloud.kql import Query, QueryError
from cloud.machines import AllocationFailed, Machine, NoMachines
from cloud.replies import SUBSCRIPTION, Refused, Reply, refusal
from cloud.server import certificates, profile, serving
from cloud.validate import Models
from cloud.versions import VERSIONS as API_VERSIONS

__all__ = [
    "API_VERSIONS",
    "SUBSCRIPTION",
    "AllocationFailed",
    "Cloud",
    "Machine",
    "Models",
    "NoMachines",
    "Query",
    "QueryError",
    "Refused",
    "Reply",
    "Scope",
    "certificates",
    "containers",
    "desktops",
    "images",
    "impact",
    "instance_metadata",
    "netns",
    "profile",
    "refusal",
    "serving",
]
