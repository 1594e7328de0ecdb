"""Parameters of a deployment: their models, a reader that names every wrong value at once, and the
rules that hold between them. The page of the parameters is written from the models' docstrings.

A recipe (catalog/azure_recipes) and a user's file hold the same members; the file's win. No YAML,
files, clock or network in here.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection, Mapping, Sequence
from datetime import date, datetime, timedelta, timezone
from typing import Annotated, Any, Callable, Literal

import msgspec
from msgspec import Meta
from msgspec.structs import replace
from trueup_node.errors import BadInput
from trueup_node.options import unwritable

from ..typed import fitting
from . import pull as pulled
from . import windows
from .catalog import Catalog, takes_premium

# Of a scale set with a single placement group, which InfiniBand needs.
MOST_IN_ONE_GROUP = 100
# A range of more addresses than a /16 is the internet, and no site.
_WIDEST = 16
# How the virtual network is shared out: half for nodes, /24s of the rest.
_NETWORK = range(16, 21)
_CUSTOM_DATA = 65535
_IMAGE = re.compile(r"[\w.-]+:[\w.-]+:[\w.-]+:\d+(\.\d+)+")
_GROUP = re.compile(r"[-\w.()]{0,89}[-\w()]")
_USER = re.compile(r"[a-z_][a-z0-9_-]{0,31}")
_RESERVATION = re.compile(
    r"/subscriptions/[^/]+/resourceGroups/[^/]+/providers/Microsoft.Compute"
    r"/capacityReservationGroups/[^/]+",
    re.IGNORECASE,
)
_VARIABLE = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_TAG = 256
# Of a Premium SSD: MicrosoftDocs/azure-compute-docs virtual-machines/disks-types.md, 2026-08.
_MOST_GIB = 32767
# azure-mgmt-compute 39.0.0, OSProfile.admin_username: names that Azure refuses.
_TAKEN_USERS = re.compile(
    "administrator|admin[12]?|a|actuser|adm|aspnet|backup|console|david|guest|john|owner|root"
    "|server|sql|support(_388945a0)?|sys|test[123]?|user[1-5]?"
)
Amlfs = Literal[
    "AMLFS-Durable-Premium-40",
    "AMLFS-Durable-Premium-125",
    "AMLFS-Durable-Premium-250",
    "AMLFS-Durable-Premium-500",
]
# TiB: the least, and the step. Two public configurations agree on them; the greatest is disputed.
AMLFS: Mapping[Amlfs, int] = {
    "AMLFS-Durable-Premium-40": 48,
    "AMLFS-Durable-Premium-125": 16,
    "AMLFS-Durable-Premium-250": 8,
    "AMLFS-Durable-Premium-500": 4,
}
# Kinds of lines of a price (cost.Line).
Kind = Literal[
    "nodes", "login", "server", "disks", "storage", "address", "nat", "bastion", "traffic"
]
Zone = Literal["", "1", "2", "3"]
Price = Annotated[float, Meta(ge=0, le=1e300, description="US$ an hour, 0 or more")]
# Ansible variables of secrets that can be made for a run, with the variable of the environment.
GENERATED = {"vllm_api_key": "VLLM_API_KEY"}


class Location(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where it is made.

    Attributes:
        region: Another region; empty: the same.
        zone: Availability zone there; empty: none.
    """

    region: str = ""
    zone: Zone = ""

    def __str__(self) -> str:
        return f"zone {self.zone} of {self.region}" if self.zone else self.region


