"""Settle the rows of catalog/acceptance.yml that fit a node, and write the bundle of all nodes."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec
import yaml
from ansible.errors import AnsibleActionFail
from ansible.module_utils.parsing.convert_bool import boolean
from ansible.plugins.action import ActionBase
from ansible.release import __version__ as ansible_version
from trueup_controller import acceptance
from trueup_controller.actions import answer_of
from trueup_controller.project import FOLDER
from trueup_node.errors import TrueupError
from trueup_node.node import state
from trueup_node.redaction import redact

DOCUMENTATION = r"""
name: trueup_acceptance
short_description: Check what no test could show, on the machines that are there
description:
  - Asks the node what the rows of catalog/acceptance.yml ask that fit it (M(evidence_facts)), reads
    what its earlier runs left in the folder of results, and returns the outcome of each row as
    C(machine). Nothing is changed on the node, except with C(trueup_acceptance_change),
    where the steps of each row that has some are done (M(evidence_steps)), and put back.
  - With O(machines) it writes their bundle into the folder C(acceptance) of the results instead.
options:
  machines:
    description: What it returned for each node.
    type: list
    elements: dict
"""

# Within which lost links are counted, as in playbooks/tasks/parts.yml.
FLAP_HOURS = 6


class ActionModule(ActionBase):
    """Ansible's entry."""

    _VALID_ARGS = frozenset({"machines"})

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """``machine``, the rows that are ``wrong`` and ``msg``; with machines ``path``."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        variables: dict[str, Any] = task_vars or {}
        results = Path(self._templar.template(variables["trueup_results"])).expanduser()
        try:
            if "machines" in self._task.args:
                result.update(_written(results / "acceptance", self._task.args["machines"]))
            else:
                machine = self._machine(results, variables)
                lines = [
                    f"{row['row']}: {row['outcome']} ({'; '.join(row['evidence'])})"
                    for row in machine["rows"]
                    if row["outcome"] != acceptance.ELSEWHERE
                ]
                if machine["to_measure"]:
                    extra_vars = json.dumps({"trueup_benchmarks": machine["to_measure"]})
                    lines.append(
                        f"to be measured: site.yml -e '{extra_vars}' -e trueup_max_usd=..."
                    )
                wrong = [
                    row["row"] for row in machine["rows"] if row["outcome"] == acceptance.FAILED
                ]
                result.update(machine=machine, wrong=wrong, msg=lines, _ansible_verbose_always=True)
        except TrueupError as error:
            raise AnsibleActionFail(str(error)) from error
        return result

    def _machine(self, results: Path, variables: dict[str, Any]) -> dict[str, Any]:
        """The bundle's results for this node."""
        ansible_facts = variables.get("ansible_facts") or {}
        node, gpu, rdma = (ansible_facts.get(f"trueup_{name}") for name in ("node", "gpu", "rdma"))
        if not node:
            message = "nothing has identified this node: run playbooks/acceptance.yml"
            raise AnsibleActionFail(message)
        rows = acceptance.rows(yaml.safe_load((FOLDER / acceptance.FILE).read_text("utf-8")))
        evidence = self._module("evidence_facts", acceptance.asks(rows, node), variables)
        host = str(variables["inventory_hostname"])
        before = acceptance.history(str(results), host, evidence["booted_at"])
        observed = acceptance.Facts(
            facts={"node": node, "gpu": gpu, "rdma": rdma, "run": before.run},
            files=evidence["files"],
            commands=evidence["commands"],
            programs=evidence["programs"],
            unknown=evidence["unknown"],
            records=before.records,
            rebooted=before.rebooted,
        )
        done = self._changes(rows, observed, variables)
        settled = [acceptance.settle(row, done.get(row.id, observed)) for row in rows if row.checks]
        machine: dict[str, Any] = redact(
            {
                "host": host,
                **{name: node.get(name) for name in ("vm_size", "family", "image", "os")},
                "replica": evidence["replica"],
                "versions": {**(node.get("hpc_image") or {}), **state.software(node, gpu, rdma)},
                "rows": settled,
                "to_measure": acceptance.to_measure(rows, settled),
                "by_hand": [
                    row.id
                    for row in rows
                    if not row.checks and acceptance.misfit(row, node) is None
                ],
            }
        )
        return machine

    def _changes(
        self, rows: list[acceptance.Row], observed: acceptance.Facts, variables: dict[str, Any]
    ) -> dict[str, acceptance.Facts]:
        """The facts for each row whose steps were requested, one row after the other."""
        if not boolean(self._templar.template(variables["trueup_acceptance_change"])):
            return {}
        by_row = {}
        for row in acceptance.to_change(rows, observed):
            arguments = msgspec.to_builtins({"steps": row.steps, "restore": row.restore})
            done = self._module("evidence_steps", arguments, variables)
            facts = {name: self._facts(name, variables) for name in acceptance.read_after(row)}
            step_results = {name: done[name] for name in ("refused", "steps", "restored")}
            by_row[row.id] = replace(
                observed, facts={**observed.facts, **facts}, done={row.id: step_results}
            )
        return by_row

    def _facts(self, name: str, variables: dict[str, Any]) -> Any:
        """The state of a part after the steps, as playbooks/tasks/parts.yml asks for it."""
        arguments = {"flap_hours": FLAP_HOURS} if name == "rdma" else {}
        module = {"gpu": "gpu_facts", "rdma": "ib_facts"}[name]
        return self._module(module, arguments, variables)["ansible_facts"][f"trueup_{name}"]

    def _module(
        self, name: str, arguments: dict[str, Any], variables: dict[str, Any]
    ) -> dict[str, Any]:
        """The response of a module on the node, or of the action of that name, as gpu_facts."""
        response = answer_of(self, name, arguments, variables)
        if response.get("failed"):
            raise AnsibleActionFail(str(response.get("msg")), result=response)
        return response


def _written(folder: Path, machines: list[dict[str, Any]]) -> dict[str, Any]:
    """Write a bundle under a name of its own; its ``path``."""
    now = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    bundle = {
        "schema": acceptance.SCHEMA,
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "versions": {"trueup": version("trueup"), "ansible-core": ansible_version},
        "machines": machines,
    }
    path = folder / f"{now}.json"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(bundle, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    except OSError as error:
        message = f"{path} could not be written: {error.strerror}"
        raise TrueupError(message) from error
    return {"path": str(path), "msg": f"bundle: {path}", "_ansible_verbose_always": True}
