"""The pages of the site: those of docs/, the README as its start, and references from declarations.

``make docs`` runs it twice: ``pages FOLDER`` writes the pages and the configuration of MkDocs, and
``finish SITE FOLDER`` puts the Markdown of each page and llms.txt beside the built pages.
"""

from __future__ import annotations

import json
import posixpath
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import untested
import yaml

ROOT = Path(__file__).resolve().parents[1]
CONFIGURATION = "mkdocs.yml"
SECTIONS = (
    ("start", "Start"),
    ("guides", "Guides"),
    ("benchmarks", "Benchmarks"),
    ("families", "Families"),
    ("reference", "Reference"),
    ("troubleshooting", "Troubleshooting"),
    ("explain", "Explanations"),
    ("dev", "Development"),
)
LAST_GROUP = "More"
# The theme asks the network for this script when a page is opened as a file.
SHIM = "https://unpkg.com/iframe-worker/shim"
SCRIPT = "assets/site.js"
_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")
_TITLE = re.compile(r"^# (.+)$", re.MULTILINE)
Pages = dict[str, str]


def pages(root: Path = ROOT) -> Pages:
    """The text of each page by its path in the site."""
    texts = {
        path.relative_to(root / "docs").as_posix(): path.read_text(encoding="utf-8")
        for path in sorted((root / "docs").rglob("*.md"))
    }
    sources = {name: f"docs/{name}" for name in texts}
    for source, name in (("README.md", "index.md"), ("catalog/README.md", "reference/catalog.md")):
        texts[name] = (root / source).read_text(encoding="utf-8")
        sources[name] = source
    inside = {source: name for name, source in sources.items()}
    linked = {name: site_links(text, name, sources[name], inside) for name, text in texts.items()}
    return linked | dict(references(root))


def _sources(root: Path) -> dict[str, str]:
    """The page of the site for each file of docs/."""
    names = [path.relative_to(root / "docs").as_posix() for path in (root / "docs").rglob("*.md")]
    return {f"docs/{name}": name for name in names}


def site_links(text: str, name: str, source: str, inside: dict[str, str]) -> str:
    """The text with links to pages of the site; of a file that is no page, its path."""

    def link(match: re.Match[str]) -> str:
        image, label, target = match.groups()
        path, _, anchor = target.partition("#")
        if re.match(r"[a-z]+:", target) or not path:
            return match[0]
        full = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
        page = inside.get(full) or (full.removeprefix("docs/") if full.startswith("docs/") else "")
        if not page:
            return label if label.strip("`") == full else f"{label} (`{full}`)"
        relative = posixpath.relpath(page, posixpath.dirname(name) or ".")
        return f"{image}[{label}]({relative}{'#' + anchor if anchor else ''})"

    return _LINK.sub(link, text)


# ---- references ---------------------------------------------------------------------------------


def references(root: Path) -> Iterator[tuple[str, str]]:
    """The pages that follow from declarations: commands, roles and modules."""
    yield "reference/commands.md", commands()
    yield (
        untested.CHECKS,
        site_links(untested.checks(root), untested.CHECKS, untested.PAGE, _sources(root)),
    )
    yield from roles(root)
    yield from modules(root)


def cell(text: object) -> str:
    """Text of one cell of a table."""
    plain = " ".join(str(text).split())
    return plain.replace("|", "\\|").replace("<", "&lt;").replace("[", "\\[")


def commands_of() -> list[str]:
    """The names of trueup's commands."""
    from trueup_analysis import cli

    return [*cli.COMMANDS]


def commands() -> str:
    """Every command of trueup with its arguments and options."""
    from trueup_analysis import cli
    from typer.main import get_group

    get_group(cli.app)
    head = "Every command of `trueup`, from its own help (`trueup COMMAND --help`)."
    blocks = [f"# Commands\n\n{head}\n\n{cli.EXIT_CODES}\n"]
    for name, summary in cli.COMMANDS.items():
        command = cli.command(name)
        inner = getattr(command, "commands", {})
        blocks.append(f"\n## trueup {name}\n\n{cell(summary)}\n")
        if not inner:
            blocks.append(_options(command))
        for word, part in inner.items():
            blocks.append(f"\n### trueup {name} {word}\n\n{cell(part.help or '')}\n")
            blocks.append(_options(part))
    return "".join(blocks)


def _options(command: Any) -> str:
    rows = []
    for option in command.params:
        if getattr(option, "hidden", False):
            continue
        is_argument = option.param_type_name == "argument"
        names = [option.name.upper()] if is_argument else [*option.opts, *option.secondary_opts]
        shown = ", ".join(f"`{word}`" for word in names)
        help_text = re.sub(r"\[/?[a-z ]+\]", "", getattr(option, "help", None) or "")
        rows.append(f"| {shown} | {cell(help_text)} |\n")
    return "\n| option | meaning |\n| --- | --- |\n" + "".join(rows) if rows else ""


