"""Marks that identify the log of a training run, by the form of its lines."""

from __future__ import annotations

import io
import re
from typing import NamedTuple

from trueup_node.reading import Signature


class Form(NamedTuple):
    """The lines of one program.

    Attributes:
        framework: the program's name; "" where several print such lines.
        mark: stands in each line.
        head: of a line, with the group ``step``, and where it is printed ``total``.
        is_exact: whether work is the same in all lines: a rate times its time, or two rates.
        is_fixed: whether a figure has as many decimals in all lines.
    """

    framework: str
    mark: str
    head: re.Pattern[str]
    is_exact: bool = False
    is_fixed: bool = True


_STEP = r"(?P<step>\d{1,12})(?:\.0+)?"
_OF = r"(?: ?/ {0,8}(?P<total>\d{1,12}))?"

# Of a step of NeMo-RL, whose rates stand in the lines below.
RL_HEADING = re.compile(rf"={{20,60}} Step {_STEP}{_OF} ={{20,60}}")

FORMS = (
    Form("nemo_rl", "= Step ", RL_HEADING),
    Form(
        "torchtitan",
        "loss:",
        re.compile(rf"(?<!validate )\bstep: {{0,8}}{_STEP} {{1,4}}loss: .{{1,200}}?\b(?:tps|wps):"),
        is_exact=True,
    ),
    # Lightning's lines, and its progress bar.
    Form(
        *("nemo", "reduced_train_loss"),
        re.compile(rf"\bglobal_step[:=] ?{_STEP}"),
        is_fixed=False,
    ),
    Form(
        "maxtext",
        "completed step: ",
        re.compile(rf"\bcompleted step: {_STEP}, seconds: "),
        is_exact=True,
    ),
    Form("nanogpt", "iter ", re.compile(rf"\biter {_STEP}: loss \S+, time ")),
    Form(
        "litgpt", "iter time: ", re.compile(rf"\biter {_STEP} step \d+\b.{{1,80}}?, ?.*iter time: ")
    ),
    Form(
        "modded-nanogpt", "train_time:", re.compile(rf"\bstep:{_STEP}{_OF} .{{0,80}}?\btrain_time:")
    ),
    Form("deepspeed", "iter time (s): ", re.compile(rf"\bsteps: {_STEP} loss: ")),
    Form("gpt_neox", "samples/sec: ", re.compile(rf"\biteration +{_STEP}{_OF} \|"), is_exact=True),
    Form(
        "megatron", "elapsed time per iteration (ms):", re.compile(rf"\biteration +{_STEP}{_OF} \|")
    ),
    Form("llama2.c", " | loss ", re.compile(rf"^ {{0,8}}{_STEP} \| loss \S+ \| .*\d ?ms\b")),
    Form("llm.c", " (took ", re.compile(rf"\bstep {_STEP}: train loss \S+ \(took ")),
    Form("llm.c", "tok/s", re.compile(rf"\bstep {{1,8}}{_STEP}{_OF} \| (?:train )?loss ")),
    Form(
        "",
        "oss",  # also "Loss"
        re.compile(
            rf"(?i)\b(?:step|iter|iteration)[ :=]{{1,8}}{_STEP}{_OF}(?: \([\d.]+%\))?[ ,:|]{{1,4}}"
            r"(?:train[ _])?loss\b.{1,200}?"
            r"(?:tok(?:en)?s?/s|tokens(?: per |_per_)sec|samples/s|\bdt\b|\btime\b|\d ?ms\b)"
        ),
        is_fixed=False,
    ),
)
# A mark that other words have too, and the marks of a text.
_LOSS = {"oss": ("loss", "Loss", "LOSS")}
# Of a line that Megatron's own parser reads.
_MEGATRON = "consumed samples:"


def head_of(line: str, forms: tuple[Form, ...] = FORMS) -> tuple[Form, re.Match[str]] | None:
    """The form of a line of a training log, and its head."""
    if _MEGATRON in line:
        return None
    for form in forms:
        if form.mark in line and (match := form.head.search(line)):
            return form, match
    return None


def _has_step(text: str) -> bool:
    """Whether any line of a text is of a form."""
    forms = tuple(form for form in FORMS if form.mark in text)
    return bool(forms) and any(head_of(line, forms) for line in io.StringIO(text))


SIGNATURE = Signature(
    marks=tuple(
        dict.fromkeys(mark for form in FORMS for mark in _LOSS.get(form.mark, (form.mark,)))
    ),
    check=_has_step,
)
