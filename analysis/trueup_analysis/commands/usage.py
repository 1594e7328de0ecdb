"""Messages on wrong usage, in one form for every command."""

from __future__ import annotations

import re
from typing import Any, Final

# By the type of pydantic's error, with which typer checks values.
_WRONG: Final = {
    "float_parsing": "is no number",
    "float_type": "is no number",
    "finite_number": "is no finite number",
    "int_parsing": "is no whole number",
    "int_from_float": "is no whole number",
    "int_type": "is no whole number",
    "bool_parsing": "is neither yes nor no",
    "greater_than": "is not above {gt}",
    "greater_than_equal": "is below {ge}",
    "less_than": "is not below {lt}",
    "less_than_equal": "is above {le}",
}
_DECIMAL_COMMA: Final = re.compile(r"-?\d+,\d+")


def usage(error: Any) -> str:
    """One sentence on a ``UsageError`` of typer, and where the help is; empty where typer has shown
    the help."""
    text = " ".join(_sentence(error).split()).removesuffix(".")
    command = error.ctx.command_path if error.ctx is not None else "trueup"
    return text and f"{text} (`{command} -h` shows the options)"


def _sentence(error: Any) -> str:
    option = getattr(error, "option_name", "")
    is_advise = error.ctx is not None and error.ctx.info_name == "advise"
    if option and is_advise and set(error.possibilities or ()) <= {"--help"}:
        parameter = option.lstrip("-").replace("-", "_")
        return f"{option} is no option; parameters of the work are given as {parameter}=VALUE"
    checked = getattr(error.__cause__, "errors", None)
    name = _name(error)
    if checked is None or not name:
        return re.sub(r"Invalid value(?: for|:) |'", "", str(error.format_message()))
    detail = checked()[0]
    value = str(detail.get("input"))
    wrong = _WRONG.get(detail["type"])
    if wrong is None:
        message = detail["msg"].removeprefix("Value error, ").replace("'", "")
        return f"{name} {value}: {message}"
    hint = f"; did you mean {value.replace(',', '.')}?" if _DECIMAL_COMMA.fullmatch(value) else ""
    return f"{name} {value} {wrong.format(**detail.get('ctx', {}))}{hint}"


def _name(error: Any) -> str:
    """The option or argument: "--price", "LOG"."""
    parameter = getattr(error, "param", None)
    if parameter is None:
        return ""
    options = [text for text in parameter.opts if text.startswith("--")]
    return options[0] if options else str(parameter.metavar or parameter.name).strip("[]")
