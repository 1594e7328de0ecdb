"""Services and mounts that a node is set to start, and that do not run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from helpers import parametrized
from trueup_controller import known_faults
from trueup_node.cases import Case, Figure
from trueup_node.health import faults
from trueup_node.node import boot_units, state
from trueup_node.node.watched_log import Count

DATA = Path(__file__).parents[1] / "data" / "systemd"
RECORDED = (DATA / "show.txt").read_text(encoding="utf-8")


def unit(name: str, **properties: str) -> str:
    values = {
        "Id": name,
        "LoadState": "loaded",
        "ActiveState": "active",
        "SubState": "running",
        "UnitFileState": "enabled",
        "ConditionResult": "yes",
        "WantedBy": "multi-user.target",
        "ConditionTimestampMonotonic": "7",
        **properties,
    }
    return "".join(f"{key}={value}\n" for key, value in values.items())


def test_a_recorded_node_misses_what_was_taken_from_it() -> None:
    assert boot_units.missing(RECORDED) == [
        Count("mount_missing", "/mnt/x y", 1),
        Count("mount_missing", "/scratch2", 1),
        Count("mount_missing", "/shared", 1),
        Count("service_not_running", "munge.service", 1),
        Count("service_not_running", "slurmd.service", 1),
        Count("service_not_running", "sssd.service", 1),
    ]


@parametrized("text")
def test_a_healthy_unit_is_no_finding(text: str) -> None:
    assert boot_units.missing(text) == []


def test_a_service_that_is_started_by_hand_and_failed_is_a_finding() -> None:
    text = unit("slurmd.service", ActiveState="failed", UnitFileState="disabled")
    assert boot_units.missing(text) == [Count("service_not_running", "slurmd.service", 1)]


class Module:
    """What ``tools.ask`` needs of an AnsibleModule."""

    def __init__(self, status: int) -> None:
        self.status = status

    def get_bin_path(self, name: str, **_options: Any) -> str | None:
        return f"/usr/bin/{name}" if name == "systemctl" else None

    def run_command(self, argv: list[str], **_options: Any) -> tuple[int, str, str]:
        assert argv[:3] == ["/usr/bin/systemctl", "show", "--all"]
        assert {"munge.service", "slurmd.service", "*.mount"} <= set(argv)
        return self.status, RECORDED, "System has not been booted with systemd"


def test_without_systemd_nothing_is_known() -> None:
    assert boot_units.look(Module(1)) is None
    assert state.metrics({}, None, None, None, None) == []


def test_a_missing_unit_is_warned_of_with_its_name_and_fix() -> None:
    counts = boot_units.look(Module(0))
    rows = state.metrics({}, None, None, None, counts)
    assert (rows[0].name, rows[0].value) == ("unit_faults", 6)
    figures = [Figure(row.name, row.value, row.unit, "none", device=row.device) for row in rows]
    meanings = faults.of_document(
        {"xids": [], "sxids": [], "sources": {}, "fixes": {}, "watched": known_faults.watched()},
        "a catalog",
    )
    case = Case(("n1",), None, "node_state", "state", "ok", None, {}, {}, figures)
    said = [faults.warning(case, row, meanings) for row in figures if faults.is_warned(row.name)]
    assert {(item.verdict, item.device, item.what) for item in said if "munge" in str(item)} == {
        ("warn", "munge.service", "systemd: a service that the node is set to start does not run")
    }
    assert [item.device for item in said][:3] == ["/mnt/x y", "/scratch2", "/shared"]
    assert all(item.fix and item.reason is None for item in said)
