"""The GPUs of a Windows host: what devices.ps1 and nvidia-smi say, and what is wrong with it."""

from __future__ import annotations

from typing import Any

import pytest
from helpers import ROOT, parametrized
from hypothesis import given
from hypothesis import strategies as st
from trueup_controller.desktops import gpu
from trueup_controller.desktops.gpu import look, nvidias_version, parse_devices
from trueup_node.errors import ParseError

DATA = ROOT / "tests" / "data" / "nvidia_smi"
A10 = {
    "device": r"PCI\VEN_10DE&DEV_2236&SUBSYS_14D010DE&REV_A1\6&1A2B3C4D&0&00000000",
    "name": "NVIDIA A10-8Q",
    "error_code": 0,
    "driver_version": "32.0.15.7424",
}


def result(*devices: dict[str, Any], booted: str = "2026-11-23T06:00:00") -> dict[str, Any]:
    return {"devices": list(devices), "booted": booted, "now": "2026-11-23T07:00:00"}


@parametrized(("windows", "nvidia"))
def test_windows_version_of_a_driver_is_nvidias(windows: str | None, nvidia: str | None) -> None:
    assert nvidias_version(windows) == nvidia


def test_the_devices() -> None:
    found = parse_devices(
        result(A10, {**A10, "name": None, "error_code": 28, "driver_version": None})
    )
    assert [(one.name, one.error_code, one.driver) for one in found.adapters] == [
        ("NVIDIA A10-8Q", 0, "574.24"),
        (None, 28, None),
    ]
    assert (found.booted, found.asked_at) == ("2026-11-23T06:00:00", "2026-11-23T07:00:00")


@parametrized("answer")
def test_another_result_is_no_answer(answer: Any) -> None:
    with pytest.raises(ParseError, match=r"devices\.ps1: its result is not as expected"):
        parse_devices(answer)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*A10, "devices", "booted", "now"]), inner, max_size=5)
    ),
    max_leaves=12,
)


@given(JSON)
def test_no_result_ends_in_another_error(answer: Any) -> None:
    try:
        said = type(parse_devices(answer)).__name__
    except ParseError as error:
        said = str(error).split(":")[0]
    assert said in {"Devices", "devices.ps1"}


class Host:
    """What ``tools.ask`` runs nvidia-smi with: by a word of the question its answer."""

    def __init__(self, **answers: Any) -> None:
        licence = (DATA / "q_a10_licensed.txt").read_text().split("GPU 00000003")[0]
        self.answers: dict[str, Any] = {
            "driver_version": "pci.bus_id, driver_version, persistence_mode\n"
            "00000002:00:00.0, 574.24, [N/A]\n",
            "memory.total": "pci.bus_id, name, memory.total [MiB]\n"
            "00000002:00:00.0, NVIDIA A10-8Q, 8192 MiB\n",
            "driver_model": "pci.bus_id, driver_model.current\n00000002:00:00.0, WDDM\n",
            "-q": licence,
            **answers,
        }
        self.asked: list[str] = []

    def get_bin_path(self, name: str, opt_dirs: Any = None) -> str | None:
        return name if name == "nvidia-smi" and self.answers else None

    def run_command(self, argv: list[str], **_options: Any) -> tuple[int, str, str]:
        self.asked.append(" ".join(argv[1:]))
        for word, answer in self.answers.items():
            if any(word == part or word in part.split("=")[-1] for part in argv[1:]):
                now = answer.pop(0) if isinstance(answer, list) and len(answer) > 1 else answer
                text = now[0] if isinstance(now, list) else now
                return (9, "", text) if text.startswith("Failed") else (0, text, "")
        return 2, "", "Field is not a valid field to query."


# What an NV12ads_A10_v5 is to be (windows_a10.md, section 1): A10-8Q, 8 GB, 574.24.
EXPECTED = {"driver_version": "574.24", "gpus": 1, "gpu_memory_gib": 8.0, "booted_after": ""}


def names(fact: dict[str, Any]) -> list[tuple[str, bool]]:
    return [(one["name"], one["reboot"]) for one in fact["problems"]]


