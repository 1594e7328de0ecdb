"""Files from the network: what is downloaded, and why a file could not be, as sentences."""

from __future__ import annotations

import hashlib
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import download
import hostile_http
import pytest
from helpers import answer_of, parametrized
from trueup_controller.download_failures import sentence_of

URL = "https://mirror.example/hpcx.tbz"


@parametrized(("message", "part"))
def test_each_failure_names_the_address_and_the_mend(message: str, part: str) -> None:
    said = sentence_of({"msg": message}, URL, "/var/cache/x/hpcx.tbz", "hpcx_base_url")
    assert URL in said
    assert part in said
    mend = "free some there" if "Errno 28" in message else "set hpcx_base_url"
    assert mend in said


def test_a_status_stands_in_the_answer() -> None:
    answer = {"msg": "Request failed", "response": "HTTP Error 404: Not Found", "status_code": 404}
    said = sentence_of(answer, URL, "/x/y", "hpcx_base_url")
    assert f"{URL} could not be downloaded (404: Not Found): check" in said


CONTENT = b"a driver\n" * 1000
SUM = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture(name="served")
def _served() -> Iterator[tuple[str, list[str]]]:
    """A server that has one file: its URL, and the paths that were asked for."""
    asked: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200 if self.path == "/driver" else 404)
            self.send_header("Content-Length", str(len(CONTENT)))
            self.end_headers()
            self.wfile.write(CONTENT)

        def log_message(self, *_: Any) -> None:
            """Keep the tests' output clean."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/driver", asked
    server.shutdown()
    server.server_close()


def test_a_file_is_downloaded_once(served: Any, tmp_path: Path, capsys: Any) -> None:
    url, asked = served
    given = {"url": url, "dest": str(tmp_path / "x"), "checksum": f"sha256:{SUM}", "mode": "0600"}
    before = answer_of(download, capsys, **given, _ansible_check_mode=True)
    assert (before["changed"], list(tmp_path.iterdir()), asked) == (True, [], [])
    first, second = (answer_of(download, capsys, **given) for _ in range(2))
    assert (first["changed"], second["changed"], asked) == (True, False, ["/driver"])
    assert (first["checksum"], (tmp_path / "x").read_bytes()) == (SUM, CONTENT)
    assert (tmp_path / "x").stat().st_mode & 0o777 == 0o600
    (tmp_path / "x").write_text("altered")
    assert answer_of(download, capsys, **given)["changed"] is True
    assert (tmp_path / "x").read_bytes() == CONTENT


def test_a_file_of_another_sum_is_not_used(served: Any, tmp_path: Path, capsys: Any) -> None:
    dest = tmp_path / "x"
    dest.write_text("before")
    wrong = f"sha256:{'0' * 64}"
    answer = answer_of(download, capsys, url=served[0], dest=str(dest), checksum=wrong)
    assert answer["msg"] == f"The checksum for {dest} did not match {'0' * 64}; it was {SUM}."
    assert dest.read_text() == "before"


def test_without_a_sum_a_file_that_is_there_is_kept_unless_forced(
    served: Any, tmp_path: Path, capsys: Any
) -> None:
    dest = tmp_path / "x"
    dest.write_text("before")
    given = {"url": served[0], "dest": str(dest)}
    assert answer_of(download, capsys, **given)["changed"] is False
    assert (answer_of(download, capsys, **given, force=True)["changed"], dest.read_bytes()) == (
        True,
        CONTENT,
    )
    assert answer_of(download, capsys, **given, force=True)["changed"] is False


@pytest.mark.parametrize("checksum", ["md5:ab", "sha256:12", "ab" * 32])
def test_a_sum_that_is_none_is_refused(checksum: str, tmp_path: Path, capsys: Any) -> None:
    given = {"url": "http://127.0.0.1:9/", "dest": str(tmp_path / "x"), "checksum": checksum}
    assert "64 hexadecimal digits" in answer_of(download, capsys, **given)["msg"]


@pytest.mark.parametrize(
    ("behave", "reason"),
    [
        *((behave, "no whole answer within 1 s") for behave in hostile_http.SLOW),
        *((behave, "more than 1 MiB") for behave in hostile_http.ENDLESS),
        (hostile_http.sends(b"ab", length=4000), "cut short (2 of 4000 bytes)"),
    ],
)
def test_a_hostile_server_holds_no_download(
    behave: Any, reason: str, tmp_path: Path, capsys: Any
) -> None:
    dest, seconds = tmp_path / "x", 1 if "within" in reason else 60
    with hostile_http.serving(behave) as url:
        answer = answer_of(
            download, capsys, url=url, dest=str(dest), deadline_seconds=seconds, most_mib=1
        )
    assert (answer["msg"], list(tmp_path.iterdir())) == (reason, [])
    said = sentence_of(answer, url, str(dest), "hpcx_base_url")
    assert f"{url} could not be downloaded ({reason})" in said
