"""Find every record of the requested keys, in every file that can hold one.

1. `logwright.log.record_files` lists the files: live segments, retired ones, deleted, stray and
   future logs, staged output, what recoveries cut off. What is not known, or cannot
   be read, is named, never skipped.
2. `walk` reads a file once for any number of keys, as compiled kernels; `scan` calls it.
3. `kinds` decides what a cleaner sees in a record: aborted, superseded, a tombstone, live.
4. `logwright.erasure.outlook` decides which rule removes it, and when.
5. `search` does all of it for some directories, `tables` for Parquet files.
"""
