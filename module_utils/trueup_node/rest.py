"""Patient calls to a REST API: repeated calls, pages of a list, and error messages.

Source: RFC 9110 10.2.3 for Retry-After; Microsoft's REST API guidelines (vNext) for ``nextLink``,
``error.code`` with its ``details``, and the header ``x-ms-request-id``; Azure Resource Manager's
guide to asynchronous operations for ``Azure-AsyncOperation``, ``Location``, ``provisioningState``.
Each server (CycleCloud, the Retail Prices API, Azure Resource Manager) has a subclass of
:class:`Client` for its credentials and its error messages.

The calls are repeated here and not by urllib3's Retry or tenacity: a login node of CycleCloud has
the standard library alone, and Retry counts attempts, while these calls share one limit of waiting
and one deadline, renew a token once, and repeat a POST only where its answer says that nothing was
done.
"""

from __future__ import annotations

import email.utils
import http.client
import json
import random
import re
import ssl
import time
import urllib.parse
import urllib.request
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Set, Tuple

from . import bounded_http
from .errors import BadInput, TrueupError

MAX_PAGES = 1000

_GATEWAY = (502, 504)
_BUSY = (429, 503)
# An error of the server's own, after which a question may be asked again.
_BROKEN = (408, 500)

_CONFLICT, _UNAUTHORIZED, _NOT_FOUND = 409, 401, 404
# Codes of a conflict that ends by itself: the order was not taken.
_PASSING = ("RetryableErrorDueToAnotherOperation", "AnotherOperationInProgress")
_ACCEPTED, _NO_CONTENT = 202, 204
# How an operation ends, in small letters; every other word means that it goes on.
_SUCCEEDED, _ENDED_BADLY = "succeeded", ("failed", "canceled", "cancelled")
_LONGEST_PAUSE = 30.0
_TELL_SECONDS = 60.0
# Answers in a row that cannot be read, of an operation that goes on all the same.
_MOST_UNREADABLE = 3

_SAID_CHARACTERS = 300
# Of an error page: enough for a sentence, and short for the pattern of its tags.
_PAGE_CHARACTERS = 16 * 1024
# A tag of a page; of a script or style sheet, with its content.
_TAG = re.compile(
    r"<(script|style)\b[^<]*(?:<(?!/?(?:script|style)\b)[^<]*)*</\1>|<[^<>]*>", re.IGNORECASE
)
_MOST_DETAILS = 10

OpenUrl = Callable[..., Any]
Tell = Callable[[str], None]


