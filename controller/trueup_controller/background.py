"""Work of the controller beside its next tasks, and its result: it ends with the controller.

Ansible's own ``async`` leaves a process on the node that nobody can end once its controller is
killed; here a process of the controller waits for the node instead, as its workers do.
"""

from __future__ import annotations

import os
import pickle
import signal
import threading
import time
from collections.abc import Mapping
from typing import Any, Callable

from trueup_node.run import orphan_guard

_POLL_SECONDS = 0.2
_RESULT = "result"


def begin(
    folder: str, controller: Mapping[str, Any], work: Callable[[], dict[str, Any]]
) -> dict[str, Any]:
    """Begin it in a process of its own, and return the argument of ``end``.

    Args:
        folder: an empty one that nobody else can write, for the result.
        controller: ``orphan_guard.of`` the process that it ends with.
        work: gives the result that ``end`` returns; it may raise any error.
    """
    pid = os.fork()
    if pid == 0:
        try:
            _carry_out(folder, controller, work)
        finally:
            # Nothing of the worker's, whose copy this is, may end twice.
            os._exit(1)
    return {"folder": folder, "process": orphan_guard.of(pid)}


def _carry_out(
    folder: str, controller: Mapping[str, Any], work: Callable[[], dict[str, Any]]
) -> None:
    # A group of its own: processes that it starts, such as ssh, end with it.
    os.setsid()
    # Whoever waits for the controller's output waits for nothing else.
    nowhere = os.open(os.devnull, os.O_RDWR)
    for handle in range(3):
        os.dup2(nowhere, handle)
    threading.Thread(target=_end_with, args=(controller,), daemon=True).start()
    try:
        result = work()
    except Exception as error:  # noqa: BLE001 WHY: whoever waits is told, whatever it is
        result = {"failed": True, "msg": str(error)}
    unread = os.path.join(folder, f".{_RESULT}")
    with open(unread, "wb") as stream:
        pickle.dump(result, stream)
    os.replace(unread, os.path.join(folder, _RESULT))


def _end_with(controller: Mapping[str, Any]) -> None:
    while orphan_guard.gone(controller) is False:
        time.sleep(_POLL_SECONDS)
    os.killpg(0, signal.SIGKILL)


def end(begun: Mapping[str, Any], timeout_seconds: float) -> dict[str, Any]:
    """Wait for the work of ``begin``.

    Raises:
        TimeoutError: it has not ended; it is killed then.
        ConnectionError: it ended and left nothing.
    """
    result_path = os.path.join(begun["folder"], _RESULT)
    deadline = time.monotonic() + timeout_seconds
    # Asked first: it may end in between.
    while orphan_guard.gone(begun["process"]) is False and not os.path.exists(result_path):
        if time.monotonic() > deadline:
            os.killpg(begun["process"]["pid"], signal.SIGKILL)
            raise TimeoutError(f"had not ended after {timeout_seconds:g} s")
        time.sleep(_POLL_SECONDS)
    try:
        with open(result_path, "rb") as stream:
            # As Ansible's workers hand on theirs; nobody else can write there.
            result: dict[str, Any] = pickle.load(stream)  # noqa: S301 WHY: see above
    except FileNotFoundError:
        raise ConnectionError("ended without a result: it was killed") from None
    return result
