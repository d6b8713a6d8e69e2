"""The table of a topic, as the policies have it: opened, updated, read.

One process at a time updates a table: it holds a lock in the table's directory. In a bucket, and
where a catalog decides on the place, there is no such directory; then the second commit is refused.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from pkgutil import resolve_name
from typing import Final

import pyarrow as pa

from logwright.batches.runtime import Progress, silent
from logwright.bucket.store import is_in_bucket
from logwright.config.decoding import Decoding
from logwright.config.table import TopicTable
from logwright.decode.make import make_decoder
from logwright.decode.model import Decoder
from logwright.errors import DiskFull, LogwrightError, PolicyError, PreconditionError, StepFailed
from logwright.extras import require
from logwright.log.enclosing import enclosing_log_dir
from logwright.maintenance.scratch import temporary_directory
from logwright.place.model import Place
from logwright.tables.columns import KEY, Columns, key_of
from logwright.tables.evolution import Chosen, Topic, choose
from logwright.tables.files import (
    DirectoryFiles,
    TableFiles,
    files_at,
    hidden_in,
)
from logwright.tables.growth import ColumnChange
from logwright.tables.local_files import WORK, lock_table
from logwright.tables.logs import TopicLog, source_of
from logwright.tables.merge import MergeLimits
from logwright.tables.model import Snapshot
from logwright.tables.quarantine import Quarantine, Reason
from logwright.tables.rewrite import read_batches, without
from logwright.tables.store import Store, TableLocation
from logwright.tables.types import require_types
from logwright.tables.update import update_table
from logwright.tables.whole_topic import update_whole_topic
from logwright.tables.work import PartitionSource, Target, UpdateResult

QUARANTINE: Final = "_quarantine"
"""What the name of the quarantine table has after that of the table."""
NAMESPACE: Final = "latest_state"
_WAREHOUSE: Final = "warehouse"
"""Property of a catalog: where it makes tables."""
_LOCAL: Final = re.compile(r"(?:file:(?://)?)?(/.*)", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class LocatedTable:
    """Where a topic's table is.

    Attributes:
        table: as the policies have it.
        catalog: the properties of its catalog, with the secrets.
        base: directory of the policies, for the paths of schemas.
        limits: when files are written again that could lose rows instead.
    """

    topic: str
    table: TopicTable
    catalog: Mapping[str, str]
    base: Path
    limits: MergeLimits = field(default_factory=MergeLimits)

    @property
    def files(self) -> TableFiles | None:
        """Where its files are; None: the catalog decides.

        Raises:
            PolicyError, MissingExtra: see `files_at`.
        """
        return None if self.table.path is None else files_at(self.table.path)

    @property
    def directory(self) -> Path | None:
        """The table's directory; None: it is in a bucket, or the catalog decides."""
        path = self.table.path
        return None if path is None or is_in_bucket(path) else Path(path).absolute()

    @property
    def shown(self) -> str:
        """What is shown of it."""
        return self.identifier if self.files is None else str(self.files)

    @property
    def identifier(self) -> str:
        """Its name in a catalog."""
        return self.table.identifier or f"{NAMESPACE}.{self.topic}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicUpdate:
    """What an update of a topic's table did.

    Attributes:
        store: the table, loaded: as the result's snapshot has it.
        quarantined: rows of the quarantine table afterwards.
        reasons: why they are there, with the most frequent reason first.
        removed_files: files of old versions that were removed.
        changes: of the columns.
        unknown: names of fields that new records have and the columns do not, see `Chosen`.
    """

    result: UpdateResult
    store: Store
    columns: Columns
    quarantined: int
    reasons: tuple[Reason, ...]
    removed_files: int
    changes: tuple[ColumnChange, ...] = ()
    unknown: tuple[str, ...] = ()

    @property
    def only_refused(self) -> bool:
        """Whether no record could be decoded: none of this update, or none that has a row."""
        snapshot = self.result.snapshot
        no_rows = self.quarantined > 0 and (snapshot is None or snapshot.rows == 0)
        return no_rows or self.result.only_refused


def open_store(place: LocatedTable, *, quarantine: bool = False) -> Store:
    """Return the topic's table, or its quarantine table. Effects: imports the format's library."""
    suffix = QUARANTINE if quarantine else ""
    files = place.files
    if files is not None and quarantine:
        files = files.next_to(f"{files.name}{QUARANTINE}")
    namespace, _, name = place.identifier.partition(".")
    if place.table.identifier is not None:
        namespace, _, name = place.identifier.rpartition(".")
    return _store_of(place)(
        TableLocation(
            identifier=(*namespace.split("."), f"{name}{suffix}"),
            files=files,
            catalog=place.catalog,
        )
    )


