"""The job `erase`, and the sensor of the deadlines of requests."""
