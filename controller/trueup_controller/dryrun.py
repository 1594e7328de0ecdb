"""What a recipe lacks, before anything is asked of Azure.

The benchmarks of the recipe are planned for its size and image as they will be on the machines, by
the same planners. Secrets come as a mapping, so that a test can take one away. Values of the
recipe, prices and images are checked by trueup.cluster.azure. No clock or network in here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import jinja2
import yaml
from jinja2.nativetypes import NativeEnvironment
from jinja2.sandbox import SandboxedEnvironment
from trueup.benchmarks.vllm import plan as vllm_plan
from trueup.cluster.azure import deployment
from trueup.cluster.azure.parameters import GENERATED
from trueup.errors import BadInput
from trueup.node.pythons import numbers
from trueup.plan import Asked

from . import presets
from .new_machine import GIB, fresh, os_release, with_catalog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from trueup.cluster.azure.catalog import Catalog
    from trueup.cluster.azure.parameters import Parameters
    from trueup.plan import Plan

Need = Literal["disk", "index", "key", "licence", "plan", "preset", "reboot", "token"]
_COMPUTE = "azure_role_compute"
_ADDRESS = "10.0.0."
# Reboots that a role asks for on every machine that is new, and the variable that allows them.
_WINDOWS_REBOOTS = {
    "windows_gpu_reboot_allowed": "the NVIDIA driver",
    "fslogix_reboot_allowed": "FSLogix's drivers",
    "avd_session_host_reboot_allowed": "the registration with the host pool",
}
# No public index has a version with a local part, such as 2.13.0+cpu (packaging.python.org, version
# specifiers).
_LOCAL_PIN = re.compile(r"^([A-Za-z0-9._-]+==[^\s\\;+]+\+[^\s\\;]+)", re.MULTILINE)
_SCRATCH = "/mnt/resource_nvme"


class Missing(NamedTuple):
    """One need of a recipe that is not met.

    Attributes:
        need: its kind.
        text: the need, and how to meet it.
    """

    need: Need
    text: str


class Recipe(NamedTuple):
    """A recipe with everything that its plans are made of.

    Attributes:
        made: its parameters.
        known: sizes and images.
        environment: the controller's variables; those with secrets count, not their values.
        project: the folder with roles/ and catalog/.
        image: the catalog's row of the nodes' image; empty where it has none.
        variables: the recipe's and its preset's, templates filled in.
    """

    made: Parameters
    known: Catalog
    environment: Mapping[str, str]
    project: Path
    image: Mapping[str, Any]
    variables: Mapping[str, Any]

    def catalog(self, name: str) -> Any:
        """A file of catalog/, read."""
        return yaml.safe_load((self.project / "catalog" / name).read_text(encoding="utf-8"))

    def secret(self, variable: str, name: str) -> bool:
        """Whether a secret will be there, as the variable of a role or of the environment."""
        generated = variable in self.made.generated_secrets and not self.made.pull.release
        return bool(self.variables.get(variable) or self.environment.get(name) or generated)

    def allows(self, variable: str) -> bool:
        """Whether a variable says yes."""
        return self.variables.get(variable) is True

    def benchmarks(self) -> list[str]:
        """The benchmarks in their order; those of the size's family where the recipe names none."""
        named = self.variables.get("trueup_benchmarks")
        if isinstance(named, list):
            return [str(name) for name in named]
        return list(self._family().get("benchmarks", []))

    def roles(self) -> list[str]:
        """The roles that configure the size's family."""
        return list(self._family().get("roles", []))

    def _family(self) -> Mapping[str, Any]:
        path = self.project / "playbooks" / "group_vars" / "all.yml"
        rows = yaml.safe_load(path.read_text(encoding="utf-8"))["trueup_families"]
        family = self.known.family(self.made.nodes.size)
        return next((row for row in rows if family in row["families"]), {})


