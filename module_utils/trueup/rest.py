"""Patient calls to a REST API: what may be asked again, how a list goes on, and what an error says.

Source: RFC 9110 10.2.3 for Retry-After; Microsoft's REST API guidelines (vNext) for ``nextLink``,
``error.code`` with its ``details``, and the header ``x-ms-request-id``; Azure Resource Manager's
guide to asynchronous operations for ``Azure-AsyncOperation``, ``Location``, ``provisioningState``.
A server of a class of its own (CycleCloud, the Retail Prices API, Azure Resource Manager) says in a
subclass of :class:`Client` who asks, and what a refusal means there.
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
# A tag of a page; of a script or style sheet, with what stands in it.
_TAG = re.compile(
    r"<(script|style)\b[^<]*(?:<(?!/?(?:script|style)\b)[^<]*)*</\1>|<[^<>]*>", re.IGNORECASE
)
_MOST_DETAILS = 10

OpenUrl = Callable[..., Any]
Tell = Callable[[str], None]


class Refused(TrueupError):
    """The server answered and did not do it; ``status`` is HTTP's, ``said`` the server's text,
    ``code`` the innermost of its error's codes, empty where it gives none."""

    def __init__(self, message: str, status: int, said: str = "", code: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.said = said
        self.code = code


class Failed(TrueupError):
    """An operation that the server took did not succeed; ``code`` is the innermost of its error's
    codes, empty where it gives none, ``request`` the call's number in brackets."""

    def __init__(self, message: str, code: str = "", request: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.request = request


class Unreadable(TrueupError):
    """An answer that is not what was asked for: cut, or another server's."""


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
class Answer:
    """One answer: HTTP's status, its headers in lower case, its body, and what was asked."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    method: str = "GET"
    url: str = ""

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "replace")


def sentence_of(text: str) -> str:
    """What an error's body says: the reference promises no content, so it may be JSON, a page or
    nothing."""
    try:
        body = bounded_http.parse_json(text)
    except bounded_http.NotJson:
        body = None
    said = ""
    if isinstance(body, dict):
        low = {str(key).lower(): value for key, value in body.items()}
        for key in ("message", "error", "detail"):
            value = low.get(key)
            inner = value if isinstance(value, dict) else {"message": value}
            value, code = inner.get("message"), inner.get("code")
            if isinstance(value, str) and value.strip():
                said = f"{code}: {value}" if isinstance(code, str) and code else value
                cause = _cause(inner)
                if cause and len(said) + len(cause) > _SAID_CHARACTERS:
                    said = f"{code}" if isinstance(code, str) and code else said[:100]
                said += cause
                break
    if not said:
        said = _TAG.sub(" ", text[:_PAGE_CHARACTERS])
    said = " ".join(said.split())
    return said[:_SAID_CHARACTERS] + ("..." if len(said) > _SAID_CHARACTERS else "")


def _cause(error: Mapping[str, Any]) -> str:
    """What the innermost of an error's details says, or nothing: it names the cause."""
    inner = innermost(error)
    if inner is error:
        return ""
    words = [inner.get("code"), inner.get("message")]
    found = ": ".join(word for word in words if isinstance(word, str) and word)
    return f"; the cause is {found}" if found else ""


def innermost(error: Mapping[str, Any]) -> Mapping[str, Any]:
    """The innermost of an error's details, where its cause stands: the first of each list, and what
    Azure Resource Manager packs into a message as JSON; the error itself where it has none."""
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
        connection: what every call gives ``open_url`` besides: who asks, TLS, and ``timeout``, the
            seconds from the name lookup to the last byte of one answer.
        patience_seconds: the sum of all pauses of one call.
        deadline_seconds: how long all calls may take together with their pauses, from now on; None
            for no end.
        secrets: what no message may hold.
        sleep, clock: as of ``time``. jitter: a number from 0 to 1.
    """

    # What the reader knows the server by, and what to look at when it is another one.
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
        self._secrets = [word for word in secrets if word]

    def hide(self, text: str) -> str:
        """The text without the secrets, also where a server sends them back."""
        for secret in self._secrets:
            text = text.replace(secret, "********")
        return text

    def headers(self) -> Dict[str, str]:
        """What every call says besides."""
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

    def _once(self, method: str, url: str, body: Optional[Mapping[str, Any]]) -> Answer:
        parts = urllib.parse.urlsplit(url)
        what = f"{method} {parts.path}"
        left = self._left()
        if left <= 0:
            raise Lost(
                f"{self.url} was not asked {what}: all calls together took longer than"
                f" {self.deadline_name()} ({self.deadline_seconds:g})"
            )
        seconds = min(self._connection["timeout"], left)
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
                f"{self.url} answers {what} with {error}, which no answer of {self.NAME} has"
            ) from None
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", error)
            ended = isinstance(reason, (ssl.SSLEOFError, ssl.SSLZeroReturnError))
            if isinstance(reason, ssl.SSLError) and not ended:
                raise Refused(self.untrusted(reason), 0) from None
            said = self.hide(str(reason)) or type(reason).__name__
            raise Lost(f"{self.url} gave no answer to {what} ({said})") from None
        kept = {str(key).lower(): str(value) for key, value in (reply.headers or {}).items()}
        return Answer(reply.status, kept, reply.body, method, url)

    def untrusted(self, error: ssl.SSLError) -> str:
        """That TLS does not trust the server, and what helps."""
        why = getattr(error, "verify_message", "") or error.reason or str(error)
        return (
            f"{self.url} could not be trusted by TLS ({self.hide(str(why))}); {self.trust_advice()}"
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
    ) -> Answer:
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
    ) -> Answer:
        waited, backoff, renewed = 0.0, 1.0, False
        while True:
            pause = backoff
            try:
                answer = self._once(method, url, body)
                if answer.status == _UNAUTHORIZED and not renewed and self.renewed():
                    renewed = True
                    continue
            except Lost as error:
                if not question or self._left() <= 0:
                    raise
                trouble: TrueupError = error
            else:
                trouble_or_none = self._trouble(method, url, answer, question)
                if trouble_or_none is None:
                    return answer
                if not _may_ask_again(question, answer):
                    raise trouble_or_none
                trouble = trouble_or_none
                asked = retry_after_seconds(
                    answer.headers.get("retry-after"), answer.headers.get("date")
                )
                pause = backoff if asked is None else asked
            if waited + pause > self.patience_seconds:
                limit = f"{self.patience_name()} ({self.patience_seconds:g})"
                raise _tired(trouble, waited, pause, limit)
            if pause >= self._left():
                limit = f"{self.deadline_name()} ({self.deadline_seconds:g})"
                raise _tired(trouble, waited, pause, limit)
            self.sleep(pause)
            waited += pause
            backoff = self._longer(backoff)

    def _longer(self, pause: float) -> float:
        """The pause after this one. Many clients that were refused together do not come back
        together."""
        return min((2 + self.jitter() / 2) * pause, _LONGEST_PAUSE)

    def patience_name(self) -> str:
        """What the limit of all waiting is called where the reader sets it."""
        return "the limit of all waiting in seconds"

    def deadline_name(self) -> str:
        """What the limit of all calls together is called where the reader sets it."""
        return "the limit of all calls in seconds"

    def _trouble(
        self, method: str, url: str, answer: Answer, question: bool
    ) -> Optional[TrueupError]:
        """What is wrong with an answer, or None."""
        status = answer.status
        if 200 <= status < 300:
            return None
        what = f"{method} {urllib.parse.urlsplit(url).path}"
        said = self.hide(sentence_of(answer.text))
        if status in _GATEWAY and not question:
            return Lost(f"{self.url} gave no answer to {what} (its gateway answers {status})")
        return Refused(self.refusal(what, answer, said), status, said, code_of(answer.text))

    def refusal(self, what: str, answer: Answer, said: str) -> str:
        """What an error answer means, and what helps."""
        if 300 <= answer.status < 400:
            target = self.hide(_place(answer.headers.get("location", ""))) or "nowhere"
            return (
                f"{self.url} redirects {what} to {target} (status {answer.status}), which is not"
                f" followed{self.redirect_advice()}"
            )
        text = said or "without a word"
        named = request_number(answer)
        return f"{self.url} answers {what} with status {answer.status}: {text}{named}"

    def redirect_advice(self) -> str:
        return f"; check that the URL is that of {self.NAME} itself"

    def document(self, answer: Answer, what: str) -> Dict[str, Any]:
        """The JSON object of an answer."""
        reason = ""
        try:
            body = bounded_http.parse_json(answer.body)
        except bounded_http.NotJson as error:
            body, reason = None, f"it {error}: "
        if not isinstance(body, dict):
            start = self.hide(" ".join(answer.text[:_PAGE_CHARACTERS].split())[:80])
            raise Unreadable(
                f"{self.url} answers {what} with something that is not a JSON object"
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
        answer = self.request("POST", path, query, {} if body is None else body, question=question)
        return self.document(answer, f"POST {path}")

    def next_page(self, body: Mapping[str, Any], answer: Answer, here: str) -> Optional[str]:
        """Where the list goes on, or None; never at another origin."""
        link = body.get("nextLink") or body.get("NextPageLink")
        if not link:
            found = re.search(r'<([^<>]*)>\s*;[^,<]*\brel="?next\b', answer.headers.get("link", ""))
            link = found[1] if found else None
        if not link:
            return None
        target = urllib.parse.urljoin(here, str(link))
        if _origin(self.url) != _origin(target):
            raise TrueupError(self.elsewhere(_place(target)))
        return target

    def elsewhere(self, place: str) -> str:
        """That a list goes on at another origin, and what helps."""
        return f"{self.url} goes on with its list at {place}, which is not asked"

    def finished(self, answer: Answer, what: str, *, tell: Optional[Tell] = None) -> Dict[str, Any]:
        """What an order came to, which the server may go on with after its answer.

        It is asked where ``Azure-AsyncOperation`` says, else ``Location``, else the resource itself
        while its provisioningState is not final; after the pauses that it asks for.

        Args:
            answer: of the order.
            what: the order, for messages.
            tell: is told how it stands: when that changes, and once a minute.

        Returns:
            The resource, or what the operation gave; {} where there is none (204, or deleted).

        Raises:
            Failed: it failed or was cancelled.
            Lost: it was not finished at the deadline, or what was asked then got no answer.
        """
        operation = answer.headers.get("azure-asyncoperation", "")
        link = operation or answer.headers.get("location", "")
        if answer.status == _ACCEPTED and not link:
            raise TrueupError(f"{self.url} goes on with {what} and says nowhere how it stands")
        url = self._own(urllib.parse.urljoin(answer.url, link), what) if link else answer.url
        begun, told, told_at, backoff, unreadable = self.clock(), "", self.clock(), 1.0, 0
        last, state = answer, "Accepted"
        document: Dict[str, Any] = {}
        if not link:
            state, document = self._standing(answer, what, operation=False)
        while state.lower() != _SUCCEEDED:
            if state.lower() in _ENDED_BADLY:
                raise self._failed(document, what, state, last)
            now = self.clock()
            if tell is not None and (state != told or now - told_at >= _TELL_SECONDS):
                told, told_at = state, now
                tell(f"{what}: {state} after {now - begun:.0f} s")
            self._pause(last, backoff, f"{what} is not finished ({state})")
            backoff = self._longer(backoff)
            try:
                last = self._asked_again(url, what, state)
                state, document = self._standing(last, what, operation=bool(operation))
                unreadable = 0
            except Unreadable:
                unreadable += 1
                if unreadable == _MOST_UNREADABLE:
                    raise
            except Refused as error:
                if answer.method != "DELETE" or error.status != _NOT_FOUND:
                    raise
                return {}
        return self._result(answer, document) if operation else document

    def _own(self, target: str, what: str) -> str:
        """A link of the server's, never at another origin: what proves who asks goes nowhere
        else."""
        if _origin(self.url) != _origin(target):
            raise TrueupError(
                f"{self.url} says how {what} stands at {_place(target)}, which is not asked"
            )
        return target

    def _pause(self, last: Answer, backoff: float, standing: str) -> None:
        asked = retry_after_seconds(last.headers.get("retry-after"), last.headers.get("date"))
        pause = asked if asked is not None and asked >= 1 else backoff
        if pause >= self._left():
            raise Lost(
                f"{standing}, and {pause:.0f} s more pass {self.deadline_name()}"
                f" ({self.deadline_seconds:g}); {self.NAME} goes on with it"
            )
        self.sleep(pause)

    def _asked_again(self, url: str, what: str, state: str) -> Answer:
        try:
            return self._patiently("GET", url, None, question=True)
        except Lost as error:
            raise Lost(
                f"{what} is not finished ({state}, by the last answer): {error}; {self.NAME} goes"
                " on with it"
            ) from None

    def _standing(
        self, answer: Answer, what: str, *, operation: bool
    ) -> Tuple[str, Dict[str, Any]]:
        """The state and the document of an answer."""
        goes_on, said = answer.status == _ACCEPTED, bool(answer.text.strip())
        if answer.status == _NO_CONTENT or (not said and (goes_on or not operation)):
            return ("Accepted" if goes_on else _SUCCEEDED), {}
        document = self.document(answer, what)
        if operation:
            state = document.get("status")
            if not isinstance(state, str) or not state:
                raise Unreadable(f"{self.url} does not say how {what} stands: no status")
            return state, document
        properties = document.get("properties")
        inner = properties.get("provisioningState") if isinstance(properties, dict) else None
        state = inner or document.get("status")
        if isinstance(state, str) and (inner or state.lower() in _ENDED_BADLY):
            return state, document
        return ("Accepted" if goes_on else _SUCCEEDED), document

    def _failed(self, document: Mapping[str, Any], what: str, state: str, last: Answer) -> Failed:
        properties = document.get("properties")
        inner = properties.get("error") if isinstance(properties, dict) else None
        error = document.get("error") or inner
        text = json.dumps({"error": error}) if isinstance(error, dict) else ""
        said = self.hide(sentence_of(text)) if text else "without a word"
        ended = "was cancelled" if state.lower() != "failed" else "failed"
        request = request_number(last)
        return Failed(f"{what} {ended}: {said}{request}", code_of(text), request)

    def _result(self, order: Answer, document: Dict[str, Any]) -> Dict[str, Any]:
        """What a finished operation gave: of a PUT the resource, of a POST what Location has."""
        if order.method == "DELETE":
            return {}
        place = order.headers.get("location", "") if order.method == "POST" else order.url
        if not place:
            return document
        url = self._own(urllib.parse.urljoin(order.url, place), f"{order.method} {order.url}")
        answer = self._patiently("GET", url, None, question=True)
        if not answer.text.strip():
            return {}
        return self.document(answer, f"GET {urllib.parse.urlsplit(url).path}")

    def pages(
        self, path: str, query: Optional[Mapping[str, str]] = None
    ) -> Tuple[List[Dict[str, Any]], Answer]:
        """All documents of a list, and the last answer."""
        answer = self.request("GET", path, query)
        url, found = self.url + path, [self.document(answer, f"GET {path}")]
        seen: Set[str] = set()
        while following := self.next_page(found[-1], answer, url):
            if following in seen or len(seen) >= MAX_PAGES:
                raise TrueupError(
                    f"{self.url} lists GET {path} in a circle, or in more than {MAX_PAGES} pages; "
                    "nothing was taken from it"
                )
            seen.add(following)
            url = following
            answer = self._patiently("GET", url, None, question=True)
            found.append(self.document(answer, f"GET {path}"))
        return found, answer


def request_number(answer: Answer) -> str:
    """The number by which Azure's support finds a call, in brackets; nothing where it has none."""
    number = answer.headers.get("x-ms-request-id") or answer.headers.get(
        "x-ms-correlation-request-id", ""
    )
    return f" (request {number[:64]})" if number else ""


def _tired(trouble: TrueupError, waited: float, pause: float, limit: str) -> TrueupError:
    text = f"{trouble}; waited {waited:.0f} s, and {pause:.0f} s more pass {limit}"
    if isinstance(trouble, Refused):
        return Refused(text, trouble.status, trouble.said, trouble.code)
    return Lost(text)


def _may_ask_again(question: bool, answer: Answer) -> bool:
    if answer.status == _CONFLICT:
        return code_of(answer.text) in _PASSING
    return answer.status in _BUSY or (question and answer.status in (*_GATEWAY, *_BROKEN))


def _origin(url: str) -> Tuple[str, str, int]:
    """Scheme, host and port of a URL; the port of the scheme where it names none."""
    parts = urllib.parse.urlsplit(url)
    try:
        port = parts.port
    except ValueError:
        port = -1
    return parts.scheme, parts.hostname or "", port or (443 if parts.scheme == "https" else 80)


def _place(url: str) -> str:
    """A URL without what may be secret in it."""
    parts = urllib.parse.urlsplit(url)
    return f"{parts.scheme}://{parts.hostname or ''}" if parts.scheme else parts.path


def open_plainly(url: str, **given: Any) -> Any:
    """As ansible's ``open_url`` for a call without a password, where Ansible is not installed."""
    if urllib.parse.urlsplit(url).scheme not in ("http", "https"):
        raise BadInput(f"{url} is neither http nor https")
    request = urllib.request.Request(  # noqa: S310 WHY: its scheme was looked at
        url, headers=given["headers"], method=given["method"]
    )
    request.add_header("User-Agent", given["http_agent"])
    handlers: List[Any] = [bounded_http.NoRedirect()]
    if not given["use_proxy"]:
        handlers.append(urllib.request.ProxyHandler({}))
    opener = urllib.request.build_opener(*handlers)
    return opener.open(request, timeout=given["timeout"])
