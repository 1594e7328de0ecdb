"""The role hpl, planned: build or container, a case for each layout, skipped and refused."""

from __future__ import annotations

import subprocess
import tarfile
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from helpers import ROOT
from role_plans import asked as asked_of
from role_plans import node
from trueup_controller.plans.hpl import plan
from trueup_node.benchmarks.hpl import case as hpl
from trueup_node.benchmarks.hpl.case import OPTIONS
from trueup_node.errors import BadInput
from trueup_node.node.topology import format_cpu_list, parse_cpu_mask
from trueup_node.options import MODULE, module_spec, refusals
from trueup_node.plan import PlanInputs

if TYPE_CHECKING:
    from pathlib import Path

DEFAULTS = {one.name: one.default for one in OPTIONS if one.of != MODULE}
HPCX = {
    "path": "/opt/hpcx-v2/ompi/bin/mpirun",
    "kind": "hpcx",
    "environment": {"OPAL_PREFIX": "/opt/hpcx-v2/ompi", "LD_LIBRARY_PATH": "/opt/hpcx-v2/ompi/lib"},
}
DIGEST = f"nvcr.io/nvidia/hpc-benchmarks@sha256:{'ab' * 32}"
LACKS = (
    "HPL cannot be built: this node lacks {}, and the role installs packages with apt as root or"
    " through sudo without a password alone"
)
# Of the launchers, a case of one node says nothing.
LAUNCHED = {
    *("nodes", "hosts", "absent", "launcher", "launcher_path", "launcher_arguments"),
    *("job_directory", "job_options", "queue_seconds"),
}


class Everything(dict[str, Any]):
    """Programs of which those that are named are there, and no others."""

    def __missing__(self, name: str) -> None:
        return None


def asked(
    *,
    privilege: str | None = "root",
    manager: str = "apt",
    there: tuple[str, ...] = (),
    files: tuple[str, ...] = (),
    on_node: dict[str, Any] | None = None,
    variables: dict[str, Any] | None = None,
    **options: Any,
) -> PlanInputs:
    return PlanInputs(
        variables=variables or {},
        options={**DEFAULTS, "prefix": "/opt/hpl", **options},
        node={
            "privilege": privilege,
            "package_manager": manager,
            "catalog": None,
            **(on_node or {}),
        },
        found={
            "programs": Everything({name: name for name in there}),
            "files": dict.fromkeys(files, True),
        },
        host="one",
    )


def values(question: PlanInputs) -> dict[str, Any]:
    made = plan(question)
    assert (made.refused, made.skipped) == ([], [])
    return dict(made.values)


def test_one_case_by_default_and_one_for_each_layout() -> None:
    made = plan(asked())
    assert (made.skipped, made.refused) == ([], [])
    (case,) = made.cases or []
    assert (case["ranks"], case["binding"], case["gpus"]) == (0, "numa", 0)
    assert set(module_spec(OPTIONS)) - set(case) == LAUNCHED
    layouts = [{"ranks": 1}, {"ranks": 2, "threads_per_rank": 4, "binding": "core"}]
    cases = plan(asked(layouts=layouts)).cases or []
    assert [(case["ranks"], case.get("threads_per_rank")) for case in cases] == [(1, None), (2, 4)]


@pytest.mark.parametrize(
    ("question", "why"),
    [
        (asked(privilege=None), LACKS.format("gcc, mpicc, a fast BLAS (hpl_blas can name one)")),
        (
            asked(manager="dnf", there=("gcc", "mpicc")),
            LACKS.format("a fast BLAS (hpl_blas can name one)"),
        ),
        (asked(program="/opt/xhpl"), "no /opt/xhpl on this node, and hpl_program names it"),
    ],
)
def test_nodes_without_a_program_are_skipped_by_name(question: PlanInputs, why: str) -> None:
    assert [one.why for one in plan(question).skipped] == [why]
    assert set(map(len, plan(question).values.values())) == {0}


def test_wrong_options_are_refused() -> None:
    wrong = {"layouts": [{"ranks": 1}, {"ranks": -1}]}
    assert refusals(OPTIONS, wrong, "hpl_") == ["hpl_layouts: ranks is -1: it must be 0 or more"]
    with pytest.raises(BadInput, match="a run on GPUs needs the sum of their memory"):
        plan(asked(gpus=8, program="/opt/xhpl", there=("/opt/xhpl",)))
    assert plan(asked(gpus=8, memory_bytes=2**39)).refused == [
        "hpl_gpus is 8, and HPL's release computes on CPUs: set hpl_container_image, or hpl_program"
    ]


# ---- the build, for real: a release of one file


