"""What goes wrong in the emulated cloud because a test asked for it.

A fault is a mapping: ``kind``, what it holds for, ``after`` how many it comes, ``times`` how often
(1 unless said, 0 for ever), and what it does. docs/dev/stand_ins.md lists them.
"""

from __future__ import annotations

import threading
from typing import Any

from .machines import AllocationFailed
from .replies import Refused, Reply, refusal

Fault = dict[str, Any]
# What a fault of each kind holds for, and what else it says.
KINDS: dict[str, tuple[set[str], set[str]]] = {
    "allocation": ({"location", "zone", "size", "name"}, {"code", "message"}),
    "contributor": (set(), set()),
    "cut": ({"path", "method"}, set()),
    "fail": ({"path", "type", "name"}, {"code", "message", "details"}),
    "fail-delete": ({"path", "type", "name"}, {"code", "message"}),
    "insight": ({"host"}, {"code"}),
    "plan": ({"path", "type"}, set()),
    "reply": ({"path", "method"}, {"status", "code", "message"}),
    "rights": ({"path", "action", "principal"}, set()),
    "slow": ({"what"}, {"seconds"}),
    "subscription": ({"path", "method"}, set()),
    "throttle": ({"path", "method"}, {"seconds"}),
}
_EXACT = {"location", "zone", "method", "action", "principal"}
_PLAN = (
    "You have not accepted the legal terms on this subscription for this plan. Before the"
    " subscription can be used, you need to accept the legal terms of the image."
)


class Faults:
    """Those asked for, in their order."""

    def __init__(self) -> None:
        self.asked: list[Fault] = []
        self._lock = threading.Lock()

    def add(self, **fault: Any) -> None:
        """Ask for one.

        Raises:
            Refused: it is none that this cloud knows.
        """
        kind = str(fault.get("kind"))
        if kind not in KINDS:
            raise Refused(400, "UnknownFault", f"No fault {kind!r}; one of {', '.join(KINDS)}.")
        wrong = set(fault) - {"kind", "after", "times"}.union(*KINDS[kind])
        if wrong:
            raise Refused(400, "UnknownFault", f"{kind} takes no {', '.join(sorted(wrong))}.")
        for name in ("after", "times"):
            if not isinstance(fault.get(name, 0), int) or fault.get(name, 0) < 0:
                raise Refused(400, "UnknownFault", f"{name} is a count.")
        with self._lock:
            self.asked.append({"after": 0, "times": 1, **fault})

    def take(self, kind: str, **facts: str) -> Fault | None:
        """The fault that strikes now."""
        with self._lock:
            for fault in self.asked:
                if fault["kind"] == kind and _holds(fault, facts):
                    if fault["after"]:
                        fault["after"] -= 1
                        continue
                    if fault["times"] == 1:
                        self.asked.remove(fault)
                    elif fault["times"]:
                        fault["times"] -= 1
                    return fault
        return None

    def reply(self, **facts: str) -> Reply | None:
        """What is answered instead of an answer."""
        fault = self.take("throttle", **facts)
        if fault:
            reply = refusal(429, "TooManyRequests", "The request was throttled. Try later.")
            reply.headers["Retry-After"] = str(fault.get("seconds", 1))
            return reply
        if self.take("subscription", **facts):
            said = "The subscription could not be found."
            return refusal(404, "SubscriptionNotFound", said)
        fault = self.take("reply", **facts)
        if fault:
            code, said = fault.get("code", "InternalServerError"), fault.get("message", "No.")
            return refusal(int(fault.get("status", 500)), code, said)
        return None

    def plan(self, **facts: str) -> None:
        """Raise where a Marketplace's plan was not accepted."""
        if self.take("plan", **facts):
            raise Refused(400, "MarketplacePurchaseEligibilityFailed", _PLAN)

    def allocate(self, **facts: str) -> None:
        """Raise where a machine has no room."""
        fault = self.take("allocation", **facts)
        if fault:
            where = facts["location"] + (f" zone {facts['zone']}" if facts["zone"] else "")
            said = f"Allocation failed. We do not have sufficient capacity for {facts['size']} in"
            raise AllocationFailed(
                fault.get("code", "ZonalAllocationFailed" if facts["zone"] else "AllocationFailed"),
                fault.get("message", f"{said} {where}."),
            )


def _holds(fault: Fault, facts: dict[str, str]) -> bool:
    """Whether a fault is of these facts: a text that is in them, or for some the whole."""
    for name in KINDS[fault["kind"]][0] & set(fault):
        fact, wanted = facts.get(name, "").lower(), str(fault[name]).lower()
        if fact != wanted if name in _EXACT else wanted not in fact:
            return False
    return True
