"""Build the site: collect pages in build/pages, and call MkDocs, which writes build/site.

The pages are the documents of the repository, each at its place there without `docs/`, and the
command reference. Next to the pages are their Markdown, `llms.txt`, which lists them, and
`llms-full.txt`, which has all of them.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from command_reference import command_pages

ROOT = Path(__file__).parent.parent
DOCUMENTS = (
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "tests/README.md",
    "tests/data/README.md",
    "tests/oracle/README.md",
)
"""Those that are not in docs/."""
LINK = re.compile(r"(?<=\]\()([^)#\s:]+)")
FENCE = re.compile(r"^( *```\w+) .*$", re.MULTILINE)
CODE = re.compile(r"`[^`\n]+`")
SENTENCE = re.compile(r"(?!Status:)\w.+?\.(?=\s|\Z)", re.DOTALL)


def main(build: Path) -> None:
    """Effects: replaces pages, mkdocs.yml and site in the folder; exits with MkDocs' warnings."""
    pages = collected()
    settings, _, entries = (ROOT / "website/mkdocs.yml").read_text().partition("\nnav:")
    navigation = expanded(yaml.safe_load(entries), pages)
    for folder in ("pages", "site"):
        shutil.rmtree(build / folder, ignore_errors=True)
    shutil.copytree(ROOT / "docs", build / "pages")
    shutil.copytree(ROOT / "website/assets", build / "pages/assets")
    write({name: ranked(name, text) for name, text in pages.items()}, build / "pages")
    config = build / "mkdocs.yml"
    config.write_text(f"{settings}\n{yaml.safe_dump({'nav': navigation})}")
    mkdocs = [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", config]
    quiet = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(mkdocs, env=quiet, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    order = list(in_order(navigation))
    full = "\n\n".join(pages[name] for _, _, name in order)
    write(pages | {"llms.txt": index(order, pages), "llms-full.txt": full}, build / "site")
    sys.stdout.write(f"{build / 'site/index.html'}\n")


def write(texts: dict[str, str], folder: Path) -> None:
    """Effects: writes files below the folder."""
    for name, text in texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def collected() -> dict[str, str]:
    """Return the Markdown of every page by its name; links between documents lead to pages."""
    documents = {name: ROOT / name for name in DOCUMENTS}
    for path in sorted((ROOT / "docs").rglob("*.md")):
        documents[str(path.relative_to(ROOT / "docs"))] = path
    commands = {f"commands/{name}": text for name, text in command_pages().items()}
    return commands | {name: page(name, path, documents) for name, path in documents.items()}


def page(name: str, path: Path, names: Collection[str]) -> str:
    """Return the text of a document; what it links to is where the site has it. Python-Markdown
    would show the escape of a `|` in a table's code, and knows a fence with one word only.
    """

    def moved(link: re.Match[str]) -> str:
        target = os.path.relpath(path.parent / link[1], ROOT).removeprefix("docs/")
        if f"{target}/README.md" in names:
            target += "/README.md"
        return os.path.relpath(target, Path(name).parent)

    text = FENCE.sub(r"\1", LINK.sub(moved, path.read_text()))
    return CODE.sub(lambda code: code[0].replace("\\|", "|"), text)


def expanded(entries: list[Any], pages: Mapping[str, str]) -> list[Any]:
    """Return the navigation, or a part of it, with the pages of a folder in place of `FOLDER/*`."""
    complete = []
    for entry in entries:
        ((title, inner),) = entry.items()
        if isinstance(inner, list):
            inner = expanded(inner, pages)
        elif inner.endswith("*"):
            first = inner.replace("*", "README.md")
            rest = [name for name in pages if name.startswith(inner[:-1]) and name != first]
            inner = [{heading(pages[name]): name} for name in (first, *rest)]
        complete.append({title: inner})
    return complete


def in_order(entries: list[Any], section: str = "") -> Iterator[tuple[str, str, str]]:
    """Yield section, title and page of the navigation's entries."""
    for entry in entries:
        ((title, inner),) = entry.items()
        if isinstance(inner, list):
            yield from in_order(inner, title)
        else:
            yield section, title, inner


def index(order: list[tuple[str, str, str]], pages: Mapping[str, str]) -> str:
    """Return llms.txt, as llmstxt.org has it: sections, and links to pages."""
    lines = [f"# {heading(pages['README.md'])}", "", f"> {about(pages['README.md'])}", ""]
    last = ""
    for section, title, name in order:
        if section != last:
            lines += ["", f"## {section}", ""]
            last = section
        lines.append(f"- [{title}]({name}): {about(pages[name])}".removesuffix(": "))
    return "\n".join((*lines, ""))


def ranked(name: str, text: str) -> str:
    """Return a page with its rank in the search: users come before developers."""
    return (
        f"---\nsearch: {{boost: 0.2}}\n---\n{text}" if name.startswith(("adr/", "tests/")) else text
    )


def heading(text: str) -> str:
    """Return the title of a page."""
    return text.partition("\n")[0].removeprefix("# ")


def about(text: str) -> str:
    """Return the sentence that a page begins with, or nothing."""
    beginning, *_ = text.partition("\n")[2].strip().split("\n\n")
    sentence = SENTENCE.match(beginning)
    return " ".join(sentence[0].split()) if sentence else ""


if __name__ == "__main__":
    main(Path(*sys.argv[1:]) if sys.argv[1:] else ROOT / "build")
