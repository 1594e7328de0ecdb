"""The module azure_node_facts with its tools replaced."""

from __future__ import annotations

import functools
import platform
import re
from typing import TYPE_CHECKING, Any, ClassVar

import azure_node_facts
import pytest
from ansible.module_utils.basic import AnsibleModule
from helpers import answer_of, parametrized
from machines import DATA, build, description, root_of
from metadata_server import document, send, serving
from trueup_controller.sizes import read_sizes
from trueup_node.node import mpi
from trueup_node.node.topology import parse_cpu_list

if TYPE_CHECKING:
    from pathlib import Path

CATALOG = read_sizes(str(DATA.parents[2] / "catalog" / "vm_sizes.csv"))
NOWHERE = "http://127.0.0.1:9/"


class Tools:
    """Stands in for the machine's tools: which there are, and what they answer."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, answers: dict[str, Any]) -> None:
        self.answers = {"timeout": (0, "", ""), **answers}
        self.calls: list[tuple[list[str], dict[str, Any]]] = []
        tools = self

        def get_bin_path(_: AnsibleModule, name: str, *__: Any, **___: Any) -> str | None:
            return f"/usr/bin/{name}" if name in tools.answers else None

        def run_command(_: AnsibleModule, argv: list[str], **options: Any) -> tuple[int, str, str]:
            tools.calls.append((argv, options))
            tool = next(word for word in argv if word in {"/usr/bin/lscpu", "/usr/bin/nvidia-smi"})
            answer: tuple[int, str, str] = tools.answers[tool.rpartition("/")[2]]
            return answer

        monkeypatch.setattr(AnsibleModule, "get_bin_path", get_bin_path)
        monkeypatch.setattr(AnsibleModule, "run_command", run_command)


def answers_of(machine: str) -> dict[str, Any]:
    """What the described machine's tools print."""
    answers = {"lscpu": (0, (DATA / machine / "lscpu.json").read_text(), "")}
    smi = DATA / machine / "nvidia-smi.csv"
    if smi.exists():
        answers["nvidia-smi"] = (0, smi.read_text(), "")
    return answers


run_module = functools.partial(answer_of, azure_node_facts)


def described(machine: str) -> dict[str, str]:
    """The arguments that make the module read the described machine."""
    root = root_of(machine)
    return {"sysfs_root": str(root / "sys"), "procfs_root": str(root / "proc")}


