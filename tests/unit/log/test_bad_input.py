"""Damaged and hostile log directories: each is refused by its own error, with path and place."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from logwright.errors import (
    CorruptBatch,
    CorruptCheckpoint,
    CorruptIndex,
    LogwrightError,
    NotALogDir,
    UncleanLogDir,
    UnreadableFile,
    UnsupportedFormatError,
)
from logwright.format.names import TopicPartition
from logwright.log.checkpoints import read_checkpoints
from logwright.log.dump import dump_partition
from logwright.log.load import fingerprint, list_partitions, observe
from tests.fixtures import copy_before
from tests.unit.format.builders import a_batch

if TYPE_CHECKING:
    from collections.abc import Callable

T0 = TopicPartition("t", 0)
FIRST = f"{0:020d}"
ACTIVE = f"{482:020d}"
REPOSITORY = Path(__file__).parents[3]


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    return copy_before("basic-none", tmp_path)


def refusal(log_dir: Path) -> LogwrightError:
    """What observing raises; every refusal has a path and a remedy."""
    with pytest.raises(LogwrightError) as refused:
        observe(log_dir, T0, high_watermark="end")
    assert refused.value.path is not None
    assert refused.value.remedy
    return refused.value


def patch(path: Path, position: int, content: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        file.write(content)


def append(path: Path, content: bytes) -> int:
    """Appends; the size before."""
    size = path.stat().st_size
    with path.open("ab") as file:
        file.write(content)
    return size


def test_a_missing_log_dir(tmp_path: Path) -> None:
    """Nothing there."""
    assert isinstance(refusal(tmp_path / "missing"), NotALogDir)
    with pytest.raises(NotALogDir):
        read_checkpoints(tmp_path / "missing")


def test_a_missing_partition(log_dir: Path) -> None:
    """The log directory is there, the partition is not."""
    with pytest.raises(NotALogDir) as refused:
        observe(log_dir, TopicPartition("t", 1), high_watermark="end")
    assert refused.value.path == log_dir / "t-1"


def test_a_partition_without_segments(log_dir: Path) -> None:
    """An empty directory is not a log."""
    (log_dir / "t-1").mkdir()
    with pytest.raises(UncleanLogDir, match="no segment"):
        observe(log_dir, TopicPartition("t", 1), high_watermark="end")


def test_the_tail_is_checked_by_crc(log_dir: Path) -> None:
    """A flipped bit after the active segment's last index entry."""
    path = log_dir / "t-0" / f"{ACTIVE}.log"
    size = path.stat().st_size
    patch(path, size - 1, bytes((path.read_bytes()[-1] ^ 1,)))
    error = refusal(log_dir)
    assert isinstance(error, CorruptBatch)
    assert "CRC" in error.problem
    assert error.path == path
    assert error.position is not None
    assert 0 < error.position < size


@pytest.mark.parametrize("left", [1, 11, 12, 17, 18, 60, 61, 100])
def test_a_truncated_last_batch(log_dir: Path, left: int) -> None:
    """Kafka steps over it after a clean stop; here it is refused, where it begins."""
    path = log_dir / "t-0" / f"{ACTIVE}.log"
    size = append(path, a_batch(500, size=300)[:left])
    error = refusal(log_dir)
    assert isinstance(error, CorruptBatch)
    assert (path, size) == (error.path, error.position)
    assert "truncated" in error.problem


@pytest.mark.parametrize("count", [12, 17, 61, 4096])
def test_a_zero_filled_tail(log_dir: Path, count: int) -> None:
    """As a power loss or a preallocated segment leaves it."""
    size = append(log_dir / "t-0" / f"{ACTIVE}.log", bytes(count))
    error = refusal(log_dir)
    assert isinstance(error, CorruptBatch)
    assert size == error.position
    assert "zeros" in error.problem


@pytest.mark.parametrize("magic", [0, 1, 3, 255])
@pytest.mark.parametrize("stem", [FIRST, ACTIVE])
def test_an_unknown_magic(log_dir: Path, stem: str, magic: int) -> None:
    """In the first batch of a sealed segment, and of the active one."""
    path = log_dir / "t-0" / f"{stem}.log"
    patch(path, 16, bytes((magic,)))
    error = refusal(log_dir)
    # Only its CRC shows that a batch is of an old format.
    assert isinstance(error, CorruptBatch if magic < 2 else UnsupportedFormatError)
    assert (path, 0) == (error.path, error.position)


