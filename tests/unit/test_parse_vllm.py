"""vLLM's serving benchmark: recorded outputs and what must be read from them, or refused."""

from __future__ import annotations

import hashlib
import json
import statistics
from pathlib import Path
from typing import Any

import damage
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trueup_node.benchmarks.vllm.output import parse_vllm
from trueup_node.benchmarks.vllm.signatures import DRIVER_PREFIX, SIGNATURE
from trueup_node.errors import ParseError

DATA = Path(__file__).parent.parent / "data" / "vllm"
RANDOM = "vllm032_driver_random.log"
ONE_PIECE = "vllm032_driver_one_piece.log"
TABLE, DETAILED, OLD = "vllm032_table.log", "vllm032_detailed.json", "published_pr18566.log"


def text_of(name: str) -> str:
    return (DATA / name).read_text()


def figures(text: str) -> dict[tuple[str, str | None], float]:
    return {(row.name, row.statistic): row.value for row in parse_vllm(text).metrics()}


def sealed(name: str, *path: str, value: Any) -> str:
    """A driver's output in which one figure is another, with a checksum that fits."""
    lines = text_of(name).splitlines()
    at = next(n for n, line in enumerate(lines) if line.startswith(DRIVER_PREFIX))
    data = json.loads(lines[at][len(DRIVER_PREFIX) :])
    del data["sha256"]
    inner = data
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    text = json.dumps(data, sort_keys=True, separators=(",", ":"))
    data["sha256"] = hashlib.sha256(text.encode()).hexdigest()
    lines[at] = DRIVER_PREFIX + json.dumps(data)
    return "\n".join(lines)


def test_the_driver_gives_unrounded_figures_and_the_servers_state() -> None:
    output = parse_vllm(text_of(RANDOM))
    assert (output.exact, output.tool_version, output.server_version) == (
        True,
        "0.32.0+cpu",
        "0.32.0",
    )
    assert (output.completed, output.failed, output.warnings) == (40, 0, [])
    assert output.checks == {"no_failed_requests": True}
    assert output.parameters["max_concurrency"] == "8"
    assert output.server is not None
    assert {row.n for row in output.metrics() if row.name == "kv_cache_usage"} == {
        output.server.busy_samples
    }
    got = figures(text_of(RANDOM))
    assert got == {
        ("request_throughput", "single"): 1.763636103849381,
        ("output_token_throughput", "single"): 84.6545329847703,
        ("total_token_throughput", "single"): 199.51133424796123,
        ("ttft", "mean"): pytest.approx(0.38940528372531846),
        ("ttft", "median"): pytest.approx(0.34583189350087196),
        ("ttft", "p99"): pytest.approx(0.601774011721136),
        ("tpot", "mean"): pytest.approx(0.08776247508457674),
        ("tpot", "median"): pytest.approx(0.09734563001063393),
        ("tpot", "p99"): pytest.approx(0.1388262458683296),
        ("itl", "mean"): pytest.approx(0.0878091820963301),
        ("itl", "median"): pytest.approx(0.07286281000051531),
        ("itl", "p99"): pytest.approx(0.36950211347946604),
        ("e2el", "mean"): pytest.approx(4.514241612700425),
        ("e2el", "median"): pytest.approx(4.7384648174993345),
        ("e2el", "p99"): pytest.approx(6.864334503399878),
        ("requests_completed", "single"): 40.0,
        ("requests_failed", "single"): 0.0,
        ("input_tokens", "single"): 2605.0,
        ("output_tokens", "single"): 1920.0,
        ("kv_cache_usage", "max"): 0.0004883110541414881,
        ("kv_cache_usage", "mean"): 0.00045555848343687544,
        ("prefix_cache_hit_rate", "single"): 0.0,
        ("requests_waiting", "max"): 0.0,
        ("requests_running", "max"): 8.0,
        ("peak_output_token_throughput", "single"): 232.0,
        ("peak_concurrent_requests", "single"): 16.0,
    }


def test_goodput_and_ramp() -> None:
    output = parse_vllm(text_of("vllm032_driver_ramp_goodput.log"))
    assert figures(text_of("vllm032_driver_ramp_goodput.log"))["request_goodput", "single"] == (
        pytest.approx(15 / output.duration_seconds)
    )
    assert output.parameters["ramp_up_end_rps"] == "4"


