"""Faults of the tables of the latest state."""

from __future__ import annotations

from typing import Final

from tests.mutation.fault import Fault

RULES: Final = ("tests/unit/tables/test_plan.py",)
PARTS: Final = ("tests/unit/tables/test_parts.py",)
FORMATS: Final = ("tests/unit/tables/test_formats.py",)
VERSIONS: Final = ("tests/unit/tables/test_versions.py",)
MERGE: Final = ("tests/unit/tables/test_merge.py",)
IN_BUCKET: Final = ("tests/unit/tables/test_in_bucket.py",)
WRITERS: Final = ("tests/unit/tables/test_two_writers.py",)
DURABLE: Final = ("tests/unit/test_durable.py",)
EVENTS: Final = ("tests/unit/tables/test_change_events.py",)
DIED: Final = ("tests/unit/tables/test_died.py",)

TABLES: Final = (
    Fault(
        family="durable: a name before its content",
        file="durable.py",
        right="        file.flush()\n        os.fsync(descriptor)\n",
        wrong="        file.flush()\n",
        tests=DURABLE,
    ),
    Fault(
        family="durable: a name that a loss of power takes",
        file="durable.py",
        right="    sync(path.parent)\n    remove_leftovers(path.parent)\n",
        wrong="    remove_leftovers(path.parent)\n",
        tests=DURABLE,
    ),
    Fault(
        family="durable: a link is followed",
        file="durable.py",
        right="os.O_APPEND | os.O_NOFOLLOW",
        wrong="os.O_APPEND",
        tests=DURABLE,
    ),
    Fault(
        family="durable: a temporary file of a process that is writing",
        file="durable.py",
        right="st_mtime >= older_than_s",
        wrong="st_mtime >= 0",
        tests=DURABLE,
    ),
    Fault(
        family="table: a lost tombstone",
        file="tables/plan.py",
        right="    if observed.missing_offset is not None:",
        wrong="    if observed.missing_offset is not None and purges:",
        tests=RULES,
    ),
    Fault(
        family="table: fewer offsets by the high watermark alone",
        file="tables/plan.py",
        right="    if _is_only_below(recorded, observed):",
        wrong="    if _is_only_below(recorded, observed) and recorded.erasure:",
        tests=RULES,
    ),
    Fault(
        family="table: a topic of the same name",
        file="tables/plan.py",
        right="    if recorded.topic_id != observed.topic_id:",
        wrong="    if False:",
        tests=RULES,
    ),
    Fault(
        family="table: a log that was cut off",
        file="tables/logs.py",
        right="        tail=lambda end: tail_of(log, end),",
        wrong="        tail=lambda end: (0, 0),",
        tests=FORMATS,
    ),
    Fault(
        family="table: a former value that outlives its row",
        file="tables/former.py",
        right="        decides = has_value | ends | first",
        wrong="        decides = has_value | first",
        tests=EVENTS,
    ),
    Fault(
        family="table: a former value of an older record than the log had",
        file="tables/intake.py",
        right="        return pc.and_(kept, pa.array([one in held",
        wrong="        return pc.and_(kept, pa.array([True or one in held",
        tests=EVENTS,
    ),
    Fault(
        family="table: rows before a truncation stay",
        file="tables/intake.py",
        right="        return replace(self.step, compares=False, trims_below=self.truncated_below)",
        wrong="        return self.step",
        tests=EVENTS,
    ),
    Fault(
        family="table: a tombstone that takes no row",
        file="tables/write.py",
        right="    keys = pa.concat_arrays([fresh, new.dead])",
        wrong="    keys = fresh",
        tests=FORMATS,
    ),
    Fault(
        family="table: the old row stays",
        file="tables/write.py",
        right="    keys = pa.concat_arrays([fresh, new.dead])",
        wrong="    keys = new.dead",
        tests=FORMATS,
    ),
    Fault(
        family="table: rows that were deleted before come back",
        file="tables/merge.py",
        right="        return np.sort(np.concatenate((self.before, self.added)))",
        wrong="        return self.added",
        tests=VERSIONS,
    ),
    Fault(
        family="table: a deleted row in a file that is written again",
        file="tables/write.py",
        right="without(batches, change.deleted)",
        wrong="without(batches, change.added)",
        tests=VERSIONS,
    ),
    Fault(
        family="table: positions of the second batch",
        file="tables/rewrite.py",
        right="        start = end\n",
        wrong="",
        tests=MERGE,
    ),
    Fault(
        family="table: too many deleted rows",
        file="tables/merge.py",
        right="    if sum(len(one.deleted) for one in changes) > limits.deleted_share * rows:",
        wrong="    if sum(len(one.added) for one in changes) > limits.deleted_share * rows:",
        tests=MERGE,
    ),
    Fault(
        family="table: a deletion vector that replaces none",
        file="tables/delta.py",
        right='            {"remove": _remove(file, now_ms, vectors.pop(file.path, None))}',
        wrong='            {"remove": _remove(file, now_ms, None)}',
        tests=VERSIONS,
    ),
    Fault(
        family="table: deletion vectors of versions that are read",
        file="tables/delta.py",
        right='            if info["timestamp"] < before_ms:\n                names = earlier',
        wrong="            names = earlier",
        tests=VERSIONS,
    ),
    Fault(
        family="table: delete files that are replaced stay",
        file="tables/iceberg.py",
        right="            files.removed_deletes.update(replaced)\n",
        wrong="",
        tests=VERSIONS,
    ),
    Fault(
        family="table: another version than the one that was read",
        file="tables/iceberg.py",
        right="        if version_of(table) != self._version:",
        wrong="        if table is None:",
        tests=WRITERS,
    ),
    Fault(
        family="table: a commit after another process's",
        file="tables/iceberg_deletes.py",
        right="        if self._parent_snapshot_id != self._starting_snapshot_id:",
        wrong="        if self._parent_snapshot_id is None:",
        tests=WRITERS,
    ),
    Fault(
        family="table: files of a catalog's warehouse that are not durable",
        file="tables/iceberg.py",
        right="            for written in (Path(local[1]), Path(local[1]).parent):\n",
        wrong="            for written in ():\n",
        tests=WRITERS,
    ),
    Fault(
        family="table: a journal that is not finished",
        file="tables/parquet.py",
        right="            self._apply(_checked(journal))",
        wrong="            journal.unlink()",
        tests=DIED,
    ),
    Fault(
        family="table: renamed before the journal",
        file="tables/parquet.py",
        right="        durable.replace(self._work / _JOURNAL, json.dumps(journal).encode())\n",
        wrong="        (self._work / _JOURNAL).touch()\n",
        tests=DIED,
    ),
    Fault(
        family="table: files of versions that are read",
        file="tables/iceberg.py",
        right="            if str(path) not in used and",
        wrong="            if",
        tests=VERSIONS,
    ),
    Fault(
        family="table: the quarantine forgets",
        file="tables/quarantine.py",
        right="        kept = () if lost else old",
        wrong="        kept: tuple[DataFile, ...] = ()",
        tests=DIED,
    ),
    Fault(
        family="table: buckets that are uneven",
        file="tables/buckets.py",
        right="    mixed *= np.uint32(0x85EBCA6B)\n",
        wrong="    return murmur % count\n",
        tests=PARTS,
    ),
    Fault(
        family="table: a comparison that counts only",
        file="tables/compare.py",
        right="        equal=rows + refused == live,",
        wrong="        equal=True,",
        tests=PARTS,
    ),
    Fault(
        family="table in a bucket: another's commit is taken for one's own",
        file="tables/files.py",
        right="            if there == content:\n",
        wrong="            if there:\n",
        tests=IN_BUCKET,
    ),
    Fault(
        family="table in a bucket: a file that a writer may be about to name goes",
        file="tables/delta.py",
        right="        return unused & (named | old)",
        wrong="        return unused",
        tests=IN_BUCKET,
    ),
)
