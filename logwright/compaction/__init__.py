"""Cleaning: find the records that survive compaction, and write the segments that hold them.

A cleaning has two passes over the segments below the first uncleanable offset, as Kafka's has:

1. The first pass (`survivors`, by `logwright.keys`) reads the keys. Those of the dirty part go into
   the offset map, those of the clean part are looked up in it. Its outcome is one bit for each
   record: dead or not.
2. The second pass (`logwright.rewrite`) copies what is not dead into new segments, and builds their
   indexes. It needs neither keys nor map.

Before them `plan` decides what may be cleaned and `transactions` what is removed with aborted
transactions; after them `logwright.checks` compares the output with the source, and
`logwright.rewrite.steps` replaces the old segments. `build` runs the two passes and leaves their
output in a staging directory.

The words:

- *Ordinal*: the number of a record among all records of a cleaning, in the order of the log. Of two
  records with one key, the one with the larger ordinal is the later one.
- *Dead bitmap*: one bit for each ordinal, set when the record does not survive. Bits are only ever
  set, so the passes, threads and shards that set them may come in any order.
- *Shard*: a range of the keys' hashes. When the offset map is full it is reduced to a shard, and
  the keys are read once more for each other one.
- *Verbatim*: a batch whose bytes are copied as they are; the others are rebuilt from the records
  that survive.
- *Receipt*: sums over the keys and records that a pass has seen. The checks compare the output with
  them and need not read the source again.

Where to look:

========================================  ====================================================
the rules of retention, each once         `logwright.cleaner_rules`; on decoded records:
                                          ``tests/twins.py``
first dirty and uncleanable offset,       `plan` (decisions), `model` (values)
  dirty ratio, groups of segments
aborted transactions                      `transactions` (walk), `batches.outcomes` (indexes and
                                          markers)
the first pass as a whole                 `survivors`; read backwards: `backward`
read, decompress, hash, map               `keys.read`, `format.siphash`,
                                          `keys.offset_map`
threads, shards                           `keys.rows`
copy or rebuild a batch                   `rewrite.copy`, `rewrite.batch`
a new segment with its indexes            `rewrite.segment`
segments that stay as they are            `rewrite.unchanged`
the staging directory                     `rewrite.staging`, `rewrite.unsynced`
receipts for the checks                   `keys.receipt` (first pass), `rewrite.batch_receipt`
                                          (rebuilt batches)
========================================  ====================================================
"""
