"""Simulated transactions of apt and dnf are read, and what they may not do is refused by name."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trueup_node.errors import BadInput, ParseError
from trueup_node.node import transactions
from trueup_node.node.transactions import Entry, Request, Transaction

SIMULATED = Path(__file__).parents[1] / "data" / "packages" / "simulated"
PARSE = {"apt": transactions.parse_apt, "dnf": transactions.parse_dnf}
STACK = {"doca-ofed": "2.10.0-0.0.1", "ucx": "1.18.0-1.2501060"}
LONG = "mlnx-tools-replacement-with-a-very-long-package-name"
# By file: installed, upgraded, downgraded, removed.
EXPECTED: dict[str, tuple[Any, Any, Any, Any]] = {
    "apt_nothing": ({}, {}, {}, {}),
    "apt_installs": ({"fio": "3.33-3"}, {}, {}, {}),
    "apt_downgrades": ({}, {}, {"libtool-old": "1.0-1"}, {}),
    "apt_removes": (
        {"gromacs": "2022.5-2", "libopenmpi3": "4.1.4-3", "libucx0": "1.13.1-1"},
        {},
        {},
        STACK,
    ),
    "apt_replaces": ({"pinning-2": "2-1"}, {}, {}, {"pinning-1": "1-1"}),
    "dnf_nothing": ({}, {}, {}, {}),
    "dnf_installs": (
        {"fio": "3.35-1.el9", "libaio": "0.3.111-13.el9", "fio-engine-libaio": "3.35-1.el9"},
        {},
        {},
        {},
    ),
    "dnf_upgrades": (
        {"infiniband-diags": "2601.0.5-1.el9"},
        {"libibverbs": "2601.0.5-1.el9"},
        {},
        {},
    ),
    "dnf_downgrades": ({"needs-old": "1.0-1"}, {}, {"libtool-old": "1.0-1"}, {}),
    "dnf_replaces": (
        {LONG: "26.01-0.2601060.202601010000.el9"},
        {},
        {},
        {"mlnx-tools": "25.01-0.2501060"},
    ),
    "dnf_removes": ({"openmpi": "4.1.1-7.el9", "ucx-el": "1.15.0-2.el9"}, {}, {}, STACK),
}


def text_of(name: str) -> str:
    return (SIMULATED / f"{name}.txt").read_text(encoding="utf-8")


def parsed(name: str) -> Transaction:
    return PARSE[name[:3]](text_of(name))


@pytest.mark.parametrize("name", EXPECTED)
def test_a_recorded_simulation_is_read(name: str) -> None:
    assert tuple(parsed(name)) == EXPECTED[name]
    assert parsed(name).changes == any(EXPECTED[name])


def test_every_recorded_simulation_is_in_a_test() -> None:
    names = {path.stem for path in SIMULATED.glob("*.txt")}
    assert names == {*EXPECTED, "apt_many", "dnf_conflict"}


def read(manager: str, text: str) -> Transaction | None:
    """The transaction; None where it is refused with a reason."""
    try:
        return PARSE[manager](text)
    except ParseError as error:
        return None if str(error) else Transaction({"no reason": ""}, {}, {}, {})


@pytest.mark.parametrize("name", sorted({*EXPECTED, "apt_many"} - {"apt_nothing", "dnf_nothing"}))
def test_a_cut_simulation_is_no_transaction(name: str) -> None:
    lines = text_of(name).splitlines(keepends=True)
    cuts = [read(name[:3], "".join(lines[:end])) for end in range(len(lines))]
    # Where only versions are missing (those of some removed packages), the names are the same.
    names = {tuple(map(frozenset, cut)) for cut in cuts if cut is not None}
    assert names <= {tuple(map(frozenset, parsed(name)))}
    assert cuts.count(None) >= 5


@pytest.mark.parametrize("manager", PARSE)
@pytest.mark.parametrize(
    "text", ["", "Reading package lists...\n", "\x00\xff", "Error: \n Problem"]
)
def test_what_is_no_simulation_is_refused(manager: str, text: str) -> None:
    with pytest.raises(ParseError):
        PARSE[manager](text)


@pytest.mark.parametrize("name", ["apt_removes", "dnf_removes"])
def test_a_list_that_lost_a_line_is_refused(name: str) -> None:
    text = "".join(
        line
        for line in text_of(name).splitlines(keepends=True)
        if not line.lstrip().startswith("ucx ")
    )
    with pytest.raises(ParseError, match=r"lists 1 packages as removed, and counts 2"):
        PARSE[name[:3]](text)


@given(st.text())
def test_no_text_is_a_transaction_by_chance(text: str) -> None:
    assert [read(manager, text) for manager in PARSE] == [None, None]


def test_dnf_breaks_a_row_that_is_too_long() -> None:
    text = (
        "Installing:\n"
        " a-name-that-is-longer-than-the-column\n"
        "                noarch        1.0-1         stand-in         5.4 k\n"
        "     replacing  old.noarch 0.9-1\n"
        "\nTransaction Summary\n====\nInstall  1 Package\n"
    )
    transaction = transactions.parse_dnf(text)
    assert transaction.installed == {"a-name-that-is-longer-than-the-column": "1.0-1"}
    assert transaction.removed == {"old": "0.9-1"}


# By name: what is asked for, the record, and what is lost.
APT = Request("apt", ["gromacs"])
DNF = Request("dnf", ["needs-old"])


@pytest.mark.parametrize(
    ("name", "request_", "record", "removed", "downgraded"),
    [
        ("apt_removes", APT, {}, STACK, {}),
        # Another role's package is not this one's to remove.
        ("apt_removes", APT, dict.fromkeys(STACK, Entry("1", "rdma")), STACK, {}),
        ("apt_removes", APT, dict.fromkeys(STACK, Entry("1", "gromacs")), {}, {}),
        ("apt_downgrades", Request("apt", ["libtool-old=1.0-1"]), {}, {}, {"libtool-old": "1.0-1"}),
        (
            "apt_downgrades",
            Request("apt", ["libtool-old=1.0-1"], downgrade_allowed=True),
            {},
            {},
            {},
        ),
        # The leave to go back is for the packages that are named.
        (
            "apt_downgrades",
            Request("apt", ["libtool"], downgrade_allowed=True),
            {},
            {},
            {"libtool-old": "1.0-1"},
        ),
        ("dnf_downgrades", DNF._replace(downgrade_allowed=True), {}, {}, {"libtool-old": "1.0-1"}),
        (
            "dnf_downgrades",
            Request("dnf", ["libtool-old-0:1.0-*"], downgrade_allowed=True),
            {},
            {},
            {},
        ),
        (
            "dnf_downgrades",
            Request("dnf", ["/var/cache/trueup-libtool-old-1.0-1.rpm"], downgrade_allowed=True),
            {},
            {},
            {},
        ),
        ("dnf_replaces", Request("dnf", [LONG]), {}, {"mlnx-tools": "25.01-0.2501060"}, {}),
        ("dnf_upgrades", Request("dnf", ["infiniband-diags"]), {}, {}, {}),
        ("apt_many", APT, {}, {}, {}),
    ],
)
def test_only_what_the_same_role_installed_may_go(
    name: str, request_: Request, record: Any, removed: Any, downgraded: Any
) -> None:
    assert transactions.lost(parsed(name), request_, record, "gromacs") == (removed, downgraded)


def test_a_refusal_names_packages_and_the_fix() -> None:
    assert transactions.refusal(APT, STACK, {}, "gromacs") == (
        "To install gromacs, apt would remove doca-ofed (2.10.0-0.0.1), ucx (1.18.0-1.2501060),"
        " which the role gromacs did not install: nothing was changed. Where the node can do"
        " without, run `apt-get remove doca-ofed ucx` there by hand, and then run again."
    )
    text = transactions.refusal(DNF, {"a": "1"}, {"b": "1"}, "")
    assert "dnf would remove a (1) and downgrade b (1), which trueup did not install" in text
    assert "`dnf remove a` and `dnf downgrade b`" in text


def test_no_command_removes_or_downgrades_unseen() -> None:
    plain = parsed("apt_installs")
    argv = transactions.installation(Request("apt", ["fio"]), plain)
    assert {"--no-remove", "APT::Get::AutomaticRemove=false"} <= set(argv)
    assert "--allow-downgrades" not in argv
    argv = transactions.installation(APT, parsed("apt_removes"))
    assert ("--no-remove" in argv, "--allow-downgrades" in argv) == (False, False)
    for argv in (
        transactions.simulation(DNF),
        transactions.installation(DNF, parsed("dnf_downgrades")),
    ):
        assert "--setopt=clean_requirements_on_remove=False" in argv
        assert "--setopt=installonly_limit=0" in argv
        assert "--allowerasing" not in argv


def test_the_record_follows_the_transactions() -> None:
    record = transactions.recorded({}, parsed("dnf_downgrades"), "a")
    assert record == {"needs-old": Entry("1.0-1", "a")}
    more = Transaction({"new": "2"}, {"needs-old": "1.1-1"}, {}, {})
    record = transactions.recorded(record, more, "b")
    assert record == {"needs-old": Entry("1.1-1", "a"), "new": Entry("2", "b")}
    gone = Transaction({}, {}, {}, {"new": "2"})
    assert transactions.recorded(record, gone, "b") == {"needs-old": Entry("1.1-1", "a")}
    assert transactions.still_there(record, {"new": "2"}) == {"new": Entry("2", "b")}


def test_the_record_is_kept_for_its_user_alone(tmp_path: Path) -> None:
    path = tmp_path / "packages" / "installed.json"
    assert transactions.read_record(str(path)) == {}
    record = {"fio": Entry("3.33-3", "fio")}
    transactions.write_record(str(path), record)
    assert transactions.read_record(str(path)) == record
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert [one.name for one in path.parent.iterdir()] == ["installed.json"]


WHOLE = {"format": transactions.FORMAT, "packages": {"fio": {"version": "1", "role": "fio"}}}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "[" * 100_000,
        json.dumps({**WHOLE, "format": "trueup.packages/9"}),
        json.dumps({**WHOLE, "packages": ["fio"]}),
        json.dumps({**WHOLE, "packages": {"fio": {"version": 1, "role": "fio"}}}),
        json.dumps({**WHOLE, "packages": {"fio": {"version": "1"}}}),
        json.dumps(WHOLE)[:-3],
        " " * (5 << 20),
    ],
)
def test_what_is_no_record_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "installed.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(BadInput, match="is no record"):
        transactions.read_record(str(path))


def test_a_record_that_others_may_write_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "installed.json"
    path.write_text(json.dumps(WHOLE), encoding="utf-8")
    path.chmod(0o646)
    with pytest.raises(BadInput, match="others than its user may write it"):
        transactions.read_record(str(path))
    path.chmod(0o600)
    link = tmp_path / "link.json"
    link.symlink_to(path)
    with pytest.raises(BadInput, match="is no record"):
        transactions.read_record(str(link))
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(BadInput, match="is no record"):
        transactions.read_record(str(tmp_path / "pipe"))
