"""The plays of playbooks/configure.yml, the families of the catalog, and what docs say of both."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from trueup_roles import roles_of

ROOT = Path(__file__).parents[2]
CONFIGURE = ROOT / "playbooks" / "configure.yml"
GROUP_VARS = ROOT / "playbooks" / "group_vars"
# The families that the project configures; the catalog knows more, for prices.
CONFIGURED = {
    *("hbv2", "hbv3", "hbv4", "hbv5", "hx", "hc"),
    *("ndv4", "ndm_a100_v4", "nd_h100_v5", "nd_h200_v5", "nc_a100_v4", "nv_a10_v5"),
}


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def families() -> set[str]:
    with (ROOT / "catalog" / "vm_sizes.csv").open(encoding="utf-8", newline="") as stream:
        return {row["family"] for row in csv.DictReader(stream)}


def plays() -> list[dict[str, Any]]:
    return [play for play in read(CONFIGURE) if play["hosts"] != "all"]


def test_each_configured_family_has_one_play() -> None:
    named = [family for play in plays() for family in play["hosts"].split(":")]
    assert sorted(named) == sorted(CONFIGURED)
    assert CONFIGURED - families() == set()


@pytest.mark.parametrize("family", sorted(CONFIGURED))
def test_its_roles_are_there_and_have_a_preflight(family: str) -> None:
    roles = roles_of(str(CONFIGURE), [family])
    lacking = [r for r in roles if not (ROOT / "roles" / r / "tasks" / "preflight.yml").is_file()]
    assert roles[0] == "hpc_limits"
    assert lacking == []


def test_group_vars_are_for_families_and_set_what_their_roles_have() -> None:
    strangers = []
    for path in sorted(GROUP_VARS.glob("*.yml")):
        if path.stem == "all":
            continue
        assert path.stem in CONFIGURED
        prefixes = tuple(f"{role}_" for role in roles_of(str(CONFIGURE), [path.stem]))
        strangers += [
            f"{path.name}: {name}" for name in read(path) if not name.startswith(prefixes)
        ]
    assert strangers == []


def test_the_documented_table_is_the_plays() -> None:
    """docs/configure.md has a row a play: `| families | roles in order |`."""
    text = (ROOT / "docs" / "configure.md").read_text(encoding="utf-8")
    rows = re.findall(
        r"^\| ((?:`[a-z0-9_]+`(?:, )?)+) \| ((?:`[a-z0-9_]+`(?:, )?)+) \|$", text, re.MULTILINE
    )
    documented = [
        (re.findall(r"`(\w+)`", hosts), re.findall(r"`(\w+)`", roles)) for hosts, roles in rows
    ]
    assert documented == [(play["hosts"].split(":"), play["roles"]) for play in plays()]
