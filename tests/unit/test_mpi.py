"""The MPI of a node, found in a stand-in for the folders of Azure's HPC images (the programs say
their version and no more)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from helpers import parametrized
from role_plans import node
from trueup.node import mpi
from trueup.node.mpi import Mpi
from trueup.run.launcher import Launcher

OPEN_MPI = "mpirun (Open MPI) 4.1.9a1\n\nReport bugs to http://www.open-mpi.org/community/help/"
# Folders of an image (azhpc-images@8e9d055) and where each has its mpirun.
HPCX = "hpcx-v2.25.1-gcc-doca_ofed-{}-cuda13-x86_64"
IMAGES = {
    "ubuntu-22.04": ("ubuntu22.04", "mvapich-4.1"),
    "ubuntu-24.04": ("ubuntu24.04", "mvapich-4.1"),
    "almalinux-8.10": ("redhat8", "mvapich-2.3.7-2"),
    "almalinux-9": ("redhat9", "mvapich-4.1"),
}
LIBRARIES = (
    *("ompi/lib", "sharp/lib", "hcoll/lib", "ucc/lib", "ucc/lib/ucc", "ucx/lib", "ucx/lib/ucx"),
)


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


@pytest.mark.parametrize("system", IMAGES)
def test_an_images_hpcx_goes_first_and_has_what_its_module_sets(
    system: str, tmp_path: Path
) -> None:
    hpcx = image(tmp_path, system)
    there = found(tmp_path, hpc_image={"HPCX": "2.25.1"})
    assert [one.kind for one in there] == list(mpi.KINDS)
    assert [one.kind for one in mpi.choose(there)] == ["hpcx", "hpcx-pmix", "openmpi"]
    first = there[0]
    assert first.path == first.program == f"{hpcx}/ompi/bin/mpirun"
    assert first.environment == {
        "OPAL_PREFIX": f"{hpcx}/ompi",
        "LD_LIBRARY_PATH": ":".join(f"{hpcx}/{part}" for part in LIBRARIES),
    }
    assert first.compiling == {**first.environment, "MPICC": f"{hpcx}/ompi/bin/mpicc"}
    # The others have their own libraries first, and no prefix that is HPC-X's.
    beside = ":".join(f"{hpcx}/{part}" for part in LIBRARIES[1:])
    assert there[1].environment == {"LD_LIBRARY_PATH": f"{hpcx}/hpcx-rebuild/lib:{beside}"}
    openmpi = tmp_path / "opt" / "openmpi-5.0.10"
    assert there[2].environment == {"LD_LIBRARY_PATH": f"{openmpi}/lib:{beside}"}
    intel = tmp_path / "opt/intel/oneapi/mpi/2021.16"
    assert there[3].environment["I_MPI_ROOT"] == str(intel)


def test_one_on_path_goes_first_and_needs_nothing(tmp_path: Path) -> None:
    image(tmp_path)
    first = mpi.choose(found(tmp_path, "/usr/bin/mpirun"))[0]
    assert (first, first.program, first.compiling) == (Mpi("/usr/bin/mpirun"), "mpirun", {})
    given = {"devices": ["mlx5_ib0"], "has_gpu": True, "rdma_expected": 1}
    assert mpi.fact(first, **given) == {
        "path": "/usr/bin/mpirun",
        "kind": "",
        "version": None,
        "environment": {},
        "rebuilt": "",
    }


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


@parametrized(("launcher", "arguments", "pmix"))
def test_who_loads_the_hpcx_of_slurms_pmix(
    launcher: str, arguments: list[str], pmix: bool, tmp_path: Path
) -> None:
    image(tmp_path)
    stock = next(one for one in found(tmp_path) if one.kind == "hpcx")
    given = {
        "nodes": ["a", "b"],
        "hosts": [],
        "absent": [],
        "launcher": launcher,
        "launcher_path": None,
        "launcher_arguments": arguments,
        "job_directory": "/shared",
        "job_options": [],
        "queue_seconds": 60,
    }
    made = Launcher.asked(given, stock).mpi
    assert made == (stock.with_pmix if pmix else stock)
    assert ("OPAL_PREFIX" in made.environment) != pmix


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


@pytest.mark.parametrize("wanted", ["openmpi", "hpc-x", "/no/such/mpirun"])
def test_what_is_not_there_is_said_and_not_replaced(wanted: str, tmp_path: Path) -> None:
    program(tmp_path / "opt" / HPCX.format("redhat9") / "ompi" / "bin" / "mpirun")
    there = found(tmp_path)
    assert mpi.choose(there, wanted) == []
    said = mpi.refusal(there, wanted)
    assert [word in said for word in (f"{wanted!r}", "has hpcx:", "hpcx-pmix")] == [True] * 3
    assert mpi.lacking({"mpi": None, "warnings": ["other", said]}) == said.removeprefix("MPI: ")
    assert mpi.refusal([], wanted).count("no MPI") == 1


def test_which_hpcx(tmp_path: Path) -> None:
    """Of several: what is loaded, then what /opt/hpcx leads to, the image's, the newest."""
    homes = {
        version: tmp_path / "opt" / f"hpcx-v{version}-gcc-doca_ofed-redhat9-cuda13-x86_64"
        for version in ("2.9.0", "2.18", "2.25.1")
    }
    for home in homes.values():
        program(home / "ompi" / "bin" / "mpirun")

    def first(**more: Any) -> str:
        return next(
            version
            for version, home in homes.items()
            if found(tmp_path, **more)[0].path == f"{home}/ompi/bin/mpirun"
        )

    assert first() == "2.25.1"
    assert first(hpc_image={"HPCX": "v2.18"}) == first(hpc_image={"HPCX": "2.18"}) == "2.18"
    (tmp_path / "opt" / "hpcx").symlink_to(homes["2.9.0"])
    assert first(hpc_image={"HPCX": "2.18"}) == "2.9.0"
    assert len(found(tmp_path)) == 3
    assert first(environ={"HPCX_DIR": str(homes["2.18"])}) == "2.18"
    assert first(environ={"MPI_HOME": f"{homes['2.18']}/ompi"}) == "2.18"
    # A link to what was removed, and a module of nothing, are no HPC-X.
    (tmp_path / "opt" / "hpcx").unlink()
    (tmp_path / "opt" / "hpcx").symlink_to(tmp_path / "gone")
    assert first(environ={"HPCX_DIR": "/gone", "MPI_HOME": ""}) == "2.25.1"


