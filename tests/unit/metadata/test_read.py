"""Reading a metadata directory: snapshots, segments, torn tails, and all that is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from logwright.errors import (
    CorruptBatch,
    CorruptLogError,
    LogwrightError,
    NotALogDir,
    UnreadableFile,
    UnsupportedFormatError,
)
from logwright.format.batch import CRC_START
from logwright.format.control import ControlType
from logwright.metadata import files
from logwright.metadata.model import ConfigEntry
from logwright.metadata.read import read_metadata
from logwright.units import Offset
from tests.metadata_builder import (
    ABORT,
    BEGIN,
    END,
    NO_OP,
    MetadataBuilder,
    batches,
    config,
    control,
    snapshot_batches,
    topic,
    value,
)


def setting(value: str) -> bytes:
    """A record that sets the topic's retention, in milliseconds."""
    return config(2, "t", "retention.ms", value)


def retention(directory: MetadataBuilder) -> tuple[ConfigEntry | None, int]:
    """The topic's retention, and where the metadata ends."""
    metadata = read_metadata(directory.path)
    return metadata.topic_configs.get("t", {}).get("retention.ms"), metadata.end_offset


def entry(value: str, offset: int) -> ConfigEntry:
    """What is expected of a config."""
    return ConfigEntry(value=value, offset=Offset(offset))


def flip(path: Path, at: int) -> None:
    """Damage one byte."""
    content = bytearray(path.read_bytes())
    content[at] ^= 0x40
    path.write_bytes(content)


@pytest.fixture
def directory(tmp_path: Path) -> MetadataBuilder:
    """An empty directory."""
    return MetadataBuilder(tmp_path / "kafka-logs")


def test_a_log_without_a_snapshot(directory: MetadataBuilder) -> None:
    """All records of all segments are applied; the end is after the last one."""
    directory.segment(0, [topic("t", 1), setting("1")], [NO_OP])
    directory.segment(3, [setting("2")])
    (directory.path.parent / "meta.properties").write_text("cluster.id=abc\nnode.id=1\n")
    metadata = read_metadata(directory.path)
    assert entry("2", 3) == metadata.topic_configs["t"]["retention.ms"]
    assert (directory.path, "abc", 4, None) == (
        metadata.path,
        metadata.cluster_id,
        metadata.end_offset,
        metadata.snapshot,
    )


def test_a_snapshot_and_the_log_behind_it(directory: MetadataBuilder) -> None:
    """The records below the snapshot's offset are not applied, also within one batch."""
    directory.segment(0, [topic("t", 1), setting("1"), topic("u", 2)], [setting("3")])
    directory.snapshot(2, [topic("t", 1), setting("2")])
    metadata = read_metadata(directory.path)
    assert entry("3", 3) == metadata.topic_configs["t"]["retention.ms"]
    assert ["t", "u"] == sorted(metadata.topics)
    assert "00000000000000000002-0000000001.checkpoint" == metadata.snapshot


def test_a_snapshot_s_configs_have_its_offset(directory: MetadataBuilder) -> None:
    """A snapshot does not say which record set a config."""
    directory.snapshot(7, [topic("t", 1)], [setting("2")])
    directory.segment(7)
    assert (entry("2", 7), 7) == retention(directory)


def test_segments_below_the_snapshot_are_not_read(directory: MetadataBuilder) -> None:
    """Only the segment that has the snapshot's offset, and those after it."""
    flip(directory.segment(0, [topic("t", 1), setting("1")]), 70)
    directory.segment(2, [setting("2")], [setting("3")])
    directory.snapshot(3, [topic("t", 1), setting("2")])
    assert (entry("3", 3), 4) == retention(directory)


def test_a_log_that_begins_behind_0_needs_a_snapshot(directory: MetadataBuilder) -> None:
    """Without one that reaches the first segment, settings could be missing: it is refused."""
    directory.segment(5, [setting("1")])
    with pytest.raises(
        CorruptLogError, match="starts at offset 5, but the log before it ends at 0"
    ):
        read_metadata(directory.path)
    directory.snapshot(4, [topic("t", 1)])
    with pytest.raises(
        CorruptLogError, match="starts at offset 5, but the log before it ends at 4"
    ):
        read_metadata(directory.path)
    directory.snapshot(5, [topic("t", 1)])
    assert (entry("1", 5), 6) == retention(directory)


def test_a_log_that_ends_below_the_snapshot(directory: MetadataBuilder) -> None:
    """The snapshot is the state: a broker drops such a log and starts from it."""
    directory.segment(0, [topic("t", 1)])
    directory.snapshot(9, [topic("t", 1), setting("2")])
    assert (entry("2", 9), 9) == retention(directory)


def test_the_newest_snapshot_counts(directory: MetadataBuilder) -> None:
    """By offset, then epoch; those that are being written or deleted do not count."""
    directory.snapshot(3, [setting("1")], epoch=9)
    directory.snapshot(12, [setting("2")], epoch=1)
    directory.snapshot(12, [setting("3")], epoch=2)
    for suffix in (".part", ".deleted"):
        directory.write(f"{20:020d}-{2:010d}.checkpoint{suffix}", snapshot_batches([setting("4")]))
    assert (entry("3", 12), 12) == retention(directory)


