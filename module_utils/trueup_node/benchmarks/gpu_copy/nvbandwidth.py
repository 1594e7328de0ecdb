"""Reader of nvbandwidth: its text (0.4 to 0.10), and its JSON (since 0.5).

The text has for each test ``Running <test>.``, a heading, a matrix with a row of column numbers,
and ``SUM <test> <sum>``, which the matrix must add up to; JSON has the same with 6 significant
digits. GB/s are of 1e9 byte/s (v0.8, memcpy.cpp).

The heading of a matrix of peers does not say which way the data go: in the read test the GPU of the
row reads from the GPU of the column, in the write test it writes to it (testcases_ce.cpp of v0.4
and v0.8).
"""

from __future__ import annotations

import itertools
import math
import re
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Deque, List, NamedTuple, Optional

from ...errors import ParseError
from ...reading import STANDARD_ERROR, Line, is_number, only_json
from .result import GB, GpuCopyOutput, possible

_VERSION = re.compile(r"nvbandwidth Version: v?([0-9][0-9.]*)")
_RUNNING = re.compile(r"Running ([a-z0-9_]+)\.")
_WAIVED = re.compile(r"Waived:.*|Waiving ([a-z0-9_]+)\.")
_NO_TEST = re.compile(r"ERROR: Testcase (\w+) not found!")
_ERROR = re.compile(r"(?i:error).*|\[CUDA_ERROR.*|NVML_ERROR.*")
_HEADING = re.compile(r".*\((?:GB/s|ns|us)\)")
_ROW = re.compile(r"([0-9]+)((?:\s+(?:[0-9]+\.[0-9]{2}|N/A))+)")
_SUM = re.compile(r"SUM ([a-z0-9_]+) ([0-9]+\.[0-9]{2})")
_AFTER_SUM = re.compile(r"(?:MIN|MAX|AVG|COEFFICIENT_OF_VARIATION) [a-z0-9_]+ [-+.0-9e]+")
_LOOSE = re.compile(rf"{_HEADING.pattern}|SUM .*|{_ROW.pattern}")
# Of tests; else the text begins with the command, or messages of the shell and the launcher.
_FIRST = re.compile(rf"{_HEADING.pattern}|SUM .*|{_WAIVED.pattern}")
_JSON_RATE = re.compile(r"[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?")
_WRONG_DATA = "Invalid value when checking the pattern"
# The last line since 0.6; before, nothing tells a whole output from one that ends after a test.
_CLOSING = "Performance can vary"
_NO_VERSION = (
    "no line 'nvbandwidth Version: ...': tests may be missing above the first, and version and"
    " driver are not known"
)


class _Test(NamedTuple):
    """A test that is reported; others are checked and named.

    Attributes:
        same: other tests that have its heading, a pattern.
    """

    kind: str
    heading: str
    same: str


_READ, _WRITE = "device_to_device_memcpy_read_ce", "device_to_device_memcpy_write_ce"
_TESTS = {
    "host_to_device_memcpy_ce": _Test(
        "h2d", "memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)", "host_to_all_memcpy_ce"
    ),
    "device_to_host_memcpy_ce": _Test(
        "d2h", "memcpy CE CPU(row) <- GPU(column) bandwidth (GB/s)", "all_to_host_memcpy_ce"
    ),
    "device_local_copy": _Test("d2d", "memcpy local GPU(column) bandwidth (GB/s)", "(?!)"),
    _READ: _Test(
        "p2p",
        "memcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)",
        "(?:all_to_one_read|one_to_all_write|multinode_device_to_device_memcpy_read)_ce",
    ),
    _WRITE: _Test(
        "p2p",
        "memcpy CE GPU(row) <- GPU(column) bandwidth (GB/s)",
        "(?:all_to_one_write|one_to_all_read|multinode_device_to_device_memcpy_write)_ce",
    ),
}
_Matrix = List[List[Optional[float]]]


