"""Switches sensors and schedules on, as an operator does on Dagster's page."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterable
from typing import Final

from logwright.errors import StepFailed

SENSORS: Final = ("due_logs", "purge_due")
"""Off at first in any instance; `discovery` and `failed_runs` are always on."""

SCHEDULES: Final = ("retention_check", "fleet_report")
"""Off at first in any instance."""

ANSWER_SECONDS: Final = 60

_START_SENSOR: Final = """mutation ($selector: SensorSelector!) {
  started: startSensor(sensorSelector: $selector) {
  __typename ... on Sensor { state: sensorState { status } } ... on PythonError { message } } }"""
_START_SCHEDULE: Final = """mutation ($selector: ScheduleSelector!) {
  started: startSchedule(scheduleSelector: $selector) {
  __typename ... on ScheduleStateResult { state: scheduleState { status } }
  ... on PythonError { message } } }"""


def start_sensors(address: str, names: Iterable[str] = SENSORS) -> None:
    """Effects: the daemon evaluates these from now on.

    Args:
        address: of the running page.
        names: of sensors of the code location `logwright`.

    Raises:
        StepFailed: Dagster did not do it.
    """
    for name in names:
        _start(address, _START_SENSOR, "sensorName", name)


def start_schedules(address: str, names: Iterable[str] = SCHEDULES) -> None:
    """As `start_sensors`."""
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
