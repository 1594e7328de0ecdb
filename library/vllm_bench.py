#!/usr/bin/python
"""Ansible module: measure a vLLM server with its own serving benchmark and return a record."""

from __future__ import annotations

DOCUMENTATION = r"""
module: vllm_bench
short_description: Measure throughput and latency of a vLLM server
version_added: "0.2.0"
description:
  - Runs C(vllm bench serve) against a running server and returns throughput (requests and tokens)
    and latencies (TTFT, TPOT, ITL, E2EL) as a record. Meanwhile the server's C(/metrics) is read
    for the use of its KV cache, prefix-cache hits, and requests that wait and run.
  - The server is asked first whether it is well, takes the key, serves the model and answers. One
    that does not is refused with one sentence, and nothing runs.
  - Failed requests are always a metric. Above O(failed_share_allowed) the record is C(invalid). A
    run in which the server stopped answering, or no request succeeded, is C(failed).
  - Tokens received are held against tokens asked for. Profile C(random) asks for an exact number,
    and another one makes the record C(invalid). For the other profiles the number is a maximum.
  - Under load answers arrive in one piece. Throughputs hold then. TPOT and ITL cannot be known;
    the record has no such metrics, and a warning says why.
  - Needs what the role P(vllm#role) installs.
extends_documentation_fragment: trueup_options.vllm
"""

EXAMPLES = r"""
- name: Measure the endpoint with 100 random prompts
  vllm_bench:
    run_id: 20261120T091300Z-7c1e
    node_name: "{{ inventory_hostname }}"
    node: "{{ trueup_node }}"
    prefix: /opt/trueup/vllm
    model: meta-llama/Llama-3.1-8B-Instruct
    recipe: llama-3.1-8b
    gpus: 1
    api_key: "{{ vllm_api_key }}"

- name: Measure code generation as the inference benchmarker does
  vllm_bench:
    prefix: /opt/trueup/vllm
    model: meta-llama/Llama-3.1-8B-Instruct
    profile: code_generation
    dataset_path: /mnt/nvme/datasets/github_code.json
    gpus: 1
    run_id: 20261120T091300Z-7c1e
    node_name: "{{ inventory_hostname }}"
    node: "{{ trueup_node }}"
"""

RETURN = r"""
record: {description: "The record of the case (more in the notes)", type: dict, returned: always}
"""

import os
import tempfile
from dataclasses import replace
from typing import Any, Dict

from ansible.module_utils.trueup_node.benchmarks.vllm import case as vllm
from ansible.module_utils.trueup_node.benchmarks.vllm.output import parse_vllm
from ansible.module_utils.trueup_node.errors import BadInput
from ansible.module_utils.trueup_node.node import folders
from ansible.module_utils.trueup_node.run import process
from ansible.module_utils.trueup_node.run.bench import Bench, run_module

# Parameters of the record, by the module's names and by those of its settings.
GIVEN = ("model", "recipe", "endpoint_name", "tensor_parallel", "data_parallel")
CHOSEN = (
    *("profile", "base_url", "endpoint", "num_prompts", "seed", "request_rate"),
    *("max_concurrency", "failed_share_allowed", "sample_seconds"),
)


def prepare(bench: Bench, chosen: vllm.Settings, folder: str, **more_parameters: Any) -> None:
    """Set the case; in check mode this ends the module."""
    parameters = bench.given
    ramp = chosen.ramp or (0, 0)
    bench.prepare(
        case=vllm.case_name(chosen, parameters["endpoint_name"] or parameters["recipe"]),
        nodes=list(parameters["nodes"]),
        command=vllm.command(
            chosen,
            python=os.path.join(parameters["prefix"], "venv", "bin", "python"),
            driver=os.path.join(parameters["prefix"], "vllm_driver.py"),
            program=os.path.join(parameters["prefix"], "venv", "bin", "vllm"),
            folder=folder,
        ),
        environment=vllm.environment(
            downloads_allowed=chosen.downloads_allowed,
            hf_home=parameters["hf_home"],
            hub=parameters["hub"],
            folder=folder,
        ),
        parameters={
            **{name: parameters[name] for name in GIVEN},
            **{name: getattr(chosen, name) for name in CHOSEN},
            "served_model_name": chosen.model,
            "server_arguments": vllm.arguments_text(parameters["server_arguments"]),
            "ramp_up_start": ramp[0],
            "ramp_up_end": ramp[1],
            "asked": vllm.asked_text(parameters),
            **vllm.data_parameters(chosen),
            **({"warmup_requests": chosen.warmup_requests} if chosen.warmup_requests else {}),
            **{f"goodput_{name}_ms": limit for name, limit in chosen.goodput_ms.items()},
            **more_parameters,
        },
        gpus=parameters["gpus"],
    )


def with_data(bench: Bench, chosen: vllm.Settings) -> vllm.Settings:
    """The settings with the profile's file, which is downloaded where none is named.

    Raises:
        BadInput: it cannot be downloaded.
    """
    argv, given = vllm.download(chosen, bench.given["prefix"]), bench.given
    if not argv:
        return chosen
    # The server's user owns it on a node that is made for a run; a cache of its own serves as well.
    hf_home = given["hf_home"] if os.access(given["hf_home"], os.W_OK) else ""
    done = process.run(
        argv,
        timeout_seconds=vllm.DOWNLOAD_SECONDS,
        environment=vllm.environment(downloads_allowed=True, hf_home=hf_home, hub=given["hub"]),
    )
    failure = done.failure(vllm.DOWNLOAD_SECONDS)
    path = (done.stdout.strip().splitlines() or [""])[-1]
    if failure or not os.path.isfile(path):
        cause = vllm.download_error(done.stderr) or failure or f"hf printed {path!r}"
        raise BadInput(
            f"{chosen.data.file} of profile {chosen.profile} cannot be downloaded from Hugging Face"
            f" ({cause}): give the file as dataset_path (vllm_datasets)"
        )
    return replace(chosen, dataset_path=path)


def measure(bench: Bench) -> None:
    parameters = bench.given
    key = parameters["api_key"]
    chosen = vllm.settings(parameters)
    if bench.check:
        prepare(bench, chosen, folders.placeholder(tempfile.gettempdir(), "vllm"))
    chosen = with_data(bench, chosen)
    dataset_sha256 = vllm.require_dataset(chosen)
    server = vllm.Endpoint(chosen.base_url, key)
    engines = parameters["data_parallel"]
    longest = server.require(
        chosen.model, endpoint=chosen.endpoint, requests=2 * engines if engines > 1 else 1
    )
    vllm.require_length(chosen, longest)
    with folders.own_folder(tempfile.gettempdir(), "vllm") as folder:
        more_parameters: Dict[str, Any] = (
            {"dataset_sha256": dataset_sha256} if dataset_sha256 else {}
        )
        if chosen.data.data == "conversations":
            more_parameters["different_prompts"] = vllm.write_prompts(chosen, server, folder)
        prepare(bench, chosen, folder, **more_parameters)
        output = bench.run(
            parse_vllm,
            explain=vllm.explain,
            secrets={"OPENAI_API_KEY": key} if key else None,
        )
    bench.case.software["vllm"] = output.tool_version or "unknown"
    bench.case.software["server_vllm"] = output.server_version or "unknown"
    bench.finish(metrics=vllm.measured(output, chosen), invalid=vllm.judge(output, chosen))


def main() -> None:
    run_module("vllm", vllm.OPTIONS, measure)


if __name__ == "__main__":
    main()
