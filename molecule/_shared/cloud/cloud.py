"""The emulated cloud: as much of Azure as trueup calls.

A stand-in, and no Azure (docs/dev/stand_ins.md). It answers the calls below with the statuses,
headers and paging of Microsoft's documents, and refuses paths, api-versions and members that it
does not know.
"""

from __future__ import annotations

import math
import re
import secrets
import traceback
import urllib.parse
from typing import TYPE_CHECKING, Any

from . import capacity, deployments, desktops, impact, metadata, rights
from .compute import VM, Disk
from .graph import GRAPH, GRAPH_VERSIONS, Graph
from .prices import PRICES, Prices
from .providers import PROVIDERS
from .replies import CLIENT, SECRET, SUBSCRIPTION, TENANT, Refused, Reply, refusal, versioned
from .resources import Call, Operation, Resource, squeezed, subscribed, target
from .sets import ScaleSet, uniform
from .store import Group, Store
from .versions import known_version

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from .kql import Row
    from .machines import Hardware
    from .resources import Document

BATCH_VERSIONS = ("2015-11-01",)
NETWORK_VERSIONS = ("2023-11-01", "2024-05-01")
_TAGS = re.compile(r"tagName eq '([^']*)'(?: and tagValue eq '([^']*)')?")
_LOCATION = re.compile(r"location eq '([^']*)'")
_SUBSCRIPTION = f"/subscriptions/{SUBSCRIPTION}"
_PERMISSIONS = "/providers/microsoft.authorization/permissions"
_GROUPS = f"{_SUBSCRIPTION}/resourcegroups"
_OPERATIONS = re.compile(
    r"/subscriptions/[^/]+/(?:providers/[^/]+/locations/[^/]+/)?(operations|operationresults)/([^/]+)"
)
_LIST = re.compile(r"/providers/microsoft\.compute/(?:locations/([^/]+)/)?(usages|skus)$")
Query = dict[str, str]


