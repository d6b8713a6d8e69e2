"""Judges a table: each record that is the newest of its key has the official decoder's row, or a
legitimate refusal.
"""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

import pyarrow as pa

from logwright.config.decoding import Decoding
from logwright.decode.make import make_decoder
from logwright.errors import LogwrightError
from logwright.tables.evolution import OtherColumns
from logwright.tables.topic import LocatedTable
from tests.evolution.avro_official import AvroOfficial
from tests.evolution.history import Entry, Expected, History, Sent
from tests.evolution.json_official import JsonOfficial
from tests.evolution.protobuf_official import ProtobufOfficial
from tests.evolution.tables import (
    OWN,
    Found,
    Place,
    located,
    places,
    plain_rows,
    read,
    update,
    write_logs,
)

OFFICIALS: Final = {"AVRO": AvroOfficial, "PROTOBUF": ProtobufOfficial, "JSON": JsonOfficial}
_EXTENSIONS: Final = {"AVRO": ".avsc", "PROTOBUF": ".proto", "JSON": ".json"}
_SHOWN: Final = 300
_OTHER_TYPES: Final = frozenset(
    {
        "another type",
        "type renamed",
        "type renamed with alias",
        "namespace of a type changed",
        "title changed",
        "message renamed",
    }
)
"""Changes after which records may be of another type."""

_REASONS: Final = {
    "grow": ("is changed", "is removed", "a record of schema"),
    "follow": ("is changed", "a record of schema"),
    "fixed": ("is changed", "is removed", "is added"),
}
"""Setting → words of the reasons for which a table does not take columns."""

_NAMES: Final = re.compile(r"/\S+|\b[A-Za-z]+\d+\b|field [\w.\[\]]+|'[^']*'|\d+")


class Official(Protocol):
    """Decodes with the library of a format's authors, for one reader's schema."""

    def expect(self, sent: Sent) -> Expected:
        """What a key or value may become."""


class Difference(NamedTuple):
    """What is wrong.

    Attributes:
        kind: of the difference, the same for many.
        where: partition and offset of the record; None: it is of the whole table.
        says: with schemas' names and the record's values: this is a test's own data.
        changes: between the record's schema and the columns'.
    """

    kind: str
    where: Place | None
    says: str
    changes: tuple[str, ...] = ()


@dataclass(slots=True)
class Figures:
    """What many histories came to.

    Attributes:
        different: how many have a difference.
        counts: what was compared; refusals: legitimate ones, by their kind; changes: of schemas.
        differences: seed, kind of the schemas, and one of each kind of a history.
    """

    histories: int = 0
    different: int = 0
    updates: int = 0
    records: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)
    changes: Counter[str] = field(default_factory=Counter)
    differences: list[tuple[int, str, Difference]] = field(default_factory=list)

    def add(self, other: Figures) -> None:
        """Take over what others came to."""
        self.histories += other.histories
        self.different += other.different
        self.updates += other.updates
        self.records += other.records
        self.counts += other.counts
        self.refusals += other.refusals
        self.changes += other.changes
        self.differences += other.differences


def judged(history: History, root: Path, figures: Figures) -> list[Difference]:
    """Do a history, and return what is wrong. Effects: makes and removes the directory."""
    shutil.rmtree(root, ignore_errors=True)
    (root / "s").mkdir(parents=True)
    try:
        for name, text in history.files().items():
            (root / "s" / name).write_text(text)
        return _Judge(history, root, figures).run()
    finally:
        shutil.rmtree(root, ignore_errors=True)


