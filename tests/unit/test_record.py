"""Records: written whole or not at all, never over another, never with a secret."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import a_record, parametrized
from hypothesis import given
from hypothesis import strategies as st
from record_schema import RECORDS
from trueup_node import record as records
from trueup_node.benchmarks.vllm.output import parse_vllm
from trueup_node.errors import BadInput, TrueupError
from trueup_node.redaction import redact

DATA = Path(__file__).parent.parent / "data"
# Every recorded output of every tool; azurite holds a list of packages, azure what trueup writes,
# .cases are inputs and results of functions.
OUTPUTS = sorted(
    path
    for path in DATA.rglob("*")
    if path.is_file()
    and path.suffix not in (".md", ".cases")
    and path.parent.name not in ("azurite", "azure", "cases")
)


def test_a_written_record_satisfies_the_schema_and_points_to_its_raw_output(tmp_path: Path) -> None:
    path = Path(records.write_record(str(tmp_path), a_record(), "the tool's words\n"))
    written = json.loads(path.read_text())
    RECORDS.validate(written)
    raw = path.parent / written["raw"]["path"]
    assert raw.read_text() == "the tool's words\n"
    assert hashlib.sha256(raw.read_bytes()).hexdigest() == written["raw"]["sha256"]
    assert path.parent.name == written["run_id"]


def test_a_second_writer_of_the_same_case_adds_a_file(tmp_path: Path) -> None:
    first = records.write_record(str(tmp_path), a_record(), "one")
    second = records.write_record(str(tmp_path), a_record(), "two")
    assert first != second
    assert len(list(Path(first).parent.glob("*.json"))) == 2
    assert (
        json.loads(Path(first).read_text())["raw"]["path"]
        != (json.loads(Path(second).read_text())["raw"]["path"])
    )


@pytest.mark.parametrize(("umask", "mode"), [(0, 0o640), (0o022, 0o640), (0o077, 0o600)])
def test_others_read_no_file_of_a_run(tmp_path: Path, umask: int, mode: int) -> None:
    before = os.umask(umask)
    try:
        records.write_record(str(tmp_path), a_record(), "the tool's words\n")
        records.write_manifest(str(tmp_path), {"run_id": a_record()["run_id"], "hosts": {}})
    finally:
        os.umask(before)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert (len(files), {path.stat().st_mode & 0o7777 for path in files}) == (3, {mode})


def test_nothing_is_left_when_the_disk_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(TrueupError, match="No space left on device"):
        records.write_record(str(tmp_path), a_record(), "raw")
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("run_id", ["../../etc", "", "20261120T091300Z", "20261120T091300Z-7c1e/x"])
def test_a_run_id_cannot_lead_out_of_the_results_folder(tmp_path: Path, run_id: str) -> None:
    with pytest.raises(BadInput, match="run_id"):
        records.write_record(str(tmp_path), a_record(run_id=run_id))
    assert list(tmp_path.iterdir()) == []


def test_a_case_or_node_cannot_lead_out_of_the_run_folder(tmp_path: Path) -> None:
    path = records.write_record(str(tmp_path), a_record(case="../../x", nodes=["a/../../b"]))
    assert Path(path).parent.parent == tmp_path


@pytest.mark.parametrize("value", [float("nan"), {1, 2}])
def test_a_manifest_that_json_cannot_carry_leaves_the_one_before(
    tmp_path: Path, value: object
) -> None:
    manifest = {"run_id": "20261120T091300Z-7c1e", "hosts": {}}
    path = Path(records.write_manifest(str(tmp_path), manifest))
    with pytest.raises(TrueupError, match=r"run.json would hold what JSON cannot carry"):
        records.write_manifest(str(tmp_path), {**manifest, "odd": value})
    assert json.loads(path.read_text()) == manifest


def test_a_number_that_json_cannot_carry_is_refused(tmp_path: Path) -> None:
    broken = a_record()
    broken["metrics"][0]["value"] = float("nan")
    with pytest.raises(TrueupError, match="JSON cannot carry"):
        records.write_record(str(tmp_path), broken)


@parametrized(("given_value", "expected"))
def test_redaction(given_value: object, expected: object) -> None:
    assert redact(given_value) == expected


KEY_86 = "Abc+/9" * 14 + "xY=="
KEY_44 = "q8Zr0" * 8 + "abc="
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
SAS = "sv=2024-11-04&ss=b&se=2026-11-21T00%3A00%3A00Z"
PEM = "\n".join(
    [
        "-----BEGIN RSA PRIVATE KEY-----",
        "Proc-Type: 4,ENCRYPTED",
        "DEK-Info: AES-128-CBC,0123456789ABCDEF",
        "",
        *["MIIEpAIBAAKCAQEA" + "x9Kq" * 12] * 3,
        "s3cr3tTail==",
        "-----END RSA PRIVATE KEY-----",
    ]
)
# What is written, with the secret in it as {}.
SECRETS = [
    ("DefaultEndpointsProtocol=https;AccountName=lab;AccountKey={};EndpointSuffix=x.net", KEY_86),
    ("Endpoint=sb://a.net/;SharedAccessKeyName=Root;SharedAccessKey={};EntityPath=q", KEY_44),
    ("BlobEndpoint=https://a.net/;SharedAccessSignature={}", SAS + "&sig=x%2BQ9ab8kL2mN%3D"),
    ("HostName=a.net;DeviceId=d;SharedAccessKey={}", KEY_44),
    ("Server=tcp:a.net,1433;User ID=me;Pwd={};Encrypt=True", "hunter2"),
    ("AZURE_STORAGE_KEY={}", KEY_86),
    ("export AZURE_STORAGE_ACCOUNT_KEY='{}'", KEY_86),
    ("AccountKey%3D{}", "Abc9%2B8d%3D%3D"),
    ('{{"accountKey": "{}", "x": 1}}', KEY_86),
    ('"primaryKey": "{}",', KEY_44),
    ("Ocp-Apim-Subscription-Key: {}", "0123456789abcdef0123456789abcdef"),
    ("a key by its shape alone: {} .", KEY_86),
    ("the secret of an application: {}", "a1B8Q~" + "kL3_mN.pQ-" * 3 + "abcd"),
    ("one of the newer keys: {}", "Ab3" * 17 + "xJQQJ99ALACYeBjFXJ3w3AAAEACOGaBcD"),
    ("az storage blob list --account-key {} --output table", KEY_86),
    ("vllm serve --api-key {} --port 8000", "s3cr3t"),
    ("https://a.net/c?" + SAS + "&sig={}&sp=r", "AbCdEfGh12345678"),
    (SAS.replace("&", "\n") + "\nsig={}", "AbCdEfGh12345678%3D"),
    ("sig={}", "AbCdEfGh12345678%3D"),
    ("u=https%3A%2F%2Fa.net%2Fc%3Fsv%3D2024%26sig%3D{}%26se%3D2026", "AbCdEfGh%252B12345678%253D"),
    ('{{"url":"https://a.net/c?sv=2024\\u0026sig={}\\u0026se=2026"}}', "AbCdEfGh12345678%3D"),
    ("<a href='https://a.net/c?sv=2024&amp;sig={}&amp;se=x'>", "AbCdEfGh12345678%3D"),
    ("Authorization: Basic {}", "dXNlcjpwYXNz"),
    ('"authorization": "Basic {}"', "dXNlcjpwYXNz"),
    ("> proxy-authorization: basic {}", "dXNlcjpwYXNz"),
    ("Authorization: Bearer {}", "abcdefghijklmnop"),
    ("curl -H 'Authorization: SharedKey {}' https://a.net", "lab:" + KEY_44),
    ("used bearer {} and went on", "abcdef1234567890"),
    ("git clone https://me:{}@github.com/a/b", "p4ss"),
    ("amqp://:{}@a.net:5671/x", "p@ss:word"),
    ("http_proxy=http://me:{}@10.0.0.4:3128", "p4ss"),
    ("got {} from the login", JWT),
    ("?access=1&id_jwt={}&x=1", JWT),
    ("Bearer%20{}", JWT),
    ("HF_TOKEN={}", "4711abc"),
    ("found {} in the cache", "hf_abcdefghijklmnopqrst"),
    ("found {} in the cache", "ghp_abcdefghijklmnopqrst0123"),
    ("found {} in the cache", "github_pat_11ABCDEFG0_abcdefghijklmnop"),
    ("found {} in the cache", "nvapi-abcdefghijklmnop_0123456789"),
    ('password="{}', "cut off at the line's end"),
    (r'{{"env": "{{\"password\": \"{}\"}}"}}', "hunter2"),
    ("'client_secret' => '{}'", "hunter2"),
]
# A secret of each shape that detect-secrets 1.5 has a rule for, of services that a node of an HPC
# cluster talks to, and that does not stand above; and
# what is as near to it as such outputs come. No such rule: those for strings of high entropy and
# public addresses. Its shapes by name stand under `keyword`.
_A40 = "aB3dE5gH7jK9mN1pQ2sT" * 2
OF_DETECT_SECRETS = {
    "aws": ("AKIA" + "ABCD2345" * 2, "AKIAN AKIA_ABCD2345ABCD2345 xAKIA" + "ABCD2345" * 2),
    "gitlab": ("glpat-" + _A40[:20], "glibc-2.36-9+deb12u13 global-batch-size-of-each-device"),
    "gitlab runner": ("GR1348941" + _A40[:20], "GR1348941"),
    "gitlab job": ("glcbt-64_" + _A40[:20], "glcbt-64_short"),
    "gitlab mail": ("glimt-" + _A40[:25], "glimt-short"),
    "gitlab trigger": ("glptt-" + _A40, "glptt-short"),
    "gitlab agent": ("glagent-" + _A40 + _A40[:10], "glagent-1.2.3"),
    "gitlab application": ("gloas-" + _A40 + _A40[:24], "gloas-short"),
    "openai": ("sk-" + _A40[:20] + "T3BlbkFJ" + _A40[:20], "sk-learn task-" + _A40),
    "pypi": ("pypi-AgEIcHlwaS5vcmc" + _A40 * 2, "pypi-mirror pypi-AgE"),
}
# Names by which its rules `keyword`, `cloudant`, `ibm_cloud_iam` and `ibm_cos_hmac` know a secret.
NAMES_OF_DETECT_SECRETS = [
    *("api_key", "apikey", "auth_key", "service_key", "account-key", "db_key", "database_key"),
    *("priv_key", "private_key", "client_key", "db_pass", "database_pass", "key_pass", "password"),
    *("passwd", "my_pwd", "secret", "contraseña", "contrasena", "PRIVATE_KEY", "cloudant_password"),
    *("ibm_cloud_iam_api_key", "cos_hmac_secret_access_key", "aws_secret_access_key"),
]
NO_SECRETS = [
    "id 3f2504e0-4f89-41d3-9a0c-0305e82c3301, tenant=72f988bf-86f1-41af-91ab-2d7cd011db47",
    "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08  model.safetensors",
    "sha512-" + KEY_86,
    "commit 1ca8cc5f0b1a2c3d4e5f60718293a4b5c6d7e8f9",
    "numactl --membind=0 --physcpubind=0-23,48-71 mask 0xffffffff,00000000",
    "Cpus_allowed: ffffffff,ffffffff,ffffffff",
    "tokens_per_second=5 max_tokens: 512 --max-tokens 5 tokenizer=/models/a total_tokens=7",
    "--tokenizer-mode auto --max-num-batched-tokens 8192 --long-prefill-token-threshold 9",
    "Latency per token: 12.5 ms, per output token: 9, inter-token: 3.5",
    '{"long_token_threshold": "2048"}',
    "https://host:8080/path@1.0 ssh://git@github.com/a http://[::1]:8000/v1 tcp://10.0.0.4:41041",
    "AccountName=lab;SharedAccessKeyName=Root;EndpointSuffix=core.windows.net",
    "aws_access_key_id = arn:of/a-key service_key_name=x private_key_file: /root/.ssh/id",
    "signal=SIGTERM design=abcdefghijklmnop sig=SIGTERM",
    "WWW-Authenticate: Basic realm=x; bearer certificate-holders; basic aarch64 build",
    "json::token::parse at lib.so, token ring, no token was given, keys: 7, monkey=4",
    "PWD=/root/work OLDPWD=/root",
    "-----BEGIN CERTIFICATE-----\nMIIEpAIBAAKCAQEA\n-----END CERTIFICATE-----",
    "-----BEGIN PUBLIC KEY-----\nMIIEpAIBAAKCAQEA\n-----END PUBLIC KEY-----",
    "eyJ is how one begins; eyJhbGciOiJIUzI1NiJ9 alone is a header",
    "----------Inter-token Latency----------",
]


@pytest.mark.parametrize(("text", "secret"), SECRETS)
def test_a_secret_is_hidden_and_what_stands_around_it_is_not(text: str, secret: str) -> None:
    redacted = redact(text.format(secret))
    assert (secret in redacted, "***" in redacted) == (False, True)
    assert redacted.startswith(re.split(r"[\"']?\{\}", text.replace("{{", "{"))[0][:-1])
    assert redact(redacted) == redacted


@pytest.mark.parametrize("rule", OF_DETECT_SECRETS)
def test_each_shape_that_detect_secrets_knows(rule: str) -> None:
    secret, other = OF_DETECT_SECRETS[rule]
    for text in ("{}", "found {} in the cache", '"value": "{}",', "x={}\n"):
        redacted = redact(text.format(secret))
        assert re.search(r"\*\*\*(?:\Z|[ \"\n])", redacted)
        assert not any(part in redacted for part in re.findall(r"[^/]{12}\Z", secret))
        assert redact(redacted) == redacted
        assert redact(text.format(other)) == text.format(other)


@pytest.mark.parametrize("name", NAMES_OF_DETECT_SECRETS)
def test_each_name_by_which_detect_secrets_knows_one(name: str) -> None:
    for text in ("{}=hunter2", '"{}": "hunter2"', "--{} hunter2 --x", "{} := hunter2"):
        assert "hunter2" not in redact(text.format(name))
    assert redact({name: "hunter2"}) == {name: "***"}


@pytest.mark.parametrize("text", NO_SECRETS)
def test_what_only_resembles_a_secret_stays(text: str) -> None:
    assert redact(text) == text


def test_a_private_key_over_several_lines_is_hidden() -> None:
    begin, *_, end = PEM.splitlines()
    assert redact(f"a\n{PEM}\nb\n{PEM}") == f"a\n{begin}***{end}\nb\n{begin}***{end}"
    assert redact(json.dumps({"k": PEM})) == json.dumps({"k": f"{begin}***{end}"})
    assert redact(PEM.replace("RSA ", "OPENSSH ")).count("***") == 1
    # Cut off, as the end of a long output may be; and one that is only spoken of.
    assert redact(PEM[: PEM.index("s3cr3t") + 8]) == f"{begin}***"
    assert redact(f"{begin} is missing\nstep 1\n{PEM}") == (
        f"{begin}*** is missing\nstep 1\n{begin}***{end}"
    )


def test_names_in_mappings_and_options_in_lists_hide_their_values() -> None:
    assert redact({"AccountKey": "x", "authorization": ["Basic x"], "sig": "x"}) == {
        "AccountKey": "***",
        "authorization": ["***"],
        "sig": "***",
    }
    assert redact(["azcopy", "--storage-key", "x", -5, "y"]) == [
        *("azcopy", "--storage-key", "***", -5, "y")
    ]


# Units that a search could begin again at each of their characters.
FLOODS = [
    *(
        "a",
        "1",
        " ",
        "\n",
        "\\",
        '"',
        "'",
        "-",
        "=",
        "a=",
        "a=a=",
        "token",
        "token ",
        "token=",
        "key",
    ),
    *(
        'token="',
        "token='\"",
        'token="\\',
        "token\\",
        '\\"token\\": ',
        "account_key",
        "--token ",
        "--a-",
    ),
    *("per_token", "eyJ", "eyJaaaaaaaaaaaa.", "://", "://a:", "://a:b@", "sig=", "&sig", "sig%3D"),
    *("-----BEGIN PRIVATE KEY-----\n", "-----BEGIN ", "-----END PRIVATE KEY-----", "PRIVATE KEY"),
    *(
        "bearer ",
        "authorization: ",
        "authorization: basic ",
        "a8Q~",
        "JQQJ99",
        "hf_",
        "sk-",
        ";pwd=",
    ),
    *(
        "AP4",
        "AKIA",
        "MA",
        "M.",
        ":AA",
        "1:A",
        "SK",
        "AC0",
        "-us1",
        "0a",
        "xox",
        "glpat-",
        "db_pass",
        "private_key",
    ),
    "Abc9+/xY",
    *(
        "curl ",
        "curl -u a:",
        "docker login ",
        "login a\npassword b\n",
        "wandb login a1 ",
        "pass=a ",
    ),
    *("name: token\n", 'value: "a", "name": "token', "setenv token ", 'auth="', "token=|\n a"),
    *("LS0tLS1CRUdJT\n", "%3D%3D", "a\n-----END PRIVATE KEY-----\n", "***\nAbC123AbC123AbC123\n"),
    *("curl \\\n", "name: token\\", "docker a ", "a_pass "),
]


# Each of the given texts has ten seconds of this process's own time; then SIGPROF ends it.
REDACT_EACH = """
import json, signal, sys
from trueup_node.redaction import redact
for text in json.load(sys.stdin):
    print(text[:40], flush=True)
    signal.setitimer(signal.ITIMER_PROF, 10)
    redact(text)
