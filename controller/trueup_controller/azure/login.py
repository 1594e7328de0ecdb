"""The login to Azure, by azure-cli-core: the profile that ``az login`` leaves.

azure-cli-core knows users, service principals and managed identities, and keeps its files below
AZURE_CONFIG_DIR (~/.azure). Nothing here writes a credential. It runs on the controller alone.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from trueup_node import bounded_http
from trueup_node.errors import BadInput, TrueupError
from trueup_node.suggest import did_you_mean

INSTALL = "run `make azure` in trueup's checkout, and use the ansible programs in its .venv/bin"
# Azure's library sets no time limit for its own calls.
_SIGN_IN_SECONDS = 60.0
_LOGIN = "run `az login` (on a machine with a managed identity: `az login --identity`)"


@dataclass(frozen=True)
class Login:
    """A token for Azure Resource Manager, its endpoint, and the subscriptions.

    Attributes:
        endpoint: https://HOST of Azure Resource Manager in this cloud.
        subscriptions: ids.
    """

    endpoint: str
    token: str
    subscriptions: tuple[str, ...]

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
        # az itself sets this before a command, and the profile reads it.
        cli.data["command"] = "rest"
        profile = Profile(cli_ctx=cli)
        chosen = choose(profile.load_cached_subscriptions(), names, cli.cloud.name)
        (_, token, _), _, _ = bounded_http.within(
            _SIGN_IN_SECONDS, lambda: profile.get_raw_token(subscription=chosen[0])
        )
        endpoint = str(cli.cloud.endpoints.resource_manager).rstrip("/")
    except (CLIError, RequestException, ValueError, OSError) as error:
        message = " ".join(str(error).split())[:300] or type(error).__name__
        raise TrueupError(f"Azure's login gave no token ({message}): {_LOGIN}") from None
    if not endpoint.startswith("https://"):
        raise BadInput(
            f"the cloud {cli.cloud.name} has {endpoint!r} as its resource manager, which is not"
            " https, and the token would be readable on its way: mend it with `az cloud update`"
        )
    return Login(endpoint, str(token), chosen)


def choose(
    subscriptions: Sequence[dict[str, Any]], names: Sequence[str], cloud: str
) -> tuple[str, ...]:
    """The ids of the subscriptions with these ids or names; the default one without any.

    Args:
        subscriptions: of the login, as azure-cli-core keeps them: ``id``, ``name``,
            ``tenantId``, ``isDefault``.

    Raises:
        BadInput: nobody is signed in, a name is not known, means two, or they are of two tenants.
    """
    if not subscriptions:
        raise BadInput(f"nobody is signed in to the cloud {cloud}: {_LOGIN}")
    if not names:
        selected = [subscription for subscription in subscriptions if subscription.get("isDefault")]
        if len(selected) != 1:
            raise BadInput(
                "the login has no default subscription: name it in subscriptions, or run"
                " `az account set --subscription NAME`"
            )
    else:
        selected = [_named(subscriptions, name) for name in names]
    tenants = {str(subscription.get("tenantId")) for subscription in selected}
    if len(tenants) > 1:
        raise BadInput(
            f"subscriptions are of {len(tenants)} tenants, and one token is good for one: write an"
            " inventory file for each"
        )
    return tuple(dict.fromkeys(str(subscription["id"]) for subscription in selected))


def _named(subscriptions: Sequence[dict[str, Any]], name: str) -> dict[str, Any]:
    low = name.lower()
    matches: list[dict[str, Any]] = [
        subscription
        for subscription in subscriptions
        if low in (str(subscription["id"]).lower(), str(subscription["name"]).lower())
    ]
    if len(matches) > 1:
        raise BadInput(f"{len(matches)} subscriptions are called {name!r}: give the id instead")
    if not matches:
        near = did_you_mean(name, [str(subscription["name"]) for subscription in subscriptions])
        raise BadInput(
            f"the login has no subscription {name!r}{near or '; `az account list` shows them'}"
        )
    return matches[0]
