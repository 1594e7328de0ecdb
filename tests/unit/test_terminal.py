"""What a play of many hosts prints: equal messages once, failures at the end, nothing that rewrites
the terminal."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest
from helpers import parametrized
from trueup_controller import terminal
from trueup_controller.terminal import Message, Output

HOSTS = [f"node{number:03}" for number in range(1, 61)]
PATH = "playbooks/identify.yml:9"


class Printed(Output):
    """An output, its lines and its clock."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.now = 0.0
        super().__init__(lambda text, _: self.lines.extend(text.split("\n")), lambda: self.now)
        self.play("Identify nodes", HOSTS)

    def run(self, name: str, messages: Sequence[tuple[str, Message]]) -> None:
        """A task that ends on all hosts."""
        self.task(name, name, PATH, HOSTS, alone=True)
        for host, message in messages:
            self.say(name, host, message)
            self.done(name)


def test_a_task_that_is_ok_everywhere_is_one_line() -> None:
    output = Printed()
    output.run("Identify node", [(host, Message("ok")) for host in HOSTS])
    assert output.lines == []
    output.flush()
    assert output.lines == [
        "",
        "PLAY [Identify nodes] 60 hosts",
        "TASK [Identify node] ok: [60 hosts]",
    ]


def test_hosts_that_differ_are_listed_by_name_and_come_last() -> None:
    output = Printed()
    differs = {
        "node007": Message("failed", "no driver\nsecond line"),
        "node009": Message("changed"),
    }
    output.run("Install", [(host, differs.get(host, Message("ok"))) for host in HOSTS])
    output.flush()
    assert output.lines[2:] == [
        "TASK [Install]",
        "ok: [58 hosts: node[001-006,008,010-060]]",
        "changed: [node009]",
        "fatal: [node007]: FAILED! => no driver",
        "    second line",
    ]


def test_a_name_or_address_that_is_part_of_another_stays() -> None:
    output = Printed()
    for host, address in (("node1", "10.0.0.1"), ("node11", "10.0.0.11")):
        output.say("t", host, Message("ok", f"{host}, not node111 or 10.0.0.111"), address)
    output.flush()
    assert output.lines[-1].partition(" => ")[2] == "HOST, not node111 or 10.0.0.111"


@parametrized(("hosts", "text"))
def test_one_host_is_named_in_its_message(hosts: Sequence[str], text: str) -> None:
    output = Printed()
    for number, host in enumerate(hosts):
        message = Message("ok", f"{host} answers at 10.0.0.{number}")
        output.say("t", host, message, f"10.0.0.{number}")
    output.flush()
    assert output.lines[-1].partition(" => ")[2] == text


def test_hosts_whose_common_message_names_one_of_them_are_one_line() -> None:
    output = Printed()
    why = "node001 and node002 are one VM"
    output.run("Compare", [(host, Message("failed", why)) for host in HOSTS[:2]])
    output.flush()
    assert output.lines[-1] == f"fatal: [node[001-002]]: FAILED! => {why}"


def test_items_of_a_loop_are_one_line_and_many_are_counted() -> None:
    output = Printed()
    items = [f"package-{number}" for number in range(9)]
    output.run("Install", [(host, Message("ok", item=item)) for host in HOSTS for item in items])
    output.flush()
    named = ", ".join(items[:5])
    assert output.lines[2:] == [f"TASK [Install] ok: [60 hosts] (item={named}, 4 more)"]


def test_a_task_that_lasts_prints_what_has_waited_half_a_minute() -> None:
    output = Printed()
    output.task("t", "Measure", PATH, HOSTS, alone=True)
    output.say("t", "node001", Message("ok"))
    output.now = 29
    output.tick()
    assert output.lines == []
    output.now = 30
    output.tick()
    assert output.lines[2:] == ["TASK [Measure] ok: [node001] after 0:30"]
    output.say("t", "node002", Message("ok"))
    output.now = 59
    output.tick()
    assert len(output.lines) == 3


def test_nodes_that_go_at_their_own_pace_print_a_task_when_all_have_ended_it() -> None:
    output = Printed()
    for host in HOSTS:
        for name in ("first", "second"):
            output.task(name, name, PATH, HOSTS, alone=False)
            output.say(name, host, Message("ok"))
            output.done(name)
    output.flush()
    assert output.lines[2:] == ["TASK [first] ok: [60 hosts]", "TASK [second] ok: [60 hosts]"]


