"""Schedules that do not depend on the state of the logs."""

import dagster as dg

from logwright.assets.fleet.inventory import fleet_inventory
from logwright.assets.fleet.page import fleet_page
from logwright.assets.history import maintenance_history

fleet = dg.define_asset_job(
    "fleet",
    selection=dg.AssetSelection.assets(fleet_inventory, maintenance_history, fleet_page),
    description="Refresh the fleet inventory, the history and the fleet page.",
)

fleet_report = dg.ScheduleDefinition(
    name="fleet_report",
    job=fleet,
    cron_schedule="0 * * * *",
    description="Refresh the fleet inventory, the history and the fleet page every hour.",
)
