"""What a PowerShell pipeline of connection plugin psrp asks for, and the answer.

ansible-core 2.19: the script is its bootstrap wrapper; the input is a JSON that names exec_wrapper,
a line of four NULs, and a manifest whose last action is the module (module_wrapper.ps1:
params.Script, Variables) or one of ansible-core's own scripts; NULs and data follow where it takes
input. Other scripts are single commands of ansible-core and win_reboot, known by their whole text.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import ntpath
import pkgutil
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from . import modules
from .arguments import MODULES, Call, checked, hidden
from .errors import FailError, UnknownError
from .host import File, Host, ShareError

_MARK = "\0\0\0\0"
_UNTIL_DOWN = 0.2
_TAIL = (
    "If (-not $?) { If (Get-Variable LASTEXITCODE -ErrorAction SilentlyContinue) "
    "{ exit $LASTEXITCODE } Else { exit 1 } }"
)
__all__ = ["Answer", "answer", "modules"]


@dataclass
class Answer:
    """What a pipeline gives back: objects of its output, an error, its exit status."""

    output: list[str] = field(default_factory=list)
    error: str | None = None
    status: int = 0


def answer(host: Host, user: str, script: str, given: list[str]) -> Answer:
    """Run a pipeline's script with its input."""
    try:
        text = _bare(script)
        if text == _bare(bootstrap()):
            return _wrapped(host, user, given)
        return _command(host, text)
    except UnknownError as error:
        return Answer(
            [json.dumps({"failed": True, "changed": False, "msg": str(error)})], str(error), 1
        )
    except ShareError as error:
        return Answer([], str(error), 1)


def bootstrap() -> str:
    """The script with which ansible-core of this environment begins."""
    found = pkgutil.get_data("ansible.executor.powershell", "bootstrap_wrapper.ps1")
    return (found or b"").decode()


def _bare(script: str) -> str:
    """A script without blanks at line ends, and without what the shell plugin puts around it."""
    lines = [line.strip() for line in script.splitlines() if line.strip()]
    if lines[:1] == ["Set-StrictMode -Version Latest"]:
        del lines[0]
    return "\n".join(lines).removesuffix(_TAIL).rstrip("; \n")


def _wrapped(host: Host, user: str, given: list[str]) -> Answer:
    parts: list[list[str]] = [[]]
    for line in given:
        if line == _MARK:
            parts.append([])
        else:
            parts[-1].append(line)
    try:
        if json.loads("\n".join(parts[0]))["name"] != "exec_wrapper":
            raise UnknownError("what the bootstrap wrapper was given to run")
        manifest = json.loads("\n".join(parts[1]))
        actions = [(action["name"], action["params"]) for action in manifest["actions"]]
        last = actions[-1]
    except (IndexError, KeyError, TypeError, ValueError):
        raise UnknownError("input of the bootstrap wrapper that is no manifest") from None
    data = [line for part in parts[2:] for line in part]
    for name, params in actions[:-1]:
        if name != "become_wrapper.ps1":
            raise UnknownError(f"wrapper {name}")
        if set(params) - {"BecomeUser", "LogonType", "LogonFlags"}:
            raise UnknownError(f"become with {', '.join(sorted(params))}")
        user = _become(host, params["BecomeUser"])
    if last[0] == "module_wrapper.ps1":
        return _module(host, user, last[1], become=len(actions) > 1)
    if last[0] not in _OWN:
        raise UnknownError(f"script {last[0]}")
    with host.lock:
        return _OWN[last[0]](host, last[1], data)


def _become(host: Host, user: str) -> str:
    if user.upper() not in ("SYSTEM", *(name.upper() for name in host.users)):
        raise UnknownError(f"become user {user}")
    # One more PowerShell starts, whose command line holds no argument of the module.
    host.run("powershell.exe -noni -nop -ex Bypass -e (exec wrapper)", user)
    return user


def _module(host: Host, user: str, params: dict[str, Any], *, become: bool) -> Answer:
    try:
        name = str(params["Script"]).removesuffix(".ps1")
        given = dict(params["Variables"][0]["Value"]) if params.get("ForModule") else {}
    except (LookupError, TypeError, ValueError):
        raise UnknownError("a call of the module wrapper without module and arguments") from None
    # A collection's module comes under the name of its Python package.
    name = name.removeprefix("ansible_collections.").replace(".plugins.modules.", ".")
    if not params.get("ForModule"):
        raise UnknownError(f"script {params['Script']}")
    if params.get("Environment"):
        raise UnknownError(f"environment of module {name}")
    own = {key[9:]: given.pop(key) for key in list(given) if key.startswith("_ansible_")}
    call = Call(host, name, {}, bool(own.get("check_mode")), user, become)
    status = 0
    try:
        result = _done(call, given, logged=not own.get("no_log"))
    except (UnknownError, ShareError) as error:
        result, status = {"failed": True, "msg": str(error)}, 1
    except FailError as error:
        result, status = {**error.result, "failed": True, "msg": str(error)}, 1
    result = {"changed": False, **result, "invocation": {"module_args": call.args}}
    if call.warnings:
        result["warnings"] = call.warnings
    if not own.get("diff"):
        result.pop("diff", None)
    return Answer([json.dumps(hidden(result, call.secrets))], status=status)


