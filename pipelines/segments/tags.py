"""The tags of a run that a sensor requests, by which the page of runs can be searched. Pure."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from logwright.pipelines.segments.due import NEVER_MS, Reading

SHOWN_TOPICS: Final = 10
"""Maximum topics in a tag; a tag is an index entry of Dagster's storage."""
ROLL: Final = "due to roll"


def run_tags(
    logs: Sequence[str], readings: Mapping[str, Reading], *, now_ms: int
) -> dict[str, str]:
    """Return the tags of a sweep.

    Args:
        logs: keys of its logs, most urgent first; at least one.
        readings: key → reading of each of them.
        now_ms: the time.
    """
    topics = list(dict.fromkeys(map(topic_of, logs)))
    more = ["…"] if len(topics) > SHOWN_TOPICS else []
    deadlines = [readings[key].deadline_ms for key in logs if readings[key].deadline_ms > NEVER_MS]
    tags = {
        "logwright/logs": str(len(logs)),
        "logwright/most_urgent": logs[0],
        "logwright/topics": ",".join([*topics[:SHOWN_TOPICS], *more]),
        "logwright/reason": reason_of(readings[logs[0]], now_ms),
    }
    if deadlines:
        first = datetime.fromtimestamp(min(deadlines) / 1000, tz=UTC)
        tags["logwright/deadline"] = f"{first:%FT%TZ}"
    return tags


def topic_of(key: str) -> str:
    """Return the topic of a log's key, which may begin with the name of its directory."""
    return key.rpartition(":")[2].rpartition("-")[0]


def reason_of(reading: Reading, now_ms: int) -> str:
    """Return in a word or a config's name why a log is due."""
    if reading.unclean:
        return "recovery"
    if NEVER_MS < reading.deadline_ms <= now_ms:
        return "max.compaction.lag.ms"
    if reading.reason.startswith(ROLL):
        return "roll"
    return "min.cleanable.dirty.ratio" if reading.due else "deadline ahead"
