"""Each role's defaults equal its argument specification, for every entry point."""

from __future__ import annotations

import configparser
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from helpers import ROLES, ROOT, role_files


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def entry_points(role: str) -> dict[str, Any]:
    specs: dict[str, Any] = read(ROLES[role] / "meta" / "argument_specs.yml")
    return specs["argument_specs"]


def test_every_role_has_a_specification() -> None:
    assert role_files("meta/argument_specs.yml").keys() == ROLES.keys()
    assert {"devito", "eessi", "fslogix", "stream"} <= set(ROLES)


def test_ansible_finds_the_roles_in_the_same_folders() -> None:
    settings = configparser.ConfigParser()
    settings.read(ROOT / "ansible.cfg")
    folders = [ROOT / path for path in settings["defaults"]["roles_path"].split(":")]
    assert {folder.parent for folder in ROLES.values()} == set(folders)


def test_no_roles_name_is_the_prefix_of_anothers() -> None:
    pairs = [(a, b) for a in ROLES for b in ROLES if a != b and b.startswith(a)]
    assert pairs == []


@pytest.mark.parametrize("role", ROLES)
def test_the_defaults_equal_the_specification(role: str) -> None:
    defaults = read(ROLES[role] / "defaults" / "main.yml")
    for entry in entry_points(role).values():
        options = entry["options"]
        # When Ansible refuses a variable it shows every default of the specification: secrets,
        # whose default may be a lookup, have none there.
        secrets = {name for name, option in options.items() if option.get("no_log")}
        assert [name for name in secrets if "default" in options[name]] == []
        specified = {name: o.get("default", defaults[name]) for name, o in options.items()}
        assert specified == defaults
        assert [name for name, option in options.items() if not option.get("description")] == []
        assert [name for name in options if not name.startswith(f"{role}_")] == []


@pytest.mark.parametrize("role", ROLES)
def test_each_entry_point_is_described(role: str) -> None:
    """antsibull-docs renders no role without these."""
    entries = entry_points(role)
    for key in ("short_description", "description"):
        assert [name for name, entry in entries.items() if not entry.get(key)] == []


@pytest.mark.parametrize("role", ROLES)
def test_every_default_has_a_comment(role: str) -> None:
    lines = (ROLES[role] / "defaults" / "main.yml").read_text().splitlines()
    bare = []
    commented = False
    for line in lines:
        if line.startswith("#"):
            commented = True
        elif not line.strip():
            commented = False
        elif line[0].isalpha() and not commented:
            bare.append(line)
    assert bare == []


def booleans(role: str) -> list[str]:
    options = entry_points(role)["main"]["options"]
    return [name for name, option in options.items() if option.get("type") == "bool"]


def used_bare(line: str, name: str) -> bool:
    """Whether an expression uses the variable without ``| bool``.

    As a module's whole argument it may stand bare, for the module's own type converts it; and in
    a message it is only named.
    """
    if line.lstrip().startswith("#") or line.partition(": ")[2].strip() == f'"{{{{ {name} }}}}"':
        return False
    for found in re.finditer(rf"\b{name}\b(?!\s*\|\s*bool)", line):
        before = line[: found.start()]
        in_words = before.count("'") % 2 == 1 or before.rfind("}}") > before.rfind("{{")
        if not in_words:
            return True
    return False


@pytest.mark.parametrize("role", [role for role in ROLES if booleans(role)])
def test_what_is_given_as_text_is_still_a_boolean(role: str) -> None:
    """``-e name=false`` is text, which an argument specification accepts and does not convert."""
    folder = ROLES[role]
    files = [path for kind in ("tasks", "vars", "templates") for path in folder.glob(f"{kind}/*")]
    names = booleans(role)
    bare = [
        f"{path.relative_to(folder)}: {line.strip()}"
        for path in files
        for line in path.read_text(encoding="utf-8").splitlines()
        for name in names
        if name in line and used_bare(line, name)
    ]
    assert bare == []


@pytest.mark.parametrize("role", ROLES)
def test_what_a_preflight_has_found_is_not_lost_when_it_is_not_made_again(role: str) -> None:
    """Tasks that are imported and then skipped still write over what they register; an include that
    is skipped touches nothing."""
    preflights = [
        task
        for task in read(ROLES[role] / "tasks" / "main.yml")
        if "preflight.yml" in str(task.get("ansible.builtin.import_tasks", ""))
    ]
    assert [task["name"] for task in preflights if "when" in task] == []


# `register: NAME`, `loop_var: NAME`, `NAME: value`: what makes a variable of a role.
MAKES = re.compile(
    r"^\s*(?:- )?(?:(?:register|loop_var|index_var):\s*(\w+)|(__\w+):)", re.MULTILINE
)
READS = re.compile(r"(?<![\w.])__[a-z]\w+")
OF_PLUGINS = re.compile(r"__[a-z]\w+[a-z]\b")


def unmade(texts: dict[str, str], plugins: str) -> list[str]:
    """Names of the roles' own variables that are read and made nowhere, with their file."""
    made = {name for text in texts.values() for pair in MAKES.findall(text) for name in pair}
    made.update(OF_PLUGINS.findall(plugins))
    return sorted(
        f"{path}: {name}"
        for path, text in texts.items()
        for name in set(READS.findall(text))
        if name not in made
    )


def test_no_role_reads_a_variable_that_nothing_makes() -> None:
    """With `default` it would be read as nothing for ever: a register that went, went unseen."""
    shipped = [ROOT / "site.yml", *(ROOT / "playbooks").rglob("*.yml")]
    shipped += [path for kind in ("yml", "j2") for path in (ROOT / "roles").rglob(f"*.{kind}")]
    plugins = [
        path
        for room in ("plugins", "module_utils", "controller", "library")
        for path in (ROOT / room).rglob("*.py")
    ]
    texts = {str(path.relative_to(ROOT)): path.read_text() for path in shipped}
    assert unmade(texts, "\n".join(path.read_text() for path in plugins)) == []
