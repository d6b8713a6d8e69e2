"""Clean one log in a bucket by many tasks, without a working copy of the whole log.

1. `run` plans from the newest manifest, and calls the tasks of each step by an executor: what goes
   through its process are numbers and names, never keys or records.
2. `tasks` are the steps of `logwright.compaction.split`, each for one group of segments or one
   shard of the keys' hashes. A task downloads one group at most, builds and checks what it becomes,
   and sends it.
3. What a task leaves for later ones is in objects of the job (`objects`), which no manifest names:
   they are removed in the end, and what a call that was killed has left by a purge. Each call
   writes under names of its own, so that one that runs twice does no harm.
4. `finish` commits: in a copy whose segments are hollow the same steps are done as for any
   cleaning, with hollow output; what that leaves is the new state, and of its files those that the
   tasks have sent are named.

What a task holds in memory: of a group 24 bytes for each of 2 million records, three times, 104
bytes for each batch and two bits for each record; of a shard ``log.cleaner.dedupe.buffer.size``, 24
bytes for each of its records in a few groups, and 4 bytes for each record that is superseded; of
the transactions 104 bytes for each batch of one, in one task.
"""