def test_a_host_that_is_as_it_is_to_be() -> None:
    host = Host()
    fact = look(host, result(A10), EXPECTED, 0)
    assert names(fact) == []
    assert (fact["kernel_module"], fact["user_space"], fact["gpus"]) == ("574.24", "574.24", 1)
    (gpu_of_it,) = fact["devices"]
    assert (gpu_of_it["name"], gpu_of_it["driver_model"]) == ("NVIDIA A10-8Q", "WDDM")
    assert gpu_of_it["licence"] == "Licensed (Expiry: N/A)"
    assert gpu_of_it["memory_bytes"] == 8192 * 1024**2
    assert (fact["reboot_required"], fact["verdict"]) == (False, "")
    assert [asked for asked in host.asked if "nvlink" in asked] == []


OLD = {**A10, "error_code": 43, "driver_version": "31.0.15.3846"}
FAILS = "Failed to initialize NVML: Driver/library version mismatch"


@pytest.mark.parametrize(
    ("device", "answers", "expected", "found"),
    [
        # The size's share of an A10: by the name's suffix, and memory within 10 %.
        ({}, {"memory.total": ("A10-8Q", 8008)}, {}, []),
        ({}, {"memory.total": ("A10-8Q", 7300)}, {}, [("gpu_memory_short", False)]),
        ({}, {"memory.total": ("A10-4Q", 4096)}, {"gpu_memory_gib": 4.0}, []),
        ({}, {"memory.total": ("A10-12Q", 12288)}, {"gpu_memory_gib": 12.0}, []),
        ({}, {"memory.total": ("A10-24Q", 24512)}, {"gpu_memory_gib": 24.0}, []),
        ({}, {"memory.total": ("A10-12Q", 12288)}, {}, [("gpu_profile", False)]),
        ({}, {}, {"gpus": 2}, [("gpus_missing", False)]),
        ({}, {"driver_model": "TCC"}, {}, [("driver_model", False)]),
        ({}, {"driver_model": "[N/A]"}, {}, []),
        ({}, {}, {"booted_after": "2026-11-23T06:00:01"}, [("restart_pending", True)]),
        ({}, {}, {"booted_after": "2026-11-23T05:59:59"}, []),
        (OLD, {"driver_version": FAILS}, {"driver_version": "538.46"},
         [("gpu_code_43", False), ("nvidia_smi_failed", False)]),
        ({"error_code": 14}, {}, {}, [("gpu_code_14", True)]),
        ({"error_code": None}, {}, {}, []),
        ({}, {}, {"driver_version": "573.96"},
         [("driver_version", True), ("user_space_version", True)]),
    ],
)  # fmt: skip
def test_what_is_wrong(
    device: dict[str, Any], answers: dict[str, Any], expected: dict[str, Any], found: Any
) -> None:
    given = dict(answers)
    if "memory.total" in given:
        name, mib = given["memory.total"]
        given["memory.total"] = (
            f"pci.bus_id, name, memory.total [MiB]\n00000002:00:00.0, NVIDIA {name}, {mib} MiB\n"
        )
    if "driver_model" in given:
        given["driver_model"] = (
            f"pci.bus_id, driver_model.current\n00000002:00:00.0, {given['driver_model']}\n"
        )
    fact = look(Host(**given), result({**A10, **device}), {**EXPECTED, **expected}, 0)
    assert names(fact) == found
    assert fact["verdict"].startswith("windows_gpu_reboot_required: ") is any(
        reboot for _, reboot in found
    )


@parametrized(("licence", "found"))
def test_the_licence(licence: str, found: list[str]) -> None:
    text = Host().answers["-q"].replace("Licensed (Expiry: N/A)", licence)
    fact = look(Host(**{"-q": text}), result(A10), EXPECTED, 0)
    assert [name for name, _ in names(fact)] == found


def test_a_fresh_host_has_no_driver() -> None:
    host = Host()
    host.answers = {}
    bare = {**A10, "name": "Video Controller", "error_code": 28, "driver_version": None}
    fact = look(host, result(bare), EXPECTED, 0)
    assert names(fact) == [("gpu_code_28", False), ("user_space_missing", False)]
    assert (fact["kernel_module"], fact["user_space"], fact["devices"]) == (None, None, None)
    assert (fact["gpus_on_pci"], fact["gpus"]) == (1, None)


def test_nvidia_smi_of_a_gpu_that_works_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(gpu.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(gpu.time, "sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))
    good = Host().answers["driver_version"]
    fact = look(Host(driver_version=[FAILS, FAILS, good]), result(A10), EXPECTED, 180)
    assert (names(fact), now[0]) == ([], 10.0)
    # Not of one that Windows has stopped.
    fact = look(Host(driver_version=FAILS), result(OLD), {}, 180)
    assert (fact["gpus"], now[0]) == (None, 10.0)
