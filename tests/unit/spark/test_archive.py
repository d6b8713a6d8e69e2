"""The archive of Spark's classes."""

from __future__ import annotations

from pathlib import Path

import pytest

from logwright.spark.archive import archive_options


def java_home(directory: Path) -> Path:
    """What the archive's name depends on."""
    (directory / "lib").mkdir(parents=True)
    (directory / "lib/modules").write_bytes(b"classes")
    return directory


def path_in(options: str) -> Path:
    """The archive that options name."""
    return Path(options.split(maxsplit=1)[0].partition("=")[2])


def test_first_session_writes_what_the_next_ones_use(tmp_path: Path) -> None:
    """The same file, and the directory is made."""
    home, cache = java_home(tmp_path / "java"), tmp_path / "cache/logwright"
    first = archive_options(home, cache=cache)
    assert first.startswith("-XX:ArchiveClassesAtExit=")
    path_in(first).write_bytes(b"archive")
    second = archive_options(home, cache=cache)
    assert second.startswith("-XX:SharedArchiveFile=")
    assert path_in(first) == path_in(second)


def test_another_java_has_its_own(tmp_path: Path) -> None:
    """Elsewhere, or exchanged where it was."""
    home, other = java_home(tmp_path / "java"), java_home(tmp_path / "other")
    first = archive_options(home, cache=tmp_path)
    assert path_in(first) != path_in(archive_options(other, cache=tmp_path))
    (home / "lib/modules").write_bytes(b"newer classes")
    assert path_in(first) != path_in(archive_options(home, cache=tmp_path))


@pytest.mark.parametrize("missing", ["cache", "modules"])
def test_does_without_where_it_cannot_be_kept(missing: str, tmp_path: Path) -> None:
    """A file where the directory should be; a Java of another build."""
    home, cache = java_home(tmp_path / "java"), tmp_path / "cache"
    if missing == "cache":
        cache.write_bytes(b"")
    else:
        (home / "lib/modules").unlink()
    assert "" == archive_options(home, cache=cache)
