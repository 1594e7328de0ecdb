"""The role devito, planned: its sweeps over layouts and nodes, what is skipped and refused, and
what a case is told when it begins."""

from __future__ import annotations

from typing import Any

import pytest
import role_plans
from trueup_controller.plans.devito import completed, fastest, plan, programs
from trueup_node.benchmarks.devito.case import OPTIONS, filling
from trueup_node.errors import BadInput
from trueup_node.options import MODULE, module_spec
from trueup_node.plan import Now, PlanInputs, Skipped

DEFAULTS = {one.name: one.default for one in OPTIONS if one.of != MODULE}
NAMES = [f"node-{number}" for number in range(1, 12)]
EACH: dict[str, dict[str, Any]] = {name: {} for name in NAMES}
ONE = {"ranks": 1, "threads_per_rank": 4, "binding": "core"}
FOUR = {"ranks": 4, "threads_per_rank": 1, "binding": "numa"}
NODE = {
    "layouts": [ONE, FOUR],
    "programs": {"gcc": "/usr/bin/gcc", "mpirun": "/usr/bin/mpirun"},
    "privilege": None,
    "catalog": {"peak_fp64_gflops": 4000.0},
}
MPI = "roles/devito/files/requirements-mpi.txt"
FOLDERS = (DEFAULTS["prefix"], f"{DEFAULTS['prefix']}/venv")
SPACE = {"path": "/home", "free_bytes": 2 * 1024**3, "there": False, "link": False}
FOUND = {
    "python": {"path": "/usr/bin/python3", "version": [3, 12, 1], "missing": [], "headers": True},
    "folders": dict.fromkeys(FOLDERS, SPACE),
}


def asked(count: int = 0, *, host: str = "node-1", found: Any = None, **options: Any) -> PlanInputs:
    """Of a play over all nodes; ``count`` of them are measured together."""
    node = {**NODE, **options.pop("node", {})}
    hosts = options.pop("hosts", NAMES)
    hostvars = options.pop("hostvars", EACH)
    variables = options.pop("variables", {})
    return PlanInputs(
        options={**DEFAULTS, "nodes": NAMES[:count], **options},
        node=node,
        host=host,
        found={**FOUND, **(found or {})},
        hostvars=hostvars,
        hosts=hosts,
        variables=variables,
        data=role_plans.data("devito"),
        catalog=role_plans.catalog,
    )


def sweep(count: int, **options: Any) -> list[dict[str, Any]]:
    """The cases over nodes."""
    given = {"node_mpi_modes": ["basic"], "node_layouts": [FOUR], "shape": "256x128x64", **options}
    return [case for case in plan(asked(count, **given)).cases or [] if "nodes" in case]


def test_the_nodes_own_sweep() -> None:
    made = plan(asked())
    cases = made.cases or []
    assert [(case["ranks"], case["binding"]) for case in cases] == [(4, "numa"), (1, "core")]
    assert {case["peak_flops"] for case in cases} == {8e12}
    assert {case["shape"] for case in cases} == {"320x320x320"}
    # completed() takes it out.
    assert set(cases[0]) - {"search"} <= set(module_spec(OPTIONS))
    assert (made.skipped, made.values["lead"], made.values["taken_over"]) == ([], "", [])
    assert made.values["environment"]["requirements"][-1] == MPI


@pytest.mark.parametrize(
    ("cores", "gib", "shape"),
    [
        (1, 4, "192x192x192"),
        (2, 24, "256x256x256"),
        (120, 448, "992x992x992"),
        (176, None, "1136x1136x1136"),
        # The arrays take half of the memory.
        (120, 8, "464x464x464"),
        (64, 1, "208x208x208"),
    ],
)
def test_the_default_grid_fills_the_machine(cores: int, gib: int | None, shape: str) -> None:
    memory = None if gib is None else gib * 1024**3
    problem = {"model": "acoustic", "space_order": 8, "tn_ms": 200, "nbl": 10}
    assert filling(cores, memory, **problem) == shape


