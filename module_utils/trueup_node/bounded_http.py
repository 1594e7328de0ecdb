"""HTTP answers within one wall-clock deadline and a limit of bytes.

A socket's timeout starts anew with every byte, and no timeout covers the name lookup. A thread
therefore makes the request, and the caller waits for it until the deadline: lookup, connection,
TLS, headers and body together. After that the thread is abandoned. It is a daemon and its sink is
closed, so it writes nothing more and ends with the process at the latest.

For Python 3.6 and its standard library alone: this file is also sent to VMs.
"""

import contextlib
import http.client
import io
import json
import threading
import urllib.error
import urllib.request
import zlib
from concurrent import futures
from typing import IO, Any, Callable, NamedTuple, TypeVar, Union

# Resource Graph pages end at 16 MiB, pages of the Retail Prices API at about 1 MiB.
ANSWER_BYTES = 32 * 2**20
# Of the body of a refusal, of which a sentence is shown.
REFUSAL_BYTES = 256 * 1024
_BLOCK_BYTES = 64 * 1024
# Python's own limit since 3.11: a longer number costs time that grows with its square.
_INTEGER_DIGITS = 4300
_OK = 200

T = TypeVar("T")


class Overdue(OSError):
    """The answer was not complete at the deadline."""


class TooLarge(OSError):
    """The body is larger than the limit."""


class Truncated(OSError):
    """The body ended before its announced length, or before the end of its compressed data."""


class NotJson(ValueError):
    """Text that is not JSON; the message completes "the answer ..."."""


class NoRedirect(urllib.request.HTTPRedirectHandler):
    """Makes a redirection an answer, so that no header goes to another host."""

    def redirect_request(self, *_arguments: Any, **_named: Any) -> None:
        """No request follows."""


class Reply(NamedTuple):
    """An answer, whatever its status. ``body`` is empty where a stream has received it."""

    status: int
    reason: str
    headers: Any
    body: bytes = b""

    def checked(self) -> bytes:
        """The body, where the status is 200.

        Raises:
            OSError: it is another one.
        """
        if self.status != _OK:
            raise OSError(f"HTTP Error {self.status}: {self.reason}".rstrip(": "))
        return self.body


def within(seconds: float, call: Callable[[], T]) -> T:
    """The result of ``call``, or its exception.

    Raises:
        Overdue: it had not ended after ``seconds``.
    """
    future = futures.Future()  # type: futures.Future[T]

    def work() -> None:
        try:
            future.set_result(call())
        except BaseException as error:  # noqa: BLE001 WHY: the caller gets it
            future.set_exception(error)

    threading.Thread(target=work, daemon=True).start()
    try:
        return future.result(seconds)
    except futures.TimeoutError:
        if future.done():
            return future.result()
        raise Overdue(f"no whole answer within {round(seconds, 1):g} s") from None


def ask(open_response: Callable[[], Any], seconds: float, most_bytes: int = ANSWER_BYTES) -> Reply:
    """The answer with its body; errors as of ``save``."""
    sink = io.BytesIO()
    reply = save(open_response, sink, seconds, most_bytes)
    return reply._replace(body=sink.getvalue())


def save(
    open_response: Callable[[], Any], sink: IO[bytes], seconds: float, most_bytes: int
) -> Reply:
    """Write the body of an answer to a stream.

    Args:
        open_response: sends the request, as ``urlopen`` does; its ``HTTPError`` is an answer too.
        sink: closed after the deadline. Its content counts only where the status is 200.
        seconds: from now to the last byte.
        most_bytes: of the body; of a refusal no more than ``REFUSAL_BYTES`` are read.

    Raises:
        Overdue, TooLarge, Truncated: as they say; all are of ``OSError``.
        OSError, http.client.HTTPException: as ``open_response`` and the socket raise them.
    """

    def work() -> Reply:
        try:
            response = open_response()
        except urllib.error.HTTPError as error:
            with contextlib.closing(error):
                # The status is the answer, also where the text after it is damaged.
                with contextlib.suppress(OSError, http.client.HTTPException):
                    _copy(error, sink, REFUSAL_BYTES)
                return Reply(error.code, str(error.reason), error.headers)
        with contextlib.closing(response):
            _copy(response, sink, most_bytes)
            # A file: URL has no status.
            status, reason = response.status or _OK, getattr(response, "reason", "")
            return Reply(int(status), str(reason), response.headers)

    try:
        return within(seconds, work)
    except Overdue:
        sink.close()
        raise


def _copy(response: Any, sink: IO[bytes], most_bytes: int) -> None:
    size = 0
    try:
        while True:
            block = response.read(_BLOCK_BYTES)
            if not block:
                break
            size += len(block)
            if size > most_bytes:
                raise TooLarge(f"more than {_amount(most_bytes)}")
            sink.write(block)
    except (EOFError, zlib.error):
        raise Truncated(f"its compressed body is damaged after {size:,} bytes") from None
    # http.client raises IncompleteRead only where the body is read in one piece.
    missing = getattr(response, "length", None)
    if missing:
        raise Truncated(f"cut short ({size} of {size + missing} bytes)")


def _amount(size_bytes: int) -> str:
    for unit, factor in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if size_bytes >= factor:
            return f"{size_bytes / factor:g} {unit}"
    return f"{size_bytes} bytes"


def parse_json(text: Union[str, bytes]) -> Any:
    """The value of a JSON text.

    Raises:
        NotJson: it is not JSON, not UTF-8, or of a form that only a damaged or hostile server
            sends: NaN, a number of more than 4,300 digits, or lists in lists without end.
    """
    try:
        if isinstance(text, bytes):
            text = text.decode("utf-8-sig")
        return json.loads(text, parse_constant=_constant, parse_int=_integer)
    except NotJson:
        raise
    except UnicodeDecodeError:
        raise NotJson("is not UTF-8") from None
    except ValueError:
        raise NotJson("is not JSON") from None
    except RecursionError:
        raise NotJson("is JSON that is nested too deeply") from None


def _constant(name: str) -> Any:
    raise NotJson(f"has the value {name}, which JSON does not have")


def _integer(digits: str) -> int:
    if len(digits) > _INTEGER_DIGITS:
        raise NotJson(f"has a number of {len(digits):,} digits")
    return int(digits)