def _done(call: Call, given: dict[str, Any], *, logged: bool) -> dict[str, Any]:
    """What the module gives for its arguments."""
    host = call.host
    what = MODULES.get(call.module)
    if what is None:
        raise UnknownError(f"module {call.module}")
    if host.faults.slow_seconds:
        time.sleep(host.faults.slow_seconds)
    call.args, call.secrets = checked(what, given)
    if logged:
        _note(call)
    if call.module in host.faults.modules:
        raise FailError(host.faults.modules[call.module])
    if call.check and not what.check_mode:
        short = call.module.rsplit(".", 1)[1]
        skipped = f"remote module ({short}) does not support check mode"
        return {"changed": False, "skipped": True, "msg": skipped}
    with host.lock:
        return what.handler(call)


def _note(call: Call) -> None:
    """Ansible.Basic writes each call with its arguments into the Application log."""
    text = json.dumps(hidden(call.args, call.secrets))
    name = call.module.rsplit(".", 1)[1]
    call.host.log("Application", "Ansible", 0, f"{name} - Invoked with:\r\n  {text}")


# ansible-core's own scripts


def _put(host: Host, params: dict[str, Any], data: list[str]) -> Answer:
    try:
        content = b"".join(base64.b64decode(line, validate=True) for line in data)
    except binascii.Error:
        raise UnknownError("data of a copied file that is not base64") from None
    host.write(host.expanded(params["Path"]), File(content))
    return Answer([json.dumps({"sha1": hashlib.sha1(content, usedforsecurity=False).hexdigest()})])


def _fetch(host: Host, params: dict[str, Any], _: list[str]) -> Answer:
    file = host.file(host.expanded(params["Path"]))
    if file is None:
        return Answer([], f"{params['Path']} does not exist", 1)
    if file.data is None:
        return Answer(["[DIR]"])
    size = int(params["BufferSize"])
    blocks = [file.data[start : start + size] for start in range(0, len(file.data), size)]
    return Answer(["[FILE]", *(base64.b64encode(block).decode() for block in blocks)])


def _mkdtemp(host: Host, params: dict[str, Any], _: list[str]) -> Answer:
    path = ntpath.join(host.expanded(params["Directory"]), params["Name"])
    host.write(path, File(None))
    return Answer([path])


def _expand_user(host: Host, params: dict[str, Any], _: list[str]) -> Answer:
    path = params["Path"]
    home = host.environment()["USERPROFILE"]
    return Answer([home + path[1:] if path == "~" or path.startswith("~\\") else path])


_OWN: dict[str, Callable[[Host, dict[str, Any], list[str]], Answer]] = {
    "psrp_put_file.ps1": _put,
    "psrp_fetch_file.ps1": _fetch,
    "powershell_mkdtemp.ps1": _mkdtemp,
    "powershell_expand_user.ps1": _expand_user,
}

# Single commands

_BOOT_TIME = (
    "(Get-CimInstance -ClassName Win32_OperatingSystem -Property LastBootUpTime)"
    ".LastBootUpTime.ToFileTime()"
)
_REMOVE = re.compile(r"Remove-Item '(?P<path>[^']+)' -Force(?: -Recurse)?;")
_LOGON = re.compile(
    r"Get-Item -LiteralPath '(?P<key>HKLM:[^']+)' -ErrorAction Stop; '(?P<word>success-[0-9a-f-]+)'"
)
_REBOOT = re.compile(
    r"""\$ErrorActionPreference = 'Continue'
if \(\$(?:True|False)\) \{
Remove-Item -LiteralPath '(?P<key>HKLM:[^']+)' -Force -ErrorAction SilentlyContinue
\}
\$stdout = \$null
\$stderr = \. \{ C:\\Windows\\System32\\shutdown\.exe /r /t (?P<delay>\d+) /c (?P<text>.+?) \| """
    r"""Set-Variable stdout \} 2>&1 \| ForEach-Object ToString
ConvertTo-Json -Compress -InputObject @\{
stdout = \(@\(\$stdout\) -join "`n"\)
stderr = \(@\(\$stderr\) -join "`n"\)
rc = \$LASTEXITCODE
\}"""
)


def _command(host: Host, text: str) -> Answer:
    with host.lock:
        if text == _BOOT_TIME:
            return Answer([str(host.boot_time)])
        if found := _REMOVE.fullmatch(text + ";"):
            # Of its temporary folder Ansible names the entry "." in it.
            host.remove(ntpath.normpath(host.expanded(found["path"])))
            return Answer()
        if found := _LOGON.fullmatch(text):
            if host.registry.get(found["key"]) is None:
                return Answer([], f"Cannot find path '{found['key']}'", 1)
            return Answer([found["key"], found["word"]])
        if found := _REBOOT.fullmatch(text):
            host.registry.delete(found["key"])
            host.run(f"C:\\Windows\\System32\\shutdown.exe /r /t {found['delay']}", "trueup")
            _boot_soon(host)
            return Answer([json.dumps({"stdout": "", "stderr": "", "rc": 0})])
    raise UnknownError(f"script of {len(text)} characters beginning {text[:60]!r}")


def _boot_soon(host: Host) -> None:
    """Go down once the answer is out, with no delay; come back ``boot_seconds`` later."""

    def boot() -> None:
        host.down = True
        time.sleep(host.boot_seconds)
        with host.lock:
            host.reboot()
            host.down = host.faults.stays_down

    timer = threading.Timer(_UNTIL_DOWN, boot)
    timer.daemon = True
    timer.start()
