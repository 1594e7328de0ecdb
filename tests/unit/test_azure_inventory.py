"""The inventory plugin azure_hpc against the emulated cloud, the sign-in aside."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import azure_hpc
import pytest
import yaml
from ansible.errors import AnsibleError, AnsibleParserError
from ansible.inventory.data import InventoryData
from ansible.parsing.dataloader import DataLoader
from ansible.plugins.loader import inventory_loader
from emulated_cloud import SUBSCRIPTION, Cloud, Reply, refusal, serving
from helpers import ROOT, parametrized
from trueup_controller.azure import login

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.slow

inventory_loader.add_directory(str(ROOT / "plugins" / "inventory"))
GRAPH, NICS = "resources", "networkInterfaces"


class Site:
    """A cloud, and what the plugin makes of it."""

    def __init__(self, cloud: Cloud, folder: Path) -> None:
        self.cloud, self.folder = cloud, folder

    def read(self, *, use: bool = True, **options: Any) -> InventoryData:
        path = self.folder / "azure_hpc.yml"
        given = {"plugin": "azure_hpc", "ca_path": str(self.folder / "authority.pem"), **options}
        path.write_text(yaml.safe_dump(given))
        inventory = InventoryData()
        plugin = inventory_loader.get("azure_hpc")
        assert plugin.verify_file(str(path)) is True
        plugin.parse(inventory, DataLoader(), str(path), cache=use)
        # As Ansible does: a plugin that used no cache has none.
        with contextlib.suppress(AttributeError):
            plugin.update_cache_if_changed()
        return inventory

    def said(self, **options: Any) -> str:
        with pytest.raises(AnsibleParserError) as raised:
            self.read(**options)
        return str(raised.value)

    def cached(self, *, refresh: bool = False, **options: Any) -> InventoryData:
        """With Ansible's cache; ``refresh`` is --flush-cache."""
        kept = {"cache_plugin": "jsonfile", "cache_connection": str(self.folder / "kept")}
        return self.read(**{"cache": True, **kept, **options}, use=not refresh)

    def asked(self) -> list[str]:
        return [path.rpartition("/")[2] for _, path, *_ in self.cloud.calls]


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    cloud = Cloud()
    cloud.graph.quota = False

    def sign_in(names: list[str]) -> login.Login:
        return login.Login(cloud.url, cloud.token(), tuple(names) or (SUBSCRIPTION,))

    monkeypatch.setattr(login, "sign_in", sign_in)
    monkeypatch.setenv("no_proxy", "localhost")
    with serving(cloud, tmp_path):
        yield Site(cloud, tmp_path)


def hosts(inventory: InventoryData) -> list[str]:
    return sorted(inventory.hosts)


def members(inventory: InventoryData, group: str) -> list[str]:
    return sorted(host.name for host in inventory.groups[group].get_hosts())


def fleet(cloud: Cloud) -> None:
    cloud.add_vm("hb-1", zones=["2"], tags={"role": "compute"})
    cloud.add_vm("hb-2", power="deallocated")
    cloud.add_vm("login", public="20.0.0.4", size="Standard_D4s_v4", tags={"role": "scheduler"})
    cloud.add_vm("desk", system="Windows", group="vdi")
    cloud.add_scale_set("execute", 2)


# -- what is listed --


def test_running_machines_become_hosts(site: Site) -> None:
    fleet(site.cloud)
    assert hosts(site.read()) == ["desk", "execute_0", "execute_1", "hb-1", "login"]


def test_groups(site: Site) -> None:
    fleet(site.cloud)
    inventory = site.read(
        keyed_groups=[{"key": "tags.role | default('none')", "prefix": "azure_role"}],
        conditional_groups={"slurm_controller": "tags.role | default('') == 'scheduler'"},
        groups={"zoned": "zone != ''"},
        selected_groups={"Slurm-compute": "tags.role == 'compute'", "none": "zone == '9'"},
    )
    assert members(inventory, "Slurm_compute") == ["hb-1"]
    assert "none" not in inventory.groups
    assert members(inventory, "azure_windows") == ["desk"]
    assert members(inventory, "windows") == ["desk"]
    assert members(inventory, "azure_resource_group_vdi") == ["desk"]
    assert members(inventory, "azure_role_compute") == ["hb-1"]
    assert members(inventory, "slurm_controller") == ["login"]
    assert (
        members(inventory, "zoned") == members(inventory, "azure_zone_southcentralus_2") == ["hb-1"]
    )


def test_a_tag_is_never_a_template(site: Site) -> None:
    site.cloud.add_vm("hb-1", tags={"x": "{{ 1 + 1 }}"})
    found = site.read(compose={"copied": "tags.x"})
    assert str(found.hosts["hb-1"].vars["copied"]) == "{{ 1 + 1 }}"


