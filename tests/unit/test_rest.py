"""The patient client: what is asked again, how lists go on, what errors say."""

from __future__ import annotations

import json
import urllib.error
from collections.abc import Mapping
from email.message import Message
from io import BytesIO
from typing import Any

import pytest
from helpers import said
from trueup_node import rest
from trueup_node.errors import BadInput

URL = "https://prices.example"


class Reply(BytesIO):
    """What open_url gives back."""

    def __init__(self, status: int, text: str, headers: Mapping[str, str]) -> None:
        super().__init__(text.encode())
        self.status = status
        self.headers = Message()
        for name, value in headers.items():
            self.headers[name] = value


class Opened:
    """Answers in their order; what was asked and how long was waited."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, str]] = []
        self.waited: list[float] = []

    def __call__(self, url: str, **given: Any) -> Reply:
        self.asked.append((given["method"], url))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        status, body, headers = (*answer, {})[:3]
        text = body if isinstance(body, str) else json.dumps(body)
        reply = Reply(status, text, headers)
        if status >= 300:
            raise urllib.error.HTTPError(url, status, "", reply.headers, BytesIO(text.encode()))
        return reply

    def client(self, **more: Any) -> rest.Client:
        given = {"connection": {}, "sleep": self.waited.append, "jitter": lambda: 0.0, **more}
        return rest.Client(URL, self, **given)


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_a_question_is_asked_again(status: int) -> None:
    opened = Opened((status, ""), (200, {"fine": 1}))
    assert (opened.client().get("/x"), opened.waited) == ({"fine": 1}, [1.0])


@pytest.mark.parametrize(("status", "times"), [(429, 2), (503, 2), (500, 1), (502, 1), (404, 1)])
def test_an_order_is_repeated_only_where_it_was_not_taken(status: int, times: int) -> None:
    opened = Opened((status, ""), (200, {}))
    client = opened.client()
    if times == 2:
        assert client.post("/x") == {}
    else:
        said(lambda: client.post("/x"))
    assert len(opened.asked) == times


def test_a_lost_order_is_not_repeated() -> None:
    opened = Opened(ConnectionResetError("gone"), (200, {}))
    with pytest.raises(rest.Lost):
        opened.client().post("/x")
    assert len(opened.asked) == 1


def test_the_server_says_how_long() -> None:
    opened = Opened((429, "", {"Retry-After": "17"}), (200, {}))
    opened.client().get("/x")
    assert opened.waited == [17.0]


def test_pauses_grow_with_jitter_and_have_an_end() -> None:
    opened = Opened(*[(503, "")] * 99)
    text = said(lambda: opened.client(jitter=lambda: 1.0, patience_seconds=60).get("/x"))
    assert opened.waited == [1.0, 2.5, 6.25, 15.625, 30.0]
    assert "(60 s)" in text


def test_an_error_names_azures_code_and_request() -> None:
    body = {"error": {"code": "SkuNotAvailable", "message": "No capacity in eastus."}}
    text = said(lambda: Opened((409, body, {"x-ms-request-id": "ab-12"})).client().get("/vm"))
    assert [word in text for word in ("SkuNotAvailable", "No capacity", "ab-12", "409")] == [
        True
    ] * 4


def test_secrets_stay_out_of_messages() -> None:
    opened = Opened((400, "token s3cret is wrong"))
    text = said(lambda: opened.client(secrets=["s3cret"]).get("/x"))
    assert ("s3cret" in text, "********" in text) == (False, True)


@pytest.mark.parametrize("key", ["nextLink", "NextPageLink"])
@pytest.mark.parametrize("origin", [URL, f"{URL}:443"])
def test_a_list_goes_on(key: str, origin: str) -> None:
    opened = Opened((200, {"v": 1, key: f"{origin}/x?$skip=1000"}), (200, {"v": 2, key: None}))
    documents, _ = opened.client().pages("/x")
    assert [one["v"] for one in documents] == [1, 2]


@pytest.mark.parametrize(
    "link", ["http://prices.example/x", "https://evil.example/x", "https://prices.example:99999/x"]
)
def test_a_list_does_not_go_on_elsewhere(link: str) -> None:
    opened = Opened((200, {"nextLink": link}), (200, {}))
    said(lambda: opened.client().pages("/x"))
    assert len(opened.asked) == 1


@pytest.mark.parametrize("text", ["", "<html>proxy</html>", "[1]", '{"a": '])
def test_what_is_no_document_is_refused(text: str) -> None:
    assert "JSON object" in said(lambda: Opened((200, text)).client().get("/x"))


def test_a_redirection_is_not_followed() -> None:
    opened = Opened((302, "", {"Location": "https://other.example/secret?token=1"}), (200, {}))
    text = said(lambda: opened.client().get("/x"))
    assert ("https://other.example" in text, "token" in text, len(opened.asked)) == (True, False, 1)


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://example/x"])
def test_only_http_is_opened(url: str) -> None:
    given: dict[str, Any] = {"headers": {}, "method": "GET", "http_agent": "t", "use_proxy": False}
    with pytest.raises(BadInput):
        rest.open_plainly(url, timeout=1, **given)


def test_causes_are_followed_ten_deep() -> None:
    error: dict[str, Any] = {"code": "Level13", "message": "x"}
    for level in range(12, -1, -1):
        error = {"code": f"Level{level}", "message": "x", "details": [error]}
    text = said(lambda: Opened((400, {"error": error})).client().get("/x"))
    assert text.endswith("the cause is Level10: x")


class Clock:
    """A clock that goes by sleeping, and by ``seconds`` a look."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.now, self.seconds = 0.0, seconds

    def __call__(self) -> float:
        self.now += self.seconds
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def test_all_calls_together_end_at_the_deadline() -> None:
    clock, opened = Clock(), Opened((503, ""), (200, {}), (503, ""), (200, {}))
    client = opened.client(deadline_seconds=1.5, sleep=clock.sleep, clock=clock)
    assert client.get("/one") == {}
    text = said(lambda: client.get("/two"))
    assert "1 s more would exceed the limit of all calls (1.5 s)" in text
    assert len(opened.asked) == 3


