"""Whether an earlier record of a run stands for a case that is to be measured now.

It does where nothing differs that could change a figure: nodes, placement, parameters, command,
environment, the programs themselves and the system they run on. Facts that a case learns only while
it runs (a GPU's name) are in the record alone and compared by nobody.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from typing import Any, Dict, List, Mapping, Optional, Sequence

from ..redaction import redact

# The key of a record's ``software`` that holds program_digest.
PROGRAM = "program_digest"
# Not threads_per_rank: some programs choose it while they run, and who does says it in parameters,
# command or environment.
_FIELDS = ("nodes", "vm_size", "ranks", "gpus", "environment")
_SYSTEM = ("os", "kernel", "image")
# Larger ones are told apart by size and time of change.
_WHOLE_BYTES = 64 * 1024**2
# A folder that a case makes for itself, and which has another name each time (node/folders.py).
_OWN_FOLDER = re.compile(r"(trueup-[a-z_-]{1,40}-)[A-Za-z0-9_]{8}(?=/|$)")


def identity(record: Mapping[str, Any]) -> Dict[str, Any]:
    """The fields of a record, or of a case that has not run, that must be equal for one to stand
    for the other."""
    fields: Dict[str, Any] = {name: record[name] for name in _FIELDS}
    variables = record["environment"].items()
    fields["environment"] = {name: _OWN_FOLDER.sub(r"\1", str(text)) for name, text in variables}
    fields["command"] = [_OWN_FOLDER.sub(r"\1", str(argument)) for argument in record["command"]]
    fields["parameters"] = dict(record["parameters"])
    fields["system"] = {name: record["system"].get(name) for name in _SYSTEM}
    fields["program"] = record["software"].get(PROGRAM)
    return fields


def standing(
    earlier: Sequence[Mapping[str, Any]],
    record: Mapping[str, Any],
    *,
    momentary: Sequence[str] = (),
) -> Optional[int]:
    """Which of the earlier identities, the last of them, stands for a case that would be
    ``record``; None where none does.

    Args:
        earlier: the results of ``identity`` for records that ended ok.
        record: the case, before it runs.
        momentary: parameters that the machine's state of the moment decides, such as an order that
            fits the free memory. They are not compared.
    """
    now = identity(redact(dict(record)))
    places = range(len(earlier) - 1, -1, -1)
    return next((index for index in places if same(earlier[index], now, momentary)), None)


def same(before: Mapping[str, Any], now: Mapping[str, Any], momentary: Sequence[str] = ()) -> bool:
    """Whether two identities are of one case; a parameter that is in ``before`` alone was learnt
    while it ran."""
    fixed = [name for name in now if name != "parameters"]
    compared = {name: value for name, value in now["parameters"].items() if name not in momentary}
    return all(before.get(name) == now[name] for name in fixed) and all(
        name in before["parameters"] and before["parameters"][name] == value
        for name, value in compared.items()
    )


def program_digest(command: Sequence[str]) -> Optional[str]:
    """The digest of a command: twelve digits over the files that it names and, where its program
    stands in a virtual environment, over the distributions in there; None where it names no
    file."""
    paths = _files(command)
    if not paths:
        return None
    digest = hashlib.sha256()
    for path in paths:
        state = os.stat(path)
        digest.update(f"{os.path.basename(path)} {state.st_size}\n".encode())
        if state.st_size <= _WHOLE_BYTES:
            with open(path, "rb") as stream:
                digest.update(stream.read())
        else:
            digest.update(str(state.st_mtime_ns).encode())
        digest.update("\n".join(_distributions(path)).encode())
    return digest.hexdigest()[:12]


def _files(command: Sequence[str]) -> List[str]:
    """The program, and every argument that is the path of a file that can be read and that the case
    has not made for itself."""
    program = shutil.which(command[0]) if command else None
    named = [
        argument
        for argument in command[1:]
        if os.path.isabs(argument) and not _OWN_FOLDER.search(argument)
    ]
    paths = ([program] if program else []) + named
    return [path for path in paths if os.path.isfile(path) and os.access(path, os.R_OK)]


def _distributions(program: str) -> List[str]:
    """Names and versions of the distributions in the virtual environment of a program."""
    home = os.path.dirname(os.path.dirname(program))
    if not os.path.isfile(os.path.join(home, "pyvenv.cfg")):
        return []
    library = os.path.join(home, "lib")
    return sorted(
        name
        for python in os.listdir(library)
        if os.path.isdir(os.path.join(library, python, "site-packages"))
        for name in os.listdir(os.path.join(library, python, "site-packages"))
        if name.endswith(".dist-info")
    )
