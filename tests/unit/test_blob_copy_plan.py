"""The role blob_checkpoint planned, without a node and without root."""

from __future__ import annotations

from typing import Any

import role_plans
from trueup_controller.plans.blob_copy import plan
from trueup_node.benchmarks.blob_copy.case import OPTIONS
from trueup_node.options import MODULE, module_spec
from trueup_node.plan import PlanInputs

ACCOUNT = "https://a.blob.core.windows.net"
GIB = 1024**3


def asked(found: dict[str, Any] | None = None, **given: Any) -> PlanInputs:
    """What a role is asked on a node that has all that it needs, with a SAS."""
    values = {one.name: one.default for one in OPTIONS if one.of != MODULE}
    values.update({"account_url": ACCOUNT, "container": "llama", "sas_token": "sig=x", **given})
    secret = {one.name for one in OPTIONS if one.secret}
    prefix = values["prefix"]
    space = {"there": False, "link": False, "path": "/home", "free_bytes": GIB}
    return PlanInputs(
        options={name: value for name, value in values.items() if name not in secret},
        secrets={name: values[name] for name in secret},
        found={
            "python": role_plans.PYTHON,
            "programs": {"azcopy": None},
            "folders": {prefix: space, f"{prefix}/venv": space},
            **(found or {}),
        },
        data=role_plans.data("blob_checkpoint"),
        catalog=role_plans.catalog,
    )


def test_the_one_case_is_what_the_module_takes() -> None:
    made = plan(asked(files=["/data/a", "/data/b"]))
    assert (made.refused, made.skipped) == ([], [])
    [case] = made.cases or []
    assert set(case) == set(module_spec(OPTIONS))
    assert (case["files"], case["cap_mbps"], case["container"]) == (
        ["/data/a", "/data/b"],
        0.0,
        "llama",
    )
