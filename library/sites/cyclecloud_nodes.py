#!/usr/bin/python
"""Ansible module: nodes of a CycleCloud cluster, created, waited for and terminated."""

from __future__ import annotations

DOCUMENTATION = r"""
module: cyclecloud_nodes
author: trueup contributors (@trueup)
version_added: "0.6.0"
short_description: Creates, waits for and terminates nodes of a CycleCloud cluster
description:
  - Asks Azure CycleCloud for nodes by its documented REST API. It needs no scheduler on them and
    starts nothing there. It runs where CycleCloud can be reached, as a rule on the controller.
  - A request has an id, and CycleCloud takes an id once. The same O(cluster), O(nodearray),
    O(count) and O(name) always have the same id. A second run therefore finds the nodes of the
    first one, also when the first one lost the server's answer or was interrupted.
  - Another O(count) or O(name) is another request. It makes all of its nodes anew and leaves the
    old ones. To let a nodearray grow to a total use O(counting=total).
  - The user name and the password go to O(url) only. A redirect is refused, and http is taken for
    a loopback address only. Proxies of the environment are used for https.
attributes:
  check_mode:
    support: full
    description: Reads only, and says what would be created or terminated.
  platform:
    support: full
    description: Any with Python 3.9.
    platforms: posix
notes:
  - CycleCloud's reference documents no paging. C(nextLink) and C(Link) headers are followed all the
    same.
  - How long CycleCloud remembers a request id is not documented.
extends_documentation_fragment: trueup_options.cyclecloud_nodes
"""

EXAMPLES = r"""
- name: Have four nodes for the nightly run
  cyclecloud_nodes:
    url: https://cyclecloud.example.com
    cluster: hpc
    nodearray: execute
    count: 4
    name: nightly
    machine_type: Standard_HB120rs_v3
    placement_group_id: nightly
  delegate_to: localhost
  run_once: true
  register: nodes

- name: Terminate them
  cyclecloud_nodes:
    url: https://cyclecloud.example.com
    state: absent
    cluster: hpc
    nodearray: execute
    count: 4
    name: nightly
  delegate_to: localhost
  run_once: true

- name: See what could be created
  cyclecloud_nodes:
    url: https://cyclecloud.example.com
    state: status
    cluster: hpc
  delegate_to: localhost
  run_once: true
"""

RETURN = r"""
msg:
  description: What was done, or in check mode what would be done. On failure what is wrong and the
    mend.
  returned: always
  type: str
  sample: created 4 nodes; 4 ready
cluster: {description: The cluster., returned: always, type: str}
cluster_state:
  description: Its state by CycleCloud, none before its first start.
  returned: always
  type: str
  sample: Started
request_id:
  description: The request's id.
  returned: always, none where nodes were not chosen by a request
  type: str
operation_id:
  description: CycleCloud's id of what this run started. None when nothing was, or when the answer
    with it was lost.
  returned: always
  type: str
created:
  description: How many nodes this run created. Where the answer to the request was lost, how many
    nodes CycleCloud listed for it then.
  returned: always
  type: int
to_create:
  description: How many would be created.
  returned: always, 0 out of check mode
  type: int
terminated:
  description: Names of the nodes that this run terminated.
  returned: always
  type: list
  elements: str
to_terminate:
  description: Names of those that would be.
  returned: always, empty out of check mode
  type: list
  elements: str
unknown:
  description: Those of O(names) and O(ids) that the cluster does not have.
  returned: always
  type: list
  elements: str
nodes:
  description: The nodes as they were seen last, also on failure.
  returned: always
  type: list
  elements: dict
  contains:
    name: {description: Its name., type: str}
    id: {description: "CycleCloud's id of it.", type: str}
    hostname: {description: "Its host name, none until it has one.", type: str}
    private_ip: {description: "Its address, none until it has one.", type: str}
    state: {description: "Its state, such as Acquiring, Preparing, Ready or Failed.", type: str}
    machine_type: {description: Its VM size., type: str}
    placement_group: {description: Its placement group., type: str}
    nodearray: {description: Its nodearray., type: str}
    status_message: {description: What CycleCloud says of its state., type: str}
states:
  description: Names of the nodes by state.
  returned: always
  type: dict
  sample: {"Ready": ["execute-1", "execute-2"]}
history:
  description: How many nodes were in which state, each time that changed, with the seconds since
    waiting began.
  returned: always
  type: list
  elements: dict
  sample: [{"seconds": 0.0, "states": {"Acquiring": 2}}, {"seconds": 300.2, "states": {"Ready": 2}}]
waited_seconds: {description: How long was waited for the nodes., returned: always, type: float}
buckets:
  description: What can be created of which size in O(nodearray), or in all.
  returned: always
  type: list
  elements: dict
  sample:
    - nodearray: execute
      machine_type: Standard_HB120rs_v3
      available: 12
      active: 4
      max: 16
      quota: 16
      valid: true
"""

