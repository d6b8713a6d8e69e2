"""Filters of a query that decide what is read.

Exact, and not evaluated by Spark again: those of ``topic``, ``partition`` and ``offset``. Those of
``timestamp`` leave out batches only, and Spark evaluates them for the rows. With the view "latest"
a filter of offsets or timestamps chooses among the latest records, so nothing of it is read less.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final, TypeVar

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

from logwright.spark.kafka_log_options import Pruning

_NEVER_NULL: Final = frozenset({"topic", "partition", "offset", "timestamp", "timestampType"})
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
_EQUAL: Final = (EqualTo, EqualNullSafe)
_FROM: Final[Mapping[type[Filter], int]] = {GreaterThan: 1, GreaterThanOrEqual: 0}
_UNTIL: Final[Mapping[type[Filter], int]] = {LessThan: 0, LessThanOrEqual: 1}
"""What is added to the value of a filter, for the first value that it accepts, and the end."""
_Value = TypeVar("_Value", int, str)


def push_down(filters: Iterable[Filter], *, view: str) -> tuple[Pruning, list[Filter]]:
    """Return what filters, all of which hold, leave to be read; and those that Spark must evaluate.

    Args:
        view: "records" or "latest".
    """
    pruning = Pruning()
    rest = []
    for predicate in filters:
        attribute: tuple[str, ...] = getattr(predicate, "attribute", ())
        column = attribute[0] if len(attribute) == 1 else ""
        if isinstance(predicate, IsNotNull) and column in _NEVER_NULL:
            continue
        known = _COLUMNS[view].get(column)
        pruned, exact = (pruning, False) if known is None else known(pruning, predicate)
        pruning = pruned
        if not exact:
            rest.append(predicate)
    return pruning, rest


def _topics(pruning: Pruning, predicate: Filter) -> tuple[Pruning, bool]:
    chosen = _chosen(predicate, str)
    if chosen is None:
        return pruning, False
    return replace(pruning, topics=_both(pruning.topics, chosen)), True


def _partitions(pruning: Pruning, predicate: Filter) -> tuple[Pruning, bool]:
    chosen = _chosen(predicate, int)
    if chosen is None:
        return pruning, False
    return replace(pruning, partitions=_both(pruning.partitions, chosen)), True


def _chosen(predicate: Filter, kind: type[_Value]) -> frozenset[_Value] | None:
    """Return the values of an equality or a list; None for other filters and other types."""
    if isinstance(predicate, _EQUAL):
        values = [predicate.value]
    elif isinstance(predicate, In):
        values = list(predicate.value)
    else:
        return None
    if any(type(value) is not kind for value in values):
        return None
    return frozenset(values)


def _both(chosen: frozenset[_Value] | None, other: frozenset[_Value]) -> frozenset[_Value]:
    return other if chosen is None else chosen & other


def _offsets(pruning: Pruning, predicate: Filter) -> tuple[Pruning, bool]:
    """Return the pruning with a filter of offsets; a list with gaps is left to Spark too."""
    chosen = _chosen(predicate, int)
    if chosen:
        first, end = min(chosen), max(chosen) + 1
        return _within(pruning, first, end), end - first == len(chosen)
    value = getattr(predicate, "value", None)
    if type(value) is not int:
        return pruning, False
    start = value + _FROM[type(predicate)] if type(predicate) in _FROM else None
    stop = value + _UNTIL[type(predicate)] if type(predicate) in _UNTIL else None
    return _within(pruning, start, stop), (start, stop) != (None, None)


def _within(pruning: Pruning, first: int | None, end: int | None) -> Pruning:
    return replace(
        pruning,
        start_offset=_larger(pruning.start_offset, first),
        end_offset=_smaller(pruning.end_offset, end),
    )


def _timestamps(pruning: Pruning, predicate: Filter) -> tuple[Pruning, bool]:
    """Return the pruning with a filter of timestamps, which are whole milliseconds in a log."""
    values = (
        list(predicate.value) if isinstance(predicate, In) else [getattr(predicate, "value", None)]
    )
    times = [value for value in values if isinstance(value, datetime) and value.tzinfo is not None]
    known = (
        isinstance(predicate, (*_EQUAL, In))
        or type(predicate) in _FROM
        or type(predicate) in _UNTIL
    )
    if not known or not times or len(times) != len(values):
        return pruning, False
    first = last = None
    if type(predicate) not in _UNTIL:
        first = (min(times) - _EPOCH) // _MILLISECOND
    if type(predicate) not in _FROM:
        last = -((_EPOCH - max(times)) // _MILLISECOND)
    limited = replace(
        pruning,
        min_timestamp_ms=_larger(pruning.min_timestamp_ms, first),
        max_timestamp_ms=_smaller(pruning.max_timestamp_ms, last),
    )
    return limited, False


def _larger(bound: int | None, other: int | None) -> int | None:
    return other if bound is None else bound if other is None else max(bound, other)


def _smaller(bound: int | None, other: int | None) -> int | None:
    return other if bound is None else bound if other is None else min(bound, other)


_Apply = Callable[[Pruning, Filter], tuple[Pruning, bool]]
_OF_LATEST: Final[Mapping[str, _Apply]] = {"topic": _topics, "partition": _partitions}
_COLUMNS: Final[Mapping[str, Mapping[str, _Apply]]] = {
    "records": {**_OF_LATEST, "offset": _offsets, "timestamp": _timestamps},
    "latest": _OF_LATEST,
}
"""View → column → what a filter of it does: the pruning with it, and whether that is all of it."""