def missing(
    made: Parameters, known: Catalog, environment: Mapping[str, str], project: Path
) -> list[Missing]:
    """Everything that a recipe lacks, in one list.

    Args:
        made: the recipe with a user's file over it.
        known: sizes and images.
        environment: the controller's variables.
        project: the folder with roles/ and catalog/.

    Raises:
        BadInput: a file of the catalog is wrong.
    """
    try:
        variables = _variables(made, known, project)
    except BadInput as error:
        return [Missing("preset", f"{error} (trueup_preset: '' in variables takes the defaults)")]
    recipe = Recipe(made, known, environment, project, _image(made, known), variables)
    found = [*_reboots_of_windows(recipe)]
    for benchmark in recipe.benchmarks():
        found += _CHECKS.get(benchmark, _nothing)(recipe)
    return list(dict.fromkeys(found))


def _image(made: Parameters, known: Catalog) -> Mapping[str, Any]:
    """The catalog's row of the image; empty where it has none that names system and Python. Of
    Windows a name is enough."""
    image = made.nodes.image or made.image
    rows = [*known.facts["images"], *known.facts["windows_images"]]
    needed = {"image"} if made.nodes.windows else {"image", "system", "python"}
    return next((row for row in rows if row["image"] == image and needed <= row.keys()), {})


def _variables(made: Parameters, known: Catalog, project: Path) -> dict[str, Any]:
    """The variables of a node: a preset's win over the recipe's, as in the play.

    Raises:
        BadInput: there is no such preset, or it is for other sizes.
    """
    variables = _rendered(made)
    name = variables.get("trueup_preset")
    if not name:
        return variables
    preset = presets.read(str(name), project / "catalog")
    size, row = made.nodes.size, known.sizes[made.nodes.size]
    machine = presets.Machine(size, int(row["vcpus"]))
    applied = presets.applied(
        str(name),
        preset,
        machine,
        scale=float(variables.get("trueup_preset_scale", 1.0)),
        nodes_named=len(variables.get(preset.node_names) or []),
    )
    return {**variables, **applied.variables}


def _rendered(made: Parameters) -> dict[str, Any]:
    """The recipe's variables, templates filled in; of an unknown function or filter the text."""
    names = [f"node-{number + 1}" for number in range(made.nodes.count)]
    context = {**made.variables, "groups": {_COMPUTE: names, "all": names}}
    environment = _Sandbox(undefined=jinja2.StrictUndefined)

    def filled(value: Any) -> Any:
        if isinstance(value, list):
            return [filled(part) for part in value]
        if isinstance(value, dict):
            return {name: filled(part) for name, part in value.items()}
        if not isinstance(value, str) or "{{" not in value:
            return value
        try:
            return environment.from_string(value).render(context)
        except (jinja2.TemplateError, TypeError, ValueError):
            return value

    return {name: filled(value) for name, value in made.variables.items()}


class _Sandbox(SandboxedEnvironment, NativeEnvironment):
    """Templates of a user's file give values, and reach nothing of the controller."""


def _nothing(_: Recipe) -> Iterator[Missing]:
    return iter(())


# ---- the machine --------------------------------------------------------------------------------


def warnings(made: Parameters, known: Catalog) -> list[str]:
    """What the dry run could not check, and storage that is paid for and that no variable names."""
    found = []
    if not _image(made, known):
        found.append(
            f"the image {made.nodes.image or made.image} is not in catalog/azure.yml: Python,"
            " glibc, CUDA and disks are not checked before the machines are made"
        )
    storage, mounted = made.storage, deployment.MOUNTED
    if storage.kind != "none" and not any(mounted in text for text in _texts(made.variables)):
        found.append(
            f"nothing of this run writes to the {storage.tib} TiB of storage ({storage.kind}),"
            f" which is mounted at {mounted}: name a folder of it in variables (fio_directory,"
            " training_save_directory, vllm_model_cache), or leave storage out"
        )
    return found


def _reboots_of_windows(recipe: Recipe) -> Iterator[Missing]:
    if not recipe.made.nodes.windows:
        return
    for variable, cause in _WINDOWS_REBOOTS.items():
        if not recipe.allows(variable):
            yield Missing(
                "reboot",
                f"{cause} needs a reboot of each new machine: set {variable}: true in variables",
            )


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list):
        for part in value:
            yield from _texts(part)
    elif isinstance(value, str):
        yield value


