"""Random topic configs: valid, at the bounds, out of them, of wrong types, in contradiction; and
where our verdict differs from Kafka's on purpose.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from logwright.config.kafka_version import NEWEST, KafkaVersion
from logwright.config.names import unknown_name
from logwright.config.topic import MIN_SEGMENT_BYTES, TOPIC_NAMES, effective
from logwright.errors import PolicyError
from logwright.units import INT32_MAX, INT64_MAX

Pairs = Mapping[str, str]

_TRIMMED: Final = "".join(map(chr, range(33)))
"""What Kafka strips around a value."""

INT32: Final = (-INT32_MAX - 1, INT32_MAX)
INT64: Final = (-INT64_MAX - 1, INT64_MAX)

NUMBERS: Final[Mapping[str, tuple[tuple[int, int], tuple[int, ...]]]] = MappingProxyType(
    {
        "compression.gzip.level": (INT32, (-1, 0, 1, 9)),
        "compression.lz4.level": (INT32, (1, 17)),
        "compression.zstd.level": (INT32, (-131_072, 22)),
        "delete.retention.ms": (INT64, (0, 86_400_000)),
        "file.delete.delay.ms": (INT64, (0, 60_000)),
        "flush.messages": (INT64, (0, 1)),
        "flush.ms": (INT64, (0,)),
        "index.interval.bytes": (INT32, (0, 4096)),
        "internal.segment.bytes": (INT32, (1, 1000)),
        "local.retention.bytes": (INT64, (-2, 1000)),
        "local.retention.ms": (INT64, (-2, 1000)),
        "max.compaction.lag.ms": (INT64, (1, 1000)),
        "max.decompressed.message.bytes": (INT32, (1, 2_147_483_639)),
        "max.message.bytes": (INT32, (0, 1_048_588)),
        "message.timestamp.after.max.ms": (INT64, (0, 3_600_000)),
        "message.timestamp.before.max.ms": (INT64, (0,)),
        "min.compaction.lag.ms": (INT64, (0, 1000)),
        "min.insync.replicas": (INT32, (1, 2)),
        "remote.copy.lag.bytes": (INT64, (-1, 1000)),
        "remote.copy.lag.ms": (INT64, (-1, 1000)),
        "retention.bytes": (INT64, (-1, 1000)),
        "retention.ms": (INT64, (-1, 1000)),
        "segment.bytes": (INT32, (MIN_SEGMENT_BYTES, 1 << 30)),
        "segment.index.bytes": (INT32, (4, 10_485_760)),
        "segment.jitter.ms": (INT64, (0,)),
        "segment.ms": (INT64, (1, 604_800_000)),
    }
)
"""Name → the range of its type, and bounds or common values; their neighbours are tried too."""

WORDS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "cleanup.policy": (
            "compact",
            "delete",
            "compact,delete",
            "delete , compact",
            "",
            " ",
            "compact,",
            ",",
            ",delete",
            "compact,compact",
            "dedupe",
            "Compact",
            "compact delete",
            "[compact]",
            "none",
            "compact,\u2003delete",
            "compact\t,\x0bdelete",
        ),
        "compression.type": (
            *("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
            *("none", "GZIP", "brotli", "", "gzip,lz4", "gzip "),
        ),
        "message.timestamp.type": (
            *("CreateTime", "LogAppendTime", "createtime", "NoTimestampType", "", " CreateTime"),
        ),
        "min.cleanable.dirty.ratio": (
            *("0", "1", "0.5", "1.0", "-0.0", "5e-1", ".5", "1.", "+0.25", "0.5f", "0.5d", "1D"),
            *("0x1p-1", "0x1.8p-2f", "0x1", "1e-400", "0e99999", "1.0000000001", "1e400", "-1e-9"),
            *("NaN", "-NaN", "Infinity", "nan", "inf", "0,5", "50%", "1_0", "0.5.5", "e5", "."),
        ),
    }
)
"""Name → values that are tried."""

_REPLICAS: Final = (
    *("*", "0:1", "0:1,1:2", "0:1, 1:2", "0:1,0:1", "", ",", "0:1,", " * ", "*,*", "*,", "0:*"),
    *("0", "a:b", "0:1:2", "-1:0", "0:1;1:2", "٣:1"),
)
_BOOLEANS: Final = (
    *("true", "false", "TRUE", "False", " true ", "true\n", "yes", "no", "1", "0", "on", "", "t"),
    *("fal\u017fe", "true\u00a0", "\x01false"),
)
_NO_NUMBERS: Final = (
    *("", " ", "abc", "1.0", "1e3", "0x10", "1_000", "1,000", "1000L", "--1", "+", "-", "null"),
    *("true", "1 2", "٣", "\u2003", "\U0001d7d3"),
)
_AROUND: Final = ("", "", "", "", " ", "\t", "\n", "\u00a0", "\u2003", "\x00")
"""Blanks around a value: Kafka strips all characters up to the space, and no others."""

UNKNOWN: Final = (
    *("cleanup.polcy", "Retention.ms", "retention_ms", " retention.ms", "log.retention.ms", "x"),
    *("message.format.version", "message.downconversion.enable", "log.cleaner.threads"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A value on which our verdict is not Kafka's, on purpose.

    Attributes:
        name: the config.
        example: such a value.
        refused: logwright refuses the value and Kafka does not; if false, the reverse.
        why: the reason.
        holds: whether a value is such a one.
        tiered: only in a cluster with tiered storage.
    """

    name: str
    example: str
    refused: bool
    why: str
    holds: Callable[[str], bool]
    tiered: bool = False


