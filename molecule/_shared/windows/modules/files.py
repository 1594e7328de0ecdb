"""win_stat, win_file, win_copy and win_unzip."""

from __future__ import annotations

import io
import ntpath
import zipfile
from typing import Any

from ..arguments import Call, Option, module
from ..errors import FailError, UnknownError
from ..host import File, Host, ShareError, name_of

CHECKSUMS = ("md5", "sha1", "sha256", "sha384", "sha512")


def size_of(file: File) -> int:
    """Bytes of a file."""
    return len(file.data or b"")


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
        inside = sum(size_of(host.files[each]) for each in host.below(path))
        stat["size"] = inside if folder else size_of(file)
    if not folder:
        stat["extension"] = extension
        if call.args["get_checksum"]:
            stat["checksum"] = file.digest(call.args["checksum_algorithm"])
    return {"stat": stat}


@module(
    "ansible.windows.win_file",
    {
        "path": Option("path", required=True, aliases=("dest", "name")),
        "state": Option(choices=("absent", "directory", "file", "touch")),
        "_original_basename": Option(),
    },
)
def win_file(call: Call) -> dict[str, Any]:
    """Make or remove a folder, or remove a file."""
    host, state = call.host, call.args["state"]
    path = host.expanded(call.args["path"])
    file = host.file(path)
    if state == "touch":
        if file is None and not call.check:
            host.write(path, File(b""))
        return {"changed": True}
    if file is not None:
        folder = file.data is None
        if state == "absent" and not call.check:
            host.remove(path)
        if (state, folder) in (("directory", False), ("file", True)):
            raise FailError(f"path {path} is not a {state}")
        return {"changed": state == "absent"}
    if state == "directory" or (state is None and path.endswith("\\")):
        if not call.check:
            host.write(path, File(None))
        return {"changed": True}
    if state == "absent":
        return {"changed": False}
    raise FailError(f"path {path} will not be created")


@module(
    "ansible.windows.win_copy",
    {
        "content": Option(),
        "decrypt": Option("bool", default=True),
        "dest": Option("path", required=True),
        "backup": Option("bool", default=False, known=False),
        "force": Option("bool", default=True),
        "local_follow": Option("bool", default=True),
        "remote_src": Option("bool", default=False),
        "src": Option("path"),
        # Of its action plugin.
        "_copy_mode": Option(default="single", choices=("query", "remote", "single")),
        "_original_basename": Option(),
        "files": Option("list"),
        "directories": Option("list"),
        "symlinks": Option("list"),
    },
)
def win_copy(call: Call) -> dict[str, Any]:
    """The steps of action plugin win_copy: what differs; and put one file in its place."""
    args, host = call.args, call.host
    dest = host.expanded(args["dest"])
    if args["_copy_mode"] == "query":
        return _query(call, dest)
    source = host.file(host.expanded(args["src"] or ""))
    if source is None:
        raise FailError(f"Cannot copy src file: '{args['src']}' as it does not exist")
    if source.data is None:
        raise UnknownError("a copy of a folder by win_copy with remote_src")
    there = host.file(dest)
    single = args["_copy_mode"] == "single"
    if dest.endswith("\\") or (there is not None and there.data is None):
        own = args["_original_basename"] if single else name_of(args["src"])[0]
        dest = ntpath.join(dest, own)
        there = host.file(dest)
    elif not single and host.file(ntpath.dirname(dest)) is None:
        raise FailError(f"Destination directory '{ntpath.dirname(dest)}' does not exist")
    changed = there is None or (args["force"] and there.digest("sha1") != source.digest("sha1"))
    if changed and not call.check:
        host.write(dest, File(source.data, source.sha256, source.signer))
    return {
        "changed": changed,
        "src": args["src"],
        "dest": dest,
        "checksum": source.digest("sha1"),
        "size": size_of(source),
        **({} if single else {"operation": "file_copy"}),
        "original_basename": args["_original_basename"] if single else name_of(args["src"])[0],
    }


def _query(call: Call, dest: str) -> dict[str, Any]:
    """Which of the controller's files are not here with their sha1."""
    host = call.host
    files = []
    for each in call.args["files"] or []:
        path = ntpath.join(dest, each["dest"].replace("/", "\\")) if each["dest"] else dest
        there = host.file(path)
        if there is not None and there.data is None:
            raise FailError(
                f"cannot copy file to dest '{path}': object at path is already a directory"
            )
        if there is None or (call.args["force"] and there.digest("sha1") != each["checksum"]):
            files.append(each)
    folders = [
        each
        for each in call.args["directories"] or []
        if host.file(ntpath.join(dest, each["dest"].replace("/", "\\"))) is None
    ]
    return {
        "changed": False,
        "files": files,
        "directories": folders,
        "symlinks": [],
        "will_change": bool(files or folders),
    }


@module(
    "community.windows.win_unzip",
    {
        "src": Option("path", required=True),
        "dest": Option("path", required=True),
        "delete_archive": Option("bool", default=False, aliases=("rm",)),
        "recurse": Option("bool", default=False, known=False),
        "creates": Option("path"),
        "password": Option(no_log=True, known=False),
    },
)
def win_unzip(call: Call) -> dict[str, Any]:
    """Unpack a .zip; without ``creates`` it does so, and says changed, each time."""
    args, host = call.args, call.host
    src, dest = host.expanded(args["src"]), host.expanded(args["dest"])
    result = {"changed": False, "dest": dest, "removed": False, "src": src}
    if args["creates"] and host.file(host.expanded(args["creates"])) is not None:
        said = f"The file or directory '{args['creates']}' already exists."
        return {**result, "skipped": True, "msg": said}
    archive = host.file(src)
    if archive is None:
        raise FailError(f"File '{src}' does not exist.", **result)
    if name_of(src)[1].lower() != ".zip":
        raise UnknownError(f"archive {name_of(src)[0]}")
    holds = _holds(archive, src, dest)
    if not call.check:
        host.write(dest, File(None))
        for name, file in holds.items():
            path = ntpath.normpath(ntpath.join(dest, name.replace("/", "\\")))
            if not path.lower().startswith(dest.rstrip("\\").lower() + "\\"):
                raise FailError(
                    f"Error unzipping '{src}' to '{dest}'! Filename contains relative paths which "
                    f"would extract outside the destination: {name}"
                )
            host.write(path, file)
        if args["delete_archive"]:
            host.remove(src)
    return {**result, "changed": bool(holds), "removed": args["delete_archive"]}


def _holds(archive: File, src: str, dest: str) -> dict[str, File]:
    if archive.holds:
        return archive.holds
    try:
        with zipfile.ZipFile(io.BytesIO(archive.data or b"")) as opened:
            names = [name for name in opened.namelist() if not name.endswith("/")]
            return {name: File(opened.read(name)) for name in names}
    except zipfile.BadZipFile as error:
        raise FailError(
            f"Error unzipping '{src}' to '{dest}'!. Method: System.IO.Compression.ZipFile, "
            f"Exception: {error}"
        ) from None


def there(host: Host, path: str | None) -> bool:
    """Whether a path of an option such as ``creates`` is there."""
    return bool(path) and host.file(host.expanded(path or "")) is not None
