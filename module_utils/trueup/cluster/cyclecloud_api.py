"""Calls to CycleCloud's REST API: who asks, what may be asked again, and what an error says.

Source: https://learn.microsoft.com/azure/cyclecloud/api (reference of 2026-06-19, read 2026-11-21)
for paths and statuses, https://learn.microsoft.com/azure/cyclecloud/how-to/use-rest-api for basic
authentication; RFC 9110 10.2.3 for Retry-After. The reference gives errors no content and says
nothing of 401, 403, 429 and 503, which a server or a gateway before it may answer all the same.

The reference shows no paging: a list is one document. ``nextLink`` and ``Link: <...>; rel="next"``
are followed all the same, so that a list is never taken for whole when it says that it is not.
"""

from __future__ import annotations

import email.utils
import http.client
import ipaddress
import json
import re
import ssl
import time
import urllib.error
import urllib.parse
from base64 import b64encode
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, Callable, Dict, List, Mapping, Optional, Set, Tuple

from ..errors import BadInput, TrueupError

MAX_PAGES = 1000

_GATEWAY = (502, 504)
_BUSY = (429, 503)

OpenUrl = Callable[..., Any]


class Refused(TrueupError):
    """The server answered and did not do it; ``status`` is HTTP's, ``said`` the server's text."""

    def __init__(self, message: str, status: int, said: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.said = said


class Lost(TrueupError):
    """No answer came back: nobody knows whether the server has acted."""


@dataclass(frozen=True)
class Server:
    """Where CycleCloud is and who asks."""

    url: str
    username: str
    password: str
    validate_certs: bool = True
    ca_path: Optional[str] = None
    timeout_seconds: float = 30
    retry_limit_seconds: float = 120


def is_loopback(host: str) -> bool:
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_url(url: str) -> str:
    """The URL without its last slash; BadInput where credentials must not be sent."""
    try:
        parts = urllib.parse.urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError as error:
        raise BadInput(f"url is not a URL ({error}); write https://HOST[:PORT]") from None
    if parts.username is not None or parts.password is not None:
        raise BadInput("url holds a user name or a password; give them as username and password")
    if parts.scheme not in ("http", "https") or not host:
        raise BadInput(f"url is {url!r}; write https://HOST[:PORT]")
    if parts.query or parts.fragment:
        raise BadInput(f"url has a query or a fragment; write https://{parts.netloc}{parts.path}")
    if parts.scheme == "http" and not is_loopback(host):
        raise BadInput(
            f"url {url} is not https, and the password would go over the network readable; "
            f"write https://{host} (http is taken for a loopback address only)"
        )
    return url.rstrip("/")


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


def iso_date(text: Any) -> Optional[datetime]:
    """A date-time of the API (2020-01-01T12:34:56Z, with or without a fraction)."""
    found = re.match(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.\d+)?(Z|[+-]\d\d:\d\d)?$", str(text))
    if not found:
        return None
    zone = "+00:00" if found[2] in (None, "Z") else found[2]
    try:
        return datetime.fromisoformat(found[1] + zone)
    except ValueError:
        return None


@dataclass(frozen=True)
class Answer:
    """One answer: HTTP's status, its headers in lower case, and its text."""

    status: int
    headers: Mapping[str, str]
    text: str


def sentence_of(text: str) -> str:
    """What an error's body says: the reference promises no content, so it may be JSON, a page or
    nothing."""
    try:
        body = json.loads(text)
    except ValueError:
        body = None
    said = ""
    if isinstance(body, dict):
        low = {str(key).lower(): value for key, value in body.items()}
        for key in ("message", "error", "detail"):
            value = low.get(key)
            if isinstance(value, dict):
                value = value.get("message")
            if isinstance(value, str) and value.strip():
                said = value
                break
    if not said:
        said = re.sub(
            r"<(script|style)\b.*?</\1>|<[^>]*>", " ", text, flags=re.DOTALL | re.IGNORECASE
        )
    said = " ".join(said.split())
    return said[:300] + ("..." if len(said) > 300 else "")


class Api:
    """Calls with the user's name and password, which leave for this server only.

    Args:
        server: where and who.
        open_url: ``ansible.module_utils.urls.open_url``.
        sleep, clock: as of ``time``.
    """

    def __init__(
        self,
        server: Server,
        open_url: OpenUrl,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.server = server
        self.url = check_url(server.url)
        if ":" in server.username:
            raise BadInput("username has a colon, which HTTP's basic authentication cannot carry")
        self.open_url = open_url
        self.sleep = sleep
        self.clock = clock
        basic = b64encode(f"{server.username}:{server.password}".encode()).decode()
        self._secrets = [word for word in (server.password, basic) if word]

    def hide(self, text: str) -> str:
        """The text without the secrets, also where a server sends them back."""
        for secret in self._secrets:
            text = text.replace(secret, "********")
        return text

    def _once(self, method: str, url: str, body: Optional[Mapping[str, Any]]) -> Answer:
        parts = urllib.parse.urlsplit(url)
        what = f"{method} {parts.path}"
        headers = {"Accept": "application/json"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        try:
            response = self.open_url(
                url,
                data=None if body is None else json.dumps(body).encode(),
                headers=headers,
                method=method,
                # In plain http a proxy could read the password.
                use_proxy=parts.scheme == "https",
                timeout=self.server.timeout_seconds,
                validate_certs=self.server.validate_certs,
                ca_path=self.server.ca_path,
                url_username=self.server.username,
                url_password=self.server.password,
                force_basic_auth=True,
                follow_redirects="none",
                use_netrc=False,
                http_agent="trueup",
            )
            status, raw = int(response.status), response.read()
            received = response.headers
        except urllib.error.HTTPError as error:
            status, received = error.code, error.headers
            try:
                raw = error.read()
            except (OSError, http.client.HTTPException):
                raw = b""
        except UnicodeError:
            raise BadInput(f"url {self.url} has a host that is no host name") from None
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", error)
            ended = isinstance(reason, (ssl.SSLEOFError, ssl.SSLZeroReturnError))
            if isinstance(reason, ssl.SSLError) and not ended:
                raise Refused(self._tls_sentence(reason), 0) from None
            said = self.hide(str(reason)) or type(reason).__name__
            raise Lost(f"{self.url} gave no answer to {what} ({said})") from None
        kept = {str(key).lower(): str(value) for key, value in (received or {}).items()}
        return Answer(status, kept, raw.decode("utf-8", "replace"))

    def _tls_sentence(self, error: ssl.SSLError) -> str:
        why = getattr(error, "verify_message", "") or error.reason or str(error)
        return (
            f"{self.url} could not be trusted by TLS ({self.hide(str(why))}); give the certificate "
            "of its authority as ca_path, or check the host and the port"
        )

    def request(
        self,
        method: str,
        path: str,
        query: Optional[Mapping[str, str]] = None,
        body: Optional[Mapping[str, Any]] = None,
    ) -> Answer:
        """The answer to one call.

        A busy server (429, 503) is asked again when it says so, any call; a GET also when its
        answer was lost. All waiting of one call stays below ``retry_limit_seconds``.

        Raises:
            Refused: the server answered with an error.
            Lost: no answer came.
        """
        url = self.url + path
        if query:
            url += "?" + urllib.parse.urlencode(query)
        return self._patiently(method, url, body)

    def _patiently(self, method: str, url: str, body: Optional[Mapping[str, Any]]) -> Answer:
        waited, backoff = 0.0, 1.0
        while True:
            pause = backoff
            try:
                answer = self._once(method, url, body)
            except Lost as error:
                if method != "GET":
                    raise
                trouble: TrueupError = error
            else:
                trouble_or_none = self._trouble(method, url, answer)
                if trouble_or_none is None:
                    return answer
                again = answer.status in _BUSY or (method == "GET" and answer.status in _GATEWAY)
                if not again:
                    raise trouble_or_none
                trouble = trouble_or_none
                asked = retry_after_seconds(
                    answer.headers.get("retry-after"), answer.headers.get("date")
                )
                pause = backoff if asked is None else asked
            if waited + pause > self.server.retry_limit_seconds:
                raise self._tired(trouble, waited, pause)
            self.sleep(pause)
            waited += pause
            backoff = min(2 * backoff, 30.0)

    def _tired(self, trouble: TrueupError, waited: float, pause: float) -> TrueupError:
        limit = self.server.retry_limit_seconds
        text = (
            f"{trouble}; waited {waited:g} s, and {pause:g} s more pass "
            f"retry_limit_seconds ({limit:g})"
        )
        if isinstance(trouble, Refused):
            return Refused(text, trouble.status, trouble.said)
        return Lost(text)

    def _trouble(self, method: str, url: str, answer: Answer) -> Optional[TrueupError]:
        """What is wrong with an answer, or None."""
        status = answer.status
        if 200 <= status < 300:
            return None
        what = f"{method} {urllib.parse.urlsplit(url).path}"
        said = self.hide(sentence_of(answer.text))
        if status in _GATEWAY and method != "GET":
            return Lost(f"{self.url} gave no answer to {what} (its gateway answers {status})")
        text = f"{self.url} answers {what} with status {status}: {said or 'without a word'}"
        if 300 <= status < 400:
            target = urllib.parse.urlsplit(answer.headers.get("location", ""))
            place = f"{target.scheme}://{target.hostname or ''}" if target.scheme else target.path
            text = (
                f"{self.url} redirects {what} to {self.hide(place) or 'nowhere'} (status {status})"
                ", which is not followed with a password; give the URL of CycleCloud itself as url"
            )
        elif status == 401:
            text = (
                f"{self.url} takes neither this user name nor this password (status 401); "
                f"check username ({self.server.username}) and password"
            )
        elif status == 403:
            text = (
                f"user {self.server.username} may not {what} at {self.url} (status 403"
                f"{': ' + said if said else ''}); give the user that right in CycleCloud"
            )
        return Refused(text, status, said)

    def document(self, answer: Answer, what: str) -> Dict[str, Any]:
        """The JSON object of an answer."""
        try:
            body = json.loads(answer.text)
        except ValueError:
            body = None
        if not isinstance(body, dict):
            start = self.hide(" ".join(answer.text.split())[:80])
            raise TrueupError(
                f"{self.url} answers {what} with something that is not a JSON object "
                f"({start!r}); check that url is CycleCloud's"
            )
        return body

    def get(self, path: str, query: Optional[Mapping[str, str]] = None) -> Dict[str, Any]:
        return self.document(self.request("GET", path, query), f"GET {path}")

    def post(
        self,
        path: str,
        query: Optional[Mapping[str, str]] = None,
        body: Optional[Mapping[str, Any]] = None,
    ) -> Dict[str, Any]:
        answer = self.request("POST", path, query, {} if body is None else body)
        return self.document(answer, f"POST {path}")

    def next_page(self, body: Mapping[str, Any], answer: Answer, here: str) -> Optional[str]:
        """Where the list goes on, or None; never at another origin."""
        link = body.get("nextLink")
        if not link:
            found = re.search(r'<([^>]*)>\s*;[^,]*\brel="?next\b', answer.headers.get("link", ""))
            link = found[1] if found else None
        if not link:
            return None
        target = urllib.parse.urljoin(here, str(link))
        wanted, given = (urllib.parse.urlsplit(url)[:2] for url in (self.url, target))
        if wanted != given:
            raise TrueupError(
                f"{self.url} goes on with its list at {'://'.join(given)}, which does not get the "
                "password; give the URL by which CycleCloud calls itself as url"
            )
        return target

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
            answer = self._patiently("GET", url, None)
            found.append(self.document(answer, f"GET {path}"))
        return found, answer
