"""Write records into staged segments: encode and compress batches, roll by Kafka's rules, write
below ``.logwright/staging``. Changes no live file; runs in a Spark task or in-process.
"""

from __future__ import annotations

import errno
import os
import struct
from typing import TYPE_CHECKING, Final

import numpy as np

from logwright.errors import DiskFull, LogwrightError, RefusedRecord, StalePlan, StepFailed
from logwright.format.batch import HEADER_BYTES, LOG_APPEND_TIME
from logwright.format.codec import CODEC_NAMES, compress
from logwright.format.names import INDEX, LOG, TIMEINDEX, segment_file_name
from logwright.format.walk import size_above
from logwright.ingest.columns import Columns, read_columns
from logwright.ingest.encode import (
    BASE_OFFSET,
    BATCH_CELLS,
    HEADER_OVERHEAD,
    LAST_OFFSET,
    MAX_TIMESTAMP,
    POSITION,
    RECORD_OVERHEAD,
    SIZE,
    encode_batches,
    put_header,
)
from logwright.ingest.journal import BATCHES
from logwright.ingest.model import AppendPlan, StagedAppend, StagedSegment
from logwright.ingest.segments import GrowingSegment
from logwright.live_plans import end_plan, hold_plan
from logwright.steps.work import PrivateDirectory, make_private, remove_private
from logwright.units import ByteCount, Offset

if TYPE_CHECKING:
    from typing import BinaryIO

    import pyarrow as pa
    from numpy.typing import NDArray

CHUNK_BYTES: Final = 16 * 1024 * 1024
"""Bytes of keys and values to encode at a time."""

_CRC_AT: Final = 17
_ENTRY: Final = struct.Struct(">qI")
_BUFFER_BYTES: Final = 1 << 20