class Nodes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The nodes.

    Attributes:
        size: VM size of the nodes. Required.
        count: How many nodes.
        system: Their system; `windows`: Windows multi-session for Azure Virtual Desktop
            ([azure_windows](../guides/azure_windows.md)).
        image: publisher:offer:sku:version of the nodes alone. Default: `image`; of Windows that of
            the family in catalog/azure.yml.
        join: What Windows nodes join: Microsoft Entra ID, or nothing.
        least: How many of them are enough where Azure does not give all; fewer are removed.
            Default: `nodes.count`.
        placement: `uniform` or `flexible`: a scale set with a single placement group, which
            InfiniBand between nodes needs, for each 100 nodes; `single`: separate VMs.
        proximity: Whether a proximity placement group holds the nodes together.
        priority: `spot` can be taken away.
        eviction: What becomes of a spot node that is taken away; a deallocated one keeps disks and
            quota.
        max_price: US$ an hour that a spot node may cost; -1: up to the list price.
        reservation: Id of a capacity reservation group.
        os_disk_gib: Size of each system disk in GiB.
        os_disk: Kind of the system disk.
    """

    size: str = ""
    count: Annotated[int, Meta(ge=1, le=1000)] = 1
    system: Literal["linux", "windows"] = "linux"
    image: str = ""
    join: Literal["none", "entra"] = "none"
    least: Annotated[int, Meta(ge=1)] = 0
    placement: Literal["uniform", "flexible", "single"] = "uniform"
    proximity: bool = False
    priority: Literal["regular", "spot"] = "regular"
    eviction: Literal["delete", "deallocate"] = "delete"
    max_price: Annotated[float, Meta(ge=-1e300, le=1e300)] = -1.0
    reservation: str = ""
    os_disk_gib: Annotated[int, Meta(ge=64, le=4095)] = 128
    os_disk: Literal["StandardSSD_LRS", "Premium_LRS"] = "StandardSSD_LRS"

    @property
    def spot(self) -> bool:
        return self.priority == "spot"

    @property
    def windows(self) -> bool:
        return self.system == "windows"


class Login(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The login node.

    Attributes:
        size: VM size of the login node; empty: none.
        os_disk_gib: Size of its system disk in GiB.
    """

    size: str = ""
    os_disk_gib: Annotated[int, Meta(ge=64, le=4095)] = 128


class Storage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Shared storage.

    Attributes:
        kind: Shared storage: a server of NFS, Azure NetApp Files or Azure Managed Lustre.
        tib: Its size in TiB; of a server that of all disks.
        server_size: VM size of the NFS server.
        server_disks: Premium SSDs of the NFS server.
        anf_level: Service level of Azure NetApp Files.
        amlfs_sku: MB/s a TiB of Azure Managed Lustre, in its name.
    """

    kind: Literal["none", "nfs", "anf", "amlfs"] = "none"
    tib: Annotated[int, Meta(ge=0, le=1024)] = 0
    server_size: str = ""
    server_disks: Annotated[int, Meta(ge=1, le=32)] = 4
    anf_level: Literal["Standard", "Premium", "Ultra"] = "Premium"
    amlfs_sku: Amlfs = "AMLFS-Durable-Premium-250"

    @property
    def server(self) -> str:
        """VM size of the NFS server; empty without one."""
        return self.server_size if self.kind == "nfs" else ""


class Stated(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The members of a recipe and of a file of parameters.

    Attributes:
        owner: Who answers for it; a tag on everything.
        region: Azure region. Required.
        zone: Availability zone; empty: none.
        elsewhere: Where it is made instead, in this order, when Azure has no room or no quota for
            it: each a region, a zone or both. Default: nowhere.
        resource_group: Its resource group. Default: trueup- and the recipe's name.
        expires: UTC time after which it may be removed, such as 2026-11-24T18:00Z.
        hours: How long it is kept, where `expires` is empty.
        max_usd_per_hour: US$ an hour above which it is refused. Default: no limit.
        prices: Your US$ an hour of lines that the price table does not have, each of one piece, by
            kind: nodes, login, server, disks, storage, address, nat, bastion, traffic. Default:
            those of the price table.
        unpriced_allowed: Kinds of lines that may be without a price under `max_usd_per_hour`.
            Default: none.
        accepted_licences: Licences that you have accepted, by the names that `trueup azure plan`
            asks for. Default: none.
        generated_secrets: Secrets that are made for the run where the controller's environment has
            none. They are in the run's folder, for its owner alone. Default: none.
        ssh_from: Ranges of addresses that may reach the login node by ssh. Default: none.
        ssh_from_anywhere: Whether a range of `ssh_from` may be wider than /16, such as 0.0.0.0/0.
        bastion: Whether there is an Azure Bastion, for ssh through Azure.
        outbound: How nodes reach the internet: a NAT gateway, or not at all.
        network: Addresses of the virtual network.
        admin_user: The user that ssh logs in as.
        image: publisher:offer:sku:version of nodes, login node and NFS server. Default: that of the
            family in catalog/azure.yml.
        security: Security type.
        secure_boot: Whether Secure Boot is on.
        switch: What deletes the run after `expires` when the controller is dead: the login node, or
            nothing.
        cloud_init: What cloud-init does on nodes, in its own words.
        pull: How nodes configure themselves ([azure_sets](../guides/azure_sets.md)).
        variables: Ansible variables of the nodes for this run, such as `trueup_benchmarks`; a
            file's win by name. Default: those of the recipe.
        nodes: The nodes. Required.
        login: The login node.
        storage: Shared storage.
    """

    owner: str = ""
    region: str = ""
    zone: Zone = ""
    elsewhere: list[Location] = []
    resource_group: str = ""
    expires: str = ""
    hours: Annotated[int, Meta(ge=1, le=720)] = 8
    max_usd_per_hour: Annotated[float, Meta(ge=0, le=1e300)] | None = None
    prices: dict[Kind, Price] = {}
    unpriced_allowed: list[Kind] = []
    accepted_licences: list[str] = []
    generated_secrets: list[Literal["vllm_api_key"]] = []
    ssh_from: list[str] = []
    ssh_from_anywhere: bool = False
    bastion: bool = False
    outbound: Literal["nat", "none"] = "nat"
    network: str = "10.42.0.0/16"
    admin_user: str = "azureuser"
    image: str = ""
    security: Literal["standard", "trusted_launch"] = "standard"
    secure_boot: bool = False
    switch: Literal["login", "none"] = "login"
    cloud_init: str = ""
    pull: pulled.Pull = pulled.Pull()
    variables: dict[str, Any] = {}
    nodes: Nodes = Nodes()
    login: Login = Login()
    storage: Storage = Storage()


