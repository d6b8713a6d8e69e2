"""Decide how the records of a topic are decoded now, and what that does to the table's columns.

It is decided before anything is written: by the schema ids of what is new in the logs, the rules of
`growth`, and the first record of each schema id, which both schemas decode. With a newer schema the
table is made again, also with the same columns: a default, a symbol, a required field or the
presence of a field may be another, which only all records would show.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from logwright.config.decoding import Decoding
from logwright.config.spec import Spec
from logwright.config.table import TopicTable
from logwright.decode.make import make_decoder
from logwright.decode.model import Decoder
from logwright.decode.newest import Registry, as_columns, chosen, followed, with_schema
from logwright.errors import LogwrightError
from logwright.tables.columns import BUCKET, PARTITION, Columns, columns_of
from logwright.tables.examples import Example, Examples, examples_of
from logwright.tables.growth import ColumnChange, changes_of, refused_of
from logwright.tables.logs import TopicLog, sample
from logwright.tables.model import OtherForm, Snapshot
from logwright.tables.plan import gone_partitions
from logwright.tables.store import Store
from logwright.tables.unknown_fields import inferred_parts, newest_and_first, unknown_fields
from logwright.tables.update import plan_source, recorded_of
from logwright.tables.work import PartitionSource

ASKED: Final = "it was asked for"
_OTHER_VERSION: Final = "this version of logwright, or the schema, gives other columns"
_OTHER_VALUES: Final = "a newer schema may give other values"
_PARTS: Final = ("key", "value")
_REBUILD: Final = (
    "`latest --rebuild` makes the table again with the columns of the newest schema, and refuses"
    " the records that do not fit. schema_changes: fixed keeps the columns."
)
_FOLLOW: Final = (
    "schema_changes: follow lets columns go that the newest schema does not have; schema_changes:"
    " fixed keeps the columns."
)


class OtherColumns(OtherForm):
    """The newest schema has columns that the table does not take by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """How records are decoded.

    Attributes:
        changes: of the table's columns.
        again: why the table is made again from its whole log; empty: it is not.
        refusal: why the table does not take the changes; None: it does.
        unknown: names of fields that new records have and the columns do not, where these were
            inferred.
    """

    decoder: Decoder
    columns: Columns
    changes: tuple[ColumnChange, ...] = ()
    again: str = ""
    refusal: OtherColumns | None = None
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """What is known of a topic and its table before an update.

    Attributes:
        base: directory of the policies.
        known: the table; None: there is none.
        sources: of the same logs.
    """

    name: str
    table: TopicTable
    base: Path
    store: Store
    known: Snapshot | None
    logs: Sequence[TopicLog]
    sources: Sequence[PartitionSource]

    def decoder(self, decoding: Decoding) -> Decoder:
        """Return the decoder of a decoding. Effects, errors: as `make_decoder`."""
        some = sample(self.logs) if self.known is None else newest_and_first(self.logs)
        return make_decoder(decoding, base=self.base, sample=some, topic=self.name)

    def registries(self) -> dict[str, Registry]:
        """Return part → the registry whose newest schema its columns follow."""
        specs = {part: followed(spec_of(self.table.decoding, part)) for part in _PARTS}
        return {part: Registry(spec, self.base) for part, spec in specs.items() if spec is not None}

    def all_examples(self, parts: Mapping[str, object]) -> Examples:
        """Return the first record of each schema id. Effects: reads the logs."""
        return examples_of(self.logs, {each.partition: None for each in self.logs}, {*parts})


def spec_of(decoding: Decoding, part: str) -> Spec:
    """Return the spec of keys or values."""
    return decoding.key if part == "key" else decoding.value


def choose(topic: Topic, *, rebuild: bool = False) -> Chosen:
    """Return how the records of a topic are decoded now. Effects: reads what is new in the logs if
    their schema ids decide, and all of them if the columns change; reads schemas.

    Args:
        topic: as it is.
        rebuild: the table is made again in any case.

    Raises:
        InDoubt: as `recorded_of`.
        OtherForm: a partition of the table has no log here, and the table has to be made again.
        PolicyError, SchemaUnavailable: as `make_decoder`.
    """
    known = topic.known
    if known is not None and not rebuild:
        if known.form.asked != topic.table.decoding.model_dump_json():
            decoder = topic.decoder(topic.table.decoding)  # the update refuses it
            return Chosen(decoder=decoder, columns=columns_of(decoder.schema))
        done = _continued(topic, known)
    else:
        done = _first(topic)
        if known is not None:
            before = _stored(topic.store, known) or done.columns.stored
            changes = changes_of(before, done.columns.stored)
            done = Chosen(decoder=done.decoder, columns=done.columns, changes=changes, again=ASKED)
    if known is not None and done.again:
        _require_all_logs(topic, known)
    return done


def _first(topic: Topic) -> Chosen:
    """Return how the records of a table are decoded that is made now."""
    decoding, registries = topic.table.decoding, topic.registries()
    for part, examples in topic.all_examples(registries).items():
        values = {schema_id: each.value for schema_id, each in examples.items()}
        newest = registries[part].first(values)
        if newest is not None:
            spec = with_schema(spec_of(decoding, part), *newest)
            decoding = decoding.model_copy(update={part: spec})
    decoder = topic.decoder(decoding)
    return Chosen(decoder=decoder, columns=columns_of(decoder.schema))


