"""The emulated cloud: as much of Azure as trueup calls.

A stand-in, and no Azure (docs/azure_emulated.md). It keeps resources, answers the token endpoints
(managed identity, service principal), Resource Graph and the calls below with the statuses, headers
and paging of Microsoft's documents, and refuses paths, api-versions and fields that it does not
know.
"""

from __future__ import annotations

import secrets
import time
from typing import Any

from .graph import GRAPH, GRAPH_VERSIONS, Graph
from .replies import CLIENT, SECRET, TENANT, Reply, refusal, versioned
from .seeds import Seeds

COMPUTE_VERSIONS = ("2024-07-01", "2024-11-01")
NETWORK_VERSIONS = ("2023-11-01", "2024-05-01")


class Cloud(Seeds):
    """The resources of one subscription, and what was asked.

    Attributes:
        graph: Resource Graph.
        faults: the last part of a path to what goes wrong there, used up in order: a Reply instead
            of the answer, or a function from the answer's Reply to another one; None is no fault.
        cut: paths' last parts whose next answer ends in the middle of its JSON.
        calls: (method, path, query, body) of each request but those for tokens.
        lifetime_seconds: of a token.
    """

    def __init__(self) -> None:
        super().__init__()
        self.url = ""
        self.graph = Graph()
        self.faults: dict[str, list[Any]] = {}
        self.cut: list[str] = []
        self.calls: list[tuple[str, str, dict[str, str], Any]] = []
        self.tokens: dict[str, float] = {}
        self.lifetime_seconds = 3600.0

    # -- tokens --

    def token(self) -> str:
        word = secrets.token_urlsafe(24)
        self.tokens[word] = time.time() + self.lifetime_seconds
        return word

    def sign_in(self, method: str, path: str, query: dict[str, str], body: Any) -> Reply | None:
        """An answer of the token endpoints, or None where the path is none of theirs."""
        if path == "/metadata/identity/oauth2/token":
            if query.get("api-version") != "2018-02-01" or "resource" not in query:
                return Reply(400, {"error": "invalid_request", "error_description": "resource"})
            seconds = str(int(self.lifetime_seconds))
            return Reply(
                200,
                {
                    "access_token": self.token(),
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
            return Reply(
                200,
                {
                    "access_token": self.token(),
                    "expires_in": int(self.lifetime_seconds),
                    "token_type": "Bearer",
                },
            )
        return None

    def trusted(self, header: str) -> Reply | None:
        """Why a request's token is not taken."""
        word = header.removeprefix("Bearer ")
        if word not in self.tokens:
            return refusal(401, "InvalidAuthenticationToken", "The access token is invalid.")
        if self.tokens[word] < time.time():
            return refusal(401, "ExpiredAuthenticationToken", "The access token has expired.")
        return None

    # -- calls --

    def do(self, method: str, path: str, query: dict[str, str], body: Any) -> Reply:
        low = path.lower()
        if (method, low) == ("POST", GRAPH):
            return versioned(query, GRAPH_VERSIONS) or self.graph.answer(body, self.tables)
        if method == "GET" and low.endswith("/networkinterfaces"):
            found = self.interfaces.get(low.removesuffix("/networkinterfaces"))
            if found is None:
                return refusal(404, "ResourceNotFound", f"{path} was not found.")
            return versioned(query, NETWORK_VERSIONS) or Reply(200, {"value": found})
        return refusal(404, "InvalidResourceType", f"This cloud knows no {method} {path}.")
