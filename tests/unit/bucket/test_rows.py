"""What a plan needs of all segments at once is what their files say, or nothing is said."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from logwright.bucket.agreement import agree
from logwright.bucket.manifest import Manifest, following, manifest_key, serialize_manifest
from logwright.bucket.rows import NO_BATCH, NO_FILE, rows_of
from logwright.bucket.store import Bucket
from logwright.bucket.stored import FileColumns, SegmentColumns, Segments
from logwright.errors import CorruptBatch, CorruptIndex, LogwrightError, UnsupportedFormatError
from logwright.format.names import TopicPartition
from logwright.log.load import observe
from logwright.log.model import SegmentTable
from logwright.place.bucket import BucketPlace, manifest_of
from logwright.place.named import place_of
from logwright.upload.upload import Upload
from tests.log_builder import START_MS, LogBuilder

T0 = TopicPartition("t", 0)
DELTA, MAGIC, LENGTH, OFFSET = 23, 16, 8, 0


@pytest.fixture(name="url")
def _url(tmp_path: Path) -> str:
    """A bucket with a log: an empty segment between two others, one without a time index, one with
    a transaction index.
    """
    builder = LogBuilder(tmp_path / "logs")
    for base in (0, 24):
        segment = builder.segment(base)
        for offset in range(base, base + 22, 2):
            segment.batch(offset, [(f"k{offset % 7}", "v" * 300), (f"k{offset % 5}", None)])
        segment.batch(base + 22, [("k1", "x")], producer_id=7, transactional=True)
        segment.marker(base + 23, 7, "abort" if base else "commit")
    builder.segment(60)
    builder.segment(70).batch(71, [("k2", "last")])
    builder.write(index_interval=1, producers=True, cleaner_checkpoint=10, high_watermark=54)
    (tmp_path / "logs" / ".kafka_cleanshutdown").touch()
    url = f"file://{tmp_path}/bucket"
    bucket = Bucket.of(url)
    upload = Upload(
        bucket=bucket,
        limits=agree(bucket),
        place=tmp_path / "logs",
        partition=T0,
        configs={"cleanup.policy": "compact"},
        now_ms=START_MS,
    )
    upload.run()
    return url


def shown(url: str) -> Manifest:
    manifest = manifest_of(place_of(url), T0)
    assert manifest is not None
    return manifest


def columns_of(manifest: Manifest) -> SegmentColumns:
    return SegmentColumns.of(manifest.state.segments)


def test_all_at_once_is_what_the_files_say(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same log, with the same files, whether they are looked at or not."""
    known = observe(place_of(url), T0, high_watermark="checkpoint")
    assert isinstance(known.segments, SegmentTable)
    monkeypatch.setattr(BucketPlace, "known_log", lambda _: None)
    looked_at = observe(place_of(url), T0, high_watermark="checkpoint")
    assert isinstance(looked_at.segments, tuple)
    assert known.segments == looked_at.segments
    assert [*known.fingerprint.files] == [*looked_at.fingerprint.files]
    same = {"segments": (), "fingerprint": looked_at.fingerprint}
    assert known._replace(**same) == looked_at._replace(**same)
    assert known.log_bytes == looked_at.log_bytes > 0
    assert known.sealed == looked_at.sealed
    assert known.segments != looked_at.sealed


def test_what_is_not_there(url: str) -> None:
    """An empty segment has no first batch, most have no transaction index, and one without a time
    index has the time of its file.
    """
    rows = rows_of(columns_of(shown(url)))
    assert rows is not None
    assert [False, False, True, False] == [*(rows["first_batch_max_timestamp_ms"] == NO_BATCH)]
    assert {True, False} == {*(rows["txnindex_bytes"] == NO_FILE)}
    of_files = rows["timeindex_bytes"] == 0
    assert of_files.any()
    times = rows["modified_ns"][of_files] // 1_000_000
    assert [*times] == [*rows["largest_timestamp_ms"][of_files]]


Change = Callable[[SegmentColumns], SegmentColumns]


def of_file(kind: str, change: Callable[[FileColumns], FileColumns]) -> Change:
    return lambda columns: replace(columns, **{kind: change(getattr(columns, kind))})


