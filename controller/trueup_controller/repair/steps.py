"""The steps of a repair case, as its file keeps them: one line of JSON each, never changed."""

from __future__ import annotations

from typing import Any, Final, Literal, Union

import msgspec
from trueup_node.errors import BadInput
from trueup_node.redaction import redact

SCHEMA: Final = "trueup.case/1"
Action = Literal["drain", "evidence", "mend", "test", "report", "move", "return"]
# How a report reaches Azure.
Way = Literal["arm", "cyclecloud", "portal"]


class Finding(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One failure of a node.

    Attributes:
        benchmark: that measured it, ``node_state`` for a part of the node; empty of a log's fault.
        text: a sentence.
    """

    benchmark: str
    text: str
    metric: str = ""
    device: str = ""


class _Step(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="step", forbid_unknown_fields=True
):
    """A step.

    Attributes:
        at: UTC, 2026-11-30T09:13:00Z.
        by: operator, policy, or trueup.
    """

    at: str
    by: Literal["operator", "policy", "trueup"] = "trueup"


class Opened(_Step, frozen=True, tag="opened"):
    """The first step.

    Attributes:
        fault: an entry of the dictionary, or the benchmark whose figure fails.
        category: Azure's, Resource.Hpc....; empty where none fits.
        retest: whether the node is tested again before it is reported: a figure may be a chance.
        soft_fix: of the dictionary; empty without.
        first_symptom: when the fault was first seen.
    """

    schema: str
    case: str
    node: str
    fault: str
    meaning: str
    findings: list[Finding]
    first_symptom: str
    category: str = ""
    drain: bool = True
    retest: bool = False
    soft_fix: str = ""
    vm_size: str = ""
    region: str = ""
    offer: str = ""
    physical_host: str = ""
    resource_id: str = ""
    source: str = ""


class Noticed(_Step, frozen=True, tag="noticed"):
    """Another failure of the same node."""

    fault: str
    findings: list[Finding]


class Identified(_Step, frozen=True, tag="identified"):
    """Facts on the node that a report needs."""

    physical_host: str = ""
    resource_id: str = ""
    vm_id: str = ""


class Begun(_Step, frozen=True, tag="begun"):
    """An action was about to start: after a kill it is started again.

    Attributes:
        key: of the action: the name of a report, a number of a test.
    """

    action: Action
    key: str = ""


class Evidence(_Step, frozen=True, tag="evidence"):
    """The archive of the node's evidence."""

    path: str
    sha256: str


class Mended(_Step, frozen=True, tag="mended"):
    """A soft fix was applied."""

    fix: str


class Drained(_Step, frozen=True, tag="drained"):
    """The node takes no new jobs.

    Attributes:
        owner: trueup, or the reason of whoever drained it before.
    """

    owner: str = "trueup"


class Reported(_Step, frozen=True, tag="reported"):
    """Azure has the report.

    Attributes:
        impact: its name at Azure.
    """

    impact: str
    way: Way
    category: str
    physical_host: str


class Followed(_Step, frozen=True, tag="followed"):
    """An insight of Azure into the report."""

    impact: str
    insight: str
    status: str
    terminal: bool
    text: str = ""


class Moved(_Step, frozen=True, tag="moved"):
    """The VM was deallocated and started, which brings it to another host."""

    key: str = ""


class Replaced(_Step, frozen=True, tag="replaced"):
    """The node is back on another host; empty where it does not tell which."""

    physical_host: str = ""


class Tested(_Step, frozen=True, tag="tested"):
    """The node was tested again.

    Attributes:
        run: the run's id.
        failed: nothing where the node is well.
    """

    run: str
    failed: list[Finding]


class GivenBack(_Step, frozen=True, tag="given_back"):
    """The node takes jobs again.

    Attributes:
        note: why it was left drained, where another drained it.
    """

    note: str = ""


class Stopped(_Step, frozen=True, tag="stopped"):
    """An action could not be done."""

    action: str
    reason: str


class Closed(_Step, frozen=True, tag="closed"):
    """The end."""

    reason: str


Step = Union[
    Opened,
    Noticed,
    Identified,
    Begun,
    Evidence,
    Mended,
    Drained,
    Reported,
    Followed,
    Moved,
    Replaced,
    Tested,
    GivenBack,
    Stopped,
    Closed,
]
_DECODER: Final = msgspec.json.Decoder(Step)


def line_of(step: Step) -> bytes:
    """A step as a line, without credentials."""
    document: Any = redact(msgspec.to_builtins(step))
    return msgspec.json.encode(document) + b"\n"


def step_of(line: bytes) -> Step:
    """A step from its line.

    Raises:
        BadInput: it is none.
    """
    try:
        step: Step = _DECODER.decode(line)
    except msgspec.MsgspecError as error:
        raise BadInput(f"it is no step of {SCHEMA}: {error}") from None
    if isinstance(step, Opened) and step.schema != SCHEMA:
        raise BadInput(f"its schema is {step.schema}, and this trueup reads {SCHEMA}")
    return step
