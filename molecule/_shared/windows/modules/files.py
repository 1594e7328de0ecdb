"""win_stat."""

from __future__ import annotations

from typing import Any

from ..arguments import Call, Option, module
from ..host import ShareError, name_of

CHECKSUMS = ("md5", "sha1", "sha256", "sha384", "sha512")


@module(
    "ansible.windows.win_stat",
    {
        "path": Option("path", required=True, aliases=("dest", "name")),
        "get_checksum": Option("bool", default=True),
        "get_size": Option("bool", default=True),
        "checksum_algorithm": Option(default="sha1", choices=CHECKSUMS),
        "follow": Option("bool", default=False),
    },
)
def win_stat(call: Call) -> dict[str, Any]:
    """What a file or a folder is."""
    host, path = call.host, call.host.expanded(call.args["path"])
    try:
        file = host.file(path)
    except ShareError:
        # Get-Item gives nothing, and the module takes that for absent.
        file = None
    if file is None:
        return {"stat": {"exists": False}}
    folder = file.data is None
    name, extension = name_of(path)
    stat: dict[str, Any] = {
        "exists": True,
        "attributes": "Directory" if folder else "Archive",
        "isarchive": not folder,
        "isdir": folder,
        "ishidden": False,
        "isjunction": False,
        "islnk": False,
        "isreadonly": False,
        "isreg": not folder,
        "isshared": False,
        "nlink": 1,
        "hlnk_targets": [],
        "creationtime": file.written,
        "lastaccesstime": file.written,
        "lastwritetime": file.written,
        "path": path,
        "filename": name,
        "owner": "BUILTIN\\Administrators",
    }
    if call.args["get_size"]:
        inside = [host.files[each].data or b"" for each in host.below(path)] if folder else []
        stat["size"] = sum(map(len, inside)) if folder else len(file.data or b"")
    if not folder:
        stat["extension"] = extension
        if call.args["get_checksum"]:
            stat["checksum"] = file.digest(call.args["checksum_algorithm"])
    return {"stat": stat}
