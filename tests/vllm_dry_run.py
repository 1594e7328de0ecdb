"""Every recipe of catalog/vllm_recipes.yml on every size that it names and every replica of Azure's
images, without a node: the memory that it takes, the unit that a server gets, and where that finds
each program. `make recipes` prints it (ARGS="deepseek-r1 --units"); a contract reads it."""

from __future__ import annotations

import argparse
import functools
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
import role_plans
import yaml
from trueup_controller import new_machine, systemd
from trueup_controller.plans import vllm as vllm_plan
from trueup_controller.plans.vllm_recipes import GIB, Fit, choose, fit, machine_of
from trueup_node.plan import Plan, PlanInputs

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "molecule/_shared/replicas"))

import replica  # noqa: E402 WHY: it stands in that folder

RECIPES = role_plans.catalog("vllm_recipes.yml")["recipes"]
# Programs of the packages that the images and their replicas have.
_PACKAGED = {"gcc": ["gcc"], "g++": ["g++", "c++"], "util-linux": ["lscpu", "taskset"]}
_PINNED = ("ninja",)


@dataclass(frozen=True)
class Run:
    """A recipe on a size, upon a replica's system.

    Attributes:
        made: the role's plan on the first of its nodes.
        places: of each program, where the unit's own variables find it; empty where nowhere.
    """

    recipe: str
    size: str
    image: str
    made: Plan
    unit: str
    places: dict[str, str]


def fits(name: str, size: str, nodes: int) -> Fit:
    """The memory of a recipe, by the catalog's nominal figures."""
    machine = machine_of({"vm_size": size, "catalog": role_plans.SIZES[size]}, nodes)
    return fit(choose(RECIPES, name), machine, sizes=role_plans.SIZES)


def runs(names: list[str] | None = None) -> Iterator[Run]:
    """Every recipe on every size that it names, on every replica."""
    for name in names or RECIPES:
        for size in RECIPES[name]["sizes"]:
            for image in replica.images():
                yield run(name, size, image)


def run(name: str, size: str, image: str, **options: Any) -> Run:
    question = asked(name, size, image, **options)
    made = vllm_plan.plan(question)
    unit = rendered(made, question)
    return Run(name, size, image, made, unit, found(unit, made, image))


def asked(name: str, size: str, image: str, **options: Any) -> PlanInputs:
    """What the role is asked on the first node of an endpoint of this recipe."""
    recipe = RECIPES[name]
    hosts = [f"node-{number + 1}" for number in range(recipe["nodes"])]
    row = role_plans.SIZES[size]
    role_plans.SYSTEMS[image] = _os_release(image)
    node = new_machine.with_catalog(role_plans.node(row["family"], image), size, row)
    endpoint: dict[str, Any] = {"name": "dry-run", "recipe": name, "nodes": hosts}
    if len(hosts) > 1:
        endpoint["addresses"] = [f"10.0.0.{number + 4}" for number in range(len(hosts))]
    question = role_plans.asked("vllm", node, endpoints=[endpoint], **options)
    there = paths(image)
    data = _described(image)
    pythons = [
        {
            "path": f"/usr/bin/{program}",
            "version": [int(part) for part in f"{minor}.1".split(".")],
            "missing": [],
            "headers": minor in data["python_headers"],
        }
        for program, minor in data["pythons"].items()
    ]
    values = {
        **vars(question),
        "host": hosts[0],
        "hosts": hosts,
        "hostvars": {host: {} for host in hosts},
        "secrets": {"api_key": "", "hf_token": ""},
        "found": {"python": pythons[0], "pythons": pythons[1:], "folders": _Space()},
    }
    chain = vllm_plan.programs(PlanInputs(**values))
    values["found"].update(
        programs={place: place if _resolved(place, there) else None for place in chain["programs"]},
        files={path: _resolved(path, there) for path in chain["files"]},
    )
    return PlanInputs(**values)


@functools.cache
def _described(image: str) -> dict[str, Any]:
    return replica.described(image)


def _os_release(image: str) -> dict[str, str]:
    text = replica.planned(image)["/etc/os-release"].content
    return {
        name: value.strip('"')
        for name, _, value in (line.partition("=") for line in text.splitlines())
    }


class _Space(dict[str, Any]):
    """Enough of it in every folder."""

    def __missing__(self, name: str) -> dict[str, Any]:
        return {"path": name, "free_bytes": 1 << 50, "there": False, "link": False}


@functools.cache
def paths(image: str) -> dict[str, str]:
    """Files and links of a replica, by its data and by the packages of its base: path to the link's
    target, empty for a file."""
    node = yaml.safe_load((ROOT / "molecule/_shared/vars/node.yml").read_text(encoding="utf-8"))
    there = {
        path: one.content if one.kind == "link" else ""
        for path, one in replica.planned(image).items()
    }
    for package in node["node_image_packages"]:
        there |= {f"/usr/bin/{program}": "" for program in _PACKAGED.get(package, [])}
    return there


