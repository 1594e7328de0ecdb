"""The module vllm_bench: success, check mode, missing tool, unusable output, refusals, and that the
API key is nowhere. The server is a stand-in on the loopback interface, the outputs are recorded."""

from __future__ import annotations

import hashlib
import json
import socket
import tempfile
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import vllm_bench
from ansible.module_utils.trueup_node.benchmarks.vllm import case as vllm
from ansible.module_utils.trueup_node.benchmarks.vllm.output import parse_vllm
from ansible.module_utils.trueup_node.errors import BadInput
from ansible.module_utils.trueup_node.node import folders
from bench_modules import FakeRun, ends_badly, refuses, resumes
from helpers import parametrized
from record_schema import RECORDS
from recorded_runs import TINY_SERVED
from trueup_node.redaction import redact

if TYPE_CHECKING:
    from collections.abc import Iterator

DATA = Path(__file__).parent.parent / "data" / "vllm"
RANDOM = (DATA / "vllm032_driver_random.log").read_text()
RAMP = (DATA / "vllm032_driver_ramp_goodput.log").read_text()
KILLED, KILLED_ERROR = (DATA / "vllm032_driver_killed.log").read_text().split("[standard error]\n")
NO_MODEL, NO_MODEL_ERROR = (
    (DATA / "vllm032_driver_no_model.log").read_text().split("[standard error]\n")
)
ALWAYS = {"changed", "record", "raw", "command", "environment"}
KEY = "sesame-4711-open"


ASKED = (
    '{"dataset_path":"","dataset_sha256":"","failed_share_allowed":0.0,"goodput_ms":{},'
    '"max_concurrency":8,"num_prompts":40,"ramp_up_end":0,"ramp_up_start":0,'
    '"random_input_tokens":64,"random_output_tokens":48,"request_rate":0.0,"seed":42,'
    '"warmup_requests":0}'
)


