"""Who leads the quorum, as a node has noted it: `org.apache.kafka.raft.QuorumState`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from logwright.errors import CorruptLogError
from logwright.metadata.quorum import QUORUM_STATE, QuorumLeader, read_quorum_leader

VERSION_0 = (
    '{"clusterId":"","leaderId":1,"leaderEpoch":7,"votedId":-1,"appliedOffset":0,'
    '"currentVoters":[{"voterId":1}],"data_version":0}'
)
"""As a broker of Kafka 4.4 with `controller.quorum.voters` wrote it."""
VERSION_1 = '{"leaderId":-1,"leaderEpoch":8,"votedId":2,"votedDirectoryId":"A","data_version":1}'


@pytest.mark.parametrize(
    ("text", "expected"),
    [(VERSION_0, QuorumLeader(7, 1)), (VERSION_1, QuorumLeader(8, None)), (None, None)],
)
def test_both_versions(tmp_path: Path, text: str | None, expected: QuorumLeader | None) -> None:
    """A negative id is none: of an epoch in which the node has only voted."""
    if text is not None:
        (tmp_path / QUORUM_STATE).write_text(text)
    assert expected == read_quorum_leader(tmp_path)


@pytest.mark.parametrize("text", ["", "[]", "{}", VERSION_0[:40], json.dumps({"leaderId": "x"})])
def test_anything_else_is_refused(tmp_path: Path, text: str) -> None:
    """By its path."""
    (tmp_path / QUORUM_STATE).write_text(text)
    with pytest.raises(CorruptLogError, match="is not the state of a quorum") as refused:
        read_quorum_leader(tmp_path)
    assert str(tmp_path / QUORUM_STATE) in str(refused.value)
