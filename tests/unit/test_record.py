"""Records: written whole or not at all, never over another, never with a secret."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import jsonschema
import pytest
from helpers import a_record
from hypothesis import given
from hypothesis import strategies as st
from trueup import record as records
from trueup.benchmarks.vllm.output import parse_vllm
from trueup.errors import BadInput, TrueupError

DATA = Path(__file__).parent.parent / "data"
# Every recorded output of every tool; azurite holds a list of packages.
OUTPUTS = sorted(
    path
    for path in DATA.rglob("*")
    if path.is_file() and path.suffix != ".md" and path.parent.name != "azurite"
)
SCHEMA = json.loads(Path(records.__file__).with_name("record.schema.json").read_text())


def test_a_written_record_satisfies_the_schema_and_points_to_its_raw_output(tmp_path: Path) -> None:
    path = Path(records.write_record(str(tmp_path), a_record(), "the tool's words\n"))
    written = json.loads(path.read_text())
    jsonschema.validate(written, SCHEMA)
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


def test_a_number_that_json_cannot_carry_is_refused(tmp_path: Path) -> None:
    broken = a_record()
    broken["metrics"][0]["value"] = float("nan")
    with pytest.raises(TrueupError, match="JSON cannot carry"):
        records.write_record(str(tmp_path), broken)


@pytest.mark.parametrize(
    ("given_value", "expected"),
    [
        ({"HF_TOKEN": "abc"}, {"HF_TOKEN": "***"}),
        ({"OMP_NUM_THREADS": "4"}, {"OMP_NUM_THREADS": "4"}),
        ({"max_tokens": "5"}, {"max_tokens": "5"}),
        (["vllm", "--api-key", "s3cr3t"], ["vllm", "--api-key", "***"]),
        (["vllm", "--api-key=s3cr3t"], ["vllm", "--api-key=***"]),
        (["x", "--max-tokens", "5"], ["x", "--max-tokens", "5"]),
        ("password: hunter2 next", "password: *** next"),
        ("Authorization: Bearer abcdefghijklmnop", "Authorization: Bearer ***"),
        ("https://a.blob/x?sv=1&sig=AbCdEfGh12345678&x=1", "https://a.blob/x?sv=1&sig=***&x=1"),
        ("got hf_abcdefghijklmnopqrst here", "got *** here"),
        ("total_output_tokens: 5", "total_output_tokens: 5"),
        ('{"total_token_throughput": 311.7}', '{"total_token_throughput": 311.7}'),
        ('{"long-prefill-token-threshold":2048}', '{"long-prefill-token-threshold":2048}'),
        ('{"return-token-ids":true,"x":1}', '{"return-token-ids":true,"x":1}'),
        ("time_per_output_token=1.5e-3, x", "time_per_output_token=1.5e-3, x"),
        ({"total_token_throughput": "311.7"}, {"total_token_throughput": "311.7"}),
        (
            ["x", "--long-prefill-token-threshold", "9"],
            ["x", "--long-prefill-token-threshold", "9"],
        ),
        ("hf_token=4f9a2c, x", "hf_token=***, x"),
        ("token=123456", "token=***"),
        ("hf_token=None, x", "hf_token=None, x"),
        (["x", "--hf-token", "1234"], ["x", "--hf-token", "***"]),
        ('"hf_token": "4711"', '"hf_token": ***'),
        ('"token": 12ab}', '"token": ***'),
        ("password: 4711 next", "password: *** next"),
        ({"password": "4711"}, {"password": "***"}),
        ("token_secret=4711", "token_secret=***"),
    ],
)
def test_redaction(given_value: object, expected: object) -> None:
    assert records.redact(given_value) == expected


@pytest.mark.parametrize("path", OUTPUTS, ids=lambda path: str(path.relative_to(DATA)))
def test_no_tools_output_is_changed(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert records.redact(text) == text


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
    read = list(records.read_records(str(folder)))
    bad = {os.path.basename(path): reason for path, record, reason in read if record is None}
    assert sorted(bad) == ["broken.json", "other.json"]
    assert bad["other.json"] == "not a trueup.record/1 object"
    assert sum(record is not None for _, record, _ in read) == 20


def test_a_run_id_is_made_from_a_utc_time() -> None:
    assert records.is_run_id(records.new_run_id("20261120T091300Z"))
    with pytest.raises(BadInput, match="yesterday"):
        records.new_run_id("yesterday")
