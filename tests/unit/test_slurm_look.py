"""Which cgroups Slurm could use, by /proc/self/mounts."""

from __future__ import annotations

from pathlib import Path

import pytest
import slurm_facts
from helpers import answer_of, parametrized
from trueup_node.node import slurm_probe

UNIFIED = "cgroup2 /sys/fs/cgroup cgroup2 {},nosuid 0 0\n"
OLD = "".join(
    f"cgroup /sys/fs/cgroup/{name} cgroup {{}},nosuid,{name} 0 0\n"
    for name in ("cpuset", "devices", "freezer", "memory", "cpu", "cpuacct")
)


@pytest.mark.parametrize(
    ("mounts", "version", "why"),
    [
        (UNIFIED.format("rw"), "v2", ""),
        (UNIFIED.format("ro"), "none", "cgroup version 2 is mounted read-only"),
        (OLD.format(*["rw"] * 6), "v1", ""),
        (
            OLD.format(*["ro"] * 6),
            "none",
            "cgroup version 1, not writable: cpuset, devices, freezer, memory",
        ),
        ("cgroup /c cgroup rw,cpu,cpuacct 0 0\n", "none", "no cgroups are mounted"),
        ("proc /proc proc rw 0 0\n", "none", "no cgroups are mounted"),
    ],
)
def test_versions(mounts: str, version: str, why: str) -> None:
    assert slurm_probe.cgroup(mounts) == (version, why)


@parametrized(("controllers", "version"))
def test_a_hybrid_is_old_as_long_as_the_new_side_has_no_controllers(
    tmp_path: Path, controllers: str, version: str
) -> None:
    (tmp_path / "cgroup.controllers").write_text(controllers, encoding="ascii")
    mounts = OLD.format(*["rw"] * 6) + f"cgroup2 {tmp_path} cgroup2 rw 0 0\n"
    assert slurm_probe.cgroup(mounts)[0] == version


def test_the_module_publishes_what_the_host_can_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("mpi_pmix.so", "mpi_none.so", "gpu_nvml.txt"):
        (tmp_path / name).touch()
    asked = {"plugins": str(tmp_path), "names": ["localhost", "no-such-host.invalid"]}
    said = answer_of(slurm_facts, capsys, **asked)
    assert said["unresolved"] == ["no-such-host.invalid"]
    found = said["ansible_facts"]["trueup_slurm"]
    assert (found["plugins"], found["nvml"]) == (["mpi_pmix"], False)
    assert sorted(found) == [
        "cgroup",
        "cgroup_why",
        "hostname",
        "may_bind",
        "nvml",
        "plugins",
        "slurm_uid",
        "version",
    ]
