"""Azure's machines as Ansible's hosts: trueup_controller.azure as an inventory plugin."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ansible.constants import config
from ansible.errors import AnsibleError, AnsibleParserError
from ansible.module_utils.urls import open_url
from ansible.plugins.inventory import BaseInventoryPlugin, Cacheable, Constructable

# Whoever has trueup's plugins in an Ansible of another environment.
try:
    from trueup_controller.azure import login, machines
    from trueup_controller.azure.machines import Machine
    from trueup_controller.azure.manager import Manager
    from trueup_controller.azure.selection import Selection
    from trueup_controller.project import CATALOG
    from trueup_controller.sizes import read_sizes
    from trueup_node.errors import BadInput, TrueupError
    from trueup_node.suggest import did_you_mean
except ModuleNotFoundError as missing:
    message = (
        f"The Python of this Ansible has no {missing.name}, which azure_hpc needs: run `make azure`"
        " in trueup's checkout, and use the ansible programs in its .venv/bin."
    )
    raise AnsibleError(message) from None

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

DOCUMENTATION = r"""
name: azure_hpc
short_description: Azure's virtual machines and scale sets, by Resource Graph
description:
  - Lists the virtual machines of subscriptions with one Resource Graph query of a page for each
    1,000, and the instances of uniform scale sets with another and one call for each set.
  - azure-cli-core signs in with what C(az login) left (user, service principal, managed identity).
  - A host has Azure's facts as variables that begin with C(azure_), C(ansible_host), and what the
    roles read (C(slurm_node_address), C(slurm_placement_group)). Expressions see the facts without
    C(azure_), under the names of azure.azcollection.azure_rm.
  - Each host is in groups C(azure_linux) or C(azure_windows), C(azure_location_*), C(azure_size_*),
    C(azure_zone_*), C(azure_resource_group_*), C(azure_scale_set_*), C(azure_placement_*) and
    C(azure_priority_*); those of Windows are in C(windows) too. No group is called as a family,
    which identify finds out.
extends_documentation_fragment: [constructed, inventory_cache]
options:
  plugin:
    description: The name of this plugin.
    required: true
    choices: [azure_hpc, trueup.azure_hpc.azure_hpc]
  subscriptions:
    description: Ids or names of subscriptions of one tenant; the login's default one without any.
    type: list
    elements: str
    default: []
    aliases: [subscription_id]
  include_vm_resource_groups:
    description: Resource groups of virtual machines, members of flexible scale sets among them.
    type: list
    elements: str
    default: ['*']
  include_vmss_resource_groups:
    description: Resource groups of uniform scale sets. An empty list leaves them out.
    type: list
    elements: str
    default: ['*']
  include:
    description: JMESPath expressions; machines for which one is true become hosts, all without any.
    type: raw
    default: []
  exclude:
    description: JMESPath expressions; machines for which one is true are left out.
    type: raw
    default: ["powerstate != 'running'"]
  hostnames:
    description:
      - Expressions of Jinja for a host's name; the first that gives one counts.
      - C(default) is the machine's name. Four hexadecimal digits follow where several have it.
    type: list
    elements: str
    default: [default]
  connect_to:
    description: Which address C(ansible_host) is; a machine without a public one has the other.
    choices: [private, public]
    default: private
  selected_groups:
    description:
      - Groups by name, each with a JMESPath expression that is true of its members.
      - An expression is compiled once. Of C(groups), Ansible compiles each again for every host, a
        millisecond each time.
    type: dict
    default: {}
  conditional_groups:
    description: The same as C(groups), under azure_rm's name.
    type: dict
    default: {}
  hostvar_expressions:
    description: The same as C(compose), under azure_rm's name.
    type: dict
    default: {}
  strict:
    description: Whether an expression that fails ends the inventory; else that value is left out.
    type: bool
    default: true
    aliases: [fail_on_template_errors]
  ca_path:
    description: File of the certificate authorities to trust, where the system's are not enough.
    type: path
    default: ''
    env: [{name: REQUESTS_CA_BUNDLE}]
  time_limit_seconds:
    description: How long all calls together may take, with all waiting.
    type: int
    default: 120
