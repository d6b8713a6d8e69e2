"""The file with topic settings of a log directory without cluster metadata,
``<log dir>/.logwright-topics.json``: its name, its values and its text. `logwright.config.kept`
reads it.

::

    {"version":1,"topics":{"t":{"id":"<22 characters>","configs":{"cleanup.policy":"compact"}}}}
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

KEPT_FILE: Final = ".logwright-topics.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptTopic:
    """The saved settings of one topic.

    Attributes:
        topic_id: url-safe base64 without padding; None if unknown.
        configs: Kafka's names → values; a missing name was not set.
    """

    topic_id: str | None = None
    configs: Mapping[str, str] = field(default_factory=dict)


def serialize_kept(topics: Mapping[str, KeptTopic]) -> bytes:
    """Return the file's content."""
    written = {
        name: {"id": topic.topic_id, "configs": dict(sorted(topic.configs.items()))}
        for name, topic in sorted(topics.items())
    }
    return json.dumps({"version": 1, "topics": written}, indent=1).encode() + b"\n"
