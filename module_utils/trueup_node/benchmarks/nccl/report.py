"""The JSON file of nccl-tests' option -J."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Optional

from ...errors import ParseError
from ...reading import Line, is_count, unique, whole_number
from .fit import Settings, assembled, operation_of
from .rows import Body, NcclOutput, Printed, Row, checked_row, printed, root_of, version_of

# Above the content of the file, in the output of a run that also printed its table.
FILE_MARK = "[JSON file of nccl-tests -J]"
_NEWEST = 3  # version of the JSON whose members are known
# Written so until February 2026 (85ca91d).
_MISSPELT = {"average_bus_bandwidith": "average_bus_bandwidth", "bandwidith": "bandwidth"}
_COARSEST_SHARE = 32  # bytes: each rank's part is rounded down to 4 elements or 16 bytes


def from_json(text: str) -> NcclOutput:
    """The file of nccl-tests' option -J."""
    line = Line(text[:200], 1)

    def constant(name: str) -> Any:
        raise line.error(f"a figure is {name}")

    try:
        data = json.loads(
            text,
            parse_float=lambda figure: printed(figure, line),
            parse_constant=constant,
            parse_int=whole_number,
            object_pairs_hook=_members,
        )
    except (ValueError, RecursionError) as error:
        raise line.error(f"the JSON is cut off or damaged ({error})") from None
    try:
        return _from_object(data, line)
    except ParseError as error:
        if error.line_number is None or error.line:
            raise
        row_index = error.line_number
        raise _json_line(row_index, data["results"][row_index]).error(error.message) from None
    except (AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise line.error(f"the JSON lacks or spoils {error}") from None


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    return unique([(_MISSPELT.get(name, name), value) for name, value in pairs])


def in_full(table: NcclOutput, report: NcclOutput) -> NcclOutput:
    """The run of a printed table with the figures of its JSON file, which have more digits.

    Raises:
        ParseError: table and file contradict each other.
    """
    facts = ["ranks", "cycles", "cpu_time", "out_of_bounds", "average_ok"]
    facts += (
        [] if table.operation == "unknown" and report.operation in table.may_be else ["operation"]
    )
    for fact in facts:
        _agree(fact, getattr(table, fact), getattr(report, fact))
    _agree("number of rows", len(table.rows), len(report.rows))
    if not set(report.hosts) <= set(table.hosts):
        _agree("hosts", table.hosts, report.hosts)
    rows = tuple(_row_in_full(row, full) for row, full in zip(table.rows, report.rows))
    return replace(table, rows=rows, operation=report.operation, may_be=report.may_be)


def _agree(fact: str, of_table: Any, of_file: Any) -> None:
    if of_table != of_file:
        raise ParseError(
            f"the table and the JSON file contradict each other: {fact} is {of_table} in the table"
            f" and {of_file} in the file"
        )


def _row_in_full(row: Row, full: Row) -> Row:
    _agree("a row's lead", row[:5], full[:5])
    return row._replace(
        out_of_place=_body_in_full(row.out_of_place, full.out_of_place, row.size, "out of place"),
        in_place=_body_in_full(row.in_place, full.in_place, row.size, "in place"),
    )


def _body_in_full(
    body: Optional[Body], full: Optional[Body], size: int, side: str
) -> Optional[Body]:
    if body is None or full is None:
        _agree(f"half {side} of {size} bytes", body, full)
        return body
    place = f"of {size} bytes {side}"
    for name in ("time", "algbw", "busbw"):
        printed_figure, figure = getattr(body, name), getattr(full, name)
        if not printed_figure.may_be(figure):
            _agree(f"{name} {place}", printed_figure.value, figure.value)
    # The table prints six digits of a count.
    if None in (body.wrong, full.wrong) or not math.isclose(
        float(body.wrong or 0), float(full.wrong or 0), rel_tol=1e-5
    ):
        _agree(f"#wrong {place}", body.wrong, full.wrong)
    return body._replace(time=full.time, algbw=full.algbw, busbw=full.busbw)


def _from_object(data: Mapping[str, Any], line: Line) -> NcclOutput:
    version = _int(data["version"])
    missing = {"results", "out_of_bounds", "average_bus_bandwidth", "end_time"} - set(data)
    if missing:
        raise line.error(f"the run did not end: the JSON lacks {', '.join(sorted(missing))}")
    rows = [_json_row(row_index, entry, line) for row_index, entry in enumerate(data["results"])]
    bounds, average = data["out_of_bounds"], data["average_bus_bandwidth"]
    count = _int(bounds["count"])
    if _word(bounds["okay"]) != ("true" if count == 0 else "false"):
        raise line.error("out_of_bounds.okay contradicts its count")
    verdicts = {"true": "OK", "false": "FAILED", "unchecked": None}
    if _word(average["okay"]) not in verdicts:
        raise line.error(f"average_bus_bandwidth.okay is {average['okay']!r}")
    bodies = (entry[side] for entry in data["results"] for side in ("out_of_place", "in_place"))
    kinds = {"cpu_time" in body for body in bodies if body}
    if len(kinds) > 1:
        raise line.error("the JSON mixes time and cpu_time")
    processes = _processes(data["config"], line)
    return assembled(
        rows,
        _json_settings(data["config"], len(processes), rows),
        operation_of(str(data["args"][0])),
        (count, line),
        (_figure(average["bandwidth"]), verdicts[_word(average["okay"])], line),
        hosts=tuple(dict.fromkeys(str(device["hostname"]) for device in processes)),
        counts_wrong=True,
        cpu_time=kinds == {True},
        nccl_version=version_of(_int(data["nccl_version"])),
        errors=tuple(str(text) for text in data.get("errors", []) if text),
        not_judged={"version of the JSON": str(version)} if version > _NEWEST else {},
    )


def _word(okay: Any) -> str:
    """A verdict, which may be a word or true and false."""
    return str(okay).lower()


def _processes(config: Mapping[str, Any], line: Line) -> list[Mapping[str, Any]]:
    """Of each process of the first group the first device: others the JSON does not list."""
    devices: list[Mapping[str, Any]] = config["devices"]
    for index, device in enumerate(devices):
        if device["rank"] != index * _int(config["nthreads"]) * _int(config["ngpus"]):
            raise line.error(f"the JSON has rank {device['rank']} as that of process {index}")
    return [device for device in devices if device["group"] == devices[0]["group"]]


def _json_settings(config: Mapping[str, Any], processes: int, rows: Sequence[Row]) -> Settings:
    ranks = processes * _int(config["nthreads"]) * _int(config["ngpus"])
    by_factor = "step_factor" in config
    return Settings(
        threads=_int(config["nthreads"]),
        least=_int(config["minimum_bytes"]),
        # It is written before nccl-tests reduces it to the size that fits in memory, and a size
        # that is divided among the ranks is rounded down: past this none can have been reached.
        most=min(
            _int(config["maximum_bytes"]),
            max((row.size for row in rows), default=0) + _COARSEST_SHARE * ranks,
        ),
        step=_int(config["step_factor"] if by_factor else config["step_bytes"]),
        by_factor=by_factor,
        iterations=_int(config["iterations"]),
        validation=_int(config["validation"]),
        ranks=(ranks,),
    )


def _json_line(row_index: int, entry: Mapping[str, Any]) -> Line:
    """An error's name for a row."""
    return Line(f"results[{row_index}] of {entry['size']} bytes", 1)


def _json_row(row_index: int, entry: Mapping[str, Any], line: Line) -> Row:
    row = Row(
        size=_int(entry["size"]),
        elements=_int(entry["count"]),
        type=entry["type"],
        redop=entry["redop"],
        root=root_of(entry["root"].strip(), line),
        out_of_place=_json_body(entry, "out_of_place"),
        in_place=_json_body(entry, "in_place"),
        line=row_index,
    )
    return checked_row(row, _json_line(row_index, entry))


def _json_body(entry: Mapping[str, Any], side: str) -> Optional[Body]:
    body = entry[side]
    if body is None:  # the replay of a trace runs in place only
        return None
    report = entry.get(f"{side}_per_iter")
    least, most, p99 = (
        _figure(report[name]).value if report else 0.0 for name in ("min_us", "max_us", "p99_us")
    )
    return Body(
        time=_figure(body["cpu_time"] if "cpu_time" in body else body["time"]),
        algbw=_figure(body["alg_bw"]),
        busbw=_figure(body["bus_bw"]),
        wrong=None if body["nwrong"] is None else _figure(body["nwrong"]).value,
        iterations=(least, most, p99) if report else None,
    )


def _figure(value: Any) -> Printed:
    if not isinstance(value, Printed):
        raise ValueError(f"the figure {value!r}")
    return value


def _int(value: Any) -> int:
    if not is_count(value):
        raise ValueError(f"the count {value!r}")
    return int(value)
