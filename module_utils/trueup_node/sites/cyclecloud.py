"""Nodes of a CycleCloud cluster, by its documented REST API.

Sources, read 2026-11-21:

* https://learn.microsoft.com/azure/cyclecloud/api (reference of 2026-06-19): calls, fields, status
  codes; that the server ignores a ``requestId`` which it has had before and answers 409; ``added``
  and ``message`` of a set; ``OK`` or ``Error`` of a node that is to be terminated. A node is "a
  node record" there, and its fields are not listed.
* https://learn.microsoft.com/azure/cyclecloud/how-to/start-cluster: the states of a node.
* Azure/cyclecloud-scalelib (34aa3086, nodemanager.py), Azure/cyclecloud-symphony (0e1e210c,
  cyclecloud_provider.py, cluster.py) and Azure/cyclecloud-slurm (049346f6, installlib.py), clients
  by the same maker: the fields of a node record that they read, that a node is usable when it is
  Ready or Started and has an address, that Failed and Unavailable are failures, and "No operation
  found for request id".
"""

from __future__ import annotations

import json
import re
import urllib.parse
import uuid
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ..errors import BadInput, TrueupError
from ..rest import Lost, Refused, http_date
from .cyclecloud_api import Api, iso_date

READY = ("Ready", "Started")
FAILED = ("Failed", "Unavailable", "Error")
GONE = ("Terminated", "Off")

# An operation that was submitted less than this ago may still be writing down its nodes.
SETTLE_SECONDS = 120.0
# How often a call that changes something is sent again when its answer was lost.
TRIES = 5
MAX_GENERATIONS = 100

# The server's message for an unknown request id.
_NO_OPERATION = "no operation found"
# Parameters that only a request can have.
_OF_A_REQUEST = (
    *("name", "request_id", "recreate", "machine_type", "placement_group_id", "name_format"),
)

_OURS = uuid.UUID("6f3a1f0e-6a0b-5d0f-9d52-2f6f0f8f6a11")  # namespace of our request ids


# Of a node's record, in the order of Node's members after its state.
_NODE_FIELDS = (
    *("NodeId", "Hostname", "PrivateIp", "TargetState", "MachineType", "PlacementGroupId"),
    *("Template", "StatusMessage"),
)


# ---- answers of the API -------------------------------------------------------------------------


class Node(NamedTuple):
    """The used members of a node's record. The record holds many more, secrets included."""

    name: str
    state: Optional[str]
    id: Optional[str]
    hostname: Optional[str]
    private_ip: Optional[str]
    target_state: Optional[str]
    machine_type: Optional[str]
    placement_group: Optional[str]
    nodearray: Optional[str]
    status_message: Optional[str]

    @property
    def key(self) -> str:
        return self.id or self.name

    def phase(self) -> str:
        """ready, failed, ending, or waiting. A state that we do not know is waited for."""
        if self.state in FAILED:
            return "failed"
        if self.target_state not in (None, "Started"):
            return "ending"
        return "ready" if self.state in READY and self.private_ip else "waiting"

    def word(self) -> str:
        """Its state, for people."""
        lacks = " without an address" if self.state in READY and not self.private_ip else ""
        return f"{self.state or 'unknown'}{lacks}"


def node_of(record: Any) -> Node:
    """A node from its record.

    Raises:
        TrueupError: it has no name.
    """
    if not isinstance(record, dict) or not isinstance(record.get("Name"), str):
        raise TrueupError("CycleCloud lists a node without a Name; nothing was taken from the list")

    def text(key: str) -> Optional[str]:
        value = record.get(key)
        return str(value) if value not in (None, "") else None

    return Node(
        record["Name"], text("Status") or text("State"), *(text(key) for key in _NODE_FIELDS)
    )


class Bucket(NamedTuple):
    """Capacity of one VM size in one nodearray."""

    nodearray: str
    machine_type: Optional[str]
    available: int
    active: int
    maximum: Optional[int]
    quota: Optional[int]
    valid: bool
    invalid_reason: Optional[str]
    max_placement_group: Optional[int]
    placement_groups: Mapping[str, int]

    def public(self) -> Dict[str, Any]:
        return {
            "nodearray": self.nodearray,
            "machine_type": self.machine_type,
            "available": self.available,
            "active": self.active,
            "max": self.maximum,
            "quota": self.quota,
            "valid": self.valid,
        }