"""

EXAMPLES = r"""
# azure_hpc.yml
plugin: azure_hpc
subscriptions: [hpc-production]
include: ["tags.cluster == 'one'"]
exclude: ["powerstate != 'running'", "priority == 'Spot'"]
selected_groups:
  slurm_controller: tags.role == 'scheduler'
  slurm_compute: tags.role == 'compute'
keyed_groups:
  - {key: tags.team | default('nobody'), prefix: azure_team}
"""

# Of azure_rm, whose meaning is another one here.
_JINJA = ("exclude_host_filters", "include_host_filters", "default_host_filters")
_LISTED = 5
_SIZES = CATALOG / "vm_sizes.csv"


class InventoryModule(BaseInventoryPlugin, Constructable, Cacheable):
    """Ansible's entry."""

    NAME = "azure_hpc"

    def verify_file(self, path: str) -> bool:
        return bool(super().verify_file(path)) and path.endswith(
            ("azure_hpc.yml", "azure_hpc.yaml")
        )

    def parse(self, inventory: Any, loader: Any, path: str, cache: bool = True) -> None:
        super().parse(inventory, loader, path, cache)
        options = self._read_config_data(path)
        try:
            documented = config.get_configuration_definitions("inventory", self._load_name)
            refuse_unknown(options, documented)
            self._populate(self._chosen(self._machines(path, cache)))
        except TrueupError as error:
            raise AnsibleParserError(f"azure_hpc: {error}") from None

    def _machines(self, path: str, cache: bool) -> list[Machine]:
        """The machines, of the cache where it is in use and has them."""
        names = ("subscriptions", "include_vm_resource_groups", "include_vmss_resource_groups")
        query = {name: self.get_option(name) for name in names}
        # Another question has another answer, also in a file of the same name.
        digest = hashlib.sha256(json.dumps(query).encode()).hexdigest()[:8]
        key = f"{self.get_cache_key(path)}_{digest}"
        used = bool(self.get_option("cache"))
        if used and cache:
            vms = of_cache(self._cache.get(key))
            if vms is not None:
                return vms
        seconds = self.get_option("time_limit_seconds")
        if seconds < 1:
            raise BadInput(f"time_limit_seconds is {seconds}; write 1 or more")
        manager = Manager(
            login.sign_in(query["subscriptions"]),
            open_url,
            ca_path=self.get_option("ca_path") or None,
            deadline_seconds=seconds,
        )
        vms = machines.machines(
            manager, query["include_vm_resource_groups"], query["include_vmss_resource_groups"]
        )
        self.display.v(f"azure_hpc: {len(vms)} machines by {manager.calls} calls")
        if not vms:
            self.display.warning(
                "azure_hpc: Azure lists no machine in the subscriptions"
                f" {', '.join(manager.login.subscriptions)} and resource groups asked for; a login"
                " without the role Reader is shown none either"
            )
        if used:
            self._cache[key] = [asdict(vm) for vm in vms]
        return vms

    def _chosen(self, vms: Sequence[Machine]) -> list[tuple[Machine, dict[str, Any]]]:
        """The machines that include and exclude leave, with their facts for expressions."""
        fact_names = machines.facts(Machine("", ""))
        include, exclude = (
            Selection(name, expressions(name, self.get_option(name)), fact_names)
            for name in ("include", "exclude")
        )
        chosen, left_out = [], []
        for vm in vms:
            facts = machines.facts(vm)
            taken = not include.texts or include.takes(vm.name, facts)
            if taken and not exclude.takes(vm.name, facts):
                chosen.append((vm, facts))
            else:
                left_out.append(f"{vm.name} ({vm.power})")
        if left_out:
            some = ", ".join(left_out[:_LISTED]) + (", ..." if len(left_out) > _LISTED else "")
            message = f"azure_hpc: include and exclude leave out {len(left_out)} machines: {some}"
            (self.display.v if chosen else self.display.warning)(message)
        return chosen

    def _populate(self, chosen: Sequence[tuple[Machine, dict[str, Any]]]) -> None:
        strict, connect_to = self.get_option("strict"), self.get_option("connect_to")
        compose = {**self.get_option("hostvar_expressions"), **self.get_option("compose")}
        groups = {**self.get_option("conditional_groups"), **self.get_option("groups")}
        fact_names = machines.facts(Machine("", ""))
        selected = {
            group: Selection(f"selected_groups.{group}", expressions(group, text), fact_names)
            for group, text in self.get_option("selected_groups").items()
        }
        refuse_families([*groups, *selected])
        keyed = self.get_option("keyed_groups")
        default_names = machines.host_names([vm for vm, _ in chosen])
        names = [self._name(default_names[vm.id], facts) for vm, facts in chosen]
        refuse_twins(names, [vm.id for vm, _ in chosen])
        before = set(self.inventory.groups)
        for name, (vm, facts) in zip(names, chosen, strict=True):
            self.inventory.add_host(name)
            for key, value in machines.hostvars(vm, connect_to).items():
                self.inventory.set_variable(name, key, value)
            member_of = [group for group, by in selected.items() if by.takes(name, facts)]
            mine = [self._sanitize_group_name(group) for group in member_of]
            for group in [*machines.own_groups(vm), *mine]:
                self.inventory.add_group(group)
                self.inventory.add_child(group, name)
            self._set_composite_vars(compose, facts, name, strict=strict)
            self._add_host_to_composed_groups(groups, facts, name, strict=strict)
            self._add_host_to_keyed_groups(keyed, facts, name, strict=strict)
        refuse_families(set(self.inventory.groups) - before)

    def _name(self, default_name: str, facts: dict[str, Any]) -> str:
        errors = []
        for text in self.get_option("hostnames"):
            if text == "default":
                return default_name
            try:
                name = self._compose(text, facts)
            except AnsibleError as error:
                errors.append(" ".join(str(error).split()))
                continue
            if name:
                return str(name)
        reason = f" ({errors[0][:200]})" if errors else ""
        raise BadInput(
            f"hostnames gives no name for {default_name}{reason}; add default as its last entry"
        )


