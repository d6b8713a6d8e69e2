"""Retention, purges, and the space of the log directories."""
