"""How the emulated cloud makes, changes and removes a resource, whatever its type."""

from __future__ import annotations

import contextlib
import copy
import threading
import traceback
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from .faults import Faults
from .machines import AllocationFailed, Hardware, NoMachines
from .providers import PROVIDERS
from .replies import SUBSCRIPTION, Refused
from .resources import Operation, Provider, Resource, Target, at, now, references, target
from .seeds import Seeds
from .versions import known_version

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .cloud import Cloud
    from .resources import Document

_ALWAYS_KNOWN = ("/publishers/", "/providers/microsoft.authorization/roledefinitions/")


_SHAPES = {"location": str, "tags": dict, "properties": dict, "sku": dict, "zones": list}


def shaped(name: str, body: Document) -> None:
    """Refuse a document whose first members are of another type than every resource's."""
    for member, kind in _SHAPES.items():
        if not isinstance(body.get(member, kind()), kind):
            said = f"'{member}' of {name} is no {kind.__name__}."
            raise Refused(400, "InvalidRequestContent", said)
    for key, value in body.get("tags", {}).items():
        if not isinstance(value, str):
            said = f"The tag '{key}' of {name} is no text."
            raise Refused(400, "InvalidTagValue", said)


@contextlib.contextmanager
def understood(name: str) -> Iterator[None]:
    """A document that cannot be read is its writer's error: Azure's models (validate.py) would
    have refused it before."""
    try:
        yield
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        said = f"The request content of {name} was invalid: {error!r}."
        raise Refused(400, "InvalidRequestContent", said) from error


class Group:
    """A resource group."""

    def __init__(self, name: str, location: str, tags: dict[str, str]) -> None:
        self.name, self.location, self.tags = name, location, tags
        self.busy: Operation | None = None
        self.made = now()

    @property
    def going(self) -> bool:
        """Whether it is being deleted."""
        return self.busy is not None and not self.busy.done.is_set()

    def document(self) -> Document:
        return {
            "id": f"/subscriptions/{SUBSCRIPTION}/resourceGroups/{self.name}",
            "name": self.name,
            "type": "Microsoft.Resources/resourceGroups",
            "location": self.location,
            "tags": self.tags,
            "properties": {"provisioningState": "Deleting" if self.going else "Succeeded"},
        }


