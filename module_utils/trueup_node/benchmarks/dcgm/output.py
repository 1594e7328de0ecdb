"""What ``dcgmi diag`` of NVIDIA's DCGM prints: JSON (``-j``) of DCGM 3 and 4, and its table; and
the output of dcgmproftester (``proftester``).

Both JSON forms have ``test_categories`` > ``tests`` > ``results``. DCGM 3 calls the root ``DCGM GPU
Diagnostic`` and a GPU ``gpu_id`` or ``gpu_ids``. DCGM 4 calls the root ``DCGM Diagnostic``, names a
GPU by ``entity_group`` and ``entity_id``, lists all in ``entity_groups`` and adds a
``test_summary``. Sources: dcgmi/Diag.cpp and nvvs/include/NvvsJsonStrings.h of DCGM 3.3.9 and
4.6.0; testing/python3/dcgm_diag_schema.json of 4.6.0.

DCGM 4 prints at most 16 info texts a test, so the figures of some GPUs may be missing (its issue
215). A missing figure is a warning, never zero.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import (
    Any,
    ClassVar,
    Dict,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Set,
    Tuple,
)

from ...errors import ParseError
from ...reading import Line, is_count, json_object, lines_of, refuse_long_numbers
from ...record import Metric
from . import proftester, signatures

TOOL = "dcgm"
# ubergemm computes other figures.
PROGRAM = "dcgmi diag"
ROOTS = ("DCGM Diagnostic", "DCGM GPU Diagnostic")
DEPLOYMENT = "Deployment"
_LOAD = "tensor load"

_STATUS = re.compile(r"(pass|fail|warn|skip|not run)(?: - all)?", re.IGNORECASE)
_GPU_LIST = re.compile(r"(Pass|Fail|Warn|Skip) - GPUs?: ?([0-9]{1,4}(?:, ?[0-9]{1,4})*)")
_ENTITY_STATUS = re.compile(r"([A-Za-z]{1,20}) ?([0-9]{1,4}): (Pass|Fail|Warn|Skip|Not Run)")
_ENTITY_TEXT = re.compile(r"(Warning|Info)(?:: ([A-Za-z]{1,20}) ?([0-9]{1,4}))?")
_SECTION = re.compile(r"[|+]-{5} {1,2}(\w[\w ]{0,30}?) {1,2}-{1,40}\+-{20,80}[|+]")
_HEADER = re.compile(r"\| Diagnostic +\| Result +\|")
_FOOTER = re.compile(r"\+-{20,40}\+-{20,80}\+")
_ROW = re.compile(r"\|(.{1,60}?)\| (.{1,90})\|")
_WRONG_VERSION = re.compile(
    r"Wrong version of dcgmproftester is used\. Expected Cuda version is ([0-9]{1,3})[.;]"
    r" Installed Cuda version is ([0-9]{1,3})"
)
_MENTION = re.compile(r"\bGPU ([0-9]{1,4})\b")
# Characters of a text in one row of the table.
_WRAPPED = 45
_ERROR = "Error"
_MOST_GPUS = 1024
# 100 Pflop/s: no GPU does a tenth of it.
_MOST = 1e17


class _Figure(NamedTuple):
    """A figure in an info text.

    Attributes:
        pattern: its text. The first group is the GPU's number, where the text has it.
        scale: base units in one printed unit.
    """

    name: str
    pattern: re.Pattern[str]
    unit: str
    direction: str
    scale: float


def _figure(name: str, text: str, unit: str, direction: str, scale: float = 1.0) -> _Figure:
    gpu = r"(?:\bGPU ([0-9]{1,4}) )?"
    number = r"([0-9]{1,18}(?:\.[0-9]{1,9})?)"
    pattern = re.compile(gpu + text.replace("N", number))
    return _Figure(name, pattern, unit, direction, scale)


# DCGM's GB/s is 10^9 byte/s. Its gigaflops are 2^30 operations a second (CalculateGFlopsMultiplier
# in nvvs/plugin_src/diagnostic/DiagnosticPlugin.cpp of 4.6.0).
_FIGURES = (
    _figure(
        "dcgm_diagnostic_rate",
        r"calculated at approximately N gigaflops",
        *("flop/s", "higher", float(1 << 30)),
    ),
    _figure("dcgm_gpu_to_host", r"GPU to Host bandwidth:\s{0,9}N GB/s", "byte/s", "higher", 1e9),
    _figure("dcgm_host_to_gpu", r"Host to GPU bandwidth:\s{0,9}N GB/s", "byte/s", "higher", 1e9),
    _figure("dcgm_both_ways", r"bidirectional bandwidth:\s{0,9}N GB/s", "byte/s", "higher", 1e9),
    _figure("dcgm_gpu_to_host_latency", r"GPU to Host latency:\s{0,9}N us", "s", "lower", 1e-6),
    _figure("dcgm_host_to_gpu_latency", r"Host to GPU latency:\s{0,9}N us", "s", "lower", 1e-6),
    _figure("dcgm_both_ways_latency", r"bidirectional latency:\s{0,9}N us", "s", "lower", 1e-6),
    _figure("dcgm_memory_tested", r"Allocated N bytes \(", "byte", "none"),
)


class Result(NamedTuple):
    """The result of one test on one device.

    Attributes:
        category: ``Deployment``, ``Hardware``, ``Integration`` or ``Stress``.
        test: its name as dcgmi prints it.
        device: ``gpu0``; empty for a test of the node.
        status: ``pass``, ``fail``, ``warn`` or ``skip``.
        reasons: the warnings.
        info: the other texts.
    """

    category: str
    test: str
    device: str
    status: str
    reasons: Tuple[str, ...] = ()
    info: Tuple[str, ...] = ()

    @property
    def slug(self) -> str:
        """The test's name in the names of checks."""
        return re.sub(r"[^a-z0-9]+", "_", self.test.lower()).strip("_")

    @property
    def check(self) -> str:
        """The name of its check."""
        return f"{self.slug}_{self.device}" if self.device else self.slug

    def __str__(self) -> str:
        where = f" on {self.device}" if self.device else ""
        return f"{self.test}{where}" + (f" ({'; '.join(self.reasons)})" if self.reasons else "")


