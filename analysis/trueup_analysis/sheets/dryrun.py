"""From the dry run of an inventory to a sheet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .sheet import Sheet, worded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trueup_controller.host_dryrun import HostNeeds


_NOTHING = ("none", "nothing is missing")


def hosts(host_needs: Sequence[HostNeeds]) -> Sheet:
    """Needs of each host that are not met, a row each; one row of a host that lacks nothing."""
    rows = [
        {"host": needs.host, "known_by": needs.known_by or "nothing", "need": need, "text": text}
        for needs in host_needs
        for need, text in [*needs.missing, *([] if needs.missing else [_NOTHING])]
    ]
    return Sheet(
        title="Dry run of the inventory",
        columns=worded("host", "known_by", "need", "text"),
        rows=rows,
        notes=["Known by: facts that Ansible has cached, or a size with the image pinned for it."],
        facts={"kind": "dryrun", "missing": sum(len(needs.missing) for needs in host_needs)},
    )
