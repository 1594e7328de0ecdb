"""Roles on Enterprise Linux 8, whose packages are verified with rpm by command and not changed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import plays
import pytest
import role_plans

# Of AlmaLinux-HPC 8.10 without gcc-c++; a stand-in of rpm.
RPM = """#!/bin/sh
[ "$LC_ALL" = C ] && [ "$1 $2" = "--query --whatprovides" ] || exit 99
shift 2
missing=0
for name; do
    case $name in
        {missing}) echo "no package provides $name"; missing=$((missing + 1)) ;;
        *) echo "$name-8.5.0-28.el8_10.x86_64" ;;
    esac
done
exit $missing
"""


@pytest.mark.parametrize("check", [(), ("--check",)], ids=["run", "check"])
@pytest.mark.parametrize("missing", ["none", "gcc-c++"])
def test_a_role_verifies_its_packages(tmp_path: Path, missing: str, check: Any) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "rpm").write_text(RPM.format(missing=missing))
    (programs / "rpm").chmod(0o755)
    node = role_plans.node("hbv3", "almalinux-8", programs={"gcc": None})
    play = {"roles": ["compiler"], "vars": {"trueup_node": node}}
    env = {"PATH": f"{programs}:{os.environ['PATH']}"}
    status, changed, said = plays.counted(plays.roles(tmp_path, play, *check, env=env))
    assert (status == 0, changed) == (missing == "none", 0), said
    assert ("gcc-c++: not installed" in said) is (missing != "none")


@pytest.mark.parametrize("image", [None, {"HPCX": "2.25.1"}], ids=["bare", "image"])
def test_preflight_lets_azures_image_pass_with_a_warning(tmp_path: Path, image: Any) -> None:
    node = role_plans.node("hbv3", "almalinux-8", hpc_image=image)
    known = {
        "trueup_node": node,
        "trueup_family_roles": ["rdma"],
        "trueup_cluster_roles": [],
        "trueup_plan": ["stream"],
        "trueup_health_plan": [],
    }
    play = {"tasks": [{"trueup_preflight": {}}], "vars": known}
    status, _, said = plays.counted(plays.roles(tmp_path, play))
    assert (status == 0) is (image is not None), said
    assert ("[WARNING]" in said and "none is installed" in said) is (image is not None), said
