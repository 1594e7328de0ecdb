#!/usr/bin/python
"""Ansible module: copy zeros with dd and return a record."""

from __future__ import annotations

DOCUMENTATION = r"""
module: toy_bench
short_description: Copy zeros with dd
version_added: "0.3.0"
description: Runs dd and returns its rate as a record.
extends_documentation_fragment: [trueup_options.toy, trueup_bench]
author: trueup contributors (@trueup)
"""

from typing import Any, Dict

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.trueup.benchmarks.toy import case as toy
from ansible.module_utils.trueup.benchmarks.toy.output import parse_toy
from ansible.module_utils.trueup.options import module_spec
from ansible.module_utils.trueup.run.bench import COMMON_SPEC, Bench


def argument_spec() -> Dict[str, Dict[str, Any]]:
    return {**COMMON_SPEC, **module_spec(toy.OPTIONS)}


def main() -> None:
    module = AnsibleModule(argument_spec=argument_spec(), supports_check_mode=True)
    bench = Bench(module, "toy", toy.OPTIONS)
    mib = module.params["mib"]
    bench.prepare(
        case=f"m{mib}",
        command=["dd", "if=/dev/zero", "of=/dev/null", "bs=1M", f"count={mib}"],
        environment={"LC_ALL": "C"},
        parameters={"mib": mib},
    )
    bench.finish(metrics=bench.run(parse_toy).metrics())


if __name__ == "__main__":
    main()