@pytest.mark.parametrize("length", [0, -1, 48, 2**31 - 1])
def test_an_impossible_length(log_dir: Path, length: int) -> None:
    """In the first batch of a sealed segment."""
    path = log_dir / "t-0" / f"{FIRST}.log"
    patch(path, 8, struct.pack(">i", length))
    error = refusal(log_dir)
    assert isinstance(error, CorruptBatch)
    assert (path, 0) == (error.path, error.position)


@pytest.mark.parametrize("base", [-1, 2**62])
def test_offsets_outside_the_segment(log_dir: Path, base: int) -> None:
    """Below the segment's base offset, or more than an int32 above."""
    patch(log_dir / "t-0" / f"{FIRST}.log", 0, struct.pack(">q", base))
    assert isinstance(refusal(log_dir), CorruptBatch if base < 0 else UnsupportedFormatError)


def test_offsets_that_do_not_ascend(log_dir: Path) -> None:
    """A batch that comes twice at the end."""
    size = append(log_dir / "t-0" / f"{ACTIVE}.log", a_batch(499))
    error = refusal(log_dir)
    assert isinstance(error, CorruptBatch)
    assert size == error.position


@pytest.mark.parametrize("suffix", ["index", "timeindex"])
@pytest.mark.parametrize("stem", [FIRST, ACTIVE])
def test_an_index_of_broken_entries(log_dir: Path, stem: str, suffix: str) -> None:
    """Its length is not a whole number of entries."""
    path = log_dir / "t-0" / f"{stem}.{suffix}"
    size = append(path, b"x")
    error = refusal(log_dir)
    assert isinstance(error, CorruptIndex)
    assert (path, size) == (error.path, error.position)


@pytest.mark.parametrize("suffix", ["index", "timeindex"])
def test_an_index_that_was_not_trimmed(log_dir: Path, suffix: str) -> None:
    """Zero entries at the end: retention would take them for the year 1970."""
    append(log_dir / "t-0" / f"{ACTIVE}.{suffix}", bytes(24))
    assert isinstance(refusal(log_dir), CorruptIndex)


@pytest.mark.parametrize("entry", [(3, -1), (3, 0), (3, 2**31 - 1), (-1, 10), (3, 10)], ids=str)
def test_an_index_entry_that_points_nowhere(log_dir: Path, entry: tuple[int, int]) -> None:
    """Outside the log, or not at a batch with this last offset."""
    path = log_dir / "t-0" / f"{ACTIVE}.index"
    path.write_bytes(struct.pack(">ii", *entry))
    assert isinstance(refusal(log_dir), CorruptIndex | CorruptBatch | UnsupportedFormatError)


def test_an_index_entry_with_another_batchs_offset(log_dir: Path) -> None:
    """The position is right, the offset is in the batch before, or after all."""
    path = log_dir / "t-0" / f"{ACTIVE}.index"
    _, position = struct.unpack(">ii", path.read_bytes())
    batch = path.with_suffix(".log").read_bytes()[position:]
    first = int.from_bytes(batch[:8], "big") - int(ACTIVE)
    for offset in (first - 1, 10_000):
        path.write_bytes(struct.pack(">ii", offset, position))
        error = refusal(log_dir)
        assert isinstance(error, CorruptIndex)
        assert path == error.path


def test_a_time_index_entry_behind_its_segment(log_dir: Path) -> None:
    """The next segment begins at 77."""
    path = log_dir / "t-0" / f"{FIRST}.timeindex"
    path.write_bytes(struct.pack(">qi", 2**60, 77))
    error = refusal(log_dir)
    assert isinstance(error, CorruptIndex)
    assert path == error.path


def test_a_malformed_checkpoint(log_dir: Path) -> None:
    """Any of the four files."""
    path = log_dir / "recovery-point-offset-checkpoint"
    path.write_text("0\n5\nt 0 0\n")
    error = refusal(log_dir)
    assert isinstance(error, CorruptCheckpoint)
    assert path == error.path


def test_a_log_start_beyond_the_log_end(log_dir: Path) -> None:
    """Kafka would drop the whole log."""
    (log_dir / "log-start-offset-checkpoint").write_text("0\n1\nt 0 501\n")
    assert isinstance(refusal(log_dir), CorruptCheckpoint)


@pytest.mark.parametrize("name", ["abc.log", "1.index", f"{0:021d}.log", f"{2**63}.log"])
def test_a_name_that_no_broker_writes(log_dir: Path, name: str) -> None:
    """Kafka takes any *.log for a segment, and fails on a name that is not a number."""
    (log_dir / "t-0" / name).touch()
    error = refusal(log_dir)
    assert isinstance(error, UncleanLogDir)
    assert name in str(error)


def make_fifo(path: Path) -> None:
    os.mkfifo(path)


def make_directory(path: Path) -> None:
    path.mkdir()


