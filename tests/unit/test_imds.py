"""The metadata service, as a real server on the loopback answers."""

from __future__ import annotations

import contextlib
import dataclasses
import socket
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from metadata_server import document, send, serving
from trueup.errors import BadInput
from trueup.node import metadata as service
from trueup.node.metadata import Metadata, ask

if TYPE_CHECKING:
    from http.server import BaseHTTPRequestHandler

    from metadata_server import Behaviour


def asked(behave: Behaviour) -> Metadata:
    with serving(behave) as (url, _):
        return ask(url)


def test_a_good_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9/")
    with serving(send(document())) as (url, requests):
        metadata = ask(url)
    assert metadata == Metadata(
        status="ok",
        vm_size="Standard_HB120rs_v3",
        region="southcentralus",
        zone="1",
        offer="spot",
        image="microsoft-dsvm:ubuntu-hpc:2404:24.04.2026050801",
        vm_id="11111111-2222-3333-4444-555555555555",
    )
    path, headers = requests[0]
    assert path == "/metadata/instance?api-version=1"
    assert headers["Metadata"] == "true"
    assert "X-Forwarded-For" not in headers
    assert len(requests) == 1


@pytest.mark.parametrize(
    ("priority", "offer"),
    [("Regular", "payg"), ("", "payg"), ("Spot", "spot"), ("Low", None), (None, None), (7, None)],
)
def test_priority_is_the_offer(priority: Any, offer: str | None) -> None:
    assert asked(send(document(priority=priority))).offer == offer


def test_what_is_missing_is_none() -> None:
    metadata = asked(send(b'{"compute": {"vmSize": "Standard_HC44rs"}}'))
    assert metadata == Metadata(status="ok", vm_size="Standard_HC44rs")


@pytest.mark.parametrize(
    ("behave", "detail"),
    [
        (send(b"<html>Sign in</html>"), "not JSON ('<html>Sign in</html>')"),
        (send(b"\xff\x00\x1b[31mred"), "is not UTF-8"),
        (send(b""), "not JSON"),
        (send(b"[" * 100_000), "nested too deeply"),
        (send(b"[" * 100_000 + b"]" * 100_000), "nested too deeply"),
        (send(b'{"compute": {"vmSize": NaN}}'), "has the value NaN"),
        (send(b'{"compute": ' + b"9" * 5000 + b"}"), "a number of 5,000 digits"),
        (send(b"[1, 2]"), "JSON that is no object"),
        (send(b'{"compute": "yes"}'), "without a 'compute' object"),
        (send(document(vmSize="")), "a vmSize that is no size ('')"),
        (send(document(vmSize=None)), "a vmSize that is no size"),
        (send(document(vmSize="rm -rf /; echo")), "a vmSize that is no size"),
        (send(b"gone", 404), "status 404"),
        (send(b"wait", 429), "status 429: asked more often"),
        (send(b"oops", 500), "status 500"),
        (
            send(b"", 302, {"Location": "http://169.254.1.1/elsewhere"}),
            "a redirect (status 302 to 'http://169.254.1.1/elsewhere')",
        ),
        (send(b" " * 300_000), "more than 256 KiB"),
        (send(document()[:40], headers={"Content-Length": "4000"}), "cut short (40 of 4000 bytes)"),
    ],
)
def test_an_unusable_answer_is_named(behave: Behaviour, detail: str) -> None:
    metadata = asked(behave)
    assert (metadata.status, metadata.vm_size) == ("unusable", None)
    assert detail in metadata.detail


def test_a_redirect_is_not_followed() -> None:
    with (
        serving(send(document())) as (target, reached),
        serving(send(b"", 307, {"Location": target})) as (url, _),
    ):
        metadata = ask(url)
    assert metadata.status == "unusable"
    assert reached == []


def trickle_headers(handler: BaseHTTPRequestHandler) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
    for number in range(1200):
        handler.wfile.write(f"X-{number}: 1\r\n".encode())
        time.sleep(0.05)


def trickle_body(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", "2000")
    handler.end_headers()
    for _ in range(1200):
        handler.wfile.write(b" ")
        time.sleep(0.05)


def say_nothing(_: BaseHTTPRequestHandler) -> None:
    time.sleep(60)


@pytest.mark.parametrize("behave", [trickle_headers, trickle_body, say_nothing])
def test_a_slow_answer_is_given_up(behave: Behaviour) -> None:
    with serving(behave) as (url, _):
        started = time.monotonic()
        metadata = ask(url, connect_seconds=60, answer_seconds=0.3)
        took = time.monotonic() - started
    assert metadata == Metadata("unusable", "no whole answer within 0.3 s")
    # The servers above take a minute.
    assert took < 50


def raw_server(answer: bytes) -> tuple[str, socket.socket]:
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with contextlib.suppress(OSError):
            connection, _ = listener.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(answer)

    threading.Thread(target=serve, daemon=True).start()
    return f"http://127.0.0.1:{listener.getsockname()[1]}/", listener


@pytest.mark.parametrize("answer", [b"SSH-2.0-OpenSSH_9.2\r\n", b"", b"HTTP/1.1 banana\r\n\r\n"])
def test_another_protocol_is_named(answer: bytes) -> None:
    url, listener = raw_server(answer)
    with listener:
        metadata = ask(url)
    assert metadata.status == "unusable"
    assert "broke off or is not HTTP" in metadata.detail


def test_nothing_there_is_absent() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    assert ask(f"http://127.0.0.1:{port}/").status == "absent"


def test_an_address_that_swallows_packets_is_absent() -> None:
    # A listener whose queue is full accepts no further connection, as a dropping firewall would.
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        port = listener.getsockname()[1]
        waiting = [socket.socket() for _ in range(4)]
        for client in waiting:
            client.setblocking(False)
            client.connect_ex(("127.0.0.1", port))
        metadata = ask(f"http://127.0.0.1:{port}/", connect_seconds=0.3, answer_seconds=60)
        for client in waiting:
            client.close()
    assert metadata.status == "absent"


@pytest.mark.parametrize(
    "url", ["", "https://127.0.0.1/", "file:///etc/passwd", "http://", "http://a:b/", "http://a/\n"]
)
def test_a_url_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(BadInput) as refused:
        ask(url)
    assert repr(url) in str(refused.value)


HOSTILE: list[Any] = [
    "{{ lookup('pipe', 'id') }}",
    "$(touch /tmp/x); `id` & |",
    "a\nb",
    "a\n",
    "\x1b[31mred",
    "\u202eevil",
    "a\x00b",
    "../../etc/passwd",
    "..",
    "--flag",
    "x" * 100_000,
    17,
    True,
    ["a"],
    {"a": {"b": "c"}},
]


@pytest.mark.parametrize("value", HOSTILE, ids=lambda value: repr(value)[:20])
@pytest.mark.parametrize("key", ["vmSize", *service._WORDS])
def test_no_field_lets_anything_but_a_word_in(key: str, value: Any) -> None:
    """It is named, in a form that a terminal may show, and no field holds it."""
    said = service.of_body(document(**{key: value}).decode())
    assert said.status == ("unusable" if key == "vmSize" else "ok")
    shown = said.detail
    assert (key in shown, shown.isprintable(), len(shown) < 200) == (True, True, True)
    rest = dataclasses.replace(said, detail="", status="")
    assert repr(value) not in repr(rest)
    good = service.of_body(document().decode())
    fields = {"location": "region", "zone": "zone", "licenseType": "licence_type"}
    if key in fields:
        assert getattr(said, fields[key]) is None
        assert good.region == "southcentralus"
