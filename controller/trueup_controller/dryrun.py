"""Needs of a recipe that are not met, before anything is asked of Azure.

Each role that configures the nodes and each benchmark is planned for the size and the image, by the
planner that a play uses. Secrets come as a mapping, so that a test can take one away. Values of the
recipe, prices and images are checked by trueup_controller.azure. No clock or network in here.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import jinja2
import yaml
from jinja2.nativetypes import NativeEnvironment
from jinja2.sandbox import SandboxedEnvironment
from trueup_node.errors import BadInput
from trueup_node.node.identify import WINDOWS

from trueup_controller import family
from trueup_controller.azure import deployment, template
from trueup_controller.azure.parameters import GENERATED, MOST_IN_ONE_GROUP
from trueup_controller.removed_options import removal_refusals
from trueup_controller.settings import PREFIX, problems

from . import drivers, new_machine, presets
from .new_machine import GIB
from .planning import SCRATCH, Machine, Planned, Roles, Unforeseen
from .project import settings

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence
    from pathlib import Path

    from trueup_node.plan import PlanInputs

    from trueup_controller.azure.catalog import Catalog
    from trueup_controller.azure.parameters import Parameters

Need = Literal["disk", "driver", "index", "key", "licence", "plan", "preset", "reboot", "token"]
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
# Secrets of roles: the variable of the role, and that of the controller's environment.
_SECRETS = {"vllm_hf_token": "HF_TOKEN", **GENERATED}
# A file system of each kind of storage, as nodes mount it.
_SOURCES = {
    "nfs": f"{_ADDRESS}4:/srv/shared",
    "anf": f"{_ADDRESS}4:/shared",
    "amlfs": f"{_ADDRESS}4@tcp:/lustrefs",
}


class Missing(NamedTuple):
    """One need of a recipe that is not met.

    Attributes:
        need: its kind.
        text: the need, and how to meet it.
    """

    need: Need
    text: str


@dataclass(frozen=True, kw_only=True)
class Work:
    """Work for nodes, whether they are there or not.

    Attributes:
        environment: the controller's variables; those with secrets count, not their values.
        project: the folder with roles/ and catalog/.
        variables: of the nodes, those of a preset among them, templates filled in.
    """

    environment: Mapping[str, str]
    project: Path
    variables: Mapping[str, Any]

    @property
    def generated(self) -> Collection[str]:
        """Variables whose secrets are made for the run."""
        return ()

    @property
    def licences(self) -> Collection[str] | None:
        """The licences that the user has accepted; None where nobody asks."""
        return None

    def secret(self, variable: str, name: str) -> bool:
        """Whether a secret will be there, as the variable of a role or of the environment."""
        configured = self.variables.get(variable) or self.environment.get(name)
        return bool(configured or variable in self.generated)

    def secrets(self) -> frozenset[str]:
        """The variables whose secrets the run will have. An endpoint without a key is named by
        itself, and its plan goes on."""
        names = {
            role_variable
            for role_variable, name in _SECRETS.items()
            if self.secret(role_variable, name)
        }
        return frozenset(names | {"vllm_api_key"})

    def allows(self, variable: str) -> bool:
        """Whether a variable says yes."""
        return self.variables.get(variable) is True

    @property
    def lists(self) -> Mapping[str, Any]:
        """Variables of plays that the catalog has no part of."""
        path = settings(self.project)
        lists: Mapping[str, Any] = _read_yaml(path)
        return lists


@dataclass(frozen=True, kw_only=True)
class Recipe(Work):
    """A recipe with everything that its plans are made of.

    Attributes:
        made: its parameters.
        known: sizes and images.
        image: the catalog's row of the nodes' image; empty where it has none.
    """

    made: Parameters
    known: Catalog
    image: Mapping[str, Any]

    @property
    def generated(self) -> Collection[str]:
        return () if self.made.pull.release else self.made.generated_secrets

    @property
    def licences(self) -> Collection[str]:
        return self.made.accepted_licences

    @property
    def family(self) -> Mapping[str, Any]:
        """Roles and benchmarks of the size's family on the nodes' system."""
        groups = [self.known.family(self.made.nodes.size)]
        groups += [WINDOWS] if self.made.nodes.windows else []
        gpus = bool(self.known.sizes[self.made.nodes.size].get("gpus"))
        return family.family_lists(self.lists["trueup_families"], groups, has_gpu=gpus)

    def benchmarks(self) -> list[str]:
        """The benchmarks in their order; those of the size's family where the recipe names none."""
        named = self.variables.get("trueup_benchmarks")
        if isinstance(named, list):
            return [str(name) for name in named]
        return list(self.family["benchmarks"])

    def groups(self) -> list[str]:
        """The groups of the inventory that the nodes join beyond that of their family."""
        joined = self.variables.get("trueup_join_groups")
        shared = ["shared_storage"] if self.made.storage.kind != "none" else []
        return [*shared, *(joined if isinstance(joined, list) else [])]

    def cluster_roles(self) -> list[str]:
        """The roles of these groups."""
        return family.roles_of_groups(self.lists["trueup_cluster"], self.groups())

    def roles(self) -> list[str]:
        """The roles that configure the nodes: of the family, and of the groups that they join."""
        return [*self.family["roles"], *self.cluster_roles()]