class Appender:
    """Stages the records of an append to one partition. Effects: creates the staging directory and
    its files.

    Call `add` with the records in order, then `finish`; or `discard`.

    Raises, in both:
        RefusedRecord: a broker would not accept a record; the message has its number in the input.
        StalePlan: the partition's directory or its staged files were removed.
        DiskFull, StepFailed: the files cannot be written.
    """

    def __init__(self, plan: AppendPlan) -> None:
        self._plan = plan
        self._skip = plan.skip
        self._row = 0
        self._next_offset = int(plan.log_end_offset)
        self._first_offset: int | None = None
        self._rest: pa.RecordBatch | None = None
        self._records = self._batches = self._bytes = 0
        self._unflushed = 0
        self._flushes: list[int] = []
        self._segment: GrowingSegment | None = None
        self._file: BinaryIO | None = None
        self._staged: list[StagedSegment] = []
        config, options = plan.config, plan.options
        append_time = config.message_timestamp_type == "LogAppendTime" and not options.keep_offsets
        self._codec = codec_of(plan)
        limit = min(options.batch_bytes, config.max_message_bytes, config.segment_bytes)
        attributes = LOG_APPEND_TIME if append_time else 0
        self._rule = np.array(
            [limit, plan.leader_epoch, attributes, plan.now_ms if append_time else -1],
            dtype=np.int64,
        )
        self._directory: PrivateDirectory | None = None
        self._digests: BinaryIO | None = None
        try:
            hold_plan(plan.log_dir, plan.plan_id)
            self._directory = make_private(plan.directory, *_below(plan))
            self._digests = self._open(BATCHES)
            if plan.tail is not None:
                self._begin(plan.tail.base_offset)
        except OSError as error:
            self.discard()
            raise self._write_error(error) from error
        except LogwrightError:
            self.discard()
            raise

    def add(self, records: pa.RecordBatch) -> None:
        """Add the next records, columns as `ingest.schema.SCHEMA`."""
        skipped = min(self._skip, len(records))
        self._skip -= skipped
        self._row += skipped
        records = records.slice(skipped)
        if self._rest is not None and len(self._rest):
            from pyarrow import concat_batches  # noqa: PLC0415 -- of an extra, as the records

            records = concat_batches([self._rest, records])
        self._rest = None
        try:
            while len(records):
                taken = _rows_of(records)
                used = self._encode(records.slice(0, taken), last=False)
                if used == 0 and taken == len(records):
                    break
                if used == 0:
                    used = self._encode(records.slice(0, taken), last=True)
                records = records.slice(used)
        except OSError as error:
            raise self._write_error(error) from error
        self._rest = records

    def finish(self) -> StagedAppend:
        """Write the remaining records and sync all files."""
        try:
            if self._rest is not None and len(self._rest):
                self._encode(self._rest, last=True)
            if self._segment is None:
                self._begin(self._next_offset)
            self._seal()
            if self._digests is not None:
                self._sync(self._digests)
            if self._directory is not None:
                os.fsync(self._directory.fd)
        except OSError as error:
            raise self._write_error(error) from error
        self._close()
        first = self._next_offset if self._first_offset is None else self._first_offset
        return StagedAppend(
            segments=tuple(self._staged),
            records=self._records,
            batches=self._batches,
            first_offset=Offset(first),
            end_offset=Offset(self._next_offset),
            record_bytes=ByteCount(self._bytes),
        )

    def discard(self) -> None:
        """Close and remove the staged files."""
        self._close()
        discard_staging(self._plan)

    def _close(self) -> None:
        for file in (self._file, self._digests):
            if file is not None:
                file.close()
        if self._directory is not None:
            os.close(self._directory.fd)
        self._file = self._digests = self._directory = None

    def _encode(self, records: pa.RecordBatch, *, last: bool) -> int:
        """Encode and place batches; return the number of rows used."""
        columns = read_columns(records, now_ms=self._plan.now_ms, next_offset=self._next_offset)
        self._check(columns)
        out = np.empty(_room(columns), dtype=np.uint8)
        table = np.empty((len(columns), BATCH_CELLS), dtype=np.int64)
        used, batches = encode_batches(columns, self._rule, int(last), out, table)
        for batch in table[:batches]:
            self._place(out, batch)
        self._row += int(used)
        self._records += int(used)
        return int(used)

    def _check(self, columns: Columns) -> None:
        """Refuse what LogValidator refuses (4.4.0), and timestamps that no producer sends."""
        config = self._plan.config
        kept = self._plan.options.keep_offsets
        timestamps, now_ms = columns.timestamps, self._plan.now_ms
        if config.compact and not kept:
            self._refuse(columns.key_nulls, "it has no key, which a compacted topic requires")
        self._refuse(timestamps < (-1 if kept else 0), "its timestamp is below 0")
        if config.message_timestamp_type == "CreateTime" and not kept:
            early = now_ms - timestamps > config.message_timestamp_before_max_ms
            self._refuse(early, "its timestamp is too old: message.timestamp.before.max.ms")
            late = timestamps - now_ms > config.message_timestamp_after_max_ms
            self._refuse(late, "its timestamp is too far ahead: message.timestamp.after.max.ms")
        before = np.concatenate([[self._next_offset - 1], columns.offsets[:-1]])
        self._refuse(columns.offsets <= before, "its offset is not above the one before it")

    def _refuse(self, wrong: NDArray[np.bool_], why: str) -> None:
        if wrong.any():
            raise self._refused(self._row + int(wrong.argmax()), why)

    def _refused(self, row: int, why: str) -> RefusedRecord:
        return RefusedRecord(
            f"record {row} of the input for this partition is invalid: {why}.",
            path=self._plan.directory,
            remedy="Nothing was appended. Fix the input or the topic's settings.",
        )

    def _place(self, out: NDArray[np.uint8], batch: NDArray[np.int64]) -> None:
        """Compress a batch and append it to the log, after a roll if one is due."""
        position, size = int(batch[POSITION]), int(batch[SIZE])
        content = out[position : position + size]
        if self._codec:
            content = self._compressed(content, batch)
        size, last_offset = len(content), int(batch[LAST_OFFSET])
        config = self._plan.config
        if size > min(config.max_message_bytes, config.segment_bytes):
            limit = "max.message.bytes" if size > config.max_message_bytes else "segment.bytes"
            raise self._refused(self._row + int(batch[0]), f"{size} bytes are more than {limit}")
        max_timestamp, base_offset = int(batch[MAX_TIMESTAMP]), int(batch[BASE_OFFSET])
        segment = self._segment
        if segment is not None and segment.must_roll(size, max_timestamp, last_offset):
            self._seal()
            segment = None
        if segment is None:
            segment = self._begin(max(self._next_offset, base_offset))
        segment.note(size, max_timestamp, last_offset)
        if self._first_offset is None:
            self._first_offset = base_offset
        self._write(content, base_offset)
        self._next_offset = last_offset + 1
        self._batches += 1
        self._bytes += size
        self._note_flush(segment, int(batch[1]))

    def _compressed(
        self, content: NDArray[np.uint8], batch: NDArray[np.int64]
    ) -> NDArray[np.uint8]:
        limit = self._plan.config.max_decompressed_message_bytes
        above = size_above(content, HEADER_BYTES, len(content), limit)
        if above:
            why = f"a record of {above} bytes is above max.decompressed.message.bytes={limit}"
            raise self._refused(self._row + int(batch[0]), why)
        payload = compress(self._codec, content[HEADER_BYTES:].data)
        whole = np.empty(HEADER_BYTES + len(payload), dtype=np.uint8)
        whole[HEADER_BYTES:] = np.frombuffer(payload, dtype=np.uint8)
        rule = self._rule.copy()
        rule[2] |= self._codec
        put_header(whole, 0, len(whole), batch, rule)
        return whole

    def _write(self, content: NDArray[np.uint8], base_offset: int) -> None:
        assert self._file is not None  # noqa: S101 -- for the type checker: a segment has begun
        assert self._digests is not None  # noqa: S101 -- so has the file of batches
        self._file.write(content.data)
        crc = int.from_bytes(content[_CRC_AT : _CRC_AT + 4].tobytes(), "big")
        self._digests.write(_ENTRY.pack(base_offset, crc))

    def _note_flush(self, segment: GrowingSegment, records: int) -> None:
        self._unflushed += records
        if self._unflushed >= self._plan.config.flush_messages:
            before = self._plan.tail.log_bytes if segment.tail and self._plan.tail else 0
            self._flushes.append(segment.log_bytes - before)
            self._unflushed = 0

    def _begin(self, base_offset: int) -> GrowingSegment:
        tail = self._plan.tail if not self._staged else None
        self._segment = GrowingSegment(self._plan.partition, self._plan.config, base_offset, tail)
        self._file = self._create(segment_file_name(base_offset, LOG))
        return self._segment

    def _seal(self) -> None:
        """Finish the segment as a roll or a clean shutdown does."""
        segment, file = self._segment, self._file
        if segment is None or file is None:
            return
        written = file.tell()
        self._sync(file)
        index, timeindex = segment.seal()
        for suffix, content in ((INDEX, index), (TIMEINDEX, timeindex)):
            with self._create(segment_file_name(segment.base_offset, suffix)) as other:
                other.write(content)
                self._sync(other)
        self._staged.append(
            StagedSegment(
                base_offset=Offset(segment.base_offset),
                tail=segment.tail,
                log_bytes=ByteCount(written),
                index_bytes=ByteCount(len(index)),
                timeindex_bytes=ByteCount(len(timeindex)),
                flushes=tuple(self._flushes),
            )
        )
        file.close()
        self._segment = self._file = None
        self._flushes, self._unflushed = [], 0

    def _sync(self, file: BinaryIO) -> None:
        file.flush()
        os.fsync(file.fileno())

    def _create(self, name: str) -> BinaryIO:
        like = _pattern(self._plan)
        file = self._open(name)
        if (like.st_uid, like.st_gid) != (os.geteuid(), os.getegid()):
            os.fchown(file.fileno(), like.st_uid, like.st_gid)
        os.fchmod(file.fileno(), like.st_mode & 0o666)
        return file

    def _open(self, name: str) -> BinaryIO:
        assert self._directory is not None  # noqa: S101 -- for the type checker: it is not closed
        return os.fdopen(self._directory.create(name), "wb", buffering=_BUFFER_BYTES)

    def _write_error(self, error: OSError) -> LogwrightError:
        path = error.filename or self._plan.staging
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            remedy = "Nothing was changed. Free some space and retry."
            return DiskFull("not enough disk space for the records.", path=path, remedy=remedy)
        if isinstance(error, FileNotFoundError):
            return StalePlan(
                "the log or its staged files were removed after it was planned.",
                path=path,
                remedy="Nothing was changed. Retry.",
            )
        return StepFailed(
            f"the records could not be staged: {error.strerror}.",
            path=path,
            remedy="Nothing was changed. Fix the cause and retry.",
        )


