"""The role hpl, planned: the program that is built or the container, and the cases."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from trueup_node.benchmarks.hpl.case import (
    NVIDIA_PROGRAM,
    OPTIONS,
    Container,
    require_memory_of_gpus,
)
from trueup_node.errors import BadInput
from trueup_node.node import mpi, transactions
from trueup_node.node.gpu_places import GpuPlace, gpu_places
from trueup_node.node.topology import cpu_mask, format_cpu_list
from trueup_node.options import for_module
from trueup_node.plan import Now, Plan, PlanInputs, Skipped

from .. import launch_nodes as together
from ..system import catalog_of

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
        environment: variables that the compiler needs.
    """

    made: str
    archive: str
    blas: str
    mpicc: str
    environment: Mapping[str, str]

    @classmethod
    def of(cls, plan_inputs: PlanInputs) -> Build:
        """The build for this node. The program's name holds the checksum of all that goes into it,
        the CPU too, so that a folder that nodes share serves several kinds."""
        options, ranks_by = plan_inputs.options, mpi.of(plan_inputs.node)
        compiling = ranks_by.compiling if ranks_by else {}
        mpicc = compiling.get("MPICC", "mpicc")
        blas = _blas(plan_inputs)
        home = ranks_by.path if ranks_by and compiling else ""
        inputs = (options["sha256"].lower(), blas, home, plan_inputs.node.get("cpu_model"), _FLAGS)
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


def programs(inputs: PlanInputs) -> dict[str, Any]:
    """Preflight queries for the node, as arguments of program_facts."""
    options = inputs.options
    container = Container.of(options)
    if container:
        files = [container.image] if container.runtime == "enroot" else []
        return {"programs": [container.runtime], "files": files}
    if options["program"]:
        return {"programs": [options["program"]]}
    files = [options["blas"]] if options["blas"] else [_AOCL, *_OPENBLAS]
    # The program's name depends on the BLAS, which is not known before the answer.
    asked_with = [Build.of(_with_files(inputs, [path])) for path in files]
    return {
        "programs": ["gcc", asked_with[0].mpicc, *(build.made for build in asked_with)],
        "files": files,
    }


def asks(inputs: PlanInputs) -> dict[str, Any]:
    """Packages that installing those for the build would remove or downgrade."""
    packages = _packages(inputs)
    return transactions.question(inputs.node, packages) if packages else {}


def plan(inputs: PlanInputs) -> Plan:
    """A case for each layout, and on the first of several nodes those over nodes.

    Values: ``packages``, the ``folder``, ``downloads`` as trueup_download takes them, commands
    ``to_build`` (``argv``, ``creates``, ``environment``) and the ``images`` to pull.

    Raises:
        BadInput: options that do not go together.
    """
    refused = _refused(inputs)
    if refused:
        return Plan(refused=refused)
    container = Container.of(inputs.options)
    lacking = _lacking_container(inputs, container) if container else _lacking(inputs)
    require_memory_of_gpus(_gpus(inputs), 1 if lacking else _memory(inputs))
    installs = not (lacking or container or inputs.options["program"] or _built(inputs))
    build = Build.of(inputs)
    if installs and not build.blas:
        # The package's, once it is there.
        build = Build.of(_with_files(inputs, [_OPENBLAS[0]]))
    program = inputs.options["program"] or (NVIDIA_PROGRAM if container else build.made)
    return Plan(
        values={
            "packages": _packages(inputs) if installs else [],
            "folder": [{"path": inputs.options["prefix"], "state": "directory"}]
            if installs
            else [],
            "downloads": _downloads(inputs, build) if installs else [],
            "to_build": _commands(build) if installs else [],
            "images": _images(container) if container and not lacking else [],
        },
        skipped=[Skipped("hpl", lacking)] if lacking else [],
        cases=_cases(inputs, program),
    )


def completed(case: Mapping[str, Any], now: Now) -> dict[str, Any]:
    """The case with those of its nodes that the play has lost or left out meanwhile."""
    if "nodes" not in case:
        return dict(case)
    return {**case, "absent": together.absent(case["nodes"], now.hosts, now.hostvars, "hpl")}


# ---- the build


