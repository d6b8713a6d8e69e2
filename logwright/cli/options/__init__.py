"""The options of each command: declarations only, which import nothing of the engine."""
