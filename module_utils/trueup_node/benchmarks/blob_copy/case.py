"""Copies to Blob storage as a case: options, the rule of the caps, command, credential, files of
random data, and whether a run counts."""

from __future__ import annotations

import hashlib
import math
import os
import re
import stat
from typing import Any, Dict, List, Mapping, Optional, Sequence

from ...errors import BadInput
from ...options import ModuleOption, Option, RoleOption
from .output import BlobCopyOutput

CAP_STEP = 100e6
# A copy may be this much above its cap: azcopy's documentation says that the throughput of a moment
# may vary slightly from the cap; ours is paid before it is sent and is never above.
TOLERANCE = 1.10
CREDENTIALS = ("AZURE_STORAGE_CONNECTION_STRING", "AZURE_STORAGE_SAS_TOKEN")
_MIB = 1024**2
_SAID = re.compile(r"^trueup-blob-copy: (?!copy \d+: \d+ of )(.*)$", re.MULTILINE)

OPTIONS = (
    Option(
        "prefix",
        "Folder on the node for the program trueup-blob-copy, its virtual environment (about 56"
        " MiB) and the credential.",
        "~/.local/share/trueup/blob_checkpoint",
        type="path",
        why="Yours without root.",
    ),
    RoleOption(
        "pip_find_links",
        "Folder on the node with the wheels of files/requirements.txt, for sites without internet;"
        " empty: the node's own pip configuration decides where from. Whatever the source, every"
        " file must match the pinned sha256.",
        "",
    ),
    RoleOption("pip_no_index", "Install from blob_checkpoint_pip_find_links alone.", False),
    Option(
        "account_url",
        "The storage account, https://ACCOUNT.blob.core.windows.net; empty with a connection"
        " string, which names it.",
        "",
    ),
    Option(
        "container",
        "An existing container in it; empty: the role is skipped by name, since nobody else can say"
        " where checkpoints go.",
        "",
    ),
    RoleOption(
        "connection_string",
        "Connection string of the account, from a vault. It or the SAS token is the credential;"
        " both empty: azcopy with the node's managed identity.",
        "",
        why="Written to the file credentials in blob_checkpoint_prefix with mode 0600; it stands in"
        " no argument, record or fact.",
        secret=True,
    ),
    RoleOption(
        "sas_token",
        "Shared access signature for the container, from a vault.",
        "",
        why="Kept as the connection string is.",
        secret=True,
    ),
    ModuleOption(
        "program",
        "What copies; auto: azure-storage-blob where there is a credential, else azcopy with the"
        " node's managed identity. azcopy takes a SAS only as an argument, which is refused.",
        "auto",
        choices=("auto", "azcopy", "azure-storage-blob"),
    ),
    Option(
        "copies",
        "Files copied at the same time.",
        8,
        why="One for each GPU of a node that writes its share of the model (article on NDv4: 8).",
        least=1,
    ),
    Option(
        "limit_mbps",
        "The storage account's limit for what comes in, in Mb/s.",
        20000.0,
        why="20 Gb/s is the ingress limit in the article on NDv4. Look yours up; nodes share it.",
        least=1,
    ),
    ModuleOption(
        "cap_mbps",
        "The most that each copy may take, in Mb/s; 0 means the most, in steps of 100 Mb/s, that"
        " keeps all of them below the limit.",
        0.0,
        why="The article takes 2300: 8 x 2300 = 18400 < 20000.",
    ),
    ModuleOption(
        "cores_kept",
        "Cores left for others; -1 means a sixth of them. Each copy gets floor((cores - kept) /"
        " copies); too few, and none is bound.",
        -1,
        why="A sixth gives the article's 10 of 96 for each of 8 copies.",
        least=-1,
    ),
    ModuleOption(
        "block_mib",
        "Size of a block in MiB; a file of more than 50,000 of them gets larger ones.",
        8,
        why="A lost block is what is sent again.",
        least=1,
    ),
    ModuleOption(
        "connections",
        "Blocks in flight of each copy.",
        4,
        why="One connection does not fill a cap of gigabits.",
        least=1,
    ),
    ModuleOption(
        "verify",
        "properties compares the file's MD5 with the blob's Content-MD5, and each block's MD5 was"
        " compared by the service when it arrived; download reads every blob back.",
        "properties",
        choices=("properties", "download"),
    ),
    ModuleOption(
        "retries",
        "Retries of one request that was throttled (429, 503), failed (500, 502, 504) or lost its"
        " connection.",
        8,
    ),
    Option(
        "files",
        "Benchmark: files to copy, one copy each; empty means files of random data.",
        [],
        elements="path",
    ),
    ModuleOption("size_bytes", "Bytes of each file of random data.", 1073741824, least=1),
    Option(
        "directory",
        "Existing folder for the files of random data, which are removed at the end, and for blobs"
        " that azcopy reads back.",
        "/tmp",  # noqa: S108 WHY: a default; own_folder makes a private one in it
        type="path",
        why="An NVMe scratch is fast enough.",
    ),
    Option("timeout_seconds", "Benchmark: time limit of the case in seconds.", 1800, least=1),
)