@dataclass(slots=True)
class _Judge:
    """Of one history. `reader`: the ids of the columns' schemas, of values and of keys."""

    history: History
    root: Path
    figures: Figures
    reader: tuple[int, int] = (0, 0)

    def run(self) -> list[Difference]:
        """Update the table in steps, and make another one of the whole log."""
        history, contents, before = self.history, Found(), list[Difference]()
        logs = self.root / "logs"
        self.figures.histories += 1
        table = located(history, self.root, "steps")
        for cut in history.cuts:
            entries = history.entries[:cut]
            write_logs(logs, entries)
            try:
                contents = update(table, logs)
            except OtherColumns as error:
                before += self._unchanged(contents, table, error)
                contents = update(table, logs, rebuild=True)
            except LogwrightError as error:
                return [*before, _failed(error)]
            self.figures.updates += 1
            before += self._table(entries, contents)
        try:
            again = update(located(history, self.root, "again"), logs)
        except LogwrightError as error:
            return [*before, _failed(error)]
        wrong = self._table(history.entries, again)
        return [*before, *wrong, *self._same(contents, again), *self._alone(again)]

    def _unchanged(
        self, contents: Found, table: LocatedTable, error: OtherColumns
    ) -> list[Difference]:
        """A table that does not take columns stays as it was, and the reason is one of its kind."""
        changes = self.history.schema_changes
        self.figures.counts[f"columns refused, {changes}"] += 1
        allowed = _REASONS[changes]
        wrong = []
        if not any(word in error.problem for word in allowed):
            wrong.append(Difference("columns refused without need", None, error.problem))
        if read(table) != contents:
            wrong.append(Difference("another table after columns were refused", None, ""))
        return wrong

    def _table(self, entries: Sequence[Entry], contents: Found) -> list[Difference]:
        history = self.history
        files = {
            name: text
            for name, text in history.files().items()
            if name.endswith(_EXTENSIONS[history.kind])
        }
        newest: dict[tuple[int, bytes], tuple[Place, Entry]] = {}
        for at, entry in zip(places(entries), entries, strict=True):
            newest[entry.partition, entry.raw_key] = at, entry
        heads = {at: entry for at, entry in newest.values() if entry.value is not None}
        extra = sorted(contents.rows.keys() - heads.keys())
        if extra:
            return [Difference("a row that is not the newest of its key", extra[0], "")]
        wrong = self._reader(entries, contents)
        if not heads:
            return wrong
        official = OFFICIALS[history.kind]
        self.reader = contents.values[0], contents.keys[0]
        values = official(files, *contents.values, self.figures.counts)
        keys = official(files, *contents.keys, self.figures.counts) if history.keys else None
        for at, entry in heads.items():
            self.figures.records += 1
            expected = {"value": values.expect(entry.value)} if entry.value else {}
            if keys is not None and isinstance(entry.key, Sent):
                expected["key"] = keys.expect(entry.key)
            wrong += self._record(at, entry, expected, contents)
        return wrong

    def _reader(self, entries: Sequence[Entry], contents: Found) -> list[Difference]:
        """The columns are those of the newest schema that a record has, of those of its type."""
        used = [each.value.number for each in entries if each.value is not None]
        if self.history.schema_changes == "fixed":
            return []
        if not used or contents.values[0] == max(used) or self._has_other_types(contents, used):
            return []
        says = f"the columns are of {contents.values[0]}, the newest records of {max(used)}"
        return [Difference("columns that do not follow", None, says)]

    def _has_other_types(self, contents: Found, used: Sequence[int]) -> bool:
        """Whether the newest records may be of another type than the columns."""
        changes = self.history.changes(min(used), max(used))
        is_mixed = self.history.kind == "PROTOBUF" and any(
            len(each.text.split("\nmessage ")) > 2 for each in self.history.values
        )
        return is_mixed or not _OTHER_TYPES.isdisjoint(changes)

    def _record(
        self, at: Place, entry: Entry, expected: dict[str, Expected], contents: Found
    ) -> list[Difference]:
        refused = contents.refused.get(at, {})
        row = contents.rows.get(at)
        if row is None and not refused:
            return [self._wrong("neither a row nor a refusal", at, entry, "")]
        if row is not None and refused:
            return [self._wrong("a row and a refusal", at, entry, "")]
        if row is None:
            return self._refused(at, entry, expected, refused)
        for part, each in expected.items():
            actual = _part_of(row, part)
            if actual not in each.values:
                kind = _kind_of(actual, each)
                says = f"{part}: expected {each.values or each.refusals}, got {actual}"
                return [self._wrong(kind, at, entry, says, part)]
        return []

    def _refused(
        self, at: Place, entry: Entry, expected: dict[str, Expected], refused: dict[str, str]
    ) -> list[Difference]:
        wrong = []
        for part, reason in refused.items():
            allowed = expected[part].refusals if part in expected else ()
            for kind in allowed[:1]:
                self.figures.refusals[f"{self.history.kind}: {kind}"] += 1
            if not allowed:
                kind = f"refused without need: {_NAMES.sub('_', reason)}"
                values = expected[part].values if part in expected else entry.key
                says = f"{part}: {reason}; expected {values}"
                wrong.append(self._wrong(kind, at, entry, says, part))
        return wrong

    def _wrong(
        self, kind: str, at: Place, entry: Entry, says: str, part: str = "value"
    ) -> Difference:
        sent = entry.key if part == "key" else entry.value
        readers = self.reader[part == "key"]
        changes = self.history.changes(sent.number, readers) if isinstance(sent, Sent) else ()
        return Difference(kind, at, says, changes)

    def _same(self, contents: Found, again: Found) -> list[Difference]:
        """The table that was made again is the one that was updated, if both have one reader."""
        if contents.decoding != again.decoding:
            self.figures.counts["tables of two schemas are not compared"] += 1
            return []
        self.figures.counts["tables compared"] += 1
        for at in sorted(contents.rows.keys() | again.rows.keys()):
            if contents.rows.get(at) != again.rows.get(at):
                pair = [
                    (each.rows.get(at), each.refused.get(at), each.values)
                    for each in (contents, again)
                ]
                return [Difference("made again it is another table", at, f"{pair}")]
            if at in again.rows and (contents.raw_keys[at] != again.raw_keys[at]):
                return [Difference("made again it is another table", at, "keys differ")]
        missing = sorted(again.refused.keys() - contents.refused.keys())
        if missing:
            return [Difference("made again it has another quarantine", missing[0], "")]
        return self._same_reasons(contents, again)

    def _same_reasons(self, contents: Found, again: Found) -> list[Difference]:
        different = [at for at in again.refused if again.refused[at] != contents.refused[at]]
        if different:
            says = f"{contents.refused[different[0]]}, then {again.refused[different[0]]}"
            return [Difference("made again it has other reasons", different[0], says)]
        return []

    def _alone(self, contents: Found) -> list[Difference]:
        """Each record becomes the same without the others."""
        if self.history.seed % 4 or not contents.decoding:
            return []
        decoding = Decoding.model_validate_json(contents.decoding)
        decoder = make_decoder(decoding, base=self.root, topic="t")
        for at, entry in zip(places(self.history.entries), self.history.entries, strict=True):
            if entry.value is None or (at not in contents.rows and at not in contents.refused):
                continue
            self.figures.counts["records decoded alone"] += 1
            decoded = decoder.decode(_batch(at, entry))
            rows = [_decoded(row) for row in plain_rows(decoded.rows)]
            refused = {row["part"]: row["reason"] for row in decoded.refused.to_pylist()}
            if rows != ([contents.rows[at]] if at in contents.rows else []):
                return [self._wrong("alone it is another row", at, entry, f"alone {rows}")]
            if refused != contents.refused.get(at, {}):
                return [self._wrong("alone it is refused otherwise", at, entry, f"{refused}")]
        return []


