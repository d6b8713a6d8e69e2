"""Schedules that do not depend on the state of the logs."""

import dagster as dg

from logwright.assets.fleet import fleet_inventory
from logwright.assets.history import maintenance_history

fleet_report = dg.ScheduleDefinition(
    name="fleet_report",
    target=[fleet_inventory, maintenance_history],
    cron_schedule="0 * * * *",
    description="Refresh the fleet inventory and the maintenance history every hour.",
)
