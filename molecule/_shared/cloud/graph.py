"""Resource Graph of the emulated cloud: one query, in pages, and counted."""

from __future__ import annotations

import base64
import hashlib
import json
import time
from collections import deque
from typing import TYPE_CHECKING, Any

from .kql import Query, QueryError
from .replies import SUBSCRIPTION, Reply, refusal, unknown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .kql import Row

GRAPH = "/providers/microsoft.resourcegraph/resources"
GRAPH_VERSIONS = ("2021-03-01", "2022-10-01")
# 15 queries in 5 seconds, and 1,000 rows a page.
QUOTA_QUERIES, QUOTA_SECONDS, MOST_ROWS = 15, 5.0, 1000


class Graph:
    """Attributes:
    quota: whether queries are counted.
    page_rows: the most in a page.
    """

    def __init__(self) -> None:
        self.quota = True
        self.page_rows = MOST_ROWS
        self._asked: deque[float] = deque()
        self._answers: dict[str, tuple[list[Row], bool]] = {}

    def answer(self, body: Any, tables: Mapping[str, list[Row]]) -> Reply:
        """The answer to a query over these tables."""
        refused = self._over_quota() or _misasked(body)
        if refused:
            return refused
        options = body.get("options") or {}
        digest = hashlib.sha256(body["query"].encode()).hexdigest()[:16]
        begin = _begin(options["$skipToken"], digest) if "$skipToken" in options else 0
        if begin < 0:
            return refusal(400, "BadRequest", "The skip token is of another query.")
        try:
            if begin == 0 or digest not in self._answers:
                self._answers = {digest: Query(body["query"], tables).run()}
            rows, paged = self._answers[digest]
        except QueryError as error:
            detail = {"code": "InvalidQuery", "message": str(error)}
            said = "Please provide below info when asking for support: timestamp, correlationId."
            return refusal(400, "BadRequest", said, details=[detail])
        end = begin + min(options.get("$top", MOST_ROWS), self.page_rows)
        more = end < len(rows)
        document = {
            "totalRecords": len(rows),
            "count": len(rows[begin:end]),
            "resultTruncated": "true" if more and not paged else "false",
            "facets": [],
            "data": rows[begin:end],
        }
        if more and paged:
            text = json.dumps({"q": digest, "begin": end})
            document["$skipToken"] = base64.b64encode(text.encode()).decode()
        left = QUOTA_QUERIES - len(self._asked)
        quota = {"x-ms-user-quota-remaining": str(left), "x-ms-user-quota-resets-after": "00:00:05"}
        return Reply(200, document, quota)

    def _over_quota(self) -> Reply | None:
        now = time.monotonic()
        while self._asked and self._asked[0] <= now - QUOTA_SECONDS:
            self._asked.popleft()
        if not self.quota or len(self._asked) < QUOTA_QUERIES:
            self._asked.append(now)
            return None
        wait = int(self._asked[0] + QUOTA_SECONDS - now) + 1
        reply = refusal(429, "RateLimiting", "Please retry later.")
        reply.headers = {"Retry-After": str(wait), "x-ms-user-quota-remaining": "0"}
        return reply


def _misasked(body: Any) -> Reply | None:
    """What Resource Graph does not take in a request's body."""
    problem = unknown(body, {"subscriptions", "query", "options"}) or unknown(
        body.get("options") or {}, {"$top", "$skipToken", "resultFormat", "allowPartialScopes"}
    )
    if problem or not isinstance(body.get("query"), str):
        return refusal(400, "BadRequest", f"The request is invalid: {problem or 'query'}.")
    options = body.get("options") or {}
    top = options.get("$top", MOST_ROWS)
    if not isinstance(top, int) or not 1 <= top <= MOST_ROWS:
        return refusal(400, "BadRequest", f"$top is 1 to {MOST_ROWS}.")
    # Both as Microsoft's package sends them.
    if options.get("resultFormat", "objectArray") != "objectArray":
        return refusal(400, "BadRequest", "This cloud gives objectArray only.")
    if options.get("allowPartialScopes", False) is not False:
        return refusal(400, "BadRequest", "This cloud has whole scopes only.")
    if body.get("subscriptions") != [SUBSCRIPTION]:
        return refusal(403, "AuthorizationFailed", "No access to the subscriptions asked for.")
    return None


def _begin(token: Any, digest: str) -> int:
    try:
        said = json.loads(base64.b64decode(str(token)))
        return int(said["begin"]) if said["q"] == digest else -1
    except (ValueError, KeyError, TypeError):
        return -1
