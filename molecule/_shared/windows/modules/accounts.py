"""win_group, win_group_membership and win_credential."""

from __future__ import annotations

from typing import Any

from ..arguments import Call, Option, module
from ..errors import FailError, UnknownError
from ..host import Host

_ALWAYS = "always"
_MEMBERS = {
    "add": Option("list", elements="str", default=[]),
    "remove": Option("list", elements="str", default=[]),
    "set": Option("list", elements="str"),
}


@module(
    "ansible.windows.win_group",
    {
        "name": Option(required=True),
        "description": Option(known=False),
        "members": Option("dict", options=_MEMBERS),
        "state": Option(default="present", choices=("absent", "present")),
    },
)
def win_group(call: Call) -> dict[str, Any]:
    """Make or remove a local group, and its members."""
    args, host = call.args, call.host
    name = host.group_name(args["name"])
    members = args["members"] or {"add": [], "remove": [], "set": None}
    if members["set"] is not None and (members["add"] or members["remove"]):
        raise FailError("parameters are mutually exclusive: set, add found in members")
    if args["state"] == "absent":
        if name and not call.check:
            del host.groups[name]
        return {"changed": name is not None, "sid": None}
    if name is None and call.check:
        return {"changed": True, "sid": "S-1-5-0000"}
    before = host.groups.get(name or "", [])
    after = _merged(host, before, members)
    if not call.check:
        host.groups[name or args["name"]] = after
    number = list(host.groups).index(name) if name in host.groups else len(host.groups)
    return {
        "changed": name is None or before != after,
        "sid": f"S-1-5-21-0-0-0-{1001 + number}",
        "diff": {"before": {"members": sorted(before)}, "after": {"members": sorted(after)}},
    }


def _merged(host: Host, before: list[str], members: dict[str, Any]) -> list[str]:
    if members["set"] is not None:
        return [account(host, each) for each in members["set"]]
    removed = {account(host, each).lower() for each in members["remove"]}
    added = [account(host, each) for each in members["add"]]
    after = [each for each in before if each.lower() not in removed]
    have = {each.lower() for each in after}
    return after + [each for each in added if each.lower() not in have]


@module(
    "ansible.windows.win_group_membership",
    {
        "name": Option(required=True),
        "members": Option("list", required=True, elements="str"),
        "state": Option(default="present", choices=("absent", "present", "pure")),
    },
)
def win_group_membership(call: Call) -> dict[str, Any]:
    """Add, remove or set the members of a local group."""
    args, host, state = call.args, call.host, call.args["state"]
    name = host.group_name(args["name"])
    if name is None:
        raise FailError(f"Could not find local group {args['name']}", name=args["name"])
    wanted = list(dict.fromkeys(account(host, each) for each in args["members"]))
    before = host.groups[name]
    have = {each.lower() for each in before}
    asked = {each.lower() for each in wanted}
    result: dict[str, Any] = {"changed": False, "name": args["name"]}
    after = list(before)
    if state in ("present", "pure"):
        result["added"] = [each for each in wanted if each.lower() not in have]
        after += result["added"]
    if state in ("absent", "pure"):
        stays = state == "pure"
        result["removed"] = [each for each in before if (each.lower() in asked) != stays]
        after = [each for each in after if each not in result["removed"]]
    result["changed"] = bool(result.get("added") or result.get("removed"))
    result["members"] = after
    if not call.check:
        host.groups[name] = after
    elif result.get("removed") and len(after) < 2:
        # In check mode PowerShell's filter leaves one member as a text, and none as null.
        result["members"] = after[0] if after else None
    return result


_KNOWN = {
    "everyone": "Everyone",
    "s-1-1-0": "Everyone",
    "system": "NT AUTHORITY\\SYSTEM",
    "nt authority\\system": "NT AUTHORITY\\SYSTEM",
    "s-1-5-18": "NT AUTHORITY\\SYSTEM",
    "administrators": "BUILTIN\\Administrators",
    "builtin\\administrators": "BUILTIN\\Administrators",
    "s-1-5-32-544": "BUILTIN\\Administrators",
    "users": "BUILTIN\\Users",
    "builtin\\users": "BUILTIN\\Users",
    "nt authority\\authenticated users": "NT AUTHORITY\\Authenticated Users",
}


def account(host: Host, name: str) -> str:
    """The full name of an account.

    Raises:
        FailError: there is none of that name, as the module says it.
    """
    folded = name.lower()
    if folded in _KNOWN:
        return _KNOWN[folded]
    domain, _, own = name.rpartition("\\")
    if domain.lower() in ("", ".", host.name.lower()):
        for user in host.users:
            if user.lower() == own.lower():
                return f"{host.name.upper()}\\{user}"
    for known in host.accounts:
        if known.lower() == folded:
            return known
    raise FailError(
        f"account_name {name} is not a valid account, cannot get SID: Some or all identity "
        "references could not be translated."
    )


@module(
    "ansible.windows.win_credential",
    {
        "alias": Option(known=False),
        "attributes": Option(
            "list",
            elements="dict",
            known=False,
            options={
                "name": Option(required=True),
                "data": Option(),
                "data_format": Option(default="text", choices=("base64", "text")),
            },
        ),
        "comment": Option(),
        "name": Option(required=True),
        "persistence": Option(default="local", choices=("enterprise", "local")),
        "secret": Option(no_log=True),
        "secret_format": Option(default="text", choices=("base64", "text"), known=False),
        "state": Option(default="present", choices=("absent", "present")),
        "type": Option(
            required=True,
            choices=(
                "domain_certificate",
                "domain_password",
                "generic_certificate",
                "generic_password",
            ),
        ),
        "update_secret": Option(default=_ALWAYS, choices=(_ALWAYS, "on_create")),
        "username": Option(),
    },
    required_if=(("state", "present", ("username",)),),
)
def win_credential(call: Call) -> dict[str, Any]:
    """Keep a credential for the user that the task runs as."""
    args, host = call.args, call.host
    if not call.become:
        # A network logon has no credential store.
        raise FailError("Failed to access the user's credential store, run the module with become")
    if not args["type"].endswith("_password"):
        raise UnknownError(f"credential of type {args['type']}")
    key = f"{call.user.upper()}:{args['type']}:{args['name']}"
    there = host.credentials.get(key)
    if args["state"] == "absent":
        if there and not call.check:
            del host.credentials[key]
        return {"changed": there is not None}
    names = ("comment", "persistence", "username")
    wanted = {name: args[name] for name in names}
    changed = there is None or {name: there[name] for name in names} != wanted
    secret = args["secret"] if there is None else there["secret"]
    always = args["update_secret"] == _ALWAYS
    if there is not None and args["secret"] is not None and always:
        # Windows gives no domain password back, so it is written, and counted, each time.
        readable = args["type"] == "generic_password"
        changed = changed or not readable or there["secret"] != args["secret"]
        secret = args["secret"]
    if changed and not call.check:
        host.credentials[key] = {**wanted, "secret": secret}
    return {"changed": changed}
