"""The inventory of all logs, and the fleet page."""
