"""Start sensors and schedules, as an operator does in Dagster's web UI."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterable
from typing import Final

from logwright.errors import StepFailed

RUNNING_BY_DEFAULT: Final = ("discovery", "pauses", "failed_runs")

SENSORS: Final = ("due_logs", "purge_due", "default_automation_condition_sensor")
"""Stopped by default; the last is Dagster's own, for automation conditions."""

SCHEDULES: Final = ("retention_check", "fleet_report")
"""Stopped by default."""

ARCHIVE_SCHEDULE: Final = "archive_logs"
"""Stopped by default; it is there if topics are archived."""

ANSWER_SECONDS: Final = 60

_START_SENSOR: Final = """mutation ($selector: SensorSelector!) {
  started: startSensor(sensorSelector: $selector) {
  __typename ... on Sensor { state: sensorState { status } } ... on PythonError { message } } }"""
_START_SCHEDULE: Final = """mutation ($selector: ScheduleSelector!) {
  started: startSchedule(scheduleSelector: $selector) {
  __typename ... on ScheduleStateResult { state: scheduleState { status } }
  ... on PythonError { message } } }"""


def start_sensors(address: str, names: Iterable[str] = SENSORS) -> None:
    """Start sensors. Effects: the daemon evaluates them from now on.

    Args:
        address: URL of the web server.
        names: names of sensors of the code location `logwright`.

    Raises:
        StepFailed: Dagster did not start one.
    """
    for name in names:
        _start(address, _START_SENSOR, "sensorName", name)


def start_schedules(address: str, names: Iterable[str]) -> None:
    """Start schedules, like `start_sensors`."""
    for name in names:
        _start(address, _START_SCHEDULE, "scheduleName", name)


def _start(address: str, mutation: str, key: str, name: str) -> None:
    selector = {
        "repositoryLocationName": "logwright",
        "repositoryName": "__repository__",
        key: name,
    }
    body = json.dumps({"query": mutation, "variables": {"selector": selector}}).encode()
    request = urllib.request.Request(  # noqa: S310 -- http
        f"{address}/graphql", body, {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=ANSWER_SECONDS) as response:  # noqa: S310
        answer = json.load(response)
    started = (answer.get("data") or {}).get("started") or {}
    if (started.get("state") or {}).get("status") != "RUNNING":
        raise StepFailed(f"Dagster did not start {name}: {json.dumps(answer)[:500]}")
