"""Types and options of the command line that several commands share."""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Callable, Iterable
from datetime import tzinfo
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Final, Literal

import click

from logwright.config.kafka_version import BY_NAME
from logwright.format.names import TopicPartition
from logwright.times import duration_ms, time_ms

if TYPE_CHECKING:
    from logwright.place.model import Place

POLICIES_VARIABLE: Final = "LOGWRIGHT_POLICIES"
"""The platform and the command line read the same policies."""
Running = Literal["bounded", "exact", "whole"]
"""How a command reads logs that a broker has open: up to the high watermark; the same, good for
latest states; or all files, with what is not committed (`logwright.running.place.Session`)."""


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


class Time(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.4
    """ISO 8601, or ms since the epoch: the value is in ms.

    Args:
        zone: of a time without one; None: it must have one.
    """

    name = "TIME"

    def __init__(self, zone: tzinfo | None = None) -> None:
        self._zone = zone

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        """Return the time in ms since the epoch."""
        found_ms = time_ms(value if isinstance(value, int) else str(value), zone=self._zone)
        if found_ms is None:
            zoned = "" if self._zone else " with a time zone"
            self.fail(f"{value!r} is neither ms since the epoch nor ISO 8601{zoned}", param, ctx)
        return found_ms


class Duration(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.4
    """A duration such as ``90s``, ``30m``, ``2h`` or ``7d``, converted to ms.

    Args:
        bare_ms: a number alone is in ms.
    """

    name = "DURATION"

    def __init__(self, *, bare_ms: bool = False) -> None:
        self._bare_ms = bare_ms

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        """Return the duration in ms."""
        text = str(value)
        found_ms = duration_ms(f"{text}ms" if self._bare_ms and text.isdecimal() else text)
        if found_ms is None:
            self.fail(f"{value!r} is not a duration such as 90s, 30m, 2h or 7d", param, ctx)
        return found_ms


class Size(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.4
    """A number of bytes such as ``4096``, ``500MiB`` or ``20GiB``."""

    name = "SIZE"
    _UNITS = ("B", "KiB", "MiB", "GiB", "TiB")

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        """Return the bytes."""
        matched = re.fullmatch(r"([0-9]{1,15})(?:\.([0-9]))?([KMGT]iB|B)?", str(value), re.ASCII)
        if matched is None:
            self.fail(f"{value!r} is not a size such as 4096, 500MiB or 20GiB", param, ctx)
        tenths = int(matched[1]) * 10 + int(matched[2] or 0)
        return tenths * (1 << 10 * self._UNITS.index(matched[3] or "B")) // 10


class LateChoice(click.Choice):  # type: ignore[type-arg]  # generic since click 8.4
    """A choice of names of a module that is imported when the option is used or explained."""

    def __init__(self, module: str, names: Callable[[ModuleType], Iterable[str]]) -> None:
        self.case_sensitive = True  # the base would set the choices too
        self._module = module
        self._names = names

    @property
    def choices(self) -> tuple[str, ...]:  # type: ignore[override]  # click reads it only
        """All names."""
        return tuple(self._names(importlib.import_module(self._module)))


class LogDir(click.Path):
    """A log directory, of this machine or in another place. click does not check it: one that is
    missing or unreadable is not an error of usage.
    """

    def convert(  # type: ignore[override]  # the base gives a path
        self,
        value: str | os.PathLike[str],
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> Place:
        """Return the place."""
        from logwright.place.named import place_of  # noqa: PLC0415 -- a place needs NumPy

        del param, ctx
        return place_of(os.fspath(value))


class TablePath(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.4
    """A path of this machine, or the URL of a prefix in a bucket."""

    name = "path"

    def convert(
        self,
        value: str | os.PathLike[str],
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> Path | str:
        """Return the path, or the URL as a text."""
        from logwright.bucket.store import is_in_bucket, local_path  # noqa: PLC0415 -- a help needs no engine

        del param, ctx
        text = os.fspath(value)
        return text if is_in_bucket(text) else local_path(text)


class TableFiles(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.4
    """The files of a table, in a directory of this machine or below a prefix of a bucket."""

    name = "path"

    def convert(
        self,
        value: str | os.PathLike[str],
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> Place:
        """Return the place."""
        from logwright.place.named import files_of  # noqa: PLC0415 -- a place needs NumPy

        del param, ctx
        return files_of(os.fspath(value))


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

output_option: Final = click.option(
    "--output",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Output format; json prints one object per line.",
)

log_format_option: Final = click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    envvar="LOGWRIGHT_LOG_FORMAT",
    show_envvar=True,
    help="Format of messages and log lines on stderr; json has info lines too.",
)