def test_the_build_compiles_a_release_and_a_wrong_one_leaves_nothing(tmp_path: Path) -> None:
    """With gcc in the place of mpicc, and the C library's mathematics in that of a BLAS."""
    tree = tmp_path / "hpl-9"
    for name, text in {
        "src/auxil/HPL_dlamch.c": "#ifdef __OPTIMIZE__\n#error optimised\n#endif\nint two = 2;\n",
        "testing/ptest/main.c": (
            '#include "hpl.h"\nextern int two; int main(void) { return MADE + two; }\n'
        ),
        "include/hpl.h": "#ifndef Add_\n#error names\n#endif\n#define MADE 40\n",
    }.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text)
    archive = tmp_path / "hpl.tar.gz"
    with tarfile.open(archive, "w:gz") as packed:
        packed.add(tree, "hpl-9")
    [build] = values(asked(prefix=str(tmp_path / "prefix"), on_node={"mpi": HPCX}))["to_build"]
    (tmp_path / "prefix").mkdir()
    libm = subprocess.run(
        ["gcc", "-print-file-name=libm.so.6"], capture_output=True, text=True, check=True
    ).stdout.strip()
    argv = [*build["argv"][:4], str(archive), libm, "gcc", build["argv"][-1]]
    assert subprocess.run(argv, check=False).returncode == 0
    assert subprocess.run([build["creates"]], check=False).returncode == 42
    names = [path.name for path in (tmp_path / "prefix").iterdir()]
    assert [f"{tmp_path}/prefix/{name}" for name in names] == [build["creates"]]
    archive.write_bytes(archive.read_bytes()[:-20])
    (tmp_path / "prefix" / names[0]).unlink()
    assert subprocess.run(argv, check=False, capture_output=True).returncode != 0
    assert list((tmp_path / "prefix").iterdir()) == []


# ---- several nodes


# ---- GPUs

# The NDv4 article's, but for the adapters' names.
NDV4 = {
    "--cpu-affinity": "24-35:36-47:0-11:12-23:72-83:84-95:48-59:60-71",
    "--mem-affinity": "1:1:0:0:3:3:2:2",
    "--ucx-affinity": ":".join(f"mlx5_ib{number}" for number in range(8)),
    "--gpu-affinity": "0:1:2:3:4:5:6:7",
}
HPL_SH = {"program": "/workspace/hpl.sh", "gpus": 8, "memory_bytes": 8 * 40 * 1024**3}


def on_gpus(family: str = "ndv4", **options: Any) -> list[dict[str, Any]]:
    found = {"programs": {options["program"]: options["program"]}}
    return plan(asked_of("hpl", node(family), found, **options)).cases or []


def pairs(words: list[str]) -> dict[str, str]:
    return dict(zip(words[::2], words[1::2], strict=True))


def test_ranks_on_gpus_have_the_cores_memory_and_adapter_beside_them() -> None:
    [case] = on_gpus(**HPL_SH, arguments=["--dat", "HPL.dat"])
    assert pairs(case["arguments"]) == {**NDV4, "--dat": "HPL.dat"}
    cores = [format_cpu_list(parse_cpu_mask(mask)) for mask in case["gpu_masks"]]
    assert ":".join(cores) == NDV4["--cpu-affinity"]


def in_container(
    family: str = "ndv4", there: str | None = "/usr/bin/docker", **options: Any
) -> Any:
    runtime = "enroot" if "container_sha256" in options else "docker"
    found = {"programs": {runtime: there}, "files": options.pop("files", {})}
    return plan(asked_of("hpl", node(family), found, **{"container_image": DIGEST, **options}))


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (in_container("hbv3"), "no GPU on this node for NVIDIA's HPL container"),
        (in_container(there=None), "no docker on this node to run NVIDIA's HPL container"),
        (
            in_container(
                container_image="/images/hpl.sqsh",
                container_sha256="ab" * 32,
                files={"/images/hpl.sqsh": False},
            ),
            "/images/hpl.sqsh is not on this node",
        ),
    ],
)
def test_nodes_that_cannot_run_the_container_are_skipped_by_name(made: Any, why: str) -> None:
    assert [(one.what, one.why) for one in made.skipped] == [("hpl", why)]
    assert made.values["images"] == []


def test_the_articles_preset_fills_the_same_share_of_the_gpus_as_nvidias_sample() -> None:
    preset = yaml.safe_load((ROOT / "catalog/presets/ndv4-hpl.yml").read_text(encoding="utf-8"))
    options = {name.removeprefix("hpl_"): value for name, value in preset["variables"].items()}
    [case] = in_container(**options).cases
    order = hpl.order(
        **{name: case[name] for name in ("n", "nb", "max_n", "memory_fraction", "memory_bytes")}
    )
    assert (order, case["gpus"], case["ranks"]) == (185344, 8, 8)
    assert pairs(case["arguments"]) == NDV4
    # NVIDIA's sample: order 264192 on eight GPUs of 80 GiB.
    assert pytest.approx(264192**2 / 80, rel=0.02) == 185344**2 / 40
