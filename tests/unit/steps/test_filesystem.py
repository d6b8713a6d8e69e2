"""What the real file system does for each step, and what it refuses."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from logwright.errors import InvariantError
from logwright.steps.filesystem import RealFileSystem


@pytest.fixture
def root(tmp_path: Path) -> Path:
    directory = tmp_path / "log-dir"
    (directory / "t-0").mkdir(parents=True)
    return directory


@pytest.fixture
def fs(root: Path) -> Iterator[RealFileSystem]:
    with RealFileSystem(root) as opened:
        yield opened


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_written_file_has_the_content_and_is_private(fs: RealFileSystem, root: Path) -> None:
    """A file of our own is readable by its owner only, whatever the umask."""
    old = os.umask(0)
    try:
        fs.write_file(root / "t-0/x", b"abc", like=None)
    finally:
        os.umask(old)
    assert (root / "t-0/x").read_bytes() == b"abc"
    assert mode(root / "t-0/x") == 0o600


@pytest.mark.parametrize("wanted", [0o600, 0o640, 0o644, 0o660])
def test_written_file_takes_the_mode_of_what_it_is_like(
    fs: RealFileSystem, root: Path, wanted: int
) -> None:
    """A file that stands for another one has exactly its mode, whatever the umask."""
    (root / "t-0/old").write_bytes(b"")
    (root / "t-0/old").chmod(wanted)
    old = os.umask(0o077)
    try:
        fs.write_file(root / "t-0/x", b"", like=root / "t-0/old")
    finally:
        os.umask(old)
    assert mode(root / "t-0/x") == wanted


def test_written_file_like_a_directory_is_not_executable(fs: RealFileSystem, root: Path) -> None:
    """The root may be the model too, when there is no file to be like."""
    root.chmod(0o750)
    fs.write_file(root / "x", b"", like=root)
    assert mode(root / "x") == 0o640


def test_owner_and_group_are_taken_over(fs: RealFileSystem, root: Path) -> None:
    """The broker's user keeps its files, though root maintains them; only root gives files away."""
    owner, group = (1234, 2345) if os.geteuid() == 0 else (os.geteuid(), os.getegid())
    old = root / "t-0/old"
    old.write_bytes(b"")
    os.chown(old, owner, group)
    old.chmod(0o640)
    (root / "t-0/new").write_bytes(b"")
    fs.set_owner(root / "t-0/new", like=old)
    status = (root / "t-0/new").stat()
    assert (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)) == (owner, group, 0o640)


def test_write_does_not_write_through_a_second_name(fs: RealFileSystem, root: Path) -> None:
    """A file that is replaced may be the other name of one that is kept."""
    (root / "t-0/kept").write_bytes(b"kept")
    os.link(root / "t-0/kept", root / "t-0/x")
    fs.write_file(root / "t-0/x", b"new", like=None)
    assert (root / "t-0/kept").read_bytes() == b"kept"
    assert (root / "t-0/x").read_bytes() == b"new"


def test_append_truncate_and_times(fs: RealFileSystem, root: Path) -> None:
    """Content steps do what they say."""
    path = root / "t-0/x"
    path.write_bytes(b"abc")
    fs.append(path, b"def", create=False)
    assert path.read_bytes() == b"abcdef"
    fs.truncate(path, 2)
    assert path.read_bytes() == b"ab"
    fs.set_mtime(path, 1_760_000_000_123_456_789)
    assert path.stat().st_mtime_ns == 1_760_000_000_123_456_789
    fs.fsync_file(path)
    fs.fsync_dir(root / "t-0")
    fs.fsync_dir(root)


def test_append_makes_a_file_only_when_told(fs: RealFileSystem, root: Path) -> None:
    """Appending to what is not there is a fault of the plan, unless it says otherwise."""
    with pytest.raises(FileNotFoundError):
        fs.append(root / "t-0/x", b"a", create=False)
    fs.append(root / "t-0/x", b"a", create=True)
    fs.append(root / "t-0/x", b"b", create=True)
    assert (root / "t-0/x").read_bytes() == b"ab"
    assert mode(root / "t-0/x") == 0o600


def test_names(fs: RealFileSystem, root: Path) -> None:
    """Renames replace, links do not."""
    (root / "t-0/a").write_bytes(b"a")
    (root / "t-0/b").write_bytes(b"b")
    with pytest.raises(FileExistsError):
        fs.link(root / "t-0/a", root / "t-0/b")
    fs.link(root / "t-0/a", root / "t-0/c")
    fs.rename(root / "t-0/a", root / "t-0/b")
    assert names(root / "t-0") == ["b", "c"]
    assert (root / "t-0/b").read_bytes() == b"a"
    fs.unlink(root / "t-0/b")
    fs.unlink(root / "t-0/c")
    fs.remove_dir(root / "t-0")
    assert names(root) == []


def outside(tmp_path: Path) -> Path:
    canary = tmp_path / "canary"
    canary.mkdir()
    (canary / "x").write_bytes(b"canary")
    return canary


ACTS = {
    "append": lambda fs, path: fs.append(path, b"!", create=True),
    "truncate": lambda fs, path: fs.truncate(path, 0),
    "rename": lambda fs, path: fs.rename(path, path.with_name("y")),
    "rename over": lambda fs, path: fs.rename(path.with_name("z"), path),
    "link": lambda fs, path: fs.link(path, path.with_name("y")),
    "unlink": lambda fs, path: fs.unlink(path),
    "write": lambda fs, path: fs.write_file(path, b"!", like=None),
    "fsync": lambda fs, path: fs.fsync_file(path),
    "time": lambda fs, path: fs.set_mtime(path, 0),
    "owner": lambda fs, path: fs.set_owner(path, like=path.with_name("z")),
}


