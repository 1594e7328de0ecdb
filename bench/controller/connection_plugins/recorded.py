"""A connection that answers from a recording: a simulation of nodes, for measuring the controller.

A request is anything that Ansible sends over a connection: a module with its arguments (pipelined,
as a Python program with both in it), a shell command, or a file. Parts that differ from run to run
(names of temporary folders, the host's own name) are taken out before a request is looked up. A
request that is not in the recording fails; nothing is made up for it.
"""

from __future__ import annotations

import ast
import fcntl
import functools
import hashlib
import json
import os
import re
import shlex
import tempfile
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleError
from ansible.plugins.connection import ConnectionBase
from ansible.plugins.loader import connection_loader

DOCUMENTATION = r"""
name: recorded
author: trueup contributors
version_added: "0.2.0"
short_description: Answers from a recording, or makes one (a simulation)
description:
  - Simulates nodes. Answers at once what a recorded node answered, and fails where the recording
    has no answer.
  - With O(through) it asks a real node by that connection and appends each answer to the file.
options:
  remote_addr:
    description: The node; when recording, what the real connection calls its address.
    default: inventory_hostname
    vars:
      - name: inventory_hostname
      - name: ansible_host
  remote_user:
    description: The user; only the real connection uses it.
    vars:
      - name: ansible_user
  recording:
    description: File of the recording. When recording, lines are appended to it.
    type: path
    required: true
    vars:
      - name: ansible_recorded_file
  through:
    description: Connection by which to ask a real node, such as V(local). Empty means to replay.
    default: ""
    vars:
      - name: ansible_recorded_through
extends_documentation_fragment:
  - connection_pipelining
"""

FORMAT = "trueup.controller-recording/1"
HOW = "python bench/controller/record.py --help tells how to record it again"
# Module arguments that are the project's data and no question to the node: the answer of a node
# stays the same when a row is added to the catalog.
_DATA_ARGUMENTS = {
    *(("azure_node_facts", "catalog"), ("azure_node_facts", "families")),
    ("node_state", "watched"),
}
# Another each time: the name that the controller gave to a file made from text (copy, template),
# the run's, and arguments that describe the controller.
_OF_THE_RUN = {"_original_basename", "run_id", "controller"}
_LONG_TEXT = 200
# Programs of the project are data of it too: a node that is sent one answers for its name.
_PROJECT = Path(__file__).parents[3]
_PROGRAMS = "roles/**/files/*.py"
_TEMPORARY = re.compile(r"ansible-tmp-[0-9.]+-[0-9]+-[0-9]+")
_BECOME = re.compile(r"BECOME-SUCCESS-[a-z]{32}")
_PLACE = "ansible-tmp-X"
_CALL = b"\n    _ansiballz_main(\n"


def request_of(command: str, data: bytes | None, host: str) -> dict[str, Any]:
    """The request, without parts that differ from run to run and from host to host."""
    if data is None:
        return {"command": _plain(command, host)}
    start = data.rfind(_CALL)
    if start < 0:
        return {"command": _plain(command, host), "stdin": hashlib.sha256(data).hexdigest()}
    # One `name=repr(value),` a line. The module's code is in a line that is not read.
    fields = {}
    for line in data[start + len(_CALL) :].decode().splitlines():
        name, _, value = line.partition("=")
        if name in {"module_fqn", "params"}:
            fields[name] = ast.literal_eval(value.rstrip(","))
    module = fields["module_fqn"].rpartition(".")[2]
    arguments = json.loads(fields["params"])["ANSIBLE_MODULE_ARGS"]
    return {
        "module": module,
        "check": arguments["_ansible_check_mode"],
        "arguments": {
            name: _short(value, host)
            for name, value in sorted(arguments.items())
            if not name.startswith("_ansible_")
            and (module, name) not in _DATA_ARGUMENTS
            and name not in _OF_THE_RUN
        },
    }


def key_of(request: dict[str, Any]) -> str:
    """The request as one text."""
    return json.dumps(request, sort_keys=True)


@functools.lru_cache(maxsize=4)
def answers_in(path: str) -> dict[str, tuple[int, str, str]]:
    """The answers of a recording by their requests."""
    loaded = json.loads(Path(path).read_text(encoding="utf-8"))
    if loaded.get("format") != FORMAT:
        message = f"{path} is not a recording of the format {FORMAT}"
        raise AnsibleError(message)
    return {
        key_of(entry["request"]): (entry["status"], entry["output"], entry["errors"])
        for entry in loaded["answers"]
    }


def _plain(text: str, host: str) -> str:
    text = _BECOME.sub("BECOME-SUCCESS", _TEMPORARY.sub(_PLACE, text))
    return re.sub(rf"(?<![\w.-]){re.escape(host)}(?![\w.-])", "HOST", text)


