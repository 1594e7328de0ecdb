"""What a simulated Windows host has of FSLogix: the zip, its installer and what that leaves."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from .host import File, Installer, Leaves, Service
from .products import Product

if TYPE_CHECKING:
    from .host import Host

NEWEST = "3.26.826.17182"
URL = (
    "https://download.microsoft.com/download/ae6d2014-e692-45fa-a88b-ee552567cdc1/FSLogix_26.08.zip"
)
SHA256 = "129e111d4acf8502b9351e1cec0c92212dce8222ae5b8223163fbbea518e857c"
APPS = r"HKLM:\SOFTWARE\FSLogix\Apps"
_FOLDER = r"C:\Program Files\FSLogix\Apps"


def leaves(version: str = NEWEST) -> Leaves:
    """FSLogix as its installer leaves it: no setting, four groups, two services."""
    everyone = ["Everyone"]
    return Leaves(
        products={"Microsoft FSLogix Apps": Product(version, "Microsoft Corporation")},
        services={
            "frxsvc": Service("FSLogix Apps Services"),
            "frxccds": Service("FSLogix Cloud Caching Service", dependencies=["frxsvc"]),
        },
        files={rf"{_FOLDER}\frx.exe": File(b"simulated", version=version)},
        registry={
            APPS: {"InstallVersion": ["string", version], "InstallPath": ["string", f"{_FOLDER}\\"]}
        },
        groups={
            "FSLogix Profile Include List": everyone,
            "FSLogix Profile Exclude List": [],
            "FSLogix ODFC Include List": everyone,
            "FSLogix ODFC Exclude List": [],
        },
    )


def offer(host: Host, *, status: int = 0, version: str = NEWEST, sha256: str = SHA256) -> None:
    """Let the host download FSLogix 26.08 and run its installer.

    Args:
        host: that can.
        status: what the installer ends with; 3010 asks for a reboot.
        version: what it installs.
        sha256: what the zip's checksum is said to be; a zip of 100 MB is not here.
    """
    setup = f"simulated FSLogixAppsSetup.exe {version}".encode()
    holds = {r"x64\Release\FSLogixAppsSetup.exe": File(setup)}
    host.downloads[URL] = File(b"simulated zip", sha256=sha256, holds=holds)
    host.installers[hashlib.sha256(setup).hexdigest()] = Installer(
        arguments=["/install", "/quiet", "/norestart"],
        needs=["/install", "/quiet", "/norestart"],
        status=status,
        leaves=leaves(version),
        reboot=status == 3010,
    )
