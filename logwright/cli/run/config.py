"""``logwright config``: the effective settings of topics, and where each comes from."""

from __future__ import annotations

from typing import Final

from logwright.cli.request import Request
from logwright.cli.selection import metadata_sentence
from logwright.config.resolved import disagreements, resolve

_MOST_SHOWN: Final = 60
"""Maximum length of a value in a table, in characters."""


def run(request: Request, *, topics: tuple[str, ...], everything: bool) -> None:
    """Run the command."""
    sources, output = request.sources(), request.output
    present = {partition.topic for partition in request.partitions()}
    used = sources.metadata
    origin = "settings without cluster metadata" if used is None else metadata_sentence(used)
    output.text(f"{origin[0].upper()}{origin[1:]}.")
    output.text(sources.kafka.sentence)
    for topic in sorted(topics or present):
        settings = resolve(sources, topic)
        output.result(
            ["", topic],
            topic=topic,
            kafkaVersion=sources.kafka.version.name,
            kafkaVersionFrom=sources.kafka.sentence,
            configs={
                name: {"value": setting.value, "origin": setting.origin, "where": setting.where}
                for name, setting in settings.items()
            },
        )
        output.table(
            ("name", "value", "origin", "where"),
            [
                (name, _short(setting.value), setting.origin, setting.where)
                for name, setting in settings.items()
                if everything or setting.where != "Kafka's default"
            ],
        )
        for entry in disagreements(sources, topic):
            output.text(f"{topic}: {entry.sentence}")


def _short(value: str) -> str:
    if len(value) > _MOST_SHOWN:
        return f"{value[:_MOST_SHOWN]}…"
    return value or "(empty)"
