"""Keys by fingerprint, and what is installed against what is pinned."""

from __future__ import annotations

import pytest
from helpers import parametrized
from trueup_node.errors import BadInput, ParseError
from trueup_node.node import packages

FINGERPRINT = "B1FE3141F5F1EB72B99C1588F62F0914C542FBFF"
# gpg 2.2.40 --with-colons --show-keys of a key made for tests, with a subkey.
LISTING = f"""\
pub:-:3072:1:F62F0914C542FBFF:1795268825:::-:::scSC::::::23::0:
fpr:::::::::{FINGERPRINT}:
uid:-::::1795268825::E49A::trueup tests <key@trueup.invalid>::::::::::0:
sub:-:3072:1:AAAAAAAAAAAAAAAA:1795268825::::::e::::::23:
fpr:::::::::{"A" * 40}:
"""


def test_a_keys_fingerprint_is_the_primary_keys() -> None:
    assert packages.key_fingerprints(LISTING) == [FINGERPRINT]


@pytest.mark.parametrize("text", ["", "gpg: no valid OpenPGP data found.\n", "uid:-::::1::E::x:"])
def test_a_file_without_a_key_is_refused(text: str) -> None:
    with pytest.raises(ParseError, match="no key"):
        packages.key_fingerprints(text)


def test_a_fingerprint_may_have_blanks_and_small_letters() -> None:
    spaced = "b1fe 3141 F5F1 EB72 B99C  1588 F62F 0914 C542 FBFF"
    assert packages.fingerprint_of(spaced) == FINGERPRINT


@pytest.mark.parametrize("text", ["", "C542FBFF", FINGERPRINT + "0", "Z" * 40])
def test_a_short_key_id_is_no_fingerprint(text: str) -> None:
    with pytest.raises(BadInput, match="40 hexadecimal digits"):
        packages.fingerprint_of(text)


def test_installed_packages_of_rpm() -> None:
    text = "nvidia-open installed 3:580.126.20-1.el9\npackage foo is not installed\n"
    assert packages.parse_rpm(text) == {"nvidia-open": "3:580.126.20-1.el9"}


def test_locks_of_the_packages_asked_for() -> None:
    text = (
        "\n# Added lock on Sat Nov 21 13:41:48 2026\nnvidia-fabricmanager-0:580.126.20-1.*\n"
        "other-0:1-1.*\n!nvidia-open-3:1-1.*\nkmod-nvidia-open-dkms-3:580.126.20-1.el9.*\n"
    )
    names = ["nvidia-fabricmanager", "nvidia-open", "kmod-nvidia-open-dkms"]
    assert packages.parse_versionlock(text, names) == {
        "nvidia-fabricmanager": ["0:580.126.20-1"],
        "kmod-nvidia-open-dkms": ["3:580.126.20-1.el9"],
    }


@pytest.mark.parametrize(
    ("installed", "pinned", "compared"),
    [
        ("1:4.6.0-1", "1:4.5.2-1", ("1:4.6.0-1", "1:4.5.2-1")),
        ("580.173.02-1ubuntu1", "580.126.16-*", ("580.173.02", "580.126.16")),
    ],
)
def test_versions_are_compared_to_the_same_depth(
    installed: str, pinned: str, compared: tuple[str, str]
) -> None:
    assert packages.compared_part(installed, pinned) == compared


def test_the_repository_as_dnf_reads_it() -> None:
    repository = {"name": "cuda", "url": "https://mirror.example/cuda/"}
    text = packages.source_text("dnf", repository, "/etc/pki/rpm-gpg/trueup-cuda.asc")
    lines = text.splitlines()
    assert lines[:3] == [
        "# Written by trueup (role vendor_packages).",
        "[trueup-cuda]",
        "name=cuda",
    ]
    assert {"gpgcheck=1", "skip_if_unavailable=0", "module_hotfixes=1"} <= set(lines)
    assert "gpgkey=file:///etc/pki/rpm-gpg/trueup-cuda.asc" in lines


URL = "https://example.invalid/cuda/ubuntu2404/x86_64/"


@parametrized(("text", "signer"))
def test_who_signs_a_repository_by_apts_sources(text: str, signer: str | None) -> None:
    assert packages.signer_of(text, URL) == signer


def test_the_commands_that_hold_packages() -> None:
    lock = ["dnf", "--quiet", "versionlock"]
    assert packages.hold_commands("apt", ["a"], ["a"]) == [["apt-mark", "hold", "a"]]
    assert packages.hold_commands("dnf", ["a", "b"], ["b"]) == [
        [*lock, "delete", "b"],
        [*lock, "add", "a", "b"],
    ]
    assert packages.hold_commands("dnf", ["a"], []) == [[*lock, "add", "a"]]
    assert packages.hold_commands("dnf", [], []) == []


def test_the_package_that_holds_others() -> None:
    plugin = ["python3-dnf-plugin-versionlock"]
    assert packages.hold_packages("dnf", ["a"], can_hold=False) == plugin
    assert packages.hold_packages("dnf", ["a"], can_hold=True) == []
    assert packages.hold_packages("dnf", [], can_hold=False) == []
    assert packages.hold_packages("apt", ["a"], can_hold=False) == []


def test_the_command_that_prints_what_is_offered() -> None:
    assert packages.offers_command("apt", ["a"]) == ["apt-cache", "madison", "a"]
    assert packages.offers_command("dnf", ["a"])[-2:] == [
        "--queryformat=%{name} | %{epoch}:%{version}-%{release}",
        "a",
    ]