# -- calls and pages --


@pytest.mark.parametrize("kept", [None, {}, [1], [{"name": "hb-9"}], [{"zones": [], "more": 1}]])
def test_a_cache_of_another_version_is_not_used(kept: Any) -> None:
    assert azure_hpc.of_cache(kept) is None


# -- faults: what is patient --

BUSY = refusal(429, "RateLimiting", "Please retry later.")
BUSY.headers = {"Retry-After": "0"}
BROKEN = refusal(503, "ServerBusy", "Try later.")
BROKEN.headers = {"Retry-After": "0"}


# -- faults: what ends in one sentence --


def with_count(reply: Reply) -> Reply:
    return Reply(200, {**reply.document, "count": 77})


ROUND = {"totalRecords": 9, "count": 1, "data": [{"id": "a"}], "$skipToken": "again"}


def elsewhere(_: Reply) -> Reply:
    return Reply(200, {"value": [], "nextLink": "https://evil.example/list"})


@pytest.mark.parametrize(
    ("where", "fault", "words"),
    [
        (GRAPH, with_count, ["77 rows, and it has 4"]),
        (GRAPH, Reply(200, ROUND), ["pages in a circle after 2 of 9 rows"]),
        (GRAPH, Reply(200, []), ["not a JSON object"]),
        (GRAPH, Reply(200, {"count": 0}), ["no list of rows"]),
        (GRAPH, refusal(401, "ExpiredAuthenticationToken", "Expired."), ["Expired", "`az login`"]),
        (GRAPH, refusal(403, "AuthorizationFailed", "No."), ["AuthorizationFailed", "role Reader"]),
        (NICS, refusal(404, "ResourceNotFound", "Gone."), ["ResourceNotFound", "404", "request "]),
        (NICS, elsewhere, ["https://evil.example, which is not asked"]),
        (NICS, Reply(200, {"value": [1]}), ["without a list of entries"]),
        (NICS, Reply(302, {}, {"Location": "https://evil.example/"}), ["is not followed"]),
    ],
)
def test_a_fault_is_one_sentence(
    site: Site, where: str, fault: Reply | Callable[[Reply], Reply], words: list[str]
) -> None:
    fleet(site.cloud)
    site.cloud.faults[where] = [fault] * 3
    text = site.said()
    assert ([word in text for word in words], "\n" in text) == ([True] * len(words), False)


def test_a_cut_answer_is_one_sentence(site: Site) -> None:
    fleet(site.cloud)
    site.cloud.cut = [GRAPH]
    assert "not a JSON object" in site.said()


def test_a_total_that_never_fits_ends(site: Site) -> None:
    fleet(site.cloud)

    def more(reply: Reply) -> Reply:
        return Reply(200, {**reply.document, "totalRecords": 99})

    site.cloud.faults[GRAPH] = [more, more]
    assert "99 rows and gives 4, twice" in site.said()


def test_a_certificate_of_a_stranger_is_not_taken(site: Site, tmp_path_factory: Any) -> None:
    from cloud.server import certificates

    other, *_ = certificates(tmp_path_factory.mktemp("other"))
    text = site.said(ca_path=str(other))
    assert ("TLS" in text, "REQUESTS_CA_BUNDLE" in text, site.cloud.calls) == (True, True, [])


def test_the_token_stands_in_no_message(site: Site) -> None:
    fleet(site.cloud)

    def telling(_: Reply) -> Reply:
        return refusal(400, "Bad", f"You sent {' '.join(site.cloud.tokens)}")

    site.cloud.faults[GRAPH] = [telling]
    text = site.said()
    assert ([word in text for word in site.cloud.tokens], "********" in text) == ([False], True)


@parametrized(("options", "word"))
def test_bad_options_are_one_sentence(site: Site, options: dict[str, Any], word: str) -> None:
    fleet(site.cloud)
    assert word in site.said(**options)


def test_an_expression_that_fails_ends_unless_told_otherwise(site: Site) -> None:
    site.cloud.add_vm("hb-1")
    with pytest.raises(AnsibleError):
        site.read(compose={"x": "tags.team.name"})
    found = site.read(compose={"x": "tags.team.name"}, strict=False)
    assert "x" not in found.hosts["hb-1"].vars


def test_no_machine_at_all_is_said(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    plugin = inventory_loader.get("azure_hpc")
    monkeypatch.setattr(type(plugin.display), "warning", lambda _, text, **__: said.append(text))
    assert hosts(site.read()) == []
    site.cloud.add_vm("hb-1", power="deallocated")
    assert hosts(site.read()) == []
    assert ["role Reader" in text for text in said] == [True, False]
    assert "hb-1 (deallocated)" in said[-1]