def head(at: int, form: str, value: int) -> Change:
    """Another field in the header of the second segment's first batch."""

    def change(logs: FileColumns) -> FileColumns:
        content = bytearray(logs.head[1])
        struct.pack_into(form, content, at, value)
        return replace(logs, head=[logs.head[0], bytes(content), *logs.head[2:]])

    return of_file("log", change)


def tail(*entries: tuple[int, int]) -> Change:
    """Other last entries of the second segment's time index."""
    content = b"".join(struct.pack(">qi", *entry) for entry in entries)

    def change(indexes: FileColumns) -> FileColumns:
        return replace(
            indexes,
            bytes=[indexes.bytes[0], len(content), *indexes.bytes[2:]],
            tail=[indexes.tail[0], content, *indexes.tail[2:]],
        )

    return of_file("timeindex", change)


def longer(kind: str) -> Change:
    return of_file(kind, lambda files: replace(files, bytes=[files.bytes[0] + 1, *files.bytes[1:]]))


BROKEN: dict[str, tuple[Change, type[LogwrightError]]] = {
    "an offset index that ends within an entry": (longer("index"), CorruptIndex),
    "a time index that ends within an entry": (longer("timeindex"), CorruptIndex),
    "another magic": (head(MAGIC, ">b", 3), UnsupportedFormatError),
    "a batch that is too short": (head(LENGTH, ">i", 48), CorruptBatch),
    "a batch that is longer than the file": (head(LENGTH, ">i", 1 << 30), CorruptBatch),
    "a batch before the segment": (head(OFFSET, ">q", 23), CorruptBatch),
    "a batch too far from the segment": (head(OFFSET, ">q", 1 << 40), UnsupportedFormatError),
    "a batch that ends before it begins": (head(DELTA, ">i", -1), CorruptBatch),
    "times that do not ascend": (tail((START_MS, 1), (START_MS, 2)), CorruptIndex),
    "offsets that do not ascend": (tail((START_MS, 2), (START_MS + 1, 1)), CorruptIndex),
    "a time before the segment": (tail((START_MS, -2), (START_MS + 1, -1)), CorruptIndex),
    "a time after the segment": (tail((START_MS, 1), (START_MS + 1, 36)), CorruptIndex),
}


@pytest.mark.parametrize(("change", "error"), BROKEN.values(), ids=BROKEN)
def test_a_broken_rule(url: str, change: Change, error: type[LogwrightError]) -> None:
    """Nothing is known of the log then, and whoever looks at the files says what is wrong."""
    before = shown(url)
    columns = change(columns_of(before))
    assert rows_of(columns_of(before)) is not None
    assert rows_of(columns) is None
    state = replace(before.state, segments=Segments(columns))
    broken = following(before, state, operation="job", attempt=0, written_ms=START_MS)
    directory = Bucket.of(url).below(T0.directory_name)
    assert directory.create(manifest_key(broken.version), serialize_manifest(broken))
    with pytest.raises(error):
        observe(place_of(url), T0, high_watermark="checkpoint")


@pytest.mark.parametrize(
    "change",
    [
        of_file("log", lambda files: replace(files, head=[b""] * len(files.head))),
        of_file("timeindex", lambda files: replace(files, tail=[b""] * len(files.tail))),
    ],
    ids=["first batches", "last times"],
)
def test_an_end_that_the_manifest_has_not(url: str, change: Change) -> None:
    """The files are read."""
    before = shown(url)
    columns = change(columns_of(before))
    assert rows_of(columns) is None
    state = replace(before.state, segments=Segments(columns))
    other = following(before, state, operation="job", attempt=0, written_ms=START_MS)
    directory = Bucket.of(url).below(T0.directory_name)
    known = observe(place_of(url), T0, high_watermark="checkpoint")
    assert directory.create(manifest_key(other.version), serialize_manifest(other))
    looked_at = observe(place_of(url), T0, high_watermark="checkpoint")
    assert isinstance(looked_at.segments, tuple)
    assert known.segments == looked_at.segments
