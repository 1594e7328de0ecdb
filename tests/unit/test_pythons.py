"""Which Python a node's environment is made with, and what the node is given for it."""

from __future__ import annotations

from typing import Any

import pytest
import role_plans
from helpers import parametrized
from trueup_node.errors import BadInput
from trueup_node.node.pythons import Need, interpreter, probe
from trueup_node.plan import PlanInputs

DEVITO = Need.of(role_plans.data("devito")["python"])
BUILDS = {name: build["python"] for name, build in role_plans.data("vllm")["builds"].items()}
CPU, CUDA = (Need.of(BUILDS[name]) for name in ("cpu", "cuda"))
MADE_3_12 = "/opt/trueup/python/3.12-c218f50baeb2"
MADE_3_11 = "/opt/trueup/python/3.11-171dffd8c0f6"


def python(path: str, minor: int, *missing: str, headers: bool = True) -> dict[str, Any]:
    """As program_facts has it."""
    return {"path": path, "version": [3, minor, 4], "missing": list(missing), "headers": headers}


# What Azure's images and Debian have: azhpc-images' scripts install no headers beside an image's
# own Python, and none of python3.12 on AlmaLinux.
THERE = {
    "ubuntu-22.04": [python("/usr/bin/python3", 10, "ensurepip", headers=False)],
    "ubuntu-24.04": [python("/usr/bin/python3", 12, "ensurepip", headers=False)],
    "almalinux-8": [
        python("/usr/bin/python3", 6),
        python("/usr/bin/python3.12", 12, headers=False),
    ],
    "almalinux-9": [
        python("/usr/bin/python3", 9),
        python("/usr/bin/python3.12", 12, headers=False),
    ],
    "azurelinux-3": [python("/usr/bin/python3", 12)],
    "debian-12": [python("/usr/bin/python3", 11)],
}


def asked(
    system: str,
    named: str = "python3",
    there: list[dict[str, Any]] | None = None,
    *,
    privilege: str | None = "root",
    architecture: str = "x86_64",
    **site: str,
) -> PlanInputs:
    """What is asked on an HB120rs_v3 of this system."""
    first, *others = THERE[system] if there is None else there or [None]
    return PlanInputs(
        options={"python": named},
        node=role_plans.node("hbv3", system, privilege=privilege, architecture=architecture),
        variables={f"python_{name}": value for name, value in site.items()},
        found={"python": first, "pythons": others},
        catalog=role_plans.catalog,
    )


@pytest.mark.parametrize(
    ("system", "need", "path", "packages"),
    [
        ("ubuntu-22.04", DEVITO, "/usr/bin/python3", ["python3.10-venv", "python3.10-dev"]),
        (
            *("ubuntu-22.04", CPU, "/usr/bin/python3.11"),
            ["python3.11", "python3.11-venv", "python3.11-dev"],
        ),
        ("ubuntu-22.04", CUDA, f"{MADE_3_12}/bin/python3.12", []),
        ("ubuntu-24.04", DEVITO, "/usr/bin/python3", ["python3.12-venv", "python3.12-dev"]),
        ("ubuntu-24.04", CPU, f"{MADE_3_11}/bin/python3.11", []),
        # Nothing of Enterprise Linux 8 can be installed.
        ("almalinux-8", DEVITO, f"{MADE_3_12}/bin/python3.12", []),
        ("almalinux-9", DEVITO, "/usr/bin/python3.12", ["python3.12-devel"]),
        ("almalinux-9", CPU, "/usr/bin/python3.11", ["python3.11", "python3.11-devel"]),
        ("almalinux-9", CUDA, "/usr/bin/python3.12", ["python3.12-devel"]),
        ("azurelinux-3", DEVITO, "/usr/bin/python3", []),
        ("azurelinux-3", CPU, f"{MADE_3_11}/bin/python3.11", []),
        ("debian-12", DEVITO, "/usr/bin/python3", []),
        ("debian-12", CPU, "/usr/bin/python3", []),
        ("debian-12", CUDA, f"{MADE_3_12}/bin/python3.12", []),
    ],
)
def test_what_each_system_gives(system: str, need: Need, path: str, packages: list[str]) -> None:
    found = interpreter(asked(system), need)
    assert found is not None
    assert (found.path, found.packages) == (path, packages)
    assert bool(found.archive) is path.startswith("/opt/trueup")
    # What is there afterwards needs nothing more.
    after = python(path, found.version[1])
    again = interpreter(asked(system, there=[*THERE[system], after]), need)
    assert again is not None
    if path != "/usr/bin/python3":
        assert (again.path, again.to_install) == (path, {})


@parametrized(("there", "found"))
def test_a_named_python_is_replaced_by_none(there: list[dict[str, Any]], found: str | None) -> None:
    question = asked("debian-12", "/opt/python", there)
    got = interpreter(question, DEVITO)
    assert (got.path if got else None) == found
    assert probe(question, DEVITO)["pythons"] == []


SITE = {
    "standalone_url": "file:///srv/python.tar.gz",
    "standalone_sha256": "ab" * 32,
    "standalone_version": "3.13",
}


@pytest.mark.parametrize("name", sorted(SITE))
@pytest.mark.parametrize("value", ["", "x"])
def test_a_build_that_is_not_wholly_named_is_refused(name: str, value: str) -> None:
    if (name, value) == ("standalone_url", "x"):
        return
    with pytest.raises(BadInput, match="python_standalone_sha256"):
        interpreter(asked("ubuntu-22.04", **{**SITE, name: value}), CUDA)


def test_a_misspelt_variable_is_refused() -> None:
    with pytest.raises(BadInput, match=r"^python_standalone_sha: role python has python_standal"):
        interpreter(asked("ubuntu-22.04", standalone_sha="ab"), CUDA)


@pytest.mark.parametrize("version", [3.1, "3", "3.x", "3.11.2"])
def test_a_version_that_is_no_two_numbers_is_refused(version: Any) -> None:
    """3.1 without quotes: YAML reads 3.10 so."""
    with pytest.raises(BadInput, match="two numbers"):
        Need.of({"oldest": version, "headers": False, "wants": ""})


def test_headers_are_no_matter_of_the_compiler() -> None:
    """An AlmaLinux-HPC has gcc, and no headers of its python3.12: role compiler does nothing there.

    Of Debian and Enterprise Linux alike its packages bring none.
    """
    named = [name for names in role_plans.data("compiler")["packages"].values() for name in names]
    assert [name for name in named if name.startswith("python")] == []
    for privilege, packages in (("sudo", ["python3.12-devel"]), (None, [])):
        question = asked("almalinux-9", privilege=privilege)
        assert question.node["distribution"] == "almalinux"
        found = interpreter(question, DEVITO)
        assert found is not None
        assert found.packages == packages
