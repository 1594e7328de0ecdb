"""Package transactions of apt and dnf: their commands, a simulation's result, and the refusals.

A transaction removes and downgrades only packages that the same role of trueup installed. The
module ``package_transaction`` runs the commands and keeps the record of installed packages. No
Ansible in here.
"""

from __future__ import annotations

import json
import os
import re
import stat
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ..errors import BadInput, ParseError

RECORD = "/var/lib/trueup/packages/installed.json"
FORMAT = "trueup.packages/1"
_MOST_RECORD_BYTES = 4 << 20
# dpkg keeps a configuration file that was changed, and takes the new one otherwise.
_APT = (
    *("apt-get", "--assume-yes", "-o", "Dpkg::Options::=--force-confdef"),
    *("-o", "Dpkg::Options::=--force-confold", "-o", "APT::Get::AutomaticRemove=false"),
)
# Packages by line, with their versions.
_APT_SIMULATION = (
    *("apt-get", "--simulate", "--verbose-versions", "--allow-downgrades"),
    *("-o", "APT::Get::Show-User-Simulation-Note=false", "-o", "APT::Get::AutomaticRemove=false"),
)
_APT_UPDATE = (
    *("apt-get", "--quiet", "-o", "APT::Update::Error-Mode=any", "-o", "Acquire::Retries=1"),
    "update",
)
# A local file is not signed; its sha256 was compared. Unless told, dnf waits for a lock for ever,
# and removes dependencies and the oldest of several kernels.
_DNF = (
    *("dnf", "--setopt=clean_requirements_on_remove=False", "--setopt=installonly_limit=0"),
    *("--setopt=localpkg_gpgcheck=False", "--setopt=exit_on_lock=1"),
)
# apt's headings, and where the packages below them go.
_APT_SECTIONS = {
    "The following packages will be REMOVED:": "removed",
    "The following packages will be DOWNGRADED:": "downgraded",
    "The following packages will be upgraded:": "upgraded",
    "The following NEW packages will be installed:": "installed",
}
# apt leaves the version of some removed packages out there, and has it in a line of its own.
_APT_PACKAGE = re.compile(r" {2,}([^\s(]+?)\*?(?: \((\S+)(?: => (\S+))?\))?")
_APT_REMOVED = re.compile(r"(?m)^(?:Remv|Purg) (\S+) \[([^\]\s]+)\]")
_APT_COUNTS = re.compile(
    r"(?m)^(?P<upgraded>\d+) upgraded, (?P<installed>\d+) newly installed,"
    r"(?: (?P<downgraded>\d+) downgraded,)?(?: \d+ reinstalled,)? (?P<removed>\d+) to remove and"
)
_DNF_SECTIONS = {
    "Installing": "installed",
    "Installing dependencies": "installed",
    "Installing weak dependencies": "installed",
    "Installing group/module packages": "installed",
    "Upgrading": "upgraded",
    "Downgrading": "downgraded",
    "Removing": "removed",
    "Removing dependent packages": "removed",
    "Removing unused dependencies": "removed",
    "Reinstalling": "reinstalled",
}
_DNF_COUNTS = {
    "Install": "installed",
    "Upgrade": "upgraded",
    "Downgrade": "downgraded",
    "Remove": "removed",
}


class Transaction(NamedTuple):
    """Packages by name; the version that a package gets, or of a removed one the version it has."""

    installed: Mapping[str, str]
    upgraded: Mapping[str, str]
    downgraded: Mapping[str, str]
    removed: Mapping[str, str]

    @property
    def changes(self) -> bool:
        """Whether any package changes."""
        return any(self)


class Request(NamedTuple):
    """Packages to install.

    Attributes:
        manager: apt or dnf.
        names: as the package manager takes them: a name, a name with a version, or a file's path.
        recommended: whether recommended packages (weak dependencies) are installed too.
        downgrade_allowed: whether the packages in ``names`` may get an older version.
        replace_held: whether held packages may change.
        renewed: whether dnf reads the repositories' indexes again.
    """

    manager: str
    names: Sequence[str]
    recommended: bool = False
    downgrade_allowed: bool = False
    replace_held: bool = False
    renewed: bool = False


