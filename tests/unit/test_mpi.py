"""The MPI of a node, found in a stand-in for the folders of Azure's HPC images (the programs say
their version and no more)."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from helpers import parametrized
from trueup_node.node import mpi
from trueup_node.node.mpi import Mpi
from trueup_node.run.launcher import Launcher

# Folders of an image (azhpc-images@8e9d055) and where each has its mpirun.
HPCX = "hpcx-v2.25.1-gcc-doca_ofed-{}-cuda13-x86_64"
IMAGES = {
    "ubuntu-22.04": ("ubuntu22.04", "mvapich-4.1"),
    "ubuntu-24.04": ("ubuntu24.04", "mvapich-4.1"),
    "almalinux-8.10": ("redhat8", "mvapich-2.3.7-2"),
    "almalinux-9": ("redhat9", "mvapich-4.1"),
}


def program(path: Path, text: str = "#!/bin/sh\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def image(root: Path, system: str = "ubuntu-24.04") -> Path:
    """The MPIs of an image below ``root``; its folder of HPC-X."""
    build, mvapich = IMAGES[system]
    opt = root / "opt"
    hpcx = opt / HPCX.format(build)
    for home in (
        hpcx / "ompi",
        hpcx / "hpcx-rebuild",
        opt / "openmpi-5.0.10",
        opt / mvapich,
        opt / "intel/oneapi/mpi/2021.16",
    ):
        program(home / "bin" / "mpirun")
    (opt / "intel/oneapi/mpi/latest").symlink_to("2021.16")
    return hpcx


def found(root: Path, on_path: str | None = None, **more: Any) -> list[Mpi]:
    return mpi.find(on_path, environ=more.pop("environ", {}), root=str(root), **more)


@pytest.mark.parametrize("wanted", mpi.KINDS)
def test_the_users_choice_wins_over_path(wanted: str, tmp_path: Path) -> None:
    image(tmp_path)
    there = found(tmp_path, "/usr/bin/mpirun")
    assert [one.kind for one in mpi.choose(there, wanted)] == [wanted]
    path = mpi.choose(there, wanted)[0].path
    assert mpi.choose(there, path) == mpi.choose(there, wanted)


@parametrized(("first", "kinds"))
def test_a_familys_kind_goes_before_path_where_it_can_compile(
    first: str, kinds: list[str], tmp_path: Path
) -> None:
    image(tmp_path)
    there = found(tmp_path, "/usr/bin/mpirun")
    for one in there:
        if one.kind in ("hpcx", "intel"):
            program(Path(one.path).with_name("mpicc"))
    assert [one.kind for one in mpi.choose(there, "", first)] == kinds
    # What the user names wins.
    assert [one.kind for one in mpi.choose(there, "openmpi", first)] == ["openmpi"]


def test_the_kind_of_a_family() -> None:
    rows = [{"families": ["hbv3", "hc"], "mpi": "hpcx"}, {"families": ["local"]}]
    kinds = [mpi.preferred(rows, family) for family in ("hc", "local", "unknown")]
    assert kinds == ["hpcx", "", ""]
    assert mpi.preferred([], "hc") == ""


def test_the_hpcx_of_slurms_pmix(tmp_path: Path) -> None:
    home = image(tmp_path)
    stock = next(one for one in found(tmp_path) if one.kind == "hpcx")
    rebuilt = next(one for one in found(tmp_path) if one.kind == "hpcx-pmix")
    assert stock.rebuilt == f"{home}/hpcx-rebuild"
    # The same as if the user had named it.
    assert stock.with_pmix == rebuilt
    assert rebuilt.with_pmix == rebuilt
    (home / "hpcx-rebuild" / "bin" / "mpirun").unlink()
    alone = next(one for one in found(tmp_path) if one.kind == "hpcx")
    assert (alone.rebuilt, alone.with_pmix) == ("", alone)


def test_a_path_of_another_layout_has_its_libraries(tmp_path: Path) -> None:
    own = program(tmp_path / "site" / "bin" / "mpirun")
    assert mpi.choose([], str(own)) == [
        Mpi(str(own), environment={"LD_LIBRARY_PATH": f"{tmp_path}/site/lib"})
    ]


def test_an_hpcx_elsewhere_has_its_prefix(tmp_path: Path) -> None:
    home = tmp_path / "shared" / "hpcx-v2.21-gcc"
    own = program(home / "ompi" / "bin" / "mpirun")
    (chosen,) = mpi.choose([], str(own))
    assert (chosen.kind, chosen.path) == ("hpcx", str(own))
    assert chosen.environment == mpi.hpcx_environment(str(home))


@parametrized(("text", "kind", "version"))
def test_what_mpirun_says_of_itself(text: str, kind: str, version: str | None) -> None:
    said = Mpi("/x/mpirun").saying(text)
    assert (said.kind, said.version) == (kind, version)
    assert Mpi("/x/mpirun", "hpcx").saying(text).kind == "hpcx"


# One rank: its number, how many there are, and which libmpi it runs.
RANK = """
import ctypes, os
library = ctypes.CDLL("libmpi.so.40")
world = ctypes.addressof(ctypes.c_char.in_dll(library, "ompi_mpi_comm_world"))
answers = []
library.MPI_Init(None, None)
for ask in (library.MPI_Comm_rank, library.MPI_Comm_size):
    number = ctypes.c_int()
    ask(ctypes.c_void_p(world), ctypes.byref(number))
    answers.append(number.value)
library.MPI_Finalize()
paths = {line.split()[-1] for line in open("/proc/self/maps") if "/libmpi.so" in line}
os.write(1, (" ".join(map(str, [*answers, *paths])) + "\\n").encode())
"""


@pytest.mark.skipif(not Path("/usr/bin/orterun").exists(), reason="no Open MPI of Debian here")
def test_two_ranks_really_run_with_an_mpi_laid_out_as_hpcx(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This machine's own Open MPI, copied: its libraries, its components and its help texts."""
    ompi = tmp_path / "opt" / HPCX.format("ubuntu22.04") / "ompi"
    system = Path("/usr/lib/x86_64-linux-gnu")
    (ompi / "bin").mkdir(parents=True)
    shutil.copy("/usr/bin/orterun", ompi / "bin" / "mpirun")
    shutil.copy("/usr/bin/orted", ompi / "bin" / "orted")
    shutil.copytree(system / "openmpi" / "lib", ompi / "lib" / system.name / "openmpi" / "lib")
    shutil.copytree("/usr/share/openmpi", ompi / "share" / "openmpi")
    for name in ("libmpi", "libopen-rte", "libopen-pal"):
        shutil.copy((system / f"{name}.so.40").resolve(), ompi / "lib" / f"{name}.so.40")
    monkeypatch.setenv("PATH", "/usr/sbin:/sbin:/bin")
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    (chosen,) = mpi.choose(found(tmp_path))
    node_of_mpi = {"mpi": mpi.fact(chosen, devices=[], has_gpu=True, rdma_expected=0)}
    launcher = Launcher(mpi=mpi.of(node_of_mpi), arguments=("--oversubscribe",))
    argv = launcher.command([sys.executable, "-c", RANK], per_node=2, variables={})
    assert argv[0] == str(ompi / "bin" / "mpirun")
    done = launcher.run(argv, timeout_seconds=60, environment=launcher.variables(2))
    assert (done.returncode, done.stderr) == (0, "")
    library = ompi / "lib" / "libmpi.so.40"
    assert sorted(done.stdout.splitlines()) == [f"{rank} 2 {library}" for rank in range(2)]