def test_a_storm_past_capacity_shows_waiting_requests_and_cache_hits() -> None:
    got = figures(text_of("vllm032_driver_storm.log"))
    assert (got["requests_waiting", "max"], got["requests_running", "max"]) == (308.0, 113.0)
    assert got["prefix_cache_hit_rate", "single"] == pytest.approx(0.37087608033327113)
    assert got["kv_cache_usage", "max"] == 0.011536348654092698


def test_a_server_that_was_killed_leaves_failed_requests_and_the_first_error() -> None:
    output = parse_vllm(text_of("vllm032_driver_killed.log"))
    assert (output.completed, output.failed) == (15, 25)
    assert output.checks == {"no_failed_requests": False}
    assert output.first_error is not None
    assert output.first_error.startswith("aiohttp.client_exceptions.ClientPayloadError: Response")
    assert output.server is not None
    assert output.server.refused == 25
    assert output.warnings == ["the server did not answer 25 times while the benchmark ran"]


def test_the_table_says_what_the_json_says_rounded() -> None:
    exact = figures(text_of("vllm032_detailed.json"))
    rounded = parse_vllm(text_of("vllm032_table.log"))
    assert rounded.exact is False
    assert rounded.warnings == ["the figures of the printed table are rounded to 0.01"]
    got = figures(text_of("vllm032_table.log"))
    # The table counts no pieces.
    assert exact.pop(("answers_in_one_piece", "single")) == 0
    assert set(got) == set(exact)
    for name, value in exact.items():
        assert got[name] == pytest.approx(value, abs=0.00501), name


def test_a_table_of_e2el_alone_is_read() -> None:
    lines = text_of(RANDOM).splitlines()
    begin = next(at for at, line in enumerate(lines) if "Serving Benchmark Result" in line)
    end = next(at for at, line in enumerate(lines) if at > begin and line.startswith("====="))
    first, last = (
        next(at for at, line in enumerate(lines) if title in line)
        for title in ("Time to First Token", "End-to-end Latency")
    )
    table = "\n".join(lines[begin : end + 1])
    alone = "\n".join(lines[begin:first] + lines[last : end + 1])
    got = figures(alone)
    assert got == {key: value for key, value in figures(table).items() if key in got}
    assert ({"e2el"} <= {name for name, _ in got}, "ttft" in {name for name, _ in got}) == (
        True,
        False,
    )
    assert "there is no TTFT in the result: it was not asked for" in parse_vllm(alone).warnings


@pytest.mark.parametrize("name", ["vllm032_onetoken.json", "vllm032_table_one_token.log"])
def test_one_token_a_request_has_no_tpot_and_no_itl(name: str) -> None:
    output = parse_vllm(text_of(name))
    assert sorted(output.latencies) == ["ttft"]
    assert output.warnings[:2] == [
        "one token a request: there is no TPOT",
        "one token a request: there is no ITL",
    ]


def test_an_older_table_does_not_count_failures() -> None:
    output = parse_vllm(text_of("published_pr18566.log"))
    assert (output.completed, output.failed, output.checks) == (1000, None, {})
    assert output.total_throughput == 14029.44
    assert "does not count failed requests" in output.warnings[0]
    assert ("requests_failed", "single") not in figures(text_of("published_pr18566.log"))


def test_older_keys_give_the_same_figures() -> None:
    output = parse_vllm(text_of("synthetic_old_keys.json"))
    assert output.failed == 0
    newer = figures(text_of("vllm032_detailed.json"))
    kept = {key: value for key, value in newer.items() if not key[0].startswith("peak_")}
    assert figures(text_of("synthetic_old_keys.json")) == kept
    assert len(newer) - len(kept) == 2


