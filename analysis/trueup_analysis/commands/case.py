"""``trueup case``: from a fault to a node that takes jobs again."""

from __future__ import annotations

import json
import shlex
import sys
from contextlib import suppress
from datetime import UTC, datetime
from enum import Enum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from trueup_node.errors import BadInput, TrueupError

from .interface import (
    Common,
    Format,
    FormatOption,
    OutputOption,
    examples,
    flag,
    group,
    option,
    put,
    say,
    taking,
    write,
)
from .records import RESULTS, RecordQuery, filtered

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trueup_controller.azure.manager import Manager
    from trueup_controller.repair.case import Case
    from trueup_controller.repair.loop import Permission, Permit, Result
    from trueup_controller.repair.plan import Next
    from trueup_controller.repair.policy import Policy
    from trueup_controller.repair.ports import Cloud, Outcome, Playbooks, Ports

    from ..figures.repair import Suspect

app = group(
    "case",
    "Repair cases: a node from its fault to taking jobs again (drain, evidence, soft fix, report to"
    " Azure, new host, test, give back). Each step is recorded beside the results, in"
    " results/cases.",
    "trueup case open                       # a case for each node that failed",
    "trueup case list                       # who waits for whom, and since when",
    "trueup case next h100-07 -i inventories/mine --yes",
    "trueup case show h100-07",
    "trueup case bill                       # hours and US$ of all cases",
)

ResultsOption = Annotated[
    Path, option("FOLDER", "The folder of results, with the cases.", "--results")
]
CaseArgument = Annotated[
    str,
    typer.Argument(
        metavar="CASE", help="A case's id, the beginning of one, or its node.", show_default=False
    ),
]


class Way(str, Enum):
    """How a report reaches Azure."""

    arm = "arm"
    cyclecloud = "cyclecloud"
    portal = "portal"


class Fact(str, Enum):
    """A step that a person did."""

    identified = "identified"
    evidence = "evidence"
    mended = "mended"
    drained = "drained"
    reported = "reported"
    followed = "followed"
    moved = "moved"
    returned = "returned"


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@app.command(
    "open",
    short_help="Open cases: of the nodes that failed the last check, or one by hand.",
    epilog=examples(
        "trueup case open",
        "trueup case open --node h100-07",
        "trueup case open --node h100-07 --fault gpu_off_bus --host ABC012345678",
        "trueup case open --node h100-07 --fault low_nccl --category NvLink",
    )
    + "\n\nA node has one open case at most: another failure of it is added to that case.",
)
@filtered
def open_(
    *,
    query: RecordQuery,
    fault: Annotated[
        str | None,
        option(
            "ID",
            "By hand: an entry of the dictionary (trueup explain names it), a code (NHC2016,"
            " DCGM_FR_NVLINK_DOWN), or a word of yours.",
        ),
    ] = None,
    category: Annotated[
        str | None, option("NAME", "By hand: Azure's category, such as IBPortDown.")
    ] = None,
    host: Annotated[str, option("NAME", "By hand: its physical host's name.")] = "",
    resource_id: Annotated[str, option("ID", "By hand: its VM's id at Azure.")] = "",
    size: Annotated[str, option("SIZE", "By hand: its VM size.", "--size")] = "",
    region: Annotated[str, option("REGION", "By hand: its region.")] = "",
    results: ResultsOption = RESULTS,
) -> None:
    """Open a case for each node that alone failed in the last run (or in --run, --since, --node),
    or by hand for one node with --fault or --category. Nothing is done to a node before `trueup
    case next`."""
    from trueup_controller.repair import journal

    if fault or category:
        if len(query.chosen.nodes) != 1:
            raise typer.BadParameter("--fault and --category need one --node")
        suspects = [
            _by_hand(
                query.chosen.nodes[0],
                fault,
                category,
                results,
                {"physical_host": host, "vm_size": size, "region": region},
            )
        ]
    else:
        suspects = _failed(query, results)
    if not suspects:
        say("No node failed alone: no case was opened.")
        return
    for suspect in suspects:
        with journal.together(results):
            put(_open_or_add(results, suspect, resource_id) + "\n")


