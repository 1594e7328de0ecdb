"""The role stream, planned: kernels to compile, and a case for each kind of stores."""

from __future__ import annotations

import hashlib
from typing import Any, Dict, List, Tuple

from ...plan import Asked, Plan, Skipped

_FLAGS = ("-O3", "-march=native", "-fopenmp", "-std=gnu11")
_OF_STORES = {"streaming": ("-DSTREAMING_STORES",), "regular": ()}


def plan(asked: Asked) -> Plan:
    """A case for each kind of stores; skipped where the kernel cannot be compiled."""
    threads, binding = _placement(asked)
    can_compile = asked.node["programs"].get("gcc") or asked.node["privilege"]
    lacking = (
        "no C compiler gcc on this node, and installing one needs root or sudo without a password"
    )
    return Plan(
        values={"kernels": _kernels(asked)},
        skipped=[] if can_compile else [Skipped("stream", lacking)],
        cases=[
            {**asked.options, "stores": stores, "threads": threads, "binding": binding}
            for stores in asked.options["stores"]
        ],
    )


def _placement(asked: Asked) -> Tuple[int, str]:
    """Threads and binding: the size's own where none are asked for and the catalog has them."""
    threads: int = asked.options["threads"]
    if threads:
        return threads, "core"
    for row in asked.catalog("stream_placements.yml"):
        if asked.node["vm_size"] in row["sizes"]:
            return row["threads"], "l3"
    return asked.node["cores"] or 0, "core"


def _kernels(asked: Asked) -> List[Dict[str, Any]]:
    """By the kind of stores: ``flags``, and ``binary``, whose name holds the checksum of source and
    flags, so that an old kernel never passes for a new one."""
    source = asked.text("roles/stream/files/stream_kernel.c")
    kernels = []
    for stores in asked.options["stores"]:
        flags = [*_FLAGS, *_OF_STORES[stores]]
        digest = hashlib.sha256((source + " ".join(flags)).encode()).hexdigest()[:12]
        binary = f"stream_kernel-{stores}-{digest}"
        kernels.append({"stores": stores, "flags": flags, "binary": binary})
    return kernels
