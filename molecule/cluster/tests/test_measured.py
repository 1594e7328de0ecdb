"""What the main job measured over one and two nodes."""

from __future__ import annotations

import json
import os
from pathlib import Path

from trueup_analysis.figures.scaling.tables import series
from trueup_analysis.load import load

RESULTS = Path(os.environ["TRUEUP_RESULTS"])
# The scenario's first run; the later ones were broken on purpose.
FIRST = min(path for path in RESULTS.iterdir() if path.is_dir())
RECORDS = [
    json.loads(path.read_text()) for path in FIRST.glob("devito-*-tn700-*.json")
]  # tn700: the sweep


def test_one_and_two_nodes_were_measured_by_both_launchers() -> None:
    assert {record["outcome"] for record in RECORDS} == {"ok"}
    found = sorted(
        (record["parameters"]["launcher"], record["node_count"], record["ranks"])
        for record in RECORDS
        if record["parameters"]["launcher"] != "local"
    )
    assert found == [("mpirun", 1, 2), ("mpirun", 2, 4), ("slurm", 1, 2), ("slurm", 2, 4)]


def test_all_of_them_computed_the_same() -> None:
    norms = [
        row["value"]
        for record in RECORDS
        for row in record["metrics"]
        if row["name"] == "field_norm"
    ]
    assert len(norms) == 6
    assert max(norms) - min(norms) < 1e-5 * max(norms)


def test_the_exchange_of_halos_is_a_share_of_the_time() -> None:
    shares = [
        row["value"]
        for record in RECORDS
        for row in record["metrics"]
        if row["name"] == "halo_share" and row["statistic"] == "median"
    ]
    assert len(shares) == 4
    assert [share for share in shares if not 0 < share < 1] == []


def test_they_make_a_scaling_table_over_nodes() -> None:
    [over_nodes] = [each for each in series(load([FIRST])) if each.over == "nodes"]
    assert over_nodes.kind == "strong"
    assert [row.resource for row in over_nodes.rows] == [1, 1, 1, 2, 2]
    assert sum("slurm" in row.layout for row in over_nodes.rows) == 2
