"""Maintenance of the brokers of a running cluster, one after another (docs/rolling.md)."""
