"""The api-versions that the emulated cloud takes.

Those that trueup pins (catalog/azure.yml), those of the pinned azure-mgmt packages
(requirements/test.in), and those of azure.azcollection 3.12.0. Of a namespace's types no
difference is made.
"""

from __future__ import annotations

from .replies import Refused

VERSIONS: dict[str, tuple[str, ...]] = {
    "microsoft.compute": (
        *("2021-07-01", "2024-03-02", "2024-07-01", "2026-03-02", "2026-03-03", "2026-04-01"),
    ),
    # The oldest is what azure-mgmt-network asks for the adapters of a set.
    "microsoft.network": ("2018-10-01", "2023-11-01", "2024-05-01", "2026-03-01"),
    "microsoft.resources": ("2022-09-01", "2025-04-01", "2026-06-01"),
    "microsoft.authorization": ("2022-04-01",),
    "microsoft.managedidentity": ("2024-11-30",),
    "microsoft.storage": ("2026-09-01",),
    "microsoft.netapp": ("2026-08-01",),
    "microsoft.storagecache": ("2026-08-01",),
    "microsoft.desktopvirtualization": ("2024-04-03", "2025-10-10"),
    "microsoft.devtestlab": ("2018-09-15",),
    # Guest Health Reporting's documents name the first for reports, the second for insights.
    "microsoft.impact": ("2023-02-01-preview", "2025-01-01-preview", "2026-01-01-preview"),
    "microsoft.resourcegraph": ("2021-03-01", "2022-10-01"),
}


def known_version(namespace: str, version: str | None) -> None:
    """Refuse a version that is missing or not known for a namespace."""
    if not version:
        raise Refused(
            400,
            "MissingApiVersionParameter",
            "The api-version query parameter (?api-version=) is required for all requests.",
        )
    known = VERSIONS.get(namespace.lower())
    if known is None:
        said = f"The emulated cloud knows no resource provider '{namespace}'."
        raise Refused(404, "InvalidResourceNamespace", said)
    if version not in known:
        raise Refused(
            400,
            "NoRegisteredProviderFound",
            f"No registered resource provider of '{namespace}' for API version '{version}'. The"
            f" emulated cloud knows '{', '.join(known)}'.",
        )
