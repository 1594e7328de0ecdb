"""Which system packages the machine needs that trueup is started from (playbooks/lab.yml)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# Each set includes those before it.
_SETS = ("run", "lab", "test")
# dpkg-query prints a line for a package that it knows: "NAME ii " when installed. A qualifier of
# the architecture (libc6-dev:amd64) is not part of ${Package}.
_QUERY = ("dpkg-query", "--show", "--showformat=${Package} ${db:Status-Abbrev}\\n")


def default_set(lab_nodes: Sequence[str]) -> str:
    """The set of an inventory with these nodes of the lab."""
    return "lab" if lab_nodes else "run"


def wanted(
    facts: Mapping[str, Any],
    by_set: Mapping[str, Sequence[str]],
    not_offered: Mapping[str, Mapping[str, str]],
    chosen: str,
) -> dict[str, Any]:
    """The packages of a set that the machine's release offers.

    Args:
        facts: Ansible's facts, of distribution.
        by_set: the packages that each set adds.
        not_offered: by release ("Debian-12", "Ubuntu-24.04"), package to the reason.
        chosen: the set.

    Returns:
        ``apt``: whether the system has it; ``wanted``: packages by name; ``left_out``: a sentence
        for each package that the release does not offer; ``query``: the command that asks which of
        those wanted are installed; ``distribution``.
    """
    name = str(facts["distribution"])
    fact_name = "distribution_version" if name == "Ubuntu" else "distribution_major_version"
    release = f"{name}-{facts[fact_name]}"
    lacking = not_offered.get(release, {})
    of_set = [
        package for set_name in _SETS[: _SETS.index(chosen) + 1] for package in by_set[set_name]
    ]
    packages_wanted = sorted(package for package in of_set if package not in lacking)
    return {
        "apt": facts["os_family"] == "Debian",
        "distribution": name,
        "wanted": packages_wanted,
        "left_out": [
            f"{package} is skipped on {release}: {reason}."
            for package, reason in lacking.items()
            if package in of_set
        ],
        "query": [*_QUERY, *packages_wanted],
    }


def packages(
    lab: Mapping[str, Any], query_lines: Sequence[str], rights: Mapping[str, bool], check_mode: bool
) -> dict[str, Any]:
    """The missing packages, and the action for them.

    Args:
        lab: the result of ``wanted``.
        query_lines: the output of its query.
        rights: ``root``: the user is root; ``sudo``: sudo asks no password.
        check_mode: nothing is installed.

    Returns:
        ``missing``; ``install``: whether they are installed now; ``report``: sentences.
    """
    root, sudo = rights["root"], rights["sudo"]
    installed = {line.split()[0] for line in query_lines if re.match(r"\S+ .i", line)}
    missing = [package for package in lab["wanted"] if package not in installed]
    report = list(lab["left_out"])
    if not missing:
        report.append(f"All {len(lab['wanted'])} system packages are installed.")
    elif root or sudo:
        doing = "Would install" if check_mode else "Installing"
        through = "" if root else ", through sudo"
        report.append(f"{doing} with apt{through}: {', '.join(missing)}.")
    else:
        report.append(
            "Not installed, because that needs root or sudo without a password:"
            f" {', '.join(missing)}. What needs them is skipped, by name. To install them:"
            f" sudo apt-get install --no-install-recommends {' '.join(missing)}"
        )
    install = bool(missing) and (root or sudo) and not check_mode
    return {"missing": missing, "install": install, "report": report}
