"""The front stage of ``trueup read``: labels, margins and prompts go; lines keep their numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from trueup_analysis.front import cleaned, cut, json_blocks
from trueup_analysis.read import read_runs

DATA = Path(__file__).resolve().parents[2] / "data"
TABLE = "# a table\n   1  2\n   3  4\n\n# its end\n"


def labelled(label: str, text: str = TABLE) -> str:
    return "".join(f"{label}{line}\n" for line in text.splitlines())


@pytest.mark.parametrize(
    "label",
    [
        *("[1,0]<stdout>:", "[prterun-gpu-1-77@1,0]<stdout>:", "0: ", " 0: ", "12: ", "> "),
        *("2026-03-01T10:00:00.5Z ", "2026-03-01T10:00:00Z stdout F ", "[pod/a-0/main] "),
        *("Mar  1 10:00:00 node-1 run[7]: ", "2026-03-01T10:00:00+0100 node-1 run[7]: "),
        *("worker-0  | ", "node-1: ", "run-worker-0 main ", "[rank0]: ", "[default3]:"),
        *("(TrainWorker pid=12, ip=10.0.0.1) ", "> 2026-03-01T10:00:00Z 0: "),
        # Loggers, CI and their collectors.
        *("INFO: ", "INFO:bench.run:", "[INFO] ", "[2026-03-01T10:00:00.5Z] ", "Mar  1 10:00:00 "),
        *("2026-03-01 10:00:00,5 - INFO - ", "2026-03-01 10:00:00,5 - a.b - INFO - ", "10:00:00 "),
        *("2026-03-01 10:00:00,5 INFO ", "[2026-03-01 10:00:00,5 n1:77][runner.py:50][INFO] "),
        *("2026-03-01 10:00:00.5 | INFO     | a:run:42 - ", "INFO 03-01 10:00:00 [a.py:10] "),
        *("I0301 10:00:00.000001  77 a.cc:10] ", "[Sun Mar  1 10:00:00 2026] ", "[0] "),
        *("10:00:00 DEBUG| [stdout] ", "2026-03-01 10:00:00,5 a L0100 DEBUG| [stdout] "),
        *("job\tA step\t2026-03-01T10:00:00.5Z ", "2026-03-01T10:00:00.5Z 01O "),
        *("[run-worker-0] ", "Sun Mar  1 10:00:00 2026[1,0]<stdout>:"),
    ],
)
def test_a_label_before_each_line_is_removed(label: str) -> None:
    assert cleaned(labelled(label)).text == TABLE


@pytest.mark.parametrize(
    "text",
    [
        *(
            TABLE,
            "Copy:  1.0 2\nScale:  1.0 2\nAdd:  1.0 2\nTriad:  1.0 2\n",
            "0: one line\n1: two\n",
            "Throughput: 3 requests/s\n",
            "Waived: \nWaived: \nWaived: \nWaived: \nRunning\n",
            "".join(f"n1:7:7 [{gpu}] NCCL INFO Channel 0\n" for gpu in range(4)),
            '[\n{"log": "a"},\n{"log": "b"}\n]\n',
            '{"text": "a &quot;b&quot; &lt;c"}\n',
            "https://a/b?x=1&section=2&copy=3\n",
            " iteration 1/ 2 |\n iteration 2/ 2 |\n",
        ),
        "Energies\n    1\n    2\nStep\n    3\nStep\nEnd\n",
    ],
)
def test_a_tools_own_lines_stay(text: str) -> None:
    assert (cleaned(text).text, cleaned(text).removed) == (text, {})


def test_what_separates_a_time_from_its_level_separates_the_level_from_the_line() -> None:
    line = "| Permissions | Pass |\n"
    assert cleaned(f"10:00:00 {line}" * 4).text == line * 4
    assert cleaned(f"2026-03-01T10:00:00Z INFO {line}" * 4).text == line * 4
    assert cleaned(f"10:00:00 | INFO | {line}" * 4).text == line * 4


def test_a_label_whose_time_passes_is_one_label() -> None:
    lines = [f"2026-03-01 10:0{at}:00,{at} - INFO - {at}  x" for at in range(8)]
    assert cleaned("\n".join(lines)).text == "\n".join(f"{at}  x" for at in range(8))


def test_a_label_that_ends_with_a_space_leaves_none() -> None:
    assert cleaned("[1,0]<stdout>: a\n[1,0]<stdout>:   b\n").text == "a\n  b\n"
    assert cleaned("[1,0]<stdout>:a\n[1,0]<stdout>:   b\n").text == "a\n   b\n"


def test_lines_in_json_strings_are_unpacked() -> None:
    lines = TABLE.splitlines()
    objects = "".join(json.dumps({"log": f"{line}\n", "stream": "stdout"}) + "\n" for line in lines)
    assert cleaned(objects) == (TABLE, {"JSON": 5})
    strings = ",\n".join(f"        {json.dumps(line)}" for line in lines)
    clean = cleaned(f'ok: [n1] => {{\n    "run.stdout_lines": [\n{strings}\n    ]\n}}\n')
    assert clean.text.splitlines()[2:-2] == lines
    assert clean.removed == {"JSON": 5}
    result = json.dumps({"changed": True, "stdout": TABLE, "stdout_lines": lines})
    assert cleaned(f"changed: [n1] => {result}\n") == (TABLE, {"JSON": 1})


def test_each_line_keeps_its_number_and_is_counted() -> None:
    text = "Prose.\n```\nuser1@node-1:~$ ./tool -x\n+ export A=1\n" + TABLE + "```\n"
    clean = cleaned(text)
    assert clean.text == "Prose.\n\n./tool -x\nexport A=1\n" + TABLE + "\n"
    assert clean.removed == {"Markdown": 2, "prompts": 2}
    indented = cleaned("Prose.\n" + labelled("    "))
    assert (indented.text, indented.removed) == (
        "Prose.\n# a table\n   1  2\n   3  4\n    \n# its end\n",
        {"indentation": 4},
    )


def test_what_a_web_page_put_into_lines_is_removed() -> None:
    clean = cleaned("a -&gt; b &amp; c\n\u200bx\u00a0y\n")
    assert clean == ("a -> b & c\nx y\n", {"HTML": 1})
    assert cleaned("{&quot;a&quot;: 1}").text == '{"a": 1}'


def test_a_text_that_is_indented_as_a_whole_loses_its_margin() -> None:
    clean = cleaned("  a\n\n    b\n   c")
    assert clean == ("a\n\n  b\n c", {"indentation": 3})


def test_an_arrow_behind_a_line_is_removed() -> None:
    heading = "\t<====  A V E R A G E S  ====>\na <- b\n"
    clean = cleaned(f"rate:  1.5    <==== here\n{heading}1  \u2190 x\n")
    assert clean.text == f"rate:  1.5\n{heading}1\n"
    assert clean.removed == {"arrows": 2}


def test_a_title_between_plus_signs_is_no_prompt() -> None:
    text = "++++ PLEASE READ AND CITE ++++\n"
    assert cleaned(text) == (text, {})


def test_runs_begin_at_their_first_lines_and_end_at_their_last() -> None:
    text = "x\nbegin a\nhead\n1\nend\ny\nbegin a\nhead\n2\nend\nz\nother\n"
    blocks = cut(text, {"tool": ("(begin)|(head)", "end"), "next": ("other", "$^")})
    assert [(block.tool, block.first_line, block.ended) for block in blocks] == [
        ("tool", 2, "begin a\nhead\n1\nend"),
        ("tool", 7, "begin a\nhead\n2\nend"),
        ("next", 12, "other\n"),
    ]
    assert blocks[0].text == "begin a\nhead\n1\nend\ny"


def test_json_in_other_text_is_a_block() -> None:
    [block] = json_blocks('started\n{"a": {\n"b": 1}}\nended { x }\n{ no\n', "tool")
    assert (block.text, block.first_line) == ('{"a": {\n"b": 1}}', 2)


def recorded(name: str) -> str:
    return (DATA / name).read_text(encoding="utf-8")


def test_runs_of_several_tools_are_readings_with_numbers() -> None:
    names = ("stream/stream510.txt", "ib/write_bw_client.txt", "stream/stream510.txt")
    text = "job 7 begins\n" + "\njob 7 goes on\n".join(map(recorded, names))
    readings, refused = read_runs(text, source="job.log")
    expected = [read_runs(recorded(name), source=name)[0][0] for name in names]
    assert refused == []
    assert [(item.tool, item.run, item.rows) for item in readings] == [
        (item.tool, number, item.rows) for number, item in enumerate(expected, 1)
    ]
    assert readings[1].title == "job.log, run 2"


def test_a_run_that_cannot_be_read_is_named_beside_the_others(
    call_trueup: Any, tmp_path: Path
) -> None:
    whole = recorded("stream/stream510.txt")
    broken = whole.replace("Scale:", "Scale: x", 1)
    log = tmp_path / "job.log"
    log.write_text(whole + broken + whole, encoding="utf-8")
    done = call_trueup("read", log)
    line = whole.count("\n") + broken[: broken.index("Scale: x")].count("\n") + 1
    assert (done.status, done.out.count("triad rate")) == (1, 2)
    assert [f"line {line}:" in text for text in done.err.splitlines() if "Scale: x" in text] == [
        True
    ]


def test_a_wrapped_line_of_megatron_is_one() -> None:
    line = " iteration       42/     100 | consumed samples:         5504 | lm loss: 1.8E+00 |"
    wrapped = f"before\n{line[:40]}\n{line[40:60]}\n{line[60:]}\nafter"
    clean = cleaned(wrapped)
    assert clean.text.split("\n") == ["before", line, "", "", "after"]
    assert clean.removed == {"wrapping": 2}


def _fio_2(kilobytes: int, rate: str) -> str:
    """A run of fio 2.2 in its words, which lays out a file for each of eight jobs."""
    layout = "randwrite: Laying out IO file(s) (1 file(s) / 512MB)\n" * 8
    return f"""randwrite: (g=0): rw=randwrite, bs=4K-4K/4K-4K/4K-4K, ioengine=libaio, iodepth=16
