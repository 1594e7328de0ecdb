"""The module cyclecloud_nodes against a stand-in for CycleCloud, by real HTTP and HTTPS."""

from __future__ import annotations

import base64
import functools
import ipaddress
import json
import os
import threading
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import cyclecloud_nodes
import pytest
from ansible.module_utils.testing import patch_module_args
from ansible.module_utils.trueup_node import rest
from ansible.module_utils.trueup_node.errors import TrueupError
from ansible.module_utils.trueup_node.sites import cyclecloud, cyclecloud_api
from ansible.module_utils.urls import open_url
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from cyclecloud_server import (
    PASSWORD,
    SIZE,
    USERNAME,
    StandInCycleCloud,
    answer,
    drop,
    drop_after,
    half,
    stand_in,
)
from helpers import parametrized
from hypothesis import given, settings
from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

OTHER_SIZE = "Standard_D4s_v5"
CREATE = ("POST", "create")
LIST = ("GET", "nodes")
STATUS = ("GET", "status")
BASIC = base64.b64encode(f"{USERNAME}:{PASSWORD}".encode()).decode()
SECRETS = (PASSWORD, BASIC)


@pytest.fixture(autouse=True, scope="module")
def few_authorities() -> Iterator[None]:
    """open_url reads the system's authorities for each call, 50 ms of it here: none is needed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSL_CERT_FILE", os.devnull)
        patch.setenv("SSL_CERT_DIR", os.devnull)
        yield


class Time:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.naps: list[float] = []
        self.meanwhile: Callable[[], None] = lambda: None

    def sleep(self, seconds: float) -> None:
        self.naps.append(seconds)
        self.now += seconds
        self.meanwhile()

    def clock(self) -> float:
        return self.now


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    moving = Time()
    patient = functools.partial(
        cyclecloud_api.Api, sleep=moving.sleep, clock=moving.clock, jitter=lambda: 0
    )
    monkeypatch.setattr(cyclecloud_nodes.cyclecloud_api, "Api", patient)
    for name in ("CYCLECLOUD_URL", "CYCLECLOUD_USERNAME", "CYCLECLOUD_PASSWORD", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    return moving


@pytest.fixture
def cloud() -> Iterator[StandInCycleCloud]:
    with stand_in(StandInCycleCloud()) as cloud:
        yield cloud


class Run:
    """Runs the module's main() against the stand-in."""

    def __init__(self, cloud: StandInCycleCloud, capsys: pytest.CaptureFixture[str]) -> None:
        self.cloud = cloud
        self.capsys = capsys

    def __call__(self, failed: bool = False, **changes: Any) -> dict[str, Any]:
        arguments = {
            "url": self.cloud.url,
            "username": USERNAME,
            "password": PASSWORD,
            "cluster": "hpc",
            "nodearray": "execute",
            "count": 3,
            "name": "test",
            **changes,
        }
        arguments = {key: value for key, value in arguments.items() if value is not None}
        with patch_module_args(arguments), pytest.raises(SystemExit):
            cyclecloud_nodes.main()
        out, error = self.capsys.readouterr()
        assert [secret for secret in SECRETS if secret in out + error] == []
        # A warning is also printed where another test has given Ansible a display.
        [answer] = [line for line in (out + error).splitlines() if line.startswith("{")]
        said: dict[str, Any] = json.loads(answer)
        assert said.get("failed", False) is failed, said
        assert "Traceback" not in out + error
        return said


@pytest.fixture
def run(cloud: StandInCycleCloud, capsys: pytest.CaptureFixture[str], time: Time) -> Run:
    return Run(cloud, capsys)


# ---- the way it goes ----------------------------------------------------------------------------


def test_a_second_run_has_the_same_nodes(run: Run, cloud: StandInCycleCloud) -> None:
    first = run()
    second = run()
    assert second["changed"] is False
    assert second["created"] == 0
    assert second["nodes"] == first["nodes"]
    assert second["request_id"] == first["request_id"]
    assert cloud.called("POST", "/create") == 1
    assert cloud.made == 3


def test_a_request_id_of_ones_own(run: Run, cloud: StandInCycleCloud) -> None:
    assert run(name=None, request_id="job-17")["request_id"] == "job-17"
    assert run(name=None, request_id="job-17")["changed"] is False
    assert cloud.made == 3


