"""The module ib_facts with its tools replaced."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import ib_facts
import pytest
from ansible.module_utils.trueup_node.node import tools
from helpers import answer_of
from machines import build, description, root_of

if TYPE_CHECKING:
    from pathlib import Path


run_module = functools.partial(answer_of, ib_facts)


def sysfs(machine: str) -> str:
    return str(root_of(machine) / "sys")


@pytest.mark.parametrize("check_mode", [False, True])
def test_an_ndv4_as_expected(
    check_mode: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(ib_facts, "WAAGENT_CONF", "/nonexistent")
    result = run_module(
        capsys,
        sysfs_root=sysfs("nd96asr_v4"),
        expected={"rate_gbps": 200, "nics": 8, "numa": {"0103:00:00.0": 0}},
        _ansible_check_mode=check_mode,
    )
    facts = result["ansible_facts"]["trueup_rdma"]
    assert result["changed"] is False
    assert (facts["problems"], facts["warnings"]) == ([], [])
    assert len(facts["devices"]) == len(facts["names"]) == 8
    assert facts["driver"] == {
        "loaded": None,
        "installed": None,
        "path": None,
        "reboot_required": False,
    }


def test_persistent_names_are_expected_where_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    machine = description("nd96asr_v4")
    machine["infiniband"][0]["device"] = "mlx5_0"
    root = str(build(machine, tmp_path) / "sys")
    silent = run_module(capsys, sysfs_root=root)["ansible_facts"]["trueup_rdma"]
    asked = run_module(capsys, sysfs_root=root, names_expected=True)["ansible_facts"]["trueup_rdma"]
    assert silent["problems"] == []
    assert [problem.split(": reboot")[0] for problem in asked["problems"]] == [
        "mlx5_0 (0101:00:00.0): the device at this address is to be called mlx5_ib0"
    ]


def test_a_wrong_expectation_fails(capsys: pytest.CaptureFixture[str]) -> None:
    result = run_module(capsys, expected={"nics": "many"}, sysfs_root="/nonexistent")
    assert result["failed"] is True
    assert result["msg"].startswith("expected: not numbers and mappings")


def test_the_images_naming_service_and_the_agents_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    unit, conf = tmp_path / "unit", tmp_path / "waagent.conf"
    agent, marker = tmp_path / "waagent.service", tmp_path / "hpcx-provides-openmpi.list"
    monkeypatch.setattr(ib_facts, "WAAGENT_UNITS", [tmp_path / "walinuxagent.service", agent])
    monkeypatch.setattr(ib_facts, "OPENMPI_MARKER", str(marker))
    monkeypatch.setattr(ib_facts, "NAMING_SERVICE", str(unit))
    monkeypatch.setattr(ib_facts, "WAAGENT_CONF", str(conf))
    facts = run_module(capsys, sysfs_root=sysfs("hb120rs_v3"))["ansible_facts"]["trueup_rdma"]
    assert (facts["naming_service"], facts["warnings"]) == (False, [])
    assert facts["agent"] == {"unit": None, "rdma_enabled": None}
    assert facts["hpcx_provides_openmpi"] is False
    unit.touch()
    agent.touch()
    marker.touch()
    conf.write_text("OS.EnableRDMA=n\n")
    facts = run_module(capsys, sysfs_root=sysfs("hb120rs_v3"))["ansible_facts"]["trueup_rdma"]
    assert (facts["naming_service"], len(facts["warnings"])) == (True, 1)
    assert facts["agent"] == {"unit": "waagent.service", "rdma_enabled": False}
    assert facts["hpcx_provides_openmpi"] is True


def test_the_journal_is_asked_for_links_that_were_lost(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said = "".join(f"17000{n}0000.1 n systemd-networkd[1]: ib0: Lost carrier\n" for n in (0, 1))
    asked: list[list[str]] = []

    def ask(_module: Any, argv: list[str], **_options: Any) -> tools.Answer:
        asked.append(argv)
        return tools.Answer(argv[0], 0, said)

    unknown = ("pci", "rate_gbps", "state", "physical_state", "link_layer", "numa_node", "firmware")
    told = {"device": "mlx5_ib0", "kind": "infiniband", "interfaces": ["ib0"]}
    rows = [{**dict.fromkeys(unknown), **told}]
    counters = {"counters": dict.fromkeys(ib_facts.infiniband._FAULTS)}
    monkeypatch.setattr(ib_facts.infiniband, "read_devices", lambda _: [{**rows[0], **counters}])
    monkeypatch.setattr(ib_facts.infiniband, "problems", lambda *_: [])
    monkeypatch.setattr(ib_facts.tools, "ask", ask)
    facts = run_module(capsys, flap_hours=6)["ansible_facts"]["trueup_rdma"]
    assert [row["losses"] for row in facts["flaps"]] == [2]
    assert "lost 2 times within 6 hours" in facts["problems"][0]
    (journal,) = (argv for argv in asked if argv[0] == "journalctl")
    assert "--since=-6h" in journal
    quiet = run_module(capsys)["ansible_facts"]["trueup_rdma"]
    assert (quiet["flaps"], quiet["problems"]) == (None, [])
    # Of a recorded machine this machine's journal says nothing.
    recorded = run_module(capsys, flap_hours=6, sysfs_root=sysfs("nd96asr_v4"))
    assert recorded["ansible_facts"]["trueup_rdma"]["flaps"] is None
