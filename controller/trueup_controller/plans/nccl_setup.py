"""NCCL on a node: packages, builds, topology file, settings of each kind of job, and the checks
after. The role nccl's plan uses it."""

from __future__ import annotations

import base64
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from trueup_node.node import mpi, nccl_topology
from trueup_node.node.nccl_topology import Layout
from trueup_node.plan import PlanInputs

from ..system import as_comment, catalog_of, in_image
from .cuda_repository import cuda_repository

SHARP_PLUGIN = "/usr/local/nccl-rdma-sharp-plugins"
PROFILES = "/opt/trueup/nccl/profiles"
_WRITTEN = "# Written by trueup (role nccl). Changes here are lost.\n"
_CONF = "/etc/nccl.conf"
# Azure's HPC images rewrite nccl.conf at each boot and empty it at shutdown (azhpc-images@8e9d055,
# setup_sku_customizations.sh). The role's file is put back after that: as a copy, so that a second
# run finds it unchanged. A failed copy is in the journal, and does not fail the image's unit.
_CONF_KEPT = "/opt/trueup/nccl/nccl.conf"
_CONF_DROP_IN = "/etc/systemd/system/sku-customizations.service.d/trueup-nccl.conf"
_CONF_AGAIN = f"[Service]\nExecStartPost=-/usr/bin/install -m 0644 {_CONF_KEPT} {_CONF}\n"
# Kinds of job: an entry of catalog/nccl_settings.yml names those it is for.
KINDS = ("collective_test", "training", "serving")


class Profile(NamedTuple):
    """A file of variables that a user's job sources."""

    context: str
    kind: str
    jobs: str


_PROFILES = {
    "single_node": Profile("single_node", "training", "jobs on one node"),
    "multi_node": Profile("multi_node", "collective_test", "tests of collectives on several nodes"),
    "container": Profile("container", "training", "jobs in containers"),
    "multi_node_training": Profile("multi_node", "training", "training on several nodes"),
    "multi_node_serving": Profile("multi_node", "serving", "serving over several nodes"),
}
_TESTS = ("all_reduce", "all_gather", "alltoall", "broadcast", "reduce_scatter", "sendrecv")
# Device code for the GPU that the size has: nccl-tests' own default compiles for every generation
# since Turing.
_GENERATIONS = {"A100": 80, "A10": 86, "H100": 90, "H200": 90}
_MOST_JOBS = 16
# What programs are built with besides NCCL, by package manager: CUDA 13.0, as on Azure's images
# (Azure/azhpc-images@8e9d055 versions.json). NVIDIA names the folder by the release.
_CUDA_HOME = "/usr/local/cuda-13.0"
_CUDA_PACKAGES = {
    "apt": ("libnccl2", "libnccl-dev", "cuda-nvcc-13-0", "cuda-cudart-dev-13-0"),
    "dnf": ("libnccl", "libnccl-devel", "cuda-nvcc-13-0", "cuda-cudart-devel-13-0"),
}
_SITE = "Set by this site (nccl_variables)."


def gpu_generation(node: Mapping[str, Any]) -> int | None:
    """That of the size's GPUs as compilers take it, 80 for an A100; None where it is not known."""
    return _GENERATIONS.get(str(catalog_of(node).get("gpu_model") or "").partition("-")[0])


def topology_used(layout: Layout | None, choice: str) -> dict[str, bool]:
    """Whether NCCL is given the topology file: by context, and ``conf`` for /etc/nccl.conf.

    That file reaches every job that sources no profile. It has the settings for jobs on several
    nodes, since those lose most without the file.

    Args:
        layout: the size's; None where the catalog has none.
        choice: by_context, always or never.
    """
    by_catalog = layout.used if layout else dict.fromkeys(nccl_topology.CONTEXTS, False)
    chosen = {
        context: used if choice == "by_context" else layout is not None and choice == "always"
        for context, used in by_catalog.items()
    }
    return {"conf": chosen["multi_node"], **chosen}


