"""The module vendor_repository: keys by fingerprint, and what it refuses early."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import vendor_repository
from ansible.module_utils import basic
from helpers import answer_of

if TYPE_CHECKING:
    from collections.abc import Callable

FINGERPRINT = "B1FE3141F5F1EB72B99C1588F62F0914C542FBFF"
OTHER = "A" * 40
PINS = [{"name": "nvidia-fabricmanager", "version": "580.126.16-*"}]


class Ran:
    """Runs the module with a key file, folders of its own, and replaced tools."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
    ) -> None:
        self.monkeypatch, self.capsys, self.folder = monkeypatch, capsys, tmp_path
        self.calls: list[list[str]] = []
        # Of a program whose answer changes.
        self.asked: dict[str, Callable[[], tuple[int, str, str]]] = {}
        self.answers: dict[str, tuple[int, str, str]] = {
            "dpkg-query": (0, "", ""),
            "apt-mark": (0, "", ""),
            "dpkg": (1, "", ""),
            "gpg": (0, f"pub:-:1:1:X\nfpr:::::::::{FINGERPRINT}:\n", ""),
        }
        (tmp_path / "key.asc").write_text("a key\n")
        keys = {"apt": str(tmp_path / "keyrings")}
        monkeypatch.setattr(vendor_repository, "KEY_FOLDERS", keys)
        monkeypatch.setattr(
            vendor_repository,
            "SOURCES",
            {"apt": str(tmp_path / "sources" / "trueup-{name}.sources")},
        )

    def __call__(self, **parameters: Any) -> dict[str, Any]:
        def run_command(_self: Any, argv: list[str], **_options: Any) -> tuple[int, str, str]:
            self.calls.append(argv)
            return self.asked.get(argv[0], lambda: self.answers[argv[0]])()

        def get_bin_path(_self: Any, name: str, **_options: Any) -> str | None:
            return None if name == "timeout" else name

        self.monkeypatch.setattr(basic.AnsibleModule, "run_command", run_command)
        self.monkeypatch.setattr(basic.AnsibleModule, "get_bin_path", get_bin_path)
        given = {"package_manager": "apt", "repository": self.cuda(), "pins": PINS, **parameters}
        return answer_of(vendor_repository, self.capsys, **given)

    def cuda(self, key_fingerprint: str = FINGERPRINT) -> dict[str, str]:
        """The repository, with the key that is in the folder."""
        key_url = (self.folder / "key.asc").as_uri()
        url = "https://mirror.example/cuda/"
        return {"name": "cuda", "url": url, "key_url": key_url, "key_fingerprint": key_fingerprint}

    def installed(self, version: str, *, held: bool = False) -> None:
        """Let dpkg have the package at ``version``."""
        self.answers["dpkg-query"] = (0, f"nvidia-fabricmanager installed {version}\n", "")
        self.answers["apt-mark"] = (0, "nvidia-fabricmanager\n" if held else "", "")


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Ran:
    return Ran(monkeypatch, capsys, tmp_path)


def test_a_fresh_node(ran: Ran) -> None:
    answer = ran()
    assert answer["changed"] is True
    assert answer["wrong"] == PINS
    assert answer["unheld"] == ["nvidia-fabricmanager"]
    assert (answer["installed"], answer["transactions"]) == (
        {},
        [["nvidia-fabricmanager=580.126.16-*"]],
    )
    assert answer["hold"] == [["apt-mark", "hold", "nvidia-fabricmanager"]]
    assert answer["offers"] == ["apt-cache", "madison", "nvidia-fabricmanager"]
    assert answer["source"] == str(ran.folder / "sources" / "trueup-cuda.sources")
    assert (ran.folder / "keyrings" / "trueup-cuda.asc").read_text() == "a key\n"
    source = Path(answer["source"])
    assert "URIs: https://mirror.example/cuda/\n" in source.read_text()
    assert source.stat().st_mode & 0o777 == 0o644


def test_lists_that_power_cut_are_removed(ran: Ran, monkeypatch: pytest.MonkeyPatch) -> None:
    lists = ran.folder / "lists"
    lists.mkdir()
    monkeypatch.setattr(vendor_repository, "APT_LISTS", str(lists))
    cut, lock = lists / "mirror_dists_x_Release", lists / "lock"
    lock.touch()
    ran.installed("580.126.16-1ubuntu1", held=True)
    whole = ran.answers["apt-mark"]
    said = (100, "", f"E: Splitting of clearsigned file {cut} failed")

    def holds() -> tuple[int, str, str]:
        return said if cut.exists() else whole

    ran.asked["apt-mark"] = holds
    cut.touch()
    assert ran(_ansible_check_mode=True)["msg"].startswith(
        "Held packages are not known: apt-mark failed with status 100"
    )
    assert cut.exists()
    answer = ran()
    assert (answer["wrong"], answer["unheld"], answer["hold"]) == ([], [], [])
    assert [path.name for path in lists.iterdir()] == ["lock"]
    ran.asked["apt-mark"] = lambda: said
    assert ran()["msg"].startswith("Held packages are not known: apt-mark failed with status 100")


