"""Which objects of a bucket are a segment, by their keys. Pure.

Ids are of Kafka's base64, which has ``-`` and ``_``: they are cut off by their length.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from logwright.format.names import TopicPartition
from logwright.tier import local_storage, plugin
from logwright.tier.encryption import PrivateKey
from logwright.tier.local_storage import LocalSegment
from logwright.tier.model import RemoteSegment, SegmentId
from logwright.tier.objects import Objects, ObjectStat
from logwright.units import INT64_MAX

_ID: Final = "[A-Za-z0-9_-]{22}"
_TOPIC: Final = "[a-zA-Z0-9._-]{1,249}"
_SEGMENT: Final = rf"(?P<base>[0-9]{{1,20}})-(?P<id>{_ID})(?P<suffix>\.[a-z_-]+)"
_OF_PLUGIN: Final = re.compile(
    rf"(?:.*/)?(?P<topic>{_TOPIC})-(?P<topic_id>{_ID})/(?P<partition>[0-9]{{1,10}})/{_SEGMENT}",
    re.DOTALL,
)
_OF_LOCAL: Final = re.compile(
    rf"(?:.*/)?(?P<topic>{_TOPIC})-(?P<partition>[0-9]{{1,10}})-(?P<topic_id>{_ID})/{_SEGMENT}",
    re.DOTALL,
)
_Make = Callable[[Objects, SegmentId, Mapping[str, ObjectStat], PrivateKey | None], RemoteSegment]


def _local(
    bucket: Objects,
    segment: SegmentId,
    objects: Mapping[str, ObjectStat],
    _: PrivateKey | None,
) -> RemoteSegment:
    return LocalSegment(bucket, segment, objects)


class Layout(NamedTuple):
    """A layout.

    Attributes:
        pattern: of the key of an object of a segment.
        suffixes: of a segment's objects.
    """

    pattern: re.Pattern[str]
    suffixes: tuple[str, ...]
    make: _Make


LAYOUTS: Final = (
    Layout(_OF_PLUGIN, plugin.OBJECTS, plugin.PluginSegment),
    Layout(_OF_LOCAL, local_storage.OBJECTS, _local),
)
"""All layouts. No key is of two: the directory of an object is a number in one only."""


class Found(NamedTuple):
    """What a bucket has.

    Attributes:
        segments: sorted by id; some may lack objects.
        others: keys of objects that are of no segment.
    """

    segments: tuple[RemoteSegment, ...]
    others: tuple[str, ...]


def find_segments(bucket: Objects, key: PrivateKey | None) -> Found:
    """Return the segments of a bucket. Effects: lists it; errors: see `Objects.listing`."""
    parts: dict[tuple[str, SegmentId], tuple[_Make, dict[str, ObjectStat]]] = {}
    others: list[str] = []
    for name, stat in bucket.listing().items():
        parsed = _parse(name)
        if parsed is None:
            others.append(name)
            continue
        segment, suffix, make = parsed
        stem = name.removesuffix(suffix)
        parts.setdefault((stem, segment), (make, {}))[1][suffix] = stat
    made = (make(bucket, segment, objects, key) for (_, segment), (make, objects) in parts.items())
    return Found(tuple(sorted(made, key=lambda segment: segment.id)), tuple(others))


def _parse(key: str) -> tuple[SegmentId, str, _Make] | None:
    """Return the segment of an object, its suffix, and what makes the segment."""
    for layout in LAYOUTS:
        match = layout.pattern.fullmatch(key)
        if match is None or match["suffix"] not in layout.suffixes:
            continue
        base = int(match["base"])
        if base <= INT64_MAX:
            partition = TopicPartition(match["topic"], int(match["partition"]))
            segment = SegmentId(partition, match["topic_id"], base, match["id"])
            return segment, match["suffix"], layout.make
    return None


def by_log(
    segments: Iterable[RemoteSegment],
) -> dict[tuple[TopicPartition, str], list[RemoteSegment]]:
    """Return the segments of each log, by partition and topic id. Pure."""
    logs: dict[tuple[TopicPartition, str], list[RemoteSegment]] = {}
    for segment in segments:
        logs.setdefault((segment.id.partition, segment.id.topic_id), []).append(segment)
    return logs


def keys_of(segments: Iterable[RemoteSegment]) -> Iterator[str]:
    """Yield the keys of all objects of some segments. Pure."""
    for segment in segments:
        yield from (stat.key for stat in segment.objects.values())
