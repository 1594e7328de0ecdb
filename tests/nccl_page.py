"""docs/reference/nccl_settings.md, written from catalog/nccl_settings.yml. For ``make options``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from pathlib import Path

FILE = "catalog/nccl_settings.yml"
PAGE = "docs/reference/nccl_settings.md"
HEAD = """\
# NCCL's settings

`make options` writes this page from catalog/nccl_settings.yml. The role `nccl` writes the settings
into `/etc/nccl.conf` (`conf`) and into profiles for jobs (`/opt/trueup/nccl/profiles`); runs of
`nccl`, `training` and of `vllm` over several nodes get those of their kind too. See also
[launches](launches.md) and the [topology file](../guides/topology.md). Yours go over them:

    nccl_variables: {NCCL_IB_AR_THRESHOLD: "0"}       # nccl.conf, all profiles, nccl and training
    training_variables: {NCCL_ALGO: Ring}             # training alone

| setting | value | contexts | kinds of job | sizes with the layout | why, and source |
| --- | --- | --- | --- | --- | --- |
"""
OFFERED = """
## Not set, and yours to set

| setting | NCCL's default | what it does | source |
| --- | --- | --- | --- |
"""


def page(root: Path) -> str:
    """The page's text."""
    data = yaml.safe_load((root / FILE).read_text(encoding="utf-8"))
    told = "".join(
        f"| `{one['name']}` | `{one['value']}` | {', '.join(one['in'])} |"
        f" {', '.join(one.get('kinds', ['all']))} | {_layouts(one)} |"
        f" {one['why']} |\n"
        for one in data["settings"]
    )
    offered = "".join(
        f"| `{one['name']}` | {one['default']} | {one['why']} | {one['source']} |\n"
        for one in data["offered"]
    )
    return HEAD + told + OFFERED + offered


def _layouts(setting: dict[str, Any]) -> str:
    on = ", ".join(setting.get("for", ["all"]))
    return f"{on}, with InfiniBand" if setting.get("rdma") else on
