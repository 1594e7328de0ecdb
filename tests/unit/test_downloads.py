"""Why a file could not be downloaded: get_url's own messages as sentences with the mend."""

from __future__ import annotations

import pytest
from trueup.node.downloads import sentence_of

URL = "https://mirror.example/hpcx.tbz"


@pytest.mark.parametrize(
    ("message", "part"),
    [
        (
            "Request failed: <urlopen error [Errno 111] Connection refused>",
            "could not be downloaded ([Errno 111] Connection refused): check the way there",
        ),
        ("Request failed: <urlopen error timed out>", "could not be downloaded (timed out)"),
        ("Request failed: HTTP Error 404: Not Found", "could not be downloaded (404: Not Found)"),
        ("Connection failure: The read operation timed out", "(Connection failure: The read"),
        ("something\nnew", "could not be downloaded (something new)"),
        (
            "The checksum for /x/hpcx.tbz did not match ab12; it was cd34.",
            "another sha256: expected ab12, found cd34. It was cut short on its way or altered",
        ),
        ("failed to create temporary content file: [Errno 28] No space left", "on the file system"),
    ],
)
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
