"""Schedules that do not depend on the state of the logs."""

import dagster as dg

from logwright.assets.fleet import fleet_inventory

fleet_report = dg.ScheduleDefinition(
    name="fleet_report",
    target=[fleet_inventory],
    cron_schedule="0 * * * *",
    description="Refresh the fleet inventory every hour.",
)
