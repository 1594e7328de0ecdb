"""Which Python an environment is made with, and what a node must be given for it (role python).

In this order: one that is there and has what is needed; one of the system's packages that is there
without headers or venv; one that the system's repositories offer; a standalone build, which needs
no root. Nothing is installed where the first is found, or where a Python was named.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, Optional, Sequence

from ..errors import BadInput
from ..plan import Asked
from .packages import verified_only

# What is named where nobody has chosen: only such a Python is replaced by another.
DEFAULT = "python3"
_OF_PACKAGES = re.compile(r"/(usr/)?bin/python3(\.\d+)?")
_SHARED, _OWN = "/opt/trueup/python", "~/.local/share/trueup/python"
_SHA256_SHOWN = 12
_SITE = "python_standalone_"
# Prints what is wrong with the Python that it runs on: its version, or what it cannot load.
_CHECK = """\
import sys
found = "%d.%d" % sys.version_info[:2]
if found != sys.argv[1]:
    sys.exit("this is Python %s, not %s" % (found, sys.argv[1]))
import ctypes, ensurepip, ssl, venv, zlib
"""


@dataclass(frozen=True)
class Need:
    """What the pins of a benchmark need of Python: data beside them.

    Attributes:
        oldest, newest: as two numbers; no newest is any.
        headers: whether something is compiled against Python.h, when installed or when run.
        wants: who wants it: "that Devito needs".
    """

    oldest: List[int]
    newest: List[int]
    headers: bool
    wants: str

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Need:
        """From ``oldest``, ``newest`` (or none), ``headers`` and ``wants``.

        Raises:
            BadInput: a version is not two numbers in quotes.
        """
        oldest, newest = (numbers(data.get(name, "")) for name in ("oldest", "newest"))
        return cls(oldest, newest, headers=data["headers"], wants=data["wants"])

    def takes(self, version: Sequence[int]) -> bool:
        """Whether the pins are for a Python of this version."""
        shown = list(version[:2])
        return shown >= self.oldest and (not self.newest or shown <= self.newest)

    def __str__(self) -> str:
        if not self.newest:
            return f"{_text(self.oldest)} or newer"
        return " to ".join(dict.fromkeys(map(_text, (self.oldest, self.newest))))


@dataclass(frozen=True)
class Interpreter:
    """A Python that does, once what is to be installed is there.

    Attributes:
        path: where it is or will be.
        version: two numbers.
        packages: of the system, to be installed.
        archive: a standalone build to be unpacked: ``url``, ``sha256``, ``file``, where it is
            downloaded to, ``folder`` of it, and ``place``, its folder in the end.
    """

    path: str
    version: List[int]
    packages: List[str] = field(default_factory=list)
    archive: Mapping[str, str] = field(default_factory=dict)

    @property
    def to_install(self) -> Dict[str, Any]:
        """What role python is given; empty where all of it is there."""
        if not (self.packages or self.archive):
            return {}
        return {
            "packages": self.packages,
            "archive": dict(self.archive),
            "check": [self.path, "-c", _CHECK, _text(self.version)],
        }


def probe(asked: Asked, need: Need) -> Dict[str, Any]:
    """What preflight asks the node for, as arguments of program_facts."""
    named = asked.options["python"]
    more = []
    if named == DEFAULT:
        more = [f"python3.{minor}" for minor in _preferred(asked) if need.takes([3, minor])]
        more += [build.path for build in _standalone(asked, need)]
    return {"python": named, "pythons": more, "imports": ["venv", "ensurepip"]}


def interpreter(asked: Asked, need: Need) -> Optional[Interpreter]:
    """The Python for ``need`` on a node whose Pythons ``asked.found`` has; None where the node has
    none and can be given none."""
    named = asked.options["python"] != DEFAULT
    there = [one for one in (asked.found["python"], *asked.found.get("pythons", [])) if one]
    fit = [one for one in there if need.takes(one["version"])]
    for one in fit:
        if not lacks(one, need):
            return Interpreter(one["path"], list(one["version"][:2]))
    can = bool(asked.node.get("privilege")) and not verified_only(asked.node)
    manager = asked.node.get("package_manager") if can else None
    for one in fit:
        # Another one, of pyenv or conda, has no package that would complete it.
        if manager and _OF_PACKAGES.fullmatch(one["path"]):
            version = list(one["version"][:2])
            return Interpreter(one["path"], version, _completing(one, need, manager))
    if named:
        return None
    offered = _offered(asked, need) if manager else []
    for version in offered:
        packages = _packages(version, manager or "", needs_headers=need.headers)
        return Interpreter(f"/usr/bin/python{_text(version)}", version, packages)
    return next(iter(_standalone(asked, need)), None)


def lacks(python: Mapping[str, Any], need: Need) -> List[str]:
    """What a Python that is there is without: modules, and Python.h where it is needed."""
    return [*python["missing"], *(["Python.h"] if need.headers and not python["headers"] else [])]


def _completing(python: Mapping[str, Any], need: Need, manager: str) -> List[str]:
    """The packages that bring what a Python of packages lacks. Its own minor version names them; of
    Enterprise Linux's own python3 they have none."""
    missing, version = lacks(python, need), list(python["version"][:2])
    stem = f"python{_text(version)}"
    if manager == "dnf" and python["path"].endswith("/python3"):
        stem = DEFAULT
    wanted = [*(["venv"] if python["missing"] else []), *(["h"] if "Python.h" in missing else [])]
    return _of_stem(stem, manager, wanted)


