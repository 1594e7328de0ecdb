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
options:
  prefix:
    description: Folder into which the role stream installed the kernel.
    type: path
    required: true
  threads:
    description: Threads, spread evenly; 0 means one on each core that may be used.
    type: int
    default: 0
  binding:
    description: C(core) pins each thread to a core of its own, spread over the NUMA nodes, C(l3)
      likewise, spread over the L3 caches; C(none) leaves it to the operating system.
    type: str
    choices: [core, l3, none]
    default: core
  stores:
    description:
      - C(streaming) writes past the caches, which is what published figures are measured with;
        C(regular) reads every
        line before it is written, as most applications do.
    type: str
    choices: [streaming, regular]
    default: streaming
  array_bytes:
    description: Size of one of the three arrays; the default is the smallest that counts.
    type: int
  repeats:
    description: How often each kernel is run; 3 at least.
    type: int
    default: 10
extends_documentation_fragment: [trueup_bench]
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
from ansible.module_utils.trueup.run.bench import COMMON_SPEC, Bench


def argument_spec() -> Dict[str, Dict[str, Any]]:
    return dict(
        COMMON_SPEC,
        prefix={"type": "path", "required": True},
        threads={"type": "int", "default": 0},
        binding={"type": "str", "choices": ["core", "l3", "none"], "default": "core"},
        stores={"type": "str", "choices": ["streaming", "regular"], "default": "streaming"},
        array_bytes={"type": "int"},
        repeats={"type": "int", "default": 10},
    )


def main() -> None:
    module = AnsibleModule(argument_spec=argument_spec(), supports_check_mode=True)
    given = module.params
    bench = Bench(module, "stream")
    try:
        if given["repeats"] < 3:
            raise BadInput(f"repeats {given['repeats']} is below 3: no median and spread without")
        topology = read_topology(allowed=os.sched_getaffinity(0))
        threads = given["threads"] or len(topology.cores)
        # Each thread is placed as a rank of one thread would be: spread over the NUMA nodes.
        placement = plan(topology, ranks=threads, threads_per_rank=1, binding=given["binding"])
        elements = stream.array_elements(
            requested_bytes=given["array_bytes"],
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