class Store(Seeds):
    """Groups, resources and operations.

    Attributes:
        hardware: what runs machines.
        pace: by which the seconds of an operation are multiplied.
        resources: by id in lower case.
        groups: by name in lower case.
        operations: by id.
        broken: tracebacks of operations in which this cloud itself failed.
        trouble: faults asked for.
        directory: object ids of users and groups, which roles can be given to.
    """

    def __init__(self, hardware: Hardware | None = None, *, pace: float = 0.0) -> None:
        super().__init__()
        self.hardware: Hardware = hardware or NoMachines()
        self.pace = pace
        self.resources: dict[str, Resource] = {}
        self.groups: dict[str, Group] = {}
        self.operations: dict[str, Operation] = {}
        self.broken: list[str] = []
        self.trouble = Faults()
        self.directory: set[str] = set()
        self.closing = threading.Event()

    # -- operations --

    def operate(
        self, work: Callable[[], Any], seconds: float, what: str = "", *, at_once: bool = False
    ) -> Operation:
        """Do work in a thread of its own, after so many seconds at pace 1; or at once, here."""
        operation = Operation()
        self.operations[operation.id] = operation
        if at_once:
            self._run(operation, work, 0.0)
            return operation
        slow = self.trouble.take("slow", what=what)
        seconds = seconds * self.pace + (float(slow.get("seconds", 0)) if slow else 0.0)
        threading.Thread(target=self._run, args=(operation, work, seconds), daemon=True).start()
        return operation

    def _run(self, operation: Operation, work: Callable[[], Any], seconds: float) -> None:
        self.closing.wait(seconds)
        document, wrong = None, None
        try:
            document = work()
        except Refused as refused:
            wrong = refused.error
        except AllocationFailed as error:
            wrong = {"code": error.code, "message": str(error)}
        except Exception as error:  # noqa: BLE001 WHY: whoever waits for it must see an end
            self.broken.append(traceback.format_exc())
            said = f"The emulated cloud itself failed: {error!r}"
            wrong = {"code": "InternalServerError", "message": said}
        with self.lock:
            # One that was canceled has ended.
            if not operation.done.is_set():
                operation.document, operation.error = document, wrong
                operation.status = "Failed" if wrong else "Succeeded"
                operation.done.set()

    def settle(self, seconds: float = 30.0) -> None:
        """Wait until nothing goes on."""
        for operation in list(self.operations.values()):
            if not operation.done.wait(seconds):
                raise TimeoutError(f"operation {operation.id} still goes on")

    def close(self) -> None:
        """End operations' waits, and every machine."""
        self.closing.set()
        with contextlib.suppress(TimeoutError):
            self.settle(60.0)
        self.hardware.close()

    @property
    def _cloud(self) -> Cloud:
        """Itself: a store is the base of a cloud, and nothing else."""
        return cast("Cloud", self)

    @staticmethod
    def each(work: Callable[[Any], Any], many: list[Any]) -> list[Any]:
        """Some at a time; the first that fails is raised when all have ended."""
        with ThreadPoolExecutor(8) as pool:
            ran = [pool.submit(work, one) for one in many]
        return [one.result() for one in ran]

    # -- what is there --

    def provider(self, kind: str) -> Provider:
        found = PROVIDERS.get(kind.lower())
        if found is None:
            raise Refused(
                404, "InvalidResourceType", f"The emulated cloud knows no resource type '{kind}'."
            )
        return found

    def group(self, name: str) -> Group:
        found = self.groups.get(name.lower())
        if found is None:
            raise Refused(
                404, "ResourceGroupNotFound", f"Resource group '{name}' could not be found."
            )
        return found

    def resource(self, path: str) -> Resource:
        """The resource of an id."""
        found = self.resources.get(path.lower())
        if found is None:
            asked = target(path)
            if asked and asked.group and not path.lower().startswith("/providers"):
                self.group(asked.group)
            raise Refused(404, "ResourceNotFound", f"The Resource '{path}' was not found.")
        return found

    def of_kind(self, kind: str, scope: str = "") -> list[Resource]:
        """Resources of a type below a scope."""
        start = f"{scope.lower()}/"
        return [
            one
            for key, one in self.resources.items()
            if one.kind.lower() == kind.lower() and key.startswith(start)
        ]

    def within(self, group: str) -> list[Resource]:
        """All resources of a group."""
        start = f"/subscriptions/{SUBSCRIPTION}/resourcegroups/{group}/".lower()
        return [one for key, one in self.resources.items() if key.startswith(start)]

    def users(self, gone: str) -> Iterator[Resource]:
        """What names a resource, or a part of it, and is no part of it."""
        gone = gone.lower()
        for one in list(self.resources.values()):
            if gone in one.names() and one.key != gone and not one.key.startswith(f"{gone}/"):
                yield one

    def exists(self, path: str) -> bool:
        """Whether an id is of something that is there: also a part, such as a subnet."""
        key = path.lower()
        if key in self.resources or any(word in key for word in _ALWAYS_KNOWN):
            return True
        parent = self.resources.get(key.rsplit("/", 2)[0])
        if parent is None:
            return False
        return PROVIDERS[parent.kind.lower()].part(self._cloud, parent, key.rsplit("/", 2)[1:])

    def view(self, resource: Resource) -> Document:
        return self.provider(resource.kind).view(self._cloud, resource)

    # -- making --

    def named(self, asked: Target) -> tuple[Provider, str]:
        """The provider of a path, and the id that its resource has, as Azure writes it."""
        provider = self.provider("/".join((asked.namespace, *asked.kinds)))
        namespace, *kinds = provider.kind.split("/")
        scope = asked.scope
        found = target(scope)
        if found and found.group:
            name = self.group(found.group).name
            rest = scope.split("/", 5)[5:]
            scope = "/".join((f"/subscriptions/{SUBSCRIPTION}/resourceGroups/{name}", *rest))
        parts = zip(kinds, asked.names, strict=True)
        return provider, f"{scope}/providers/{namespace}" + "".join(f"/{k}/{n}" for k, n in parts)

    def planned(self, path: str, body: Any, version: str) -> tuple[Resource, Resource | None]:
        """A resource as it would be made, and what is there of it; it was held against what a
        resource's own document can say.

        Raises:
            Refused: it would not be taken.
        """
        asked = target(path)
        if asked is None or not asked.names or len(asked.names) != len(asked.kinds):
            raise Refused(400, "InvalidResourceId", f"'{path}' names no resource.")
        if asked.group and self.group(asked.group).going:
            raise Refused(
                409,
                "ResourceGroupBeingDeleted",
                f"The resource group '{asked.group}' is in deprovisioning state and cannot perform"
                " this operation.",
            )
        provider, name = self.named(asked)
        known_version(asked.namespace, version)
        if not isinstance(body, dict):
            raise Refused(400, "InvalidRequestContent", "The request content is no object.")
        body = {
            key: copy.deepcopy(one)
            for key, one in body.items()
            if key not in ("id", "name", "type")
        }
        shaped(name, body)
        resource = Resource(name, provider.kind, body, version)
        before = self.resources.get(name.lower())
        if "/virtualmachine" in provider.kind.lower():
            self.trouble.plan(path=name, type=provider.kind)
        if provider.regional and not resource.location:
            said = f"The location property is required for '{name}'."
            raise Refused(400, "LocationRequired", said)
        if before and before.location != resource.location:
            raise Refused(
                409,
                "InvalidResourceLocation",
                f"The resource '{resource.name}' already exists in location '{before.location}'. A"
                f" resource with the same name cannot be created in '{resource.location}'.",
            )
        return resource, before

    def preflight(self, resource: Resource, before: Resource | None) -> None:
        """Refuse what its own document, and what is there of it, stand against."""
        provider = self.provider(resource.kind)
        for place in provider.fixed:
            if before and at(before.body, *place) != at(resource.body, *place):
                said = f"Changing property '{'.'.join(place)}' is not allowed."
                raise Refused(409, "PropertyChangeNotAllowed", said, target=place[-1])
        with understood(resource.id):
            provider.alone(self._cloud, resource, before)

    def sound(self, resource: Resource, before: Resource | None) -> None:
        """Refuse what other resources stand against."""
        if resource.kind.count("/") > 1:
            parent = resource.id.rsplit("/", 2)[0]
            if not self.exists(parent):
                said = f"The parent resource '{parent}' was not found."
                raise Refused(404, "ParentResourceNotFound", said)
        for path in references(resource.body):
            if path.lower() != resource.key and not self.exists(path):
                raise Refused(
                    400,
                    "InvalidResourceReference",
                    f"Resource {path} referenced by resource {resource.id} was not found.",
                )
        if before and before.busy and not before.busy.done.is_set():
            said = f"Another operation on '{resource.name}' is in progress."
            raise Refused(409, "AnotherOperationInProgress", said)
        self.provider(resource.kind).check(self._cloud, resource, before)

    def put(self, path: str, body: Any, version: str) -> tuple[Resource, bool]:
        """Make or change a resource, whose ``busy`` then goes on; and whether it is new.

        Raises:
            Refused: it is not taken.
        """
        with self.lock:
            resource, before = self.planned(path, body, version)
            self.preflight(resource, before)
            with understood(resource.id):
                self.sound(resource, before)
                # What cannot be shown cannot be kept.
                trial = dict(before.state) if before else {}
                trial["provisioningState"] = "Creating"
                self.view(replace(resource, state=trial))
            old = before.body if before else None
            if before:
                before.body, before.version = resource.body, version
                resource = before
            else:
                self.resources[resource.key] = resource
            provider = self.provider(resource.kind)
            resource.state["provisioningState"] = "Updating" if before else "Creating"
            resource.busy = self.operate(
                lambda: self._make(provider, resource, old),
                provider.seconds,
                resource.id,
                at_once=provider.at_once,
            )
            return resource, before is None

    def _make(self, provider: Provider, made: Resource, old: Document | None) -> Document:
        state = "Failed"
        try:
            failed = self.trouble.take("fail", path=made.id, type=made.kind, name=made.name)
            if failed:
                raise Refused(
                    500,
                    failed.get("code", "InternalOperationError"),
                    failed.get("message", "An internal error occurred."),
                    **({"details": failed["details"]} if "details" in failed else {}),
                )
            with understood(made.id):
                provider.make(self._cloud, made, old)
            state = "Succeeded"
        finally:
            with self.lock:
                made.state["provisioningState"] = state
        with self.lock:
            return self.view(made)

    # -- removing --

    def delete(self, path: str, *, forced: bool = False) -> Operation | None:
        """Begin to remove a resource; None where there is none.

        Raises:
            Refused: another one needs it.
        """
        with self.lock:
            resource = self.resources.get(path.lower())
            if resource is None:
                return None
            provider = self.provider(resource.kind)
            user = None if forced else next(self.users(resource.id), None)
            if user and provider.held:
                said = f"{resource.id} is in use by {user.id} and cannot be deleted."
                raise Refused(provider.held[0], provider.held[1], said)
            before = resource.busy
            resource.state["provisioningState"] = "Deleting"
            resource.busy = self.operate(
                lambda: self._remove(provider, resource, before),
                provider.seconds,
                resource.id,
                at_once=provider.at_once,
            )
            return resource.busy

    def _remove(self, provider: Provider, gone: Resource, before: Operation | None) -> None:
        if before:
            before.done.wait()
        failed = self.trouble.take("fail-delete", path=gone.id, type=gone.kind, name=gone.name)
        if failed:
            gone.state["provisioningState"] = "Failed"
            raise Refused(
                500, failed.get("code", "InternalOperationError"), failed.get("message", "No.")
            )
        provider.remove(self._cloud, gone)
        with self.lock:
            for key in [key for key in self.resources if key.startswith(f"{gone.key}/")]:
                self.resources.pop(key)
            self.resources.pop(gone.key, None)

    def delete_group(self, name: str) -> Operation:
        """Begin to remove a group and all in it, machines first.

        Raises:
            Refused: there is none.
        """
        with self.lock:
            group = self.group(name)
            if group.busy is None or not group.going:
                group.busy = self.operate(lambda: self._remove_group(group), 1.0, group.name)
            return group.busy

    def _remove_group(self, group: Group) -> None:
        for rank in range(10):
            while True:
                with self.lock:
                    now_ = [
                        one
                        for one in self.within(group.name)
                        if self.provider(one.kind).rank == rank
                    ]
                    begun = [(one, self.delete(one.id, forced=True)) for one in now_]
                if not begun:
                    break
                for one, operation in begun:
                    assert operation is not None
                    operation.done.wait()
                    if operation.error:
                        raise Refused(
                            409,
                            "ResourceGroupDeletionBlocked",
                            f"Deletion of resource group '{group.name}' failed as resources with"
                            f" identifiers '{one.id}' could not be deleted.",
                            details=[operation.error],
                        )
        with self.lock:
            self.groups.pop(group.name.lower(), None)
            self.forget_group(group.name)

    def forget_group(self, name: str) -> None:
        """What else went with a group."""
