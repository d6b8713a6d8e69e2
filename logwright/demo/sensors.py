"""Switches sensors on, as an operator does on Dagster's page."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterable
from typing import Final

from logwright.errors import StepFailed

SENSORS: Final = ("due_logs", "purge_due")
"""Off at first in any instance; `discovery` and `failed_runs` are always on."""

ANSWER_SECONDS: Final = 60

_START: Final = """mutation ($sensor: SensorSelector!) { startSensor(sensorSelector: $sensor) {
  __typename ... on Sensor { sensorState { status } } ... on PythonError { message } } }"""


def start_sensors(address: str, names: Iterable[str] = SENSORS) -> None:
    """Effects: the daemon evaluates these from now on.

    Args:
        address: of the running page.
        names: of sensors of the code location `logwright`.

    Raises:
        StepFailed: Dagster did not do it.
    """
    for name in names:
        sensor = {
            "repositoryLocationName": "logwright",
            "repositoryName": "__repository__",
            "sensorName": name,
        }
        body = json.dumps({"query": _START, "variables": {"sensor": sensor}}).encode()
        request = urllib.request.Request(  # noqa: S310 -- http
            f"{address}/graphql", body, {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=ANSWER_SECONDS) as response:  # noqa: S310
            answer = json.load(response)
        started = (answer.get("data") or {}).get("startSensor", {})
        if started.get("sensorState", {}).get("status") != "RUNNING":
            raise StepFailed(f"Dagster did not start the sensor {name}: {json.dumps(answer)[:500]}")