def refuse_unknown(
    file_options: Mapping[str, Any], options: Mapping[str, Mapping[str, Any]]
) -> None:
    """Refuse options that the plugin does not have: Ansible would not say a word."""
    option_names = {name for name, option in options.items() for name in (name, *_aliases(option))}
    for name in file_options:
        if name in _JINJA:
            raise BadInput(
                f"{name} is azure_rm's and holds Jinja: write the conditions as JMESPath in include"
                " or exclude"
            )
        if name not in option_names:
            raise BadInput(f"there is no option {name}{did_you_mean(name, option_names)}")


def _aliases(option: Mapping[str, Any]) -> list[str]:
    return [
        alias if isinstance(alias, str) else alias["name"] for alias in option.get("aliases", [])
    ]


def expressions(option: str, value: Any) -> list[str]:
    """The expressions of an option: one text, or a list of them."""
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not all(isinstance(text, str) and text for text in texts):
        raise BadInput(f"{option} is {value!r}; write a list of JMESPath expressions")
    return texts


def of_cache(cached: Any) -> list[Machine] | None:
    """The machines of the cache; None where it has none, or those of another version."""
    if not isinstance(cached, list):
        return None
    try:
        return [Machine(**{**entry, **_tuples(entry)}) for entry in cached]
    except (TypeError, KeyError):
        return None


def _tuples(entry: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    return {name: tuple(entry[name]) for name in ("zones", "private", "public", "public_names")}


def refuse_families(groups: Iterable[str]) -> None:
    """A family's group is identify's word: a resized machine would be configured as two."""
    families = {row["family"] for row in read_sizes(str(_SIZES)).values()}
    wrong = sorted(families.intersection(groups))
    if wrong:
        raise BadInput(
            f"the group {wrong[0]} is a family, which identify finds out on the machine itself;"
            f" call it azure_{wrong[0]}"
        )


def refuse_twins(names: Sequence[str], ids: Sequence[str]) -> None:
    """Two machines of one name would be one host with the variables of both."""
    machine_by_name: dict[str, str] = {}
    for name, machine in zip(names, ids, strict=True):
        if name in machine_by_name:
            raise BadInput(
                f"hostnames gives the name {name} to {machine_by_name[name]} and to {machine}"
            )
        machine_by_name[name] = machine