@dataclass(frozen=True)
class DcgmOutput:
    """A run of ``dcgmi diag`` or dcgmproftester.

    Attributes:
        results: in the order of the output; a GPU without a result of a test has a skipped one.
        gpus: numbers of the GPUs.
        settings: metadata by name: driver, versions, fields that this parser does not know.
        rates: figures that are in no text of a result.
        program: ``dcgmi diag`` or ``dcgmproftester``.
    """

    results: Tuple[Result, ...]
    gpus: Tuple[int, ...]
    settings: Mapping[str, str]
    tool_version: Optional[str] = None
    rates: Tuple[Metric, ...] = ()
    program: str = PROGRAM
    # dcgmi tests the node of its host engine.
    node_count: ClassVar[int] = 1

    @property
    def gpu_count(self) -> Optional[int]:
        """GPUs that the output names."""
        return len(self.gpus) or None

    @property
    def parameters(self) -> Dict[str, str]:
        """The tests, and the metadata."""
        return {
            **self.settings,
            "program": self.program,
            "tests": ",".join(dict.fromkeys(row.slug for row in self.results)),
        }

    @property
    def checks(self) -> Dict[str, bool]:
        """Of each test and device, whether it passed. Skipped tests and those with a warning are in
        ``warnings``."""
        checks: Dict[str, bool] = {}
        for row in self.results:
            if row.status in ("pass", "fail"):
                checks[row.check] = checks.get(row.check, True) and row.status == "pass"
        return checks

    @property
    def reasons(self) -> Dict[str, str]:
        """Of each failed check dcgmi's own sentence."""
        return {row.check: str(row) for row in self.failed if row.reasons}

    @property
    def warnings(self) -> List[str]:
        """Skipped tests, warnings of passed ones, and figures that some GPUs lack."""
        texts = [f"skipped: {row}" for row in self.results if row.status == "skip"]
        texts += [f"warning: {row}" for row in self.results if row.status == "warn"]
        texts += [
            f"passed with a warning: {row}"
            for row in self.results
            if row.status == "pass" and row.reasons
        ]
        by_figure: Dict[str, List[str]] = {}
        for metric in self._figures():
            by_figure.setdefault(metric.name, []).append(str(metric.device))
        for name, devices in by_figure.items():
            if len(devices) < len(self.gpus):
                texts.append(f"{name} is printed for {len(devices)} of {len(self.gpus)} GPUs")
        return list(dict.fromkeys(texts))

    @property
    def failed(self) -> List[Result]:
        """The failed tests."""
        return [row for row in self.results if row.status == "fail"]

    def metrics(self) -> List[Metric]:
        """``dcgm_tests_failed`` and each GPU's figures in base units."""
        failed = float(len(self.failed))
        return [
            Metric("dcgm_tests_failed", failed, "1", "lower"),
            *self._figures(),
            *self.rates,
        ]

    def _figures(self) -> List[Metric]:
        metrics: Dict[Tuple[str, str], Metric] = {}
        for row in self.results:
            for figure, device, value in _figures_in(row):
                metrics.setdefault(
                    (figure.name, device),
                    Metric(figure.name, value, figure.unit, figure.direction, device=device),
                )
        return list(metrics.values())


