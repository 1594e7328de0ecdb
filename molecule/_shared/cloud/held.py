"""Holds the emulated cloud and trueup's queries against what Microsoft made.

    python molecule/_shared/cloud/held.py FOLDER

FOLDER gets an environment with azure-mgmt-resourcegraph and azure-identity, which then ask the
emulated cloud, unmodified: a managed identity's token, all pages, a throttled call, a wrong query.
It gets Microsoft's language service for Kusto too (npm), which looks at the queries. Both come from
package registries; nothing of them is a requirement of trueup.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parents[2] / "module_utils")]

from trueup.cluster.azure import machines  # noqa: E402

from cloud.cloud import Cloud  # noqa: E402
from cloud.replies import SUBSCRIPTION, refusal  # noqa: E402
from cloud.server import profile, serving  # noqa: E402

SDK = ("azure-mgmt-resourcegraph==8.0.1", "azure-identity==1.27.0")
KUSTO = "@kusto/language-service-next@12.4.1"


def run(argv: list[str | Path], **more: Any) -> str:
    """What a program prints; it must end well."""
    more = {"stdout": subprocess.PIPE, "text": True, **more}
    return str(subprocess.run(argv, check=True, **more).stdout)  # noqa: S603 WHY: our own command


def by_sdk(folder: Path, queries: list[str]) -> list[list[object]]:
    """What azure-mgmt-resourcegraph says of each query to a cloud of 2,500 machines and 30
    instances, throttled once."""
    python = folder / "sdk" / "bin" / "python"
    if not python.exists():
        run([sys.executable, "-m", "venv", folder / "sdk"])
        run([python, "-m", "pip", "install", "-q", *SDK])
    cloud = Cloud()
    for number in range(2500):
        cloud.add_vm(f"vm-{number}", public="20.0.0.1" if number % 100 == 0 else "")
    cloud.add_scale_set("uniform", 30)
    busy = refusal(429, "RateLimiting", "Please retry later.")
    busy.headers = {"Retry-After": "1"}
    cloud.faults["resources"] = [busy]
    with tempfile.TemporaryDirectory() as name, serving(cloud, Path(name)):
        env = {**os.environ, **profile(Path(name), cloud.url)}
        said = run([python, HERE / "sdk.py", cloud.url, SUBSCRIPTION, *queries], env=env)
    return list(json.loads(said))


def by_kusto(folder: Path, queries: list[str]) -> list[list[str]]:
    """What Microsoft's language service says against each query."""
    place = folder / "kusto"
    place.mkdir(exist_ok=True)
    if not (place / "node_modules").exists():
        run(["npm", "install", "--silent", KUSTO], cwd=place)
    env = {**os.environ, "NODE_PATH": str(place / "node_modules")}
    said = run(["node", HERE / "kusto.js"], env=env, input=json.dumps(queries))
    return [json.loads(line) for line in said.splitlines()]


def main() -> int:
    folder = Path(sys.argv[1]).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    queries = [
        *machines.queries(["*"], ["*"]),
        *machines.queries(["one", "two"], ["three"]),
        "Resources | where nosuch == 'x' | project id",
    ]
    kusto = by_kusto(folder, queries)
    for query, said in zip(queries, kusto, strict=True):
        print(f"Kusto: {query.splitlines()[0]}: {said or 'nothing against it'}")
    sdk = by_sdk(folder, [queries[0], queries[1], queries[-1]])
    for said in sdk:
        print(f"azure-mgmt-resourcegraph: {said}")
    wanted = [[2500, 2500, 2500, 3], [30, 30, 30, 1], [400, "BadRequest", "InvalidQuery"]]
    return int([bool(said) for said in kusto] != [False] * 4 + [True] or sdk != wanted)


if __name__ == "__main__":
    sys.exit(main())