def most_cap(copies: float, limit: float) -> float:
    """The most that each of ``copies`` may take, in steps of 100 Mb/s, for all of them together to
    stay below ``limit`` bit/s; 0 or less where there is no such step."""
    return (math.ceil(limit / copies / CAP_STEP) - 1) * CAP_STEP


def capped(copies: float, limit: float, cap: Optional[float] = None) -> float:
    """The cap of each copy, bit/s.

    Args:
        copies: how many run at the same time.
        limit: the account's limit for incoming data, bit/s.
        cap: the most that each copy may take, bit/s; None for the most, in steps of 100 Mb/s, that
            keeps all of them below the limit.

    Raises:
        BadInput: a count or rate that is not positive; copies that reach the limit together (says
            the cap that would do).
    """
    for name, value in (("copies", copies), ("limit", limit)):
        if not (math.isfinite(value) and value > 0):
            raise BadInput(f"{name} {value:g} is not a positive number")
    most = most_cap(copies, limit)
    if cap is None:
        if most <= 0:
            raise BadInput(
                f"{copies} copies share {limit / 1e9:g} Gb/s, less than 100 Mb/s each: take fewer"
            )
        return most
    if not (math.isfinite(cap) and cap > 0):
        raise BadInput(f"cap {cap:g} is not a positive number")
    if copies * cap >= limit:
        mend = f"cap each at {most / 1e6:g} Mb/s" if most > 0 else "take fewer"
        raise BadInput(
            f"{copies} copies of {cap / 1e6:g} Mb/s are {copies * cap / 1e9:g} Gb/s, and the"
            f" account takes {limit / 1e9:g} Gb/s: it would throttle them; {mend}"
        )
    return cap


def command(parameters: Mapping[str, Any], *, files: Sequence[str], cap: float) -> List[str]:
    """The argv. No credential is in it; rates are whole: the run is compared with them.

    Blobs have names of their own for each run: nothing of others' is written over, and the same run
    goes on where it was interrupted.
    """
    name = f"trueup/{parameters['run_id']}/{parameters['node_name']}"
    argv = [
        os.path.join(parameters["prefix"], "venv", "bin", "python"),
        os.path.join(parameters["prefix"], "blob_copy_driver.py"),
        "--benchmark",
        *(["--account-url", parameters["account_url"]] if parameters["account_url"] else []),
    ]
    argv += [
        "--container",
        parameters["container"],
        "--name",
        name,
        "--program",
        parameters["program"],
    ]
    argv += ["--copies", str(len(files)), "--limit-mbps", repr(parameters["limit_mbps"])]
    argv += ["--cap-mbps", repr(cap / 1e6), "--cores-kept", str(parameters["cores_kept"])]
    argv += [
        "--block-mib",
        str(parameters["block_mib"]),
        "--connections",
        str(parameters["connections"]),
    ]
    argv += ["--retries", str(parameters["retries"]), "--verify", parameters["verify"], "--"]
    return [*argv, *files]


def account(account_url: str, connection_string: str) -> str:
    """The address of the account that one of the two names; no credential is in it."""
    parts = {
        name.strip().lower(): value.strip()
        for name, _, value in (pair.partition("=") for pair in connection_string.split(";"))
    }
    address = account_url or parts.get("blobendpoint", "")
    if not address and parts.get("accountname"):
        suffix = parts.get("endpointsuffix") or "core.windows.net"
        address = f"https://{parts['accountname']}.blob.{suffix}"
    return address.partition("?")[0].rstrip("/")


def listed(paths: Sequence[str], sizes: Sequence[int]) -> Dict[str, str]:
    """Given files as parameters of a record, by which a run with others is told from it."""
    digest = hashlib.sha256(",".join(map(str, sizes)).encode()).hexdigest()
    return {"files": ", ".join(paths), "file_sizes_sha256": digest if paths else ""}


