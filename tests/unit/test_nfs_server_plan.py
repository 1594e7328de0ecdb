"""The role nfs_server, planned: what a list of exports becomes, and what is refused of it."""

from __future__ import annotations

from typing import Any

import pytest
from helpers import parametrized
from role_plans import asked, node

NODE = node("hbv3")


@parametrized(("exports", "message"))
def test_what_is_no_export_is_refused_by_its_description(exports: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        asked("nfs_server", NODE, exports=exports)