class Entry(NamedTuple):
    """A package that trueup installed: its version, and the role that asked for it."""

    version: str
    role: str


def update_command() -> List[str]:
    """apt's lists read again; a list that cannot be read is a failure."""
    return list(_APT_UPDATE)


def simulation(request: Request) -> List[str]:
    """The command that simulates the installation and changes nothing."""
    if request.manager == "apt":
        return [*_APT_SIMULATION, *_apt_options(request), "install", *request.names]
    return [*_DNF, "--assumeno", *_dnf_options(request), "install", *request.names]


def installation(request: Request, transaction: Transaction) -> List[str]:
    """The command that installs. apt itself refuses removals and downgrades that the simulation did
    not show."""
    if request.manager == "dnf":
        return [*_DNF, "--assumeyes", *_dnf_options(request), "install", *request.names]
    allowed = [
        *([] if transaction.removed else ["--no-remove"]),
        *(["--allow-downgrades"] if transaction.downgraded else []),
    ]
    return [*_APT, *allowed, *_apt_options(request), "install", *request.names]


def _apt_options(request: Request) -> List[str]:
    recommended = "--install-recommends" if request.recommended else "--no-install-recommends"
    return [recommended, *(["--allow-change-held-packages"] if request.replace_held else [])]


def _dnf_options(request: Request) -> List[str]:
    return [
        f"--setopt=install_weak_deps={request.recommended}",
        *(["--disableplugin=versionlock"] if request.replace_held else []),
        *(["--refresh"] if request.renewed else []),
    ]


def name_of(spec: str) -> str:
    """A package's name in apt's output or arguments, without version and architecture."""
    return spec.split("=", 1)[0].split(":", 1)[0]


def parse(manager: str, status: Optional[int], text: str) -> Transaction:
    """The result of a simulation that ended with ``status``.

    Raises:
        ParseError: it failed, or is not whole.
    """
    # dnf ends with status 1 where the answer to its question is no.
    if status not in ((0,) if manager == "apt" else (0, 1)):
        raise ParseError(f"the simulation ended with status {status}")
    return parse_apt(text) if manager == "apt" else parse_dnf(text)


def parse_apt(text: str) -> Transaction:
    """The result of ``apt-get --simulate --verbose-versions install``, in the C locale.

    Raises:
        ParseError: its end is missing, or its numbers of packages differ from those it lists.
    """
    changes: Dict[str, Dict[str, str]] = {section: {} for section in _APT_SECTIONS.values()}
    versions = dict(_APT_REMOVED.findall(text))
    section = ""
    for line in text.splitlines():
        package = _APT_PACKAGE.fullmatch(line)
        if package is None:
            section = _APT_SECTIONS.get(line.rstrip(), "")
        elif section:
            name, before, after = package.groups()
            changes[section][name] = after or before or versions.get(name, "")
    counts = _APT_COUNTS.search(text)
    if counts is None:
        raise ParseError("apt's simulation has no line with the numbers of packages")
    # Packages of several architectures share a name; apt counts each.
    _compare(changes, {name: int(count or 0) for name, count in counts.groupdict().items()}, "apt")
    return _transaction(changes)