class Parameters(Stated, frozen=True, kw_only=True):
    """A deployment that can be, of a recipe: its ``expires`` (in UTC), resource group, images and
    regions are filled in."""

    recipe: str

    def sizes(self) -> dict[str, str]:
        """The VM sizes, by the place that names them."""
        named = {
            "nodes.size": self.nodes.size,
            "login.size": self.login.size,
            "storage.server_size": self.storage.server,
        }
        return {path: size for path, size in named.items() if size}

    @property
    def place(self) -> Location:
        return Location(self.region, self.zone)

    def places(self) -> list[Parameters]:
        """The same in each place, in the order in which they are tried."""
        return [
            self,
            *(
                replace(self, region=location.region, zone=location.zone)
                for location in self.elsewhere
            ),
        ]

    def lacking(self) -> list[str]:
        """Missing parameters that a deployment needs and a plan does not; a sentence each."""
        missing = [] if self.owner else ["owner is empty: say who answers for it"]
        if not self.bastion and not (self.login.size and self.ssh_from):
            missing.append(
                "nothing outside can reach it: give your range of addresses as ssh_from (such as"
                " 203.0.113.7/32) with a login node, or bastion: true"
            )
        return missing


def read(
    recipe: str,
    layers: Sequence[Mapping[str, Any]],
    catalog: Catalog,
    now: datetime,
) -> Parameters:
    """The deployment of a recipe.

    Args:
        recipe: its name.
        layers: the recipe and the user's file; a later one wins.
        catalog: sizes, images, regions.
        now: for ``hours``, and for an expiry in the past.

    Raises:
        BadInput: every value that cannot be, in one message.
    """
    values: dict[str, Any] = {}
    for layer in layers:
        if not isinstance(layer, Mapping):
            raise BadInput(f"recipe {recipe}: a file of parameters is a mapping of names to values")
        for name, value in _plain(layer).items():
            below = values.get(name)
            if isinstance(value, Mapping) and isinstance(below, Mapping):
                values[name] = {**below, **value}
            else:
                values[name] = value
    wrong = {name: text for name in values if (text := unwritable(values[name], name))}
    stated, misfits = fitting({name: values[name] for name in values if name not in wrong}, Stated)
    wrong |= misfits
    for path, value in (("region", stated.region), ("nodes.size", stated.nodes.size)):
        if not value and not {path.partition(".")[0], path} & set(wrong):
            wrong[path] = f"{path} is missing"
    parameters = _made(recipe, stated, catalog, now)
    problems = [*wrong.values()]
    for needs, rule in _RULES:
        if not _touched(wrong, needs):
            problems += rule(parameters, catalog, now)
    if problems:
        count = "a value is" if len(problems) == 1 else f"{len(problems)} values are"
        raise BadInput(f"recipe {recipe}: {count} wrong: {'; '.join(problems)}")
    return parameters


