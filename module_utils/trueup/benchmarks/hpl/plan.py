"""The role hpl, planned: the program that is built or the container, and the cases."""

from __future__ import annotations

import hashlib
import os
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence

from ...errors import BadInput
from ...node import mpi, transactions
from ...node.gpu_places import GpuPlace, gpu_places
from ...node.system import catalog_of
from ...node.topology import cpu_mask, format_cpu_list
from ...options import for_module
from ...plan import Asked, Now, Plan, Skipped
from ...run import nodes as together
from ...run.launcher import pmix
from .case import NVIDIA_PROGRAM, OPTIONS, Container, require_memory_of_gpus

# AOCL of Azure's HPC images (components/install_amd_libs.sh), and OpenBLAS by distribution.
_AOCL = "/opt/amd/lib/libblis-mt.so"
_OPENBLAS = (
    "/usr/lib/x86_64-linux-gnu/openblas-pthread/libopenblas.so.0",
    "/usr/lib64/libopenblasp.so.0",
    "/usr/lib64/libopenblaso.so.0",
)
# Names of Debian and Ubuntu. An HPC image has MPIs, and a marker that excludes the MPI packages:
# apt would remove it, and doca-ofed with it.
_COMPILER = ("gcc", "libc6-dev")
_MPI = ("libopenmpi-dev", "openmpi-bin")
_BLAS_PACKAGE = "libopenblas0-pthread"
# The macros of HPL's own make files for gcc and a BLAS with Fortran's names.
_FLAGS = "-std=gnu99 -w -O3 -march=native -DAdd_ -DF77_INTEGER=int -DStringSunStyle"
# All files but one in one command: HPL_dlamch finds the machine's precision, and must not be
# optimised. $0 is the program to make, $1 the archive, $2 the BLAS, $3 mpicc, $4 the flags. The
# program gets its name when it is on the disk.
_BUILD = (
    'set -e; made=$(mktemp -d "$0.XXXXXX"); trap \'rm -rf "$made"\' EXIT;'
    ' tar -xzf "$1" -C "$made" --strip-components=1; cd "$made";'
    ' "$3" $4 -Iinclude -O0 -c src/auxil/HPL_dlamch.c -o dlamch.o;'
    ' "$3" $4 -Iinclude -o xhpl $(find src testing -name "*.c" ! -name HPL_dlamch.c) dlamch.o'
    ' "$2" "-Wl,-rpath,$(dirname "$2")" -lm;'
    ' sync xhpl; mv xhpl "$0"'
)
_GIB = 1024**3
_ON_CPUS = (
    "hpl_gpus is {}, and HPL's release computes on CPUs: set hpl_container_image, or hpl_program"
)


class Build(NamedTuple):
    """A build of xhpl.

    Attributes:
        made: the program.
        archive: the release.
        blas: the BLAS to link; empty where the node has none yet.
        mpicc: the compiler of the node's MPI.
        environment: what that needs.
    """

    made: str
    archive: str
    blas: str
    mpicc: str
    environment: Mapping[str, str]

    @classmethod
    def of(cls, asked: Asked) -> Build:
        """The build for this node. The program's name holds the checksum of all that goes into it,
        the CPU too, so that a folder that nodes share serves several kinds."""
        options, ranks_by = asked.options, mpi.of(asked.node)
        compiling = ranks_by.compiling if ranks_by else {}
        mpicc = compiling.get("MPICC", "mpicc")
        blas = _blas(asked)
        home = ranks_by.path if ranks_by and compiling else ""
        inputs = (options["sha256"].lower(), blas, home, asked.node.get("cpu_model"), _FLAGS)
        digest = hashlib.sha256("\n".join(map(str, inputs)).encode()).hexdigest()[:12]
        return cls(
            made=f"{options['prefix']}/xhpl-{digest}",
            archive=f"{options['prefix']}/hpl-{options['sha256'].lower()[:12]}.tar.gz",
            blas=blas,
            mpicc=mpicc,
            environment={
                "LC_ALL": "C.UTF-8",
                **{name: value for name, value in compiling.items() if name != "MPICC"},
            },
        )


