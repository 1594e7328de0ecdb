"""The fault dictionary in the messages of failed tasks."""

from __future__ import annotations

from helpers import parametrized
from trueup_controller import known_faults, terminal

FAILED = {"failed": True, "msg": "trueup-vllm-tiny.service is not running"}


@parametrized(("log", "meaning"))
def test_the_message_of_a_failed_program_names_the_known_cause(log: str, meaning: str) -> None:
    answer = known_faults.explained({**FAILED, "output_tail": log.splitlines()})
    assert answer["msg"].startswith(f"{FAILED['msg']}\nKnown cause: {meaning} (")
    assert " Fix: " in answer["msg"]


def test_a_consequence_is_not_named_as_the_cause() -> None:
    tail = [
        "(EngineCore pid=9) OSError: [Errno 98] Address already in use",
        "RuntimeError: Engine core initialization failed. See root cause above.",
    ]
    for lines in (tail, tail[::-1]):
        answer = known_faults.explained({**FAILED, "output_tail": lines})
        assert "Known cause: its port is taken by another program" in answer["msg"]


def test_an_answer_without_a_known_cause_stays_as_it_is() -> None:
    for answer in (
        {**FAILED, "output_tail": ["Traceback (most recent call last):", "KeyError: 'x'"]},
        {**FAILED, "output_tail": []},
        FAILED,
        {"failed": False, "msg": "", "output_tail": ["CUDA out of memory"]},
    ):
        assert known_faults.explained(answer) == answer


def test_a_failure_on_the_terminal_has_the_fix_of_the_dictionary_once() -> None:
    message = "bash: /usr/bin/x: /lib/libc.so.6: version `GLIBC_2.38' not found"
    assert terminal.fix_of(message) == "take a newer image, or a build for this system"
    assert terminal.fix_of(f"{message}. Fix: take a newer image.") == ""
    assert terminal.fix_of("No such person") == ""