def test_nodes_up_to_a_total(run: Run, cloud: StandInCycleCloud) -> None:
    run()
    said = run(counting="total", count=5, name=None)
    assert (said["created"], len(said["nodes"]), cloud.made) == (2, 5, 5)
    again = run(counting="total", count=5, name=None)
    assert (again["changed"], again["created"], cloud.made) == (False, 0, 5)
    fewer = run(counting="total", count=2, name=None)
    assert (fewer["changed"], cloud.active()) == (False, 5)


def test_status_changes_nothing(run: Run, cloud: StandInCycleCloud) -> None:
    run()
    calls = len(cloud.calls)
    said = run(state="status", count=None, name=None, nodearray=None)
    assert said["changed"] is False
    assert len(said["nodes"]) == 3
    assert said["cluster_state"] == "Started"
    assert said["buckets"] == [
        {
            "nodearray": "execute",
            "machine_type": SIZE,
            "available": 13,
            "active": 3,
            "max": 16,
            "quota": 16,
            "valid": True,
        }
    ]
    assert {method for method, *_ in cloud.calls[calls:]} == {"GET"}


def test_check_mode_only_reads(run: Run, cloud: StandInCycleCloud) -> None:
    said = run(_ansible_check_mode=True)
    assert (said["changed"], said["created"], said["to_create"]) == (True, 0, 3)
    assert said["msg"] == (
        f"would create 3 nodes of {SIZE} in nodearray execute of cluster hpc (16 available)"
    )
    total = run(_ansible_check_mode=True, counting="total", count=5, name=None)
    assert (total["changed"], total["to_create"]) == (True, 5)
    assert {method for method, *_ in cloud.calls} == {"GET"}
    run()
    assert run(_ansible_check_mode=True)["changed"] is False
    gone = run(_ansible_check_mode=True, state="absent")
    assert gone["to_terminate"] == ["execute-1", "execute-2", "execute-3"]
    assert (gone["changed"], gone["terminated"]) == (True, [])
    assert cloud.called("POST", "/terminate") == 0


# ---- gone again ---------------------------------------------------------------------------------


def test_the_nodes_of_a_request_are_terminated(run: Run, cloud: StandInCycleCloud) -> None:
    run()
    run(name="other")
    said = run(state="absent")
    assert said["terminated"] == ["execute-1", "execute-2", "execute-3"]
    assert said["nodes"] == []
    assert sorted(cloud.nodes) == ["execute-4", "execute-5", "execute-6"]
    again = run(state="absent")
    assert (again["changed"], again["terminated"]) == (False, [])


def test_nodes_are_terminated_by_name_and_id(run: Run, cloud: StandInCycleCloud) -> None:
    made = run()
    said = run(
        state="absent",
        count=None,
        name=None,
        names=["execute-1", "execute-99"],
        ids=[made["nodes"][1]["id"]],
    )
    assert said["terminated"] == ["execute-1", "execute-2"]
    assert said["unknown"] == ["execute-99"]
    assert list(cloud.nodes) == ["execute-3"]


def test_a_node_that_is_not_terminated_is_named(run: Run, cloud: StandInCycleCloud) -> None:
    run()
    cloud.bad_terminate = {"execute-2": "it is locked"}
    said = run(state="absent", failed=True)
    assert "does not terminate 1 of 3 nodes (execute-2: it is locked)" in said["msg"]
    assert said["terminated"] == ["execute-1", "execute-3"]


def test_a_lost_answer_to_terminate(run: Run, cloud: StandInCycleCloud) -> None:
    run()
    cloud.faults = {("POST", "terminate"): [drop_after]}
    assert run(state="absent")["changed"] is True
    assert cloud.called("POST", "/terminate") == 1
    run(name="other")
    cloud.faults = {("POST", "terminate"): [drop, drop]}
    said = run(state="absent", name="other")
    assert len(said["terminated"]) == 3
    assert cloud.nodes == {}


