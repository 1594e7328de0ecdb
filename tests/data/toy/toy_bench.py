#!/usr/bin/python
"""Ansible module: copy zeros with dd and return a record."""

from __future__ import annotations

DOCUMENTATION = r"""
module: toy_bench
short_description: Copy zeros with dd
version_added: "0.3.0"
description: Runs dd and returns its rate as a record.
extends_documentation_fragment: trueup_options.toy
"""

from ansible.module_utils.trueup_node.benchmarks.toy import case as toy
from ansible.module_utils.trueup_node.benchmarks.toy.output import parse_toy
from ansible.module_utils.trueup_node.run.bench import Bench, run_module


def measure(bench: Bench) -> None:
    mib = bench.given["mib"]
    bench.prepare(
        case=f"m{mib}",
        command=["dd", "if=/dev/zero", "of=/dev/null", "bs=1M", f"count={mib}"],
        environment={"LC_ALL": "C"},
        parameters={"mib": mib},
    )
    bench.finish(metrics=bench.run(parse_toy).metrics())


def main() -> None:
    run_module("toy", toy.OPTIONS, measure)


if __name__ == "__main__":
    main()