def test_rows_and_sections_that_are_not_known_are_kept_by_name() -> None:
    table = text_of("vllm032_table.log")
    part = f"{'Speculative Decoding':-^50}\nAcceptance rate (%):                     55.50     \n"
    probes = f"{'Probe Requests':-^50}\nMean TTFT (ms):                          1.00      \n"
    text = table.replace("=" * 50 + "\n", probes + part + "=" * 50 + "\n")
    text = text.replace(
        "Total input tokens:", "User throughput (tok/s):        3.20\nTotal input tokens:"
    )
    output = parse_vllm(text)
    assert output.not_judged == {
        "User throughput (tok/s)": "3.20",
        "Probe Requests, Mean TTFT (ms)": "1.00",
        "Speculative Decoding, Acceptance rate (%)": "55.50",
    }
    assert (output.metrics(), output.unverified) == (parse_vllm(table).metrics(), [])


def test_rows_in_another_order_and_case_are_the_same_rows() -> None:
    table = text_of("vllm032_table.log")
    rate = next(line for line in table.splitlines(True) if line.startswith("Request throughput"))
    text = table.replace(rate, "").replace("Successful requests:", f"{rate}Successful requests:")
    text = text.replace("Total token", "Total TOKEN").replace("Inter-token L", "Inter-Token L")
    assert parse_vllm(text).metrics() == parse_vllm(table).metrics()


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        (text_of("vllm032_table.log").rsplit("Mean ITL", 1)[0], {"itl"}),
        (text_of("vllm032_table.log").replace("=" * 50 + "\n", ""), set()),
    ],
)
def test_a_table_without_its_end_is_unverified(text: str, missing: set[str]) -> None:
    output = parse_vllm(text)
    assert output.unverified == ["no closing line of =: the table is cut off"]
    whole = {row.name for row in parse_vllm(text_of("vllm032_table.log")).metrics()}
    assert whole - {row.name for row in output.metrics()} == missing


def test_a_fork_that_counts_no_failed_requests_is_read() -> None:
    output = parse_vllm(changed("vllm032_table.log", "^Failed requests.*\n", ""))
    assert (output.failed, output.checks) == (None, {})
    assert "does not count failed requests" in output.warnings[0]


def test_the_published_run_with_a_median_of_zero_is_refused() -> None:
    with pytest.raises(ParseError, match=r"TTFT of 0\.00 over 863 successful requests") as caught:
        parse_vllm(text_of("published_863_of_1000.log"))
    assert caught.value.line.startswith("Median TTFT")


def test_a_run_without_a_success_is_refused() -> None:
    with pytest.raises(ParseError, match="no request succeeded, 4 failed"):
        parse_vllm(text_of("vllm032_driver_no_model.log"))


def changed(name: str, pattern: str, replacement: str) -> str:
    return damage.changed(text_of(name), pattern, replacement)


def summary(**changes: float) -> str:
    """The result without what each request took, as vLLM saves it without --save-detailed."""
    data = json.loads(text_of(DETAILED))
    alone = {key: value for key, value in data.items() if not isinstance(value, list)}
    return json.dumps({**alone, **changes})


def test_a_summary_alone_is_held_against_itself() -> None:
    right = figures(text_of(DETAILED))
    del right["answers_in_one_piece", "single"]
    assert figures(summary()) == right
    assert figures(summary(p99_ttft_ms=125.0))["ttft", "p99"] == 0.125
    ninetieths = {"p90_ttft_ms": 61.0, "p90_tpot_ms": 175.2, "p90_itl_ms": 300.0}
    assert figures(summary(**ninetieths))["ttft", "p90"] == 0.061
    # Requests that all took as long.
    alike = dict.fromkeys(("mean_ttft_ms", "median_ttft_ms", "p99_ttft_ms"), 50.0)
    assert figures(summary(**alike, std_ttft_ms=0.0))["ttft", "p99"] == 0.05


def test_a_server_may_have_all_prefixes_in_its_cache() -> None:
    text = sealed(RANDOM, "server", "prefix_cache_hits", value=2605)
    assert figures(text)["prefix_cache_hit_rate", "single"] == 1


def test_a_server_may_be_busy_in_every_sample() -> None:
    server = parse_vllm(text_of(RANDOM)).server
    assert server is not None
    busy = parse_vllm(sealed(RANDOM, "server", "busy_samples", value=server.samples)).server
    assert busy is not None
    assert busy.busy_samples == server.samples


def test_no_good_request_is_a_goodput_of_0() -> None:
    assert figures(summary(request_goodput=0.0))["request_goodput", "single"] == 0


