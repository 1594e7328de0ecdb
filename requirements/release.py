"""Prepare a release: the version and the changelog, for a commit and a tag (`make dist-release`).

python requirements/release.py 0.2.0 2026-12-01
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_VERSION = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)")
_UNRELEASED = "## Unreleased\n"
# The collection's archive in the definition of the execution environment.
_COLLECTION = re.compile(r"(azure_hpc-)[\d.]+(\.tar\.gz)")
_LINE = re.compile(r'^version = "([^"]+)"$', re.MULTILINE)


def numbers(version: str) -> tuple[int, ...]:
    """The three numbers of a version.

    Raises:
        ValueError: it is not MAJOR.MINOR.PATCH.
    """
    match = _VERSION.fullmatch(version)
    if match is None:
        raise ValueError(f"VERSION={version} is no version such as 0.2.0")
    return tuple(map(int, match.groups()))


def with_version(text: str, version: str) -> str:
    """The text of pyproject.toml with another version.

    Raises:
        ValueError: the version is not above the present one.
    """
    match = _LINE.search(text)
    if match is None:
        raise ValueError("pyproject.toml states no version")
    if numbers(version) <= numbers(match[1]):
        raise ValueError(f"VERSION={version} is not above {match[1]}, the present version")
    return text[: match.start(1)] + version + text[match.end(1) :]


def cut(changelog: str, version: str, date: str) -> str:
    """The changelog with its unreleased changes below the version.

    Raises:
        ValueError: there is no unreleased change.
    """
    before, heading, after = changelog.partition(_UNRELEASED)
    changes, _, _ = after.partition("\n## ")
    if not heading or not changes.strip():
        raise ValueError("CHANGELOG.md has no change below Unreleased")
    return f"{before}{_UNRELEASED}\n## {version} ({date})\n{after}"


def main(version: str, date: str) -> None:
    """Write the version and the changelog, or nothing."""
    project, changes = ROOT / "pyproject.toml", ROOT / "CHANGELOG.md"
    image = ROOT / "collection" / "execution-environment.yml"
    released = with_version(project.read_text("utf-8"), version)
    changelog = cut(changes.read_text("utf-8"), version, date)
    with_collection = _COLLECTION.sub(rf"\g<1>{version}\g<2>", image.read_text("utf-8"))
    project.write_text(released, "utf-8")
    changes.write_text(changelog, "utf-8")
    image.write_text(with_collection, "utf-8")


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except ValueError as error:
        sys.exit(str(error))
