"""The MPI of a node: the mpirun that starts its ranks, and the variables that it needs.

Azure's HPC images have four MPIs and none on PATH: a shell loads one as a module (mpi/hpcx, ...).
This module finds them by their folders, and ``environment`` holds the variables that the module
would set. One on PATH needs nothing and goes first. Folders and variables:
Azure/azhpc-images@8e9d055, components/, and the captured module of HPC-X 2.24.1.
"""

from __future__ import annotations

import os
import re
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

# Those that are found by their folders, the preferred first. hpcx-pmix is HPC-X's Open MPI built
# again with the image's PMIx, which Slurm's --mpi=pmix wants.
KINDS = ("hpcx", "hpcx-pmix", "openmpi", "intel", "mvapich")
_PMIX = KINDS[1]
# These know the options that mpirun has been given so far; the others, which MPICH's starter runs,
# are taken only where the user names them.
_OPEN_MPI, _HYDRA = KINDS[:3], KINDS[3:]
# Names in the output of `mpirun --version`.
_NAMED = (("Open MPI", "openmpi"), ("Intel(R) MPI", "intel"), ("HYDRA", "mpich"))
_NUMBER = re.compile(r"(?<!\d)\d+(?:\.\d+)+")
# HPC-X's folders of libraries behind Open MPI's own, in its module's order. NCCL's plugins, which
# the module has too, are the role nccl's.
_HPCX_LIBRARIES = ("sharp/lib", "hcoll/lib", "ucc/lib", "ucc/lib/ucc", "ucx/lib", "ucx/lib/ucx")
# MVAPICH would bind ranks anew, by variables that 4 calls otherwise than 2.
_UNBOUND = {"MV2_ENABLE_AFFINITY": "0", "MVP_ENABLE_AFFINITY": "0"}
_PERSISTENT = re.compile(r"mlx5_ib\d+")

# Values of the role hpcx's variable: by_gpus turns HCOLL off with GPUs, where NCCL does the
# collectives (AzNHC's all-reduce, coll_hcoll_enable 0).
BY_GPUS = "by_gpus"
HCOLL_USED = "used"
HCOLL = "OMPI_MCA_coll_hcoll_enable"
# Open MPI with UCX ends at once on a size without InfiniBand unless UCX is kept from verbs
# (Azure/azhpc-images#462, HD368s).
_NO_VERBS = {"UCX_TLS": "self,sm,tcp"}


@dataclass(frozen=True)
class Mpi:
    """One MPI.

    Attributes:
        path: of its mpirun.
        kind: one of KINDS; ``mpich`` or empty for one on PATH that says so or nothing.
        version: as its mpirun says it.
        environment: variables to run it and its programs; empty for one on PATH. PATH is not in it:
            programs are called by their paths, and a record's environment stays the same.
        rebuilt: the folder of the same HPC-X built with the image's PMIx; empty where it is not.
    """

    path: str
    kind: str = ""
    version: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    rebuilt: str = ""

    @property
    def program(self) -> str:
        """How it is called: by its name where it is on PATH."""
        return self.path if self.environment else "mpirun"

    @property
    def home(self) -> str:
        """The folder that a build against it is given as MPI_HOME."""
        return os.path.dirname(os.path.dirname(self.path))

    @property
    def with_pmix(self) -> Mpi:
        """The MPI that ranks load when Slurm starts them by --mpi=pmix: HPC-X's own Open MPI has a
        PMIx of its own, and hpcx-pmix that of the image, which Slurm's plugin has too."""
        if not self.rebuilt:
            return self
        libraries = self.environment["LD_LIBRARY_PATH"]
        # Its prefix is compiled in.
        variables = {
            name: self.environment[name] for name in self.environment if name != "OPAL_PREFIX"
        }
        variables["LD_LIBRARY_PATH"] = libraries.replace(
            f"{self.home}/lib", f"{self.rebuilt}/lib", 1
        )
        return Mpi(f"{self.rebuilt}/bin/mpirun", _PMIX, self.version, variables)

    @property
    def compiles(self) -> bool:
        """Whether its compiler is beside it."""
        return _runs(os.path.join(os.path.dirname(self.path), "mpicc"))

    @property
    def by_hydra(self) -> bool:
        """Whether its mpirun takes the options of MPICH's; one on PATH is taken for Open MPI's."""
        return bool(self.environment) and self.kind in _HYDRA

    @property
    def compiling(self) -> dict[str, str]:
        """Variables that a build against it needs beyond PATH."""
        if not self.environment:
            return {}
        return {**self.environment, "MPICC": os.path.join(os.path.dirname(self.path), "mpicc")}

    def before(self, path: str) -> dict[str, str]:
        """PATH for a program that calls mpicc by its name; empty where that is found already."""
        return {"PATH": f"{os.path.dirname(self.path)}:{path}"} if self.environment else {}

    def at(self, path: str) -> bool:
        """Whether a path, such as one below the link /opt/hpcx, is that of this mpirun."""
        return os.path.realpath(path) == os.path.realpath(self.path)

    def saying(self, text: str) -> Mpi:
        """The same with the version from its mpirun's output of ``--version``."""
        named = next((kind for words, kind in _NAMED if words in text), "")
        match = _NUMBER.search(text)
        return replace(self, kind=self.kind or named, version=match.group() if match else None)


