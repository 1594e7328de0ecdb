"""NVIDIA's CUDA repository: driver, DCGM, gdrcopy and NCCL of a distribution."""

from __future__ import annotations

from trueup_node.plan import PlanInputs


def cuda_repository(inputs: PlanInputs) -> dict[str, str]:
    """That of the node's distribution, as role vendor_packages takes it
    (catalog/cuda_repository.yml)."""
    node, catalog = inputs.node, inputs.catalog("cuda_repository.yml")
    manager, version = node["package_manager"], node["distribution_version"] or ""
    folder = f"{node['distribution']}{version.replace('.', '')}"
    if manager == "dnf":
        folder = f"rhel{version.split('.')[0]}"
    url = f"{catalog['url']}/{folder}/{node['architecture']}/"
    key = catalog["keys"][manager]
    return {
        "name": "cuda",
        "url": url,
        "key_url": url + key["file"],
        "key_fingerprint": key["fingerprint"],
    }
