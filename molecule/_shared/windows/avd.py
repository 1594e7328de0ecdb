"""Azure Virtual Desktop on the simulated host: what it is joined to, and Microsoft's installers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .agents import AGENT, BOOT_LOADER, KEY, SERVICE
from .host import File, Installer, Leaves, Service
from .products import Product

if TYPE_CHECKING:
    from .host import Host

_ENTRA = r"HKLM:\SYSTEM\CurrentControlSet\Control\CloudDomainJoin\JoinInfo"
_DOMAIN = r"HKLM:\SYSTEM\CurrentControlSet\Services\Tcpip\Parameters"
# Where Microsoft has them (Azure Virtual Desktop, add session hosts).
_PLACE = "https://query.prod.cms.rt.microsoft.com/cms/api/am/binary/"
AGENT_URL, BOOT_LOADER_URL = f"{_PLACE}RWrmXv", f"{_PLACE}RWrxrH"
MICROSOFT = "CN=Microsoft Corporation, O=Microsoft Corporation, L=Redmond, S=Washington, C=US"


def join(host: Host, to: str = "entra") -> None:
    """Join the host to Entra ID (``entra``) or to a domain by its DNS name."""
    if to == "entra":
        host.registry.make(rf"{_ENTRA}\0123456789ABCDEF0123456789ABCDEF01234567")
    else:
        host.registry.set(_DOMAIN, "Domain", "string", to)


def offer(host: Host, signer: str | None = MICROSOFT) -> None:
    """Put the agent and its boot loader where Microsoft has them, signed by whom."""
    publisher = "Microsoft Corporation"
    agent = Leaves(
        products={AGENT: Product("1.0.0.0", publisher, "{00000000-0000-0000-0000-00000000a9e1}")},
        registry={KEY: {"IsRegistered": ["dword", 0], "RegistrationToken": ["string", ""]}},
    )
    loader = Leaves(
        products={
            BOOT_LOADER: Product("1.0.0.0", publisher, "{00000000-0000-0000-0000-00000000b007}")
        },
        services={SERVICE: Service(BOOT_LOADER)},
    )
    for url, leaves in ((AGENT_URL, agent), (BOOT_LOADER_URL, loader)):
        file = File(url.encode(), signer=signer)
        host.downloads[url] = file
        product = next(iter(leaves.products.values()))
        host.installers[file.digest("sha256")] = Installer(
            arguments=["REGISTRATIONTOKEN="], leaves=leaves, product_code=product.product_id
        )
