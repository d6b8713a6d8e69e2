"""What the documents say in figures and lists is what is there."""

from __future__ import annotations

import re
import tarfile
from collections.abc import Iterator
from importlib.metadata import distribution
from math import isclose

import click
import pytest

from logwright.cli.main import main
from tests.tidy.trees import ROOT

SHARED = ("--config", "--output", "--now")
LOCKED = re.compile(r"^([\w.-]+)==", re.MULTILINE)


def readme() -> str:
    """The README with single spaces."""
    return " ".join((ROOT / "README.md").read_text().split())


def test_size_of_the_sample() -> None:
    """Of the packed log directory that the demo works on, in MB."""
    with tarfile.open(ROOT / "logwright/demo/kafka-logs.tar.xz") as packed:
        size = sum(member.size for member in packed.getmembers())
    assert f"sample log directory ({size / 1e6:.0f} MB," in readme()


@pytest.mark.parametrize("lock", ["runtime", "dev"])
def test_size_of_the_environment(lock: str) -> None:
    """What `make` says before it installs is within a tenth of what is installed, but for what
    Python compiles of it.
    """
    rule = (ROOT / "Makefile").read_text().partition(f"/.{lock}:")[2]
    gigabytes = float(rule.partition(" GB of packages")[0].rpartition("(")[2])
    names = LOCKED.findall((ROOT / f"requirements/{lock}.txt").read_text())
    files = (file.locate() for name in names for file in distribution(name).files or ())
    size = sum(
        path.stat().st_size  # type: ignore[attr-defined]
        for path in files
        if path.suffix != ".pyc" and path.exists()  # type: ignore[attr-defined]
    )
    assert isclose(gigabytes * 1e9, size, rel_tol=0.1), size


def test_what_is_installed_is_not_listed() -> None:
    """`make` says in one line what it installs; a newcomer sees the demo, not pip."""
    installs = re.findall(r"\$\(PIP\) install (\S+)", (ROOT / "Makefile").read_text())
    assert 4 == installs.count("--quiet") == len(installs)


def commands(at: click.Command, name: str = "") -> Iterator[tuple[str, frozenset[str]]]:
    """(Name, those of the shared options that it has) of every command."""
    if isinstance(at, click.Group):
        context = click.Context(at)
        for each in at.list_commands(context):
            inner = at.get_command(context, each)
            assert inner is not None
            yield from commands(inner, f"{name} {each}".strip())
    else:
        has = {option for parameter in at.params for option in parameter.opts}
        yield name, frozenset(has & set(SHARED))


def test_shared_options() -> None:
    """The README names each command that lacks one of the options of all, with those it has."""
    sentence = readme().partition("Of these, ")[2].partition(". ")[0]
    written: dict[str, frozenset[str]] = {}
    waiting: list[str] = []
    named: list[str] = []
    for word in re.findall(r"`([^`]+)`|has (none)", sentence):
        name = word[0]
        if name.startswith("--") or word[1]:
            named, waiting = waiting or named, []
            for each in named:
                written[each] = written.get(each, frozenset()) | frozenset([name] if name else [])
        else:
            waiting.append(name)
    shared = dict(commands(main))
    assert {name: has for name, has in shared.items() if has != frozenset(SHARED)} == written
    assert all(f"`{option}" in readme() for option in SHARED)