def _failed(query: RecordQuery, results: Path) -> list[Suspect]:
    from ..figures.repair import suspects
    from ..tables.health import health as judge
    from .judged import judged

    sources = query.sources or [results]
    loaded, are_whole_runs = judged(sources, query.chosen, max_age=None)
    return suspects(loaded, judge(loaded, has_roster=are_whole_runs))


def _by_hand(
    node: str, fault: str | None, category: str | None, results: Path, overrides: dict[str, str]
) -> Suspect:
    """A case without a verdict: facts that are not given are those of the node's last records."""
    from trueup_controller.host_names import problems
    from trueup_node.suggest import did_you_mean

    from ..figures.explain import read_dictionary
    from ..figures.repair import Suspect, facts_of, read_codes
    from .records import load_all

    for problem in problems([node]):
        raise BadInput(problem)
    entries, codes = read_dictionary().all, read_codes()
    entry = entries.get(fault or "")
    category = category or codes.by_code.get(fault or "")
    if entry is None and category is None:
        raise BadInput(
            f"{fault!r} is no entry of the fault dictionary (`trueup explain` shows their ids);"
            f" give --category with a word of your own{did_you_mean(fault or '', entries)}"
        )
    ghr = codes.checked(category) if category else ""
    facts: dict[str, str] = {}
    # A site may have cases and no record.
    with suppress(BadInput):
        facts = facts_of(load_all([results]), node)
    facts |= {name: value for name, value in overrides.items() if value}
    return Suspect(
        node=node,
        fault=fault or ghr.rpartition(".")[2],
        meaning=entry.meaning if entry else "",
        category=ghr or (entry.ghr if entry else ""),
        findings=[],
        first_symptom="",
        drain=entry.drain if entry else True,
        retest=False,
        soft_fix=entry.soft_fix if entry else "",
        source="by hand",
        **{name: facts.get(name, "") for name in ("vm_size", "region", "offer", "physical_host")},
    )


def _open_or_add(results: Path, suspect: Suspect, resource_id: str) -> str:
    """Open a case of a node, or add its failures to the open one; a sentence on it."""
    from trueup_controller.repair import journal
    from trueup_controller.repair.steps import SCHEMA, Noticed, Opened
    from trueup_node.record import new_run_id

    listed = journal.read_all(results)
    if listed.refused:
        raise BadInput(f"{listed.refused[0]}: mend or move that file first")
    live = [case for case in listed.cases if case.node == suspect.node and not case.closed]
    if live:
        case = live[0]
        earlier = {(item.benchmark, item.metric, item.device) for item in case.findings}
        new = [
            item
            for item in suspect.findings
            if (item.benchmark, item.metric, item.device) not in earlier
        ]
        if not new:
            return f"{case.id}: {case.node} has this open case already ({case.opened.fault})"
        step = Noticed(at=_now(), by="operator", fault=suspect.fault, findings=new)
        journal.Journal(results, case.id).append(case, step)
        return f"{case.id}: {case.node} has this open case; {len(new)} more failures are added"
    now = _now()
    case_id = new_run_id(datetime.fromisoformat(now).strftime("%Y%m%dT%H%M%SZ"))
    facts = {**suspect._asdict(), "first_symptom": suspect.first_symptom or now}
    opened = Opened(
        at=now, by="operator", schema=SCHEMA, case=case_id, resource_id=resource_id, **facts
    )
    journal.Journal(results, case_id).open(opened)
    return f"{case_id}: {suspect.node}, {suspect.fault} ({suspect.category or 'no category'})"


@app.command(
    "list",
    short_help="All cases: who waits for whom, and since when.",
    epilog=examples("trueup case list", "trueup case list --all --format json")
    + "\n\nExit status: 0 no open case; 1 some are open; 2 a case's file cannot be read.",
)
def list_(
    *,
    every: Annotated[bool, flag("--all", "Closed cases too.")] = False,
    results: ResultsOption = RESULTS,
    format_: FormatOption = Format.table,
    output: OutputOption = None,
) -> None:
    """The open cases, oldest first: state, who is waited for (trueup: run `trueup case next`; the
    operator; Azure), for how long, and the next action."""
    from trueup_controller.repair import journal

    from ..sheets import repair as sheets

    listed = journal.read_all(results)
    live = [case for case in listed.cases if case.closed is None]
    chosen = listed.cases if every else live
    write([sheets.cases(chosen, _now(), str(results / journal.FOLDER))], format_, output)
    for sentence in listed.refused:
        say(f"trueup: error: {sentence}")
    if listed.refused or live:
        raise typer.Exit(2 if listed.refused else 1)


