"""What a deployment's parameters may be, and what is said of those that may not."""

from __future__ import annotations

from typing import Any

import provisioning
import pytest
import yaml
from helpers import parametrized, role_files
from hypothesis import given
from hypothesis import strategies as st
from provisioning import NOW, RECIPES, known, made, recipe
from trueup_controller import settings
from trueup_controller.azure import catalog, parameters, pull
from trueup_node.errors import BadInput

ND = "Standard_ND96asr_v4"


def refusal(nodes: dict[str, Any] | None = None, **given: Any) -> str:
    with pytest.raises(BadInput) as found:
        made(nodes, **given)
    return str(found.value)


@pytest.mark.parametrize("name", RECIPES)
def test_the_variables_of_a_recipe_are_those_of_plays_and_roles(name: str) -> None:
    roles = role_files("defaults/main.yml").values()
    there = {one for path in roles for one in yaml.safe_load(path.read_text()) or {}}
    there |= {f"{settings.PREFIX}{one.name}" for one in settings.OPTIONS}
    given = recipe(name)["variables"]
    assert given
    assert sorted(set(given) - there) == []


def test_every_wrong_value_is_named_at_once_with_its_place() -> None:
    text = refusal(
        {"count": 0, "priority": "cheap", "sise": 1, "proximity": "yes"},
        region=7,
        zone="4",
        ssh_from=["203.0.113.0/24", 5],
        regoin="eastus",
        hours=True,
        expires="yesterday",
        network="192.0.2.0",
        admin_user="root",
        login=[],
    )
    places = [
        *("nodes.count is 0", "nodes.priority is 'cheap'", "nodes.sise is not known; did you mean"),
        *("nodes.proximity is 'yes'", "region is 7", "zone is '4'", "ssh_from[1] is 5"),
        *("regoin is not known; did you mean region?", "hours is True", "network is 192.0.2.0"),
        *("admin_user is 'root'", "login is []"),
    ]
    assert [place for place in places if place not in text] == []
    assert text.startswith("recipe test: 12 values are wrong: ")


def test_what_is_missing_is_named() -> None:
    with pytest.raises(BadInput) as found:
        parameters.read("x", [{}], known(), NOW)
    assert str(found.value) == (
        "recipe x: 2 values are wrong: region is missing; nodes.size is missing"
    )


