"""The documentation: links lead to pages, messages name existing pages, the site has each page."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import docs_site
import prose
import pytest

ROOT = Path(__file__).resolve().parents[2]
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_PAGE = re.compile(r"(?<![\w/.-])docs/[\w/-]+\.(?:md|png|yml|json)\b")
# Pages of EESSI's own documentation.
_OF_OTHERS = {
    "docs/available_software/detail/GROMACS.md",
    "docs/site_specific_config/gpu.md",
    "docs/software_layer/gpu_targets.md",
}
_CODE = re.compile(r"^```.*?^```$|^    .*?$|`[^`\n]*`", re.MULTILINE | re.DOTALL)


def _tracked(*patterns: str) -> list[Path]:
    argv = ["git", "ls-files", "-co", "--exclude-standard", "--", *patterns]
    listed = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True)
    return [path for name in listed.stdout.split() if (path := ROOT / name).is_file()]


def _anchors(text: str) -> set[str]:
    """Anchors of headings, as MkDocs and the usual forges make them."""
    headings = re.findall(r"^#{1,6} (.+)$", text, re.MULTILINE)
    plain = (re.sub(r"[`*]|\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower() for heading in headings)
    return {re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", heading).strip()) for heading in plain}


def _broken(page: Path) -> list[str]:
    broken = []
    for target in _LINK.findall(_CODE.sub("", page.read_text(encoding="utf-8"))):
        path, _, anchor = target.partition("#")
        if re.match(r"[a-z]+:", target):
            continue
        linked = (page.parent / path).resolve() if path else page
        if not linked.exists() or (
            anchor and linked.suffix == ".md" and anchor not in _anchors(linked.read_text())
        ):
            broken.append(target)
    return broken


def test_every_link_leads_to_a_file_and_a_heading() -> None:
    broken = {path.relative_to(ROOT).as_posix(): _broken(path) for path in _tracked("*.md")}
    assert {name: links for name, links in broken.items() if links} == {}


def test_every_page_that_the_code_names_exists() -> None:
    named = {
        page
        for path in _tracked(".", ":!tests/data", ":!CHANGELOG.md", ":!*.png")
        for page in _PAGE.findall(path.read_text(encoding="utf-8", errors="replace"))
    }
    assert {page for page in named if not (ROOT / page).exists()} == _OF_OTHERS


@pytest.fixture(name="pages", scope="module")
def _pages() -> docs_site.Pages:
    return docs_site.pages()


def test_the_site_has_each_page_once(pages: docs_site.Pages) -> None:
    def names(entry: object) -> list[str]:
        if isinstance(entry, str):
            return [entry]
        values = entry.values() if isinstance(entry, dict) else entry
        return [name for value in values for name in names(value)]  # type: ignore[attr-defined]

    extra = docs_site.yaml.safe_load((ROOT / "mkdocs.yml").read_text())["extra"]
    navigation = docs_site.navigation(pages, extra["guides"], extra["order"])
    assert sorted(names(navigation)) == sorted(pages)
    listed = _LINK.findall(docs_site.llms(pages))
    assert sorted(listed) == sorted(pages)


def test_the_site_links_its_own_pages(pages: docs_site.Pages) -> None:
    broken = []
    for name, text in pages.items():
        for target in _LINK.findall(_CODE.sub("", text)):
            path = target.partition("#")[0]
            if path and not re.match(r"[a-z]+:", target):
                linked = docs_site.posixpath.normpath(f"{name}/../{path}")
                if linked not in pages and not (ROOT / "docs" / linked).is_file():
                    broken.append(f"{name}: {target}")
    assert broken == []


def test_the_reference_has_every_command_role_and_module(pages: docs_site.Pages) -> None:
    commands = pages["reference/commands.md"]
    assert [n for n in docs_site.commands_of() if f"\n## trueup {n}\n" not in commands] == []
    roles = {path.parents[1].name for path in (ROOT / "roles").rglob("meta/argument_specs.yml")}
    assert {Path(name).stem for name in pages if "/roles/" in name} == roles
    modules = {path.stem for path in (ROOT / "library").rglob("*.py")}
    assert {Path(name).stem for name in pages if "/modules/" in name} == modules


def test_the_pages_have_no_fault_of_words() -> None:
    found = {path.name: prose.faults(path.read_text(encoding="utf-8")) for path in prose.pages()}
    assert {name: faults for name, faults in found.items() if faults} == {}


def test_helps_and_options_have_no_fault_of_words() -> None:
    texts = [*prose.helps(), *prose.role_options()]
    names = [name for name, _ in texts]
    assert {"trueup read --size", "roles/stream/meta/argument_specs.yml stream_threads"} <= {*names}
    assert [(name, fault) for name, text in texts for fault in prose.faults(text)] == []


def test_no_page_is_longer_than_a_reader_reads() -> None:
    """1,500 words a page; in all of README.md and docs/ without docs/dev, generated ones too."""
    counts = {
        path.relative_to(ROOT).as_posix(): docs_site.words(path.read_text(encoding="utf-8"))
        for path in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    }
    assert {name: count for name, count in counts.items() if count > 1500} == {}
    assert sum(n for name, n in counts.items() if not name.startswith("docs/dev/")) < 46_500
    assert len([name for name in counts if name.startswith("docs/dev/")]) <= 5
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 80
