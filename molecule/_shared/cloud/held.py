"""Holds the emulated cloud and trueup's queries against what Microsoft made.

    python molecule/_shared/cloud/held.py FOLDER

The clients of Azure's SDK (requirements/test.txt) ask the emulated cloud, unmodified: a managed
identity's token, all pages, a throttled call, a wrong query; of each recipe's template what-if,
deployment, lists, deallocation and the group's end; a cancellation; and Azure Virtual Desktop from
a pool to its end. FOLDER gets Microsoft's language service for Kusto (npm), which looks at the
queries.
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

from trueup_controller.azure import machines  # noqa: E402

from cloud.cloud import Cloud  # noqa: E402
from cloud.replies import SUBSCRIPTION, refusal  # noqa: E402
from cloud.server import profile, serving  # noqa: E402

ROOT = HERE.parents[2]
TEMPLATES = sorted((ROOT / "tests" / "data" / "azure").glob("template-*.json"))
# Of a deployment that is refused, and of one that is canceled twice.
CODES = {
    "refused": {"codes": ["InvalidTemplate"]},
    "canceled": {"codes": ["Canceled", "Canceled", "DeploymentCannotBeCancelled"]},
}
# What azure-mgmt-desktopvirtualization says of a pool with three hosts, of which one is drained.
DESKTOPS = {
    "pool": ["nx-pool", "DepthFirst", 5],
    "groups": ["nx-apps", "nx-desk"],
    "applications": ["nx-apps/nx"],
    "desktops": ["SessionDesktop"],
    "workspaces": ["nx-space"],
    "token": [None, True, True],
    "hosts": [["nx-pool/nx-0", "nx-pool/nx-1"], ["nx-pool/nx-2"]],
    "host": [False, 2, "Available"],
    "heartbeat": True,
    "checks": [["DomainJoinedCheck", "HealthCheckSucceeded"]],
    "left": [["bo", "Disconnected"]],
    "in use": "SessionHostHasUserSessions",
    "refused": [
        *("HostPoolHasSessionHosts", "ApplicationGroupInUse"),
        *("ResourceNotFound", "InvalidRequestContent"),
    ],
    "pools": [],
}
KUSTO = "@kusto/language-service-next@12.4.1"


def run(argv: list[str | Path], **more: Any) -> str:
    """What a program prints; it must end well."""
    more = {"stdout": subprocess.PIPE, "text": True, **more}
    return str(subprocess.run(argv, check=True, **more).stdout)  # noqa: S603 WHY: our own command


def by_sdk(queries: list[str]) -> list[list[object]]:
    """What azure-mgmt-resourcegraph says of each query to a cloud of 2,500 machines and 30
    instances, throttled once."""
    cloud = Cloud()
    for number in range(2500):
        cloud.add_vm(f"vm-{number}", public="20.0.0.1" if number % 100 == 0 else "")
    cloud.add_scale_set("uniform", 30)
    busy = refusal(429, "RateLimiting", "Please retry later.")
    busy.headers = {"Retry-After": "1"}
    cloud.faults["resources"] = [busy]
    with tempfile.TemporaryDirectory() as name, serving(cloud, Path(name)):
        env = {**os.environ, **profile(Path(name), cloud.url)}
        said = run([sys.executable, HERE / "sdk.py", cloud.url, SUBSCRIPTION, *queries], env=env)
    return list(json.loads(said))


def by_deploying() -> dict[str, dict[str, Any]]:
    """What the packages say of each recipe's template, deployed to a cloud."""
    return _asked("sdk_deploys.py", *TEMPLATES)


def by_desktops() -> dict[str, Any]:
    """What azure-mgmt-desktopvirtualization says of a pool and its hosts."""
    return _asked("sdk_desktops.py")


def _asked(program: str, *more: str | Path) -> dict[str, Any]:
    """What a program of the packages says of a cloud that holds every request against their
    models."""
    with subprocess.Popen(  # noqa: S603 WHY: our own command
        [sys.executable, HERE, "--pace", "0"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as cloud:
        assert cloud.stdin is not None
        assert cloud.stdout is not None
        env = dict(os.environ)
        while "EMULATED_CLOUD_SECRET" not in env:
            line = cloud.stdout.readline()
            if not line:
                raise SystemExit("the emulated cloud did not start")
            name, _, value = line.removeprefix("export ").strip().partition("=")
            env[name] = value
        try:
            url = env["EMULATED_CLOUD_URL"]
            said = run([sys.executable, HERE / program, url, SUBSCRIPTION, *more], env=env)
        finally:
            cloud.stdin.close()
    return dict(json.loads(said))


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
    for query, against in zip(queries, kusto, strict=True):
        print(f"Kusto: {query.splitlines()[0]}: {against or 'nothing against it'}")
    sdk = by_sdk([queries[0], queries[1], queries[-1]])
    for said in sdk:
        print(f"azure-mgmt-resourcegraph: {said}")
    wanted = [[2500, 2500, 2500, 3], [30, 30, 30, 1], [400, "BadRequest", "InvalidQuery"]]
    well = [bool(said) for said in kusto] == [False] * 4 + [True] and sdk == wanted
    for name, deployed in by_deploying().items():
        held = deployed == CODES[name] if name in CODES else _as_deployed(deployed)
        well &= held
        shown = f"{len(deployed['machines'])} machines" if held and name not in CODES else deployed
        print(f"azure-mgmt-*: {name}: {'as the cloud keeps it' if held else 'NOT SO'}: {shown}")
    desktops = by_desktops()
    wrong = [name for name in DESKTOPS if desktops.get(name) != DESKTOPS[name]]
    shown = {name: desktops.get(name) for name in wrong} or "as the cloud keeps it"
    print(f"azure-mgmt-desktopvirtualization: {shown}")
    return int(not well or bool(wrong))


def _as_deployed(said: dict[str, Any]) -> bool:
    machines = {path for path, *_ in said["machines"]}
    return (
        said["what-if"] == ["Succeeded", ["Create"]]
        and said["deployment"][0] == "Succeeded"
        and said["steps"] == ["Succeeded"]
        and said["as kept"]
        and set(said["addresses"]) == machines != set()
        and said["stopped"] == ["PowerState/deallocated"]
        and said["left"] == []
    )


if __name__ == "__main__":
    sys.exit(main())
