"""Asks a cloud with Microsoft's packages, unmodified: what the environment of held.py runs.

For each query: rows, different rows, totalRecords and pages; or status and codes of the refusal.
"""

from __future__ import annotations

import json
import sys

from azure.core.exceptions import HttpResponseError
from azure.identity import ManagedIdentityCredential
from azure.mgmt.resourcegraph import ResourceGraphClient
from azure.mgmt.resourcegraph.models import QueryRequest, QueryRequestOptions


def main() -> None:
    url, subscription, *queries = sys.argv[1:]
    client = ResourceGraphClient(
        ManagedIdentityCredential(), base_url=url, credential_scopes=[f"{url}/.default"]
    )
    said: list[list[object]] = []
    for query in queries:
        rows, token, pages = [], None, 0
        try:
            while token is not None or not pages:
                options = QueryRequestOptions(top=1000, skip_token=token)
                asked = QueryRequest(subscriptions=[subscription], query=query, options=options)
                page = client.resources(asked)
                if page.count != len(page.data) or page.result_truncated != "false":
                    raise ValueError(page)
                rows += [row["id"] for row in page.data]
                pages, token = pages + 1, page.skip_token
            said.append([len(rows), len(set(rows)), page.total_records, pages])
        except HttpResponseError as error:
            said.append(
                [error.status_code, error.error.code, *(one.code for one in error.error.details)]
            )
    print(json.dumps(said))


if __name__ == "__main__":
    main()
