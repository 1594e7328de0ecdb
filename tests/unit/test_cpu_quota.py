"""The quota of a process's control groups, of both versions and in containers."""

from __future__ import annotations

from pathlib import Path

import pytest
from trueup_node.node.cpu_quota import cpu_quota

OF_TWO = "0::/system.slice/run.service\n"
OF_ONE = "4:cpu,cpuacct:/batch/job\n2:cpuset:/\n0::/\n"


@pytest.mark.parametrize(
    ("groups", "files", "expected"),
    [
        (OF_TWO, {"system.slice/run.service/cpu.max": "100000 100000\n"}, "1 core"),
        (OF_TWO, {"system.slice/run.service/cpu.max": "max 100000\n"}, "none"),
        # The lowest of a group and of those above it counts.
        (
            OF_TWO,
            {
                "system.slice/run.service/cpu.max": "max 100000",
                "system.slice/cpu.max": "25000 50000",
            },
            "0.5 cores",
        ),
        # In a container the mount is the group's own, and its path is that of the host.
        ("0::/../../kubepods/pod1\n", {"cpu.max": "150000 100000\n"}, "1.5 cores"),
        (
            OF_ONE,
            {"cpu/batch/cpu.cfs_quota_us": "200000", "cpu/batch/cpu.cfs_period_us": "100000"},
            "2 cores",
        ),
        (OF_ONE, {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, "none"),
        (OF_TWO, {}, "none"),
        (OF_TWO, {"cpu.max": "rubbish\0"}, "none"),
        (OF_TWO, {"cpu.max": "100000 0"}, "none"),
        ("no line of this form\n", {}, "none"),
        ("", {}, None),
    ],
)
def test_the_lowest_quota_counts(
    tmp_path: Path, groups: str, files: dict[str, str], expected: str | None
) -> None:
    for name, text in {"proc/self/cgroup": groups, **_under("sys/fs/cgroup", files)}.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert cpu_quota(str(tmp_path / "proc"), str(tmp_path / "sys")) == expected


def _under(folder: str, files: dict[str, str]) -> dict[str, str]:
    return {f"{folder}/{name}": text for name, text in files.items()}


def test_a_machine_without_procfs_says_nothing(tmp_path: Path) -> None:
    assert cpu_quota(str(tmp_path), str(tmp_path)) is None