def buckets_of(status: Mapping[str, Any]) -> List[Bucket]:
    """The buckets of a cluster's status.

    Raises:
        TrueupError: a field that the reference requires is missing or no number.
    """
    try:
        return [
            _bucket(str(array["name"]), bucket)
            for array in status["nodearrays"]
            for bucket in array["buckets"]
        ]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise TrueupError(
            f"CycleCloud's cluster status is not laid out as documented ({type(error).__name__}: "
            f"{error}); nothing was created or terminated"
        ) from None


def _bucket(nodearray: str, bucket: Mapping[str, Any]) -> Bucket:
    def number(key: str) -> Optional[int]:
        return None if bucket.get(key) is None else int(bucket[key])

    return Bucket(
        nodearray=nodearray,
        machine_type=(bucket.get("definition") or {}).get("machineType"),
        available=int(bucket["availableCount"]),
        active=int(bucket["activeCount"]),
        maximum=number("maxCount"),
        quota=number("quotaCount"),
        valid=bucket.get("valid", True) is not False,
        invalid_reason=bucket.get("invalidReason") or None,
        max_placement_group=number("maxPlacementGroupSize"),
        placement_groups={
            str(group["name"]): int(group["activeCount"])
            for group in bucket.get("placementGroups") or []
        },
    )


# ---- request and outcome ------------------------------------------------------------------------


@dataclass(frozen=True)
class Ask:
    """The user's request."""

    cluster: str
    nodearray: Optional[str] = None
    count: Optional[int] = None
    counting: str = "request"
    name: Optional[str] = None
    request_id: Optional[str] = None
    recreate: bool = False
    machine_type: Optional[str] = None
    placement_group_id: Optional[str] = None
    name_format: Optional[str] = None
    names: Sequence[str] = ()
    ids: Sequence[str] = ()

    @property
    def path(self) -> str:
        return "/clusters/" + urllib.parse.quote(self.cluster, safe="")

    @property
    def has_request(self) -> bool:
        """Whether it names a request."""
        derived = bool(self.name and self.nodearray and self.count is not None)
        return self.counting == "request" and (bool(self.request_id) or derived)

    def request(self, generation: int = 0) -> str:
        """The request id: the user's, or one that the same wish always has."""
        if self.request_id:
            return self.request_id
        wish: List[Any] = [self.cluster, self.nodearray, self.count, self.name]
        if generation:
            wish.append(generation)
        return str(uuid.uuid5(_OURS, json.dumps(wish)))

    def check(self, state: str) -> None:
        """BadInput where the parameters cannot go together."""
        if self.count is not None and self.count < 1:
            raise BadInput(f"count is {self.count}; write 1 or more")
        if self.recreate and self.request_id:
            raise BadInput(
                "recreate cannot make a new request out of request_id; leave one of them out"
            )
        if state == "present":
            self._check_present()
        elif state == "absent" and not (self.names or self.ids or self.has_request):
            raise BadInput(
                "state=absent does not say which nodes; give names, ids, request_id, or nodearray, "
                "count and name as they were created"
            )

    def _check_present(self) -> None:
        missing = [key for key in ("nodearray", "count") if getattr(self, key) is None]
        if self.counting == "request" and not (self.name or self.request_id):
            missing.append("name (or request_id)")
        if missing:
            raise BadInput(f"state=present lacks {', '.join(missing)}")
        if self.names or self.ids:
            raise BadInput("names and ids go with state=absent or status; leave them out")
        extra = [key for key in _OF_A_REQUEST if getattr(self, key)]
        if self.counting == "total" and extra:
            raise BadInput(
                f"counting=total takes no {', '.join(extra)}: CycleCloud's scale call has only a "
                "total; leave that out or write counting=request"
            )


