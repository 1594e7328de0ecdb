"""The types of resources that the emulated cloud knows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import compute, desktops, network, rights, sets, windows
from .replies import Refused
from .resources import Provider, Resource, at

if TYPE_CHECKING:
    from .cloud import Cloud
    from .resources import Document


class Together(Provider):
    kind = "Microsoft.Compute/proximityPlacementGroups"
    rank = 3
    held = (409, "OperationNotAllowed")
    fixed = (("zones",), ("properties", "proximityPlacementGroupType"))


class Shutdown(Provider):
    """A daily schedule: kept, and never carried out."""

    kind = "Microsoft.DevTestLab/schedules"
    rank = 0

    def alone(self, cloud: Cloud, asked: Resource, before: Resource | None) -> None:
        machine = str(asked.properties.get("targetResourceId", ""))
        words = machine.split("/")
        if len(words) != 9 or words[7].lower() != "virtualmachines":
            said = f"A schedule's targetResourceId is a virtual machine, and not '{machine}'."
            raise Refused(400, "InvalidScheduleTarget", said)
        if asked.name.lower() != f"shutdown-computevm-{words[8].lower()}":
            said = f"The schedule of {words[8]} is called shutdown-computevm-{words[8]}."
            raise Refused(400, "InvalidScheduleName", said)


class Account(Provider):
    """A storage account: kept; its blobs are Azurite's."""

    kind = "Microsoft.Storage/storageAccounts"
    rank = 3

    def check(self, cloud: Cloud, asked: Resource, before: Resource | None) -> None:
        name = asked.name
        if not (3 <= len(name) <= 24 and name.isalnum() and name == name.lower()):
            said = f"{name} is not a valid storage account name: 3 to 24 small letters and digits."
            raise Refused(400, "AccountNameInvalid", said)
        others = (one for one in cloud.resources.values() if one.kind == self.kind)
        if any(one.name == name and one.key != asked.key for one in others):
            said = f"The storage account named {name} is already taken."
            raise Refused(409, "StorageAccountAlreadyTaken", said)
        if not at(asked.body, "sku", "name") or not asked.body.get("kind"):
            said = "A storage account needs a sku and a kind."
            raise Refused(400, "InvalidRequestContent", said)

    def part(self, cloud: Cloud, resource: Resource, words: list[str]) -> bool:
        # Azure makes it with the account.
        return words == ["blobservices", "default"]

    def add(self, cloud: Cloud, resource: Resource) -> Document:
        return {"primaryEndpoints": {"blob": f"https://{resource.name}.blob.core.windows.net/"}}


class Volume(Provider):
    """Where clients would mount a file system; nothing is there."""

    def __init__(self, kind: str, seconds: float, rank: int, subnet: str) -> None:
        self.kind, self.seconds, self.rank, self.subnet = kind, seconds, rank, subnet

    def add(self, cloud: Cloud, resource: Resource) -> Document:
        address = str(
            network.range_of(network.subnet(cloud, resource.properties[self.subnet])[1])[4]
        )
        if self.subnet == "subnetId":
            return {"mountTargets": [{"ipAddress": address}]}
        return {"clientInfo": {"mgsAddress": address}}


def _kept(kind: str, *, regional: bool = True, seconds: float = 1.0, rank: int = 3) -> Provider:
    """A type that is recorded only."""
    made = Provider()
    made.kind, made.regional, made.seconds, made.rank = kind, regional, seconds, rank
    return made


_ANF = "Microsoft.NetApp/netAppAccounts"
_BLOBS = "Microsoft.Storage/storageAccounts/blobServices"
PROVIDERS: dict[str, Provider] = {
    one.kind.lower(): one
    for one in (
        network.PublicAddress(),
        network.Rules(),
        network.Gateway(),
        network.Network(),
        network.Interface(),
        network.Bastion(),
        compute.VirtualMachine(),
        compute.Disk(),
        windows.Command(),
        windows.Extension(),
        sets.ScaleSet(),
        Together(),
        Shutdown(),
        Account(),
        *desktops.PROVIDERS,
        rights.Roles(),
        rights.Identity(),
        _kept(_BLOBS, regional=False),
        _kept(f"{_BLOBS}/containers", regional=False, rank=2),
        _kept(_ANF, rank=3),
        _kept(f"{_ANF}/capacityPools", rank=2),
        Volume(f"{_ANF}/capacityPools/volumes", 3.0, 1, "subnetId"),
        Volume("Microsoft.StorageCache/amlFilesystems", 5.0, 2, "filesystemSubnet"),
    )
}
