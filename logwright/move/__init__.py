"""Moving a partition's log to another log directory of the same broker (KIP-113, offline)."""