DIFFERENCES: Final = (
    Difference(
        name="segment.bytes",
        example="8192",
        refused=False,
        why="older brokers wrote such logs: it is taken for internal.segment.bytes",
        holds=lambda value: 1 <= _whole(value) < MIN_SEGMENT_BYTES,
    ),
    Difference(
        name="internal.segment.bytes",
        example="0",
        refused=True,
        why="Kafka does not check it, and a log would be rolled before each batch",
        holds=lambda value: _whole(value) < 1,
    ),
    Difference(
        name="min.cleanable.dirty.ratio",
        example="NaN",
        refused=True,
        why="Kafka's comparisons with it are never true, and the log would never be compacted",
        holds=lambda value: value.strip(_TRIMMED).lstrip("+-") == "NaN",
    ),
    Difference(
        name="remote.storage.enable",
        example="true",
        refused=True,
        why="the segments of a topic with tiered storage are not all in the log directory",
        holds=lambda value: value.strip(_TRIMMED).lower() == "true",
        tiered=True,
    ),
)
"""All values on which we differ from Kafka on purpose."""


def differences(pairs: Pairs, *, tiered: bool) -> list[Difference]:
    """The differences that these pairs have."""
    return [
        difference
        for difference in DIFFERENCES
        if difference.name in pairs
        and difference.holds(pairs[difference.name])
        and (tiered or not difference.tiered)
    ]


def _whole(text: str) -> int:
    """A number; one that holds no difference if it is none."""
    try:
        return int(text.strip(_TRIMMED))
    except ValueError:
        return INT32_MAX


def our_verdict(pairs: Pairs, kafka: KafkaVersion = NEWEST) -> str | None:
    """What we say against the configs of a topic of this Kafka, None if nothing."""
    for name in pairs:
        if name not in TOPIC_NAMES:
            return unknown_name(name, TOPIC_NAMES)
    try:
        effective(pairs, kafka)
    except PolicyError as error:
        return str(error)
    return None


def random_configs(seed: int, count: int) -> Iterator[dict[str, str]]:
    """As many sets of pairs; all follows from the seed."""
    for number in range(count):
        yield _pairs(random.Random(f"{seed}:{number}"))


def _pairs(source: random.Random) -> dict[str, str]:
    """One to six configs, each mostly valid; some sets are made to fit or to contradict."""
    kind = source.random()
    if kind < 0.15:
        return _lags(source)
    if kind < 0.35:
        return _tiered(source)
    names = source.sample(sorted(TOPIC_NAMES), source.randint(1, 6))
    wrong = source.choice([*names, *[""] * len(names)])
    pairs = {name: _value(source, name, valid=name != wrong) for name in names}
    if source.random() < 0.03:
        pairs[source.choice(UNKNOWN)] = "1"
    return pairs


def _lags(source: random.Random) -> dict[str, str]:
    """The least lag near the greatest."""
    most = source.choice((1, 1000, INT64_MAX, source.randrange(1, INT64_MAX)))
    least = most + source.choice((-1, 0, 1, 1000))
    pairs = {"min.compaction.lag.ms": str(least), "max.compaction.lag.ms": str(most)}
    if source.random() < 0.2:
        del pairs[source.choice(sorted(pairs))]
    return pairs | {"cleanup.policy": source.choice(("compact", "delete", "compact,delete"))}


def _tiered(source: random.Random) -> dict[str, str]:
    """Local retention near the retention, with and without tiered storage."""
    pairs = {"remote.storage.enable": source.choice(("true", "true", "false"))}
    pairs["cleanup.policy"] = source.choice(("delete", "delete", "delete", "compact", ""))
    for unit in ("ms", "bytes"):
        whole = source.choice((-1, 0, 1000))
        local = source.choice((-2, -1, whole - 1, whole, whole + 1))
        pairs |= {f"retention.{unit}": str(whole), f"local.retention.{unit}": str(local)}
    for name in ("remote.log.copy.disable", "remote.log.delete.on.disable"):
        pairs[name] = source.choice(("true", "false", "false"))
    kept = source.randint(1, len(pairs))
    return dict(source.sample(sorted(pairs.items()), kept))


def _value(source: random.Random, name: str, *, valid: bool) -> str:
    """A value, of a valid form and range if so wanted and easily known, else any."""
    if name in NUMBERS:
        return _number(source, name, valid=valid)
    if name in WORDS:
        text = WORDS[name][0] if valid else source.choice(WORDS[name])
    elif name.endswith("throttled.replicas"):
        text = _REPLICAS[0] if valid else source.choice(_REPLICAS)
    else:
        text = _BOOLEANS[0] if valid else source.choice(_BOOLEANS)
    return text if valid else _blanks(source, text)


def _number(source: random.Random, name: str, *, valid: bool) -> str:
    limits, common = NUMBERS[name]
    if valid:
        return str(common[-1])
    kind = source.random()
    if kind < 0.15:
        return _blanks(source, source.choice(_NO_NUMBERS))
    if kind < 0.45:
        near = source.choice(limits)
    elif kind < 0.85:
        near = source.choice(common)
    else:
        return str(source.randint(*limits))
    number = near + source.choice((-1, 0, 1))
    text = source.choice(("{}", "{}", "{}", "{:+}", "{:05}", "{:060}")).format(number)
    return _blanks(source, text)


def _blanks(source: random.Random, text: str) -> str:
    return source.choice(_AROUND) + text + source.choice(_AROUND)


def coverage(pairs: Pairs, refused: str | None) -> Counter[str]:
    """What a set of pairs has tried."""
    verdict = "accepted" if refused is None else "refused"
    return Counter([verdict, *(f"{verdict} {name}" for name in pairs if name in TOPIC_NAMES)])