def read_credentials(path: str) -> Dict[str, str]:
    """The credential that the role put on the node; empty where it put none there.

    Raises:
        BadInput: others can read it, or it holds something else.
    """
    try:
        with open(path, encoding="utf-8") as stream:
            mode = stat.S_IMODE(os.fstat(stream.fileno()).st_mode)
            lines = stream.read().splitlines()
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}") from error
    if mode & 0o077:
        raise BadInput(f"{path} can be read by others (mode {mode:04o}): chmod 600 it")
    credentials = {}
    for number, line in enumerate(lines, 1):
        name, _, value = line.partition("=")
        if line.strip() and not line.startswith("#"):
            if name not in CREDENTIALS:
                raise BadInput(f"{path} line {number} is not one of {', '.join(CREDENTIALS)}")
            credentials[name] = value.strip()
    return credentials


def require_address(account_url: str, container: str) -> None:
    """Refuse an address that holds a SAS: it would stand in argv and in the record.

    Raises:
        BadInput: without the address.
    """
    if "?" in account_url or "?" in container:
        raise BadInput(
            "account_url or container holds a query, perhaps a SAS: give the SAS to the role as "
            "blob_checkpoint_sas_token"
        )
    if not container:
        raise BadInput("container is empty: name an existing container")


def require_files(files: Sequence[str]) -> List[int]:
    """The bytes of each file.

    Raises:
        BadInput: one is missing, empty or no file, or two have the same name.
    """
    sizes = []
    for path in files:
        if not os.path.isfile(path):
            raise BadInput(f"{path} is not a file on this node")
        if not os.access(path, os.R_OK):
            raise BadInput(f"{path} cannot be read")
        size = os.path.getsize(path)
        if not size:
            raise BadInput(f"{path} is empty")
        sizes.append(size)
    names = [os.path.basename(path) for path in files]
    if len(set(names)) != len(names):
        raise BadInput(f"two files are named {max(names, key=names.count)}: blobs are named so")
    return sizes


def random_names(folder: str, sizes: Sequence[int]) -> List[str]:
    """The paths of the files of random data, one for each size."""
    return [os.path.join(folder, f"rank{number:02d}.bin") for number in range(len(sizes))]


def random_files(folder: str, sizes: Sequence[int]) -> List[str]:
    """Files of random data, which no network or disk can pack.

    Raises:
        BadInput: the disk refuses.
    """
    paths = random_names(folder, sizes)
    try:
        for path, size in zip(paths, sizes):
            remaining_bytes = size
            with open(path, "wb") as stream:
                while remaining_bytes:
                    remaining_bytes -= stream.write(os.urandom(min(remaining_bytes, 4 * _MIB)))
    except OSError as error:
        raise BadInput(f"{folder} cannot be filled: {error.strerror}") from error
    return paths


def explain(text: str) -> Optional[str]:
    """The program's own sentence for why it failed; None where it said none."""
    messages = _SAID.findall(text)
    return messages[-1] if messages else None


def judge(output: BlobCopyOutput, *, copies: int, cap: float, size_bytes: int) -> Optional[str]:
    """Why a run that ended is not a valid measurement, or None.

    Checked: that it made the requested copies under the given cap, that every checksum is right,
    that no copy took more than its cap (with TOLERANCE), and that something was sent at all.
    """
    if len(output.copies) != copies:
        return f"{len(output.copies)} copies ran instead of {copies}"
    if abs(output.cap - cap) > 1:
        return f"the cap was {output.cap / 1e6:g} Mb/s instead of {cap / 1e6:g} Mb/s"
    total = sum(copy.bytes for copy in output.copies)
    if total != size_bytes:
        return f"{total} bytes were copied instead of {size_bytes}"
    for copy in output.copies:
        for file in copy.files:
            if not file.verified:
                return (
                    f"the blob {file.blob} holds {file.stored_bytes} bytes with MD5 "
                    f"{file.stored_md5}, the file {file.bytes} with {file.md5}"
                )
    for copy in output.copies:
        if copy.sent_rate > output.cap * TOLERANCE:
            return (
                f"copy {copy.number} took {copy.sent_rate / 1e6:.0f} Mb/s, above its cap of "
                f"{output.cap / 1e6:g} Mb/s by more than {TOLERANCE - 1:.0%}"
            )
    if not any(copy.uploaded_bytes for copy in output.copies):
        return (
            "every block was there from an interrupted run: nothing was sent, so there is no rate"
        )
    return None
