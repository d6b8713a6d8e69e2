"""A partition's journal of ingests: ``.logwright/ingest.json``.

::

    done     each: id, firstOffset, endOffset, records
    pending  the last append: id, the log before it, the files it creates, whether it is complete

It is one line with a CRC (`format.lines`), because it decides how a log is rolled back and whether
an input is skipped.

The file is replaced before the first byte is appended and again after the last. It is a hint:
nothing is truncated because of the journal alone. During an append there is also
``ingest.batches.NONCE`` with the base offset, int64, and CRC, uint32, of each batch, big-endian. It
shows which batches are in the log after a recovery by a broker, and what may be truncated
(`logwright.ingest.proof`).
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from logwright.errors import CorruptLogError
from logwright.format.lines import parse_lines, serialize_line
from logwright.format.names import INGEST_BATCHES, INGEST_JOURNAL, WORK_DIRECTORY
from logwright.place.files import names_in
from logwright.place.mapped import map_file
from logwright.steps.replace import replace_file
from logwright.steps.step import FileStep, Unlink

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

JOURNAL: Final = INGEST_JOURNAL
BATCHES: Final = INGEST_BATCHES
BATCH_ENTRY: Final = np.dtype([("base_offset", ">i8"), ("crc", ">u4")])

_VERSION: Final = 1
_NONCE: Final = re.compile("[0-9a-f]{0,32}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """An ingest that is complete in a partition."""

    id: str
    first_offset: int
    end_offset: int
    records: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """The last append, complete or not.

    Attributes:
        id: id of the ingest.
        skipped: number of its records that were already in the log.
        first_offset: offset of its first record, including skipped ones.
        log_end_offset: log end offset before the append.
        end_offset: log end offset after the append.
        records: number of all records of the ingest.
        base_offset: base offset of the active segment before, None if there was no log.
        log_bytes, index_bytes, timeindex_bytes: sizes of its files before.
        created: names of the files that the append creates.
        stamps: (name, inode, modification time in ns) of the checkpoint files that a broker writes.
        nonce: random id of this append, part of the name of the marker that it renamed.
        inode: inode of the active ``.log`` before, 0 if there was no log.
        batches: number of appended batches.
        complete: all records are in the log and durable.
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
    nonce: str = ""
    inode: int = 0
    batches: int = 0
    complete: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Journal:
    """A partition's journal."""

    done: tuple[Done, ...] = ()
    pending: Pending | None = None

    @property
    def interrupted(self) -> Pending | None:
        """The append that is not marked as complete, None if there is none."""
        return None if self.pending is None or self.pending.complete else self.pending

    def find(self, ingest_id: str) -> Done | None:
        """Return the entry of an ingest that is complete here."""
        return next((one for one in self.settled().done if one.id == ingest_id), None)

    def finished(self) -> Journal:
        """Return the journal with the last append marked as complete."""
        if self.pending is None:
            return self
        return replace(self, pending=replace(self.pending, complete=True))

    def settled(self) -> Journal:
        """Return the journal with the last append moved to `done`, if it is complete."""
        pending = self.pending
        if pending is None or not pending.complete:
            return self
        entry = Done(
            id=pending.id,
            first_offset=pending.first_offset,
            end_offset=pending.end_offset,
            records=pending.records,
        )
        return Journal(done=(*(known for known in self.done if known.id != pending.id), entry))

    def abandoned(self) -> Journal:
        """Return the journal without the last append, except for the records that it skipped."""
        partly = self.pending is not None and self.pending.skipped > 0
        return self if partly else replace(self, pending=None)


def read_journal(partition_directory: Path) -> Journal:
    """Read a partition's journal, empty if it has none. Effects: reads it.

    Raises:
        UnreadableFile: it is not a regular file.
        CorruptLogError: it is invalid.
    """
    path = partition_directory / WORK_DIRECTORY / JOURNAL
    if not path.exists():
        return Journal()
    try:
        (line,) = parse_lines(map_file(path).tobytes())
        if line["version"] != _VERSION:
            raise ValueError("another version")
        done = tuple(Done(**one) for one in line["done"])
        pending = line["pending"]
        if pending is not None:
            pending = _pending(pending)
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptLogError(
            "the journal of ingests is malformed.",
            path=path,
            remedy="The log was not changed. If you remove this file, a repeated ingest is appended"
            " a second time.",
        ) from error
    return Journal(done=done, pending=pending)


def _pending(values: dict[str, Any]) -> Pending:
    """Parse an entry; raises ValueError or the like if it is invalid."""
    stamps = tuple((str(n), int(i), int(t)) for n, i, t in values["stamps"])
    pending = Pending(**(values | {"created": tuple(values["created"]), "stamps": stamps}))
    wrong = [
        name
        for name, kind in Pending.__annotations__.items()
        if (kind == "int" and not _is_count(values.get(name, 0)))
        or (kind == "int | None" and values[name] is not None and not _is_count(values[name]))
        or (kind == "bool" and not isinstance(values.get(name, False), bool))
        or (kind == "str" and not isinstance(values.get(name, ""), str))
    ]
    if wrong or not all(isinstance(name, str) for name in values["created"]):
        raise ValueError("a value has a wrong type")
    if _NONCE.fullmatch(pending.nonce) is None:
        raise ValueError("the nonce is invalid")
    return pending


def _is_count(value: object) -> bool:
    return type(value) is int and value >= 0


def write_journal(partition_directory: Path, journal: Journal) -> tuple[FileStep, ...]:
    """Return the steps that replace the journal; the caller holds the partition's lock."""
    work = partition_directory / WORK_DIRECTORY
    content = {
        "version": _VERSION,
        "done": [asdict(one) for one in journal.done],
        "pending": None if journal.pending is None else asdict(journal.pending),
    }
    known = None if journal.interrupted is None else batches_name(journal.interrupted.nonce)
    return (
        *replace_file(work / JOURNAL, serialize_line(content), like=None),
        *(Unlink(work / name) for name in _lists(work) if name != known),
    )


def batches_name(nonce: str) -> str:
    """Return the name of the list of an append's batches in the work directory."""
    return f"{BATCHES}.{nonce}"


def _lists(work: Path) -> list[str]:
    return [name for name in names_in(work) if name.startswith(BATCHES)]


def read_batches(partition_directory: Path, pending: Pending) -> NDArray[np.void] | None:
    """Read BATCH_ENTRY[n] of a pending append; None if the list is incomplete. Effects: reads it.

    Raises:
        UnreadableFile: it is not a regular file.
    """
    path = partition_directory / WORK_DIRECTORY / batches_name(pending.nonce)
    if not path.exists():
        return None
    content = map_file(path)
    if len(content) != pending.batches * BATCH_ENTRY.itemsize:
        return None
    return np.frombuffer(content.tobytes(), dtype=BATCH_ENTRY)