@pytest.mark.parametrize("act", ACTS)
def test_symbolic_link_in_place_of_a_file_is_refused(
    fs: RealFileSystem, root: Path, tmp_path: Path, act: str
) -> None:
    """No step reaches through a link that took a file's place."""
    canary = outside(tmp_path)
    (root / "t-0/x").symlink_to(canary / "x")
    (root / "t-0/z").write_bytes(b"z")
    with pytest.raises(OSError, match=r".") as caught:
        ACTS[act](fs, root / "t-0/x")
    assert caught.value.errno == errno.ELOOP
    assert (canary / "x").read_bytes() == b"canary"


@pytest.mark.parametrize("act", ACTS)
def test_symbolic_link_in_place_of_a_directory_is_refused(
    fs: RealFileSystem, root: Path, tmp_path: Path, act: str
) -> None:
    """No step reaches through a link that took the partition directory's place."""
    canary = outside(tmp_path)
    (canary / "z").write_bytes(b"z")
    (root / "t-0").rmdir()
    (root / "t-0").symlink_to(canary)
    before = names(canary)
    with pytest.raises(OSError, match=r".") as caught:
        ACTS[act](fs, root / "t-0/x")
    assert caught.value.errno in {errno.ELOOP, errno.ENOTDIR}
    assert names(canary) == before
    assert (canary / "x").read_bytes() == b"canary"


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.timeout(10)
def test_pipes_and_directories_are_refused(fs: RealFileSystem, root: Path, act: str) -> None:
    """Opening a FIFO must not hang, and a directory is not a segment file."""
    (root / "t-0/z").write_bytes(b"z")
    os.mkfifo(root / "t-0/x")
    with pytest.raises(OSError, match=r"."):
        ACTS[act](fs, root / "t-0/x")
    (root / "t-0/x").unlink()
    (root / "t-0/x").mkdir()
    with pytest.raises(OSError, match=r"."):
        ACTS[act](fs, root / "t-0/x")


@pytest.mark.parametrize("path", ["../canary/x", "t-0/../../canary/x"])
def test_path_outside_the_root_is_our_fault(
    fs: RealFileSystem, root: Path, tmp_path: Path, path: str
) -> None:
    """A plan never leads out of the log directory."""
    canary = outside(tmp_path)
    with pytest.raises(InvariantError):
        fs.unlink(root / path)
    with pytest.raises(InvariantError):
        fs.unlink(canary / "x")
    assert (canary / "x").exists()


def test_the_file_system_itself_may_be_the_root(tmp_path: Path) -> None:
    """A disk may be mounted as ``/``."""
    directory = tmp_path.resolve()
    (directory / "x").touch()
    with RealFileSystem(Path("/")) as fs:
        fs.rename(directory / "x", directory / "y")
        fs.fsync_dir(directory)
        fs.fsync_dir(Path("/"))
        with pytest.raises(FileNotFoundError):
            fs.unlink(Path("/no file of this name"))
    assert names(directory) == ["y"]


@pytest.mark.parametrize(
    ("here", "log_dir"), [(".", "logs"), ("logs", "."), ("logs/t-0", ".."), ("other", "../logs")]
)
def test_the_root_may_be_relative(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, here: str, log_dir: str
) -> None:
    """As the operator gave it; nothing leads out of it, not to where ``/`` is either."""
    for name in ("logs/t-0", "other"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "other/x").touch()
    monkeypatch.chdir(tmp_path / here)
    root = Path(log_dir)
    with RealFileSystem(root) as fs:
        fs.write_file(root / "t-0/y", b"y", like=None)
        fs.rename(root / "t-0/y", root / "y")
        fs.fsync_dir(root)
        fs.fsync_dir(root / "t-0")
        for outside_it in (root / "../other/x", root / "t-0/../../other/x", tmp_path / "logs/y"):
            with pytest.raises(InvariantError):
                fs.unlink(outside_it)
    assert names(tmp_path / "logs") == ["t-0", "y"]
    assert names(tmp_path / "other") == ["x"]


def test_held_root_is_the_one_that_was_opened(
    fs: RealFileSystem, root: Path, tmp_path: Path
) -> None:
    """A root that is moved away and replaced after opening is not mistaken for the first one."""
    root.rename(tmp_path / "moved")
    (root / "t-0").mkdir(parents=True)
    fs.write_file(root / "t-0/x", b"", like=None)
    assert names(root / "t-0") == []
    assert names(tmp_path / "moved/t-0") == ["x"]


def test_few_directories_are_held_open(tmp_path: Path) -> None:
    """Steps in any number of directories, one after the other and by turns."""
    names = [f"topic-{number}" for number in range(100)]
    for name in names:
        (tmp_path / name).mkdir()
    with RealFileSystem(tmp_path) as files:
        before = len(list(Path("/proc/self/fd").iterdir()))
        for name, other in zip(names, reversed(names), strict=True):
            files.write_file(tmp_path / name / "a", b"content", like=None)
            files.rename(tmp_path / name / "a", tmp_path / other / "b")
        assert len(list(Path("/proc/self/fd").iterdir())) <= before + 32
    assert [tmp_path / name / "b" for name in sorted(names)] == sorted(tmp_path.glob("*/*"))
