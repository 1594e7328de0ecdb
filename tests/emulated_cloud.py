"""The emulated cloud (molecule/_shared/cloud) for tests."""

from __future__ import annotations

import sys

from helpers import ROOT

sys.path.insert(0, str(ROOT / "molecule" / "_shared" / "cloud"))

from cloud import (
    SUBSCRIPTION,
    Cloud,
    Reply,
    profile,
    refusal,
    serving,
)
from kql import Query, QueryError

__all__ = [
    "SUBSCRIPTION",
    "Cloud",
    "Query",
    "QueryError",
    "Reply",
    "profile",
    "refusal",
    "serving",
]
