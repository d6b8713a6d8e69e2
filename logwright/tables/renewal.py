"""What a table knows of its keys, when it is made again with other columns of the decoded key.

The identity of a key is made of its decoded value (`logwright.tables.identity`), and with it the
bucket. With a newer schema of keys both are others: they are found again from the keys as they are
in the log, which the table has.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from logwright.tables.columns import KEY, OFFSET, PARTITION, TIMESTAMP
from logwright.tables.heads import HEADS, RAW, as_heads, heads_table, raw_keys
from logwright.tables.hidden import HiddenHeads
from logwright.tables.model import DataFile
from logwright.tables.rewrite import read_batches, without
from logwright.tables.spill import Spill
from logwright.tables.work import Target

Files = Mapping[int, Mapping[int, Sequence[DataFile]]]


class Renewed:
    """The heads of a table, by the buckets of their new identities.

    Args:
        hidden, rows: those without a row, and those that have one.
    """

    def __init__(self, hidden: Spill, rows: Spill) -> None:
        self._hidden = hidden
        self._rows = rows

    def hidden(self, bucket: int) -> pa.Table:
        """Return the hidden heads of a bucket. Effects: reads what was spilled."""
        return heads_table(self._hidden.read(bucket))

    def rows(self, partition: int, bucket: int) -> pa.Table:
        """Return the heads of a partition that have rows. Effects: reads what was spilled."""
        heads = heads_table(self._rows.read(bucket))
        return heads.filter(pc.equal(heads[PARTITION], partition))


def renewed(
    stack: ExitStack, target: Target, files: Files, hidden: HiddenHeads, buckets: int
) -> Renewed | None:
    """Return the heads of a table with their new identities; None: they are as they were. Effects:
    reads keys of the table; spills.

    Args:
        stack: closes the temporary files.
        target: the table, as it is made.
        files: partition → bucket → its files.
        hidden: its hidden heads.
        buckets: of the table.
    """
    if target.identity is None or not target.again:
        return None
    new = partial(Spill, HEADS, KEY, buckets, target.work)
    of_hidden, of_rows = (stack.enter_context(new()) for _ in range(2))
    for bucket in range(buckets):
        _add(target, of_hidden, [hidden.read(bucket)])
    for number, of_partition in files.items():
        for of_bucket in of_partition.values():
            _add(target, of_rows, _rows(target, number, of_bucket))
    return Renewed(of_hidden, of_rows)


def _add(target: Target, spill: Spill, tables: Iterable[pa.Table]) -> None:
    """Give heads with their new identities to a spill. Effects: spills."""
    identity = target.identity
    if identity is None:
        return
    for heads in tables:
        raw = raw_keys(heads)
        known = pa.nulls(len(heads), pa.binary())
        for number in pc.unique(heads[PARTITION]).to_pylist():
            is_of = pc.equal(heads[PARTITION], number).combine_chunks()
            new = identity.of_raw(target.decoder, raw.filter(is_of), number)
            known = pc.replace_with_mask(known, is_of, new)
        columns = {name: heads[name] for name in HEADS.names} | {KEY: known, RAW: raw}
        for batch in pa.table(columns, schema=HEADS).combine_chunks().to_batches():
            spill.add(batch)


def _rows(target: Target, number: int, files: Iterable[DataFile]) -> Iterator[pa.Table]:
    """Yield the heads of files, with their keys as they are in the log. Effects: reads."""
    store, key = target.store, target.key_before or target.columns.key
    for file in files:
        with store.source(file) as opened:
            batches = read_batches(opened, [key, OFFSET, TIMESTAMP])
            for batch in without(batches, store.deleted(file)):
                no_row = pa.array(np.zeros(len(batch), np.bool_))
                yield heads_table([as_heads(batch.columns, number, no_row, 0)])