def nvbandwidth(lines: Sequence[Line]) -> GpuCopyOutput:
    """Read the text or the JSON, above which the GPU prints that it found wrong data.

    Raises:
        ParseError: a test, a matrix, a sum or the end is missing, damaged or doubled.
    """
    end = next((n for n, line in enumerate(lines) if line.startswith(STANDARD_ERROR)), len(lines))
    filled = [line for line in lines[:end] if line.strip()]
    if filled and filled[0].startswith("{"):
        return _of_json(filled)
    return _of_text(deque(filled))


def _of_text(lines: Deque[Line]) -> GpuCopyOutput:
    output = GpuCopyOutput("nvbandwidth")
    matrices: dict[str, _Matrix] = {}
    has_tests = is_closed = False
    while lines and output.correct:
        line = lines.popleft()
        text = line.strip()
        if _WRONG_DATA in text:
            output.correct = False
        elif match := _VERSION.fullmatch(text):
            if output.tool_version is not None or has_tests:
                raise line.error("a second nvbandwidth begins: read one output at a time")
            output.tool_version = match[1]
        elif match := _RUNNING.fullmatch(text):
            has_tests, is_closed = True, False
            output.correct = _test(match[1], line, lines, matrices)
        elif _HEADING.fullmatch(text) and (name := _name_of(lines)):
            has_tests, is_closed = True, False
            lines.appendleft(line)
            output.correct = _test(name, line, lines, matrices)
            output.unverified.append(f"no line 'Running {name}.' above its matrix")
        elif text.startswith(_CLOSING):
            is_closed = has_tests
        elif output.tool_version is not None or has_tests or _FIRST.fullmatch(text):
            has_tests = _between(output, line, has_tests=has_tests)
    _check_ends(output, has_tests=has_tests, is_closed=is_closed)
    _take(output, matrices)
    return output


def _between(output: GpuCopyOutput, line: Line, *, has_tests: bool) -> bool:
    """Whether a line between tests, or the tests above it, are nvbandwidth's. Above the first are
    versions, the host and its devices."""
    text = line.strip()
    if match := _WAIVED.fullmatch(text):
        name = match[1] or "a test, which it does not name"
        output.warnings.append(f"nvbandwidth waived {name}: this machine cannot run it")
        return True
    if match := _NO_TEST.fullmatch(text):
        output.warnings.append(f"nvbandwidth {output.tool_version} has no test {match[1]}")
        return True
    if _ERROR.fullmatch(text):
        raise line.error("nvbandwidth reports an error")
    if _LOOSE.fullmatch(text):
        raise line.error("a matrix of no test: a line 'Running' is missing")
    if has_tests and not text.startswith("NOTE: "):
        raise line.error("not a line that nvbandwidth prints between tests")
    return has_tests


def _name_of(lines: Sequence[Line]) -> Optional[str]:
    """The test whose matrix begins here, by the sum below it."""
    rows = itertools.takewhile(lambda line: not _HEADING.fullmatch(line.strip()), lines)
    sums = (_SUM.fullmatch(line.strip()) for line in rows)
    return next((match[1] for match in sums if match), None)


def _check_ends(output: GpuCopyOutput, *, has_tests: bool, is_closed: bool) -> None:
    if not output.correct:
        return
    if output.tool_version is None:
        if not has_tests:
            raise ParseError("no line 'nvbandwidth Version: v...'")
        output.unverified.append(_NO_VERSION)
    elif not is_closed:
        lacking = "tests may lack at its end"
        if re.match(r"0\.[0-5](?:\.|$)", output.tool_version):
            output.warnings.append(
                f"nvbandwidth {output.tool_version} prints no closing line: {lacking}"
            )
        elif not has_tests:
            raise ParseError("no test: the output is cut off")
        else:
            output.unverified.append(f"no closing line '{_CLOSING} ...': {lacking}")


def _next(lines: Deque[Line], expected: str) -> Line:
    if not lines:
        raise ParseError(f"expected {expected}: the output ends before")
    return lines.popleft()


