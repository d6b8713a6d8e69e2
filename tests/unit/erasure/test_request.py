"""Topics of requests: legal names, and patterns that are matched in linear time."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logwright.deletion.commit import delete_log
from logwright.erasure.request import applies_to, topics_problem
from logwright.erasure.topics import match_nothing, topics_of
from logwright.format.names import DELETED_LOGS, TopicPartition
from logwright.units import TimestampMs
from tests.log_builder import LogBuilder

NOT_A_NAME = "is neither a topic nor has the prefix regex:"
NOT_RE2 = "is not a regular expression of RE2, which are those that match in linear time"


@pytest.mark.parametrize(
    ("topics", "problem"),
    [
        ("customers", None),
        ("a.B_c-9", None),
        ("regex:customers.*", None),
        ("regex:(a|b)+c?[d-f]{2}", None),
        ("regex:(a+)+", None),
        ("customers.*", NOT_A_NAME),
        ("customers ", NOT_A_NAME),
        (" customers", NOT_A_NAME),
        ("customers\n", NOT_A_NAME),
        ("a,b", NOT_A_NAME),
        ("", NOT_A_NAME),
        (".", NOT_A_NAME),
        ("..", NOT_A_NAME),
        ("a" * 250, NOT_A_NAME),
        ("å", NOT_A_NAME),
        ("REGEX:a", NOT_A_NAME),
        ("regex:", "has an empty pattern"),
        ("regex:[", NOT_RE2),
        ("regex:(a)\\1", NOT_RE2),
        ("regex:(?=a)a", NOT_RE2),
        ("regex:a{1001}", NOT_RE2),
        ("regex:((a{100}){100}){100}", NOT_RE2),
        ("regex:\ud800", NOT_RE2),
        ("regex:" + "a" * 995, "is longer than 1000 characters"),
    ],
)
def test_what_a_request_may_have_as_topics(topics: str, problem: str | None) -> None:
    """A topic's legal name, or a pattern of RE2 that is not empty."""
    assert problem == topics_problem(topics)


def test_a_pattern_that_takes_exponential_time_elsewhere() -> None:
    """Nested repetitions are matched in no time."""
    began = time.process_time()
    assert not applies_to("regex:(a+)+", "a" * 200 + "-b")
    assert not applies_to("regex:(a|aa|a?)*b", "a" * 200)
    assert time.process_time() - began < 1


PATTERNS = st.recursive(
    st.sampled_from(["a", "b", ".", "[ab]", "[^a]", "-", "\\.", "\\d", "\\w"]),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda two: f"(?:{two[0]}|{two[1]})"),
        st.tuples(inner, st.sampled_from("*+?")).map(lambda two: f"(?:{two[0]}){two[1]}"),
    ),
    max_leaves=6,
)


@given(PATTERNS, st.text("ab-.0_", min_size=1, max_size=6))
def test_patterns_mean_what_they_mean_in_python(pattern: str, topic: str) -> None:
    """RE2's syntax is a part of Python's, and whole names match."""
    assert topics_problem(f"regex:{pattern}") is None
    expected = re.fullmatch(pattern, topic) is not None
    assert expected == applies_to(f"regex:{pattern}", topic)


def test_topics_that_match_nothing(tmp_path: Path) -> None:
    """Directories of logs, marked ones and the metadata say which topics there are."""
    for name in ("customers-0", "orders-1"):
        LogBuilder(tmp_path / "logs", name).write()
    (tmp_path / "logs" / f"old-0.{'0' * 32}-delete").mkdir()
    (tmp_path / "logs" / "backup").mkdir()
    there = topics_of(tmp_path / "logs")
    assert frozenset(("customers", "orders", "old")) == there
    topics = ("customers", "custmers", "regex:cust", "regex:cust.*", "old", "regex:.*", "backup")
    assert ("backup", "custmers", "regex:cust") == match_nothing(topics, there)
    assert () == match_nothing(("regex:.*",), ())


def test_topics_of_deleted_logs_are_on_record(tmp_path: Path) -> None:
    """A directory's name shortens a long one, and says nothing without the record."""
    long = "t" * 240
    log = LogBuilder(tmp_path, f"{long}-0").write()
    deletion = delete_log(tmp_path, TopicPartition(long, 0), now_ms=TimestampMs(1))
    assert not log.directory.exists()
    assert 255 == len(deletion.directory)
    assert frozenset([long]) == topics_of(tmp_path)
    (tmp_path / DELETED_LOGS).unlink()
    assert frozenset() == topics_of(tmp_path)
