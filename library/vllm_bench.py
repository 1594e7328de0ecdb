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
options:
  prefix:
    description: Folder into which the role vllm installed vLLM (C(venv)) and the driver.
    type: path
    required: true
  base_url:
    description: The server's address, without a path.
    type: str
    default: http://127.0.0.1:8000
  model:
    description: The model as the server was given it, a name on Hugging Face or a folder.
    type: str
    required: true
  served_model_name:
    description: The model's name in the API; empty means O(model).
    type: str
    default: ""
  tokenizer:
    description: Name or folder of the tokenizer on this node; empty means O(model).
    type: str
    default: ""
  recipe:
    description: The recipe that the server runs; recorded, and part of the case's name where
      O(endpoint_name) is empty.
    type: str
    default: ""
  endpoint_name:
    description: The endpoint's name; recorded, and part of the case's name.
    type: str
    default: ""
  server_arguments:
    description:
      - The arguments that the server was started with, a flag's name to its value. They are
        recorded, as one parameter (JSON), and records that differ in them are no repeats.
    type: dict
    default: {}
  profile:
    description:
      - C(random) makes its prompts and needs no file. C(chat), C(classification) and
        C(code_generation) draw them from the inference benchmarker's files, C(aime) from the AIME
        validation set. C(custom) sends the prompts of a file of yours.
    type: str
    choices: [random, chat, classification, code_generation, aime, custom]
    default: random
  dataset_path:
    description: The profile's file on this node; of C(aime) a folder.
    type: str
    default: ""
  dataset_sha256:
    description:
      - What O(dataset_path) must have; of a folder, the sha256 of what C(sha256sum) prints of its
        files in order of their names. Empty checks nothing. The record holds it in any case.
    type: str
    default: ""
  downloads_allowed:
    description: Whether vLLM may ask Hugging Face for the tokenizer and the AIME set.
    type: bool
    default: false
  hf_home:
    description: Hugging Face's folder on this node (C(HF_HOME)); empty leaves it alone.
    type: str
    default: ""
  num_prompts:
    description: Requests to send; 0 means the profile's own number.
    type: int
    default: 0
  request_rate:
    description:
      - Requests a second, with exponential gaps. 0 means the profile's own, which is all at once
        except for C(aime).
    type: float
    default: 0.0
  ramp_up_start:
    description: Requests a second at the start of a linear ramp.
    type: int
    default: 0
  ramp_up_end:
    description: Requests a second at its end; 0 means the profile's own ramp, if it has one.
    type: int
    default: 0
  max_concurrency:
    description:
      - Requests in flight at most; 0 means the profile's own, 128 for those of the inference
        benchmarker and no limit for the others.
    type: int
    default: 0
  endpoint:
    description:
      - The API that is asked. C(profile) is chat completions for those of the inference
        benchmarker, and completions for the others.
    type: str
    choices: [profile, completions, chat]
    default: profile
  random_input_tokens:
    description: Tokens of each prompt of profile C(random), give or take one or two.
    type: int
    default: 1024
  random_output_tokens:
    description: Tokens that are generated for each.
    type: int
    default: 128
  seed:
    description: Seed of prompts, lengths and gaps.
    type: int
    default: 42
  goodput_ms:
    description:
      - Latencies in milliseconds that a good request stays within, of C(ttft), C(tpot), C(e2el).
        With them the record has the metric C(request_goodput).
    type: dict
    default: {}
  failed_share_allowed:
    description: Fraction of the requests that may fail before the record is invalid.
    type: float
    default: 0.0
  sample_seconds:
    description: Time between two readings of the server's metrics.
    type: float
    default: 2.0
  api_key:
    description: The server's API key; it is in no record, command line or output.
    type: str
    default: ""
  gpus:
    description: GPUs that the server uses, on all its nodes; 0 is a server on CPUs.
    type: int
    default: 0
  tensor_parallel:
    description: The server's tensor-parallel size; recorded only.
    type: int
    default: 1
  data_parallel:
    description: The server's data-parallel size. That many engines are asked before the run.
    type: int
    default: 1
  nodes:
    description: Host names of the server's nodes, the first one this one; empty means this node
      alone.
    type: list
    elements: str
    default: []
extends_documentation_fragment: [trueup_bench]
author: trueup contributors (@trueup)
"""

EXAMPLES = r"""
- name: Measure the endpoint with 100 random prompts
  vllm_bench:
    prefix: /opt/trueup/vllm
    model: meta-llama/Llama-3.1-8B-Instruct
    recipe: llama-3.1-8b
    gpus: 1
    api_key: "{{ vllm_api_key }}"
    run_id: 20261120T091300Z-7c1e
    node_name: "{{ inventory_hostname }}"
    node: "{{ trueup_node }}"

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
record:
  description: The record of the case (schema C(trueup.record/1)); null in check mode and when the
    input was refused.
  returned: always
  type: dict
raw:
  description: What the benchmark and the driver printed; null when nothing ran.
  returned: always
  type: str
command:
  description: The command line.
  returned: always
  type: list
  elements: str
environment:
  description: The variables set for it, without the API key.
  returned: always
  type: dict
resumed:
  description: Which of O(earlier) stands for this case, from 0; null where it was measured.
  returned: always
  type: int
ansible_facts:
  description: The record once more, as the fact C(trueup_vllm).
  returned: success
  type: dict
  contains:
    trueup_vllm:
      description: The record.
      type: dict
      returned: when the case ran and is ok
