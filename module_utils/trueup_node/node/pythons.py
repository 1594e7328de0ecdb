"""The Python that an environment is made with, and the packages that it needs (role python).

In this order: an installed one with all needed modules; one of the system's packages that lacks
headers or venv; one that the system's repositories offer; a standalone build, which needs no root.
Nothing is installed where the first is found, or where a Python was named.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, Optional, Sequence

from ..errors import BadInput
from ..plan import PlanInputs
from .packages import verified_only

# The default name: only such a Python is replaced by another.
DEFAULT = "python3"
_OF_PACKAGES = re.compile(r"/(usr/)?bin/python3(\.\d+)?")
_SHARED, _OWN = "/opt/trueup/python", "~/.local/share/trueup/python"
_SHA256_SHOWN = 12
_SITE = "python_standalone_"
# Prints the problem of the Python that it runs on: its version, or a module it cannot load.
_CHECK = """\
import sys
found = "%d.%d" % sys.version_info[:2]
if found != sys.argv[1]:
    sys.exit("this is Python %s, not %s" % (found, sys.argv[1]))
import ctypes, ensurepip, ssl, venv, zlib
"""


@dataclass(frozen=True)
class Need:
    """The Python that a benchmark's pins need: data beside them.

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
        release = list(version[:2])
        return release >= self.oldest and (not self.newest or release <= self.newest)

    def __str__(self) -> str:
        if not self.newest:
            return f"{_text(self.oldest)} or newer"
        return " to ".join(dict.fromkeys(map(_text, (self.oldest, self.newest))))


@dataclass(frozen=True)
class Interpreter:
    """A usable Python, once its missing packages are installed.

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
        """Arguments of role python; empty where everything is there."""
        if not (self.packages or self.archive):
            return {}
        return {
            "packages": self.packages,
            "archive": dict(self.archive),
            "check": [self.path, "-c", _CHECK, _text(self.version)],
        }


def probe(inputs: PlanInputs, need: Need) -> Dict[str, Any]:
    """Preflight's question to the node, as arguments of program_facts."""
    named = inputs.options.get("python", DEFAULT)
    more = []
    if named == DEFAULT:
        more = [f"python3.{minor}" for minor in _preferred(inputs) if need.takes([3, minor])]
        more += [build.path for build in _standalone(inputs, need)]
    return {"python": named, "pythons": more, "imports": ["venv", "ensurepip"]}


def interpreter(inputs: PlanInputs, need: Need) -> Optional[Interpreter]:
    """The Python for ``need`` on a node, from the Pythons in ``inputs.found``; None where the node
    has none and can be given none."""
    named = inputs.options.get("python", DEFAULT) != DEFAULT
    pythons = [
        python for python in (inputs.found["python"], *inputs.found.get("pythons", [])) if python
    ]
    fit = [python for python in pythons if need.takes(python["version"])]
    for python in fit:
        if not lacks(python, need):
            return Interpreter(python["path"], list(python["version"][:2]))
    can = bool(inputs.node.get("privilege")) and not verified_only(inputs.node)
    manager = inputs.node.get("package_manager") if can else None
    for python in fit:
        # Another one, of pyenv or conda, has no package that would complete it.
        if manager and _OF_PACKAGES.fullmatch(python["path"]):
            version = list(python["version"][:2])
            return Interpreter(python["path"], version, _completing(python, need, manager))
    if named:
        return None
    offered = _offered(inputs, need) if manager else []
    for version in offered:
        packages = _packages(version, manager or "", needs_headers=need.headers)
        return Interpreter(f"/usr/bin/python{_text(version)}", version, packages)
    return next(iter(_standalone(inputs, need)), None)


def lacks(python: Mapping[str, Any], need: Need) -> List[str]:
    """Missing parts of an installed Python: modules, and Python.h where it is needed."""
    return [*python["missing"], *(["Python.h"] if need.headers and not python["headers"] else [])]


