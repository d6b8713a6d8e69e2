"""The countdown to the deadlines, by topic and by log."""

from __future__ import annotations

from pathlib import Path

import pytest

from logwright.erasure.account import Account
from logwright.erasure.find.model import Finding
from logwright.erasure.outlook.cleanings import SWEEP
from logwright.erasure.outlook.countdown import (
    NEVER,
    UNMATCHED,
    Countdown,
    count_down,
    read_countdown,
    write_countdown,
)
from logwright.erasure.request import Request
from logwright.errors import UnreadableFile
from logwright.state.erasure_mark import Erasure
from tests.unit.erasure.certificate.samples import finding

NOW_MS = 1_700_000_000_000
HOUR_MS = 3_600_000


def request(name: str, topics: str, deadline_ms: int) -> Request:
    return Request(
        id=name,
        topics=topics,
        hmac=name.encode() * 32,
        filter=None,
        received_at_ms=0,
        deadline_ms=deadline_ms,
    )


def hit(number: int, topic: str = "t", **changed: object) -> Finding:
    return finding(**{"request": number, "topic": topic, **changed})


REQUESTS = [
    request("a", "t", NOW_MS + 2 * HOUR_MS),
    request("b", "regex:t|u", NOW_MS + HOUR_MS // 2),
    request("c", "u", NOW_MS),
    request("d", "t", NOW_MS - 1),
]
LATER = request("e", "u", NOW_MS + 3 * HOUR_MS)


def test_by_topic() -> None:
    """A pattern counts for each topic; a request of which nothing remains is not open."""
    findings = {"one": [hit(0), hit(1), hit(0, kind="tombstone")], "two": [hit(2, "u")]}
    made = count_down(REQUESTS, findings, ["t", "u", "v"], now_ms=NOW_MS, account=Account())
    assert ["u", "t"] == [row.topic for row in made.topics]
    u, t = made.topics
    assert (2, 1, 1, 1, 0, "missed") == (
        u.requests,
        u.open,
        u.records,
        u.missed,
        u.late,
        u.state,
    )
    assert NEVER == u.next_deadline_ms
    assert (3, 2, 3, 0, 1, "will be late") == (
        t.requests,
        t.open,
        t.records,
        t.missed,
        t.late,
        t.state,
    )
    assert NOW_MS + HOUR_MS // 2 == t.next_deadline_ms
    assert NOW_MS + HOUR_MS == t.gone_by_ms
    assert (4, 0, 1, 0) == (made.requests, made.gone, made.not_found, made.not_read)
    assert 4 == made.records


def test_by_log() -> None:
    """Records by kind, the first deadline, and the records that are late."""
    findings = {
        "one": [
            hit(0),
            hit(0, kind="live", gone_by_ms=None),
            hit(1, kind="tombstone"),
            hit(3, partition=1, kind="aborted"),
        ]
    }
    made = count_down(REQUESTS, findings, ["t"], now_ms=NOW_MS, account=Account())
    second, first = made.logs
    assert (1, 1, 1, 0, 0, 3) == (
        first.live,
        first.superseded,
        first.tombstones,
        first.aborted,
        first.values,
        first.records,
    )
    assert (NOW_MS + HOUR_MS // 2, NEVER) == (first.deadline_ms, first.gone_by_ms)
    assert (0, 2) == (first.missed, first.late)
    assert ("one", 1, 1, NOW_MS + HOUR_MS) == (
        second.directory,
        second.aborted,
        second.missed,
        second.gone_by_ms,
    )


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, 0),
        ({"gone_by_ms": NOW_MS + 2 * HOUR_MS + 1}, 1),
        ({"gone_by_ms": None}, 1),
        ({"rule": SWEEP}, 1),
        ({"gone_by_ms": None, "kind": "live"}, 0),
        ({"gone_by_ms": None, "kind": "tombstone"}, 1),
        ({"gone_by_ms": None, "kind": "aborted"}, 1),
        ({"gone_by_ms": None, "place": "deleted"}, 0),
        ({"request": 3}, 1),
    ],
)
def test_what_a_sweep_is_for(changed: dict[str, object], expected: int) -> None:
    """What a cleaning can remove that is missed or late, or would be without it."""
    findings = {"one": [hit(**{"number": changed.get("request", 0), **changed})]}  # type: ignore[arg-type]  # a number
    made = count_down(REQUESTS, findings, ["t"], now_ms=NOW_MS, account=Account())
    assert [expected] == [row.to_sweep for row in made.logs]


def account(*unsearched: str) -> Account:
    """One with all erasures of all requests on record."""
    erased = {f":{row.hmac.hex()[:16]}": Erasure(0, "at once") for row in (*REQUESTS, LATER)}
    return Account(
        topics=frozenset({"t", "u"}), erased={"t": erased, "u": erased}, unsearched=unsearched
    )


