"""The benchmarks, a room each: ``benchmarks/<tool>/``.

``output``: the parser of the tool's output, which no other file understands. It has
``parse_<tool>(text)``: a frozen dataclass, or ParseError with the line; never an empty or partial
result. Also

- ``TOOL``: the tool's name, as in ``trueup read --tool NAME``;
- ``ROLE``: the role that installs it and measures, where that is not called as the tool.

``signatures``: identifies the tool's output by strings that only this tool prints
(``SIGNATURE``, a ``trueup_node.reading.Signature``). It is apart, so that ``trueup read`` imports
one parser and not all.

A result may have a member ``unverified``: a list of sentences, each a named cross-check that the
text lacks ("no list of ranks: busbw is not checked against their number"). Such figures are shown
and marked, never judged, and never an ok record. ``trueup_node.reading.unverified`` gives the list
of any result, empty without the member. A contradiction is a ParseError still.

A result may have a member ``not_judged``: by name, settings, fields and lines that the parser does
not know, with their values or counts. A form that is not known is called that, never damaged.

A result may have a member ``reasons``: by the name of a check, the sentence for its failure.

No Ansible, clock, files, network or environment in there. Code that parsers share is in
``trueup_node.reading``: lines that know their number, and the JSON of our own programs.

``view``: how its figures are shown (``VIEW``, a ``trueup_node.view.View``). Report, list, scaling,
cost and plots follow from it.
"""

from __future__ import annotations

from typing import Dict, List, Optional, Protocol

from ..record import Metric


class Parsed(Protocol):
    """Members of every parser's result, whatever the tool."""

    @property
    def tool_version(self) -> Optional[str]:
        """The tool's version where its output says it."""

    @property
    def warnings(self) -> List[str]:
        """Sentences that the reader of the numbers must know (rounding in the output, for
        example)."""

    @property
    def parameters(self) -> Dict[str, str]:
        """Parameters of the case in the output itself that an expectation may depend on
        (``operation`` of a collective); an empty mapping where it has none."""

    @property
    def checks(self) -> Dict[str, bool]:
        """The tool's own correctness checks by name; an empty mapping where it prints none."""

    def metrics(self) -> List[Metric]:
        """The rows, in base units with the unit named."""
