"""What a kernel sees of partition directories is what Python's own calls say of them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from logwright.format.names import TopicPartition
from logwright.log.files import open_child_dir, open_log_dir, read_part
from logwright.log.glance import MOST_BYTES, MOST_FILES, TOGETHER, Glance, glances
from logwright.log.listing import stamp_files

BASE = f"{0:020d}"
PARTITIONS = tuple(TopicPartition("t", number) for number in range(3))


def looked_at(log_dir: Path, *, in_kernel: bool = True) -> list[tuple[object, object] | None]:
    """(stamps in their order, what was read) of each of the partitions."""
    names = [str(each) for each in PARTITIONS]
    with open_log_dir(log_dir) as parent:
        return [
            None if each is None else told(each)
            for seen in glances(parent, names, in_kernel=in_kernel)
            for each in seen
        ]


def told(glance: Glance) -> tuple[object, object]:
    return list(glance.stamps.items()), dict(glance.directory.seen)


def asked(log_dir: Path, partition: TopicPartition) -> tuple[object, object]:
    """The same, by Python's own calls."""
    seen = {}
    with open_log_dir(log_dir) as parent, open_child_dir(parent, partition) as directory:
        stamps = stamp_files(directory)
        for name, stamp in stamps.items():
            suffix = name[20:]
            size = {".log": 61, ".timeindex": 24, ".snapshot": MOST_BYTES}.get(suffix, 0)
            at = max(stamp.bytes - size, 0) if suffix == ".timeindex" else 0
            fits = suffix != ".snapshot" or stamp.bytes <= size
            if size and stamp.bytes and fits:
                seen[name] = read_part(directory, name, at, min(size, stamp.bytes))
    return list(stamps.items()), seen


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    for each in PARTITIONS:
        directory = tmp_path / str(each)
        directory.mkdir()
        for suffix, size in ((".log", 200), (".index", 16), (".timeindex", 36), (".snapshot", 10)):
            (directory / f"{BASE}{suffix}").write_bytes(os.urandom(size))
    return tmp_path


def others(directory: Path) -> None:
    (directory / ".logwright").mkdir()
    (directory / "pipe").unlink(missing_ok=True)
    os.mkfifo(directory / "pipe")
    (directory / "..more").symlink_to("/etc")
    (directory / "x").write_bytes(b"1")


def sizes(directory: Path) -> None:
    for number, size in enumerate((0, 1, 24, 60, 61, 62, MOST_BYTES, MOST_BYTES + 1)):
        for suffix in (".log", ".timeindex", ".snapshot"):
            (directory / f"{number + 1:020d}{suffix}").write_bytes(os.urandom(size))


def bytes_in_names(directory: Path) -> None:
    (Path(os.fsdecode(os.fsencode(directory) + b"/\xff\xfe.log"))).write_bytes(b"12")
    (directory / ("n" * 255)).write_bytes(b"")
    (directory / "ünï").write_bytes(b"")


def times(directory: Path) -> None:
    for number, time_ns in enumerate((0, -1, 1, 2**33 * 10**9 + 999_999_999)):
        path = directory / f"{number}"
        path.touch()
        os.utime(path, ns=(time_ns, time_ns))


def nothing(directory: Path) -> None:
    for path in directory.iterdir():
        path.unlink()


def many_names(directory: Path) -> None:
    """More than one answer of the system holds."""
    for number in range(1000):
        (directory / f"{number:0100d}").touch()


@pytest.mark.parametrize("change", [others, sizes, bytes_in_names, times, nothing, many_names])
def test_it_is_what_python_says(log_dir: Path, change: Callable[[Path], None]) -> None:
    """Of the directory that is changed and of those beside it, in the same order."""
    change(log_dir / str(PARTITIONS[1]))
    assert [asked(log_dir, each) for each in PARTITIONS] == looked_at(log_dir)


def link_as_log(directory: Path) -> None:
    (directory / f"{1:020d}.log").symlink_to(directory / f"{BASE}.log")


def directory_as_index(directory: Path) -> None:
    (directory / f"{1:020d}.index").mkdir()


def directory_gone(directory: Path) -> None:
    nothing(directory)
    directory.rmdir()


def directory_is_link(directory: Path) -> None:
    directory.rename(directory.with_name("elsewhere"))
    directory.symlink_to("elsewhere")


def too_many_files(directory: Path) -> None:
    for number in range(MOST_FILES):
        (directory / f"{number}").touch()


@pytest.mark.parametrize(
    "change",
    [link_as_log, directory_as_index, directory_gone, directory_is_link, too_many_files],
)
def test_nothing_is_said_of_what_is_not_ordinary(
    log_dir: Path, change: Callable[[Path], None]
) -> None:
    """All is said of those beside it."""
    change(log_dir / str(PARTITIONS[1]))
    first, last = (asked(log_dir, PARTITIONS[number]) for number in (0, 2))
    assert looked_at(log_dir) == [first, None, last]


def test_nothing_is_said_without_the_kernel(log_dir: Path) -> None:
    """As where the system has not all of its calls."""
    assert looked_at(log_dir, in_kernel=False) == [None] * len(PARTITIONS)


def test_many_directories(tmp_path: Path) -> None:
    """Groups of them, each of which is told before the next is."""
    names = [f"t-{number}" for number in range(3 * TOGETHER + 1)]
    for number, name in enumerate(names):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{number:020d}.log").write_bytes(name.encode())
    with open_log_dir(tmp_path) as parent:
        groups = list(glances(parent, names, in_kernel=True))
    assert [len(group) for group in groups] == [TOGETHER, TOGETHER, TOGETHER, 1]
    told_of = [each for group in groups for each in group if each is not None]
    assert [dict(each.directory.seen) for each in told_of] == [
        {f"{number:020d}.log": name.encode()} for number, name in enumerate(names)
    ]
    assert not list(glances(parent, [], in_kernel=True))


def test_no_descriptor_stays(log_dir: Path) -> None:
    """Not of what was seen, nor of what was not, nor of what nobody waits for any more."""
    too_many_files(log_dir / str(PARTITIONS[1]))
    link_as_log(log_dir / str(PARTITIONS[2]))
    before = len(list(Path("/proc/self/fd").iterdir()))
    looked_at(log_dir)
    with open_log_dir(log_dir) as parent:
        seen = glances(parent, [str(PARTITIONS[0])] * TOGETHER * 3, in_kernel=True)
        next(seen)
        assert before + 1 + TOGETHER <= len(list(Path("/proc/self/fd").iterdir()))
        seen.close()
    assert len(list(Path("/proc/self/fd").iterdir())) == before