REFUSED: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("nodes.least is 3: it is at most nodes.count (2)", {"count": 2, "least": 3}, {}),
    ("nodes.least is 0: it must be a whole number >= 1", {"least": 0}, {}),
    ("elsewhere is {}: it must be a list", {}, {"elsewhere": {}}),
    ("elsewhere[0] is '2': it must be a mapping", {}, {"elsewhere": ["2"]}),
    (
        "elsewhere[0].zone is '9': it must be one of empty, 1, 2, 3",
        {},
        {"elsewhere": [{"zone": "9"}]},
    ),
    ("elsewhere[0].zones is not known; did you mean zone?", {}, {"elsewhere": [{"zones": "1"}]}),
    (
        "elsewhere[1] is zone 2 of southcentralus, which is tried before",
        {},
        {"elsewhere": [{"zone": "2"}, {"zone": "2", "region": "South Central US"}]},
    ),
    ("elsewhere[0] is southcentralus, which is tried before", {}, {"elsewhere": [{}]}),
    (
        (
            "elsewhere[0]: region is swedencentral, which does not sell Standard_HB120rs_v3 as far"
            " as prices are known; the nearest region that has all of it is westeurope (1187 km)"
        ),
        {},
        {"elsewhere": [{"region": "swedencentral"}]},
    ),
    ("nodes.count is -1: it must be a whole number >= 1", {"count": -1}, {}),
    ("nodes.count is '2': it must be a whole number", {"count": "2"}, {}),
    (
        (
            "nodes.size is 'Standard_HB120rs_v33', which the catalog does not know: did you mean"
            " Standard_HB120rs_v3?"
        ),
        {"size": "Standard_HB120rs_v33"},
        {},
    ),
    (
        "nodes.size is Standard_NC24s_v3, which is retired 2025-09-30",
        {"size": "Standard_NC24s_v3"},
        {"image": "a:b:c:1.2"},
    ),
    (
        (
            "region is swedencentral, which does not sell Standard_HB120rs_v3 as far as prices are"
            " known; the nearest region that has all of it is westeurope (1187 km)"
        ),
        {},
        {"region": "swedencentral"},
    ),
    (
        "image is empty, and none is pinned for nv_a10_v5: give publisher:offer:sku:version",
        {"size": "Standard_NV36ads_A10_v5"},
        {},
    ),
    (
        (
            "image is 'a:b:c:latest': it must be publisher:offer:sku:version with an exact version"
            " of digits, not latest"
        ),
        {},
        {"image": "a:b:c:latest"},
    ),
    (
        (
            "nodes.placement is single with 2 nodes of Standard_HB120rs_v3: separate VMs share no"
            " placement group, so InfiniBand does not connect them; use uniform"
        ),
        {"count": 2, "placement": "single"},
        {},
    ),
    (
        "nodes.reservation is given with priority spot, which takes no reservation",
        {
            "priority": "spot",
            "reservation": "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute"
            "/capacityReservationGroups/r",
        },
        {},
    ),
    ("nodes.max_price is for spot nodes, and nodes.priority is regular", {"max_price": 1.0}, {}),
    ("nodes.max_price is 0: it must be above 0, or -1", {"max_price": 0, "priority": "spot"}, {}),
    (
        "security is trusted_launch, with which Standard_ND96asr_v4 cannot start: use standard",
        {"size": ND},
        {"security": "trusted_launch"},
    ),
    (
        (
            "secure_boot is true, with which the drivers of Standard_NV36ads_A10_v5 do not load on"
            " Linux: leave it off"
        ),
        {"size": "Standard_NV36ads_A10_v5"},
        {"security": "trusted_launch", "secure_boot": True, "image": "a:b:c:1.2"},
    ),
    (
        "secure_boot is true, which needs security: trusted_launch",
        {"size": "Standard_E64ds_v5"},
        {"secure_boot": True},
    ),
    (
        "nodes.os_disk is Premium_LRS, which Standard_D4d_v5 does not take",
        {"size": "Standard_D4d_v5", "os_disk": "Premium_LRS"},
        {},
    ),
    (
        (
            "ssh_from[0] is 0.0.0.0/0, which opens ssh to 4,294,967,296 addresses: give your own"
            " range, or say ssh_from_anywhere: true"
        ),
        {},
        {"ssh_from": ["0.0.0.0/0"]},
    ),
    (
        (
            "ssh_from[0] is '203.0.113.7/24': it must be a range such as 203.0.113.0/24"
            " (203.0.113.7/24 has host bits set)"
        ),
        {},
        {"ssh_from": ["203.0.113.7/24"]},
    ),
    (
        "ssh_from[0] is '2001:db8::/32': the network has IPv4 addresses alone",
        {},
        {"ssh_from": ["2001:db8::/32"]},
    ),
    (
        "ssh_from is given without login.size: only a login node has a public address",
        {},
        {"login": {}},
    ),
    (
        (
            "network is 'ten': it must be a range such as 10.42.0.0/16 ('ten' does not appear to be"
            " an IPv4 or IPv6 network)"
        ),
        {},
        {"network": "ten"},
    ),
    (
        (
            "nodes.reservation is 'mine': it must be"
            " /subscriptions/.../providers/Microsoft.Compute/capacityReservationGroups/NAME"
        ),
        {"reservation": "mine"},
        {},
    ),
    ("nodes.max_price is -2: it must be above 0, or -1", {"max_price": -2, "priority": "spot"}, {}),
    ("nodes.os_disk_gib is 4096: it must be a whole number <= 4095", {"os_disk_gib": 4096}, {}),
    (
        "network is 8.8.0.0/16: it must be a private range of IPv4 of /16 to /20",
        {},
        {"network": "8.8.0.0/16"},
    ),
    (
        (
            f"resource_group is {'g' * 91!r}: it must have 1 to 90 letters, digits, -, _, ., ( and"
            " ), and not end with a dot"
        ),
        {},
        {"resource_group": "g" * 91},
    ),
    ("owner has 257 characters: a tag has one line of at most 256", {}, {"owner": "o" * 257}),
    ("expires is 2026-11-22T18:00Z, which has passed", {}, {"expires": "2026-11-22T18:00Z"}),
    (
        "expires is no time with its zone, such as 2026-11-24T18:00Z",
        {},
        {"expires": "2026-11-24T18:00"},
    ),
    (
        "cloud_init must begin with #cloud-config and a new line, or with #!",
        {},
        {"cloud_init": "packages: []"},
    ),
    (
        "cloud_init has 65,536 bytes: Azure takes at most 65,535",
        {},
        {"cloud_init": "#!" + "x" * 65534},
    ),
    (
        "storage.tib is 12: AMLFS-Durable-Premium-250 comes in multiples of 8 TiB",
        {},
        {"storage": {"kind": "amlfs", "tib": 12}},
    ),
    ("storage.tib is 0: anf needs 1 or more", {}, {"storage": {"kind": "anf"}}),
    (
        "storage.server_size is empty, and kind nfs needs a server",
        {},
        {"storage": {"kind": "nfs", "tib": 1}},
    ),
    (
        "storage.server_size is Standard_D4d_v5, which takes no Premium SSD for its data",
        {},
        {"storage": {"kind": "nfs", "tib": 1, "server_size": "Standard_D4d_v5"}},
    ),
    (
        "storage.server_disks is 1: a disk has at most 32,767 GiB, and these would have 40,960",
        {},
        {
            "storage": {
                "kind": "nfs",
                "tib": 40,
                "server_disks": 1,
                "server_size": "Standard_E64ds_v5",
            }
        },
    ),
    (
        "storage.tib is 101: one volume has at most 100 TiB",
        {},
        {"storage": {"kind": "anf", "tib": 101}},
    ),
    ("storage.tib is given without storage.kind", {}, {"storage": {"tib": 1}}),
    (
        (
            r"cloud_init holds '\ud800', which a file name, an argument or a variable cannot hold:"
            " remove it"
        ),
        {},
        {"cloud_init": "#!\ud800"},
    ),
    (
        "variables has ansible_user: how a node is reached is the run's own",
        {},
        {"variables": {"ansible_user": "root"}},
    ),
    ("variables has 'a b', which is no name of an Ansible variable", {}, {"variables": {"a b": 1}}),
    ("variables is ['a']: it must be a mapping", {}, {"variables": ["a"]}),
    ("max_usd_per_hour is nan: it must be a number >= 0.0", {}, {"max_usd_per_hour": float("nan")}),
]


