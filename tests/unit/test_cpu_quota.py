"""The quota of a process's control groups, of both versions and in containers."""

from __future__ import annotations

from pathlib import Path

from helpers import parametrized
from trueup_node.node.cpu_quota import cpu_quota


@parametrized(("groups", "files", "expected"))
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