"""


def test_the_time_is_linear_in_the_length_of_any_text() -> None:
    """Each takes less than half a second; squared, what took 27 s at 32,000 would take 27 min."""
    length = 250_000
    texts = [unit * (length // len(unit)) for unit in FLOODS]
    texts += [
        begin + unit * length
        for begin in ("token", "token=", "authorization:", "://", "://a:", "eyJ", "--token")
        for unit in (" ", "a")
    ]
    done = subprocess.run(
        [sys.executable, "-c", REDACT_EACH],
        input=json.dumps(texts),
        env={"PYTHONPATH": str(Path(records.__file__).parents[1])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), f"too slow: {done.stdout[-40:]!r}"


@pytest.mark.parametrize("path", OUTPUTS, ids=lambda path: str(path.relative_to(DATA)))
def test_no_tools_output_is_changed(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert redact(text) == text


@pytest.mark.parametrize("name", ["random", "killed", "ramp_goodput", "storm"])
def test_a_stored_output_of_vllm_can_be_read(tmp_path: Path, name: str) -> None:
    text = (DATA / "vllm" / f"vllm032_driver_{name}.log").read_text()
    path = Path(records.write_record(str(tmp_path), a_record(), text))
    stored = path.parent / json.loads(path.read_text())["raw"]["path"]
    assert parse_vllm(stored.read_text()) == parse_vllm(text)


def test_secrets_reach_neither_the_record_nor_the_raw_output(tmp_path: Path) -> None:
    secret = "hf_" + "a" * 24
    record = a_record(environment={"HF_TOKEN": secret}, command=["x", "--token", secret])
    path = Path(records.write_record(str(tmp_path), record, f"using token={secret}\n"))
    everything = "".join(file.read_text() for file in path.parent.iterdir())
    assert secret not in everything
    assert everything.count("***") >= 3


@given(st.lists(st.floats(min_value=1e-9, max_value=1e9), min_size=1, max_size=20))
def test_summaries_bracket_their_median(values: list[float]) -> None:
    rows = {row.statistic: row for row in records.summarise("t", values, "s", "lower")}
    assert rows["min"].value == min(values)
    assert rows["max"].value == max(values)
    assert rows["min"].value <= rows["median"].value <= rows["max"].value
    assert {row.n for row in rows.values()} == {len(values)}


def test_no_values_have_no_summary() -> None:
    with pytest.raises(BadInput, match="t: no values"):
        records.summarise("t", [], "s", "lower")


def test_reading_reports_one_bad_file_among_many_and_reads_the_rest(tmp_path: Path) -> None:
    for number in range(20):
        records.write_record(str(tmp_path), a_record(case=f"c{number}"))
    folder = tmp_path / a_record()["run_id"]
    (folder / "broken.json").write_text("{")
    (folder / "other.json").write_text("[]")
    (folder / "deep.json").write_text("[" * 100_000)
    (folder / "loop.json").symlink_to("loop.json")
    (folder / "zero.json").symlink_to("/dev/zero")
    # What nobody writes to would be waited for.
    os.mkfifo(folder / "pipe.json")
    read = list(records.read_records(str(folder)))
    bad = {os.path.basename(path): reason for path, record, reason in read if record is None}
    names = [f"{name}.json" for name in ("broken", "deep", "loop", "other", "pipe", "zero")]
    assert sorted(bad) == names
    assert bad["other.json"] == "not a trueup.record/1 object"
    assert [bad[name] for name in names[-2:]] == ["[Errno 22] not a regular file"] * 2
    assert sum(record is not None for _, record, _ in read) == 20


def test_a_manifest_that_is_none_keeps_no_run_from_beginning(tmp_path: Path) -> None:
    ids = [f"20261120T09130{number}Z-7c1e" for number in range(4)]
    for run_id in ids:
        (tmp_path / run_id).mkdir()
    os.mkfifo(tmp_path / ids[0] / "run.json")
    (tmp_path / ids[1] / "run.json").write_text("[" * 100_000)
    (tmp_path / ids[2] / "run.json").write_text('{"count": 7}')
    assert records.run_counts(str(tmp_path)) == {ids[0]: 0, ids[1]: 0, ids[3]: 0, ids[2]: 7}


def test_a_run_id_is_made_from_a_utc_time() -> None:
    assert records.is_run_id(records.new_run_id("20261120T091300Z"))
    with pytest.raises(BadInput, match="yesterday"):
        records.new_run_id("yesterday")


def _begun(folder: str, number: int) -> None:
    run_id = f"20261123T1400{number:02d}Z-cafe"
    manifest = records.new_manifest(run_id, 0, "site.yml", "2026-11-23T14:00:00Z")
    records.write_manifest(folder, manifest)


def test_runs_that_begin_at_once_have_counts_of_their_own(tmp_path: Path) -> None:
    forking = multiprocessing.get_context("fork")
    begun = [forking.Process(target=_begun, args=(str(tmp_path), number)) for number in range(8)]
    for process in begun:
        process.start()
    for process in begun:
        process.join()
    assert sorted(records.run_counts(str(tmp_path)).values()) == [1, 2, 3, 4, 5, 6, 7, 8]
