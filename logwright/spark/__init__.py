"""The engine's functions on many partitions at once, by Spark."""

from logwright.extras import require

require("spark", by="Spark as an engine")