def test_the_first_tables_have_the_rate_of_the_input_and_no_total() -> None:
    given = parse_vllm(text_of(OLD))
    row = f"{'Input token throughput (tok/s):':<40} {14029.44 - 6582.87:<10.2f}"
    text = damage.changed(text_of(OLD), r"^(Output token.*)\n.*$", rf"{row}\n\1")
    assert parse_vllm(text).total_throughput == pytest.approx(given.total_throughput, abs=0.001)


END = "=" * 50


test_damaged_output_is_refused = damage.refuses(
    parse_vllm,
    ("", "no result of vLLM's serving benchmark"),
    (
        changed("vllm032_onetoken.json", r'"completed": \d+', '"completed": ' + "9" * 400),
        "a whole number of 400 characters",
    ),
    # Digits of other scripts are none.
    (changed("vllm032_table.log", r"(P99 TTFT.*)\.", "\\1\uff11."), "and a percentile"),
    ("\x00\xff garbage\n" * 50, "no result of vLLM's serving benchmark"),
    (
        text_of("vllm032_table.log") + text_of("vllm032_table.log"),
        "a second table: two runs in one output",
    ),
    (text_of(RANDOM) * 2, "two runs in one output"),
    (text_of(DETAILED) + text_of(DETAILED), "text after the JSON object"),
    (changed(TABLE, "^=+ Serving", "== Serving"), "the table's title is damaged"),
    (changed(TABLE, "^Benchmark duration.*\n", ""), "duration is missing"),
    (changed(TABLE, r"(req/s\): +)8.53", r"\g<1>8.63"), "request_throughput 8.63 is not 8 in"),
    # 8 requests in 0.935 to 0.945 s.
    (changed(TABLE, r"(req/s\): +)8.53", r"\g<1>8.57"), "request_throughput 8.57 is not 8 in"),
    (changed(TABLE, r"(tokens: +)136", r"\g<1>186"), "total_token_throughput 196.1 is not 234"),
    (changed(TABLE, r"(duration \(s\): +)0.94", r"\g<1>0.84"), "is not 8 in 0.84 s"),
    (changed(TABLE, r"(requests: +)8 ", r"\g<1>8.5 "), "completed '8.5' is not a count"),
    (changed(TABLE, r"(Mean TTFT \(ms\): +)54.38", r"\g<1>nan"), "is not a positive number"),
    (changed(TABLE, r"(Mean TTFT \(ms\): +)54.38", r"\g<1>-54.38"), "is not a positive number"),
    (changed(TABLE, r"(P99 TTFT \(ms\): +)\d+", r"\g<1>50"), "TTFT: P99 is below P50"),
    # By 0.02, which three roundings do not make.
    (changed(TABLE, r"(P99 TTFT \(ms\): +)61.18", r"\g<1>55.44"), "TTFT: P99 is below P50"),
    (changed(TABLE, r"(P99 ITL \(ms\): +)\d+", r"\g<1>99471"), "in a benchmark of 0.94 s"),
    # It took 0.945 s at most.
    (changed(TABLE, r"(P99 ITL \(ms\): +)471.84", r"\g<1>947.00"), "in a benchmark of 0.94 s"),
    (changed(TABLE, "^Median TPOT.*\n", ""), "TPOT needs its mean, its median"),
    (changed(TABLE, "^Mean TPOT", "Mean TTFT"), "row 'Mean TTFT (ms):' stands below"),
    (changed(TABLE, "^Peak concurrent", "Backend:"), "a table of SGLang"),
    (changed(TABLE, "^Total generated tokens: .*$", "Backend: 1"), "a table of SGLang"),
    (changed(DETAILED, r'"duration": [\d.]+', '"duration": NaN'), "NaN is not a finite"),
    (changed(DETAILED, r'"completed": 8', '"completed": 7'), "7 requests succeeded and 0"),
    (changed(DETAILED, r'"completed": 8', '"completed": true'), "is not a count"),
    (changed(DETAILED, r'"duration": [\d.]+', '"duration": "1"'), "is not a number"),
    (changed(DETAILED, r'"duration": [\d.]+', '"duration": 0'), "took no time"),
    (changed(DETAILED, r'"duration": [\d.]+', '"duration": -1'), "is not a positive number"),
    (changed(DETAILED, r'"duration": [\d.]+', '"duration": 1e999'), "is not a positive number"),
    (changed(DETAILED, r'"num_prompts": 8', '"num_prompts": 1'), "and 0 failed, of 1"),
    (summary(p90_ttft_ms=85.0, p99_ttft_ms=110.0), "TTFT: P90 is too far from the mean"),
    # 7.34 ms x 9.95 above 54.38 ms, and two hundredths.
    (summary(p99_ttft_ms=130.0), "TTFT: P99 is too far from the mean"),
    (summary(std_ttft_ms=1.0), "TTFT: mean and median are further apart"),
    (changed(DETAILED, r'"failed": 0', '"failed": 0, "failed": 0'), "stands twice"),
    (changed(DETAILED, r'"input_lens": \[16, ', '"input_lens": ['), "7 entries for 8"),
    (changed(DETAILED, r'"input_lens": \[16', '"input_lens": [17'), "do not add up to 136"),
    (changed(DETAILED, r'"output_lens": \[6', '"output_lens": [-6'), "output_lens holds -6"),
    (changed(DETAILED, r'"ttfts": \[0.036', '"ttfts": [0.037'), "ttfts give"),
    (changed(DETAILED, r'"itls": \[\[0.025', '"itls": [[0.125'), "itls give"),
    (changed(DETAILED, r'"median_tpot_ms": \d+', '"median_tpot_ms": 150'), "further apart"),
    (changed(DETAILED, r'"total_token_throughput": [\d.]+, ', ""), "is missing"),
    (text_of(DETAILED)[:-3], "cut off or damaged"),
    (changed(RANDOM, "^(=+ Serving)", r"x \1"), "the table's title is damaged"),
    (changed(RANDOM, r"(?s)=+ Serving.*={50}\n", ""), "vLLM's own table is missing"),
    (changed(RANDOM, '"completed": 40', '"completed": 41'), "its checksum differs"),
    (changed(RANDOM, "^trueup-vllm ", "trueup-vlln "), "the driver's line is damaged"),
    (
        changed(TABLE, "^-+Inter-token Latency-+$", END),
        "vLLM's table goes on after its closing line",
    ),
    (changed(RANDOM, r"\Z", "one more line"), "text after the driver's last line"),
    (sealed(RANDOM, "format", value=2), "not of format 1"),
    (sealed(RANDOM, "status", value=1), "ended with status 1"),
    (sealed(RANDOM, "result", value=None), "saved no result"),
    (sealed(RANDOM, "server", value=None), "says nothing of the server"),
    (sealed(RANDOM, "result", "mean_ttft_ms", value=390.0), "the table prints mean_ttft_ms"),
    (sealed(RANDOM, "result", "p90_itl_ms", value=300.0), "ITL has the percentiles [90.0, 99.0]"),
    (changed(TABLE, r"P99 ITL", "P98 ITL"), "ITL has the percentiles [98.0], and TTFT [99.0]"),
    (changed(TABLE, r"Peak concurrent.*\n", ""), "max_concurrent_requests is missing"),
    (sealed(RANDOM, "result", "mean_e2el_ms", value=100.0), "E2EL: a mean of 0.1 s"),
    (sealed(RANDOM, "server", "prefix_cache_hits", value=3000), "hits of 2605"),
    (sealed(RANDOM, "server", "kv_cache_usage_max", value=1.5), "KV-cache use of"),
    (sealed(RANDOM, "server", "busy_samples", value=500), "more busy samples than"),
    (sealed(RANDOM, "server", "samples", value=-1), "samples -1 is not a count"),
    (sealed(RANDOM, "answers", value=3), "answers 3 are no counts"),
    (sealed(RANDOM, "answers", value={"empty": 0}), "in_one_piece None is not a count"),
    (
        sealed(RANDOM, "answers", value={"empty": 0, "in_one_piece": 41}),
        "more arrived in one piece than there are",
    ),
    (sealed(RANDOM, "server", "requests_waiting_max", value="0"), "is not a number"),
    (sealed("vllm032_driver_ramp_goodput.log", "result", "request_goodput", value=1.77), "no"),
)


