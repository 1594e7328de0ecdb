"""The kernel's table of mounts, and systemd's names for their units."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
import storage_facts
from helpers import parametrized
from hypothesis import given
from hypothesis import strategies as st
from trueup_node.errors import BadInput
from trueup_node.node import mounts

# proc(5)'s fields: id, parent, device, root, point, options, tags - type source options. The first
# three are of a Debian 12; the share is the same table with an NFS mount of the lab's VM.
TABLE = """\
22 27 0:20 / /proc rw,nosuid,nodev,noexec,relatime shared:12 - proc proc rw
27 1 254:0 / / rw,noatime shared:1 - ext4 /dev/vda rw,errors=remount-ro
60 27 0:45 / /mnt/a\\040b rw shared:40 - tmpfs tmpfs rw,size=1024k
61 27 0:46 / /mnt/shared rw,noatime shared:41 - autofs systemd-1 rw,fd=60
62 61 0:47 / /mnt/shared rw,noatime shared:42 - nfs4 127.0.0.1:/srv/shared rw,vers=4.2,\
rsize=262144,wsize=262144,namlen=255,hard,proto=tcp,nconnect=4,clientaddr=127.0.0.1,addr=127.0.0.1
"""


def test_options_are_those_of_mount_and_file_system_without_the_nodes_addresses() -> None:
    share = mounts.read_mounts(TABLE)[-1]
    assert share.values["nconnect"] == "4"
    assert share.values["hard"] == ""
    assert share.source == "127.0.0.1:/srv/shared"
    assert share.shared_options == (
        "rw,noatime,vers=4.2,rsize=262144,wsize=262144,namlen=255,hard,proto=tcp,nconnect=4"
    )


@pytest.mark.parametrize("line", ["", "27 1 254:0 / / rw", "27 1 254:0 / / rw - ext4 /dev/vda"])
def test_another_table_is_refused(line: str) -> None:
    with pytest.raises(BadInput, match="mountinfo line 6 is not understood"):
        mounts.read_mounts(TABLE + line + "\n")


def test_a_table_without_the_root_is_refused() -> None:
    with pytest.raises(BadInput, match="/srv lies on no mount"):
        mounts.mount_of("/srv", [])


@parametrized(("path", "unit"))
def test_a_units_name(path: str, unit: str) -> None:
    assert mounts.unit_name(path) == unit


@pytest.mark.parametrize("path", ["mnt", "", "/a/../b", "/./a"])
def test_a_path_without_a_unit_is_refused(path: str) -> None:
    with pytest.raises(BadInput, match="is not an absolute path"):
        mounts.unit_name(path)


@pytest.mark.skipif(shutil.which("systemd-escape") is None, reason="no systemd-escape here")
def test_systemd_itself_gives_the_same_names() -> None:
    @given(
        parts=st.lists(
            st.lists(st.sampled_from("abZ09:_.-@+%~ \\\u00e4"), min_size=1, max_size=6).map(
                "".join
            ),
            min_size=1,
            max_size=4,
        )
    )
    def same(parts: list[str]) -> None:
        if {".", ".."} & set(parts):
            return
        paths.append("/" + "/".join(parts))

    paths: list[str] = []
    same()
    done = subprocess.run(
        ["systemd-escape", "--path", "--suffix=mount", *paths],
        check=True,
        capture_output=True,
        text=True,
    )
    assert [mounts.unit_name(path) for path in paths] == done.stdout.rstrip("\n").split(" ")


def test_one_that_does_not_answer_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "stat"
    program.write_text("#!/bin/sh\nexec sleep 600\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with pytest.raises(BadInput, match=r"/mnt/x has not answered in 0\.3 s: its server is gone"):
        mounts.require_answer("/mnt/x", 0.3)


def test_what_lies_below_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").touch()
    kinds = {name: storage_facts.below(str(tmp_path / name)) for name in ("empty", "file", "none")}
    assert kinds == {"empty": ("folder", True), "file": ("other", None), "none": ("missing", None)}
    assert storage_facts.below(str(tmp_path)) == ("folder", False)
    # A path that does not answer is not called something that may be removed.
    (tmp_path / "find").write_text("#!/bin/sh\nexec sleep 600\n")
    (tmp_path / "find").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(storage_facts, "LOOK_SECONDS", 0.3)
    assert storage_facts.below(str(tmp_path)) == ("silent", None)


def test_an_answer_that_is_an_error_is_none(tmp_path: Path) -> None:
    """As stat's of an export that its server has made anew (ESTALE)."""
    assert storage_facts.answers(str(tmp_path), 300) is True
    assert storage_facts.answers(str(tmp_path / "gone"), 10) is False


def test_units_of_the_role_and_no_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage_facts, "UNITS", str(tmp_path))
    assert storage_facts.units("/shared") == {}
    text = "# Written by trueup (role shared_storage).\n[Automount]\nWhere=/shared\n"
    (tmp_path / "shared.automount").write_text(text)
    (tmp_path / "shared.mount").write_text("[Mount]\n")
    assert storage_facts.units("/shared") == {"shared.automount": text}
