"""The countdown of deadlines searches the tables of the policies."""

from __future__ import annotations

from pathlib import Path

import pytest

from logwright.assets.erasure.table_search import search_tables
from logwright.config.policies import load_policies
from logwright.erasure.find.model import Finding
from logwright.erasure.keys import KeySet
from logwright.erasure.request import Request
from tests.e2e.command import call
from tests.found import SECRET
from tests.log_builder import LogBuilder

NOW_MS = 1_767_268_800_000
KEEP_MS = 1_000
KEY = b"alice"


def asked(topics: str = "t") -> KeySet:
    request = Request(
        id="r", topics=topics, hmac=SECRET.hmac(KEY), filter=None, received_at_ms=0, deadline_ms=0
    )
    return KeySet.of(SECRET, requests=[request])


def in_log(gone_by_ms: int | None) -> Finding:
    return Finding(
        request=0,
        topic="t",
        partition=0,
        path="t-0/00000000000000000000.log",
        place="segment",
        offset=0,
        batch_position=0,
        kind="live",
        rule="retention.ms",
        gone_by_ms=gone_by_ms,
    )


@pytest.fixture(name="policies")
def _policies(tmp_path: Path) -> Path:
    """A table of topic t that has the key, and policies that name it."""
    builder = LogBuilder(tmp_path / "logs")
    builder.segment(0).batch(0, [("alice", "1"), ("bob", "1")])
    builder.write()
    words = ("--to", tmp_path / "table", "--format", "delta", "--key", "string")
    assert 0 == call("latest", tmp_path / "logs", "t", *words, "--value", "string").status
    write(tmp_path, tmp_path / "table")
    return tmp_path / "policies"


def write(tmp_path: Path, table: Path) -> None:
    (tmp_path / "policies").mkdir(exist_ok=True)
    (tmp_path / "policies/topics.yml").write_text(
        "version: 1\ntopics:\n  - name: t\n    table: {format: delta, key: string, value: string,"
        f" keep_versions_ms: {KEEP_MS}, path: {table}}}\n"
    )


@pytest.mark.parametrize("gone_by_ms", [None, NOW_MS + 5])
def test_a_row_goes_after_the_record(policies: Path, gone_by_ms: int | None) -> None:
    """Once the log has lost the record, an update takes the row, and its versions go by age."""
    searched = search_tables(
        load_policies(policies), asked(), [[in_log(gone_by_ms)]], now_ms=NOW_MS
    )
    assert [] == searched.unsearched
    (findings,) = searched.findings.values()
    assert findings
    assert {"t"} == {one.topic for one in findings}
    expected = None if gone_by_ms is None else gone_by_ms + 2 * KEEP_MS
    assert {expected} == {one.gone_by_ms for one in findings}


def test_what_was_not_searched(policies: Path, tmp_path: Path) -> None:
    """A table that is not there, or in which a file cannot be read, is named by its topic."""
    (tmp_path / "table/strange.bin").write_bytes(b"?" * 100)
    assert ["t"] == search_tables(load_policies(policies), asked(), [], now_ms=NOW_MS).unsearched
    write(tmp_path, tmp_path / "elsewhere")
    searched = search_tables(load_policies(policies), asked(), [], now_ms=NOW_MS)
    assert (["t"], {}) == (searched.unsearched, searched.findings)


def test_tables_of_other_topics(policies: Path) -> None:
    """A table of a topic that no request is about is not searched, and concerns none."""
    searched = search_tables(load_policies(policies), asked("other"), [], now_ms=NOW_MS)
    assert ([], {}) == (searched.unsearched, searched.findings)
