"""trueup-blob-copy against the real Azurite, some of it through a stand-in of a network that
throttles, cuts, alters and slows (Azurite never does)."""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import azurite
import pytest
from azurite import Faults, Request
from helpers import parametrized
from trueup_node.benchmarks.blob_copy import case as blob_copy
from trueup_node.benchmarks.blob_copy.output import BlobCopyOutput, parse_blob_copy
from trueup_node.benchmarks.blob_copy.signatures import DRIVER_PREFIX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DRIVER = azurite.DRIVER
CONTAINER = "checkpoints"
MIB = 1024**2

pytestmark = pytest.mark.xdist_group("azurite")

_ASK = """
import json, sys
from azure.storage.blob import ContainerClient
client = ContainerClient.from_connection_string(sys.argv[1], "checkpoints")
if sys.argv[2] == "create":
    client.create_container()
elif sys.argv[2] == "md5":
    import hashlib
    data = client.download_blob(sys.argv[3]).readall()
    print(json.dumps(hashlib.md5(data).hexdigest()))
elif sys.argv[2] == "list":
    print(json.dumps(sorted(blob.name for blob in client.list_blobs())))
elif sys.argv[2] == "waiting":
    blocks = client.get_blob_client(sys.argv[3]).get_block_list("uncommitted")[1]
    print(json.dumps([block.size for block in blocks]))
"""


class Service:
    """Azurite with a container in it."""

    def __init__(self, port: int, python: Path) -> None:
        self.port, self.python = port, python
        self.ask("create")

    def ask(self, *words: str) -> Any:
        done = subprocess.run(
            [str(self.python), "-c", _ASK, azurite.connection_string(self.port), *words],
            capture_output=True,
            text=True,
            check=True,
            timeout=300,
        )
        return json.loads(done.stdout) if done.stdout.strip() else None

    def argv(self, files: list[Path], *options: str) -> list[str]:
        return [
            str(self.python),
            str(DRIVER),
            *("--container", CONTAINER, "--block-mib", "1", "--backoff-seconds", "0.02"),
            *options,
            *map(str, files),
        ]

    def environment(self, port: int | None = None, key: str = azurite.KEY) -> dict[str, str]:
        return {
            **{name: value for name, value in os.environ.items() if "proxy" not in name.lower()},
            "AZURE_STORAGE_CONNECTION_STRING": azurite.connection_string(
                port or self.port, key=key
            ),
        }

    def copy(
        self, files: list[Path], *options: str, port: int | None = None, key: str = azurite.KEY
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.argv(files, *options),
            env=self.environment(port, key),
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )


@pytest.fixture(scope="module", name="service")
def _service() -> Iterator[Service]:
    try:
        python = azurite.driver_python()
        with azurite.running() as port:
            yield Service(port, python)
    except azurite.Unavailable as error:
        pytest.skip(str(error))


def make(folder: Path, name: str, size: int) -> Path:
    path = folder / name
    path.write_bytes(os.urandom(size))
    return path


def md5(path: Path) -> str:
    return hashlib.md5(path.read_bytes()).hexdigest()


PROGRESS = re.compile(r"trueup-blob-copy: copy \d+: \d+ of \d+ MiB, \d+ Mb/s\n")


def read(done: subprocess.CompletedProcess[str]) -> BlobCopyOutput:
    """What it printed; on standard error it may have said how far it is, on a slow machine."""
    assert (done.returncode, PROGRESS.sub("", done.stderr)) == (0, "")
    return parse_blob_copy(done.stdout)


def test_eight_copies_at_once_arrive_with_the_right_checksum(
    service: Service, tmp_path: Path
) -> None:
    files = [make(tmp_path, f"rank{number}.pt", 2 * MIB + number) for number in range(8)]
    output = read(service.copy(files, "--name", "step1", "--verify", "download"))
    assert len(output.copies) == 8
    assert output.cap == 2400e6
    assert output.checks == {"checksums": True}
    stored = {file.blob: file.stored_md5 for copy in output.copies for file in copy.files}
    assert stored == {f"step1/{path.name}": md5(path) for path in files}
    assert service.ask("md5", "step1/rank3.pt") == md5(files[3])


def test_fewer_copies_than_files_send_them_one_after_another(
    service: Service, tmp_path: Path
) -> None:
    sizes = [5, 3, 2, 2]
    files = [make(tmp_path, f"part{n}.pt", size * MIB) for n, size in enumerate(sizes)]
    output = read(service.copy(files, "--copies", "2", "--name", "queue"))
    assert [copy.bytes for copy in output.copies] == [7 * MIB, 5 * MIB]
    assert sorted(len(copy.files) for copy in output.copies) == [2, 2]


def test_the_cap_is_kept(service: Service, tmp_path: Path) -> None:
    files = [make(tmp_path, f"slow{number}.pt", 5 * MIB) for number in range(2)]
    output = read(service.copy(files, "--cap-mbps", "20", "--name", "cap"))
    for copy in output.copies:
        assert copy.sent_rate <= 20e6 * 1.1
    # 5 MiB at 20 Mb/s are 2.1 s.
    assert output.seconds > 2.0
    assert output.parameters["cap_bits_per_second"] == "20000000"


