"""When: jobs, sensors and schedules, and the definitions that wire everything."""