def parse_dnf(text: str) -> Transaction:
    """The result of ``dnf --assumeno install``, in the C locale.

    A package that another one replaces (``Obsoletes``) is among the removed.

    Raises:
        ParseError: its end is missing, or its numbers of packages differ from those it lists.
    """
    if re.search(r"(?m)^Nothing to do\.$", text):
        return Transaction({}, {}, {}, {})
    body, _, summary = text.partition("\nTransaction Summary\n")
    if not summary:
        raise ParseError("dnf's simulation has no summary")
    changes: Dict[str, Dict[str, str]] = {name: {} for name in set(_DNF_SECTIONS.values())}
    replaced: Dict[str, str] = {}
    section = ""
    for row in _dnf_rows(body):
        if row[0] == "replacing" and len(row) > 2:
            replaced[row[1].rpartition(".")[0]] = row[2]
        elif len(row) == 1:
            section = _DNF_SECTIONS.get(row[0], "")
        elif section and len(row) > 2:
            name, architecture, version = row[:3]
            # One of another architecture, or a second kernel.
            name = f"{name}.{architecture}" if name in changes[section] else name
            name = f"{name}-{version}" if name in changes[section] else name
            changes[section][name] = version
    lines = re.findall(r"(?m)^(Install|Upgrade|Downgrade|Remove) +(\d+) Packages?$", summary)
    _compare(changes, {_DNF_COUNTS[verb]: int(count) for verb, count in lines}, "dnf")
    changes["removed"] = {**replaced, **changes["removed"]}
    return _transaction(changes)


def _dnf_rows(body: str) -> List[List[str]]:
    """The words of each row of dnf's table, which breaks a row before a column that does not fit; a
    heading is a row of one word."""
    rows: List[List[str]] = []
    for line in body.splitlines():
        heading = re.fullmatch(r"([A-Z][a-z/ ]+):", line)
        if heading:
            rows.append([heading.group(1)])
        elif re.match(r" (?:\S| {4,}replacing )", line):
            rows.append(line.split())
        elif re.match(r"  +\S", line) and rows:
            rows[-1] += line.split()
        else:
            rows.append([""])
    return [row for row in rows if row]


def _compare(
    changes: Mapping[str, Mapping[str, str]], counts: Mapping[str, int], manager: str
) -> None:
    for section in ("installed", "upgraded", "downgraded", "removed"):
        listed, count = len(changes.get(section, {})), counts.get(section, 0)
        if listed != count:
            raise ParseError(
                f"{manager}'s simulation lists {listed} packages as {section}, and counts {count}"
            )


def _transaction(changes: Mapping[str, Mapping[str, str]]) -> Transaction:
    return Transaction(*(changes[name] for name in Transaction._fields))


def lost(
    transaction: Transaction, request: Request, record: Mapping[str, Entry], role: str
) -> Tuple[Dict[str, str], Dict[str, str]]:
    """Packages that the transaction would remove, and those that it would downgrade, less those
    that the same role installed and those whose downgrade was asked for by name."""
    installed = {name for name, entry in record.items() if entry.role == role}
    asked_for = [spec for spec in request.names if request.downgrade_allowed]
    removed = {
        name: version
        for name, version in transaction.removed.items()
        if name_of(name) not in installed
    }
    downgraded = {
        name: version
        for name, version in transaction.downgraded.items()
        if name_of(name) not in installed
        and not any(_names(spec, name, request.manager) for spec in asked_for)
    }
    return removed, downgraded


def _names(spec: str, package: str, manager: str) -> bool:
    """Whether a package was asked for by its name, with or without a version, or by its file."""
    plain = name_of(package)
    if "/" in spec:
        file = spec.rpartition("/")[2]
        return re.match(rf"(?:trueup-)?{re.escape(plain)}[_-]\d", file) is not None
    if manager == "apt":
        return name_of(spec) == plain
    return spec == plain or re.match(rf"{re.escape(plain)}-(?:\d+:)?[\d*]", spec) is not None


def refusal(
    request: Request, removed: Mapping[str, str], downgraded: Mapping[str, str], role: str
) -> str:
    """Why nothing is installed, and the fix, as two sentences."""
    effects = [
        *([f"remove {listed(removed)}"] if removed else []),
        *([f"downgrade {listed(downgraded)}"] if downgraded else []),
    ]
    program = "apt-get" if request.manager == "apt" else "dnf"
    steps = [
        *([f"`{program} remove {' '.join(removed)}`"] if removed else []),
        *(
            [f"`{program} {_DOWNGRADING[request.manager]} {' '.join(downgraded)}`"]
            if downgraded
            else []
        ),
    ]
    owner = f"the role {role}" if role else "trueup"
    return (
        f"To install {', '.join(request.names)}, {request.manager} would {' and '.join(effects)},"
        f" which {owner} did not install: nothing was changed. Where the node can do without,"
        f" run {' and '.join(steps)} there by hand, and then run again."
    )


