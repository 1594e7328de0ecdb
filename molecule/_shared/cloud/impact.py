"""Microsoft.Impact in the emulated cloud: reports on nodes, and Azure's insights into them.

Sources: Azure/azure-rest-api-specs specification/impact (workloadImpacts.tsp, insights.tsp and
their examples: names, required members, 201 with Azure-AsyncOperation); Guest Health Reporting in
learn.microsoft.com/azure/azure-impact-reporting (its api-versions, its categories, that a report of
a node needs PhysicalHostName or VmUniqueId); Azure/ai-infrastructure-on-azure
skills/slurm/azure_node_health_report.md (codes of insights).
"""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from .replies import SUBSCRIPTION, Refused, Reply
from .resources import Operation, need, now
from .versions import known_version

if TYPE_CHECKING:
    from .cloud import Cloud
    from .resources import Document

NAMESPACE = "Microsoft.Impact"
_CATALOG = Path(__file__).resolve().parents[3] / "catalog" / "faults" / "azure.yml"
_PROVIDER = f"/subscriptions/{SUBSCRIPTION}/providers/{NAMESPACE}"
_PATH = re.compile(
    rf"{_PROVIDER}/(workloadimpacts|impactcategories)(?:/([^/]+)(?:/(insights)(?:/([^/]+))?)?)?",
    re.IGNORECASE,
)
_NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9-:]*[a-zA-Z0-9]{3,120}")
# Of a report's properties, those that a caller may write.
_PROPERTIES = {
    *("startDateTime", "endDateTime", "impactedResourceId", "impactCategory", "impactDescription"),
    *("armCorrelationIds", "performance", "connectivity", "additionalProperties", "errorDetails"),
    *("workload", "impactGroupId", "confidenceLevel", "clientIncidentDetails", "reportedTimeUtc"),
}
_TITLES = {
    "AcknowledgedUnhealthy": "The report was acknowledged",
    "NodeRemovedFromService": "The node was removed from service",
    "TooManyRequests": "Too many reports",
}


def categories() -> list[str]:
    """Categories of Guest Health Reporting, as its documentation lists them."""
    document = yaml.safe_load(_CATALOG.read_text(encoding="utf-8"))
    return [
        f"Resource.Hpc.{'' if name in ('Reset', 'Reboot') else 'Unhealthy.'}{name}"
        for name in document["categories"]
    ]


@dataclass
class Impact:
    """One report.

    Attributes:
        puts: how often it was sent.
        codes: of the insights that follow, the last one terminal; each question gives one more.
    """

    name: str
    properties: Document
    puts: int = 1
    codes: list[str] = field(
        default_factory=lambda: ["AcknowledgedUnhealthy", "NodeRemovedFromService"]
    )
    insights: list[Document] = field(default_factory=list)
    unique: str = field(default_factory=lambda: str(uuid.uuid4()))
    reported: str = field(default_factory=now)

    @property
    def id(self) -> str:
        return f"{_PROVIDER}/workloadImpacts/{self.name}"

    @property
    def host(self) -> str:
        return str((self.properties.get("additionalProperties") or {}).get("PhysicalHostName", ""))

    def document(self) -> Document:
        return {
            "id": self.id,
            "name": self.name,
            "type": f"{NAMESPACE}/workloadImpacts",
            "properties": {
                **self.properties,
                "impactUniqueId": self.unique,
                "reportedTimeUtc": self.reported,
                "provisioningState": "Succeeded",
            },
        }

    def tell(self) -> None:
        """The next insight."""
        if not self.codes:
            return
        code = self.codes.pop(0)
        name = f"HPC{code}"
        self.insights.append(
            {
                "id": f"{self.id}/insights/{name}",
                "name": name,
                "type": f"{NAMESPACE}/workloadImpacts/insights",
                "properties": {
                    "category": "MitigationAction",
                    "eventTime": now(),
                    "insightUniqueId": str(uuid.uuid4()),
                    "impact": {
                        "impactId": self.id,
                        "impactedResourceId": self.properties["impactedResourceId"],
                        "startTime": self.properties["startDateTime"],
                    },
                    "content": {"title": _TITLES.get(code, code), "description": code},
                    "additionalDetails": {
                        "statusCode": code,
                        "terminalInsight": str(not self.codes).lower(),
                    },
                },
            }
        )


def answer(cloud: Cloud, method: str, path: str, query: dict[str, str], body: Any) -> Reply | None:
    """The answer to a call of Microsoft.Impact, None where it is none."""
    matched = _PATH.fullmatch(path)
    if not matched:
        return None
    known_version(NAMESPACE, query.get("api-version"))
    kind, name, insights, insight = matched.groups()
    if kind.lower() == "impactcategories":
        return _categories(method, name)
    if name is None:
        listed = [one.document() for one in cloud.impacts.values()]
        return Reply(200, {"value": listed}) if method == "GET" else None
    if method == "PUT" and not insights:
        return _put(cloud, name, body)
    one = cloud.impacts.get(name.lower())
    if one is None:
        if method == "DELETE":
            return Reply(204, None)
        raise Refused(404, "ResourceNotFound", f"The Resource '{name}' was not found.")
    if insights:
        return _insights(one, method, insight)
    if method == "GET":
        return Reply(200, one.document())
    if method == "DELETE":
        cloud.impacts.pop(name.lower())
        return Reply(200, one.document())
    return None