def _with_files(inputs: PlanInputs, present: Sequence[str]) -> PlanInputs:
    """The same, with these files and no others on the node."""
    facts = {**inputs.found, "files": dict.fromkeys(present, True)}
    return PlanInputs(**{**vars(inputs), "found": facts})


def _blas(inputs: PlanInputs) -> str:
    """The BLAS to link: the user's, AOCL on AMD's CPUs, OpenBLAS; empty where none is there."""
    files = inputs.found.get("files", {})
    if inputs.options["blas"]:
        return str(inputs.options["blas"])
    by_amd = "AMD" in str(inputs.node.get("cpu_model") or "")
    candidates = [*([_AOCL] if by_amd else []), *_OPENBLAS]
    return next((path for path in candidates if files.get(path)), "")


def _built(inputs: PlanInputs) -> bool:
    return inputs.found["programs"].get(Build.of(inputs).made) is not None


def _packages(inputs: PlanInputs) -> list[str]:
    """The packages of a build that the role may install, by apt."""
    node, options = inputs.node, inputs.options
    elsewhere = options["program"] or options["container_image"]
    if elsewhere or node["package_manager"] != "apt" or node["privilege"] is None:
        return []
    ranks_by = mpi.of(node)
    has_mpi = node.get("hpc_image") or (ranks_by and ranks_by.environment)
    blas = [] if _blas(inputs) else [_BLAS_PACKAGE]
    return [*_COMPILER, *blas, *([] if has_mpi else _MPI)]


def _downloads(inputs: PlanInputs, build: Build) -> list[dict[str, str]]:
    sha256 = f"sha256:{inputs.options['sha256'].lower()}"
    return [{"url": inputs.options["url"], "dest": build.archive, "checksum": sha256}]


def _commands(build: Build) -> list[dict[str, Any]]:
    argv = ["sh", "-c", _BUILD, build.made, build.archive, build.blas, build.mpicc, _FLAGS]
    return [{"argv": argv, "creates": build.made, "environment": dict(build.environment)}]


def _images(container: Container) -> list[str]:
    return [container.image] if container.runtime == "docker" else []


def _lacking(inputs: PlanInputs) -> str:
    """Why the node can have no program; empty where it can."""
    options, program_paths = inputs.options, inputs.found["programs"]
    if options["program"]:
        is_present = program_paths[options["program"]] is not None
        named = f"no {options['program']} on this node, and hpl_program names it"
        return "" if is_present else named
    if _built(inputs):
        return ""
    if _packages(inputs):
        lost = transactions.cost(inputs.found)
        if lost:
            return (
                f"the packages to build HPL with would remove or downgrade {lost}: set hpl_program"
                " to a build against the node's own MPI"
            )
        ranks_by = mpi.of(inputs.node)
        if ranks_by or not inputs.node.get("hpc_image"):
            return ""
    build = Build.of(inputs)
    missing = [
        name
        for name, path in (
            ("gcc", program_paths.get("gcc")),
            ("mpicc", program_paths.get(build.mpicc)),
            ("a fast BLAS (hpl_blas can name one)", build.blas),
        )
        if not path
    ]
    if not missing:
        return ""
    return (
        f"HPL cannot be built: this node lacks {', '.join(missing)}, and the role installs packages"
        " with apt as root or through sudo without a password alone"
    )


# ---- GPUs


def _lacking_container(inputs: PlanInputs, container: Container) -> str:
    """Why the node cannot run NVIDIA's container; empty where it can."""
    if not _attached(inputs):
        return "no GPU on this node for NVIDIA's HPL container"
    if inputs.found["programs"].get(container.runtime) is None:
        return f"no {container.runtime} on this node to run NVIDIA's HPL container"
    if not all(inputs.found.get("files", {}).values()):
        return f"{container.image} is not on this node"
    return ""


def _attached(inputs: PlanInputs) -> int:
    return len(inputs.node.get("gpus") or [])


def _gpus(inputs: PlanInputs) -> int:
    """GPUs of a node that are used; in a container all of them by default."""
    gpu_count: int = inputs.options["gpus"]
    return gpu_count or (_attached(inputs) if inputs.options["container_image"] else 0)


