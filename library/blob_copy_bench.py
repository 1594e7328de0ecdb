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
options:
  prefix:
    description: Folder into which the role blob_checkpoint installed the program.
    type: path
    required: true
  account_url:
    description: C(https://ACCOUNT.blob.core.windows.net); empty with a connection string.
    type: str
    default: ""
  container:
    description: Existing container.
    type: str
    required: true
  files:
    description: Files to copy, one copy each; empty means files of random data.
    type: list
    elements: path
    default: []
  directory:
    description: Existing folder for the files of random data, and for blobs that azcopy reads back.
    type: path
    default: /tmp
  copies:
    description: Copies at the same time, where O(files) is empty.
    type: int
    default: 8
  size_bytes:
    description: Bytes of each file of random data.
    type: int
    default: 1073741824
  limit_mbps:
    description: The storage account's limit for what comes in, in Mb/s.
    type: float
    default: 20000.0
  cap_mbps:
    description:
      - The most that each copy may take, in Mb/s. 0 means the most, in steps of 100 Mb/s, that
        keeps all of them below O(limit_mbps).
    type: float
    default: 0.0
  cores_kept:
    description: Cores left for others; -1 means a sixth of them.
    type: int
    default: -1
  block_mib:
    description: Size of a block in MiB.
    type: int
    default: 8
  connections:
    description: Blocks in flight of each copy.
    type: int
    default: 4
  verify:
    description:
      - C(properties) compares the file's MD5 with the blob's Content-MD5; each block's MD5 was
        compared by the service when it arrived. C(download) reads every blob back.
    type: str
    choices: [properties, download]
    default: properties
  retries:
    description: Retries of one request.
    type: int
    default: 8
  program:
    description:
      - C(auto) is azcopy with the node's managed identity where there is no credential, else
        azure-storage-blob. azcopy takes a SAS only as an argument, which is refused.
    type: str
    choices: [auto, azcopy, azure-storage-blob]
    default: auto
extends_documentation_fragment: [trueup_bench]
author: trueup contributors (@trueup)
"""

EXAMPLES = r"""
- name: Measure 8 copies of 2300 Mb/s each below an account's 20 Gb/s
  blob_copy_bench:
    prefix: /opt/trueup/blob_checkpoint
    account_url: https://checkpoints.blob.core.windows.net
    container: measured
    directory: /mnt/nvme
    cap_mbps: 2300
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
  description: What the program printed; null when nothing ran.
  returned: always
  type: str
command:
  description: The command line.
  returned: always
  type: list
  elements: str
environment:
  description: The variables set for it; C(TMPDIR) where azcopy reads blobs back. The credential is
    not shown.
  returned: always
  type: dict
resumed:
  description: Which of O(earlier) stands for this case, from 0; null where it was measured.
  returned: always
  type: int
ansible_facts:
  description: The record once more, as the fact C(trueup_blob_copy).
  returned: success
  type: dict
  contains:
    trueup_blob_copy:
      description: The record.
      type: dict
      returned: when the case ran and is ok
"""

import contextlib
import os
from typing import Any, Dict, List, Optional

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.trueup.benchmarks.blob_copy import case as blob_copy
from ansible.module_utils.trueup.benchmarks.blob_copy.output import BlobCopyOutput, parse_blob_copy
from ansible.module_utils.trueup.errors import BadInput
from ansible.module_utils.trueup.node import folders
from ansible.module_utils.trueup.run.bench import COMMON_SPEC, Bench


def argument_spec() -> Dict[str, Dict[str, Any]]:
    return dict(
        COMMON_SPEC,
        prefix={"type": "path", "required": True},
        account_url={"type": "str", "default": ""},
        container={"type": "str", "required": True},
        files={"type": "list", "elements": "path", "default": []},
        directory={"type": "path", "default": "/tmp"},  # noqa: S108 WHY: a default; own_folder makes a private one in it
        copies={"type": "int", "default": 8},
        size_bytes={"type": "int", "default": 1073741824},
        limit_mbps={"type": "float", "default": 20000.0},
        cap_mbps={"type": "float", "default": 0.0},
        cores_kept={"type": "int", "default": -1},
        block_mib={"type": "int", "default": 8},
        connections={"type": "int", "default": 4},
        verify={"type": "str", "choices": ["properties", "download"], "default": "properties"},
        retries={"type": "int", "default": 8},
        program={
            "type": "str",
            "choices": ["auto", "azcopy", "azure-storage-blob"],
            "default": "auto",
        },
    )


def prepare(
    bench: Bench,
    given: Dict[str, Any],
    files: List[str],
    sizes: List[int],
    *,
    cap: float,
    account: str,
    folder: Optional[str],
) -> None:
    """Set the case; in check mode this ends the module."""
    # Blobs of their own for each run: nothing of others' is written over, and the same run goes on
    # where it was interrupted.
    name = f"trueup/{given['run_id']}/{given['node_name']}"
    own = bool(given["files"])
    bench.prepare(
        case=f"{len(files)}x{cap / 1e6:.0f}mbps-{'files' if own else 'random'}",
        command=blob_copy.command(given, files=files, cap=cap, name=name),
        environment={"TMPDIR": folder} if folder else {},
        ranks=len(files),
        parameters={
            "copies": len(files),
            "cap_bits_per_second": cap,
            "limit_bits_per_second": given["limit_mbps"] * 1e6,
            "cores_kept": given["cores_kept"],
            "size_bytes": sum(sizes),
            "data": "files" if own else "random",
            "file_bytes": 0 if own else given["size_bytes"],
            **blob_copy.listed(files if own else [], sizes),
            "account": account,
            "container": given["container"],
            "block_bytes": given["block_mib"] * 1024**2,
            "connections": given["connections"],
            "verify": given["verify"],
            "checksum": "md5",
            "program_asked": given["program"],
        },
    )


def measure(
    bench: Bench, given: Dict[str, Any], cap: float, credentials: Dict[str, str], *, check: bool
) -> BlobCopyOutput:
    """Make the files where there are none, and copy them; in check mode neither."""
    files: List[str] = given["files"]
    count = len(files) or given["copies"]
    sizes = [given["size_bytes"]] * count
    # The library hashes what it reads back; azcopy writes it into a folder.
    read_back = given["verify"] == "download" and not (
        credentials or given["program"] == "azure-storage-blob"
    )
    with contextlib.ExitStack() as stack:
        folder = folders.placeholder(given["directory"], "blob-copy")
        if not check:
            sizes = blob_copy.require_files(files) or sizes
            needed = sum(sizes) * ((not files) + read_back)
            if needed:
                folders.require_folder(given["directory"])
                folders.require_space(given["directory"], needed, "set size_bytes or copies lower")
                folder = stack.enter_context(folders.own_folder(given["directory"], "blob-copy"))
        if not files:
            make = blob_copy.random_names if check else blob_copy.random_files
            files = make(folder, sizes)
        prepare(
            bench,
            given,
            files,
            sizes,
            cap=cap,
            account=blob_copy.account(
                given["account_url"], credentials.get(blob_copy.CREDENTIALS[0], "")
            ),
            folder=folder if read_back else None,
        )
        return bench.run(parse_blob_copy, explain=blob_copy.explain, secrets=credentials)


def main() -> None:
    module = AnsibleModule(argument_spec=argument_spec(), supports_check_mode=True)
    given = module.params
    bench = Bench(module, "blob_copy")
    count = len(given["files"]) or given["copies"]
    try:
        blob_copy.require_address(given["account_url"], given["container"])
        cap = blob_copy.capped(count, given["limit_mbps"] * 1e6, (given["cap_mbps"] * 1e6) or None)
        if given["size_bytes"] < 1:
            raise BadInput(f"size_bytes {given['size_bytes']} is not a size")
        credentials = blob_copy.read_credentials(os.path.join(given["prefix"], "credentials"))
        output = measure(bench, given, cap, credentials, check=module.check_mode)
    except BadInput as error:
        bench.refuse(str(error))
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


if __name__ == "__main__":
    main()