def of(node: Mapping[str, Any]) -> Mpi | None:
    """The MPI of the fact ``trueup_node``; an older fact has the mpirun on PATH alone."""
    if "mpi" not in node:
        path = (node.get("programs") or {}).get("mpirun")
        return Mpi(path) if path else None
    return None if node["mpi"] is None else Mpi(**node["mpi"])


def in_folder(node: Mapping[str, Any]) -> Mpi:
    """The node's MPI with a folder of its own, to build with; else the HPC-X that the role hpcx
    puts at /opt/hpcx."""
    mpi = of(node)
    home = "/opt/hpcx"
    return (
        mpi
        if mpi and mpi.environment
        else Mpi(f"{home}/ompi/bin/mpirun", "hpcx", environment=hpcx_environment(home))
    )


def lacking(node: Mapping[str, Any]) -> str:
    """Why a node has no MPI to use, as the middle of a sentence."""
    warnings = [text for text in node.get("warnings") or () if text.startswith("MPI: ")]
    return (
        warnings[0][5:] if warnings else "no mpirun on this node, and installing an MPI needs root"
    )


def find(
    on_path: str | None,
    *,
    environ: Mapping[str, str],
    hpc_image: Mapping[str, str] | None = None,
    root: str = "/",
) -> list[Mpi]:
    """The MPIs of this machine, the preferred first.

    Args:
        on_path: the mpirun on PATH, if any.
        environ: of the session, for variables of a loaded module: HPCX_DIR, MPI_HOME.
        hpc_image: the image's components, component to version.
        root: the root of the file system.
    """
    opt = Path(root, "opt")
    homes = _hpcx_homes(opt, environ.get("HPCX_DIR"), (hpc_image or {}).get("HPCX"))
    beside = ":".join(f"{homes[0]}/{library}" for library in _HPCX_LIBRARIES) if homes else ""
    candidates = [_hpcx(home) for home in homes]
    # Its prefix is compiled in.
    candidates += [
        _made(_PMIX, f"{home}/hpcx-rebuild", _libraries(f"{home}/hpcx-rebuild/lib", beside))
        for home in homes
    ]
    candidates += [
        _made("openmpi", str(home), _libraries(f"{home}/lib", beside))
        for home in _newest(opt.glob("openmpi-*"))
    ]
    candidates += [
        _made(
            "intel",
            str(home),
            {
                # Ranks are bound by our plan.
                "I_MPI_ROOT": str(home),
                "I_MPI_PIN": "0",
                **_libraries(f"{home}/lib", f"{home}/opt/mpi/libfabric/lib"),
            },
        )
        for home in _newest(opt.glob("intel/oneapi/mpi/*"))
        if not home.is_symlink()
    ]
    candidates += [
        _made("mvapich", str(home), {**_UNBOUND, **_libraries(f"{home}/lib", beside)})
        for home in _newest([*opt.glob("mvapich-*"), *opt.glob("mvapich2-*")])
    ]
    runnable = [mpi for mpi in candidates if _runs(mpi.path)]
    loaded = Path(os.path.realpath(environ.get("MPI_HOME") or "/"), "bin", "mpirun")
    runnable.sort(key=lambda mpi: mpi.path != str(loaded))
    return [*([Mpi(on_path)] if on_path else []), *runnable]


def preferred(families: Iterable[Mapping[str, Any]], family: str) -> str:
    """The kind that the list of a family names (playbooks/group_vars/all.yml), if any."""
    return next((str(row.get("mpi") or "") for row in families if family in row["families"]), "")


def choose(installed: Sequence[Mpi], requested: str = "", first: str = "") -> list[Mpi]:
    """The usable MPIs, the preferred first; empty where the requested one is not there.

    Args:
        installed: the result of ``find``.
        requested: one of KINDS, or the path of an mpirun; empty: the family's, the one on PATH, an
            Open MPI.
        first: the family's kind. It goes before the one on PATH where it can compile too: mpi4py
            and nccl-tests are built with the MPI that starts them.
    """
    if not requested:
        of_family = [mpi for mpi in installed if first and mpi.kind == first and mpi.compiles]
        return [
            *of_family,
            *(mpi for mpi in installed if mpi.kind in ("", *_OPEN_MPI) and mpi not in of_family),
        ]
    if not requested.startswith("/"):
        return [mpi for mpi in installed if mpi.kind == requested]
    matches = [mpi for mpi in installed if mpi.at(requested)]
    if matches or not _runs(requested):
        return matches
    home = Path(requested).parent.parent
    if home.name == "ompi" and home.parent.name.startswith("hpcx"):  # HPC-X on a shared folder
        return [_hpcx(home.parent)]
    return [Mpi(requested, environment=_libraries(f"{home}/lib"))]


