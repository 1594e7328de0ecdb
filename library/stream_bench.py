#!/usr/bin/python
"""Ansible module: measure memory bandwidth with the STREAM kernels and return a record."""

from __future__ import annotations

DOCUMENTATION = r"""
module: stream_bench
short_description: Measure memory bandwidth (copy, scale, add, triad)
version_added: "0.1.0"
description:
  - Runs the four STREAM kernels with pinned threads and returns their rates as a record, with
    median, minimum and
    maximum of the repeats. The kernel is trueup's own, compiled on the node by the role
    P(stream#role).
  - Each array is at least four times the sum of the last-level caches, and what the kernels leave
    in the arrays is
    checked; a wrong result gives a record with outcome C(invalid).
extends_documentation_fragment: [trueup_options.stream, trueup_bench]
author: trueup contributors (@trueup)
"""

EXAMPLES = r"""
- name: Measure the memory bandwidth of all cores
  stream_bench:
    prefix: /opt/trueup/stream
    run_id: 20261120T091300Z-7c1e
    node_name: "{{ inventory_hostname }}"
    node: "{{ trueup_node }}"
"""

RETURN = r"""
record:
  description: The record of the case (schema C(trueup.record/1)); null in check mode and when the
    input was refused.
  returned: always
  type: dict
raw:
  description: What the kernel printed; null when nothing ran.
  returned: always
  type: str
command:
  description: The command line.
  returned: always
  type: list
  elements: str
environment:
  description: The variables set for it.
  returned: always
  type: dict
resumed:
  description: Which of O(earlier) stands for this case, from 0; null where it was measured.
  returned: always
  type: int
ansible_facts:
  description: The record once more, as the fact C(trueup_stream).
  returned: success
  type: dict
  contains:
    trueup_stream:
      description: The record.
      type: dict
      returned: when the case ran and is ok
"""

import os
from typing import Any, Dict

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.trueup.benchmarks.stream import case as stream
from ansible.module_utils.trueup.benchmarks.stream.output import parse_stream
from ansible.module_utils.trueup.errors import BadInput
from ansible.module_utils.trueup.node.affinity import plan
from ansible.module_utils.trueup.node.memory import available_memory_bytes
from ansible.module_utils.trueup.node.topology import read_topology
from ansible.module_utils.trueup.options import module_spec
from ansible.module_utils.trueup.run.bench import COMMON_SPEC, Bench


def argument_spec() -> Dict[str, Dict[str, Any]]:
    return {**COMMON_SPEC, **module_spec(stream.OPTIONS)}


def main() -> None:
    module = AnsibleModule(argument_spec=argument_spec(), supports_check_mode=True)
    given = module.params
    bench = Bench(module, "stream", stream.OPTIONS)
    try:
        topology = read_topology(allowed=os.sched_getaffinity(0))
        threads = given["threads"] or len(topology.cores)
        # Each thread is placed as a rank of one thread would be: spread over the NUMA nodes.
        placement = plan(topology, ranks=threads, threads_per_rank=1, binding=given["binding"])
        elements = stream.array_elements(
            requested_bytes=given["array_bytes"] or None,
            last_level_cache_bytes=topology.last_level_cache_bytes,
            available_bytes=available_memory_bytes(),
        )
    except BadInput as error:
        bench.refuse(str(error))

    kernel = os.path.join(given["prefix"], f"stream_kernel-{given['stores']}")
    bench.prepare(
        case=f"{given['stores']}-t{threads}-{given['binding']}",
        command=[kernel, str(elements), str(given["repeats"])],
        environment=stream.environment(placement),
        parameters={
            "threads": threads,
            "binding": given["binding"],
            "stores": given["stores"],
            "spread": stream.spread(placement, topology),
            "array_elements": elements,
            "array_bytes": elements * 8,
            "repeats": given["repeats"],
        },
        threads_per_rank=threads,
    )
    output = bench.run(parse_stream)
    bench.case.software.update(output.software)
    bench.finish(metrics=output.metrics(), invalid=stream.judge(output, placement))


if __name__ == "__main__":
    main()
