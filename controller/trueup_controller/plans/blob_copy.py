"""The role blob_checkpoint, planned: the program's defaults, its credential, and the one case."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from trueup_node.benchmarks.blob_copy.case import CREDENTIALS, OPTIONS, capped
from trueup_node.errors import BadInput
from trueup_node.node import own_python
from trueup_node.node.pythons import Need
from trueup_node.options import MODULE, ROLE
from trueup_node.plan import Plan, PlanInputs, Skipped

_NEEDED_MIB = 256
# Defaults of trueup-blob-copy.
_SETTINGS = (
    *("account_url", "container", "limit_mbps", "copies", "cores_kept", "block_mib"),
    *("connections", "verify", "retries", "program"),
)
# Options of the module that no role sets: their defaults.
_FIXED = {option.name: option.default for option in OPTIONS if option.of == MODULE}
_ADDRESS = re.compile(r"https://|http://(127\.0\.0\.1|localhost)[:/]")


def programs(inputs: PlanInputs) -> dict[str, Any]:
    """Preflight queries for the node, as arguments of program_facts."""
    return {**own_python.programs(inputs, _need(inputs)), "programs": ["azcopy"]}


def _need(inputs: PlanInputs) -> Need:
    return Need.of(inputs.data["python"])


def plan(inputs: PlanInputs) -> Plan:
    """One case: every file at once. ``credential`` is the name that the program knows it by, empty
    without one; ``settings`` the defaults of the command, whose cap is that of its own copies."""
    options = inputs.options
    wrong = _wrong(options, inputs.secrets)
    caps = []
    for copies in (options["copies"], len(options["files"]) or options["copies"]):
        try:
            caps.append(capped(copies, options["limit_mbps"] * 1e6) / 1e6)
        except BadInput as error:
            wrong.append(f"{error}.")
    if wrong:
        return Plan(refused=list(dict.fromkeys(wrong)))
    case = {
        option.name: {**_FIXED, **options}[option.name] for option in OPTIONS if option.of != ROLE
    }
    settings = {**{name: case[name] for name in _SETTINGS}, "cap_mbps": caps[0]}
    return Plan(
        values={
            "settings": settings,
            "credential": _credential(inputs.secrets),
            "files": [
                inputs.program("roles/blob_checkpoint/files/blob_copy_driver.py"),
                {"path": f"{options['prefix']}/bin", "state": "directory"},
            ],
            "environment": own_python.environment(
                inputs, "blob_checkpoint", _need(inputs), ["requirements.txt"]
            ),
        },
        skipped=[Skipped("blob_checkpoint", reason) for reason in _lacking(inputs)],
        cases=[case],
    )


def _credential(secrets: Mapping[str, str]) -> str:
    if secrets["connection_string"]:
        return CREDENTIALS[0]
    return CREDENTIALS[1] if secrets["sas_token"] else ""


def _wrong(options: Mapping[str, Any], secrets: Mapping[str, str]) -> list[str]:
    """Sentences; none holds the credential."""
    string, token = secrets["connection_string"], secrets["sas_token"]
    url, container = options["account_url"], options["container"]
    rules: tuple[tuple[Any, str], ...] = (
        (
            "?" in url + container,
            (
                "blob_checkpoint_account_url or _container holds a query, perhaps a SAS: use"
                " blob_checkpoint_sas_token."
            ),
        ),
        (
            string and token,
            (
                "blob_checkpoint_connection_string and blob_checkpoint_sas_token are both set: keep"
                " one of them."
            ),
        ),
        (
            string and url,
            (
                "blob_checkpoint_connection_string names the account already: leave"
                " blob_checkpoint_account_url empty."
            ),
        ),
        (
            container and not string and not _ADDRESS.match(url),
            (
                "blob_checkpoint_account_url is not an https address: set it to"
                " https://ACCOUNT.blob.core.windows.net."
            ),
        ),
        ("\n" in (string + token).strip(), "A credential is one line."),
    )
    return [sentence for broken, sentence in rules if broken]


def _lacking(inputs: PlanInputs) -> list[str]:
    """Why this node cannot have the role."""
    container = inputs.options["container"]
    reasons = []
    if not container:
        reasons.append(
            "blob_checkpoint_container is not set to the container that checkpoints go to"
        )
    reasons += own_python.lacking(inputs, "blob_checkpoint", _need(inputs), mebibytes=_NEEDED_MIB)
    if container and not any(inputs.secrets.values()) and not inputs.found["programs"]["azcopy"]:
        reasons.append(
            "no credential is set, and azcopy, for the managed identity, is not on this node"
        )
    return reasons
