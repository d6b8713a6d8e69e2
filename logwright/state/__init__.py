"""What a broker keeps in memory and a tool has to keep on disk: pauses, quarantine, open moves."""