@pytest.mark.parametrize(("sentence", "nodes", "given"), REFUSED)
def test_what_cannot_be_is_refused_in_one_sentence(
    sentence: str, nodes: dict[str, Any], given: dict[str, Any]
) -> None:
    assert refusal(nodes, **given) == f"recipe test: a value is wrong: {sentence}"


def test_yaml_times_are_texts_again() -> None:
    when = provisioning.datetime(2026, 11, 24, 18, 0)
    assert made(expires=when).expires == "2026-11-24T18:00Z"
    assert made(expires=when.date()).expires == "2026-11-24T00:00Z"


@parametrized(("member", "value"))
def test_a_catalog_that_is_not_as_its_head_says_is_refused(member: str, value: Any) -> None:
    facts = {**known().facts, member: value}
    with pytest.raises(BadInput) as found:
        catalog.Catalog(known().sizes, facts, known().sold)
    assert str(found.value).startswith(f"catalog azure.yml: {member}")


@pytest.mark.parametrize(
    ("regions", "hint"),
    [
        ({"mexicocentral"}, "all of it is sold in mexicocentral"),
        ({"mexicocentral", "uksouth"}, "the nearest region that has all of it is uksouth (424 km)"),
        (set(), "no region of the price table has all of it"),
    ],
)
def test_where_else_it_is_sold_is_said(regions: set[str], hint: str) -> None:
    document = {**provisioning.FULL, "region": "westeurope", "login": {}, "ssh_from": []}
    document["nodes"] = {"size": "Standard_HB120rs_v3"}
    sold = {
        "standard_hb120rs_v3": frozenset(regions or {"nowhere"}),
        "standard_d4d_v5": frozenset({"westeurope"}),
    }
    if not regions:
        # Another size of the same deployment is not sold where the first is.
        document["login"] = {"size": "Standard_D4d_v5"}
    what = catalog.Catalog(known().sizes, known().facts, sold)
    with pytest.raises(BadInput) as found:
        parameters.read("x", [document], what, NOW)
    assert str(found.value) == (
        "recipe x: a value is wrong: region is westeurope, which does not sell Standard_HB120rs_v3"
        f" as far as prices are known; {hint}"
    )


def test_a_type_without_a_pinned_version_is_refused() -> None:
    with pytest.raises(BadInput) as found:
        known().api_version("Microsoft.Compute/images")
    assert str(found.value) == "catalog azure.yml: api_versions has no Microsoft.Compute/images"


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=6,
)
_MODELS = (parameters.Stated, parameters.Nodes, parameters.Login, parameters.Storage, pull.Pull)
_NAMES = [name for model in _MODELS for name in model.__struct_fields__]


@given(
    st.dictionaries(
        st.sampled_from(_NAMES),
        _VALUES | st.dictionaries(st.sampled_from(_NAMES), _VALUES, max_size=4),
        max_size=6,
    )
)
def test_no_document_ends_in_anything_but_a_sentence(document: dict[str, Any]) -> None:
    said = "recipe any: "
    try:
        parameters.read("any", [recipe("devito-hbv3"), document], known(), NOW)
    except BadInput as error:
        said = str(error)
    assert said.startswith("recipe any: ")


@parametrized(("place", "value"))
def test_no_text_holds_a_nul(place: str, value: Any) -> None:
    sentence = rf"{place} holds '\x00', which a file name, an argument or a variable cannot hold"
    assert sentence in refusal(**{place.partition(".")[0].partition("[")[0]: value})
