"""Faults of the tables of the latest state."""

from __future__ import annotations

from typing import Final

from tests.mutation.fault import Fault

RULES: Final = ("tests/unit/tables/test_plan.py",)
PARTS: Final = ("tests/unit/tables/test_parts.py",)
FORMATS: Final = ("tests/unit/tables/test_formats.py",)
DIED: Final = ("tests/unit/tables/test_died.py",)

TABLES: Final = (
    Fault(
        family="table: a lost tombstone",
        file="tables/plan.py",
        right="    if observed.missing_offset is not None and waited_ms >= patience_ms:",
        wrong="    if observed.missing_offset is not None and waited_ms > patience_ms:",
        tests=RULES,
    ),
    Fault(
        family="table: the longer of two retentions",
        file="tables/plan.py",
        right="    return min(recorded.delete_retention_ms, observed.delete_retention_ms)",
        wrong="    return max(recorded.delete_retention_ms, observed.delete_retention_ms)",
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
        family="table: a tombstone that takes no row",
        file="tables/rewrite.py",
        right="        kept = _without(batch, key, dead)",
        wrong="        kept = batch",
        tests=FORMATS,
    ),
    Fault(
        family="table: the old row stays",
        file="tables/rewrite.py",
        right="        kept = _without(kept, key, fresh)",
        wrong="",
        tests=FORMATS,
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
        right="        write_file(self._work / _JOURNAL, json.dumps(journal).encode())\n",
        wrong="        (self._work / _JOURNAL).touch()\n",
        tests=DIED,
    ),
    Fault(
        family="table: files of versions that are read",
        file="tables/iceberg.py",
        right="            if str(path) not in used and",
        wrong="            if",
        tests=FORMATS,
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
)