def _categories(method: str, name: str | None) -> Reply | None:
    if method != "GET":
        return None
    rows = [
        {
            "id": f"{_PROVIDER}/impactCategories/{category}",
            "name": category,
            "type": f"{NAMESPACE}/impactCategories",
            "properties": {"categoryId": category, "provisioningState": "Succeeded"},
        }
        for category in categories()
        if name is None or category.lower() == name.lower()
    ]
    if name is None:
        return Reply(200, {"value": rows})
    if not rows:
        raise Refused(404, "ResourceNotFound", f"The Resource '{name}' was not found.")
    return Reply(200, rows[0])


def _insights(one: Impact, method: str, name: str | None) -> Reply | None:
    if method != "GET":
        return None
    if name is None:
        one.tell()
        return Reply(200, {"value": one.insights})
    for insight in one.insights:
        if insight["name"].lower() == name.lower():
            return Reply(200, insight)
    raise Refused(404, "ResourceNotFound", f"The Resource '{name}' was not found.")


def _put(cloud: Cloud, name: str, body: Any) -> Reply:
    properties = _checked(name, body)
    before = cloud.impacts.get(name.lower())
    if before:
        before.puts += 1
        before.properties = properties
        return Reply(200, before.document())
    made = Impact(name, properties)
    cloud.impacts[name.lower()] = made
    fault = cloud.trouble.take("insight", host=made.host)
    if fault:
        made.codes = [str(fault["code"])]
    cloud.unhealthy.add(made.host)
    operation = Operation(status="Succeeded", document=made.document())
    operation.done.set()
    cloud.operations[operation.id] = operation
    where = f"{_PROVIDER}/locations/emulated"
    return cloud.begun(operation, 201, made.document(), where, "Azure-AsyncOperation")


def _checked(name: str, body: Any) -> Document:
    """The properties of a report.

    Raises:
        Refused: as Azure refuses it.
    """
    if not _NAME.fullmatch(name):
        raise Refused(400, "InvalidResourceName", f"'{name}' is no name of a workload impact.")
    if not isinstance(body, dict) or not isinstance(body.get("properties"), dict):
        raise Refused(400, "InvalidRequestContent", "A workload impact needs properties.")
    properties: Document = body["properties"]
    strange = sorted({*body} - {"properties"} | set(properties) - _PROPERTIES)
    if strange:
        said = f"Could not find member '{strange[0]}' on object of type 'WorkloadImpact'."
        raise Refused(400, "InvalidRequestContent", said)
    need(properties, "startDateTime", "impactedResourceId", "impactCategory")
    category = properties["impactCategory"]
    if category not in categories():
        raise Refused(400, "InvalidImpactCategory", f"The category '{category}' is not known.")
    more = properties.get("additionalProperties") or {}
    if not more.get("PhysicalHostName") and not more.get("VmUniqueId"):
        said = "A report of a node needs PhysicalHostName or VmUniqueId."
        raise Refused(400, "MissingPhysicalHostName", said)
    return {key: value for key, value in properties.items() if key != "reportedTimeUtc"}


def host_of(cloud: Cloud, machine: str) -> str:
    """The physical host of a machine. One that was deallocated comes to another host, where its
    host was reported."""
    key = machine.lower()
    if key not in cloud.hosts:
        cloud.hosts[key] = f"HOST{len(cloud.used_hosts):08d}"
        cloud.used_hosts.append(cloud.hosts[key])
    return cloud.hosts[key]


def pool(host: str, machine: str) -> bytes:
    """The key-value pairs that Hyper-V's host gives its guest, as Linux' hv_kvp_daemon keeps them
    in /var/lib/hyperv/.kvp_pool_3: a key of 512 bytes and a value of 2,048, both ended by a NUL."""
    pairs = {
        "HostName": host,
        "HostingSystemOsMajor": "10",
        "PhysicalHostName": host,
        "PhysicalHostNameFullyQualified": host,
        "VirtualMachineName": machine,
    }
    return b"".join(
        key.encode().ljust(512, b"\0") + value.encode().ljust(2048, b"\0")
        for key, value in pairs.items()
    )


def placed_again(cloud: Cloud, machine: str) -> None:
    """A machine starts after its deallocation."""
    if host_of(cloud, machine) in cloud.unhealthy:
        cloud.hosts.pop(machine.lower())
        host_of(cloud, machine)


def state(cloud: Cloud) -> list[Document]:
    """Each report, for tests."""
    return [
        {
            "name": one.name,
            "puts": one.puts,
            "host": one.host,
            "category": one.properties["impactCategory"],
            "resource": one.properties["impactedResourceId"],
        }
        for one in cloud.impacts.values()
    ]
