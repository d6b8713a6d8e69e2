"""What a certificate says, its page, and what changed since."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from logwright.erasure.certificate.canonical import canonical
from logwright.erasure.certificate.changes import changes_since
from logwright.erasure.certificate.make import Requested, make_certificate
from logwright.erasure.certificate.model import (
    Certificate,
    Replicas,
)
from logwright.erasure.find.result import Unsearched
from logwright.format.names import TopicPartition
from logwright.state.erasure_mark import Erasure
from tests.unit.erasure.certificate.samples import (
    GONE,
    ISSUE,
    LEFT,
    NOW_MS,
    SECRET,
    finding,
    sample,
    searched,
    small_directory,
)

NEVER = "never found: nothing that was searched shows that this key was ever here"
DELETED = "a log was deleted, and whether this key was in it is not known, topic t"


def states(certificate: Certificate) -> dict[str, str]:
    return {one.hmac: one.state for one in certificate.requests}


def test_what_remains_is_named(tmp_path: Path) -> None:
    """With file, rule and time; the request without a finding is gone."""
    made = sample(tmp_path / "logs", finding())
    assert {GONE: "gone", LEFT: "in time"} == states(made)
    (record,) = made.remains
    assert (1, 0, "t-0/00000000000000000000.log", 7, "max.compaction.lag.ms") == (
        record.request,
        record.directory,
        record.path.path,
        record.offset,
        record.rule,
    )
    assert NOW_MS + 3_600_000 == made.requests[1].gone_by_ms


def test_deadline(tmp_path: Path) -> None:
    """One that has passed, and one that will be missed."""
    assert "missed" == states(sample(tmp_path / "logs", finding(), deadline_ms=NOW_MS))[LEFT]
    late = sample(tmp_path / "logs", finding(gone_by_ms=None, rule=""))
    assert "will be late" == states(late)[LEFT]


def unsearched(topic: str, path: str = "t-0/00000000000000000000.log") -> Unsearched:
    partition = TopicPartition(topic, 0)
    return Unsearched(partition=partition, path=path, position=9, bytes=7, problem="a wrong CRC")


@pytest.mark.parametrize(
    ("topic", "state"), [("t", "not proved"), ("", "not proved"), ("u", "gone")]
)
def test_what_was_not_searched_proves_nothing(tmp_path: Path, topic: str, state: str) -> None:
    """It is named with its range and topic, and what could be in it is neither gone nor in time;
    requests of other topics are not concerned.
    """
    made = sample(tmp_path / "logs", finding(), unsearched=[unsearched(topic)])
    left = "in time" if state == "gone" else "not proved"
    assert {GONE: state, LEFT: left} == states(made)
    (unread,) = made.not_read
    assert (topic, 9, 7, "a wrong CRC") == (unread.topic, unread.position, unread.bytes, unread.why)


def test_a_passed_deadline_is_missed_whatever_was_searched(tmp_path: Path) -> None:
    """A record that was found is enough."""
    made = sample(tmp_path / "logs", finding(), deadline_ms=NOW_MS, unsearched=[unsearched("")])
    assert {GONE: "not proved", LEFT: "missed"} == states(made)


def test_a_file_that_the_search_does_not_mention(tmp_path: Path) -> None:
    """The account is held against the listing: what is in this alone was not searched."""
    looked = {"t-0/00000000000000000000.log": "searched", "meta.properties": "no records"}
    made = sample(tmp_path / "logs", looked=looked)
    assert {"not proved"} == set(states(made).values())
    assert ["t-0/.logwright/purge"] == [one.path.text for one in made.not_read]
    assert ["no records", "not searched", "searched"] == [one.looked for one in made.manifest]


def test_gone_needs_an_erasure_on_record(tmp_path: Path) -> None:
    """Without one it is not known that the key was ever there; without the topic nothing was
    searched for it.
    """
    root = tmp_path / "logs"
    assert {"not found"} == set(states(sample(root, erased={})).values())
    other = f"{NEVER}; erasures under another secret are on record, which cannot be compared"
    for topic, key, expected, why in (
        ("t", f"{SECRET}:{GONE[:16]}", "gone", "erased at once on 2023-11-14 22:13:20Z, topic t"),
        ("t", f"{SECRET}:{LEFT[:16]}", "not found", NEVER),
        ("t", f"{'0' * 16}:{GONE[:16]}", "not found", other),
        ("u", f"{SECRET}:{GONE[:16]}", "not found", NEVER),
    ):
        erased = {topic: {key: Erasure(NOW_MS, "at once")}}
        made = sample(root, erased=erased)
        assert (expected, why) == (states(made)[GONE], made.requests[0].why)
    nowhere = sample(root, topics=frozenset({"u"}))
    assert {"not proved"} == set(states(nowhere).values())
    assert {"no log of its topics was found"} == {one.why for one in nowhere.requests}


def test_a_deleted_log_does_not_make_a_key_gone(tmp_path: Path) -> None:
    """Nothing shows that the key was in it, so the state is what it is without; it is named, and an
    erasure that is on record counts with it as without.
    """
    root = tmp_path / "logs"
    for topic, deletion in (("t", f"; {DELETED}"), ("u", "")):
        made = sample(root, erased={}, deleted=frozenset({topic}))
        assert {("not found", f"{NEVER}{deletion}")} == {
            (request.state, request.why) for request in made.requests
        }
    both = sample(root, deleted=frozenset({"t"}))
    erased = "erased at once on 2023-11-14 22:13:20Z, topic t"
    assert {("gone", erased)} == {(request.state, request.why) for request in both.requests}


def test_an_earlier_certificate_is_on_record(tmp_path: Path) -> None:
    """The key whose records it lists is gone if they are; another is not, nor another topic."""
    root = tmp_path / "logs"
    before = sample(root, finding())
    assert {GONE: "not found", LEFT: "gone"} == states(
        sample(root, earlier=[before], topics=frozenset(), erased={})
    )
    other = sample(root, finding(topic="u"))
    after = sample(root, earlier=[other], erased={})
    assert {"not found"} == set(states(after).values())


def test_replicas_elsewhere_prove_nothing(tmp_path: Path) -> None:
    """Those of the request's topics."""
    root = small_directory(tmp_path / "logs")
    for topic, expected in (("t", "not proved"), ("u", "gone")):
        made = make_certificate(
            [Requested(hmac=GONE, topics="t")],
            [searched(root)],
            ISSUE,
            secret=SECRET,
            replicas=[Replicas(topic=topic, brokers=(2,))],
        )
        assert [expected] == [one.state for one in made.requests]