class Cloud(Store):
    """The resources of one subscription, and what was asked.

    Attributes:
        graph: Resource Graph.
        prices: the Retail Prices API.
        faults: the last part of a path to what goes wrong there, used up in order: a Reply instead
            of the answer, or a function from the answer's Reply to another one; None is no fault.
            ``trouble`` (faults.py) holds those that are asked for by name.
        cut: paths' last parts whose next answer ends in the middle of its JSON.
        calls: (method, path, query, body) of each request but those for tokens.
        lifetime_seconds: of a token.
        limits: vcpus by (region, quota's name without blanks and in small letters); a region
            ``""`` is every one.
        restricted: (size, region, zone or nothing) that this subscription may not have.
        launched: whether a policy of the subscription gives each VM without a security profile
            Trusted Launch with Secure Boot.
        standard_security: whether the feature of security type Standard is registered.
        notice_seconds: between an eviction's notice and its end.
        events: a machine's document of scheduled events, by its id in lower case.
        impacts: reports on nodes, by name in lower case.
        hosts: a machine's physical host, by its id in lower case; ``used_hosts`` all so far.
        unhealthy: hosts that were reported.
        secret: the word that calls to /emulated need in the header Emulated-Secret.
        validate: (type, body, api-version): refuses what Azure's models do not know.
    """

    def __init__(self, hardware: Hardware | None = None, *, pace: float = 0.0) -> None:
        super().__init__(hardware, pace=pace)
        self.url = ""
        self.graph, self.prices = Graph(), Prices()
        self.faults: dict[str, list[Any]] = {}
        self.cut: list[str] = []
        self.calls: list[tuple[str, str, Query, Any]] = []
        self.tokens: dict[str, rights.Token] = {}
        self.lifetime_seconds = 3600.0
        self.deployments: dict[str, deployments.Deployment] = {}
        self.limits: dict[tuple[str, str], int] = {}
        self.restricted: list[tuple[str, str, str]] = []
        self.launched = False
        self.standard_security = False
        self.notice_seconds = 30.0
        self.events: dict[str, Document] = {}
        self.impacts: dict[str, impact.Impact] = {}
        self.hosts: dict[str, str] = {}
        self.used_hosts: list[str] = []
        self.unhealthy: set[str] = set()
        self.secret = secrets.token_urlsafe(16)
        self.validate: Callable[[str, Document, str], None] = lambda _kind, _body, _version: None
        self._approved: set[str] = set()

    # -- tokens --

    def token(self, principal: str = rights.LOGIN) -> str:
        return rights.issue(self, principal, "")

    def sign_in(self, method: str, path: str, query: Query, body: Any) -> Reply | None:
        """An answer of the token endpoints, or None where the path is none of theirs."""
        if path == "/metadata/identity/oauth2/token":
            if query.get("api-version") != "2018-02-01" or "resource" not in query:
                return Reply(400, {"error": "invalid_request", "error_description": "resource"})
            seconds = str(int(self.lifetime_seconds))
            return Reply(
                200,
                {
                    "access_token": rights.issue(self, rights.LOGIN, query["resource"]),
                    "expires_in": seconds,
                    "resource": query["resource"],
                    "token_type": "Bearer",
                },
            )
        start = f"{self.url}/{TENANT}"
        if path == f"/{TENANT}/v2.0/.well-known/openid-configuration":
            return Reply(
                200,
                {
                    "issuer": f"{start}/v2.0",
                    "authorization_endpoint": f"{start}/oauth2/v2.0/authorize",
                    "token_endpoint": f"{start}/oauth2/v2.0/token",
                },
            )
        if (method, path) == ("POST", f"/{TENANT}/oauth2/v2.0/token"):
            wanted = {"client_id": CLIENT, "client_secret": SECRET}
            if body.get("grant_type") != "client_credentials" or any(
                body.get(key) != value for key, value in wanted.items()
            ):
                said = "AADSTS7000215: the client secret is not the one of this application"
                return Reply(401, {"error": "invalid_client", "error_description": said})
            word = rights.issue(self, rights.LOGIN, str(body.get("scope", "")))
            return Reply(
                200,
                {
                    "access_token": word,
                    "expires_in": int(self.lifetime_seconds),
                    "token_type": "Bearer",
                },
            )
        return None

    # -- calls --

    def call(self, method: str, path: str, query: Query, body: Any, header: str) -> Reply:
        """The answer to a request with a token, which prices need not have."""
        path = urllib.parse.unquote(path)
        if path.startswith("/emulated/"):
            return self._of_tests(method, path, body)
        if (method, path) == ("POST", desktops.BROKER):
            return desktops.register(self, body)
        try:
            if (method, path) == ("GET", PRICES):
                struck = self.trouble.reply(method=method, path=path)
                return struck or self.prices.answer(self.url, query)
            token = rights.trusted(self, header)
            struck = self.trouble.reply(method=method, path=path)
            if struck:
                return struck
            subscribed(path)
            if path.lower() in (GRAPH, "/batch"):
                rights.allowed(self, token, "GET", _SUBSCRIPTION)
            # Whoever began an operation may look after it.
            if target(path) and not _OPERATIONS.fullmatch(path.lower()):
                rights.allowed(self, token, method, path)
            return self.do(method, path, query, body)
        except Refused as refused:
            return refused.reply
        except Exception as error:  # noqa: BLE001 WHY: a caller must have an answer
            self.broken.append(traceback.format_exc())
            said = f"The emulated cloud itself failed: {error!r}"
            return refusal(500, "InternalServerError", said)

    def do(self, method: str, path: str, query: Query, body: Any) -> Reply:
        """The answer to a request that is allowed."""
        low = path.rstrip("/").lower()
        if (method, low) == ("POST", GRAPH):
            return versioned(query, GRAPH_VERSIONS) or self.graph.answer(body, self.listed())
        if (method, low) == ("POST", "/batch"):
            return versioned(query, BATCH_VERSIONS) or self._batch(body)
        if method == "GET" and low.endswith("/networkinterfaces"):
            found = self.interfaces.get(low.removesuffix("/networkinterfaces"))
            if found is not None:
                return versioned(query, NETWORK_VERSIONS) or Reply(200, {"value": found})
        for answer in (
            self._of_operation,
            self._of_permissions,
            self._of_impact,
            self._of_subscription,
            self._of_groups,
            self._of_deployment,
            self._of_resource,
        ):
            reply = answer(method, path.rstrip("/"), query, body)
            if reply is not None:
                return reply
        raise Refused(404, "InvalidResourceType", f"The emulated cloud knows no {method} {path}.")

    def _batch(self, body: Any) -> Reply:
        """Several GETs in one call, as azure.azcollection's inventory asks."""
        answers = []
        for one in body["requests"]:
            parts = urllib.parse.urlsplit(one["url"])
            path = urllib.parse.unquote(parts.path).replace("//", "/")
            try:
                if one.get("httpMethod") != "GET":
                    raise Refused(400, "InvalidRequest", "The emulated cloud takes GETs only.")
                reply = self.do("GET", path, dict(urllib.parse.parse_qsl(parts.query)), None)
            except Refused as refused:
                reply = refused.reply
            answers.append(
                {
                    "name": one.get("name"),
                    "httpStatusCode": reply.status,
                    "headers": reply.headers,
                    "content": reply.document,
                }
            )
        return Reply(200, {"responses": answers})

    def _of_operation(self, method: str, path: str, _: Query, __: Any) -> Reply | None:
        found = _OPERATIONS.fullmatch(path.lower())
        if method != "GET" or not found:
            return None
        operation = self.operations.get(found[2])
        if operation is None:
            raise Refused(404, "NotFound", f"There is no operation {found[2]}.")
        if found[1] == "operations":
            headers = {} if operation.done.is_set() else self.wait_header()
            return Reply(200, operation.said(), headers)
        if not operation.done.is_set():
            return Reply(202, None, {**self.links(path, "Location"), **self.wait_header()})
        if operation.error:
            return Reply(409, {"error": operation.error})
        return Reply(204, None) if operation.document is None else Reply(200, operation.document)

    def wait_header(self) -> dict[str, str]:
        return {"Retry-After": str(math.ceil(min(self.pace, 1.0)))}

    def links(self, path: str, *names: str) -> dict[str, str]:
        return dict.fromkeys(names, f"{self.url}{path}?api-version=2022-09-01")

    def begun(
        self, operation: Operation, status: int, document: Any, where: str, *names: str
    ) -> Reply:
        """The answer to what goes on: its headers by name."""
        words = {"Location": "operationresults", "Azure-AsyncOperation": "operations"}
        headers = self.wait_header()
        for name in names:
            headers |= self.links(f"{where}/{words[name]}/{operation.id}", name)
        return Reply(status, document, headers)

    def _of_permissions(self, method: str, path: str, query: Query, _: Any) -> Reply | None:
        """The login's, as Owner or by a fault as Contributor (azure-mgmt-authorization
        PermissionsOperations)."""
        scope, separator, _rest = path.lower().partition(_PERMISSIONS)
        if method != "GET" or not separator:
            return None
        known_version("Microsoft.Authorization", query.get("api-version"))
        name = scope.removeprefix(f"{_GROUPS}/")
        if scope != _SUBSCRIPTION.lower() and name not in self.groups:
            said = f"Resource group '{name}' could not be found."
            raise Refused(404, "ResourceGroupNotFound", said)
        kept = ["Microsoft.Authorization/*/Delete", "Microsoft.Authorization/*/Write"]
        row = {"actions": ["*"], "dataActions": [], "notDataActions": []}
        return Reply(
            200,
            {"value": [{**row, "notActions": kept if self.trouble.take("contributor") else []}]},
        )

    def _of_impact(self, method: str, path: str, query: Query, body: Any) -> Reply | None:
        return impact.answer(self, method, path, query, body)

    # -- the subscription --

    def _of_subscription(self, method: str, path: str, query: Query, _: Any) -> Reply | None:
        low = path.lower()
        if method != "GET":
            return None
        rest = low.removeprefix(_SUBSCRIPTION)
        found = _LIST.fullmatch(rest)
        if found and (found[2] == "usages") == bool(found[1]):
            known_version("Microsoft.Compute", query.get("api-version"))
            if found[2] == "usages":
                if found[1] not in capacity.facts()["regions"]:
                    said = f"The location '{found[1]}' is not known."
                    raise Refused(400, "InvalidLocation", said)
                return Reply(200, {"value": capacity.usages(self, found[1])})
            where = _LOCATION.fullmatch(query.get("$filter", ""))
            if query.get("$filter") and not where:
                raise Refused(400, "InvalidFilter", "Only location can be filtered by.")
            listed = capacity.skus(self, squeezed(where[1]) if where else "")
            return Reply(200, {"value": listed, "nextLink": None})
        if rest not in ("", "/locations", "/resources"):
            return None
        known_version("Microsoft.Resources", query.get("api-version"))
        if rest == "/locations":
            return Reply(200, {"value": capacity.locations()})
        if rest == "/resources":
            return Reply(200, {"value": self.heads(list(self.resources.values()), query)})
        about = {"id": _SUBSCRIPTION, "subscriptionId": SUBSCRIPTION, "tenantId": TENANT}
        return Reply(200, {**about, "displayName": "emulated", "state": "Enabled"})

    def heads(self, resources: list[Resource], query: Query) -> list[Document]:
        """Resources as a list of all types has them: without properties."""
        wanted = query.get("$filter", "")
        tagged = _TAGS.fullmatch(wanted)
        if wanted and not tagged:
            raise Refused(400, "InvalidFilter", f"The emulated cloud knows no filter {wanted!r}.")
        found = []
        for one in resources:
            view = self.view(one)
            if not self.provider(one.kind).regional or not _tagged(one.tags, tagged):
                continue
            keep = ("id", "name", "type", "location", "tags", "sku", "kind", "zones", "managedBy")
            found.append({key: view[key] for key in keep if key in view})
        return found

    # -- resource groups --

    def _of_groups(self, method: str, path: str, query: Query, body: Any) -> Reply | None:
        low = path.lower()
        if not low.startswith(_GROUPS) or "/providers/" in low or deployments.in_group(path):
            return None
        known_version("Microsoft.Resources", query.get("api-version"))
        words = path[len(_GROUPS) :].strip("/").split("/")
        name, rest = words[0], [word.lower() for word in words[1:]]
        if not name and method == "GET":
            tagged = _TAGS.fullmatch(query.get("$filter", ""))
            if query.get("$filter") and not tagged:
                raise Refused(400, "InvalidFilter", "Only tags can be filtered by.")
            every = [one for one in self.groups.values() if _tagged(one.tags, tagged)]
            return Reply(200, {"value": [one.document() for one in every]})
        if rest == ["resources"] and method == "GET":
            found = self.group(name).name
            return Reply(200, {"value": self.heads(self.within(found), query)})
        if rest or not name:
            return None
        return self._of_group(method, name, body)

    def _of_group(self, method: str, name: str, body: Any) -> Reply | None:
        if method == "PUT":
            return self._put_group(name, body)
        if method == "HEAD":
            return Reply(204 if name.lower() in self.groups else 404, None)
        found = self.group(name)
        if method == "GET":
            return Reply(200, found.document())
        if method == "PATCH":
            if not isinstance(body, dict) or set(body) - {"tags"}:
                raise Refused(400, "InvalidRequestContent", "Only tags of a group are changed.")
            found.tags = dict(body.get("tags") or {})
            return Reply(200, found.document())
        if method == "DELETE":
            operation = self.delete_group(name)
            return self.begun(operation, 202, None, _SUBSCRIPTION, "Location")
        return None

    def _put_group(self, name: str, body: Any) -> Reply:
        if not isinstance(body, dict) or not body.get("location"):
            raise Refused(400, "LocationRequired", "The location property is required.")
        strange = set(body) - {"location", "tags", "managedBy", "properties"}
        if strange:
            said = f"Could not find member '{min(strange)}' on object of type 'ResourceGroup'."
            raise Refused(400, "InvalidRequestContent", said)
        if not re.fullmatch(r"[-\w.()]{0,89}[-\w()]", name):
            said = f"The provided resource group name '{name}' has these invalid characters."
            raise Refused(400, "InvalidResourceGroup", said)
        where = squeezed(body["location"])
        if where not in capacity.facts()["regions"]:
            said = f"The provided location '{where}' is not available for resource group."
            raise Refused(400, "LocationNotAvailableForResourceGroup", said)
        there = self.groups.get(name.lower())
        if there and there.going:
            said = f"The resource group '{name}' is in deprovisioning state."
            raise Refused(409, "ResourceGroupBeingDeleted", said)
        if there and there.location != where:
            said = f"Invalid resource group location '{where}'. It already exists in"
            raise Refused(409, "InvalidResourceGroupLocation", f"{said} '{there.location}'.")
        tags = dict(body.get("tags") or {})
        if there:
            there.tags = tags
        made = there or Group(name, where, tags)
        self.groups[name.lower()] = made
        return Reply(200 if there else 201, made.document())

    def forget_group(self, name: str) -> None:
        start = f"{_GROUPS}/{name}/".lower()
        for key in [key for key in self.deployments if key.startswith(start)]:
            self.deployments.pop(key)

    # -- deployments --

    def _of_deployment(self, method: str, path: str, query: Query, body: Any) -> Reply | None:
        asked = deployments.in_group(path)
        if asked is None:
            return None
        known_version("Microsoft.Resources", query.get("api-version"))
        group, words = self.group(asked[0]), asked[1]
        own = f"{group.document()['id']}/providers/{deployments.KIND}"
        if not words:
            every = [one for key, one in self.deployments.items() if key.startswith(own.lower())]
            return Reply(200, {"value": [one.document() for one in every]})
        key, rest = f"{own}/{words[0]}".lower(), [word.lower() for word in words[1:]]
        where = f"{_SUBSCRIPTION}/providers/Microsoft.Resources/locations/{group.location}"
        if method == "POST" and rest == ["whatif"]:
            self.validate(f"{deployments.KIND}/whatIf", body, query["api-version"])
            return self._what_if(group, words[0], body, where)
        there = self.deployments.get(key)
        if method == "PUT" and not rest:
            self.validate(deployments.KIND, body, query["api-version"])
            return self._put_deployment(group, key, words[0], body, where)
        if method == "POST" and rest == ["validate"]:
            made = deployments.deployment(self, group.name, words[0], body)
            deployments.preflight(self, made)
            return Reply(200, made.document())
        if there is None:
            if method == "HEAD":
                return Reply(404, None)
            raise Refused(404, "DeploymentNotFound", f"Deployment '{words[0]}' could not be found.")
        return self._known_deployment(method, key, there, rest)

    def _what_if(self, group: Group, name: str, body: Any, where: str) -> Reply:
        made = deployments.deployment(self, group.name, name, body)
        settings = body["properties"].get("whatIfSettings") or {}
        ids_only = settings.get("resultFormat") == "ResourceIdOnly"

        def look() -> Document:
            with self.lock:
                try:
                    deployments.preflight(self, made)
                except Refused as refused:
                    return {"status": "Failed", "error": refused.error}
                changes = deployments.what_if(self, made, ids_only=ids_only)
                return {"status": "Succeeded", "properties": changes}

        began = self.operate(look, 1.0, f"{made.id}/whatif")
        return self.begun(began, 202, None, where, "Location")

    def _put_deployment(self, group: Group, key: str, name: str, body: Any, where: str) -> Reply:
        there = self.deployments.get(key)
        if there and there.operation and not there.operation.done.is_set():
            said = f"Unable to edit or replace deployment '{name}': it is still active."
            raise Refused(409, "DeploymentActive", said)
        if group.going:
            said = f"The resource group '{group.name}' is in deprovisioning state."
            raise Refused(409, "ResourceGroupBeingDeleted", said)
        made = deployments.deployment(self, group.name, name, body)
        deployments.preflight(self, made)
        operation = deployments.begin(self, made)
        self.deployments[key] = made
        status, document = 200 if there else 201, made.document()
        return self.begun(operation, status, document, where, "Azure-AsyncOperation")

    def _known_deployment(
        self, method: str, key: str, there: deployments.Deployment, rest: list[str]
    ) -> Reply | None:
        if method == "GET" and not rest:
            return Reply(200, there.document())
        if method == "HEAD" and not rest:
            return Reply(204, None)
        if method == "POST" and rest == ["cancel"]:
            deployments.cancel(self, there)
            return Reply(204, None)
        if method == "GET" and rest == ["operations"]:
            return Reply(200, {"value": there.operations()})
        if method == "DELETE" and not rest:
            self.deployments.pop(key)
            return Reply(204, None)
        return None

    # -- resources of any type --

    def _of_resource(self, method: str, path: str, query: Query, body: Any) -> Reply | None:
        asked = target(path)
        if asked is None or not asked.namespace or not asked.kinds:
            return None
        kind = "/".join((asked.namespace, *asked.kinds))
        # Of a type that is not known, the path may be of a part or an action of a resource.
        for length in range(0 if kind.lower() in PROVIDERS else len(asked.names), 0, -1):
            rest = [
                word
                for pair in zip(asked.kinds[length:], [*asked.names[length:], ""], strict=False)
                for word in pair
                if word
            ]
            own = _cut(path, len(rest))
            above = "/".join((asked.namespace, *asked.kinds[:length]))
            if above.lower() in PROVIDERS and rest:
                resource = self.resource(own)
                # A set's adapters are a list of Network's below a resource of Compute's.
                adapters = rest[-1].lower() == "networkinterfaces"
                namespace = "Microsoft.Network" if adapters else asked.namespace
                known_version(namespace, query.get("api-version"))
                return self._acted(resource, method, rest, query, body)
        if len(asked.kinds) > len(asked.names):
            return self._list(method, asked.scope, path, kind, query)
        self.provider(kind)
        known_version(asked.namespace, query.get("api-version"))
        where = self._place(asked.namespace)
        if method in ("GET", "HEAD"):
            found = self.resource(path)
            return Reply(200, self.detailed(found, query))
        if method == "DELETE":
            return self._begin_delete(path, where, query)
        if method == "PATCH":
            self.validate(f"{kind}:patch", body, query["api-version"])
            body = _merged(self.resource(path).body, body)
            method = "PUT"
        if method != "PUT":
            return None
        self.validate(kind, body, query["api-version"])
        made, new = self.put(path, body, query["api-version"])
        assert made.busy is not None
        status, document = 201 if new else 200, self.view(made)
        if self.provider(kind).at_once:
            return Reply(status, document)
        return self.begun(made.busy, status, document, where, "Azure-AsyncOperation")

    def _begin_delete(self, path: str, where: str, query: Query) -> Reply:
        gone = self.resources.get(path.lower())
        if gone is None:
            return Reply(204, None)
        self.provider(gone.kind).leave(self, gone, query)
        document, operation = self.view(gone), self.delete(path)
        if operation is None or self.provider(gone.kind).at_once:
            return Reply(200, document)
        return self.begun(operation, 202, None, where, "Location", "Azure-AsyncOperation")

    def _place(self, namespace: str) -> str:
        return f"{_SUBSCRIPTION}/providers/{namespace}/locations/emulated"

    def detailed(self, resource: Resource, query: Query) -> Document:
        """A resource, with its instance view where that is asked for."""
        found = self.view(resource)
        provider = self.provider(resource.kind)
        provider.dated(resource, found, query.get("api-version", ""))
        wanted = "instanceview" in query.get("$expand", "").lower() or (
            query.get("statusOnly", "").lower() == "true"
        )
        if wanted and hasattr(provider, "expanded"):
            found["properties"]["instanceView"] = provider.expanded(self, resource)
        return found

    def _acted(
        self, resource: Resource, method: str, rest: list[str], query: Query, body: Any
    ) -> Reply | None:
        said = self.provider(resource.kind).act(self, resource, Call(method, rest, query, body))
        if isinstance(said, Operation):
            namespace = resource.kind.partition("/")[0]
            names = (
                ("Azure-AsyncOperation",)
                if method == "PUT"
                else ("Location", "Azure-AsyncOperation")
            )
            status, document = (200, self.view(resource)) if method == "PUT" else (202, None)
            return self.begun(said, status, document, self._place(namespace), *names)
        if said is None or isinstance(said, Reply):
            return said
        return Reply(200, said)

    def _list(self, method: str, scope: str, path: str, kind: str, query: Query) -> Reply | None:
        if method != "GET" or (kind.count("/") > 1 and not self.exists(path.rpartition("/")[0])):
            return None
        self.provider(kind)
        known_version(kind.partition("/")[0], query.get("api-version"))
        found = target(path)
        if found and found.group:
            self.group(found.group)
        above = path.rpartition("/")[0] if kind.count("/") > 1 else scope
        every = self.of_kind(kind, above)
        member = re.fullmatch(
            r"'virtualMachineScaleSet/id' eq '([^']+)'", query.get("$filter", ""), re.IGNORECASE
        )
        if member:
            every = [one for one in every if one in list(self.users(member[1]))]
        elif query.get("$filter") and query["$filter"] != "atScope()":
            said = f"The emulated cloud knows no filter {query['$filter']!r}."
            raise Refused(400, "InvalidFilter", said)
        return Reply(200, {"value": [self.detailed(one, query) for one in every]})

    # -- Resource Graph --

    def listed(self) -> Mapping[str, list[Row]]:
        """The tables of Resource Graph."""
        found = {name: list(rows) for name, rows in self.tables.items()}
        for one in list(self.resources.values()):
            if not self.provider(one.kind).regional:
                continue
            document = self.view(one)
            if one.kind == VM:
                document["properties"]["extended"] = _extended(one.state)
            found["resources"].append(_row(document, one.group))
            provider = self.provider(one.kind)
            if isinstance(provider, ScaleSet) and uniform(one.body):
                for number, state in list(one.state.get("instances", {}).items()):
                    instance = provider.one(self, one, number)
                    instance["properties"]["extended"] = _extended(state)
                    found["computeresources"].append(_row(instance, one.group))
        return found

    # -- machines --

    def metadata(
        self, machine: str, method: str, path: str, query: Query, body: bytes = b""
    ) -> Reply:
        """What a machine's metadata service answers (machines.Metadata); the header is its
        business."""
        with self.lock:
            return metadata.answer(self, machine, method, path, query, body)

    def evict(self, machine: str) -> Operation:
        """Tell a spot machine that it goes, and take it when the notice has passed or it has
        agreed.

        Raises:
            Refused: there is none, or it is no spot machine.
        """
        with self.lock:
            there = metadata.found(self, machine)
            if there is None:
                raise Refused(404, "NotFound", f"There is no machine {machine}.")
            resource, number, state = there
            profile = resource.properties.get("virtualMachineProfile") or resource.properties
            if profile.get("priority") not in ("Spot", "Low"):
                said = "The operation simulateEviction is allowed on Spot virtual machines only."
                raise Refused(409, "OperationNotAllowed", said)
            name = f"{resource.name}_{number}" if number else resource.name
            event = metadata.notice(machine, name, self.notice_seconds)
            said_ = self.events.setdefault(
                machine.lower(), {"DocumentIncarnation": 1, "Events": []}
            )
            said_["DocumentIncarnation"] += 1
            said_["Events"] = [event]
            self._approved.discard(machine.lower())
        waits = max(1, round(self.notice_seconds * 20))

        def work() -> None:
            for _ in range(waits):
                if machine.lower() in self._approved or self.closing.wait(0.05):
                    break
            with self.lock:
                self.events.pop(machine.lower(), None)
            if metadata.found(self, machine) is not None:
                self._take(resource, number, state, profile.get("evictionPolicy", "Deallocate"))

        return self.operate(work, 0.0, machine)

    def approve(self, machine: str) -> None:
        """A machine agrees to its event."""
        self._approved.add(machine.lower())

    def _take(self, resource: Resource, number: str, state: Document, policy: str) -> None:
        provider = self.provider(resource.kind)
        if policy != "Delete":
            path = f"{resource.id}/virtualMachines/{number}" if number else resource.id
            self.hardware.stop(path)
            state["power"] = "deallocated"
        elif number:
            assert isinstance(provider, ScaleSet)
            provider.remove_instance(self, resource, number)
        else:
            operation = self.delete(resource.id, forced=True)
            if operation:
                operation.done.wait()

    # -- what is there, for tests --

    def _of_tests(self, method: str, path: str, body: Any) -> Reply:
        """The calls that Azure has not."""
        if (method, path) == ("GET", "/emulated/state"):
            return Reply(200, self.state())
        if (method, path) == ("POST", "/emulated/faults"):
            try:
                self.strike(body)
            except Refused as refused:
                return refused.reply
            return Reply(204, None)
        return refusal(404, "NotFound", f"The emulated cloud knows no {method} {path}.")

    def strike(self, body: Any) -> None:
        """Let something go wrong (faults.py); what changes what is there does so at once.

        Raises:
            Refused: it is no fault that this cloud knows.
        """
        if not isinstance(body, dict):
            raise Refused(400, "UnknownFault", "A fault is an object with a kind.")
        kind, given = body.get("kind"), {key: body[key] for key in body if key != "kind"}
        if kind == "evict" and set(given) == {"machine"}:
            self.evict(str(given["machine"]))
        elif kind == "expire" and not given:
            for token in self.tokens.values():
                token.expires = 0.0
        elif kind == "session-host" and "name" in given:
            desktops.set_host(self, **given)
        elif kind == "none" and not given:
            self.trouble.asked.clear()
        elif kind == "quota" and {"name", "limit"} <= set(given) <= {"name", "limit", "location"}:
            where = str(given.get("location", ""))
            self.limits[where, capacity.folded(str(given["name"]))] = int(given["limit"])
        elif kind == "restricted" and {"size", "location"} <= set(given) <= {
            *("size", "location", "zone")
        }:
            names = ("size", "location", "zone")
            size, where, zone = (str(given.get(name, "")) for name in names)
            self.restricted.append((size, where, zone))
        else:
            self.trouble.add(**body)

    def state(self) -> Document:
        """Every group and resource, what runs, and what bills: the sum is of VMs that have a list
        price in the catalog, and everything else is counted as unpriced."""
        with self.lock:
            machines, bills = [], []
            for one in self.resources.values():
                if one.kind == VM:
                    size = one.properties["hardwareProfile"]["vmSize"]
                    machines.append(_shown(one.id, size, one, one.state))
                for number, state in one.state.get("instances", {}).items():
                    path, size = f"{one.id}/virtualMachines/{number}", one.body["sku"]["name"]
                    machines.append(_shown(path, size, one, state))
                if one.kind in BILLS:
                    bills.append(one.id)
            running = [one for one in machines if one["power"] not in (None, "deallocated")]
            priced = [one["usd_per_hour"] for one in running]
            return {
                "emulated": True,
                "usd_per_hour": round(sum(one or 0.0 for one in priced), 4),
                "unpriced": len(bills) + priced.count(None),
                "groups": [one.document() for one in self.groups.values()],
                "resources": [self.view(one) for one in self.resources.values()],
                "machines": machines,
                "bills": sorted([*bills, *(one["id"] for one in running)]),
                "impacts": impact.state(self),
                "hosts": {one["id"]: impact.host_of(self, one["id"]) for one in machines},
                "used_hosts": list(self.used_hosts),
                "broken": list(self.broken),
            }