def parse_dcgm(text: str) -> DcgmOutput:
    """Read the output of one run: JSON or table of dcgmi diag, or dcgmproftester's.

    Raises:
        ParseError: the output is none of them or is cut off, dcgmi reports a runtime error, a
            status is unknown, or two values contradict each other.
    """
    lines = lines_of(text)
    if any(signatures.LOAD in line or proftester.FIELD_NAME in line for line in lines):
        return _loaded(proftester.loads_in(lines))
    begin = next((line for line in lines if line.lstrip().startswith("{")), None)
    if begin is not None:
        above = begin.number - 1
        return _checked(*_from_json("\n" * above + "\n".join(lines[above:]), begin))
    return _checked(*_from_table(lines))


def explain(text: str) -> Optional[str]:
    """Why dcgmi ended without results, with the fix; None where its output does not say."""
    if "timeout: sending signal" in text:
        return "the diagnostic was stopped at its time limit (dcgm_timeout_seconds)"
    version = _WRONG_VERSION.search(text)
    if version:
        return (
            f"the program is for CUDA {version[1]} and the driver has CUDA {version[2]}: set"
            f" dcgm_stress_program to dcgmproftester{version[2]}"
        )
    try:
        reason = _runtime_error(_document(text))
    except (ParseError, ValueError):
        reason = ""
    if not reason:
        errors = (line.strip() for line in text.splitlines())
        reason = " ".join(line for line in errors if line.lower().startswith("error:"))
    if re.search(r"connect to host engine|connection to the specified host", reason, re.IGNORECASE):
        return f"the host engine does not answer: run `systemctl start nvidia-dcgm` ({reason})"
    return reason or None


def _loaded(loads: Sequence[proftester.Load]) -> DcgmOutput:
    results = [
        Result("Stress", _LOAD, f"gpu{load.gpu}", "pass" if load.passed else "fail")
        for load in loads
    ]
    rates = tuple(metric for load in loads for metric in load.metrics())
    for metric in rates:
        if not metric.value < _MOST:
            raise ParseError(f"{metric.name} {metric.value:g} of {metric.device} cannot be")
    return DcgmOutput(
        tuple(results),
        tuple(load.gpu for load in loads),
        {},
        rates=rates,
        program=proftester.PROGRAM,
    )


def _runtime_error(data: Mapping[str, Any]) -> str:
    roots = (data.get(name) for name in ROOTS)
    root = next((value for value in roots if isinstance(value, dict)), {})
    return " ".join(str(root.get("runtime_error", "")).split())


def _figures_in(row: Result) -> Iterator[Tuple[_Figure, str, float]]:
    for figure in _FIGURES:
        for text in row.info:
            for match in figure.pattern.finditer(text):
                device = f"gpu{int(match[1])}" if match[1] else row.device
                if device:
                    yield figure, device, float(match[2]) * figure.scale


def _document(text: str) -> Dict[str, Any]:
    """The first JSON object of a text.

    Raises:
        ParseError: there is none, or another diagnostic follows.
    """
    refuse_long_numbers(text)
    data, end = json_object(text, text.index("{"))
    if any(f'"{name}"' in text[end:] for name in ROOTS):
        raise ParseError("a second diagnostic follows: read each by itself")
    return data