def _plain(layer: Mapping[Any, Any]) -> dict[str, Any]:
    """YAML's times as the text that they were."""
    plain = {str(name): value for name, value in layer.items()}
    expires = plain.get("expires")
    if isinstance(expires, datetime):
        zone = expires if expires.tzinfo else expires.replace(tzinfo=timezone.utc)
        plain["expires"] = zone.isoformat()
    elif isinstance(expires, date):
        plain["expires"] = f"{expires.isoformat()}T00:00Z"
    return plain


def _touched(bad: Collection[str], needs: Sequence[str]) -> bool:
    """Whether a value that a rule looks at is wrong by itself."""
    return any(
        path == need or path.startswith(f"{need}.") or need.startswith(f"{path}.")
        for path in bad
        for need in needs
    )


def _made(recipe: str, stated: Stated, catalog: Catalog, now: datetime) -> Parameters:
    nodes, login, storage = stated.nodes, stated.login, stated.storage
    least = nodes.least or nodes.count
    nodes = replace(nodes, size=catalog.size(nodes.size) or nodes.size, least=least)
    login = replace(login, size=catalog.size(login.size) or login.size)
    server = catalog.size(storage.server_size) or storage.server_size
    image, node_image = _images(stated.image, nodes, login, catalog)
    ends = now.astimezone(timezone.utc) + timedelta(hours=stated.hours)
    parsed = _time(stated.expires)
    filled = {
        "region": _region_name(stated.region),
        "elsewhere": [
            replace(location, region=_region_name(location.region or stated.region))
            for location in stated.elsewhere
        ],
        "resource_group": stated.resource_group or f"trueup-{recipe}",
        "expires": (parsed or ends).strftime("%Y-%m-%dT%H:%MZ")
        if parsed or not stated.expires
        else "",
        "image": image,
        "nodes": replace(nodes, image=node_image),
        "login": login,
        "storage": replace(storage, server_size=server),
    }
    return Parameters(recipe=recipe, **{**msgspec.structs.asdict(stated), **filled})


def _images(image: str, nodes: Nodes, login: Login, catalog: Catalog) -> tuple[str, str]:
    """The image of Linux machines, and that of the nodes where it is another one."""
    if not nodes.windows:
        return image or catalog.image(nodes.size) or "", nodes.image
    return (
        image or catalog.image(login.size) or "",
        nodes.image or catalog.image(nodes.size, "windows_images") or "",
    )


def _region_name(text: str) -> str:
    return text.lower().replace(" ", "")


def _time(text: str) -> datetime | None:
    """A time with its zone, in UTC; None where it is none."""
    try:
        parsed = datetime.fromisoformat(text.replace("Z", "+00:00"))
        return parsed.astimezone(timezone.utc) if parsed.tzinfo else None
    except (ValueError, OverflowError):
        return None


# ---- rules between values: each gives a sentence for each problem -------------------------------


def _sizes(parameters: Parameters, catalog: Catalog, _now: datetime) -> list[str]:
    problems = []
    for path, size in parameters.sizes().items():
        status = str(catalog.sizes.get(size, {}).get("status", ""))
        if size not in catalog.sizes:
            near = catalog.near_size(size)
            hint = f": did you mean {near}?" if near else ""
            problems.append(f"{path} is {size!r}, which the catalog does not know{hint}")
        elif status.startswith("retired"):
            problems.append(f"{path} is {size}, which is {status}")
    return problems