def test_what_was_not_searched_is_not_gone() -> None:
    """Nor in time, in its topic; both checks see it, by the deadline."""
    made = count_down(
        [*REQUESTS, LATER], {"one": [hit(0)]}, [], now_ms=NOW_MS, account=account("t")
    )
    assert (2, 0, 1) == (made.gone, made.not_found, made.not_read)
    states = {row.topic: (row.state, row.not_proved, row.past_not_proved) for row in made.topics}
    assert {"t": ("not proved", 3, 1), "u": ("gone", 0, 0)} == states
    assert ["t"] == [row.topic for row in made.missed] == [row.topic for row in made.late]


def test_a_place_of_any_topic_that_was_not_searched() -> None:
    """It concerns every topic and every request."""
    made = count_down(REQUESTS, {"one": []}, [], now_ms=NOW_MS, account=account(""))
    assert (0, 0, 1) == (made.gone, made.not_found, made.not_read)
    assert {"not proved"} == {row.state for row in made.topics}
    assert () == made.logs


def test_nothing_remains() -> None:
    """A deadline of yesterday is met, then; gone is what has an erasure on record."""
    made = count_down(REQUESTS, {"one": []}, ["t", "u"], now_ms=NOW_MS, account=account())
    assert {"gone"} == {row.state for row in made.topics}
    assert (4, (), ()) == (made.gone, made.missed, made.late)
    made = count_down(REQUESTS, {"one": []}, ["t", "u"], now_ms=NOW_MS, account=Account())
    assert {"not found"} == {row.state for row in made.topics}
    assert (0, 4, (), ()) == (made.gone, made.not_found, made.missed, made.late)


def test_a_deleted_log_does_not_make_a_key_gone() -> None:
    """Nothing shows that the key was in it."""
    deleted = Account(topics=frozenset({"t", "u"}), deleted=frozenset({"t", "u"}))
    made = count_down(REQUESTS, {"one": []}, ["t", "u"], now_ms=NOW_MS, account=deleted)
    assert {"not found"} == {row.state for row in made.topics}
    assert (0, 4) == (made.gone, made.not_found)


def test_a_request_that_matches_no_topic() -> None:
    """Nothing was searched for it, so neither check passes."""
    both = [request("a", "x", NOW_MS - 1), request("b", "y", NOW_MS + 1)]
    made = count_down(both, {"one": []}, ["t"], now_ms=NOW_MS, account=Account())
    (row,) = made.topics
    assert (UNMATCHED, 2, 2, 1, "not proved") == (
        row.topic,
        row.requests,
        row.not_proved,
        row.past_not_proved,
        row.state,
    )
    assert ((row,), (row,), 0, 0) == (made.missed, made.late, made.gone, made.not_found)


def test_a_record_of_an_unknown_topic() -> None:
    """It is of each topic's requests for the key."""
    both = [request("a", "t", NOW_MS + 1), request("a", "u", NOW_MS + 1)]
    findings = {"one": [hit(0, "", partition=-1, gone_by_ms=None)]}
    made = count_down(both, findings, ["t", "u"], now_ms=NOW_MS, account=account())
    assert {("", "will be late"), ("t", "will be late"), ("u", "will be late")} == {
        (row.topic, row.state) for row in made.topics
    }
    assert (0, 1) == (made.gone, made.records)


def test_file(tmp_path: Path) -> None:
    """What is written is read; there is none before; a damaged one is refused."""
    path = tmp_path / "storage/countdown.json"
    assert read_countdown(path) is None
    made = count_down(
        REQUESTS, {"one": [hit(0), hit(2, "u")]}, ["t", "u"], now_ms=NOW_MS, account=Account()
    )
    write_countdown(path, made)
    write_countdown(path, made)
    assert made == read_countdown(path)
    assert ["countdown.json"] == [one.name for one in path.parent.iterdir()]
    path.write_text('{"looked_ms": "x"}')
    with pytest.raises(UnreadableFile):
        read_countdown(path)
    assert Countdown(looked_ms=1) == Countdown(looked_ms=1, topics=(), logs=())


def test_two_requests_for_one_key() -> None:
    """What a search finds of the one is not gone for the other."""
    both = [REQUESTS[0], request("a", "regex:t|u", NOW_MS)]
    made = count_down(both, {"one": [hit(0)]}, ["t", "u"], now_ms=NOW_MS, account=Account())
    t, u = sorted(made.topics, key=lambda row: row.topic)
    assert ("not found", 1) == (u.state, u.requests)
    assert ("missed", 1, 2) == (t.state, t.missed, t.open)
    assert 0 == made.gone
    assert [NOW_MS] == [row.deadline_ms for row in made.logs]


def test_nothing_counts_as_searched_without_an_account() -> None:
    """Then no request is gone, or not found, or in time."""
    made = count_down(REQUESTS, {"one": []}, ["t", "u", "v"], now_ms=NOW_MS)
    assert (0, 0, 1) == (made.gone, made.not_found, made.not_read)
    assert {"not proved"} == {one.state for one in made.topics if one.state != "missed"}
