"""Replicas of Azure's HPC images have what the images have, path by path (tests/data/images)."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import private_apt
import pytest
import yaml
from trueup_node.node import nccl_topology, transactions

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests/data/images"
NAMES: dict[str, dict[str, str]] = json.loads((DATA / "names.json").read_text(encoding="utf-8"))
sys.path.insert(0, str(ROOT / "molecule/_shared/replicas"))

import replica  # noqa: E402

IMAGES = replica.images()
# An old image has the paths of the one that it is like.
LIKE = {image: image.removesuffix("-old") for image in IMAGES}
with (DATA / "rows.csv").open(encoding="utf-8") as file:
    ROWS = list(csv.DictReader(file))
EACH = [
    pytest.param(image, row, id=f"{image} {row['path']}")
    for image in IMAGES
    for row in ROWS
    if row["images"] == "all" or LIKE[image] in row["images"].split()
]


@pytest.fixture(scope="module")
def tree() -> Any:
    """What a replica's data and packages give it: path to mode and kind, with all folders above."""
    made: dict[str, dict[str, tuple[str, str]]] = {}

    def of(image: str) -> dict[str, tuple[str, str]]:
        if image not in made:
            data = replica.described(image)
            paths = dict.fromkeys(data["appended"], ("0644", "appended"))
            for kind in ("debs", "rpms"):
                for package in replica.packages(data, kind):
                    for path, given in package["files"].items():
                        paths[path] = (given.get("mode", "0777"), _kind(given))
            paths |= {path: (one.mode, one.kind) for path, one in replica.planned(image).items()}
            for path in list(paths):
                for above in Path(path).parents:
                    paths.setdefault(str(above), ("0755", "folder"))
            made[image] = paths
        return made[image]

    return of


def _kind(given: dict[str, Any]) -> str:
    return "link" if "link" in given else "file"


@pytest.mark.parametrize(("image", "row"), EACH)
def test_every_row_of_an_image_stands_in_its_replica(
    tree: Any, image: str, row: dict[str, str]
) -> None:
    mode, kind = tree(image).get(row["path"].format(**NAMES[LIKE[image]]), ("", "absent"))
    assert (kind, mode if row["mode"] else "") == (row["kind"], row["mode"])


@pytest.mark.parametrize("image", IMAGES)
def test_the_replica_has_the_images_python_mpi_and_names(image: str) -> None:
    data = replica.described(image)
    values, names = data["values"], NAMES[LIKE[image]]
    assert data["pythons"]["python3"] == names["python"]
    assert (values["hpcx"], f"mvapich-{values['mvapich']}") == (names["hpcx"], names["mvapich"])
    assert (values["agent"], values["modulefiles"]) == (names["agent"], names["modules"])


def relations(image: str, apt: private_apt.PrivateApt) -> None:
    """The packages of a replica as installed, and of Debian 12 those that GROMACS needs of MPI."""
    data = replica.described(image)
    for package in replica.packages(data, "debs"):
        fields = {
            key.capitalize(): ", ".join(package[key])
            for key in ("depends", "provides", "conflicts", "replaces")
            if package.get(key)
        }
        apt.have(package["name"], package["version"], **fields)
    for name in ("libc6", "libgomp1", "libibverbs-dev", "librdmacm1"):
        apt.have(name, data["versions_of"]["rdma-core"])
    for name in ("rdma-core", "ibverbs-providers", "ibverbs-utils", "infiniband-diags"):
        apt.have(name, data["versions_of"]["rdma-core"])
    apt.offer("libucx0", "1.13.1-1")
    apt.offer("libopenmpi3", "4.1.4-3+b1", Depends="libucx0 (>= 1.12.1~rc2)")
    apt.offer("gromacs", "2022.5-2", Depends="libopenmpi3 (>= 4.1.4)")
    apt.offer("openmpi-bin", "4.1.4-3+b1", Depends="libopenmpi3 (>= 4.1.4)")
    apt.publish()
    subprocess.run(["apt-get", "update"], check=True, capture_output=True)


STACK = {"doca-ofed", "hpcx-provides-openmpi"}


@pytest.mark.skipif(private_apt.lacking() != "", reason=f"{private_apt.lacking()} is not installed")
@pytest.mark.parametrize(
    ("image", "name", "lost"),
    [
        ("ubuntu-22.04", "gromacs", set()),
        ("ubuntu-24.04", "gromacs", set()),
        ("ubuntu-22.04-old", "gromacs", {"doca-ofed", "ucx"}),
        ("ubuntu-22.04", "openmpi-bin", STACK),
        ("ubuntu-24.04", "openmpi-bin", STACK),
    ],
)
def test_the_images_relations_break_on_the_distributions_mpi(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, image: str, name: str, lost: set[str]
) -> None:
    apt = private_apt.PrivateApt(tmp_path, monkeypatch)
    relations(image, apt)
    assert subprocess.run(["apt-get", "--simulate", "check"], check=False).returncode == 0
    argv = transactions.simulation(transactions.Request("apt", [name]))
    simulated = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    assert set(transactions.parse_apt(simulated).removed) == lost


def test_an_old_image_differs_in_the_topology_file_and_nccl_tests() -> None:
    """The masks of azhpc-images@4a4565a0^ and a table of nccl-tests to 2.17.2."""
    old, new = replica.planned("ubuntu-22.04-old"), replica.planned("ubuntu-22.04")
    topology, tests = "/opt/microsoft/ndv4-topo.xml", "/opt/nccl-tests/build/all_reduce_perf"
    manifest = "/opt/azurehpc/component_versions.txt"
    different = {path for path in old if old[path] != new.get(path)}
    assert (different - {replica.MARK}, set(old) ^ set(new)) == ({topology, tests, manifest}, set())
    layouts = nccl_topology.read_layouts(
        yaml.safe_load((ROOT / "catalog/topologies.yml").read_text(encoding="utf-8"))
    )
    found = nccl_topology.check(old[topology].content.encode(), layouts["ndv4"], layouts.values())
    wrong = {one.kind for one in found if one.severity == "error"}
    assert "mask" in wrong
    assert nccl_topology.check(new[topology].content.encode(), layouts["ndv4"], []) == []
