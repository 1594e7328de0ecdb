"""Records as ReFrame's run report (reframe-hpc 4.10, schemas/runreport.json, data version 4.2)."""

from __future__ import annotations

import json
import re
import uuid
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Final

from .exported import Exported, node_of, seconds_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trueup_node.cases import Case
    from trueup_node.record import Metric

_DATA_VERSION: Final = "4.2"
_ENVIRONMENT: Final = "trueup"


def render(cases: Sequence[Case]) -> Exported:
    """One report: a run of ReFrame for each run of trueup, a test case for each record."""
    exported = Exported()
    by_run: dict[str, list[Case]] = {}
    for case in cases:
        by_run.setdefault(case.run_id, []).append(case)
    session = str(uuid.uuid5(uuid.NAMESPACE_URL, "trueup:" + ",".join(by_run)))
    runs = [
        _run(number, session, of_run, exported) for number, of_run in enumerate(by_run.values())
    ]
    began = [moment for case in cases if (moment := seconds_of(case)) is not None]
    ended = [
        moment + (case.duration or 0.0)
        for case in cases
        if (moment := seconds_of(case)) is not None
    ]
    first, last = min(began, default=0.0), max(ended, default=0.0)
    report = {
        "session_info": {
            "cmdline": "trueup export --format reframe",
            "config_files": [],
            "data_version": _DATA_VERSION,
            "hostname": "unknown",
            "log_files": [],
            "num_aborted": 0,
            "num_cases": sum(run["num_cases"] for run in runs),
            "num_failures": sum(run["num_failures"] for run in runs),
            "num_skipped": 0,
            "time_elapsed": last - first,
            "time_end": _time(last),
            "time_end_unix": last,
            "time_start": _time(first),
            "time_start_unix": first,
            "uuid": session,
            "version": "trueup",
        },
        "restored_cases": [],
        "runs": runs,
    }
    exported.texts["run-report.json"] = json.dumps(report, indent=2, ensure_ascii=False) + "\n"
    return exported


def _time(moment: float) -> str:
    return datetime.fromtimestamp(moment, timezone.utc).strftime("%Y%m%dT%H%M%S%z")


def _run(number: int, session: str, cases: Sequence[Case], exported: Exported) -> dict[str, Any]:
    testcases = [
        _testcase(f"{session}:{number}:{place}", case, exported) for place, case in enumerate(cases)
    ]
    return {
        "num_aborted": 0,
        "num_cases": len(cases),
        "num_failures": sum(each["result"] == "fail" for each in testcases),
        "num_skipped": 0,
        "run_index": number,
        "testcases": testcases,
    }


def _testcase(unique: str, case: Case, exported: Exported) -> dict[str, Any]:
    """A record. Figures of one that is not ok are none that the test measured."""
    system, partition = _word(case.vm_size or "unknown"), _word(case.region or "default")
    passed = case.outcome == "ok"
    began = seconds_of(case)
    if began is None:
        exported.left_out["record without a time: its test case has none"] += 1
    if not passed:
        exported.left_out[f"record that is {case.outcome}: its figures"] += 1
    name = _word(f"{case.benchmark}_{case.case}")
    figures = case.figures if passed else ()
    ended = None if began is None else began + (case.duration or 0.0)
    return {
        "build_jobid": None,
        "build_stderr": None,
        "build_stdout": None,
        "check_vars": {},
        "dependencies_actual": [],
        "dependencies_conceptual": [],
        "descr": f"{case.benchmark} {case.case}",
        "environ": _ENVIRONMENT,
        "fail_info": None,
        "fail_phase": None if passed else "performance",
        "fail_reason": None if passed else f"{case.outcome}: {case.reason or 'no reason'}",
        "fail_severe": False,
        "filename": case.source,
        "fixture": False,
        "job_completion_time": None if ended is None else _time(ended),
        "job_completion_time_unix": ended,
        "job_nodelist": list(case.nodes),
        "job_stderr": None,
        "job_stdout": case.raw_path,
        "name": name,
        "num_tasks": case.ranks,
        "outputdir": None,
        "partition": partition,
        "perfvalues": {
            f"{system}:{partition}:{_variable(figure)}": [
                *(figure.value, 0, None, None, figure.unit, None),
            ]
            for figure in figures
        },
        "result": "pass" if passed else "fail",
        "scheduler": "local",
        "system": system,
        "tags": [],
        "time_total": case.duration,
        "trueup_parameters": {key: str(value) for key, value in case.parameters.items()},
        "unique_name": _word(f"{name}_{node_of(case)}"),
        "uuid": unique,
    }


def _variable(figure: Metric) -> str:
    """The metric with its statistic, message size and device; a colon separates system and name."""
    size = None if figure.message_bytes is None else f"{figure.message_bytes}B"
    parts = filter(None, (figure.name, figure.statistic, size, figure.device))
    return ".".join(parts).replace(":", "_")


def _word(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.+-]+", "_", text)