def _memory(inputs: PlanInputs) -> int:
    """Bytes that the matrix takes a share of; 0 leaves it to the node's available memory."""
    memory_bytes: int = inputs.options["memory_bytes"]
    if memory_bytes or not _gpus(inputs):
        return memory_bytes
    gib = catalog_of(inputs.node).get("gpu_memory_gib") or 0
    gpus = (inputs.node.get("gpus") or [])[: _gpus(inputs)]
    gpu_memories = [gpu.get("memory_bytes") or int(gib * _GIB) for gpu in gpus]
    return sum(gpu_memories) if len(gpu_memories) == _gpus(inputs) and all(gpu_memories) else 0


def _places(inputs: PlanInputs) -> Sequence[GpuPlace]:
    """Places of the GPUs that are used; none without any, or where the catalog has no layout."""
    used, attached = _gpus(inputs), _attached(inputs)
    if not 0 < used <= attached:
        return ()
    return gpu_places(inputs.node.get("vm_size"), attached, inputs.catalog("topologies.yml"))[:used]


def _beside(
    inputs: PlanInputs, places: Sequence[GpuPlace], program: str, layout: Mapping[str, Any]
) -> dict[str, list[str]]:
    """Each rank's CPUs beside its GPU, and the affinities for NVIDIA's hpl.sh that the user does
    not give; a layout of another binding than numa has none."""
    arguments: list[str] = inputs.options["arguments"]
    if not places or layout.get("binding", "numa") != "numa":
        return {"gpu_masks": [], "arguments": arguments}
    by_script = os.path.basename(program) == os.path.basename(NVIDIA_PROGRAM)
    options = affinities(places) if by_script else {}
    added = [
        argument
        for name, text in options.items()
        if name not in arguments
        for argument in (name, text)
    ]
    return {"gpu_masks": [cpu_mask(gpu.share) for gpu in places], "arguments": [*added, *arguments]}


def affinities(places: Sequence[GpuPlace]) -> dict[str, str]:
    """Options of hpl.sh, a list by rank each, as the NDv4 article has them. Adapters go by the
    names that Azure's images give them; the article's are of images before that."""
    by_rank = {
        "cpu": [format_cpu_list(gpu.share) for gpu in places],
        "mem": [str(gpu.numa) for gpu in places],
        "ucx": [gpu.adapter for gpu in places if gpu.adapter],
        "gpu": [str(gpu.number) for gpu in places],
    }
    return {f"--{name}-affinity": ":".join(texts) for name, texts in by_rank.items() if texts}


# ---- cases


def _refused(inputs: PlanInputs) -> list[str]:
    """Problems of nodes that are to be measured together, and of a container."""
    options, nodes = inputs.options, inputs.options["nodes"]
    try:
        container: Container | None = Container.of(options)
    except BadInput as error:
        return [f"hpl_{error}"]
    strange = [name for name in nodes if name not in inputs.hostvars]
    wrong = [str(count) for count in options["node_counts"] if not 1 <= count <= len(nodes)]
    unlike = together.unlike(nodes, inputs.hostvars)
    no_directory = together.without_job_directory(inputs.variables)
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
            nodes and options["launcher"] == "slurm" and no_directory,
            f"hpl_launcher: {no_directory}",
        ),
    )
    return [text for broken, text in rules if broken]


def _cases(inputs: PlanInputs, program: str) -> list[dict[str, Any]]:
    options = inputs.options
    shared_options = {
        **for_module(OPTIONS, options),
        "program": program,
        "gpus": _gpus(inputs),
        "memory_bytes": _memory(inputs),
    }
    places = _places(inputs)
    alone = [
        {**shared_options, **_beside(inputs, places, program, layout), **layout}
        for layout in options["layouts"]
    ]
    nodes = options["nodes"]
    if not nodes or inputs.host != nodes[0]:
        return alone
    counts = sorted(set(options["node_counts"])) or [len(nodes)]
    over = [{**case, **_launched(inputs, nodes[:count])} for count in counts for case in alone]
    return [*alone, *over]


def _launched(plan_inputs: PlanInputs, names: Sequence[str]) -> dict[str, Any]:
    options, launcher = plan_inputs.options, plan_inputs.options["launcher"]
    return {
        "nodes": list(names),
        "hosts": together.hosts(names, plan_inputs.hostvars),
        "launcher": launcher,
        "launcher_arguments": together.launcher_arguments(launcher, plan_inputs),
        **together.slurm_job(plan_inputs.variables),
        "queue_seconds": options["queue_seconds"],
    }