def test_a_problem_that_the_machine_chose_is_said_to_be_one() -> None:
    made = plan(asked(node={"memory_bytes": 24 * 1024**3}))
    [note] = made.notes
    assert note == (
        "Devito computes 320x320x320 points, chosen by the 4 core(s) and 24.0 GiB of memory of the"
        " node. This is a trial of this machine, not the problem of the published article (preset"
        " devito-article)."
    )
    assert {case["sized_by"] for case in made.cases or []} == {"machine"}
    chosen = plan(asked(shape="64x64x64"))
    assert (chosen.notes, {case["sized_by"] for case in chosen.cases or []}) == ([], {None})
    assert plan(asked(scaling="weak", layouts=[ONE])).notes == []


def test_a_weak_series_grows_with_the_cores() -> None:
    shapes = [case["shape"] for case in plan(asked(scaling="weak", layouts=[ONE])).cases or []]
    assert shapes == ["1024x256x256"]


def test_an_unknown_peak_is_not_given() -> None:
    for catalog in (None, {}, {"peak_fp64_gflops": None}):
        assert (plan(asked(node={"catalog": catalog})).cases or [])[0]["peak_flops"] is None


def test_what_preflight_asks_the_node() -> None:
    assert programs(asked(prefix="/opt/devito", python="python3.12")) == {
        "python": "python3.12",
        "pythons": [],
        "imports": ["venv", "ensurepip"],
        "folders": ["/opt/devito", "/opt/devito/venv"],
    }


@pytest.mark.parametrize(
    ("node", "found", "why"),
    [
        ({"programs": {"gcc": None, "mpirun": "/x"}}, {}, ["no C compiler gcc"]),
        ({"programs": {"gcc": None, "mpirun": "/x"}, "privilege": "sudo"}, {}, []),
        ({"programs": {"gcc": "/x", "mpirun": None}}, {}, ["no mpirun on this node"]),
        ({}, {"python": None}, ["no python3 on this node"]),
        (
            {},
            {"python": {"path": "/p", "version": [3, 9, 1], "missing": ["venv"], "headers": True}},
            ["Python 3.9 is not the 3.10 to 3.14 that", "/p has no venv module"],
        ),
    ],
)
def test_what_is_skipped(node: Any, found: Any, why: list[str]) -> None:
    skipped = plan(asked(node=node, found=found)).skipped
    assert [said in one.why for said, one in zip(why, skipped, strict=True)] == [True] * len(why)


@pytest.mark.parametrize(
    ("versions", "missing", "taken", "pins"),
    [
        ([[3, 11]], [], 0, ""),
        ([[3, 10]], [], 0, "-3.10"),
        # Of an image's 3.6 or 3.9, and one whose venv module is no package of it.
        ([[3, 6], [3, 12]], [], 1, ""),
        ([[3, 9], [3, 12], [3, 10]], ["venv"], 2, "-3.10"),
        ([[3, 15], [3, 13]], [], 1, ""),
        ([[3, 9], [3, 8]], [], None, ""),
    ],
)
def test_the_python_that_devito_takes_and_its_pins(
    versions: list[list[int]], missing: list[str], taken: int | None, pins: str
) -> None:
    """``missing`` is what those between the first and the last lack."""
    pythons = [
        {"path": f"/p{number}", "version": [*version, 1], "missing": [], "headers": True}
        for number, version in enumerate(versions)
    ]
    for python in pythons[1:-1]:
        python["missing"] = missing
    made = plan(asked(found={"python": pythons[0], "pythons": pythons[1:]}))
    assert ([one.why for one in made.skipped] == []) is (taken is not None)
    if taken is not None:
        assert made.values["environment"]["python"] == f"/p{taken}"
        assert made.values["environment"]["requirements"][1:3] == [
            f"roles/devito/files/requirements-build{pins}.txt",
            f"roles/devito/files/requirements{pins}.txt",
        ]


def test_a_python_that_was_chosen_is_the_one_that_is_taken() -> None:
    assert programs(asked())["pythons"][0] == "python3.12"
    assert programs(asked(python="/opt/python3.9"))["pythons"] == []


