"""A vLLM server on this node as a systemd service: whether it can start, and whether it answers.

``/health`` answers 200 also when a data-parallel partner is lost and half of the requests hang
(seen with vLLM 0.32.0), so a server is ready only when completions come back.
"""

from __future__ import annotations

import errno
import http.client
import json
import os
import socket
import subprocess
import time
import urllib.request
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ... import bounded_http
from ...errors import BadInput

_GIB = 1024**3
_POLL_SECONDS = 1.0
_ANSWER_SECONDS = 5.0
# Of a server that has just said that it is well, on a node that may be busy.
_MODELS_SECONDS = 60.0
# A server that has failed this often while we wait will not come up.
_MOST_RESTARTS = 2
_JOURNAL_LINES = 60


class ServerFailedError(BadInput):
    """A server that does not run.

    Attributes:
        log: the last lines of its journal.
    """

    def __init__(self, message: str, log: str) -> None:
        super().__init__(message)
        self.log = log


class Api(NamedTuple):
    """The OpenAI API of a server.

    Attributes:
        base_url: such as http://127.0.0.1:8000.
        key: the API key that clients must send; empty where none is asked for.
    """

    base_url: str
    key: str = ""

    def get(self, path: str, *, seconds: float = _ANSWER_SECONDS) -> Tuple[int, str]:
        """Status and text of an answer; status 0 and why where there is none."""
        return self._ask(self._request(path), seconds)

    def post(self, path: str, body: Mapping[str, Any], *, seconds: float) -> Tuple[int, str]:
        """As ``get``, with a JSON body."""
        request = self._request(path)
        request.data = json.dumps(dict(body)).encode()
        request.add_header("Content-Type", "application/json")
        return self._ask(request, seconds)

    def _request(self, path: str) -> urllib.request.Request:
        return urllib.request.Request(self.base_url + path)  # noqa: S310 WHY: base_url is http, ours

    def _ask(self, request: urllib.request.Request, seconds: float) -> Tuple[int, str]:
        if self.key:
            request.add_header("Authorization", f"Bearer {self.key}")
        # The node's own server: never through a proxy.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            reply = bounded_http.ask(lambda: opener.open(request, timeout=seconds), seconds)
        except (OSError, ValueError) as error:
            return 0, str(getattr(error, "reason", error))
        except http.client.HTTPException as error:
            return 0, f"not an HTTP answer: {type(error).__name__}"
        return reply.status, reply.body.decode("utf-8", errors="replace")

    def models(self) -> List[str]:
        """Names of the models that it serves.

        Raises:
            BadInput: it wants another key, or its answer is not understood.
        """
        status, text = self.get("/v1/models", seconds=_MODELS_SECONDS)
        if status == 401:
            raise BadInput(f"{self.base_url} refuses the API key: set vllm_api_key to the server's")
        try:
            return [str(model["id"]) for model in bounded_http.parse_json(text)["data"]]
        except (ValueError, KeyError, TypeError) as error:
            raise BadInput(f"{self.base_url}/v1/models answered {status}: {text[:200]}") from error

    def complete(self, model: str, *, seconds: float) -> Optional[str]:
        """Why a completion of one token did not come back, or None."""
        body = {"model": model, "prompt": "1 2 3", "max_tokens": 1}
        status, text = self.post("/v1/completions", body, seconds=seconds)
        if status == 200:
            return None
        if status == 0:
            return f"no answer within {seconds:g} s ({text})"
        return f"status {status}: {text[:200]}"


class Service(NamedTuple):
    """A systemd service, as ``systemctl show`` tells.

    Attributes:
        unit: its name.
        state: active, activating, failed, inactive, ...
        restarts: how often systemd has started it again.
        log: the last lines of its journal; empty while it is well.
    """

    unit: str
    state: str
    restarts: int
    log: str = ""

    @classmethod
    def now(cls, unit: str, namespace: str) -> Service:
        """The service as it is; with its log when it is not active."""
        output = _output(["systemctl", "show", "--property=ActiveState,NRestarts", unit])
        values = dict(line.split("=", 1) for line in output.splitlines() if "=" in line)
        state = values.get("ActiveState", "unknown")
        restarts = int(values.get("NRestarts") or 0)
        log = "" if state == "active" and not restarts else _journal(unit, namespace)
        return cls(unit, state, restarts, log)