@dataclass
class Outcome:
    """The outcome so far, also when it fails halfway."""

    cluster: str
    request_id: Optional[str] = None
    operation_id: Optional[str] = None
    changed: bool = False
    created: int = 0
    to_create: int = 0
    terminated: List[str] = field(default_factory=list)
    to_terminate: List[str] = field(default_factory=list)
    unknown: List[str] = field(default_factory=list)
    nodes: List[Node] = field(default_factory=list)
    buckets: List[Bucket] = field(default_factory=list)
    cluster_state: Optional[str] = None
    history: List[Dict[str, Any]] = field(default_factory=list)
    waited_seconds: float = 0.0
    msg: str = ""

    def note(self, response: Mapping[str, Any]) -> None:
        """Note the operation that an answer names."""
        self.operation_id = str(response["operationId"]) if response.get("operationId") else None

    def see(self, nodes: Sequence[Node], seconds: float = 0.0) -> None:
        """Note the nodes, and the moment when their states changed."""
        self.nodes = sorted(nodes, key=_by_number)
        self.waited_seconds = round(seconds, 1)
        states = {state: len(names) for state, names in states_of(self.nodes).items()}
        if not self.history or self.history[-1]["states"] != states:
            self.history.append({"seconds": self.waited_seconds, "states": states})

    def result(self) -> Dict[str, Any]:
        """The return values of the module."""
        members = {
            key: value for key, value in vars(self).items() if key not in ("nodes", "buckets")
        }
        keys = (
            *("name", "id", "hostname", "private_ip", "state", "machine_type", "placement_group"),
            *("nodearray", "status_message"),
        )
        return {
            **members,
            "nodes": [{key: getattr(node, key) for key in keys} for node in self.nodes],
            "states": states_of(self.nodes),
            "buckets": [bucket.public() for bucket in self.buckets],
        }


def _by_number(node: Node) -> Tuple[str, int, str]:
    """hpc-2 before hpc-10."""
    match = re.match(r"(.*?)(\d{1,9})$", node.name)
    return (match[1], int(match[2]), node.name) if match else (node.name, -1, node.name)


def states_of(nodes: Sequence[Node]) -> Dict[str, List[str]]:
    """State to names."""
    by_state: Dict[str, List[str]] = {}
    for node in nodes:
        by_state.setdefault(node.word(), []).append(node.name)
    return dict(sorted(by_state.items()))


def _told(nodes: Sequence[Node]) -> List[str]:
    """The nodes of each state, for a sentence."""
    return [f"{state}: {some(names)}" for state, names in states_of(nodes).items()]


def some(names: Sequence[str], limit: int = 8) -> str:
    """Names for a sentence."""
    text = ", ".join(names[:limit])
    return text if len(names) <= limit else f"{text} and {len(names) - limit} more"


# ---- reading ------------------------------------------------------------------------------------


def read_status(api: Api, ask: Ask, outcome: Outcome) -> List[Bucket]:
    """The cluster's buckets.

    Raises:
        BadInput: there is no such cluster or nodearray.
    """
    try:
        status = api.get(ask.path + "/status", {"nodes": "false"})
    except Refused as error:
        if error.status == 404:
            raise BadInput(f"{api.url} has no cluster {ask.cluster!r}; check cluster") from None
        raise
    outcome.cluster_state = str(status["state"]) if status.get("state") else None
    buckets = buckets_of(status)
    if ask.nodearray is None:
        outcome.buckets = buckets
        return buckets
    arrays = [str(array["name"]) for array in status["nodearrays"]]
    if ask.nodearray not in arrays:
        raise BadInput(
            f"cluster {ask.cluster} has no nodearray {ask.nodearray!r}; "
            f"it has {some(arrays) or 'none'}"
        )
    outcome.buckets = [bucket for bucket in buckets if bucket.nodearray == ask.nodearray]
    return outcome.buckets


def _nodes_in(documents: Sequence[Mapping[str, Any]]) -> List[Node]:
    by_key: Dict[str, Node] = {}
    for document in documents:
        records = document.get("nodes")
        if not isinstance(records, list):
            raise TrueupError(
                "CycleCloud answers a search for nodes without a list of nodes; "
                "check that url is CycleCloud's"
            )
        for record in records:
            node = node_of(record)
            by_key[node.key] = node
    return list(by_key.values())


def list_nodes(api: Api, ask: Ask) -> List[Node]:
    """All nodes of the cluster, as they are now."""
    return _nodes_in(api.pages(ask.path + "/nodes")[0])


