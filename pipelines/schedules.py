"""What happens by the clock, whatever the state of the logs."""

import dagster as dg

from logwright.assets.fleet import fleet_inventory

fleet_report = dg.ScheduleDefinition(
    name="fleet_report",
    target=[fleet_inventory],
    cron_schedule="0 * * * *",
    description="Take the fleet's inventory every hour.",
)
