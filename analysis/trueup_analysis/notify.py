"""A message to people: by a webhook (Slack, Teams, any), the site's mailer or its program."""

from __future__ import annotations

import json
import os
import subprocess
import urllib.request
from typing import TYPE_CHECKING, Any, Final

from trueup_node import bounded_http
from trueup_node.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SLACK, TEAMS, JSON = "slack", "teams", "json"
_SECONDS: Final = 30.0
_MOST_BYTES: Final = 1 << 20
_SENDMAIL: Final = ("sendmail", "-t", "-i")
# Answers that say that a message was taken.
_TAKEN: Final = range(200, 300)


def body(kind: str, lines: Sequence[str], facts: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON of a webhook.

    Source: for Slack https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks; for
    Teams a card of https://adaptivecards.io, as its workflows take it.
    """
    text = "\n".join(lines)
    if kind == SLACK:
        # Slack obeys these three characters.
        escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        return {"text": escaped}
    if kind == TEAMS:
        blocks = [{"type": "TextBlock", "text": line, "wrap": True} for line in lines]
        card = {"type": "AdaptiveCard", "version": "1.4", "body": blocks}
        content = {"contentType": "application/vnd.microsoft.card.adaptive", "content": card}
        return {"type": "message", "attachments": [content]}
    return {"text": text, "lines": list(lines), **facts}


def post(url: str, data: Mapping[str, Any]) -> None:
    """Send JSON to a webhook. The address is a secret: no message holds it.

    Raises:
        BadInput: it cannot be reached, or refuses.
    """
    if not url.startswith(("https://", "http://")):
        raise BadInput("the webhook's address must begin with https://")
    request = urllib.request.Request(  # noqa: S310 WHY: the scheme is checked above
        url,
        data=json.dumps(data).encode(),
        headers={"Content-Type": "application/json"},
        method="POST",
    )
    opener = urllib.request.build_opener(bounded_http.NoRedirect)
    try:
        reply = bounded_http.ask(
            lambda: opener.open(request, timeout=_SECONDS), _SECONDS, _MOST_BYTES
        )
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise BadInput(f"the webhook cannot be reached: {reason}") from None
    if reply.status not in _TAKEN:
        raise BadInput(f"the webhook refused the message: HTTP {reply.status} {reply.reason}")


def mail(address: str, lines: Sequence[str]) -> None:
    """Send a mail by the site's ``sendmail``.

    Raises:
        BadInput: there is none, or it fails.
    """
    if any(character in address for character in "\r\n"):
        raise BadInput("the mail's address holds a line break")
    head = f"To: {address}\nSubject: {lines[0]}\nContent-Type: text/plain; charset=utf-8\n\n"
    run(_SENDMAIL, head + "\n".join(lines) + "\n", {})


def run(argv: Sequence[str], text: str, variables: Mapping[str, str]) -> None:
    """Run a program with the message on its standard input.

    Raises:
        BadInput: it cannot be run, or fails.
    """
    try:
        completed = subprocess.run(  # noqa: S603 WHY: the site's own program, no shell
            argv,
            input=text,
            text=True,
            capture_output=True,
            check=False,
            timeout=_SECONDS,
            env={**os.environ, **variables},
        )
    except OSError as error:
        raise BadInput(f"{argv[0]} cannot be run: {error.strerror}") from error
    except subprocess.TimeoutExpired as error:
        raise BadInput(f"{argv[0]} did not end within {_SECONDS:g} s") from error
    if completed.returncode:
        last = (completed.stderr.strip().splitlines() or ["no message"])[-1]
        raise BadInput(f"{argv[0]} ended with status {completed.returncode}: {last}")
