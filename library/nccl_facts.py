#!/usr/bin/python
"""NCCL on the node: libraries, builds, and the topology file."""

from __future__ import annotations

DOCUMENTATION = r"""
module: nccl_facts
short_description: Tells which NCCL, builds and topology file are on the node
version_added: "0.1.0"
extends_documentation_fragment: [trueup_facts, trueup_options.nccl_facts]
description:
  - Reads files only; runs nothing and changes nothing.
"""

EXAMPLES = r"""
- name: See what is there
  nccl_facts:
    topology_file: /opt/microsoft/ndv4-topo.xml
    topology_link: /opt/microsoft/ndv4/topo.xml
  register: state
"""

RETURN = r"""
libraries:
  description: Versions of the libnccl.so.2 that are there, by the names of their files; each once.
  returned: always
  type: list
  sample: ["2.30.4"]
unbuilt:
  description: Names of the builds of which a file is missing.
  returned: always
  type: list
outdated:
  description: Names of the builds that are missing, or whose checkout has another commit.
  returned: always
  type: list
topology:
  description: The topology file.
  returned: always
  type: dict
  contains:
    exists: {description: Whether it is there., type: bool}
    content:
      description: It in base64, at most its first 300000 bytes; null where it is not there.
      type: str
    link: {description: Where the link leads; null where there is none., type: str}
graphs: {description: "The graph file, as C(topology).", returned: always, type: dict}
sku_customizations:
  description: Whether the image has the unit that rewrites C(/etc/nccl.conf).
  returned: always
  type: bool
"""

import base64
import os
import re
from pathlib import Path
from typing import Any

from ansible.module_utils.trueup_node.options import Option, module_spec
from ansible.module_utils.trueup_node.run.answer import AnsibleModule

OPTIONS = (
    Option(
        "builds",
        "What was to be built from git: C(name), C(source) (the checkout), C(commit), C(made) (the"
        " folder of what was made) and C(files) in it. Other members are not looked at.",
        [],
        elements="dict",
    ),
    Option(
        "library_dirs",
        "Where libnccl may be.",
        ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/local/lib"],
        elements="path",
    ),
    Option("topology_file", "The NCCL topology file; empty where the size has none.", ""),
    Option("topology_link", "The link to it.", ""),
    Option("graphs_file", "The NCCL graph file; empty where the size has none.", ""),
    Option("graphs_link", "The link to it.", ""),
    Option(
        "sku_unit",
        "The unit of Azure's HPC images that rewrites C(/etc/nccl.conf) at each boot.",
        "/etc/systemd/system/sku-customizations.service",
        type="path",
    ),
)

# More than trueup_node.nccl_topology reads: a larger file is refused by it all the same.
_MOST_BYTES = 300_000


def main() -> None:
    """Read the files, and return the facts."""
    module = AnsibleModule(
        argument_spec=module_spec(OPTIONS),
        supports_check_mode=True,
    )
    parameters = module.params
    unbuilt = [build["name"] for build in parameters["builds"] if not _is_made(build)]
    module.exit_json(
        changed=False,
        libraries=_libraries(parameters["library_dirs"]),
        unbuilt=unbuilt,
        outdated=[
            build["name"]
            for build in parameters["builds"]
            if build["name"] in unbuilt or _commit(build["source"]) != build["commit"]
        ],
        topology=_shipped(parameters["topology_file"], parameters["topology_link"]),
        graphs=_shipped(parameters["graphs_file"], parameters["graphs_link"]),
        sku_customizations=os.path.isfile(parameters["sku_unit"]),
    )


def _libraries(folders: list[str]) -> list[str]:
    versions = set()
    for folder in folders:
        for path in Path(folder).glob("libnccl.so.2.*"):
            match = re.fullmatch(r"libnccl\.so\.(2(?:\.[0-9]+)+)", path.name)
            if match is not None:
                versions.add(match.group(1))
    return sorted(versions)


def _is_made(build: dict[str, Any]) -> bool:
    return all(os.path.isfile(os.path.join(build["made"], name)) for name in build["files"])


def _commit(source: str) -> str | None:
    """The commit that is checked out by itself, not as the head of a branch."""
    try:
        head = Path(source, ".git", "HEAD").read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return None
    return head if re.fullmatch(r"[0-9a-f]{40}", head) else None


def _shipped(file: str, link: str) -> dict[str, Any]:
    file_state: dict[str, Any] = {"exists": False, "content": None, "link": None}
    if link and os.path.islink(link):
        file_state["link"] = os.readlink(link)
    try:
        with open(file, "rb") as stream:
            content = stream.read(_MOST_BYTES)
    except OSError:
        return file_state
    return {**file_state, "exists": True, "content": base64.b64encode(content).decode("ascii")}


if __name__ == "__main__":
    main()