_Read = Tuple[List[Result], Sequence[int], Dict[str, str]]


def _from_json(text: str, begin: Line) -> _Read:
    data = _document(text)
    names = [name for name in ROOTS if name in data]
    if "iterations" in data:
        raise ParseError("the output holds several iterations: run dcgmi diag without --iterations")
    if len(names) != 1 or not isinstance(data[names[0]], dict):
        raise begin.error(f"no object {' or '.join(ROOTS)}")
    root = data[names[0]]
    reason = _runtime_error(data)
    if reason:
        raise ParseError(f"dcgmi ran no tests: {reason}")
    results: List[Result] = []
    try:
        for category in root["test_categories"]:
            for test in category["tests"]:
                results += _json_test(str(category["category"]), test)
        gpus = _listed_gpus(data, root)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ParseError(f"the JSON of dcgmi diag lacks or spoils {error}") from None
    settings = {
        **_settings(root, ("test_categories", "runtime_error")),
        **_settings(data, (*ROOTS, "entity_groups", "metadata")),
        **_settings(data.get("metadata", {}), ()),
    }
    return results, gpus, settings


def _settings(data: Mapping[str, Any], excluded: Sequence[str]) -> Dict[str, str]:
    return {
        str(name): ",".join(map(str, value)) if isinstance(value, list) else str(value)
        for name, value in data.items()
        if name not in excluded
        and not isinstance(value, dict)
        and "serial" not in str(name).lower()
    }


def _listed_gpus(data: Mapping[str, Any], root: Mapping[str, Any]) -> Sequence[int]:
    if "entity_groups" in data:
        return [
            _number(entity["entity_id"])
            for group in data["entity_groups"]
            if str(group["entity_group"]).upper() == "GPU"
            for entity in group["entities"]
        ]
    devices = data.get("GPU Device IDs", root.get("GPU Device IDs", []))
    if not isinstance(devices, list):
        raise TypeError("GPU Device IDs")
    return range(len(devices))


def _number(value: Any) -> int:
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,4}", value):
        value = int(value)
    if not is_count(value) or value >= _MOST_GPUS:
        raise ValueError(f"a GPU's number: {value!r}")
    return int(value)


def _json_test(category: str, test: Mapping[str, Any]) -> List[Result]:
    name = str(test["name"])
    rows = []
    for result in test.get("results", []):
        reasons, info = _texts(result.get("warnings", [])), _texts(result.get("info", []))
        status = _status(result["status"], name)
        devices = dict.fromkeys(_devices(result), status)
        warned = _shared([("", text) for text in reasons], devices)
        informed = _shared([("", text) for text in info], devices)
        rows += [
            Result(category, name, device, status, warned[device], informed[device])
            for device in devices
        ]
    summary = test.get("test_summary")
    if summary is None:
        if not rows:
            raise ParseError(f"{name} has no result")
        return rows
    status = _status(summary["status"], name)
    reasons = _texts(summary.get("warnings", []))
    if any(row.status == "fail" for row in rows):
        if status != "fail":
            raise ParseError(f"{name} failed on a device, and its summary says {status}")
    elif status == "fail" or not rows:
        rows.append(Result(category, name, "", status, reasons, _texts(summary.get("info", []))))
    return rows


def _devices(result: Mapping[str, Any]) -> List[str]:
    if "entity_id" in result or "entity_group" in result:
        group = re.sub(r"[^a-z0-9]", "", str(result["entity_group"]).lower())
        return [f"{group or 'entity'}{_number(result['entity_id'])}"]
    # DCGM 3 gives a failed test of the node the GPU of its error.
    ids = result.get("gpu_ids", result.get("gpu_id"))
    if ids is None or ids == "":
        return [""]
    return [f"gpu{_number(gpu_id.strip())}" for gpu_id in str(ids).split(",")]


def _texts(value: Any) -> Tuple[str, ...]:
    """Warnings or info texts: one text, a list, or a list of objects with a ``warning``."""
    values = value if isinstance(value, list) else [value]
    texts = []
    for item in values:
        text = item.get("warning", item.get("warnings")) if isinstance(item, dict) else item
        if not isinstance(text, str):
            raise TypeError(f"a text: {item!r}")
        texts.append(" ".join(text.split()))
    return tuple(filter(None, texts))


