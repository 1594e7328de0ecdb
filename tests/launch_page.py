"""docs/reference/launches.md, written from tests/data/launches. ``make options`` runs it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DATA = "tests/data/launches"
PAGE = "docs/reference/launches.md"
HEAD = """\
# Launches beside Azure's

`make options` writes this page from tests/data/launches: launches on two nodes as the modules
return them, beside Azure's scripts. Each difference has its reason.

| kind of job | who takes it | settings by |
| --- | --- | --- |
| collective test | `nccl`, `multi_node.sh` | hopper.conf; NDv4: run_nccl_all_reduce.slrm |
| training | `training`, `multi_node_training.sh` | 04-gpt175B.sh; NDv4: as the test |
| serving | `vllm` over several nodes, `multi_node_serving.sh` | what all kinds have in common |

The profiles are in /opt/trueup/nccl/profiles. 04-gpt175B.sh has SHARP off and chunks of 512
KiB. Azure publishes no settings for serving on these sizes. Each setting with its reason:
[nccl_settings](nccl_settings.md).

- Slurm: `nccl`, `hpl`, `devito` and `training` on GPUs get `srun --mpi=pmix` unless the arguments
  have another `--mpi`. Ranks of HPC-X then load its build with the image's PMIx (hpcx-pmix). Intel
  MPI and MVAPICH keep Slurm's default. `gromacs` runs on one node, without Slurm.
- mpirun over several nodes: `plm_rsh_no_tree_spawn 1` and `plm_rsh_num_concurrent 800`. The
  first node starts all others itself. By default nodes also start each other, and each would
  need a key for the others. Arguments of yours that name these two win.
"""
SOURCES = {
    "ndv4": (
        ("ndv4", "ndm_a100_v4"),
        "Azure/azurehpc@2d57191 experimental/ndv4_a100_healthchecks/run_nccl_all_reduce.slrm",
    ),
    "ndv5": (
        ("nd_h100_v5", "nd_h200_v5"),
        (
            "Azure/ai-infrastructure-on-azure@a01b073 infrastructure_validations/slurm/NCCL"
            " (hopper.conf, nccl_test_mpirun.sh) and examples/megatron-lm/GPT3-175B/slurm"
            " (04-gpt175B.sh)"
        ),
    ),
}
COLUMNS = "| setting | here | Azure's | why it differs |\n| --- | --- | --- | --- |\n"


def page(root: Path) -> str:
    """The page's text."""
    return (
        HEAD
        + "".join(
            part
            for name in SOURCES
            for program in ("nccl", "training")
            for part in _table(root, name, program)
        )
        + _others(root)
    )


def _launch(root: Path, family: str, name: str) -> dict[str, Any]:
    text = (root / DATA / f"two-{family}-{name}.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


def _table(root: Path, name: str, program: str) -> Iterator[str]:
    azure = yaml.safe_load((root / DATA / f"azure-{name}.yml").read_text(encoding="utf-8"))
    families, source = SOURCES[name]
    here = _launch(root, families[0], f"{program}-slurm")["environment"]
    theirs = azure["variables"].get(program, azure["variables"])
    reasons = {**azure["otherwise"][program], **azure["more"][program]}
    yield f"\n## {program} on {' and '.join(families)}\nAzure's: {source}\n\n{COLUMNS}"
    alike = [
        f"`{setting}={here[setting]}`"
        for setting in sorted(here)
        if setting not in reasons and here[setting] == theirs.get(setting)
    ]
    for setting in sorted({*here, *theirs}):
        if f"`{setting}={here.get(setting)}`" in alike:
            continue
        ours = "(folders of the libraries)" if setting == "LD_LIBRARY_PATH" else here.get(setting)
        shown = [f"`{value}`" if value else "not set" for value in (ours, theirs.get(setting))]
        yield f"| `{setting}` | {shown[0]} | {shown[1]} | {reasons[setting]} |\n"
    if program == "nccl":
        if masks := azure.get("otherwise_masks"):
            yield f"| CPU masks | each rank's | each rank's | {masks} |\n"
        for option, why in [*azure["left_out"].items(), *azure.get("mpirun", {}).items()]:
            if why:
                yield f"| `{option}` | otherwise | set | {why} |\n"
            else:
                alike.append(f"`{option}`")
    yield f"\nThe same as Azure's: {', '.join(alike)}.\n"


OTHERS = """
## Other families
Azure has no launch of these on two nodes.

| family | launch | variables |
| --- | --- | --- |
"""


def _others(root: Path) -> str:
    rows = []
    for path in sorted((root / DATA).glob("two-*-slurm.json")):
        family, program = path.stem.removeprefix("two-").removesuffix("-slurm").rsplit("-", 1)
        if family.startswith("nd"):
            continue
        here = _launch(root, family, f"{program}-slurm")["environment"]
        shown = [f"`{name}={value}`" for name, value in sorted(here.items()) if "/" not in value]
        rows.append(f"| {family} | {program} | {', '.join(shown)} |\n")
    return OTHERS + "".join(rows)
