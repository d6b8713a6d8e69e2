"""What must not stand in the repository, and what to write instead."""

from __future__ import annotations

import ast
import re

import pytest

from tests.tidy.trees import Module, modules, nodes, text_files

HERE = "tests/tidy/test_bans.py"
RIGHTS = "tests/rights.py"

BANNED = {
    r"\b(?:TODO|FIXME|XXX|HACK)\b": "fix it, or write an issue",
    r"(?<![\w.~$}/-])/(?:home|root|work|Users|mnt)/[\w.-]": "a path of one machine",
    r"(?<![\w$}])/tmp/\w": "tests get tmp_path, programs get tempfile",
    r"https?://[^\s\"'`)>]*(?:pypi|simple/|/nexus|artifactory|devpi|mirror)": "a registry's host",
    r"--(?:extra-)?index-url|--find-links|--trusted-host": "a registry's host",
}


@pytest.mark.parametrize("pattern", BANNED)
def test_banned_text(pattern: str) -> None:
    """No marks of unfinished work, no paths of a machine, no hosts of a registry."""
    banned = []
    for path in text_files():
        if path.as_posix().endswith(HERE):
            continue
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            if re.search(pattern, line):
                banned.append(f"{path}:{number}: {line.strip()[:120]} ({BANNED[pattern]})")
    assert banned == []


def calls(module: Module, name: str) -> list[str]:
    """Where a module calls a function by its bare name."""
    return [
        f"{module.path}:{node.lineno}"
        for node in nodes(module)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name
    ]


@pytest.mark.parametrize(
    ("name", "instead"),
    [("print", "Output or logging"), ("eval", "a parser"), ("exec", "a module")],
)
def test_banned_calls(name: str, instead: str) -> None:
    """Nothing in the package prints, and nothing runs text."""
    banned = [
        f"{place} calls {name}; use {instead}"
        for module in modules()
        if module.name.startswith("logwright")
        for place in calls(module, name)
    ]
    assert banned == []


def test_nothing_is_skipped() -> None:
    """A test runs or is not there: a skipped one proves nothing, quietly. The one
    place that may is where a machine lacks a right; it lists what was not run.
    """
    skips = [
        f"{module.path}:{number}"
        for module in modules()
        if module.name.startswith("tests.") and not str(module.path).endswith(HERE)
        for number, line in enumerate(module.text.splitlines(), 1)
        if re.search(r"pytest\.skip|importorskip|mark\.(?:skip|skipif|xfail)\b", line)
    ]
    assert [RIGHTS] == [place.partition(":")[0] for place in skips], skips
