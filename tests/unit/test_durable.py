"""Durable files: whole under their name at every moment, and synced in the right order."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from logwright import durable
from tests.table_deaths import Died

Write = Callable[[Path], None]


def replace(path: Path) -> None:
    durable.replace(path, b"new")


def replacing(path: Path) -> None:
    with durable.replacing(path) as file:
        file.write(b"ne")
        file.write(b"w")


def new(path: Path) -> None:
    durable.new(path, b"new")


def directory(path: Path) -> None:
    with durable.directory(path) as staged:
        (staged / "sub").mkdir()
        with durable.created(staged / "sub/file") as file:
            file.write(b"new")


FILES: dict[str, Write] = {"replace": replace, "replacing": replacing, "new": new}


class Calls:
    """The calls that change a disk, in their order; at a death before or after one it ends."""

    def __init__(self, root: Path, dies_at: int | None = None) -> None:
        self.root = root
        self.dies_at = dies_at
        self.steps = 0
        self.names: list[str] = []

    def wrap(self, name: str) -> Callable[..., object]:
        """The same function of `os`, noted."""
        function = getattr(os, name)

        def called(*given: object, **more: object) -> object:
            self._step()
            self.names.append(" ".join([name, *map(self._name, given)]))
            result = function(*given, **more)
            self._step()
            return result

        return called

    def _step(self) -> None:
        self.steps += 1
        if self.dies_at is not None and self.steps >= self.dies_at:
            raise Died

    def _name(self, given: object) -> str:
        """Path relative to the root, also of a descriptor; `?` for a temporary name in it."""
        if isinstance(given, int):
            given = Path(f"/proc/self/fd/{given}").readlink()
        parts = Path(str(given)).relative_to(self.root).parts
        return "/".join("?" if one.endswith(".logwright-tmp") else one for one in parts) or "."


@contextmanager
def noted(patch: pytest.MonkeyPatch, root: Path, dies_at: int | None = None) -> Iterator[Calls]:
    """Note the calls below a directory."""
    calls = Calls(root, dies_at)
    with patch.context() as patched:
        for name in ("fsync", "replace", "rename", "link"):
            patched.setattr(os, name, calls.wrap(name))
        for name in ("unlink", "mkdir"):
            patched.setattr(os, name, counted(calls, getattr(os, name)))
        yield calls


def counted(calls: Calls, function: Callable[..., object]) -> Callable[..., object]:
    """The same function: one more place at which a process may die, not noted."""

    def called(*given: object, **more: object) -> object:
        calls._step()
        result = function(*given, **more)
        calls._step()
        return result

    return called


@pytest.mark.parametrize(
    ("write", "expected"),
    [
        (replace, ["fsync ?", "replace ? name", "fsync ."]),
        (replacing, ["fsync ?", "replace ? name", "fsync ."]),
        (new, ["fsync ?", "link ? name", "fsync ."]),
        (
            directory,
            [
                "fsync ?/sub/file",
                "fsync ?/sub",
                "fsync ?",
                "fsync ?/sub",
                "rename ? name",
                "fsync .",
            ],
        ),
        (lambda path: durable.append(path, b"new"), ["fsync name", "fsync ."]),
        (
            lambda path: durable.make_directory(path / "sub"),
            ["fsync name", "fsync ."],
        ),
    ],
)
def test_order_of_the_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Write, expected: list[str]
) -> None:
    """The content is synced before it has its name, and the name before the call returns."""
    with noted(monkeypatch, tmp_path) as calls:
        write(tmp_path / "name")
    assert expected == calls.names


@pytest.mark.crash
@pytest.mark.parametrize(
    ("name", "old"),
    [("replace", b"old"), ("replace", None), ("replacing", b"old"), ("new", None)],
)
def test_died_at_every_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, old: bytes | None
) -> None:
    """The name has all of the old or all of the new content, both at some death; the next write
    succeeds, and one removes what is left after a day.
    """
    seen = set()
    for dies_at in range(1, 100):
        folder = tmp_path / str(dies_at)
        folder.mkdir()
        path = folder / "file"
        if old is not None:
            path.write_bytes(old)
        with noted(monkeypatch, folder, dies_at) as calls:
            try:
                FILES[name](path)
            except Died:
                pass
            else:
                break
        content = path.read_bytes() if path.exists() else None
        seen.add(content)
        if content != b"new":
            FILES[name](path)
        left = set(folder.iterdir()) - {path}
        assert all(one.name.startswith(".") for one in left)
        for left_file in left:
            os.utime(left_file, (0, 0))
        durable.replace(folder / "other", b"")
        assert {path, folder / "other"} == set(folder.iterdir())
    assert {old, b"new"} == seen
    assert dies_at == calls.steps + 1


def test_new_replaces_nothing(tmp_path: Path) -> None:
    """Not even what another process has made at this moment."""
    (tmp_path / "file").write_bytes(b"old")
    with pytest.raises(FileExistsError):
        new(tmp_path / "file")
    assert [b"old"] == [one.read_bytes() for one in tmp_path.iterdir()]


@pytest.mark.crash
def test_a_directory_appears_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever its writer dies, there is none, or all of it."""
    seen = set()
    for dies_at in range(1, 100):
        path = tmp_path / str(dies_at) / "made"
        path.parent.mkdir()
        try:
            with noted(monkeypatch, path.parent, dies_at):
                directory(path)
        except Died:
            seen.add(path.exists())
        else:
            break
        assert not path.exists() or [b"new"] == [one.read_bytes() for one in path.rglob("file")]
    assert {False, True} == seen