def roles(root: Path) -> Iterator[tuple[str, str]]:
    """A page of each role with its variables, and their list."""
    rows = []
    for path in sorted((root / "roles").rglob("meta/argument_specs.yml")):
        role = path.parents[1].name
        specs = yaml.safe_load(path.read_text(encoding="utf-8"))["argument_specs"]
        main = specs.get("main") or next(iter(specs.values()))
        rows.append(f"| [{role}](roles/{role}.md) | {cell(main['short_description'])} |\n")
        yield f"reference/roles/{role}.md", _role(role, specs, main)
    table = "| role | result |\n| --- | --- |\n" + "".join(rows)
    yield "reference/roles.md", f"# Roles\n\nEach role with its variables.\n\n{table}"


def _role(role: str, specs: dict[str, Any], main: dict[str, Any]) -> str:
    described = main.get("description", "")
    about = "\n\n".join([described] if isinstance(described, str) else described)
    options: dict[str, Any] = {}
    for spec in specs.values():
        options |= spec.get("options") or {}
    rows = "".join(
        f"| `{name}` ({spec.get('type', 'str')}) | {_default(spec)} | {_described(spec)} |\n"
        for name, spec in options.items()
    )
    table = f"\n| variable | default | meaning |\n| --- | --- | --- |\n{rows}" if rows else ""
    return f"# Role {role}\n\n{main['short_description']}. {about}\n{table}"


def _default(spec: dict[str, Any]) -> str:
    if spec.get("required"):
        return "required"
    if "default" not in spec:
        return ""
    return f"`{cell(json.dumps(spec['default'], default=str))}`"


def _described(spec: dict[str, Any]) -> str:
    described = spec.get("description", "")
    text = " ".join([described] if isinstance(described, str) else map(str, described))
    choices = spec.get("choices")
    listed = ", ".join(f"`{choice}`" for choice in choices or ())
    return cell(text) + (f" One of {listed}." if choices else "")


def modules(root: Path) -> Iterator[tuple[str, str]]:
    """A page of each module with its options and return values, and their list."""
    names = sorted(path.stem for path in (root / "library").rglob("*.py"))
    argv = [str(Path(sys.executable).with_name("ansible-doc")), "--json", "-t", "module", *names]
    answer = subprocess.run(argv, cwd=root, capture_output=True, text=True, check=True)
    documents = json.loads(answer.stdout)
    rows = []
    for name in names:
        document = documents[name]["doc"]
        rows.append(f"| [{name}](modules/{name}.md) | {_marked(document['short_description'])} |\n")
        yield f"reference/modules/{name}.md", _module(name, documents[name])
    table = "| module | result |\n| --- | --- |\n" + "".join(rows)
    yield "reference/modules.md", f"# Modules\n\nEach module with its options.\n\n{table}"


def _marked(text: object) -> str:
    """Ansible's markup as Markdown."""
    return cell(re.sub(r"\b[BCIOVRM]\(([^)]*)\)", r"`\1`", str(text)))


def _module(name: str, document: dict[str, Any]) -> str:
    doc = document["doc"]
    about = "\n\n".join(map(_marked, doc["description"]))
    options = "".join(
        f"| `{option}` ({spec.get('type', 'str')}) | {_default(spec)} |"
        f" {_marked(_described(spec))} |\n"
        for option, spec in (doc.get("options") or {}).items()
    )
    returned = "".join(
        f"| `{key}` ({spec.get('type', '')}) | {_marked(_described(spec))} |\n"
        for key, spec in (document.get("return") or {}).items()
    )
    examples = (document.get("examples") or "").strip("\n")
    return (
        f"# Module {name}\n\n{_marked(doc['short_description'])}. {about}\n"
        + (f"\n| option | default | meaning |\n| --- | --- | --- |\n{options}" if options else "")
        + (f"\n## Examples\n\n```yaml\n{examples}\n```\n" if examples else "")
        + (
            f"\n## Return values\n\n| key | meaning |\n| --- | --- |\n{returned}"
            if returned
            else ""
        )
    )


# ---- navigation ---------------------------------------------------------------------------------


def title(text: str, name: str) -> str:
    """The first heading of a page."""
    heading = _TITLE.search(text)
    return heading[1].replace("`", "") if heading else Path(name).stem


