"""The site, built as `make site` does: every page can be found, and no other host is needed."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import click
import pytest
from markdown_it import MarkdownIt

from logwright.cli.main import main
from tests.tidy.trees import ROOT

LOADED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href"}
"""Elements that a browser loads without being asked, with the attribute that names what."""
OTHER_HOST = re.compile(r"(?:https?:)?//")
USERS = ("platform", "operator", "privacy", "analyst", "engineer")


def build(
    folder: Path, program: Path = ROOT / "website/build.py"
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, program, folder], capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site, built without a broken link, anchor or forgotten page: MkDocs warns of each."""
    folder = tmp_path_factory.mktemp("site")
    done = build(folder)
    assert 0 == done.returncode, done.stderr
    return folder / "site"


def pages_of(site: Path) -> set[str]:
    """All pages but that of an address without a page, without their suffix."""
    paths = {str(path.relative_to(site).with_suffix("")) for path in site.rglob("*.html")}
    return paths - {"404"}


class Elements(HTMLParser):
    """The start tags of a page: name and attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.started: list[tuple[str, dict[str, str]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep the element."""
        self.started.append((tag, {name: value or "" for name, value in attrs}))


def elements_of(html: str) -> list[tuple[str, dict[str, str]]]:
    parser = Elements()
    parser.feed(html)
    return parser.started


def elements(path: Path) -> list[tuple[str, dict[str, str]]]:
    return elements_of(path.read_text())


def test_every_document_is_a_page(site: Path) -> None:
    """Those of docs/, the README, the changelog, and a page for each kind of user."""
    documents = {path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md")}
    wanted = {str(path.with_suffix("")).replace("README", "index") for path in documents}
    wanted |= {"index", "CHANGELOG", "CONTRIBUTING", *(f"for/{user}" for user in USERS)}
    assert set() == wanted - pages_of(site)


def test_every_page_is_in_the_navigation(site: Path) -> None:
    """Of the first page, so a reader gets everywhere from there."""
    linked = {
        attributes["href"].removesuffix(".html")
        for tag, attributes in elements(site / "index.html")
        if tag == "a" and "md-nav__link" in attributes.get("class", "")
    }
    assert set() == pages_of(site) - linked


def test_pages_have_the_parts_that_a_forge_shows(site: Path) -> None:
    """As many entries of lists, tables and blocks of code: dialects of Markdown differ in what
    begins one.
    """
    forge = MarkdownIt("commonmark").enable("table")
    for page in pages_of(site):
        folder, _, name = page.rpartition("/")
        source = site / folder / f"{'README' if name == 'index' else name}.md"
        if folder == "commands":
            continue  # made for the site; a forge does not know its definitions
        tokens = Counter(each.tag for each in forge.parse(source.read_text()) if each.nesting >= 0)
        article = (site / f"{page}.html").read_text().partition("<article")[2]
        shown = Counter(tag for tag, _ in elements_of(article.partition("</article>")[0]))
        expected = (tokens["li"], tokens["table"], tokens["code"])
        assert expected == (shown["li"], shown["table"], shown["pre"]), page


def test_nothing_is_loaded_from_another_host(site: Path) -> None:
    """No script, style, font or picture: the site works without the internet."""
    loaded = [
        (str(path.relative_to(site)), attributes[LOADED[tag]])
        for path in site.rglob("*.html")
        for tag, attributes in elements(path)
        if OTHER_HOST.match(attributes.get(LOADED.get(tag, ""), ""))
    ]
    assert [] == loaded
    styles = [path.read_text() for path in site.rglob("*.css")]
    assert [] == [
        url for text in styles for url in re.findall(r"url\(\s*['\"]?(https?:[^)]+)", text)
    ]


def test_the_search_knows_the_pages(site: Path) -> None:
    """The index has a setting of Kafka's with the page that explains it, and is there without a
    server too.
    """
    index = (site / "search/search_index.json").read_text()
    places = {
        entry["location"].partition("#")[0]
        for entry in json.loads(index)["docs"]
        if "max.compaction.lag.ms" in entry["text"]
    }
    assert {"runbook.html", "adr/0021-forecasts-and-a-budget.html"} <= places
    assert (site / "search/search_index.js").read_text() == f"var __index = {index}"


def test_llms_txt_lists_every_page(site: Path) -> None:
    """Each as Markdown, which is there; llms-full.txt has the text of all."""
    listed = re.findall(r"^- \[.+?\]\((\S+\.md)\)", (site / "llms.txt").read_text(), re.MULTILINE)
    assert pages_of(site) == {
        name.removesuffix(".md").replace("README", "index") for name in listed
    }
    full = (site / "llms-full.txt").read_text()
    assert [] == [name for name in listed if (site / name).read_text() not in full]


def commands(context: click.Context) -> Iterator[click.Context]:
    """Every command that does something."""
    if isinstance(context.command, click.Group):
        for name in context.command.list_commands(context):
            inner = context.command.get_command(context, name)
            assert inner is not None
            yield from commands(click.Context(inner, info_name=name, parent=context))
    else:
        yield context


def test_the_reference_has_every_command_and_option(site: Path) -> None:
    """A page for each command, with the names of all options that its help shows."""
    named = list(commands(main.make_context("logwright", [], resilient_parsing=True)))
    assert len(named) > 20
    for context in named:
        name = context.command_path.removeprefix("logwright ")
        text = (site / "commands" / f"{name.replace(' ', '-')}.md").read_text()
        shown = {
            option
            for parameter in context.command.get_params(context)
            if isinstance(parameter, click.Option) and not parameter.hidden
            for option in (*parameter.opts, *parameter.secondary_opts)
        }
        assert set() == shown - set(re.findall(r"--?[a-z][\w-]*", text)), name


def test_the_gallery_shows_pictures_that_are_there(site: Path) -> None:
    """At least those of the README."""
    shown = {
        attributes["src"] for tag, attributes in elements(site / "gallery.html") if tag == "img"
    }
    assert [] == [name for name in shown if not (site / name).is_file()]
    readme = re.findall(r"!\[[^]]*\]\(docs/(\S+)\)", (ROOT / "README.md").read_text())
    assert set() == set(readme) - shown


def test_a_broken_link_stops_the_build(tmp_path: Path) -> None:
    """So does a broken anchor, in the page or in another one, and a page that is not in the
    navigation; each is named.
    """
    checkout = tmp_path / "checkout"
    for name in ("docs", "website"):
        shutil.copytree(ROOT / name, checkout / name)
    for pattern in ("*.md", "tests/*.md", "tests/*/README.md"):
        for path in ROOT.glob(pattern):
            copy = checkout / path.relative_to(ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, copy)
    links = "[a](nowhere.md) [a](#no-heading) [a](runbook.md#no-section)"
    (checkout / "docs/forgotten.md").write_text(f"# Forgotten\n\n{links}\n")
    done = build(tmp_path / "built", checkout / "website/build.py")
    assert 0 != done.returncode
    for warning in ("forgotten.md", "nowhere.md", "#no-heading", "#no-section"):
        assert warning in done.stderr
