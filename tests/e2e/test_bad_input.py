"""Each bad input has its own error, exit status, place and remedy, and leaves the log as it was."""

from __future__ import annotations

import os
import re
import shutil
import struct
import tempfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import zstandard

from logwright.errors import (
    BatchAboveLimit,
    CorruptBatch,
    LogwrightError,
    NotALogDir,
    UnreadableFile,
    UnsupportedFormatError,
)
from logwright.format.batch import RecordBatch, serialize_batch, walk_batches
from logwright.format.codec import GZIP, ZSTD, compress
from logwright.format.crc import crc32c
from logwright.units import Offset, TimestampMs
from tests.e2e.command import AS_NOBODY, PROGRAM, Answer, call, process, tree
from tests.fixtures import copy_before
from tests.log_builder import START_MS, LogBuilder
from tests.rights import NOBODY

pytestmark = pytest.mark.e2e

MIB = 1024 * 1024
FIRST = f"{0:020d}.log"
SEALED = f"{77:020d}.log"
ACTIVE = f"{482:020d}.log"
OTHERS = ("a-0", "z-0")
WORDS = ("--config", "cleanup.policy=compact", "--now", 1760003686229, "--output", "json")
CHANGING = ("--yes", "--force")


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    return copy_before("basic-none", tmp_path)


def refused(
    answer: Answer, kind: type[LogwrightError], path: Path, position: int | None = None
) -> None:
    """One error, of this kind, with its place and a remedy, for people and programs."""
    (error,) = answer.errors
    assert (kind.__name__, kind.exit_status) == (error["error"], error["exitStatus"])
    assert kind.exit_status == answer.status
    assert (str(path), position) == (error["path"], error["position"])
    assert error["remedy"]
    place = f"{path}: " if position is None else f"{path} at byte {position}: "
    errors = [line for line in answer.err.splitlines() if line.startswith("Error: ")]
    assert 1 == len(errors)
    assert f"{place}{error['problem']} {error['remedy']}" in errors[0]
    assert "Traceback" not in answer.err


def starts(log: Path) -> list[int]:
    """Position of each batch."""
    return [span.position for span in walk_batches(log.read_bytes())]


def patch(log: Path, position: int, content: bytes) -> None:
    with log.open("r+b") as file:
        file.seek(position)
        file.write(content)


def mend_crc(log: Path, position: int) -> None:
    """Let the CRC of the batch at a position be right again."""
    content = log.read_bytes()
    (length,) = struct.unpack_from(">i", content, position + 8)
    crc = crc32c(content[position + 21 : position + 12 + length])
    patch(log, position + 17, struct.pack(">I", crc))


# --- no log directory ---------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["inspect", "plan", "clean", "purge", "retain", "roll"])
def test_what_is_no_log_directory(tmp_path: Path, command: str) -> None:
    """Missing, a plain file, a directory of something else: nothing is made of it."""
    (tmp_path / "file").touch()
    (tmp_path / "pictures").mkdir()
    (tmp_path / "pictures" / "cat.log").write_bytes(b"meow")
    words = (*WORDS, *(CHANGING[:1] if command not in ("inspect", "plan") else ()))
    before = sorted(tmp_path.rglob("*"))
    for name in ("missing", "file", "pictures"):
        refused(call(command, tmp_path / name, *words), NotALogDir, tmp_path / name)
    assert before == sorted(tmp_path.rglob("*"))


# --- files that are none ------------------------------------------------------------------------


def symlink(path: Path) -> None:
    """The operator moved the segment to another disk."""
    elsewhere = path.parents[2] / "elsewhere"
    path.rename(elsewhere)
    path.symlink_to(elsewhere)


def fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize("make", [symlink, fifo, directory])
@pytest.mark.parametrize("command", ["inspect", "plan", "clean", "purge", "retain", "roll"])
def test_a_segment_that_is_no_regular_file(
    log_dir: Path, command: str, make: Callable[[Path], None]
) -> None:
    """No link is followed, no FIFO waited for; a purge does not take its indexes for orphans."""
    path = log_dir / "t-0" / SEALED
    make(path)
    before = tree(log_dir.parent)
    words = (*WORDS, *(CHANGING[:1] if command not in ("inspect", "plan") else ()))
    refused(call(command, log_dir, *words), UnreadableFile, path)
    assert before == tree(log_dir.parent)


@pytest.fixture
def open_dir() -> Iterator[Path]:
    """A directory that other users can enter: pytest's are its user's alone."""
    with tempfile.TemporaryDirectory() as made:
        Path(made).chmod(0o755)
        yield Path(made)


