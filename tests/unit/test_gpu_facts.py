"""The module gpu_facts: what it runs, and what it publishes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gpu_facts
import machines
import pytest
from ansible.module_utils import basic
from ansible.module_utils.testing import patch_module_args

TOOLS = {name: f"/usr/bin/{name}" for name in ("nvidia-smi", "nv-fabricmanager", "systemctl")}
VERSION = machines.description("nd96asr_v4")["nvidia_driver"]["version"]
ROWS = "".join(f"0000000{n}:00:00.0, {VERSION}, Enabled\n" for n in range(1, 9))
ANSWERS = {
    "nvidia-smi": (0, f"pci.bus_id, driver_version, persistence_mode\n{ROWS}", ""),
    "nv-fabricmanager": (0, f"Fabric Manager version is : {VERSION}\n", ""),
    "systemctl": (
        0,
        "\n".join(
            f"Id={unit}.service\nLoadState=loaded\nActiveState=active\n"
            for unit in ("nvidia-fabricmanager", "nvidia-persistenced", "nvidia-dcgm")
        ),
        "",
    ),
}
EXPECTED = {"driver_version": VERSION, "gpus": 8, "fabric_manager": True, "persistence": True}


class Ran:
    """Runs the module on a recorded machine, with replaced tools."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.monkeypatch, self.capsys = monkeypatch, capsys
        self.calls: list[list[str]] = []
        self.tools = dict(TOOLS)
        self.answers = dict(ANSWERS)

    def __call__(self, **parameters: Any) -> dict[str, Any]:
        def run_command(_self: Any, argv: list[str], **options: Any) -> tuple[int, str, str]:
            assert options["environ_update"]["LC_ALL"] == "C"
            self.calls.append(argv)
            return self.answers[Path(argv[0]).name]

        module = basic.AnsibleModule
        self.monkeypatch.setattr(module, "run_command", run_command)
        self.monkeypatch.setattr(
            module, "get_bin_path", lambda _self, name, *_a, **_k: self.tools.get(name)
        )
        root = machines.root_of("nd96asr_v4")
        roots = {"sysfs_root": str(root / "sys"), "procfs_root": str(root / "proc")}
        with patch_module_args({**roots, **parameters}), pytest.raises(SystemExit):
            gpu_facts.main()
        answer: dict[str, Any] = json.loads(self.capsys.readouterr().out)
        return answer


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Ran:
    return Ran(monkeypatch, capsys)


def test_a_whole_driver(ran: Ran) -> None:
    answer = ran(expected=EXPECTED)
    assert answer["changed"] is False
    assert answer["ansible_facts"] == {
        "trueup_gpu": {
            "kernel_module": VERSION,
            "user_space": VERSION,
            "fabric_manager": VERSION,
            "modules": ["nvidia", "nvidia_uvm", "nvidia_peermem"],
            "units": {
                "nvidia-fabricmanager.service": "active",
                "nvidia-persistenced.service": "active",
                "nvidia-dcgm.service": "active",
            },
            "gpus_on_pci": 8,
            "gpus": 8,
            "persistent": 8,
            "reboot_required": False,
            "problems": [],
        }
    }
    assert ran.calls == [
        [
            "/usr/bin/systemctl",
            "show",
            "--property=Id,LoadState,ActiveState",
            "nvidia-fabricmanager.service",
            "nvidia-persistenced.service",
            "nvidia-dcgm.service",
        ],
        [
            "/usr/bin/nvidia-smi",
            "--query-gpu=pci.bus_id,driver_version,persistence_mode",
            "--format=csv",
        ],
        ["/usr/bin/nv-fabricmanager", "--version"],
    ]


def test_check_mode_reads_the_same(ran: Ran) -> None:
    assert ran(expected=EXPECTED, _ansible_check_mode=True) == ran(expected=EXPECTED)


def test_no_tools_are_named_problems(ran: Ran) -> None:
    ran.tools = {}
    fact = ran(expected=EXPECTED)["ansible_facts"]["trueup_gpu"]
    assert [one["name"] for one in fact["problems"]] == [
        "user_space_missing",
        "fabric_manager_missing",
    ]
    assert (fact["user_space"], fact["fabric_manager"], ran.calls) == (None, None, [])


def test_a_mismatch_asks_for_a_reboot(ran: Ran) -> None:
    mismatch = "Failed to initialize NVML: Driver/library version mismatch"
    ran.answers["nvidia-smi"] = (18, f"{mismatch}\nNVML library version: 575.57\n", "")
    fact = ran(expected={})["ansible_facts"]["trueup_gpu"]
    assert [one["name"] for one in fact["problems"]] == ["driver_mismatch"]
    assert (fact["user_space"], fact["gpus"], fact["reboot_required"]) == ("575.57", None, True)


def test_an_unusable_answer_fails_with_the_line(ran: Ran) -> None:
    ran.answers["nvidia-smi"] = (0, "something else\n", "")
    answer = ran(expected=EXPECTED)
    assert answer["failed"] is True
    assert "expected the columns pci.bus_id" in answer["msg"]
    assert "something else" in answer["msg"]


def test_a_unit_that_never_settles_is_waited_for_no_longer_than_asked(ran: Ran) -> None:
    code, text, error = ANSWERS["systemctl"]
    ran.answers["systemctl"] = (code, text.replace("=active", "=activating", 1), error)
    fact = ran(expected=EXPECTED, settle_seconds=0)["ansible_facts"]["trueup_gpu"]
    assert [one["name"] for one in fact["problems"]] == ["fabric_manager_stopped"]
    assert "is activating" in fact["problems"][0]["message"]
