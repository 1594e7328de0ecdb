"""Lines of a play on a terminal or in a log: equal messages of many hosts are one line, failures
stand once at the end with their hosts and the fix."""

from __future__ import annotations

import re
import threading
import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeVar

from .known_faults import fix_of as known_fix
from .plans.slurm_names import hostlist

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence

# Seconds after which messages are printed although their task runs on other hosts.
_PATIENCE: Final = 30
# Seconds of a task from which on its time is printed.
_LONG: Final = 10
# Characters of a list of hosts beside messages that are no failure.
_HOSTS_CHARACTERS: Final = 60
# Items of a loop that a line names, and characters of each.
_ITEMS, _ITEM_CHARACTERS = 5, 80
# Of a message: characters, and characters of a line. Health findings of 600 nodes are 100,000.
_MOST_CHARACTERS, _LINE_CHARACTERS = 1 << 18, 2_000
# Lines of a failure in the list at the end.
_LINES_AT_END: Final = 12
# Control and invisible characters, which could rewrite the terminal; colours of Ansible's are kept.
_CONTROL: Final = re.compile(
    r"(\x1b\[(?:0|[01];3[0-7]|38;5;\d{1,3})m)"
    "|[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]"
)
_FAILED: Final = ("failed", "unreachable")
# The status of a failure that the play ignores.
IGNORED: Final = "ignoring the failure"
# Statuses below those that are not named.
_LAST: Final = {"failed": 1, "unreachable": 1, IGNORED: 2}
# Fixes of Ansible's own messages, by a part of them.
_FIXES: Final = {
    "Could not resolve hostname": "give the host's address as ansible_host in the inventory",
    "Permission denied (": "give the user (ansible_user) a key that the host accepts; try"
    " `ssh USER@HOST` on this machine",
    "Host key verification failed": "compare the host's key and write it to known_hosts"
    " (`ssh-keyscan`), or remove its old line (`ssh-keygen -R HOST`)",
    "REMOTE HOST IDENTIFICATION HAS CHANGED": "a host made anew has a new key: remove the old line"
    " with `ssh-keygen -R HOST`",
    "Connection timed out": "start the machine, and let this address in on port 22 (network"
    " security group)",
    "No route to host": "start the machine, and check its address in the inventory",
    "Connection refused": "start the machine's ssh server, and check ansible_port",
    "assword is required": "give sudo without a password, or run with --ask-become-pass",
    "Missing sudo password": "give sudo without a password, or run with --ask-become-pass",
    "No space left on device": "`df -h` and `df -i` on the host show the full file system",
}


# Signs of a host's own name and address, with which messages of several hosts are equal. Texts
# hold no control character of their own (``plain``).
_NAME, _ADDRESS = "\x00", "\x01"

Place = TypeVar("Place", bound="Hashable")


class Screen(Protocol):
    """The callback that prints the run of this process, for other plugins."""

    def take(self, result: Any, status: str, text: str) -> bool:
        """Take a message about the host of a result; False where the caller is to print it."""

    def finish(self) -> None:
        """Print what waits: the process ends."""


# None where another callback prints.
screen: Screen | None = None


class Message(NamedTuple):
    """A message of a task about one host.

    Attributes:
        status: ok, changed, skipped, failed, unreachable, or another word.
        text: further lines; empty where the status says all.
        item: label of a loop's item.
        suffix: of the host's name, where another host did the task.
    """

    status: str
    text: str = ""
    item: str = ""
    suffix: str = ""


class _Task:
    """A task's messages that are not printed yet, by message its hosts."""

    def __init__(self, title: str, path: str, total: int, now: float) -> None:
        self.title, self.path, self.total, self.began = title, path, total, now
        self.done = 0
        self.messages: dict[Message, list[str]] = {}
        # When the oldest of them came.
        self.since = now


