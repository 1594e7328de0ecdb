"""XIDs, SXids and GPUs that did not start, in a kernel log."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from trueup_node.errors import ParseError
from trueup_node.node.kernel_log import parse_kernel_log

DATA = Path(__file__).parent.parent / "data" / "kernel_log"
GPU = "0001:00:00.0"


def of_file(name: str) -> Any:
    return parse_kernel_log((DATA / name).read_text(encoding="utf-8"))


def codes(text: str, uptime: float | None = None) -> list[dict[str, Any]]:
    return parse_kernel_log(text, uptime).codes


@pytest.mark.parametrize(
    "line", ["NVRM: Xid (PCI:0001", "nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): garbled, Fatal"]
)
def test_a_code_of_another_form_is_refused(line: str) -> None:
    with pytest.raises(ParseError, match="kernel log: expected"):
        codes(f"[1.0] {line}\n")


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
# Cut behind the comma: the code is whole.
@example(["nvidia-nvswitch3: SXid (PCI:0000:04:00.0): 22013, Data {0x0000002b}"], 49)
@example(["NVRM: Xid (PCI:0018:01:00): 145, RLW_RXPIPE Nonfatal XC0 i0 Link 13"], 9)
def test_cut_logs_are_read_or_refused(lines: list[str], cut: int) -> None:
    text = "\n".join(lines)[:cut]
    whole = r"(?! \(PCI:[0-9a-f:.]+\): [0-9]+)"
    broken = re.search(rf"NVRM: Xid{whole}|SXid{whole}(?= \()|SXid \([^,]*$", text, re.MULTILINE)
    if broken:
        with pytest.raises(ParseError, match="kernel log: expected"):
            parse_kernel_log(text, 10.0)
        return
    log = parse_kernel_log(text, 10.0)
    assert sum(row["count"] for row in log.codes) <= len(lines)
    assert [row for row in log.failures if not row["reason"]] == []
