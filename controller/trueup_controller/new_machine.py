"""A machine that nobody has asked yet: its facts by the catalog of sizes and of images, and its
answers to the modules that plans ask."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from trueup_node.node import mpi
from trueup_node.node.gpu_support import nvidia_gpus
from trueup_node.node.identify import WINDOWS, Observed, describe, identify
from trueup_node.node.metadata import Metadata
from trueup_node.node.nvidia_smi import Gpu
from trueup_node.node.pythons import numbers
from trueup_node.node.topology import Topology

from trueup_controller.desktops import avd_agent
from trueup_controller.system import release

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

GIB = 1024**3
LOCAL_NVME = "Microsoft NVMe Direct Disk v2"
_LIKE = {"ubuntu": "debian", "almalinux": "rhel centos fedora"}
# Modules of Python that each of Azure's images has.
_STANDARD = frozenset({"venv", "ensurepip"})
_VERSION = re.compile(r"python(3\.\d+)$")
_CUDA = PurePosixPath("/usr/local/cuda")
# The folder of NVIDIA's HPC-X, by its version and the system that it is built for.
_HPCX = "/opt/hpcx-v{version}-gcc-doca_ofed-{system}-cuda13-x86_64"
_HPCX_SYSTEMS = {"ubuntu-22.04": "ubuntu22.04", "ubuntu-24.04": "ubuntu24.04"}


def os_release(system: str) -> dict[str, str]:
    """The members of /etc/os-release that decide, of a system such as ``ubuntu-24.04``."""
    name, _, version = system.partition("-")
    like = {"ID_LIKE": _LIKE[name]} if name in _LIKE else {}
    return {"ID": name, **like, "VERSION_ID": version}


def fresh(
    size: str | None,
    sizes: Mapping[str, Mapping[str, Any]],
    release: Mapping[str, str],
    *,
    free_bytes: int,
    topology: Topology | None = None,
    image: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """``trueup_node`` of a freshly deployed machine that has all that its size promises.

    Args:
        size: its size; None for a machine that is none of Azure's.
        sizes: the catalog's rows by size.
        release: /etc/os-release.
        free_bytes: on the system disk.
        topology: its cores; None where they are not known.
        image: the catalog's row of its image; None for a system without drivers and programs.
    """
    row = sizes.get(size or "", {})
    disk_bytes = int(float(row.get("nvme_gib_each") or 960) * GIB)
    image = image or {}
    components = image.get("components")
    drivers = bool(components)
    memory_gib = row.get("memory_gib")
    observed = Observed(
        topology=topology,
        lscpu=None,
        gpus=[
            Gpu(row.get("gpu_model") if drivers else None, f"000{n}:00:00.0", None)
            for n in range(nvidia_gpus(row) or 0)
        ],
        infiniband=[
            {
                "device": f"mlx5_ib{n}",
                "state": "ACTIVE",
                "rate_gbps": row.get("rdma_gbps_per_nic"),
                "link_layer": "InfiniBand",
                "numa_node": None,
            }
            for n in range(row.get("rdma_nics", 0) if drivers else 0)
        ],
        nvme=[
            {"device": f"nvme{n}n1", "model": LOCAL_NVME, "size_bytes": disk_bytes, "local": True}
            for n in range(row.get("nvme_disks", 0))
        ],
        memory_bytes=int(memory_gib * GIB) if drivers and memory_gib else None,
        os_release=dict(release),
        kernel="6.8.0-1030-azure",
        architecture="x86_64",
        privilege="root",
        secure_boot=False,
        hpc_image=components,
        free_bytes=dict.fromkeys(("/", "/opt", "/tmp", "/var"), free_bytes),  # noqa: S108 WHY: names
        programs=_on_path(image, ("gcc", "mdadm", "mkfs.xfs", "mpirun")) if image else {},
        mpi=_hpcx(components or {}, f"{release.get('ID')}-{release.get('VERSION_ID')}"),
    )
    identity = identify(
        Metadata("absent"), given_size=size, catalog=sizes, azure_chassis=size is not None
    )
    return describe(identity, observed)


def _hpcx(components: Mapping[str, str], system: str) -> mpi.Mpi | None:
    """The image's HPC-X; None where its folder is not known."""
    if "HPCX" not in components or system not in _HPCX_SYSTEMS:
        return None
    home = _HPCX.format(version=components["HPCX"], system=_HPCX_SYSTEMS[system])
    return mpi.Mpi(f"{home}/ompi/bin/mpirun", "hpcx", environment=mpi.hpcx_environment(home))


