"""Verification: is everything that a log directory holds about a partition consistent?

`partition` compares all files of a partition with its batches. `against` compares two states of a
partition by the thorough checks of a cleaning (`logwright.checks`). Nothing is changed.
"""
