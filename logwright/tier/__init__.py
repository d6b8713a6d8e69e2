"""Segments that Kafka's tiered storage (KIP-405) has copied to remote storage, which are only read.

1. `objects`: what is asked of a bucket: its objects, and bytes of one.
2. `plugin` with `manifest`, `chunks` and `encryption`: the layout of the common plugin.
   `local_storage`: that of Kafka's own LocalTieredStorage. `layout` finds which objects are a
   segment.
3. `metadata`: the events of ``__remote_log_metadata``: which segments are whole, which are gone.
4. `lineage`: which segments are a log's, and where the next one begins.
5. `place`: a log directory together with its remote segments, as one log, read only.
   `account`: what of a topic was seen, for searches.

Keys of objects, manifests and chunks are untrusted, as all files are.
"""