def test_an_error_names_the_line() -> None:
    text = changed(TABLE, r"(req/s\): +)8.53", r"\g<1>8.63")
    number = next(n for n, line in enumerate(text.splitlines(), 1) if "8.63" in line)
    with pytest.raises(ParseError) as caught:
        parse_vllm(text)
    assert caught.value.line_number == number


def test_no_queries_give_no_hit_rate() -> None:
    text = sealed(RANDOM, "server", "prefix_cache_queries", value=0)
    assert ("prefix_cache_hit_rate", "single") not in figures(text)


def test_a_watch_that_met_no_request_gives_a_warning_and_no_figures_of_them() -> None:
    text = sealed(RANDOM, "server", "busy_samples", value=0)
    met = {"kv_cache_usage", "requests_running", "requests_waiting"}
    assert met < {name for name, _ in figures(text_of(RANDOM))}
    assert {name for name, _ in figures(text)} & met == set()
    assert "no sample of the server's metrics met a request" in parse_vllm(text).warnings[-1]


def test_tokens_that_were_read_together_have_no_itl_and_keep_their_tpot() -> None:
    output = parse_vllm(changed(TABLE, r"(Median ITL \(ms\): +)\d+\.\d\d", r"\g<1>0.00"))
    assert sorted(output.latencies) == ["tpot", "ttft"]
    assert output.warnings[0] == (
        "more than half of the tokens arrived together with the one before: ITL cannot be known "
        "and is left out"
    )