def _completing(python: Mapping[str, Any], need: Need, manager: str) -> List[str]:
    """The packages with the missing parts of the system's Python. Its own minor version names them;
    for Enterprise Linux's own python3 they have none."""
    missing, version = lacks(python, need), list(python["version"][:2])
    stem = f"python{_text(version)}"
    if manager == "dnf" and python["path"].endswith("/python3"):
        stem = DEFAULT
    suffixes = [*(["venv"] if python["missing"] else []), *(["h"] if "Python.h" in missing else [])]
    return _of_stem(stem, manager, suffixes)


def _packages(version: Sequence[int], manager: str, *, needs_headers: bool) -> List[str]:
    stem = f"python{_text(version)}"
    return [stem, *_of_stem(stem, manager, ["venv", *(["h"] if needs_headers else [])])]


def _of_stem(stem: str, manager: str, suffixes: Sequence[str]) -> List[str]:
    """Of Debian and Ubuntu venv and headers are packages; Enterprise Linux has venv in its own, and
    pip's wheel for it in -pip-wheel, which that needs."""
    if manager == "apt":
        return [f"{stem}-{'dev' if suffix == 'h' else suffix}" for suffix in suffixes]
    return [f"{stem}-devel" for suffix in suffixes if suffix == "h"] or [stem]


def _offered(inputs: PlanInputs, need: Need) -> List[List[int]]:
    """The versions that the system's repositories have, the preferred one first."""
    offers = of_system(inputs.catalog("python.yml")["systems"], inputs.node)
    versions = [numbers(offer) for offer in offers or []]
    order = _preferred(inputs)
    fit = [version for version in versions if need.takes(version)]
    return sorted(
        fit, key=lambda version: order.index(version[1]) if version[1] in order else len(order)
    )


def of_system(rows: Mapping[str, Any], node: Mapping[str, Any]) -> Any:
    """The member of a node's system in a table of catalog/python.yml; None where it has none."""
    release = str(node.get("distribution_version") or "")
    row = rows.get(f"{node.get('distribution')}-{release}")
    if row is None and node.get("package_manager") == "dnf":
        return rows.get(f"el-{release.partition('.')[0]}")
    return row


def _standalone(inputs: PlanInputs, need: Need) -> List[Interpreter]:
    """The standalone builds for the node: the site's own alone where it names one."""
    site_variables = inputs.variables
    site = {
        name: str(site_variables.get(f"{_SITE}{name}") or "")
        for name in ("url", "sha256", "version")
    }
    strange = [
        name for name in site_variables if name.startswith(_SITE) and name[len(_SITE) :] not in site
    ]
    if strange:
        raise BadInput(
            f"{', '.join(strange)}: role python has {', '.join(_SITE + n for n in site)}"
        )
    builds: Mapping[str, Mapping[str, str]]
    if any(site.values()):
        builds = {site["version"]: site}
    else:
        catalog_builds = inputs.catalog("python.yml")["standalone"]
        builds = catalog_builds.get(inputs.node.get("architecture"), {})
    folder = _SHARED if inputs.node.get("privilege") else _OWN
    fit = []
    for version, build in builds.items():
        _check(version, build)
        if need.takes(numbers(version)):
            target_folder = f"{folder}/{version}-{build['sha256'][:_SHA256_SHOWN]}"
            folders = {"folder": f"{target_folder}.partial", "place": target_folder}
            archive = {**build, **folders, "file": f"{target_folder}.partial/build.tar"}
            path = f"{target_folder}/bin/python{version}"
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


def _preferred(inputs: PlanInputs) -> List[int]:
    preferred: List[int] = inputs.catalog("python.yml")["preferred"]
    return preferred


def numbers(version: Any) -> List[int]:
    """None of an empty text. A number is refused: YAML reads 3.10 without quotes as 3.1."""
    if not isinstance(version, str) or not re.fullmatch(r"(\d+\.\d+)?", version):
        raise BadInput(f"a Python's version is {version!r}, not two numbers such as '3.12'")
    return [int(number) for number in version.split(".") if number]


def _text(version: Sequence[int]) -> str:
    return ".".join(map(str, version[:2]))