@functools.cache
def _programs(host: str) -> list[tuple[str, str]]:
    """Path and plain text of each program that a role sends."""
    return [
        (str(path.relative_to(_PROJECT)), _plain(path.read_text(encoding="utf-8"), host))
        for path in sorted(_PROJECT.glob(_PROGRAMS))
    ]


def _short(value: Any, host: str) -> Any:
    """The value with plain texts: a program of ours by its path, other long ones by checksum."""
    if isinstance(value, str):
        text = _plain(value, host)
        if len(text) <= _LONG_TEXT:
            return text
        for name, program in _programs(host):
            if text.endswith(program):
                return text.removesuffix(program) + f"({name})"
        return "sha256:" + hashlib.sha256(text.encode()).hexdigest()
    if isinstance(value, dict):
        return {name: _short(member, host) for name, member in value.items()}
    if isinstance(value, list):
        return [_short(member, host) for member in value]
    return value


class Connection(ConnectionBase):
    """Ansible's entry."""

    transport = "recorded"
    has_pipelining = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._arguments = (args, kwargs)
        self._inner: Any = None

    def set_options(
        self, task_keys: Any = None, var_options: Any = None, direct: Any = None
    ) -> None:
        """Ansible's options; the real connection, where there is one, gets the same."""
        super().set_options(task_keys=task_keys, var_options=var_options, direct=direct)
        through = self.get_option("through")
        if through:
            args, kwargs = self._arguments
            self._inner = connection_loader.get(through, *args, **kwargs)
            self._inner.set_options(task_keys=task_keys, var_options=var_options, direct=direct)

    def _connect(self) -> Connection:
        if self._inner is not None:
            self._inner._connect()
        self._connected = True
        return self

    def exec_command(
        self, cmd: str, in_data: bytes | None = None, sudoable: bool = True
    ) -> tuple[int, bytes, bytes]:
        """Answer as the recorded module or command did."""
        super().exec_command(cmd, in_data=in_data, sudoable=sudoable)
        request = request_of(cmd, in_data, self._play_context.remote_addr)
        match = _TEMPORARY.search(cmd)
        if self._inner is None:
            status, output, errors = self._recorded(request)
            if match is not None:
                output = output.replace(_PLACE, match.group())
            return status, output.encode(), errors.encode()
        status, out, err = self._ask(cmd, in_data, sudoable)
        self._record(request, status, _TEMPORARY.sub(_PLACE, out.decode()), err.decode())
        return status, out, err

    def put_file(self, in_path: str, out_path: str) -> None:
        """Take a file."""
        super().put_file(in_path, out_path)
        content = Path(os.fsdecode(in_path)).read_bytes()
        request = {
            "put_file": _plain(os.fsdecode(out_path), self._play_context.remote_addr),
            # A module's program has temporary names in it.
            "sha256": hashlib.sha256(content).hexdigest(),
        }
        if self._inner is None:
            self._recorded(request)
        else:
            self._inner.put_file(in_path, out_path)
            self._record(request, 0, "", "")

    def fetch_file(self, in_path: str, out_path: str) -> None:
        """Refuse: nothing that configures a node fetches files from it."""
        super().fetch_file(in_path, out_path)
        message = f"the connection 'recorded' does not simulate fetching a file ({in_path})"
        raise AnsibleError(message)

    def close(self) -> None:
        """Nothing is open but the real connection."""
        if self._inner is not None:
            self._inner.close()
        self._connected = False

    def _ask(self, command: str, data: bytes | None, sudoable: bool) -> tuple[int, bytes, bytes]:
        """Ask the real node, by a file where its connection cannot pipe data into a command."""
        if data is None or self._inner.has_pipelining:
            response = self._inner.exec_command(command, in_data=data, sudoable=sudoable)
        else:
            with tempfile.NamedTemporaryFile(prefix="trueup-recorded-") as stream:
                stream.write(data)
                stream.flush()
                self._inner.put_file(stream.name, stream.name)
                piped = f"{command} <{stream.name}; status=$?; rm -f {stream.name}; exit $status"
                response = self._inner.exec_command(
                    f"/bin/sh -c {shlex.quote(piped)}", sudoable=sudoable
                )
        status, output, errors = response
        return status, output, errors

    def _recorded(self, request: dict[str, Any]) -> tuple[int, str, str]:
        path = self.get_option("recording")
        response = answers_in(path).get(key_of(request))
        if response is None:
            message = f"the recording {path} has no answer to {key_of(request)[:600]}; {HOW}"
            raise AnsibleError(message)
        return response

    def _record(self, request: dict[str, Any], status: int, output: str, errors: str) -> None:
        line = {"request": request, "status": status, "output": output, "errors": errors}
        # Workers of several tasks may be writing.
        with Path(self.get_option("recording")).open("a", encoding="utf-8") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX)
            stream.write(json.dumps(line) + "\n")
