"""The physical host's name in Hyper-V's key-value pairs: read as written, nothing else believed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from trueup_node.node.physical_host import physical_host

REFUSED = "names a physical host that is no host name; it is not used"


def pair(key: str, value: str) -> bytes:
    """A record by the format of Linux tools/hv/hv_kvp_daemon.c: 512 and 2,048 bytes."""
    return key.encode().ljust(512, b"\0") + value.encode().ljust(2048, b"\0")


POOL = pair("HostName", "host-0123") + pair("HostingSystemOsMajor", "10")
QUALIFIED = pair("PhysicalHostNameFullyQualified", "host-0123.example")


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (POOL + pair("PhysicalHostName", "host-0123") + QUALIFIED, "host-0123.example"),
        (POOL + pair("PhysicalHostName", "host-0123"), "host-0123"),
        (POOL, None),
        (b"", None),
        (QUALIFIED[:-1], None),
        (b"\xff" * 2560, None),
        # Beyond the first 64 records nothing is read.
        (POOL * 40 + QUALIFIED, None),
    ],
)
def test_the_pool_is_read_as_its_daemon_writes_it(
    tmp_path: Path, content: bytes, expected: str | None
) -> None:
    path = tmp_path / "pool"
    path.write_bytes(content)
    assert physical_host(str(path)) == (expected, [])


@pytest.mark.parametrize("value", ["a b", "-x", "x" * 254, "host\nhost", "$(id)", "\u00e9"])
def test_what_is_no_host_name_is_not_used(tmp_path: Path, value: str) -> None:
    path = tmp_path / "pool"
    path.write_bytes(pair("PhysicalHostName", value))
    assert physical_host(str(path)) == (None, [f"{path} {REFUSED}"])


def test_what_is_no_plain_file_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pool")
    for name in ("pool", "missing", "."):
        assert physical_host(str(tmp_path / name)) == (None, [])