@pytest.mark.rotates(5)
@pytest.mark.parametrize(
    "locked", [f"t-0/{SEALED}", f"t-0/{ACTIVE}", "cleaner-offset-checkpoint", "t-0", "."]
)
def test_what_may_not_be_read(open_dir: Path, locked: str) -> None:
    """EACCES for a user without rights to one file or directory of his log."""
    log_dir = copy_before("basic-none", open_dir)
    (log_dir / "cleaner-offset-checkpoint").write_text("0\n0\n")
    if os.geteuid() == 0:
        for path in (log_dir, *log_dir.rglob("*")):
            os.chown(path, NOBODY, NOBODY)
    before = tree(log_dir)
    path = log_dir / locked
    mode = path.stat().st_mode
    path.chmod(0)
    try:
        answers = [
            process(command, log_dir, *WORDS, *more, program=AS_NOBODY)
            for command, more in (("clean", CHANGING), ("plan", ()))
        ]
    finally:
        path.chmod(mode)
    for answer in answers:
        refused(answer, UnreadableFile, path)
        assert "Permission denied" in answer.errors[0]["problem"]
    assert before == tree(log_dir)


# --- bytes that are wrong -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """What is done to one segment's log.

    Attributes:
        do: damages it; the position that the error must name.
        words: what the problem must say.
    """

    do: Callable[[Path], int]
    kind: type[LogwrightError]
    words: str


def bit_flipped(log: Path) -> int:
    at = starts(log)[1]
    patch(log, at + 70, bytes([log.read_bytes()[at + 70] ^ 1]))
    return at


def magic(value: int) -> Callable[[Path], int]:
    def do(log: Path) -> int:
        at = starts(log)[-1]
        patch(log, at + 16, bytes([value]))
        return at

    return do


def unknown_codec(log: Path) -> int:
    at = starts(log)[1]
    patch(log, at + 22, b"\x05")
    mend_crc(log, at)
    return at


def garbled_payload(log: Path) -> int:
    """The batch says zstd and is not."""
    at = starts(log)[1]
    patch(log, at + 22, b"\x04")
    mend_crc(log, at)
    return at


def cut_off(left: int) -> Callable[[Path], int]:
    def do(log: Path) -> int:
        at = starts(log)[-1]
        os.truncate(log, at + left)
        return at

    return do


def zero_filled(log: Path) -> int:
    size = log.stat().st_size
    os.truncate(log, size + 4096)
    return size


DAMAGES = {
    "a flipped bit": Damage(do=bit_flipped, kind=CorruptBatch, words="CRC"),
    "magic 0": Damage(do=magic(0), kind=CorruptBatch, words="CRC"),
    "magic 1": Damage(do=magic(1), kind=CorruptBatch, words="CRC"),
    "magic 3": Damage(do=magic(3), kind=UnsupportedFormatError, words="magic"),
    "magic 255": Damage(do=magic(255), kind=UnsupportedFormatError, words="magic"),
    "codec 5": Damage(do=unknown_codec, kind=UnsupportedFormatError, words="codec"),
    "no zstd": Damage(do=garbled_payload, kind=CorruptBatch, words="decompress"),
    "a few bytes of a batch": Damage(do=cut_off(10), kind=CorruptBatch, words="truncated"),
    "most of a batch": Damage(do=cut_off(100), kind=CorruptBatch, words="truncated"),
    "zeros": Damage(do=zero_filled, kind=CorruptBatch, words="zeros"),
}
IN_ACTIVE = ("a few bytes of a batch", "most of a batch", "zeros", "magic 0", "magic 255")


@pytest.mark.parametrize(
    ("segment", "damage"),
    [(SEALED, name) for name in DAMAGES] + [(ACTIVE, name) for name in IN_ACTIVE],
)
def test_damaged_bytes(log_dir: Path, segment: str, damage: str) -> None:
    """In a sealed segment, and in the active one's tail: refused with class, file, position."""
    log = log_dir / "t-0" / segment
    position = DAMAGES[damage].do(log)
    before = tree(log_dir)
    answer = call("clean", log_dir, *WORDS, *CHANGING)
    refused(answer, DAMAGES[damage].kind, log, position)
    assert any(word in answer.errors[0]["problem"] for word in DAMAGES[damage].words.split("|"))
    assert before == tree(log_dir)
    forecast = call("plan", log_dir, *WORDS, "--forecast")
    refused(forecast, DAMAGES[damage].kind, log, position)
    assert before == tree(log_dir)