def _resolved(path: str, there: dict[str, str]) -> bool:
    """Whether a path leads to a file, over links of the folders above it."""
    for _ in range(10):
        if there.get(path) == "":
            return True
        link = next((above for above in _above(path) if there.get(above)), None)
        if link is None:
            return False
        target = there[link]
        if not target.startswith("/"):
            target = f"{Path(link).parent}/{target}"
        path = target + path.removeprefix(link)
    return False


def _above(path: str) -> list[str]:
    return [path, *map(str, Path(path).parents)]


def rendered(made: Plan, question: PlanInputs) -> str:
    """The unit of the first endpoint, as Ansible's template writes it."""
    folder = ROOT / "roles/vllm/templates"
    jinja = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder), trim_blocks=True, undefined=jinja2.StrictUndefined
    )
    jinja.filters.update(
        trueup_systemd_command=systemd.command,
        trueup_systemd_environment=systemd.environment,
        basename=lambda path: Path(path).name,
    )
    values = made.as_result()
    return jinja.get_template("server.service.j2").render(
        __vllm_plan=values,
        __vllm_endpoint=values["endpoints"][0],
        vllm_user=question.options["user"],
        vllm_restart_seconds=question.options["restart_seconds"],
    )


def variables(unit: str) -> dict[str, str]:
    """What a unit's Environment= says, without what only a person reads."""
    lines = re.findall(r'(?m)^Environment="([A-Za-z0-9_]+)=(.*)"$', unit)
    return {name: re.sub(r"\\(.)", r"\1", value).replace("%%", "%") for name, value in lines}


def found(unit: str, made: Plan, image: str) -> dict[str, str]:
    """Of each program that a server starts, where the unit's variables alone find it."""
    given = variables(unit)
    there = dict(paths(image))
    venv = made.values["environment"]["path"]
    pins = "".join(
        (ROOT / name).read_text(encoding="utf-8")
        for name in made.values["environment"]["requirements"]
    )
    there |= {f"{venv}/bin/{name}": "" for name in _PINNED if re.search(f"(?m)^{name}==", pins)}
    there |= {f"{venv}/bin/vllm": ""}
    for package in made.values["packages"]:
        there |= {f"/usr/bin/{program}": "" for program in _PACKAGED.get(package, [])}
    wanted = ["vllm", "ninja", "gcc", "c++"]
    wanted += ["nvcc"] if "CUDA_HOME" in given else ["g++", "lscpu"]
    if "/usr/bin/taskset" in unit:
        wanted.append("taskset")
    places = {name: _on(given.get("PATH", ""), name, there) for name in wanted}
    if "CUDA_HOME" in given:
        # FlashInfer and DeepGEMM go by the folder, and not by PATH.
        place = f"{given['CUDA_HOME']}/bin/nvcc"
        places["nvcc"] = place if _resolved(place, there) else ""
    return places


def _on(path: str, name: str, there: dict[str, str]) -> str:
    places = (f"{folder}/{name}" for folder in path.split(":"))
    return next((place for place in places if _resolved(place, there)), "")


def memory_row(name: str, size: str, nodes: int) -> str:
    """A row of the page's table: GiB of each term."""
    one = fits(name, size, nodes)
    kinds = ("weights", "kv_cache", "buffers", "workspace", "needed", "available")
    figures = [f"{getattr(one, f'{kind}_bytes') / GIB:.1f}" for kind in kinds]
    words = [name, str(nodes), size, *figures, "yes" if one.fits else "no"]
    return f"| {' | '.join(words)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "recipes", nargs="*", choices=[[], *RECIPES], help="all where none is named"
    )
    parser.add_argument("--units", action="store_true", help="print each unit whole")
    given = parser.parse_args()
    names = given.recipes or list(RECIPES)
    print(
        "| recipe | nodes | size | weights | KV cache | DeepEP | workspace | needed | available |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for name in names:
        for size in RECIPES[name]["sizes"]:
            print(memory_row(name, size, RECIPES[name]["nodes"]))
    for one in runs(names):
        python = one.made.values["environment"]["python"]
        install = one.made.values["environment"]["to_install"]
        print(f"\n{one.recipe} on {one.size}, {one.image}")
        for why in [*one.made.refused, *(skip.why for skip in one.made.skipped)]:
            print(f"  not here: {why}")
        needs = ", ".join(install.get("packages", [])) or install.get("archive", {}).get("url", "")
        print(f"  python     {python}" + (f" (installed: {needs})" if needs else ""))
        print(f"  packages   {', '.join(one.made.values['packages']) or 'none'}")
        for program, place in one.places.items():
            print(f"  {program:10} {place or 'NOT FOUND'}")
        if given.units:
            print("\n".join(f"    {line}".rstrip() for line in one.unit.splitlines()))


if __name__ == "__main__":
    main()
