"""``logwright config``: the effective settings of topics, and where each comes from."""

from __future__ import annotations

from typing import Final

from logwright.cli.request import Request
from logwright.cli.selection import said_metadata
from logwright.config.resolved import Setting, disagreements, resolve

_MOST_SHOWN: Final = 60
"""Maximum length of a value in a table, in characters."""


def run(request: Request, topics: tuple[str, ...], *, everything: bool) -> None:
    """Run the command."""
    sources = request.sources()
    present = {one.topic for one in request.partitions()}
    used = sources.metadata
    said = "Settings without cluster metadata" if used is None else said_metadata(used)
    request.output.text(f"{said[0].upper()}{said[1:]}.")
    request.output.text(sources.kafka.sentence)
    for topic in sorted(topics or present):
        found = resolve(sources, topic)
        request.output.json_object(
            {
                "topic": topic,
                "kafkaVersion": sources.kafka.version.name,
                "kafkaVersionFrom": sources.kafka.sentence,
                "configs": {
                    name: {"value": one.value, "origin": one.origin, "where": one.where}
                    for name, one in found.items()
                },
            }
        )
        request.output.text()
        request.output.text(topic)
        shown = {
            name: one for name, one in found.items() if everything or one.where != "Kafka's default"
        }
        header = ("name", "value", "origin", "where")
        request.output.table(header, [_row(name, one) for name, one in shown.items()])
        for one in disagreements(sources, topic):
            request.output.text(f"{topic}: {one.sentence}")


def _row(name: str, one: Setting) -> tuple[str, str, str, str]:
    value = one.value if len(one.value) <= _MOST_SHOWN else f"{one.value[:_MOST_SHOWN]}…"
    return name, value or "(empty)", one.origin, one.where