def test_a_play_without_hosts_and_one_without_messages() -> None:
    output = Printed()
    output.no_hosts()
    output.play("Quiet", HOSTS)
    output.end()
    assert output.lines == ["PLAY [Identify nodes] no hosts matched", "PLAY [Quiet] 60 hosts"]


def test_the_list_at_the_end_has_each_failure_once_with_its_hosts_and_its_fix() -> None:
    output = Printed()
    output.task("a", "Run nccl", "case.yml:4", HOSTS, alone=True)
    for host in ("node003", "node004"):
        output.fail("a", host, "nccl: too slow")
    output.fail("a", "node009", "ssh: Connection refused")
    output.task("b", "Report failures", "cases.yml:20", HOSTS, alone=True)
    # It repeats what stands above.
    output.fail("b", "node003", "nccl: too slow; nccl: too slow")
    output.fail("b", "node004", "nccl: too slow, and more")
    assert output.failures(bad={"node003", "node009"}).split("\n") == [
        "",
        "FAILURES",
        "node003: Run nccl (case.yml:4)",
        "    nccl: too slow",
        "node009: Run nccl (case.yml:4)",
        "    ssh: Connection refused",
        "    Fix: start the machine's ssh server, and check ansible_port.",
        "",
        "FAILURES THAT THE RUN HANDLED",
        "node004: Run nccl (case.yml:4)",
        "    nccl: too slow",
        "node004: Report failures (cases.yml:20)",
        "    nccl: too slow, and more",
    ]
    assert "node[003-004] (2 hosts): Run nccl (case.yml:4)" in output.failures().split("\n")


def test_a_long_failure_is_cut_at_the_end_where_its_lines_stand_above() -> None:
    output = Printed()
    output.fail("a", "node003", "\n".join(map(str, range(100))))
    assert output.failures().split("\n")[-2:] == ["    11", "    [88 more lines above]"]


ATTACKS = {
    "clears the screen": ("a\x1b[2J\x1b[1;1Hb", "a?[2J?[1;1Hb"),
    "writes over the line": ("bad\rgood", "bad?good"),
    "hides text": ("a\x1b[8mb", "a?[8mb"),
    "names the window": ("\x1b]0;x\x07", "?]0;x?"),
    "8-bit control": ("a\x9b2Jb", "a?2Jb"),
    "turns the text around": ("a\u202eb", "a?b"),
    "breaks the line": ("a\u2028b", "a?b"),
    "no character": ("a\ud800b", "a?b"),
    "colour of Ansible's": ("\x1b[0;31ma\x1b[0m", "\x1b[0;31ma\x1b[0m"),
    "text": ("a\tb\nçé€", "a\tb\nçé€"),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_a_nodes_text_cannot_rewrite_the_terminal(name: str) -> None:
    text, shown = ATTACKS[name]
    assert terminal.plain(text) == shown


def test_ten_megabytes_are_cut_and_counted_within_a_second() -> None:
    output = Printed()
    begun = time.process_time()
    output.run("t", [(HOSTS[0], Message("ok", "x\x1b" * 5_000_000))])
    output.flush()
    assert time.process_time() - begun < 1
    assert output.lines[-1].strip() == f"[{10_000_000 - (1 << 18)} more characters: -v shows them]"
    assert max(map(len, output.lines)) < 2_100


def test_progress_names_the_task_hosts_cases_and_times() -> None:
    output = Printed()
    output.expect(cases=240, seconds=1500, untimed=0)
    output.task("t", "stream : Run stream", PATH, HOSTS, alone=True)
    output.measuring()
    for host in HOSTS[:12]:
        output.say("t", host, Message("ok"))
        output.done("t", case=True)
    output.now = 190
    assert output.progress() == (
        "3:10, stream : Run stream, 12 of 60 hosts, 12 of 240 cases in 3:10 of about 25:00"
        " by earlier records"
    )
    output.expect(cases=240, seconds=1500, untimed=4)
    assert "of at least 25:00 by earlier records" in output.progress()
    output.expect(cases=0, seconds=0.0, untimed=0)
    assert output.progress().endswith("12 of 60 hosts, 12 cases in 3:10")
    output.expect_whole(3723)
    assert output.progress().startswith("3:10 (the last run took 1:02:03), stream : Run stream")


def test_hosts_with_equal_counts_are_one_line_of_the_recap() -> None:
    counts = {host: {"ok": 5, "failures": int(host == "node007")} for host in HOSTS}
    folded = terminal.same_counts(HOSTS, counts.__getitem__)
    assert folded == {
        "node[001-006,008-060] (59 hosts)": {"ok": 5, "failures": 0},
        "node007": {"ok": 5, "failures": 1},
    }