def settings_that_apply(
    settings: Sequence[Mapping[str, Any]], context: str, kind: str, layout: str, *, rdma: bool
) -> list[Mapping[str, Any]]:
    """Those of ``settings`` that apply to a kind of job in a context, each variable once; of
    several the last.

    A setting without ``in``, ``kinds``, ``for`` or ``rdma`` applies in every context, to every kind
    of job, layout and machine. NCCL's own file, which every job reads, takes NCCL's variables of
    every kind.
    """
    chosen: dict[str, Mapping[str, Any]] = {}
    for setting in settings:
        name = setting["name"]
        if (
            context in setting.get("in", [context])
            and (kind or "kinds" not in setting)
            and kind in setting.get("kinds", [kind])
            and layout in setting.get("for", [layout])
            and (rdma or not setting.get("rdma"))
            and (context != "conf" or name.startswith("NCCL_"))
        ):
            chosen.pop(name, None)
            chosen[name] = setting
    return list(chosen.values())


def job_variables(inputs: PlanInputs, context: str, kind: str) -> dict[str, str]:
    """NCCL's variables in jobs of another role on this node: the settings of the kind of job and
    the context, by this host's ``nccl_variables`` and ``nccl_topology_file_used``, and the path of
    its plugin.

    Raises:
        BadInput: the catalog's layouts are wrong.
    """
    host_variables: Mapping[str, Any] = inputs.hostvars.get(inputs.host) or {}
    options = {
        "variables": host_variables.get("nccl_variables") or {},
        "topology_file_used": host_variables.get("nccl_topology_file_used") or "by_context",
    }
    return Setup.of(replace(inputs, options=options)).variables(context, kind)


class Shipped(NamedTuple):
    """A file that Azure's images have for a size: its path, the link to it, its correct content."""

    file: str
    link: str
    content: str


