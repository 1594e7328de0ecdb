#!/usr/bin/python
"""Ansible module: a virtual environment with the packages that its requirements pin."""

from __future__ import annotations

DOCUMENTATION = r"""
module: pinned_venv
author: trueup contributors
version_added: "0.9.0"
short_description: Makes a virtual environment that holds pinned packages
description:
  - Makes the environment where it is missing, of another Python or damaged, installs what is not
    there at its pinned version, and compares at the end. What is pinned no more stays.
  - Nodes that share the folder wait for each other, up to an hour.
  - A link, and a folder that is no virtual environment, are refused.
  - The action of the same name reads the requirements from files of the project.
attributes:
  check_mode:
    support: full
    description: It changes nothing.
  diff_mode:
    support: none
    description: It shows no difference.
  platform:
    support: full
    description: Linux.
    platforms: linux
extends_documentation_fragment: trueup_options.pinned_venv
"""

EXAMPLES = r"""
- name: Install pinned packages
  pinned_venv:
    path: /opt/trueup/devito/venv
    python: /usr/bin/python3.11
    requirements:
      - name: requirements.txt
        content: |
          six==1.17.0 --hash=sha256:4721f391ed90541fddacab5acf947aa0d3dc7d27b2e1e8eda2be8970586c3274
"""

RETURN = r"""
done:
  description: What was done, or would be in check mode.
  returned: success
  type: str
  choices: [make, install, nothing]
"""

import os
from typing import Sequence, Tuple

from ansible.module_utils.trueup_node.errors import TrueupError
from ansible.module_utils.trueup_node.node import own_python, pinned_venv
from ansible.module_utils.trueup_node.options import Option, module_spec
from ansible.module_utils.trueup_node.run.answer import AnsibleModule

OPTIONS = (
    Option("path", "Its folder. The requirements are put beside it.", type="path", required=True),
    Option("python", "Python that it is made with.", required=True),
    Option(
        "requirements",
        "Files of pins with sha256, in the order of installing.",
        type="list",
        required=True,
        fields=(
            Option("name", "Its name beside the environment.", required=True),
            Option("content", "The whole of it.", required=True),
        ),
    ),
    Option("find_links", "Folder or page with wheels. Empty means pip's own configuration.", ""),
    Option("no_index", "Whether to install from O(find_links) alone.", False),
)


def main() -> None:
    """Ansible's entry."""
    module = AnsibleModule(
        argument_spec=module_spec(OPTIONS),
        supports_check_mode=True,
    )
    parameters = module.params
    environment = pinned_venv.Environment(
        path=os.path.abspath(parameters["path"]),
        python=parameters["python"],
        requirements={file["name"]: file["content"] for file in parameters["requirements"]},
        source=own_python.pip_source(parameters["find_links"], parameters["no_index"]),
    )

    def run(argv: Sequence[str]) -> Tuple[int, str, str]:
        """A program that is not there has the shell's exit status."""
        try:
            code, output, complaint = module.run_command(list(argv), handle_exceptions=False)
        except OSError as error:
            return 127, "", str(error)
        return int(code), str(output), str(complaint)

    try:
        ask = pinned_venv.due if module.check_mode else pinned_venv.installed
        done = ask(environment, run)
    except (TrueupError, OSError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=done != "nothing", done=done)


if __name__ == "__main__":
    main()
