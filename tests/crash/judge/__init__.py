"""Kafka's own loader as the judge of the states that a crash leaves."""
