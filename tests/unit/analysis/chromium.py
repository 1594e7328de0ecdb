"""Headless Chromium, driven by the DevTools protocol over a pipe."""

from __future__ import annotations

import base64
import contextlib
import io
import json
import os
import select
import shutil
import signal
import time
from typing import TYPE_CHECKING, Any

import pytest
from PIL import Image
from PIL.PngImagePlugin import PngInfo

if TYPE_CHECKING:
    from pathlib import Path

MISSING = (
    "the report is checked in Chromium, which is not installed: `apt-get install chromium`"
    " (`make test` installs it through playbooks/lab.yml)"
)
_FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--enable-logging=stderr",
    "--v=0",
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--remote-debugging-pipe",
)
_PATIENCE_SECONDS = 300.0
PHONE = (375, 812)
# Pixels around the element of a picture.
_MARGIN = 24


def program() -> str:
    """The installed Chromium; its lack fails a test."""
    name = shutil.which("chromium") or shutil.which("chromium-browser")
    if name is None:
        pytest.fail(MISSING)
    return name


class Browser:
    """One Chromium with one tab.

    Messages are JSON ended by NUL; it reads them from its descriptor 3 and answers on its 4.
    """

    def __init__(self, program: str, profile: Path) -> None:
        commands_out, self._commands = os.pipe()
        self._answers, answers_in = os.pipe()
        log = os.open(profile / "stderr.txt", os.O_WRONLY | os.O_CREAT, 0o600)
        self.log = profile / "stderr.txt"
        self._pid = os.posix_spawn(
            program,
            [program, *_FLAGS, f"--user-data-dir={profile / 'profile'}", "about:blank"],
            os.environ,
            file_actions=[
                (os.POSIX_SPAWN_DUP2, commands_out, 3),
                (os.POSIX_SPAWN_DUP2, answers_in, 4),
                (os.POSIX_SPAWN_DUP2, log, 2),
            ],
            setpgroup=0,
        )
        for descriptor in (commands_out, answers_in, log):
            os.close(descriptor)
        self._buffer = b""
        self._number = 0
        self._session: str | None = None
        self.events: list[dict[str, Any]] = []
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        attached = self.send("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def close(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        os.close(self._commands)
        os.close(self._answers)

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command, wait for its answer; events that come first are kept."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") != self._number:
                self.events.append(answer)
            elif "error" in answer:
                pytest.fail(
                    f"{method}: {answer['error']}; Chromium said: {self.log.read_text()[-2000:]}"
                )
            else:
                return dict(answer["result"])

    def wait_for(self, event: str) -> None:
        while event not in [one.get("method") for one in self.events]:
            self.events.append(self._next())

    def _next(self) -> dict[str, Any]:
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while b"\0" not in self._buffer:
            ready, _, _ = select.select(
                [self._answers], [], [], max(deadline - time.monotonic(), 0)
            )
            data = os.read(self._answers, 1 << 20) if ready else b""
            if not data:
                pytest.fail(f"Chromium does not answer; it said: {self.log.read_text()[-2000:]}")
            self._buffer += data
        message, _, self._buffer = self._buffer.partition(b"\0")
        return dict(json.loads(message))

    def open(self, page: Path, size: tuple[int, int], theme: str) -> None:
        """Load a page from disk as a screen of that size and theme shows it."""
        self.show(size, theme)
        self.events.clear()
        self.send("Page.navigate", url=page.as_uri())
        self.wait_for("Page.loadEventFired")

    def show(self, size: tuple[int, int], theme: str) -> None:
        """Let the page be on a screen of that size and theme. Its script does not look
        at the screen, so that it is as if it had been opened there."""
        width, height = size
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=size == PHONE,
        )
        scheme = {"name": "prefers-color-scheme", "value": theme}
        self.send("Emulation.setEmulatedMedia", media="screen", features=[scheme])

    def value(self, expression: str) -> Any:
        answer = self.send("Runtime.evaluate", expression=expression, returnByValue=True)
        assert answer.get("exceptionDetails") is None
        return answer["result"]["value"]

    def promised(self, expression: str) -> Any:
        answer = self.send(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert answer.get("exceptionDetails") is None
        return answer["result"]["value"]

    def picture(self, path: Path, selector: str, most: int, text: dict[str, str]) -> None:
        """Write the page from an element's top, over its width, as PNG.

        Args:
            most: the greatest height in pixels.
            text: entries of the file beside the pixels.
        """
        box = f"document.querySelector('{selector}').getBoundingClientRect()"
        x, y, wide, high = self.value(f"(b => [b.x, b.y + scrollY, b.width, b.height])({box})")
        left, top = max(x - _MARGIN, 0), max(y - _MARGIN, 0)
        clip = {"x": left, "y": top, "scale": 1}
        clip |= {"width": wide + 2 * (x - left), "height": min(high + 2 * (y - top), most)}
        data = self.send("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)["data"]
        entries = PngInfo()
        for name, value in text.items():
            entries.add_text(name, value)
        picture = Image.open(io.BytesIO(base64.b64decode(data))).convert("RGB")
        # The page has few colours: a palette takes a third of the bytes.
        picture.quantize(128).save(path, "png", optimize=True, pnginfo=entries)

    def complaints(self) -> list[str]:
        """What the console would show: exceptions, and entries of the log and of console.*."""
        shown = ("Log.entryAdded", "Runtime.exceptionThrown", "Runtime.consoleAPICalled")
        return [json.dumps(one) for one in self.events if one.get("method") in shown]

    def requests(self) -> list[str]:
        return [
            one["params"]["request"]["url"]
            for one in self.events
            if one.get("method") == "Network.requestWillBeSent"
            # What stands in the page itself.
            and not one["params"]["request"]["url"].startswith("data:")
        ]
