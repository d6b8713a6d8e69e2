"""The engine's functions on many partitions at once, by Spark."""