def _packages(version: Sequence[int], manager: str, *, needs_headers: bool) -> List[str]:
    stem = f"python{_text(version)}"
    return [stem, *_of_stem(stem, manager, ["venv", *(["h"] if needs_headers else [])])]


def _of_stem(stem: str, manager: str, wanted: Sequence[str]) -> List[str]:
    """Of Debian and Ubuntu venv and headers are packages; Enterprise Linux has venv in its own, and
    pip's wheel for it in -pip-wheel, which that needs."""
    if manager == "apt":
        return [f"{stem}-{'dev' if one == 'h' else one}" for one in wanted]
    return [f"{stem}-devel" for one in wanted if one == "h"] or [stem]


def _offered(asked: Asked, need: Need) -> List[List[int]]:
    """The versions that the system's repositories have, the preferred one first."""
    offers = of_system(asked.catalog("python.yml")["systems"], asked.node)
    versions = [numbers(one) for one in offers or []]
    order = _preferred(asked)
    fit = [one for one in versions if need.takes(one)]
    return sorted(fit, key=lambda one: order.index(one[1]) if one[1] in order else len(order))


def of_system(rows: Mapping[str, Any], node: Mapping[str, Any]) -> Any:
    """The member of a node's system in a table of catalog/python.yml; None where it has none."""
    release = str(node.get("distribution_version") or "")
    found = rows.get(f"{node.get('distribution')}-{release}")
    if found is None and node.get("package_manager") == "dnf":
        return rows.get(f"el-{release.partition('.')[0]}")
    return found


def _standalone(asked: Asked, need: Need) -> List[Interpreter]:
    """The standalone builds for the node: the site's own alone where it names one."""
    own = asked.variables
    site = {name: str(own.get(f"{_SITE}{name}") or "") for name in ("url", "sha256", "version")}
    strange = [one for one in own if one.startswith(_SITE) and one[len(_SITE) :] not in site]
    if strange:
        raise BadInput(
            f"{', '.join(strange)}: role python has {', '.join(_SITE + n for n in site)}"
        )
    builds: Mapping[str, Mapping[str, str]]
    if any(site.values()):
        builds = {site["version"]: site}
    else:
        known = asked.catalog("python.yml")["standalone"]
        builds = known.get(asked.node.get("architecture"), {})
    folder = own.get("python_prefix") or (_SHARED if asked.node.get("privilege") else _OWN)
    fit = []
    for version, build in builds.items():
        _check(version, build)
        if need.takes(numbers(version)):
            place = f"{folder}/{version}-{build['sha256'][:_SHA256_SHOWN]}"
            folders = {"folder": f"{place}.partial", "place": place}
            archive = {**build, **folders, "file": f"{place}.partial/build.tar"}
            path = f"{place}/bin/python{version}"
            fit.append(Interpreter(path, numbers(version), archive=archive))
    return fit


def _check(version: str, build: Mapping[str, str]) -> None:
    """Raises:
    BadInput: a site's own build is not wholly named."""
    right = re.fullmatch("[0-9a-f]{64}", build["sha256"]) and build["url"]
    if not right or not re.fullmatch(r"3\.\d+", version):
        raise BadInput(
            f"python_standalone_url {build['url']!r}, python_standalone_sha256 {build['sha256']!r}"
            f" and python_standalone_version {version!r} belong together: set all three, the"
            " address of an archive, its 64 hexadecimal digits and a version such as '3.12'"
        )


def _preferred(asked: Asked) -> List[int]:
    preferred: List[int] = asked.catalog("python.yml")["preferred"]
    return preferred


def numbers(version: Any) -> List[int]:
    """None of an empty text. A number is refused: YAML reads 3.10 without quotes as 3.1."""
    if not isinstance(version, str) or not re.fullmatch(r"(\d+\.\d+)?", version):
        raise BadInput(f"a Python's version is {version!r}, not two numbers such as '3.12'")
    return [int(part) for part in version.split(".") if part]


def _text(version: Sequence[int]) -> str:
    return ".".join(map(str, version[:2]))
