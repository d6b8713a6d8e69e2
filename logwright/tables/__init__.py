"""Tables with the latest state of a topic, made incrementally: Parquet, Delta and Iceberg
(docs/adr/0027).
"""
