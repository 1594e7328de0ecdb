"""ARM's template expressions, as far as trueup's templates use them; others are refused.

Source: https://learn.microsoft.com/azure/azure-resource-manager/templates/template-expressions and
template-functions. What needs a resource that is not there yet raises Later.
"""

from __future__ import annotations

import base64
import json
import re
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .replies import SUBSCRIPTION, TENANT, Refused

if TYPE_CHECKING:
    from collections.abc import Callable

_WORDS = re.compile(
    r"\s*(?:(?P<text>'(?:[^']|'')*')|(?P<number>-?\d+)|(?P<name>[A-Za-z_]\w*)|(?P<sign>[().,\[\]]))"
)


class Later(Exception):
    """A value that is not known before a resource is made."""


def invalid(message: str) -> Refused:
    return Refused(400, "InvalidTemplate", f"Deployment template validation failed: '{message}'.")


@dataclass
class Scope:
    """What the functions of a template see.

    Attributes:
        reference: (id, whether all of it) to the resource, or its properties.
        group: the resource group's document.
        url: of the cloud.
    """

    group: dict[str, Any]
    url: str
    reference: Callable[[str, bool], Any]
    parameters: dict[str, Any] = field(default_factory=dict)
    variables: dict[str, Any] = field(default_factory=dict)

    def value(self, value: Any) -> Any:
        """A value of a template with its expressions worked out."""
        if isinstance(value, dict):
            return {key: self.value(one) for key, one in value.items()}
        if isinstance(value, list):
            return [self.value(one) for one in value]
        if not isinstance(value, str) or not value.startswith("["):
            return value
        if value.startswith("[["):
            return value[1:]
        if not value.endswith("]"):
            return value
        return _Expression(value[1:-1], self).whole()

    def settled(self, value: Any) -> Any:
        """The same, where what is not known yet stays an expression."""
        if isinstance(value, dict):
            return {key: self.settled(one) for key, one in value.items()}
        if isinstance(value, list):
            return [self.settled(one) for one in value]
        try:
            return self.value(value)
        except Later:
            return value


class _Expression:
    def __init__(self, text: str, scope: Scope) -> None:
        self.text, self.scope = text, scope
        self.words: list[tuple[str, str]] = []
        at = 0
        while at < len(text.rstrip()):
            found = _WORDS.match(text, at)
            if not found or not found.lastgroup:
                raise invalid(f"the expression '{text}' cannot be read at {text[at : at + 20]!r}")
            self.words.append((found.lastgroup, found[found.lastgroup]))
            at = found.end()
        self.at = 0

    def look(self) -> str:
        return self.words[self.at][1] if self.at < len(self.words) else ""

    def take(self, wanted: str = "") -> tuple[str, str]:
        if self.at >= len(self.words) or (wanted and self.look() != wanted):
            raise invalid(f"the expression '{self.text}' has {self.look()!r} instead of {wanted!r}")
        self.at += 1
        return self.words[self.at - 1]

    def whole(self) -> Any:
        value = self.one()
        if self.at != len(self.words):
            raise invalid(f"the expression '{self.text}' goes on after its end: {self.look()!r}")
        return value

    def one(self) -> Any:
        kind, word = self.take()
        value: Any
        if kind == "text":
            return word[1:-1].replace("''", "'")
        if kind == "number":
            return int(word)
        if kind != "name":
            raise invalid(f"the expression '{self.text}' has {word!r} where a value should be")
        value = self.called(word)
        while self.look() in (".", "["):
            _, sign = self.take()
            key = self.take()[1] if sign == "." else self.one()
            if sign == "[":
                self.take("]")
            try:
                value = value[key]
            except (KeyError, IndexError, TypeError):
                raise invalid(f"the property '{key}' of '{self.text}' does not exist") from None
        return value

    def called(self, name: str) -> Any:
        self.take("(")
        given = []
        while self.look() != ")":
            given.append(self.one())
            if self.look() != ")":
                self.take(",")
        self.take(")")
        function = FUNCTIONS.get(name.lower())
        if function is None:
            raise invalid(f"the template function '{name}' is not known to the emulated cloud")
        try:
            return function(self.scope, *given)
        except (TypeError, ValueError, IndexError, AttributeError) as error:
            raise invalid(f"'{name}' in '{self.text}' is given what it does not take") from error


def resource_id(start: str, *words: str) -> str:
    """An id of a type and names; a subscription and a group may come first."""
    at = next(number for number, word in enumerate(words) if "/" in word)
    subscription, group = start.split("|")
    if at == 2:
        subscription, group = words[0], words[1]
    elif at == 1:
        group = words[0]
    names = words[at + 1 :]
    namespace, *kinds = words[at].split("/")
    if len(kinds) != len(names):
        raise ValueError(words)
    scope = f"/subscriptions/{subscription}" + (f"/resourceGroups/{group}" if group else "")
    return f"{scope}/providers/{namespace}" + "".join(
        f"/{kind}/{name}" for kind, name in zip(kinds, names, strict=True)
    )


def _parameter(scope: Scope, name: str) -> Any:
    for key, value in scope.parameters.items():
        if key.lower() == name.lower():
            return value
    raise invalid(f"the template parameter '{name}' is not found")


def _variable(scope: Scope, name: str) -> Any:
    if name not in scope.variables:
        raise invalid(f"the template variable '{name}' is not found")
    return scope.value(scope.variables[name])


def _reference(scope: Scope, what: str, version: str = "", full: str = "") -> Any:
    if full not in ("", "Full"):
        raise ValueError(full)
    if not what.startswith("/"):
        raise invalid("the emulated cloud takes resource ids only in reference()")
    if not version:
        raise invalid(f"reference('{what}') needs an API version")
    return scope.reference(what, bool(full))


def _concat(_: Scope, *given: Any) -> Any:
    if given and all(isinstance(one, list) for one in given):
        return [item for one in given for item in one]
    return "".join(_text(one) for one in given)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value)
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


def _environment(scope: Scope) -> dict[str, Any]:
    return {
        "name": "emulated",
        "resourceManager": f"{scope.url}/",
        "authentication": {"loginEndpoint": f"{scope.url}/", "tenant": TENANT},
        "suffixes": {"storage": "core.windows.net"},
    }


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "resourceid": lambda scope, *words: resource_id(
        f"{SUBSCRIPTION}|{scope.group['name']}", *words
    ),
    "subscriptionresourceid": lambda _, *words: resource_id(f"{SUBSCRIPTION}|", *words),
    "parameters": _parameter,
    "variables": _variable,
    "reference": _reference,
    "guid": lambda _, *words: str(uuid.uuid5(uuid.NAMESPACE_OID, "-".join(words))),
    "resourcegroup": lambda scope: scope.group,
    "subscription": lambda _: {
        "id": f"/subscriptions/{SUBSCRIPTION}",
        "subscriptionId": SUBSCRIPTION,
        "tenantId": TENANT,
        "displayName": "emulated",
    },
    "environment": _environment,
    "concat": _concat,
    "format": lambda _, text, *given: re.sub(
        r"\{(\d+)\}|\{\{|\}\}",
        lambda found: _text(given[int(found[1])]) if found[1] else found[0][0],
        text,
    ),
    "base64": lambda _, text: base64.b64encode(text.encode()).decode(),
    "string": lambda _, value: _text(value),
    "tolower": lambda _, text: text.lower(),
    "uniquestring": lambda _, *words: uuid.uuid5(uuid.NAMESPACE_OID, "-".join(words)).hex[:13],
}
