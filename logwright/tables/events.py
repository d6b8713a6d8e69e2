"""Records with a value that give their key no row: deletions that are change events, and records of
types that a table does not have.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from logwright.config.decoding import DebeziumSpec, Decoding, RegistrySpec
from logwright.config.spec import Spec
from logwright.decode.make import make_decoder
from logwright.tables.columns import KEY, OFFSET, READ_COLUMNS
from logwright.tables.logs import TopicLog, records_of
from logwright.tables.model import Snapshot

if TYPE_CHECKING:
    from logwright.decode.model import Decoder


class Events:
    """The change events of a table's topic. Effects: may read schema files, or ask a registry.

    Args:
        snapshot: the table.
        base: the directory of the policies.

    Raises:
        PolicyError, SchemaUnavailable: they cannot be decoded.
    """

    def __init__(self, snapshot: Snapshot, base: Path) -> None:
        decoding = Decoding.model_validate_json(snapshot.form.decoding or "{}")
        spec = decoding.value
        self._decoder: Decoder | None = None
        if isinstance(spec, DebeziumSpec) or _leaves_out(decoding.key) or _leaves_out(spec):
            self._decoder = make_decoder(decoding, base=base, topic=snapshot.form.topic)
        truncates = isinstance(spec, DebeziumSpec) and spec.truncate == "delete"
        self._truncates = truncates and snapshot.progress.keys() == {0}

    @property
    def columns(self) -> tuple[str, ...]:
        """What `no_row` needs."""
        return (OFFSET,) if self._decoder is None else READ_COLUMNS

    def no_row(self, batch: pa.RecordBatch, first: int) -> pa.BooleanArray:
        """Return which records with a value delete their key, or are below an offset. Those that
        cannot be decoded are not among them.
        """
        before = pc.less(batch[OFFSET], first)
        if self._decoder is None:
            return before
        decoded = self._decoder.decode(batch.select(list(READ_COLUMNS)))
        offsets = decoded.rows["offset"].filter(decoded.deleted)
        return pc.or_(before, pc.is_in(batch[OFFSET], value_set=offsets))

    def truncated_below(self, topic_log: TopicLog, end_offset: int | None) -> int:
        """Return the offset below which records have no rows, 0 without one. Effects: may read the
        log.
        """
        first = 0
        if self._decoder is not None and self._truncates:
            for batch in records_of(topic_log.log, None, end_offset):
                keyless = self._decoder.keyless(batch.filter(batch[KEY].is_null()))
                first = max(first, *keyless.truncations, 0)
        return first


def _leaves_out(spec: Spec) -> bool:
    """Whether records of other types than those that it names have no row."""
    of = getattr(spec, "of", spec)
    return isinstance(of, RegistrySpec) and bool(of.records)
