"""vLLM's serving benchmark: recorded outputs and what must be read from them, or refused."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import damage
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


def changed(name: str, pattern: str, replacement: str) -> str:
    return damage.changed(text_of(name), pattern, replacement)


def summary(**changes: float) -> str:
    """The result without what each request took, as vLLM saves it without --save-detailed."""
    data = json.loads(text_of(DETAILED))
    alone = {key: value for key, value in data.items() if not isinstance(value, list)}
    return json.dumps({**alone, **changes})


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
    (
        changed(DETAILED, r'"duration": [\d.]+', '"duration": NaN'),
        "duration nan is not a positive number",
    ),
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
    (sealed(RANDOM, "result", "p90_itl_ms", value=300.0), "ITL has the percentiles [90.0, 99.0]"),
    (changed(TABLE, r"P99 ITL", "P98 ITL"), "ITL has the percentiles [98.0], and TTFT [99.0]"),
    (changed(TABLE, r"Peak concurrent.*\n", ""), "max_concurrent_requests is missing"),
    (sealed(RANDOM, "result", "mean_e2el_ms", value=100.0), "E2EL: a mean of 0.1 s"),
    (sealed("vllm032_driver_ramp_goodput.log", "result", "request_goodput", value=1.77), "no"),
)


def test_the_drivers_sealed_figures_hold_whatever_the_table_above_says() -> None:
    right = figures(text_of(RANDOM))
    assert figures(changed(RANDOM, r"(?s)=+ Serving.*={50}\n", "")) == right
    assert figures(changed(RANDOM, r"(Mean TTFT \(ms\): +)\d", r"\g<1>9")) == right


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