@dataclass(frozen=True)
class Request:
    """An earlier request: the nodes of it that still are there, and its age by the server."""

    nodes: List[Node]
    started: Optional[str]
    age_seconds: Optional[float]

    @property
    def live(self) -> List[Node]:
        return [node for node in self.nodes if node.phase() != "ending"]

    @property
    def settling(self) -> bool:
        return self.age_seconds is not None and self.age_seconds < SETTLE_SECONDS


def find_request(api: Api, ask: Ask, request_id: str) -> Optional[Request]:
    """The request of an id as CycleCloud knows it, or None.

    The operation says which nodes are its own; their states come from the list of all nodes. A node
    that only the operation knows is gone: whether the operation's list is kept up to date is not
    documented.
    """
    try:
        documents, response = api.pages(ask.path + "/nodes", {"request_id": request_id})
    except Refused as error:
        if error.status == 404 or (error.status == 400 and _NO_OPERATION in error.said.lower()):
            return None
        raise
    mine = {node.key for node in _nodes_in(documents)}
    now = [node for node in list_nodes(api, ask) if node.key in mine] if mine else []
    operation = documents[0].get("operation")
    started = operation.get("startTime") if isinstance(operation, dict) else None
    begun, date = iso_date(started), http_date(response.headers.get("date"))
    age = (date - begun).total_seconds() if begun and date else None
    return Request(now, str(started) if started else None, age)


def requests_of(api: Api, ask: Ask) -> List[Tuple[str, Request]]:
    """The request and its replacements (``recreate``), oldest first."""
    requests: List[Tuple[str, Request]] = []
    for generation in range(1 if ask.request_id else MAX_GENERATIONS):
        request_id = ask.request(generation)
        request = find_request(api, ask, request_id)
        if request is None:
            break
        requests.append((request_id, request))
    return requests


# ---- present ------------------------------------------------------------------------------------


class Patience(NamedTuple):
    """How long is waited for nodes."""

    wait: bool = True
    timeout_seconds: float = 1800
    poll_seconds: float = 15


def pick_bucket(buckets: Sequence[Bucket], ask: Ask) -> Bucket:
    """The bucket that the nodes come from.

    CycleCloud takes the first that matches. Which size is billed is not left to that: where a
    nodearray has several, the user names one.
    """
    where = f"nodearray {ask.nodearray} of cluster {ask.cluster}"
    fitting = [b for b in buckets if ask.machine_type in (None, b.machine_type)]
    if not fitting:
        raise BadInput(f"{where} has no {ask.machine_type}; it has {_sizes(buckets) or 'no size'}")
    valid = [b for b in fitting if b.valid]
    if not valid:
        reason = fitting[0].invalid_reason or "no reason given"
        raise BadInput(f"{where} can make no new {fitting[0].machine_type} ({reason})")
    if len(valid) > 1 and ask.machine_type is None:
        raise BadInput(f"{where} has several sizes ({_sizes(valid)}); name one as machine_type")
    return valid[0]


def _sizes(buckets: Sequence[Bucket]) -> str:
    return some([bucket.machine_type or "?" for bucket in buckets])


def check_capacity(bucket: Bucket, ask: Ask) -> None:
    """BadInput, before anything is made, where the nodes do not fit; with both figures."""
    count = ask.count or 0
    label = f"{bucket.machine_type} in nodearray {bucket.nodearray}"
    if bucket.available < count:
        limits = f"{bucket.active} active"
        limits += "" if bucket.maximum is None else f", at most {bucket.maximum}"
        limits += "" if bucket.quota is None else f", quota for {bucket.quota}"
        raise BadInput(
            f"{count} nodes of {label} were asked and {bucket.available} can be made ({limits}); "
            "ask fewer, or raise the quota or the nodearray's limit"
        )
    if ask.placement_group_id and bucket.max_placement_group is not None:
        inside = bucket.placement_groups.get(ask.placement_group_id, 0)
        if inside + count > bucket.max_placement_group:
            raise BadInput(
                f"placement group {ask.placement_group_id} would have {inside + count} nodes of "
                f"{label} and can have {bucket.max_placement_group}; ask fewer, or name another"
            )