HEADER, *RECORDS, FOOTER = snapshot_batches([setting("9")])
INCOMPLETE = {
    "no footer": [HEADER, *RECORDS],
    "no header": [*batches(0, [setting("9")]), control(1, ControlType.SNAPSHOT_FOOTER)],
    "footer cut off": [HEADER, *RECORDS, FOOTER[:-1]],
    "footer damaged": [HEADER, *RECORDS, FOOTER[:-1] + b"\x55"],
    "records after the footer": [
        HEADER,
        *RECORDS,
        FOOTER,
        *batches(3, [NO_OP]),
    ],
    "empty": [],
}


@pytest.mark.parametrize("what", INCOMPLETE)
def test_an_incomplete_snapshot_is_passed_over(directory: MetadataBuilder, what: str) -> None:
    """An older one or the log itself gives the same state, if the log reaches the snapshot's
    offset.
    """
    directory.segment(0, [topic("t", 1), setting("1")])
    directory.write(f"{2:020d}-{1:010d}.checkpoint", INCOMPLETE[what])
    assert (entry("1", 1), 2) == retention(directory)
    directory.snapshot(1, [topic("t", 1)])
    assert (entry("1", 1), 2) == retention(directory)


def test_an_incomplete_snapshot_behind_the_log_is_refused(directory: MetadataBuilder) -> None:
    """It had settings that nothing else has."""
    directory.segment(0, [topic("t", 1), setting("1")])
    path = directory.write(f"{3:020d}-{1:010d}.checkpoint", INCOMPLETE["no footer"])
    with pytest.raises(CorruptLogError, match="the log ends before it at offset 2") as refused:
        read_metadata(directory.path)
    assert path == refused.value.path


def test_a_snapshot_damaged_in_its_middle_is_refused(directory: MetadataBuilder) -> None:
    """An incomplete snapshot is not used."""
    directory.segment(0, [topic("t", 1), setting("1")])
    path = directory.snapshot(2, [topic("t", 1)], [setting("1")])
    flip(path, len(HEADER) + 70)
    with pytest.raises(CorruptBatch) as refused:
        read_metadata(directory.path)
    assert (path, len(HEADER)) == (refused.value.path, refused.value.position)


FIRST, SECOND = batches(0, [topic("t", 1), setting("1")], [setting("2"), NO_OP])
TORN = {
    "cut in its header": SECOND[:30],
    "cut in its records": SECOND[:-20],
    "cut in its offset": SECOND[:3],
    "wrong CRC": SECOND[:-1] + b"\x55",
    "zeros at its end": SECOND[:40] + bytes(len(SECOND) - 40),
    "zeros": bytes(8192),
    "length too small": SECOND[:8] + b"\x00\x00\x00\x31" + SECOND[12:],
    "length too large": SECOND[:8] + b"\x00\xff\x00\x00" + SECOND[12:],
    "length negative": SECOND[:8] + b"\xff\xff\x00\x00" + SECOND[12:],
}


@pytest.mark.parametrize("what", TORN)
def test_a_torn_tail_is_cut(directory: MetadataBuilder, what: str) -> None:
    """The end is before an incomplete batch at the log's end."""
    directory.write(f"{0:020d}.log", [FIRST, TORN[what]])
    assert (entry("1", 1), 2) == retention(directory)


@pytest.mark.parametrize("what", TORN)
def test_damage_with_a_whole_batch_behind_it_is_refused(
    directory: MetadataBuilder, what: str
) -> None:
    """That is not a torn tail; file and position are named."""
    path = directory.write(f"{0:020d}.log", [FIRST, TORN[what], *batches(4, [NO_OP])])
    with pytest.raises(CorruptBatch, match="corrupt after offset 2") as refused:
        read_metadata(directory.path)
    assert (path, len(FIRST)) == (refused.value.path, refused.value.position)


@pytest.mark.parametrize("content", [[FIRST, SECOND[:-20]], [FIRST, SECOND, bytes(20)]])
def test_a_torn_tail_of_a_segment_that_is_not_the_last_is_refused(
    directory: MetadataBuilder, content: list[bytes]
) -> None:
    """What follows it was written later, so something in between may be lost."""
    path = directory.write(f"{0:020d}.log", content)
    directory.segment(4, [NO_OP])
    with pytest.raises(CorruptLogError, match=r"corrupt batch at offset [24]") as refused:
        read_metadata(directory.path)
    assert path == refused.value.path


@pytest.mark.parametrize("base", [0, 1, 3, 2**62])
def test_a_batch_elsewhere_is_refused(directory: MetadataBuilder, base: int) -> None:
    """The CRC does not cover a batch's offset, but it follows from the batches before it."""
    moved = base.to_bytes(8, "big") + SECOND[8:]
    path = directory.write(f"{0:020d}.log", [FIRST, moved])
    with pytest.raises(CorruptBatch, match="start") as refused:
        read_metadata(directory.path)
    assert (path, len(FIRST)) == (refused.value.path, refused.value.position)


