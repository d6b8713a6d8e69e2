"""The partitions of the platform's assets: one per topic-partition (keys:
`logwright.resources.log_dirs`).
"""

from typing import Final

import dagster as dg

LOGS_NAME: Final = "kafka_logs"
LOGS: Final = dg.DynamicPartitionsDefinition(name=LOGS_NAME)
SEGMENT_SET: Final = dg.AssetKey(["kafka_logs", "segment_set"])
FLEET_INVENTORY: Final = dg.AssetKey(["kafka_logs", "fleet_inventory"])
FLEET_PAGE: Final = dg.AssetKey(["kafka_logs", "fleet_page"])
MAINTENANCE_HISTORY: Final = dg.AssetKey(["kafka_logs", "maintenance_history"])
RETENTION_ASSET: Final = dg.AssetKey(["kafka_logs", "retention"])
PURGE_ASSET: Final = dg.AssetKey(["kafka_logs", "purge"])
