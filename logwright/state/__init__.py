"""State that a broker has in memory and a tool must store: pauses, quarantine, open moves."""
