"""A service's command line and variables, as systemd reads them."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest
from trueup.errors import BadInput
from trueup_controller import systemd

if TYPE_CHECKING:
    from pathlib import Path


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


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze here")
def test_systemd_itself_takes_the_unit(tmp_path: Path) -> None:
    unit = tmp_path / "trueup-test.service"
    unit.write_text(
        "[Service]\n"
        f"ExecStart={systemd.command(['/bin/echo', 'a b', '100%', '$HOME', chr(34)])}\n"
        f"{systemd.environment({'A': '5% of '})}\n"
    )
    checked = subprocess.run(
        ["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False
    )
    assert [line for line in checked.stderr.splitlines() if str(unit) in line] == []
