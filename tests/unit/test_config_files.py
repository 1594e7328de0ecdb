"""The module config_files: what it puts in place, what it leaves, and what it refuses."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import config_files
import pytest
from action import config_files as action
from helpers import answer_of, parametrized


class Put:
    """Runs the module; a failure is an answer with ``failed``."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys = capsys

    def __call__(self, *files: dict[str, Any], check: bool = False) -> dict[str, Any]:
        return answer_of(config_files, self.capsys, files=list(files), _ansible_check_mode=check)


@pytest.fixture
def put(capsys: pytest.CaptureFixture[str]) -> Put:
    return Put(capsys)


def everything(folder: Path) -> list[dict[str, Any]]:
    return [
        {"path": f"{folder}/etc/a.d/one.conf", "content": "one = \u00e9\n"},
        {"path": f"{folder}/bin/program", "content": "#!/bin/sh\n", "mode": "0755"},
        {"path": f"{folder}/data", "state": "directory", "mode": "0700"},
        {"path": f"{folder}/opt/stable", "state": "link", "target": "/nowhere/yet"},
        {"path": f"{folder}/gone", "state": "absent"},
    ]


def test_all_is_put_in_place_at_once_and_is_unchanged_the_second_time(
    put: Put, tmp_path: Path
) -> None:
    (tmp_path / "gone").write_text("old")
    umask = os.umask(0o027)
    try:
        first = put(*everything(tmp_path))
    finally:
        # It is given back as it was found: what runs after must not write for root alone.
        assert os.umask(umask) == 0o027
    assert first["changed"] is True
    assert first["paths_changed"] == [entry["path"] for entry in everything(tmp_path)]
    assert (tmp_path / "etc/a.d/one.conf").read_bytes() == "one = \u00e9\n".encode()
    modes = {name: (tmp_path / name).stat().st_mode & 0o7777 for name in ("etc/a.d", "data")}
    assert modes == {"etc/a.d": 0o755, "data": 0o700}
    assert (tmp_path / "etc/a.d/one.conf").stat().st_mode & 0o7777 == 0o644
    assert (tmp_path / "bin/program").stat().st_mode & 0o7777 == 0o755
    assert (tmp_path / "opt/stable").readlink() == Path("/nowhere/yet")
    assert not (tmp_path / "gone").exists()
    second = put(*everything(tmp_path))
    assert (second["changed"], second["paths_changed"], second["diff"]) == (False, [], [])


def test_a_link_in_place_of_a_file_is_replaced_and_what_it_led_to_stays(
    put: Put, tmp_path: Path
) -> None:
    (tmp_path / "site.conf").write_text("the site's\n")
    link = tmp_path / "a.conf"
    link.symlink_to(tmp_path / "site.conf")
    assert put({"path": str(link), "content": "ours\n"})["changed"] is True
    assert not link.is_symlink()
    assert (tmp_path / "site.conf").read_text() == "the site's\n"


def test_a_pipe_is_not_read_and_not_replaced(put: Put, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    answer = put({"path": str(tmp_path / "pipe"), "content": "x"})
    assert "is a device, pipe or socket where a file was to be" in answer["msg"]


def test_what_cannot_be_written_is_named_and_no_file_is_replaced(
    put: Put, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.conf").write_text("old\n")
    (tmp_path / "not-a-folder").write_text("")
    below = tmp_path / "not-a-folder" / "b.conf"
    answer = put(
        {"path": str(tmp_path / "a.conf"), "content": "new\n"}, {"path": str(below), "content": "x"}
    )
    assert answer["failed"] is True
    assert answer["msg"].startswith(f"{below}: ")
    assert "run again" in answer["msg"]
    assert (tmp_path / "a.conf").read_text() == "old\n"
    assert sorted(os.listdir(tmp_path)) == ["a.conf", "not-a-folder"]


def test_what_a_lost_power_left_aside_is_taken_away(put: Put, tmp_path: Path) -> None:
    (tmp_path / ".a.conf.trueup-new").write_text("half of the n")
    (tmp_path / ".a.conf.trueup-new").chmod(0o644)
    (tmp_path / ".b.conf.trueup-new").symlink_to(tmp_path / "elsewhere")
    for name in ("a.conf", "b.conf"):
        assert put({"path": str(tmp_path / name), "content": "new\n"})["changed"] is True
    assert sorted(os.listdir(tmp_path)) == ["a.conf", "b.conf"]
    assert (tmp_path / "a.conf").read_text() == "new\n"


def test_a_full_disk_replaces_nothing(
    put: Put, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.conf").write_text("old\n")

    def no_space(_number: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(config_files.os, "fsync", no_space)
    answer = put({"path": str(tmp_path / "a.conf"), "content": "new\n"})
    assert "No space left on device" in answer["msg"]
    assert os.listdir(tmp_path) == ["a.conf"]
    assert (tmp_path / "a.conf").read_text() == "old\n"


@parametrized(("changed", "booted", "reloads"))
def test_systemd_reads_a_changed_drop_in_at_once(
    put: Put,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    changed: str,
    booted: bool,
    reloads: int,
) -> None:
    """Azure's sku-customizations.service, started again, would run without it."""
    ran: list[tuple[list[str], dict[str, Any]]] = []
    monkeypatch.setattr(config_files, "_UNITS", f"{tmp_path}/units/")
    monkeypatch.setattr(config_files, "_BOOTED", str(tmp_path if booted else tmp_path / "no"))
    monkeypatch.setattr(
        config_files.AnsibleModule,
        "run_command",
        lambda _module, argv, **more: ran.append((argv, more)) or (0, "", ""),
    )
    drop_in = {"path": f"{tmp_path}/{changed}/a.service.d/trueup.conf", "content": "[Service]\n"}
    assert put(drop_in, check=True)["changed"] is True
    assert ran == []
    assert [put(drop_in)["changed"], put(drop_in)["changed"]] == [True, False]
    assert ran == [(["systemctl", "daemon-reload"], {"check_rc": True})] * reloads


def test_a_relative_path_and_a_file_without_content_are_refused(put: Put) -> None:
    assert "content" in put({"path": "/tmp/x"})["msg"]
    assert put({"path": "x.conf", "content": ""})["msg"] == "x.conf: not an absolute path."


def test_the_action_reads_the_files_that_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[Any] = []

    def execute(_: Any, module_args: Any, **_more: Any) -> dict[str, Any]:
        sent.extend(module_args["files"])
        return {"changed": True}

    monkeypatch.setattr(action.ActionModule, "_execute_module", execute)
    source = "roles/gpu_clocks/files/gpu_clocks.py"
    files = [{"path": "/a", "content": "#!python\n", "source": source}, {"path": "/b"}]
    task = SimpleNamespace(args={"files": files}, async_val=0, check_mode=False)
    connection = SimpleNamespace(_shell=SimpleNamespace(tmpdir="/nonexistent"))
    run = action.ActionModule(task, connection, None, None, None, None).run
    assert run(task_vars={}) == {"changed": True}
    text = (Path(__file__).parents[2] / source).read_text(encoding="utf-8")
    assert sent == [{"path": "/a", "content": "#!python\n" + text}, {"path": "/b"}]
