"""The ways by which a report reaches Azure."""

from __future__ import annotations

import json
import os
import urllib.parse
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from trueup_node import rest
from trueup_node.errors import BadInput

from .impact import (
    REPORT_VERSION,
    Impact,
    Insight,
    Machine,
    report_body,
)

if TYPE_CHECKING:
    from ..azure.manager import Manager
    from .case import Case
    from .steps import Way

_CONFLICT: Final = 409
_VARIABLES: Final = ("CYCLECLOUD_URL", "CYCLECLOUD_USERNAME", "CYCLECLOUD_PASSWORD")


class Arm:
    """Azure Resource Manager; signs in when it is first asked.

    Args:
        connect: gives Azure Resource Manager.
    """

    way: Way = "arm"

    def __init__(self, connect: Callable[[], Manager], subscription: str = "") -> None:
        self._connect, self._subscription = connect, subscription
        self._impact: Impact | None = None

    @property
    def impact(self) -> Impact:
        if self._impact is None:
            self._impact = Impact(self._connect(), self._subscription)
        return self._impact

    def machine(self, node: str) -> Machine:
        return self.impact.machine(node)

    def report(self, case: Case, name: str) -> None:
        self.impact.report(name, report_body(case))

    def insights(self, _case: Case, name: str) -> list[Insight]:
        return self.impact.insights(name)

    def move(self, case: Case) -> None:
        self.impact.move(case.resource_id)


class Portal:
    """A person, who gets the report printed.

    Args:
        tell: gets its lines.
    """

    way: Way = "portal"

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell

    def machine(self, _node: str) -> Machine:
        return Machine("", "")

    def report(self, case: Case, name: str) -> None:
        body = report_body(case)
        subscription = case.resource_id.split("/")[2]
        url = (
            f"https://management.azure.com/subscriptions/{subscription}/providers/Microsoft.Impact"
            f"/workloadImpacts/{name}?api-version={REPORT_VERSION}"
        )
        self._tell(f"az rest --method PUT --url '{url}' --body @report.json   # report.json:")
        self._tell(json.dumps(body, indent=2))
        raise BadInput(
            "whoever has the role Impact Reporter sends it, or enters its facts in the portal; then"
            f" `trueup case record {case.id} reported --impact {name}`"
        )

    def insights(self, _case: Case, _name: str) -> list[Insight]:
        return []

    def move(self, case: Case) -> None:
        raise BadInput(
            "deallocate and start the VM (`az vm deallocate`, `az vm start`), then `trueup case"
            f" record {case.id} moved`"
        )


class CycleCloud(Portal):
    """CycleCloud's node action.

    Source: https://learn.microsoft.com/azure/cyclecloud/api, "Submit Guest Health Report for
    cluster node": category and description in the query; 202, or 409 where the node has one.
    Its answer to a question about a report is not documented: insights are recorded by hand.
    """

    way: Way = "cyclecloud"

    def __init__(self, cluster: str, tell: Callable[[str], None]) -> None:
        super().__init__(tell)
        missing = [name for name in _VARIABLES if not os.environ.get(name)]
        if not cluster or missing:
            raise BadInput(
                "--report-by cyclecloud needs --cluster NAME and, in the environment,"
                f" {', '.join(_VARIABLES)}"
            )
        self._cluster = cluster

    def report(self, case: Case, _name: str) -> None:
        from ansible.module_utils.urls import open_url  # noqa: PLC0415 WHY: only this way needs it
        from trueup_node.sites.cyclecloud_api import Api, Server  # noqa: PLC0415

        url, user, password = (os.environ[name] for name in _VARIABLES)
        ca_path = os.environ.get("REQUESTS_CA_BUNDLE")
        api = Api(Server(url, user, password, ca_path=ca_path), open_url)
        cluster, node = (urllib.parse.quote(name, safe="") for name in (self._cluster, case.node))
        query = {"category": case.opened.category, "description": case.opened.meaning}
        try:
            api.request("POST", f"/clusters/{cluster}/nodes/{node}/ghr", query, {})
        except rest.Refused as error:
            # The node has a report already, as after a kill.
            if error.status != _CONFLICT:
                raise