def test_a_call_has_no_more_time_than_is_left() -> None:
    given: list[float] = []
    opened = Opened((200, {}))

    def open_url(url: str, **more: Any) -> Reply:
        given.append(more["timeout"])
        return opened(url, **more)

    rest.Client(URL, open_url, connection={}, deadline_seconds=7, clock=Clock()).get("/x")
    assert given == [7]


RUNNING, DONE = (200, {"status": "Running"}), (200, {"status": "Succeeded"})


def order(method: str, status: int = 202, body: Any = None, **headers: str) -> rest.Response:
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    text = "" if body is None else json.dumps(body)
    return rest.Response(status, named, text.encode(), method, f"{URL}/it")


def test_an_operation_is_asked_until_it_ends_and_a_put_gives_its_resource() -> None:
    opened, told = Opened(RUNNING, DONE, (200, {"name": "it"})), []
    answer = order("PUT", 201, {"name": "old"}, azure_asyncoperation=f"{URL}/op", retry_after="7")
    assert opened.client().finished(answer, "it", tell=told.append) == {"name": "it"}
    assert [url for _, url in opened.asked] == [f"{URL}/op", f"{URL}/op", f"{URL}/it"]
    assert opened.waited == [7.0, 2.0]
    assert [text.split(" after")[0] for text in told] == ["it: Accepted", "it: Running"]


def test_an_operation_that_is_not_found_is_no_success_of_a_put() -> None:
    opened = Opened((404, {"error": {"code": "Gone"}}))
    with pytest.raises(rest.Refused) as raised:
        opened.client().finished(order("PUT", location="/op"), "it")
    assert raised.value.code == "Gone"


@pytest.mark.parametrize(("state", "word"), [("Failed", "failed"), ("Canceled", "was cancelled")])
def test_a_failed_operation_names_its_innermost_code_and_request(state: str, word: str) -> None:
    packed = json.dumps({"error": {"code": "SkuNotAvailable", "message": "No HB here."}})
    error = {
        "code": "DeploymentFailed",
        "message": "At least one failed.",
        "details": [{"code": "Conflict", "message": packed}],
    }
    answer = (200, {"status": state, "error": error}, {"x-ms-request-id": "ab-12"})
    with pytest.raises(rest.Failed) as raised:
        Opened(answer).client().finished(order("PUT", azure_asyncoperation="/op"), "the thing")
    assert raised.value.code == "SkuNotAvailable"
    text = str(raised.value)
    assert text.startswith(f"the thing {word}: DeploymentFailed: At least one failed.")
    assert "SkuNotAvailable: No HB here." in text
    assert text.endswith("(request ab-12)")


@pytest.mark.parametrize("header", ["azure-asyncoperation", "location"])
@pytest.mark.parametrize("link", ["https://evil.example/op", "http://prices.example/op"])
def test_an_operation_is_not_asked_elsewhere(header: str, link: str) -> None:
    opened = Opened(DONE)
    answer = rest.Response(202, {header: link}, b"", "PUT", f"{URL}/it")
    assert "is not asked" in said(lambda: opened.client().finished(answer, "it"))
    assert opened.asked == []


def test_an_operation_without_a_place_to_ask_is_named() -> None:
    assert "says nowhere" in said(lambda: Opened().client().finished(order("PUT"), "it"))


def test_an_operation_that_never_ends_ends_at_the_deadline() -> None:
    clock, opened = Clock(), Opened(*[RUNNING] * 99)
    client = opened.client(deadline_seconds=60, sleep=clock.sleep, clock=clock)
    with pytest.raises(rest.Lost) as raised:
        client.finished(order("PUT", azure_asyncoperation="/op"), "it")
    assert "it is not finished (Running)" in str(raised.value)
    assert clock.now < 60


@pytest.mark.parametrize(
    ("stalled", "lost"), [(60.0, "was not asked GET /op"), (0.0, "gave no answer to GET /op")]
)
def test_an_operation_whose_end_nobody_saw_is_said_to_go_on(stalled: float, lost: str) -> None:
    clock, opened = Clock(), Opened(RUNNING, *[ConnectionError("x")] * 99)

    def sleep(seconds: float) -> None:
        clock.now += seconds + stalled

    client = opened.client(deadline_seconds=60, sleep=sleep, clock=clock)
    with pytest.raises(rest.Lost) as raised:
        client.finished(order("PUT", azure_asyncoperation="/op"), "it")
    state = "Accepted" if stalled else "Running"
    assert str(raised.value).startswith(f"it is not finished ({state}, by the last answer): {URL} ")
    assert lost in str(raised.value)
    assert str(raised.value).endswith("goes on with it")


def test_a_poll_is_patient_and_a_cut_answer_is_asked_again() -> None:
    opened = Opened((503, ""), (200, '{"status": "Ru'), (200, "{}"), ConnectionError("x"), DONE)
    answer = order("POST", azure_asyncoperation="/op")
    assert opened.client().finished(answer, "it") == {"status": "Succeeded"}


def test_an_operation_that_cannot_be_read_is_given_up() -> None:
    opened = Opened(*[(200, "{")] * 9)
    text = said(lambda: opened.client().finished(order("PUT", azure_asyncoperation="/op"), "it"))
    assert ("not a JSON object" in text, len(opened.asked)) == (True, 3)
