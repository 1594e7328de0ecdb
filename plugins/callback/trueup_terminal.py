"""Print a play for many hosts: equal messages in one line, failures with their fix at the end."""

from __future__ import annotations

import atexit
import os
import shlex
import shutil
import signal
import sys
import textwrap
import threading
from typing import TYPE_CHECKING, Any

from ansible import constants
from ansible.errors import AnsibleError
from ansible.playbook.task_include import TaskInclude
from ansible.plugins.callback.default import CallbackModule as DefaultCallback

try:
    from trueup_controller import forecast, terminal
except ModuleNotFoundError as missing:
    message = (
        f"The Python of this Ansible has no {missing.name}, which trueup's plays need: run `make"
        " controller-venv` in trueup's checkout, and use the ansible-playbook in its .venv/bin."
    )
    raise AnsibleError(message) from None

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

DOCUMENTATION = r"""
name: trueup_terminal
type: stdout
short_description: Equal messages of many hosts in one line, failures with their fix at the end
description:
  - Prints a line for each task and for each different message, with the hosts that have it, and at
    the end each failure once. On a terminal the last line is the progress.
  - With C(-v) and more it prints everything that Ansible's own output has, and the failures at the
    end.
extends_documentation_fragment:
  - default_callback
  - result_format_callback
requirements:
  - set as C(stdout_callback) in C(ansible.cfg)
"""

_COLORS = {
    "ok": constants.COLOR_OK,
    "changed": constants.COLOR_CHANGED,
    "skipped": constants.COLOR_SKIP,
    "failed": constants.COLOR_ERROR,
    "unreachable": constants.COLOR_UNREACHABLE,
    "recorded ok": "bright blue",
}
# Seconds between two draws of the progress on a terminal, and between two lines of it elsewhere.
_DRAW = 1.0
_LINE = 300.0
# Where a failed program's last words are, in this order, and how many lines of them are shown.
_OUTPUTS = ("stderr", "module_stderr", "output_tail", "stdout", "module_stdout")
_TAIL = 20


