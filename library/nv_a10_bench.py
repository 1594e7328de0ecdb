#!/usr/bin/python
"""Ansible module: encode sessions at once with ffmpeg and return a record."""

from __future__ import annotations

DOCUMENTATION = r"""
module: nv_a10_bench
short_description: Encode sessions at once, or copy frames to a GPU and back
version_added: "0.4.0"
description:
  - Runs one ffmpeg that encodes the same picture for several sessions, with the GPU's encoder
    (NVENC) or libx264, and returns the frames a second of each session as a record; or copies
    frames to the GPU and back.
  - A session with other frames, another encoder or another pixel format than asked for gives a
    record with outcome C(invalid). Where a GPU encodes, C(nvidia-smi) is asked meanwhile for the
    latency of its encoder.
  - On Windows hosts P(trueup_measure#action) measures the same case without this module.
extends_documentation_fragment: trueup_options.nv_a10
"""

EXAMPLES = r"""
- name: Encode five sessions on the GPU
  nv_a10_bench:
    run_id: 20261120T091300Z-7c1e
    node_name: "{{ inventory_hostname }}"
    node: "{{ trueup_node }}"
    sessions: 5
"""

RETURN = r"""
record: {description: "The record of the case (more in the notes)", type: dict, returned: always}
"""

from ansible.module_utils.trueup_node.benchmarks.nv_a10.case import OPTIONS, measure
from ansible.module_utils.trueup_node.run.bench import run_module


def main() -> None:
    run_module("nv_a10", OPTIONS, measure)


if __name__ == "__main__":
    main()
