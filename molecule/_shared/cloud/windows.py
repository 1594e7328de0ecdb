"""Windows VMs of the emulated cloud: what Azure refuses of them, and what is done inside one by a
run command and an extension.

Which machine that is, is the hardware's business (containers.py: a simulated Windows host).
Sources: azure-mgmt-compute 39.0.0 (OSProfile); where it names no code of a refusal, it is ours.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .replies import Refused
from .resources import Provider, Resource, at, need

if TYPE_CHECKING:
    from .cloud import Cloud
    from .resources import Document

VM = "Microsoft.Compute/virtualMachines"
LONGEST_NAME, LONGEST_USER = 15, 20
_FORBIDDEN = {
    *("abc@123", "P@$$w0rd", "P@ssw0rd", "P@ssword123", "Pa$$word", "pass@word1", "Password!"),
    *("Password1", "Password22", "iloveyou!"),
}
_KINDS = (r"[a-z]", r"[A-Z]", r"\d", r"[\W_]")
# Scripts that run commands may hold, by what they do: trueup's own.
_SCRIPTS = Path(__file__).resolve().parents[3] / "controller" / "trueup_controller" / "desktops"
REMOTING = _SCRIPTS / "winrm.ps1"
JOIN = ("Microsoft.Azure.ActiveDirectory", "AADLoginForWindows")


def system_of(profile: Document) -> str:
    """Windows or Linux: by the publisher of the image, which says it here."""
    publisher = str(at(profile, "storageProfile", "imageReference", "publisher") or "")
    return "Windows" if publisher.lower().startswith("microsoftwindows") else "Linux"


def refuse(profile: Document) -> None:
    """Refuse what a VM's system and its profile cannot be together."""
    system = at(profile, "osProfile") or {}
    licence = profile.get("licenseType")
    if system_of(profile) == "Linux":
        if system.get("windowsConfiguration"):
            raise _bad("windowsConfiguration", "is for Windows images")
        if str(licence or "").startswith("Windows"):
            raise _bad("licenseType", f"{licence} is for Windows images")
        return
    if system.get("linuxConfiguration"):
        raise _bad("linuxConfiguration", "is for Linux images")
    if licence not in (None, "None", "Windows_Client", "Windows_Server"):
        raise _bad("licenseType", f"{licence} is not for Windows images")
    need(profile, "osProfile.adminPassword")
    name, user = str(system.get("computerName", "")), str(system.get("adminUsername", ""))
    if len(name) > LONGEST_NAME or name.isdigit():
        said = f"'{name}' has at most {LONGEST_NAME} characters, and not digits alone"
        raise _bad("computerName", said)
    if len(user) > LONGEST_USER or user.endswith("."):
        raise _bad("adminUsername", f"'{user}' has at most {LONGEST_USER} characters, and no dot")
    password = str(system["adminPassword"])
    # Before a deployment it is still an expression.
    if password.startswith("["):
        return
    kinds = sum(bool(re.search(kind, password)) for kind in _KINDS)
    if password in _FORBIDDEN or not 8 <= len(password) <= 123 or kinds < 3:
        said = "has 8 to 123 characters of three kinds, and is not one that everybody takes"
        raise _bad("adminPassword", said)


def _bad(place: str, why: str) -> Refused:
    return Refused(400, "InvalidParameter", f"The value of {place}: {why}.", target=place)


class _Inside(Provider):
    """What is done in a VM: a resource below it, which goes with it."""

    seconds = 2.0
    rank = 0

    def check(self, cloud: Cloud, asked: Resource, before: Resource | None) -> None:
        machine = cloud.resource(asked.id.rsplit("/", 2)[0])
        if system_of(machine.properties) != "Windows":
            raise _bad(asked.kind, "the emulated cloud does it on Windows machines alone")
        self.known(machine, asked.properties)

    def known(self, machine: Resource, properties: Document) -> None:
        """Refuse what the emulated cloud does not know, or Azure does not do on that machine."""

    def make(self, cloud: Cloud, made: Resource, before: Document | None) -> None:
        if before is None or before.get("properties") != made.body.get("properties"):
            cloud.hardware.inside(made.id.rsplit("/", 2)[0], self.done(made.properties))

    def done(self, properties: Document) -> dict[str, Any]:
        """What then is, as Hardware.inside takes it."""
        raise NotImplementedError


class Command(_Inside):
    kind = f"{VM}/runCommands"

    def known(self, machine: Resource, properties: Document) -> None:
        script = str(at(properties, "source", "script") or "")
        if script != REMOTING.read_text(encoding="utf-8"):
            raise _bad("source.script", "the emulated cloud knows no such script")
        given = {one.get("name") for one in properties.get("parameters") or ()}
        if given != {"From"}:
            raise _bad("parameters", "the script takes From")

    def done(self, properties: Document) -> dict[str, Any]:
        [given] = properties["parameters"]
        return {"remoting": given["value"]}


class Extension(_Inside):
    kind = f"{VM}/extensions"

    def known(self, machine: Resource, properties: Document) -> None:
        if (properties.get("publisher"), properties.get("type")) != JOIN:
            raise _bad("type", f"the emulated cloud knows {'/'.join(JOIN)} alone")
        need(properties, "typeHandlerVersion")
        if "SystemAssigned" not in str(at(machine.body, "identity", "type")):
            # Azure's extension fails after some minutes, and says so.
            said = "the machine has no system-assigned identity, which the join needs"
            raise _bad("identity", said)

    def done(self, properties: Document) -> dict[str, Any]:
        return {"joined": "entra"}