class Output:
    """What a run prints. Threads may call it."""

    def __init__(
        self, show: Callable[[str, str], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """
        Args:
            show: prints text; its second argument is the status, of which a colour follows.
            clock: seconds.
        """
        self._show, self._clock = show, clock
        self._lock = threading.RLock()
        self._began = clock()
        self._hosts: set[str] = set()
        self._heading = ""
        self._tasks: dict[Hashable, _Task] = {}
        # Tasks that all hosts have ended. Other plugins may still have messages of the last one.
        self._ended: list[Hashable] = []
        self._current: _Task | None = None
        self._failures: dict[tuple[str, str], list[str]] = {}
        # Task and path of each failure; addresses of hosts.
        self._places: dict[Hashable, str] = {}
        self._addresses: dict[str, str] = {}
        # Of each host, texts of its failures so far.
        self._texts: dict[str, list[str]] = {}
        self._cases = 0
        self._measuring_since: float | None = None
        self._expected_cases = 0
        self._expected_seconds = 0.0
        self._is_at_least = False
        self._whole: float | None = None

    def play(self, title: str, hosts: Iterable[str]) -> None:
        """Begin a play of these hosts; its heading is printed with its first line."""
        with self._lock:
            self.end()
            self._hosts = set(hosts)
            self._heading = f"\nPLAY [{title}] {counted(len(self._hosts), 'host')}"

    def no_hosts(self) -> None:
        """Report a play that has no hosts."""
        with self._lock:
            self._heading = f"{self._heading.rpartition('] ')[0].lstrip()}] no hosts matched"
            self._print_heading("skipped")

    def task(
        self, key: Hashable, title: str, path: str, hosts: Collection[str], *, alone: bool
    ) -> None:
        """Begin a task.

        Args:
            key: of the task: its later messages name it.
            title: as it is printed.
            path: file and line.
            hosts: that will run it, as far as is known.
            alone: whether the tasks before it have ended on all hosts.
        """
        with self._lock:
            if alone:
                self.flush()
            self._print_ended()
            if key not in self._tasks:
                self._tasks[key] = _Task(title, path, len(hosts), self._clock())
            self._current = self._tasks[key]
            self._places[key] = f"{title} ({path})" if path else title

    def say(self, key: Hashable, host: str, message: Message, address: str = "") -> None:
        """Take a message of a task about a host with that address."""
        with self._lock:
            task = self._tasks.get(key)
            if task is None:
                task = self._tasks[key] = _Task("", "", 0, self._clock())
            if not task.messages:
                task.since = self._clock()
            self._addresses[host] = address
            shown = message._replace(text=_clean(message.text), item=_clean(message.item))
            task.messages.setdefault(shown, []).append(host)

    def fail(self, key: Hashable, host: str, text: str, address: str = "") -> None:
        """Keep a failure for the list at the end, unless it only repeats those of the host."""
        with self._lock:
            self._addresses[host] = address
            text = _clean(text)
            before = self._texts.setdefault(host, [])
            if _repeats(text, before):
                return
            before.append(text)
            place = self._places.get(key, "")
            self._failures.setdefault((place, text), []).append(host)

    def done(self, key: Hashable, *, case: bool = False) -> None:
        """Note that a host has ended a task, which measured a case."""
        with self._lock:
            task = self._tasks.get(key)
            if task is None:
                return
            task.done += 1
            self._cases += case
            if task.total and task.done >= task.total:
                self._ended.append(key)

    def measuring(self) -> None:
        """Note that a case begins."""
        if self._measuring_since is None:
            self._measuring_since = self._clock()

    def expect(self, cases: int, seconds: float, untimed: int) -> None:
        """Take the cases of the run and their time by earlier records (``trueup_forecast``)."""
        self._expected_cases, self._expected_seconds = cases, seconds
        self._is_at_least = untimed > 0

    def expect_whole(self, seconds: float | None) -> None:
        """Take the time of the last run like this one."""
        self._whole = seconds

    def tick(self) -> None:
        """Print what has waited long."""
        with self._lock:
            self._print_ended()
            late = self._clock() - _PATIENCE
            for key, task in list(self._tasks.items()):
                if task.messages and task.since <= late:
                    self._print(key)

    def flush(self) -> None:
        """Print all that waits: their tasks have ended."""
        with self._lock:
            for key in list(self._tasks):
                self._print(key)
            self._tasks, self._ended = {}, []

    def end(self) -> None:
        """Print all that waits; of a play without a message its heading."""
        with self._lock:
            self.flush()
            self._heading = self._heading.lstrip()
            self._print_heading()

    def progress(self) -> str:
        """The task that runs, its hosts, cases and times, in a line."""
        task = self._current
        last = "" if self._whole is None else f" (the last run took {clock_text(self._whole)})"
        parts = [clock_text(self._clock() - self._began) + last]
        if task is not None:
            parts.append(task.title)
            if task.total > 1:
                parts.append(f"{min(task.done, task.total)} of {task.total} hosts")
        cases = self._case_progress()
        return ", ".join([*parts, cases] if cases else parts)

    def failures(self, bad: Collection[str] | None = None) -> str:
        """The failures of the run, each once with its hosts.

        Args:
            bad: hosts that failed at the end; of others the failures were rescued or ignored.
                None where the run was interrupted.
        """
        lost, handled = [], []
        for (place, text), hosts in self._alike(self._failures):
            ended = [host for host in hosts if bad is None or host in bad]
            others = [host for host in hosts if not (bad is None or host in bad)]
            lost += [self._at_end(place, text, ended)] if ended else []
            handled += [self._at_end(place, text, others)] if others else []
        sections = (("FAILURES", lost), ("FAILURES THAT THE RUN HANDLED", handled))
        return "\n".join(
            "\n".join([f"\n{title}", *entries]) for title, entries in sections if entries
        )

    def took(self) -> str:
        """The time of the run so far."""
        return clock_text(self._clock() - self._began)

    def _alike(
        self, messages: Mapping[tuple[Place, str], list[str]]
    ) -> list[tuple[tuple[Place, str], list[str]]]:
        """Messages and their hosts, where those are one message that differ in nothing but the
        name or address of the one host that each is about."""
        alike: dict[tuple[Place, str], list[str]] = {}
        for (place, text), hosts in messages.items():
            names = dict.fromkeys(hosts)
            alone = _hidden(text, hosts[0], self._addresses.get(hosts[0], ""))
            alike.setdefault((place, alone if len(names) == 1 else text), []).extend(names)
        return [
            ((place, self._named(text, names)), names) for (place, text), names in alike.items()
        ]

    def _at_end(self, place: str, text: str, hosts: Sequence[str]) -> str:
        lines = text.rstrip("\n").split("\n")
        more = len(lines) - _LINES_AT_END
        if more > 0:
            lines = [*lines[:_LINES_AT_END], f"[{counted(more, 'more line')} above]"]
        fix = fix_of(text)
        text = "\n".join([*lines, *([f"Fix: {fix}."] if fix else [])])
        number = f" ({len(hosts)} hosts)" if len(hosts) > 1 else ""
        return f"{hostlist(hosts)}{number}: {place}\n{indented(text)}"

    def _named(self, text: str, hosts: Sequence[str]) -> str:
        """A text with the name and address of its host, or the word HOST for several."""
        name, address = "HOST", "HOST"
        if len(set(hosts)) == 1:
            name, address = hosts[0], self._addresses.get(hosts[0], "")
        return text.replace(_NAME, name).replace(_ADDRESS, address)

    def _case_progress(self) -> str:
        if self._measuring_since is None:
            return ""
        # Cases of a plan that did not count them are not of the total.
        is_known = self._expected_cases >= max(self._cases, 1)
        total = f" of {self._expected_cases}" if is_known else ""
        text = f"{self._cases}{total} cases in {clock_text(self._clock() - self._measuring_since)}"
        if self._expected_seconds:
            about = "at least" if self._is_at_least else "about"
            text += f" of {about} {clock_text(self._expected_seconds)} by earlier records"
        return text

    def _print_heading(self, status: str = "") -> None:
        if self._heading:
            self._show(self._heading, status)
            self._heading = ""

    def _print_ended(self) -> None:
        ended, self._ended = self._ended, []
        for key in ended:
            self._print(key)

    def _print(self, key: Hashable) -> None:
        task = self._tasks[key]
        if not task.messages:
            return
        self._print_heading()
        split = {
            (message._replace(text=""), message.text): hosts
            for message, hosts in task.messages.items()
        }
        entries = _joined(
            (message._replace(text=text), hosts) for (message, text), hosts in self._alike(split)
        )
        task.messages = {}
        spent = self._clock() - task.began
        head = f"TASK [{task.title}]" if task.title else ""
        time_text = f" after {clock_text(spent)}" if spent >= _LONG else ""
        shown = [(message.status, self._entry(message, hosts)) for message, hosts in entries]
        if len(shown) == 1 and head and shown[0][0] not in (*_FAILED, "changed"):
            self._show(f"{head} {shown[0][1]}{time_text}", shown[0][0])
            return
        if head:
            self._show(head + time_text, "")
        for status, text in shown:
            self._show(text, status)

    def _entry(self, message: Message, hosts: Sequence[str]) -> str:
        """A message with its hosts: a short one in a line, a long one below that."""
        item = f" (item={message.item})" if message.item else ""
        text = message.text.rstrip("\n")
        if message.status in _FAILED:
            who = hostlist(hosts) if len(set(hosts)) > 1 else hosts[0]
            verb = "UNREACHABLE!" if message.status == "unreachable" else "FAILED!"
            begin = f"{'failed' if item else 'fatal'}: [{who}{message.suffix}]{item}: {verb}"
            first, _, rest = text.partition("\n")
            return f"{begin} => {first}" + (f"\n{indented(rest)}" if rest else "")
        begin = f"{message.status}: [{self._who(hosts)}{message.suffix}]{item}"
        if not text:
            return begin
        return f"{begin}\n{indented(text)}" if "\n" in text else f"{begin} => {text}"

    def _who(self, hosts: Sequence[str]) -> str:
        names = set(hosts)
        if len(names) == 1:
            return hosts[0]
        number = counted(len(names), "host")
        if names == self._hosts:
            return number
        folded = hostlist(names)
        return f"{number}: {folded}" if len(folded) <= _HOSTS_CHARACTERS else number


def plain(text: str) -> str:
    """A text that cannot rewrite the terminal: control characters are shown as question marks."""
    return _CONTROL.sub(lambda match: match[1] or "?", text)


def _clean(text: str) -> str:
    """A node's text for the terminal."""
    return plain(_cut(text))


def _cut(text: str) -> str:
    """A text, of which long lines and a long end are left out; what is left out is counted."""
    if len(text) > _MOST_CHARACTERS:
        lost = len(text) - _MOST_CHARACTERS
        text = f"{text[:_MOST_CHARACTERS]}\n[{lost} more characters: -v shows them]"
    if len(text) <= _LINE_CHARACTERS:
        return text
    return "\n".join(
        line
        if len(line) <= _LINE_CHARACTERS
        else f"{line[:_LINE_CHARACTERS]} [{len(line) - _LINE_CHARACTERS} more characters]"
        for line in text.split("\n")
    )


def indented(text: str) -> str:
    """A text whose lines begin with four spaces."""
    return "\n".join(f"    {line}".rstrip() for line in text.rstrip("\n").split("\n"))


def counted(number: int, noun: str) -> str:
    """A number and its noun."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def clock_text(seconds: float) -> str:
    """A time as 0:42, 12:05 or 1:02:03."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def same_counts(
    hosts: Iterable[str], counts: Callable[[str], Mapping[str, int]]
) -> dict[str, Mapping[str, int]]:
    """Hosts whose tasks ended alike, as one line of the recap each."""
    alike: dict[tuple[tuple[str, int], ...], list[str]] = {}
    for host in hosts:
        alike.setdefault(tuple(counts(host).items()), []).append(host)
    return {
        hostlist(names) + (f" ({counted(len(names), 'host')})" if len(names) > 1 else ""): dict(
            numbers
        )
        for numbers, names in alike.items()
    }


def fix_of(text: str) -> str:
    """The fix of a message of Ansible's own, or of a fault that the dictionary has; or empty."""
    if "Fix: " in text:
        return ""
    return next((fix for part, fix in _FIXES.items() if part in text), "") or known_fix(text)


def _joined(messages: Iterable[tuple[Message, list[str]]]) -> list[tuple[Message, list[str]]]:
    """Messages of the same hosts that differ in their item alone, as one, in the order of _LAST."""
    alike: dict[tuple[Message, tuple[str, ...]], list[str]] = {}
    for message, hosts in messages:
        key = (message._replace(item=""), tuple(sorted(hosts)))
        alike.setdefault(key, []).append(message.item)
    joined = [
        (message._replace(item=_items(items)), list(hosts))
        for (message, hosts), items in alike.items()
    ]
    return sorted(joined, key=lambda entry: _LAST.get(entry[0].status, 0))


def _items(items: Sequence[str]) -> str:
    labels = [
        item if len(item) <= _ITEM_CHARACTERS else f"{item[:_ITEM_CHARACTERS]}..."
        for item in items[:_ITEMS]
    ]
    more = [f"{len(items) - _ITEMS} more"] if len(items) > _ITEMS else []
    return ", ".join([*labels, *more])


def _repeats(text: str, before: Sequence[str]) -> bool:
    """Whether a text holds nothing but earlier texts."""
    rest = text
    for earlier in before:
        rest = rest.replace(earlier, "")
    return bool(before) and not re.search(r"\w", rest)


def _hidden(text: str, host: str, address: str) -> str:
    """A text with signs in the place of a host's name and address, where they are whole."""
    for name, sign in ((host, _NAME), (address, _ADDRESS)):
        if not name or name not in text:
            continue
        # No pattern: of 600 names each would be compiled again for each message.
        first, *others = text.split(name)
        text = first
        for part in others:
            is_part = text[-1:].isalnum() or part[:1].isalnum()
            text += (name if is_part else sign) + part
    return text
