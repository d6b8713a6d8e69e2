"""Metrics of a fleet for Prometheus, with the names that Kafka's have in the JMX exporter."""
