"""win_ping."""

from __future__ import annotations

from typing import Any

from ..arguments import Call, Option, module


@module("ansible.windows.win_ping", {"data": Option(default="pong")})
def win_ping(call: Call) -> dict[str, Any]:
    """Answer."""
    return {"ping": call.args["data"]}
