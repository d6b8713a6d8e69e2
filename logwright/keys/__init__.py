"""The first pass over the keys: which records are superseded by a later one with their key, as a
bitmap with one bit for each record. Used by cleanings, forecasts and the latest state.

`rows` is the pass: it takes rows of batches in steps, on one thread or several; `read` finds their
records and hashes and puts them into the `offset_map`, `receipt` sums them for the checks.
"""
