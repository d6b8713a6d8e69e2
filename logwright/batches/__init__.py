"""The reading room: the batches of segments, read window by window, for everything that reads.

`source` maps segments and opens windows of them; `segment_file` reads them piece by piece into
memory that is used again; `unpack` decompresses, and `status` has what stops a kernel and what is
done about it; `outcomes` and `markers` decide how transactions ended, by their markers alone;
`runtime` has threads, throttle and progress.
"""
