"""The project's files and the names of its modules, in a checkout and in the collection
``trueup.azure_hpc``, where modules and packages lie below plugins/ and names have a prefix."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

from trueup_node.errors import BadInput

# Of a module in the collection: ("ansible_collections", namespace, name, "plugins", ...).
_PARTS = __name__.split(".")
_IS_COLLECTION = _PARTS[0] == "ansible_collections"
# What stands before a module's or action's name; empty in a checkout.
PREFIX = ".".join((*_PARTS[1:3], "")) if _IS_COLLECTION else ""
FOLDER = Path(__file__).parents[3 if _IS_COLLECTION else 2]
CATALOG = FOLDER / "catalog"
ROLES = FOLDER / "roles"
# Libraries that the plays need beside Ansible's own.
LIBRARIES = ("jsonschema", "msgspec", "numpy", "pandas", "pyarrow", "rich", "typer")
# Folders of a checkout and their names in the collection.
_MOVED = {"library": "plugins/modules", "module_utils": "plugins/module_utils"}


def full_name(name: str) -> str:
    """A module or action of trueup as Ansible finds it. A name with a dot stays as it is."""
    return name if "." in name else f"{PREFIX}{name}"


def short_name(name: str) -> str:
    """The name in trueup's own code of a module, action or role."""
    return name.removeprefix(PREFIX)


def file(path: str) -> Path:
    """A file or folder of the project by its path in a checkout."""
    top, _, rest = path.partition("/")
    return FOLDER / (_MOVED.get(top, top) if _IS_COLLECTION else top) / rest


def plays() -> tuple[Path, str]:
    """The folder in which Ansible's programs are started, and its playbooks with {} for a name. The
    wheel has none: they are those of the checkout that it is started in."""
    if _IS_COLLECTION:
        return Path.cwd(), f"{PREFIX}{{}}"
    folder = FOLDER if (FOLDER / "playbooks").is_dir() else Path.cwd()
    return folder, "playbooks/{}.yml"


def settings(project: Path) -> Path:
    """The file of variables that plays and roles use, with the families."""
    checkout = project / "playbooks" / "group_vars" / "all.yml"
    return checkout if checkout.is_file() else project / "roles" / "settings" / "defaults/main.yml"


def command(python: str) -> list[str]:
    """The command ``trueup`` for the Python of this Ansible."""
    if _IS_COLLECTION:
        return [python, str(FOLDER / "plugins" / "plugin_utils" / "trueup_command.py")]
    return [str(Path(python).with_name("trueup"))]


def require_roles(command_name: str) -> None:
    """Refuse a trueup without roles, as the wheel is.

    Raises:
        BadInput: a sentence that says where the roles are.
    """
    if not ROLES.is_dir():
        raise BadInput(
            f"{command_name} plans trueup's roles, and the wheel has none: use a checkout"
        )


def require_libraries() -> None:
    """Refuse a Python that lacks a library of the plays.

    Raises:
        AnsibleError: a sentence with the command that installs them.
    """
    missing = [name for name in LIBRARIES if find_spec(name) is None]
    if missing:
        from ansible.errors import AnsibleError  # noqa: PLC0415 WHY: also used without Ansible

        step = (
            f"run {sys.executable} -m pip install -r {FOLDER / 'requirements.txt'}"
            if _IS_COLLECTION
            else "run `make controller-venv` in trueup's checkout, and use the ansible-playbook in"
            " its .venv/bin"
        )
        message = f"The Python of this Ansible has no {', '.join(missing)}: {step}."
        raise AnsibleError(message)
