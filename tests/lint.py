"""ansible-lint, whose syntax checks are forks of one Python that has Ansible: the same runs of
ansible-playbook with the same settings, each of which started a Python and imported Ansible. What
kind of file a path is, and whether an imported playbook can be loaded, is asked once a file.
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import ansible_compat.runtime
import ansiblelint.file_utils
import ansiblelint.runner
import forked
from ansiblelint.__main__ import _run_cli_entrypoint

ROOT = Path(__file__).parent.parent
_PLAYBOOK = Path(sys.executable).with_name("ansible-playbook")


class _Forking:
    """subprocess, for the syntax checks."""

    PIPE = subprocess.PIPE

    @staticmethod
    def run(argv: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        """Run as subprocess.run does for text; it may be called by several threads."""
        if argv[0] != _PLAYBOOK.name:
            return subprocess.run(argv, **options)  # noqa: PLW1510 WHY: it is among the options
        # The file that Ansible finds in this folder.
        env = {**options["env"], "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg")}
        return forked.run([str(_PLAYBOOK), *argv[1:]], cwd=Path.cwd(), env=env)


def main() -> None:
    """As the program ansible-lint, in the project's folder."""
    for module in (ansible_compat.runtime, ansiblelint.runner):
        module.__dict__["subprocess"] = _Forking
    # It matches each path with up to forty patterns, which it makes anew.
    files: Any = ansiblelint.file_utils
    files.kind_from_path = functools.cache(files.kind_from_path)
    # It is asked by the path from each playbook that imports it.
    of_ansible: Any = ansible_compat.runtime.Runtime
    plain = of_ansible.has_playbook
    of_ansible.has_playbook = lambda self, path: plain(self, os.path.normpath(path))
    _run_cli_entrypoint()


if __name__ == "__main__":
    main()