@pytest.mark.parametrize(
    ("python", "why"),
    [
        ({"path": "/c", "version": [3, 12, 1], "missing": []}, []),
        ({"path": "/c", "version": [3, 8, 1], "missing": []}, []),
        ({"path": "/c", "version": [3, 12, 1], "missing": ["devito"]}, ["has no devito"]),
        (None, ["is not there"]),
    ],
)
def test_a_devito_of_the_sites_own_is_asked_for_and_not_installed(
    python: dict[str, Any] | None, why: list[str]
) -> None:
    program = "/opt/conda/envs/devito/bin/python"
    given = {"program": program, "found": {"python": python, "folders": {}}}
    assert programs(asked(**given)) == {
        "python": program,
        "imports": ["devito"],
        "folders": [DEFAULTS["prefix"]],
    }
    made = plan(asked(**given))
    assert made.values["environment"] == {}
    assert [said in one.why for said, one in zip(why, made.skipped, strict=True)] == [True] * len(
        why
    )
    assert {case["program"] for case in made.cases or []} == {program}


@pytest.mark.parametrize(("there", "why"), [(False, ["10 MiB are free in /home"]), (True, [])])
def test_an_installation_that_is_there_needs_no_space(there: bool, why: list[str]) -> None:
    folder = {"path": "/home", "free_bytes": 10 * 1024**2, "there": there, "link": False}
    made = plan(asked(found={"folders": dict.fromkeys(FOLDERS, folder)}))
    assert [one.why.split(" and ")[0] for one in made.skipped] == why


def test_without_mpirun_layouts_have_one_rank() -> None:
    made = plan(asked(node={"programs": {"gcc": "/x", "mpirun": None}}))
    assert [case["ranks"] for case in made.cases or []] == [1]
    assert MPI not in made.values["environment"]["requirements"]


def test_an_mpi_that_is_on_no_path_starts_ranks_and_builds_mpi4py() -> None:
    home = "/opt/hpcx-v2.25.1-x/ompi"
    found = {
        "path": f"{home}/bin/mpirun",
        "kind": "hpcx",
        "version": "4.1.9",
        "environment": {"OPAL_PREFIX": home},
    }
    made = plan(asked(node={"programs": {"gcc": "/x", "mpirun": None}, "mpi": found}))
    assert [case["ranks"] for case in made.cases or []] == [4, 1]
    assert made.values["environment"]["requirements"][-1] == MPI
    assert made.values["building"] == {"OPAL_PREFIX": home, "MPICC": f"{home}/bin/mpicc"}
    assert made.skipped == []
    # One on PATH is built with as ever; without any there is nothing to build.
    for mpirun in ("/usr/bin/mpirun", None):
        before = plan(asked(node={"programs": {"gcc": "/x", "mpirun": mpirun}}))
        assert before.values["building"] == {}


def test_an_mpi_that_is_wanted_and_not_there_is_the_reason() -> None:
    said = "MPI: trueup_mpi is 'hpcx', and this node has no MPI: give one"
    node = {"programs": {"gcc": "/x", "mpirun": "/x"}, "mpi": None, "warnings": [said]}
    assert [one.why for one in plan(asked(node=node)).skipped] == [said.removeprefix("MPI: ")]


@pytest.mark.parametrize(
    ("nodes", "counts", "swept"),
    [
        (1, [], [1]),
        (2, [], [1, 2]),
        (3, [], [1, 2, 3]),
        (4, [], [1, 2, 4]),
        (11, [], [1, 2, 4, 8, 11]),
        (4, [4, 2, 2], [2, 4]),
    ],
)
def test_few_nodes_come_first(nodes: int, counts: list[int], swept: list[int]) -> None:
    cases = sweep(nodes, node_counts=counts)
    assert [case["nodes"] for case in cases] == [NAMES[:count] for count in swept]
    assert [case["hosts"] for case in cases] == [NAMES[:count] for count in swept]


