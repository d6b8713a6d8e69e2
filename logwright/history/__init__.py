"""The maintenance history: one row per log and operation, as Parquet files (docs/adr/0020)."""
