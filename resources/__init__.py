"""With what: log directories, policies, clock and Spark. The only readers of the environment."""

from logwright.extras import require

require("dagster", by="logwright.resources")