class CallbackModule(DefaultCallback):
    """Ansible calls the ``v2_`` methods."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "stdout"
    CALLBACK_NAME = "trueup_terminal"

    def __init__(self) -> None:
        super().__init__()
        self._output = terminal.Output(self._show)
        # Keys of tasks in the output, by their ids: each host's copy of a task is one task.
        self._keys: dict[str, tuple[str, str, str]] = {}
        # The task that a host runs: answers of async tasks name another.
        self._running: dict[str, tuple[str, str, str]] = {}
        # Hosts that ended in a failure; those of the play without them, and those of each include.
        self._lost: set[str] = set()
        self._hosts: set[str] = set()
        self._included: dict[str, set[str]] = {}
        self._is_free = False
        # Until the first play tells the hosts, the playbook of the run.
        self._playbook = ""
        self._pid = os.getpid()
        self._print = self._display.display
        self._drawn = False
        self._may_draw = False
        self._is_over = threading.Event()

    @property
    def _is_whole(self) -> bool:
        """Whether all is printed as Ansible prints it."""
        return bool(self._display.verbosity)

    def v2_playbook_on_start(self, playbook: Any) -> None:
        super().v2_playbook_on_start(playbook)
        self._playbook = os.path.basename(str(playbook._file_name))
        # Everything that is printed goes through it: also warnings, and lines of workers.
        self._display.display = self._printed
        terminal.screen = self
        atexit.register(self.finish)
        if threading.current_thread() is threading.main_thread():
            self._take_signal()
        if not self._is_whole:
            draws = sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
            threading.Thread(target=self._follow, args=(draws,), daemon=True).start()

    def v2_playbook_on_play_start(self, play: Any) -> None:
        inventory = play.get_variable_manager()._inventory
        hosts = {host.get_name() for host in inventory.get_hosts(play.hosts)}
        self._hosts = hosts - self._lost
        if self._playbook and hosts:
            results = os.environ.get("TRUEUP_RESULTS", "results")
            self._output.expect_whole(forecast.whole_run(results, self._playbook, hosts))
            self._playbook = ""
        self._included = {}
        self._is_free = str(play.strategy).rpartition(".")[2] in ("free", "host_pinned")
        if self._is_whole:
            super().v2_playbook_on_play_start(play)
            return
        self._may_draw = False
        self._play = play
        mark = "] [CHECK MODE" if play.check_mode else ""
        self._output.play(f"{play.get_name().strip()}{mark}", self._hosts)

    def v2_playbook_on_no_hosts_matched(self) -> None:
        if self._is_whole:
            super().v2_playbook_on_no_hosts_matched()
        else:
            self._output.no_hosts()

    def v2_playbook_on_no_hosts_remaining(self) -> None:
        self._output.flush()
        super().v2_playbook_on_no_hosts_remaining()

    def v2_playbook_on_vars_prompt(self, *arguments: Any, **named: Any) -> None:
        super().v2_playbook_on_vars_prompt(*arguments, **named)
        self._may_draw = False
        self._output.flush()
        self._erase()

    def v2_playbook_on_task_start(self, task: Any, is_conditional: bool) -> None:
        if self._is_whole:
            super().v2_playbook_on_task_start(task, is_conditional)
        self._begin(task, "")

    def v2_playbook_on_handler_task_start(self, task: Any) -> None:
        if self._is_whole:
            super().v2_playbook_on_handler_task_start(task)
        self._begin(task, "handler: ")

    def v2_playbook_on_include(self, included_file: Any) -> None:
        if self._is_whole:
            super().v2_playbook_on_include(included_file)
        hosts = self._included.setdefault(included_file._task._uuid, set())
        hosts.update(host.get_name() for host in included_file._hosts)

    def v2_runner_on_start(self, host: Any, task: Any) -> None:
        super().v2_runner_on_start(host, task)
        self._running[host.get_name()] = self._keys.get(task._uuid) or _key(task)

    def v2_runner_on_ok(self, result: Any) -> None:
        if self._is_whole:
            super().v2_runner_on_ok(result)
        elif not (isinstance(result._task, TaskInclude) or self._is_loop(result)):
            self._say_ok(result)
        self._done(result)
        if result._task.action == "trueup_forecast":
            expected = result._result
            self._output.expect(expected["cases"], expected["seconds"], expected["untimed"])

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        is_loop = self._is_loop(result)
        if self._is_whole:
            super().v2_runner_on_failed(result, ignore_errors)
        elif not is_loop:
            self._say_failed(result, "failed")
        if ignore_errors and not self._is_whole:
            self._say(result, terminal.IGNORED)
        if not is_loop:
            self._fail(result)
        if not (ignore_errors or _may_be_rescued(result._task)):
            self._lose(result)
        self._done(result)

    def v2_runner_on_skipped(self, result: Any) -> None:
        if self._is_whole:
            super().v2_runner_on_skipped(result)
        elif self.get_option("display_skipped_hosts") and not self._is_loop(result):
            self._say(result, "skipped")
        self._done(result)

    def v2_runner_on_unreachable(self, result: Any) -> None:
        if self._is_whole:
            super().v2_runner_on_unreachable(result)
        else:
            self._say_failed(result, "unreachable")
        self._fail(result)
        self._lose(result)
        self._done(result)

    def v2_runner_item_on_ok(self, result: Any) -> None:
        if self._is_whole:
            super().v2_runner_item_on_ok(result)
        elif not isinstance(result._task, TaskInclude):
            self._say_ok(result)

    def v2_runner_item_on_failed(self, result: Any) -> None:
        if self._is_whole:
            super().v2_runner_item_on_failed(result)
        else:
            self._say_failed(result, "failed")
        self._fail(result)

    def v2_runner_item_on_skipped(self, result: Any) -> None:
        if self._is_whole:
            super().v2_runner_item_on_skipped(result)
        elif self.get_option("display_skipped_hosts"):
            self._say(result, "skipped")

    def v2_runner_retry(self, result: Any) -> None:
        if self._is_whole:
            super().v2_runner_retry(result)
        else:
            left = result._result["retries"] - result._result["attempts"]
            self._say(result, f"failed, {terminal.counted(left, 'attempt')} left")

    def v2_runner_on_async_poll(self, result: Any) -> None:
        if self._is_whole:
            super().v2_runner_on_async_poll(result)
        else:
            self._say(result, "waiting for the job")

    def v2_runner_on_async_ok(self, result: Any) -> None:
        if self._is_whole:
            super().v2_runner_on_async_ok(result)

    def v2_runner_on_async_failed(self, result: Any) -> None:
        if self._is_whole:
            super().v2_runner_on_async_failed(result)

    def v2_on_file_diff(self, result: Any) -> None:
        if self._is_whole:
            super().v2_on_file_diff(result)
            return
        returned = result._result
        looped = returned["results"] if self._is_loop(result) else [returned]
        for part in looped:
            if part.get("diff") and part.get("changed") and (text := self._get_diff(part["diff"])):
                self._say(result, "diff", text)

    def v2_playbook_on_stats(self, stats: Any) -> None:
        self._may_draw = False
        self._output.end()
        bad = {host for host in stats.processed if stats.failures.get(host) or stats.dark.get(host)}
        super().v2_playbook_on_stats(stats if self._is_whole else _Folded(stats))
        self._close(self._output.failures(bad))
        self._is_over.set()

    def _begin(self, task: Any, kind: str) -> None:
        _, name, path = _key(task)
        hosts = self._hosts_of(task)
        mark = "] [CHECK MODE" if task.check_mode and self.get_option("check_mode_markers") else ""
        arguments = ""
        if constants.DISPLAY_ARGS_TO_STDOUT and not task.no_log:
            arguments = "".join(f" {name}={value}" for name, value in task.args.items())
        key = self._keys[task._uuid] = (kind, name, path)
        self._output.task(
            key,
            f"{kind}{name}{arguments}{mark}",
            _short(path),
            hosts,
            alone=not self._is_free,
        )
        if task.action == "trueup_measure":
            self._output.measuring()
        self._may_draw = not str(task.action).endswith("pause")

    def _hosts_of(self, task: Any) -> Collection[str]:
        """The hosts that run a task, those of its include; a task that runs once has one."""
        if task.run_once:
            return sorted(self._hosts)[:1]
        parent = task._parent
        while parent is not None:
            if isinstance(parent, TaskInclude) and parent._uuid in self._included:
                return self._included[parent._uuid] & self._hosts
            parent = parent._parent
        return self._hosts

    def _key(self, result: Any) -> tuple[str, str, str]:
        key = self._keys.get(result._task._uuid)
        return key or self._running.get(result._host.get_name()) or _key(result._task)

    def _done(self, result: Any) -> None:
        is_case = result._task.action == "trueup_measure"
        self._output.done(self._key(result), case=is_case)

    def _say(self, result: Any, status: str, text: str = "") -> None:
        host, label = result._host.get_name(), self.host_label(result)
        returned = result._result
        item = self._get_item_label(returned) if "ansible_loop_var" in returned else None
        self._output.say(
            self._key(result),
            host,
            terminal.Message(
                status,
                text,
                "" if item is None else str(item),
                label.removeprefix(host),
            ),
            _address(result),
        )

    def _say_ok(self, result: Any) -> None:
        is_changed = bool(result._result.get("changed"))
        if not (is_changed or self.get_option("display_ok_hosts")):
            return
        self._handle_warnings(result._result)
        text = self._text(result) if self._run_is_verbose(result) else ""
        self._say(result, "changed" if is_changed else "ok", text)

    def _say_failed(self, result: Any, status: str) -> None:
        self._handle_warnings(result._result)
        self._say(result, status, self._reason(result))

    def _fail(self, result: Any) -> None:
        host, reason = result._host.get_name(), self._reason(result)
        self._output.fail(self._key(result), host, reason, _address(result))

    def _lose(self, result: Any) -> None:
        self._lost.add(result._host.get_name())
        self._hosts.discard(result._host.get_name())

    def _text(self, result: Any) -> str:
        """A result that is always shown: its message, or all of it where it has none."""
        self._clean_results(result._result, result._task.action)
        lines = _lines(result._result.get("msg"))
        return lines if lines is not None else self._dumped(result)

    def _reason(self, result: Any) -> str:
        """The message of a failure, and the end of the output of the program that failed."""
        returned = result._result
        # Ansible's own sentence where the task is `no_log`.
        reason = _lines(returned.get("censored", returned.get("msg")))
        if reason is None:
            return self._dumped(result)
        reason = reason.strip() or "the condition of its failed_when is true"
        if returned.get("rc") is not None and "cmd" in returned:
            command = returned["cmd"]
            argv = command if isinstance(command, str) else shlex.join(map(str, command))
            reason += f"\n`{argv}` ended with exit status {returned['rc']}"
        for name in _OUTPUTS:
            tail = _lines(returned.get(name))
            if tail and tail.strip():
                lines = tail.rstrip().split("\n")[-_TAIL:]
                return "\n".join([reason, f"the end of its {name}:", *lines])
        return reason

    def _dumped(self, result: Any) -> str:
        return textwrap.dedent(str(self._dump_results(result._result))).strip()

    def _is_loop(self, result: Any) -> bool:
        return result._task.loop is not None and "results" in result._result

    def _show(self, text: str, status: str) -> None:
        """Print lines of a status."""
        is_failure = status in ("failed", "unreachable")
        stderr = is_failure and self.get_option("display_failed_stderr")
        self._display.display(text, color=_COLORS.get(status), stderr=stderr)

    def _printed(self, text: str, *arguments: Any, **named: Any) -> None:
        """In the place of ``Display.display``: no text of a node rewrites the terminal."""
        if os.getpid() != self._pid:
            self._print(text, *arguments, **named)
            return
        self._erase()
        self._print(terminal.plain(text), *arguments, **named)

    def take(self, result: Any, status: str, text: str) -> bool:
        """Take a message of another plugin; False where that is to print it."""
        if not self._is_whole:
            self._say(result, status, text)
        return not self._is_whole

    def _follow(self, draws: bool) -> None:
        """Print what has waited long, and the progress: in the last line of a terminal, elsewhere
        as a line now and then, so that a long task is not taken for a dead one."""
        waited = 0.0
        while not self._is_over.wait(_DRAW):
            self._output.tick()
            waited += _DRAW
            if not self._may_draw:
                continue
            if draws:
                self._draw()
            elif waited >= _LINE:
                waited = 0.0
                self._display.display(f"... {self._output.progress()}")

    def _draw(self) -> None:
        columns = shutil.get_terminal_size().columns
        line = terminal.plain(self._output.progress())[: columns - 1]
        with self._display._lock:
            sys.stdout.write(f"\r\x1b[K{line}")
            sys.stdout.flush()
            self._drawn = True

    def _erase(self) -> None:
        with self._display._lock:
            if self._drawn:
                sys.stdout.write("\r\x1b[K")
                sys.stdout.flush()
                self._drawn = False

    def _close(self, failures: str) -> None:
        self._erase()
        if failures:
            self._display.display(failures, color=constants.COLOR_ERROR)
        if not self._is_whole:
            self._display.display(f"The run took {self._output.took()}.")

    def finish(self) -> None:
        """Print what waits, where the run ends before its recap."""
        if self._is_over.is_set() or os.getpid() != self._pid:
            return
        self._is_over.set()
        self._output.flush()
        self._erase()
        self._display.display(f"\nINTERRUPTED after {self._output.progress()}")
        self._close(self._output.failures())
        sys.stdout.flush()

    def _take_signal(self) -> None:
        """Print what waits before Ansible's own handler of SIGTERM, which ends the process."""
        before = signal.getsignal(signal.SIGTERM)

        def handler(number: int, frame: Any) -> None:
            self.finish()
            if callable(before):
                before(number, frame)
            else:
                signal.signal(number, signal.SIG_DFL)
                os.kill(os.getpid(), number)

        signal.signal(signal.SIGTERM, handler)


class _Folded:
    """Ansible's counts of tasks, where hosts with equal counts are one line."""

    def __init__(self, stats: Any) -> None:
        self.processed: Mapping[str, Mapping[str, int]] = terminal.same_counts(
            sorted(stats.processed), stats.summarize
        )
        self.custom = stats.custom

    def summarize(self, hosts: str) -> Mapping[str, int]:
        """The counts of each of the hosts."""
        return self.processed[hosts]


def _address(result: Any) -> str:
    return str(result._host.vars.get("ansible_host", ""))


def _key(task: Any) -> tuple[str, str, str]:
    """The key of a task that is no handler."""
    return "", task.get_name().strip(), str(task.get_path() or "")


def _may_be_rescued(task: Any) -> bool:
    """Whether a task is in a block with a rescue."""
    parent = task._parent
    while parent is not None:
        if getattr(parent, "rescue", None):
            return True
        parent = parent._parent
    return False


def _lines(value: Any) -> str | None:
    """A text or a list of texts as lines; None for another value."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(line, str) for line in value):
        return "\n".join(value)
    return None


def _short(path: str) -> str:
    """A path below the current folder without that."""
    return path.removeprefix(f"{os.getcwd()}/")
