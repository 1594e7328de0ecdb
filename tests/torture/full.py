"""Nodes whose disk, or whose /run, /var or /tmp, is full while a role configures them.

The nodes are those of the power losses (power.py). A file takes all but a drawn part of the space
that the role would need. The run must end in a sentence, and when the space is there again, the
next must make the node what it is without that.
"""

from __future__ import annotations

import random
import re
import shutil
import sys
import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torture import Tally, power

if TYPE_CHECKING:
    from collections.abc import Iterator

# Where the space goes: the whole file system of the node, its /run or /tmp, which are in memory, or
# /var as a file system of its own.
_PLACES = ("/", "/run", "/var", "/tmp")
_NEVER_SAID = ("Traceback", "MODULE FAILURE", "Unexpected failure")
_SAYS_WHY = re.compile(r"\b(space|full|free|inodes?)\b", re.IGNORECASE)
# A file that takes all blocks but so many.
_FILL = """
import os, sys
place, left = sys.argv[1], int(sys.argv[2])
seen = os.statvfs(place)
size = seen.f_bfree * seen.f_frsize - left * 4096
file = os.open(os.path.join(place, ".filler"), os.O_WRONLY | os.O_CREAT, 0o600)
while size > 0:
    try:
        os.posix_fallocate(file, os.fstat(file).st_size, min(size, 2**24))
    except OSError:
        break
    size -= 2**24
try:
    while size > 0:
        size -= os.write(file, bytes(4096))
except OSError:
    pass
"""


@dataclass
class Trial:
    """A node that gets a role while a place of it is full but for some blocks."""

    node: power.Node
    name: str
    step: str
    reference: power.Step
    place: str
    blocks: int

    def fill(self) -> None:
        """Take the space."""
        self._inside("python3", "-c", _FILL, self.place, str(self.blocks))

    def free(self) -> None:
        """Give the space back."""
        self._inside("rm", "-f", f"{self.place.rstrip('/')}/.filler")

    def _inside(self, *argv: str) -> None:
        power.run("podman", "exec", self.node.host, *argv)

    def __str__(self) -> str:
        where = f"{self.place} of {self.name} ({self.node.kind.file_system})"
        return f"{self.step} with {self.blocks * 4} KiB left of {where}"


def _trials(
    store: power.Store, known: dict[tuple[str, str], power.Step], count: int, seed: int
) -> Iterator[list[Trial]]:
    drawn = random.Random(seed)
    names = sorted(known)
    for first in range(0, count, power.SIDE_BY_SIDE):
        group = []
        for number in range(first, min(first + power.SIDE_BY_SIDE, count)):
            kind, step = names[number % len(names)]
            blocks = 0 if drawn.random() < 0.25 else int(2 ** drawn.uniform(0, 16))
            place = drawn.choice(_PLACES)
            apart = "var" if place == "/var" else ""
            name = f"{power.NAME}-{number - first}"
            node = power.Node(store, name, power.KINDS[kind], apart)
            group.append(Trial(node, kind, step, known[kind, step], place, blocks))
        yield group


def _try(store: power.Store, group: list[Trial], tally: Tally, ends: Counter[str]) -> None:
    power.together(lambda one: one.node.make(one.reference.before), group)
    shutil.rmtree(store.folder / "facts", ignore_errors=True)
    steps = {one.node.host: (one.node.kind, one.step) for one in group}
    for one in group:
        one.fill()
    first = power.configure(store, steps, {})
    for one in group:
        one.free()
    second = power.configure(store, steps, {})
    third = power.configure(store, steps, {})
    digests = power.together(lambda one: one.node.digest(), group)
    for one, digest in zip(group, digests, strict=True):
        why = _said_wrong(one, first) or power.ended_wrong(one, second, third, digest)
        told = first.stats(one.node.host)
        ends["said no" if told.get("failures") or told.get("unreachable") else "had room"] += 1
        if why:
            tally.lose(f"{one}: {why}")
            print(tally.losses[-1], file=sys.stderr, flush=True)
        else:
            tally.survived()
    power.together(lambda one: one.node.remove(), group)


def _said_wrong(one: Trial, ran: power.Ran) -> str:
    """What the run of a full node says wrong of it."""
    told = ran.stats(one.node.host)
    if not told:
        return "the run says nothing of it"
    if not (told["failures"] or told["unreachable"]):
        return ""
    own = rf"^\[ERROR\]: {re.escape(one.node.host)}: .*"
    why = " ".join([ran.why(one.node.host), *re.findall(own, ran.text, re.MULTILINE)])
    if any(task["failed"] and not task["said"].strip() for task in ran.tasks(one.node.host)):
        # Of a task with no_log, Ansible prints the module's sentence and hides it in the result.
        why += " ".join(re.findall(r"^\[ERROR\]: (.*)", ran.text, re.MULTILINE))
    if any(word in why for word in _NEVER_SAID):
        return f"no sentence: {why}"
    return "" if _SAYS_WHY.search(why) else f"does not say that it is full: {why}"


def roles(count: int, seed: int) -> Tally:
    """Roles as their family gets them, on nodes that are full."""
    ends: Counter[str] = Counter()

    def attack(store: power.Store, known: dict[tuple[str, str], power.Step], tally: Tally) -> None:
        for group in _trials(store, known, count, seed):
            begun = time.monotonic()
            _try(store, group, tally, ends)
            seconds = time.monotonic() - begun
            said = f"  {tally.tried} tried, {tally.lost} lost, {seconds:.0f} s"
            print(said, file=sys.stderr, flush=True)

    tally = power.on_nodes(attack)
    tally.figures += [f"{number} {what}" for what, number in sorted(ends.items())]
    return tally
