"""ansible-lint, whose syntax checks are forks of one Python that has Ansible: the same runs of
ansible-playbook with the same settings, each of which started a Python and imported Ansible."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import ansiblelint.runner
import forked
from ansiblelint.__main__ import _run_cli_entrypoint

ROOT = Path(__file__).parent.parent
_PLAYBOOK = Path(sys.executable).with_name("ansible-playbook")


class _Forking:
    """subprocess, for the syntax checks."""

    PIPE = subprocess.PIPE

    @staticmethod
    def run(
        argv: list[str], *, env: dict[str, str], **_options: Any
    ) -> subprocess.CompletedProcess[str]:
        """Run as ansible-lint's ``subprocess.run`` does; it may be called by several threads."""
        assert argv[0] == _PLAYBOOK.name
        # The file that Ansible finds in this folder.
        whole = {**env, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg")}
        return forked.run([str(_PLAYBOOK), *argv[1:]], cwd=Path.cwd(), env=whole)


def main() -> None:
    """As the program ansible-lint, in the project's folder."""
    runner: Any = ansiblelint.runner
    runner.subprocess = _Forking
    _run_cli_entrypoint()


if __name__ == "__main__":
    main()
