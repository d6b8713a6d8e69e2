"""What killed processes leave outside of log directories is removed by the next one, or named."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from logwright.errors import PolicyError
from logwright.maintenance.scratch import (
    left_behind,
    own_temporary,
    temporary_directory,
    working_directory,
)
from logwright.units import ByteCount
from tests.rights import NOBODY

if TYPE_CHECKING:
    from collections.abc import Iterator

HOLDER = """
import sys, time
from pathlib import Path
from logwright.maintenance.scratch import own_temporary, working_directory
with working_directory(Path(sys.argv[1]) if sys.argv[1:] else own_temporary(), 0) as path:
    (path / "rows").write_bytes(b"ann@example.com")
    print(path, flush=True)
    time.sleep(600)
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary files are, of this test alone."""
    directory = tmp_path / "temporary"
    directory.mkdir()
    monkeypatch.setenv("TMPDIR", str(directory))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return directory


@contextmanager
def holder(*words: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """A process that has a working copy, and where that is; it is killed on leaving."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, *map(str, words)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        yield process, Path(process.stdout.readline().rstrip())
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def files_below(directory: Path) -> list[str]:
    """All files below a directory."""
    return [path.name for path in directory.rglob("*") if path.is_file()]


@pytest.mark.parametrize("is_elsewhere", [False, True])
def test_a_copy_is_removed_once_its_process_is_killed(
    tmp_path: Path, temporary: Path, is_elsewhere: bool
) -> None:
    """Not before, and it is named neither before nor afterwards; also one of ``--scratch DIR``,
    by who knows nothing of that directory.
    """
    with holder(*[tmp_path / "scratch"] * is_elsewhere) as (_, path):
        assert is_elsewhere == path.is_relative_to(tmp_path / "scratch")
        assert 0o700 == path.stat().st_mode & 0o777
        assert {} == left_behind()
        assert (path / "rows").is_file()
    assert {} == left_behind()
    assert [] == files_below(temporary)
    assert [] == list(path.parent.iterdir())


def test_the_next_copy_removes_it_too(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Wherever that is made; what was removed is said."""
    with holder(tmp_path / "scratch") as (_, path):
        pass
    with temporary_directory():
        assert not path.exists()
    assert f"path={path} removed: a killed command left it" in caplog.text


def test_what_cannot_be_removed_is_named(tmp_path: Path) -> None:
    """A scratch directory that is not there may be on a disk that is not mounted."""
    with holder(tmp_path / "scratch") as (_, path):
        pass
    path.parent.rename(tmp_path / "away")
    (problem,) = left_behind().values()
    assert f"is for {path}: its directory is not there" in problem
    (tmp_path / "away").rename(path.parent)
    assert {} == left_behind()
    assert not path.exists()


def test_a_lock_alone_is_removed() -> None:
    """A process may be killed between its lock and its copy."""
    with temporary_directory():
        pass
    lock = own_temporary() / "logwright-copy-0123456789abcdef.lock"
    lock.touch()
    assert {} == left_behind()
    assert not lock.exists()


def test_links_are_not_followed(tmp_path: Path) -> None:
    """Neither of the directory of a user nor of a copy."""
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "file").touch()
    with temporary_directory() as path:
        link = path.parent / "logwright-copy-0123456789abcdef"
        link.symlink_to(tmp_path / "kept")
        assert {} == left_behind()
        assert not link.is_symlink()
    own_temporary().rmdir()
    own_temporary().symlink_to(tmp_path / "kept")
    assert {own_temporary(): "it is a symbolic link, which is not followed."} == left_behind()
    with pytest.raises(PolicyError, match="not followed"), temporary_directory():
        pass
    assert ["file"] == files_below(tmp_path / "kept")


@pytest.mark.needs_rights("another_user")
def test_copies_of_another_user_are_named(temporary: Path) -> None:
    """Whose directory has some; an empty one, and one that is not that user's, has none."""
    for user in (NOBODY, NOBODY + 1):
        directory = temporary / f"logwright-{user}"
        directory.mkdir(mode=0o700)
        os.chown(directory, NOBODY, NOBODY)
    assert {} == left_behind()
    for user in (NOBODY, NOBODY + 1):
        (temporary / f"logwright-{user}" / "logwright-copy-0123456789abcdef").mkdir()
    assert [temporary / f"logwright-{NOBODY}"] == [*left_behind()]


def test_a_copy_needs_no_note(tmp_path: Path) -> None:
    """Where there can be no temporary files, ``--scratch`` is enough."""
    own_temporary().touch()
    with working_directory(tmp_path / "scratch", ByteCount(0)) as path:
        assert path.is_dir()
    assert not path.exists()