def _region(parameters: Parameters, catalog: Catalog, _now: datetime) -> list[str]:
    """A size that the region does not sell; of a region without any price nothing is known."""
    if parameters.region not in catalog.priced_regions():
        return []
    missing = {
        path: size
        for path, size in parameters.sizes().items()
        if size in catalog.sizes
        and catalog.sold.get(size.lower())
        and parameters.region not in catalog.sold[size.lower()]
    }
    if not missing:
        return []
    near, unplaced = catalog.others(list(parameters.sizes().values()), parameters.region)
    if near:
        hint = f"the nearest region that has all of it is {near[0][0]} ({near[0][1]:.0f} km)"
    elif unplaced:
        hint = f"all of it is sold in {', '.join(unplaced)}"
    else:
        hint = "no region of the price table has all of it"
    sizes = " and ".join(dict.fromkeys(missing.values()))
    text = f"region is {parameters.region}, which does not sell {sizes} as far as prices are known"
    return [f"{text}; {hint}"]


def _elsewhere(parameters: Parameters, catalog: Catalog, now: datetime) -> list[str]:
    problems = []
    every = parameters.places()
    for number, alternative in enumerate(every[1:]):
        where = f"elsewhere[{number}]"
        if alternative.place in [before.place for before in every[: number + 1]]:
            problems.append(f"{where} is {alternative.place}, which is tried before")
        elif alternative.region != parameters.region:
            problems += [f"{where}: {text}" for text in _region(alternative, catalog, now)]
    return problems


def _image(parameters: Parameters, catalog: Catalog, _now: datetime) -> list[str]:
    nodes = parameters.nodes
    # Login node and NFS server are of Linux, whatever the nodes are.
    every = [("image", parameters.image, parameters.login.size if nodes.windows else nodes.size)]
    if nodes.windows or nodes.image:
        every.append(("nodes.image", nodes.image, nodes.size))
    problems = []
    for path, image, size in every:
        if image and not _IMAGE.fullmatch(image):
            text = f"{path} is {image!r}: it must be publisher:offer:sku:version"
            problems.append(f"{text} with an exact version of digits, not latest")
        elif not image and catalog.family(size):
            text = f"{path} is empty, and none is pinned for {catalog.family(size)}"
            problems.append(f"{text}: give publisher:offer:sku:version")
    return problems


def _placement(parameters: Parameters, catalog: Catalog, _now: datetime) -> list[str]:
    nodes, problems = parameters.nodes, []
    if nodes.least > nodes.count:
        problems.append(f"nodes.least is {nodes.least}: it is at most nodes.count ({nodes.count})")
    if nodes.placement == "single" and nodes.count > MOST_IN_ONE_GROUP:
        problems.append(
            f"nodes.count is {nodes.count}: separate VMs of one template are at most"
            f" {MOST_IN_ONE_GROUP}; use a flexible set"
        )
    infiniband = catalog.sizes.get(nodes.size, {}).get("rdma_nics")
    if infiniband and nodes.count > 1 and nodes.placement == "single":
        problems.append(
            f"nodes.placement is single with {nodes.count} nodes of {nodes.size}: separate VMs"
            " share no placement group, so InfiniBand does not connect them; use uniform"
        )
    return problems


def _spot(parameters: Parameters, _catalog: Catalog, _now: datetime) -> list[str]:
    nodes, problems = parameters.nodes, []
    if nodes.spot and nodes.reservation:
        problems.append("nodes.reservation is given with priority spot, which takes no reservation")
    if nodes.reservation and not _RESERVATION.fullmatch(nodes.reservation):
        problems.append(
            f"nodes.reservation is {nodes.reservation!r}: it must be"
            " /subscriptions/.../providers/Microsoft.Compute/capacityReservationGroups/NAME"
        )
    if nodes.max_price != -1 and not nodes.spot:
        problems.append("nodes.max_price is for spot nodes, and nodes.priority is regular")
    elif nodes.max_price != -1 and not nodes.max_price > 0:
        problems.append(f"nodes.max_price is {nodes.max_price:g}: it must be above 0, or -1")
    return problems


def _security(parameters: Parameters, catalog: Catalog, _now: datetime) -> list[str]:
    problems = []
    if parameters.security == "trusted_launch":
        unable = [size for size in parameters.sizes().values() if size in _listed(catalog)]
        problems += [
            f"security is trusted_launch, with which {size} cannot start: use standard"
            for size in dict.fromkeys(unable)
        ]
    elif parameters.secure_boot:
        problems.append("secure_boot is true, which needs security: trusted_launch")
    family = catalog.family(parameters.nodes.size)
    if (
        parameters.secure_boot
        and not parameters.nodes.windows
        and family in catalog.facts["secure_boot_off"]
    ):
        problems.append(
            f"secure_boot is true, with which the drivers of {parameters.nodes.size} do not load on"
            " Linux: leave it off"
        )
    return problems


