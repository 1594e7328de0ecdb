#!/usr/bin/python
"""Ansible module: a vendor's package repository, and how a node's packages differ from pins."""

from __future__ import annotations

DOCUMENTATION = r"""
module: vendor_repository
author: trueup contributors
version_added: "0.2.0"
short_description: Names a vendor's repository to apt or dnf and compares installed packages to pins
description:
  - Downloads the repository's key, refuses it unless it has the fingerprint that was given, and
    leaves the key and a file of its own that names the repository. A key that is there with that
    fingerprint is not downloaded again.
  - Says which of the pinned packages are not installed at their versions, and refuses what would
    not be done silently - to change a held package, or to install an older version.
  - It installs no packages.
attributes:
  check_mode:
    support: full
    description: The key is downloaded and its fingerprint compared; nothing is written.
  diff_mode:
    support: none
    description: The file that it leaves says everything.
  platform:
    support: full
    description: Linux with apt or dnf.
    platforms: linux
extends_documentation_fragment: trueup_options.vendor_repository
"""

EXAMPLES = r"""
- name: Name NVIDIA's repository to apt
  vendor_repository:
    package_manager: apt
    repository:
      name: cuda
      url: https://developer.download.nvidia.com/compute/cuda/repos/ubuntu2404/x86_64/
      key_url: https://developer.download.nvidia.com/compute/cuda/repos/ubuntu2404/x86_64/3bf863cc.pub
      key_fingerprint: EB693B3035CD5710E231E123A4B469963BF863CC
    pins:
      - name: datacenter-gpu-manager-4-core
        version: 1:4.5.2-1
"""

RETURN = r"""
source:
  description: The file that names the repository, or null where none was given.
  returned: always
  type: str
wrong:
  description: The pins that are not installed at their versions.
  returned: always
  type: list
  elements: dict
unheld:
  description: Pinned packages that nothing holds at the version that is pinned.
  returned: always
  type: list
  elements: str
transactions:
  description: What apt or dnf is told to install for the wrong ones, one list after the other.
  returned: always
  type: list
  elements: list
hold:
  description: The commands that hold what is not held.
  returned: always
  type: list
  elements: list
hold_packages:
  description: Packages that these commands need and the node lacks.
  returned: always
  type: list
  elements: str
offers:
  description: The command that prints which versions of the pinned packages are offered.
  returned: always
  type: list
  elements: str
installed:
  description: The installed versions of the pinned packages.
  returned: always
  type: dict
"""

import glob
import os
import tempfile
from http.client import HTTPException

from ansible.module_utils.trueup_node import bounded_http
from ansible.module_utils.trueup_node.errors import TrueupError
from ansible.module_utils.trueup_node.node import packages, tools
from ansible.module_utils.trueup_node.options import Option, module_spec
from ansible.module_utils.trueup_node.run.answer import AnsibleModule
from ansible.module_utils.urls import open_url

OPTIONS = (
    Option("package_manager", "Which one the node has.", choices=("apt", "dnf"), required=True),
    Option(
        "repository",
        "The repository - C(name), C(url), C(key_url), C(key_fingerprint) (40 hexadecimal digits)"
        " and, for apt, C(suite) (default V(/), a flat repository) and its C(components). Empty"
        " means what the node has already.",
        {},
    ),
    Option(
        "pins",
        "Packages with C(name) and C(version) as the package manager writes it; V(*) at the end of"
        " a version stands for any release of it.",
        [],
        elements="dict",
    ),
    Option("downgrade_allowed", "Do not refuse where a newer version is installed.", False),
    Option("replace_held", "Do not refuse where a held package has to change.", False),
)

KEY_FOLDERS = {"apt": "/etc/apt/keyrings", "dnf": "/etc/pki/rpm-gpg"}
SOURCES = {
    "apt": "/etc/apt/sources.list.d/trueup-{name}.sources",
    "dnf": "/etc/yum.repos.d/trueup-{name}.repo",
}
# Of the key, which is a few KiB, to its last byte.
TIMEOUT_SECONDS = 60
KEY_BYTES = 2**20
APT_LISTS = "/var/lib/apt/lists"


def _fingerprints(module: AnsibleModule, path: str) -> list[str]:
    """The fingerprints of the keys in a file; none where gpg finds none."""
    with tempfile.TemporaryDirectory() as home:
        argv = ["gpg", "--homedir", home, "--batch", "--with-colons", "--show-keys", path]
        response = _ask(module, argv)
    if not response.ok and "not found" in response.complaint and not response.output:
        return []
    try:
        return packages.key_fingerprints(response.output)
    except TrueupError:
        return []