_DOWNGRADING = {"apt": "install --allow-downgrades", "dnf": "downgrade"}


def listed(packages: Mapping[str, str]) -> str:
    """Packages with their versions, as in a sentence."""
    return ", ".join(f"{name} ({version})" for name, version in sorted(packages.items()))


def question(node: Mapping[str, Any], names: Sequence[str]) -> Dict[str, Dict[str, Any]]:
    """The question which packages an installation would remove or downgrade, as ``asks`` has it."""
    arguments = {"manager": node["package_manager"], "names": list(names), "asked": True}
    return {"package_transaction": arguments}


def cost(response: Mapping[str, Any]) -> str:
    """By the answer: the packages that the installation would remove or downgrade; empty where it
    does neither, or where that is not known."""
    if not response.get("refused"):
        return ""
    return listed({**response["removed"], **response["downgraded"]})


def recorded(record: Mapping[str, Entry], transaction: Transaction, role: str) -> Dict[str, Entry]:
    """The record with the packages that the transaction installs, without those that it removes."""
    remaining = {
        name: entry
        for name, entry in record.items()
        if name not in map(name_of, transaction.removed)
    }
    changed = {**transaction.upgraded, **transaction.downgraded}
    for name, version in changed.items():
        if name_of(name) in remaining:
            remaining[name_of(name)] = remaining[name_of(name)]._replace(version=version)
    new = {name_of(name): Entry(version, role) for name, version in transaction.installed.items()}
    return {**remaining, **new}


def still_there(record: Mapping[str, Entry], installed: Mapping[str, str]) -> Dict[str, Entry]:
    """Of the record the packages that are installed: one that somebody removed, and perhaps
    installed again, is not trueup's any more."""
    return {name: entry for name, entry in record.items() if name in installed}


def read_record(path: str) -> Dict[str, Entry]:
    """The packages that trueup installed; none where there is no record.

    Raises:
        BadInput: it is no record, or somebody else may write it.
    """
    try:
        number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise BadInput(f"{path} is no record ({error.strerror or error})") from error
    with os.fdopen(number, "rb") as stream:
        state = os.fstat(stream.fileno())
        if not stat.S_ISREG(state.st_mode) or state.st_uid != os.geteuid() or state.st_mode & 0o022:
            raise BadInput(f"{path} is no record (others than its user may write it)")
        text = stream.read(_MOST_RECORD_BYTES + 1)
    return _record_of(path, text)


def _record_of(path: str, text: bytes) -> Dict[str, Entry]:
    try:
        read: Any = json.loads(text) if len(text) <= _MOST_RECORD_BYTES else None
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{path} is no record ({error})") from error
    packages = read.get("packages") if isinstance(read, dict) else None
    if not isinstance(packages, dict) or read.get("format") != FORMAT:
        raise BadInput(f"{path} is no record (its format is not {FORMAT})")
    entries = {}
    for name, entry in packages.items():
        values = entry if isinstance(entry, dict) else {}
        if set(values) != {"version", "role"} or not all(
            isinstance(value, str) for value in values.values()
        ):
            raise BadInput(f"{path} is no record ({name} has no version and role)")
        entries[name] = Entry(**values)
    return entries


def write_record(path: str, record: Mapping[str, Entry]) -> None:
    """Put the record in its place, whole, and on the disk; for its user alone.

    Raises:
        BadInput: it cannot be written.
    """
    folder = os.path.dirname(path)
    text = {"format": FORMAT, "packages": {name: entry._asdict() for name, entry in record.items()}}
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        beside = os.path.join(folder, f".{os.path.basename(path)}.part")
        number = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(number, "w", encoding="utf-8") as stream:
            json.dump(text, stream, indent=1, sort_keys=True)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(beside, path)
    except OSError as error:
        raise BadInput(f"{path} cannot be written ({error.strerror or error})") from error