# ---- vLLM ---------------------------------------------------------------------------------------


def _vllm(recipe: Recipe) -> Iterator[Missing]:
    endpoints = recipe.variables.get("vllm_endpoints")
    if not isinstance(endpoints, list) or not endpoints:
        yield Missing("plan", "vllm is measured and vllm_endpoints is empty: name an endpoint")
        return
    for endpoint in endpoints:
        if isinstance(endpoint, dict):
            yield from _endpoint(recipe, endpoint)
    if not recipe.image or recipe.made.nodes.windows:
        return
    asked = _asked_of_vllm(recipe)
    planned = vllm_plan.plan(asked)
    yield from (Missing("plan", f"vllm: {text}") for text in planned.refused)
    yield from (Missing("plan", f"vllm: {one.why}") for one in planned.skipped)
    yield from _local_pins(asked, "vllm", planned.values["environment"]["requirements"])
    yield from _full_disks(recipe, planned)


def _endpoint(recipe: Recipe, endpoint: Mapping[str, Any]) -> Iterator[Missing]:
    """Secrets, licence and reboot of one endpoint."""
    name, host = endpoint.get("name"), str(endpoint.get("host", "127.0.0.1"))
    local = host == "localhost" or host.startswith("127.") or host == "::1"
    if not local and not recipe.secret("vllm_api_key", GENERATED["vllm_api_key"]):
        yield Missing(
            "key",
            f"the endpoint {name} listens on {host}, and there is no API key: export VLLM_API_KEY,"
            " or let the run make one (generated_secrets: [vllm_api_key])",
        )
    models = _models(recipe)
    served = models.get(str(endpoint.get("recipe")))
    if not isinstance(served, dict):
        return
    gated, model = served.get("gated"), served.get("model")
    if gated and not endpoint.get("model"):
        page = f"https://huggingface.co/{model}"
        if not recipe.secret("vllm_hf_token", "HF_TOKEN"):
            yield Missing(
                "token",
                f"{model} is behind a licence and there is no Hugging Face token: accept the"
                f" licence at {page}, and export HF_TOKEN of that account",
            )
        if gated not in recipe.made.accepted_licences:
            yield Missing(
                "licence",
                f"{model} is under the licence {gated}: accept it at {page}, and say so in your"
                f" file of parameters (accepted_licences: [{gated}])",
            )
    reboots = [one["name"] for one in served.get("kernels", []) if one.get("reboot_needed")]
    if reboots and not recipe.allows("vllm_reboot_allowed"):
        yield Missing(
            "reboot",
            f"{' and '.join(reboots)} of the vLLM recipe {endpoint.get('recipe')} sets parameters"
            " of the driver, which need a reboot: set vllm_reboot_allowed: true in variables",
        )


def _models(recipe: Recipe) -> dict[str, Any]:
    given = recipe.variables.get("vllm_recipes")
    return {
        **recipe.catalog("vllm_recipes.yml")["recipes"],
        **(given if isinstance(given, dict) else {}),
    }


def _asked_of_vllm(recipe: Recipe) -> Asked:
    """The role's question on the first node, as its preflight will put it."""
    size = recipe.made.nodes.size
    node = with_catalog(_node(recipe), size, recipe.known.sizes[size])
    names = [f"node-{number + 1}" for number in range(recipe.made.nodes.count)]
    hosts = {name: {"ansible_host": f"{_ADDRESS}{4 + at}"} for at, name in enumerate(names)}
    mine = _options(recipe, "vllm")
    for variable in ("hf_token", "api_key"):
        mine.pop(variable)
    asked = Asked(
        options=mine,
        # Whether a key is missing is asked before; here its place is taken.
        secrets={"hf_token": "", "api_key": "planned"},
        node=node,
        host=names[0],
        hosts=names,
        hostvars=hosts,
        groups={_COMPUTE: names},
        variables={**recipe.variables, "trueup_family_roles": recipe.roles()},
        project=recipe.project,
        catalog=recipe.catalog,
        data=_data(recipe, "vllm"),
        found={"python": _python(recipe), "pythons": [], "folders": _Folders(node)},
    )
    question = vllm_plan.programs(asked)
    cuda = bool(recipe.image.get("cuda"))
    found = {
        **asked.found,
        "programs": {path: path for path in question["programs"]},
        "files": dict.fromkeys(question["files"], cuda),
    }
    return Asked(**{**vars(asked), "found": found})


