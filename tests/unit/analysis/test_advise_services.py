"""Services and storage by needs: tables worked by hand from the sources of catalog/services.yml."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml
from helpers import ROOT, parametrized
from hypothesis import given
from hypothesis import strategies as st
from trueup_analysis.figures.advise.services import (
    Advice,
    Needs,
    advise,
    advise_storage,
    gone,
    needs_of,
    read_services,
)
from trueup_node.errors import BadInput

TODAY = date(2026, 11, 23)
KNOWN = read_services(ROOT / "catalog")


def first(found: list[Advice]) -> list[str]:
    return [one.service for one in found if one.advised]


def refused(found: list[Advice]) -> dict[str, list[str]]:
    return {one.service: [said.text for said in one.refused] for one in found if one.refused}


_BATCH = (
    "150 is above 100 nodes of a pool with inter-node communication (80 in the user's subscription)"
)

# Worked by hand, not by the program, from rules of thumb and articles.
BY_HAND: list[tuple[str, dict[str, Any], list[str]]] = [
    ("one node, root wanted", {}, ["vm"]),
    ("GROMACS on one GPU", {"job_days": 2}, ["vm"]),
    ("Llama 3.1 8B on one node", {"always_on": True}, ["vm"]),
    (
        "DeepSeek R1 on 2 ND H100 v5",
        {"nodes": 2, "coupled": True, "always_on": True},
        ["scale-set-uniform", "cyclecloud-slurm", "cyclecloud"],
    ),
    ("three models, always on", {"always_on": True, "models": 3, "nodes": 4}, ["aks"]),
    ("two teams on one always-on node", {"always_on": True, "tenants": 2}, ["aks"]),
    ("Devito, own tooling, 16 nodes", {"nodes": 16, "coupled": True}, [
        "scale-set-uniform", "batch", "cyclecloud-slurm", "scale-set-uniform", "cyclecloud",
    ]),
    (
        "StarCCM from Teamcenter, Slurm",
        {"nodes": 8, "coupled": True, "scheduler": "slurm"},
        ["cyclecloud-slurm", "cyclecloud", "scale-set-uniform"],
    ),
    (
        "Megatron of an ML team, tracked, 16 nodes",
        {"nodes": 16, "coupled": True, "tracked": True},
        ["azure-ml", "cyclecloud-slurm", "cyclecloud", "scale-set-uniform"],
    ),
    ("500 independent renderings", {"nodes": 500}, ["batch", "scale-set-flexible"]),
    ("parameter sweep with Slurm", {"nodes": 50, "scheduler": "slurm"}, [
        "cyclecloud-slurm", "cyclecloud",
    ]),
    ("NX for 40 designers, 5 a host", {"desktop_users": 40, "users_a_host": 5}, ["avd"]),
    ("MPI on 150 nodes", {"nodes": 150, "coupled": True}, ["cyclecloud-slurm", "cyclecloud"]),
    ("desktops, 26 on a host", {"desktop_users": 26, "users_a_host": 26}, []),
]  # fmt: skip


@pytest.mark.parametrize(("what", "needs", "services"), BY_HAND, ids=[row[0] for row in BY_HAND])
def test_the_table_that_was_worked_by_hand(
    what: str, needs: dict[str, Any], services: list[str]
) -> None:
    expected = list(dict.fromkeys(services))
    assert first(advise(Needs(**needs), KNOWN, TODAY)) == expected, what


def test_what_exceeds_a_limit_is_refused_with_number_and_source() -> None:
    found = advise(Needs(nodes=150, coupled=True, tracked=True, job_days=22), KNOWN, TODAY)
    assert refused(found) == {
        "azure-ml": [
            "150 is above 100 nodes of an RDMA cluster or an MPI run",
            "22 is above 21 days a job",
        ],
        "scale-set-uniform": ["150 is above 100 VMs in one placement group"],
        "batch": [_BATCH],
    }
    [by_ml] = [one for one in found if one.service == "azure-ml"]
    assert str(by_ml.refused[0].source) == (
        "Azure Machine Learning's page on quota (verified, 2026-11-22)"
    )


@parametrized(("service", "needs", "most"))
def test_a_limit_is_still_allowed(service: str, needs: dict[str, Any], most: int) -> None:
    for nodes, expected in ((most, 0), (most + 1, 1)):
        found = advise(Needs(nodes=nodes, **needs), KNOWN, TODAY)
        assert len(next(one.refused for one in found if one.service == service)) == expected


@parametrized(("service", "needs", "text", "mark"))
def test_what_speaks_against_a_service(
    service: str, needs: dict[str, Any], text: str, mark: str
) -> None:
    found = {one.service: one for one in advise(Needs(**needs), KNOWN, TODAY)}[service]
    assert [said.source.mark for said in found.against if said.text.startswith(text)] == [mark]


@parametrized(("needs", "texts"))
def test_what_speaks_against_local_disks(needs: dict[str, Any], texts: list[str]) -> None:
    [found] = [
        one for one in advise_storage(Needs(**needs), KNOWN, TODAY) if one.service == "local-nvme"
    ]
    assert [said.text for said in found.against] == texts


STORAGE: list[tuple[str, dict[str, Any], list[str]]] = [
    ("scratch of one job", {"access": "scratch"}, ["local-nvme"]),
    ("scratch whose results are kept", {"access": "scratch", "keep": True}, ["local-nvme", "blob"]),
    ("checkpoints, written once", {"access": "once"}, ["blob"]),
    ("EDA at 32 TB", {"access": "small", "data_tb": 32, "nodes": 10}, ["amlfs", "anf"]),
    ("EDA at 100 TB", {"access": "small", "data_tb": 100, "nodes": 10}, ["anf", "amlfs"]),
    ("EDA at 50 TB", {"access": "small", "data_tb": 50, "nodes": 10}, ["anf", "amlfs"]),
    ("EDA, size not known", {"access": "small", "nodes": 10}, ["amlfs", "anf"]),
    ("CFD over many nodes", {"access": "shared", "nodes": 16}, ["amlfs"]),
    ("NX profiles", {"access": "profiles", "desktop_users": 40}, ["azure-files", "anf"]),
    ("NFS habits", {"data": "nfs"}, ["anf"]),
    ("data in Blob", {"data": "blob"}, ["blob"]),
    ("SMB", {"data": "smb"}, ["azure-files"]),
    ("nothing said", {}, []),
]


@pytest.mark.parametrize(("what", "needs", "storage"), STORAGE, ids=[row[0] for row in STORAGE])
def test_storage_by_hand(what: str, needs: dict[str, Any], storage: list[str]) -> None:
    assert first(advise_storage(Needs(**needs), KNOWN, TODAY)) == storage, what


def levels(service: str, **needs: Any) -> dict[str, tuple[float, float]]:
    found = {one.service: one for one in advise_storage(Needs(**needs), KNOWN, TODAY)}[service]
    return {one.name: (one.tib, one.mb_s) for one in found.levels if not one.refused}


def test_levels_of_lustre_are_bought_in_their_steps() -> None:
    """32 TB are 29.1 TiB: two steps of 16, four of 8, eight of 4, one of 48."""
    assert levels("amlfs", access="shared", data_tb=32) == {
        "AMLFS-Durable-Premium-40": (48, 48 * 40),
        "AMLFS-Durable-Premium-125": (32, 32 * 125),
        "AMLFS-Durable-Premium-250": (32, 32 * 250),
        "AMLFS-Durable-Premium-500": (32, 32 * 500),
    }


def test_throughput_buys_capacity() -> None:
    """10,000 MB/s at 1 TB: 250 TiB at 40 become 288, 80 at 125, 40 at 250, 20 at 500."""
    found = levels("amlfs", access="shared", data_tb=1, mb_s=10000)
    assert {name[-3:]: tib for name, (tib, _) in found.items()} == {
        "-40": 288, "125": 80, "250": 40, "500": 20,
    }  # fmt: skip


def test_anf_by_its_levels_and_the_most_of_a_large_volume() -> None:
    """100 TB are 90.9 TiB, so 91; 128 MiB/s a TiB are 134.2 MB/s, capped at 12,800 MiB/s."""
    found = levels("anf", access="small", data_tb=100)
    assert found["Ultra, large volume"] == (91, pytest.approx(91 * 128 * 2**20 / 1e6))
    assert levels("anf", data="nfs", data_tb=1000)["Ultra, large volume"] == (
        910,
        pytest.approx(12800 * 2**20 / 1e6),
    )
    assert "Standard" not in levels("anf", data="nfs", data_tb=1000)


def test_a_maximum_on_which_sources_differ_is_doubted_and_not_refused() -> None:
    found = {
        one.service: one
        for one in advise_storage(Needs(access="shared", data_tb=500), KNOWN, TODAY)
    }["amlfs"]
    by_name = {one.name[-3:]: one for one in found.levels}
    assert by_name["500"].doubts == ("another source has at most 128 TiB",)
    assert (by_name["-40"].doubts, by_name["500"].refused) == ((), "")
    assert {one.source.mark for one in found.levels} == {"secondary"}


@parametrized(("size", "begins"))
def test_series_without_a_row(size: str, begins: str) -> None:
    found = gone(size, KNOWN, TODAY)
    assert found[: len(begins)] == begins
    assert bool(found) == bool(begins)


@parametrized(("wrong", "says"))
def test_needs_that_cannot_be_are_refused(wrong: dict[str, str], says: str) -> None:
    with pytest.raises(BadInput) as found:
        needs_of(wrong)
    assert says in str(found.value)


def _changed(change: Any, folder: Path) -> Path:
    document = yaml.safe_load((ROOT / "catalog" / "services.yml").read_text(encoding="utf-8"))
    change(document)
    (folder / "services.yml").write_text(yaml.safe_dump(document), encoding="utf-8")
    (folder / "prices.csv").write_text("", encoding="utf-8")
    return folder


def _bound(document: Any) -> None:
    document["services"][0]["fits"][0]["needs"]["nodes"] = {"max": 1}


def _field(document: Any) -> None:
    document["services"][0]["fits"][0]["needs"]["node"] = 1


def _source(document: Any) -> None:
    document["services"][0]["sources"] = ["nobody"]


def _mark(document: Any) -> None:
    document["sources"]["spot"]["mark"] = "heard"


def _effort(document: Any) -> None:
    document["services"][0]["effort"] = "some"


def _limit(document: Any) -> None:
    document["services"][1]["limits"][0]["of"] = "machines"


def _date(document: Any) -> None:
    document["ended"][0]["date"] = "soon"


def _pattern(document: Any) -> None:
    document["gone"][0]["sizes"] = "("


def _rank(document: Any) -> None:
    del document["services"][2]["fits"][0]["rank"]


def _since(document: Any) -> None:
    document["corrections"][0]["since"] = "long ago"


def _missing(document: Any) -> None:
    del document["storage"]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (_bound, "needs.nodes.max is not known; there are least, most, below"),
        (_field, "fits[0]: node is no need"),
        (_source, "sources[0]: there is no source 'nobody'"),
        (_mark, "sources.spot.mark is 'heard': it must be one of empty, secondary"),
        (_effort, "services[0] ('vm').effort is 'some'"),
        (_limit, "machines"),
        (_date, "date is 'soon': it must be a date"),
        (_pattern, "sizes: '(' is no regular expression"),
        (_since, "long ago"),
        (_rank, "rank"),
        (_missing, "storage"),
    ],
)
def test_a_wrong_catalog_is_refused_in_a_sentence(change: Any, says: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput) as found:
        read_services(_changed(change, tmp_path))
    assert says in str(found.value)
    assert "services.yml" in str(found.value)


def test_what_the_older_article_says_that_is_not_so() -> None:
    found = {one.says: (one.since, one.source.mark) for one in KNOWN.corrections}
    assert len(found) == 17
    assert {one.article for one in KNOWN.corrections} == {"gpu-solution-choice"}
    assert found["vm_size STANDARD_NC6"] == ("2023-08-31", "verified")
    assert found["azureml.core (SDK v1)"] == ("2026-06-30", "verified")
    assert found["Standard_NC6_v3"] == ("", "verified")
    assert found["vm_size Standard_NC6s_v3"][0] == "2025-09-30"
    assert found["NDv2 series"][0] == ""
    assert found['policy="bandit"'] == ("", "unverified")


def table_of(page: str, head: str) -> list[list[str]]:
    """The cells of the table of a page whose first column is called so."""
    lines = page.splitlines()
    start = next(n for n, line in enumerate(lines) if line.startswith(f"| {head} |"))
    rows = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows


PAGE = (ROOT / "docs" / "guides" / "advise_services.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("head", ["service", "storage"])
def test_the_pages_tables_of_services_are_the_catalogs(head: str) -> None:
    rows = KNOWN.services if head == "service" else KNOWN.storage
    assert table_of(PAGE, head) == [
        [
            f"`{row.service}`",
            row.name,
            row.effort,
            ", ".join(row.manages),
            row.billing or "no source says",
        ]
        for row in rows
    ]


_NEEDS = st.builds(
    Needs,
    nodes=st.integers(1, 70_000),
    coupled=st.booleans(),
    always_on=st.booleans(),
    models=st.integers(1, 3),
    tenants=st.integers(1, 3),
    tracked=st.booleans(),
    scheduler=st.sampled_from(["slurm", "none"]),
    spot=st.booleans(),
    job_days=st.none() | st.floats(0.1, 400),
    desktop_users=st.integers(0, 3),
    users_a_host=st.integers(0, 40),
    data=st.sampled_from(["any", "local", "blob", "nfs", "smb", "lustre"]),
    access=st.sampled_from(["any", "once", "shared", "small", "scratch", "profiles"]),
    data_tb=st.none() | st.floats(0.001, 1e6),
    mb_s=st.none() | st.floats(1, 1e6),
    keep=st.booleans(),
)


@given(_NEEDS)
def test_any_needs_have_a_rule_and_every_answer_is_in_order(needs: Needs) -> None:
    found = advise(needs, KNOWN, TODAY)
    assert [one.service for one in found if one.rank is not None] != []
    groups = [(one.rank is None, bool(one.refused)) for one in found]
    assert groups == sorted(groups)
    assert {one.service for one in found} == {row.service for row in KNOWN.services}


@given(_NEEDS)
def test_a_level_that_is_not_refused_holds_the_data_at_the_speed(needs: Needs) -> None:
    for one in advise_storage(needs, KNOWN, TODAY):
        for level in one.levels:
            if not level.refused:
                assert level.tib * 2**40 >= (needs.data_tb or 0) * 1e12 * (1 - 1e-6)
                assert level.mb_s >= (needs.mb_s or 0) * (1 - 1e-6)
