"""The history of a seed."""

from __future__ import annotations

import random
from typing import Final, Protocol

from tests.evolution.avro_histories import AvroSubject
from tests.evolution.avro_types import Draw
from tests.evolution.history import MODES, Entry, History, Sent, Version
from tests.evolution.json_histories import JsonSubject
from tests.evolution.protobuf_histories import ProtobufSubject

FIRST: Final = 11
"""The id of the first schema of the values."""
_KEYS: Final = 16
_FORMATS: Final = ("parquet",) * 9 + ("delta",)


class Subject(Protocol):
    """The versions of a subject, and records of them.

    Attributes:
        versions: in the order of their ids.
        more: other files of the directory of schemas.
    """

    versions: tuple[Version, ...]
    more: dict[str, str]

    def sent(self, number: int) -> Sent:
        """A random datum of a version."""


_SUBJECTS: Final = {"AVRO": AvroSubject, "PROTOBUF": ProtobufSubject, "JSON": JsonSubject}
KINDS: Final = tuple(_SUBJECTS)


def history_of(seed: int, kind: str | None = None) -> History:
    """Draw it. `kind`: of the schemas; None: it follows from the seed."""
    chosen = kind or KINDS[seed % len(KINDS)]
    draw = Draw(random.Random(seed))
    mode = draw.random.choice(MODES)
    has_keys = draw.chance(0.4)
    keys = _SUBJECTS[chosen](draw, 1, draw.random.randint(1, 2), mode) if has_keys else None
    values = _SUBJECTS[chosen](draw, FIRST, draw.random.randint(2, 5), mode)
    entries = _entries(draw, keys, values)
    return History(
        seed=seed,
        kind=chosen,
        mode=mode,
        keys=keys.versions if keys else (),
        values=values.versions,
        entries=entries,
        cuts=_cuts(draw, entries),
        form=draw.random.choice(_FORMATS),
        schema_changes=draw.random.choice(["grow", "grow", "follow", "fixed"]),
        more={**values.more, **(keys.more if keys else {})},
    )


def _entries(draw: Draw, keys: Subject | None, values: Subject) -> tuple[Entry, ...]:
    """Records: most of the version that is the newest at their time, few of one before or after."""
    partitions = draw.random.randint(1, 3)
    known: list[tuple[int, Sent | str]] = []
    for number in range(_KEYS):
        key: Sent | str = f"key-{number:02}"
        if keys is not None:
            key = keys.sent(draw.random.choice(keys.versions).number)
        known.append((draw.random.randrange(partitions), key))
    entries = []
    numbers = [each.number for each in values.versions]
    for index, number in enumerate(numbers):
        for _ in range(draw.random.randint(3, 8)):
            used = number
            if draw.chance(0.25):
                used = numbers[max(0, min(len(numbers) - 1, index + draw.random.choice([-1, 1])))]
            (partition, key) = draw.random.choice(known)
            gone = bool(entries) and draw.chance(0.1)
            entries.append(Entry(partition, key, None if gone else values.sent(used)))
    return tuple(entries)


def _cuts(draw: Draw, entries: tuple[Entry, ...]) -> tuple[int, ...]:
    count = min(draw.random.randint(1, 4), len(entries))
    chosen = draw.random.sample(range(1, len(entries)), count - 1)
    return (*sorted(chosen), len(entries))
