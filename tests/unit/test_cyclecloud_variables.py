"""Variables of the play that creates nodes of CycleCloud."""

from __future__ import annotations

from typing import Any

from helpers import parametrized
from trueup_controller.sites.cyclecloud_variables import arguments, hosts, problems


@parametrized(("given", "begin"))
def test_what_cannot_be_meant(given: dict[str, Any], begin: list[str]) -> None:
    found = problems(given)
    assert [text[: len(words)] for text, words in zip(found, begin, strict=True)] == begin


def test_what_is_given_is_handed_on_and_nothing_else() -> None:
    given = {"cyclecloud_cluster": "hpc", "cyclecloud_count": 2, "cyclecloud_group": "compute"}
    assert arguments(given) == {"state": "present", "cluster": "hpc", "count": 2}
    assert arguments({**given, "cyclecloud_state": "absent"})["state"] == "absent"


def test_every_parameter_is_one_of_the_module() -> None:
    import cyclecloud_nodes

    options = [one.name for one in cyclecloud_nodes.OPTIONS]
    given = {f"cyclecloud_{name}": "x" for name in options}
    # The play waits always, and for single requests as long as the module does.
    others = {"wait", "request_timeout_seconds", "retry_limit_seconds"}
    assert set(options) - set(arguments(given)) == others
    strange = ", ".join(sorted(f"cyclecloud_{name}" for name in others))
    assert problems(given)[0].startswith(f"There is no {strange};")


NODES = [{"name": "n1", "private_ip": "10.0.0.4"}, {"name": "n2", "private_ip": None}]


@parametrized(("given", "expected"))
def test_nodes_with_an_address_join_the_inventory(
    given: dict[str, Any], expected: list[dict[str, Any]]
) -> None:
    assert hosts(NODES, given) == expected
