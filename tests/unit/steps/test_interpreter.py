"""Steps are executed in order, and a failure says what, where and what to do."""

from __future__ import annotations

import errno
import pickle
from pathlib import Path

import pytest

from logwright.errors import DiskFull, LogwrightError, StepFailed
from logwright.steps.filesystem import RealFileSystem
from logwright.steps.interpreter import execute
from logwright.steps.step import (
    Append,
    FileStep,
    FsyncDir,
    FsyncFile,
    Link,
    RemoveDir,
    Rename,
    SetMtime,
    SetOwner,
    Truncate,
    Unlink,
    WriteFile,
)
from tests.crash.filesystems import FailingFileSystem


def steps_of_each_kind(root: Path) -> tuple[FileStep, ...]:
    a, b, c = root / "a", root / "b", root / "c"
    return (
        WriteFile(a, b"one"),
        Append(a, b"two"),
        Truncate(a, 5),
        Link(a, b),
        Rename(a, c),
        SetOwner(c, like=b),
        SetMtime(c, 5_000_000_000),
        FsyncFile(c),
        FsyncDir(root),
        Unlink(b),
        RemoveDir(root / "empty"),
    )


def test_every_kind_of_step_is_executed(tmp_path: Path) -> None:
    """The whole closed union is understood."""
    (tmp_path / "empty").mkdir()
    with RealFileSystem(tmp_path) as fs:
        execute(steps_of_each_kind(tmp_path), fs)
    assert [path.name for path in tmp_path.iterdir()] == ["c"]
    assert (tmp_path / "c").read_bytes() == b"onetw"
    assert (tmp_path / "c").stat().st_mtime_ns == 5_000_000_000


def test_absent_file_is_forgiven_only_where_told(tmp_path: Path) -> None:
    """`missing_ok` forgives that one errno and no other."""
    with RealFileSystem(tmp_path) as fs:
        execute([Unlink(tmp_path / "x", missing_ok=True)], fs)
        execute([RemoveDir(tmp_path / "x", missing_ok=True)], fs)
        with pytest.raises(StepFailed, match="ENOENT"):
            execute([Unlink(tmp_path / "x")], fs)
        (tmp_path / "x").mkdir()
        with pytest.raises(StepFailed):
            execute([Unlink(tmp_path / "x", missing_ok=True)], fs)


@pytest.mark.parametrize("number", range(1, 12))
@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (errno.ENOSPC, DiskFull),
        (errno.EDQUOT, DiskFull),
        (errno.EIO, StepFailed),
        (errno.EACCES, StepFailed),
        (errno.EROFS, StepFailed),
        (errno.EMFILE, StepFailed),
    ],
)
def test_failure_names_step_path_and_errno(
    tmp_path: Path, number: int, code: int, kind: type[LogwrightError]
) -> None:
    """Whatever call fails, the error says which step it was, and nothing after it is done."""
    (tmp_path / "empty").mkdir()
    with RealFileSystem(tmp_path) as real:
        fs = FailingFileSystem(real, fail_at=number, code=code)
        with pytest.raises(kind) as caught:
            execute(steps_of_each_kind(tmp_path), fs)
    error = caught.value
    step = steps_of_each_kind(tmp_path)[number - 1]
    assert f"step {number} ({type(step).__name__})" in str(error)
    assert errno.errorcode[code] in str(error)
    assert error.path is not None
    assert error.path.is_relative_to(tmp_path)
    assert error.remedy
    assert fs.calls == number
    if kind is StepFailed:
        again = pickle.loads(pickle.dumps(error))  # noqa: S301, TID251  our own bytes
        assert (again.step_number, again.step, again.errno_name) == (
            number,
            type(step).__name__,
            errno.errorcode[code],
        )
        assert str(again) == str(error)
