"""What a task on the simulated Windows host can end with, other than well."""

from __future__ import annotations

from typing import Any


class UnknownError(Exception):
    """The simulated host does not know this, so it gives no answer.

    Args:
        what: a noun phrase: "module x", "url y".
    """

    def __init__(self, what: str) -> None:
        super().__init__(f"simulated Windows host: {what} is not known")


class FailError(Exception):
    """The module fails, as the real one would: its message and what its result holds."""

    def __init__(self, message: str, **result: Any) -> None:
        super().__init__(message)
        self.result = result