@app.command(
    short_help="One case, step by step.",
    epilog=examples("trueup case show h100-07", "trueup case show 20261130T0913 -f json"),
)
def show(
    case: CaseArgument,
    *,
    results: ResultsOption = RESULTS,
    format_: FormatOption = Format.table,
    output: OutputOption = None,
) -> None:
    """The steps of a case with their times and facts, and the next action."""
    from trueup_controller.repair import journal

    from ..sheets import repair as sheets

    write([sheets.case_steps(journal.find(results, case), _now())], format_, output)


@app.command(
    "next",
    short_help="Do the next actions of a case, until somebody else is waited for.",
    epilog=examples(
        "trueup case next h100-07 -i inventories/mine",
        "trueup case next h100-07 -i inventories/mine --yes",
        "trueup case next --all -i inventories/mine --policy policy.yml",
        "trueup case next h100-07 --dry-run",
        "trueup case next h100-07 --report-by portal",
    )
    + "\n\nNothing is done to a node, and nothing is sent, without your yes (--yes, or the answer"
    " to its question) or a rule of --policy (docs/examples/case_policy.yml). A killed command is"
    " started again: it goes on where it was.\n\n"
    "Exit status: 0 done as far as it goes: closed, or Azure is waited for; 1 the operator is"
    " waited for, with the reason; 64 wrong usage.",
)
def next_(
    case: Annotated[
        str | None,
        typer.Argument(metavar="[CASE]", help="A case's id, the beginning of one, or its node."),
    ] = None,
    *,
    every: Annotated[bool, flag("--all", "Each open case in turn.")] = False,
    yes: Annotated[bool, flag("--yes", "Yes to each action.")] = False,
    policy: Annotated[Path | None, option("FILE", "Actions that need no yes.", "--policy")] = None,
    dry_run: Annotated[
        bool, flag("--dry-run", "Show the next action and its command; do nothing.")
    ] = False,
    inventory: Annotated[
        str, option("INVENTORY", "Of Ansible, with the node.", "--inventory", "-i")
    ] = "inventories/local",
    scontrol: Annotated[
        str, option("COMMAND", "Slurm's: 'ssh LOGIN scontrol' from elsewhere.")
    ] = "scontrol",
    no_scheduler: Annotated[
        bool, flag("--no-scheduler", "No scheduler gives the nodes jobs.")
    ] = False,
    report_by: Annotated[
        Way,
        typer.Option(
            help="arm: Azure's API, after `az login`, with the role Impact Reporter; cyclecloud:"
            " its node action; portal: print the report."
        ),
    ] = Way.arm,
    cluster: Annotated[str, option("NAME", "With cyclecloud: the cluster.")] = "",
    subscription: Annotated[
        str, option("NAME", "Registered for Guest Health Reporting; else the login's default.")
    ] = "",
    results: ResultsOption = RESULTS,
) -> None:
    """Do the next actions of a case: drain the node, collect its evidence, apply the soft fix,
    report it to Azure, follow the report, bring the VM to another host, test exactly what failed
    and the size's short check, give the node back, close the case."""
    from trueup_controller.repair import journal
    from trueup_controller.repair.policy import read_policy

    if bool(case) == every:
        raise typer.BadParameter("name one case, or give --all")
    rules = read_policy(policy) if policy else None
    if case:
        chosen = [journal.find(results, case)]
    else:
        listed = journal.read_all(results)
        for sentence in listed.refused:
            say(f"trueup: error: {sentence}")
        chosen = [item for item in listed.cases if item.closed is None]
    plays = _playbooks(inventory, results)
    if dry_run:
        for item in chosen:
            put(_dry(item, plays))
        return
    cloud = _cloud(report_by, subscription, cluster)
    ports = _ports(None if no_scheduler else scontrol, cloud, plays, results)
    permit = partial(_permit, results, rules, yes)
    waits = [_advance(results, item, ports, permit) for item in chosen]
    if any(waits) or (every and listed.refused):
        raise typer.Exit(1)


