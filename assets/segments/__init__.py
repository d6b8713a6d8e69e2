"""The segment set of each log: planned, rolled, compacted, checked, swapped in."""
