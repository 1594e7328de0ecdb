"""NVIDIA's CUDA repository: driver, DCGM, gdrcopy and NCCL of a distribution."""

from __future__ import annotations

from typing import Dict

from ..plan import Asked


def cuda_repository(asked: Asked) -> Dict[str, str]:
    """That of the node's distribution, as role vendor_packages takes it
    (catalog/cuda_repository.yml)."""
    node, known = asked.node, asked.catalog("cuda_repository.yml")
    manager, version = node["package_manager"], node["distribution_version"] or ""
    folder = f"{node['distribution']}{version.replace('.', '')}"
    if manager == "dnf":
        folder = f"rhel{version.split('.')[0]}"
    url = f"{known['url']}/{folder}/{node['architecture']}/"
    key = known["keys"][manager]
    return {
        "name": "cuda",
        "url": url,
        "key_url": url + key["file"],
        "key_fingerprint": key["fingerprint"],
    }
