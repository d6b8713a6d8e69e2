"""What requests and the events of runs say, as plain values."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import dagster as dg

from logwright.assets.lib.partitions import SEGMENT_SET
from tests.platform_sequences.world import Quarantine
from tests.shown import values


class Difference(AssertionError):
    """The platform did not do what it promises."""


def require(what: bool, sentence: object) -> None:
    """Raise a `Difference` with this sentence, unless it holds."""
    if not what:
        raise Difference(sentence)


def quarantine_in(state: dict[str, Any]) -> Quarantine | None:
    """The quarantine in an entry of the state file."""
    raw = state.get("quarantine")
    return None if raw is None else Quarantine(raw["failures"], raw["retryAtMs"])


def logs_of(request: dg.RunRequest) -> list[str]:
    """The keys of the logs that a request names."""
    (op,) = request.run_config["ops"].values()
    logs: list[str] = op["config"]["logs"]
    return logs


def materializations(events: Iterable[dg.EventLogEntry]) -> dict[str, dict[str, Any]]:
    """Log → the metadata of its segment set's materialization that says what changed."""
    made: dict[str, dict[str, Any]] = {}
    for entry in events:
        event = entry.asset_materialization
        if event is not None and event.asset_key == SEGMENT_SET and event.partition is not None:
            metadata = values(event.metadata)
            if metadata.get("outcome") != "nothing was due":
                require(event.partition not in made, f"{event.partition} is materialized twice")
                made[event.partition] = metadata
    return made


def passed(events: Iterable[dg.EventLogEntry]) -> dict[str, set[str]]:
    """Log → the checks of its segment set that it passed; nothing → those that some log failed."""
    passed: dict[str, set[str]] = {}
    for entry in events:
        event = entry.dagster_event
        if event is None or event.event_type is not dg.DagsterEventType.ASSET_CHECK_EVALUATION:
            continue
        evaluation = event.asset_check_evaluation_data
        if not evaluation.passed:
            passed.setdefault("", set()).add(evaluation.check_name)
        elif evaluation.asset_key == SEGMENT_SET and evaluation.partition is not None:
            passed.setdefault(evaluation.partition, set()).add(evaluation.check_name)
        elif evaluation.asset_key == SEGMENT_SET:
            rows = evaluation.metadata["logs"]
            assert isinstance(rows, dg.TableMetadataValue)
            for row in rows.records:
                if row.data["result"] == "passed":
                    passed.setdefault(str(row.data["log"]), set()).add(evaluation.check_name)
    return passed