def _store_of(place: LocatedTable) -> type[Store]:
    """Return the class of a format. Effects: imports it, and the format's library.

    Raises:
        MissingExtra: the library is not installed.
    """
    require(place.table.of_format.extra, by=f"a table of the format {place.table.format}")
    store: type[Store] = resolve_name(place.table.of_format.store)
    return store


def update_topic(
    place: LocatedTable,
    logs: Sequence[TopicLog],
    *,
    now_ms: int,
    progress: Progress = silent,
    rebuild: bool = False,
) -> TopicUpdate:
    """Bring a topic's table up to date. Effects: reads the logs, writes the table and its
    quarantine table; removes files of old versions. No broker may start meanwhile.

    Args:
        place: the table.
        logs: of the topic's partitions, as observed.
        now_ms: when they were observed.
        progress: of reading each log, see `read_latest`.
        rebuild: make it again from its whole logs, with the columns of the newest schema.

    Raises:
        OtherColumns: the newest schema has columns that the table does not take by itself.
        PreconditionError: it would be in a log directory, or a column is not for its format.
        LogDirLocked: another process updates it.
        UnknownTable, OtherForm, InDoubt: there is another table at its place, or another program
            has changed it so that it cannot be corrected.
        PolicyError, SchemaUnavailable: it cannot be decoded.
        DiskFull, StepFailed: it cannot be written.
    """
    require_outside(place, {one.log.log_dir for one in logs})
    with table_errors(place), _locked(place) as work:
        store = open_store(place)
        store.recover()
        known = store.load()
        removed = store.remove_old(0) if known is not None and known.has_erased else 0
        sources = [source_of(each, now_ms=now_ms, progress=progress) for each in logs]
        chosen = choose(topic_of(place, store, known, (logs, sources)), rebuild=rebuild)
        if chosen.refusal is not None:
            raise chosen.refusal
        require_columns(place, store, chosen.columns)
        target = _target(place, (store, known), chosen, logs, work)
        make = update_whole_topic if target.remembers else update_table
        result = make(target, sources)
        if result.snapshot is not None:
            keep_ms = 0 if result.snapshot.has_erased else place.table.keep_versions_ms
            removed += store.remove_old(keep_ms)
        quarantined = target.quarantine.count()
        return TopicUpdate(
            result=result,
            store=store,
            columns=chosen.columns,
            changes=chosen.changes if result.changed else (),
            unknown=chosen.unknown,
            quarantined=quarantined,
            reasons=target.quarantine.reasons() if quarantined else (),
            removed_files=removed,
        )


def _target(
    place: LocatedTable,
    loaded: tuple[Store, Snapshot | None],
    chosen: Chosen,
    logs: Sequence[TopicLog],
    work: Path,
) -> Target:
    """Return what is to be updated. Effects: opens the quarantine table.

    Args:
        place: the table.
        loaded: it, and what it has now.
        chosen: how records are decoded.
        logs: of the topic's partitions.
        work: directory of temporary files.
    """
    store, known = loaded
    table = place.table
    recorded = () if known is None else known.progress
    return Target(
        store=store,
        quarantine=_quarantine_table(place, work),
        topic=place.topic,
        decoder=chosen.decoder,
        columns=chosen.columns,
        asked=table.decoding.model_dump_json(),
        decoding=chosen.decoder.decoding.model_dump_json(),
        work=work,
        buckets=table.buckets,
        limits=place.limits if _marks_rows(table) else None,
        keep_ms=table.keep_versions_ms,
        unique=table.unique,
        unique_by=table.unique_by,
        hidden=hidden_in(place.files or DirectoryFiles(work)),
        partitions=frozenset({*(one.partition for one in logs), *recorded}),
        again=chosen.again,
        key_before="" if known is None else key_of(known.form),
    )


def topic_of(
    place: LocatedTable,
    store: Store,
    known: Snapshot | None,
    read: tuple[Sequence[TopicLog], Sequence[PartitionSource]],
) -> Topic:
    """Return what decides on the columns of a table. `read`: logs, and the same as sources."""
    (logs, sources) = read
    return Topic(
        name=place.topic,
        table=place.table,
        base=place.base,
        store=store,
        known=known,
        logs=logs,
        sources=sources,
    )