def _test(name: str, line: Line, lines: Deque[Line], matrices: dict[str, _Matrix]) -> bool:
    """Read the matrix of one test; of a bidirectional one, its last. False where nvbandwidth found
    wrong data."""
    if name in matrices:
        raise line.error(f"test {name} stands twice")
    test = _TESTS.get(name)
    expected = f"the heading {test.heading if test else 'of a matrix'!r} of {name}"
    while name not in matrices or (lines and _HEADING.fullmatch(lines[0].strip())):
        heading = _next(lines, expected)
        text = heading.strip()
        if _WRONG_DATA in text:
            return False
        if not _HEADING.fullmatch(text) or (test and text != test.heading):
            raise heading.error(f"expected {expected}")
        matrices[name] = _matrix(name, lines)
    _check_shape(matrices[name], name, heading)
    return True


def _matrix(name: str, lines: Deque[Line]) -> _Matrix:
    line = _next(lines, f"the matrix of {name}")
    columns = line.split()
    if columns != [str(number) for number in range(len(columns))]:
        raise line.error(f"test {name}: expected the numbers of the columns, 0 1 ...")
    matrix: _Matrix = []
    while lines and (row := _ROW.fullmatch(lines[0].strip())):
        line = lines.popleft()
        cells = row[2].split()
        if int(row[1]) != len(matrix) or len(cells) != len(columns):
            raise line.error(f"test {name}: expected row {len(matrix)} with {len(columns)} figures")
        matrix.append([None if cell == "N/A" else float(cell) for cell in cells])
    line = _next(lines, f"'SUM {name}' after the matrix")
    total = _SUM.fullmatch(line.strip())
    # The three matrices of a bidirectional test have keys of their own.
    suffix = "" if name in _TESTS else r"(?:_[a-z0-9]+)?"
    if not matrix or not total or not re.fullmatch(re.escape(name) + suffix, total[1]):
        expected = "a row of the matrix, two decimals a figure"
        expected += f", or 'SUM {name}'" if matrix else ": the matrix has no rows"
        raise line.error(f"test {name}: expected {expected}")
    while lines and _AFTER_SUM.fullmatch(lines[0].strip()):
        lines.popleft()
    # Each printed figure is within half a unit of its last place, and so is the sum. The errors are
    # not independent: GPUs of one kind sit at one value, and add up to the most that is possible.
    _check_sum(matrix, float(total[2]), 0.005 * (len(_values(matrix)) + 1), line)
    return matrix


def _values(matrix: _Matrix) -> list[float]:
    return [value for row in matrix for value in row if value is not None]


def _check_sum(matrix: _Matrix, total: float, slack: float, line: Line) -> None:
    added = sum(_values(matrix))
    if not abs(added - total) <= slack + 1e-6:
        raise line.error(f"the matrix adds up to {added:.6g}, and its sum says {total:.6g}")


def _check_shape(matrix: _Matrix, name: str, line: Line) -> None:
    """A host has one row, peers as many rows as columns and nothing on the diagonal; a GPU can have
    each rate."""
    if name not in _TESTS:
        return
    if _TESTS[name].kind == "p2p":
        if any(len(row) != len(matrix) for row in matrix):
            raise line.error(f"test {name}: the matrix of peers is not square")
        if any(row[number] is not None for number, row in enumerate(matrix)):
            raise line.error(f"test {name}: a figure on the diagonal, where N/A stands")
    elif len(matrix) != 1 or None in matrix[0]:
        raise line.error(f"test {name}: expected one row, with a figure for each GPU")
    for value in _values(matrix):
        possible(value * GB, line, name)


def _take(output: GpuCopyOutput, matrices: Mapping[str, _Matrix]) -> None:
    """Put the reported matrices into the output, and name the others."""
    unreported = []
    for name, matrix in matrices.items():
        if name not in _TESTS or (name == _WRITE and _READ in matrices):
            unreported.append(name)
        elif _TESTS[name].kind == "p2p":
            _take_peers(output, matrix, reads=name == _READ)
        else:
            for gpu, value in enumerate(_values(matrix)):
                output.add(_TESTS[name].kind, (gpu,), [value * GB])
    if unreported:
        names = ", ".join(unreported)
        output.warnings.append(f"tests of nvbandwidth that are not reported: {names}")