def programs(asked: Asked) -> Dict[str, Any]:
    """What preflight asks the node for, as arguments of program_facts."""
    options = asked.options
    container = Container.of(options)
    if container:
        files = [container.image] if container.runtime == "enroot" else []
        return {"programs": [container.runtime], "files": files}
    if options["program"]:
        return {"programs": [options["program"]]}
    files = [options["blas"]] if options["blas"] else [_AOCL, *_OPENBLAS]
    # The program's name depends on the BLAS, which is not known before the answer.
    asked_with = [Build.of(_with_files(asked, [path])) for path in files]
    return {
        "programs": ["gcc", asked_with[0].mpicc, *(build.made for build in asked_with)],
        "files": files,
    }


def asks(asked: Asked) -> Dict[str, Any]:
    """What installing the packages for the build would remove or downgrade."""
    packages = _packages(asked)
    return transactions.question(asked.node, packages) if packages else {}


def plan(asked: Asked) -> Plan:
    """A case for each layout, and on the first of several nodes those over nodes.

    Values: ``packages``, the ``folder``, ``downloads`` as trueup_download takes them, what is
    ``to_build`` (``argv``, ``creates``, ``environment``) and the ``images`` to pull.

    Raises:
        BadInput: options that do not go together.
    """
    refused = _refused(asked)
    if refused:
        return Plan(refused=refused)
    container = Container.of(asked.options)
    lacking = _lacking_container(asked, container) if container else _lacking(asked)
    require_memory_of_gpus(_gpus(asked), 1 if lacking else _memory(asked))
    installs = not (lacking or container or asked.options["program"] or _built(asked))
    build = Build.of(asked)
    if installs and not build.blas:
        # The package's, once it is there.
        build = Build.of(_with_files(asked, [_OPENBLAS[0]]))
    program = asked.options["program"] or (NVIDIA_PROGRAM if container else build.made)
    return Plan(
        values={
            "packages": _packages(asked) if installs else [],
            "folder": [{"path": asked.options["prefix"], "state": "directory"}] if installs else [],
            "downloads": _downloads(asked, build) if installs else [],
            "to_build": _commands(build) if installs else [],
            "images": _images(container) if container and not lacking else [],
        },
        skipped=[Skipped("hpl", lacking)] if lacking else [],
        cases=_cases(asked, program),
    )


def completed(case: Mapping[str, Any], now: Now) -> Dict[str, Any]:
    """The case with those of its nodes that the play has lost or left out meanwhile."""
    if "nodes" not in case:
        return dict(case)
    return {**case, "absent": together.absent(case["nodes"], now.hosts, now.hostvars, "hpl")}


# ---- the build


def _with_files(asked: Asked, present: Sequence[str]) -> Asked:
    """The same, with these files and no others on the node."""
    found = {**asked.found, "files": dict.fromkeys(present, True)}
    return Asked(**{**vars(asked), "found": found})


def _blas(asked: Asked) -> str:
    """The BLAS to link: the user's, AOCL on AMD's CPUs, OpenBLAS; empty where none is there."""
    files = asked.found.get("files", {})
    if asked.options["blas"]:
        return str(asked.options["blas"])
    by_amd = "AMD" in str(asked.node.get("cpu_model") or "")
    wanted = [*([_AOCL] if by_amd else []), *_OPENBLAS]
    return next((path for path in wanted if files.get(path)), "")


def _built(asked: Asked) -> bool:
    return asked.found["programs"].get(Build.of(asked).made) is not None


