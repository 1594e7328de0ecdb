"""Compare the kernels in this environment with those that a recipe requires.

    python kernels.py compare FOLDER '[{"name": ...}, ...]'
    python kernels.py note FOLDER '[...]'

Prints the names of those that differ, as JSON. `note` first keeps beside the sources from which
commit each was built, and with which torch. A module that vLLM brings is not imported.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import pathlib
import sys
from typing import Any


def built_from(kernel: dict[str, Any]) -> list[Any]:
    """A kernel's sources, and the facts that a rebuild depends on."""
    versions = [importlib.metadata.version(name) for name in ("torch", kernel["distribution"])]
    return [kernel["commit"], kernel["environment"], kernel["build"], *versions]


def is_there(module: str) -> bool:
    """Whether a module's file is in this environment."""
    top, *rest = module.split(".")
    spec = importlib.util.find_spec(top)
    places = (spec.submodule_search_locations or []) if spec else []
    return any(pathlib.Path(location, *rest).exists() for location in places)


def is_as_wanted(kernel: dict[str, Any], note: pathlib.Path) -> bool:
    try:
        if kernel["kind"] == "pip":
            return bool(importlib.metadata.version(kernel["package"]) == kernel["version"])
        if kernel["kind"] == "git":
            return bool(json.loads(note.read_text(encoding="utf-8")) == built_from(kernel))
        return is_there(kernel["module"])
    except (importlib.metadata.PackageNotFoundError, OSError, ValueError):
        return False


def main() -> None:
    verb, folder, kernels = sys.argv[1], pathlib.Path(sys.argv[2]), json.loads(sys.argv[3])
    notes = {kernel["name"]: folder / f"{kernel['name']}.built.json" for kernel in kernels}
    if verb == "note":
        for kernel in kernels:
            text = json.dumps(built_from(kernel))
            notes[kernel["name"]].write_text(text, encoding="utf-8")
    wrong = [k["name"] for k in kernels if not is_as_wanted(k, notes[k["name"]])]
    print(json.dumps(wrong))


if __name__ == "__main__":
    main()