PIECE = (
    "answers arrived in one piece: TPOT and ITL cannot be known and are left out, TTFT is the time "
    "to the first piece; the throughput holds"
)


@pytest.mark.parametrize("printed", ["0.00", "0.02"])
def test_a_table_with_a_tpot_that_no_server_has_keeps_its_throughput(printed: str) -> None:
    text = changed(TABLE, r"(Median TPOT \(ms\): +)\d+\.\d\d", rf"\g<1>{printed}")
    output = parse_vllm(text)
    assert sorted(output.latencies) == ["ttft"]
    assert (output.output_throughput, output.output_tokens) == (51.16, 48)
    assert (output.in_one_piece, output.warnings[0]) == (None, PIECE)


def test_the_least_tpot_that_a_server_can_have_is_kept() -> None:
    text = changed(TABLE, r"(Median TPOT \(ms\): +)\d+\.\d\d", r"\g<1>0.10")
    assert "tpot" in parse_vllm(text).latencies


def detailed(pieces: int) -> str:
    """The recorded result of 8 requests, of which some arrived in one piece; its summary of what
    lies between tokens is made for that."""
    data = json.loads(text_of(DETAILED))
    data["itls"][:pieces] = [[] for _ in range(pieces)]
    for name, values in (
        ("tpot", [sum(gaps) / 5 for gaps in data["itls"]]),
        ("itl", [gap for gaps in data["itls"] for gap in gaps]),
    ):
        for statistic, value in (
            ("mean", statistics.fmean(values or [0])),
            ("median", statistics.median(values or [0])),
            ("std", statistics.pstdev(values or [0])),
        ):
            data[f"{statistic}_{name}_ms"] = 1000 * value
        percentiles = statistics.quantiles(values, n=100, method="inclusive") if values else [0]
        data[f"p99_{name}_ms"] = 1000 * percentiles[-1]
    return json.dumps(data)


@pytest.mark.parametrize("pieces", [1, 5, 8])
def test_answers_in_one_piece_are_counted_and_leave_no_tpot(pieces: int) -> None:
    output = parse_vllm(detailed(pieces))
    assert sorted(output.latencies) == ["ttft"]
    assert output.warnings == [f"{pieces} of 8 {PIECE}"]
    rows = {row.name: row.value for row in output.metrics()}
    assert (rows["answers_in_one_piece"], rows["output_tokens"]) == (pieces, 48)
    assert rows["output_token_throughput"] == pytest.approx(51.15599307739847)


