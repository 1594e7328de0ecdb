"""Repair cases from verdicts: which faults a node has, and whether it is well again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from trueup_controller.repair.ports import Outcome
from trueup_controller.repair.steps import Finding
from trueup_node.errors import BadInput
from trueup_node.health.dictionary import ghr_category
from trueup_node.health.node_verdicts import sentence
from trueup_node.suggest import did_you_mean

from .. import catalog
from .explain import read_dictionary
from .health import expectations, measured
from .health.examine import examine
from .health.required import OF_RUN, roster

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from trueup_node.cases import Case
    from trueup_node.health.dictionary import Dictionary
    from trueup_node.health.verdicts import Verdict

    from ..load import Loaded
    from .health.examine import Health

_MOST_FINDINGS: Final = 20
_STATE: Final = "node_state"
# Of the facts on a node, from its last record that has them.
_SYSTEM: Final = ("physical_host",)


class Codes(NamedTuple):
    """Azure's categories.

    Attributes:
        by_code: as the API takes them, by code: of Azure's node health checks (NHC2016), of DCGM
            and of healthagent.
        names: all, as the API takes them.
    """

    by_code: Mapping[str, str]
    names: Sequence[str]

    def checked(self, category: str) -> str:
        """A category as the API takes it, from its full or its short name.

        Raises:
            BadInput: Azure has none of that name.
        """
        short = category.removeprefix("Resource.Hpc.").removeprefix("Unhealthy.")
        by_folded = {name.rpartition(".")[2].lower(): name for name in self.names}
        if short.lower() not in by_folded:
            hint = did_you_mean(short, [name.rpartition(".")[2] for name in self.names])
            raise BadInput(
                f"Azure has no category {category!r}{hint}; catalog/faults/azure.yml lists all"
            )
        return by_folded[short.lower()]


class Suspect(NamedTuple):
    """A node with failures, and the facts for a case.

    Attributes:
        retest: whether only figures fail, and no part of the node or of its log.
    """

    node: str
    fault: str
    meaning: str
    category: str
    findings: list[Finding]
    first_symptom: str
    drain: bool
    retest: bool
    soft_fix: str
    vm_size: str
    region: str
    offer: str
    physical_host: str
    source: str


def read_codes(chosen: Path | None = None) -> Codes:
    """Azure's categories of the catalog."""
    document = catalog.document(catalog.find("faults/azure.yml", chosen))
    categories = document["categories"]
    by_code = {str(code): ghr_category(name) for name, code in categories.items() if code}
    by_code |= {code: ghr_category(name) for code, name in document.get("other_codes", {}).items()}
    return Codes(by_code, [ghr_category(name) for name in categories])


def suspects(loaded: Loaded, examined: Health, chosen: Path | None = None) -> list[Suspect]:
    """The nodes that fail alone.

    Args:
        examined: the verdicts on these records.
    """
    entries, codes = read_dictionary(chosen), read_codes(chosen)
    cases = measured.cases(loaded)
    return [
        _suspect(node, failures, _facts(cases, node), entries, codes)
        for node, failures in examined.blamed.items()
    ]


def _suspect(
    node: str,
    failures: Sequence[Verdict],
    facts: Mapping[str, str],
    entries: Dictionary,
    codes: Codes,
) -> Suspect:
    by_id = entries.all
    main = max(failures, key=lambda item: (item.metric in by_id, bool(item.fault)))
    entry = by_id.get(main.metric or "")
    category = entry.ghr if entry else codes.by_code.get(main.fault or "", "")
    times = sorted(item.measured_at for item in failures if item.measured_at)
    return Suspect(
        node=node,
        fault=entry.id if entry else (main.metric or main.benchmark),
        meaning=entry.meaning if entry else main.what,
        category=category,
        findings=[_finding(item) for item in failures[:_MOST_FINDINGS]],
        first_symptom=times[0] if times else "",
        drain=entry.drain if entry else True,
        # A speed may be low by chance; a part that is missing is missing.
        retest=all(item.benchmark != _STATE for item in failures),
        soft_fix=entry.soft_fix if entry else "",
        vm_size=main.vm_size or "",
        region=facts["region"],
        offer=facts["offer"],
        physical_host=facts["physical_host"],
        source=f"run {main.run_id}",
    )


def _finding(item: Verdict) -> Finding:
    row: dict[str, Any] = {**vars(item), "node": "+".join(item.nodes)}
    return Finding(
        benchmark=item.benchmark,
        text=sentence(row),
        metric=item.metric or "",
        device=item.device or "",
    )


def facts_of(loaded: Loaded, node: str) -> dict[str, str]:
    """Size, region, offer and physical host of a node, by its last records."""
    return _facts(measured.cases(loaded), node)


def _facts(cases: Sequence[Case], node: str) -> dict[str, str]:
    facts = dict.fromkeys(("vm_size", "region", "offer", *_SYSTEM), "")
    for case in sorted(cases, key=lambda item: item.started_at or ""):
        if case.nodes[:1] != (node,):
            continue
        for name, value in (
            ("vm_size", case.vm_size),
            ("region", case.region),
            ("offer", case.offer),
            *((name, case.system.get(name)) for name in _SYSTEM),
        ):
            if value:
                facts[name] = str(value)
    return facts


def outcome(
    loaded: Loaded, node: str, planned: Sequence[str], chosen: Path | None = None
) -> Outcome:
    """The outcome of a test of a node.

    Args:
        loaded: the records of the test's run.
        planned: the benchmarks of the test, beside the state of the node.

    Raises:
        BadInput: nothing of the node was judged, or something expected was not measured.
    """
    cases = [case for case in measured.cases(loaded) if node in case.nodes]
    if not cases:
        raise BadInput(f"the check measured nothing on {node}")
    examined = examine(
        cases,
        expectations.for_size(None, chosen),
        expected=roster(loaded, cases, None),
        required=planned,
        faults=expectations.read_faults(chosen),
    )
    failed = [_finding(item) for item in examined.findings if item.verdict == "fail"]
    meant = {*planned, _STATE, OF_RUN}
    missed = [
        item
        for item in examined.findings
        if item.verdict == "not measured" and (item.measured_at or item.benchmark in meant)
    ]
    if missed and not failed:
        reasons = "; ".join(dict.fromkeys(item.reason or item.what for item in missed[:3]))
        raise BadInput(f"the check did not measure everything on {node}: {reasons}")
    if examined.words.get(node) == "no verdict":
        raise BadInput(
            f"the check judged nothing on {node}, since no figure is expected of its size"
            " (unknown, or not in the catalog): test it by hand, then record it as returned, or"
            " close the case with a reason"
        )
    return Outcome(failed[:_MOST_FINDINGS], _facts(cases, node)["physical_host"])
