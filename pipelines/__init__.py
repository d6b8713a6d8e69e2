"""When: jobs, sensors and schedules, and the definitions that wire everything."""

from logwright.extras import require

require("dagster", by="logwright.pipelines")
