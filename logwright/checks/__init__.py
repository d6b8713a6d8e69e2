"""The checks of a cleaning: what must be true of the staged output before anything live changes.

A cleaning reads a log and stages compacted segments (`logwright.compaction`). Before the swap the
checks read the staged files back from disk and compare them with the segments that they replace.
Each check counts its violations and names the offset of the first. A log that fails one is not
swapped: its staged files are removed, and the log stays as it was.

What they prove
    ``crc_valid``
        Every batch of the output can be read, and its CRC is right.
    ``offsets_ascending``
        Batches and records ascend and stay in the range of their segment.
    ``survivors_identical``
        Every record of the output is the source's at that offset: timestamp, key, value, headers.
    ``latest_value_per_key``
        The latest record of every key is in the output, unless it is a tombstone past its delete
        horizon (KIP-534). Above the end of the offset map every record is there. Markers and the
        data of aborted transactions do not count as values of keys.
    ``index_entries_valid``
        Every entry of the offset index and the time index describes the batch that it points to.

    The code has these names once, in `model.CHECK_NAMES`.

Quick and thorough (docs/adr/0010, 0043)
    Both do the same five checks. `quick`, the default, reads the whole output, but of the source
    only the headers. A batch that has the source's CRC and length is the source's. Of the records
    in other batches it compares a sum with one that the build took of the source's bytes. For the
    latest values it compares sums, too: of the keys that the build's offset map holds, and of those
    in the batches that stay and in the records that were summed. `thorough` reads and
    hashes all keys of the source again and relies on nothing that the build reports. Where `quick`
    fails, `thorough` runs too, to find the offsets (`examine`).

Rules of their own
    The checks state again, in other words, which record survives, when a tombstone may go and what
    an aborted transaction is. That is on purpose: with the rules of the two passes they would
    repeat a fault of the passes and call it right. They share with them the plan and the
    staged output (`model`), the reading of segments (`logwright.batches.source`), the walk over a
    record, the hash, the table of the offset map, and the way in which records are mixed into a sum
    (`logwright.keys.receipt`).
    tests/tidy/test_imports.py holds them to that.

Modules
    `examine`: chooses between the two ways. `model`: the results. `segments`: each staged segment
    with those that it replaces. `kernels`: rules that both ways use. `indexes`: index files.
    `quick`, `quick_kernels`. `thorough`, `thorough_kernels`, `latest` (the keys). `results`: what
    is counted on the way. `due`: what a retention or purge deleted.
"""
