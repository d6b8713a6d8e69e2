"""What a table of the latest state records, as values: stored with the data, in one commit."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, field, fields, replace
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from logwright.config.table import Unique, UniqueBy
from logwright.errors import PreconditionError
from logwright.tables.batches import Batches

FORM_KEY: Final = "logwright.table"
"""Name of a table's form in its properties."""
PROGRESS_KEY: Final = "logwright.progress"
"""Name of the progress in the metadata of each commit."""

_VERSION: Final = 1


class UnknownTable(PreconditionError):
    """There is a table, but not one that logwright made, or one of a later version."""


class Asked(NamedTuple):
    """Something that a table asks of its writers, and that logwright does not do.

    Attributes:
        problem: names it; remedy: the way out.
    """

    problem: str
    remedy: str


class OtherForm(PreconditionError):
    """The table was made with another topic, other columns or another number of buckets."""


class InDoubt(PreconditionError):
    """Another program has changed the table, and that cannot be corrected from the log."""


class Tail(NamedTuple):
    """What a log has right below an offset, by which it is known again.

    Attributes:
        base_offset, crc: of the batch that has the last offset.
        record: CRC-32 of the last record, which a cleaning keeps unless a newer one has its key;
            None if there is none, or it was not noted.
    """

    base_offset: int
    crc: int
    record: int | None = None

    def is_of(self, other: Tail | None) -> bool:
        """Whether both are of one log, which may have been cleaned in between."""
        if other is None:
            return False
        return self[:2] == other[:2] or (self.record is not None and self.record == other.record)

    def contradicts(self, other: Tail | None) -> bool:
        """Whether both have a last record, and they differ."""
        return (
            other is not None and None not in (self.record, other.record) and not self.is_of(other)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """What a table holds of one partition.

    Attributes:
        end_offset: it holds the log below this offset.
        topic_id: of the topic, in Kafka's base64; None if the log says none.
        log_start_offset: of the log, when it was read.
        tail: of the log below the end offset; None if the last offset is missing.
        erasure: the mark of the last erasure in the log then (`logwright.state.erasure_mark`).
        rows: number of rows that the table has of it; None: not noted, by an earlier version.
        deleted_since_ms: since when the files have rows that are only marked as deleted; None:
            they have none, or it was not noted.
        in_doubt: why its rows may not be those that logwright left; None: they are.
        erased: earlier versions of the table have records that were erased from the log since:
            their files go at once.
        batches: of the log then; None in tables of earlier versions.
        as_of_ms: all that was committed then is in the table, ms since the epoch: when the broker
            recorded the high watermark that was read up to; None: of a broker that was stopped.
        epoch: the leader epoch of the last offset that the table holds; None: not known.
        directory: identifies the partition's directory then; None: not known.
        heads: name of the file with the hidden heads of the table (`logwright.tables.hidden`),
            which all partitions share; None: it has none.
    """

    end_offset: int
    topic_id: str | None
    log_start_offset: int
    tail: Tail | None = None
    erasure: str | None = None
    rows: int | None = None
    deleted_since_ms: int | None = None
    in_doubt: str | None = None
    erased: bool = False
    batches: Batches | None = None
    as_of_ms: int | None = None
    epoch: int | None = None
    directory: str | None = None
    heads: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """What stays the same for the life of a table.

    Attributes:
        topic: whose latest state it is.
        buckets: number of buckets of each partition.
        columns: (name, Arrow type as text) of each column.
        asked: the decoding of the policies, as JSON.
        decoding: the same with what was inferred from the first records.
        unique: where a key has one row: in its partition, or in the whole topic.
        unique_by: what makes two keys the same: their bytes, or their decoded values.
    """

    topic: str
    buckets: int
    columns: tuple[tuple[str, str], ...]
    asked: str = ""
    decoding: str = ""
    unique: Unique = "partition"
    unique_by: UniqueBy = "bytes"


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """A Parquet file of a table.

    Attributes:
        path: as the format names it.
        rows: number of rows, deleted ones too; bytes: size of the file.
        handle: what the format needs to remove it, or to find its deleted rows.
    """

    partition: int
    bucket: int
    path: str
    rows: int
    bytes: int
    handle: object = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A table at one version.

    Attributes:
        progress: partition → what the table holds of it.
        version: number or name of the version, for people.
        deleted: partition → deleted rows of its files; without partitions that have none.
        in_doubt: why its rows may not be those that logwright left, as the format shows it: by
            commits of other programs, or by files that are gone. None: it shows nothing.
    """

    form: Form
    progress: Mapping[int, Progress]
    files: tuple[DataFile, ...]
    version: str
    deleted: Mapping[int, int] = field(default_factory=dict)
    in_doubt: str | None = None

    @property
    def doubted(self) -> dict[int, Progress]:
        """The progress, with what speaks against the rows of each partition."""
        return {number: self._doubted(number, one) for number, one in self.progress.items()}

    def _doubted(self, partition: int, progress: Progress) -> Progress:
        rows = self.of_partition(partition).rows
        counted = (
            f"it has {rows} rows, and logwright left {progress.rows}"
            if progress.rows not in (None, rows)
            else None
        )
        return replace(progress, in_doubt=progress.in_doubt or self.in_doubt or counted)

    @property
    def has_erased(self) -> bool:
        """Whether files of earlier versions have records that were erased."""
        return any(one.erased for one in self.progress.values())

    @property
    def rows(self) -> int:
        """Number of rows, without deleted ones."""
        return sum(file.rows for file in self.files) - sum(self.deleted.values())

    @property
    def bytes(self) -> int:
        """Size of the files."""
        return sum(file.bytes for file in self.files)

    def of_partition(self, partition: int) -> Snapshot:
        """Return what it has of one partition."""
        files = tuple(file for file in self.files if file.partition == partition)
        deleted = {partition: self.deleted.get(partition, 0)}
        return replace(self, files=files, deleted=deleted)

    def by_bucket(self, partition: int) -> dict[int, tuple[DataFile, ...]]:
        """Return bucket → files of one partition."""
        by_bucket: dict[int, tuple[DataFile, ...]] = {}
        for file in self.files:
            if file.partition == partition:
                by_bucket[file.bucket] = (*by_bucket.get(file.bucket, ()), file)
        return by_bucket


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """A change of a table: all of it becomes visible, or nothing.

    Attributes:
        progress: of all partitions, afterwards.
        added, removed: files.
        deleted: partition and bucket → file → all rows of it that are deleted afterwards,
            ascending; only for buckets where that changes, and without files that have none. A
            bucket of a removed file that is not named has none.
    """

    form: Form
    progress: Mapping[int, Progress]
    added: tuple[DataFile, ...]
    removed: tuple[DataFile, ...]
    deleted: Mapping[tuple[int, int], Mapping[DataFile, NDArray[np.int64]]] = field(
        default_factory=dict
    )

    @property
    def deleted_of_buckets(self) -> dict[tuple[int, int], Mapping[DataFile, NDArray[np.int64]]]:
        """`deleted`, with the buckets of removed files that have none."""
        none: Mapping[DataFile, NDArray[np.int64]] = {}
        removed = {(file.partition, file.bucket): none for file in self.removed}
        return {**removed, **self.deleted}


def dump_form(form: Form) -> str:
    """Return the form as JSON."""
    return json.dumps({"version": _VERSION, **asdict(form)}, sort_keys=True)


def load_form(text: str | None, *, table: str) -> Form:
    """Return the form of `dump_form`.

    Raises:
        UnknownTable: it has another form. `table`: where it is, for the message.
    """
    content = _content(text, table)
    try:
        return Form(
            topic=str(content["topic"]),
            buckets=int(content["buckets"]),
            columns=tuple((str(name), str(kind)) for name, kind in content["columns"]),
            asked=str(content["asked"]),
            decoding=str(content["decoding"]),
            unique="topic" if content.get("unique") == "topic" else "partition",
            unique_by="decoded" if content.get("unique_by") == "decoded" else "bytes",
        )
    except (KeyError, TypeError, ValueError) as error:
        raise _unknown(table) from error


def require_columns(form: Form, names: Sequence[str], *, table: str) -> None:
    """Require that a table has the columns of its form.

    Raises:
        OtherForm: another program has changed them. `table`: where it is, for the message.
    """
    if sorted(names) != sorted(name for name, _ in form.columns):
        raise OtherForm(
            f"another program has changed the columns of the table {table}.",
            remedy="Remove the table; it is then made again from the log.",
        )


def dump_progress(progress: Mapping[int, Progress]) -> str:
    """Return the progress of all partitions as JSON."""
    partitions = {str(number): asdict(one) for number, one in sorted(progress.items())}
    return json.dumps({"version": _VERSION, "partitions": partitions}, sort_keys=True)


def load_progress(text: str | None, *, table: str) -> dict[int, Progress]:
    """Return the progress of `dump_progress`; nothing if there is no text.

    Raises:
        UnknownTable: it has another form.
    """
    if text is None:
        return {}
    content = _content(text, table)
    try:
        return {int(number): _progress(one) for number, one in content["partitions"].items()}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise _unknown(table) from error


def _progress(content: dict[str, Any]) -> Progress:
    # Tables of earlier versions do not have all that has a default.
    known = {
        each.name: content[each.name]
        if each.default is MISSING
        else content.get(each.name, each.default)
        for each in fields(Progress)
    }
    known["batches"] = Batches.of(content.get("batches"))
    if known["tail"] is not None:
        base_offset, crc, *record = known["tail"]
        known["tail"] = Tail(int(base_offset), int(crc), *record)
    return Progress(**known)


def _content(text: str | None, table: str) -> dict[str, Any]:
    try:
        content = json.loads(text or "")
    except ValueError as error:
        raise _unknown(table) from error
    if not isinstance(content, dict) or content.get("version") != _VERSION:
        raise _unknown(table)
    return content


def _unknown(table: str) -> UnknownTable:
    return UnknownTable(
        f"the table {table} was not made by this version of logwright.",
        remedy="Give another path, or remove the table; it is then made again.",
    )
