"""No role starts, restarts or reloads a unit but by service_current, which knows what is owed
after a run that broke off."""

from __future__ import annotations

import re

from helpers import ROLES, ROOT

# What forgets: a task that acts on what another one changed in the same run.
FORGETFUL = re.compile(
    r"^\s*(?:- )?(?:ansible\.builtin\.)?(?:systemd|systemd_service|service|sysvinit):"
    r"|^\s*notify:|flush_handlers"
    r"|systemctl[\s,]+(?:--\S+[\s,]+)*(?:try-)?(?:re)?(?:start|load)\b"
    r"|^\s*(?:- )?ansible\.windows\.win_service:",
    re.MULTILINE,
)
# Where it may be, and why nothing is owed there.
EXCEPTIONS: dict[str, str] = {}


def forgetful(text: str) -> list[str]:
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    return [found.group().strip() for found in FORGETFUL.finditer("\n".join(lines))]


def test_roles_bring_files_into_force_by_one_module() -> None:
    shipped = [path for folder in ROLES.values() for path in folder.glob("*/*")]
    shipped += ROOT.glob("playbooks/**/*.yml")
    texts = {
        str(path.relative_to(ROOT)): path.read_text(encoding="utf-8", errors="replace")
        for path in shipped
        if path.is_file() and "argument_specs" not in path.name
    }
    found = {name: forgetful(text) for name, text in texts.items() if forgetful(text)}
    assert found.keys() == EXCEPTIONS.keys(), found
    assert [path for path in texts if "/handlers/" in path] == []


def test_every_role_that_has_units_uses_it() -> None:
    users = {
        role
        for role, folder in ROLES.items()
        for path in folder.glob("tasks/*.yml")
        if re.search(r"^\s+service_current:", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert users == {
        *("eessi", "enroot_pyxis", "gpu_clocks", "gpu_driver", "gpu_grid", "hpc_limits"),
        *("nfs_server", "nvme_scratch", "rdma", "shared_storage", "slurm", "vllm"),
    }