@pytest.mark.parametrize("damage", DAMAGES)
def test_one_bad_partition_does_not_stop_the_others(log_dir: Path, damage: str) -> None:
    """Before and after it, the others of the directory are cleaned, as they are without it."""
    for name in OTHERS:
        shutil.copytree(log_dir / "t-0", log_dir / name, copy_function=shutil.copy2)
    DAMAGES[damage].do(log_dir / "t-0" / SEALED)
    before = tree(log_dir / "t-0")
    answer = call("clean", log_dir, *WORDS, *CHANGING)
    assert DAMAGES[damage].kind.exit_status == answer.status
    assert {"t-0"} == {line["topicPartition"] for line in answer.errors}
    cleaned = [line for line in answer.lines if "error" not in line]
    assert {(name, 482) for name in OTHERS} == {
        (line["topicPartition"], line["newFirstDirtyOffset"]) for line in cleaned
    }
    assert before == tree(log_dir / "t-0")


# --- decompression bombs ------------------------------------------------------------------------

BOMB_BYTES = 512 * MIB
ROOM_BYTES = 224 * MIB
"""Three times the limit of 64 MiB, and some air: the kernel's scratch memory, which was too small,
and what grows in Python is copied while it grows. The harmless cleaning holds 110 MiB.
"""

MEASURED = f"""
from pathlib import Path
import sys
try:
    {PROGRAM.replace("; ", chr(10) + "    ")}
finally:
    sys.stderr.write(Path("/proc/self/status").read_text())
"""


def gzip_zeros(length: int) -> bytes:
    encoder = zlib.compressobj(1, zlib.DEFLATED, zlib.MAX_WBITS | 16)
    zeros = bytes(MIB)
    parts = [encoder.compress(zeros) for _ in range(length // MIB)]
    return b"".join((*parts, encoder.flush()))


def zstd_zeros(length: int) -> bytes:
    encoder = zstandard.ZstdCompressor(level=1, write_content_size=False).compressobj()
    zeros = bytes(MIB)
    parts = [encoder.compress(zeros) for _ in range(length // MIB)]
    return b"".join((*parts, encoder.flush()))


def one_batch(log_dir: Path, codec: int, payload: bytes) -> Path:
    """A log whose first segment is one batch with this payload."""
    header = RecordBatch(
        base_offset=Offset(0),
        batch_length=49,
        partition_leader_epoch=0,
        crc=0,
        attributes=codec,
        last_offset_delta=0,
        base_timestamp=TimestampMs(START_MS),
        max_timestamp=TimestampMs(START_MS),
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        records_count=1,
    )
    log = LogBuilder(log_dir)
    log.segment(0).batches.append(serialize_batch(header, payload))
    log.segment(1).batch(1, [("a", "b")])
    log.write()
    return log_dir


def measured(log_dir: Path) -> tuple[Answer, int]:
    """A cleaning in a process of its own, and the most memory it held at once."""
    answer = process("clean", log_dir, *WORDS, *CHANGING, program=MEASURED)
    matched = re.search(r"^VmHWM:\s+(\d+) kB$", answer.err, re.MULTILINE)
    assert matched is not None
    return answer, int(matched[1]) * 1024


@pytest.fixture(scope="module")
def harmless_bytes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """Memory of a cleaning that decompresses next to nothing."""
    directory = tmp_path_factory.mktemp("harmless")
    record = bytes.fromhex("10 00 00 00 02 6b 02 76 00")
    for name in ("first", "second"):  # the first may have to compile the kernels
        answer, peak = measured(one_batch(directory / name, ZSTD, compress(ZSTD, record)))
        assert 0 == answer.status, answer.err
    yield peak
    shutil.rmtree(directory)


@pytest.mark.rotates(6)
@pytest.mark.parametrize(("codec", "zeros"), [(GZIP, gzip_zeros), (ZSTD, zstd_zeros)])
def test_a_bomb_is_refused(
    tmp_path: Path, harmless_bytes: int, codec: int, zeros: Callable[[int], bytes]
) -> None:
    """A batch that would become half a gibibyte is refused at the limit, in little memory."""
    log_dir = one_batch(tmp_path / "logs", codec, zeros(BOMB_BYTES))
    before = tree(log_dir)
    measured(log_dir)  # it may have to compile a kernel that the harmless cleaning did not need
    answer, peak = measured(log_dir)
    refused(answer, BatchAboveLimit, log_dir / "t-0" / FIRST, 0)
    assert "LOGWRIGHT_MAX_BATCH_BYTES" in answer.errors[0]["problem"]
    assert peak - harmless_bytes < ROOM_BYTES
    assert before == tree(log_dir)