def _playbooks(inventory: str, results: Path) -> Playbooks:
    from trueup_controller import project
    from trueup_controller.repair.ports import Playbooks

    beside = Path(sys.executable).with_name("ansible-playbook")
    return Playbooks(
        project.plays(),
        str(beside) if beside.exists() else "ansible-playbook",
        str(Path(inventory).resolve()) if Path(inventory).exists() else inventory,
        results,
        _short_check,
        say,
    )


def _short_check(size: str) -> Sequence[str]:
    """The benchmark of a size's short check: the first of its health check."""
    from trueup_controller.family import short_check
    from trueup_controller.sizes import read_sizes

    from .. import catalog

    sizes = read_sizes(str(catalog.find("vm_sizes.csv")))
    by_folded = {name.lower(): row for name, row in sizes.items()}
    return short_check(by_folded.get(size.lower()))


def _cloud(way: Way, subscription: str, cluster: str) -> Cloud:
    from trueup_controller.repair import clouds

    if way is Way.portal:
        return clouds.Portal(say)
    if way is Way.cyclecloud:
        return clouds.CycleCloud(cluster, say)

    def connected() -> Manager:
        from trueup_controller.azure.manager import connect

        return connect([subscription] if subscription else [])

    return clouds.Arm(connected)


def _ports(scontrol: str | None, cloud: Cloud, plays: Playbooks, results: Path) -> Ports:
    """The ports; without a command of Slurm, no scheduler is told."""
    from trueup_controller.repair.ports import NoScheduler, Ports, Slurm

    def judge(run: str, case: Case) -> Outcome:
        from ..figures.repair import outcome
        from .records import load_all

        loaded = load_all([results / run], may_be_empty=True)
        return outcome(loaded, case.node, plays.benchmarks(case))

    scheduler = NoScheduler() if scontrol is None else Slurm(scontrol)
    return Ports(scheduler, cloud, plays, judge)


def _permit(
    results: Path, policy: Policy | None, is_yes: bool, planned: Next, case: Case
) -> Permission:
    """The policy's yes, the option's, or that of the person at the terminal."""
    from trueup_controller.repair import journal
    from trueup_controller.repair.loop import Permission
    from trueup_controller.repair.policy import refusal

    if is_yes:
        return Permission("operator")
    reason = "no policy is given"
    if policy is not None:
        other_cases = [item for item in journal.read_all(results).cases if item.id != case.id]
        reason = refusal(policy, planned.name, case, other_cases, datetime.now(UTC))
        if not reason:
            return Permission("policy")
    if sys.stdin.isatty() and typer.confirm(f"{case.node}: {planned.text}?", err=True):
        return Permission("operator")
    return Permission("operator", f"{planned.text}: it needs your yes (--yes), since {reason}")


def _advance(results: Path, case: Case, ports: Ports, permit: Permit) -> bool:
    """Advance one case, and say where it stands; whether the operator is waited for."""
    from trueup_controller.repair import journal
    from trueup_controller.repair.loop import Loop

    try:
        result = Loop(results, journal.Journal(results, case.id), ports, permit, _now).run()
    except TrueupError as error:
        say(f"trueup: error: {case.id}: {error}")
        return True
    put(_standing(result))
    return bool(result.refusal) or result.next.actor == "operator"


def _standing(result: Result) -> str:
    case = result.case
    start = f"{case.id} {case.node}: {case.state}"
    if result.refusal:
        return f"{start}; not done: {result.refusal}\n"
    return f"{start}; {result.next.actor} next: {result.next.text}\n"


def _dry(case: Case, plays: Playbooks) -> str:
    """The next action of a case, with its command where it has one."""
    from trueup_controller.repair.impact import report_body
    from trueup_controller.repair.plan import next_action

    planned = next_action(case, _now())
    lines = [f"{case.id} {case.node}: {planned.actor} next: {planned.text}"]
    if planned.name == "test":
        lines.append(shlex.join(plays.test_command(case)))
    elif planned.name == "evidence":
        lines.append(shlex.join(plays.evidence_command(case)))
    elif planned.name == "mend":
        lines.append(shlex.join(plays.mend_command(case)))
    elif planned.name == "report":
        try:
            lines.append(json.dumps(report_body(case), indent=2))
        except BadInput as error:
            lines.append(str(error))
    return "\n".join(lines) + "\n"


