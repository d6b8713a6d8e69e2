"""Forecast of what a cleaning removes, by cause, without building its output."""