def ensure_present(api: Api, ask: Ask, patience: Patience, check: bool, outcome: Outcome) -> None:
    """Make the missing nodes and wait for them. ``outcome`` holds the changes, also on an error."""
    buckets = read_status(api, ask, outcome)
    if ask.counting == "total":
        _present_total(api, ask, check, buckets, outcome)
    else:
        _present_request(api, ask, check, buckets, outcome)
    if check or not patience.wait:
        return
    count = ask.count or 0

    def poll() -> List[Node]:
        if ask.counting == "total":
            return _of_array(api, ask)
        request = find_request(api, ask, outcome.request_id or "")
        return request.nodes if request else []

    wait_ready(api, poll, count, patience, outcome)
    outcome.msg += f"; {len(outcome.nodes)} ready"


def _present_request(
    api: Api, ask: Ask, check: bool, buckets: Sequence[Bucket], outcome: Outcome
) -> None:
    earlier = requests_of(api, ask)
    outcome.request_id = ask.request(len(earlier))
    if earlier:
        request_id, request = earlier[-1]
        if request.live or request.settling:
            outcome.request_id = request_id
            outcome.see(request.nodes)
            _check_same(ask, request_id, request)
            outcome.msg = f"request {request_id} has {len(request.nodes)} of {ask.count} nodes"
            return
        if not ask.recreate:
            outcome.request_id = request_id
            raise BadInput(
                f"request {request_id} was made at {request.started or 'an unknown time'} and none "
                "of its nodes is left; a request is made once: give another name (or request_id), "
                "or write recreate=true"
            )
    bucket = pick_bucket(buckets, ask)
    check_capacity(bucket, ask)
    if check:
        where = f"{bucket.machine_type} in nodearray {ask.nodearray} of cluster {ask.cluster}"
        outcome.changed, outcome.to_create = True, ask.count or 0
        outcome.msg = f"would create {ask.count} nodes of {where} ({bucket.available} available)"
    else:
        _create(api, ask, bucket, outcome)


def _check_same(ask: Ask, request_id: str, request: Request) -> None:
    """BadInput where an earlier request made other nodes than these."""
    mend = "give another name (or request_id) for other nodes"
    for key, requested in (
        ("machine_type", ask.machine_type),
        ("placement_group", ask.placement_group_id),
        ("nodearray", ask.nodearray),
    ):
        actual = {getattr(node, key) for node in request.live} - {None}
        if requested is not None and actual - {requested}:
            raise BadInput(
                f"request {request_id} has already made nodes with {key} "
                f"{some(sorted(actual))}, not {requested}; {mend}"
            )
    have, count = len(request.live), ask.count or 0
    if have > count or (have < count and not request.settling):
        raise BadInput(
            f"request {request_id} has {have} nodes and {count} were asked: it was made with "
            "another count, did not get all of them, or has lost some since; terminate what is "
            f"left (state=absent), or {mend}"
        )


def _sent(
    api: Api,
    send: Callable[[], Dict[str, Any]],
    came_of_it: Callable[[TrueupError], bool],
    looked_into: Sequence[int] = (),
) -> Optional[Dict[str, Any]]:
    """The answer to a call that changes something, sent again while its answer is lost; None where
    ``came_of_it`` finds, of a lost answer or a refusal ``looked_into``, that all of it is done."""
    for attempt in range(TRIES):
        try:
            return send()
        except (Lost, Refused) as error:
            status = getattr(error, "status", None)
            if status not in (None, *looked_into):
                raise
            if came_of_it(error):
                return None
            if status or attempt + 1 == TRIES:
                raise
            api.sleep(min(2.0**attempt, 30.0))
    return None


