"""The role blob_checkpoint planned, without a node and without root."""

from __future__ import annotations

from typing import Any

import pytest
import role_plans
from trueup_controller.plans.blob_copy import plan, programs
from trueup_node.benchmarks.blob_copy.case import OPTIONS
from trueup_node.options import MODULE, module_spec
from trueup_node.plan import Plan, PlanInputs

ACCOUNT = "https://a.blob.core.windows.net"
STRING = "AccountName=a;AccountKey=c2VjcmV0IG9mIHRoZSB0ZXN0cw==;"
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


def whys(made: Plan) -> list[str]:
    return [one.why for one in made.skipped]


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


def test_no_secret_is_in_the_plan() -> None:
    shown = str(plan(asked()).as_result())
    assert ("sig=x" in shown, "SAS_TOKEN" in shown) == (False, True)
    assert "sig=x" not in str(asked())


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({}, "AZURE_STORAGE_SAS_TOKEN"),
        (
            {"sas_token": "", "connection_string": STRING, "account_url": ""},
            "AZURE_STORAGE_CONNECTION_STRING",
        ),
        ({"sas_token": ""}, ""),
    ],
)
def test_the_credential_has_the_programs_name(given: dict[str, str], name: str) -> None:
    assert plan(asked(**given)).values["credential"] == name


def test_the_commands_settings_have_the_cap_of_its_own_copies() -> None:
    """The benchmark of one file has a cap that eight copies would be refused with."""
    settings = plan(asked(files=["/data/a"])).values["settings"]
    assert (settings["copies"], settings["cap_mbps"], settings["limit_mbps"]) == (8, 2400, 20000)
    assert len(settings) == 11


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"copies": 200, "files": ["/a"]}, "less than 100 Mb/s each: take fewer."),
        ({"account_url": f"{ACCOUNT}?sig=x"}, "holds a query, perhaps a SAS"),
        ({"container": "c?sig=x"}, "holds a query, perhaps a SAS"),
        ({"connection_string": STRING, "account_url": ""}, "are both set: keep one"),
        ({"connection_string": STRING, "sas_token": ""}, "names the account already"),
        ({"account_url": "http://a.example"}, "is not an https address"),
        ({"sas_token": "sig=x\nsig=y"}, "A credential is one line."),
    ],
)
def test_what_cannot_be_right_is_refused(given: dict[str, Any], sentence: str) -> None:
    [refused] = plan(asked(**given)).refused
    assert sentence in refused
    assert STRING not in refused


def test_azurite_on_this_node_needs_no_https() -> None:
    assert plan(asked(account_url="http://127.0.0.1:10000/devstoreaccount1")).refused == []


@pytest.mark.parametrize(
    ("given", "found", "why"),
    [
        ({"container": "", "account_url": ""}, {}, "_container is not set"),
        ({}, {"python": None}, "no python3 on this node"),
        (
            {},
            {"python": {"path": "/p", "version": [3, 9, 1], "missing": [], "headers": True}},
            "Python 3.9 is not the 3.10 or newer that",
        ),
        (
            {},
            {
                "python": {
                    "path": "/p",
                    "version": [3, 12, 1],
                    "missing": ["ensurepip"],
                    "headers": True,
                }
            },
            "/p has no venv module (package python3-venv)",
        ),
        ({"sas_token": ""}, {}, "no credential is set, and azcopy"),
    ],
)
def test_what_a_node_lacks_is_named(given: dict[str, Any], found: dict[str, Any], why: str) -> None:
    [only] = whys(plan(asked(found, **given)))
    assert why in only


def test_space_is_needed_for_a_new_installation_alone() -> None:
    question = asked()
    prefix = question.options["prefix"]
    assert programs(question)["folders"] == [prefix, f"{prefix}/venv"]
    full = {"there": True, "link": False, "path": "/home", "free_bytes": 255 * 1024**2}
    new = {prefix: full, f"{prefix}/venv": {**full, "there": False}}
    assert whys(plan(asked({"folders": new}))) == [
        "255 MiB are free in /home and 256 are needed: set blob_checkpoint_prefix"
    ]
    assert plan(asked({"folders": {prefix: full, f"{prefix}/venv": full}})).skipped == []


def test_azcopy_needs_no_credential() -> None:
    found = {"programs": {"azcopy": "/usr/bin/azcopy"}}
    assert plan(asked(found, sas_token="")).skipped == []