def _ask(module: AnsibleModule, argv: list[str]) -> tools.Answer:
    """A program's output, with any status; the module ends where the program did not end."""
    response = tools.ask(module, argv)
    if response.status is None:
        module.fail_json(msg=f"{response.note}. Nothing was changed by it.")
    return response


def _write(module: AnsibleModule, path: str, content: bytes) -> bool:
    """Leave ``content`` at ``path``, readable by all; whether that was a change."""
    try:
        with open(path, "rb") as file:
            if file.read() == content:
                return False
    except FileNotFoundError:
        pass
    if not module.check_mode:
        os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
        handle, beside = tempfile.mkstemp(dir=module.tmpdir)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.chmod(beside, 0o644)
        module.atomic_move(beside, path)
    return True


def _key(module: AnsibleModule, repository: dict[str, str], path: str) -> bool:
    """Leave the repository's key at ``path``; whether that was a change."""
    expected = packages.fingerprint_of(repository["key_fingerprint"])
    if os.path.exists(path) and _fingerprints(module, path) == [expected]:
        return False
    url = repository["key_url"]
    try:
        content = bounded_http.ask(
            lambda: open_url(url, timeout=TIMEOUT_SECONDS), TIMEOUT_SECONDS, KEY_BYTES
        ).checked()
    except (OSError, HTTPException) as error:
        module.fail_json(
            msg=f"The key of the repository {repository['name']} could not be downloaded from {url}"
            f" ({error}): check the address, or point key_url at a mirror."
        )
    handle, beside = tempfile.mkstemp(dir=module.tmpdir)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
    fingerprints = _fingerprints(module, beside)
    os.unlink(beside)
    if fingerprints != [expected]:
        listing = ", ".join(fingerprints) or "no key at all"
        module.fail_json(
            msg=f"The key of the repository {repository['name']} at {url} has another fingerprint:"
            f" found {listing}, expected {expected}. Nothing was changed. Do not trust it: get the"
            f" fingerprint from the vendor's own pages and set key_fingerprint or key_url."
        )
    return _write(module, path, content)


def _named_elsewhere(module: AnsibleModule, source: str, repository: dict[str, str]) -> str | None:
    """Another file of apt's sources that names the repository already, signed by the same key.

    NVIDIA's cuda-keyring package brings such a file. With two signers for one repository apt would
    do nothing at all any more, so another key there is refused.
    """
    fingerprint = packages.fingerprint_of(repository["key_fingerprint"])
    folder = os.path.dirname(source)
    main = os.path.join(os.path.dirname(folder), "sources.list")
    for path in [main, *sorted(glob.glob(f"{folder}/*"))]:
        if path == source or not path.endswith((".list", ".sources")):
            continue
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                signer = packages.signer_of(file.read(), repository["url"])
        except OSError:
            continue
        if signer is None:
            continue
        if signer and fingerprint in _fingerprints(module, signer):
            return path
        module.fail_json(
            msg=f"The repository {repository['url']} is named in {path} already, signed by"
            f" {signer or 'any key that apt trusts'} and not by {fingerprint}. Nothing was changed:"
            f" remove that file, or leave the repository empty to use it as it is."
        )
    return None


def _installed(module: AnsibleModule, manager: str, names: list[str]) -> dict[str, str]:
    if not names:
        return {}
    if manager == "apt":
        argv = ["dpkg-query", "--show", f"--showformat={packages.DPKG_FORMAT}", *names]
        return packages.parse_dpkg(_ask(module, argv).output)
    argv = ["rpm", "--query", "--queryformat", packages.RPM_FORMAT, *names]
    return packages.parse_rpm(_ask(module, argv).output)


def _newer(module: AnsibleModule, manager: str, version: str, other: str) -> bool:
    """Whether ``version`` is newer than ``other``, as the package manager counts."""
    if manager == "apt":
        argv = ["dpkg", "--compare-versions", version, "gt", other]
        return _ask(module, argv).ok
    argv = ["rpm", "--eval", f'%{{lua:print(rpm.vercmp("{version}", "{other}"))}}']
    response = _ask(module, argv)
    if not response.ok:
        module.fail_json(msg=f"{response.note}.")
    return response.output.strip() == "1"


