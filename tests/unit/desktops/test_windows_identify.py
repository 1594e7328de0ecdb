"""What a Windows host is: metadata, ansible.windows.setup, the registry and nvidia-smi together.

Facts as setup.ps1 of ansible.windows 3.3.0 gives them; names and figures are of windows_a10.md
(NV12ads_A10_v5: 12 vCPUs, 110 GiB, an A10-8Q of 8192 MiB).
"""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from action.desktops import windows_node_facts
from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure
from helpers import parametrized
from role_plans import ROOT
from trueup_controller.desktops.identify import CURRENT_VERSION, SUBSETS, describe
from trueup_controller.sizes import read_sizes
from trueup_node.node.metadata import METADATA_URL, of_body
from trueup_node.node.nvidia_smi import Gpu

SIZES = read_sizes(str(ROOT / "catalog" / "vm_sizes.csv"))
COMPUTE = {
    "vmSize": "Standard_NV12ads_A10_v5",
    "location": "eastus",
    "zone": "",
    "priority": "",
    "publisher": "microsoftwindowsdesktop",
    "offer": "windows-11",
    "sku": "win11-25h2-avd",
    "version": "26200.6584.250915",
    "licenseType": "Windows_Client",
    "osType": "Windows",
}
FACTS = {
    "ansible_distribution": "Microsoft Windows 11 Enterprise multi-session",
    "ansible_distribution_version": "10.0.26200.0",
    "ansible_os_family": "Windows",
    "ansible_memtotal_mb": 112640,
    "ansible_processor": [
        *("0", "AuthenticAMD", "AMD EPYC 74F3V 24-Core Processor   "),
        *("1", "AuthenticAMD", "AMD EPYC 74F3V 24-Core Processor   "),
    ],
    "ansible_processor_count": 1,
    "ansible_processor_cores": 6,
    "ansible_processor_threads_per_core": 2,
    "ansible_processor_vcpus": 12,
}
RELEASE = {
    "ProductName": {"type": "REG_SZ", "data": "Windows 10 Enterprise multi-session"},
    "DisplayVersion": {"type": "REG_SZ", "data": "25H2"},
    "EditionID": {"type": "REG_SZ", "data": "ServerRdsh"},
    "UBR": {"type": "REG_DWORD", "data": 6584},
}
SLICE = Gpu(name="NVIDIA A10-8Q", pci="0002:00:00.0", memory_bytes=8192 * 1024**2)
SAID = "name, pci.bus_id, memory.total [MiB]\r\nNVIDIA A10-8Q, 00000002:00:00.0, 8192 MiB\r\n"


def described(**more: Any) -> dict[str, Any]:
    given: dict[str, Any] = {
        "metadata": of_body(json.dumps({"compute": COMPUTE})),
        "facts": FACTS,
        "release": RELEASE,
        "gpus": (SLICE,),
        "given_size": None,
        **more,
    }
    metadata, facts, release, gpus = (
        given.pop(name) for name in ("metadata", "facts", "release", "gpus")
    )
    return describe(metadata, facts, release, gpus, catalog=SIZES, **given)


def test_a_host_of_azure() -> None:
    found = described()
    assert {name: value for name, value in found.items() if value not in (None, [], {})} == {
        "vm_size": "Standard_NV12ads_A10_v5",
        "family": "nv_a10_v5",
        "azure": True,
        "metadata_status": "ok",
        "region": "eastus",
        "offer": "payg",
        "image": "microsoftwindowsdesktop:windows-11:win11-25h2-avd:26200.6584.250915",
        "licence_type": "Windows_Client",
        "system": "windows",
        "os": "Windows 11 Enterprise multi-session 25H2",
        "distribution": "windows",
        "distribution_version": "10.0.26200",
        "kernel": "10.0.26200.6584",
        "architecture": "x86_64",
        "cpu_model": "AMD EPYC 74F3V 24-Core Processor",
        "sockets": 1,
        "cpus": 12,
        "cores": 6,
        "memory_bytes": 118111600640,
        "gpus": [{"name": "NVIDIA A10-8Q", "pci": "0002:00:00.0", "memory_bytes": 8589934592}],
        "has_gpu": True,
        "gpu_count": 1,
        "gpu_count_expected": 1,
        "has_rdma": False,
        "rdma_count": 0,
        "rdma_count_expected": 0,
        "privilege": "administrator",
        "container": False,
        "catalog": SIZES["Standard_NV12ads_A10_v5"],
    }


@pytest.mark.parametrize(
    ("facts", "release", "os", "kernel"),
    [
        ({}, {}, "Windows", ""),
        # To others than administrators the system does not say its name.
        ({**FACTS, "ansible_distribution": None}, RELEASE, "ServerRdsh 25H2", "10.0.26200.6584"),
        (
            {
                "ansible_distribution": "Microsoft Windows Server 2022 Datacenter Azure Edition",
                "ansible_distribution_version": "10.0.20348.0",
            },
            {},
            "Windows Server 2022 Datacenter Azure Edition",
            "10.0.20348.0",
        ),
    ],
)
def test_what_the_host_does_not_say_is_left_out(
    facts: dict[str, Any], release: dict[str, Any], os: str, kernel: str
) -> None:
    found = described(facts=facts, release=release)
    assert (found["os"], found["kernel"]) == (os, kernel)
    told = facts.get("ansible_distribution")
    assert found["privilege"] == ("administrator" if told else None)


