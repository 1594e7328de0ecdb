"""Who is signed in to Azure, by azure-cli-core: the profile that ``az login`` leaves.

azure-cli-core knows users, service principals and managed identities, and keeps what it needs below
AZURE_CONFIG_DIR (~/.azure). Nothing here writes a credential. It runs on the controller alone.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Dict, List, Sequence, Tuple

from ... import bounded_http
from ...errors import BadInput, TrueupError
from ...words import did_you_mean

INSTALL = "run `make azure` in trueup's checkout, and use the ansible programs in its .venv/bin"
# Azure's library sets no time limit for its own calls.
_SIGN_IN_SECONDS = 60.0
_LOGIN = "run `az login` (on a machine with a managed identity: `az login --identity`)"


@dataclass(frozen=True)
class Login:
    """A token for Azure Resource Manager, where that is, and what is looked at.

    Attributes:
        endpoint: https://HOST of Azure Resource Manager in this cloud.
        subscriptions: ids.
    """

    endpoint: str
    token: str
    subscriptions: Tuple[str, ...]

    def __repr__(self) -> str:
        return f"Login({self.endpoint}, {self.subscriptions})"


def sign_in(names: Sequence[str]) -> Login:
    """A token of the login that azure-cli-core knows.

    Args:
        names: subscriptions by id or name; none for the login's own default.

    Raises:
        BadInput: azure-cli-core is not installed, nobody is signed in, or a subscription is not one
            of the login's.
        TrueupError: no token was given.
    """
    os.environ.setdefault("AZURE_CORE_COLLECT_TELEMETRY", "false")
    try:
        from azure.cli.core import get_default_cli
        from azure.cli.core._profile import Profile
        from knack.util import CLIError
        from requests.exceptions import RequestException
    except ImportError as missing:
        raise BadInput(f"azure-cli-core is not installed ({missing}): {INSTALL}") from None
    try:
        cli = get_default_cli()
        # What az itself sets before a command, and the profile reads.
        cli.data["command"] = "rest"
        profile = Profile(cli_ctx=cli)
        chosen = choose(profile.load_cached_subscriptions(), names, cli.cloud.name)
        (_, token, _), _, _ = bounded_http.within(
            _SIGN_IN_SECONDS, lambda: profile.get_raw_token(subscription=chosen[0])
        )
        endpoint = str(cli.cloud.endpoints.resource_manager).rstrip("/")
    except (CLIError, RequestException, ValueError, OSError) as error:
        said = " ".join(str(error).split())[:300] or type(error).__name__
        raise TrueupError(f"Azure's login gave no token ({said}): {_LOGIN}") from None
    if not endpoint.startswith("https://"):
        raise BadInput(
            f"the cloud {cli.cloud.name} has {endpoint!r} as its resource manager, which is not"
            " https, and the token would be readable on its way: mend it with `az cloud update`"
        )
    return Login(endpoint, str(token), chosen)


def choose(known: Sequence[Dict[str, Any]], names: Sequence[str], cloud: str) -> Tuple[str, ...]:
    """The ids of the subscriptions with these ids or names; the default one without any.

    Args:
        known: the subscriptions of the login as azure-cli-core keeps them: ``id``, ``name``,
            ``tenantId``, ``isDefault``.

    Raises:
        BadInput: nobody is signed in, a name is not known, means two, or they are of two tenants.
    """
    if not known:
        raise BadInput(f"nobody is signed in to the cloud {cloud}: {_LOGIN}")
    if not names:
        found = [one for one in known if one.get("isDefault")]
        if len(found) != 1:
            raise BadInput(
                "the login has no default subscription: name it in subscriptions, or run"
                " `az account set --subscription NAME`"
            )
    else:
        found = [_named(known, name) for name in names]
    tenants = {str(one.get("tenantId")) for one in found}
    if len(tenants) > 1:
        raise BadInput(
            f"subscriptions are of {len(tenants)} tenants, and one token is good for one: write an"
            " inventory file for each"
        )
    return tuple(dict.fromkeys(str(one["id"]) for one in found))


def _named(known: Sequence[Dict[str, Any]], name: str) -> Dict[str, Any]:
    low = name.lower()
    found: List[Dict[str, Any]] = [
        one for one in known if low in (str(one["id"]).lower(), str(one["name"]).lower())
    ]
    if len(found) > 1:
        raise BadInput(f"{len(found)} subscriptions are called {name!r}: give the id instead")
    if not found:
        near = did_you_mean(name, [str(one["name"]) for one in known])
        raise BadInput(
            f"the login has no subscription {name!r}{near or '; `az account list` shows them'}"
        )
    return found[0]
