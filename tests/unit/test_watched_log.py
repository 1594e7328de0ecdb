"""Lines of the kernel log that a health check warns of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from trueup_controller import known_faults
from trueup_node.errors import BadInput
from trueup_node.health import faults
from trueup_node.node import state, watched_log
from trueup_node.node.watched_log import Count

if TYPE_CHECKING:
    from pathlib import Path

# Synthetic, by the formats of the kernel's drivers. The node has been up for 200,000 s.
LOG = """\
[    1.500000] nvme nvme0: pci function 0000:01:00.0
[    2.100000] blk_update_request: I/O error, dev sr0, sector 0 op 0x0:(READ) flags 0x80700
[    2.200000] I/O error, dev fd0, sector 0 op 0x0:(READ) flags 0x0 phys_seg 1
[  900.000000] nvme nvme0: controller is down; will reset: CSTS=0xffffffff, PCI_STATUS=0xffff
[199000.100000] nvme nvme3: controller is down; will reset: CSTS=0xffffffff, PCI_STATUS=0xffff
[199000.200000] nvme nvme3: controller is down; will reset: CSTS=0xffffffff, PCI_STATUS=0xffff
[199500.000000] mlx5_core 0101:00:00.0: poll_health:800:(pid 0): device's health compromised - \
reached miss count
[199600.000000] Out of memory: Killed process 4242 (python3) total-vm:1kB
"""


class Module:
    """What ``tools.ask`` needs of an AnsibleModule; ``dmesg`` answers with the text."""

    def __init__(self, text: str, status: int = 0) -> None:
        self.text, self.status = text, status

    def get_bin_path(self, name: str, **_options: Any) -> str | None:
        return f"/usr/bin/{name}" if name == "dmesg" else None

    def run_command(self, argv: list[str], **_options: Any) -> tuple[int, str, str]:
        assert argv == ["/usr/bin/dmesg"]
        refused = "dmesg: read kernel buffer failed: Operation not permitted\n"
        return self.status, self.text, refused if self.status else ""


def look(tmp_path: Path, module: Module) -> watched_log.WatchedLog:
    (tmp_path / "uptime").write_text("200000.25 1.00\n")
    return watched_log.look(module, known_faults.watched(), str(tmp_path))


def test_lines_of_the_last_day_are_counted_by_fault_and_device(tmp_path: Path) -> None:
    assert look(tmp_path, Module(LOG)) == watched_log.WatchedLog(
        [
            Count("nic_firmware_dead", "0101:00:00.0", 1),
            Count("nvme_failed", "nvme3", 2),
            Count("oom_killed", "python3", 1),
        ]
    )


def test_a_healthy_log_has_the_count_zero_and_an_unreadable_one_has_none(tmp_path: Path) -> None:
    quiet = look(tmp_path, Module(LOG[:1]))
    assert quiet.counts == []
    assert [(row.name, row.value) for row in state.metrics({}, None, None, quiet.counts)] == [
        ("kernel_faults", 0)
    ]
    refused = look(tmp_path, Module("", 1))
    assert refused.counts is None
    assert "Operation not permitted" in refused.note
    assert state.metrics({}, None, None, refused.counts) == []


def test_every_watched_entry_has_a_meaning_and_a_fix_for_the_warning() -> None:
    document = known_faults.watched()
    judged = faults.of_document(
        {"xids": [], "sxids": [], "sources": {}, "fixes": {}, "watched": document}, "a catalog"
    )
    assert {"nvme_failed", "machine_check", "nic_firmware_dead"} <= judged.watched.keys()
    assert all(fault.meaning and fault.fix and fault.source for fault in judged.watched.values())
    assert all(faults.is_warned(faults.metric_of(name)) for name in judged.watched)
    assert not faults.is_warned("kernel_faults")


def test_a_damaged_entry_is_one_sentence() -> None:
    with pytest.raises(BadInput, match="a watched entry is wrong"):
        faults.of_document(
            {"xids": [], "sxids": [], "sources": {}, "fixes": {}, "watched": {"faults": [{}]}}, "c"
        )


def test_a_hung_process_and_a_silent_nfs_server_are_counted(tmp_path: Path) -> None:
    log = (
        "[199000.000000] INFO: task python3:1232 blocked for more than 120 seconds.\n"
        "[199100.000000] nfs: server 10.0.0.5 not responding, still trying\n"
    )
    assert look(tmp_path, Module(log)).counts == [
        Count("nfs_not_responding", "10.0.0.5", 1),
        Count("task_hung", None, 1),
    ]


# The lines of one kill in a control group, as Linux 5.15's mm/oom_kill.c prints them, and a kill
# of the whole node.
KILLS = """\
[199000.1] xhpl invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0
[199000.2] Tasks state (memory values in pages):
[199000.3] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=job_7,mems_allowed=0,\
oom_memcg=/system.slice/slurmstepd.scope/job_7,task=xhpl,pid=4242,uid=1000
[199000.4] Memory cgroup out of memory: Killed process 4242 (xhpl) total-vm:1024kB, anon-rss:1kB
[199000.5] oom_reaper: reaped process 4242 (xhpl), now anon-rss:0kB, file-rss:0kB, shmem-rss:0kB
[199100.1] Out of memory: Killed process 77 (python3) total-vm:1kB, anon-rss:1kB, UID:1000
[199200.1] Out of memory: Killed process 78 (python3) total-vm:1kB, anon-rss:1kB, UID:1000
"""


def test_processes_killed_for_memory_are_counted_once_by_name(tmp_path: Path) -> None:
    assert look(tmp_path, Module(KILLS)).counts == [
        Count("oom_killed", "python3", 2),
        Count("oom_killed", "xhpl", 1),
    ]
