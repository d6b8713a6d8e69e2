"""Archives of topics in buckets, as assets."""