import os
from dataclasses import fields
from typing import Any, Dict

from ansible.module_utils.basic import env_fallback
from ansible.module_utils.trueup_node.errors import BadInput, TrueupError
from ansible.module_utils.trueup_node.options import Option, module_spec
from ansible.module_utils.trueup_node.run.answer import AnsibleModule
from ansible.module_utils.trueup_node.sites import cyclecloud, cyclecloud_api
from ansible.module_utils.urls import open_url

OPTIONS = (
    Option(
        "state",
        "C(present) creates the nodes if the request was not made yet, and waits until they are"
        " ready. C(absent) terminates nodes and waits until they are gone. C(status) changes"
        " nothing, and shows nodes and what can be created.",
        "present",
        choices=("present", "absent", "status"),
    ),
    Option(
        "url",
        "Where CycleCloud is, such as C(https://cyclecloud.example.com). The environment variable"
        " E(CYCLECLOUD_URL) if not given.",
        required=True,
    ),
    Option(
        "username",
        "Its user. The environment variable E(CYCLECLOUD_USERNAME) if not given.",
        required=True,
    ),
    Option(
        "password",
        "Its password. The environment variable E(CYCLECLOUD_PASSWORD) if not given.",
        required=True,
        secret=True,
    ),
    Option(
        "validate_certs",
        "Whether the server's certificate must be valid. Without it the password can be read by"
        " whoever stands between.",
        True,
    ),
    Option(
        "ca_path",
        "File with the certificate of the authority that signed the server's, if the system does"
        " not know it.",
        type="path",
    ),
    Option("cluster", "Name of the cluster.", required=True),
    Option(
        "nodearray",
        "Name of the nodearray. Needed for O(state=present). With O(state=status), shows only its"
        " nodes.",
    ),
    Option("count", "How many nodes. Needed for O(state=present).", type="int", least=None),
    Option(
        "counting",
        "C(request) creates exactly O(count) nodes for this request, whatever else is there"
        " (C(POST /clusters/CLUSTER/nodes/create)). C(total) creates what O(nodearray) lacks of"
        " O(count), whoever made the rest (C(POST /clusters/CLUSTER/scale/NODEARRAY)). It never"
        " terminates any, and all nodes of the nodearray are waited for.",
        "request",
        choices=("request", "total"),
    ),
    Option(
        "name",
        "What the nodes are for, such as C(nightly-hpl). It tells this request from another one"
        " for as many nodes of the same nodearray. Whoever gives the same name means the same"
        " nodes. Needed with O(counting=request), if there is no O(request_id).",
    ),
    Option(
        "request_id",
        "The request's id, instead of the one that follows from cluster, nodearray, count and"
        " name.",
    ),
    Option(
        "recreate",
        "Whether the request is made anew, with an id that follows from the old one, when none of"
        " its nodes is left. If not, this is an error, because a request is made once.",
        False,
    ),
    Option(
        "machine_type",
        "VM size, such as C(Standard_HB120rs_v3). Needed when the nodearray has several. Not with"
        " O(counting=total).",
    ),
    Option(
        "placement_group_id",
        "Nodes with the same one start in the same placement group. Not with O(counting=total).",
    ),
    Option(
        "name_format",
        "Names of the nodes, such as C(bench-%d), instead of NODEARRAY-%d. Not with"
        " O(counting=total).",
    ),
    Option("names", "Names of the nodes that are terminated or shown.", []),
    Option("ids", "The same by CycleCloud's ids.", []),
    Option("wait", "Whether to wait until the nodes are ready, or gone.", True),
    Option(
        "wait_timeout_seconds",
        "For how long, in seconds (a large VM of this field takes 5 to 15 minutes).",
        1800,
        least=1,
    ),
    Option("poll_seconds", "Seconds between two looks.", 15, least=1),
    Option(
        "request_timeout_seconds",
        "Seconds for one answer of the server, from the name lookup to its last byte.",
        30,
        least=1,
    ),
    Option(
        "retry_limit_seconds",
        "Seconds that one call waits in all for a server that is busy (429, 503 with or without"
        " Retry-After) or does not answer.",
        120,
    ),
)


