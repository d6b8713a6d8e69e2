"""What is not installed is named by every command of a real installation: of the base alone, and
nightly of the base with each extra.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from logwright.cli.main import _COMMANDS as COMMANDS
from logwright.extras import MODULES
from tests.packaging.building import build, copy_sources
from tests.packaging.commands import CALLS, INCLUDED, faults
from tests.packaging.environments import Environment, Published

pytestmark = pytest.mark.e2e

PARTS = 8


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Published:
    """A wheel as from a clean clone."""
    directory = tmp_path_factory.mktemp("published")
    sources = copy_sources(directory / "logwright")
    wheel = build("wheel", sources, directory / "dist")
    # The same kernels as this checkout's: what compiles them is tested elsewhere.
    caches = Path("~/.cache/logwright").expanduser()
    return Published(wheel=wheel, sources=sources, caches=caches)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory, published: Published) -> Iterator[Environment]:
    """The base alone."""
    root = tmp_path_factory.mktemp("base") / "environment"
    yield published.install_locked(root)
    shutil.rmtree(root)


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    """Where the environment is, until the test ends."""
    yield tmp_path / "environment"
    shutil.rmtree(tmp_path / "environment", ignore_errors=True)


def test_every_command_is_called() -> None:
    """And each extra that a command may need is needed by one."""
    assert set(COMMANDS) == {call.words.split()[0] for call in CALLS}
    assert set(MODULES) - {"postgres"} == {call.extra for call in CALLS} - {""}


@pytest.mark.rotates(PARTS)
@pytest.mark.parametrize("part", range(PARTS))
def test_a_command_of_the_base(part: int, tmp_path: Path, base: Environment) -> None:
    """It works, or names the extra that it needs: with one line, and without a traceback."""
    calls = CALLS[part::PARTS]
    assert calls
    assert [] == faults(base, tmp_path / "work", frozenset(), calls)


@pytest.mark.nightly
@pytest.mark.parametrize("extra", MODULES)
def test_every_command(extra: str, tmp_path: Path, root: Path, published: Published) -> None:
    """It works, or names the extra that it needs: with one line, and without a traceback."""
    environment = published.install_locked(root, extra=extra)
    extras = frozenset({extra}) | INCLUDED.get(extra, frozenset())
    assert [] == faults(environment, tmp_path / "work", extras)
