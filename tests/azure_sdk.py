"""Templates held against Azure's own SDK models (molecule/_shared/cloud/validate.py).

    python tests/azure_sdk.py TEMPLATE...       (as `trueup azure plan --template` writes them)

Run with a Python that has requirements/test.txt.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "molecule" / "_shared"))

from cloud.validate import HEAD, MODELS, OF_TEMPLATES, models, problems


def check(template: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """What is wrong with a template's resources, and the types that could not be checked."""
    wrong: list[str] = []
    skipped: list[str] = []
    for resource in template["resources"]:
        kind = resource["type"]
        package, name = MODELS[kind]
        found = models(package, resource["apiVersion"])
        if found is None:
            skipped.append(f"{kind}: azure-mgmt-{package} is not installed")
            continue
        given = {key: one for key, one in resource.items() if key not in OF_TEMPLATES | HEAD}
        place = f"{kind} {resource['name']}"
        wrong += problems(given, getattr(found, name), found, place)
    return wrong, list(dict.fromkeys(skipped))


def main(paths: list[str]) -> int:
    """Check files; 0 where nothing is wrong and nothing was skipped."""
    status = 0
    for path in paths:
        template = json.loads(Path(path).read_text(encoding="utf-8"))
        wrong, skipped = check(template)
        for text in (*wrong, *(f"skipped: {one}" for one in skipped)):
            print(f"{path}: {text}")
        count = len(template["resources"])
        print(f"{path}: {count} resources, {len(wrong)} wrong, {len(skipped)} types skipped")
        status |= bool(wrong or skipped)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