def _batch(at: Place, entry: Entry) -> pa.RecordBatch:
    value = entry.value.content if entry.value is not None else None
    return pa.record_batch(
        {
            "key": pa.array([entry.raw_key], pa.binary()),
            "value": pa.array([value], pa.binary()),
            "topic": pa.array(["t"], pa.string()),
            "partition": pa.array([at[0]], pa.int32()),
            "offset": pa.array([at[1]], pa.int64()),
            "timestamp": pa.array([0], pa.timestamp("us", "UTC")),
        }
    )


def _decoded(row: dict[str, Any]) -> dict[str, Any]:
    return {name: each for name, each in row.items() if name not in OWN and name != "topic"}


def _part_of(row: dict[str, Any], part: str) -> Any:
    if part == "key":
        return row["key"]
    others = {name: each for name, each in row.items() if name != "key"}
    return others["value"] if list(others) == ["value"] else others


def _kind_of(actual: Any, expected: Expected) -> str:
    if isinstance(actual, dict) and not any(_leaves(actual)):
        return "a row of nulls"
    if not expected.values:
        return f"a row, though: {expected.refusals[0]}"
    return "another value"


def _leaves(value: Any) -> list[bool]:
    if isinstance(value, dict):
        return [leaf for each in value.values() for leaf in _leaves(each)]
    return [value not in (None, [], "")]


def _failed(error: LogwrightError) -> Difference:
    return Difference(
        f"no table: {_NAMES.sub('_', error.problem)[:100]}", None, str(error)[:_SHOWN]
    )


def smallest(history: History, root: Path, wrong: Difference) -> History:
    """The history with the fewest records and updates that still shows this kind of difference."""

    def shows(trial: History) -> bool:
        return any(each.kind == wrong.kind for each in judged(trial, root, Figures()))

    trials = [replace(history, cuts=history.cuts[-1:])]
    if history.keys:
        names = {
            key: f"key-{n:02}" for n, key in enumerate({each.raw_key for each in history.entries})
        }
        entries = tuple(replace(each, key=names[each.raw_key]) for each in history.entries)
        trials += [replace(each, keys=(), entries=entries) for each in (history, trials[0])]
    for trial in trials:
        history = trial if shows(trial) else history
    position = 0
    while position < len(history.entries) > 1:
        entries = history.entries[:position] + history.entries[position + 1 :]
        cuts = sorted({max(1, each - (each > position)) for each in history.cuts})
        trial = replace(history, entries=entries, cuts=tuple(cuts))
        if shows(trial):
            history = trial
        else:
            position += 1
    return history