def _status(text: Any, test: str) -> str:
    match = _STATUS.fullmatch(str(text).strip())
    if match is None:
        raise ParseError(f"{test} has the status {str(text)[:40]!r}, which is unknown")
    status = match[1].lower()
    return "skip" if status == "not run" else status


def _from_table(lines: Sequence[Line]) -> _Read:
    begin = next((line for line in lines if _HEADER.fullmatch(line.strip())), None)
    if begin is None:
        raise ParseError("no JSON object and no table with the header Diagnostic | Result")
    table = _Table()
    ended = False
    for line in lines[begin.number :]:
        row = line.strip()
        section, cells = _SECTION.fullmatch(row), _ROW.fullmatch(row)
        if ended:
            if _HEADER.fullmatch(row):
                raise line.error("a second diagnostic follows: read each by itself")
        elif section:
            table.section(section[1])
        elif _FOOTER.fullmatch(row):
            ended = True
        elif cells:
            table.row(line, cells[1], cells[2])
        elif not row.startswith("+="):
            raise line.error("no row of the table")
    if not ended:
        raise ParseError("the table's last line is missing: the output is cut off")
    return table.rows(), table.gpus(), table.settings


class _Test(NamedTuple):
    """One test of the table: its rows until the next one.

    Attributes:
        summary: the status in the test's row, such as ``Pass - All``; empty where that names GPUs.
        devices: status by device.
        texts: of each warning or info, its kind, device and text.
    """

    category: str
    name: str
    summary: List[str]
    devices: Dict[str, str]
    texts: List[List[str]]


class _Table:
    """The table, read row by row."""

    def __init__(self) -> None:
        self.settings: Dict[str, str] = {}
        self._category = ""
        self._tests: List[_Test] = []

    def section(self, name: str) -> None:
        """Begin a category."""
        self._category = name

    def row(self, line: Line, name: str, cell: str) -> None:
        """Read a row: a setting, a test, or more of the last test."""
        name, value = name.strip(), cell.strip()
        label = _ENTITY_TEXT.fullmatch(name)
        if self._category == "Metadata":
            self.settings[name] = value
        elif label and self._tests:
            device = f"{label[2].lower()}{label[3]}" if label[2] else ""
            self._tests[-1].texts.append([label[1], device, cell[:_WRAPPED]])
        elif name == _ERROR and not _STATUS.fullmatch(value):
            # Not a test: the reason why the tests of this category did not run.
            self._tests.append(_Test(self._category, name, ["Fail"], {}, []))
            self._tests[-1].texts.append(["Warning", "", cell[:_WRAPPED]])
        elif name:
            self._tests.append(_Test(self._category, name, [], {}, []))
            if not self._status(line, value):
                raise line.error(f"{name} has a status that is unknown")
        elif not self._tests:
            raise line.error("a row without a test")
        elif not self._status(line, value):
            if not self._tests[-1].texts:
                raise line.error("a row that continues no text")
            self._tests[-1].texts[-1][2] += cell[:_WRAPPED]

    def _status(self, line: Line, value: str) -> bool:
        """Read a status of the last test, if the cell holds one."""
        test = self._tests[-1]
        listed, entity = _GPU_LIST.fullmatch(value), _ENTITY_STATUS.fullmatch(value)
        if listed:
            statuses = {f"gpu{int(n)}": listed[1].lower() for n in listed[2].split(",")}
        elif entity:
            statuses = {f"{entity[1].lower()}{int(entity[2])}": _status(entity[3], test.name)}
        elif _STATUS.fullmatch(value) and not test.summary:
            test.summary.append(value)
            return True
        else:
            return False
        if statuses.keys() & test.devices.keys():
            raise line.error("a GPU has two results of one test")
        test.devices.update(statuses)
        return True

    def gpus(self) -> Sequence[int]:
        """Numbers of the GPUs that the metadata counts."""
        ids = self.settings.get("GPU Device IDs Detected", "")
        return range(len([gpu_id for gpu_id in ids.split(",") if gpu_id.strip()]))

    def rows(self) -> List[Result]:
        """The results of all tests."""
        return [row for test in self._tests for row in self._rows_of(test)]

    def _rows_of(self, test: _Test) -> List[Result]:
        summary = _status(test.summary[0], test.name) if test.summary else ""
        devices = dict(test.devices)
        if summary and not devices:
            everywhere = "all" in test.summary[0].lower() and self.gpus()
            names = [f"gpu{number}" for number in self.gpus()] if everywhere else [""]
            devices = dict.fromkeys(names, summary)
        elif summary == "fail" and "fail" not in devices.values():
            devices[""] = summary
        elif summary and summary != "fail" and "fail" in devices.values():
            raise ParseError(f"{test.name} failed on a device, and its row says {summary}")
        texts = {"Warning": [], "Info": []}  # type: Dict[str, List[Tuple[str, str]]]
        for kind, device, text in test.texts:
            texts[kind].append((device, " ".join(text.split())))
        reasons = _shared(texts["Warning"], devices)
        info = _shared(texts["Info"], devices)
        return [
            Result(test.category, test.name, device, status, reasons[device], info[device])
            for device, status in devices.items()
        ]


