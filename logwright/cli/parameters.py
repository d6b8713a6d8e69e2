"""Types and options of the command line that several commands share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import click

from logwright.config.kafka_version import BY_NAME
from logwright.format.names import TopicPartition


class Pair(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.4
    """``KEY=VALUE``; the value may contain commas and equals signs."""

    name = "KEY=VALUE"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        """Return name and value."""
        key, equals, text = str(value).partition("=")
        if not equals or not key.strip():
            self.fail(f"{value!r} is not KEY=VALUE", param, ctx)
        return key.strip(), text


class LateChoice(click.Choice):  # type: ignore[type-arg]  # generic since click 8.4
    """A choice of names that are imported when the option is used or explained."""

    def __init__(self, names: Callable[[], Iterable[str]]) -> None:  # the base sets the choices
        self.case_sensitive = True
        self._names = names

    @property
    def choices(self) -> tuple[str, ...]:  # type: ignore[override]  # click reads it only
        """All names."""
        return tuple(self._names())


class Partition(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.4
    """``TOPIC-N``, also with the trailing slash of a shell's completion."""

    name = "TOPIC-N"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> TopicPartition:
        """Return the partition."""
        partition = TopicPartition.parse(str(value).rstrip("/"))
        if partition is None:
            self.fail(f"{value!r} is not a partition: expected TOPIC-N, such as t-0", param, ctx)
        return partition


kafka_version_option: Final = click.option(
    "--kafka-version",
    type=click.Choice(list(BY_NAME)),
    help="The Kafka that the brokers run [default: as they registered in the metadata].",
)