def codec_of(plan: AppendPlan) -> int:
    """Return the codec of the batches: ``compression.type``, or the producer's."""
    wanted = plan.config.compression_type
    if wanted == "producer":
        return plan.options.codec
    return 0 if wanted == "uncompressed" else CODEC_NAMES.index(wanted)


def discard_staging(plan: AppendPlan) -> None:
    """Remove a plan's staged files. Effects: unlinks them and the directories that are then
    empty.
    """
    remove_private(plan.directory, *_below(plan))
    end_plan(plan.log_dir, plan.plan_id)


def _below(plan: AppendPlan) -> tuple[str, ...]:
    """Return the path components from the partition's directory to the staging directory."""
    return plan.staging.relative_to(plan.directory).parts


def _rows_of(records: pa.RecordBatch) -> int:
    """Return how many of the first rows have `CHUNK_BYTES` or less together, at least one."""
    rows = len(records)
    while rows > 1 and records.slice(0, rows).nbytes > CHUNK_BYTES:
        rows = (rows + 1) // 2
    return rows


def _room(columns: Columns) -> int:
    """Return the maximum encoded size of the records in bytes."""
    rows = len(columns)
    headers = int(columns.headers_at[rows] - columns.headers_at[0])
    content = 0
    for bounds in (columns.keys_at, columns.values_at):
        content += int(bounds[-1] - bounds[0])
    for bounds in (columns.header_keys_at, columns.header_values_at):
        content += int(bounds[-1] - bounds[0])
    return content + rows * (HEADER_BYTES + RECORD_OVERHEAD) + headers * HEADER_OVERHEAD


def _pattern(plan: AppendPlan) -> os.stat_result:
    """Return the stat that new files copy owner and mode from: that of the active ``.log``, else of
    the partition's directory.
    """
    if plan.tail is None:
        return plan.directory.lstat()
    return (plan.directory / segment_file_name(plan.tail.base_offset, LOG)).lstat()