def make_symlink(path: Path) -> None:
    target = path.parent.parent / "elsewhere"
    target.write_bytes(b"")
    path.symlink_to(target)


def make_dangling(path: Path) -> None:
    path.symlink_to("nowhere")


def make_socket(path: Path) -> None:
    held = os.open(path.parent, os.O_RDONLY)
    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(f"/proc/self/fd/{held}/{path.name}")
    finally:
        os.close(held)


KINDS = [make_fifo, make_directory, make_symlink, make_dangling, make_socket]


@pytest.mark.parametrize("make", KINDS)
@pytest.mark.parametrize(
    "name",
    [
        f"{FIRST}.log",
        f"{ACTIVE}.index",
        f"{FIRST}.timeindex",
        f"{77:020d}.snapshot",
        f"{FIRST}.log.swap",
        "leader-epoch-checkpoint",
    ],
)
def test_what_is_no_regular_file_is_refused(
    log_dir: Path, name: str, make: Callable[[Path], None]
) -> None:
    """Symlinks are not followed, FIFOs not waited for."""
    path = log_dir / "t-0" / name
    path.unlink(missing_ok=True)
    make(path)
    error = refusal(log_dir)
    assert isinstance(error, UnreadableFile)
    assert path == error.path
    with pytest.raises(UnreadableFile):
        fingerprint(log_dir, T0)


@pytest.mark.parametrize("make", KINDS)
def test_a_checkpoint_that_is_no_regular_file_is_refused(
    log_dir: Path, make: Callable[[Path], None]
) -> None:
    """As any other file."""
    path = log_dir / "cleaner-offset-checkpoint"
    make(path)
    error = refusal(log_dir)
    assert isinstance(error, UnreadableFile)
    assert path == error.path


@pytest.mark.parametrize("make", [make_fifo, make_symlink])
def test_a_dump_opens_only_regular_files(log_dir: Path, make: Callable[[Path], None]) -> None:
    """The same door for all that is read."""
    path = log_dir / "t-0" / f"{FIRST}.log"
    path.unlink()
    make(path)
    with pytest.raises(UnreadableFile):
        list(dump_partition(log_dir, T0))


def test_a_symlinked_partition_is_listed_and_refused(log_dir: Path) -> None:
    """It is not ignored silently, and not followed."""
    (log_dir / "t-0").rename(log_dir.parent / "t-0")
    (log_dir / "t-0").symlink_to(log_dir.parent / "t-0")
    assert list_partitions(log_dir) == [T0]
    error = refusal(log_dir)
    assert isinstance(error, UnreadableFile)
    assert error.path == log_dir / "t-0"


def test_a_symlinked_log_dir_is_followed(log_dir: Path, tmp_path: Path) -> None:
    """The operator named it; only what lies below is untrusted."""
    (tmp_path / "link").symlink_to(log_dir)
    assert observe(tmp_path / "link", T0, high_watermark="end").log_end_offset == 500


def test_a_partition_that_is_a_file_is_refused(log_dir: Path) -> None:
    """A plain file with a partition's name."""
    (log_dir / "t-1").touch()
    with pytest.raises(UnreadableFile):
        observe(log_dir, TopicPartition("t", 1), high_watermark="end")


@pytest.mark.parametrize(
    "locked",
    [f"t-0/{ACTIVE}.log", f"t-0/{FIRST}.timeindex", "replication-offset-checkpoint", "t-0"],
)
def test_a_file_without_permission_is_refused(log_dir: Path, locked: str) -> None:
    """Under another user, who may read all but one: EACCES, the path, what to do."""
    for parent in log_dir.parents:
        if parent.stat().st_uid == os.geteuid() and parent not in (Path("/"), Path("/tmp")):  # noqa: S108 - left as it is
            parent.chmod(parent.stat().st_mode | 0o055)
    (log_dir / locked).chmod(0)
    probe = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from logwright.errors import UnreadableFile\n"
        "from logwright.format.names import TopicPartition\n"
        "from logwright.log.load import observe\n"
        "if os.geteuid() == 0:\n"
        "    os.setgroups([]); os.setegid(65534); os.seteuid(65534)\n"
        "try:\n"
        "    observe(Path(sys.argv[1]), TopicPartition('t', 0), high_watermark='end')\n"
        "except UnreadableFile as error:\n"
        "    print(error)\n"
    )
    process = subprocess.run(
        [sys.executable, "-c", probe, str(log_dir)],
        cwd=REPOSITORY,
        check=True,
        capture_output=True,
        text=True,
    )
    assert f"{log_dir / locked}: cannot be read (EACCES" in process.stdout
    assert "permission" in process.stdout