def _listed(catalog: Catalog) -> Sequence[str]:
    sizes: Sequence[str] = catalog.facts["no_trusted_launch"]
    return sizes


def _disks(parameters: Parameters, _catalog: Catalog, _now: datetime) -> list[str]:
    problems = []
    if parameters.nodes.os_disk == "Premium_LRS" and not takes_premium(parameters.nodes.size):
        problems.append(
            f"nodes.os_disk is Premium_LRS, which {parameters.nodes.size} does not take"
        )
    if parameters.storage.server and not takes_premium(parameters.storage.server):
        problems.append(
            f"storage.server_size is {parameters.storage.server}, which takes no Premium SSD for"
            f" its data"
        )
    return problems


def _access(parameters: Parameters, _catalog: Catalog, _now: datetime) -> list[str]:
    problems = []
    for number, text in enumerate(parameters.ssh_from):
        path = f"ssh_from[{number}]"
        try:
            network = ipaddress.ip_network(text)
        except ValueError as error:
            problems.append(
                f"{path} is {text!r}: it must be a range such as 203.0.113.0/24 ({error})"
            )
            continue
        if network.version != 4:
            problems.append(f"{path} is {text!r}: the network has IPv4 addresses alone")
        elif network.prefixlen < _WIDEST and not parameters.ssh_from_anywhere:
            problems.append(
                f"{path} is {text}, which opens ssh to {network.num_addresses:,} addresses: give"
                " your own range, or say ssh_from_anywhere: true"
            )
    if parameters.ssh_from and not parameters.login.size:
        problems.append(
            "ssh_from is given without login.size: only a login node has a public address"
        )
    return problems


def _network(parameters: Parameters, _catalog: Catalog, _now: datetime) -> list[str]:
    try:
        network = ipaddress.ip_network(parameters.network)
    except ValueError as error:
        return [
            f"network is {parameters.network!r}: it must be a range such as 10.42.0.0/16 ({error})"
        ]
    if network.version != 4 or not network.is_private or network.prefixlen not in _NETWORK:
        text = f"network is {parameters.network}: it must be a private range of IPv4"
        return [f"{text} of /{_NETWORK[0]} to /{_NETWORK[-1]}"]
    return []


def _names(parameters: Parameters, _catalog: Catalog, _now: datetime) -> list[str]:
    problems = []
    if not _GROUP.fullmatch(parameters.resource_group):
        problems.append(
            f"resource_group is {parameters.resource_group!r}: it must have 1 to 90 letters,"
            f" digits, -, _, ., ( and ), and not end with a dot"
        )
    if not _USER.fullmatch(parameters.admin_user) or _TAKEN_USERS.fullmatch(parameters.admin_user):
        problems.append(
            f"admin_user is {parameters.admin_user!r}: it must be a Linux user's name of at most 32"
            " characters that Azure takes (not admin, root, user, test and the like)"
        )
    if len(parameters.owner) > _TAG or "\n" in parameters.owner:
        problems.append(
            f"owner has {len(parameters.owner)} characters: a tag has one line of at most {_TAG}"
        )
    return problems


def _expiry(parameters: Parameters, _catalog: Catalog, now: datetime) -> list[str]:
    ends = _time(parameters.expires)
    if ends is None:
        return ["expires is no time with its zone, such as 2026-11-24T18:00Z"]
    if ends <= now:
        return [f"expires is {parameters.expires}, which has passed"]
    return []


def _start(parameters: Parameters, _catalog: Catalog, _now: datetime) -> list[str]:
    text = parameters.cloud_init
    if not text:
        return []
    problems = ["cloud_init is given with pull, which writes it"] if parameters.pull.release else []
    if not text.startswith(("#cloud-config\n", "#!")):
        problems.append("cloud_init must begin with #cloud-config and a new line, or with #!")
    length = len(text.encode())
    if length > _CUSTOM_DATA:
        problems.append(f"cloud_init has {length:,} bytes: Azure takes at most {_CUSTOM_DATA:,}")
    return problems