@pytest.mark.parametrize(
    ("machine", "size", "family", "shape"),
    [
        ("hb120rs_v3", "Standard_HB120rs_v3", "hbv3", (120, 4, 16, 0, 1)),
        ("hb120_96rs_v3", "Standard_HB120-96rs_v3", "hbv3", (96, 4, 16, 0, 1)),
        ("hb120_64rs_v3", "Standard_HB120-64rs_v3", "hbv3", (64, 4, 16, 0, 1)),
        ("hb120_32rs_v3", "Standard_HB120-32rs_v3", "hbv3", (32, 4, 16, 0, 1)),
        ("hb120_16rs_v3", "Standard_HB120-16rs_v3", "hbv3", (16, 4, 16, 0, 1)),
        ("nd96isr_h100_v5", "Standard_ND96isr_H100_v5", "nd_h100_v5", (96, 2, 0, 8, 9)),
        ("nv36ads_a10_v5", "Standard_NV36ads_A10_v5", "nv_a10_v5", (18, 1, 0, 1, 0)),
        ("nc96ads_a100_v4", "Standard_NC96ads_A100_v4", "nc_a100_v4", (96, 4, 0, 4, 0)),
        ("nd40rs_v2", "Standard_ND40rs_v2", "ndv2", (40, 2, 0, 8, 1)),
    ],
)
def test_other_sizes(
    machine: str,
    size: str,
    family: str,
    shape: tuple[int, ...],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    Tools(monkeypatch, answers_of(machine))
    with serving(send(document(vmSize=size))) as (url, _):
        result = run_module(capsys, metadata_url=url, catalog=CATALOG, **described(machine))
    node = result["ansible_facts"]["trueup_node"]
    assert (node["vm_size"], node["family"], node["warnings"]) == (size, family, [])
    lists = ("numa", "l3_groups", "gpus", "infiniband")
    assert (node["cores"], *(len(node[name]) for name in lists)) == shape


def test_without_tools_the_rest_is_still_found_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tools = Tools(monkeypatch, {})
    result = run_module(capsys, metadata_url=NOWHERE, catalog=CATALOG, **described("nd96asr_v4"))
    node = result["ansible_facts"]["trueup_node"]
    assert tools.calls == []
    assert (node["family"], node["azure"], node["cpu_model"]) == ("unknown", True, None)
    assert [gpu["name"] for gpu in node["gpus"]] == [None] * 8
    assert node["cores"] == 96
    assert node["warnings"] == [
        "this Azure VM did not say its size; give it as trueup_vm_size",
        "lscpu is not installed, so the CPU's name is not known",
    ]


def test_rubbish_everywhere_is_no_crash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Tools(monkeypatch, {"lscpu": (1, "", ""), "nvidia-smi": (0, "No devices were found\n", "")})
    root = build(description("lab_2core"), tmp_path)
    arguments = {"sysfs_root": str(root / "sys"), "procfs_root": str(root / "proc")}
    (root / "sys" / "devices" / "system" / "cpu" / "online").write_text("all\n")
    with serving(send(b"<html>", 200)) as (url, _):
        result = run_module(capsys, metadata_url=url, catalog=CATALOG, **arguments)
    node = result["ansible_facts"]["trueup_node"]
    assert (node["family"], node["cpus"], node["numa"], node["gpus"]) == ("local", None, [], [])
    assert [re.split(r"[:(]", warning)[0].strip() for warning in node["warnings"]] == [
        "the instance metadata service gave an answer that is not JSON",
        "the CPU topology could not be read",
        "lscpu failed with status 1",
        "nvidia-smi",
    ]


def test_a_wrong_url_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Tools(monkeypatch, {})
    result = run_module(capsys, metadata_url="ftp://somewhere")
    assert result["failed"] is True
    assert "metadata_url 'ftp://somewhere' is not a URL" in result["msg"]


def test_this_machine_for_real(capsys: pytest.CaptureFixture[str]) -> None:
    result = run_module(capsys, metadata_url=NOWHERE, catalog=CATALOG)
    node = result["ansible_facts"]["trueup_node"]
    assert node["cores"] >= 1
    assert node["memory_bytes"] > 2**28
    assert (node["architecture"], node["kernel"]) == (platform.machine(), platform.release())
    assert len(parse_cpu_list(node["cpu_list"])) == node["cpus"]
    assert re.fullmatch(r"none|[0-9.]+ cores?", node["cpu_quota"])


@parametrized(("user", "sudo", "status", "expected"))
def test_how_packages_could_be_installed(
    user: int, sudo: str | None, status: int, expected: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[list[str]] = []

    class Module:
        """Stands in for AnsibleModule."""

        def get_bin_path(self, name: str, **_: Any) -> str | None:
            return {"sudo": sudo}.get(name)

        def run_command(self, argv: list[str], **_: Any) -> tuple[int, str, str]:
            calls.append(argv)
            return status, "", ""

    monkeypatch.setattr(azure_node_facts.os, "geteuid", lambda: user)
    assert azure_node_facts._privilege(Module()) == expected
    assert calls == ([["/usr/bin/sudo", "-n", "true"]] if user and sudo else [])


@pytest.mark.parametrize(
    ("wanted", "taken", "said"),
    [
        ("", ("openmpi", "5.0.10"), ["mpirun failed with status 1: no HPC-X here; it is not used"]),
        ("hpcx", None, ["mpirun failed with status 1: no HPC-X here; it is not used"]),
        ("mvapich", None, ["trueup_mpi is 'mvapich', and this node has hpcx, openmpi: give one"]),
    ],
)
def test_an_mpi_that_cannot_say_its_version_is_not_taken(
    wanted: str, taken: tuple[str, str] | None, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    class Module:
        """Stands in for AnsibleModule."""

        params: ClassVar = {"mpi": wanted, "families": []}

        def get_bin_path(self, name: str, **_: Any) -> str | None:
            return name if name.startswith("/") else None

        def run_command(self, argv: list[str], **options: Any) -> tuple[int, str, str]:
            asked.append((argv, options["environ_update"]["LD_LIBRARY_PATH"]))
            broken = argv[0].startswith("/opt/hpcx")
            return (1, "", "no HPC-X here") if broken else (0, "mpirun (Open MPI) 5.0.10", "")

    there = [
        mpi.Mpi(f"/opt/{kind}/bin/mpirun", kind, environment={"LD_LIBRARY_PATH": kind})
        for kind in ("hpcx", "openmpi")
    ]
    monkeypatch.setattr(azure_node_facts.mpi, "find", lambda *_, **__: there)
    warnings: list[str] = []
    found = azure_node_facts._mpi(Module(), None, None, warnings)
    assert (found and (found.kind, found.version)) == taken
    assert [text in warning for text, warning in zip(said, warnings, strict=True)] == [True]
    for argv, libraries in asked:
        assert argv == [f"/opt/{libraries}/bin/mpirun", "--version"]
