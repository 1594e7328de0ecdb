#!/usr/bin/python
"""Ansible module: measure memory bandwidth with the STREAM kernels and return a record."""

from __future__ import annotations

DOCUMENTATION = r"""
module: stream_bench
short_description: Measure memory bandwidth (copy, scale, add, triad)
version_added: "0.1.0"
description:
  - Runs the four STREAM kernels with pinned threads and returns their rates as a record, with
    median, minimum and maximum of the repeats. The kernel is trueup's own, compiled on the node by
    the role P(stream#role).
  - Each array is at least four times the sum of the last-level caches, and what the kernels leave
    in the arrays is checked; a wrong result gives a record with outcome C(invalid).
extends_documentation_fragment: trueup_options.stream
"""

EXAMPLES = r"""
- name: Measure the memory bandwidth of all cores
  stream_bench:
    run_id: 20261120T091300Z-7c1e
    node_name: "{{ inventory_hostname }}"
    node: "{{ trueup_node }}"
    prefix: /opt/trueup/stream
"""

RETURN = r"""
record: {description: "The record of the case (more in the notes)", type: dict, returned: always}
"""

import os

from ansible.module_utils.trueup_node.benchmarks.stream import case as stream
from ansible.module_utils.trueup_node.benchmarks.stream.output import parse_stream
from ansible.module_utils.trueup_node.node.affinity import plan
from ansible.module_utils.trueup_node.node.memory import available_memory_bytes
from ansible.module_utils.trueup_node.node.topology import read_topology
from ansible.module_utils.trueup_node.run.bench import Bench, run_module


def measure(bench: Bench) -> None:
    parameters = bench.given
    topology = read_topology(allowed=os.sched_getaffinity(0))
    threads = parameters["threads"] or len(topology.cores)
    # Each thread is placed as a rank of one thread would be: spread over the NUMA nodes.
    placement = plan(topology, ranks=threads, threads_per_rank=1, binding=parameters["binding"])
    elements = stream.array_elements(
        requested_bytes=parameters["array_bytes"] or None,
        last_level_cache_bytes=topology.last_level_cache_bytes,
        available_bytes=available_memory_bytes(),
    )

    kernel = os.path.join(parameters["prefix"], f"stream_kernel-{parameters['stores']}")
    bench.prepare(
        case=f"{parameters['stores']}-t{threads}-{parameters['binding']}",
        command=[kernel, str(elements), str(parameters["repeats"])],
        environment=stream.environment(placement),
        parameters={
            "threads": threads,
            "binding": parameters["binding"],
            "stores": parameters["stores"],
            "spread": stream.spread(placement, topology),
            "array_elements": elements,
            "array_bytes": elements * 8,
            "repeats": parameters["repeats"],
        },
        threads_per_rank=threads,
    )
    output = bench.run(parse_stream)
    bench.case.software.update(output.software)
    bench.finish(metrics=output.metrics(), invalid=stream.judge(output, placement))


def main() -> None:
    run_module("stream", stream.OPTIONS, measure)


if __name__ == "__main__":
    main()
