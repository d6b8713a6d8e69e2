"""Discovery, the sensor of due logs, and the sweep."""
