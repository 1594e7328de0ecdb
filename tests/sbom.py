"""What trueup installs, as CycloneDX 1.6: one file for each set of pins, and one for what roles
download from its makers.

    python tests/sbom.py FOLDER          (make sbom)

The pins' files are those that pip is given, the downloads are read from the roles' variables:
nothing is typed here again. The same checkout gives the same bytes.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from trueup_controller.role_folders import role_folders

ROOT = Path(__file__).parents[1]
_NAME = re.compile(r"{{ *(\w+) *}}")
# Addresses of packages and of keys: what comes from there the package manager chooses and verifies.
_PACKAGES = re.compile(r"/(?:apt|yum|repos|yumrepos|stable)(?:/|$)|/keys?/|gpgkey|GPG-KEY")


def pins() -> dict[str, Path]:
    """The sets of pins by the name of their SBOM."""
    found = {path.stem: path for path in ROOT.glob("requirements/*.txt")}
    for path in ROOT.glob("roles/**/files/requirements*.txt"):
        found[f"{path.parts[-3]}-{path.stem.removeprefix('requirements').strip('-') or 'all'}"] = (
            path
        )
    return dict(sorted(found.items()))


def of_pins(path: Path) -> str:
    """The SBOM of a set of pins.

    Raises:
        SystemExit: it cannot be made.
    """
    done = subprocess.run(
        [
            *(sys.executable, "-m", "cyclonedx_py", "requirements", str(path)),
            *("--output-reproducible", "--spec-version", "1.6", "--output-format", "JSON"),
            # What is made of it is validated: each process imports the validator for 3 s.
            "--no-validate",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(f"{path}: {done.stderr.strip()}")
    bom = json.loads(done.stdout)
    for component in bom["components"]:
        # Where a package is downloaded from is the reader's own configuration.
        references = component.get("externalReferences", [])
        for reference in references:
            if reference["type"] == "distribution":
                component.setdefault("hashes", []).extend(reference.get("hashes", []))
        kept = [one for one in references if one["type"] != "distribution"]
        component.pop("externalReferences", None)
        if kept:
            component["externalReferences"] = kept
        component.pop("description", None)
        component["bom-ref"] = component.get("purl", component["bom-ref"])
    return _text(bom)


def of_downloads() -> str:
    """The SBOM of what roles download from its makers."""
    bom = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {"type": "application", "name": "trueup", "bom-ref": "trueup"}},
        "components": sorted(downloads(), key=lambda one: str(one["bom-ref"])),
    }
    return _text(bom)


def _text(bom: Mapping[str, Any]) -> str:
    return json.dumps(bom, indent=2, sort_keys=True) + "\n"


def downloads() -> Iterator[dict[str, Any]]:
    """A component for each address in the variables of roles, and in the catalog of Pythons."""
    licences = _yaml(ROOT / "catalog/licences.yml")
    for role, folder in role_folders(ROOT / "roles").items():
        data = {}
        for name in ("defaults", "vars"):
            path = folder / name / "main.yml"
            data |= _yaml(path) if path.exists() else {}
        for keys, url, more in _addresses(data, (), data):
            yield _component(role, keys, url, more, licences.get(role, {}).get(keys[0]))
        if (manifest := data.get(f"{role}_manifest")) is not None:
            # The manifest has the driver's address.
            version = str(data[f"{role}_version"])
            known = {"version": version, "sha256": data[f"{role}_checksums"].get(version, "")}
            licence = licences.get(role, {}).get(f"{role}_version")
            found = _component(role, (f"{role}_version",), manifest.strip(), known, licence)
            yield found | {"name": f"{role} driver"}
    pythons = _yaml(ROOT / "catalog/python.yml")["standalone"]
    for keys, url, more in _addresses(pythons, (), {}):
        yield _component("python", keys, url, more, None)


def _yaml(path: Path) -> dict[str, Any]:
    return yaml.safe_load(path.read_text(encoding="utf-8")) or {}


def _addresses(
    value: Any, keys: tuple[str, ...], data: Mapping[str, Any]
) -> Iterator[tuple[tuple[str, ...], str, dict[str, str]]]:
    """The keys of each address, the address, and what stands beside it: version and sha256."""
    if not isinstance(value, dict):
        return
    for key, item in value.items():
        here = (*keys, str(key))
        if isinstance(item, dict):
            yield from _addresses(item, here, data)
        elif key == "file" and "sha256" in value:
            # The file below the role's base address.
            base = next(str(data[name]) for name in data if name.endswith("_base_url"))
            yield keys, f"{base}/{item}", {"sha256": value["sha256"], "version": _version(item)}
        elif isinstance(item, str) and item.strip().startswith(("http://", "https://")):
            if key.endswith("_base_url") or _PACKAGES.search(item):
                continue
            prefix = re.sub(r"_?(url|repository)$", "", str(key))
            beside = {
                word: str(value.get(f"{prefix}_{word}") or value.get(word) or "")
                for word in ("sha256", "version", "commit")
            }
            beside["version"] = beside["commit"] or beside["version"] or _version(item)
            yield here, _NAME.sub(lambda one: str(data[one[1]]), item.strip()), beside


def _version(address: str) -> str:
    """The version in the name of a file; empty where it has none."""
    found = re.search(r"[0-9]+(?:[.][0-9]+)+(?:[-+][0-9.]+)*", address.rsplit("/", 1)[-1])
    return found[0] if found else ""


def _component(
    role: str, keys: tuple[str, ...], url: str, beside: Mapping[str, str], licence: Any
) -> dict[str, Any]:
    address = url.removesuffix("/")
    is_source = address.endswith(".git")
    keys = tuple(key for key in keys if key != "url")
    made: dict[str, Any] = {
        "type": "library" if is_source else "file",
        "bom-ref": ".".join((role, *keys)),
        "name": address.rsplit("/", 1)[-1].removesuffix(".git"),
        "externalReferences": [{"type": "vcs" if is_source else "distribution", "url": address}],
        "properties": [{"name": "trueup:role", "value": role}],
    }
    if beside["version"]:
        made["version"] = beside["version"]
    if beside["sha256"]:
        made["hashes"] = [{"alg": "SHA-256", "content": beside["sha256"]}]
    if licence is not None and "expression" in licence:
        made["licenses"] = [licence]
    elif licence is not None:
        made["licenses"] = [{"license": licence}]
    return made


def fault(text: str) -> str | None:
    """What of an SBOM breaks CycloneDX' own schema; None where nothing does."""
    found = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    return None if found is None else str(found)


def main() -> int:
    """The command line."""
    if len(sys.argv) != 2:
        sys.exit("python tests/sbom.py FOLDER")
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    made = {name: of_pins(path) for name, path in pins().items()} | {"downloads": of_downloads()}
    for name, text in made.items():
        if why := fault(text):
            sys.exit(f"{name}: {why}")
        (folder / f"{name}.cdx.json").write_text(text, encoding="utf-8")
    print(f"{len(made)} files in {folder}: " + ", ".join(sorted(made)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
