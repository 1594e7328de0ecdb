"""What the emulated cloud keeps: resources, groups and operations, and how an id is read."""

from __future__ import annotations

import copy
import re
import threading
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from .replies import SUBSCRIPTION, Refused

if TYPE_CHECKING:
    from .cloud import Cloud

Document = dict[str, Any]
# Of a resource's document, what is no property.
_SCOPE = re.compile(
    r"/subscriptions/(?P<subscription>[^/]+)(/resourcegroups/(?P<group>[^/]+))?", re.IGNORECASE
)


@dataclass(frozen=True)
class Call:
    """What is asked of a resource: ``words`` stand behind its own path."""

    method: str
    words: list[str]
    query: dict[str, str]
    body: Any


@dataclass(frozen=True)
class Target:
    """What a path names.

    Attributes:
        scope: what stands before the last ``/providers/``.
        group: the name of its resource group, or empty.
        namespace: Microsoft.Compute; empty where the path has none.
        kinds, names: virtualMachineScaleSets, virtualMachines; nodes, 0. One kind more than names
            is a list or an action.
    """

    scope: str
    group: str
    namespace: str
    kinds: tuple[str, ...]
    names: tuple[str, ...]

    @property
    def type(self) -> str:
        return "/".join((self.namespace, *self.kinds)).lower()


def target(path: str) -> Target | None:
    """A path below a subscription; None where it is none."""
    found = _SCOPE.match(path)
    if not found:
        return None
    before, sign, after = path.rpartition("/providers/")
    scope, words = (before, after.strip("/").split("/")) if sign else (path, [])
    if not sign:
        rest = path[found.end() :].strip("/")
        words = ["", *rest.split("/")] if rest else [""]
        scope = found[0]
    namespace, *parts = words
    return Target(scope, found["group"] or "", namespace, tuple(parts[0::2]), tuple(parts[1::2]))


@dataclass
class Operation:
    """Something that goes on; ``document`` is what it ends with, ``error`` why it failed."""

    id: str = field(default_factory=lambda: str(uuid.uuid4()))
    status: str = "InProgress"
    document: Any = None
    error: Document | None = None
    done: threading.Event = field(default_factory=threading.Event)
    begun: str = field(default_factory=lambda: now())  # noqa: PLW0108 WHY: it stands below

    def said(self) -> Document:
        """As its status is asked for."""
        document: Document = {"id": self.id, "name": self.id, "status": self.status}
        document["startTime"] = self.begun
        if self.error:
            document["error"] = self.error
        return document


@dataclass
class Resource:
    """One resource.

    Attributes:
        id: as Azure writes it.
        kind: its type as Azure writes it.
        body: what was asked for.
        state: what the cloud knows beside that; nothing of it is in a template.
        busy: what goes on with it.
    """

    id: str
    kind: str
    body: Document
    version: str = ""
    state: Document = field(default_factory=dict)
    busy: Operation | None = None
    _named: tuple[Document | None, frozenset[str]] = (None, frozenset())

    def names(self) -> frozenset[str]:
        """The ids that its body names, in lower case, and what those are parts of."""
        if self._named[0] is not self.body:
            words = {word.lower() for word in references(self.body)}
            words |= {word.rsplit("/", 2)[0] for word in words}
            self._named = self.body, frozenset(words)
        return self._named[1]

    @property
    def key(self) -> str:
        return self.id.lower()

    @property
    def name(self) -> str:
        return self.id.rpartition("/")[2]

    @property
    def group(self) -> str:
        found = target(self.id)
        return found.group if found else ""

    @property
    def location(self) -> str:
        return squeezed(str(self.body.get("location", "")))

    @property
    def tags(self) -> dict[str, str]:
        return self.body.get("tags") or {}

    @property
    def properties(self) -> Document:
        return self.body.get("properties") or {}

    @property
    def zone(self) -> str:
        return str((self.body.get("zones") or [""])[0])


def squeezed(location: str) -> str:
    """A region's name as the API has it: "South Central US" is southcentralus."""
    return location.replace(" ", "").lower()