def _take_peers(output: GpuCopyOutput, matrix: _Matrix, *, reads: bool) -> None:
    output.peer_test = "read" if reads else "write"
    missing = []
    for row, cells in enumerate(matrix):
        for column, value in enumerate(cells):
            pair = (column, row) if reads else (row, column)
            if value is not None:
                output.add("p2p", pair, [value * GB])
            elif row != column:
                missing.append(pair)
    output.reached(missing, len(matrix))


def _of_json(lines: Sequence[Line]) -> GpuCopyOutput:
    output, first = GpuCopyOutput("nvbandwidth"), lines[0]
    # Each at its number, for errors: the empty ones are not among them.
    rows = [""] * lines[-1].number
    for line in lines:
        rows[line.number - 1] = line
    data: Any = only_json("\n".join(rows), first.number - 1)
    matrices: dict[str, Optional[_Matrix]] = {}
    try:
        data = data["nvbandwidth"]
        if "error" in data:
            raise first.error(f"nvbandwidth reports an error: {str(data['error'])[:200]}")
        output.tool_version = str(data.get("version", "")).lstrip("v") or None
        if "warning" in data:
            output.warnings.append(f"nvbandwidth: {str(data['warning'])[:200]}")
        if not isinstance(data["testcases"], list) or not data["testcases"]:
            raise first.error("no testcases")
        for case in data["testcases"]:
            name = str(case["name"])
            if name in matrices:
                raise first.error(f"test {name} stands twice")
            matrices[name] = _json_test(case, name, output, first)
    except (AttributeError, KeyError, TypeError) as error:
        raise first.error(f"the JSON lacks or spoils {error}") from None
    _take(output, {name: matrix for name, matrix in matrices.items() if matrix is not None})
    return output


def _json_test(
    case: Mapping[str, Any], name: str, output: GpuCopyOutput, line: Line
) -> Optional[_Matrix]:
    """The matrix of one test, empty where it is not reported; None, and a warning, where it did not
    run."""
    status = str(case["status"])
    if status in {"ERROR", "Not Found"}:
        output.warnings.append(f"this nvbandwidth has no test {name}")
        return None
    if status == "Waived":
        output.warnings.append(f"nvbandwidth waived {name}: this machine cannot run it")
        return None
    if status != "Passed":
        raise line.error(f"test {name} has status {status}: {str(case.get('error', ''))[:200]}")
    heading = str(case["bandwidth_description"]).strip()
    if name in _TESTS:
        if heading != _TESTS[name].heading:
            raise line.error(f"test {name} has the description {heading[:80]!r}")
        return _json_matrix(case, name, line)
    if any(
        heading == test.heading and not re.fullmatch(test.same, name) for test in _TESTS.values()
    ):
        raise line.error(f"test {name} has the description of another test")
    return []


def _json_matrix(case: Mapping[str, Any], name: str, line: Line) -> _Matrix:
    matrix = [_json_row(row, name, line) for row in case["bandwidth_matrix"]]
    if not matrix or len({len(row) for row in matrix}) > 1:
        raise line.error(f"test {name}: the rows of the matrix are not of one length, or none")
    if not is_number(case["sum"]):
        raise line.error(f"test {name}: its sum is no number")
    _check_shape(matrix, name, line)
    # Six significant digits are printed.
    slack = sum(0.5 * 10.0 ** (math.floor(math.log10(value)) - 5) for value in _values(matrix))
    _check_sum(matrix, case["sum"], slack, line)
    return matrix


def _json_row(row: Any, name: str, line: Line) -> list[Optional[float]]:
    cells = [str(cell) for cell in row] if isinstance(row, list) else []
    if not cells or not all(cell == "N/A" or _JSON_RATE.fullmatch(cell) for cell in cells):
        raise line.error(f"test {name}: a row of the matrix has no figures, or others")
    return [None if cell == "N/A" else float(cell) for cell in cells]
