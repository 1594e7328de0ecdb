"""What of a declared registry is due on a Windows host."""

from __future__ import annotations

from typing import Any

import pytest
from trueup_controller.desktops.registry import Value, changes, data_of
from trueup_node.errors import BadInput

PROFILES = r"HKLM:\SOFTWARE\FSLogix\Profiles"
SHARE = r"\\st.file.core.windows.net\profiles"


def found(**values: tuple[str, Any]) -> dict[str, Any]:
    """``registry`` of windows_facts with one key."""
    listed = {name: {"type": kind, "data": data} for name, (kind, data) in values.items()}
    return {PROFILES: {"values": listed, "keys": []}}


def test_a_missing_key_gets_every_value_in_order() -> None:
    """Each is an item of win_regedit; a list goes out as a list."""
    declared = [
        Value(PROFILES, "Enabled", "dword", 1),
        Value(PROFILES, "VHDLocations", "multistring", (SHARE,)),
    ]
    wanted = [
        {"path": PROFILES, "name": "Enabled", "type": "dword", "data": 1, "state": "present"},
        {
            "path": PROFILES,
            "name": "VHDLocations",
            "type": "multistring",
            "data": [SHARE],
            "state": "present",
        },
    ]
    assert changes(declared, {PROFILES: None}, {PROFILES: ["SizeInMBs"]}) == wanted
    assert changes(declared, {}, {}) == wanted


def test_a_converged_key_is_left_alone_whatever_its_case() -> None:
    """Windows finds a name in any case; what nobody owns stays."""
    declared = [
        Value(PROFILES.lower(), "ENABLED", "dword", 1),
        Value(PROFILES + "\\", "VHDLocations", "multistring", (SHARE,)),
    ]
    there = found(
        Enabled=("REG_DWORD", 1),
        vhdlocations=("REG_MULTI_SZ", [SHARE]),
        Foreign=("REG_SZ", "of another tool"),
    )
    assert changes(declared, there, {PROFILES.upper(): ["enabled", "VHDLocations"]}) == []


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        pytest.param("REG_DWORD", 0, id="data"),
        pytest.param("REG_SZ", "1", id="type"),
        pytest.param("REG_QWORD", 1, id="width"),
    ],
)
def test_drift_of_data_or_type_is_repaired(kind: str, data: Any) -> None:
    """A number that is stored as a text is no number to FSLogix."""
    due = changes([Value(PROFILES, "Enabled", "dword", 1)], found(Enabled=(kind, data)), {})
    assert [one["name"] for one in due] == ["Enabled"]


def test_texts_of_another_order_or_case_are_drift() -> None:
    """The first location is where new containers are made."""
    declared = [Value(PROFILES, "VHDLocations", "multistring", ("a", "b"))]
    assert changes(declared, found(VHDLocations=("REG_MULTI_SZ", ["a", "b"])), {}) == []
    assert len(changes(declared, found(VHDLocations=("REG_MULTI_SZ", ["b", "a"])), {})) == 1
    assert len(changes(declared, found(VHDLocations=("REG_MULTI_SZ", ["A", "b"])), {})) == 1


def test_owned_names_that_nobody_declares_are_removed() -> None:
    """Only those that are there, and none of another's."""
    there = found(Enabled=("REG_DWORD", 1), sizeinmbs=("REG_DWORD", 5120), Foreign=("REG_DWORD", 1))
    due = changes(
        [Value(PROFILES, "Enabled", "dword", 1)],
        there,
        {PROFILES: ["Enabled", "SizeInMBs", "VolumeType"]},
    )
    assert due == [{"path": PROFILES, "name": "SizeInMBs", "state": "absent"}]


@pytest.mark.parametrize(("kind", "bits"), [("dword", 32), ("qword", 64)])
def test_a_number_may_have_all_its_bits(kind: str, bits: int) -> None:
    assert Value(PROFILES, "Enabled", kind, 2**bits - 1).data == 2**bits - 1
    with pytest.raises(BadInput, match="Enabled"):
        Value(PROFILES, "Enabled", kind, 2**bits)


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        pytest.param("dword", "1", id="text-for-number"),
        pytest.param("dword", True, id="bool-for-number"),
        pytest.param("dword", -1, id="negative"),
        pytest.param("string", 1, id="number-for-text"),
        pytest.param("multistring", "a", id="text-for-list"),
        pytest.param("multistring", ("a", ""), id="empty-part"),
        pytest.param("binary", "00", id="unknown-type"),
    ],
)
def test_data_of_another_type_is_refused(kind: str, data: Any) -> None:
    """Before a host is asked anything."""
    with pytest.raises(BadInput, match="Enabled"):
        Value(PROFILES, "Enabled", kind, data)


@pytest.mark.parametrize(
    ("path", "name"),
    [
        pytest.param(PROFILES, "", id="no-name"),
        pytest.param("HKEY_LOCAL_MACHINE\\SOFTWARE", "Enabled", id="another-spelling"),
    ],
)
def test_a_key_of_no_hive_and_an_empty_name_are_refused(path: str, name: str) -> None:
    """An empty name with state absent would remove a whole key."""
    with pytest.raises(BadInput, match="HKLM"):
        Value(path, name, "dword", 1)


def test_data_is_found_whatever_the_case() -> None:
    """And is None where there is none."""
    there = found(InstallVersion=("REG_SZ", "3.26.826.17182"))
    assert data_of(there, PROFILES.upper(), "installversion") == "3.26.826.17182"
    assert data_of(there, PROFILES, "InstallPath") is None
    assert data_of({PROFILES: None}, PROFILES, "InstallVersion") is None
    assert data_of({}, PROFILES, "InstallVersion") is None