def wait_until_ready(
    api: Api,
    service: Tuple[str, str],
    *,
    model: str,
    deadline_seconds: float,
    completions: int,
) -> float:
    """Wait until completions come back; the seconds that it took.

    Args:
        api: of the server.
        service: its unit, and the journal's namespace.
        model: the name by which it is asked for.
        deadline_seconds: for all of it.
        completions: how many must come back, one after the other: with data parallelism they go to
            one engine after the other.

    Raises:
        BadInput: with the reason that the server's log gives.
    """
    begun = time.monotonic()
    restarts_before = Service.now(*service).restarts
    while api.get("/health")[0] != 200:
        _refuse_dead(Service.now(*service), restarts_before)
        if time.monotonic() - begun > deadline_seconds:
            raise BadInput(
                f"{service[0]} did not answer {api.base_url}/health within {deadline_seconds:g} s"
                " (vllm_ready_seconds); its log ends: " + _end_of(_journal(*service))
            )
        time.sleep(_POLL_SECONDS)
    served = api.models()
    if model not in served:
        raise BadInput(
            f"{api.base_url} serves {', '.join(served)} and not {model}: another server has the"
            " port"
        )
    for number in range(1, completions + 1):
        remaining_seconds = max(1.0, deadline_seconds - (time.monotonic() - begun))
        problem = api.complete(model, seconds=remaining_seconds)
        if problem:
            raise BadInput(
                f"{service[0]} answers /health, and completion {number} of {completions} had"
                f" {problem}: is a partner of its data parallelism lost?"
            )
    return time.monotonic() - begun


def wait_for_service(service: Tuple[str, str], *, settle_seconds: float) -> float:
    """See a service without an API of its own (a headless partner) stay up; the seconds taken.

    Raises:
        BadInput: it failed, with the reason that its log gives.
    """
    begun = time.monotonic()
    restarts_before = Service.now(*service).restarts
    while time.monotonic() - begun < settle_seconds:
        _refuse_dead(Service.now(*service), restarts_before)
        time.sleep(_POLL_SECONDS)
    return time.monotonic() - begun


def port_problem(host: str, port: int) -> Optional[str]:
    """Why nothing can listen there, or None."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return f"port {port} is taken by another program"
            return f"nothing can listen on {host}, port {port}: {error.strerror}"
    return None


def existing(path: str) -> str:
    """``path``, or the nearest folder above it that is there."""
    folder = os.path.abspath(path)
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    return folder


def space_problem(path: str, needed: int, contents: str) -> Optional[str]:
    """Why ``contents`` of so many bytes do not fit where ``path`` is or will be, or None."""
    disk = os.statvfs(existing(path))
    free = disk.f_bavail * disk.f_frsize
    if free >= needed:
        return None
    return (
        f"{path} has {free / _GIB:.2f} GiB free, and {contents} takes {needed / _GIB:.2f} GiB:"
        f" set the folder to one with more space"
    )


def _refuse_dead(service: Service, restarts_before: int) -> None:
    """
    Raises:
        ServerFailedError: the service has failed for good, or again and again.
    """
    dead = service.state in ("failed", "inactive", "unknown")
    if not dead and service.restarts - restarts_before < _MOST_RESTARTS:
        return
    how = "is not running" if dead else f"failed {service.restarts - restarts_before} times"
    raise ServerFailedError(
        f"{service.unit} {how}; its log ends: {_end_of(service.log)}", service.log
    )


def _end_of(log: str) -> str:
    return " | ".join(line.strip() for line in log.strip().splitlines()[-8:]) or "(empty)"


def _journal(unit: str, namespace: str) -> str:
    which = [f"--namespace={namespace}", f"--unit={unit}", f"--lines={_JOURNAL_LINES}"]
    return _output(["journalctl", *which, "--no-pager", "--output=cat"])


def _output(argv: Sequence[str]) -> str:
    environment: Dict[str, str] = {**os.environ, "LC_ALL": "C"}
    try:
        return subprocess.run(
            list(argv), capture_output=True, text=True, timeout=30, check=False, env=environment
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""
