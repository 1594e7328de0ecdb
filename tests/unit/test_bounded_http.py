"""One deadline and a limit of bytes for each HTTP request, against servers that respect neither."""

from __future__ import annotations

import resource
import time
from typing import TYPE_CHECKING, Any

import hostile_http
import pytest
from action.desktops import windows_gpu_driver
from ansible.module_utils.urls import open_url
from hostile_http import serving
from trueup_controller.azure import login
from trueup_node import rest
from trueup_node.benchmarks.vllm import case, server
from trueup_node.errors import BadInput, TrueupError
from trueup_node.node import metadata
from trueup_node.vm import expiry, node_pull

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

# The deadline of these tests, and the time after which a client was plainly not ended by it: a
# server holds its client for 60 s.
DEADLINE, NOT_BY_THE_DEADLINE = 1.0, 30.0
# The deadline of the answer, or that of the socket, which are equal here.
LATE = r"no whole answer within 1 s|timed out"


class Client(rest.Client):
    def __init__(self, url: str, opener: rest.OpenUrl) -> None:
        super().__init__(url, opener, connection={"timeout": DEADLINE}, deadline_seconds=DEADLINE)


def rest_ansible(url: str) -> str:
    return refusal_of(lambda: Client(url, open_url).get("/x"))


def rest_plain(url: str) -> str:
    return refusal_of(lambda: Client(url, rest.open_plainly).get("/x"))


def metadata_service(url: str) -> str:
    found = metadata.document(f"{url}/metadata", connect_seconds=20, answer_seconds=DEADLINE)
    assert found.status == "unusable"
    return found.detail


def vllm_service(url: str) -> str:
    status, text = server.Api(url).get("/health", seconds=DEADLINE)
    return text if status == 0 else f"status {status}"


def vllm_endpoint(url: str) -> str:
    return refusal_of(lambda: case.Endpoint(url, "").require("model"))


def refusal_of(call: Callable[[], Any]) -> str:
    with pytest.raises(TrueupError) as refused:
        call()
    return str(refused.value)


CLIENTS = [rest_ansible, rest_plain, metadata_service, vllm_service, vllm_endpoint]


@pytest.fixture(autouse=True)
def _deadlines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(case, "_ANSWER_SECONDS", DEADLINE)


@pytest.mark.parametrize("behave", hostile_http.SLOW)
@pytest.mark.parametrize("client", CLIENTS)
def test_a_slow_server_holds_no_client_beyond_its_deadline(client: Any, behave: Any) -> None:
    with serving(behave) as url:
        began = time.monotonic()
        sentence = client(url)
        took = time.monotonic() - began
    # A silent socket may end in the same moment by its own limit of a second.
    in_time = "within 1 s" in sentence or "timed out" in sentence
    assert (took < NOT_BY_THE_DEADLINE, in_time) == (True, True), sentence


@pytest.mark.parametrize("behave", hostile_http.ENDLESS)
@pytest.mark.parametrize("client", CLIENTS)
def test_an_endless_body_is_read_to_a_limit_that_is_named(
    monkeypatch: pytest.MonkeyPatch, client: Any, behave: Any
) -> None:
    # Only the limit is to end it.
    for module, name in ((case, "_ANSWER_SECONDS"), (__import__(__name__), "DEADLINE")):
        monkeypatch.setattr(module, name, 60.0)
    with serving(behave) as url:
        sentence = client(url)
    limit = "256 KiB" if client is metadata_service else "32 MiB"
    assert f"more than {limit}" in sentence


def test_compressed_bodies_are_limited_by_their_real_size() -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with serving(hostile_http.compressed_without_end) as url:
        client = Client(url, open_url)
        client.within(60)
        client._connection["timeout"] = 60
        assert "more than 32 MiB" in refusal_of(lambda: client.get("/x"))
    grown_mib = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    assert grown_mib < 256


@pytest.mark.parametrize("client", [rest_ansible, rest_plain, metadata_service])
def test_a_body_shorter_than_announced_is_cut(client: Any) -> None:
    with serving(hostile_http.sends(b"{}", length=4000)) as url:
        assert "cut short (2 of 4000 bytes)" in client(url)


# ---- downloads ----------------------------------------------------------------------------------


def test_a_download_is_written_to_its_limit_and_not_used(tmp_path: Path) -> None:
    file = tmp_path / "driver.exe"
    with serving(hostile_http.body_without_end) as url, pytest.raises(BadInput, match="1 MiB"):
        windows_gpu_driver._download(f"{url}/driver.exe", file, 60, 2**20)
    assert list(tmp_path.iterdir()) == []


def test_a_release_larger_than_its_limit_is_not_asked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_pull, "MOST_BYTES", 2**20)
    machine = node_pull.Machine(pull_config(tmp_path, "http://127.0.0.1:9"))
    with (
        serving(hostile_http.body_without_end) as url,
        pytest.raises(node_pull.Trouble, match="has more than 1 MiB"),
    ):
        machine.fetch(f"{url}/release", "ab" * 32, str(tmp_path / "release"), {})
    machine.log.close()


def pull_config(folder: Path, metadata_url: str) -> dict[str, Any]:
    return {
        "folder": str(folder),
        "run": "20261123T100000Z-7c1e",
        "metadata": metadata_url,
        "records": "",
        "identity": "",
        "release": "",
        "sha256": "",
        "variables": {},
        "builds": {},
    }


@pytest.mark.parametrize("behave", [*hostile_http.SLOW, *hostile_http.ENDLESS])
def test_a_node_that_configures_itself_takes_its_own_name_where_metadata_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, behave: Any
) -> None:
    monkeypatch.setattr(node_pull, "CALL_SECONDS", DEADLINE)
    monkeypatch.setattr(node_pull.platform, "node", lambda: "host-7")
    began = time.monotonic()
    with serving(behave) as url:
        machine = node_pull.Machine(pull_config(tmp_path, url))
        assert machine.own_name() == "host-7"
    machine.log.close()
    assert time.monotonic() - began < NOT_BY_THE_DEADLINE


@pytest.mark.parametrize(
    ("behave", "reason"),
    [
        *((behave, LATE) for behave in hostile_http.SLOW),
        *((behave, "more than 32 MiB") for behave in hostile_http.ENDLESS),
        *(
            (hostile_http.sends(body), " ".join(w.split()))
            for w, body in hostile_http.NO_JSON.items()
        ),
    ],
)
def test_the_expiry_of_a_run_names_a_hostile_answer(
    monkeypatch: pytest.MonkeyPatch, behave: Any, reason: str
) -> None:
    seconds = DEADLINE if "within" in reason else 60.0
    monkeypatch.setattr(expiry, "CALL_SECONDS", seconds)
    monkeypatch.setattr(expiry, "PASS_SECONDS", 60.0)
    with serving(behave) as url, pytest.raises(expiry.Trouble, match=reason):
        expiry.Azure({"metadata": url, "manager": url})


# ---- other libraries' calls ---------------------------------------------------------------------


def test_a_sign_in_that_hangs_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("azure.cli.core")
    from azure.cli.core import _profile

    class Profile:
        def __init__(self, **_: Any) -> None: ...

        def load_cached_subscriptions(self) -> list[dict[str, Any]]:
            return [{"id": "s", "name": "s", "tenantId": "t", "isDefault": True}]

        def get_raw_token(self, **_: Any) -> None:
            time.sleep(60)

    monkeypatch.setattr(_profile, "Profile", Profile)
    monkeypatch.setattr(login, "_SIGN_IN_SECONDS", 0.2)
    with pytest.raises(TrueupError, match=r"no whole answer within 0\.2 s"):
        login.sign_in([])