def test_terminating_too_long_names_the_nodes(
    run: Run, cloud: StandInCycleCloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    run()
    monkeypatch.setattr(cloud, "advance", lambda: None)
    said = run(state="absent", failed=True, wait_timeout_seconds=60)
    assert "after 60 s 3 nodes are still there (Ready: execute-1, execute-2" in said["msg"]


@pytest.mark.parametrize("remembers", [False, True])
def test_a_request_whose_nodes_are_gone_is_not_made_again_by_itself(
    remembers: bool, run: Run, cloud: StandInCycleCloud
) -> None:
    cloud.age_seconds, cloud.remembers = 3600, remembers
    first = run()
    run(state="absent")
    said = run(failed=True)
    assert first["request_id"] in said["msg"]
    assert "none of its nodes is left; a request is made once" in said["msg"]
    assert cloud.made == 3
    second = run(recreate=True)
    assert (second["created"], cloud.made) == (3, 6)
    assert second["request_id"] != first["request_id"]
    third = run(recreate=True)
    assert (third["changed"], third["request_id"]) == (False, second["request_id"])
    assert run()["changed"] is False  # its nodes are there, whoever made them anew
    assert len(run(state="absent")["terminated"]) == 3
    assert cloud.nodes == {}


def test_a_request_that_is_new_is_not_taken_for_ended(
    run: Run, cloud: StandInCycleCloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The operation is there, its nodes are not listed yet: recreate must not make more."""
    run(wait=False)
    hidden = dict(cloud.nodes)
    cloud.nodes.clear()
    said = run(failed=True, recreate=True)
    assert said["msg"].startswith(
        "after 120 s 0 of 3 nodes are ready (3 not listed by CycleCloud); nodes of a request are"
    )
    assert cloud.called("POST", "/create") == 1
    cloud.nodes.update(hidden)
    assert run(recreate=True)["changed"] is False


# ---- what goes wrong on the way -----------------------------------------------------------------


@pytest.mark.parametrize("fault", [drop_after, half])
def test_a_lost_answer_does_not_create_twice(
    fault: Any, run: Run, cloud: StandInCycleCloud
) -> None:
    cloud.faults = {CREATE: [fault]}
    said = run()
    assert (said["changed"], said["created"], said["operation_id"]) == (True, 3, None)
    assert len(said["nodes"]) == 3
    assert cloud.made == 3
    assert cloud.called("POST", "/create") == 1
    assert run()["changed"] is False


def test_a_lost_answer_that_is_found_by_the_next_run(run: Run, cloud: StandInCycleCloud) -> None:
    """Server and network gone right after the request was taken; then somebody runs it again."""
    cloud.faults = {CREATE: [drop_after], LIST: [None, *[drop] * 20]}
    first = run(failed=True)
    assert "gave no answer" in first["msg"]
    cloud.faults = {}
    second = run()
    assert (second["changed"], len(second["nodes"]), cloud.made) == (False, 3, 3)


def test_a_connection_lost_before_the_server_acted(
    run: Run, cloud: StandInCycleCloud, time: Time
) -> None:
    cloud.faults = {CREATE: [drop, drop]}
    said = run()
    assert (said["created"], cloud.made) == (3, 3)
    assert cloud.called("POST", "/create") == 3
    assert time.naps == [1.0, 2.0]


def test_a_refused_wish_shows_the_servers_sentence(run: Run, cloud: StandInCycleCloud) -> None:
    cloud.faults = {CREATE: [answer(409, b'{"message": "Subnet is full"}')]}
    said = run(failed=True)
    assert said["msg"].endswith("/nodes/create with status 409: Subnet is full")
    assert (said["changed"], said["created"], cloud.made) == (False, 0, 0)


TROUBLE = {
    "drop": drop,
    "drop_after": drop_after,
    "half": half,
    "429": answer(429),
    "503": answer(503, b"", {"Retry-After": "3"}),
    "504": answer(504),
    "none": None,
}
troubles = st.lists(st.sampled_from(sorted(TROUBLE)), max_size=8)


@settings(max_examples=40, deadline=None)
@given(troubles, troubles)
def test_whatever_is_lost_the_nodes_are_made_once(on_create: list[str], on_list: list[str]) -> None:
    """Run it until it succeeds, as a person would: never more nodes than were asked."""
    with stand_in(StandInCycleCloud()) as cloud:
        cloud.faults = {
            CREATE: [TROUBLE[name] for name in on_create],
            LIST: [TROUBLE[name] for name in on_list],
        }
        ask = cyclecloud.Ask("hpc", "execute", 3, name="test")
        server = cyclecloud_api.Server(cloud.url, USERNAME, PASSWORD, retry_limit_seconds=4)
        for _ in range(20):
            moving = Time()
            api = cyclecloud_api.Api(server, open_url, moving.sleep, moving.clock)
            outcome = cyclecloud.Outcome("hpc")
            try:
                cyclecloud.ensure_present(api, ask, cyclecloud.Patience(), False, outcome)
            except TrueupError:
                assert cloud.made in (0, 3)
                continue
            break
        assert (cloud.made, len(outcome.nodes)) == (3, 3)
        assert {node.phase() for node in outcome.nodes} == {"ready"}


def test_a_wrong_password(run: Run) -> None:
    said = run(failed=True, password="not-" + PASSWORD)
    assert "takes neither this user name nor this password (status 401)" in said["msg"]
    assert f"username ({USERNAME})" in said["msg"]


def test_a_user_without_the_right(run: Run, cloud: StandInCycleCloud) -> None:
    cloud.faults = {STATUS: [answer(403, b"<h1>Forbidden</h1>")]}
    said = run(failed=True)
    assert f"user {USERNAME} may not GET /clusters/hpc/status" in said["msg"]
    assert "(status 403: Forbidden)" in said["msg"]


def test_the_secret_is_hidden_where_the_server_sends_it_back(
    run: Run, cloud: StandInCycleCloud
) -> None:
    cloud.faults = {STATUS: [answer(400, f"{PASSWORD} and {BASIC}".encode())]}
    assert run(failed=True)["msg"].endswith("status 400: ******** and ********")


def test_documents_with_less_than_the_reference_promises(
    run: Run, cloud: StandInCycleCloud
) -> None:
    cloud.faults = {STATUS: [answer(200, b'{"nodearrays": [{"name": "execute"}]}')]}
    assert "not laid out as documented (KeyError: 'buckets')" in run(failed=True)["msg"]
    cloud.faults = {LIST: [answer(200, b"{}")]}
    assert "without a list of nodes" in run(failed=True)["msg"]
    cloud.faults = {LIST: [answer(200, b'{"nodes": [{"Status": "Ready"}]}')]}
    assert "lists a node without a Name" in run(failed=True)["msg"]
    cloud.faults = {CREATE: [answer(202, b"{}")]}
    said = run(failed=True)
    assert "does not say how many nodes it added" in said["msg"]
    assert said["changed"] is True


def test_a_redirect_gets_no_password(run: Run, cloud: StandInCycleCloud) -> None:
    with stand_in(StandInCycleCloud()) as other:
        for status in (301, 302, 307, 308):
            target = {"Location": f"{other.url}/clusters/hpc/status?token=1"}
            cloud.faults = {STATUS: [answer(status, b"", target)]}
            said = run(failed=True)
            assert (
                f"redirects GET /clusters/hpc/status to http://127.0.0.1 (status {status})"
                in (said["msg"])
            )
            cloud.faults = {CREATE: [answer(status, b"", target)]}
            run(failed=True)
        assert other.calls == []


def test_a_server_that_never_answers(run: Run, cloud: StandInCycleCloud) -> None:
    hold = threading.Event()
    cloud.faults = {STATUS: [lambda _: hold.wait(120)]}
    said = run(failed=True, request_timeout_seconds=1, retry_limit_seconds=0)
    hold.set()
    # Whichever of the two limits of a second is noticed first: of the answer, or of the socket.
    limits = [text in said["msg"] for text in ("no whole answer within 1 s", "timed out")]
    assert any(limits), said["msg"]


def test_no_such_cluster_or_nodearray(run: Run) -> None:
    assert "has no cluster 'h/p c'" in run(failed=True, cluster="h/p c")["msg"]
    said = run(failed=True, nodearray="gpu")
    assert said["msg"] == "cluster hpc has no nodearray 'gpu'; it has execute"


# ---- pages --------------------------------------------------------------------------------------


def test_a_page_elsewhere_is_not_asked_for(run: Run, cloud: StandInCycleCloud) -> None:
    cloud.page_size = 2
    with stand_in(StandInCycleCloud()) as other:
        cloud.page_host = other.url
        said = run(failed=True)
        assert "which does not get the password" in said["msg"]
        assert other.calls == []


def test_pages_in_a_circle(run: Run, cloud: StandInCycleCloud) -> None:
    circle = json.dumps({"nodes": [], "nextLink": "/clusters/hpc/nodes"}).encode()
    cloud.faults = {LIST: [answer(200, circle)] * 5}
    assert "in a circle" in run(failed=True, state="status", name=None)["msg"]


# ---- capacity and waiting -----------------------------------------------------------------------


def test_too_few_available_is_refused_before_anything_is_made(
    run: Run, cloud: StandInCycleCloud
) -> None:
    cloud.available = 2
    said = run(failed=True)
    assert said["msg"].startswith(
        f"3 nodes of {SIZE} in nodearray execute were asked and 2 can be made "
        "(0 active, at most 2, quota for 2)"
    )
    total = run(failed=True, counting="total", count=9, name=None)
    assert (
        "a total of 9 nodes was asked for nodearray execute, which has 0 and can get 2"
        in (total["msg"])
    )
    assert cloud.called("POST", "") == 0
    assert said["buckets"][0]["available"] == 2


def test_a_placement_group_that_is_full(run: Run, cloud: StandInCycleCloud) -> None:
    run(count=6, placement_group_id="pg-1")
    said = run(failed=True, placement_group_id="pg-1")
    assert "placement group pg-1 would have 9 nodes" in said["msg"]
    assert "can have 8" in said["msg"]
    assert cloud.made == 6


def test_fewer_added_than_asked_is_a_failure_that_says_what_is_there(
    run: Run, cloud: StandInCycleCloud
) -> None:
    cloud.grants = 2
    said = run(failed=True)
    assert said["msg"].startswith(
        "3 nodes were asked and CycleCloud added 2 (limited by regional quota)"
    )
    assert (said["changed"], said["created"], len(said["nodes"])) == (True, 2, 2)
    cloud.age_seconds = 3600
    cloud.operations = {key: (cloud.now(), ids) for key, (_, ids) in cloud.operations.items()}
    again = run(failed=True)
    assert "has 2 nodes and 3 were asked" in again["msg"]
    assert cloud.made == 2
    assert len(run(state="absent")["terminated"]) == 2
    total = run(failed=True, counting="total", count=4, name=None)
    assert "4 nodes were asked and CycleCloud added 2" in total["msg"]


def test_a_lost_answer_to_scale(run: Run, cloud: StandInCycleCloud) -> None:
    cloud.faults = {("POST", "execute"): [drop_after]}
    said = run(counting="total", count=4, name=None)
    assert (said["created"], cloud.made) == (4, 4)
    cloud.faults = {("POST", "execute"): [drop]}
    said = run(counting="total", count=6, name=None)
    assert (said["created"], cloud.made) == (2, 6)


def test_several_sizes(run: Run, cloud: StandInCycleCloud) -> None:
    cloud.sizes = (SIZE, OTHER_SIZE)
    said = run(failed=True)
    assert f"has several sizes ({SIZE}, {OTHER_SIZE}); name one as machine_type" in said["msg"]
    assert run(machine_type=OTHER_SIZE)["nodes"][0]["machine_type"] == OTHER_SIZE
    other = run(failed=True, machine_type=SIZE)
    assert f"already made nodes with machine_type {OTHER_SIZE}, not {SIZE}" in other["msg"]
    assert "has no Standard_X" in run(failed=True, name="x", machine_type="Standard_X")["msg"]


def test_a_node_that_fails_is_named_with_the_reason(run: Run, cloud: StandInCycleCloud) -> None:
    cloud.fates = {"execute-2": f"failed:cloud-init ended with 1, key {PASSWORD}"}
    said = run(failed=True)
    assert said["msg"].startswith(
        "1 node is in state Failed (execute-2: cloud-init ended with 1, key ********)"
    )
    assert said["states"]["Failed"] == ["execute-2"]
    assert said["created"] == 3
    assert run(failed=True)["changed"] is False  # and no second one is made for it
    assert cloud.made == 3


def test_waiting_too_long_says_which_nodes_are_in_which_state(
    run: Run, cloud: StandInCycleCloud, time: Time
) -> None:
    cloud.fates = {"execute-1": "stuck", "execute-3": "no address"}
    said = run(failed=True, wait_timeout_seconds=60, poll_seconds=20)
    assert said["msg"].startswith(
        "after 60 s 1 of 3 nodes are ready (Acquiring: execute-1; Ready without an address: "
        "execute-3); run it again"
    )
    assert time.naps == [20, 20, 20]
    assert said["waited_seconds"] == 60
    cloud.fates = {}
    assert run()["msg"].endswith("3 ready")


@pytest.mark.parametrize("how", ["evicted", "terminated"])
def test_a_node_that_goes_while_it_is_waited_for(
    how: str, run: Run, cloud: StandInCycleCloud, time: Time
) -> None:
    cloud.fates = {"execute-1": "stuck", "execute-3": "stuck"}

    def meanwhile() -> None:
        if how == "evicted":
            cloud.nodes.pop("execute-3", None)
        else:
            cloud.nodes["execute-3"]["TargetState"] = "Terminated"

    time.meanwhile = meanwhile
    said = run(failed=True)
    assert said["msg"].startswith("execute-3 was terminated while it was waited for")
    assert time.naps == [15]
    assert cloud.made == 3


# ---- what is refused before anything is sent ----------------------------------------------------


@parametrized(("changes", "message"))
def test_what_cannot_be_is_refused(
    changes: dict[str, Any], message: str, run: Run, cloud: StandInCycleCloud
) -> None:
    said = run(failed=True, **changes)
    assert message in said["msg"]
    assert "\n" not in said["msg"]
    assert cloud.calls == []


def test_credentials_come_from_the_environment(
    run: Run, cloud: StandInCycleCloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CYCLECLOUD_URL", cloud.url + "/")
    monkeypatch.setenv("CYCLECLOUD_USERNAME", USERNAME)
    monkeypatch.setenv("CYCLECLOUD_PASSWORD", PASSWORD)
    assert run(url=None, username=None, password=None)["created"] == 3


# ---- TLS ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """A self-made certificate for 127.0.0.1, and its key."""
    folder: Path = tmp_path_factory.mktemp("tls")
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "stand-in")])
    now = datetime.now(timezone.utc)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
        .sign(key, hashes.SHA256())
    )
    (folder / "cert.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    (folder / "key.pem").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return str(folder / "cert.pem"), str(folder / "key.pem")


def test_https(
    certificate: tuple[str, str], capsys: pytest.CaptureFixture[str], time: Time
) -> None:
    with stand_in(StandInCycleCloud(), certificate) as cloud:
        run = Run(cloud, capsys)
        said = run(failed=True)
        assert "could not be trusted by TLS (self-signed certificate)" in said["msg"].replace(
            "self signed", "self-signed"
        )
        assert cloud.calls == []
        assert time.naps == []  # it is no use to ask again
        assert run(ca_path=certificate[0])["created"] == 3
        trusting = run(validate_certs=False)
        assert trusting["changed"] is False
        wrong = run(failed=True, url=cloud.url.replace("127.0.0.1", "localhost"))
        assert "could not be trusted by TLS" in wrong["msg"]
        cloud.faults = {CREATE: [drop_after]}
        lost = run(ca_path=certificate[0], name="other")
        assert (lost["created"], cloud.made) == (3, 6)


# ---- the pure parts -----------------------------------------------------------------------------


@parametrized(("value", "date", "seconds"))
def test_retry_after(value: str | None, date: str | None, seconds: float | None) -> None:
    assert rest.retry_after_seconds(value, date) == seconds


@given(st.text(), st.text())
def test_retry_after_is_never_negative(value: str, date: str) -> None:
    seconds = rest.retry_after_seconds(value, date)
    assert (seconds is None or seconds >= 0) is True


words = st.text(min_size=1, max_size=8)


@given(
    st.tuples(words, words, st.integers(1, 99), words),
    st.tuples(words, words, st.integers(1, 99), words),
)
def test_two_wishes_have_one_id_only_if_they_are_the_same(
    one: tuple[str, str, int, str], other: tuple[str, str, int, str]
) -> None:
    ids = [
        cyclecloud.Ask(cluster, nodearray, count, name=name).request()
        for cluster, nodearray, count, name in (one, other)
    ]
    assert (ids[0] == ids[1]) is (one == other)


def outcome_of(function: Callable[[Any], Any], value: Any) -> Any:
    """What it returns, or the sentence with which it refuses."""
    try:
        return function(value)
    except TrueupError as error:
        return str(error)


@given(st.text(max_size=20))
def test_a_host_that_is_not_loopback_needs_https(host: str) -> None:
    said = outcome_of(cyclecloud_api.check_url, f"http://{host}")
    taken = said.startswith("http://")
    loopback = any(word in said.lower() for word in ("//localhost", "//127.", "::1]", ":0001]"))
    assert taken is (taken and loopback)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["nodearrays", "state"]), json_values))
def test_a_status_is_read_or_refused(status: dict[str, Any]) -> None:
    said = outcome_of(cyclecloud.buckets_of, status)
    assert said == [] or "not laid out as documented" in said


@given(json_values)
def test_a_node_is_read_or_refused(record: Any) -> None:
    with pytest.raises(TrueupError, match="without a Name"):
        cyclecloud.node_of(record)


@given(st.text())
def test_an_error_page_becomes_one_short_line(text: str) -> None:
    said = rest.sentence_of(text)
    assert said.splitlines() in ([said], [])
    assert len(said) <= 303
