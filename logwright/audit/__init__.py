"""The audit of replicas: compare what several log directories of the same partitions serve.

1. `observe` looks at each replica: its offsets, its transactions by their markers, its producers.
2. `records` reads the records of a replica, in order, as sums: no key or value leaves a kernel.
3. `rules` are pure: they say which differences a healthy replica cannot have.
4. `run` audits one partition; `lacking` says which replicas are missing.

What follows from cleanings at different times, from retention, from lag, from other segments or
other codecs is not a fault: of two healthy replicas each record is the same where both have it, and
the latest record of each key is the same up to where the shorter one ends, unless it is a tombstone
that one of them has removed already (docs/adr/0030).
"""
