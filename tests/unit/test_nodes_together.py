"""Names of nodes for launchers, and which of them may be used together."""

from __future__ import annotations

from typing import Any

from helpers import parametrized
from trueup_controller.launch_nodes import absent, hosts


class Hostvars(dict[str, dict[str, Any]]):
    """Unknown hosts are undefined, as in Ansible's own."""

    def get(self, name: str, default: Any = None) -> Any:
        del default
        return self[name]


HOSTVARS = Hostvars(
    {
        "n1": {"trueup_skipped": [{"what": "devito layouts of several ranks", "why": "no mpirun"}]},
        "n2": {"slurm_node_name": "hb-2", "trueup_skipped": [{"what": "devito", "why": "no gcc"}]},
        "n3": {"slurm_node_name": "", "trueup_failed_roles": []},
        "half": {"trueup_failed_roles": ["gpu_driver"]},
    }
)


def test_nodes_have_the_names_that_the_inventory_gives_launchers() -> None:
    assert hosts(["n1", "n2", "n3", "else"], HOSTVARS) == ["n1", "hb-2", "n3", "else"]


@parametrized(("play", "role", "gone"))
def test_who_is_lost_left_out_or_skipped_is_absent(
    play: list[str], role: str, gone: list[str]
) -> None:
    # In the order in which they were named; a name that the inventory does not have is let be.
    assert absent(["n1", "n2", "n3", "else"], play, HOSTVARS, role) == gone
    assert absent(["half", "n3"], ["half", "n3"], HOSTVARS, role) == ["half"]
