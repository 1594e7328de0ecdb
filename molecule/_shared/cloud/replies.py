"""What a call of the emulated cloud is answered with, and the names that it goes by."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

SUBSCRIPTION = "00000000-0000-0000-0000-00000000c10d"
TENANT = "00000000-0000-0000-0000-0000000007e7"
CLIENT = "00000000-0000-0000-0000-0000000c11e7"
SECRET = "of-the-emulated-cloud-only"  # noqa: S105 WHY: it opens nothing else


@dataclass
class Reply:
    """Status, document, headers."""

    status: int
    document: Any
    headers: dict[str, str] = field(default_factory=dict)


def refusal(status: int, code: str, message: str, **more: Any) -> Reply:
    return Reply(status, {"error": {"code": code, "message": message, **more}})


class Refused(Exception):
    """A call that Azure would refuse: the status and body of its answer."""

    def __init__(self, status: int, code: str, message: str, **more: Any) -> None:
        super().__init__(message)
        self.reply = refusal(status, code, message, **more)

    @property
    def error(self) -> dict[str, Any]:
        """Code, message and details."""
        return dict(self.reply.document["error"])


def versioned(query: dict[str, str], known: tuple[str, ...]) -> Reply | None:
    problem = unknown(query, {"api-version"})
    if problem:
        return refusal(400, "InvalidQueryParameter", problem)
    version = query.get("api-version")
    if version is None:
        return refusal(400, "MissingApiVersionParameter", "The api-version is required.")
    if version not in known:
        said = f"The api-version '{version}' is not one of {', '.join(known)}."
        return refusal(400, "InvalidApiVersionParameter", said)
    return None


def unknown(given: Any, known: set[str]) -> str:
    if not isinstance(given, dict):
        return "no object"
    return ", ".join(f"{key} is not known here" for key in sorted(set(given) - known))
