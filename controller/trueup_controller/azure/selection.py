"""Selects the machines that become hosts: JMESPath over the facts of each (controller only)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from trueup_node.errors import BadInput
from trueup_node.suggest import did_you_mean

# Of these only the first child is looked up in the machine itself.
_INTO_FIRST = (
    *("subexpression", "pipe", "projection", "filter_projection", "value_projection"),
    *("index_expression", "flatten"),
)


class Selection:
    """Expressions of one option, any of which may be true.

    Args:
        option: its name, for messages.
        expressions: JMESPath.
        known_names: the names that an expression may ask for.

    Raises:
        BadInput: an expression is none, or asks for a name that no machine has: a text stands in
            single quotes, and Jinja is another language.
    """

    def __init__(
        self, option: str, expressions: Sequence[str], known_names: Collection[str]
    ) -> None:
        try:
            import jmespath
            from jmespath.exceptions import JMESPathError
        except ImportError:
            raise BadInput(
                f"{option} needs jmespath, which is not installed: run `make controller-venv` in"
                " trueup's checkout, and use the ansible programs in its .venv/bin"
            ) from None
        self._error = JMESPathError
        self.option = option
        self.texts = list(expressions)
        self._compiled: list[Any] = []
        for text in self.texts:
            try:
                compiled = jmespath.compile(text)
            except JMESPathError as error:
                message = " ".join(str(error).split())
                raise BadInput(
                    f"{option}: {text!r} is no JMESPath expression ({message})"
                ) from None
            for name in _names(compiled.parsed):
                if name not in known_names:
                    mend = (
                        did_you_mean(name, known_names)
                        or f"; a text is written '{name}', in single quotes"
                    )
                    raise BadInput(
                        f"{option}: {text!r} asks for {name!r}, which no machine has{mend}"
                    )
            self._compiled.append(compiled)

    def takes(self, name: str, facts: Mapping[str, Any]) -> bool:
        """Whether one of the expressions is true of a machine."""
        for text, compiled in zip(self.texts, self._compiled):
            try:
                value = compiled.search(facts)
            except self._error as error:
                message = " ".join(str(error).split())
                raise BadInput(f"{self.option}: {text!r} fails for {name} ({message})") from None
            if value:
                return True
        return False


def _names(node: Mapping[str, Any]) -> Iterator[str]:
    """The names that an expression looks up in the machine."""
    if node["type"] == "field":
        yield str(node["value"])
    children = node["children"][:1] if node["type"] in _INTO_FIRST else node["children"]
    for child in children:
        if isinstance(child, dict):
            yield from _names(child)
