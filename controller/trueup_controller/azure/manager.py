"""Calls to Azure Resource Manager with a login's token.

Source: https://learn.microsoft.com/azure/governance/resource-graph for queries and their pages
(1,000 rows, ``$skipToken`` while there are more, ``resultTruncated`` as a text), and
azure-mgmt-resourcegraph 8.0.1, which is generated from Microsoft's specification, for the fields.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Mapping, Sequence
from typing import Any, Callable, NamedTuple

from trueup_node import rest
from trueup_node.errors import BadInput, TrueupError

from .login import INSTALL, Login, sign_in

GRAPH = "/providers/Microsoft.ResourceGraph/resources"
GRAPH_VERSION = "2021-03-01"
PAGE_ROWS = 1000

Row = dict[str, Any]


class Page(NamedTuple):
    """One page of a query's rows; ``token`` asks for the next one, None on the last."""

    rows: list[Row]
    total: int
    token: str | None


def page_of(document: Mapping[str, Any]) -> Page:
    """A page of Resource Graph, checked.

    Raises:
        TrueupError: it lacks a field, its rows are no objects, it says another count than it has,
            or it was cut and gives no token for the rest.
    """
    rows, count, total = (document.get(name) for name in ("data", "count", "totalRecords"))
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise TrueupError("Resource Graph gives a page whose data is no list of rows")
    if not isinstance(count, int) or not isinstance(total, int):
        raise TrueupError("Resource Graph gives a page without count or totalRecords")
    if count != len(rows):
        raise TrueupError(
            f"Resource Graph says that a page has {count} rows, and it has {len(rows)}"
        )
    token = document.get("$skipToken") or None
    if token is None and str(document.get("resultTruncated")).lower() == "true":
        raise TrueupError(
            f"Resource Graph cut the rows after {count} and gives no token for the rest"
        )
    return Page(rows, total, None if token is None else str(token))


def _role(call: str) -> str:
    """The role that a call (METHOD PATH) needs."""
    if "/providers/Microsoft.Impact/" in call:
        return "Impact Reporter, in a subscription registered for Guest Health Reporting"
    if call.startswith("GET ") or call == f"POST {GRAPH}":
        return "Reader"
    return "Contributor, or Owner where the deployment assigns a role"


class Manager(rest.Client):
    """Azure Resource Manager, asked with one login's token; all calls together end at a deadline.

    Args:
        deadline_seconds: of all calls together; ``within`` sets it anew for long work.
        patience_seconds: the sum of all pauses of one call; else the deadline.
        renew: signs in again, once for each call whose token Azure does not take any more.

    Attributes:
        calls: how many requests were sent, each repetition counted.
    """

    NAME = "Azure Resource Manager"

    def __init__(
        self,
        login: Login,
        open_url: rest.OpenUrl,
        *,
        ca_path: str | None = None,
        deadline_seconds: float = 120,
        patience_seconds: float | None = None,
        renew: Callable[[], Login] | None = None,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        super().__init__(
            login.endpoint,
            open_url,
            connection={"validate_certs": True, "ca_path": ca_path or None},
            patience_seconds=patience_seconds or deadline_seconds,
            deadline_seconds=deadline_seconds,
            secrets=[login.token],
            sleep=sleep,
            clock=clock,
            jitter=jitter,
        )
        self.login = login
        self.calls = 0
        self._renew = renew

    def headers(self) -> dict[str, str]:
        self.calls += 1
        return {"Authorization": f"Bearer {self.login.token}"}

    def renewed(self) -> bool:
        if self._renew is None:
            return False
        before, self.login = self.login, self._renew()
        self._secrets.append(self.login.token)
        return self.login.token != before.token

    def trust_advice(self) -> str:
        return (
            "set ca_path or REQUESTS_CA_BUNDLE to the file of its authorities, or check the clock"
        )

    def deadline_name(self) -> str:
        return "time_limit_seconds"

    patience_name = deadline_name

    def refusal(self, call: str, response: rest.Response, message: str) -> str:
        named = rest.request_number(response)
        if response.status == 401:
            return (
                f"{self.url} does not take the login's token for {call} (status 401"
                f"{': ' + message if message else ''}){named}: run `az login` again"
            )
        if response.status == 403:
            return (
                f"the login may not {call} at {self.url} (status 403"
                f"{': ' + message if message else ''}){named}: give it the role {_role(call)}"
            )
        return super().refusal(call, response, message)

    def query(self, text: str) -> list[Row]:
        """All rows of a Resource Graph query, which must project ``id``.

        Raises:
            TrueupError: no whole list could be had.
        """
        rows, total = self._pages_of(text)
        if len(rows) != total:
            # A machine came or went between two pages.
            rows, total = self._pages_of(text)
        if len(rows) != total:
            raise TrueupError(
                f"Resource Graph says that there are {total} rows and gives {len(rows)}, twice; run"
                " it again, and where it stays so, fewer subscriptions a file"
            )
        return rows

    def _pages_of(self, text: str) -> tuple[list[Row], int]:
        rows: list[Row] = []
        options: dict[str, Any] = {"$top": PAGE_ROWS}
        tokens: set[str] = set()
        while True:
            body = {
                "subscriptions": list(self.login.subscriptions),
                "query": text,
                "options": options,
            }
            page = page_of(self.post(GRAPH, {"api-version": GRAPH_VERSION}, body, question=True))
            rows += page.rows
            if page.token is None:
                return rows, page.total
            if page.token in tokens or not page.rows or len(tokens) >= rest.MAX_PAGES:
                raise TrueupError(
                    f"Resource Graph gives its pages in a circle after {len(rows)} of {page.total}"
                    " rows; nothing was taken from it"
                )
            tokens.add(page.token)
            options = {"$top": PAGE_ROWS, "$skipToken": page.token}

    def every(self, path: str, version: str, **query: str) -> list[Row]:
        """All entries of a list."""
        documents, _ = self.pages(path, {"api-version": version, **query})
        entries: list[Row] = []
        for document in documents:
            value = document.get("value")
            if not isinstance(value, list) or not all(isinstance(row, dict) for row in value):
                raise TrueupError(f"{self.url} answers GET {path} without a list of entries")
            entries += value
        return entries


def connect(
    subscriptions: Sequence[str],
    *,
    seconds: float = 45 * 60,
    patience_seconds: float = 300,
    sleep: Callable[[float], None] = time.sleep,
) -> Manager:
    """Azure Resource Manager with the login of azure-cli-core, on the controller.

    Args:
        subscriptions: ids or names; none for the login's own default.
        seconds: of all calls together.
        patience_seconds: of one call that Azure does not answer.
    """
    try:
        from ansible.module_utils.urls import open_url
    except ImportError as missing:
        raise BadInput(f"ansible is not installed ({missing}): {INSTALL}") from None
    login = sign_in(subscriptions)
    return Manager(
        login,
        open_url,
        ca_path=os.environ.get("REQUESTS_CA_BUNDLE"),
        deadline_seconds=seconds,
        patience_seconds=patience_seconds,
        renew=lambda: sign_in(login.subscriptions),
        sleep=sleep,
    )
