"""The role nfs_server, planned: what a list of exports becomes, and what is refused of it."""

from __future__ import annotations

from typing import Any

import pytest
from role_plans import asked, node

NODE = node("hbv3")
EXPORT = {"path": "/srv/shared/", "clients": ["10.1.0.0/16", "10.2.0.7/32"]}


@pytest.mark.parametrize(
    ("exports", "message"),
    [
        (["x"], "unable to convert to dict"),
        ([{**EXPORT, "client": 1}], "nfs_server_exports.client"),
        ([{"path": "/srv"}], "missing required arguments: clients"),
    ],
)
def test_what_is_no_export_is_refused_by_its_description(exports: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        asked("nfs_server", NODE, exports=exports)
