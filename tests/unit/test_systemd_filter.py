"""A service's command line and variables, as systemd reads them."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest
from ansible.errors import AnsibleFilterError
from trueup_systemd import systemd_command, systemd_environment, systemd_environment_file

if TYPE_CHECKING:
    from pathlib import Path


def test_a_command_is_written_as_systemd_reads_it() -> None:
    argv = ["/bin/vllm", "serve", "a b", '{"x": 1}', "100%", "$HOME", "back\\slash"]
    assert systemd_command(argv) == (
        '"/bin/vllm" "serve" "a b" "{\\"x\\": 1}" "100%%" "$$HOME" "back\\\\slash"'
    )


def test_variables_are_written_as_systemd_reads_them() -> None:
    variables = {"B": 'say "hi" 5%', "A": 1}
    assert systemd_environment(variables) == ('Environment="A=1"\nEnvironment="B=say \\"hi\\" 5%%"')
    assert systemd_environment_file(variables) == 'A="1"\nB="say \\"hi\\" 5%"\n'


def test_a_line_break_cannot_slip_a_line_in() -> None:
    for write in (systemd_environment, systemd_environment_file):
        with pytest.raises(AnsibleFilterError, match="line break"):
            write({"A": "x\nExecStartPre=/bin/evil"})


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze here")
def test_systemd_itself_takes_the_unit(tmp_path: Path) -> None:
    unit = tmp_path / "trueup-test.service"
    unit.write_text(
        "[Service]\n"
        f"ExecStart={systemd_command(['/bin/echo', 'a b', '100%', '$HOME', chr(34)])}\n"
        f"{systemd_environment({'A': '5% of '})}\n"
    )
    checked = subprocess.run(
        ["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False
    )
    assert [line for line in checked.stderr.splitlines() if str(unit) in line] == []