def test_a_path_by_links_is_the_same_mpi(tmp_path: Path) -> None:
    """HPC-X's mpirun is a link to orterun, and the role hpcx links its folder."""
    home = image(tmp_path)
    (home / "ompi" / "bin" / "mpirun").rename(home / "ompi" / "bin" / "orterun")
    (home / "ompi" / "bin" / "mpirun").symlink_to("orterun")
    (tmp_path / "opt" / "hpcx").symlink_to(home)
    there = found(tmp_path)
    (chosen,) = mpi.choose(there, str(tmp_path / "opt" / "hpcx" / "ompi" / "bin" / "mpirun"))
    assert (chosen.kind, chosen.path) == ("hpcx", f"{home}/ompi/bin/mpirun")
    assert chosen.environment["OPAL_PREFIX"] == f"{home}/ompi"


def test_what_cannot_be_run_is_not_found(tmp_path: Path) -> None:
    opt = tmp_path / "opt"
    (opt / HPCX.format("redhat9") / "ompi" / "bin" / "mpirun").mkdir(parents=True)
    program(opt / "openmpi-5.0.10" / "bin" / "mpirun").chmod(0o644)
    program(opt / "openmpi" / "bin" / "mpirun")
    assert found(tmp_path) == found(tmp_path / "nowhere") == []


@parametrized(("text", "kind", "version"))
def test_what_mpirun_says_of_itself(text: str, kind: str, version: str | None) -> None:
    said = Mpi("/x/mpirun").saying(text)
    assert (said.kind, said.version) == (kind, version)
    assert Mpi("/x/mpirun", "hpcx").saying(text).kind == "hpcx"


@parametrized(("family", "devices", "more"))
def test_how_a_family_communicates(
    family: str, devices: list[str], more: dict[str, str], tmp_path: Path
) -> None:
    image(tmp_path)
    of_family = node(family)
    chosen = mpi.choose(found(tmp_path))[0]
    made = mpi.fact(
        chosen,
        devices=devices,
        has_gpu=of_family["has_gpu"],
        rdma_expected=of_family["rdma_count_expected"],
    )
    assert made is not None
    assert made["environment"] == {**chosen.environment, **more}
    assert mpi.of({"mpi": made}) == Mpi(**made)


def test_facts_of_before_and_of_no_mpi() -> None:
    assert mpi.of({"programs": {"mpirun": "/usr/bin/mpirun"}}) == Mpi("/usr/bin/mpirun")
    for fact in ({}, {"programs": {"mpirun": None}}, {"mpi": None, "programs": {"mpirun": "/x"}}):
        assert mpi.of(fact) is None
    assert node("hbv3")["mpi"] is None


def test_of_a_stand_in_that_wants_its_prefix(tmp_path: Path) -> None:
    """HPC-X's mpirun ends without OPAL_PREFIX: with the environment it answers."""
    home = image(tmp_path)
    program(
        home / "ompi" / "bin" / "mpirun",
        f'#!/bin/sh\n[ "$OPAL_PREFIX" = {home}/ompi ] || exit 1\necho "{OPEN_MPI}"\n',
    )
    first = found(tmp_path)[0]
    bare = subprocess.run([first.path, "--version"], check=False, capture_output=True, env={})
    told = subprocess.run(
        [first.path, "--version"],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, **first.environment},
    )
    assert (bare.returncode, first.saying(told.stdout).version) == (1, "4.1.9")


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
