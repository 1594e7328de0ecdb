"""The role hpl, planned: program, packages, a case for each layout, skipped and refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from role_plans import asked as asked_of
from role_plans import node
from trueup.benchmarks.hpl.case import OPTIONS
from trueup.benchmarks.hpl.plan import asks, plan, programs
from trueup.errors import BadInput
from trueup.node.topology import format_cpu_list, parse_cpu_mask
from trueup.options import MODULE, module_spec, refusals
from trueup.plan import Asked

DEFAULTS = {one.name: one.default for one in OPTIONS if one.of != MODULE}
PACKAGES = ["hpcc", "libopenblas0-pthread", "openmpi-bin"]


def asked(
    path: str | None = None, privilege: str | None = "root", manager: str = "apt", **options: Any
) -> Asked:
    given = {**DEFAULTS, **options}
    return Asked(
        options=given,
        node={"privilege": privilege, "package_manager": manager},
        found={"programs": {given["program"] or "hpcc": path}},
    )


def test_one_case_by_default_and_one_for_each_layout() -> None:
    made = plan(asked())
    assert (made.skipped, made.refused, made.values) == ([], [], {"packages": PACKAGES})
    (case,) = made.cases or []
    assert (case["program"], case["ranks"], case["binding"]) == ("hpcc", 0, "numa")
    assert set(case) == set(module_spec(OPTIONS))
    layouts = [{"ranks": 1}, {"ranks": 2, "threads_per_rank": 4, "binding": "core"}]
    cases = plan(asked(layouts=layouts)).cases or []
    assert [(case["ranks"], case.get("threads_per_rank")) for case in cases] == [(1, None), (2, 4)]


@pytest.mark.parametrize(
    ("options", "largest"),
    [({}, 20000), ({"n": 30000}, 0), ({"max_n": 9000}, 9000), ({"program": "/opt/xhpl"}, 0)],
)
def test_only_the_distributions_program_is_bounded(options: dict[str, Any], largest: int) -> None:
    (case,) = plan(asked(**options)).cases or []
    assert case["max_n"] == largest


@pytest.mark.parametrize(
    ("node", "own"),
    [
        ({"hpc_image": {"HPCX": "2.25.1", "DOCA": "3.2.1"}}, True),
        # Images of before have OFED; and any MPI that is found beside PATH needs no other.
        ({"hpc_image": {"OFED": "24.10"}, "mpi": None}, True),
        ({"mpi": {"path": "/opt/x/bin/mpirun", "environment": {"OPAL_PREFIX": "/opt/x"}}}, True),
        ({"mpi": {"path": "/usr/bin/mpirun"}, "hpc_image": None}, False),
        ({"mpi": None, "hpc_image": None}, False),
    ],
)
def test_where_an_image_has_an_mpi_no_other_is_installed(node: dict[str, Any], own: bool) -> None:
    """There apt would remove doca-ofed for openmpi-bin."""
    question = asked()
    made = plan(replace(question, node={**question.node, **node}))
    assert made.values["packages"] == (PACKAGES[:2] if own else PACKAGES)


LOST = {
    "refused": True,
    "removed": {"ucx": "1.18.0-1", "doca-ofed": "2.10.0-1"},
    "downgraded": {},
}


def test_what_would_cost_the_node_its_stack_is_skipped_by_name() -> None:
    question = asked()
    assert asks(question) == {
        "package_transaction": {"manager": "apt", "names": PACKAGES, "asked": True}
    }
    made = plan(replace(question, found={**question.found, **LOST}))
    assert (made.values["packages"], [one.what for one in made.skipped]) == ([], ["hpl"])
    assert made.skipped[0].why == (
        "no hpcc on this node, and the distribution's packages would remove or downgrade doca-ofed"
        " (2.10.0-1), ucx (1.18.0-1): set hpl_program to a build against the node's own MPI"
    )
    # One that is there is measured, and nothing is installed for it.
    there = asked("/usr/bin/hpcc")
    made = plan(replace(there, found={**there.found, **LOST}))
    assert (made.values["packages"], made.skipped) == ([], [])
    for other in (asked(program="/opt/xhpl"), asked(privilege=None), asked(manager="dnf")):
        assert asks(other) == {}


@pytest.mark.parametrize(
    ("wanted", "packages", "why"),
    [
        (asked(privilege="sudo"), PACKAGES, None),
        (asked("/usr/bin/hpcc", None), [], None),
        (
            asked(None, None),
            [],
            "no hpcc on this node, and installing it needs root or sudo without a password",
        ),
        (
            asked(None, manager="dnf"),
            [],
            "no hpcc on this node, and no package hpcc in this distribution",
        ),
        (asked("/opt/xhpl", program="/opt/xhpl"), [], None),
        (
            asked(None, program="/opt/xhpl"),
            [],
            "no /opt/xhpl on this node, and hpl_program names a program of the site",
        ),
    ],
)
def test_what_is_installed_or_skipped(wanted: Asked, packages: list[str], why: str | None) -> None:
    made = plan(wanted)
    assert made.values == {"packages": packages}
    assert [one.why for one in made.skipped] == ([why] if why else [])
    assert programs(wanted) == {"programs": [wanted.options["program"] or "hpcc"]}


def test_what_cannot_be_measured_is_refused() -> None:
    wrong = {"layouts": [{"ranks": 1}, {"ranks": -1}]}
    assert refusals(OPTIONS, wrong, "hpl_") == ["hpl_layouts: ranks is -1: it must be 0 or more"]
    with pytest.raises(BadInput, match="a run on GPUs needs the sum of their memory"):
        plan(asked(gpus=8))
    assert plan(asked(gpus=8, memory_bytes=2**39)).refused == []


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


def test_who_says_an_affinity_or_another_binding_has_it_so() -> None:
    mine = ["--cpu-affinity", "0:1:2:3:4:5:6:7"]
    numa, none = on_gpus(
        **HPL_SH, arguments=mine, layouts=[{"binding": "numa"}, {"binding": "none"}]
    )
    assert pairs(numa["arguments"]) == {**NDV4, **pairs(mine)}
    assert (none["arguments"], none["gpu_masks"]) == (mine, [])
    # No hpl.sh: taskset alone binds. Four of eight GPUs: the first four.
    [other] = on_gpus(**{**HPL_SH, "program": "/opt/xhpl", "gpus": 4})
    assert (other["arguments"], len(other["gpu_masks"])) == ([], 4)
    # A size without a layout, and more ranks than GPUs.
    assert [case["gpu_masks"] for case in on_gpus("nc_a100_v4", **HPL_SH)] == [[]]
    assert [case["gpu_masks"] for case in on_gpus(**{**HPL_SH, "gpus": 16})] == [[]]