"""

import os
import tempfile
from typing import Any, Dict

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.trueup.benchmarks.vllm import case as vllm
from ansible.module_utils.trueup.benchmarks.vllm.output import parse_vllm
from ansible.module_utils.trueup.errors import BadInput
from ansible.module_utils.trueup.node import folders
from ansible.module_utils.trueup.run.bench import COMMON_SPEC, Bench


def argument_spec() -> Dict[str, Dict[str, Any]]:
    # no_log false: Ansible takes a parameter with "token" in its name for a secret and warns.
    counted = {"type": "int", "no_log": False}
    load = vllm.LOAD
    return dict(
        COMMON_SPEC,
        prefix={"type": "path", "required": True},
        base_url={"type": "str", "default": "http://127.0.0.1:8000"},
        model={"type": "str", "required": True},
        served_model_name={"type": "str", "default": ""},
        tokenizer={"type": "str", "default": "", "no_log": False},
        recipe={"type": "str", "default": ""},
        endpoint_name={"type": "str", "default": ""},
        server_arguments={"type": "dict", "default": {}},
        profile={"type": "str", "choices": list(vllm.PROFILES), "default": "random"},
        dataset_path={"type": "str", "default": load["dataset_path"]},
        dataset_sha256={"type": "str", "default": load["dataset_sha256"]},
        downloads_allowed={"type": "bool", "default": False},
        hf_home={"type": "str", "default": ""},
        num_prompts={"type": "int", "default": load["num_prompts"]},
        request_rate={"type": "float", "default": load["request_rate"]},
        ramp_up_start={"type": "int", "default": load["ramp_up_start"]},
        ramp_up_end={"type": "int", "default": load["ramp_up_end"]},
        max_concurrency={"type": "int", "default": load["max_concurrency"]},
        endpoint={
            "type": "str",
            "choices": ["profile", "completions", "chat"],
            "default": "profile",
        },
        random_input_tokens=dict(counted, default=load["random_input_tokens"]),
        random_output_tokens=dict(counted, default=load["random_output_tokens"]),
        seed={"type": "int", "default": load["seed"]},
        goodput_ms={"type": "dict", "default": load["goodput_ms"]},
        failed_share_allowed={"type": "float", "default": load["failed_share_allowed"]},
        sample_seconds={"type": "float", "default": 2.0},
        api_key={"type": "str", "default": "", "no_log": True},
        gpus={"type": "int", "default": 0},
        tensor_parallel={"type": "int", "default": 1},
        data_parallel={"type": "int", "default": 1},
        nodes={"type": "list", "elements": "str", "default": []},
    )


def prepare(
    bench: Bench, chosen: vllm.Settings, given: Dict[str, Any], folder: str, **found: Any
) -> None:
    """Set the case; in check mode this ends the module."""
    ramp = chosen.ramp or (0, 0)
    bench.prepare(
        case=vllm.case_name(chosen, given["endpoint_name"] or given["recipe"]),
        nodes=list(given["nodes"]),
        command=vllm.command(
            chosen,
            python=os.path.join(given["prefix"], "venv", "bin", "python"),
            driver=os.path.join(given["prefix"], "vllm_driver.py"),
            program=os.path.join(given["prefix"], "venv", "bin", "vllm"),
            folder=folder,
        ),
        environment=vllm.environment(
            downloads_allowed=chosen.downloads_allowed, hf_home=given["hf_home"]
        ),
        parameters={
            "profile": chosen.profile,
            "model": given["model"],
            "served_model_name": chosen.model,
            "recipe": given["recipe"],
            "endpoint_name": given["endpoint_name"],
            "server_arguments": vllm.arguments_text(given["server_arguments"]),
            "base_url": chosen.base_url,
            "endpoint": chosen.endpoint,
            "num_prompts": chosen.num_prompts,
            "seed": chosen.seed,
            "request_rate": chosen.request_rate,
            "ramp_up_start": ramp[0],
            "ramp_up_end": ramp[1],
            "max_concurrency": chosen.max_concurrency,
            "failed_share_allowed": chosen.failed_share_allowed,
            "sample_seconds": chosen.sample_seconds,
            "tensor_parallel": given["tensor_parallel"],
            "data_parallel": given["data_parallel"],
            "asked": vllm.asked_text(given),
            **vllm.data_parameters(chosen),
            **{f"goodput_{name}_ms": limit for name, limit in chosen.goodput_ms.items()},
            **found,
        },
        gpus=given["gpus"],
    )


def main() -> None:
    module = AnsibleModule(argument_spec=argument_spec(), supports_check_mode=True)
    given = module.params
    bench = Bench(module, "vllm")
    key = given["api_key"]
    try:
        chosen = vllm.settings(given)
        if module.check_mode:
            prepare(bench, chosen, given, folders.placeholder(tempfile.gettempdir(), "vllm"))
        dataset_sha256 = vllm.require_dataset(chosen)
        server = vllm.Endpoint(chosen.base_url, key)
        engines = given["data_parallel"]
        longest = server.require(
            chosen.model, endpoint=chosen.endpoint, requests=2 * engines if engines > 1 else 1
        )
        vllm.require_length(chosen, longest)
        with folders.own_folder(tempfile.gettempdir(), "vllm") as folder:
            found: Dict[str, Any] = {"dataset_sha256": dataset_sha256} if dataset_sha256 else {}
            if chosen.data.data == "conversations":
                found["different_prompts"] = vllm.write_prompts(chosen, server, folder)
            prepare(bench, chosen, given, folder, **found)
            output = bench.run(
                parse_vllm,
                explain=vllm.explain,
                secrets={"OPENAI_API_KEY": key} if key else None,
            )
    except BadInput as error:
        bench.refuse(str(error))
    bench.case.software["vllm"] = output.tool_version or "unknown"
    bench.case.software["server_vllm"] = output.server_version or "unknown"
    for warning in output.warnings:
        module.warn(warning)
    bench.finish(metrics=vllm.measured(output, chosen), invalid=vllm.judge(output, chosen))


if __name__ == "__main__":
    main()