def test_a_second_run_needs_no_network_and_changes_nothing(ran: Ran) -> None:
    ran()
    (ran.folder / "key.asc").unlink()
    ran.installed("580.126.16-1ubuntu1", held=True)
    answer = ran()
    assert (answer["changed"], answer["wrong"], answer["unheld"]) == (False, [], [])


def test_check_mode_writes_nothing_but_says_the_same(ran: Ran) -> None:
    answer = ran(_ansible_check_mode=True)
    assert (answer["changed"], answer["wrong"]) == (True, PINS)
    assert sorted(path.name for path in ran.folder.iterdir()) == ["key.asc"]


def test_a_key_with_another_fingerprint_changes_nothing(ran: Ran) -> None:
    ran.answers["gpg"] = (0, f"pub:-:1:1:X\nfpr:::::::::{OTHER}:\n", "")
    answer = ran()
    assert answer["failed"] is True
    assert f"found {OTHER}, expected {FINGERPRINT}. Nothing was changed." in answer["msg"]
    assert sorted(path.name for path in ran.folder.iterdir()) == ["key.asc"]


def test_a_file_that_holds_a_second_key_is_refused(ran: Ran) -> None:
    both = f"pub:-:1:1:X\nfpr:::::::::{FINGERPRINT}:\npub:-:1:1:Y\nfpr:::::::::{OTHER}:\n"
    ran.answers["gpg"] = (0, both, "")
    assert f"found {FINGERPRINT}, {OTHER}" in ran()["msg"]


def test_a_key_that_cannot_be_downloaded(ran: Ran) -> None:
    (ran.folder / "key.asc").unlink()
    answer = ran()
    assert answer["failed"] is True
    assert "could not be downloaded from file://" in answer["msg"]
    assert "point key_url at a mirror" in answer["msg"]


def test_a_held_package_is_refused_with_the_command_that_releases_it(ran: Ran) -> None:
    ran.installed("580.173.02-1", held=True)
    answer = ran()
    assert answer["failed"] is True
    assert "held at 580.173.02-1 and 580.126.16-* is pinned" in answer["msg"]
    assert "`apt-mark unhold nvidia-fabricmanager`" in answer["msg"]
    assert not (ran.folder / "sources").exists()


def test_a_newer_version_is_refused(ran: Ran) -> None:
    ran.installed("580.173.02-1ubuntu1")
    ran.answers["dpkg"] = (0, "", "")
    answer = ran()
    assert "installed at 580.173.02-1ubuntu1, which is newer than the pinned" in answer["msg"]
    assert "vendor_packages_downgrade_allowed" in answer["msg"]
    # Compared to the same depth, so that a release says nothing.
    assert ["dpkg", "--compare-versions", "580.173.02", "gt", "580.126.16"] in ran.calls


def test_no_repository_is_what_the_node_has(ran: Ran) -> None:
    answer = ran(repository={})
    assert (answer["changed"], answer["source"], answer["wrong"]) == (False, None, PINS)


def test_a_short_fingerprint_is_refused(ran: Ran) -> None:
    answer = ran(repository=ran.cuda("3bf863cc"))
    assert "The repository cuda: the fingerprint '3bf863cc' is not 40" in answer["msg"]


@pytest.mark.parametrize("name", ["cuda.list", "../sources.list"])
def test_a_repository_that_the_node_names_already_is_used_as_it_is(ran: Ran, name: str) -> None:
    (ran.folder / "sources").mkdir()
    theirs = ran.folder / "sources" / name
    theirs.write_text("deb [signed-by=/usr/share/keyrings/cuda.gpg] https://mirror.example/cuda /")
    answer = ran()
    assert (answer["changed"], answer["wrong"]) == (False, PINS)
    assert Path(answer["source"]).samefile(theirs)
    assert not (ran.folder / "sources" / "trueup-cuda.sources").exists()


def test_a_repository_that_is_named_with_another_key_is_refused(ran: Ran) -> None:
    (ran.folder / "sources").mkdir()
    (ran.folder / "sources" / "cuda.list").write_text("deb https://mirror.example/cuda/ /\n")
    answer = ran()
    assert answer["failed"] is True
    assert "sources/cuda.list already, signed by any key that apt trusts" in answer["msg"]
    assert not (ran.folder / "sources" / "trueup-cuda.sources").exists()
