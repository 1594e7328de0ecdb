"""What a user's hour costs: records with sessions, a published number of users, a given one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import made
import pytest
from trueup_analysis.figures.prices import read_prices
from trueup_analysis.figures.terms import Terms
from trueup_analysis.figures.users import read_vcpus, table
from trueup_analysis.load import Loaded, load
from trueup_analysis.sheets.users import users
from trueup_node.errors import BadInput

if TYPE_CHECKING:
    from trueup_analysis.figures.users import UserTable

CATALOG = Path(__file__).resolve().parents[3] / "catalog"
NV12 = "Standard_NV12ads_A10_v5"


def session(sessions: Any, rate: float, node: str = "nv-1", **changes: Any) -> dict[str, Any]:
    record = {
        **made.record(
            benchmark="nv_a10",
            metrics=[made.figure("session_frame_rate", rate, "1/s", "higher")],
            case=f"h264_nvenc-1920x1080-444-s{sessions}",
            vm_size=NV12,
            nodes=[node],
            duration_seconds=rate,
        ),
        "parameters": {"kind": "encode", "sessions": sessions, "frames_per_second": 60},
    }
    return {**record, **changes}


def measured(tmp_path: Path, *records: dict[str, Any]) -> Loaded:
    return load([made.write(tmp_path, list(records))])


def priced(loaded: Loaded, **terms: Any) -> UserTable:
    return table(
        loaded,
        prices=read_prices(CATALOG / "prices.csv"),
        vcpus=read_vcpus(CATALOG / "vm_sizes.csv"),
        terms=Terms(**terms),
    )


def test_the_host_is_shared_by_its_sessions(tmp_path: Path) -> None:
    loaded = measured(tmp_path, session(5, 100.0), session(10, 50.0), session(10, 56.0, "nv-2"))
    result = priced(loaded)
    rows = {row["users"]: row for row in result.rows}
    assert [(row["users"], row["held"], row["records"]) for row in result.rows] == [
        *((5, "yes", 1), (10, "no", 2))
    ]
    # eastus, 2026-06: 0.908 US$ an hour, 1.460 with the surcharge of 12 vCPUs.
    assert rows[5]["usd_per_user_hour"] == pytest.approx(0.1816)
    assert rows[5]["windows_usd_per_user_hour"] == pytest.approx(0.292)
    assert rows[10]["usd_per_user_hour"] == pytest.approx(0.0908)
    assert rows[10]["frame_rate"] == 53.0
    assert rows[5]["windows_source"] == "base rate + 0.046 US$ per vCPU and hour, computed"


def test_what_nobody_knows_is_not_made_up(tmp_path: Path) -> None:
    loaded = measured(tmp_path, session(5, 100.0, vm_size=None, region=None))
    result = priced(loaded)
    assert (result.has_prices, result.rows[0]["windows_source"]) == (False, "")
    assert result.unknown == [
        "A machine without an Azure size has no price; give --size SIZE or --price US$."
    ]
    # What Windows costs beside a spot price, no source says.
    [row] = priced(
        measured(tmp_path / "spot", session(5, 100.0, offer="spot")), region="eastus"
    ).rows
    assert row["windows_source"] == ""


def test_users_are_given(tmp_path: Path) -> None:
    loaded = measured(tmp_path, session(5, 100.0), session(10, 50.0), made.record(vm_size=NV12))
    [row] = priced(loaded, users=8).rows
    assert (row["users"], row["case"], row["held"]) == (8, "", "")
    assert row["usd_per_user_hour"] == pytest.approx(0.1135)
    with pytest.raises(BadInput, match="0 users are not 1 or more"):
        Terms(users=0)


def test_users_of_the_article() -> None:
    loaded = load([CATALOG / "reference_results.csv"])
    result = priced(loaded, region="eastus")
    found = {
        row["vm_size"]: (row["users"], round(row["usd_per_user_hour"], 3)) for row in result.rows
    }
    assert found == {NV12: (5, 0.182), "Standard_NV18ads_A10_v5": (5, 0.32)}
    [sheet] = users(result)
    assert [note for note in sheet.notes if note.startswith("Held")] == []