def test_the_order_is_nodes_layouts_launchers_exchanges() -> None:
    cases = sweep(
        2,
        node_layouts=[ONE, FOUR],
        launchers=["mpirun", "slurm"],
        node_mpi_modes=["diag", "full"],
        variables={
            "trueup_job_directory": "/shared",
            "trueup_mpirun_arguments": ["-v"],
            "trueup_srun_arguments": ["--mpi=pmix"],
        },
    )
    found = [
        (len(case["nodes"]), case["ranks"], case["launcher"], case["mpi_mode"]) for case in cases
    ]
    assert found == [
        # One rank alone exchanges nothing.
        *((1, 1, "mpirun", "basic"), (1, 1, "slurm", "basic")),
        *((1, 4, "mpirun", "diag"), (1, 4, "mpirun", "full")),
        *((1, 4, "slurm", "diag"), (1, 4, "slurm", "full")),
        *((2, 1, "mpirun", "diag"), (2, 1, "mpirun", "full")),
        *((2, 1, "slurm", "diag"), (2, 1, "slurm", "full")),
        *((2, 4, "mpirun", "diag"), (2, 4, "mpirun", "full")),
        *((2, 4, "slurm", "diag"), (2, 4, "slurm", "full")),
    ]
    arguments = {case["launcher"]: case["launcher_arguments"] for case in cases}
    assert arguments == {"mpirun": ["-v"], "slurm": ["--mpi=pmix"]}


@pytest.mark.parametrize(
    ("layouts", "chosen"),
    [
        ([ONE, FOUR], FOUR),
        ([FOUR, ONE], FOUR),
        # All cores go before many ranks.
        ([ONE, {"ranks": 3, "threads_per_rank": 1, "binding": "core"}], ONE),
    ],
)
def test_the_layout_over_nodes_is_the_one_of_most_ranks(
    layouts: list[dict[str, Any]], chosen: dict[str, Any]
) -> None:
    case = sweep(1, node_layouts=[], node={"layouts": layouts})[0]
    assert {name: case[name] for name in chosen} == chosen


def test_a_weak_series_grows_with_the_nodes() -> None:
    shapes = [case["shape"] for case in sweep(4, node_scaling="weak")]
    assert shapes == ["256x128x64", "512x128x64", "1024x128x64"]


def test_the_first_node_that_may_be_used_leads() -> None:
    assert [len(sweep(2, host=host)) for host in NAMES[:3]] == [2, 0, 0]
    assert [len(sweep(2, host=host, hosts=NAMES[1:])) for host in NAMES[:3]] == [0, 2, 0]
    unwell = {**EACH, "node-1": {"trueup_skipped": [{"what": "devito"}]}}
    assert [len(sweep(2, host=host, hostvars=unwell)) for host in NAMES[:3]] == [0, 2, 0]


@pytest.mark.parametrize(
    ("host", "hosts", "lead", "taken"),
    [
        ("node-2", NAMES[1:], "node-1", True),
        ("node-3", NAMES[1:], "node-1", False),
        ("node-1", NAMES, "node-1", False),
        ("node-2", NAMES[1:], "node-2", False),
        # It was skipped all along, and is not lost.
        ("node-2", NAMES, "node-1", False),
    ],
)
def test_a_lost_leads_sweep_is_taken_over(
    host: str, hosts: list[str], lead: str, taken: bool
) -> None:
    made = plan(asked(2, host=host, hosts=hosts, found={"lead": lead}))
    assert bool(made.values["taken_over"]) == taken


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"shape": "256"}, "devito_shape is '256': it must be like"),
        (
            {"layouts": [{**ONE, "binding": "x"}]},
            "devito_layouts: binding is x: it must be none or",
        ),
        ({"node_layouts": [{"ranks": 1}]}, "each of devito_node_layouts has ranks, threads"),
        ({"layouts": [{**ONE, "ranks": 0}]}, "devito_layouts: ranks is 0"),
        ({"nodes": ["elsewhere"]}, "devito_nodes: elsewhere must be hosts of this inventory"),
        ({"count": 4, "node_counts": [2, 5]}, "devito_node_counts has 5, and devito_nodes has 4"),
        ({"count": 4, "node_counts": [0]}, "devito_node_counts has 0"),
        ({"count": 2, "launchers": ["slurm"]}, "slurm needs trueup_job_directory"),
    ],
)
def test_what_is_refused(given: dict[str, Any], said: str) -> None:
    made = plan(asked(given.pop("count", 0), **given))
    assert made.cases is None
    assert said in " ".join(made.refused)


def test_nodes_of_one_record_are_alike() -> None:
    sizes = {name: {"ansible_facts": {"trueup_node": {"vm_size": name}}} for name in NAMES}
    refused = plan(asked(2, hostvars=sizes)).refused
    said = "nodes measured together differ in vm_size, of which a record has one"
    assert refused == [f"devito_nodes: {said}: node-1 node-1, node-2 node-2"]


