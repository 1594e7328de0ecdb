"""The emulated cloud with the calls of azure.azcollection's azure_rm: for the comparison only.

The calls are those that azure_rm 3.12.0 was seen to make; its api-versions are not looked at. All
machines come in one page, which favours it.
"""

from __future__ import annotations

import urllib.parse
from pathlib import Path
from typing import Any

from emulated_cloud import SUBSCRIPTION, Cloud, Reply, refusal

# Into the environment of azure_rm, which knows Azure's clouds by name only.
SITE = """\
import os
from azure.cli.core import cloud
cloud.AZURE_PUBLIC_CLOUD.endpoints.resource_manager = os.environ["TRUEUP_CLOUD"] + "/"
"""
VMS = f"/subscriptions/{SUBSCRIPTION}/providers/microsoft.compute/virtualmachines"


class Manager(Cloud):
    """One call for each interface and each machine's state, or a hundred of them in a batch."""

    def do(self, method: str, path: str, query: dict[str, str], body: Any) -> Reply:
        if (method, path) == ("POST", "/batch"):
            return Reply(200, {"responses": [self.part(request) for request in body["requests"]]})
        if method == "GET":
            return self.one(urllib.parse.unquote(path).replace("//", "/").lower())
        return super().do(method, path, query, body)

    def part(self, request: dict[str, str]) -> dict[str, Any]:
        reply = self.one(urllib.parse.urlsplit(request["url"]).path.replace("//", "/").lower())
        return {
            "name": request["name"],
            "httpStatusCode": reply.status,
            "content": reply.document,
        }

    def one(self, path: str) -> Reply:
        by_id = self.index()
        if path == VMS:
            return Reply(
                200, {"value": [row for key, row in by_id.items() if "/virtualmachines/" in key]}
            )
        machine, _, last = path.rpartition("/")
        if last == "instanceview" and machine in by_id:
            code = by_id[machine]["properties"]["extended"]["instanceView"]["powerState"]["code"]
            return Reply(200, {"computerName": machine[-15:], "statuses": [{"code": code}]})
        if path in by_id:
            return Reply(200, by_id[path])
        return refusal(404, "ResourceNotFound", f"This cloud has no {path}.")

    def index(self) -> dict[str, dict[str, Any]]:
        if not hasattr(self, "_by_id"):
            self._by_id = {row["id"].lower(): row for row in self.tables["resources"]}
        return self._by_id


def environment(folder: Path, url: str) -> dict[str, str]:
    """Variables for azure_rm to find the cloud; SITE is written below FOLDER."""
    site = folder / "site"
    site.mkdir(exist_ok=True)
    (site / "sitecustomize.py").write_text(SITE)
    return {
        "PYTHONPATH": str(site),
        "TRUEUP_CLOUD": url,
        "AZURE_SUBSCRIPTION_ID": SUBSCRIPTION,
        "ANSIBLE_CONFIG": str(folder / "ansible.cfg"),
    }
