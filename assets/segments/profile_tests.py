"""The expectations of the topics' entries, for the profiles of the logs that each is about."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from logwright.config.topic_tests import Expectation

if TYPE_CHECKING:
    import pandas as pd

    from logwright.config.policies import Policies
    from logwright.config.policy_models import Severity


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryTests:
    """The expectations of one entry of ``topics``.

    Attributes:
        column: of the profiles, whether the entry is about a log.
        label: the entry's name or pattern.
        keys: of the logs that it is about.
    """

    column: str
    label: str
    tests: tuple[Expectation, ...]
    keys: frozenset[str]


def entry_tests(policies: Policies, topics: Mapping[str, str]) -> tuple[EntryTests, ...]:
    """Return the entries with expectations that are about one of these logs.

    Args:
        policies: the entries of all that match a topic are asked of it.
        topics: log key → topic.
    """
    tests_of_entries = []
    for number, entry in enumerate(policies.topics):
        tests = tuple(test for test in entry.tests if isinstance(test, Expectation))
        keys = frozenset(key for key, topic in topics.items() if tests and entry.applies_to(topic))
        if keys:
            label = (
                f"name {entry.labels.name}"
                if entry.labels.name is not None
                else f"pattern {entry.labels.pattern}"
            )
            tests_of_entries.append(
                EntryTests(column=f"entry_{number}", label=label, tests=tests, keys=keys)
            )
    return tuple(tests_of_entries)


def with_entries(profiles: pd.DataFrame, entries: Iterable[EntryTests]) -> pd.DataFrame:
    """Return the profiles with a column for each entry: 1 if it is about the log, else 0."""
    return profiles.assign(
        **{
            entry.column: profiles["topic_partition"].isin(entry.keys).astype("int64")
            for entry in entries
        }
    )


def observed(row: Mapping[Hashable, Any], test: Expectation) -> str:
    """Return the values of a log's profile that an expectation is about."""
    if len(test.columns) == 1:
        return _number(row[test.columns[0]])
    return ", ".join(f"{column} {_number(row[column])}" for column in test.columns)


def severity_of(test: Expectation, of_topic: Severity) -> Severity:
    """Return the severity of a failure."""
    return test.severity or of_topic


def _number(value: object) -> str:
    if not isinstance(value, float):
        return str(value)
    return "nothing" if math.isnan(value) else f"{value:.6g}"
