"""The published scenarios of uncoordinated cleaning: found by the audit, prevented by a coordinated
clean.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from logwright.errors import PreconditionError
from tests.plain_consumer import consume
from tests.replicas import ReplicaDir
from tests.unit.audit.histories import HISTORIES, Cleaner, Pair, clean, diverged

CLEANERS = ["logwright", pytest.param("kafka", marks=pytest.mark.oracle)]


def committed(replica: ReplicaDir) -> dict[bytes, bytes]:
    """The newest committed value of each key, as plainly as possible."""
    values: dict[bytes, bytes | None] = {}
    for key, value, *_ in consume(replica.log(), "read_committed"):
        assert key is not None
        values[key] = value
    return {key: value for key, value in values.items() if value is not None}


@pytest.mark.parametrize("cleaner", CLEANERS)
@pytest.mark.parametrize("name", HISTORIES)
def test_it_is_found(name: str, cleaner: Cleaner, tmp_path: Path) -> None:
    """When the follower is back, the audit names the fault, the follower, and nothing else; and a
    consumer sees the difference.
    """
    history, kind = HISTORIES[name]
    pair = Pair.new(tmp_path, cleaner)
    history(pair)
    pair.fetch()
    audit = pair.audit()
    assert {kind: 1} == audit.counts
    (finding,) = audit.findings
    assert pair.follower.log_dir == finding.log_dir
    assert committed(pair.leader) != committed(pair.follower)


@pytest.mark.parametrize("name", HISTORIES)
def test_it_is_prevented(name: str, tmp_path: Path) -> None:
    """The same history with coordinated cleanings: nothing is found, before the follower is back
    and after, and both serve the same.
    """
    history, _ = HISTORIES[name]
    pair = Pair.new(tmp_path, "coordinated")
    history(pair)
    assert {} == pair.audit().counts
    pair.fetch()
    assert {} == pair.audit().counts
    assert committed(pair.leader) == committed(pair.follower)


@pytest.mark.parametrize("name", HISTORIES)
def test_what_no_replica_needs_is_removed(name: str, tmp_path: Path) -> None:
    """When all replicas are clean, coordinated cleanings remove tombstones and markers as well."""
    history, _ = HISTORIES[name]
    pair = Pair.new(tmp_path, "coordinated")
    history(pair)
    kept = len(pair.leader.batches())
    pair.fetch()
    for _ in range(4):
        pair.fill()
        pair.fetch()
        for replica, other in ((pair.leader, pair.follower), (pair.follower, pair.leader)):
            clean(replica, other, "coordinated", pair.now_ms)
        pair.now_ms += 100_000
    assert {} == pair.audit().counts
    assert kept > len(pair.leader.batches())
    assert pair.leader.batches() == pair.follower.batches()


def test_a_replica_that_is_away_is_warned_of(tmp_path: Path) -> None:
    """The key that will be back is found before the follower is."""
    history, _ = HISTORIES["replica away for longer than delete.retention.ms"]
    pair = Pair.new(tmp_path, "logwright")
    history(pair)
    assert {"resurrected key": 1} == pair.audit().counts


def test_a_replica_that_is_only_behind_is_none(tmp_path: Path) -> None:
    """What the leader has not removed yet, the follower gets."""
    for name, (history, _) in HISTORIES.items():
        pair = Pair.new(tmp_path / name, "coordinated")
        history(pair)
        assert pair.leader.end > pair.follower.end
        assert {} == pair.audit().counts


def test_diverged_replicas_are_found(tmp_path: Path) -> None:
    """An offset at which two replicas have different records."""
    pair = Pair.new(tmp_path, "logwright")
    diverged(pair)
    audit = pair.audit()
    assert {"diverged offset": 1} == audit.counts
    assert [1] == [finding.offset for finding in audit.findings]


def test_diverged_replicas_are_not_cleaned(tmp_path: Path) -> None:
    """No cleaning prevents that replicas diverge, but a coordinated one refuses them: it would
    remove what shows it.
    """
    pair = Pair.new(tmp_path, "coordinated")
    diverged(pair)
    before = pair.leader.batches()
    with pytest.raises(PreconditionError, match="another batch at offset 1 "):
        pair.leader.clean(pair.now_ms, others=[pair.follower])
    assert before == pair.leader.batches()
    pair.writer.batch(("secret-person", "secret-later"))
    pair.send()
    pair.leader.clean(pair.now_ms)
    assert "diverged offset" not in pair.audit().counts