def _continued(topic: Topic, known: Snapshot) -> Chosen:
    """Return how the records of a table are decoded that is there."""
    current = Decoding.model_validate_json(known.form.decoding)
    registries = {} if topic.table.schema_changes == "fixed" else topic.registries()
    inferred = inferred_parts(topic.table.decoding)
    starts = _starts(topic, known) if registries or inferred else {}
    news = examples_of(topic.logs, starts, registries)
    decoding, renamed, first = current, dict[str, str](), list[tuple[int, Example]]()
    is_same = True
    for part, examples in news.items():
        spec = spec_of(current, part)
        (schema_id, message) = chosen(spec)
        if schema_id is None:
            continue
        values = {each: example.value for each, example in examples.items()}
        newest = registries[part].newest(values, (schema_id, message))
        if newest is None:
            continue
        is_same = is_same and registries[part].is_same(schema_id, newest[0])
        names = registries[part].renamed(schema_id, newest[0], newest[1])
        renamed |= dict(as_columns(names, part, spec))
        first.append((newest[0], examples[newest[0]]))
        decoding = decoding.model_copy(update={part: with_schema(spec, *newest)})
    decoder = topic.decoder(decoding)
    columns = columns_of(decoder.schema)
    if not first and columns.pairs == known.form.columns:
        unknown = unknown_fields(current, inferred, topic.logs, starts)
        return Chosen(decoder=decoder, columns=columns, unknown=unknown)
    old = topic.decoder(current) if first else decoder
    judged = _judged(topic, known, (old, decoder), renamed, first)
    if is_same or judged.again or judged.refusal is not None:
        return judged
    return replace(judged, again=_OTHER_VALUES)


def _judged(
    topic: Topic,
    known: Snapshot,
    decoders: tuple[Decoder, Decoder],
    renamed: Mapping[str, str],
    first: Sequence[tuple[int, Example]],
) -> Chosen:
    """Return how records are decoded with other columns, or another schema. Effects: reads.

    Args:
        topic, known: the table.
        decoders: until now, and now.
        renamed: as `changes_of` has it.
        first: newer schema ids, with their first records.
    """
    (old, decoder) = decoders
    columns, before = columns_of(decoder.schema), columns_of(old.schema)
    stored = before.stored
    if before.pairs != known.form.columns:
        stored = _stored(topic.store, known) or columns.stored
    changes = changes_of(stored, columns.stored, renamed)
    problems = refused_of(changes, topic.table.schema_changes)
    why = "; ".join(map(str, problems))
    again = "; ".join(map(str, changes))
    if not again and columns.pairs != known.form.columns:
        again = _OTHER_VERSION
    remedy = _FOLLOW if {each.kind for each in problems} == {"removed"} else _REBUILD
    if first and not why:
        why = _refused_now(topic, old, decoder)
    refusal = None
    if why:
        refusal = OtherColumns(
            f"the table {topic.store.name} does not take the columns of"
            f" {_origin(first)}: {why}. It stays as it was.",
            remedy=remedy,
        )
    return Chosen(decoder=decoder, columns=columns, changes=changes, again=again, refusal=refusal)


def _origin(first: Sequence[tuple[int, Example]]) -> str:
    """Return where other columns come from."""
    if not first:
        return _OTHER_VERSION
    return " and ".join(
        f"schema {schema_id} of the {example.part}s, first at {example.place}"
        for schema_id, example in first
    )


def _refused_now(topic: Topic, old: Decoder, new: Decoder) -> str:
    """Return which first record of a schema id one decoder takes and the other does not; empty:
    none. Effects: reads the logs.
    """
    examples = topic.all_examples(topic.registries())
    for schema_id, example in (pair for found in examples.values() for pair in found.items()):
        before, after = old.decode(example.record), new.decode(example.record)
        if after.refused.num_rows and not before.refused.num_rows:
            reason = after.refused["reason"][0].as_py()
            return f"a record of schema {schema_id}, at {example.place}, {reason}"
    return ""


def _starts(topic: Topic, known: Snapshot) -> Mapping[int, int | None]:
    """Return partition → from where what is new is read. Effects: reads headers.

    Raises:
        InDoubt: as `recorded_of`.
    """
    recorded = recorded_of(known, topic.sources)
    starts: dict[int, int | None] = {}
    for source in topic.sources:
        with suppress(LogwrightError):  # the update reports it
            step = plan_source(source, recorded.get(source.partition), topic.table.keep_versions_ms)
            if step.kind != "nothing":
                starts[source.partition] = step.start_offset
    return starts


def _stored(store: Store, known: Snapshot) -> pa.Schema | None:
    """Return the columns of a table's files, None if it has no file. Effects: reads a footer."""
    for file in known.files:
        with store.source(file) as opened:
            stored = pq.read_schema(opened).remove_metadata()
        places = {name for name, _ in known.form.columns} - {PARTITION, BUCKET}
        return pa.schema([field for field in stored if field.name in places])
    return None


def _require_all_logs(topic: Topic, known: Snapshot) -> None:
    """Require that a table can be made again.

    Raises:
        OtherForm: a partition of it has no log here.
    """
    topics = frozenset(source.observed.topic_id for source in topic.sources)
    present = frozenset(source.partition for source in topic.sources)
    gone = gone_partitions(known.progress, topics, present)
    lost = sorted(known.progress.keys() - present - {*gone})
    if lost:
        raise OtherForm(
            f"the table {topic.store.name} has to be made again with other columns, and partition"
            f" {lost[0]} has no log here.",
            remedy="Give the log directory that has it; schema_changes: fixed keeps the columns.",
        )