def _create(api: Api, ask: Ask, bucket: Bucket, outcome: Outcome) -> None:
    """Send the request until its outcome is known. The server takes a request id once, so sending
    it again cannot make nodes twice."""
    request_id, count = outcome.request_id or "", ask.count or 0
    wish = {
        "count": count,
        "nodearray": ask.nodearray,
        "definition": bucket.machine_type and {"machineType": bucket.machine_type},
        "placementGroupId": ask.placement_group_id,
        "nameFormat": ask.name_format,
    }
    sets = [{key: value for key, value in wish.items() if value}]
    body = {"requestId": request_id, "sets": sets}

    def is_known(error: TrueupError) -> bool:
        request = find_request(api, ask, request_id)
        if request is None:
            return False
        outcome.changed, outcome.created = True, len(request.nodes)
        outcome.see(request.nodes)
        how = "is known already" if isinstance(error, Refused) else "was taken"
        outcome.msg = f"request {request_id} {how}, and has {outcome.created} of {count} nodes"
        return True

    # The answer to an earlier sending may be lost while the server has acted on it; and of its
    # 409s, one says that the id is known and the others that the wish is wrong.
    response = _sent(
        api,
        lambda: api.post(ask.path + "/nodes/create", body=body),
        is_known,
        looked_into=(409, 500),
    )
    if response is not None:
        _take(api, ask, response, outcome)