def until(condition: Callable[[], bool]) -> None:
    """Wait until it is so, on a busy machine too; not for ever."""
    deadline = time.monotonic() + 300
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)


def kill_in_the_middle(service: Service, file: Path, faults: Faults, least: int, name: str) -> None:
    """Start a copy through the stand-in and kill it, with all that it started, when some blocks
    have arrived."""
    with azurite.stand_in(service.port, faults) as network:
        child = subprocess.Popen(
            service.argv([file], "--name", name, "--connections", "1"),
            env=service.environment(network.port),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        until(lambda: len(faults.blocks) >= least)
        child.send_signal(signal.SIGKILL)
        child.wait()
        # What was on its way.
        until(lambda: faults.under_way == 0)


def test_of_a_request_that_ends_in_its_body_nothing_is_passed_on() -> None:
    faults = Faults()
    with (
        socket.create_server(("127.0.0.1", 0)) as behind,
        azurite.stand_in(behind.getsockname()[1], faults) as network,
    ):
        with socket.create_connection(("127.0.0.1", network.port)) as client:
            client.sendall(b"PUT /c/b?comp=block& HTTP/1.1\r\ncontent-length: 9\r\n\r\nhalf")
        until(lambda: faults.requests == 1 and faults.under_way == 0)
        behind.settimeout(0)
        with pytest.raises(BlockingIOError):
            behind.accept()
    assert (faults.requests, faults.under_way, faults.blocks) == (1, 0, [])


def test_after_kill_9_only_the_missing_blocks_are_sent(service: Service, tmp_path: Path) -> None:
    file = make(tmp_path, "big.pt", 12 * MIB + 7)
    kill_in_the_middle(service, file, Faults(delay_seconds=1.0), 3, "killed")
    # Nothing of it is to be seen yet: a blob is there whole or not at all.
    assert "killed/big.pt" not in service.ask("list")
    waiting = service.ask("waiting", "killed/big.pt")
    assert 3 <= len(waiting) < 13
    faults = Faults()
    with azurite.stand_in(service.port, faults) as network:
        output = read(service.copy([file], "--name", "killed", port=network.port))
    [copy] = output.copies
    assert copy.resumed_bytes == sum(waiting)
    assert (
        faults.block_bytes == copy.sent_bytes == copy.uploaded_bytes == 12 * MIB + 7 - sum(waiting)
    )
    assert service.ask("md5", "killed/big.pt") == md5(file)
    assert "were there from an interrupted run" in output.warnings[0]


def test_a_file_that_changed_between_the_runs_is_not_mixed(
    service: Service, tmp_path: Path
) -> None:
    file = make(tmp_path, "moving.pt", 8 * MIB)
    kill_in_the_middle(service, file, Faults(delay_seconds=1.0), 3, "changed")
    # The first block alone is as it was.
    file.write_bytes(file.read_bytes()[:MIB] + os.urandom(7 * MIB))
    output = read(service.copy([file], "--name", "changed"))
    assert output.copies[0].resumed_bytes == MIB
    assert service.ask("md5", "changed/moving.pt") == md5(file)


def test_a_file_that_changes_while_it_is_read_is_not_committed(
    service: Service, tmp_path: Path
) -> None:
    file = make(tmp_path, "torn.pt", 6 * MIB)
    with azurite.stand_in(service.port, Faults(delay_seconds=1.0)) as network:
        child = subprocess.Popen(
            service.argv([file], "--name", "torn", "--connections", "1"),
            env=service.environment(network.port),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        until(lambda: len(network.faults.blocks) > 0)
        with file.open("ab") as stream:
            stream.write(b"more")
        out, err = child.communicate(timeout=300)
    assert (child.returncode, out) == (1, "")
    assert "changed while it was read: nothing was committed" in err
    assert "torn/torn.pt" not in service.ask("list")


class Some:
    """Fails the first tries of each block in turn, and lets the others pass."""

    def __init__(self, *answers: int | str) -> None:
        self._answers = list(answers)

    def __call__(self, request: Request) -> int | str:
        return self._answers.pop(0) if request.is_block and self._answers else 0


def test_throttling_and_lost_connections_are_survived_and_counted(
    service: Service, tmp_path: Path
) -> None:
    file = make(tmp_path, "rough.pt", 4 * MIB)
    faults = Faults(answer=Some(503, 429, "cut", 500, 429))
    with azurite.stand_in(service.port, faults) as network:
        output = read(service.copy([file], "--name", "rough", port=network.port))
    [copy] = output.copies
    assert (copy.throttled, copy.lost, copy.server_errors, copy.retries) == (3, 1, 1, 5)
    assert copy.sent_bytes == 4 * MIB + 5 * MIB
    assert service.ask("md5", "rough/rough.pt") == md5(file)
    assert output.warnings == ["the account throttled 3 request(s): its limit was reached"]


def test_a_service_that_stays_busy_ends_the_copy_with_one_sentence(
    service: Service, tmp_path: Path
) -> None:
    file = make(tmp_path, "busy.pt", MIB)
    faults = Faults(answer=lambda request: 503 if request.is_block else 0)
    with azurite.stand_in(service.port, faults) as network:
        done = service.copy([file], "--name", "busy", "--retries", "3", port=network.port)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "trueup-blob-copy: copy 0: block 0 of busy/busy.pt could not be sent: the service answered "
        "503 ServerBusy: it asks for less, also after 3 retries\n"
    )
    assert faults.requests == 5  # the list of blocks, and four tries


def test_a_block_that_is_altered_on_the_way_is_found_by_its_checksum(
    service: Service, tmp_path: Path
) -> None:
    file = make(tmp_path, "altered.pt", 3 * MIB)
    with azurite.stand_in(service.port, Faults(answer=Some("alter"))) as network:
        output = read(service.copy([file], "--name", "altered", port=network.port))
    assert (output.copies[0].corrupted, output.copies[0].retries) == (1, 1)
    assert service.ask("md5", "altered/altered.pt") == md5(file)
    always = Faults(answer=lambda request: "alter" if request.is_block else 0)
    with azurite.stand_in(service.port, always) as network:
        done = service.copy([file], "--name", "never", "--retries", "2", port=network.port)
    assert done.returncode == 1
    assert "400 Md5Mismatch: a block was altered on the way, also after 2 retries" in done.stderr
    assert "never/altered.pt" not in service.ask("list")


def test_a_slow_network_slows_the_copy_and_nothing_else(service: Service, tmp_path: Path) -> None:
    file = make(tmp_path, "thin.pt", 2 * MIB)
    with azurite.stand_in(service.port, Faults(bytes_per_second=2e6)) as network:
        output = read(service.copy([file], "--name", "thin", port=network.port))
    assert output.copies[0].sent_rate < 16e6 * 1.1
    assert output.checks == {"checksums": True}


@parametrized(("options", "key", "said"))
def test_a_wrong_key_or_container_is_one_sentence_without_the_key(
    service: Service, tmp_path: Path, options: tuple[str, ...], key: str, said: str
) -> None:
    file = make(tmp_path, "f.pt", 10)
    done = service.copy([file], *options, key=key)
    assert (done.returncode, done.stdout) == (1, "")
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert key not in done.stderr


def test_nobody_listens(service: Service, tmp_path: Path) -> None:
    done = service.copy([make(tmp_path, "f.pt", 10)], "--retries", "1", port=1)
    assert done.returncode == 1
    assert "the connection was lost or not made, also after 1 retries" in done.stderr


def test_the_benchmark_leaves_no_blobs_and_no_secret(service: Service, tmp_path: Path) -> None:
    file = make(tmp_path, "once.pt", MIB)
    before = service.ask("list")
    done = service.copy([file], "--name", "bench", "--benchmark")
    assert read(done).checks == {"checksums": True}
    assert service.ask("list") == before
    assert azurite.KEY not in done.stdout + done.stderr


def test_a_credentials_file_is_taken_only_when_others_cannot_read_it(
    service: Service, tmp_path: Path
) -> None:
    file, secret = make(tmp_path, "f.pt", 10), tmp_path / "credentials"
    secret.write_text(
        f"AZURE_STORAGE_CONNECTION_STRING={azurite.connection_string(service.port)}\n"
    )
    outcomes = {}
    for mode in (0o640, 0o600):
        secret.chmod(mode)
        done = subprocess.run(
            service.argv([file], "--name", "file", "--credentials", str(secret)),
            env={"PATH": os.environ["PATH"]},
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        outcomes[mode] = (done.returncode, PROGRESS.sub("", done.stderr))
    assert outcomes[0o600] == (0, "")
    assert outcomes[0o640][0] == 2
    assert "can be read by others (mode 0640): chmod 600 it" in outcomes[0o640][1]


def test_a_sas_token_does_too(service: Service, tmp_path: Path) -> None:
    file = make(tmp_path, "sas.pt", MIB)
    token = azurite.sas_token(service.python, CONTAINER)
    address = f"http://127.0.0.1:{service.port}/{azurite.ACCOUNT}"
    done = subprocess.run(
        service.argv([file], "--name", "sas", "--account-url", address),
        env={"PATH": os.environ["PATH"], "AZURE_STORAGE_SAS_TOKEN": token},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert read(done).checks == {"checksums": True}
    assert token not in done.stdout + done.stderr


def test_what_the_program_prints_is_what_the_judge_reads(service: Service, tmp_path: Path) -> None:
    files = [make(tmp_path, f"j{number}.pt", MIB) for number in range(2)]
    done = service.copy(files, "--cap-mbps", "100", "--name", "judged")
    output = read(done)
    assert done.stdout.startswith(DRIVER_PREFIX)
    assert blob_copy.judge(output, copies=2, cap=100e6, size_bytes=2 * MIB) is None
    said = blob_copy.judge(output, copies=3, cap=100e6, size_bytes=2 * MIB)
    assert said == "2 copies ran instead of 3"