def _packages(asked: Asked) -> List[str]:
    """The packages of a build that the role may install, by apt."""
    node, options = asked.node, asked.options
    elsewhere = options["program"] or options["container_image"]
    if elsewhere or node["package_manager"] != "apt" or node["privilege"] is None:
        return []
    ranks_by = mpi.of(node)
    has_mpi = node.get("hpc_image") or (ranks_by and ranks_by.environment)
    blas = [] if _blas(asked) else [_BLAS_PACKAGE]
    return [*_COMPILER, *blas, *([] if has_mpi else _MPI)]


def _downloads(asked: Asked, build: Build) -> List[Dict[str, str]]:
    sha256 = f"sha256:{asked.options['sha256'].lower()}"
    return [{"url": asked.options["url"], "dest": build.archive, "checksum": sha256}]


def _commands(build: Build) -> List[Dict[str, Any]]:
    argv = ["sh", "-c", _BUILD, build.made, build.archive, build.blas, build.mpicc, _FLAGS]
    return [{"argv": argv, "creates": build.made, "environment": dict(build.environment)}]


def _images(container: Container) -> List[str]:
    return [container.image] if container.runtime == "docker" else []


def _lacking(asked: Asked) -> str:
    """Why the node can have no program; empty where it can."""
    options, found = asked.options, asked.found["programs"]
    if options["program"]:
        there = found[options["program"]] is not None
        named = f"no {options['program']} on this node, and hpl_program names it"
        return "" if there else named
    if _built(asked):
        return ""
    if _packages(asked):
        lost = transactions.cost(asked.found)
        if lost:
            return (
                f"the packages to build HPL with would remove or downgrade {lost}: set hpl_program"
                " to a build against the node's own MPI"
            )
        ranks_by = mpi.of(asked.node)
        if ranks_by or not asked.node.get("hpc_image"):
            return ""
    build = Build.of(asked)
    missing = [
        name
        for name, there in (
            ("gcc", found.get("gcc")),
            ("mpicc", found.get(build.mpicc)),
            ("a fast BLAS (hpl_blas can name one)", build.blas),
        )
        if not there
    ]
    if not missing:
        return ""
    return (
        f"HPL cannot be built: this node lacks {', '.join(missing)}, and the role installs packages"
        " with apt as root or through sudo without a password alone"
    )


# ---- GPUs


def _lacking_container(asked: Asked, container: Container) -> str:
    """Why the node cannot run NVIDIA's container; empty where it can."""
    if not _attached(asked):
        return "no GPU on this node for NVIDIA's HPL container"
    if asked.found["programs"].get(container.runtime) is None:
        return f"no {container.runtime} on this node to run NVIDIA's HPL container"
    if not all(asked.found.get("files", {}).values()):
        return f"{container.image} is not on this node"
    return ""


def _attached(asked: Asked) -> int:
    return len(asked.node.get("gpus") or [])


def _gpus(asked: Asked) -> int:
    """GPUs of a node that are used; in a container all of them by default."""
    given: int = asked.options["gpus"]
    return given or (_attached(asked) if asked.options["container_image"] else 0)


def _memory(asked: Asked) -> int:
    """Bytes that the matrix takes a share of; 0 leaves it to the node's available memory."""
    given: int = asked.options["memory_bytes"]
    if given or not _gpus(asked):
        return given
    gib = catalog_of(asked.node).get("gpu_memory_gib") or 0
    gpus = (asked.node.get("gpus") or [])[: _gpus(asked)]
    shown = [gpu.get("memory_bytes") or int(gib * _GIB) for gpu in gpus]
    return sum(shown) if len(shown) == _gpus(asked) and all(shown) else 0


def _places(asked: Asked) -> Sequence[GpuPlace]:
    """Places of the GPUs that are used; none without any, or where the catalog has no layout."""
    used, attached = _gpus(asked), _attached(asked)
    if not 0 < used <= attached:
        return ()
    return gpu_places(asked.node.get("vm_size"), attached, asked.catalog("topologies.yml"))[:used]


