"""The second pass: segments are written again without the records that a bitmap names. Used by
cleanings and erasures.

`staging` writes the segments of all groups of a plan; `segment` one of them with its indexes, in
chunks (`chunks`), batch by batch (`copy`, `batch`); `unchanged` finds those that need not be
written. `steps` are the file steps that put them in the place of the old ones.
"""
