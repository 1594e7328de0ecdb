"""The role shared_storage, planned: what a list of mounts becomes, and what is refused of it."""

from __future__ import annotations

from typing import Any

import pytest
from helpers import parametrized
from role_plans import asked, node
from trueup_controller.plans.shared_storage import plan
from trueup_node.plan import Plan

NODE = node("hbv3")
NFS = {"path": "/shared", "kind": "nfs", "source": "10.1.0.4:/srv/shared"}
UNITS = "/etc/systemd/system"


def planned(
    mounts: list[Any], on: Any = NODE, found: dict[str, Any] | None = None, /, **options: Any
) -> Plan:
    return plan(asked("shared_storage", on, found, mounts=mounts, **options))


def values(mounts: list[Any], on: Any = NODE, found: Any = None, /, **options: Any) -> Any:
    got = planned(mounts, on, found, **options)
    assert (got.refused, got.skipped) == ([], [])
    return got.as_result()


def files(mounts: list[Any], **options: Any) -> dict[str, str]:
    return {one["path"]: one["content"] for one in values(mounts, **options)["files"]}


@parametrized(("mounts", "message"))
def test_what_is_no_mount_is_refused_by_its_description(mounts: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        asked("shared_storage", NODE, mounts=mounts)


def found(**changed: Any) -> dict[str, Any]:
    """What storage_facts says of a mount that is as it was asked for."""
    shown = (
        "rw noatime vers=4.2 rsize=1048576 wsize=1048576 namlen=255 hard proto=tcp timeo=600"
        " retrans=2 sec=sys clientaddr=10.1.0.9 local_lock=none addr=10.1.0.4"
    )
    mount = {"kind": "nfs4", "source": NFS["source"], "options": shown.split()}
    units = {"shared.mount": files([NFS])[f"{UNITS}/shared.mount"]}
    base = {"mount": mount, "answers": True, "kind": None, "empty": None, "units": units}
    return {**base, **changed}