def test_answers_in_one_piece_are_counted_by_the_driver() -> None:
    counted = {"empty": 0, "in_one_piece": 4}
    output = parse_vllm(sealed("vllm032_driver_storm.log", "answers", value=counted))
    # 1 % of 400: what it does to a mean is within what the runs differ by.
    assert (output.in_one_piece, sorted(output.latencies)) == (4, ["e2el", "itl", "tpot", "ttft"])
    assert output.warnings == ["4 of 400 answers arrived in one piece: they count as a TPOT of 0"]
    counted["in_one_piece"] = 5
    output = parse_vllm(sealed("vllm032_driver_storm.log", "answers", value=counted))
    assert (output.in_one_piece, sorted(output.latencies)) == (5, ["e2el", "ttft"])
    assert output.warnings == [f"5 of 400 {PIECE}"]
    ramp = sealed("vllm032_driver_ramp_goodput.log", "answers", value=counted)
    assert parse_vllm(ramp).warnings[1] == (
        "where request_goodput has a limit for TPOT, answers in one piece count as within it"
    )


def test_a_recorded_run_whose_answers_came_in_one_piece_keeps_its_throughput() -> None:
    output = parse_vllm(text_of(ONE_PIECE))
    # Printed: a median TPOT, a median ITL and a P99 ITL of 0.00.
    assert (output.in_one_piece, sorted(output.latencies)) == (76, ["e2el", "ttft"])
    assert output.warnings == [f"76 of 81 {PIECE}"]
    assert output.checks == {"no_failed_requests": True}
    assert output.output_tokens == 81 * 32
    assert output.output_throughput == pytest.approx(2592 / output.duration_seconds)
    table = text_of(ONE_PIECE).split("trueup-vllm {")[0]
    assert parse_vllm(table).warnings[0] == PIECE


def test_answers_without_a_token_are_refused() -> None:
    message = "2 of 40 requests without a token were counted as successful"
    with pytest.raises(ParseError, match=message):
        parse_vllm(sealed(RANDOM, "answers", value={"empty": 2, "in_one_piece": 0}))
    text = changed(DETAILED, r'"output_lens": \[6, 6', '"output_lens": [0, 12')
    with pytest.raises(ParseError, match="1 of 8 requests without a token were counted"):
        parse_vllm(text)


def test_only_vllms_output_is_recognised() -> None:
    for path in DATA.iterdir():
        if path.suffix in (".log", ".json"):
            assert SIGNATURE.recognises(path.read_text()) is True, path.name
    assert SIGNATURE.recognises(text_of(RANDOM)[:-40]) is True
    title = text_of("vllm032_table.log").splitlines()[7:9]
    assert SIGNATURE.recognises("\n".join([*title, "Backend:                 sglang"])) is False
    assert SIGNATURE.recognises("Operator `Forward` ran in 1.00 s") is False
    assert SIGNATURE.recognises("") is False


EXACT = [RANDOM, ONE_PIECE, "vllm032_driver_ramp_goodput.log", DETAILED, TABLE, OLD]


@settings(max_examples=60, deadline=None)
@given(data=st.data(), name=st.sampled_from(EXACT))
def test_noise_gives_the_right_figures_or_an_error(data: st.DataObject, name: str) -> None:
    """Truncated, a line dropped, two lines swapped, a byte changed.

    The driver's line has a checksum, so its figures are right or refused. Without it there is no
    redundancy in: the last digits of the table's latencies, and every section or percentile that
    is dropped whole; nor, in the JSON, in the TPOT and in what is not derived (peaks). There a
    figure may be missing or differ, within what mean, median, percentiles, standard deviation and
    duration allow of each other; the throughputs and counts may not, but for the table's rounding.
    """
    text = text_of(name)
    right = figures(text)
    if data.draw(st.integers(0, 3)) == 0:
        at = data.draw(st.integers(0, len(text) - 1))
        text = text[:at] + data.draw(st.sampled_from("059.,-x \n{")) + text[at + 1 :]
    else:
        text = damage.damaged(text, data, "cut", "lost", "neighbours")
    try:
        got = figures(text)
    except ParseError:
        return
    if DRIVER_PREFIX in text:
        assert got == right
        return
    for key, value in got.items():
        if key[0] in ("ttft", "tpot", "itl", "e2el") or key == ("requests_failed", "single"):
            continue
        # A table without the driver's line is rounded; counts are tied to it by the rates.
        slack = 0.05 * abs(right[key]) if name != DETAILED else 1e-6 * abs(right[key])
        assert abs(value - right[key]) <= slack, key