def _locks(module: AnsibleModule, manager: str, names: list[str]) -> dict[str, list[str]]:
    """The held packages: name -> versions (apt holds the installed one: any version)."""
    if not names:
        return {}
    if manager == "apt":
        argv = ["apt-mark", "showhold", *names]
        holds = _ask(module, argv)
        if not holds.ok and not module.check_mode:
            # It reads apt's lists, which lost power can cut. apt downloads them again.
            for path in glob.glob(f"{APT_LISTS}/*_*"):
                os.unlink(path)
            holds = _ask(module, argv)
        if not holds.ok:
            module.fail_json(
                msg=f"Held packages are not known: {holds.note}. Run `apt-get update` on the node,"
                " mend what it names, and run again."
            )
        return {name.split(":")[0]: ["*"] for name in holds.output.split()}
    # The file that the plugin's own list command prints; reading it starts no dnf (1 s).
    try:
        with open("/etc/dnf/plugins/versionlock.list", encoding="utf-8") as file:
            return packages.parse_versionlock(file.read(), names)
    except FileNotFoundError:
        return {}


def _held(
    manager: str,
    locks: dict[str, list[str]],
    pins: dict[str, str],
    wrong: list[dict[str, str]],
) -> list[str]:
    """The packages whose lock keeps them from their pin."""
    if manager == "apt":
        return [name for name in locks if any(pin["name"] == name for pin in wrong)]
    return [
        name
        for name, versions in locks.items()
        if not any(packages.satisfies(version, pins[name]) for version in versions)
    ]


def _lock_problem(manager: str, name: str, at: str | None, pin: str) -> str:
    mend = f"apt-mark unhold {name}" if manager == "apt" else f"dnf versionlock delete {name}"
    return (
        f"The package {name} is held at {at} and {pin} is pinned: run `{mend}`, or set"
        " vendor_packages_replace_held to true."
    )


def _downgrade_problem(name: str, current: str, pin: str) -> str:
    return (
        f"The package {name} is installed at {current}, which is newer than the pinned {pin}: set"
        " vendor_packages_downgrade_allowed to true to go back, or pin the newer version."
    )


def _repository(
    module: AnsibleModule, manager: str, repository: dict[str, str]
) -> tuple[str, bool]:
    """The file that names the repository, and whether something changed. One that another wrote
    stays as it is."""
    key = f"{KEY_FOLDERS[manager]}/trueup-{repository['name']}.asc"
    source = SOURCES[manager].format(**repository)
    try:
        theirs = _named_elsewhere(module, source, repository) if manager == "apt" else None
        if theirs:
            return theirs, False
        changed = _key(module, repository, key)
    except TrueupError as error:
        module.fail_json(msg=f"The repository {repository['name']}: {error}.")
    text = packages.source_text(manager, repository, key)
    return source, _write(module, source, text.encode()) or changed


def main() -> None:
    """Leave the repository, compare, refuse or report."""
    module = AnsibleModule(
        argument_spec=module_spec(OPTIONS),
        supports_check_mode=True,
    )
    parameters = module.params
    manager, repository = parameters["package_manager"], parameters["repository"]
    pins = {pin["name"]: pin["version"] for pin in parameters["pins"]}
    installed = _installed(module, manager, list(pins))
    locks = _locks(module, manager, list(pins))
    wrong = [
        pin
        for pin in parameters["pins"]
        if not packages.satisfies(installed.get(pin["name"], ""), pin["version"])
    ]
    held = _held(manager, locks, pins, wrong)
    problems = []
    for name in held if not parameters["replace_held"] else []:
        at = installed.get(name) if manager == "apt" else " and ".join(locks[name])
        problems.append(_lock_problem(manager, name, at, pins[name]))
    for pin in wrong if not parameters["downgrade_allowed"] else []:
        name, version = pin["name"], pin["version"]
        current = installed.get(name)
        if current is None or name in held:
            continue
        if _newer(module, manager, *packages.compared_part(current, version)):
            problems.append(_downgrade_problem(name, current, version))
    if problems:
        module.fail_json(msg=" ".join(problems))
    source, changed = None, False
    if repository:
        source, changed = _repository(module, manager, repository)
    unheld = [name for name in pins if name not in locks or name in held]
    can_hold = os.path.exists("/etc/dnf/plugins/versionlock.conf")
    module.exit_json(
        changed=changed,
        source=source,
        wrong=wrong,
        transactions=packages.transactions(manager, wrong),
        unheld=unheld,
        hold=packages.hold_commands(manager, unheld, held),
        hold_packages=packages.hold_packages(manager, unheld, can_hold=can_hold),
        offers=packages.offers_command(manager, list(pins)),
        installed=installed,
    )


if __name__ == "__main__":
    main()