...
fio-2.2.10
Starting 8 processes
{layout}
randwrite: (groupid=0, jobs=8): err= 0: pid=2944: Fri Apr  7 21:19:24 2017
  write: io={kilobytes}KB, bw={rate}KB/s, iops=999, runt=240127msec
    clat (usec): min=112, max=444332, avg=128634.99, stdev=21185.11
     lat (usec): min=122, max=444353, avg=128852.23, stdev=21481.55
     issued    : total=r=0/w=240066/d=0, short=r=0/w=0/d=0, drop=r=0/w=0/d=0

Run status group 0 (all jobs):
  WRITE: io={kilobytes}KB, aggrb=3998KB/s, minb=3998KB/s, maxb=3998KB/s, mint=240127msec

Disk stats (read/write):
  vda: ios=0/240174, merge=0/575, ticks=0/30326552, in_queue=30331996, util=100.00%
"""


def test_each_run_of_fio_2_is_read_and_its_rate_is_that_of_its_bytes() -> None:
    # fio 2 prints 3998.98 KB/s as 3998.2 and 3998.03 as 3998.4.
    text = _fio_2(960264, "3998.2") + _fio_2(960036, "3998.4")
    readings, refused = read_runs(text, source="x")
    rates = [
        row["value"]
        for reading in readings
        for row in reading.rows
        if row["name"] == "write_bandwidth"
    ]
    assert refused == []
    assert rates == [
        pytest.approx(960264 * 1024 / 240.127, abs=1),
        pytest.approx(960036 * 1024 / 240.127, abs=1),
    ]


def test_a_rate_of_fio_2_that_is_another_is_refused() -> None:
    readings, refused = read_runs(_fio_2(960264, "3998.2") + _fio_2(960264, "3990.2"), source="x")
    assert (len(readings), len(refused), "byte/s are not" in refused[0]) == (1, 1, True)