def now() -> str:
    return datetime.now(timezone.utc).isoformat()


def references(value: Any) -> Iterator[str]:
    """The ids of resources that a document names."""
    if isinstance(value, Mapping):
        for key, one in value.items():
            if key not in ("roleDefinitionId", "tags"):
                yield from references(one)
            if key == "userAssignedIdentities" and isinstance(one, Mapping):
                yield from one
    elif isinstance(value, list):
        for one in value:
            yield from references(one)
    elif isinstance(value, str) and value.startswith("/subscriptions/") and "/providers/" in value:
        yield value


def at(document: Any, *path: str) -> Any:
    """What stands at a path of a document; None where nothing does."""
    for name in path:
        document = document.get(name) if isinstance(document, Mapping) else None
    return document


def need(document: Any, *paths: str) -> None:
    """Refuse a document without a text at one of these dotted paths; a number is a list's place."""
    for path in paths:
        value = document
        for word in path.split("."):
            if word.isdigit() and isinstance(value, list):
                value = value[int(word)] if int(word) < len(value) else None
            else:
                value = at(value, word)
        if not isinstance(value, str) or not value:
            said = f"Required parameter '{path}' is missing (null), or no text."
            raise Refused(400, "InvalidParameter", said, target=path)


class Provider:
    """What a type of resource does, beyond being kept.

    Attributes:
        kind: the type as Azure writes it.
        seconds: what making one takes, and removing one, at the cloud's pace 1.
        regional: whether it has a location and tags.
        rank: of removing a group; lower goes first.
        defaults: properties that Azure adds to what it is given.
        fixed: paths of properties that cannot be changed.
        held: status and code of refusing to remove it while another resource names it.
        at_once: whether it is made and removed within the call, without an operation to ask for.
    """

    kind = ""
    seconds = 1.0
    regional = True
    rank = 5
    defaults: Document = {}
    fixed: tuple[tuple[str, ...], ...] = ()
    held: tuple[int, str] | None = None
    at_once = False

    def alone(self, cloud: Cloud, asked: Resource, before: Resource | None) -> None:
        """Refuse what can be seen without the resources that it names: so before a deployment."""

    def check(self, cloud: Cloud, asked: Resource, before: Resource | None) -> None:
        """Refuse the rest of what Azure refuses at once; the cloud is locked."""

    def make(self, cloud: Cloud, made: Resource, before: Document | None) -> None:
        """Make or change it; the cloud is not locked, and this may take its time."""

    def remove(self, cloud: Cloud, gone: Resource) -> None:
        """The end of it, in the same way."""

    def leave(self, cloud: Cloud, gone: Resource, query: dict[str, str]) -> None:
        """Refuse to remove it for what is in it; the cloud is locked."""

    def dated(self, resource: Resource, document: Document, version: str) -> None:
        """Add to a document what not every api-version says."""

    def add(self, cloud: Cloud, resource: Resource) -> Document:
        """Properties that only Azure sets."""
        return {}

    def view(self, cloud: Cloud, resource: Resource) -> Document:
        """The document of a GET."""
        body = copy.deepcopy(resource.body)
        properties = {
            **self.defaults,
            **(body.pop("properties", None) or {}),
            **self.add(cloud, resource),
            "provisioningState": resource.state["provisioningState"],
        }
        head = {"id": resource.id, "name": resource.name, "type": resource.kind}
        return {**head, **body, "properties": properties}

    def part(self, cloud: Cloud, resource: Resource, words: list[str]) -> bool:
        """Whether it has a part: its kind and name, in lower case."""
        return False

    def act(self, cloud: Cloud, resource: Resource, call: Call) -> Any:
        """What a path below it answers; None where it knows none such."""
        return None


def subscribed(path: str) -> None:
    """Refuse a subscription that is not this cloud's."""
    found = _SCOPE.match(path)
    if found and found["subscription"].lower() != SUBSCRIPTION:
        raise Refused(
            404,
            "SubscriptionNotFound",
            f"The subscription '{found['subscription']}' could not be found.",
        )