def test_a_path_that_is_not_utf8(tmp_path: Path) -> None:
    """It is in hex, as names of files are."""
    root = tmp_path / os.fsdecode(b"caf\xe9")
    made = sample(root)
    (directory,) = made.directories
    assert ("", str(root)) == (directory.path, directory.name.path)
    assert made == Certificate.model_validate_json(canonical(made.model_dump(mode="json")))


def test_a_link_proves_nothing(tmp_path: Path) -> None:
    """What it leads to was not searched."""
    sample(tmp_path / "logs")
    (tmp_path / "logs/link").symlink_to("/")
    assert {"not proved"} == set(states(sample(tmp_path / "logs")).values())


def test_changes_since(tmp_path: Path) -> None:
    """Added, removed, altered (also with the same size) and same."""
    root = tmp_path / "logs"
    made = sample(root)
    (nothing,) = changes_since(made, [root])
    assert not nothing.any
    assert 3 == nothing.same
    (root / "t-0/00000000000000000000.log").write_bytes(b"FIRST")
    (root / "t-0/.logwright/purge").unlink()
    (root / "new").touch()
    (root / "link").symlink_to("x")
    (changes,) = changes_since(made, [root])
    assert ("new",) == changes.added
    assert ("t-0/.logwright/purge",) == changes.removed
    assert ("t-0/00000000000000000000.log",) == changes.altered
    assert ["link"] == list(changes.not_read)
    assert (1, True) == (changes.same, changes.any)


def test_what_cannot_be_read_for_another_reason_has_changed(tmp_path: Path) -> None:
    """What could not be read before either counts as unchanged only for the same reason."""
    root = small_directory(tmp_path / "logs")
    for name in ("link", "other"):
        (root / name).symlink_to("x")
    made = sample(root)
    (root / "other").unlink()
    os.mkfifo(root / "other")
    (changes,) = changes_since(made, [root])
    assert {"other": "a named pipe"} == changes.not_read


def test_two_requests_for_one_key(tmp_path: Path) -> None:
    """A record that is found for the one is found for the other, if its topic is asked for."""
    root = tmp_path / "logs"
    small_directory(root)
    requests = [Requested(hmac=LEFT, topics=topics) for topics in ("t", "regex:.*", "u")]
    made = make_certificate(
        requests,
        [searched(root, finding(request=0))],
        ISSUE,
    )
    assert ["in time", "in time", "not proved"] == [one.state for one in made.requests]
    assert 1 == len(made.remains)


def test_a_record_of_an_unknown_topic_is_of_every_request(tmp_path: Path) -> None:
    """A table's files do not say their topic: no request of the key is gone."""
    root = small_directory(tmp_path / "logs")
    requests = [Requested(hmac=LEFT, topics=topics) for topics in ("t", "regex:.*", "u")]
    made = make_certificate(
        requests,
        [searched(root, finding(request=2, topic="", rule="", gone_by_ms=None))],
        ISSUE,
    )
    assert ["remains"] * 3 == [one.state for one in made.requests]


def test_a_byte_pattern(tmp_path: Path) -> None:
    """A value in another key's record is named, and belongs to none of the requests."""
    made = sample(tmp_path / "logs", finding(request=-1, kind="value", rule="", gone_by_ms=None))
    assert {"gone"} == set(states(made).values())
    assert [(-1, "value")] == [(one.request, one.kind) for one in made.remains]