def test_a_problem_that_cannot_be() -> None:
    with pytest.raises(BadInput, match="smaller than the stencil"):
        plan(asked(shape="4x4x4"))


def record(benchmark: str = "devito", **changes: Any) -> dict[str, Any]:
    problem = {"model": "acoustic", "shape": "256x256x256", "space_order": 8, "tn_ms": 200}
    rows = [
        {"name": "field_norm", "statistic": "single", "value": 1.5},
        {"name": "rec_norm", "statistic": "single", "value": 2.5},
        {"name": "triad_rate", "statistic": "median", "value": changes.pop("triad", 1e9)},
        {"name": "triad_rate", "statistic": "max", "value": 9e9},
    ]
    usual = {"nodes": ["node-1"], "parameters": {**problem, "nbl": 10}, "metrics": rows}
    return {"benchmark": benchmark, **usual, **changes}


@pytest.mark.parametrize(
    ("records", "norms", "bandwidth"),
    [
        ([], None, None),
        ([record()], {"field": 1.5, "receivers": 2.5}, None),
        ([record(nodes=["node-2"])], None, None),
        ([record(parameters={})], None, None),
        ([record("stream"), record("stream", triad=3e9)], None, 3e9),
        ([record("stream", nodes=["node-2"])], None, None),
    ],
)
def test_a_case_is_told_what_the_run_has(
    records: list[dict[str, Any]], norms: Any, bandwidth: float | None
) -> None:
    case = (plan(asked(shape="256x256x256")).cases or [])[0]
    now = Now("node-1", records, NAMES, EACH)
    found = completed(case, now)
    assert (found.get("reference_norms"), found.get("memory_bandwidth")) == (norms, bandwidth)
    assert "absent" not in found


def test_a_case_over_nodes_is_told_who_is_gone_and_any_nodes_norms() -> None:
    case = sweep(2, shape="256x256x256")[1]
    records = [record(nodes=["node-9"]), record("stream")]
    now = Now("node-1", records, ["node-1"], EACH)
    found = completed(case, now)
    assert found["absent"] == ["node-2"]
    assert found["reference_norms"] == {"field": 1.5, "receivers": 2.5}
    assert "memory_bandwidth" not in found


WHOLE = {"ranks": 4, "threads_per_rank": 30, "binding": "numa"}
PART = {"ranks": 1, "threads_per_rank": 16, "binding": "core"}
HBV3 = {
    "cores": 120,
    "numa": [{"node": node, "cpus": f"{30 * node}-{30 * node + 29}"} for node in range(4)],
    "last_level_cache_bytes": 512 * 1024**2,
    "layouts": [PART, WHOLE],
}


def layout_ran(layout: dict[str, Any], seconds: float) -> dict[str, Any]:
    """A record as the module gives it: 85 steps of 276^3 points, 20 byte and 54 flop a point."""
    updates = 85 * 276**3
    medians = {
        "run_time": seconds,
        "flop_rate": 54 * updates / seconds,
        "point_rate": updates / seconds,
        "operational_intensity": 2.7,
        "halo_share": 0.1,
    }
    rows = [
        {"name": name, "statistic": "median", "value": value} for name, value in medians.items()
    ]
    rows += [{"name": "run_time", "statistic": name, "value": seconds} for name in ("min", "max")]
    parameters = {**record()["parameters"], "launcher": "local", "binding": layout["binding"]}
    sizes = {name: layout[name] for name in ("ranks", "threads_per_rank")}
    return record(parameters=parameters, metrics=rows, **sizes)


def begun(layout: dict[str, Any], records: list[dict[str, Any]], **options: Any) -> Any:
    """What becomes of the case of a layout, after what was recorded."""
    cases = plan(asked(node=HBV3, **{"shape": "256x256x256", **options})).cases or []
    [case] = [one for one in cases if {name: one[name] for name in layout} == layout]
    hostvars = {**EACH, "node-1": {"ansible_facts": {"trueup_node": HBV3}}}
    return completed(case, Now("node-1", records, NAMES, hostvars))


