"""Log directories that a broker has open: a consistent, bounded picture of each log, made from the
files alone (docs/adr/0045).

1. `broker`: is one there? Its lock is only asked about, never taken: not even a shared one, which
   would make a broker that starts meanwhile fail.
2. `snapshot`: a partition's directory is listed, all files are opened, and it is listed again. If
   nothing differs, the descriptors show one state of the log, whatever becomes of the names.
3. `bounds`: of these bytes only what is below the high watermark is shown. It is read after the
   snapshot, and not used if the log shows that it is of another time.
4. `session`: the snapshots of one call of a command; waits where the bound must be younger than the
   snapshot; says afterwards whether what was read is still the log's history.
5. `place`: all of that as a place that can be read. Readers take it for a log directory whose
   broker was stopped at that moment.

Nothing is written below the log directory.
"""
