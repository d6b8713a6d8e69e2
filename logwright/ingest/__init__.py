"""Appending records to logs at rest, as a broker's leader would have (UnifiedLog.append)."""