class Setup(NamedTuple):
    """NCCL on one node.

    Attributes:
        inputs: options, node, catalog and the role's data.
        layout: the topology of the node's size; None where the catalog has none.
        layouts: all of the catalog's.
        without: why the size is to have no topology file, where the catalog says so.
    """

    inputs: PlanInputs
    layout: Layout | None
    layouts: Mapping[str, Layout]
    without: str = ""

    @classmethod
    def of(cls, inputs: PlanInputs) -> Setup:
        """That of the node that is asked about.

        Raises:
            BadInput: the catalog's layouts are wrong.
        """
        catalog = inputs.catalog("topologies.yml")
        layouts = nccl_topology.read_layouts(catalog)
        size = inputs.node["vm_size"] or ""
        without = nccl_topology.reason_without(catalog, size)
        return cls(inputs, nccl_topology.layout_of(size, layouts), layouts, without)

    @property
    def rdma(self) -> bool:
        """Whether the size has InfiniBand."""
        return bool(catalog_of(self.inputs.node).get("rdma_nics"))

    @property
    def mpi(self) -> mpi.Mpi:
        """The MPI that nccl-tests are built with."""
        return mpi.in_folder(self.inputs.node)

    @property
    def _hpcx(self) -> str:
        """The folder of HPC-X."""
        of_hpcx = self.mpi.kind.startswith("hpcx")
        return self.mpi.home.rpartition("/")[0] if of_hpcx else "/opt/hpcx"

    @property
    def kept(self) -> bool:
        """Whether the image's NCCL is used as it is."""
        image = in_image(self.inputs.node, "NCCL")
        return self.inputs.options["from_image"] == "keep" and bool(image)

    @property
    def used(self) -> dict[str, bool]:
        """By context, whether NCCL is given the topology file."""
        return topology_used(self.layout, self.inputs.options["topology_file_used"])

    def shipped(self) -> dict[str, Shipped]:
        """The files of the layout, by their names in nccl_facts' result."""
        layout = self.layout
        if layout is None:
            return {}
        topology = Shipped(layout.file, layout.link, nccl_topology.generate(layout))
        files = {"topology": topology}
        if layout.graphs is not None:
            text = nccl_topology.generate_graphs(layout)
            files["graphs"] = Shipped(layout.graphs.file, layout.graphs.link, text)
        return files

    def chosen(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """The topology file's record in run.json, with the errors of one that is replaced."""
        return {
            "layout": self.layout.name if self.layout else None,
            "file": self.layout.file if self.layout else None,
            "choice": self.inputs.options["topology_file_used"],
            "used": self.used,
            "reason": self._reason(),
            "mended": self._mended(state),
        }

    def _mended(self, state: Mapping[str, Any]) -> list[str]:
        """Errors in the files that are overwritten, a sentence each."""
        return [
            f"{shipped.file}: {sentence}"
            for file_kind, shipped in self.shipped().items()
            if self._is_written(state.get(file_kind, {}))
            for sentence in self._findings_of(state.get(file_kind, {}))
        ]

    def warnings(self, state: Mapping[str, Any]) -> list[str]:
        """The warning about a wrong file before it is overwritten."""
        mended = self._mended(state)
        more = f" (and {len(mended) - 1} more)" if len(mended) > 1 else ""
        return [
            f"nccl: wrong for {self.inputs.node['vm_size']}: {first}{more}. The role writes the"
            " catalog's over it."
            for first in mended[:1]
        ]

    def refused(self) -> list[str]:
        """Problems that prevent the installation or use of NCCL."""
        node, options = self.inputs.node, self.inputs.options
        refused = []
        names = ("tests_commit", "sharp_plugin_commit")
        loose = [name for name in names if not re.fullmatch(r"[0-9a-f]{40}", options[name])]
        if loose:
            refused.append(
                ", ".join(f"nccl_{name}" for name in loose)
                + ": give the whole commit, 40 hexadecimal digits; a branch or tag may move."
            )
        if node["package_manager"] not in _CUDA_PACKAGES:
            refused.append(
                "nccl: there are no packages for this node, whose package manager is"
                f" {node['package_manager'] or 'neither apt nor dnf'}."
            )
        repository = self.inputs.options["repository"] or self.inputs.variables.get(
            "gpu_driver_repository"
        )
        if node["distribution"] == "azurelinux" and not self.kept and not repository:
            refused.append(
                "nccl: no repository with NCCL is known for Azure Linux: take its HPC image with"
                " nccl_from_image=keep, or set nccl_repository."
            )
        catalog_findings = (
            self._findings(nccl_topology.generate(self.layout).encode()) if self.layout else []
        )
        if catalog_findings:
            refused.append(
                "nccl: the topology file of the catalog does not pass its own check"
                f" ({'; '.join(catalog_findings)}): correct catalog/topologies.yml."
            )
        return refused

    def packages(self) -> list[dict[str, str]]:
        """NCCL's packages and what programs are built with, as role vendor_packages takes them. A *
        takes any build of that version; the driver of CUDA 13 runs those of every CUDA 13."""
        nccl = f"{self.inputs.options['version']}-1+cuda13*"
        return [
            {"name": name, "version": nccl if "nccl" in name else "13.0.*"}
            for name in _CUDA_PACKAGES[self.inputs.node["package_manager"]]
        ]

    def repository(self) -> Mapping[str, Any]:
        """The packages' repository as role vendor_packages takes it: this role's, that of the
        driver (the play's ``gpu_driver_repository``), or NVIDIA's for the distribution."""
        drivers = self.inputs.variables.get("gpu_driver_repository")
        repository: Mapping[str, Any] = self.inputs.options["repository"] or drivers or {}
        return repository or cuda_repository(self.inputs)

    def builds(self) -> list[dict[str, Any]]:
        """The builds from source, as nccl_facts takes them, and their commands."""
        options = self.inputs.options
        home = self.mpi.home
        make = ["make", f"--jobs={min(self.inputs.node['cores'] or 1, _MOST_JOBS)}"]
        tests = {
            "name": "nccl-tests",
            "repository": options["tests_repository"],
            "commit": options["tests_commit"],
            "source": "/opt/nccl-tests",
            "made": "/opt/nccl-tests/build",
            "files": [f"{name}_perf" for name in _TESTS],
            "commands": [
                [
                    *make,
                    "MPI=1",
                    f"MPI_HOME={home}",
                    f"CUDA_HOME={_CUDA_HOME}",
                    *self._device_code(),
                ]
            ],
        }
        sharp = {
            "name": "nccl-rdma-sharp-plugins",
            "repository": options["sharp_plugin_repository"],
            "commit": options["sharp_plugin_commit"],
            "source": "/usr/local/src/nccl-rdma-sharp-plugins",
            "made": SHARP_PLUGIN,
            "files": ["lib/libnccl-net.so"],
            "commands": [
                ["./autogen.sh"],
                [
                    "./configure",
                    f"--prefix={SHARP_PLUGIN}",
                    f"--with-cuda={_CUDA_HOME}",
                    f"--with-sharp={self._hpcx}/sharp",
                ],
                make,
                ["make", "install"],
            ],
        }
        return [tests, *([sharp] if self.rdma else [])]

    def to_build(self, state: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The builds that are missing or of another commit, by nccl_facts' result."""
        outdated = [] if self.kept else state["outdated"]
        options = self.inputs.options
        system = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        with_what = {
            "packages": options["build_packages"].get(self.inputs.node["package_manager"], []),
            "environment": {
                "LC_ALL": "C",
                "PATH": f"{_CUDA_HOME}/bin:{system}",
                # The linker looks here for the libraries that libmpi itself needs.
                "LD_LIBRARY_PATH": self.mpi.environment["LD_LIBRARY_PATH"],
            },
        }
        return [{**build, **with_what} for build in self.builds() if build["name"] in outdated]

    def settings(self, context: str, kind: str = "") -> list[Mapping[str, Any]]:
        """NCCL's settings for a kind of job in a context: name, value and why."""
        used = self.used
        by_choice = f"nccl_topology_file_used ({self.inputs.options['topology_file_used']})"
        because = f"{by_choice}: {self._reason()}"
        name = "NCCL_TOPO_FILE"
        file = {
            "name": name,
            "value": self.layout.link if self.layout else "",
            "in": [context for context in used if used[context]],
            "why": "The topology file: which GPU, adapter and cores are near each other, which the"
            f" VM does not show. Chosen by {because}. A container needs /opt/microsoft mounted.",
        }
        none = {
            "name": name,
            "value": "",
            "in": [context for context in used if not used[context] and context != "conf"],
            "why": f"No topology file, also where {_CONF} names one: NCCL finds no file of an empty"
            f" name and goes by what the VM shows. Chosen by {because}.",
        }
        graphs = [
            {**setting, "name": "NCCL_GRAPH_FILE", "value": shipped.link if setting is file else ""}
            for setting in (file, none)
            for file_kind, shipped in self.shipped().items()
            if file_kind == "graphs"
        ]
        site = [
            {"name": key, "value": value, "why": _SITE}
            for key, value in self.inputs.options["variables"].items()
        ]
        host_variables: Mapping[str, Any] = self.inputs.hostvars.get(self.inputs.host) or {}
        hcoll_used = host_variables.get("hpcx_hcoll") == mpi.HCOLL_USED
        catalog_settings = [
            setting
            for setting in self.inputs.catalog("nccl_settings.yml")["settings"]
            if not (hcoll_used and setting["name"] == mpi.HCOLL)
        ]
        return settings_that_apply(
            [file, none, *graphs, *catalog_settings, *site],
            context,
            kind,
            self.layout.name if self.layout else "",
            rdma=self.rdma,
        )

    def variables(self, context: str, kind: str) -> dict[str, str]:
        """The same by name, and where NCCL's plugin is, since the loader does not look there."""
        variables = {
            setting["name"]: str(setting["value"]) for setting in self.settings(context, kind)
        }
        if self._has_plugin(context, kind):
            name = "LD_LIBRARY_PATH"
            variables[name] = ":".join(filter(None, (variables.get(name), f"{SHARP_PLUGIN}/lib")))
        return variables

    def _has_plugin(self, context: str, kind: str) -> bool:
        """Whether the job gets the RDMA-SHARP plugin. A server's NCCL has its own way over
        InfiniBand, and no reductions in the switches."""
        return self.rdma and context == "multi_node" and kind != "serving"

    def files(self, state: Mapping[str, Any]) -> list[dict[str, str]]:
        """The files for config_files: nccl.conf (again after the image's unit that rewrites it),
        the profiles, the topology file and related files, with their links."""
        conf = self._conf()
        files = [{"path": _CONF, "content": conf}]
        # A recorded node's result may be older than this question.
        if state.get("sku_customizations"):
            files.append({"path": _CONF_KEPT, "content": conf})
            files.append({"path": _CONF_DROP_IN, "content": _WRITTEN + _CONF_AGAIN})
        files += [
            {"path": f"{PROFILES}/{job}.sh", "content": self._profile(job)} for job in _PROFILES
        ]
        for file_kind, shipped in self.shipped().items():
            files.append({"path": shipped.link, "state": "link", "target": shipped.file})
            if self._is_written(state.get(file_kind, {})):
                files.append({"path": shipped.file, "content": shipped.content})
        return files

    def _is_written(self, file_state: Mapping[str, Any]) -> bool:
        """Whether the role overwrites a file: an image's is kept unless it is wrong."""
        is_kept = self.inputs.node["hpc_image"] is not None and file_state.get("exists")
        return not is_kept or bool(self._findings_of(file_state))

    def wrong(self, state: Mapping[str, Any]) -> list[str]:
        """Problems on the node in the end, by nccl_facts' result, a sentence each."""
        mend = (
            "set nccl_from_image=replace to install over the image"
            if self.kept
            else "run this role again"
        )
        image = in_image(self.inputs.node, "NCCL").split("-")[0]
        expected = image if self.kept else self.inputs.options["version"]
        wrong = []
        if state["libraries"] != [expected]:
            libraries = ", ".join(state["libraries"]) or "missing"
            wrong.append(f"nccl: the library is {libraries}, expected {expected}; {mend}")
        lacking = state["unbuilt" if self.kept else "outdated"]
        unbuilt = [build["made"] for build in self.builds() if build["name"] in lacking]
        if unbuilt:
            wrong.append(f"nccl: not built: {', '.join(unbuilt)}; {mend}")
        for file_kind, shipped in self.shipped().items():
            wrong += self._wrong_file(state.get(file_kind, {}), shipped, mend)
        return wrong

    def _wrong_file(self, file_state: Mapping[str, Any], shipped: Shipped, mend: str) -> list[str]:
        wrong = []
        if not file_state.get("exists"):
            wrong.append(f"nccl: {shipped.file} is missing; {mend}")
        elif any(self.used.values()):
            findings = self._findings_of(file_state)
            if findings:
                size = self.inputs.node["vm_size"]
                wrong.append(
                    f"nccl: {shipped.file} is wrong for {size}: {'; '.join(findings)}; {mend}"
                )
        if file_state.get("link") != shipped.file:
            leads = file_state.get("link") or "nowhere"
            wrong.append(f"nccl: {shipped.link} leads to {leads}, expected {shipped.file}")
        return wrong

    def _findings_of(self, file_state: Mapping[str, Any]) -> list[str]:
        """Errors in a file from nccl_facts' result; none if there is no file."""
        content: str | None = file_state.get("content")
        return self._findings(base64.b64decode(content)) if content is not None else []

    def _findings(self, content: bytes) -> list[str]:
        if self.layout is None:
            return []
        findings = nccl_topology.check(content, self.layout, self.layouts.values())
        return [finding.sentence() for finding in findings if finding.severity == "error"]

    def _reason(self) -> str:
        choice = self.inputs.options["topology_file_used"]
        if self.layout is None:
            size = self.inputs.node["vm_size"] or "this machine"
            return self.without or f"the catalog has no topology of {size}"
        return self.layout.why if choice == "by_context" else f"nccl_topology_file_used is {choice}"

    def _device_code(self) -> list[str]:
        generation = gpu_generation(self.inputs.node)
        return (
            [f"NVCC_GENCODE=-gencode=arch=compute_{generation},code=sm_{generation}"]
            if generation
            else []
        )

    def _conf(self) -> str:
        lines = "".join(
            f"\n{as_comment(setting['why'])}\n{setting['name']}={setting['value']}\n"
            for setting in self.settings("conf")
        )
        return (
            f"{_WRITTEN}# NCCL reads this for every job; a variable that the job has, also an empty"
            " one, wins. Profiles for jobs on one node, on\n# several and in containers, to be"
            f" sourced: {PROFILES}\n{lines}"
        )

    def _profile(self, name: str) -> str:
        context, kind, jobs = _PROFILES[name]
        container_note = (
            "# In the container nothing of /etc/nccl.conf is seen: pass these variables on, and"
            " mount what they name.\n"
        )
        exports = "".join(
            f"\n{as_comment(each['why'])}\nexport {each['name']}={_quoted(each['value'])}\n"
            for each in self.settings(context, kind)
        )
        plugin = (
            "\n# NCCL finds the RDMA-SHARP plugin (libnccl-net.so) where the loader looks.\n"
            f"export LD_LIBRARY_PATH={SHARP_PLUGIN}/lib${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}\n"
        )
        return (
            f"{_WRITTEN}# NCCL for {jobs}: . {PROFILES}/{name}.sh\n"
            + (container_note if context == "container" else "")
            + exports
            + (plugin if self._has_plugin(context, kind) else "")
        )


def _quoted(value: Any) -> str:
    """As a shell takes it; nothing stays nothing."""
    return shlex.quote(str(value)) if value else ""
