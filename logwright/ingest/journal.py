"""What a partition remembers of ingests: ``.logwright/ingest.json``.

::

    done     each: id, firstOffset, endOffset, records
    pending  an append that began: id, what the log was before, and what it makes; else null

It is written before the first byte is appended and again after the last, each time whole, by
rename. Beside a pending append lies ``ingest.batches``: base offset, int64, and CRC, uint32, of
each batch, big-endian. They tell which batches are there after a recovery that we did not do.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from logwright.errors import CorruptLogError
from logwright.format.names import INGEST_BATCHES, INGEST_JOURNAL, WORK_DIRECTORY
from logwright.log.mapped import map_file
from logwright.steps.replace import replace_file
from logwright.steps.step import FileStep, Unlink

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

JOURNAL: Final = INGEST_JOURNAL
BATCHES: Final = INGEST_BATCHES
BATCH_ENTRY: Final = np.dtype([("base_offset", ">i8"), ("crc", ">u4")])

_VERSION: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """An ingest that a partition has all of."""

    id: str
    first_offset: int
    end_offset: int
    records: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """An append that began.

    Attributes:
        id: of the ingest.
        skipped: records of it that were there before.
        first_offset: of its first record, those skipped included.
        log_end_offset: before the append.
        end_offset: after it. records: all of the ingest's.
        base_offset: of the active segment before, None if there was no log.
        log_bytes, index_bytes, timeindex_bytes: of its files before.
        created: names of the files that the append makes.
        stamps: (name, inode, modification time in ns) of the checkpoint files that a broker writes.
    """

    id: str
    skipped: int
    first_offset: int
    log_end_offset: int
    end_offset: int
    records: int
    base_offset: int | None
    log_bytes: int
    index_bytes: int
    timeindex_bytes: int
    created: tuple[str, ...]
    stamps: tuple[tuple[str, int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Journal:
    """What a partition remembers."""

    done: tuple[Done, ...] = ()
    pending: Pending | None = None

    def find(self, ingest_id: str) -> Done | None:
        """The record of an ingest that is complete here."""
        return next((one for one in self.done if one.id == ingest_id), None)

    def finished(self) -> Journal:
        """The pending append is complete."""
        if self.pending is None:
            return self
        one = self.pending
        entry = Done(
            id=one.id,
            first_offset=one.first_offset,
            end_offset=one.end_offset,
            records=one.records,
        )
        return Journal(done=(*(known for known in self.done if known.id != one.id), entry))

    def abandoned(self) -> Journal:
        """The pending append left nothing."""
        return replace(self, pending=None)


def read_journal(partition_directory: Path) -> Journal:
    """A partition's journal, empty if it has none. Effects: reads it.

    Raises:
        UnreadableFile: it is no regular file.
        CorruptLogError: it is not what we wrote.
    """
    path = partition_directory / WORK_DIRECTORY / JOURNAL
    if not path.exists():
        return Journal()
    try:
        found = json.loads(map_file(path).tobytes())
        if found["version"] != _VERSION:
            raise ValueError("another version")
        done = tuple(Done(**one) for one in found["done"])
        pending = found["pending"]
        if pending is not None:
            stamps = tuple((str(n), int(i), int(t)) for n, i, t in pending["stamps"])
            pending |= {"created": tuple(pending["created"]), "stamps": stamps}
            pending = Pending(**pending)
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptLogError(
            "the journal of ingests is malformed.",
            path=path,
            remedy="The log was left untouched. Without this file an ingest that is repeated is"
            " appended again.",
        ) from error
    return Journal(done=done, pending=pending)


def write_journal(partition_directory: Path, journal: Journal) -> tuple[FileStep, ...]:
    """The steps that replace the journal; the partition is locked, so its directory exists."""
    work = partition_directory / WORK_DIRECTORY
    content = {
        "version": _VERSION,
        "done": [asdict(one) for one in journal.done],
        "pending": None if journal.pending is None else asdict(journal.pending),
    }
    ended = () if journal.pending is not None else (Unlink(work / BATCHES, missing_ok=True),)
    return (
        *replace_file(work / JOURNAL, json.dumps(content).encode() + b"\n", like=None),
        *ended,
    )


def read_batches(partition_directory: Path) -> NDArray[np.void]:
    """BATCH_ENTRY[n] of the pending append. Effects: reads the file."""
    content = map_file(partition_directory / WORK_DIRECTORY / BATCHES)
    whole = len(content) - len(content) % BATCH_ENTRY.itemsize
    return np.frombuffer(content[:whole].tobytes(), dtype=BATCH_ENTRY)
