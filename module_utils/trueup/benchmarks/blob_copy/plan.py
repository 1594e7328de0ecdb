"""The role blob_checkpoint, planned: the program's defaults, its credential, and the one case."""

from __future__ import annotations

import re
from typing import Any, Dict, List, Mapping, Tuple

from ...errors import BadInput
from ...node import own_python
from ...node.pythons import Need
from ...options import module_spec
from ...plan import Asked, Plan, Skipped
from .case import CREDENTIALS, OPTIONS, capped

_NEEDED_MIB = 256
# What trueup-blob-copy takes when it is not told otherwise.
_SETTINGS = (
    *("account_url", "container", "limit_mbps", "copies", "cores_kept", "block_mib"),
    *("connections", "verify", "retries", "program"),
)
_ADDRESS = re.compile(r"https://|http://(127\.0\.0\.1|localhost)[:/]")


def programs(asked: Asked) -> Dict[str, Any]:
    """What preflight asks the node for, as arguments of program_facts."""
    return {**own_python.programs(asked, _need(asked)), "programs": ["azcopy"]}


def _need(asked: Asked) -> Need:
    return Need.of(asked.data["python"])


def plan(asked: Asked) -> Plan:
    """One case: every file at once. ``credential`` is the name that the program knows it by, empty
    without one; ``settings`` the defaults of the command, whose cap is that of its own copies."""
    options = asked.options
    wrong = _wrong(options, asked.secrets)
    caps = []
    for copies in (options["copies"], len(options["files"]) or options["copies"]):
        try:
            limit, cap = options["limit_mbps"] * 1e6, options["cap_mbps"] * 1e6
            caps.append(capped(copies, limit, cap or None) / 1e6)
        except BadInput as error:
            wrong.append(f"{error}.")
    if wrong:
        return Plan(refused=list(dict.fromkeys(wrong)))
    settings = {**{name: options[name] for name in _SETTINGS}, "cap_mbps": caps[0]}
    return Plan(
        values={
            "settings": settings,
            "credential": _credential(asked.secrets),
            "files": [
                asked.program("roles/blob_checkpoint/files/blob_copy_driver.py"),
                {"path": f"{options['prefix']}/bin", "state": "directory"},
            ],
            "environment": own_python.environment(
                asked, "blob_checkpoint", _need(asked), ["requirements.txt"]
            ),
        },
        skipped=[Skipped("blob_checkpoint", why) for why in _lacking(asked)],
        cases=[{name: options[name] for name in module_spec(OPTIONS)}],
    )


def _credential(secrets: Mapping[str, str]) -> str:
    if secrets["connection_string"]:
        return CREDENTIALS[0]
    return CREDENTIALS[1] if secrets["sas_token"] else ""


def _wrong(options: Mapping[str, Any], secrets: Mapping[str, str]) -> List[str]:
    """Sentences; none holds the credential."""
    string, token = secrets["connection_string"], secrets["sas_token"]
    url, container, program = options["account_url"], options["container"], options["program"]
    rules: Tuple[Tuple[Any, str], ...] = (
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
        (
            program == "azcopy" and (string or token),
            (
                "blob_checkpoint_program azcopy takes a SAS or key only as an argument, which every"
                " user of the node can read: leave the credential out (managed identity) or set"
                " azure-storage-blob."
            ),
        ),
        (
            container and program == "azure-storage-blob" and not (string or token),
            (
                "blob_checkpoint_program azure-storage-blob needs a credential: set"
                " blob_checkpoint_sas_token from a vault."
            ),
        ),
        ("\n" in (string + token).strip(), "A credential is one line."),
    )
    return [sentence for broken, sentence in rules if broken]


def _lacking(asked: Asked) -> List[str]:
    """What this node cannot have the role for."""
    container = asked.options["container"]
    found = []
    if not container:
        found.append("blob_checkpoint_container is not set to the container that checkpoints go to")
    found += own_python.lacking(asked, "blob_checkpoint", _need(asked), mebibytes=_NEEDED_MIB)
    if container and not any(asked.secrets.values()) and not asked.found["programs"]["azcopy"]:
        found.append(
            "no credential is set, and azcopy, for the managed identity, is not on this node"
        )
    return found
