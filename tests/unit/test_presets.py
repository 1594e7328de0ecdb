"""Presets: their files, the variables that follow from one, and a run beside the published rows."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import yaml
from helpers import ROOT, parametrized, role_files
from trueup_analysis import catalog
from trueup_analysis.figures import presets as figures
from trueup_controller import presets
from trueup_node.cases import Case, Figure
from trueup_node.errors import BadInput

CATALOG = ROOT / "catalog"
PUBLISHED = CATALOG / "reference_results.csv"
NAMES = presets.names(CATALOG)
HBV3 = presets.Machine("Standard_HB120rs_v3", 120)
TWO, EIGHT = ({"devito_nodes": [f"hb-{at}" for at in range(count)]} for count in (2, 8))


def changed(tmp_path: Path, **members: Any) -> Path:
    """A catalog with the preset devito-article, some members of which are others."""
    document = yaml.safe_load((CATALOG / "presets" / "devito-article.yml").read_text())
    folder = tmp_path / "presets"
    folder.mkdir()
    (folder / "devito-article.yml").write_text(yaml.safe_dump({**document, **members}))
    return tmp_path


def test_a_family_has_presets_in_order_and_an_unknown_one_is_refused() -> None:
    lists = figures.families()
    assert presets.of_family("hbv4", lists)[:2] == ["devito-article", "llama-cpu"]
    assert presets.of_family("nv_a10_v5", lists) == ["nx-5-users"]
    assert presets.of_family("unlisted_gpu", lists) == []
    with pytest.raises(BadInput, match="there is no family 'hbv33'; did you mean hbv3"):
        presets.of_family("hbv33", lists)


@pytest.mark.parametrize("name", NAMES)
def test_every_variable_is_one_of_a_role(name: str) -> None:
    described = set()
    for path in role_files("meta/argument_specs.yml").values():
        for entry in yaml.safe_load(path.read_text())["argument_specs"].values():
            described |= set(entry.get("options", {}))
    preset = presets.read(name, CATALOG)
    used = {*preset.variables, *preset.small, *presets.asked_of_user(preset)} - {
        "trueup_benchmarks"
    }
    assert used - described == set()


def test_the_devito_preset_does_the_work_of_the_article() -> None:
    rows = [
        row
        for _, row in catalog.rows(PUBLISHED, "benchmark", "metric", "value")
        if row["benchmark"] == "devito benchmark.py acoustic forward"
    ]
    seconds = [float(row["value"]) for row in rows if row["metric"] == "run_time"]
    rates = [float(row["value"]) for row in rows if row["metric"] == "throughput"]
    work = [time * rate for time, rate in zip(seconds, rates, strict=True)]
    assert len(work) == 13
    assert max(abs(one / 38950 - 1) for one in work) < 0.001
    # Devito 4.8.23 counts 45 operations a point and 116 a receiver, in 5,723 steps of 2.42 ms.
    operations = 5723 * (532**3 * 45 + 512**2 * 116)
    assert operations == pytest.approx(38950e9, rel=1e-4)
    assert presets.read("devito-article", CATALOG).variables["devito_tn_ms"] == 13857


def test_a_whole_preset_is_taken_unchanged() -> None:
    preset = presets.read("devito-article", CATALOG)
    applied = presets.applied("devito-article", preset, HBV3, values=EIGHT)
    assert applied.variables == {
        **preset.variables,
        "trueup_benchmarks": ["devito"],
        "devito_node_counts": [1, 2, 4, 8],
    }
    assert applied.notes == []


def test_a_scaled_preset_fits_the_machine() -> None:
    preset = presets.read("devito-article", CATALOG)
    small = presets.Machine("", 2)
    applied = presets.applied("devito-article", preset, small, values={}, scale=0.001).variables
    assert (applied["devito_shape"], applied["devito_tn_ms"]) == ("51x51x51", 14)
    assert applied["devito_layouts"] == [
        {"ranks": 1, "threads_per_rank": 1, "binding": "core"},
        {"ranks": 1, "threads_per_rank": 2, "binding": "core"},
    ]
    assert applied["devito_node_layouts"] == [
        {"ranks": 1, "threads_per_rank": 1, "binding": "numa"},
        {"ranks": 1, "threads_per_rank": 2, "binding": "numa"},
    ]


@parametrized(("name", "scale", "work"))
def test_a_smaller_form_does_less_of_the_same_work(
    name: str, scale: float, work: dict[str, Any]
) -> None:
    preset = presets.read(name, CATALOG)
    values = dict.fromkeys(preset.user_variables, "x")
    small = presets.Machine("Standard_D4d_v5", 2)
    variables = presets.applied(name, preset, small, values=values, scale=scale).variables
    assert variables == {**preset.variables, "trueup_benchmarks": preset.benchmarks, **work}
    # The work as a whole has none of the smaller form's values.
    [size] = preset.sizes
    whole = presets.applied(name, preset, presets.Machine(size, 2), values=values).variables
    assert whole == {**preset.variables, "trueup_benchmarks": preset.benchmarks}


@pytest.mark.parametrize(
    ("machine", "scale", "sentence"),
    [
        (presets.Machine("Standard_HB176rs_v4", 176), 1.0, "this node is Standard_HB176rs_v4"),
        (presets.Machine("", 2), 1.0, "this node is no known Azure size"),
        (HBV3, 0.0, "trueup_preset_scale is 0"),
        (HBV3, 1.5, "trueup_preset_scale is 1.5"),
    ],
)
def test_refusals(machine: presets.Machine, scale: float, sentence: str) -> None:
    preset = presets.read("devito-article", CATALOG)
    with pytest.raises(BadInput, match=sentence):
        presets.applied("devito-article", preset, machine, values={}, scale=scale)


@parametrized(("members", "sentence"))
def test_wrong_files_are_refused(tmp_path: Path, members: dict[str, Any], sentence: str) -> None:
    with pytest.raises(BadInput, match=sentence):
        presets.read("devito-article", changed(tmp_path, **members))


def test_an_unknown_name_gets_the_nearest() -> None:
    with pytest.raises(BadInput, match="did you mean devito-article"):
        presets.read("devito-articel", CATALOG)


def test_the_record_names_values_that_win_over_the_preset() -> None:
    preset = {"name": "devito-article", "scale": 1.0, "variables": {"a": 1, "b": [2]}}
    same = {"preset": "devito-article", "preset_scale": 1.0}
    assert presets.recorded(preset, {"a": 1, "b": [2]}) == same
    assert presets.recorded(preset, {"a": 5, "b": [2]}) == {**same, "preset_changed": "a"}


def measured(value: float, threads: int, **parameters: Any) -> Case:
    """A record of Devito on one HBv3 node."""
    return Case(
        nodes=("hb-1",),
        vm_size="Standard_HB120rs_v3",
        benchmark="devito",
        case="acoustic",
        outcome="ok",
        reason=None,
        parameters={"preset": "devito-article", "launcher": "local", **parameters},
        software={},
        figures=[Figure("flop_rate", value, "flop/s", "higher", statistic="median", n=3)],
        node_count=1,
        ranks=1,
        threads=threads,
        cores=threads,
        gpus=0,
    )


@pytest.mark.parametrize(
    ("case", "share", "verdict"),
    [
        (measured(331.22e9, 64), 1.0, "reproduced"),
        (measured(298.1e9, 64), 0.9000, "reproduced"),
        (measured(297.0e9, 64), 0.8967, "below the published figure"),
        (measured(300e9, 64, preset_scale=0.1), None, "not compared: 0.1 of the work"),
        (
            measured(300e9, 64, preset_changed="devito_shape"),
            None,
            "not compared: other devito_shape",
        ),
    ],
)
def test_a_run_stands_beside_the_row_that_it_reproduces(
    case: Case, share: float | None, verdict: str
) -> None:
    rows = figures.reproduced(presets.read_all(CATALOG), catalog.rows(PUBLISHED), [case])
    assert [(row["published"], row["verdict"]) for row in rows] == [(331.22e9, verdict)]
    if share is not None:
        assert rows[0]["share"] == pytest.approx(share, abs=1e-4)
    else:
        assert str(rows[0]["share"]) == "nan"


def test_a_count_of_cores_that_nobody_published_is_beside_nothing() -> None:
    case, offered = measured(300e9, 48), presets.read_all(CATALOG)
    assert figures.reproduced(offered, catalog.rows(PUBLISHED), [case]) == []
    short = dataclasses.replace(case, outcome="too_short")
    [note] = figures.beside_nothing(offered, [case, short], [])
    assert note.startswith("devito-article is compared with nothing: 1 of its 2 record(s) are ok")
    rows = figures.reproduced(offered, catalog.rows(PUBLISHED), [measured(300e9, 64)])
    assert figures.beside_nothing(offered, [case, measured(300e9, 64)], rows) == []
