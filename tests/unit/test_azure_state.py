"""What the controller keeps of a run on Azure."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from pathlib import Path

import pytest
import yaml
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
from ansible.vars.manager import VariableManager
from provisioning import RUN, made
from trueup.errors import BadInput, TrueupError
from trueup_controller.azure import run_state


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> run_state.State:
    monkeypatch.setenv(run_state.VARIABLE, str(tmp_path / "it's %h"))
    return run_state.State(RUN)


def mode(path: str) -> int:
    return stat.S_IMODE(os.stat(path).st_mode)


@pytest.mark.parametrize("run", ["", "../x", "latest", f"{RUN}/.."])
def test_a_run_is_called_as_runs_are(run: str) -> None:
    with pytest.raises(BadInput, match="is not of the form"):
        run_state.State(run)


def test_the_folder_of_all_runs_is_the_users_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (run_state.VARIABLE, "TRUEUP_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    found = [run_state.home().replace(os.path.expanduser("~"), "~")]
    for name in ("XDG_CACHE_HOME", "TRUEUP_CACHE", run_state.VARIABLE):
        monkeypatch.setenv(name, f"/{name}")
        found.append(run_state.home())
    assert found == [
        "~/.cache/trueup/azure",
        "/XDG_CACHE_HOME/trueup/azure",
        "/TRUEUP_CACHE/azure",
        f"/{run_state.VARIABLE}",
    ]


def test_what_is_written_is_read_and_added_to(kept: run_state.State) -> None:
    assert kept.read() == {}
    kept.write(group="g")
    kept.write(region="r")
    assert kept.read() == {"run": RUN, "group": "g", "region": "r"}
    assert [mode(kept.folder), mode(kept.path(run_state.RUN))] == [0o700, 0o600]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"run": "another"}'])
def test_what_is_no_runs_document_is_refused(kept: run_state.State, text: str) -> None:
    kept.write()
    Path(kept.path(run_state.RUN)).write_text(text)
    with pytest.raises(BadInput, match=r"run\.json"):
        kept.read()


def test_a_disk_that_refuses_is_said(kept: run_state.State) -> None:
    Path(kept.folder).parent.write_text("no folder")
    with pytest.raises(TrueupError, match="Not a directory"):
        kept.write()


def test_the_runs_key_is_made_once_and_is_its_owners(kept: run_state.State) -> None:
    first = kept.public_key()
    os.unlink(kept.path("id_ed25519.pub"))
    assert (kept.public_key(), first.split()[0]) == (first, "ssh-ed25519")
    assert mode(kept.path(run_state.KEY)) == 0o600
    assert Path(kept.path("id_ed25519.pub")).read_text().strip() == first
    assert [name for name in os.listdir(kept.folder) if name.startswith(".")] == []


def test_a_key_that_is_cut_is_said(kept: run_state.State) -> None:
    kept.public_key()
    Path(kept.path(run_state.KEY)).write_text("-----BEGIN")
    with pytest.raises(TrueupError, match="ssh-keygen made no key"):
        kept.public_key()


def resolved(kept: run_state.State, host: str) -> dict[str, str]:
    """What ssh itself makes of the file."""
    argv = ["ssh", "-G", "-F", kept.path(run_state.CONFIG), host]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    return dict(line.split(" ", 1) for line in done.stdout.splitlines() if " " in line)


def test_a_run_is_made_by_one_alone(kept: run_state.State) -> None:
    made_elsewhere = pytest.raises(BadInput, match="is being made by another ansible-playbook")
    with kept.alone(), made_elsewhere, run_state.State(RUN).alone(seconds=0.0):
        pytest.fail("two were at it")
    with run_state.State(RUN).alone(seconds=0.0):
        assert os.path.exists(kept.path(run_state.LOCK))


def test_ssh_goes_to_nodes_through_the_login_node(kept: run_state.State) -> None:
    kept.write_access(made(), "sub", "20.1.2.3")
    node, login = resolved(kept, "10.42.0.4"), resolved(kept, "login")
    assert (node["proxyjump"], node["user"], node["identitiesonly"]) == (
        "login",
        "azureuser",
        "yes",
    )
    assert node["stricthostkeychecking"] == "accept-new"
    assert (login["hostname"], login.get("proxyjump")) == ("20.1.2.3", None)
    expected = kept.path(run_state.KEY).replace("%", "%%")
    assert node["identityfile"] == login["identityfile"] == expected
    assert node["userknownhostsfile"] == kept.path(run_state.KNOWN)


def test_without_a_public_address_nodes_are_reached_from_within(kept: run_state.State) -> None:
    kept.write_access(made(), "sub", "")
    assert "proxyjump" not in resolved(kept, "10.42.0.4")


def test_the_inventory_is_of_the_runs_nodes_alone(kept: run_state.State) -> None:
    kept.write_access(made(variables={"trueup_benchmarks": ["stream"]}), "sub", "20.1.2.3")
    plugin, variables = (
        yaml.safe_load(Path(kept.path("inventory", *names)).read_text())
        for names in (("azure_hpc.yml",), ("group_vars", "azure_linux.yml"))
    )
    assert plugin["include"] == [f"tags.run == '{RUN}' && tags.role == 'compute'"]
    assert plugin["include_vmss_resource_groups"] == ["trueup-test"]
    assert (variables["trueup_benchmarks"], variables["ansible_user"]) == (["stream"], "azureuser")
    assert variables["ansible_control_path"] % {"directory": "d"} == "d/7c1e100000-%h"
    assert json.dumps(plugin).count("20.1.2.3") == 0


def test_an_nfs_server_exports_to_the_runs_network_and_is_not_measured(
    kept: run_state.State,
) -> None:
    storage = {"kind": "nfs", "tib": 4, "server_size": "Standard_E64ds_v5"}
    mounts = [{"path": "/shared", "kind": "nfs", "source": "nfs:/srv/shared"}]
    found = made(variables={"trueup_benchmarks": ["stream"]}, storage=storage)
    kept.write_access(found, "sub", "20.1.2.3", mounts)
    plugin = yaml.safe_load(Path(kept.path("inventory", "azure_hpc.yml")).read_text())
    assert plugin["selected_groups"]["nfs_server"] == "tags.role == 'storage'"
    assert plugin["include"][1] == f"tags.run == '{RUN}' && tags.role == 'storage'"
    hosts = Path(kept.path("inventory", "hosts.yml"))
    groups = {"azure_linux": {"hosts": {"node001": {}, "nfs": {}}}}
    hosts.write_text(json.dumps({**groups, "nfs_server": {"hosts": {"nfs": {}}}}))
    every = InventoryManager(loader=DataLoader(), sources=[str(hosts)])
    of = VariableManager(loader=DataLoader(), inventory=every).get_vars
    server, node = (of(host=every.get_host(name)) for name in ("nfs", "node001"))
    assert server["nfs_server_exports"] == [{"path": "/srv/shared", "clients": ["10.42.0.0/16"]}]
    assert (server["trueup_benchmarks"], server["trueup_health_benchmarks"]) == ([], [])
    assert (server["shared_storage_mounts"], server["ansible_user"]) == ([], "azureuser")
    assert (node["trueup_benchmarks"], node["shared_storage_mounts"]) == (["stream"], mounts)
    assert "nfs_server_exports" not in node