@pytest.mark.parametrize("base", [3, 5])
def test_a_gap_between_segments_is_refused(directory: MetadataBuilder, base: int) -> None:
    """Each segment begins where the one before it ends."""
    directory.write(f"{0:020d}.log", [FIRST, SECOND])
    path = directory.segment(base, [NO_OP])
    with pytest.raises(CorruptLogError, match=f"starts at offset {base}, .* ends at 4") as refused:
        read_metadata(directory.path)
    assert path == refused.value.path


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_compressed_batches(directory: MetadataBuilder, codec: int) -> None:
    """Whatever codec a log has."""
    directory.segment(0, [topic("t", 1), setting("1")], codec=codec)
    assert (entry("1", 1), 2) == retention(directory)


def test_control_batches_are_passed_over(directory: MetadataBuilder) -> None:
    """They are about the quorum; their offsets count."""
    change = control(2, ControlType.LEADER_CHANGE)
    directory.write(f"{0:020d}.log", [FIRST, change, *batches(3, [setting("2")])])
    assert (entry("2", 3), 4) == retention(directory)


def test_a_transaction_over_several_batches(directory: MetadataBuilder) -> None:
    """It ends, is aborted, or is open at the log's end, which is then where it began."""
    start = [topic("t", 1), setting("1")]
    path = directory.segment(0, start, [BEGIN, setting("2")], [setting("3")])
    assert (entry("1", 1), 2) == retention(directory)
    directory.write(path.name, batches(0, start, [BEGIN, setting("2")], [setting("3")], [ABORT]))
    assert (entry("1", 1), 6) == retention(directory)
    directory.write(path.name, batches(0, start, [BEGIN, setting("2")], [setting("3")], [END]))
    assert (entry("3", 4), 6) == retention(directory)


@pytest.mark.parametrize(
    ("bad", "error"),
    [
        (value(4, 1, b""), UnsupportedFormatError),
        (value(4, 0, b""), CorruptBatch),
        (b"", CorruptBatch),
        (setting("5") + b"\x00", CorruptBatch),
        (topic("t", 1), CorruptBatch),
    ],
)
def test_a_refused_record_is_named(
    directory: MetadataBuilder, bad: bytes, error: type[LogwrightError]
) -> None:
    """By its file, its batch's position and its offset."""
    path = directory.write(f"{0:020d}.log", [FIRST, *batches(2, [NO_OP, bad])])
    with pytest.raises(error, match="the record at 3: ") as refused:
        read_metadata(directory.path)
    assert (path, len(FIRST)) == (refused.value.path, refused.value.position)


def test_another_magic_is_refused(directory: MetadataBuilder) -> None:
    """A batch of a later format, with its CRC right, is not a torn tail."""
    directory.write(f"{0:020d}.log", [FIRST, SECOND[:16] + b"\x03" + SECOND[17:]])
    with pytest.raises(UnsupportedFormatError, match="magic 3"):
        read_metadata(directory.path)


@pytest.mark.parametrize("name", [f"{0:020d}.log", f"{2:020d}-{1:010d}.checkpoint"])
def test_symlinks_are_not_followed(directory: MetadataBuilder, tmp_path: Path, name: str) -> None:
    """Neither a segment nor a snapshot may be one."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(FIRST)
    (directory.path / name).symlink_to(elsewhere)
    with pytest.raises(UnreadableFile):
        read_metadata(directory.path)


def test_no_metadata(directory: MetadataBuilder, tmp_path: Path) -> None:
    """A directory without a log and a directory that is not there are refused by name."""
    with pytest.raises(NotALogDir, match="no metadata log"):
        read_metadata(directory.path)
    with pytest.raises(NotALogDir, match="does not exist"):
        read_metadata(tmp_path / "missing")


@pytest.mark.parametrize("window", [2_000, 2_001, 5_000, 10_000])
def test_windows_change_nothing(
    directory: MetadataBuilder, monkeypatch: pytest.MonkeyPatch, window: int
) -> None:
    """A segment is walked in parts; batches lie across their ends."""
    contents = [[setting(str(number))] * (1 + number % 40) for number in range(100)]
    path = directory.segment(0, *contents)
    expected = read_metadata(directory.path)
    monkeypatch.setattr(files, "WINDOW_BYTES", window)
    assert expected == read_metadata(directory.path)
    assert sum(map(len, contents)) == expected.end_offset
    path.write_bytes(path.read_bytes()[:-1])
    assert expected.end_offset - len(contents[-1]) == read_metadata(directory.path).end_offset


def test_every_flip_of_the_last_batch(directory: MetadataBuilder) -> None:
    """What the CRC covers is taken for torn, wherever the bit is."""
    path = directory.write(f"{0:020d}.log", [FIRST, SECOND])
    for at in range(len(FIRST) + CRC_START, len(FIRST) + len(SECOND)):
        flip(path, at)
        assert (entry("1", 1), 2) == retention(directory), at
        flip(path, at)
