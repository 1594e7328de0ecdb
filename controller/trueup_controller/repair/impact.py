"""Reports to Azure's Guest Health Reporting, by Azure Resource Manager.

Sources: https://learn.microsoft.com/azure/azure-impact-reporting/guest-health-impact-report (call,
api-version, PhysicalHostName), Azure/azure-rest-api-specs specification/impact (names, answers),
Azure/ai-infrastructure-on-azure@3422093 skills/slurm/azure_node_health_report.md (insights and
their api-version), Azure/azurehpc-health-checks@0e0a1ac triggerGHR/triggerGHR.sh (body).
"""

from __future__ import annotations

import re
import uuid
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from trueup_node import rest
from trueup_node.errors import BadInput, TrueupError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..azure.manager import Manager
    from .case import Case

REPORT_VERSION: Final = "2023-02-01-preview"
INSIGHT_VERSION: Final = "2025-01-01-preview"
COMPUTE_VERSION: Final = "2024-07-01"
_NAMES: Final = uuid.UUID("0d1f6c57-3f35-5a43-8a3c-7a0a4a1d1c52")
_MOST_TEXT: Final = 1000
_NOT_FOUND: Final = 404
_NODE: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_RESOURCE: Final = re.compile(
    r"/subscriptions/[^/]+/resourceGroups/[^/]+/providers/Microsoft\.Compute/"
    r"(?:virtualMachines/[^/]+|virtualMachineScaleSets/[^/]+/virtualMachines/[^/]+)",
    re.IGNORECASE,
)


class Insight(NamedTuple):
    """Azure's word on a report.

    Attributes:
        status: such as NodeRemovedFromService; its category where it has none.
        terminal: whether none follows.
    """

    name: str
    status: str
    terminal: bool
    text: str


class Machine(NamedTuple):
    """A VM as Azure names it."""

    resource_id: str
    vm_id: str


def report_name(case: Case) -> str:
    """The name of the case's next report: the same each time, so that one that is sent again is
    the same report."""
    return f"trueup-{uuid.uuid5(_NAMES, f'{case.id}/{len(case.reports) + 1}').hex}"


def report_body(case: Case) -> dict[str, Any]:
    """The report.

    Raises:
        BadInput: something is missing without which Azure cannot act.
    """
    require_host(case)
    if not is_machine(case.resource_id):
        raise BadInput(
            f"the resource id of {case.node} is not known: `trueup case record {case.id} identified"
            " --resource-id /subscriptions/...`"
        )
    begun = case.test.at if case.reports and case.test else case.opened.first_symptom
    texts = [case.opened.meaning, *(finding.text for finding in case.findings)]
    more = {"PhysicalHostName": case.physical_host}
    if case.vm_id:
        more["VmUniqueId"] = case.vm_id
    return {
        "properties": {
            "startDateTime": begun,
            "impactCategory": case.opened.category,
            "impactDescription": "; ".join(dict.fromkeys(filter(None, texts)))[:_MOST_TEXT],
            "impactedResourceId": case.resource_id,
            "additionalProperties": more,
        }
    }


def require_host(case: Case) -> None:
    """Refuse a case without its node's physical host.

    Raises:
        BadInput: it is not known.
    """
    if not case.physical_host:
        raise BadInput(
            f"the physical host of {case.node} is not known, and Azure cannot act on a report"
            " without it: run playbooks/identify.yml (it reads /var/lib/hyperv/.kvp_pool_3), then"
            f" `trueup case record {case.id} identified --host NAME`"
        )


def is_machine(resource_id: str) -> bool:
    """Whether it is the id of a VM or of an instance of a scale set."""
    return bool(_RESOURCE.fullmatch(resource_id))


class Impact:
    """Azure Resource Manager, for reports.

    Args:
        manager: signed in.
        subscription: the one that is registered for Guest Health Reporting; its machines' own
            otherwise.
    """

    def __init__(self, manager: Manager, subscription: str = "") -> None:
        self._manager = manager
        self._subscription = subscription or manager.login.subscriptions[0]

    def machine(self, node: str) -> Machine:
        """The VM with this name.

        Raises:
            BadInput: there is none, or more than one.
        """
        name = node.partition(".")[0]
        if not _NODE.fullmatch(name):
            raise BadInput(f"{node!r} is no name of a VM: give --resource-id")
        rows = [
            row
            for table, kind in (
                ("Resources", "microsoft.compute/virtualmachines"),
                ("ComputeResources", "microsoft.compute/virtualmachinescalesets/virtualmachines"),
            )
            for row in self._manager.query(
                f"{table}\n| where type =~ '{kind}'\n"
                f"| where name =~ '{name}' or"
                f" tostring(properties.osProfile.computerName) =~ '{name}'\n"
                "| project id, vmid = tostring(properties.vmId)\n| order by id asc"
            )
        ]
        if len(rows) != 1:
            count = f"{len(rows)} VMs are" if rows else "no VM is"
            raise BadInput(
                f"{count} called {node} in the login's subscription: give its id (`trueup case"
                " record CASE identified --resource-id /subscriptions/...`)"
            )
        return Machine(str(rows[0]["id"]), str(rows[0].get("vmid") or ""))

    def report(self, name: str, body: Mapping[str, Any]) -> None:
        """Send a report, unless Azure has it."""
        path = self._path(name)
        query = {"api-version": REPORT_VERSION}
        try:
            self._manager.get(path, query)
        except rest.Refused as error:
            if error.status != _NOT_FOUND:
                raise
        else:
            return
        # Sent again it is the same report.
        response = self._manager.request("PUT", path, query, body, question=True)
        self._manager.finished(response, f"report {name}")

    def insights(self, name: str) -> list[Insight]:
        """Azure's words on a report, in their order."""
        rows = self._manager.every(f"{self._path(name)}/insights", INSIGHT_VERSION)
        return sorted(map(_insight, rows), key=lambda insight: insight.terminal)

    def move(self, resource_id: str) -> None:
        """Deallocate and start a VM, which brings it to a healthy host."""
        for action in ("deallocate", "start"):
            path = f"{resource_id}/{action}"
            query = {"api-version": COMPUTE_VERSION}
            # Both may be asked again.
            response = self._manager.request("POST", path, query, {}, question=True)
            self._manager.finished(response, f"{action} {resource_id.rpartition('/')[2]}")

    def _path(self, name: str) -> str:
        provider = f"/subscriptions/{self._subscription}/providers/Microsoft.Impact"
        return f"{provider}/workloadImpacts/{name}"


def _insight(row: Mapping[str, Any]) -> Insight:
    """An insight of a list.

    Raises:
        TrueupError: it has no properties.
    """
    properties = row.get("properties")
    if not isinstance(properties, dict):
        raise TrueupError("Azure gives an insight without properties")
    details, content = (
        details if isinstance(details, dict) else {}
        for details in (properties.get("additionalDetails"), properties.get("content"))
    )
    status = details.get("statusCode") or properties.get("status") or properties.get("category")
    ends = details.get("terminalInsight", details.get("terminalState"))
    return Insight(
        str(row.get("name") or ""),
        str(status or "unknown"),
        str(ends).lower() in ("true", "1"),
        " ".join(str(content.get("title") or "").split())[:200],
    )
