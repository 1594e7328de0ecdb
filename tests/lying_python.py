"""An interpreter of a hostile node: it runs a module by a real Python and rewrites its answer.

``PATCHES`` is a file of patches, a JSON object each, and ``PATCH`` in a task's environment the
number of the one that is made; without it the answer is the module's. A patch has ``text``, which
stands in the place of the answer, ``endless``, where that never ends, or ``set``: pairs of a path
in the answer and its new value. A value of ``{"$nest": N}`` is a list in N lists, of
``{"$pad": N}`` a text of N characters, of ``{"$many": N}`` a list of N numbers, and of
``{"$gone": 1}`` no member.
"""

import json
import os
import subprocess
import sys
from functools import reduce
from pathlib import Path


def value_of(value: object) -> object:
    kind, number = next(iter(value.items())) if isinstance(value, dict) and value else ("", 0)
    if kind == "$nest":
        return reduce(lambda inner, _: [inner], range(number), 0)
    return {"$pad": lambda: "x" * number, "$many": lambda: [0] * number}.get(kind, lambda: value)()


def put(answer: dict, path: str, value: object) -> None:
    *folders, name = path.split("/")
    place = reduce(lambda inner, folder: inner.setdefault(folder, {}), folders, answer)
    place[name] = value_of(value)
    if value == {"$gone": 1}:
        del place[name]


done = subprocess.run([sys.executable, *sys.argv[1:]], stdout=subprocess.PIPE, check=False)
said = done.stdout.decode()
if "PATCH" in os.environ and said.lstrip().startswith("{"):
    patch = json.loads(Path(os.environ["PATCHES"]).read_text())[int(os.environ["PATCH"])]
    answer = json.loads(said)
    sys.setrecursionlimit(10**6)
    for path, value in patch.get("set", []):
        put(answer, path, value)
    said = patch["text"] if "text" in patch else json.dumps(answer)
    while patch.get("endless"):  # until nobody reads it
        sys.stdout.write("x" * 2**20)
sys.stdout.write(said)
sys.exit(done.returncode)
