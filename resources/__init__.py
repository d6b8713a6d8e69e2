"""Log directories, policies, clock and Spark. Only these modules read the environment."""

from logwright.extras import require

require("dagster", by="logwright.resources")
