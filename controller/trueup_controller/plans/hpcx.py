"""The role hpcx, planned: which HPC-X a node uses, and the variables that load with it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from trueup_node.node.mpi import hcoll, hpcx_environment, ucx
from trueup_node.plan import Convergence, Look, Plan, PlanInputs, files_look, sentences

from ..system import as_comment, free_of, in_image, short_of

_WRITTEN = "# Written by trueup (role hpcx). Changes here are lost.\n"
# The series of Open MPI on which HPC-X 2.x builds, as its mpirun says it.
_OPENMPI_SERIES = "4.1."


def asks(_: PlanInputs) -> dict[str, Any]:
    """The question to the node: its folders of HPC-X."""
    find_arguments = {"paths": "/opt", "patterns": "hpcx-v*", "file_type": "directory"}
    return {"ansible.builtin.find": find_arguments}


def plan(inputs: PlanInputs) -> Plan:
    """The HPC-X of a node. ``inputs.found`` holds ``files``, the folders of HPC-X as the module
    find lists them; the play's ``rdma_persistent_names`` says whether devices are called mlx5_ib0,
    ...

    Values: ``kept`` (an image's is used), ``folder`` of the one that is used, and whether it is
    ``missing``; ``packages``, ``url``, ``sha256`` and ``name`` (the archive's folder) to unpack it;
    ``files`` as config_files takes them; ``mpirun``, its ``environment``, the start of its
    ``expected`` output, and the ``mend`` where that differs.
    """
    node, options = inputs.node, inputs.options
    version = in_image(node, "HPCX")
    keeps_image = options["from_image"] == "keep" and bool(version)
    archive = options["archives"].get(_release(node), {"file": "", "sha256": ""})
    refused = [] if keeps_image else _refused(inputs, archive["file"])
    if refused:
        return Plan(refused=refused)
    installed = sorted(row["path"] for row in inputs.found["files"])
    name = archive["file"].rpartition("/")[2].removesuffix(".tbz")
    of_image = [path for path in installed if path.startswith(f"/opt/hpcx-v{version}-")]
    folder = next(iter(of_image), f"/opt/hpcx-v{version}") if keeps_image else f"/opt/{name}"
    return Plan(
        values={
            "kept": keeps_image,
            "folder": folder,
            "missing": not keeps_image and folder not in installed,
            # bzip2 unpacks the archive; environment-modules reads module files, where no other
            # implementation's folder is given.
            "packages": [
                "bzip2",
                *([] if options["modulefiles_dir"] else ["environment-modules"]),
            ],
            "url": f"{options['base_url']}/{archive['file']}",
            "sha256": archive["sha256"],
            "name": name,
            "files": _files(inputs, folder, keeps_image=keeps_image),
            "mpirun": f"{folder}/ompi/bin/mpirun",
            "environment": {
                "LC_ALL": "C",
                **hpcx_environment(folder),
            },
            "expected": "mpirun (Open MPI) " + ("" if keeps_image else _OPENMPI_SERIES),
            "mend": "set hpcx_from_image=replace to unpack another HPC-X"
            if keeps_image
            else "remove the folder and run again to unpack it anew",
        }
    )


def convergence(planned: Mapping[str, Any], _: Mapping[str, Any]) -> Convergence:
    """Whether HPC-X is there and answers."""
    version = Look(
        "ansible.builtin.command",
        {"argv": [planned["mpirun"], "--version"]},
        lambda response: not str(response.get("stdout")).startswith(planned["expected"]),
        reads=True,
        environment=planned["environment"],
    )
    return Convergence([files_look(planned["files"]), version], has_work=planned["missing"])


def _release(node: Mapping[str, Any]) -> str:
    """As the archives' files are named: ``ubuntu24.04``, ``redhat9``."""
    version = node["distribution_version"] or ""
    if node["package_manager"] == "dnf":
        return f"redhat{version.split('.')[0]}"
    return f"{node['distribution'] or ''}{version}"


def _files(inputs: PlanInputs, folder: str, *, keeps_image: bool) -> list[dict[str, str]]:
    variables = _variables(inputs)
    # An image brings its own mpi/hpcx, which stays as it is.
    modulefiles = (
        inputs.options["modulefiles_dir"]
        or inputs.data["modulefiles_dirs"][inputs.node["package_manager"]]
    )
    module = "".join(
        f"\n{_why(inputs, name)}\nsetenv {name} {{{value}}}\n" for name, value in variables.items()
    )
    script = "".join(
        f"\n{_why(inputs, name)}\nexport {name}={shlex.quote(value)}\n"
        for name, value in variables.items()
    )
    return [
        {
            "path": f"{modulefiles}/mpi/hpcx{'-trueup' if keeps_image else ''}",
            "content": f"#%Module1.0\n{_WRITTEN}conflict mpi\n"
            f"module load {folder}/modulefiles/hpcx\n{module}",
        },
        {
            "path": "/opt/trueup/hpcx/hpcx.sh",
            "content": f"{_WRITTEN}# Source it in a shell or job script: . /opt/trueup/hpcx/hpcx.sh"
            f"\n. {folder}/hpcx-init.sh\nhpcx_load\n{script}",
        },
        {"path": "/opt/hpcx", "state": "link", "target": folder},
    ]


def _variables(inputs: PlanInputs) -> dict[str, str]:
    """Variables that load with HPC-X; a site's own variables win."""
    variables = {}
    nics = inputs.node["rdma_count_expected"] or 0
    if nics and _have_places(inputs):
        variables.update(ucx(f"mlx5_ib{number}" for number in range(nics)))
    variables.update(hcoll(inputs.options["hcoll"], has_gpu=inputs.node["has_gpu"]))
    site = {name: str(value) for name, value in inputs.options["variables"].items()}
    return {**variables, **site}


def _have_places(inputs: PlanInputs) -> bool:
    """Whether the role rdma names devices by their place, as it does unless the play says no."""
    setting = inputs.variables.get("rdma_persistent_names", True)
    return str(setting).lower() not in ("false", "no", "off", "n", "f", "0")


def _why(inputs: PlanInputs, name: str) -> str:
    """A variable's reason as a comment."""
    by_site = name in inputs.options["variables"]
    text = "Set by this site (hpcx_variables)." if by_site else inputs.data["reasons"][name]
    return as_comment(text, 96)


def _refused(inputs: PlanInputs, file: str) -> list[str]:
    node, options = inputs.node, inputs.options
    needed = {"/opt": options["free_bytes"]}
    wrong = {
        f"hpcx: there is no HPC-X for {_release(node)}; hpcx_archives has"
        f" {', '.join(sorted(options['archives']))}: add its file and sha256.": not file,
        f"hpcx: the archives are for x86_64, and this node is {node['architecture']}.": (
            node["architecture"] != "x86_64"
        ),
        f"hpcx: /opt has {free_of(node, '/opt')} bytes free, and HPC-X needs {needed['/opt']}"
        " (hpcx_free_bytes): free some, or mount a larger file system there.": short_of(
            node, needed
        ),
    }
    return sentences(wrong)
