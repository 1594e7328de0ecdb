"""XIDs, SXids and GPUs that did not start, in a kernel log."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from helpers import parametrized
from hypothesis import given
from hypothesis import strategies as st
from trueup.errors import ParseError
from trueup.node.kernel_log import parse_kernel_log

DATA = Path(__file__).parent.parent / "data" / "kernel_log"
GPU = "0001:00:00.0"


def of_file(name: str) -> Any:
    return parse_kernel_log((DATA / name).read_text(encoding="utf-8"))


def codes(text: str, uptime: float | None = None) -> list[dict[str, Any]]:
    return parse_kernel_log(text, uptime).codes


@parametrized(("line", "gpu", "code", "time"))
def test_forms_of_an_xid(line: str, gpu: str, code: int, time: str | None) -> None:
    log = f"[    0.0] Linux version\n{line}\n[ 5.0] eth0: link up\n"
    assert codes(log) == [
        {
            "kind": "xid",
            "device": gpu,
            "code": code,
            "count": 1,
            "time": time,
            "line": line,
            "fatal": None,
            "action": None,
            "before_reset": False,
            "age_seconds": None,
        }
    ]


def test_a_log_without_codes_has_none() -> None:
    assert codes("[ 1.0] NVRM: loading NVIDIA UNIX Open Kernel Module\n") == []


@pytest.mark.parametrize(
    "line", ["NVRM: Xid (PCI:0001", "nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): garbled, Fatal"]
)
def test_a_code_of_another_form_is_refused(line: str) -> None:
    with pytest.raises(ParseError, match="kernel log: expected"):
        codes(f"[1.0] {line}\n")


def test_equal_lines_are_counted_and_the_last_one_tells_the_age() -> None:
    line = "[ {}] NVRM: Xid (PCI:0001:00:00): 69, x\n"
    log = line.format("10.0") + line.format("20.5") + line.format("30.0").replace("0001", "0002")
    result = [
        (row["device"], row["count"], row["time"], row["age_seconds"]) for row in codes(log, 3620.5)
    ]
    assert result == [(GPU, 2, "10.0", 3600.0), ("0002:00:00.0", 1, "30.0", 3590.5)]


def test_codes_that_others_recorded() -> None:
    result = [
        (row["device"], row["code"], row["fatal"], row["action"])
        for row in of_file("xid_145_154_real.txt").codes
    ]
    assert result == [
        ("0018:01:00.0", 145, False, None),
        ("0000:ed:00.0", 45, None, None),
        ("0008:01:00.0", 154, None, "GPU Reset Required"),
        ("0000:02:00.0", 154, None, "Node Reboot Required"),
    ]


def test_an_sxid_is_counted_once_though_it_has_three_lines() -> None:
    result = [
        (row["kind"], row["device"], row["code"], row["count"], row["fatal"])
        for row in of_file("sxids.txt").codes
    ]
    assert result == [
        ("sxid", "0000:04:00.0", 22013, 1, False),
        ("sxid", "0000:00:00.0", 20034, 1, True),
        ("sxid", "0000:84:00.0", 20009, 1, False),
        ("sxid", "0000:05:00.0", 99001, 1, True),
        ("sxid", "0000:05:00.0", 99002, 1, False),
    ]


RECOVERY = "NVRM: Xid (PCI:0001:00:00): 154, GPU recovery action changed from {} to {}\n"
RESET = "0x1 (GPU Reset Required)"
XID = "NVRM: Xid (PCI:000{}:00:00): 119, x\n"
LOADING = "nvidia-nvlink: Nvlink Core is being initialized, major device number 511\n"


@pytest.mark.parametrize(
    ("log", "rows"),
    [
        # A reset of one GPU says nothing of another.
        (
            XID.format(1) + XID.format(2) + RECOVERY.format(RESET, "0x0 (None)"),
            [("0002:00:00.0", 119, 1, False), (GPU, 119, 1, True)],
        ),
        (
            XID.format(1) + RECOVERY.format(RESET, "0x0 (None)") + XID.format(1),
            [(GPU, 119, 1, True), (GPU, 119, 1, False)],
        ),
        # The driver was loaded once more.
        (XID.format(1) + XID.format(1) + LOADING, [(GPU, 119, 2, True)]),
        (LOADING + XID.format(1), [(GPU, 119, 1, False)]),
        (XID.format(1) + LOADING + XID.format(1) + LOADING, [(GPU, 119, 2, True)]),
        # The driver's last word counts.
        (
            RECOVERY.format("0x0 (None)", RESET)
            + RECOVERY.format(RESET, "0x2 (Node Reboot Required)"),
            [(GPU, 154, 1, False)],
        ),
        (RECOVERY.format("0x0 (None)", RESET) + RECOVERY.format(RESET, "0x0 (None)"), []),
    ],
)
def test_codes_before_a_reset_are_marked(log: str, rows: list[tuple[Any, ...]]) -> None:
    assert [
        (row["device"], row["code"], row["count"], row["before_reset"]) for row in codes(log)
    ] == rows


def test_the_gpu_that_others_recorded_without_driver_is_named() -> None:
    [row] = of_file("probe_failed_real.txt").failures
    assert row["gpu"] == "000a:00:00.0"
    assert row["reason"] == (
        "the NVIDIA 580.126.09 driver release does not recognise it (where it runs the node's"
        " other GPUs, this GPU is at fault)"
    )


def test_each_form_of_a_failure_names_gpu_and_reason() -> None:
    bus = "it has fallen off the bus and does not answer"
    assert {row["gpu"]: row["reason"] for row in of_file("forms.txt").failures} == {
        "0001:00:00.0": (
            "the open kernel modules do not support it: install the driver's proprietary ones"
        ),
        "0002:00:00.0": f"{bus}; the driver's probe of it failed with error -1",
        "0003:00:00.0": "the driver could not initialise it (RmInitAdapter 0x24:0x72:1568)",
        "0004:00:00.0": "its memory region BAR1 has no address (0M @ 0x0)",
        "0005:00:00.0": "the driver's probe of it failed with error -1",
        "0006:00:00.0": bus,
    }


@parametrized(("line", "reason"))
def test_a_failure_of_no_named_gpu_is_a_failure(line: str, reason: str) -> None:
    assert [(row["gpu"], row["reason"]) for row in parse_kernel_log(line).failures] == [
        (None, reason)
    ]


def test_an_xid_79_has_its_failure_beside_it() -> None:
    log = of_file("fallen_off_the_bus.txt")
    assert [(row["device"], row["code"]) for row in log.codes] == [("0000:91:00.0", 79)]
    assert [row["gpu"] for row in log.failures] == ["0000:91:00.0"]


@given(
    st.lists(
        st.sampled_from(
            "".join(
                (DATA / name).read_text(encoding="utf-8")
                for name in ("forms.txt", "sxids.txt", "xid_145_154_real.txt")
            ).splitlines()
        ),
        max_size=12,
    ),
    st.integers(0, 400),
)
def test_cut_logs_are_read_or_refused(lines: list[str], cut: int) -> None:
    text = "\n".join(lines)[:cut]
    broken = re.search(r"S?Xid \((?!PCI:[0-9a-f:.]+\): [0-9]+)|SXid \([^,]*$", text, re.MULTILINE)
    if broken:
        with pytest.raises(ParseError, match="kernel log: expected"):
            parse_kernel_log(text, 10.0)
        return
    log = parse_kernel_log(text, 10.0)
    assert sum(row["count"] for row in log.codes) <= len(lines)
    assert [row for row in log.failures if not row["reason"]] == []