@pytest.mark.parametrize("name", FILES)
def test_an_error_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """A disk without space: no file, no temporary one."""

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        FILES[name](tmp_path / "file")
    assert [] == list(tmp_path.iterdir())


def test_an_error_in_the_block(tmp_path: Path) -> None:
    """What was written of the new content does not get the name."""
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with pytest.raises(TypeError), durable.replacing(path) as file:
        file.writelines([b"ne", "w"])  # type: ignore[list-item]
    with pytest.raises(FileExistsError), durable.directory(tmp_path / "made") as staged:
        shutil.copytree(tmp_path, staged)
    assert [path] == list(tmp_path.iterdir())
    assert b"old" == path.read_bytes()


@pytest.mark.parametrize("is_there", [True, False])
def test_a_link_is_not_followed(tmp_path: Path, is_there: bool) -> None:
    """Whoever puts one under the name gets nothing written to where it leads."""
    target = tmp_path / "target"
    if is_there:
        target.write_bytes(b"other's")
    path = tmp_path / "file"
    for write in (new, lambda path: durable.append(path, b"new"), open_created):
        path.unlink(missing_ok=True)
        path.symlink_to(target)
        with pytest.raises(OSError, match="file"):
            write(path)
    replace(path)
    assert not path.is_symlink()
    assert b"new" == path.read_bytes()
    assert is_there == target.exists()
    assert not is_there or target.read_bytes() == b"other's"


def open_created(path: Path) -> None:
    with durable.created(path):
        pass


@pytest.mark.parametrize("umask", [0, 0o077])
@pytest.mark.parametrize("mode", [0o600, 0o644, 0o755, None])
def test_mode(tmp_path: Path, umask: int, mode: int | None) -> None:
    """The given one exactly, whatever the umask; without one the umask decides. It is never wider
    than that, not even while the file is written.
    """
    before = os.umask(umask)
    try:
        with durable.replacing(tmp_path / "file", mode=mode):
            (temporary,) = tmp_path.iterdir()
            at_first = stat.S_IMODE(temporary.stat().st_mode)
        durable.new(tmp_path / "other", b"", mode=mode)
    finally:
        os.umask(before)
    expected = 0o666 & ~umask if mode is None else mode
    assert expected == at_first
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("file", "other")]
    assert [expected, expected] == modes


def test_leftovers_are_removed_after_a_day(tmp_path: Path) -> None:
    """Not before, since another process may be writing; other files and links never."""
    names = [".1.logwright-tmp", ".2.logwright-tmp", ".x.tmp", "logwright-tmp"]
    for name in names:
        (tmp_path / name).write_bytes(b"x")
        os.utime(tmp_path / name, (0, 0))
    os.utime(tmp_path / names[0])
    (tmp_path / ".3.logwright-tmp").mkdir()
    durable.remove_leftovers(tmp_path)
    left = {".1.logwright-tmp", ".3.logwright-tmp", ".x.tmp", "logwright-tmp"}
    assert left == {one.name for one in tmp_path.iterdir()}
    durable.remove_leftovers(tmp_path, older_than_s=0)
    assert left - {".1.logwright-tmp"} == {one.name for one in tmp_path.iterdir()}
    shutil.rmtree(tmp_path)
    durable.remove_leftovers(tmp_path)