class Refused(TrueupError):
    """The server answered and did not do it; ``status`` is HTTP's, ``said`` the server's text,
    ``code`` the innermost of its error's codes, empty where it gives none."""

    def __init__(self, message: str, status: int, server_text: str = "", code: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.said = server_text
        self.code = code


class Failed(TrueupError):
    """An operation that the server took did not succeed; ``code`` is the innermost of its error's
    codes, empty where it gives none, ``request`` the call's number in brackets."""

    def __init__(self, message: str, code: str = "", request: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.request = request


class Unreadable(TrueupError):
    """An unusable answer: cut, or another server's."""


class Lost(TrueupError):
    """No answer came back: nobody knows whether the server has acted."""


def retry_after_seconds(value: Optional[str], date: Optional[str]) -> Optional[float]:
    """Seconds that a Retry-After header asks for (RFC 9110 10.2.3: seconds or a date), counted from
    the answer's own Date where it has one; None when there is none or it is not understood."""
    text = (value or "").strip()
    if re.fullmatch(r"[0-9]{1,9}", text):
        return float(text)
    moment = http_date(text)
    if moment is None:
        return None
    now = http_date(date) or datetime.now(timezone.utc)
    return max(0.0, (moment - now).total_seconds())


def http_date(text: Optional[str]) -> Optional[datetime]:
    try:
        moment = email.utils.parsedate_to_datetime(text or "")
    except (TypeError, ValueError, IndexError, OverflowError):
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)


@dataclass(frozen=True)
class Response:
    """One answer: HTTP's status, its headers in lower case, its body, and the request."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    method: str = "GET"
    url: str = ""

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "replace")


def sentence_of(text: str) -> str:
    """The message in an error's body: the reference promises no content, so it may be JSON, a page
    or nothing."""
    try:
        body = bounded_http.parse_json(text)
    except bounded_http.NotJson:
        body = None
    sentence = ""
    if isinstance(body, dict):
        low = {str(key).lower(): value for key, value in body.items()}
        for key in ("message", "error", "detail"):
            value = low.get(key)
            inner = value if isinstance(value, dict) else {"message": value}
            value, code = inner.get("message"), inner.get("code")
            if isinstance(value, str) and value.strip():
                sentence = f"{code}: {value}" if isinstance(code, str) and code else value
                cause = _cause(inner)
                if cause and len(sentence) + len(cause) > _SAID_CHARACTERS:
                    sentence = f"{code}" if isinstance(code, str) and code else sentence[:100]
                sentence += cause
                break
    if not sentence:
        sentence = _TAG.sub(" ", text[:_PAGE_CHARACTERS])
    sentence = " ".join(sentence.split())
    return sentence[:_SAID_CHARACTERS] + ("..." if len(sentence) > _SAID_CHARACTERS else "")


def _cause(error: Mapping[str, Any]) -> str:
    """The innermost of an error's details, which names the cause; empty if there is none."""
    inner = innermost(error)
    if inner is error:
        return ""
    words = [inner.get("code"), inner.get("message")]
    cause = ": ".join(text for text in words if isinstance(text, str) and text)
    return f"; the cause is {cause}" if cause else ""


def innermost(error: Mapping[str, Any]) -> Mapping[str, Any]:
    """The innermost of an error's details, which names the cause: the first of each list, and the
    error that Azure Resource Manager packs into a message as JSON; else the error itself."""
    for _ in range(_MOST_DETAILS):
        details = error.get("details")
        inner = details[0] if isinstance(details, list) and details else _packed(error)
        if not isinstance(inner, dict) or not (inner.get("code") or inner.get("message")):
            break
        error = inner
    return error


def _packed(error: Mapping[str, Any]) -> Any:
    """The error that stands in an error's message as JSON."""
    text = error.get("message")
    if not isinstance(text, str) or not text.lstrip().startswith("{"):
        return None
    try:
        packed = bounded_http.parse_json(text)
    except bounded_http.NotJson:
        return None
    return packed.get("error", packed)


def code_of(text: str) -> str:
    """The innermost code of an error's body; empty where it has none."""
    try:
        body = bounded_http.parse_json(text)
    except bounded_http.NotJson:
        return ""
    error = body.get("error") if isinstance(body, dict) else None
    return str(innermost(error).get("code") or "") if isinstance(error, dict) else ""


class Client:
    """Calls to one server.

    Args:
        url: https://HOST[:PORT][/PATH].
        open_url: as ``ansible.module_utils.urls.open_url``, or ``open_plainly``.
        connection: further arguments of ``open_url`` for every call: credentials, TLS, and
            ``timeout``, the seconds from the name lookup to the last byte of one answer.
        patience_seconds: the sum of all pauses of one call.
        deadline_seconds: how long all calls may take together with their pauses, from now on; None
            for no end.
        secrets: texts that no message may hold.
        sleep, clock: as of ``time``. jitter: a number from 0 to 1.
    """

    # The server's name in messages.
    NAME = "the server"

    def __init__(
        self,
        url: str,
        open_url: OpenUrl,
        *,
        connection: Mapping[str, Any],
        patience_seconds: float = 120,
        deadline_seconds: Optional[float] = None,
        secrets: Sequence[str] = (),
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.url = url
        self.open_url = open_url
        self.patience_seconds = patience_seconds
        self.deadline_seconds = deadline_seconds
        self.sleep = sleep
        self.clock = clock
        self._begun = clock()
        self.jitter = jitter
        # Azure Resource Manager ends its own calls after 60 s.
        self._connection = {"timeout": 60, **connection}
        self._secrets = [secret for secret in secrets if secret]

    def hide(self, text: str) -> str:
        """The text without the secrets, also where a server sends them back."""
        for secret in self._secrets:
            text = text.replace(secret, "********")
        return text

    def headers(self) -> Dict[str, str]:
        """Further headers of every call."""
        return {}

    def renewed(self) -> bool:
        """Whether there is another proof of who asks, after the server did not take this one."""
        return False

    def within(self, seconds: float) -> None:
        """Give all calls from now on this long together."""
        self._begun, self.deadline_seconds = self.clock(), seconds

    def _left(self) -> float:
        """Seconds before the deadline."""
        if self.deadline_seconds is None:
            return float("inf")
        return self._begun + self.deadline_seconds - self.clock()

    def _once(self, method: str, url: str, body: Optional[Mapping[str, Any]]) -> Response:
        parts = urllib.parse.urlsplit(url)
        call = f"{method} {parts.path}"
        seconds_left = self._left()
        if seconds_left <= 0:
            raise Lost(
                f"{self.url} was not asked {call}: all calls together took longer than"
                f" {self.deadline_name()} ({self.deadline_seconds:g} s)"
            )
        seconds = min(self._connection["timeout"], seconds_left)
        connection = {**self._connection, "timeout": seconds}
        headers = {"Accept": "application/json", **self.headers()}
        if body is not None:
            headers["Content-Type"] = "application/json"

        def open_response() -> Any:
            return self.open_url(
                url,
                data=None if body is None else json.dumps(body).encode(),
                headers=headers,
                method=method,
                # In plain http a proxy could read a password.
                use_proxy=parts.scheme == "https",
                follow_redirects="none",
                use_netrc=False,
                http_agent="trueup",
                **connection,
            )

        try:
            reply = bounded_http.ask(open_response, seconds)
        except UnicodeError:
            raise BadInput(f"url {self.url} has a host that is no host name") from None
        except bounded_http.TooLarge as error:
            raise Unreadable(
                f"{self.url} answers {call} with {error}, which no answer of {self.NAME} has"
            ) from None
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", error)
            ended = isinstance(reason, (ssl.SSLEOFError, ssl.SSLZeroReturnError))
            if isinstance(reason, ssl.SSLError) and not ended:
                raise Refused(self.untrusted(reason), 0) from None
            message = self.hide(str(reason)) or type(reason).__name__
            raise Lost(f"{self.url} gave no answer to {call} ({message})") from None
        reply_headers = {
            str(key).lower(): str(value) for key, value in (reply.headers or {}).items()
        }
        return Response(reply.status, reply_headers, reply.body, method, url)

    def untrusted(self, error: ssl.SSLError) -> str:
        """The message for a server that TLS does not trust, with advice."""
        reason = getattr(error, "verify_message", "") or error.reason or str(error)
        return (
            f"{self.url} could not be trusted by TLS ({self.hide(str(reason))});"
            f" {self.trust_advice()}"
        )

    def trust_advice(self) -> str:
        return "check the host, the machine's clock and its certificate authorities"

    def request(
        self,
        method: str,
        path: str,
        query: Optional[Mapping[str, str]] = None,
        body: Optional[Mapping[str, Any]] = None,
        *,
        question: bool = False,
    ) -> Response:
        """The answer to one call.

        A busy server (429, 503) is asked again when it says so, any call; a GET also when its
        answer was lost, or the server itself failed. All pauses of one call together stay below
        ``patience_seconds``.

        Args:
            question: that the call changes nothing, as a GET, whatever its method.

        Raises:
            Refused: the server answered with an error.
            Lost: no answer came.
        """
        url = self.url + path
        if query:
            url += "?" + urllib.parse.urlencode(query)
        return self._patiently(method, url, body, question or method == "GET")

    def _patiently(
        self, method: str, url: str, body: Optional[Mapping[str, Any]], question: bool
    ) -> Response:
        waited, backoff, renewed = 0.0, 1.0, False
        while True:
            pause = backoff
            try:
                response = self._once(method, url, body)
                if response.status == _UNAUTHORIZED and not renewed and self.renewed():
                    renewed = True
                    continue
            except Lost as error:
                if not question or self._left() <= 0:
                    raise
                trouble: TrueupError = error
            else:
                trouble_or_none = self._trouble(method, url, response, question)
                if trouble_or_none is None:
                    return response
                if not _may_ask_again(question, response):
                    raise trouble_or_none
                trouble = trouble_or_none
                requested_pause = retry_after_seconds(
                    response.headers.get("retry-after"), response.headers.get("date")
                )
                pause = backoff if requested_pause is None else requested_pause
            if waited + pause > self.patience_seconds:
                limit = f"{self.patience_name()} ({self.patience_seconds:g} s)"
                raise _tired(trouble, waited, pause, limit)
            if pause >= self._left():
                limit = f"{self.deadline_name()} ({self.deadline_seconds:g} s)"
                raise _tired(trouble, waited, pause, limit)
            self.sleep(pause)
            waited += pause
            backoff = self._longer(backoff)

    def _longer(self, pause: float) -> float:
        """The pause after this one. Many clients that were refused together do not come back
        together."""
        return min((2 + self.jitter() / 2) * pause, _LONGEST_PAUSE)

    def patience_name(self) -> str:
        """The user's name for the limit of all waiting."""
        return "the limit of all waiting"

    def deadline_name(self) -> str:
        """The user's name for the limit of all calls together."""
        return "the limit of all calls"

    def _trouble(
        self, method: str, url: str, response: Response, question: bool
    ) -> Optional[TrueupError]:
        """The error of an answer, or None."""
        status = response.status
        if 200 <= status < 300:
            return None
        call = f"{method} {urllib.parse.urlsplit(url).path}"
        message = self.hide(sentence_of(response.text))
        if status in _GATEWAY and not question:
            return Lost(f"{self.url} gave no answer to {call} (its gateway answers {status})")
        return Refused(
            self.refusal(call, response, message), status, message, code_of(response.text)
        )

    def refusal(self, call: str, response: Response, message: str) -> str:
        """The message for an error answer, with advice."""
        if 300 <= response.status < 400:
            target = self.hide(_place(response.headers.get("location", ""))) or "nowhere"
            return (
                f"{self.url} redirects {call} to {target} (status {response.status}), which is not"
                f" followed{self.redirect_advice()}"
            )
        text = message or "without a word"
        named = request_number(response)
        return f"{self.url} answers {call} with status {response.status}: {text}{named}"

    def redirect_advice(self) -> str:
        return f"; check that the URL is that of {self.NAME} itself"

    def document(self, response: Response, call: str) -> Dict[str, Any]:
        """The JSON object of an answer."""
        reason = ""
        try:
            body = bounded_http.parse_json(response.body)
        except bounded_http.NotJson as error:
            body, reason = None, f"it {error}: "
        if not isinstance(body, dict):
            start = self.hide(" ".join(response.text[:_PAGE_CHARACTERS].split())[:80])
            raise Unreadable(
                f"{self.url} answers {call} with something that is not a JSON object"
                f" ({reason}{start!r}); check that url is {self.NAME}'s"
            )
        return body

    def get(self, path: str, query: Optional[Mapping[str, str]] = None) -> Dict[str, Any]:
        return self.document(self.request("GET", path, query), f"GET {path}")

    def post(
        self,
        path: str,
        query: Optional[Mapping[str, str]] = None,
        body: Optional[Mapping[str, Any]] = None,
        *,
        question: bool = False,
    ) -> Dict[str, Any]:
        response = self.request(
            "POST", path, query, {} if body is None else body, question=question
        )
        return self.document(response, f"POST {path}")

    def next_page(self, body: Mapping[str, Any], response: Response, url: str) -> Optional[str]:
        """Where the list goes on, or None; never at another origin."""
        link = body.get("nextLink") or body.get("NextPageLink")
        if not link:
            match = re.search(
                r'<([^<>]*)>\s*;[^,<]*\brel="?next\b', response.headers.get("link", "")
            )
            link = match[1] if match else None
        if not link:
            return None
        target = urllib.parse.urljoin(url, str(link))
        if _origin(self.url) != _origin(target):
            raise TrueupError(self.elsewhere(_place(target)))
        return target

    def elsewhere(self, url: str) -> str:
        """The message for a list that goes on at another origin, with advice."""
        return f"{self.url} goes on with its list at {url}, which is not asked"

    def finished(
        self, response: Response, label: str, *, tell: Optional[Tell] = None
    ) -> Dict[str, Any]:
        """Wait for the result of an order that the server may continue after its answer.

        The state comes from the URL in ``Azure-AsyncOperation``, else in ``Location``, else from
        the resource itself while its provisioningState is not final. The server sets the pauses.

        Args:
            response: to the order.
            label: of the order, for messages.
            tell: gets the state: when it changes, and once a minute.

        Returns:
            The resource, or the operation's result; {} where there is none (204, or deleted).

        Raises:
            Failed: it failed or was cancelled.
            Lost: it was not finished at the deadline, or a question about it got no answer.
        """
        operation = response.headers.get("azure-asyncoperation", "")
        link = operation or response.headers.get("location", "")
        if response.status == _ACCEPTED and not link:
            raise TrueupError(f"{self.url} goes on with {label} and says nowhere how it stands")
        url = self._own(urllib.parse.urljoin(response.url, link), label) if link else response.url
        begun, last_state, told_at, backoff, unreadable = self.clock(), "", self.clock(), 1.0, 0
        last, state = response, "Accepted"
        document: Dict[str, Any] = {}
        if not link:
            state, document = self._standing(response, label, operation=False)
        while state.lower() != _SUCCEEDED:
            if state.lower() in _ENDED_BADLY:
                raise self._failed(document, label, state, last)
            now = self.clock()
            if tell is not None and (state != last_state or now - told_at >= _TELL_SECONDS):
                last_state, told_at = state, now
                tell(f"{label}: {state} after {now - begun:.0f} s")
            self._pause(last, backoff, f"{label} is not finished ({state})")
            backoff = self._longer(backoff)
            try:
                last = self._asked_again(url, label, state)
                state, document = self._standing(last, label, operation=bool(operation))
                unreadable = 0
            except Unreadable:
                unreadable += 1
                if unreadable == _MOST_UNREADABLE:
                    raise
            except Refused as error:
                if response.method != "DELETE" or error.status != _NOT_FOUND:
                    raise
                return {}
        return self._result(response, document) if operation else document

    def _own(self, target: str, label: str) -> str:
        """A link of the server's, never at another origin: credentials go nowhere else."""
        if _origin(self.url) != _origin(target):
            raise TrueupError(
                f"{self.url} says how {label} stands at {_place(target)}, which is not asked"
            )
        return target

    def _pause(self, last: Response, backoff: float, standing: str) -> None:
        requested_pause = retry_after_seconds(
            last.headers.get("retry-after"), last.headers.get("date")
        )
        pause = requested_pause if requested_pause is not None and requested_pause >= 1 else backoff
        if pause >= self._left():
            raise Lost(
                f"{standing}, and {pause:.0f} s more pass {self.deadline_name()}"
                f" ({self.deadline_seconds:g} s); {self.NAME} goes on with it"
            )
        self.sleep(pause)

    def _asked_again(self, url: str, label: str, state: str) -> Response:
        try:
            return self._patiently("GET", url, None, question=True)
        except Lost as error:
            raise Lost(
                f"{label} is not finished ({state}, by the last answer): {error}; {self.NAME} goes"
                " on with it"
            ) from None

    def _standing(
        self, response: Response, label: str, *, operation: bool
    ) -> Tuple[str, Dict[str, Any]]:
        """The state and the document of an answer."""
        goes_on, has_body = response.status == _ACCEPTED, bool(response.text.strip())
        if response.status == _NO_CONTENT or (not has_body and (goes_on or not operation)):
            return ("Accepted" if goes_on else _SUCCEEDED), {}
        document = self.document(response, label)
        if operation:
            state = document.get("status")
            if not isinstance(state, str) or not state:
                raise Unreadable(f"{self.url} does not say how {label} stands: no status")
            return state, document
        properties = document.get("properties")
        inner = properties.get("provisioningState") if isinstance(properties, dict) else None
        state = inner or document.get("status")
        if isinstance(state, str) and (inner or state.lower() in _ENDED_BADLY):
            return state, document
        return ("Accepted" if goes_on else _SUCCEEDED), document

    def _failed(
        self, document: Mapping[str, Any], label: str, state: str, last: Response
    ) -> Failed:
        properties = document.get("properties")
        inner = properties.get("error") if isinstance(properties, dict) else None
        error = document.get("error") or inner
        text = json.dumps({"error": error}) if isinstance(error, dict) else ""
        message = self.hide(sentence_of(text)) if text else "without a word"
        ended = "was cancelled" if state.lower() != "failed" else "failed"
        request = request_number(last)
        return Failed(f"{label} {ended}: {message}{request}", code_of(text), request)

    def _result(self, order: Response, document: Dict[str, Any]) -> Dict[str, Any]:
        """The result of a finished operation: of a PUT the resource, of a POST that at Location."""
        if order.method == "DELETE":
            return {}
        location = order.headers.get("location", "") if order.method == "POST" else order.url
        if not location:
            return document
        url = self._own(urllib.parse.urljoin(order.url, location), f"{order.method} {order.url}")
        response = self._patiently("GET", url, None, question=True)
        if not response.text.strip():
            return {}
        return self.document(response, f"GET {urllib.parse.urlsplit(url).path}")

    def pages(
        self, path: str, query: Optional[Mapping[str, str]] = None
    ) -> Tuple[List[Dict[str, Any]], Response]:
        """All documents of a list, and the last answer."""
        response = self.request("GET", path, query)
        url, documents = self.url + path, [self.document(response, f"GET {path}")]
        visited: Set[str] = set()
        while following := self.next_page(documents[-1], response, url):
            if following in visited or len(visited) >= MAX_PAGES:
                raise TrueupError(
                    f"{self.url} lists GET {path} in a circle, or in more than {MAX_PAGES} pages; "
                    "nothing was taken from it"
                )
            visited.add(following)
            url = following
            response = self._patiently("GET", url, None, question=True)
            documents.append(self.document(response, f"GET {path}"))
        return documents, response


def request_number(response: Response) -> str:
    """The number by which Azure's support finds a call, in brackets; nothing where it has none."""
    number = response.headers.get("x-ms-request-id") or response.headers.get(
        "x-ms-correlation-request-id", ""
    )
    return f" (request {number[:64]})" if number else ""


def _tired(trouble: TrueupError, waited: float, pause: float, limit: str) -> TrueupError:
    text = f"{trouble}; waited {waited:.0f} s, and {pause:.0f} s more would exceed {limit}"
    if isinstance(trouble, Refused):
        return Refused(text, trouble.status, trouble.said, trouble.code)
    return Lost(text)


def _may_ask_again(question: bool, response: Response) -> bool:
    if response.status == _CONFLICT:
        return code_of(response.text) in _PASSING
    return response.status in _BUSY or (question and response.status in (*_GATEWAY, *_BROKEN))


def _origin(url: str) -> Tuple[str, str, int]:
    """Scheme, host and port of a URL; the port of the scheme where it names none."""
    parts = urllib.parse.urlsplit(url)
    try:
        port = parts.port
    except ValueError:
        port = -1
    return parts.scheme, parts.hostname or "", port or (443 if parts.scheme == "https" else 80)


def _place(url: str) -> str:
    """A URL without the parts that may be secret."""
    parts = urllib.parse.urlsplit(url)
    return f"{parts.scheme}://{parts.hostname or ''}" if parts.scheme else parts.path


def open_plainly(url: str, **arguments: Any) -> Any:
    """As ansible's ``open_url`` for a call without a password, where Ansible is not installed."""
    if urllib.parse.urlsplit(url).scheme not in ("http", "https"):
        raise BadInput(f"{url} is neither http nor https")
    request = urllib.request.Request(  # noqa: S310 WHY: its scheme was looked at
        url, headers=arguments["headers"], method=arguments["method"]
    )
    request.add_header("User-Agent", arguments["http_agent"])
    handlers: List[Any] = [bounded_http.NoRedirect()]
    if not arguments["use_proxy"]:
        handlers.append(urllib.request.ProxyHandler({}))
    opener = urllib.request.build_opener(*handlers)
    return opener.open(request, timeout=arguments["timeout"])
