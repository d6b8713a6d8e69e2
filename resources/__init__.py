"""Log directories, policies, clock and Spark. Of the platform only these read the environment."""

from logwright.extras import require

require("dagster", by="logwright.resources")