def refusal(installed: Iterable[Mpi], requested: str) -> str:
    """Why nothing is chosen where something was wanted."""
    listing = ", ".join(mpi.kind or mpi.path for mpi in installed) or "no MPI"
    return (
        f"MPI: trueup_mpi is {requested!r}, and this node has {listing}: give one of"
        f" {', '.join(KINDS)} that is there, or the path of an mpirun"
    )


def fact(
    chosen: Mpi | None,
    *,
    devices: Sequence[str],
    has_gpu: bool,
    rdma_expected: int | None,
    hcoll_is: str = BY_GPUS,
) -> dict[str, Any] | None:
    """The key ``mpi`` of ``trueup_node``: the chosen one, and how it is to communicate here.

    Args:
        chosen: the MPI, if any. One on PATH stays as the node's owner has set it up.
        devices: the node's InfiniBand devices.
        has_gpu: whether the node has GPUs.
        rdma_expected: how many InfiniBand devices its size has; None where that is not known.
        hcoll_is: as ``hcoll`` takes it.
    """
    if chosen is None:
        return None
    if not chosen.environment or chosen.kind not in _OPEN_MPI:
        return asdict(chosen)
    more = hcoll(hcoll_is, has_gpu=has_gpu)
    # Other names are those before the image's naming service has run: they do not last.
    if devices and all(_PERSISTENT.fullmatch(name) for name in devices):
        more.update(ucx(devices))
    elif rdma_expected == 0:
        more.update(_NO_VERBS)
    return asdict(replace(chosen, environment={**chosen.environment, **more}))


def hcoll(choice: str, *, has_gpu: bool) -> dict[str, str]:
    """The variable that turns HCOLL off where ``hpcx_hcoll`` says so: ``by_gpus``, ``used`` (Open
    MPI's default) or ``unused``. The one decision for module files, launches and NCCL's profiles.
    """
    off = choice == "unused" or (choice == BY_GPUS and has_gpu)
    return {HCOLL: "0"} if off else {}


def ucx(devices: Iterable[str]) -> dict[str, str]:
    """UCX on these adapters alone: accelerated networking shows as an RDMA device too. Relaxed
    ordering: AzNHC's all-reduce sets it."""
    return {
        "UCX_NET_DEVICES": ",".join(f"{device}:1" for device in devices),
        "UCX_IB_PCI_RELAXED_ORDERING": "on",
    }


def hpcx_environment(home: str) -> dict[str, str]:
    """Variables of HPC-X's own Open MPI. It was built for another folder: it finds its files by
    OPAL_PREFIX."""
    libraries = (f"{home}/{folder}" for folder in ("ompi/lib", *_HPCX_LIBRARIES))
    return {"OPAL_PREFIX": f"{home}/ompi", **_libraries(*libraries)}


def _hpcx_homes(opt: Path, loaded: str | None, version: str | None) -> list[Path]:
    """Folders of HPC-X: the one that is loaded, that which /opt/hpcx leads to (role hpcx), that of
    the image's version, and the newest of others."""
    homes = _newest(opt.glob("hpcx-v*"))
    homes.sort(key=lambda home: not home.name.startswith(f"hpcx-v{(version or '').lstrip('v')}-"))
    first = [Path(os.path.realpath(path)) for path in (loaded, opt / "hpcx") if path]
    return list(dict.fromkeys([*(path for path in first if path.is_dir()), *homes]))


def _newest(homes: Iterable[Path]) -> list[Path]:
    def version(home: Path) -> tuple[list[int], str]:
        match = _NUMBER.search(home.name)
        return [int(number) for number in match.group().split(".")] if match else [], home.name

    return sorted(homes, key=version, reverse=True)


def _libraries(*folders: str) -> dict[str, str]:
    return {"LD_LIBRARY_PATH": ":".join(filter(None, folders))}


def _hpcx(home: Path) -> Mpi:
    """HPC-X's own Open MPI."""
    rebuilt = f"{home}/hpcx-rebuild"
    mpi = _made("hpcx", f"{home}/ompi", hpcx_environment(str(home)))
    return replace(mpi, rebuilt=rebuilt) if _runs(f"{rebuilt}/bin/mpirun") else mpi


def _made(kind: str, home: str, environment: Mapping[str, str]) -> Mpi:
    return Mpi(f"{home}/bin/mpirun", kind, environment=environment)


def _runs(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)