def require_columns(place: LocatedTable, store: Store, columns: Columns) -> None:
    """Require that a table can have these columns, and that keys which are compared by their
    decoded values are decoded.

    Raises:
        PolicyError: keys are not decoded.
        PreconditionError: the format cannot have one of the columns.
    """
    table = place.table
    if table.unique_by == "decoded" and (columns.key == KEY or KEY not in columns.decoded):
        raise PolicyError(
            "unique_by: decoded compares the column key, and keys are not decoded to one.",
            remedy="Give a format of keys, such as key: json, or unique_by: bytes.",
        )
    require_types(store, columns.full, form=table.format)


def decoder_of(place: LocatedTable, snapshot: Snapshot) -> Decoder:
    """Return the decoder that a table was made with. Effects, errors: as `make_decoder`."""
    decoding = Decoding.model_validate_json(snapshot.form.decoding)
    return make_decoder(decoding, base=place.base, topic=place.topic)


def _quarantine_table(place: LocatedTable, work: Path) -> Quarantine:
    refused = open_store(place, quarantine=True)
    refused.recover()
    refused.load()  # what it asks that is not done is refused before the other table changes
    return Quarantine(store=refused, topic=place.topic, work=work)


def require_outside(place: LocatedTable, log_dirs: Collection[Place]) -> None:
    """Require that a table is not in a log directory, where no broker would start. Effects: looks
    for a broker's files.

    Args:
        log_dirs: those that are known.

    Raises:
        PreconditionError: it is, or its quarantine table is.
    """
    paths = [] if place.directory is None else [place.directory, _quarantine(place.directory)]
    local = _LOCAL.fullmatch(place.catalog.get(_WAREHOUSE, ""))
    paths += [] if local is None else [Path(local[1])]
    _require_outside_in_bucket(place, log_dirs)
    for path in paths:
        log_dir = enclosing_log_dir(path, log_dirs)
        if log_dir is not None:
            raise PreconditionError(
                f"the table would be in the log directory {log_dir}: no broker would start on it.",
                path=path,
                remedy="Give a path that is in no log directory.",
            )


def _require_outside_in_bucket(place: LocatedTable, log_dirs: Collection[Place]) -> None:
    files = place.files
    if files is None or place.directory is not None:
        return
    for log_dir in log_dirs:
        if f"{files}/".startswith(f"{str(log_dir).rstrip('/')}/"):
            raise PreconditionError(
                f"the table {files} would be in the log directory {log_dir}.",
                remedy="Give a path that is in no log directory.",
            )


def _quarantine(directory: Path) -> Path:
    return directory.with_name(f"{directory.name}{QUARANTINE}")


def _marks_rows(table: TopicTable) -> bool:
    """Whether rows may stay in their files, marked as deleted: not if nothing is kept."""
    return table.update_mode == "merge-on-read" and table.keep_versions_ms > 0


def read_rows(
    store: Store, snapshot: Snapshot, columns: Sequence[str], *, partition: int | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a table, file by file. Effects: reads.

    Args:
        columns: the columns, without partition and bucket.
        partition: only of this one.
    """
    for file in snapshot.files:
        if partition is None or file.partition == partition:
            deleted = store.deleted(file)
            with store.source(file) as opened:
                yield from without(read_batches(opened, list(columns)), deleted)


@contextmanager
def table_errors(place: LocatedTable) -> Iterator[None]:
    """Turn errors of file systems and of the formats' libraries into ours. Their messages may have
    values of rows, so only their kind is kept.

    Raises:
        DiskFull: there is no room.
        StepFailed: any other.
    """
    try:
        yield
    except LogwrightError:
        raise
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DiskFull("not enough disk space for the table.", path=place.directory) from None
        raise _failed(place, error) from None
    except (pa.ArrowException, *_store_of(place).errors) as error:
        if isinstance(error, _store_of(place).conflicts):
            raise StepFailed(
                f"another process has changed the table {place.shown} meanwhile.",
                path=place.directory,
                remedy="The next update continues from what the table has then.",
            ) from None
        raise _failed(place, error) from None


def _failed(place: LocatedTable, error: Exception) -> StepFailed:
    number = getattr(error, "errno", None)
    name = errno.errorcode.get(number, "") if isinstance(number, int) else ""
    kind = f"{type(error).__name__} {name}".strip()
    return StepFailed(
        f"the table {place.shown} could not be read or written: {kind}.",
        path=place.directory,
        remedy="It has its last version; the next update continues. If that fails in the same way,"
        " remove the table; it is then made again from the log.",
    )


@contextmanager
def _locked(place: LocatedTable) -> Iterator[Path]:
    """Yield a directory for temporary files, while no other process updates the table."""
    if place.directory is None:
        with temporary_directory() as work:
            yield work
        return
    with lock_table(place.directory):
        yield place.directory / WORK
