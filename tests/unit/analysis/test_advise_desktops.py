"""Advice on desktops, held against cases that were worked by hand from the catalog's figures."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest
from helpers import parametrized
from report_pages import advice
from trueup_analysis import catalog
from trueup_analysis.figures.advise import asks
from trueup_analysis.figures.advise.estimates import RECORD
from trueup_analysis.figures.advise.kinds import desktops
from trueup_analysis.figures.advise.kinds.desktops import Desktops, Hosts
from trueup_analysis.figures.advise.kinds.sizing import Held
from trueup_analysis.figures.advise.knowledge import Knowledge
from trueup_analysis.figures.advise.services import read_services
from trueup_analysis.figures.prices import Book, read_all
from trueup_node.cases import Case, Figure
from trueup_node.errors import BadInput

TODAY = date(2026, 11, 24)
NV6, NV12, NV18, NV36, NV72 = (f"Standard_NV{n}ads_A10_v5" for n in (6, 12, 18, 36, 72))


def session(sessions: int, *, held: bool, size: str = NV36, encoder: str = "h264_nvenc") -> Case:
    """A record of so many sessions; made up."""
    figures = [Figure("session_frame_rate", 75.0 if held else 40.0, "1/s", "higher")]
    figures += [Figure("sessions_held", float(sessions), "1", "higher")] if held else []
    return Case(
        nodes=("w1",),
        vm_size=size,
        benchmark="nv_a10",
        case=f"{encoder}-1920x1080-444-s{sessions}",
        outcome="ok",
        reason=None,
        parameters={"encoder": encoder, "sessions": sessions},
        software={},
        figures=figures,
        node_count=1,
        run_id="20261120T091300Z-7c1e",
    )


def ask(*cases: Case, **given: Any) -> Desktops:
    folder = catalog.built_in()
    held = Held(
        Knowledge(folder, TODAY, cases), Book(read_all(folder), None), read_services(folder)
    )
    return desktops.size(asks.read(desktops.SIZING, {"region": "eastus", **given}), held)


def the(found: Desktops, size: str) -> Hosts:
    (one,) = [one for one in found.choices if one.size == size]
    return one


def test_forty_users_of_nx_by_hand() -> None:
    """5 a host on either size: 8 hosts. NV12: 8 x 0.908 US$/h x 730 h = 5302.72 US$, Windows 8 x
    1.460 x 730 = 8526.40 US$."""
    found = ask(users=40)
    assert [(one.size, one.hosts, one.users_a_host) for one in found.choices] == [
        (NV12, 8, 5),
        (NV18, 8, 5),
    ]
    one = the(found, NV12)
    assert one.hosts * one.price.usd_per_hour * 730 == pytest.approx(5302.72)
    assert one.hosts * one.windows_usd_per_hour * 730 == pytest.approx(8526.40)
    assert (one.limit, one.beyond) == ("tests of NX", "")


def test_what_a_user_needs_lowers_the_number_and_says_which() -> None:
    """3 GiB of GPU memory: 2 users on 8 GiB, 4 on 12. 3 vCPUs: 4 on 12, and NX's 5 on 18."""
    memory = ask(users=40, gpu_memory_gib_a_user=3)
    assert [(one.size, one.users_a_host, one.hosts, one.limit) for one in memory.choices] == [
        (NV18, 4, 10, "GPU memory"),
        (NV12, 2, 20, "GPU memory"),
    ]
    cores = ask(users=40, vcpus_a_user=3)
    assert (the(cores, NV12).users_a_host, the(cores, NV12).limit) == (4, "number of vCPUs")
    assert (the(cores, NV18).users_a_host, the(cores, NV18).limit) == (5, "tests of NX")
    assert the(ask(users=5, memory_gib_a_user=55), NV12).users_a_host == 2


def test_a_size_of_which_nothing_is_known_is_refused_with_what_to_measure() -> None:
    found = ask(users=40)
    assert {one.size: one.unknown for one in found.refused} == dict.fromkeys(
        (NV6, NV36, "Standard_NV36adms_A10_v5", NV72), True
    )
    assert all('"trueup_benchmarks": ["nv_a10"]' in one.reason for one in found.refused)
    with pytest.raises(BadInput, match="no result says how many users it serves"):
        ask(users=40, sizes=NV6)


def test_personal_desktops_have_a_host_each_and_need_no_result() -> None:
    """NV6 has 6 vCPUs and 4 GiB: too few for 8 vCPUs."""
    found = ask(users=4, hosts="personal")
    assert (found.choices[0].size, found.choices[0].hosts) == (NV6, 4)
    found = ask(users=4, hosts="personal", vcpus_a_user=8)
    assert (found.choices[0].size, found.choices[0].hosts) == (NV12, 4)
    assert [(one.size, one.reason) for one in found.refused] == [
        (NV6, "not one user fits: number of vCPUs")
    ]
    with pytest.raises(BadInput, match="hosts is personal"):
        ask(users=4, hosts="personal", users_a_host=2)


def test_a_record_tells_of_a_size_that_no_publication_has() -> None:
    """10 sessions held on NV36: 40 users take 4 hosts. That is encoding alone."""
    one = the(ask(session(5, held=True), session(10, held=True), users=40), NV36)
    assert (one.hosts, one.users_a_host, one.limit) == (4, 10, "sessions encoded")
    assert one.bounds[0].evidence is not None
    assert one.bounds[0].evidence.kind == RECORD
    assert one.beyond == "no publication has users on this size."


@pytest.mark.parametrize(
    ("tried", "users"),
    [
        ([session(3, held=True, size=NV12), session(5, held=False, size=NV12)], 3),
        ([session(3, held=True, size=NV12)], 5),
        ([session(10, held=True, size=NV12)], 5),
        ([session(3, held=True, size=NV12, encoder="libx264")], 5),
    ],
    ids=["five were tried in vain", "three were all that was tried", "more held", "on the CPU"],
)
def test_sessions_limit_where_more_were_tried_and_did_not_hold(
    tried: list[Case], users: int
) -> None:
    assert the(ask(*tried, users=5), NV12).users_a_host == users


@parametrized(("given", "said"))
def test_an_ask_that_cannot_be_answered_is_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        ask(**given)


def test_the_report_begins_with_it(call_trueup: Any, tmp_path: Any) -> None:
    section = advice(call_trueup, tmp_path, "work: desktops\nusers: 40\nregion: eastus\n")
    assert "Cheapest: 8 x NV12ads_A10_v5 in eastus, 5 users a host" in section
    assert section.index("Choices") < section.index("What was refused") < section.index("asked")
    assert "NV18ads_A10_v5" in (tmp_path / "report" / "tables" / "advice.csv").read_text(
        encoding="utf-8"
    )
