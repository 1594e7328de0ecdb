"""Record a node's answers to the main job, site.yml, in check mode.

    python bench/controller/record.py --scenario default --host trueup-hbv3 --name hbv3
    python bench/controller/record.py --local --name local -e stream_prefix=/srv/trueup/stream

A molecule scenario is converged first, and destroyed afterwards: one of its platforms is the node,
and its group_vars are the variables. With --local this machine is the node, nothing is changed on
it, and the recording ends with configure: a benchmark is asked with this process's own number. The
recording goes to tests/data/controller/NAME.json; describe it in SOURCES.md there.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml
from simulate import HERE, ROOT, STEPS, run

sys.path.insert(0, str(HERE / "connection_plugins"))
from recorded import FORMAT, key_of

RECORDINGS = ROOT / "tests" / "data" / "controller"


def molecule(verb: str, scenario: str) -> None:
    """Run a step of a molecule scenario."""
    argv = [str(Path(sys.executable).with_name("molecule")), verb, "--scenario-name", scenario]
    subprocess.run(argv, cwd=ROOT, check=True)


def of_scenario(scenario: str, host: str | None) -> tuple[str, dict[str, Any]]:
    """The platform's name, the first where none is given, and its variables: the stand-ins' and its
    own."""
    described = yaml.safe_load((ROOT / "molecule" / scenario / "molecule.yml").read_text())
    host = host or described["platforms"][0]["name"]
    inventory = described["provisioner"]["inventory"]
    host_variables = {
        **inventory.get("group_vars", {}).get("all", {}),
        **inventory.get("host_vars", {}).get(host, {}),
    }
    manager = "dnf" if host_variables.get("node_os_release") == "almalinux" else "apt"
    arguments = " ".join(described["provisioner"].get("ansible_args", []))
    variables = {**(stand_ins(manager) if "stand_ins" in arguments else {}), **host_variables}
    if "${" in json.dumps(variables):
        sys.exit(f"scenario {scenario}: a variable names a folder of molecule's, which is lost")
    return host, variables


def stand_ins(manager: str) -> dict[str, Any]:
    """The variables of molecule/_shared/stand_ins with their templates filled in.

    They read checksums from the scenario's folder, which does not outlive it.
    """
    folder = ROOT / "molecule" / "_shared" / "stand_ins"
    names = list(yaml.safe_load((folder / "group_vars" / "all.yml").read_text()))
    with tempfile.TemporaryDirectory() as name:
        filled = Path(name, "variables.json")
        play = [
            {
                "hosts": "localhost",
                "connection": "local",
                "gather_facts": False,
                "vars": {"trueup_node": {"package_manager": manager}, "names": names},
                "tasks": [
                    {
                        "ansible.builtin.copy": {
                            "dest": str(filled),
                            "content": "{{ dict(names | zip(query('vars', *names))) | to_json }}",
                            "mode": "0600",
                        }
                    }
                ],
            }
        ]
        playbook = Path(name, "play.yml")
        playbook.write_text(yaml.safe_dump(play))
        # The filters' interpreter is the controller's; the nodes' interpreter stays theirs.
        argv = ["ansible-playbook", "--inventory", "localhost,", "--inventory", str(folder)]
        argv += ["--extra-vars", f"ansible_python_interpreter={sys.executable}", str(playbook)]
        environment = {
            **os.environ,
            "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
            "ANSIBLE_CALLBACKS_ENABLED": "ansible.posix.timer",
            "MOLECULE_PROJECT_DIRECTORY": str(ROOT),
        }
        subprocess.run(argv, cwd=name, env=environment, check=True, stdout=subprocess.DEVNULL)
        variables: dict[str, Any] = json.loads(filled.read_text())
    # The interpreter was asked for here; and a path of this machine is of no use to another.
    variables["ansible_python_interpreter"] = "/usr/bin/python3"
    local_paths = (str(ROOT), os.environ["MOLECULE_EPHEMERAL_DIRECTORY"])
    return {
        name: value
        for name, value in variables.items()
        if not any(path in json.dumps(value) for path in local_paths)
    }


def record(host: str, variables: dict[str, Any], through: str, output: Path) -> str:
    """Run the steps in check mode against ``host``, and write its answers."""
    with tempfile.TemporaryDirectory() as folder:
        lines = Path(folder, "answers.jsonl")
        extra_variables = {
            **variables,
            "ansible_connection": "recorded",
            "ansible_recorded_through": through,
            "ansible_recorded_file": str(lines),
        }
        arguments = [
            "--inventory",
            f"{host},",
            "--check",
            "--extra-vars",
            json.dumps(extra_variables),
        ]
        settings = {"CONTAINERS_CONF": str(ROOT / "molecule" / "_shared" / "containers.conf")}
        playbook = STEPS if through == "local" else ROOT / "site.yml"
        cost = run(arguments, Path(folder), playbook=playbook, settings=settings)
        if cost.status:
            sys.exit(cost.output)
        answers = [json.loads(line) for line in lines.read_text().splitlines()]
    # A task of a second play may ask the same again; the first answer stands.
    first = {key_of(response["request"]): response for response in reversed(answers)}
    document = {
        "format": FORMAT,
        "recorded": dt.datetime.now(tz=dt.timezone.utc).date().isoformat(),
        "variables": variables,
        "answers": [first[key] for key in sorted(first)],
    }
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(document, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return f"{output}: {len(first)} answers; {cost.summary}"


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    node = parser.add_mutually_exclusive_group(required=True)
    node.add_argument("--scenario", help="molecule scenario whose first platform is the node")
    node.add_argument("--local", action="store_true", help="this machine is the node")
    parser.add_argument("--host", help="platform of the scenario that is the node")
    parser.add_argument("--name", help="of the recording; the scenario's name unless given")
    parser.add_argument("--keep", action="store_true", help="use and leave the scenario's nodes")
    parser.add_argument("-e", action="append", default=[], metavar="VARIABLE=VALUE")
    arguments = parser.parse_args()
    more = dict(setting.split("=", 1) for setting in arguments.e)
    name = arguments.name or arguments.scenario or "local"
    output = RECORDINGS / f"{name}.json"
    if arguments.local:
        print(record("recorded-node", more, "local", output))
        return
    if not arguments.keep:
        os.environ["MOLECULE_EPHEMERAL_DIRECTORY"] = str(ROOT / ".cache" / "record")
        molecule("converge", arguments.scenario)
    elif "MOLECULE_EPHEMERAL_DIRECTORY" not in os.environ:
        sys.exit("--keep: set MOLECULE_EPHEMERAL_DIRECTORY to the scenario's folder")
    host, variables = of_scenario(arguments.scenario, arguments.host)
    try:
        print(record(host, {**variables, **more}, "containers.podman.podman", output))
    finally:
        if not arguments.keep:
            molecule("destroy", arguments.scenario)


if __name__ == "__main__":
    os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    main()