def _beside(
    asked: Asked, places: Sequence[GpuPlace], program: str, layout: Mapping[str, Any]
) -> Dict[str, List[str]]:
    """Each rank's CPUs beside its GPU, and the affinities for NVIDIA's hpl.sh that the user does
    not give; a layout of another binding than numa has none."""
    given: List[str] = asked.options["arguments"]
    if not places or layout.get("binding", "numa") != "numa":
        return {"gpu_masks": [], "arguments": given}
    by_script = os.path.basename(program) == os.path.basename(NVIDIA_PROGRAM)
    options = affinities(places) if by_script else {}
    added = [word for name, text in options.items() if name not in given for word in (name, text)]
    return {"gpu_masks": [cpu_mask(place.share) for place in places], "arguments": [*added, *given]}


def affinities(places: Sequence[GpuPlace]) -> Dict[str, str]:
    """Options of hpl.sh, a list by rank each, as the NDv4 article has them. Adapters go by the
    names that Azure's images give them; the article's are of images before that."""
    by_rank = {
        "cpu": [format_cpu_list(place.share) for place in places],
        "mem": [str(place.numa) for place in places],
        "ucx": [place.adapter for place in places if place.adapter],
        "gpu": [str(place.number) for place in places],
    }
    return {f"--{name}-affinity": ":".join(texts) for name, texts in by_rank.items() if texts}


# ---- cases


def _refused(asked: Asked) -> List[str]:
    """What is wrong with nodes that are to be measured together, and with a container."""
    options, nodes = asked.options, asked.options["nodes"]
    try:
        container: Optional[Container] = Container.of(options)
    except BadInput as error:
        return [f"hpl_{error}"]
    strange = [name for name in nodes if name not in asked.hostvars]
    wrong = [str(count) for count in options["node_counts"] if not 1 <= count <= len(nodes)]
    unlike = together.unlike(nodes, asked.hostvars)
    by_slurm = options["launcher"] == "slurm"
    rules = (
        (strange, f"hpl_nodes: {', '.join(strange)} must be hosts of this inventory"),
        (wrong, f"hpl_node_counts has {', '.join(wrong)}, and hpl_nodes has {len(nodes)} nodes"),
        (unlike, f"hpl_nodes: {unlike}"),
        (
            options["gpus"] and not container and not options["program"],
            _ON_CPUS.format(options["gpus"]),
        ),
        (
            nodes and (container or options["gpus"]),
            "hpl_nodes: HPL on GPUs is measured on one node: remove hpl_nodes",
        ),
        (
            nodes and by_slurm and not str(options["job_directory"]).startswith("/"),
            f"hpl_job_directory {options['job_directory']!r}: slurm needs a folder of all nodes",
        ),
    )
    return [text for broken, text in rules if broken]


def _cases(asked: Asked, program: str) -> List[Dict[str, Any]]:
    options = asked.options
    given = {
        **for_module(OPTIONS, options),
        "program": program,
        "gpus": _gpus(asked),
        "memory_bytes": _memory(asked),
    }
    places = _places(asked)
    alone = [
        {**given, **_beside(asked, places, program, layout), **layout}
        for layout in options["layouts"]
    ]
    nodes = options["nodes"]
    if not nodes or asked.host != nodes[0]:
        return alone
    counts = sorted(set(options["node_counts"])) or [len(nodes)]
    over = [{**case, **_launched(asked, nodes[:count])} for count in counts for case in alone]
    return [*alone, *over]


def _launched(asked: Asked, names: Sequence[str]) -> Dict[str, Any]:
    options, launcher = asked.options, asked.options["launcher"]
    return {
        "nodes": list(names),
        "hosts": together.hosts(names, asked.hostvars),
        "launcher": launcher,
        "launcher_arguments": pmix(launcher, options["launcher_arguments"], asked.node),
        "job_directory": options["job_directory"] or None,
        "job_options": options["job_options"],
        "queue_seconds": options["queue_seconds"],
    }
