"""Erasure of a person's records: requests, where their records still are, and when they are gone.

The words:

- *Request*: a key that must be gone by a deadline, from a topic or from all topics that a pattern
  matches. A key is kept as its HMAC-SHA-256 under the deployment's secret, never in clear.
- *Filter*: 32 bits of a keyed hash of the key. A scan compares filters first; what passes is
  compared exactly.
- *Finding*: one record of a requested key, in one file, with the rule that removes it.

========================================  ====================================================
the secret                                `secret`
requests: files, store                    `request`, `landing`, `store`
which request a key belongs to            `keys`, `match`
the order of an erasure, what it leaves   `run`, `remains`
========================================  ====================================================
"""
