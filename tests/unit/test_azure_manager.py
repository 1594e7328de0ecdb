"""Azure Resource Manager: a token that expires, and the role that a refused call needs."""

from __future__ import annotations

import pytest
from helpers import parametrized
from test_rest import Opened, said
from trueup_controller.azure.login import Login
from trueup_controller.azure.manager import Manager

EXPIRED = (401, {"error": {"code": "ExpiredAuthenticationToken", "message": "Expired."}})


def login(token: str) -> Login:
    return Login("https://arm.example", token, ("s",))


def manager(opened: Opened, *tokens: str) -> Manager:
    more = [login(token) for token in tokens]
    return Manager(login("one"), opened, renew=lambda: more.pop(0), sleep=opened.waited.append)


def test_an_expired_token_is_replaced_and_the_order_given_again() -> None:
    sent: list[str] = []
    opened = Opened(EXPIRED, (201, {"name": "it"}))

    def open_url(url: str, **given: object) -> object:
        sent.append(given["headers"]["Authorization"])  # type: ignore[index]
        return opened(url, **given)

    client = Manager(login("one"), open_url, renew=lambda: login("two"))
    assert client.request("PUT", "/it", body={}).status == 201
    assert sent == ["Bearer one", "Bearer two"]
    assert client.hide("one two") == "******** ********"


@pytest.mark.parametrize("tokens", [["two"], ["one"]])
def test_a_token_is_replaced_once(tokens: list[str]) -> None:
    opened = Opened(EXPIRED, EXPIRED)
    text = said(lambda: manager(opened, *tokens).get("/it"))
    assert "ExpiredAuthenticationToken" in text
    assert "az login" in text
    assert len(opened.asked) == len(set(tokens) - {"one"}) + 1


def test_a_token_is_not_replaced_unasked() -> None:
    opened = Opened(EXPIRED)
    assert "az login" in said(lambda: Manager(login("one"), opened).get("/it"))


@parametrized(("method", "path", "role"))
def test_a_refused_call_names_the_role_it_needs(method: str, path: str, role: str) -> None:
    opened = Opened((403, {"error": {"code": "AuthorizationFailed", "message": "No."}}))
    text = said(lambda: manager(opened).request(method, path))
    assert role in text
    assert "AuthorizationFailed" in text
