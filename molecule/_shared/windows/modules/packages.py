"""win_package, win_product_facts and win_feature."""

from __future__ import annotations

from typing import Any

from ..arguments import Call, Option, module
from ..errors import FailError, UnknownError
from ..host import File, Host, Installer, name_of
from ..products import UNINSTALL
from .commands import joined, split
from .files import CHECKSUMS, there
from .web import REQUEST, downloaded


@module(
    "ansible.windows.win_package",
    {
        "arguments": Option("raw"),
        "chdir": Option("path", known=False),
        "checksum": Option(),
        "checksum_algorithm": Option(default="sha1", choices=CHECKSUMS),
        "creates_path": Option("path"),
        "creates_service": Option(),
        "creates_version": Option(),
        "expected_return_code": Option("list", default=[0, 3010], elements="int"),
        "log_path": Option("path"),
        "path": Option(),
        "product_id": Option(),
        "provider": Option(default="auto", choices=("auto", "msi", "msix", "msp", "registry")),
        "state": Option(default="present", choices=("absent", "present")),
        "wait_for_children": Option("bool", default=False),
        **{name: option for name, option in REQUEST.items() if name != "url_method"},
        "url_method": Option(),
        "url_timeout": Option("int", default=30),
    },
    required_if=(("state", "present", ("path",)),),
)
def win_package(call: Call) -> dict[str, Any]:
    """Run an installer unless what it leaves is there."""
    args, host = call.args, call.host
    if args["state"] == "absent":
        raise UnknownError("state absent of win_package")
    if args["provider"] not in ("auto", "msi", "registry"):
        raise UnknownError(f"provider {args['provider']} of win_package")
    if args["creates_version"] and not args["creates_path"]:
        raise FailError("missing parameter(s) required by 'creates_version': creates_path")
    path = args["path"]
    remote = path.lower().startswith("http")
    if remote and _registered(host, args["product_id"]):
        return {"changed": False, "reboot_required": False, "rc": 0}
    file = downloaded(call, path) if remote else host.file(host.expanded(path))
    if file is None and not call.check:
        raise FailError(f"the file at the path '{path}' cannot be reached", reboot_required=False)
    msi = name_of(path.partition("?")[0])[1].lower() == ".msi" or args["provider"] == "msi"
    installer = host.installers.get(file.digest("sha256")) if file else None
    present = _present(call, installer, msi=msi)
    result: dict[str, Any] = {"changed": not present, "reboot_required": False, "rc": 0}
    if present or call.check or file is None:
        return result
    digest = file.digest(args["checksum_algorithm"]).upper()
    result["checksum"] = digest
    if args["checksum"] and args["checksum"].upper() != digest:
        raise FailError(
            f"The checksum for {path} did not match '{args['checksum']}', it was '{digest}'",
            **result,
        )
    return {**result, **_install(call, file, path, msi=msi)}


def _present(call: Call, installer: Installer | None, *, msi: bool) -> bool:
    """Whether win_package takes the product for installed."""
    args, host = call.args, call.host
    present = _registered(host, args["product_id"])
    if msi and installer is not None:
        present = _registered(host, installer.product_code)
    if args["creates_path"]:
        present = there(host, args["creates_path"])
        if present and args["creates_version"]:
            file = host.file(host.expanded(args["creates_path"]))
            # An equality of texts: a newer version counts as missing.
            present = file is not None and file.version == args["creates_version"]
    if args["creates_service"]:
        present = host.service(args["creates_service"]) is not None
    return present


def _registered(host: Host, product: str | None) -> bool:
    return bool(product) and host.registry.get(f"{UNINSTALL}\\{product}") is not None


def _install(call: Call, file: File, path: str, *, msi: bool) -> dict[str, Any]:
    args = call.args
    given = args["arguments"]
    words = [str(each) for each in given] if isinstance(given, list) else split(str(given or ""))
    line = joined([path]) if not msi else rf"C:\Windows\System32\msiexec.exe /i {joined([path])}"
    if msi:
        line += f" /L*V {args['log_path'] or 'msiexec.log'} /qn /norestart"
    line = " ".join([line, joined(words)]).strip()
    status, output = run_installer(call.host, file, path, words, line, call.user)
    if status not in args["expected_return_code"]:
        raise FailError(
            f"unexpected rc from '{line}': see rc, stdout, and stderr for more details",
            rc=status,
            stdout=output,
            stderr="",
            reboot_required=False,
        )
    # Nothing but 3010 counts as a reboot, whatever the installer means by 1.
    return {"rc": status, "reboot_required": status == 3010}


def run_installer(
    host: Host, file: File, path: str, words: list[str], line: str, user: str
) -> tuple[int, str]:
    """Start an installer: its exit status and output."""
    host.run(line, user)
    installer = host.installers.get(file.digest("sha256"))
    if installer is None:
        raise UnknownError(f"installer {name_of(path)[0]} of sha256 {file.digest('sha256')}")
    for word in words:
        name = word.partition("=")[0]
        if word not in installer.arguments and f"{name}=" not in installer.arguments:
            raise UnknownError(f"argument {name} of installer {name_of(path)[0]}")
    missing = [word for word in installer.needs if word not in words]
    if missing:
        raise UnknownError(f"installer {name_of(path)[0]} without {' '.join(missing)} (it asks)")
    host.installed.append(path)
    if installer.status in (0, 1, 3010):
        host.install(installer.leaves)
        host.at_boot.append(installer.at_boot)
        host.pending_reboot = host.pending_reboot or installer.reboot
        host.started()
    return installer.status, installer.output


@module("ansible.windows.win_product_facts", {})
def win_product_facts(_: Call) -> dict[str, Any]:
    """The edition's licence."""
    return {
        "ansible_facts": {
            "ansible_os_license_channel": "Volume:GVLK",
            "ansible_os_license_edition": "Windows(R), ServerRdsh edition",
            "ansible_os_license_status": "Licensed",
            "ansible_os_product_id": "00000-00000-00000-AA000",
            "ansible_os_product_key": None,
        }
    }


@module(
    "ansible.windows.win_feature",
    {
        "name": Option("list", required=True, elements="str"),
        "state": Option(default="present", choices=("absent", "present")),
        "include_sub_features": Option("bool", default=False, known=False),
        "include_management_tools": Option("bool", default=False),
        "source": Option(known=False),
    },
)
def win_feature(call: Call) -> dict[str, Any]:
    """Roles and features of Windows Server: those that the host's state names."""
    host = call.host
    if "Server" not in host.os_name:
        raise FailError(
            "This version of Windows does not support the cmdlets Install-WindowsFeature or "
            "Add-WindowsFeature"
        )
    wanted = call.args["state"] == "present"
    results: list[dict[str, Any]] = []
    for name in call.args["name"]:
        if name not in host.features:
            raise UnknownError(f"feature {name}")
        if host.features[name] != wanted:
            results.append(
                {
                    "id": len(results) + 1,
                    "display_name": name,
                    "message": [],
                    "reboot_required": True,
                    "skip_reason": "NotSkipped",
                    "success": True,
                }
            )
            if not call.check:
                host.features[name] = wanted
                host.pending_reboot = True
    return {
        "changed": bool(results),
        "exitcode": "SuccessRestartRequired" if results else "NoChangeNeeded",
        "feature_result": results,
        "reboot_required": bool(results),
        "success": True,
    }
