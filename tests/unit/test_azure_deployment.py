"""One deployment in one place, against a scripted Azure."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from helpers import parametrized, said
from provisioning import RUN, known, made
from test_rest import Opened
from trueup_controller.azure import deployment as azure
from trueup_controller.azure.login import Login
from trueup_controller.azure.manager import Manager
from trueup_node import rest
from trueup_node.errors import BadInput

GROUP = "/subscriptions/sub/resourcegroups/trueup-test"
NAME = f"trueup-{RUN}"
DEPLOYMENT = f"{GROUP}/providers/Microsoft.Resources/deployments/{NAME}"
KEY = "ssh-ed25519 AAAA run"
HERE = (200, {"location": "southcentralus", "tags": {"run": RUN}})
MISSING = (404, {"error": {"code": "ResourceGroupNotFound", "message": "None."}})
RUNNING = (201, {}, {"Azure-AsyncOperation": "https://arm.example/operations/1"})


def permissions(*without: str) -> tuple[int, dict[str, Any]]:
    """Those of an Owner, or with ``without`` of another role, as Azure has them."""
    return (200, {"value": [{"actions": ["*"], "notActions": list(without), "dataActions": []}]})


# Of the role Contributor.
CONTRIBUTOR = permissions(
    "Microsoft.Authorization/*/Delete",
    "Microsoft.Authorization/*/Write",
    "Microsoft.Authorization/elevateAccess/Action",
)


class Azure:
    """Answers by method and end of path, in their order; the last one stays."""

    def __init__(self, **routes: list[Any]) -> None:
        routes = {"GET_permissions": [permissions()], **routes}
        self.routes = {name: list(answers) for name, answers in routes.items()}
        self.asked: list[tuple[str, str]] = []
        self.bodies: list[Any] = []

    def __call__(self, url: str, **given: Any) -> Any:
        path = re.sub(r"^https://[^/]+|\?.*", "", url)
        self.asked.append((given["method"], path))
        self.bodies.append(json.loads(given["data"] or "null"))
        answers = self.routes[f"{given['method']}_{self.name(path)}"]
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        return Opened(answer)(url, **given)

    @staticmethod
    def name(path: str) -> str:
        if path == GROUP:
            return "group"
        return "deployment" if path == DEPLOYMENT else path.rpartition("/")[2]

    def manager(self, **more: Any) -> Manager:
        login = Login("https://arm.example", "s3cret", ("sub",))
        return Manager(login, self, sleep=lambda _: None, jitter=lambda: 0.0, **more)

    def deployment(self, **given: Any) -> azure.Deployment:
        return azure.Deployment(self.manager(), made(**given), known(), RUN, lambda _: None)


FAILED = (
    200,
    {"status": "Failed", "error": {"code": "DeploymentFailed", "message": "See."}},
    {"x-ms-request-id": "ab-12"},
)


# ---- the group ----------------------------------------------------------------------------------


@parametrized(("group", "text"))
def test_a_group_that_is_not_the_runs_is_refused(group: dict[str, Any], text: str) -> None:
    cloud = Azure(GET_group=[(200, group)])
    assert text in said(cloud.deployment().make_group, BadInput)


def test_a_group_that_azure_deletes_is_waited_for() -> None:
    going = (200, {**HERE[1], "properties": {"provisioningState": "Deleting"}})
    cloud = Azure(GET_group=[going, going, going, MISSING], PUT_group=[(201, {})])
    cloud.deployment().make_group()
    assert [method for method, _ in cloud.asked] == [*["GET"] * 4, "PUT"]


# ---- the deployment -----------------------------------------------------------------------------


def test_a_deployment_that_runs_is_waited_for_and_not_ordered_again() -> None:
    states = [
        (200, {"properties": {"provisioningState": word}}) for word in ("Running", "Succeeded")
    ]
    cloud = Azure(GET_deployment=[states[0], states[0], states[1]])
    cloud.deployment().deploy(KEY)
    assert {method for method, _ in cloud.asked} == {"GET"}


def test_a_lost_order_that_azure_took_is_waited_for() -> None:
    states = [
        (200, {"properties": {"provisioningState": word}}) for word in ("Running", "Succeeded")
    ]
    cloud = Azure(
        GET_deployment=[MISSING, states[0], states[0], states[1]],
        PUT_deployment=[ConnectionResetError("gone")],
    )
    cloud.deployment().deploy(KEY)
    assert [method for method, _ in cloud.asked] == ["GET", "PUT", "GET", "GET", "GET"]


def test_a_lost_order_that_azure_did_not_take_is_said() -> None:
    cloud = Azure(GET_deployment=[MISSING], PUT_deployment=[ConnectionResetError("gone")])
    said(lambda: cloud.deployment().deploy(KEY), rest.Lost)


def test_operations_that_cannot_be_read_hide_no_failure() -> None:
    cloud = Azure(
        GET_deployment=[MISSING], PUT_deployment=[RUNNING], GET_1=[FAILED], GET_operations=[MISSING]
    )
    text = said(lambda: cloud.deployment().deploy(KEY), azure.NotDeployed)
    assert "DeploymentFailed: See. (request ab-12)" in text


def test_a_template_that_azure_refuses_names_the_innermost_cause() -> None:
    error = {"code": "InvalidTemplateDeployment", "message": "It is not valid."}
    error["details"] = [{"code": "QuotaExceeded", "message": "120 more are needed."}]  # type: ignore[assignment]
    refused = (400, {"error": error}, {"x-ms-request-id": "ab-12"})
    cloud = Azure(GET_deployment=[MISSING], PUT_deployment=[refused])
    with pytest.raises(azure.NotDeployed) as raised:
        cloud.deployment().deploy(KEY)
    assert raised.value.no_room is True
    assert "120 more are needed" in str(raised.value)
    assert "ab-12" in str(raised.value)


@pytest.mark.parametrize("status", [401, 403])
def test_a_login_without_rights_is_said_once(status: int) -> None:
    refused = (status, {"error": {"code": "AuthorizationFailed", "message": "No."}})
    cloud = Azure(GET_deployment=[MISSING], PUT_deployment=[refused])
    text = said(lambda: cloud.deployment().deploy(KEY), rest.Refused)
    assert text.count("role Contributor") == (1 if status == 403 else 0)


# ---- what-if ------------------------------------------------------------------------------------


def what_if(*changes: Any) -> list[azure.Change]:
    later = (202, "", {"Location": "https://arm.example/operations/1", "Retry-After": "2"})
    document = {"status": "Succeeded", "properties": {"changes": list(changes)}}
    cloud = Azure(GET_group=[HERE], POST_whatIf=[later], GET_1=[(202, ""), (200, document)])
    return cloud.deployment().what_if(KEY)


def change(kind: str, **more: Any) -> dict[str, Any]:
    return {
        "resourceId": f"{GROUP}/providers/Microsoft.Compute/virtualMachines/a",
        "changeType": kind,
        **more,
    }


def test_changes_count_and_noise_does_not() -> None:
    principal = "[reference(resourceId('a', 'b'), '2024-07-01', 'Full').identity.principalId]"
    noise = [
        {"path": "id", "propertyChangeType": "Modify", "before": "x", "after": principal},
        {"path": "properties.x", "propertyChangeType": "NoEffect", "before": 1, "after": 2},
        {"path": "properties.filled", "propertyChangeType": "Delete", "before": 1},
    ]
    real = {
        "path": "sku",
        "propertyChangeType": "Modify",
        "children": [{"path": "capacity", "propertyChangeType": "Modify", "before": 1, "after": 2}],
    }
    found = what_if(
        change("NoChange"),
        change("Ignore"),
        change("Modify", delta=noise),
        change("Modify", delta=[*noise, real]),
        change("Create", after={"name": "a"}),
        change("Deploy"),
        change("Unsupported", unsupportedReason="It is an extension."),
    )
    assert [one.counts for one in found] == [False, False, False, True, True, True, False]
    assert (found[3].before, found[3].after) == ("sku.capacity: 1\n", "sku.capacity: 2\n")
    assert found[6].why == "It is an extension."


def test_a_what_if_changes_nothing_and_may_be_asked_again() -> None:
    document = {"status": "Succeeded", "properties": {"changes": []}}
    answers = [(502, {"error": {"code": "BadGateway", "message": "Bad."}}), (200, document)]
    assert Azure(GET_group=[HERE], POST_whatIf=answers).deployment().what_if(KEY) == []


def test_a_what_if_that_fails_names_azures_code() -> None:
    document = {"status": "Failed", "error": {"code": "InvalidTemplate", "message": "Bad."}}
    cloud = Azure(GET_group=[HERE], POST_whatIf=[(200, document)])
    assert "InvalidTemplate: Bad." in said(lambda: cloud.deployment().what_if(KEY), rest.Failed)


@pytest.mark.parametrize("document", [{}, {"properties": {}}, {"properties": {"changes": [1]}}])
def test_a_what_if_that_is_not_as_documented_is_refused(document: dict[str, Any]) -> None:
    cloud = Azure(GET_group=[HERE], POST_whatIf=[(200, document)])
    assert "what-if" in said(lambda: cloud.deployment().what_if(KEY))


# ---- what stands against it ---------------------------------------------------------------------


def sku(name: str, region: str, **more: Any) -> dict[str, Any]:
    return {"resourceType": "virtualMachines", "name": name, "locations": [region], **more}


def usage(name: str, limit: int) -> dict[str, Any]:
    return {"name": {"value": name}, "limit": limit, "currentValue": 0}


def nothing_against(*rights: Any, **given: Any) -> tuple[Azure, Any]:
    """A cloud with room for it, and what stands against it there."""
    sizes = ("Standard_D4d_v5", "Standard_HB120rs_v3")
    limits = ("cores", "standardHBv3Family", "standardDDv5Family")
    cloud = Azure(
        GET_permissions=list(rights),
        GET_skus=[(200, {"value": [sku(size, "southcentralus") for size in sizes]})],
        GET_usages=[(200, {"value": [usage(name, 999) for name in limits]})],
    )
    return cloud, cloud.deployment(**given).against()


def test_a_group_that_is_not_there_gives_no_right() -> None:
    with pytest.raises(BadInput, match="right: "):
        nothing_against(CONTRIBUTOR, MISSING)


def test_permissions_that_may_not_be_read_forbid_nothing_and_are_said() -> None:
    refused = (403, {"error": {"code": "AuthorizationFailed", "message": "No."}})
    against, unknown = nothing_against(refused)[1]
    assert (against, len(unknown)) == ([], 1)
    assert "may not read its permissions" in unknown[0]


def test_a_quota_that_azure_does_not_list_is_said_and_forbids_nothing() -> None:
    sizes = ("Standard_D4d_v5", "Standard_HB120rs_v3")
    cloud = Azure(
        GET_skus=[(200, {"value": [sku(size, "southcentralus") for size in sizes]})],
        GET_usages=[(200, {"value": [usage("cores", 1000), usage("standardHBv3Family", 999)]})],
    )
    against, unknown = cloud.deployment().against()
    assert against == []
    assert unknown == [
        "the subscription's answer has no quota 'standardDDv5Family' (Standard_D4d_v5)"
    ]


def test_the_nearest_region_is_one_that_the_subscription_has_all_of_it_in() -> None:
    every = [
        sku(size, region)
        for size in ("Standard_D4d_v5", "Standard_HB120rs_v3")
        for region in ("westeurope",)
    ]
    limits = ("standardHBv3Family", "cores", "standardDDv5Family")
    cloud = Azure(
        GET_skus=[(200, {"value": every})],
        GET_usages=[(200, {"value": [usage(name, 999) for name in limits]})],
    )
    assert "is westeurope (" in cloud.deployment().nearest()
    cloud.routes["GET_skus"] = [(200, {"value": []})]
    assert cloud.deployment().nearest().startswith("none of ")
