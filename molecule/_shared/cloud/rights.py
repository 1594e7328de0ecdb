"""Who may do what in the emulated cloud: identities, role assignments, tokens.

The signed-in login may do everything, unless a fault takes that away. A machine's identity may do
what its role assignments allow, in their scope.
"""

from __future__ import annotations

import secrets
import time
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .compute import identity_of
from .replies import SUBSCRIPTION, TENANT, Refused
from .resources import Provider, Resource

if TYPE_CHECKING:
    from .cloud import Cloud
    from .resources import Document

LOGIN = "login"
# Id to name, and whether it reads, and writes, resources.
ROLES = {
    "8e3af657-a8ff-443c-a75c-2fe8c4bcb635": ("Owner", True, True),
    "b24988ac-6180-42a0-ab88-20f7382dd24c": ("Contributor", True, True),
    "acdd72a7-3385-48ef-bd42-f606fba81ae7": ("Reader", True, False),
    "ba92f5b4-2d11-453d-a403-e96b0029c9fe": ("Storage Blob Data Contributor", False, False),
    "2a2b9908-6ea1-4ae2-8e65-a410df84e7d1": ("Storage Blob Data Reader", False, False),
    "36e80216-a7e8-4f42-a7e1-f12c98cbaf8a": ("Impact Reporter", False, False),
    "1d18fff3-a72a-46b5-b4a9-0b38a3cd7e63": ("Desktop Virtualization User", False, False),
    "fb879df8-f326-4884-b1cf-06f3ad86be52": ("Virtual Machine User Login", False, False),
}
_METHODS = {"GET": "read", "HEAD": "read", "DELETE": "delete", "POST": "action"}


@dataclass
class Token:
    """When it ends, whose it is, and for what."""

    expires: float
    principal: str
    resource: str


def issue(cloud: Cloud, principal: str, resource: str) -> str:
    word = secrets.token_urlsafe(24)
    cloud.tokens[word] = Token(time.time() + cloud.lifetime_seconds, principal, resource)
    return word


def principals(cloud: Cloud) -> dict[str, Resource]:
    """What has an identity of its own, by the identity's principal."""
    found = {}
    for one in cloud.resources.values():
        principal = one.state.get("principal") or one.state.get("principalId")
        if principal:
            found[principal] = one
    return found


def identities(cloud: Cloud, resource: Resource) -> Document:
    """A machine's identities: principal by the client's id, ``system`` for its own."""
    said = identity_of(cloud, resource) or {}
    found = {}
    if "principalId" in said:
        found["system"] = said["principalId"]
    for path, one in (said.get("userAssignedIdentities") or {}).items():
        found[one["clientId"]] = found[path.lower()] = one["principalId"]
    return found


def trusted(cloud: Cloud, header: str) -> Token:
    """The token of a request.

    Raises:
        Refused: it is not taken.
    """
    token = cloud.tokens.get(header.removeprefix("Bearer "))
    if token is None:
        raise Refused(401, "InvalidAuthenticationToken", "The access token is invalid.")
    if token.expires < time.time():
        raise Refused(401, "ExpiredAuthenticationToken", "The access token has expired.")
    audiences = (cloud.url, "https://management.azure.com", "https://management.core.windows.net")
    if token.resource and token.resource.removesuffix("/.default").rstrip("/") not in audiences:
        said = f"The access token is for '{token.resource}', which is not this audience."
        raise Refused(401, "InvalidAuthenticationTokenAudience", said)
    return token


def allowed(cloud: Cloud, token: Token, method: str, path: str) -> None:
    """Refuse what a principal may not do."""
    action = _METHODS.get(method, "write")
    refused = cloud.trouble.take("rights", path=path, action=action, principal=token.principal)
    if not refused and (token.principal == LOGIN or _role_allows(cloud, token, method, path)):
        return
    raise Refused(
        403,
        "AuthorizationFailed",
        f"The client '{token.principal}' with object id '{token.principal}' does not have"
        f" authorization to perform action '{action}' over scope '{path}' or the scope is invalid."
        " If access was recently granted, please refresh your credentials.",
    )


def _role_allows(cloud: Cloud, token: Token, method: str, path: str) -> bool:
    low = f"{path.lower()}/"
    for one in cloud.resources.values():
        if one.kind == Roles.kind and one.properties["principalId"] == token.principal:
            scope = one.key.rpartition("/providers/")[0]
            name, reads, writes = ROLES[role_of(one)]
            if not low.startswith(f"{scope}/"):
                continue
            if "/microsoft.authorization/" in low and method not in ("GET", "HEAD"):
                writes = name == "Owner"
            if name == "Impact Reporter" and "/providers/microsoft.impact/" in low:
                return True
            if reads and (method in ("GET", "HEAD") or writes):
                return True
    return False


def role_of(assignment: Resource) -> str:
    return str(assignment.properties.get("roleDefinitionId", "")).rpartition("/")[2].lower()


class Roles(Provider):
    kind = "Microsoft.Authorization/roleAssignments"
    seconds = 0.0
    regional = False
    at_once = True
    rank = 9
    fixed = (("properties", "principalId"), ("properties", "roleDefinitionId"))

    def check(self, cloud: Cloud, asked: Resource, before: Resource | None) -> None:
        try:
            uuid.UUID(asked.name)
        except ValueError:
            said = f"The role assignment ID '{asked.name}' is not valid: it must be a GUID."
            raise Refused(400, "InvalidRoleAssignmentId", said) from None
        role = role_of(asked)
        if role not in ROLES:
            said = f"The specified role definition with ID '{role}' does not exist."
            raise Refused(404, "RoleDefinitionDoesNotExist", said)
        principal = asked.properties.get("principalId")
        if principal not in principals(cloud) and principal not in cloud.directory:
            said = f"Principal {principal} does not exist in the directory {TENANT}."
            raise Refused(400, "PrincipalNotFound", said)
        scope = asked.key.rpartition("/providers/")[0]
        for one in cloud.resources.values():
            if (
                one.kind == self.kind
                and one.key != asked.key
                and one.key.rpartition("/providers/")[0] == scope
                and one.properties["principalId"] == principal
                and role_of(one) == role
            ):
                raise Refused(409, "RoleAssignmentExists", "The role assignment already exists.")

    def add(self, cloud: Cloud, resource: Resource) -> Document:
        return {
            "scope": resource.id.rpartition("/providers/")[0],
            "roleDefinitionId": f"/subscriptions/{SUBSCRIPTION}/providers/Microsoft.Authorization"
            f"/roleDefinitions/{role_of(resource)}",
        }

    def view(self, cloud: Cloud, resource: Resource) -> Document:
        found = super().view(cloud, resource)
        found["properties"].pop("provisioningState")
        return found


class Identity(Provider):
    kind = "Microsoft.ManagedIdentity/userAssignedIdentities"
    seconds = 0.0
    rank = 8
    held = (409, "IdentityInUse")

    def make(self, cloud: Cloud, made: Resource, before: Document | None) -> None:
        for name in ("principalId", "clientId"):
            made.state.setdefault(name, str(uuid.uuid4()))

    def add(self, cloud: Cloud, resource: Resource) -> Document:
        names = ("principalId", "clientId")
        found = {name: resource.state[name] for name in names if name in resource.state}
        return {**found, "tenantId": TENANT}

    def view(self, cloud: Cloud, resource: Resource) -> Document:
        found = super().view(cloud, resource)
        found["properties"].pop("provisioningState")
        return found
