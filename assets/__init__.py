"""The assets: the segment sets of all maintained logs, their checks and contracts, and the fleet
inventory.
"""

from logwright.extras import require

require("dagster", by="logwright.assets")
