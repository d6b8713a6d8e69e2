"""The metadata of a KRaft cluster that has lost its quorum (KIP-500, KIP-595, KIP-630, KIP-853):
what the directories that are left prove, and a new directory from which one controller starts as
the only voter.
"""
