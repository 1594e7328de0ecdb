"""The metadata service, as a real server on the loopback answers."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import pytest
from metadata_server import document, send, serving
from trueup_node.errors import BadInput
from trueup_node.node import metadata as service
from trueup_node.node.metadata import Metadata, ask

if TYPE_CHECKING:
    from metadata_server import Behaviour


def asked(behave: Behaviour) -> Metadata:
    with serving(behave) as (url, _):
        return ask(url)


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