def check(parameters: Dict[str, Any]) -> None:
    """Checks of the parameters beyond their types."""
    for key in ("url", "username", "password", "cluster"):
        if not parameters[key]:
            raise BadInput(f"{key} is empty; give one")
    for key in ("wait_timeout_seconds", "poll_seconds", "request_timeout_seconds"):
        if parameters[key] < 1:
            raise BadInput(f"{key} is {parameters[key]}; write 1 or more")
    if parameters["retry_limit_seconds"] < 0:
        raise BadInput(
            f"retry_limit_seconds is {parameters['retry_limit_seconds']}; write 0 or more"
        )
    if parameters["ca_path"] and not os.path.isfile(parameters["ca_path"]):
        raise BadInput(f"ca_path {parameters['ca_path']} is not a file")


def server_of(parameters: Dict[str, Any]) -> cyclecloud_api.Server:
    keys = ("url", "username", "password", "validate_certs", "ca_path", "retry_limit_seconds")
    return cyclecloud_api.Server(
        **{key: parameters[key] for key in keys},
        timeout_seconds=parameters["request_timeout_seconds"],
    )


def ask_of(parameters: Dict[str, Any]) -> cyclecloud.Ask:
    return cyclecloud.Ask(
        **{field.name: parameters[field.name] for field in fields(cyclecloud.Ask)}
    )


def main() -> None:
    spec = module_spec(OPTIONS)
    for name in ("url", "username", "password"):
        spec[name]["fallback"] = (env_fallback, [f"CYCLECLOUD_{name.upper()}"])
    module = AnsibleModule(argument_spec=spec, supports_check_mode=True)
    parameters = module.params
    outcome = cyclecloud.Outcome(parameters["cluster"])
    if not parameters["validate_certs"]:
        module.warn("CycleCloud's certificate is not checked (validate_certs is false)")
    try:
        check(parameters)
        ask = ask_of(parameters)
        ask.check(parameters["state"])
        api = cyclecloud_api.Api(server_of(parameters), open_url)
        patience = cyclecloud.Patience(
            parameters["wait"], parameters["wait_timeout_seconds"], parameters["poll_seconds"]
        )
        if parameters["state"] == "status":
            cyclecloud.show(api, ask, outcome)
        elif parameters["state"] == "present":
            cyclecloud.ensure_present(api, ask, patience, module.check_mode, outcome)
        else:
            cyclecloud.ensure_absent(api, ask, patience, module.check_mode, outcome)
    except TrueupError as error:
        module.fail_json(**{**outcome.result(), "msg": str(error)})
    module.exit_json(**outcome.result())


if __name__ == "__main__":
    main()