def topology_of(row: Mapping[str, Any]) -> Topology:
    """Cores of a size, by its row: NUMA nodes of equal size, and the SMT siblings where it has more
    vCPUs than cores. Which cores share an L3 cache is not in the catalog."""
    cpus, numa = int(row["vcpus"]), int(row.get("numa_nodes") or 1)
    each = cpus // numa
    by_node = {n: tuple(range(n * each, (n + 1) * each)) for n in range(numa)}
    smt = 2 if int(row.get("cores_per_numa") or each) * 2 <= each else 1
    cores = tuple(tuple(range(first, first + smt)) for first in range(0, each * numa, smt))
    return Topology(tuple(range(each * numa)), by_node, (), cores)


def of_image(
    size: str,
    sizes: Mapping[str, Mapping[str, Any]],
    image: Mapping[str, Any],
    *,
    disk_gib: int,
) -> dict[str, Any]:
    """``trueup_node`` of a new machine of a size, of an image of catalog/azure.yml.

    Args:
        size: a size of the catalog.
        sizes: the catalog's rows by size.
        image: the catalog's row.
        disk_gib: its system disk.
    """
    free_bytes, topology = disk_gib * GIB, topology_of(sizes[size])
    if image.get("system"):
        system = os_release(str(image["system"]))
        return fresh(size, sizes, system, free_bytes=free_bytes, topology=topology, image=image)
    node = fresh(size, sizes, {}, free_bytes=free_bytes, topology=topology)
    return {**node, "system": WINDOWS, "os": image.get("os"), "package_manager": None}


def with_catalog(node: Mapping[str, Any], size: str, row: Mapping[str, Any]) -> dict[str, Any]:
    """The same with the GPUs and NUMA nodes that the size's row promises."""
    gpus = [
        {"name": row.get("gpu_model"), "pci": f"000{n}:00:00.0"}
        for n in range(nvidia_gpus(row) or 0)
    ]
    numa = int(row.get("numa_nodes") or 1)
    each = int(row["vcpus"]) // numa
    ranges = [{"node": n, "cpus": f"{n * each}-{n * each + each - 1}"} for n in range(numa)]
    return {
        **node,
        "vm_size": size,
        "catalog": row,
        "gpus": gpus,
        **({} if gpus else {"numa": ranges}),
    }


# ---- its answers --------------------------------------------------------------------------------


def with_paths(image: Mapping[str, Any], variables: Mapping[str, Any]) -> dict[str, Any]:
    """The image with the paths that variables name: a user who names a program brings it, by shared
    storage or cloud-init."""
    named = [text for text in texts(variables) if text.startswith("/")]
    return {**image, "programs": [*image.get("programs", ()), *named]}