class StandIn(ThreadingHTTPServer):
    """Answers as a vLLM server does where vllm_bench asks; words are tokens."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.asked: list[str] = []
        self.key = ""
        self.health = 200
        self.models = '{"data": [{"id": "tiny", "max_model_len": 40000}]}'
        self.completion = 200
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Answer(BaseHTTPRequestHandler):
    server: StandIn

    def _send(self, status: int, text: str = "{}") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        if self.path == "/health":
            self._send(self.server.health, "")
        elif self.server.key and self.headers["Authorization"] != f"Bearer {self.server.key}":
            self._send(401, '{"error": "Unauthorized"}')
        else:
            self._send(200, self.server.models)

    def do_POST(self) -> None:
        self.server.asked.append(self.path)
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/tokenize":
            words = body["prompt"].split()
            self._send(200, json.dumps({"tokens": [int(word) for word in words]}))
        elif self.path == "/detokenize":
            self._send(200, json.dumps({"prompt": " ".join(map(str, body["tokens"]))}))
        else:
            said = '{"error": {"message": "no template"}}'
            self._send(self.server.completion, "{}" if self.server.completion == 200 else said)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(name="server")
def _server() -> Iterator[StandIn]:
    server = StandIn()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture(name="run_module")
def _run_module(
    runner: Any, server: StandIn, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Any:
    monkeypatch.setattr(folders.tempfile, "tempdir", str(tmp_path))
    return runner(vllm_bench, prefix="/srv/vllm", base_url=server.url, **TINY_SERVED)


def test_a_good_run_gives_a_record(run_module: Any, server: StandIn) -> None:
    run = FakeRun(stdout=RANDOM)
    arguments = {"max-num-seqs": "1024", "dtype": "bfloat16", "enforce-eager": True}
    result = run_module(
        run, gpus=1, recipe="llama-3.1-8b", server_arguments=arguments, timeout_seconds=60
    )
    assert set(result) >= ALWAYS
    record = result["record"]
    RECORDS.validate(record)
    assert (record["outcome"], record["reason"], record["gpus"]) == ("ok", None, 1)
    assert record["case"] == "random-llama-3.1-8b-i64o48-n40-rateinf-c8"
    assert record["software"] == {"vllm": "0.32.0+cpu", "server_vllm": "0.32.0"}
    assert record["parameters"] == {
        "profile": "random",
        "model": "/srv/vllm/model",
        "served_model_name": "tiny",
        "recipe": "llama-3.1-8b",
        "endpoint_name": "",
        "server_arguments": '{"dtype":"bfloat16","enforce-eager":true,"max-num-seqs":1024}',
        "base_url": server.url,
        "endpoint": "completions",
        "num_prompts": 40,
        "seed": 42,
        "request_rate": 0.0,
        "ramp_up_start": 0,
        "ramp_up_end": 0,
        "max_concurrency": 8,
        "failed_share_allowed": 0.0,
        "sample_seconds": 2.0,
        "tensor_parallel": 1,
        "data_parallel": 1,
        "asked": ASKED,
        "random_input_tokens": 64,
        "random_output_tokens": 48,
    }
    assert result["ansible_facts"] == {"trueup_vllm": record}
    assert redact(record) == record
    rows = {(row["name"], row.get("statistic")): row["value"] for row in record["metrics"]}
    assert rows["output_token_throughput", "single"] == 84.6545329847703
    assert rows["requests_failed", "single"] == 0
    assert server.asked == ["/health", "/v1/models", "/v1/completions"]

    assert len(run.calls) == 1
    call = run.calls[0]
    assert call["argv"] == [
        *("/srv/vllm/venv/bin/python", "/srv/vllm/vllm_driver.py", "--base-url", server.url),
        *("--sample-seconds", "2", "--", "/srv/vllm/venv/bin/vllm", "bench", "serve"),
        *("--base-url", server.url, "--backend", "vllm", "--endpoint", "/v1/completions"),
        *("--model", "tiny", "--tokenizer", "/srv/vllm/model", "--dataset-name", "random"),
        *("--random-input-len", "64", "--random-output-len", "48", "--num-prompts", "40"),
        *("--seed", "42", "--temperature", "0", "--max-concurrency", "8"),
        *("--percentile-metrics", "ttft,tpot,itl,e2el", "--metric-percentiles", "99"),
        "--disable-tqdm",
    ]
    assert call["timeout_seconds"] == 60
    folder, name = call["environment"]["HF_DATASETS_CACHE"].rsplit("/", 1)
    assert (name, folder.startswith(f"{tempfile.gettempdir()}/")) == ("datasets", True)
    assert call["environment"] == {
        "DO_NOT_TRACK": "1",
        "HF_DATASETS_CACHE": f"{folder}/datasets",
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
    }
    assert (record["command"], record["environment"]) == (call["argv"], call["environment"])


def test_the_key_reaches_the_child_and_nothing_that_is_returned(
    run_module: Any, server: StandIn
) -> None:
    server.key = KEY
    run = FakeRun(stdout=RANDOM, stderr=f"header Bearer {KEY} sent")
    result = run_module(run, api_key=KEY)
    assert run.calls[0]["environment"]["OPENAI_API_KEY"] == KEY
    assert result["record"]["outcome"] == "ok"
    assert KEY not in json.dumps(result)
    failed = run_module(FakeRun(returncode=1, stderr=f"ValueError: {KEY} it is"), api_key=KEY)
    assert failed["record"]["outcome"] == "failed"
    assert KEY not in json.dumps(failed)
    refused = run_module(FakeRun(), api_key=KEY, served_model_name="nope")
    assert KEY not in json.dumps(refused)


def test_check_mode_returns_the_same_keys_and_asks_nobody(run_module: Any, server: StandIn) -> None:
    run = FakeRun(stdout=RANDOM)
    result = run_module(run, check=True, api_key=KEY)
    assert (run.calls, server.asked) == ([], [])
    real = run_module(FakeRun(stdout=RANDOM), api_key=KEY)
    assert set(result) - {"warnings"} == set(real) - {"warnings"}
    assert (result["record"], result["raw"], result["ansible_facts"]) == (None, None, {})
    assert result["command"] == real["command"]
    environments = [each["environment"] for each in (result, real)]
    for environment in environments:
        environment["HF_DATASETS_CACHE"] = Path(environment["HF_DATASETS_CACHE"]).name
    assert environments[0] == environments[1]


test_a_bad_end_gives_a_failed_record_with_the_reason = ends_badly(
    ({"returncode": -9, "timed_out": True}, "failed", "ended at its time limit of 3600 s"),
    ({"stdout": ""}, "failed", "output not understood: no result of vLLM's"),
    ({"stdout": "\x00nonsense"}, "failed", "output not understood"),
    (
        {"returncode": 1, "stderr": "Traceback (most recent call last):\nValueError: no such"},
        "failed",
        "exit status 1 after 4.5 s: ValueError: no such",
    ),
    (
        {"returncode": 69, "stdout": KILLED, "stderr": KILLED_ERROR},
        "failed",
        "(connection refused 25 of 108 times); the first: aiohttp.client_exceptions.ClientPayload",
    ),
    (
        {"returncode": 65, "stdout": NO_MODEL, "stderr": NO_MODEL_ERROR},
        "failed",
        "no request succeeded, 4 failed; the first: Not Found",
    ),
)


@pytest.mark.parametrize(
    ("stdout", "arguments", "reason"),
    [
        (
            KILLED,
            {"max_concurrency": 0},
            "25 of 40 requests failed (62.50%; allowed are 0.00%), the first: aiohttp.client_exce",
        ),
        (KILLED, {"failed_share_allowed": 0.6}, "allowed are 60.00%"),
        (RANDOM, {"num_prompts": 41}, "40 requests were sent instead of 41"),
        (
            RANDOM,
            {"random_output_tokens": 49},
            "40 requests brought 1920 tokens and asked for 1960",
        ),
        (
            "\n".join(line for line in RANDOM.splitlines() if "trueup-vllm {" not in line),
            {},
            "the driver's result line is missing",
        ),
    ],
)
def test_a_run_that_does_not_count_is_invalid(
    run_module: Any, stdout: str, arguments: dict[str, Any], reason: str
) -> None:
    result = run_module(FakeRun(stdout=stdout), **arguments)
    assert result["failed"] is True
    RECORDS.validate(result["record"])
    assert result["record"]["outcome"] == "invalid"
    assert reason in result["record"]["reason"]
    assert "requests_completed" in {row["name"] for row in result["record"]["metrics"]}


@pytest.mark.parametrize(("limit", "kept"), [("ttft", 1), ("tpot", 0)])
def test_a_goodput_by_a_tpot_that_cannot_be_known_is_left_out(limit: str, kept: int) -> None:
    output = parse_vllm(RAMP)
    assert output.goodput is not None
    chosen = SimpleNamespace(goodput_ms={limit: 400.0})
    unknown = {name: output.latencies[name] for name in ("ttft", "e2el")}
    rows = vllm.measured(replace(output, latencies=unknown), chosen)
    assert [row.name for row in rows].count("request_goodput") == kept
    # With a TPOT it stays.
    assert vllm.measured(output, chosen) == output.metrics()


def test_failures_within_the_share_are_allowed_and_shown(run_module: Any) -> None:
    run = FakeRun(stdout=KILLED)
    record = run_module(run, failed_share_allowed=0.7, random_output_tokens=24)["record"]
    assert record["outcome"] == "ok"
    rows = {row["name"]: row["value"] for row in record["metrics"]}
    assert (rows["requests_failed"], rows["requests_completed"]) == (25, 15)


test_bad_input_is_refused_before_anything_runs = refuses(
    ({"base_url": "127.0.0.1:8000"}, "is not an address such as http://127.0.0.1:8000"),
    ({"base_url": "http://127.0.0.1:abc"}, "'http://127.0.0.1:abc' is not an address such as"),
    ({"base_url": "http://127.0.0.1:99999"}, "is not an address such as"),
    ({"base_url": "http://[::1"}, "'http://[::1' is not an address such as"),
    ({"base_url": "http://me:word@host"}, "holds a user or password"),
    ({"model": "", "served_model_name": ""}, "model is empty"),
    ({"num_prompts": -1}, "num_prompts is -1: it must be 0 or more"),
    ({"random_input_tokens": 0}, "random_input_tokens is 0: it must be 1 or more"),
    ({"data_parallel": 0}, "data_parallel is 0: it must be 1 or more"),
    ({"sample_seconds": 0}, "sample_seconds is 0.0: it must be 0.1 or more, 60 or less"),
    (
        {"failed_share_allowed": 1},
        "failed_share_allowed is 1.0: it must be 0 or more, 0.99 or less",
    ),
    ({"request_rate": -1}, "request_rate is -1.0: it must be 0 or more"),
    ({"ramp_up_start": 2}, "ramp_up_start 2 stands without ramp_up_end"),
    ({"ramp_up_start": 5, "ramp_up_end": 2}, "ramp_up_start 5 is above ramp_up_end 2"),
    ({"request_rate": 1, "ramp_up_end": 2}, "exclude each other"),
    ({"goodput_ms": {"itl": 5}}, "goodput_ms 'itl' is unknown; there are: ttft, tpot, e2el"),
    ({"goodput_ms": {"ttft": "soon"}}, "goodput_ms ttft 'soon' is not a number"),
    ({"goodput_ms": {"ttft": -1}}, "is not a positive number"),
    ({"dataset_path": "/srv/x.json"}, "profile random takes no dataset_path"),
    ({"dataset_sha256": "12"}, "is not 64 lower-case hex digits"),
    ({"profile": "chat"}, "profile chat needs share_gpt_turns.json on the node (from https://"),
    ({"profile": "aime"}, "profile aime needs AI-MO/aimo-validation-aime on the node"),
    ({"profile": "custom", "dataset_path": "/srv/x.json"}, "does not end in .jsonl"),
    (
        {"profile": "code_generation", "dataset_path": "/srv/none/github_code.json"},
        "is not on this node: profile code_generation needs github_code.json (from https://",
    ),
    ({"profile": "aime", "dataset_path": __file__}, "is not the folder with the files of"),
    ({"profile": "chat", "dataset_path": "/"}, "is not the file: share_gpt_turns.json"),
    ({"random_input_tokens": 39999}, "asks for 40047 tokens in one request, and the server"),
    ({"served_model_name": "nope"}, "serves tiny and not nope: set served_model_name"),
    ({"base_url": "http://127.0.0.1:9"}, "no server answers at http://127.0.0.1:9 (Conn"),
)


def test_a_server_that_is_not_fit_is_refused(run_module: Any, server: StandIn) -> None:
    server.key = KEY
    assert "wants an API key (HTTP 401)" in run_module(FakeRun())["msg"]
    assert "refuses the API key (HTTP 401)" in run_module(FakeRun(), api_key="wrong")["msg"]
    server.key = ""
    server.completion = 400
    assert "with HTTP 400: no template" in run_module(FakeRun())["msg"]
    for models in ("hello", "[]", "{}", '{"data": null}'):
        server.models = models
        assert "is no vLLM server" in run_module(FakeRun())["msg"]
    server.health = 503
    assert "is not well (HTTP 503)" in run_module(FakeRun())["msg"]


def test_a_server_that_does_not_answer_is_refused(
    run_module: Any, server: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(*_: Any, **__: Any) -> None:
        raise TimeoutError("timed out")

    monkeypatch.setattr(vllm._OPENER, "open", silent)
    message = run_module(FakeRun())["msg"]
    assert f"the server at {server.url} did not answer /health within 60 s" in message


@pytest.fixture(name="talker")
def _talker() -> Iterator[Any]:
    """A program that is no HTTP server: says one thing to each that connects."""
    listener = socket.create_server(("127.0.0.1", 0))
    said = [b"SSH-2.0-OpenSSH_9.2\r\n"]

    def talk() -> None:
        while True:
            try:
                peer, _ = listener.accept()
            except OSError:
                return
            with peer:
                peer.recv(4096)
                peer.sendall(said[0])

    threading.Thread(target=talk, daemon=True).start()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}", said
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (b"SSH-2.0-OpenSSH_9.2\r\n", "does not speak HTTP: set base_url"),
        (b"", "it closed the connection before an answer"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{", "closed the connection before"),
        (b"HTTP/1.1 500 No\r\nContent-Length: 9\r\n\r\n{", "is not well (HTTP 500)"),
    ],
)
def test_a_port_of_another_program_is_refused(
    run_module: Any, talker: Any, answer: bytes, message: str
) -> None:
    url, said = talker
    said[0] = answer
    result = run_module(FakeRun(), base_url=url)
    assert message in result["msg"]
    assert ("\n" in result["msg"], result["record"]) == (False, None)


@pytest.mark.parametrize("name", ["http_proxy", "HTTP_PROXY", "all_proxy"])
def test_no_proxy_is_between(run_module: Any, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert run_module(FakeRun(stdout=RANDOM))["record"]["outcome"] == "ok"


@parametrized(("options", "message"))
def test_what_cannot_be_asked_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        vllm.asked_text(options)


def conversations(path: Path, words: list[int]) -> str:
    entries = [
        {
            "id": str(number),
            "conversations": [
                {"role": "system", "content": "1"},
                {"role": "user", "content": " ".join(str(1000 + n) for n in range(count))},
                {"role": "user", "content": "2"},
            ],
        }
        for number, count in enumerate(words)
    ]
    path.write_text(json.dumps(entries))
    return str(path)


class Keep(FakeRun):
    """Keeps the prompts that the run was given: they are gone after it."""

    prompts: str

    def __call__(self, argv: list[str], **options: Any) -> Any:
        self.prompts = Path(argv[argv.index("--dataset-path") + 1]).read_text()
        return super().__call__(argv, **options)


def test_a_profile_of_the_inference_benchmarker_writes_its_prompts(
    run_module: Any, server: StandIn, tmp_path: Path
) -> None:
    path = conversations(tmp_path / "classification.json", [100, 13000, 13000, 13000, 7000])
    run = Keep(stdout=RANDOM)
    record = run_module(run, profile="classification", dataset_path=path)["record"]
    rows = [json.loads(line) for line in run.prompts.splitlines()]
    assert [8000 <= len(row["prompt"].split()) <= 12000 for row in rows] == [True] * 3
    assert [30 <= row["output_tokens"] <= 80 for row in rows] == [True] * 3
    argv = run.calls[0]["argv"]
    assert argv[argv.index("--backend") + 1] == "openai-chat"
    assert argv[argv.index("--custom-output-len") + 1] == "-1"
    assert record["parameters"]["different_prompts"] == 3
    assert record["parameters"]["dataset_sha256"] == vllm.fingerprint(path)
    assert record["parameters"]["input_tokens"] == "normal(10000, 5000) in 8000..12000"
    assert list(tmp_path.glob("trueup-vllm-*")) == []
    again = Keep(stdout=RANDOM)
    run_module(again, profile="classification", dataset_path=path)
    assert again.prompts == run.prompts


class Downloads(Keep):
    """Prints the path of a downloaded file first, as the command hf does."""

    def __init__(self, path: str, **ending: Any) -> None:
        super().__init__(stdout=RANDOM)
        self.download = FakeRun(stdout=f"{path}\n", **ending)

    def __call__(self, argv: list[str], **options: Any) -> Any:
        if argv[0].endswith("/hf"):
            return self.download(argv, **options)
        return super().__call__(argv, **options)


def test_a_profile_without_a_file_is_downloaded(run_module: Any, tmp_path: Path) -> None:
    path = conversations(tmp_path / "share_gpt_turns.json", [5, 6, 7])
    run = Downloads(path)
    home = tmp_path / "hf"
    home.mkdir()
    given = {"profile": "chat", "downloads_allowed": True, "hf_home": str(home)}
    given["hub"] = "http://mirror.example"
    record = run_module(run, **given)["record"]
    [call] = run.download.calls
    assert call["argv"] == [
        *("/srv/vllm/venv/bin/hf", "download", "--repo-type", "dataset", "--quiet"),
        *("hlarcher/inference-benchmarker", "share_gpt_turns.json"),
    ]
    assert call["environment"]["HF_HOME"] == str(home)
    assert call["environment"]["HF_ENDPOINT"] == "http://mirror.example"
    assert record["parameters"]["dataset_sha256"] == vllm.fingerprint(path)
    assert len(run.prompts.splitlines()) == 3
    # A folder of another user holds the model, and nothing can be added to it.
    of_another_user = Downloads(path)
    run_module(of_another_user, **{**given, "hf_home": "/mnt/hf"})
    assert "HF_HOME" not in of_another_user.download.calls[0]["environment"]
    assert of_another_user.calls[0]["environment"]["HF_HOME"] == "/mnt/hf"
    checked = Downloads(path)
    run_module(checked, check=True, **given)
    assert (checked.download.calls, checked.calls) == ([], [])


@parametrized(("path", "ending", "cause"))
def test_a_download_that_fails_names_the_file_and_the_variable(
    run_module: Any, path: str, ending: dict[str, Any], cause: str
) -> None:
    result = run_module(Downloads(path, **ending), profile="chat", downloads_allowed=True)
    assert result["msg"] == (
        "share_gpt_turns.json of profile chat cannot be downloaded from Hugging Face"
        f" {cause}: give the file as dataset_path (vllm_datasets)"
    )


@parametrized(("text", "message"))
def test_a_dataset_of_another_kind_is_refused(
    run_module: Any, tmp_path: Path, text: str, message: str
) -> None:
    path = tmp_path / "github_code.json"
    path.write_text(text)
    result = run_module(FakeRun(), profile="code_generation", dataset_path=str(path))
    assert message in result["msg"]
    assert result["record"] is None


def test_a_custom_file_is_checked_and_passed_on(run_module: Any, tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    given = {"profile": "custom", "dataset_path": str(path), "request_rate": 2.5}
    for text, message in (
        ("", "holds no prompts"),
        ('{"prompt": "x"}\n', "line 1: an object with prompt and a positive output_tokens"),
        ("nonsense\n", "is not UTF-8 JSON lines"),
    ):
        path.write_text(text)
        assert message in run_module(FakeRun(), **given)["msg"]
    path.write_text('{"prompt": "x", "output_tokens": 5}\n')
    wrong = run_module(FakeRun(), dataset_sha256="0" * 64, **given)
    assert "has sha256" in wrong["msg"]
    run = FakeRun(stdout=RANDOM)
    good = run_module(run, dataset_sha256=vllm.fingerprint(str(path)), **given)
    argv = run.calls[0]["argv"]
    assert argv[argv.index("--dataset-path") + 1] == str(path)
    assert argv[argv.index("--request-rate") + 1] == "2.5"
    assert good["record"]["case"] == "custom-tiny-n40-rate2.5-c8"


@pytest.mark.parametrize(
    ("gpus", "ramp", "prompts"), [(8, ["1", "10"], "400"), (0, ["1", "2"], "200")]
)
def test_aime_is_the_articles_ramp(
    run_module: Any, tmp_path: Path, gpus: int, ramp: list[str], prompts: str
) -> None:
    folder = tmp_path / "aime"
    folder.mkdir()
    (folder / "train.parquet").write_bytes(b"x")
    run = FakeRun(stdout=RANDOM)
    result = run_module(
        run, profile="aime", dataset_path=str(folder), gpus=gpus, num_prompts=0, max_concurrency=0
    )
    argv = result["command"]
    at = argv.index("--ramp-up-start-rps")
    assert [argv[at + 1], argv[at + 3]] == ramp
    assert argv[argv.index("--num-prompts") + 1] == prompts
    assert argv[argv.index("--hf-name") + 1] == "AI-MO/aimo-validation-aime"
    assert "--request-rate" not in argv
    online = run_module(FakeRun(), check=True, profile="aime", downloads_allowed=True)
    argv = online["command"]
    assert argv[argv.index("--dataset-path") + 1] == "AI-MO/aimo-validation-aime"
    assert "HF_HUB_OFFLINE" not in online["environment"]
    assert "HF_ENDPOINT" not in online["environment"]
    hub = {"hub": "https://mirror.example/hf", "downloads_allowed": True}
    mirrored = run_module(FakeRun(), check=True, profile="aime", **hub)["environment"]
    assert mirrored["HF_ENDPOINT"] == "https://mirror.example/hf"


def test_a_warm_up_is_sent_and_recorded_where_there_is_one(
    run_module: Any, server: StandIn
) -> None:
    warm = run_module(FakeRun(stdout=RANDOM), warmup_requests=8)["record"]
    cold = run_module(FakeRun(stdout=RANDOM))["record"]
    at = warm["command"].index("--num-warmups")
    assert (warm["command"][at + 1], warm["parameters"]["warmup_requests"]) == ("8", 8)
    # An earlier record, which knows no such option, is of the same work as one without.
    assert ("--num-warmups" in cold["command"], "warmup_requests" in cold["parameters"]) == (
        False,
        False,
    )


def test_a_record_of_the_run_stands_for_its_case(
    run_module: Any, server: StandIn, tmp_path: Path
) -> None:
    one, other = tmp_path / "one.jsonl", tmp_path / "other.jsonl"
    for path in (one, other):
        path.write_text('{"prompt": "p", "output_tokens": 2}\n')
    own = {"profile": "custom", "dataset_path": str(one)}
    changed = {
        "prefix": "/opt/vllm",
        "base_url": "http://127.0.0.1:9",
        "model": "/srv/vllm/other",
        "served_model_name": "other",
        "tokenizer": "/srv/tokenizer",
        "recipe": "llama-3.1-8b",
        "endpoint_name": "chat",
        "server_arguments": {"max-num-seqs": 64},
        "profile": "aime",
        "dataset_path": str(other),
        "dataset_sha256": hashlib.sha256(one.read_bytes()).hexdigest(),
        "downloads_allowed": True,
        "hf_home": "/srv/hf",
        "hub": "https://mirror.example",
        "num_prompts": 20,
        "request_rate": 2.0,
        "ramp_up_start": 2,
        "ramp_up_end": 9,
        "max_concurrency": 4,
        "endpoint": "chat",
        "random_input_tokens": 32,
        "random_output_tokens": 32,
        "seed": 7,
        "warmup_requests": 8,
        "goodput_ms": {"ttft": 500},
        "failed_share_allowed": 0.5,
        "sample_seconds": 1.0,
        "gpus": 1,
        "tensor_parallel": 2,
        "data_parallel": 2,
        "nodes": ["node-1", "node-2"],
    }
    along = {
        "profile": {"downloads_allowed": True},
        "dataset_path": own,
        "dataset_sha256": own,
        "ramp_up_start": {"ramp_up_end": 10},
    }
    resumes(
        run_module,
        lambda: FakeRun(stdout=RANDOM),
        vllm_bench,
        changed,
        along=along,
        idle={"api_key": KEY},
    )
