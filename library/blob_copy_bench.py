#!/usr/bin/python
"""Ansible module: copy files to Blob storage, several at once, and return a record."""

from __future__ import annotations

DOCUMENTATION = r"""
module: blob_copy_bench
short_description: Measure copies of checkpoints to Azure Blob storage
version_added: "0.3.0"
description:
  - Copies O(files), or O(copies) files of random data that it makes, to a container at the same
    time, one process each, and returns the rate of all of them together and of each as a record.
  - Each copy is capped so that all of them stay below O(limit_mbps). A copy that took more than its
    cap by over 10 %, or a blob whose checksum is not its file's, gives a record with outcome
    C(invalid).
  - Files of random data are removed with their folder at the end, also after a failure or at the
    time limit. Each copy removes its blobs when it has come to its end; one that fails, or is ended
    at the time limit, leaves those that it has committed, below C(trueup/RUN_ID/NODE_NAME). Blocks
    that it left uncommitted are not sent again when the same O(files) are copied under the same
    O(run_id).
  - The credential is read from the file C(credentials) in O(prefix), which the role
    P(blob_checkpoint#role) writes with mode 0600; it is in no argument, record or output.
extends_documentation_fragment: trueup_options.blob_copy
"""

EXAMPLES = r"""
- name: Measure 8 copies of 2300 Mb/s each below an account's 20 Gb/s
  blob_copy_bench:
    run_id: 20261120T091300Z-7c1e
    node_name: "{{ inventory_hostname }}"
    node: "{{ trueup_node }}"
    prefix: /opt/trueup/blob_checkpoint
    account_url: https://checkpoints.blob.core.windows.net
    container: measured
    directory: /mnt/nvme
    cap_mbps: 2300
"""

RETURN = r"""
record: {description: "The record of the case (more in the notes)", type: dict, returned: always}
"""

import contextlib
import os
from typing import Dict, List, Optional

from ansible.module_utils.trueup_node.benchmarks.blob_copy import case as blob_copy
from ansible.module_utils.trueup_node.benchmarks.blob_copy.output import (
    BlobCopyOutput,
    parse_blob_copy,
)
from ansible.module_utils.trueup_node.node import folders
from ansible.module_utils.trueup_node.run.bench import Bench, run_module


def prepare(
    bench: Bench,
    files: List[str],
    sizes: List[int],
    *,
    cap: float,
    account: str,
    folder: Optional[str],
) -> None:
    """Set the case; in check mode, and where a record stands for it, this ends the module."""
    parameters = bench.given
    has_files = bool(parameters["files"])
    bench.prepare(
        case=f"{len(files)}x{cap / 1e6:.0f}mbps-{'files' if has_files else 'random'}",
        command=blob_copy.command(parameters, files=files, cap=cap),
        environment={"TMPDIR": folder} if folder else {},
        ranks=len(files),
        parameters={
            "copies": len(files),
            "cap_bits_per_second": cap,
            "limit_bits_per_second": parameters["limit_mbps"] * 1e6,
            "cores_kept": parameters["cores_kept"],
            "size_bytes": sum(sizes),
            "data": "files" if has_files else "random",
            "file_bytes": 0 if has_files else parameters["size_bytes"],
            **blob_copy.listed(files if has_files else [], sizes),
            "account": account,
            "container": parameters["container"],
            "block_bytes": parameters["block_mib"] * 1024**2,
            "connections": parameters["connections"],
            "verify": parameters["verify"],
            "checksum": "md5",
            "program_asked": parameters["program"],
        },
    )


def copied(bench: Bench, cap: float, credentials: Dict[str, str]) -> BlobCopyOutput:
    """Make the files where there are none, and copy them; in check mode neither."""
    parameters = bench.given
    files: List[str] = parameters["files"]
    sizes = [parameters["size_bytes"]] * (len(files) or parameters["copies"])
    if not bench.check:
        sizes = blob_copy.require_files(files) or sizes
    # The library hashes the bytes that it reads back; azcopy writes them into a folder.
    read_back = parameters["verify"] == "download" and not (
        credentials or parameters["program"] == "azure-storage-blob"
    )
    folder = folders.placeholder(parameters["directory"], "blob-copy")
    prepare(
        bench,
        files or blob_copy.random_names(folder, sizes),
        sizes,
        cap=cap,
        account=blob_copy.account(
            parameters["account_url"], credentials.get(blob_copy.CREDENTIALS[0], "")
        ),
        folder=folder if read_back else None,
    )
    needed = sum(sizes) * ((not files) + read_back)
    with contextlib.ExitStack() as stack:
        if needed:
            folders.require_folder(parameters["directory"])
            folders.require_space(parameters["directory"], needed, "set size_bytes or copies lower")
            folder = stack.enter_context(folders.own_folder(parameters["directory"], "blob-copy"))
            if not files:
                files = blob_copy.random_files(folder, sizes)
            bench.case.command = blob_copy.command(parameters, files=files, cap=cap)
        if read_back:
            bench.case.environment = {"TMPDIR": folder}
        return bench.run(parse_blob_copy, explain=blob_copy.explain, secrets=credentials)


def measure(bench: Bench) -> None:
    parameters = bench.given
    count = len(parameters["files"]) or parameters["copies"]
    blob_copy.require_address(parameters["account_url"], parameters["container"])
    cap = blob_copy.capped(
        count, parameters["limit_mbps"] * 1e6, (parameters["cap_mbps"] * 1e6) or None
    )
    credentials = blob_copy.read_credentials(os.path.join(parameters["prefix"], "credentials"))
    output = copied(bench, cap, credentials)
    bench.case.software.update(output.software)
    bench.case.threads_per_rank = output.connections
    bench.case.parameters.update(
        program=output.program,
        cores_per_copy=output.cores_per_copy,
        throttled=sum(copy.throttled for copy in output.copies),
    )
    bench.finish(
        metrics=output.metrics(),
        invalid=blob_copy.judge(
            output, copies=count, cap=cap, size_bytes=bench.case.parameters["size_bytes"]
        ),
    )


def main() -> None:
    run_module("blob_copy", blob_copy.OPTIONS, measure)


if __name__ == "__main__":
    main()