def _added(response: Mapping[str, Any]) -> Tuple[int, str]:
    try:
        sets = response["sets"]
        added = sum(int(node_set["added"]) for node_set in sets)
        message = "; ".join(
            str(node_set["message"]) for node_set in sets if node_set.get("message")
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        raise TrueupError(
            "CycleCloud took the request and does not say how many nodes it added; "
            "look at the cluster before you ask again"
        ) from None
    return added, message


def _take(api: Api, ask: Ask, response: Mapping[str, Any], outcome: Outcome) -> None:
    """Note the answer to a create call."""
    outcome.changed = True
    outcome.note(response)
    outcome.created, message = _added(response)
    request = find_request(api, ask, outcome.request_id or "")
    outcome.see(request.nodes if request else [])
    count = ask.count or 0
    if outcome.created < count:
        raise TrueupError(
            f"{count} nodes were asked and CycleCloud added {outcome.created} "
            f"({api.hide(message) or 'it gives no reason'}); those are billed until you terminate "
            "them (state=absent with the same parameters)"
        )
    outcome.msg = f"created {outcome.created} nodes"


def _of_array(api: Api, ask: Ask) -> List[Node]:
    nodes = [node for node in list_nodes(api, ask) if node.nodearray == ask.nodearray]
    return [node for node in nodes if node.phase() != "ending"]


def _present_total(
    api: Api, ask: Ask, check: bool, buckets: Sequence[Bucket], outcome: Outcome
) -> None:
    """Up to a total. The scale call has no request id and needs none: the server counts the
    existing nodes each time."""
    count = ask.count or 0
    before = sum(bucket.active for bucket in buckets)
    if before >= count:
        outcome.see(_of_array(api, ask))
        outcome.msg = f"nodearray {ask.nodearray} has {before} nodes"
        return
    available = sum(bucket.available for bucket in buckets if bucket.valid)
    if count - before > available:
        raise BadInput(
            f"a total of {count} nodes was asked for nodearray {ask.nodearray}, which has {before} "
            f"and can get {available} more; ask fewer, or raise the quota or the nodearray's limit"
        )
    if check:
        outcome.changed, outcome.to_create = True, count - before
        outcome.msg = (
            f"would create {count - before} nodes in nodearray {ask.nodearray} of cluster "
            f"{ask.cluster}, which has {before} ({available} available)"
        )
        return
    _scale(api, ask, before, outcome)
    outcome.see(_of_array(api, ask))
    missing = count - before - outcome.created
    if missing > 0:
        raise TrueupError(
            f"{count - before} nodes were asked and CycleCloud added {outcome.created} "
            f"({outcome.msg or 'it gives no reason'}); those are billed until you terminate them"
        )
    outcome.msg = f"created {outcome.created} nodes"


def _scale(api: Api, ask: Ask, before: int, outcome: Outcome) -> None:
    array = urllib.parse.quote(ask.nodearray or "", safe="")

    def reached_total(_error: TrueupError) -> bool:
        active = sum(bucket.active for bucket in read_status(api, ask, outcome))
        if active > before:
            outcome.changed, outcome.created = True, active - before
        return active >= (ask.count or 0)

    query = {"totalNodeCount": str(ask.count)}
    response = _sent(api, lambda: api.post(f"{ask.path}/scale/{array}", query), reached_total)
    if response is not None:
        added, message = _added(response)
        outcome.changed = outcome.changed or added > 0
        outcome.note(response)
        outcome.created += added
        outcome.msg = api.hide(message)


def wait_ready(
    api: Api,
    poll: Callable[[], List[Node]],
    count: int,
    patience: Patience,
    outcome: Outcome,
) -> None:
    """Until all nodes are ready and have an address.

    Raises:
        TrueupError: a node failed, was terminated or vanished meanwhile, or time is up.
    """
    began, known_nodes = api.clock(), {node.key: node for node in outcome.nodes}
    while True:
        nodes = poll()
        seconds = api.clock() - began
        outcome.see(nodes, seconds)
        _check_alive(api, known_nodes, outcome.nodes)
        known_nodes.update((node.key, node) for node in nodes)
        if len(nodes) >= count and all(node.phase() != "waiting" for node in nodes):
            return
        unlisted = len(nodes) < count and seconds >= SETTLE_SECONDS
        if unlisted or seconds + patience.poll_seconds > patience.timeout_seconds:
            raise TrueupError(_late(count, patience, outcome))
        api.sleep(patience.poll_seconds)


def _check_alive(api: Api, known_nodes: Mapping[str, Node], nodes: Sequence[Node]) -> None:
    """TrueupError where a node has failed or is gone."""
    failed = [node for node in nodes if node.phase() == "failed"]
    if failed:
        raise TrueupError(_failures(api, failed))
    current_keys = {node.key for node in nodes}
    lost = [node.name for key, node in known_nodes.items() if key not in current_keys]
    lost += [node.name for node in nodes if node.phase() == "ending"]
    if lost:
        raise TrueupError(
            f"{some(lost)} was terminated while it was waited for, by somebody else or by "
            "Azure (an evicted spot VM); look at CycleCloud's event log"
        )


def _failures(api: Api, nodes: Sequence[Node]) -> str:
    reasons = [f"{node.name}: {node.status_message or 'without a reason'}" for node in nodes]
    subject = "node is" if len(nodes) == 1 else "nodes are"
    return (
        f"{len(nodes)} {subject} in state {' and '.join(sorted({n.word() for n in nodes}))} "
        f"({api.hide(some(reasons, 4))}); see CycleCloud's event log; a failed node may be billed "
        "until it is terminated"
    )


def _late(count: int, patience: Patience, outcome: Outcome) -> str:
    ready = sum(node.phase() == "ready" for node in outcome.nodes)
    waiting = [node for node in outcome.nodes if node.phase() != "ready"]
    states = _told(waiting)
    if len(outcome.nodes) < count:
        states.append(f"{count - len(outcome.nodes)} not listed by CycleCloud")
        return (
            f"after {outcome.waited_seconds:g} s {ready} of {count} nodes are ready "
            f"({'; '.join(states)}); nodes of a request are listed when it is made: look whether "
            "they were terminated, and give another name (or request_id) for other nodes"
        )
    return (
        f"after {outcome.waited_seconds:g} s {ready} of {len(outcome.nodes)} nodes are "
        f"ready ({'; '.join(states)}); run it again to wait on, or raise wait_timeout_seconds "
        f"({patience.timeout_seconds:g})"
    )


# ---- absent and status --------------------------------------------------------------------------


def _chosen(api: Api, ask: Ask, outcome: Outcome) -> List[Node]:
    """The nodes that the user means and that are there."""
    if ask.names or ask.ids:
        nodes = list_nodes(api, ask)
        chosen = [node for node in nodes if node.name in ask.names or node.id in ask.ids]
        identifiers = {identifier for node in chosen for identifier in (node.name, node.id)}
        outcome.unknown = [
            identifier for identifier in (*ask.names, *ask.ids) if identifier not in identifiers
        ]
        return chosen
    if ask.has_request:
        requests = requests_of(api, ask)
        outcome.request_id = requests[-1][0] if requests else ask.request()
        return [node for _, request in requests for node in request.nodes]
    nodes = list_nodes(api, ask)
    return [node for node in nodes if ask.nodearray in (None, node.nodearray)]


def _is_gone(node: Node) -> bool:
    return node.state in GONE and node.target_state != "Started"


def _is_ending(node: Node) -> bool:
    return _is_gone(node) or (node.target_state in GONE and node.state not in FAILED)


def show(api: Api, ask: Ask, outcome: Outcome) -> None:
    """state=status."""
    read_status(api, ask, outcome)
    outcome.see(_chosen(api, ask, outcome))
    outcome.msg = f"cluster {ask.cluster} is {outcome.cluster_state or 'not started yet'}"


def ensure_absent(api: Api, ask: Ask, patience: Patience, check: bool, outcome: Outcome) -> None:
    """Terminate the nodes, and wait until they are gone. A name that is not there is gone."""
    # A nodearray that is not there any more has no nodes to terminate: it is not looked for.
    read_status(api, Ask(cluster=ask.cluster), outcome)
    nodes = [node for node in _chosen(api, ask, outcome) if not _is_gone(node)]
    outcome.see(nodes)
    todo = [node for node in nodes if not _is_ending(node)]
    if check:
        outcome.changed, outcome.to_terminate = bool(todo), [node.name for node in todo]
        outcome.msg = (
            f"would terminate {some(outcome.to_terminate)}" if todo else "none to terminate"
        )
        return
    if todo:
        _terminate(api, ask, todo, outcome)
    keys = {node.key for node in nodes}
    outcome.msg = f"terminated {len(outcome.terminated)} nodes"
    if keys and patience.wait:
        _wait_gone(api, ask, keys, patience, outcome)


def _terminate(api: Api, ask: Ask, todo: Sequence[Node], outcome: Outcome) -> None:
    """Terminating a node twice is terminating it once, so a lost answer is simply asked again."""
    keys = {node.key for node in todo}
    remaining = list(todo)

    def send() -> Dict[str, Any]:
        body = {
            "ids": [node.id for node in remaining if node.id],
            "names": [node.name for node in remaining if not node.id],
        }
        body = {key: words for key, words in body.items() if words}
        return api.post(ask.path + "/nodes/terminate", body=body)

    def all_terminated(_error: TrueupError) -> bool:
        remaining[:] = [
            node for node in list_nodes(api, ask) if node.key in keys and not _is_ending(node)
        ]
        still = {node.key for node in remaining}
        outcome.terminated = [node.name for node in todo if node.key not in still]
        outcome.changed = bool(outcome.terminated)
        return not remaining

    response = _sent(api, send, all_terminated)
    if response is not None:
        _take_terminated(api, response, todo, remaining, outcome)


def _take_terminated(
    api: Api,
    response: Mapping[str, Any],
    todo: Sequence[Node],
    requested: Sequence[Node],
    outcome: Outcome,
) -> None:
    outcome.note(response)
    statuses = [status for status in response.get("nodes") or [] if isinstance(status, dict)]
    errors = [status for status in statuses if status.get("status") == "Error"]
    bad = {str(status.get(key)) for status in errors for key in ("id", "name")}
    refused = [node for node in requested if {node.id, node.name} & bad]
    outcome.terminated = [node.name for node in todo if node not in refused]
    outcome.changed = bool(outcome.terminated)
    if errors:
        reasons = [
            f"{status.get('name')}: {status.get('error') or 'without a reason'}"
            for status in errors
        ]
        raise TrueupError(
            f"CycleCloud does not terminate {len(errors)} of {len(todo)} nodes "
            f"({api.hide(some(reasons, 4))})"
        )


def _wait_gone(api: Api, ask: Ask, keys: Any, patience: Patience, outcome: Outcome) -> None:
    began = api.clock()
    while True:
        nodes = [node for node in list_nodes(api, ask) if node.key in keys and not _is_gone(node)]
        seconds = api.clock() - began
        outcome.see(nodes, seconds)
        if not nodes:
            return
        if seconds + patience.poll_seconds > patience.timeout_seconds:
            states = _told(nodes)
            raise TrueupError(
                f"after {outcome.waited_seconds:g} s {len(nodes)} nodes are still there "
                f"({'; '.join(states)}) and may be billed; run it again to wait on, or see "
                "CycleCloud's event log"
            )
        api.sleep(patience.poll_seconds)
