"""What the tests of several scenarios share."""

from __future__ import annotations

import pytest
import testinfra
from testinfra.host import Host


@pytest.fixture
def node(request: pytest.FixtureRequest) -> Host:
    """The node that the test names: what a node should have depends on its family."""
    inventory = request.config.getoption("ansible_inventory")
    return testinfra.get_host(f"ansible://{request.param}", ansible_inventory=inventory)
