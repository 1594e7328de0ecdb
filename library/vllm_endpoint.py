#!/usr/bin/python
"""Ansible module: whether a vLLM server can be started here, and whether it answers."""

from __future__ import annotations

DOCUMENTATION = r"""
module: vllm_endpoint
author: trueup contributors (@trueup)
version_added: "0.4.0"
short_description: Sees whether a vLLM server can start, and waits until it answers
description:
  - With O(state=possible), looks for what would keep the server from starting, before anything is
    installed, and returns it as sentences.
  - With O(state=ready), waits until its API answers, and until O(completions) completions of one
    token came back. A server whose data-parallel partner is lost answers C(/health) all the same.
    It ends early when the service fails, with the reason that its log gives.
  - With O(state=ready) and O(headless=true), sees the service stay up for O(settle_seconds); such a
    server has no API.
options:
  state:
    description: What is asked.
    type: str
    choices: [possible, ready]
    required: true
  unit:
    description: The systemd service.
    type: str
    required: true
  journal_namespace:
    description: Where its log is.
    type: str
    default: trueup-vllm
  host:
    description: Address that the server listens on.
    type: str
    default: 127.0.0.1
  port:
    description: Port of its API.
    type: int
    default: 8000
  headless:
    description: Whether it is a data-parallel partner without an API.
    type: bool
    default: false
  model:
    description: Name by which the model is asked for; with O(state=ready).
    type: str
    default: ""
  api_key:
    description: What its clients must show.
    type: str
    default: ""
  deadline_seconds:
    description: Until when it must answer.
    type: int
    default: 1800
  settle_seconds:
    description: How long a headless service must stay up.
    type: int
    default: 5
  completions:
    description: How many completions must come back.
    type: int
    default: 1
  python:
    description: Python that the environment is to be made with; with O(state=possible).
    type: str
    default: python3
  python_version:
    description: What it must be, such as C(3.11).
    type: str
    default: ""
  look_for:
    description: Paths of the node of which those that are there are returned; with
      O(state=possible).
    type: list
    elements: path
    default: []
  spaces:
    description: Folders, and what they must have free, in bytes; with O(state=possible).
    type: list
    elements: dict
    default: []
    options:
      path:
        description: The folder; it need not be there yet.
        type: path
        required: true
      bytes:
        description: What goes into it.
        type: int
        required: true
      what:
        description: What that is, for the message.
        type: str
        required: true
      unless:
        description: A path that, when it is there, says that it is in already.
        type: path
        default: ""
attributes:
  check_mode:
    support: full
    description: Nothing is changed anyway. O(state=ready) does not wait in check mode.
  platform:
    support: full
    description: Linux with systemd.
    platforms: linux
"""

EXAMPLES = r"""
- name: Wait until the server answers
  vllm_endpoint:
    state: ready
    unit: trueup-vllm-llama.service
    port: 8000
    model: meta-llama/Llama-3.1-8B-Instruct
    deadline_seconds: 600
"""

RETURN = r"""
problems:
  description: What keeps it from starting; with O(state=possible).
  returned: success
  type: list
  elements: str
  sample: ["port 8000 is taken by another program"]
there:
  description: Those of O(look_for) that the node has.
  returned: success
  type: list
  elements: str
seconds:
  description: How long it was waited for; with O(state=ready).
  returned: success
  type: float
"""

import os
from typing import Any, Dict, List

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.trueup import vllm_server
from ansible.module_utils.trueup.errors import BadInput


def argument_spec() -> Dict[str, Dict[str, Any]]:
    return {
        "state": {"type": "str", "choices": ["possible", "ready"], "required": True},
        "unit": {"type": "str", "required": True},
        "journal_namespace": {"type": "str", "default": "trueup-vllm"},
        "host": {"type": "str", "default": "127.0.0.1"},
        "port": {"type": "int", "default": 8000},
        "headless": {"type": "bool", "default": False},
        "model": {"type": "str", "default": ""},
        "api_key": {"type": "str", "default": "", "no_log": True},
        "deadline_seconds": {"type": "int", "default": 1800},
        "settle_seconds": {"type": "int", "default": 5},
        "completions": {"type": "int", "default": 1},
        "python": {"type": "str", "default": "python3"},
        "python_version": {"type": "str", "default": ""},
        "look_for": {"type": "list", "elements": "path", "default": []},
        "spaces": {
            "type": "list",
            "elements": "dict",
            "default": [],
            "options": {
                "path": {"type": "path", "required": True},
                "bytes": {"type": "int", "required": True},
                "what": {"type": "str", "required": True},
                "unless": {"type": "path", "default": ""},
            },
        },
    }


def problems(given: Dict[str, Any], service: vllm_server.Service) -> List[str]:
    """What keeps the server from starting."""
    found = []
    if given["python_version"]:
        found.append(vllm_server.python_problem(given["python"], given["python_version"]))
    # A service of ours that runs has the port itself.
    if not given["headless"] and service.state not in ("active", "activating"):
        found.append(vllm_server.port_problem(given["host"], given["port"]))
    found += [vllm_server.space_problem(**space) for space in given["spaces"]]
    return [problem for problem in found if problem]


def main() -> None:
    module = AnsibleModule(argument_spec=argument_spec(), supports_check_mode=True)
    given = module.params
    service = (given["unit"], given["journal_namespace"])
    if given["state"] == "possible":
        found = problems(given, vllm_server.Service.now(*service))
        there = [path for path in given["look_for"] if os.path.exists(path)]
        module.exit_json(changed=False, problems=found, there=there, seconds=0.0)
    if module.check_mode:
        module.exit_json(changed=False, problems=[], there=[], seconds=0.0)
    api = vllm_server.Api(
        f"http://{vllm_server.reachable(given['host'])}:{given['port']}", given["api_key"]
    )
    try:
        if given["headless"]:
            seconds = vllm_server.wait_for_service(service, settle_seconds=given["settle_seconds"])
        else:
            seconds = vllm_server.wait_until_ready(
                api,
                service,
                model=given["model"],
                deadline_seconds=given["deadline_seconds"],
                completions=given["completions"],
            )
    except BadInput as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=False, problems=[], there=[], seconds=round(seconds, 1))


if __name__ == "__main__":
    main()
