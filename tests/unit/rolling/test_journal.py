"""The journal is a hint that is written durably; the lock keeps a second run away."""

from __future__ import annotations

from pathlib import Path

import pytest

from logwright.errors import PreconditionError
from logwright.rolling.journal import only_run, read_journal, write_journal
from logwright.rolling.model import Journal


def test_what_is_written_is_read(tmp_path: Path) -> None:
    """A round that has nothing to continue leaves no file."""
    path = tmp_path / "rolling.json"
    for journal in (Journal(), Journal(done=(3, 1), broker=2, step="start"), Journal(done=(1,))):
        write_journal(path, journal)
        assert journal == read_journal(path)
    write_journal(path, Journal())
    assert not path.exists()


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "null",
        '{"done": 1, "broker": 2, "step": "stop"}',
        '{"done": ["1"], "broker": 2, "step": "stop"}',
        '{"done": [], "broker": "2", "step": "stop"}',
        '{"done": [], "broker": 2, "step": "fly"}',
        '{"done": [], "broker": 2, "step": []}',
    ],
)
def test_a_broken_hint_is_not_used(tmp_path: Path, content: str) -> None:
    """It is as if there was none: the cluster and the locks are looked at anyway."""
    path = tmp_path / "rolling.json"
    path.write_text(content)
    assert Journal() == read_journal(path)


def test_a_second_run_is_refused(tmp_path: Path) -> None:
    """While the first one is at work, and not after it."""
    state = tmp_path / "new" / "state"
    with only_run(state), pytest.raises(PreconditionError, match="another run"), only_run(state):
        pass
    with only_run(state):
        assert [".rolling.lock"] == [path.name for path in state.iterdir()]