def _shared(
    texts: Sequence[Tuple[str, str]], devices: Mapping[str, str]
) -> Dict[str, Tuple[str, ...]]:
    """Texts by device: of the device that a text belongs to or mentions. A text without a device
    belongs to each one that did not pass, or to the only one."""
    shared: Dict[str, List[str]] = {device: [] for device in devices}
    unwell = [device for device, status in devices.items() if status != "pass"]
    for device, text in texts:
        mention = _MENTION.search(text)
        owner = device or (f"gpu{int(mention[1])}" if mention else "")
        if len(devices) == 1:
            owners = list(devices)
        elif owner in shared:
            owners = [owner]
        else:
            owners = unwell
        for name in owners:
            shared[name].append(text)
    return {device: tuple(values) for device, values in shared.items()}


def _checked(results: List[Result], listed: Sequence[int], settings: Dict[str, str]) -> DcgmOutput:
    """The output, with a skipped result where a GPU lacks one.

    Raises:
        ParseError: no test has a result, one stands twice, or a figure names another GPU.
    """
    if not results:
        raise ParseError("no test has a result")
    keys = [(row.category, row.test, row.device) for row in results]
    if len(set(keys)) != len(keys):
        twice = max(keys, key=keys.count)
        raise ParseError(f"{twice[1]} has two results on {twice[2] or 'the node'}")
    gpus = _numbers(results, listed)
    complete = [*results, *_absent(results, gpus)]
    _check_figures(complete, gpus)
    parameters = {
        re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_"): value
        for name, value in settings.items()
    }
    version = settings.get("DCGM Version", settings.get("version"))
    return DcgmOutput(tuple(complete), tuple(gpus), parameters, tool_version=version)


def _numbers(results: Sequence[Result], listed: Sequence[int]) -> List[int]:
    """The GPUs' numbers. DCGM 3 counts its GPUs and does not number them."""
    named = {int(row.device[3:]) for row in results if re.fullmatch("gpu[0-9]+", row.device)}
    if isinstance(listed, range) and not named <= set(listed):
        return sorted(named)
    return sorted(named | set(listed))


def _absent(results: Sequence[Result], gpus: Sequence[int]) -> Iterator[Result]:
    """A skipped result of each test of the hardware that some GPUs have and others lack."""
    devices: Dict[Tuple[str, str], Set[str]] = {}
    for row in results:
        devices.setdefault((row.category, row.test), set()).add(row.device)
    for (category, test), tested in devices.items():
        # DCGM 3 names a GPU in a failed test of the node.
        if category != DEPLOYMENT and any(device.startswith("gpu") for device in tested):
            for number in gpus:
                if f"gpu{number}" not in tested:
                    yield Result(category, test, f"gpu{number}", "skip", ("no result",))


def _check_figures(results: Sequence[Result], gpus: Sequence[int]) -> None:
    devices = {f"gpu{number}" for number in gpus}
    for row in results:
        for figure, device, value in _figures_in(row):
            if row.device and device != row.device:
                raise ParseError(f"{row.test} on {row.device} has a figure of {device}")
            if not value < _MOST or device not in devices:
                raise ParseError(f"{figure.name} {value:g} of {device} cannot be")