def test_a_layout_that_cannot_win_is_skipped_by_name() -> None:
    skipped = begun(PART, [layout_ran(WHOLE, 1.5)])
    assert skipped.what == "devito 1 rank(s) x 16 thread(s), binding core"
    assert skipped.why == (
        "it uses 1 of 4 NUMA nodes, which are at most 1.3 times as fast as beside the others:"
        " 4.15 s or more; 4 rank(s) x 30 thread(s), binding numa took 1.5 s"
    )
    # Not before anything ran, and not where it ran: a run that is resumed takes its record over.
    assert "search" not in begun(PART, [])
    assert begun(PART, [layout_ran(WHOLE, 1.5), layout_ran(PART, 9.0)])["ranks"] == 1
    assert begun(WHOLE, [layout_ran(PART, 9.0)])["ranks"] == 4
    # A record of another node or problem says nothing.
    other = {**layout_ran(WHOLE, 1.5), "nodes": ["node-2"]}
    assert begun(PART, [other])["ranks"] == 1


def test_what_a_record_says_of_a_layout() -> None:
    triad = {"name": "triad_rate", "statistic": "median", "value": 1e10}
    stream = record("stream", metrics=[triad])
    # 276^3 points of 20 byte are 0.42 GB, of which 4 x 128 MiB of cache could hold back 0.54 GB.
    assert begun(PART, [{**layout_ran(WHOLE, 0.05)}, stream])["ranks"] == 1
    less_cache = {**HBV3, "last_level_cache_bytes": 64 * 1024**2}
    cases = plan(asked(node=less_cache, shape="256x256x256")).cases or []
    hostvars = {**EACH, "node-1": {"ansible_facts": {"trueup_node": less_cache}}}
    now = Now("node-1", [layout_ran(WHOLE, 0.05), stream], NAMES, hostvars)
    skipped = completed(cases[-1], now)
    assert isinstance(skipped, Skipped)
    # (0.4205 GB - 4 x 16 MiB) x 85 steps, at a quarter of 10 GB/s and a quarter more.
    assert skipped.why.startswith("its memory moves at most 3.12 GB/s by STREAM: 9.61 s or more;")


@pytest.mark.parametrize(
    "options", [{"search": "all"}, {"scaling": "weak"}, {"layouts": [PART, WHOLE]}]
)
def test_all_layouts_are_measured_where_that_is_asked_for(options: dict[str, Any]) -> None:
    cases = plan(asked(node=HBV3, **{"shape": "256x256x256", **options})).cases or []
    assert [case["ranks"] for case in cases] == [1, 4]
    assert begun(PART, [layout_ran(WHOLE, 1.5)], **options)["ranks"] == 1
    assert [case["ranks"] for case in plan(asked(node=HBV3)).cases or []] == [4, 1]


def timed(seconds: float, **changes: Any) -> dict[str, Any]:
    row = {"name": "run_time", "statistic": "median", "value": seconds}
    parameters = {
        **record()["parameters"],
        "launcher": "local",
        "binding": "numa",
        "repeats": 3,
        **changes.pop("parameters", {}),
    }
    made = record(parameters=parameters, metrics=[row], ranks=4, threads_per_rank=30)
    return {**made, **changes}


def test_the_fastest_of_the_nodes_own_layouts() -> None:
    cases = plan(asked(shape="256x256x256")).cases or []
    others = [
        timed(1.0, nodes=["node-2"]),
        timed(1.0, nodes=["node-1", "node-2"]),
        timed(1.0, parameters={"launcher": "slurm"}),
        timed(1.0, parameters={"shape": "64x64x64"}),
        timed(1.0, benchmark="stream"),
    ]
    made = [*others, timed(7.5), timed(6.25, ranks=1), timed(6.25)]
    assert fastest(cases, made, "node-1") == (
        "node-1: 1 rank(s) x 30 thread(s), binding numa, is the fastest of 3 layouts: 6.250 s"
        " median of 3 repeats"
    )
    reusing = [timed(7.5, parameters={"tuning": "reused"}), timed(8.0)]
    assert fastest(cases, reusing, "node-1").endswith(
        "of 3 repeats; 1 reused the block shape of an earlier run"
    )
    assert fastest(cases, others, "node-1") == ""
    assert fastest(plan(asked(scaling="weak")).cases or [], made, "node-1") == ""
    assert fastest([], made, "node-1") == ""