@app.command(
    short_help="Record a step that you did by hand.",
    epilog=examples(
        "trueup case record h100-07 identified --host ABC012345678",
        "trueup case record h100-07 evidence --archive h100-07.tar.gz",
        "trueup case record h100-07 reported --impact 3f2a...",
        "trueup case record h100-07 followed --status NodeRemovedFromService",
        "trueup case record h100-07 moved",
    ),
)
def record(
    case: CaseArgument,
    fact: Annotated[Fact, typer.Argument(metavar="STEP", help="The step.")],
    *,
    host: Annotated[str, option("NAME", "identified: the physical host.")] = "",
    resource_id: Annotated[str, option("ID", "identified: the VM's id at Azure.")] = "",
    archive: Annotated[Path | None, option("FILE", "evidence: the archive.")] = None,
    impact: Annotated[str, option("NAME", "reported: the report's name or number.")] = "",
    status: Annotated[
        str, option("CODE", "followed: Azure's last word, such as NodeRemovedFromService.")
    ] = "",
    results: ResultsOption = RESULTS,
) -> None:
    """Record a step of a person: `trueup case next` goes on after it. A step that cannot follow
    is refused."""
    from trueup_controller.repair import by_hand, journal

    item = journal.find(results, case)
    file = journal.Journal(results, item.id)
    facts = {"host": host, "resource_id": resource_id, "impact": impact, "status": status}
    with file.alone():
        item = file.read()
        step = by_hand.step(item, fact.value, {**facts, "archive": str(archive or "")}, _now())
        item = file.append(item, step)
    put(f"{item.id} {item.node}: {item.state}\n")


@app.command(
    short_help="Close a case with a reason.",
    epilog=examples("trueup case close h100-07 --reason 'VM deleted'"),
)
def close(
    case: CaseArgument,
    *,
    reason: Annotated[str, option("TEXT", "Why; it stays in the record.")],
    results: ResultsOption = RESULTS,
) -> None:
    """Close a case that will not go on. A node that is still drained stays so: the message says
    it."""
    from trueup_controller.repair import journal
    from trueup_controller.repair.steps import Closed

    if not reason.strip():
        raise typer.BadParameter("--reason is empty")
    item = journal.find(results, case)
    file = journal.Journal(results, item.id)
    with file.alone():
        was_out = file.read().is_out
        file.append(file.read(), Closed(at=_now(), by="operator", reason=reason.strip()))
    put(f"{item.id} {item.node}: closed\n")
    if was_out:
        say(f"{item.node} is still drained: `scontrol update NodeName={item.node} State=RESUME`")


@app.command(
    short_help="Hours and US$ of cases, by node, fault and month; false drains.",
    epilog=examples(
        "trueup case bill",
        "trueup case bill --since 30d --format csv",
        "trueup case bill --price 98.32",
    ),
)
@taking(common=Common)
def bill(
    *,
    since: Annotated[
        str | None, option("TIME", "First symptom then or later: 2026-11-20, 30d.")
    ] = None,
    region: Annotated[str | None, option("REGION", "Price in this region.")] = None,
    offer: Annotated[str | None, option("OFFER", "payg, spot or 1y.")] = None,
    price: Annotated[
        float | None, option("US$", "US$ an hour and node, instead of the catalog.")
    ] = None,
    results: ResultsOption = RESULTS,
    common: Common,
) -> None:
    """Each case from its first symptom until the node was given back: hours, US$ by the price
    table with source and date (`not priced` where it has none), then the sums by node, fault and
    month. A false drain: drained, well on testing again, no fix, no report that Azure confirmed."""
    from trueup_controller.repair import journal

    from ..figures.repair_bill import bill as bill_of
    from ..figures.terms import Terms
    from ..selection import moment
    from ..sheets import repair as sheets

    listed = journal.read_all(results)
    terms = Terms(region=region, offer=offer, price=price)
    begin = moment(since, datetime.now(UTC)) if since else None
    chosen = [
        item
        for item in listed.cases
        if begin is None or datetime.fromisoformat(item.opened.first_symptom) >= begin
    ]
    common.write(sheets.bill(bill_of(chosen, _now(), terms, common.catalog)))
    for sentence in listed.refused:
        say(f"trueup: error: {sentence}")
    if listed.refused:
        raise typer.Exit(1)
