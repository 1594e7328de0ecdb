"""win_powershell: the repository's own fragments, and nothing else.

No PowerShell runs here. A fragment is known by its whole text: a handler stands for the file that
it was written for, and any other text is not known.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..arguments import Call, Option, module, once
from ..errors import FailError, UnknownError
from .files import there

ROOT = Path(__file__).resolve().parents[4]

# What a fragment does with its parameters: any of output, result, changed, failed, error.
Fragment = Callable[[Call, dict[str, Any]], dict[str, Any]]
FRAGMENTS: dict[str, Fragment] = {}


def fragment(path: str) -> Callable[[Fragment], Fragment]:
    """Register what stands for a file of this repository, as ``roles/x/files/y.ps1``."""

    def register(does: Fragment) -> Fragment:
        once(FRAGMENTS, path)
        FRAGMENTS[path] = does
        return does

    return register


@module(
    "ansible.windows.win_powershell",
    {
        "arguments": Option("list", elements="str", known=False),
        "chdir": Option(known=False),
        "creates": Option(),
        "depth": Option("int", default=2),
        "error_action": Option(
            default="continue", choices=("continue", "silently_continue", "stop")
        ),
        "executable": Option(known=False),
        "parameters": Option("dict"),
        "path": Option(known=False),
        "remote_src": Option("bool", default=False, known=False),
        "removes": Option(),
        "script": Option(),
        "sensitive_parameters": Option(
            "list",
            elements="dict",
            options={
                "name": Option(required=True),
                "password": Option(no_log=True),
                "username": Option(),
                "value": Option(no_log=True),
            },
        ),
    },
)
def win_powershell(call: Call) -> dict[str, Any]:
    """Run a fragment by what stands for it."""
    args, host = call.args, call.host
    if not args["script"]:
        raise FailError("one of the following is required: path, script")
    for option, wanted in (("creates", True), ("removes", False)):
        if args[option] and there(host, args[option]) == wanted:
            state = "exists" if wanted else "does not exist"
            skipped = f"skipped, since {args[option]} {state}"
            return {"changed": False, "msg": skipped}
    does = _known(args["script"])
    given = dict(args["parameters"] or {})
    for each in args["sensitive_parameters"] or []:
        both = {"username": each["username"], "password": each["password"]}
        given[each["name"]] = both if each["username"] else each["value"]
    # Script block logging (event 4104) shows the text and no parameter.
    host.log("Microsoft-Windows-PowerShell/Operational", "PowerShell", 4104, args["script"])
    if call.check and "SupportsShouldProcess" not in args["script"]:
        return {"changed": True, "msg": "skipped, running in check mode"}
    wrong = _bound(args["script"], given)
    done = {"failed": True, "error": [{"exception": {"message": wrong}}]} if wrong else {}
    done = done or does(call, given)
    unknown = sorted(set(done) - {"output", "result", "changed", "failed", "error"})
    if unknown:
        raise UnknownError(f"what a fragment gives: {', '.join(unknown)}")
    result: dict[str, Any] = {
        "changed": True,
        "failed": False,
        "result": {},
        "output": [],
        "error": [],
        **done,
    }
    for name in ("result", "output"):
        result[name] = _flat(result[name], args["depth"])
    result.update({stream: [] for stream in ("debug", "information", "verbose", "warning")})
    result.update(host_out="", host_err="")
    return result


def _known(script: str) -> Fragment:
    text = _normal(script)
    for path, does in FRAGMENTS.items():
        file = ROOT / path
        if file.is_file() and _normal(file.read_text()) == text:
            return does
    raise UnknownError(f"PowerShell beginning {text[:60]!r}")


def _bound(script: str, given: dict[str, Any]) -> str | None:
    """Why PowerShell does not bind the parameters: of its param block, and whole numbers."""
    declared = {}
    for text in _declarations(script):
        found = re.search(r"\$(\w+)", text)
        if found:
            declared[found[1].lower()] = text
    held = {name.lower(): value for name, value in given.items()}
    for name in given:
        if name.lower() not in declared:
            return f"A parameter cannot be found that matches parameter name '{name}'."
    for name, text in declared.items():
        if "Mandatory" in text and held.get(name) in (None, ""):
            said = "Cannot process command because of one or more missing mandatory parameters"
            return f"{said}: {name}."
        if "[int]" in text and name in held and not str(held[name]).lstrip("-").isdecimal():
            return f'Cannot convert value "{held[name]}" to type "System.Int32".'
    return None


def _declarations(script: str) -> list[str]:
    """The texts between the commas of a script's param block."""
    begin = re.search(r"^\s*param\s*\(", script, re.IGNORECASE | re.MULTILINE)
    if begin is None:
        return []
    depth, texts = 1, [""]
    for sign in script[begin.end() :]:
        depth += (sign in "([{") - (sign in ")]}")
        if depth == 0:
            break
        if sign == "," and depth == 1:
            texts.append("")
        else:
            texts[-1] += sign
    return texts


def _flat(value: Any, depth: int) -> Any:
    """What win_powershell leaves of a result that is deeper than its option ``depth``."""
    if not isinstance(value, (dict, list)):
        return value
    if depth < 0:
        each = [str(_flat(item, depth)) for item in value]
        return "System.Collections.Hashtable" if isinstance(value, dict) else " ".join(each)
    if isinstance(value, dict):
        return {name: _flat(item, depth - 1) for name, item in value.items()}
    return [_flat(item, depth - 1) for item in value]


def _normal(script: str) -> str:
    """The text without what YAML and lookups change: line ends, and blanks around it."""
    return "\n".join(line.rstrip() for line in script.strip().splitlines())
