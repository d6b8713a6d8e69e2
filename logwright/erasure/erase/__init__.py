"""Erase the records of some keys at once and permanently: `logwright erase --now-and-for-good`.

    scan -> plan -> build -> check -> commit

1. **Scan** (`scan`): the keys of every record of every segment are read and matched, those of the
   active segment too, and below the log start offset. No policy matters: logs that are not
   compacted are erased alike.
2. **Plan** (`plan`): a log with a match in its active segment is rolled first.
3. **Build** (`build`): each segment with a match is rebuilt without it, by the copy of a cleaning
   (`logwright.rewrite`) with another bitmap of what goes: the matches, nothing else. So
   offsets, producers, transactions and control batches are kept as a cleaning keeps them
   (MemoryRecords.filterTo, Kafka 4.3.0), and no batch gets a delete horizon. A segment without a
   match keeps its files.
4. **Check** (`check`): from the bytes of both sides, each record that does not match is in the
   output, the same one, and nothing else is.
5. **Commit** (`commit`): mark the log for its readers (`logwright.state.erasure_mark`), roll, then
   swap segment by segment in the order of `logwright.steps.replace_segments`. Then the files that
   were replaced are unlinked at once, and with them each other file of the log that has a match
   (`copies`): retired segments, staged and kept outputs, what recoveries have cut out. The
   cleaner's checkpoint stays valid.

Every stage finds on disk what is left to do: after an interruption a recovery finishes the swap
that was committed, and the same command continues with the rest. Nothing restores the files that
were unlinked; an undo refuses.

Deleted, stray and future logs: `directories`. Tombstones and the rules of Kafka
instead: `by_tombstones`.
"""
