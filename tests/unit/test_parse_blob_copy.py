"""Outputs of trueup-blob-copy: recorded ones and what must be read from them, or refused."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trueup_node.benchmarks.blob_copy.output import parse_blob_copy
from trueup_node.benchmarks.blob_copy.signatures import DRIVER_PREFIX, SIGNATURE
from trueup_node.errors import ParseError

DATA = Path(__file__).parent.parent / "data" / "blob_copy"
EIGHT = (DATA / "eight_copies.txt").read_text()
SLOW = (DATA / "two_copies_progress.txt").read_text()
ROUGH = (DATA / "throttled.txt").read_text()
RESUMED = (DATA / "resumed.txt").read_text()
AZCOPY = (DATA / "azcopy_synthetic.txt").read_text()
MIB = 1024**2


def result(text: str) -> dict[str, Any]:
    [line] = [line for line in text.splitlines() if line.startswith(DRIVER_PREFIX)]
    found: dict[str, Any] = json.loads(line.removeprefix(DRIVER_PREFIX))
    return found


def sealed(data: dict[str, Any]) -> str:
    """As the program writes it: with the digest of what is in it now."""
    data.pop("digest", None)
    text = json.dumps(data, sort_keys=True, separators=(",", ":"))
    data["digest"] = hashlib.sha256(text.encode()).hexdigest()
    return DRIVER_PREFIX + json.dumps(data) + "\n"


def values(text: str) -> dict[tuple[str, str | None], float]:
    return {(row.name, row.device): row.value for row in parse_blob_copy(text).metrics()}


def test_eight_copies_at_once() -> None:
    output, told = parse_blob_copy(EIGHT), result(EIGHT)
    assert output.tool_version == "12.31.1"
    assert output.checks == {"checksums": True}
    assert output.warnings == []
    assert output.parameters == {
        "copies": "8",
        "cap_bits_per_second": "100000000",
        "limit_bits_per_second": "20000000000",
        "cores_per_copy": "0",
        "size_bytes": str(256 * MIB),
        "program": "azure-storage-blob",
        "checksum": "md5",
    }
    got = values(EIGHT)
    assert got["upload_rate", None] == 256 * MIB * 8 / told["seconds"]
    assert got["upload_time", None] == told["seconds"]
    assert got["uploaded_bytes", None] == 256 * MIB
    for number in range(8):
        seconds = told["copies"][number]["seconds"]
        assert got["upload_rate", f"copy{number}"] == 32 * MIB * 8 / seconds
        assert got["upload_rate", f"copy{number}"] <= 100e6
    units = {(row.name, row.unit, row.direction) for row in output.metrics()}
    assert units == {
        ("upload_rate", "bit/s", "higher"),
        ("upload_time", "s", "lower"),
        ("verify_time", "s", "lower"),
        ("uploaded_bytes", "byte", "none"),
        ("resumed_bytes", "byte", "none"),
        ("retries", "1", "lower"),
        ("throttled", "1", "lower"),
    }


def test_progress_on_standard_error_is_no_figure() -> None:
    output = parse_blob_copy(SLOW)
    assert "trueup-blob-copy: copy 0: " in SLOW
    assert (output.verify, len(output.copies), output.cap) == ("download", 2, 40e6)


def test_a_rough_way_is_counted() -> None:
    output = parse_blob_copy(ROUGH)
    [copy] = output.copies
    counted = (copy.throttled, copy.lost, copy.corrupted, copy.server_errors, copy.retries)
    assert counted == (2, 1, 1, 1, 5)
    assert (copy.uploaded_bytes, copy.sent_bytes) == (40 * MIB, 80 * MIB)
    # A rate of what arrived, not of what was sent again.
    assert values(ROUGH)["upload_rate", None] == 40 * MIB * 8 / output.seconds
    assert [line.split(":")[0] for line in output.warnings] == [
        "the account throttled 2 request(s)",
        "1 block(s) arrived altered and were sent again",
    ]


def test_a_resumed_run_says_what_was_there() -> None:
    got = values(RESUMED)
    assert got["resumed_bytes", None] == 24 * MIB
    assert got["uploaded_bytes", None] == 16 * MIB
    assert "were there from an interrupted run" in parse_blob_copy(RESUMED).warnings[0]


def test_a_run_that_sent_nothing_has_no_rate() -> None:
    data = result(RESUMED)
    copy = data["copies"][0]
    for item in (data, copy, copy["files"][0]):
        item.update(uploaded_bytes=0, resumed_bytes=40 * MIB)
    assert ("upload_rate", None) not in values(sealed(data))


def test_all_copies_may_take_less_than_one_of_them_by_the_clocks_rounding() -> None:
    data = result(EIGHT)
    longest = max(copy["seconds"] for copy in data["copies"])
    data["seconds"] = longest - 0.0009
    assert parse_blob_copy(sealed(data)).seconds == data["seconds"]
    data["seconds"] = longest - 0.0011
    with pytest.raises(ParseError, match="and one of them"):
        parse_blob_copy(sealed(data))


def test_a_checksum_that_differs_is_a_failed_check() -> None:
    data = result(RESUMED)
    file = data["copies"][0]["files"][0]
    file.update(stored_md5="0" * 32, verified=False)
    assert parse_blob_copy(sealed(data)).checks == {"checksums": False}
    file.update(stored_md5=None)
    assert parse_blob_copy(sealed(data)).checks == {"checksums": False}


def test_azcopy_says_less() -> None:
    output = parse_blob_copy(AZCOPY)
    assert (output.program, output.tool_version) == ("azcopy", "10.32.2")
    assert output.warnings == ["azcopy does not say how often it was throttled or retried"]


def copy_of(data: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = data["copies"][0]
    return found


def file_of(data: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = copy_of(data)["files"][0]
    return found


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "the copies did not come to their end"),
        ("trueup-blob-copy: copy 0: 8 of 32 MiB, 95 Mb/s\n", "did not come to their end"),
        (EIGHT + EIGHT, "a second result line"),
        (EIGHT + "more\n", "text after the result line"),
        (EIGHT[:900], "cut off or damaged"),
        (EIGHT.replace('"format": 1', '"format": 2'), "not of format 1"),
        (EIGHT.replace('"bytes": 33554432', '"bytes": 33554433', 1), "was altered"),
        (EIGHT.replace('"digest": "', '"digest": "0'), "was altered"),
        (EIGHT.replace('"retries": 0', '"retries": 0, "retries": 0', 1), "'retries' stands twice"),
        (EIGHT.replace('"seconds": ', '"seconds": 1e999, "x": ', 1), "is not finite"),
        (DRIVER_PREFIX + "[]", "not of format 1"),
        (DRIVER_PREFIX + "null", "not of format 1"),
        (DRIVER_PREFIX + "[" * 100_000, "cut off or damaged"),
    ],
)
def test_damaged_output_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ParseError, match=reason):
        parse_blob_copy(text)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda d: d.update(copies=[]), "not 0, 1, 2"),
        (lambda d: d["copies"].reverse(), "not 0, 1, 2"),
        (lambda d: d["copies"].pop(), "bytes is not the sum of the copies'"),
        (lambda d: d.update(throttled=1), "throttled is not the sum"),
        (lambda d: d.update(seconds=0.5), "and one of them"),
        (lambda d: d.update(seconds=-1.0), "seconds -1.0 is not positive"),
        (lambda d: d.update(seconds=True), "seconds True is not a number"),
        (lambda d: d.update(program="scp"), "program 'scp'"),
        (lambda d: d.update(verify="no"), "verify 'no' is unknown"),
        (lambda d: d.update(checksum="crc64"), "checksum 'crc64' is not md5"),
        (lambda d: d.update(version=""), "version '' is no text"),
        (lambda d: d.pop("cap_bits_per_second"), "lacks or spoils 'cap_bits_per_second'"),
        (lambda d: d.update(cap_bits_per_second=0), "cap_bits_per_second 0.0 is not positive"),
        (lambda d: d.update(connections=1.5), "connections 1.5 is not a count"),
        (lambda d: d.update(copies={"copy": 0}), "lacks or spoils"),
        (lambda d: copy_of(d).update(files=[]), "copy 0 has no files"),
        (lambda d: copy_of(d).update(retries=-1), "retries -1 is not a count"),
        (lambda d: copy_of(d).update(verify_seconds=-0.1), "is negative"),
        (lambda d: copy_of(d).update(sent_bytes=1), "uploaded more than it sent"),
        (lambda d: copy_of(d).update(bytes=1), "bytes of copy 0 is not the sum of its files'"),
        (lambda d: file_of(d).update(md5="0" * 31), "is no MD5"),
        (lambda d: file_of(d).update(md5=7), "lacks or spoils"),
        (lambda d: file_of(d).update(resumed_bytes=1), "are not its 33554432 bytes"),
        (lambda d: file_of(d).update(stored_md5="0" * 32), "the checksums say otherwise"),
        (lambda d: file_of(d).update(stored_bytes=1), "the checksums say otherwise"),
        (lambda d: file_of(d).update(blob=d["copies"][1]["files"][0]["blob"]), "the same blob"),
    ],
)
def test_figures_that_contradict_each_other_are_refused(change: Any, reason: str) -> None:
    """Even where the digest is right: a program that reckons wrongly is no better than damage."""
    data = result(EIGHT)
    change(data)
    with pytest.raises(ParseError, match=reason):
        parse_blob_copy(sealed(data))


def test_only_its_own_output_is_recognised() -> None:
    assert SIGNATURE.recognises(EIGHT) is True
    assert SIGNATURE.recognises(EIGHT[:300]) is True
    assert SIGNATURE.recognises("trueup-devito {}\n") is False
    assert SIGNATURE.recognises("") is False


@settings(max_examples=60, deadline=None)
@given(st.sampled_from([EIGHT, SLOW, ROUGH]), st.data())
def test_any_damage_gives_the_same_figures_or_is_refused(text: str, data: st.DataObject) -> None:
    """The digest covers every figure; only what is no figure (progress, blanks) may change."""
    kind = data.draw(st.sampled_from(["cut", "drop", "swap", "byte"]))
    lines = text.splitlines(keepends=True)
    at = data.draw(st.integers(0, len(text) - 1))
    if kind == "cut":
        damaged = text[:at]
    elif kind == "byte":
        damaged = text[:at] + data.draw(st.characters(codec="ascii")) + text[at + 1 :]
    else:
        a = data.draw(st.integers(0, len(lines) - 1))
        b = data.draw(st.integers(0, len(lines) - 1))
        if kind == "drop":
            del lines[a]
        else:
            lines[a], lines[b] = lines[b], lines[a]
        damaged = "".join(lines)
    try:
        got = values(damaged)
    except ParseError:
        return
    assert got == values(text)