def navigation(
    texts: Pages, groups: dict[str, list[str]], order: dict[str, list[str]]
) -> list[Any]:
    """MkDocs' `nav`: a tab a section, the guides in groups."""
    tabs: list[Any] = [{"Home": "index.md"}]
    for folder, label in SECTIONS:
        names = [name for name in texts if name.startswith(f"{folder}/")]
        first = [f"{folder}/{word}.md" for word in order.get(folder, [])]
        top = sorted(
            (name for name in names if name.count("/") == 1),
            key=lambda name: (
                not name.endswith("/index.md"),
                first.index(name) if name in first else len(first),
                title(texts[name], name).lower(),
            ),
        )
        entries: list[Any] = [_entry(texts, name) for name in top]
        if folder == "guides":
            entries = _grouped(texts, top, groups)
        for inner in ("roles", "modules"):
            below = [_entry(texts, name) for name in names if name.startswith(f"{folder}/{inner}/")]
            if below:
                entries.append({f"All {inner}": below})
        if entries:
            tabs.append({label: entries})
    loose = [name for name in texts if "/" not in name and name != "index.md"]
    for tab in tabs:
        tab.get("Reference", []).extend(_entry(texts, name) for name in loose)
    return tabs


def _entry(texts: Pages, name: str) -> dict[str, str]:
    return {title(texts[name], name): name}


def _grouped(texts: Pages, names: list[str], groups: dict[str, list[str]]) -> list[Any]:
    rest = {name for name in names if not name.endswith("/index.md")}
    entries: list[Any] = [{title(texts[name], name): name} for name in names if name not in rest]
    for label, words in groups.items():
        chosen = [f"guides/{word}.md" for word in words if f"guides/{word}.md" in rest]
        rest -= {*chosen}
        if chosen:
            entries.append({label: [_entry(texts, name) for name in chosen]})
    if rest:
        entries.append({LAST_GROUP: [_entry(texts, name) for name in sorted(rest)]})
    return entries


def write(folder: Path, root: Path = ROOT) -> None:
    """Write the pages below `docs`, and the configuration beside it."""
    shutil.rmtree(folder / "docs", ignore_errors=True)
    texts = pages(root)
    for name, text in texts.items():
        path = folder / "docs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    for path in (root / "docs").rglob("*"):
        if path.is_file() and path.suffix != ".md":
            target = folder / "docs" / path.relative_to(root / "docs")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
    configuration = yaml.safe_load((root / CONFIGURATION).read_text(encoding="utf-8"))
    groups, order = (configuration["extra"].pop(name) for name in ("guides", "order"))
    configuration |= {"docs_dir": "docs", "nav": navigation(texts, groups, order)}
    dumped = yaml.safe_dump(configuration, sort_keys=False)
    (folder / CONFIGURATION).write_text(dumped, encoding="utf-8")


def finish(site: Path, folder: Path) -> None:
    """Put the Markdown of each page and llms.txt into the built site."""
    docs = folder / "docs"
    texts = {
        path.relative_to(docs).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted(docs.rglob("*.md"))
    }
    for name in texts:
        shutil.copyfile(docs / name, site / name)
    for page in site.rglob("*.html"):
        script = posixpath.relpath(SCRIPT, page.parent.relative_to(site).as_posix())
        html = page.read_text(encoding="utf-8")
        page.write_text(html.replace(SHIM, script), encoding="utf-8")
    (site / "llms.txt").write_text(llms(texts), encoding="utf-8")


def llms(texts: Pages) -> str:
    """A list of all pages for programs that read Markdown (llmstxt.org)."""
    summary = yaml.safe_load((ROOT / CONFIGURATION).read_text(encoding="utf-8"))["site_description"]
    parts = [f"# trueup\n\n> {summary}.\n"]
    for folder, label in (("", "Overview"), *SECTIONS):
        names = [name for name in texts if posixpath.dirname(name).split("/")[0] == folder]
        rows = [f"- [{title(texts[name], name)}]({name})\n" for name in names]
        parts.append(f"\n## {label}\n" + "".join(rows) if rows else "")
    return "".join(parts)


def words(text: str) -> int:
    """Words of prose and tables: not of code blocks, links' targets or the marks of tables."""
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    prose = re.sub(r"^ {4}.*$", "", prose, flags=re.MULTILINE)
    prose = _LINK.sub(r"\2", prose)
    return sum(any(letter.isalnum() for letter in word) for word in prose.split())


def main() -> int:
    """0 where the files are written; `words` prints the words of each page of docs/."""
    verb, *paths = sys.argv[1:]
    if verb == "pages":
        write(Path(paths[0]))
    elif verb == "finish":
        finish(Path(paths[0]), Path(paths[1]))
    else:
        counts = {
            path.relative_to(ROOT).as_posix(): words(path.read_text(encoding="utf-8"))
            for path in (ROOT / "docs").rglob("*.md")
        }
        for name, count in sorted(counts.items(), key=lambda pair: pair[1]):
            print(f"{count:6} {name}")
        print(f"{sum(counts.values()):6} in all")
    return 0


if __name__ == "__main__":
    sys.exit(main())
