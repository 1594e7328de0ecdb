"""A service's command line and variables, as systemd reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from trueup_controller import systemd
from trueup_node.errors import BadInput

if TYPE_CHECKING:
    pass


def test_a_command_is_written_as_systemd_reads_it() -> None:
    argv = ["/bin/vllm", "serve", "a b", '{"x": 1}', "100%", "$HOME", "back\\slash"]
    assert systemd.command(argv) == (
        '"/bin/vllm" "serve" "a b" "{\\"x\\": 1}" "100%%" "$$HOME" "back\\\\slash"'
    )


def test_variables_are_written_as_systemd_reads_them() -> None:
    variables = {"B": 'say "hi" 5%', "A": 1}
    assert systemd.environment(variables) == ('Environment="A=1"\nEnvironment="B=say \\"hi\\" 5%%"')
    assert systemd.environment_file(variables) == 'A="1"\nB="say \\"hi\\" 5%"\n'


def test_a_line_break_cannot_slip_a_line_in() -> None:
    for write in (systemd.environment, systemd.environment_file):
        with pytest.raises(BadInput, match="line break"):
            write({"A": "x\nExecStartPre=/bin/evil"})