# Types that bill without a machine that runs.
BILLS = {
    Disk.kind,
    "Microsoft.Network/bastionHosts",
    "Microsoft.Network/natGateways",
    "Microsoft.Network/publicIPAddresses",
    "Microsoft.NetApp/netAppAccounts/capacityPools",
    "Microsoft.StorageCache/amlFilesystems",
    "Microsoft.Storage/storageAccounts",
}


def _shown(path: str, size: str, resource: Resource, state: Document) -> Document:
    profile = resource.properties.get("virtualMachineProfile") or resource.properties
    spot = profile.get("priority") in ("Spot", "Low")
    return {
        "id": path,
        "size": size,
        "tags": resource.tags,
        "power": state.get("power"),
        "usd_per_hour": capacity.price(size, resource.location, spot=spot),
    }


def _tagged(tags: Mapping[str, str], wanted: re.Match[str] | None) -> bool:
    if wanted is None:
        return True
    by_name = {name.lower(): value for name, value in tags.items()}
    value = by_name.get(wanted[1].lower())
    return value is not None and wanted[2] in (None, value)


def _cut(path: str, parts: int) -> str:
    return path.rsplit("/", parts)[0] if parts else path


def _merged(old: Any, new: Any) -> Any:
    if not isinstance(old, dict) or not isinstance(new, dict):
        return new
    return {
        **old,
        **{k: one if k == "tags" else _merged(old.get(k), one) for k, one in new.items()},
    }


def _extended(state: Document) -> Document:
    power = state.get("power")
    view = {"powerState": {"code": f"PowerState/{power}"}} if power else {}
    return {"instanceView": view}


def _row(document: Document, group: str) -> Row:
    keep = {key: document[key] for key in document if key != "instanceId"}
    return {
        "tenantId": TENANT,
        "kind": "",
        "managedBy": "",
        "subscriptionId": SUBSCRIPTION,
        "tags": {},
        **keep,
        "type": document["type"].lower(),
        "location": squeezed(document.get("location", "")),
        "resourceGroup": group.lower(),
    }