def texts(value: Any) -> Iterator[str]:
    """All texts within a value."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list):
        for member in value:
            yield from texts(member)
    elif isinstance(value, str):
        yield value


def answer(
    node: Mapping[str, Any], image: Mapping[str, Any], module: str, arguments: Mapping[str, Any]
) -> dict[str, Any]:
    """The answer of a new machine to a question of a plan, facts of the host among its keys; empty
    where the catalog knows nothing of it.

    Args:
        node: its ``trueup_node``.
        image: the catalog's row of its image.
        module: the module's name, as a room's ``asks`` has it.
        arguments: its arguments.
    """
    respond = _ANSWERS.get(module)
    return respond(node, image, arguments) if respond else {}


def _on_path(image: Mapping[str, Any], names: Any) -> dict[str, str | None]:
    """Each program by name or path, where the image has it."""
    programs = set(image.get("programs", ()))
    by_path = {path.rpartition("/")[2]: path for path in programs if path.startswith("/usr/bin/")}
    paths: dict[str, str | None] = {}
    for name in names:
        full_path = name if "/" in name else by_path.get(name, f"/usr/bin/{name}")
        paths[name] = full_path if name in programs or full_path in by_path.values() else None
        if "/" in name and name.startswith("/usr/bin/") and name.rpartition("/")[2] in programs:
            paths[name] = name
    return paths


def _python(image: Mapping[str, Any], path: str, imports: Sequence[str]) -> dict[str, Any] | None:
    """The image's python3, or one of another path that the user names, with all that is asked of
    it; None of any other."""
    if path in ("python3", "/usr/bin/python3"):
        version, missing = image["python"], [name for name in imports if name not in _STANDARD]
    elif path in image.get("programs", ()):
        named = _VERSION.search(path)
        version, missing = named[1] if named else image["python"], []
    else:
        return None
    where = path if path.startswith("/") else "/usr/bin/python3"
    is_user_python = where != "/usr/bin/python3"
    return {
        "path": where,
        "version": [*numbers(version), 0],
        "missing": missing,
        "headers": is_user_python,
    }


def _program_facts(
    node: Mapping[str, Any], image: Mapping[str, Any], arguments: Mapping[str, Any]
) -> dict[str, Any]:
    programs = _on_path(image, arguments.get("programs", ()))
    if arguments.get("module"):
        programs = dict.fromkeys(programs)
    return {
        "programs": programs,
        "files": {
            path: path in image.get("programs", ())
            or (bool(image.get("cuda")) and _CUDA in PurePosixPath(path).parents)
            for path in arguments.get("files", ())
        },
        "mentions": dict.fromkeys(arguments.get("mentions", ()), False),
        "folders": {
            path: {
                "path": "/",
                "free_bytes": node["free_bytes"]["/"],
                "there": False,
                "link": False,
            }
            for path in arguments.get("folders", ())
        },
        "python": _python(image, str(arguments.get("python") or ""), arguments.get("imports", ())),
        "pythons": [],
    }


def _ib_facts(
    node: Mapping[str, Any], _image: Mapping[str, Any], _arguments: Mapping[str, Any]
) -> dict[str, Any]:
    rows = [{**row, "kind": "infiniband"} for row in node["infiniband"]]
    rdma = {
        "devices": rows,
        "names": {},
        "naming_service": node["hpc_image"] is not None,
        "driver": {"path": None, "reboot_required": False},
        "hpcx_provides_openmpi": release(node).startswith("ubuntu") and bool(node["hpc_image"]),
        "problems": [],
    }
    return {"trueup_rdma": rdma}


def _nccl_facts(
    node: Mapping[str, Any], _image: Mapping[str, Any], arguments: Mapping[str, Any]
) -> dict[str, Any]:
    version = str((node["hpc_image"] or {}).get("NCCL", ""))
    has_nccl = bool(version)
    builds = [build["name"] for build in arguments.get("builds", ())]
    # The image has nccl-tests and the plugin, of commits that its list does not say.
    built = [name for name in builds if has_nccl and name.startswith("nccl")]
    missing = {"exists": False, "content": None, "link": None}
    return {
        "libraries": [version.split("-", maxsplit=1)[0]] if has_nccl else [],
        "unbuilt": [name for name in builds if name not in built],
        "outdated": builds,
        "topology": missing,
        "graphs": missing,
    }


def _find(
    node: Mapping[str, Any], _image: Mapping[str, Any], _arguments: Mapping[str, Any]
) -> dict[str, Any]:
    mpi_library = mpi.of(node)
    folders = (
        [mpi_library.home.rpartition("/")[0]] if mpi_library and mpi_library.kind == "hpcx" else []
    )
    return {"files": [{"path": path} for path in folders]}


def _windows_facts(
    _node: Mapping[str, Any], image: Mapping[str, Any], arguments: Mapping[str, Any]
) -> dict[str, Any]:
    entra = {avd_agent.ENTRA_KEY: {"keys": ["joined"]}} if image.get("join") == "entra" else {}
    return {
        "registry": {**dict.fromkeys(arguments.get("registry", ())), **entra},
        "services": dict.fromkeys(arguments.get("services", ())),
        "files": dict.fromkeys(arguments.get("files", ()), False),
    }


def _windows_gpu_facts(
    node: Mapping[str, Any], _image: Mapping[str, Any], _arguments: Mapping[str, Any]
) -> dict[str, Any]:
    driver = dict.fromkeys(("kernel_module", "user_space"))
    return {"trueup_gpu": {"gpus_on_pci": len(node["gpus"]), "gpus": [], "asked_at": "", **driver}}


def _package_transaction(
    _node: Mapping[str, Any], _image: Mapping[str, Any], _arguments: Mapping[str, Any]
) -> dict[str, Any]:
    return {"refused": False, "removed": {}, "downgraded": {}}


def _command(
    _node: Mapping[str, Any], _image: Mapping[str, Any], _arguments: Mapping[str, Any]
) -> dict[str, Any]:
    """Of role eessi: nothing is in its way, and its client is not there."""
    return {"stdout": json.dumps({"problems": [], "set_up": True})}


_ANSWERS = {
    "ansible.builtin.command": _command,
    "program_facts": _program_facts,
    "ib_facts": _ib_facts,
    "nccl_facts": _nccl_facts,
    "ansible.builtin.find": _find,
    "windows_facts": _windows_facts,
    "windows_gpu_facts": _windows_gpu_facts,
    "package_transaction": _package_transaction,
}
