"""``archive:`` of a topic's entry."""

from __future__ import annotations

from pathlib import Path

import pytest

from logwright.config.archive import TopicArchive
from logwright.config.policies import load_policies
from logwright.errors import PolicyError

BEGIN = "version: 1\ntopics:\n"


def load(tmp_path: Path, entries: str) -> dict[str, TopicArchive]:
    (tmp_path / "policies.yml").write_text(BEGIN + entries)
    return load_policies(tmp_path).archives


def test_topics_with_an_archive(tmp_path: Path) -> None:
    """By name; the others have none."""
    archives = load(
        tmp_path,
        "  - {name: a, archive: {to: 's3://bucket/broker-1'}}\n"
        "  - {name: b}\n"
        "  - {name: c, archive: {to: 'file:///archive', late_after_ms: 5, bytes_per_second: 9}}\n",
    )
    assert ["a", "c"] == list(archives)
    assert TopicArchive(to="s3://bucket/broker-1", late_after_ms=3_600_000) == archives["a"]
    assert (5, 9) == (archives["c"].late_after_ms, archives["c"].bytes_per_second)


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ("{name: a, archive: {to: /archive}}", "must be a URL: s3://"),
        ("{name: a, archive: {to: 's3://'}}", "must be a URL: s3://"),
        ("{name: a, archive: {to: 's3://key:secret@bucket'}}", "must have no credentials"),
        ("{name: a, archive: {to: 's3://bucket?X-Amz-Signature=1'}}", "must have no credentials"),
        ("{name: a, archive: {late_after_ms: 5}}", "to"),
        ("{name: a, archive: {to: 's3://b/c', later: 1}}", "later"),
        ("{name: a, archive: 's3://b/c'}", "must be a mapping"),
        ("{pattern: 'a.*', archive: {to: 's3://b/c'}}", "needs an entry with a name"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, entry: str, problem: str) -> None:
    """With its place; and never the value of a URL that may have a secret."""
    with pytest.raises(PolicyError) as refused:
        load(tmp_path, f"  - {entry}\n")
    assert problem in str(refused.value)
    assert "policies.yml" in str(refused.value)
    assert "secret" not in str(refused.value).lower().replace("no credentials", "")