def test_what_is_not_what_the_size_has_is_warned_of() -> None:
    small = {**FACTS, "ansible_processor_vcpus": 6, "ansible_memtotal_mb": 56320}
    other = Gpu(name="NVIDIA A10-4Q", pci="0002:00:00.0", memory_bytes=4096 * 1024**2)
    assert described(facts=small, gpus=(other,))["warnings"] == [
        "Standard_NV12ads_A10_v5 has 12 vCPUs, this machine shows 6",
        "Standard_NV12ads_A10_v5 has 110 GiB of memory, this machine shows 55.0 GiB",
        (
            "GPU 0002:00:00.0 (NVIDIA A10-4Q) shows 4.0 GiB, those of Standard_NV12ads_A10_v5 have"
            " 8 GiB"
        ),
    ]


# ---- the action ---------------------------------------------------------------------------------


def asking(monkeypatch: pytest.MonkeyPatch, **said: Any) -> tuple[Any, list[Any]]:
    """The action, whose host says of each module what is given; what it is asked."""
    answers = {
        "setup": {"ansible_facts": FACTS},
        "win_reg_stat": {
            "exists": True,
            "properties": {
                name: {"type": value["type"], "value": value["data"], "raw_value": value["data"]}
                for name, value in RELEASE.items()
            },
            "sub_keys": [],
        },
        "win_uri": {"status_code": 200, "content": json.dumps({"compute": COMPUTE})},
        "win_command": {"rc": 0, "stdout": SAID, "changed": True},
        **said,
    }
    seen: list[Any] = []

    def execute(self: Any, module_name: str, module_args: Any, task_vars: Any) -> dict[str, Any]:
        # What is asked of nvidia-smi is asked in check mode too.
        assert self._task.check_mode == (module_name != "ansible.windows.win_command")
        seen.append((module_name, module_args))
        answer = answers[module_name.removeprefix("ansible.windows.")]
        if isinstance(answer, Exception):
            raise answer
        return dict(answer)

    monkeypatch.setattr(windows_node_facts.ActionBase, "run", lambda *_: {})
    monkeypatch.setattr(windows_node_facts.ActionModule, "_execute_module", execute)
    made = windows_node_facts.ActionModule.__new__(windows_node_facts.ActionModule)
    made._task = SimpleNamespace(args={}, check_mode=True)
    return made, seen


def test_a_host_is_asked_four_things(monkeypatch: pytest.MonkeyPatch) -> None:
    action, seen = asking(monkeypatch)
    assert action.run() == {"changed": False, "ansible_facts": {"trueup_node": described()}}
    assert seen == [
        ("ansible.windows.setup", {"gather_subset": SUBSETS}),
        ("ansible.windows.win_reg_stat", {"path": CURRENT_VERSION}),
        (
            "ansible.windows.win_uri",
            {
                "url": METADATA_URL,
                "headers": {"Metadata": "true"},
                "use_proxy": False,
                "follow_redirects": "none",
                "return_content": True,
                "url_timeout": 10,
            },
        ),
        (
            "ansible.windows.win_command",
            {"argv": ["nvidia-smi", "--query-gpu=name,pci.bus_id,memory.total", "--format=csv"]},
        ),
    ]


@parametrized(("came", "status", "warning"))
def test_a_host_whose_metadata_service_does_not_say_its_size(
    came: dict[str, Any], status: str, warning: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    action, _ = asking(monkeypatch, win_uri=came)
    action._task.args = {"vm_size": "Standard_NV12ads_A10_v5"}
    found = action.run()["ansible_facts"]["trueup_node"]
    assert (found["metadata_status"], found["warnings"]) == (status, warning)
    assert (found["vm_size"], found["licence_type"]) == ("Standard_NV12ads_A10_v5", None)


def test_a_host_without_a_driver_shows_no_gpu_and_has_one(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = {"failed": True, "rc": 2, "msg": "The system cannot find the file specified"}
    action, _ = asking(monkeypatch, win_command=gone)
    found = action.run()["ansible_facts"]["trueup_node"]
    assert (found["gpus"], found["has_gpu"], found["gpu_count_expected"]) == ([], True, 1)


def test_what_cannot_be_asked_fails_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    action, _ = asking(monkeypatch, setup={"failed": True, "msg": "Access is denied"})
    with pytest.raises(AnsibleActionFail, match="setup: Access is denied"):
        action.run()
    action, _ = asking(monkeypatch, setup=TimeoutError("Read timed out."))
    with pytest.raises(AnsibleConnectionFailure, match="does not answer PowerShell remoting: Read"):
        action.run()