def _full_disks(recipe: Recipe, planned: Plan) -> Iterator[Missing]:
    """Disks that are smaller than all that is put on them."""
    nodes, row = recipe.made.nodes, recipe.known.sizes[recipe.made.nodes.size]
    wanted: dict[str, int] = {}
    for space in planned.values["spaces"]:
        path = str(space["path"])
        if not path.startswith(("/dev/shm", deployment.MOUNTED)):  # noqa: S108 WHY: a name
            disk = _SCRATCH if path.startswith(_SCRATCH) else "/"
            wanted[disk] = wanted.get(disk, 0) + int(space["bytes"])
    scratch = int(row.get("nvme_disks") or 0) * float(row.get("nvme_gib_each") or 0)
    sizes = {"/": float(nodes.os_disk_gib), _SCRATCH: scratch}
    for disk, needed in wanted.items():
        if needed > sizes[disk] * GIB:
            mend = "raise nodes.os_disk_gib" if disk == "/" else "set vllm_model_cache"
            yield Missing(
                "disk",
                f"model and environment need {needed / GIB:,.0f} GiB on {disk}, which has"
                f" {sizes[disk]:,.0f} GiB: {mend}",
            )


_CHECKS: Mapping[str, Callable[[Recipe], Iterator[Missing]]] = {"vllm": _vllm}


# ---- a role's question --------------------------------------------------------------------------


def _node(recipe: Recipe) -> dict[str, Any]:
    """``trueup_node`` of a new machine of the recipe."""
    nodes = recipe.made.nodes
    release = os_release(str(recipe.image["system"]))
    return fresh(nodes.size, recipe.known.sizes, release, free_bytes=nodes.os_disk_gib * GIB)


def _options(recipe: Recipe, role: str) -> dict[str, Any]:
    """A role's variables without its prefix: defaults, and the recipe's over them."""
    path = recipe.project / "roles" / role / "defaults" / "main.yml"
    defaults = yaml.safe_load(path.read_text(encoding="utf-8"))
    mine = {name: value for name, value in recipe.variables.items() if name in defaults}
    prefix = f"{role}_"
    return {name.removeprefix(prefix): value for name, value in {**defaults, **mine}.items()}


def _data(recipe: Recipe, role: str) -> dict[str, Any]:
    """A role's vars/main.yml."""
    path = recipe.project / "roles" / role / "vars" / "main.yml"
    rows = yaml.safe_load(path.read_text(encoding="utf-8"))
    return {name.removeprefix(f"__{role}_"): value for name, value in rows.items()}


def _python(recipe: Recipe) -> dict[str, Any]:
    """The image's python3, as module program_facts describes it."""
    version = numbers(recipe.image["python"])
    return {
        "path": "/usr/bin/python3",
        "version": [*version, 0],
        "missing": [],
        "headers": False,
    }


class _Folders(dict[str, Any]):
    """Folders of a new machine: none is there, and the system disk is free."""

    def __init__(self, node: Mapping[str, Any]) -> None:
        super().__init__()
        self._free_bytes = node["free_bytes"]["/"]

    def __missing__(self, name: str) -> dict[str, Any]:
        return {"path": name, "free_bytes": self._free_bytes, "there": False, "link": False}


def _local_pins(asked: Asked, role: str, files: list[str]) -> Iterator[Missing]:
    """Pins that PyPI cannot have, without another source for them."""
    if asked.options["pip_find_links"]:
        return
    pins = [pin for name in files for pin in _LOCAL_PIN.findall(asked.text(name))]
    if pins:
        yield Missing(
            "index",
            f"{' and '.join(pins)} is not on PyPI: give a page or a folder of the nodes that has"
            f" its wheel as {role}_pip_find_links in variables (docs/{role}.md)",
        )
