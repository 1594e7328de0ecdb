"""The action trueup_measure: the connection by which its module runs."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from action import trueup_measure

KEPT = "-C -o ControlMaster=auto -o ControlPersist=60s"


class Connection:
    """Ansible's, as far as it is asked."""

    def __init__(self, transport: str, **options: str | None) -> None:
        self.transport = transport
        self.options = {"ssh_args": KEPT, "ssh_common_args": "", "ssh_extra_args": None, **options}
        self._shell = SimpleNamespace(tmpdir=None)

    def get_option(self, name: str) -> str | None:
        return self.options[name]

    def set_option(self, name: str, value: str) -> None:
        self.options[name] = value


def ssh_args(connection: Connection) -> str | None:
    task = SimpleNamespace(args={}, async_val=0, check_mode=False)
    action = trueup_measure.ActionModule(task, connection, None, None, None, None)
    action._connect_alone()
    return connection.options["ssh_args"]


def test_by_ssh_the_module_has_a_connection_of_its_own() -> None:
    # ssh takes the first value that it is given.
    assert ssh_args(Connection("ssh")) == f"-o ControlMaster=no -o ControlPath=none {KEPT}"


@pytest.mark.parametrize("name", ["ssh_args", "ssh_common_args", "ssh_extra_args"])
def test_a_path_that_the_site_names_stays(name: str) -> None:
    own = {name: "-o ControlPath=/run/user/1000/%C"}
    assert ssh_args(Connection("ssh", **own)) == own.get("ssh_args", KEPT)