@functools.lru_cache(maxsize=4)
def _read_yaml(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def missing(
    parameters: Parameters, catalog: Catalog, environment: Mapping[str, str], project: Path
) -> list[Missing]:
    """Everything that a recipe lacks, in one list.

    Args:
        parameters: the recipe with a user's file over it.
        catalog: sizes and images.
        environment: the controller's variables.
        project: the folder with roles/ and catalog/.

    Raises:
        BadInput: a file of the catalog is wrong.
    """
    try:
        variables = _variables(parameters, catalog, project)
    except BadInput as error:
        return [Missing("preset", f"{error} (trueup_preset: '' in variables takes the defaults)")]
    recipe = _recipe(parameters, catalog, environment, project, variables)
    trueup_variables = {
        name: value for name, value in parameters.variables.items() if str(name).startswith(PREFIX)
    }
    wrong = problems(trueup_variables) + removal_refusals(variables, project / "catalog")
    needs = [Missing("plan", text) for text in wrong]
    needs += _reboots_of_windows(recipe)
    planned, _ = _planned(recipe)
    benchmarks = recipe.benchmarks()
    needs += [Missing("plan", text) for text in _of_node(recipe)]
    needs += lacking(planned, needed(planned, benchmarks, variables))
    needs += of_drivers(recipe, planned)
    if "vllm" in benchmarks:
        needs += endpoints(recipe, planned.get("vllm"))
        needs += _full_disks(recipe, planned.get("vllm"))
    return list(dict.fromkeys(needs))


def _recipe(
    parameters: Parameters,
    catalog: Catalog,
    environment: Mapping[str, str],
    project: Path,
    variables: Mapping[str, Any],
) -> Recipe:
    return Recipe(
        made=parameters,
        known=catalog,
        environment=environment,
        project=project,
        image=_image(parameters, catalog),
        variables=variables,
    )


def needed(
    planned: Mapping[str, Planned], benchmarks: Sequence[str], variables: Mapping[str, Any]
) -> Collection[str]:
    """The benchmarks that the nodes must have: those that are named. Of the family's default ones
    some are for other images, and it is enough that the nodes have one of them."""
    if isinstance(variables.get("trueup_benchmarks"), list):
        return benchmarks
    possible = [name for name in benchmarks if name not in planned or not _skips(planned, name)]
    return () if possible else benchmarks


def _skips(planned: Mapping[str, Planned], name: str) -> list[str]:
    """Why nodes cannot have a benchmark as a whole."""
    return [each.why for each in planned[name].plan.skipped if each.what == name]


def lacking(planned: Mapping[str, Planned], benchmarks: Collection[str]) -> Iterator[Missing]:
    """Sentences of plans that keep a run from its work: all that is refused, and needed benchmarks
    that the nodes cannot have."""
    for role, planned_role in planned.items():
        if role in benchmarks:
            yield from _lacks(role, _skips(planned, role))
        yield from _lacks(role, planned_role.plan.refused)


class Measured(NamedTuple):
    """The measurements of a recipe.

    Attributes:
        benchmarks: in their order.
        preset: the published work that they reproduce, by name; empty where it is none.
        seconds: how long the preset takes on the size; None where that is not known.
        references: the published rows to compare with, in words.
        unpublished: the reason why there are none.
    """

    benchmarks: tuple[str, ...]
    preset: str
    seconds: float | None
    references: tuple[str, ...]
    unpublished: str


def measured(parameters: Parameters, catalog: Catalog, project: Path) -> Measured:
    """The measurements of a recipe.

    Raises:
        BadInput: there is no such preset, or it is for other sizes.
    """
    variables = _variables(parameters, catalog, project)
    recipe = _recipe(parameters, catalog, {}, project, variables)
    name = str(variables.get("trueup_preset") or "")
    if not name:
        return Measured(tuple(recipe.benchmarks()), "", None, (), "it names no preset")
    preset = presets.read(name, project / "catalog")
    minutes = preset.sizes.get(parameters.nodes.size)
    if minutes is not None:
        minutes *= float(variables.get("trueup_preset_scale", 1.0))
    rows = (
        reference.published.get("configuration") or ", ".join(reference.published.values())
        for reference in preset.reference
    )
    return Measured(
        tuple(recipe.benchmarks()),
        name,
        None if minutes is None else minutes * 60,
        tuple(dict.fromkeys(rows)),
        preset.unpublished,
    )


def _lacks(role: str, texts: Iterable[str]) -> Iterator[Missing]:
    """Sentences of a plan, each with the role's name."""
    for text in texts:
        yield Missing("plan", text if text.startswith(role) else f"{role}: {text}")


def _of_node(recipe: Recipe) -> list[str]:
    """Why the nodes cannot be configured or measured at all, as the play's preflight says it."""
    if not recipe.image:
        return []
    machine = _machine(recipe)
    return family.node_problems(
        machine.node,
        name=machine.host,
        roles=recipe.roles(),
        benchmarks=recipe.benchmarks(),
        known_benchmarks=family.benchmark_names(str(recipe.project / "roles")),
        mpi=str(recipe.variables.get("trueup_mpi") or ""),
        cluster=recipe.cluster_roles(),
    )


def _planned(recipe: Recipe) -> tuple[dict[str, Planned], list[str]]:
    """The plan of each role on the first node, and a sentence on each that only the node can make;
    none where the image is not known."""
    if not recipe.image:
        return {}, []
    return plans_of(_machine(recipe), [*recipe.roles(), *recipe.benchmarks()], recipe.project)


def plans_of(
    machine: Machine, role_names: Sequence[str], project: Path
) -> tuple[dict[str, Planned], list[str]]:
    """The plan of each role on a machine, and a sentence on each that only the node can make."""
    roles = Roles(project)
    plans, unforeseen = {}, []
    for role in dict.fromkeys(role_names):
        if roles.has_plan(role):
            try:
                plans[role] = roles.plan(role, machine)
            except Unforeseen as error:
                unforeseen.append(str(error))
    return plans, unforeseen


def _image(parameters: Parameters, catalog: Catalog) -> Mapping[str, Any]:
    """The catalog's row of the image, else of another version of it; empty where there is none that
    names system and Python. Of Windows its name is enough."""
    image = parameters.nodes.image or parameters.image
    names = ("images", "other_images", "windows_images")
    rows = [row for name in names for row in catalog.facts.get(name, ())]
    needed = {"image"} if parameters.nodes.windows else {"image", "system", "python"}
    rows = [row for row in rows if needed <= row.keys()]
    of_any_version = image.rpartition(":")[0]
    same = [row for row in rows if row["image"] == image]
    return next(iter([*same, *(row for row in rows if _sku(row) == of_any_version)]), {})


def _sku(row: Mapping[str, Any]) -> str:
    """publisher:offer:sku of a row."""
    return ":".join(str(row["image"]).split(":")[:3])


def _variables(parameters: Parameters, catalog: Catalog, project: Path) -> dict[str, Any]:
    """The variables of a node: a preset's win over the recipe's, as in the play.

    Raises:
        BadInput: there is no such preset, or it is for other sizes.
    """
    variables = _rendered(parameters)
    name = variables.get("trueup_preset")
    if not name:
        return variables
    preset = presets.read(str(name), project / "catalog")
    size, row = parameters.nodes.size, catalog.sizes[parameters.nodes.size]
    machine = presets.Machine(size, int(row["vcpus"]))
    applied = presets.applied(
        str(name),
        preset,
        machine,
        values=variables,
        scale=float(variables.get("trueup_preset_scale", 1.0)),
    )
    return {**variables, **applied.variables}


def _rendered(parameters: Parameters) -> dict[str, Any]:
    """The recipe's variables, templates filled in."""
    names = [f"node-{number + 1}" for number in range(parameters.nodes.count)]
    return rendered(parameters.variables, {_COMPUTE: names, "all": names})


def rendered(variables: Mapping[str, Any], groups: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Variables with their templates filled in; of an unknown function or filter the text."""
    context = {**variables, "groups": groups}
    environment = _Sandbox(undefined=jinja2.StrictUndefined)

    def filled(value: Any) -> Any:
        if isinstance(value, list):
            return [filled(member) for member in value]
        if isinstance(value, dict):
            return {name: filled(member) for name, member in value.items()}
        if not isinstance(value, str) or "{{" not in value:
            return value
        try:
            text = environment.from_string(value).render(context)
            return value if isinstance(text, jinja2.Undefined) else text
        except (jinja2.TemplateError, TypeError, ValueError):
            return value

    return {name: filled(value) for name, value in variables.items()}


class _Sandbox(SandboxedEnvironment, NativeEnvironment):
    """Templates of a user's file give values, and reach nothing of the controller."""


# ---- the machine --------------------------------------------------------------------------------


def warnings(parameters: Parameters, catalog: Catalog, project: Path) -> list[str]:
    """Checks that the dry run could not make, work that the nodes do without, and storage that is
    paid for and that no variable names."""
    notes = []
    row, image = _image(parameters, catalog), parameters.nodes.image or parameters.image
    if row:
        notes += _without(parameters, catalog, project)
        if row["image"] != image:
            notes.append(
                f"the image {image} is planned as {row['image']} of {row['date']}: its own drivers"
                " may be others"
            )
    else:
        notes.append(
            f"the image {image} is not in catalog/azure.yml: Python,"
            " glibc, CUDA and disks are not checked before the machines are made"
        )
    sets = template.scale_sets(parameters, catalog)
    if len(sets) > 1:
        link = (
            "InfiniBand" if catalog.sizes[parameters.nodes.size].get("rdma_nics") else "placement"
        )
        notes.append(
            f"{parameters.nodes.count} nodes are {len(sets)} scale sets of up to"
            f" {MOST_IN_ONE_GROUP}, a placement group each: {link} is known to reach the"
            " nodes of one set; from set to set it is documented nowhere"
            " (playbooks/pairwise.yml measures it), and Slurm gets a switch for each set"
        )
    storage, mounted = parameters.storage, deployment.MOUNTED
    if storage.kind != "none" and not any(
        mounted in text for text in new_machine.texts(parameters.variables)
    ):
        notes.append(
            f"nothing of this run writes to the {storage.tib} TiB of storage ({storage.kind}),"
            f" which is mounted at {mounted}: name a folder of it in variables (fio_directory,"
            " training_save_directory, vllm_model_cache), or leave storage out"
        )
    return notes


def _without(parameters: Parameters, catalog: Catalog, project: Path) -> list[str]:
    """Roles, and parts of benchmarks, that the nodes do without; and plans that only a node makes.
    Of benchmarks as a whole, and of a preset that is not there, ``missing`` speaks."""
    try:
        variables = _variables(parameters, catalog, project)
    except BadInput:
        return []
    recipe = _recipe(parameters, catalog, {}, project, variables)
    planned, notes = _planned(recipe)
    benchmarks = needed(planned, recipe.benchmarks(), variables)
    skipped = [each for planned_role in planned.values() for each in planned_role.plan.skipped]
    notes += [
        f"without {subject}: {reason}" for subject, reason in skipped if subject not in benchmarks
    ]
    return list(dict.fromkeys(notes))


def _reboots_of_windows(recipe: Recipe) -> Iterator[Missing]:
    if not recipe.made.nodes.windows:
        return
    for variable, cause in _WINDOWS_REBOOTS.items():
        if not recipe.allows(variable):
            yield Missing(
                "reboot",
                f"{cause} needs a reboot of each new machine: set {variable}: true in variables",
            )


def of_drivers(work: Work, planned: Mapping[str, Planned]) -> Iterator[Missing]:
    """Reboots of the driver roles that are not allowed, and a driver that is too old."""
    for role, cause in drivers.reboots(planned):
        if not work.allows(f"{role}_reboot_allowed"):
            yield Missing("reboot", f"{cause}: set {role}_reboot_allowed: true in variables")
    for role, text in drivers.too_old(planned, Roles(work.project)):
        yield Missing("driver", f"{role}: {text}")


# ---- vLLM ---------------------------------------------------------------------------------------


def endpoints(recipe: Work, planned: Planned | None) -> Iterator[Missing]:
    """Needs of vLLM's endpoints that no plan speaks of."""
    configured = recipe.variables.get("vllm_endpoints")
    if not isinstance(configured, list) or not configured:
        yield Missing("plan", "vllm is measured and vllm_endpoints is empty: name an endpoint")
        return
    for endpoint in configured:
        if isinstance(endpoint, dict):
            yield from _endpoint(recipe, endpoint)
    if planned and not planned.plan.refused and not planned.plan.skipped:
        files = planned.plan.values["environment"]["requirements"]
        yield from _local_pins(planned.inputs, "vllm", files)


def _endpoint(recipe: Work, endpoint: Mapping[str, Any]) -> Iterator[Missing]:
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
        if recipe.licences is not None and gated not in recipe.licences:
            yield Missing(
                "licence",
                f"{model} is under the licence {gated}: accept it at {page}, and say so in your"
                f" file of parameters (accepted_licences: [{gated}])",
            )
    reboots = [
        kernel["name"] for kernel in served.get("kernels", []) if kernel.get("reboot_needed")
    ]
    if reboots and not recipe.allows("vllm_reboot_allowed"):
        yield Missing(
            "reboot",
            f"{' and '.join(reboots)} of the vLLM recipe {endpoint.get('recipe')} sets parameters"
            " of the driver, which need a reboot: set vllm_reboot_allowed: true in variables",
        )


def _models(recipe: Work) -> dict[str, Any]:
    user_recipes = recipe.variables.get("vllm_recipes")
    return {
        **Roles(recipe.project).catalog("vllm_recipes.yml")["recipes"],
        **(user_recipes if isinstance(user_recipes, dict) else {}),
    }


def _full_disks(recipe: Recipe, planned: Planned | None) -> Iterator[Missing]:
    """Disks that are smaller than all that is put on them."""
    if planned is None or planned.plan.refused or planned.plan.skipped:
        return
    nodes, row = recipe.made.nodes, recipe.known.sizes[recipe.made.nodes.size]
    bytes_by_disk: dict[str, int] = {}
    for space in planned.plan.values["spaces"]:
        path = str(space["path"])
        if not path.startswith(("/dev/shm", deployment.MOUNTED)):  # noqa: S108 WHY: a name
            disk = SCRATCH if path.startswith(SCRATCH) else "/"
            bytes_by_disk[disk] = bytes_by_disk.get(disk, 0) + int(space["bytes"])
    scratch = int(row.get("nvme_disks") or 0) * float(row.get("nvme_gib_each") or 0)
    sizes = {"/": float(nodes.os_disk_gib), SCRATCH: scratch}
    for disk, needed in bytes_by_disk.items():
        if needed > sizes[disk] * GIB:
            mend = "raise nodes.os_disk_gib" if disk == "/" else "set vllm_model_cache"
            yield Missing(
                "disk",
                f"model and environment need {needed / GIB:,.0f} GiB on {disk}, which has"
                f" {sizes[disk]:,.0f} GiB: {mend}",
            )


# ---- the first node -----------------------------------------------------------------------------


def _machine(recipe: Recipe) -> Machine:
    """The first node, before the run's roles were there."""
    parameters = recipe.made
    image = new_machine.with_paths(recipe.image, recipe.variables)
    image["join"] = parameters.nodes.join
    size, row = parameters.nodes.size, recipe.known.sizes[parameters.nodes.size]
    node = new_machine.of_image(
        size, recipe.known.sizes, image, disk_gib=parameters.nodes.os_disk_gib
    )
    node = new_machine.with_catalog(node, size, row)
    names = [f"node-{number + 1}" for number in range(parameters.nodes.count)]
    facts = {"trueup_node": node}
    hosts = {
        name: {"ansible_host": f"{_ADDRESS}{4 + at}", "ansible_facts": facts, **facts}
        for at, name in enumerate(names)
    }
    kind = parameters.storage.kind
    mounts = [{"path": deployment.MOUNTED, "kind": kind, "source": _SOURCES.get(kind)}]
    return Machine(
        node=node,
        answer=functools.partial(new_machine.answer, node, image),
        host=names[0],
        hosts=names,
        hostvars=hosts,
        groups={_COMPUTE: names, "all": names, **dict.fromkeys(recipe.groups(), names)},
        variables={
            **({} if kind == "none" else {"shared_storage_mounts": mounts}),
            **recipe.variables,
            **facts,
            "trueup_family_roles": recipe.family["roles"],
            "trueup_cluster_roles": recipe.cluster_roles(),
            "trueup_plan": recipe.benchmarks(),
        },
        secrets=recipe.secrets(),
    )


def _local_pins(inputs: PlanInputs, role: str, files: list[str]) -> Iterator[Missing]:
    """Pins that PyPI cannot have, without another source for them."""
    if inputs.options["pip_find_links"]:
        return
    pins = [pin for name in files for pin in _LOCAL_PIN.findall(inputs.text(name))]
    if pins:
        yield Missing(
            "index",
            f"{' and '.join(pins)} is not on PyPI: give a page or a folder of the nodes that has"
            f" its wheel as {role}_pip_find_links in variables (docs/benchmarks/{role}.md)",
        )
