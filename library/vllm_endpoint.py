#!/usr/bin/python
"""Ansible module: whether a vLLM server can be started here, and whether it answers."""

from __future__ import annotations

DOCUMENTATION = r"""
module: vllm_endpoint
author: trueup contributors (@trueup)
version_added: "0.4.0"
short_description: Sees whether vLLM servers can start, and waits until one answers
description:
  - With O(state=possible), looks for what would keep the O(services) from starting, before anything
    is installed, and returns it as sentences.
  - With O(state=ready), waits until the API of one service answers, and until O(completions)
    completions of one token came back. A server whose data-parallel partner is lost answers
    C(/health) all the same. It ends early when the service fails, with the reason that its log
    gives.
  - With O(state=ready) and O(headless=true), sees the service stay up for O(settle_seconds); such a
    server has no API.
attributes:
  check_mode:
    support: full
    description: Nothing is changed anyway. O(state=ready) does not wait in check mode.
  platform:
    support: full
    description: Linux with systemd.
    platforms: linux
extends_documentation_fragment: trueup_options.vllm_endpoint
"""

EXAMPLES = r"""
- name: Wait until the server answers
  vllm_endpoint:
    state: ready
    unit: trueup-vllm-llama.service
    base_url: http://127.0.0.1:8000
    model: meta-llama/Llama-3.1-8B-Instruct
    deadline_seconds: 600
"""

RETURN = r"""
problems:
  description: What keeps the services from starting; with O(state=possible).
  returned: success
  type: list
  elements: str
  sample: ["port 8000 is taken by another program"]
seconds:
  description: How long it was waited for; with O(state=ready).
  returned: success
  type: float
output_tail:
  description: The last lines of the journal of a service that does not run.
  returned: failure
  type: list
  elements: str
"""

import os
import re
from pathlib import Path
from typing import Any, Dict, List, Mapping, Sequence

from ansible.module_utils.trueup_node.benchmarks.vllm import server as vllm_server
from ansible.module_utils.trueup_node.errors import BadInput
from ansible.module_utils.trueup_node.options import Option, module_spec
from ansible.module_utils.trueup_node.redaction import redact
from ansible.module_utils.trueup_node.run.answer import AnsibleModule

OPTIONS = (
    Option("state", "What is asked.", choices=("possible", "ready"), required=True),
    Option("unit", "The systemd service; with O(state=ready)."),
    Option("journal_namespace", "Where its log is.", "trueup-vllm"),
    Option(
        "base_url", "Where this node reaches its API; with O(state=ready).", "http://127.0.0.1:8000"
    ),
    Option("headless", "Whether it is a data-parallel partner without an API.", False),
    Option("model", "Name by which the model is asked for.", ""),
    Option("api_key", "What its clients must show.", "", secret=True),
    Option("deadline_seconds", "Until when it must answer.", 1800, least=None),
    Option("settle_seconds", "How long a headless service must stay up.", 5, least=None),
    Option("completions", "How many completions must come back.", 1, least=None),
    Option(
        "services",
        "The services that are to be possible, with C(unit), C(host), C(port) and C(rank); only"
        " those of rank 0 listen.",
        [],
        elements="dict",
    ),
    Option(
        "spaces",
        "Folders, and what they must have free, in bytes; those on one file system together.",
        [],
        fields=(
            Option("path", "The folder; it need not be there yet.", type="path", required=True),
            Option("bytes", "What goes into it.", type="int", least=None, required=True),
            Option("what", "What that is, for the message.", required=True),
            Option(
                "unless",
                "A path that, when it is there, says that it is in already.",
                "",
                type="path",
            ),
        ),
    ),
    Option(
        "visible",
        "Paths that the services read, each with the variable that says where it is; below"
        " C(/home), C(/root) and C(/run/user) their units hide everything.",
        {},
    ),
)

_UNITS = Path("/etc/systemd/system")
# Folders that ProtectHome=yes of a unit hides (systemd.exec(5)).
_HIDDEN = ("/home", "/root", "/run/user")


def has_port(unit: str, port: int) -> bool:
    """Whether a service of ours that runs has the port itself, by its unit file."""
    if vllm_server.Service.now(unit, "").state not in ("active", "activating"):
        return False
    try:
        text = (_UNITS / unit).read_text(encoding="utf-8")
    except OSError:
        return False
    return re.search(rf'"--port" "{port}"', text) is not None


def space_problems(spaces: Sequence[Mapping[str, Any]]) -> List[str]:
    """Problems of disk space, by file system."""
    together: Dict[int, List[Mapping[str, Any]]] = {}
    for space in spaces:
        if not (space["unless"] and os.path.exists(space["unless"])):
            path = vllm_server.existing(space["path"])
            together.setdefault(os.stat(path).st_dev, []).append(space)
    sentences = []
    for group in together.values():
        purposes = " and ".join(dict.fromkeys(space["what"] for space in group))
        total = sum(space["bytes"] for space in group)
        sentences.append(vllm_server.space_problem(group[0]["path"], total, purposes))
    return [problem for problem in sentences if problem]


def hidden(path: str) -> str:
    """The folder below which ``path``, or its link's target, is hidden from a service; or empty."""
    places = {os.path.abspath(path), os.path.realpath(path)}
    return next(
        (
            top
            for top in _HIDDEN
            for candidate in places
            if os.path.commonpath([top, candidate]) == top
        ),
        "",
    )


def problems(parameters: Dict[str, Any]) -> List[str]:
    """Problems that keep the services from starting."""
    sentences = []
    for service in parameters["services"]:
        port = int(service["port"])
        if not int(service["rank"]) and not has_port(service["unit"], port):
            sentences.append(vllm_server.port_problem(service["host"], port))
    sentences += [
        f"{path} is below {hidden(path)}, which the service cannot see: set {name} to another"
        for path, name in parameters["visible"].items()
        if hidden(path)
    ]
    return [problem for problem in sentences if problem] + space_problems(parameters["spaces"])


def main() -> None:
    module = AnsibleModule(
        argument_spec=module_spec(OPTIONS),
        supports_check_mode=True,
        required_if=[("state", "ready", ("unit",))],
    )
    parameters = module.params
    service = (parameters["unit"], parameters["journal_namespace"])
    if parameters["state"] == "possible":
        module.exit_json(changed=False, problems=problems(parameters), seconds=0.0)
    if module.check_mode:
        module.exit_json(changed=False, problems=[], seconds=0.0)
    try:
        if parameters["headless"]:
            seconds = vllm_server.wait_for_service(
                service, settle_seconds=parameters["settle_seconds"]
            )
        else:
            seconds = vllm_server.wait_until_ready(
                vllm_server.Api(parameters["base_url"], parameters["api_key"]),
                service,
                model=parameters["model"],
                deadline_seconds=parameters["deadline_seconds"],
                completions=parameters["completions"],
            )
    except BadInput as error:
        log = error.log if isinstance(error, vllm_server.ServerFailedError) else ""
        module.fail_json(msg=str(error), output_tail=redact(log).splitlines())
    module.exit_json(changed=False, problems=[], seconds=round(seconds, 1))


if __name__ == "__main__":
    main()
