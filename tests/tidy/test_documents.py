"""Links in the documents lead somewhere, and the index of the decisions is complete."""

from __future__ import annotations

import re

from tests.tidy.trees import ROOT, text_files

LINK = re.compile(r"\]\(([^)#\s:]+)(?:#[^)]*)?\)")
DECISIONS = ROOT / "docs/adr"
NUMBER = re.compile(r"\d{4}-.*\.md")


def test_links() -> None:
    """Every relative link in a Markdown file leads to a file or directory."""
    dead = [
        f"{path.relative_to(ROOT)}: {target}"
        for path in text_files()
        if path.suffix == ".md"
        for target in LINK.findall(path.read_text())
        if not (path.parent / target).exists()
    ]
    assert [] == dead


def test_index_of_decisions() -> None:
    """The index lists every decision once, in order."""
    decisions = sorted(path.name for path in DECISIONS.iterdir() if NUMBER.fullmatch(path.name))
    index = re.findall(
        r"^\| \[\d+\]\(([^)]+)\) \|", (DECISIONS / "README.md").read_text(), re.MULTILINE
    )
    assert decisions == index


def test_numbers_of_decisions() -> None:
    """A number that no decision has is named as such in the index."""
    numbers = {int(path.name[:4]) for path in DECISIONS.iterdir() if NUMBER.fullmatch(path.name)}
    named = re.findall(r"Number (\d+) was never given", (DECISIONS / "README.md").read_text())
    assert set(range(1, max(numbers) + 1)) - numbers == set(map(int, named))


def test_superseded_decisions() -> None:
    """A decision that another one supersedes or replaces has that in its line of the index."""
    lines = (DECISIONS / "README.md").read_text().splitlines()
    index = {line.partition("(")[2].partition(")")[0]: line for line in lines if "](" in line}
    unsaid = [
        name
        for name, line in index.items()
        if re.search(r"^Status: superseded", (DECISIONS / name).read_text(), re.MULTILINE)
        and "superseded" not in line
    ]
    assert [] == unsaid
