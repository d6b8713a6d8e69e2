"""Maintenance of Apache Kafka logs as a data platform: the engine, and the platform around it."""