def _pull(parameters: Parameters, catalog: Catalog, _now: datetime) -> list[str]:
    problems = pulled.wrong(parameters.pull)
    if not parameters.pull.release or problems:
        return problems
    if parameters.outbound == "none":
        problems.append("pull.release is given with outbound none: nodes cannot fetch it")
    for name in pulled.secret(parameters.variables):
        problems.append(f"variables has {name}, which pull would show to whoever is on a node")
    length = len(started(parameters, "20260101T000000Z-0000", catalog))
    if length > _CUSTOM_DATA:
        problems.append(
            f"variables: with them nodes get {length:,} bytes of at most {_CUSTOM_DATA:,}"
        )
    return problems


def started(parameters: Parameters, run: str, catalog: Catalog) -> str:
    """The cloud-init document of nodes; empty if there is none."""
    if not parameters.pull.release:
        return parameters.cloud_init
    return pulled.document(parameters.pull, run, parameters.variables, catalog.builds)


def _variables(parameters: Parameters, _catalog: Catalog, _now: datetime) -> list[str]:
    problems = []
    for name in parameters.variables:
        if not isinstance(name, str) or not _VARIABLE.fullmatch(name):
            problems.append(f"variables has {name!r}, which is no name of an Ansible variable")
        elif name.startswith("ansible_"):
            problems.append(f"variables has {name}: how a node is reached is the run's own")
    return problems


def _storage(parameters: Parameters, _catalog: Catalog, _now: datetime) -> list[str]:
    storage = parameters.storage
    if storage.kind == "none":
        return ["storage.tib is given without storage.kind"] if storage.tib else []
    problems = []
    if storage.tib < 1:
        problems.append(f"storage.tib is {storage.tib}: {storage.kind} needs 1 or more")
    step = AMLFS[storage.amlfs_sku]
    if storage.kind == "amlfs" and storage.tib % step:
        problems.append(
            f"storage.tib is {storage.tib}: {storage.amlfs_sku} comes in multiples of {step} TiB"
        )
    if storage.kind == "anf" and storage.tib > 100:
        problems.append(f"storage.tib is {storage.tib}: one volume has at most 100 TiB")
    if storage.kind == "nfs" and not storage.server_size:
        problems.append("storage.server_size is empty, and kind nfs needs a server")
    each = storage.tib * 1024 / storage.server_disks
    if storage.kind == "nfs" and each > _MOST_GIB:
        problems.append(
            f"storage.server_disks is {storage.server_disks}: a disk has at most {_MOST_GIB:,}"
            f" GiB, and these would have {each:,.0f}"
        )
    return problems


_Rule = Callable[[Parameters, Catalog, datetime], list[str]]
# Each with the values that it reads: the rule is skipped if one of them is wrong by itself.
_RULES: Sequence[tuple[tuple[str, ...], _Rule]] = (
    (("nodes.size", "login.size", "storage.server_size", "storage.kind"), _sizes),
    (("region", "nodes.size", "login.size", "storage.server_size", "storage.kind"), _region),
    (
        ("elsewhere", "region", "zone", "nodes.size", "login.size", "storage.server_size"),
        _elsewhere,
    ),
    (("image", "nodes.image", "nodes.system", "nodes.size", "login.size"), _image),
    (
        (
            *("nodes", "login.size", "storage.kind", "cloud_init", "pull", "outbound"),
            *("admin_user", "security"),
        ),
        windows.wrong,
    ),
    (("nodes.size", "nodes.count", "nodes.least", "nodes.placement"), _placement),
    (("nodes.priority", "nodes.reservation", "nodes.max_price"), _spot),
    (("security", "secure_boot", "nodes.size", "nodes.system"), _security),
    (("nodes.size", "nodes.os_disk", "storage.server_size"), _disks),
    (("ssh_from", "ssh_from_anywhere", "login.size"), _access),
    (("network",), _network),
    (("resource_group", "admin_user", "owner"), _names),
    (("expires", "hours"), _expiry),
    (("cloud_init", "pull"), _start),
    (("pull", "variables", "outbound"), _pull),
    (("variables",), _variables),
    (("storage",), _storage),
)
